//! The positions of the messages of a view, and the ranges that marks name.

use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use crate::model::ids::PartId;
use crate::model::layout::{Layout, Placement};
use crate::model::message::Message;
use crate::model::ranges::{disjoint, subtract};
use crate::model::truncation::Removals;
use crate::model::view::SourceMessage;
use crate::policy::select;
use foldhash::HashSet;
use std::borrow::Cow;

/// Removes truncations and omissions of messages that stay verbatim: pinned ones, and a provider's compaction, without
/// which a view would have all that it stands for.
pub(in crate::policy) fn spare_pinned(layout: &Layout, sources: &[SourceMessage], removals: &mut Removals) {
    let is_pinned = |source: &&SourceMessage| {
        matches!(source.placement, Some(Placement::Pinned | Placement::Block)) || layout.pinned.contains(&slot(source))
    };
    let pinned: Vec<&Message> = sources.iter().filter(is_pinned).map(|source| &*source.message).collect();
    if pinned.is_empty() {
        return;
    }
    let revisions: HashSet<Revision> = pinned.iter().map(|message| message.revision).collect();
    let parts: HashSet<PartId> = pinned.iter().flat_map(|message| &message.parts).map(|part| part.id).collect();
    removals.omitted.retain(|revision| !revisions.contains(revision));
    removals.parts.retain(|(part, _)| !parts.contains(part));
}

/// The position of a message in the conversation: for a replacement, that of the message it replaces.
pub fn slot(source: &SourceMessage) -> Revision {
    match source.placement {
        Some(Placement::Edit(target)) => target,
        _ => source.message.revision,
    }
}

/// True if a message that a new summary could cover is before a position. Messages retained by the previous summary
/// always are, even a replacement that came later than that position, and so is a provider's compaction.
pub(in crate::policy) fn is_in_front(source: &SourceMessage, position: Revision) -> bool {
    matches!(source.placement, Some(Placement::Retained | Placement::Block)) || slot(source) < position
}

/// The messages that a new summary could cover: the messages at their own positions, after those that the previous
/// summary retained.
pub(in crate::policy) fn inline(sources: &[SourceMessage]) -> Cow<'_, [SourceMessage]> {
    let has_own_position = |source: &SourceMessage| {
        !matches!(source.placement, Some(Placement::Marker | Placement::Summary | Placement::Pinned))
    };
    if sources.iter().all(has_own_position) {
        return Cow::Borrowed(sources);
    }
    sources.iter().filter(|source| has_own_position(source)).cloned().collect()
}

/// The ranges that a summary of `head` covers: those of the previous summary, and the new ones.
///
/// Adjacent messages of the view form one range, however many events lie between them. A range never extends over
/// anything that is omitted from the view.
pub(in crate::policy) fn covered(layout: &Layout, head: &[SourceMessage]) -> Vec<RevisionRange> {
    let mut ranges: Vec<RevisionRange> =
        layout.covered.as_ref().map(|covered| covered.ranges.clone()).unwrap_or_default();
    let mut run: Option<RevisionRange> = None;
    for source in head {
        let revision = source.message.revision;
        let alone = RevisionRange { first: revision, last: revision };
        match source.placement {
            // The active summary covers it already.
            Some(Placement::Retained) => continue,
            Some(_) => {
                ranges.push(alone);
                continue;
            }
            None => {}
        }
        run = Some(match run {
            Some(run) if !left_out_between(layout, run.last, revision) => {
                RevisionRange { first: run.first, last: revision }
            }
            Some(run) => {
                ranges.push(run);
                alone
            }
            None => alone,
        });
    }
    ranges.extend(run);
    disjoint(ranges)
}

pub(in crate::policy) fn left_out_between(layout: &Layout, before: Revision, after: Revision) -> bool {
    let between = RevisionRange { first: before + 1, last: after - 1 };
    between.first <= between.last && layout.omitted.iter().any(|omitted| omitted.range.overlaps(&between))
}

pub(in crate::policy) fn active_summary(sources: &[SourceMessage]) -> Option<&SourceMessage> {
    sources.iter().find(|source| source.placement == Some(Placement::Summary))
}

/// The messages of a view that a summary covers anew, and those from its tail on; neither has what stands for others.
pub fn split_at_tail(sources: &[SourceMessage], tail_start: Revision) -> (Vec<SourceMessage>, Vec<SourceMessage>) {
    let (mut front, behind): (Vec<SourceMessage>, _) =
        inline(sources).iter().cloned().partition(|source| is_in_front(source, tail_start));
    front.retain(|source| source.placement != Some(Placement::Retained));
    (front, behind)
}

/// True if a summary supplied by a client may extend to a boundary: it must not cover an open message, nor a running
/// call that was not given up.
pub fn boundary_is_safe(sources: &[SourceMessage], tail_start: Revision, includes_open_calls: bool) -> bool {
    let inline = inline(sources);
    let end = inline.iter().filter(|source| is_in_front(source, tail_start)).count();
    end <= if includes_open_calls { select::last_sealed_boundary(&inline) } else { select::last_safe_boundary(&inline) }
}

/// The ranges and the number of messages that a summary supplied by a client would cover; none if all of them are
/// covered already.
pub fn supplied(layout: &Layout, sources: &[SourceMessage], tail_start: Revision) -> (Vec<RevisionRange>, i64) {
    let inline = inline(sources);
    let head: Vec<SourceMessage> = inline.iter().filter(|source| is_in_front(source, tail_start)).cloned().collect();
    // Retained messages alone are covered already, and a tail that starts among them would contain further covered
    // messages.
    if head.iter().all(|source| source.placement == Some(Placement::Retained)) {
        return (Vec::new(), 0);
    }
    let count = i64::try_from(head.len()).unwrap_or(i64::MAX);
    (covered(layout, &head), count)
}

/// The ranges of omitted messages. Adjacent messages of the view form one range, however many events lie between them.
/// A range never extends over anything that stays or is omitted already.
pub fn omitted_ranges(layout: &Layout, sources: &[SourceMessage], removals: &Removals) -> Vec<RevisionRange> {
    let alone = Layout { covered: None, ..layout.clone() };
    let mut ranges = Vec::new();
    let runs = sources.chunk_by(|before, after| {
        let is_left_out = |source: &SourceMessage| removals.omitted.binary_search(&source.message.revision).is_ok();
        is_left_out(before) == is_left_out(after)
    });
    for run in runs.filter(|run| removals.omitted.binary_search(&run[0].message.revision).is_ok()) {
        ranges.extend(covered(&alone, run));
        // A retained message is beside the summary, so it forms a range of its own.
        let retained = run.iter().filter(|source| source.placement == Some(Placement::Retained));
        ranges.extend(retained.map(|source| {
            let revision = source.message.revision;
            RevisionRange { first: revision, last: revision }
        }));
    }
    // A replacement is located by its own revision, which may lie between two adjacent messages although its position
    // is elsewhere.
    let stays = sources.iter().filter(|source| removals.omitted.binary_search(&source.message.revision).is_err());
    let stays = stays.map(|source| source.message.revision).map(|at| RevisionRange { first: at, last: at });
    subtract(&disjoint(ranges), &disjoint(stays.collect()))
}
