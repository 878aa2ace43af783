//! Parameters of prunes.

use super::named::{NamedStrategy, can_be_named};
use serde::{Deserialize, Serialize};

/// Parameters of a prune of old outputs, reasoning or media: a walk from the newest part to the oldest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Prune {
    /// The kind of parts that are pruned.
    pub target: Target,
    /// The tools whose outputs are pruned; outputs of other tools stay and do not count.
    pub tools: Tools,
    /// The protected parts; a part stays while any of these protects it.
    pub keep: Keep,
    /// The condition of the prune.
    pub condition: Condition,
    /// Minimum number of tokens that can be freed; with less, nothing is pruned.
    pub minimum_tokens: i64,
    /// Batch size: nothing is pruned until more parts than this can be pruned; then the oldest are, in whole batches. It
    /// keeps the provider's cache valid between two batches. Absent: no batches.
    pub batch: Option<Count>,
    /// The treatment of outputs of calls that failed or were interrupted.
    pub failed_outputs: FailedOutputs,
    /// Skips outputs without text and media: they stay and do not count.
    pub skip_empty: bool,
    /// The tools whose calls lose their input together with their output: it becomes `{}`. Absent: inputs stay. No
    /// preset sets it; it is an option of Anthropic's context editing, for calls with long inputs.
    pub inputs: Option<Tools>,
    /// The order of the walk, and its end.
    pub walk: Walk,
    /// The replacement in the view.
    pub replacement: Replacement,
    /// Keeps a part unless its replacement has fewer tokens.
    pub only_if_shorter: bool,
}

impl Default for Prune {
    /// All outputs that the model has read, with a placeholder if that is shorter.
    fn default() -> Self {
        Self {
            target: Target::Outputs,
            tools: Tools::All,
            keep: Keep::default(),
            condition: Condition::Always,
            minimum_tokens: 0,
            batch: None,
            failed_outputs: FailedOutputs::Skip,
            skip_empty: false,
            inputs: None,
            walk: Walk::All,
            replacement: Replacement::text(PLACEHOLDER),
            only_if_shorter: true,
        }
    }
}

/// Placeholder of a pruned output if the policy has no text of its own.
pub(in crate::policy) const PLACEHOLDER: &str = "[Old tool result content cleared]";

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

/// A set of tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Tools {
    /// All tools.
    All,
    /// The tools with these names.
    Only(Vec<String>),
    /// All tools except those with these names.
    Except(Vec<String>),
}

impl Tools {
    /// True if the set contains a tool. An output without a call has no tool, and is in no set of names.
    pub(in crate::policy) fn contain(&self, tool: Option<&str>) -> bool {
        let is_named = |names: &[String]| tool.is_some_and(|tool| names.iter().any(|name| name == tool));
        match self {
            Self::All => true,
            Self::Only(names) => is_named(names),
            Self::Except(names) => !is_named(names),
        }
    }
}

/// Protection from a prune, counted from the newest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Keep {
    /// Number of last turns that are protected; requests begin them.
    pub turns: u32,
    /// Number of last turns that are protected, counting only turns that have a part of the kind: Anthropic's
    /// `thinking_turns`.
    pub turns_with_parts: u32,
    /// Number of last messages of the view that are protected; empty messages are not in the view.
    pub messages: u32,
    /// Tokens of the newest of the other parts that are protected; the part that crosses the limit is not.
    pub tokens: i64,
    /// Number of the newest of the other parts that are protected.
    pub parts: Count,
}

/// Condition of a prune.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Condition {
    /// Always.
    Always,
    /// The last reply is old enough, so that no provider has the view in its cache any more.
    Idle {
        /// Age of the last reply in seconds.
        seconds: u32,
    },
    /// More than this number of parts of the kind are in the view, protected ones included. No preset has it; it is an
    /// option of Anthropic's context editing (`tool_uses`).
    Parts {
        /// The number of parts.
        above: Count,
    },
    /// The parts of the kind are longer than `above_units` together, protected ones included. Parts without text stay.
    Length {
        /// Threshold in the policy's unit of length.
        above_units: u64,
        /// The oldest parts are pruned until the rest is no longer than this, in the same unit.
        down_to_units: u64,
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
    pub context_tokens_each: u32,
    /// Minimum of the number.
    pub minimum: u32,
    /// Maximum of the number.
    pub maximum: u32,
}

impl Default for Count {
    fn default() -> Self {
        Self::Fixed(0)
    }
}

/// The treatment of outputs of calls that failed or were interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedOutputs {
    /// They stay and do not count.
    Skip,
    /// They stay, but count among the protected parts.
    Count,
    /// They are pruned like all others.
    Prune,
}

/// The order of a walk, and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Walk {
    /// From the newest part to the oldest, past parts that were pruned earlier.
    All,
    /// The same, up to the first part that was pruned earlier, and up to the active summary: to every message written
    /// before it, its tail included. Older parts were evaluated when that part was pruned.
    UntilPruned,
    /// From the newest message to the oldest, with the parts of each message in the order of writing.
    PartsAsWritten(PartsAsWritten),
}

/// Continuation of a walk over the parts of each message in the order of writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartsAsWritten {
    /// Ends the walk at a part that was pruned earlier. Otherwise it continues with the message before that part's.
    pub ends_at_pruned: bool,
}

/// The replacement of a pruned part in a view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "snake_case", deny_unknown_fields)]
pub enum Replacement {
    /// A text.
    Placeholder(Placeholder),
    /// An excerpt of the output by the rules of a single agent.
    #[serde(skip)]
    Named(NamedStrategy),
}

can_be_named!(Replacement, excerpts);

impl Replacement {
    /// A placeholder without hints.
    pub fn text(text: &str) -> Self {
        Self::Placeholder(Placeholder { text: text.to_owned(), hints: Vec::new() })
    }
}

/// A placeholder for a part.
///
/// These fields are filled in: `{tool}`, `{target}` (the object of the call: a path, a command, a pattern), `{lines}`,
/// `{length}` (in the policy's unit), `{first}` (the first line), `{hint}`, `{mime}` and `{name}` of media, `{time}`
/// (the time of the prune, as `2026-01-31T12:00:00.000Z`), and `{message}` and `{part}`, the ids by which the
/// original can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placeholder {
    /// Text of the placeholder.
    pub text: String,
    /// Hints how to get the content again: the first that applies to the tool becomes `{hint}`.
    #[serde(default)]
    pub hints: Vec<Hint>,
}

/// A hint how to get an output again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hint {
    /// Names of the tools it applies to; empty: all tools.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Text of the hint, with the same fields except `{hint}`.
    pub text: String,
}
