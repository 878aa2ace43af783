use super::*;
use crate::app::Reason;
use crate::model::ids::{CompactionId, MessageId, PartId};
use crate::model::message::Role;
use crate::model::part::PartBody;
use crate::model::provider_compaction::Compactor;
use crate::model::session::{OverWindow, OverWindowReason};
use crate::model::usage::UsageDoubt;
use proptest::prelude::*;
use prost::Message as _;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

fn view_message(revision: i64, bytes: usize) -> ViewMessage {
    ViewMessage {
        source: Some(MessageId(Uuid::from_u128(1))),
        revision,
        role: Role::User,
        kind: ViewKind::Shown,
        parts: vec![ViewPart::new(Some(PartId(Uuid::from_u128(2))), PartBody::Text("x".repeat(bytes)), None)],
        original_fields: None,
        provenance: None,
    }
}

fn written() -> Provenance {
    Provenance {
        compaction: Some(CompactionId(Uuid::from_u128(5))),
        summary: Some(MessageId(Uuid::from_u128(6))),
        author: Author::Model,
        summarizer: "strong/m".to_owned(),
    }
}

fn served(messages: Vec<ViewMessage>) -> ServedView {
    ServedView {
        revision: 40,
        hash: [3; 32],
        token: "a token".into(),
        known_count: 2,
        messages,
        formatted: None,
        context_tokens: 10,
        estimated_tokens: 11,
        window_tokens: 12,
        fits: true,
        over_window: Some(OverWindow {
            reason: OverWindowReason::FixedContent,
            message: "too much".to_owned(),
            wait_end: None,
        }),
        usage_doubt: Some(UsageDoubt::Stale),
        shortened: true,
        pending: Some(CompactionId(Uuid::from_u128(4))),
        covered: Some(CoveredHistory {
            compaction: CompactionId(Uuid::from_u128(5)),
            mark: 30,
            summary: 29,
            ranges: vec![RevisionRange { first: 1, last: 20 }],
        }),
        provider_compaction: Some(ProviderCompaction {
            compactor: Compactor::Anthropic,
            message: MessageId(Uuid::from_u128(8)),
            part: PartId(Uuid::from_u128(9)),
            covered: vec![RevisionRange { first: 1, last: 12 }],
            revision: 13,
        }),
        provenance: Some(Arc::new(written())),
        omitted: vec![
            OmittedHistory { range: RevisionRange { first: 21, last: 22 }, mark: 23, reason: OmitReason::Rewound },
            OmittedHistory { range: RevisionRange { first: 24, last: 24 }, mark: 25, reason: OmitReason::Edited },
        ],
        omitted_by: vec![None, Some(CompactionId(Uuid::from_u128(6)))],
        empty: vec![RevisionRange { first: 27, last: 28 }],
        shortened_away: vec![RevisionRange { first: 26, last: 26 }],
        held: None,
    }
}

/// The frames between header and end.
fn middle(frames: &[pb::GetViewResponse]) -> Vec<&pb::ViewMessages> {
    let frames = &frames[1..frames.len() - 1];
    frames
        .iter()
        .map(|frame| match &frame.frame {
            Some(Frame::Messages(messages)) => messages,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_view_begins_with_its_header_and_ends_with_what_it_leaves_out() {
    let provenance = pb::Provenance {
        compaction_id: "cmp_00000000000000000000000000000005".into(),
        author: pb::SummaryAuthor::Model.into(),
        summarizer: "strong/m".into(),
    };
    let summary = ViewMessage { provenance: Some(Arc::new(written())), ..view_message(27, 1) };
    let frames: Vec<_> = frames(served(vec![summary])).collect();
    let header = pb::ViewHeader {
        revision: 40,
        view_hash: vec![3; 32],
        known_message_count: 2,
        message_count: 3,
        context_tokens: 10,
        estimated_tokens: 11,
        window_tokens: 12,
        fits: true,
        shortened: true,
        pending_compaction_id: Some("cmp_00000000000000000000000000000004".into()),
        view_token: "a token".into(),
        over_window: Some(pb::OverWindow {
            reason: pb::OverWindowReason::FixedContent.into(),
            message: "too much".into(),
            wait_end_time: None,
        }),
        usage_doubt: pb::UsageDoubt::Stale.into(),
        system_json: None,
    };
    let omitted = |first_revision, last_revision, mark_revision, reason: pb::OmitReason| pb::OmittedHistory {
        range: Some(pb::RevisionRange { first_revision, last_revision }),
        mark_revision,
        reason: reason.into(),
        compaction_id: (mark_revision == 25).then(|| "cmp_00000000000000000000000000000006".to_owned()),
    };
    let end = pb::ViewEnd {
        covered: Some(pb::CoveredHistory {
            compaction_id: "cmp_00000000000000000000000000000005".into(),
            summary_message_id: "msg_00000000000000000000000000000006".into(),
            covered_ranges: vec![pb::RevisionRange { first_revision: 1, last_revision: 20 }],
            provenance: Some(provenance.clone()),
        }),
        omitted: vec![
            omitted(21, 22, 23, pb::OmitReason::Rewound),
            omitted(24, 24, 25, pb::OmitReason::Edited),
            omitted(27, 28, 0, pb::OmitReason::Empty),
            omitted(26, 26, 0, pb::OmitReason::Shortened),
        ],
        left_out_parts: Vec::new(),
        provider_compaction: Some(pb::ProviderCompaction {
            message_id: "msg_00000000000000000000000000000008".into(),
            part_id: "prt_00000000000000000000000000000009".into(),
            provider: "anthropic".into(),
            covered_ranges: vec![pb::RevisionRange { first_revision: 1, last_revision: 12 }],
        }),
    };
    assert_eq!(frames[0].frame, Some(Frame::Header(header)));
    assert_eq!(middle(&frames)[0].messages.len(), 1);
    assert_eq!(middle(&frames)[0].messages[0].provenance, Some(provenance));
    assert_eq!(frames[2].frame, Some(Frame::End(end)));
    assert_eq!(frames.len(), 3);
}

#[test]
fn a_view_without_messages_has_no_frames_of_them() {
    let frames: Vec<_> = frames(served(Vec::new())).collect();
    assert!(matches!(frames[0].frame, Some(Frame::Header(_))) && matches!(frames[1].frame, Some(Frame::End(_))));
    assert_eq!(frames.len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn frames_keep_their_size_and_their_order(
        sizes in proptest::collection::vec(
            prop_oneof![0..2_000_usize, 12_000..36_000_usize, 55_000..70_000_usize],
            0..12,
        ),
    ) {
        let messages = (0..).zip(&sizes).map(|(revision, bytes)| view_message(revision, *bytes)).collect();
        let frames: Vec<_> = frames(served(messages)).collect();
        let mut revisions = Vec::new();
        for frame in middle(&frames) {
            prop_assert!(frame.messages.len() == 1 || frame.encoded_len() <= limits::VIEW_FRAME_BYTES);
            revisions.extend(frame.messages.iter().map(|message| message.revision));
        }
        prop_assert!(revisions.into_iter().eq((0..).take(sizes.len())));
        // No frame could also hold the first message of the next one.
        for pair in middle(&frames).windows(2) {
            let next = framed_len(pair[1].messages[0].encoded_len());
            prop_assert!(pair[0].encoded_len() + next > limits::VIEW_FRAME_BYTES);
        }
    }
}

#[test]
fn shortened_parts_are_converted() {
    let cases = [
        (None, pb::Shortening::Unspecified, 0),
        (Some(PartShortening::Pruned { original_length: 7 }), pb::Shortening::Pruned, 7),
        (Some(PartShortening::Truncated { omitted_length: 8 }), pb::Shortening::Truncated, 8),
    ];
    for (shortened, shortening, omitted_length) in cases {
        let written = part(ViewPart::new(None, PartBody::Text("t".into()), shortened));
        assert_eq!((written.shortening(), written.omitted_length), (shortening, omitted_length));
        assert_eq!(written.part.expect("a part").part_id, "");
    }
    let made = message(ViewMessage { source: None, kind: ViewKind::Paired, ..view_message(0, 1) });
    assert_eq!((made.message_id.as_str(), made.kind()), ("", pb::ViewMessageKind::MissingResult));
}

#[test]
fn a_request_has_an_overflow_action_and_a_wait() {
    let request = |overflow_action, wait| pb::GetViewRequest {
        overflow_action,
        wait_timeout: Some(prost_types::Duration { seconds: wait, nanos: 0 }),
        ..pb::GetViewRequest::default()
    };
    let actions = [OverflowAction::Return, OverflowAction::Return, OverflowAction::Wait, OverflowAction::Shorten];
    for (number, action) in (0..).zip(actions) {
        let read = read_request(request(number, 5)).expect("a request");
        assert_eq!((read.action, read.wait), (action, Some(Duration::from_secs(5))));
    }
    for (field, request) in [("overflow_action", request(4, 5)), ("wait_timeout", request(1, -5))] {
        let error = read_request(request).expect_err(field);
        assert_eq!((error.reason, error.metadata["field"].as_str()), (Reason::InvalidField, field));
    }
}
