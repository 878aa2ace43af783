//! The combined effect of marks, which are added one after the other.

use crate::Revision;
use crate::compaction::RevisionRange;
use crate::layout::{OmitReason, OmittedHistory};
use crate::mark::{Mark, MarkBody, WordsStance};
use crate::ranges::subtract;
use std::collections::{BTreeMap, BTreeSet};

/// The combined effect of the marks up to one revision.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct State {
    /// Undone marks, each with the newest mark that undid it.
    pub(super) undone: BTreeMap<Revision, Revision>,
    /// Messages that rewinds omit: ascending, disjoint, each range with the newest mark that omits it.
    pub(super) rewound: Vec<OmittedHistory>,
    /// Active edits and replays by their target and their mark.
    edits: BTreeMap<(Revision, Revision), Edit>,
    /// All replacements that were ever made, by active marks or undone ones.
    pub(super) replacements: BTreeMap<Revision, Replacement>,
    /// Active pins: the pinned message, always the original, and the mark.
    pins: BTreeSet<(Revision, Revision)>,
    /// What becomes of the words of messages, by their positions; none where that was left to the summarizer again.
    words: BTreeMap<Revision, Option<WordsStance>>,
    /// Continuations of active compactions, each with the mark of its compaction.
    pub(super) continuations: BTreeMap<Revision, Revision>,
    /// Summaries and markers of all compactions, each with the beginning of the tail.
    introductions: BTreeMap<Revision, Revision>,
    /// Prune marks that were undone, ascending.
    pub(super) undone_prunes: Vec<Revision>,
    /// Messages that compactions omit: ascending, disjoint, each range with the first mark that omitted it.
    pub(super) left_out: Vec<OmittedHistory>,
    /// The omissions of compactions that no rewind ended, by their marks.
    omissions: BTreeMap<Revision, Omission>,
    /// Active rewinds that ended omissions, each with the messages that came back.
    pub(super) restored: BTreeMap<Revision, Vec<RevisionRange>>,
    /// Ranges of erased messages, each with its mark, ascending by mark.
    erased: Vec<(Revision, RevisionRange)>,
}

/// The messages that a compaction omits.
#[derive(Debug, Clone, PartialEq)]
struct Omission {
    ranges: Vec<RevisionRange>,
    /// The last position that it omits.
    last: Revision,
}

/// An active edit or replay of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Edit {
    /// The mark that made it.
    pub(super) mark: Revision,
    /// The message in the target's position; none if there is none.
    pub(super) replacement: Option<Revision>,
    /// The reason for which the target is omitted.
    pub(super) reason: OmitReason,
}

/// The origin of a replacement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Replacement {
    /// The message that it replaces.
    pub(super) target: Revision,
    mark: Revision,
    reason: OmitReason,
}

pub(super) fn point(revision: Revision) -> RevisionRange {
    RevisionRange { first: revision, last: revision }
}

impl State {
    /// The effect of the marks up to a revision; `marks` are ascending.
    pub(super) fn at(marks: &[Mark], at: Revision) -> Self {
        let marks = &marks[..marks.partition_point(|mark| mark.revision <= at)];
        let undone = undone(marks);
        let mut state = Self { undone, ..Self::default() };
        for mark in marks {
            let undone_by = state.undone.get(&mark.revision).copied();
            state.add(mark, undone_by);
        }
        state
    }

    /// Adds the newest mark, which the mark `undone_by` undid if there is one. Returns the revisions of the messages
    /// that it concerns. The marks that an undo concerns must have been added with their undo.
    pub(super) fn add(&mut self, mark: &Mark, undone_by: Option<Revision>) -> Vec<RevisionRange> {
        let is_active = undone_by.is_none();
        let mut touched = Vec::new();
        match &mark.body {
            MarkBody::Edited { target, replacement } => {
                let edit = Edit { mark: mark.revision, replacement: *replacement, reason: OmitReason::Edited };
                self.replace(*target, edit, is_active, &mut touched);
            }
            MarkBody::Pruned { omitted, replay, .. } => {
                if is_active {
                    self.leave_out(mark.revision, omitted);
                    let last = self.last_position(omitted);
                    let omission = |last| (mark.revision, Omission { ranges: omitted.clone(), last });
                    self.omissions.extend(last.map(omission));
                    touched.extend(omitted);
                    touched.extend(self.targets_within(omitted).map(point));
                } else {
                    self.undone_prunes.push(mark.revision);
                }
                if let Some(replay) = replay {
                    let replacement = Some(replay.replacement);
                    let edit = Edit { mark: mark.revision, replacement, reason: OmitReason::Replayed };
                    self.replace(replay.target, edit, is_active, &mut touched);
                }
            }
            MarkBody::Rewound { after, has_summary, .. } => {
                let range = match undone_by {
                    None => {
                        touched = self.end_omissions(*after, mark.revision);
                        RevisionRange { first: after.saturating_add(1), last: mark.revision }
                    }
                    // A restored branch needs no summary.
                    Some(_) if *has_summary => point(mark.revision + 1),
                    Some(_) => return touched,
                };
                self.rewind(range, undone_by.unwrap_or(mark.revision));
                touched.push(range);
            }
            MarkBody::Compacted(compacted) => {
                for message in compacted.marker.into_iter().chain([compacted.summary]) {
                    self.introductions.entry(message).or_insert(compacted.tail_start);
                }
                if let Some(continuation) = compacted.continuation.filter(|_| is_active) {
                    self.continuations.insert(continuation, mark.revision);
                    touched.push(point(continuation));
                }
            }
            MarkBody::Pinned { target } => {
                let position = self.position(*target);
                if is_active {
                    self.pins.insert((position, mark.revision));
                    touched.extend(self.shown_at(position).into_iter().chain([position]).map(point));
                }
            }
            MarkBody::Words { target, stance } => {
                if is_active {
                    self.words.insert(self.position(*target), *stance);
                }
            }
            MarkBody::Undone { .. } => {}
            MarkBody::Erased { ranges } => {
                self.erased.extend(ranges.iter().map(|range| (mark.revision, *range)));
            }
        }
        touched
    }

    /// Ends a pin by the newest mark, which is not added otherwise. Returns the revisions of the messages that it
    /// concerns.
    pub(super) fn unpin(&mut self, pin: Revision, target: Revision, undo: Revision) -> Vec<RevisionRange> {
        let position = self.position(target);
        self.undone.insert(pin, undo);
        self.pins.remove(&(position, pin));
        self.shown_at(position).into_iter().chain([position]).map(point).collect()
    }

    fn replace(&mut self, target: Revision, edit: Edit, is_active: bool, touched: &mut Vec<RevisionRange>) {
        if let Some(replacement) = edit.replacement {
            let replaced = Replacement { target, mark: edit.mark, reason: edit.reason };
            self.replacements.insert(replacement, replaced);
        }
        if is_active {
            let before = self.newest_edit(target).and_then(|edit| edit.replacement);
            touched.extend([Some(target), before, edit.replacement].into_iter().flatten().map(point));
            self.edits.insert((target, edit.mark), edit);
        }
    }

    /// Omits a range that ends at the newest mark or right after it: of the ranges so far, only those in front of it
    /// remain.
    fn rewind(&mut self, range: RevisionRange, mark: Revision) {
        if range.first > range.last {
            return;
        }
        while self.rewound.pop_if(|before| before.range.first >= range.first).is_some() {}
        if let Some(before) = self.rewound.last_mut() {
            before.range.last = before.range.last.min(range.first - 1);
        }
        self.rewound.push(OmittedHistory { range, mark, reason: OmitReason::Rewound });
    }

    fn leave_out(&mut self, mark: Revision, omitted: &[RevisionRange]) {
        for range in omitted {
            let taken: Vec<RevisionRange> = within(&self.left_out, *range).iter().map(|before| before.range).collect();
            for range in subtract(&[*range], &taken) {
                let at = self.left_out.partition_point(|before| before.range.first < range.first);
                self.left_out.insert(at, OmittedHistory { range, mark, reason: OmitReason::Compacted });
            }
        }
    }

    /// Ends the omissions of which a rewind to `after` leaves nothing but their own messages, or not even all of these:
    /// they made space for what is gone. Otherwise the view would lack the message to which the conversation was
    /// rewound. Returns the revisions of the messages that it concerns.
    fn end_omissions(&mut self, after: Revision, mark: Revision) -> Vec<RevisionRange> {
        let count = self.omissions.len();
        self.omissions.retain(|_, omission| omission.last < after);
        if self.omissions.len() == count {
            return Vec::new();
        }
        let ranges = |list: &[OmittedHistory]| list.iter().map(|omitted| omitted.range).collect::<Vec<_>>();
        let before = ranges(&std::mem::take(&mut self.left_out));
        let omissions = std::mem::take(&mut self.omissions);
        for (mark, omission) in &omissions {
            self.leave_out(*mark, &omission.ranges);
        }
        self.omissions = omissions;
        let restored = subtract(&before, &ranges(&self.left_out));
        let targets: Vec<RevisionRange> = self.targets_within(&restored).map(point).collect();
        // What is beside them joins them again.
        let beside = |range: &RevisionRange| RevisionRange {
            first: range.first.saturating_sub(1),
            last: range.last.saturating_add(1),
        };
        let touched = restored.iter().map(beside).chain(targets).collect();
        self.restored.insert(mark, restored);
        touched
    }

    /// The last position of the messages in some ranges, which are ascending and disjoint.
    fn last_position(&self, ranges: &[RevisionRange]) -> Option<Revision> {
        let replacements = ranges.iter().flat_map(|range| self.replacements_in(*range));
        let elsewhere: Vec<RevisionRange> = replacements.map(|(revision, _)| point(revision)).collect();
        let in_place = subtract(ranges, &elsewhere).last().map(|range| range.last);
        in_place.into_iter().chain(self.targets_within(ranges)).max()
    }

    /// True if a message of these ranges, which are ascending and disjoint, was erased after a revision.
    pub(super) fn has_erased_since(&self, revision: Revision, ranges: &[RevisionRange]) -> bool {
        let newer = self.erased.iter().rev().take_while(|(mark, _)| *mark > revision);
        newer.into_iter().any(|(_, erased)| {
            let found = ranges.get(ranges.partition_point(|range| range.last < erased.first));
            found.is_some_and(|range| range.first <= erased.last)
        })
    }

    /// The targets of all replacements in some ranges.
    pub(super) fn targets_within(&self, ranges: &[RevisionRange]) -> impl Iterator<Item = Revision> {
        let replacements = ranges.iter().flat_map(|range| self.replacements_in(*range));
        replacements.map(|(_, replacement)| replacement.target)
    }

    pub(super) fn replacements_in(&self, range: RevisionRange) -> impl Iterator<Item = (Revision, Replacement)> {
        let RevisionRange { first, last } = range;
        let replacements = (first <= last).then(|| self.replacements.range(first..=last));
        replacements.into_iter().flatten().map(|(revision, replacement)| (*revision, *replacement))
    }

    /// The newest active edit or replay of a message.
    pub(super) fn newest_edit(&self, target: Revision) -> Option<Edit> {
        self.edits.range((target, Revision::MIN)..=(target, Revision::MAX)).next_back().map(|(_, edit)| *edit)
    }

    /// The newest edit or replay of each target in a range, ascending by target.
    pub(super) fn edits_in(&self, range: RevisionRange) -> impl Iterator<Item = (Revision, Edit)> {
        let target_from = move |from: Revision| {
            let in_range = (from <= range.last).then(|| self.edits.range((from, Revision::MIN)..))?.next();
            in_range.map(|((target, _), _)| *target).filter(|target| *target <= range.last)
        };
        let targets =
            std::iter::successors(target_from(range.first), move |target| target_from(target.saturating_add(1)));
        targets.filter_map(|target| Some((target, self.newest_edit(target)?)))
    }

    /// The edits of messages that are still in the conversation, ascending by target.
    pub(super) fn shown_edits_in(&self, range: RevisionRange) -> impl Iterator<Item = (Revision, Edit)> {
        self.edits_in(range).filter(|(target, _)| self.rewound_by(*target).is_none())
    }

    /// The message in a position, if neither an edit nor a replay left it empty. It may be rewound.
    pub(super) fn shown_at(&self, position: Revision) -> Option<Revision> {
        self.newest_edit(position).map_or(Some(position), |edit| edit.replacement)
    }

    /// The position of a message: for a replacement, the position of its target.
    pub(super) fn position(&self, revision: Revision) -> Revision {
        self.replacements.get(&revision).map_or(revision, |replacement| replacement.target)
    }

    /// The pinned positions in a range, ascending.
    pub(super) fn pins_in(&self, range: RevisionRange) -> impl Iterator<Item = Revision> {
        let RevisionRange { first, last } = range;
        let pins = (first <= last).then(|| self.pins.range((first, Revision::MIN)..=(last, Revision::MAX)));
        let mut before = None;
        let positions = pins.into_iter().flatten().map(|(position, _)| *position);
        positions.filter(move |position| before.replace(*position) != Some(*position))
    }

    /// The newest active mark that pins a position.
    pub(super) fn pin(&self, position: Revision) -> Option<Revision> {
        self.pins.range((position, Revision::MIN)..=(position, Revision::MAX)).next_back().map(|(_, mark)| *mark)
    }

    /// The messages whose words are struck or kept, by their positions, without those that were erased.
    pub(super) fn words(&self) -> impl Iterator<Item = (Revision, WordsStance)> {
        let marked = self.words.iter().filter_map(|(position, stance)| Some((*position, (*stance)?)));
        marked.filter(|(position, _)| !self.erased.iter().any(|(_, range)| range.contains(*position)))
    }

    /// What a client decided about the words of the message at a position.
    pub(super) fn words_of(&self, position: Revision) -> Option<WordsStance> {
        self.words.get(&position).copied().flatten()
    }

    /// The beginning of the tail behind a message that is a summary or a marker.
    pub(super) fn tail_behind(&self, introduction: Revision) -> Option<Revision> {
        self.introductions.get(&introduction).copied()
    }

    /// True if one of these ranges has a summary or a marker.
    pub(super) fn has_introduction(&self, ranges: &[RevisionRange]) -> bool {
        ranges.iter().any(|range| self.introductions.range(range.first..=range.last).next().is_some())
    }

    /// The rewind that omits `revision`, if there is one.
    pub(super) fn rewound_by(&self, revision: Revision) -> Option<Revision> {
        within(&self.rewound, point(revision)).first().map(|omitted| omitted.mark)
    }

    /// True if a compaction omits `revision`.
    pub(super) fn is_compacted(&self, revision: Revision) -> bool {
        !within(&self.left_out, point(revision)).is_empty()
    }

    /// True if neither a rewind nor a compaction omits `revision`.
    pub(super) fn has_position(&self, revision: Revision) -> bool {
        self.rewound_by(revision).is_none() && !self.is_compacted(revision)
    }

    /// The mark and the reason for which a replacement is not shown although no rewind omits it itself.
    pub(super) fn hidden_by(&self, revision: Revision, replacement: Replacement) -> Option<(Revision, OmitReason)> {
        let Replacement { target, mark, reason } = replacement;
        if reason != OmitReason::Edited || self.rewound_by(revision).is_some() {
            return None;
        }
        if let Some(undone_by) = self.undone.get(&mark) {
            return Some((*undone_by, OmitReason::Edited));
        }
        if let Some(rewind) = self.rewound_by(target) {
            return Some((rewind, OmitReason::Rewound));
        }
        let mut later = self.edits.range((target, mark.saturating_add(1))..=(target, Revision::MAX));
        later.next().map(|(_, next)| (next.mark, next.reason))
    }
}

/// The ranges of an ascending and disjoint list that share a revision with a range.
pub(super) fn within(list: &[OmittedHistory], range: RevisionRange) -> &[OmittedHistory] {
    let start = list.partition_point(|omitted| omitted.range.last < range.first);
    let end = list.partition_point(|omitted| omitted.range.first <= range.last);
    &list[start..end.max(start)]
}

/// The marks that were undone, each with the newest mark that undid it.
///
/// The walk starts at the newest mark, so it sees every undo after all marks that could have undone it. An undo that
/// names itself or a later mark has no effect.
fn undone(marks: &[Mark]) -> BTreeMap<Revision, Revision> {
    let mut undone = BTreeMap::new();
    for mark in marks.iter().rev() {
        if let MarkBody::Undone { mark: target } = mark.body
            && target < mark.revision
            && !undone.contains_key(&mark.revision)
        {
            undone.entry(target).or_insert(mark.revision);
            for sibling in siblings(marks, target) {
                undone.entry(sibling.revision).or_insert(mark.revision);
            }
        }
    }
    undone
}

/// The earlier marks of the same compaction as the target. They are undone together.
pub(super) fn siblings(marks: &[Mark], target: Revision) -> impl Iterator<Item = &Mark> {
    let compaction = |mark: &Mark| match &mark.body {
        MarkBody::Compacted(compacted) => Some(compacted.compaction),
        MarkBody::Pruned { compaction, .. } => Some(*compaction),
        MarkBody::Rewound { .. }
        | MarkBody::Edited { .. }
        | MarkBody::Pinned { .. }
        | MarkBody::Words { .. }
        | MarkBody::Undone { .. }
        | MarkBody::Erased { .. } => None,
    };
    let end = marks.partition_point(|mark| mark.revision < target);
    let made_by = marks.get(end).filter(|mark| mark.revision == target).and_then(compaction);
    let same = move |mark: &&Mark| made_by.is_some() && compaction(mark) == made_by;
    marks[..end].iter().rev().take_while(same)
}

/// The mark at the end of a chain of undos, and the length of the chain: zero for a mark that undoes nothing, an odd
/// number if the chain undoes that mark, an even number if it redoes it. None for a mark that undoes a mark that does
/// not exist.
pub(super) fn origin<'a>(marks: &'a [Mark], mark: &'a Mark) -> Option<(&'a Mark, usize)> {
    let (mut origin, mut depth) = (mark, 0);
    while let MarkBody::Undone { mark: target } = origin.body {
        let earlier = &marks[..marks.partition_point(|mark| mark.revision < origin.revision)];
        let found = earlier.binary_search_by_key(&target, |mark| mark.revision).ok()?;
        (origin, depth) = (&earlier[found], depth + 1);
    }
    Some((origin, depth))
}
