//! Conversations under which a law once failed, as `tests/laws` found them.

use super::stored_session::{Provider, StoredChange, Words};
use super::{Conversation, Counts, play};
use crate::presets;

#[test]
fn a_summary_that_was_truncated_is_replaced_by_one_that_frees_enough() {
    let words = Words::new;
    let nothing = words(0, 0);
    let steps = vec![
        StoredChange::Request(nothing, false),
        StoredChange::Reply(words(2, 676), nothing, 3),
        StoredChange::Pin(817),
        StoredChange::Request(words(2, 28), false),
        StoredChange::Reply(words(0, 750), nothing, 0),
        StoredChange::Reply(words(3, 175), nothing, 0),
    ];
    let conversation =
        Conversation { divisor: 1, context: 3_098, overhead: 0, summary: Some(604), provider: Provider::Silent, steps };
    play(presets::find("joyagent").expect("a preset"), &conversation, &mut Counts::default());
}

/// Views do not show results without a call, so that the stored messages were too large a gain.
#[test]
fn results_that_no_view_shows_are_no_gain() {
    let words = Words::new;
    let nothing = words(0, 0);
    let steps = vec![
        StoredChange::Whole(nothing),
        StoredChange::Whole(nothing),
        StoredChange::Request(nothing, false),
        StoredChange::Request(nothing, false),
        StoredChange::Reply(words(1, 550), nothing, 3),
        StoredChange::Reply(nothing, words(0, 6), 1),
        StoredChange::Reply(nothing, nothing, 3),
        StoredChange::Grow(0),
        StoredChange::Request(words(2, 582), false),
        StoredChange::Whole(words(2, 13)),
        StoredChange::Results(words(1, 3_995), 3, true, false),
        StoredChange::Results(words(1, 810), 2, false, false),
    ];
    let conversation =
        Conversation { divisor: 40, context: 5_572, overhead: 0, summary: Some(1), provider: Provider::Silent, steps };
    play(presets::find("gemini-cli@0.26").expect("a preset"), &conversation, &mut Counts::default());
}

/// Usage that adds up all replies passes a threshold again right behind each compaction.
#[test]
fn usage_that_adds_up_starts_one_compaction_until_the_view_has_grown() {
    let words = Words::new;
    let nothing = words(0, 0);
    let steps = vec![
        StoredChange::Reply(nothing, words(3, 114), 0),
        StoredChange::Request(words(2, 5), false),
        StoredChange::Whole(words(0, 612)),
        StoredChange::Request(words(0, 441), false),
        StoredChange::Reply(words(0, 4), words(1, 442), 3),
        StoredChange::Reply(words(1, 48), words(1, 684), 1),
        StoredChange::Request(words(0, 449), false),
        StoredChange::Results(words(2, 4), 1, false, false),
        StoredChange::Request(words(2, 860), false),
        StoredChange::Whole(nothing),
        StoredChange::System(words(1, 570)),
        StoredChange::Reply(words(3, 0), words(0, 4), 1),
    ];
    let provider = Provider::Cumulative;
    let conversation = Conversation { divisor: 40, context: 7_242, overhead: 0, summary: Some(1), provider, steps };
    play(presets::find("neovate@2026").expect("a preset"), &conversation, &mut Counts::default());
}

/// Usage of nearly twice the estimate reaches a threshold again right behind a compaction, which is
/// worth another one if that frees enough.
#[test]
fn usage_far_above_the_estimate_starts_only_compactions_that_free_enough() {
    let words = Words::new;
    let nothing = words(0, 0);
    let steps = vec![
        StoredChange::Request(nothing, true),
        StoredChange::Request(words(0, 497), false),
        StoredChange::Reply(words(0, 517), words(0, 338), 3),
        StoredChange::Reply(words(0, 666), nothing, 2),
        StoredChange::Reply(words(0, 814), words(2, 506), 2),
        StoredChange::Reply(words(0, 469), nothing, 0),
        StoredChange::Results(words(0, 19), 2, false, false),
        StoredChange::Stray(100),
        StoredChange::Reply(nothing, nothing, 0),
    ];
    let provider = Provider::Honest(187);
    let conversation = Conversation { divisor: 40, context: 3_280, overhead: 0, summary: Some(1), provider, steps };
    play(presets::find("claude-code@observed").expect("a preset"), &conversation, &mut Counts::default());
}
