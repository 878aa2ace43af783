//! What a view does with each message, by its layout.

use super::Revision;
use super::layout::{CoveredHistory, Layout, OmitReason, OmittedHistory, Span};
use super::message::MessageKind;
use std::collections::HashSet;

/// What a view does with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Account<'a> {
    /// It shows it, whole or shortened, unless nothing of it is left to show.
    Shown,
    /// A summary in the view stands for it.
    Covered(&'a CoveredHistory),
    /// A mark leaves it out.
    Omitted(&'a OmittedHistory),
    /// It is no message of the conversation: a record, a derived message that is not in force, or a replacement whose
    /// mark does not exist.
    Nowhere,
}

/// What a view does with messages: a look-up for each, however many marks there are.
#[derive(Debug)]
pub struct Accounts<'a> {
    layout: &'a Layout,
    /// The ranges of the inline spans, ascending and disjoint.
    inline: Vec<(Revision, Revision)>,
    placed: HashSet<Revision>,
}

impl<'a> Accounts<'a> {
    /// The accounts of a layout.
    pub fn from_layout(layout: &'a Layout) -> Self {
        let mut inline = Vec::new();
        let mut placed = HashSet::new();
        for span in &layout.spans {
            match *span {
                Span::Inline { first, last } => inline.push((first, last.unwrap_or(Revision::MAX))),
                Span::Placed { revision, .. } => drop(placed.insert(revision)),
            }
        }
        Self { layout, inline, placed }
    }

    /// What the view does with the message of a revision. Of several answers the first counts: that it is shown, that a
    /// client left it out, that a summary stands for it, that a compaction left it out.
    pub fn account(&self, revision: Revision, kind: MessageKind) -> Account<'a> {
        if kind == MessageKind::Record {
            return Account::Nowhere;
        }
        let inline = self.inline.partition_point(|(_, last)| *last < revision);
        let is_inline = kind.is_inline() && self.inline.get(inline).is_some_and(|(first, _)| *first <= revision);
        if is_inline || self.placed.contains(&revision) {
            return Account::Shown;
        }
        // The revision of a summary or a marker may lie in a range of messages that another one covers.
        if matches!(kind, MessageKind::Summary | MessageKind::Marker) {
            return Account::Nowhere;
        }
        let omitted = &self.layout.omitted;
        let omitted = omitted.get(omitted.partition_point(|omitted| omitted.range.last < revision));
        let omitted = omitted.filter(|omitted| omitted.range.contains(revision));
        let covers = |covered: &&CoveredHistory| {
            let range = covered.ranges.get(covered.ranges.partition_point(|range| range.last < revision));
            range.is_some_and(|range| range.contains(revision))
        };
        match (omitted, self.layout.covered.as_ref().filter(covers)) {
            (Some(omitted), Some(covered)) if omitted.reason == OmitReason::Compacted => Account::Covered(covered),
            (Some(omitted), _) => Account::Omitted(omitted),
            (None, Some(covered)) => Account::Covered(covered),
            (None, None) => Account::Nowhere,
        }
    }

    /// True if a pin keeps the message of a revision verbatim.
    pub fn is_pinned(&self, revision: Revision) -> bool {
        self.layout.pinned.binary_search(&revision).is_ok()
    }
}
