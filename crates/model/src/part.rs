//! Parts: the typed, immutable pieces of a message.

use super::Revision;
use super::ids::PartId;
use super::time::Timestamp;
use super::usage::Usage;
use std::sync::Arc;

/// A closed part as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The server's id.
    pub id: PartId,
    /// The client's own id, unique in its message.
    pub client_id: Option<String>,
    /// The revision at which the part closed.
    pub revision: Revision,
    /// The content. Views share it.
    pub body: Arc<PartBody>,
    /// Free JSON of the client, verbatim.
    pub metadata_json: Option<String>,
}

/// The content of a part.
#[derive(Debug, Clone, PartialEq)]
pub enum PartBody {
    /// Text for the reader.
    Text(String),
    /// The model's reasoning.
    Reasoning(String),
    /// A request to run a tool.
    ToolCall(ToolCall),
    /// The result of a tool.
    ToolResult(ToolResult),
    /// An image, a document, a sound.
    Media(Media),
    /// A point in the conversation that means something to clients, with an optional text for the model.
    Marker(Marker),
    /// The end of one step of a reply that has several.
    Step(ReplyStep),
    /// A provider's block that must be given back byte for byte.
    Opaque(Opaque),
    /// An entry of the history that is never in a view.
    Record(Record),
}

/// Bytes that every part adds to its text in the growth of a history.
pub const PART_GROWTH_BYTES: i64 = 512;
/// Bytes that a media item counts in the growth of a history.
pub const MEDIA_GROWTH_BYTES: i64 = 16_384;

/// The name of the marker that stands for an erased part, which no client may use.
pub const ERASED_MARKER: &str = "longhand.erased";
/// The text of an erased text or media item, and the output of an erased result.
pub const ERASED_TEXT: &str = "[erased from the history]";
/// The input of an erased call: JSON, because the input of a call is JSON.
pub const ERASED_INPUT: &str = r#"{"erased":true}"#;

impl PartBody {
    /// What stands for the part once it is erased: calls and results keep their ids, names and states, so that each has
    /// its other half; anything else becomes a marker, with a text where a view would have shown something that a model
    /// may read.
    pub fn erased(&self) -> Self {
        let marker = |text: &str| Self::Marker(Marker { name: ERASED_MARKER.to_owned(), text: text.to_owned() });
        match self {
            Self::ToolCall(call) => {
                let ToolCall { call_id, tool, .. } = call.clone();
                Self::ToolCall(ToolCall { call_id, tool, input_json: ERASED_INPUT.to_owned(), ..ToolCall::default() })
            }
            Self::ToolResult(result) => {
                let ToolResult { call_id, status, answers, .. } = result.clone();
                let output = ERASED_TEXT.to_owned();
                let (attachments, start_time, end_time) = (Vec::new(), None, None);
                Self::ToolResult(ToolResult { call_id, status, output, attachments, start_time, end_time, answers })
            }
            Self::Record(_) => Self::Record(Record { kind: ERASED_MARKER.to_owned(), data: String::new() }),
            Self::Text(_) | Self::Media(_) => marker(ERASED_TEXT),
            Self::Marker(old) if !old.text.is_empty() => marker(ERASED_TEXT),
            // No view shows them without what a provider signed.
            Self::Reasoning(_) | Self::Marker(_) | Self::Step(_) | Self::Opaque(_) => marker(""),
        }
    }

    /// True for what stands for an erased part.
    pub fn is_erased(&self) -> bool {
        match self {
            Self::Marker(marker) => marker.name == ERASED_MARKER,
            Self::Record(record) => record.kind == ERASED_MARKER && record.data.is_empty(),
            Self::ToolCall(call) => call.input_json == ERASED_INPUT,
            Self::ToolResult(result) => result.output == ERASED_TEXT && result.attachments.is_empty(),
            Self::Text(_) | Self::Reasoning(_) | Self::Media(_) | Self::Step(_) | Self::Opaque(_) => false,
        }
    }

    /// The part's kind, as the protocol and the command line name it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Reasoning(_) => "reasoning",
            Self::ToolCall(_) => "tool_call",
            Self::ToolResult(_) => "tool_result",
            Self::Media(_) => "media",
            Self::Marker(_) => "marker",
            Self::Step(_) => "step",
            Self::Opaque(_) => "opaque",
            Self::Record(_) => "record",
        }
    }

    /// True if a stored part equals the one that was sent. The sender need not name the call that a result answers.
    pub fn is_as_sent(&self, sent: &Self) -> bool {
        match (self, sent) {
            (Self::ToolResult(stored), Self::ToolResult(sent)) if sent.answers == Answers::Nearest => {
                ToolResult { answers: Answers::Nearest, ..stored.clone() } == *sent
            }
            _ => self == sent,
        }
    }

    /// The bytes by which the part lets a history grow: its text, names and ids, `PART_GROWTH_BYTES` for the structure
    /// that a request puts around them, and `MEDIA_GROWTH_BYTES` for each media item, whatever its size.
    pub fn growth_bytes(&self) -> i64 {
        let (words, media) = match self {
            Self::Text(text) | Self::Reasoning(text) => (text.len(), 0),
            // Some agents count the names of a call with its result as well.
            Self::ToolCall(call) => (call.input_json.len() + 2 * (call.call_id.len() + call.tool.len()), 0),
            Self::ToolResult(result) => (result.output.len() + result.call_id.len(), result.attachments.len()),
            Self::Media(media) => (media.name.len() + media.mime_type.len(), 1),
            Self::Marker(marker) => (marker.text.len(), 0),
            Self::Opaque(opaque) => (opaque.data.len(), 0),
            Self::Step(_) | Self::Record(_) => (0, 0),
        };
        let bytes = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        bytes(words).saturating_add(PART_GROWTH_BYTES).saturating_add(bytes(media).saturating_mul(MEDIA_GROWTH_BYTES))
    }

    /// True if the part is media or has media attached.
    pub fn brings_media(&self) -> bool {
        match self {
            Self::Media(_) => true,
            Self::ToolResult(result) => !result.attachments.is_empty(),
            Self::Text(_)
            | Self::Reasoning(_)
            | Self::ToolCall(_)
            | Self::Marker(_)
            | Self::Step(_)
            | Self::Opaque(_)
            | Self::Record(_) => false,
        }
    }
}

/// A request to run a tool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolCall {
    /// Joins the call to its result. Other calls may have the same id, also calls of other writers.
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// The input as the model wrote it: JSON text, verbatim.
    pub input_json: String,
    /// The time at which the tool began, by the client's clock.
    pub start_time: Option<Timestamp>,
    /// The time at which the tool ended, by the client's clock.
    pub end_time: Option<Timestamp>,
}

/// The end state of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultStatus {
    /// It succeeded.
    Completed,
    /// It failed; the output describes how.
    Error,
    /// It was stopped before it ended.
    Interrupted,
}

/// The call that a result answers, among the calls with its id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Answers {
    /// The nearest call before it; `policy::calls` has the rule. The store determines it when the result arrives.
    #[default]
    Nearest,
    /// The call in the message with this id: always the original, even if an edit replaced it. In a request, a client's
    /// id is accepted too.
    In(String),
    /// None: no call in the history was waiting for the result when it arrived.
    Nothing,
}

impl Answers {
    /// The message of the call, if it is known.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::In(message) => Some(message),
            Self::Nearest | Self::Nothing => None,
        }
    }
}

impl From<Option<String>> for Answers {
    fn from(message: Option<String>) -> Self {
        message.map_or(Self::Nearest, Self::In)
    }
}

/// The result of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// The id of the call that this answers.
    pub call_id: String,
    /// The one of the calls with that id.
    pub answers: Answers,
    /// The end state of the tool.
    pub status: ResultStatus,
    /// The output as text.
    pub output: String,
    /// Media that came with the output.
    pub attachments: Vec<Media>,
    /// The time at which the tool began, by the client's clock.
    pub start_time: Option<Timestamp>,
    /// The time at which the tool ended, by the client's clock.
    pub end_time: Option<Timestamp>,
}

/// An image, a document, a sound.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Media {
    /// The MIME type, such as `image/png`.
    pub mime_type: String,
    /// A file name, or empty.
    pub name: String,
    /// The source of the bytes.
    pub source: MediaSource,
}

/// The source of media bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum MediaSource {
    /// The bytes themselves.
    Bytes(Vec<u8>),
    /// An address that the daemon never opens.
    Uri(String),
}

impl Default for MediaSource {
    fn default() -> Self {
        Self::Bytes(Vec::new())
    }
}

/// The name of a marker with a text that an agent put in a user's place: a model reads it, but it is no request.
pub const NOTE: &str = "note";

/// True for the parts of a user's message that consists of notes of an agent, and of media that belong to them.
pub fn are_notes<'a>(bodies: impl IntoIterator<Item = &'a PartBody>) -> bool {
    let mut any = false;
    bodies.into_iter().all(|body| match body {
        PartBody::Marker(marker) if marker.name == NOTE => {
            any = true;
            true
        }
        body => matches!(body, PartBody::Media(_)),
    }) && any
}

/// A point in the conversation that means something to clients.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Marker {
    /// The kind of marker, such as `compaction`, or [`NOTE`].
    pub name: String,
    /// The text for a model; empty keeps the marker out of views.
    pub text: String,
}

/// The end of one step of a reply.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReplyStep {
    /// The provider's finish reason for the step.
    pub finish_reason: String,
    /// The token usage and cost of the step.
    pub usage: Option<Usage>,
}

/// A provider's block that must be given back byte for byte.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Opaque {
    /// The provider it belongs to.
    pub provider: String,
    /// The provider's name for the kind of block.
    pub kind: String,
    /// The block, verbatim.
    pub data: Vec<u8>,
}

/// An entry of the history that is never in a view and starts no turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Record {
    /// The kind of entry, as its source names it.
    pub kind: String,
    /// The entry, verbatim.
    pub data: String,
}

/// A part that a client wants to append; the server gives it an id.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPart {
    /// The client's own id, unique in its message, or none.
    pub client_id: Option<String>,
    /// The content.
    pub body: Arc<PartBody>,
    /// Free JSON, kept verbatim.
    pub metadata_json: Option<String>,
    /// The salted digest of the part as it was received, if it was changed since: a repetition is recognised by it.
    pub received: Option<[u8; 32]>,
}

impl NewPart {
    /// A part with a body and nothing else.
    pub fn new(body: impl Into<Arc<PartBody>>) -> Self {
        Self { client_id: None, body: body.into(), metadata_json: None, received: None }
    }
}
