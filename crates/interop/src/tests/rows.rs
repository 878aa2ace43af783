//! The table of `docs/import.md` says what becomes of every kind of row; each has a case here.

use super::*;
use longhand_model::message::{FinishReason, Role};
use std::collections::BTreeMap;

/// What the page says of each row, by the format and the name of the row.
fn documented() -> BTreeMap<(String, String), String> {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/import.md");
    let page = std::fs::read_to_string(&page).expect("the page");
    let mut format = String::new();
    let mut rows = BTreeMap::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            format = heading.trim_start_matches("Rows of ").to_owned();
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let name = cells[0].strip_prefix('`').and_then(|name| name.split_once('`')).map(|(name, _)| name);
        if let (Some(name), 2..) = (name, cells.len()) {
            let becomes = cells[1].split([',', ';', ':']).next().unwrap_or_default();
            let earlier = rows.insert((format.clone(), name.to_owned()), becomes.to_owned());
            assert_eq!(earlier, None, "{name} stands twice in the table");
        }
    }
    rows
}

/// What became of the line with this number.
fn became(transcript: &Transcript, number: usize) -> String {
    let entries = transcript.branches.iter().chain(transcript.children.iter().flat_map(|child| &child.branches));
    let own = entries.flat_map(|branch| &branch.entries).filter(|entry| entry.line() == number);
    let names = own.map(|entry| match entry {
        Entry::Compaction(_) => "compaction",
        Entry::Edit(_) => "edit",
        Entry::Record { .. } => "record",
        Entry::Message { message, .. } => match message.role {
            _ if message.finish.as_ref().and_then(|finish| finish.reason) == Some(FinishReason::Error) => {
                "failed reply"
            }
            Role::Assistant => "reply",
            Role::Tool => "results",
            Role::System => "system message",
            Role::User if message.parts.iter().any(|part| matches!(*part.body, PartBody::Marker(_))) => "note",
            Role::User => "message",
        },
    });
    let names: Vec<_> = names.collect();
    if names.is_empty() { "nothing of its own".to_owned() } else { names.join(" and ") }
}

fn claude(kind: &str, more: Value) -> Value {
    let mut row = json!({"type":kind,"uuid":"x","parentUuid":"r0","sessionId":"s","isSidechain":false,
        "timestamp":"2026-01-02T03:04:05.250Z"});
    row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    row
}

fn said(content: Value, more: Value) -> Value {
    let mut row = claude("user", json!({"message":{"role":"user","content":content}}));
    row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    row
}

fn replied(more: Value) -> Value {
    let message = json!({"id":"m1","role":"assistant","model":"m","content":[{"type":"text","text":"so"}]});
    let mut row = claude("assistant", json!({"message":message}));
    row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    row
}

/// Rows of Claude Code behind a request, a call and its result. The last one is that of the case.
fn claude_cases() -> Vec<(&'static str, Vec<Value>)> {
    let queued = |prompt: &str| claude("attachment", json!({"attachment":{"type":"queued_command","prompt":prompt}}));
    let boundary = || claude("system", json!({"subtype":"compact_boundary","parentUuid":null,"uuid":"k"}));
    let result = json!([{"type":"tool_result","tool_use_id":"c0","content":"what was read"}]);
    let summary = || said(json!("what was"), json!({"isCompactSummary":true,"parentUuid":"k"}));
    let mut cases = vec![
        ("user", vec![said(json!("more"), json!({}))]),
        ("user with tool_result", vec![said(result, json!({}))]),
        ("user with isMeta", vec![said(json!("a caveat"), json!({"isMeta":true}))]),
        ("user with isCompactSummary", vec![boundary(), summary()]),
        ("assistant", vec![replied(json!({}))]),
        ("assistant with isApiErrorMessage", vec![replied(json!({"isApiErrorMessage":true}))]),
        ("system/compact_boundary", vec![summary(), boundary()]),
        ("attachment/queued_command", vec![queued("and blue")]),
        ("attachment/queued_command with a notice", vec![queued("<task-notification>x</task-notification>")]),
        ("repeated", vec![replied(json!({})), replied(json!({}))]),
        ("malformed", vec![json!({"no":"type"})]),
    ];
    for kind in ["system/turn_duration", "system/local_command", "system/api_error", "system/microcompact_boundary"] {
        cases.push((kind, vec![claude("system", json!({"subtype":kind.trim_start_matches("system/")}))]));
    }
    for kind in ["attachment/file", "attachment/todo_reminder"] {
        let kind_of = kind.trim_start_matches("attachment/");
        cases.push((kind, vec![claude("attachment", json!({"attachment":{"type":kind_of,"prompt":"no"}}))]));
    }
    for kind in [
        "progress",
        "file-history-snapshot",
        "queue-operation",
        "summary",
        "custom-title",
        "ai-title",
        "last-prompt",
        "agent-name",
        "mode",
        "permission-mode",
        "tag",
        "pr-link",
        "worktree-state",
        "any other",
    ] {
        cases.push((kind, vec![claude(kind, json!({}))]));
    }
    cases
}

/// Entries of pi behind a request, a call and its result. The last one is that of the case.
fn pi_cases() -> Vec<(&'static str, Vec<Value>)> {
    let entry = |kind: &str, more: Value| {
        let mut entry = json!({"type":kind,"id":"x","parentId":"r0","timestamp":"2026-01-02T03:04:05.250Z"});
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        entry
    };
    let message = |role: &str, more: Value| {
        let mut message = json!({"role":role,"content":"words"});
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        entry("message", json!({"message":message}))
    };
    let mut cases = vec![
        ("message with assistant", vec![message("assistant", json!({"stopReason":"stop"}))]),
        ("message with assistant and an error", vec![message("assistant", json!({"stopReason":"error"}))]),
        ("message with toolResult", vec![message("toolResult", json!({"toolCallId":"c0"}))]),
        ("message with bashExecution", vec![message("bashExecution", json!({"command":"ls"}))]),
        (
            "message with bashExecution and excludeFromContext",
            vec![message("bashExecution", json!({"command":"ls","excludeFromContext":true}))],
        ),
        ("message with system", vec![message("system", json!({}))]),
        ("compaction", vec![entry("compaction", json!({"summary":"what was","firstKeptEntryId":"x"}))]),
        ("branch_summary", vec![entry("branch_summary", json!({"summary":"a branch"}))]),
        ("custom_message", vec![entry("custom_message", json!({"content":"words"}))]),
        ("context_edit", vec![entry("context_edit", json!({"targetId":"u0","replacement":null}))]),
        ("malformed", vec![json!({"no":"type"})]),
    ];
    for (name, role) in [
        ("message with user", "user"),
        ("message with custom", "custom"),
        ("message with hookMessage", "hookMessage"),
        ("message with branchSummary", "branchSummary"),
        ("message with compactionSummary", "compactionSummary"),
    ] {
        cases.push((name, vec![message(role, json!({"summary":"what was"}))]));
    }
    for kind in ["model_change", "thinking_level_change", "custom", "label", "session_info", "usage", "any other"] {
        cases.push((kind, vec![entry(kind, json!({}))]));
    }
    cases
}

#[test]
fn the_page_says_of_every_kind_of_row_what_becomes_of_it() {
    let call = json!({"type":"tool_use","id":"c0","name":"Read","input":{}});
    let claude_before = [
        said(json!("go"), json!({"uuid":"u0","parentUuid":null})),
        claude("assistant", json!({"uuid":"a0","parentUuid":"u0","message":{"id":"m0","content":[call]}})),
        said(json!([{"type":"tool_result","tool_use_id":"c0","content":"ok"}]), json!({"uuid":"r0","parentUuid":"a0"})),
    ];
    let pi_entry = |id: &str, parent: Option<&str>, message: Value| {
        json!({"type":"message","id":id,"parentId":parent,
        "timestamp":"2026-01-02T03:04:05.250Z","message":message})
    };
    let pi_call = json!({"type":"toolCall","id":"c0","name":"read","arguments":{}});
    let pi_before = [
        json!({"type":"session","version":3,"id":"s","timestamp":"2026-01-02T03:04:05.250Z","cwd":"/w"}),
        pi_entry("u0", None, json!({"role":"user","content":"go"})),
        pi_entry("a0", Some("u0"), json!({"role":"assistant","content":[pi_call]})),
        pi_entry("r0", Some("a0"), json!({"role":"toolResult","toolCallId":"c0","content":"ok"})),
    ];
    let mut documented = documented();
    for (name, format, before, cases) in [
        ("Claude Code", Format::ClaudeCode, &claude_before[..], claude_cases()),
        ("pi", Format::Pi, &pi_before[..], pi_cases()),
    ] {
        for (row, rows) in cases {
            let lines: Vec<Value> = before.iter().cloned().chain(rows).collect();
            let expected = documented.remove(&(name.to_owned(), row.to_owned()));
            let expected = expected.unwrap_or_else(|| panic!("the table does not have {row} of {name}"));
            assert_eq!(became(&transcript(&lines, format), lines.len()), expected, "{row} of {name}");
        }
    }
    assert_eq!(documented, BTreeMap::new(), "rows without a case");
}
