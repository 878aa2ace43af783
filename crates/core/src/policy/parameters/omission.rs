//! Parameters of omissions.

use crate::policy::presets::gemini_cli::parameters::OutputBudget;
use crate::policy::presets::suna::parameters::{Groups, MiddleOut, PerRole, Strip};
use serde::{Deserialize, Serialize};

/// A strategy for truncation and omission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Omission {
    /// Keeps the last messages and omits the others.
    Last(LastMessages),
    /// Truncates the outputs that exceed a common budget, which the newest outputs use first.
    OutputBudget(OutputBudget),
    /// Shortens the messages of each role in turn, the older ones to a note.
    PerRole(PerRole),
    /// Omits calls with their results, and single messages, until the rest fits.
    Groups(Groups),
    /// Omits the middle of a list of too many messages.
    MiddleOut(MiddleOut),
    /// Removes a field from texts that are JSON.
    Strip(Strip),
    /// From the oldest turn on: turns, results, steps, text.
    TurnsAndSteps,
    /// Keeps as much as fits, from the newest message back.
    NewestFirst,
    /// Keeps the newest messages that fit, beginning with a request.
    Suffix,
}

impl Omission {
    /// True if only the number of messages decides, so that the evaluation is fast.
    pub(in crate::policy) fn goes_by_number(&self) -> bool {
        matches!(self, Self::Last(_) | Self::MiddleOut(_))
    }

    /// True if it brings a view within the limit of its level: it frees what exceeds a measure of that limit, and no
    /// more.
    pub(in crate::policy) fn goes_by_limit(&self) -> bool {
        match self {
            Self::PerRole(_) | Self::Groups(_) | Self::TurnsAndSteps | Self::NewestFirst | Self::Suffix => true,
            Self::Last(_) | Self::OutputBudget(_) | Self::MiddleOut(_) | Self::Strip(_) => false,
        }
    }
}

/// A number of newest messages, for tails and omissions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastMessages {
    /// Number of newest messages that stay.
    pub messages: u32,
}
