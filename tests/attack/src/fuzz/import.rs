//! Transcripts of other agents.

use super::mutate::Shape;
use super::{Decoder, Input, Outcome};
use anyhow::Result;
use longhand::interop::{self, Entry, Format, Options, Transcript};
use longhand::limits;
use longhand::model::message::NewMessage;
use longhand::model::part::PartBody;
use longhand::model::time::Timestamp;
use longhand::model::usage::Usage;
use std::collections::HashSet;

/// The readers of transcripts. The head is a format, `child` for a sub-agent's file, or empty for automatic detection.
pub(super) struct Import;

const PI: &str = r#"{"type":"session","version":3,"id":"ses","timestamp":"2026-01-02T03:04:05.000Z","cwd":"/home/a"}
{"type":"model_change","id":"m0","parentId":null,"timestamp":"2026-01-02T03:04:05.100Z","provider":"p","modelId":"m"}
{"type":"message","id":"u1","parentId":"m0","timestamp":"2026-01-02T03:04:06.500Z","message":{"role":"user","content":"fix it","timestamp":1}}
{"type":"message","id":"a1","parentId":"u1","timestamp":"2026-01-02T03:04:06.500Z","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm","thinkingSignature":"c2ln"},{"type":"text","text":"done"},{"type":"toolCall","id":"c1","name":"write","arguments":{"z":1.0,"a":9e-06}}],"api":"x","provider":"p","model":"m","usage":{"input":3,"output":68,"cacheRead":5,"cacheWrite":19964,"totalTokens":20040,"cost":{"total":0.075894}},"stopReason":"toolUse","timestamp":1}}
{"type":"message","id":"t1","parentId":"a1","timestamp":"2026-01-02T03:04:07.500Z","message":{"role":"toolResult","toolCallId":"c1","toolName":"write","content":[{"type":"text","text":"ok"},{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}],"isError":false,"timestamp":1}}
{"type":"compaction","id":"k1","parentId":"t1","timestamp":"2026-01-02T03:04:08.500Z","summary":"what was","firstKeptEntryId":"a1","tokensBefore":1234}
{"type":"branch_summary","id":"b1","parentId":"u1","timestamp":"2026-01-02T03:04:09.500Z","fromId":"a1","summary":"a branch"}
{"type":"context_edit","id":"e1","parentId":"t1","timestamp":"2026-01-02T03:04:09.600Z","targetId":"u1","replacement":"other words"}
{"type":"custom","id":"x1","parentId":"k1","timestamp":"2026-01-02T03:04:09.700Z","customType":"note","data":{"a":1}}
{"type":"message","id":"u2","parentId":"x1","timestamp":"2026-01-02T03:04:10.500Z","message":{"role":"user","content":[{"type":"text","text":"more"}],"timestamp":1}}"#;

const CLAUDE: &str = r#"{"type":"summary","summary":"A title","leafUuid":"a1"}
{"parentUuid":null,"isSidechain":false,"sessionId":"s","cwd":"/a","version":"2","type":"user","uuid":"u1","timestamp":"2026-01-02T03:04:05.250Z","message":{"role":"user","content":"fix it"}}
{"parentUuid":"u1","isSidechain":false,"sessionId":"s","type":"assistant","uuid":"a1","timestamp":"2026-01-02T03:04:06.250Z","requestId":"r","message":{"id":"msg","type":"message","role":"assistant","model":"claude","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"}],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1,"cache_read_input_tokens":100,"cache_creation_input_tokens":20}}}
{"parentUuid":"a1","isSidechain":false,"sessionId":"s","type":"assistant","uuid":"a2","timestamp":"2026-01-02T03:04:06.350Z","requestId":"r","message":{"id":"msg","type":"message","role":"assistant","model":"claude","content":[{"type":"tool_use","id":"c1","name":"Read","input":{"file_path":"/a"}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":9,"cache_read_input_tokens":100,"cache_creation_input_tokens":20}}}
{"parentUuid":"a2","isSidechain":false,"sessionId":"s","type":"user","uuid":"t1","timestamp":"2026-01-02T03:04:07.250Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"found"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGVsbG8="}}]}]},"toolUseResult":{"stdout":"found"}}
{"type":"queue-operation","operation":"enqueue","timestamp":"2026-01-02T03:04:06.400Z","sessionId":"s","content":"and blue"}
{"type":"queue-operation","operation":"remove","timestamp":"2026-01-02T03:04:06.450Z","sessionId":"s"}
{"parentUuid":"t1","isSidechain":false,"sessionId":"s","type":"attachment","uuid":"q2","timestamp":"2026-01-02T03:04:07.300Z","attachment":{"type":"queued_command","prompt":[{"type":"text","text":"and red"}],"commandMode":"prompt"}}
{"parentUuid":"q2","isSidechain":false,"sessionId":"s","type":"assistant","uuid":"a3","timestamp":"2026-01-02T03:04:07.330Z","message":{"id":"msg2","type":"message","role":"assistant","model":"claude","content":[{"type":"text","text":"so"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":9}}}
{"parentUuid":"a3","isSidechain":false,"sessionId":"s","type":"assistant","uuid":"a4","timestamp":"2026-01-02T03:04:07.340Z","message":{"id":"msg2","type":"message","role":"assistant","model":"claude","content":[{"type":"text","text":"so"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":9}}}
{"parentUuid":null,"isSidechain":true,"sessionId":"s","agentId":"g1","type":"user","uuid":"q1","timestamp":"2026-01-02T03:04:07.350Z","message":{"role":"user","content":"a task"}}
{"parentUuid":"t1","logicalParentUuid":"t1","isSidechain":false,"sessionId":"s","type":"system","subtype":"compact_boundary","uuid":"k1","timestamp":"2026-01-02T03:04:08.250Z","content":"Conversation compacted","compactMetadata":{"trigger":"auto","preTokens":155000}}
{"parentUuid":"k1","isSidechain":false,"sessionId":"s","type":"user","uuid":"u2","isCompactSummary":true,"isVisibleInTranscriptOnly":true,"timestamp":"2026-01-02T03:04:09.250Z","message":{"role":"user","content":"what was"}}
{"type":"file-history-snapshot","messageId":"u2","snapshot":{"trackedFileBackups":{}},"isSnapshotUpdate":false}
{"parentUuid":"u2","isSidechain":false,"sessionId":"s","type":"user","uuid":"u3","isMeta":true,"timestamp":"2026-01-02T03:04:10.250Z","message":{"role":"user","content":"<command-name>/mode</command-name>"}}"#;

/// Checks that the daemon accepts the values of a message.
fn check_values(message: &NewMessage) -> Result<(), String> {
    let years = Timestamp(-62_135_596_800_000_000)..Timestamp(253_402_300_800_000_000);
    if message.origin_time.is_some_and(|time| !years.contains(&time)) {
        return Err(format!("the time {:?}", message.origin_time));
    }
    let mut names = vec![&message.model, &message.provider];
    for part in &message.parts {
        match &*part.body {
            PartBody::ToolCall(call) => names.push(&call.tool),
            PartBody::Media(media) => names.push(&media.mime_type),
            PartBody::ToolResult(result) => names.extend(result.attachments.iter().map(|media| &media.mime_type)),
            _ => {}
        }
    }
    if let Some(name) = names.iter().find(|name| name.len() > limits::NAME_BYTES_MAX || name.contains('\0')) {
        return Err(format!("the name {name:?} of {} bytes", name.len()));
    }
    let usage = message.finish.as_ref().and_then(|finish| finish.usage).unwrap_or_default();
    let Usage { input, output, reasoning, cache_read, cache_write, total, cost_usd, cost_is_computed: _ } = usage;
    let counts = [input, output, reasoning, cache_read, cache_write, total.unwrap_or_default()];
    let valid = counts.iter().all(|count| (0..=limits::TOKENS_MAX).contains(count));
    if valid && cost_usd.is_none_or(|cost| cost >= 0.0) { Ok(()) } else { Err(format!("{usage:?}")) }
}

/// Checks the guarantees of every transcript.
pub(super) fn check(transcript: &Transcript) -> Result<(), String> {
    if transcript.branches.is_empty() {
        return Err("a transcript without branches".to_owned());
    }
    let mut ids = HashSet::new();
    for (index, branch) in transcript.branches.iter().enumerate() {
        if index > 0 && branch.from >= index {
            return Err(format!("branch {index} leaves branch {}", branch.from));
        }
        for entry in &branch.entries {
            if entry.client_id().is_empty() || !ids.insert(entry.client_id()) {
                return Err(format!("the entry of line {} has the id {:?}", entry.line(), entry.client_id()));
            }
            let message = match entry {
                Entry::Message { message, .. } | Entry::Record { message, .. } => message,
                Entry::Compaction(compaction) => &compaction.record,
                Entry::Edit(edit) => &edit.record,
            };
            if message.finish.is_none() {
                return Err(format!("the entry of line {} is open", entry.line()));
            }
            check_values(message).map_err(|value| format!("the entry of line {} has {value}", entry.line()))?;
        }
        if let Some(after) = &branch.fork_after
            && !transcript.branches[branch.from].entries.iter().any(|entry| entry.client_id() == after)
        {
            return Err(format!("branch {index} leaves at {after:?}, which branch {} does not have", branch.from));
        }
    }
    interop::expectations(transcript);
    transcript.children.iter().try_for_each(check)
}

impl Decoder for Import {
    fn seeds(&mut self) -> Result<Vec<Input>> {
        let old = PI.replace("\"version\":3", "\"version\":1");
        Ok(vec![
            Input::new("pi", PI),
            Input::new("pi", old),
            Input::new("", PI),
            Input::new("claude-code", CLAUDE),
            Input::new("", CLAUDE),
            Input::new("child", CLAUDE),
        ])
    }

    fn shape(&self, _: &str) -> Shape {
        Shape::Lines
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "type",
            "message",
            "id",
            "parentId",
            "uuid",
            "parentUuid",
            "session",
            "user",
            "assistant",
            "toolResult",
            "content",
            "u1",
            "a1",
            "t1",
            "k1",
            "compaction",
            "firstKeptEntryId",
            "usage",
            "isSidechain",
            "agentId",
            "tool_use",
            "tool_result",
            "summary",
            "isCompactSummary",
            "timestamp",
            "2026-13-40T99:99:99Z",
            "signature",
            "context_edit",
            "targetId",
            "logicalParentUuid",
            "compact_boundary",
            "image",
            "data",
            "leafUuid",
            "attachment",
            "queued_command",
            "prompt",
            "queue-operation",
            "operation",
            "remove",
            "dequeue",
            "popAll",
            "cwd",
            "agentSlug",
            "payload",
            "session.start",
        ]
    }

    fn attempt(&mut self, input: &Input) -> Result<Outcome, String> {
        let options = |format| Options { format, ..Options::default() };
        let read = match input.head.as_str() {
            "pi" => interop::parse(&input.body[..], &options(Some(Format::Pi))),
            "claude-code" => interop::parse(&input.body[..], &options(Some(Format::ClaudeCode))),
            "child" => interop::parse_child(&input.body[..], &options(None)),
            _ => interop::parse(&input.body[..], &options(None)),
        };
        match read {
            Ok(transcript) => check(&transcript).map(|()| Outcome::Taken),
            Err(interop::ReadError::UnknownFormat | interop::ReadError::OtherAgent(_)) if input.head.is_empty() => {
                Ok(Outcome::Refused)
            }
            Err(error) => Err(format!("nothing that a line holds is an error, but: {error}")),
        }
    }
}
