//! Summarizers: they write the text that stands for covered history.
//!
//! A summarizer gets all its input in the call and returns text; it knows nothing of sessions, jobs or stores. The
//! caller decides which messages are covered, how many tokens the summary may have, and what follows a failure.

mod chain;
mod built_in;
mod observer;
mod provider;
mod remote;
mod secret;
mod setup;
mod summary;
mod tasks;
mod usage_counter;

pub use built_in::Extractive;
pub use chain::Chain;
pub use observer::{NoObserver, Observer, RecordedTexts, RequestRecord};
#[doc(hidden)]
pub use provider::ReplyReader;
pub use provider::fault::{Class, Fault};
pub use provider::gate::{Breaker, GateState};
pub use secret::Secret;
pub use setup::{Levels, levels};
pub use summary::{Error, Forecast, Gate, Summarizer};
pub use tasks::{Filter, Offer, Release, Request, Task, TaskEdit, TaskLease, TaskRefusal, TaskReply, Tasks};
