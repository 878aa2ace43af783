//! Token counts of messages without usage from a provider.
//!
//! A count depends on three rules: the size of a text in units ([`TextUnits`]), the texts of a message that count
//! ([`CountPer`], one file each), and the conversion of units to tokens. Records, steps and empty texts are never seen
//! by a model and have size 0, as has a message without other parts. All sizes are additive, so that a running total
//! can be kept beside a history.

mod classes;
mod contents;
mod counter;
mod counts;
mod json;
mod messages;
mod shown;
mod sums;
pub mod units;
mod words;

pub(super) use contents::{Content, contents};
pub use counter::Counter;
pub use counts::{basis, count};
pub use units::{length, length_per_token, text_units, tokenize};

use super::strategy::CountStrategy;
use super::{CountPer, Counting, LengthUnit, Policy, TextUnits};
use crate::model::message::Role;
use crate::model::part::{MEDIA_GROWTH_BYTES, PART_GROWTH_BYTES, Part, PartBody};
use crate::model::view::{PrunedPart, SourceMessage, ViewMessage};
use messages::{bounds, source_units, view_units};
pub(super) use shown::estimated_output;
use shown::shown;
use std::ops::Range;
use sums::{addend, list_tokens, tokens_of};
use units::{ShownPart, is_encoded, text_units_above};

/// The growth of a history, in bytes as counted by `PartBody::growth_bytes`, up to which no view grows by `tokens`
/// tokens.
///
/// A byte has at most as many units as its escape in JSON has characters, and a message has at least one part.
pub fn growth_bytes(counting: &Counting, tokens: i64) -> i64 {
    const ESCAPE_UNITS: i64 = 6;
    let Counting { text, per, media, .. } = counting;
    let words = match text {
        TextUnits::Classes => classes::BYTE_MAX,
        TextUnits::Mixed { other_units, .. } => i64::from(*other_units),
        TextUnits::Length | TextUnits::Bpe { .. } | TextUnits::Vocabulary { .. } => 1,
    };
    let around = match per {
        CountPer::Named(named) => named.count().map_or(0, CountStrategy::message_units),
        CountPer::Parts { part_units } => i64::from(*part_units),
        CountPer::Message | CountPer::JsonRange | CountPer::Contents | CountPer::Characters => 0,
    };
    let media = [media.image_units, media.document_units, media.other_units, media.attachment_units]
        .into_iter()
        .max()
        .map_or(0, i64::from);
    let most = ESCAPE_UNITS.max(words).max(around / PART_GROWTH_BYTES + 1).max(media / MEDIA_GROWTH_BYTES + 1);
    (tokens.saturating_mul(i64::from(counting.units_per_token.max(1))) / most).max(1)
}

/// The tokens of a text.
pub fn estimate_text(counting: &Counting, text: &str) -> i64 {
    tokens_of(counting, text_units(counting, text))
}

/// The tokens of a text, if they are at most `most`.
pub fn estimate_text_within(counting: &Counting, text: &str, most: i64) -> Option<i64> {
    let enough = most.saturating_add(1).saturating_mul(i64::from(counting.units_per_token.max(1)));
    let tokens = tokens_of(counting, text_units_above(counting, text, enough));
    (tokens <= most).then_some(tokens)
}

/// The tokens of a message as a view shows it.
pub fn estimate_message(policy: &Policy, message: &ViewMessage) -> i64 {
    tokens_of(&policy.counting, view_units(policy, message))
}

/// The tokens of several messages as a view shows them.
pub fn estimate_messages<'a>(policy: &Policy, messages: impl IntoIterator<Item = &'a ViewMessage>) -> i64 {
    let estimates = RangeEstimate::new(policy, messages.into_iter().map(|message| view_units(policy, message)));
    estimates.tokens(0..estimates.before.len() - 1)
}

/// The same for the view of stored messages, whose counts are used if the view shows them unchanged.
pub fn estimate_view<'a>(
    policy: &Policy,
    messages: impl IntoIterator<Item = &'a ViewMessage>,
    sources: impl IntoIterator<Item = &'a SourceMessage>,
) -> i64 {
    let mut estimate = RunningEstimate::default();
    estimate.extend(policy, messages, sources);
    estimate.tokens(policy)
}

/// The estimate of a view whose end changes.
#[derive(Debug, Clone, Default)]
pub struct RunningEstimate {
    /// Running sums including each message: tokens or units, depending on the place of the rounding.
    sums: Vec<i64>,
}

impl RunningEstimate {
    /// Adds messages that show these stored ones.
    pub fn extend<'a>(
        &mut self,
        policy: &Policy,
        messages: impl IntoIterator<Item = &'a ViewMessage>,
        sources: impl IntoIterator<Item = &'a SourceMessage>,
    ) {
        let counted = counts::by_id(sources);
        let mut sum = self.sums.last().copied().unwrap_or(0);
        self.sums.extend(messages.into_iter().map(|message| {
            let units = counts::of_view(&counted, message).unwrap_or_else(|| view_units(policy, message));
            sum = sum.saturating_add(addend(&policy.counting, units));
            sum
        }));
    }

    /// Adds stored messages.
    pub fn extend_stored(&mut self, policy: &Policy, sources: &[SourceMessage]) {
        let mut sum = self.sums.last().copied().unwrap_or(0);
        self.sums.extend(sources.iter().map(|source| {
            sum = sum.saturating_add(addend(&policy.counting, source_units(policy, source)));
            sum
        }));
    }

    /// Adds the messages of a longer estimate; those that are not counted have size 0.
    pub fn extend_like(&mut self, longer: &Self, is_counted: impl Fn(usize) -> bool) {
        let mut sum = self.sums.last().copied().unwrap_or(0);
        for (index, whole) in longer.sums.iter().enumerate().skip(self.sums.len()) {
            let before = index.checked_sub(1).map_or(0, |before| longer.sums[before]);
            sum = sum.saturating_add(if is_counted(index) { whole - before } else { 0 });
            self.sums.push(sum);
        }
    }

    /// The tokens of the first `count` messages.
    pub fn tokens_of(&self, policy: &Policy, count: usize) -> i64 {
        let sum = count.checked_sub(1).and_then(|last| self.sums.get(last)).copied().unwrap_or(0);
        list_tokens(&policy.counting, sum)
    }

    /// Keeps only the first `count` messages.
    pub fn truncate(&mut self, count: usize) {
        self.sums.truncate(count);
    }

    /// The tokens of all messages and of one more.
    pub fn tokens_with(&self, policy: &Policy, message: &ViewMessage) -> i64 {
        let sum = self.sums.last().copied().unwrap_or(0);
        list_tokens(&policy.counting, sum.saturating_add(addend(&policy.counting, view_units(policy, message))))
    }

    /// The tokens of all messages.
    pub fn tokens(&self, policy: &Policy) -> i64 {
        list_tokens(&policy.counting, self.sums.last().copied().unwrap_or(0))
    }
}

/// The tokens of a stored message as a view will show it: pruned and truncated, but not paired.
pub fn estimate_source(policy: &Policy, message: &SourceMessage) -> i64 {
    tokens_of(&policy.counting, source_units(policy, message))
}

/// The tokens of several stored messages as a view will show them: pruned and truncated, but not paired.
pub fn estimate_sources(policy: &Policy, sources: &[SourceMessage]) -> i64 {
    let estimates = sources.iter().map(|source| addend(&policy.counting, source_units(policy, source)));
    list_tokens(&policy.counting, estimates.fold(0, i64::saturating_add))
}

/// The tokens of some parts of a stored message, by index, as if it had no others.
pub fn estimate_parts(policy: &Policy, source: &SourceMessage, parts: &[usize]) -> i64 {
    if let [part] = parts
        && let Some(counts) = counts::of_part(source, *part)
    {
        return tokens_of(&policy.counting, counts.alone);
    }
    let parts = parts.iter().filter_map(|&part| source.message.parts.get(part));
    let shown: Vec<ShownPart<'_>> =
        parts.filter_map(|part| shown(policy, &part.body, source.pruned_part(part.id))).collect();
    tokens_of(&policy.counting, messages::units(&policy.counting, source.message.role, &shown))
}

/// The tokens of one part as a view will show it, pruned and truncated, in a message of its own. `tool` is the tool of
/// a result; some agents count its name with the result.
pub fn estimate_part(
    policy: &Policy,
    role: Role,
    body: &PartBody,
    pruned: Option<&PrunedPart>,
    tool: Option<&str>,
) -> i64 {
    let shown: Vec<ShownPart<'_>> = shown(policy, body, pruned).into_iter().collect();
    let named = tool.filter(|_| policy.counting.per == CountPer::Contents);
    let name = named.map_or(0, |tool| length(LengthUnit::Utf16, tool) as i64);
    tokens_of(&policy.counting, messages::units(&policy.counting, role, &shown).saturating_add(name))
}

/// The same for a part of a stored message, as shortened by marks.
pub fn estimate_part_of(policy: &Policy, source: &SourceMessage, part: &Part, tool: Option<&str>) -> i64 {
    match counts::count_part(source, part) {
        Some(counts) => {
            let named = tool.filter(|_| policy.counting.per == CountPer::Contents);
            let name = named.map_or(0, |tool| length(LengthUnit::Utf16, tool) as i64);
            tokens_of(&policy.counting, counts.alone.saturating_add(name))
        }
        None => estimate_part(policy, source.message.role, &part.body, source.pruned_part(part.id), tool),
    }
}

/// The tokens of `words`, text of a part of a stored message. It must be the text that counts in a prune if no mark
/// shortens the part, because stored counts are used then.
pub fn estimate_words_of(policy: &Policy, source: &SourceMessage, part: &Part, words: &str) -> i64 {
    let is_output = matches!(*part.body, PartBody::ToolResult(_));
    match counts::count_part(source, part).filter(|_| is_output) {
        Some(counts) => tokens_of(&policy.counting, counts.words),
        None => estimate_text(&policy.counting, words),
    }
}

/// The sizes of a list of messages, as running sums for the estimate of any range.
#[derive(Debug, Clone)]
pub struct RangeEstimate<'a> {
    counting: &'a Counting,
    /// Sums before each index: tokens or units, depending on the place of the rounding.
    before: Vec<i64>,
}

/// The tokens that a list of stored messages loses by truncations and omissions. `after` has the messages of `before`
/// in the same order, without the omitted ones.
pub fn freed(policy: &Policy, before: &[SourceMessage], after: &[SourceMessage]) -> i64 {
    freed_by(policy, before, after, source_units)
}

/// True if these truncations and omissions free more than `limit` tokens. Shortened texts are encoded only if the
/// result depends on their number of tokens.
pub fn frees_more_than(policy: &Policy, before: &[SourceMessage], after: &[SourceMessage], limit: i64) -> bool {
    let is_above = |units: fn(&Policy, &SourceMessage) -> i64| freed_by(policy, before, after, units) > limit;
    let least = |policy: &Policy, source: &SourceMessage| bounds(policy, source).0;
    (!is_encoded(&policy.counting) || is_above(least)) && is_above(source_units)
}

/// The same with another size of shortened messages.
fn freed_by(
    policy: &Policy,
    before: &[SourceMessage],
    after: &[SourceMessage],
    units_after: impl Fn(&Policy, &SourceMessage) -> i64,
) -> i64 {
    let counting = &policy.counting;
    let contribution = |source: &SourceMessage| addend(counting, source_units(policy, source));
    let is_same = |before: &SourceMessage, after: &SourceMessage| before.message.revision == after.message.revision;
    let mut rest = after.iter().peekable();
    let mut freed = 0_i64;
    for source in before {
        match rest.next_if(|after| is_same(source, after)) {
            Some(after) if after.pruned == source.pruned => {}
            Some(after) => {
                let shorter = addend(counting, units_after(policy, after));
                freed = freed.saturating_add(contribution(source)).saturating_sub(shorter);
            }
            None => freed = freed.saturating_add(contribution(source)),
        }
    }
    if counting.per == CountPer::Message {
        return freed;
    }
    // If the sum is rounded, the size of the other messages affects the rounding.
    let whole = before.iter().map(contribution).fold(0, i64::saturating_add);
    list_tokens(counting, whole) - list_tokens(counting, whole.saturating_sub(freed))
}

impl<'a> RangeEstimate<'a> {
    /// The sizes of stored messages as a view will show them.
    pub fn from_messages(policy: &'a Policy, messages: &[SourceMessage]) -> Self {
        Self::new(policy, messages.iter().map(|message| source_units(policy, message)))
    }

    fn new(policy: &'a Policy, units: impl Iterator<Item = i64>) -> Self {
        let counting = &policy.counting;
        let mut before = vec![0];
        let mut sum = 0_i64;
        for units in units {
            sum = sum.saturating_add(addend(counting, units));
            before.push(sum);
        }
        Self { counting, before }
    }

    /// The tokens of a range of messages.
    pub fn tokens(&self, range: Range<usize>) -> i64 {
        list_tokens(self.counting, self.before[range.end] - self.before[range.start])
    }
}

#[cfg(test)]
mod tests;
