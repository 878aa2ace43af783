//! Lists of sessions: conditions, orders, labels, totals, and lists that are followed.

use crate::doctor::examine;
use crate::support::{TestApp, soon};
use longhand::app::Reason;
use longhand::app::erase::{EraseRequest, EraseTarget};
use longhand::app::session_list::{ListSessions, SessionConditions, SessionOrder, TimeRange};
use longhand::app::session_watch::{ListFrame, SessionWatch};
use longhand::app::sessions::{ForkPoint, NewSession, SessionChange};
use longhand::daemon::offline::ExaminationMode;
use longhand::limits;
use longhand::model::event::EventBody;
use longhand::model::session::SessionState;
use longhand::model::time::Timestamp;
use longhand::model::usage::UsageTotals;
use std::collections::BTreeSet;

fn named(name: &str, metadata: Option<&str>) -> NewSession {
    NewSession {
        client_id: Some(name.to_owned()),
        title: format!("title of {name}"),
        metadata_json: metadata.map(str::to_owned),
        ..NewSession::default()
    }
}

/// The client ids of all sessions of a list, by pages of a size.
async fn pages(test: &TestApp, size: i64, conditions: &SessionConditions, order: SessionOrder) -> Vec<String> {
    let mut wanted = ListSessions { page_size: size, conditions: conditions.clone(), order, ..ListSessions::default() };
    let mut found = Vec::new();
    loop {
        let (page, next) = test.app.sessions().list(&wanted).await.expect("a page");
        assert!(page.len() <= usize::try_from(size).expect("a size"));
        found.extend(page.into_iter().map(|info| info.session.client_id.unwrap_or_default()));
        if next.is_empty() {
            return found;
        }
        wanted.page_token = next;
    }
}

/// The sessions of the tests of conditions; `f` is a fork of `a` without metadata, and `e` is archived.
async fn family() -> TestApp {
    let test = TestApp::start().await;
    let ada = test.by("ada");
    ada.sessions().create(named("a", Some(r#"{"project": "p", "cwd": "/w/one", "issue": 42}"#))).await.expect("a");
    ada.sessions()
        .create(named("b", Some(r#"{"project": "q", "cwd": "/w/one/two", "issue": "42"}"#)))
        .await
        .expect("b");
    let child = NewSession { parent: Some("a".to_owned()), ..named("c", Some(r#"{"cwd": "/w/oneself"}"#)) };
    test.by("bob").sessions().create(child).await.expect("c");
    let grandchild = NewSession { parent: Some("c".to_owned()), ..named("d", None) };
    test.app.sessions().create(grandchild).await.expect("d");
    test.app.sessions().create(named("e", None)).await.expect("e");
    test.app.sessions().archive("e").await.expect("archived");
    let fork = test.app.sessions().fork("a", ForkPoint::default(), Some("f".to_owned()), "Fork".to_owned());
    fork.await.expect("f");
    for (session, label) in [("a", "x"), ("b", "x"), ("b", "y"), ("e", "y")] {
        test.app.sessions().add_label(session, label.to_owned()).await.expect("a label");
    }
    test
}

async fn erase(test: &TestApp, session: &str) {
    let (target, reason) = (EraseTarget::Session, "it is over".to_owned());
    let request = EraseRequest { target, reason, dry_run: false, expected_revision: None };
    test.app.content().erase(session, request).await.expect("erased");
}

#[tokio::test]
async fn every_condition_leaves_what_meets_it_in_every_order_and_page_size() {
    let test = family().await;
    let all = SessionConditions { archived: true, ..SessionConditions::default() };
    let some = |value: &str| Some(value.to_owned());
    let list = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
    let cases = [
        (all.clone(), "abcdef"),
        (SessionConditions::default(), "abcdf"),
        (SessionConditions { state: Some(SessionState::Archived), ..SessionConditions::default() }, "e"),
        (SessionConditions { state: Some(SessionState::Active), ..all.clone() }, "abcdf"),
        (SessionConditions { project: some("p"), ..all.clone() }, "af"),
        (SessionConditions { project: some("nobody's"), ..all.clone() }, ""),
        (SessionConditions { directory: some("/w/one/"), ..all.clone() }, "abf"),
        (SessionConditions { directory: some("/w"), ..all.clone() }, "abcf"),
        (SessionConditions { metadata: list(&["issue"]), ..all.clone() }, "abf"),
        (SessionConditions { metadata: list(&["issue=42"]), ..all.clone() }, "abf"),
        (SessionConditions { metadata: list(&["issue=42", "project=q"]), ..all.clone() }, "b"),
        (SessionConditions { labels: list(&["x"]), ..all.clone() }, "ab"),
        (SessionConditions { labels: list(&["y"]), ..all.clone() }, "be"),
        (SessionConditions { labels: list(&["y"]), ..SessionConditions::default() }, "b"),
        (SessionConditions { labels: list(&["x", "y"]), ..all.clone() }, "b"),
        (SessionConditions { labels: list(&["z"]), ..all.clone() }, ""),
        (SessionConditions { parent: some("a"), ..all.clone() }, "c"),
        (SessionConditions { root: some("a"), ..all.clone() }, "acdf"),
        (SessionConditions { root: some("c"), ..all.clone() }, "cd"),
        (SessionConditions { actor: some("ada"), ..all.clone() }, "ab"),
        (SessionConditions { actor: some(""), ..all.clone() }, "def"),
        (SessionConditions { title_prefix: "title of".to_owned(), ..all.clone() }, "abcde"),
        (SessionConditions { title_prefix: "Fork".to_owned(), ..all.clone() }, "f"),
        (SessionConditions { title_prefix: "fork".to_owned(), ..all.clone() }, ""),
        (SessionConditions { client_id_prefix: "b".to_owned(), ..all.clone() }, "b"),
    ];
    for (conditions, expected) in cases {
        for size in [1, 2, 100] {
            let mut by_order = Vec::new();
            for order in [
                SessionOrder::NewestFirst,
                SessionOrder::OldestFirst,
                SessionOrder::LastChangedFirst,
                SessionOrder::LastChangedLast,
            ] {
                by_order.push(pages(&test, size, &conditions, order).await.concat());
            }
            let reversed = |text: &String| text.chars().rev().collect::<String>();
            assert_eq!(by_order[1], expected, "{conditions:?}");
            assert_eq!(by_order[0], reversed(&by_order[1]), "{conditions:?}");
            assert_eq!(by_order[2], reversed(&by_order[3]), "{conditions:?}");
            // The fork came before the labels.
            let changed: String = "cdfabe".chars().filter(|name| expected.contains(*name)).collect();
            assert_eq!(by_order[3], changed, "{conditions:?}");
        }
    }
}

#[tokio::test]
async fn times_bound_a_list_on_both_sides() {
    let test = family().await;
    let mut times = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        let session = test.app.sessions().get(name).await.expect("found").session;
        times.push((name, session.create_time, session.update_time));
    }
    let all = SessionConditions { archived: true, ..SessionConditions::default() };
    for (_, start, _) in &times {
        for (_, end, _) in &times {
            let range = TimeRange { start: Some(*start), end: Some(*end) };
            let of = |field: fn(&(&'static str, Timestamp, Timestamp)) -> Timestamp| {
                times.iter().filter(|time| (*start..*end).contains(&field(time))).map(|time| time.0).collect()
            };
            let (made, changed): (BTreeSet<&str>, BTreeSet<&str>) = (of(|time| time.1), of(|time| time.2));
            for order in [SessionOrder::NewestFirst, SessionOrder::LastChangedLast, SessionOrder::LastChangedFirst] {
                let by_creation = SessionConditions { create_time: range, ..all.clone() };
                let found = pages(&test, 2, &by_creation, order).await;
                assert_eq!(found.iter().map(String::as_str).collect::<BTreeSet<_>>(), made, "{range:?} {order:?}");
                let by_change = SessionConditions { update_time: range, ..all.clone() };
                let found = pages(&test, 2, &by_change, order).await;
                assert_eq!(found.iter().map(String::as_str).collect::<BTreeSet<_>>(), changed, "{range:?} {order:?}");
            }
        }
    }
}

#[tokio::test]
async fn sessions_are_listed_by_their_last_change_within_a_period_and_across_periods() {
    let test = family().await;
    let all = SessionConditions { archived: true, ..SessionConditions::default() };
    let period = limits::UPDATE_PERIOD_MICROS / 1_000;
    for (step, name) in "abcdfdcbafacbdabcf".chars().enumerate() {
        test.clock.advance([0, 1, period / 3, period - 1, period, 3 * period][step % 6]);
        test.append(&name.to_string(), "u \"and\"").await;
        let mut expected = Vec::new();
        for name in ["a", "b", "c", "d", "e", "f"] {
            let session = test.app.sessions().get(name).await.expect("found").session;
            expected.push((session.update_time, name.to_owned()));
        }
        expected.sort_unstable();
        let mut expected: Vec<String> = expected.into_iter().map(|(_, name)| name).collect();
        assert_eq!(pages(&test, 2, &all, SessionOrder::LastChangedLast).await, expected, "step {step}");
        expected.reverse();
        assert_eq!(pages(&test, 2, &all, SessionOrder::LastChangedFirst).await, expected, "step {step}");
    }
    let closed = test.stop().await;
    assert_eq!(examine(closed.path(), ExaminationMode::Report).await, []);
}

#[tokio::test]
async fn more_sessions_than_an_index_is_read_for_at_once_are_listed_whole() {
    let test = TestApp::start().await;
    let count = limits::LIST_CANDIDATES_MAX + 40;
    let mut expected = Vec::new();
    for number in 0..count {
        let name = format!("s{number:05}");
        let metadata = Some(r#"{"project": "p", "cwd": "/w/one"}"#);
        test.by("ada").sessions().create(named(&name, metadata)).await.expect("a session");
        expected.push(name);
    }
    let by_ada = SessionConditions { actor: Some("ada".to_owned()), ..SessionConditions::default() };
    let by_title = SessionConditions { title_prefix: "title".to_owned(), ..SessionConditions::default() };
    let by_project = SessionConditions { project: Some("p".to_owned()), ..SessionConditions::default() };
    let by_directory = SessionConditions { directory: Some("/w".to_owned()), ..SessionConditions::default() };
    for conditions in [by_ada, by_title, by_project, by_directory] {
        for order in [SessionOrder::OldestFirst, SessionOrder::LastChangedLast] {
            assert_eq!(pages(&test, 600, &conditions, order).await, expected);
        }
    }
}

#[tokio::test]
async fn conditions_that_mean_nothing_are_refused() {
    let test = family().await;
    let default = SessionConditions::default;
    let many = vec!["x".to_owned(); limits::FILTER_TERMS_MAX + 1];
    for (conditions, reason) in [
        (SessionConditions { directory: Some(String::new()), ..default() }, Reason::InvalidField),
        (SessionConditions { labels: vec!["a b".to_owned()], ..default() }, Reason::InvalidField),
        (SessionConditions { metadata: vec!["=x".to_owned()], ..default() }, Reason::InvalidField),
        (SessionConditions { labels: many.clone(), ..default() }, Reason::LimitExceeded),
        (SessionConditions { metadata: many, ..default() }, Reason::LimitExceeded),
        (SessionConditions { parent: Some("nobody".to_owned()), ..default() }, Reason::SessionNotFound),
        (SessionConditions { root: Some("nobody".to_owned()), ..default() }, Reason::SessionNotFound),
    ] {
        let wanted = ListSessions { conditions: conditions.clone(), ..ListSessions::default() };
        assert_eq!(test.app.sessions().list(&wanted).await.expect_err("refused").reason, reason, "{conditions:?}");
        let refused = test.app.sessions().watch(&conditions, None).await.err().expect("refused");
        assert_eq!(refused.reason, reason, "{conditions:?}");
    }
}

#[tokio::test]
async fn a_list_has_policies_only_if_they_are_asked_for() {
    let test = family().await;
    let (basic, _) = test.app.sessions().list(&ListSessions::default()).await.expect("a list");
    assert!(basic.iter().all(|info| info.policy_json.is_empty()));
    let whole = ListSessions { has_policies: true, ..ListSessions::default() };
    let (whole, _) = test.app.sessions().list(&whole).await.expect("a list");
    for info in whole {
        let got = test.app.sessions().get(&info.session.id.to_string()).await.expect("found");
        assert_eq!(info.policy_json, got.policy_json);
    }
}

#[tokio::test]
async fn labels_are_set_once_and_each_change_is_one_event() {
    let test = TestApp::start().await;
    let session = test.create(named("one", None)).await;
    let before = test.app.sessions().get(&session).await.expect("found").session;
    let added = test.once("r", "1").sessions().add_label(&session, "keep".to_owned()).await.expect("added");
    assert_eq!((added.revision, added.info.session.labels.clone()), (before.revision + 1, vec!["keep".to_owned()]));
    let again = test.app.sessions().add_label(&session, "keep".to_owned()).await.expect("it is there");
    assert_eq!(again.revision, added.revision, "no event");
    test.app.sessions().add_label(&session, "a".to_owned()).await.expect("added");
    let removed = test.app.sessions().remove_label(&session, "keep".to_owned()).await.expect("removed");
    assert_eq!(removed.info.session.labels, ["a"]);
    let nothing = test.app.sessions().remove_label(&session, "keep".to_owned()).await.expect("it is gone");
    assert_eq!(nothing.revision, removed.revision);
    // The repetition of the first request is answered, and adds nothing.
    let repeated = test.once("r", "1").sessions().add_label(&session, "keep".to_owned()).await.expect("answered");
    assert_eq!((repeated.revision, repeated.seq), (added.revision, added.seq));
    assert_eq!(repeated.info.session.labels, ["a"]);
    let reused = test.once("r", "2").sessions().add_label(&session, "b".to_owned()).await.expect_err("another payload");
    assert_eq!(reused.reason, Reason::RequestIdReused);
    let bodies: Vec<EventBody> = test.events().await.into_iter().map(|event| event.body).skip(1).collect();
    assert_eq!(
        bodies,
        [
            EventBody::LabelAdded { label: "keep".to_owned() },
            EventBody::LabelAdded { label: "a".to_owned() },
            EventBody::LabelRemoved { label: "keep".to_owned() },
        ]
    );
    // History did not change: a guarded write of before is admitted.
    let change = SessionChange {
        title: Some("new".to_owned()),
        expected_revision: Some(before.revision),
        ..SessionChange::default()
    };
    test.app.sessions().update(&session, change).await.expect("labels are no change of history");
    // An archived session has labels too, and a fork begins without any.
    test.app.sessions().archive(&session).await.expect("archived");
    test.app.sessions().add_label(&session, "keep".to_owned()).await.expect("added");
    let fork =
        test.app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await.expect("a fork").answer.0;
    assert!(fork.session.labels.is_empty());
    let test = test.restart().await;
    assert_eq!(test.app.sessions().get(&session).await.expect("found").session.labels, ["a", "keep"]);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn labels_have_bounds() {
    let test = TestApp::start().await;
    let session = test.create(named("one", None)).await;
    let long = "x".repeat(limits::LABEL_BYTES_MAX + 1);
    for (label, reason) in [
        ("", Reason::InvalidField),
        ("a b", Reason::InvalidField),
        ("a,b", Reason::InvalidField),
        ("a\u{7}", Reason::InvalidField),
        (long.as_str(), Reason::LimitExceeded),
    ] {
        assert_eq!(
            test.app.sessions().add_label(&session, label.to_owned()).await.expect_err("refused").reason,
            reason
        );
        assert_eq!(
            test.app.sessions().remove_label(&session, label.to_owned()).await.expect_err("refused").reason,
            reason
        );
    }
    for number in 0..limits::SESSION_LABELS_MAX {
        test.app.sessions().add_label(&session, format!("l{number}")).await.expect("added");
    }
    let full = test.app.sessions().add_label(&session, "more".to_owned()).await.expect_err("too many");
    assert_eq!(full.reason, Reason::LimitExceeded);
    test.app.sessions().add_label(&session, "l0".to_owned()).await.expect("it is there");
    assert_eq!(
        test.number("select count(*) from session_label"),
        i64::try_from(limits::SESSION_LABELS_MAX).expect("few")
    );
}

#[tokio::test]
async fn labels_that_no_event_explains_are_found() {
    let test = TestApp::start().await;
    let session = test.create(named("one", None)).await;
    test.app.sessions().add_label(&session, "keep".to_owned()).await.expect("added");
    let directory = test.stop().await;
    for sql in [
        "delete from session_label",
        "insert into session_label (session_id, label, tenant) values (1, 'other', '')",
        "update session_label set label = 'other'",
        "update session set actor = 'eve'",
        "update session set project = 'p'",
    ] {
        let altered = TestApp::altered(directory.path(), sql).await;
        let findings = altered.findings().await;
        assert!(!findings.is_empty(), "{sql}");
    }
}

#[tokio::test]
async fn totals_are_those_of_the_replies_and_survive_a_store_without_them() {
    let test = TestApp::start().await;
    let session = test.create(named("one", None)).await;
    let text = "u1 \"hello\"\na1 \"one\" usage=100/20\nu2 \"more\"\na2 \"two\" usage=300/40";
    test.append(&session, text).await;
    let expected = UsageTotals { input: 400, output: 60, ..UsageTotals::default() };
    let found = test.app.sessions().get(&session).await.expect("found").session;
    assert_eq!((found.usage, found.message_count), (expected, 4));
    let fork =
        test.app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await.expect("a fork").answer.0;
    assert_eq!(fork.session.usage, UsageTotals::default(), "inherited replies count for their own session");
    let directory = test.stop().await;
    // As a migration leaves the rows of an older store.
    let altered =
        TestApp::altered(directory.path(), "update session set usage = null, project = null, directory = null").await;
    let (listed, _) = altered.app.sessions().list(&ListSessions::default()).await.expect("a list");
    assert_eq!(listed.iter().map(|info| info.session.usage).collect::<Vec<_>>(), [UsageTotals::default(), expected]);
    assert_eq!(altered.findings().await, []);
    let other = "update session set usage = (select usage from session order by id limit 1)";
    assert_eq!(TestApp::altered(directory.path(), other).await.findings().await.len(), 1, "the fork's");
}

/// What a client of a list knows.
#[derive(Default)]
struct Client {
    known: BTreeSet<String>,
    cursor: String,
}

impl Client {
    /// Takes the next frame.
    async fn take(&mut self, watch: &mut SessionWatch) -> ListFrame {
        let frame = soon("a frame", watch.next()).await.expect("it goes on").expect("a frame");
        match &frame {
            ListFrame::Snapshot { sessions } | ListFrame::Changes { sessions, .. } => {
                self.known.extend(sessions.iter().filter_map(|info| info.session.client_id.clone()));
            }
            ListFrame::SnapshotEnd { .. } | ListFrame::Progress { .. } => {}
        }
        if let ListFrame::Changes { cursor, .. } | ListFrame::SnapshotEnd { cursor } | ListFrame::Progress { cursor } =
            &frame
        {
            self.cursor.clone_from(cursor);
        }
        frame
    }
}

/// Takes frames until the list is as expected.
async fn until(test: &TestApp, client: &mut Client, watch: &mut SessionWatch, expected: &str) {
    let expected: BTreeSet<String> = expected.chars().map(String::from).collect();
    while client.known != expected {
        if let ListFrame::Changes { removed, .. } = client.take(watch).await {
            for id in removed {
                let name = test.app.sessions().get(&id.to_string()).await.expect("found").session.client_id;
                client.known.remove(&name.unwrap_or_default());
            }
        }
    }
}

#[tokio::test]
async fn a_list_that_is_followed_has_what_comes_changes_and_leaves() {
    let test = family().await;
    let conditions = SessionConditions { labels: vec!["x".to_owned()], ..SessionConditions::default() };
    let mut watch = test.app.sessions().watch(&conditions, None).await.expect("a stream");
    let mut client = Client::default();
    until(&test, &mut client, &mut watch, "ab").await;
    assert!(matches!(client.take(&mut watch).await, ListFrame::SnapshotEnd { .. }));
    test.app.sessions().add_label("c", "x".to_owned()).await.expect("a label");
    until(&test, &mut client, &mut watch, "abc").await;
    // A session that is not in the list says nothing, and one that is comes as it is now.
    test.append("d", "u \"hello\"").await;
    test.append("a", "u \"hello\"").await;
    match client.take(&mut watch).await {
        ListFrame::Changes { sessions, removed, .. } => {
            let names: Vec<_> = sessions.iter().map(|info| info.session.client_id.as_deref()).collect();
            assert_eq!((names, removed.len()), (vec![Some("a")], 0));
            assert_eq!(sessions[0].session.message_count, 1);
        }
        other => panic!("{other:?}"),
    }
    test.app.sessions().remove_label("b", "x".to_owned()).await.expect("removed");
    until(&test, &mut client, &mut watch, "ac").await;
    test.app.sessions().archive("a").await.expect("archived");
    until(&test, &mut client, &mut watch, "c").await;
    let resumed = client.cursor.clone();
    drop(watch);
    test.app.sessions().restore("a").await.expect("restored");
    test.app.sessions().remove_label("c", "x".to_owned()).await.expect("removed");
    let mut watch = test.app.sessions().watch(&conditions, Some(&resumed)).await.expect("resumed");
    until(&test, &mut client, &mut watch, "a").await;
}

#[tokio::test]
async fn forks_that_have_the_metadata_of_another_session_leave_with_it() {
    let test = family().await;
    let conditions = SessionConditions { project: Some("p".to_owned()), ..SessionConditions::default() };
    let mut watch = test.app.sessions().watch(&conditions, None).await.expect("a stream");
    let mut client = Client::default();
    until(&test, &mut client, &mut watch, "af").await;
    let moved = |project: &str| SessionChange {
        metadata_json: Some(format!("{{\"project\": {project:?}}}")),
        ..SessionChange::default()
    };
    test.app.sessions().update("a", moved("q")).await.expect("moved");
    until(&test, &mut client, &mut watch, "").await;
    test.app.sessions().update("a", moved("p")).await.expect("moved back");
    until(&test, &mut client, &mut watch, "af").await;
}

/// Every condition that an erasure can make a session fail.
#[tokio::test]
async fn an_erased_session_leaves_every_list_that_it_was_in() {
    let any = || SessionConditions { archived: true, ..SessionConditions::default() };
    let lists = [
        ("what is there", SessionConditions::default(), true),
        ("active ones", SessionConditions { state: Some(SessionState::Active), ..any() }, true),
        ("a title", SessionConditions { title_prefix: "title of a".to_owned(), ..any() }, false),
        ("a client id", SessionConditions { client_id_prefix: "a".to_owned(), ..any() }, false),
        ("a directory", SessionConditions { directory: Some("/w/one".to_owned()), ..any() }, false),
        ("metadata", SessionConditions { metadata: vec!["issue=42".to_owned()], ..any() }, false),
    ];
    for (what, conditions, fork_stays) in lists {
        let test = family().await;
        for other in ["b", "c", "d"] {
            erase(&test, other).await;
        }
        let id = async |name: &str| test.app.sessions().get(name).await.expect("found").session.id;
        let (a, f) = (id("a").await, id("f").await);
        let mut watch = test.app.sessions().watch(&conditions, None).await.expect("a stream");
        let (mut known, mut is_complete) = (BTreeSet::new(), false);
        while !is_complete {
            match soon("a frame", watch.next()).await.expect("it goes on").expect("a frame") {
                ListFrame::Snapshot { sessions } => known.extend(sessions.iter().map(|info| info.session.id)),
                ListFrame::SnapshotEnd { .. } => is_complete = true,
                ListFrame::Changes { .. } | ListFrame::Progress { .. } => {}
            }
        }
        assert!(known.contains(&a), "{what}");
        erase(&test, "a").await;
        let expected = if fork_stays { BTreeSet::from([f]) } else { BTreeSet::new() };
        while known != expected {
            match soon(what, watch.next()).await.expect("it goes on").expect("a frame") {
                ListFrame::Changes { sessions, removed, .. } => {
                    known.extend(sessions.iter().map(|info| info.session.id));
                    known.retain(|id| !removed.contains(id));
                }
                ListFrame::Progress { .. } => panic!("{what}: {known:?} are not known to have left"),
                ListFrame::Snapshot { .. } | ListFrame::SnapshotEnd { .. } => {}
            }
        }
    }
}

#[tokio::test]
async fn a_list_that_is_followed_misses_nothing_of_what_changes_while_it_begins() {
    let test = TestApp::start().await;
    let metadata = format!("{{\"x\": \"{}\"}}", "x".repeat(30_000));
    for number in 0..20 {
        test.create(named(&format!("s{number}"), Some(&metadata))).await;
    }
    let conditions = SessionConditions::default();
    let mut watch = test.app.sessions().watch(&conditions, None).await.expect("a stream");
    let mut client = Client::default();
    let first = client.take(&mut watch).await;
    assert!(matches!(&first, ListFrame::Snapshot { sessions } if sessions.len() < 20), "a page at a time");
    test.app.sessions().archive("s19").await.expect("archived: it was in the first page");
    test.app.sessions().archive("s0").await.expect("archived: it was not");
    test.create(named("late", None)).await;
    let mut removed = BTreeSet::new();
    while !client.known.contains("late") || removed.len() < 2 {
        if let ListFrame::Changes { removed: left, .. } = client.take(&mut watch).await {
            removed.extend(left);
        }
    }
    for id in removed {
        let name = test.app.sessions().get(&id.to_string()).await.expect("found").session.client_id.expect("a name");
        client.known.remove(&name);
    }
    let wanted = ListSessions { page_size: 100, ..ListSessions::default() };
    let (listed, _) = test.app.sessions().list(&wanted).await.expect("a list");
    let listed: BTreeSet<String> = listed.into_iter().filter_map(|info| info.session.client_id).collect();
    assert_eq!(client.known, listed);
}
