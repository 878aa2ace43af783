//! `claude-code@seed`: the design of Claude Code's three tiers.

use super::{Agent, Difference, FITS, FREES, Limits, MOMENT, NO_COOLDOWN, WAITS};
use crate::generate::Profile;
use crate::report::{Class, Reason};
use longhand::model::usage::ModelWindow;
use longhand::policy::tokens;
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

pub(super) const AGENT: Agent = Agent {
    name: "claude-code-seed",
    preset: "claude-code@seed",
    packages: "wire-node",
    profile: Profile { turns: 6..=18, tools: &["read", "read_file"], ..Profile::SMALL_WINDOWS },
    classes: &CLASSES,
    draw,
    explain,
};

static CLASSES: [Class; 8] = [
    Class {
        name: MOMENT,
        reason: Reason::Named("The levels are looked at after every message"),
        explanation: "A level is reached by the usage of the last reply and the tokens of what was written since; the design \
                      looks at the tokens of a reply.",
        test: ("tests/it/simulate.rs", "a_daemon_makes_the_compactions_that_a_simulation_foresees"),
    },
    Class {
        name: "a short output stays",
        reason: Reason::Named("An output that is no longer than the two lines"),
        explanation: "The two lines have no fewer tokens than the output; the design replaces every old one.",
        test: ("crates/presets/tests/it/seeds/claude_code.rs", "micro_replaces_what_is_longer_than_its_lines"),
    },
    Class {
        name: "what nobody has answered stays",
        reason: Reason::Named("The last request, results that no reply has read"),
        explanation: "The design summarizes and clears by position alone; we keep what is unanswered, and calls with their \
                      results.",
        test: ("crates/core/src/policy/select/tests.rs", "no_boundary_does_harm"),
    },
    Class {
        name: "what stays is not summarized",
        reason: Reason::Named("A summarizer reads what its summary covers"),
        explanation: "The design gives the model the last messages too; ours reads what will be covered.",
        test: ("crates/presets/tests/it/seeds/claude_code.rs", "auto_is_a_summary_and_the_last_ten_messages"),
    },
    WAITS,
    FREES,
    FITS,
    Class {
        name: NO_COOLDOWN,
        reason: Reason::Named("which an exceeded window does not wait for"),
        explanation: "A level is applied during the cooldown, because the view exceeds its window; the design waits.",
        test: (
            "crates/core/src/fold/guards/tests.rs",
            "a_cooldown_ends_with_its_time_and_does_not_hold_a_view_that_exceeds_its_window",
        ),
    },
];

fn draw(dice: &mut StdRng) -> Limits {
    let context = dice.random_range(4_000..20_000);
    let micro = f64::from(dice.random_range(300..600)) / 1_000.0;
    let auto = micro + f64::from(dice.random_range(50..200)) / 1_000.0;
    let deep = auto + f64::from(dice.random_range(50..180)) / 1_000.0;
    let (turns, keep, cooldown) = (dice.random_range(1..6), dice.random_range(1..14), dice.random_range(0..200));
    let patch = json!({
        "micro": {
            "threshold": { "limit": { "ratio": micro } }, "steps": { "0": { "prune": { "keep": { "turns": turns } } } },
        },
        "auto": {
            "threshold": { "limit": { "ratio": auto } },
            "steps": { "0": { "summarize": { "tail": { "last": { "messages": keep } } } } },
        },
        "deep": { "threshold": { "limit": { "ratio": deep } } },
        "guards": { "minimum_gain_tokens": 1, "cooldown_seconds": cooldown },
    });
    let config = json!({
        "micro": micro, "auto": auto, "deep": deep, "turns": turns, "keep": keep, "cooldown": cooldown,
    });
    let window = ModelWindow { context, output: Some(1), ..ModelWindow::default() };
    Limits { patch, config, window, unseen: dice.random_range(0..context / 10) }
}

fn explain(difference: &Difference<'_>) -> Option<&'static Class> {
    let class = |index: usize| CLASSES.get(index);
    match difference.what {
        "moment" if difference.is_last_resort() => class(6).filter(|_| difference.exceeds()),
        "moment" if difference.theirs == "micro" && cleared(difference).is_empty() => class(1),
        "moment" if difference.theirs == "micro" => {
            let cleared = cleared(difference);
            let frees = cleared.iter().map(|id| sizes(difference, id)).map(|(text, lines)| text - lines).sum();
            class(4).filter(|_| difference.waits(threshold(difference), frees))
        }
        "moment" if difference.theirs == "auto" || difference.theirs == "deep" => match boundary(difference) {
            0 => class(2),
            boundary if difference.frees_nothing(boundary) => class(5),
            boundary => class(4).filter(|_| difference.waits(threshold(difference), difference.summarized(boundary))),
        },
        "cleared" => class(1).filter(|_| *difference.ours == json!(cleared(difference))),
        "view" | "read" => {
            let ids = difference.ids();
            let boundary = boundary(difference);
            let (read, tail) = ids.split_at(boundary);
            let is_moved = boundary + kept(difference) != ids.len();
            let expected: Vec<Value> = std::iter::once(json!("summary")).chain(tail.iter().cloned()).collect();
            let ours = difference.ours.as_array()?;
            let of_history = if difference.what == "view" { ours.get(1..)? } else { ours };
            if difference.is_narrowed(boundary, of_history) {
                return class(5);
            }
            match difference.what {
                "view" => class(2).filter(|_| is_moved && *difference.ours == json!(expected)),
                _ => class(3).filter(|_| *difference.ours == json!(read)),
            }
        }
        _ => None,
    }
}

/// The tokens at which their level is reached.
fn threshold(difference: &Difference<'_>) -> i64 {
    let level = difference.theirs.as_str().unwrap_or_default();
    (difference.context() as f64 * difference.question["config"][level].as_f64().unwrap_or_default()) as i64
}

/// Number of messages that they keep beside the summary.
fn kept(difference: &Difference<'_>) -> usize {
    difference.answer["view"].as_array().map_or(0, Vec::len).saturating_sub(1)
}

fn boundary(difference: &Difference<'_>) -> usize {
    difference.boundary(difference.ids().len().saturating_sub(kept(difference)))
}

/// What they clear without unread results, and without outputs that have no more tokens than what replaces them.
fn cleared(difference: &Difference<'_>) -> Vec<Value> {
    let unread = difference.unread();
    let is_longer = |id: &&Value| {
        let (text, lines) = sizes(difference, id);
        text > lines && !unread.contains(id)
    };
    difference.answer["cleared"].as_array().into_iter().flatten().filter(is_longer).cloned().collect()
}

/// The tokens of an output and of what replaces it.
fn sizes(difference: &Difference<'_>, id: &Value) -> (i64, i64) {
    let texts = &difference.answer["texts"][id.as_str().unwrap_or_default()];
    let size =
        |of: &str| tokens::estimate_text(&difference.life.policy.counting, texts[of].as_str().unwrap_or_default());
    (size("text"), size("lines"))
}
