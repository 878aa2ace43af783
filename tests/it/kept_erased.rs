//! What was erased stays erased when it is written again, if the request asks for that.

use crate::cli::Daemon;
use crate::support::{TestApp, conversation, shown, text, turns, window};
use longhand::app::Reason;
use longhand::app::append::{AppendAnswer, AppendRequest, EditRequest, NewDraftText};
use longhand::app::compactions::NewSummary;
use longhand::app::erase::{EraseRequest, EraseTarget, part_target};
use longhand::app::sessions::NewSession;
use longhand::limits;
use longhand::model::draft::DraftKind;
use longhand::model::message::{Message, NewMessage, Role};
use longhand::model::part::{Media, MediaSource, NewPart, PartBody};
use longhand::secrets::{Action, Rule, Rules};
use serde_json::{Value, json};
use std::path::Path;

async fn erase(test: &TestApp, session: &str, target: EraseTarget) {
    let request =
        EraseRequest { target, reason: "a key was pasted".to_owned(), dry_run: false, expected_revision: None };
    test.app.content().erase(session, request).await.expect("erased");
}

async fn erase_message(test: &TestApp, session: &str, id: &str) {
    erase(test, session, EraseTarget::Messages(vec![id.to_owned()])).await;
}

async fn append(test: &TestApp, session: &str, messages: Vec<NewMessage>, keep_erased: bool) -> AppendAnswer {
    let request = AppendRequest { messages, keep_erased, ..AppendRequest::default() };
    test.app.messages().append_with(session, request).await.expect("appended").answer
}

/// For each message, which of its parts have no content.
fn erased_parts(messages: &[Message]) -> Vec<Vec<bool>> {
    messages.iter().map(|message| message.parts.iter().map(|part| part.body.is_erased()).collect()).collect()
}

/// A conversation with every kind of content that is kept in a way of its own.
fn all_kinds() -> Vec<NewMessage> {
    let media = |bytes: usize| Media {
        mime_type: "image/png".to_owned(),
        name: "a.png".to_owned(),
        source: MediaSource::Bytes(vec![7; bytes]),
    };
    let mut messages = conversation(
        "u1 \"the key is hush\"
         a1 \"so be it\" call=c1
         t1 result=c1:50c
         r1 \"a line\"
         u2 \"one\" \"two\"",
    );
    messages[0].metadata_json = Some("{\"line\":1}".to_owned());
    if let PartBody::ToolResult(result) = std::sync::Arc::make_mut(&mut messages[2].parts[0].body) {
        result.attachments.extend([media(100), media(limits::BLOB_BYTES_MIN + 1)]);
    }
    messages[4].parts.push(NewPart { metadata_json: Some("{\"s\":1}".to_owned()), ..text("three") });
    messages[4].metadata_json = Some("{\"line\":5}".to_owned());
    messages.push(NewMessage {
        client_id: Some("u3".to_owned()),
        ..NewMessage::sealed(
            Role::User,
            vec![text(&"large ".repeat(limits::BLOB_BYTES_MIN)), NewPart::new(PartBody::Media(media(10)))],
        )
    });
    messages
}

#[tokio::test]
async fn content_that_was_erased_comes_again_without_itself() {
    let test = TestApp::start().await;
    let first = test.manual_session().await;
    append(&test, &first, all_kinds(), true).await;
    let whole = test.history(&first).await;
    assert!(erased_parts(&whole).concat().iter().all(|erased| !erased), "nothing was erased before");
    for id in ["u1", "t1", "r1", "u3"] {
        erase_message(&test, &first, id).await;
    }
    let third = whole[4].parts[2].id.to_string();
    erase(&test, &first, part_target(&third).expect("an id")).await;
    let left = test.history(&first).await;
    let there = append(&test, &first, all_kinds(), false).await;
    assert_eq!((there.existed_count, there.erased.len()), (6, 5), "{there:?}");

    // Also behind a restart, and if the requests are in the same transaction.
    let test = test.restart().await;
    let second = test.manual_session().await;
    let again = append(&test, &second, all_kinds(), true).await;
    let again_left = test.history(&second).await;
    let content = |messages: &[Message]| -> Vec<_> {
        let parts = |message: &Message| {
            message.parts.iter().map(|part| (part.body.clone(), part.metadata_json.clone())).collect::<Vec<_>>()
        };
        messages
            .iter()
            .map(|message| (message.client_id.clone(), message.metadata_json.clone(), parts(message)))
            .collect()
    };
    let without_answers = |messages: &[Message]| {
        format!("{:?}", content(messages))
            .replace(&left[1].id.to_string(), "CALL")
            .replace(&again_left[1].id.to_string(), "CALL")
    };
    assert_eq!(without_answers(&again_left), without_answers(&left), "it is what the erasures left");
    let erased: Vec<_> = [0, 2, 3, 4, 5].iter().map(|at| again.ids[*at]).collect();
    assert_eq!((again.existed_count, again.erased), (0, erased));
    assert_eq!(shown(&test.view(&second).await), shown(&test.view(&first).await));
    let repeated = append(&test, &second, all_kinds(), true).await;
    assert_eq!((repeated.existed_count, repeated.erased.len()), (6, 5));

    let third = test.manual_session().await;
    let plain = append(&test, &third, all_kinds(), false).await;
    assert_eq!(plain.erased, Vec::<uuid::Uuid>::new());
    assert!(erased_parts(&test.history(&third).await).concat().iter().all(|erased| !erased), "it was not asked for");
    test.settled().await;
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn other_content_and_other_ids_are_no_matter() {
    let test = TestApp::start().await;
    let first = test.manual_session().await;
    test.append(&first, "u1 \"the key is hush\"").await;
    erase_message(&test, &first, "u1").await;
    let others = conversation(
        "u2 \"the key is hush\"
         u1 \"the key is hush!\"
         u \"the key is hush\"",
    );
    let second = test.manual_session().await;
    assert_eq!(append(&test, &second, others, true).await.erased, Vec::<uuid::Uuid>::new());
    assert_eq!(erased_parts(&test.history(&second).await), [[false]; 3]);
}

#[tokio::test]
async fn what_came_in_pieces_or_was_redacted_is_known_again() {
    let test = TestApp::start().await;
    let rule = Rule { name: "hush".to_owned(), pattern: "hush-[0-9a-f]{16}".to_owned(), action: Action::Redact };
    let rules = Rules::new(&[rule]).expect("they are valid").expect("there are some");
    let first = test.manual_session().await;
    test.append(&first, "a1 open").await;
    let words = NewDraftText {
        part: None,
        client_id: None,
        kind: DraftKind::Text,
        offset: 0,
        delta: "in two pieces".to_owned(),
    };
    test.app.messages().append_draft(&first, "a1", words).await.expect("a draft");
    erase_message(&test, &first, "a1").await;
    test.longhand.store().apply_secret_rules(rules).expect("the key is made");
    let secret = || conversation("u1 \"hush-0123456789abcdef is the key\"");
    append(&test, &first, secret(), false).await;
    erase_message(&test, &first, "u1").await;
    let second = test.manual_session().await;
    assert_eq!(append(&test, &second, secret(), true).await.erased.len(), 1, "under the same rules");
    // A daemon without rules gets what they redacted.
    let test = test.restart().await;
    let third = test.manual_session().await;
    let both = [secret(), conversation("a1 \"in two pieces\"")].concat();
    assert_eq!(append(&test, &third, both, true).await.erased.len(), 2);
    assert_eq!(erased_parts(&test.history(&third).await), [[true], [true]]);
}

#[tokio::test]
async fn a_part_of_an_edit_that_was_erased_alone_comes_again_without_itself() {
    let test = TestApp::start().await;
    let parts = || vec![text("the key is gone"), text("it was hush")];
    let edit = |message: &'static str, keep_erased| EditRequest {
        message,
        parts: parts(),
        metadata_json: Some("{\"edit\":1}".to_owned()),
        keep_erased,
        ..EditRequest::default()
    };
    let there = "u1 \"it was hush\" \"the key is gone\"\nu2 \"two\"";
    let new = async || {
        let session = test.manual_session().await;
        append(&test, &session, conversation(there), true).await;
        session
    };
    let last = async |session: &str| {
        let message = test.history(session).await.pop().expect("the edit");
        (erased_parts(std::slice::from_ref(&message)).concat(), message.metadata_json.is_some())
    };

    let first = new().await;
    test.app.messages().edit_with(&first, edit("u1", true)).await.expect("edited");
    let edited = test.history(&first).await.pop().expect("the edit");
    erase(&test, &first, part_target(&edited.parts[1].id.to_string()).expect("an id")).await;
    let left = shown(&test.view(&first).await);

    let second = new().await;
    assert_eq!(erased_parts(&test.history(&second).await), [vec![false; 2], vec![false]], "the original has it still");
    let receipt = test.app.messages().edit_with(&second, edit("u1", true)).await.expect("edited");
    assert_eq!((last(&second).await, receipt.answer.erased), ((vec![false, true], true), receipt.answer.ids));
    assert_eq!(shown(&test.view(&second).await), left, "it is what the erasure left");
    // An edit of an edit is one of the original.
    let edits = test.history(&second).await.pop().expect("the edit").id.to_string();
    let again = EditRequest { message: &edits, ..edit("", true) };
    test.app.messages().edit_with(&second, again).await.expect("edited");
    assert_eq!(last(&second).await, (vec![false, true], true));
    for (of, keep_erased) in [("u2", true), ("u1", false)] {
        let receipt = test.app.messages().edit_with(&second, edit(of, keep_erased)).await.expect("edited");
        assert_eq!((last(&second).await, receipt.erased.len()), ((vec![false; 2], true), 0), "of {of}");
    }

    // With its last part the edit loses the rest.
    erase(&test, &first, part_target(&edited.parts[0].id.to_string()).expect("an id")).await;
    let third = new().await;
    test.app.messages().edit_with(&third, edit("u1", true)).await.expect("edited");
    assert_eq!(last(&third).await, (vec![true; 2], false));
    test.settled().await;
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn an_erased_session_is_not_made_again_from_its_source() {
    let test = TestApp::start().await;
    let new = |client_id: &str, branch: &str, preset: &str| NewSession {
        client_id: Some(client_id.to_owned()),
        preset: preset.to_owned(),
        metadata_json: Some(json!({"source": {"format": "pi", "id": "s", "branch": branch}}).to_string()),
        window: window(6_000, 1_000),
        keep_erased: true,
        ..NewSession::default()
    };
    let session = test.create(new("one", "main", "")).await;
    let (_, existed) = test
        .app
        .sessions()
        .create(NewSession { keep_erased: false, ..new("one", "main", "") })
        .await
        .expect("found")
        .answer;
    assert!(existed, "a condition makes no other request");
    erase(&test, &session, EraseTarget::Session).await;
    for refused in [new("one", "main", ""), new("one", "main", "pi"), new("two", "main", "")] {
        let error = test.app.sessions().create(refused).await.expect_err("it was erased");
        assert_eq!(error.reason, Reason::SessionErased);
    }
    test.create(new("two", "other", "")).await;
    let anyway = test.create(NewSession { keep_erased: false, ..new("one", "main", "pi") }).await;
    let (found, existed) = test.app.sessions().create(new("one", "main", "pi")).await.expect("it exists").answer;
    assert_eq!((found.session.id.to_string(), existed), (anyway, true));
}

#[tokio::test]
async fn the_text_of_an_erased_summary_is_refused() {
    let test = TestApp::start().await;
    let new = |keep_erased| NewSummary {
        text: "It was said that the key is hush.".to_owned(),
        tail_start: "u3".to_owned(),
        summarizer: "imported".to_owned(),
        keep_erased,
        ..NewSummary::default()
    };
    let first = test.manual_session().await;
    test.append(&first, &turns(1, 4, 300)).await;
    test.app.compactions().supply_summary(&first, new(true)).await.expect("supplied");
    erase_message(&test, &first, "u2").await;
    let second = test.manual_session().await;
    test.append(&second, &turns(1, 4, 300)).await;
    let refused = test.app.compactions().supply_summary(&second, new(true)).await.expect_err("it was erased");
    assert_eq!(refused.reason, Reason::ContentErased);
    test.app
        .compactions()
        .supply_summary(&second, NewSummary { text: "Another one.".to_owned(), ..new(true) })
        .await
        .expect("supplied");
    let third = test.manual_session().await;
    test.append(&third, &turns(1, 4, 300)).await;
    test.app.compactions().supply_summary(&third, new(false)).await.expect("it was not asked for");
    assert_eq!(test.findings().await, []);
}

/// A file of pi with a branch, a compaction and an edit.
fn pi_file(path: &Path) {
    let entry = |id: &str, parent: &str, message: Value| json!({"type": "message", "id": id, "parentId": parent, "timestamp": "2026-01-05T10:00:00.000Z", "message": message});
    let user = |words: &str| json!({"role": "user", "content": words});
    let reply =
        |words: &str| json!({"role": "assistant", "content": [{"type": "text", "text": words}], "stopReason": "stop"});
    let lines = [
        json!({"type": "session", "version": 3, "id": "keys", "timestamp": "2026-01-05T10:00:00.000Z", "cwd": "/"}),
        json!({"type": "message", "id": "a", "parentId": null, "timestamp": "2026-01-05T10:00:00.000Z",
            "message": user(&format!("the key is hush {}", "x".repeat(2_000)))}),
        entry("b", "a", reply("noted")),
        entry("c", "b", user("go on")),
        entry("d", "c", reply("done")),
        json!({"type": "compaction", "id": "e", "parentId": "d", "timestamp": "2026-01-05T10:00:00.000Z",
            "summary": "There was talk of a key.", "firstKeptEntryId": "c", "tokensBefore": 9}),
        entry("f", "e", user("and then?")),
        entry("g", "b", user("another way")),
    ];
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    std::fs::write(path, lines.join("\n") + "\n").expect("the transcript is written");
}

#[test]
fn an_import_brings_back_an_erased_part_of_an_edit_only_with_again() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("keys.jsonl");
    pi_file(&file);
    let mut lines = std::fs::read_to_string(&file).expect("the transcript");
    let replacement = json!({"content": [{"type": "text", "text": "go on"}, {"type": "text", "text": "with hush"}]});
    let edit = json!({"type": "context_edit", "id": "h", "parentId": "f", "timestamp": "2026-01-05T10:00:00.000Z",
        "targetId": "f", "replacement": replacement});
    lines = lines.replace("the key is hush", "the key is mum");
    lines.push_str(&format!("{edit}\n"));
    std::fs::write(&file, lines).expect("the transcript is written");
    let path = file.display().to_string();
    let daemon = Daemon::start(home.path());
    let import = |options: &[&str]| daemon.json(&[&["import", &path], options].concat()).remove(0);
    let session = |report: &Value| -> String {
        let sessions = report["sessions"].as_array().expect("a list").iter();
        let ids = sessions.map(|session| session["session_id"].as_str().expect("an id").to_owned());
        ids.into_iter().find(|id| daemon.text(&["show", id, "--records"]).contains("and then?")).expect("the branch")
    };
    let view = |session: &str| daemon.text(&["view", session]);

    let first = session(&import(&[]));
    assert!(view(&first).contains("with hush"), "{}", view(&first));
    let shown = daemon.json(&["show", &first, "--records"]);
    let found = |of: &dyn Fn(&Value) -> bool| shown.iter().find(|message| of(message)).expect("a message").clone();
    let edit = found(&|message| message["kind"] == "MESSAGE_KIND_EDIT");
    // The line of the file is a record of its own.
    let line = found(&|message| message["clientId"] == "h");
    for ids in [&[&edit["messageId"], &edit["parts"][1]["partId"]][..], &[&line["messageId"]]] {
        let ids: Vec<&str> = ids.iter().map(|id| id.as_str().expect("an id")).collect();
        daemon.text(&[&["erase", &first], &ids[..], &["--yes", "--reason", "somebody asked for it"]].concat());
    }
    for options in [&["--preset", "pi"][..], &["--live", "--preset", "claude-code"]] {
        let other = import(options);
        assert_eq!(other["erased"], 2, "the part and the record: {other}");
        let other = session(&other);
        assert!(!daemon.text(&["show", &other, "--records"]).contains("hush"), "{options:?}");
        let view = view(&other);
        assert!(view.contains("[erased from the history]") && !view.contains("and then?"), "the edit is made: {view}");
    }
    let again = import(&["--again", "--client-id", "mine"]);
    assert_eq!(again["erased"], 0, "{again}");
    assert!(view("mine").contains("with hush"));
    assert!(daemon.run(&["audit", "verify"]).status.success());
}

#[test]
fn an_import_brings_back_what_was_erased_only_with_again() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("keys.jsonl");
    pi_file(&file);
    let path = file.display().to_string();
    let daemon = Daemon::start(home.path());
    let import = |options: &[&str]| daemon.json(&[&["import", &path], options].concat()).remove(0);
    let ids = |report: &Value| -> Vec<String> {
        let sessions = report["sessions"].as_array().expect("a list").iter();
        sessions.map(|session| session["session_id"].as_str().expect("an id").to_owned()).collect()
    };
    let erase = |arguments: &[&str]| {
        daemon.text(&[&["erase"], arguments, &["--yes", "--reason", "somebody asked for it"]].concat());
    };
    let has = |session: &str, words: &str| daemon.text(&["show", session, "--records"]).contains(words);

    let first = import(&[]);
    assert_eq!((&first["erased"], &first["compactions"]["supplied"]), (&json!(0), &json!(1)), "{first}");
    let (main, fork) = (&ids(&first)[0], &ids(&first)[1]);
    erase(&[main, "a"]);
    let same = import(&[]);
    assert_eq!((&same["written"], ids(&same)), (&json!(0), ids(&first)), "{same}");
    let other = import(&["--preset", "pi"]);
    assert_eq!((&other["erased"], &other["erased_sessions"]), (&json!(1), &json!(0)), "{other}");
    assert_eq!(other["compactions"]["supplied"], 0, "the summary was written from it: {other}");
    for session in ids(&other) {
        assert!(!has(&session, "hush") && has(&session, "noted"));
    }
    let live = import(&["--live", "--preset", "pi"]);
    assert_eq!(live["erased"], 1, "{live}");
    let again = import(&["--again", "--client-id", "mine"]);
    assert_eq!((&again["erased"], &again["compactions"]["supplied"]), (&json!(0), &json!(1)), "{again}");
    assert!(has("mine", "hush"));

    // A branch alone, then everything: each of them comes back as often as somebody asks for it.
    erase(&[fork]);
    let left_out = import(&[]);
    assert_eq!((&left_out["erased_sessions"], ids(&left_out).len()), (&json!(1), 1), "{left_out}");
    for round in [1, 2] {
        let back = ids(&import(&["--again"]));
        assert_eq!(back.len(), 2, "round {round}");
        erase(&[&back[1]]);
    }
    for round in [1, 2] {
        let back = ids(&import(&["--again"]));
        back.iter().rev().for_each(|session| erase(&[session]));
        for options in [&[][..], &["--preset", "claude-code"], &["--live", "--window", "9000"]] {
            let left_out = import(options);
            let none = (&left_out["erased_sessions"], &left_out["written"], ids(&left_out).len());
            assert_eq!(none, (&json!(2), &json!(0), 0), "round {round}: {left_out}");
        }
        let output = daemon.run(&["import", &path]);
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && words.contains("it was erased, and is left out; --again"), "{words}");
        let back = import(&["--again"]);
        assert_eq!((&back["erased_sessions"], &back["erased"], ids(&back).len()), (&json!(0), &json!(0), 2), "{back}");
        assert!(has(&ids(&back)[0], "hush"), "round {round}");
    }
    assert!(daemon.run(&["audit", "verify"]).status.success());
}
