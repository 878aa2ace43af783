//! P7, P12: a client writes a summary with its own model, or no client does and the configured summarizers are used.

use crate::support::{Line, ScriptedSummarizer, TestApp, Watch, conversation, shown, soon, turns, words_of};
use longhand::app::summary_tasks::{LeaseClaim, LeaseRequest, LeasedTask, NewEdit, Release, TaskReply};
use longhand::app::{Error, Reason};
use longhand::limits;
use longhand::model::compaction::{CompactionState, Level, Outcome};
use longhand::model::event::{EventBody, EventKind};
use longhand::model::message::FinishReason;
use longhand::model::usage::Usage;
use longhand::pb;
use longhand::pb::summary_task_service_client::SummaryTaskServiceClient;
use longhand::scheduler;
use std::sync::Arc;
use std::time::Duration;

/// Longer than any test takes: a wait for this time is a wait for a client.
const LONG_WAIT: Duration = Duration::from_secs(60);

const SUMMARY: &str = "## Goal\n- count to nine\n\n## Constraints & Preferences\n- (none)\n\n## Progress\n\n### Done\n\
                       - [x] eight\n\n## Next Steps\n1. nine\n\n## Critical Context\n- (none)";

struct Setup {
    test: TestApp,
    script: Arc<ScriptedSummarizer>,
    session: String,
    watch: Watch,
}

/// Options of a scheduler that waits for this time for a client to write each summary.
fn waiting(client_wait: Duration) -> scheduler::Options {
    scheduler::Options { client_wait, ..scheduler::Options::default() }
}

/// A session that is due, with a summarizer as fallback for clients.
async fn due(wait: Duration) -> Setup {
    due_under("opencode@seed", wait).await
}

async fn due_under(preset: &str, wait: Duration) -> Setup {
    let script = ScriptedSummarizer::new([Line::Say("scripted words".to_owned())]);
    let test = TestApp::with_options(script.clone(), waiting(wait)).await;
    let session = test.session(preset, 6_000, 1_000).await;
    let watch = test.watch().await;
    test.append(&session, &turns(1, 9, 1_100)).await;
    Setup { test, script, session, watch }
}

impl Setup {
    async fn lease(&self, request: LeaseRequest) -> Option<LeasedTask> {
        let leased = soon("a lease", self.test.app.summary_tasks().lease(request)).await;
        leased.expect("tasks are offered")
    }

    async fn leased(&self) -> LeasedTask {
        self.lease(LeaseRequest { wait: Some(Duration::from_secs(60)), ..LeaseRequest::default() })
            .await
            .expect("there is a task")
    }

    async fn complete(&self, task: &LeasedTask, reply: TaskReply) -> Result<CompactionState, Error> {
        let completed = self.test.app.summary_tasks().complete(&hold(task), reply).await;
        completed.map(|compaction| compaction.state)
    }

    /// The outcome of the compaction.
    async fn compacted(&mut self) -> Outcome {
        let EventBody::Compacted { outcome, .. } = self.watch.wait_for(EventKind::Compacted).await.body else {
            panic!("another body")
        };
        self.test.settled().await;
        assert_eq!(self.watch.count(EventKind::CompactionStarted), 1);
        assert_eq!(self.test.findings().await, []);
        *outcome
    }
}

fn hold(task: &LeasedTask) -> LeaseClaim {
    LeaseClaim {
        compaction: task.task.compaction.to_string(),
        token: task.token.clone(),
        base_revision: Some(task.task.base),
    }
}

fn reply(text: &str) -> TaskReply {
    TaskReply { text: text.to_owned(), model: "mine".to_owned(), ..TaskReply::default() }
}

#[tokio::test]
async fn a_client_writes_the_summary() {
    let mut setup = due(LONG_WAIT).await;
    let task = setup.leased().await;
    assert_eq!(task.task.session.to_string(), setup.session);
    assert_eq!((task.task.level, task.task.attempt), (Some(Level::Auto), 1));
    assert!(task.prompt.user.contains("<conversation>") && task.prompt.user.contains("u1 was here"));
    assert!(!task.prompt.user.contains("u9 was here"), "the tail is not summarized");
    assert!(!task.prompt.system.is_empty() && task.task.input.budget_tokens > 0);
    let later =
        setup.test.app.summary_tasks().extend(&hold(&task), Some(Duration::from_secs(600))).await.expect("held");
    assert!(later > task.end_time);
    // The compaction continues, and appends do too.
    setup.test.append(&setup.session, "u10 \"and then?\"").await;
    let usage = Usage { input: 900, output: 20, ..Usage::default() };
    let state = setup.complete(&task, TaskReply { usage: Some(usage), ..reply(SUMMARY) }).await.expect("accepted");
    assert!(matches!(state, CompactionState::Running | CompactionState::Done), "{state:?}");
    let outcome = setup.compacted().await;
    assert_eq!((outcome.summarizer.as_str(), outcome.usage, outcome.supplied), ("client/mine", Some(usage), false));
    assert_eq!((outcome.covered.clone(), outcome.tail_start), (task.task.covered.clone(), task.task.tail_start));
    let view = shown(&setup.test.view(&setup.session).await);
    assert_eq!(view[1], "assistant summary: ## goal - count");
    assert_eq!(view.last().map(String::as_str), Some("user shown: and then?"));
    assert!(setup.script.asked().is_empty(), "nobody else was asked");
    let again = setup.complete(&task, reply(SUMMARY)).await.expect_err("it is done");
    assert_eq!(again.reason, Reason::SummaryTaskNotFound);
}

#[tokio::test]
async fn a_client_gets_the_check_that_the_policy_has() {
    let setup = due_under("gemini-cli@0.26", LONG_WAIT).await;
    let task = setup.leased().await;
    let app = &setup.test.app;
    let check = app.summary_tasks().check(&hold(&task), "I wrote </draft-summary> this", 0).await.expect("held");
    let check = check.expect("Gemini CLI checks its summaries");
    assert_eq!(check.system, task.prompt.system);
    assert!(check.user.contains("u1 was here"), "with the history that it stands for");
    assert!(check.user.contains("<draft-summary>\n> I wrote <\\/draft-summary> this\n</draft-summary>"), "{check:?}");
    assert!(!task.prompt.user.contains("draft-summary"));
    let small = app.summary_tasks().check(&hold(&task), "short", 2_000).await.expect("held").expect("a check");
    assert!(small.user.len() < check.user.len() / 2, "a small window gets less of the history");

    let long = "x".repeat(limits::SUMMARY_BYTES_MAX + 1);
    let stale = LeaseClaim { base_revision: Some(1), ..hold(&task) };
    let lost = LeaseClaim { token: uuid::Uuid::nil().to_string(), ..hold(&task) };
    for (hold, text, window_tokens, reason) in [
        (hold(&task), long.as_str(), 0, Reason::LimitExceeded),
        (hold(&task), "text", -1, Reason::InvalidField),
        (stale, "text", 0, Reason::RevisionMismatch),
        (lost, "text", 0, Reason::SummaryLeaseLost),
    ] {
        let refused = app.summary_tasks().check(&hold, text, window_tokens).await.expect_err("a refusal");
        assert_eq!(refused.reason, reason);
    }

    let setup = due(LONG_WAIT).await;
    let task = setup.leased().await;
    let check = setup.test.app.summary_tasks().check(&hold(&task), SUMMARY, 0).await.expect("held");
    assert_eq!(check, None, "OpenCode has no check");
}

#[tokio::test]
async fn without_a_client_the_chain_goes_on() {
    let mut setup = due(Duration::from_millis(20)).await;
    let outcome = setup.compacted().await;
    assert_eq!((outcome.summarizer.as_str(), outcome.supplied), ("scripted", false));
    assert_eq!(setup.script.asked().len(), 1);
    let late = setup.lease(LeaseRequest { wait: Some(Duration::ZERO), ..LeaseRequest::default() }).await;
    assert!(late.is_none(), "nothing is on offer any more");
}

#[tokio::test]
async fn no_task_is_offered_unless_configured() {
    let test = TestApp::start().await;
    let refused = test.app.summary_tasks().lease(LeaseRequest::default()).await.expect_err("off");
    assert_eq!(refused.reason, Reason::SummaryTasksOff);
}

#[tokio::test]
async fn a_client_that_gives_up_frees_its_slot() {
    let mut setup = due(LONG_WAIT).await;
    let first = setup.leased().await;
    setup.test.app.summary_tasks().release(&hold(&first), Release::Transient).await.expect("let go");
    let second = setup.leased().await;
    assert_eq!(second.task, first.task);
    let zombie = setup.complete(&first, reply("from the dead")).await.expect_err("its time is over");
    assert_eq!(zombie.reason, Reason::SummaryLeaseLost);
    let zombie = setup.test.app.summary_tasks().extend(&hold(&first), None).await.expect_err("its time is over");
    assert_eq!(zombie.reason, Reason::SummaryLeaseLost);
    setup.complete(&second, reply(SUMMARY)).await.expect("accepted");
    assert_eq!(setup.compacted().await.summarizer, "client/mine");
}

#[tokio::test]
async fn a_client_that_does_not_come_back_loses_its_lease_and_what_it_changed() {
    let mut setup = due(LONG_WAIT).await;
    let first = setup.leased().await;
    let edit = NewEdit { instructions: Some("be brief".to_owned()), ..NewEdit::default() };
    setup.test.app.summary_tasks().edit(&hold(&first), edit).await.expect("changed");
    setup.test.app.summary_tasks().extend(&hold(&first), Some(Duration::from_secs(1))).await.expect("held");
    let second = setup.leased().await;
    assert_eq!(second.task, first.task, "what was changed is dropped with the lease");
    let zombie = setup.complete(&first, reply("from the dead")).await.expect_err("its time is over");
    assert_eq!(zombie.reason, Reason::SummaryLeaseLost);
    setup.test.app.summary_tasks().release(&hold(&second), Release::Permanent).await.expect("let go");
    assert_eq!(setup.compacted().await.summarizer, "scripted");
    assert_eq!(setup.script.asked()[0].instructions, "");
}

#[tokio::test]
async fn a_task_outlives_no_daemon_but_is_offered_anew() {
    let Setup { test, script, session, .. } = due(LONG_WAIT).await;
    let setup = Setup { watch: test.watch().await, test, script, session };
    let before = setup.leased().await;
    let Setup { test, script, session, .. } = setup;
    let test = test.kill().await;
    let mut setup = Setup { watch: test.watch().await, test, script, session };
    let after = setup.leased().await;
    assert_eq!((after.task.compaction, after.task.attempt), (before.task.compaction, 2));
    let zombie = setup.complete(&before, reply("from the dead")).await.expect_err("another daemon");
    assert_eq!(zombie.reason, Reason::SummaryLeaseLost);
    setup.complete(&after, reply(SUMMARY)).await.expect("accepted");
    assert_eq!(setup.compacted().await.summarizer, "client/mine");
}

#[tokio::test]
async fn an_invalid_summary_is_refused_and_can_be_written_again() {
    let mut setup = due(LONG_WAIT).await;
    let task = setup.leased().await;
    let stopped = |reason| TaskReply { reason: Some(reason), ..reply(SUMMARY) };
    let cases = [
        (reply("  \n"), "SUMMARY_EMPTY"),
        (stopped(FinishReason::Length), "SUMMARY_TRUNCATED"),
        (stopped(FinishReason::ToolCalls), "SUMMARY_CALLS_TOOLS"),
        (stopped(FinishReason::Error), "SUMMARY_INCOMPLETE"),
        (reply("Error: rate limit exceeded, try again later"), "SUMMARY_IS_NONE"),
        (reply("I'm sorry, but I cannot help with that."), "SUMMARY_DECLINED"),
        (reply("## Goal\n- count"), "SUMMARY_WITHOUT_SUBSTANCE"),
        (reply(&"word ".repeat(20_000)), "NO_GAIN"),
    ];
    for (reply, why) in cases {
        let refused = setup.complete(&task, reply).await.expect_err(why);
        assert_eq!((refused.reason, refused.metadata["failure"].as_str()), (Reason::SummaryRefused, why));
    }
    let too_long = reply(&"w".repeat(longhand::limits::SUMMARY_BYTES_MAX + 1));
    let refused = setup.complete(&task, too_long).await.expect_err("too long");
    assert_eq!(refused.reason, Reason::LimitExceeded);
    let stale = LeaseClaim { base_revision: Some(task.task.base - 1), ..hold(&task) };
    let refused = setup.test.app.summary_tasks().complete(&stale, reply(SUMMARY)).await.expect_err("another revision");
    assert_eq!(refused.reason, Reason::RevisionMismatch);
    assert_eq!(setup.watch.count(EventKind::Compacted), 0, "nothing was written");
    setup.complete(&task, stopped(FinishReason::Stop)).await.expect("accepted");
    assert_eq!(setup.compacted().await.summarizer, "client/mine");
}

#[tokio::test]
async fn a_task_goes_to_one_client_that_asked_for_such() {
    let setup = due(LONG_WAIT).await;
    let other = setup.test.manual_session().await;
    let brief = Some(Duration::from_millis(20));
    let not_mine = [
        LeaseRequest { sessions: vec![other], wait: brief, ..LeaseRequest::default() },
        LeaseRequest { levels: vec![Level::Deep], wait: brief, ..LeaseRequest::default() },
    ];
    // The task is offered from here on.
    let task = setup.leased().await;
    setup.test.app.summary_tasks().release(&hold(&task), Release::Transient).await.expect("let go");
    for request in not_mine {
        assert!(setup.lease(request).await.is_none());
    }
    let mine =
        || LeaseRequest { sessions: vec![setup.session.clone()], levels: vec![Level::Auto], ..LeaseRequest::default() };
    assert!(setup.lease(mine()).await.is_some());
    let second = LeaseRequest { wait: brief, ..mine() };
    assert!(setup.lease(second).await.is_none(), "one client has it");
    for (bad, reason) in [
        (LeaseRequest { sessions: vec!["nobody".to_owned()], ..mine() }, Reason::SessionNotFound),
        (LeaseRequest { wait: Some(Duration::from_secs(121)), ..mine() }, Reason::InvalidField),
        (LeaseRequest { lease: Some(Duration::ZERO), ..mine() }, Reason::InvalidField),
        (LeaseRequest { window_tokens: -1, ..mine() }, Reason::InvalidField),
    ] {
        assert_eq!(setup.test.app.summary_tasks().lease(bad).await.expect_err("a refusal").reason, reason);
    }
}

#[tokio::test]
async fn a_small_model_is_asked_with_less() {
    let setup = due(LONG_WAIT).await;
    let whole = setup.leased().await;
    setup.test.app.summary_tasks().release(&hold(&whole), Release::Transient).await.expect("let go");
    let small = setup.lease(LeaseRequest { window_tokens: 6_500, ..LeaseRequest::default() }).await.expect("a task");
    assert!(small.prompt.user.len() < whole.prompt.user.len(), "{}", small.prompt.user.len());
    assert!(small.prompt.user.contains("left out here"));
}

#[tokio::test]
async fn a_client_changes_the_plan_and_supplies_its_own_words() {
    let mut setup = due(LONG_WAIT).await;
    let task = setup.leased().await;
    let hold = hold(&task);
    let edit = |tail: Option<&str>, retained: Option<&[&str]>| NewEdit {
        tail_start: tail.map(str::to_owned),
        retained: retained.map(|ids| ids.iter().map(|id| (*id).to_owned()).collect()),
        ..NewEdit::default()
    };
    for (bad, reason) in [
        (edit(Some("u1"), None), Reason::BoundaryInvalid),
        (edit(Some("nobody"), None), Reason::MessageNotFound),
        (edit(None, Some(&["u9"])), Reason::BoundaryInvalid),
        (edit(Some("u3"), Some(&["u4"])), Reason::BoundaryInvalid),
        (NewEdit { details_json: Some("{".to_owned()), ..NewEdit::default() }, Reason::InvalidField),
    ] {
        let refused = setup.test.app.summary_tasks().edit(&hold, bad.clone()).await.expect_err("a refusal");
        assert_eq!(refused.reason, reason, "{bad:?}");
    }
    let stale = LeaseClaim { base_revision: Some(0), ..hold.clone() };
    let refused = setup.test.app.summary_tasks().edit(&stale, edit(Some("u4"), None)).await.expect_err("a refusal");
    assert_eq!(refused.reason, Reason::RevisionMismatch);
    let change = NewEdit {
        instructions: Some("dwell on numbers".to_owned()),
        details_json: Some("{\"files\": [\"a.rs\"]}".to_owned()),
        ..edit(Some("u8"), Some(&["u2"]))
    };
    let (changed, prompt) = setup.test.app.summary_tasks().edit(&hold, change).await.expect("changed").answer;
    assert_eq!(changed.input.messages.len(), 14, "u1 to a7");
    assert!(prompt.user.contains("dwell on numbers") && !prompt.user.contains("u8 was here"));
    let own = TaskReply { supplied: true, ..reply("my own words") };
    setup.test.app.summary_tasks().complete(&hold, own).await.expect("accepted");
    let outcome = setup.compacted().await;
    assert!(outcome.supplied);
    let view = setup.test.view(&setup.session).await;
    let lines = shown(&view);
    assert_eq!(
        lines[1..],
        [
            "assistant summary: my own words",
            "user shown: u2 was here and",
            "user shown: u8 was here and",
            "assistant shown: a8 was here and",
            "user shown: u9 was here and",
            "assistant shown: a9 was here and"
        ]
    );
    let id = outcome.summary_message.expect("a summary").to_string();
    let (summary, _, _) = setup.test.app.messages().get(&setup.session, &id).await.expect("the summary");
    assert_eq!(
        (words_of(&summary).as_str(), summary.metadata_json.as_deref()),
        ("my own words", Some("{\"files\": [\"a.rs\"]}"))
    );
}

#[tokio::test]
async fn calls_and_results_stay_together_and_what_is_open_is_never_covered() {
    let script = ScriptedSummarizer::new([]);
    let test = TestApp::with_options(script.clone(), waiting(LONG_WAIT)).await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    let watch = test.watch().await;
    test.append(&session, &turns(1, 3, 1_100)).await;
    test.append(&session, "u4 \"run\"\na4 \"so\" call=c1\nt4 result=c1:2000c\nax4 \"done\"").await;
    let open = conversation("u5 1000c\na5 open\nu6 9000c\na6 900c");
    test.app.messages().append(&session, open, None, None).await.expect("appended");
    let setup = Setup { test, script, session, watch };
    let task = setup.leased().await;
    let edit = |tail: &str, retained: &[&str]| NewEdit {
        tail_start: Some(tail.to_owned()),
        retained: Some(retained.iter().map(|id| (*id).to_owned()).collect()),
        ..NewEdit::default()
    };
    for (tail, retained) in [("t4", &[][..]), ("a6", &[]), ("u5", &["a4"]), ("u5", &["t4"])] {
        let refused = setup.test.app.summary_tasks().edit(&hold(&task), edit(tail, retained)).await;
        assert_eq!(refused.expect_err("a refusal").reason, Reason::BoundaryInvalid, "{tail} {retained:?}");
    }
    let (changed, _) =
        setup.test.app.summary_tasks().edit(&hold(&task), edit("u5", &["a4", "t4"])).await.expect("a pair").answer;
    assert_eq!(changed.retained.len(), 2);
}

#[tokio::test]
async fn a_client_changes_the_plan_and_others_write() {
    let mut setup = due(LONG_WAIT).await;
    let task = setup.leased().await;
    let change = NewEdit {
        tail_start: Some("u6".to_owned()),
        instructions: Some("dwell on numbers".to_owned()),
        details_json: Some("1".to_owned()),
        ..NewEdit::default()
    };
    setup.test.app.summary_tasks().edit(&hold(&task), change).await.expect("changed");
    setup.test.app.summary_tasks().release(&hold(&task), Release::Delegated).await.expect("left");
    let outcome = setup.compacted().await;
    assert_eq!((outcome.summarizer.as_str(), outcome.covered_count, outcome.supplied), ("scripted", 10, false));
    let asked = setup.script.asked();
    assert_eq!((asked[0].messages.len(), asked[0].instructions.as_str()), (10, "dwell on numbers"));
    let id = outcome.summary_message.expect("a summary").to_string();
    let (summary, _, _) = setup.test.app.messages().get(&setup.session, &id).await.expect("the summary");
    assert_eq!(summary.metadata_json.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_cancelled_compaction_takes_its_task_along() {
    let mut setup = due(LONG_WAIT).await;
    let task = setup.leased().await;
    let id = task.task.compaction.to_string();
    setup.test.app.compactions().cancel(&id).await.expect("cancelled");
    setup.watch.wait_for(EventKind::CompactionCancelled).await;
    let late = setup.complete(&task, reply(SUMMARY)).await;
    // Until the worker is notified, the summary is accepted, and has no effect.
    assert!(late.is_ok() || late.is_err_and(|error| error.reason == Reason::SummaryTaskNotFound));
    setup.test.settled().await;
    assert_eq!(setup.watch.count(EventKind::Compacted), 0);
    assert!(setup.test.view(&setup.session).await.covered.is_none());
}

#[tokio::test]
async fn the_protocol_carries_a_task_from_lease_to_summary() {
    let mut setup = due(LONG_WAIT).await;
    let (routes, _health) = longhand::grpc::router(setup.test.longhand.clone()).await;
    let mut client = SummaryTaskServiceClient::new(routes.in_process());
    let request = pb::LeaseSummaryTaskRequest {
        session_ids: vec![setup.session.clone()],
        levels: vec![pb::CompactionLevel::Auto.into()],
        lease_timeout: Some(prost_types::Duration { seconds: 30, nanos: 0 }),
        ..pb::LeaseSummaryTaskRequest::default()
    };
    let leased = soon("a lease", client.lease_summary_task(request)).await.expect("a lease").into_inner();
    let (compaction_id, lease_token) = (leased.task.expect("a task").compaction_id, leased.lease_token);
    assert!(leased.lease_end_time.is_some());
    let extend = pb::ExtendSummaryTaskRequest {
        compaction_id: compaction_id.clone(),
        lease_token: lease_token.clone(),
        lease_timeout: None,
    };
    client.extend_summary_task(extend).await.expect("extended");
    let edit = pb::EditSummaryTaskRequest {
        compaction_id: compaction_id.clone(),
        lease_token: lease_token.clone(),
        tail_start_message_id: Some("u7".to_owned()),
        retained: Some(pb::RetainedMessages { message_ids: vec!["u1".to_owned()] }),
        ..pb::EditSummaryTaskRequest::default()
    };
    let edited = client.edit_summary_task(edit).await.expect("edited").into_inner().task.expect("a task");
    assert_eq!((edited.covered_ranges.len(), edited.retained_message_ids.len()), (1, 1));
    let complete = |text: &str| pb::CompleteSummaryTaskRequest {
        compaction_id: compaction_id.clone(),
        lease_token: lease_token.clone(),
        base_revision: Some(edited.base_revision),
        text: text.to_owned(),
        model: "mine".to_owned(),
        reason: pb::FinishReason::Stop.into(),
        ..pb::CompleteSummaryTaskRequest::default()
    };
    let refused = client.complete_summary_task(complete("")).await.expect_err("empty");
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    let done = client.complete_summary_task(complete(SUMMARY)).await.expect("accepted").into_inner();
    assert_eq!(done.compaction.expect("the compaction").compaction_id, compaction_id);
    assert_eq!(setup.compacted().await.summarizer, "client/mine");
    let fail = pb::FailSummaryTaskRequest { compaction_id: compaction_id.clone(), lease_token, failure: 0 };
    assert_eq!(client.fail_summary_task(fail).await.expect_err("gone").code(), tonic::Code::NotFound);
}
