//! Parameters of omissions.

use super::named::{NamedStrategy, can_be_named};
use serde::{Deserialize, Serialize};

/// A strategy for truncation and omission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "snake_case", deny_unknown_fields)]
pub enum Omission {
    /// Keeps the last messages and omits the others.
    Last(LastMessages),
    /// A strategy of a single agent.
    #[serde(skip)]
    Named(NamedStrategy),
}

can_be_named!(Omission, omissions);

/// A number of newest messages, for tails and omissions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastMessages {
    /// Number of newest messages that stay.
    pub messages: u32,
}
