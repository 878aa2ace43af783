//! Conversion of views, and of the frames that they are sent in.

use super::session::{over_window, usage_doubt};
use super::{count, framed_len, id, range, read_duration, read_enum};
use crate::app::Result;
use crate::app::formatted::{LeftOut, LeftOutKind, WrittenMessage};
use crate::app::views::{OverflowAction, ServedView, ViewRequest};
use crate::grpc::wire;
use crate::limits;
use crate::model::compaction::RevisionRange;
use crate::model::ids::CompactionId;
use crate::model::layout::{CoveredHistory, OmitReason, OmittedHistory};
use crate::model::provider_compaction::ProviderCompaction;
use crate::model::view::{Author, OriginalFields, PartShortening, Provenance, ViewKind, ViewMessage, ViewPart};
use crate::pb;
use crate::pb::get_view_response::Frame;
use std::sync::Arc;
use std::vec;

/// Parameters of a request for a view.
pub(in crate::grpc) fn read_request(request: pb::GetViewRequest) -> Result<ViewRequest> {
    let action = match read_enum("overflow_action", request.overflow_action)? {
        pb::OverflowAction::Unspecified | pb::OverflowAction::Return => OverflowAction::Return,
        pb::OverflowAction::Wait => OverflowAction::Wait,
        pb::OverflowAction::Shorten => OverflowAction::Shorten,
    };
    Ok(ViewRequest {
        as_of: request.as_of_revision,
        window: request.window.map(super::session::read_window),
        known_hash: request.known_view_hash,
        known_revision: request.known_revision,
        action,
        format: super::message::read_format("format", request.format)?,
        degrade: request.degrade,
        wait: request.wait_timeout.map(|wait| read_duration("wait_timeout", wait)).transpose()?,
    })
}

/// A message of a view.
pub(super) fn message(message: ViewMessage) -> pb::ViewMessage {
    let kind = match message.kind {
        ViewKind::Shown => pb::ViewMessageKind::Shown,
        ViewKind::Marker => pb::ViewMessageKind::Marker,
        ViewKind::Summary => pb::ViewMessageKind::Summary,
        ViewKind::Paired => pb::ViewMessageKind::MissingResult,
        ViewKind::Filler => pb::ViewMessageKind::PolicyText,
        ViewKind::Retrieved => pb::ViewMessageKind::Retrieved,
        ViewKind::Branch => pb::ViewMessageKind::BranchSummary,
        ViewKind::Added => pb::ViewMessageKind::Added,
    };
    pb::ViewMessage {
        message_id: id(message.source).unwrap_or_default(),
        revision: message.revision,
        role: wire::role(message.role).into(),
        kind: kind.into(),
        parts: message.parts.into_iter().map(part).collect(),
        provenance: message.provenance.as_deref().map(provenance),
        ..message.original_fields.as_deref().map(original_fields).unwrap_or_default()
    }
}

/// The fields that a view message copies from its original; all other fields are unset.
fn original_fields(fields: &OriginalFields) -> pb::ViewMessage {
    let OriginalFields { client_id, finish_reason, model, provider, create_time, origin_time, actor, metadata_json } =
        fields.clone();
    pb::ViewMessage {
        client_id,
        finish_reason: wire::finish_reason(finish_reason).into(),
        model,
        provider,
        create_time: Some(wire::timestamp(create_time)),
        origin_time: origin_time.map(wire::timestamp),
        actor,
        metadata_json,
        ..pb::ViewMessage::default()
    }
}

/// Author of a summary.
fn provenance(provenance: &Provenance) -> pb::Provenance {
    let author = match provenance.author {
        Author::BuiltIn => pb::SummaryAuthor::BuiltIn,
        Author::Model => pb::SummaryAuthor::Model,
        Author::Client => pb::SummaryAuthor::Client,
    };
    pb::Provenance {
        compaction_id: id(provenance.compaction).unwrap_or_default(),
        author: author.into(),
        summarizer: provenance.summarizer.clone(),
    }
}

fn part(part: ViewPart) -> pb::ViewPart {
    let (shortening, omitted_length) = match part.shortened {
        None => (pb::Shortening::Unspecified, 0),
        Some(PartShortening::Pruned { original_length }) => (pb::Shortening::Pruned, original_length),
        Some(PartShortening::Truncated { omitted_length }) => (pb::Shortening::Truncated, omitted_length),
        Some(PartShortening::Erased) => (pb::Shortening::Erased, 0),
    };
    let part_id = id(part.source).unwrap_or_default();
    let ViewPart { client_id, metadata_json, .. } = part;
    let shown = pb::Part {
        part_id,
        client_id,
        metadata_json,
        erased: part.shortened == Some(PartShortening::Erased),
        body: Some(wire::body(Arc::unwrap_or_clone(part.body))),
        ..pb::Part::default()
    };
    pb::ViewPart { part: Some(shown), shortening: shortening.into(), omitted_length }
}

fn covered_history(covered: CoveredHistory, written: Option<&Provenance>) -> pb::CoveredHistory {
    pb::CoveredHistory {
        compaction_id: covered.compaction.to_string(),
        summary_message_id: id(written.and_then(|written| written.summary)).unwrap_or_default(),
        covered_ranges: covered.ranges.into_iter().map(range).collect(),
        provenance: written.map(provenance),
    }
}

pub(in crate::grpc) fn provider_compaction(compaction: ProviderCompaction) -> pb::ProviderCompaction {
    let ProviderCompaction { compactor, message, part, covered, revision: _ } = compaction;
    pb::ProviderCompaction {
        message_id: message.to_string(),
        part_id: part.to_string(),
        provider: compactor.name().to_owned(),
        covered_ranges: covered.into_iter().map(range).collect(),
    }
}

fn omitted_history((omitted, by): (&OmittedHistory, &Option<CompactionId>)) -> pb::OmittedHistory {
    let reason = match omitted.reason {
        OmitReason::Rewound => pb::OmitReason::Rewound,
        OmitReason::Edited => pb::OmitReason::Edited,
        OmitReason::Compacted => pb::OmitReason::Compacted,
        OmitReason::Replayed => pb::OmitReason::Replayed,
    };
    pb::OmittedHistory {
        range: Some(range(omitted.range)),
        mark_revision: omitted.mark,
        reason: reason.into(),
        compaction_id: id(*by),
    }
}

/// Messages that are left out by no mark.
fn unmarked_history(omitted: RevisionRange, reason: pb::OmitReason) -> pb::OmittedHistory {
    pb::OmittedHistory { range: Some(range(omitted)), mark_revision: 0, reason: reason.into(), compaction_id: None }
}

/// The frames of a view: a header, the messages, an end. Messages are converted as they are sent, so that a long view
/// is not in memory twice.
pub(in crate::grpc) struct Frames {
    header: Option<pb::ViewHeader>,
    messages: UnsentMessages<ViewMessage, pb::ViewMessage>,
    /// What is there in the place of messages if a format was asked for.
    formatted: UnsentMessages<WrittenMessage, pb::FormattedMessage>,
    end: Option<pb::ViewEnd>,
}

/// The frames of a view.
pub(in crate::grpc) fn frames(served: ServedView) -> Frames {
    let message_count = count(served.known_count + shown_count(&served));
    let header = pb::ViewHeader {
        revision: served.revision,
        view_hash: served.hash.to_vec(),
        view_token: served.token,
        known_message_count: count(served.known_count),
        message_count,
        context_tokens: served.context_tokens,
        estimated_tokens: served.estimated_tokens,
        window_tokens: served.window_tokens,
        fits: served.fits,
        shortened: served.shortened,
        pending_compaction_id: id(served.pending),
        over_window: served.over_window.map(over_window),
        usage_doubt: usage_doubt(served.usage_doubt).into(),
        system_json: served.formatted.as_ref().and_then(|formatted| formatted.system_json.clone()),
    };
    let (formatted, left_out) =
        served.formatted.map_or_else(Default::default, |formatted| (formatted.messages, formatted.left_out));
    let marks = served.omitted.iter().zip(&served.omitted_by).map(omitted_history);
    let empty = served.empty.into_iter().map(|range| unmarked_history(range, pb::OmitReason::Empty));
    let shortened = served.shortened_away.into_iter().map(|range| unmarked_history(range, pb::OmitReason::Shortened));
    let end = pb::ViewEnd {
        covered: served.covered.map(|stood_for| covered_history(stood_for, served.provenance.as_deref())),
        omitted: marks.chain(empty).chain(shortened).collect(),
        left_out_parts: left_out.into_iter().map(left_out_part).collect(),
        provider_compaction: served.provider_compaction.map(provider_compaction),
    };
    let (messages, formatted) = (UnsentMessages::new(served.messages), UnsentMessages::new(formatted));
    Frames { header: Some(header), messages, formatted, end: Some(end) }
}

fn shown_count(served: &ServedView) -> usize {
    served.messages.len() + served.formatted.as_ref().map_or(0, |formatted| formatted.messages.len())
}

fn formatted_message(message: WrittenMessage) -> pb::FormattedMessage {
    let message_ids = message.sources.iter().map(ToString::to_string).collect();
    pb::FormattedMessage { json: message.json, message_ids }
}

fn left_out_part(left_out: LeftOut) -> pb::LeftOutPart {
    let kind = match left_out.kind {
        LeftOutKind::Reasoning => pb::LeftOutKind::Reasoning,
        LeftOutKind::Members => pb::LeftOutKind::Members,
        LeftOutKind::Blank => pb::LeftOutKind::Blank,
        LeftOutKind::Block => pb::LeftOutKind::Block,
        LeftOutKind::Media => pb::LeftOutKind::Media,
        LeftOutKind::ToolName => pb::LeftOutKind::ToolName,
        LeftOutKind::Role => pb::LeftOutKind::Role,
    };
    pb::LeftOutPart {
        message_id: id(left_out.message).unwrap_or_default(),
        part_id: id(left_out.part).unwrap_or_default(),
        kind: kind.into(),
    }
}

/// Messages that are not sent yet.
struct UnsentMessages<Message, Converted> {
    messages: vec::IntoIter<Message>,
    /// The one that did not fit in the previous frame.
    held: Option<Converted>,
}

impl<Message, Converted: prost::Message> UnsentMessages<Message, Converted> {
    fn new(messages: Vec<Message>) -> Self {
        Self { messages: messages.into_iter(), held: None }
    }

    /// The next messages, up to a frame's size; at least one if there is one.
    fn frame(&mut self, convert: fn(Message) -> Converted) -> Vec<Converted> {
        let mut frame = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.held.take().or_else(|| self.messages.next().map(convert)) {
            bytes += framed_len(next.encoded_len());
            if bytes > limits::VIEW_FRAME_BYTES && !frame.is_empty() {
                self.held = Some(next);
                break;
            }
            frame.push(next);
        }
        frame
    }
}

fn is_empty(page: &pb::ViewMessages) -> bool {
    page.messages.is_empty() && page.formatted_messages.is_empty()
}

impl Iterator for Frames {
    type Item = pb::GetViewResponse;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(header) = self.header.take() {
            return Some(pb::GetViewResponse { frame: Some(Frame::Header(header)) });
        }
        let messages = self.messages.frame(message);
        let formatted_messages = self.formatted.frame(formatted_message);
        let page = pb::ViewMessages { messages, formatted_messages };
        let frame = if is_empty(&page) { Frame::End(self.end.take()?) } else { Frame::Messages(page) };
        Some(pb::GetViewResponse { frame: Some(frame) })
    }
}

#[cfg(test)]
mod tests;
