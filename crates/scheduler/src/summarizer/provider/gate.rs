//! Limit and breaker for the requests to a provider.
//!
//! All jobs share one gate for each summarizer. A provider that asked for a pause gets no request until it is over, and
//! one that failed several times in a row gets none for a while: its jobs fail at once, without a request each.

use super::fault::{Class, Fault};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Number of failures in a row that open the breaker.
const FAILURES_MAX: u32 = 5;

/// Time that the breaker then stays open, in milliseconds.
const CLOSED_MS: i64 = 30_000;

/// State of the breaker for a provider's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breaker {
    /// Requests are sent.
    Closed,
    /// The provider asked for a pause and gets no requests until it is over.
    Paused,
    /// The provider failed several times in a row and gets no requests for a while.
    Open,
    /// The provider failed several times in a row, and the wait is over: the next request decides.
    HalfOpen,
}

/// State of a gate at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateState {
    /// State of the breaker.
    pub breaker: Breaker,
    /// Remaining time without requests, in milliseconds; 0 if requests are sent.
    pub closed_ms: i64,
    /// Requests in a row that failed transiently.
    pub failures: i64,
    /// Requests in progress.
    pub running: i64,
    /// Requests that wait for a slot.
    pub waiting: i64,
    /// Maximum number of requests in progress.
    pub slots: i64,
}

/// Limits the requests to a provider, and refuses them while the breaker is open or paused.
#[derive(Debug)]
pub(super) struct Gate {
    slots: usize,
    permits: Semaphore,
    waiting: AtomicI64,
    state: Mutex<BreakerCondition>,
}

/// Counts a waiting request until it is dropped.
struct WaitingRequest<'a>(&'a AtomicI64);

impl<'a> WaitingRequest<'a> {
    fn new(count: &'a AtomicI64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct BreakerCondition {
    closed_until: Option<Instant>,
    failures: u32,
}

impl Gate {
    /// Creates a gate for this number of simultaneous requests.
    pub(super) fn new(requests: usize) -> Self {
        let slots = requests.clamp(1, Semaphore::MAX_PERMITS);
        Self { slots, permits: Semaphore::new(slots), waiting: AtomicI64::new(0), state: Mutex::default() }
    }

    /// Waits for a slot; fails at once while the breaker is open or paused.
    pub(super) async fn acquire(&self) -> Result<SemaphorePermit<'_>, Fault> {
        self.check(Instant::now())?;
        let waiting = WaitingRequest::new(&self.waiting);
        let permit = self.permits.acquire().await;
        drop(waiting);
        let permit = permit.map_err(|_| Fault::new(Class::Cancelled, "the summarizer is shutting down"))?;
        // Earlier requests may have opened or paused the breaker during the wait.
        self.check(Instant::now())?;
        Ok(permit)
    }

    /// Records the outcome of a request.
    pub(super) fn record_outcome(&self, outcome: Result<(), &Fault>, now: Instant) {
        let mut state = self.state();
        match outcome {
            Err(fault) if fault.class == Class::Transient => {
                state.failures = state.failures.saturating_add(1);
                let pause = (state.failures >= FAILURES_MAX).then_some(CLOSED_MS);
                if let Some(wait) = fault.retry_after_ms.max(pause) {
                    let until = now + Duration::from_millis(wait.unsigned_abs());
                    state.closed_until = state.closed_until.max(Some(until));
                }
            }
            // Any other answer shows that the provider works. A pause that it asked for meanwhile stays.
            Err(_) | Ok(()) => state.failures = 0,
        }
    }

    /// The state at an instant.
    pub(super) fn state_at(&self, now: Instant) -> GateState {
        let state = self.state();
        let (closed, failures) = (state.closed_ms(now), state.failures);
        drop(state);
        let breaker = match (closed, failures >= FAILURES_MAX) {
            (Some(_), true) => Breaker::Open,
            (Some(_), false) => Breaker::Paused,
            (None, true) => Breaker::HalfOpen,
            (None, false) => Breaker::Closed,
        };
        GateState {
            breaker,
            closed_ms: closed.unwrap_or(0),
            failures: i64::from(failures),
            running: whole(self.slots.saturating_sub(self.permits.available_permits())),
            waiting: self.waiting.load(Ordering::Relaxed),
            slots: whole(self.slots),
        }
    }

    fn check(&self, now: Instant) -> Result<(), Fault> {
        match self.state().closed_ms(now) {
            None => Ok(()),
            Some(wait) => {
                let mut fault = Fault::new(Class::Transient, "the provider is left alone for a while");
                fault.retry_after_ms = Some(wait);
                Err(fault)
            }
        }
    }

    /// Locks the state. No code under the lock can panic, and the state is consistent at any time.
    fn state(&self) -> MutexGuard<'_, BreakerCondition> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BreakerCondition {
    /// Remaining time without requests at an instant, in milliseconds; none if requests are sent.
    fn closed_ms(&self, now: Instant) -> Option<i64> {
        let left = self.closed_until?.saturating_duration_since(now);
        (!left.is_zero()).then(|| i64::try_from(left.as_millis()).unwrap_or(i64::MAX).saturating_add(1))
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    fn fails(wait: Option<i64>) -> Fault {
        Fault { retry_after_ms: wait, ..Fault::new(Class::Transient, "busy") }
    }

    /// The remaining time without requests in milliseconds, at this number of milliseconds after `start`.
    fn wait_at(gate: &Gate, start: Instant, millis: u64) -> Option<i64> {
        gate.check(start + Duration::from_millis(millis)).err().and_then(|fault| fault.retry_after_ms)
    }

    #[test]
    fn a_pause_that_was_asked_for_is_kept() {
        let (gate, start) = (Gate::new(2), Instant::now());
        gate.record_outcome(Err(&fails(Some(2_000))), start);
        gate.record_outcome(Err(&fails(Some(500))), start);
        gate.record_outcome(Ok(()), start);
        assert_eq!([0, 1_999, 2_000].map(|at| wait_at(&gate, start, at)), [Some(2_001), Some(2), None]);
    }

    #[test]
    fn failures_in_a_row_close_it() {
        let (gate, start) = (Gate::new(1), Instant::now());
        let fail = |times: u32| (0..times).for_each(|_| gate.record_outcome(Err(&fails(None)), start));
        fail(FAILURES_MAX - 1);
        assert_eq!(wait_at(&gate, start, 0), None);
        gate.record_outcome(Err(&Fault::new(Class::Overflow, "too long")), start);
        fail(FAILURES_MAX - 1);
        assert_eq!(wait_at(&gate, start, 0), None, "it answered in between");
        fail(1);
        assert_eq!(wait_at(&gate, start, 0), Some(CLOSED_MS + 1));
        let later = CLOSED_MS.unsigned_abs();
        assert_eq!(wait_at(&gate, start, later), None, "the next one may try");
        gate.record_outcome(Err(&fails(None)), start + Duration::from_millis(later));
        assert_eq!(wait_at(&gate, start, later), Some(CLOSED_MS + 1), "and closes it again when it fails");
    }

    #[test]
    fn it_reports_its_state() {
        let (gate, start) = (Gate::new(3), Instant::now());
        let found = |millis: i64| {
            let found = gate.state_at(start + Duration::from_millis(millis.unsigned_abs()));
            (found.breaker, found.closed_ms, found.failures)
        };
        assert_eq!(found(0), (Breaker::Closed, 0, 0));
        gate.record_outcome(Err(&fails(Some(2_000))), start);
        assert_eq!([found(0), found(2_000)], [(Breaker::Paused, 2_001, 1), (Breaker::Closed, 0, 1)]);
        (1..FAILURES_MAX).for_each(|_| gate.record_outcome(Err(&fails(None)), start));
        let failures = i64::from(FAILURES_MAX);
        assert_eq!(found(0), (Breaker::Open, CLOSED_MS + 1, failures));
        assert_eq!(found(CLOSED_MS), (Breaker::HalfOpen, 0, failures));
        gate.record_outcome(Ok(()), start);
        assert_eq!(found(CLOSED_MS), (Breaker::Closed, 0, 0));
    }

    #[tokio::test]
    async fn only_so_many_are_let_in() {
        let gate = Gate::new(2);
        let counted = || {
            let found = gate.state_at(Instant::now());
            (found.running, found.waiting, found.slots)
        };
        let (first, _second) = (gate.acquire().await.expect("open"), gate.acquire().await.expect("open"));
        let mut third = Box::pin(gate.acquire());
        assert!(third.as_mut().now_or_never().is_none());
        assert_eq!(counted(), (2, 1, 2));
        drop(third);
        assert_eq!(counted(), (2, 0, 2), "who gives up waits no more");
        drop(first);
        assert!(gate.acquire().await.is_ok());
        assert_eq!(counted(), (1, 0, 2));
    }

    #[tokio::test]
    async fn a_closed_gate_is_not_waited_at() {
        let gate = Gate::new(1);
        let _first = gate.acquire().await.expect("open");
        gate.record_outcome(Err(&fails(Some(60_000))), Instant::now());
        assert!(gate.acquire().now_or_never().expect("at once").is_err());
    }

    #[tokio::test]
    async fn waiting_requests_fail_when_the_gate_closes() {
        let gate = Gate::new(1);
        let first = gate.acquire().await.expect("open");
        let mut second = std::pin::pin!(gate.acquire());
        assert!(second.as_mut().now_or_never().is_none(), "it waits");
        gate.record_outcome(Err(&fails(Some(60_000))), Instant::now());
        drop(first);
        assert_eq!(second.await.expect_err("closed").class, Class::Transient);
    }
}
