//! Calls of the gRPC services in this process, with messages as bytes: whatever is between a client and a service over
//! gRPC (the caller, scopes, limits, statuses) is there for JSON too.

use crate::app::{Error, Reason};
use crate::limits;
use crate::pb::{self, codec::BytesCodec};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::uri::PathAndQuery;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body_util::{BodyExt as _, Full};
use prost_reflect::prost::Message;
use std::convert::Infallible;
use tonic::client::Grpc;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status, Streaming};
use tower::{Service, ServiceExt as _};

/// A service of gRPC calls, such as tonic's routes.
pub trait GrpcRoutes:
    Service<
        Request<tonic::body::Body>,
        Response = Response<tonic::body::Body>,
        Error = Infallible,
        Future: Send + 'static,
    > + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> GrpcRoutes for S where
    S: Service<
            Request<tonic::body::Body>,
            Response = Response<tonic::body::Body>,
            Error = Infallible,
            Future: Send + 'static,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

/// Bytes that gRPC puts before each message: a flag for compression, and the length.
const PREFIX_BYTES: usize = 5;
/// The header with the caller's name for itself.
const ACTOR: HeaderName = HeaderName::from_static(pb::ACTOR_HEADER);
/// The header with the tenant in which an operator acts.
const TENANT: HeaderName = HeaderName::from_static(pb::TENANT_HEADER);
/// The header with the number of the run on whose behalf a call is made.
const RUN_EPOCH: HeaderName = HeaderName::from_static(pb::RUN_EPOCH_HEADER);
/// Headers of an HTTP request that a call has too. Others describe the body or the connection, which are not the call's.
const PASSED: [HeaderName; 4] = [header::AUTHORIZATION, ACTOR, TENANT, RUN_EPOCH];

/// Where a call comes from: the headers and the extensions of its HTTP request.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) headers: HeaderMap,
    pub(super) extensions: Extensions,
}

impl Origin {
    /// The call of an RPC with a request of the protocol.
    pub(super) fn call(&self, path: &'static str, request: &impl Message) -> Call {
        Call { path: PathAndQuery::from_static(path), origin: self.clone(), message: request.encode_to_vec().into() }
    }
}

/// A call: its path over gRPC, where it comes from, and the encoded request.
pub(super) struct Call {
    pub(super) path: PathAndQuery,
    pub(super) origin: Origin,
    pub(super) message: Bytes,
}

impl Call {
    /// Makes the call of an RPC with one response.
    ///
    /// # Errors
    ///
    /// The service's status, or the refusal of a request that is too large.
    pub(super) async fn unary(self, routes: impl GrpcRoutes) -> Result<Response<Bytes>, CallFailure> {
        let (headers, extensions, message, path) = self.prepare()?;
        let mut framed = BytesMut::with_capacity(PREFIX_BYTES + message.len());
        framed.put_u8(0);
        framed.put_u32(u32::try_from(message.len()).map_err(Error::internal)?);
        framed.put(message);
        let mut request =
            Request::new(tonic::body::Body::new(Full::new(framed.freeze()).map_err(|never| match never {})));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = path.into();
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = headers;
        request.headers_mut().insert(header::TE, HeaderValue::from_static("trailers"));
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        *request.extensions_mut() = extensions;
        let Ok(answer) = routes.oneshot(request).await;
        let (head, body) = answer.into_parts();
        let message = read_answer((head.status, &head.headers), body).await?;
        Ok(Response::from_parts(head, message))
    }

    /// Makes the call of an RPC with a stream of responses, which are read as they are asked for.
    ///
    /// # Errors
    ///
    /// As [`Self::unary`]; an error after the first response is in the stream.
    pub(super) async fn streaming(self, routes: impl GrpcRoutes) -> Result<MessageStream, CallFailure> {
        let (headers, extensions, message, path) = self.prepare()?;
        let mut client = Grpc::new(routes).max_decoding_message_size(limits::RESPONSE_BYTES_MAX);
        let request = tonic::Request::from_parts(MetadataMap::from_headers(headers), extensions, message);
        let Ok(()) = client.ready().await;
        let (_, messages, extensions) = client.server_streaming(request, path, BytesCodec).await?.into_parts();
        Ok(MessageStream { messages, extensions })
    }

    fn prepare(self) -> Result<(HeaderMap, Extensions, Bytes, PathAndQuery), Error> {
        let Self { path, origin: Origin { headers, extensions }, message } = self;
        let limit = limits::REQUEST_BYTES_MAX;
        if message.len() > limit {
            let why = format!("the request has {} bytes, more than {limit}", message.len());
            return Err(Error::new(Reason::RequestTooLarge, why).with("limit", limit));
        }
        let mut passed = HeaderMap::new();
        for name in PASSED {
            passed.extend(headers.get_all(&name).iter().map(|value| (name.clone(), value.clone())));
        }
        Ok((passed, extensions, message, path))
    }
}

/// The code of an answer without one, which something before another daemon gave: as gRPC maps the statuses of HTTP.
fn code_of(http: StatusCode) -> Code {
    match http {
        StatusCode::BAD_REQUEST => Code::Internal,
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::NOT_FOUND => Code::Unimplemented,
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Code::Unavailable,
        _ => Code::Unknown,
    }
}

/// The one message of an answer, without what gRPC puts before it.
///
/// # Errors
///
/// The status of a call that failed.
async fn read_answer((http, headers): (StatusCode, &HeaderMap), body: tonic::body::Body) -> Result<Bytes, Status> {
    if let Some(status) = Status::from_header_map(headers)
        && status.code() != Code::Ok
    {
        return Err(status);
    }
    let answer = body.collect().await?;
    match answer.trailers().and_then(Status::from_header_map) {
        Some(status) if status.code() == Code::Ok => {}
        Some(status) => return Err(status),
        None => return Err(Status::new(code_of(http), format!("the answer has no status of gRPC, and is {http}"))),
    }
    let mut message = answer.to_bytes();
    let is_whole = message.first_chunk().is_some_and(|[flag, length @ ..]: &[u8; PREFIX_BYTES]| {
        *flag == 0
            && usize::try_from(u32::from_be_bytes(*length)).is_ok_and(|length| length == message.len() - PREFIX_BYTES)
    });
    if !is_whole {
        return Err(Status::internal("the answer is not one message"));
    }
    message.advance(PREFIX_BYTES);
    Ok(message)
}

/// The messages of a stream, and the extensions of its response: what the service holds for the messages is held until
/// they are taken.
pub(super) struct MessageStream {
    messages: Streaming<Bytes>,
    extensions: Extensions,
}

impl MessageStream {
    /// The next message; none at the end.
    ///
    /// # Errors
    ///
    /// The status that ends the stream.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        self.messages.message().await
    }

    /// The extensions of the response.
    pub(super) fn extensions(&self) -> &Extensions {
        &self.extensions
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallFailure {
    /// No service was asked.
    #[error(transparent)]
    Refused(#[from] Error),
    /// The service's status.
    #[error(transparent)]
    Status(#[from] Status),
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    /// An answer with this status of HTTP, a body, and trailers with this status of gRPC.
    #[derive(Debug, Clone, Copy)]
    struct Answer(u16, &'static [u8], Option<&'static str>);

    impl Answer {
        fn response(self) -> Response<tonic::body::Body> {
            let Self(http, body, status) = self;
            let trailers = status.map(|status| HeaderMap::from_iter([(STATUS, HeaderValue::from_static(status))]));
            let frames = [Some(Frame::data(Bytes::from_static(body))), trailers.map(Frame::trailers)];
            let frames = frames.into_iter().flatten().map(Ok::<_, Status>);
            let body = tonic::body::Body::new(StreamBody::new(futures::stream::iter(frames)));
            Response::builder().status(http).body(body).expect("an answer")
        }
    }

    const STATUS: HeaderName = HeaderName::from_static("grpc-status");

    #[tokio::test]
    async fn an_answer_is_read_as_the_library_reads_it() {
        const MESSAGE: &[u8] = b"\0\0\0\0\x02ab";
        let proxies = [400, 401, 403, 404, 429, 500, 502, 503, 504].map(|http| Answer(http, b"", None));
        let own = [
            Answer(200, MESSAGE, Some("0")),
            Answer(200, b"\0\0\0\0\0", Some("0")),
            Answer(200, MESSAGE, Some("9")),
            Answer(200, b"", Some("5")),
            Answer(200, &MESSAGE[..6], Some("0")),
        ];
        let path = PathAndQuery::from_static("/a.B/C");
        for answer in proxies.into_iter().chain(own) {
            let routes = tower::service_fn(move |_| std::future::ready(Ok::<_, Infallible>(answer.response())));
            let mut client = Grpc::new(routes);
            let Ok(()) = client.ready().await;
            let of_library = client.unary(tonic::Request::new(Bytes::new()), path.clone(), BytesCodec).await;
            let of_library = of_library.map(tonic::Response::into_inner).map_err(|status| status.code());
            let origin = Origin { headers: HeaderMap::new(), extensions: Extensions::new() };
            let found = Call { path: path.clone(), origin, message: Bytes::new() }.unary(routes).await;
            let found = found.map(Response::into_body).map_err(|failure| match failure {
                CallFailure::Status(status) => status.code(),
                CallFailure::Refused(error) => panic!("{answer:?}: {error}"),
            });
            assert_eq!(found, of_library, "{answer:?}");
        }
    }
}
