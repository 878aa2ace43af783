//! `joyagent`: JoyAgent's truncation of messages.

use super::{Agent, Difference, FITS, Limits, MAKES_NONE, WAITS, WHOLE_CHARACTERS};
use crate::generate::{Profile, Results};
use crate::harm;
use crate::report::{Class, Reason};
use longhand::model::message::Role;
use longhand::model::usage::ModelWindow;
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

pub(super) const AGENT: Agent = Agent {
    name: "joyagent",
    preset: "joyagent",
    packages: "wire-node",
    profile: Profile { system: true, results: Results::MessageEach, ..Profile::SMALL_WINDOWS },
    classes: &CLASSES,
    draw,
    explain,
};

static CLASSES: [Class; 7] = [
    WHOLE_CHARACTERS,
    Class {
        name: "together they exceed the limit",
        reason: Reason::Named("It is applied when all messages together exceed the limit"),
        explanation: "All messages have no more tokens than the limit; JoyAgent leaves out what it would before every request, \
                      such as replies before the first request.",
        test: ("crates/presets/tests/it/golden.rs", "decisions_are_as_written_down"),
    },
    Class {
        name: "the last request stays",
        reason: Reason::Named("The last request and what follows it always stay"),
        explanation: "No request is among the messages that fit; JoyAgent leaves nothing but the instructions.",
        test: (
            "crates/presets/src/joyagent/suffix/tests.rs",
            "the_last_request_and_what_follows_it_stay_when_they_do_not_fit",
        ),
    },
    Class {
        name: "what nobody has answered stays",
        reason: Reason::Named("A result never parts from its call, and what nobody has answered stays"),
        explanation: "JoyAgent leaves out by position alone; we keep what is unanswered, and calls with their results.",
        test: ("crates/presets/src/joyagent/suffix/tests.rs", "a_call_does_not_part_from_its_result"),
    },
    WAITS,
    FITS,
    Class {
        name: MAKES_NONE,
        reason: Reason::Named("a view that exceeds its window and of which nothing can be left out"),
        explanation: "A view exceeds its window, and nothing stands before the last request that we could leave out; JoyAgent \
                      leaves that request out, and makes no summaries; the life ends there.",
        test: (
            "crates/presets/tests/it/seeds/essay.rs",
            "joyagent_summarizes_what_exceeds_its_window_only_if_nothing_can_be_left_out",
        ),
    },
];

fn draw(dice: &mut StdRng) -> Limits {
    // A token is a unit of text here, so that windows of these lives have more of them.
    let context = dice.random_range(16_000..80_000);
    let (most, observe) = (dice.random_range(context / 4..context * 3 / 4), dice.random_range(500..5_000));
    let patch = json!({
        "auto": { "threshold": { "limit": { "tokens": most } } },
        "truncate": { "max_units": observe },
        "guards": { "minimum_gain_tokens": 1 },
    });
    let config = json!({ "most": most, "observe": observe });
    let window = ModelWindow { context, ..ModelWindow::default() };
    Limits { patch, config, window, unseen: dice.random_range(0..context / 10) }
}

fn explain(difference: &Difference<'_>) -> Option<&'static Class> {
    let class = |index: usize| CLASSES.get(index);
    let most = difference.question["config"]["most"].as_i64().unwrap_or_default();
    match difference.what {
        "moment" if difference.is_last_resort() => class(5).filter(|_| difference.exceeds()),
        "moment" if difference.theirs == "auto" && difference.ours.is_null() => {
            let total = difference.answer["total"].as_i64().unwrap_or_default();
            if total <= most {
                return class(1);
            }
            // The agent's own count has two more tokens than its messages, which its walk does not see.
            let halves = difference.answer["halves"].as_i64().unwrap_or_default();
            if total - 2 - halves <= most {
                return class(0).filter(|_| halves > 0);
            }
            let (index, boundary) = boundary(difference)?;
            match omitted(difference, boundary) {
                0 => class(index),
                tokens => class(4).filter(|_| difference.waits(most, tokens)),
            }
        }
        "moment" if difference.theirs == "auto" && difference.ours == "deep" => {
            let (_, boundary) = boundary(difference)?;
            class(6).filter(|_| difference.exceeds() && omitted(difference, boundary) == 0)
        }
        "view" => {
            let (index, boundary) = boundary(difference)?;
            let ids = difference.ids();
            let stays = |at: &usize| *at >= boundary || difference.before[*at].message.role == Role::System;
            let expected: Vec<Value> = (0..ids.len()).filter(stays).map(|at| ids[at].clone()).collect();
            class(index).filter(|_| *difference.ours == json!(expected))
        }
        _ => None,
    }
}

/// The number of messages before the first request that stays, and the class of its difference from theirs: the last
/// request stays, and the boundary is the last one before that does no harm.
fn boundary(difference: &Difference<'_>) -> Option<(usize, usize)> {
    let is_request = |at: &usize| difference.before[*at].message.role == Role::User;
    let ids = difference.ids();
    let kept = difference.answer["view"].as_array()?;
    let first = (0..ids.len()).filter(is_request).find(|at| kept.contains(&ids[*at]));
    let last = || (0..ids.len()).rev().find(is_request);
    let index = if first.is_some() { 3 } else { 2 };
    let request = first.or_else(last).unwrap_or(0);
    let boundary = Some(harm::nearest(difference.before, request)).filter(|boundary| *boundary <= request);
    Some((index, boundary.unwrap_or(0)))
}

/// Tokens of what is left out before a boundary.
fn omitted(difference: &Difference<'_>, boundary: usize) -> i64 {
    let goes = |source: &&longhand::model::view::SourceMessage| source.message.role != Role::System;
    let goes: Vec<_> = difference.before[..boundary].iter().filter(goes).cloned().collect();
    difference.tokens(&goes)
}
