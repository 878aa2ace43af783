//! The connection to a daemon. It comes back by itself when it is lost.

use crate::address::Address;
use crate::error::{Error, Result, innermost};
use crate::socket;
use crate::target::Target;
use longhand_protocol::{ACTOR_HEADER, RUN_EPOCH_HEADER, TENANT_HEADER};
use std::time::Duration;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

/// Flow-control window of the connection and of each stream, in bytes: large, so that a page is one round trip.
const WINDOW_BYTES: u32 = 16 * 1024 * 1024;
/// Timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A peer that is gone without a word, or stopped, is noticed also by a stream on which nothing is expected.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Connects to the target.
pub(crate) async fn open(target: &Target) -> Result<Channel> {
    let Target { address, authorities, .. } = target;
    let authority = match address {
        Address::Unix(_) => "http://localhost".to_owned(),
        Address::Http(url) => url.clone(),
    };
    let invalid = |error| Error::Invalid(format!("{address} is no server address: {error}"));
    let mut endpoint = Endpoint::from_shared(authority)
        .map_err(invalid)?
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES);
    if address.to_string().starts_with("https:") {
        let tls = match authorities {
            Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        endpoint = endpoint.tls_config(tls).map_err(|error| Error::Invalid(innermost(&error)))?;
    }
    let connected = match address {
        Address::Unix(path) => socket::connect(&endpoint, path).await,
        Address::Http(_) => endpoint.connect().await,
    };
    connected.map_err(|error| Error::Unreachable { address: address.to_string(), message: innermost(&error) })
}

/// What every call carries: actor, access token, tenant, run.
pub(crate) fn headers(target: &Target, actor: &str) -> Result<MetadataMap> {
    let Target { token, tenant, run_epoch, .. } = target;
    let ascii = |what: &str, text: &str| {
        let value = text.parse::<MetadataValue<Ascii>>().ok().filter(|_| text.is_ascii());
        value.ok_or_else(|| Error::Invalid(format!("{what} is not plain ASCII")))
    };
    let mut headers = MetadataMap::new();
    headers.insert(ACTOR_HEADER, ascii(&format!("the actor {actor:?}"), actor)?);
    if let Some(token) = token {
        let mut value = ascii("the access token", &format!("Bearer {token}"))?;
        value.set_sensitive(true);
        headers.insert("authorization", value);
    }
    if let Some(tenant) = tenant {
        headers.insert(TENANT_HEADER, ascii(&format!("the tenant {tenant:?}"), tenant)?);
    }
    if let Some(epoch) = run_epoch {
        headers.insert(RUN_EPOCH_HEADER, MetadataValue::from(*epoch));
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_header_can_carry_is_refused_and_no_token_is_printed() {
        let local = Target::local(Address::Unix("/run/longhand.sock".into()));
        let target = Target { token: Some("lhs_secret".to_owned()), run_epoch: Some(7), ..local.clone() };
        let headers = headers(&target, "ada").expect("ASCII");
        assert_eq!(headers.get(RUN_EPOCH_HEADER).map(|value| value.to_str().ok()), Some(Some("7")));
        assert!(!format!("{headers:?} {target:?}").contains("secret"));
        let unfit = |target: &Target, actor: &str| matches!(super::headers(target, actor), Err(Error::Invalid(_)));
        assert!(unfit(&local, "Zoë") && unfit(&local, "line\nfeed"));
        assert!(unfit(&Target { tenant: Some("büro".to_owned()), ..local.clone() }, "ada"));
        assert!(unfit(&Target { token: Some("ö".to_owned()), ..local }, "ada"));
    }
}
