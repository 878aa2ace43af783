//! Gain: tokens that a compaction frees, and the minimum for automatic ones. Each compaction invalidates the provider's
//! cache from the first changed position on, so that one which frees little costs more than it saves.

use super::after::{foreseen, view};
use super::input::{PlanningInput, Work};
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::calls::Calls;
use crate::policy::{Condition, Policy, PolicyStep, tokens};

/// Default minimum gain: the window divided by this number.
const WINDOW_PARTS: i64 = 20;

/// A gain is close to its minimum from half to twice the minimum, and this number of tokens beyond both.
const CLOSE_TOKENS: i64 = 1_000;

/// Bound of the tokens of the result that a view adds to a call without one.
const RESULT_TOKENS: i64 = 100;

/// The tokens that an automatic compaction by these steps must free; at least 1. Without steps it is the usual minimum,
/// which a summary must free too: that of the policy, or else a twentieth of the window.
///
/// Prunes with a figure of their own need no other minimum: a minimum number of tokens, a length limit with a lower
/// target, or an idle time after which no provider has the view in its cache. `again`, after a compaction that freed less
/// than the usual minimum, that figure does not count. What keeps views within a limit frees what exceeds it, however
/// little that is: a minimum would be another limit.
pub fn least(policy: &Policy, window: &ModelWindow, steps: &[PolicyStep], again: bool) -> i64 {
    let has_figure = |step: &PolicyStep| match step {
        PolicyStep::Prune(prune) => {
            let is_conditional = matches!(prune.condition, Condition::Length { .. } | Condition::Idle { .. });
            prune.minimum_tokens > 0 || is_conditional
        }
        PolicyStep::Omit(_) => false,
        PolicyStep::Summarize(_) => true,
    };
    let minimum = policy.guards.minimum_gain_tokens;
    let have_figures = !again && !steps.is_empty() && steps.iter().all(has_figure);
    if have_figures || minimum.is_none() && keep_within_limit(steps) {
        return 1;
    }
    minimum.unwrap_or(window.context / WINDOW_PARTS).max(1)
}

/// True if steps keep views within the limit of their level, as agents do that cut before every request: omissions alone,
/// of which one goes by that limit.
pub fn keep_within_limit(steps: &[PolicyStep]) -> bool {
    let omission = |step: &PolicyStep| match step {
        PolicyStep::Omit(omission) => Some(omission.goes_by_limit()),
        PolicyStep::Prune(_) | PolicyStep::Summarize(_) => None,
    };
    let goes_by_limit: Option<Vec<bool>> = steps.iter().map(omission).collect();
    goes_by_limit.is_some_and(|omissions| omissions.contains(&true))
}

/// The tokens that the result of these steps frees; none if it is not worth its cost. The size of a summary is known only
/// when it is written: the estimate here assumes the size of the summary that it replaces, as the view shows it.
///
/// Every decision calls this, so the gain is first estimated from stored messages. Views are rendered only if that is
/// close to the minimum: they add text around a summary, and differ where calls and results are not paired.
pub fn worthwhile(planning: PlanningInput<'_>, steps: &[PolicyStep], work: &Work, context_tokens: i64) -> Option<i64> {
    let PlanningInput { policy, sources, window, .. } = planning;
    if work.is_empty() {
        return None;
    }
    let least = least(policy, window, work.figures(steps), false);
    let after = foreseen(planning, work);
    let estimated = match &work.summary {
        Some(_) => tokens::estimate_sources(policy, sources) - tokens::estimate_sources(policy, &after),
        None => tokens::freed(policy, sources, &after),
    };
    let slack = CLOSE_TOKENS.saturating_add(unpaired_tokens(policy, sources));
    let is_close = estimated >= least / 2 - slack && estimated / 2 <= least.saturating_add(slack / 2);
    let tokens = |sources: &[SourceMessage]| view(policy, sources).estimated_tokens;
    let freed = if is_close { tokens(sources) - tokens(&after) } else { estimated };
    // The limit on cached tokens does not apply to a summary, nor to a view over its window.
    let asks = work.summary.is_none() && window.input_max().is_none_or(|most| context_tokens <= most);
    let is_cheap = |most: u32| {
        let is_same = |(before, after): &(&SourceMessage, &SourceMessage)| {
            before.message.id == after.message.id
                && before.placement == after.placement
                && before.pruned == after.pruned
        };
        let same = sources.iter().zip(after.iter()).take_while(is_same).count();
        tokens::estimate_sources(policy, &after[same..]) <= freed.saturating_mul(i64::from(most))
    };
    (freed >= least && policy.guards.max_reread_per_freed.filter(|_| asks).is_none_or(is_cheap)).then_some(freed)
}

/// Bound of the tokens by which stored messages and their view differ because of pairing: results without a call, which
/// no view shows, and calls without a result, to which a view adds one.
fn unpaired_tokens(policy: &Policy, sources: &[SourceMessage]) -> i64 {
    let calls = Calls::from_messages(sources);
    let hidden = calls.orphan_results().map(|index| tokens::estimate_source(policy, &sources[index]));
    let added = calls.iter().filter(|called| called.answer.is_none()).map(|_| RESULT_TOKENS);
    hidden.chain(added).fold(0, i64::saturating_add)
}
