//! Plans of compactions by hand, made by the code that runs them and not written anywhere.

use super::client::Assignment;
use super::handle::SchedulerHandle;
use super::prepared::{Candidate, PreparedCompaction, prepared_fallback};
use crate::model::changes::Changes;
use crate::model::compaction::{Bounds, Level};
use crate::policy::plan::{self, PlanningInput};
use crate::summarizer::{Forecast, SummaryOutput};

/// Minimum gain of a compaction by hand, in tokens.
const GAIN_MIN: i64 = 1;

/// A compaction as it would be, without the text of its summary.
pub struct Preview {
    /// The changes that it would make. The summary has no text yet.
    pub changes: Changes,
    /// Tokens of the view before, by the policy's estimate.
    pub tokens_before: i64,
    /// Tokens of the view after, by the same estimate; assumes a summary of the maximum length.
    pub tokens_after: i64,
    /// Index of the first view message that would change.
    pub first_changed_index: i64,
    /// Maximum length of the summary in tokens; zero without one.
    pub summary_tokens: i64,
    /// The requests to a model for the summary; none without a summary.
    pub forecast: Option<Forecast>,
}

impl SchedulerHandle {
    /// The preview of a request by hand: for a level, with bounds of its own if given, or for every clearing. None if
    /// nothing can be removed.
    pub fn preview(
        &self,
        planning: PlanningInput<'_>,
        level: Option<Level>,
        bounds: Bounds,
        instructions: &str,
        context_tokens: i64,
    ) -> Option<Preview> {
        let policy = planning.policy;
        let work = match level.and_then(|level| policy.level(level)) {
            Some(level_policy) if bounds.is_open() => {
                let tokens = plan::view(policy, planning.sources).estimated_tokens.max(context_tokens);
                plan::apply(planning, &plan::by_hand(level_policy), tokens)
            }
            Some(level_policy) => plan::summary_within(planning, level_policy, bounds),
            None => plan::prune_all(planning),
        };
        let without_summary = |prepared: PreparedCompaction| Preview {
            changes: prepared.changes,
            tokens_before: prepared.tokens_before,
            tokens_after: prepared.tokens_after,
            first_changed_index: prepared.first_changed_index,
            summary_tokens: 0,
            forecast: None,
        };
        let Some(planned) = &work.summary else {
            return PreparedCompaction::of(planning, &work.removals, None).map(without_summary);
        };
        // A blank text takes the summary's position and next to no tokens.
        let blank = SummaryOutput::new(" ", "");
        let prepared = PreparedCompaction::of(planning, &work.removals, Some((planned, &blank)))?;
        let most = prepared.tokens_before - GAIN_MIN;
        if prepared.tokens_after > most {
            // Even the shortest summary would free too little.
            let candidate = Candidate { work: &work, gain_min: GAIN_MIN };
            return prepared_fallback(planning, candidate).map(without_summary);
        }
        let input = Assignment::of(planning, planned, instructions).input;
        let forecast = self.summarizers.of(level).forecast(&input);
        let summary_tokens = input.most_tokens(!forecast.requests.is_empty());
        Some(Preview {
            // A summary that would free too little is written again, shorter.
            tokens_after: prepared.tokens_after.saturating_add(summary_tokens).min(most),
            summary_tokens,
            forecast: Some(forecast),
            ..without_summary(prepared)
        })
    }
}
