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
}

impl Clock {
    /// Now, or the latest instant given out if the system's clock is behind it.
    pub fn now(&self) -> Timestamp {
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
