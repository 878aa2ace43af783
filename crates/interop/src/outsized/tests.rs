use super::*;
use crate::tests::{messages, record_kinds};
use crate::{Format, Options, parse};
use serde_json::json;

const LIMIT: usize = 64 * 1024;

fn read(lines: &[Value]) -> (Vec<String>, Transcript) {
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let options = Options { format: Some(Format::ClaudeCode), message_bytes: LIMIT, ..Options::default() };
    let transcript = parse(lines.join("\n").as_bytes(), &options).expect("a transcript");
    (lines, transcript)
}

/// The joined text of the records with the pieces of a line.
fn pieces(transcript: &Transcript, line: usize) -> String {
    let mut data = String::new();
    for entry in &transcript.branches[0].entries {
        let Entry::Record { message, .. } = entry else { continue };
        let metadata: Value = serde_json::from_str(message.metadata_json.as_deref().unwrap_or("{}")).expect("JSON");
        if metadata["line"] == line
            && let PartBody::Record(record) = &*message.parts[0].body
        {
            assert!(record.data.len() <= LIMIT);
            data.push_str(&record.data);
        }
    }
    data
}

fn user(id: &str, parent: Option<&str>, content: Value) -> Value {
    json!({"type": "user", "uuid": id, "parentUuid": parent, "sessionId": "s", "message": {"role": "user", "content": content}})
}

#[test]
fn a_result_that_is_too_large_is_shortened_and_kept_whole() {
    let call = json!({"type": "assistant", "uuid": "a", "parentUuid": "u", "sessionId": "s", "message": {"id": "m", "role": "assistant",
        "content": [{"type": "tool_use", "id": "c1", "name": "cat", "input": {}}]}});
    let output = "é".repeat(LIMIT);
    let result = json!({"type": "tool_result", "tool_use_id": "c1", "content": output});
    let (lines, transcript) = read(&[
        user("u", None, json!("go")),
        call,
        user("r", Some("a"), json!([result])),
        user("n", Some("r"), json!("and then?")),
    ]);
    let messages = messages(&transcript.branches[0]);
    assert_eq!(messages.len(), 4, "the conversation goes on");
    let PartBody::ToolResult(result) = &*messages[2].parts[0].body else { panic!("a result") };
    assert_eq!(result.call_id, "c1");
    assert!(result.output.ends_with("éé") && result.output.contains("from the record line:3:whole:1 on"));
    assert!(result.output.len() < KEPT_BYTES + 200);
    assert_eq!(pieces(&transcript, 3), lines[2], "every byte is there");
    assert_eq!(transcript.problems.len(), 1);
    assert_eq!(transcript.problems[0].line, 3);
    let metadata: Value = serde_json::from_str(messages[2].metadata_json.as_deref().expect("metadata")).expect("JSON");
    assert_eq!(metadata["lines"][0]["records"][0], "line:3:whole:1");
    assert!(metadata["lines"][0].get("cut").is_none(), "nothing points at words that are gone");
}

#[test]
fn every_value_that_is_too_large_is_moved() {
    let large = "x".repeat(2 * LIMIT);
    let image =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD".repeat(LIMIT)}});
    let reply = json!({"type": "assistant", "uuid": "a", "parentUuid": "u", "sessionId": "s", "message": {"id": "m", "role": "assistant",
        "content": [{"type": "thinking", "thinking": large, "signature": "s"}, {"type": "text", "text": large},
            {"type": "tool_use", "id": "c1", "name": "cat", "input": {"text": large}}, {"type": "odd", "of": large}]}});
    let unknown = json!({"type": "snapshot", "uuid": "x", "sessionId": "s", "data": large});
    let (lines, transcript) = read(&[user("u", None, json!([{"type": "text", "text": "see"}, image])), reply, unknown]);
    for message in messages(&transcript.branches[0]) {
        assert!(bytes_of(&message.parts) <= LIMIT, "{:?}", message.client_id);
        for part in &message.parts {
            if let PartBody::ToolCall(call) = &*part.body {
                assert!(serde_json::from_str::<Value>(&call.input_json).is_ok(), "{}", call.input_json);
            }
        }
    }
    for (index, line) in lines.iter().enumerate() {
        assert_eq!(&pieces(&transcript, index + 1), line);
    }
    let kinds = record_kinds(&transcript.branches[0]);
    assert!(kinds.contains(&LINE_RECORD) && kinds.contains(&"snapshot"), "{kinds:?}");
    assert_eq!(transcript.problems.len(), 3);
}

#[test]
fn pieces_have_ids_of_their_own() {
    let large = "x".repeat(2 * LIMIT);
    let sly = user("line:2:whole:1", None, json!("I was here first"));
    let (_, transcript) = read(&[sly, user("u", Some("line:2:whole:1"), json!(large))]);
    let mut ids: Vec<&str> = transcript.branches[0].entries.iter().map(Entry::client_id).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
}
