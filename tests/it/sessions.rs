//! Sessions: created once, found by either id, changed, listed, archived.

use crate::support::{TestApp, conversation, turns, window};
use longhand::app::Caller;
use longhand::app::Reason;
use longhand::app::session_list::{ListSessions, SessionConditions};
use longhand::app::sessions::{NewSession, SessionChange};
use longhand::app::views::ServedView;
use longhand::limits;
use longhand::model::session::SessionState;
use longhand::model::usage::ModelWindow;

fn named(client_id: &str) -> NewSession {
    NewSession { client_id: Some(client_id.to_owned()), title: client_id.to_owned(), ..NewSession::default() }
}

fn page_of(size: i64, token: &str, parent: Option<&str>, archived: bool) -> ListSessions {
    let conditions = SessionConditions { parent: parent.map(str::to_owned), archived, ..SessionConditions::default() };
    ListSessions { page_size: size, page_token: token.to_owned(), conditions, ..ListSessions::default() }
}

#[tokio::test]
async fn a_session_is_made_once_and_found_by_either_id() {
    let test = TestApp::start().await;
    let make = async |new| test.by("alice").sessions().create(new).await;
    let new = || NewSession { window: window(10, 1), metadata_json: Some("{ }".to_owned()), ..named("one") };
    let (made, existed) = make(new()).await.expect("made").answer;
    assert!(!existed);
    let (again, existed) = make(new()).await.expect("found").answer;
    assert_eq!((again.session.id, existed), (made.session.id, true));
    for other in [
        NewSession { preset: "pi@1.5".to_owned(), ..new() },
        NewSession { title: "two".to_owned(), ..new() },
        NewSession { window: window(10, 2), ..new() },
        NewSession { metadata_json: Some("{}".to_owned()), ..new() },
        NewSession { metadata_json: None, ..new() },
        NewSession { policy_override_json: "{\"maintenance\": []}".to_owned(), ..new() },
        NewSession { parent: Some("one".to_owned()), ..new() },
    ] {
        assert_eq!(make(other.clone()).await.expect_err("another request").reason, Reason::ClientIdReused, "{other:?}");
    }
    let retitled = SessionChange { title: Some("two".to_owned()), ..SessionChange::default() };
    let made = test.app.sessions().update("one", retitled).await.expect("changed").answer.info;
    assert_eq!(make(new()).await.expect("found after a change").answer, (made.clone(), true));
    let test = test.restart().await;
    for id in ["one".to_owned(), made.session.id.to_string()] {
        let found = test.app.sessions().get(&id).await.expect("found");
        assert_eq!(found, made);
    }
    assert_eq!(made.session.metadata_json.as_deref(), Some("{ }"), "kept as it was written");
    assert_eq!(test.number("select count(*) from session"), 1);
}

/// A tail budget larger than a window of 2 100 tokens allows.
const TAIL: &str =
    "{\"auto\": {\"steps\": {\"0\": {\"summarize\": {\"tail\": {\"turns\": {\"minimum_budget_tokens\": 2100}}}}}}}";

#[tokio::test]
async fn invalid_new_sessions_are_refused() {
    let test = TestApp::start().await;
    let long = "x".repeat(limits::TITLE_BYTES_MAX + 1);
    let preset = |preset: &str| NewSession { preset: preset.to_owned(), ..NewSession::default() };
    let policy = |json: &str| NewSession { policy_override_json: json.to_owned(), ..NewSession::default() };
    for (new, reason) in [
        (NewSession { title: long, ..NewSession::default() }, Reason::LimitExceeded),
        (preset("nobody@1"), Reason::PresetNotFound),
        (policy("{\"nonsense\": 1}"), Reason::PolicyInvalid),
        (policy("{\"truncate\": {\"max_units\": \"many\"}}"), Reason::PolicyInvalid),
        (NewSession { window: window(2_100, 500), ..policy(TAIL) }, Reason::PolicyInvalid),
        (policy("{\"maintenance\": {\"0\": {\"prune\": {\"tools\": {\"except\": [\"\"]}}}}}"), Reason::PolicyInvalid),
        (NewSession { window: window(-1, 0), ..NewSession::default() }, Reason::InvalidField),
        (NewSession { metadata_json: Some("{".to_owned()), ..NewSession::default() }, Reason::InvalidField),
        (NewSession { metadata_json: Some(" [1]".to_owned()), ..NewSession::default() }, Reason::InvalidField),
        (NewSession { parent: Some("nobody".to_owned()), ..NewSession::default() }, Reason::SessionNotFound),
        (named(&format!("ses_{}", "0".repeat(32))), Reason::InvalidField),
        (named(&format!("run_{}", "0".repeat(32))), Reason::InvalidField),
        (named(" one"), Reason::InvalidField),
        (named("one\u{a0}"), Reason::InvalidField),
        (named("on\u{7}e"), Reason::InvalidField),
        (NewSession { title: "a\0b".to_owned(), ..NewSession::default() }, Reason::InvalidField),
        (
            NewSession { window: ModelWindow { model: "a\0".to_owned(), ..window(1, 0) }, ..NewSession::default() },
            Reason::InvalidField,
        ),
    ] {
        let refused = test.app.sessions().create(new.clone()).await;
        assert_eq!(refused.expect_err("refused").reason, reason, "{new:?}");
    }
    assert_eq!(test.number("select count(*) from session"), 0);
    assert_eq!(test.number("select count(*) from event"), 0);
}

#[tokio::test]
async fn a_change_of_policy_that_is_sent_again_is_answered_whatever_the_policy_is_by_now() {
    let test = TestApp::start().await;
    let session = test.create(named("one")).await;
    let earlier = SessionChange {
        policy_override_json: Some("{\"maintenance\": {\"0\": {\"prune\": {\"minimum_tokens\": 5}}}}".to_owned()),
        ..SessionChange::default()
    };
    let update =
        async |change: &SessionChange, caller: Caller| caller.sessions().update(&session, change.clone()).await;
    let changed = update(&earlier, test.once("r", "1")).await.expect("changed");
    let other = SessionChange { preset: Some("pi@1.5".to_owned()), ..SessionChange::default() };
    update(&other, test.app.clone()).await.expect("changed");
    let refused = update(&earlier, test.app.clone()).await.expect_err("pi has no prune that could come earlier");
    assert_eq!(refused.reason, Reason::PolicyInvalid);
    let again = update(&earlier, test.once("r", "1")).await.expect("answered again");
    assert_eq!((again.revision, again.seq), (changed.revision, changed.seq));
    let reused = update(&earlier, test.once("r", "2")).await.expect_err("another payload");
    assert_eq!(reused.reason, Reason::RequestIdReused);
}

#[tokio::test]
async fn a_change_sets_what_it_names_and_nothing_else() {
    let test = TestApp::start().await;
    let session = test.create(NewSession { window: window(10, 1), ..named("one") }).await;
    let change = SessionChange { title: Some("two".to_owned()), ..SessionChange::default() };
    let changed = test.once("r", "1").sessions().update(&session, change.clone()).await.expect("changed");
    let again = test.once("r", "1").sessions().update(&session, change).await.expect("answered again");
    assert_eq!(again.revision, changed.revision);
    let info = changed.answer.info.session;
    assert_eq!((info.title.as_str(), info.window), ("two", window(10, 1)));
    let change = SessionChange {
        policy_override_json: Some("{\"maintenance\": []}".to_owned()),
        window: Some(window(20, 2)),
        ..SessionChange::default()
    };
    let changed = test.app.sessions().update(&session, change).await.expect("changed").answer.info;
    assert!(changed.policy_json.contains("\"maintenance\":[]"), "{}", changed.policy_json);
    assert_eq!((changed.session.preset.as_str(), changed.session.window.context), ("opencode@seed", 20));
    let test = test.restart().await;
    assert_eq!(test.app.sessions().get("one").await.expect("found"), changed);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_view_as_it_was_is_judged_by_the_window_that_was_active_then() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 20_000, 1_000).await;
    let first = test.append(&session, &turns(1, 4, 5_000)).await.revision;
    let before = test.view(&session).await;
    let small = ModelWindow { overhead: 300, ..window(4_000, 1_000) };
    let change = SessionChange { window: Some(small), ..SessionChange::default() };
    // A policy without automatic compactions, so that only the window differs.
    let auto_off =
        SessionChange { policy_override_json: Some("{\"trigger\": {\"auto\": false}}".to_owned()), ..change };
    let changed = test.app.sessions().update(&session, auto_off).await.expect("changed").revision;
    let after = test.view(&session).await;
    assert_eq!((before.fits, before.window_tokens, after.fits, after.window_tokens), (true, 20_000, false, 4_000));
    let figures = |view: &ServedView| (view.window_tokens, view.context_tokens, view.fits);
    let then = test.view_as_of(&session, first).await;
    assert_eq!((figures(&then), then.hash), (figures(&before), before.hash));
    let now = test.view_as_of(&session, changed).await;
    assert_eq!(figures(&now), (4_000, before.context_tokens + 300, false));
    assert_eq!(test.view_as_of(&session, 1).await.window_tokens, 20_000, "it began with its window");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn another_window_is_a_change_that_an_expected_revision_sees() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 20_000, 1_000).await;
    let expected = test.append(&session, "u1 \"one\"").await.revision;
    let change = |title: Option<&str>, context: Option<i64>| SessionChange {
        title: title.map(str::to_owned),
        window: context.map(|context| window(context, 1_000)),
        ..SessionChange::default()
    };
    let append = async |expected| {
        let messages = conversation("u2 \"two\"");
        test.app.messages().append(&session, messages, None, Some(expected)).await
    };
    test.app.sessions().update(&session, change(Some("new"), None)).await.expect("a title");
    let appended = append(expected).await.expect("a title is no such change").revision;
    test.app.sessions().update(&session, change(None, Some(9_000))).await.expect("a window");
    assert_eq!(append(appended).await.expect_err("the window is another").reason, Reason::RevisionMismatch);
}

#[tokio::test]
async fn a_page_of_large_sessions_is_short_and_has_no_policies() {
    let test = TestApp::start().await;
    let metadata = format!("{{\"x\": \"{}\"}}", "x".repeat(limits::SESSION_METADATA_BYTES_MAX - 20));
    let count = limits::PAGE_BYTES_MAX / metadata.len() + 40;
    for number in 0..count {
        let name = format!("s{number}");
        test.create(NewSession { metadata_json: Some(metadata.clone()), ..named(&name) }).await;
    }
    let (mut listed, mut token) = (0, String::new());
    loop {
        let (page, next) = test.app.sessions().list(&page_of(1_000, &token, None, false)).await.expect("a page");
        let bytes: usize = page.iter().filter_map(|info| info.session.metadata_json.as_ref()).map(String::len).sum();
        assert!((1..=limits::PAGE_BYTES_MAX).contains(&bytes), "{bytes} bytes");
        assert!(page.iter().all(|info| info.policy_json.is_empty() && info.session.preset == "opencode@seed"));
        listed += page.len();
        if next.is_empty() {
            break;
        }
        token = next;
    }
    assert_eq!(listed, count);
}

#[tokio::test]
async fn a_session_says_which_levels_its_window_is_too_small_for() {
    let test = TestApp::start().await;
    let unmet = async |preset: &str, window: ModelWindow| {
        let new = NewSession { preset: preset.to_owned(), window, ..NewSession::default() };
        let (created, _) = test.app.sessions().create(new).await.expect("created").answer;
        let found = test.app.sessions().get(&created.session.id.to_string()).await.expect("found");
        assert_eq!(created.thresholds, found.thresholds);
        let levels = found.thresholds.into_iter();
        levels.map(|it| (it.due_tokens, it.unmet.map(|unmet| unmet.kept_tokens))).collect::<Vec<_>>()
    };
    assert_eq!(unmet("opencode@seed", window(20_000, 0)).await, [(15_000, None)]);
    assert_eq!(unmet("opencode@seed", window(32_768, 32_000)).await, [(768, Some(2_000))]);
    assert_eq!(unmet("pi@1.5", window(20_000, 4_000)).await, [(3_617, Some(20_000))]);
    assert_eq!(unmet("pi@1.5", window(200_000, 64_000)).await, [(183_617, None)]);
}

#[tokio::test]
async fn lists_are_paged_newest_first_and_leave_archived_ones_out() {
    let test = TestApp::start().await;
    let mut ids = Vec::new();
    for number in 0..7 {
        ids.push(test.create(named(&format!("s{number}"))).await);
    }
    let child = NewSession { parent: Some("s3".to_owned()), ..named("child") };
    let child = test.create(child).await;
    test.app.sessions().archive("s5").await.expect("archived");
    let list = async |parent: Option<&str>, archived| {
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let (page, next) = test.app.sessions().list(&page_of(2, &token, parent, archived)).await.expect("a page");
            assert!(page.len() <= 2);
            found.extend(page.into_iter().map(|info| info.session.id.to_string()));
            if next.is_empty() {
                return found;
            }
            token = next;
        }
    };
    let mut all: Vec<String> = ids.clone();
    all.push(child.clone());
    all.reverse();
    assert_eq!(list(None, true).await, all);
    all.retain(|id| *id != ids[5]);
    assert_eq!(list(None, false).await, all);
    assert_eq!(list(Some("s3"), false).await, [child]);
    let archived = test.app.sessions().get("s5").await.expect("found").session;
    assert_eq!(archived.state, SessionState::Archived);
    let (_, token) = test.app.sessions().list(&page_of(2, "", None, true)).await.expect("a page");
    let error = test.app.sessions().list(&page_of(2, &token, None, false)).await.expect_err("another list's token");
    assert_eq!(error.reason, Reason::PageTokenInvalid);
    assert_eq!(
        test.app.sessions().list(&page_of(-1, "", None, true)).await.expect_err("no size").reason,
        Reason::InvalidField
    );
}
