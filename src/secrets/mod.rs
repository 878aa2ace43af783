//! Secrets in what clients send: rules that find them, and the texts without them.
//!
//! Pure: texts in, findings and texts out. `app` passes every text of a request through it, and the store the text of
//! drafts, whose pieces come one by one.

mod draft;
mod hold;
mod json;
mod known;
mod redact;
mod rules;
#[cfg(test)]
mod tests;

pub use draft::{DIGEST_BYTES, DraftText, Replaced, Settled};
pub use known::KNOWN;
pub use redact::{Hit, PLACEHOLDER, Place, Reading, Redacted, Salt, Syntax};
pub use rules::{Action, Begun, Error, Rule, Rules};
