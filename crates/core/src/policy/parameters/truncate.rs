//! Parameters of the truncation of long texts.

use serde::{Deserialize, Serialize};

/// Limits of long texts. They apply together; the smallest remainder at each end is kept. 0 switches a limit off.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Truncate {
    /// Maximum units.
    pub max_units: u32,
    /// Maximum lines.
    pub max_lines: u32,
    /// Maximum bytes.
    pub max_bytes: u32,
    /// Share of the kept text at the beginning, between 0 and 1; the rest is at the end.
    pub head_ratio: f64,
    /// Text in place of the omission; `{omitted}` becomes the number of omitted units, `{max}` the limit in units.
    pub marker: String,
    /// What of a truncated output the estimates of prunes count.
    pub estimate: OutputEstimate,
}

/// What of a truncated output the estimates of prunes count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputEstimate {
    /// The text that a view shows: the agent truncates an output before it keeps it.
    Shown,
    /// The whole output: the agent keeps it, and truncates it in each request.
    Whole,
}

impl Default for Truncate {
    /// No limit; a limit that is set keeps the beginning.
    fn default() -> Self {
        Self::head(0, "\n[Output truncated: {omitted} characters omitted]")
    }
}

impl Truncate {
    /// Keeps the beginning of a text, followed by a marker.
    pub fn head(max_units: u32, marker: &str) -> Self {
        let marker = marker.to_owned();
        Self { max_units, max_lines: 0, max_bytes: 0, head_ratio: 1.0, marker, estimate: OutputEstimate::Shown }
    }
}
