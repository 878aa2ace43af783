//! When a rung cannot help, since what no reduction takes away fills the window.

use crate::model::compaction::{Failure, Level};
use crate::model::usage::Reading;
use crate::policy::overhead::{fills_from, is_filled, overhead};
use crate::policy::plan::{Decision, Scene};
use crate::policy::{Rung, overflow};
use crate::store::{Claim, DueSession};

/// How large the context of a claim's base is, if usage that is trusted says so.
pub(super) fn reading(claim: &Claim, view_tokens: i64) -> Option<Reading> {
    claim.measured.then_some(Reading { usage_tokens: claim.context_tokens, view_tokens })
}

/// The rung to be told of when what no reduction takes away fills every rung that is reached.
pub(super) fn filled(
    scene: Scene<'_>,
    due: &DueSession,
    view_tokens: i64,
    allowed: impl Fn(Level) -> bool,
) -> Option<Decision> {
    let Scene { policy, window, .. } = scene;
    if !policy.trigger.auto {
        return None;
    }
    let now = due.usage_tokens.map(|usage_tokens| Reading { usage_tokens, view_tokens });
    let found = overhead(scene, due.reduced, now).tokens();
    let reached = overflow::reached(policy, window, due.usage_tokens.unwrap_or(view_tokens + window.overhead));
    let levels: Vec<Level> = reached.map(|(level, _)| level).filter(|level| allowed(*level)).collect();
    let all_filled = levels.iter().all(|level| is_filled(policy, window, *level, Some(found)));
    levels.first().filter(|_| all_filled).map(|level| Decision::Climb(*level))
}

/// Why a rung ends without having been tried, and the tokens that fill it; none where it may help.
pub(super) fn overhead_failure(
    claim: &Claim,
    scene: Scene<'_>,
    rung: &Rung,
    view_tokens: i64,
) -> Option<(Failure, i64)> {
    let found = overhead(scene, claim.reduced, reading(claim, view_tokens));
    let full = fills_from(rung, scene.window)?;
    let (tokens, unseen, pinned) = (found.tokens(), found.unseen_tokens, found.pinned_tokens);
    let message = || {
        format!(
            "{tokens} tokens that no reduction takes away ({unseen} outside of the view, such as a system prompt and \
             descriptions of tools, and {pinned} of pinned messages) fill the {full} that the view may have; automatic \
             reductions stop until the window, the policy or the pins change, usage falls, or somebody reduces by hand"
        )
    };
    (tokens >= full).then(|| (Failure { reason: "FIXED_OVERHEAD".to_owned(), message: message() }, tokens))
}
