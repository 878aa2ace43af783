//! Parameters of the strategies that only Neovate uses.

use serde::{Deserialize, Serialize};

/// Continuation of a walk over the parts of each message in the order of writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartsAsWritten {
    /// Ends the walk at a part that was pruned earlier. Otherwise it continues with the message before that part's.
    pub ends_at_pruned: bool,
}
