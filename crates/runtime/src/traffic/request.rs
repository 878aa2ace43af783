//! The memory of one request, from its admission until its answer begins: as it is sent, and as it is decoded.

use super::{MemoryBudget, Reservation};
use crate::limits;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

tokio::task_local! {
    static CURRENT: Arc<RequestMemory>;
}

/// The memory of a request.
pub struct RequestMemory {
    /// Holds its bytes as they were sent.
    held: Arc<Reservation>,
    /// Bytes that it grew to when it was decoded.
    decoded: AtomicUsize,
    requests: Arc<MemoryBudget>,
    /// Holds what it grew by beyond a small request.
    more: Mutex<Option<Reservation>>,
}

impl RequestMemory {
    /// The memory of a request whose bytes are held already.
    pub fn new(held: Arc<Reservation>, requests: &Arc<MemoryBudget>) -> Arc<Self> {
        let (decoded, more) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { held, decoded, requests: requests.clone(), more })
    }

    /// Runs the call of this request.
    pub fn scope<F: Future>(self: Arc<Self>, call: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, call)
    }

    /// The memory of the current call's request, for a task that goes on with the call.
    pub fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// Holds the memory that the current call's request, or its newest frame, takes once it is decoded. False if others
    /// have it. A request that came over no connection is its caller's memory.
    pub fn grow(bytes: usize) -> bool {
        CURRENT.try_with(|memory| memory.hold(bytes)).unwrap_or(true)
    }

    fn hold(&self, bytes: usize) -> bool {
        self.decoded.store(bytes, Ordering::Relaxed);
        let mut more = self.more.lock().unwrap_or_else(PoisonError::into_inner);
        *more = None;
        let held = self.held.bytes();
        if bytes <= held {
            return true;
        }
        if bytes <= limits::SMALL_REQUEST_BYTES {
            self.held.resize(bytes);
            return true;
        }
        if self.held.is_of(&self.requests) {
            return self.held.try_grow(bytes);
        }
        *more = self.requests.try_hold(bytes - held);
        more.is_some()
    }

    /// Releases the bytes as they were sent, and keeps holding what was decoded.
    pub fn release_sent(&self) {
        let decoded = self.decoded.load(Ordering::Relaxed).max(limits::REQUEST_BYTES_MIN);
        self.held.resize(decoded.min(self.held.bytes()));
    }

    /// The reservation for its bytes as they were sent.
    pub fn reservation(&self) -> &Arc<Reservation> {
        &self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_request_grows_to_is_held_until_it_is_answered() {
        let (small, requests) = (MemoryBudget::new(1 << 20), MemoryBudget::new(1 << 20));
        let request = |bytes| RequestMemory::new(Arc::new(small.hold(bytes)), &requests);
        assert!(RequestMemory::grow(1 << 30), "nobody waits for it");
        let (grown, other) = (request(100), request(100));
        let call = async || (RequestMemory::grow(10_000), small.held_bytes(), requests.held_bytes());
        assert_eq!(grown.clone().scope(call()).await, (true, 10_100, 0), "a little is small");
        assert!(grown.clone().scope(async { RequestMemory::grow(1 << 20) }).await);
        let refused = other.clone().scope(async { RequestMemory::grow(100_000) });
        assert!(!refused.await, "the rest is taken");
        grown.release_sent();
        assert_eq!(requests.held_bytes(), (1 << 20) - 10_000);
        drop(grown);
        let current = other.scope(async { RequestMemory::grow(100_000) && RequestMemory::current().is_some() });
        assert!(current.await);
        assert_eq!((small.held_bytes(), requests.held_bytes()), (0, 0));
        let large = RequestMemory::new(Arc::new(requests.hold(100_000)), &requests);
        assert!(large.clone().scope(async { RequestMemory::grow(2 << 20) }).await, "it is alone");
        assert_eq!(requests.held_bytes(), 2 << 20);
        large.release_sent();
        let _other = requests.hold(1 << 10);
        assert!(!large.scope(async { RequestMemory::grow(4 << 20) }).await);
    }
}
