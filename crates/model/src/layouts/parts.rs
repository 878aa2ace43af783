//! The parts of layouts that follow from the state of the marks: each for a range of revisions, so that a mark derives
//! only what it changes.

use super::state::{State, point, within};
use crate::Revision;
use crate::compaction::RevisionRange;
use crate::layout::{OmittedHistory, Placement, Span};
use crate::mark::CompactedMark;
use crate::ranges::subtract;

pub(super) const EVERYTHING: RevisionRange = RevisionRange { first: Revision::MIN, last: Revision::MAX };

fn placed(revision: Revision, placement: Placement) -> Span {
    Span::Placed { revision, placement }
}

/// The ranges of `list`, ascending and disjoint, that share a revision with `range`.
fn ranges_within(list: &[OmittedHistory], range: RevisionRange) -> Vec<RevisionRange> {
    within(list, range).iter().map(|omitted| omitted.range).collect()
}

/// The ranges of two lists that have no revision in common, ascending.
fn both(mut ranges: Vec<RevisionRange>, others: impl Iterator<Item = RevisionRange>) -> Vec<RevisionRange> {
    ranges.extend(others);
    ranges.sort_by_key(|range| range.first);
    ranges
}

impl State {
    /// The omissions in a range, ascending and disjoint. A rewind's at its edge may be longer.
    pub(super) fn omitted_in(&self, range: RevisionRange) -> Vec<OmittedHistory> {
        let edited = self.shown_edits_in(range).map(|(target, edit)| (target, edit.mark, edit.reason));
        let hidden = self.replacements_in(range).filter_map(|(revision, replacement)| {
            let (mark, reason) = self.hidden_by(revision, replacement)?;
            Some((revision, mark, reason))
        });
        let points = edited.chain(hidden).map(|(revision, mark, reason)| OmittedHistory {
            range: point(revision),
            mark,
            reason,
        });
        let mut omitted: Vec<OmittedHistory> = within(&self.rewound, range).iter().cloned().chain(points).collect();
        omitted.sort_by_key(|omitted| omitted.range.first);
        // A replacement counts by its own revision, wherever it is shown; an edited message is listed as edited.
        let taken: Vec<RevisionRange> = omitted.iter().map(|omitted| omitted.range).collect();
        for left_out in within(&self.left_out, range) {
            // Edits may divide it outside of the range, too.
            let RevisionRange { first, last } = left_out.range;
            let inside = RevisionRange { first: first.max(range.first), last: last.min(range.last) };
            let rest = subtract(&[inside], &taken).into_iter();
            omitted.extend(rest.map(|range| OmittedHistory { range, ..left_out.clone() }));
        }
        omitted.sort_by_key(|omitted| omitted.range.first);
        omitted
    }

    /// The pinned messages in a range and the pinned replacements that are shown instead of them, ascending.
    pub(super) fn pinned_in(&self, range: RevisionRange) -> Vec<Revision> {
        let replacements = self.replacements_in(range).filter(|(revision, replacement)| {
            let target = replacement.target;
            self.pin(target).is_some() && self.shown_at(target) == Some(*revision)
        });
        let mut pinned: Vec<Revision> = self.pins_in(range).chain(replacements.map(|(revision, _)| revision)).collect();
        pinned.sort_unstable();
        pinned.dedup();
        pinned
    }

    /// The spans of a range in the tail, in order. `is_active` is true for the marks of active summaries, whose
    /// continuations are shown.
    pub(super) fn tail_in(&self, range: RevisionRange, is_active: impl Fn(Revision) -> bool) -> Vec<Span> {
        let edits: Vec<(Revision, Option<Revision>)> =
            self.shown_edits_in(range).map(|(target, edit)| (target, edit.replacement)).collect();
        let rewound = ranges_within(&self.rewound, range);
        let taken = both(rewound.clone(), edits.iter().map(|(target, _)| point(*target)));
        let compacted = subtract(&ranges_within(&self.left_out, range), &taken);
        // A replacement that a compaction omitted is gone with its target. Any other replacement is shown, even if the
        // compaction omitted the messages around it.
        let edits = edits.into_iter().map(|(target, replacement)| {
            let shown = replacement.filter(|replacement| !self.is_compacted(*replacement));
            (point(target), shown.map(|replacement| placed(replacement, Placement::Edit(target))))
        });
        let continuations = self.continuations.range(range.first..=range.last);
        let continuations = continuations.filter(|(revision, mark)| self.has_position(**revision) && is_active(**mark));
        let continuations =
            continuations.map(|(revision, _)| (point(*revision), Some(placed(*revision, Placement::Continuation))));
        let gone = rewound.into_iter().chain(compacted).map(|range| (range, None));
        let mut exceptions: Vec<(RevisionRange, Option<Span>)> = gone.chain(edits).chain(continuations).collect();
        exceptions.sort_by_key(|(range, _)| range.first);
        let mut spans = Vec::new();
        let mut next = range.first;
        for (exception, instead) in exceptions {
            if next < exception.first {
                spans.push(Span::Inline { first: next, last: Some(exception.first - 1) });
            }
            spans.extend(instead);
            next = exception.last.saturating_add(1);
        }
        if next <= range.last {
            let last = (range.last < Revision::MAX).then_some(range.last);
            spans.push(Span::Inline { first: next, last });
        }
        spans
    }

    /// The spans before the tail: the summary with its marker and retained messages, then pinned ones.
    pub(super) fn front(&self, compacted: &CompactedMark) -> Vec<Span> {
        let summary = compacted.marker.map(|marker| placed(marker, Placement::Marker)).into_iter();
        let summary = summary.chain([placed(compacted.summary, Placement::Summary)]);
        let is_retained =
            |revision: &&Revision| self.has_position(**revision) && self.pin(self.position(**revision)).is_none();
        let retained = compacted.retained.iter().filter(is_retained);
        let retained = retained.map(|revision| placed(*revision, Placement::Retained));
        let mut spans: Vec<Span> = if compacted.retained_first {
            retained.chain(summary).collect()
        } else {
            summary.chain(retained).collect()
        };
        spans.extend(self.pinned_under(compacted, EVERYTHING));
        spans
    }

    /// The pinned messages that a summary covers, ascending by their position, of the positions in a range.
    pub(super) fn pinned_under(&self, compacted: &CompactedMark, range: RevisionRange) -> Vec<Span> {
        let covers = |revision: &Revision| {
            let index = compacted.covered.partition_point(|range| range.last < *revision);
            compacted.covered.get(index).is_some_and(|range| range.contains(*revision))
        };
        let last = range.last.min(compacted.tail_start.saturating_sub(1));
        let in_front = self.pins_in(RevisionRange { last, ..range });
        let in_front = in_front.filter(|position| self.rewound_by(*position).is_none());
        let shown = in_front.filter_map(|position| self.shown_at(position));
        shown.filter(covers).map(|revision| placed(revision, Placement::Pinned)).collect()
    }
}
