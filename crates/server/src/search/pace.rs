//! The pace at which the index is filled: its share of a processor while others write.

use crate::limits;
use crate::model::Seq;
use std::time::Duration;

/// The pause after a page of the log that took a time, with a number of events left to index.
///
/// While the index keeps up, the pauses leave it `SEARCH_SHARE` percent of the time of one processor. The share grows
/// with what is left, up to `SEARCH_SHARE_MAX`. No pause is shorter than the one in which small commits gather.
pub(super) fn pause(spent: Duration, left: Seq) -> Duration {
    let steps = u32::try_from(left.max(0) / limits::SEARCH_SHARE_EVENTS).unwrap_or(u32::MAX);
    let share = limits::SEARCH_SHARE.saturating_mul(steps.saturating_add(1)).min(limits::SEARCH_SHARE_MAX);
    let pause = spent.saturating_mul(100 - share) / share;
    pause.clamp(Duration::from_millis(limits::SEARCH_GATHER_MS), Duration::from_millis(limits::SEARCH_PAUSE_MS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_leave_a_share_that_grows_with_what_is_left() {
        let ms = Duration::from_millis;
        for (spent, left, expected) in [
            (0, 0, limits::SEARCH_GATHER_MS),
            (1, 10, limits::SEARCH_GATHER_MS),
            (20, 0, 380),
            (20, limits::SEARCH_SHARE_EVENTS - 1, 380),
            (20, limits::SEARCH_SHARE_EVENTS, 180),
            (60, 3 * limits::SEARCH_SHARE_EVENTS, 240),
            (200, 9 * limits::SEARCH_SHARE_EVENTS, 200),
            (200, Seq::MAX, 200),
            (200, -1, 3_800),
            (60_000, 0, limits::SEARCH_PAUSE_MS_MAX),
        ] {
            assert_eq!(pause(ms(spent), left), ms(expected), "{spent} ms, {left} events");
        }
        assert!(pause(Duration::MAX, 0) == ms(limits::SEARCH_PAUSE_MS_MAX));
    }
}
