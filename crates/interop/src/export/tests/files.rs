//! Files of agents: lines that were imported come back byte for byte, everything else as the same conversation.

use super::*;
use crate::{Branch, Entry, Options, Transcript, parse};
use longhand_model::message::NewMessage;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The session that an import of a branch makes, without what the daemon derives.
fn imported(branch: &Branch, name: &str) -> Session {
    let mut messages: Vec<Message> = Vec::new();
    let mut compactions = Vec::new();
    let add = |new: &NewMessage, kind: MessageKind, state: MessageState, messages: &mut Vec<Message>| {
        let revision = messages.len() as i64 + 1;
        let mut added = message(revision, new.role, Vec::new());
        added.part_ids =
            new.parts.iter().enumerate().map(|(part, _)| format!("prt_{revision:016x}{part:016x}")).collect();
        added.kind = kind;
        added.client_id.clone_from(&new.client_id);
        added.parts.clone_from(&new.parts);
        added.finish.clone_from(&new.finish);
        added.model.clone_from(&new.model);
        added.provider.clone_from(&new.provider);
        added.metadata_json.clone_from(&new.metadata_json);
        added.status.state = state;
        messages.push(added);
    };
    for entry in &branch.entries {
        match entry {
            Entry::Message { message, .. } => add(message, MessageKind::Normal, MessageState::Active, &mut messages),
            Entry::Record { message, .. } => add(message, MessageKind::Record, MessageState::Record, &mut messages),
            Entry::Compaction(compaction) => {
                let summary = NewMessage::sealed(Role::User, vec![NewPart::new(text(&compaction.summary_text))]);
                add(&summary, MessageKind::Summary, MessageState::Active, &mut messages);
                let summary_message = messages.last().map(|summary| summary.id.clone());
                let id = format!("cmp_{:032x}", messages.len());
                compactions.push(Compaction { id, summary_message, ..Compaction::default() });
                add(&compaction.record, MessageKind::Record, MessageState::Record, &mut messages);
            }
            Entry::Edit(edit) => {
                let kind = MessageKind::Edit;
                let replacement = NewMessage::sealed(Role::User, edit.parts.clone());
                let by = if edit.parts.is_empty() {
                    None
                } else {
                    add(&replacement, kind, MessageState::Active, &mut messages);
                    messages.last().map(|by| by.id.clone())
                };
                let at = messages.len() as i64;
                let target =
                    messages.iter_mut().find(|message| message.client_id.as_ref() == Some(&edit.target_client_id));
                let state = if by.is_some() { MessageState::Edited } else { MessageState::Removed };
                target.unwrap().status = status(state, at, by.as_deref());
                add(&edit.record, MessageKind::Record, MessageState::Record, &mut messages);
            }
        }
    }
    let metadata = format!("{{\"source\":{{\"format\":\"{name}\"}}}}");
    Session { metadata_json: Some(metadata), compactions, ..session(messages) }
}

fn written(session: &Session, format: Format) -> (String, Report) {
    let mut out = Vec::new();
    let report = file(session, format, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), report)
}

fn read(text: &str, format: Format) -> Transcript {
    parse(text.as_bytes(), &Options { format: Some(format), ..Options::default() }).unwrap()
}

/// What a conversation consists of: the role, and the parts of each message in short.
fn conversation(messages: &[&NewMessage]) -> Vec<String> {
    let part = |part: &NewPart| match &*part.body {
        PartBody::Text(text) => format!("text {text}"),
        PartBody::Marker(marker) => format!("note {}", marker.text),
        PartBody::Reasoning(text) => format!("thinking {text}"),
        PartBody::ToolCall(call) => format!("call {} {} {}", call.call_id, call.tool, call.input_json),
        PartBody::ToolResult(result) => format!("result {} {:?} {}", result.call_id, result.status, result.output),
        PartBody::Media(media) => format!("media {media:?}"),
        other => other.kind().to_owned(),
    };
    let short = |message: &&NewMessage| {
        format!("{:?}: {}", message.role, message.parts.iter().map(part).collect::<Vec<_>>().join(", "))
    };
    messages.iter().map(short).collect()
}

fn pi_lines() -> Vec<Value> {
    let entry = |id: &str, parent: Option<&str>, message: Value| {
        json!({"type": "message", "id": id, "parentId": parent, "timestamp": "2026-01-05T10:00:00.000Z",
            "message": message})
    };
    vec![
        json!({"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-05T10:00:00.000Z", "cwd": "/tmp"}),
        json!({"type": "model_change", "id": "m", "parentId": null, "provider": "p", "modelId": "x"}),
        entry("a", Some("m"), json!({"role": "user", "content": "do \u{1b} \u{e9} 😀", "timestamp": 1})),
        entry(
            "b",
            Some("a"),
            json!({"role": "assistant", "provider": "p", "model": "x", "content": [
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
            {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"n": 1.0, "z": [1, 2]}}],
            "usage": {"input": 3, "output": 4, "cacheRead": 0, "cacheWrite": 0}, "stopReason": "toolUse"}),
        ),
        entry(
            "c",
            Some("b"),
            json!({"role": "toolResult", "toolCallId": "c1", "toolName": "bash", "isError": false,
            "content": [{"type": "text", "text": "out"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}]}),
        ),
        json!({"type": "label", "id": "l", "parentId": "c", "targetId": "a", "label": "x"}),
        entry(
            "d",
            Some("l"),
            json!({"role": "assistant", "provider": "p", "model": "x", "stopReason": "stop",
            "content": [{"type": "text", "text": "done"}, {"type": "new", "k": 1}]}),
        ),
        json!({"type": "context_edit", "id": "e", "parentId": "d", "targetId": "a", "replacement": {"content": "do it"}}),
        json!({"type": "compaction", "id": "k", "parentId": "e", "summary": "short", "firstKeptEntryId": "d",
            "tokensBefore": 9}),
        entry("f", Some("k"), json!({"role": "user", "content": [{"type": "text", "text": "more"}]})),
    ]
}

fn claude_lines() -> Vec<Value> {
    let row = |uuid: &str, parent: Option<&str>, kind: &str, message: Value| {
        json!({"parentUuid": parent, "isSidechain": false, "sessionId": "s", "version": "2.1.40", "cwd": "/w",
            "type": kind, "message": message, "uuid": uuid, "timestamp": "2026-01-05T10:00:00.000Z"})
    };
    let reply = |block: Value| {
        json!({"id": "msg_1", "role": "assistant", "model": "m", "content": [block],
        "stop_reason": null, "usage": {"input_tokens": 1, "output_tokens": 2}})
    };
    vec![
        json!({"type": "file-history-snapshot", "messageId": "x", "snapshot": {}}),
        row("a", None, "user", json!({"role": "user", "content": "go"})),
        row("b", Some("a"), "assistant", reply(json!({"type": "thinking", "thinking": "hm", "signature": "sig"}))),
        row("c", Some("b"), "assistant", reply(json!({"type": "tool_use", "id": "t1", "name": "bash", "input": {}}))),
        json!({"parentUuid": "c", "type": "progress", "uuid": "p", "sessionId": "s", "data": {"a": 1}}),
        row(
            "d",
            Some("c"),
            "user",
            json!({"role": "user", "content": [
            {"tool_use_id": "t1", "type": "tool_result", "content": "out"}, {"type": "text", "text": "and"}]}),
        ),
        row("e", Some("c"), "assistant", reply(json!({"type": "tool_use", "id": "t2", "name": "bash", "input": {}}))),
        row(
            "f",
            Some("e"),
            "user",
            json!({"role": "user", "content": [
            {"tool_use_id": "t2", "type": "tool_result", "content": [{"type": "text", "text": "two"}]}]}),
        ),
        json!({"type": "system", "subtype": "compact_boundary", "uuid": "g", "parentUuid": null,
            "logicalParentUuid": "f", "sessionId": "s", "compactMetadata": {"trigger": "auto", "preTokens": 9}}),
        json!({"type": "user", "uuid": "h", "parentUuid": "g", "sessionId": "s", "isCompactSummary": true,
            "message": {"role": "user", "content": "short"}}),
        row("i", Some("h"), "user", json!({"role": "user", "content": "next"})),
    ]
}

fn joined(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn an_imported_file_comes_back_byte_for_byte() {
    for (lines, format) in [(pi_lines(), Format::Pi), (claude_lines(), Format::ClaudeCode)] {
        let text = joined(&lines);
        let session = imported(&read(&text, format).branches[0], format.name());
        let (out, report) = written(&session, format);
        assert_eq!(out, text);
        assert_eq!((report.lines, report.verbatim, report.notes.len()), (lines.len(), lines.len(), 0), "{report:?}");
    }
}

/// A session of every kind of content, with its own messages.
fn native() -> Session {
    let mut reply =
        message(2, Role::Assistant, vec![PartBody::Reasoning("hm".into()), text("I look"), call("t1", "{\"n\": 1.0}")]);
    reply.finish.as_mut().unwrap().reason = Some(FinishReason::ToolCalls);
    session(vec![
        message(1, Role::User, vec![text("go")]),
        reply,
        message(3, Role::Tool, vec![result("t1", "out")]),
        message(4, Role::Assistant, vec![text("done")]),
        message(5, Role::User, vec![text("thanks")]),
    ])
}

const NATIVE: [&str; 5] = [
    "User: text go",
    "Assistant: thinking hm, text I look, call t1 bash {\"n\": 1.0}",
    "Tool: result t1 Completed out",
    "Assistant: text done",
    "User: text thanks",
];

#[test]
fn a_session_of_our_own_becomes_the_same_conversation() {
    for format in [Format::Pi, Format::ClaudeCode] {
        let (out, report) = written(&native(), format);
        let transcript = read(&out, format);
        assert_eq!(conversation(&crate::tests::messages(&transcript.branches[0])), NATIVE, "{out}");
        assert_eq!((transcript.title.as_str(), transcript.branches.len()), ("A title", 1), "{out}");
        assert_eq!((report.verbatim, report.notes.len(), transcript.problems.len()), (0, 0, 0), "{report:?}");
        // What was composed comes back as it is.
        let session = Session { title: String::new(), ..imported(&transcript.branches[0], format.name()) };
        assert_eq!(written(&session, format).0, out);
    }
}

#[test]
fn later_messages_follow_the_imported_ones() {
    for (lines, format, last) in [(pi_lines(), Format::Pi, "f"), (claude_lines(), Format::ClaudeCode, "i")] {
        let text = joined(&lines);
        let mut session = imported(&read(&text, format).branches[0], format.name());
        let revision = session.messages.len() as i64 + 1;
        session.messages.push(message(revision, Role::Assistant, vec![super::text("and on")]));
        let (out, report) = written(&session, format);
        assert!(out.starts_with(&text), "{out}");
        assert_eq!((report.lines, report.verbatim), (lines.len() + 1, lines.len()));
        let added: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        let parent = added.get("parentId").or_else(|| added.get("parentUuid")).unwrap();
        assert_eq!(*parent, json!(last));
    }
}

#[test]
fn a_compaction_keeps_its_summary_and_its_tail() {
    for format in [Format::Pi, Format::ClaudeCode] {
        let mut session = native();
        let mut summary = message(6, Role::User, vec![text("the summary")]);
        summary.kind = MessageKind::Summary;
        let (tail, id) = (session.messages[4].id.clone(), "cmp_00000000000000000000000000000007".to_owned());
        for covered in &mut session.messages[..4] {
            covered.status = status(MessageState::Covered, 6, Some(&summary.id));
        }
        let made = Compaction {
            id,
            summary_message: Some(summary.id.clone()),
            tail_start: Some(tail),
            tokens_before: 77,
            ..Compaction::default()
        };
        session.compactions.push(made.clone());
        session.messages.extend([summary, message(7, Role::Assistant, vec![text("on")])]);
        let transcript = read(&written(&session, format).0, format);
        let branch = &transcript.branches[0];
        let compactions = crate::tests::compactions(branch);
        assert_eq!(compactions.len(), 1, "{format:?}");
        assert_eq!((compactions[0].summary_text.as_str(), compactions[0].tokens_before), ("the summary", 77));
        let messages = crate::tests::messages(branch);
        let kept = messages.iter().find(|message| message.client_id == compactions[0].first_kept_client_id).unwrap();
        assert_eq!(crate::tests::texts(kept), ["thanks"]);
        assert_eq!(messages.len(), 6);
        // One that was undone does not count.
        session.compactions[0].is_undone = true;
        let (out, report) = written(&session, format);
        assert_eq!(crate::tests::compactions(&read(&out, format).branches[0]).len(), 0);
        assert_eq!(report.notes["compactions that are undone or void"], 1);
    }
}

#[test]
fn a_rewind_becomes_an_abandoned_branch() {
    for format in [Format::Pi, Format::ClaudeCode] {
        let mut session = native();
        session.messages[4].status = status(MessageState::Rewound, 6, None);
        session.messages.push(message(6, Role::User, vec![text("no, this")]));
        let transcript = read(&written(&session, format).0, format);
        assert_eq!(transcript.branches.len(), 2);
        let main = conversation(&crate::tests::messages(&transcript.branches[0]));
        assert_eq!(main, [&NATIVE[..4], &["User: text no, this"]].concat());
        assert_eq!(conversation(&crate::tests::messages(&transcript.branches[1])), [NATIVE[4]]);
    }
}

#[test]
fn a_rewind_at_the_end_is_kept_by_pi_and_named_for_claude_code() {
    let mut session = native();
    session.messages[4].status = status(MessageState::Rewound, 6, None);
    let transcript = read(&written(&session, Format::Pi).0, Format::Pi);
    assert_eq!(conversation(&crate::tests::messages(&transcript.branches[0])), NATIVE[..4]);
    let (out, report) = written(&session, Format::ClaudeCode);
    assert_eq!(conversation(&crate::tests::messages(&read(&out, Format::ClaudeCode).branches[0])), NATIVE[..4]);
    assert_eq!(report.notes["messages that a rewind left out"], 1);
}

#[test]
fn edits_and_removals_reach_the_context() {
    let mut session = native();
    let mut edit = message(6, Role::User, vec![text("go on")]);
    edit.kind = MessageKind::Edit;
    session.messages[0].status = status(MessageState::Edited, 6, Some(&edit.id));
    session.messages[4].status = status(MessageState::Removed, 7, None);
    session.messages.extend([edit, message(8, Role::User, vec![text("last")])]);
    let transcript = read(&written(&session, Format::Pi).0, Format::Pi);
    let edits = transcript.branches[0].entries.iter().filter_map(|entry| match entry {
        Entry::Edit(edit) => Some((edit.target_client_id.clone(), edit.parts.len())),
        _ => None,
    });
    assert_eq!(edits.collect::<Vec<_>>(), [("00000001".to_owned(), 1), ("00000005".to_owned(), 0)]);
    let (out, report) = written(&session, Format::ClaudeCode);
    let transcript = read(&out, Format::ClaudeCode);
    let messages = conversation(&crate::tests::messages(&transcript.branches[0]));
    assert_eq!(messages, [&["User: text go on"], &NATIVE[1..4], &["User: text last"]].concat());
    assert_eq!(report.notes.values().sum::<usize>(), 2, "{report:?}");
}

#[test]
fn what_a_format_cannot_carry_is_named() {
    let mut record = message(
        6,
        Role::System,
        vec![PartBody::Record(longhand_model::part::Record { kind: "mine".into(), data: "{}".into() })],
    );
    record.kind = MessageKind::Record;
    record.status.state = MessageState::Record;
    let mut session = native();
    session.messages[0].status.is_pinned = true;
    session.messages.push(record);
    session.messages.push(message(7, Role::System, vec![text("be kind")]));
    session.messages.push(message(
        8,
        Role::User,
        vec![PartBody::Media(longhand_model::part::Media { mime_type: "audio/wav".into(), ..Default::default() })],
    ));
    for (format, lacks) in [(Format::Pi, 3), (Format::ClaudeCode, 4)] {
        let (_, report) = written(&session, format);
        assert_eq!(report.notes.len(), lacks, "{report:?}");
        assert!(
            report.notes.contains_key("records of kind mine") && report.notes.contains_key("media of type audio/wav")
        );
    }
}

#[test]
fn metadata_that_lies_makes_no_broken_line() {
    for metadata in [
        r#"{"format":"pi","lines":[{"line":1,"cut":[["/message/content/9",0]],"rest":{"message":null}}]}"#,
        r#"{"format":"pi","lines":[{"line":1,"cut":[["/a",7]],"rest":{"a":null}}]}"#,
        r#"{"format":"pi","lines":[{"line":1,"cut":[["/a",0],["/a",0]],"rest":{"a":null}}]}"#,
        "{\"format\":\"pi\",\"lines\":[{\"line\":1,\"rest\":{\"a\":\n1}}]}",
        r#"{"format":"pi","lines":[{"line":1,"records":["gone"]}]}"#,
        r#"{"format":"pi","lines":[{"line":0}]}"#,
        r#"{"format":"pi","lines":7}"#,
    ] {
        let mut session = native();
        session.messages[0].metadata_json = Some(metadata.to_owned());
        let (out, report) = written(&session, Format::Pi);
        assert_eq!(report.verbatim, 0, "{metadata}");
        assert_eq!(conversation(&crate::tests::messages(&read(&out, Format::Pi).branches[0])), NATIVE, "{metadata}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_text_and_input_comes_back(words in any::<String>(), output in any::<String>(), n in any::<i64>()) {
        prop_assume!(!words.contains('\u{0}') && !output.contains('\u{0}'));
        let input = json!({ "words": words, "n": n }).to_string();
        let session = session(vec![
            message(1, Role::User, vec![text(&words)]),
            message(2, Role::Assistant, vec![text(&output), call("t", &input)]),
            message(3, Role::Tool, vec![result("t", &output)]),
        ]);
        for format in [Format::Pi, Format::ClaudeCode] {
            let (out, _) = written(&session, format);
            let transcript = read(&out, format);
            let messages = conversation(&crate::tests::messages(&transcript.branches[0]));
            // Claude Code's own notices are notes.
            let word = if messages[0].starts_with("User: note") { "note" } else { "text" };
            prop_assert_eq!(messages, vec![
                format!("User: {word} {words}"),
                format!("Assistant: text {output}, call t bash {input}"),
                format!("Tool: result t Completed {output}"),
            ]);
        }
    }
}
