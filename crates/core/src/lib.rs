//! The pure decisions of Longhand: what a session's views show, and what is decided about them.
//!
//! Nothing here reads a clock, a file or a database, logs, waits or draws a random number; policies cannot fail. The nouns
//! are in the crate below, `longhand-model`. In reading order:
//!
//! - [`policy`]: the verbs: pure decisions about the content of a view, and the text of a policy.
//! - [`fold`]: everything that follows from a session's rows: its view, hash, estimate, context usage and guards.
//! - [`simulation`]: a session's life under a policy, message by message, without a daemon.

pub mod policy;
pub mod fold;
pub mod simulation;

use longhand_model as model;
