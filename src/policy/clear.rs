//! Prunes: the choice of old tool outputs, reasoning or media, and their placeholders.
//!
//! One strategy with parameters, in three files: the candidates (`protection`), the condition and the amount
//! (`condition`), and the replacement in the view (`replacement`).

mod condition;
mod excerpt;
mod protection;
mod replacement;
mod words;

pub use condition::{Count, OfWindow, When, last_reply};
pub use excerpt::{Excerpt, Lines, Units};
pub use protection::{Keep, PartOrder, PastCleared};
pub use words::{Hint, Words};

use super::validate::Check;
use super::{Policy, Step};
use crate::model::time::Timestamp;
use crate::model::truncation::Removals;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use serde::{Deserialize, Serialize};

/// Parameters of a prune of old outputs, reasoning or media: a walk from the newest part to the oldest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clear {
    /// The kind of parts that are pruned.
    pub target: Target,
    /// The estimate of a part, for limits in tokens.
    pub estimate: EstimateOf,
    /// The protected parts; a part stays while any of these protects it.
    pub keep: Keep,
    /// The condition of the prune.
    pub when: When,
    /// Batch size: nothing is pruned until more parts than this can be pruned; then this number of the oldest is.
    /// Absent: all.
    pub batch: Option<Count>,
    /// Nothing is pruned unless more than this number of tokens can be freed …
    pub minimum_tokens: i64,
    /// … or exactly this number.
    pub minimum_inclusive: bool,
    /// Restricts the prune to outputs of these tools.
    pub only_tools: Tools,
    /// Outputs of these tools stay and do not count.
    pub protected_tools: Vec<String>,
    /// Includes outputs of calls that failed or were interrupted, besides completed ones.
    pub failed_too: bool,
    /// Includes outputs without text and media.
    pub empty_too: bool,
    /// The tools whose calls lose their input together with their output: it becomes `{}`. Absent: inputs stay.
    pub inputs: Option<Tools>,
    /// The continuation of the walk at a part that was pruned earlier.
    pub past_cleared: PastCleared,
    /// The order of the walk within one message.
    pub part_order: PartOrder,
    /// Ends the walk at the active summary: at every message written before it, including its tail, wherever these
    /// messages are in the view.
    pub ends_at_summary: bool,
    /// The replacement in the view.
    pub instead: Instead,
    /// Keeps a part unless its replacement has fewer tokens.
    pub only_if_shorter: bool,
}

/// The kind of parts that a prune replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Outputs of tools, with their media.
    Outputs,
    /// Media in outputs of tools; the text stays.
    Attachments,
    /// Reasoning of the model.
    Reasoning,
    /// Media in messages.
    Media,
}

/// The estimate of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EstimateOf {
    /// The whole text of an output alone, even if a view truncates it. Other parts as by the policy's counting.
    Words,
    /// The part in its message, by the policy's counting.
    Part,
}

/// A set of tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Tools {
    /// All tools.
    All,
    /// The tools with these names.
    These(Vec<String>),
}

impl Tools {
    /// True if the set contains a tool; an output without a call has no tool.
    fn contain(&self, tool: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => tool.is_some_and(|tool| names.iter().any(|name| name == tool)),
        }
    }
}

/// The replacement of a pruned part in a view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Instead {
    /// A placeholder text.
    Words(Words),
    /// Its beginning and its end.
    Excerpt(Box<Excerpt>),
}

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
