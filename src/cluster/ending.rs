//! What a daemon that stops does with the calls that it passed on.

use crate::app::{Error, Reason};
use crate::limits;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Resolves when a daemon that stops waits for others no more.
pub(super) async fn ending(stopping: CancellationToken) {
    stopping.cancelled().await;
    tokio::time::sleep(Duration::from_millis(limits::STOP_OTHERS_MS)).await;
}

pub(super) fn stopping() -> Error {
    Error::new(Reason::ShuttingDown, "the daemon is stopping")
}
