//! The daemon: its calls in domain types, their doors over gRPC and HTTP, several daemons as a cluster, and what starts them
//! all. The modules in reading order:
//!
//! - [`access_log`]: who read what over the network, apart from the store.
//! - [`bus`]: the signal of newer events, and subscriptions that read them from the log.
//! - [`search`]: the search index, filled from the log.
//! - [`app`]: the API in domain types.
//! - [`metrics`]: the daemon's state as metrics.
//! - [`transport`]: listeners, connections and their bounds, for every door.
//! - [`grpc`]: conversion and streaming.
//! - [`http`]: the same API as JSON over HTTP.
//! - [`cluster`]: several daemons with one database as one.
//! - [`daemon`]: the composition root.

pub use longhand_core::{fold, policy, simulation};
pub use longhand_engine_postgres as postgres;
pub use longhand_extractive as extractive;
pub use longhand_interop as interop;
pub use longhand_model as model;
pub use longhand_presets as presets;
pub use longhand_protocol as pb;
pub use longhand_protocol::reason;
pub use longhand_runtime::{background, clock, limits, telemetry, traffic, turns};
pub use longhand_scheduler::{config, loaded, scheduler, summarizer};
pub use longhand_secrets as secrets;
pub use longhand_store as store;
pub use longhand_words as words;

pub mod access_log;
pub mod app;
pub mod bus;
pub mod cluster;
pub mod daemon;
pub mod grpc;
pub mod http;
pub mod metrics;
pub mod search;
pub mod transport;
