//! The pure heart of Longhand: what a session is, what its views show, and what is decided about them.
//!
//! Nothing here reads a clock, a file or a database, logs, waits or draws a random number; policies cannot fail. In
//! reading order:
//!
//! - [`model`]: the nouns: sessions, messages, parts, marks, layouts, views.
//! - [`policy`]: the verbs: pure decisions about the content of a view, and the text of a policy.
//! - [`fold`]: everything that follows from a session's rows: its view, hash, estimate, context usage and guards.
//! - [`simulation`]: a session's life under a policy, message by message, without a daemon.
//! - [`words`]: the words by which texts are searched.

pub mod model;
pub mod policy;
pub mod fold;
pub mod simulation;
pub mod words;
