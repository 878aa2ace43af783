//! How many requests a provider gets at a time, and when it gets none.
//!
//! All jobs share one gate for each summarizer. A provider that asked for a pause gets no request until it is over, and
//! one that fails again and again gets none for a while: its jobs learn that at once, without a request each.

use super::fault::{Class, Fault};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Failures in a row after which the gate closes.
const FAILURES_MAX: u32 = 5;

/// For how long it closes then, in milliseconds.
const CLOSED_MS: i64 = 30_000;

/// Lets requests through, or not.
#[derive(Debug)]
pub(super) struct Gate {
    permits: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    closed_until: Option<Instant>,
    failures: u32,
}

impl Gate {
    /// A gate for so many requests at a time.
    pub(super) fn new(requests: usize) -> Self {
        Self { permits: Semaphore::new(requests.clamp(1, Semaphore::MAX_PERMITS)), state: Mutex::default() }
    }

    /// Waits for a place; refused at once while the gate is closed.
    pub(super) async fn enter(&self) -> Result<SemaphorePermit<'_>, Fault> {
        self.check(Instant::now())?;
        let permit = self.permits.acquire().await;
        let permit = permit.map_err(|_| Fault::new(Class::Cancelled, "the summarizer is shutting down"))?;
        // It may have been closed by those that were before us.
        self.check(Instant::now())?;
        Ok(permit)
    }

    /// Learns how a request ended.
    pub(super) fn ended(&self, outcome: Result<(), &Fault>, now: Instant) {
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
            // Whatever else it says, it answers. A pause that it asked for in the meantime holds all the same.
            Err(_) | Ok(()) => state.failures = 0,
        }
    }

    fn check(&self, now: Instant) -> Result<(), Fault> {
        let left = self.state().closed_until.map(|until| until.saturating_duration_since(now));
        match left.filter(|left| !left.is_zero()) {
            None => Ok(()),
            Some(left) => {
                let wait = i64::try_from(left.as_millis()).unwrap_or(i64::MAX).saturating_add(1);
                let mut fault = Fault::new(Class::Transient, "the provider is left alone for a while");
                fault.retry_after_ms = Some(wait);
                Err(fault)
            }
        }
    }

    /// Nothing that could panic is done under the lock, and what it guards is whole at any time.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    fn fails(wait: Option<i64>) -> Fault {
        Fault { retry_after_ms: wait, ..Fault::new(Class::Transient, "busy") }
    }

    /// How long a gate says it is closed, so many milliseconds after `start`.
    fn wait_at(gate: &Gate, start: Instant, millis: u64) -> Option<i64> {
        gate.check(start + Duration::from_millis(millis)).err().and_then(|fault| fault.retry_after_ms)
    }

    #[test]
    fn a_pause_that_was_asked_for_is_kept() {
        let (gate, start) = (Gate::new(2), Instant::now());
        gate.ended(Err(&fails(Some(2_000))), start);
        gate.ended(Err(&fails(Some(500))), start);
        gate.ended(Ok(()), start);
        assert_eq!([0, 1_999, 2_000].map(|at| wait_at(&gate, start, at)), [Some(2_001), Some(2), None]);
    }

    #[test]
    fn failures_in_a_row_close_it() {
        let (gate, start) = (Gate::new(1), Instant::now());
        let fail = |times: u32| (0..times).for_each(|_| gate.ended(Err(&fails(None)), start));
        fail(FAILURES_MAX - 1);
        assert_eq!(wait_at(&gate, start, 0), None);
        gate.ended(Err(&Fault::new(Class::Overflow, "too long")), start);
        fail(FAILURES_MAX - 1);
        assert_eq!(wait_at(&gate, start, 0), None, "it answered in between");
        fail(1);
        assert_eq!(wait_at(&gate, start, 0), Some(CLOSED_MS + 1));
        let later = CLOSED_MS.unsigned_abs();
        assert_eq!(wait_at(&gate, start, later), None, "the next one may try");
        gate.ended(Err(&fails(None)), start + Duration::from_millis(later));
        assert_eq!(wait_at(&gate, start, later), Some(CLOSED_MS + 1), "and closes it again when it fails");
    }

    #[tokio::test]
    async fn only_so_many_are_let_in() {
        let gate = Gate::new(2);
        let (first, _second) = (gate.enter().await.expect("open"), gate.enter().await.expect("open"));
        assert!(gate.enter().now_or_never().is_none());
        drop(first);
        assert!(gate.enter().await.is_ok());
    }

    #[tokio::test]
    async fn a_closed_gate_is_not_waited_at() {
        let gate = Gate::new(1);
        let _first = gate.enter().await.expect("open");
        gate.ended(Err(&fails(Some(60_000))), Instant::now());
        assert!(gate.enter().now_or_never().expect("at once").is_err());
    }

    #[tokio::test]
    async fn who_waits_learns_that_it_was_closed() {
        let gate = Gate::new(1);
        let first = gate.enter().await.expect("open");
        let mut second = std::pin::pin!(gate.enter());
        assert!(second.as_mut().now_or_never().is_none(), "it waits");
        gate.ended(Err(&fails(Some(60_000))), Instant::now());
        drop(first);
        assert_eq!(second.await.expect_err("closed").class, Class::Transient);
    }
}
