//! The codec of the services. A request is decoded only once it is known what it grows to, that no list in it has more
//! elements than it may have, and that there is memory for all of it.

use super::measure::{self, REQUEST_VALUES_MAX, Shape, TooMany};
use bytes::{Buf as _, BufMut as _, Bytes};
use prost::Name;
use std::sync::OnceLock;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// Begin of the refusal of a list with too many elements; its field and their most follow.
const TOO_MANY_ELEMENTS: &str = "too many elements in ";
/// The refusal of a request with too many values.
const TOO_MANY_VALUES: &str = "the request has too many messages and elements of lists";
/// The refusal of a request that grows to more memory than there is now.
const NO_MEMORY: &str = "the memory for what the request grows to is taken by others";

/// What takes memory for the bytes that a request grows to.
static TAKE_MEMORY: OnceLock<fn(usize) -> bool> = OnceLock::new();

/// Has requests decoded from now on only if this takes memory for the bytes to which they grow. Later calls have no effect.
pub fn bound_memory(take: fn(usize) -> bool) {
    let _ = TAKE_MEMORY.set(take);
}

/// Why a request was not decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal<'a> {
    /// A list has more elements than it may have: its field, and their most.
    Elements(&'a str, usize),
    /// It has more values than any may have.
    Values(usize),
    /// There is no memory for it now.
    Memory,
}

impl<'a> Refusal<'a> {
    /// The refusal that a status has, by its message.
    pub fn from_message(message: &'a str) -> Option<Self> {
        if let Some((field, most)) = message.strip_prefix(TOO_MANY_ELEMENTS).and_then(|rest| rest.split_once(": ")) {
            return Some(Self::Elements(field, most.parse().ok()?));
        }
        match message {
            TOO_MANY_VALUES => Some(Self::Values(REQUEST_VALUES_MAX)),
            NO_MEMORY => Some(Self::Memory),
            _ => None,
        }
    }
}

impl From<TooMany> for Status {
    fn from(refused: TooMany) -> Self {
        Self::resource_exhausted(match refused {
            TooMany::Values => TOO_MANY_VALUES.to_owned(),
            TooMany::Elements(field, most) => format!("{TOO_MANY_ELEMENTS}{field}: {most}"),
        })
    }
}

/// The codec of prost, with those bounds.
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
        BoundedDecoder { decoder: self.0.decoder(), request: measure::request(&U::full_name()) }
    }
}

/// The decoder of prost, behind the measure.
pub struct BoundedDecoder<U> {
    decoder: ProstDecoder<U>,
    /// None for an answer.
    request: Option<&'static Shape>,
}

impl<U: prost::Message + Default> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        if let Some(request) = self.request {
            // The buffer of a message is one piece.
            let bytes = request.measure(bytes::Buf::chunk(buffer))?;
            if TAKE_MEMORY.get().is_some_and(|take| !take(bytes)) {
                return Err(Status::resource_exhausted(NO_MEMORY));
            }
        }
        self.decoder.decode(buffer)
    }
}

/// Messages as their bytes, for those who encode and decode them by themselves: what sends them is compiled once, and not
/// for each type of a request.
#[derive(Debug, Clone, Copy)]
pub struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate as pb;

    #[test]
    fn every_request_is_bounded_and_no_answer_is() {
        let codec = |mut codec: BoundedCodec<pb::AppendMessagesRequest, pb::AppendMessagesResponse>| codec.decoder();
        assert!(codec(BoundedCodec::default()).request.is_none());
        let mut codec = BoundedCodec::<pb::AppendMessagesResponse, pb::AppendMessagesRequest>::default();
        assert!(codec.decoder().request.is_some());
        let methods = crate::DESCRIPTORS.services().flat_map(|service| service.methods().collect::<Vec<_>>());
        let requests: Vec<String> = methods.map(|method| method.input().full_name().to_owned()).collect();
        assert!(requests.len() > 40 && requests.iter().all(|name| measure::request(name).is_some()));
    }

    #[test]
    fn a_refusal_is_found_in_its_status() {
        let elements = Status::from(TooMany::Elements("messages.parts".to_owned(), 256));
        assert_eq!(Refusal::from_message(elements.message()), Some(Refusal::Elements("messages.parts", 256)));
        let values = Status::from(TooMany::Values);
        assert_eq!(Refusal::from_message(values.message()), Some(Refusal::Values(REQUEST_VALUES_MAX)));
        assert_eq!(Refusal::from_message("something else"), None);
    }
}
