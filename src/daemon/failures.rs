//! Shards that a daemon could not open. Daemons that can open them take them, and this one tries again after a while: what
//! was wrong may have been its directory.

use crate::limits;
use crate::store::ShardFailure;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use tokio::time::Instant;

/// The failures since the daemon began.
#[derive(Default)]
pub(super) struct OpenFailures(HashMap<String, OpenFailure>);

struct OpenFailure {
    error: String,
    attempts: u32,
    last: Instant,
}

impl OpenFailure {
    /// A time that doubles with each attempt.
    fn doubled(&self, first: Duration, longest: Duration) -> Duration {
        first.saturating_mul(2_u32.saturating_pow(self.attempts.saturating_sub(1))).min(longest)
    }
}

impl OpenFailures {
    pub(super) fn note(&mut self, shard: &str, error: &impl ToString) {
        let attempts = self.0.get(shard).map_or(1, |failure| failure.attempts.saturating_add(1));
        let failure = OpenFailure { error: error.to_string(), attempts, last: Instant::now() };
        self.0.insert(shard.to_owned(), failure);
    }

    pub(super) fn clear(&mut self, shard: &str) {
        self.0.remove(shard);
    }

    /// The shards that are left to others for now.
    pub(super) fn current(&self) -> Vec<ShardFailure> {
        let (first, longest) = limits::SHARD_FAILURE_MS;
        let hold =
            |failure: &OpenFailure| failure.doubled(Duration::from_millis(first), Duration::from_millis(longest));
        let held = self.0.iter().filter(|(_, failure)| failure.last.elapsed() < hold(failure));
        let mut current: Vec<ShardFailure> =
            held.map(|(shard, failure)| ShardFailure { shard: shard.clone(), error: failure.error.clone() }).collect();
        current.sort_unstable_by(|one, other| one.shard.cmp(&other.shard));
        current
    }

    /// The shards that are tried again if no other daemon can open them, the first time after `first`.
    pub(super) fn due(&self, first: Duration) -> BTreeSet<String> {
        let longest = Duration::from_millis(limits::SHARD_FAILURE_MS.0);
        let due = self.0.iter().filter(|(_, failure)| failure.last.elapsed() >= failure.doubled(first, longest));
        due.map(|(shard, _)| shard.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_shard_is_left_to_others_for_longer_each_time() {
        let mut failures = OpenFailures::default();
        let first = Duration::from_secs(2);
        for (seconds_due, seconds_held) in [(2, 60), (4, 120), (8, 240), (16, 480), (32, 960), (60, 1920), (60, 3600)] {
            failures.note("s2", &"no directory");
            assert_eq!((failures.current().len(), failures.due(first).len()), (1, 0));
            tokio::time::advance(Duration::from_secs(seconds_due)).await;
            assert_eq!(failures.due(first), BTreeSet::from(["s2".to_owned()]));
            tokio::time::advance(Duration::from_secs(seconds_held - seconds_due)).await;
            assert_eq!(failures.current(), []);
        }
        failures.note("s2", &"no directory");
        failures.clear("s2");
        assert_eq!((failures.current(), failures.due(first)), (Vec::new(), BTreeSet::new()));
    }
}
