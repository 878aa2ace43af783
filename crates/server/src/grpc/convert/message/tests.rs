use super::*;
use crate::model::ids::{CompactionId, MessageId, SessionId};
use crate::model::part::Answers;
use crate::model::time::Timestamp;
use crate::model::usage::{ModelWindow, Usage};
use uuid::Uuid;

fn full_usage() -> Usage {
    Usage {
        input: 1,
        output: 2,
        reasoning: 3,
        cache_read: 4,
        cache_write: 5,
        total: Some(6),
        cost_usd: Some(0.7),
        cost_is_computed: false,
    }
}

fn images() -> Vec<Media> {
    let source = MediaSource::Bytes(vec![0, 255]);
    let here = Media { mime_type: "image/png".into(), name: "a.png".into(), source };
    let source = MediaSource::Uri("file:///b".into());
    vec![here, Media { mime_type: "image/jpeg".into(), name: String::new(), source }]
}

fn result(status: ResultStatus) -> PartBody {
    PartBody::ToolResult(ToolResult {
        call_id: "call".into(),
        status,
        output: "out".into(),
        attachments: images(),
        start_time: Some(Timestamp(-1)),
        end_time: Some(Timestamp(1_000_001)),
        answers: Answers::Nearest,
    })
}

/// At least one body of every kind, with a different value in every field.
fn bodies() -> Vec<PartBody> {
    vec![
        PartBody::Text("words".into()),
        PartBody::Reasoning("thoughts".into()),
        PartBody::ToolCall(ToolCall {
            call_id: "call".into(),
            tool: "bash".into(),
            input_json: "{ \"a\" : 1}".into(),
            start_time: Some(Timestamp(2)),
            end_time: Some(Timestamp(3)),
        }),
        result(ResultStatus::Completed),
        result(ResultStatus::Error),
        result(ResultStatus::Interrupted),
        PartBody::Media(images().remove(0)),
        PartBody::Media(images().remove(1)),
        PartBody::Marker(Marker { name: "compaction".into(), text: "what follows".into() }),
        PartBody::Step(ReplyStep { finish_reason: "end_turn".into(), usage: Some(full_usage()) }),
        PartBody::Opaque(Opaque { provider: "p".into(), kind: "k".into(), data: vec![1, 0, 254] }),
        PartBody::Record(Record { kind: "mode".into(), data: "{}".into() }),
    ]
}

#[test]
fn the_table_has_every_kind_of_part() {
    let mut kinds: Vec<_> = bodies().iter().map(PartBody::kind).collect();
    kinds.dedup();
    kinds.retain(|kind| *kind != "media");
    assert_eq!(kinds, ["text", "reasoning", "tool_call", "tool_result", "marker", "step", "opaque", "record"],);
}

#[test]
fn parts_come_back() {
    for given in bodies() {
        let stored = Part {
            id: PartId(Uuid::from_u128(7)),
            client_id: Some("mine".into()),
            revision: 9,
            body: given.clone().into(),
            metadata_json: Some("[1]".into()),
        };
        let written = part(stored);
        assert_eq!((written.part_id.len(), written.revision), (36, 9));
        let read = read_part("parts[0]", written).expect("a part");
        let expected =
            NewPart { client_id: Some("mine".into()), metadata_json: Some("[1]".into()), ..NewPart::new(given) };
        assert_eq!(read, expected);
    }
}

fn proto_message() -> pb::NewMessage {
    pb::NewMessage {
        client_id: Some("m1".into()),
        role: pb::Role::Assistant.into(),
        kind: pb::MessageKind::Normal.into(),
        parts: bodies()
            .into_iter()
            .map(|given| pb::Part { body: Some(wire::body(given)), ..pb::Part::default() })
            .collect(),
        open: false,
        finish: Some(pb::Finish {
            reason: pb::FinishReason::ToolCalls.into(),
            detail: "tool_use".into(),
            usage: Some(wire::usage(full_usage())),
            view_token: Some("a token".into()),
        }),
        model: "m".into(),
        provider: "p".into(),
        origin_time: Some(prost_types::Timestamp { seconds: 5, nanos: 6_000 }),
        open_timeout: None,
        metadata_json: Some("{}".into()),
        replace_existing: true,
    }
}

#[test]
fn a_message_is_read_whole() {
    let expected = NewMessage {
        client_id: Some("m1".into()),
        role: Role::Assistant,
        kind: MessageKind::Normal,
        parts: bodies().into_iter().map(NewPart::new).collect(),
        finish: Some(Finish {
            reason: Some(FinishReason::ToolCalls),
            detail: "tool_use".into(),
            usage: Some(full_usage()),
            view: Some("a token".into()),
        }),
        model: "m".into(),
        provider: "p".into(),
        origin_time: Some(Timestamp(5_000_006)),
        open_timeout_ms: None,
        replace_existing: true,
        metadata_json: Some("{}".into()),
    };
    assert_eq!(read_new_message("messages[0]", proto_message()), Ok(expected.clone()));

    let open = pb::NewMessage { open: true, finish: None, ..proto_message() };
    let read = read_new_message("messages[0]", open).expect("an open message");
    assert_eq!(read, NewMessage { finish: None, ..expected.clone() });

    let sealed = pb::NewMessage { finish: None, ..proto_message() };
    let read = read_new_message("messages[0]", sealed).expect("a sealed message");
    assert_eq!(read, NewMessage { finish: Some(Finish::default()), ..expected });
}

fn with_body(body: Body) -> pb::NewMessage {
    let whole = pb::Part { body: Some(pb::part::Body::Text(pb::TextPart::default())), ..pb::Part::default() };
    let odd = pb::Part { body: Some(body), ..pb::Part::default() };
    pb::NewMessage { parts: vec![whole, odd], ..proto_message() }
}

#[test]
fn unreadable_fields_are_named() {
    let result = pb::ToolResultPart { status: 1, ..pb::ToolResultPart::default() };
    let late = prost_types::Timestamp { seconds: i64::MAX, nanos: 0 };
    let finish = proto_message().finish.expect("a finish");
    let cases = [
        ("role", pb::NewMessage { role: 0, ..proto_message() }),
        ("role", pb::NewMessage { role: 99, ..proto_message() }),
        ("kind", pb::NewMessage { kind: -1, ..proto_message() }),
        ("finish", pb::NewMessage { open: true, ..proto_message() }),
        ("finish.reason", pb::NewMessage { finish: Some(pb::Finish { reason: 77, ..finish }), ..proto_message() }),
        ("origin_time", pb::NewMessage { origin_time: Some(late), ..proto_message() }),
        ("parts[0].body", pb::NewMessage { parts: vec![pb::Part::default()], ..proto_message() }),
        ("parts[1].media.source", with_body(Body::Media(pb::MediaPart::default()))),
        ("parts[1].tool_result.status", with_body(Body::ToolResult(pb::ToolResultPart::default()))),
        (
            "parts[1].tool_result.status",
            with_body(Body::ToolResult(pb::ToolResultPart { status: 4, ..result.clone() })),
        ),
        (
            "parts[1].tool_result.attachments[0].source",
            with_body(Body::ToolResult(pb::ToolResultPart {
                attachments: vec![pb::MediaPart::default()],
                ..result.clone()
            })),
        ),
        (
            "parts[1].tool_result.end_time",
            with_body(Body::ToolResult(pb::ToolResultPart { end_time: Some(late), ..result })),
        ),
        (
            "parts[1].tool_call.start_time",
            with_body(Body::ToolCall(pb::ToolCallPart { start_time: Some(late), ..pb::ToolCallPart::default() })),
        ),
    ];
    for (field, message) in cases {
        let error = read_new_messages(vec![proto_message(), message]).expect_err(field);
        assert_eq!(error.reason, Reason::InvalidField, "{field}");
        assert_eq!(error.metadata["field"], format!("messages[1].{field}"));
    }
}

#[test]
fn enums_come_back() {
    for number in 1..=4 {
        assert_eq!(read_role("role", number).map(|read| wire::role(read).into()), Ok(number));
    }
    for number in 1..=5 {
        assert_eq!(read_kind("kind", number).map(|read| wire::message_kind(read).into()), Ok(number));
    }
    for number in 0..=6 {
        assert_eq!(read_finish_reason("reason", number).map(|read| wire::finish_reason(read).into()), Ok(number));
    }
    for number in 1..=3 {
        assert_eq!(read_status("status", number).map(|read| wire::result_status(read).into()), Ok(number));
    }
    assert_eq!(read_kind("kind", 0), Ok(MessageKind::Normal));
}

#[test]
fn a_stored_message_has_its_seal_and_its_origin() {
    let stored = Message {
        id: MessageId(Uuid::from_u128(1)),
        session_id: SessionId(Uuid::from_u128(2)),
        client_id: Some("mine".into()),
        revision: 3,
        role: Role::User,
        kind: MessageKind::Summary,
        parts: Vec::new(),
        sealed_revision: Some(4),
        finish: Finish {
            reason: Some(FinishReason::Stop),
            view: Some(GivenView { revision: 2, hash: [7; 32], window: ModelWindow::default(), shortened: true }),
            ..Finish::default()
        },
        model: "model".into(),
        provider: "provider".into(),
        create_time: Timestamp(1_000_000),
        origin_time: None,
        actor: "somebody".into(),
        metadata_json: Some("{}".into()),
        replaces: None,
    };
    let expected = pb::Message {
        message_id: "msg_00000000000000000000000000000001".into(),
        session_id: "ses_00000000000000000000000000000002".into(),
        client_id: Some("mine".into()),
        revision: 3,
        role: pb::Role::User.into(),
        kind: pb::MessageKind::Summary.into(),
        origin: pb::Origin::Derived.into(),
        parts: Vec::new(),
        sealed_revision: Some(4),
        finish: Some(pb::Finish { reason: pb::FinishReason::Stop.into(), ..pb::Finish::default() }),
        model: "model".into(),
        provider: "provider".into(),
        create_time: Some(prost_types::Timestamp { seconds: 1, nanos: 0 }),
        origin_time: None,
        actor: "somebody".into(),
        metadata_json: Some("{}".into()),
        given_view: Some(pb::GivenView {
            revision: 2,
            view_hash: vec![7; 32],
            window: Some(pb::ModelWindow::default()),
            shortened: true,
        }),
        status: None,
    };
    assert_eq!(message(stored.clone()), expected);
    let status = MessageStatus {
        by_revision: Some(9),
        by_message: Some(MessageId(Uuid::from_u128(5))),
        by_compaction: Some(CompactionId(Uuid::from_u128(6))),
        is_pinned: true,
        ..MessageStatus::from_state(MessageState::Covered)
    };
    let status_written = pb::MessageStatus {
        state: pb::MessageState::Covered.into(),
        by_revision: 9,
        by_message_id: Some("msg_00000000000000000000000000000005".into()),
        by_compaction_id: Some("cmp_00000000000000000000000000000006".into()),
        pinned: true,
    };
    let with_status = pb::Message { status: Some(status_written), ..expected };
    assert_eq!(messages(vec![stored.clone()], vec![status]), [with_status]);
    let open = message(Message { sealed_revision: None, kind: MessageKind::Normal, ..stored });
    assert_eq!((open.finish, open.origin), (None, pb::Origin::Client.into()));
}

#[test]
fn an_open_message_takes_whole_parts_and_closes_drafts() {
    let id = PartId(Uuid::from_u128(5));
    let text = || Some(Body::Text(pb::TextPart { text: "words".into() }));
    let whole = pb::Part { body: text(), ..pb::Part::default() };
    let draft = pb::Part { part_id: id.to_string(), metadata_json: Some("1".into()), ..pb::Part::default() };
    let read = read_open_parts(vec![whole.clone(), draft.clone()]);
    let expected =
        [OpenPart::Whole(NewPart::new(PartBody::Text("words".into()))), OpenPart::draft(id, Some("1".into()))];
    assert_eq!(read.as_deref(), Ok(expected.as_slice()));

    let ended = draft.clone();
    let refused = [
        ("parts[1].body", pb::Part { body: text(), ..draft.clone() }),
        ("parts[1].client_id", pb::Part { client_id: Some("mine".into()), ..draft }),
        ("parts[1].body", pb::Part::default()),
    ];
    for (field, part) in refused {
        let error = read_open_parts(vec![whole.clone(), part]).expect_err(field);
        assert_eq!((error.reason, error.metadata["field"].as_str()), (Reason::InvalidField, field));
    }
    let status = pb::ToolResultStatus::Error.into();
    let failed = |output: &str| {
        let result = pb::ToolResultPart { status, output: output.to_owned(), ..pb::ToolResultPart::default() };
        pb::Part { body: Some(Body::ToolResult(result)), ..ended.clone() }
    };
    let status = Some(ResultStatus::Error);
    let end = DraftEnd { draft: DraftName::Id(id), status, metadata_json: Some("1".into()), received: None };
    assert_eq!(read_open_parts(vec![failed("")]), Ok(vec![OpenPart::Ended(end)]), "the status of a tool's output");
    assert_eq!(read_open_parts(vec![failed("out")]).expect_err("it has its output").reason, Reason::InvalidField);
    let strange = pb::Part { part_id: "prt_1".into(), ..pb::Part::default() };
    assert_eq!(read_open_parts(vec![strange]).expect_err("no draft").reason, Reason::DraftNotFound);
}

#[test]
fn a_list_leaves_records_out_only_when_asked() {
    let request = pb::ListMessagesRequest {
        session_id: String::new(),
        page_size: 7,
        page_token: "t".into(),
        reverse: true,
        as_of_revision: Some(3),
        include_derived: true,
        exclude_records: false,
        client_id_prefix: String::new(),
    };
    let all = read_list(request.clone());
    assert!(all.records && all.derived && all.reverse);
    assert_eq!((all.page_size, all.page_token.as_str(), all.as_of), (7, "t", Some(3)));
    assert!(!read_list(pb::ListMessagesRequest { exclude_records: true, ..request }).records);
}
