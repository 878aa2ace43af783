//! Bodies of calls as bytes: what sends and repeats them is compiled once, and not for each type of a request.

use bytes::{Buf as _, BufMut as _, Bytes};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// The codec of messages that are encoded before they are sent, and decoded after they came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bodies;

impl Codec for Bodies {
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

impl Encoder for Bodies {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, body: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(body);
        Ok(())
    }
}

impl Decoder for Bodies {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// The message of a body.
pub(crate) fn decode<M: prost::Message + Default>(body: Bytes) -> Result<M, Status> {
    M::decode(body).map_err(|error| Status::internal(format!("the answer is no message of the protocol: {error}")))
}
