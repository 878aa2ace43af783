//! Token counts of messages under tokenizers that must encode each text: stored counts are read, and missing ones are
//! computed once.

use crate::limits;
use crate::model::ids::MessageId;
use crate::model::part::PartBody;
use crate::model::view::SourceMessage;
use crate::policy::{Policy, tokens};
use crate::store::{self, Counted, Store};
use std::sync::Arc;

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
                let bodies: Vec<&PartBody> = message.parts.iter().map(|part| &*part.body).collect();
                let counts = tokens::count(policy, message.role, &bodies);
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
