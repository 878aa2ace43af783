//! Compactions with their measured effect, before they are committed.

use super::attempt::Attempt;
use crate::model::changes::{Changes, ReplayChange};
use crate::model::compaction::Trigger;
use crate::model::ids::CompactionId;
use crate::model::truncation::Removals;
use crate::policy::plan::{self, PlanningInput, SummaryPlan, Work, WrittenSummary};
use crate::policy::{replay, tokens};
use crate::store::Commit;
use crate::summarizer::SummaryOutput;
use uuid::Uuid;

/// The fallback for a summary that cannot be made: the policy's, or else the other steps alone. None if it frees too
/// little.
pub(super) fn prepared_fallback(planning: PlanningInput<'_>, candidate: Candidate<'_>) -> Option<PreparedCompaction> {
    let Candidate { work, gain_min } = candidate;
    let summary = work.summary.as_ref()?;
    let fallback = plan::fallback(planning, &summary.fallback);
    // Truncations in messages that the summary would have retained are useless without the summary.
    let mut others = work.removals.clone();
    others.parts.retain(|(part, _)| !summary.removals.parts.iter().any(|(other, _)| other == part));
    let prepared = |removals| PreparedCompaction::of_removals(planning, removals, gain_min);
    prepared(&fallback.removals).or_else(|| prepared(&others))
}

/// Planned work that is committed if it frees enough tokens.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'a> {
    /// The removals and the summary to be made.
    pub(super) work: &'a Work,
    /// Minimum number of tokens that it has to free.
    pub(super) gain_min: i64,
}

/// A compaction with its measured effect, before it is committed.
pub(super) struct PreparedCompaction {
    pub(super) changes: Changes,
    pub(super) tokens_before: i64,
    pub(super) tokens_after: i64,
    pub(super) first_changed_index: i64,
    invalidated_tokens: i64,
}

impl PreparedCompaction {
    /// The effect of truncations and a summary on a view; none if they change nothing, or, without a summary, free
    /// nothing.
    pub(super) fn of(
        planning: PlanningInput<'_>,
        removals: &Removals,
        summary: Option<(&SummaryPlan, &SummaryOutput)>,
    ) -> Option<Self> {
        let PlanningInput { policy, layout, sources, .. } = planning;
        if removals.is_empty() && summary.is_none() {
            return None;
        }
        let before = plan::view(policy, sources);
        let mut after_sources = plan::with_removals(sources, removals, CompactionId(Uuid::nil()));
        if let Some((planned, output)) = summary {
            let (boundary, text) = (planned.boundary(), &output.text);
            after_sources = plan::with_summary(policy, layout, &after_sources, &boundary, text, &planned.attachments);
        }
        let after = plan::view(policy, &after_sources);
        if summary.is_none() && after.estimated_tokens >= before.estimated_tokens {
            return None;
        }
        let first_changed_index = plan::first_changed(&before, &after);
        let changed = usize::try_from(first_changed_index).unwrap_or(usize::MAX);
        let changed = before.messages.get(changed..).unwrap_or_default();
        let written = summary.map(|(plan, output)| WrittenSummary {
            plan,
            text: &output.text,
            summarizer: &output.summarizer,
            usage: output.usage,
        });
        let mut changes = plan::changes(planning, removals, written);
        if let (Some(change), Some((_, output))) = (&mut changes.summary, summary) {
            change.contradictions.clone_from(&output.contradictions);
        }
        Some(Self {
            changes,
            tokens_before: before.estimated_tokens,
            tokens_after: after.estimated_tokens,
            first_changed_index,
            invalidated_tokens: tokens::estimate_messages(policy, changed),
        })
    }

    /// The effect of truncations and omissions alone; none if they free too little.
    pub(super) fn of_removals(planning: PlanningInput<'_>, removals: &Removals, gain_min: i64) -> Option<Self> {
        Self::of(planning, removals, None).filter(|prepared| prepared.gain() >= gain_min)
    }

    /// Tokens that it frees.
    pub(super) fn gain(&self) -> i64 {
        self.tokens_before - self.tokens_after
    }

    /// Sets the free JSON that is kept with the summary.
    pub(super) fn with_details(mut self, details_json: Option<String>) -> Self {
        if let Some(summary) = &mut self.changes.summary {
            summary.details_json = details_json;
        }
        self
    }

    /// Sets whether the summary is a client's own.
    pub(super) fn supplied(mut self, supplied: bool) -> Self {
        if let Some(summary) = &mut self.changes.summary {
            summary.supplied = supplied;
        }
        self
    }

    /// The commit of the compaction.
    pub(super) fn into_commit(self, attempt: &Attempt<'_>) -> Commit {
        let Attempt { claim, planning, guards, .. } = attempt;
        let has_helped = claim.request.trigger == Trigger::Manual || self.gain() > 0;
        Commit {
            claim: (*claim).clone(),
            tokens_before: self.tokens_before,
            tokens_after: self.tokens_after,
            first_changed_index: self.first_changed_index,
            invalidated_tokens: self.invalidated_tokens,
            usage_before: guards.usage_tokens,
            overhead_tokens: guards.overhead.unseen_tokens,
            stopped: if has_helped { None } else { guards.failure_of_one_more(planning.policy) },
            changes: match claim.request.trigger {
                Trigger::Overflow => with_replay(self.changes, *planning),
                Trigger::Threshold
                | Trigger::Maintenance
                | Trigger::Manual
                | Trigger::Supplied
                | Trigger::LastResort => self.changes,
            },
        }
    }
}

/// Replaces the truncations of the last request's media by a replay of the request without them, unless a summary covers
/// the request.
fn with_replay(changes: Changes, planning: PlanningInput<'_>) -> Changes {
    let stays = |replay: &replay::Replayed| {
        changes.summary.as_ref().is_none_or(|summary| summary.tail_start <= replay.target)
            && !changes.omitted.iter().any(|range| range.contains(replay.target))
    };
    let parts = changes.parts.iter().map(|(_, part, truncation)| (*part, truncation.clone())).collect();
    let removals = Removals { parts, omitted: Vec::new() };
    let Some(replay) = replay::replay(planning, &removals).filter(stays) else { return changes };
    let replay::Replayed { message, target, bodies } = replay;
    let parts = changes.parts.into_iter().filter(|(other, ..)| *other != message).collect();
    Changes { parts, replay: Some(ReplayChange { target, bodies }), ..changes }
}
