//! Quotas of tenants that the store keeps: bytes of content, and what requests to models use in a day.

use super::quotas::{of, refused};
use crate::support::{TestApp, conversation, text, turns, window};
use futures::future::{BoxFuture, FutureExt as _};
use longhand::app::access::Access;
use longhand::app::append::{AppendAnswer, AppendRequest, NewDraftText};
use longhand::app::compactions::NewCompaction;
use longhand::app::quotas::Quota;
use longhand::app::sessions::{ForkPoint, NewSession, SessionChange};
use longhand::app::views::ViewRequest;
use longhand::app::{Caller, Error, Reason, RequestKey};
use longhand::model::compaction::CompactionKind;
use longhand::model::draft::DraftKind;
use longhand::model::usage::Usage;
use longhand::policy::summary::{SummaryInput, SummaryOutput};
use longhand::store::ContentQuota;
use longhand::summarizer::{self, Observer, RequestRecord, Summarizer};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

async fn hold(test: &TestApp, content: ContentQuota) {
    let quota = Quota { content, ..Quota::default() };
    test.longhand.hold_to_quotas(HashMap::from([("acme".to_owned(), quota)])).await.expect("quotas");
}

/// What `acme` uses of a quota, as operators see it.
async fn used(test: &TestApp, quota: &str) -> i64 {
    let info = test.app.daemon().describe().await.expect("the daemon").info.expect("figures for an operator");
    let found = info.quota_uses.iter().find(|of| of.tenant == "acme" && of.quota == quota);
    found.unwrap_or_else(|| panic!("no use of {quota}")).used
}

async fn create(app: &Caller) -> String {
    let new = NewSession { preset: "opencode@seed".to_owned(), window: window(60_000, 1_000), ..NewSession::default() };
    app.sessions().create(new).await.expect("a session").answer.0.session.id.to_string()
}

async fn append(app: &Caller, session: &str, words: &str) -> Result<AppendAnswer, Error> {
    app.messages().append(session, conversation(words), None, None).await.map(|appended| appended.answer)
}

#[tokio::test]
async fn content_beyond_the_quota_is_refused_before_anything_is_written() {
    let test = TestApp::start().await;
    let (acme, other) = (of(&test, "acme"), of(&test, "other"));
    let session = create(&acme).await;
    append(&acme, &session, "u1 3000c\na1 open").await.expect("before the quotas");
    let fork = acme.sessions().fork(&session, ForkPoint::default(), None, String::new()).await.expect("a fork").answer;
    let fork = fork.0.session.id.to_string();
    append(&acme, &fork, "u2 1000c").await.expect("in the fork");
    let quota = ContentQuota { bytes: Some(10_000), ..ContentQuota::default() };
    hold(&test, quota).await;
    let before = used(&test, "bytes").await;
    assert!((4_000..4_200).contains(&before), "{before}: what the fork inherits counts once");

    let again = || {
        let access = Access { principal: "agent".into(), tenant: "acme".into(), ..Access::owner() };
        let key = RequestKey { id: "again".to_owned(), payload_hash: [7; 32] };
        test.longhand.caller(access, String::new(), Some(key)).expect("a caller")
    };
    let first = append(&again(), &fork, "u3 5000c").await.expect("there is room");
    let now = used(&test, "bytes").await;
    assert!((before + 5_000..before + 5_100).contains(&now), "{before} and {now}");
    let revision = acme.sessions().get(&session).await.expect("the session").session.revision;
    let full = (Reason::QuotaExceeded, "bytes".to_owned());
    assert_eq!(refused(append(&acme, &session, "u4 2000c").await), full);
    let long = "x".repeat(2_000);
    assert_eq!(refused(acme.messages().edit(&session, "u1", &[text(&long)], None).await), full);
    let draft = |delta: &str| NewDraftText {
        part: None,
        client_id: None,
        kind: DraftKind::Text,
        offset: 0,
        delta: delta.to_owned(),
    };
    assert_eq!(refused(acme.messages().append_draft(&session, "a1", draft(&long)).await), full);
    let metadata_json = format!("{{\"note\": \"{long}\"}}");
    let new = NewSession { metadata_json: Some(metadata_json.clone()), ..NewSession::default() };
    assert_eq!(refused(acme.sessions().create(new).await), full);
    let change = SessionChange { metadata_json: Some(metadata_json), ..SessionChange::default() };
    assert_eq!(refused(acme.sessions().update(&session, change).await), full);
    let metadata_json = Some(format!("{{\"note\": \"{}\"}}", "x".repeat(600)));
    let both = AppendRequest { messages: conversation("u4 600c"), metadata_json, ..AppendRequest::default() };
    assert_eq!(refused(acme.messages().append_with(&session, both).await), full, "they count together");
    assert_eq!(acme.sessions().get(&session).await.expect("the session").session.revision, revision);
    assert_eq!(used(&test, "bytes").await, now, "what was refused takes nothing");
    let repeated = append(&again(), &fork, "u3 5000c").await.expect("the earlier answer");
    assert_eq!((repeated.ids, repeated.revision), (first.ids, first.revision));
    append(&other, &create(&other).await, "u1 9000c\nu2 9000c").await.expect("another tenant's");
    acme.messages().append_draft(&session, "a1", draft("some words")).await.expect("there is room");
    append(&acme, &session, "u5 100c").await.expect("there is room");
    let before = used(&test, "bytes").await;
    let title = Some("a title".to_owned());
    let titled = AppendRequest { messages: conversation("u7 100c"), title, ..AppendRequest::default() };
    acme.messages().append_with(&session, titled).await.expect("there is room");
    let now = used(&test, "bytes").await;
    assert!((before + 107..before + 200).contains(&now), "{before} and {now}: the title counts");

    let before = used(&test, "bytes").await;
    drop((acme, other));
    let test = test.restart().await;
    hold(&test, quota).await;
    assert_eq!(used(&test, "bytes").await, before, "the store has the same figure");
    assert_eq!(refused(append(&of(&test, "acme"), &session, "u6 2000c").await), full);
}

/// A summarizer whose requests take 700 tokens and half a dollar.
#[derive(Default)]
struct Paid {
    asked: AtomicUsize,
}

impl Summarizer for Paid {
    fn name(&self) -> &str {
        "paid"
    }

    fn summarize<'a>(
        &'a self,
        _: &'a SummaryInput,
        observer: &'a dyn Observer,
    ) -> BoxFuture<'a, Result<SummaryOutput, summarizer::Error>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        observer.on_request(&RequestRecord {
            summarizer: "paid".to_owned(),
            model: "model".to_owned(),
            request_hash: [0; 32],
            reply_hash: [0; 32],
            usage: Some(Usage { input: 600, output: 100, cost_usd: Some(0.5), ..Usage::default() }),
            duration_ms: 1,
            failure: None,
            texts: None,
        });
        async { Ok(SummaryOutput::new("what was said", "paid")) }.boxed()
    }
}

/// Compacts a session after more turns; returns the author of the summary.
async fn author(test: &TestApp, app: &Caller, session: &str, from: usize) -> String {
    append(app, session, &turns(from, from + 7, 2_000)).await.expect("turns");
    app.compactions().start(session, NewCompaction::of_kind(CompactionKind::Summary)).await.expect("a compaction");
    test.settled().await;
    let view = app.views().get(session, ViewRequest::default()).await.expect("a view");
    assert!(view.over_window.is_none(), "it fits");
    let newest = app.compactions().list(session, 1, "").await.expect("compactions").0.remove(0);
    newest.outcome.unwrap_or_else(|| panic!("it failed: {:?}", newest.failure)).summarizer
}

#[tokio::test]
async fn over_the_quota_of_requests_the_built_in_summarizer_writes() {
    let tokens = ContentQuota { summary_tokens: Some(1_000), ..ContentQuota::default() };
    let cost = ContentQuota { summary_cost_micros: Some(1_000_000), ..ContentQuota::default() };
    for (quota, name, spent) in
        [(tokens, "summary_tokens_per_day", 1_400), (cost, "summary_micro_usd_per_day", 1_000_000)]
    {
        let paid = Arc::new(Paid::default());
        let asked = || paid.asked.load(Ordering::Relaxed);
        let test = TestApp::with(paid.clone()).await;
        let (acme, other) = (of(&test, "acme"), of(&test, "other"));
        hold(&test, quota).await;
        let (session, theirs) = (create(&acme).await, create(&other).await);
        for from in [1, 11] {
            assert_eq!(author(&test, &acme, &session, from).await, "paid");
        }
        assert_eq!((asked(), used(&test, name).await), (2, spent));
        assert_eq!(author(&test, &acme, &session, 21).await, "extractive");
        assert_eq!((asked(), used(&test, name).await), (2, spent), "no model was asked");
        assert_eq!(author(&test, &other, &theirs, 1).await, "paid");

        drop((acme, other));
        let test = test.restart().await;
        hold(&test, quota).await;
        let acme = of(&test, "acme");
        assert_eq!(used(&test, name).await, spent, "the store has the same figure");
        assert_eq!((author(&test, &acme, &session, 31).await, asked()), ("extractive".to_owned(), 3));
        test.clock.advance(24 * 3_600 * 1_000);
        assert_eq!((author(&test, &acme, &session, 41).await, asked()), ("paid".to_owned(), 4));
        assert_eq!(used(&test, name).await, spent / 2);
    }
}
