//! The daemon's description of itself: state, presets, checks.

use super::error::{Error, Result};
use super::nouns::Daemon;
use super::page_size;
use super::quotas::QuotaUse;
use super::scrub::ScrubState;
use super::secrets::SecretRule;
use super::{Longhand, validate};
pub use crate::clock::ClockState;
use crate::limits;
use crate::model::Revision;
use crate::model::compaction::LevelThreshold;
use crate::model::ids::SessionId;
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::policy::overflow;
use crate::presets;
pub use crate::scheduler::{Health, ReadFailure};
pub use crate::store::{
    COMMIT_BOUNDS_MICROS, CheckedChains, Checkpoints, CompactionCounter, Figures, Finding, PendingErasures, Statistics,
    SummarizerSpending, WriteState,
};
use crate::store::{Durability, SessionFilter, SessionList};
pub use crate::summarizer::{Breaker, Gate};
use crate::traffic::TrafficState;
use tokio::sync::{mpsc, watch};

/// The daemon, as any caller may know it.
#[derive(Debug, Clone)]
pub struct Server {
    /// The store's id.
    pub store_id: uuid::Uuid,
    /// Durability of an acknowledged write.
    pub durability: Durability,
    /// The daemon's start time.
    pub start_time: Timestamp,
    /// Its state, for operators: the figures are those of all tenants together.
    pub info: Option<ServerInfo>,
}

/// The daemon's state.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    /// The store's id.
    pub store_id: uuid::Uuid,
    /// Sequence number of the newest event.
    pub head_seq: i64,
    /// Durability of an acknowledged write.
    pub durability: Durability,
    /// The database with its version.
    pub database_version: String,
    /// The daemon's start time.
    pub start_time: Timestamp,
    /// Number of sessions in the store.
    pub session_count: i64,
    /// Number of waiting compactions.
    pub ready_count: i64,
    /// Number of running compactions.
    pub running_count: i64,
    /// Number of open event streams.
    pub stream_count: usize,
    /// The largest number of committed events that an open event stream has not read.
    pub stream_lag: i64,
    /// Number of sessions in memory.
    pub loaded_count: usize,
    /// Approximate bytes of the sessions in memory.
    pub loaded_bytes: u64,
    /// Figures of the writer, the readers and the log.
    pub figures: Figures,
    /// Bytes of the database and its log.
    pub database_bytes: i64,
    /// State of writes: accepted, or the reason why not.
    pub writes: WriteState,
    /// State of checkpoints, which copy the log into the database.
    pub checkpoints: Checkpoints,
    /// State of the scrub.
    pub scrub: ScrubState,
    /// Erasures of which files may have something.
    pub erasures: PendingErasures,
    /// Counters of compactions and guards.
    pub statistics: Statistics,
    /// Totals of requests to models.
    pub spent: Vec<SummarizerSpending>,
    /// What tenants use of their quotas.
    pub quota_uses: Vec<QuotaUse>,
    /// The rules for secrets with their use.
    pub secret_rules: Vec<SecretRule>,
    /// State of the providers of the configured summarizers.
    pub providers: Vec<Provider>,
    /// Counters of the resources that clients hold.
    pub traffic: TrafficState,
    /// Set while the scheduler cannot read the store; no compaction runs until it can.
    pub scheduler_failure: Option<ReadFailure>,
    /// Sessions that the scheduler skips for a while because its last work on them failed, up to a bound.
    pub failing: Vec<SessionId>,
    /// State of the clock.
    pub clock: ClockState,
}

/// State of a summarizer's provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// The gate between summarizer and provider.
    pub gate: Gate,
    /// End of the time in which it gets no requests; none if it gets them.
    pub resume_time: Option<Timestamp>,
}

/// A preset with its policy as text.
#[derive(Debug, Clone)]
pub struct PresetInfo {
    /// Its name.
    pub name: String,
    /// Description for people.
    pub description: String,
    /// Its policy, as JSON.
    pub policy_json: String,
    /// Sources of the values, with deviations and their reasons.
    pub notes: Vec<(String, String)>,
    /// True if sessions get this preset when they name none.
    pub is_default: bool,
    /// The tokens at which each level is due under the window that was asked for, lowest level first.
    pub thresholds: Vec<LevelThreshold>,
}

/// A point of a session's chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainHead {
    /// The session.
    pub session: SessionId,
    /// The revision.
    pub revision: Revision,
    /// The chain's hash at the revision; none if the session has no such revision.
    pub hash: Option<Vec<u8>>,
}

/// A piece of a check's result.
#[derive(Debug, Clone)]
pub enum CheckItem {
    /// A row or an event was altered, dropped or inserted.
    Finding(Finding),
    /// The check is complete.
    End(CheckedChains),
}

impl Longhand {
    /// Waits until the store takes no more writes before a restart, and returns the cause.
    pub async fn writes_stopped(&self) -> WriteState {
        self.shared.store.stopped().await
    }

    /// The scheduler's health, current and future.
    pub fn scheduler_health(&self) -> watch::Receiver<Health> {
        self.shared.scheduler.health()
    }
}

impl Daemon<'_> {
    /// The daemon, with its state if the caller is an operator.
    pub async fn describe(self) -> Result<Server> {
        let info = if self.caller.access().is_operator() { Some(self.info().await?) } else { None };
        Ok(Server {
            store_id: self.caller.store().id(),
            durability: self.caller.store().durability(),
            start_time: self.caller.shared.start_time,
            info,
        })
    }

    /// The daemon's state.
    ///
    /// # Errors
    ///
    /// `SCOPE_MISSING` unless the caller is an operator.
    pub async fn info(self) -> Result<ServerInfo> {
        self.caller.require_operator()?;
        let (ready_count, running_count) = self.caller.store().jobs().counts().await?;
        // Gates and clock are read together, so that the rest of a pause is added to the right time.
        let gates = self.caller.shared.scheduler.summarizers().gates();
        let (now, present) = (self.caller.shared.clock.now(), self.caller.shared.clock.present());
        let scheduler = self.caller.shared.scheduler.health().borrow().clone();
        let mut failing = Vec::new();
        for session in scheduler.failing {
            failing.push(self.caller.store().sessions().id(session).await?);
        }
        let provider = |gate: Gate| {
            let resume_time = (gate.state.closed_ms > 0).then(|| present.plus_millis(gate.state.closed_ms));
            Provider { gate, resume_time }
        };
        let (loaded_count, loaded_bytes) = self.caller.shared.loaded.size();
        let scrub = self.caller.store().upkeep().scrub_state().borrow().clone();
        Ok(ServerInfo {
            store_id: self.caller.store().id(),
            head_seq: self.caller.store().log().head_seq(),
            durability: self.caller.store().durability(),
            database_version: self.caller.store().upkeep().database_version().await?,
            start_time: self.caller.shared.start_time,
            session_count: self.caller.store().sessions().count().await?,
            ready_count,
            running_count,
            stream_count: self.caller.events().stream_count(),
            stream_lag: self.caller.events().stream_lag(),
            loaded_count,
            loaded_bytes,
            figures: self.caller.store().upkeep().figures(),
            database_bytes: self.caller.store().upkeep().bytes_on_disk().await?,
            writes: self.caller.store().write_state(),
            checkpoints: self.caller.store().upkeep().checkpoints(),
            scrub,
            erasures: self.caller.store().erasures().pending().await?,
            statistics: self.caller.store().upkeep().statistics(now).await?,
            spent: self.caller.store().upkeep().spent().await?,
            quota_uses: self.caller.quota_uses(),
            secret_rules: self.caller.secret_rules(),
            providers: gates.into_iter().map(provider).collect(),
            traffic: self.caller.shared.entrance.traffic().state(),
            scheduler_failure: scheduler.failure,
            failing,
            clock: self.caller.shared.clock.state(),
        })
    }

    /// The presets, with their thresholds under a window.
    pub fn presets(self, mut window: Option<ModelWindow>) -> Result<Vec<PresetInfo>> {
        if let Some(window) = &mut window {
            validate::window("window", window)?;
            self.caller.shared.models.complete(window);
        }
        let default = presets::find(&self.caller.shared.default_preset).map(|preset| &preset.name);
        presets::all()
            .iter()
            .map(|preset| {
                let policy = preset.policy();
                let sources = preset.sources.iter().map(|(field, source)| (field.clone(), source.clone()));
                let deviations = preset.deviations().into_iter().map(|text| ("deviation".to_owned(), text.to_owned()));
                Ok(PresetInfo {
                    name: preset.name.clone(),
                    description: preset.description.clone(),
                    policy_json: serde_json::to_string(&policy).map_err(Error::internal)?,
                    notes: sources.chain(deviations).collect(),
                    is_default: default == Some(&preset.name),
                    thresholds: window
                        .as_ref()
                        .map(|window| overflow::level_thresholds(&policy, window))
                        .unwrap_or_default(),
                })
            })
            .collect()
    }

    /// Checks the chains; the receiver gets findings as they are made, and the end last.
    pub async fn check_integrity(self, session: Option<&str>) -> Result<mpsc::Receiver<Result<CheckItem>>> {
        let key = match session {
            Some(id) => Some(self.caller.session_key(id).await?),
            None => {
                self.caller.require_operator()?;
                None
            }
        };
        let (items, receiver) = mpsc::channel(crate::limits::CHECK_QUEUE_MAX);
        let store = self.caller.store().clone();
        let stopping = self.caller.shared.stopping.clone();
        tokio::spawn(async move {
            let (finder, mut findings) = mpsc::channel(crate::limits::CHECK_QUEUE_MAX);
            let check = store.upkeep().verify(key, finder);
            let report = async {
                // A slow caller slows the check down, and one that is gone ends it.
                while let Some(finding) = findings.recv().await {
                    if items.send(Ok(CheckItem::Finding(finding))).await.is_err() {
                        return;
                    }
                }
            };
            let end = tokio::select! {
                () = stopping.cancelled() => return,
                () = items.closed() => return,
                (end, ()) = async { tokio::join!(check, report) } => end,
            };
            drop(items.send(end.map(CheckItem::End).map_err(Error::from)).await);
        });
        Ok(receiver)
    }

    /// The newest hash of each session's chain, or the hashes at given points.
    pub async fn list_heads(
        self,
        session: Option<&str>,
        size: i64,
        token: &str,
        at: &[(String, Revision)],
    ) -> Result<(Vec<ChainHead>, String)> {
        let limit = page_size(size)?;
        if at.len() > limits::HEADS_NAMED_MAX {
            return Err(Error::limit("at", limits::HEADS_NAMED_MAX, at.len()));
        }
        if !at.is_empty() {
            let mut heads = Vec::with_capacity(at.len());
            for (id, revision) in at {
                heads.push(self.head(id, Some(*revision)).await?);
            }
            return Ok((heads, String::new()));
        }
        if let Some(id) = session {
            return Ok((vec![self.head(id, None).await?], String::new()));
        }
        self.caller.require_operator()?;
        let start = self.caller.list_start(token, "heads")?;
        let filter = SessionFilter { visibility: self.caller.visibility.clone(), ..SessionFilter::default() };
        let list = SessionList { filter, ..SessionList::default() };
        let (sessions, next) =
            self.caller.store().sessions().list(&list, start, (limit, limits::PAGE_BYTES_MAX)).await?;
        let next = next.map(|place| self.caller.list_token(place, "heads"));
        let mut heads = Vec::with_capacity(sessions.len());
        for listed in sessions {
            heads.push(self.head(&listed.session.id.to_string(), None).await?);
        }
        Ok((heads, next.unwrap_or_default()))
    }

    async fn head(self, id: &str, revision: Option<Revision>) -> Result<ChainHead> {
        let key = self.caller.session_key(id).await?;
        let session = self.caller.store().sessions().get(key).await?.0.id;
        let (revision, hash) = self.caller.store().log().chain_hash(key, revision).await?;
        Ok(ChainHead { session, revision, hash })
    }
}
