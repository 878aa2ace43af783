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

/// An excerpt of an output: its beginning and its end, unless it is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt;
