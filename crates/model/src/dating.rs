//! The times of events by a clock that was confirmed afterwards.
//!
//! Times of events never go back, so that they are ahead of the machine's clock for as long as that was wrong, and stay so.
//! What is to go by its age is dated by what was seen of both.

use super::limits::CLOCK_SEGMENTS_MAX;
use super::time::Timestamp;

/// The largest difference, in microseconds, that counts as none.
const SAME_MICROS: i64 = 1_000_000;

/// A time in which the times of events and a confirmed clock went on together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSegment {
    /// The time of events at its begin.
    pub event_time: Timestamp,
    /// The confirmed time at its begin.
    pub confirmed_time: Timestamp,
    /// Its length.
    pub micros: i64,
}

impl ClockSegment {
    /// Microseconds by which times of events are ahead.
    fn ahead(&self) -> i64 {
        self.event_time.0.saturating_sub(self.confirmed_time.0)
    }

    /// The time of events at its end.
    pub fn event_end(&self) -> Timestamp {
        Timestamp(self.event_time.0.saturating_add(self.micros))
    }

    /// The confirmed time at its end.
    pub fn confirmed_end(&self) -> Timestamp {
        Timestamp(self.confirmed_time.0.saturating_add(self.micros))
    }
}

/// The segments that are known, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dating(Vec<ClockSegment>);

impl Dating {
    /// The segments.
    pub fn segments(&self) -> &[ClockSegment] {
        &self.0
    }

    /// Adds what is known of a segment behind the newest one, which it prolongs if nothing leapt between them. Of what is
    /// known already nothing changes. True if something is new.
    pub fn add(&mut self, mut segment: ClockSegment) -> bool {
        if let Some(last) = self.0.last_mut() {
            if (segment.ahead() - last.ahead()).abs() < SAME_MICROS {
                let micros = segment.event_end().0.saturating_sub(last.event_time.0);
                let is_longer = micros > last.micros;
                last.micros = last.micros.max(micros);
                return is_longer;
            }
            let known = last.event_end().0.saturating_add(1).saturating_sub(segment.event_time.0).max(0);
            if known > segment.micros {
                return false;
            }
            segment = ClockSegment {
                event_time: Timestamp(segment.event_time.0 + known),
                confirmed_time: Timestamp(segment.confirmed_time.0 + known),
                micros: segment.micros - known,
            };
        }
        if self.0.len() >= CLOCK_SEGMENTS_MAX {
            self.0.remove(0);
        }
        self.0.push(segment);
        true
    }

    /// Adds what a process has seen. True if something is new.
    pub fn join(&mut self, seen: &Self) -> bool {
        let mut has_new = false;
        for segment in &seen.0 {
            has_new |= self.add(*segment);
        }
        has_new
    }

    /// The latest time at which an event with this time can have been written. Beside segments it is believed, but nothing
    /// was written after the next one had begun.
    pub fn date(&self, event_time: Timestamp) -> Timestamp {
        let next = self.0.partition_point(|segment| segment.event_time <= event_time);
        let within = self.0[..next].last().filter(|last| event_time.0 - last.event_time.0 <= last.micros);
        let dated = within.map_or(event_time, |last| Timestamp(event_time.0 - last.ahead()));
        self.0.get(next).map_or(dated, |next| dated.min(next.confirmed_time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn segment(event: i64, confirmed: i64, length: i64) -> ClockSegment {
        let at = |seconds| Timestamp(seconds * SECOND);
        ClockSegment { event_time: at(event), confirmed_time: at(confirmed), micros: length * SECOND }
    }

    fn dated(dating: &Dating, event: i64) -> i64 {
        dating.date(Timestamp(event * SECOND)).0 / SECOND
    }

    #[test]
    fn a_time_is_dated_by_the_segment_that_it_is_in_and_is_before_the_next_one() {
        let mut dating = Dating::default();
        assert_eq!(dated(&dating, 7), 7, "nothing is known");
        // The clock was ahead by 1 000 s from 200 s on, and then right again.
        assert!(dating.add(segment(100, 100, 50)) && dating.add(segment(150, 150, 50)));
        assert!(dating.add(segment(1_300, 300, 100)));
        assert_eq!(dating.segments(), [segment(100, 100, 100), segment(1_300, 300, 100)]);
        assert!(!dating.add(segment(1_000, 50, 300)), "it is known");
        for (event, expected) in
            [(50, 50), (120, 120), (200, 200), (250, 250), (1_250, 300), (1_300, 300), (1_350, 350), (1_401, 1_401)]
        {
            assert_eq!(dated(&dating, event), expected, "{event}");
        }
    }

    #[test]
    fn what_was_joined_before_changes_nothing() {
        let mut seen = Dating::default();
        for known in [segment(0, 0, 10), segment(110, 10, 10), segment(220, 220, 5)] {
            seen.add(known);
        }
        let mut dating = Dating::default();
        assert!(dating.join(&seen) && !dating.join(&seen));
        assert!(seen.add(segment(225, 225, 5)) && dating.join(&seen) && !dating.join(&seen));
        assert_eq!(dating, seen);
    }

    #[test]
    fn the_number_of_segments_is_bounded() {
        let mut dating = Dating::default();
        for number in 0..1_000 {
            dating.add(segment(number * 100, number * 10, 10));
        }
        assert_eq!(dating.segments().len(), CLOCK_SEGMENTS_MAX);
        assert_eq!(dated(&dating, 99_900), 9_990);
    }
}
