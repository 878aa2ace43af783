//! Instants and durations as plain numbers. Only the module `clock` reads the time.

/// An instant: microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The instant `millis` milliseconds after this one.
    pub fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis.saturating_mul(1_000)))
    }

    /// The instant at a number of milliseconds since the epoch.
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// The instant in UTC with milliseconds, as JavaScript's `toISOString` writes it: `2026-01-31T12:00:00.000Z`. An
    /// instant beyond the years that the format has is written as the nearest one that it has.
    pub fn to_iso_8601(self) -> String {
        let millis = self.as_millis();
        let nearest = if millis < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
        format!("{:.3}", jiff::Timestamp::from_millisecond(millis).unwrap_or(nearest))
    }

    /// Whole milliseconds since the epoch, rounded down.
    pub fn as_millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_written_as_a_date_and_a_time() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (1_795_252_493_123, "2026-11-21T09:14:53.123Z"),
        ] {
            assert_eq!(Timestamp::from_millis(millis).to_iso_8601(), expected);
        }
        assert_eq!(Timestamp(i64::MAX).to_iso_8601(), "9999-12-30T22:00:00.999Z");
        assert_eq!(Timestamp(i64::MIN).to_iso_8601(), "-009999-01-02T01:59:59.000Z");
    }
}
