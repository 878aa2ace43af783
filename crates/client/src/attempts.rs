//! When a call is tried again.

use crate::error::{Error, Result};
use longhand_protocol::reason::Outcome;
use std::time::Duration;
use tokio::time::Instant;

/// The shortest and the longest time before another attempt.
const DELAYS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The times at which a call is tried again, and the time that it has in all.
#[derive(Debug)]
pub(crate) struct Attempts {
    /// The time after the first failure in which another attempt may begin; none for no end.
    retry: Option<Duration>,
    first_failure: Option<Instant>,
    /// The end of the call; none for no end.
    end: Option<Instant>,
    delay: Duration,
}

impl Attempts {
    /// Attempts from now on: how long after a failure another one may begin, and the time for all of them; none for no end.
    pub(crate) fn new(retry: Option<Duration>, timeout: Option<Duration>) -> Self {
        let after = |time: Option<Duration>| Instant::now().checked_add(time?);
        Self { retry, first_failure: None, end: after(timeout), delay: DELAYS.0 }
    }

    /// The daemon has answered: what fails from now on is another failure.
    pub(crate) fn begin_again(&mut self) {
        *self = Self::new(self.retry, None);
    }

    /// The time that is left; none for no end.
    pub(crate) fn left(&self) -> Option<Duration> {
        Some(self.end?.saturating_duration_since(Instant::now()))
    }

    /// One attempt, as long as there is time.
    pub(crate) async fn within<T>(&self, attempt: impl Future<Output = Result<T>>) -> Result<T> {
        match self.end {
            Some(end) => tokio::time::timeout_at(end, attempt).await.unwrap_or(Err(Error::Overdue)),
            None => attempt.await,
        }
    }

    /// The time of the next attempt, or the failure if that is final. A call that cannot be repeated is tried again only if
    /// it is certain that nothing was written.
    pub(crate) fn next(&mut self, failure: Error, is_repeatable: bool) -> Result<Instant> {
        if !failure.is_temporary() || !(is_repeatable || failure.outcome() == Outcome::Nothing) {
            return Err(failure);
        }
        let wait = failure.retry_after().unwrap_or_else(|| self.delay.mul_f64(rand::random_range(0.5..1.0)));
        // A peer that is gone without a word is noticed late: what the first attempt took does not count.
        let first = *self.first_failure.get_or_insert_with(Instant::now);
        let last = self.retry.and_then(|retry| first.checked_add(retry));
        let at = Instant::now() + wait;
        if [last, self.end].into_iter().flatten().any(|end| at > end) {
            return Err(failure);
        }
        self.delay = (2 * self.delay).min(DELAYS.1);
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(was_sent: bool) -> Error {
        Error::Lost { message: "reset".to_owned(), was_sent, is_lasting: false }
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_become_rarer_and_end() {
        let mut attempts = Attempts::new(Some(Duration::from_secs(30)), None);
        let began = Instant::now();
        let mut waits = Vec::new();
        while let Ok(at) = attempts.next(lost(true), true) {
            waits.push(at - Instant::now());
            tokio::time::sleep_until(at).await;
        }
        assert!(waits[0] <= DELAYS.0 && waits.iter().all(|wait| *wait <= DELAYS.1), "{waits:?}");
        assert!((18..60).contains(&waits.len()), "{waits:?}");
        assert!(began.elapsed() <= Duration::from_secs(30) && began.elapsed() > Duration::from_secs(27));
        attempts.begin_again();
        assert!(attempts.next(lost(true), true).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_fails_late_is_repeated_too() {
        let mut attempts = Attempts::new(Some(Duration::from_secs(10)), None);
        tokio::time::advance(Duration::from_secs(40)).await;
        assert!(attempts.next(lost(true), true).is_ok());
        tokio::time::advance(Duration::from_secs(11)).await;
        assert!(attempts.next(lost(true), true).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn no_attempt_begins_after_the_calls_own_end() {
        let mut attempts = Attempts::new(None, Some(Duration::from_millis(10)));
        assert!(attempts.next(lost(true), true).is_err());
        let never = attempts.within(std::future::pending::<Result<()>>()).await;
        assert!(matches!(never, Err(Error::Overdue)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_repeated_is_tried_again_only_if_nothing_was_written() {
        let mut attempts = Attempts::new(None, None);
        assert!(attempts.next(lost(true), false).is_err());
        assert!(attempts.next(lost(false), false).is_ok());
        let refused = Error::Invalid("no".to_owned());
        assert!(attempts.next(refused, true).is_err());
    }
}
