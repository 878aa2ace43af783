//! Omits the middle of a list of too many messages, whatever its token count: some providers limit the number of
//! messages.

use super::parameters::MiddleOut;
use crate::model::truncation::Removals;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::Policy;
use crate::policy::select::{self, Group};
use crate::policy::strategy::{OmissionBound, OmissionStrategy, Parameters};
use crate::policy::violation::Check;

impl Parameters for MiddleOut {
    const NAME: &'static str = "middle_out";

    fn check(&self, check: &mut Check, path: &str) {
        check.that(self.max_messages >= 1, &format!("{path}.max_messages"), "must be at least 1");
    }
}

impl OmissionStrategy for MiddleOut {
    fn removals(&self, _policy: &Policy, _window: &ModelWindow, messages: &[SourceMessage]) -> Removals {
        removals(self, messages)
    }

    fn bound(&self) -> OmissionBound {
        OmissionBound::Messages(self.max_messages)
    }
}

/// Omits the middle. The number of groups that stay is `max_messages` divided by the average size of a group; if it is
/// odd, the end keeps one more.
fn removals(rule: &MiddleOut, messages: &[SourceMessage]) -> Removals {
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
