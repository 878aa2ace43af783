//! Token counts of messages without usage from a provider.
//!
//! A count depends on three rules: the size of a text in units ([`TextUnits`]), the texts of a message that count
//! ([`CountPer`], one file each), and the conversion of units to tokens. Records, steps and empty texts are never seen
//! by a model and have size 0, as has a message without other parts. All sizes are additive, so that a running total
//! can be kept beside a history.

mod chat;
mod contents;
mod counts;
mod envelope;
mod json;
mod said;
mod counter;
mod words;

pub use chat::ChatFormat;
pub(super) use contents::{Content, contents};
pub use counter::Counter;
pub use counts::{basis, count};
pub use envelope::{Detail, Envelope};
pub use said::{NoteEnd, Said};

use super::bpe::{self, Encoding, Tokenized, Vocabulary};
use super::{Policy, truncate};
use crate::model::message::Role;
use crate::model::part::{MEDIA_GROWTH_BYTES, Media, Opaque, PART_GROWTH_BYTES, Part, PartBody, ToolCall, ToolResult};
use crate::model::usage::Usage;
use crate::model::view::{Pruned, SourceMessage, ViewKind, ViewMessage};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The conversion of text to tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counting {
    /// The unit of lengths, also for truncation.
    pub unit: LengthUnit,
    /// The size of a text, in units.
    pub text: TextUnits,
    /// Units per token. At least 1.
    pub units_per_token: u32,
    /// The rounding of a fraction of a token.
    pub rounding: Rounding,
    /// The texts of a message that count, and the place of the rounding.
    pub per: CountPer,
    /// The size of media.
    pub media: MediaUnits,
    /// The fields of reported usage that make up the context usage.
    pub usage: UsageCount,
}

/// The unit of a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LengthUnit {
    /// UTF-16 code units, as JavaScript's `length`.
    Utf16,
    /// Unicode scalar values, as Python's `len`.
    CodePoints,
    /// UTF-8 bytes.
    Bytes,
}

/// The size of a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TextUnits {
    /// The length of the text.
    Length,
    /// One unit for each ASCII character and more for every other UTF-16 unit, up to a length: Gemini's estimate.
    Mixed {
        /// Units for each UTF-16 unit that is not ASCII.
        other_units: u32,
        /// Length above which the size of a text is its length.
        plain_above: u32,
    },
    /// One unit for each token of a built-in encoding: exact.
    Bpe {
        /// The encoding.
        encoding: Encoding,
    },
    /// One unit for each token of a vocabulary supplied by the user. If the process does not have it, Qwen's encoding
    /// is used.
    Vocabulary {
        /// The name of the vocabulary.
        name: String,
        /// The vocabulary, once [`Policy::with_vocabularies`] has found it. It is not part of the policy's text.
        #[serde(skip)]
        attached: Attached,
    },
}

/// The loaded vocabulary for a name. It is ignored when policies are compared.
#[derive(Clone, Default)]
pub struct Attached(Option<Arc<Vocabulary>>);

impl PartialEq for Attached {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.0.is_some() { "attached" } else { "missing" })
    }
}

impl Policy {
    /// The same policy with the vocabulary that it names, if it is among these.
    pub fn with_vocabularies(mut self, vocabularies: &[Arc<Vocabulary>]) -> Self {
        if let TextUnits::Vocabulary { name, attached } = &mut self.counting.text {
            *attached = Attached(vocabularies.iter().find(|vocabulary| vocabulary.name() == name).cloned());
        }
        self
    }
}

/// The rounding of a fraction of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// Up.
    Ceil,
    /// To the nearest, halves up.
    HalfUp,
    /// Down.
    Floor,
}

/// The texts of a message that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountPer {
    /// Its own text, rounded message by message: pi's estimate per message kind.
    Message,
    /// The JSON text of the provider messages, rounded once for a range, as OpenCode measures one.
    JsonRange,
    /// Texts and the JSON of calls and results, rounded once for a range, as Gemini measures parts.
    Contents,
    /// Texts, outputs and the JSON of calls, rounded once for a range, as Qwen Code counts characters.
    Characters,
    /// The texts of a message and the overhead of a chat format, rounded once for a range, as litellm counts.
    Chat(ChatFormat),
    /// Texts and outputs of tools without reasoning, as Qwen-Agent counts.
    Said(Said),
    /// The length of each message with its envelope, rounded once for a range, as JoyAgent counts.
    Envelope(Envelope),
}

/// The size of media, in units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaUnits {
    /// An image in a message.
    pub image: u32,
    /// A document, such as a PDF, in a message.
    pub document: u32,
    /// Any other media item in a message.
    pub other: u32,
    /// A media item in the result of a tool.
    pub attachment: u32,
}

/// The fields of reported usage that make up the context usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageCount {
    /// The provider's total, or else input, output and both cache counts.
    Total,
    /// The tokens of the request: input and both cache counts.
    Prompt,
    /// None: the policy's own count decides, as in agents that count every request themselves.
    Nothing,
}

impl UsageCount {
    /// The context usage according to reported usage; 0 if it has none of these fields.
    pub fn tokens(self, usage: &Usage) -> i64 {
        match self {
            Self::Total => usage.context_tokens(),
            Self::Prompt => usage.prompt_tokens(),
            Self::Nothing => 0,
        }
    }
}

impl MediaUnits {
    /// The same size for every media item.
    pub const fn all(units: u32) -> Self {
        Self { image: units, document: units, other: units, attachment: units }
    }

    fn of(&self, media: &Media) -> i64 {
        let units = match media.mime_type.as_str() {
            mime if mime.starts_with("image/") => self.image,
            "application/pdf" => self.document,
            _ => self.other,
        };
        i64::from(units)
    }

    fn of_attachments(&self, attachments: &[Media]) -> i64 {
        i64::from(self.attachment).saturating_mul(attachments.len() as i64)
    }
}

/// The length of a text in the given unit.
pub fn length(unit: LengthUnit, text: &str) -> usize {
    match unit {
        LengthUnit::Utf16 if text.is_ascii() => text.len(),
        // Each character has one lead byte; characters of four bytes have two UTF-16 units.
        LengthUnit::Utf16 => {
            let units = |byte: &u8| usize::from(byte & 0xc0 != 0x80) + usize::from(*byte >= 0xf0);
            text.as_bytes().iter().map(units).sum()
        }
        LengthUnit::CodePoints => text.chars().count(),
        LengthUnit::Bytes => text.len(),
    }
}

/// The size of a text, in units.
pub fn text_units(counting: &Counting, text: &str) -> i64 {
    match &counting.text {
        TextUnits::Length => length(counting.unit, text) as i64,
        TextUnits::Mixed { other_units, plain_above } => {
            let units = length(LengthUnit::Utf16, text) as i64;
            if units > i64::from(*plain_above) {
                return units;
            }
            let ascii = text.bytes().filter(u8::is_ascii).count() as i64;
            ascii.saturating_add((units - ascii).saturating_mul(i64::from(*other_units)))
        }
        TextUnits::Bpe { encoding } => bpe::count(*encoding, text),
        TextUnits::Vocabulary { attached: Attached(Some(vocabulary)), .. } => vocabulary.count(text),
        TextUnits::Vocabulary { attached: Attached(None), .. } => bpe::count(Encoding::Qwen, text),
    }
}

/// A text with the ends of its tokens; none if the policy only estimates them.
pub fn tokenize<'a>(counting: &Counting, text: &'a str) -> Option<Tokenized<'a>> {
    match &counting.text {
        TextUnits::Length | TextUnits::Mixed { .. } => None,
        TextUnits::Bpe { encoding } => Some(encoding.tokenize(text)),
        TextUnits::Vocabulary { attached: Attached(Some(vocabulary)), .. } => Some(vocabulary.tokenize(text)),
        TextUnits::Vocabulary { attached: Attached(None), .. } => Some(Encoding::Qwen.tokenize(text)),
    }
}

/// The growth of a history, in bytes as counted by `PartBody::growth_bytes`, up to which no view grows by `tokens`
/// tokens.
///
/// A byte has at most as many units as its escape in JSON has characters, and a message has at least one part.
pub fn growth_bytes(counting: &Counting, tokens: i64) -> i64 {
    const ESCAPE_UNITS: i64 = 6;
    let Counting { text, per, media, .. } = counting;
    let words = if let TextUnits::Mixed { other_units, .. } = text { i64::from(*other_units) } else { 1 };
    let around = match per {
        CountPer::Chat(format) => i64::from(format.message_units),
        CountPer::Envelope(format) => i64::from(format.message_units),
        CountPer::Message | CountPer::JsonRange | CountPer::Contents | CountPer::Characters | CountPer::Said(_) => 0,
    };
    let media = [media.image, media.document, media.other, media.attachment].into_iter().max().map_or(0, i64::from);
    let most = ESCAPE_UNITS.max(words).max(around / PART_GROWTH_BYTES + 1).max(media / MEDIA_GROWTH_BYTES + 1);
    (tokens.saturating_mul(i64::from(counting.units_per_token.max(1))) / most).max(1)
}

/// The tokens of a text.
pub fn estimate_text(counting: &Counting, text: &str) -> i64 {
    tokens_of(counting, text_units(counting, text))
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

    /// Keeps only the first `count` messages.
    pub fn truncate(&mut self, count: usize) {
        self.sums.truncate(count);
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
    let shown: Vec<Shown<'_>> =
        parts.filter_map(|part| shown(policy, &part.body, source.pruned_part(part.id))).collect();
    tokens_of(&policy.counting, units(&policy.counting, source.message.role, &shown))
}

/// The tokens of one part as a view will show it, pruned and truncated, in a message of its own. `tool` is the tool of
/// a result; some agents count its name with the result.
pub fn estimate_part(policy: &Policy, role: Role, body: &PartBody, pruned: Option<&Pruned>, tool: Option<&str>) -> i64 {
    let shown: Vec<Shown<'_>> = shown(policy, body, pruned).into_iter().collect();
    let named = tool.filter(|_| policy.counting.per == CountPer::Contents);
    let name = named.map_or(0, |tool| length(LengthUnit::Utf16, tool) as i64);
    tokens_of(&policy.counting, units(&policy.counting, role, &shown).saturating_add(name))
}

/// The same for a part of a stored message, as shortened by marks.
pub fn estimate_part_of(policy: &Policy, source: &SourceMessage, part: &Part, tool: Option<&str>) -> i64 {
    match counts::of(source, part) {
        Some(counts) => {
            let named = tool.filter(|_| policy.counting.per == CountPer::Contents);
            let name = named.map_or(0, |tool| length(LengthUnit::Utf16, tool) as i64);
            tokens_of(&policy.counting, counts.alone.saturating_add(name))
        }
        None => estimate_part(policy, source.message.role, &part.body, source.pruned_part(part.id), tool),
    }
}

/// The tokens of `words`, text of a part of a stored message. It must be the whole text of the part if no mark shortens
/// it, because stored counts are used then.
pub fn estimate_words_of(policy: &Policy, source: &SourceMessage, part: &Part, words: &str) -> i64 {
    let is_output = matches!(*part.body, PartBody::ToolResult(_));
    match counts::of(source, part).filter(|_| is_output) {
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
    pub fn of(policy: &'a Policy, messages: &[SourceMessage]) -> Self {
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

/// The contribution of a message of this size to the sum of a list: tokens or units, depending on the place of the
/// rounding.
fn addend(counting: &Counting, units: i64) -> i64 {
    match counting.per {
        CountPer::Message => tokens_of(counting, units),
        // The comma after the message, or the bracket.
        CountPer::JsonRange if units > 0 => units.saturating_add(1),
        CountPer::JsonRange => 0,
        CountPer::Contents | CountPer::Characters | CountPer::Chat(_) | CountPer::Said(_) | CountPer::Envelope(_) => {
            units
        }
    }
}

/// The tokens of a list with this sum.
fn list_tokens(counting: &Counting, sum: i64) -> i64 {
    match counting.per {
        CountPer::Message => sum,
        CountPer::JsonRange if sum > 0 => tokens_of(counting, sum.saturating_add(1)),
        CountPer::JsonRange => 0,
        CountPer::Contents | CountPer::Characters => tokens_of(counting, sum),
        CountPer::Chat(format) if sum > 0 => tokens_of(counting, sum.saturating_add(i64::from(format.list_units))),
        CountPer::Chat(_) => 0,
        CountPer::Said(_) => tokens_of(counting, sum),
        CountPer::Envelope(format) if sum > 0 => tokens_of(counting, sum.saturating_add(i64::from(format.list_units))),
        CountPer::Envelope(_) => 0,
    }
}

/// Converts units to tokens.
fn tokens_of(counting: &Counting, units: i64) -> i64 {
    let per = i64::from(counting.units_per_token.max(1));
    let rest = units % per;
    let up = match counting.rounding {
        Rounding::Ceil => rest > 0,
        Rounding::HalfUp => rest * 2 >= per && rest > 0,
        Rounding::Floor => false,
    };
    units / per + i64::from(up)
}

/// A part as a model sees it.
#[derive(Debug, Clone)]
enum Shown<'a> {
    Text(Cow<'a, str>),
    Reasoning(Cow<'a, str>),
    Call { call: &'a ToolCall, input_json: Cow<'a, str> },
    Result { result: &'a ToolResult, output: Cow<'a, str>, attachments: &'a [Media] },
    Media(&'a Media),
    Opaque(&'a Opaque),
}

/// The view of a part, as far as it counts; none if a model does not see it.
fn shown<'a>(policy: &Policy, body: &'a PartBody, pruned: Option<&'a Pruned>) -> Option<Shown<'a>> {
    let truncation = pruned.and_then(|pruned| pruned.truncation.as_ref());
    let apply = |text: &'a str| truncation.map_or(Cow::Borrowed(text), |truncation| Cow::Owned(truncation.apply(text)));
    let seen = |text: Cow<'a, str>| (!text.is_empty()).then_some(text);
    match body {
        PartBody::Text(text) => seen(apply(text)).map(Shown::Text),
        PartBody::Reasoning(text) => seen(apply(text)).map(Shown::Reasoning),
        PartBody::Marker(marker) => seen(Cow::Borrowed(&marker.text)).map(Shown::Text),
        PartBody::ToolCall(call) => Some(Shown::Call { call, input_json: apply(&call.input_json) }),
        PartBody::ToolResult(result) => {
            let attachments: &[Media] = if truncation.map_or(pruned.is_some(), |truncation| truncation.keeps_nothing())
            {
                &[]
            } else {
                &result.attachments
            };
            let output = match (pruned, truncation) {
                (None, _) => truncated_output(policy, result),
                (Some(_), Some(truncation)) => Cow::Owned(truncation.apply(&result.output)),
                (Some(_), None) => Cow::Owned(policy.placeholder().to_owned()),
            };
            Some(Shown::Result { result, output, attachments })
        }
        PartBody::Media(media) => match truncation {
            Some(truncation) => seen(Cow::Owned(truncation.apply(""))).map(Shown::Text),
            None => Some(Shown::Media(media)),
        },
        PartBody::Opaque(opaque) => truncation.is_none().then_some(Shown::Opaque(opaque)),
        PartBody::Step(_) | PartBody::Record(_) => None,
    }
}

fn truncated_output<'a>(policy: &Policy, result: &'a ToolResult) -> Cow<'a, str> {
    let rule = policy.truncate.as_ref();
    let truncation = rule.and_then(|rule| truncate::truncated(rule, policy.counting.unit, &result.output));
    truncation.map_or(Cow::Borrowed(result.output.as_str()), |truncation| {
        Cow::Owned(truncation.truncation.apply(&result.output))
    })
}

/// The units of one message; 0 if a model sees nothing of it.
fn units(counting: &Counting, role: Role, parts: &[Shown<'_>]) -> i64 {
    if parts.is_empty() {
        return 0;
    }
    match counting.per {
        CountPer::Message => words::units(counting, parts),
        CountPer::JsonRange => json::units(counting, role, parts),
        CountPer::Contents => contents::units(counting, parts),
        CountPer::Characters => contents::characters(counting, parts),
        CountPer::Chat(format) => chat::units(format, counting, role, parts),
        CountPer::Said(said) => said::units(said, counting, role, parts),
        CountPer::Envelope(format) => envelope::units(format, counting, role, parts),
    }
}

fn view_units(policy: &Policy, message: &ViewMessage) -> i64 {
    // The parts of a view are truncated already and are not truncated again.
    let parts: Vec<Shown<'_>> = message.parts.iter().filter_map(|part| as_is(&part.body)).collect();
    let units = units(&policy.counting, message.role, &parts);
    match (policy.counting.per, message.kind) {
        (CountPer::Message | CountPer::Contents | CountPer::Characters, ViewKind::Summary)
            if is_wrapped(policy, message) =>
        {
            (units - wrapper_units(policy)).max(0)
        }
        (
            CountPer::Message
            | CountPer::Contents
            | CountPer::Characters
            | CountPer::JsonRange
            | CountPer::Chat(_)
            | CountPer::Said(_)
            | CountPer::Envelope(_),
            _,
        ) => units,
    }
}

/// The name of a role in most formats.
fn role_name(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
        Role::System => "system",
    }
}

fn as_is(body: &PartBody) -> Option<Shown<'_>> {
    let seen = |text: &'_ str| (!text.is_empty()).then_some(());
    match body {
        PartBody::Text(text) => seen(text).map(|()| Shown::Text(Cow::Borrowed(text))),
        PartBody::Reasoning(text) => seen(text).map(|()| Shown::Reasoning(Cow::Borrowed(text))),
        PartBody::Marker(marker) => seen(&marker.text).map(|()| Shown::Text(Cow::Borrowed(&marker.text))),
        PartBody::ToolCall(call) => Some(Shown::Call { call, input_json: Cow::Borrowed(&call.input_json) }),
        PartBody::ToolResult(result) => {
            let output = Cow::Borrowed(result.output.as_str());
            Some(Shown::Result { result, output, attachments: &result.attachments })
        }
        PartBody::Media(media) => Some(Shown::Media(media)),
        PartBody::Opaque(opaque) => Some(Shown::Opaque(opaque)),
        PartBody::Step(_) | PartBody::Record(_) => None,
    }
}

/// True for a summary with the policy's prefix and suffix. Its attachments may be in a message of their own without
/// them.
fn is_wrapped(policy: &Policy, message: &ViewMessage) -> bool {
    let mut texts = message.parts.iter().filter_map(|part| match &*part.body {
        PartBody::Text(text) => Some(text),
        _ => None,
    });
    let first = texts.next();
    let last = texts.next_back().or(first);
    first.is_some_and(|text| text.starts_with(&policy.view.summary_prefix))
        && last.is_some_and(|text| text.ends_with(&policy.view.summary_suffix))
}

fn wrapper_units(policy: &Policy) -> i64 {
    text_units(&policy.counting, &policy.view.summary_prefix)
        + text_units(&policy.counting, &policy.view.summary_suffix)
}

fn source_units(policy: &Policy, source: &SourceMessage) -> i64 {
    if let Some(counts) = source.counts.as_ref().filter(|_| source.pruned.is_empty()) {
        return counts.whole;
    }
    units(&policy.counting, source.message.role, &shown_parts(policy, source))
}

/// True if texts must be encoded to be counted.
fn is_encoded(counting: &Counting) -> bool {
    matches!(counting.text, TextUnits::Bpe { .. } | TextUnits::Vocabulary { .. })
}

/// The least and the most units that a stored message can have as a view will show it. They are equal unless its texts
/// must be encoded to be counted.
fn bounds(policy: &Policy, source: &SourceMessage) -> (i64, i64) {
    let counting = &policy.counting;
    let role = source.message.role;
    let is_known = source.counts.is_some() && source.pruned.is_empty();
    let parts = if is_known || !is_encoded(counting) { Vec::new() } else { shown_parts(policy, source) };
    let by = |contribution: fn(&str) -> i64| match counting.per {
        CountPer::Chat(format) => Some(chat::units_by(format, counting, role, &parts, contribution)),
        CountPer::Message => Some(words::units_by(counting, &parts, contribution)),
        CountPer::JsonRange | CountPer::Contents | CountPer::Characters | CountPer::Said(_) | CountPer::Envelope(_) => {
            None
        }
    };
    let bounds = if parts.is_empty() { None } else { by(bpe::least).zip(by(bpe::most)) };
    bounds.unwrap_or_else(|| {
        let units = source_units(policy, source);
        (units, units)
    })
}

/// The parts of a stored message as a view will show them.
fn shown_parts<'a>(policy: &Policy, source: &'a SourceMessage) -> Vec<Shown<'a>> {
    shown_one_by_one(policy, source).collect()
}

/// The same as an iterator.
fn shown_one_by_one<'a>(policy: &Policy, source: &'a SourceMessage) -> impl Iterator<Item = Shown<'a>> {
    let parts = source.message.parts.iter();
    parts.filter_map(|part| shown(policy, &part.body, source.pruned_part(part.id)))
}

#[cfg(test)]
mod tests;
