//! Observers of a summary while it is written.

use crate::model::usage::Usage;

/// One request to a model, for the request log.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestRecord {
    /// The summarizer's name in the configuration.
    pub summarizer: String,
    /// The model as the provider named it, else as requested.
    pub model: String,
    /// BLAKE3 hash of the request's body, which does not contain the key.
    pub request_hash: [u8; 32],
    /// BLAKE3 hash of the reply's text as far as it came.
    pub reply_hash: [u8; 32],
    /// Usage and cost, as far as the provider reported them.
    pub usage: Option<Usage>,
    /// Duration in milliseconds, without the wait for a slot.
    pub duration_ms: i64,
    /// Reason why the reply contains no summary; none if it contains one.
    pub failure: Option<String>,
    /// Text of request and reply, if the configuration has them recorded.
    pub texts: Option<RecordedTexts>,
}

/// Text of a request and of its reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedTexts {
    /// The request's body.
    pub request: String,
    /// The reply's text as far as it came.
    pub reply: String,
}

/// Observer of a summary while it is written. Its methods must be short: the reply waits for them.
pub trait Observer: Send + Sync {
    /// A summary begins. The text of one that began before is void.
    fn on_start(&self, summarizer: &str);

    /// More text of the summary, as it comes from the model.
    fn on_text(&self, words: &str);

    /// A request has ended, with or without success.
    fn on_request(&self, call: &RequestRecord);
}

/// An observer that ignores everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn on_start(&self, _summarizer: &str) {}

    fn on_text(&self, _words: &str) {}

    fn on_request(&self, _call: &RequestRecord) {}
}
