//! `goose@0.8`: goose's compaction and its summaries of tool pairs.

use super::{Agent, Difference, FITS, FREES, Limits, MOMENT, WAITS};
use crate::generate::Profile;
use crate::report::{Class, Reason};
use longhand::model::usage::ModelWindow;
use longhand::policy::{Policy, tokens};
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

pub(super) const AGENT: Agent = Agent {
    name: "goose",
    preset: "goose@0.8",
    packages: "neovate",
    profile: Profile::SMALL_WINDOWS,
    classes: &CLASSES,
    draw,
    explain,
};

static CLASSES: [Class; 6] = [
    Class {
        name: MOMENT,
        reason: Reason::Named("The threshold is looked at after every message"),
        explanation: "The threshold is reached by the usage of the last reply and the tokens of what was written since; goose \
                      goes by the usage of a reply.",
        test: ("tests/it/simulate.rs", "a_daemon_makes_the_compactions_that_a_simulation_foresees"),
    },
    Class {
        name: "what nobody has answered stays",
        reason: Reason::Named("The last request, results that no reply has read"),
        explanation: "goose summarizes everything, and counts every result; we keep what is unanswered, apart from what else \
                      stays, and calls with their results.",
        test: ("crates/core/src/policy/select/tests.rs", "no_boundary_does_harm"),
    },
    Class {
        name: "batches are described together",
        reason: Reason::Named("batches that free less are described together"),
        explanation: "Every whole batch beyond the cutoff is described at once, and none while that frees nothing; goose \
                      describes one batch at a time.",
        test: ("crates/presets/tests/it/golden.rs", "decisions_are_as_written_down"),
    },
    WAITS,
    FREES,
    FITS,
];

/// The words in place of an output. They are a model's in goose; in these lives they are short, so that the tokens that
/// a description frees are known.
const DESCRIPTION: &str = "[Historical tool call summary] ";

fn draw(dice: &mut StdRng) -> Limits {
    let context = dice.random_range(4_000..20_000);
    let tenths = dice.random_range(5..9);
    let (cutoff, batch, each) = (dice.random_range(2..8), dice.random_range(1..4), dice.random_range(1_000..8_000));
    let patch = json!({
        "auto": { "threshold": { "limit": { "ratio": f64::from(tenths) / 10.0 } } },
        "maintenance": { "0": { "prune": {
            "keep": { "parts": { "context_tokens_each": each, "minimum": cutoff } },
            "batch": { "context_tokens_each": each * 5, "minimum": batch },
            "replacement": { "placeholder": { "text": format!("{DESCRIPTION}{{tool}}") } },
        } } },
        "guards": { "minimum_gain_tokens": 1 },
    });
    // The cutoff is the threshold's tokens in shares.
    let config = json!({ "tenths": tenths, "cutoffMin": cutoff, "batchMin": batch, "share": each * tenths });
    let window = ModelWindow { context, ..ModelWindow::default() };
    Limits { patch, config, window, unseen: dice.random_range(0..context / 10) }
}

fn explain(difference: &Difference<'_>) -> Option<&'static Class> {
    let class = |index: usize| CLASSES.get(index);
    let ids = difference.ids();
    match difference.what {
        "moment" if difference.is_last_resort() => class(5).filter(|_| difference.exceeds()),
        "moment" if difference.theirs == "auto" => match difference.boundary(ids.len()) {
            0 => class(1),
            boundary => match summarized(difference, boundary) {
                tokens if tokens <= replacement(difference) => class(4),
                tokens => class(3).filter(|_| difference.waits(threshold(difference), tokens)),
            },
        },
        "refusal" => {
            let tokens = summarized(difference, difference.boundary(ids.len()));
            class(4).filter(|_| tokens <= replacement(difference))
        }
        "moment" if difference.theirs == "clear" && difference.ours.is_null() => match together(difference) {
            (1, described) if described.is_empty() => class(1),
            (_, described) => class(2).filter(|_| freed(difference, &described) <= 0),
        },
        "cleared" => {
            let (index, mut described) = together(difference);
            described.sort_by_key(Value::to_string);
            class(index).filter(|_| *difference.ours == json!(described))
        }
        "view" | "read" => {
            let boundary = difference.boundary(ids.len());
            let (head, tail) = ids.split_at(boundary);
            if difference.what == "read" {
                return class(1).filter(|_| !tail.is_empty() && *difference.ours == json!(head));
            }
            let theirs = difference.theirs.as_array()?;
            // The request that is said again, unless it stays anyway.
            let again = theirs.get(1..)?.iter().filter(|id| head.contains(id)).cloned();
            let summary = std::iter::once(json!("summary"));
            let expected: Vec<Value> = summary.chain(again).chain(tail.iter().cloned()).collect();
            class(1).filter(|_| !tail.is_empty() && *difference.ours == json!(expected))
        }
        _ => None,
    }
}

/// The tokens above which a summary is due.
fn threshold(difference: &Difference<'_>) -> i64 {
    difference.context() * difference.question["config"]["tenths"].as_i64().unwrap_or_default() / 10
}

/// The tokens of what a summary would replace: everything before a boundary without the request that is said again.
fn summarized(difference: &Difference<'_>, boundary: usize) -> i64 {
    let again = difference.answer["view"].as_array().and_then(|view| view.get(1)).cloned();
    let head = difference.history().into_iter().zip(difference.ids()).take(boundary);
    let goes: Vec<_> = head.filter(|(_, id)| Some(id) != again.as_ref()).map(|(source, _)| source).collect();
    difference.tokens(&goes)
}

/// The tokens of a summary and of the words with which the model goes on behind it.
fn replacement(difference: &Difference<'_>) -> i64 {
    let Policy { counting, view, .. } = &difference.life.policy;
    difference.summary_tokens() + tokens::estimate_text(counting, view.acknowledgement.as_deref().unwrap_or_default())
}

/// The results of all whole batches beyond the cutoff, without what no reply has read; and the class of that difference.
fn together(difference: &Difference<'_>) -> (usize, Vec<Value>) {
    let unread = difference.unread();
    let old: Vec<&Value> = difference.answer["old"].as_array().into_iter().flatten().collect();
    let read: Vec<Value> = old.iter().filter(|id| !unread.contains(id)).map(|id| (*id).clone()).collect();
    let number = |name: &str| difference.answer[name].as_u64().unwrap_or_default() as usize;
    let mut batches = 0;
    while read.len() > number("cutoff") + (batches + 1) * number("batch").max(1) {
        batches += 1;
    }
    let described = read[..batches * number("batch").max(1)].to_vec();
    (if read.len() < old.len() { 1 } else { 2 }, described)
}

/// The tokens that some descriptions free.
fn freed(difference: &Difference<'_>, together: &[Value]) -> i64 {
    let size = |text: &str| tokens::estimate_text(&difference.life.policy.counting, text);
    let parts =
        difference.question["messages"].as_array().into_iter().flatten().flat_map(|message| {
            message["parts"].as_array().into_iter().flatten().filter(|part| part["type"] == "result")
        });
    let described = parts.filter(|part| together.contains(&part["id"]));
    let one = |part: &Value| {
        let (text, tool) = (part["text"].as_str().unwrap_or_default(), part["tool"].as_str().unwrap_or_default());
        size(text) - size(&format!("{DESCRIPTION}{tool}"))
    };
    described.map(one).sum()
}
