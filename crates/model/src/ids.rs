//! Public ids. The server alone makes them. They are UUIDv7 inside, and print as `ses_` + 32 hex digits.

use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// Error for a text that is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no id: one of this kind begins with {prefix}")]
pub struct ParseIdError {
    /// The prefix the id should have had.
    pub prefix: &'static str,
    /// The text that was given.
    pub text: String,
}

/// The UUID in the digits of an id, which follow its prefix.
fn digits(text: &str) -> Option<Uuid> {
    // `Uuid` also parses longer forms.
    if text.len() == 32 { Uuid::try_parse(text).ok() } else { None }
}

/// True if the text has the form of an id of any kind that the server makes, or may make in a later version. Where ids
/// are read, a client's own id of that form would be mistaken for one.
pub fn has_form_of_id(text: &str) -> bool {
    let Some((kind, rest)) = text.split_once('_') else { return false };
    kind.len() == 3 && kind.bytes().all(|letter| letter.is_ascii_lowercase()) && digits(rest).is_some()
}

/// The reason for which a text cannot be a client's own id, whatever its length; none if it can.
pub fn client_id_defect(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("is empty")
    } else if text.chars().any(char::is_control) {
        Some("has a control character")
    } else if text.trim() != text {
        Some("begins or ends with white space")
    } else if has_form_of_id(text) {
        Some("has the form of an id that the server makes")
    } else {
        None
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub Uuid);

        impl $name {
            /// The prefix of every id of this kind.
            pub const PREFIX: &'static str = $prefix;
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $prefix, self.0.simple())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                text.strip_prefix($prefix)
                    .and_then(digits)
                    .map(Self)
                    .ok_or_else(|| ParseIdError { prefix: $prefix, text: text.to_owned() })
            }
        }
    };
}

id!(
    /// The id of a session.
    SessionId,
    "ses_"
);
id!(
    /// The id of a message.
    MessageId,
    "msg_"
);
id!(
    /// The id of a part of a message: that of its message, with the number of the part in its last four digits.
    PartId,
    "prt_"
);
id!(
    /// The id of a compaction of any kind (a prune, an omission, a summary), from its request on and for ever.
    CompactionId,
    "cmp_"
);

id!(
    /// The id of an access token, which is no secret.
    AccessTokenId,
    "tok_"
);

id!(
    /// The id of a run.
    RunId,
    "run_"
);
id!(
    /// The id of a prompt. The message that it becomes has the same digits.
    PromptId,
    "pmt_"
);
id!(
    /// The id of an approval.
    ApprovalId,
    "apr_"
);

/// The digits of a part's id that hold its number; in the id of a message they are zero.
const NUMBER: u128 = 0xffff;

impl MessageId {
    /// The id of a new message, made from a fresh UUID.
    pub fn from_fresh(id: Uuid) -> Self {
        Self(Uuid::from_u128(id.as_u128() & !NUMBER))
    }
}

impl PromptId {
    /// The id of the message that a run makes of the prompt.
    pub fn message(self) -> MessageId {
        MessageId(self.0)
    }
}

impl PartId {
    /// The id of the part of a message with this number. Numbers begin at 1; the order of parts is their position, which
    /// differs from their number where drafts close in another order than they began.
    pub fn in_message(message: MessageId, number: u16) -> Self {
        Self(Uuid::from_u128(message.0.as_u128() & !NUMBER | u128::from(number)))
    }

    /// The message of the part.
    pub fn message(self) -> MessageId {
        MessageId::from_fresh(self.0)
    }

    /// The number of the part within its message.
    pub fn number(self) -> u16 {
        (self.0.as_u128() & NUMBER) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_part_names_its_message_and_number() {
        let message = MessageId::from_fresh(Uuid::from_u128(u128::MAX));
        assert_eq!(message.to_string(), "msg_ffffffffffffffffffffffffffff0000");
        for number in [1, 2, 256, u16::MAX] {
            let part = PartId::in_message(message, number);
            assert_eq!((part.message(), part.number()), (message, number));
        }
        assert_eq!(PartId::in_message(message, 10).to_string(), "prt_ffffffffffffffffffffffffffff000a");
    }
}
