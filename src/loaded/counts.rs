//! Token counts of messages under tokenizers that must encode each text: stored counts are read, and missing ones are
//! computed once. Large messages are counted apart from the runtime's threads, on which everybody waits.

use crate::limits;
use crate::model::ids::MessageId;
use crate::model::message::Role;
use crate::model::part::PartBody;
use crate::model::view::{Counts, SourceMessage};
use crate::policy::{Policy, tokens};
use crate::store::{self, Counted, Store};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Counts that the store does not have yet.
pub type FreshCounts = Vec<(MessageId, Counted)>;

/// Sets the counts of messages that have none, if the policy's counting is costly enough to keep. Most messages were
/// counted when they were appended; those counted under an earlier policy, and those that grew part by part, are
/// counted here.
pub async fn fill(store: &Store, policy: &Policy, sources: &mut [SourceMessage]) -> store::Result<FreshCounts> {
    let mut fresh = Vec::new();
    let Some(counting) = tokens::basis(policy) else { return Ok(fresh) };
    let counting: Arc<str> = counting.into();
    let missing = || sources.iter().filter(|source| source.counts.is_none());
    let sealed = missing().filter(|source| source.message.sealed_revision.is_some());
    let sealed: Vec<MessageId> = sealed.map(|source| source.message.id).collect();
    let mut kept = if sealed.is_empty() { Default::default() } else { store.views().counts(&counting, sealed).await? };
    for source in sources.iter_mut().filter(|source| source.counts.is_none()) {
        let message = &source.message;
        let counts = match kept.remove(&message.id) {
            Some(counts) if counts.are_of(&message.parts) => counts,
            _ => {
                // Encoding takes processor time, so the task yields to others on this thread.
                tokio::task::yield_now().await;
                let parts = message.parts.iter().map(|part| part.body.clone()).collect();
                let counts = count(policy, message.role, parts).await?;
                if message.sealed_revision.is_some() {
                    fresh.push((message.id, Counted { counting: counting.clone(), counts: counts.clone() }));
                }
                counts
            }
        };
        source.counts = Some(Arc::new(counts));
    }
    Ok(fresh)
}

/// Turns of large messages.
static COUNTING: Semaphore = Semaphore::const_new(limits::COUNTERS);

/// Counts a message with these parts: a small one here, and a large one, which takes seconds, on a thread of its own.
pub async fn count(policy: &Policy, role: Role, parts: Vec<Arc<PartBody>>) -> store::Result<Counts> {
    let bytes = parts.iter().map(|body| body.growth_bytes()).fold(0, i64::saturating_add);
    if bytes <= limits::COUNTED_AT_ONCE_BYTES {
        let bodies: Vec<&PartBody> = parts.iter().map(|body| &**body).collect();
        return Ok(tokens::count(policy, role, &bodies));
    }
    let turn = COUNTING.acquire().await;
    let policy = policy.clone();
    let counting = tokio::task::spawn_blocking(move || {
        let bodies: Vec<&PartBody> = parts.iter().map(|body| &**body).collect();
        let counts = tokens::count(&policy, role, &bodies);
        // The turn lasts as long as the work, even if nobody waits for it any more.
        drop(turn);
        counts
    });
    counting.await.map_err(|_| store::Error::Closed)
}

/// Keeps counts in the store. If the store is busy, the rest is counted again when it is needed.
pub async fn keep(store: &Store, fresh: FreshCounts) -> store::Result<()> {
    for batch in fresh.chunks(limits::COUNTS_BATCH) {
        match store.views().keep_counts(batch.to_vec()).await {
            Err(store::Error::Busy(_)) => break,
            other => other?,
        }
    }
    Ok(())
}
