//! The built-in summarizer: no model, no cost, and the same text for the same history.
//!
//! It reads the originals through a digest of bounded size (`digest`), which also has what earlier summaries cover.
//! From the calls of tools it makes a record (`record`): checks with their last outcome (`checks`), commands that ran
//! again and again (`runs`), new lines of files that are still there (`files`), commits and lists of tasks. What people
//! typed and what agents said it splits into statements (`statements`), and marks those that are taken back (`denials`).
//! All of these become lines (`lines`). What people typed stays, and the rest of the budget goes to the lines that add
//! most to it (`coverage`, `compose`).
//!
//! The same record follows the summaries of others (`carried`), whose claims are checked against it (`claims`).

mod carried;
mod checks;
mod claims;
mod commands;
mod compose;
mod coverage;
mod denials;
mod digest;
mod file_lists;
mod files;
mod lines;
mod record;
mod runs;
mod statements;
#[cfg(test)]
mod tests;
mod text;
mod tools;
mod write;

pub use carried::{beside_supplied, completed, may_quote, tokens_max, what_people_said};
pub use claims::{CONTRADICTION_CHARS_MAX, CONTRADICTIONS_MAX, Evidence, contradictions};
pub use digest::{Digest, FORM};
pub use write::{Covered, NAME, extract};
