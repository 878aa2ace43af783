//! Whether a summary is active: whether the conversation before its tail is still the one that it was written from.

use super::state::{State, origin, point, siblings};
use crate::Revision;
use crate::compaction::RevisionRange;
use crate::mark::{CompactedMark, Mark, MarkBody};
use crate::ranges::subtract;

/// A difference between the conversation that a summary was written from and the one of now. As long as it lasts, the
/// summary is not active.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Difference {
    /// This covered message was rewound.
    Rewound(Revision),
    /// This message came back from a rewind.
    Returned(Revision),
    /// This message came back that a compaction had omitted.
    Restored(Revision),
    /// The replacement of a message came back that a compaction had omitted.
    RestoredInstead { target: Revision, replacement: Revision },
    /// The content of a covered message was erased.
    Erased,
    /// A position shows another message than this one, or none.
    Shown { target: Revision, then: Option<Revision> },
}

impl Difference {
    /// True if it lasts, for a summary that was written at `base`. False if that does not follow from the state of now.
    pub(super) fn lasts(self, now: &State, base: Revision) -> bool {
        let is_rewound = |revision| now.rewound_by(revision).is_some();
        match self {
            Self::Rewound(revision) => is_rewound(revision),
            Self::Returned(revision) => !is_rewound(revision),
            Self::Erased => true,
            Self::Restored(revision) => {
                now.has_position(revision)
                    && now.newest_edit(revision).is_none()
                    && !now.replacements.contains_key(&revision)
            }
            Self::RestoredInstead { target, replacement } => {
                !is_rewound(target)
                    && !now.is_compacted(replacement)
                    && now.newest_edit(target).is_some_and(|edit| edit.replacement == Some(replacement))
            }
            Self::Shown { target, then } => match now.shown_at(target).filter(|_| !is_rewound(target)) {
                Some(shown) => shown > base && Some(shown) != then,
                None => then.is_some(),
            },
        }
    }

    /// The difference that a replacement made after a summary was written, if the summary is not active because of it.
    pub(super) fn replaced_since(now: &State, compacted: &CompactedMark, target: Revision) -> Option<Self> {
        let difference = Self::Shown { target, then: None };
        (target < compacted.tail_start && difference.lasts(now, compacted.base)).then_some(difference)
    }
}

/// A difference between `then` and `now` in the conversation before the tail: a covered message that was rewound, a
/// message that came back and that the summary does not include, or a position with another replacement.
pub(super) fn difference(
    then: &State,
    now: &State,
    covered: &[RevisionRange],
    tail_start: Revision,
) -> Option<Difference> {
    let ranges = |state: &State| state.rewound.iter().map(|omitted| omitted.range).collect::<Vec<_>>();
    let (rewound_then, rewound_now) = (ranges(then), ranges(now));
    // A replacement has its target's position: a rewind of its own revision alone does not affect it.
    let replacements: Vec<RevisionRange> = then.replacements.keys().map(|&revision| point(revision)).collect();
    let in_place = subtract(covered, &replacements);
    // Ranges also contain revisions without a message, so only their part before the tail can matter.
    let rewound = subtract(&rewound_now, &rewound_then).into_iter().find_map(|gone| {
        let covered = in_place.get(in_place.partition_point(|covered| covered.last < gone.first))?;
        let first = gone.first.max(covered.first);
        (first <= gone.last.min(tail_start - 1)).then_some(Difference::Rewound(first))
    });
    let returned = || {
        let back = subtract(&rewound_then, &rewound_now).into_iter().find(|range| range.first < tail_start);
        back.map(|range| Difference::Returned(range.first))
    };
    // A message that a compaction had omitted is not in the summary, so that it may be edited away.
    let shown_at = |state: &State, target| {
        state.shown_at(target).filter(|shown| state.rewound_by(target).is_none() && !then.is_compacted(*shown))
    };
    let in_front = RevisionRange { first: Revision::MIN, last: tail_start.saturating_sub(1) };
    let shown = || {
        let mut edited = then.edits_in(in_front).chain(now.edits_in(in_front)).map(|(target, _)| target);
        let other = edited.find(|target| shown_at(then, *target) != shown_at(now, *target));
        other.map(|target| Difference::Shown { target, then: shown_at(then, target) })
    };
    rewound.or_else(returned).or_else(|| restored(then, now, covered, in_front)).or_else(shown)
}

/// A message before the tail that came back and that a compaction had omitted: no summary includes it, and the view
/// would not show it.
fn restored(then: &State, now: &State, covered: &[RevisionRange], in_front: RevisionRange) -> Option<Difference> {
    let ranges = |state: &State| state.left_out.iter().map(|omitted| omitted.range).collect::<Vec<_>>();
    let restored = subtract(&subtract(&ranges(then), &ranges(now)), covered);
    if restored.is_empty() {
        return None;
    }
    let is_restored = |revision: Revision| restored.iter().any(|range| range.contains(revision));
    let everywhere = RevisionRange { first: Revision::MIN, last: Revision::MAX };
    let edited = now.edits_in(everywhere).map(|(target, _)| target);
    let mut elsewhere: Vec<Revision> = edited.chain(now.replacements.keys().copied()).collect();
    elsewhere.sort_unstable();
    elsewhere.dedup();
    let elsewhere: Vec<RevisionRange> = elsewhere.into_iter().map(point).collect();
    let rewound: Vec<RevisionRange> = now.rewound.iter().map(|omitted| omitted.range).collect();
    let plain = subtract(&subtract(&restored, &rewound), &elsewhere);
    if let Some(range) = plain.first().filter(|range| range.first <= in_front.last) {
        return Some(Difference::Restored(range.first));
    }
    let mut replaced = now.shown_edits_in(in_front).filter_map(|(target, edit)| Some((target, edit.replacement?)));
    let found = replaced.find(|(_, replacement)| is_restored(*replacement));
    found.map(|(target, replacement)| Difference::RestoredInstead { target, replacement })
}

/// The first position that marks concern, for all marks behind any revision.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct FirstPositions {
    /// Marks, ascending, each with the first position that it and all later ones concern, ascending too.
    marks: Vec<(Revision, Revision)>,
}

impl FirstPositions {
    /// Adds the newest mark.
    pub(super) fn add(&mut self, mark: Revision, position: Revision) {
        if position < Revision::MAX {
            while self.marks.pop_if(|(_, before)| *before >= position).is_some() {}
            self.marks.push((mark, position));
        }
    }

    /// The first position that the marks after a revision concern.
    pub(super) fn since(&self, revision: Revision) -> Revision {
        let index = self.marks.partition_point(|(mark, _)| *mark <= revision);
        self.marks.get(index).map_or(Revision::MAX, |(_, position)| *position)
    }
}

/// The first position at which a mark changes the conversation that summaries are written from.
pub(super) fn first_position(marks: &[Mark], state: &State, mark: &Mark) -> Revision {
    match &mark.body {
        MarkBody::Pinned { .. } | MarkBody::Words { .. } | MarkBody::Compacted(_) => Revision::MAX,
        MarkBody::Rewound { after, .. } => {
            let restored = state.restored.get(&mark.revision).map_or(&[][..], Vec::as_slice);
            let positions = restored.iter().map(|range| range.first).chain(state.targets_within(restored));
            positions.chain([after.saturating_add(1)]).min().unwrap_or(Revision::MAX)
        }
        MarkBody::Edited { target, .. } => *target,
        // A summary stands for what comes before its tail, wherever its own revision is.
        MarkBody::Erased { ranges } if state.has_introduction(ranges) => Revision::MIN,
        // A replacement has its target's position, which can be before a tail that its own revision is behind.
        MarkBody::Erased { ranges } => {
            let erased = ranges.iter().map(|range| range.first).chain(state.targets_within(ranges));
            erased.min().unwrap_or(Revision::MAX)
        }
        MarkBody::Pruned { omitted, replay, .. } => {
            let omitted_first = omitted.iter().map(|range| range.first).chain(state.targets_within(omitted));
            omitted_first.chain(replay.map(|replay| replay.target)).min().unwrap_or(Revision::MAX)
        }
        MarkBody::Undone { .. } => match origin(marks, mark) {
            Some((Mark { body: MarkBody::Undone { .. }, .. }, _)) | None => Revision::MAX,
            Some((undone, _)) => {
                let undone = siblings(marks, undone.revision).chain([undone]);
                undone.map(|mark| first_position(marks, state, mark)).min().unwrap_or(Revision::MAX)
            }
        },
    }
}
