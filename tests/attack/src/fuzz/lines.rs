//! Damaged transcripts: rows that are glued together, repeated, cut, moved, or have values out of range.
//!
//! The head states what the file was made from. Every row that is still whole must be in the conversation once, and
//! every fragment in a record whose line is reported.

use super::import;
use super::mutate::Shape;
use super::{Decoder, Input, Outcome};
use anyhow::Result;
use longhand::interop::{self, Entry, Format, MALFORMED_RECORD, Options, REPEATED_RECORD, ReadError, Transcript};
use longhand::model::part::PartBody;
use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// Maximum number of rows of a conversation.
const ROWS_MAX: usize = 14;

/// Reader of damaged transcripts.
pub(super) struct Lines;

/// A row with its word, which stands between tildes in its content.
#[derive(Debug, Clone)]
struct Row {
    word: usize,
    text: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Message,
    Call,
    Result {
        call: usize,
    },
    Record,
    /// The first row of a pi session, which has no word.
    Header,
}

/// A piece of a file.
#[derive(Debug, Clone)]
enum Piece {
    Whole(Row),
    /// The beginning of a row, or zeros.
    Fragment(String),
    /// The end of a row, at the beginning of a line.
    Tail(String),
}

/// The rows of a conversation in a format, with the parents that they name or without.
fn rows(rng: &mut StdRng, format: Format, is_chained: bool) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    if format == Format::Pi {
        let header = json!({"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-02T03:04:05.000Z"});
        rows.push(Row { word: ROWS_MAX, text: header.to_string(), kind: Kind::Header });
    }
    for word in 0..rng.random_range(1..=ROWS_MAX) {
        let kind = match rows.last().map(|row| row.kind) {
            Some(Kind::Call) => Kind::Result { call: word - 1 },
            _ => [Kind::Message, Kind::Message, Kind::Call, Kind::Record][rng.random_range(0..4)],
        };
        let spoken = format!("~{word}~ {}", ["plain", "\u{e9}\u{1f600}", "{\"type\":\"user\"}", "a\\\"[,"][word % 4]);
        let parent = word.checked_sub(1).filter(|_| is_chained).map(|parent| format!("r{parent}"));
        let mut row = match format {
            Format::ClaudeCode => claude_row(word, parent, kind, &spoken),
            Format::Pi => pi_row(word, parent, kind, &spoken),
        };
        if rng.random_ratio(1, 8) {
            put_out_of_range(rng, &mut row);
        }
        rows.push(Row { word, text: row.to_string(), kind });
    }
    rows
}

fn claude_row(word: usize, parent: Option<String>, kind: Kind, spoken: &str) -> Value {
    let mut row = json!({"parentUuid": parent, "isSidechain": false, "sessionId": "s", "uuid": format!("r{word}"),
        "timestamp": "2026-01-02T03:04:05.250Z"});
    let reply = |block: Value| {
        json!({"id": format!("m{word}"), "role": "assistant", "model": "m", "content": [block],
            "usage": {"input_tokens": 3, "output_tokens": 1}})
    };
    let text = json!({"type": "text", "text": spoken});
    let (name, content) = match kind {
        Kind::Message if word.is_multiple_of(2) => ("user", json!({"role": "user", "content": [text]})),
        Kind::Message => ("assistant", reply(text)),
        Kind::Call => {
            let input = json!({"words": spoken});
            let call = json!({"type": "tool_use", "id": format!("c{word}"), "name": "read", "input": input});
            ("assistant", reply(call))
        }
        Kind::Result { call } => {
            let block = json!({"type": "tool_result", "tool_use_id": format!("c{call}"), "content": spoken});
            ("user", json!({"role": "user", "content": [block]}))
        }
        // The message of a sub-agent in its progress is no row, although it has an id and a time.
        Kind::Record | Kind::Header => {
            let inner = json!({"type": "user", "uuid": "inner", "timestamp": "2026-01-02T03:04:05.250Z",
                "message": {"role": "user", "content": spoken}});
            row["data"] = json!({"message": inner, "type": "agent_progress"});
            ("progress", Value::Null)
        }
    };
    row["type"] = name.into();
    if !content.is_null() {
        row["message"] = content;
    }
    row
}

fn pi_row(word: usize, parent: Option<String>, kind: Kind, spoken: &str) -> Value {
    let text = json!([{"type": "text", "text": spoken}]);
    let message = match kind {
        Kind::Message if word.is_multiple_of(2) => json!({"role": "user", "content": text, "timestamp": 1}),
        Kind::Message => json!({"role": "assistant", "content": text, "model": "m", "provider": "p",
            "usage": {"input": 3, "output": 68, "cost": {"total": 0.1}}, "stopReason": "stop", "timestamp": 1}),
        Kind::Call => {
            let input = json!({"words": spoken});
            let call = json!({"type": "toolCall", "id": format!("c{word}"), "name": "write", "arguments": input});
            json!({"role": "assistant", "content": [call], "stopReason": "toolUse"})
        }
        Kind::Result { call } => {
            json!({"role": "toolResult", "toolCallId": format!("c{call}"), "content": text, "isError": false})
        }
        Kind::Record | Kind::Header => Value::Null,
    };
    let mut row = json!({"type": "message", "id": format!("r{word}"), "parentId": parent,
        "timestamp": "2026-01-02T03:04:05.250Z", "message": message});
    if kind == Kind::Record {
        row["type"] = "custom".into();
        row["message"] = json!({"words": spoken});
    }
    row
}

/// Replaces a value that decides nothing about the row's position.
fn put_out_of_range(rng: &mut StdRng, row: &mut Value) {
    let fields = [
        "/timestamp",
        "/message/timestamp",
        "/message/usage/input_tokens",
        "/message/usage/output",
        "/message/usage/cost/total",
        "/message/model",
        "/message/provider",
        "/message/stopReason",
        "/message/content/0/name",
    ];
    let values = [
        json!(i64::MAX),
        json!(u64::MAX),
        json!(1e308),
        json!(-0.5),
        json!("+010000-01-01T00:00:00Z"),
        json!("-000001-01-01T00:00:00Z"),
        json!("x".repeat(300)),
        json!("\0\u{1b}[31m"),
        json!([[1]]),
        json!({}),
    ];
    if let Some(field) = row.pointer_mut(fields[rng.random_range(0..fields.len())]) {
        let is_name = field.as_str().is_some_and(|text| text == "read" || text == "write");
        // A call without a name is no call.
        let value = if is_name { rng.random_range(6..8) } else { rng.random_range(0..values.len()) };
        *field = values[value].clone();
    }
}

/// A position inside a text, at a character.
fn inside(rng: &mut StdRng, text: &str) -> usize {
    text.ceil_char_boundary(rng.random_range(1..text.len()))
}

/// Damages a conversation: the pieces of the file in their order, and true if it must stay one conversation.
fn damage(rng: &mut StdRng, format: Format, rows: &[Row]) -> (Vec<Piece>, bool) {
    let mut pieces: Vec<Piece> = rows.iter().cloned().map(Piece::Whole).collect();
    if rng.random_ratio(1, 6) {
        pieces.extend(rows.iter().cloned().map(Piece::Whole));
    }
    let (mut moved, mut cut) = (false, false);
    for _ in 0..rng.random_range(0..4) {
        let (at, to) = (rng.random_range(0..pieces.len()), rng.random_range(0..=pieces.len()));
        let row = &rows[rng.random_range(0..rows.len())];
        match rng.random_range(0..6) {
            0 => {
                let mut row = row.clone();
                // Claude Code may repeat a message with other members beside it.
                if format == Format::ClaudeCode && row.kind != Kind::Record && rng.random() {
                    row.text = format!("{{\"gitBranch\":\"other\",{}", &row.text[1..]);
                }
                pieces.insert(to, Piece::Whole(row));
                moved = true;
            }
            1 => {
                let piece = pieces.remove(at);
                pieces.insert(to.min(pieces.len()), piece);
                moved = true;
            }
            2 => {
                pieces[at] = Piece::Fragment(row.text[..inside(rng, &row.text)].to_owned());
                cut = true;
            }
            3 => pieces.insert(to, Piece::Fragment(row.text[..inside(rng, &row.text)].to_owned())),
            4 => pieces.insert(to, Piece::Tail(row.text[inside(rng, &row.text)..].to_owned())),
            _ => pieces.insert(to, Piece::Fragment("\0".repeat(rng.random_range(1..9)))),
        }
    }
    // Rows that follow a lost one follow the line before theirs, which moved rows may change.
    (pieces, !(moved && cut))
}

/// Writes pieces to a file, most of them on lines of their own.
fn write(rng: &mut StdRng, pieces: &[Piece]) -> String {
    let mut text = String::new();
    for piece in pieces {
        let glue = ["", "", " ", "\t", "\r", "\u{feff}"][rng.random_range(0..6)];
        let is_glued = !matches!(piece, Piece::Tail(_)) && rng.random_ratio(1, 4);
        text.push_str(if is_glued { glue } else { ["\n", "\r\n", "\n\n"][rng.random_range(0..3)] });
        match piece {
            Piece::Whole(row) => text.push_str(&row.text),
            Piece::Fragment(fragment) | Piece::Tail(fragment) => text.push_str(fragment),
        }
    }
    text
}

/// What a file was made from, as JSON: the words of its whole rows by kind, the calls without a result, the fragments,
/// and if it must be one conversation.
fn expectation(format: Format, pieces: &[Piece], one: bool) -> Value {
    let whole: HashMap<usize, Kind> = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Whole(row) if row.kind != Kind::Header => Some((row.word, row.kind)),
            Piece::Whole(_) | Piece::Fragment(_) | Piece::Tail(_) => None,
        })
        .collect();
    let words = |record: bool| {
        let mut words: Vec<usize> =
            whole.iter().filter(|(_, kind)| (**kind == Kind::Record) == record).map(|(word, _)| *word).collect();
        words.sort_unstable();
        words
    };
    let answered: HashSet<usize> =
        whole.values().filter_map(|kind| if let Kind::Result { call } = kind { Some(*call) } else { None }).collect();
    let unanswered = whole.iter().filter(|(word, kind)| **kind == Kind::Call && !answered.contains(word)).count();
    let fragments: Vec<&str> = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Fragment(fragment) | Piece::Tail(fragment) => Some(fragment.trim()),
            Piece::Whole(_) => None,
        })
        .collect();
    json!({"format": format.name(), "messages": words(false), "records": words(true), "unanswered": unanswered,
        "fragments": fragments, "one": one})
}

/// The words of a transcript: of its messages, and of the records that stand for rows.
#[derive(Debug, Default)]
struct Words {
    messages: Vec<u64>,
    records: Vec<u64>,
    malformed: String,
    malformed_lines: Vec<usize>,
}

impl Words {
    fn of(transcript: &Transcript) -> Self {
        let mut words = Self::default();
        words.add(transcript);
        words.messages.sort_unstable();
        words.records.sort_unstable();
        words
    }

    fn add(&mut self, transcript: &Transcript) {
        for entry in transcript.branches.iter().flat_map(|branch| &branch.entries) {
            let (Entry::Message { message, .. } | Entry::Record { message, .. }) = entry else { continue };
            for part in &message.parts {
                match &*part.body {
                    PartBody::Text(text) => self.messages.extend(spoken(text)),
                    PartBody::ToolCall(call) => self.messages.extend(spoken(&call.input_json)),
                    PartBody::ToolResult(result) => self.messages.extend(spoken(&result.output)),
                    PartBody::Record(record) if record.kind == MALFORMED_RECORD => {
                        self.malformed.push_str(&record.data);
                        self.malformed_lines.push(entry.line());
                    }
                    PartBody::Record(record) if record.kind == REPEATED_RECORD => {}
                    PartBody::Record(record) => self.records.extend(spoken(&record.data)),
                    _ => {}
                }
            }
        }
        transcript.children.iter().for_each(|child| self.add(child));
    }
}

fn spoken(text: &str) -> impl Iterator<Item = u64> {
    text.split('~').skip(1).step_by(2).filter_map(|word| word.parse().ok())
}

/// Checks a transcript against what its file was made from.
fn compare(transcript: &Transcript, expected: &Value) -> Result<(), String> {
    let words = Words::of(transcript);
    if json!(words.messages) != expected["messages"] || json!(words.records) != expected["records"] {
        let (messages, records) = (&words.messages, &words.records);
        return Err(format!("of the whole rows it has the messages {messages:?} and the records {records:?}"));
    }
    let unanswered = interop::expectations(transcript).unanswered_calls;
    if json!(unanswered) != expected["unanswered"] {
        return Err(format!("{unanswered} calls have no result"));
    }
    let sessions = transcript.branches.len() + transcript.children.len();
    if expected["one"] == true && sessions != 1 {
        return Err(format!("the conversation is torn into {sessions}"));
    }
    let mut fragments = expected["fragments"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(lost) = fragments.find(|fragment| !words.malformed.contains(fragment)) {
        return Err(format!("the fragment {lost:?} is in no record"));
    }
    let reported: HashSet<usize> = transcript.problems.iter().map(|problem| problem.line).collect();
    match words.malformed_lines.iter().find(|line| !reported.contains(line)) {
        Some(line) => Err(format!("the fragment of line {line} is not reported")),
        None => Ok(()),
    }
}

impl Decoder for Lines {
    fn seeds(&mut self) -> Result<Vec<Input>> {
        Ok(Vec::new())
    }

    fn shape(&self, _: &str) -> Shape {
        Shape::Lines
    }

    fn draw(&mut self, rng: &mut StdRng, _: &[Input]) -> Input {
        let format = if rng.random() { Format::Pi } else { Format::ClaudeCode };
        let is_chained = !rng.random_ratio(1, 10);
        let rows = rows(rng, format, is_chained);
        let (pieces, one) = damage(rng, format, &rows);
        // Requests of pi without parents may be edits of the first one.
        let one = one && (is_chained || format == Format::ClaudeCode);
        Input::new(expectation(format, &pieces, one).to_string(), write(rng, &pieces))
    }

    fn attempt(&mut self, input: &Input) -> Result<Outcome, String> {
        let expected: Value = serde_json::from_str(&input.head).map_err(|error| format!("the head: {error}"))?;
        let nothing = expected["messages"] == json!([]) && expected["records"] == json!([]);
        match interop::parse(&input.body[..], &Options::default()) {
            Err(ReadError::UnknownFormat) if nothing => Ok(Outcome::Refused),
            Err(error) => Err(error.to_string()),
            Ok(transcript) if json!(transcript.format.name()) != expected["format"] => {
                Err(format!("it was taken for a file of {}", transcript.format.name()))
            }
            Ok(transcript) => {
                import::check(&transcript)?;
                compare(&transcript, &expected).map(|()| Outcome::Taken)
            }
        }
    }
}
