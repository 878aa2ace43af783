//! Integrity: the store checked against itself, checked copies of it, and what is rescued of a damaged one.

pub(crate) mod committed;
pub(crate) mod copies;
pub(crate) mod doctor;
mod expected;
pub(crate) mod export;
pub(crate) mod log_check;
mod part_rows;
pub(crate) mod reread;
pub(crate) mod run_rows;
pub(crate) mod scrub_state;
mod survey;
pub(crate) mod verify;
