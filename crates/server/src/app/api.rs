//! The API as a value: what its operations share.

use super::access::Access;
use super::access_record::NamedSessions;
use super::deltas::DraftDelta;
use super::entrance::Entrance;
use super::error::{Error, Result};
use super::presence::Presences;
use super::quotas::Quotas;
use super::retention::RetentionRule;
use super::search_turns::SearchTurns;
use super::validate;
use crate::bus::Bus;
use crate::clock::Clock;
use crate::loaded::{self, LoadedSessions, SessionSettings};
use crate::model::run::Epoch;
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::policy::Policy;
use crate::policy::bpe::Vocabulary;
use crate::policy::models::Models;
use crate::scheduler::SchedulerHandle;
use crate::store::{self, Durability, Kind, RequestKey, Requester, SessionKey, Store, Visibility};
use crate::telemetry::span;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

/// The API, for the daemon that serves it. Cheap to clone. What clients can do is reached through a [`Caller`] alone.
#[derive(Clone)]
pub struct Longhand {
    pub(super) shared: Arc<AppParts>,
}

/// Who asks, for the duration of one request: every operation of the API is a method of it, reads included.
#[derive(Clone)]
pub struct Caller {
    pub(super) shared: Arc<AppParts>,
    /// The author of the request's mutations.
    pub(super) requester: Requester,
    pub(super) access: Arc<Access>,
    /// The sessions that it sees.
    pub(super) visibility: Visibility,
    /// The sessions that the call names, for the access log.
    pub(super) named: NamedSessions,
}

pub(super) struct AppParts {
    pub(super) entrance: Arc<Entrance>,
    pub(super) quotas: OnceLock<Quotas>,
    pub(super) store: Store,
    pub(super) scheduler: SchedulerHandle,
    pub(super) default_preset: String,
    pub(super) defaults: Vec<DefaultPolicy>,
    pub(super) vocabularies: Vec<Arc<Vocabulary>>,
    pub(super) models: Arc<Models>,
    /// Sessions in memory.
    pub(super) loaded: LoadedSessions,
    pub(super) start_time: Timestamp,
    pub(super) clock: Clock,
    pub(super) bus: Bus,
    pub(super) live: broadcast::Sender<DraftDelta>,
    /// Who is at work in sessions.
    pub(super) presences: Arc<Presences>,
    pub(super) streams: Arc<tokio::sync::Semaphore>,
    /// Permits for messages that are written as streams.
    pub(super) writes: Arc<tokio::sync::Semaphore>,
    /// Cursors of the open event streams.
    pub(super) stream_cursors: Mutex<Vec<Weak<AtomicI64>>>,
    /// Permits for summaries of branches in progress.
    pub(super) branches: tokio::sync::Semaphore,
    /// The permit to play a session under presets.
    pub(super) simulations: Arc<tokio::sync::Semaphore>,
    /// Whose turn it is to search.
    pub(super) searches: SearchTurns,
    /// The permit to import an archive.
    pub(super) imports: tokio::sync::Semaphore,
    /// The rules of retention, and the turn of the pass that applies them.
    pub(super) retention: OnceLock<Vec<RetentionRule>>,
    pub(super) retention_turn: tokio::sync::Mutex<()>,
    pub(super) stopping: CancellationToken,
}

/// The policy of sessions that name no preset, for a model or a project.
#[derive(Debug, Clone, Default)]
pub struct DefaultPolicy {
    /// The model of the session's window, with `*` for any characters; none for any model.
    pub model: Option<String>,
    /// The project in the session's metadata; none for any project.
    pub project: Option<String>,
    /// The preset; none for the default preset.
    pub preset: Option<String>,
    /// JSON merged over the preset; empty for none.
    pub override_json: String,
}

/// Options of the API.
pub struct Options {
    /// The preset of sessions that name none and match no default.
    pub default_preset: String,
    /// The policies of sessions that name no preset; the first match is used.
    pub defaults: Vec<DefaultPolicy>,
    /// Vocabularies that policies may name.
    pub vocabularies: Vec<Arc<Vocabulary>>,
    /// The limits and prices of models by their names.
    pub models: Arc<Models>,
    /// What calls pass before they reach the API.
    pub entrance: Arc<Entrance>,
    /// Cancelled when the daemon stops; ends event streams and waits.
    pub stopping: CancellationToken,
}

impl Longhand {
    /// The API over a store and a running scheduler.
    pub fn new(store: Store, scheduler: SchedulerHandle, clock: &Clock, options: Options) -> Self {
        let (live, _) = broadcast::channel(crate::limits::DELTA_FRAMES_MAX);
        let shared = AppParts {
            entrance: options.entrance,
            quotas: OnceLock::new(),
            loaded: scheduler.loaded().clone(),
            bus: Bus::default(),
            store,
            scheduler,
            default_preset: options.default_preset,
            defaults: options.defaults,
            vocabularies: options.vocabularies,
            models: options.models,
            start_time: clock.now(),
            clock: clock.clone(),
            live,
            presences: Arc::default(),
            streams: Arc::new(tokio::sync::Semaphore::new(crate::limits::STREAMS_MAX)),
            writes: Arc::new(tokio::sync::Semaphore::new(crate::limits::WRITE_CALLS_MAX)),
            stream_cursors: Mutex::default(),
            branches: tokio::sync::Semaphore::new(crate::limits::BRANCH_SUMMARIES_MAX),
            simulations: Arc::new(tokio::sync::Semaphore::new(1)),
            searches: SearchTurns::default(),
            imports: tokio::sync::Semaphore::new(1),
            retention: OnceLock::new(),
            retention_turn: tokio::sync::Mutex::default(),
            stopping: options.stopping,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// What calls pass before they reach it.
    pub fn entrance(&self) -> &Arc<Entrance> {
        &self.shared.entrance
    }

    /// The caller of one request, by what it may do, its name for itself and the key that makes the request idempotent: the only way to
    /// the operations of the API. Each door calls this at one place.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` for a name or an id that is too long or has characters that are not allowed.
    pub fn caller(&self, access: impl Into<Arc<Access>>, actor: String, request: Option<RequestKey>) -> Result<Caller> {
        let access = access.into();
        let actor = access.author(actor);
        validate::name("longhand-actor", &actor)?;
        if let Some(request) = &request {
            validate::name("request_id", &request.id)?;
        }
        let salted = |request: &RequestKey| self.shared.store.secrets().salt().digest(&request.payload_hash);
        let salted_hash = request.as_ref().map(salted);
        let visibility = Visibility { tenant: access.tenant.clone(), binding: access.binding.clone() };
        Ok(Caller {
            shared: self.shared.clone(),
            requester: Requester { actor, request, epoch: None, salted_hash, keeps_salted_hash: false },
            access,
            visibility,
            named: NamedSessions::default(),
        })
    }
}

impl Caller {
    /// The store.
    pub(super) fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Durability of an acknowledged write.
    pub fn durability(&self) -> Durability {
        self.store().durability()
    }

    /// The same caller, on behalf of a run.
    #[must_use]
    pub fn in_run(mut self, epoch: Epoch) -> Self {
        self.requester.epoch = Some(epoch);
        self
    }

    /// The same caller, whose call names its sessions there.
    #[must_use]
    pub fn naming(self, named: NamedSessions) -> Self {
        Self { named, ..self }
    }

    /// The author of the mutations of this request.
    pub(super) fn requester(&self) -> Requester {
        self.requester.clone()
    }

    /// The settings of a session, from memory or from the store.
    pub(super) async fn known(&self, id: &str) -> Result<Arc<SessionSettings>> {
        match self.remembered(id).await? {
            Some(known) => Ok(known),
            None => self.read_settings(self.session_key(id).await?, id).await,
        }
    }

    /// The key of a session whose view is asked for. The first view reads nothing more for it.
    pub(super) async fn key_for_view(&self, id: &str) -> Result<SessionKey> {
        if let Some(known) = self.remembered(id).await? {
            return Ok(known.key);
        }
        let key = self.session_key(id).await?;
        if self.shared.loaded.is_kept(key) {
            self.read_settings(key, id).await?;
        }
        Ok(key)
    }

    /// The settings of a session that are in memory.
    async fn remembered(&self, id: &str) -> Result<Option<Arc<SessionSettings>>> {
        let Some(known) = self.shared.loaded.settings(&self.visibility.tenant, id) else { return Ok(None) };
        if !self.visibility.is_unbound() && !self.sees(known.key).await? {
            return Err(store::Error::NotFound { kind: Kind::Session, id: id.to_owned() }.into());
        }
        self.named.add(id);
        if span::records_session() {
            span::record("session", known.id);
        }
        Ok(Some(known))
    }

    async fn read_settings(&self, key: SessionKey, id: &str) -> Result<Arc<SessionSettings>> {
        let name = (&*self.visibility.tenant, id);
        Ok(self.shared.loaded.read_settings(key, name, &self.shared.vocabularies).await?)
    }

    /// Parses a stored policy, with the vocabulary that it names.
    pub(crate) fn parse_policy(&self, text: &store::PolicyText) -> Result<Policy> {
        Ok(loaded::parse_policy(text, &self.shared.vocabularies)?)
    }
}

impl AppParts {
    /// What a call waits for, unless the daemon stops before it comes.
    pub(super) async fn unless_stopping<T>(&self, waiting: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            biased;
            came = waiting => Ok(came),
            () = self.stopping.cancelled() => Err(Error::stopping()),
        }
    }
}

/// The window for the figures of a call: the caller's window if it names one, else the session's. Decisions use the
/// session's window alone.
pub(super) fn window_of_call<'a>(known: &'a ModelWindow, given: Option<&'a ModelWindow>) -> &'a ModelWindow {
    given.filter(|window| window.context > 0).unwrap_or(known)
}

/// The id of what a change made or concerned, which its receipt names first.
pub(super) fn receipt_id(receipt: &store::Receipt) -> Result<uuid::Uuid> {
    receipt.ids.first().copied().ok_or_else(|| Error::internal("a receipt names nothing"))
}

/// The number of entries in a page.
pub(super) fn page_size(asked: i64) -> Result<i64> {
    match asked {
        0 => Ok(crate::limits::PAGE_SIZE_DEFAULT),
        asked if asked < 0 => Err(Error::field("page_size", "is negative")),
        asked => Ok(asked.min(crate::limits::PAGE_SIZE_MAX)),
    }
}
