//! Necessary conditions of maintenance, as numbers that can be kept up to date without a view.
//!
//! Each number is one that the view must exceed before maintenance can have anything to do. Exceeding it proves
//! nothing, but a view that exceeds none of them need not be read.

use super::prune::{is_pruned, most_tokens, pays_from};
use super::strategy::OmissionBound;
use super::{
    Condition, Count, CountPer, FailedOutputs, Omission, Policy, PolicyStep, Prune, Rounding, Target, TextUnits,
    omission,
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
    pub fn from_policy(policy: &Policy, window: &ModelWindow) -> Self {
        let mut watch = Self::default();
        for step in policy.maintenance.iter().filter(|_| policy.trigger.auto) {
            match step {
                PolicyStep::Prune(prune) => watch.prune(policy, prune, window),
                PolicyStep::Omit(rule) => watch.limit(policy, rule, window),
                PolicyStep::Summarize(_) => {}
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
            lower(&mut self.output_tokens, tokens);
        } else {
            let of = |count: &Count| i64::try_from(count.in_window(window)).unwrap_or(i64::MAX);
            let kept = of(&prune.keep.parts).saturating_add(prune.batch.as_ref().map_or(0, of));
            let above = if let Condition::Parts { above } = &prune.condition { of(above) } else { 0 };
            lower(&mut self.parts, kept.max(above));
        }
    }

    fn limit(&mut self, policy: &Policy, rule: &Omission, window: &ModelWindow) {
        match rule.bound() {
            OmissionBound::Parts => lower(&mut self.parts, 0),
            OmissionBound::Messages(messages) => lower(&mut self.messages, i64::from(messages)),
            OmissionBound::Limit(_) => {
                if let Some(tokens) = omission::limit_tokens(rule, policy, window) {
                    lower(&mut self.tokens, tokens);
                }
            }
        }
    }
}

/// Keeps the smaller of two numbers.
fn lower(kept: &mut Option<i64>, other: i64) {
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
    if !policy.maintenance.iter().any(|step| matches!(step, PolicyStep::Prune(_))) {
        return 0;
    }
    source.message.parts.iter().map(|part| most_tokens(policy, source, part)).sum()
}

fn parts_of(policy: &Policy, source: &SourceMessage) -> i64 {
    let is_wanted = |step: &PolicyStep, part: &Part| match (step, &*part.body) {
        (PolicyStep::Prune(prune), _) if matches!(prune.condition, Condition::Idle { .. }) => false,
        (PolicyStep::Prune(prune), _) if output_tokens(policy, prune).is_some() => false,
        // They count as kept parts whatever is pruned.
        (PolicyStep::Prune(prune), PartBody::ToolResult(result))
            if prune.failed_outputs == FailedOutputs::Count && result.status != ResultStatus::Completed =>
        {
            true
        }
        (PolicyStep::Prune(prune), _) if is_pruned(prune, source, part) => false,
        (PolicyStep::Prune(prune), body) => match (prune.target, body) {
            (Target::Outputs, PartBody::ToolResult(_))
            | (Target::Reasoning, PartBody::Reasoning(_))
            | (Target::Media, PartBody::Media(_)) => true,
            (Target::Attachments, PartBody::ToolResult(result)) => !result.attachments.is_empty(),
            (Target::Outputs | Target::Attachments | Target::Reasoning | Target::Media, _) => false,
        },
        (PolicyStep::Omit(_), _) if source.pruned_part(part.id).is_some() => false,
        (PolicyStep::Omit(Omission::Named(named)), body) => {
            named.omission().is_some_and(|strategy| strategy.applies_to(body))
        }
        (PolicyStep::Omit(_) | PolicyStep::Summarize(_), _) => false,
    };
    let parts = &source.message.parts;
    let wanted = parts.iter().filter(|part| policy.maintenance.iter().any(|step| is_wanted(step, part)));
    i64::try_from(wanted.count()).unwrap_or(i64::MAX)
}
