//! Fills the search index after appends, for sessions whose policy has retrieval.
//!
//! Nothing waits for it and nothing depends on it: a search fills the gaps of the index first. It works in small
//! batches, one commit each, so that appends get in between.

use crate::limits;
use crate::model::Revision;
use crate::policy::recall;
use crate::presets;
use crate::store::{self, SessionKey, Store};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Sessions that were written to since the index was last filled. It is only a hint in memory: the store knows how far
/// the index is.
#[derive(Clone, Default)]
pub(super) struct IndexQueue {
    sessions: Arc<Mutex<BTreeSet<SessionKey>>>,
    added: Arc<Notify>,
}

impl IndexQueue {
    /// Adds a session.
    pub(super) fn add(&self, session: SessionKey) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() < limits::INDEX_QUEUE_MAX {
            sessions.insert(session);
            self.added.notify_one();
        }
    }

    fn take(&self) -> Option<SessionKey> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).pop_first()
    }
}

/// Adds the words of a session's own messages to the index, until it has all messages that were sealed by `through`.
pub async fn index(store: &Store, session: SessionKey, through: Revision) -> store::Result<()> {
    while store.index().indexed_to(session).await? < through {
        let Some(batch) = store.index().unindexed(session).await? else { break };
        let words = batch.messages.iter().map(|(_, message)| recall::message_words(message)).collect();
        store.index().add_words(batch, words).await?;
    }
    Ok(())
}

/// Fills the index until it is cancelled: first the gaps that an earlier daemon left, then the recorded sessions.
pub(super) async fn fill(store: Store, index_queue: IndexQueue, cancel: CancellationToken) {
    tokio::select! {
        () = cancel.cancelled() => {}
        () = fill_on(&store, &index_queue) => {}
    }
}

async fn fill_on(store: &Store, index_queue: &IndexQueue) {
    if let Err(error) = queue_unfinished(store, index_queue).await {
        tracing::warn!(%error, "the index of words is filled in later");
    }
    loop {
        let Some(session) = index_queue.take() else {
            index_queue.added.notified().await;
            continue;
        };
        match fill_one(store, session).await {
            Ok(()) => {}
            Err(store::Error::Closed | store::Error::Stopped(_)) => return,
            Err(store::Error::Busy(_)) => {
                index_queue.add(session);
                tokio::time::sleep(Duration::from_millis(limits::SCHEDULER_TICK_MS)).await;
            }
            Err(error) => tracing::warn!(%error, "a session's words are not in the index"),
        }
    }
}

async fn queue_unfinished(store: &Store, index_queue: &IndexQueue) -> store::Result<()> {
    let mut after = SessionKey::default();
    loop {
        let page = store.index().behind(after, limits::PAGE_SIZE_DEFAULT).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = *last;
        page.into_iter().for_each(|session| index_queue.add(session));
    }
}

/// Fills the index for one session, if its policy has retrieval.
async fn fill_one(store: &Store, session: SessionKey) -> store::Result<()> {
    let (_, policy) = store.sessions().get(session).await?;
    // A policy that cannot be parsed is reported where it is needed.
    if presets::read_policy(&policy.json).is_ok_and(|policy| policy.retrieval.is_some()) {
        index(store, session, Revision::MAX).await?;
    }
    Ok(())
}
