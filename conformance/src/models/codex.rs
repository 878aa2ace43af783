//! `codex@2026-08`: Codex CLI's local compaction.

use super::{Agent, Difference, FITS, FREES, Limits, MOMENT, WAITS};
use crate::generate::Profile;
use crate::report::{Class, Reason};
use longhand::model::message::Role;
use longhand::model::part::PartBody;
use longhand::model::usage::ModelWindow;
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

pub(super) const AGENT: Agent = Agent {
    name: "codex",
    preset: "codex@2026-08",
    packages: "wire-node",
    profile: Profile::SMALL_WINDOWS,
    classes: &CLASSES,
    draw,
    explain,
};

static CLASSES: [Class; 5] = [
    Class {
        name: MOMENT,
        reason: Reason::Named("The threshold is looked at after every message"),
        explanation: "The threshold is reached by the usage of the last reply and the tokens of what was written since, or by a \
                      reply that ends its turn; Codex waits for the next turn or reply.",
        test: ("tests/it/simulate.rs", "a_daemon_makes_the_compactions_that_a_simulation_foresees"),
    },
    Class {
        name: "what nobody has answered stays",
        reason: Reason::Named("The last request, results that no reply has read"),
        explanation: "Codex summarizes by position alone; we keep what is unanswered, and calls with their results.",
        test: ("crates/core/src/policy/select/tests.rs", "no_boundary_does_harm"),
    },
    WAITS,
    FREES,
    FITS,
];

fn draw(dice: &mut StdRng) -> Limits {
    // A multiple of ten, as the windows of models are: Codex divides whole numbers.
    let context = dice.random_range(400..2_000) * 10;
    let (tenths, keep) = (dice.random_range(5..10), dice.random_range(20..2_000));
    let patch = json!({
        "auto": {
            "threshold": { "limit": { "ratio": f64::from(tenths) / 10.0 } },
            "steps": { "0": { "summarize": { "tail": { "requests": { "keep_tokens": keep } } } } },
        },
        "guards": { "minimum_gain_tokens": 1 },
    });
    let config = json!({ "tenths": tenths, "keep": keep });
    let window = ModelWindow { context, ..ModelWindow::default() };
    Limits { patch, config, window, unseen: dice.random_range(0..context / 10) }
}

fn explain(difference: &Difference<'_>) -> Option<&'static Class> {
    let class = |index: usize| CLASSES.get(index);
    let read = difference.answer["read"].as_array().map_or(0, Vec::len);
    let boundary = difference.boundary(read);
    match difference.what {
        "moment" if difference.is_last_resort() => class(4).filter(|_| difference.exceeds()),
        "moment" if difference.theirs == "auto" => match boundary {
            0 => class(1),
            boundary if difference.frees_nothing(boundary) => class(3),
            _ => class(2).filter(|_| difference.waits(threshold(difference), difference.summarized(boundary))),
        },
        "view" | "read" => {
            let ids = difference.ids();
            let (head, tail) = ids.split_at(boundary);
            if difference.what == "read" {
                return class(1).filter(|_| boundary != read && *difference.ours == json!(head));
            }
            // The requests that the summary covers, the summary, and what it does not cover.
            let requests = requests(difference).into_iter().filter(|id| head.contains(id));
            let expected: Vec<Value> =
                requests.chain(std::iter::once(json!("summary"))).chain(tail.iter().cloned()).collect();
            let is_moved = boundary != read
                || tail.iter().any(|id| difference.theirs.as_array().is_some_and(|it| it.contains(id)));
            class(1).filter(|_| is_moved && *difference.ours == json!(expected))
        }
        _ => None,
    }
}

/// The tokens at which a compaction is due.
fn threshold(difference: &Difference<'_>) -> i64 {
    difference.context() * difference.question["config"]["tenths"].as_i64().unwrap_or_default() / 10
}

/// The most recent requests within the budget, the unanswered one among them.
fn requests(difference: &Difference<'_>) -> Vec<Value> {
    let mut left = difference.question["config"]["keep"].as_i64().unwrap_or_default();
    let mut kept = Vec::new();
    for (source, id) in difference.history().iter().zip(difference.ids()).rev() {
        if source.message.role != Role::User || left <= 0 {
            continue;
        }
        let texts = source.message.parts.iter().map(|part| match &*part.body {
            PartBody::Text(text) => text.len().div_ceil(4) as i64,
            _ => 0,
        });
        left -= texts.sum::<i64>();
        kept.push(id);
    }
    kept.reverse();
    kept
}
