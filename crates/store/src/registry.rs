//! The access tokens of a database with several daemons, for one that does not own the shard that has them.

use super::engine::readers::Readers;
use super::error::Result;
use super::ledger::access_tokens::{self, StoredToken};

/// The access tokens of the first shard, by connections to it. They may be older than its owner's.
///
/// # Errors
///
/// If the database does not answer.
pub async fn access_tokens_of(first: &Readers) -> Result<Vec<StoredToken>> {
    first.reading(access_tokens::all).await
}
