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

/// What a part says.
#[derive(Debug, Clone, PartialEq)]
pub enum PartBody {
    /// Words for the reader.
    Text(String),
    /// Words the model thought.
    Reasoning(String),
    /// A request to run a tool.
    ToolCall(ToolCall),
    /// What a tool gave back.
    ToolResult(ToolResult),
    /// An image, a document, a sound.
    Media(Media),
    /// A point in the conversation that means something to clients, with a text for the model or none.
    Marker(Marker),
    /// The end of one step of a reply that has several.
    Step(Step),
    /// A provider's block that must be given back byte for byte.
    Opaque(Opaque),
    /// An entry of the history that is never in a view.
    Record(Record),
}

/// Bytes that every part counts beside its words in the growth of a history.
pub const PART_GROWTH_BYTES: i64 = 512;
/// Bytes that a media item counts there.
pub const MEDIA_GROWTH_BYTES: i64 = 16_384;

impl PartBody {
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

    /// Whether a stored part is the one that was sent. Its sender need not know which call its result answers.
    pub fn is_as_sent(&self, sent: &Self) -> bool {
        match (self, sent) {
            (Self::ToolResult(stored), Self::ToolResult(sent)) if sent.answers == Answers::Nearest => {
                ToolResult { answers: Answers::Nearest, ..stored.clone() } == *sent
            }
            _ => self == sent,
        }
    }

    /// The bytes by which the part lets a history grow: its words, names and ids, `PART_GROWTH_BYTES` for whatever a
    /// request puts around them, and `MEDIA_GROWTH_BYTES` for each media item, whatever its size.
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

    /// Whether it is media, or brings media along.
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
    /// Joins the call to its result. Other calls may have it too, also such of other writers.
    pub call_id: String,
    /// The tool's name.
    pub tool: String,
    /// The input as the model wrote it: JSON text, verbatim.
    pub input_json: String,
    /// When the tool began, by the client's clock.
    pub start_time: Option<Timestamp>,
    /// When the tool ended, by the client's clock.
    pub end_time: Option<Timestamp>,
}

/// How a tool ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultStatus {
    /// It did what it was asked.
    Completed,
    /// It failed; the output says how.
    Error,
    /// It was stopped before it ended.
    Interrupted,
}

/// The call that a result answers, among those with its id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Answers {
    /// The nearest before it; `policy::calls` has the rule. The store settles it when the result comes.
    #[default]
    Nearest,
    /// The call in the message with this id: always the original, also where an edit stands in its place. In a request it
    /// may be the client's id.
    In(String),
    /// None: no call in the history waited for it when it came.
    Nothing,
}

impl Answers {
    /// The message of the call, if that is known.
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

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// The call this answers.
    pub call_id: String,
    /// Which of the calls with that id.
    pub answers: Answers,
    /// How the tool ended.
    pub status: ResultStatus,
    /// The output as text.
    pub output: String,
    /// Media that came with the output.
    pub attachments: Vec<Media>,
    /// When the tool began, by the client's clock.
    pub start_time: Option<Timestamp>,
    /// When the tool ended, by the client's clock.
    pub end_time: Option<Timestamp>,
}

/// An image, a document, a sound.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Media {
    /// The MIME type, such as `image/png`.
    pub mime_type: String,
    /// A file name, or empty.
    pub name: String,
    /// Where the bytes are.
    pub source: MediaSource,
}

/// Where media bytes are.
#[derive(Debug, Clone, PartialEq)]
pub enum MediaSource {
    /// Here.
    Bytes(Vec<u8>),
    /// At an address the daemon never opens.
    Uri(String),
}

impl Default for MediaSource {
    fn default() -> Self {
        Self::Bytes(Vec::new())
    }
}

/// The name of a marker with words that an agent put in a user's place: a model reads them, and nobody asked for anything.
pub const NOTE: &str = "note";

/// Tells the parts of a user's message that holds notes of an agent and nothing else, but for media that belong to them.
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
    /// What it marks, such as `compaction`, or [`NOTE`].
    pub name: String,
    /// What a model reads there; empty keeps it out of views.
    pub text: String,
}

/// The end of one step of a reply.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Step {
    /// The provider's finish reason for the step.
    pub finish_reason: String,
    /// What the step cost.
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
    /// What the entry is, in its source's words.
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
}

impl NewPart {
    /// A part with a body and nothing else.
    pub fn new(body: impl Into<Arc<PartBody>>) -> Self {
        Self { client_id: None, body: body.into(), metadata_json: None }
    }
}
