//! Other agents' transcripts, read into a neutral plan that can be played through the public API.
//!
//! A [`Transcript`] is what a file says in Longhand's words: branches of entries with the file's own ids, and child
//! transcripts for sub-agents. Reading never stops at a bad line: it is kept as a record, and reported as a
//! [`Problem`] with its number.
//!
//! # Nothing of a line is lost
//!
//! A line that becomes a record is kept verbatim in the record. A line that becomes a message is divided between the
//! message's parts and its `metadata_json`, so that no content is stored twice. The metadata reads
//!
//! ```json
//! {"format":"pi","lines":[{"line":7,"cut":[["/message/content/0/text",0]],"rest":{"type":"message", …}}]}
//! ```
//!
//! with one item for each line that went into the message. `rest` is the line's own text, byte for byte, with `null`
//! in the place of each value that was cut out of it. `cut` tells where those values are now, by JSON pointer and index
//! of the part: `[pointer, part]` is what the part itself says (text, input, output, media bytes in base64, opaque
//! data), `[pointer, part, 2]` is the third attachment of a tool result, and `[pointer, part, "signature"]` is the
//! member `signature` of the part's own `metadata_json`, which holds what a block has beside its content. When a rest
//! would make the metadata larger than the caller allows, it stands in a record of kind [`REST_RECORD`] directly after
//! the message, in the same form without `cut`. A line whose content became two messages has two items with the same
//! number, and one of them has the rest.
//!
//! A message or a record that would be larger than the daemon takes is made smaller, and its lines stand whole in records
//! of kind [`LINE_RECORD`] behind it, in pieces; the metadata then names those records instead of cuts and rests.
//! A string that is no Unicode text, because half of a surrogate pair stands in it, is shown with a replacement for that
//! half, and stays in the rest as it was written, which is no problem of the line.

mod branches;
mod claude_code;
mod content;
mod draft;
mod ledger;
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
use ledger::Line;
use regex::Regex;
use std::collections::HashSet;
use std::io::{self, BufRead};
use std::sync::LazyLock;

/// The kind of a record that holds what did not fit into the metadata of the message before it.
pub const REST_RECORD: &str = "rest";

/// The kind of a record that holds a line which could not be understood.
pub const MALFORMED_RECORD: &str = "malformed";

pub use outsized::LINE_RECORD;

/// How many lines are looked at to tell a file's format.
const DETECTION_LINES: usize = 50;

/// How many characters of a first request make a title.
const TITLE_CHARACTERS: usize = 80;

/// A kind of transcript.
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

/// How to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The format, or none to tell it from the first lines.
    pub format: Option<Format>,
    /// The most bytes a message's or a part's metadata may have; what would be larger is kept elsewhere.
    pub metadata_bytes: usize,
    /// The most bytes the parts of a message may have; a message with more is shortened, and its lines are kept whole in
    /// records.
    pub message_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { format: None, metadata_bytes: 64 * 1024, message_bytes: limits::MESSAGE_BYTES_MAX }
    }
}

/// Why a file was not read at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The reader failed.
    #[error("the transcript cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The first lines look like no format that is known here.
    #[error("this is neither a pi session file nor a Claude Code transcript")]
    UnknownFormat,
}

/// What a file says, ready to be written to a session, its forks and its children.
#[derive(Debug, Clone, PartialEq)]
pub struct Transcript {
    /// What kind of file it was.
    pub format: Format,
    /// The file's own id for its session (for a sub-agent: the agent's), or empty if it names none.
    pub source_id: String,
    /// What people would call it, or empty.
    pub title: String,
    /// The branches: first the current one, then the abandoned ones, which become forks. Never empty.
    pub branches: Vec<Branch>,
    /// Sub-agents whose lines stand in the same file.
    pub children: Vec<Transcript>,
    /// What was wrong with the file, in the order of its lines; in-file children report to their parent.
    pub problems: Vec<Problem>,
}

/// One way through a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// `main`, or the `client_id` of the branch's first entry.
    pub name: String,
    /// The index of the branch that this one leaves; always smaller than its own. Zero for the main branch.
    pub from: usize,
    /// The `client_id` of the last entry that is shared with `from`; it is one of that branch's own entries.
    /// None if nothing is shared, as for the main branch: the branch then is a session of its own.
    pub fork_after: Option<String>,
    /// What the branch has beyond what it shares, in order.
    pub entries: Vec<Entry>,
}

/// One entry of a branch.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// A message of the conversation. It has a `client_id` and is sealed.
    Message {
        /// The file's line, from 1; the first of them if the message was split over several.
        line: usize,
        /// What to append.
        message: NewMessage,
    },
    /// A line that is not part of the conversation, as a message of kind `Record`.
    Record {
        /// The file's line, from 1.
        line: usize,
        /// What to append.
        message: NewMessage,
    },
    /// A compaction that the agent made, to be supplied as a finished summary or kept as a record only.
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

/// A compaction that the agent made.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedCompaction {
    /// The file's own id for it.
    pub client_id: String,
    /// The file's line, from 1.
    pub line: usize,
    /// The summary, as the agent would show it to a model.
    pub summary_text: String,
    /// The `client_id` of the first message kept verbatim; none if nothing was kept.
    pub first_kept_client_id: Option<String>,
    /// The `client_id` of the last message that the summary stands for; everything before it is covered too.
    pub covers_until_client_id: String,
    /// The agent's own word for why it compacted, or empty.
    pub trigger: String,
    /// Tokens of the context before, as the agent counted them; zero if it did not say.
    pub tokens_before: i64,
    /// Whether an extension wrote the summary instead of the agent.
    pub from_hook: bool,
    /// The message of kind `Record` that keeps the compaction's lines, verbatim, one beneath the other. Append it after
    /// the summary is supplied, so that a branch that leaves at this entry has the summary.
    pub record: NewMessage,
}

/// An edit that the agent made of what it shows a model; the original stays in its file.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedEdit {
    /// The file's own id for it.
    pub client_id: String,
    /// The file's line, from 1.
    pub line: usize,
    /// The `client_id` of the message that is edited. It stands before the edit, on the same way through the
    /// conversation, and under no compaction.
    pub target_client_id: String,
    /// What stands in its place; nothing leaves it out.
    pub parts: Vec<NewPart>,
    /// The message of kind `Record` that keeps the edit's line, verbatim. Append it after the edit is made, so that a
    /// branch that leaves at this entry has the edit.
    pub record: NewMessage,
}

/// Something that is wrong with a line; the import goes on without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong and what became of it.
    pub message: String,
}

/// What playing a transcript will write, all branches and in-file children together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    /// Messages of the conversation.
    pub messages: usize,
    /// Their parts.
    pub parts: usize,
    /// Records; those that compactions and edits leave are not among them.
    pub records: usize,
    /// Compactions that the agent made.
    pub compactions: usize,
    /// Edits that the agent made.
    pub edits: usize,
    /// The sums of what the replies reported.
    pub usage: Usage,
    /// Tool calls.
    pub calls: usize,
    /// Tool calls that have no result anywhere in the file.
    pub unanswered_calls: usize,
}

/// Tells a file's format from its first lines.
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
/// The reader failed, or the format is not known. Nothing that a line may hold is an error.
pub fn parse(reader: impl BufRead, options: &Options) -> Result<Transcript, ReadError> {
    let (lines, problems) = ledger::read_lines(reader)?;
    let format = options.format.or_else(|| detect(lines.iter().map(Line::text)));
    let format = format.ok_or(ReadError::UnknownFormat)?;
    let mut transcript = match format {
        Format::Pi => pi::read(&lines, problems, options.metadata_bytes),
        Format::ClaudeCode => claude_code::read(&lines, problems, options.metadata_bytes, false),
    };
    outsized::fit(&mut transcript, &lines, options.message_bytes);
    Ok(transcript)
}

/// Reads the transcript of a Claude Code sub-agent, which stands in a file of its own (`<session>/subagents/*.jsonl`).
///
/// # Errors
///
/// The reader failed.
pub fn parse_child(reader: impl BufRead, options: &Options) -> Result<Transcript, ReadError> {
    let (lines, problems) = ledger::read_lines(reader)?;
    let mut transcript = claude_code::read(&lines, problems, options.metadata_bytes, true);
    outsized::fit(&mut transcript, &lines, options.message_bytes);
    Ok(transcript)
}

/// Counts what playing a transcript will write.
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

/// A title out of a request, or none if it asks for nothing: a notice, or a command of the agent's own without a subject.
fn title_of_request(text: &str) -> Option<String> {
    let spoken = harness::spoken(text);
    if harness::command(&spoken).is_some_and(|(_, rest)| !rest.contains(char::is_whitespace)) {
        return None;
    }
    Some(title_of(&spoken)).filter(|title| !title.is_empty())
}

/// Tags in a title that somebody's program put there, by the hyphens or underscores in their names.
static TAG: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"</?[A-Za-z][A-Za-z0-9]*[-_][A-Za-z0-9_-]*(?: [^<>]*)?/?>").expect("a fixed pattern"));

/// A title out of a text: its first line with words in it, without markup and control characters, cut to a readable
/// length.
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
