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
                    .filter(|hex| hex.len() == 32 && !hex.contains('-'))
                    .and_then(|hex| Uuid::try_parse(hex).ok())
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
