//! Quotas of tenants: sessions, appends by the second, event streams.

use crate::support::{TestApp, conversation};
use longhand::app::access::Access;
use longhand::app::erase::{EraseRequest, EraseTarget};
use longhand::app::events::SubscribeRequest;
use longhand::app::quotas::Quota;
use longhand::app::sessions::{ForkPoint, NewSession};
use longhand::app::{Caller, Error, Reason};
use longhand::limits::ERASE_STEP_REVISIONS;
use longhand::store::ContentQuota;
use std::collections::HashMap;

pub(super) fn of(test: &TestApp, tenant: &str) -> Caller {
    let access = Access { principal: "agent".into(), tenant: tenant.into(), ..Access::owner() };
    test.longhand.caller(access, String::new(), None).expect("a caller")
}

async fn create(app: &Caller, client_id: &str) -> Result<(String, bool), Error> {
    let new = NewSession { client_id: Some(client_id.to_owned()), ..NewSession::default() };
    app.sessions().create(new).await.map(|created| (created.0.session.id.to_string(), created.1))
}

async fn append(app: &Caller, session: &str) -> Result<(), Error> {
    app.messages().append(session, conversation("u \"a word\""), None, None).await.map(drop)
}

pub(super) fn refused<T>(answer: Result<T, Error>) -> (Reason, String) {
    let error = answer.err().expect("a refusal");
    (error.reason, error.metadata["quota"].clone())
}

#[tokio::test]
async fn a_tenant_has_as_much_as_its_quotas_and_others_have_more() {
    let test = TestApp::start().await;
    let (acme, other) = (of(&test, "acme"), of(&test, "other"));
    // A session from before the quotas counts.
    let (first, _) = create(&acme, "first").await.expect("a session");
    let content = ContentQuota { sessions: Some(3), ..ContentQuota::default() };
    let quota = Quota { appends_per_second: Some(2), streams: Some(1), content };
    test.longhand.hold_to_quotas(HashMap::from([("acme".to_owned(), quota)])).await.expect("quotas");
    create(&acme, "second").await.expect("a session");
    let fork = acme.sessions().fork(&first, ForkPoint::default(), Some("third".to_owned()), String::new()).await;
    fork.expect("a fork");
    assert_eq!(refused(create(&acme, "fourth").await), (Reason::QuotaExceeded, "sessions".to_owned()));
    let fork = acme.sessions().fork(&first, ForkPoint::default(), None, String::new()).await;
    assert_eq!(refused(fork), (Reason::QuotaExceeded, "sessions".to_owned()));
    // What exists is found, and a refused request counts nothing.
    assert_eq!(create(&acme, "first").await.expect("it is there"), (first.clone(), true));
    for number in 0..5 {
        create(&other, &format!("s{number}")).await.expect("another tenant's session");
    }

    append(&acme, &first).await.expect("the first");
    append(&acme, &first).await.expect("the second");
    let revision = acme.sessions().get(&first).await.expect("the session").session.revision;
    assert_eq!(refused(append(&acme, &first).await), (Reason::RateLimited, "appends_per_second".to_owned()));
    assert_eq!(acme.sessions().get(&first).await.expect("the session").session.revision, revision);
    test.clock.advance(500);
    append(&acme, &first).await.expect("half a second later");
    assert_eq!(refused(append(&acme, &first).await).0, Reason::RateLimited);
    for _ in 0..5 {
        append(&other, "s0").await.expect("another tenant's append");
    }

    let stream = acme.events().subscribe(SubscribeRequest::default()).await.expect("a stream");
    let another = acme.events().subscribe(SubscribeRequest::default()).await;
    assert_eq!(refused(another), (Reason::QuotaExceeded, "streams".to_owned()));
    drop(stream);
    acme.events().subscribe(SubscribeRequest::default()).await.expect("a stream in its place");
}

#[tokio::test]
async fn a_session_that_is_erased_in_several_steps_is_one_session_less() {
    let test = TestApp::start().await;
    let acme = of(&test, "acme");
    let content = ContentQuota { sessions: Some(2), ..ContentQuota::default() };
    test.longhand
        .hold_to_quotas(HashMap::from([("acme".to_owned(), Quota { content, ..Quota::default() })]))
        .await
        .expect("quotas");
    let (first, _) = create(&acme, "first").await.expect("a session");
    create(&acme, "second").await.expect("a session");
    let many = conversation(&"u \"a word\"\n".repeat(50));
    for _ in 0..ERASE_STEP_REVISIONS / 10 {
        acme.messages().append(&first, many.clone(), None, None).await.expect("appended");
    }
    let (target, reason) = (EraseTarget::Session, "it is over".to_owned());
    let request = EraseRequest { target, reason, dry_run: false, expected_revision: None };
    acme.content().erase(&first, request).await.expect("erased");
    create(&acme, "third").await.expect("a session in its place");
    assert_eq!(refused(create(&acme, "fourth").await), (Reason::QuotaExceeded, "sessions".to_owned()));
}
