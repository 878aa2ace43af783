//! Guards: conditions that hold back automatic compactions, derived from the ended compactions, from later changes by
//! clients, and from the view. Each decision derives them anew; the session's row keeps the newest ones for reports.

use super::Fold;
use crate::model::Revision;
use crate::model::compaction::{
    Compaction, CompactionKind, CompactionRequest, CompactionState, Failure, FailureReason, Level, Outcome, Trigger,
};
use crate::model::message::{Finish, MessageKind, Role};
use crate::model::part::are_notes;
use crate::model::session;
use crate::model::time::Timestamp;
use crate::model::truncation::Removals;
use crate::model::usage::UsageSample;
use crate::model::view::SourceMessage;
use crate::policy::last_resort::{self, Size};
use crate::policy::maintenance::MaintenanceLimits;
use crate::policy::overhead::{self, Overhead};
use crate::policy::plan::{self, PlanningInput, gain};
use crate::policy::provider_errors::Recovery;
use crate::policy::replay::{self, Overflow, Reaction};
use crate::policy::{LevelPolicy, Policy, continuing, overflow};

/// Divisor of the window. After a failure the view must grow by this fraction of the window before the next automatic
/// attempt, and by twice as much while the breaker is open.
pub const RETRY_GROWTH_DIVISOR: i64 = 20;

/// Divisor of the tokens at which the first level is due. After a compaction the view must grow by this fraction of them,
/// and by the usual minimum gain, before another one that cannot reach its aim because of overhead, or that only usage
/// demands which the compaction did not reduce.
const FILLED_GROWTH_DIVISOR: i64 = 4;

/// The past of a session, from which guards follow.
#[derive(Debug, Clone, Copy, Default)]
pub struct GuardInput<'a> {
    /// The newest compactions that ended, newest first: at least as many as the breaker counts. Finished maintenance
    /// may be missing, except for the newest one.
    pub ended: &'a [Compaction],
    /// The newest change by a client other than an append: a rewind, an edit, a pin, an undo, a policy, a window. The
    /// causes of failures before it may be gone.
    pub guard_revision: Revision,
    /// The newest undo; none after the next message of the user, or after its redo.
    pub undo_revision: Option<Revision>,
}

/// The guards of a session. Each holds back automatic compactions until the event or the time that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Guards {
    /// True after an undo, until the next message of the user.
    pub holds_after_undo: bool,
    /// Automatic compactions in a row that failed, or freed nothing.
    pub failure_count: i64,
    /// User messages until the open breaker lets another compaction through; 0 if it is not open.
    pub breaker_turns_left: i64,
    /// The end of the cooldown after a compaction by a threshold.
    pub cooldown_end: Option<Timestamp>,
    /// The overhead that no compaction removes, derived from usage and pins.
    pub overhead: Overhead,
    /// Context usage; none if no reported usage is valid.
    pub usage_tokens: Option<i64>,
    /// The tokens that no compaction removes, as the newest failure reported them; none if they fit since.
    pub reported_overhead: Option<i64>,
    /// The kind of the newest compaction without progress; none once the view has grown enough for another attempt.
    failed_kind: Option<CompactionKind>,
    /// Tokens by which the view must grow to end the first guard that waits for growth; none if no guard does.
    pub growth_tokens: Option<i64>,
    /// True after a last resort that failed for another reason than overhead, until the next message of the user or growth
    /// by a twentieth of the window.
    pub(super) last_resort_failed: bool,
    /// Tokens by which the view must grow until a level is applied again although overhead leaves it due, or only usage
    /// that did not fall.
    filled_growth: Option<i64>,
    /// True if usage did not fall with the newest compaction, although the view became much smaller: it may be a sum, or
    /// have another cause than the view.
    usage_did_not_fall: bool,
    /// True if the newest automatic compaction freed less than the usual minimum, until the next message of the user.
    /// Figures of the policy's own that allow less do not count meanwhile, because each compaction costs the provider's
    /// cache.
    freed_little: bool,
    /// True during a run, under a policy that evaluates thresholds only between runs.
    pub(super) is_in_run: bool,
    /// True during the cooldown, and until the view has grown by the policy's minimum between two compactions. False if
    /// the view exceeds its window.
    levels_wait: bool,
}

impl Guards {
    /// Nothing that holds anything back.
    pub const NONE: Self = Self {
        holds_after_undo: false,
        failure_count: 0,
        breaker_turns_left: 0,
        cooldown_end: None,
        overhead: Overhead { unseen_tokens: 0, pinned_tokens: 0 },
        usage_tokens: None,
        reported_overhead: None,
        failed_kind: None,
        growth_tokens: None,
        last_resort_failed: false,
        filled_growth: None,
        usage_did_not_fall: false,
        freed_little: false,
        is_in_run: false,
        levels_wait: false,
    };

    /// The guards of a session at one of its revisions.
    pub fn new(planning: PlanningInput<'_>, fold: &Fold, past: GuardInput<'_>) -> Self {
        let PlanningInput { policy, window, now, .. } = planning;
        let streak = Streak::from_past(past);
        let turns = i64::from(policy.guards.breaker_turns);
        let is_tripped = streak.count >= i64::from(policy.guards.breaker_failures) && turns > 0;
        let tripped_by = streak.newest.filter(|_| is_tripped);
        let breaker_turns_left =
            tripped_by.map_or(0, |(revision, _)| (turns - user_messages_since(planning, revision)).max(0));
        let retry_step = (window.context / RETRY_GROWTH_DIVISOR).max(1);
        let growth_left = |required: i64, revision| required.saturating_sub(fold.growth_since(planning, revision));
        let retry = streak.newest.and_then(|(revision, kind)| match (is_tripped, breaker_turns_left) {
            // It was open for long enough: one more attempt is made, in case anything has changed.
            (true, 0) => None,
            (true, _) => Some((kind, growth_left(2 * retry_step, revision))),
            (false, _) => Some((kind, growth_left(retry_step, revision))),
        });
        let retry = retry.filter(|(_, left)| *left > 0);
        let last_resort = failed_last_resort(past).filter(|revision| user_messages_since(planning, *revision) == 0);
        let last_resort = last_resort.map(|revision| growth_left(retry_step, revision)).filter(|left| *left > 0);
        let cooldown_end = cooldown_end(policy, past.ended, now);
        let rearm = threshold_base(past).map(|at| growth_left(overflow::rearm_tokens(policy, window), at));
        let rearm = rearm.filter(|left| *left > 0);
        let newest = since_change(past).find(|(_, compaction)| {
            !reports_overhead(compaction) && compaction.request.trigger != Trigger::Maintenance
        });
        let due = overflow::due_at(policy, window).unwrap_or(window.context);
        let filled_growth = newest.map(|(at, compaction)| {
            let required = (due / FILLED_GROWTH_DIVISOR).max(gain::least(policy, window, &[], true));
            growth_left(required, compaction.base_revision.unwrap_or(at))
        });
        let filled_growth = filled_growth.filter(|left| *left > 0);
        Self {
            holds_after_undo: past.undo_revision.is_some(),
            failure_count: streak.count,
            breaker_turns_left,
            cooldown_end,
            overhead: overhead::overhead(planning, usage_before_compaction(past), fold.usage_sample()),
            usage_tokens: fold.usage_sample().map(|sample| sample.usage_tokens),
            reported_overhead: reported_overhead(planning, past),
            failed_kind: retry.map(|(kind, _)| kind),
            growth_tokens: [retry.map(|(_, left)| left), rearm, last_resort, filled_growth].into_iter().flatten().min(),
            last_resort_failed: last_resort.is_some(),
            filled_growth,
            usage_did_not_fall: usage_before_compaction(past)
                .zip(fold.usage_sample())
                .is_some_and(|(before, now)| overhead::did_not_fall(before, now)),
            freed_little: freed_little(planning, past),
            is_in_run: policy.trigger.between_runs && continuing::is_in_run(planning.sources),
            levels_wait: (cooldown_end.is_some() || rearm.is_some()) && fold.fits(window),
        }
    }

    /// True if the steps of a level may be taken automatically. The callers check the hold after an undo, because an
    /// overflow overrides it.
    pub fn allow(&self, policy: &Policy, level: Level) -> bool {
        let kind = policy.level(level).map(|level_policy| plan::kind(&level_policy.steps));
        !self.levels_wait && !self.is_in_run && kind.is_none_or(|kind| self.allow_kind(kind))
    }

    /// True if a level may be applied for an overflow that its provider answered. A run cannot be waited for.
    fn allow_recovery(&self, policy: &Policy, level: Level) -> bool {
        Self { is_in_run: false, ..*self }.allow(policy, level)
    }

    /// True if an automatic compaction that frees this number of tokens is worth its cost now.
    pub fn accepts(&self, planning: PlanningInput<'_>, fold: &Fold, decision: plan::Decision, freed: i64) -> bool {
        let PlanningInput { policy, window, .. } = planning;
        let level_policy = decision.level().and_then(|level| policy.level(level));
        let steps = level_policy.map_or(&[][..], |level_policy| &level_policy.steps);
        let is_enough = !self.freed_little || freed >= gain::least(policy, window, steps, true);
        // An agent that cuts before every request goes by its own count, whatever usage says.
        let keeps_limit = |level_policy: &LevelPolicy| {
            gain::keep_within_limit(&level_policy.steps) && is_due_by_estimate(planning, fold, level_policy)
        };
        let is_filled = || level_policy.is_some_and(|level_policy| self.is_filled(planning, fold, level_policy, freed));
        // No summary helps against what exceeds the window alone: the last resort costs no request to a model.
        let is_known = level_policy.is_some() && self.reported_overhead.is_some() && !fold.fits(window);
        let exceeds = window.input_max().is_some_and(|limit| self.overhead.unseen_tokens >= limit);
        let waits = self.waits_for_growth(planning, fold);
        let by_usage_alone =
            || level_policy.is_some_and(|level_policy| !is_due_by_estimate(planning, fold, level_policy));
        let is_repeated = waits && self.usage_did_not_fall && by_usage_alone();
        let is_useless = is_repeated || (exceeds || waits) && is_filled();
        is_enough && !is_known && (!is_useless || level_policy.is_some_and(keeps_limit))
    }

    /// True if a compaction that cannot reach its aim waits until the view has grown. It does not wait if the view
    /// exceeds its window also by its estimate: usage alone may be wrong.
    fn waits_for_growth(&self, planning: PlanningInput<'_>, fold: &Fold) -> bool {
        let by_estimate = fold.view.estimated_tokens.saturating_add(planning.window.overhead);
        self.filled_growth.is_some() && planning.window.input_max().is_none_or(|limit| by_estimate <= limit)
    }

    /// True if overhead leaves a level due after a compaction that frees this number of tokens, and the view alone does
    /// not.
    fn is_filled(&self, planning: PlanningInput<'_>, fold: &Fold, level_policy: &LevelPolicy, freed: i64) -> bool {
        let left = fold.view.estimated_tokens.saturating_sub(freed);
        let tokens = self.size(planning, fold).context_tokens_of(left);
        level_policy.due_at(planning.window).is_some_and(|due| left < due && tokens >= due)
    }

    /// The tokens of a request with the view.
    fn size(&self, planning: PlanningInput<'_>, fold: &Fold) -> Size {
        let context_tokens = fold.context_tokens(planning.window);
        let overhead_tokens = self.overhead.unseen_tokens;
        Size { context_tokens, estimated_tokens: fold.view.estimated_tokens, overhead_tokens }
    }

    /// True if no compaction without progress holds back this kind. A failed summary does not hold back a prune.
    pub fn allow_kind(&self, kind: CompactionKind) -> bool {
        self.failed_kind.is_none_or(|failed| kind == CompactionKind::Prune && failed != CompactionKind::Prune)
    }

    /// The guards as a session reports them, by whether its view fits.
    pub fn to_report(&self, fits: bool) -> session::Guards {
        session::Guards {
            failure_count: self.failure_count,
            hold_turns: if self.holds_after_undo { 1 } else { self.breaker_turns_left },
            breaker_open: !self.holds_after_undo && self.breaker_turns_left > 0,
            cooldown_end: self.cooldown_end,
            overhead_tokens: self.reported_overhead.filter(|_| !fits),
        }
    }

    /// The failure that stops automatic compactions if one more makes no progress; none if they would continue.
    pub fn failure_of_one_more(&self, policy: &Policy) -> Option<Failure> {
        let (count, turns) = (self.failure_count + 1, policy.guards.breaker_turns);
        (count >= i64::from(policy.guards.breaker_failures) && turns > 0).then(|| {
            let message = format!(
                "no progress {count} times in a row: automatic compactions stop until {turns} user messages came or the \
                 view has grown a good deal; a compaction by hand, another window or another policy ends that at once"
            );
            Failure::new(FailureReason::BreakerOpen, message)
        })
    }
}

/// True if the view reaches a level by its own estimate.
fn is_due_by_estimate(planning: PlanningInput<'_>, fold: &Fold, level_policy: &LevelPolicy) -> bool {
    let tokens = fold.view.estimated_tokens.saturating_add(planning.window.overhead);
    level_policy.due_at(planning.window).is_some_and(|due| tokens >= due)
}

/// Forgets ended compactions except for the newest `count` and the newest failed one, as the store does.
pub fn forget(ended: &mut Vec<Compaction>, count: usize) {
    let failed = ended.iter().position(|compaction| compaction.failure.is_some());
    let failed = failed.filter(|index| *index >= count).map(|index| ended[index].clone());
    ended.truncate(count);
    ended.extend(failed);
}

/// An automatic compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The steps of the policy: those of a level, or its maintenance.
    Steps(plan::Decision),
    /// The last resort, which shrinks the view until it fits its window.
    LastResort,
}

impl Decision {
    /// The level; none for maintenance and the last resort.
    pub fn level(self) -> Option<Level> {
        match self {
            Self::Steps(steps) => steps.level(),
            Self::LastResort => None,
        }
    }

    /// The request for the compaction, without a notice.
    pub fn request(self, policy: &Policy) -> CompactionRequest {
        let level_policy = self.level().and_then(|level| policy.level(level));
        let kind = plan::kind(level_policy.map_or(&policy.maintenance, |level_policy| &level_policy.steps));
        let (kind, trigger) = match self {
            Self::Steps(plan::Decision::Level(_)) => (kind, Trigger::Threshold),
            Self::Steps(plan::Decision::Maintenance) => (kind, Trigger::Maintenance),
            Self::LastResort => (CompactionKind::Omission, Trigger::LastResort),
        };
        CompactionRequest::new(kind, trigger, self.level())
    }
}

/// The recovery from an overflow that the newest reply reports.
#[derive(Debug, Clone, PartialEq)]
pub enum RecoveryRequest {
    /// The session cannot go on without it. If nothing can be removed, the compaction fails and its event states so.
    Needed(CompactionRequest),
    /// The provider answered nevertheless: guards and the minimum gain apply.
    Worthwhile(CompactionRequest),
}

/// The recovery from an overflow that the newest reply reports. None if it reports none, if a compaction answered it
/// already, or if guards hold it back, which they do only if the session can go on without it.
///
/// `compactions` are the newest ones of the session, and `changed_revision` is the newest change of its view.
pub fn recovery(
    planning: PlanningInput<'_>,
    fold: &Fold,
    guards: &Guards,
    compactions: &[Compaction],
    changed_revision: Revision,
) -> Option<RecoveryRequest> {
    let PlanningInput { policy, window, .. } = planning;
    if !policy.trigger.auto {
        return None;
    }
    let tokens = fold.context_tokens(window);
    match replay::reaction(planning, tokens, compactions, changed_revision) {
        Reaction::Nothing => None,
        Reaction::Recover(Overflow::Answered) if !fold.reports_overflow() => None,
        // Usage alone demands no second compaction of a view that has not grown.
        Reaction::Recover(Overflow::Answered) if guards.waits_for_growth(planning, fold) => None,
        Reaction::Recover(Overflow::Unanswered(recovery)) => {
            let request = replay::recovery_request(planning, tokens, recovery, compactions);
            Some(RecoveryRequest::Needed(request.unwrap_or_else(replay::of_media)))
        }
        // If the session can go on, levels that guards hold back are not applied for an overflow either.
        Reaction::Recover(Overflow::Answered) => {
            let is_allowed = |level| guards.allow_recovery(policy, level);
            replay::recovery_request(planning, tokens, Recovery::Compaction, compactions)
                .filter(|request| !guards.holds_after_undo && request.level.is_none_or(is_allowed))
                .filter(|request| plan::is_worth_it(planning, request.level, tokens))
                .map(RecoveryRequest::Worthwhile)
        }
        Reaction::GiveUp => Some(RecoveryRequest::Needed(replay::of_media())),
    }
}

/// The automatic compaction of a session at its newest revision; none if nothing is due or guards hold it back.
pub fn decide(planning: PlanningInput<'_>, fold: &Fold, guards: &Guards) -> Option<Decision> {
    let PlanningInput { policy, window, .. } = planning;
    if !policy.trigger.auto || guards.holds_after_undo {
        return None;
    }
    let tokens = fold.context_tokens(window);
    let may_maintain = || MaintenanceLimits::from_policy(policy, window).are_exceeded(fold.maintenance_counts(window));
    let allowed = |decision: plan::Decision| match decision.level() {
        Some(level) => guards.allow(policy, level),
        None => guards.allow_kind(plan::kind(&policy.maintenance)) && may_maintain(),
    };
    let accepts = |decision, freed| guards.accepts(planning, fold, decision, freed);
    plan::decide(planning, tokens, allowed, accepts)
        .map(Decision::Steps)
        .or_else(|| needs_last_resort(planning, fold, guards).then_some(Decision::LastResort))
}

/// True if a request with the view exceeds the window, and the last resort can shorten it or has to report that it
/// cannot. That is reported once.
fn needs_last_resort(planning: PlanningInput<'_>, fold: &Fold, guards: &Guards) -> bool {
    let can_remove = || !last_resort_removals(planning, fold, guards).is_empty();
    !fold.fits(planning.window) && !guards.last_resort_failed && (guards.reported_overhead.is_none() || can_remove())
}

/// The removals that bring the view into its window, or as close to it as possible; none if it fits, or if nothing worth
/// while can be removed now.
pub fn last_resort_removals(planning: PlanningInput<'_>, fold: &Fold, guards: &Guards) -> Removals {
    let reduction = last_resort::reduction(planning, guards.size(planning, fold));
    let waits = !reduction.fits && guards.waits_for_growth(planning, fold);
    if waits { Removals::default() } else { reduction.removals }
}

/// The failure of the last resort, with everything that it may not remove.
pub fn last_resort_failure(planning: PlanningInput<'_>, fold: &Fold, guards: &Guards) -> Failure {
    let tokens = fold.context_tokens(planning.window);
    let limit = planning.window.input_max().unwrap_or(0);
    let overhead = guards.overhead.unseen_tokens;
    let mut fixed = last_resort::fixed(planning);
    fixed.insert(0, ("what no view shows, such as a system prompt and descriptions of tools", overhead));
    let named: Vec<String> =
        fixed.iter().filter(|(_, tokens)| *tokens > 0).map(|(what, tokens)| format!("{tokens} of {what}")).collect();
    let message = format!(
        "the view has {tokens} tokens, its window allows {limit}, and no compaction may take out what is left: {}",
        named.join(", ")
    );
    let kept = overhead.saturating_add(guards.overhead.pinned_tokens);
    Failure { overhead_tokens: Some(kept), ..Failure::new(FailureReason::FixedOverhead, message) }
}

/// Automatic compactions in a row that made no progress: they failed, or freed nothing.
#[derive(Default)]
struct Streak {
    count: i64,
    /// The end revision and the kind of the newest one.
    newest: Option<(Revision, CompactionKind)>,
}

impl Streak {
    fn from_past(past: GuardInput<'_>) -> Self {
        let mut streak = Self::default();
        for (revision, compaction) in since_change(past) {
            match compaction.state {
                CompactionState::Done if is_asked_for(compaction) => break,
                // Finished maintenance and last resorts are no progress of a level.
                CompactionState::Done if is_outside_levels(compaction) => {}
                CompactionState::Done if made_progress(compaction) => break,
                // Media may count nothing.
                CompactionState::Done if replay::is_of_media(&compaction.request) => {}
                CompactionState::Failed if reports_overhead(compaction) => {}
                CompactionState::Done | CompactionState::Failed | CompactionState::Dead => {
                    streak.count += 1;
                    // A compaction for an overflow counts as a summary, so that it does not hold back prunes.
                    let is_overflow = compaction.request.trigger == Trigger::Overflow;
                    let kind = if is_overflow { CompactionKind::Summary } else { compaction.request.kind };
                    streak.newest.get_or_insert((revision, kind));
                }
                CompactionState::Ready
                | CompactionState::Running
                | CompactionState::Cancelled
                | CompactionState::Superseded => {}
            }
        }
        streak
    }
}

/// True if a finished compaction freed tokens.
fn made_progress(compaction: &Compaction) -> bool {
    compaction.outcome.as_ref().is_none_or(|outcome| outcome.tokens_after < outcome.tokens_before)
}

/// True for maintenance and for the last resort, which count neither as progress of a level nor against it.
fn is_outside_levels(compaction: &Compaction) -> bool {
    matches!(compaction.request.trigger, Trigger::Maintenance | Trigger::LastResort)
}

fn is_asked_for(compaction: &Compaction) -> bool {
    matches!(compaction.request.trigger, Trigger::Manual | Trigger::Supplied)
}

fn reports_overhead(compaction: &Compaction) -> bool {
    compaction.failure.as_ref().is_some_and(|failure| failure.reason == FailureReason::FixedOverhead)
}

/// The compactions that ended after the newest change by a client, newest first.
fn since_change(past: GuardInput<'_>) -> impl Iterator<Item = (Revision, &Compaction)> {
    let ended = past.ended.iter().filter_map(|compaction| Some((compaction.end_revision?, compaction)));
    ended.filter(move |(revision, _)| *revision > past.guard_revision)
}

/// The tokens of the newest report that no compaction removes them, after the last compaction by hand or for a provider's
/// overflow. A later reply to a whole view that fitted its window ends the report; in a session without usage, a later
/// compaction after which the view fits by its estimate does.
fn reported_overhead(planning: PlanningInput<'_>, past: GuardInput<'_>) -> Option<i64> {
    let PlanningInput { policy, window, sources, .. } = planning;
    let limit = window.input_max()?;
    let is_asked_for = |compaction: &Compaction| {
        compaction.state == CompactionState::Done
            && (is_asked_for(compaction) || compaction.request.trigger == Trigger::Overflow)
    };
    let mut newest = since_change(past).take_while(|(_, compaction)| !is_asked_for(compaction));
    let (revision, tokens) =
        newest.find_map(|(revision, compaction)| Some((revision, compaction.failure.as_ref()?.overhead_tokens?)))?;
    let mut used = sources.iter().filter_map(|source| {
        let Finish { usage, view, .. } = &source.message.finish;
        let is_later = source.message.sealed_revision.is_some_and(|sealed| sealed > revision);
        let is_whole = view.as_ref().is_none_or(|view| !view.shortened);
        Some(policy.counting.usage.tokens(usage.as_ref()?)).filter(|used| is_later && is_whole && *used > 0)
    });
    let fits_again = match used.next() {
        // Much less than the overhead is no request with it.
        Some(first) => std::iter::once(first).chain(used).any(|used| used <= limit && used >= tokens / 8),
        None => since_change(past).take_while(|(at, _)| *at > revision).any(|(_, compaction)| {
            let tokens = |outcome: &Outcome| outcome.tokens_after.saturating_add(window.overhead);
            compaction.outcome.as_ref().is_some_and(|outcome| tokens(outcome) <= limit)
        }),
    };
    (!fits_again).then_some(tokens)
}

/// True if the newest automatic compaction freed less than the usual minimum, and no message of the user came since.
fn freed_little(planning: PlanningInput<'_>, past: GuardInput<'_>) -> bool {
    let PlanningInput { policy, window, .. } = planning;
    let newest = since_change(past).find(|(_, compaction)| compaction.state == CompactionState::Done);
    newest.is_some_and(|(revision, compaction)| {
        let freed = |outcome: &Outcome| outcome.tokens_before.saturating_sub(outcome.tokens_after);
        let is_little = |outcome| freed(outcome) < gain::least(policy, window, &[], true);
        !is_asked_for(compaction)
            && compaction.outcome.as_ref().is_some_and(is_little)
            && user_messages_since(planning, revision) == 0
    })
}

/// The usage and the estimate before the newest compaction whose start had valid usage.
fn usage_before_compaction(past: GuardInput<'_>) -> Option<UsageSample> {
    since_change(past).find_map(|(_, compaction)| {
        let outcome = compaction.outcome.as_ref()?;
        Some(UsageSample { usage_tokens: outcome.usage_before?, view_tokens: outcome.tokens_before })
    })
}

/// The end of the newest compaction, if it is a last resort that failed for a reason other than overhead.
fn failed_last_resort(past: GuardInput<'_>) -> Option<Revision> {
    let (revision, newest) = since_change(past).next()?;
    let has_failed = matches!(newest.state, CompactionState::Failed | CompactionState::Dead);
    (newest.request.trigger == Trigger::LastResort && has_failed && !reports_overhead(newest)).then_some(revision)
}

/// The base of the newest compaction by a threshold, if only maintenance and last resorts came after it.
fn threshold_base(past: GuardInput<'_>) -> Option<Revision> {
    let mut done = since_change(past).filter(|(_, compaction)| compaction.state == CompactionState::Done);
    let (revision, newest) = done.find(|(_, compaction)| !is_outside_levels(compaction))?;
    (newest.request.trigger == Trigger::Threshold).then(|| newest.base_revision.unwrap_or(revision))
}

/// The end of a cooldown that is not over; no change by a client ends one. A begin in the future was written by a wrong
/// clock and is ignored.
fn cooldown_end(policy: &Policy, ended: &[Compaction], now: Timestamp) -> Option<Timestamp> {
    let is_cause = |compaction: &&Compaction| {
        compaction.state == CompactionState::Done && compaction.request.trigger == Trigger::Threshold
    };
    let begin = ended.iter().find(is_cause)?.end_time.filter(|begin| *begin <= now)?;
    let end = begin.plus_millis(i64::from(policy.guards.cooldown_seconds) * 1_000);
    (now < end).then_some(end)
}

/// The messages of the user after a revision, as far as the view shows them.
fn user_messages_since(planning: PlanningInput<'_>, revision: Revision) -> i64 {
    let is_users = |source: &&SourceMessage| {
        let message = &source.message;
        source.placement.is_none()
            && message.revision > revision
            && message.kind == MessageKind::Normal
            && message.role == Role::User
            && !are_notes(message.parts.iter().map(|part| &*part.body))
    };
    i64::try_from(planning.sources.iter().filter(is_users).count()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
