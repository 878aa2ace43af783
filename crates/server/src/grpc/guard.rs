//! The guard before the services: who calls, and whether the called method is allowed to them.
//!
//! Every door that reaches a service passes it, JSON over HTTP too. The scope of a method comes from its declaration in
//! the protos; a method without one is refused.

use super::scopes;
use super::side_calls::SideCalls;
use super::status::explain;
use crate::app::access::{Access, Credentials};
use crate::app::access_record::NamedSessions;
use crate::app::entrance::Entrance;
use crate::app::{self, Error, Reason};
use crate::model::access::Scope;
use crate::pb::TENANT_HEADER;
use crate::traffic::RequestMemory;
use crate::transport::{ClientStanding, Peer};
use crate::turns::Steps;
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderName, Request, Response};
use http_body::{Frame, SizeHint};
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::BoxFuture;
use tonic::server::NamedService;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// The method with the health, which anybody may ask. Watching it takes credentials.
const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
/// The header of a call that another daemon has let in and passes on: who calls, which a backend proves.
pub const PASSED_ON: HeaderName = HeaderName::from_static("longhand-passed-on");
/// Path prefix of the health service.
const HEALTH: &str = "/grpc.health.v1.Health/";
/// Path prefix of reflection, which any caller with credentials may ask.
pub(super) const REFLECTION: &str = "/grpc.reflection.";
/// The scheme of an access token in the header with the credentials.
const BEARER: &str = "bearer ";

/// The access of a caller whose head was admitted: its credentials were looked at.
#[derive(Clone)]
struct IdentifiedAccess(Arc<Access>);

/// A service by which calls are answered.
type AnswerService = Box<dyn Fn(Request<Body>) -> BoxFuture<Response<Body>, Infallible> + Send + Sync>;

/// The services by their names.
#[derive(Default)]
pub struct Services(HashMap<&'static str, AnswerService>);

impl Services {
    /// The same services and one more.
    pub(super) fn with<S>(mut self, service: S) -> Self
    where
        S: tower::Service<
                Request<Body>,
                Response = Response<Body>,
                Error = Infallible,
                Future = BoxFuture<Response<Body>, Infallible>,
            >,
        S: NamedService + Clone + Send + Sync + 'static,
    {
        // They are always ready.
        self.0.insert(S::NAME, Box::new(move |request| service.clone().call(request)));
        self
    }

    async fn call(&self, request: Request<Body>) -> Response<Body> {
        let service = request.uri().path().split('/').nth(1).and_then(|name| self.0.get(name));
        let Some(service) = service else { return Status::unimplemented("").into_http() };
        let Ok(answer) = service(request).await;
        answer
    }
}

/// What answers calls that passed the guard, each with its [`Access`] in the extensions.
pub trait Backend: Send + Sync + 'static {
    /// The answer to a call.
    fn answer(self: Arc<Self>, request: Request<Body>) -> BoxFuture<Response<Body>, Infallible>;

    /// The access of a call that another daemon has let in and passed on; none for any other call.
    ///
    /// # Errors
    ///
    /// Those of a call that only seems to be passed on.
    fn passed_on(&self, headers: &HeaderMap) -> app::Result<Option<Arc<Access>>>;
}

/// One store answers for itself, and no daemon passes calls on.
impl Backend for Services {
    fn answer(self: Arc<Self>, request: Request<Body>) -> BoxFuture<Response<Body>, Infallible> {
        Box::pin(async move { Ok(self.call(request).await) })
    }

    fn passed_on(&self, headers: &HeaderMap) -> app::Result<Option<Arc<Access>>> {
        match headers.contains_key(PASSED_ON) {
            true => Err(Error::new(Reason::AccessTokenInvalid, "no other daemon passes calls on to a store in files")),
            false => Ok(None),
        }
    }
}

/// The services behind the guard.
#[derive(Clone)]
pub struct GuardedServices {
    /// Health and reflection.
    own: Arc<Services>,
    backend: Arc<dyn Backend>,
    entrance: Arc<Entrance>,
    scopes: Arc<HashMap<String, Scope>>,
    /// Calls of health and reflection that are open.
    side_calls: Arc<SideCalls>,
    /// The methods that may hand content out.
    handing_out: Arc<HashSet<String>>,
    /// The client of requests that come over no connection.
    in_process: Option<Peer>,
}

impl GuardedServices {
    pub(super) fn new(own: Services, backend: Arc<dyn Backend>, entrance: Arc<Entrance>) -> Self {
        let (scopes, handing_out) = (Arc::new(scopes::scopes()), Arc::new(scopes::handing_out()));
        let (own, side_calls) = (Arc::new(own), Arc::default());
        Self { own, backend, entrance, scopes, side_calls, handing_out, in_process: None }
    }

    /// The same services for callers in this process, who are the owner.
    #[must_use]
    pub fn in_process(self) -> Self {
        Self { in_process: Some(Peer::Owner), ..self }
    }

    /// The answer to a call.
    pub(super) async fn answer(&self, mut request: Request<Body>) -> Response<Body> {
        let path = request.uri().path();
        if path == HEALTH_CHECK {
            return match self.entrance.takes_calls(path).await {
                Ok(()) => self.own.call(request).await,
                Err(error) => Status::from(error).into_http(),
            };
        }
        let (access, scope) = match self.admit(path, request.extensions(), request.headers()) {
            Ok(admitted) => admitted,
            Err(error) => return Status::from(error).into_http(),
        };
        let side_call = match scope.is_none().then(|| self.side_calls.begin(&access.tenant)).transpose() {
            Ok(side_call) => side_call,
            Err(error) => return Status::from(error).into_http(),
        };
        request.extensions_mut().insert(access.clone());
        if request.headers().contains_key(PASSED_ON) {
            // The connection is that of the daemon which passes the call on, and not the caller's.
            request.extensions_mut().remove::<Peer>();
        }
        // The daemon that let a call in has it in its log. Writes have their authors in the store.
        let is_of_log = matches!(scope, Some(Scope::Read | Scope::Erase | Scope::Admin))
            || self.handing_out.contains(request.uri().path());
        let is_recorded = is_of_log && !request.headers().contains_key(PASSED_ON) && self.entrance.logs(&access);
        let answer = match scope.filter(|_| is_recorded) {
            None => self.forward(request, &access, scope).await,
            Some(scope) => {
                let record = Record::from_request(&request, &access, scope);
                request.extensions_mut().insert(record.named.clone());
                let left = CancellationToken::new();
                let _left = left.clone().drop_guard();
                // A caller that leaves does not keep its call out of the log.
                let call = self.clone().forward_recorded(request, record, left);
                let call = match RequestMemory::current() {
                    Some(memory) => tokio::spawn(memory.scope(call)),
                    None => tokio::spawn(call),
                };
                call.await.unwrap_or_else(|error| Status::from(Error::internal(error)).into_http())
            }
        };
        let answer = match side_call {
            Some(side_call) => side_call.held_by(answer),
            None => answer,
        };
        if access.is_owners() {
            return answer;
        }
        let entrance = self.entrance.clone();
        let ended = Box::pin(async move { entrance.access_ended(access).await });
        answer.map(|body| Body::new(EndingBody { body, ended: Some(ended) }))
    }

    /// Forwards a call, and records it before its answer is given; one that acts also before it is carried out. One that
    /// only reads ends if its caller leaves.
    async fn forward_recorded(self, request: Request<Body>, record: Record, left: CancellationToken) -> Response<Body> {
        let Record { access, address, method, scope, named } = record;
        if matches!(scope, Scope::Erase | Scope::Admin)
            && let Err(error) = self.entrance.record_intent(&access, address.clone(), &method).await
        {
            return Status::from(error).into_http();
        }
        let answer = tokio::select! {
            answer = self.forward(request, &access, Some(scope)) => answer,
            () = left.cancelled(), if scope == Scope::Read => Status::cancelled("the caller has left").into_http(),
        };
        let outcome = outcome(answer.headers());
        match self.entrance.record_access(&access, address, &method, &named, &outcome).await {
            Ok(()) => answer,
            Err(error) => Status::from(error).into_http(),
        }
    }

    /// The answer to a call that may be made: by the daemon itself without a scope, else by the backend, in the turns of
    /// its access token.
    async fn forward(&self, request: Request<Body>, access: &Access, scope: Option<Scope>) -> Response<Body> {
        if scope.is_none() {
            return self.own.call(request).await;
        }
        let turn = match self.entrance.begin(access) {
            Ok(turn) => turn,
            Err(error) => return Status::from(error).into_http(),
        };
        let Ok(answer) = turn.clone().take_turns(self.backend.clone().answer(request)).await;
        answer.map(|body| Body::new(TurnBody { body, steps: Steps::new(turn) }))
    }

    /// Refuses a request for the method with a path by its head, before anything of its body is read.
    ///
    /// # Errors
    ///
    /// Those of [`authenticate`]; `SCOPE_MISSING`, `METHOD_UNKNOWN`.
    pub fn check(&self, path: &str, head: &Parts) -> app::Result<()> {
        self.admit(path, &head.extensions, &head.headers).map(drop)
    }

    /// Refuses a request of gRPC by its head, before anything of its body is waited for.
    ///
    /// # Errors
    ///
    /// As [`Self::check`].
    pub fn admit_head(&self, head: &mut Parts) -> app::Result<ClientStanding> {
        if head.uri.path() == HEALTH_CHECK {
            return Ok(ClientStanding::Stranger);
        }
        let (access, _) = self.admit(head.uri.path(), &head.extensions, &head.headers)?;
        head.extensions.insert(IdentifiedAccess(access));
        Ok(ClientStanding::Proven)
    }

    /// Refuses a request without credentials, before anything of it is read. Who called is known from then on.
    ///
    /// # Errors
    ///
    /// Those of [`authenticate`].
    pub fn identify(&self, head: &mut Parts) -> app::Result<()> {
        let peer = head.extensions.get::<Peer>().or(self.in_process.as_ref());
        let access = self.authenticate(peer, &head.headers)?;
        head.extensions.insert(IdentifiedAccess(access));
        Ok(())
    }

    /// The access of a caller that may call the method, and the method's scope.
    fn admit(
        &self,
        path: &str,
        extensions: &Extensions,
        headers: &HeaderMap,
    ) -> app::Result<(Arc<Access>, Option<Scope>)> {
        let peer = extensions.get::<Peer>().or(self.in_process.as_ref());
        let access = match extensions.get::<IdentifiedAccess>() {
            Some(IdentifiedAccess(access)) => access.clone(),
            None => match self.backend.passed_on(headers)? {
                Some(access) => access,
                None => self.authenticate(peer, headers)?,
            },
        };
        let scope = self.scopes.get(path).copied();
        let (method, allowed) = match scope {
            Some(scope) => (path, access.require(scope)),
            None if path.starts_with(REFLECTION) || path.starts_with(HEALTH) => (path, Ok(())),
            None => ("", Err(Error::new(Reason::MethodUnknown, "no service has this method"))),
        };
        allowed.inspect_err(|error| {
            if !headers.contains_key(PASSED_ON) {
                let acting = acting_access(&access, headers);
                self.entrance.count_refusal(Some(&acting), ip_of(peer), method, error.reason);
            }
        })?;
        Ok((access, scope))
    }

    fn authenticate(&self, peer: Option<&Peer>, headers: &HeaderMap) -> app::Result<Arc<Access>> {
        authenticate(&self.entrance, peer, headers).inspect_err(|error| {
            // A wrong secret is counted where it is compared.
            if error.reason == Reason::AccessTokenMissing {
                self.entrance.count_refusal(None, ip_of(peer), "", error.reason);
            }
        })
    }
}

/// A call for the access log.
struct Record {
    /// The caller's access, in the tenant that it acts in.
    access: Arc<Access>,
    address: String,
    method: String,
    scope: Scope,
    named: NamedSessions,
}

impl Record {
    fn from_request(request: &Request<Body>, access: &Arc<Access>, scope: Scope) -> Self {
        let address = match request.extensions().get::<Peer>() {
            Some(Peer::Tcp { address, .. }) => address.to_string(),
            Some(Peer::Owner) | None => String::new(),
        };
        let (access, method) = (acting_access(access, request.headers()), request.uri().path().to_owned());
        Self { access, address, method, scope, named: NamedSessions::default() }
    }
}

/// The access of a caller in the tenant that it names; its own if it may not.
fn acting_access(access: &Arc<Access>, headers: &HeaderMap) -> Arc<Access> {
    let tenant = headers.get(TENANT_HEADER).and_then(|tenant| tenant.to_str().ok());
    let acting = tenant.and_then(|tenant| Access::clone(access).acting_in(tenant).ok());
    acting.map_or_else(|| Arc::clone(access), Arc::new)
}

fn ip_of(peer: Option<&Peer>) -> Option<IpAddr> {
    match peer {
        Some(Peer::Tcp { address, .. }) => Some(address.ip()),
        Some(Peer::Owner) | None => None,
    }
}

/// The outcome of a call by the begin of its answer.
fn outcome(headers: &HeaderMap) -> String {
    let status = Status::from_header_map(headers).filter(|status| status.code() != Code::Ok);
    let Some(status) = status else { return "OK".to_owned() };
    let details = status.get_error_details();
    details.error_info().map_or_else(|| format!("{:?}", status.code()), |info| info.reason.clone())
}

/// Who sent a request, by its connection and its headers.
///
/// # Errors
///
/// `ACCESS_TOKEN_MISSING`, `ACCESS_TOKEN_INVALID`, `TOO_MANY_ATTEMPTS`.
pub fn authenticate(entrance: &Entrance, peer: Option<&Peer>, headers: &HeaderMap) -> app::Result<Arc<Access>> {
    let credentials = match peer {
        Some(Peer::Owner) => Credentials::Owner,
        Some(Peer::Tcp { address, .. }) => match secret(headers) {
            Some(secret) => Credentials::Secret(secret, address.ip()),
            None => Credentials::Nothing,
        },
        None => Credentials::Nothing,
    };
    entrance.authenticate(credentials)
}

/// The secret in the header with the credentials.
fn secret(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = text.split_at_checked(BEARER.len())?;
    scheme.eq_ignore_ascii_case(BEARER).then(|| secret.trim())
}

/// The access that the guard gave a request.
pub fn access(extensions: &Extensions) -> app::Result<Arc<Access>> {
    let missing = || Error::new(Reason::AccessTokenMissing, "the call passed no guard");
    extensions.get::<Arc<Access>>().cloned().ok_or_else(missing)
}

/// The body of an answer that is made in the turns of its call.
struct TurnBody {
    body: Body,
    steps: Steps,
}

impl http_body::Body for TurnBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Self { body, steps } = &mut *self;
        steps.poll(context, |context| http_body::Body::poll_frame(Pin::new(body), context))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer that ends when its caller's access does.
struct EndingBody {
    body: Body,
    /// None once the body or the access has ended.
    ended: Option<Pin<Box<dyn Future<Output = Error> + Send>>>,
}

impl http_body::Body for EndingBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(ended) = &mut self.ended else { return Poll::Ready(None) };
        if let Poll::Ready(error) = ended.as_mut().poll(context) {
            self.ended = None;
            let status = Status::from(error);
            let mut trailers = HeaderMap::new();
            return Poll::Ready(Some(match status.add_header(&mut trailers) {
                Ok(()) => Ok(Frame::trailers(trailers)),
                Err(error) => Err(error),
            }));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.ended.is_none() || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl tower::Service<Request<Body>> for GuardedServices {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let guarded = self.clone();
        Box::pin(async move { Ok(explain(guarded.answer(request).await)) })
    }
}
