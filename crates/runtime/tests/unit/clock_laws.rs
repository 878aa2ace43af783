//! What holds under any schedule of a system clock that is wrong for less than an hour, sleeps, restarts and appends,
//! against a model that knows the true time.

use super::times::Times;
use crate::limits::{CLOCK_BELIEVED_MS, CLOCK_CONFIRMED_MS};
use crate::model::dating::{ClockSegment, Dating};
use crate::model::time::Timestamp;
use proptest::prelude::*;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
/// What counts as no difference: leaps below a second are not seen, and some of them may add up.
const SLACK: i64 = 4 * SECOND;
/// The longest time between two readings while the process has something to do.
const READING: i64 = 15 * SECOND;
/// The longest time for which the clock is wrong.
const WRONG: i64 = CLOCK_CONFIRMED_MS * 1_000 - 100 * SECOND;

#[derive(Debug, Clone)]
enum Action {
    /// Time passes, with readings.
    Work(i64),
    /// Time passes without one.
    Rest(i64),
    /// The machine sleeps.
    Sleep(i64),
    /// The system's clock is set to be wrong by this, or right by zero.
    Set(i64),
    /// The daemon is off for a time.
    Restart(i64),
    /// A session is written.
    Write,
    /// A pass of retention.
    Retain,
}

fn action() -> impl Strategy<Value = Action> {
    let any_time = || prop_oneof![1..200 * SECOND, 1..3 * 3_600 * SECOND, 1..40 * DAY];
    let wrong = prop_oneof![Just(0), 1..3 * SECOND, -400 * DAY..400 * DAY];
    prop_oneof![
        3 => (1..3 * 3_600 * SECOND).prop_map(Action::Work),
        2 => any_time().prop_map(Action::Rest),
        1 => any_time().prop_map(Action::Sleep),
        3 => wrong.prop_map(Action::Set),
        1 => any_time().prop_map(Action::Restart),
        4 => Just(Action::Write),
        4 => Just(Action::Retain),
    ]
}

struct WrittenEvent {
    /// The time that its event got.
    event_time: Timestamp,
    /// The true time.
    time: i64,
    run: u32,
    /// The begin of the first run behind it that was confirmed.
    seen: Option<i64>,
    /// True if the clock was behind in a run that was not confirmed before it ended: it looks like a machine that was off.
    is_lost: bool,
}

struct World {
    /// The true time.
    now: i64,
    /// What the system's clock is wrong by, and since when.
    wrong: (i64, i64),
    /// What the newest reading was wrong by, and the first one that was.
    steady: (i64, i64),
    instant: i64,
    slept: i64,
    times: Times,
    /// The begin of this run of the daemon, its number, and true if it was confirmed and has kept that.
    run: (i64, u32, bool),
    stored: Dating,
    written: Vec<WrittenEvent>,
}

impl World {
    fn new() -> Self {
        let now = 1_800_000_000 * SECOND;
        let mut world = Self {
            now,
            wrong: (0, now),
            steady: (0, now),
            instant: 77 * DAY,
            slept: 0,
            times: Times::default(),
            run: (now, 0, false),
            stored: Dating::default(),
            written: Vec::new(),
        };
        world.read();
        world
    }

    fn read(&mut self) {
        self.times.add_reading(self.instant, self.now + self.wrong.0, self.slept);
        if self.steady.0 != self.wrong.0 {
            self.steady = (self.wrong.0, self.now);
        }
        let certain = self.times.certain(self.instant).0;
        assert!(certain <= self.now + SLACK, "a time is certain that has not come");
        if self.wrong.0 == 0 && self.now - self.steady.1.max(self.run.0) > CLOCK_BELIEVED_MS * 1_000 + READING {
            let present = self.times.present(self.instant).0;
            assert!((present - self.now).abs() <= SLACK, "the present is not found again: {}", present - self.now);
        }
    }

    /// Has time pass, in which a clock that is wrong is set right in time.
    fn pass(&mut self, micros: i64, runs: bool, step: i64) {
        let mut left = micros;
        while left > 0 {
            let of_wrong = if self.wrong.0 == 0 { i64::MAX } else { self.wrong.1 + WRONG - self.now };
            let passed = left.min(step).min(of_wrong.max(1));
            let before = self.times.event_time(self.instant).0;
            (self.now, self.instant, left) = (self.now + passed, self.instant + passed, left - passed);
            if passed >= of_wrong {
                self.set(0);
            }
            if runs {
                self.read();
                assert!(
                    self.times.event_time(self.instant).0 >= before + passed,
                    "a wait takes longer than it is long"
                );
            }
        }
    }

    fn set(&mut self, wrong: i64) {
        if wrong != self.wrong.0 {
            let since = if self.wrong.0 == 0 { self.now } else { self.wrong.1 };
            self.wrong = (wrong, since);
        }
    }

    fn restart(&mut self, off: i64) {
        let (_, run, is_kept) = self.run;
        self.written.iter_mut().filter(|written| written.run == run).for_each(|written| {
            written.is_lost |= !is_kept && written.event_time.0 < written.time - SLACK;
        });
        self.pass(off, false, i64::MAX);
        self.run = (self.now, run + 1, false);
        self.times = Times::default();
        self.read();
        let newest = self.written.last().map_or(Timestamp(0), |newest| newest.event_time);
        let last = self.stored.segments().last();
        let known = last.map_or(Timestamp(0), ClockSegment::event_end);
        self.times.skip_to(Timestamp(newest.max(known).0 + 1), self.instant);
        if let Some(last) = last {
            self.times.believe(last.confirmed_end(), self.instant);
        }
        self.read();
    }

    fn write(&mut self) {
        self.read();
        let event_time = self.times.event_time(self.instant);
        assert!(self.written.last().is_none_or(|before| before.event_time <= event_time), "times go back");
        self.written.push(WrittenEvent { event_time, time: self.now, run: self.run.1, seen: None, is_lost: false });
    }

    fn retain(&mut self) {
        self.read();
        self.stored.join(self.times.dating());
        let is_confirmed = self.times.is_confirmed(self.instant);
        let certain = self.times.certain(self.instant).0;
        self.run.2 |= is_confirmed;
        for written in self.written.iter_mut().filter(|written| !written.is_lost) {
            let age = certain - self.stored.date(written.event_time).0;
            assert!(
                age <= self.now - written.time + SLACK,
                "it would go {} s early",
                (age - self.now + written.time) / SECOND
            );
            if is_confirmed {
                let seen = *written.seen.get_or_insert(written.time.max(self.run.0));
                assert!(age >= self.now - seen - SLACK, "it would go {} s late", (self.now - seen - age) / SECOND);
            }
        }
        let is_steady = self.now - self.steady.1.max(self.run.0) > CLOCK_CONFIRMED_MS * 1_000 + READING;
        assert!(is_confirmed || !is_steady || self.wrong.0 != 0, "the clock is not confirmed again");
    }
}

proptest! {
    #[test]
    fn nothing_goes_early_and_everything_goes_within_an_hour(actions in prop::collection::vec(action(), 1..60)) {
        let mut world = World::new();
        for action in actions {
            match action {
                Action::Work(micros) => world.pass(micros, true, READING),
                Action::Rest(micros) => world.pass(micros, true, i64::MAX),
                Action::Sleep(micros) => {
                    world.slept += micros;
                    world.pass(micros, true, i64::MAX);
                }
                Action::Set(wrong) => world.set(wrong),
                Action::Restart(off) => world.restart(off),
                Action::Write => world.write(),
                Action::Retain => world.retain(),
            }
        }
        world.pass(2 * CLOCK_CONFIRMED_MS * 1_000, true, READING);
        world.retain();
    }
}
