//! Input and output of a writer of summaries.

use super::plan::SummaryPlan;
use super::{Counting, Summary};
use crate::model::compaction::Contradiction;
use crate::model::mark::Words;
use crate::model::message::MessageKind;
use crate::model::usage::Usage;
use crate::model::view::SourceMessage;
use std::borrow::Cow;

/// Heading of the record of what happened, whose lines are bullets.
pub const RECORD_HEADING: &str = "# Record of what happened";

/// Heading of what people typed. The part of a summary that begins with it has that and nothing else.
pub const SAID_HEADING: &str = "# What people said";

/// A text of a summary without the record that was put behind it: what comes next has a newer one.
pub fn without_record(text: &str) -> Cow<'_, str> {
    if !text.contains(RECORD_HEADING) {
        return Cow::Borrowed(text);
    }
    // It ends with an empty line, and there is one before it.
    let mut in_record = false;
    let keeps = |line: &&str| {
        let ends = in_record && line.is_empty();
        in_record = *line == RECORD_HEADING || (in_record && line.starts_with("- "));
        !in_record && !ends
    };
    let kept: Vec<&str> = text.lines().filter(keeps).collect();
    Cow::Owned(kept.join("\n").trim_end().to_owned())
}

/// Input of a writer of summaries.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryInput {
    /// Messages to cover, oldest first, with their original text. Markers and earlier summaries are not among them.
    pub messages: Vec<SourceMessage>,
    /// First part of a split turn, or empty. It comes right after `messages`; the rest of the turn stays verbatim.
    pub split_turn: Vec<SourceMessage>,
    /// Text of the summary that this one replaces, so that facts known only from it are carried on.
    pub previous: Option<String>,
    /// The digest of the originals that it covers, in the form in which the built-in summarizer stores it; none if it is
    /// not known.
    pub previous_digest: Option<String>,
    /// What becomes of the words of messages, as clients decided.
    pub words: Words,
    /// True if that summary was supplied by a client. Its file lists are not carried on: nobody knows who
    /// made them.
    pub previous_is_supplied: bool,
    /// Format and limits of the summary.
    pub rules: Summary,
    /// Token counting.
    pub counting: Counting,
    /// Custom instructions of the requester; empty for none.
    pub instructions: String,
    /// Maximum size of the text, in tokens by `counting`. Never more than `rules.max_tokens`.
    pub budget_tokens: i64,
}

impl SummaryInput {
    /// The input for a planned summary. Longhand's own continuations are not worth summarizing.
    pub fn from_plan(plan: &SummaryPlan, counting: &Counting, instructions: &str) -> Self {
        let summarizable = |messages: &[SourceMessage]| {
            messages.iter().filter(|source| source.message.kind != MessageKind::Continuation).cloned().collect()
        };
        Self {
            messages: summarizable(&plan.head),
            split_turn: summarizable(&plan.split_turn),
            previous: plan.previous.clone(),
            previous_digest: None,
            words: Words::new(),
            previous_is_supplied: false,
            rules: plan.rules.clone(),
            counting: counting.clone(),
            instructions: instructions.to_owned(),
            budget_tokens: plan.rules.max_tokens,
        }
    }
}

/// Output of a writer of summaries.
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
