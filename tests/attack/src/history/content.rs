//! Random message content, and fingerprints to find it again.

use super::erasures::Lost;
use super::markers;
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

/// A marker and random words, slightly more than `bytes` bytes.
pub(super) fn words(rng: &mut impl Rng, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 48);
    text.push_str(&markers::fresh(rng));
    text.push(' ');
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

/// Random bytes with a marker among them, which no compression hides.
pub(super) fn bytes(rng: &mut impl Rng, most: usize) -> Vec<u8> {
    let many = rng.random_range(1..most);
    let mut bytes: Vec<u8> = (0..many).map(|_| rng.random()).collect();
    bytes.extend_from_slice(markers::fresh(rng).as_bytes());
    bytes.extend((0..many).map(|_| rng.random::<u8>()));
    bytes
}

/// A part of one of the rarer kinds.
pub(super) fn rare(rng: &mut impl Rng) -> pb::Part {
    let body = match rng.random_range(0..5) {
        0 => Body::Reasoning(pb::ReasoningPart { text: words(rng, 300) }),
        1 => Body::Media(pb::MediaPart {
            mime_type: "image/png".to_owned(),
            name: "shot.png".to_owned(),
            source: Some(pb::media_part::Source::Data(bytes(rng, 600))),
        }),
        2 => Body::Marker(pb::MarkerPart { name: "here".to_owned(), text: words(rng, 20) }),
        3 => Body::Step(pb::StepPart { finish_reason: "tool-calls".to_owned(), usage: None }),
        _ => Body::Opaque(pb::OpaquePart {
            provider: "anthropic".to_owned(),
            kind: "thinking".to_owned(),
            data: bytes(rng, 200),
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

/// The messages of the calls that results among some parts answer, in order.
pub(super) fn callers(parts: &[pb::Part]) -> Vec<String> {
    let results = parts.iter().filter_map(|part| match &part.body {
        Some(Body::ToolResult(result)) => Some(result.call_message_id.clone().unwrap_or_default()),
        _ => None,
    });
    results.collect()
}

/// What stands for a part once it is erased: calls and results keep their ids, names and states; a marker or a record
/// stands for anything else, with a text where a model may have read something.
pub(super) fn erased(part: &pb::Part) -> pb::Part {
    const TEXT: &str = "[erased from the history]";
    let marker = |text: &str| {
        let (name, text) = ("longhand.erased".to_owned(), text.to_owned());
        Body::Marker(pb::MarkerPart { name, text })
    };
    let body = match part.body.clone() {
        Some(Body::ToolCall(call)) => {
            let pb::ToolCallPart { call_id, tool, .. } = call;
            let input_json = "{\"erased\":true}".to_owned();
            Body::ToolCall(pb::ToolCallPart { call_id, tool, input_json, ..pb::ToolCallPart::default() })
        }
        Some(Body::ToolResult(result)) => {
            let pb::ToolResultPart { call_id, status, call_message_id, .. } = result;
            let output = TEXT.to_owned();
            let kept = pb::ToolResultPart { call_id, status, call_message_id, ..pb::ToolResultPart::default() };
            Body::ToolResult(pb::ToolResultPart { output, ..kept })
        }
        Some(Body::Record(_)) => {
            Body::Record(pb::RecordPart { kind: "longhand.erased".to_owned(), data: String::new() })
        }
        Some(Body::Text(_) | Body::Media(_)) => marker(TEXT),
        Some(Body::Marker(old)) if !old.text.is_empty() => marker(TEXT),
        _ => marker(""),
    };
    pb::Part { body: Some(body), metadata_json: None, erased: true, ..part.clone() }
}

/// The fingerprints of a part: whole, erased, and erased with the id that its client gave to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PartPrint {
    whole: u64,
    erased: u64,
    nameless: u64,
}

fn part_print(part: &pb::Part) -> PartPrint {
    let part = sent(part);
    let print = |part: &pb::Part| hash(&part.encode_to_vec());
    let erased = erased(&part);
    let nameless = pb::Part { client_id: None, ..erased.clone() };
    PartPrint { whole: print(&part), erased: print(&erased), nameless: print(&nameless) }
}

/// The fingerprints of parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartPrints(Vec<PartPrint>);

impl PartPrints {
    /// The fingerprints of parts as they are sent.
    pub(super) fn of(parts: &[pb::Part]) -> Self {
        Self(parts.iter().map(part_print).collect())
    }

    /// True if these parts were found, less what was erased of them.
    pub(super) fn fit(&self, found: &[pb::Part], lost: Option<&Lost>) -> bool {
        let fits = |(part, expected): (&pb::Part, &PartPrint)| {
            let is_erased = match lost {
                None => false,
                Some(Lost::All) => true,
                Some(Lost::Parts(ids)) => ids.contains(&part.part_id),
            };
            let print = hash(&sent(part).encode_to_vec());
            if is_erased { print == expected.erased || print == expected.nameless } else { print == expected.whole }
        };
        found.len() == self.0.len() && found.iter().zip(&self.0).all(fits)
    }
}

/// The fingerprints of a message, whole and erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prints {
    head: u64,
    /// Without its metadata and the words about its end.
    erased_head: u64,
    /// The same without the id that its client gave to it.
    nameless_head: u64,
    parts: PartPrints,
}

impl Prints {
    /// The fingerprints of a message as it is sent.
    pub(super) fn of(message: &pb::NewMessage, is_sealed: bool) -> Self {
        let mut head = message.clone();
        let parts = std::mem::take(&mut head.parts);
        (head.open, head.replace_existing) = (false, false);
        if head.kind == pb::MessageKind::Unspecified as i32 {
            head.kind = pb::MessageKind::Normal.into();
        }
        // The server reads a token and does not keep it.
        let finish = pb::Finish { view_token: None, ..head.finish.take().unwrap_or_default() };
        head.finish = is_sealed.then_some(finish);
        let print = |head: &pb::NewMessage| hash(&head.encode_to_vec());
        let whole = print(&head);
        head.metadata_json = None;
        head.finish.iter_mut().for_each(|finish| finish.detail.clear());
        let erased_head = print(&head);
        head.client_id = None;
        let nameless_head = print(&head);
        Self { head: whole, erased_head, nameless_head, parts: PartPrints::of(&parts) }
    }

    /// True if this message was found, less what was erased of it.
    pub(super) fn fit(&self, found: &pb::Message, lost: Option<&Lost>) -> bool {
        let there = Self::found(found);
        let head = match lost {
            Some(Lost::All) => there.head == self.erased_head || there.head == self.nameless_head,
            None | Some(Lost::Parts(_)) => there.head == self.head,
        };
        head && self.parts.fit(&found.parts, lost)
    }

    /// The fingerprints of a message as it is read; equal to those of the message as it was sent.
    fn found(found: &pb::Message) -> Self {
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
        Self::of(&message, found.sealed_revision.is_some())
    }
}

/// An event without its message, and without what an erasure takes from it: the texts of clients, agents and providers.
pub(super) fn without_texts(event: &pb::Event) -> pb::Event {
    use pb::event::Body;
    let mut event = pb::Event { message: None, ..event.clone() };
    match &mut event.body {
        Some(Body::SessionCreated(body)) => body.title.clear(),
        Some(Body::SessionForked(body)) => body.title.clear(),
        Some(Body::SessionUpdated(body)) => (body.title, body.metadata_json) = (None, None),
        Some(Body::MessageAppended(body)) => body.client_id = None,
        Some(Body::CompactionProposed(body)) => body.notice.clear(),
        Some(Body::CompactionRetried(body)) => body.failure = None,
        Some(Body::CompactionFailed(body)) => body.failure = None,
        Some(Body::CompactionCancelled(body)) => body.failure = None,
        Some(Body::Compacted(body)) => {
            body.notice.clear();
            if let Some(outcome) = &mut body.outcome {
                outcome.contradictions.clear();
                outcome.stopped = None;
            }
        }
        Some(Body::RunEnded(body)) => body.failure.clear(),
        Some(Body::ApprovalEnded(body)) => body.choice = None,
        _ => {}
    }
    event
}

/// The fingerprints of an event: with its texts, and without them. Its message comes only if it is asked for, and its number
/// and cursor depend on the store of which it is read.
pub(super) fn event(event: &pb::Event) -> (u64, u64) {
    let event = pb::Event { message: None, seq: 0, cursor: String::new(), ..event.clone() };
    (hash(&event.encode_to_vec()), hash(&without_texts(&event).encode_to_vec()))
}

/// The fingerprint of a view's bytes.
pub(super) fn view(messages: &[pb::ViewMessage], end: &pb::ViewEnd) -> u64 {
    let mut bytes = pb::ViewMessages { messages: messages.to_vec(), ..pb::ViewMessages::default() }.encode_to_vec();
    bytes.extend(end.encode_to_vec());
    hash(&bytes)
}
