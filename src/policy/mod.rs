//! The verbs: every decision about what a view keeps, as total functions of their arguments.
//!
//! A policy is data; the strategies it names are here. Nothing in this module waits, fails, logs, reads a clock or rolls
//! a die: "no decision" is a value.

#[cfg(test)]
mod dsl;
pub mod files;

#[cfg(test)]
mod golden;
pub mod overflow;
pub mod overrides;
pub mod pairing;
pub mod presets;
pub mod prune;
pub mod render;
pub mod select;
pub mod shorten;
pub mod tokens;
pub mod truncate;
pub mod turns;
pub mod validate;

use serde::{Deserialize, Serialize};

/// All parameters of reduction for one session.
///
/// The text form is JSON with these field names; unknown fields are refused, so that a typing error is never ignored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The preset it started from, with its version: `opencode@seed`.
    pub preset: String,
    /// The version of the code that renders views under this policy, so that an old view keeps its bytes.
    pub render_version: u32,
    /// How text becomes tokens where no usage is reported or trusted.
    pub counting: Counting,
    /// When a summary is due.
    pub trigger: Trigger,
    /// How long outputs are cut in every view; absent: never.
    pub truncate: Option<Truncate>,
    /// How old tool outputs are cleared; absent: never.
    pub prune: Option<Prune>,
    /// What is kept verbatim beside a summary.
    pub tail: Tail,
    /// What a summary looks like.
    pub summary: Summary,
    /// How a summary appears in a view.
    pub view: ViewStyle,
    /// What ends a loop.
    pub guards: Guards,
}

/// How text becomes tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counting {
    /// What a length counts.
    pub unit: LengthUnit,
    /// Units for one token. At least 1.
    pub units_per_token: u32,
    /// How a fraction of a token is rounded.
    pub rounding: Rounding,
    /// Where the rounding happens.
    pub per: CountPer,
    /// Units that one media item counts for.
    pub media_units: u32,
}

/// What a length counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LengthUnit {
    /// UTF-16 code units, as JavaScript's `length`.
    Utf16,
    /// Unicode scalar values, as Python's `len`.
    CodePoints,
    /// UTF-8 bytes.
    Bytes,
}

/// How a fraction of a token is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounding {
    /// Up.
    Ceil,
    /// To the nearest, halves up.
    HalfUp,
    /// Down.
    Floor,
}

/// What is measured as one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountPer {
    /// Each message's own words: pi's estimate per message kind.
    Message,
    /// The JSON text of the provider messages, as OpenCode measures a range.
    JsonRange,
}

/// When a summary is due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trigger {
    /// Whether anything happens without being asked for.
    pub auto: bool,
    /// How much of the window may be used.
    pub threshold: Threshold,
}

/// How much of a window may be used before a summary is due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Threshold {
    /// Due when the tokens reach `input - reserved` where the model has an input limit, else `context - output`.
    ///
    /// OpenCode's `usable`; `reserved` is the smaller of `buffer_tokens` and the output limit.
    Usable {
        /// Most tokens kept free under an input limit.
        buffer_tokens: i64,
        /// The output limit is cut to this, and is this when the model names none.
        output_cap_tokens: i64,
    },
    /// Due when the tokens exceed `context - reserve_tokens`: pi's `shouldCompact`.
    Reserve {
        /// Tokens kept free.
        reserve_tokens: i64,
    },
}

/// How long outputs are cut in every view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truncate {
    /// Units that are kept from the start; 0 switches the cut off.
    pub max_units: u32,
    /// What stands behind the cut; `{omitted}` becomes the number of units left out.
    pub marker: String,
}

/// How old tool outputs are cleared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prune {
    /// The newest outputs up to this many tokens stay.
    pub protect_tokens: i64,
    /// Nothing happens unless more than this many tokens can go.
    pub minimum_tokens: i64,
    /// Outputs of the last turns stay, counted by user messages from the end.
    pub protect_turns: u32,
    /// Outputs of these tools stay, and are not counted.
    pub protected_tools: Vec<String>,
    /// What a view shows in place of a cleared output.
    pub placeholder: String,
}

/// What is kept verbatim beside a summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Tail {
    /// The last turns, as many as fit a budget; a turn that does not fit is split between its messages.
    Turns {
        /// At most this many turns; 0 keeps nothing.
        turns: u32,
        /// The budget is this share of the usable window …
        budget_ratio: f64,
        /// … but at least this …
        budget_min_tokens: i64,
        /// … and at most this.
        budget_max_tokens: i64,
    },
    /// The newest messages whose tokens reach a budget, cut at a message that is no tool result.
    Recent {
        /// The budget.
        keep_tokens: i64,
    },
}

/// What a summary looks like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Its sections, in order.
    pub sections: Vec<Section>,
    /// What an empty section says.
    pub filler: String,
    /// At most this many tokens, by the policy's counting.
    pub max_tokens: i64,
    /// Whether lists of the files read and modified follow the sections, in pi's tags.
    pub file_tags: bool,
    /// Whether the front of a split turn gets a summary of its own, and the heading that introduces it.
    pub split_turn_heading: Option<String>,
}

/// A section of a summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// The heading, with its `#`s.
    pub heading: String,
    /// What belongs there; a heading over other sections has none.
    pub holds: Option<Topic>,
    /// How an item begins.
    pub bullet: Bullet,
}

/// What belongs in a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// What the user wants.
    Goal,
    /// What the user insisted on.
    Constraints,
    /// What is finished.
    Done,
    /// What is being worked on.
    InProgress,
    /// What stands in the way.
    Blocked,
    /// What was decided, and why.
    Decisions,
    /// What comes next.
    NextSteps,
    /// Facts, errors and open questions.
    Context,
    /// Files and why they matter.
    Files,
}

/// How an item of a section begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bullet {
    /// `- `
    Dash,
    /// `- [x] `
    Checked,
    /// `- [ ] `
    Unchecked,
    /// `1. `
    Number,
}

/// How a summary appears in a view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewStyle {
    /// The words of a user message before the summary; absent: no such message.
    pub marker_text: Option<String>,
    /// Who speaks the summary.
    pub summary_role: SummaryRole,
    /// What stands before the summary's text.
    pub summary_prefix: String,
    /// What stands behind it.
    pub summary_suffix: String,
    /// The error result of a call that was never answered.
    pub interrupted_text: String,
}

/// Who speaks a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SummaryRole {
    /// The user.
    User,
    /// The assistant.
    Assistant,
}

/// What ends a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guards {
    /// A summary must free at least this many tokens of the view, or it is refused.
    pub minimum_gain_tokens: i64,
    /// After this many reductions in a row that failed or freed too little, automatic ones stop …
    pub breaker_failures: u32,
    /// … until this many user messages were written.
    pub breaker_turns: u32,
    /// Attempts of one job, the first included.
    pub attempts_max: u32,
}
