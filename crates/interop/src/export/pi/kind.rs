//! What entries are to edits.

use crate::raw::Object;

/// What an entry is to an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// An entry with the message's texts and calls.
    Words,
    /// The result of the call with this id.
    Result(String),
    /// Nothing that pi lets anybody edit.
    Other,
}

impl Kind {
    /// The kind of an entry of a file.
    pub(super) fn from_entry(entry: &Object<'_>) -> Self {
        let message = entry.object("message");
        match (entry.string("type").as_str(), message) {
            ("custom_message", _) => Self::Words,
            ("message", Some(message)) => match message.string("role").as_str() {
                "user" | "assistant" => Self::Words,
                "toolResult" => Self::Result(message.string("toolCallId")),
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }

    /// True if pi lets a later entry edit it.
    pub(super) fn is_editable(&self) -> bool {
        *self != Self::Other
    }
}
