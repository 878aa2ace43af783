//! Truncation and omission of messages without a model, until the rest fits.
//!
//! Each strategy is in a file of its own, with its parameters. Its result is recorded as marks, so that the next
//! decision starts from the remaining messages.

pub mod groups;
mod items;
pub mod last;
pub mod middle_out;
pub mod newest_first;
pub mod output_budget;
pub mod per_role;
pub mod strip;
mod suffix;
mod texts;
pub mod turns_and_steps;

use super::{Policy, overflow};
use crate::model::truncation::Removals;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use serde::{Deserialize, Serialize};

/// A strategy for truncation and omission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Omission {
    /// Keeps the last messages and omits the others.
    Last(last::Last),
    /// Truncates the outputs that exceed a common budget, which the newest outputs use first.
    OutputBudget(output_budget::OutputBudget),
    /// Shortens the messages of each role in turn, the older ones to a note.
    PerRole(per_role::PerRole),
    /// Omits calls with their results, and single messages, until the rest fits.
    Groups(groups::Groups),
    /// Omits the middle of a list of too many messages.
    MiddleOut(middle_out::MiddleOut),
    /// Removes a field from texts that are JSON.
    Strip(strip::Strip),
    /// From the oldest turn on: turns, results, steps, text.
    TurnsAndSteps(turns_and_steps::TurnsAndSteps),
    /// Keeps as much as fits, from the newest message back.
    NewestFirst(newest_first::NewestFirst),
    /// Keeps the newest messages that fit, beginning with a request.
    Suffix {},
}

impl Omission {
    /// True if only the number of messages decides, so that the evaluation is fast.
    pub(super) fn goes_by_number(&self) -> bool {
        matches!(self, Self::Last(_) | Self::MiddleOut(_))
    }
}

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
        Omission::TurnsAndSteps(rule) => turns_and_steps::removals(rule, policy, window, messages),
        Omission::NewestFirst(rule) => newest_first::removals(rule, policy, window, messages),
        Omission::Suffix {} => suffix::removals(policy, window, messages),
    }
}

/// Tokens of a view up to which a strategy with a token limit has nothing to do; none for other strategies and for an
/// unknown window.
pub(super) fn limit_tokens(omission: &Omission, policy: &Policy, window: &ModelWindow) -> Option<i64> {
    match omission {
        Omission::PerRole(rule) => goal(policy, window, rule.target_ratio),
        Omission::Groups(rule) => goal(policy, window, rule.target_ratio),
        Omission::TurnsAndSteps(_) | Omission::NewestFirst(_) | Omission::Suffix {} => goal(policy, window, 1.0),
        Omission::Last(_) | Omission::OutputBudget(_) | Omission::MiddleOut(_) | Omission::Strip(_) => None,
    }
}

/// The tokens for messages: a share of the main level's limit, without the overhead of a request; none if the window is
/// unknown.
fn goal(policy: &Policy, window: &ModelWindow, ratio: f64) -> Option<i64> {
    let limit = overflow::usable(policy, window);
    let share = (limit as f64 * ratio) as i64;
    (limit > 0 || window.context > 0).then(|| share.saturating_sub(window.overhead).max(0))
}

/// The tokens for messages under the main level's limit, without the instructions and the overhead of a request.
fn room(policy: &Policy, window: &ModelWindow, instructions: i64) -> i64 {
    overflow::usable(policy, window).saturating_sub(instructions).saturating_sub(window.overhead)
}
