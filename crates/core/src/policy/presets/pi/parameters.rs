//! Parameters of the strategies that only pi uses.

use crate::policy::parameters::Section;
use serde::{Deserialize, Serialize};

/// The separate summary for the front of a turn that the boundary splits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitTurn {
    /// Heading over that summary.
    pub heading: String,
    /// Its sections.
    pub sections: Vec<Section>,
    /// Includes the custom instructions in the request for it.
    pub instructions: bool,
}

/// The tail if the results of the last calls alone exceed its budget: no boundary may be before any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LargeResults {
    /// The results and the reply that made the calls: pi since 0.87.
    #[default]
    WithCall,
    /// Everything: pi up to 0.73, which then has nothing to summarize.
    WithEverything,
}
