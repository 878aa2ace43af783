//! Random message content, and fingerprints to find it again.

use longhand::pb;
use pb::part::Body;
use prost::Message as _;
use rand::Rng;
use rand::seq::IndexedRandom as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

const WORDS: [&str; 24] = [
    "the",
    "parser",
    "fails",
    "when",
    "cursor",
    "stands",
    "behind",
    "a",
    "view",
    "über",
    "größe",
    "日本語",
    "🙂",
    "test",
    "build",
    "\n",
    "\t",
    "\"quoted\"",
    "{\"json\": [1, 2]}",
    "src/main.rs",
    "error:",
    "[User]:",
    "</conversation>",
    "ok",
];

/// Random words, slightly more than `bytes` bytes.
pub(super) fn words(rng: &mut impl Rng, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        text.push_str(WORDS.choose(rng).copied().unwrap_or("word"));
        text.push(' ');
    }
    text
}

/// A length in bytes, mostly short.
pub(super) fn length(rng: &mut impl Rng) -> usize {
    match rng.random_range(0..100) {
        0..60 => rng.random_range(10..400),
        60..92 => rng.random_range(400..2_000),
        92..99 => rng.random_range(2_000..12_000),
        _ => rng.random_range(60_000..90_000),
    }
}

/// A part with a body.
pub(super) fn part(body: Body) -> pb::Part {
    pb::Part { body: Some(body), ..pb::Part::default() }
}

/// A text part.
pub(super) fn text(text: String) -> pb::Part {
    part(Body::Text(pb::TextPart { text }))
}

/// A tool call. Its token distinguishes it from other calls with the same id.
pub(super) fn call(rng: &mut impl Rng, call_id: &str, token: &str) -> pb::Part {
    let input = words(rng, 60);
    part(Body::ToolCall(pb::ToolCallPart {
        call_id: call_id.to_owned(),
        tool: ["bash", "read", "grep"].choose(rng).copied().unwrap_or("bash").to_owned(),
        input_json: serde_json::json!({ "call": token, "input": input }).to_string(),
        ..pb::ToolCallPart::default()
    }))
}

/// The result of the call with the given token.
pub(super) fn result(rng: &mut impl Rng, call_id: &str, token: &str, bytes: usize) -> pb::Part {
    let status = if rng.random_bool(0.9) { pb::ToolResultStatus::Completed } else { pb::ToolResultStatus::Error };
    part(Body::ToolResult(pb::ToolResultPart {
        call_id: call_id.to_owned(),
        status: status.into(),
        output: format!("result of {token}\n{}", words(rng, bytes)),
        ..pb::ToolResultPart::default()
    }))
}

/// A part of one of the rarer kinds.
pub(super) fn rare(rng: &mut impl Rng) -> pb::Part {
    let body = match rng.random_range(0..5) {
        0 => Body::Reasoning(pb::ReasoningPart { text: words(rng, 300) }),
        1 => Body::Media(pb::MediaPart {
            mime_type: "image/png".to_owned(),
            name: "shot.png".to_owned(),
            source: Some(pb::media_part::Source::Data((0..rng.random_range(1..600)).map(|_| rng.random()).collect())),
        }),
        2 => Body::Marker(pb::MarkerPart { name: "here".to_owned(), text: words(rng, 20) }),
        3 => Body::Step(pb::StepPart { finish_reason: "tool-calls".to_owned(), usage: None }),
        _ => Body::Opaque(pb::OpaquePart {
            provider: "anthropic".to_owned(),
            kind: "thinking".to_owned(),
            data: (0..rng.random_range(1..200)).map(|_| rng.random()).collect(),
        }),
    };
    let metadata_json = rng.random_bool(0.3).then(|| "{\"b\": 1, \"a\":  2.0}".to_owned());
    pb::Part { body: Some(body), metadata_json, ..pb::Part::default() }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// A part as a client sends it: without the fields that the server adds, one of which may be the message of a
/// result's call. The checks of views cover that one.
pub(super) fn sent(part: &pb::Part) -> pb::Part {
    let mut part = pb::Part { part_id: String::new(), revision: 0, ..part.clone() };
    if let Some(Body::ToolResult(result)) = &mut part.body {
        result.call_message_id = None;
    }
    part
}

/// The fingerprint of parts.
pub(super) fn parts(parts: &[pb::Part]) -> u64 {
    let parts = parts.iter().map(sent).collect();
    hash(&pb::NewMessage { parts, ..pb::NewMessage::default() }.encode_to_vec())
}

/// The fingerprint of a message as it is sent.
pub(super) fn new_message(message: &pb::NewMessage, is_sealed: bool) -> u64 {
    let mut message = message.clone();
    (message.open, message.replace_existing) = (false, false);
    if message.kind == pb::MessageKind::Unspecified as i32 {
        message.kind = pb::MessageKind::Normal.into();
    }
    // The server reads a token and does not keep it.
    let finish = pb::Finish { view_token: None, ..message.finish.take().unwrap_or_default() };
    message.finish = is_sealed.then_some(finish);
    message.parts = message.parts.iter().map(sent).collect();
    hash(&message.encode_to_vec())
}

/// The fingerprint of a message as it is read; equal to that of the message as it was sent.
pub(super) fn message(found: &pb::Message) -> u64 {
    let pb::Message { client_id, role, kind, parts, finish, model, provider, origin_time, metadata_json, .. } =
        found.clone();
    let message = pb::NewMessage {
        client_id,
        role,
        kind,
        parts,
        finish,
        model,
        provider,
        origin_time,
        metadata_json,
        ..pb::NewMessage::default()
    };
    new_message(&message, found.sealed_revision.is_some())
}

/// The fingerprint of an event without its message.
pub(super) fn event(event: &pb::Event) -> u64 {
    hash(&pb::Event { message: None, ..event.clone() }.encode_to_vec())
}

/// The fingerprint of a view's bytes.
pub(super) fn view(messages: &[pb::ContextMessage], end: &pb::ContextEnd) -> u64 {
    let mut bytes =
        pb::ContextMessages { messages: messages.to_vec(), ..pb::ContextMessages::default() }.encode_to_vec();
    bytes.extend(end.encode_to_vec());
    hash(&bytes)
}
