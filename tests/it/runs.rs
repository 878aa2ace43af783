//! Runs: one agent at a time, fenced, and what its end leaves behind.

mod damage;
mod queue;
mod submit;

use crate::support::{TestApp, Watch, call, conversation, shown, soon, text};
use longhand::app::append::{NewDraftText, OpenPart};
use longhand::app::approvals::{Answer, Choice, Question};
use longhand::app::compactions::NewCompaction;
use longhand::app::events::{Frame, Start, SubscribeRequest};
use longhand::app::presence::PresenceKind;
use longhand::app::prompts::{Delivery, NewPrompt, PromptChoice};
use longhand::app::run_watch::RunSignal;
use longhand::app::runs::{CancelRun, ListRuns};
use longhand::app::sessions::{NewSession, SessionChange};
use longhand::app::{Caller, Reason};
use longhand::limits;
use longhand::model::compaction::CompactionKind;
use longhand::model::draft::DraftKind;
use longhand::model::event::{EventBody, EventKind};
use longhand::model::message::{Finish, FinishReason};
use longhand::model::run::{Activity, Run, RunEndReason};
use std::time::Duration;

const SECOND_MS: i64 = 1_000;

/// Advances the clock, and lets the daemon act on it.
async fn pass(test: &TestApp, milliseconds: i64) {
    test.clock.skip_to(test.clock.now().plus_millis(milliseconds));
    test.longhand.store().jobs().wake().await.expect("done");
}

async fn acquire(caller: &Caller, session: &str) -> Run {
    let lease = Some(Duration::from_secs(10));
    caller.runs().acquire(session, lease, false).await.expect("the run is free").run
}

async fn newest(test: &TestApp, session: &str) -> Run {
    test.app.runs().of_session(session).await.expect("the session").run.expect("a run")
}

fn ended(run: &Run) -> Option<RunEndReason> {
    run.end.as_ref().map(|end| end.reason)
}

#[tokio::test]
async fn one_agent_at_a_time_answers() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    assert_eq!(test.app.runs().of_session(&session).await.expect("idle").activity(), Activity::Idle);
    let ada = test.by("ada");
    let first = acquire(&ada, &session).await;
    assert_eq!((first.epoch, first.actor.as_str(), ended(&first)), (1, "ada", None));
    let refused = test.by("bob").runs().acquire(&session, None, false).await.expect_err("it is taken");
    assert_eq!(refused.reason, Reason::RunActive);
    assert_eq!((refused.metadata["epoch"].as_str(), refused.metadata["actor"].as_str()), ("1", "ada"));
    assert_eq!(test.app.runs().of_session(&session).await.expect("busy").activity(), Activity::Running);

    let (released, _) = ada.runs().release(&session, 1, None).await.expect("released").answer;
    assert_eq!((ended(&released), released.lease_end_time), (Some(RunEndReason::Completed), None));
    let second = acquire(&test.by("bob"), &session).await;
    assert_eq!(second.epoch, 2);
    for refused in [
        ada.runs().renew(&session, 1, None).await.map(drop),
        ada.runs().release(&session, 1, None).await.map(drop),
        ada.runs().cancel(&session, CancelRun { epoch: Some(1), ..CancelRun::default() }).await.map(drop),
        ada.prompts().take(&session, 1, PromptChoice::First).await.map(drop),
    ] {
        let refused = refused.expect_err("another run is active");
        assert_eq!((refused.reason, refused.metadata["current_epoch"].as_str()), (Reason::RunLost, "2"));
    }
    let (failed, _) = test.app.runs().release(&session, 2, Some("no key".to_owned())).await.expect("released").answer;
    assert_eq!((ended(&failed), failed.end.expect("an end").failure.as_str()), (Some(RunEndReason::Failed), "no key"));
    assert_eq!(test.app.runs().of_session(&session).await.expect("failed").activity(), Activity::Failed);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_repeated_request_gets_its_first_answer_whatever_happened_since() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let ask = || async { test.once("r1", "acquire").runs().acquire(&session, None, false).await.expect("acquired") };
    let first = ask().await;
    assert_eq!(ask().await.receipt, first.receipt);
    test.app.runs().release(&session, 1, None).await.expect("released");
    acquire(&test.app, &session).await;
    let again = ask().await;
    assert_eq!((again.run.epoch, ended(&again.run)), (1, Some(RunEndReason::Completed)), "as it is now");
    let other = test.once("r1", "another").runs().acquire(&session, None, true).await.expect_err("another request");
    assert_eq!(other.reason, Reason::RequestIdReused);

    // So does a write on behalf of a run that is lost by now.
    let write = |epoch| {
        let caller = test.once("w1", "append").in_run(epoch);
        let session = session.clone();
        async move { caller.messages().append(&session, conversation("u1 \"hello\""), None, None).await }
    };
    let written = write(2).await.expect("the run is active");
    test.app.runs().release(&session, 2, None).await.expect("released");
    assert_eq!(write(2).await.expect("the first answer").ids, written.ids);
}

#[tokio::test]
async fn a_run_that_is_not_active_writes_nothing() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    acquire(&test.app, &session).await;
    test.append(&session, "u1 \"hello\"\na1 open").await;
    test.app.runs().release(&session, 1, None).await.expect("released");
    acquire(&test.app, &session).await;
    let before = test.revision(&session).await;
    for stale in [1, 3] {
        let stale = test.app.clone().in_run(stale);
        let draft =
            NewDraftText { part: None, client_id: None, kind: DraftKind::Text, offset: 0, delta: "words".to_owned() };
        for refused in [
            stale.messages().append(&session, conversation("u2 \"more\""), None, None).await.map(drop),
            stale.messages().append_parts(&session, "a1", vec![OpenPart::Whole(text("x"))]).await.map(drop),
            stale.messages().append_draft(&session, "a1", draft).await.map(drop),
            stale.messages().finish(&session, "a1", Finish::default(), None).await.map(drop),
            stale.messages().edit(&session, "u1", &[text("x")], None).await.map(drop),
            stale.messages().rewind(&session, "u1", None).await.map(drop),
            stale.messages().pin(&session, "u1").await.map(drop),
            stale.compactions().undo(&session, None).await.map(drop),
            stale.approvals().request(&session, question()).await.map(drop),
            stale.prompts().submit(&session, prompt("x", Delivery::Queue)).await.map(drop),
            stale
                .sessions()
                .update(&session, SessionChange { title: Some("x".into()), ..SessionChange::default() })
                .await
                .map(drop),
            stale.compactions().start(&session, NewCompaction::of_kind(CompactionKind::Prune)).await.map(drop),
            stale.sessions().archive(&session).await.map(drop),
            stale.runs().cancel(&session, CancelRun::default()).await.map(drop),
        ] {
            assert_eq!(refused.expect_err("it is not the active run").reason, Reason::RunLost);
        }
    }
    assert_eq!(test.revision(&session).await, before, "nothing was written");
    test.app
        .messages()
        .append(&session, conversation("u2 \"more\""), None, Some(before))
        .await
        .expect("no run is needed");
}

#[tokio::test]
async fn a_lost_run_leaves_nothing_open() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"go\"\na0 open").await;
    let run = acquire(&test.by("ada"), &session).await;
    let ada = test.by("ada").in_run(run.epoch);
    let mut reply = conversation("a1 call=c1 call=c2 open\nt1 result=c1:done");
    reply[0].open_timeout_ms = Some(limits::OPEN_TIMEOUT_MS_MAX);
    ada.messages().append(&session, reply, None, None).await.expect("appended");
    let draft =
        NewDraftText { part: None, client_id: None, kind: DraftKind::Text, offset: 0, delta: "half".to_owned() };
    ada.messages().append_draft(&session, "a1", draft).await.expect("the words are taken");
    // Another writer's call is not the run's.
    test.append(&session, "a2 call=c3").await;
    let asked = ada.approvals().request(&session, question()).await.expect("asked").answer.0;
    let before = test.revision(&session).await;
    let mut watch = test.watch().await;
    pass(&test, 9 * SECOND_MS).await;
    ada.runs().renew(&session, 1, Some(Duration::from_secs(10))).await.expect("renewed");
    pass(&test, 9 * SECOND_MS).await;
    assert_eq!(ended(&newest(&test, &session).await), None, "it was renewed");
    test.clock.skip_to(test.clock.now().plus_millis(SECOND_MS));
    test.wake.wake();

    let end = watch.wait_for(EventKind::RunEnded).await;
    let seal = watch.log.iter().find(|event| event.body.kind() == EventKind::MessageFinished).expect("a seal");
    assert!(!seal.ends_mutation && end.ends_mutation && seal.revision < end.revision, "one mutation");
    let EventBody::RunEnded { reason, interrupted, .. } = &end.body else { panic!("{end:?}") };
    let calls: Vec<&str> = interrupted.iter().map(|call| call.call_id.as_str()).collect();
    assert_eq!((*reason, calls.as_slice()), (RunEndReason::Lost, ["c2"].as_slice()));
    let (message, drafts, _) = test.app.messages().get(&session, "a1").await.expect("the message");
    assert_eq!((message.finish.reason, drafts.len()), (Some(FinishReason::Aborted), 0));
    let (other, ..) = test.app.messages().get(&session, "a0").await.expect("the message");
    assert_eq!(other.sealed_revision, None, "it is not the run's");
    let waiting = test.app.approvals().get(&session, &asked.id.to_string()).await.expect("the question");
    assert_eq!(waiting.end, None, "its agent may come back for the answer");

    // The result that comes after all counts.
    let interrupted = "tool paired: result c2 [tool execution was interrupted]".to_owned();
    assert!(shown(&test.view(&session).await).contains(&interrupted));
    let late = conversation("t2 result=c2:late");
    test.by("ada").messages().append(&session, late, None, None).await.expect("appended");
    let view = shown(&test.view(&session).await);
    assert!(view.contains(&"tool shown: result c2 late".to_owned()) && !view.contains(&interrupted), "{view:?}");
    assert!(
        test.app.messages().append(&session, conversation("u2 \"x\""), None, Some(before)).await.is_err(),
        "a seal is history"
    );
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_lease_does_not_run_while_nobody_can_renew_it() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    acquire(&test.app, &session).await;
    pass(&test, 9 * SECOND_MS).await;
    let test = test.kill().await;
    pass(&test, 9 * SECOND_MS).await;
    assert_eq!(ended(&newest(&test, &session).await), None, "a start of the daemon gives it the whole time");
    test.app.runs().renew(&session, 1, Some(Duration::from_secs(10))).await.expect("it is still the active one");
    test.clock.suspend(3_600 * SECOND_MS);
    test.longhand.store().jobs().wake().await.expect("done");
    assert_eq!(ended(&newest(&test, &session).await), None, "the machine slept");
    pass(&test, 10 * SECOND_MS).await;
    assert_eq!(ended(&newest(&test, &session).await), Some(RunEndReason::Lost));
}

#[tokio::test]
async fn whoever_acquires_next_ends_a_run_whose_time_is_up() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    acquire(&test.by("ada"), &session).await;
    test.clock.skip_to(test.clock.now().plus_millis(10 * SECOND_MS));
    // A refusal ends nothing.
    let refused = test.by("bob").runs().acquire(&session, None, true).await.expect_err("no prompt waits");
    assert_eq!((refused.reason, ended(&newest(&test, &session).await)), (Reason::NoPrompt, None));
    let second = acquire(&test.by("bob"), &session).await;
    assert_eq!(second.epoch, 2);
    let (runs, _) = test.app.runs().list(of(&session)).await.expect("a list");
    assert_eq!(runs.iter().map(ended).collect::<Vec<_>>(), [None, Some(RunEndReason::Lost)]);
    assert_eq!(test.findings().await, []);
}

fn of(session: &str) -> ListRuns {
    ListRuns { session: Some(session.to_owned()), ..ListRuns::default() }
}

#[tokio::test]
async fn a_run_that_was_asked_to_stop_ends_soon() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let none = test.app.runs().cancel(&session, CancelRun::default()).await.expect_err("none is active");
    assert_eq!(none.reason, Reason::RunNotFound);
    acquire(&test.app, &session).await;
    let asked = test.by("eve").runs().cancel(&session, CancelRun::default()).await.expect("asked");
    assert!(asked[0].cancel_revision.is_some() && asked[0].end.is_none());
    let before = test.revision(&session).await;
    test.app.runs().cancel(&session, CancelRun::default()).await.expect("asked before");
    assert_eq!(test.revision(&session).await, before, "once is enough");
    let renewed = test.app.runs().renew(&session, 1, Some(Duration::from_secs(600))).await.expect("still active");
    assert!(renewed.cancel_revision.is_some(), "so that the agent learns of it");
    pass(&test, limits::RUN_CANCEL_MS).await;
    assert_eq!(ended(&newest(&test, &session).await), Some(RunEndReason::Cancelled), "no renewal keeps it");

    // Whoever acquires next says the same of a run that was asked to stop.
    acquire(&test.app, &session).await;
    test.app.runs().cancel(&session, CancelRun::default()).await.expect("asked");
    test.clock.skip_to(test.clock.now().plus_millis(limits::RUN_CANCEL_MS));
    acquire(&test.app, &session).await;
    let (runs, _) = test.app.runs().list(of(&session)).await.expect("a list");
    assert_eq!(ended(&runs[1]), Some(RunEndReason::Cancelled));

    let forced = CancelRun { force: true, ..CancelRun::default() };
    let stopped = test.app.runs().cancel(&session, forced).await.expect("stopped");
    assert_eq!(ended(&stopped[0]), Some(RunEndReason::Cancelled));

    acquire(&test.app, &session).await;
    test.app.runs().cancel(&session, CancelRun::default()).await.expect("asked");
    let (released, _) = test.app.runs().release(&session, 4, None).await.expect("released").answer;
    assert_eq!(ended(&released), Some(RunEndReason::Cancelled), "whatever its agent says");
    acquire(&test.app, &session).await;
    test.app.sessions().archive(&session).await.expect("archived");
    assert_eq!(ended(&newest(&test, &session).await), Some(RunEndReason::Cancelled));
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_tree_is_listed_and_stopped_as_one() {
    let test = TestApp::start().await;
    let root = test.manual_session().await;
    let child = |parent: &str| NewSession { parent: Some(parent.to_owned()), ..NewSession::default() };
    let below = test.create(child(&root)).await;
    let deeper = test.create(child(&below)).await;
    let other = test.manual_session().await;
    for session in [&below, &deeper, &other] {
        acquire(&test.app, session).await;
    }
    let tree = ListRuns { tree: true, ..of(&root) };
    let sessions = |runs: &[Run]| runs.iter().map(|run| run.session_id.to_string()).collect::<Vec<_>>();
    let (runs, _) = test.app.runs().list(tree.clone()).await.expect("a list");
    assert_eq!(sessions(&runs), [deeper.clone(), below.clone()]);
    let page = ListRuns { page_size: 1, ..tree.clone() };
    let (first, next) = test.app.runs().list(page.clone()).await.expect("a page");
    let (second, end) = test.app.runs().list(ListRuns { page_token: next, ..page }).await.expect("a page");
    assert_eq!((sessions(&first), sessions(&second)), (vec![deeper.clone()], vec![below.clone()]));
    assert_eq!(end, "", "that was the last page");
    let (all, _) = test.app.runs().list(ListRuns::default()).await.expect("a list");
    assert_eq!(sessions(&all), [other.clone(), deeper.clone(), below.clone()]);

    let all = CancelRun { force: true, tree: true, ..CancelRun::default() };
    let again = test.once("r", "cancel").runs().cancel(&root, all).await.expect_err("it could not be repeated");
    assert_eq!((again.reason, again.metadata["field"].as_str()), (Reason::InvalidField, "request_id"));
    let stopped = test.app.runs().cancel(&root, all).await.expect("stopped");
    assert_eq!(sessions(&stopped), [deeper, below]);
    assert_eq!(test.app.runs().list(tree).await.expect("a list").0, []);
    assert_eq!(ended(&newest(&test, &other).await), None);
}

fn prompt(words: &str, delivery: Delivery) -> NewPrompt<'static> {
    let metadata_json = Some("{\"from\":\"here\"}".to_owned());
    NewPrompt { delivery, metadata_json, ..NewPrompt::from_parts(vec![text(words)]) }
}

async fn submit(caller: &Caller, session: &str, words: &str, delivery: Delivery) -> String {
    caller.prompts().submit(session, prompt(words, delivery)).await.expect("it waits").answer.0.to_string()
}

async fn queue(test: &TestApp, session: &str) -> Vec<String> {
    let (prompts, _) = test.app.prompts().list(session, false, 0, "").await.expect("the queue");
    prompts.iter().map(|prompt| prompt.id.to_string()).collect()
}

#[tokio::test]
async fn prompts_wait_in_order_and_are_taken_once() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let pat = test.by("pat");
    let first = submit(&pat, &session, "first", Delivery::Queue).await;
    let second = submit(&pat, &session, "second", Delivery::Queue).await;
    let third = submit(&pat, &session, "third", Delivery::Queue).await;
    assert_eq!(test.history(&session).await, [], "a prompt is no message yet");
    test.app.prompts().reorder(&session, &third, Some(&first)).await.expect("moved");
    assert_eq!(queue(&test, &session).await, [third.clone(), first.clone(), second.clone()]);
    test.app.prompts().reorder(&session, &third, None).await.expect("moved");
    test.app.prompts().withdraw(&session, &second).await.expect("withdrawn");
    assert_eq!(queue(&test, &session).await, [first.clone(), third.clone()]);

    let mut watch = test.watch().await;
    let acquired = test.by("ada").runs().acquire(&session, None, true).await.expect("acquired");
    let taken = acquired.prompt.expect("a prompt");
    assert_eq!(taken.id.to_string(), first);
    let message = watch.wait_for(EventKind::MessageAppended).await;
    assert!(message.ends_mutation, "the last event of the mutation");
    let kinds: Vec<EventKind> = watch.log.iter().map(|event| event.body.kind()).collect();
    assert!(kinds.ends_with(&[EventKind::RunStarted, EventKind::PromptTaken, EventKind::MessageAppended]), "{kinds:?}");
    let history = test.history(&session).await;
    assert_eq!((history[0].id, history[0].actor.as_str()), (taken.message().expect("its message"), "pat"));
    assert_eq!(history[0].metadata_json.as_deref(), Some("{\"from\":\"here\"}"));
    assert_eq!(shown(&test.view(&session).await), ["user shown: first"]);

    let (next, _) = test.app.prompts().take(&session, 1, PromptChoice::First).await.expect("the next one");
    assert_eq!(next.id.to_string(), third);
    let none = test.app.prompts().take(&session, 1, PromptChoice::First).await.expect_err("none waits");
    assert_eq!(none.reason, Reason::NoPrompt);
    for (id, end) in [(&first, "taken"), (&second, "withdrawn")] {
        for refused in [
            test.app.prompts().take(&session, 1, PromptChoice::Named(id)).await.map(drop),
            test.app.prompts().withdraw(&session, id).await.map(drop),
            test.app.prompts().reorder(&session, id, None).await.map(drop),
        ] {
            let refused = refused.expect_err("it does not wait");
            assert_eq!((refused.reason, refused.metadata["end"].as_str()), (Reason::PromptEnded, end));
        }
    }
    let (all, _) = test.app.prompts().list(&session, true, 0, "").await.expect("all");
    assert_eq!(all.iter().map(|prompt| prompt.id.to_string()).collect::<Vec<_>>(), [third, second, first]);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn prompts_runs_and_questions_are_no_change_of_history() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"hello\"").await;
    let read = test.revision(&session).await;
    submit(&test.app, &session, "later", Delivery::Queue).await;
    acquire(&test.app, &session).await;
    test.app.approvals().request(&session, question()).await.expect("asked");
    test.app
        .messages()
        .append(&session, conversation("a1 \"hi\""), None, Some(read))
        .await
        .expect("history is as it was read");
}

#[tokio::test]
async fn a_sender_may_steer_or_interrupt() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let queued = submit(&test.app, &session, "queued", Delivery::Queue).await;
    acquire(&test.app, &session).await;
    let none = test.app.prompts().take(&session, 1, PromptChoice::FirstSteering).await.expect_err("none steers");
    assert_eq!(none.reason, Reason::NoPrompt);
    let steering = submit(&test.app, &session, "steering", Delivery::Steer).await;
    let also = submit(&test.app, &session, "steering too", Delivery::Steer).await;
    assert_eq!(queue(&test, &session).await, [steering.clone(), also.clone(), queued.clone()]);
    let (taken, _) = test.app.prompts().take(&session, 1, PromptChoice::FirstSteering).await.expect("it steers");
    assert_eq!(taken.id.to_string(), steering);
    assert_eq!(newest(&test, &session).await.cancel_revision, None);
    let urgent = submit(&test.by("eve"), &session, "instead", Delivery::Interrupt).await;
    assert_eq!(queue(&test, &session).await, [urgent.clone(), also, queued]);
    assert!(newest(&test, &session).await.cancel_revision.is_some(), "the run is to stop");
    test.app.runs().release(&session, 1, None).await.expect("released");
    let next = test.app.runs().acquire(&session, None, true).await.expect("acquired");
    assert_eq!(next.prompt.expect("a prompt").id.to_string(), urgent);
}

#[tokio::test]
async fn the_queue_is_bounded_and_takes_only_words_and_media() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let call = NewPrompt { parts: vec![call("c1")], ..prompt("x", Delivery::Queue) };
    assert_eq!(test.app.prompts().submit(&session, call).await.expect_err("a call").reason, Reason::InvalidField);
    let empty = NewPrompt { parts: Vec::new(), ..prompt("x", Delivery::Queue) };
    assert_eq!(test.app.prompts().submit(&session, empty).await.expect_err("empty").reason, Reason::InvalidField);
    for _ in 0..limits::QUEUED_PROMPTS_MAX {
        submit(&test.app, &session, "x", Delivery::Queue).await;
    }
    let refused = test.app.prompts().submit(&session, prompt("x", Delivery::Interrupt)).await.expect_err("full");
    assert_eq!(refused.reason, Reason::LimitExceeded);
    assert_eq!(queue(&test, &session).await.len(), 50, "a page");
}

/// The queue in pages of this size.
async fn paged(test: &TestApp, session: &str, size: i64, ended: bool) -> Vec<Vec<String>> {
    let (mut pages, mut token) = (Vec::new(), String::new());
    loop {
        let (prompts, next) = test.app.prompts().list(session, ended, size, &token).await.expect("a page");
        pages.push(prompts.iter().map(|prompt| prompt.id.to_string()).collect());
        if next.is_empty() {
            return pages;
        }
        token = next;
    }
}

#[tokio::test]
async fn pages_of_the_queue_have_each_prompt_once() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    for number in 0..9 {
        submit(&test.app, &session, &number.to_string(), Delivery::Queue).await;
    }
    acquire(&test.app, &session).await;
    for _ in 0..4 {
        test.app.prompts().take(&session, 1, PromptChoice::First).await.expect("taken");
    }
    let waiting = queue(&test, &session).await;
    test.app.prompts().withdraw(&session, &waiting[2]).await.expect("withdrawn");
    test.app.prompts().reorder(&session, &waiting[4], Some(&waiting[1])).await.expect("moved");
    submit(&test.app, &session, "first", Delivery::Interrupt).await;
    let waiting = queue(&test, &session).await;
    assert_eq!(waiting.len(), 5);
    for size in 1..=6 {
        let pages = paged(&test, &session, size, false).await;
        assert_eq!(pages.concat(), waiting, "pages of {size}");
        assert_eq!(pages.len(), waiting.len().div_ceil(size as usize), "no empty page");
        assert_eq!(paged(&test, &session, size, true).await.concat().len(), 10);
    }
}

#[tokio::test]
async fn pages_with_much_content_are_short() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let large = format!("\"{}\"", "x".repeat(limits::APPROVAL_INPUT_BYTES_MAX - 2));
    let heavy = NewPrompt { metadata_json: Some(large.clone()), ..prompt("x", Delivery::Queue) };
    for _ in 0..15 {
        test.app.prompts().submit(&session, heavy.clone()).await.expect("it waits");
        let asked = Question { input_json: Some(large.clone()), ..question() };
        test.app.approvals().request(&session, asked).await.expect("asked");
    }
    for ended in [false, true] {
        let pages = paged(&test, &session, 0, ended).await;
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [11, 4], "3 MiB for each page");
        let (first, next) = test.app.approvals().list(&session, ended, 0, "").await.expect("a page");
        let (second, end) = test.app.approvals().list(&session, ended, 0, &next).await.expect("a page");
        assert_eq!((first.len(), second.len(), end.as_str()), (11, 4, ""));
    }
}

fn question() -> Question {
    let choice = |id: &str| Choice { id: id.to_owned(), label: String::new() };
    Question {
        text: "May I?".to_owned(),
        tool: "bash".to_owned(),
        call_id: "c1".to_owned(),
        input_json: Some("{\"command\":\"rm -r build\"}".to_owned()),
        choices: vec![choice("yes"), choice("no")],
        ..Question::default()
    }
}

fn answer(choice: &str) -> Answer {
    Answer { choice: Some(choice.to_owned()), text: String::new() }
}

#[tokio::test]
async fn a_question_has_one_answer() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    acquire(&test.by("ada"), &session).await;
    let ask = || async {
        let caller = test.once("ask-1", "question").in_run(1);
        caller.approvals().request(&session, question()).await.expect("asked").answer
    };
    let (asked, _) = ask().await;
    let id = asked.id.to_string();
    assert_eq!((asked.epoch, &asked.question, asked.end), (Some(1), &question(), None));
    let busy = test.app.runs().of_session(&session).await.expect("busy");
    assert_eq!((busy.activity(), busy.approvals.as_slice()), (Activity::WaitingForApproval, [asked.id].as_slice()));
    for (given, field) in [
        (answer("maybe"), "choice"),
        (Answer::default(), "choice"),
        (Answer { text: "but".to_owned(), ..answer("no") }, "text"),
    ] {
        let refused = test.app.approvals().answer(&session, &id, given).await.expect_err("no answer to this question");
        assert_eq!((refused.reason, refused.metadata["field"].as_str()), (Reason::InvalidField, field));
    }
    let (answered, _) = test.by("pat").approvals().answer(&session, &id, answer("no")).await.expect("answered").answer;
    let end = answered.end.expect("an end");
    assert_eq!((end.answer.choice.as_deref(), end.actor.as_str()), (Some("no"), "pat"));
    let second = test.by("eve").approvals().answer(&session, &id, answer("yes")).await.expect_err("answered before");
    assert_eq!(second.reason, Reason::ApprovalEnded);
    assert_eq!((second.metadata["choice"].as_str(), second.metadata["actor"].as_str()), ("no", "pat"));

    // The agent was restarted, and so was the daemon: asking again finds the answer.
    let session = session.clone();
    let test = test.kill().await;
    let again =
        test.once("ask-1", "question").in_run(1).approvals().request(&session, question()).await.expect("found").answer;
    assert_eq!(again.0.end.expect("the answer").answer, answer("no"));
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn the_default_holds_when_the_time_is_up() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let limited = Question { default_choice: Some("no".to_owned()), timeout_ms: Some(10 * SECOND_MS), ..question() };
    let (asked, _) = test.app.approvals().request(&session, limited.clone()).await.expect("asked").answer;
    let id = asked.id.to_string();
    pass(&test, 9 * SECOND_MS).await;
    let test = test.restart().await;
    pass(&test, 9 * SECOND_MS).await;
    assert_eq!(test.app.approvals().get(&session, &id).await.expect("it").end, None, "the downtime does not count");
    let mut watch = test.watch().await;
    test.clock.skip_to(test.clock.now().plus_millis(SECOND_MS));
    test.wake.wake();
    let event = watch.wait_for(EventKind::ApprovalEnded).await;
    assert!(
        matches!(&event.body, EventBody::ApprovalEnded { choice: Some(choice), .. } if choice == "no"),
        "{event:?}"
    );
    let late = test.app.approvals().answer(&session, &id, answer("yes")).await.expect_err("too late");
    assert_eq!((late.reason, late.metadata["choice"].as_str()), (Reason::ApprovalEnded, "no"));
    for (bad, field) in [
        (Question { text: " ".to_owned(), ..question() }, "question.text"),
        (Question { choices: Vec::new(), ..question() }, "question.choices"),
        (Question { default_choice: Some("maybe".to_owned()), ..limited.clone() }, "question.default_choice"),
        (Question { default_choice: None, ..limited.clone() }, "question.default_choice"),
        (Question { timeout_ms: Some(1), ..limited }, "question.answer_timeout"),
        (Question { input_json: Some("{".to_owned()), ..question() }, "question.input_json"),
    ] {
        let refused = test.app.approvals().request(&session, bad).await.expect_err("refused");
        assert_eq!(refused.metadata["field"].as_str(), field);
    }
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn questions_end_with_the_run_that_asks() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    acquire(&test.app, &session).await;
    let of_run = test.app.clone().in_run(1).approvals().request(&session, question()).await.expect("asked").answer.0;
    let alone = test.app.approvals().request(&session, question()).await.expect("asked").answer.0;
    test.app.runs().release(&session, 1, None).await.expect("released");
    let (waiting, _) = test.app.approvals().list(&session, false, 0, "").await.expect("a list");
    assert_eq!(waiting.iter().map(|approval| approval.id).collect::<Vec<_>>(), [alone.id]);
    let (all, _) = test.app.approvals().list(&session, true, 0, "").await.expect("a list");
    assert_eq!(all.iter().map(|approval| approval.id).collect::<Vec<_>>(), [alone.id, of_run.id]);
    test.app.approvals().withdraw(&session, &alone.id.to_string()).await.expect("withdrawn");
    let refused = test.app.approvals().answer(&session, &alone.id.to_string(), answer("no")).await;
    assert_eq!(refused.expect_err("withdrawn").reason, Reason::ApprovalEnded);
}

#[tokio::test]
async fn an_agent_that_comes_back_gets_the_answer_to_its_old_question() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    acquire(&test.app, &session).await;
    let ask = |epoch| test.once("ask-1", "question").in_run(epoch);
    let (asked, _) = ask(1).approvals().request(&session, question()).await.expect("asked").answer;
    pass(&test, 10 * SECOND_MS).await;
    acquire(&test.app, &session).await;
    let (found, _) = ask(2).approvals().request(&session, question()).await.expect("found").answer;
    assert_eq!((found.id, found.end), (asked.id, None));
    let mut watch = test.app.runs().watch(&session, 2, "").await.expect("a stream");
    test.app.approvals().answer(&session, &asked.id.to_string(), answer("yes")).await.expect("answered");
    let frame = soon("a frame", watch.next()).await.expect("the stream goes on").expect("a frame");
    assert!(matches!(&frame.signal, RunSignal::Approval(approval) if approval.id == asked.id), "{frame:?}");

    // What nobody came back for ends with the next run.
    test.app.clone().in_run(2).approvals().request(&session, question()).await.expect("asked");
    pass(&test, 10 * SECOND_MS).await;
    acquire(&test.app, &session).await;
    test.app.runs().release(&session, 3, None).await.expect("released");
    assert_eq!(test.app.approvals().list(&session, false, 0, "").await.expect("a list").0, []);
}

#[tokio::test]
async fn an_agent_learns_of_everything_on_the_stream_of_its_run() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    acquire(&test.app, &session).await;
    let early = submit(&test.app, &session, "came before the stream", Delivery::Steer).await;
    let mut watch = test.app.runs().watch(&session, 1, "").await.expect("a stream");
    let next = async |watch: &mut longhand::app::run_watch::RunWatch| {
        soon("a frame", watch.next()).await.expect("the stream goes on").expect("a frame")
    };
    let first = next(&mut watch).await;
    assert!(matches!(&first.signal, RunSignal::Prompt(prompt) if prompt.id.to_string() == early), "{first:?}");
    let asked = test.app.clone().in_run(1).approvals().request(&session, question()).await.expect("asked").answer.0;
    let other = test.app.approvals().request(&session, question()).await.expect("asked").answer.0;
    for id in [other.id, asked.id] {
        test.app.approvals().answer(&session, &id.to_string(), answer("yes")).await.expect("answered");
    }
    let second = next(&mut watch).await;
    assert!(matches!(&second.signal, RunSignal::Approval(approval) if approval.id == asked.id), "{second:?}");
    // It resumes by its cursor.
    let mut watch = test.app.runs().watch(&session, 1, &first.cursor).await.expect("a stream");
    assert_eq!(next(&mut watch).await, second);
    test.app.runs().cancel(&session, CancelRun::default()).await.expect("asked to stop");
    let third = next(&mut watch).await;
    assert!(matches!(&third.signal, RunSignal::Run(run) if run.cancel_revision.is_some()), "{third:?}");
    test.app.runs().release(&session, 1, None).await.expect("released");
    let last = next(&mut watch).await;
    assert!(matches!(&last.signal, RunSignal::Run(run) if run.end.is_some()), "{last:?}");
    assert_eq!(soon("the end", watch.next()).await, None);
    let mut after = test.app.runs().watch(&session, 1, &last.cursor).await.expect("a stream");
    assert_eq!(next(&mut after).await.signal, last.signal, "a stream that begins after the end says so");
    assert_eq!(soon("the end", after.next()).await, None);
    assert_eq!(test.app.runs().watch(&session, 2, "").await.err().map(|error| error.reason), Some(Reason::RunNotFound));
}

/// Waits until a stream says that these are at work in the session.
async fn present(watch: &mut Watch, expected: &[(&str, PresenceKind)]) {
    loop {
        if let Frame::Presence(frame) = watch.frame().await {
            let found: Vec<_> = frame.present.iter().map(|present| (present.actor.as_str(), present.doing)).collect();
            if found == expected {
                return;
            }
        }
    }
}

fn following(session: &str) -> SubscribeRequest {
    SubscribeRequest { sessions: vec![session.to_owned()], presence: true, ..SubscribeRequest::default() }
}

#[tokio::test(start_paused = true)]
async fn who_watches_and_types_is_known_while_it_lasts() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let revision = test.revision(&session).await;
    let mut pat = Watch::new(test.by("pat").events().subscribe(following(&session)).await.expect("a stream"));
    let (watching, typing) = (("pat", PresenceKind::Watching), ("eve", PresenceKind::Typing));
    present(&mut pat, &[watching]).await;
    let eve = test.by("eve").events().subscribe(following(&session)).await.expect("a stream");
    present(&mut pat, &[("eve", PresenceKind::Watching), watching]).await;
    drop(eve);
    present(&mut pat, &[watching]).await;
    test.by("eve").presence().report_typing(&session, true).await.expect("reported");
    present(&mut pat, &[typing, watching]).await;
    test.by("eve").presence().report_typing(&session, false).await.expect("reported");
    present(&mut pat, &[watching]).await;
    test.by("eve").presence().report_typing(&session, true).await.expect("reported");
    present(&mut pat, &[typing, watching]).await;
    // Without another report it is over.
    present(&mut pat, &[watching]).await;

    acquire(&test.by("ada"), &session).await;
    let who = test.app.presence().get(&session).await.expect("who");
    assert_eq!((who.present.len(), who.run.expect("a run").actor.as_str()), (1, "ada"));
    let refused = test.app.presence().report_typing(&session, true).await.expect_err("nobody");
    assert_eq!(refused.reason, Reason::InvalidField);
    assert_eq!(test.revision(&session).await, revision + 1, "only the run is stored");
}

#[tokio::test]
async fn a_snapshot_has_what_waits() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    acquire(&test.app, &session).await;
    let first = submit(&test.app, &session, "first", Delivery::Queue).await;
    let second = submit(&test.app, &session, "second", Delivery::Interrupt).await;
    let asked = test.app.approvals().request(&session, question()).await.expect("asked").answer.0;
    let request = SubscribeRequest { start: Start::Snapshot, presence: false, ..following(&session) };
    let mut watch = Watch::new(test.app.events().subscribe(request).await.expect("a stream"));
    let mut found = Vec::new();
    loop {
        match watch.frame().await {
            Frame::SnapshotRun(run) => found.push(format!("run {}", run.epoch)),
            Frame::SnapshotPrompt(prompt) => found.push(prompt.id.to_string()),
            Frame::SnapshotApproval(approval) => found.push(approval.id.to_string()),
            Frame::SnapshotEnd { .. } => break,
            _ => {}
        }
    }
    assert_eq!(found, ["run 1".to_owned(), second, first, asked.id.to_string()]);
    test.app.approvals().answer(&session, &asked.id.to_string(), answer("yes")).await.expect("answered");
    let next = watch.wait_for(EventKind::ApprovalEnded).await;
    assert_eq!(watch.log[0], next, "what follows was committed after it");
}

#[tokio::test]
async fn a_stream_may_have_a_tree_or_a_project() {
    let test = TestApp::start().await;
    let root = test.manual_session().await;
    let of = |project: &str, parent: Option<&String>| NewSession {
        metadata_json: Some(format!("{{\"project\":\"{project}\"}}")),
        parent: parent.cloned(),
        ..NewSession::default()
    };
    let child = test.create(of("one", Some(&root))).await;
    let other = test.create(of("one", None)).await;
    let alone = test.create(of("two", None)).await;
    let all = [&root, &child, &other, &alone];
    let scopes = [
        (Some(&root), None, vec![&root, &child]),
        (None, Some("one"), vec![&child, &other]),
        (Some(&root), Some("one"), vec![&child]),
    ];
    for (root, project, expected) in scopes {
        let request = SubscribeRequest {
            root: root.cloned(),
            project: project.map(str::to_owned),
            kinds: vec![EventKind::PromptSubmitted],
            ..SubscribeRequest::default()
        };
        let mut watch = Watch::new(test.app.events().subscribe(request).await.expect("a stream"));
        for session in all {
            submit(&test.app, session, "x", Delivery::Queue).await;
        }
        while watch.log.len() < expected.len() {
            watch.frame().await;
        }
        let found: Vec<String> = watch.log.iter().map(|event| event.session_id.to_string()).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected);
    }
    let nowhere = SubscribeRequest { root: Some("nobody".to_owned()), ..SubscribeRequest::default() };
    let refused = test.app.events().subscribe(nowhere).await.err().map(|error| error.reason);
    assert_eq!(refused, Some(Reason::SessionNotFound));
}
