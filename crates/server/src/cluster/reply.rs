//! Answers that this daemon makes of those of several shards.

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{Stream, StreamExt as _};
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::StreamBody;
use prost::Message;
use tonic::Status;
use tonic::body::Body;
use tonic_types::StatusExt as _;

/// The fact of an error that says where a stream can go on.
const CURSOR: &str = "cursor";

/// An answer of one message.
pub(super) fn unary<M: Message + 'static>(message: M) -> Response<Body> {
    stream(futures::stream::iter([Ok(message)]))
}

/// An answer of the messages of a stream, which ends with the first error.
pub(super) fn stream<M: Message + 'static>(
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

/// The error of one shard as the end of a merged stream: the position in it, if it has one, becomes that of all.
pub(super) fn ended_at(status: Status, cursor: Option<String>) -> Status {
    let mut details = status.get_error_details();
    let Some(mut info) = details.error_info().cloned() else { return status };
    if info.metadata.remove(CURSOR).is_none() {
        return status;
    }
    info.metadata.extend(cursor.map(|cursor| (CURSOR.to_owned(), cursor)));
    details.set_error_info(info.reason, info.domain, info.metadata);
    Status::with_error_details(status.code(), status.message(), details)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::{Error, Reason};

    #[test]
    fn the_end_of_a_stream_of_several_shards_says_where_all_go_on() {
        let of_shard = || Status::from(Error::new(Reason::ShuttingDown, "too slow").with("cursor", "a"));
        let cursor =
            |status: Status| status.get_details_error_info().and_then(|info| info.metadata.get(CURSOR).cloned());
        let ended = ended_at(of_shard(), Some("all".to_owned()));
        assert_eq!((ended.code(), ended.message()), (of_shard().code(), of_shard().message()));
        assert_eq!(ended.get_details_error_info().expect("a reason").reason, Reason::ShuttingDown.as_str());
        assert_eq!(cursor(ended).as_deref(), Some("all"));
        assert_eq!(cursor(ended_at(of_shard(), None)), None);
        let without = Status::from(Error::new(Reason::SessionNotFound, "no"));
        assert_eq!(cursor(ended_at(without, Some("all".to_owned()))), None);
        assert_eq!(ended_at(Status::internal("no reason"), None).message(), "no reason");
    }
}
