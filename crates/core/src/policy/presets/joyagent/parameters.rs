//! Parameters of the strategies that only JoyAgent uses.

use serde::{Deserialize, Serialize};

/// The length of messages with their envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// Resolution at which a model reads images.
    pub detail: Detail,
}

impl Envelope {
    /// Units of each message, without its role's name.
    pub(in crate::policy) const MESSAGE_UNITS: i64 = 4;
    /// Units of a list of messages.
    pub(in crate::policy) const LIST_UNITS: i64 = 2;
}

/// Resolution at which a model reads an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// The whole image at once, whatever its size.
    Low,
    /// In tiles. An image of unknown size has the policy's number of units for images.
    Medium,
    /// In tiles. An image of unknown size counts as four tiles.
    High,
}
