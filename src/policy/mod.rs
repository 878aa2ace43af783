//! The verbs: every decision about what a view keeps, as total functions of their arguments.
//!
//! A policy is data; the strategies it names are here, each beside its parameters. Nothing in this module waits, fails,
//! logs, reads a clock or rolls a die: "no decision" is a value.

pub mod attachments;
pub mod bpe;
pub mod branch;
pub mod calls;
pub mod clear;
pub mod continuing;
#[cfg(test)]
pub(crate) mod dsl;
pub mod files;
pub mod fit;
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
pub mod routine;
pub mod select;
pub mod shorten;
pub mod tokens;
pub mod truncate;
pub mod turns;
pub mod upgrade;
pub mod validate;

pub use clear::Clear;
pub use files::FileTools;
pub use fit::Fit;
pub use overflow::{Limit, Threshold};
pub use select::Tail;
pub use tokens::{CountPer, Counting, LengthUnit, MediaUnits, Rounding, TextWeight, UsageCount};
pub use truncate::Truncate;

use crate::model::compaction::Level;
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
    /// Whether and how often anything happens without being asked for.
    pub trigger: Trigger,
    /// How long outputs are cut in every view; absent: never.
    pub truncate: Option<Truncate>,
    /// What is tried whenever it pays, however full the window is; each step says itself when it pays.
    pub routine: Vec<Step>,
    /// The lowest rung of the ladder: what happens first as the window fills.
    pub micro: Option<Rung>,
    /// The middle rung: for most agents the only one.
    pub auto: Option<Rung>,
    /// The highest rung, which is also what a thorough reduction by hand does.
    pub deep: Option<Rung>,
    /// How passages of what a view no longer shows come back when the last request asks for them; absent: never.
    pub retrieval: Option<Retrieval>,
    /// What a user is said to ask when a compaction that nobody asked for interrupted a turn; absent: nothing. It becomes
    /// a message, never behind a finished turn, nor behind a request that nobody has answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_continue: Option<String>,
    /// How a summary appears in a view.
    pub view: ViewStyle,
    /// What ends a loop.
    pub guards: Guards,
}

impl Policy {
    /// The summary that a rung's steps end in, if it has one.
    pub fn summarize(&self, level: Level) -> Option<&Summarize> {
        self.rung(level)?.steps.iter().rev().find_map(|step| match step {
            Step::Summarize(rule) => Some(rule.as_ref()),
            Step::Clear(_) | Step::Fit(_) => None,
        })
    }
}

/// The longest that anything in a policy waits, in seconds: 30 days.
pub const WAIT_SECONDS_MAX: u32 = 30 * 24 * 60 * 60;

/// The most bytes of a task or of rules that a policy gives to whoever writes a summary; as many as of instructions.
pub const PROMPT_BYTES_MAX: usize = 16 * 1024;

/// Whether and how often anything happens without being asked for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trigger {
    /// Whether anything does. Requests by hand always work.
    pub auto: bool,
    /// After a reduction that a rung of the ladder asked for, none of them asks again for so many seconds. An exceeded
    /// window and requests by hand do not wait.
    pub cool_down_seconds: u32,
    /// Whether a reply counts as one that failed because its view was too large when its usage says so: it read more than
    /// the window holds, or filled the window and had no room for a word. Replies that say so themselves count always.
    #[serde(default, skip_serializing_if = "is_false")]
    pub silent_overflow: bool,
    /// A reply that ended because of its length, although it is shorter than the model may write, counts as one
    /// that its request left no room for. It is left out, the view is compacted, and the request can be sent again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub recovers_length: bool,
    /// Thresholds are evaluated between runs alone: not while a reply is written or waits for its tools, nor while
    /// results wait for a reply. An exceeded window and reported overflows do not wait.
    #[serde(default, skip_serializing_if = "is_false")]
    pub between_runs: bool,
}

/// A rung of the ladder: from which fill on which steps are taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rung {
    /// How full the window must be.
    pub threshold: Threshold,
    /// What people are told.
    pub notice: Notice,
    /// What is done, in this order, in one reduction.
    pub steps: Vec<Step>,
    /// Whether the remaining steps are left out as soon as the view, measured again, is under the threshold.
    pub stop_when_enough: bool,
}

/// What people are told of a reduction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Notice {
    /// Nothing.
    None,
    /// A line, once it is done.
    Inform {
        /// The line; `{percent}` becomes the fill of the window when it began, in whole percent.
        text: String,
    },
    /// They are asked first; without an answer it goes on when the time is up.
    Confirm {
        /// The question; `{percent}` as in a line.
        text: String,
        /// How long an answer is waited for.
        wait_seconds: u32,
    },
}

/// One thing that a reduction does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Replaces old tool outputs, thoughts or media by placeholders.
    Clear(Clear),
    /// Cuts and leaves out messages until the rest fits, without a model.
    Fit(Fit),
    /// Puts a summary in place of an old range.
    Summarize(Box<Summarize>),
}

/// A summary in place of an old range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summarize {
    /// What is kept verbatim beside it.
    pub tail: Tail,
    /// What it looks like.
    pub summary: Summary,
    /// Whether messages that the tail retains stand in front of the summary, rather than behind it.
    pub retained_first: bool,
    /// A history of fewer messages that say something is not summarized. 0: of any length.
    #[serde(default, skip_serializing_if = "is_none")]
    pub minimum_messages: u32,
    /// What is done in its place when no summary can be made. Empty: the built-in summarizer stands in.
    pub fallback: Vec<Fit>,
}

/// Whether a count is 0, which policies that were stored before it existed do not write.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

/// What a summary looks like, and what its writer is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// How its sections are set apart.
    pub format: SummaryFormat,
    /// Its sections, in order.
    pub sections: Vec<Section>,
    /// What an empty section says.
    pub filler: String,
    /// At most this many tokens, by the policy's counting.
    pub max_tokens: i64,
    /// Whether lists of the files read and modified follow the sections, in pi's tags.
    pub file_tags: bool,
    /// The tools whose calls these lists are made from.
    #[serde(default)]
    pub file_tools: FileTools,
    /// Whether the front of a split turn gets a summary of its own, and the heading that introduces it.
    pub split_turn_heading: Option<String>,
    /// Whether what the live summary says is given to the next one's writer. Without it old facts fade.
    pub carry_previous: bool,
    /// Whether a model is asked to check its summary against the history, and to give a better one.
    pub verify: bool,
    /// How the history is written out for a model.
    pub transcript: Transcript,
    /// What is attached to the summary word for word; absent: nothing.
    pub attachments: Option<Attachments>,
    /// What else a model is told of the form that is expected of it.
    #[serde(default)]
    pub prompt: PromptStyle,
    /// A model's summary is followed by what the built-in summarizer would say, in at most so many tokens: files,
    /// commands, errors, open points. 0 for none of it.
    #[serde(default)]
    pub facts_tokens: i64,
    /// The handling of claims in a summary that the history contradicts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub contradictions: Contradictions,
}

/// The handling of claims in a summary that the history contradicts: a check that is said to pass and failed when it ran
/// last, a commit or a file that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contradictions {
    /// They are reported in the outcome of the compaction.
    #[default]
    Report,
    /// They are, and a short section behind a model's words says what the history says.
    Correct,
}

/// What a model is told of the form that is expected of it, besides the sections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PromptStyle {
    /// The request for the summary of a history, in place of Longhand's words and the list of sections; absent: those. An
    /// answer is measured by its substance then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The name of the element in which a model is given the summary that its own replaces.
    pub previous_tag: String,
    /// The name of the element in which a model may think before it writes. It is no part of the summary. Absent: a
    /// model is to write the summary and nothing else.
    pub thoughts_tag: Option<String>,
    /// The name of the element in which a model is to give the summary, and which is taken off; absent: none.
    pub answer_tag: Option<String>,
    /// Further rules for the summary, a sentence each: what to leave out, how to write something.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// The sections of the summary that the front of a split turn gets.
    pub split_turn_sections: Vec<Section>,
    /// Whether what the person who asks wants the summary to dwell on is told for the front of a split turn too.
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

/// How the sections of a summary are set apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SummaryFormat {
    /// Each under its heading; a heading begins with its `#`s.
    Headings,
    /// Each in an element with the heading as its name, all of them in one element.
    Elements {
        /// The name of the outer element.
        root: String,
    },
    /// The sections are only told to a model; it answers in prose.
    Prose,
}

/// How the history is written out for a model that summarizes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transcript {
    /// How messages, calls and results are put down.
    pub form: TranscriptForm,
    /// At most so many units of each tool output; 0 for all of it.
    pub output_units: u32,
    /// What stands behind an output that was cut; `{omitted}` becomes the number of units left out.
    pub output_marker: String,
    /// Whether thoughts are written out.
    pub reasoning: bool,
    /// Whether the calls of tools are written out, or only what was said.
    pub calls: bool,
    /// What stands in place of a media item; `{mime}` and `{name}` are filled in. Empty leaves it out.
    pub media_note: String,
}

/// How messages, calls and results are put down for a model that summarizes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TranscriptForm {
    /// Each message with what is in it, and every result right behind its call, as OpenCode does.
    Paired,
    /// Words, calls as functions with named arguments, and results where they stand, as pi does.
    InPlace,
    /// What was said, and a sentence for what tools did, as Neovate does.
    Digest,
    /// The role of each message and a line for each thing in it, as goose does.
    Lines,
}

/// What a summary carries along word for word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attachments {
    /// At most so many files, those used last, as the history last showed them.
    pub files: u32,
    /// A file that is larger is only named.
    pub file_tokens: i64,
    /// All files together.
    pub total_tokens: i64,
    /// At most so many images, the last ones.
    pub images: u32,
    /// Tools whose calls name a file, with the field that does.
    pub tools: Vec<FileTool>,
}

/// A tool whose calls name a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileTool {
    /// The tool.
    pub tool: String,
    /// The field of its input that holds the path.
    pub field: String,
    /// Where such a call shows what is in the file.
    pub shows: FileText,
}

/// Where a call shows what is in the file that it names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FileText {
    /// In its output, when the input says nothing besides the path.
    Output {},
    /// In another field of its input.
    Input {
        /// The field.
        field: String,
    },
    /// Nowhere: it changes the file.
    Nowhere {},
}

/// How passages of old dialogue come back into a view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retrieval {
    /// All passages together, in tokens by the policy's counting.
    pub budget_tokens: i64,
    /// One passage.
    pub passage_tokens: i64,
    /// At most so many units of the last request are searched for.
    pub query_units: u32,
    /// What stands before the passages.
    pub heading: String,
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
    /// What the model is said to have answered to the summary; absent: nothing.
    pub acknowledgement: Option<String>,
    /// What the user is said to say behind it when the tail begins with the model's own words; absent: nothing.
    pub resume_text: Option<String>,
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
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guards {
    /// Tokens of the view that an automatic compaction frees at least; it is not made, or its summary is refused, where it
    /// frees less. Absent: a twentieth of the window. Clearings with a `minimum_tokens` of their own go by that alone. By
    /// hand: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_gain_tokens: Option<i64>,
    /// After this many compactions in a row that failed (1 to 32), automatic ones stop …
    pub breaker_failures: u32,
    /// … until this many user messages were written.
    pub breaker_turns: u32,
    /// Attempts of one job, the first included.
    pub attempts_max: u32,
    /// After a reduction that a rung asked for, no rung asks again until the view has grown by this share of the window.
    /// An exceeded window and requests by hand do not wait. 0: they ask at once.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rearm_ratio: f64,
    /// Clearings and cuts that come without a summary are left out when a provider would have to read more than so many
    /// tokens again, which it has in its cache, for each token that they free; as long as the view fits its window.
    /// Absent: whatever that costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reread_per_freed_max: Option<u32>,
}

/// Whether a value is at its default, which the text of a policy leaves out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The same of any value.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The same of a number.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}
