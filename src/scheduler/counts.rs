//! Sees to it that a decision starts from counts: those that are kept are read, and what is missing is counted and kept.

use crate::limits;
use crate::model::part::PartBody;
use crate::model::view::SourceMessage;
use crate::policy::{Policy, tokens};
use crate::store::{self, Counted, Store};
use std::sync::Arc;

/// Gives messages their counts, where the policy's counting is worth keeping. Most were counted when they were appended;
/// those of an earlier policy, and those that grew part by part, are counted here, once.
pub(super) async fn fill(store: &Store, policy: &Policy, sources: &mut [SourceMessage]) -> store::Result<()> {
    let Some(counting) = tokens::basis(policy) else { return Ok(()) };
    let counting: Arc<str> = counting.into();
    let sealed = sources.iter().filter(|source| source.message.sealed_revision.is_some());
    let mut kept = store.counts(&counting, sealed.map(|source| source.message.id).collect()).await?;
    let mut fresh = Vec::new();
    for source in sources {
        let message = &source.message;
        let counts = match kept.remove(&message.id) {
            Some(counts) if counts.parts.len() == message.parts.len() => counts,
            _ => {
                // Encoding is work: others on this thread get their turn.
                tokio::task::yield_now().await;
                let bodies: Vec<&PartBody> = message.parts.iter().map(|part| &part.body).collect();
                let counts = tokens::count(policy, message.role, &bodies);
                if message.sealed_revision.is_some() {
                    fresh.push((message.id, Counted { counting: counting.clone(), counts: counts.clone() }));
                }
                counts
            }
        };
        source.counts = Some(Arc::new(counts));
    }
    for batch in fresh.chunks(limits::COUNTS_BATCH) {
        match store.keep_counts(batch.to_vec()).await {
            // They are counted again when they are needed.
            Err(store::Error::Busy) => break,
            other => other?,
        }
    }
    Ok(())
}
