//! Edits that leave a message out of views, and edits made by an import.

use crate::cli::Daemon;
use crate::support::{Line, ScriptedSummarizer, TestApp, conversation, shown, text, turns, words_of};
use longhand::app::Reason;
use longhand::app::append::{EditRequest, OpenPart};
use longhand::app::compactions::NewCompaction;
use longhand::app::sessions::ForkPoint;
use longhand::app::views::ServedView;
use longhand::limits;
use longhand::model::compaction::CompactionKind;
use longhand::model::event::{EventBody, EventKind};
use longhand::model::layout::OmitReason;
use longhand::model::message::Finish;
use longhand::model::part::NewPart;
use longhand::policy::pairing;
use serde_json::{Value, json};
use std::path::Path;

/// The revisions that a view shows, and those that edits leave out of it.
fn shown_and_omitted(view: &ServedView) -> (Vec<i64>, Vec<i64>) {
    assert_eq!(pairing::violations(&view.messages), Vec::<String>::new());
    let shown = view.messages.iter().filter(|message| message.source.is_some()).map(|message| message.revision);
    let edited = view.omitted.iter().filter(|omitted| omitted.reason == OmitReason::Edited);
    (shown.collect(), edited.map(|omitted| omitted.range.first).collect())
}

#[tokio::test]
async fn an_edit_without_parts_leaves_a_message_out_until_it_is_taken_back() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na2 \"two\" call=c1\nt3 result=c1:three\nu4 \"four\"").await;
    let revisions: Vec<i64> = test.history(&session).await.iter().map(|message| message.revision).collect();
    let [u1, a2, t3, u4] = revisions[..] else { panic!("{revisions:?}") };
    let before = test.view(&session).await;
    let app = &test.app;
    let left_out = test.once("out", "a2").messages().edit(&session, "a2", &[], None).await.expect("left out");
    assert!(left_out.ids.is_empty(), "nothing stands in its place");
    assert_eq!(test.once("out", "a2").messages().edit(&session, "a2", &[], None).await.expect("again"), left_out);
    // The result of the call that is left out is rendered as text at its own position.
    assert_eq!(shown_and_omitted(&test.view(&session).await), (vec![u1, t3, u4], vec![a2]));
    assert_eq!(words_of(&app.messages().get(&session, "a2").await.expect("kept").0), "two");

    let edited = app.messages().edit(&session, "a2", &[text("dos")], None).await.expect("edited");
    let replacement = edited.revision - 1;
    assert_eq!(shown_and_omitted(&test.view(&session).await), (vec![u1, replacement, t3, u4], vec![a2]));
    app.messages().edit(&session, "a2", &[], None).await.expect("left out");
    app.messages().pin(&session, "a2").await.expect("pinned");
    let fork = app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await.expect("forked").answer;
    let fork = fork.0.session.id.to_string();
    for session in [&session, &fork] {
        assert_eq!(
            shown_and_omitted(&test.view(session).await),
            (vec![u1, t3, u4], vec![a2, replacement]),
            "the newest counts"
        );
    }
    app.compactions().undo(&fork, None).await.expect("undone");
    assert_eq!(shown_and_omitted(&test.view(&fork).await), (vec![u1, replacement, t3, u4], vec![a2]));
    for _ in 0..3 {
        app.compactions().undo(&session, None).await.expect("undone");
    }
    let back = test.view(&session).await;
    assert_eq!((&back.messages, back.hash), (&before.messages, before.hash));
    assert_eq!(app.compactions().redo(&session, None).await.map(|_| ()).ok(), Some(()));
    assert_eq!(shown_and_omitted(&test.view(&session).await).0, [u1, t3, u4]);

    let sealed_flags = test.events().await.into_iter().filter_map(|event| match event.body {
        EventBody::MessageEdited { replacement, .. } => Some(replacement.is_some()),
        _ => None,
    });
    assert_eq!(sealed_flags.collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(test.findings().await, []);
    let test = test.restart().await;
    assert_eq!(shown_and_omitted(&test.view(&session).await).0, [u1, t3, u4]);
}

#[tokio::test]
async fn a_message_that_is_left_out_is_in_no_summary_and_comes_back_from_under_one() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na2 \"two\"\nu3 \"three\"\na4 \"four\"").await;
    let app = &test.app;
    app.messages().edit(&session, "a2", &[], None).await.expect("left out");
    let summary = longhand::app::compactions::NewSummary {
        text: "so far".to_owned(),
        tail_start: "u3".to_owned(),
        ..Default::default()
    };
    app.compactions().supply_summary(&session, summary).await.expect("supplied");
    let a2 = app.messages().get(&session, "a2").await.expect("kept").0.revision;
    let view = test.view(&session).await;
    let covered = view.covered.as_ref().expect("a summary");
    assert!(!covered.ranges.iter().any(|range| range.contains(a2)), "{covered:?}");
    assert_eq!(shown_and_omitted(&view).1, [a2]);
    // A replacement in its place ends the summary, which does not cover it.
    app.messages().edit(&session, "a2", &[text("dos")], None).await.expect("edited");
    assert_eq!(test.view(&session).await.covered, None);
    app.compactions().undo(&session, None).await.expect("undone");
    assert!(test.view(&session).await.covered.is_some());
    assert_eq!(test.findings().await, []);
}

/// Writes a pi session file, each entry a child of the one before it.
fn pi_file(path: &Path, entries: &[(&str, Value)]) {
    let mut lines = vec![json!({"type":"session","version":3,"id":"ses","timestamp":"2026-01-05T10:00:00Z","cwd":"/"})];
    let mut parent = Value::Null;
    for (id, entry) in entries {
        let mut entry = if entry["type"].is_null() { json!({"type":"message","message":entry}) } else { entry.clone() };
        (entry["id"], entry["parentId"]) = ((*id).into(), parent);
        parent = (*id).into();
        lines.push(entry);
    }
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    std::fs::write(path, lines.join("\n") + "\n").expect("the transcript is written");
}

fn user(words: &str) -> Value {
    json!({"role":"user","content":words})
}

fn reply(content: Value) -> Value {
    json!({"role":"assistant","content":content,"provider":"p","model":"m","stopReason":"stop"})
}

fn context_edit(target: &str, replacement: Value) -> Value {
    json!({"type":"context_edit","targetId":target,"replacement":replacement})
}

/// The text of a session's view, message by message, and the number of messages that edits leave out.
fn texts_and_count(daemon: &Daemon, session: &str) -> (Vec<String>, usize) {
    let frames = daemon.json(&["view", session]);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let words = |message: &Value| {
        let parts = list(&message["parts"]).into_iter().map(|part| {
            let part = &part["part"];
            let words = [&part["text"]["text"], &part["toolCall"]["callId"], &part["toolResult"]["output"]];
            words.into_iter().filter_map(Value::as_str).collect::<String>()
        });
        parts.collect::<Vec<_>>().join(" ")
    };
    let messages = frames.iter().flat_map(|frame| list(&frame["messages"]["messages"]));
    let omitted = frames.iter().flat_map(|frame| list(&frame["end"]["omitted"]));
    let edited = omitted.filter(|omitted| omitted["reason"] == "OMIT_REASON_EDITED");
    (messages.map(|message| words(&message)).collect(), edited.count())
}

fn session_of(report: &Value) -> &str {
    report["sessions"][0]["session_id"].as_str().expect("a session")
}

#[test]
fn an_import_makes_the_edits_that_pi_made() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("session.jsonl");
    let call = json!([{"type":"toolCall","id":"c1","name":"read","arguments":{}}]);
    let result = json!({"role":"toolResult","toolCallId":"c1","content":"a long output","isError":false});
    pi_file(
        &file,
        &[
            ("u1", user("good")),
            ("m1", json!({"type":"model_change","provider":"p","modelId":"m"})),
            ("a1", reply(call)),
            ("r1", result),
            ("a2", reply(json!("a failed attempt"))),
            ("e1", context_edit("a2", Value::Null)),
            ("e2", context_edit("r1", json!({"content":"in short"}))),
            ("u2", user("go on")),
            ("e3", context_edit("u1", json!({"content":"better"}))),
            ("e4", context_edit("u1", json!({"content":"best"}))),
            ("e5", context_edit("m1", Value::Null)),
            ("a3", reply(json!("done"))),
        ],
    );
    let file = file.display().to_string();
    let daemon = Daemon::start(home.path());
    for arguments in
        [vec!["import", &file], vec!["import", "--live", "--preset", "pi@1.5", "--window", "100000", &file]]
    {
        let report = daemon.json(&arguments).remove(0);
        assert_eq!((&report["agent_edits"], &report["problems"]), (&json!(4), &json!(1)), "{report}");
        let session = session_of(&report);
        // Left out are two originals with replacements, the first of those replacements, and the failed attempt.
        let expected = ["best", "c1", "in short", "go on", "done"].map(str::to_owned).to_vec();
        assert_eq!(texts_and_count(&daemon, session), (expected, 4), "{arguments:?}");
        let shown = daemon.json(&["show", session, "--records"]);
        let kept = |id: &str| shown.iter().filter(|message| message["clientId"] == id).count();
        assert_eq!(["u1", "r1", "a2", "e1", "e2", "e3", "e4", "e5"].map(kept), [1; 8], "nothing of the file is lost");

        // A second import edits nothing, even if an edit was undone meanwhile.
        let events = daemon.json(&["events"]).len();
        assert_eq!(daemon.json(&arguments).remove(0)["written"], 0);
        assert_eq!(daemon.json(&["events"]).len(), events);
        daemon.text(&["undo", session]);
        daemon.json(&arguments);
        assert_eq!(texts_and_count(&daemon, session).0[0], "better");
    }
    assert!(daemon.run(&["audit", "verify"]).status.success());
}

#[test]
fn a_summary_of_the_agents_own_follows_the_edit_that_hid_an_attempt() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("session.jsonl");
    let compaction = json!({"type":"compaction","summary":"so far","firstKeptEntryId":"u2","tokensBefore":9});
    pi_file(
        &file,
        &[
            ("u1", user("one")),
            ("a1", reply(json!("two"))),
            ("u2", user("three")),
            ("a2", reply(json!("too large"))),
            ("e1", context_edit("a2", Value::Null)),
            ("k1", compaction),
            ("a3", reply(json!("four"))),
        ],
    );
    let daemon = Daemon::start(home.path());
    let report = daemon.json(&["import", &file.display().to_string()]).remove(0);
    assert_eq!(report["compactions"]["supplied"], 1, "{report}");
    let (words, edited) = texts_and_count(&daemon, session_of(&report));
    let summary = words.iter().position(|words| words.contains("so far")).expect("the summary is in the view");
    assert_eq!((&words[summary + 1..], edited), (&["three".to_owned(), "four".to_owned()][..], 1), "{words:?}");
}

#[tokio::test]
async fn an_undone_edit_under_a_running_summary_supersedes_it() {
    let script = ScriptedSummarizer::new([Line::Hold("S1".to_owned())]);
    let test = TestApp::with(script.clone()).await;
    let session = test.session("opencode@seed", 60_000, 1_000).await;
    test.append(&session, &turns(1, 6, 1_100)).await;
    let whole = test.view(&session).await;
    test.app.messages().edit(&session, "a2", &[], None).await.expect("left out");
    let mut watch = test.watch().await;
    let wanted = NewCompaction { tail_start: "u5".to_owned(), ..NewCompaction::of_kind(CompactionKind::Summary) };
    test.app.compactions().start(&session, wanted).await.expect("asked");
    script.held().await;
    test.app.compactions().undo(&session, None).await.expect("undone");
    script.release();
    let ended = watch.wait_for(EventKind::CompactionCancelled).await.body;
    let EventBody::CompactionCancelled { failure, .. } = ended else { panic!("another body") };
    assert_eq!(failure.reason.as_str(), "SUPERSEDED");
    assert_eq!(test.view(&session).await.messages, whole.messages);
}

#[tokio::test]
async fn layouts_of_many_edits_take_linear_space_and_every_one_of_them_can_be_read() {
    const EDITS: usize = 250;
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, EDITS, 1)).await;
    let mut views = Vec::new();
    for index in 1..=EDITS {
        let edited =
            test.app.messages().edit(&session, &format!("u{index}"), &[text("other")], None).await.expect("edited");
        views.push((edited.revision, shown_and_omitted(&test.view(&session).await)));
    }
    let bytes = test.number("select sum(length(body)) from layout");
    assert!(bytes < 120 * EDITS as i64, "{bytes} bytes for {EDITS} layouts");
    for (revision, expected) in views.iter().step_by(23).chain(views.last()) {
        let view = test.view_as_of(&session, *revision).await;
        assert_eq!(shown_and_omitted(&view), *expected, "as of {revision}");
    }
}

#[tokio::test]
async fn the_newest_messages_are_those_of_the_history_whatever_the_view_shows() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let app = &test.app;
    // Each view loads the session again, and the pages of the history come from memory where that is right.
    let check = async |what: &str| {
        test.view(&session).await;
        let history = test.history(&session).await;
        assert!(history.len() > 8, "{what}: a page is not all of it");
    };
    test.append(&session, &(1..10).map(|turn| format!("u{turn} \"word\"\na{turn} \"yes\"\n")).collect::<String>())
        .await;
    check("as written").await;
    test.append(&session, "r10 \"{}\"\nu10 \"word\"").await;
    check("with a record").await;
    app.messages().edit(&session, "u2", &[text("other")], None).await.expect("edited");
    check("edited").await;
    test.append(&session, "u11 \"word\"\na11 \"yes\"\nr11 \"{}\"").await;
    check("behind an edit").await;
    app.messages().rewind(&session, "a3", None).await.expect("rewound");
    check("rewound").await;
    test.append(&session, "u12 \"word\"\na12 \"yes\" open").await;
    check("with an open message").await;
    app.messages().append_parts(&session, "a12", vec![OpenPart::Whole(text("more"))]).await.expect("added");
    check("with a new part").await;
    app.messages().finish(&session, "a12", Finish::default(), None).await.expect("sealed");
    check("sealed").await;
    test.append(&session, "u13 \"word\"\na13 \"yes\"").await;
    check("behind an open message").await;
}

#[tokio::test]
async fn an_edit_has_metadata_of_its_own() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let mut messages = conversation("u1 \"one\"\na2 \"two\" call=c1");
    messages[1].metadata_json = Some("{\"first\": 1}".to_owned());
    test.app.messages().append(&session, messages, None, None).await.expect("appended");
    let given = |metadata: &str| Some(metadata.to_owned());
    let metadata =
        |view: &ServedView| view.messages[1].original_fields.as_ref().and_then(|of| of.metadata_json.clone());
    let with = |parts: Vec<NewPart>, metadata_json| EditRequest {
        message: "a2",
        parts,
        metadata_json,
        ..EditRequest::default()
    };
    let app = &test.app;
    let at = test.view(&session).await;
    assert_eq!(metadata(&at), given("{\"first\": 1}"));
    let before = test.revision(&session).await;
    let large = format!("\"{}\"", "x".repeat(limits::METADATA_BYTES_MAX));
    for (parts, metadata) in [(vec![text("x")], "{"), (vec![text("x")], large.as_str()), (Vec::new(), "{}")] {
        let refused = app.messages().edit_with(&session, with(parts, given(metadata))).await.expect_err("refused");
        assert!(matches!(refused.reason, Reason::InvalidField | Reason::LimitExceeded), "{refused:?}");
    }
    assert_eq!(test.revision(&session).await, before, "nothing was written");

    // Byte for byte, and hashed with the view.
    let second = given("{\"second\":  2.0}");
    app.messages().edit_with(&session, with(vec![text("dos")], second.clone())).await.expect("edited");
    let edited = test.view(&session).await;
    assert_eq!(metadata(&edited), second);
    app.compactions().undo(&session, None).await.expect("undone");
    let other = given("{\"other\": 2}");
    app.messages().edit_with(&session, with(vec![text("dos")], other.clone())).await.expect("edited");
    let again = test.view(&session).await;
    assert_eq!((metadata(&again), shown(&again)), (other.clone(), shown(&edited)));
    assert_ne!(again.hash, edited.hash);
    let fork = app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await.expect("forked").answer;
    assert_eq!(metadata(&test.view(&fork.0.session.id.to_string()).await), other);
    app.messages().edit(&session, "a2", &[text("dos")], None).await.expect("edited");
    assert_eq!(metadata(&test.view(&session).await), None, "an edit without has none");
    let test = test.restart().await;
    let as_of = |revision| test.view_as_of(&session, revision);
    assert_eq!((as_of(at.revision).await.hash, as_of(edited.revision).await.hash), (at.hash, edited.hash));
    assert_eq!(test.findings().await, []);
}
