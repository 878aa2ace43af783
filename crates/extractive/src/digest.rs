//! The digest of a range of history: what a summary is made from, with a bound.
//!
//! It has what people typed, what agents said, and each tool call with the parts of its output that decide. Digests of
//! neighbouring ranges are merged into the digest of both, so that a summary that replaces another one is made from the
//! originals of both ranges, and costs no more for a longer session.

use super::tools::{self, ToolUse};
use super::{checks::Outcome, commands, text};
use longhand_core::policy::{calls::Calls, plan::slot};
use longhand_model::message::{MessageKind, Role};
use longhand_model::part::{PartBody, ResultStatus};
use longhand_model::{Revision, mark::Words, view::SourceMessage};
use serde::{Deserialize, Serialize};

/// Maximum size of a digest, in bytes of text, and the parts of it for each class of entries.
const BYTES_MAX: usize = TYPED_BYTES_MAX + SAID_BYTES_MAX + CALLS_BYTES_MAX;
const TYPED_BYTES_MAX: usize = 192 * 1_024;
const SAID_BYTES_MAX: usize = 128 * 1_024;
const CALLS_BYTES_MAX: usize = 448 * 1_024;

/// Maximum sizes of one text, of which the beginning and the end are kept, of the changed text of one edit, and of an
/// output in prose, in bytes; and of the beginning and the end of another output, beside the line that decides.
const TEXT_BYTES_MAX: usize = 24_000;
const CHANGE_BYTES_MAX: usize = 6_000;
const OUTPUT_HEAD_BYTES: usize = 1_200;
const OUTPUT_TAIL_BYTES: usize = 1_800;
const PROSE_BYTES_MAX: usize = 16_000;

/// What a stored digest begins with, in this form of its entries.
pub const FORM: &str = "2 ";

/// What a summary is made from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Digest {
    pub(super) length: i64,
    pub(super) entries: Vec<Entry>,
    /// What becomes of the words of its messages, as clients decided. It is not stored: such a decision can be undone.
    #[serde(skip)]
    pub(super) words: Words,
}

/// A part of the history, with the index of its message, and the revision of the original.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) at: i64,
    pub(super) revision: Revision,
    pub(super) body: Body,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Body {
    /// A text with the role of a user, as it was sent.
    Typed(String),
    Said(String),
    /// A summary that somebody else wrote of this range.
    Summary(String),
    Call(Box<Call>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Call {
    pub(super) usage: ToolUse,
    /// None while there is no result, and of a call that somebody stopped.
    pub(super) outcome: Option<Outcome>,
    /// The parts of its output that decide.
    pub(super) output: String,
}

impl Digest {
    /// The digest of messages, oldest first.
    pub fn from_messages<'a>(messages: impl IntoIterator<Item = &'a SourceMessage>) -> Self {
        let messages: Vec<&SourceMessage> = messages.into_iter().collect();
        let calls = Calls::from_messages(messages.iter().copied());
        let by_call = calls.by_call();
        let mut entries = Vec::new();
        for (at, source) in (0_i64..).zip(&messages) {
            // The summary of an abandoned branch is Longhand's text, not a user's, though its role is user.
            let is_branch = source.message.kind == MessageKind::Branch;
            for part in &source.message.parts {
                let body = match (&*part.body, source.message.role) {
                    (PartBody::Text(words), Role::User) if !is_branch => Body::Typed(bounded(words, TEXT_BYTES_MAX)),
                    (PartBody::Text(words), Role::User | Role::Assistant) => Body::Said(bounded(words, TEXT_BYTES_MAX)),
                    (PartBody::ToolCall(call), _) => {
                        let result = by_call.get(&part.id).map(|answer| answer.result);
                        let usage = tools::understand(&call.tool, &call.input_json);
                        Body::Call(Box::new(Call {
                            output: result.map(|result| deciding_parts(&result.output)).unwrap_or_default(),
                            outcome: result.and_then(|result| match result.status {
                                ResultStatus::Completed => Some(Outcome::Passed),
                                ResultStatus::Error => Some(Outcome::Failed),
                                ResultStatus::Interrupted => None,
                            }),
                            usage: shortened(usage),
                        }))
                    }
                    // Reasoning compares what is not chosen, system messages come with views, results go with calls.
                    _ => continue,
                };
                entries.push(Entry { at, revision: slot(source), body });
            }
        }
        let mut digest = Self { length: messages.len() as i64, entries, words: Words::new() };
        digest.bound();
        digest
    }

    /// The digest of this range and the one right after it.
    #[must_use]
    pub fn merged(mut self, next: Self) -> Self {
        let shift = self.length;
        self.entries.extend(next.entries.into_iter().map(|entry| Entry { at: entry.at + shift, ..entry }));
        self.length += next.length;
        self.bound();
        self
    }

    /// The digest with its messages in the order of their positions: an edit stands where its original was.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        let mut places: Vec<i64> = self.entries.iter().map(|entry| entry.at).collect();
        places.dedup();
        self.entries.sort_by_key(|entry| entry.revision);
        let messages = self.entries.chunk_by_mut(|one, next| one.at == next.at);
        messages.zip(places).for_each(|(entries, at)| entries.iter_mut().for_each(|entry| entry.at = at));
        self
    }

    /// The digest with the text of a summary of its range that somebody else wrote, as a source of its own.
    #[must_use]
    pub fn with_summary(mut self, text: &str) -> Self {
        self.entries.retain(|entry| !matches!(entry.body, Body::Summary(_)));
        let body = Body::Summary(bounded(text, 2 * TEXT_BYTES_MAX));
        self.entries.push(Entry { at: self.length, revision: 0, body });
        self.length += 1;
        self
    }

    /// The digest with what clients decided about the words of messages.
    #[must_use]
    pub(super) fn with_words(self, words: &Words) -> Self {
        Self { words: words.clone(), ..self }
    }

    /// The form in which a digest is stored.
    pub fn to_json(&self) -> String {
        FORM.to_owned() + &serde_json::to_string(self).unwrap_or_default()
    }

    /// A stored digest; none if another version wrote it: then it is made again from the originals.
    pub fn from_json(json: &str) -> Option<Self> {
        serde_json::from_str(json.strip_prefix(FORM)?).ok()
    }

    /// Drops the oldest entries of each class beyond its part of the bound. The first request stays.
    fn bound(&mut self) {
        let first = self.entries.iter().position(|entry| matches!(entry.body, Body::Typed(_)));
        let mut left = [TYPED_BYTES_MAX, SAID_BYTES_MAX, CALLS_BYTES_MAX];
        let mut kept = vec![true; self.entries.len()];
        for (position, entry) in self.entries.iter().enumerate().rev() {
            let (class, size) = entry.body.size();
            kept[position] = size <= left[class] || Some(position) == first;
            // What is older than one that does not fit goes too, but for what people typed, which is class 0.
            left[class] = left[class].saturating_sub(if kept[position] { size } else { class * BYTES_MAX });
        }
        let mut kept = kept.into_iter();
        self.entries.retain(|_| kept.next().unwrap_or(true));
    }
}

impl Body {
    fn size(&self) -> (usize, usize) {
        const AROUND: usize = 64;
        match self {
            Self::Typed(words) => (0, words.len() + AROUND),
            Self::Said(words) | Self::Summary(words) => (1, words.len() + AROUND),
            Self::Call(call) => {
                let touched: usize =
                    call.usage.touches.iter().map(|touch| touch.added.len() + touch.removed.len()).sum();
                let command = call.usage.command.as_ref().map_or(0, String::len);
                (2, touched + command + call.output.len() + call.usage.about.len() + 2 * AROUND)
            }
        }
    }
}

/// A text of at most `limit` bytes: a longer one without its middle.
fn bounded(words: &str, limit: usize) -> String {
    let words = text::clean(words);
    if words.len() <= limit {
        return words.into_owned();
    }
    format!("{}\n…\n{}", commands::head(&words, limit * 2 / 3), commands::tail(&words, limit / 3))
}

/// A tool call without the middle of long texts.
fn shortened(mut usage: ToolUse) -> ToolUse {
    for touch in &mut usage.touches {
        touch.added = commands::head(&touch.added, CHANGE_BYTES_MAX).to_owned();
        touch.removed = commands::head(&touch.removed, CHANGE_BYTES_MAX).to_owned();
    }
    usage.command = usage.command.map(|command| commands::head(&command, CHANGE_BYTES_MAX).to_owned());
    usage
}

/// The beginning and the end of an output, and the line between them that states the error.
fn deciding_parts(output: &str) -> String {
    let output = text::clean(output);
    if text::is_prose(&output) {
        return commands::head(&output, PROSE_BYTES_MAX).to_owned();
    }
    if output.len() <= OUTPUT_HEAD_BYTES + OUTPUT_TAIL_BYTES {
        return output.into_owned();
    }
    let (head, tail) = (commands::head(&output, OUTPUT_HEAD_BYTES), commands::tail(&output, OUTPUT_TAIL_BYTES));
    let line = commands::reports_failure(&output).then(|| commands::deciding(&output)).flatten();
    match line.filter(|line| !tail.contains(line.as_str())) {
        Some(line) => format!("{head}\n{line}\n{tail}"),
        None => format!("{head}\n{tail}"),
    }
}
