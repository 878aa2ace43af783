//! Longhand keeps the longhand of every agent session and serves the shorthand that fits a model's window.
//!
//! The pure heart, [`model`], [`policy`] and [`fold`], is the crate `longhand-core`; the built-in summarizer, the
//! readers of other agents' transcripts, the rules for secrets and the protocol are crates beside it.

//! The modules in reading order; `ARCHITECTURE.md` has the dependencies allowed between them, and a test checks those
//! that no crate boundary does:
//!
//! - [`limits`]: every bound, by name.
//! - [`clock`]: the clock and the source of ids.
//! - [`config`]: the operator's configuration.
//! - [`telemetry`]: the daemon's log.
//! - [`traffic`]: memory and connections of clients, bounded and counted.
//! - [`turns`]: whose call is worked on next, by tenant and access token.
//! - [`access_log`]: who read what over the network, apart from the store.
//! - [`store`]: the only place with SQL: the writer, the readers, the chains.
//! - [`bus`]: the signal of newer events, and subscriptions that read them from the log.
//! - [`search`]: the search index, filled from the log.
//! - [`loaded`]: sessions that are kept in memory, for reads and decisions.
//! - [`summarizer`]: writers of summaries.
//! - [`scheduler`]: the start of compactions, and the workers that run them.
//! - [`app`]: the API in domain types.
//! - [`metrics`]: the daemon's state as metrics.
//! - [`transport`]: listeners, connections and their bounds, for every door.
//! - [`grpc`]: conversion and streaming.
//! - [`http`]: the same API as JSON over HTTP.
//! - [`cluster`]: several daemons with one database as one.
//! - [`daemon`]: the composition root.
//! - [`cli`]: thin clients of the daemon.

pub use longhand_core::{fold, model, policy, simulation, words};
pub use longhand_interop as interop;
pub use longhand_protocol as pb;
pub use longhand_secrets as secrets;

pub mod limits;
pub mod clock;
pub mod config;
pub mod telemetry;
pub mod traffic;
pub mod turns;
pub mod access_log;
pub mod store;
pub mod bus;
pub mod loaded;
pub mod summarizer;
pub mod scheduler;
pub mod search;
pub mod app;
pub mod metrics;
pub mod transport;
pub mod grpc;
pub mod http;
pub mod cluster;
pub mod daemon;
pub mod cli;
