//! Readers of other agents' transcripts. They return a neutral plan that can be written through the public API.
//!
//! A [`Transcript`] has branches of entries with the file's own ids, and child transcripts for sub-agents. Reading
//! never stops at a bad line: the line is kept as a record, and reported as a [`Problem`] with its number.
//!
//! # Nothing of a line is lost
//!
//! A line that becomes a record is kept verbatim in the record. A line that becomes a message is divided between the
//! message's parts and its `metadata_json`, so that no content is stored twice. The metadata has the form
//!
//! ```json
//! {"format":"pi","lines":[{"line":7,"cut":[["/message/content/0/text",0]],"rest":{"type":"message", …}}]}
//! ```
//!
//! with one item for each line that went into the message. `rest` is the line's own text, byte for byte, with `null`
//! for each value that was moved out of it. `cut` lists the new positions of those values, by JSON pointer and index of
//! the part: `[pointer, part]` is the part's own content (text, input, output, media bytes in base64, opaque data),
//! `[pointer, part, 2]` is the third attachment of a tool result, and `[pointer, part, "signature"]` is the member
//! `signature` of the part's own `metadata_json`, which holds the other members of a block. If a rest would make the
//! metadata larger than the caller allows, it is kept in a record of kind [`REST_RECORD`] directly after the message,
//! in the same form without `cut`. A line whose content became two messages has two items with the same number, and one
//! of them has the rest.
//!
//! A message or a record that would be larger than the daemon accepts is shortened, and its lines are kept whole in
//! records of kind [`LINE_RECORD`] after it, in pieces; the metadata then names those records instead of cuts and
//! rests. A string that is not valid Unicode, because it contains half of a surrogate pair, is shown with a replacement
//! for that half, and kept in the rest as it was written; this is not reported as a problem.

mod branches;
mod claude_code;
mod content;
mod draft;
mod name_index;
mod outsized;
mod pi;
mod raw;
#[cfg(test)]
mod tests;

use crate::limits;
use crate::model::harness;
use crate::model::message::NewMessage;
use crate::model::part::{NewPart, PartBody};
use crate::model::usage::Usage;
use name_index::Line;
use regex::Regex;
use std::collections::HashSet;
use std::io::{self, BufRead};
use std::sync::LazyLock;

/// Kind of a record that holds text that did not fit into the metadata of the message before it.
pub const REST_RECORD: &str = "rest";

/// Kind of a record that holds a line that could not be parsed.
pub const MALFORMED_RECORD: &str = "malformed";

pub use outsized::LINE_RECORD;

/// Number of lines that are read to detect a file's format.
const DETECTION_LINES: usize = 50;

/// Maximum length of a title made from a first request, in characters.
const TITLE_CHARACTERS: usize = 80;

/// Format of a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A pi session file, versions 1 to 3.
    Pi,
    /// A Claude Code transcript, or that of one of its sub-agents.
    ClaudeCode,
}

impl Format {
    /// The format's name in metadata and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pi => "pi",
            Self::ClaudeCode => "claude-code",
        }
    }
}

/// Options of the readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The format; none to detect it from the first lines.
    pub format: Option<Format>,
    /// Maximum size of a message's or a part's metadata, in bytes; the excess is kept elsewhere.
    pub metadata_bytes: usize,
    /// Maximum size of the parts of a message, in bytes; a larger message is shortened, and its lines are kept whole in
    /// records.
    pub message_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { format: None, metadata_bytes: 64 * 1024, message_bytes: limits::MESSAGE_BYTES_MAX }
    }
}

/// Reason why a file was not read at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The reader failed.
    #[error("the transcript cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The first lines match no known format.
    #[error("this is neither a pi session file nor a Claude Code transcript")]
    UnknownFormat,
}

/// The content of a file, ready to be written to a session, its forks and its children.
#[derive(Debug, Clone, PartialEq)]
pub struct Transcript {
    /// Format of the file.
    pub format: Format,
    /// The file's own id for its session (for a sub-agent: the agent's), or empty if it has none.
    pub source_id: String,
    /// The title, or empty.
    pub title: String,
    /// The branches: first the current one, then the abandoned ones, which become forks. Never empty.
    pub branches: Vec<Branch>,
    /// Sub-agents whose lines are in the same file.
    pub children: Vec<Transcript>,
    /// The problems of the file, in the order of its lines; in-file children report to their parent.
    pub problems: Vec<Problem>,
}

/// One path through a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// `main`, or the `client_id` of the branch's first entry.
    pub name: String,
    /// Index of the branch that this one leaves; always smaller than its own. Zero for the main branch.
    pub from: usize,
    /// The `client_id` of the last entry that is shared with `from`; it is one of that branch's own entries. None if no
    /// entry is shared, as for the main branch: the branch then is a session of its own.
    pub fork_after: Option<String>,
    /// The branch's entries after the shared ones, in order.
    pub entries: Vec<Entry>,
}

/// One entry of a branch.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// A message of the conversation. It has a `client_id` and is sealed.
    Message {
        /// The line in the file, from 1; the first one if the message is split over several.
        line: usize,
        /// The message to append.
        message: NewMessage,
    },
    /// A line that is not part of the conversation, as a message of kind `Record`.
    Record {
        /// The line in the file, from 1.
        line: usize,
        /// The message to append.
        message: NewMessage,
    },
    /// A compaction by the agent, to be supplied as a finished summary or kept only as a record.
    Compaction(ImportedCompaction),
    /// An edit of an earlier message.
    Edit(ImportedEdit),
}

impl Entry {
    /// The entry's id in its file, unique there.
    pub fn client_id(&self) -> &str {
        match self {
            Self::Message { message, .. } | Self::Record { message, .. } => {
                message.client_id.as_deref().unwrap_or_default()
            }
            Self::Compaction(compaction) => &compaction.client_id,
            Self::Edit(edit) => &edit.client_id,
        }
    }

    /// The entry's line, from 1.
    pub fn line(&self) -> usize {
        match self {
            Self::Message { line, .. } | Self::Record { line, .. } => *line,
            Self::Compaction(compaction) => compaction.line,
            Self::Edit(edit) => edit.line,
        }
    }
}

/// A compaction by the agent.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedCompaction {
    /// The file's own id for it.
    pub client_id: String,
    /// The line in the file, from 1.
    pub line: usize,
    /// The summary, as the agent would show it to a model.
    pub summary_text: String,
    /// The `client_id` of the first message kept verbatim; none if no message was kept.
    pub first_kept_client_id: Option<String>,
    /// The `client_id` of the last message that the summary covers; everything before it is covered too.
    pub covers_until_client_id: String,
    /// The agent's name for the trigger, or empty.
    pub trigger: String,
    /// Tokens of the context before the compaction, as the agent counted them; zero if unknown.
    pub tokens_before: i64,
    /// True if an extension wrote the summary instead of the agent.
    pub from_hook: bool,
    /// The message of kind `Record` that keeps the compaction's lines verbatim, separated by line feeds. Append it
    /// after the summary is supplied, so that a branch that leaves at this entry has the summary.
    pub record: NewMessage,
}

/// An edit of a message in the agent's context; the original stays in its file.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedEdit {
    /// The file's own id for it.
    pub client_id: String,
    /// The line in the file, from 1.
    pub line: usize,
    /// The `client_id` of the edited message. It comes before the edit on the same path through the conversation, and
    /// no compaction covers it.
    pub target_client_id: String,
    /// The replacement; if empty, the message is omitted.
    pub parts: Vec<NewPart>,
    /// The message of kind `Record` that keeps the edit's line verbatim. Append it after the edit is made, so that a
    /// branch that leaves at this entry has the edit.
    pub record: NewMessage,
}

/// A problem with a line; the import continues without the affected content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// Message text: the problem and its effect.
    pub message: String,
}

/// Counts of a transcript's content, all branches and in-file children together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    /// Messages of the conversation.
    pub messages: usize,
    /// Their parts.
    pub parts: usize,
    /// Records, without those of compactions and edits.
    pub records: usize,
    /// Compactions by the agent.
    pub compactions: usize,
    /// Edits by the agent.
    pub edits: usize,
    /// Sum of the usage that the replies reported.
    pub usage: Usage,
    /// Tool calls.
    pub calls: usize,
    /// Tool calls without a result anywhere in the file.
    pub unanswered_calls: usize,
}

/// Detects a file's format from its first lines.
pub fn detect<'a>(lines: impl IntoIterator<Item = &'a str>) -> Option<Format> {
    let mut first = true;
    for text in lines.into_iter().take(DETECTION_LINES) {
        let Ok(object) = raw::Object::parse(text) else { continue };
        if first && pi::is_header(&object) {
            return Some(Format::Pi);
        }
        first = false;
        if claude_code::is_line(&object) {
            return Some(Format::ClaudeCode);
        }
    }
    None
}

/// Reads a transcript to its end.
///
/// # Errors
///
/// The reader failed, or the format is unknown. No content of a line is an error.
pub fn parse(reader: impl BufRead, options: &Options) -> Result<Transcript, ReadError> {
    let (lines, problems) = name_index::read_lines(reader)?;
    let format = options.format.or_else(|| detect(lines.iter().map(Line::text)));
    let format = format.ok_or(ReadError::UnknownFormat)?;
    let mut transcript = match format {
        Format::Pi => pi::read(&lines, problems, options.metadata_bytes),
        Format::ClaudeCode => claude_code::read(&lines, problems, options.metadata_bytes, false),
    };
    outsized::shorten_messages(&mut transcript, &lines, options.message_bytes);
    Ok(transcript)
}

/// Reads the transcript of a Claude Code sub-agent, which has a file of its own (`<session>/subagents/*.jsonl`).
///
/// # Errors
///
/// The reader failed.
pub fn parse_child(reader: impl BufRead, options: &Options) -> Result<Transcript, ReadError> {
    let (lines, problems) = name_index::read_lines(reader)?;
    let mut transcript = claude_code::read(&lines, problems, options.metadata_bytes, true);
    outsized::shorten_messages(&mut transcript, &lines, options.message_bytes);
    Ok(transcript)
}

/// Counts the content of a transcript.
pub fn expectations(transcript: &Transcript) -> Totals {
    let mut totals = Totals::default();
    let mut calls = Vec::new();
    let mut answered = HashSet::new();
    for entry in transcript.branches.iter().flat_map(|branch| &branch.entries) {
        match entry {
            Entry::Record { .. } => totals.records += 1,
            Entry::Compaction(_) => totals.compactions += 1,
            Entry::Edit(_) => totals.edits += 1,
            Entry::Message { message, .. } => {
                totals.messages += 1;
                totals.parts += message.parts.len();
                add_usage(&mut totals.usage, message.finish.as_ref().and_then(|finish| finish.usage));
                for part in &message.parts {
                    if let PartBody::ToolCall(call) = &*part.body {
                        calls.push(call.call_id.as_str());
                    } else if let PartBody::ToolResult(result) = &*part.body {
                        answered.insert(result.call_id.as_str());
                    }
                }
            }
        }
    }
    totals.calls = calls.len();
    totals.unanswered_calls = calls.iter().filter(|call| !answered.contains(*call)).count();
    for child in transcript.children.iter().map(expectations) {
        totals.messages += child.messages;
        totals.parts += child.parts;
        totals.records += child.records;
        totals.compactions += child.compactions;
        totals.edits += child.edits;
        totals.calls += child.calls;
        totals.unanswered_calls += child.unanswered_calls;
        add_usage(&mut totals.usage, Some(child.usage));
    }
    totals
}

fn add_usage(sum: &mut Usage, usage: Option<Usage>) {
    let Some(usage) = usage else { return };
    sum.input = sum.input.saturating_add(usage.input);
    sum.output = sum.output.saturating_add(usage.output);
    sum.reasoning = sum.reasoning.saturating_add(usage.reasoning);
    sum.cache_read = sum.cache_read.saturating_add(usage.cache_read);
    sum.cache_write = sum.cache_write.saturating_add(usage.cache_write);
    if let Some(cost) = usage.cost_usd {
        sum.cost_usd = Some(sum.cost_usd.unwrap_or_default() + cost);
    }
}

/// A title made from a request; none if it requests nothing: a notice, or a command of the agent's own without a
/// subject.
fn title_of_request(text: &str) -> Option<String> {
    let spoken = harness::spoken(text);
    if harness::command(&spoken).is_some_and(|(_, rest)| !rest.contains(char::is_whitespace)) {
        return None;
    }
    Some(title_of(&spoken)).filter(|title| !title.is_empty())
}

/// Tags that a program put into a title, recognised by the hyphens or underscores in their names.
static TAG: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"</?[A-Za-z][A-Za-z0-9]*[-_][A-Za-z0-9_-]*(?: [^<>]*)?/?>").expect("a fixed pattern"));

/// A title made from a text: its first line that has words, without markup and control characters, shortened to
/// [`TITLE_CHARACTERS`].
fn title_of(text: &str) -> String {
    let text = TAG.replace_all(text, " ");
    let bare = |line: &str| {
        let line: String = line.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
        words.trim_start_matches(['#', '>', '*']).trim().to_owned()
    };
    let line = text.lines().map(bare).find(|line| line.chars().any(char::is_alphanumeric)).unwrap_or_default();
    match line.char_indices().nth(TITLE_CHARACTERS) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}
