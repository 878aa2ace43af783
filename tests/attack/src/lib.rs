//! Attackers of Longhand, for its developers. Each simulates faults around the real daemon, and compares what clients
//! were promised with the answers that they got.
//!
//! Every attack draws from one seed, which it prints: the same seed draws the same attack. `tests/short.rs` runs a
//! short form of each within `cargo test`; `docs/reliability.md` has the commands of the long forms and their
//! findings.

pub mod daemon;
pub mod damage;
pub mod erasures;
pub mod fuzz;
pub mod history;
pub mod overload;
#[expect(dead_code, reason = "tests of daemons use the rest")]
#[path = "../../it/postgres.rs"]
mod postgres;
pub mod raw;
pub mod seed;
pub mod storage;
pub mod vfs;
