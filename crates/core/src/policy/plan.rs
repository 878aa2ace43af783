//! Plans of compactions: the result of the steps, computed from a view before anything is claimed or written.
//!
//! A level, or maintenance, is a list of steps: prunes, truncations and omissions, a summary. Applied to a view
//! (`PlanningInput`), they result in `Work`: the parts to shorten, the messages to omit, and the range to summarize.
//! `decide` chooses the level or maintenance whose work is worth its cost; `work_of` and `apply` compute that work.

mod after;
mod by_hand;
mod changes;
mod edit;
pub mod gain;
mod input;
mod sources;
mod summary;
#[cfg(test)]
mod tests;

pub use after::{first_changed, foreseen, marker_text, shown_summary, view, with_removals, with_summary};
pub use by_hand::{head_can_start, summary_within, tail_can_start};
pub use changes::{WrittenSummary, changes};
pub use edit::{PlanEdit, edited};
pub use input::{Boundary, PlanningInput, SummaryPlan, Work};
pub use sources::{boundary_is_safe, omitted_ranges, slot, split_at_tail, supplied};
pub use summary::{planned_summary, previous, tail_fallbacks};

use super::{LevelPolicy, Omission, PolicyStep, omission, overflow, prune, tokens};
use crate::model::compaction::{CompactionKind, Level};
use crate::model::ids::{CompactionId, PartId};
use crate::model::layout::Placement;
use crate::model::part::{Media, PartBody};
use crate::model::truncation::{Removals, Truncation};
use after::cut_down;
use foldhash::HashSet;
use sources::{inline, spare_pinned};
use std::borrow::Cow;
use summary::can_summarize;
use uuid::Uuid;

/// An automatic compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// A level is applied.
    Level(Level),
    /// Maintenance runs.
    Maintenance,
}

impl Decision {
    /// The level; none for maintenance.
    pub fn level(self) -> Option<Level> {
        match self {
            Self::Level(level) => Some(level),
            Self::Maintenance => None,
        }
    }
}

/// The kind of a compaction by these steps: the strongest of their kinds.
pub fn kind(steps: &[PolicyStep]) -> CompactionKind {
    let rank = |step: &PolicyStep| match step {
        PolicyStep::Prune(_) => CompactionKind::Prune,
        PolicyStep::Omit(_) => CompactionKind::Omission,
        PolicyStep::Summarize(_) => CompactionKind::Summary,
    };
    steps.iter().map(rank).max().unwrap_or(CompactionKind::Prune)
}

/// The automatic compaction of a view with `context_tokens` tokens: the highest reached level whose steps are worth
/// their cost, or else maintenance, or none. `allowed` is asked before the steps of a candidate are planned; `accepts`
/// gets each candidate with the tokens that it frees. Both may refuse it.
pub fn decide(
    planning: PlanningInput<'_>,
    context_tokens: i64,
    allowed: impl Fn(Decision) -> bool,
    accepts: impl Fn(Decision, i64) -> bool,
) -> Option<Decision> {
    let PlanningInput { policy, window, .. } = planning;
    if !policy.trigger.auto {
        return None;
    }
    let reached = overflow::reached(policy, window, context_tokens);
    let mut reached = reached.filter(|(level, _)| allowed(Decision::Level(*level)));
    let level = reached.find(|(level, level_policy)| {
        let accepts = |freed| accepts(Decision::Level(*level), freed);
        worthwhile_work(planning, level_policy, context_tokens, accepts).is_some()
    });
    let maintenance_pays = || {
        let freed = gain::worthwhile(planning, &policy.maintenance, &maintenance(planning), context_tokens);
        freed.is_some_and(|freed| accepts(Decision::Maintenance, freed))
    };
    let maintenance = || (allowed(Decision::Maintenance) && maintenance_pays()).then_some(Decision::Maintenance);
    level.map(|(level, _)| Decision::Level(level)).or_else(maintenance)
}

/// The result of a decision in a view with `context_tokens` tokens.
pub fn work_of(planning: PlanningInput<'_>, decision: Decision, context_tokens: i64) -> Work {
    match decision {
        Decision::Level(level) => {
            let level_policy = planning.policy.level(level);
            level_policy
                .and_then(|level_policy| worthwhile_work(planning, level_policy, context_tokens, |_| true))
                .unwrap_or_default()
        }
        Decision::Maintenance => maintenance(planning),
    }
}

/// True if a level has something to do, with its own tail or a smaller one.
fn level_has_work(planning: PlanningInput<'_>, level_policy: &LevelPolicy) -> bool {
    tail_fallbacks(level_policy).iter().any(|level_policy| steps_have_work(planning, &level_policy.steps))
}

/// True if the steps have something to do: then one of them has, without the changes of the earlier ones. So they can
/// be evaluated in any order, and those that depend only on the number of messages come first.
fn steps_have_work(planning: PlanningInput<'_>, steps: &[PolicyStep]) -> bool {
    let has_work = |step: &&PolicyStep| match step {
        PolicyStep::Summarize(rule) => can_summarize(planning, rule),
        PolicyStep::Prune(_) | PolicyStep::Omit(_) => !apply_step(planning, step).is_empty(),
    };
    let is_quick = |step: &&PolicyStep| matches!(step, PolicyStep::Omit(omission) if omission.goes_by_number());
    let (quick, slow): (Vec<&PolicyStep>, Vec<&PolicyStep>) = steps.iter().partition(is_quick);
    quick.iter().any(has_work) || slow.iter().any(has_work)
}

/// The result of a level's steps, with its own tail or a smaller one, if it is worth its cost and `accepts` permits it
/// with the tokens that it frees.
fn worthwhile_work(
    planning: PlanningInput<'_>,
    level_policy: &LevelPolicy,
    context_tokens: i64,
    accepts: impl Fn(i64) -> bool,
) -> Option<Work> {
    let mut works =
        tail_fallbacks(level_policy).into_iter().map(|level_policy| apply(planning, &level_policy, context_tokens));
    works.find(|work| gain::worthwhile(planning, &level_policy.steps, work, context_tokens).is_some_and(&accepts))
}

/// True if the steps of a level are worth their cost.
pub fn is_worth_it(planning: PlanningInput<'_>, level: Option<Level>, context_tokens: i64) -> bool {
    let level_policy = level.and_then(|level| planning.policy.level(level));
    level_policy.is_some_and(|level_policy| worthwhile_work(planning, level_policy, context_tokens, |_| true).is_some())
}

/// The level for overflow recovery, which removes most from a view that is too large, regardless of the thresholds: the
/// highest reached level that has something to do, or else the lowest of the others.
pub fn recovery_level(planning: PlanningInput<'_>, context_tokens: i64) -> Option<(Level, CompactionKind)> {
    let PlanningInput { policy, window, .. } = planning;
    let is_reached =
        |level_policy: &LevelPolicy| level_policy.threshold.due_at(window).is_some_and(|due| context_tokens >= due);
    let reached = policy.levels().rev().filter(|(_, level_policy)| is_reached(level_policy));
    let others = policy.levels().filter(|(_, level_policy)| !is_reached(level_policy));
    let useful = |(level, level_policy): (Level, &LevelPolicy)| {
        level_has_work(planning, level_policy).then(|| (level, kind(&level_policy.steps)))
    };
    reached.chain(others).find_map(useful)
}

/// The result of a level's steps in a view with `context_tokens` tokens.
pub fn apply(planning: PlanningInput<'_>, level_policy: &LevelPolicy, context_tokens: i64) -> Work {
    let due = level_policy.due_at(planning.window);
    if level_policy.alternatives {
        return apply_one(planning, &level_policy.steps, context_tokens, due);
    }
    let enough = due.filter(|_| level_policy.stop_when_enough);
    apply_steps(planning, &level_policy.steps, context_tokens, enough)
}

/// The level as applied by hand: all of its steps, even if fewer would be enough.
pub fn by_hand(level_policy: &LevelPolicy) -> LevelPolicy {
    LevelPolicy { stop_when_enough: false, alternatives: false, ..level_policy.clone() }
}

/// The result of the first step after which fewer than `enough` tokens remain, and which is worth its cost; or else of
/// the last step.
fn apply_one(planning: PlanningInput<'_>, steps: &[PolicyStep], context_tokens: i64, enough: Option<i64>) -> Work {
    let needed = context_tokens.saturating_sub(enough.unwrap_or(0));
    // A view below its threshold was refused, or asked to be smaller: nothing says that less is enough.
    let steps = if needed < 0 { &steps[steps.len().saturating_sub(1)..] } else { steps };
    let (last, others) = match steps.split_last() {
        Some(steps) => steps,
        None => return Work::default(),
    };
    let is_enough = |step: &&PolicyStep| {
        let work = apply_step(planning, step);
        let freed = gain::worthwhile(planning, std::slice::from_ref(step), &work, context_tokens);
        freed.is_some_and(|freed| freed > needed)
    };
    apply_step(planning, others.iter().find(is_enough).unwrap_or(last))
}

/// The result of maintenance.
pub fn maintenance(planning: PlanningInput<'_>) -> Work {
    apply_steps(planning, &planning.policy.maintenance, 0, None)
}

/// The result of a prune by hand: every prune of the policy, regardless of context usage and conditions.
pub fn prune_all(planning: PlanningInput<'_>) -> Work {
    let level_steps = planning.policy.levels().flat_map(|(_, level_policy)| &level_policy.steps);
    let prunes = planning.policy.maintenance.iter().chain(level_steps).filter_map(|step| match step {
        PolicyStep::Prune(prune) => Some(PolicyStep::Prune(prune.by_hand())),
        PolicyStep::Omit(_) | PolicyStep::Summarize(_) => None,
    });
    apply_steps(planning, &prunes.collect::<Vec<_>>(), 0, None)
}

/// Takes the steps in order, each on the result of the previous ones; stops when fewer than `enough` tokens remain.
fn apply_steps(planning: PlanningInput<'_>, steps: &[PolicyStep], context_tokens: i64, enough: Option<i64>) -> Work {
    let mut work = Work::default();
    let mut sources = Cow::Borrowed(planning.sources);
    for (index, step) in steps.iter().enumerate() {
        let is_done = |enough| {
            let needed = context_tokens.saturating_sub(enough);
            tokens::frees_more_than(planning.policy, planning.sources, &sources, needed)
        };
        if !work.removals.is_empty() && enough.is_some_and(is_done) {
            break;
        }
        let here = PlanningInput { sources: &sources, ..planning };
        let Work { removals, summary } = apply_step(here, step);
        work.summary = summary.or(work.summary);
        if removals.is_empty() {
            continue;
        }
        // Only a following step needs the result of this one.
        if index + 1 < steps.len() {
            sources = Cow::Owned(cut_down(sources, &removals, CompactionId(Uuid::nil())));
        }
        merge(&mut work.removals, removals);
    }
    work
}

/// The result of one step.
fn apply_step(planning: PlanningInput<'_>, step: &PolicyStep) -> Work {
    let mut work = match step {
        PolicyStep::Prune(rule) => {
            let removals =
                prune::select(planning.policy, rule, planning.window, planning.now, planning.sources).removals;
            Work { removals, summary: None }
        }
        PolicyStep::Omit(rule) => Work { removals: removals_inline(planning, rule), summary: None },
        PolicyStep::Summarize(rule) => {
            let summary = planned_summary(planning, rule);
            Work { removals: summary.as_ref().map(|summary| summary.removals.clone()).unwrap_or_default(), summary }
        }
    };
    spare_pinned(planning.layout, planning.sources, &mut work.removals);
    work
}

/// The truncations and omissions of a strategy among the messages at their own positions.
fn removals_inline(planning: PlanningInput<'_>, rule: &Omission) -> Removals {
    omission::removals(rule, planning.policy, planning.window, &inline(planning.sources))
}

/// Placeholders for all media that a view shows, including those of the last request: for a provider that refused the
/// view.
pub fn without_media(planning: PlanningInput<'_>) -> Removals {
    let name = |media: &Media| if media.name.is_empty() { "file".to_owned() } else { media.name.clone() };
    let note = |media: &Media| format!("[Attached {}: {}]", media.mime_type, name(media));
    let mut parts = Vec::new();
    for source in planning.sources.iter().filter(|source| source.placement != Some(Placement::Summary)) {
        for part in source.message.parts.iter().filter(|part| source.pruned_part(part.id).is_none()) {
            let words = match &*part.body {
                PartBody::Media(media) => note(media),
                PartBody::ToolResult(result) if !result.attachments.is_empty() => {
                    let notes = result.attachments.iter().map(note);
                    std::iter::once(result.output.clone()).chain(notes).collect::<Vec<_>>().join("\n")
                }
                _ => continue,
            };
            parts.push((part.id, Truncation::placeholder(words)));
        }
    }
    Removals { parts, omitted: Vec::new() }
}

/// The fallback for a summary that cannot be made.
pub fn fallback(planning: PlanningInput<'_>, omissions: &[Omission]) -> Work {
    let omissions: Vec<PolicyStep> = omissions.iter().cloned().map(PolicyStep::Omit).collect();
    apply_steps(planning, &omissions, 0, None)
}

/// Adds later truncations and omissions to earlier ones; for the same part the later truncation holds.
pub fn merge(removals: &mut Removals, later: Removals) {
    let again: HashSet<PartId> = later.parts.iter().map(|(part, _)| *part).collect();
    removals.parts.retain(|(part, _)| !again.contains(part));
    removals.parts.extend(later.parts);
    removals.omitted.extend(later.omitted);
    removals.omitted.sort_unstable();
    removals.omitted.dedup();
}
