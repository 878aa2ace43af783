//! Longhand keeps the longhand of every agent session and serves the shorthand that fits a model's window.
//!
//! This package is the command line, [`cli`]. What it starts and calls are the crates below it, in the folder `crates`, and
//! `ARCHITECTURE.md` says which of them may use which.

pub use longhand_server::{
    access_log, app, background, bus, clock, cluster, config, daemon, fold, grpc, http, interop, limits, loaded,
    metrics, model, pb, policy, postgres, presets, scheduler, search, secrets, simulation, store, summarizer,
    telemetry, traffic, transport, turns, words,
};

pub mod cli;
