//! Answers that this daemon makes of those of several shards.

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{Stream, StreamExt as _};
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::StreamBody;
use prost::Message;
use tonic::Status;
use tonic::body::Body;

/// An answer of one message.
pub(super) fn one<M: Message + 'static>(message: M) -> Response<Body> {
    many(futures::stream::iter([Ok(message)]))
}

/// An answer of the messages of a stream, which ends with the first error.
pub(super) fn many<M: Message + 'static>(
    messages: impl Stream<Item = Result<M, Status>> + Send + 'static,
) -> Response<Body> {
    let mut is_over = false;
    let frames = messages.map(Some).chain(futures::stream::iter([None])).filter_map(move |next| {
        let frame = match next {
            _ if is_over => None,
            Some(Ok(message)) => Some(Ok(Frame::data(framed(&message)))),
            Some(Err(status)) => Some(end(&status)),
            None => Some(end(&Status::new(tonic::Code::Ok, ""))),
        };
        is_over |= frame.as_ref().is_none_or(|frame| frame.as_ref().map_or(true, Frame::is_trailers));
        futures::future::ready(frame)
    });
    let mut response = Response::new(Body::new(StreamBody::new(frames)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(5 + length);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    bytes.extend_from_slice(&message.encode_to_vec());
    bytes.freeze()
}

fn end(status: &Status) -> Result<Frame<Bytes>, Status> {
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers)?;
    Ok(Frame::trailers(trailers))
}
