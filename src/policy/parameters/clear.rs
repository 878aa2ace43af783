//! Parameters of prunes.

use serde::{Deserialize, Serialize};

/// Parameters of a prune of old outputs, reasoning or media: a walk from the newest part to the oldest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clear {
    /// The kind of parts that are pruned.
    pub target: Target,
    /// The estimate of a part, for limits in tokens.
    pub estimate: EstimateOf,
    /// The protected parts; a part stays while any of these protects it.
    pub keep: Keep,
    /// The condition of the prune.
    pub when: When,
    /// Batch size: nothing is pruned until more parts than this can be pruned; then this number of the oldest is.
    /// Absent: all.
    pub batch: Option<Count>,
    /// Nothing is pruned unless more than this number of tokens can be freed …
    pub minimum_tokens: i64,
    /// … or exactly this number.
    pub minimum_inclusive: bool,
    /// Restricts the prune to outputs of these tools.
    pub only_tools: Tools,
    /// Outputs of these tools stay and do not count.
    pub protected_tools: Vec<String>,
    /// Includes outputs of calls that failed or were interrupted, besides completed ones.
    pub failed_too: bool,
    /// Includes outputs without text and media.
    pub empty_too: bool,
    /// The tools whose calls lose their input together with their output: it becomes `{}`. Absent: inputs stay.
    pub inputs: Option<Tools>,
    /// The continuation of the walk at a part that was pruned earlier.
    pub past_cleared: PastCleared,
    /// The order of the walk within one message.
    pub part_order: PartOrder,
    /// Ends the walk at the active summary: at every message written before it, including its tail, wherever these
    /// messages are in the view.
    pub ends_at_summary: bool,
    /// The replacement in the view.
    pub instead: Instead,
    /// Keeps a part unless its replacement has fewer tokens.
    pub only_if_shorter: bool,
}

/// The kind of parts that a prune replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Outputs of tools, with their media.
    Outputs,
    /// Media in outputs of tools; the text stays.
    Attachments,
    /// Reasoning of the model.
    Reasoning,
    /// Media in messages.
    Media,
}

/// The estimate of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EstimateOf {
    /// The whole text of an output alone, even if a view truncates it. Other parts as by the policy's counting.
    Words,
    /// The part in its message, by the policy's counting.
    Part,
}

/// A set of tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Tools {
    /// All tools.
    All,
    /// The tools with these names.
    These(Vec<String>),
}

impl Tools {
    /// True if the set contains a tool; an output without a call has no tool.
    pub(in crate::policy) fn contain(&self, tool: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => tool.is_some_and(|tool| names.iter().any(|name| name == tool)),
        }
    }
}

/// The replacement of a pruned part in a view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Instead {
    /// A placeholder text.
    Words(Words),
    /// Its beginning and its end.
    Excerpt(Box<Excerpt>),
}

/// Condition of a clear step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum When {
    /// Always.
    Always,
    /// More than this number of parts of the kind are in the view, protected ones included.
    Items {
        /// The number of parts.
        above: Count,
    },
    /// The last reply is old enough.
    Idle {
        /// Age of the last reply in seconds.
        seconds: u32,
    },
    /// The parts of the kind are longer than `above` together, protected ones included. Parts without text stay.
    Units {
        /// Threshold in the policy's unit of length.
        above: u64,
        /// The oldest parts are cleared until the rest is no longer than this, in the same unit.
        down_to: u64,
    },
}

/// A number, fixed or derived from the window. As JSON it is the number, or the fields of [`OfWindow`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Count {
    /// A fixed number.
    Fixed(u32),
    /// A number derived from the size of the window.
    OfWindow(OfWindow),
}

/// A number derived from the size of the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfWindow {
    /// Number of context tokens that add one to the number.
    pub tokens_each: u32,
    /// Minimum of the number.
    pub least: u32,
    /// Maximum of the number.
    pub most: u32,
}

impl Default for Count {
    fn default() -> Self {
        Self::Fixed(0)
    }
}

/// Protection from a clear step, counted from the newest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keep {
    /// Number of last turns that are protected; requests begin them.
    pub turns: u32,
    /// Number of last turns that are protected, counting only turns that have a part of the kind.
    pub turns_with_any: u32,
    /// Number of last messages of the view that are protected; empty messages are not in the view.
    pub messages: u32,
    /// Tokens of the newest of the other parts that are protected; the part that crosses the limit is not.
    pub tokens: i64,
    /// Number of the newest of the other parts that are protected.
    pub items: Count,
    /// Counts outputs of failed calls among these items, although they are never cleared.
    pub failed_items: bool,
}

/// Next action of the walk at a part that was cleared before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PastCleared {
    /// Ends the walk: older parts were evaluated when that part was cleared.
    Stop,
    /// Continues with the message before.
    NextMessage,
    /// Continues with the next part.
    GoOn,
}

/// Order in which the walk visits the parts of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartOrder {
    /// The last part first.
    NewestFirst,
    /// The first part first, although the walk visits the last message first.
    AsWritten,
}

/// A placeholder for a part.
///
/// These fields are filled in: `{tool}`, `{target}` (the object of the call: a path, a command, a pattern), `{lines}`,
/// `{length}` (in the policy's unit), `{first}` (the first line), `{hint}`, `{mime}` and `{name}` of media, `{time}`
/// (the time of the clearing, as `2026-01-31T12:00:00.000Z`), and `{message}` and `{part}`, the ids by which the
/// original can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    /// Text of the placeholder.
    pub text: String,
    /// Hints how to get the content again: the first that applies to the tool becomes `{hint}`.
    pub hints: Vec<Hint>,
}

/// A hint how to get an output again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hint {
    /// Names of the tools it applies to; empty: all tools.
    pub tools: Vec<String>,
    /// Text of the hint, with the same fields except `{hint}`.
    pub text: String,
}

/// Rules for excerpts: by lines for outputs of some tools, by units for all others. A short output stays whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Excerpt {
    /// Text before an excerpt; `{part}` becomes the id by which the original can be read.
    pub before: String,
    /// Text after an excerpt, with the same field.
    pub after: String,
    /// Excerpts by lines, for outputs of programs.
    pub lines: Lines,
    /// Excerpts by units, for other outputs.
    pub units: Units,
}

/// An excerpt by lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lines {
    /// Names of the tools it applies to.
    pub tools: Vec<String>,
    /// Name of the section that is truncated; a line that starts with the name and a colon begins it. An output without
    /// sections is truncated as a whole.
    pub section: String,
    /// The names of the other sections, which stay whole.
    pub other_sections: Vec<String>,
    /// Number of lines kept at the beginning.
    pub head: u32,
    /// Number of lines kept at the end.
    pub tail: u32,
    /// Text between them; `{omitted}` becomes the number of omitted lines.
    pub marker: String,
}

/// An excerpt by units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Units {
    /// Maximum length of a text that stays whole.
    pub above: u32,
    /// Number of units kept at the beginning.
    pub head: u32,
    /// Number of units kept at the end.
    pub tail: u32,
    /// Text between them; `{omitted}` becomes the number of omitted units.
    pub marker: String,
}
