//! The first message of a call, read before it is known who answers.

use crate::limits;
use bytes::{Buf as _, Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use prost::Message;
use std::io::Read as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;

/// Bytes before a message: whether it is compressed, and its length.
const HEAD_BYTES: usize = 5;

/// A request, read up to its first message: that one names the session, and the session the shard.
pub(super) struct OpenedRequest {
    /// All that was read, as it came.
    read: Bytes,
    /// What follows it, until an attempt takes it.
    rest: Option<Body>,
    is_whole: bool,
    /// The first message, decompressed; none if it is missing or too large.
    message: Option<Bytes>,
}

impl OpenedRequest {
    /// Reads the first message, and all that follows it unless the call `streams`.
    pub(super) async fn read(mut body: Body, streams: bool) -> Result<Self, Status> {
        let mut read = BytesMut::new();
        let mut is_over = false;
        while !is_over {
            match state(&read) {
                // The service refuses it, and need not have all of it.
                FirstMessage::TooLarge => break,
                FirstMessage::Complete if streams => break,
                FirstMessage::Complete | FirstMessage::Begun => {}
            }
            match body.frame().await {
                Some(frame) => {
                    if let Ok(mut data) = frame?.into_data() {
                        read.extend_from_slice(&data.copy_to_bytes(data.remaining()));
                    }
                }
                None => is_over = true,
            }
        }
        let read = read.freeze();
        Ok(Self { message: first(&read), read, rest: (!is_over).then_some(body), is_whole: is_over })
    }

    /// The first message, as far as a type knows its fields; the type's default if it cannot be read: the service says why.
    pub(super) fn as_message<M: Message + Default>(&self) -> M {
        self.message.clone().and_then(|message| M::decode(message).ok()).unwrap_or_default()
    }

    /// The body for an attempt at an answer. What follows the first message is there for one attempt alone.
    pub(super) fn body(&mut self) -> Body {
        Body::new(ContinuedBody { begin: Some(self.read.clone()), rest: self.rest.take().unwrap_or_default() })
    }

    /// True if an attempt can be repeated.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }
}

/// How much of the first message is there.
enum FirstMessage {
    Begun,
    Complete,
    TooLarge,
}

fn state(read: &[u8]) -> FirstMessage {
    match length(read) {
        Some(length) if length > limits::REQUEST_BYTES_MAX => FirstMessage::TooLarge,
        Some(length) if read.len() >= HEAD_BYTES + length => FirstMessage::Complete,
        _ => FirstMessage::Begun,
    }
}

fn length(read: &[u8]) -> Option<usize> {
    let bytes = read.get(1..HEAD_BYTES)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?) as usize)
}

fn first(read: &Bytes) -> Option<Bytes> {
    let length = length(read)?;
    let message = (read.len() >= HEAD_BYTES + length).then(|| read.slice(HEAD_BYTES..HEAD_BYTES + length))?;
    if read[0] == 0 {
        return Some(message);
    }
    let mut plain = Vec::new();
    let limit = u64::try_from(limits::REQUEST_BYTES_MAX).unwrap_or(u64::MAX);
    flate2::read::GzDecoder::new(&*message).take(limit).read_to_end(&mut plain).ok()?;
    Some(plain.into())
}

/// A body of which the begin was read.
struct ContinuedBody {
    begin: Option<Bytes>,
    rest: Body,
}

impl http_body::Body for ContinuedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.begin.take().filter(|begin| !begin.is_empty()) {
            Some(begin) => Poll::Ready(Some(Ok(Frame::data(begin)))),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.begin.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{Full, StreamBody};
    use std::io::Write as _;

    #[derive(Clone, PartialEq, prost::Message)]
    struct TestMessage {
        #[prost(string, tag = "1")]
        name: String,
    }

    fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
        let mut bytes = vec![flag];
        bytes.extend_from_slice(&u32::try_from(message.len()).expect("a length").to_be_bytes());
        bytes.extend_from_slice(message);
        bytes
    }

    #[tokio::test]
    async fn the_first_message_is_read_and_all_is_passed_on() {
        let message = TestMessage { name: "ses_1".to_owned() }.encode_to_vec();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&message).expect("written");
        let packed = framed(1, &packed.finish().expect("packed"));
        let twice = [framed(0, &message), framed(0, b"\x0a\x01x")].concat();
        for (bytes, expected) in [
            (framed(0, &message), "ses_1"),
            (packed, "ses_1"),
            (twice, "ses_1"),
            (framed(0, b"\xff\xff"), ""),
            (framed(1, b"no gzip"), ""),
            (vec![0, 0], ""),
            (vec![], ""),
        ] {
            for size in [1, 3, 1_000] {
                let pieces: Vec<_> = bytes
                    .chunks(size)
                    .map(|piece| Ok::<_, Status>(Frame::data(Bytes::copy_from_slice(piece))))
                    .collect();
                let body = Body::new(StreamBody::new(futures::stream::iter(pieces)));
                let mut opened = OpenedRequest::read(body, false).await.expect("read");
                assert_eq!(opened.as_message::<TestMessage>().name, expected);
                assert!(opened.is_whole());
                for _ in 0..2 {
                    assert_eq!(opened.body().collect().await.expect("read").to_bytes(), bytes);
                }
            }
        }
        let mut streamed =
            OpenedRequest::read(Body::new(Full::new(Bytes::from(framed(0, &message)))), true).await.expect("read");
        assert!(streamed.as_message::<TestMessage>().name == "ses_1" && !streamed.is_whole());
        assert_eq!(streamed.body().collect().await.expect("read").to_bytes(), framed(0, &message));
        assert!(!streamed.is_whole(), "what an attempt had is gone");
        let endless = [&[0, 0xff, 0xff, 0xff, 0xff][..], &[0; 100]].concat();
        let opened = OpenedRequest::read(Body::new(Full::new(Bytes::from(endless))), false).await.expect("read");
        assert!(opened.message.is_none());
    }
}
