use super::*;
use crate::app::Reason;
use crate::model::approval::ApprovalEndReason;
use crate::model::compaction::{
    CompactionKind, Contradiction, ContradictionKind, Failure, FailureReason, Level, Outcome, RevisionRange, Trigger,
};
use crate::model::event::{ErasedMessage, ErasedTarget, Event, InterruptedCall, Rewrite, RewriteOf};
use crate::model::ids::{ApprovalId, CompactionId, PartId, PromptId, RunId, SessionId};
use crate::model::message::{FinishReason, Message};
use crate::model::part::{Part, PartBody};
use crate::model::prompt::Delivery;
use crate::model::run::RunEndReason;
use crate::model::time::Timestamp;
use crate::model::usage::WindowSource;
use uuid::Uuid;

const MESSAGE: MessageId = MessageId(Uuid::from_u128(2));
const PART: PartId = PartId(Uuid::from_u128(3));
const COMPACTION: CompactionId = CompactionId(Uuid::from_u128(4));
const OTHER: MessageId = MessageId(Uuid::from_u128(5));
const SESSION: SessionId = SessionId(Uuid::from_u128(6));

fn why() -> Failure {
    Failure { overhead_tokens: Some(16), ..Failure::new(FailureReason::SummarizerTimeout, "took too long") }
}

fn did() -> Outcome {
    Outcome {
        covered: vec![RevisionRange { first: 1, last: 8 }],
        covered_count: 5,
        tail_start: Some(OTHER),
        summary_message: Some(MESSAGE),
        pruned_count: 6,
        omitted_count: 7,
        tokens_before: 900,
        tokens_after: 90,
        first_changed_index: 2,
        summarizer: "extractive".into(),
        usage: Some(Usage { input: 11, ..Usage::default() }),
        duration_ms: 12,
        supplied: true,
        stopped: Some(Failure::new(FailureReason::BreakerOpen, "no progress")),
        invalidated_tokens: 13,
        usage_before: Some(14),
        overhead_tokens: 15,
        contradictions: vec![Contradiction {
            kind: ContradictionKind::File,
            claim: "`a.rs` exists".into(),
            history: "`a.rs` was deleted".into(),
            message: Some(OTHER),
        }],
        quoted_until: Some(9),
    }
}

fn written_outcome() -> pb::CompactionOutcome {
    pb::CompactionOutcome {
        covered_ranges: vec![pb::RevisionRange { first_revision: 1, last_revision: 8 }],
        covered_count: 5,
        tail_start_message_id: Some(OTHER.to_string()),
        summary_message_id: Some(MESSAGE.to_string()),
        pruned_count: 6,
        omitted_count: 7,
        estimated_tokens_before: 900,
        estimated_tokens_after: 90,
        first_changed_index: 2,
        summarizer: "extractive".into(),
        usage: Some(pb::Usage { input_tokens: 11, ..pb::Usage::default() }),
        duration_ms: 12,
        supplied: true,
        stopped: Some(pb::CompactionFailure {
            reason: "BREAKER_OPEN".to_owned(),
            message: "no progress".to_owned(),
            ..pb::CompactionFailure::default()
        }),
        invalidated_tokens: 13,
        context_tokens_before: Some(14),
        overhead_tokens: 15,
        contradictions: vec![pb::Contradiction {
            kind: pb::ContradictionKind::File.into(),
            claim: "`a.rs` exists".into(),
            history: "`a.rs` was deleted".into(),
            message_id: Some(OTHER.to_string()),
        }],
        last_quoted_revision: Some(9),
    }
}

/// One body of every kind, with its form in the protocol.
fn bodies() -> Vec<(EventBody, Body)> {
    let mut all = session_bodies();
    all.extend(message_bodies());
    all.extend(compaction_bodies());
    all.extend(later_compaction_bodies());
    let stance = pb::WordsStance::Struck.into();
    all.push((
        EventBody::WordsMarked { message: MESSAGE, stance: Some(WordsStance::Struck) },
        Body::WordsMarked(pb::WordsMarked { message_id: MESSAGE.to_string(), stance }),
    ));
    all
}

fn session_bodies() -> Vec<(EventBody, Body)> {
    let source = WindowSource::Models;
    let window = ModelWindow { model: "m".into(), context: 1, input: Some(2), output: Some(3), overhead: 4, source };
    let proto_window = pb::ModelWindow {
        model: "m".into(),
        max_context_tokens: 1,
        max_input_tokens: Some(2),
        max_output_tokens: Some(3),
        overhead_tokens: 4,
        source: pb::WindowSource::Models.into(),
    };
    vec![
        (
            EventBody::SessionCreated { title: "t".into(), preset: "p".into(), parent: Some(SESSION) },
            Body::SessionCreated(pb::SessionCreated {
                title: "t".into(),
                preset: "p".into(),
                parent_session_id: Some(SESSION.to_string()),
            }),
        ),
        (
            EventBody::SessionUpdated {
                title: Some("t".into()),
                metadata_json: Some("{}".into()),
                window: Some(window),
            },
            Body::SessionUpdated(pb::SessionUpdated {
                title: Some("t".into()),
                metadata_json: Some("{}".into()),
                window: Some(proto_window),
            }),
        ),
        (EventBody::SessionArchived, Body::SessionArchived(pb::SessionArchived {})),
        (EventBody::SessionRestored, Body::SessionRestored(pb::SessionRestored {})),
        (
            EventBody::SessionForked { from: SESSION, at: 7, after: Some(5), title: "t".into() },
            Body::SessionForked(pb::SessionForked {
                source_session_id: SESSION.to_string(),
                source_revision: 7,
                title: "t".into(),
                after_revision: Some(5),
            }),
        ),
        (
            EventBody::PolicyChanged { preset: "p".into() },
            Body::PolicyChanged(pb::PolicyChanged { preset: "p".into() }),
        ),
    ]
}

fn message_bodies() -> Vec<(EventBody, Body)> {
    vec![
        (
            EventBody::MessageAppended {
                message: MESSAGE,
                client_id: Some("c".into()),
                role: Role::Tool,
                kind: MessageKind::Record,
                part_count: 3,
                sealed: true,
            },
            Body::MessageAppended(pb::MessageAppended {
                message_id: MESSAGE.to_string(),
                client_id: Some("c".into()),
                role: pb::Role::Tool.into(),
                kind: pb::MessageKind::Record.into(),
                part_count: 3,
                sealed: true,
            }),
        ),
        (
            EventBody::PartsClosed { message: MESSAGE, parts: vec![PART] },
            Body::PartsClosed(pb::PartsClosed { message_id: MESSAGE.to_string(), part_ids: vec![PART.to_string()] }),
        ),
        (
            EventBody::MessageFinished { message: MESSAGE, reason: Some(FinishReason::Length), expired: true },
            Body::MessageFinished(pb::MessageFinished {
                message_id: MESSAGE.to_string(),
                reason: pb::FinishReason::Length.into(),
                expired: true,
            }),
        ),
        (
            EventBody::UsageRecorded {
                message: MESSAGE,
                usage: Usage { output: 4, ..Usage::default() },
                window: ModelWindow { context: 6, ..ModelWindow::default() },
            },
            Body::UsageRecorded(pb::UsageRecorded {
                message_id: MESSAGE.to_string(),
                usage: Some(pb::Usage { output_tokens: 4, ..pb::Usage::default() }),
                window: Some(pb::ModelWindow {
                    max_context_tokens: 6,
                    source: pb::WindowSource::Client.into(),
                    ..pb::ModelWindow::default()
                }),
            }),
        ),
        (EventBody::SessionRewound { after: 9 }, Body::SessionRewound(pb::SessionRewound { after_revision: 9 })),
        (
            EventBody::MessageEdited { message: MESSAGE, replacement: Some(OTHER) },
            Body::MessageEdited(pb::MessageEdited {
                message_id: MESSAGE.to_string(),
                replacement_message_id: Some(OTHER.to_string()),
            }),
        ),
        (
            EventBody::MessagePinned { message: MESSAGE },
            Body::MessagePinned(pb::MessagePinned { message_id: MESSAGE.to_string() }),
        ),
        (
            EventBody::MessageUnpinned { message: MESSAGE },
            Body::MessageUnpinned(pb::MessageUnpinned { message_id: MESSAGE.to_string() }),
        ),
    ]
}

fn compaction_bodies() -> Vec<(EventBody, Body)> {
    let compaction_id = COMPACTION.to_string();
    let failure = Some(pb::CompactionFailure {
        reason: "SUMMARIZER_TIMEOUT".into(),
        message: "took too long".into(),
        overhead_tokens: Some(16),
    });
    vec![
        (
            EventBody::CompactionStarted {
                compaction: COMPACTION,
                level: None,
                kind: CompactionKind::Prune,
                trigger: Trigger::Maintenance,
                base: 1,
                context_tokens: 2,
                window_tokens: 3,
            },
            Body::CompactionStarted(pb::CompactionStarted {
                compaction_id: compaction_id.clone(),
                kind: pb::CompactionKind::Prune.into(),
                trigger: pb::CompactionTrigger::Maintenance.into(),
                base_revision: 1,
                context_tokens: 2,
                window_tokens: 3,
                level: pb::CompactionLevel::Unspecified.into(),
            }),
        ),
        (
            EventBody::CompactionRetried { compaction: COMPACTION, attempt: 2, failure: why() },
            Body::CompactionRetried(pb::CompactionRetried {
                compaction_id: compaction_id.clone(),
                attempt: 2,
                failure: failure.clone(),
            }),
        ),
        (
            EventBody::PartsPruned {
                compaction: COMPACTION,
                parts: vec![PART],
                omitted: vec![RevisionRange { first: 3, last: 4 }],
            },
            Body::PartsPruned(pb::PartsPruned {
                compaction_id: compaction_id.clone(),
                part_ids: vec![PART.to_string()],
                omitted_ranges: vec![pb::RevisionRange { first_revision: 3, last_revision: 4 }],
            }),
        ),
        (
            EventBody::Compacted {
                compaction: COMPACTION,
                level: Some(Level::Deep),
                notice: "done".into(),
                kind: CompactionKind::Summary,
                trigger: Trigger::Supplied,
                outcome: Box::new(did()),
                window_tokens: 1_000,
            },
            Body::Compacted(pb::Compacted {
                compaction_id: compaction_id.clone(),
                kind: pb::CompactionKind::Summary.into(),
                trigger: pb::CompactionTrigger::Supplied.into(),
                outcome: Some(written_outcome()),
                window_tokens: 1_000,
                level: pb::CompactionLevel::Deep.into(),
                notice: "done".into(),
            }),
        ),
        (
            EventBody::CompactionFailed { compaction: COMPACTION, failure: why() },
            Body::CompactionFailed(pb::CompactionFailed {
                compaction_id: compaction_id.clone(),
                failure: failure.clone(),
            }),
        ),
        (
            EventBody::CompactionCancelled { compaction: COMPACTION, failure: why() },
            Body::CompactionCancelled(pb::CompactionCancelled { compaction_id, failure }),
        ),
    ]
}

fn later_compaction_bodies() -> Vec<(EventBody, Body)> {
    let compaction_id = COMPACTION.to_string();
    vec![
        (
            EventBody::CompactionUndone { compaction: COMPACTION },
            Body::CompactionUndone(pb::CompactionUndone { compaction_id: compaction_id.clone() }),
        ),
        (
            EventBody::CompactionProposed {
                compaction: COMPACTION,
                kind: CompactionKind::Omission,
                level: Some(Level::Micro),
                notice: "may I?".into(),
                until: Timestamp(5_000_000),
            },
            Body::CompactionProposed(pb::CompactionProposed {
                compaction_id: compaction_id.clone(),
                kind: pb::CompactionKind::Omission.into(),
                level: pb::CompactionLevel::Micro.into(),
                notice: "may I?".into(),
                confirmation_end_time: Some(prost_types::Timestamp { seconds: 5, nanos: 0 }),
            }),
        ),
        (
            EventBody::CompactionRedone { compaction: COMPACTION },
            Body::CompactionRedone(pb::CompactionRedone { compaction_id }),
        ),
        (
            EventBody::RewriteUndone(Rewrite { mark: 7, of: RewriteOf::Rewind }),
            Body::RewriteUndone(pb::RewriteUndone {
                rewrite: Some(pb::Rewrite { kind: pb::RewriteKind::Rewind.into(), mark_revision: 7, message_id: None }),
            }),
        ),
        (
            EventBody::RewriteRedone(Rewrite { mark: 8, of: RewriteOf::Edit(MESSAGE) }),
            Body::RewriteRedone(pb::RewriteRedone {
                rewrite: Some(pb::Rewrite {
                    kind: pb::RewriteKind::Edit.into(),
                    mark_revision: 8,
                    message_id: Some(MESSAGE.to_string()),
                }),
            }),
        ),
    ]
    .into_iter()
    .chain(bodies_of_runs())
    .collect()
}

/// The same of runs, prompts and approvals.
fn bodies_of_runs() -> Vec<(EventBody, Body)> {
    let (run, prompt, approval) =
        (RunId(Uuid::from_u128(7)), PromptId(Uuid::from_u128(8)), ApprovalId(Uuid::from_u128(9)));
    let (run_id, prompt_id, approval_id) = (run.to_string(), prompt.to_string(), approval.to_string());
    vec![
        (
            EventBody::RunStarted { run, epoch: 3 },
            Body::RunStarted(pb::RunStarted { run_id: run_id.clone(), epoch: 3 }),
        ),
        (
            EventBody::RunCancelRequested { run, epoch: 3 },
            Body::RunCancelRequested(pb::RunCancelRequested { run_id: run_id.clone(), epoch: 3 }),
        ),
        (
            EventBody::RunEnded {
                run,
                epoch: 3,
                reason: RunEndReason::Lost,
                failure: "why".into(),
                interrupted: vec![InterruptedCall { message: MESSAGE, call_id: "c1".into() }],
            },
            Body::RunEnded(pb::RunEnded {
                run_id,
                epoch: 3,
                reason: pb::RunEndReason::Lost.into(),
                failure: "why".into(),
                interrupted_calls: vec![pb::InterruptedCall { message_id: MESSAGE.to_string(), call_id: "c1".into() }],
            }),
        ),
        (
            EventBody::PromptSubmitted { prompt, delivery: Delivery::Steer },
            Body::PromptSubmitted(pb::PromptSubmitted {
                prompt_id: prompt_id.clone(),
                delivery: pb::Delivery::Steer.into(),
            }),
        ),
        (
            EventBody::PromptMoved { prompt, before: Some(prompt) },
            Body::PromptMoved(pb::PromptMoved {
                prompt_id: prompt_id.clone(),
                before_prompt_id: Some(prompt_id.clone()),
            }),
        ),
        (
            EventBody::PromptTaken { prompt, epoch: 4 },
            Body::PromptTaken(pb::PromptTaken {
                prompt_id: prompt_id.clone(),
                epoch: 4,
                message_id: MessageId(prompt.0).to_string(),
            }),
        ),
        (EventBody::PromptWithdrawn { prompt }, Body::PromptWithdrawn(pb::PromptWithdrawn { prompt_id })),
        (
            EventBody::ApprovalRequested { approval, epoch: Some(5) },
            Body::ApprovalRequested(pb::ApprovalRequested { approval_id: approval_id.clone(), epoch: Some(5) }),
        ),
        (
            EventBody::ApprovalEnded { approval, reason: ApprovalEndReason::Expired, choice: Some("no".into()) },
            Body::ApprovalEnded(pb::ApprovalEnded {
                approval_id,
                reason: pb::ApprovalEndReason::Expired.into(),
                choice: Some("no".into()),
            }),
        ),
        (EventBody::LabelAdded { label: "l".into() }, Body::LabelAdded(pb::LabelAdded { label: "l".into() })),
        (EventBody::LabelRemoved { label: "l".into() }, Body::LabelRemoved(pb::LabelRemoved { label: "l".into() })),
        (
            EventBody::Erased {
                target: ErasedTarget::Part,
                reason: "a key".into(),
                from: Some(SESSION),
                ranges: vec![RevisionRange { first: 3, last: 4 }],
                messages: vec![ErasedMessage { message: MESSAGE, parts: vec![PART] }],
                unfinished: true,
            },
            Body::Erased(pb::Erased {
                target: pb::ErasedTarget::Part.into(),
                reason: "a key".into(),
                source_session_id: Some(SESSION.to_string()),
                ranges: vec![pb::RevisionRange { first_revision: 3, last_revision: 4 }],
                messages: vec![pb::ErasedMessage { message_id: MESSAGE.to_string(), part_ids: vec![PART.to_string()] }],
                unfinished: true,
            }),
        ),
    ]
}

fn served(seq: i64, ends_mutation: bool, body: EventBody, content: usize) -> ServedEvent {
    let event = Event {
        seq,
        session_id: SESSION,
        revision: seq + 100,
        ends_mutation,
        time: Timestamp(1_500_000),
        actor: "somebody".into(),
        request_id: "r".into(),
        body,
        hash: [9; 32],
    };
    let text = Part {
        id: PART,
        client_id: None,
        revision: 1,
        body: PartBody::Text("x".repeat(content)).into(),
        metadata_json: None,
    };
    let about = Message {
        id: MESSAGE,
        session_id: SESSION,
        client_id: None,
        revision: 1,
        role: Role::User,
        kind: MessageKind::Normal,
        parts: vec![text],
        sealed_revision: Some(1),
        finish: crate::model::message::Finish::default(),
        model: String::new(),
        provider: String::new(),
        create_time: Timestamp(0),
        origin_time: None,
        actor: String::new(),
        metadata_json: None,
        replaces: None,
    };
    ServedEvent {
        event: Arc::new(event.into()),
        cursor: format!("c{seq}").into(),
        message: (content > 0).then_some(about.into()),
        more: !ends_mutation,
    }
}

/// What a client gets.
fn sent(events: Vec<ServedEvent>, cursor: &str) -> Vec<pb::EventBatch> {
    let frames = frames(Frame::Events { events, cursor: cursor.into() }).into_iter();
    let read = frames.map(|frame| pb::SubscribeEventsResponse::decode(&*frame.encode_to_vec()).expect("a frame"));
    read.map(|read| match read.frame {
        Some(pb::subscribe_events_response::Frame::Events(batch)) => batch,
        other => panic!("{other:?}"),
    })
    .collect()
}

#[test]
fn an_event_is_encoded_once_for_all_streams_and_a_message_anew_for_each() {
    let bytes_of = |served: &ServedEvent| {
        let frame = frames(Frame::Events { events: vec![served.clone()], cursor: "c".into() }).remove(0);
        let Some(ProtoFrame::Events(mut batch)) = frame.frame else { panic!("no events") };
        batch.events.remove(0)
    };
    let bare = appended(1, true, 0);
    let first = bytes_of(&bare);
    assert_eq!(first.as_ptr(), bytes_of(&bare).as_ptr());
    let message = appended(1, true, 10).message;
    let with_message = ServedEvent { message: message.clone(), ..bare.clone() };
    let written = sent(vec![with_message], "c").remove(0).events.remove(0);
    assert_eq!(
        written.message,
        message.map(|message| crate::grpc::convert::message::message(Message::clone(&message)))
    );
    assert_eq!(bytes_of(&bare), first, "the message is no part of what is shared");
}

#[test]
fn every_kind_of_event_is_written_whole() {
    let bodies = bodies();
    let kinds: Vec<EventKind> = bodies.iter().map(|(body, _)| body.kind()).collect();
    assert_eq!(kinds, EventKind::ALL);
    for (body, expected) in bodies {
        let kind = body.kind();
        let written = sent(vec![served(1, true, body, 0)], "c1").remove(0).events.remove(0);
        let envelope = pb::Event {
            seq: 1,
            cursor: "c1".into(),
            session_id: SESSION.to_string(),
            revision: 101,
            kind: kind as i32,
            ignorable: written.ignorable,
            event_time: Some(prost_types::Timestamp { seconds: 1, nanos: 500_000_000 }),
            actor: "somebody".into(),
            request_id: "r".into(),
            hash: vec![9; 32],
            message: None,
            body: Some(expected),
        };
        assert_eq!(written, envelope);
    }
}

#[test]
fn kinds_have_the_protocols_numbers() {
    for kind in EventKind::ALL {
        let words = format!("{kind:?}").chars().fold(String::new(), |mut name, letter| {
            if letter.is_uppercase() {
                name.push('_');
            }
            name.push(letter.to_ascii_uppercase());
            name
        });
        let proto = pb::EventKind::try_from(kind as i32).expect("a number of the protocol");
        assert_eq!(proto.as_str_name(), format!("EVENT_KIND{words}"));
        assert_eq!(read_kinds(&[kind as i32]), Ok(vec![kind]));
    }
    for number in [0, -1, 1_000] {
        let error = read_kinds(&[1, number]).expect_err("a refusal");
        assert_eq!((error.reason, error.metadata["field"].as_str()), (Reason::InvalidField, "kinds[1]"));
    }
}

#[test]
fn changes_of_history_are_never_ignorable() {
    for kind in EventKind::ALL {
        assert!(!(ignorable(kind) && kind.changes_history()), "{kind:?}");
    }
    assert!(ignorable(EventKind::UsageRecorded));
}

#[test]
fn a_stream_starts_at_its_cursor() {
    let cases = [
        (None, Start::Now),
        (Some(ProtoStart::AfterCursor("c".into())), Start::After("c".into())),
        (Some(ProtoStart::FromBeginning(true)), Start::Beginning),
        (Some(ProtoStart::Snapshot(true)), Start::Snapshot),
    ];
    for (start, expected) in cases {
        let request = pb::SubscribeEventsRequest { start, ..pb::SubscribeEventsRequest::default() };
        assert_eq!(read_subscribe(request).expect("a request").start, expected);
    }
    for (start, field) in
        [(ProtoStart::FromBeginning(false), "from_beginning"), (ProtoStart::Snapshot(false), "snapshot")]
    {
        let request = pb::SubscribeEventsRequest { start: Some(start), ..pb::SubscribeEventsRequest::default() };
        assert_eq!(read_subscribe(request).expect_err("a refusal").metadata["field"], field);
    }
    let progress_interval = Some(prost_types::Duration { seconds: -1, nanos: 0 });
    let request = pb::SubscribeEventsRequest { progress_interval, ..pb::SubscribeEventsRequest::default() };
    assert_eq!(read_subscribe(request).expect_err("a refusal").metadata["field"], "progress_interval");
}

fn appended(seq: i64, ends_mutation: bool, content: usize) -> ServedEvent {
    let body = EventBody::PartsClosed { message: MESSAGE, parts: Vec::new() };
    served(seq, ends_mutation, body, content)
}

#[test]
fn events_with_much_content_come_in_several_frames() {
    let half = limits::FRAME_BYTES_MAX / 2;
    let events = vec![
        appended(1, true, 10),
        appended(2, false, half),
        appended(3, true, half),
        appended(4, false, limits::FRAME_BYTES_MAX * 2),
        appended(5, false, 10),
    ];
    let batches = sent(events, "c9");
    let seen: Vec<(Vec<i64>, &str, bool)> = batches
        .iter()
        .map(|batch| (batch.events.iter().map(|event| event.seq).collect(), batch.cursor.as_str(), batch.more))
        .collect();
    let expected = [(vec![1, 2], "c2", true), (vec![3], "c3", false), (vec![4], "c4", true), (vec![5], "c9", true)];
    assert_eq!(seen, expected);
}

#[test]
fn a_page_with_much_content_ends_early() {
    let third = limits::PAGE_BYTES_MAX / 3;
    let events = |sizes: [usize; 4]| (1..).zip(sizes).map(|(seq, size)| appended(seq, true, size)).collect();
    let cut = page(events([third, third, third, 1]), "c4".into());
    assert_eq!((cut.events.len(), cut.next_cursor.as_str()), (2, "c2"));
    let huge = page(events([third * 4, 1, 1, 1]), "c4".into());
    assert_eq!((huge.events.len(), huge.next_cursor.as_str()), (1, "c1"));
    let whole = page(events([1; 4]), String::new());
    assert_eq!((whole.events.len(), whole.next_cursor.as_str()), (4, ""));
}
