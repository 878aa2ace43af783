//! Public ids. They are made by the server alone, are UUIDv7 inside, and print as `ses_` + 32 hex digits.

use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {prefix}… id")]
pub struct ParseIdError {
    /// The prefix the id should have had.
    pub prefix: &'static str,
    /// What was given instead.
    pub text: String,
}

/// The digits of an id behind its prefix.
fn digits(text: &str) -> Option<Uuid> {
    // `Uuid` also reads forms that are longer.
    if text.len() == 32 { Uuid::try_parse(text).ok() } else { None }
}

/// What the ids of every kind of thing start with, events included, which have none yet.
const PREFIXES: [&str; 5] = [SessionId::PREFIX, MessageId::PREFIX, PartId::PREFIX, CompactionId::PREFIX, "evt_"];

/// Whether a text has the form of an id that the server makes, of whatever kind: where ids are read, a client's own id
/// would be taken for one.
pub fn has_form_of_id(text: &str) -> bool {
    PREFIXES.iter().any(|prefix| text.strip_prefix(prefix).and_then(digits).is_some())
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub Uuid);

        impl $name {
            /// What every id of this kind starts with.
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
    /// Names a session.
    SessionId,
    "ses_"
);
id!(
    /// Names a message.
    MessageId,
    "msg_"
);
id!(
    /// Names a part of a message.
    PartId,
    "prt_"
);
id!(
    /// Names a reduction (a prune, a compaction) from the moment it is asked for to the end of time.
    CompactionId,
    "cmp_"
);
