//! Making a list of messages fit without a model: what is cut, and what is left out.
//!
//! Each strategy stands on its own, in a file with its parameters. What it takes out is recorded as marks, so that the
//! next decision starts from what is left.

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
use crate::model::cut::Cuts;
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use serde::{Deserialize, Serialize};

/// A way to make messages fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fit {
    /// Keeps the last messages and leaves out the others.
    Last(last::Last),
    /// Cuts the outputs that a budget for all of them has no room for, newest first.
    OutputBudget(output_budget::OutputBudget),
    /// Shortens the messages of each role in turn, older ones down to a note.
    PerRole(per_role::PerRole),
    /// Leaves out calls with their results and single messages until the rest fits.
    Groups(groups::Groups),
    /// Leaves out the middle of a list of too many messages.
    MiddleOut(middle_out::MiddleOut),
    /// Takes a field out of texts that are JSON.
    Strip(strip::Strip),
    /// From the oldest turn on: turns, results, steps, words.
    TurnsAndSteps(turns_and_steps::TurnsAndSteps),
    /// From the newest message back, as much as fits.
    NewestFirst(newest_first::NewestFirst),
    /// The newest messages that fit, from a request on.
    Suffix {},
}

impl Fit {
    /// Whether it goes by the number of messages, so that it is quick to ask.
    pub(super) fn goes_by_number(&self) -> bool {
        matches!(self, Self::Last(_) | Self::MiddleOut(_))
    }
}

/// What the strategy takes out of `messages`, the inline messages of a view.
///
/// What it takes out never parts a result from its call, never touches an open message or a running call, and leaves
/// the last request and what nobody has answered yet, cut at worst.
pub fn fit(fit: &Fit, policy: &Policy, window: &ModelWindow, messages: &[SourceMessage]) -> Cuts {
    match fit {
        Fit::Last(rule) => last::cut(rule, messages),
        Fit::OutputBudget(rule) => output_budget::cut(rule, policy, messages),
        Fit::PerRole(rule) => per_role::cut(rule, policy, window, messages),
        Fit::Groups(rule) => groups::cut(rule, policy, window, messages),
        Fit::MiddleOut(rule) => middle_out::cut(rule, messages),
        Fit::Strip(rule) => strip::cut(rule, messages),
        Fit::TurnsAndSteps(rule) => turns_and_steps::cut(rule, policy, window, messages),
        Fit::NewestFirst(rule) => newest_first::cut(rule, policy, window, messages),
        Fit::Suffix {} => suffix::cut(policy, window, messages),
    }
}

/// The tokens of a view up to which a strategy that goes by them has nothing to do; none for the others, and when the
/// window is not known.
pub(super) fn fits(fit: &Fit, policy: &Policy, window: &ModelWindow) -> Option<i64> {
    match fit {
        Fit::PerRole(rule) => goal(policy, window, rule.target_ratio),
        Fit::Groups(rule) => goal(policy, window, rule.target_ratio),
        Fit::TurnsAndSteps(_) | Fit::NewestFirst(_) | Fit::Suffix {} => goal(policy, window, 1.0),
        Fit::Last(_) | Fit::OutputBudget(_) | Fit::MiddleOut(_) | Fit::Strip(_) => None,
    }
}

/// The share of the main rung's limit that messages may weigh, beside what else a request carries; none when the window
/// is not known.
fn goal(policy: &Policy, window: &ModelWindow, ratio: f64) -> Option<i64> {
    let limit = overflow::usable(policy, window);
    let share = (limit as f64 * ratio) as i64;
    (limit > 0 || window.context > 0).then(|| share.saturating_sub(window.overhead).max(0))
}

/// What the main rung lets messages weigh beside so many tokens of instructions and what else a request carries.
fn room(policy: &Policy, window: &ModelWindow, instructions: i64) -> i64 {
    overflow::usable(policy, window).saturating_sub(instructions).saturating_sub(window.overhead)
}
