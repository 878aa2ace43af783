//! Necessary conditions of maintenance, as numbers that can be kept up to date without a view.
//!
//! Each number is one that the view must exceed before maintenance can have anything to do. Exceeding it proves
//! nothing, but a view that exceeds none of them need not be read.

use super::prune::{is_pruned, most_tokens, pays_from};
use super::{
    Condition, Count, CountPer, FailedOutputs, Omission, Policy, Prune, Rounding, Step, Target, TextUnits, omission,
};
use crate::model::part::{Part, PartBody, ResultStatus};
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;

/// The limits beyond which maintenance is evaluated; one exceeded limit is enough.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MaintenanceLimits {
    /// Tokens of tool outputs.
    pub output_tokens: Option<i64>,
    /// Number of parts that maintenance could change.
    pub parts: Option<i64>,
    /// Number of messages.
    pub messages: Option<i64>,
    /// Tokens of the view.
    pub tokens: Option<i64>,
    /// Seconds since the model's last reply.
    pub idle_seconds: Option<u32>,
}

impl MaintenanceLimits {
    /// The limits for a policy's maintenance under a window; none if nothing is automatic.
    pub fn of(policy: &Policy, window: &ModelWindow) -> Self {
        let mut watch = Self::default();
        for step in policy.maintenance.iter().filter(|_| policy.trigger.auto) {
            match step {
                Step::Prune(prune) => watch.prune(policy, prune, window),
                Step::Omit(rule) => watch.limit(policy, rule, window),
                Step::Summarize(_) => {}
            }
        }
        watch
    }

    /// True if maintenance may have something to do in a view with these counts.
    pub fn are_exceeded(&self, counts: MaintenanceCounts) -> bool {
        let exceeds = |limit: Option<i64>, number: i64| limit.is_some_and(|limit| number > limit);
        // How long the model has been idle is not known here.
        self.idle_seconds.is_some()
            || exceeds(self.output_tokens, counts.output_tokens)
            || exceeds(self.parts, counts.parts)
            || exceeds(self.messages, counts.messages)
            || exceeds(self.tokens, counts.tokens)
    }

    fn prune(&mut self, policy: &Policy, prune: &Prune, window: &ModelWindow) {
        if let Condition::Idle { seconds } = prune.condition {
            self.idle_seconds = Some(self.idle_seconds.map_or(seconds, |other| other.min(seconds)));
        } else if let Some(tokens) = output_tokens(policy, prune) {
            least(&mut self.output_tokens, tokens);
        } else {
            let of = |count: &Count| i64::try_from(count.of(window)).unwrap_or(i64::MAX);
            let kept = of(&prune.keep.parts).saturating_add(prune.batch.as_ref().map_or(0, of));
            let above = if let Condition::Parts { above } = &prune.condition { of(above) } else { 0 };
            least(&mut self.parts, kept.max(above));
        }
    }

    fn limit(&mut self, policy: &Policy, rule: &Omission, window: &ModelWindow) {
        match rule {
            Omission::Strip(_) | Omission::OutputBudget(_) => least(&mut self.parts, 0),
            Omission::MiddleOut(rule) => least(&mut self.messages, i64::from(rule.max_messages)),
            Omission::Last(rule) => least(&mut self.messages, i64::from(rule.messages)),
            Omission::PerRole(_)
            | Omission::Groups(_)
            | Omission::TurnsAndSteps
            | Omission::NewestFirst
            | Omission::Suffix => {
                if let Some(tokens) = omission::limit_tokens(rule, policy, window) {
                    least(&mut self.tokens, tokens);
                }
            }
        }
    }
}

/// Keeps the smaller of two numbers.
fn least(kept: &mut Option<i64>, other: i64) {
    *kept = Some(kept.map_or(other, |kept| kept.min(other)));
}

/// Tokens of tool outputs above which a prune could pay; none if the number of parts decides instead.
fn output_tokens(policy: &Policy, prune: &Prune) -> Option<i64> {
    let counting = &policy.counting;
    match prune.condition {
        _ if prune.target != Target::Outputs => None,
        // With rounding up, the token count of a text is at least its length divided by the units per token. Contents are
        // counted as the view shows them, which may be less than what the condition measures.
        Condition::Length { above_units, .. }
            if counting.text == TextUnits::Length
                && counting.rounding == Rounding::Ceil
                && counting.per != CountPer::Contents =>
        {
            i64::try_from(above_units / u64::from(counting.units_per_token.max(1))).ok()
        }
        _ => Some(pays_from(prune)).filter(|tokens| *tokens > 0),
    }
}

/// What messages have of that which maintenance acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MaintenanceCounts {
    /// Tokens of tool outputs that a prune could still examine.
    pub output_tokens: i64,
    /// Number of parts, without those shortened by a mark, that maintenance could change.
    pub parts: i64,
    /// Number of messages at their own positions.
    pub messages: i64,
    /// Tokens of the whole view, or of a request with it, whichever are more; 0 if they are not known.
    pub tokens: i64,
}

impl MaintenanceCounts {
    /// These counts and those of one more message.
    pub fn with(self, policy: &Policy, source: &SourceMessage) -> Self {
        Self {
            output_tokens: self.output_tokens.saturating_add(output_tokens_of(policy, source)),
            parts: self.parts.saturating_add(parts_of(policy, source)),
            messages: self.messages.saturating_add(i64::from(source.placement.is_none())),
            tokens: self.tokens,
        }
    }
}

fn output_tokens_of(policy: &Policy, source: &SourceMessage) -> i64 {
    if !policy.maintenance.iter().any(|step| matches!(step, Step::Prune(_))) {
        return 0;
    }
    source.message.parts.iter().map(|part| most_tokens(policy, source, part)).sum()
}

fn parts_of(policy: &Policy, source: &SourceMessage) -> i64 {
    let is_wanted = |step: &Step, part: &Part| match (step, &*part.body) {
        (Step::Prune(prune), _) if matches!(prune.condition, Condition::Idle { .. }) => false,
        (Step::Prune(prune), _) if output_tokens(policy, prune).is_some() => false,
        // They count as kept parts whatever is pruned.
        (Step::Prune(prune), PartBody::ToolResult(result))
            if prune.failed_outputs == FailedOutputs::Count && result.status != ResultStatus::Completed =>
        {
            true
        }
        (Step::Prune(prune), _) if is_pruned(prune, source, part) => false,
        (Step::Prune(prune), body) => match (prune.target, body) {
            (Target::Outputs, PartBody::ToolResult(_))
            | (Target::Reasoning, PartBody::Reasoning(_))
            | (Target::Media, PartBody::Media(_)) => true,
            (Target::Attachments, PartBody::ToolResult(result)) => !result.attachments.is_empty(),
            (Target::Outputs | Target::Attachments | Target::Reasoning | Target::Media, _) => false,
        },
        (Step::Omit(_), _) if source.pruned_part(part.id).is_some() => false,
        (Step::Omit(Omission::Strip(rule)), body) => rule.applies_to(body),
        (Step::Omit(Omission::OutputBudget(_)), PartBody::ToolResult(_)) => true,
        (Step::Omit(_) | Step::Summarize(_), _) => false,
    };
    let parts = &source.message.parts;
    let wanted = parts.iter().filter(|part| policy.maintenance.iter().any(|step| is_wanted(step, part)));
    i64::try_from(wanted.count()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{dsl, presets};

    fn watch(preset: &str, context: i64) -> MaintenanceLimits {
        let policy = presets::policy(preset);
        MaintenanceLimits::of(&policy, &ModelWindow { context, ..ModelWindow::default() })
    }

    #[test]
    fn each_maintenance_waits_for_what_it_needs() {
        let none = MaintenanceLimits::default();
        for (preset, expected) in [
            ("opencode@seed", MaintenanceLimits { output_tokens: Some(40_000), ..none.clone() }),
            ("opencode@1.18", none.clone()),
            ("gemini-cli@0.26", MaintenanceLimits { output_tokens: Some(50_000), ..none.clone() }),
            (
                "qwen-code@0.24",
                MaintenanceLimits { output_tokens: Some(125_000), idle_seconds: Some(3_600), ..none.clone() },
            ),
            ("goose@0.8", MaintenanceLimits { parts: Some(16 + 3), ..none.clone() }),
            ("anthropic-context-editing", MaintenanceLimits { parts: Some(0), ..none.clone() }),
            ("suna@2026", MaintenanceLimits { parts: Some(0), messages: Some(320), ..none.clone() }),
        ] {
            assert_eq!(watch(preset, 200_000), expected, "{preset}");
        }
        let mut policy = presets::policy("suna@2026");
        policy.trigger.auto = false;
        assert_eq!(MaintenanceLimits::of(&policy, &ModelWindow::default()), none);
    }

    #[test]
    fn only_what_the_maintenance_acts_on_is_counted() {
        let sources = dsl::parse(
            "u1 \"a\"\na2 \"b\"\n  call bash#c1 in={}\nt3\n  result c1 out=40c done\n\
             a4 \"{\\\"tool_execution\\\": {\\\"arguments\\\": 1, \\\"result\\\": 2}}\"",
        );
        for (preset, expected) in [("goose@0.8", 1), ("opencode@seed", 0), ("suna@2026", 1), ("pi@1.5", 0)] {
            let policy = presets::policy(preset);
            let counts = sources.iter().fold(MaintenanceCounts::default(), |sum, source| sum.with(&policy, source));
            assert_eq!((counts.parts, counts.messages), (expected, 4), "{preset}");
        }
    }

    #[test]
    fn failures_that_count_as_kept_announce_a_prune_of_something_else() {
        let sources = dsl::parse(
            "u1 \"a\"\na2 \"b\"\n  call bash#c1 in={}\nt3\n  result c1 out=40c error\n\
             a4 \"c\"\n  call bash#c2 in={}\nt5\n  result c2 out=40c error",
        );
        let mut policy = presets::policy("goose@0.8");
        let Some(Step::Prune(prune)) = policy.maintenance.first_mut() else { panic!("a prune") };
        prune.target = Target::Attachments;
        for (failed_outputs, expected) in [(FailedOutputs::Count, 2), (FailedOutputs::Skip, 0)] {
            let Some(Step::Prune(prune)) = policy.maintenance.first_mut() else { panic!("a prune") };
            prune.failed_outputs = failed_outputs;
            let counts = sources.iter().fold(MaintenanceCounts::default(), |sum, source| sum.with(&policy, source));
            assert_eq!(counts.parts, expected, "{failed_outputs:?}");
        }
    }
}
