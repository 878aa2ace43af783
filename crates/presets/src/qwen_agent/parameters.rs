//! Parameters of the strategies that only Qwen-Agent uses.

use serde::{Deserialize, Serialize};

/// Options of the count of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountedTexts {
    /// Counts calls too.
    pub calls: bool,
    /// End of the note that names the media of a request.
    pub note: NoteEnd,
}

/// End of the note that names the media of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteEnd {
    /// The text follows on the same line.
    Line,
    /// The text follows in a paragraph of its own.
    Paragraph,
}

/// Omits from the oldest turn on: turns, results, steps, text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnsAndSteps;

/// Keeps as much as fits, from the newest message back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewestFirst;
