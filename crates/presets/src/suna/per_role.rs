//! Truncates the messages of each role in turn, and replaces older ones by a note, until the messages are within the
//! target.
//!
//! The strategy works in tiers. A tier is skipped if the messages are within the target by then; the passes of one tier
//! are always applied together. If all tiers were not enough, they are applied again with half of every measure, at
//! most `halvings` times.

use super::parameters::{Author, Pass, PerRole, ResultSigns};
use super::texts::Texts;
use crate::model::ids::MessageId;
use crate::model::message::Role;
use crate::model::part::PartBody;
use crate::model::truncation::Removals;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::strategy::{OmissionBound, OmissionStrategy, Parameters};
use crate::policy::tokens::Counter;
use crate::policy::violation::Check;
use crate::policy::{Policy, overflow};
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// Maximum length of the newest messages, for each token of the target for all messages.
const NEWEST_UNITS_PER_TOKEN: i64 = 2;
/// Maximum length of the newest messages, whatever the target is.
const NEWEST_UNITS_MAX: usize = 100_000;
/// Units of the maximum length that are reserved for the texts between and after the ends.
const AROUND_UNITS: usize = 150;
/// Text between the ends of one of the newest messages.
const MIDDLE: &str = "\n\n... (middle truncated) ...\n\n";
/// Text after the ends.
const AFTER: &str = "\n\nThis message is too long, repeat relevant information in your response to remember it";

impl Parameters for PerRole {
    const NAME: &'static str = "per_role";

    fn check(&self, check: &mut Check, path: &str) {
        check.share(self.target_ratio, &format!("{path}.target_ratio"));
        check.that(!self.tiers.is_empty(), &format!("{path}.tiers"), "must have a tier");
        check.that(self.halvings <= 31, &format!("{path}.halvings"), "must be at most 31");
        for (index, tier) in self.tiers.iter().enumerate() {
            for (position, pass) in tier.passes.iter().enumerate() {
                check.not_negative(pass.above_tokens, &format!("{path}.tiers.{index}.passes.{position}.above_tokens"));
            }
        }
    }
}

impl OmissionStrategy for PerRole {
    fn removals(&self, policy: &Policy, window: &ModelWindow, messages: &[SourceMessage]) -> Removals {
        removals(self, policy, window, messages)
    }

    fn bound(&self) -> OmissionBound {
        OmissionBound::Limit(self.target_ratio)
    }
}

/// Shortens messages until they are within the target. Open messages stay as they are.
fn removals(rule: &PerRole, policy: &Policy, window: &ModelWindow, messages: &[SourceMessage]) -> Removals {
    let Some(goal) = overflow::message_target(policy, window, rule.target_ratio) else { return Removals::default() };
    let counter = Counter::from_messages(policy, messages);
    let mut copy = WorkingCopy { policy, messages, written: Vec::new(), changed: BTreeMap::new(), counter };
    if !copy.exceeds(goal) {
        return Removals::default();
    }
    copy.written = messages.iter().map(MessageBrief::from_source).collect();
    let json: Vec<usize> = match rule.json_starts_over {
        true => (0..messages.len()).filter(|&index| copy.is_json_object(index)).collect(),
        false => Vec::new(),
    };
    for round in 0..=rule.halvings.min(31) {
        copy.restore(&json);
        for tier in &rule.tiers {
            if copy.exceeds(goal) {
                tier.passes.iter().for_each(|pass| copy.walk(rule, pass, round, goal));
            }
        }
        if round < rule.halvings && !copy.exceeds(goal) {
            return copy.removals();
        }
    }
    copy.restore(&json);
    copy.removals()
}

/// The messages and their changes so far.
struct WorkingCopy<'a> {
    policy: &'a Policy,
    messages: &'a [SourceMessage],
    /// The messages in brief: the walks read few of them in full.
    written: Vec<MessageBrief>,
    changed: BTreeMap<usize, SourceMessage>,
    counter: Counter<'a>,
}

/// A message as it was written, in brief.
struct MessageBrief {
    role: Role,
    brings_results: bool,
    /// The length of its texts in bytes, while nothing shortens it: the length that a view shows, or more.
    bytes: Option<usize>,
}

impl MessageBrief {
    fn from_source(source: &SourceMessage) -> Self {
        let message = &source.message;
        let mut written = Self { role: message.role, brings_results: false, bytes: None };
        let mut bytes = 0;
        for part in &message.parts {
            match &*part.body {
                PartBody::Text(text) => bytes += text.len(),
                PartBody::ToolResult(result) => {
                    written.brings_results = true;
                    bytes += result.output.len();
                }
                PartBody::Reasoning(_)
                | PartBody::ToolCall(_)
                | PartBody::Media(_)
                | PartBody::Marker(_)
                | PartBody::Step(_)
                | PartBody::Opaque(_)
                | PartBody::Record(_) => {}
            }
        }
        written.bytes = source.pruned.is_empty().then_some(bytes);
        written
    }
}

impl WorkingCopy<'_> {
    fn walk(&mut self, rule: &PerRole, pass: &Pass, round: u32, goal: i64) {
        let above = pass.above_tokens >> round;
        if !(0..self.messages.len()).any(|index| self.exceeds_alone(index, above)) {
            return;
        }
        let mut met = 0_u32;
        for index in (0..self.messages.len()).rev() {
            // Short messages need only be read as long as the newest ones are counted.
            let is_short = !self.exceeds_alone(index, above);
            if is_short && met > pass.newest_messages || !self.is_of(rule, pass.author, index) {
                continue;
            }
            met = met.saturating_add(1);
            let is_open = self.messages[index].message.sealed_revision.is_none();
            if is_open || is_short {
                continue;
            }
            let is_newest = met <= pass.newest_messages;
            let keep_units = (pass.keep_units >> round) as usize;
            if !is_newest && pass.keep_units > 0 && self.is_within(index, keep_units) {
                continue;
            }
            let note = |id: MessageId| pass.note.replace("{id}", &id.to_string());
            self.change(index, |id, texts| match pass.truncates_newest {
                true if is_newest => keep_both_ends(goal, texts),
                false if is_newest => {}
                _ if pass.keep_units == 0 => texts.replace(&note(id)),
                _ => texts.keep_head(keep_units, &note(id)),
            });
        }
    }

    fn is_of(&self, rule: &PerRole, author: Author, index: usize) -> bool {
        let written = &self.written[index];
        match author {
            Author::User => written.role == Role::User,
            Author::Assistant => written.role == Role::Assistant,
            Author::Tools => {
                written.role == Role::Tool
                    || written.brings_results
                    || !rule.results.is_empty()
                        && rule.results.are_in(&Texts::from_source(self.policy, self.current(index)))
            }
        }
    }

    /// True if the messages with their changes have more tokens than `limit`.
    fn exceeds(&mut self, limit: i64) -> bool {
        let Self { messages, changed, counter, .. } = self;
        counter.exceeds(limit, |index| changed.get(&index).unwrap_or(&messages[index]))
    }

    /// True if one message with its changes has more tokens than `limit`.
    fn exceeds_alone(&mut self, index: usize, limit: i64) -> bool {
        let Self { messages, changed, counter, .. } = self;
        counter.exceeds_alone(index, limit, || changed.get(&index).unwrap_or(&messages[index]))
    }

    fn current(&self, index: usize) -> &SourceMessage {
        self.changed.get(&index).unwrap_or(&self.messages[index])
    }

    /// True if a message is not longer than this. False if that is not obvious from its bytes.
    fn is_within(&self, index: usize, units: usize) -> bool {
        self.policy.truncate.is_none() && self.written[index].bytes.is_some_and(|bytes| bytes <= units)
    }

    fn is_json_object(&self, index: usize) -> bool {
        let texts = Texts::from_source(self.policy, &self.messages[index]);
        texts.only().is_some_and(|text| fields(text).is_some())
    }

    fn change(&mut self, index: usize, shorten: impl FnOnce(MessageId, &mut Texts<'_>)) {
        let source = self.current(index);
        let mut texts = Texts::from_source(self.policy, source);
        shorten(source.message.id, &mut texts);
        if let Some(changed) = texts.changed(source) {
            self.counter.recount(index, &changed);
            self.changed.insert(index, changed);
            self.written[index].bytes = None;
        }
    }

    /// Reverts the changes of the given messages.
    fn restore(&mut self, indexes: &[usize]) {
        for &index in indexes {
            if self.changed.remove(&index).is_some() {
                self.counter.recount(index, &self.messages[index]);
            }
        }
    }

    fn removals(self) -> Removals {
        let mut parts = Vec::new();
        for (index, changed) in self.changed {
            let before = &self.messages[index];
            for pruned in changed.pruned {
                if before.pruned_part(pruned.part) != Some(&pruned) {
                    parts.extend(pruned.truncation.map(|truncation| (pruned.part, truncation)));
                }
            }
        }
        Removals { parts, omitted: Vec::new() }
    }
}

/// Truncates the newest messages; an odd number of units leaves one more at the end.
fn keep_both_ends(goal: i64, texts: &mut Texts<'_>) {
    let room = usize::try_from(goal.saturating_mul(NEWEST_UNITS_PER_TOKEN)).unwrap_or(0).min(NEWEST_UNITS_MAX);
    if texts.length() > room {
        let kept = room.saturating_sub(AROUND_UNITS);
        texts.keep_both_ends([kept / 2, kept - kept / 2], MIDDLE, AFTER);
    }
}

impl ResultSigns {
    fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.fields.is_empty() && self.json_texts.is_empty()
    }

    fn are_in(&self, texts: &Texts<'_>) -> bool {
        let has = |text: &str, words: &[String]| words.iter().any(|word| text.contains(word.as_str()));
        if texts.shown().any(|text| has(text, &self.texts)) {
            return true;
        }
        let Some(text) = texts.only() else { return false };
        // Parsing JSON is the most expensive check, and most texts are not JSON.
        has(text, &self.fields) | has(text, &self.json_texts)
            && fields(text).is_some_and(|fields| {
                self.fields.iter().any(|name| fields.contains_key(name)) || has(text, &self.json_texts)
            })
    }
}

/// The fields of a text that is a JSON object; none if it is not.
fn fields(text: &str) -> Option<BTreeMap<String, IgnoredAny>> {
    if text.trim_ascii_start().starts_with('{') { serde_json::from_str(text).ok() } else { None }
}

#[cfg(test)]
mod tests;
