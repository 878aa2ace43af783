//! Rows of runs, prompts and questions that something altered.

use super::{SECOND_MS, acquire, answer, ended, newest, pass, question, queue, submit};
use crate::support::{TestApp, conversation};
use longhand::app::append::NewDraftText;
use longhand::app::approvals::Question;
use longhand::app::prompts::{Delivery, PromptChoice};
use longhand::app::runs::CancelRun;
use longhand::model::draft::DraftKind;
use longhand::model::run::RunEndReason;

#[tokio::test]
async fn what_cannot_be_ended_keeps_nothing_else_from_its_time() {
    let test = TestApp::start().await;
    let damaged = test.manual_session().await;
    acquire(&test.app, &damaged).await;
    let in_run = test.app.clone().in_run(1);
    in_run.messages().append(&damaged, conversation("a1 open"), None, None).await.expect("appended");
    let words = NewDraftText { kind: DraftKind::Text, part: None, client_id: None, offset: 0, delta: "x".to_owned() };
    in_run.messages().append_draft(&damaged, "a1", words).await.expect("the words are taken");
    drop(in_run);
    let directory = test.stop().await;
    let test = TestApp::altered(directory.path(), "update draft set kind = 99").await;
    let whole = test.manual_session().await;
    acquire(&test.app, &whole).await;
    let limited = Question { default_choice: Some("no".to_owned()), timeout_ms: Some(10 * SECOND_MS), ..question() };
    let (asked, _) = test.app.approvals().request(&whole, limited).await.expect("asked").answer;
    pass(&test, 11 * SECOND_MS).await;
    assert_eq!(ended(&newest(&test, &whole).await), Some(RunEndReason::Lost));
    let asked = test.app.approvals().get(&whole, &asked.id.to_string()).await.expect("the question");
    assert!(asked.end.is_some(), "the default holds");
    assert_eq!(ended(&newest(&test, &damaged).await), None, "its words cannot be read");
}

#[tokio::test]
async fn rows_that_do_not_follow_from_their_events_are_found() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    acquire(&test.app, &session).await;
    for words in ["taken", "withdrawn", "waits"] {
        submit(&test.app, &session, words, Delivery::Queue).await;
    }
    test.app.prompts().take(&session, 1, PromptChoice::First).await.expect("taken");
    let waiting = queue(&test, &session).await;
    test.app.prompts().withdraw(&session, &waiting[0]).await.expect("withdrawn");
    let asked = test.app.approvals().request(&session, question()).await.expect("asked").answer.0;
    test.app.approvals().answer(&session, &asked.id.to_string(), answer("no")).await.expect("answered");
    test.app.approvals().request(&session, question()).await.expect("asked");
    test.app.runs().cancel(&session, CancelRun::default()).await.expect("asked to stop");
    test.app.runs().release(&session, 1, None).await.expect("released");
    acquire(&test.app, &session).await;
    assert_eq!(test.findings().await, []);
    let closed = test.stop().await;
    let ended = "end_reason = 1, end_revision = 5, end_time = 5";
    for sql in [
        "update run set actor = 'eve' where epoch = 1".to_owned(),
        "update run set end_reason = 1 where epoch = 1".to_owned(),
        "update run set end_time = end_time + 1 where epoch = 1".to_owned(),
        "update run set cancel_revision = 5 where epoch = 2".to_owned(),
        format!("update run set lease_until = null, {ended} where epoch = 2"),
        "insert into run select session_id, 9, x'00', actor, 1, null, 3, 3, null, 1, 4, 4, '' from run limit 1"
            .to_owned(),
        "update prompt set metadata_json = '{}' where id = 1".to_owned(),
        "update prompt set actor = 'eve' where id = 3".to_owned(),
        "update prompt set delivery = 2 where id = 3".to_owned(),
        "update prompt set end_epoch = null where id = 1".to_owned(),
        "update prompt set end_epoch = 1 where id = 2".to_owned(),
        "update prompt set rank = null, end_revision = 5 where id = 3".to_owned(),
        "delete from prompt where id = 3".to_owned(),
        "update approval set salt = x'00' where id = 1".to_owned(),
        "update approval set end_reason = 2 where id = 1".to_owned(),
        "update approval set end_actor = 'eve' where id = 1".to_owned(),
        "update approval set answer = (select question from approval limit 1) where id = 1".to_owned(),
        format!("update approval set {ended}, answer_salt = x'00', answer = x'00' where id = 2"),
        "update approval set epoch = 2 where id = 2".to_owned(),
    ] {
        let altered = TestApp::altered(closed.path(), &sql).await;
        assert!(!altered.findings().await.is_empty(), "{sql}");
    }
}
