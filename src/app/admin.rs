//! The daemon about itself: state, presets, checks.

use super::Longhand;
use super::cursor;
use super::error::{Error, Result};
use super::page_size;
use super::traffic::TrafficState;
use crate::model::Revision;
use crate::model::ids::SessionId;
use crate::model::time::Timestamp;
use crate::policy::presets;
use crate::store::{Checked, Durability, Finding};
pub use crate::store::{Fare, Spent, Tally};
pub use crate::summarizer::{Breaker, Gate};
use tokio::sync::mpsc;

/// The daemon's state.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    /// The store's id.
    pub store_id: uuid::Uuid,
    /// The newest event.
    pub head_seq: i64,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// SQLite's version.
    pub sqlite_version: String,
    /// When the daemon started.
    pub start_time: Timestamp,
    /// Sessions in the store.
    pub session_count: i64,
    /// Reductions that wait.
    pub ready_count: i64,
    /// Reductions that run.
    pub running_count: i64,
    /// Open event streams.
    pub stream_count: usize,
    /// Bytes of the database and its log.
    pub database_bytes: i64,
    /// Whether writes are taken.
    pub writable: bool,
    /// How reductions fare.
    pub fare: Fare,
    /// What requests to models came to.
    pub spent: Vec<Spent>,
    /// How it stands with the providers of the configured summarizers.
    pub providers: Vec<Provider>,
    /// What clients hold of the daemon.
    pub traffic: TrafficState,
}

/// How it stands with the provider of a summarizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// What stands between the two.
    pub gate: Gate,
    /// Until when it gets no requests; none where it gets them.
    pub closed_until: Option<Timestamp>,
}

/// A preset with its policy as text.
#[derive(Debug, Clone)]
pub struct PresetInfo {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Its policy, as JSON.
    pub policy_json: String,
    /// Where its values come from, and where they differ and why.
    pub notes: Vec<(String, String)>,
    /// Whether sessions get it when they name none.
    pub is_default: bool,
}

/// A point of a session's chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainHead {
    /// The session.
    pub session: SessionId,
    /// The revision.
    pub revision: Revision,
    /// The hash there; none if the session has no such revision.
    pub hash: Option<Vec<u8>>,
}

/// A piece of a check's result.
#[derive(Debug, Clone)]
pub enum CheckItem {
    /// Something was altered, dropped or inserted.
    Finding(Finding),
    /// The check is complete.
    End(Checked),
}

impl Longhand {
    /// The daemon's state.
    pub async fn server_info(&self) -> Result<ServerInfo> {
        let (ready_count, running_count) = self.store().job_counts().await?;
        // The two are read together, so that what is left of a pause is not counted from another time.
        let gates = self.shared.scheduler.summarizers().gates();
        let now = self.shared.clock.now();
        let provider = |gate: Gate| {
            let closed_until = (gate.standing.closed_ms > 0).then(|| now.plus_millis(gate.standing.closed_ms));
            Provider { gate, closed_until }
        };
        Ok(ServerInfo {
            store_id: self.store().id(),
            head_seq: self.store().head_seq(),
            durability: self.store().durability(),
            sqlite_version: self.store().sqlite_version().await?,
            start_time: self.shared.start_time,
            session_count: self.store().session_count().await?,
            ready_count,
            running_count,
            stream_count: self.stream_count(),
            database_bytes: self.store().bytes_on_disk(),
            writable: self.store().is_writable(),
            fare: self.store().fare(now).await?,
            spent: self.store().spent().await?,
            providers: gates.into_iter().map(provider).collect(),
            traffic: self.traffic().state(),
        })
    }

    /// The presets.
    pub fn presets(&self) -> Result<Vec<PresetInfo>> {
        let default = presets::find(&self.shared.default_preset).map(|preset| preset.name);
        presets::all()
            .into_iter()
            .map(|preset| {
                let policy = preset.policy();
                let sources = preset.sources.iter().map(|(field, source)| ((*field).to_owned(), (*source).to_owned()));
                let deviations = preset.deviations().into_iter().map(|text| ("deviation".to_owned(), text.to_owned()));
                Ok(PresetInfo {
                    name: preset.name.to_owned(),
                    description: preset.description.to_owned(),
                    policy_json: serde_json::to_string(&policy).map_err(Error::internal)?,
                    notes: sources.chain(deviations).collect(),
                    is_default: default == Some(preset.name),
                })
            })
            .collect()
    }

    /// Checks the chains; what is found comes as it is found, the end last.
    pub async fn check_integrity(&self, session: Option<&str>) -> Result<mpsc::Receiver<Result<CheckItem>>> {
        let key = match session {
            Some(id) => Some(self.store().find_session(id).await?),
            None => None,
        };
        let (items, receiver) = mpsc::channel(crate::limits::CHECK_QUEUE_MAX);
        let store = self.store().clone();
        let stopping = self.shared.stopping.clone();
        tokio::spawn(async move {
            let (finder, mut findings) = mpsc::channel(crate::limits::CHECK_QUEUE_MAX);
            let check = store.verify(key, finder);
            let report = async {
                // A caller that reads slowly slows the check down, and one that is gone ends it.
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
        &self,
        session: Option<&str>,
        size: i64,
        token: &str,
        at: &[(String, Revision)],
    ) -> Result<(Vec<ChainHead>, String)> {
        let limit = page_size(size)?;
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
        let below = cursor::page_start(token, "heads")?.unwrap_or(i64::MAX);
        let mut rows = self.store().list_sessions(below, true, None, limit + 1).await?;
        let more = rows.len() > usize::try_from(limit).unwrap_or(usize::MAX);
        if more {
            rows.pop();
        }
        let next = rows.last().filter(|_| more).map(|(key, ..)| cursor::page_token(*key, "heads"));
        let mut heads = Vec::with_capacity(rows.len());
        for (_, session, _) in rows {
            heads.push(self.head(&session.id.to_string(), None).await?);
        }
        Ok((heads, next.unwrap_or_default()))
    }

    async fn head(&self, id: &str, revision: Option<Revision>) -> Result<ChainHead> {
        let key = self.store().find_session(id).await?;
        let session = self.store().session(key).await?.0.id;
        let (revision, hash) = self.store().chain_hash(key, revision).await?;
        Ok(ChainHead { session, revision, hash })
    }
}
