//! Compactions that are measured, on their way into the history.

use super::worker::Attempt;
use crate::model::changes::{Changes, ReplayChange};
use crate::model::compaction::Trigger;
use crate::model::cut::Cuts;
use crate::model::ids::CompactionId;
use crate::policy::plan::{self, Scene, SummaryPlan, Work, Written};
use crate::policy::{replay, tokens};
use crate::store::Commit;
use crate::summarizer::SummaryOutput;
use uuid::Uuid;

/// What is done in place of a summary that cannot be made, where it frees so many tokens at least.
pub(super) fn instead(scene: Scene<'_>, work: &Work, least: i64) -> Option<Draft> {
    let summary = work.summary.as_ref()?;
    let fallback = plan::fallback(scene, &summary.fallback);
    // Cuts of what the summary would have retained mean nothing without it.
    let mut others = work.cuts.clone();
    others.parts.retain(|(part, _)| !summary.cuts.parts.iter().any(|(other, _)| other == part));
    let draft = |cuts| Draft::of(scene, cuts, None).filter(|draft| draft.gain() >= least);
    draft(&fallback.cuts).or_else(|| draft(&others))
}

/// What steps come to, and the tokens that it has to free.
#[derive(Clone, Copy)]
pub(super) struct Proposal<'a> {
    pub(super) work: &'a Work,
    pub(super) least: i64,
}

/// A reduction, measured, on its way into the history.
pub(super) struct Draft {
    pub(super) changes: Changes,
    pub(super) tokens_before: i64,
    pub(super) tokens_after: i64,
    pub(super) first_changed_index: i64,
    invalidated_tokens: i64,
}

impl Draft {
    /// What cuts and a summary would do to a view; none when they would change nothing, or add to it without a summary.
    pub(super) fn of(scene: Scene<'_>, cuts: &Cuts, summary: Option<(&SummaryPlan, &SummaryOutput)>) -> Option<Self> {
        let Scene { policy, layout, sources, .. } = scene;
        if cuts.is_empty() && summary.is_none() {
            return None;
        }
        let before = plan::view(policy, sources);
        let mut after_sources = plan::with_cuts(sources, cuts, CompactionId(Uuid::nil()));
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
        let written = summary.map(|(plan, output)| Written {
            plan,
            text: &output.text,
            summarizer: &output.summarizer,
            usage: output.usage,
        });
        let mut changes = plan::changes(scene, cuts, written);
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

    /// Tokens that it frees.
    pub(super) fn gain(&self) -> i64 {
        self.tokens_before - self.tokens_after
    }

    /// The same with free JSON kept beside the summary.
    pub(super) fn with_details(mut self, details_json: Option<String>) -> Self {
        if let Some(summary) = &mut self.changes.summary {
            summary.details_json = details_json;
        }
        self
    }

    /// The same with a word on whether the summary is a client's own.
    pub(super) fn supplied(mut self, supplied: bool) -> Self {
        if let Some(summary) = &mut self.changes.summary {
            summary.supplied = supplied;
        }
        self
    }

    /// Its commit.
    pub(super) fn commit(self, attempt: &Attempt<'_>) -> Commit {
        let Attempt { claim, scene, guards, .. } = attempt;
        let has_helped = claim.request.trigger == Trigger::Manual || self.gain() > 0;
        Commit {
            claim: (*claim).clone(),
            tokens_before: self.tokens_before,
            tokens_after: self.tokens_after,
            first_changed_index: self.first_changed_index,
            invalidated_tokens: self.invalidated_tokens,
            usage_before: guards.usage_tokens,
            overhead_tokens: guards.overhead.unseen_tokens,
            stopped: if has_helped { None } else { guards.stopped_by_one_more(scene.policy) },
            changes: match claim.request.trigger {
                Trigger::Overflow => with_replay(self.changes, *scene),
                Trigger::Threshold | Trigger::Routine | Trigger::Manual | Trigger::Supplied | Trigger::Window => {
                    self.changes
                }
            },
        }
    }
}

/// Replays the last request without its media, in place of cutting them, as long as no summary covers it.
fn with_replay(changes: Changes, scene: Scene<'_>) -> Changes {
    let stays = |replay: &replay::Replayed| {
        changes.summary.as_ref().is_none_or(|summary| summary.tail_start <= replay.target)
            && !changes.omitted.iter().any(|range| range.contains(replay.target))
    };
    let parts = changes.parts.iter().map(|(_, part, cut)| (*part, cut.clone())).collect();
    let cuts = Cuts { parts, omitted: Vec::new() };
    let Some(replay) = replay::replay(scene, &cuts).filter(stays) else { return changes };
    let replay::Replayed { message, target, bodies } = replay;
    let parts = changes.parts.into_iter().filter(|(other, ..)| *other != message).collect();
    Changes { parts, replay: Some(ReplayChange { target, bodies }), ..changes }
}
