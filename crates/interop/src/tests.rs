//! Laws for every transcript: nothing of a file is lost, and the plan can be written.

mod damage;
mod rows;

use super::titles::{TITLE_CHARACTERS, title_of};
use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use longhand_model::message::NewMessage;
use longhand_model::part::{Media, MediaSource};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

/// Reads a transcript from JSON lines.
pub(super) fn transcript(lines: &[Value], format: Format) -> Transcript {
    let text: Vec<_> = lines.iter().map(Value::to_string).collect();
    read(&text.join("\n"), format)
}

pub(super) fn read(text: &str, format: Format) -> Transcript {
    let options = Options { format: Some(format), ..Options::default() };
    parse(text.as_bytes(), &options).unwrap()
}

pub(super) fn messages(branch: &Branch) -> Vec<&NewMessage> {
    let messages = branch.entries.iter().filter_map(|entry| match entry {
        Entry::Message { message, .. } => Some(message),
        Entry::Record { .. } | Entry::Compaction(_) | Entry::Edit(_) => None,
    });
    messages.collect()
}

/// The kinds of a branch's records.
pub(super) fn record_kinds(branch: &Branch) -> Vec<&str> {
    let records = branch.entries.iter().filter_map(|entry| match entry {
        Entry::Record { message, .. } => Some(&*message.parts[0].body),
        Entry::Message { .. } | Entry::Compaction(_) | Entry::Edit(_) => None,
    });
    records.map(|body| if let PartBody::Record(record) = body { record.kind.as_str() } else { "" }).collect()
}

pub(super) fn texts(message: &NewMessage) -> Vec<&str> {
    message
        .parts
        .iter()
        .filter_map(|part| if let PartBody::Text(text) = &*part.body { Some(text.as_str()) } else { None })
        .collect()
}

/// The problems, as line and message text.
pub(super) fn problems(transcript: &Transcript) -> Vec<(usize, &str)> {
    transcript.problems.iter().map(|problem| (problem.line, problem.message.as_str())).collect()
}

/// The ids of a branch's entries.
pub(super) fn ids(branch: &Branch) -> Vec<&str> {
    branch.entries.iter().map(Entry::client_id).collect()
}

pub(super) fn compactions(branch: &Branch) -> Vec<&ImportedCompaction> {
    let compactions = branch.entries.iter().filter_map(|entry| match entry {
        Entry::Compaction(compaction) => Some(compaction),
        Entry::Message { .. } | Entry::Record { .. } | Entry::Edit(_) => None,
    });
    compactions.collect()
}

fn media_bytes(media: &Media) -> Value {
    match &media.source {
        MediaSource::Bytes(bytes) => STANDARD.encode(bytes).into(),
        MediaSource::Uri(uri) => panic!("{uri} is no bytes"),
    }
}

fn body(part: &PartBody) -> Value {
    match part {
        PartBody::Text(text) | PartBody::Reasoning(text) => text.as_str().into(),
        PartBody::ToolCall(call) => serde_json::from_str(&call.input_json).unwrap(),
        PartBody::ToolResult(result) => result.output.as_str().into(),
        PartBody::Media(media) => media_bytes(media),
        PartBody::Opaque(opaque) => serde_json::from_slice(&opaque.data).unwrap(),
        PartBody::Marker(marker) => marker.text.as_str().into(),
        PartBody::Step(_) | PartBody::Record(_) => panic!("not made by an import"),
    }
}

/// The pointer and the value of an item of `cut`.
fn moved_value(moved: &Value, message: &NewMessage) -> (String, Value) {
    let part = &message.parts[moved[1].as_u64().unwrap() as usize];
    let value = match &moved[2] {
        Value::Null => body(&part.body),
        Value::Number(index) => {
            let PartBody::ToolResult(result) = &*part.body else { panic!("{part:?} has no attachments") };
            media_bytes(&result.attachments[index.as_u64().unwrap() as usize])
        }
        name => {
            let metadata: Value = serde_json::from_str(part.metadata_json.as_ref().unwrap()).unwrap();
            metadata[name.as_str().unwrap()].clone()
        }
    };
    (moved[0].as_str().unwrap().to_owned(), value)
}

/// The objects and the other pieces of a file, by line; a piece that is not valid JSON is a string.
type Pieces = BTreeMap<usize, Vec<Value>>;

#[derive(Default)]
struct RestoredPieces {
    /// What is left of each piece, by line and column; that of a record has no column.
    rests: BTreeMap<(usize, usize), Value>,
    records: Pieces,
    moved: Vec<((usize, usize), String, Value)>,
    /// Lines of compactions after their first one.
    more: Vec<Value>,
}

impl RestoredPieces {
    fn pieces(&mut self, metadata: &str, message: &NewMessage) {
        let metadata: Value = serde_json::from_str(metadata).unwrap();
        for piece in metadata["lines"].as_array().unwrap() {
            let number = |name: &str| piece[name].as_u64().map(|number| number as usize);
            let place = (number("line").unwrap(), number("column").unwrap_or(1));
            if let Some(rest) = piece.get("rest") {
                assert!(self.rests.insert(place, rest.clone()).is_none(), "{place:?} is kept twice");
            }
            for moved in piece.get("cut").and_then(Value::as_array).unwrap_or(&Vec::new()) {
                let (pointer, value) = moved_value(moved, message);
                self.moved.push((place, pointer, value));
            }
        }
    }

    fn record(&mut self, line: usize, message: &NewMessage) {
        let PartBody::Record(record) = &*message.parts[0].body else { panic!("{message:?} is no record") };
        if record.kind == REST_RECORD {
            return self.pieces(&record.data, message);
        }
        let mut lines = record.data.split('\n').map(value);
        self.records.entry(line).or_default().push(lines.next().unwrap());
        self.more.extend(lines);
    }
}

/// Rebuilds the pieces of a file from its plan. The other lines of compactions are returned without their numbers.
fn restore(transcript: &Transcript) -> (Pieces, Vec<Value>) {
    let mut restored = RestoredPieces::default();
    let all = std::iter::once(transcript).chain(&transcript.children);
    for entry in all.flat_map(|transcript| &transcript.branches).flat_map(|branch| &branch.entries) {
        match entry {
            Entry::Message { message, .. } => restored.pieces(message.metadata_json.as_ref().unwrap(), message),
            Entry::Record { line, message } => restored.record(*line, message),
            Entry::Compaction(compaction) => restored.record(compaction.line, &compaction.record),
            Entry::Edit(edit) => restored.record(edit.line, &edit.record),
        }
    }
    for (place, pointer, value) in restored.moved {
        let value_slot = restored.rests.get_mut(&place).unwrap().pointer_mut(&pointer).unwrap();
        assert_eq!(*value_slot, Value::Null, "{place:?} still has {pointer}");
        *value_slot = value;
    }
    let mut pieces = restored.records;
    for ((line, _), value) in restored.rests {
        pieces.entry(line).or_default().push(value);
    }
    (pieces, restored.more)
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.trim()))
}

fn values(text: &str) -> Pieces {
    let mut values = Pieces::new();
    for line in name_index::read_lines(text.as_bytes()).unwrap().0 {
        values.entry(line.number).or_default().push(value(line.text()));
    }
    values
}

/// Checks the laws of every plan.
pub(super) fn check(text: &str, transcript: &Transcript) {
    let (mut restored, mut more) = restore(transcript);
    let mut earlier = HashSet::new();
    for (number, values) in values(text) {
        for value in values {
            let same = |values: &mut Vec<Value>| {
                values.iter().position(|other| *other == value).map(|position| values.swap_remove(position))
            };
            let found = restored.get_mut(&number).and_then(same).or_else(|| same(&mut more));
            assert!(found.is_some() || earlier.contains(&value.to_string()), "line {number} is lost: {value}");
            earlier.insert(value.to_string());
        }
    }
    restored.retain(|_, values| !values.is_empty());
    assert_eq!((restored, more), (Pieces::new(), Vec::new()), "what no line has");
    playable(transcript);
}

/// Checks that a plan can be written: ids, forks and ranges are consistent.
fn playable(transcript: &Transcript) {
    let mut seen = HashSet::new();
    for (index, branch) in transcript.branches.iter().enumerate() {
        assert!(branch.from < index.max(1));
        assert!(index > 0 || (branch.name == "main" && branch.fork_after.is_none()));
        if let Some(shared) = &branch.fork_after {
            assert!(ids(&transcript.branches[branch.from]).contains(&shared.as_str()), "{shared} is not in its branch");
        }
        assert!(index == 0 || !branch.entries.is_empty());
        for entry in &branch.entries {
            assert!((1..=128).contains(&entry.client_id().len()), "{}", entry.client_id());
            assert!(seen.insert(entry.client_id()), "{} comes twice", entry.client_id());
            if let Entry::Message { message, .. } = entry {
                assert_eq!(message.kind, longhand_model::message::MessageKind::Normal);
                let reply = message.role == longhand_model::message::Role::Assistant;
                assert_eq!(message.finish.as_ref().unwrap().reason.is_some(), reply);
                let parts: Vec<_> = message.parts.iter().filter_map(|part| part.client_id.as_ref()).collect();
                assert_eq!(parts.iter().collect::<HashSet<_>>().len(), parts.len(), "{parts:?}");
            }
        }
    }
    let messages: HashSet<_> = transcript
        .branches
        .iter()
        .flat_map(|branch| &branch.entries)
        .filter(|entry| matches!(entry, Entry::Message { .. }))
        .map(Entry::client_id)
        .collect();
    for compaction in transcript.branches.iter().flat_map(compactions) {
        assert!(messages.contains(compaction.covers_until_client_id.as_str()));
        assert!(compaction.first_kept_client_id.as_ref().is_none_or(|kept| messages.contains(kept.as_str())));
    }
    assert!(transcript.problems.is_sorted_by_key(|problem| problem.line));
    transcript.children.iter().for_each(playable);
}

/// A real transcript; none if the folder with the data is missing.
fn real(name: &str) -> Option<(String, BufReader<File>)> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    match (std::fs::read_to_string(&path), File::open(&path)) {
        (Ok(text), Ok(file)) => Some((text, BufReader::new(file))),
        _ => {
            println!("skipped: {} is not there", path.display());
            None
        }
    }
}

fn by_role(transcript: &Transcript, role: longhand_model::message::Role) -> usize {
    let messages = transcript.branches[0].entries.iter().filter(|entry| match entry {
        Entry::Message { message, .. } => message.role == role,
        Entry::Record { .. } | Entry::Compaction(_) | Entry::Edit(_) => false,
    });
    messages.count()
}

#[test]
fn the_large_pi_session_is_read_whole() {
    use longhand_model::message::Role;
    let Some((text, reader)) = real("pi/large-session.jsonl") else { return };
    let transcript = parse(reader, &Options::default()).unwrap();
    assert_eq!(transcript.format, Format::Pi);
    assert_eq!(transcript.source_id, "d703a1a9-1b7b-4fb1-b512-c9738b1fe617");
    // The file begins with a command of the agent's own.
    assert!(transcript.title.starts_with("read packages/coding-agent/docs/theme.md in full"), "{}", transcript.title);
    assert_eq!(transcript.problems, []);
    assert_eq!(transcript.branches.len(), 1);
    let totals = expectations(&transcript);
    assert_eq!(totals.messages, 914);
    let roles = [Role::User, Role::Assistant, Role::Tool].map(|role| by_role(&transcript, role));
    assert_eq!(roles, [88, 453, 373]);
    assert_eq!(totals.parts, 88 + 244 + 391 + 1 + 373);
    assert_eq!((totals.records, totals.compactions), (105, 0));
    assert_eq!((totals.calls, totals.unanswered_calls), (391, 18));
    check(&text, &transcript);
}

#[test]
fn the_compacted_claude_code_session_is_read_whole() {
    use longhand_model::message::Role;
    let name = "claude-code/compacted/258c7280-ae70-4798-800f-63464d01a85d.jsonl";
    let Some((text, reader)) = real(name) else { return };
    let transcript = parse(reader, &Options::default()).unwrap();
    assert_eq!(transcript.format, Format::ClaudeCode);
    assert_eq!(transcript.source_id, "258c7280-ae70-4798-800f-63464d01a85d");
    assert_eq!(transcript.title, "Implement spotter-gqc");
    assert_eq!(transcript.problems, []);
    assert_eq!((transcript.branches.len(), transcript.children.len()), (1, 0));
    let roles = [Role::User, Role::Assistant, Role::Tool].map(|role| by_role(&transcript, role));
    // Two requests were typed while a call ran, and are in no row of their own.
    assert_eq!(roles, [7, 152, 186]);
    let totals = expectations(&transcript);
    assert_eq!((totals.messages, totals.parts), (7 + 152 + 186, 7 + 299 + 186));
    assert_eq!((totals.records, totals.compactions), (1863 - 299 - 192 - 1, 1));
    assert_eq!((totals.calls, totals.unanswered_calls), (186, 0));
    let compaction = compactions(&transcript.branches[0])[0];
    assert_eq!((compaction.line, compaction.tokens_before), (1256, 167_094));
    assert_eq!((compaction.trigger.as_str(), &compaction.first_kept_client_id), ("auto", &None));
    assert!(compaction.summary_text.starts_with("This session is being continued"));
    check(&text, &transcript);
}

#[test]
fn the_other_claude_code_sessions_are_read_whole() {
    for (name, counts) in
        [("short.jsonl", (5, 2, 2, 2)), ("tool_heavy.jsonl", (17, 7, 6, 6)), ("subagent.jsonl", (32, 4, 16, 16))]
    {
        let Some((text, reader)) = real(&format!("claude-code/{name}")) else { return };
        let transcript = parse(reader, &Options::default()).unwrap();
        assert_eq!(transcript.problems, [], "{name}");
        assert_eq!(transcript.branches.len(), 1, "{name}");
        let totals = expectations(&transcript);
        let user = by_role(&transcript, longhand_model::message::Role::User);
        assert_eq!((totals.messages, user, totals.calls, totals.calls - totals.unanswered_calls), counts, "{name}");
        check(&text, &transcript);
    }
}

#[test]
fn the_files_of_sub_agents_are_read_whole() {
    for (name, agent, counts) in
        [("agent-a881341.jsonl", "a881341", (6, 2, 2)), ("agent-acompact-fffbd0.jsonl", "acompact-fffbd0", (4, 0, 0))]
    {
        let name = format!("claude-code/compacted/subagents/{name}");
        let Some((text, reader)) = real(&name) else { return };
        let transcript = parse_child(reader, &Options::default()).unwrap();
        assert_eq!((transcript.source_id.as_str(), transcript.branches.len()), (agent, 1));
        let totals = expectations(&transcript);
        assert_eq!((totals.messages, totals.calls, totals.records), counts);
        check(&text, &transcript);
        // The format is detected correctly too.
        let (_, reader) = real(&name).unwrap();
        assert_eq!(parse(reader, &Options::default()).unwrap(), transcript);
    }
}

/// Rows of agents whose files are not read, though some have all that a row of pi or of Claude Code needs.
const OTHERS: [(&str, &str); 13] = [
    ("Codex", r#"{"timestamp":"T","type":"session_meta","payload":{"id":"x"}}"#),
    ("Copilot CLI", r#"{"type":"session.start","data":{"sessionId":"s"},"id":"e1","timestamp":"T","parentId":null}"#),
    ("Copilot in VS Code", r#"{"kind":0,"v":{"version":3,"requests":[]}}"#),
    ("Droid", r#"{"type":"session_start","id":"s","title":"t","cwd":"/w"}"#),
    ("Kimi Code", r#"{"type":"metadata","protocol_version":"1.4","created_at":1}"#),
    ("Windsurf", r#"{"status":"done","type":"user_input","user_input":{"user_response":"sing"}}"#),
    ("Gemini CLI", r#"{"id":"g","timestamp":"T","type":"user","content":"add it"}"#),
    ("Gemini CLI", r#"{"sessionId":"s","projectHash":"p","startTime":"T","kind":"main"}"#),
    ("Cursor", r#"{"role":"user","message":{"content":[{"type":"text","text":"make it"}]}}"#),
    (
        "Qwen Code",
        r#"{"uuid":"u","parentUuid":null,"sessionId":"s","type":"user","message":{"role":"user","parts":[]}}"#,
    ),
    ("Qwen Code", r#"{"uuid":"u","sessionId":"s","type":"system","subtype":"ui_telemetry","systemPayload":{}}"#),
    ("aider", r#"{"sessionId":"s","agentSlug":"aider","type":"user","message":{"content":"fix"},"uuid":"u"}"#),
    ("codex", r#"{"sessionId":"s","agent":"codex","type":"user","message":{"content":"fix"},"uuid":"u"}"#),
];

#[test]
fn files_of_other_agents_are_refused_by_name() {
    for (agent, row) in OTHERS {
        match parse(row.as_bytes(), &Options::default()) {
            Err(ReadError::OtherAgent(named)) => assert_eq!(named, agent, "{row}"),
            other => panic!("{agent}: {other:?}"),
        }
    }
}

#[test]
fn real_files_of_other_agents_are_refused_by_name() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/other-agents");
    let Ok(files) = folder.read_dir() else { return println!("skipped: {} is not there", folder.display()) };
    for path in files.map(|file| file.unwrap().path()) {
        let refused = parse(BufReader::new(File::open(&path).unwrap()), &Options::default());
        assert!(matches!(refused, Err(ReadError::OtherAgent(_))), "{}: {refused:?}", path.display());
    }
}

#[test]
fn formats_are_detected_from_the_first_lines() {
    let pi = [r#"{"type":"session","id":"s","cwd":"/"}"#, r#"{"type":"message"}"#];
    let claude = [r#"{"type":"summary","leafUuid":"u","summary":"s"}"#];
    let late = ["broken", r#"{"type":"x","uuid":"u"}"#, r#"{"type":"queue-operation","sessionId":"s"}"#];
    assert_eq!(detect(pi).unwrap(), Format::Pi);
    assert_eq!(detect(claude).unwrap(), Format::ClaudeCode);
    assert_eq!(detect(late).unwrap(), Format::ClaudeCode);
    assert!(matches!(detect(["{\"a\":1}", "text"]), Err(ReadError::UnknownFormat)));
    assert!(matches!(parse(&b"text"[..], &Options::default()), Err(ReadError::UnknownFormat)));
}

#[test]
fn a_failing_reader_is_an_error() {
    struct BrokenReader;
    impl io::Read for BrokenReader {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("gone"))
        }
    }
    let error = parse(BufReader::new(BrokenReader), &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "the transcript cannot be read: gone");
}

#[test]
fn titles_are_short_first_lines() {
    assert_eq!(title_of("\n  Fix it \nnow"), "Fix it");
    let title = title_of(&"ä".repeat(200));
    assert_eq!((title.chars().count(), title.chars().last()), (TITLE_CHARACTERS + 1, Some('…')));
}

#[test]
fn totals_add_branches_and_children_up() {
    let reply = |id: &str, agent: Option<&str>| {
        json!({"type":"assistant","uuid":id,"parentUuid":null,"isSidechain":agent.is_some(),"agentId":agent,
            "sessionId":"s","message":{"id":id,"role":"assistant","model":"m","usage":{"input_tokens":3,
            "output_tokens":4},"content":[{"type":"tool_use","id":id,"name":"t","input":{}}]}})
    };
    let transcript = transcript(&[reply("a", None), reply("b", Some("x"))], Format::ClaudeCode);
    let totals = expectations(&transcript);
    assert_eq!((totals.messages, totals.parts, totals.calls, totals.unanswered_calls), (2, 2, 2, 2));
    assert_eq!((totals.usage.input, totals.usage.output), (6, 8));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-c/~\"\\\\😀\u{0}-\u{20}]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any_name(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["text", "type", "id", "a/b", "~", "data", "content"]).prop_map(str::to_owned)
}

fn any_block() -> impl Strategy<Value = Value> {
    let kinds = vec![
        "text",
        "thinking",
        "toolCall",
        "image",
        "tool_use",
        "tool_result",
        "redacted_thinking",
        "document",
        "other",
    ];
    let id = prop::sample::select(vec!["c1", "c2", "c3"]);
    let block = (prop::sample::select(kinds), id, any_json(), "[a-z]{0,8}").prop_map(|(kind, id, extra, text)| {
        json!({"type":kind,"text":text,"thinking":text,"signature":extra,"id":id,"name":"read","arguments":extra,
            "input":extra,"tool_use_id":id,"mimeType":"image/png","data":STANDARD.encode(&text),
            "content":[{"type":"text","text":text},{"type":"image","source":{"type":"base64","media_type":"image/png",
            "data":STANDARD.encode(&text)}}],"source":{"type":"base64","media_type":"a/b","data":"AAAA"}})
    });
    prop_oneof![8 => block, 1 => any_json()]
}

fn any_content() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => "[a-z ]{0,8}".prop_map(Value::from),
        6 => prop::collection::vec(any_block(), 0..4).prop_map(Value::from),
        1 => any_json(),
    ]
}

fn any_id() -> impl Strategy<Value = Value> {
    prop_oneof![
        12 => (0..12_u8).prop_map(|number| Value::from(format!("u{number}"))),
        2 => Just(Value::Null),
        1 => Just(Value::from("x".repeat(130))),
        1 => any_json(),
    ]
}

fn any_claude_line() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(vec!["user", "user", "assistant", "assistant", "progress", "system", "summary"]);
    let flags = (any::<bool>(), prop::bool::weighted(0.1), prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    let message_id = prop::sample::select(vec![Value::Null, "m1".into(), "m2".into()]);
    (kind, any_id(), any_id(), any_content(), flags, message_id).prop_map(
        |(kind, uuid, parent, content, (boundary, summary, sidechain, meta), message_id)| {
            json!({"type":kind,"uuid":uuid,"parentUuid":parent,"isSidechain":sidechain,"isMeta":meta,
                "isCompactSummary":summary,"subtype":boundary.then_some("compact_boundary"),"sessionId":"s",
                "compactMetadata":{"preservedMessages":{"uuids":[parent]}},
                "message":{"id":message_id,"content":content,"stop_reason":null}})
            .to_string()
        },
    )
}

fn any_pi_line() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(vec![
        "session",
        "message",
        "message",
        "message",
        "compaction",
        "custom_message",
        "branch_summary",
        "label",
    ]);
    let role = prop::sample::select(vec!["user", "assistant", "toolResult", "bashExecution", "custom", "system", "?"]);
    let version = prop::sample::select(vec![Value::Null, 1.into(), 2.into(), 3.into()]);
    (kind, any_id(), any_id(), any_content(), role, version).prop_map(|(kind, id, parent, content, role, version)| {
        json!({"type":kind,"id":id,"parentId":parent,"version":version,"summary":"s","firstKeptEntryId":parent,
            "firstKeptEntryIndex":2,"content":content,"message":{"role":role,"content":content,"toolCallId":"c1",
            "command":"ls"}})
        .to_string()
    })
}

fn soup() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..40);
    let line = prop_oneof![
        3 => any_claude_line().prop_map(String::into_bytes),
        3 => any_pi_line().prop_map(String::into_bytes),
        2 => bytes,
        1 => any_json().prop_map(|value| value.to_string().into_bytes()),
        // A truncated line.
        2 => (any_claude_line(), 0..200_usize).prop_map(|(line, end)| line.bytes().take(end).collect()),
    ];
    prop::collection::vec(line, 0..20).prop_map(|lines| lines.join(&b'\n'))
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in soup(), metadata_bytes in 0..400_usize) {
        for format in [Format::Pi, Format::ClaudeCode] {
            let options = Options { format: Some(format), metadata_bytes, ..Options::default() };
            let transcript = parse(&bytes[..], &options).unwrap();
            playable(&transcript);
            expectations(&transcript);
        }
        parse_child(&bytes[..], &Options::default()).unwrap();
    }

    #[test]
    fn nothing_of_a_pi_file_is_lost(lines in prop::collection::vec(any_pi_line(), 0..20), small in 0..300_usize) {
        let text = lines.join("\n");
        for metadata_bytes in [small, 64 * 1024] {
            let options = Options { format: Some(Format::Pi), metadata_bytes, ..Options::default() };
            check(&text, &parse(text.as_bytes(), &options).unwrap());
        }
    }

    #[test]
    fn nothing_of_a_claude_code_file_is_lost(
        lines in prop::collection::vec(any_claude_line(), 0..20),
        small in 0..300_usize,
    ) {
        let text = lines.join("\n");
        for metadata_bytes in [small, 64 * 1024] {
            let options = Options { format: Some(Format::ClaudeCode), metadata_bytes, ..Options::default() };
            check(&text, &parse(text.as_bytes(), &options).unwrap());
        }
    }
}
