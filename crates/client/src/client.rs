//! A daemon, and its calls.

use crate::attempts::Attempts;
use crate::connection;
use crate::error::{Error, Result};
use crate::events::Events;
use crate::follow::{Follow, Resume};
use crate::pages::Pages;
use crate::repeat::{extra_time, identify, is_repeatable};
use crate::session::Session;
use crate::stream::Stream;
use crate::target::Target;
use crate::view::View;
use longhand_protocol as v1;
use longhand_protocol::call::{Call, ClientStreaming, Paged, ServerStreaming, Unary};
use longhand_protocol::codec::BoundedCodec;
use longhand_protocol::reason::Reason;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::Stream as Frames;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;

/// The version of this client.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Maximum size of an accepted answer, in bytes, which no frame and no page exceeds.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The time in which a call is tried again, and that of a call with all its attempts.
const TIME_DEFAULT: Duration = Duration::from_secs(30);
/// Requests that find an erased session, or lose against another client, before one gives up.
const OPENINGS_MAX: usize = 8;

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
        let mut attempts = self.attempts(extra_time(&request));
        loop {
            let attempt = self.unary(request.clone(), attempts.left());
            let failure = match attempts.within(attempt).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            tokio::time::sleep_until(attempts.next(failure, is_repeatable)?).await;
        }
    }

    /// The pages of a list, each by a call. Nothing is asked of the daemon before the first page is.
    pub fn pages<R: Paged>(&self, request: R) -> Pages<R> {
        Pages::new(self.clone(), request)
    }

    /// The answers of one call, without another attempt. They have no end by time.
    ///
    /// # Errors
    ///
    /// What the call ends with.
    pub async fn stream<R: ServerStreaming>(&self, request: R) -> Result<Stream<R::Answer>> {
        let codec = BoundedCodec::<R, R::Answer>::default();
        let answers = self.ready().await?.server_streaming(self.request(request), path::<R>(), codec).await?;
        Ok(Stream::new(answers.into_inner()))
    }

    /// A stream that goes on where it was when it is lost, for as long as calls are tried again without an answer. Nothing
    /// is asked of the daemon before the first answer is.
    pub fn follow<R: Resume>(&self, request: R) -> Follow<R> {
        Follow::new(self.clone(), request, Attempts::new(self.retry, None))
    }

    /// Events one by one, as [`Client::follow`] follows their frames: every matching event after the start, in order, none
    /// missed and none twice, also across a restart of the daemon.
    pub fn events(&self, request: v1::SubscribeEventsRequest) -> Events {
        Events::new(self.follow(request))
    }

    /// A whole view.
    ///
    /// # Errors
    ///
    /// What the call ends with.
    pub async fn view(&self, request: v1::GetContextRequest) -> Result<View> {
        self.refresh_view(request, &View::default()).await
    }

    /// The view that follows the held one, of which only what changed is sent. A view of a revision, or one that was
    /// shortened for a call, is not to be held.
    ///
    /// # Errors
    ///
    /// What the call ends with.
    pub async fn refresh_view(&self, mut request: v1::GetContextRequest, held: &View) -> Result<View> {
        held.make_known(&mut request);
        let mut attempts = self.attempts(extra_time(&request));
        loop {
            let read = async { View::read(self.stream(request.clone()).await?).await };
            let failure = match attempts.within(read).await {
                Ok(view) => return view.after(held),
                Err(failure) => failure,
            };
            tokio::time::sleep_until(attempts.next(failure, true)?).await;
        }
    }

    /// A session by its id or client id. Nothing is asked of the daemon before its first use.
    pub fn session(&self, session_id: impl Into<String>) -> Session {
        Session::new(self.clone(), session_id.into())
    }

    /// Creates a session, or finds the one that the same request with this client id made. Without a client id the session
    /// gets one by chance, so that a request whose answer was lost creates no second session.
    ///
    /// # Errors
    ///
    /// What the call ends with.
    pub async fn create_session(&self, mut new: v1::CreateSessionRequest) -> Result<Session> {
        new.client_id.get_or_insert_with(|| format!("rust-{}", random_id()));
        let session = self.call(new).await?.session.unwrap_or_default();
        Ok(self.session(session.session_id))
    }

    /// The session with this client id, whoever made it, however it has changed, and also if one before was erased.
    /// Everything but the client id is for the case that it must be made.
    ///
    /// # Errors
    ///
    /// What a call ends with.
    pub async fn open_session(&self, client_id: &str, new: v1::CreateSessionRequest) -> Result<Session> {
        let mut openings = 0;
        loop {
            openings += 1;
            let found = self.call(v1::GetSessionRequest { session_id: client_id.to_owned() }).await;
            match found {
                Ok(v1::GetSessionResponse { session: Some(session), .. })
                    if session.state() != v1::SessionState::Erased =>
                {
                    return Ok(self.session(session.session_id));
                }
                Ok(_) => {}
                Err(error) if error.reason() == Some(Reason::SessionNotFound) => {}
                Err(error) => return Err(error),
            }
            // An erased session's request makes no other one, so this one differs.
            let metadata_json = Some(with_mark(new.metadata_json.as_deref(), &random_id()));
            let request =
                v1::CreateSessionRequest { client_id: Some(client_id.to_owned()), metadata_json, ..new.clone() };
            match self.create_session(request).await {
                // Another client was faster.
                Err(error) if error.reason() == Some(Reason::ClientIdReused) && openings < OPENINGS_MAX => {}
                made => return made,
            }
        }
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

    /// One call that takes a stream of requests.
    pub(crate) async fn upload<R: ClientStreaming>(
        &self,
        frames: impl Frames<Item = R> + Send + 'static,
    ) -> Result<R::Answer> {
        let codec = BoundedCodec::<R, R::Answer>::default();
        let answer = self.ready().await?.client_streaming(self.request(frames), path::<R>(), codec).await?;
        Ok(answer.into_inner())
    }

    async fn unary<R: Unary>(&self, request: R, left: Option<Duration>) -> Result<R::Answer> {
        let mut request = self.request(request);
        if let Some(left) = left {
            request.set_timeout(left);
        }
        let codec = BoundedCodec::<R, R::Answer>::default();
        Ok(self.ready().await?.unary(request, path::<R>(), codec).await?.into_inner())
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

fn path<R: Call>() -> PathAndQuery {
    PathAndQuery::from_static(R::PATH)
}

/// An id that nobody else has.
pub(crate) fn random_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// Metadata with one more entry.
fn with_mark(metadata_json: Option<&str>, mark: &str) -> String {
    let entry = format!("\"made\":\"{mark}\"");
    match metadata_json.map(str::trim).and_then(|metadata| metadata.strip_prefix('{')) {
        Some(rest) if !rest.trim_start().starts_with('}') => format!("{{{entry},{rest}"),
        Some(rest) => format!("{{{entry}{rest}"),
        // What is no object is the daemon's to refuse.
        None => metadata_json.map_or_else(|| format!("{{{entry}}}"), str::to_owned),
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
    fn metadata_keep_what_they_have_beside_the_mark() {
        for (metadata, marked) in [
            (None, r#"{"made":"x"}"#),
            (Some("{}"), r#"{"made":"x"}"#),
            (Some(r#" { "project": "p" }"#), r#"{"made":"x", "project": "p" }"#),
            (Some("[1]"), "[1]"),
        ] {
            assert_eq!(with_mark(metadata, "x"), marked);
        }
    }

    #[test]
    fn before_the_first_version_the_minor_one_counts() {
        for (one, other, same) in
            [("0.1.0", "0.1.9", true), ("0.1.0", "0.2.0", false), ("1.2.0", "1.9.0", true), ("1.0.0", "2.0.0", false)]
        {
            assert_eq!(is_same_protocol(one, other), same, "{one} {other}");
        }
    }
}
