//! Answers of calls as HTTP: one JSON object, or the messages of a stream as they come.

use super::calls::{CallFailure, MessageStream};
use super::failure::Failure;
use super::json;
use crate::app;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderValue, header};
use prost_reflect::MessageDescriptor;
use serde_json::json;
use std::convert::Infallible;
use tonic::Status;

/// The media type of one JSON text.
pub(super) const JSON: &str = "application/json";
/// The media type of one JSON text a line.
pub(super) const LINES: &str = "application/x-ndjson";

/// How a stream of messages is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamForm {
    /// One array, whose elements come one by one.
    Array,
    /// One object a line.
    Lines,
}

impl StreamForm {
    /// The form that a client accepts: the array, unless it names lines.
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        if accepts(headers, LINES) { Self::Lines } else { Self::Array }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::Array => JSON,
            Self::Lines => LINES,
        }
    }
}

/// True if a request names a media type among those that it accepts.
pub(super) fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|value| value.split(','))
        .any(|range| range.split(';').next().is_some_and(|range| range.trim().eq_ignore_ascii_case(media_type)))
}

impl From<CallFailure> for Failure {
    fn from(failed: CallFailure) -> Self {
        match failed {
            CallFailure::Refused(error) => error.into(),
            CallFailure::Status(status) => status.into(),
        }
    }
}

/// The response to a call with one response.
///
/// # Errors
///
/// `INTERNAL` if the message is not one of its type.
pub(super) fn whole(output: &MessageDescriptor, message: Bytes) -> app::Result<Response> {
    Ok(response(Body::from(json::encode(output, message)?), JSON))
}

/// The messages of a stream, the first of which has come.
pub(super) struct StreamedMessages {
    pub(super) output: MessageDescriptor,
    pub(super) first: Option<Bytes>,
    pub(super) rest: MessageStream,
}

impl StreamedMessages {
    /// Waits for the first message, so that a call that fails at once has the status of its failure.
    ///
    /// # Errors
    ///
    /// The status that ends the stream before its first message.
    pub(super) async fn begin(output: MessageDescriptor, mut rest: MessageStream) -> Result<Self, Status> {
        let first = rest.next().await?;
        Ok(Self { output, first, rest })
    }

    /// The response, which takes a message from the service when the transport asks for more. A failure is the last
    /// element: an object with nothing but `error`.
    pub(super) fn into_response(self, form: StreamForm) -> Response {
        let begin = Some((self, true, form));
        let chunks = stream::unfold(begin, async |state| {
            let (mut messages, is_first, form) = state?;
            let next = match messages.first.take() {
                Some(message) => Ok(Some(message)),
                None if is_first => Ok(None),
                None => messages.rest.next().await,
            };
            let text = match next {
                Ok(Some(message)) => json::encode(&messages.output, message).map(Some).map_err(Failure::from),
                Ok(None) => Ok(None),
                Err(status) => Err(Failure::from(status)),
            };
            let (chunk, goes_on) = chunk(form, is_first, text);
            Some((Ok::<_, Infallible>(chunk), goes_on.then_some((messages, false, form))))
        });
        response(Body::from_stream(chunks), form.media_type())
    }
}

/// The next bytes of a stream, and if others follow.
fn chunk(form: StreamForm, is_first: bool, text: Result<Option<Vec<u8>>, Failure>) -> (Bytes, bool) {
    let (element, goes_on) = match text {
        Ok(Some(text)) => (Some(text), true),
        Ok(None) => (None, false),
        Err(failure) => (Some(json!({ "error": failure.body }).to_string().into_bytes()), false),
    };
    let mut chunk = Vec::with_capacity(element.as_ref().map_or(0, Vec::len) + 3);
    match form {
        StreamForm::Lines => {
            if let Some(element) = element {
                chunk.extend_from_slice(&element);
                chunk.push(b'\n');
            }
        }
        StreamForm::Array => {
            if is_first {
                chunk.push(b'[');
            } else if element.is_some() {
                chunk.extend_from_slice(b",\n");
            }
            chunk.extend(element.into_iter().flatten());
            if !goes_on {
                chunk.push(b']');
            }
        }
    }
    (chunk.into(), goes_on)
}

fn response(body: Body, media_type: &'static str) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::{Error, Reason};

    #[test]
    fn lines_are_for_those_who_name_them() {
        for (accept, form) in [
            ("application/x-ndjson", StreamForm::Lines),
            ("text/html, application/x-ndjson;q=0.9", StreamForm::Lines),
            ("application/json", StreamForm::Array),
            ("*/*", StreamForm::Array),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(StreamForm::from_headers(&headers), form, "{accept}");
        }
        assert_eq!(StreamForm::from_headers(&HeaderMap::new()), StreamForm::Array);
    }

    #[test]
    fn a_stream_is_one_json_text_however_it_ends() {
        let element = || Ok(Some(b"{}".to_vec()));
        let failure = || Err(Failure::from(Error::new(Reason::ShuttingDown, "stopping")));
        type Text = Result<Option<Vec<u8>>, Failure>;
        let written = |form, texts: Vec<Text>| {
            let chunks = texts.into_iter().enumerate().map(|(at, text)| chunk(form, at == 0, text).0);
            String::from_utf8(chunks.flatten().collect()).expect("UTF-8")
        };
        assert_eq!(written(StreamForm::Array, vec![Ok(None)]), "[]");
        assert_eq!(written(StreamForm::Array, vec![element(), element(), Ok(None)]), "[{},\n{}]");
        assert_eq!(written(StreamForm::Lines, vec![element(), element(), Ok(None)]), "{}\n{}\n");
        let cut: serde_json::Value =
            serde_json::from_str(&written(StreamForm::Array, vec![element(), failure()])).expect("JSON");
        assert_eq!(cut[1]["error"]["details"][0]["reason"], "SHUTTING_DOWN");
        let cut = written(StreamForm::Lines, vec![failure()]);
        assert!(cut.starts_with("{\"error\":{") && cut.ends_with('\n'), "{cut}");
    }
}
