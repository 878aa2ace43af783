//! The text of Server-Sent Events. An event may be written in pieces, which no library's type for one does.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::{HeaderName, HeaderValue, header};
use std::convert::Infallible;

/// The media type of an event stream.
pub(in crate::http) const MEDIA_TYPE: &str = "text/event-stream";

/// Has proxies pass on what they have.
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A whole event. The data is JSON on one line; without an id, a client keeps the last one.
pub(super) fn event(name: &str, id: Option<&str>, data: &str) -> Bytes {
    let mut text = begin(name);
    text.push_str(data);
    text.push_str(&end(id));
    text.into()
}

/// The beginning of an event, up to its data. The space that may follow the colon means nothing, and the conformance
/// tests of Durable Streams do not expect it.
pub(super) fn begin(name: &str) -> String {
    format!("event: {name}\ndata:")
}

/// The end of an event, after its data. Without it, a client drops what it has of the event.
pub(super) fn end(id: Option<&str>) -> String {
    id.map_or_else(|| "\n\n".to_owned(), |id| format!("\nid: {id}\n\n"))
}

/// The response with a stream of events.
pub(super) fn response(events: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let mut response = Response::new(Body::from_stream(events.map(Ok::<_, Infallible>)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
    response
}
