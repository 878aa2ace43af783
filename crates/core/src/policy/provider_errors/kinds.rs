//! The kinds of refusals, and what helps against each.

/// Reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// More tokens than the model's window has.
    TooLong,
    /// More bytes than a request may have. Media are most of them, if there are any.
    TooLarge,
    /// Media that are too many or too large, in bytes, pixels or pages, or that cannot be read, or that the model does
    /// not take at all. They are refused in every later request too.
    Media,
    /// Too many requests or tokens in a time: the same request may succeed later.
    Rate,
    /// The provider has no capacity, or fails: the same request may succeed later.
    Busy,
    /// The account is used up, or its plan does not allow the request; waiting does not help.
    Quota,
    /// The request is invalid or forbidden, whatever its size.
    Invalid,
}

/// What makes a view acceptable again for a provider that refused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// A compaction by the policy's steps, which removes media too.
    Compaction,
    /// The removal of media, or a compaction of a view without media.
    MediaFirst,
    /// The removal of media alone: no other content was refused.
    Media,
}

impl Kind {
    /// What helps against a refusal of this kind; none if no smaller view does.
    pub fn recovery(self) -> Option<Recovery> {
        match self {
            Self::TooLong => Some(Recovery::Compaction),
            Self::TooLarge => Some(Recovery::MediaFirst),
            Self::Media => Some(Recovery::Media),
            Self::Rate | Self::Busy | Self::Quota | Self::Invalid => None,
        }
    }

    /// True if the request was refused because of what it contains, so that a smaller one may be accepted.
    pub(super) fn is_size(self) -> bool {
        self.recovery().is_some()
    }
}
