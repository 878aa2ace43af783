//! What an append needs to know of its session.

use super::session::{POLICY_COPIES, parse_policy};
use crate::model::ids::SessionId;
use crate::model::usage::ModelWindow;
use crate::policy::bpe::Vocabulary;
use crate::policy::{Policy, tokens};
use crate::store::{Result, SessionKey, Store};
use std::sync::Arc;

/// What an append needs to know of its session.
pub struct SessionSettings {
    /// The session.
    pub key: SessionKey,
    /// Its id.
    pub id: SessionId,
    /// Its policy, parsed.
    pub policy: Policy,
    /// Its model window.
    pub window: ModelWindow,
    /// The name of the policy's counting; none if its counts are not stored.
    pub counting: Option<Arc<str>>,
    tenant: String,
    client_id: Option<String>,
    /// Approximate memory.
    pub(super) bytes: usize,
}

impl SessionSettings {
    /// Reads the settings of a session.
    pub(super) async fn read(store: &Store, key: SessionKey, vocabularies: &[Arc<Vocabulary>]) -> Result<Self> {
        let (session, text) = store.sessions().get(key).await?;
        let policy = parse_policy(&text, vocabularies)?;
        let counting = tokens::basis(&policy).map(Arc::from);
        let bytes = size_of::<Self>() + (POLICY_COPIES - 1) * text.json.len();
        let (id, tenant, client_id, window) = (session.id, session.tenant, session.client_id, session.window);
        Ok(Self { key, id, policy, window, counting, tenant, client_id, bytes })
    }

    /// True if a tenant's clients mean this session by a name.
    pub(super) fn is_called(&self, tenant: &str, name: &str) -> bool {
        let is_name = match name.parse::<SessionId>() {
            Ok(id) => id == self.id,
            Err(_) => self.client_id.as_deref() == Some(name),
        };
        is_name && self.tenant == tenant
    }
}
