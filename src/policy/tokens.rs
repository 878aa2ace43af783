//! How much text weighs, where no provider has said so.
//!
//! Three things make a count: what a text weighs ([`TextWeight`], in units), which words of a message are weighed
//! ([`CountPer`], one file each), and how units become tokens. Records, steps and empty texts are never seen by a model
//! and weigh nothing, and so does a message in which nothing else is. All of it is additive, so that a running total
//! can be kept beside a history.

mod chat;
mod contents;
mod counts;
mod envelope;
mod json;
mod said;
mod tally;
mod words;

pub use chat::ChatFormat;
pub(super) use contents::{Content, contents};
pub use counts::{basis, count};
pub use envelope::{Detail, Envelope};
pub use said::{NoteEnd, Said};
pub use tally::Tally;

use super::bpe::{self, Encoding, Tokenized, Vocabulary};
use super::{Policy, truncate};
use crate::model::message::Role;
use crate::model::part::{MEDIA_GROWTH_BYTES, Media, Opaque, PART_GROWTH_BYTES, Part, PartBody, ToolCall, ToolResult};
use crate::model::usage::Usage;
use crate::model::view::{Pruned, SourceMessage, Standing, ViewMessage};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// How text becomes tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counting {
    /// What a length counts, also where texts are cut.
    pub unit: LengthUnit,
    /// What a text weighs, in units.
    pub text: TextWeight,
    /// Units for one token. At least 1.
    pub units_per_token: u32,
    /// How a fraction of a token is rounded.
    pub rounding: Rounding,
    /// Which words of a message are weighed, and where the rounding happens.
    pub per: CountPer,
    /// What media weigh.
    pub media: MediaUnits,
    /// Which fields of reported usage say how full the window is.
    pub usage: UsageCount,
}

/// What a length counts.
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

/// What a text weighs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TextWeight {
    /// Its length.
    Length,
    /// One unit for each ASCII character and more for every other UTF-16 unit, up to a length: Gemini's estimate.
    Mixed {
        /// Units for each UTF-16 unit that is not ASCII.
        other_units: u32,
        /// A longer text weighs its length.
        plain_above: u32,
    },
    /// One unit for each token of a built-in encoding: exact.
    Bpe {
        /// The encoding.
        encoding: Encoding,
    },
    /// One unit for each token of a vocabulary that the user gives. While the process does not have it, a text weighs
    /// its tokens in Qwen's encoding.
    Vocabulary {
        /// The name under which it is known.
        name: String,
        /// The vocabulary, once [`Policy::with_vocabularies`] has found it. It is no part of the policy's text.
        #[serde(skip)]
        attached: Attached,
    },
}

/// A vocabulary beside its name. Policies are the same whether or not it is there.
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
        if let TextWeight::Vocabulary { name, attached } = &mut self.counting.text {
            *attached = Attached(vocabularies.iter().find(|vocabulary| vocabulary.name() == name).cloned());
        }
        self
    }
}

/// How a fraction of a token is rounded.
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

/// Which words of a message are weighed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountPer {
    /// Its own words, rounded message by message: pi's estimate per message kind.
    Message,
    /// The JSON text of the provider messages, rounded once for a range, as OpenCode measures one.
    JsonRange,
    /// The words of texts and the JSON of calls and results, rounded once for a range, as Gemini measures parts.
    Contents,
    /// The words of texts and outputs and the JSON of calls, rounded once for a range, as Qwen Code counts characters.
    Characters,
    /// The texts of a message and what a chat format puts around them, rounded once for a range, as litellm counts.
    Chat(ChatFormat),
    /// What is said and what tools gave back, without thoughts, as Qwen-Agent counts.
    Said(Said),
    /// The length of each message with its envelope, rounded once for a range, as JoyAgent counts.
    Envelope(Envelope),
}

/// What media weigh, in units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaUnits {
    /// An image in a message.
    pub image: u32,
    /// A document, such as a PDF, in a message.
    pub document: u32,
    /// Any other media item in a message.
    pub other: u32,
    /// A media item that came with the result of a tool.
    pub attachment: u32,
}

/// Which fields of reported usage say how full the window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageCount {
    /// The provider's total, or else input, output and both cache counts.
    Total,
    /// What was sent: input and both cache counts.
    Prompt,
    /// None: the policy's own count decides, as in agents that count every request themselves.
    Nothing,
}

impl UsageCount {
    /// The tokens that usage says are in the window; 0 when it says nothing.
    pub fn tokens(self, usage: &Usage) -> i64 {
        match self {
            Self::Total => usage.context_tokens(),
            Self::Prompt => usage.prompt_tokens(),
            Self::Nothing => 0,
        }
    }
}

impl MediaUnits {
    /// Every media item weighs the same.
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
        // A character has one byte that begins it, and two units where it has four bytes.
        LengthUnit::Utf16 => {
            let units = |byte: &u8| usize::from(byte & 0xc0 != 0x80) + usize::from(*byte >= 0xf0);
            text.as_bytes().iter().map(units).sum()
        }
        LengthUnit::CodePoints => text.chars().count(),
        LengthUnit::Bytes => text.len(),
    }
}

/// What a text weighs, in units.
pub fn weight(counting: &Counting, text: &str) -> i64 {
    match &counting.text {
        TextWeight::Length => length(counting.unit, text) as i64,
        TextWeight::Mixed { other_units, plain_above } => {
            let units = length(LengthUnit::Utf16, text) as i64;
            if units > i64::from(*plain_above) {
                return units;
            }
            let ascii = text.bytes().filter(u8::is_ascii).count() as i64;
            ascii.saturating_add((units - ascii).saturating_mul(i64::from(*other_units)))
        }
        TextWeight::Bpe { encoding } => bpe::count(*encoding, text),
        TextWeight::Vocabulary { attached: Attached(Some(vocabulary)), .. } => vocabulary.count(text),
        TextWeight::Vocabulary { attached: Attached(None), .. } => bpe::count(Encoding::Qwen, text),
    }
}

/// A text with the places where its tokens end; none where a policy only estimates them.
pub fn tokenize<'a>(counting: &Counting, text: &'a str) -> Option<Tokenized<'a>> {
    match &counting.text {
        TextWeight::Length | TextWeight::Mixed { .. } => None,
        TextWeight::Bpe { encoding } => Some(encoding.tokenize(text)),
        TextWeight::Vocabulary { attached: Attached(Some(vocabulary)), .. } => Some(vocabulary.tokenize(text)),
        TextWeight::Vocabulary { attached: Attached(None), .. } => Some(Encoding::Qwen.tokenize(text)),
    }
}

/// The growth of a history, as `PartBody::growth_bytes` counts it, up to which no view grows by so many tokens.
///
/// A byte is at most as many units as its escape in JSON has characters, and a message has at least one part.
pub fn growth_bytes(counting: &Counting, tokens: i64) -> i64 {
    const ESCAPE_UNITS: i64 = 6;
    let Counting { text, per, media, .. } = counting;
    let words = if let TextWeight::Mixed { other_units, .. } = text { i64::from(*other_units) } else { 1 };
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
    tokens_of(counting, weight(counting, text))
}

/// The tokens of a message as a view shows it.
pub fn estimate_message(policy: &Policy, message: &ViewMessage) -> i64 {
    tokens_of(&policy.counting, view_units(policy, message))
}

/// The tokens of several messages as a view shows them.
pub fn estimate_messages<'a>(policy: &Policy, messages: impl IntoIterator<Item = &'a ViewMessage>) -> i64 {
    let weights = Weights::new(policy, messages.into_iter().map(|message| view_units(policy, message)));
    weights.tokens(0..weights.before.len() - 1)
}

/// The same for messages that show these stored ones, whose counts are used where a view shows them as they are.
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
    /// Weight of everything up to each message, that one included: tokens or units, by where the rounding happens.
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

    /// Takes away all but so many of the first messages.
    pub fn truncate(&mut self, count: usize) {
        self.sums.truncate(count);
    }

    /// The tokens of all messages.
    pub fn tokens(&self, policy: &Policy) -> i64 {
        list_tokens(&policy.counting, self.sums.last().copied().unwrap_or(0))
    }
}

/// The tokens of a stored message as a view will show it: pruned and cut, but not paired.
pub fn estimate_source(policy: &Policy, message: &SourceMessage) -> i64 {
    tokens_of(&policy.counting, source_units(policy, message))
}

/// The tokens of several stored messages, as a view will show them: pruned and cut, but not paired.
pub fn estimate_sources(policy: &Policy, sources: &[SourceMessage]) -> i64 {
    let weights = sources.iter().map(|source| addend(&policy.counting, source_units(policy, source)));
    list_tokens(&policy.counting, weights.fold(0, i64::saturating_add))
}

/// The tokens of some parts of a stored message, by index, as if they were all of it.
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

/// The tokens of one part as a view will show it, pruned and cut, in a message of its own. `tool` is the tool of a
/// result, whose name some agents weigh with it.
pub fn estimate_part(policy: &Policy, role: Role, body: &PartBody, pruned: Option<&Pruned>, tool: Option<&str>) -> i64 {
    let shown: Vec<Shown<'_>> = shown(policy, body, pruned).into_iter().collect();
    let named = tool.filter(|_| policy.counting.per == CountPer::Contents);
    let name = named.map_or(0, |tool| length(LengthUnit::Utf16, tool) as i64);
    tokens_of(&policy.counting, units(&policy.counting, role, &shown).saturating_add(name))
}

/// The same for a part of a stored message, as marks have left it.
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

/// The tokens of words of a part of a stored message, which are all its words when no mark is on it.
pub fn estimate_words_of(policy: &Policy, source: &SourceMessage, part: &Part, words: &str) -> i64 {
    let is_output = matches!(*part.body, PartBody::ToolResult(_));
    match counts::of(source, part).filter(|_| is_output) {
        Some(counts) => tokens_of(&policy.counting, counts.words),
        None => estimate_text(&policy.counting, words),
    }
}

/// The weights of a list of messages, such that any range can be asked for at once.
#[derive(Debug, Clone)]
pub struct Weights<'a> {
    counting: &'a Counting,
    /// Weight of everything before each index: tokens or units, by where the rounding happens.
    before: Vec<i64>,
}

/// The tokens that a list of stored messages loses when parts of it are shortened and messages left out. `after` has the
/// messages of `before` in the same order, but for those that are left out.
pub fn freed(policy: &Policy, before: &[SourceMessage], after: &[SourceMessage]) -> i64 {
    let counting = &policy.counting;
    let weigh = |source: &SourceMessage| addend(counting, source_units(policy, source));
    let is_same = |before: &SourceMessage, after: &SourceMessage| before.message.revision == after.message.revision;
    let mut rest = after.iter().peekable();
    let mut freed = 0_i64;
    for source in before {
        match rest.next_if(|after| is_same(source, after)) {
            Some(after) if after.pruned == source.pruned => {}
            Some(after) => freed = freed.saturating_add(weigh(source)).saturating_sub(weigh(after)),
            None => freed = freed.saturating_add(weigh(source)),
        }
    }
    if counting.per == CountPer::Message {
        return freed;
    }
    // Where the sum is rounded, what the others weigh decides to which side.
    let whole = before.iter().map(weigh).fold(0, i64::saturating_add);
    list_tokens(counting, whole) - list_tokens(counting, whole.saturating_sub(freed))
}

impl<'a> Weights<'a> {
    /// Weighs stored messages as a view will show them.
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

/// What a message of so many units adds to the weight of a list: tokens or units, by where the rounding happens.
fn addend(counting: &Counting, units: i64) -> i64 {
    match counting.per {
        CountPer::Message => tokens_of(counting, units),
        // The comma behind it, or the bracket.
        CountPer::JsonRange if units > 0 => units.saturating_add(1),
        CountPer::JsonRange => 0,
        CountPer::Contents | CountPer::Characters | CountPer::Chat(_) | CountPer::Said(_) | CountPer::Envelope(_) => {
            units
        }
    }
}

/// The tokens of a list of such a weight.
fn list_tokens(counting: &Counting, weight: i64) -> i64 {
    match counting.per {
        CountPer::Message => weight,
        CountPer::JsonRange if weight > 0 => tokens_of(counting, weight.saturating_add(1)),
        CountPer::JsonRange => 0,
        CountPer::Contents | CountPer::Characters => tokens_of(counting, weight),
        CountPer::Chat(format) if weight > 0 => {
            tokens_of(counting, weight.saturating_add(i64::from(format.list_units)))
        }
        CountPer::Chat(_) => 0,
        CountPer::Said(_) => tokens_of(counting, weight),
        CountPer::Envelope(format) if weight > 0 => {
            tokens_of(counting, weight.saturating_add(i64::from(format.list_units)))
        }
        CountPer::Envelope(_) => 0,
    }
}

/// Turns units into tokens.
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

/// What a view shows of a part, as far as it weighs anything; none when a model does not see it.
fn shown<'a>(policy: &Policy, body: &'a PartBody, pruned: Option<&'a Pruned>) -> Option<Shown<'a>> {
    let cut = pruned.and_then(|pruned| pruned.cut.as_ref());
    let apply = |text: &'a str| cut.map_or(Cow::Borrowed(text), |cut| Cow::Owned(cut.apply(text)));
    let seen = |text: Cow<'a, str>| (!text.is_empty()).then_some(text);
    match body {
        PartBody::Text(text) => seen(apply(text)).map(Shown::Text),
        PartBody::Reasoning(text) => seen(apply(text)).map(Shown::Reasoning),
        PartBody::Marker(marker) => seen(Cow::Borrowed(&marker.text)).map(Shown::Text),
        PartBody::ToolCall(call) => Some(Shown::Call { call, input_json: apply(&call.input_json) }),
        PartBody::ToolResult(result) => {
            let attachments: &[Media] =
                if cut.map_or(pruned.is_some(), |cut| cut.keeps_nothing()) { &[] } else { &result.attachments };
            let output = match (pruned, cut) {
                (None, _) => cut_output(policy, result),
                (Some(_), Some(cut)) => Cow::Owned(cut.apply(&result.output)),
                (Some(_), None) => Cow::Owned(policy.placeholder().to_owned()),
            };
            Some(Shown::Result { result, output, attachments })
        }
        PartBody::Media(media) => match cut {
            Some(cut) => seen(Cow::Owned(cut.apply(""))).map(Shown::Text),
            None => Some(Shown::Media(media)),
        },
        PartBody::Opaque(opaque) => cut.is_none().then_some(Shown::Opaque(opaque)),
        PartBody::Step(_) | PartBody::Record(_) => None,
    }
}

fn cut_output<'a>(policy: &Policy, result: &'a ToolResult) -> Cow<'a, str> {
    let rule = policy.truncate.as_ref();
    let cut = rule.and_then(|rule| truncate::cut(rule, policy.counting.unit, &result.output));
    cut.map_or(Cow::Borrowed(result.output.as_str()), |cut| Cow::Owned(cut.cut.apply(&result.output)))
}

/// The units of one message; 0 when a model sees nothing of it.
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
    // What the view shows is cut already; nothing is cut again.
    let parts: Vec<Shown<'_>> = message.parts.iter().filter_map(|part| as_is(&part.body)).collect();
    let units = units(&policy.counting, message.role, &parts);
    match (policy.counting.per, message.standing) {
        (CountPer::Message | CountPer::Contents | CountPer::Characters, Standing::Summary)
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

/// The name of a role, as most formats have it.
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

/// True for a summary with the policy's words around it. What it carries along may stand in a message of its own, which
/// has none.
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
    weight(&policy.counting, &policy.view.summary_prefix) + weight(&policy.counting, &policy.view.summary_suffix)
}

fn source_units(policy: &Policy, source: &SourceMessage) -> i64 {
    if let Some(counts) = source.counts.as_ref().filter(|_| source.pruned.is_empty()) {
        return counts.whole;
    }
    units(&policy.counting, source.message.role, &shown_parts(policy, source))
}

/// The parts of a stored message as a view will show them.
fn shown_parts<'a>(policy: &Policy, source: &'a SourceMessage) -> Vec<Shown<'a>> {
    shown_one_by_one(policy, source).collect()
}

/// The same without a list of them.
fn shown_one_by_one<'a>(policy: &Policy, source: &'a SourceMessage) -> impl Iterator<Item = Shown<'a>> {
    let parts = source.message.parts.iter();
    parts.filter_map(|part| shown(policy, &part.body, source.pruned_part(part.id)))
}

#[cfg(test)]
mod tests;
