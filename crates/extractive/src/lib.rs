//! The built-in summarizer: no model, no cost, and the same text for the same history.
//!
//! It reads the history once (`record`) on top of the facts in the summary before it (`previous`): tasks with their
//! results, checks with their last outcome (`checks`), new lines of files that are still there (`files`), items of
//! a tracker with their requirements (`items`), and sentences that state reasons (`words`). It turns these facts
//! into lines, the newest with most detail (`lines`), and fills the preset's sections with the best of them, each as
//! long as the budget allows (`compose`).
//!
//! The same readers check the claims of any summary against the history (`contradictions`).

mod carried;
mod checks;
mod commands;
mod compose;
mod contradictions;
mod file_lists;
mod files;
mod items;
mod previous;
mod record;
mod lines;
#[cfg(test)]
mod tests;
mod text;
mod tools;
mod words;
mod write;

pub use carried::{completed, completed_beside, tokens_max};
pub use contradictions::{CONTRADICTION_CHARS_MAX, CONTRADICTIONS_MAX, Evidence, contradictions};
pub use write::{NAME, extract, write};
