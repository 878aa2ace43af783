//! The access tokens of a database with several daemons, for one that does not own the shard that has them.

use super::engine::postgres::registry::Registry;
use super::error::Result;
use super::ledger::access_tokens::{self, StoredToken};

impl Registry {
    /// The access tokens, which are in the first shard; none before that has its tables. They may be older than its owner's.
    pub async fn access_tokens(&self) -> Result<Option<Vec<StoredToken>>> {
        if !self.has_home().await? {
            return Ok(None);
        }
        self.home.reading(access_tokens::all).await.map(Some)
    }
}
