//! A slow reference model that computes every view message by message.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::super::*;
use super::{
    compaction, edited, left_out, mark, newest_change, newest_undone, pinned, pruned, range, replayed, rewound,
    still_applies, taken_out, undo,
};
use crate::accounts::{Account, Accounts};
use crate::compaction::RevisionRange;
use crate::layout::Span;
use crate::mark::{CompactedMark, MarkBody};
use crate::message::MessageKind;

/// A step in the life of a session. Numbers choose among the existing items.
#[derive(Debug, Clone)]
pub(super) enum LayoutChange {
    Message,
    Noise,
    Edit(usize),
    TakeOut(usize),
    Rewind(usize),
    Pin(usize),
    Prune,
    Omit(usize),
    Replay(usize),
    Compact(usize),
    Begin(usize),
    Finish,
    Undo(usize),
    UndoNewest,
    RedoNewest,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<LayoutChange>> {
    let step = prop_oneof![
        12 => Just(LayoutChange::Message),
        3 => Just(LayoutChange::Noise),
        3 => (0_usize..40).prop_map(LayoutChange::Edit),
        2 => (0_usize..40).prop_map(LayoutChange::TakeOut),
        2 => (0_usize..12).prop_map(LayoutChange::Rewind),
        2 => (0_usize..40).prop_map(LayoutChange::Pin),
        1 => Just(LayoutChange::Prune),
        2 => (0_usize..40).prop_map(LayoutChange::Omit),
        2 => (0_usize..40).prop_map(LayoutChange::Replay),
        3 => (0_usize..4).prop_map(LayoutChange::Compact),
        2 => (0_usize..4).prop_map(LayoutChange::Begin),
        3 => Just(LayoutChange::Finish),
        2 => (0_usize..40).prop_map(LayoutChange::Undo),
        1 => Just(LayoutChange::UndoNewest),
        1 => Just(LayoutChange::RedoNewest),
    ];
    proptest::collection::vec(step, 0..40)
}

/// A message in the conversation: its position, and the message that is shown there.
type ShownMessage = (Revision, Revision);

#[derive(Default)]
pub(super) struct Oracle {
    pub(super) revision: Revision,
    pub(super) marks: Vec<Mark>,
    /// Compactions that were finished after other steps: true if they applied, and their marks.
    pub(super) attempts: Vec<(bool, Mark)>,
    normal: Vec<Revision>,
    /// Replacements, each with the revision of its mark.
    replacements: BTreeMap<Revision, Revision>,
    /// The messages of replays, which no client wrote.
    replays: BTreeSet<Revision>,
    derived: Vec<Revision>,
    begun: Option<CompactedMark>,
}

impl Oracle {
    pub(super) fn play(steps: &[LayoutChange]) -> Self {
        let mut oracle = Self::default();
        for step in steps {
            oracle.step(step);
        }
        oracle
    }

    fn step(&mut self, step: &LayoutChange) {
        match *step {
            LayoutChange::Message => {
                let revision = self.tick();
                self.normal.push(revision);
            }
            LayoutChange::Noise => {
                self.tick();
            }
            LayoutChange::Edit(choice) => {
                if let Some((target, _)) = self.choose(choice) {
                    let replacement = self.tick();
                    let revision = self.tick();
                    self.replacements.insert(replacement, revision);
                    self.marks.push(edited(revision, target, replacement));
                }
            }
            LayoutChange::TakeOut(choice) => {
                if let Some((target, _)) = self.choose(choice) {
                    let revision = self.tick();
                    self.marks.push(taken_out(revision, target));
                }
            }
            LayoutChange::Rewind(back) => {
                let after = self.revision - Revision::try_from(back).expect("small");
                let revision = self.tick();
                self.marks.push(rewound(revision, after.max(0)));
            }
            LayoutChange::Pin(choice) => {
                if let Some((position, shown)) = self.choose(choice) {
                    let revision = self.tick();
                    self.marks.push(pinned(revision, if choice % 2 == 0 { position } else { shown }));
                }
            }
            LayoutChange::Prune => {
                self.prune();
            }
            LayoutChange::Omit(choice) => {
                let tail_start = self.summary(self.revision).map_or(0, |(_, compacted)| compacted.tail_start);
                let chosen = self.choose(choice).filter(|(position, _)| *position >= tail_start);
                if let Some((_, shown)) = chosen {
                    let revision = self.tick();
                    self.marks.push(left_out(revision, range(shown, shown)));
                }
            }
            LayoutChange::Replay(choice) => {
                if let Some((target, _)) = self.choose(choice) {
                    let replacement = self.tick();
                    self.replays.insert(replacement);
                    self.derived.push(replacement);
                    let revision = self.tick();
                    self.marks.push(replayed(revision, target));
                }
            }
            LayoutChange::Compact(keep) => {
                self.compact(keep);
            }
            LayoutChange::Begin(keep) => self.begun = self.begin(keep),
            LayoutChange::Finish => {
                self.finish();
            }
            LayoutChange::Undo(choice) => {
                if let Some(target) = (!self.marks.is_empty()).then(|| self.marks[choice % self.marks.len()].revision) {
                    let revision = self.tick();
                    self.marks.push(undo(revision, target));
                }
            }
            LayoutChange::RedoNewest => {
                if let Redo::Possible(found) = newest_undone(&self.marks, self.revision) {
                    self.reverse(found.target);
                }
            }
            LayoutChange::UndoNewest => {
                if let Some(found) = newest_change(&self.marks, self.revision) {
                    self.reverse(found.target);
                }
            }
        }
    }

    /// Undoes a mark.
    pub(super) fn reverse(&mut self, target: Revision) {
        let revision = self.tick();
        self.marks.push(undo(revision, target));
    }

    /// All messages of the conversation, as clients wrote them.
    pub(super) fn written(&self) -> Vec<Revision> {
        self.normal.clone()
    }

    fn tick(&mut self) -> Revision {
        self.revision += 1;
        self.revision
    }

    fn choose(&self, choice: usize) -> Option<ShownMessage> {
        let conversation = self.conversation(self.revision);
        (!conversation.is_empty()).then(|| conversation[choice % conversation.len()])
    }

    pub(super) fn prune(&mut self) -> Revision {
        let revision = self.tick();
        self.marks.push(pruned(revision));
        revision
    }

    /// Summarizes all but the last `keep` messages of the view at once, and returns the mark's revision.
    pub(super) fn compact(&mut self, keep: usize) -> Option<Revision> {
        self.begun = self.begin(keep);
        self.finish()
    }

    fn begin(&self, keep: usize) -> Option<CompactedMark> {
        let base = self.revision;
        let mut conversation = self.conversation(base);
        conversation.extend(self.continuations(base).into_iter().map(|revision| (revision, revision)));
        conversation.sort_unstable();
        let old_tail = self.summary(base).map_or(0, |(_, compacted)| compacted.tail_start);
        let end = conversation.len().saturating_sub(keep);
        let (head, tail) = conversation.split_at(end);
        let covers_more = head.iter().any(|(position, _)| *position >= old_tail);
        covers_more.then(|| CompactedMark {
            // A number range of its own, apart from prunes, which are numbered by their marks.
            compaction: compaction(1_000_000 + base),
            base,
            covered: self.ranges(head.iter().map(|(_, shown)| *shown).collect()),
            tail_start: tail.first().map_or(base + 1, |(position, _)| *position),
            marker: None,
            summary: 0,
            retained: Vec::new(),
            retained_first: false,
            continuation: None,
            quoted_until: None,
            said_in: Vec::new(),
        })
    }

    /// Ranges that contain exactly the given messages; revisions that are no messages may be between originals.
    fn ranges(&self, mut revisions: Vec<Revision>) -> Vec<RevisionRange> {
        revisions.sort_unstable();
        let mut ranges: Vec<RevisionRange> = Vec::new();
        for revision in revisions {
            let messages = || self.normal.iter().chain(self.replacements.keys()).chain(&self.derived);
            match ranges.last_mut() {
                Some(last)
                    if self.normal.contains(&last.last)
                        && self.normal.contains(&revision)
                        && !messages().any(|other| last.last < *other && *other < revision) =>
                {
                    last.last = revision;
                }
                _ => ranges.push(range(revision, revision)),
            }
        }
        ranges
    }

    fn finish(&mut self) -> Option<Revision> {
        let begun = self.begun.take()?;
        let applies = still_applies(&self.marks, begun.base, &begun.covered, begun.tail_start, self.revision);
        let marker = (self.revision % 2 == 0).then(|| self.tick());
        let summary = self.tick();
        let continuation = (self.revision % 3 == 0).then(|| self.tick());
        self.derived.extend(marker);
        self.derived.push(summary);
        self.derived.extend(continuation);
        let revision = self.tick();
        let mark = mark(revision, MarkBody::Compacted(CompactedMark { marker, summary, continuation, ..begun }));
        self.attempts.push((applies, mark.clone()));
        if applies {
            self.marks.push(mark);
        }
        applies.then_some(revision)
    }

    fn holds(&self, mark: &Mark, at: Revision) -> bool {
        let undoes = |other: &&Mark| {
            matches!(other.body, MarkBody::Undone { mark: target } if target == mark.revision) && other.revision <= at
        };
        mark.revision <= at && !self.marks.iter().filter(undoes).any(|undo| self.holds(undo, at))
    }

    fn held(&self, at: Revision) -> Vec<&Mark> {
        self.marks.iter().filter(|mark| self.holds(mark, at)).collect()
    }

    fn is_rewound(&self, revision: Revision, at: Revision) -> bool {
        let rewinds = |mark: &&Mark| match mark.body {
            MarkBody::Rewound { after, .. } => after < revision && revision <= mark.revision,
            _ => false,
        };
        self.held(at).iter().any(rewinds)
    }

    fn is_compacted(&self, revision: Revision, at: Revision) -> bool {
        let held = self.held(at);
        // A rewind to the last message that a compaction left out, or to one before it, ends what it left out.
        let is_ended = |prune: Revision, last: Revision| {
            held.iter().any(|mark| {
                mark.revision > prune && matches!(mark.body, MarkBody::Rewound { after, .. } if after <= last)
            })
        };
        let leaves_out = |mark: &&Mark| match &mark.body {
            MarkBody::Pruned { omitted, .. } => {
                let last = omitted.iter().map(|range| self.position(range.last)).max();
                omitted.iter().any(|range| range.contains(revision))
                    && last.is_some_and(|last| !is_ended(mark.revision, last))
            }
            _ => false,
        };
        held.iter().any(leaves_out)
    }

    /// The position of a message: for a replacement, that of the message that it replaces.
    fn position(&self, revision: Revision) -> Revision {
        let replaced = self.marks.iter().filter_map(|mark| mark.body.replaced());
        replaced.into_iter().find(|(_, other)| *other == revision).map_or(revision, |(target, _)| target)
    }

    /// The conversation without any summary: every message that neither a rewind nor a compaction omits, with edits
    /// applied.
    fn conversation(&self, at: Revision) -> Vec<ShownMessage> {
        let messages = self.uncompacted(at).into_iter();
        messages.filter(|(_, shown)| !self.is_compacted(*shown, at)).collect()
    }

    /// The conversation without the omissions of compactions.
    fn uncompacted(&self, at: Revision) -> Vec<ShownMessage> {
        let held = self.held(at);
        let shown_at = |position: Revision| {
            let mut others = held.iter().rev().filter_map(|mark| match &mark.body {
                MarkBody::Edited { target, replacement } => (*target == position).then_some(*replacement),
                other => other.replaced().and_then(|(target, other)| (target == position).then_some(Some(other))),
            });
            others.next().unwrap_or(Some(position))
        };
        let positions =
            self.normal.iter().copied().filter(|position| *position <= at && !self.is_rewound(*position, at));
        positions.filter_map(|position| Some((position, shown_at(position)?))).collect()
    }

    /// The continuations of active compactions that no mark has omitted since.
    fn continuations(&self, at: Revision) -> Vec<Revision> {
        let brought = self.held(at).into_iter().filter_map(|mark| match &mark.body {
            MarkBody::Compacted(compacted) if self.is_valid(compacted, at) => compacted.continuation,
            _ => None,
        });
        brought.filter(|revision| !self.is_rewound(*revision, at)).collect()
    }

    fn in_front(&self, tail_start: Revision, at: Revision) -> Vec<ShownMessage> {
        self.uncompacted(at).into_iter().filter(|(position, _)| *position < tail_start).collect()
    }

    /// True if a message has the position of another.
    fn replaces_another(&self, revision: Revision) -> bool {
        self.replacements.contains_key(&revision) || self.replays.contains(&revision)
    }

    /// True if the source of a summary is still the conversation.
    fn is_valid(&self, it: &CompactedMark, at: Revision) -> bool {
        let is_covered = |revision| it.covered.iter().any(|range| range.contains(revision));
        // Revisions without a message count too if they come and go, because a layout knows no messages.
        let comes_or_goes = |revision| match (self.is_rewound(revision, it.base), self.is_rewound(revision, at)) {
            (true, false) => true,
            (false, true) => is_covered(revision) && !self.replaces_another(revision),
            (true, true) | (false, false) => false,
        };
        // A message that a compaction omitted is in no summary, and must not come back among the covered messages.
        let returns = |&(_, shown): &ShownMessage| {
            self.is_compacted(shown, it.base) && !is_covered(shown) && !self.is_compacted(shown, at)
        };
        let ground = |at| {
            let mut messages = self.in_front(it.tail_start, at);
            messages.retain(|(_, shown)| !self.is_compacted(*shown, it.base));
            messages
        };
        !(1..it.tail_start).any(comes_or_goes)
            && !self.in_front(it.tail_start, at).iter().any(returns)
            && ground(it.base) == ground(at)
    }

    /// The newest summary whose source is still the conversation.
    fn summary(&self, at: Revision) -> Option<(Revision, &CompactedMark)> {
        self.held(at).into_iter().rev().find_map(|mark| match &mark.body {
            MarkBody::Compacted(it) if self.is_valid(it, at) => Some((mark.revision, it)),
            _ => None,
        })
    }

    fn is_pinned(&self, position: Revision, at: Revision) -> bool {
        let replaces = |mark: &Mark, pin| mark.body.replaced() == Some((position, pin));
        let names_position = |pin: Revision| pin == position || self.marks.iter().any(|mark| replaces(mark, pin));
        self.held(at).iter().any(|mark| matches!(mark.body, MarkBody::Pinned { target } if names_position(target)))
    }

    /// The messages of a view, in order.
    pub(super) fn view(&self, at: Revision) -> Vec<Revision> {
        let summary = self.summary(at).map(|(_, compacted)| compacted);
        let tail_start = summary.map_or(0, |compacted| compacted.tail_start);
        let mut tail: Vec<ShownMessage> =
            self.conversation(at).into_iter().filter(|(position, _)| *position >= tail_start).collect();
        let covers = |shown| summary.is_some_and(|it| it.covered.iter().any(|range| range.contains(shown)));
        let front = self.in_front(tail_start, at).into_iter().filter(|(_, shown)| covers(*shown));
        let continuations = self.continuations(at).into_iter().filter(|revision| *revision >= tail_start);
        tail.extend(continuations.map(|revision| (revision, revision)));
        tail.sort_unstable();
        let placed = summary.into_iter().flat_map(|compacted| compacted.marker.into_iter().chain([compacted.summary]));
        let kept = front.filter(|(position, _)| self.is_pinned(*position, at)).chain(tail);
        placed.chain(kept.map(|(_, shown)| shown)).collect()
    }

    /// The messages of a layout, in order.
    pub(super) fn shown_by(&self, layout: &Layout, at: Revision) -> Vec<Revision> {
        let messages = layout.spans.iter().flat_map(|span| match *span {
            Span::Placed { revision, .. } => vec![revision],
            Span::Inline { first, last } => {
                let last = last.unwrap_or(at).min(at);
                self.normal.iter().copied().filter(|message| (first..=last).contains(message)).collect()
            }
        });
        messages.collect()
    }

    /// Checks that every message of a client is shown once, covered, or omitted by an active mark.
    pub(super) fn check_accounts(&self, layout: &Layout, at: Revision) -> Result<(), TestCaseError> {
        let summary = self.summary(at);
        prop_assert_eq!(layout.covered.as_ref().map(|covered| covered.mark), summary.map(|(mark, _)| mark));
        let shown = self.shown_by(layout, at);
        let covered = |message| {
            layout.covered.as_ref().is_some_and(|covered| covered.ranges.iter().any(|range| range.contains(message)))
        };
        let omitted = |message| layout.omitted.iter().filter(|omitted| omitted.range.contains(message)).count();
        for &message in self.normal.iter().filter(|message| **message <= at) {
            let times_shown = shown.iter().filter(|other| **other == message).count();
            let pinned = usize::from(times_shown == 1 && covered(message) && self.is_pinned(message, at));
            // A compaction that was undone and redone may omit messages that were covered meanwhile.
            let twice = usize::from(covered(message) && self.is_compacted(message, at));
            let accounts = times_shown + usize::from(covered(message)) + omitted(message) - pinned - twice;
            prop_assert_eq!(accounts, 1, "message {} at {}: {:?}", message, at, layout);
        }
        for (&message, _) in self.replacements.iter().filter(|(_, mark)| **mark <= at) {
            let times_shown = shown.iter().filter(|other| **other == message).count();
            prop_assert!(times_shown <= 1);
            let accounts = times_shown + usize::from(covered(message)) + omitted(message);
            prop_assert!(accounts >= 1, "replacement {} at {}: {:?}", message, at, layout);
        }
        let accounts = Accounts::from_layout(layout);
        let normal =
            self.normal.iter().filter(|message| **message <= at).map(|message| (*message, MessageKind::Normal));
        let edits = self.replacements.iter().filter(|(_, mark)| **mark <= at);
        for (message, kind) in normal.chain(edits.map(|(message, _)| (*message, MessageKind::Edit))) {
            let account = accounts.account(message, kind);
            prop_assert_eq!(account == Account::Shown, shown.contains(&message), "message {} at {}", message, at);
            let is_explained = match &account {
                Account::Shown => true,
                Account::Covered(_) => covered(message),
                Account::Omitted(omitted) => omitted.range.contains(message),
                Account::Nowhere => false,
            };
            prop_assert!(is_explained, "message {} at {}: {:?}", message, at, account);
            let names_pin = layout.pinned.contains(&message);
            prop_assert_eq!(accounts.is_pinned(message), names_pin);
        }
        for pair in layout.omitted.windows(2) {
            prop_assert!(pair[0].range.last < pair[1].range.first, "{:?}", pair);
        }
        for omitted in &layout.omitted {
            let says_so = |mark: &Mark| mark.revision == omitted.mark && self.holds(mark, at);
            prop_assert!(self.marks.iter().any(says_so), "{:?} at {}", omitted, at);
        }
        Ok(())
    }
}
