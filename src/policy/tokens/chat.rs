//! The texts of each message and what a chat format puts around them, as litellm counts a list of messages.
//!
//! A message weighs a fixed number of units, its role's name, its texts, the inputs of its calls without the names of
//! the tools, and its results with the ids of their calls. A list weighs a fixed number more: the beginning of the
//! reply. Thoughts and provider blocks are not in the lists that litellm is given, and weigh nothing.

use super::{Counting, Shown, role_name, weight};
use crate::model::message::Role;
use serde::{Deserialize, Serialize};

/// What a chat format puts around texts, in units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatFormat {
    /// Around each message, its role's name not counted.
    pub message_units: u32,
    /// Around a list of messages.
    pub list_units: u32,
}

/// The units of one message; those of the list are the caller's business.
pub(super) fn units(format: ChatFormat, counting: &Counting, role: Role, parts: &[Shown<'_>]) -> i64 {
    let envelope = i64::from(format.message_units).saturating_add(weight(counting, role_name(role)));
    parts.iter().map(|part| part_units(counting, part)).fold(envelope, i64::saturating_add)
}

fn part_units(counting: &Counting, part: &Shown<'_>) -> i64 {
    match part {
        Shown::Text(text) => weight(counting, text),
        Shown::Call { input_json, .. } => weight(counting, input_json),
        Shown::Result { result, output, attachments } => {
            let words = weight(counting, output).saturating_add(weight(counting, &result.call_id));
            words.saturating_add(counting.media.of_attachments(attachments))
        }
        Shown::Media(media) => counting.media.of(media),
        Shown::Reasoning(_) | Shown::Opaque(_) => 0,
    }
}
