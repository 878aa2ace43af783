//! Decisions written down beside the conversations they are made for: `tests/golden/<preset>/*.txt`.
//!
//! A file begins with comments that say where the expected decisions come from. Then sections follow, each under a line
//! `== name`, read from top to bottom. `policy` (a merge patch on the folder's preset), `window` and `input` (see
//! `dsl`) set what the next ones are asked about; `due`, `tokens`, `prune` and `select` hold what must come out.
//! With `LONGHAND_BLESS=1` in the environment the files are rewritten with what does come out.

use super::{Policy, dsl, overflow, presets, prune, select, tokens};
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders, and how few files each may have before something is wrong with the search itself.
const FOLDERS: [(&str, &str, usize); 2] = [("opencode-seed", "opencode@seed", 5), ("pi-1.5", "pi@1.5", 4)];

#[test]
fn decisions_are_as_written_down() {
    let bless = std::env::var_os("LONGHAND_BLESS").is_some();
    let mut wrong = Vec::new();
    for (folder, preset, at_least) in FOLDERS {
        let files = files(folder);
        assert!(files.len() >= at_least, "{folder} has {} files only", files.len());
        for file in files {
            let written = fs::read_to_string(&file).expect("a golden file can be read");
            let actual = run(preset, &file, &written);
            if bless {
                fs::write(&file, actual).expect("a golden file can be written");
            } else if actual != written {
                wrong.push(format!("{}:\n{actual}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "other decisions than written down:\n{}", wrong.join("\n"));
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder entry").path()).collect();
    files.sort();
    files
}

/// The file as it would have to be.
fn run(preset: &str, file: &Path, written: &str) -> String {
    let (header, sections) = written.split_once("\n== ").unwrap_or_else(|| panic!("{}: no sections", file.display()));
    let cites = header.lines().all(|line| line.starts_with('#')) && header.contains('§');
    assert!(cites, "{}: the header does not say which section the decisions come from", file.display());
    let preset = presets::find(preset).expect("a preset").policy();
    let mut case = Case { policy: preset.clone(), window: ModelWindow::default(), messages: Vec::new() };
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
    messages: Vec<SourceMessage>,
}

impl Case {
    fn answer(&self, section: &str) -> String {
        match section {
            "due" => match overflow::due_at(&self.policy, &self.window) {
                Some(tokens) => format!("at {tokens}, usable {}", overflow::usable(&self.policy, &self.window)),
                None => "never".to_owned(),
            },
            "tokens" => self.tokens(),
            "prune" => self.prune(),
            "select" => self.select(),
            _ => panic!("unknown section {section}"),
        }
    }

    fn tokens(&self) -> String {
        let line = |source| format!("{} {}", dsl::name(source), tokens::estimate_source(&self.policy, source));
        let lines: Vec<String> = self.messages.iter().map(line).collect();
        let all = tokens::Weights::of(&self.policy, &self.messages).tokens(0..self.messages.len());
        format!("{}\nall {all}", lines.join("\n"))
    }

    fn prune(&self) -> String {
        let plan = prune::select(&self.policy, &self.messages);
        if plan.parts.is_empty() {
            return "nothing".to_owned();
        }
        let names = dsl::part_names(&self.messages);
        let parts: Vec<&str> = plan.parts.iter().map(|id| names[id].trim_end_matches(":result")).collect();
        format!("prune {} (freed {}t)", parts.join(" "), plan.freed_tokens)
    }

    fn select(&self) -> String {
        let selection = select::select(&self.policy, &self.window, &self.messages);
        let (head, tail) = self.messages.split_at(selection.head_end);
        let turn = selection.split_turn_start.map(|start| format!(" | splits {}", dsl::name(&self.messages[start])));
        format!("head {} | tail {}{}", span(head), span(tail), turn.unwrap_or_default())
    }
}

/// The first and the last message by name.
fn span(messages: &[SourceMessage]) -> String {
    match messages {
        [] => "-".to_owned(),
        [only] => dsl::name(only).to_owned(),
        [first, .., last] => format!("{}..{}", dsl::name(first), dsl::name(last)),
    }
}

/// A line such as `context=200000 input=0 output=32000`.
fn window(text: &str) -> ModelWindow {
    let mut window = ModelWindow::default();
    for (key, value) in text.split_whitespace().filter_map(|word| word.split_once('=')) {
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
