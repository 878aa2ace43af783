//! Claims of a summary that the history contradicts: a check said to pass that failed when it ran last ([`checks`]), a commit
//! that is nowhere ([`commits`]), a file that is not there ([`files`]).
//!
//! A false accusation is worse than a missed one. A sentence is a claim only where it says one thing plainly: it names a
//! command, an id or a path, the word of success or existence stands right beside the name, and nothing in the sentence
//! limits or dates it. The history contradicts a claim only by an outcome that leaves no doubt, and whatever came later and
//! may have changed that acquits; so does another sentence of the summary that says how it is.

mod checks;
mod commits;
mod files;

use super::super::SummaryInput;
use super::commands;
use super::previous::{CODE, heading_topic, topic_by_words};
use super::text::{self, Lead};
use crate::limits;
use crate::model::compaction::{Contradiction, ContradictionKind};
use crate::model::ids::MessageId;
use crate::model::part::PartBody;
use crate::model::view::SourceMessage;
use crate::policy::{Topic, files as lists};
use regex::Regex;

/// The most of a summary that is read, in bytes. Summaries are far smaller.
const READ_BYTES_MAX: usize = 262_144;

/// The most sentences of it.
const STATEMENTS_MAX: usize = 4_000;

/// The most claims of one kind that are held against the history.
const CLAIMS_MAX: usize = 64;

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a fixed pattern")
}

/// The evidence for and against the claims of a summary.
#[derive(Debug, Clone, Default)]
pub struct Evidence<'a> {
    /// The messages that the summary stands for, oldest first.
    pub messages: Vec<&'a SourceMessage>,
    /// The messages behind them that its writer may have read too. They acquit, and accuse nobody.
    pub behind: Vec<&'a SourceMessage>,
    /// Other texts that the writer was given: the summary before it, instructions.
    pub texts: Vec<&'a str>,
    /// True for a writer who may know of commits from elsewhere: an agent that sums up a context of its own.
    pub knows_more: bool,
}

impl<'a> Evidence<'a> {
    /// The evidence for what was written from an input and nothing else.
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

    /// All messages, with those behind the covered ones at the end.
    fn all(&self) -> impl DoubleEndedIterator<Item = &'a SourceMessage> {
        self.messages.iter().chain(&self.behind).copied()
    }
}

/// The claims of a summary that the evidence contradicts, each once, at most `limits::CONTRADICTIONS_MAX`.
pub fn contradictions(evidence: &Evidence<'_>, summary: &str) -> Vec<Contradiction> {
    let statements = statements(summary);
    let mut found = checks::contradicted(evidence, &statements);
    found.extend(commits::contradicted(evidence, &statements));
    found.extend(files::contradicted(evidence, &statements));
    found.truncate(limits::CONTRADICTIONS_MAX);
    found
}

/// A sentence of a summary.
struct Statement {
    /// Its section's topic, as far as the heading tells.
    topic: Option<Topic>,
    /// Its words, on one line.
    words: String,
    /// The same without what is quoted as code.
    bare: String,
}

impl Statement {
    /// True in sections that tell how things are, and not how they should be.
    fn is_claim(&self) -> bool {
        !matches!(self.topic, Some(Topic::Goal | Topic::Constraints | Topic::NextSteps | Topic::Blocked))
    }

    fn contradicted(&self, kind: ContradictionKind, history: &str, message: Option<MessageId>) -> Contradiction {
        let bounded = |words: &str| text::clip(&text::one_line(&text::clean(words)), limits::CONTRADICTION_CHARS_MAX);
        Contradiction { kind, claim: bounded(&self.words), history: bounded(history), message }
    }
}

/// The sentences of a summary, without tasks that are not ticked off and code blocks.
fn statements(summary: &str) -> Vec<Statement> {
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

/// The words of a part, whoever wrote them.
fn words_of(body: &PartBody) -> &str {
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
