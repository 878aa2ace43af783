//! The one place that reads the time and draws ids.

use crate::model::time::Timestamp;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// The least leap that counts, in microseconds. A clock that is only slewed stays far below it.
const LEAP_MICROS: i64 = 1_000_000;

/// Tells the time, which never goes backwards and never stands still.
///
/// It advances with the machine's monotonic clock. The system's clock only moves it forward: one that is set back has no
/// effect, so that nothing that waits for an instant waits until real time has caught up.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    anchor: Mutex<Anchor>,
    /// A clock for tests that moves only when it is told to.
    stands: bool,
    /// Leaps of the system's clock over the monotonic one: the machine slept, or somebody set its clock ahead.
    leaps: AtomicU64,
    /// By how many microseconds a test has set the system's clock ahead, or back where it is negative.
    system_shift: AtomicI64,
}

/// A known time, in microseconds since 1970, and the monotonic instant at which it was that time.
#[derive(Debug)]
struct Anchor {
    time: i64,
    at: Instant,
}

impl Default for Anchor {
    /// The first reading of the system's clock replaces it.
    fn default() -> Self {
        Self { time: 0, at: Instant::now() }
    }
}

impl Anchor {
    /// The time at a monotonic instant that is not before the anchor's.
    fn time_at(&self, instant: Instant) -> i64 {
        let passed = instant.saturating_duration_since(self.at).as_micros();
        self.time.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
    }
}

impl Clock {
    /// A clock that shows this instant until it is advanced: time for tests, which then do not depend on how fast they
    /// run.
    pub fn standing_at(start: Timestamp) -> Self {
        let anchor = Mutex::new(Anchor { time: start.0, ..Anchor::default() });
        Self { shared: Arc::new(Shared { anchor, stands: true, ..Shared::default() }) }
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.read(&mut self.anchor())
    }

    /// Goes on from an instant, unless it is later than that already. A daemon goes on from the newest instant in its
    /// store, and who tests what waits for hours need not wait for them.
    pub fn skip_to(&self, instant: Timestamp) {
        let mut anchor = self.anchor();
        if instant > self.read(&mut anchor) {
            *anchor = Anchor { time: instant.0, at: Instant::now() };
        }
    }

    /// Moves the clock and all its clones ahead by so many milliseconds.
    pub fn advance(&self, millis: i64) {
        self.skip_to(self.now().plus_millis(millis));
    }

    /// The number of leaps so far: time passed, by a second or more, in which nothing of this process ran.
    pub fn leaps(&self) -> u64 {
        self.shared.leaps.load(Ordering::Relaxed)
    }

    /// What the system's clock shows, wherever it has been set to.
    pub fn system(&self) -> Timestamp {
        let system = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
        let system = i64::try_from(system).unwrap_or(i64::MAX);
        Timestamp(system.saturating_add(self.shared.system_shift.load(Ordering::Relaxed)))
    }

    /// Sets the system's clock, as this clock and its clones see it, so many milliseconds ahead of what it shows, or back
    /// by a negative number of them. For tests: the machine's own clock is not touched.
    pub fn shift_system(&self, millis: i64) {
        self.shared.system_shift.fetch_add(millis.saturating_mul(1_000), Ordering::Relaxed);
    }

    fn read(&self, anchor: &mut Anchor) -> Timestamp {
        if self.shared.stands {
            return Timestamp(anchor.time);
        }
        let at = Instant::now();
        let (own, system) = (anchor.time_at(at), self.system().0);
        // Only where it is ahead: an anchor that moved with each reading would lose what the division to microseconds
        // cuts off.
        if system > own {
            if anchor.time > 0 && system - own >= LEAP_MICROS {
                self.shared.leaps.fetch_add(1, Ordering::Relaxed);
            }
            *anchor = Anchor { time: system, at };
        }
        Timestamp(system.max(own))
    }

    /// The anchor is whole at any time.
    fn anchor(&self) -> MutexGuard<'_, Anchor> {
        self.shared.anchor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A fresh id. Ids of one process rise with time; nothing may rely on it.
pub fn fresh_id() -> Uuid {
    Uuid::now_v7()
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR_MS: i64 = 365 * 24 * 3_600 * 1_000;

    /// Waits until the machine's monotonic clock has moved.
    fn a_moment() {
        let began = Instant::now();
        while began.elapsed().as_micros() < 50 {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_system_clock_that_is_set_back_does_not_stop_it() {
        let clock = Clock::default();
        let mut before = clock.now();
        for shift in [-YEAR_MS, -YEAR_MS, -100 * YEAR_MS, 3_600_000, -1] {
            clock.shift_system(shift);
            for _ in 0..3 {
                a_moment();
                let now = clock.now();
                assert!(now.0 >= before.0 + 50, "{shift}: {now:?} comes less than 50 us after {before:?}");
                assert!(now < before.plus_millis(60_000), "{shift}: {now:?} is far behind {before:?}");
                before = now;
            }
        }
    }

    #[test]
    fn a_system_clock_that_is_set_ahead_takes_it_along_and_does_not_bring_it_back() {
        let clock = Clock::default();
        let start = clock.now();
        clock.shift_system(YEAR_MS);
        let ahead = clock.now();
        assert!(ahead >= start.plus_millis(YEAR_MS));
        clock.shift_system(-YEAR_MS);
        a_moment();
        assert!(clock.now() > ahead);
    }

    #[test]
    fn it_goes_on_from_where_it_is_moved_to() {
        for clock in [Clock::default(), Clock::standing_at(Timestamp(7))] {
            let later = clock.now().plus_millis(YEAR_MS);
            clock.skip_to(later);
            assert!(clock.now() >= later);
            clock.skip_to(Timestamp(9));
            assert!(clock.now() >= later, "never back");
            clock.advance(1);
            assert!(clock.now() >= later.plus_millis(1));
        }
        let standing = Clock::standing_at(Timestamp(7));
        a_moment();
        assert_eq!(standing.now(), Timestamp(7));
    }

    #[test]
    fn many_readings_lose_no_time() {
        let clock = Clock::default();
        clock.shift_system(-YEAR_MS);
        let (first, began) = (clock.now(), Instant::now());
        let mut last = first;
        while began.elapsed().as_millis() < 5 {
            last = clock.now();
        }
        assert!(last.0 - first.0 >= 4_900, "{} us in 5 ms", last.0 - first.0);
    }
}
