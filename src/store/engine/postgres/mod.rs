//! PostgreSQL: connections, the text of statements in its dialect, and the schema.

pub(crate) mod client;
mod dialect;
mod encode;
mod error;
pub(crate) mod keeper;
pub(crate) mod lease;
pub(crate) mod owner;
mod primary;
pub(crate) mod registry;
pub(crate) mod schema;
pub(crate) mod shard;
mod warnings;
