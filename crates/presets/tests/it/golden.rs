//! Golden files: decisions next to the conversations for which they are made, in `tests/golden/<preset>/*.txt`. The
//! folder has the preset's name with `-` for `@`. Every preset has one.
//!
//! A file begins with comments that state the source of the expected decisions. Sections follow, each under a line
//! `== name`, and are read from top to bottom. Input sections apply to the sections after them:
//!
//! - `policy`: a merge patch on the folder's preset;
//! - `window`: such as `context=200000 input=0 output=32000 model=gpt-5`;
//! - `now`: the time, in seconds after the messages were written;
//! - `input`: a conversation (see `dsl`).
//!
//! Result sections contain the expected results:
//!
//! - `due`: the tokens at which each level is due;
//! - `tokens`: the estimate of each message and of all;
//! - `prune`: the prune by the first maintenance step; `select`: the boundary of the last summary step of the main
//!   level;
//! - `maintenance`, `micro`, `auto`, `deep`: the result of maintenance or of that level, `auto 90000` in a view of 90000
//!   tokens;
//! - `view`: the current view; `view auto` and the like: the view after that level, with the summary `SUMMARY`.
//!
//! With `LONGHAND_BLESS=1` in the environment, the files are rewritten with the actual results.

use crate::model::compaction::Level;
use crate::model::layout::Layout;
use crate::model::part::PartBody;
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::model::view::{SourceMessage, View, ViewMessage};
use crate::policy::plan::{self, Boundary, PlanningInput, Work};
use crate::policy::{LevelPolicy, Policy, PolicyStep, overflow, prune, select, tokens};
use crate::{dsl, presets};
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn decisions_are_as_written_down() {
    let bless = std::env::var_os("LONGHAND_BLESS").is_some();
    let mut wrong = Vec::new();
    for preset in presets::all() {
        for file in files(&preset.name.replace('@', "-")) {
            let written = fs::read_to_string(&file).expect("a golden file can be read");
            let actual = run(&preset.name, &file, &written);
            if bless {
                fs::write(&file, actual).expect("a golden file can be written");
            } else if actual != written {
                wrong.push(difference(&file, &written, &actual));
            }
        }
    }
    assert!(wrong.is_empty(), "other decisions than written down:\n{}", wrong.join("\n"));
}

/// The first lines that differ.
fn difference(file: &Path, written: &str, actual: &str) -> String {
    let same = written.lines().zip(actual.lines()).take_while(|(written, actual)| written == actual).count();
    let from = |text: &str| text.lines().skip(same).take(12).collect::<Vec<_>>().join("\n");
    format!("{}:{}: written:\n{}\nactual:\n{}", file.display(), same + 1, from(written), from(actual))
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder entry").path()).collect();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files.sort();
    files
}

/// The text of the file with the actual results.
fn run(preset: &str, file: &Path, written: &str) -> String {
    let (header, sections) = written.split_once("\n== ").unwrap_or_else(|| panic!("{}: no sections", file.display()));
    let cites = header.lines().all(|line| line.starts_with('#')) && header.contains('§');
    assert!(cites, "{}: the header does not say which section the decisions come from", file.display());
    let preset = presets::policy(preset);
    let mut case = Case {
        policy: preset.clone(),
        window: ModelWindow::default(),
        now: Timestamp(0),
        layout: Layout::everything(),
        messages: Vec::new(),
    };
    let mut actual = header.to_owned();
    for section in sections.split("\n== ") {
        let (name, body) = section.split_once('\n').unwrap_or((section, ""));
        let body = match name {
            "policy" => {
                case.policy = preset.with_overrides(body).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
                body.to_owned()
            }
            "window" => {
                case.window = window(body);
                body.to_owned()
            }
            "now" => {
                let seconds: i64 = body.trim().parse().unwrap_or_else(|error| panic!("{body}: {error}"));
                case.now = Timestamp(seconds * 1_000_000);
                body.to_owned()
            }
            "input" => {
                case.messages = dsl::parse(body);
                body.to_owned()
            }
            _ => format!("{}\n", case.answer(name)),
        };
        actual.push_str(&format!("\n== {name}\n{}", body.trim_end()));
        actual.push('\n');
    }
    actual
}

struct Case {
    policy: Policy,
    window: ModelWindow,
    now: Timestamp,
    layout: Layout,
    messages: Vec<SourceMessage>,
}

impl Case {
    fn answer(&self, section: &str) -> String {
        let (name, rest) = section.split_once(' ').unwrap_or((section, ""));
        match name {
            "due" => self.due(),
            "tokens" => self.tokens(),
            "prune" => self.prune(),
            "select" => self.select(),
            "view" if rest.is_empty() => view_lines(&plan::view(&self.policy, &self.messages)),
            "view" => self.view_after(rest),
            "maintenance" | "micro" | "auto" | "deep" => self.work_lines(&self.work(section)),
            _ => panic!("unknown section {section}"),
        }
    }

    fn due(&self) -> String {
        if overflow::due_at(&self.policy, &self.window).is_none() {
            return "never".to_owned();
        }
        // The agent's own thresholds: no agent has a level that is due because the view exceeds its window.
        let due = |level_policy: &LevelPolicy| level_policy.threshold.due_at(&self.window);
        if let [(_, level_policy)] = self.policy.levels().collect::<Vec<_>>()[..] {
            let due = due(level_policy).map_or_else(|| "never".to_owned(), |due| due.to_string());
            return format!("at {due}, usable {}", level_policy.threshold.limit(&self.window));
        }
        let due_text = |level: Level, due| format!("{} at {due}", level.name());
        let levels = self.policy.levels().filter_map(|(level, at)| Some(due_text(level, due(at)?)));
        levels.collect::<Vec<_>>().join(", ")
    }

    fn planning(&self) -> PlanningInput<'_> {
        PlanningInput {
            policy: &self.policy,
            window: &self.window,
            layout: &self.layout,
            sources: &self.messages,
            covered: &[],
            base: self.messages.iter().map(|source| source.message.revision).max().unwrap_or(0),
            now: self.now,
        }
    }

    fn work(&self, section: &str) -> Work {
        let (name, tokens) = section.split_once(' ').unwrap_or((section, ""));
        let measured = plan::view(&self.policy, &self.messages).estimated_tokens;
        let tokens = tokens.trim().parse().unwrap_or(measured);
        let level = match name {
            "maintenance" => return plan::maintenance(self.planning()),
            "micro" => Level::Micro,
            "auto" => Level::Auto,
            "deep" => Level::Deep,
            _ => panic!("unknown level {name}"),
        };
        let level_policy = self.policy.level(level).unwrap_or_else(|| panic!("the policy has no level {name}"));
        plan::apply(self.planning(), level_policy, tokens)
    }

    fn work_lines(&self, work: &Work) -> String {
        if work.is_empty() {
            return "nothing".to_owned();
        }
        let mut lines = Vec::new();
        let names = dsl::part_names(&self.messages);
        for (id, truncation) in &work.removals.parts {
            let owner = self.messages.iter().find(|source| source.message.parts.iter().any(|part| part.id == *id));
            let name = names.get(id).cloned().or(owner.map(|source| dsl::name(source).to_owned())).unwrap_or_default();
            lines.push(format!(
                "cut {name} {}+{} {:?}",
                truncation.head,
                truncation.tail,
                [&truncation.before, &truncation.middle, &truncation.after]
            ));
        }
        let omitted = self.messages.iter().filter(|source| work.removals.omitted.contains(&source.message.revision));
        let omitted: Vec<&str> = omitted.map(dsl::name).collect();
        if !omitted.is_empty() {
            lines.push(format!("omit {}", omitted.join(" ")));
        }
        if let Some(summary) = &work.summary {
            let of = |messages: &[SourceMessage]| messages.iter().map(dsl::name).collect::<Vec<_>>().join(" ");
            lines.push(format!("summarize {}", of(&summary.head)));
            if !summary.split_turn.is_empty() {
                lines.push(format!("and apart {}", of(&summary.split_turn)));
            }
            let retained: Vec<SourceMessage> =
                self.messages.iter().filter(|m| summary.retained.contains(&m.message.revision)).cloned().collect();
            if !retained.is_empty() {
                lines.push(format!("retain {}", of(&retained)));
            }
        }
        lines.join("\n")
    }

    /// The view after a level was applied.
    fn view_after(&self, section: &str) -> String {
        let work = self.work(section);
        let mut sources = plan::with_removals(&self.messages, &work.removals, dsl::PRUNED_BY);
        if let Some(summary) = &work.summary {
            let boundary = Boundary {
                tail_start: summary.tail_start,
                retained: &summary.retained,
                retained_first: summary.retained_first,
            };
            sources =
                plan::with_summary(&self.policy, &self.layout, &sources, &boundary, "SUMMARY", &summary.attachments);
        }
        view_lines(&plan::view(&self.policy, &sources))
    }

    fn tokens(&self) -> String {
        let line = |source| format!("{} {}", dsl::name(source), tokens::estimate_source(&self.policy, source));
        let lines: Vec<String> = self.messages.iter().map(line).collect();
        let all = tokens::RangeEstimate::from_messages(&self.policy, &self.messages).tokens(0..self.messages.len());
        format!("{}\nall {all}", lines.join("\n"))
    }

    fn prune(&self) -> String {
        let Some(PolicyStep::Prune(rule)) = self.policy.maintenance.first() else { return "nothing".to_owned() };
        let plan = prune::select(&self.policy, rule, &self.window, self.now, &self.messages);
        if plan.removals.is_empty() {
            return "nothing".to_owned();
        }
        let names = dsl::part_names(&self.messages);
        let parts: Vec<&str> =
            plan.removals.parts.iter().map(|(id, _)| names[id].trim_end_matches(":result")).collect();
        format!("prune {} (freed {}t)", parts.join(" "), plan.freed_tokens)
    }

    fn select(&self) -> String {
        let tail = &self.policy.summarize(Level::Auto).expect("the policy summarizes").tail;
        let selection = select::select(&self.policy, tail, &self.window, &self.messages);
        let (head, tail) = self.messages.split_at(selection.head_end);
        let turn = selection.split_turn_start.map(|start| format!(" | splits {}", dsl::name(&self.messages[start])));
        format!("head {} | tail {}{}", span(head), span(tail), turn.unwrap_or_default())
    }
}

/// The names of the first and the last message.
fn span(messages: &[SourceMessage]) -> String {
    match messages {
        [] => "-".to_owned(),
        [only] => dsl::name(only).to_owned(),
        [first, .., last] => format!("{}..{}", dsl::name(first), dsl::name(last)),
    }
}

/// Characters of a text that a line of a view shows at each end.
const SHOWN_CHARS: usize = 60;

fn view_lines(view: &View) -> String {
    view.messages.iter().map(view_line).collect::<Vec<_>>().join("\n")
}

/// A message of a view: its role, its kind unless it is simply shown, and its parts in short.
fn view_line(message: &ViewMessage) -> String {
    let kind = format!("{:?}", message.kind).to_lowercase();
    let kind = if kind == "shown" { String::new() } else { format!(" ({kind})") };
    let parts: Vec<String> = message.parts.iter().map(|part| part_in_short(&part.body)).collect();
    format!("{}{kind}: {}", format!("{:?}", message.role).to_lowercase(), parts.join(", "))
}

fn part_in_short(body: &PartBody) -> String {
    match body {
        PartBody::Text(text) => in_short(text),
        PartBody::Reasoning(text) => format!("reasoning {}", in_short(text)),
        PartBody::ToolCall(call) => format!("call {}#{} {}", call.tool, call.call_id, in_short(&call.input_json)),
        PartBody::ToolResult(result) => {
            format!("result {} {}+{}", result.call_id, in_short(&result.output), result.attachments.len())
        }
        PartBody::Media(media) => format!("media {}", media.mime_type),
        PartBody::Marker(marker) => format!("marker {}", in_short(&marker.text)),
        PartBody::Step(_) => "step".to_owned(),
        PartBody::Opaque(opaque) => format!("opaque {}", opaque.kind),
        PartBody::Record(record) => format!("record {}", record.kind),
    }
}

/// Both ends of a text with its length; the whole text if it is short.
fn in_short(text: &str) -> String {
    let count = text.chars().count();
    if count <= 2 * SHOWN_CHARS {
        return format!("{text:?}");
    }
    let start: String = text.chars().take(SHOWN_CHARS).collect();
    let end: String = text.chars().skip(count - SHOWN_CHARS).collect();
    format!("{start:?}..{count}..{end:?}")
}

/// Parses a line such as `context=200000 input=0 output=32000 model=gpt-5`.
fn window(text: &str) -> ModelWindow {
    let mut window = ModelWindow::default();
    for (key, value) in text.split_whitespace().filter_map(|word| word.split_once('=')) {
        if key == "model" {
            value.clone_into(&mut window.model);
            continue;
        }
        let tokens: i64 = value.parse().unwrap_or_else(|error| panic!("{value}: {error}"));
        match key {
            "context" => window.context = tokens,
            "input" => window.input = Some(tokens),
            "output" => window.output = Some(tokens),
            _ => panic!("unknown limit {key}"),
        }
    }
    window
}
