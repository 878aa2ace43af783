//! The last messages, by number; the others are left out.

use crate::model::cut::Cuts;
use crate::model::view::SourceMessage;
use crate::policy::select;
use serde::{Deserialize, Serialize};

/// The last messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Last {
    /// How many stay.
    pub messages: u32,
}

/// Leaves out everything before the last messages, up to where no call is parted from its result.
pub(super) fn cut(rule: &Last, messages: &[SourceMessage]) -> Cuts {
    let end = select::nearest_safe_cut(messages, messages.len().saturating_sub(rule.messages as usize));
    let omitted = messages[..end].iter().map(|source| source.message.revision).collect();
    Cuts { parts: Vec::new(), omitted }
}
