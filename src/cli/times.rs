//! Points in time: printed relative to now, and read from arguments.

use super::failure::Usage;
use super::output::time;
use crate::model::time::Timestamp;
use jiff::SpanRelativeTo;

const MICROS: i64 = 1_000_000;
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// Age from which an instant is printed as its date, in seconds.
const OLD: i64 = 30 * DAY;

/// Clock time for the tables of one command.
#[derive(Debug, Clone, Copy)]
pub(super) enum Times {
    /// Relative to this time, as on a terminal.
    Since(Timestamp),
    /// In UTC, to the second.
    Absolute,
}

impl Times {
    /// An instant; `-` for none.
    pub(super) fn text(self, instant: Option<&prost_types::Timestamp>) -> String {
        match (self, instant) {
            (Self::Since(now), Some(instant)) => relative(instant, now),
            (Self::Absolute, _) | (_, None) => time(instant),
        }
    }
}

fn relative(instant: &prost_types::Timestamp, now: Timestamp) -> String {
    let age = now.0.div_euclid(MICROS) - instant.seconds;
    match age {
        0..=1 => "now".to_owned(),
        2..MINUTE => format!("{age} s ago"),
        MINUTE..HOUR => format!("{} min ago", age / MINUTE),
        HOUR..DAY => format!("{} h ago", age / HOUR),
        DAY..OLD => format!("{} d ago", age / DAY),
        // A date, for what is old, and for times of other clocks that are ahead.
        _ => time(Some(instant)).chars().take_while(|letter| *letter != ' ').collect(),
    }
}

/// The instant that an argument means: RFC 3339, a date, or the age of what is meant, as `2h` or `3d`.
pub(super) fn instant(text: &str, now: Timestamp) -> Result<Timestamp, Usage> {
    if let Ok(instant) = text.parse::<jiff::Timestamp>() {
        return Ok(Timestamp(instant.as_microsecond()));
    }
    if let Ok(date) = text.parse::<jiff::civil::Date>() {
        let instant = date.to_zoned(jiff::tz::TimeZone::UTC).map(|midnight| midnight.timestamp().as_microsecond());
        return instant.map(Timestamp).map_err(|error| Usage(format!("{text:?} is no time: {error}")));
    }
    let refused = || Usage(format!("{text:?} is no time: 2h, 3d, 2026-01-05 or 2026-01-05T10:00:00Z, for example"));
    let age = text.parse::<jiff::Span>().map_err(|_| refused())?;
    let age = age.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| refused())?;
    let micros = i64::try_from(age.as_micros()).ok().filter(|micros| *micros >= 0).ok_or_else(refused)?;
    Ok(Timestamp(now.0.saturating_sub(micros)))
}

/// An instant as RFC 3339 has it, in UTC, to the microsecond.
pub(super) fn rfc_3339(instant: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(instant.0).map_or_else(|_| instant.0.to_string(), |instant| instant.to_string())
}

/// True if something happened at an instant or later; true for an unknown time.
pub(super) fn is_since(happened: Option<&prost_types::Timestamp>, since: Option<Timestamp>) -> bool {
    let micros = |time: &prost_types::Timestamp| time.seconds * MICROS + i64::from(time.nanos) / 1_000;
    match (happened, since) {
        (Some(happened), Some(since)) => micros(happened) >= since.0,
        (None, _) | (_, None) => true,
    }
}

/// A number of seconds on the wire.
pub(super) fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-01-05, 10:00:00 UTC.
    const NOW: Timestamp = Timestamp(1_767_607_200 * MICROS);

    #[test]
    fn ages_are_in_the_largest_unit() {
        for (age, expected) in [
            (0, "now"),
            (5, "5 s ago"),
            (179, "2 min ago"),
            (3 * HOUR, "3 h ago"),
            (47 * HOUR, "1 d ago"),
            (40 * DAY, "2025-11-26"),
            (-90, "2026-01-05"),
        ] {
            let instant = prost_types::Timestamp { seconds: NOW.0 / MICROS - age, nanos: 0 };
            assert_eq!(Times::Since(NOW).text(Some(&instant)), expected);
        }
        assert_eq!(Times::Since(NOW).text(None), "-");
        let instant = prost_types::Timestamp { seconds: NOW.0 / MICROS, nanos: 0 };
        assert_eq!(Times::Absolute.text(Some(&instant)), "2026-01-05 10:00:00Z");
    }

    #[test]
    fn arguments_are_ages_dates_and_instants() {
        let hours_before = |hours: i64| Timestamp(NOW.0 - hours * HOUR * MICROS);
        for (text, expected) in [
            ("2h", hours_before(2)),
            ("3d", hours_before(72)),
            ("1h 30m", Timestamp(NOW.0 - 90 * MINUTE * MICROS)),
            ("2w", hours_before(14 * 24)),
            ("2026-01-05", hours_before(10)),
            ("2026-01-05T09:00:00Z", hours_before(1)),
            ("2026-01-05T09:00:00+01:00", hours_before(2)),
        ] {
            assert_eq!(instant(text, NOW), Ok(expected), "{text}");
        }
        for text in ["", "yesterday", "2", "-2h", "2h later", "2026-13-01", "9999999999d"] {
            let refused = instant(text, NOW).expect_err(text);
            assert!(refused.to_string().contains("is no time"), "{refused}");
        }
    }

    #[test]
    fn an_instant_is_since_itself() {
        let at = |seconds: i64| Some(prost_types::Timestamp { seconds, nanos: 500_000_000 });
        let since = Some(Timestamp(7 * MICROS + 500_000));
        assert!(is_since(at(7).as_ref(), since) && is_since(at(8).as_ref(), since) && is_since(None, since));
        assert!(!is_since(at(6).as_ref(), since));
        assert!(is_since(at(6).as_ref(), None));
    }
}
