//! The log of events and its hash chains.

use super::error::Result;
use super::ledger::ancestry::{self, Ancestry};
use super::ledger::events::{self, EventFilter, EventPage, ScannedTo};
use super::ledger::head::SessionKey;
use super::ledger::sessions::{self, LogSnapshot};
use super::shared::StoreParts;
use crate::model::event::{Event, EventKind};
use crate::model::{Revision, Seq};
use std::sync::Arc;
use tokio::sync::watch;

/// The log of events and its hash chains.
#[derive(Clone)]
pub struct Log(pub(super) Arc<StoreParts>);

impl Log {
    /// Events after `after`, up to `head`.
    pub async fn tail(&self, filter: &EventFilter, after: Seq, head: Seq) -> Result<EventPage> {
        if let Some(page) = events::newest(&self.0.ring, &self.0.memberships, filter, after, head)? {
            self.0.engine.check_owned()?;
            return Ok(page);
        }
        // Not in the task's own thread: a thousand streams would keep all others from it.
        self.0.reading(|reader| events::tail(reader, &self.0.memberships, filter, after, head)).await
    }

    /// Events of a history by revision, and the event after which the next page begins. A page scans a limited number
    /// of events, so it may be empty before the end.
    pub async fn of_history(
        &self,
        session: SessionKey,
        kinds: &[EventKind],
        range: (Revision, Revision),
        limit: i64,
    ) -> Result<(Vec<Event>, Option<ScannedTo>)> {
        self.0
            .reading(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                events::of_history(reader, &ancestry, kinds, range, limit)
            })
            .await
    }

    /// The hash of the event with this number.
    pub async fn hash_at_seq(&self, seq: Seq) -> Result<Option<Vec<u8>>> {
        if let Some(hash) = self.0.ring.hash_at(seq) {
            self.0.engine.check_owned()?;
            return Ok(Some(hash.to_vec()));
        }
        self.0.brief(|reader| events::hash_at_seq(reader, seq)).await
    }

    /// The last revision of a session's history whose event has this number or one before it; zero if there is none.
    pub async fn revision_by(&self, session: SessionKey, seq: Seq) -> Result<Revision> {
        self.0
            .reading(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                events::revision_by(reader, &ancestry, seq)
            })
            .await
    }

    /// The event of a revision of a session's history; none if there is no such revision.
    pub async fn event_at(&self, session: SessionKey, revision: Revision) -> Result<Option<Event>> {
        self.0.reading(|reader| events::at(reader, session.0, revision)).await
    }

    /// The chain's hash at a revision; none for the newest. Returns that revision with it.
    pub async fn chain_hash(
        &self,
        session: SessionKey,
        revision: Option<Revision>,
    ) -> Result<(Revision, Option<Vec<u8>>)> {
        self.0
            .reading(|reader| {
                let ancestry: Ancestry = ancestry::by_key(reader, session.0)?;
                let revision = revision.unwrap_or(ancestry.revision);
                Ok((revision, events::hash_at(reader, &ancestry, revision)?))
            })
            .await
    }

    /// Watches the number of the newest committed event. Every commit notifies, also one without an event.
    pub fn watch_head(&self) -> watch::Receiver<Seq> {
        self.0.announced.head_seq.clone()
    }

    /// Watches the number of the newest committed event. Only commits of events notify.
    pub fn watch_events(&self) -> watch::Receiver<Seq> {
        self.0.announced.newest_event.clone()
    }

    /// The number of the newest committed event.
    pub fn head_seq(&self) -> Seq {
        *self.0.announced.head_seq.borrow()
    }

    /// The head of the log and sessions, as they were after its newest event.
    pub async fn snapshot(&self, sessions: &[SessionKey]) -> Result<LogSnapshot> {
        self.0.snapshot(|reader| sessions::log_snapshot(reader, sessions)).await
    }
}
