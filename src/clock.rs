//! The one place that reads the time and draws ids.

use crate::model::time::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// Tells the time, and never backwards.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    /// The latest instant given out: a system clock that is set back does not take ours along.
    latest: Arc<AtomicI64>,
    /// It stands still until it is told to move.
    stands: bool,
}

impl Clock {
    /// A clock that shows this instant until it is advanced: time for tests, which then do not depend on how fast they
    /// run.
    pub fn standing_at(start: Timestamp) -> Self {
        Self { latest: Arc::new(AtomicI64::new(start.0)), stands: true }
    }

    /// Moves a clock that stands, and all its clones; one that runs is only moved up to where it will be anyway.
    pub fn advance(&self, millis: i64) {
        self.latest.fetch_add(millis.saturating_mul(1_000), Ordering::Relaxed);
    }

    /// Now, or the latest instant given out if the system's clock is behind it.
    pub fn now(&self) -> Timestamp {
        if self.stands {
            return Timestamp(self.latest.load(Ordering::Relaxed));
        }
        let system = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
        let system = i64::try_from(system).unwrap_or(i64::MAX);
        Timestamp(self.latest.fetch_max(system, Ordering::Relaxed).max(system))
    }

    /// Goes on from an instant, unless it is later than that already. Until the system's clock comes after, now is that
    /// instant. Who tests what waits for hours need not wait for them.
    pub fn skip_to(&self, instant: Timestamp) {
        self.latest.fetch_max(instant.0, Ordering::Relaxed);
    }
}

/// A fresh id. Ids of one process rise with time; nothing may rely on it.
pub fn fresh_id() -> Uuid {
    Uuid::now_v7()
}
