//! PostgreSQL as an engine of the store: connections, the text of statements in its dialect, the schema, and the lease by
//! which a daemon owns a shard. `held` is where all of it meets what the store asks of an engine.

use longhand_engine::{error, write_state};
use longhand_model as model;
use longhand_runtime::{clock, limits, telemetry};

pub mod client;
mod connection;
mod dialect;
mod encode;
mod errors;
mod held;
mod keeper;
pub mod lease;
mod owner;
mod primary;
pub mod registry;
pub mod schema;
pub mod shard;
mod warnings;

pub use lease::AcknowledgedState;
pub use registry::{DaemonEntry, Registry, ShardEntry, ShardFailure, Survey, shard_name};
pub use shard::Shard;
