//! Tool calls: the kind of a call, derived from its name and the shape of its input.
//!
//! Agents name their tools differently; common to them are a path, a command or a list of tasks in the input, and a
//! verb in the name.

use longhand_core::policy::Topic;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) enum Kind {
    /// Creates a file, or replaces all of it.
    Write,
    Edit,
    Command,
    /// Asks the user a question, and gets the answer.
    Ask,
    #[default]
    Other,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) text: String,
    /// The topic of its state: done, in progress, or a next step.
    pub(super) topic: Topic,
}

/// The effect of a call on one file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct FileEffect {
    pub(super) path: String,
    pub(super) kind: Kind,
    /// The text before, as far as the call contains it.
    pub(super) removed: String,
    pub(super) added: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ToolUse {
    pub(super) kind: Kind,
    /// The files it works on; a patch has several, and a file that is edited in several places has an entry for each.
    pub(super) touches: Vec<FileEffect>,
    pub(super) command: Option<String>,
    pub(super) tasks: Vec<Task>,
    /// The first text of its input, which describes the call if nothing else does.
    pub(super) about: String,
}

const PATH_KEYS: &str = "\
    path file_path filePath filepath absolute_path target_file notebook_path file filename relative_path \
    relativePath uri";
const REMOVED_KEYS: &str = "old_string oldText old_str oldString old_text search old";
const ADDED_KEYS: &str =
    "new_string newText new_str newString new_text replace new content file_text contents new_source text";
const COMMAND_KEYS: &[&str] = &["command", "cmd", "script", "shell_command"];
const LIST_KEYS: &[&str] = &["todos", "plan", "tasks", "items", "todo_list", "steps"];
const TASK_KEYS: &[&str] = &["content", "step", "text", "title", "subject", "task", "description"];
const WRITERS: &[&str] = &["write", "create", "save"];
const EDITORS: &[&str] = &["edit", "patch", "replace", "insert", "modify", "update", "append"];
const ASKERS: &[&str] = &["question", "elicit", "followup"];
const RUNNERS: &[&str] = &["bash", "shell", "exec", "terminal", "command", "run", "powershell", "cmd"];

/// Parses a tool call. An input that is not JSON is treated as a text.
pub(super) fn understand(tool: &str, input_json: &str) -> ToolUse {
    let input: Value = serde_json::from_str(input_json).unwrap_or_else(|_| Value::String(input_json.to_owned()));
    let name = tool.rsplit("__").next().unwrap_or(tool).to_ascii_lowercase();
    let path =
        PATH_KEYS.split(' ').find_map(|key| input.get(key).and_then(Value::as_str)).filter(|path| !path.is_empty());
    let command = COMMAND_KEYS.iter().find_map(|key| input.get(*key).and_then(command_text));
    let tasks = tasks_of(&input);
    let patched = patched(&input);
    let kind = match tasks.is_empty() {
        true => kind_of(&name, path.is_some(), command.as_deref(), !patched.is_empty()),
        false => Kind::Other,
    };
    let command = command.filter(|_| kind == Kind::Command);
    let touches = match (patched.is_empty(), path) {
        (false, _) => patched,
        (true, Some(path)) => touches_of(path, kind, &input),
        (true, None) => Vec::new(),
    };
    let mut about = None;
    collect_texts(&input, &mut |text| about = about.or(Some(text)));
    let about = super::commands::head(about.unwrap_or_default(), 200).to_owned();
    ToolUse { kind, touches, command, tasks, about }
}

/// The changes of a call to the file it names, one per edited place.
fn touches_of(path: &str, kind: Kind, input: &Value) -> Vec<FileEffect> {
    let field = |value: &Value, keys: &str| {
        keys.split(' ').find_map(|key| value.get(key).and_then(Value::as_str)).unwrap_or_default().to_owned()
    };
    let touch = |value: &Value| {
        let (removed, added) = (field(value, REMOVED_KEYS), field(value, ADDED_KEYS));
        FileEffect { path: path.to_owned(), kind, removed, added }
    };
    match input.get("edits").and_then(Value::as_array) {
        Some(edits) if !edits.is_empty() => edits.iter().map(touch).collect(),
        _ => vec![touch(input)],
    }
}

fn kind_of(name: &str, has_path: bool, command: Option<&str>, is_patch: bool) -> Kind {
    let has_verb = |known: &[&str]| known.iter().any(|word| name.contains(word));
    if is_patch {
        return Kind::Edit;
    }
    // Editors that take a sub-command: `{"command": "view", "path": "…"}`.
    if let (true, Some(command)) = (has_path, command)
        && !command.contains(' ')
    {
        return match command {
            "view" => Kind::Other,
            "create" => Kind::Write,
            _ => Kind::Edit,
        };
    }
    if command.is_some() && (has_verb(RUNNERS) || !has_path) {
        return Kind::Command;
    }
    if has_path && has_verb(EDITORS) {
        Kind::Edit
    } else if has_path && has_verb(WRITERS) {
        Kind::Write
    } else if name.starts_with("ask") || has_verb(ASKERS) {
        Kind::Ask
    } else {
        Kind::Other
    }
}

/// A command as one text; some agents pass a list of words, after the shell that runs them.
fn command_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            match words.as_slice() {
                [_, flag, script] if flag.starts_with('-') && flag.ends_with('c') => Some((*script).to_owned()),
                [] => None,
                words => Some(words.join(" ")),
            }
        }
        _ => None,
    }
    .filter(|text| !text.trim().is_empty())
}

fn tasks_of(input: &Value) -> Vec<Task> {
    let Some(list) = LIST_KEYS.iter().find_map(|key| input.get(*key).and_then(Value::as_array)) else {
        return Vec::new();
    };
    let read = |entry: &Value| {
        let topic = topic_of(entry)?;
        let text = TASK_KEYS.iter().find_map(|key| entry.get(*key).and_then(Value::as_str))?;
        Some(Task { text: text.to_owned(), topic })
    };
    list.iter().filter_map(read).collect()
}

/// None for a task that was dropped.
fn topic_of(entry: &Value) -> Option<Topic> {
    let status = entry.get("status").or_else(|| entry.get("state")).and_then(Value::as_str)?;
    match status.to_ascii_lowercase().replace(['-', ' '], "_").as_str() {
        "completed" | "complete" | "done" | "finished" | "closed" => Some(Topic::Done),
        "in_progress" | "active" | "doing" | "running" | "started" => Some(Topic::InProgress),
        "cancelled" | "canceled" | "dropped" | "deleted" | "skipped" => None,
        _ => Some(Topic::NextSteps),
    }
}

/// The files of a patch in the form `*** Update File: path`, with the lines it removes and adds.
fn patched(input: &Value) -> Vec<FileEffect> {
    let mut touches: Vec<FileEffect> = Vec::new();
    collect_texts(input, &mut |text| {
        if !text.contains("*** ") {
            return;
        }
        for line in text.lines() {
            for (mark, kind) in [("Add", Kind::Write), ("Update", Kind::Edit), ("Delete", Kind::Edit)] {
                let path = line.strip_prefix("*** ").and_then(|rest| rest.strip_prefix(mark));
                if let Some(path) = path.and_then(|rest| rest.strip_prefix(" File: ")) {
                    touches.push(FileEffect { path: path.trim().to_owned(), kind, ..FileEffect::default() });
                }
            }
            let Some(touch) = touches.last_mut() else { continue };
            if let Some(line) = line.strip_prefix('+') {
                touch.added.extend([line, "\n"]);
            } else if let Some(line) = line.strip_prefix('-') {
                touch.removed.extend([line, "\n"]);
            }
        }
    });
    touches
}

fn collect_texts<'a>(value: &'a Value, take: &mut impl FnMut(&'a str)) {
    match value {
        Value::String(text) => take(text),
        Value::Array(values) => values.iter().for_each(|value| collect_texts(value, take)),
        Value::Object(fields) => fields.values().for_each(|value| collect_texts(value, take)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
