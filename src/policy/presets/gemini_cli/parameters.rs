//! Parameters of the strategies that only Gemini CLI uses.

use serde::{Deserialize, Serialize};

/// Parameters of the budget for all tool outputs together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputBudget {
    /// The budget in tokens.
    pub budget_tokens: i64,
    /// Maximum length of an output that does not fit, in units.
    pub max_units: u32,
    /// Share of these units kept at its beginning, between 0 and 1; the rest is kept at its end.
    pub head_ratio: f64,
    /// Text before the output; `{head}` and `{tail}` become the units kept at both ends, `{part}` the id by which the
    /// whole output can be read.
    pub before: String,
    /// Text in place of the omitted middle; `{omitted}` becomes its number of units.
    pub marker: String,
}

/// Rules for excerpts: by lines for outputs of some tools, by units for all others. A short output stays whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Excerpt {
    /// Text before an excerpt; `{part}` becomes the id by which the original can be read.
    pub before: String,
    /// Text after an excerpt, with the same field.
    pub after: String,
    /// Excerpts by lines, for outputs of programs.
    pub lines: Lines,
    /// Excerpts by units, for other outputs.
    pub units: Units,
}

/// An excerpt by lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lines {
    /// Names of the tools it applies to.
    pub tools: Vec<String>,
    /// Name of the section that is truncated; a line that starts with the name and a colon begins it. An output without
    /// sections is truncated as a whole.
    pub section: String,
    /// The names of the other sections, which stay whole.
    pub other_sections: Vec<String>,
    /// Number of lines kept at the beginning.
    pub head_lines: u32,
    /// Number of lines kept at the end.
    pub tail_lines: u32,
    /// Text between them; `{omitted}` becomes the number of omitted lines.
    pub marker: String,
}

/// An excerpt by units.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Units {
    /// Maximum length of a text that stays whole.
    pub above_units: u32,
    /// Number of units kept at the beginning.
    pub head_units: u32,
    /// Number of units kept at the end.
    pub tail_units: u32,
    /// Text between them; `{omitted}` becomes the number of omitted units.
    pub marker: String,
}
