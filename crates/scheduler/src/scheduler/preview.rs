//! Plans of compactions by hand, made by the code that runs them and not written anywhere.

use super::handle::SchedulerHandle;
use crate::fold::attempt::{Answer, Attempt, AttemptInput, AttemptStep, Writer};
use crate::fold::guards::Guards;
use crate::fold::{Fold, PreparedCompaction};
use crate::model::changes::Changes;
use crate::model::compaction::{CompactionRequest, Failure, FailureReason};
use crate::policy::plan::{PlanningInput, WrittenSummary};
use crate::policy::summary::SummaryInput;
use crate::summarizer::Forecast;

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

impl From<PreparedCompaction> for Preview {
    fn from(prepared: PreparedCompaction) -> Self {
        Self {
            changes: prepared.changes,
            tokens_before: prepared.tokens_before,
            tokens_after: prepared.after.estimated_tokens,
            first_changed_index: prepared.first_changed_index,
            summary_tokens: 0,
            forecast: None,
        }
    }
}

/// The only attempt of a request by hand, which no guard affects.
fn attempt<'a>(planning: PlanningInput<'a>, fold: &'a Fold, request: &'a CompactionRequest) -> Attempt<'a> {
    const NO_GUARDS: &Guards = &Guards::NONE;
    let writer = Writer::BuiltIn;
    Attempt::new(AttemptInput { planning, fold, guards: NO_GUARDS, request, writer, is_last: true })
}

/// True if a request by hand would find anything to remove or to summarize.
pub fn is_possible(planning: PlanningInput<'_>, fold: &Fold, request: &CompactionRequest) -> bool {
    matches!(attempt(planning, fold, request).begin(), AttemptStep::Write(_) | AttemptStep::Done(_))
}

impl SchedulerHandle {
    /// The preview of a request by hand. None if nothing can be removed.
    pub fn preview(&self, planning: PlanningInput<'_>, fold: &Fold, request: &CompactionRequest) -> Option<Preview> {
        let mut attempt = attempt(planning, fold, request);
        let mut step = attempt.begin();
        if let AttemptStep::Write(task) = &step
            // A blank text takes the summary's position and next to no tokens.
            && let Ok(prepared) = attempt.check(WrittenSummary::new(&task.plan, " "))
        {
            let input = SummaryInput::from_plan(&task.plan, &planning.policy.counting, &request.instructions);
            let forecast = self.summarizers.for_level(request.level).forecast(&input);
            let summary_tokens = longhand_extractive::tokens_max(&input, !forecast.requests.is_empty());
            let preview = Preview::from(prepared);
            return Some(Preview {
                // A summary that would free too little is written again, shorter.
                tokens_after: preview.tokens_after.saturating_add(summary_tokens).min(preview.tokens_before - 1),
                summary_tokens,
                forecast: Some(forecast),
                ..preview
            });
        }
        // Even the shortest summary would free too little.
        while let AttemptStep::Write(_) = step {
            step = attempt.answer(Answer::Failed(Failure::new(FailureReason::NoGain, "")));
        }
        if let AttemptStep::Done(prepared) = step { Some((*prepared).into()) } else { None }
    }
}
