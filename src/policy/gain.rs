//! Minimum gain: the tokens that an automatic compaction frees at least. Each one costs the provider's cache from the
//! first changed position on, so that one which frees little costs more than it saves.

use super::clear::When;
use super::plan::{self, Scene, Work};
use super::{Policy, Step, overflow, tokens};
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;

/// The minimum gain of a policy that names none: one in so many parts of the window.
const WINDOW_PARTS: i64 = 20;

/// The tokens that an automatic compaction by these steps frees at least; never less than 1.
///
/// Steps whose own rules say what is worth it go by these alone: a least number of tokens, a batch (one that were refused
/// would stand in front of all others), a length from which on outputs are cleared down to another, a time after which no
/// provider has the view in its cache.
pub fn least(policy: &Policy, window: &ModelWindow, steps: &[Step], has_summary: bool) -> i64 {
    let has_figure = |step: &Step| match step {
        Step::Clear(clear) => {
            let is_conditional = matches!(clear.when, When::Units { .. } | When::Idle { .. });
            clear.minimum_tokens > 0 || clear.batch.is_some() || is_conditional
        }
        Step::Fit(_) => false,
        Step::Summarize(_) => true,
    };
    if !has_summary && !steps.is_empty() && steps.iter().all(has_figure) {
        return 1;
    }
    policy.guards.minimum_gain_tokens.unwrap_or(window.context / WINDOW_PARTS).max(1)
}

/// True where what these steps come to is worth its price. What a summary frees is known when it is written: here it counts
/// as if it were as long as the view shows the one that it replaces.
///
/// Stored messages are weighed, as for tails and clearings, and no view is made: this is asked at every decision.
pub fn is_enough(scene: Scene<'_>, steps: &[Step], work: &Work, context_tokens: i64) -> bool {
    let Scene { policy, sources, window, .. } = scene;
    if work.is_empty() {
        return false;
    }
    let after = plan::foreseen(scene, work);
    let freed = match &work.summary {
        Some(_) => tokens::estimate_sources(policy, sources) - tokens::estimate_sources(policy, &after),
        None => tokens::freed(policy, sources, &after),
    };
    // A summary does not ask for the price, nor does a view that exceeds its window.
    let asks = work.summary.is_none() && overflow::room(window).is_none_or(|room| context_tokens <= room);
    let is_cheap = |most: u32| {
        let is_same = |(before, after): &(&SourceMessage, &SourceMessage)| {
            before.message.id == after.message.id && before.place == after.place && before.pruned == after.pruned
        };
        let same = sources.iter().zip(after.iter()).take_while(is_same).count();
        tokens::estimate_sources(policy, &after[same..]) <= freed.saturating_mul(i64::from(most))
    };
    freed >= least(policy, window, steps, work.summary.is_some())
        && policy.guards.reread_per_freed_max.filter(|_| asks).is_none_or(is_cheap)
}
