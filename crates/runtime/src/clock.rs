//! The clock and the source of ids. No other module reads the time or creates ids.

#[cfg(test)]
#[path = "../tests/unit/clock_laws.rs"]
mod laws;
mod times;

use crate::model::dating::Dating;
use crate::model::ids::MessageId;
use crate::model::time::Timestamp;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use times::{Anchor, Times};
use uuid::Uuid;

/// Attempts to read both clocks at the same instant: the process may be interrupted in between.
const READINGS_MAX: u32 = 4;
/// The longest time between two readings that are at the same instant, in microseconds.
const INSTANT_MICROS: i64 = 1_000;

/// A clock whose event times always rise, whatever the system's clock does. It also knows how much of the time is
/// proven.
///
/// It advances with the machine's monotonic clock, which goes on while the machine sleeps. Event times follow a system
/// clock that was set ahead, once the leap has lasted. They ignore one that was set back: otherwise a wait for an
/// instant would last until real time has caught up.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    shared: Arc<SharedClock>,
}

#[derive(Debug, Default)]
struct SharedClock {
    state: Mutex<State>,
    /// The begin of a test's clock, which moves only when it is advanced.
    fixed: Option<i64>,
    /// Microseconds that passed besides, in a test.
    passed: AtomicI64,
    /// Microseconds for which the machine slept besides, in a test.
    slept: AtomicI64,
    /// Microseconds by which the system's clock is shifted, in a test.
    shift: AtomicI64,
}

#[derive(Debug, Default)]
struct State {
    times: Times,
    /// The newest reading of a clock that replaces the system's.
    led: Option<Anchor>,
}

/// The state of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockState {
    /// The present, as far as it is believed.
    pub present: Timestamp,
    /// The time that the next event gets: ahead of the present for as long as the system's clock was.
    pub event_time: Timestamp,
    /// The time that has certainly come: retention erases by it.
    pub certain: Timestamp,
    /// What the system's clock says, or the one that is followed.
    pub system: Timestamp,
    /// True if the system's clock is confirmed.
    pub is_confirmed: bool,
}

impl Clock {
    /// A clock for tests that stands at this instant until it is advanced, so that tests do not depend on their speed.
    pub fn fixed_at(start: Timestamp) -> Self {
        Self { shared: Arc::new(SharedClock { fixed: Some(start.0), ..SharedClock::default() }) }
    }

    /// The time of events: never earlier than before.
    pub fn now(&self) -> Timestamp {
        let (state, at) = self.read_both();
        state.times.event_time(at)
    }

    /// The present, for instants that people or other programs have named. It goes back when a wrong system clock is
    /// set right.
    pub fn present(&self) -> Timestamp {
        let (state, at) = self.read_both();
        state.times.present(at)
    }

    /// The time that has certainly come: retention erases by it.
    pub fn certain(&self) -> Timestamp {
        let (state, at) = self.read_both();
        state.times.certain(at)
    }

    /// The same time, with the times of events as this process has seen them confirmed, and true if the clock is confirmed.
    pub fn dated(&self) -> (Timestamp, Dating, bool) {
        let (state, at) = self.read_both();
        (state.times.certain(at), state.times.dating().clone(), state.times.is_confirmed(at))
    }

    /// The state of the clock.
    pub fn state(&self) -> ClockState {
        let (state, at) = self.read_both();
        ClockState {
            present: state.times.present(at),
            event_time: state.times.event_time(at),
            certain: state.times.certain(at),
            system: Timestamp(self.system_at(&state, at)),
            is_confirmed: state.times.is_confirmed(at),
        }
    }

    /// Moves event times ahead to an instant, never back. A daemon continues from the newest instant in its store, and
    /// tests skip long waits.
    pub fn skip_to(&self, instant: Timestamp) {
        let (mut state, at) = self.read_both();
        state.times.skip_to(instant, at);
    }

    /// Believes that an instant has come, which an earlier process has confirmed.
    pub fn believe(&self, instant: Timestamp) {
        let (mut state, at) = self.read_both();
        state.times.believe(instant, at);
    }

    /// Has this number of milliseconds pass for the clock and all its clones. For tests.
    pub fn advance(&self, millis: i64) {
        self.shared.passed.fetch_add(millis.saturating_mul(1_000), Ordering::Relaxed);
    }

    /// Has this number of milliseconds pass in which the machine slept. For tests.
    pub fn suspend(&self, millis: i64) {
        self.shared.slept.fetch_add(millis.saturating_mul(1_000), Ordering::Relaxed);
        self.advance(millis);
    }

    /// Number of times of a second or more in which nothing of this process ran, or seemed to run.
    pub fn leaps(&self) -> u64 {
        self.read_both().0.times.gaps()
    }

    /// The time of the system's clock, or of the one that is followed, right or wrong.
    pub fn system(&self) -> Timestamp {
        let state = self.state_lock();
        Timestamp(self.system_at(&state, self.instant()))
    }

    /// Shifts the system's clock, as this clock and its clones see it, by this number of milliseconds; negative for
    /// back. For tests: the machine's own clock is not changed.
    pub fn shift_system(&self, millis: i64) {
        self.shared.shift.fetch_add(millis.saturating_mul(1_000), Ordering::Relaxed);
    }

    /// Asks another clock, and follows it from now on. A slower answer is ignored: nobody knows when it was true.
    pub async fn ask<E>(&self, other: impl Future<Output = Result<Timestamp, E>>, longest: Duration) -> Result<(), E> {
        let began = self.instant();
        let said = other.await?;
        let took = self.instant() - began;
        if took < i64::try_from(longest.as_micros()).unwrap_or(i64::MAX) {
            self.follow(Timestamp(said.0.saturating_add(took / 2)));
        }
        Ok(())
    }

    /// Follows another clock instead of the system's from now on. The first reading may set this clock back, since
    /// nothing has a time of it yet.
    fn follow(&self, other: Timestamp) {
        if self.shared.fixed.is_some() {
            return;
        }
        let mut state = self.state_lock();
        if state.led.is_none() {
            state.times = Times::default();
        }
        state.led = Some(Anchor { time: other.0, at: self.instant() });
    }

    fn read_both(&self) -> (MutexGuard<'_, State>, i64) {
        let mut state = self.state_lock();
        let mut at = self.instant();
        let mut system = self.system_at(&state, at);
        for _ in 1..READINGS_MAX {
            let behind = self.instant();
            if behind - at < INSTANT_MICROS {
                break;
            }
            at = behind;
            system = self.system_at(&state, at);
        }
        let slept = self.shared.slept.load(Ordering::Relaxed).saturating_add(match self.shared.fixed {
            Some(_) => 0,
            None => machine::slept(),
        });
        state.times.add_reading(at, system, slept);
        (state, at)
    }

    /// The instant of the monotonic clock.
    fn instant(&self) -> i64 {
        let passed = self.shared.passed.load(Ordering::Relaxed);
        passed.saturating_add(self.shared.fixed.map_or_else(machine::instant, |_| 0))
    }

    /// The time of the system's clock at an instant, or of the one that is followed.
    fn system_at(&self, state: &State, at: i64) -> i64 {
        let passed = self.shared.passed.load(Ordering::Relaxed);
        let own = match (state.led, self.shared.fixed) {
            (Some(led), _) => led.time_at(at),
            (None, Some(start)) => start.saturating_add(passed),
            (None, None) => machine::system().saturating_add(passed),
        };
        own.saturating_add(self.shared.shift.load(Ordering::Relaxed))
    }

    /// The state is consistent at any time, so a poisoned lock does no harm.
    fn state_lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The machine's clocks, in microseconds.
mod machine {
    use rustix::time::{ClockId, clock_gettime};
    use std::time::{SystemTime, UNIX_EPOCH};

    /// The clock that people and servers set.
    pub(super) fn system() -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
        i64::try_from(since).unwrap_or(i64::MAX)
    }

    fn micros(clock: ClockId) -> i64 {
        let now = clock_gettime(clock);
        now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
    }

    /// A clock that nobody sets, and that goes on while the machine sleeps.
    #[cfg(target_os = "linux")]
    pub(super) fn instant() -> i64 {
        micros(ClockId::Boottime)
    }

    /// Microseconds for which the machine has slept.
    #[cfg(target_os = "linux")]
    pub(super) fn slept() -> i64 {
        let awake = micros(ClockId::Monotonic);
        instant() - awake
    }

    /// A clock that nobody sets.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn instant() -> i64 {
        micros(ClockId::Monotonic)
    }

    /// A sleep looks like a leap of the system's clock here.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn slept() -> i64 {
        0
    }
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
    use crate::limits;
    use std::time::Instant;

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
    fn a_system_clock_that_is_set_ahead_takes_it_along_once_that_has_lasted() {
        let clock = Clock::default();
        let start = clock.now();
        clock.shift_system(YEAR_MS);
        clock.now();
        clock.advance(limits::CLOCK_BELIEVED_MS - 1_000);
        assert!(clock.now() < start.plus_millis(YEAR_MS) && clock.present() < start.plus_millis(YEAR_MS));
        assert_eq!(clock.leaps(), 0);
        clock.advance(1_000);
        let ahead = clock.now();
        assert!(ahead >= start.plus_millis(YEAR_MS) && clock.present() >= start.plus_millis(YEAR_MS));
        assert_eq!(clock.leaps(), 1, "who waits for clients gives them their time again");
        clock.shift_system(-YEAR_MS);
        clock.now();
        clock.advance(limits::CLOCK_BELIEVED_MS);
        assert!(clock.now() > ahead, "never back");
        assert!(clock.present() < start.plus_millis(YEAR_MS), "the present is");
    }

    #[test]
    fn a_sleep_of_the_machine_is_time_in_which_nothing_ran_and_no_leap() {
        let clock = Clock::default();
        let start = clock.now();
        clock.suspend(YEAR_MS);
        assert!(clock.now() >= start.plus_millis(YEAR_MS) && clock.present() >= start.plus_millis(YEAR_MS));
        assert_eq!(clock.leaps(), 1);
        assert!(clock.certain() >= start.plus_millis(YEAR_MS) && clock.state().is_confirmed);
    }

    #[test]
    fn a_clock_that_is_followed_sets_it_once_and_then_only_ahead() {
        let clock = Clock::default();
        let before = clock.now();
        clock.follow(before.plus_millis(-YEAR_MS));
        let behind = clock.now();
        assert!(behind < before.plus_millis(60_000 - YEAR_MS), "{behind:?}");
        clock.follow(behind.plus_millis(YEAR_MS));
        clock.now();
        clock.advance(limits::CLOCK_BELIEVED_MS);
        let ahead = clock.now();
        assert!(ahead >= behind.plus_millis(YEAR_MS) && ahead < behind.plus_millis(YEAR_MS + 120_000), "{ahead:?}");
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
        clock.now();
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
