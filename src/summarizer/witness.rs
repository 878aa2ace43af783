//! Who is told what happens while a summary is written.

use crate::model::usage::Usage;

/// One request to a model, for whoever keeps the books.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The summarizer's name in the configuration.
    pub summarizer: String,
    /// The model, as the provider named it, or else as it was asked for.
    pub model: String,
    /// BLAKE3 of the request's body. The key is not in it.
    pub request_hash: [u8; 32],
    /// BLAKE3 of the reply's words as far as they came.
    pub reply_hash: [u8; 32],
    /// What it cost, as far as the provider said.
    pub usage: Option<Usage>,
    /// How long it took, in milliseconds, without the wait for a place.
    pub duration_ms: i64,
    /// Why there is no summary in it; none if there is one.
    pub failure: Option<String>,
    /// Request and reply, where the configuration has them recorded.
    pub texts: Option<Texts>,
}

/// The words of a request and of its reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// The request's body.
    pub request: String,
    /// The reply's words as far as they came.
    pub reply: String,
}

/// Who is told what happens while a summary is written. What it does must be short: the reply waits for it.
pub trait Witness: Send + Sync {
    /// A summary begins. Words of one that began before are void.
    fn begins(&self, summarizer: &str);

    /// More words of the summary, as they come from the model.
    fn hears(&self, words: &str);

    /// A request has ended, well or not.
    fn called(&self, call: &Call);
}

/// Nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Witness for Nobody {
    fn begins(&self, _summarizer: &str) {}

    fn hears(&self, _words: &str) {}

    fn called(&self, _call: &Call) {}
}
