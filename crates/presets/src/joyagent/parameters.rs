//! Parameters of the strategies that only JoyAgent uses.

use serde::{Deserialize, Serialize};

/// The length of messages with their envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    /// Resolution at which a model reads images.
    pub detail: Detail,
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

/// Keeps the newest messages that fit, beginning with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suffix;
