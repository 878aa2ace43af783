//! `anthropic-context-editing@2025-10`: the context editing of Anthropic's API.

use super::history;
use super::{Agent, Difference, FITS, Limits, MOMENT, NO_LONGER_COUNTS, WAITS};
use crate::generate::Profile;
use crate::report::{Class, Reason};
use longhand::model::part::{Part, PartBody, ToolResult};
use longhand::model::usage::ModelWindow;
use longhand::policy::tokens;
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

pub(super) const AGENT: Agent = Agent {
    name: "anthropic",
    preset: "anthropic-context-editing@2025-10",
    packages: "wire-node",
    profile: Profile { tools: &["bash", "read", "skill"], ..Profile::SMALL_WINDOWS },
    classes: &CLASSES,
    draw,
    explain,
};

static CLASSES: [Class; 7] = [
    Class {
        name: NO_LONGER_COUNTS,
        reason: Reason::Named("no longer counts towards the trigger"),
        explanation: "With what was cleared the history exceeds the trigger, and without it the view does not; the interface \
                      goes by the history as it came.",
        test: ("crates/presets/tests/it/golden.rs", "decisions_are_as_written_down"),
    },
    Class {
        name: "a short result stays",
        reason: Reason::Named("A result that is no longer than the words that replace it stays"),
        explanation: "The words have no fewer tokens than the result; the interface clears it.",
        test: ("crates/presets/tests/it/golden.rs", "decisions_are_as_written_down"),
    },
    Class {
        name: "what nobody has read stays",
        reason: Reason::Named("Results and thoughts that no reply has read are never cleared"),
        explanation: "The interface clears by position alone; we keep what no reply has read, apart from what else stays.",
        test: ("crates/core/src/policy/prune/tests.rs", "what_nobody_has_read_and_what_is_open_stays"),
    },
    Class {
        name: "an edit frees something",
        reason: Reason::Named("An edit waits until it frees a twentieth of the window"),
        explanation: "The view has as many tokens without these thoughts or results; the interface clears them.",
        test: ("tests/it/guards.rs", "a_prune_that_costs_more_cache_than_it_saves_is_skipped_by_policy"),
    },
    WAITS,
    FITS,
    Class {
        name: MOMENT,
        reason: Reason::Named("The edits are made after every message"),
        explanation: "An edit is made after a reply, or between the results of its calls; the interface makes it when a request \
                      comes.",
        test: ("tests/it/simulate.rs", "a_daemon_makes_the_compactions_that_a_simulation_foresees"),
    },
];

fn draw(dice: &mut StdRng) -> Limits {
    let context = dice.random_range(4_000..20_000);
    let trigger = dice.random_range(context / 4..context * 3 / 4);
    let (uses, turns) = (dice.random_range(1..6), dice.random_range(1..4));
    let excluded = if dice.random_bool(0.3) { "skill" } else { "none" };
    let patch = json!({
        "auto": {
            "threshold": { "limit": { "tokens": trigger } },
            "steps": { "0": { "prune": { "keep": { "parts": uses }, "tools": { "except": [excluded] } } } },
        },
        "maintenance": { "0": { "prune": { "keep": { "turns_with_parts": turns } } } },
        "guards": { "minimum_gain_tokens": 1 },
    });
    let config = json!({ "trigger": trigger, "uses": uses, "turns": turns, "excluded": [excluded] });
    // The interface counts everything that a request has, so that ours is told what it does not see.
    let unseen = dice.random_range(0..context / 10);
    let window = ModelWindow { context, overhead: unseen, ..ModelWindow::default() };
    Limits { patch, config, window, unseen }
}

fn explain(difference: &Difference<'_>) -> Option<&'static Class> {
    let class = |index: usize| CLASSES.get(index);
    let number = |name: &str| difference.question[name].as_i64().unwrap_or_default();
    let trigger = difference.question["config"]["trigger"].as_i64().unwrap_or_default();
    match difference.what {
        "moment" if difference.is_last_resort() => class(5).filter(|_| difference.exceeds()),
        "moment" if difference.theirs == "clear" && difference.ours.is_null() => {
            match read_thoughts(difference).as_slice() {
                [] => class(2),
                _ => class(3).filter(|_| !clears_thoughts(difference)),
            }
        }
        "moment" if difference.theirs == "auto" && difference.ours != "auto" => {
            // Thoughts that could be cleared are.
            if difference.ours.is_null() && clears_thoughts(difference) {
                return None;
            }
            if number("size") <= trigger {
                return class(0).filter(|_| trigger < number("whole"));
            }
            match goes(difference) {
                (index, goes) if goes.is_empty() => class(index),
                (_, goes) => match freed(difference, &goes) {
                    ..=0 => class(3),
                    frees => class(4).filter(|_| difference.waits(trigger, frees)),
                },
            }
        }
        "cleared" if difference.answer["acts"] == "clear" => {
            class(2).filter(|_| *difference.ours == json!(read_thoughts(difference)))
        }
        "cleared" => {
            let (index, goes) = goes(difference);
            class(index).filter(|_| *difference.ours == json!(goes))
        }
        _ => None,
    }
}

/// What they clear, without what no reply has read, the last results that one has, and what has no more tokens than the
/// words in its place; and the class of that difference.
fn goes(difference: &Difference<'_>) -> (usize, Vec<Value>) {
    let unread = difference.unread();
    let results: Vec<&Value> = difference.answer["results"].as_array().into_iter().flatten().collect();
    let read: Vec<&Value> = results.iter().filter(|id| !unread.contains(id)).copied().collect();
    let kept = difference.question["config"]["uses"].as_u64().unwrap_or_default() as usize;
    let old = &read[..read.len().saturating_sub(kept)];
    let cleared = difference.answer["cleared"].as_array().into_iter().flatten();
    let goes = cleared.filter(|id| old.contains(id) && gain(difference, id) > 0).cloned().collect();
    (if read.len() < results.len() { 2 } else { 1 }, goes)
}

/// The tokens that clearing a result frees, by its text alone.
fn gain(difference: &Difference<'_>, id: &Value) -> i64 {
    let text = &difference.answer["texts"][id.as_str().unwrap_or_default()];
    let word = |name: &str| text[name].as_str().unwrap_or_default();
    let size = |text: &str| tokens::estimate_text(&difference.life.policy.counting, text);
    size(word("text")) - size(&words(word("tool")))
}

/// The tokens that clearing some results frees in the view, where several parts of a message are rounded together.
fn freed(difference: &Difference<'_>, ids: &[Value]) -> i64 {
    let mut left = difference.before.to_vec();
    for source in &mut left {
        for part in &mut source.message.parts {
            let PartBody::ToolResult(result) = &*part.body else { continue };
            let id = json!(result.call_id);
            if ids.contains(&id) {
                let tool = difference.answer["texts"][&result.call_id]["tool"].as_str().unwrap_or_default();
                part.body = PartBody::ToolResult(ToolResult { output: words(tool), ..result.clone() }).into();
                source.counts = None;
            }
        }
    }
    difference.tokens(difference.before) - difference.tokens(&left)
}

/// The words in place of a result.
fn words(tool: &str) -> String {
    format!("[Old result of {tool} cleared]")
}

/// The thoughts that they clear, without what no reply has read.
fn read_thoughts(difference: &Difference<'_>) -> Vec<Value> {
    let unread = difference.unread();
    let thoughts = difference.answer["thinking"].as_array().into_iter().flatten();
    thoughts.filter(|id| !unread.contains(id)).cloned().collect()
}

/// True if the view has fewer tokens without the thoughts that they clear and a reply has read.
fn clears_thoughts(difference: &Difference<'_>) -> bool {
    let thoughts = read_thoughts(difference);
    let goes = |part: &Part| thoughts.contains(&json!(history::thought(part.id)));
    let mut left = difference.before.to_vec();
    for source in &mut left {
        if source.message.parts.iter().any(goes) {
            source.counts = None;
            source.message.parts.retain(|part| !goes(part));
        }
    }
    difference.tokens(&left) < difference.tokens(difference.before)
}
