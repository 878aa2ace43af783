//! Retries of calls to the store that failed for a moment.

use crate::limits;
use crate::store;
use std::time::Duration;

/// Repeats a call until it succeeds or waiting no longer helps: a full queue empties, and a transaction that failed for
/// an external reason succeeds later. The caller's work for it is not repeated.
pub(super) async fn with_retry<T, F>(mut ask: impl FnMut() -> F) -> store::Result<T>
where
    F: Future<Output = store::Result<T>>,
{
    let mut wait = limits::RETRY_MS_MIN;
    loop {
        let error = match ask().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let longest = match error {
            store::Error::Busy => limits::RETRY_MS_MAX,
            // An operator has to make room, which takes a while.
            store::Error::Full | store::Error::ReadOnly => limits::RETRY_MS_MAX,
            store::Error::Database(_) => limits::COMMIT_RETRY_MS_MAX,
            _ => return Err(error),
        };
        if wait > longest {
            return Err(error);
        }
        tracing::warn!(%error, wait_ms = wait, "the store is asked again");
        tokio::time::sleep(Duration::from_millis(wait.unsigned_abs())).await;
        wait *= 2;
    }
}

/// True if a claim is still held after an attempt to renew it. A full queue or a failed transaction does not end the
/// claim, which holds for two more heartbeats, so the work under it continues.
pub(super) fn is_held(beat: store::Result<()>) -> store::Result<bool> {
    match beat {
        Ok(()) => Ok(true),
        Err(store::Error::LeaseLost) => Ok(false),
        Err(error @ (store::Error::Busy | store::Error::Full | store::Error::ReadOnly | store::Error::Database(_))) => {
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
        for passes in [store::Error::Busy, store::Error::Full, store::Error::ReadOnly] {
            assert!(is_held(Err(passes)).expect("it passes"));
        }
        let refused = store::Error::Database(rusqlite::Error::QueryReturnedNoRows);
        assert!(is_held(Err(refused)).expect("it passes"));
        assert!(!is_held(Err(store::Error::LeaseLost)).expect("no error"));
        assert!(is_held(Err(store::Error::Closed)).is_err());
    }
}
