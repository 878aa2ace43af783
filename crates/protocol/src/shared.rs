//! The frames of a stream of events as the server sends them: each event in its encoded bytes, which are made once for
//! all streams. On the wire they are `SubscribeEventsResponse`.

use crate::{DraftDelta, PresenceChanged, Progress, Ready, SnapshotEnd, SnapshotItem, SummaryDelta};
use bytes::Bytes;

/// `SubscribeEventsResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct EventFrame {
    /// The frame.
    #[prost(oneof = "Frame", tags = "1, 2, 3, 4, 5, 6, 7, 8")]
    pub frame: Option<Frame>,
}

/// `SubscribeEventsResponse.frame`.
#[derive(Clone, PartialEq, prost::Oneof)]
#[expect(missing_docs, reason = "the fields of the protocol")]
pub enum Frame {
    #[prost(message, tag = "1")]
    Ready(Ready),
    #[prost(message, tag = "2")]
    Events(EventBatch),
    #[prost(message, tag = "3")]
    Progress(Progress),
    #[prost(message, boxed, tag = "4")]
    SnapshotItem(Box<SnapshotItem>),
    #[prost(message, tag = "5")]
    SnapshotEnd(SnapshotEnd),
    #[prost(message, tag = "6")]
    DraftDelta(DraftDelta),
    #[prost(message, tag = "7")]
    SummaryDelta(SummaryDelta),
    #[prost(message, tag = "8")]
    PresenceChanged(PresenceChanged),
}

/// `EventBatch`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct EventBatch {
    /// The events, encoded: a field of bytes is written like one of a message.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub events: Vec<Bytes>,
    /// Position after the last of them.
    #[prost(string, tag = "2")]
    pub cursor: String,
    /// True if the mutation of the last event continues in the next frame with events.
    #[prost(bool, tag = "3")]
    pub more: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscribe_events_response::Frame as Proto;
    use crate::{Event, SubscribeEventsResponse, snapshot_item};
    use prost::Message as _;

    #[test]
    fn a_frame_is_the_one_of_the_protocol() {
        let event = |seq| Event { seq, cursor: "c".to_owned(), ..Event::default() };
        let item =
            snapshot_item::Item::Message(crate::ViewMessage { message_id: "m".to_owned(), ..Default::default() });
        let batch = crate::EventBatch { events: vec![event(1), event(2)], cursor: "c2".to_owned(), more: true };
        let frames = [
            Proto::Ready(Ready { cursor: "c".to_owned(), head_seq: 7 }),
            Proto::Events(batch.clone()),
            Proto::Events(crate::EventBatch::default()),
            Proto::Progress(Progress { cursor: "c".to_owned(), seq: 7 }),
            Proto::SnapshotItem(SnapshotItem { item: Some(item) }),
            Proto::SnapshotEnd(SnapshotEnd { cursor: "c".to_owned() }),
            Proto::DraftDelta(DraftDelta { delta: "words".to_owned(), ..DraftDelta::default() }),
            Proto::SummaryDelta(SummaryDelta { delta: "words".to_owned(), ..SummaryDelta::default() }),
            Proto::PresenceChanged(PresenceChanged { session_id: "s".to_owned(), presences: Vec::new() }),
        ];
        let descriptor = crate::DESCRIPTORS.get_message_by_name("longhand.v1.SubscribeEventsResponse");
        let fields = descriptor.expect("the message").fields().count();
        let mut kinds = std::collections::HashSet::new();
        for frame in frames {
            let encoded = SubscribeEventsResponse { frame: Some(frame) }.encode_to_vec();
            let shared = EventFrame::decode(&*encoded).expect("a frame");
            assert_eq!(shared.encode_to_vec(), encoded);
            kinds.insert(std::mem::discriminant(shared.frame.as_ref().expect("its frame")));
        }
        assert_eq!(kinds.len(), fields, "every frame of the protocol");
        let events = batch.events.iter().map(|event| event.encode_to_vec().into()).collect();
        let shared = EventBatch { events, cursor: batch.cursor.clone(), more: true };
        assert_eq!(shared.encode_to_vec(), batch.encode_to_vec());
    }
}
