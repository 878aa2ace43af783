//! Shards that a daemon could not open. Daemons that can open them take them, and this one tries again after a while: what
//! was wrong may have been its directory.

use crate::limits;
use crate::postgres::ShardFailure;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use tokio::time::Instant;

/// The failures since the daemon began.
#[derive(Default)]
pub(super) struct OpenFailures {
    shards: HashMap<String, OpenFailure>,
    /// How often shards were left to others since one was opened: a daemon that can open none is not given one after the
    /// other.
    left: u32,
}

struct OpenFailure {
    error: String,
    /// How often it was left to others, and how often it was tried since, because nobody can open it.
    left: u32,
    tries: u32,
    last: Instant,
    /// The end of the time for which it is left to others.
    held_until: Instant,
}

/// A time that doubles with each attempt.
fn doubled_pause(first: Duration, attempts: u32, longest: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(attempts.saturating_sub(1))).min(longest)
}

impl OpenFailures {
    pub(super) fn note(&mut self, shard: &str, error: &impl ToString) {
        let now = Instant::now();
        let earlier = self.shards.remove(shard);
        let error = error.to_string();
        let failure = match earlier {
            // Nobody else can open it: it stays as long as it would have.
            Some(earlier) if now < earlier.held_until => {
                OpenFailure { error, tries: earlier.tries + 1, last: now, ..earlier }
            }
            earlier => {
                self.left = self.left.saturating_add(1);
                let left = earlier.map_or(1, |earlier| earlier.left.saturating_add(1));
                let (first, longest) = limits::SHARD_FAILURE_MS;
                let (first, longest) = (Duration::from_millis(first), Duration::from_millis(longest));
                let hold = doubled_pause(first, left.max(self.left), longest);
                OpenFailure { error, left, tries: 1, last: now, held_until: now + hold }
            }
        };
        self.shards.insert(shard.to_owned(), failure);
    }

    /// Notes that a shard was opened.
    pub(super) fn clear(&mut self, shard: &str) {
        self.shards.remove(shard);
        self.left = 0;
    }

    /// The shards that are left to others for now.
    pub(super) fn current(&self) -> Vec<ShardFailure> {
        let now = Instant::now();
        let open_failures = self.shards.iter().filter(|(_, failure)| now < failure.held_until);
        let mut current: Vec<ShardFailure> = open_failures
            .map(|(shard, failure)| ShardFailure { shard: shard.clone(), error: failure.error.clone() })
            .collect();
        current.sort_unstable_by(|one, other| one.shard.cmp(&other.shard));
        current
    }

    /// The shards that are tried again if no other daemon can open them, the first time after `first`.
    pub(super) fn due(&self, first: Duration) -> BTreeSet<String> {
        let longest = Duration::from_millis(limits::SHARD_FAILURE_MS.0);
        let is_due = |failure: &OpenFailure| failure.last.elapsed() >= doubled_pause(first, failure.tries, longest);
        self.shards.iter().filter(|(_, failure)| is_due(failure)).map(|(shard, _)| shard.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_secs(2);

    fn failing_shards(failures: &OpenFailures) -> Vec<String> {
        failures.current().into_iter().map(|failure| failure.shard).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_shard_is_left_to_others_for_longer_each_time() {
        let mut failures = OpenFailures::default();
        for seconds in [60, 120, 240, 480, 960, 1920, 3600, 3600] {
            failures.note("s2", &"no directory");
            tokio::time::advance(Duration::from_secs(seconds - 1)).await;
            assert_eq!(failing_shards(&failures), ["s2"], "{seconds}");
            tokio::time::advance(Duration::from_secs(1)).await;
            assert!(failing_shards(&failures).is_empty(), "{seconds}");
        }
        failures.note("s2", &"no directory");
        failures.clear("s2");
        assert_eq!((failures.current(), failures.due(FIRST)), (Vec::new(), BTreeSet::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_daemon_that_can_open_none_is_left_alone_for_longer_each_time() {
        let mut failures = OpenFailures::default();
        for (shard, seconds) in [("s1", 60), ("s2", 120), ("s3", 240)] {
            failures.note(shard, &"an older version");
            tokio::time::advance(Duration::from_secs(seconds - 1)).await;
            assert_eq!(failing_shards(&failures), [shard]);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        failures.clear("s4");
        failures.note("s5", &"no directory");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(failing_shards(&failures).is_empty(), "one was opened");
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_can_open_is_tried_again_soon_and_left_no_longer_for_it() {
        let mut failures = OpenFailures::default();
        failures.note("s1", &"no directory");
        for seconds in [2, 4, 8, 16] {
            tokio::time::advance(Duration::from_secs(seconds - 1)).await;
            assert!(failures.due(FIRST).is_empty(), "{seconds}");
            tokio::time::advance(Duration::from_secs(1)).await;
            assert_eq!(failures.due(FIRST), BTreeSet::from(["s1".to_owned()]), "{seconds}");
            failures.note("s1", &"no directory");
        }
        tokio::time::advance(Duration::from_secs(30)).await;
        assert!(failing_shards(&failures).is_empty());
    }
}
