//! Calls of the gRPC services in this process, with messages as bytes: whatever is between a client and a service over
//! gRPC (the caller, scopes, limits, statuses) is there for JSON too.

use crate::app::{Error, Reason};
use crate::limits;
use crate::pb::{self, codec::BytesCodec};
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{Extensions, HeaderMap, HeaderName, Request, Response, header};
use prost_reflect::prost::Message;
use std::convert::Infallible;
use tonic::client::Grpc;
use tonic::metadata::MetadataMap;
use tonic::{Status, Streaming};
use tower::Service;

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
    pub(super) async fn unary(self, routes: impl GrpcRoutes) -> Result<tonic::Response<Bytes>, CallFailure> {
        let (mut client, request, path) = self.prepare(routes)?;
        let Ok(()) = client.ready().await;
        Ok(client.unary(request, path, BytesCodec).await?)
    }

    /// Makes the call of an RPC with a stream of responses, which are read as they are asked for.
    ///
    /// # Errors
    ///
    /// As [`Self::unary`]; an error after the first response is in the stream.
    pub(super) async fn streaming(self, routes: impl GrpcRoutes) -> Result<MessageStream, CallFailure> {
        let (mut client, request, path) = self.prepare(routes)?;
        let Ok(()) = client.ready().await;
        let (_, messages, extensions) = client.server_streaming(request, path, BytesCodec).await?.into_parts();
        Ok(MessageStream { messages, extensions })
    }

    fn prepare<S: GrpcRoutes>(self, routes: S) -> Result<(Grpc<S>, tonic::Request<Bytes>, PathAndQuery), Error> {
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
        let client = Grpc::new(routes).max_decoding_message_size(limits::RESPONSE_BYTES_MAX);
        let request = tonic::Request::from_parts(MetadataMap::from_headers(passed), extensions, message);
        Ok((client, request, path))
    }
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
