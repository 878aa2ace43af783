//! Health of the scheduler: failures to read the store, and sessions on which work fails.

use crate::limits;
use crate::model::time::Timestamp;
use crate::store::SessionKey;
use std::sync::Arc;
use tokio::sync::watch;

/// Health of the scheduler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// Set while the scheduler cannot read the store; no compaction runs until it can.
    pub failure: Option<ReadFailure>,
    /// Sessions that get no work for a while because the last work on them failed; `limits::STATUS_SESSIONS_MAX` of
    /// them.
    pub failing: Vec<SessionKey>,
}

/// Failure of the scheduler to read the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadFailure {
    /// The store's last error.
    pub message: String,
    /// The time of the first failure.
    pub since: Timestamp,
    /// Number of attempts since then.
    pub attempts: i64,
}

/// The shared health, which the scheduler writes.
#[derive(Clone, Default)]
pub(super) struct Reports {
    health: Arc<watch::Sender<Health>>,
}

impl Reports {
    /// The health, current and future.
    pub(super) fn subscribe(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    /// Records that the store could not be read.
    pub(super) fn unreadable(&self, why: &impl std::fmt::Display, now: Timestamp) {
        self.health.send_modify(|health| {
            let (since, attempts) =
                health.failure.as_ref().map_or((now, 0), |failure| (failure.since, failure.attempts));
            health.failure = Some(ReadFailure { message: why.to_string(), since, attempts: attempts + 1 });
        });
    }

    /// Records that the store was read.
    pub(super) fn readable(&self) {
        self.health.send_if_modified(|health| health.failure.take().is_some());
    }

    /// Records the sessions that get no work for a while.
    pub(super) fn failing(&self, sessions: impl Iterator<Item = SessionKey>) {
        let most = usize::try_from(limits::STATUS_SESSIONS_MAX).unwrap_or(usize::MAX);
        let mut failing: Vec<SessionKey> = sessions.collect();
        failing.sort_unstable();
        failing.truncate(most);
        self.health.send_if_modified(|health| {
            let is_news = health.failing != failing;
            health.failing = failing;
            is_news
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_reported_while_they_last() {
        let reports = Reports::default();
        let health = || reports.health.borrow().clone();
        reports.unreadable(&"no such table", Timestamp(5));
        reports.unreadable(&"disk I/O error", Timestamp(9));
        let failure = ReadFailure { message: "disk I/O error".to_owned(), since: Timestamp(5), attempts: 2 };
        assert_eq!(health().failure, Some(failure));
        reports.readable();
        assert_eq!(health(), Health::default());
        let many = 2 * limits::STATUS_SESSIONS_MAX;
        reports.failing((1..=many).rev().map(SessionKey));
        assert_eq!(health().failing, (1..=limits::STATUS_SESSIONS_MAX).map(SessionKey).collect::<Vec<_>>());
        reports.failing(std::iter::empty());
        assert_eq!(health(), Health::default());
    }
}
