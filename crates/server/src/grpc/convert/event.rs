//! Conversion of events, and of the frames of an event stream.

use super::compaction::{failure, kind as compaction_kind, outcome, rewrite, trigger};
use super::draft::{call_and_tool, draft, draft_kind};
use super::message::{message, part_ids};
use super::run::{approval, event as of_run_event, prompt, run};
use super::session::{level, session, window, words_stance};
use super::{count, framed_len, id, range, read_duration, read_enum, view};
use crate::app::events::{Frame, ListEvents, OpenMessage, ServedEvent, Start, SubscribeRequest};
use crate::app::presence::{PresenceFrame, PresenceKind, PresentActor};
use crate::app::{Error, Result};
use crate::grpc::wire;
use crate::limits;
use crate::model::Revision;
use crate::model::event::{Event, EventBody, EventKind};
use crate::model::ids::{MessageId, SessionId};
use crate::model::mark::WordsStance;
use crate::model::message::{Message, MessageKind, Role};
use crate::model::usage::{ModelWindow, Usage};
use crate::pb;
use crate::pb::event::Body;
use crate::pb::shared::{EventBatch, EventFrame, Frame as ProtoFrame};
use crate::pb::snapshot_item::Item;
use crate::pb::subscribe_events_request::Start as ProtoStart;
use prost::Message as _;
use std::fmt::Display;
use std::sync::Arc;

/// The message for an alternative without a value.
const SET_IS_TRUE: &str = "is false; leave it unset instead";

/// Parameters of an event stream.
pub(in crate::grpc) fn read_subscribe(request: pb::SubscribeEventsRequest) -> Result<SubscribeRequest> {
    let start = match request.start {
        Some(ProtoStart::AfterCursor(cursor)) => Start::After(cursor),
        Some(ProtoStart::FromBeginning(true)) => Start::Beginning,
        Some(ProtoStart::Snapshot(true)) => Start::Snapshot,
        Some(ProtoStart::FromBeginning(false)) => return Err(Error::field("from_beginning", SET_IS_TRUE)),
        Some(ProtoStart::Snapshot(false)) => return Err(Error::field("snapshot", SET_IS_TRUE)),
        None => Start::Now,
    };
    let interval = request.progress_interval;
    Ok(SubscribeRequest {
        sessions: request.session_ids,
        kinds: read_kinds(&request.kinds)?,
        start,
        progress: interval.map(|interval| read_duration("progress_interval", interval)).transpose()?,
        content: request.include_content,
        live: request.include_deltas,
        root: request.root_session_id,
        project: request.project,
        presence: request.include_presence,
        text: false,
    })
}

/// Parameters of a list of past events.
pub(in crate::grpc) fn read_list(request: pb::ListEventsRequest) -> Result<ListEvents> {
    Ok(ListEvents {
        session: request.session_id,
        kinds: read_kinds(&request.kinds)?,
        after: request.after_cursor,
        page_size: request.page_size.into(),
        to_revision: request.to_revision,
        content: request.include_content,
    })
}

fn read_kinds(numbers: &[i32]) -> Result<Vec<EventKind>> {
    let numbered = numbers.iter().enumerate();
    numbered.map(|(index, number)| read_kind(format_args!("kinds[{index}]"), *number)).collect()
}

fn read_kind(field: impl Display + Copy, number: i32) -> Result<EventKind> {
    let kind: pb::EventKind = read_enum(field, number)?;
    EventKind::from_number(kind.into()).ok_or_else(|| super::not_given(field))
}

/// True if a client that does not know the kind may skip the event and still has history, marks and ends right.
fn ignorable(kind: EventKind) -> bool {
    match kind {
        EventKind::SessionUpdated
        | EventKind::UsageRecorded
        | EventKind::CompactionProposed
        | EventKind::CompactionStarted
        | EventKind::CompactionRetried
        | EventKind::RunStarted
        | EventKind::RunCancelRequested
        | EventKind::RunEnded
        | EventKind::PromptSubmitted
        | EventKind::PromptMoved
        | EventKind::PromptTaken
        | EventKind::PromptWithdrawn
        | EventKind::ApprovalRequested
        | EventKind::ApprovalEnded
        | EventKind::LabelAdded
        | EventKind::LabelRemoved => true,
        EventKind::SessionCreated
        | EventKind::SessionArchived
        | EventKind::SessionRestored
        | EventKind::SessionForked
        | EventKind::PolicyChanged
        | EventKind::MessageAppended
        | EventKind::PartsClosed
        | EventKind::MessageFinished
        | EventKind::SessionRewound
        | EventKind::MessageEdited
        | EventKind::MessagePinned
        | EventKind::MessageUnpinned
        | EventKind::WordsMarked
        | EventKind::PartsPruned
        | EventKind::Compacted
        | EventKind::CompactionFailed
        | EventKind::CompactionCancelled
        | EventKind::CompactionUndone
        | EventKind::CompactionRedone
        | EventKind::RewriteUndone
        | EventKind::RewriteRedone
        | EventKind::Erased => false,
    }
}

/// One committed change.
fn event(event: Event, cursor: &str, about: Option<Arc<Message>>) -> pb::Event {
    let kind = event.body.kind();
    pb::Event {
        seq: event.seq,
        cursor: cursor.to_owned(),
        session_id: event.session_id.to_string(),
        revision: event.revision,
        // The numbers of the protocol and of the model are the same.
        kind: kind as i32,
        ignorable: ignorable(kind),
        event_time: Some(wire::timestamp(event.time)),
        actor: event.actor,
        request_id: event.request_id,
        hash: event.hash.to_vec(),
        message: about.map(|about| message(Arc::unwrap_or_clone(about))),
        body: Some(body(event.body)),
    }
}

/// A page of past events. A page with much content ends early, and the next one begins after its last event.
pub(in crate::grpc) fn page(events: Vec<ServedEvent>, next_cursor: String) -> pb::ListEventsResponse {
    let mut page = pb::ListEventsResponse { events: Vec::with_capacity(events.len()), next_cursor };
    let mut bytes = 0;
    for ServedEvent { event: shared, cursor, message, more: _ } in events {
        let event = event(shared.unwrap_or_clone(), &cursor, message);
        bytes += framed_len(event.encoded_len());
        if let Some(last) = page.events.last()
            && bytes > limits::PAGE_BYTES_MAX
        {
            page.next_cursor = last.cursor.clone();
            break;
        }
        page.events.push(event);
    }
    page
}

/// The frames of the protocol for a frame of a stream: one, or several if its events have much content.
pub(in crate::grpc) fn frames(frame: Frame) -> Vec<EventFrame> {
    let item = |item| ProtoFrame::SnapshotItem(Box::new(pb::SnapshotItem { item: Some(item) }));
    let frame = match frame {
        Frame::Ready { cursor, head } => ProtoFrame::Ready(pb::Ready { cursor, head_seq: head }),
        Frame::SnapshotSession(info) => item(Item::Session(session(*info))),
        Frame::SnapshotMessage(message) => item(Item::Message(view::message(*message))),
        Frame::SnapshotOpen(open) => item(Item::OpenMessage(open_message(*open))),
        Frame::SnapshotRun(found) => item(Item::Run(run(*found))),
        Frame::SnapshotPrompt(found) => item(Item::Prompt(prompt(*found))),
        Frame::SnapshotApproval(found) => item(Item::Approval(approval(*found))),
        Frame::Presence(PresenceFrame { session, present }) => ProtoFrame::PresenceChanged(pb::PresenceChanged {
            session_id: session.to_string(),
            presences: present.into_iter().map(presence).collect(),
        }),
        Frame::SnapshotEnd { cursor } => ProtoFrame::SnapshotEnd(pb::SnapshotEnd { cursor }),
        Frame::Progress { cursor, seq } => ProtoFrame::Progress(pb::Progress { cursor, seq }),
        Frame::DraftDelta { session, delta } => {
            let kind = draft_kind(&delta.kind).into();
            let (call_id, tool) = call_and_tool(delta.kind);
            ProtoFrame::DraftDelta(pb::DraftDelta {
                session_id: session.to_string(),
                message_id: delta.message.to_string(),
                part_id: delta.part.to_string(),
                kind,
                offset_bytes: delta.offset,
                delta: delta.delta,
                call_id,
                tool,
            })
        }
        Frame::SummaryDelta { session, delta } => ProtoFrame::SummaryDelta(pb::SummaryDelta {
            session_id: session.to_string(),
            compaction_id: delta.compaction.to_string(),
            summarizer: delta.summarizer,
            offset_bytes: delta.offset,
            delta: delta.delta,
        }),
        Frame::Events { events, cursor } => {
            return batches(events, &cursor).into_iter().map(|batch| wrap(ProtoFrame::Events(batch))).collect();
        }
    };
    vec![wrap(frame)]
}

/// Somebody in a session.
pub(in crate::grpc) fn presence(PresentActor { actor, doing, since }: PresentActor) -> pb::Presence {
    let kind = match doing {
        PresenceKind::Watching => pb::PresenceKind::Watching,
        PresenceKind::Typing => pb::PresenceKind::Typing,
    };
    pb::Presence { actor, kind: kind.into(), since_time: Some(wire::timestamp(since)) }
}

fn open_message(open: OpenMessage) -> pb::OpenMessage {
    let OpenMessage { message: opened, drafts } = open;
    pb::OpenMessage { message: Some(message(opened)), drafts: drafts.into_iter().map(draft).collect() }
}

fn wrap(frame: ProtoFrame) -> EventFrame {
    EventFrame { frame: Some(frame) }
}

/// Events in batches of at most a frame's size; an event that is longer than a frame has one for itself.
fn batches(events: Vec<ServedEvent>, end: &str) -> Vec<EventBatch> {
    let mut batches = Vec::new();
    let mut batch = EventBatch::default();
    let mut bytes = 0;
    let mut last = Arc::default();
    for ServedEvent { event: shared, cursor, message, more } in events {
        let encode = |message| event(Event::clone(&shared), &cursor, message).encode_to_vec();
        // A message is sent in its newest state, and so is not the same for all streams.
        let event = match message {
            None => shared.encoded(|| encode(None)),
            Some(_) => encode(message).into(),
        };
        let len = framed_len(event.len());
        if bytes + len > limits::FRAME_BYTES_MAX && !batch.events.is_empty() {
            let full = std::mem::take(&mut batch);
            batches.push(EventBatch { cursor: str::to_owned(&last), ..full });
            bytes = 0;
        }
        bytes += len;
        last = cursor;
        batch.more = more;
        batch.events.push(event);
    }
    // The cursor of the last batch is also after the events that the filter skipped.
    batches.push(EventBatch { cursor: end.to_owned(), ..batch });
    batches
}

fn words_marked(message: MessageId, stance: Option<WordsStance>) -> pb::WordsMarked {
    pb::WordsMarked { message_id: message.to_string(), stance: words_stance(stance).into() }
}

fn body(body: EventBody) -> Body {
    match body {
        EventBody::SessionCreated { title, preset, parent } => {
            Body::SessionCreated(pb::SessionCreated { title, preset, parent_session_id: id(parent) })
        }
        EventBody::SessionUpdated { title, metadata_json, window } => session_updated(title, metadata_json, window),
        EventBody::SessionArchived => Body::SessionArchived(pb::SessionArchived {}),
        EventBody::SessionRestored => Body::SessionRestored(pb::SessionRestored {}),
        EventBody::LabelAdded { label } => Body::LabelAdded(pb::LabelAdded { label }),
        EventBody::LabelRemoved { label } => Body::LabelRemoved(pb::LabelRemoved { label }),
        EventBody::SessionForked { from, at, after, title } => {
            Body::SessionForked(session_forked(from, at, after, title))
        }
        EventBody::PolicyChanged { preset } => Body::PolicyChanged(pb::PolicyChanged { preset }),
        EventBody::SessionRewound { after } => Body::SessionRewound(pb::SessionRewound { after_revision: after }),
        EventBody::MessageAppended { message, client_id, role, kind, part_count, sealed } => {
            Body::MessageAppended(message_appended(message, client_id, role, kind, part_count, sealed))
        }
        EventBody::PartsClosed { message, parts } => {
            Body::PartsClosed(pb::PartsClosed { message_id: message.to_string(), part_ids: part_ids(&parts) })
        }
        EventBody::MessageFinished { message, reason, expired } => {
            let reason = wire::finish_reason(reason).into();
            Body::MessageFinished(pb::MessageFinished { message_id: message.to_string(), reason, expired })
        }
        EventBody::UsageRecorded { message, usage, window } => {
            Body::UsageRecorded(usage_recorded(message, usage, window))
        }
        EventBody::MessageEdited { message, replacement } => Body::MessageEdited(message_edited(message, replacement)),
        EventBody::MessagePinned { message } => {
            Body::MessagePinned(pb::MessagePinned { message_id: message.to_string() })
        }
        EventBody::MessageUnpinned { message } => {
            Body::MessageUnpinned(pb::MessageUnpinned { message_id: message.to_string() })
        }
        EventBody::WordsMarked { message, stance } => Body::WordsMarked(words_marked(message, stance)),
        EventBody::CompactionProposed { compaction, kind, level: at, notice, until } => {
            Body::CompactionProposed(pb::CompactionProposed {
                compaction_id: compaction.to_string(),
                kind: compaction_kind(kind).into(),
                level: level(at).into(),
                notice,
                confirmation_end_time: Some(wire::timestamp(until)),
            })
        }
        EventBody::CompactionStarted {
            compaction,
            level: at,
            kind,
            trigger: by,
            base,
            context_tokens,
            window_tokens,
        } => Body::CompactionStarted(pb::CompactionStarted {
            compaction_id: compaction.to_string(),
            kind: compaction_kind(kind).into(),
            trigger: trigger(by).into(),
            base_revision: base,
            context_tokens,
            window_tokens,
            level: level(at).into(),
        }),
        EventBody::CompactionRetried { compaction, attempt, failure: why } => {
            let (attempt, failure) = (count(attempt), Some(failure(why)));
            Body::CompactionRetried(pb::CompactionRetried { compaction_id: compaction.to_string(), attempt, failure })
        }
        EventBody::PartsPruned { compaction, parts, omitted } => Body::PartsPruned(pb::PartsPruned {
            compaction_id: compaction.to_string(),
            part_ids: part_ids(&parts),
            omitted_ranges: omitted.into_iter().map(range).collect(),
        }),
        EventBody::Compacted { compaction, level: at, notice, kind, trigger: by, outcome: did, window_tokens } => {
            Body::Compacted(pb::Compacted {
                level: level(at).into(),
                notice,
                compaction_id: compaction.to_string(),
                kind: compaction_kind(kind).into(),
                trigger: trigger(by).into(),
                outcome: Some(outcome(*did)),
                window_tokens,
            })
        }
        EventBody::CompactionFailed { compaction, failure: why } => {
            let failure = Some(failure(why));
            Body::CompactionFailed(pb::CompactionFailed { compaction_id: compaction.to_string(), failure })
        }
        EventBody::CompactionCancelled { compaction, failure: why } => {
            let failure = Some(failure(why));
            Body::CompactionCancelled(pb::CompactionCancelled { compaction_id: compaction.to_string(), failure })
        }
        EventBody::CompactionUndone { compaction } => {
            Body::CompactionUndone(pb::CompactionUndone { compaction_id: compaction.to_string() })
        }
        EventBody::CompactionRedone { compaction } => {
            Body::CompactionRedone(pb::CompactionRedone { compaction_id: compaction.to_string() })
        }
        EventBody::RewriteUndone(undone) => Body::RewriteUndone(pb::RewriteUndone { rewrite: Some(rewrite(undone)) }),
        EventBody::RewriteRedone(redone) => Body::RewriteRedone(pb::RewriteRedone { rewrite: Some(rewrite(redone)) }),
        erased @ EventBody::Erased { .. } => super::erase::event(erased),
        of_run => of_run_event(of_run),
    }
}

fn session_updated(title: Option<String>, metadata_json: Option<String>, changed: Option<ModelWindow>) -> Body {
    Body::SessionUpdated(pb::SessionUpdated { title, metadata_json, window: changed.map(window) })
}

fn message_edited(message: MessageId, replacement: Option<MessageId>) -> pb::MessageEdited {
    pb::MessageEdited { message_id: message.to_string(), replacement_message_id: id(replacement) }
}

fn session_forked(from: SessionId, at: Revision, after: Option<Revision>, title: String) -> pb::SessionForked {
    pb::SessionForked { source_session_id: from.to_string(), source_revision: at, title, after_revision: after }
}

fn message_appended(
    message: MessageId,
    client_id: Option<String>,
    by: Role,
    kind: MessageKind,
    part_count: i64,
    sealed: bool,
) -> pb::MessageAppended {
    pb::MessageAppended {
        message_id: message.to_string(),
        client_id,
        role: wire::role(by).into(),
        kind: wire::message_kind(kind).into(),
        part_count: count(part_count),
        sealed,
    }
}

/// The usage that a reply reported, and its window.
fn usage_recorded(message: MessageId, reported: Usage, given: ModelWindow) -> pb::UsageRecorded {
    pb::UsageRecorded {
        message_id: message.to_string(),
        usage: Some(wire::usage(reported)),
        window: Some(window(given)),
    }
}

#[cfg(test)]
mod tests;
