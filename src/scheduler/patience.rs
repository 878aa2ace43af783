//! Asking the store again for what it could not do just now.

use crate::limits;
use crate::store;
use std::time::Duration;

/// Asks until it is done, or until waiting no longer helps: a queue that is full empties, and a transaction that failed
/// for no fault of its own succeeds the next time. What was worked out for it is not worked out again.
pub(super) async fn patiently<T, F>(mut ask: impl FnMut() -> F) -> store::Result<T>
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
