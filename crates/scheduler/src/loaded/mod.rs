//! Loaded sessions: what follows from a session's rows, and the one memory of it.

pub mod counts;
mod provenance;
mod session;
mod settings;
mod unfolded;
mod memory;

pub use memory::{LoadedSessions, SessionLookup, Vacancy};
#[doc(hidden)]
pub use session::POLICY_COPIES;
pub use session::{LoadedSession, fold, formed, parse_policy};
pub use settings::SessionSettings;
