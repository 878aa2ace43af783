//! How much the writer does at once.

use crate::limits;
use crate::model::time::Timestamp;

/// One in this many of the last measurements is new.
const AVERAGED: f64 = 8.0;

/// How many mutations the writer commits together. For one tenant alone it commits all that wait, which costs least.
/// With several tenants a batch is short, because newcomers wait for it: its mutations take about as long as the
/// commit.
#[derive(Default)]
pub(super) struct Pace {
    /// The last time at which the writer worked for several tenants; none if it never has.
    shared: Option<Timestamp>,
    now: Timestamp,
    /// Microseconds that a mutation takes until the commit, on average.
    mutation_micros: f64,
    /// Microseconds of a commit, on average.
    commit_micros: f64,
}

impl Pace {
    /// The most mutations of the next batch, of this number of tenants that wait: at least one of each.
    pub(super) fn most(&self, tenants: usize) -> usize {
        let is_shared = self.shared.is_some_and(|last| self.now.0 - last.0 < limits::WRITER_SHARED_MICROS);
        if !is_shared && tenants < 2 {
            return limits::WRITER_BATCH_MAX;
        }
        let micros = self.commit_micros.max(limits::WRITER_SHARED_BATCH_MICROS);
        let fit = (micros / self.mutation_micros.max(1.0)) as usize;
        fit.max(tenants).clamp(1, limits::WRITER_BATCH_MAX)
    }

    /// Notes that the writer works for several tenants.
    pub(super) fn share(&mut self, now: Timestamp) {
        self.shared = Some(now);
    }

    /// Learns from a transaction: when it began, when all its mutations were applied, when it was durable.
    pub(super) fn measure(&mut self, mutations: usize, began: Timestamp, applied: Timestamp, durable: Timestamp) {
        self.now = durable;
        let average = |before: &mut f64, new: f64| {
            *before = if *before > 0.0 { *before + (new - *before) / AVERAGED } else { new };
        };
        average(&mut self.mutation_micros, (applied.0 - began.0) as f64 / mutations.max(1) as f64);
        average(&mut self.commit_micros, (durable.0 - applied.0) as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(mutation_micros: i64, commit_micros: i64) -> Pace {
        let mut pace = Pace::default();
        let applied = 10 * mutation_micros;
        pace.measure(10, Timestamp(0), Timestamp(applied), Timestamp(applied + commit_micros));
        pace
    }

    #[test]
    fn batches_are_short_beside_other_tenants_and_long_alone() {
        let mut pace = measured(50, 100);
        assert_eq!(pace.most(1), limits::WRITER_BATCH_MAX, "alone");
        assert!(pace.most(2) < 20, "{}", pace.most(2));
        assert_eq!(pace.most(100), 100, "one of each tenant");
        pace.share(pace.now);
        assert!(pace.most(1) < 20, "the other one may come again: {}", pace.most(1));
        let later = pace.now.plus_millis(10_000);
        pace.measure(10, later, later.plus_millis(1), later.plus_millis(2));
        assert_eq!(pace.most(1), limits::WRITER_BATCH_MAX, "alone again");
    }

    #[test]
    fn a_slow_disk_has_longer_batches() {
        let slow = measured(50, 10_000);
        assert_eq!(slow.most(2), 200);
        assert_eq!(measured(5_000, 100).most(2), 2, "long mutations come one by one");
    }
}
