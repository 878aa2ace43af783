//! The door of gRPC: the one place where it makes the caller of a request, by which alone a service reaches `app`.

use super::guard::access;
use crate::app::access::Access;
use crate::app::access_record::NamedSessions;
use crate::app::{self, Caller, Longhand, RequestKey};
use crate::model::run::Epoch;
use crate::pb::{ACTOR_HEADER, RUN_EPOCH_HEADER, TENANT_HEADER};
use std::sync::Arc;

/// The way of requests over gRPC into the API.
#[derive(Clone)]
pub(super) struct GrpcDoor {
    app: Longhand,
}

impl GrpcDoor {
    pub(super) fn new(app: Longhand) -> Self {
        Self { app }
    }

    /// The caller of a request that cannot be repeated by an id.
    pub(super) fn caller<T>(&self, request: &tonic::Request<T>) -> app::Result<Caller> {
        self.caller_with_key(request, None)
    }

    /// The caller, with the key that makes the call idempotent: a request id, empty for none, with a hash of the whole
    /// request.
    ///
    /// A request's type belongs to one method alone, so its name identifies the method.
    pub(super) fn caller_with_id<T: prost::Message + prost::Name>(
        &self,
        request: &tonic::Request<T>,
        request_id: &str,
    ) -> app::Result<Caller> {
        let key = (!request_id.is_empty()).then(|| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(T::full_name().as_bytes());
            hasher.update(&[0]);
            hasher.update(&request.get_ref().encode_to_vec());
            RequestKey { id: request_id.to_owned(), payload_hash: *hasher.finalize().as_bytes() }
        });
        self.caller_with_key(request, key)
    }
}

impl GrpcDoor {
    fn caller_with_key<T>(&self, request: &tonic::Request<T>, key: Option<RequestKey>) -> app::Result<Caller> {
        let extensions = request.extensions();
        let caller = self.app.caller(acting_access(request)?, actor(request)?, key)?;
        let caller = match epoch(request)? {
            Some(epoch) => caller.in_run(epoch),
            None => caller,
        };
        Ok(match extensions.get::<NamedSessions>() {
            Some(named) => caller.naming(named.clone()),
            None => caller,
        })
    }
}

/// The caller's access, in the tenant that it names.
fn acting_access<T>(request: &tonic::Request<T>) -> app::Result<Arc<Access>> {
    let access = access(request.extensions())?;
    let Some(tenant) = request.metadata().get(TENANT_HEADER) else { return Ok(access) };
    let access = Access::clone(&access);
    access
        .acting_in(tenant.to_str().map_err(|_| app::Error::field(TENANT_HEADER, "is not printable ASCII"))?)
        .map(Arc::new)
}

/// The caller's name for itself; empty without the header.
fn actor<T>(request: &tonic::Request<T>) -> app::Result<String> {
    let Some(name) = request.metadata().get(ACTOR_HEADER) else { return Ok(String::new()) };
    Ok(name.to_str().map_err(|_| app::Error::field(ACTOR_HEADER, "is not printable ASCII"))?.to_owned())
}

/// The number of the run on whose behalf the call is made; none without the header.
fn epoch<T>(request: &tonic::Request<T>) -> app::Result<Option<Epoch>> {
    let Some(number) = request.metadata().get(RUN_EPOCH_HEADER) else { return Ok(None) };
    let epoch = number.to_str().ok().and_then(|text| text.parse::<Epoch>().ok()).filter(|epoch| *epoch > 0);
    epoch.map(Some).ok_or_else(|| app::Error::field(RUN_EPOCH_HEADER, "is not a positive number"))
}
