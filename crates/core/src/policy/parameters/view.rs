//! Parameters of a view: the presentation of a summary, and retrieved passages.

use serde::{Deserialize, Serialize};

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

/// Text of a message in the user's place, unless the policy has another one.
pub const RESUME_TEXT: &str = "[The conversation continues here]";

/// The presentation of a summary in a view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
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
    /// Text of a user message wherever the assistant would speak first: at the beginning of a view, and after its own
    /// summary or acknowledgement; absent: `RESUME_TEXT`.
    pub resume_text: Option<String>,
    /// Text of the error result of a call that never got a result.
    pub interrupted_text: String,
}

impl Default for ViewStyle {
    /// A summary is a user message without a text around it.
    fn default() -> Self {
        Self {
            marker_text: None,
            summary_role: SummaryRole::User,
            summary_prefix: String::new(),
            summary_suffix: String::new(),
            acknowledgement: None,
            resume_text: None,
            interrupted_text: "[Interrupted: this tool call has no result]".to_owned(),
        }
    }
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
