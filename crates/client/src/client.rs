//! A daemon, and its calls.

use crate::attempts::Attempts;
use crate::body;
use crate::connection;
use crate::error::{Error, Result};
use crate::repeat::{extra_time, identify, is_repeatable};
use crate::stream::Stream;
use crate::target::Target;
use bytes::Bytes;
use longhand_protocol as v1;
use longhand_protocol::call::{ClientStreaming, ServerStreaming, Unary};
use longhand_protocol::codec::BytesCodec;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::{Stream as Frames, StreamExt as _};
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Request, Streaming};

/// The version of this client.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Maximum size of an accepted answer, in bytes, which no frame and no page exceeds.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The time in which a call is tried again, and that of a call with all its attempts.
const TIME_DEFAULT: Duration = Duration::from_secs(30);

/// A daemon. What most programs need has a method of its own; [`Client::call`] takes every request with one answer.
///
/// Every change gets a `request_id` unless it has one, and is sent again with it while the daemon does not answer: it is
/// carried out once. Clones share the connection, which comes back by itself; the daemon goes on when the last one is gone.
#[derive(Clone)]
pub struct Client {
    channel: Channel,
    headers: Arc<MetadataMap>,
    target: Arc<Target>,
    retry: Option<Duration>,
    timeout: Option<Duration>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("target", &self.target).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to the daemon that the environment names ([`Target::from_environment`]), which must be of this version. It
    /// records the actor's name with every change.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] if none answers, [`Error::VersionMismatch`], or what the first call ends with.
    pub async fn connect(actor: &str) -> Result<Self> {
        let client = Self::connect_to(Target::from_environment()?, actor).await?;
        client.check_version().await?;
        Ok(client)
    }

    /// Connects to a daemon, and asks it nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] if none answers; [`Error::Invalid`] for a name that no header can carry.
    pub async fn connect_to(target: Target, actor: &str) -> Result<Self> {
        let headers = Arc::new(connection::headers(&target, actor)?);
        let channel = connection::open(&target).await?;
        let target = Arc::new(target);
        Ok(Self { channel, headers, target, retry: Some(TIME_DEFAULT), timeout: Some(TIME_DEFAULT) })
    }

    /// What the client is connected to.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The same client over the same connection, whose calls are tried again for this time while the daemon does not
    /// answer: 30 seconds unless it is changed; none for no end.
    #[must_use]
    pub fn with_retry(&self, retry: impl Into<Option<Duration>>) -> Self {
        Self { retry: retry.into(), ..self.clone() }
    }

    /// The same client over the same connection, whose calls end after this time with all their attempts, beside what a
    /// call asks the daemon to wait: 30 seconds unless it is changed; none for no end.
    #[must_use]
    pub fn with_timeout(&self, timeout: impl Into<Option<Duration>>) -> Self {
        Self { timeout: timeout.into(), ..self.clone() }
    }

    /// The same client over the same connection, whose changes are made on behalf of a run: they are refused with
    /// `RUN_LOST` once it is not the session's active one.
    #[must_use]
    pub fn for_run(&self, epoch: i64) -> Self {
        let mut headers = MetadataMap::clone(&self.headers);
        headers.insert(v1::RUN_EPOCH_HEADER, epoch.into());
        Self { headers: Arc::new(headers), ..self.clone() }
    }

    /// Checks that the daemon speaks this client's protocol: before 1.0, that of the same minor version.
    ///
    /// # Errors
    ///
    /// [`Error::VersionMismatch`], or what the call ends with.
    pub async fn check_version(&self) -> Result<()> {
        let daemon = self.call(v1::GetServerInfoRequest::default()).await?.version;
        if is_same_protocol(&daemon, VERSION) {
            return Ok(());
        }
        Err(Error::VersionMismatch { daemon, client: VERSION.to_owned() })
    }

    /// Makes a call: `client.call(v1::GetSessionRequest { session_id })`.
    ///
    /// A change gets a `request_id` unless it has one. The call is tried again while its failure is temporary.
    ///
    /// # Errors
    ///
    /// The last failure, or [`Error::Overdue`].
    pub async fn call<R: Unary>(&self, mut request: R) -> Result<R::Answer> {
        identify(&mut request);
        let is_repeatable = is_repeatable(&mut request);
        let attempts = self.attempts(extra_time(&request));
        let answer = self.repeat(R::PATH, request.encode_to_vec().into(), is_repeatable, attempts).await?;
        Ok(body::decode(answer)?)
    }

    /// The answers of one call, without another attempt. They have no end by time.
    ///
    /// # Errors
    ///
    /// What the call ends with.
    pub async fn stream<R: ServerStreaming>(&self, request: R) -> Result<Stream<R::Answer>> {
        Ok(Stream::new(self.stream_bodies(R::PATH, request.encode_to_vec().into()).await?))
    }

    /// A client that connects once it is used.
    #[cfg(test)]
    pub(crate) fn unconnected() -> Self {
        Self {
            channel: tonic::transport::Endpoint::from_static("http://localhost:1").connect_lazy(),
            headers: Arc::default(),
            target: Arc::new(Target::local(crate::address::Address::Unix("/nowhere".into()))),
            retry: Some(TIME_DEFAULT),
            timeout: None,
        }
    }

    /// The attempts of a call that begins now, and may take more time than others.
    pub(crate) fn attempts(&self, more: Duration) -> Attempts {
        Attempts::new(self.retry, self.timeout.and_then(|timeout| timeout.checked_add(more)))
    }

    /// The attempts of a stream that begins now, and has no end by time.
    pub(crate) fn stream_attempts(&self) -> Attempts {
        Attempts::new(self.retry, None)
    }

    /// One call that takes a stream of requests.
    pub(crate) async fn upload<R: ClientStreaming>(
        &self,
        frames: impl Frames<Item = R> + Send + 'static,
    ) -> Result<R::Answer> {
        let bodies = frames.map(|frame| Bytes::from(frame.encode_to_vec()));
        let path = PathAndQuery::from_static(R::PATH);
        let answer = self.ready().await?.client_streaming(self.request(bodies), path, BytesCodec).await?;
        Ok(body::decode(answer.into_inner())?)
    }

    async fn repeat(
        &self,
        path: &'static str,
        body: Bytes,
        is_repeatable: bool,
        mut attempts: Attempts,
    ) -> Result<Bytes> {
        loop {
            let attempt = self.unary(path, body.clone(), attempts.left());
            let failure = match attempts.within(attempt).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            tokio::time::sleep_until(attempts.next(failure, is_repeatable)?).await;
        }
    }

    async fn unary(&self, path: &'static str, body: Bytes, left: Option<Duration>) -> Result<Bytes> {
        let mut request = self.request(body);
        if let Some(left) = left {
            request.set_timeout(left);
        }
        Ok(self.ready().await?.unary(request, PathAndQuery::from_static(path), BytesCodec).await?.into_inner())
    }

    async fn stream_bodies(&self, path: &'static str, body: Bytes) -> Result<Streaming<Bytes>> {
        let path = PathAndQuery::from_static(path);
        Ok(self.ready().await?.server_streaming(self.request(body), path, BytesCodec).await?.into_inner())
    }

    /// The library's side of the connection, once it can take a call.
    async fn ready(&self) -> Result<Grpc<Channel>> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
        grpc.ready().await.map_err(|error| Error::from(tonic::Status::from_error(Box::new(error))))?;
        Ok(grpc)
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        *request.metadata_mut() = MetadataMap::clone(&self.headers);
        request
    }
}

fn is_same_protocol(one: &str, other: &str) -> bool {
    let (one, other): (Vec<&str>, Vec<&str>) = (one.split('.').collect(), other.split('.').collect());
    one.first() == other.first() && (one.first() != Some(&"0") || one.get(1) == other.get(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_the_first_version_the_minor_one_counts() {
        for (one, other, same) in
            [("0.1.0", "0.1.9", true), ("0.1.0", "0.2.0", false), ("1.2.0", "1.9.0", true), ("1.0.0", "2.0.0", false)]
        {
            assert_eq!(is_same_protocol(one, other), same, "{one} {other}");
        }
    }
}
