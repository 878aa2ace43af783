//! Instants and spans as plain numbers; reading a clock is `clock`'s business.

/// An instant: microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The instant `millis` milliseconds after this one.
    pub fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis.saturating_mul(1_000)))
    }

    /// The instant that a count of milliseconds since the epoch names.
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Whole milliseconds since the epoch, rounded down.
    pub fn as_millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }
}
