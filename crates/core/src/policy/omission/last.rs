//! Keeps a number of newest messages and omits the others.

use crate::model::truncation::Removals;
use crate::model::view::SourceMessage;
use crate::policy::parameters::LastMessages;
use crate::policy::select;

/// Omits everything before the newest messages, up to a position that separates no call from its result.
pub(super) fn removals(rule: &LastMessages, messages: &[SourceMessage]) -> Removals {
    let end = select::nearest_safe_boundary(messages, messages.len().saturating_sub(rule.messages as usize));
    let omitted = messages[..end].iter().map(|source| source.message.revision).collect();
    Removals { parts: Vec::new(), omitted }
}
