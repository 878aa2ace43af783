//! The sample session: two people at two front ends, each with an agent, at work on the same small program.
//!
//! The program, `tidewater`, predicts tides. It does not exist, and neither do its tools: their long outputs are
//! generated from their names, the same ones in every run.

use crate::cli::times::seconds;
use crate::pb;
use crate::pb::part::Body;
use std::time::Duration;

/// Choice by which people allow the use of a tool.
pub(super) const ALLOWED: &str = "yes";
/// Model that the sample's agents report.
const MODEL: &str = "sample-model";

/// A turn: the user's request, the agent's tool calls, and its conclusion.
pub(super) struct DemoTurn {
    pub(super) request: &'static str,
    pub(super) steps: &'static [ToolStep],
    pub(super) conclusion: &'static str,
}

/// One reply that uses a tool.
pub(super) struct ToolStep {
    pub(super) says: &'static str,
    pub(super) work: Work,
    /// Question to people before the tool is used.
    pub(super) question: Option<&'static str>,
}

/// Use of a tool; the numbers are lines.
pub(super) enum Work {
    Read(&'static str, usize),
    Write(&'static str, usize),
    Search(&'static str, usize),
    Test(&'static str, Option<&'static str>),
}

use Work::{Read, Search, Test, Write};

const fn step(says: &'static str, work: Work) -> ToolStep {
    ToolStep { says, work, question: None }
}

/// The turns of the agent in the terminal.
pub(super) const TERMINAL: &[DemoTurn] = &[
    DemoTurn {
        request: "Add a command `tidewater next STATION` that prints the next high and low water. Never use \
            local time in the library: everything in src/ is UTC, only src/render.rs converts.",
        steps: &[
            step("I begin with how stations are loaded.", Read("src/stations.rs", 70)),
            step("Heights come from the harmonic sum.", Read("src/harmonics.rs", 80)),
            step("Now the command itself.", Write("src/commands/next.rs", 48)),
        ],
        conclusion: "`tidewater next` is written in src/commands/next.rs. It walks the harmonic sum in steps of \
            six minutes and refines each turning point by bisection. Next step: tests against published tables.",
    },
    DemoTurn {
        request: "The bisection is too slow for a year of predictions. Can you find the extremes from the \
            derivative instead?",
        steps: &[
            step("Where the sum is evaluated matters.", Search("fn height_at", 60)),
            step("The derivative has the same arguments, so both come from one pass.", Write("src/harmonics.rs", 59)),
            step(
                "Do the tests agree?",
                Test("harmonics", Some("assertion `left == right` failed: slack at 03:12, expected 03:18")),
            ),
        ],
        conclusion: "The derivative is in place, but harmonics::slack_times fails: slack at 03:12, expected \
            03:18. I suspect the nodal correction is applied twice.",
    },
    DemoTurn {
        request: "Yes, fix the double nodal correction. Do not touch the coefficients in data/constituents.toml, \
            they are from the hydrographic office.",
        steps: &[
            step("Looking for every use of the correction.", Search("nodal_factor", 70)),
            step("It is applied in the loader and again in the sum; the loader keeps it.", Write("src/nodal.rs", 54)),
            step("Again the tests.", Test("harmonics", None)),
        ],
        conclusion: "Fixed: src/nodal.rs applies the correction once, at load. All harmonics tests pass. The \
            decision is to correct at load because predictions for one year share one factor.",
    },
    DemoTurn {
        request: "Make the station list searchable by distance from a position.",
        steps: &[
            step("The index has to fit the loader.", Read("src/stations.rs", 75)),
            step("A grid of one degree is enough for three thousand stations.", Write("src/grid.rs", 64)),
            step(
                "And a test near the date line.",
                Test("grid", Some("thread panicked: station 9410 not found across longitude 180")),
            ),
        ],
        conclusion: "Distance search works except across longitude 180: station 9410 is not found. I will wrap \
            the grid's columns next.",
    },
    DemoTurn {
        request: "Wrap the columns then, and add a limit to the number of results.",
        steps: &[
            step("The wrap belongs in one place.", Read("src/grid.rs", 60)),
            step("Columns are taken modulo 360.", Write("src/grid.rs", 67)),
            step("Tests.", Test("grid", None)),
        ],
        conclusion: "src/grid.rs wraps its columns and takes `--limit`, 10 unless told otherwise. All grid tests pass.",
    },
    DemoTurn {
        request: "Now cache a year of predictions per station on disk.",
        steps: &[
            step("First, where predictions are asked for.", Search("predict_year", 65)),
            step("The cache is keyed by station, year and the hash of the constituents.", Write("src/cache.rs", 70)),
            step("Does a changed constituent invalidate it?", Test("cache", None)),
        ],
        conclusion: "src/cache.rs keeps one file for each station and year under the cache directory. A changed \
            data/constituents.toml changes the key, so old files are never read.",
    },
    DemoTurn {
        request: "Print the cache's hit rate with --verbose.",
        steps: &[
            step("Where is verbosity handled?", Read("src/main.rs", 65)),
            step("Counters in the cache, printed at the end.", Write("src/cache.rs", 62)),
            step("Last check.", Test("cache", None)),
        ],
        conclusion: "With --verbose the last line says how many predictions came from the cache. Remaining: \
            README, and a release build.",
    },
];

/// The turns of the agent in the editor.
pub(super) const EDITOR: &[DemoTurn] = &[
    DemoTurn {
        request: "While the terminal works on `next`: review src/render.rs for daylight saving mistakes.",
        steps: &[
            step("Reading the renderer.", Read("src/render.rs", 80)),
            step("Who calls it?", Search("render::local", 55)),
        ],
        conclusion: "src/render.rs adds an hour by hand in autumn. It must ask the time zone database instead; \
            two callers depend on the mistake.",
    },
    DemoTurn {
        request: "Replace it by the time zone database and keep the column widths.",
        steps: &[
            step("The conversion moves behind one function.", Write("src/render.rs", 62)),
            step(
                "Golden files tell whether columns moved.",
                Test("render", Some("golden file tests/golden/brest.txt differs at line 14")),
            ),
        ],
        conclusion: "The renderer asks the database now. tests/golden/brest.txt differs at line 14 because the \
            old output was wrong there; I ask before I bless it.",
    },
    DemoTurn {
        request: "Good. Then write tests for the night the clocks change, both directions.",
        steps: &[
            ToolStep {
                question: Some("Overwrite tests/golden/brest.txt? Its line 14 was an hour off."),
                ..step("The new golden file first.", Write("tests/golden/brest.txt", 54))
            },
            step("Both nights, three zones.", Write("tests/clock_change.rs", 64)),
            step("Run them.", Test("clock_change", None)),
        ],
        conclusion: "tests/clock_change.rs covers both nights in Brest, Lisbon and Halifax. All pass.",
    },
    DemoTurn {
        request: "Document the file format of data/constituents.toml.",
        steps: &[
            step("What does the loader accept?", Read("src/constituents.rs", 78)),
            step("The page.", Write("docs/constituents.md", 67)),
        ],
        conclusion: "docs/constituents.md describes every key, its unit and its range, with one example per kind \
            of station.",
    },
    DemoTurn {
        request: "The loader should refuse unknown keys, with the line number.",
        steps: &[
            step("Errors are built here.", Search("LoadError", 60)),
            step("Unknown keys are errors now.", Write("src/constituents.rs", 64)),
            step("Tests.", Test("constituents", Some("missing field `speed` at line 31 of data/constituents.toml"))),
        ],
        conclusion: "Unknown keys are refused. One test fails: missing field `speed` at line 31 of \
            data/constituents.toml; the field is optional in the published file.",
    },
    DemoTurn {
        request: "Make speed optional with the astronomical default.",
        steps: &[
            step("The defaults table.", Read("src/astronomy.rs", 76)),
            step("Speed falls back to it.", Write("src/constituents.rs", 59)),
            step("Again.", Test("constituents", None)),
        ],
        conclusion: "`speed` is optional and falls back to src/astronomy.rs. All constituents tests pass.",
    },
    DemoTurn {
        request: "Write the README: what it is, one example, where the data is from.",
        steps: &[
            step("What do the commands print today?", Test("commands", None)),
            step("The README.", Write("README.md", 59)),
        ],
        conclusion: "README.md has an example for Brest, the source of the constituents, and how to add a \
            station. Remaining: a release build.",
    },
];

impl Work {
    /// The tool's name.
    fn tool(&self) -> &'static str {
        match self {
            Read(..) => "read",
            Write(..) => "write",
            Search(..) => "grep",
            Test(..) => "bash",
        }
    }

    /// The input, as the model wrote it.
    fn input_json(&self) -> String {
        let input = match self {
            Read(path, _) => serde_json::json!({ "path": path }),
            Write(path, lines) => serde_json::json!({ "path": path, "content": listing(path, *lines) }),
            Search(pattern, _) => serde_json::json!({ "pattern": pattern, "path": "." }),
            Test(name, _) => serde_json::json!({ "command": format!("cargo test {name}") }),
        };
        input.to_string()
    }

    /// Output of the tool, and its status.
    fn output(&self) -> (String, pb::ToolResultStatus) {
        match self {
            Read(path, lines) => (listing(path, *lines), pb::ToolResultStatus::Completed),
            Write(path, lines) => (format!("wrote {lines} lines to {path}"), pb::ToolResultStatus::Completed),
            Search(pattern, lines) => (matches(pattern, *lines), pb::ToolResultStatus::Completed),
            Test(name, None) => (test_run(name, "test result: ok"), pb::ToolResultStatus::Completed),
            Test(name, Some(failure)) => {
                (test_run(name, &format!("{failure}\ntest result: FAILED")), pb::ToolResultStatus::Error)
            }
        }
    }
}

/// Words of the generated code.
const WORDS: [&str; 12] = [
    "phase",
    "height",
    "epoch",
    "station",
    "speed",
    "amplitude",
    "slack",
    "series",
    "offset",
    "node",
    "datum",
    "crest",
];

/// Next value of a deterministic pseudo-random sequence.
fn next(state: &mut u32) -> usize {
    *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    (*state >> 16) as usize
}

fn seed(name: &str) -> u32 {
    name.bytes().fold(2_166_136_261, |state, byte| (state ^ u32::from(byte)).wrapping_mul(16_777_619))
}

fn word(state: &mut u32) -> &'static str {
    WORDS[next(state) % WORDS.len()]
}

/// Generated lines of a file.
fn listing(path: &str, lines: usize) -> String {
    let mut state = seed(path) ^ lines as u32;
    let line = |number: usize| {
        let (name, from, by) = (word(&mut state), word(&mut state), word(&mut state));
        format!(
            "{number:>4}  let {name}_{number} = {from}.{by}({}.{});",
            next(&mut state) % 90,
            next(&mut state) % 1_000
        )
    };
    (1..=lines).map(line).collect::<Vec<_>>().join("\n")
}

/// Generated results of a search.
fn matches(pattern: &str, lines: usize) -> String {
    let mut state = seed(pattern);
    let line = |_| format!("src/{}.rs:{}: {} {pattern}", word(&mut state), next(&mut state) % 400, word(&mut state));
    (0..lines).map(line).collect::<Vec<_>>().join("\n")
}

/// Generated output of a test run.
fn test_run(name: &str, end: &str) -> String {
    let mut state = seed(name);
    let line = |number: usize| format!("test {name}::{}_{}_{number} ... ok", word(&mut state), word(&mut state));
    let lines: Vec<String> = (0..28).map(line).collect();
    format!("{}\n{end}", lines.join("\n"))
}

fn message(client_id: String, role: pb::Role, parts: Vec<Body>) -> pb::NewMessage {
    let part = |body| pb::Part { body: Some(body), ..pb::Part::default() };
    pb::NewMessage {
        client_id: Some(client_id),
        role: role.into(),
        kind: pb::MessageKind::Normal.into(),
        parts: parts.into_iter().map(part).collect(),
        finish: Some(pb::Finish::default()),
        ..pb::NewMessage::default()
    }
}

/// A message of the user.
pub(super) fn request(client_id: String, text: &str) -> pb::NewMessage {
    message(client_id, pb::Role::User, vec![Body::Text(pb::TextPart { text: text.to_owned() })])
}

/// A reply that calls a tool; the caller sets its finish.
pub(super) fn call(client_id: String, step: &ToolStep) -> pb::NewMessage {
    let call = pb::ToolCallPart {
        call_id: format!("call:{client_id}"),
        tool: step.work.tool().to_owned(),
        input_json: step.work.input_json(),
        ..pb::ToolCallPart::default()
    };
    let says = Body::Text(pb::TextPart { text: step.says.to_owned() });
    let reply = message(client_id, pb::Role::Assistant, vec![says, Body::ToolCall(call)]);
    pb::NewMessage { model: MODEL.to_owned(), ..reply }
}

/// Question before the tool call in the reply `call_of` is made; without an answer in time, it is.
pub(super) fn question(text: &str, call_of: &str, step: &ToolStep, answer_timeout: Duration) -> pb::Question {
    let choice = |id: &str, label: &str| pb::Choice { id: id.to_owned(), label: label.to_owned() };
    pb::Question {
        text: text.to_owned(),
        tool: step.work.tool().to_owned(),
        call_id: format!("call:{call_of}"),
        input_json: Some(step.work.input_json()),
        choices: vec![choice(ALLOWED, "Yes"), choice("no", "No")],
        default_choice: Some(ALLOWED.to_owned()),
        answer_timeout: Some(seconds(answer_timeout.as_secs() as i64)),
        ..pb::Question::default()
    }
}

/// Result of the tool call in the reply `call_of`, which people may have refused.
pub(super) fn result(client_id: String, call_of: &str, step: &ToolStep, is_allowed: bool) -> pb::NewMessage {
    let (output, status) = match is_allowed {
        true => step.work.output(),
        false => ("refused by the user".to_owned(), pb::ToolResultStatus::Error),
    };
    let result = pb::ToolResultPart {
        call_id: format!("call:{call_of}"),
        status: status.into(),
        output,
        ..pb::ToolResultPart::default()
    };
    message(client_id, pb::Role::Tool, vec![Body::ToolResult(result)])
}

/// The reply that ends a turn; the caller sets its finish.
pub(super) fn conclusion(client_id: String, text: &str) -> pb::NewMessage {
    let reply = message(client_id, pb::Role::Assistant, vec![Body::Text(pb::TextPart { text: text.to_owned() })]);
    pb::NewMessage { model: MODEL.to_owned(), ..reply }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_outputs_are_the_same_each_time_and_differ_by_name() {
        assert_eq!(listing("a.rs", 50), listing("a.rs", 50));
        assert_ne!(listing("a.rs", 50), listing("b.rs", 50));
        assert!(listing("a.rs", 70).len() > 2_000);
        assert!(matches("nodal_factor", 60).len() > 1_500);
    }

    #[test]
    fn a_result_answers_its_call() {
        let step = &TERMINAL[1].steps[2];
        let call = call("terminal:1".into(), step);
        let result = result("terminal:2".into(), "terminal:1", step, true);
        let Some(Body::ToolCall(call)) = &call.parts[1].body else { panic!("no call: {call:?}") };
        let Some(Body::ToolResult(result)) = &result.parts[0].body else { panic!("no result: {result:?}") };
        assert_eq!(call.call_id, result.call_id);
        assert_eq!(result.status(), pb::ToolResultStatus::Error);
        assert!(serde_json::from_str::<serde_json::Value>(&call.input_json).is_ok());
    }
}
