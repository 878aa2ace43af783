//! Omits messages in the middle, or at the beginning if there are few, until the rest is within the target.
//!
//! A group, which is omitted or kept as a whole, is a call with its results, or a message without either.

use super::parameters::Groups;
use crate::model::message::Role;
use crate::model::truncation::Removals;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::select::{self, Group};
use crate::policy::strategy::{OmissionBound, OmissionStrategy, Parameters};
use crate::policy::tokens::Counter;
use crate::policy::violation::Check;
use crate::policy::{Policy, overflow};

impl Parameters for Groups {
    const NAME: &'static str = "groups";

    fn check(&self, check: &mut Check, path: &str) {
        check.share(self.target_ratio, &format!("{path}.target_ratio"));
        check.that(self.batch >= 1, &format!("{path}.batch"), "must be at least 1");
    }
}

impl OmissionStrategy for Groups {
    fn removals(&self, policy: &Policy, window: &ModelWindow, messages: &[SourceMessage]) -> Removals {
        removals(self, policy, window, messages)
    }

    fn bound(&self) -> OmissionBound {
        OmissionBound::Limit(self.target_ratio)
    }
}

/// Omits groups until the rest is within the target. A system message at the beginning and unfinished messages stay.
fn removals(rule: &Groups, policy: &Policy, window: &ModelWindow, messages: &[SourceMessage]) -> Removals {
    let Some(goal) = overflow::message_target(policy, window, rule.target_ratio) else { return Removals::default() };
    let mut counter = Counter::from_messages(policy, messages);
    let mut groups = select::groups(messages);
    if messages.first().is_some_and(|first| first.message.role == Role::System) {
        groups.remove(0);
    }
    let batch = rule.batch.max(1) as usize;
    // Groups are taken from the end of the first half, so that no batch moves the whole list.
    let (mut first, mut second) = (groups, Vec::new());
    let mut omitted = Vec::new();
    while first.len() + second.len() > rule.minimum as usize && counter.exceeds(goal, |index| &messages[index]) {
        let count = first.len() + second.len();
        let start = if count > 2 * batch { count / 2 - batch / 2 } else { 0 };
        let end = start + if count > 2 * batch { batch } else { batch.min(count / 2) };
        while first.len() > end {
            second.extend(first.pop());
        }
        while first.len() < end {
            first.extend(second.pop());
        }
        let (gone, stays): (Vec<Group>, Vec<Group>) = first.drain(start..).partition(|group| group.may_go);
        first.extend(stays);
        if gone.is_empty() {
            break;
        }
        for index in gone.into_iter().flat_map(|group| group.messages) {
            counter.leave_out(index);
            omitted.push(messages[index].message.revision);
        }
    }
    omitted.sort_unstable();
    Removals { parts: Vec::new(), omitted }
}

#[cfg(test)]
mod tests;
