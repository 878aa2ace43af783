//! Which old tool outputs, thoughts or media are cleared, and what stands in their place.
//!
//! One strategy with parameters. It asks three things in turn, each in a file of its own: what may go
//! (`protection`), whether and how much of that goes now (`condition`), and what a view shows instead
//! (`replacement`).

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
use crate::model::cut::Cuts;
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use serde::{Deserialize, Serialize};

/// How old outputs, thoughts or media are cleared: a walk from the newest to the oldest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clear {
    /// What is cleared.
    pub target: Target,
    /// How it is weighed, for the limits in tokens.
    pub weigh: Weigh,
    /// What stays; a part stays while any of these protects it.
    pub keep: Keep,
    /// On what condition anything happens.
    pub when: When,
    /// Nothing happens until more than this many can go; then this many do, the oldest. Absent: all that can go.
    pub batch: Option<Count>,
    /// Nothing happens unless more than this many tokens can go …
    pub minimum_tokens: i64,
    /// … or just as many.
    pub minimum_inclusive: bool,
    /// Only outputs of these tools are looked at.
    pub only_tools: Tools,
    /// Outputs of these tools stay, and are not counted.
    pub protected_tools: Vec<String>,
    /// Whether outputs of calls that failed or were stopped are looked at, and not only those that were completed.
    pub failed_too: bool,
    /// Whether outputs without words and media are looked at.
    pub empty_too: bool,
    /// The tools whose calls lose their input along with their output: it becomes `{}`. Absent: inputs stay.
    pub inputs: Option<Tools>,
    /// What the walk does at a part that was cleared before.
    pub past_cleared: PastCleared,
    /// In which order the walk looks at the parts of one message.
    pub part_order: PartOrder,
    /// Whether the walk ends at the live summary, that is at everything written before it, the tail included, wherever
    /// the view puts these messages.
    pub ends_at_summary: bool,
    /// What a view shows instead.
    pub instead: Instead,
    /// Whether a part stays when what would stand in its place weighs no less.
    pub only_if_shorter: bool,
}

/// What a clearing clears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// What tools gave back, with the media that came with it.
    Outputs,
    /// The media that came with what tools gave back; the words stay.
    Attachments,
    /// What the model thought.
    Reasoning,
    /// Media in messages.
    Media,
}

/// How a part is weighed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weigh {
    /// The words of an output alone and whole, even where a view cuts it. Other parts as the policy counts them.
    Words,
    /// As the policy counts the part in a message.
    Part,
}

/// Which tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Tools {
    /// All of them.
    All,
    /// Those with these names.
    These(Vec<String>),
}

impl Tools {
    /// Whether a tool is among them; an output without a call has no tool.
    fn contain(&self, tool: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => tool.is_some_and(|tool| names.iter().any(|name| name == tool)),
        }
    }
}

/// What a view shows in place of a cleared part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Instead {
    /// Words about it.
    Words(Words),
    /// Its beginning and its end.
    Excerpt(Box<Excerpt>),
}

impl Clear {
    /// Clears every output that no unread message holds, and puts words in its place: what presets start from.
    pub fn outputs(words: &str) -> Self {
        Self {
            target: Target::Outputs,
            weigh: Weigh::Words,
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

    /// The same without a condition and in one batch: what is done when somebody asks for it.
    pub fn by_hand(&self) -> Self {
        Self { when: When::Always, batch: None, ..self.clone() }
    }

    /// Notes what is wrong with the parameters.
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

/// Names of tools: none is empty or has blanks around it, which no tool of any agent has.
fn check_names(check: &mut Check, names: &[String], path: &str) {
    let is_name = |name: &String| !name.is_empty() && name.trim() == name;
    check.that(names.iter().all(is_name), path, "must be names of tools");
}

/// What a clearing would do. Empty when nothing is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClearPlan {
    /// What is cleared, in the order of the walk, and what stands in its place.
    pub cuts: Cuts,
    /// What the cleared parts weigh. A view that cuts long outputs gains less.
    pub freed_tokens: i64,
}

/// What stands in place of a cleared output when no step of the policy in force has plain words for it.
const PLACEHOLDER: &str = "[Old tool result content cleared]";

impl Policy {
    /// What stands in place of an output that was cleared without words of its own: the first words of the policy that
    /// say the same of every output.
    pub fn placeholder(&self) -> &str {
        let rungs = self.ladder().flat_map(|(_, rung)| &rung.steps);
        let clears = self.routine.iter().chain(rungs).filter_map(|step| match step {
            Step::Clear(clear) if clear.target == Target::Outputs => Some(clear),
            Step::Clear(_) | Step::Fit(_) | Step::Summarize(_) => None,
        });
        let mut plain = clears.filter_map(|clear| match &clear.instead {
            Instead::Words(words) if !words.text.contains('{') => Some(words.text.as_str()),
            Instead::Words(_) | Instead::Excerpt(_) => None,
        });
        plain.next().unwrap_or(PLACEHOLDER)
    }
}

/// The tool output tokens above which a routine clearing could pay; below 0 when outputs have no say in it.
pub fn pays_from(clear: &Clear) -> i64 {
    match clear.target {
        Target::Outputs => {
            clear.keep.tokens.saturating_add(clear.minimum_tokens).saturating_sub(i64::from(clear.minimum_inclusive))
        }
        Target::Attachments | Target::Reasoning | Target::Media => -1,
    }
}

/// Walks from the newest part to the oldest, keeps what is protected, and clears the rest if the condition holds and it
/// is worth it.
///
/// Nothing is cleared that the model has not read yet: what stands behind its last reply. Nor is an open message
/// touched. A cleared output stays with its call.
pub fn select(
    policy: &Policy,
    clear: &Clear,
    window: &ModelWindow,
    now: Timestamp,
    messages: &[SourceMessage],
) -> ClearPlan {
    let search = protection::search(policy, clear, window, messages);
    let found = condition::limit(clear, window, now, messages, search);
    let worth = found.iter().fold(0_i64, |sum, found| sum.saturating_add(found.tokens));
    let is_worth_it =
        if clear.minimum_inclusive { worth >= clear.minimum_tokens } else { worth > clear.minimum_tokens };
    let mut plan = ClearPlan::default();
    for found in found.iter().filter(|_| is_worth_it) {
        let cuts = replacement::cuts(policy, clear, now, found);
        if !cuts.is_empty() {
            plan.freed_tokens = plan.freed_tokens.saturating_add(found.tokens);
            plan.cuts.parts.extend(cuts);
        }
    }
    plan
}

#[cfg(test)]
mod tests;
