//! A tail of a fixed number of messages.

use crate::model::view::SourceMessage;
use serde::{Deserialize, Serialize};

/// The tail of the last messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Last {
    /// Number of messages.
    pub messages: u32,
}

impl Last {
    pub(super) fn boundary(&self, messages: &[SourceMessage]) -> usize {
        messages.len().saturating_sub(self.messages as usize)
    }

    pub(super) fn smaller(&self) -> Option<Self> {
        (self.messages >= 2).then_some(Self { messages: self.messages / 2 })
    }
}
