//! Calls that one daemon has let in and passes on to another: who calls, and for which shard.
//!
//! Only a daemon of the same database knows the secret in their header, which has the caller's access, too. A call is passed
//! on once.

use crate::app::access::Access;
use crate::app::{self, Error, Reason};
use crate::grpc::PASSED_ON;
use crate::model::access::{Binding, Scopes};
use crate::model::ids::{AccessTokenId, SessionId};
use crate::model::time::Timestamp;
use crate::turns::Share;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The header with the shard that answers.
pub(super) const SHARD: HeaderName = HeaderName::from_static("longhand-shard");

/// A caller's access, as one daemon passes it to another. A revocation ends the
/// call at the first daemon; the second one knows the time of its end alone.
#[derive(Serialize, Deserialize)]
struct PassedAccess {
    principal: String,
    tenant: String,
    scopes: i64,
    project: Option<String>,
    root: Option<String>,
    expire_time: Option<i64>,
    is_acting: bool,
    token: Option<String>,
}

/// The header of a call with this access.
pub(super) fn header(secret: &str, access: &Access) -> app::Result<HeaderValue> {
    let on_the_way = PassedAccess {
        principal: access.principal.to_string(),
        tenant: access.tenant.to_string(),
        scopes: access.scopes.bits(),
        project: access.binding.project.clone(),
        root: access.binding.root.as_ref().map(ToString::to_string),
        expire_time: access.expire_time.map(|time| time.0),
        is_acting: access.is_acting,
        token: access.token.as_ref().map(ToString::to_string),
    };
    let encoded = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&on_the_way).map_err(Error::internal)?);
    let mut value = HeaderValue::try_from(format!("{secret}.{encoded}")).map_err(Error::internal)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The access of a call that was passed on; none for another call.
///
/// # Errors
///
/// `ACCESS_TOKEN_INVALID` for a header that no daemon of the database wrote.
pub(super) fn read(secret: &str, headers: &HeaderMap) -> app::Result<Option<Arc<Access>>> {
    let Some(value) = headers.get(PASSED_ON) else { return Ok(None) };
    let invalid = || Error::new(Reason::AccessTokenInvalid, "the call was passed on by no daemon of this database");
    let (given, encoded) = value.to_str().ok().and_then(|text| text.split_once('.')).ok_or_else(invalid)?;
    // Hashes compare in constant time.
    if blake3::hash(given.as_bytes()) != blake3::hash(secret.as_bytes()) {
        return Err(invalid());
    }
    let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| invalid())?;
    let on_the_way: PassedAccess = serde_json::from_slice(&bytes).map_err(|_| invalid())?;
    // What cannot be read binds to nothing less.
    let root = on_the_way.root.map(|root| root.parse::<SessionId>().map_err(|_| invalid())).transpose()?;
    let (principal, tenant): (Arc<str>, Arc<str>) = (on_the_way.principal.into(), on_the_way.tenant.into());
    Ok(Some(Arc::new(Access {
        share: Share::new(tenant.clone(), principal.clone()),
        principal,
        tenant,
        scopes: Scopes::from_bits(on_the_way.scopes),
        binding: Arc::new(Binding { project: on_the_way.project, root }),
        expire_time: on_the_way.expire_time.map(Timestamp),
        revoked: CancellationToken::new(),
        is_acting: on_the_way.is_acting,
        token: on_the_way.token.map(|token| token.parse::<AccessTokenId>().map_err(|_| invalid())).transpose()?,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::access::Scope;
    use uuid::Uuid;

    #[test]
    fn an_access_arrives_as_it_was_sent_and_from_a_daemon_alone() {
        let sent = Access {
            principal: "agent".into(),
            tenant: "acme".into(),
            scopes: [Scope::Read, Scope::Write].into_iter().collect(),
            binding: Arc::new(Binding { project: Some("p".to_owned()), root: Some(SessionId(Uuid::from_u128(7))) }),
            expire_time: Some(Timestamp(9)),
            revoked: CancellationToken::new(),
            is_acting: true,
            token: Some(AccessTokenId(Uuid::from_u128(8))),
            share: Share::default(),
        };
        let mut headers = HeaderMap::new();
        assert!(read("s", &headers).expect("a call").is_none());
        headers.insert(PASSED_ON, header("s", &sent).expect("a header"));
        let got = read("s", &headers).expect("a call").expect("it was passed on");
        assert_eq!((&*got.principal, &*got.tenant, got.scopes), ("agent", "acme", sent.scopes));
        assert_eq!(got.token, sent.token);
        assert_eq!((&got.binding, got.expire_time, got.is_acting), (&sent.binding, sent.expire_time, true));
        assert_eq!(read("t", &headers).expect_err("another secret").reason, Reason::AccessTokenInvalid);
        for wrong in ["", "s", "s.", "s.e30", ".e30", "s.AAAA"] {
            headers.insert(PASSED_ON, HeaderValue::from_static(wrong));
            assert_eq!(read("s", &headers).expect_err(wrong).reason, Reason::AccessTokenInvalid, "{wrong:?}");
        }
    }
}
