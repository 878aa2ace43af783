//! Views contain the metadata of their originals, so that a client can restore its own objects and a provider gets back
//! its signatures, byte for byte.

use crate::cli::Daemon;
use crate::support::{TestApp, conversation, prunable, text};
use longhand::app::compactions::NewCompaction;
use longhand::app::sessions::ForkPoint;
use longhand::app::views::{OverflowAction, ServedView, ViewRequest};
use longhand::model::compaction::CompactionKind;
use longhand::model::event::EventKind;
use longhand::model::message::FinishReason;
use longhand::model::part::{NewPart, PartBody};
use longhand::model::time::Timestamp;
use longhand::model::view::{ViewKind, ViewMessage};
use serde_json::{Value, json};

/// A signature as providers write them: base64 with characters that JSON can write in several ways.
const SIGNATURE: &str = "ErUB+x/9Cg\\/ZIBxAC\\u0041==";

/// A Claude Code transcript with two signed reasoning parts, one of them in a reply with a call.
fn transcript() -> String {
    let line = |id: &str, parent: Value, role: &str, message: Value| {
        json!({"type":role,"uuid":id,"parentUuid":parent,"sessionId":"s","cwd":"/p","version":"2.0.0",
               "isSidechain":false,"timestamp":"2026-01-05T10:00:00.000Z","message":message})
        .to_string()
    };
    let thought =
        |number: usize| json!({"type":"thinking","thinking":format!("hm {number}"),"signature":format!("SIG{number}")});
    let reply = |id: &str, content: Value, stop: &str| {
        json!({"id":id,"type":"message","role":"assistant","model":"claude-x","content":content,"stop_reason":stop,
               "usage":{"input_tokens":5,"output_tokens":7}})
    };
    let call = json!({"type":"tool_use","id":"toolu_1","name":"Read","input":{"file_path":"/p/a"}});
    let result = json!({"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"the file"}]});
    let lines = [
        line("u1", Value::Null, "user", json!({"role":"user","content":"read it"})),
        line("a1", json!("u1"), "assistant", reply("m1", json!([thought(1), call]), "tool_use")),
        line("r1", json!("a1"), "user", result),
        line(
            "a2",
            json!("r1"),
            "assistant",
            reply("m2", json!([thought(2), {"type":"text","text":"done"}]), "end_turn"),
        ),
        line("u2", json!("a2"), "user", json!({"role":"user","content":"go on"})),
    ];
    lines.join("\n").replace("SIG", SIGNATURE) + "\n"
}

/// The messages that a `view` command prints.
fn messages(daemon: &Daemon, arguments: &[&str]) -> Vec<Value> {
    let frames = daemon.json(&[&["view"], arguments].concat());
    let list = |frame: &Value| frame["messages"]["messages"].as_array().cloned().unwrap_or_default();
    frames.iter().flat_map(list).collect()
}

/// The text and metadata of the reasoning parts in a view, verbatim, with the models of their messages.
fn thoughts(messages: &[Value]) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for message in messages {
        for part in message["parts"].as_array().expect("parts") {
            let part = &part["part"];
            if let Some(words) = part["reasoning"]["text"].as_str() {
                let field = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                found.push((words.to_owned(), field(&part["metadataJson"]), field(&message["model"])));
            }
        }
    }
    found
}

#[test]
fn signatures_of_an_imported_transcript_come_back_byte_for_byte() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("session.jsonl");
    std::fs::write(&file, transcript()).expect("written");
    let daemon = Daemon::start(home.path());
    let report = daemon.json(&["import", &file.display().to_string()]).remove(0);
    let session = report["sessions"][0]["session_id"].as_str().expect("a session").to_owned();
    let expected: Vec<_> = [1, 2]
        .map(|number| {
            (format!("hm {number}"), format!("{{\"signature\":\"{SIGNATURE}{number}\"}}"), "claude-x".to_owned())
        })
        .to_vec();
    let view = messages(&daemon, &[&session]);
    assert_eq!(thoughts(&view), expected);
    let shown = daemon.json(&["show", &session]);
    for (message, original) in view.iter().zip(&shown) {
        for field in ["clientId", "model", "provider", "createTime", "originTime", "actor", "metadataJson"] {
            assert_eq!(message[field], original[field], "{field} of {original}");
        }
        assert_eq!(message["finishReason"], original["finish"]["reason"]);
        let metadata = |parts: &Value, at: fn(&Value) -> &Value| -> Vec<Value> {
            parts.as_array().expect("parts").iter().map(|part| at(part)["metadataJson"].clone()).collect()
        };
        assert_eq!(metadata(&message["parts"], |part| &part["part"]), metadata(&original["parts"], |part| part));
    }
    assert_eq!(view.len(), shown.len());
    // As of an earlier revision.
    let revision = shown[3]["revision"].as_str().expect("a number").to_owned();
    assert_eq!(thoughts(&messages(&daemon, &[&session, "--as-of", &revision])), expected);
}

/// The metadata of a view's messages and of their parts.
fn carried(view: &ServedView) -> Vec<(Option<String>, Vec<Option<String>>)> {
    let of = |message: &ViewMessage| {
        let own = message.original_fields.as_ref().and_then(|fields| fields.metadata_json.clone());
        (own, message.parts.iter().map(|part| part.metadata_json.clone()).collect())
    };
    view.messages.iter().map(of).collect()
}

fn with_metadata(mut part: NewPart, json: &str) -> NewPart {
    part.metadata_json = Some(json.to_owned());
    part
}

#[tokio::test]
async fn a_view_carries_what_its_originals_carry_and_its_hash_commits_to_it() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let mut talk = conversation("u1 \"one\"\na2 \"two\"");
    talk[0].metadata_json = Some("{ \"z\": 1.0e0 }".to_owned());
    talk[1].parts.insert(0, with_metadata(NewPart::new(PartBody::Reasoning("hm".to_owned())), "{\"signature\":\"a\"}"));
    talk[1].parts[0].client_id = Some("thought".to_owned());
    (talk[1].model, talk[1].provider) = ("m".to_owned(), "p".to_owned());
    talk[1].origin_time = Some(Timestamp(7));
    test.by("agent").messages().append(&session, talk.clone(), None, None).await.expect("appended");
    let view = test.view(&session).await;
    let expected = [
        (Some("{ \"z\": 1.0e0 }".to_owned()), vec![None]),
        (None, vec![Some("{\"signature\":\"a\"}".to_owned()), None]),
    ];
    assert_eq!(carried(&view), expected);
    let reply = view.messages[1].original_fields.as_ref().expect("it is an original");
    assert_eq!((reply.client_id.as_deref(), reply.actor.as_str()), (Some("a2"), "agent"));
    assert_eq!((reply.model.as_str(), reply.provider.as_str(), reply.origin_time), ("m", "p", Some(Timestamp(7))));
    assert_eq!(reply.finish_reason, Some(FinishReason::Stop));
    assert_eq!(view.messages[1].parts[0].client_id.as_deref(), Some("thought"));
    let stored = test.history(&session).await;
    assert_eq!(reply.create_time, stored[1].create_time);

    // A fork has the same view, and so has the view as of the revision.
    let forked = test.app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await;
    let forked = forked.expect("forked").0.session.id.to_string();
    test.append(&session, "u3 \"three\"").await;
    for (view_of, at) in [(&forked, None), (&session, Some(view.revision))] {
        let request = ViewRequest { as_of: at, ..ViewRequest::default() };
        let again = test.app.views().get(view_of, request).await.expect("a view");
        assert_eq!((again.hash, &again.messages), (view.hash, &view.messages));
    }
    // A caller that holds the view gets the new messages; a view that differs only in metadata is not the same view.
    let known = ViewRequest { known_hash: Some(view.hash.to_vec()), ..ViewRequest::default() };
    let delta = test.app.views().get(&session, known.clone()).await.expect("a view");
    assert_eq!((delta.known_count, delta.messages.len()), (2, 1));
    assert_eq!(delta.messages[0].original_fields.as_ref().and_then(|carried| carried.client_id.as_deref()), Some("u3"));
    let other = test.manual_session().await;
    talk[1].parts[0].metadata_json = Some("{\"signature\":\"b\"}".to_owned());
    test.by("agent").messages().append(&other, talk, None, None).await.expect("appended");
    assert_eq!(test.app.views().get(&other, known).await.expect("a view").known_count, 0);
}

#[tokio::test]
async fn a_reply_that_is_sealed_comes_again_with_its_reason() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na2 \"so\" open").await;
    let open = test.view(&session).await;
    let finish = longhand::model::message::Finish { reason: Some(FinishReason::Length), ..Default::default() };
    test.app.messages().finish(&session, "a2", finish, None).await.expect("sealed");
    let known = ViewRequest {
        known_hash: Some(open.hash.to_vec()),
        known_revision: Some(open.revision),
        ..ViewRequest::default()
    };
    let delta = test.app.views().get(&session, known).await.expect("a view");
    let reason = |message: &ViewMessage| message.original_fields.as_ref().and_then(|carried| carried.finish_reason);
    assert_eq!(
        (delta.known_count, delta.messages.iter().map(reason).collect::<Vec<_>>()),
        (1, vec![Some(FinishReason::Length)])
    );
}

#[tokio::test]
async fn metadata_go_with_the_words_that_they_are_about() {
    let test = TestApp::start().await;
    let session = prunable(&test).await;
    let mut talk = conversation("a90 \"x\" call=c90\nt90 result=c90:80000c\na91 \"done\"\nu92 \"thanks\"\na93 \"bye\"");
    talk[0].parts = vec![
        with_metadata(NewPart::new(PartBody::Reasoning("long thoughts ".repeat(2_000))), "{\"signature\":\"a\"}"),
        with_metadata(talk[0].parts.remove(1), "{\"id\":1}"),
    ];
    talk[1].parts = vec![with_metadata(talk[1].parts.remove(0), "{\"exit\":0}")];
    talk[1].metadata_json = Some("{\"whole\":true}".to_owned());
    test.app.messages().append(&session, talk, None, None).await.expect("appended");
    for turn in 94..98 {
        test.append(
            &session,
            &format!("u{turn} \"more\"\na{turn} \"more\" call=c{turn}\nt{turn} result=c{turn}:80000c\nab{turn} \"ok\""),
        )
        .await;
    }
    let of = |view: &ServedView, client: &str| -> ViewMessage {
        let is = |message: &&ViewMessage| {
            message.original_fields.as_ref().is_some_and(|carried| carried.client_id.as_deref() == Some(client))
        };
        view.messages.iter().find(is).expect("it is shown").clone()
    };
    let metadata = |message: &ViewMessage| -> Vec<Option<String>> {
        message.parts.iter().map(|part| part.metadata_json.clone()).collect()
    };
    // Reasoning that is shortened for one call loses its signature; the call beside it is whole.
    let request = ViewRequest {
        window: Some(crate::support::window(8_000, 100)),
        action: OverflowAction::Shorten,
        ..ViewRequest::default()
    };
    let whole = test.view(&session).await;
    assert_eq!(metadata(&of(&whole, "a90")), [Some("{\"signature\":\"a\"}".to_owned()), Some("{\"id\":1}".to_owned())]);
    let shorter = test.app.views().get(&session, request).await.expect("a view");
    for message in &shorter.messages {
        for part in message.parts.iter().filter(|part| part.shortened.is_some()) {
            assert!(part.metadata_json.is_none() || matches!(*part.body, PartBody::ToolResult(_)), "{part:?}");
        }
    }
    // A result keeps its metadata even if its output is pruned, and so does its message.
    let mut watch = test.watch().await;
    let asked = test.app.compactions().start(&session, NewCompaction::of_kind(CompactionKind::Prune)).await;
    asked.expect("there is something to prune");
    watch.wait_for(EventKind::Compacted).await;
    let pruned = of(&test.view(&session).await, "t90");
    assert!(pruned.parts[0].shortened.is_some());
    assert_eq!(metadata(&pruned), [Some("{\"exit\":0}".to_owned())]);
    let own = pruned.original_fields.as_ref().and_then(|fields| fields.metadata_json.as_deref());
    assert_eq!(own, Some("{\"whole\":true}"));
}

#[tokio::test]
async fn derived_messages_have_no_client_fields() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na2 \"two\" call=c\nu3 \"three\"\na4 \"four\"").await;
    let new = longhand::app::compactions::NewSummary {
        text: "in short".to_owned(),
        tail_start: "u3".to_owned(),
        ..Default::default()
    };
    test.app.compactions().supply_summary(&session, new).await.expect("supplied");
    test.by("editor")
        .messages()
        .edit(&session, "u3", &[with_metadata(text("tres"), "{\"e\":1}")], None)
        .await
        .expect("edited");
    let view = test.view(&session).await;
    for message in &view.messages {
        assert_eq!(message.original_fields.is_some(), message.kind == ViewKind::Shown, "{message:?}");
    }
    // An edit is a client's message, and has its own metadata.
    let edit = view.messages.iter().find(|message| message.parts[0].metadata_json.is_some()).expect("the edit");
    assert_eq!(
        edit.original_fields.as_ref().map(|carried| (carried.actor.as_str(), carried.client_id.clone())),
        Some(("editor", None))
    );
}
