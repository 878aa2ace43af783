//! Longhand keeps the longhand of every agent session and serves the shorthand that fits a model's window.
//!
//! The modules, in reading order; what each may use of the others is in `ARCHITECTURE.md`, and a test holds them to it:
//!
//! - [`model`]: the nouns: sessions, messages, parts, marks, layouts, views.
//! - [`policy`]: the verbs: pure decisions about what a view keeps, and the presets.
//! - [`fold`]: what follows from a session's rows: its view, hash, estimate and context usage.
//! - [`limits`]: every bound, by name.
//! - [`clock`]: the one place that reads the time and draws ids.
//! - [`config`]: what an operator can set.
//! - [`telemetry`]: how the daemon logs.
//! - [`store`]: the only place with SQL: the writer, the readers, the chains.
//! - [`bus`]: "something newer exists", and subscriptions that pull it from the log.
//! - [`loaded`]: sessions that are kept in memory, for reads.
//! - [`summarizer`]: what writes the text that stands for covered history.
//! - [`scheduler`]: when to reduce what, and the workers that do it.
//! - [`app`]: the API in domain types.
//! - [`interop`]: other agents' transcripts.
//! - [`pb`]: the generated protocol types.
//! - [`grpc`]: conversion and streaming.
//! - [`daemon`]: the composition root.
//! - [`cli`]: thin clients of the daemon.

pub mod model;
pub mod policy;
pub mod fold;
pub mod limits;
pub mod clock;
pub mod config;
pub mod telemetry;
pub mod store;
pub mod bus;
pub mod loaded;
pub mod summarizer;
pub mod scheduler;
pub mod app;
pub mod interop;
pub mod pb;
pub mod grpc;
pub mod daemon;
pub mod cli;
