//! Claims of summaries that the record of what happened contradicts: reported, and followed by the record if the policy
//! requires it.

use crate::support::{Line, ScriptedSummarizer, TestApp, filler, text, turns};
use longhand::app::compactions::{NewCompaction, NewSummary};
use longhand::app::sessions::SessionChange;
use longhand::app::summary_tasks::TaskReply;
use longhand::model::compaction::{CompactionKind, Contradiction, ContradictionKind, Outcome};
use longhand::model::event::{EventBody, EventKind};
use longhand::model::ids::MessageId;
use longhand::model::layout::Placement;
use longhand::model::message::{NewMessage, Role};
use longhand::model::part::{NewPart, PartBody, ResultStatus, ToolCall};
use longhand::scheduler;
use longhand::store::Visibility;
use std::time::Duration;

const CLAIM: &str = "The parser is done and `mix test` passes.";
const HISTORY: &str = "`mix test` failed: `** (KeyError) key :id not found`";

/// A tail of only the last message, so that there is always something to cover.
fn policy(contradictions: &str) -> String {
    let summary = format!(r#"{{"contradictions":"{contradictions}"}}"#);
    format!(
        r#"{{"auto":{{"steps":{{"0":{{"summarize":{{"tail":{{"recent":{{"keep_tokens":10}}}},"summary":{summary}}}}}}}}}}}"#
    )
}

fn message(role: Role, parts: Vec<NewPart>) -> NewMessage {
    NewMessage::sealed(role, parts)
}

/// A run of the tests, and its result.
fn run(call_id: &str, status: ResultStatus, output: &str) -> NewMessage {
    let input_json = r#"{"command":"mix test"}"#.to_owned();
    let call = ToolCall { call_id: call_id.to_owned(), tool: "bash".to_owned(), input_json, ..ToolCall::default() };
    let mut result = crate::support::result(call_id, output);
    if let PartBody::ToolResult(result) = std::sync::Arc::make_mut(&mut result.body) {
        result.status = status;
    }
    message(Role::Assistant, vec![NewPart::new(PartBody::ToolCall(call)), result])
}

/// A session in which the tests fail, and the message that shows it.
async fn failing(test: &TestApp, contradictions: &str) -> (String, MessageId) {
    let session = test.session("pi@1.5", 400_000, 1_000).await;
    let change = SessionChange { policy_override_json: Some(policy(contradictions)), ..SessionChange::default() };
    test.app.sessions().update(&session, change).await.expect("a policy");
    let fails = run("c1", ResultStatus::Error, "** (KeyError) key :id not found\n9 tests, 3 failures");
    let messages = vec![message(Role::User, vec![text(&filler("write the parser", 400))]), fails];
    let appended = test.app.messages().append(&session, messages, None, None).await.expect("appended");
    test.append(&session, &turns(1, 2, 3_000)).await;
    let shows = MessageId(appended.ids[1]);
    (session, shows)
}

/// The stored outcome, which must equal that of the event, and the active summary.
async fn compacted(test: &TestApp, session: &str) -> (Outcome, String) {
    let mut watch = test.watch().await;
    let event = watch.wait_for(EventKind::Compacted).await;
    let EventBody::Compacted { compaction, outcome, .. } = event.body else { panic!("{event:?}") };
    let stored = test.app.compactions().get(&compaction.to_string()).await.expect("a compaction");
    assert_eq!(stored.outcome.as_ref(), Some(&*outcome));
    let key = test.longhand.store().sessions().find(&Visibility::default(), session).await.expect("the session");
    let source = test.longhand.store().views().source(key, None).await.expect("the view");
    let summary =
        source.messages.iter().find(|source| source.placement == Some(Placement::Summary)).expect("a summary");
    (*outcome, crate::support::words_of(&summary.message))
}

fn contradiction(message: MessageId) -> Contradiction {
    let (claim, history) = (CLAIM.to_owned(), HISTORY.to_owned());
    Contradiction { kind: ContradictionKind::Check, claim, history, message: Some(message) }
}

#[tokio::test]
async fn a_models_claim_that_the_history_contradicts_is_reported_and_by_policy_followed_by_the_record() {
    let recorded = format!("{CLAIM}\n\n# Record of what happened\n- ");
    for (policy, begins, has_record) in [("report", CLAIM, false), ("correct", &recorded, true)] {
        let test = TestApp::with(ScriptedSummarizer::new([Line::Say(CLAIM.to_owned())])).await;
        let (session, shows) = failing(&test, policy).await;
        let wanted = NewCompaction::of_kind(CompactionKind::Summary);
        test.app.compactions().start(&session, wanted).await.expect("asked");
        let (outcome, summary) = compacted(&test, &session).await;
        assert_eq!(outcome.contradictions, [contradiction(shows)], "{policy}");
        assert!(summary.starts_with(begins), "{policy}: {summary}");
        assert_eq!(summary.contains(&format!("\n- {HISTORY}")), has_record, "{policy}: {summary}");
        let counted = test.app.daemon().info().await.expect("the state").statistics.contradictions;
        assert_eq!(counted, [(ContradictionKind::Check, 1)], "{policy}");
    }
    // A true claim is left unchanged.
    let test = TestApp::with(ScriptedSummarizer::new([Line::Say(CLAIM.to_owned())])).await;
    let (session, _) = failing(&test, "correct").await;
    let passes = vec![run("c2", ResultStatus::Completed, "9 tests, 0 failures")];
    test.app.messages().append(&session, passes, None, None).await.expect("appended");
    test.append(&session, &turns(3, 4, 3_000)).await;
    test.app.compactions().start(&session, NewCompaction::of_kind(CompactionKind::Summary)).await.expect("asked");
    let (outcome, summary) = compacted(&test, &session).await;
    assert!(outcome.contradictions.is_empty() && summary.starts_with(CLAIM), "{outcome:?} {summary}");
    assert!(summary.contains("\n- `mix test` passed (`9 tests, 0 failures`)"), "{summary}");
}

#[tokio::test]
async fn a_clients_claims_are_held_against_the_history_too() {
    let words = format!("{}\n\n{CLAIM}", crate::provider::fake::summary("words"));
    for supplied in [false, true] {
        let options = scheduler::Options { client_wait: Duration::from_secs(60), ..scheduler::Options::default() };
        let test = TestApp::with_options(ScriptedSummarizer::new([]), options).await;
        let (session, shows) = failing(&test, "correct").await;
        let wanted = NewCompaction::of_kind(CompactionKind::Summary);
        test.app.compactions().start(&session, wanted).await.expect("asked");
        test.complete_task(TaskReply { text: words.clone(), supplied, ..TaskReply::default() }).await;
        let (outcome, summary) = compacted(&test, &session).await;
        assert_eq!(outcome.contradictions, [contradiction(shows)]);
        assert!(summary.starts_with(&words));
        assert!(summary.contains("# Record of what happened"), "{summary}");
    }
    // A supplied summary is reported, and stays as it is; the record is a part of its own.
    let test = TestApp::start().await;
    let (session, shows) = failing(&test, "correct").await;
    let new = NewSummary { text: words.clone(), ..NewSummary::default() };
    let (supplied, _) = test.app.compactions().supply_summary(&session, new).await.expect("supplied").answer;
    let (outcome, summary) = compacted(&test, &session).await;
    assert_eq!(supplied.outcome, Some(outcome.clone()));
    assert_eq!(summary.split_once("# Record of what happened\n").map(|(text, _)| text), Some(words.as_str()));
    assert_eq!(outcome.contradictions, [contradiction(shows)]);
}
