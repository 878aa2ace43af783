//! Decisions about the contents of a view, as total functions of their arguments.
//!
//! A policy is data. The strategies that it names are here, each in a file with its parameters. Nothing in this module
//! waits, fails, logs, reads a clock or uses randomness: "no decision" is a value.

pub mod attachments;
pub mod bpe;
pub mod branch;
pub mod calls;
pub mod clear;
pub mod continuing;
#[cfg(test)]
pub(crate) mod dsl;
pub mod files;
pub mod omission;
pub mod gain;
#[cfg(test)]
mod golden;
pub mod last_resort;
pub mod overflow;
pub mod overflow_errors;
pub mod overhead;
pub mod overrides;
pub mod pairing;
pub mod plan;
pub mod presets;
pub mod prompt;
pub mod recall;
pub mod render;
pub mod replay;
pub mod retrieval;
pub mod maintenance;
pub mod select;
pub mod shorten;
pub mod tokens;
pub mod truncate;
pub mod turns;
pub mod validate;

pub use clear::Clear;
pub use files::FileTools;
pub use omission::Omission;
pub use overflow::{Limit, Threshold};
pub use select::Tail;
pub use tokens::{CountPer, Counting, LengthUnit, MediaUnits, Rounding, TextUnits, UsageCount};
pub use truncate::Truncate;

use crate::model::compaction::Level;
use serde::{Deserialize, Serialize};

/// All parameters of compaction for one session.
///
/// The text form is JSON with these field names. Unknown fields are refused, so that a misspelt name is never ignored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The preset from which the policy was made, with its version: `opencode@seed`.
    pub preset: String,
    /// Version of the code that renders views under this policy, so that an old view keeps its bytes.
    pub render_version: u32,
    /// The conversion of text to tokens, for text without reported or trusted usage.
    pub counting: Counting,
    /// Automatic compaction: enabled or not, and its limits in time.
    pub trigger: Trigger,
    /// Truncation of long tool outputs in every view; absent: none.
    pub truncate: Option<Truncate>,
    /// Maintenance: steps that run whenever they pay, at any context usage. The parameters of each step state when it
    /// pays.
    pub maintenance: Vec<Step>,
    /// The lowest level: applied first as the window fills.
    pub micro: Option<LevelPolicy>,
    /// The middle level: the only one of most agents.
    pub auto: Option<LevelPolicy>,
    /// The highest level, which a thorough compaction by hand applies too.
    pub deep: Option<LevelPolicy>,
    /// Retrieval of passages that the view no longer shows, by the text of the last request; absent: none.
    pub retrieval: Option<Retrieval>,
    /// Text of the user message that asks the model to continue after an automatic compaction interrupted a turn;
    /// absent: no such message. It is never added after a finished turn, nor after a request that has no reply yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_continue: Option<String>,
    /// The presentation of a summary in a view.
    pub view: ViewStyle,
    /// The limits that prevent endless compaction.
    pub guards: Guards,
}

impl Policy {
    /// The last summary step of a level; none without one.
    pub fn summarize(&self, level: Level) -> Option<&Summarize> {
        self.level(level)?.steps.iter().rev().find_map(|step| match step {
            Step::Summarize(rule) => Some(rule.as_ref()),
            Step::Clear(_) | Step::Omit(_) => None,
        })
    }
}

/// Maximum of every duration in a policy, in seconds: 30 days.
pub const WAIT_SECONDS_MAX: u32 = 30 * 24 * 60 * 60;

/// Maximum bytes of the task or of the rules that a policy gives to the summarizer; equal to the limit of instructions.
pub const PROMPT_BYTES_MAX: usize = 16 * 1024;

/// Conditions of automatic compaction.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trigger {
    /// Enables automatic compaction. Requests by hand always work.
    pub auto: bool,
    /// Cooldown: seconds after a compaction started by a level, during which no level starts another one. It does not
    /// delay requests by hand or the compaction of a view over its window.
    pub cooldown_seconds: u32,
    /// Treats a reply as failed with an overflow if its usage indicates one: the input exceeds the window, or fills the
    /// window and the reply is empty. Replies that report an overflow themselves always count.
    #[serde(default, skip_serializing_if = "is_false")]
    pub silent_overflow: bool,
    /// Treats a reply that ended because of its length, although it is shorter than the model may write, as one without
    /// enough room. The reply is omitted and the view is compacted, so that the request can be sent again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub recovers_length: bool,
    /// Evaluates thresholds between runs only: not while a reply is written or waits for its tools, nor while results
    /// wait for a reply. Views over their window and reported overflows are handled at once.
    #[serde(default, skip_serializing_if = "is_false")]
    pub between_runs: bool,
}

/// A level of the policy: a threshold and the steps that follow from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelPolicy {
    /// Tokens at which the level is due.
    pub threshold: Threshold,
    /// The notice to people.
    pub notice: Notice,
    /// The steps of one compaction, in order.
    pub steps: Vec<Step>,
    /// Skips the remaining steps once the view, measured again, is below the threshold.
    pub stop_when_enough: bool,
}

/// The notice to people about a compaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Notice {
    /// No notice.
    None,
    /// A line after the compaction.
    Inform {
        /// The line; `{percent}` becomes the context usage at the start, in whole percent.
        text: String,
    },
    /// A question before the compaction. Without an answer, the compaction starts when the time is up.
    Confirm {
        /// The question; `{percent}` as in `Inform`.
        text: String,
        /// Seconds to wait for an answer.
        wait_seconds: u32,
    },
}

/// One step of a compaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Prune: replaces old tool outputs, reasoning or media by placeholders.
    Clear(Clear),
    /// Truncates and omits messages until the rest fits, without a model.
    Omit(Omission),
    /// Puts a summary in place of an old range.
    Summarize(Box<Summarize>),
}

/// Parameters of a summary in place of an old range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summarize {
    /// The tail: recent messages that are kept verbatim beside the summary.
    pub tail: Tail,
    /// The form and the input of the summary.
    pub summary: Summary,
    /// Puts the retained messages before the summary instead of after it.
    pub retained_first: bool,
    /// Minimum number of messages with content; a shorter history is not summarized. 0: no minimum.
    #[serde(default, skip_serializing_if = "is_none")]
    pub minimum_messages: u32,
    /// Steps in place of a summary that cannot be made. Empty: the built-in summarizer writes it.
    pub fallback: Vec<Omission>,
}

/// True if the count is 0, which is not serialized.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

/// The form of a summary and the input of its summarizer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The layout of the sections.
    pub format: SummaryFormat,
    /// The sections, in order.
    pub sections: Vec<Section>,
    /// Text of an empty section.
    pub filler: String,
    /// Maximum size in tokens, by the policy's counting.
    pub max_tokens: i64,
    /// Appends lists of the files read and modified after the sections, in pi's tags.
    pub file_tags: bool,
    /// The tools whose calls fill these lists.
    #[serde(default)]
    pub file_tools: FileTools,
    /// Heading of a separate summary for the front of a split turn; absent: no separate summary.
    pub split_turn_heading: Option<String>,
    /// Gives the active summary to the summarizer of the next one. Without it, old facts are lost over time.
    pub carry_previous: bool,
    /// Asks the model to check its summary against the history and to return a better one.
    pub verify: bool,
    /// The form in which a model gets the history.
    pub transcript: Transcript,
    /// Attachments of the summary, verbatim; absent: none.
    pub attachments: Option<Attachments>,
    /// Further instructions to the model about the form of the summary.
    #[serde(default)]
    pub prompt: PromptStyle,
    /// Maximum tokens of the built-in summarizer's text (files, commands, errors, open items) after a model's summary.
    /// 0: none.
    #[serde(default)]
    pub facts_tokens: i64,
    /// The handling of claims in a summary that the history contradicts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub contradictions: Contradictions,
}

/// The handling of claims in a summary that the history contradicts: a check that supposedly passes although its last
/// run failed, or a commit or a file that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contradictions {
    /// Reports the contradictions in the outcome of the compaction.
    #[default]
    Report,
    /// Reports them, and adds a short section with the facts of the history after a model's text.
    Correct,
}

/// Instructions to the model about the form of its answer, besides the sections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PromptStyle {
    /// Text of the request for a summary, in place of Longhand's own text and the list of sections; absent: those. With
    /// a text of its own, an answer is judged by its substance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Name of the element that contains the previous summary in the request.
    pub previous_tag: String,
    /// Name of the element in which a model may think before it writes. The element is not part of the summary. Absent:
    /// the request asks for the summary and nothing else.
    pub thoughts_tag: Option<String>,
    /// Name of the element in which the model returns the summary; the tags are removed. Absent: none.
    pub answer_tag: Option<String>,
    /// Further rules for the summary, one sentence each, about omissions and style.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Sections of the separate summary for the front of a split turn.
    pub split_turn_sections: Vec<Section>,
    /// Includes the custom instructions in the summary of a split turn.
    pub split_turn_instructions: bool,
}

impl Default for PromptStyle {
    fn default() -> Self {
        let section =
            |heading: &str, holds| Section { heading: heading.to_owned(), holds: Some(holds), bullet: Bullet::Dash };
        Self {
            task: None,
            previous_tag: "previous-summary".to_owned(),
            thoughts_tag: None,
            answer_tag: None,
            rules: Vec::new(),
            split_turn_sections: vec![
                section("## Original Request", Topic::Goal),
                section("## Progress So Far", Topic::Done),
                section("## Context Needed to Continue", Topic::Context),
            ],
            split_turn_instructions: true,
        }
    }
}

/// The layout of the sections of a summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SummaryFormat {
    /// Each section under its heading; a heading includes its `#`s.
    Headings,
    /// Each section in an element named by the heading, all of them in one root element.
    Elements {
        /// Name of the root element.
        root: String,
    },
    /// Prose: the model gets the sections as instructions only and answers in prose.
    Prose,
}

/// The form in which a summarizing model gets the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transcript {
    /// The form of messages, calls and results.
    pub form: TranscriptForm,
    /// Maximum units of each tool output; 0: no limit.
    pub output_units: u32,
    /// Text after a truncated output; `{omitted}` becomes the number of omitted units.
    pub output_marker: String,
    /// Includes the reasoning.
    pub reasoning: bool,
    /// Includes the tool calls; otherwise only the text of messages.
    pub calls: bool,
    /// Text in place of a media item, with `{mime}` and `{name}` filled in. Empty: the item is omitted.
    pub media_note: String,
}

/// The form of messages, calls and results for a summarizing model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TranscriptForm {
    /// Each message with its contents, and every result directly after its call, as OpenCode does.
    Paired,
    /// Text, calls as functions with named arguments, and results at their own positions, as pi does.
    InPlace,
    /// The text of messages, and one sentence about the use of tools, as Neovate does.
    Digest,
    /// The role of each message and one line for each of its parts, as goose does.
    Lines,
}

/// Limits of the attachments that a summary has verbatim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attachments {
    /// Maximum number of files: the last used ones, with the contents that the history last showed.
    pub files: u32,
    /// Maximum tokens of one file; a larger file is only named.
    pub file_tokens: i64,
    /// Maximum tokens of all files together.
    pub total_tokens: i64,
    /// Maximum number of images: the last ones.
    pub images: u32,
    /// The tools whose calls name a file, each with the input field of the path.
    pub tools: Vec<FileTool>,
}

/// A tool whose calls name a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileTool {
    /// Name of the tool.
    pub tool: String,
    /// The input field with the path.
    pub field: String,
    /// The part of the call that has the contents of the file.
    pub shows: FileText,
}

/// The part of a call that has the contents of the file that it names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FileText {
    /// The output, if the path is the only field of the input.
    Output {},
    /// Another field of the input.
    Input {
        /// Name of the field.
        field: String,
    },
    /// None: the call changes the file.
    Nowhere {},
}

/// Limits for the retrieval of passages of old dialogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retrieval {
    /// Maximum tokens of all passages together, by the policy's counting.
    pub budget_tokens: i64,
    /// Maximum tokens of one passage.
    pub passage_tokens: i64,
    /// Maximum units of the last request that are used as the query.
    pub query_units: u32,
    /// Text before the passages.
    pub heading: String,
}

/// A section of a summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// The heading, with its `#`s.
    pub heading: String,
    /// The topic of the section; none for a heading over other sections.
    pub holds: Option<Topic>,
    /// The start of each item.
    pub bullet: Bullet,
}

/// The topic of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// The user's goal.
    Goal,
    /// The user's constraints.
    Constraints,
    /// Finished work.
    Done,
    /// Work in progress.
    InProgress,
    /// Obstacles.
    Blocked,
    /// Decisions and their reasons.
    Decisions,
    /// Next steps.
    NextSteps,
    /// Facts, errors and open questions.
    Context,
    /// Files and their relevance.
    Files,
}

/// The start of each item of a section.
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

/// The presentation of a summary in a view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewStyle {
    /// Text of a user message before the summary; absent: no such message.
    pub marker_text: Option<String>,
    /// The role of the summary.
    pub summary_role: SummaryRole,
    /// Text before the text of the summary.
    pub summary_prefix: String,
    /// Text after the text of the summary.
    pub summary_suffix: String,
    /// Text of an assistant message after the summary; absent: no such message.
    pub acknowledgement: Option<String>,
    /// Text of a user message after these, if the next message of the view is the assistant's; absent: no such message.
    pub resume_text: Option<String>,
    /// Text of the error result of a call that never got a result.
    pub interrupted_text: String,
}

/// The role of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SummaryRole {
    /// The user.
    User,
    /// The assistant.
    Assistant,
}

/// Limits that prevent endless compaction.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guards {
    /// Minimum gain: tokens that an automatic compaction must free. With less, it is not started, or its summary is
    /// refused. Absent: a twentieth of the window. Prunes with a `minimum_tokens` of their own use only that. By hand:
    /// 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_gain_tokens: Option<i64>,
    /// Number of compactions that fail in a row (1 to 32) after which automatic ones stop …
    pub breaker_failures: u32,
    /// … until this number of user messages was written.
    pub breaker_turns: u32,
    /// Maximum attempts of one job, including the first.
    pub attempts_max: u32,
    /// After a compaction started by a level, the share of the window by which the view must grow before a level starts
    /// another one. It does not delay requests by hand or the compaction of a view over its window. 0: no such delay.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rearm_ratio: f64,
    /// Maximum cached tokens that a provider would have to read again per token freed. Prunes, truncations and
    /// omissions without a summary that cost more are skipped as long as the view fits its window. Absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reread_per_freed_max: Option<u32>,
}

/// True if the value is `false`, which is not serialized.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// True if the value is the default, which is not serialized.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// True if the number is 0, which is not serialized.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}
