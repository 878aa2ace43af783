//! A call of a client, before it is known who answers.

use super::opened::OpenedRequest;
use crate::app::access::Access;
use http::request::Parts;
use std::sync::Arc;

/// A call without its body.
#[derive(Clone)]
pub(super) struct Head {
    pub(super) parts: Parts,
    /// True if it may be made twice.
    pub(super) is_repeatable: bool,
}

/// A call, before it is known who answers.
pub(super) struct ShardCall {
    pub(super) head: Head,
    pub(super) opened: OpenedRequest,
    pub(super) access: Arc<Access>,
    /// The tenant in which it acts.
    pub(super) tenant: String,
}

impl ShardCall {
    /// The service and the method.
    pub(super) fn method(&self) -> String {
        let path = self.head.parts.uri.path();
        path.strip_prefix("/longhand.v1.").unwrap_or(path).to_owned()
    }
}
