//! Protobuf JSON mapping of protocol messages.

use crate::pb;
use anyhow::{Context, anyhow};
use prost::{Message, Name};
use prost_reflect::{DynamicMessage, MessageDescriptor};

fn descriptor<M: Name>() -> anyhow::Result<MessageDescriptor> {
    let name = M::full_name();
    pb::DESCRIPTORS.get_message_by_name(&name).ok_or_else(|| anyhow!("the compiled protos do not have {name}"))
}

/// JSON text of a message, on one line.
pub(super) fn encode<M: Message + Name>(message: &M) -> anyhow::Result<String> {
    let dynamic = DynamicMessage::decode(descriptor::<M>()?, message.encode_to_vec().as_slice())?;
    Ok(serde_json::to_string(&dynamic)?)
}

/// Parses a message from a JSON text.
pub(super) fn decode<M: Message + Name + Default>(text: &str) -> anyhow::Result<M> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let dynamic = DynamicMessage::deserialize(descriptor::<M>()?, &mut deserializer)?;
    deserializer.end().context("more than one JSON value")?;
    Ok(dynamic.transcode_to::<M>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_follow_the_protobuf_mapping() {
        let event = pb::Event {
            seq: 9_007_199_254_740_993,
            session_id: "ses_1".into(),
            kind: pb::EventKind::Compacted.into(),
            event_time: Some(prost_types::Timestamp { seconds: 1_700_000_000, nanos: 500_000_000 }),
            hash: vec![0, 255],
            ..pb::Event::default()
        };
        assert_eq!(
            encode(&event).expect("JSON"),
            "{\"seq\":\"9007199254740993\",\"sessionId\":\"ses_1\",\"kind\":\"EVENT_KIND_COMPACTED\",\
             \"eventTime\":\"2023-11-14T22:13:20.500Z\",\"hash\":\"AP8=\"}"
        );
    }

    #[test]
    fn a_head_survives_the_way_out_and_in() {
        let head = pb::Head { session_id: "ses_1".into(), revision: 12, hash: vec![1, 2, 3] };
        let text = encode(&head).expect("JSON");
        assert_eq!(decode::<pb::Head>(&text).expect("a head"), head);
        for wrong in ["{\"sessionId\": 1}", "{\"session\": \"x\"}", "[]", "{} {}", ""] {
            assert!(decode::<pb::Head>(wrong).is_err(), "{wrong} was taken");
        }
    }
}
