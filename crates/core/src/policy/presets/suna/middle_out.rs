//! Omits the middle of a list of too many messages, whatever its token count: some providers limit the number of
//! messages.

use super::parameters::MiddleOut;
use crate::model::truncation::Removals;
use crate::model::view::SourceMessage;
use crate::policy::select::{self, Group};

/// Omits the middle. The number of groups that stay is `max_messages` divided by the average size of a group; if it is
/// odd, the end keeps one more.
pub(in crate::policy) fn removals(rule: &MiddleOut, messages: &[SourceMessage]) -> Removals {
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
