//! The statements of a summary, and the evidence for and against them.

use super::super::commands;
use super::super::previous::{CODE, heading_topic, topic_by_words};
use super::super::text::{self, Lead};
use longhand_core::model::compaction::{Contradiction, ContradictionKind};
use longhand_core::model::ids::MessageId;
use longhand_core::model::part::PartBody;
use longhand_core::model::view::SourceMessage;
use longhand_core::policy::summary::SummaryInput;
use longhand_core::policy::{Topic, files as lists};
use regex::Regex;

/// Characters of a reported claim, and of the fact in the history.
pub const CONTRADICTION_CHARS_MAX: usize = 200;

/// Maximum number of bytes read of a summary. Summaries are far smaller.
const READ_BYTES_MAX: usize = 262_144;

/// Maximum number of sentences.
const STATEMENTS_MAX: usize = 4_000;

/// Maximum number of claims of one kind that are checked.
pub(super) const CLAIMS_MAX: usize = 64;

pub(super) fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a fixed pattern")
}

/// The evidence for and against the claims of a summary.
#[derive(Debug, Clone, Default)]
pub struct Evidence<'a> {
    /// The messages that the summary covers, oldest first.
    pub messages: Vec<&'a SourceMessage>,
    /// Later messages that its writer may have read too. They can clear a claim, but not contradict one.
    pub behind: Vec<&'a SourceMessage>,
    /// Other texts that the writer was given: the previous summary, instructions.
    pub texts: Vec<&'a str>,
    /// True if the writer may know commits from elsewhere, such as an agent that summarizes its own context.
    pub knows_more: bool,
}

impl<'a> Evidence<'a> {
    /// The evidence for a summary that was written from an input and nothing else.
    pub fn of(input: &'a SummaryInput) -> Self {
        let prompt = &input.rules.prompt;
        let texts = prompt.rules.iter().chain(&prompt.task).chain(&input.previous).chain([&input.instructions]);
        Self {
            messages: input.messages.iter().chain(&input.split_turn).collect(),
            behind: Vec::new(),
            texts: texts.map(String::as_str).collect(),
            knows_more: false,
        }
    }

    /// All messages, the covered ones first.
    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &'a SourceMessage> {
        self.messages.iter().chain(&self.behind).copied()
    }
}

/// A sentence of a summary.
pub(super) struct Statement {
    /// Its section's topic, as far as the heading shows it.
    pub(super) topic: Option<Topic>,
    /// Its text, on one line.
    pub(super) words: String,
    /// Its text without code quotes.
    pub(super) bare: String,
}

impl Statement {
    /// True in sections that describe the present state, not goals.
    pub(super) fn is_claim(&self) -> bool {
        !matches!(
            self.topic,
            Some(Topic::Goal | Topic::Constraints | Topic::NextSteps | Topic::Blocked | Topic::OpenDecisions)
        )
    }

    pub(super) fn contradicted(
        &self,
        kind: ContradictionKind,
        history: &str,
        message: Option<MessageId>,
    ) -> Contradiction {
        let bounded = |words: &str| text::clip(&text::one_line(&text::clean(words)), CONTRADICTION_CHARS_MAX);
        Contradiction { kind, claim: bounded(&self.words), history: bounded(history), message }
    }
}

/// The sentences of a summary, without unticked tasks and code blocks.
pub(super) fn statements(summary: &str) -> Vec<Statement> {
    let cleaned = text::clean(commands::head(summary, READ_BYTES_MAX));
    let body = lists::strip_tags(&cleaned);
    let mut statements = Vec::new();
    let mut topic = None;
    for line in text::prose(&body) {
        if let Some(name) = line.text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
            topic = topic_by_words(&name.replace('_', " ")).filter(|_| !name.starts_with('/'));
            continue;
        }
        let heading = heading_topic(&line, &[]);
        topic = heading.or(topic);
        if heading.is_some() || line.lead == Lead::Unchecked {
            continue;
        }
        let plain = line.text.replace("**", "");
        for sentence in text::sentences_of(&plain) {
            let words = text::one_line(sentence);
            let bare = CODE.replace_all(&words, "``").into_owned();
            statements.push(Statement { topic, words, bare });
        }
        if statements.len() >= STATEMENTS_MAX {
            break;
        }
    }
    statements
}

/// The text of a part.
pub(super) fn words_of(body: &PartBody) -> &str {
    match body {
        PartBody::Text(words) | PartBody::Reasoning(words) => words,
        PartBody::ToolCall(call) => &call.input_json,
        PartBody::ToolResult(result) => &result.output,
        PartBody::Marker(marker) => &marker.text,
        PartBody::Record(record) => &record.data,
        PartBody::Opaque(block) => std::str::from_utf8(&block.data).unwrap_or_default(),
        PartBody::Media(_) | PartBody::Step(_) => "",
    }
}
