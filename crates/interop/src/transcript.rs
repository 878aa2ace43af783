//! A transcript as the readers return it: branches of entries, and the problems of the file.

use longhand_model::message::NewMessage;
use longhand_model::part::NewPart;

/// Kind of a record that holds text that did not fit into the metadata of the message before it.
pub const REST_RECORD: &str = "rest";

/// Kind of a record that holds a line that could not be parsed.
pub const MALFORMED_RECORD: &str = "malformed";

/// Kind of a record that holds a line whose message an earlier line has, but whose other members differ.
pub const REPEATED_RECORD: &str = "repeated";

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

/// The content of a file, ready to be written to a session, its forks and its children.
#[derive(Debug, Clone, PartialEq)]
pub struct Transcript {
    /// Format of the file.
    pub format: Format,
    /// The file's own id for its session (for a sub-agent: the agent's), or empty if it has none.
    pub source_id: String,
    /// The title, or empty.
    pub title: String,
    /// The folder in which the agent worked at first, or empty.
    pub folder: String,
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
