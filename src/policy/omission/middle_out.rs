//! Omits the middle of a list of too many messages, whatever its token count: some providers limit the number of
//! messages.

use crate::model::truncation::Removals;
use crate::model::view::SourceMessage;
use crate::policy::select::{self, Group};
use serde::{Deserialize, Serialize};

/// Parameters of the omission of the middle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MiddleOut {
    /// Maximum number of messages. A call and its results stay together, so that a few more can stay.
    pub max_messages: u32,
    /// Minimum number of groups that stay, half of them at each end.
    pub minimum_groups: u32,
}

/// Omits the middle. The number of groups that stay is `max_messages` divided by the average size of a group; if it is
/// odd, the end keeps one more.
pub(super) fn removals(rule: &MiddleOut, messages: &[SourceMessage]) -> Removals {
    let max = rule.max_messages as usize;
    if messages.len() <= max {
        return Removals::default();
    }
    let groups = select::groups(messages);
    let on_average = messages.len() as f64 / groups.len() as f64;
    let kept = ((max as f64 / on_average) as usize).max(rule.minimum_groups as usize);
    let front = kept / 2;
    let end = groups.len().saturating_sub(kept - front).max(front);
    let gone = groups.into_iter().take(end).skip(front).filter(|group: &Group| group.may_go);
    let omitted = gone.flat_map(|group| group.messages).map(|index| messages[index].message.revision).collect();
    Removals { parts: Vec::new(), omitted }
}

#[cfg(test)]
mod tests;
