//! A large session is erased in steps: others write in between, and a daemon that stops between two of them goes on.

use crate::cli::Daemon;
use crate::support::{TestApp, conversation, filler, window};
use longhand::app::Reason;
use longhand::app::compactions::NewSummary;
use longhand::app::erase::{EraseRequest, EraseTarget};
use longhand::app::sessions::{ForkPoint, NewSession, SessionChange};
use longhand::limits;
use longhand::model::event::{EventBody, EventKind};
use longhand::model::session::SessionState;
use longhand::store::{self, Requester, Visibility};
use longhand::telemetry::failpoint;
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const SIGABRT: i32 = 6;

/// Messages of a session that takes several steps.
const MESSAGES: i64 = 2 * limits::ERASE_STEP_REVISIONS_SERVER + 50;

fn request() -> EraseRequest {
    EraseRequest {
        target: EraseTarget::Session,
        reason: "it is over".to_owned(),
        dry_run: false,
        expected_revision: None,
    }
}

/// A session with as many messages, with summaries over borders of steps, edits, titles, and a fork of all of it.
async fn large(test: &TestApp) -> (String, String) {
    let new = NewSession {
        client_id: Some("mine".to_owned()),
        title: "a first title".to_owned(),
        metadata_json: Some("{\"project\":\"p\",\"x\":\"secret words\"}".to_owned()),
        window: window(1_000_000, 1_000),
        ..NewSession::default()
    };
    let session = test.create(new).await;
    let lines: Vec<String> = (1..=MESSAGES)
        .map(|number| format!("{}{number} \"secret words {number}\"", if number % 2 == 1 { "u" } else { "a" }))
        .collect();
    for lines in lines.chunks(100) {
        test.append(&session, &lines.join("\n")).await;
    }
    for (text, tail_start) in [("secret words, summed up", "u101"), ("secret words, more of them", "u301")] {
        let (text, tail_start) = (filler(text, 100), tail_start.to_owned());
        let new = NewSummary { text, tail_start, summarizer: "test".to_owned(), ..NewSummary::default() };
        test.app.compactions().supply_summary(&session, new).await.expect("supplied");
    }
    test.app
        .messages()
        .edit(&session, "u401", &[crate::support::text("secret words, edited")], None)
        .await
        .expect("edited");
    let retitled = SessionChange { title: Some("secret words as a title".to_owned()), ..SessionChange::default() };
    test.app.sessions().update(&session, retitled).await.expect("changed");
    let fork =
        test.app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await.expect("forked").answer.0;
    test.append(&fork.session.id.to_string(), "u \"of the fork\"").await;
    test.append(&session, "a \"secret words, open\" open").await;
    (session, fork.session.id.to_string())
}

/// Makes the first step of the erasure of a session, as if the next one had failed: nobody goes on after it.
async fn begin(test: &TestApp, session: &str) {
    let store = test.longhand.store();
    let stopping = CancellationToken::new();
    stopping.cancel();
    let key = store.sessions().find(&Visibility::default(), session).await.expect("a session");
    let request = (store::EraseTarget::Session, store::CheckedInput::trusted("it is over".to_owned()), None);
    let erased = store.erasures().erase(key, Requester::default(), request, &stopping).await;
    assert!(matches!(erased, Err(store::Error::Closed)), "it takes several steps: {erased:?}");
}

#[tokio::test]
async fn a_large_session_is_erased_in_steps_and_nothing_is_left_of_it() {
    let test = TestApp::start().await;
    let (session, fork) = large(&test).await;
    let other = test.manual_session().await;
    let would =
        test.app.content().erase(&session, EraseRequest { dry_run: true, ..request() }).await.expect("a preview");
    let before = test.events().await.len();
    let caller = test.once("request", "one payload");
    let mut erasing = Box::pin(caller.content().erase(&session, request()));
    // Other writes are committed in between, and the session takes none from the first step on.
    let mut between = 0;
    let erased = loop {
        tokio::select! {
            erased = &mut erasing => break erased.expect("erased"),
            appended = test.app.messages().append(&other, conversation("u \"meanwhile\""), None, None) => {
                appended.expect("appended");
                between += 1;
            }
        }
    };
    assert!(between > 2, "{between} appends found their way between the steps");
    // The draft became a part.
    assert_eq!((erased.sizes.messages, erased.sizes.forks), (would.sizes.messages, 1));
    assert_eq!(erased.sizes.summaries, would.sizes.summaries);
    let events = test.events().await.split_off(before);
    let steps = |of: &str| -> Vec<(bool, i64)> {
        let of_session = events.iter().filter(|event| event.session_id.to_string() == of);
        let step = |body: &EventBody| match body {
            EventBody::Erased { unfinished, ranges, .. } => {
                Some((*unfinished, ranges.first().map_or(0, |range| range.first)))
            }
            _ => None,
        };
        of_session.filter_map(|event| step(&event.body)).collect()
    };
    let (own, of_fork) = (steps(&session), steps(&fork));
    assert!(own.len() >= 3 && of_fork.len() == own.len(), "{own:?}, {of_fork:?}");
    assert!(own.iter().rev().skip(1).all(|(unfinished, _)| *unfinished) && !own[own.len() - 1].0, "{own:?}");
    let firsts: Vec<i64> = own[..own.len() - 1].iter().map(|(_, first)| *first).collect();
    assert!(firsts.windows(2).all(|pair| pair[0] < pair[1]), "{firsts:?}");

    for id in [&session, &fork] {
        let info = test.app.sessions().get(id).await.expect("it is there").session;
        assert_eq!(info.title, "", "{id}");
        for message in test.history(id).await {
            let is_own = message.session_id.to_string() == session;
            assert!(message.parts.iter().all(|part| part.body.is_erased() == is_own), "{message:?}");
        }
    }
    assert!(!format!("{:?}", test.events().await).contains("secret words"));
    assert_eq!(test.app.sessions().get(&session).await.expect("there").session.state, SessionState::Erased);
    assert_eq!(test.number("select count(*) from erasing"), 0);
    let repeated =
        test.once("request", "one payload").content().erase(&session, request()).await.expect("the same answer");
    assert_eq!((repeated.event, repeated.sizes, repeated.existed), (erased.event, erased.sizes, true));
    drop(erasing);
    drop(caller);
    let other_request = test.once("request", "another payload").content().erase(&session, request()).await;
    assert_eq!(other_request.expect_err("it is taken").reason, Reason::RequestIdReused);
    test.create(NewSession { client_id: Some("mine".to_owned()), ..NewSession::default() }).await;
    test.settled().await;
    assert_eq!(test.findings().await, []);
    let test = test.restart().await;
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_session_whose_erasure_has_begun_takes_nothing_and_goes_on_without_its_caller() {
    let test = TestApp::start().await;
    let (session, _) = large(&test).await;
    let history = test.history(&session).await;
    let with = |id: &str| history.iter().find(|message| message.client_id.as_deref() == Some(id)).expect(id).id;
    let [erased, other] = ["u1", "a2"].map(|id| with(id).to_string());
    let of = |id: &str| EraseRequest { target: EraseTarget::Messages(vec![id.to_owned()]), ..request() };
    let mut watch = test.watch().await;
    let before = test.app.content().erase(&session, of(&erased)).await.expect("erased");
    // In the session, and in its fork.
    for _ in 0..2 {
        watch.wait_for(EventKind::Erased).await;
    }
    begin(&test, &session).await;
    for _ in 0..2 {
        let first = watch.wait_for(EventKind::Erased).await;
        assert!(matches!(first.body, EventBody::Erased { unfinished: true, .. }), "{first:?}");
    }
    let appended = test.app.messages().append(&session, conversation("u \"x\""), None, None).await;
    assert_eq!(appended.expect_err("it is going").reason, Reason::SessionErased);
    let restored = test.app.sessions().restore(&session).await;
    assert_eq!(restored.expect_err("it is going").reason, Reason::SessionErased);
    // What a step took has no erasure of its own until the last one: that of before counts.
    let again = test.app.content().erase(&session, of(&erased)).await.expect("the same answer");
    assert_eq!((again.event, again.existed), (before.event, true));
    assert_eq!(
        test.app.content().erase(&session, of(&other)).await.expect_err("it is going").reason,
        Reason::SessionErased
    );
    let mut erasing = Box::pin(test.app.content().erase(&session, request()));
    tokio::select! {
        erased = &mut erasing => drop(erased.expect("erased")),
        _ = watch.wait_for(EventKind::Erased) => drop(erasing),
    }
    loop {
        let event = watch.wait_for(EventKind::Erased).await;
        if matches!(event.body, EventBody::Erased { unfinished: false, from: None, .. }) {
            break;
        }
    }
    let again = test.app.content().erase(&session, request()).await.expect("the same answer");
    assert!(again.existed);
    for id in [&erased, &other] {
        let of_message = test.app.content().erase(&session, of(id)).await.expect("the same answer");
        assert_eq!((of_message.event, of_message.existed), (again.event, true), "{id}");
    }
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_small_rest_goes_with_the_step_before_it() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    // One revision more than a step, with that of the session.
    let lines: Vec<String> = (1..=limits::ERASE_STEP_REVISIONS).map(|number| format!("u{number} \"x\"")).collect();
    test.append(&session, &lines.join("\n")).await;
    let erased = test.app.content().erase(&session, request()).await.expect("erased");
    assert_eq!(erased.sizes.messages, limits::ERASE_STEP_REVISIONS);
    let events = test.events().await;
    let steps = events.iter().filter(|event| matches!(event.body, EventBody::Erased { .. })).count();
    assert_eq!(steps, 1);
}

#[tokio::test]
async fn an_erasure_whose_step_failed_goes_on_while_the_daemon_runs() {
    let test = TestApp::start().await;
    let (session, _) = large(&test).await;
    let mut watch = test.watch().await;
    let finishing = tokio::spawn(test.longhand.clone().finish_erasures(Duration::from_millis(1)));
    // After the first look nothing is there to go on with.
    assert_eq!(test.findings().await, []);
    begin(&test, &session).await;
    loop {
        let event = watch.wait_for(EventKind::Erased).await;
        if matches!(event.body, EventBody::Erased { unfinished: false, from: None, .. }) {
            break;
        }
    }
    assert!(test.app.content().erase(&session, self::request()).await.expect("the same answer").existed);
    finishing.abort();
}

#[test]
fn a_daemon_that_dies_between_two_steps_goes_on_at_its_next_start() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("large.jsonl");
    let header =
        json!({"type": "session", "version": 3, "id": "large", "timestamp": "2026-01-05T10:00:00.000Z", "cwd": "/"});
    let line = |number: i64| {
        let parent = (number > 1).then(|| (number - 1).to_string());
        json!({"type": "message", "id": number.to_string(), "parentId": parent, "timestamp": "2026-01-05T10:00:00.000Z",
            "message": {"role": "user", "content": format!("zqjpbvbwsmwfmmdfmmtr {number}")}})
    };
    let lines: Vec<String> =
        std::iter::once(header).chain((1..=MESSAGES).map(line)).map(|line| line.to_string()).collect();
    std::fs::write(&file, lines.join("\n")).expect("a file");
    let (daemon, _) = Daemon::start_as(home.path(), |command| {
        command.env(failpoint::VARIABLE, "erase.committed:2");
    });
    let imported = daemon.json(&["import", &file.display().to_string(), "--client-id", "mine"]).remove(0);
    let session = imported["sessions"][0]["session_id"].as_str().expect("an id").to_owned();
    let erase = ["erase", session.as_str(), "--reason", "it is over", "--yes", "--actor", "lawyer"];
    let failed = daemon.run(&erase);
    assert!(!failed.status.success(), "nobody answered");
    assert_eq!(daemon.ended().signal(), Some(SIGABRT));

    let daemon = Daemon::start(home.path());
    let ends =
        |event: &Value| event["erased"]["target"] == "ERASED_TARGET_SESSION" && event["erased"]["unfinished"] != true;
    let events = (0..1_000).map(|_| daemon.json(&["events"])).find(|events| events.iter().any(ends));
    let events = events.expect("it goes on without being asked");
    let erasures: Vec<&Value> = events.iter().filter(|event| event["erased"].is_object()).collect();
    assert!(erasures.len() >= 3, "{erasures:?}");
    assert!(erasures.iter().all(|event| event["actor"] == "lawyer" && event["erased"]["reason"] == "it is over"));
    assert!(!daemon.text(&["show", &session, "--json", "--records"]).contains("zqjpbvbwsmwfmmdfmmtr"));
    // The header of the file is a record.
    let again = daemon.json(&erase).remove(0);
    assert_eq!(
        (&again["existed"], &again["messageCount"]),
        (&json!(true), &json!((MESSAGES + 1).to_string())),
        "{again}"
    );
    // What PostgreSQL keeps, it keeps in any case.
    assert_eq!(again["pendingFiles"].as_array().map_or(0, Vec::len), if crate::engines::is_sqlite() { 0 } else { 2 });
    for entry in std::fs::read_dir(&daemon.directory).expect("the folder").map(|entry| entry.expect("an entry")) {
        if entry.path().is_file() {
            let bytes = std::fs::read(entry.path()).expect("a file");
            assert!(!bytes.windows(16).any(|window| window == b"bvbwsmwfmmdfmmtr"), "{:?} has it", entry.path());
        }
    }
    assert!(daemon.run(&["audit", "verify"]).status.success());
}
