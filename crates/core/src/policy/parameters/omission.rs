//! Parameters of omissions.

use crate::policy::strategy::{Named, OmissionStrategy};
use serde::{Deserialize, Serialize};

/// A strategy for truncation and omission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "snake_case", deny_unknown_fields)]
pub enum Omission {
    /// Keeps the last messages and omits the others.
    Last(LastMessages),
    /// A strategy of a single agent.
    #[serde(skip)]
    Named(Named<dyn OmissionStrategy>),
}

/// A number of newest messages, for tails and omissions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastMessages {
    /// Number of newest messages that stay.
    pub messages: u32,
}
