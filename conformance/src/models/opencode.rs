//! `opencode@seed`: the design of OpenCode's compaction.

use super::{Agent, Difference, FITS, FREES, Limits, MOMENT, WAITS, WHOLE_CHARACTERS};
use crate::generate::{Profile, Results};
use crate::report::{Class, Reason};
use longhand::model::usage::ModelWindow;
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

pub(super) const AGENT: Agent = Agent {
    name: "opencode-seed",
    preset: "opencode@seed",
    packages: "wire-node",
    profile: Profile {
        interruptions: false,
        results: Results::WithCall,
        tools: &["bash", "read", "write", "grep", "skill"],
        ..Profile::SMALL_WINDOWS
    },
    classes: &CLASSES,
    draw,
    explain,
};

static CLASSES: [Class; 7] = [
    WHOLE_CHARACTERS,
    Class {
        name: MOMENT,
        reason: Reason::Named("The threshold is looked at after every message"),
        explanation: "The usage of the last reply and the tokens of what was written since reach the limit, or what is left \
                      behind a compaction does, but OpenCode goes by the usage of a reply alone; we do not wait.",
        test: ("tests/it/simulate.rs", "a_daemon_makes_the_compactions_that_a_simulation_foresees"),
    },
    Class {
        name: "what nobody has answered stays",
        reason: Reason::P9,
        explanation: "OpenCode summarizes the last request where it does not fit the tail; we keep it and what follows it.",
        test: ("crates/core/src/policy/select/tests.rs", "no_boundary_does_harm"),
    },
    WAITS,
    FREES,
    FITS,
    Class {
        name: "a walk ends at the summary",
        reason: Reason::Named("Clearing ends at a summary"),
        explanation: "OpenCode counts the marker of a summary as a request, and with one request behind it walks on to what \
                      the summary kept; we stop.",
        test: ("crates/presets/tests/it/seeds/opencode.rs", "clearing_ends_at_a_summary"),
    },
];

fn draw(dice: &mut StdRng) -> Limits {
    let context = dice.random_range(4_000..20_000);
    let output = dice.random_range(context / 20..context / 4);
    let input = dice.random_bool(0.3).then(|| dice.random_range(context / 2..context));
    let buffer = dice.random_range(0..context / 4);
    let (protect, minimum) = (dice.random_range(0..context / 6), dice.random_range(0..context / 12));
    let (turns, output_max) = (dice.random_range(1..4), dice.random_range(300..4_000));
    let (least, most) = (dice.random_range(100..800), dice.random_range(800..4_000));
    let patch = json!({
        "auto": {
            "threshold": { "limit": { "usable": { "buffer_tokens": buffer } } },
            "steps": { "0": { "summarize": { "tail": { "turns": {
                "turns": turns, "minimum_budget_tokens": least, "max_budget_tokens": most,
            } } } } },
        },
        "maintenance": { "0": { "prune": { "keep": { "tokens": protect }, "minimum_tokens": minimum + 1 } } },
        "truncate": { "max_units": output_max },
        "guards": { "minimum_gain_tokens": 1 },
    });
    let config = json!({
        "output": output, "input": input, "buffer": buffer, "protect": protect, "minimum": minimum,
        "tailTurns": turns, "tailMin": least, "tailMax": most, "outputMax": output_max,
    });
    let window = ModelWindow { context, input, output: Some(output), ..ModelWindow::default() };
    Limits { patch, config, window, unseen: dice.random_range(0..context / 10) }
}

fn explain(difference: &Difference<'_>) -> Option<&'static Class> {
    let class = |index: usize| CLASSES.get(index);
    match difference.what {
        "moment" if difference.is_last_resort() => class(5).filter(|_| difference.exceeds()),
        "moment" if difference.waits(usable(difference), difference.summarized(boundary(difference))) => class(3),
        "moment" if difference.theirs == "auto" => match boundary(difference) {
            0 => class(2),
            boundary => class(4).filter(|_| difference.frees_nothing(boundary)),
        },
        "moment" if difference.theirs == "clear" => class(6).filter(|_| is_behind_a_summary(difference)),
        "view" | "read" => view(difference),
        _ => None,
    }
}

/// The usable tokens, by arithmetic of its own.
fn usable(difference: &Difference<'_>) -> i64 {
    let config = &difference.question["config"];
    let output = config["output"].as_i64().unwrap_or_default();
    match config["input"].as_i64() {
        Some(input) => input - config["buffer"].as_i64().unwrap_or_default().min(output),
        None => difference.context() - output,
    }
}

/// The boundary next to theirs that does no harm.
fn boundary(difference: &Difference<'_>) -> usize {
    let theirs = difference.answer["read"].as_array().map_or(0, Vec::len);
    difference.boundary(theirs)
}

/// The class of a view or of the messages of a summarizer: ours is theirs at the boundary that does no harm.
fn view(difference: &Difference<'_>) -> Option<&'static Class> {
    let ids = difference.ids();
    let boundary = boundary(difference);
    let is_moved = Some(boundary) != difference.answer["read"].as_array().map(Vec::len);
    let (read, tail) = ids.split_at(boundary);
    if difference.what == "read" {
        return CLASSES.get(2).filter(|_| is_moved && *difference.ours == json!(read));
    }
    let mut expected = vec![json!("marker"), json!("summary")];
    expected.extend(tail.iter().cloned());
    CLASSES.get(2).filter(|_| is_moved && *difference.ours == json!(expected))
}

/// True if everything that they clear was written before the summary, with fewer than two requests behind it.
fn is_behind_a_summary(difference: &Difference<'_>) -> bool {
    let Some(place) = difference.question["places"]["auto"].as_u64() else { return false };
    let messages = || difference.question["messages"].as_array().into_iter().flatten();
    let is_later = |message: &&Value| message["id"].as_u64().is_some_and(|id| id > place);
    let requests = messages().filter(is_later).filter(|message| message["role"] == "user").count();
    let later = messages().filter(is_later).flat_map(|message| message["parts"].as_array().into_iter().flatten());
    let cleared = difference.answer["cleared"].as_array();
    requests < 2 && later.into_iter().all(|part| cleared.is_some_and(|cleared| !cleared.contains(&part["id"])))
}
