//! Figures of a running store: queued mutations, the duration of commits, and reads in progress.

use crate::clock::Clock;
use crate::model::time::Timestamp;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Figures of the store at one time. Durations and counts start anew with the daemon.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Mutations that wait for their commit, including those of the current transaction.
    pub queued_mutations: i64,
    /// Durations of commits.
    pub commits: CommitDurations,
    /// Bytes of the write-ahead log on disk.
    pub log_bytes: i64,
    /// Age of the oldest read in progress, in milliseconds; 0 without one.
    pub oldest_read_ms: i64,
}

/// Upper bounds of the counted durations of commits, in microseconds.
pub const COMMIT_BOUNDS_MICROS: [i64; 7] = [250, 1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000];

/// Durations of successful transactions of the writer, from their first statement until they are durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommitDurations {
    /// Number of transactions.
    pub count: i64,
    /// Sum of their durations, in microseconds.
    pub total_micros: i64,
    /// For each of `COMMIT_BOUNDS_MICROS`, the number of transactions that took at most that long.
    pub within: [i64; COMMIT_BOUNDS_MICROS.len()],
}

/// Counts the writer's work. Clones share the counts.
#[derive(Clone, Default)]
pub struct WriterMeter {
    shared: Arc<Meter>,
}

#[derive(Default)]
struct Meter {
    queued: AtomicI64,
    /// Notified when nothing is queued any more.
    idle: Notify,
    commits: Mutex<CommitDurations>,
}

/// Counts a mutation as queued until it is dropped.
pub struct QueuedMutation(WriterMeter);

impl WriterMeter {
    /// Counts one more queued mutation.
    pub fn queue(&self) -> QueuedMutation {
        self.shared.queued.fetch_add(1, Ordering::Relaxed);
        QueuedMutation(self.clone())
    }

    /// Number of queued mutations.
    pub fn queued(&self) -> i64 {
        self.shared.queued.load(Ordering::Relaxed)
    }

    /// Waits until no mutation is queued.
    pub async fn idle(&self) {
        loop {
            // Woken by whatever happens from here on.
            let idle = self.shared.idle.notified();
            if self.queued() <= 0 {
                return;
            }
            idle.await;
        }
    }

    /// Counts a durable transaction.
    pub fn committed(&self, start: Timestamp, end: Timestamp) {
        let micros = end.0.saturating_sub(start.0);
        let mut commits = lock(&self.shared.commits);
        commits.count += 1;
        commits.total_micros = commits.total_micros.saturating_add(micros);
        for (count, bound) in commits.within.iter_mut().zip(COMMIT_BOUNDS_MICROS) {
            *count += i64::from(micros <= bound);
        }
    }

    /// Durations of commits.
    pub fn commits(&self) -> CommitDurations {
        *lock(&self.shared.commits)
    }
}

impl Drop for QueuedMutation {
    fn drop(&mut self) {
        let Meter { queued, idle, .. } = &*self.0.shared;
        if queued.fetch_sub(1, Ordering::Relaxed) == 1 {
            idle.notify_waiters();
        }
    }
}

/// Start times of the reads in progress.
pub struct ReadMeter {
    clock: Clock,
    /// Start times by the order of the reads, with the number of the next one.
    reads: Mutex<(u64, BTreeMap<u64, Timestamp>)>,
}

/// Counts a read as in progress until it is dropped.
pub struct RunningRead<'m> {
    meter: &'m ReadMeter,
    number: u64,
}

impl ReadMeter {
    /// A meter without reads.
    pub fn new(clock: Clock) -> Self {
        Self { clock, reads: Mutex::default() }
    }

    /// Counts one more read.
    pub fn begin(&self) -> RunningRead<'_> {
        let mut reads = lock(&self.reads);
        let number = reads.0;
        reads.0 += 1;
        reads.1.insert(number, self.clock.now());
        RunningRead { meter: self, number }
    }

    /// Age of the oldest read in progress, in milliseconds; 0 without one.
    pub fn oldest_ms(&self) -> i64 {
        let oldest = lock(&self.reads).1.first_key_value().map(|(_, start)| *start);
        oldest.map_or(0, |start| self.clock.now().0.saturating_sub(start.0) / 1_000)
    }
}

impl Drop for RunningRead<'_> {
    fn drop(&mut self) {
        lock(&self.meter.reads).1.remove(&self.number);
    }
}

/// The counts are consistent at any time, so a poisoned lock does no harm.
fn lock<T>(counts: &Mutex<T>) -> MutexGuard<'_, T> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[tokio::test]
    async fn who_waits_for_an_idle_writer_waits_for_what_comes_meanwhile_too() {
        let meter = WriterMeter::default();
        assert!(meter.idle().now_or_never().is_some(), "nothing is queued");
        let first = meter.queue();
        let mut idle = Box::pin(meter.idle());
        assert!((&mut idle).now_or_never().is_none());
        let second = meter.queue();
        drop(first);
        assert!((&mut idle).now_or_never().is_none(), "another one is queued");
        drop(second);
        let third = meter.queue();
        assert!((&mut idle).now_or_never().is_none(), "it was idle for a moment alone");
        drop(third);
        assert!(idle.now_or_never().is_some());
    }
}
