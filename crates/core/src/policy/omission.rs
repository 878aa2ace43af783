//! Truncation and omission of messages without a model, until the rest fits.
//!
//! Each strategy is in a file of its own; one that a single agent uses is in the folder of its preset. The result is recorded as marks, so that the next
//! decision starts from the remaining messages.

mod last;
pub(in crate::policy) mod text;

use super::presets::gemini_cli::output_budget;
use super::presets::joyagent::suffix;
use super::presets::qwen_agent::{newest_first, turns_and_steps};
use super::presets::suna::{groups, middle_out, per_role, strip};
use super::{Omission, Policy, overflow};
use crate::model::truncation::Removals;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;

/// The truncations and omissions of a strategy in `messages`, the inline messages of a view.
///
/// They never separate a result from its call and never touch an open message or a running call. The last request and
/// unanswered messages stay, truncated at most.
pub fn removals(omission: &Omission, policy: &Policy, window: &ModelWindow, messages: &[SourceMessage]) -> Removals {
    match omission {
        Omission::Last(rule) => last::removals(rule, messages),
        Omission::OutputBudget(rule) => output_budget::removals(rule, policy, messages),
        Omission::PerRole(rule) => per_role::removals(rule, policy, window, messages),
        Omission::Groups(rule) => groups::removals(rule, policy, window, messages),
        Omission::MiddleOut(rule) => middle_out::removals(rule, messages),
        Omission::Strip(rule) => strip::removals(rule, messages),
        Omission::TurnsAndSteps => turns_and_steps::removals(policy, window, messages),
        Omission::NewestFirst => newest_first::removals(policy, window, messages),
        Omission::Suffix => suffix::removals(policy, window, messages),
    }
}

/// Tokens of a view up to which a strategy with a token limit has nothing to do; none for other strategies and for an
/// unknown window.
pub(super) fn limit_tokens(omission: &Omission, policy: &Policy, window: &ModelWindow) -> Option<i64> {
    match omission {
        Omission::PerRole(rule) => overflow::message_target(policy, window, rule.target_ratio),
        Omission::Groups(rule) => overflow::message_target(policy, window, rule.target_ratio),
        Omission::TurnsAndSteps | Omission::NewestFirst | Omission::Suffix => {
            overflow::message_target(policy, window, 1.0)
        }
        Omission::Last(_) | Omission::OutputBudget(_) | Omission::MiddleOut(_) | Omission::Strip(_) => None,
    }
}
