//! Attackers of Longhand, for its developers. Each plays a world that goes wrong around the real daemon, and checks what
//! clients were promised against what they were told.
//!
//! Every attack draws from one seed, which it prints: the same seed draws the same attack. `tests/short.rs` runs a short
//! form of each within `cargo test`; `docs/reliability.md` has the commands of the long forms and what they found.

pub mod daemon;
pub mod history;
pub mod overload;
pub mod raw;
pub mod seed;
