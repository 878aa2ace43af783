//! Retrieval into a view: passages of the dialogue that it no longer shows.
//!
//! There are three steps. [`wanted`] states the query and the hidden ranges, and the caller looks up the messages that
//! match, newest first. [`promising`] chooses the messages worth reading. [`recall`] makes one message of their best
//! passages, which a view shows at the [`position`] before the request of the query. All of it depends on the history up
//! to the view's revision only, so that a view can be made again. The bounds here affect views, so they are fixed like
//! everything under a `render_version`.

use super::retrieval::{self, terms};
use super::{LengthUnit, Policy, tokens};
use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use crate::model::ids::{MessageId, PartId};
use crate::model::layout::{Layout, OmitReason};
use crate::model::message::{Message, MessageKind, Role};
use crate::model::part::{Part, PartBody};
use crate::model::ranges::{subtract, union};
use crate::model::view::{PartShortening, SourceMessage, View, ViewKind, ViewMessage, ViewPart};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// Maximum number of words that are looked up in the history.
pub const WORDS_MAX: usize = 256;
/// Maximum number of messages per word, the newest ones: a word in more messages says little about each.
pub const MATCHES_MAX: usize = 32;
/// Maximum number of matches that are examined to find these messages, since some may be in the view.
pub const MATCHES_EXAMINED_MAX: usize = 256;
/// Maximum number of messages that are read for their passages.
pub const MESSAGES_MAX: usize = 64;
/// Maximum bytes of these messages together.
pub const BYTES_MAX: usize = 1024 * 1024;
/// Maximum bytes of one message that are searched; text after them is not found.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// A query and the ranges to search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallQuery {
    /// The request from which the query is made.
    pub request: MessageId,
    /// Its words, each once.
    pub words: Vec<String>,
    /// Ranges that may contain messages not in the view, ascending and disjoint.
    pub hidden: Vec<RevisionRange>,
    /// The newest mark that hides any of them. All of them were sealed by then.
    pub hidden_by: Revision,
}

/// The query for a view; none if the policy has no retrieval, nothing is hidden, or there is no request.
///
/// Messages that a summary covers or a compaction omitted are searched; rewound and edited messages are not.
pub fn wanted(policy: &Policy, layout: &Layout, sources: &[SourceMessage]) -> Option<RecallQuery> {
    let rule = policy.retrieval.as_ref()?;
    let (hidden, hidden_by) = hidden(layout, sources)?;
    let (request, text) = sources.iter().rev().find_map(|source| request(&source.message))?;
    let words = retrieval::query(rule, policy.counting.unit, &text);
    (!words.is_empty()).then_some(RecallQuery { request, words, hidden, hidden_by })
}

/// The id and the text of a request; none if the message is no request.
fn request(message: &Message) -> Option<(MessageId, String)> {
    if message.role != Role::User || !is_dialogue(message) {
        return None;
    }
    let texts = message.parts.iter().filter_map(|part| match &*part.body {
        PartBody::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    (!text.trim().is_empty()).then_some((message.id, text))
}

/// The ranges that the active summary covers or a compaction omitted, and the newest mark that hides any of them.
///
/// None of these messages was rewound or edited: otherwise the summary would not be active, and other marks would omit
/// them. A replacement may be within a rewound range, since it represents the message that it replaced.
fn hidden(layout: &Layout, sources: &[SourceMessage]) -> Option<(Vec<RevisionRange>, Revision)> {
    let covered = layout.covered.iter();
    let compacted = || layout.omitted.iter().filter(|omitted| omitted.reason == OmitReason::Compacted);
    let marks = covered.clone().map(|covered| covered.mark).chain(compacted().map(|omitted| omitted.mark));
    let newest = marks.max()?;
    let away =
        covered.flat_map(|covered| covered.ranges.iter().copied()).chain(compacted().map(|omitted| omitted.range));
    let shown = sources.iter().map(|source| source.message.revision).map(|at| RevisionRange { first: at, last: at });
    let hidden = subtract(&union(away.collect()), &union(shown.collect()));
    (!hidden.is_empty()).then_some((hidden, newest))
}

/// True if a message is part of the dialogue: text of people and models, and outputs of tools. System messages are
/// rules, not dialogue, and stay in the view anyway.
fn is_dialogue(message: &Message) -> bool {
    message.role != Role::System && matches!(message.kind, MessageKind::Normal | MessageKind::Edit)
}

/// The searched texts of a message: text and outputs of tools.
fn texts(message: &Message) -> Vec<(PartId, &str)> {
    let mut texts = Vec::new();
    let mut room = TEXT_BYTES_MAX;
    for part in message.parts.iter().filter(|_| is_dialogue(message)) {
        let text = match &*part.body {
            PartBody::Text(text) => text.as_str(),
            PartBody::ToolResult(result) => result.output.as_str(),
            PartBody::Reasoning(_)
            | PartBody::ToolCall(_)
            | PartBody::Media(_)
            | PartBody::Marker(_)
            | PartBody::Step(_)
            | PartBody::Opaque(_)
            | PartBody::Record(_) => continue,
        };
        let text = &text[..text.floor_char_boundary(room)];
        room -= text.len();
        texts.push((part.id, text));
    }
    texts
}

/// The words of a message in the search index, each once.
pub fn message_words(message: &Message) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut words: Vec<String> = texts(message).into_iter().flat_map(|(_, text)| terms(text)).collect();
    words.retain(|word| seen.insert(word.clone()));
    words
}

/// The words of a query that are looked up; of a very long query those of its beginning and its end.
///
/// In a script without blanks, a single character occurs nearly everywhere; it is looked up only if no pair of the
/// query contains it.
pub fn lookups(words: &[String]) -> Vec<String> {
    let pairs: HashSet<char> = words.iter().filter_map(|word| pair(word)).flatten().collect();
    let says_little = |word: &String| {
        let mut characters = word.chars();
        let (first, next) = (characters.next(), characters.next());
        next.is_none() && first.is_some_and(|first| pairs.contains(&first))
    };
    let mut lookups: Vec<String> = words.iter().filter(|word| !says_little(word)).cloned().collect();
    if lookups.len() > WORDS_MAX {
        lookups.drain(WORDS_MAX / 2..lookups.len() - WORDS_MAX / 2);
    }
    lookups
}

/// The two characters of a word that is a pair of a script without blanks, i.e. one without capitals.
fn pair(word: &str) -> Option<[char; 2]> {
    let mut characters = word.chars();
    let pair = [characters.next()?, characters.next()?];
    let has_case = |character: &char| character.is_ascii() || character.is_lowercase();
    (characters.next().is_none() && !pair.iter().any(has_case)).then_some(pair)
}

/// The messages worth reading, the most promising first. `matches` are, for each word that was looked up, the messages
/// that contain it; the fewer they are, the higher is the word's score. Of equals, the later message comes first.
pub fn promising(matches: &[Vec<Revision>]) -> Vec<Revision> {
    let mut scores: BTreeMap<Revision, f64> = BTreeMap::new();
    for found in matches {
        for revision in found {
            *scores.entry(*revision).or_default() += 1.0 / found.len() as f64;
        }
    }
    let mut order: Vec<(Revision, f64)> = scores.into_iter().collect();
    order.sort_by(|(one, score), (other, better)| better.total_cmp(score).then(other.cmp(one)));
    order.truncate(MESSAGES_MAX);
    order.into_iter().map(|(revision, _)| revision).collect()
}

/// A passage that may be retrieved.
struct Passage<'a> {
    message: &'a Message,
    part: PartId,
    /// The text of the part.
    whole: &'a str,
    range: Range<usize>,
}

impl Passage<'_> {
    /// The text that a view shows.
    fn text(&self) -> String {
        let own = self.whole[self.range.clone()].trim_start_matches('\n').trim_end();
        format!("{}: {own}", speaker(self.message, self.part))
    }

    /// The part of a view that shows it, with the length of the rest of its part in the policy's unit.
    fn view_part(&self, unit: LengthUnit) -> ViewPart {
        let length = |text| tokens::length(unit, text);
        let omitted = length(self.whole).saturating_sub(length(&self.whole[self.range.clone()]));
        let omitted_length = i64::try_from(omitted).unwrap_or(i64::MAX);
        let shortened = (omitted > 0).then_some(PartShortening::Truncated { omitted_length });
        ViewPart::new(Some(self.part), PartBody::Text(self.text()), shortened)
    }
}

/// Maximum tokens of a message beside its text: labels, and brackets of a list that is counted as JSON.
const MESSAGE_TOKENS: i64 = 64;

/// The free tokens of a view, as far as they make a difference to its passages; without a limit, all that do.
pub fn room(policy: &Policy, free_tokens: Option<i64>) -> i64 {
    let most = policy.retrieval.as_ref().map_or(0, |rule| rule.budget_tokens.saturating_add(MESSAGE_TOKENS));
    free_tokens.map_or(most, |free_tokens| free_tokens.min(most))
}

/// The message with the best passages of some messages, in the order of the history, within the policy's budget and
/// `room` tokens; none without passages.
pub fn recall(policy: &Policy, words: &[String], messages: &[Message], room: i64) -> Option<ViewMessage> {
    let rule = policy.retrieval.as_ref()?;
    let counting = &policy.counting;
    let mut messages: Vec<&Message> = messages.iter().collect();
    messages.sort_by_key(|message| message.revision);
    let (mut passages, mut candidates) = (Vec::new(), Vec::new());
    for message in messages {
        for (part, whole) in texts(message) {
            for range in retrieval::passages(whole, rule.passage_tokens, counting) {
                candidates.push(terms(&whole[range.clone()]));
                passages.push(Passage { message, part, whole, range });
            }
        }
    }
    // The tokens that a list of messages has around the text of one.
    let room = rule.budget_tokens.min(room.saturating_sub(MESSAGE_TOKENS));
    let room = room.saturating_sub(tokens::estimate_text(counting, &rule.heading));
    let size = |index: usize, most: i64| tokens::estimate_text_within(counting, &passages[index].text(), most);
    let chosen = retrieval::best(words, &candidates, size, room);
    if chosen.is_empty() {
        return None;
    }
    let heading = ViewPart::new(None, PartBody::Text(rule.heading.clone()), None);
    let chosen = chosen.into_iter().map(|index| passages[index].view_part(counting.unit));
    let parts = std::iter::once(heading).filter(|_| !rule.heading.is_empty()).chain(chosen);
    let parts = parts.collect();
    Some(ViewMessage {
        source: None,
        revision: 0,
        role: Role::User,
        kind: ViewKind::Retrieved,
        parts,
        original_fields: None,
        provenance: None,
    })
}

/// A label for the writer of a part. An output has the label of a tool, whatever the role of its message.
fn speaker(message: &Message, part: PartId) -> &'static str {
    let is_result = |part: &&Part| matches!(*part.body, PartBody::ToolResult(_));
    if message.parts.iter().filter(is_result).any(|result| result.id == part) {
        return "tool";
    }
    match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
        Role::System => "system",
    }
}

/// The index of passages in a view: directly before the request of their query.
pub fn position(view: &View, request: MessageId) -> Option<usize> {
    let is_request = |message: &ViewMessage| message.source == Some(request) && message.role == Role::User;
    view.messages.iter().position(is_request)
}

#[cfg(test)]
mod tests;
