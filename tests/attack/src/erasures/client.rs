//! A client of the daemon: it repeats a call until it is answered, through all kills.

use super::Shared;
use crate::daemon;
use anyhow::{Result, bail};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::transport::Channel;
use tonic::{Response, Status};
use tonic_types::StatusExt as _;

/// Maximum time for which a call is repeated.
const CALL_TIME_MAX: Duration = Duration::from_secs(120);
/// Pause before a call is repeated.
const RETRY_PAUSE: Duration = Duration::from_millis(5);
/// Reasons after which the same call is made again.
const PASSING: [&str; 5] = ["SHUTTING_DOWN", "STORE_BUSY", "TOO_MANY_VIEWS", "TOO_MANY_REQUESTS", "REQUEST_TIMED_OUT"];

/// A client with a connection of its own.
pub(super) struct Client {
    shared: Arc<Shared>,
    channel: Channel,
}

impl Client {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), channel: daemon::connect(&shared.socket) }
    }

    /// Makes a call until it is answered or refused: the inner result has the reason of a refusal.
    pub(super) async fn call<T, C>(&mut self, mut call: impl FnMut(Channel) -> C) -> Result<Result<T, String>>
    where
        C: Future<Output = Result<Response<T>, Status>>,
    {
        let began = Instant::now();
        while began.elapsed() < CALL_TIME_MAX {
            self.shared.wait_until_up().await;
            match tokio::time::timeout(CALL_TIME_MAX / 2, call(self.channel.clone())).await {
                Ok(Ok(answer)) => return Ok(Ok(answer.into_inner())),
                Ok(Err(status)) => match status.get_error_details().error_info() {
                    Some(info) if PASSING.contains(&info.reason.as_str()) => {}
                    Some(info) => return Ok(Err(info.reason.clone())),
                    // The connection or the daemon is lost.
                    None => self.channel = daemon::connect(&self.shared.socket),
                },
                Err(_) => bail!("a call was not answered within {CALL_TIME_MAX:?}"),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        bail!("a call was not answered within {CALL_TIME_MAX:?}")
    }
}
