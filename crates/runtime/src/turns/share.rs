//! On whose behalf something is done.

use std::sync::Arc;

/// A tenant; none for the daemon's own work.
pub type Tenant = Option<Arc<str>>;

/// On whose behalf something is done: a tenant's access token, or the daemon itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Share {
    pub(super) tenant: Tenant,
    pub(super) token: Arc<str>,
}

impl Share {
    /// The share of an access token of a tenant. The default one is that of the daemon itself.
    pub fn new(tenant: Arc<str>, token: Arc<str>) -> Self {
        Self { tenant: Some(tenant), token }
    }
}
