//! The texts of a message as a view shows them, and truncation of all of them together.
//!
//! The texts of users and models and the outputs of tools are one text here, as they are in agents whose messages have
//! a single content. Reasoning and the inputs of calls do not belong to it.

use crate::model::ids::{CompactionId, PartId};
use crate::model::part::PartBody;
use crate::model::truncation::Truncation;
use crate::model::view::{PrunedPart, SourceMessage};
use crate::policy::tokens::length;
use crate::policy::truncate::{self, prefix, suffix};
use crate::policy::{LengthUnit, Policy};
use std::borrow::Cow;
use uuid::Uuid;

/// The texts of a message.
#[derive(Debug)]
pub(super) struct Texts<'a> {
    unit: LengthUnit,
    pieces: Vec<Piece<'a>>,
}

#[derive(Debug)]
struct Piece<'a> {
    part: PartId,
    kind: Kind,
    original: &'a str,
    shown: Cow<'a, str>,
    /// Number of bytes at the start of `shown` that are the start of the original.
    head: usize,
    /// The new truncation; none while nothing changes.
    truncation: Option<Truncation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Output,
    /// Without text; removed only if the whole message is replaced.
    Media,
}

impl<'a> Texts<'a> {
    /// The texts of a message, as a view shows them now.
    pub(super) fn from_source(policy: &Policy, source: &'a SourceMessage) -> Self {
        let unit = policy.counting.unit;
        let piece = |part: &'a crate::model::part::Part| {
            let (kind, original) = match &*part.body {
                PartBody::Text(text) => (Kind::Text, text.as_str()),
                PartBody::ToolResult(result) => (Kind::Output, result.output.as_str()),
                PartBody::Media(_) if source.pruned_part(part.id).is_none() => (Kind::Media, ""),
                PartBody::Media(_)
                | PartBody::Reasoning(_)
                | PartBody::ToolCall(_)
                | PartBody::Marker(_)
                | PartBody::Step(_)
                | PartBody::Opaque(_)
                | PartBody::Record(_) => return None,
            };
            let truncation = match source.pruned_part(part.id) {
                Some(PrunedPart { truncation: Some(truncation), .. }) => Some(truncation.clone()),
                Some(PrunedPart { truncation: None, .. }) => Some(Truncation::placeholder(policy.placeholder())),
                None if kind == Kind::Output => policy
                    .truncate
                    .as_ref()
                    .and_then(|rule| truncate::truncated(rule, unit, original))
                    .map(|truncated| truncated.truncation),
                None => None,
            };
            let (shown, head) = truncation
                .as_ref()
                .map_or((Cow::Borrowed(original), original.len()), |truncation| shown(truncation, original));
            Some(Piece { part: part.id, kind, original, shown, head, truncation: None })
        };
        Self { unit, pieces: source.message.parts.iter().filter_map(piece).collect() }
    }

    /// The shown text of each piece.
    pub(super) fn shown(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter(|piece| piece.kind != Kind::Media).map(|piece| piece.shown.as_ref())
    }

    /// The shown text, if it is the only piece.
    pub(super) fn only(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [piece] if piece.kind != Kind::Media => Some(&piece.shown),
            _ => None,
        }
    }

    /// The length of all texts together, in units.
    pub(super) fn length(&self) -> usize {
        self.shown().map(|text| length(self.unit, text)).sum()
    }

    /// Keeps at most the first `max_units` units. If something is left out, `note` follows.
    pub(super) fn keep_head(&mut self, max_units: usize, note: &str) {
        let mut room = Some(max_units);
        for piece in self.pieces.iter_mut().filter(|piece| piece.kind != Kind::Media) {
            let Some(left) = room else {
                piece.show(piece.nothing(note));
                continue;
            };
            room = left.checked_sub(length(self.unit, &piece.shown));
            if room.is_none() {
                let kept = prefix(self.unit, &piece.shown, left).0;
                let truncation = match kept.len() {
                    head if head <= piece.head => Truncation { head, after: note.to_owned(), ..Truncation::default() },
                    _ => Truncation::placeholder([kept, note].concat()),
                };
                piece.show(truncation);
            }
        }
    }

    /// Keeps the first and the last units, if there are more, with `middle` between them and `note` after them.
    pub(super) fn keep_both_ends(&mut self, [first, last]: [usize; 2], middle: &str, note: &str) {
        let total = self.length();
        let mut before = 0;
        let mut is_first = true;
        let end = self.pieces.iter().rposition(|piece| piece.kind != Kind::Media);
        for (index, piece) in self.pieces.iter_mut().enumerate().filter(|(_, piece)| piece.kind != Kind::Media) {
            let units = length(self.unit, &piece.shown);
            let front = first.saturating_sub(before).min(units);
            let back = (before + units).saturating_sub(total.saturating_sub(last)).min(units);
            before += units;
            let note = if Some(index) == end { note } else { "" };
            if front + back >= units && note.is_empty() {
                continue;
            }
            let (head, tail) = if front + back >= units {
                (piece.shown.as_ref(), "")
            } else {
                (prefix(self.unit, &piece.shown, front).0, suffix(self.unit, &piece.shown, back).0)
            };
            let middle = if front + back < units && std::mem::take(&mut is_first) { middle } else { "" };
            let is_whole = piece.shown == piece.original;
            let truncation = if is_whole || (head.len() <= piece.head && tail.is_empty()) {
                let (head, tail) = (head.len(), tail.len());
                Truncation { head, middle: middle.to_owned(), tail, after: note.to_owned(), ..Truncation::default() }
            } else {
                Truncation::placeholder([head, middle, tail, note].concat())
            };
            piece.show(truncation);
        }
    }

    /// Replaces everything by this text, media included.
    pub(super) fn replace(&mut self, words: &str) {
        let speaks = self.pieces.iter().position(|piece| piece.kind != Kind::Media).unwrap_or(0);
        for (index, piece) in self.pieces.iter_mut().enumerate() {
            let truncation = if index == speaks { Truncation::placeholder(words) } else { piece.nothing(words) };
            piece.show(truncation);
        }
    }

    /// The message with the changes; none if nothing changed.
    pub(super) fn changed(self, source: &SourceMessage) -> Option<SourceMessage> {
        if self.pieces.iter().all(|piece| piece.truncation.is_none()) {
            return None;
        }
        let mut changed = source.clone();
        for (part, truncation) in self.pieces.into_iter().filter_map(|piece| Some((piece.part, piece.truncation?))) {
            changed.pruned.retain(|pruned| pruned.part != part);
            changed.pruned.push(PrunedPart {
                part,
                compaction: CompactionId(Uuid::nil()),
                truncation: Some(truncation),
            });
        }
        Some(changed)
    }
}

impl Piece<'_> {
    /// The truncation that leaves nothing of the piece; an output shows `words` instead.
    fn nothing(&self, words: &str) -> Truncation {
        match self.kind {
            Kind::Text | Kind::Media => Truncation::default(),
            Kind::Output => Truncation::placeholder(words),
        }
    }

    /// Applies the truncation, unless it leaves exactly the text that is shown already.
    fn show(&mut self, truncation: Truncation) {
        let (shown, head) = shown(&truncation, self.original);
        if self.kind == Kind::Media || shown != self.shown {
            (self.shown, self.head, self.truncation) = (shown, head, Some(truncation));
        }
    }
}

/// The text that a truncation leaves, and the number of bytes at its start that are the start of the original.
fn shown<'a>(truncation: &Truncation, original: &str) -> (Cow<'a, str>, usize) {
    let head = if truncation.before.is_empty() {
        original.floor_char_boundary(truncation.head.min(original.len()))
    } else {
        0
    };
    (Cow::Owned(truncation.apply(original)), head)
}

#[cfg(test)]
mod tests;
