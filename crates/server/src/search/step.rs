//! What the service does next.

use super::pace::pause;
use crate::model::Seq;
use std::time::Duration;

/// What the service knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexingState {
    /// The newest event of the log that it heard of.
    pub head: Seq,
    /// The newest event that is in the index.
    pub indexed: Seq,
    /// The newest event that a search waited for.
    pub asked: Seq,
    /// Failures in a row.
    pub failures: u32,
    /// True while it waits before it tries again.
    pub is_waiting: bool,
    /// True while it leaves the processors to others.
    pub is_pausing: bool,
    /// True while it takes what processors it can get: the log rests, or a search waits.
    pub is_behind: bool,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// The log has an event with this number.
    Head(Seq),
    /// A page of the log is in the index.
    Indexed {
        /// Its last event.
        seq: Seq,
        /// The newest event of the log by then.
        head: Seq,
        /// The time that it took.
        spent: Duration,
    },
    /// A search waits for this event, which is in the log.
    Asked(Seq),
    /// The pause is over, and the log has an event with this number.
    Paused(Seq),
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
    /// Index the next page of the log.
    Index,
    /// Throw the index away, and make a new one.
    Rebuild,
    /// Try again after this many times the shortest delay.
    Wait(u32),
    /// Leave the processors to others for this time, or until the log rests.
    Pause(Duration),
}

/// The longest wait, in shortest delays.
const DELAYS_MAX: u32 = 64;

/// What follows from what happened; none if there is nothing to do until something else happens.
pub fn step(state: &mut IndexingState, input: Input) -> Option<Effect> {
    match input {
        Input::Head(head) => state.head = state.head.max(head),
        Input::Indexed { seq, head, spent } => {
            let is_resting = head <= state.head;
            state.head = state.head.max(head);
            state.indexed = seq;
            state.failures = 0;
            let left = state.head - seq;
            // A log that rests leaves the processors free for what is left, and a search that waits is served.
            state.is_behind = seq < state.asked || left > 0 && is_resting;
            if !state.is_behind {
                state.is_pausing = true;
                return Some(Effect::Pause(pause(spent, left)));
            }
        }
        Input::Asked(seq) => {
            state.head = state.head.max(seq);
            state.asked = state.asked.max(seq);
            if state.asked > state.indexed {
                (state.is_pausing, state.is_behind) = (false, true);
            }
        }
        Input::Paused(head) => {
            state.head = state.head.max(head);
            state.is_pausing = false;
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
    (!state.is_waiting && !state.is_pausing && state.indexed < state.head).then_some(Effect::Index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indexed(seq: Seq, head: Seq) -> Input {
        Input::Indexed { seq, head, spent: Duration::from_millis(20) }
    }

    const PAUSE: Option<Effect> = Some(Effect::Pause(Duration::from_millis(380)));

    #[test]
    fn it_indexes_until_it_has_the_head() {
        let mut state = IndexingState::default();
        assert_eq!(step(&mut state, Input::Head(0)), None);
        assert_eq!(step(&mut state, Input::Head(300)), Some(Effect::Index));
        assert_eq!(step(&mut state, indexed(256, 300)), Some(Effect::Index));
        assert_eq!(step(&mut state, Input::Head(200)), Some(Effect::Index), "the head never falls");
        assert_eq!(step(&mut state, indexed(300, 300)), PAUSE, "what comes next gathers");
        assert_eq!(step(&mut state, Input::Paused(300)), None);
        assert_eq!(step(&mut state, Input::Head(301)), Some(Effect::Index));
    }

    #[test]
    fn it_pauses_while_the_log_grows_and_goes_on_when_it_rests() {
        let mut state = IndexingState::default();
        assert_eq!(step(&mut state, Input::Head(3_000)), Some(Effect::Index));
        assert_eq!(step(&mut state, indexed(1_000, 3_001)), PAUSE);
        assert_eq!(step(&mut state, Input::Head(3_002)), None, "new events do not end the pause");
        assert_eq!(step(&mut state, Input::Paused(4_000)), Some(Effect::Index));
        assert!(!state.is_behind, "others write");
        assert_eq!(step(&mut state, indexed(2_000, 4_000)), Some(Effect::Index), "nothing came meanwhile");
        assert!(state.is_behind);
        assert_eq!(step(&mut state, indexed(3_000, 4_001)), PAUSE);
        assert!(!state.is_behind);
    }

    #[test]
    fn a_search_that_waits_ends_the_pause() {
        let mut state = IndexingState { head: 3_000, ..IndexingState::default() };
        assert_eq!(step(&mut state, indexed(1_000, 3_500)), PAUSE);
        assert_eq!(step(&mut state, Input::Asked(900)), None, "it is there");
        assert!(!state.is_behind);
        assert_eq!(step(&mut state, Input::Asked(2_500)), Some(Effect::Index));
        assert!(state.is_behind, "somebody waits");
        assert_eq!(step(&mut state, indexed(2_000, 4_000)), Some(Effect::Index));
        assert_eq!(step(&mut state, Input::Asked(2_100)), Some(Effect::Index), "the furthest counts");
        assert_eq!(step(&mut state, indexed(3_000, 4_500)), PAUSE, "nobody waits for the rest");
        step(&mut state, Input::Failed);
        assert_eq!(step(&mut state, Input::Asked(4_000)), None, "nor does it end the wait after a failure");
    }

    #[test]
    fn failures_are_tried_again_at_growing_intervals() {
        let mut state = IndexingState { head: 9, ..IndexingState::default() };
        for delays in [1, 2, 4, 8, 16, 32, 64, 64] {
            assert_eq!(step(&mut state, Input::Failed), Some(Effect::Wait(delays)));
            assert_eq!(step(&mut state, Input::Head(10)), None, "new events do not end the wait");
            assert_eq!(step(&mut state, Input::Waited), Some(Effect::Index));
        }
        assert_eq!(step(&mut state, indexed(5, 10)), Some(Effect::Index));
        assert_eq!(step(&mut state, Input::Failed), Some(Effect::Wait(1)), "counted from the last success");
    }

    #[test]
    fn a_damaged_index_is_made_anew_once() {
        let mut state = IndexingState { head: 9, indexed: 7, ..IndexingState::default() };
        assert_eq!(step(&mut state, Input::Damaged), Some(Effect::Rebuild));
        assert_eq!(step(&mut state, Input::Rebuilt(0)), Some(Effect::Index));
        assert_eq!(step(&mut state, Input::Damaged), Some(Effect::Wait(2)), "nothing was indexed in between");
        assert_eq!(step(&mut state, Input::Waited), Some(Effect::Index));
        assert_eq!(step(&mut state, indexed(9, 9)), PAUSE);
        assert_eq!(step(&mut state, Input::Damaged), Some(Effect::Rebuild));
    }
}
