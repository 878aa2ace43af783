//! `suna@2025-04`: Suna's rolling summary.

use super::{Agent, Difference, FITS, FREES, Limits, WAITS};
use crate::generate::Profile;
use crate::report::{Class, Reason};
use longhand::model::usage::ModelWindow;
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

pub(super) const AGENT: Agent = Agent {
    name: "suna-2025-04",
    preset: "suna@2025-04",
    packages: "neovate",
    profile: Profile { turns: 20..=80, reasoning: false, calls: false, ..Profile::SMALL_WINDOWS },
    classes: &CLASSES,
    draw,
    explain,
};

static CLASSES: [Class; 5] = [
    Class {
        name: "the summary counts",
        reason: Reason::Named("The live summary counts towards the threshold"),
        explanation: "What came after the summary and the summary itself have as many tokens as the threshold; Suna counts what \
                      came after it.",
        test: ("tests/it/simulate.rs", "a_daemon_makes_the_compactions_that_a_simulation_foresees"),
    },
    Class {
        name: "what nobody has answered stays",
        reason: Reason::Named("The last request, results that no reply has read"),
        explanation: "Suna summarizes by position alone; we keep what is unanswered, and calls with their results.",
        test: ("crates/core/src/policy/select/tests.rs", "no_boundary_does_harm"),
    },
    WAITS,
    FREES,
    FITS,
];

fn draw(dice: &mut StdRng) -> Limits {
    let context = dice.random_range(4_000..20_000);
    let threshold = dice.random_range(context / 4..context * 3 / 4);
    let patch = json!({
        "auto": { "threshold": { "limit": { "tokens": threshold } } },
        "guards": { "minimum_gain_tokens": 1 },
    });
    let config = json!({ "threshold": threshold });
    let window = ModelWindow { context, output: Some(1), ..ModelWindow::default() };
    Limits { patch, config, window, unseen: dice.random_range(0..context / 10) }
}

fn explain(difference: &Difference<'_>) -> Option<&'static Class> {
    let class = |index: usize| CLASSES.get(index);
    let read = difference.ids().len();
    let boundary = difference.boundary(read);
    let threshold = difference.question["config"]["threshold"].as_i64().unwrap_or_default();
    match difference.what {
        "moment" if difference.is_last_resort() => class(4).filter(|_| difference.exceeds()),
        "moment" if difference.ours == "auto" => {
            // A summary in its frame has less than two hundred tokens here.
            let total = difference.answer["total"].as_i64().unwrap_or_default();
            class(0).filter(|_| read < difference.before.len() && total < threshold && total + 200 >= threshold)
        }
        "moment" if difference.theirs == "auto" => match boundary {
            0 => class(1),
            boundary if difference.frees_nothing(boundary) => class(3),
            _ => class(2).filter(|_| difference.waits(threshold, difference.summarized(boundary))),
        },
        "view" | "read" => {
            let ids = difference.ids();
            let (head, tail) = ids.split_at(boundary);
            let expected: Vec<Value> = std::iter::once(json!("summary")).chain(tail.iter().cloned()).collect();
            let expected = if difference.what == "read" { json!(head) } else { json!(expected) };
            class(1).filter(|_| boundary != read && *difference.ours == expected)
        }
        _ => None,
    }
}
