//! The trait of summarizers, with their input, output, forecast and errors.

use super::observer::Observer;
use super::provider::gate::GateState;
use crate::model::compaction::Contradiction;
use crate::model::message::MessageKind;
use crate::model::usage::Usage;
use crate::model::view::SourceMessage;
use crate::policy::plan::SummaryPlan;
use crate::policy::prompt::Prompt;
use crate::policy::{self, Counting};
use futures::future::BoxFuture;

/// Input of a summarizer.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryInput {
    /// Messages to cover, oldest first, with their original text. Markers and earlier summaries are not among them.
    pub messages: Vec<SourceMessage>,
    /// First part of a split turn, or empty. It comes right after `messages`; the rest of the turn stays verbatim.
    pub split_turn: Vec<SourceMessage>,
    /// Text of the summary that this one replaces, so that facts known only from it are carried on.
    pub previous: Option<String>,
    /// True if that summary was supplied by a client. Its file lists are not carried on, as pi does not trust lists
    /// that an extension wrote.
    pub previous_is_supplied: bool,
    /// Format and limits of the summary.
    pub rules: policy::Summary,
    /// Token counting.
    pub counting: Counting,
    /// Custom instructions of the requester; empty for none.
    pub instructions: String,
    /// Maximum size of the text, in tokens by `counting`. Never more than `rules.max_tokens`.
    pub budget_tokens: i64,
}

impl SummaryInput {
    /// The input for a planned summary. Longhand's own continuations are not worth summarizing.
    pub fn of(plan: &SummaryPlan, counting: &Counting, instructions: &str) -> Self {
        let summarizable = |messages: &[SourceMessage]| {
            messages.iter().filter(|source| source.message.kind != MessageKind::Continuation).cloned().collect()
        };
        Self {
            messages: summarizable(&plan.head),
            split_turn: summarizable(&plan.split_turn),
            previous: plan.previous.clone(),
            previous_is_supplied: false,
            rules: plan.rules.clone(),
            counting: counting.clone(),
            instructions: instructions.to_owned(),
            budget_tokens: plan.rules.max_tokens,
        }
    }
}

/// Output of a summarizer.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryOutput {
    /// The summary. It may still be empty or too long: the caller checks.
    pub text: String,
    /// Author of the text: the summarizer's name, with the model if there is one.
    pub summarizer: String,
    /// Usage and cost of all requests; none if no provider reported any.
    pub usage: Option<Usage>,
    /// Claims in the summary that the history contradicts; empty until they are checked.
    pub contradictions: Vec<Contradiction>,
}

impl SummaryOutput {
    /// Returns a summary without usage and without checked claims.
    pub fn new(text: impl Into<String>, summarizer: impl Into<String>) -> Self {
        Self { text: text.into(), summarizer: summarizer.into(), usage: None, contradictions: Vec::new() }
    }
}

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
    /// summary are not included yet; see [`SummaryOutput::completed`].
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
