//! PostgreSQL: connections, the text of statements in its dialect, and the schema.

pub mod client;
mod dialect;
mod encode;
mod error;
pub mod keeper;
pub mod lease;
pub mod owner;
mod primary;
pub mod registry;
pub mod schema;
pub mod shard;
mod warnings;
