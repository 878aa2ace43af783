//! What the service does next.

use crate::model::Seq;

/// What the service knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State {
    /// The newest event of the log that it heard of.
    pub head: Seq,
    /// The newest event that is in the index.
    pub indexed: Seq,
    /// Failures in a row.
    pub failures: u32,
    /// True while it waits before it tries again.
    pub is_waiting: bool,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// The log has an event with this number.
    Head(Seq),
    /// A stretch of the log is in the index, up to this event.
    Indexed(Seq),
    /// The index or the log could not be read or written.
    Failed,
    /// The index is damaged.
    Damaged,
    /// The index was made anew, and is empty up to this event.
    Rebuilt(Seq),
    /// The wait is over.
    Waited,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Index the next stretch of the log.
    Index,
    /// Throw the index away, and make a new one.
    Rebuild,
    /// Try again after this many times the shortest delay.
    Wait(u32),
}

/// The longest wait, in shortest delays.
const DELAYS_MAX: u32 = 64;

/// What follows from what happened; none if there is nothing to do until something else happens.
pub fn step(state: &mut State, input: Input) -> Option<Effect> {
    match input {
        Input::Head(head) => state.head = state.head.max(head),
        Input::Indexed(seq) => {
            state.indexed = seq;
            state.failures = 0;
        }
        Input::Rebuilt(seq) => {
            state.indexed = seq;
            state.is_waiting = false;
        }
        Input::Waited => state.is_waiting = false,
        Input::Failed | Input::Damaged => {
            state.failures = state.failures.saturating_add(1);
            // One that is damaged again at once is not made anew without end.
            if input == Input::Damaged && state.failures == 1 {
                return Some(Effect::Rebuild);
            }
            state.is_waiting = true;
            let delays = 1_u32.checked_shl(state.failures - 1).unwrap_or(DELAYS_MAX);
            return Some(Effect::Wait(delays.min(DELAYS_MAX)));
        }
    }
    (!state.is_waiting && state.indexed < state.head).then_some(Effect::Index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_indexes_until_it_has_the_head() {
        let mut state = State::default();
        assert_eq!(step(&mut state, Input::Head(0)), None);
        assert_eq!(step(&mut state, Input::Head(300)), Some(Effect::Index));
        assert_eq!(step(&mut state, Input::Indexed(256)), Some(Effect::Index));
        assert_eq!(step(&mut state, Input::Head(200)), Some(Effect::Index), "the head never falls");
        assert_eq!(step(&mut state, Input::Indexed(300)), None);
    }

    #[test]
    fn failures_are_tried_again_at_growing_intervals() {
        let mut state = State { head: 9, ..State::default() };
        for delays in [1, 2, 4, 8, 16, 32, 64, 64] {
            assert_eq!(step(&mut state, Input::Failed), Some(Effect::Wait(delays)));
            assert_eq!(step(&mut state, Input::Head(10)), None, "new events do not end the wait");
            assert_eq!(step(&mut state, Input::Waited), Some(Effect::Index));
        }
        assert_eq!(step(&mut state, Input::Indexed(5)), Some(Effect::Index));
        assert_eq!(step(&mut state, Input::Failed), Some(Effect::Wait(1)), "counted from the last success");
    }

    #[test]
    fn a_damaged_index_is_made_anew_once() {
        let mut state = State { head: 9, indexed: 7, ..State::default() };
        assert_eq!(step(&mut state, Input::Damaged), Some(Effect::Rebuild));
        assert_eq!(step(&mut state, Input::Rebuilt(0)), Some(Effect::Index));
        assert_eq!(step(&mut state, Input::Damaged), Some(Effect::Wait(2)), "nothing was indexed in between");
        assert_eq!(step(&mut state, Input::Waited), Some(Effect::Index));
        assert_eq!(step(&mut state, Input::Indexed(9)), None);
        assert_eq!(step(&mut state, Input::Damaged), Some(Effect::Rebuild));
    }
}
