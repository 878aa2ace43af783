//! Splits messages into items, as agents with flat lists of messages have them: the text of a message, each call, each
//! result.
//!
//! A strategy decides about each item. This module turns its decisions into truncations of parts and omissions of
//! messages, so that results stay with their calls, and messages without a reply stay.

use crate::model::ids::PartId;
use crate::model::message::{MessageKind, Role};
use crate::model::part::{Part, PartBody};
use crate::model::truncation::{Removals, Truncation};
use crate::model::view::SourceMessage;
use crate::policy::calls::{CallWithResult, Calls};
use crate::policy::omission::text::text_of;
use crate::policy::tokens;
use crate::policy::{Counting, Policy, select, truncate, turns};
use std::borrow::Cow;
use std::collections::HashSet;

/// Kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text of a user, media included.
    Request,
    /// Text of the model.
    Reply,
    /// A tool call.
    Call,
    /// A tool result.
    Result,
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    /// Index of the message.
    pub(super) message: usize,
    /// Kind of the item.
    pub(super) kind: Kind,
    /// Indexes of its parts in the message.
    parts: Vec<usize>,
    /// Estimate of the item as a view shows it.
    pub(super) tokens: i64,
}

/// Decision about an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    /// The item stays as it is.
    Stays,
    /// This number of tokens stays, at both ends.
    BothSides(i64),
    /// This number of tokens stays, at the beginning.
    Beginning(i64),
    /// The placeholder replaces the item.
    Placeholder,
    /// The item is omitted.
    Goes,
}

/// Text between the two ends of a truncated text.
const ELLIPSIS: &str = "...";

/// Text in place of a text that is removed while its message stays.
const PLACEHOLDER: &str = "omit";

/// A list of messages as items.
pub(super) struct Items<'a> {
    policy: &'a Policy,
    messages: &'a [SourceMessage],
    /// The items in the order of the messages; in a message the text comes first, then the calls, then the results.
    pub(super) list: Vec<Item>,
    /// Estimate of the system messages, which are not items: they always stay.
    pub(super) instructions: i64,
    /// The calls of the messages, with their results.
    calls: Calls<'a>,
    /// The calls that may still run: those without a result, from the first that runs on.
    running: HashSet<PartId>,
}

impl<'a> Items<'a> {
    pub(super) fn from_messages(policy: &'a Policy, messages: &'a [SourceMessage]) -> Self {
        let calls = Calls::from_messages(messages);
        let first = calls.unfinished(messages).running;
        let may_run =
            |called: &&CallWithResult<'_>| called.answer.is_none() && first.is_some_and(|first| called.index >= first);
        let running = calls.iter().filter(may_run).map(|called| called.part.id).collect();
        let mut items = Self { policy, messages, list: Vec::new(), instructions: 0, calls, running };
        for (index, source) in messages.iter().enumerate() {
            match (source.message.kind, source.message.role) {
                (MessageKind::Record, _) => {}
                (_, Role::System) => {
                    let tokens = tokens::estimate_source(policy, source);
                    items.instructions = items.instructions.saturating_add(tokens);
                }
                (_, Role::User) => items.take_apart(index, Kind::Request),
                (_, Role::Assistant | Role::Tool) => items.take_apart(index, Kind::Reply),
            }
        }
        items
    }

    fn take_apart(&mut self, message: usize, said: Kind) {
        let source = &self.messages[message];
        let parts = &source.message.parts;
        let that = |is: fn(&PartBody) -> bool| (0..parts.len()).filter(move |&part| is(&parts[part].body));
        let calls: Vec<usize> = that(|body| matches!(body, PartBody::ToolCall(_))).collect();
        let results: Vec<usize> = that(|body| matches!(body, PartBody::ToolResult(_))).collect();
        let own: Vec<usize> = that(|body| matches!(body, PartBody::Text(_) | PartBody::Marker(_) | PartBody::Media(_)))
            .filter(|&part| !self.is_blank(source, &parts[part]))
            .collect();
        // A message without calls and results is an item even if it is empty.
        if !own.is_empty() || (calls.is_empty() && results.is_empty()) {
            self.push(message, said, own);
        }
        calls.into_iter().for_each(|part| self.push(message, Kind::Call, vec![part]));
        results.into_iter().for_each(|part| self.push(message, Kind::Result, vec![part]));
    }

    fn push(&mut self, message: usize, kind: Kind, parts: Vec<usize>) {
        let tokens = tokens::estimate_parts(self.policy, &self.messages[message], &parts);
        self.list.push(Item { message, kind, parts, tokens });
    }

    fn is_blank(&self, source: &SourceMessage, part: &Part) -> bool {
        matches!(*part.body, PartBody::Text(_)) && self.shown(source, part).is_empty()
    }

    /// Estimate of all items together.
    pub(super) fn tokens(&self) -> i64 {
        self.list.iter().map(|item| item.tokens).fold(0, i64::saturating_add)
    }

    /// True if the item starts a turn.
    pub(super) fn starts_turn(&self, item: &Item) -> bool {
        item.kind == Kind::Request && turns::starts_turn(&self.messages[item.message].message)
    }

    fn has_calls(&self, message: usize) -> bool {
        let own = &self.list[self.list.partition_point(|item| item.message < message)..];
        own.iter().take_while(|item| item.message == message).any(|item| item.kind == Kind::Call)
    }

    /// True if the item has media, which cannot be truncated.
    pub(super) fn has_media(&self, item: &Item) -> bool {
        let parts = &self.messages[item.message].message.parts;
        item.parts.iter().any(|&part| parts[part].body.brings_media())
    }

    /// True if a part of the item is replaced by the placeholder already.
    pub(super) fn is_gone(&self, item: &Item) -> bool {
        let source = &self.messages[item.message];
        let is_placeholder = |&part: &usize| {
            let pruned = source.pruned_part(source.message.parts[part].id);
            pruned
                .and_then(|pruned| pruned.truncation.as_ref())
                .is_some_and(|truncation| *truncation == Truncation::placeholder(PLACEHOLDER))
        };
        item.parts.iter().any(is_placeholder)
    }

    /// The truncations and omissions that follow from the treatments. A message is omitted if all its items are, it is not
    /// the last request, the model has replied after it, and no call is separated from its result. Otherwise the
    /// placeholder replaces the items that should be omitted, and calls stay.
    pub(super) fn removals(&self, treatments: &[Treatment]) -> Removals {
        let omitted = self.omitted(treatments);
        let mut removals = Removals::default();
        for (item, treatment) in self.list.iter().zip(treatments) {
            let source = &self.messages[item.message];
            if !omitted[item.message] && source.message.sealed_revision.is_some() {
                self.shorten(item, *treatment, &mut removals);
            }
        }
        let omitted = self.messages.iter().zip(omitted).filter(|(_, is_omitted)| *is_omitted);
        removals.omitted = omitted.map(|(source, _)| source.message.revision).collect();
        removals.omitted.sort_unstable();
        removals
    }

    /// For each message, true if it is omitted as a whole.
    fn omitted(&self, treatments: &[Treatment]) -> Vec<bool> {
        let settled = select::nearest_safe_boundary(self.messages, self.messages.len());
        let last_request = self.list.iter().rev().find(|item| self.starts_turn(item)).map(|item| item.message);
        let items = || self.list.iter().zip(treatments);
        let staying = items().filter(|(_, treatment)| **treatment != Treatment::Goes).map(|(item, _)| item.message);
        let mut omitted = vec![false; self.messages.len()];
        items().filter(|(item, _)| item.message < settled).for_each(|(item, _)| omitted[item.message] = true);
        staying.chain(last_request).for_each(|message| omitted[message] = false);
        // A message that stays keeps the messages of its calls and results, which may keep others.
        let mut is_settled = false;
        while !is_settled {
            is_settled = true;
            for (call, result) in select::answered_calls(&self.calls) {
                if omitted[call] != omitted[result] {
                    is_settled = false;
                    omitted[call] = false;
                    omitted[result] = false;
                }
            }
        }
        omitted
    }

    /// Adds the truncations of one item whose message stays.
    fn shorten(&self, item: &Item, treatment: Treatment, removals: &mut Removals) {
        let source = &self.messages[item.message];
        match (treatment, item.kind) {
            (Treatment::Stays, _) | (Treatment::Goes | Treatment::Placeholder, Kind::Call) => {}
            (Treatment::BothSides(_) | Treatment::Beginning(_), Kind::Call) => {
                // The model need not read the input of the call again, so `{}` replaces it. The call itself stays: its
                // result needs it.
                let parts = item.parts.iter().map(|&part| &source.message.parts[part]);
                // A call that runs stays as it is, and those beside it need not wait for it.
                parts
                    .filter(|part| !self.running.contains(&part.id))
                    .for_each(|part| self.push_truncation(source, part, Truncation::placeholder("{}"), removals));
            }
            // Text beside calls is removed without a placeholder.
            (Treatment::Goes, Kind::Reply) if self.has_calls(item.message) => self.replace(item, "", removals),
            (Treatment::Goes | Treatment::Placeholder, Kind::Request | Kind::Reply | Kind::Result) => {
                self.replace(item, PLACEHOLDER, removals);
            }
            (Treatment::BothSides(tokens), Kind::Request | Kind::Reply | Kind::Result) => {
                self.keep_some(item, tokens, Some(ELLIPSIS), removals);
            }
            (Treatment::Beginning(tokens), Kind::Request | Kind::Reply | Kind::Result) => {
                self.keep_some(item, tokens, None, removals);
            }
        }
    }

    /// Replaces the first text or media part of the item by `words`, and the others by nothing.
    fn replace(&self, item: &Item, words: &str, removals: &mut Removals) {
        let source = &self.messages[item.message];
        let parts = item.parts.iter().map(|&part| &source.message.parts[part]);
        let mut words = words;
        let goes = |part: &&Part| text_of(&part.body).is_some() || matches!(*part.body, PartBody::Media(_));
        for part in parts.filter(goes) {
            self.push_truncation(source, part, Truncation::placeholder(std::mem::take(&mut words)), removals);
        }
    }

    /// Keeps this number of tokens of an item's texts, which count as one text with line breaks between them. Media
    /// stay.
    fn keep_some(&self, item: &Item, tokens: i64, ellipsis: Option<&str>, removals: &mut Removals) {
        let source = &self.messages[item.message];
        let has_text = |part: &&usize| text_of(&source.message.parts[**part].body).is_some();
        let own: Vec<usize> = item.parts.iter().filter(has_text).copied().collect();
        let parts: Vec<&Part> = own.iter().map(|&part| &source.message.parts[part]).collect();
        let texts: Vec<Cow<'_, str>> = parts.iter().map(|part| self.shown(source, part)).collect();
        let joined = texts.join("\n");
        let media = item.tokens.saturating_sub(tokens::estimate_parts(self.policy, source, &own));
        let room = tokens.saturating_sub(media);
        let Some(kept) = kept_text(&self.policy.counting, &joined, room, ellipsis) else { return };
        // A result may be empty, but an empty message would not be in the view.
        if kept.is_nothing() && item.kind != Kind::Result {
            return self.replace(item, PLACEHOLDER, removals);
        }
        let (head, mut middle, tail) = match kept {
            KeptText::Ends { head, middle, tail } => (head, middle, tail),
            KeptText::Text(text) => {
                // This text is no byte range of the parts: it replaces the first part, and nothing replaces the others.
                let mut words = text.as_str();
                return parts.iter().for_each(|part| {
                    self.push_truncation(source, part, Truncation::placeholder(std::mem::take(&mut words)), removals);
                });
            }
        };
        let mut start = 0;
        for (part, shown) in parts.iter().zip(&texts) {
            let end = start + shown.len();
            let own_head = head.saturating_sub(start).min(shown.len());
            let own_tail = (tail + end).saturating_sub(joined.len()).min(shown.len());
            if own_head + own_tail < shown.len() {
                let words = std::mem::take(&mut middle);
                let original = text_of(&part.body).unwrap_or_default();
                let ends = (own_head, words, own_tail);
                self.push_truncation(
                    source,
                    part,
                    truncated_again(original, self.existing(source, part), shown, ends),
                    removals,
                );
            }
            start = end + 1;
        }
    }

    /// Adds a truncation, unless the part has it already.
    fn push_truncation(&self, source: &SourceMessage, part: &Part, truncation: Truncation, removals: &mut Removals) {
        let existing = source.pruned_part(part.id).and_then(|pruned| pruned.truncation.as_ref());
        if existing != Some(&truncation) {
            removals.parts.push((part.id, truncation));
        }
    }

    /// The truncation of a part in the view now.
    fn existing(&self, source: &SourceMessage, part: &Part) -> Option<Truncation> {
        if let Some(pruned) = source.pruned_part(part.id) {
            return Some(
                pruned.truncation.clone().unwrap_or_else(|| Truncation::placeholder(self.policy.placeholder())),
            );
        }
        match (&*part.body, &self.policy.truncate) {
            (PartBody::ToolResult(result), Some(rule)) => {
                truncate::truncated(rule, self.policy.counting.unit, &result.output)
                    .map(|truncated| truncated.truncation)
            }
            _ => None,
        }
    }

    /// The text of a part in the view now.
    fn shown<'b>(&self, source: &SourceMessage, part: &'b Part) -> Cow<'b, str> {
        let original = text_of(&part.body).unwrap_or_default();
        self.existing(source, part).map_or(Cow::Borrowed(original), |truncation| Cow::Owned(truncation.apply(original)))
    }
}

/// The rest of a truncated text.
enum KeptText<'a> {
    /// Number of bytes kept at both ends, and the text between them.
    Ends { head: usize, middle: &'a str, tail: usize },
    /// The kept text, if the tokenizer encoded another normal form than the stored one.
    Text(String),
}

impl KeptText<'_> {
    fn is_nothing(&self) -> bool {
        match self {
            Self::Ends { head, middle, tail } => *head == 0 && *tail == 0 && middle.is_empty(),
            Self::Text(text) => text.is_empty(),
        }
    }
}

/// Returns the rest of a text under a limit of tokens: both ends with an ellipsis between them, which counts, or the
/// beginning alone if there is no ellipsis or no room beside it. None if the text is within the limit. If the number is
/// odd, the end keeps one more.
fn kept_text<'a>(counting: &Counting, text: &str, tokens: i64, ellipsis: Option<&'a str>) -> Option<KeptText<'a>> {
    let tokens = tokens.max(0);
    let between = ellipsis.map(|ellipsis| (ellipsis, tokens - tokens::estimate_text(counting, ellipsis)));
    let (front, middle, back) = match between.filter(|(_, room)| *room > 0) {
        Some((ellipsis, room)) => (room / 2, ellipsis, room - room / 2),
        None => (tokens, "", 0),
    };
    let Some(tokenized) = tokens::tokenize(counting, text) else {
        if tokens::estimate_text(counting, text) <= tokens {
            return None;
        }
        let units = |tokens: i64| {
            let units = tokens.saturating_mul(tokens::length_per_token(counting));
            usize::try_from(units).unwrap_or(usize::MAX)
        };
        let head = truncate::prefix(counting.unit, text, units(front)).0.len();
        let tail = truncate::suffix(counting.unit, text, units(back)).0.len();
        return Some(KeptText::Ends { head, middle, tail });
    };
    if tokenized.count() <= tokens {
        return None;
    }
    let (head, tail) = (tokenized.prefix(front), tokenized.suffix(back));
    if tokenized.text() == text {
        return Some(KeptText::Ends { head: head.len(), middle, tail: tail.len() });
    }
    Some(KeptText::Text([head, middle, tail].concat()))
}

/// A new truncation of a text that may be truncated already, to a number of bytes at both ends of the shown text.
fn truncated_again(
    original: &str,
    existing: Option<Truncation>,
    shown: &str,
    (head, middle, tail): (usize, &str, usize),
) -> Truncation {
    let truncation = Truncation { head, middle: middle.to_owned(), tail, ..Truncation::default() };
    let Some(old) = existing else { return truncation };
    // If the existing truncation has no text around the ends, the ends of the shown text are those of the original.
    let old_head = original.floor_char_boundary(old.head.min(original.len()));
    let old_tail = original.len() - original.ceil_char_boundary(original.len().saturating_sub(old.tail)).max(old_head);
    if old.before.is_empty() && old.after.is_empty() && head <= old_head && tail <= old_tail {
        return truncation;
    }
    let front = shown.get(..head).unwrap_or_default();
    let back = shown.get(shown.len().saturating_sub(tail)..).unwrap_or_default();
    Truncation::placeholder([front, middle, back].concat())
}

#[cfg(test)]
pub(crate) mod tests;
