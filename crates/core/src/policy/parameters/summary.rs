//! Parameters of a summary: its boundary, its text, and the request for it.

use super::omission::Omission;
use super::section::{Section, Topic};
use super::tail::Tail;
use serde::{Deserialize, Serialize};

/// Parameters of a summary in place of an old range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Summarize {
    /// The tail: recent messages that are kept verbatim beside the summary.
    pub tail: Tail,
    /// The form and the input of the summary.
    pub summary: Summary,
    /// Puts the retained messages before the summary instead of after it.
    pub retained_first: bool,
    /// Minimum number of messages with content for a first summary; a shorter history is not summarized. 0: no minimum.
    pub minimum_messages: u32,
    /// Steps in place of a summary that its writer does not make, if they free enough. Empty: the built-in summarizer
    /// writes it.
    pub fallback: Vec<Omission>,
}

impl Default for Summarize {
    /// A summary of everything.
    fn default() -> Self {
        Self {
            tail: Tail::Nothing,
            summary: Summary::default(),
            retained_first: false,
            minimum_messages: 0,
            fallback: Vec::new(),
        }
    }
}

/// The form of a summary and the input of its summarizer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Summary {
    /// The layout of the sections.
    pub format: SummaryFormat,
    /// The sections, in order.
    pub sections: Vec<Section>,
    /// Text of an empty section. Empty: the built-in summarizer leaves such sections out.
    pub filler: String,
    /// Maximum size in tokens, by the policy's counting.
    pub max_tokens: i64,
    /// Appends lists of the files read and modified after the sections, in tags: the tools whose calls fill these
    /// lists. Absent: no lists.
    pub file_lists: Option<FileTools>,
    /// The separate summary for the front of a split turn; absent: no separate summary.
    pub split_turn: Option<SplitTurn>,
    /// Gives the active summary to the summarizer of the next one. Without it, old facts are lost over time.
    pub carry_previous: bool,
    /// Asks the model to check its summary against the history and to return a better one.
    pub verify: bool,
    /// The form in which a model gets the history.
    pub transcript: Transcript,
    /// Attachments of the summary, verbatim; absent: none.
    pub attachments: Option<Attachments>,
    /// Further instructions to the model about the form of the summary.
    pub prompt: PromptStyle,
    /// Maximum tokens of the record of what happened (outcomes of checks, commits, files edited since, deletions, a
    /// person's last words) after a model's summary. 0: none. No agent has it.
    pub facts_tokens: i64,
    /// Maximum tokens of what people typed, verbatim and in order, after a summary that the built-in summarizer did not
    /// write. 0: none.
    pub words_tokens: i64,
    /// The handling of claims in a summary that the record of what happened contradicts.
    pub contradictions: Contradictions,
}

impl Default for Summary {
    /// Nine sections under headings, with at most 4 096 tokens together.
    fn default() -> Self {
        Self {
            format: SummaryFormat::Headings,
            sections: vec![
                Section::new("## Goal", Topic::Goal),
                Section::new("## Constraints", Topic::Constraints),
                Section::new("## Done", Topic::Done),
                Section::new("## In Progress", Topic::InProgress),
                Section::new("## Blocked", Topic::Blocked),
                Section::new("## Decisions", Topic::Decisions),
                Section::new("## Next Steps", Topic::NextSteps),
                Section::new("## Context", Topic::Context),
                Section::new("## Files", Topic::Files),
            ],
            filler: "(none)".to_owned(),
            max_tokens: 4_096,
            file_lists: None,
            split_turn: None,
            carry_previous: true,
            verify: false,
            transcript: Transcript::default(),
            attachments: None,
            prompt: PromptStyle::default(),
            facts_tokens: 0,
            words_tokens: 0,
            contradictions: Contradictions::Report,
        }
    }
}

/// The handling of claims in a summary that the record of what happened contradicts: a check that supposedly passes
/// although its last run failed, or a commit that nobody named, or a file that nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contradictions {
    /// Reports the contradictions in the outcome of the compaction.
    #[default]
    Report,
    /// Reports them, and adds the record after a model's text, in a tenth of its budget.
    Correct,
}

/// Instructions to the model about the form of its answer, besides the sections.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PromptStyle {
    /// Text of the request for a summary, in place of Longhand's own text and the list of sections; absent: those. With
    /// a text of its own, an answer is judged by its substance. No preset has one, because the prompts of agents are
    /// not copied; it is for users who have a prompt.
    pub task: Option<String>,
    /// Name of the element in which a model may think before it writes. The element is not part of the summary. Absent:
    /// the request asks for the summary and nothing else.
    pub thoughts_tag: Option<String>,
    /// Name of the element in which the model returns the summary; the tags are removed. Absent: none.
    pub answer_tag: Option<String>,
    /// Further rules for the summary, one sentence each, about omissions and style.
    pub rules: Vec<String>,
    /// Lets the model write further headings below those of the sections.
    pub subheadings: bool,
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
#[serde(default, deny_unknown_fields)]
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

impl Default for Transcript {
    /// Every call with its result, with whole outputs and without reasoning.
    fn default() -> Self {
        Self {
            form: TranscriptForm::Paired,
            output_units: 0,
            output_marker: "\n[truncated]".to_owned(),
            reasoning: false,
            media_note: "[Attached {mime}: {name}]".to_owned(),
        }
    }
}

/// The form of messages, calls and results for a summarizing model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TranscriptForm {
    /// Each message with its contents, and every result directly after its call.
    Paired,
    /// Text, calls as functions with named arguments, and results at their own positions.
    InPlace,
    /// The text of messages, and one sentence about the use of tools.
    Digest,
    /// The role of each message and one line for each of its parts.
    Lines,
}

/// The separate summary for the front of a turn that the boundary splits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitTurn {
    /// Heading over that summary.
    pub heading: String,
    /// Its sections.
    pub sections: Vec<Section>,
    /// Includes the custom instructions in the request for it.
    pub instructions: bool,
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
    Output,
    /// Another field of the input.
    Input {
        /// Name of the field.
        field: String,
    },
    /// None: the call changes the file.
    Nowhere,
}

/// The tool calls that count as file operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileTools {
    /// The tools with exactly the names `read`, `write` and `edit`, with a `path`.
    Pi,
    /// Also the corresponding tools of other agents, by name and by the field with the path.
    Any,
}
