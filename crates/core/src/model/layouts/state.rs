//! The marks that apply at a revision, and the layout that follows from them.

use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use crate::model::layout::{OmitReason, Omitted, Placement, Span};
use crate::model::mark::{CompactedMark, Mark, MarkBody};
use crate::model::ranges::subtract;
use std::collections::{BTreeMap, BTreeSet};

/// The combined effect of the marks up to one revision.
pub(super) struct State<'a> {
    /// All marks up to that revision.
    pub(super) marks: &'a [Mark],
    /// The active marks, ascending.
    pub(super) active: Vec<&'a Mark>,
    /// Messages that rewinds omit: ascending, disjoint, each range with the newest mark that omits it.
    pub(super) rewound: Vec<Omitted>,
    /// The newest edit or replay of each target.
    pub(super) edits: BTreeMap<Revision, Edit>,
    /// Continuations, each with the active compaction that it belongs to.
    pub(super) continuations: Vec<(Revision, &'a CompactedMark)>,
    /// Replacements that are not shown although they are not rewound themselves.
    pub(super) hidden: Vec<Omitted>,
    /// All replacements that were ever made, with active edits or undone ones, each with its target.
    pub(super) replacements: BTreeMap<Revision, Revision>,
    /// Pinned messages: always the original, even if the mark names its replacement.
    pub(super) pinned: BTreeSet<Revision>,
    /// Prune marks that were undone, ascending.
    pub(super) undone_prunes: Vec<Revision>,
    /// Messages that compactions omit: ascending, disjoint.
    pub(super) left_out: Vec<RevisionRange>,
    /// Messages that compactions omit and no rewind does: ascending, disjoint, each range with the first mark that
    /// omitted it.
    pub(super) compacted: Vec<Omitted>,
}

/// An active edit or replay of a request.
#[derive(Clone, Copy)]
pub(super) struct Edit {
    /// The mark that made it.
    pub(super) mark: Revision,
    /// The message in the target's position; none if there is none.
    pub(super) replacement: Option<Revision>,
    /// The reason for which the target is omitted.
    pub(super) reason: OmitReason,
}

impl<'a> State<'a> {
    pub(super) fn at(marks: &'a [Mark], at: Revision) -> Self {
        let marks = &marks[..marks.partition_point(|mark| mark.revision <= at)];
        let undone = undone(marks);
        let active: Vec<&Mark> = marks.iter().filter(|mark| !undone.contains_key(&mark.revision)).collect();
        let mut state = Self {
            marks,
            rewound: with_unneeded_summaries(rewound(&active), marks, &undone),
            active,
            edits: BTreeMap::new(),
            continuations: Vec::new(),
            hidden: Vec::new(),
            replacements: BTreeMap::new(),
            pinned: BTreeSet::new(),
            undone_prunes: Vec::new(),
            left_out: Vec::new(),
            compacted: Vec::new(),
        };
        for mark in marks {
            state.read(mark, undone.get(&mark.revision).copied());
        }
        state.hide_replacements(&undone);
        let all = state.left_out_by_compactions(Vec::new());
        state.left_out = all.into_iter().map(|omitted| omitted.range).collect();
        state.compacted = state.left_out_by_compactions(state.rewound_ranges());
        state.pinned = state.pinned.iter().map(|target| state.position(*target)).collect();
        state
    }

    /// Applies one mark, which the mark `undone_by` undid if there is one.
    pub(super) fn read(&mut self, mark: &'a Mark, undone_by: Option<Revision>) {
        match (&mark.body, undone_by) {
            (MarkBody::Edited { target, replacement }, undone_by) => {
                self.replace(mark.revision, *target, *replacement, OmitReason::Edited, undone_by.is_none());
            }
            (MarkBody::Pruned { replay, .. }, undone_by) => {
                if let Some(replay) = replay {
                    let reason = OmitReason::Replayed;
                    let replacement = Some(replay.replacement);
                    self.replace(mark.revision, replay.target, replacement, reason, undone_by.is_none());
                }
                if undone_by.is_some() {
                    self.undone_prunes.push(mark.revision);
                }
            }
            (MarkBody::Compacted(compacted), None) => {
                self.continuations.extend(compacted.continuation.map(|revision| (revision, compacted)));
            }
            (MarkBody::Pinned { target }, None) => {
                self.pinned.insert(*target);
            }
            (MarkBody::Pinned { .. } | MarkBody::Compacted(_), Some(_))
            | (MarkBody::Rewound { .. } | MarkBody::Undone { .. }, _) => {}
        }
    }

    /// Records the replacement of a message by another or by none; `holds` is true if the mark is active.
    pub(super) fn replace(
        &mut self,
        mark: Revision,
        target: Revision,
        replacement: Option<Revision>,
        reason: OmitReason,
        holds: bool,
    ) {
        self.replacements.extend(replacement.map(|replacement| (replacement, target)));
        if holds {
            self.edits.insert(target, Edit { mark, replacement, reason });
        }
    }

    /// Records the reason for every replacement that is not shown, so that it is accounted for like any other message.
    pub(super) fn hide_replacements(&mut self, undone: &BTreeMap<Revision, Revision>) {
        for mark in self.marks {
            let MarkBody::Edited { target, replacement: Some(replacement) } = mark.body else { continue };
            let reason = match (undone.get(&mark.revision), self.rewound_by(target), self.edits.get(&target)) {
                (Some(undone_by), _, _) => Some((*undone_by, OmitReason::Edited)),
                (None, Some(rewind), _) => Some((rewind, OmitReason::Rewound)),
                (None, None, Some(newest)) if newest.mark != mark.revision => Some((newest.mark, newest.reason)),
                (None, None, _) => None,
            };
            if let Some((mark, reason)) = reason
                && self.rewound_by(replacement).is_none()
            {
                self.hidden.push(Omitted {
                    range: RevisionRange { first: replacement, last: replacement },
                    mark,
                    reason,
                });
            }
        }
    }

    /// The rewind that omits `revision`, if there is one.
    pub(super) fn rewound_by(&self, revision: Revision) -> Option<Revision> {
        let index = self.rewound.partition_point(|omitted| omitted.range.last < revision);
        self.rewound.get(index).filter(|omitted| omitted.range.contains(revision)).map(|omitted| omitted.mark)
    }

    /// Messages that active compactions omit, without the ranges in `taken`.
    pub(super) fn left_out_by_compactions(&self, mut taken: Vec<RevisionRange>) -> Vec<Omitted> {
        let mut compacted = Vec::new();
        for mark in &self.active {
            let MarkBody::Pruned { omitted, .. } = &mark.body else { continue };
            for range in subtract(omitted, &taken) {
                compacted.push(Omitted { range, mark: mark.revision, reason: OmitReason::Compacted });
                let at = taken.partition_point(|before| before.first < range.first);
                taken.insert(at, range);
            }
        }
        compacted.sort_by_key(|omitted| omitted.range.first);
        compacted
    }

    /// True if a compaction omits `revision`.
    pub(super) fn is_compacted(&self, revision: Revision) -> bool {
        let index = self.left_out.partition_point(|range| range.last < revision);
        self.left_out.get(index).is_some_and(|range| range.contains(revision))
    }

    /// True if neither a rewind nor a compaction omits `revision`.
    pub(super) fn has_position(&self, revision: Revision) -> bool {
        self.rewound_by(revision).is_none() && !self.is_compacted(revision)
    }

    /// The edits of messages that are still in the conversation, ascending by target.
    pub(super) fn shown_edits(&self) -> impl Iterator<Item = (Revision, Edit)> {
        let edits = self.edits.iter().map(|(target, edit)| (*target, *edit));
        edits.filter(|(target, _)| self.rewound_by(*target).is_none())
    }

    /// The ranges that rewinds omit.
    pub(super) fn rewound_ranges(&self) -> Vec<RevisionRange> {
        self.rewound.iter().map(|omitted| omitted.range).collect()
    }

    /// All ranges that marks omit, ascending and disjoint.
    pub(super) fn omitted(&self) -> Vec<Omitted> {
        let edited = self.shown_edits().map(|(target, edit)| Omitted {
            range: RevisionRange { first: target, last: target },
            mark: edit.mark,
            reason: edit.reason,
        });
        let in_other_words: Vec<Omitted> = self.hidden.iter().cloned().chain(edited).collect();
        let points: Vec<RevisionRange> = in_other_words.iter().map(|omitted| omitted.range).collect();
        // A replacement counts by its own revision, wherever it is shown; an edited message is listed as edited.
        let compacted = self.compacted.iter().flat_map(|omitted| {
            let apart = |range| Omitted { range, ..omitted.clone() };
            let mut points = points.clone();
            points.sort_by_key(|range| range.first);
            subtract(&[omitted.range], &points).into_iter().map(apart).collect::<Vec<_>>()
        });
        let mut omitted: Vec<Omitted> =
            self.rewound.iter().cloned().chain(compacted).chain(in_other_words.iter().cloned()).collect();
        omitted.sort_by_key(|omitted| omitted.range.first);
        omitted
    }
}

/// The marks that were undone, each with the newest mark that undid it.
///
/// The walk starts at the newest mark, so it sees every undo after all marks that could have undone it. An undo that
/// names itself or a later mark has no effect.
pub(super) fn undone(marks: &[Mark]) -> BTreeMap<Revision, Revision> {
    let mut undone = BTreeMap::new();
    for mark in marks.iter().rev() {
        if let MarkBody::Undone { mark: target } = mark.body
            && target < mark.revision
            && !undone.contains_key(&mark.revision)
        {
            undone.entry(target).or_insert(mark.revision);
            for sibling in siblings(marks, target) {
                undone.entry(sibling).or_insert(mark.revision);
            }
        }
    }
    undone
}

/// The earlier marks of the same compaction as the target. They are undone together.
pub(super) fn siblings(marks: &[Mark], target: Revision) -> impl Iterator<Item = Revision> {
    let compaction = |mark: &Mark| match &mark.body {
        MarkBody::Compacted(compacted) => Some(compacted.compaction),
        MarkBody::Pruned { compaction, .. } => Some(*compaction),
        MarkBody::Rewound { .. } | MarkBody::Edited { .. } | MarkBody::Pinned { .. } | MarkBody::Undone { .. } => None,
    };
    let end = marks.partition_point(|mark| mark.revision < target);
    let made_by = marks.get(end).filter(|mark| mark.revision == target).and_then(compaction);
    let same = move |mark: &&Mark| made_by.is_some() && compaction(mark) == made_by;
    marks[..end].iter().rev().take_while(same).map(|mark| mark.revision)
}

/// Messages that active rewinds omit: ascending and disjoint, each range with the newest mark that omits it.
pub(super) fn rewound(active: &[&Mark]) -> Vec<Omitted> {
    let mut ranges = Vec::new();
    // A newer rewind reaches past the end of every older one, so only the front of an older one remains.
    let mut taken_from = Revision::MAX;
    for mark in active.iter().rev() {
        let MarkBody::Rewound { after, .. } = mark.body else { continue };
        let range = RevisionRange { first: after.saturating_add(1), last: mark.revision.min(taken_from) };
        if range.first <= range.last {
            taken_from = after;
            ranges.push(Omitted { range, mark: mark.revision, reason: OmitReason::Rewound });
        }
    }
    ranges.reverse();
    ranges
}

/// The same ranges, plus the summaries of branches whose rewind was undone: a restored branch needs no summary.
pub(super) fn with_unneeded_summaries(
    mut rewound: Vec<Omitted>,
    marks: &[Mark],
    undone: &BTreeMap<Revision, Revision>,
) -> Vec<Omitted> {
    for mark in marks {
        let MarkBody::Rewound { has_summary: true, .. } = mark.body else { continue };
        let Some(&undone_by) = undone.get(&mark.revision) else { continue };
        let summary = mark.revision + 1;
        let at = rewound.partition_point(|omitted| omitted.range.last < summary);
        if rewound.get(at).is_none_or(|omitted| !omitted.range.contains(summary)) {
            let range = RevisionRange { first: summary, last: summary };
            rewound.insert(at, Omitted { range, mark: undone_by, reason: OmitReason::Rewound });
        }
    }
    rewound
}

/// The newest compaction whose summary is active, with the revision of its mark.
pub(super) fn newest_summary<'a>(state: &State<'a>) -> Option<(Revision, &'a CompactedMark)> {
    state.active.iter().rev().find_map(|mark| match &mark.body {
        MarkBody::Compacted(compacted) if is_valid(compacted, state) => Some((mark.revision, compacted)),
        MarkBody::Compacted(_)
        | MarkBody::Pruned { .. }
        | MarkBody::Rewound { .. }
        | MarkBody::Edited { .. }
        | MarkBody::Pinned { .. }
        | MarkBody::Undone { .. } => None,
    })
}

/// True if the conversation before a summary's tail is still the one that it was written from.
pub(super) fn is_valid(compacted: &CompactedMark, now: &State<'_>) -> bool {
    unchanged(&State::at(now.marks, compacted.base), now, &compacted.covered, compacted.tail_start)
}

/// True if `then` and `now` agree on the conversation before the tail: no covered message was rewound, no message came
/// back that the summary does not include, and the same messages have the same replacements.
pub(super) fn unchanged(then: &State<'_>, now: &State<'_>, covered: &[RevisionRange], tail_start: Revision) -> bool {
    let (rewound_then, rewound_now) = (then.rewound_ranges(), now.rewound_ranges());
    // A replacement has its target's position: a rewind of its own revision alone does not affect it.
    let replacements: Vec<RevisionRange> =
        then.replacements.keys().map(|&revision| RevisionRange { first: revision, last: revision }).collect();
    let in_place = subtract(covered, &replacements);
    let gone = subtract(&rewound_now, &rewound_then);
    let back = subtract(&rewound_then, &rewound_now);
    // A message that a compaction had omitted is not in the summary, so that it may be edited away.
    let shown_at = |state: &State<'_>, target: Revision| {
        let shown = state.edits.get(&target).map_or(Some(target), |edit| edit.replacement);
        shown.filter(|shown| state.rewound_by(target).is_none() && !then.is_compacted(*shown))
    };
    let mut edited = then.edits.keys().chain(now.edits.keys()).filter(|target| **target < tail_start);
    // Ranges also contain revisions without a message, so only their part before the tail can matter.
    let touches = |gone: &RevisionRange, covered: &RevisionRange| {
        gone.first.max(covered.first) <= gone.last.min(covered.last).min(tail_start - 1)
    };
    !gone.iter().any(|gone| in_place.iter().any(|covered| touches(gone, covered)))
        && back.iter().all(|range| range.first >= tail_start)
        && !restores_in_front(then, now, covered, tail_start)
        && edited.all(|target| shown_at(then, *target) == shown_at(now, *target))
}

/// True if a message before the tail came back that a compaction had omitted: no summary includes it, and the view
/// would not show it.
pub(super) fn restores_in_front(
    then: &State<'_>,
    now: &State<'_>,
    covered: &[RevisionRange],
    tail_start: Revision,
) -> bool {
    let restored = subtract(&subtract(&then.left_out, &now.left_out), covered);
    if restored.is_empty() {
        return false;
    }
    let is_restored = |revision| restored.iter().any(|range| range.contains(revision));
    let elsewhere: BTreeSet<Revision> = now.edits.keys().chain(now.replacements.keys()).copied().collect();
    let points = elsewhere.into_iter().map(|revision| RevisionRange { first: revision, last: revision });
    let plain = subtract(&subtract(&restored, &now.rewound_ranges()), &points.collect::<Vec<_>>());
    plain.iter().any(|range| range.first < tail_start)
        || now.shown_edits().any(|(target, edit)| target < tail_start && edit.replacement.is_some_and(is_restored))
}

/// The pieces of the view, in order: the summary with its marker and retained messages, then everything from the tail
/// on.
pub(super) fn spans(state: &State<'_>, summary: Option<&CompactedMark>) -> Vec<Span> {
    let mut spans = Vec::new();
    if let Some(compacted) = summary {
        let marker = compacted.marker.map(|revision| Span::Placed { revision, placement: Placement::Marker });
        spans.extend(marker);
        let retained = retained_spans(state, compacted);
        let summary = Span::Placed { revision: compacted.summary, placement: Placement::Summary };
        if compacted.retained_first {
            spans.splice(0..0, retained);
            spans.push(summary);
        } else {
            spans.push(summary);
            spans.extend(retained);
        }
        spans.extend(pinned_spans(state, compacted));
    }
    let tail_start = summary.map_or(0, |compacted| compacted.tail_start);
    let mut next = tail_start;
    let rewound = state.rewound_ranges().into_iter().map(|range| (range, None));
    let edited = state.shown_edits().map(|(target, edit)| {
        let placement = Placement::Edit(target);
        let placed = edit.replacement.map(|revision| Span::Placed { revision, placement });
        (RevisionRange { first: target, last: target }, placed)
    });
    // A replacement that a compaction omitted is gone with its target. Any other replacement is shown, even if the
    // compaction omitted the messages around it.
    let edited: Vec<(RevisionRange, Option<Span>)> = edited
        .map(|(range, placed)| match placed {
            Some(Span::Placed { revision, .. }) if state.is_compacted(revision) => (range, None),
            placed => (range, placed),
        })
        .collect();
    let continuations = state.continuations.iter().filter(|(revision, compacted)| {
        *revision >= tail_start && state.has_position(*revision) && is_valid(compacted, state)
    });
    let continuations = continuations.map(|&(revision, _)| {
        let placed = Span::Placed { revision, placement: Placement::Continuation };
        (RevisionRange { first: revision, last: revision }, Some(placed))
    });
    let targets: Vec<RevisionRange> = edited.iter().map(|(range, _)| *range).collect();
    let compacted: Vec<RevisionRange> = state.compacted.iter().map(|omitted| omitted.range).collect();
    let compacted = subtract(&compacted, &targets).into_iter().map(|range| (range, None));
    let mut ranges: Vec<(RevisionRange, Option<Span>)> =
        rewound.chain(edited).chain(continuations).chain(compacted).collect();
    ranges.sort_by_key(|(range, _)| range.first);
    for (range, instead) in ranges.into_iter().filter(|(range, _)| range.last >= tail_start) {
        if next < range.first {
            spans.push(Span::Inline { first: next, last: Some(range.first - 1) });
        }
        spans.extend(instead);
        next = range.last + 1;
    }
    spans.push(Span::Inline { first: next, last: None });
    spans
}

/// The covered messages that the summary retains and that are not pinned, ascending by their position in the history.
pub(super) fn retained_spans(state: &State<'_>, compacted: &CompactedMark) -> Vec<Span> {
    let is_pinned = |revision: &Revision| state.pinned.contains(&state.position(*revision));
    let retained = compacted.retained.iter().filter(|revision| state.has_position(**revision) && !is_pinned(revision));
    retained.map(|&revision| Span::Placed { revision, placement: Placement::Retained }).collect()
}

/// The pinned messages that the summary covers, ascending by their position in the history.
pub(super) fn pinned_spans(state: &State<'_>, compacted: &CompactedMark) -> Vec<Span> {
    let covers = |revision| compacted.covered.iter().any(|range| range.contains(revision));
    let in_front = state.pinned.range(..compacted.tail_start).filter(|target| state.rewound_by(**target).is_none());
    let shown = in_front.filter_map(|target| state.edits.get(target).map_or(Some(*target), |edit| edit.replacement));
    shown
        .filter(|revision| covers(*revision))
        .map(|revision| Span::Placed { revision, placement: Placement::Pinned })
        .collect()
}
