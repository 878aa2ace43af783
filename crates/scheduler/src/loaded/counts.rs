//! Token counts of messages, each computed once. Those of tokenizers that must encode each text are stored; large messages
//! are counted apart from the runtime's threads, on which everybody waits, and in pieces, between which other callers have
//! their turns.

use crate::limits;
use crate::model::ids::MessageId;
use crate::model::message::Role;
use crate::model::part::PartBody;
use crate::model::view::{Counts, SourceMessage};
use crate::policy::{Policy, bpe, tokens};
use crate::store::{self, MessageCounts, Store};
use crate::turns::{self, Gate, Share};
use futures::executor::block_on;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use tokio::sync::Semaphore;

/// Counts that the store does not have yet.
pub type FreshCounts = Vec<(MessageId, MessageCounts)>;

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
                    fresh.push((message.id, MessageCounts { counting: counting.clone(), counts: counts.clone() }));
                }
                counts
            }
        };
        source.counts = Some(Arc::new(counts));
    }
    Ok(fresh)
}

/// Estimates messages under policies that estimate by length. Open messages, which may still grow, and pruned ones, of which
/// the view shows less, are left out.
pub(super) fn by_length(policy: &Policy, messages: &mut [SourceMessage]) {
    if tokens::basis(policy).is_some() {
        return;
    }
    let is_settled = |source: &&mut SourceMessage| {
        source.counts.is_none() && source.pruned.is_empty() && source.message.sealed_revision.is_some()
    };
    for source in messages.iter_mut().filter(is_settled) {
        let bodies: Vec<&PartBody> = source.message.parts.iter().map(|part| &*part.body).collect();
        source.counts = Some(Arc::new(tokens::count(policy, source.message.role, &bodies)));
    }
}

/// Turns of large messages, each for a piece of the work.
static TURNS: LazyLock<Arc<Gate>> = LazyLock::new(|| Gate::new(limits::COUNTERS));

/// Places of large messages whose counts have begun, each of which has a thread.
static BEGUN: Semaphore = Semaphore::const_new(limits::BEGUN_COUNTS);

/// The places among them that a caller may have.
static OF_CALLERS: LazyLock<Mutex<HashMap<Share, Weak<Semaphore>>>> = LazyLock::new(Mutex::default);

/// The places that a caller may have.
fn places_of(share: &Share) -> Arc<Semaphore> {
    // The map is consistent at any time, so a poisoned lock does no harm.
    let mut of_callers = OF_CALLERS.lock().unwrap_or_else(PoisonError::into_inner);
    of_callers.retain(|_, places| places.strong_count() > 0);
    of_callers.get(share).and_then(Weak::upgrade).unwrap_or_else(|| {
        let places = Arc::new(Semaphore::new(limits::BEGUN_COUNTS_OF_CALLER));
        of_callers.insert(share.clone(), Arc::downgrade(&places));
        places
    })
}

/// Counts a message with these parts: a small one here, and a large one, which takes seconds, on a thread of its own, in
/// pieces by turns of the callers.
pub async fn count(policy: &Policy, role: Role, parts: Vec<Arc<PartBody>>) -> store::Result<Counts> {
    let bytes = parts.iter().map(|body| body.growth_bytes()).fold(0, i64::saturating_add);
    if bytes <= limits::COUNTED_AT_ONCE_BYTES {
        let bodies: Vec<&PartBody> = parts.iter().map(|body| &**body).collect();
        return Ok(tokens::count(policy, role, &bodies));
    }
    let share = turns::share();
    // Who waits for a place has no turn, which the others need to go on.
    let places = (places_of(&share).acquire_owned().await, BEGUN.acquire().await);
    let mut turn = TURNS.pass(&share).await;
    let policy = policy.clone();
    let counting = tokio::task::spawn_blocking(move || {
        let bodies: Vec<&PartBody> = parts.iter().map(|body| &**body).collect();
        let pass_turn = move || {
            drop(turn.take());
            turn = block_on(TURNS.pass(&share));
        };
        let counts = bpe::with_pauses(pass_turn, || tokens::count(&policy, role, &bodies));
        // The places are taken as long as the work lasts, even if nobody waits for it any more.
        drop(places);
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
