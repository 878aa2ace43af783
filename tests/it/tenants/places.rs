//! Page tokens are sealed: they tell nothing of the numbers of rows behind them, and only those that were given lead
//! anywhere.

use super::quotas::of;
use crate::support::{TestApp, conversation, text};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use longhand::app::append::ListMessages;
use longhand::app::compactions::NewSummary;
use longhand::app::prompts::NewPrompt;
use longhand::app::search::SearchRequest;
use longhand::app::session_list::ListSessions;
use longhand::app::sessions::NewSession;
use longhand::app::{Caller, Error, Reason};

const LISTS: [&str; 6] = ["sessions", "messages", "prompts", "compactions", "expanded", "search"];

/// A session with two of everything.
async fn create(app: &Caller) -> String {
    let session =
        app.sessions().create(NewSession::default()).await.expect("a session").answer.0.session.id.to_string();
    app.messages()
        .append(&session, conversation("u1 \"words\"\nu2 \"words\"\nu3 \"words\""), None, None)
        .await
        .expect("appended");
    for number in 3..5 {
        let tail_start = format!("u{number}");
        app.messages().append(&session, conversation(&format!("u{}", number + 1)), None, None).await.expect("appended");
        let new = NewSummary { text: "a summary".to_owned(), tail_start, ..NewSummary::default() };
        app.compactions().supply_summary(&session, new).await.expect("a summary");
        app.prompts().submit(&session, NewPrompt::from_parts(vec![text("a prompt")])).await.expect("it waits");
    }
    session
}

/// The token of the page behind a page of one.
async fn next(app: &Caller, list: &str, session: &str, token: &str) -> Result<String, Error> {
    let page_token = token.to_owned();
    Ok(match list {
        "sessions" => {
            let list = ListSessions { page_size: 1, page_token, ..ListSessions::default() };
            app.sessions().list(&list).await?.1
        }
        "messages" => {
            let list = ListMessages { page_size: 1, page_token, ..ListMessages::default() };
            app.messages().list(session, list).await?.next_page_token
        }
        "prompts" => app.prompts().list(session, true, 1, token).await?.1,
        "compactions" => app.compactions().list(session, 1, token).await?.1,
        "expanded" => {
            let newest = app.compactions().list(session, 1, "").await?.0[0].id.to_string();
            app.messages().expand(session, &newest, 1, token).await?.next_page_token
        }
        "search" => {
            let (query, wait) = ("words".to_owned(), std::time::Duration::from_secs(60));
            let request = SearchRequest { query, page_size: 1, page_token, wait, ..SearchRequest::default() };
            app.history().search(&request).await?.next_page_token
        }
        other => panic!("there is no list of {other}"),
    })
}

#[tokio::test]
async fn a_page_token_is_sealed_for_its_tenant_and_its_list() {
    let test = TestApp::start().await;
    let (acme, other) = (of(&test, "acme"), of(&test, "other"));
    for _ in 0..2 {
        create(&other).await;
    }
    let (first, session) = (create(&acme).await, create(&acme).await);
    // Another list of each kind, which a token must not fit.
    for list in LISTS {
        let token = next(&acme, list, &session, "").await.expect(list);
        let sealed = URL_SAFE_NO_PAD.decode(&token).expect(list);
        next(&acme, list, &session, &token).await.expect(list);
        for at in 0..sealed.len() {
            let mut forged = sealed.clone();
            forged[at] ^= 1;
            let refused = next(&acme, list, &session, &URL_SAFE_NO_PAD.encode(&forged)).await.expect_err(list);
            assert_eq!(refused.reason, Reason::PageTokenInvalid, "{list} with byte {at} changed");
        }
        // Nobody else goes on from it, and no other list does.
        if matches!(list, "sessions" | "search") {
            let refused = next(&other, list, &session, &token).await.expect_err(list);
            assert_eq!(refused.reason, Reason::PageTokenInvalid, "{list} of another tenant");
        } else {
            let refused = next(&acme, list, &first, &token).await.expect_err(list);
            assert_eq!(refused.reason, Reason::PageTokenInvalid, "{list} of another session");
        }
    }
}

#[tokio::test]
async fn a_page_token_has_no_number_of_a_row() {
    let test = TestApp::start().await;
    let other = of(&test, "other");
    for _ in 0..2 {
        create(&other).await;
    }
    let acme = of(&test, "acme");
    let session = create(&acme).await;
    create(&acme).await;
    let keys = test.number("select max(id) from session");
    for list in LISTS {
        let token = next(&acme, list, &session, "").await.expect(list);
        let bytes = URL_SAFE_NO_PAD.decode(&token).expect(list);
        for key in 1..=keys {
            let is_there = bytes.windows(8).any(|window| window == key.to_le_bytes() || window == key.to_be_bytes());
            assert!(!is_there, "the token of {list} has {key}: {bytes:?}");
        }
        // Nor do two tokens of neighbouring rows differ by little.
        let Ok(following) = next(&acme, list, &session, &token).await else { continue };
        let Ok(following) = URL_SAFE_NO_PAD.decode(&following) else { continue };
        if following.len() == bytes.len() {
            let equal = following.iter().zip(&bytes).filter(|(left, right)| left == right).count();
            assert!(equal < bytes.len() / 4, "{equal} bytes of {list} are equal: {bytes:?} {following:?}");
        }
    }
}
