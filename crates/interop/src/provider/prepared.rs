//! A view as every format needs it: parts with what they kept of their blocks, calls with ids that the format takes, and
//! without what it leaves out.

use super::bridge;
use super::format::{Format, SIGNATURE};
use super::ids::Ids;
use super::kept;
use super::written::{LeftOut, LeftOutKind, Refusal, RefusalKind};
use crate::raw::{Object, quote};
use longhand_model::ids::MessageId;
use longhand_model::message::Role;
use longhand_model::part::{Media, Opaque, PartBody, ToolCall, ToolResult};
use longhand_model::view::{ViewKind, ViewMessage, ViewPart};
use std::collections::HashMap;

/// A message of a view.
pub(super) struct PreparedMessage<'a> {
    pub(super) source: Option<MessageId>,
    pub(super) role: Role,
    pub(super) kind: ViewKind,
    /// What its message had beside the content, in the format.
    pub(super) kept: Option<&'a str>,
    pub(super) pieces: Vec<Piece<'a>>,
}

impl PreparedMessage<'_> {
    /// True if it begins with a provider's own compaction, before which nothing can be.
    pub(super) fn begins_with_compaction(&self) -> bool {
        self.pieces.first().is_some_and(|piece| piece.part.body.stands_for_history())
    }
}

/// A part of a view.
pub(super) struct Piece<'a> {
    pub(super) content: Content<'a>,
    /// The block that it was in the format, with `null` in the content's place.
    pub(super) kept: Option<String>,
    pub(super) part: &'a ViewPart,
}

/// The content of a part.
pub(super) enum Content<'a> {
    Text(&'a str),
    Reasoning(&'a str),
    Call {
        call: &'a ToolCall,
        id: String,
    },
    Result {
        result: &'a ToolResult,
        answered: AnsweredCall,
    },
    Media(&'a Media),
    /// A block of the format itself.
    Own(&'a str),
}

/// The call that a result answers, as it is in the request.
#[derive(Debug, Clone, Default)]
pub(super) struct AnsweredCall {
    pub(super) id: String,
    pub(super) tool: String,
    /// The block that the call was in the format.
    pub(super) kept: Option<String>,
}

impl PreparedMessage<'_> {
    pub(super) fn refusal(&self, format: Format, part: &ViewPart, kind: RefusalKind) -> Refusal {
        Refusal { format, message: self.source, part: part.source, kind }
    }
}

/// Prepares the messages of a view.
pub(super) fn prepare(
    format: Format,
    view: &[ViewMessage],
) -> Result<(Vec<PreparedMessage<'_>>, Vec<LeftOut>), Refusal> {
    let mut pass = Pass { format, ids: Ids::default(), answered: HashMap::new(), left_out: Vec::new() };
    let mut messages = Vec::new();
    for message in view {
        let metadata = message.original_fields.as_deref().and_then(|fields| fields.metadata_json.as_deref());
        let mut prepared = PreparedMessage {
            source: message.source,
            role: message.role,
            kind: message.kind,
            kept: kept::of_format(format, metadata),
            pieces: Vec::new(),
        };
        for part in &message.parts {
            if let Some(content) = pass.piece(message, part)? {
                prepared.pieces.push(content);
            }
        }
        if !prepared.pieces.is_empty() {
            messages.push(prepared);
        }
    }
    Ok((messages, pass.left_out))
}

struct Pass<'a> {
    format: Format,
    ids: Ids,
    /// The newest call with an id, as it is in the request.
    answered: HashMap<&'a str, AnsweredCall>,
    left_out: Vec<LeftOut>,
}

impl<'a> Pass<'a> {
    /// A part; none if it is left out.
    fn piece(&mut self, message: &'a ViewMessage, part: &'a ViewPart) -> Result<Option<Piece<'a>>, Refusal> {
        let format = self.format;
        let refusal = |kind| Refusal { format, message: message.source, part: part.source, kind };
        let kept = own_block(format, message, part);
        let content = match &*part.body {
            PartBody::Text(text) if self.is_blank(text) => return Ok(self.leave(message, part, LeftOutKind::Blank)),
            PartBody::Text(text) => Content::Text(text),
            PartBody::Marker(marker) => Content::Text(&marker.text),
            PartBody::Reasoning(text) => {
                if kept.is_none() && !takes_reasoning(format) {
                    return Ok(self.leave(message, part, LeftOutKind::Reasoning));
                }
                Content::Reasoning(text)
            }
            PartBody::ToolCall(call) => {
                if kept.is_none() && !is_tool_name(format, &call.tool) {
                    return Err(refusal(RefusalKind::ToolName { name: call.tool.clone() }));
                }
                let id = self.ids.call(format, &call.call_id, kept.is_some());
                let answered = AnsweredCall { id: id.clone(), tool: call.tool.clone(), kept: kept.clone() };
                self.answered.insert(&call.call_id, answered);
                Content::Call { call, id }
            }
            PartBody::ToolResult(result) => {
                let answered = self.answered.get(result.call_id.as_str()).cloned().unwrap_or_default();
                Content::Result { result, answered }
            }
            PartBody::Media(media) => Content::Media(media),
            PartBody::Opaque(opaque) if format.owns(&opaque.provider) => {
                let block =
                    block_of(opaque).ok_or_else(|| refusal(RefusalKind::DamagedBlock { kind: opaque.kind.clone() }))?;
                Content::Own(block)
            }
            PartBody::Opaque(opaque) if is_reasoning(opaque) => {
                return Ok(self.leave(message, part, LeftOutKind::Reasoning));
            }
            PartBody::Opaque(Opaque { provider, kind, .. }) => {
                return Err(refusal(RefusalKind::ForeignBlock { provider: provider.clone(), kind: kind.clone() }));
            }
            // No view has these.
            PartBody::Step(_) | PartBody::Record(_) => return Ok(None),
        };
        if kept.is_none() && kept::has_other(format, part.metadata_json.as_deref()) {
            self.leave(message, part, LeftOutKind::Members);
        }
        Ok(Some(Piece { content, kept, part }))
    }

    fn is_blank(&self, text: &str) -> bool {
        self.format == Format::Anthropic && text.trim().is_empty()
    }

    fn leave(&mut self, message: &ViewMessage, part: &ViewPart, kind: LeftOutKind) -> Option<Piece<'a>> {
        self.left_out.push(LeftOut { message: message.source, part: part.source, kind });
        None
    }
}

/// The block of an opaque part, if it is a JSON object.
pub(super) fn block_of(opaque: &Opaque) -> Option<&str> {
    let block = std::str::from_utf8(&opaque.data).ok()?;
    Object::parse(block, 1).ok()?;
    Some(block)
}

/// True for formats whose requests take reasoning that nobody signed.
fn takes_reasoning(format: Format) -> bool {
    match format {
        Format::Gemini | Format::AiSdk => true,
        Format::OpenAiChat | Format::OpenAiResponses | Format::Anthropic => false,
    }
}

/// True for a block that is reasoning, whoever wrote it.
pub(super) fn is_reasoning(opaque: &Opaque) -> bool {
    matches!(
        opaque.kind.as_str(),
        "thinking"
            | "redacted_thinking"
            | "reasoning"
            | "reasoning_content"
            | "reasoning_details"
            | "thought"
            | SIGNATURE
            | "reasoning-file"
    )
}

pub(super) fn is_tool_name(format: Format, name: &str) -> bool {
    let (length, others) = match format {
        Format::OpenAiChat | Format::OpenAiResponses => (64, ""),
        Format::Anthropic => (128, ""),
        Format::Gemini => (128, ".:"),
        Format::AiSdk => return true,
    };
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter) || others.contains(letter);
    name.len() <= length && name.chars().all(is_letter)
}

/// The block that a part was in the format, with `null` in the content's place.
fn own_block(format: Format, message: &ViewMessage, part: &ViewPart) -> Option<String> {
    // The results of tools keep their metadata when they are shortened; the block would not be theirs.
    let metadata = part.metadata_json.as_deref().filter(|_| part.shortened.is_none())?;
    match kept::of_format(format, Some(metadata)) {
        Some(block) => Some(block.to_owned()),
        None => bridge::block(format, &part.body, metadata).or_else(|| imported_block(format, message, part, metadata)),
    }
}

/// The same for parts of imported files, whose metadata have the members of the block under their own names.
fn imported_block(format: Format, message: &ViewMessage, part: &ViewPart, metadata: &str) -> Option<String> {
    let fields = message.original_fields.as_deref()?;
    let source = Object::parse(fields.metadata_json.as_deref()?, 1).ok()?.string("format");
    let members = Object::parse(metadata, 1).ok()?;
    let PartBody::Reasoning(_) = &*part.body else { return None };
    let signature = match (source.as_str(), format) {
        ("claude-code", Format::Anthropic) => members.id("signature"),
        ("pi", Format::Anthropic) if fields.provider == "anthropic" => members.id("thinkingSignature"),
        ("pi", Format::OpenAiResponses) if fields.provider.starts_with("openai") => {
            // The whole item.
            let item = members.id("thinkingSignature")?;
            return Object::parse(&item, 1).is_ok_and(|item| item.string("type") == "reasoning").then_some(item);
        }
        _ => None,
    }?;
    if members.flag("redacted") {
        return Some(format!(r#"{{"type":"redacted_thinking","data":{}}}"#, quote(&signature)));
    }
    Some(bridge::thinking(&signature))
}
