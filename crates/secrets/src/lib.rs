//! Secrets in what clients send: rules that find them, and the texts without them.
//!
//! Pure: texts in, findings and texts out. `app` passes every text of a request through it, and the store the text of
//! drafts, whose pieces come one by one. In reading order:
//!
//! - `known`: the built-in rules. `packaging/secrets-rules` converts them from those of gitleaks.
//! - `words`: what every match of a pattern begins with.
//! - `check`: what a match has to be to be a secret.
//! - `hold`: how much of a text's end may be the begin of a match.
//! - `pattern`: one rule, ready to be applied.
//! - `rules`: all of them: one pass over a text finds the words, and where one is, its patterns are tried.
//! - `json`: strings without escapes, and what is around them.
//! - `redact`: texts with placeholders.
//! - `draft`: a text that comes in pieces.

mod check;
mod draft;
mod hold;
mod json;
mod known;
#[cfg(test)]
#[path = "../tests/unit/leaks.rs"]
mod leaks;
pub mod limits;
mod pattern;
mod redact;
mod rules;
#[cfg(test)]
mod tests;
mod words;

pub use draft::{DIGEST_BYTES, DraftText, ReplacedSecret, SettledText};
pub use redact::{Hit, PLACEHOLDER, ReadingMode, ReadingState, RedactedText, Salt, Syntax};
pub use rules::{Action, BegunMatch, Error, Rule, Rules};
