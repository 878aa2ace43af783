//! The codec of the services. A request is decoded only if it has no more values than any may have: a message in memory
//! takes hundreds of times the two bytes that it can have on the wire.

use crate::limits;
use prost::Name;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost_reflect::{DescriptorPool, Kind, MessageDescriptor};
use std::collections::HashMap;
use std::sync::LazyLock;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// What the refusal of such a request says.
pub const TOO_MANY_VALUES: &str = "the request has too many messages and elements of lists";

/// Messages inside of others up to which the library decodes.
const DEPTH_MAX: u32 = 100;

/// The protocol.
pub static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(super::DESCRIPTORS).expect("the build wrote these descriptors"));

/// The requests of all methods by their names. Answers are not among them: their writer bounds them.
static REQUESTS: LazyLock<HashMap<String, MessageDescriptor>> = LazyLock::new(|| {
    let methods = POOL.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    methods.map(|method| (method.input().full_name().to_owned(), method.input())).collect()
});

/// The codec of prost, with that bound.
pub struct BoundedCodec<T, U>(ProstCodec<T, U>);

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(ProstCodec::default())
    }
}

impl<T, U> Codec for BoundedCodec<T, U>
where
    T: prost::Message + Send + 'static,
    U: prost::Message + Name + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        self.0.encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder { decoder: self.0.decoder(), request: REQUESTS.get(&U::full_name()) }
    }
}

/// The decoder of prost, behind the count.
pub struct BoundedDecoder<U> {
    decoder: ProstDecoder<U>,
    /// None for an answer.
    request: Option<&'static MessageDescriptor>,
}

impl<U: prost::Message + Default> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // The buffer of a message is one piece.
        if let Some(request) = self.request
            && has_more_than(limits::REQUEST_VALUES_MAX, request, bytes::Buf::chunk(buffer))
        {
            return Err(Status::resource_exhausted(TOO_MANY_VALUES));
        }
        self.decoder.decode(buffer)
    }
}

/// True if an encoded message has more messages and texts of lists inside than this. What is malformed is left to the
/// decoder, which reads up to the first error as this does.
fn has_more_than(limit: usize, message: &MessageDescriptor, bytes: &[u8]) -> bool {
    let mut left = limit;
    count(message, bytes, DEPTH_MAX, &mut left).is_none()
}

/// Counts down; none below zero.
fn count(message: &MessageDescriptor, mut bytes: &[u8], depth: u32, left: &mut usize) -> Option<()> {
    while !bytes.is_empty() {
        let Ok((number, wire_type)) = decode_key(&mut bytes) else { return Some(()) };
        if wire_type != WireType::LengthDelimited {
            if skip_field(wire_type, number, &mut bytes, DecodeContext::default()).is_err() {
                return Some(());
            }
            continue;
        }
        let length = decode_varint(&mut bytes).ok().and_then(|length| usize::try_from(length).ok());
        let Some((value, rest)) = length.and_then(|length| bytes.split_at_checked(length)) else { return Some(()) };
        bytes = rest;
        let Some(field) = message.get_field(number) else { continue };
        match field.kind() {
            // Times are kept in place, and JSON has them as texts.
            Kind::Message(inner) if inner.package_name() == "google.protobuf" => {}
            Kind::Message(inner) => {
                *left = left.checked_sub(1)?;
                if let Some(depth) = depth.checked_sub(1) {
                    count(&inner, value, depth, left)?;
                }
            }
            Kind::String | Kind::Bytes if field.is_list() => *left = left.checked_sub(1)?,
            _ => {}
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pb;
    use prost::Message as _;

    fn refuses<M: prost::Message + Name>(limit: usize, message: &M) -> bool {
        has_more_than(limit, &REQUESTS[&M::full_name()], &message.encode_to_vec())
    }

    fn part(text: &str) -> pb::Part {
        let body = pb::part::Body::Text(pb::TextPart { text: text.to_owned() });
        pb::Part { body: Some(body), ..pb::Part::default() }
    }

    #[test]
    fn messages_and_texts_of_lists_are_counted_at_every_depth() {
        let origin_time = Some(prost_types::Timestamp { seconds: 7, nanos: 7 });
        let message = pb::NewMessage { parts: vec![part("\u{2}\u{0}"); 3], origin_time, ..pb::NewMessage::default() };
        let append = pb::AppendMessagesRequest { messages: vec![message; 2], ..pb::AppendMessagesRequest::default() };
        assert!(!refuses(14, &append) && refuses(13, &append));
        let ids = vec![String::new(); 5];
        let subscribe = pb::SubscribeEventsRequest {
            session_ids: ids,
            kinds: vec![1; 50],
            ..pb::SubscribeEventsRequest::default()
        };
        assert!(!refuses(5, &subscribe) && refuses(4, &subscribe));
        // Fields that nobody knows do not hide what follows them.
        let group = [0xfb, 0x07, 0x08, 0x01, 0xfc, 0x07];
        let unknown = [&group[..], &[0xfa, 0x07, 2, 0, 0], &append.encode_to_vec()].concat();
        let request = &REQUESTS["longhand.v1.AppendMessagesRequest"];
        assert!(!has_more_than(14, request, &unknown) && has_more_than(13, request, &unknown));
        assert!(!has_more_than(0, request, &[0x12, 0x7f]), "the decoder says what is wrong");
    }

    #[test]
    fn every_request_is_bounded_and_no_answer_is() {
        let codec = |mut codec: BoundedCodec<pb::AppendMessagesRequest, pb::AppendMessagesResponse>| codec.decoder();
        assert!(codec(BoundedCodec::default()).request.is_none());
        let mut codec = BoundedCodec::<pb::AppendMessagesResponse, pb::AppendMessagesRequest>::default();
        assert!(codec.decoder().request.is_some());
        assert!(REQUESTS.len() > 40 && REQUESTS.keys().all(|name| name.ends_with("Request")));
    }
}
