//! Summarizers: what writes the text that stands for covered history.
//!
//! A summarizer is given everything it may use and answers with words; it knows nothing of sessions, jobs or stores.
//! Who calls it decides what is covered, how much room there is, and what happens when it fails.

mod carried;
mod chain;
mod extractive;
mod provider;
mod remote;
mod secret;
mod setup;
mod tally;
mod tasks;
mod witness;

pub use chain::Chain;
pub use extractive::{Evidence, Extractive, contradictions, extract};
#[doc(hidden)]
pub use provider::ReplyReader;
pub use provider::fault::{Class, Fault};
pub use provider::gate::{Breaker, Standing};
pub use secret::Secret;
pub use setup::{Levels, levels};
pub use tasks::{Filter, Leased, Offer, Refused, Release, Request, Task, TaskEdit, TaskReply, Tasks};
pub use witness::{Call, Nobody, Texts, Witness};

use crate::model::compaction::Contradiction;
use crate::model::usage::Usage;
use crate::model::view::SourceMessage;
use crate::policy;
use crate::policy::prompt::Prompt;
use futures::future::BoxFuture;

/// What a summarizer works on.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryInput {
    /// What is to be covered, oldest first, in its original words. Markers and earlier summaries are not among it.
    pub messages: Vec<SourceMessage>,
    /// The front of a split turn, or empty. It comes right after `messages`; the rest of the turn stays verbatim.
    pub split_turn: Vec<SourceMessage>,
    /// The text of the summary that this one replaces, so that what it alone still knows is carried on.
    pub previous: Option<String>,
    /// Whether that summary is a client's own. What it lists of files is not carried on, as pi does not trust what an
    /// extension wrote there.
    pub previous_is_supplied: bool,
    /// What the summary looks like.
    pub rules: policy::Summary,
    /// How text becomes tokens.
    pub counting: policy::Counting,
    /// What the person who asked wants the summary to dwell on; empty for nothing in particular.
    pub instructions: String,
    /// The most the text may weigh, in tokens by `counting`. Never more than `rules.max_tokens`.
    pub budget_tokens: i64,
}

/// What a summarizer wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryOutput {
    /// The summary. It may still be empty or too long: the caller checks.
    pub text: String,
    /// Who wrote it: the summarizer's name, with the model where there is one.
    pub summarizer: String,
    /// What it cost; none where nothing was spent.
    pub usage: Option<Usage>,
    /// Its claims that the history contradicts, once somebody has looked.
    pub contradictions: Vec<Contradiction>,
}

impl SummaryOutput {
    /// A summary that cost nothing, and that nobody has held against the history.
    pub fn new(text: impl Into<String>, summarizer: impl Into<String>) -> Self {
        Self { text: text.into(), summarizer: summarizer.into(), usage: None, contradictions: Vec::new() }
    }

    /// The summary with its claims that the input contradicts, and with what the policy puts behind everybody's words:
    /// corrections and facts behind a model's, and lists of files.
    pub fn completed(self, input: &SummaryInput) -> Self {
        carried::complete(input, &Evidence::of(input), self)
    }

    /// The same of a client, which may have read what stands behind the covered messages too.
    pub fn completed_beside(self, input: &SummaryInput, behind: &[SourceMessage]) -> Self {
        carried::complete(input, &Evidence { behind: behind.iter().collect(), ..Evidence::of(input) }, self)
    }
}

impl SummaryInput {
    /// The most that a summary may weigh, in tokens, with what the policy puts behind a model's words.
    pub fn most_tokens(&self, by_model: bool) -> i64 {
        if by_model { carried::most_tokens(self) } else { self.budget_tokens }
    }
}

/// What a summary would ask of a model, as far as it is known before.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Foreseen {
    /// Who would write it.
    pub summarizer: String,
    /// The requests it would begin with, word for word; none without a model.
    pub requests: Vec<Prompt>,
    /// Tokens that these hold, by an estimate that suits any model.
    pub request_tokens: i64,
    /// Whether they are about pieces of a history that is too long for one, and more requests merge the answers.
    pub chunked: bool,
    /// About what it would cost, in millionths of a US dollar; none where no prices are known.
    pub cost_micros: Option<i64>,
}

/// What stands between a summarizer and its provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// The summarizer's name in the configuration.
    pub summarizer: String,
    /// The model that it asks for.
    pub model: String,
    /// How it stands with it.
    pub standing: Standing,
}

/// Why there is no summary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The same request may succeed later.
    #[error("{message}")]
    Transient {
        /// A sentence fragment.
        message: String,
        /// How long the other side asked to be left alone, in milliseconds.
        retry_after_ms: Option<i64>,
    },
    /// The same request will fail again.
    #[error("{message}")]
    Permanent {
        /// A sentence fragment.
        message: String,
    },
}

/// Something that can put history into few words.
///
/// It is called outside of any transaction, may take minutes, and is stopped by dropping the future.
pub trait Summarizer: Send + Sync {
    /// The name that events and lists show, such as `extractive`.
    fn name(&self) -> &str;

    /// Writes a summary of `input.messages` and `input.split_turn`. What the policy puts behind every summary is not in
    /// it yet; see [`SummaryOutput::completed`].
    fn summarize<'a>(&'a self, input: &'a SummaryInput) -> BoxFuture<'a, Result<SummaryOutput, Error>>;

    /// The same, before somebody who hears the words as they come and is told of every request to a model.
    ///
    /// A summarizer without a model has nothing to tell on the way.
    fn summarize_before<'a>(
        &'a self,
        input: &'a SummaryInput,
        witness: &'a dyn Witness,
    ) -> BoxFuture<'a, Result<SummaryOutput, Error>> {
        witness.begins(self.name());
        self.summarize(input)
    }

    /// How it stands with the providers that it asks; none without a model.
    fn gates(&self) -> Vec<Gate> {
        Vec::new()
    }

    /// What it would ask of a model. Nothing is sent.
    fn foresee(&self, _input: &SummaryInput) -> Foreseen {
        Foreseen { summarizer: self.name().to_owned(), ..Foreseen::default() }
    }
}
