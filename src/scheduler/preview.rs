//! What a reduction by hand would do: worked out by the code that does it, and written nowhere.

use super::SchedulerHandle;
use super::client::Assignment;
use super::draft::{Draft, instead};
use crate::model::changes::Changes;
use crate::model::compaction::{Bounds, Level};
use crate::policy::plan::{self, Scene};
use crate::summarizer::{Foreseen, SummaryOutput};

/// The tokens that a compaction by hand frees at least.
const LEAST_GAIN: i64 = 1;

/// A reduction as it would be, but for the words of its summary.
pub struct Preview {
    /// What it would do. The summary has no words yet.
    pub changes: Changes,
    /// Tokens of the view before, by the policy's estimate.
    pub tokens_before: i64,
    /// Tokens of the view after, by the same estimate; a summary is taken to be as long as it may be.
    pub tokens_after: i64,
    /// Index of the first view message that would change.
    pub first_changed_index: i64,
    /// The most that the summary may weigh, in tokens; zero without one.
    pub summary_tokens: i64,
    /// What the summary would ask of a model; none without one.
    pub foreseen: Option<Foreseen>,
}

impl SchedulerHandle {
    /// What somebody who asks by hand for a rung of the ladder, with bounds of their own if they like, or for every
    /// clearing, would get. None when nothing could be taken away.
    pub fn preview(
        &self,
        scene: Scene<'_>,
        level: Option<Level>,
        bounds: Bounds,
        instructions: &str,
        context_tokens: i64,
    ) -> Option<Preview> {
        let policy = scene.policy;
        let work = match level.and_then(|level| policy.rung(level)) {
            Some(rung) if bounds.is_open() => {
                let tokens = plan::view(policy, scene.sources).estimated_tokens.max(context_tokens);
                plan::climb(scene, &plan::by_hand(rung), tokens)
            }
            Some(rung) => plan::summary_within(scene, rung, bounds),
            None => plan::clear_all(scene),
        };
        let without_summary = |draft: Draft| Preview {
            changes: draft.changes,
            tokens_before: draft.tokens_before,
            tokens_after: draft.tokens_after,
            first_changed_index: draft.first_changed_index,
            summary_tokens: 0,
            foreseen: None,
        };
        let Some(planned) = &work.summary else {
            return Draft::of(scene, &work.cuts, None).map(without_summary);
        };
        // A blank has the place of a summary, and next to no weight.
        let blank = SummaryOutput::new(" ", "");
        let draft = Draft::of(scene, &work.cuts, Some((planned, &blank)))?;
        let most = draft.tokens_before - LEAST_GAIN;
        if draft.tokens_after > most {
            // Not the shortest summary would free enough.
            return instead(scene, &work, LEAST_GAIN).map(without_summary);
        }
        let input = Assignment::of(scene, planned, instructions).input;
        let foreseen = self.summarizers.of(level).foresee(&input);
        let summary_tokens = input.most_tokens(!foreseen.requests.is_empty());
        Some(Preview {
            // One that would free too little is written again, shorter.
            tokens_after: draft.tokens_after.saturating_add(summary_tokens).min(most),
            summary_tokens,
            foreseen: Some(foreseen),
            ..without_summary(draft)
        })
    }
}
