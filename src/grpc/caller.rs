//! The caller of a request.

use crate::app::{self, Caller, RequestKey};

/// The header with the caller's name for itself: printable ASCII, up to 128 bytes.
pub const ACTOR_HEADER: &str = "longhand-actor";

/// Extension of a request that came over the Unix socket, which only the daemon's own user can open.
#[derive(Debug, Clone, Copy)]
pub struct OwnerSocket;

/// The caller, with the key that makes the call idempotent: a request id with a hash of the whole request.
///
/// A request's type belongs to one method alone, so its name identifies the method.
pub(super) fn caller<T: prost::Message + prost::Name>(
    request: &tonic::Request<T>,
    request_id: &str,
) -> app::Result<Caller> {
    let actor = match request.metadata().get(ACTOR_HEADER) {
        Some(name) => name.to_str().map_err(|_| app::Error::field(ACTOR_HEADER, "is not printable ASCII"))?.to_owned(),
        None => String::new(),
    };
    let request = (!request_id.is_empty()).then(|| {
        let mut hasher = blake3::Hasher::new();
        hasher.update(T::full_name().as_bytes());
        hasher.update(&[0]);
        hasher.update(&request.get_ref().encode_to_vec());
        RequestKey { id: request_id.to_owned(), payload_hash: *hasher.finalize().as_bytes() }
    });
    Ok(Caller { actor, request })
}
