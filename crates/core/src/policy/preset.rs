//! A preset: a policy with a name, its sources, and its deviations from the agent.

use super::{Policy, PolicyStep};
use std::collections::BTreeMap;

/// A named, versioned policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Preset {
    /// The agent and the version: `opencode@seed`.
    pub name: String,
    /// One sentence for a list.
    pub description: String,
    /// Deliberate differences between Longhand and this agent, one sentence each.
    pub(super) deviations: Vec<String>,
    /// Source of each value, by the path of a field in the policy's JSON. The source of a field applies to the fields
    /// inside it, unless a longer path has another one.
    pub sources: BTreeMap<String, String>,
    pub(super) policy: Policy,
}

impl From<Policy> for Preset {
    /// A policy of a user, without a description.
    fn from(policy: Policy) -> Self {
        let sources = BTreeMap::from([("preset".to_owned(), "this preset's name".to_owned())]);
        Self { name: policy.preset.clone(), description: String::new(), deviations: Vec::new(), sources, policy }
    }
}

impl Preset {
    /// The policy.
    pub fn policy(&self) -> Policy {
        self.policy.clone()
    }

    /// Deliberate differences between Longhand and the agent, one sentence each: first those of this agent, then those
    /// of all agents whose summaries a model writes, and of all that act automatically. A policy that reproduces no agent
    /// has none.
    pub fn deviations(&self) -> Vec<&str> {
        if self.deviations.is_empty() {
            return Vec::new();
        }
        let policy = &self.policy;
        let mut steps = policy.levels().flat_map(|(_, level)| &level.steps);
        let common: &[&str] =
            if steps.any(|step| matches!(step, PolicyStep::Summarize(_))) { &SUMMARIZING } else { &[] };
        let automatic: &[&str] = if policy.trigger.auto { &AUTOMATIC } else { &[] };
        let has_figure = !policy.trigger.auto || policy.guards.minimum_gain_tokens.is_some();
        let minimum_gain: &[&str] = if has_figure { &[] } else { &MINIMUM_GAIN };
        let own = self.deviations.iter().map(String::as_str);
        own.chain([common, automatic, minimum_gain].concat()).collect()
    }

    /// Source of the value at a path.
    pub fn source(&self, path: &str) -> Option<&str> {
        let covering = self.sources.iter().filter(|(field, _)| covers(field, path));
        covering.max_by_key(|(field, _)| field.len()).map(|(_, source)| source.as_str())
    }
}

/// The preset with this name among some; for a name without a version, the last one.
pub fn named<'a>(presets: &'a [Preset], name: &str) -> Option<&'a Preset> {
    let matches = |preset: &&Preset| match name.contains('@') {
        true => preset.name == name,
        false => preset.name.split('@').next() == Some(name),
    };
    presets.iter().rev().find(matches)
}

/// True if a field is at a path, or below it.
pub(super) fn covers(path: &str, field: &str) -> bool {
    field.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Deviations of all agents whose summaries a model writes.
const SUMMARIZING: [&str; 3] = [
    "Where no model makes a summary and the agent has no step of its own for that, the built-in summarizer makes it; the \
     agent ends there, or goes on without.",
    "What a summarizer reads is quoted: every line that does not begin with a label of the transcript has `> ` in front of \
     it, so that no output can pass for a message or close a tag.",
    "An answer without the sections that were asked for and without substance, or that declines, is no summary: the next \
     summarizer writes it.",
];

/// Deviations of all agents that act automatically and have no minimum gain of their own.
const MINIMUM_GAIN: [&str; 2] = [
    "A compaction that would free less than a twentieth of the window is not made, unless a figure of the agent says what \
     is worth it, or it keeps the view within a limit of the agent.",
    "Where the agent's own tail leaves a summary too little to free, half of the tail is kept, and half of that, up to \
     five times.",
];

/// Deviations of all agents that act automatically.
const AUTOMATIC: [&str; 2] = [
    "A threshold, or a target, beyond the window counts as one that just fits it, and a reserve counts up to a quarter of \
     the window where the model's output limit is not known.",
    "Where the agent's own steps leave a view that exceeds its window, a last resort truncates the longest outputs and \
     inputs, omits the oldest messages and at last truncates the summary, until a twentieth of the window is free.",
];
