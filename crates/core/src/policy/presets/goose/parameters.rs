//! Parameters of the strategies that only goose uses.

use serde::{Deserialize, Serialize};

/// A number derived from the size of the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfWindow {
    /// Number of context tokens that add one to the number.
    pub context_tokens_each: u32,
    /// Minimum of the number.
    pub minimum: u32,
    /// Maximum of the number.
    pub maximum: u32,
}
