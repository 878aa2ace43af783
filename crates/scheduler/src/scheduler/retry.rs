//! Delays before retries, and retries of calls to the store that failed for a moment.
//!
//! Crates for retries repeat a call within a process and count its failures there. Here the number of failures is stored
//! with a job, or kept for a session between its turns.

use crate::limits;
use crate::store;
use std::time::Duration;

/// Delay before a retry after this number of failures in a row, in milliseconds: twice as long each time. The caller
/// bounds it.
pub(super) fn delay(failures: i64) -> i64 {
    limits::RETRY_MS_MIN << failures.saturating_sub(1).clamp(0, 16)
}

/// Delay before the next attempt of a job, in milliseconds, with jitter so that sessions do not run in step.
pub(super) fn backoff(attempt: i64) -> i64 {
    let longest = delay(attempt).min(limits::RETRY_MS_MAX);
    rand::random_range(longest / 2..=longest)
}

/// Repeats a call until it succeeds or waiting no longer helps: a full queue empties, and a transaction that failed for
/// an external reason succeeds later. The caller's work for it is not repeated.
pub(super) async fn with_retry<T, F>(mut ask: impl FnMut() -> F) -> store::Result<T>
where
    F: Future<Output = store::Result<T>>,
{
    let mut failures = 0;
    loop {
        let error = match ask().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let longest = match error {
            store::Error::Busy(_) => limits::RETRY_MS_MAX,
            // An operator has to free space, which takes a while.
            store::Error::Full | store::Error::ReadOnly => limits::RETRY_MS_MAX,
            store::Error::Database(_) | store::Error::Unreachable(_) => limits::COMMIT_RETRY_MS_MAX,
            _ => return Err(error),
        };
        failures += 1;
        let wait = delay(failures);
        if wait > longest {
            return Err(error);
        }
        tracing::warn!(%error, wait_ms = wait, "the store is asked again");
        tokio::time::sleep(Duration::from_millis(wait.unsigned_abs())).await;
    }
}

/// True if a claim is still held after an attempt to renew it. A full queue or a failed transaction does not end the
/// claim, which holds for two more heartbeats, so the work under it continues.
pub(super) fn is_held(beat: store::Result<()>) -> store::Result<bool> {
    match beat {
        Ok(()) => Ok(true),
        Err(store::Error::LeaseLost) => Ok(false),
        Err(
            error @ (store::Error::Busy(_)
            | store::Error::Full
            | store::Error::ReadOnly
            | store::Error::Database(_)
            | store::Error::Unreachable(_)),
        ) => {
            tracing::warn!(%error, "a claim is renewed later");
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_outlives_what_passes() {
        assert!(is_held(Ok(())).expect("no error"));
        for passes in [store::Error::Busy("busy"), store::Error::Full, store::Error::ReadOnly] {
            assert!(is_held(Err(passes)).expect("it passes"));
        }
        let refused = store::Error::Database("refused".to_owned());
        assert!(is_held(Err(refused)).expect("it passes"));
        assert!(!is_held(Err(store::Error::LeaseLost)).expect("no error"));
        assert!(is_held(Err(store::Error::Closed)).is_err());
    }
}
