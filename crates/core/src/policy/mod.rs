//! Decisions about the contents of a view, as total functions of their arguments.
//!
//! A policy is data (`parameters`). The general strategies that it names are here, a file each; those of one agent alone
//! are supplied from above (`strategy`). No file uses another one that uses it. Nothing in this module waits, fails, logs, reads a clock or
//! uses randomness: "no decision" is a value.

pub mod attachments;
pub mod bpe;
pub mod branch;
pub mod calls;
pub mod continuing;
#[cfg(test)]
#[path = "../../tests/unit/dsl.rs"]
pub(crate) mod dsl;
#[cfg(test)]
#[path = "../../tests/unit/samples.rs"]
pub(crate) mod samples;
pub mod files;
pub mod omission;
pub mod last_resort;
pub mod overflow;
pub mod overhead;
pub mod overrides;
pub mod parameters;
pub mod pairing;
pub mod plan;
pub mod preset;
pub mod preset_file;
pub mod prompt;
pub mod provider_errors;
pub mod prune;
pub mod recall;
pub mod render;
pub mod replay;
pub mod retrieval;
pub mod maintenance;
pub mod models;
pub mod select;
pub mod strategy;
pub mod summary;
pub mod tokens;
pub mod truncate;
pub mod turns;
pub mod validate;
pub mod violation;

pub use parameters::*;
