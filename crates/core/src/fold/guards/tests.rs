use super::{Decision, GuardInput, Guards, decide};
use crate::fold::{Fold, FoldInput};
use crate::model::Revision;
use crate::model::compaction::{
    Compaction, CompactionKind, CompactionRequest, CompactionState, Failure, FailureReason, Level, Outcome, Trigger,
};
use crate::model::ids::CompactionId;
use crate::model::layout::Layout;
use crate::model::time::Timestamp;
use crate::model::usage::{ModelWindow, WindowSource};
use crate::policy::plan::PlanningInput;
use crate::policy::{Policy, dsl, samples};
use uuid::Uuid;

/// Six turns of 1 000 tokens each, at four characters a token: message N has revision N.
const TALK: &str = "u1 2000c\na1 2000c\nu2 2000c\na2 2000c\nu3 2000c\na3 2000c\nu4 2000c\na4 2000c\nu5 2000c\na5 2000c\n\
     u6 2000c\na6 2000c";
/// A window of 6 000 tokens with 1 000 for a reply: a summary is due at 5 000.
const WINDOW: ModelWindow = ModelWindow {
    model: String::new(),
    context: 6_000,
    input: None,
    output: Some(1_000),
    overhead: 0,
    source: WindowSource::Client,
};
const NOW: Timestamp = Timestamp(1_000_000_000);

fn ended(revision: Revision, state: CompactionState) -> Compaction {
    let is_done = state == CompactionState::Done;
    let end = if is_done { Ok(Outcome::default()) } else { Err(Failure::new(FailureReason::NoGain, "nothing won")) };
    let request = CompactionRequest::new(CompactionKind::Summary, Trigger::Threshold, Some(Level::Auto));
    let time = NOW.plus_millis(-10_000);
    let ended = Compaction::ended(CompactionId(Uuid::nil()), request, 6_000, end, revision, time);
    let has_failed = matches!(state, CompactionState::Failed | CompactionState::Dead);
    Compaction { state, failure: ended.failure.clone().filter(|_| has_failed), ..ended }
}

fn failed(revision: Revision) -> Compaction {
    ended(revision, CompactionState::Failed)
}

/// A compaction that left a view of `tokens_after` tokens.
fn done(revision: Revision, tokens_after: i64) -> Compaction {
    let outcome = Outcome { tokens_before: 6_000, tokens_after, ..Outcome::default() };
    Compaction { outcome: Some(outcome), ..ended(revision, CompactionState::Done) }
}

fn asked(compaction: Compaction, trigger: Trigger) -> Compaction {
    Compaction { request: CompactionRequest { trigger, ..compaction.request.clone() }, ..compaction }
}

fn reports(revision: Revision, tokens: i64) -> Compaction {
    let failure = Failure { overhead_tokens: Some(tokens), ..Failure::new(FailureReason::FixedOverhead, "full") };
    Compaction { failure: Some(failure), ..failed(revision) }
}

fn policy() -> Policy {
    let mut policy = samples::policy("opencode@seed");
    (policy.guards.breaker_failures, policy.guards.breaker_turns) = (2, 3);
    policy
}

/// The guards of `TALK`, and true if a summary begins.
fn guards(policy: &Policy, past: GuardInput<'_>) -> (Guards, bool) {
    guards_of(TALK, policy, past)
}

fn guards_of(talk: &str, policy: &Policy, past: GuardInput<'_>) -> (Guards, bool) {
    let messages = dsl::parse(talk);
    let layout = Layout::everything();
    let planning = PlanningInput {
        policy,
        window: &WINDOW,
        layout: &layout,
        sources: &messages,
        covered: &[],
        base: 12,
        now: NOW,
    };
    let fold = Fold::new(FoldInput { policy, messages: &messages, changed_revision: 0, window: &WINDOW }, None);
    let guards = Guards::new(planning, &fold, past);
    // If guards hold the levels back, the last resort brings the view into its window.
    let decision = decide(planning, &fold, &guards);
    (guards, decision.is_some_and(|decision| decision != Decision::LastResort))
}

#[test]
fn nothing_but_an_undo_holds_the_last_resort_back() {
    let mut policy = policy();
    let messages = dsl::parse(TALK);
    let layout = Layout::everything();
    let fold =
        Fold::new(FoldInput { policy: &policy, messages: &messages, changed_revision: 0, window: &WINDOW }, None);
    let decided = |policy: &Policy, window: &ModelWindow, past: GuardInput<'_>| {
        let planning =
            PlanningInput { policy, window, layout: &layout, sources: &messages, covered: &[], base: 12, now: NOW };
        decide(planning, &fold, &Guards::new(planning, &fold, past))
    };
    let roomy = ModelWindow { context: 1_000_000, ..WINDOW };
    let failures = [failed(12), failed(11), failed(10)];
    let held = GuardInput { ended: &failures, ..GuardInput::default() };
    assert_eq!(decided(&policy, &WINDOW, held), Some(Decision::LastResort));
    assert_eq!(decided(&policy, &roomy, held), None, "the view fits");
    // A last resort that failed would only fail again: the view has to grow first.
    for (revision, expected) in [(12, None), (11, Some(Decision::LastResort))] {
        let dead = asked(ended(revision, CompactionState::Dead), Trigger::LastResort);
        let failures = [dead, failed(10), failed(9)];
        let found = decided(&policy, &WINDOW, GuardInput { ended: &failures, ..GuardInput::default() });
        assert_eq!(found, expected, "at {revision}");
    }
    assert_eq!(decided(&policy, &WINDOW, GuardInput { undo_revision: Some(3), ..held }), None);
    policy.trigger.auto = false;
    assert_eq!(decided(&policy, &WINDOW, held), None, "nothing is automatic");
}

#[test]
fn each_guard_is_ended_by_what_it_names() {
    let is = |begins: bool, why: &str, changed_revision: Revision, undo_revision, ended: &[Compaction]| {
        let (guards, found) = guards(&policy(), GuardInput { ended, guard_revision: changed_revision, undo_revision });
        assert_eq!(found, begins, "{why}: {guards:?}");
    };
    is(true, "nothing holds it back", 0, None, &[]);
    // A twentieth of the window is 300 tokens.
    is(false, "the view has not grown since one failed", 0, None, &[failed(12)]);
    is(true, "it has", 0, None, &[failed(11)]);
    is(true, "something was changed since", 12, None, &[failed(12)]);
    is(false, "that was before", 11, None, &[failed(12)]);
    is(true, "a cancelled one counts for nothing", 0, None, &[ended(12, CompactionState::Cancelled)]);
    is(false, "nor does it end a guard", 0, None, &[ended(12, CompactionState::Superseded), failed(12)]);
    is(true, "one that helped does", 0, None, &[done(12, 100), failed(12)]);
    is(true, "also one that left the view due", 0, None, &[done(12, 5_000), failed(12)]);
    is(false, "one that freed nothing does not", 0, None, &[done(12, 6_000), failed(11)]);
    is(false, "maintenance does not", 0, None, &[asked(done(12, 100), Trigger::Maintenance), failed(12)]);
    is(true, "whoever asks by hand does", 0, None, &[asked(done(12, 5_000), Trigger::Manual), failed(12)]);
    is(false, "an undo holds", 0, Some(12), &[]);
    is(false, "a report of what fills the window does while the view exceeds it", 0, None, &[reports(9, 5_000)]);
    is(true, "until a view has fitted", 0, None, &[done(12, 5_000), reports(9, 5_000)]);
}

#[test]
fn a_report_of_what_fills_the_window_ends_with_a_view_that_fits() {
    let of =
        |ended: &[Compaction]| guards(&policy(), GuardInput { ended, ..GuardInput::default() }).0.reported_overhead;
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[reports(9, 5_000)]), Some(5_000));
    assert_eq!(of(&[done(10, 6_001), reports(9, 5_000)]), Some(5_000), "the view was still too large");
    assert_eq!(of(&[done(10, 6_000), reports(9, 5_000)]), None, "it fitted");
    assert_eq!(of(&[asked(done(10, 6_001), Trigger::Manual), reports(9, 5_000)]), None, "somebody compacted by hand");
}

#[test]
fn a_policys_own_figure_does_not_count_after_a_compaction_that_freed_little() {
    let of = |ended: &[Compaction]| guards(&policy(), GuardInput { ended, ..GuardInput::default() }).0.freed_little;
    assert!(!of(&[]));
    assert!(of(&[asked(done(12, 5_701), Trigger::Maintenance)]), "less than a twentieth");
    assert!(!of(&[asked(done(12, 5_700), Trigger::Maintenance)]));
    assert!(!of(&[asked(done(12, 5_701), Trigger::Manual)]), "whoever asks by hand");
    assert!(!of(&[asked(done(10, 5_701), Trigger::Maintenance)]), "a message of the user came since");
}

#[test]
fn the_breaker_opens_after_as_many_failures_and_closes_after_as_many_requests() {
    let of = |ended: &[Compaction]| guards(&policy(), GuardInput { ended, ..GuardInput::default() });
    let (closed, _) = of(&[failed(6)]);
    assert_eq!((closed.failure_count, closed.breaker_turns_left), (1, 0));
    // After the tenth message: one request of the user, and one message of 500 tokens with its answer.
    let (open, begins) = of(&[failed(11), failed(10)]);
    assert_eq!((open.failure_count, open.breaker_turns_left, begins), (2, 3, false), "half of what it waits for");
    let (open, begins) = of(&[failed(10), failed(9)]);
    assert_eq!((open.breaker_turns_left, begins), (2, true), "a tenth of the window");
    let (half, begins) = of(&[failed(6), failed(5)]);
    assert_eq!((half.breaker_turns_left, begins), (0, true), "three requests");
    let failure_after = |count: usize| {
        let past = vec![failed(12); count];
        of(&past).0.failure_of_one_more(&policy()).map(|failure| failure.reason)
    };
    assert_eq!(
        (failure_after(0), failure_after(1), failure_after(2)),
        (None, Some(FailureReason::BreakerOpen), Some(FailureReason::BreakerOpen))
    );
}

#[test]
fn a_cooldown_ends_with_its_time_and_does_not_hold_a_view_that_exceeds_its_window() {
    let mut policy = policy();
    let of = |policy: &Policy, seconds_ago: i64| {
        let ended = [Compaction { end_time: Some(NOW.plus_millis(-1_000 * seconds_ago)), ..done(2, 100) }];
        guards(policy, GuardInput { ended: &ended, ..GuardInput::default() })
    };
    policy.guards.cooldown_seconds = 60;
    let (levels_wait, begins) = of(&policy, 59);
    assert_eq!((levels_wait.cooldown_end, begins), (Some(NOW.plus_millis(1_000)), true), "the view exceeds its window");
    let (over, _) = of(&policy, 60);
    assert_eq!(over.cooldown_end, None);
    let (wrong, _) = of(&policy, -5);
    assert_eq!(wrong.cooldown_end, None, "a clock that was wrong");
    let level = policy.auto.as_mut().expect("a level");
    level.threshold = serde_json::from_str(r#"{"limit": {"tokens": 4000}, "inclusive": true, "minimum_tokens": 0}"#)
        .expect("a threshold");
    let roomy = ModelWindow { context: 60_000, ..WINDOW };
    let messages = dsl::parse(TALK);
    let layout = Layout::everything();
    let planning = PlanningInput {
        policy: &policy,
        window: &roomy,
        layout: &layout,
        sources: &messages,
        covered: &[],
        base: 12,
        now: NOW,
    };
    let fold =
        Fold::new(FoldInput { policy: &policy, messages: &messages, changed_revision: 0, window: &WINDOW }, None);
    for (seconds_ago, expected) in [(59, false), (60, true)] {
        let ended = [Compaction { end_time: Some(NOW.plus_millis(-1_000 * seconds_ago)), ..done(2, 100) }];
        let guards = Guards::new(planning, &fold, GuardInput { ended: &ended, ..GuardInput::default() });
        assert_eq!(decide(planning, &fold, &guards).is_some(), expected, "{seconds_ago} s: {guards:?}");
    }
}
