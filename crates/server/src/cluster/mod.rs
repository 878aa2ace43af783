//! The daemons of a PostgreSQL database as one: any of them answers any call. It serves the shards that it owns, passes
//! other calls on to their owners, and merges what concerns all shards.
//!
//! `balance` decides which shard a daemon takes, `route` which shard a call is for, `forward` carries calls to other
//! daemons, and `merge` answers calls that concern all shards.

mod balance;
mod body;
mod call;
mod forward;
mod merge;
mod opened;
mod passed_on;
mod reply;
mod route;

pub use balance::{AskingDaemon, AwaitedDaemons, BalanceStep, next, returning_shards};
pub use forward::PeerTls;

use crate::app::access::Access;
use crate::app::{self, Error, Longhand, Reason};
use crate::grpc::{self, Backend, Services};
use crate::limits;
use crate::postgres::{DaemonEntry, Registry, ShardFailure, Survey};
use body::WatchedBody;
use call::Head;
use forward::{Channels, ForwardOutcome};
use http::{HeaderMap, Request, Response};
use opened::OpenedRequest;
use quick_cache::sync::Cache;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::BoxFuture;
use uuid::Uuid;

/// Places that are remembered, of sessions and of compactions.
const PLACES: usize = 100_000;

/// A shard that this daemon owns.
#[derive(Clone)]
pub struct LocalShard {
    /// Its store.
    pub app: Longhand,
    /// What answers for it.
    pub services: Arc<Services>,
}

/// What makes a daemon one of the cluster.
pub struct Options {
    /// What it knows of the other daemons.
    pub registry: Registry,
    /// The daemon.
    pub me: DaemonEntry,
    /// Certificates for calls to daemons with TLS.
    pub tls: PeerTls,
    /// Cancelled when the daemon stops.
    pub stopping: CancellationToken,
}

/// The daemons of a database, as one of them sees them.
pub struct Cluster {
    registry: Registry,
    me: DaemonEntry,
    secret: String,
    channels: Channels,
    survey: watch::Sender<Survey>,
    local: RwLock<BTreeMap<String, LocalShard>>,
    /// The shards of sessions, by their own ids: they never change.
    sessions: Cache<Uuid, Arc<str>>,
    compactions: Cache<String, Arc<str>>,
    stopping: CancellationToken,
}

enum ShardLocation {
    Here(LocalShard),
    /// At the daemon with this address.
    There(String),
    /// Nobody serves it now.
    Nowhere,
}

impl Cluster {
    /// A daemon that owns no shard yet.
    ///
    /// # Errors
    ///
    /// If the registry cannot be read.
    pub async fn new(options: Options) -> app::Result<Arc<Self>> {
        let Options { registry, me, tls, stopping } = options;
        let secret = registry.secret().await?;
        let cluster = Self {
            registry,
            me,
            secret,
            channels: Channels::new(tls),
            survey: watch::Sender::default(),
            local: RwLock::default(),
            sessions: Cache::new(PLACES),
            compactions: Cache::new(PLACES),
            stopping,
        };
        Ok(Arc::new(cluster))
    }

    /// This daemon.
    pub fn me(&self) -> &DaemonEntry {
        &self.me
    }

    /// Tells the others that this daemon runs for a time, and which shards it could not open, and learns of them.
    ///
    /// # Errors
    ///
    /// If the registry cannot be reached; what was known stays.
    pub async fn beat(&self, lasts: Duration, failures: Vec<ShardFailure>) -> app::Result<Survey> {
        let survey = self.registry.beat(&DaemonEntry { failures, ..self.me.clone() }, lasts).await?;
        self.channels.keep(survey.daemons.iter().map(|daemon| daemon.address.as_str()));
        self.survey.send_replace(survey.clone());
        Ok(survey)
    }

    /// The registry.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Serves a shard from now on.
    pub fn serve(&self, shard: String, local: LocalShard) {
        self.local.write().unwrap_or_else(PoisonError::into_inner).insert(shard, local);
        // Calls may wait for it.
        self.survey.send_modify(|_| ());
    }

    /// Serves a shard no more. Calls wait for its next owner.
    pub fn give_up(&self, shard: &str) {
        self.local.write().unwrap_or_else(PoisonError::into_inner).remove(shard);
    }

    /// The shard, if this daemon serves it.
    pub fn local(&self, shard: &str) -> Option<LocalShard> {
        self.local.read().unwrap_or_else(PoisonError::into_inner).get(shard).cloned()
    }

    /// The store of the first shard, if this daemon serves it.
    pub fn home_app(&self) -> Option<Longhand> {
        Some(self.local(&self.home())?.app)
    }

    /// Has the owner of the first shard answer a request that is no call.
    pub async fn send_home(self: Arc<Self>, mut request: Request<axum::body::Body>) -> Response<axum::body::Body> {
        let home = self.home();
        let is_first = request.headers_mut().insert(passed_on::SHARD, http::HeaderValue::from_static("s1")).is_none();
        let sent = match self.place(&home) {
            ShardLocation::There(address) if is_first => self.channels.send(&address, request.map(Body::new)).await,
            _ => ForwardOutcome::Nothing,
        };
        match sent {
            ForwardOutcome::Answer(answer) => answer.map(axum::body::Body::new),
            ForwardOutcome::Nothing | ForwardOutcome::Lost(_) => crate::http::refuse(no_owner(&home)),
        }
    }

    /// The names of all shards, in the order of their numbers.
    fn shards(&self) -> Vec<String> {
        self.survey.borrow().shards.iter().map(|shard| shard.name.clone()).collect()
    }

    fn place(&self, shard: &str) -> ShardLocation {
        // One that may be another's by now is served here no more, in a moment.
        if let Some(local) = self.local(shard) {
            return match local.app.store().check_owned() {
                Ok(()) => ShardLocation::Here(local),
                Err(_) => ShardLocation::Nowhere,
            };
        }
        let survey = self.survey.borrow();
        let owner = survey.shards.iter().find(|entry| entry.name == shard).and_then(|entry| entry.owner.as_ref());
        let owner = owner.filter(|owner| **owner != self.me.id);
        let daemon = owner.and_then(|owner| survey.daemons.iter().find(|daemon| daemon.id == *owner));
        daemon.map_or(ShardLocation::Nowhere, |daemon| ShardLocation::There(daemon.address.clone()))
    }

    /// The answer of a shard's owner, wherever it runs. Without an owner, the call waits for the next one.
    async fn answer_at(&self, shard: &str, head: &Head, opened: &mut OpenedRequest) -> Response<Body> {
        let end = Instant::now() + Duration::from_millis(limits::OWNER_WAIT_MS);
        let mut survey = self.survey.subscribe();
        loop {
            survey.borrow_and_update();
            let place = self.place(shard);
            let is_nowhere = matches!(place, ShardLocation::Nowhere);
            // A store is not held while the call waits.
            let sent = match place {
                ShardLocation::Here(local) => {
                    let answer = local.answer(Request::from_parts(head.parts.clone(), opened.body())).await;
                    if !(head.is_repeatable && self.passes(&answer)) {
                        return answer;
                    }
                    ForwardOutcome::Nothing
                }
                ShardLocation::There(address) => {
                    let call = self.call_passed_on(shard, head, opened);
                    match call {
                        Ok(call) => tokio::select! {
                            sent = self.channels.send(&address, call) => sent,
                            () = self.wait_for_stop() => ForwardOutcome::Lost("this daemon is stopping".to_owned()),
                        },
                        Err(error) => return Status::from(error).into_http(),
                    }
                }
                ShardLocation::Nowhere => ForwardOutcome::Nothing,
            };
            match sent {
                ForwardOutcome::Answer(answer) if head.is_repeatable && self.passes(&answer) => {}
                ForwardOutcome::Answer(answer) => {
                    let lost = if head.is_repeatable { Reason::NoOwner } else { Reason::OutcomeUncertain };
                    return answer.map(|body| Body::new(WatchedBody::of_another(body, lost)));
                }
                ForwardOutcome::Lost(why) if !head.is_repeatable => {
                    let message = format!("the daemon with the session was lost meanwhile: {why}");
                    return Status::from(Error::new(Reason::OutcomeUncertain, message)).into_http();
                }
                ForwardOutcome::Nothing | ForwardOutcome::Lost(_) => {}
            }
            // What streams cannot be sent again.
            let is_over = !(opened.is_whole() || is_nowhere) || !self.learns(&mut survey, end).await;
            if is_over {
                let error = match self.stopping.is_cancelled() {
                    true => Error::stopping(),
                    false => no_owner(shard),
                };
                return Status::from(error).into_http();
            }
        }
    }

    /// Waits for news of the shards. False if the time is over before, or the daemon stops.
    async fn learns(&self, survey: &mut watch::Receiver<Survey>, end: Instant) -> bool {
        tokio::select! {
            biased;
            () = self.stopping.cancelled() => false,
            changed = tokio::time::timeout_at(end, survey.changed()) => changed.is_ok(),
        }
    }

    /// Resolves when the daemon stops and waits for others no more.
    async fn wait_for_stop(&self) {
        self.stopping.cancelled().await;
        tokio::time::sleep(Duration::from_millis(limits::STOP_OTHERS_MS)).await;
    }

    /// True for an answer that another one may follow while the daemon goes on: of a shard that is given up, or lost, or
    /// whose connections to the database were lost.
    fn passes(&self, answer: &Response<Body>) -> bool {
        let passing = [Reason::LeaseLost, Reason::ShuttingDown, Reason::StoreBusy].map(Reason::as_str);
        !self.stopping.is_cancelled()
            && forward::reason(answer.headers()).is_some_and(|reason| passing.contains(&reason.as_str()))
    }

    /// The call to another daemon.
    fn call_passed_on(&self, shard: &str, head: &Head, opened: &mut OpenedRequest) -> app::Result<Request<Body>> {
        let mut request = Request::from_parts(head.parts.clone(), opened.body());
        let access = grpc::access(&head.parts.extensions)?;
        let headers = request.headers_mut();
        for name in
            [http::header::AUTHORIZATION, http::header::COOKIE, http::header::HOST, http::header::CONTENT_LENGTH]
        {
            headers.remove(name);
        }
        headers.insert(grpc::PASSED_ON, passed_on::header(&self.secret, &access)?);
        headers.insert(passed_on::SHARD, shard.parse().map_err(Error::internal)?);
        headers.insert(http::header::TE, http::HeaderValue::from_static("trailers"));
        Ok(request)
    }

    /// The answer to a call that another daemon passed on: of a shard that is served here.
    async fn answer_passed_on(&self, shard: &str, request: Request<Body>) -> Response<Body> {
        let Some(local) = self.local(shard) else { return Status::from(no_owner(shard)).into_http() };
        local.answer(request).await
    }
}

impl LocalShard {
    /// The answer to a call, as long as nobody else may own the shard: else that one has newer content.
    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let Ok(answer) = self.services.clone().answer(request).await;
        let store = self.app.store();
        match store.check_owned() {
            Ok(()) => answer.map(|body| Body::new(WatchedBody::while_owned(body, store.clone()))),
            Err(error) => Status::from(Error::from(error)).into_http(),
        }
    }
}

fn no_owner(shard: &str) -> Error {
    Error::new(Reason::NoOwner, format!("no daemon serves the shard {shard} now")).with("shard", shard)
}

impl Backend for Cluster {
    fn answer(self: Arc<Self>, request: Request<Body>) -> BoxFuture<Response<Body>, Infallible> {
        Box::pin(async move {
            let passed_on =
                request.headers().get(passed_on::SHARD).and_then(|shard| shard.to_str().ok()).map(str::to_owned);
            Ok(match passed_on.filter(|_| request.headers().contains_key(grpc::PASSED_ON)) {
                Some(shard) => self.answer_passed_on(&shard, request).await,
                None => self.route(request).await.unwrap_or_else(Status::into_http),
            })
        })
    }

    fn passed_on(&self, headers: &HeaderMap) -> app::Result<Option<Arc<Access>>> {
        passed_on::read(&self.secret, headers)
    }
}
