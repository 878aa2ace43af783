//! Parameters of the strategies that only Suna uses.

use serde::{Deserialize, Serialize};

/// Units that a chat format adds to texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatFormat {
    /// Units of each message, without its role's name.
    pub message_units: u32,
}

/// Parameters of the truncation by role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerRole {
    /// The target: the share of the main level's limit down to which messages are shortened.
    pub target_ratio: f64,
    /// The tiers, in order.
    pub tiers: Vec<Tier>,
    /// Maximum number of further rounds, each with half of every measure of the round before.
    pub halvings: u32,
    /// Signs of tool results in messages that have no tool result part.
    pub results: ResultSigns,
    /// True if a text that is a JSON object is truncated from its original text in each round, and stays whole after
    /// the last round.
    pub json_starts_over: bool,
}

/// Passes that are applied together or not at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// The passes, in order.
    pub passes: Vec<Pass>,
}

/// One walk over the messages of a role, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pass {
    /// Author of the messages.
    pub author: Author,
    /// Number of newest messages that the note does not replace.
    pub newest_messages: u32,
    /// Only messages of more tokens than this are changed, each counted as a list of its own.
    pub above_tokens: i64,
    /// Number of units kept at the beginning of each older message; a text that is not longer stays. With 0 the note
    /// replaces the message, its media included.
    pub keep_units: u32,
    /// Text after the kept beginning; `{id}` becomes the id by which the message can be read.
    pub note: String,
    /// Truncates these newest messages in the middle if they are longer than two units for each token of the target,
    /// or than 100 000 units. Otherwise they stay as they are.
    pub truncates_newest: bool,
}

/// Author of the messages of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// Tools, whatever the role of their results is.
    Tools,
    /// All messages with the role `user`.
    User,
    /// The model.
    Assistant,
}

/// Signs by which a text is recognized as a tool result, in agents that write results as plain messages.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultSigns {
    /// Strings; a text that contains one is a result.
    pub texts: Vec<String>,
    /// Field names; a JSON object that has one is a result.
    pub fields: Vec<String>,
    /// Strings; a JSON object that contains one anywhere is a result.
    pub json_texts: Vec<String>,
}

/// Parameters of the omission of groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Groups {
    /// The target: the share of the main level's limit down to which groups are omitted.
    pub target_ratio: f64,
    /// Number of groups omitted at a time: from the middle if there are more than twice as many, else from the
    /// beginning.
    pub batch: u32,
    /// Nothing is omitted if there are this many groups or fewer. The last batch may leave fewer.
    pub minimum: u32,
}

/// Parameters of the omission of the middle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MiddleOut {
    /// Maximum number of messages. A call and its results stay together, so that a few more can stay.
    pub max_messages: u32,
    /// Minimum number of groups that stay, half of them at each end.
    pub minimum_groups: u32,
}

/// Parameters of the removal of a JSON field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strip {
    /// Name of the top-level field of the text that contains an object.
    pub object: String,
    /// Name of the field that is removed from that object.
    pub field: String,
}
