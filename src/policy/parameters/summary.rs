//! Parameters of a summary: its boundary, its text, and the request for it.

use super::omission::Omission;
use super::tail::Tail;
use serde::{Deserialize, Serialize};

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
    /// 0: none. No agent has them, so no preset sets it; it is for models that leave out file names and commands.
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

/// True if the value is the default, which is not serialized.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The tool calls that count as file operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileTools {
    /// The tools with exactly the names `read`, `write` and `edit`, with a `path`, as in pi.
    Pi,
    /// Also the corresponding tools of other agents, by name and by the field with the path.
    #[default]
    Any,
}
