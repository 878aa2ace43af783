//! Readers of other agents' transcripts. They return a neutral plan that can be written through the public API.
//! Writers of a session in these formats, and in forms for people, are in [`export`].
//!
//! A [`Transcript`] has branches of entries with the file's own ids, and child transcripts for sub-agents. Reading
//! never stops at a bad line: the line is kept as a record, and reported as a [`Problem`] with its number.
//!
//! # Damaged files
//!
//! A line that is no JSON value is split into its complete objects and what is between them; each object is read like a
//! line of its own, and the rest is kept as records. A row that equals an earlier one is read once. A value that the
//! protocol cannot hold is left out of the message or shortened, and stays in the rest of its line. All of this is
//! reported.
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
//! with one item for each line that went into the message; a later piece of a damaged line has its `column` too. `rest` is the line's own text, byte for byte, with `null`
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
mod compose;
mod content;
mod draft;
pub mod export;
mod name_index;
mod other_agents;
mod outsized;
mod pi;
pub mod provider;
mod raw;
mod split;
mod titles;
mod transcript;
#[cfg(test)]
mod tests;

use longhand_model::limits;
use longhand_model::part::PartBody;
use longhand_model::usage::Usage;
use name_index::Line;
use std::collections::HashSet;
use std::io::{self, BufRead};

pub use outsized::LINE_RECORD;
pub use transcript::{
    Branch, Entry, Format, ImportedCompaction, ImportedEdit, MALFORMED_RECORD, Problem, REPEATED_RECORD, REST_RECORD,
    Transcript,
};

/// Number of lines that are read to detect a file's format.
const DETECTION_LINES: usize = 50;

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
    /// The first lines are those of an agent whose files are not read.
    #[error("this is a file of {0}; only files of pi and Claude Code are read")]
    OtherAgent(String),
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
///
/// # Errors
///
/// The first line that tells is one of another agent, or none tells.
pub fn detect<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Format, ReadError> {
    let objects = lines.into_iter().take(DETECTION_LINES).filter_map(|text| raw::Object::parse(text, 1).ok());
    let told = objects.into_iter().find_map(|object| {
        // Rows of others may have all that a row of one of these formats needs.
        if let Some(agent) = other_agents::agent(&object) {
            return Some(Err(ReadError::OtherAgent(agent)));
        }
        if pi::is_line(&object) {
            return Some(Ok(Format::Pi));
        }
        claude_code::is_line(&object).then_some(Ok(Format::ClaudeCode))
    });
    told.unwrap_or(Err(ReadError::UnknownFormat))
}

/// Reads a transcript to its end.
///
/// # Errors
///
/// The reader failed, or the format is unknown. No content of a line is an error.
pub fn parse(reader: impl BufRead, options: &Options) -> Result<Transcript, ReadError> {
    let (lines, problems) = name_index::read_lines(reader)?;
    let format = match options.format {
        Some(format) => format,
        None => detect(lines.iter().map(Line::text))?,
    };
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
