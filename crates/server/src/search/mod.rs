//! Full-text search over all history: what fills the index.
//!
//! The [`Service`] follows the log on a thread of its own, which yields to every other: no append ever waits for it.
//! While others write it pauses for most of the time (`pace`), and it catches up when the log rests or a search waits: then
//! on two processors, one of which reads pages of the log, while the other one writes them. It
//! keeps nothing: how far the index is, is in the index, in the same commit as the words. Its handle is
//! that of the store (`store::Search`), which searches, says how far the index is, and has parts forgotten.

mod pace;
mod service;
mod step;

pub use service::{Options, Service};
pub use step::{Effect, IndexingState, Input, step};
