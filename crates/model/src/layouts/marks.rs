//! The marks of a history with everything that follows from them, kept up to date mark by mark.

use super::parts::EVERYTHING;
use super::state::{State, point};
use super::summaries::{Difference, FirstPositions, difference, first_position};
use crate::Revision;
use crate::compaction::RevisionRange;
use crate::layout::{CoveredHistory, Layout, LayoutChange, Placement, Span, Splice};
use crate::mark::{CompactedMark, Mark, MarkBody, Words, WordsStance};
use std::collections::BTreeMap;
use std::ops::Range;

/// The marks of a history, with the state and the layout that follow from them.
///
/// A mark that is added costs what it changes. The exceptions derive everything anew: undo and redo, and, for a change
/// of messages under summaries, each summary for which it is not obvious whether it remains active.
#[derive(Debug, Clone)]
pub struct Marks {
    /// All marks, ascending.
    pub(super) marks: Vec<Mark>,
    pub(super) state: State,
    first_positions: FirstPositions,
    /// The marks of summaries that are not undone, each with a reason for which it is not active.
    summaries: BTreeMap<Revision, Option<Difference>>,
    /// The mark of the summary that the layout shows: the newest active one.
    summary: Option<Revision>,
    layout: Layout,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            marks: Vec::new(),
            state: State::default(),
            first_positions: FirstPositions::default(),
            summaries: BTreeMap::new(),
            summary: None,
            layout: Layout::everything(),
        }
    }
}

impl Marks {
    /// The state and the layout after some marks, which are ascending.
    pub fn new(marks: Vec<Mark>) -> Self {
        let mut new = Self { state: State::at(&marks, Revision::MAX), marks, ..Self::default() };
        for mark in &new.marks {
            new.first_positions.add(mark.revision, first_position(&new.marks, &new.state, mark));
        }
        let is_active = |mark: &&Mark| !new.state.undone.contains_key(&mark.revision);
        let mut changed = None;
        for mark in new.marks.iter().filter(is_active).rev() {
            let MarkBody::Compacted(compacted) = &mark.body else { continue };
            let found = new.difference(compacted, changed);
            if let Some(Difference::Shown { target, .. }) = found {
                changed = Some(target);
            }
            new.summaries.insert(mark.revision, found);
        }
        new.summary = new.newest_summary();
        new.layout = Layout {
            spans: new.spans(),
            covered: new.covered(),
            omitted: new.state.omitted_in(EVERYTHING),
            pinned: new.state.pinned_in(EVERYTHING),
            undone_prunes: new.state.undone_prunes.clone(),
        };
        new
    }

    /// The same of the marks up to a revision.
    pub fn at(marks: &[Mark], at: Revision) -> Self {
        Self::new(marks[..marks.partition_point(|mark| mark.revision <= at)].to_vec())
    }

    /// The number of marks.
    pub fn count(&self) -> usize {
        self.marks.len()
    }

    /// The mark at a revision.
    pub fn get(&self, revision: Revision) -> Option<&Mark> {
        self.marks.binary_search_by_key(&revision, |mark| mark.revision).ok().map(|index| &self.marks[index])
    }

    /// The layout after all marks.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The same, without the rest.
    pub fn into_layout(self) -> Layout {
        self.layout
    }

    /// Adds a mark that is newer than all others, and returns its change of the layout.
    pub fn add(&mut self, mark: Mark) -> LayoutChange {
        let revision = mark.revision;
        let pinned = match mark.body {
            MarkBody::Pinned { target } => Some(target),
            MarkBody::Undone { mark: undone } => match self.get(undone).map(|undone| &undone.body) {
                Some(&MarkBody::Pinned { target }) => Some(target),
                _ => return self.derive(mark),
            },
            _ => None,
        };
        let touched = match (&mark.body, pinned) {
            (MarkBody::Undone { mark: pin }, Some(target)) => self.state.unpin(*pin, target, revision),
            _ => self.state.add(&mark, None),
        };
        let first_position = first_position(&self.marks, &self.state, &mark);
        self.first_positions.add(revision, first_position);
        self.marks.push(mark);
        let mut resumed = self.review(revision, first_position);
        let newest = self.newest_summary();
        let before = std::mem::replace(&mut self.summary, newest);
        let mut change = LayoutChange::default();
        for range in &touched {
            self.change_omitted(*range, &mut change);
            self.change_pinned(*range, &mut change);
        }
        if self.summary == before {
            resumed.extend(touched);
            for range in &resumed {
                self.change_tail(*range, &mut change);
            }
            self.change_front(pinned, &resumed, &mut change);
        } else {
            let spans = self.spans();
            replace(&mut self.layout.spans, None, &spans, &mut change.spans);
            self.layout.covered = self.covered();
            change.covered = Some(self.layout.covered.clone());
        }
        change
    }

    /// Adds a mark and derives everything anew.
    fn derive(&mut self, mark: Mark) -> LayoutChange {
        let mut marks = std::mem::take(&mut self.marks);
        marks.push(mark);
        let before = std::mem::replace(self, Self::new(marks));
        LayoutChange::between(&before.layout, &self.layout)
    }

    /// True if a summary that was written from the view at `base` may still be committed.
    ///
    /// It may not if the conversation that it would cover was rewound, edited or restored since, or if another summary
    /// became active or the one before it became inactive. Appends, pins and prunes do not matter. `covered` and
    /// `tail_start` are those of the mark that would be made.
    pub fn still_applies(&self, base: Revision, covered: &[RevisionRange], tail_start: Revision) -> bool {
        let newer = self.marks.iter().rev().take_while(|mark| mark.revision > base);
        let changes_summaries = |mark: &Mark| match mark.body {
            MarkBody::Compacted(_) => true,
            MarkBody::Undone { mark } => {
                let undone = self.get(mark).map(|mark| &mark.body);
                !matches!(undone, Some(MarkBody::Pinned { .. } | MarkBody::Words { .. }))
            }
            _ => false,
        };
        let tails = self.summaries.keys().filter_map(|mark| Some(self.compacted(*mark)?.tail_start));
        let tail = tails.fold(tail_start, Revision::max);
        if self.first_positions.since(base) >= tail && !newer.into_iter().any(changes_summaries) {
            return true;
        }
        if self.state.has_erased_since(base, covered) {
            return false;
        }
        let then = Self::at(&self.marks, base);
        then.summary == self.summary && difference(&then.state, &self.state, covered, tail_start).is_none()
    }

    /// The messages whose words clients struck or kept, by their positions.
    pub fn words(&self) -> Words {
        self.state.words().collect()
    }

    /// What a client decided about the words of the message at a position.
    pub fn words_of(&self, position: Revision) -> Option<WordsStance> {
        self.state.words_of(position)
    }

    /// The marks of all compactions, ascending, also of those that are not active.
    pub fn compactions(&self) -> impl Iterator<Item = (Revision, &CompactedMark)> {
        self.marks.iter().filter_map(|mark| match &mark.body {
            MarkBody::Compacted(compacted) => Some((mark.revision, compacted)),
            _ => None,
        })
    }

    /// The mark of a summary.
    pub(super) fn compacted(&self, mark: Revision) -> Option<&CompactedMark> {
        match &self.get(mark)?.body {
            MarkBody::Compacted(compacted) => Some(compacted),
            _ => None,
        }
    }

    /// True if the conversation before a summary's tail is still the one that it was written from. The summary is not
    /// undone.
    pub(super) fn is_active(&self, mark: Revision) -> bool {
        self.summaries.get(&mark).is_some_and(Option::is_none)
    }

    fn newest_summary(&self) -> Option<Revision> {
        self.summaries.iter().rev().find(|(_, difference)| difference.is_none()).map(|(mark, _)| *mark)
    }

    /// The reason for which a summary is not active. `changed` is a message whose change may be the reason.
    fn difference(&self, compacted: &CompactedMark, changed: Option<Revision>) -> Option<Difference> {
        let CompactedMark { base, covered, tail_start, .. } = compacted;
        if self.first_positions.since(*base) >= *tail_start {
            return None;
        }
        let own = [point(compacted.summary)];
        if self.state.has_erased_since(*base, covered) || self.state.has_erased_since(*base, &own) {
            return Some(Difference::Erased);
        }
        changed
            .and_then(|target| Difference::replaced_since(&self.state, compacted, target))
            .or_else(|| difference(&State::at(&self.marks, *base), &self.state, covered, *tail_start))
    }

    /// Reviews the summaries whose conversation the newest mark may have changed, from a position on. Returns the
    /// continuations of those that are active now and were not before, or the other way round.
    fn review(&mut self, mark: Revision, first_position: Revision) -> Vec<RevisionRange> {
        let changed = match self.get(mark).map(|mark| &mark.body) {
            Some(MarkBody::Compacted(compacted)) => {
                let found = self.difference(compacted, None);
                self.summaries.insert(mark, found);
                return Vec::new();
            }
            Some(body) => body.replaced().map(|(target, _)| target),
            None => None,
        };
        if first_position == Revision::MAX {
            return Vec::new();
        }
        let mut resumed = Vec::new();
        let mut reviewed = Vec::new();
        for (mark, known) in &self.summaries {
            let Some(compacted) = self.compacted(*mark).filter(|it| it.tail_start > first_position) else { continue };
            if known.is_some_and(|known| known.lasts(&self.state, compacted.base)) {
                continue;
            }
            let found = self.difference(compacted, changed);
            if found.is_none() != known.is_none() {
                let range = |revision| RevisionRange { first: revision, last: revision };
                resumed.extend(compacted.continuation.map(range));
            }
            reviewed.push((*mark, found));
        }
        self.summaries.extend(reviewed);
        resumed
    }

    fn spans(&self) -> Vec<Span> {
        let summary = self.summary.and_then(|mark| self.compacted(mark));
        let tail = RevisionRange { first: summary.map_or(0, |compacted| compacted.tail_start), ..EVERYTHING };
        let mut spans = summary.map_or_else(Vec::new, |compacted| self.state.front(compacted));
        spans.extend(self.state.tail_in(tail, |mark| self.is_active(mark)));
        spans
    }

    fn covered(&self) -> Option<CoveredHistory> {
        let mark = self.summary?;
        self.compacted(mark).map(|compacted| CoveredHistory {
            compaction: compacted.compaction,
            mark,
            summary: compacted.summary,
            ranges: compacted.covered.clone(),
        })
    }

    fn change_omitted(&mut self, range: RevisionRange, change: &mut LayoutChange) {
        let known = &self.layout.omitted;
        let start = known.partition_point(|omitted| omitted.range.last < range.first);
        let end = known.partition_point(|omitted| omitted.range.first <= range.last).max(start);
        let first = known[start..end].first().map_or(range.first, |omitted| omitted.range.first.min(range.first));
        let last = known[start..end].last().map_or(range.last, |omitted| omitted.range.last.max(range.last));
        let omitted = self.state.omitted_in(RevisionRange { first, last });
        replace(&mut self.layout.omitted, Some(start..end), &omitted, &mut change.omitted);
    }

    fn change_pinned(&mut self, range: RevisionRange, change: &mut LayoutChange) {
        let known = &self.layout.pinned;
        let start = known.partition_point(|pinned| *pinned < range.first);
        let end = known.partition_point(|pinned| *pinned <= range.last).max(start);
        let pinned = self.state.pinned_in(range);
        replace(&mut self.layout.pinned, Some(start..end), &pinned, &mut change.pinned);
    }

    /// Derives the spans of a range in the tail.
    fn change_tail(&mut self, range: RevisionRange, change: &mut LayoutChange) {
        let tail_start = self.summary.and_then(|mark| self.compacted(mark)).map_or(0, |it| it.tail_start);
        if range.last < tail_start || range.last < range.first {
            return;
        }
        let known = &self.layout.spans;
        let front = self.front_count();
        let start = front + known[front..].partition_point(|span| last_position(span) < range.first);
        let end = (front + known[front..].partition_point(|span| first_position_of(span) <= range.last)).max(start);
        let first = known[start..end].first().map_or(range.first, |span| first_position_of(span).min(range.first));
        let last = known[start..end].last().map_or(range.last, |span| last_position(span).max(range.last));
        let range = RevisionRange { first: first.max(tail_start), last };
        let spans = self.state.tail_in(range, |mark| self.is_active(mark));
        replace(&mut self.layout.spans, Some(start..end), &spans, &mut change.spans);
    }

    /// Derives the spans before the tail, if the newest mark concerns messages there. It may pin or unpin `pinned` alone.
    fn change_front(&mut self, pinned: Option<Revision>, touched: &[RevisionRange], change: &mut LayoutChange) {
        let Some(compacted) = self.summary.and_then(|mark| self.compacted(mark)) else { return };
        // A retained replacement comes after the tail's beginning, and a rewind of its own revision omits it.
        let retains = |range: &RevisionRange| {
            let index = compacted.retained.partition_point(|retained| *retained < range.first);
            compacted.retained.get(index).is_some_and(|retained| *retained <= range.last)
        };
        if !touched.iter().any(|range| range.first < compacted.tail_start || retains(range)) {
            return;
        }
        let end = self.front_count();
        let position = |revision: Revision| self.state.position(revision);
        let pin =
            pinned.map(position).filter(|pin| !compacted.retained.iter().any(|retained| position(*retained) == *pin));
        let Some(pin) = pin else {
            let front = self.state.front(compacted);
            return replace(&mut self.layout.spans, Some(0..end), &front, &mut change.spans);
        };
        let front = &self.layout.spans[..end];
        let pinned = front.partition_point(|span| !is_placed(span, &[Placement::Pinned]));
        let before = |limit: Revision| {
            pinned
                + front[pinned..].partition_point(|span| match span {
                    Span::Placed { revision, .. } => position(*revision) < limit,
                    Span::Inline { .. } => false,
                })
        };
        let range = before(pin)..before(pin.saturating_add(1));
        let spans = self.state.pinned_under(compacted, RevisionRange { first: pin, last: pin });
        replace(&mut self.layout.spans, Some(range), &spans, &mut change.spans);
    }

    /// The number of spans before the tail.
    fn front_count(&self) -> usize {
        let in_front = [Placement::Marker, Placement::Summary, Placement::Retained, Placement::Pinned];
        self.layout.spans.partition_point(|span| is_placed(span, &in_front))
    }
}

fn is_placed(span: &Span, as_one_of: &[Placement]) -> bool {
    matches!(span, Span::Placed { placement, .. } if as_one_of.contains(placement))
}

/// The first position of a span in the tail.
fn first_position_of(span: &Span) -> Revision {
    match *span {
        Span::Inline { first, .. } => first,
        Span::Placed { placement: Placement::Edit(target), .. } => target,
        Span::Placed { revision, .. } => revision,
    }
}

/// The last position of a span in the tail.
fn last_position(span: &Span) -> Revision {
    match *span {
        Span::Inline { last, .. } => last.unwrap_or(Revision::MAX),
        Span::Placed { .. } => first_position_of(span),
    }
}

/// Replaces a range of a list, or the whole list, and records what differs.
fn replace<T: Clone + PartialEq>(
    list: &mut Vec<T>,
    range: Option<Range<usize>>,
    items: &[T],
    splices: &mut Vec<Splice<T>>,
) {
    let range = range.unwrap_or(0..list.len());
    if let Some(mut splice) = Splice::between(&list[range.clone()], items) {
        splice.start += range.start;
        splice.apply(list);
        splices.push(splice);
    }
}
