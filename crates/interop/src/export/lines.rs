//! The lines of a file, put together again from the messages and records that an import made of them.

use super::session::{Message, Session};
use crate::outsized::LINE_RECORD;
use crate::raw::{self, Object, quote};
use crate::transcript::{MALFORMED_RECORD, REPEATED_RECORD, REST_RECORD};
use crate::{Format, claude_code, pi};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use longhand_model::part::{Media, MediaSource, NewPart, PartBody};
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Position of a line: its number, and the byte at which its piece begins.
type Position = (u64, u64);

/// A line of the file that a session was imported from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Its position, as far as it is known.
    pub(super) position: Position,
    /// The line.
    pub(super) text: String,
}

/// The lines of a session's messages.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// By the message's index, what it was made from. A message that shares its line with an earlier one has none of its
    /// own.
    pub(super) of: HashMap<usize, Vec<Line>>,
    /// Records that hold pieces of other lines, and messages with words that the record of a line has too.
    pub(super) pieces: HashSet<usize>,
    /// Messages that share a line, by the line.
    pub(super) sharing: HashMap<Position, Vec<usize>>,
}

/// What is known of a line.
#[derive(Default)]
struct KnownLine<'a> {
    rest: Option<&'a str>,
    whole: Option<String>,
    moved: Vec<(String, String)>,
    users: Vec<usize>,
    is_twice: bool,
}

/// Puts the lines of a session together that came from a file of the format.
pub(super) fn restore(session: &Session, format: Format) -> Lines {
    let mut lines = Lines::default();
    let mut known: HashMap<Position, KnownLine<'_>> = HashMap::new();
    let mut of_message: HashMap<usize, Vec<Position>> = HashMap::new();
    let by_id = records_by_id(session);
    for (index, message) in session.messages.iter().enumerate() {
        match message.record() {
            Some((REST_RECORD, data)) => {
                lines.pieces.insert(index);
                note(&mut known, data, None, format, &by_id);
            }
            Some((LINE_RECORD, _)) if piece(message).is_some() => {
                lines.pieces.insert(index);
            }
            Some(_) => {}
            None => {
                let Some(metadata) = &message.metadata_json else { continue };
                let positions = note(&mut known, metadata, Some((index, message)), format, &by_id);
                if !positions.is_empty() {
                    of_message.insert(index, positions);
                }
            }
        }
    }
    of_message.retain(|index, positions| {
        // The line's record has all of it.
        let is_in_record = |(line, column): &Position| {
            let id = if *column == 1 { format!("line:{line}") } else { format!("line:{line}:{column}") };
            !known.get(&(*line, *column)).is_some_and(KnownLine::has_any) && by_id.contains_key(id.as_str())
        };
        !positions.iter().all(is_in_record) || !lines.pieces.insert(*index)
    });
    let texts: HashMap<Position, Option<String>> =
        known.iter().map(|(position, known)| (*position, known.text())).collect();
    let mut owned = HashSet::new();
    for (index, positions) in &in_order(&of_message) {
        let whole = positions.iter().all(|position| texts.get(position).is_some_and(Option::is_some));
        if !whole {
            continue;
        }
        let mut own = Vec::new();
        for position in *positions {
            lines.sharing.entry(*position).or_default().push(*index);
            if let (true, Some(Some(text))) = (owned.insert(*position), texts.get(position)) {
                own.push(Line { position: *position, text: text.clone() });
            }
        }
        lines.of.insert(*index, own);
    }
    let is_imported = !of_message.is_empty() || source_format(session).as_deref() == Some(format.name());
    if is_imported {
        records(session, format, &mut lines);
    }
    lines
}

/// The format of the file that a session was imported from, as its metadata names it.
fn source_format(session: &Session) -> Option<String> {
    let metadata = Object::parse(session.metadata_json.as_deref()?, 1).ok()?;
    metadata.object("source")?.id("format")
}

fn in_order(of_message: &HashMap<usize, Vec<Position>>) -> Vec<(usize, &Vec<Position>)> {
    let mut ordered: Vec<_> = of_message.iter().map(|(index, positions)| (*index, positions)).collect();
    ordered.sort_by_key(|(index, _)| *index);
    ordered
}

fn records_by_id(session: &Session) -> HashMap<&str, &str> {
    let named =
        session.messages.iter().filter_map(|message| Some((message.client_id.as_deref()?, message.record()?.1)));
    named.collect()
}

/// Notes what a message's metadata, or a record of a rest, has of lines; returns their positions.
fn note<'a>(
    known: &mut HashMap<Position, KnownLine<'a>>,
    metadata: &'a str,
    message: Option<(usize, &Message)>,
    format: Format,
    records: &HashMap<&str, &str>,
) -> Vec<Position> {
    let Ok(object) = Object::parse(metadata, 1) else { return Vec::new() };
    if object.string("format") != format.name() {
        return Vec::new();
    }
    let mut positions = Vec::new();
    for line in object.list("lines").unwrap_or_default().into_iter().filter_map(raw::object) {
        let position = (count(&line, "line"), count(&line, "column").max(1));
        if position.0 == 0 {
            return Vec::new();
        }
        positions.push(position);
        let known = known.entry(position).or_default();
        if let Some(rest) = line.get("rest") {
            known.is_twice |= known.rest.replace(rest.get()).is_some();
        }
        if let Some(ids) = line.list("records") {
            let pieces = ids.into_iter().filter_map(raw::text).map(|id| records.get(id.text.as_str()).copied());
            known.whole = pieces.collect::<Option<Vec<_>>>().map(|pieces| pieces.concat());
        }
        let Some((index, message)) = message else { continue };
        known.users.push(index);
        for cut in line.list("cut").unwrap_or_default() {
            match moved(cut, &message.parts) {
                Some(value) => known.moved.push(value),
                None => known.is_twice = true,
            }
        }
    }
    positions
}

fn count(object: &Object<'_>, name: &str) -> u64 {
    u64::try_from(object.count(name)).unwrap_or_default()
}

/// A value that was moved out of a line: the pointer to it, and its JSON.
fn moved(cut: &RawValue, parts: &[NewPart]) -> Option<(String, String)> {
    let items = raw::list(cut)?;
    let pointer = raw::text(items.first()?)?.text;
    let part = parts.get(serde_json::from_str::<usize>(items.get(1)?.get()).ok()?)?;
    let value = match items.get(2) {
        None => body(&part.body)?,
        Some(kept) => match raw::text(kept) {
            Some(name) => Object::parse(part.metadata_json.as_deref()?, 1).ok()?.get(&name.text)?.get().to_owned(),
            None => {
                let PartBody::ToolResult(result) = &*part.body else { return None };
                bytes(result.attachments.get(serde_json::from_str::<usize>(kept.get()).ok()?)?)?
            }
        },
    };
    Some((pointer, value))
}

fn body(body: &PartBody) -> Option<String> {
    match body {
        PartBody::Text(text) | PartBody::Reasoning(text) => Some(quote(text)),
        PartBody::Marker(marker) => Some(quote(&marker.text)),
        PartBody::ToolCall(call) => Some(call.input_json.clone()),
        PartBody::ToolResult(result) => Some(quote(&result.output)),
        PartBody::Media(media) => bytes(media),
        PartBody::Opaque(opaque) => String::from_utf8(opaque.data.clone()).ok(),
        PartBody::Step(_) | PartBody::Record(_) => None,
    }
}

fn bytes(media: &Media) -> Option<String> {
    match &media.source {
        MediaSource::Bytes(bytes) => Some(quote(&STANDARD.encode(bytes))),
        MediaSource::Uri(_) => None,
    }
}

impl KnownLine<'_> {
    /// True if anything of the line is in the metadata of messages.
    fn has_any(&self) -> bool {
        self.rest.is_some() || self.whole.is_some() || !self.moved.is_empty() || self.is_twice
    }

    /// The line; none if it cannot be put together.
    fn text(&self) -> Option<String> {
        if let Some(whole) = &self.whole {
            return is_line(whole).then(|| whole.clone());
        }
        if self.is_twice {
            return None;
        }
        let rest = self.rest?;
        let mut slots: Vec<(Range<usize>, &str)> = Vec::new();
        for (pointer, value) in &self.moved {
            slots.push((slot(rest, pointer)?, value));
        }
        slots.sort_by_key(|(range, _)| range.start);
        let (mut text, mut end) = (String::with_capacity(rest.len()), 0);
        for (range, value) in slots {
            // The value of a message that was named twice, or a pointer into another moved value.
            text.push_str(rest.get(end..range.start)?);
            text.push_str(value);
            end = range.end;
        }
        text.push_str(&rest[end..]);
        is_line(&text).then_some(text)
    }
}

fn is_line(text: &str) -> bool {
    !text.contains(['\n', '\r']) && Object::parse(text, 1).is_ok()
}

/// The position of the value at a pointer, which must be `null`.
fn slot(text: &str, pointer: &str) -> Option<Range<usize>> {
    let mut value: &RawValue = serde_json::from_str(text).ok()?;
    for step in pointer.strip_prefix('/')?.split('/') {
        let step = step.replace("~1", "/").replace("~0", "~");
        value = match raw::list(value) {
            Some(items) => items.get(step.parse::<usize>().ok()?).copied()?,
            None => {
                let object = raw::object(value)?;
                object.members().filter(|(name, _)| *name == step).last()?.1
            }
        };
    }
    let start = value.get().as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    (value.get() == "null" && start + 4 <= text.len()).then_some(start..start + 4)
}

/// Number of the piece and of all pieces of a record that holds one, from its metadata.
fn piece(message: &Message) -> Option<(u64, u64, u64)> {
    let metadata = Object::parse(message.metadata_json.as_deref()?, 1).ok()?;
    let (line, piece, pieces) = (count(&metadata, "line"), count(&metadata, "piece"), count(&metadata, "pieces"));
    (line > 0 && piece > 0).then_some((line, piece, pieces))
}

/// Adds the lines that became records.
fn records(session: &Session, format: Format, lines: &mut Lines) {
    let taken: HashSet<u64> = lines.of.values().flatten().map(|line| line.position.0).collect();
    let mut free = Free { taken, before: 0 };
    for (index, message) in session.messages.iter().enumerate() {
        if let Some(own) = lines.of.get(&index) {
            free.before = own.first().map_or(free.before, |line| line.position.0);
            continue;
        }
        let Some((kind, _)) = message.record().filter(|_| !lines.pieces.contains(&index)) else { continue };
        let (data, rest) = whole_record(&session.messages[index..]);
        if !is_of_file(kind, &data, format) {
            continue;
        }
        lines.pieces.extend((index + 1)..(index + rest));
        let first = named_position(message).unwrap_or_else(|| (free.next(), 1));
        free.take(first.0);
        let mut own = Vec::new();
        for (number, text) in data.split('\n').enumerate() {
            let position = if number == 0 { first } else { (free.next(), 1) };
            free.take(position.0);
            own.push(Line { position, text: text.to_owned() });
        }
        lines.of.insert(index, own);
    }
}

/// Line numbers that no message has: an import gives records no number if their lines have ids.
struct Free {
    taken: HashSet<u64>,
    before: u64,
}

impl Free {
    fn next(&self) -> u64 {
        (self.before + 1..).find(|number| !self.taken.contains(number)).unwrap_or(self.before)
    }

    fn take(&mut self, number: u64) {
        self.taken.insert(number);
        self.before = number;
    }
}

/// The data of a record with that of the pieces after it, and the number of records.
fn whole_record(messages: &[Message]) -> (String, usize) {
    let mut data = String::new();
    let mut number = 0;
    for message in messages {
        let Some((_, more)) = message.record() else { break };
        match piece(message) {
            Some((_, piece, _)) if piece == number as u64 + 1 => data.push_str(more),
            _ if number == 0 => return (more.to_owned(), 1),
            _ => break,
        }
        number += 1;
    }
    (data, number)
}

/// The position that a record's client id or metadata names.
fn named_position(message: &Message) -> Option<Position> {
    if let Some((line, ..)) = piece(message) {
        return Some((line, 1));
    }
    let mut numbers = message.client_id.as_deref()?.strip_prefix("line:")?.split(':').map(str::parse::<u64>);
    let line = numbers.next()?.ok()?;
    Some((line, numbers.next().and_then(Result::ok).unwrap_or(1)))
}

/// True if a record is what an import of the format makes of a line.
fn is_of_file(kind: &str, data: &str, format: Format) -> bool {
    if matches!(kind, MALFORMED_RECORD | REPEATED_RECORD) {
        return !data.contains(['\n', '\r']);
    }
    let mut lines = data.split('\n');
    let first = lines.next().and_then(|line| Object::parse(line, 1).ok());
    let is_whole = lines.all(|line| Object::parse(line, 1).is_ok()) && !data.contains('\r');
    is_whole
        && first.is_some_and(|object| match format {
            Format::Pi => pi::is_record(&object, kind) && !data.contains('\n'),
            Format::ClaudeCode => claude_code::is_record(&object, kind),
        })
}
