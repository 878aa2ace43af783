//! Prunes: the choice of old tool outputs, reasoning or media, and their placeholders.
//!
//! One strategy with parameters, in three files: the candidates (`protection`), the condition and the amount
//! (`condition`), and the replacement in the view (`replacement`).

mod condition;
mod placeholder;
mod protection;
mod replacement;

pub use condition::last_reply;
pub(super) use protection::{is_pruned, most_tokens};

use super::violation::Check;
use super::{Condition, PLACEHOLDER, Policy, PolicyStep, Prune, Replacement, Target, Tools};
use crate::model::time::Timestamp;
use crate::model::truncation::Removals;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;

impl Prune {
    /// The same prune without a condition and without batches, for requests by hand.
    pub fn by_hand(&self) -> Self {
        Self { condition: Condition::Always, batch: None, ..self.clone() }
    }

    /// Notes invalid parameters.
    pub(super) fn check(&self, check: &mut Check, path: &str) {
        check.not_negative(self.keep.tokens, &format!("{path}.keep.tokens"));
        check.not_negative(self.minimum_tokens, &format!("{path}.minimum_tokens"));
        self.keep.parts.check(check, &format!("{path}.keep.parts"));
        self.condition.check(check, &format!("{path}.condition"));
        if let Some(batch) = &self.batch {
            batch.check(check, &format!("{path}.batch"));
        }
        let is_outputs = self.target == Target::Outputs;
        check.that(
            self.inputs.is_none() || is_outputs,
            &format!("{path}.inputs"),
            "must be absent unless outputs are pruned",
        );
        for (tools, field) in [(Some(&self.tools), "tools"), (self.inputs.as_ref(), "inputs")] {
            match tools {
                Some(Tools::Only(names)) => check_names(check, names, &format!("{path}.{field}.only")),
                Some(Tools::Except(names)) => check_names(check, names, &format!("{path}.{field}.except")),
                Some(Tools::All) | None => {}
            }
        }
        let is_placeholder = matches!(self.replacement, Replacement::Placeholder(_));
        let path = format!("{path}.replacement");
        check.that(is_placeholder || is_outputs, &path, "must be a placeholder unless outputs are pruned");
    }
}

/// Checks names of tools: there is one, and none is empty or has surrounding blanks, which no tool of any agent has.
fn check_names(check: &mut Check, names: &[String], path: &str) {
    check.that(!names.is_empty(), path, "must name a tool");
    let is_name = |name: &String| !name.is_empty() && name.trim() == name;
    check.that(names.iter().all(is_name), path, "must be names of tools");
}

/// The result of a prune. Empty if there is nothing to prune.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrunePlan {
    /// The pruned parts with their replacements, in the order of the walk.
    pub removals: Removals,
    /// Estimated tokens of the pruned parts. A view gains less if outputs that it truncates are estimated as a whole.
    pub freed_tokens: i64,
}

impl Policy {
    /// Placeholder of an output that was pruned without a text of its own: the first constant placeholder text of the
    /// policy.
    pub fn placeholder(&self) -> &str {
        let level_steps = self.levels().flat_map(|(_, level_policy)| &level_policy.steps);
        let prunes = self.maintenance.iter().chain(level_steps).filter_map(|step| match step {
            PolicyStep::Prune(prune) if prune.target == Target::Outputs => Some(prune),
            PolicyStep::Prune(_) | PolicyStep::Omit(_) | PolicyStep::Summarize(_) => None,
        });
        let mut plain = prunes.filter_map(|prune| match &prune.replacement {
            Replacement::Placeholder(placeholder) if !placeholder.text.contains('{') => Some(placeholder.text.as_str()),
            Replacement::Placeholder(_) | Replacement::Named(_) => None,
        });
        plain.next().unwrap_or(PLACEHOLDER)
    }
}

/// Tokens of tool outputs above which a prune of maintenance can pay; negative if outputs are irrelevant. The output that
/// exceeds the kept tokens is freed as a whole, so that more than them is enough.
pub fn pays_from(prune: &Prune) -> i64 {
    match prune.target {
        Target::Outputs => prune.keep.tokens.max(prune.minimum_tokens.saturating_sub(1)),
        Target::Attachments | Target::Reasoning | Target::Media => -1,
    }
}

/// Walks from the newest part to the oldest, keeps the protected ones, and prunes the others if the condition holds and
/// enough tokens are freed.
///
/// Messages after the last reply, which the model has not read yet, and open messages stay as they are. A pruned output
/// stays with its call.
pub fn select(
    policy: &Policy,
    prune: &Prune,
    window: &ModelWindow,
    now: Timestamp,
    messages: &[SourceMessage],
) -> PrunePlan {
    if let Condition::Idle { seconds } = prune.condition
        && !condition::is_idle(messages, now, seconds)
    {
        return PrunePlan::default();
    }
    let search = protection::search(policy, prune, window, messages);
    let found = condition::limit(prune, window, search);
    let worth = found.iter().fold(0_i64, |sum, found| sum.saturating_add(found.tokens));
    let is_worth_it = worth >= prune.minimum_tokens;
    let mut plan = PrunePlan::default();
    for found in found.iter().filter(|_| is_worth_it) {
        let truncations = replacement::truncations(policy, prune, now, found);
        if !truncations.is_empty() {
            plan.freed_tokens = plan.freed_tokens.saturating_add(found.tokens);
            plan.removals.parts.extend(truncations);
        }
    }
    plan
}

#[cfg(test)]
mod tests;
