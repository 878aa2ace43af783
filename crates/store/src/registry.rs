//! The access tokens of a database with several daemons, for one that does not own the shard that has them.

use super::engine::postgres::registry::Registry;
use super::error::Result;
use super::ledger::access_tokens::{self, StoredToken};

/// The access tokens, which are in the first shard; none before that has its tables. They may be older than its owner's.
///
/// # Errors
///
/// If the database does not answer.
pub async fn access_tokens_of(registry: &Registry) -> Result<Option<Vec<StoredToken>>> {
    if !registry.has_home().await? {
        return Ok(None);
    }
    registry.home.reading(access_tokens::all).await.map(Some)
}
