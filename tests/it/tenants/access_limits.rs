//! Access tokens have a bound in each tenant, which only those count against that are current.

use super::quotas::of;
use crate::support::TestApp;
use futures::future::join_all;
use longhand::app::access_tokens::NewAccessToken;
use longhand::app::{Caller, Error, Reason};
use longhand::limits;
use longhand::model::access::{AccessToken, Scope, Scopes};
use longhand::model::time::Timestamp;

fn new(expire_time: Option<Timestamp>) -> NewAccessToken {
    let scopes: Scopes = [Scope::Read].into_iter().collect();
    NewAccessToken { principal: "agent".to_owned(), scopes, expire_time, ..NewAccessToken::default() }
}

async fn create(app: &Caller, expire_time: Option<Timestamp>) -> Result<AccessToken, Error> {
    app.access_tokens().create(new(expire_time)).await.map(|(token, _)| token)
}

/// Makes as many tokens as a tenant may have.
async fn fill(app: &Caller, expire_time: Option<Timestamp>) -> Vec<AccessToken> {
    let most = usize::try_from(limits::ACCESS_TOKENS_MAX).expect("a number");
    let made = join_all((0..most).map(|_| create(app, expire_time))).await;
    made.into_iter().collect::<Result<_, _>>().expect("there is room")
}

fn limit_of<T>(answer: Result<T, Error>) -> String {
    let refused = answer.err().expect("one too many");
    assert_eq!(refused.reason, Reason::LimitExceeded, "{refused}");
    refused.metadata["what"].clone()
}

async fn revoke(app: &Caller, tokens: &[AccessToken]) {
    for revoked in
        join_all(tokens.iter().map(async |token| app.access_tokens().revoke(&token.id.to_string()).await)).await
    {
        revoked.expect("revoked");
    }
}

async fn login(app: &Caller, test: &TestApp) -> Result<(), Error> {
    let (secret, _) = app.access_tokens().create_console_link(NewAccessToken::default(), None).await?;
    test.longhand.open_console(&secret, None).await.map(drop)
}

#[tokio::test]
async fn a_tenant_s_tokens_take_no_room_of_others() {
    let test = TestApp::start().await;
    let (acme, other) = (of(&test, "acme"), of(&test, "other"));
    let made = fill(&acme, None).await;
    assert_eq!(limit_of(create(&acme, None).await), "access tokens");
    create(&other, None).await.expect("another tenant has room of its own");
    test.app.access_tokens().create(new(None)).await.expect("the operator has room");
    let of_acme = NewAccessToken { tenant: Some("acme".to_owned()), ..new(None) };
    test.app.access_tokens().create(of_acme).await.expect("the operator has room in the full tenant");
    login(&acme, &test).await.expect("the console has room of its own");
    // Tokens that ended make room, at once.
    revoke(&acme, &made[..2]).await;
    create(&acme, None).await.expect("there is room again");
}

#[tokio::test]
async fn tokens_that_ended_do_not_count_and_do_not_stay_for_ever() {
    let test = TestApp::start().await;
    let acme = of(&test, "acme");
    let soon = Timestamp(test.clock.now().0 + 3_600_000_000);
    let expired = fill(&acme, Some(soon)).await;
    assert_eq!(limit_of(create(&acme, None).await), "access tokens");
    test.clock.advance(3_601_000);
    let revoked = fill(&acme, None).await;
    revoke(&acme, &revoked).await;
    let current = create(&acme, None).await.expect("all others ended");
    let listed = acme.access_tokens().list().await.expect("a list");
    let kept = usize::try_from(limits::ACCESS_TOKENS_ENDED_MAX).expect("a number");
    assert_eq!(listed.len(), kept + 1);
    assert!(listed.iter().any(|token| token.id == current.id));
    assert!(listed.iter().all(|token| token.id != expired[0].id), "those that ended first went first");
    assert!(listed.iter().filter(|token| token.revoke_time.is_some()).count() == kept);
}

#[tokio::test]
async fn logins_at_the_console_take_no_room_of_tokens() {
    let test = TestApp::start().await;
    let acme = of(&test, "acme");
    for _ in 0..limits::CONSOLE_SESSIONS_MAX {
        login(&acme, &test).await.expect("a login");
    }
    assert_eq!(limit_of(login(&acme, &test).await), "console sessions");
    create(&acme, None).await.expect("a token");
    login(&of(&test, "other"), &test).await.expect("another tenant's login");
    // A login that ended makes room.
    test.clock.advance(limits::CONSOLE_SESSION_SECONDS_DEFAULT * 1_000 + 1);
    login(&acme, &test).await.expect("the others ended");
}
