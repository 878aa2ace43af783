//! What quotas count: what a call has, whatever call it is, and only what is there.

use super::quotas::{of, refused};
use crate::support::{TestApp, conversation, text, turns};
use longhand::app::compactions::NewSummary;
use longhand::app::erase::{EraseRequest, EraseTarget};
use longhand::app::prompts::NewPrompt;
use longhand::app::quotas::Quota;
use longhand::app::sessions::NewSession;
use longhand::app::{Caller, Error, Reason};
use longhand::store::ContentQuota;
use std::collections::HashMap;

async fn hold(test: &TestApp, quota: Quota) {
    test.longhand.hold_to_quotas(HashMap::from([("acme".to_owned(), quota)])).await.expect("quotas");
}

fn of_sessions(count: i64) -> Quota {
    let content = ContentQuota { sessions: Some(count), ..ContentQuota::default() };
    Quota { content, ..Quota::default() }
}

async fn create(app: &Caller, client_id: &str) -> Result<String, Error> {
    let new = NewSession { client_id: Some(client_id.to_owned()), ..NewSession::default() };
    app.sessions().create(new).await.map(|created| created.0.session.id.to_string())
}

fn too_fast() -> (Reason, String) {
    (Reason::RateLimited, "appends_per_second".to_owned())
}

#[tokio::test]
async fn an_append_counts_as_its_messages() {
    let test = TestApp::start().await;
    let acme = of(&test, "acme");
    let session = create(&acme, "s").await.expect("a session");
    hold(&test, Quota { appends_per_second: Some(2), ..Quota::default() }).await;
    let batch = conversation(&turns(1, 5, 10));
    acme.messages().append(&session, batch, None, None).await.expect("it comes in time");
    let one = || acme.messages().append(&session, conversation("u \"more\""), None, None);
    for _ in 0..4 {
        assert_eq!(refused(one().await), too_fast());
        test.clock.advance(1_000);
    }
    test.clock.advance(500);
    one().await.expect("ten were paid for, and this one");
    assert_eq!(refused(one().await), too_fast());
}

#[tokio::test]
async fn edits_summaries_and_prompts_count_as_appends() {
    let test = TestApp::start().await;
    let acme = of(&test, "acme");
    let session = create(&acme, "s").await.expect("a session");
    acme.messages().append(&session, conversation("u1 \"a\"\na1 \"b\"\nu2 \"c\""), None, None).await.expect("appended");
    hold(&test, Quota { appends_per_second: Some(1), ..Quota::default() }).await;
    let summary = || NewSummary { text: "a summary".to_owned(), tail_start: "u2".to_owned(), ..NewSummary::default() };
    let prompt = || NewPrompt::from_parts(vec![text("a prompt")]);
    let words = [text("other words")];
    acme.messages().edit(&session, "u1", &words, None).await.expect("the first");
    assert_eq!(refused(acme.compactions().supply_summary(&session, summary()).await), too_fast());
    assert_eq!(refused(acme.prompts().submit(&session, prompt()).await), too_fast());
    test.clock.advance(1_000);
    acme.compactions().supply_summary(&session, summary()).await.expect("a second later");
    assert_eq!(refused(acme.messages().edit(&session, "u2", &words, None).await), too_fast());
    test.clock.advance(1_000);
    acme.prompts().submit(&session, prompt()).await.expect("a second later");
    assert_eq!(refused(acme.prompts().submit(&session, prompt()).await), too_fast());
}

#[tokio::test]
async fn a_supplied_summary_needs_room() {
    let test = TestApp::start().await;
    let acme = of(&test, "acme");
    let session = create(&acme, "s").await.expect("a session");
    acme.messages().append(&session, conversation("u1 \"a\"\na1 \"b\"\nu2 \"c\""), None, None).await.expect("appended");
    let content = ContentQuota { bytes: Some(1_000), ..ContentQuota::default() };
    hold(&test, Quota { content, ..Quota::default() }).await;
    let summary = |words: String| NewSummary { text: words, tail_start: "u2".to_owned(), ..NewSummary::default() };
    let revision = acme.sessions().get(&session).await.expect("the session").session.revision;
    let full = (Reason::QuotaExceeded, "bytes".to_owned());
    assert_eq!(refused(acme.compactions().supply_summary(&session, summary("x".repeat(2_000))).await), full);
    assert_eq!(acme.sessions().get(&session).await.expect("the session").session.revision, revision);
    acme.compactions().supply_summary(&session, summary("short".to_owned())).await.expect("there is room");
}

#[tokio::test]
async fn erased_sessions_do_not_count() {
    let test = TestApp::start().await;
    let acme = of(&test, "acme");
    let first = create(&acme, "first").await.expect("a session");
    hold(&test, of_sessions(2)).await;
    let second = create(&acme, "second").await.expect("a session");
    let full = (Reason::QuotaExceeded, "sessions".to_owned());
    assert_eq!(refused(create(&acme, "third").await), full);
    let erase = async |session: &str| {
        let (target, reason) = (EraseTarget::Session, "not needed".to_owned());
        let request = EraseRequest { target, reason, dry_run: false, expected_revision: None };
        acme.content().erase(session, request).await.expect("erased");
    };
    erase(&first).await;
    let third = create(&acme, "third").await.expect("there is room");
    assert_eq!(refused(create(&acme, "fourth").await), full);
    // Again changes nothing, and a restart counts the same.
    erase(&first).await;
    assert_eq!(refused(create(&acme, "fourth").await), full);
    erase(&second).await;
    drop(acme);
    let test = test.restart().await;
    let acme = of(&test, "acme");
    hold(&test, of_sessions(2)).await;
    create(&acme, "fourth").await.expect("one was erased before the start");
    assert_eq!(refused(create(&acme, "fifth").await), full);
    assert_eq!(create(&acme, "third").await.expect("it is there"), third);
}
