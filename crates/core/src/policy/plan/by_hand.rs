//! A summary of a range of a view that the caller chooses.

use super::input::{PlanningInput, Work};
use super::sources::{inline, is_in_front, slot, spare_pinned};
use super::summary::{selected, summary_of};
use crate::model::Revision;
use crate::model::compaction::Bounds;
use crate::model::ids::PartId;
use crate::model::layout::Placement;
use crate::model::view::SourceMessage;
use crate::policy::calls::Calls;
use crate::policy::select::{self, Selection};
use crate::policy::{LevelPolicy, PolicyStep};
use foldhash::HashSet;

/// True if a tail can start at this position: the view shows a message there, and before it there is no open message,
/// no running call, and no call that has its result after it.
pub fn tail_can_start(sources: &[SourceMessage], tail_start: Revision) -> bool {
    let inline = inline(sources);
    is_shown_at(&inline, tail_start)
        && in_front(&inline, tail_start) <= select::last_safe_boundary(&inline)
        && !Calls::from_messages(&*inline).are_split(|source| is_in_front(source, tail_start))
}

/// True if the summarized range can start at this position: the view shows a message there, no summary before it, since
/// a view has one at most, and no call before it that has its result after it.
pub fn head_can_start(sources: &[SourceMessage], head_start: Revision) -> bool {
    let inline = inline(sources);
    is_shown_at(&inline, head_start)
        && sources.iter().all(|source| source.placement != Some(Placement::Summary))
        && !Calls::from_messages(&*inline).are_split(|source| is_in_front(source, head_start))
}

/// The summary of the level's last step, for the messages between two positions in the view, without the level's other
/// steps. Empty if there is nothing to cover, or if no summary of exactly these messages is possible.
pub fn summary_within(planning: PlanningInput<'_>, level_policy: &LevelPolicy, bounds: Bounds) -> Work {
    let sources = planning.sources;
    let Bounds { head_start, tail_start } = bounds;
    // Before a range of its own, what a provider's compaction stands for would be nowhere.
    let can_be = head_start.is_none_or(|start| planning.covered.is_empty() && head_can_start(sources, start))
        && tail_start.is_none_or(|start| tail_can_start(sources, start));
    let rule = level_policy.steps.iter().rev().find_map(|step| match step {
        PolicyStep::Summarize(rule) => Some(rule.as_ref()),
        PolicyStep::Prune(_) | PolicyStep::Omit(_) => None,
    });
    let Some(rule) = rule.filter(|_| can_be) else { return Work::default() };
    let inline = inline(sources);
    let front = head_start.map_or(0, |start| in_front(&inline, start));
    let selection = match tail_start {
        Some(start) => Selection { head_end: in_front(&inline, start), ..Selection::default() },
        None => selected(planning, rule, &inline),
    };
    let Some(mut summary) = summary_of(planning, rule, &inline, front, selection) else { return Work::default() };
    // The messages before the range stay as they are, and the fallback applies to the whole view only.
    let parts: HashSet<PartId> =
        summary.front.iter().flat_map(|source| &source.message.parts).map(|part| part.id).collect();
    summary.removals.parts.retain(|(part, _)| !parts.contains(part));
    spare_pinned(planning.layout, sources, &mut summary.removals);
    summary.fallback = Vec::new();
    Work { removals: summary.removals.clone(), summary: Some(summary) }
}

/// True if the view shows a message at this position.
fn is_shown_at(inline: &[SourceMessage], position: Revision) -> bool {
    inline.get(in_front(inline, position)).is_some_and(|source| slot(source) == position)
}

/// Number of messages before a position.
fn in_front(inline: &[SourceMessage], position: Revision) -> usize {
    inline.iter().filter(|source| is_in_front(source, position)).count()
}
