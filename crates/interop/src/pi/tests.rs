//! Tests of pi's formats.

use crate::tests::{check, compactions, ids, messages, problems, read, record_kinds, texts};
use crate::{Entry, Format, Options, REST_RECORD, Transcript, parse};
use longhand_model::message::{FinishReason, MessageKind, Role};
use longhand_model::part::{Answers, MediaSource, Opaque, PartBody, Record, ResultStatus, ToolCall, ToolResult};
use longhand_model::time::Timestamp;
use serde_json::{Value, json};

const HEADER: &str =
    r#"{"type":"session","version":3,"id":"ses","timestamp":"2026-01-02T03:04:05.000Z","cwd":"/home/a"}"#;

fn session(lines: &[Value]) -> Transcript {
    let mut text = HEADER.to_owned();
    for line in lines {
        text.push_str(&format!("\n{line}"));
    }
    let transcript = read(&text, Format::Pi);
    check(&text, &transcript);
    transcript
}

fn entry(id: &str, parent: Option<&str>, message: Value) -> Value {
    json!({"type":"message","id":id,"parentId":parent,"timestamp":"2026-01-02T03:04:06.500Z","message":message})
}

fn user(id: &str, parent: Option<&str>, text: &str) -> Value {
    entry(id, parent, json!({"role":"user","content":text,"timestamp":1}))
}

fn reply(content: Value) -> Value {
    json!({"role":"assistant","content":content,"provider":"p","model":"m","stopReason":"stop","usage":{"input":0,
        "output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"total":0}}})
}

#[test]
fn a_reply_keeps_its_blocks_usage_and_reason() {
    let line = concat!(
        r#"{"type":"message","id":"a1","parentId":null,"timestamp":"2026-01-02T03:04:06.500Z","#,
        r#""message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm","#,
        r#""thinkingSignature":"c2ln"},{"type":"text","text":"done"},{"type":"toolCall","id":"c1","#,
        r#""name":"write","arguments":{"z":1.0,"a":9e-06, "b":[1 ]}}],"api":"x","provider":"p","#,
        r#""model":"m","usage":{"input":3,"output":68,"cacheRead":5,"cacheWrite":19964,"#,
        r#""totalTokens":20040,"cost":{"total":0.075894}},"stopReason":"toolUse","timestamp":1}}"#,
    );
    let text = format!("{HEADER}\n{line}");
    let transcript = read(&text, Format::Pi);
    check(&text, &transcript);
    let message = messages(&transcript.branches[0])[0];
    assert_eq!((message.role, message.kind), (Role::Assistant, MessageKind::Normal));
    assert_eq!((message.model.as_str(), message.provider.as_str()), ("m", "p"));
    assert_eq!(message.origin_time, Some(Timestamp(1_767_323_046_500_000)));
    let bodies: Vec<_> = message.parts.iter().map(|part| (*part.body).clone()).collect();
    assert_eq!(bodies[..2], [PartBody::Reasoning("hm".into()), PartBody::Text("done".into())]);
    let PartBody::ToolCall(call) = &bodies[2] else { panic!("{bodies:?}") };
    assert_eq!((call.call_id.as_str(), call.tool.as_str()), ("c1", "write"));
    assert_eq!(call.input_json, r#"{"z":1.0,"a":9e-06, "b":[1 ]}"#);
    assert_eq!(message.parts[0].metadata_json.as_deref(), Some(r#"{"thinkingSignature":"c2ln"}"#));
    let finish = message.finish.as_ref().unwrap();
    let usage = finish.usage.unwrap();
    assert_eq!(finish.reason, Some(FinishReason::ToolCalls));
    assert_eq!((usage.input, usage.output, usage.cache_read, usage.cache_write), (3, 68, 5, 19964));
    assert_eq!((usage.total, usage.cost_usd), (Some(20040), Some(0.075894)));
    // The metadata is the line's own text without the values that are in the parts.
    let metadata = message.metadata_json.as_ref().unwrap();
    assert!(metadata.contains(r#""cost":{"total":0.075894}},"stopReason":"toolUse""#), "{metadata}");
    assert!(metadata.contains(r#"["/message/content/0/thinkingSignature",0,"thinkingSignature"]"#), "{metadata}");
    assert!(!metadata.contains("9e-06") && !metadata.contains("c2ln"), "{metadata}");
}

#[test]
fn every_stop_reason_has_its_own() {
    let call = json!([{"type":"toolCall","id":"c","name":"t","arguments":{}}]);
    for (stop, error, content, reason, detail) in [
        (json!("stop"), Value::Null, json!([]), FinishReason::Stop, ""),
        (json!("toolUse"), Value::Null, json!([]), FinishReason::ToolCalls, ""),
        (json!("length"), Value::Null, json!([]), FinishReason::Length, ""),
        (json!("error"), json!("overloaded"), json!([]), FinishReason::Error, "overloaded"),
        (json!("aborted"), json!("Request was aborted"), json!([]), FinishReason::Aborted, "Request was aborted"),
        (json!("strange"), Value::Null, json!([]), FinishReason::Stop, "strange"),
        (Value::Null, Value::Null, call, FinishReason::ToolCalls, ""),
    ] {
        let mut message = reply(content);
        message["stopReason"] = stop;
        message["errorMessage"] = error;
        let transcript = session(&[entry("a", None, message)]);
        let message = messages(&transcript.branches[0])[0];
        let finish = message.finish.as_ref().unwrap();
        assert_eq!((finish.reason, finish.detail.as_str(), finish.usage), (Some(reason), detail, None));
    }
}

#[test]
fn a_tool_result_keeps_texts_images_status_and_details() {
    let image = json!({"type":"image","data":"aGk=","mimeType":"image/png"});
    let result = |content: Value, error: bool| {
        json!({"role":"toolResult","toolCallId":"c1","toolName":"read","content":content,"details":{"diff":"+1"},
            "isError":error})
    };
    let transcript = session(&[
        entry("a", None, reply(json!([{"type":"toolCall","id":"c1","name":"read","arguments":{}}]))),
        entry("r1", Some("a"), result(json!([{"type":"text","text":"one"}, image]), false)),
        entry("r2", Some("r1"), result(json!([{"type":"text","text":"one"},{"type":"text","text":"two"}]), true)),
        entry("r3", Some("r2"), result(json!([]), false)),
        entry("r4", Some("r3"), result(json!([{"type":"video"},{"type":"image","data":"no base64"}]), false)),
    ]);
    let messages = messages(&transcript.branches[0]);
    let results: Vec<_> = messages[1..]
        .iter()
        .map(|message| match &*message.parts[0].body {
            PartBody::ToolResult(result) => (message.role, result),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(results.iter().all(|(role, result)| *role == Role::Tool && result.call_id == "c1"));
    let outputs: Vec<_> = results.iter().map(|(_, result)| (result.output.as_str(), result.status)).collect();
    assert_eq!(
        outputs[..3],
        [("one", ResultStatus::Completed), ("one\ntwo", ResultStatus::Error), ("", ResultStatus::Completed),]
    );
    assert_eq!(outputs[3].0, "{\"type\":\"video\"}\n{\"type\":\"image\",\"data\":\"no base64\"}");
    let attachment = &results[0].1.attachments[0];
    assert_eq!((attachment.mime_type.as_str(), &attachment.source), ("image/png", &MediaSource::Bytes(b"hi".to_vec())));
    let metadata = messages[1].metadata_json.as_ref().unwrap();
    assert!(metadata.contains(r#""details":{"diff":"+1"}"#) && !metadata.contains("aGk="), "{metadata}");
}

#[test]
fn text_from_pi_with_the_user_role_is_a_user_message() {
    let bash = |more: Value| {
        let mut message = json!({"role":"bashExecution","command":"ls","output":"a b","exitCode":0});
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        entry("x", None, message)
    };
    let lead = "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n";
    for (line, text) in [
        (bash(json!({})), "Ran `ls`\n```\na b\n```".to_owned()),
        (bash(json!({"output":"","exitCode":2})), "Ran `ls`\n(no output)\n\nCommand exited with code 2".into()),
        (bash(json!({"cancelled":true,"exitCode":null})), "Ran `ls`\n```\na b\n```\n\n(command cancelled)".into()),
        (
            bash(json!({"truncated":true,"fullOutputPath":"/t/o"})),
            "Ran `ls`\n```\na b\n```\n\n[Output truncated. Full output: /t/o]".into(),
        ),
        (json!({"type":"custom_message","id":"x","parentId":null,"customType":"k","content":"note"}), "note".into()),
        (entry("x", None, json!({"role":"custom","customType":"k","content":"note"})), "note".into()),
        (entry("x", None, json!({"role":"hookMessage","content":[{"type":"text","text":"note"}]})), "note".into()),
        (
            json!({"type":"branch_summary","id":"x","parentId":null,"fromId":"y","summary":"tried"}),
            format!("{lead}tried</summary>"),
        ),
        (entry("x", None, json!({"role":"branchSummary","summary":"tried"})), format!("{lead}tried</summary>")),
    ] {
        let transcript = session(std::slice::from_ref(&line));
        assert_eq!(transcript.problems, [], "{line}");
        let messages = messages(&transcript.branches[0]);
        assert_eq!((messages[0].role, texts(messages[0])), (Role::User, vec![text.as_str()]), "{line}");
        assert_eq!(messages[0].client_id.as_deref(), Some("x"));
    }
}

#[test]
fn all_other_entries_are_records_word_for_word() {
    let lines = [
        json!({"type":"model_change","id":"1","parentId":null,"provider":"p","modelId":"m"}),
        json!({"type":"thinking_level_change","id":"2","parentId":"1","thinkingLevel":"high"}),
        json!({"type":"custom","id":"3","parentId":"2","customType":"k","data":{"a":1}}),
        json!({"type":"label","id":"4","parentId":"3","targetId":"1","label":"l"}),
        json!({"type":"session_info","id":"5","parentId":"4","name":"The name"}),
        json!({"type":"usage","id":"7","parentId":"5","kind":"k"}),
        json!({"type":"branch_summary","id":"8","parentId":"7","summary":""}),
        entry("9", Some("8"), json!({"role":"bashExecution","command":"ls","excludeFromContext":true})),
        json!({"type":"of the future","id":"10","parentId":"9"}),
    ];
    let transcript = session(&lines);
    assert_eq!(transcript.problems, []);
    assert_eq!((transcript.title.as_str(), transcript.source_id.as_str()), ("The name", "ses"));
    assert_eq!(ids(&transcript.branches[0]), ["line:1", "1", "2", "3", "4", "5", "7", "8", "9", "10"]);
    assert_eq!(
        record_kinds(&transcript.branches[0]),
        [
            "session",
            "model_change",
            "thinking_level_change",
            "custom",
            "label",
            "session_info",
            "usage",
            "branch_summary",
            "bashExecution",
            "of the future",
        ]
    );
    let Entry::Record { message, line: 4 } = &transcript.branches[0].entries[3] else { panic!("{transcript:?}") };
    let verbatim = Record { kind: "custom".into(), data: lines[2].to_string() };
    assert_eq!(*message.parts[0].body, PartBody::Record(verbatim));
    assert_eq!((message.kind, message.finish.is_some()), (MessageKind::Record, true));
}

#[test]
fn blocks_of_other_kinds_are_kept_for_their_provider() {
    let transcript = session(&[
        entry("a", None, reply(json!([{"type":"sealed","data":"x"}]))),
        entry("b", Some("a"), reply(json!([{"type":"text","text":7}, {"type":"toolCall","name":"t"}, "word"]))),
        entry("c", Some("b"), json!({"role":"user","content":[{"type":"image","data":"aGk=","mimeType":"a/b"}]})),
    ]);
    let messages = messages(&transcript.branches[0]);
    let sealed =
        Opaque { provider: "p".into(), kind: "sealed".into(), data: br#"{"type":"sealed","data":"x"}"#.into() };
    assert_eq!(*messages[0].parts[0].body, PartBody::Opaque(sealed));
    assert_eq!(messages[1].parts.iter().map(|part| part.body.kind()).collect::<Vec<_>>(), ["opaque"; 3]);
    assert_eq!(messages[2].parts[0].body.kind(), "media");
    assert_eq!(
        problems(&transcript),
        [
            (3, "block 0 does not match its type; kept as it is"),
            (3, "block 1 does not match its type; kept as it is"),
            (3, "block 2 does not match its type; kept as it is"),
        ]
    );
}

#[test]
fn version_1_goes_by_the_order_of_lines() {
    let text = [
        r#"{"type":"session","id":"old","timestamp":"2025-01-01T00:00:00Z","cwd":"/"}"#,
        r#"{"type":"message","timestamp":"2025-01-01T00:00:01Z","message":{"role":"user","content":"first"}}"#,
        "damaged",
        r#"{"type":"thinking_level_change","thinkingLevel":"low"}"#,
        r#"{"type":"message","message":{"role":"user","content":"second"}}"#,
        r#"{"type":"message","message":{"role":"user","content":"third"}}"#,
        // The index counts the parsed lines, including the header: 2 is the change of the thinking level.
        r#"{"type":"compaction","summary":"so far","firstKeptEntryIndex":2,"tokensBefore":1234}"#,
        r#"{"type":"message","message":{"role":"user","content":"fourth"}}"#,
    ]
    .join("\n");
    let transcript = read(&text, Format::Pi);
    check(&text, &transcript);
    assert_eq!(transcript.branches.len(), 1);
    let all: Vec<_> = (1..=8).map(|line| format!("line:{line}")).collect();
    assert_eq!(ids(&transcript.branches[0]), all);
    assert_eq!(problems(&transcript), [(3, "not a JSON object: expected value at column 1; kept as a record")]);
    assert_eq!(record_kinds(&transcript.branches[0]), ["session", "malformed", "thinking_level_change"]);
    let compaction = compactions(&transcript.branches[0])[0];
    assert_eq!((compaction.summary_text.as_str(), compaction.tokens_before), ("so far", 1234));
    assert_eq!(compaction.first_kept_client_id.as_deref(), Some("line:5"));
    assert_eq!(compaction.covers_until_client_id, "line:2");
    assert_eq!(transcript.title, "first");
}

#[test]
fn compactions_of_a_tree_name_what_they_kept() {
    let compaction = |id: &str, parent: &str, kept: &str| {
        json!({"type":"compaction","id":id,"parentId":parent,"summary":format!("up to {kept}"),"firstKeptEntryId":kept,
            "tokensBefore":9,"details":{"readFiles":[]},"fromHook":kept == "u2"})
    };
    let transcript = session(&[
        user("u1", None, "1"),
        user("u2", Some("u1"), "2"),
        compaction("c1", "u2", "u2"),
        user("u3", Some("c1"), "3"),
        compaction("c2", "u3", "c2"),
        compaction("c3", "c2", "nowhere"),
        compaction("c4", "c3", "u1"),
    ]);
    let compactions = compactions(&transcript.branches[0]);
    let ranges: Vec<_> = compactions
        .iter()
        .map(|compaction| {
            let kept = compaction.first_kept_client_id.as_deref();
            (compaction.client_id.as_str(), compaction.covers_until_client_id.as_str(), kept, compaction.from_hook)
        })
        .collect();
    assert_eq!(ranges, [("c1", "u1", Some("u2"), true), ("c2", "u3", None, false), ("c3", "u3", None, false)]);
    assert_eq!(
        problems(&transcript),
        [
            (7, "the compaction does not state its kept messages: it is taken to keep none"),
            (8, "the compaction has no message before what it kept: it stays as a record"),
        ]
    );
    assert_eq!(record_kinds(&transcript.branches[0]), ["session", "compaction"]);
}

fn context_edit(id: &str, parent: &str, target: &str, replacement: Value) -> Value {
    json!({"type":"context_edit","id":id,"parentId":parent,"targetId":target,"replacement":replacement})
}

/// A session with these edits, after a note, a request, a user's command, a call with its result, and an abandoned
/// reply.
fn edited(edits: &[Value]) -> Transcript {
    let call = json!([{"type":"toolCall","id":"c1","name":"read","arguments":{}}]);
    let result = json!({"role":"toolResult","toolCallId":"c1","content":"no such file","isError":true});
    let mut lines = vec![
        json!({"type":"custom_message","id":"n1","parentId":null,"customType":"k","content":"note"}),
        user("u1", Some("n1"), "1"),
        entry("b1", Some("u1"), json!({"role":"bashExecution","command":"ls","output":"a","exitCode":0})),
        entry("a1", Some("b1"), reply(call)),
        entry("r1", Some("a1"), result),
        entry("x1", Some("r1"), reply(json!("given up"))),
        user("u2", Some("r1"), "2"),
    ];
    lines.extend_from_slice(edits);
    session(&lines)
}

#[test]
fn a_context_edit_names_its_target_and_its_replacement() {
    let again = json!({"type":"toolCall","id":"c1","name":"read","arguments":{"path":"/b"}});
    let output = |output: &str| {
        PartBody::ToolResult(ToolResult {
            call_id: "c1".into(),
            status: ResultStatus::Error,
            output: output.into(),
            attachments: Vec::new(),
            start_time: None,
            end_time: None,
            answers: Answers::Nearest,
        })
    };
    let call = ToolCall {
        call_id: "c1".into(),
        tool: "read".into(),
        input_json: r#"{"path":"/b"}"#.into(),
        ..ToolCall::default()
    };
    let text = |text: &str| PartBody::Text(text.into());
    for (target, replacement, parts) in [
        ("u1", Value::Null, vec![]),
        ("n1", Value::Null, vec![]),
        ("u1", json!({"content":"better"}), vec![text("better")]),
        ("n1", json!({"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}), vec![text("a"), text("b")]),
        ("a1", json!({"content":[{"type":"text","text":"so"}, again]}), vec![text("so"), PartBody::ToolCall(call)]),
        ("r1", json!({"content":"gone"}), vec![output("gone")]),
        ("r1", json!({"content":[{"type":"text","text":"gone"}]}), vec![output("gone")]),
        ("r1", json!({"content":[]}), vec![output("")]),
    ] {
        let line = context_edit("e1", "u2", target, replacement);
        let transcript = edited(std::slice::from_ref(&line));
        assert_eq!(transcript.problems, [], "{line}");
        let Some(Entry::Edit(edit)) = transcript.branches[0].entries.last() else { panic!("{transcript:?}") };
        let bodies: Vec<_> = edit.parts.iter().map(|part| (*part.body).clone()).collect();
        assert_eq!((edit.client_id.as_str(), edit.target_client_id.as_str(), bodies), ("e1", target, parts));
        let verbatim = Record { kind: "context_edit".into(), data: line.to_string() };
        assert_eq!(*edit.record.parts[0].body, PartBody::Record(verbatim));
    }
}

#[test]
fn a_context_edit_that_pi_would_not_show_is_a_record() {
    let compaction = |kept: &str| {
        let line = json!({"type":"compaction","id":"k1","parentId":"u2","summary":"s","firstKeptEntryId":kept});
        move |target: &str| vec![line.clone(), context_edit("e1", "k1", target, Value::Null)]
    };
    let (from_a1, nothing) = (compaction("a1"), compaction("k1"));
    let stays = |problem: &str| format!("{problem}: the edit stays as a record");
    let plain = |target: &str, replacement: Value| vec![context_edit("e1", "u2", target, replacement)];
    let mut without = context_edit("e1", "u2", "u1", Value::Null);
    without.as_object_mut().unwrap().remove("replacement");
    for (lines, problem) in [
        (plain("u9", Value::Null), "the target u9 stands nowhere before it"),
        (plain("b1", Value::Null), "the target b1 is nothing that pi lets anybody edit"),
        (plain("x1", Value::Null), "the target x1 is not on the branch of the edit"),
        (plain("u1", json!("better")), "the replacement is neither null nor an object"),
        (plain("u1", json!({})), "the message has no content"),
        (vec![without], "the context edit has no replacement"),
        (from_a1("u1"), "the target u1 stands under a compaction"),
        (nothing("r1"), "the target r1 stands under a compaction"),
    ] {
        let transcript = edited(&lines);
        assert_eq!(transcript.problems.len(), 1, "{problem}: {:?}", transcript.problems);
        assert_eq!(transcript.problems[0].message, stays(problem));
        assert_eq!(record_kinds(&transcript.branches[0]).last(), Some(&"context_edit"), "{problem}");
    }
    // Entries that a compaction kept can be edited after it.
    for target in ["a1", "r1", "u2"] {
        let transcript = edited(&from_a1(target));
        assert_eq!(transcript.problems, [], "{target}");
        assert!(matches!(transcript.branches[0].entries.last(), Some(Entry::Edit(_))), "{target}");
    }
}

#[test]
fn the_current_branch_leads_to_the_last_entry_and_the_others_are_forks() {
    // u1 ─ a1 ─ u2 ─ a2
    //   │    │    └─ a3
    //   │    └─ u3 ─ a4   (the last line)
    //   └─ u4
    let transcript = session(&[
        user("u1", None, "1"),
        entry("a1", Some("u1"), reply(json!("one"))),
        user("u2", Some("a1"), "2"),
        entry("a2", Some("u2"), reply(json!("two"))),
        entry("a3", Some("u2"), reply(json!("three"))),
        user("u4", Some("u1"), "4"),
        user("u3", Some("a1"), "3"),
        entry("a4", Some("u3"), reply(json!("four"))),
    ]);
    let branches: Vec<_> = transcript
        .branches
        .iter()
        .map(|branch| (branch.name.as_str(), branch.from, branch.fork_after.as_deref(), ids(branch)))
        .collect();
    assert_eq!(
        branches,
        [
            ("main", 0, None, vec!["line:1", "u1", "a1", "u3", "a4"]),
            ("u2", 0, Some("a1"), vec!["u2", "a3"]),
            ("a2", 1, Some("u2"), vec!["a2"]),
            ("u4", 0, Some("u1"), vec!["u4"]),
        ]
    );
}

#[test]
fn a_second_root_leaves_after_the_header() {
    let transcript = session(&[user("u1", None, "1"), user("u2", None, "2")]);
    assert_eq!(ids(&transcript.branches[0]), ["line:1", "u2"]);
    assert_eq!(
        (transcript.branches[1].fork_after.as_deref(), ids(&transcript.branches[1])),
        (Some("line:1"), vec!["u1"])
    );
}

#[test]
fn compactions_reach_into_the_branch_that_theirs_leaves() {
    let transcript = session(&[
        user("u1", None, "1"),
        user("u2", Some("u1"), "2"),
        user("x1", Some("u2"), "given up"),
        json!({"type":"compaction","id":"c","parentId":"x1","summary":"s","firstKeptEntryId":"u2"}),
        user("u3", Some("u2"), "3"),
    ]);
    let compaction = compactions(&transcript.branches[1])[0];
    assert_eq!(compaction.covers_until_client_id, "u1");
    assert_eq!(compaction.first_kept_client_id.as_deref(), Some("u2"));
}

#[test]
fn a_damaged_line_keeps_its_position_and_does_not_split_the_conversation() {
    let text = format!(
        "{HEADER}\n{}\n{{\"type\":\"message\",\"id\":\"gone\",\"par\n{}\n{}\n{}",
        user("u1", None, "1"),
        user("u2", Some("gone"), "2"),
        entry("u3", Some("u2"), json!({"role":"oracle","content":"?"})),
        json!({"type":"message","id":"u4","parentId":"u3","message":{"role":"toolResult","content":"?"}}),
    );
    let transcript = read(&text, Format::Pi);
    check(&text, &transcript);
    assert_eq!(transcript.branches.len(), 1);
    assert_eq!(ids(&transcript.branches[0]), ["line:1", "u1", "line:3", "u2", "line:5", "line:6"]);
    assert_eq!(record_kinds(&transcript.branches[0]), ["session", "malformed", "malformed", "malformed"]);
    assert_eq!(
        problems(&transcript),
        [
            (3, "not a JSON object: EOF while parsing a string at column 34; kept as a record"),
            (4, "its parent gone stands nowhere before it: it follows the line before"),
            (5, "the message has the unknown role oracle; kept as a record"),
            (6, "the tool result names no call; kept as a record"),
        ]
    );
}

#[test]
fn repeated_ids_get_other_names() {
    let call = |text: &str| reply(json!([{"type":"toolCall","id":"read:0","name":"read","arguments":{"path":text}}]));
    let result = || json!({"role":"toolResult","toolCallId":"read:0","content":"x","isError":false});
    let transcript = session(&[
        entry("a", None, call("1")),
        entry("b", Some("a"), result()),
        entry("b", Some("b"), call("2")),
        entry("c", Some("b"), result()),
    ]);
    assert_eq!(ids(&transcript.branches[0]), ["line:1", "a", "b", "b:line:4", "c"]);
    let calls: Vec<_> = messages(&transcript.branches[0])
        .iter()
        .map(|message| match &*message.parts[0].body {
            PartBody::ToolCall(call) => call.call_id.clone(),
            PartBody::ToolResult(result) => result.call_id.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(calls, ["read:0", "read:0", "read:0:line:4", "read:0:line:4"]);
    assert_eq!(transcript.problems.len(), 2);
}

#[test]
fn a_file_without_a_header_is_read_and_reported() {
    let text = format!("{}\n{}", user("u1", None, "1"), user("u2", Some("u1"), "2"));
    let transcript = read(&text, Format::Pi);
    check(&text, &transcript);
    assert_eq!(ids(&transcript.branches[0]), ["u1", "u2"]);
    assert_eq!(problems(&transcript), [(1, "the file does not begin with a session header")]);
}

#[test]
fn half_a_character_stays_in_the_metadata() {
    let line = r#"{"type":"message","id":"u","parentId":null,"message":{"role":"user","content":"cut \ud83d"}}"#;
    let transcript = read(&format!("{HEADER}\n{line}"), Format::Pi);
    assert_eq!(transcript.problems, []);
    let message = messages(&transcript.branches[0])[0];
    assert!(texts(message)[0].starts_with("cut \u{fffd}"));
    assert_eq!(message.metadata_json, Some(format!(r#"{{"format":"pi","lines":[{{"line":2,"rest":{line}}}]}}"#)));
}

#[test]
fn values_nested_without_end_are_read() {
    let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    let block = format!(r#"{{"type":"toolCall","id":"c","name":"t","arguments":{deep}}}"#);
    let message = format!(r#"{{"role":"assistant","content":[{block}]}}"#);
    let line = format!(r#"{{"type":"message","id":"a","parentId":null,"message":{message}}}"#);
    let transcript = read(&format!("{HEADER}\n{line}\n{deep}"), Format::Pi);
    let PartBody::ToolCall(call) = &*messages(&transcript.branches[0])[0].parts[0].body else { panic!() };
    assert_eq!(call.input_json, deep);
    assert_eq!(transcript.problems.len(), 1);
}

#[test]
fn values_too_large_for_metadata_are_in_a_record_after_the_message() {
    let line = json!({"type":"message","id":"u","parentId":null,"note":"n".repeat(500),
        "message":{"role":"user","content":[{"type":"text","text":"hello","mark":"m".repeat(300)}]}});
    let text = format!("{HEADER}\n{line}");
    for (metadata_bytes, kinds, marked) in [
        (2000, vec!["session"], true),
        (350, vec!["session", REST_RECORD], true),
        (150, vec!["session", REST_RECORD], false),
    ] {
        let options = Options { format: None, metadata_bytes, ..Options::default() };
        let transcript = parse(text.as_bytes(), &options).unwrap();
        check(&text, &transcript);
        assert_eq!(record_kinds(&transcript.branches[0]), kinds);
        let message = messages(&transcript.branches[0])[0];
        assert!(message.metadata_json.as_ref().unwrap().len() <= metadata_bytes);
        assert_eq!(message.parts[0].metadata_json.is_some(), marked);
        assert_eq!(transcript.branches[0].entries.last().unwrap().client_id().starts_with("rest:2"), kinds.len() > 1);
    }
}
