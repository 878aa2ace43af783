//! What is known of the time, from a system clock that may be wrong and a monotonic one that nobody sets.

use crate::limits;
use crate::model::dating::{ClockSegment, Dating};
use crate::model::time::Timestamp;

/// Minimum difference that counts as a leap, in microseconds. The slewing of a clock stays far below it.
const LEAP_MICROS: i64 = 1_000_000;
/// Leaps of the times of events that are kept until the clock is confirmed.
const LEAPS_KEPT: usize = 64;

/// A time at an instant of the monotonic clock, both in microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Anchor {
    pub(super) time: i64,
    pub(super) at: i64,
}

impl Anchor {
    /// The time at an instant, if both clocks go on together.
    pub(super) fn time_at(&self, at: i64) -> i64 {
        self.time.saturating_add(at.saturating_sub(self.at))
    }
}

/// The times that this process knows at an instant.
///
/// - The *present* is what the system's clock says, except for a leap that has not lasted yet
///   ([`limits::CLOCK_BELIEVED_MS`]).
/// - The *time of events* follows the present, and never goes back.
/// - The *proven time* is what the monotonic clock explains since the system's clock was last confirmed: it had gone on
///   with the monotonic one for [`limits::CLOCK_CONFIRMED_MS`].
#[derive(Debug, Default)]
pub(super) struct Times {
    events: Anchor,
    present: Anchor,
    proven: Anchor,
    /// True once this process has confirmed the system's clock.
    is_proven: bool,
    /// The newest reading of the system's clock.
    system: Option<Anchor>,
    /// The instant since which it agrees with the monotonic clock.
    agreed_since: i64,
    /// The times of events at their leaps since the clock was last confirmed.
    leaps: Vec<Anchor>,
    /// What was confirmed.
    dating: Dating,
    /// Microseconds that the machine has slept.
    slept: Option<i64>,
    /// Times of a second or more in which nothing of this process ran, or seemed to run.
    gaps: u64,
}

impl Times {
    /// Takes a reading of the system's clock at an instant, and of the time that the machine has slept until then.
    pub(super) fn add_reading(&mut self, at: i64, system: i64, slept: i64) {
        let expected = self.system.map(|before| before.time_at(at));
        self.system = Some(Anchor { time: system, at });
        if expected.is_none_or(|expected| (system - expected).abs() >= LEAP_MICROS) {
            self.agreed_since = at;
            if let Some(expected) = expected {
                let [from, to] = [expected, system].map(|time| Timestamp(time).to_iso_8601());
                tracing::warn!(from, to, "the system's clock leapt: nothing is erased by it until it is confirmed");
            }
        }
        let agreed = at - self.agreed_since;
        let is_proven = self.prove(at, system, agreed);
        self.follow(at, system, agreed, expected.is_none());
        if is_proven {
            self.date(at);
        }
        let before = self.slept.replace(slept).unwrap_or(slept);
        self.gaps += u64::from(slept - before >= LEAP_MICROS);
    }

    /// True if the system's clock is confirmed at this instant.
    fn prove(&mut self, at: i64, system: i64, agreed: i64) -> bool {
        let proven = self.proven.time_at(at);
        let is_near = self.is_proven && (system - proven).abs() < LEAP_MICROS;
        if agreed < limits::CLOCK_CONFIRMED_MS * 1_000 {
            return is_near;
        }
        if !is_near {
            tracing::info!(time = Timestamp(system).to_iso_8601(), "the system's clock is confirmed");
        }
        (self.proven, self.is_proven) = (Anchor { time: system, at }, true);
        true
    }

    /// Lets the present follow the system's clock, and event times the present.
    fn follow(&mut self, at: i64, system: i64, agreed: i64, is_first: bool) {
        let proven = self.proven.time_at(at);
        let lasts = is_first || agreed >= limits::CLOCK_BELIEVED_MS * 1_000;
        let present =
            if lasts || system - proven < LEAP_MICROS { system.max(proven) } else { self.present.time_at(at) };
        self.present = Anchor { time: present, at };
        // The anchor moves only if the present is ahead: moving it with each reading would lose fractions of microseconds.
        if present > self.events.time_at(at) {
            self.move_events(Anchor { time: present, at }, is_first);
        }
    }

    fn move_events(&mut self, to: Anchor, is_first: bool) {
        if to.time - self.events.time_at(to.at) >= LEAP_MICROS {
            self.gaps += u64::from(!is_first);
            if self.leaps.len() >= LEAPS_KEPT {
                self.leaps.remove(0);
            }
            self.leaps.push(to);
        }
        self.events = to;
    }

    /// Dates the times of events since the clock was last confirmed, by what the monotonic clock says of them.
    fn date(&mut self, at: i64) {
        let now = self.proven.time_at(at);
        for (number, leap) in self.leaps.iter().enumerate() {
            let end = self.leaps.get(number + 1).map_or(at, |next| next.at);
            let confirmed_time = Timestamp(now.saturating_sub(at - leap.at));
            self.dating.add(ClockSegment { event_time: Timestamp(leap.time), confirmed_time, micros: end - leap.at });
        }
        self.leaps.clear();
        self.leaps.push(Anchor { time: self.events.time_at(at), at });
    }

    pub(super) fn event_time(&self, at: i64) -> Timestamp {
        Timestamp(self.events.time_at(at))
    }

    /// Moves event times ahead to this one, never back.
    pub(super) fn skip_to(&mut self, time: Timestamp, at: i64) {
        if time.0 > self.events.time_at(at) {
            self.move_events(Anchor { time: time.0, at }, true);
        }
    }

    pub(super) fn present(&self, at: i64) -> Timestamp {
        Timestamp(self.present.time_at(at))
    }

    /// The time that is certain to have come: proven, and not denied by the system's clock.
    pub(super) fn certain(&self, at: i64) -> Timestamp {
        let proven = self.proven.time_at(at);
        Timestamp(self.system.map_or(proven, |system| proven.min(system.time_at(at))))
    }

    /// True while the system's clock says what was proven.
    pub(super) fn is_confirmed(&self, at: i64) -> bool {
        let system = self.system.map_or(0, |system| system.time_at(at));
        self.is_proven && (system - self.proven.time_at(at)).abs() < LEAP_MICROS
    }

    /// Believes a time that an earlier process has confirmed.
    pub(super) fn believe(&mut self, time: Timestamp, at: i64) {
        self.proven = Anchor { time: self.proven.time_at(at).max(time.0), at };
        self.present = Anchor { time: self.present.time_at(at).max(time.0), at };
    }

    /// What this process has confirmed.
    pub(super) fn dating(&self) -> &Dating {
        &self.dating
    }

    /// The number of times of a second or more in which nothing of this process ran, or seemed to run.
    pub(super) fn gaps(&self) -> u64 {
        self.gaps
    }
}
