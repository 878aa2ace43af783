//! Access tokens.

use super::error::Result;
use super::ledger::access_tokens::{self, StoredToken};
use super::shared::StoreParts;
use super::writer::Mutation;
use crate::model::ids::AccessTokenId;
use std::sync::Arc;

/// Access tokens.
#[derive(Clone)]
pub struct AccessTokens(pub(super) Arc<StoreParts>);

impl AccessTokens {
    /// Every token, oldest first.
    pub async fn all(&self) -> Result<Vec<StoredToken>> {
        self.0.reading(access_tokens::all).await
    }

    /// Adds a token, if its tenant has room for it.
    ///
    /// # Errors
    ///
    /// `LimitExceeded`.
    pub async fn create(&self, stored: StoredToken, by_operator: bool) -> Result<()> {
        let mutation = Mutation::derived("create_access_token", 0);
        self.0.write(mutation, move |tx| access_tokens::insert(tx, &stored, by_operator)).await
    }

    /// Revokes a token, unless it is revoked. Returns it as it is then.
    pub async fn revoke(&self, id: AccessTokenId) -> Result<StoredToken> {
        self.0.write(Mutation::derived("revoke_access_token", 0), move |tx| access_tokens::revoke(tx, id)).await
    }
}
