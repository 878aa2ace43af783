//! Parts that are still being written.

use super::part::{Answers, PartBody, ResultStatus, ToolCall, ToolResult};

/// What a draft becomes when it closes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum DraftKind {
    /// Text for the reader.
    #[default]
    Text,
    /// Text of the model's reasoning.
    Reasoning,
    /// A call, whose input the draft has.
    ToolInput {
        /// Joins the call to its result.
        call_id: String,
        /// The tool's name.
        tool: String,
    },
    /// The result of a call, whose output the draft has.
    ToolOutput {
        /// The id of the call.
        call_id: String,
        /// The message of the call, if the client named it: by any id in a request, by the message's own id in the store.
        call_message: Option<String>,
    },
}

impl DraftKind {
    /// True if both make the same kind of part for the same call. The ways to name a call's message may differ.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::ToolOutput { call_id, .. }, Self::ToolOutput { call_id: other, .. }) => call_id == other,
            _ => self == other,
        }
    }

    /// The part with this text. The status is that of a tool whose output it is.
    pub fn part(&self, text: String, status: ResultStatus) -> PartBody {
        match self.clone() {
            Self::Text => PartBody::Text(text),
            Self::Reasoning => PartBody::Reasoning(text),
            Self::ToolInput { call_id, tool } => {
                PartBody::ToolCall(ToolCall { call_id, tool, input_json: text, start_time: None, end_time: None })
            }
            Self::ToolOutput { call_id, call_message } => PartBody::ToolResult(ToolResult {
                call_id,
                answers: call_message.map_or(Answers::Nearest, Answers::In),
                status,
                output: text,
                attachments: Vec::new(),
                start_time: None,
                end_time: None,
            }),
        }
    }

    /// The kind of the draft that a part was, and its text; none for a part that was no draft.
    pub fn from_body(body: &PartBody) -> Option<(Self, &str)> {
        match body {
            PartBody::Text(text) => Some((Self::Text, text)),
            PartBody::Reasoning(text) => Some((Self::Reasoning, text)),
            PartBody::ToolCall(call) => {
                let kind = Self::ToolInput { call_id: call.call_id.clone(), tool: call.tool.clone() };
                Some((kind, &call.input_json))
            }
            PartBody::ToolResult(result) => {
                let kind = Self::ToolOutput {
                    call_id: result.call_id.clone(),
                    call_message: match &result.answers {
                        Answers::In(message) => Some(message.clone()),
                        Answers::Nearest | Answers::Nothing => None,
                    },
                };
                Some((kind, &result.output))
            }
            _ => None,
        }
    }
}

/// A draft: its ids, what it becomes, and its text so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Its part's id.
    pub id: super::ids::PartId,
    /// The client's own id of the part.
    pub client_id: Option<String>,
    /// What it becomes.
    pub kind: DraftKind,
    /// Its text so far.
    pub text: String,
}
