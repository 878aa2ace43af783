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

    /// The instant in UTC with milliseconds, as JavaScript's `toISOString` writes it: `2026-01-31T12:00:00.000Z`.
    pub fn to_iso_8601(self) -> String {
        let millis = self.as_millis();
        let (days, of_day) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
        let (year, month, day) = civil_date(days);
        let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1_000 % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", of_day % 1_000)
    }

    /// Whole milliseconds since the epoch, rounded down.
    pub fn as_millis(self) -> i64 {
        self.0.div_euclid(1_000)
    }
}

/// Year, month and day of the Gregorian calendar for a number of days since 1970-01-01.
fn civil_date(days: i64) -> (i64, i64, i64) {
    // Years are counted from March, so that a leap day is the last day of its year; 400 years have 146 097 days.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
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
        assert!(Timestamp(i64::MAX).to_iso_8601().ends_with('Z'));
        assert!(Timestamp(i64::MIN).to_iso_8601().ends_with('Z'));
    }
}
