//! The trait of summarizers, with their forecast and errors.

use super::observer::Observer;
use super::provider::gate::GateState;
use crate::policy::prompt::Prompt;
use crate::policy::summary::{SummaryInput, SummaryOutput};
use futures::future::BoxFuture;

/// Forecast of the requests that a summary would send to a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Forecast {
    /// Name of the summarizer that would write it.
    pub summarizer: String,
    /// The first requests, word for word; none without a model.
    pub requests: Vec<Prompt>,
    /// Tokens of these requests, by a conservative estimate that suits any model.
    pub request_tokens: i64,
    /// True if the requests are about pieces of a history that is too long for one request; further requests merge the
    /// answers.
    pub chunked: bool,
    /// Approximate cost in millionths of a US dollar; none if no prices are known.
    pub cost_micros: Option<i64>,
}

/// Connection state of a summarizer and its provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// The summarizer's name in the configuration.
    pub summarizer: String,
    /// The model requested from the provider.
    pub model: String,
    /// State of the provider's breaker.
    pub state: GateState,
}

/// Reason why there is no summary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The same request may succeed later.
    #[error("{message}")]
    Transient {
        /// Message text, a sentence fragment.
        message: String,
        /// Delay that the provider asked for, in milliseconds.
        retry_after_ms: Option<i64>,
    },
    /// The same request will fail again.
    #[error("{message}")]
    Permanent {
        /// Message text, a sentence fragment.
        message: String,
    },
}

/// A writer of summaries.
///
/// It is called outside of any transaction, may take minutes, and is stopped by dropping the future.
pub trait Summarizer: Send + Sync {
    /// The name shown in events and lists, such as `extractive`.
    fn name(&self) -> &str;

    /// Writes a summary of `input.messages` and `input.split_turn`. The sections that the policy appends to every
    /// summary are not included yet; see [`longhand_extractive::completed`].
    ///
    /// The observer receives the text as it comes, and every request to a model; without a model, only the start.
    fn summarize<'a>(
        &'a self,
        input: &'a SummaryInput,
        observer: &'a dyn Observer,
    ) -> BoxFuture<'a, Result<SummaryOutput, Error>>;

    /// Connection states of the providers that it uses; empty without a model.
    fn gates(&self) -> Vec<Gate> {
        Vec::new()
    }

    /// Returns a forecast of its requests to a model. Nothing is sent.
    fn forecast(&self, _input: &SummaryInput) -> Forecast {
        Forecast { summarizer: self.name().to_owned(), ..Forecast::default() }
    }
}
