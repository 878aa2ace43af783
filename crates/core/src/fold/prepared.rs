//! Compactions with their measured effect, before they are committed.

use crate::model::changes::{Changes, ReplayChange};
use crate::model::ids::CompactionId;
use crate::model::truncation::Removals;
use crate::model::view::View;
use crate::policy::plan::{self, PlanningInput, SummaryPlan, WrittenSummary};
use crate::policy::{replay, tokens};
use uuid::Uuid;

/// A compaction with its measured effect, before it is committed.
#[derive(Debug, Clone)]
pub struct PreparedCompaction {
    /// Its changes.
    pub changes: Changes,
    /// Tokens of the view before, by the policy's estimate.
    pub tokens_before: i64,
    /// The view after it.
    pub after: View,
    /// Index of the first view message that changes.
    pub first_changed_index: i64,
    /// Tokens of the view before from that message on, by the policy's estimate.
    pub invalidated_tokens: i64,
}

impl PreparedCompaction {
    /// The effect of removals and a summary on a view; none if they change nothing.
    pub fn from_removals(
        planning: PlanningInput<'_>,
        removals: &Removals,
        summary: Option<WrittenSummary<'_>>,
    ) -> Option<Self> {
        let PlanningInput { policy, layout, sources, .. } = planning;
        if removals.is_empty() && summary.is_none() {
            return None;
        }
        let before = plan::view(policy, sources);
        let mut after = plan::with_removals(sources, removals, CompactionId(Uuid::nil()));
        if let Some(written) = summary {
            let boundary = written.plan.boundary();
            after = plan::with_summary(policy, layout, &after, &boundary, written.text, &written.parts());
        }
        let after = plan::view(policy, &after);
        let first_changed_index = plan::first_changed(&before, &after);
        let changed = usize::try_from(first_changed_index).unwrap_or(usize::MAX);
        let changed = before.messages.get(changed..).unwrap_or_default();
        Some(Self {
            changes: plan::changes(planning, removals, summary),
            tokens_before: before.estimated_tokens,
            after,
            first_changed_index,
            invalidated_tokens: tokens::estimate_messages(policy, changed),
        })
    }

    /// The effect of removals alone; none if they free too little.
    pub fn of_removals(planning: PlanningInput<'_>, removals: &Removals, gain_min: i64) -> Option<Self> {
        Self::from_removals(planning, removals, None).filter(|prepared| prepared.gain() >= gain_min.max(1))
    }

    /// Tokens that it frees.
    pub fn gain(&self) -> i64 {
        self.tokens_before - self.after.estimated_tokens
    }

    /// Replaces the removal of the last request's media by a replay of the request without them, unless a summary covers
    /// the request.
    pub(super) fn with_replay(self, planning: PlanningInput<'_>) -> Self {
        let changes = &self.changes;
        let stays = |replay: &replay::ReplayedRequest| {
            changes.summary.as_ref().is_none_or(|summary| summary.tail_start <= replay.target)
                && !changes.omitted.iter().any(|range| range.contains(replay.target))
        };
        let parts = changes.parts.iter().map(|(_, part, truncation)| (*part, truncation.clone())).collect();
        let removals = Removals { parts, omitted: Vec::new() };
        let Some(replay) = replay::replay(planning, &removals).filter(stays) else { return self };
        let replay::ReplayedRequest { message, target, bodies } = replay;
        let mut changes = self.changes;
        changes.parts.retain(|(other, ..)| *other != message);
        changes.replay = Some(ReplayChange { target, bodies });
        Self { changes, ..self }
    }
}

/// The policy's fallback for a summary that cannot be made; none if it frees too little.
pub(super) fn policy_fallback(
    planning: PlanningInput<'_>,
    summary: &SummaryPlan,
    gain_min: i64,
) -> Option<PreparedCompaction> {
    let fallback = plan::fallback(planning, &summary.fallback);
    PreparedCompaction::of_removals(planning, &fallback.removals, gain_min)
}

/// The other steps alone; none if they free too little.
pub(super) fn other_steps(
    planning: PlanningInput<'_>,
    removals: &Removals,
    summary: &SummaryPlan,
    gain_min: i64,
) -> Option<PreparedCompaction> {
    // Truncations in messages that the summary would have retained are useless without the summary.
    let mut others = removals.clone();
    others.parts.retain(|(part, _)| !summary.removals.parts.iter().any(|(other, _)| other == part));
    PreparedCompaction::of_removals(planning, &others, gain_min)
}
