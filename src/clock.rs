//! The clock and the source of ids. No other module reads the time or creates ids.

use crate::model::ids::MessageId;
use crate::model::time::Timestamp;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// Minimum difference that counts as a leap, in microseconds. The slewing of a clock stays far below it.
const LEAP_MICROS: i64 = 1_000_000;

/// A clock that never goes backwards and never stands still.
///
/// It advances with the machine's monotonic clock. The system's clock only moves it forward: setting the system's clock
/// back has no effect, so that a wait for an instant never has to wait until real time has caught up.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    anchor: Mutex<Anchor>,
    /// True for a test's clock, which moves only when it is advanced.
    is_fixed: bool,
    /// Number of leaps of the system's clock over the monotonic one: the machine slept, or its clock was set ahead.
    leaps: AtomicU64,
    /// Microseconds by which the clock that this one follows is ahead of the system's; negative for behind.
    system_shift: AtomicI64,
    /// True once another clock is followed in place of the system's.
    is_led: AtomicBool,
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
    /// A clock for tests that stands at this instant until it is advanced, so that tests do not depend on their speed.
    pub fn fixed_at(start: Timestamp) -> Self {
        let anchor = Mutex::new(Anchor { time: start.0, ..Anchor::default() });
        Self { shared: Arc::new(Shared { anchor, is_fixed: true, ..Shared::default() }) }
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        self.read(&mut self.anchor())
    }

    /// Continues from an instant, unless the clock is later already. A daemon continues from the newest instant in its
    /// store, and tests skip long waits.
    pub fn skip_to(&self, instant: Timestamp) {
        let mut anchor = self.anchor();
        if instant > self.read(&mut anchor) {
            *anchor = Anchor { time: instant.0, at: Instant::now() };
        }
    }

    /// Moves the clock and all its clones ahead by this number of milliseconds.
    pub fn advance(&self, millis: i64) {
        self.skip_to(self.now().plus_millis(millis));
    }

    /// Number of leaps so far: times of a second or more in which nothing of this process ran.
    pub fn leaps(&self) -> u64 {
        self.shared.leaps.load(Ordering::Relaxed)
    }

    /// The time of the system's clock, or of the one that is followed, right or wrong.
    pub fn system(&self) -> Timestamp {
        Timestamp(machine_micros().saturating_add(self.shared.system_shift.load(Ordering::Relaxed)))
    }

    /// Shifts the system's clock, as this clock and its clones see it, by this number of milliseconds; negative for
    /// back. For tests: the machine's own clock is not changed.
    pub fn shift_system(&self, millis: i64) {
        self.shared.system_shift.fetch_add(millis.saturating_mul(1_000), Ordering::Relaxed);
    }

    /// Asks another clock, and follows it from now on. An answer that took longer says too little about when it was true.
    pub async fn ask<E>(&self, other: impl Future<Output = Result<Timestamp, E>>, longest: Duration) -> Result<(), E> {
        let began = Instant::now();
        let said = other.await?;
        let took = began.elapsed();
        if took < longest {
            let since = i64::try_from(took.as_micros() / 2).unwrap_or_default();
            self.follow(Timestamp(said.0.saturating_add(since)));
        }
        Ok(())
    }

    /// Follows another clock from now on, which says this, in place of the system's. The first time it may set this one
    /// back, since nothing has its time yet.
    fn follow(&self, other: Timestamp) {
        let mut anchor = self.anchor();
        let shift = other.0.saturating_sub(machine_micros());
        self.shared.system_shift.store(shift, Ordering::Relaxed);
        if !self.shared.is_led.swap(true, Ordering::Relaxed) && !self.shared.is_fixed {
            *anchor = Anchor { time: other.0, at: Instant::now() };
        }
    }

    fn read(&self, anchor: &mut Anchor) -> Timestamp {
        if self.shared.is_fixed {
            return Timestamp(anchor.time);
        }
        let at = Instant::now();
        let (own, system) = (anchor.time_at(at), self.system().0);
        // The anchor moves only if the system's clock is ahead: moving it with each reading would lose the fractions of
        // microseconds.
        if system > own {
            if anchor.time > 0 && system - own >= LEAP_MICROS {
                self.shared.leaps.fetch_add(1, Ordering::Relaxed);
            }
            *anchor = Anchor { time: system, at };
        }
        Timestamp(system.max(own))
    }

    /// The anchor is consistent at any time, so a poisoned lock does no harm.
    fn anchor(&self) -> MutexGuard<'_, Anchor> {
        self.shared.anchor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The machine's clock.
fn machine_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    i64::try_from(since).unwrap_or(i64::MAX)
}

/// A new id. Ids of one process rise with time; nothing may rely on it.
pub fn fresh_id() -> Uuid {
    Uuid::now_v7()
}

/// The id of a new message.
pub fn fresh_message_id() -> MessageId {
    MessageId::from_fresh(fresh_id())
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
    fn a_clock_that_is_followed_sets_it_once_and_then_only_ahead() {
        let clock = Clock::default();
        let before = clock.now();
        clock.follow(before.plus_millis(-YEAR_MS));
        let behind = clock.now();
        assert!(behind < before.plus_millis(60_000 - YEAR_MS), "{behind:?}");
        clock.follow(behind.plus_millis(YEAR_MS));
        let ahead = clock.now();
        assert!(ahead >= behind.plus_millis(YEAR_MS) && ahead < behind.plus_millis(YEAR_MS + 60_000), "{ahead:?}");
        clock.follow(behind);
        assert!(clock.now() >= ahead, "never back");
        assert!(clock.system() < ahead);
        let fixed = Clock::fixed_at(Timestamp(7));
        fixed.follow(behind);
        assert_eq!(fixed.now(), Timestamp(7));
    }

    #[test]
    fn it_goes_on_from_where_it_is_moved_to() {
        for clock in [Clock::default(), Clock::fixed_at(Timestamp(7))] {
            let later = clock.now().plus_millis(YEAR_MS);
            clock.skip_to(later);
            assert!(clock.now() >= later);
            clock.skip_to(Timestamp(9));
            assert!(clock.now() >= later, "never back");
            clock.advance(1);
            assert!(clock.now() >= later.plus_millis(1));
        }
        let clock = Clock::fixed_at(Timestamp(7));
        a_moment();
        assert_eq!(clock.now(), Timestamp(7));
    }

    #[test]
    fn repeated_readings_lose_no_time() {
        let clock = Clock::default();
        clock.shift_system(-YEAR_MS);
        let (first, began) = (clock.now(), Instant::now());
        let (mut last, mut passed) = (first, Duration::ZERO);
        while passed.as_millis() < 5 {
            // In this order, since the test may be interrupted between the two.
            passed = began.elapsed();
            last = clock.now();
        }
        let (measured, passed) = (u128::try_from(last.0 - first.0).expect("it advances"), passed.as_micros());
        assert!(measured + 100 >= passed, "{measured} of {passed} us");
    }
}
