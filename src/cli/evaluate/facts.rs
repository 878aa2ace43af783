//! Facts of a conversation: files, identifiers, commands, errors, figures and open items, recognized by their form.
//!
//! The patterns of files and identifiers are those of an independent measure, so that results can be compared: a file
//! is the last segment of a path with an extension, an identifier is `snake_case`, `Dotted.Name` or `camelCase`.

use crate::model::message::Message;
use crate::model::part::{PartBody, ResultStatus};
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

static PATH: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:/|\b)[\w.@~-]+(?:/[\w.@~-]+)+\.\w+"));
static IDENTIFIER: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\b(?:[a-z]+_[a-z_0-9]+|[A-Z][a-zA-Z0-9]+\.[A-Za-z_.]+|[a-z]+[A-Z]\w+)\b"));
static ERROR: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)\b(?:error|exception|panicked|fatal|failed|failure|undefined|denied|cannot|not found|no such)\b")
});
static FIGURE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\d+(?:[.,]\d+)*(?:\s?(?:%|(?:ms|kB|KB|MB|GB|KiB|MiB)\b))?"));
static OPEN_ITEM: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^\s*[-*] \[ \] (.+)$"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern")
}

/// Minimum length of an error line, in characters.
const ERROR_CHARS_MIN: usize = 12;
/// Length of the beginning that identifies a longer error line, in characters.
const ERROR_CHARS_MAX: usize = 80;
/// Length of the beginning that identifies a longer command, in characters.
const COMMAND_CHARS_MAX: usize = 120;
/// Minimum number of digits of a whole number: shorter ones occur everywhere.
const FIGURE_DIGITS_MIN: usize = 3;

/// Kinds of facts, in the order of the report.
pub(super) const KINDS: [&str; 6] = ["files", "identifiers", "commands", "errors", "figures", "to_dos"];

/// The facts of some messages, a set for each kind.
pub(super) type Facts = [BTreeSet<String>; KINDS.len()];

/// Texts of some messages: words, inputs of calls, outputs of results.
#[derive(Debug, Default)]
struct Texts {
    words: String,
    inputs: String,
    /// The strings in the inputs, without the escapes of JSON.
    strings: String,
    outputs: String,
    /// Outputs in which an error line reports an error: those of failed calls, and of commands that do more than show
    /// the content of files.
    reports: String,
    commands: BTreeSet<String>,
    /// Open items of the newest list, in a call or in words.
    open_items: BTreeSet<String>,
}

impl Texts {
    fn from_messages(messages: &[Message]) -> Self {
        let mut texts = Self::default();
        let mut commands: HashMap<&str, String> = HashMap::new();
        for part in messages.iter().flat_map(|message| &message.parts) {
            match &*part.body {
                PartBody::Text(text) => {
                    texts.words.push_str(text);
                    texts.words.push('\n');
                    texts.items_in_words(text);
                }
                PartBody::ToolCall(call) => {
                    texts.inputs.push_str(&call.input_json);
                    texts.inputs.push('\n');
                    commands.extend(texts.call(&call.input_json).map(|command| (call.call_id.as_str(), command)));
                }
                PartBody::ToolResult(result) => {
                    texts.outputs.push_str(&result.output);
                    texts.outputs.push('\n');
                    let runs = commands.get(result.call_id.as_str()).is_some_and(|command| !shows_files(command));
                    if runs || result.status == ResultStatus::Error {
                        texts.reports.push_str(&result.output);
                        texts.reports.push('\n');
                    }
                }
                PartBody::Reasoning(_)
                | PartBody::Media(_)
                | PartBody::Marker(_)
                | PartBody::Step(_)
                | PartBody::Opaque(_)
                | PartBody::Record(_) => {}
            }
        }
        texts
    }

    /// Adds the strings, the command and the list of a call. Returns the command.
    fn call(&mut self, input_json: &str) -> Option<String> {
        let value = serde_json::from_str::<Value>(input_json).ok()?;
        add_strings(&value, &mut self.strings);
        let Value::Object(fields) = value else { return None };
        let command = ["command", "cmd"].iter().find_map(|name| fields.get(*name)).and_then(Value::as_str);
        self.commands.extend(command.and_then(command_head));
        let list = ["todos", "items", "plan"].iter().find_map(|name| fields.get(*name)).and_then(Value::as_array);
        if let Some(list) = list {
            let open = |item: &Value| {
                let status = item.get("status")?.as_str()?;
                let words = ["content", "step", "title"].iter().find_map(|name| item.get(*name))?.as_str()?;
                (!matches!(status, "completed" | "done" | "cancelled")).then(|| words.trim().to_owned())
            };
            self.open_items = list.iter().filter_map(open).collect();
        }
        command.map(str::to_owned)
    }

    fn items_in_words(&mut self, text: &str) {
        let items: BTreeSet<String> =
            OPEN_ITEM.captures_iter(text).map(|found| found[1].trim().trim_matches('*').to_owned()).collect();
        if !items.is_empty() {
            self.open_items = items;
        }
    }

    fn everything(&self) -> String {
        [self.words.as_str(), &self.inputs, &self.outputs].join(" ")
    }

    /// The text in which facts are searched; includes commands and items in the form in which they were taken from
    /// inputs.
    fn searched(&self) -> String {
        let commands = self.commands.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
        [self.everything().as_str(), &self.strings, &commands].join("\n")
    }
}

/// Adds the strings in a value, one per line.
fn add_strings(value: &Value, strings: &mut String) {
    match value {
        Value::String(text) => {
            strings.push_str(text);
            strings.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| add_strings(item, strings)),
        Value::Object(fields) => fields.values().for_each(|field| add_strings(field, strings)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The first program of a command and its arguments, without changes of directory and redirections; none for a single
/// word.
pub(super) fn command_head(command: &str) -> Option<String> {
    let head = first_program(command)?.split_whitespace().collect::<Vec<_>>().join(" ");
    let head = head.trim_end_matches(" 2").to_owned();
    // A single word, such as `ls`, occurs in every conversation.
    head.contains(' ').then(|| beginning(&head, COMMAND_CHARS_MAX).to_owned())
}

fn first_program(command: &str) -> Option<&str> {
    let mut simple = command.split(['\n', ';', '|', '>']).flat_map(|piece| piece.split("&&")).map(str::trim);
    simple.find(|piece| !piece.is_empty() && !piece.starts_with("cd ") && !piece.starts_with('#'))
}

/// True if a command only shows the content of files, in which an error line reports no error.
fn shows_files(command: &str) -> bool {
    const READERS: [&str; 12] = ["cat", "head", "tail", "sed", "awk", "less", "grep", "rg", "find", "ls", "git", "wc"];
    let program = first_program(command).and_then(|words| words.split_whitespace().next());
    program.is_none_or(|program| READERS.contains(&program))
}

fn beginning(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}

/// The last segments of the paths in a text.
pub(super) fn files(text: &str) -> BTreeSet<String> {
    let paths = PATH.find_iter(text).filter_map(|found| found.as_str().rsplit('/').next());
    paths.map(str::to_owned).collect()
}

/// The identifiers in a text.
pub(super) fn identifiers(text: &str) -> BTreeSet<String> {
    IDENTIFIER.find_iter(text).map(|found| found.as_str().to_owned()).collect()
}

fn errors(text: &str) -> BTreeSet<String> {
    let lines = text.lines().map(str::trim).filter(|line| line.chars().count() >= ERROR_CHARS_MIN);
    lines.filter(|line| ERROR.is_match(line)).map(|line| beginning(line, ERROR_CHARS_MAX).trim().to_owned()).collect()
}

/// Significant numbers: those with a unit, a fraction or enough digits, but none inside names and paths.
fn figures(text: &str) -> BTreeSet<String> {
    let is_bound = |letter: Option<char>| {
        letter
            .is_some_and(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '/' | ':' | '.' | '-' | '#' | '→'))
    };
    let is_standalone = |start: usize, end: usize| {
        let mut behind = text[end..].chars();
        let next = behind.next().filter(|letter| *letter != '.' || is_bound(behind.next()));
        !is_bound(text[..start].chars().next_back()) && !is_bound(next.filter(|letter| *letter != ':'))
    };
    let is_distinctive = |figure: &str| {
        let digits = figure.chars().filter(char::is_ascii_digit).count();
        digits >= FIGURE_DIGITS_MIN || figure.contains(['.', ',']) || !figure.ends_with(|c: char| c.is_ascii_digit())
    };
    let figures = FIGURE.find_iter(text).filter(|figure| is_standalone(figure.start(), figure.end()));
    figures.map(|figure| figure.as_str().to_owned()).filter(|figure| is_distinctive(figure)).collect()
}

/// Facts from before a boundary that are used again after it: files in calls; identifiers and figures in words and
/// calls; commands that are run again; reported errors that occur again anywhere; items that were open at the boundary
/// and are mentioned or listed again.
pub(super) fn used_again(before: &[Message], after: &[Message]) -> Facts {
    let (before, after) = (Texts::from_messages(before), Texts::from_messages(after));
    let everything = before.everything();
    let after_text = format!("{}{}", after.words, after.inputs);
    let both = |known: BTreeSet<String>, used: BTreeSet<String>| -> BTreeSet<String> {
        known.intersection(&used).cloned().collect()
    };
    let all_after = after.searched();
    let comes_up = |fact: &String| all_after.contains(fact.as_str());
    [
        both(files(&everything), files(&after.inputs)),
        both(identifiers(&everything), identifiers(&after_text)),
        both(before.commands, after.commands),
        errors(&before.reports).into_iter().filter(comes_up).collect(),
        both(figures(&everything), figures(&after_text)),
        before.open_items.into_iter().filter(comes_up).collect(),
    ]
}

/// The text of messages in which facts are searched.
pub(super) fn words_of(messages: &[Message]) -> String {
    Texts::from_messages(messages).searched()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: BTreeSet<String>, expected: &[&str]) {
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn files_are_the_last_segments_of_paths() {
        check(files("see /src/a/main.rs and lib/b.py, not c.rs or https"), &["b.py", "main.rs"]);
    }

    #[test]
    fn identifiers_are_no_everyday_words() {
        let text = "run parse_header, then readHeader of Http.Client in A word";
        check(identifiers(text), &["Http.Client", "parse_header", "readHeader"]);
    }

    #[test]
    fn commands_lose_what_is_around_them() {
        for (command, expected) in [
            ("cd /a && mix test  test/a_test.exs 2>&1 | tail -3", Some("mix test test/a_test.exs")),
            ("cargo test --lib; echo done", Some("cargo test --lib")),
            ("# look\nls -la", Some("ls -la")),
            ("ls", None),
            ("", None),
        ] {
            assert_eq!(command_head(command).as_deref(), expected, "{command}");
        }
    }

    #[test]
    fn errors_are_lines_with_an_error_word() {
        let text = "ok\n  error[E0502]: cannot borrow `a`\nfine\nError\nthread panicked at src/a.rs:3";
        check(errors(text), &["error[E0502]: cannot borrow `a`", "thread panicked at src/a.rs:3"]);
    }

    #[test]
    fn the_word_error_in_a_file_is_no_error() {
        for (command, expected) in [
            ("cargo test --lib", false),
            ("cd /a && npm run check | tail", false),
            ("cat notes.md", true),
            ("cd /a; grep -rn error src", true),
            ("", true),
        ] {
            assert_eq!(shows_files(command), expected, "{command}");
        }
    }

    #[test]
    fn figures_are_whole_and_specific() {
        let text = "it took 41 ms, 3 times, 99.5 % of 16384 bytes; see a.rs:812, v1_200, /tmp/900 and 1,250. 812→x";
        check(figures(text), &["1,250", "16384", "41 ms", "99.5 %"]);
    }

    #[test]
    fn facts_in_inputs_are_found_although_json_escapes_them() {
        let mut texts = Texts::default();
        texts.call(r#"{"command": "cd /a && git  commit -m \"say \\\"hi\\\"\"", "todos": []}"#);
        texts.call(r#"{"todos": [{"content": "print \"caf\u00e9\"", "status": "pending"}]}"#);
        let searched = texts.searched();
        assert_eq!((texts.commands.len(), texts.open_items.len()), (1, 1));
        for fact in texts.commands.iter().chain(&texts.open_items) {
            assert!(searched.contains(fact.as_str()), "{fact} in\n{searched}");
        }
    }

    #[test]
    fn open_tasks_are_those_of_the_newest_list() {
        let mut texts = Texts::default();
        texts.call(r#"{"todos": [{"content": "old", "status": "pending"}]}"#);
        texts.call(
            r#"{"todos": [{"content": "new", "status": "in_progress"}, {"content": "x", "status": "completed"}]}"#,
        );
        check(texts.open_items.clone(), &["new"]);
        texts.items_in_words("Left:\n- [x] done\n- [ ] write the tests\n");
        check(texts.open_items, &["write the tests"]);
    }
}
