//! What the daemon sends, in the types of `model`.

use crate::harness::PeerFailure;
use longhand::model::ids::{MessageId, PartId};
use longhand::model::message::{MessageKind, Role};
use longhand::model::part::{
    Answers, Marker, Media, MediaSource, Opaque, Part, PartBody, ResultStatus, ToolCall, ToolResult,
};
use longhand::model::view::{PartShortening, ViewKind, ViewMessage, ViewPart};
use longhand::pb;
use std::str::FromStr;

/// A value of an answer that this program does not know.
pub(super) fn unknown(what: &str) -> PeerFailure {
    PeerFailure::new(&format!("the daemon's answer has an unknown {what}"))
}

/// An id.
pub(super) fn id<Id: FromStr>(text: &str) -> Result<Id, PeerFailure> {
    text.parse().map_err(|_| unknown(&format!("id {text}")))
}

/// A role.
pub(super) fn role(role: pb::Role) -> Result<Role, PeerFailure> {
    Ok(match role {
        pb::Role::User => Role::User,
        pb::Role::Assistant => Role::Assistant,
        pb::Role::Tool => Role::Tool,
        pb::Role::System => Role::System,
        pb::Role::Unspecified => return Err(unknown("role")),
    })
}

/// The kind of a stored message.
pub(super) fn kind(kind: pb::MessageKind) -> Result<MessageKind, PeerFailure> {
    Ok(match kind {
        pb::MessageKind::Normal => MessageKind::Normal,
        pb::MessageKind::Summary => MessageKind::Summary,
        pb::MessageKind::Marker => MessageKind::Marker,
        pb::MessageKind::Continuation => MessageKind::Continuation,
        pb::MessageKind::Replay => MessageKind::Replay,
        other => return Err(unknown(&format!("kind of message, {other:?}"))),
    })
}

/// A stored part.
pub(super) fn part(part: pb::Part) -> Result<Part, PeerFailure> {
    Ok(Part {
        id: id(&part.part_id)?,
        client_id: part.client_id,
        revision: part.revision,
        body: body(part.body.ok_or_else(|| unknown("part"))?)?.into(),
        metadata_json: part.metadata_json,
    })
}

/// A message of a view.
pub(super) fn view_message(message: pb::ViewMessage) -> Result<ViewMessage, PeerFailure> {
    let kind = match message.kind() {
        pb::ViewMessageKind::Shown => ViewKind::Shown,
        pb::ViewMessageKind::Marker => ViewKind::Marker,
        pb::ViewMessageKind::Summary => ViewKind::Summary,
        pb::ViewMessageKind::MissingResult => ViewKind::Paired,
        pb::ViewMessageKind::PolicyText => ViewKind::Filler,
        pb::ViewMessageKind::Retrieved => ViewKind::Retrieved,
        pb::ViewMessageKind::BranchSummary => ViewKind::Branch,
        pb::ViewMessageKind::Added => ViewKind::Added,
        pb::ViewMessageKind::Unspecified => return Err(unknown("kind of message of a view")),
    };
    let source: Option<MessageId> = some(&message.message_id)?;
    Ok(ViewMessage {
        source,
        revision: message.revision,
        role: role(message.role())?,
        kind,
        parts: message.parts.into_iter().map(view_part).collect::<Result<_, _>>()?,
        original_fields: None,
        provenance: None,
    })
}

/// An id that may be empty.
fn some<Id: FromStr>(text: &str) -> Result<Option<Id>, PeerFailure> {
    if text.is_empty() { Ok(None) } else { id(text).map(Some) }
}

fn view_part(shown: pb::ViewPart) -> Result<ViewPart, PeerFailure> {
    let shortened = match shown.shortening() {
        pb::Shortening::Unspecified => None,
        pb::Shortening::Pruned => Some(PartShortening::Pruned { original_length: shown.omitted_length }),
        pb::Shortening::Truncated => Some(PartShortening::Truncated { omitted_length: shown.omitted_length }),
        pb::Shortening::Erased => Some(PartShortening::Erased),
    };
    let part = shown.part.ok_or_else(|| unknown("part of a view"))?;
    let source: Option<PartId> = some(&part.part_id)?;
    let body = body(part.body.ok_or_else(|| unknown("part of a view"))?)?;
    let (client_id, metadata_json) = (part.client_id, part.metadata_json);
    Ok(ViewPart { client_id, metadata_json, ..ViewPart::new(source, body, shortened) })
}

fn body(body: pb::part::Body) -> Result<PartBody, PeerFailure> {
    use pb::part::Body;
    Ok(match body {
        Body::Text(text) => PartBody::Text(text.text),
        Body::Reasoning(text) => PartBody::Reasoning(text.text),
        Body::Marker(pb::MarkerPart { name, text }) => PartBody::Marker(Marker { name, text }),
        Body::Opaque(pb::OpaquePart { provider, kind, data }) => PartBody::Opaque(Opaque { provider, kind, data }),
        Body::ToolCall(pb::ToolCallPart { call_id, tool, input_json, .. }) => {
            PartBody::ToolCall(ToolCall { call_id, tool, input_json, ..ToolCall::default() })
        }
        Body::ToolResult(result) => PartBody::ToolResult(ToolResult {
            status: match result.status() {
                pb::ToolResultStatus::Completed => ResultStatus::Completed,
                pb::ToolResultStatus::Error => ResultStatus::Error,
                pb::ToolResultStatus::Interrupted => ResultStatus::Interrupted,
                pb::ToolResultStatus::Unspecified => return Err(unknown("status of a result")),
            },
            call_id: result.call_id,
            answers: Answers::Nearest,
            output: result.output,
            attachments: result.attachments.into_iter().map(media).collect::<Result<_, _>>()?,
            start_time: None,
            end_time: None,
        }),
        Body::Media(item) => PartBody::Media(media(item)?),
        Body::Step(_) | Body::Record(_) => return Err(unknown("kind of part")),
    })
}

fn media(media: pb::MediaPart) -> Result<Media, PeerFailure> {
    let source = match media.source.ok_or_else(|| unknown("source of a media item"))? {
        pb::media_part::Source::Data(data) => MediaSource::Bytes(data),
        pb::media_part::Source::Uri(uri) => MediaSource::Uri(uri),
    };
    Ok(Media { mime_type: media.mime_type, name: media.name, source })
}
