//! What an access token that is bound to a project or to a session may make, change and see, and in which tenant an
//! operator acts.

use crate::cli::Daemon;
use crate::support::{TestApp, private_folder, soon};
use longhand::app::access::Access;
use longhand::app::session_list::{ListSessions, SessionConditions, SessionOrder};
use longhand::app::session_watch::ListFrame;
use longhand::app::sessions::{ForkPoint, NewSession, SessionChange};
use longhand::app::{Caller, Error, Reason};
use longhand::model::access::Binding;
use longhand::model::session::SessionState;

/// A caller of a tenant, bound to a project and to the tree of a session.
fn caller(test: &TestApp, tenant: &str, project: Option<&str>, root: Option<&str>) -> Caller {
    let root = root.map(|root| root.parse().expect("an id"));
    let binding = Binding { project: project.map(str::to_owned), root };
    let access =
        Access { principal: "agent".into(), tenant: tenant.into(), binding: binding.into(), ..Access::owner() };
    test.longhand.caller(access, String::new(), None).expect("a caller")
}

/// A request for a session with this metadata and parent.
fn new(metadata_json: Option<&str>, parent: Option<&str>) -> NewSession {
    let metadata_json = metadata_json.map(str::to_owned);
    NewSession { metadata_json, parent: parent.map(str::to_owned), ..NewSession::default() }
}

async fn create(app: &Caller, metadata_json: Option<&str>, parent: Option<&str>) -> Result<String, Error> {
    Ok(app.sessions().create(new(metadata_json, parent)).await?.answer.0.session.id.to_string())
}

/// The reason of a refusal, and the field that it names.
fn refusal<T: std::fmt::Debug>(answer: Result<T, Error>) -> (Reason, Option<String>) {
    let error = answer.expect_err("a refusal");
    (error.reason, error.metadata.get("field").cloned())
}

const INNER: Option<&str> = Some(r#"{"project": "inner"}"#);
const OTHERS: [Option<&str>; 5] = [
    None,
    Some("{}"),
    Some(r#"{"project": "outer"}"#),
    Some(r#"{"project": ["inner"]}"#),
    Some(r#"{"note": {"project": "inner"}}"#),
];

#[tokio::test]
async fn a_token_of_a_project_makes_and_keeps_sessions_inside_and_sees_no_others() {
    let test = TestApp::start().await;
    let bound = caller(&test, "", Some("inner"), None);
    for metadata in OTHERS {
        let refused = refusal(create(&bound, metadata, None).await);
        assert_eq!(refused, (Reason::InvalidField, Some("metadata_json".to_owned())), "{metadata:?}");
        let outside = create(&test.app, metadata, None).await.expect("a session");
        assert_eq!(refusal(bound.sessions().get(&outside).await).0, Reason::SessionNotFound, "{metadata:?}");
        assert_eq!(refusal(create(&bound, INNER, Some(&outside)).await).0, Reason::SessionNotFound);
    }
    let inside = create(&bound, INNER, None).await.expect("a session");
    for metadata in OTHERS.into_iter().flatten() {
        let change = SessionChange { metadata_json: Some(metadata.to_owned()), ..SessionChange::default() };
        let refused = refusal(bound.sessions().update(&inside, change).await);
        assert_eq!(refused, (Reason::InvalidField, Some("metadata_json".to_owned())), "{metadata}");
    }
    let title = SessionChange { title: Some("new".to_owned()), ..SessionChange::default() };
    bound.sessions().update(&inside, title).await.expect("it stays inside");
    // A fork has no metadata, and is of the project of its source.
    let fork =
        bound.sessions().fork(&inside, ForkPoint::default(), None, String::new()).await.expect("a fork").answer.0;
    let fork = fork.session.id.to_string();
    bound.sessions().get(&fork).await.expect("a fork is inside");
    let listed = bound.sessions().list(&crate::support::all_sessions(100)).await.expect("a list").0;
    let listed: Vec<String> = listed.iter().map(|info| info.session.id.to_string()).collect();
    assert_eq!(listed, [fork.clone(), inside.clone()]);
    // Others may move a session out, and its forks with it.
    let out = SessionChange { metadata_json: Some("{}".to_owned()), ..SessionChange::default() };
    test.app.sessions().update(&inside, out).await.expect("a change");
    for left in [&inside, &fork] {
        assert_eq!(refusal(bound.sessions().get(left).await).0, Reason::SessionNotFound);
    }
}

#[tokio::test]
async fn a_token_of_a_tree_sees_a_session_and_what_is_below_it_at_any_depth() {
    let test = TestApp::start().await;
    let above = create(&test.app, None, None).await.expect("a session");
    let root = create(&test.app, None, Some(&above)).await.expect("a session");
    let bound = caller(&test, "", None, Some(&root));
    let mut inside = vec![root.clone()];
    for depth in 0..4 {
        let last = inside.last().expect("the root").clone();
        inside.push(match depth % 2 {
            0 => create(&bound, None, Some(&last)).await.expect("a child"),
            _ => {
                let fork = bound.sessions().fork(&last, ForkPoint::default(), None, String::new()).await;
                fork.expect("a fork").0.session.id.to_string()
            }
        });
    }
    let beside = create(&test.app, None, Some(&above)).await.expect("a session");
    for (session, is_inside) in inside.iter().map(|id| (id, true)).chain([(&above, false), (&beside, false)]) {
        assert_eq!(bound.sessions().get(session).await.is_ok(), is_inside, "{session}");
        assert_eq!(create(&bound, None, Some(session)).await.is_ok(), is_inside, "below {session}");
    }
    assert_eq!(refusal(create(&bound, None, None).await), (Reason::InvalidField, Some("parent_session_id".to_owned())));
}

#[tokio::test]
async fn the_store_as_a_whole_is_for_operators() {
    let test = TestApp::start().await;
    let root = create(&test.app, INNER, None).await.expect("a session");
    let of_tenant = caller(&test, "acme", None, None);
    let theirs = create(&of_tenant, None, None).await.expect("a session");
    let bound = [caller(&test, "", Some("inner"), None), caller(&test, "", None, Some(&root))];
    for (other, own) in bound.iter().map(|bound| (bound, &root)).chain([(&of_tenant, &theirs)]) {
        assert_eq!(refusal(other.daemon().check_integrity(None).await).0, Reason::ScopeMissing);
        assert_eq!(refusal(other.daemon().follow_scrub().map(drop)).0, Reason::ScopeMissing);
        assert_eq!(refusal(other.daemon().create_backup("/tmp/nothing").map(drop)).0, Reason::ScopeMissing);
        assert_eq!(refusal(other.daemon().list_heads(None, 0, "", &[]).await).0, Reason::ScopeMissing);
        other.daemon().check_integrity(Some(own)).await.expect("its own session");
        assert_eq!(other.daemon().list_heads(Some(own), 0, "", &[]).await.expect("its own session").0.len(), 1);
        assert!(other.daemon().describe().await.expect("the daemon").info.is_none());
        assert_eq!(refusal(other.access().clone().acting_in("acme")).0, Reason::ScopeMissing);
    }
    assert!(test.app.daemon().describe().await.expect("the daemon").info.is_some());
    // In its own tenant an operator is one caller among others.
    assert_eq!(refusal(test.app.sessions().get(&theirs).await).0, Reason::SessionNotFound);
    let acting = Access::owner().acting_in("acme").expect("an operator");
    let acting = test.longhand.caller(acting, String::new(), None).expect("a caller");
    acting.sessions().get(&theirs).await.expect("it acts in the tenant");
    assert_eq!(refusal(acting.sessions().get(&root).await).0, Reason::SessionNotFound);
    acting.daemon().check_integrity(None).await.expect("it is an operator still");
}

#[test]
fn the_command_line_acts_in_a_tenant() {
    let home = private_folder();
    let daemon = Daemon::start(home.path());
    let titles = |arguments: &[&str]| {
        let listed = daemon.json(&[&["sessions"], arguments].concat());
        let sessions = listed.iter().flat_map(|page| match page["sessions"].as_array() {
            Some(sessions) => sessions.clone(),
            None => vec![page.clone()],
        });
        sessions.filter_map(|session| session["title"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    daemon.text(&["create", "--title", "ours"]);
    daemon.text(&["create", "--title", "theirs", "--tenant", "acme"]);
    assert_eq!(titles(&[]), ["ours"]);
    assert_eq!(titles(&["--tenant", "acme"]), ["theirs"]);
    let by_variable = daemon.command(&["sessions", "--json"]).env("LONGHAND_TENANT", "acme").output().expect("it runs");
    let said = String::from_utf8_lossy(&by_variable.stdout).into_owned();
    assert!(said.contains("theirs") && !said.contains("ours"), "{said}");
}

#[tokio::test]
async fn lists_have_what_a_caller_sees_whatever_is_asked_for() {
    let test = TestApp::start().await;
    let inside = create(&test.app, INNER, None).await.expect("a session");
    let outside = create(&test.app, Some("{}"), None).await.expect("a session");
    let foreign = caller(&test, "other", None, None);
    let theirs = create(&foreign, INNER, None).await.expect("a session");
    for (app, session) in [(&test.app, &inside), (&test.app, &outside), (&foreign, &theirs)] {
        app.sessions().add_label(session, "x".to_owned()).await.expect("a label");
    }
    let bound = caller(&test, "", Some("inner"), None);
    let rooted = caller(&test, "", None, Some(&inside));
    let everything = || SessionConditions { archived: true, ..SessionConditions::default() };
    let labeled = || SessionConditions { labels: vec!["x".to_owned()], ..everything() };
    let active = || SessionConditions { state: Some(SessionState::Active), ..everything() };
    for (app, expected) in [
        (&test.app, vec![&inside, &outside]),
        (&bound, vec![&inside]),
        (&rooted, vec![&inside]),
        (&foreign, vec![&theirs]),
    ] {
        for conditions in [everything(), labeled(), active()] {
            for order in [SessionOrder::OldestFirst, SessionOrder::LastChangedLast] {
                let wanted = ListSessions { conditions: conditions.clone(), order, ..ListSessions::default() };
                let (listed, _) = app.sessions().list(&wanted).await.expect("a list");
                let ids: Vec<String> = listed.iter().map(|info| info.session.id.to_string()).collect();
                assert_eq!(ids.iter().collect::<Vec<_>>(), expected, "{conditions:?} {order:?}");
            }
        }
        for hidden in [&inside, &outside, &theirs].into_iter().filter(|id| !expected.contains(id)) {
            let refused = refusal(app.sessions().add_label(hidden, "y".to_owned()).await);
            assert_eq!(refused.0, Reason::SessionNotFound);
            let below = SessionConditions { root: Some(hidden.clone()), ..everything() };
            let wanted = ListSessions { conditions: below, ..ListSessions::default() };
            assert_eq!(refusal(app.sessions().list(&wanted).await).0, Reason::SessionNotFound);
        }
    }
    // A followed list has no word of the others, not even that they left.
    let mut watch = bound.sessions().watch(&labeled(), None).await.expect("a stream");
    test.app.sessions().remove_label(&outside, "x".to_owned()).await.expect("removed");
    foreign.sessions().remove_label(&theirs, "x".to_owned()).await.expect("removed");
    test.app.sessions().remove_label(&inside, "x".to_owned()).await.expect("removed");
    loop {
        match soon("a frame", watch.next()).await.expect("it goes on").expect("a frame") {
            ListFrame::Snapshot { sessions } => {
                assert!(sessions.iter().all(|info| info.session.id.to_string() == inside))
            }
            ListFrame::Changes { sessions, removed, .. } => {
                assert!(sessions.is_empty());
                assert_eq!(removed.iter().map(ToString::to_string).collect::<Vec<_>>(), [inside]);
                break;
            }
            ListFrame::SnapshotEnd { .. } | ListFrame::Progress { .. } => {}
        }
    }
}
