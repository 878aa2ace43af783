//! Connections to other daemons.

use crate::app::Reason;
use crate::limits;
use http::{HeaderMap, Request, Response};
use std::collections::{BTreeSet, HashMap};
use std::error::Error as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tonic::body::Body;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{ConnectError, Status};
use tonic_types::StatusExt as _;
use tower::ServiceExt as _;

/// Time for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval at which a daemon is asked whether it lives, and the time in which it answers: one that is frozen, or behind a
/// network that loses everything, is lost then.
const PING: Duration = Duration::from_millis(limits::PEER_PING_MS);
/// Bytes of one answer that are on their way, or wait for a client that takes them slowly.
const WINDOW_BYTES: u32 = 1024 * 1024;
/// The same of all answers of a daemon: as many as there can be, for answers that nobody takes would hold up all others.
const CONNECTION_WINDOW_BYTES: u32 = i32::MAX as u32;

/// Certificates for calls to daemons with TLS.
#[derive(Debug, Clone, Default)]
pub struct PeerTls {
    /// The authorities of the daemons' certificates, in PEM; none for those that the system trusts.
    pub authorities: Option<String>,
    /// The certificate and the key of this daemon, in PEM, for daemons that ask for one.
    pub identity: Option<(String, String)>,
}

/// What became of a call.
pub(super) enum ForwardOutcome {
    /// The daemon answers.
    Answer(Response<Body>),
    /// It did not get the call, or does not own the shard.
    Nothing,
    /// It was lost before its answer, with the reason.
    Lost(String),
}

/// The connections, by the addresses of the daemons.
pub(super) struct Channels {
    tls: PeerTls,
    known: Mutex<HashMap<String, Channel>>,
}

impl Channels {
    pub(super) fn new(tls: PeerTls) -> Self {
        Self { tls, known: Mutex::default() }
    }

    /// Closes the connections to others than these.
    pub(super) fn keep<'a>(&self, addresses: impl Iterator<Item = &'a str>) {
        let addresses: BTreeSet<&str> = addresses.collect();
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|address, _| addresses.contains(address.as_str()));
    }

    fn channel(&self, address: &str) -> Result<Channel, tonic::transport::Error> {
        let mut channels = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = channels.get(address) {
            return Ok(channel.clone());
        }
        let mut endpoint = Endpoint::from_shared(address.to_owned())?
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        if address.starts_with("https:") {
            let tls = match &self.tls.authorities {
                Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
                None => ClientTlsConfig::new().with_native_roots(),
            };
            endpoint = endpoint.tls_config(match &self.tls.identity {
                Some((certificate, key)) => tls.identity(Identity::from_pem(certificate, key)),
                None => tls,
            })?;
        }
        let channel = endpoint.connect_lazy();
        channels.insert(address.to_owned(), channel.clone());
        Ok(channel)
    }

    /// Sends a call to the daemon with an address.
    pub(super) async fn send(&self, address: &str, call: Request<Body>) -> ForwardOutcome {
        let sent = match self.channel(address) {
            Ok(channel) => channel.oneshot(call).await,
            Err(error) => Err(error),
        };
        match sent {
            Ok(answer) if is_elsewhere(answer.headers()) => ForwardOutcome::Nothing,
            Ok(answer) => ForwardOutcome::Answer(answer),
            Err(error) => {
                tracing::debug!(address, %error, "another daemon does not answer");
                match is_unreached(&error) {
                    true => ForwardOutcome::Nothing,
                    false => ForwardOutcome::Lost(error.to_string()),
                }
            }
        }
    }
}

/// True for the error of a connection that could not be made.
fn is_unreached(error: &tonic::transport::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// True for the answer of a daemon that does not own the shard.
fn is_elsewhere(headers: &HeaderMap) -> bool {
    reason(headers).is_some_and(|reason| reason == Reason::NoOwner.as_str())
}

/// The reason of an answer that is an error from its begin.
pub(super) fn reason(headers: &HeaderMap) -> Option<String> {
    let status = Status::from_header_map(headers)?;
    status.get_details_error_info().map(|info| info.reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::no_owner;

    #[test]
    fn an_owner_that_is_none_is_known_by_its_reason() {
        let refused = Status::from(no_owner("s1")).into_http::<Body>();
        assert!(is_elsewhere(refused.headers()));
        let other = Status::from(crate::app::Error::new(Reason::SessionNotFound, "no")).into_http::<Body>();
        assert!(!is_elsewhere(other.headers()) && reason(other.headers()).as_deref() == Some("SESSION_NOT_FOUND"));
        assert!(!is_elsewhere(&HeaderMap::new()));
    }
}
