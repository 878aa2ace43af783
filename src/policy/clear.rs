//! Prunes: the choice of old tool outputs, reasoning or media, and their placeholders.
//!
//! One strategy with parameters, in three files: the candidates (`protection`), the condition and the amount
//! (`condition`), and the replacement in the view (`replacement`).

mod condition;
mod excerpt;
mod protection;
mod replacement;
mod words;

pub use condition::last_reply;

use super::violation::Check;
use super::{Clear, EstimateOf, Instead, Keep, PartOrder, PastCleared, Policy, Step, Target, Tools, When, Words};
use crate::model::time::Timestamp;
use crate::model::truncation::Removals;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;

impl Clear {
    /// A prune of all outputs that the model has read, with a placeholder text: the basis of the presets.
    pub fn outputs(words: &str) -> Self {
        Self {
            target: Target::Outputs,
            estimate: EstimateOf::Words,
            keep: Keep::default(),
            when: When::Always,
            batch: None,
            minimum_tokens: 0,
            minimum_inclusive: true,
            only_tools: Tools::All,
            protected_tools: Vec::new(),
            failed_too: false,
            empty_too: true,
            inputs: None,
            past_cleared: PastCleared::GoOn,
            part_order: PartOrder::NewestFirst,
            ends_at_summary: false,
            instead: Instead::Words(Words { text: words.to_owned(), hints: Vec::new() }),
            only_if_shorter: true,
        }
    }

    /// The same prune without a condition and without batches, for requests by hand.
    pub fn by_hand(&self) -> Self {
        Self { when: When::Always, batch: None, ..self.clone() }
    }

    /// Notes invalid parameters.
    pub(super) fn check(&self, check: &mut Check, path: &str) {
        check.not_negative(self.keep.tokens, &format!("{path}.keep.tokens"));
        check.not_negative(self.minimum_tokens, &format!("{path}.minimum_tokens"));
        self.keep.items.check(check, &format!("{path}.keep.items"));
        self.when.check(check, &format!("{path}.when"));
        if let Some(batch) = &self.batch {
            batch.check(check, &format!("{path}.batch"));
        }
        let is_outputs = self.target == Target::Outputs;
        check.that(
            self.inputs.is_none() || is_outputs,
            &format!("{path}.inputs"),
            "must be absent unless outputs are cleared",
        );
        for (tools, field) in [(Some(&self.only_tools), "only_tools"), (self.inputs.as_ref(), "inputs")] {
            let Some(Tools::These(names)) = tools else { continue };
            let path = format!("{path}.{field}.these");
            check.that(!names.is_empty(), &path, "must name a tool");
            check_names(check, names, &path);
        }
        check_names(check, &self.protected_tools, &format!("{path}.protected_tools"));
        let is_words = matches!(self.instead, Instead::Words(_));
        check.that(is_words || is_outputs, &format!("{path}.instead"), "must be words unless outputs are cleared");
    }
}

/// Checks names of tools: none is empty or has surrounding blanks, which no tool of any agent has.
fn check_names(check: &mut Check, names: &[String], path: &str) {
    let is_name = |name: &String| !name.is_empty() && name.trim() == name;
    check.that(names.iter().all(is_name), path, "must be names of tools");
}

/// The result of a prune. Empty if there is nothing to prune.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClearPlan {
    /// The pruned parts with their replacements, in the order of the walk.
    pub removals: Removals,
    /// Estimated tokens of the pruned parts. A view that truncates long outputs gains less.
    pub freed_tokens: i64,
}

/// Placeholder of a pruned output if no step of the active policy has a constant placeholder text.
const PLACEHOLDER: &str = "[Old tool result content cleared]";

impl Policy {
    /// Placeholder of an output that was pruned without a text of its own: the first constant placeholder text of the
    /// policy.
    pub fn placeholder(&self) -> &str {
        let level_steps = self.levels().flat_map(|(_, level_policy)| &level_policy.steps);
        let clears = self.maintenance.iter().chain(level_steps).filter_map(|step| match step {
            Step::Clear(clear) if clear.target == Target::Outputs => Some(clear),
            Step::Clear(_) | Step::Omit(_) | Step::Summarize(_) => None,
        });
        let mut plain = clears.filter_map(|clear| match &clear.instead {
            Instead::Words(words) if !words.text.contains('{') => Some(words.text.as_str()),
            Instead::Words(_) | Instead::Excerpt(_) => None,
        });
        plain.next().unwrap_or(PLACEHOLDER)
    }
}

/// Tokens of tool outputs above which a prune of maintenance can pay; negative if outputs are irrelevant.
pub fn pays_from(clear: &Clear) -> i64 {
    match clear.target {
        Target::Outputs => {
            clear.keep.tokens.saturating_add(clear.minimum_tokens).saturating_sub(i64::from(clear.minimum_inclusive))
        }
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
    clear: &Clear,
    window: &ModelWindow,
    now: Timestamp,
    messages: &[SourceMessage],
) -> ClearPlan {
    if let When::Idle { seconds } = clear.when
        && !condition::is_idle(messages, now, seconds)
    {
        return ClearPlan::default();
    }
    let search = protection::search(policy, clear, window, messages);
    let found = condition::limit(clear, window, search);
    let worth = found.iter().fold(0_i64, |sum, found| sum.saturating_add(found.tokens));
    let is_worth_it =
        if clear.minimum_inclusive { worth >= clear.minimum_tokens } else { worth > clear.minimum_tokens };
    let mut plan = ClearPlan::default();
    for found in found.iter().filter(|_| is_worth_it) {
        let truncations = replacement::truncations(policy, clear, now, found);
        if !truncations.is_empty() {
            plan.freed_tokens = plan.freed_tokens.saturating_add(found.tokens);
            plan.removals.parts.extend(truncations);
        }
    }
    plan
}

#[cfg(test)]
mod tests;
