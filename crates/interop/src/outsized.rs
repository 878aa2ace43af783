//! Lines that exceed the maximum size of a message.
//!
//! Such a line is kept whole, as consecutive records that hold its text in pieces. Its message is shortened in place,
//! with a note that names the records, so that calls keep their results and the import continues.

use super::name_index::{Line, record};
use super::raw::quote;
use super::transcript::{Entry, Problem, Transcript};
use longhand_model::message::NewMessage;
use longhand_model::part::{MediaSource, NewPart, PartBody, Record};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Kind of a record that holds a piece of a line that was too large for its message.
pub const LINE_RECORD: &str = "line";

/// Size of the kept beginning of a text that is too large, in bytes.
const KEPT_BYTES: usize = 16 * 1024;

/// Shortens every message of a transcript, and of the children in it, to `message_bytes`.
pub(super) fn shorten_messages(transcript: &mut Transcript, lines: &[Line], message_bytes: usize) {
    let mut shortener = LineShortener {
        lines: lines.iter().map(|line| ((line.number, line.column), line)).collect(),
        message_bytes,
        taken: HashSet::new(),
        kept: HashMap::new(),
        problems: Vec::new(),
    };
    shortener.take_ids(transcript);
    shortener.transcript(transcript);
    transcript.problems.append(&mut shortener.problems);
    transcript.problems.sort_by_key(|problem| problem.line);
}

struct LineShortener<'a> {
    /// The lines by number and column.
    lines: HashMap<(usize, usize), &'a Line>,
    message_bytes: usize,
    /// The ids of all entries.
    taken: HashSet<String>,
    /// The records that already hold a line, by its number and column.
    kept: HashMap<(usize, usize), Vec<String>>,
    problems: Vec<Problem>,
}

impl LineShortener<'_> {
    fn take_ids(&mut self, transcript: &Transcript) {
        let entries = transcript.branches.iter().flat_map(|branch| &branch.entries);
        self.taken.extend(entries.map(|entry| entry.client_id().to_owned()));
        transcript.children.iter().for_each(|child| self.take_ids(child));
    }

    fn transcript(&mut self, transcript: &mut Transcript) {
        for branch in &mut transcript.branches {
            let entries = std::mem::take(&mut branch.entries);
            for entry in entries {
                self.entry(entry, &mut branch.entries);
            }
        }
        for child in &mut transcript.children {
            self.transcript(child);
        }
    }

    fn entry(&mut self, entry: Entry, out: &mut Vec<Entry>) {
        let line = entry.line();
        let mut more = Vec::new();
        let entry = match entry {
            Entry::Message { message, .. } if bytes_of(&message.parts) > self.message_bytes => {
                let (message, records) = self.shortened(line, message);
                more = records;
                Entry::Message { line, message }
            }
            Entry::Message { message, .. } => Entry::Message { line, message },
            Entry::Record { message, .. } => {
                Entry::Record { line, message: self.first_piece(line, message, &mut more) }
            }
            Entry::Compaction(mut compaction) => {
                compaction.record = self.first_piece(line, compaction.record, &mut more);
                Entry::Compaction(compaction)
            }
            Entry::Edit(mut edit) => {
                edit.record = self.first_piece(line, edit.record, &mut more);
                Entry::Edit(edit)
            }
        };
        out.push(entry);
        out.extend(more.into_iter().map(|message| Entry::Record { line, message }));
    }

    /// Shortens the largest parts of a message; returns it with the records that hold its lines.
    fn shortened(&mut self, line: usize, mut message: NewMessage) -> (NewMessage, Vec<NewMessage>) {
        let before = bytes_of(&message.parts);
        let (mut records, mut described) = (Vec::new(), Vec::new());
        let mut record_ids: Vec<String> = Vec::new();
        for line in lines_of(&message).unwrap_or_default() {
            let Some(line) = self.lines.get(&line).copied() else { continue };
            let ids = self.kept_line(line, &message, &mut records);
            described.push(format!(
                "{{{},\"records\":[{}]}}",
                line.position_json(),
                ids.iter().map(|id| quote(id)).collect::<Vec<_>>().join(",")
            ));
            record_ids.extend(ids);
        }
        let whole = record_ids.first().cloned().unwrap_or_default();
        let note = format!(
            "[{before} bytes are more than a message may have; they are kept whole from the record {whole} on]"
        );
        while bytes_of(&message.parts) > self.message_bytes {
            let largest = message.parts.iter_mut().max_by_key(|part| bytes(part));
            // If the largest part cannot be shortened further, the message consists of many small parts.
            let Some(part) = largest.filter(|part| bytes(part) > KEPT_BYTES + 2 * note.len()) else { break };
            shorten(part, &note);
        }
        message.metadata_json = message.metadata_json.as_deref().map(|metadata| {
            let format =
                serde_json::from_str::<Value>(metadata).ok().and_then(|value| value["format"].as_str().map(quote));
            format!(
                "{{\"format\":{},\"lines\":[{}]}}",
                format.unwrap_or_else(|| "null".to_owned()),
                described.join(",")
            )
        });
        let problem = format!(
            "its message has {before} bytes, more than one may have: it is shortened, and kept whole in records"
        );
        self.problems.push(Problem { line, message: problem });
        (message, records)
    }

    /// The ids of the records that hold a line; the records are created if there are none yet.
    fn kept_line(&mut self, line: &Line, message: &NewMessage, records: &mut Vec<NewMessage>) -> Vec<String> {
        if let Some(ids) = self.kept.get(&(line.number, line.column)) {
            return ids.clone();
        }
        let pieces = self.pieces(line.text());
        let mut ids = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            let id = self.claim(&format!("line:{}:whole:{}", line.position(), index + 1));
            let mut record = record(id.clone(), LINE_RECORD, (*piece).to_owned(), message.origin_time);
            record.metadata_json = Some(piece_metadata(line.number, index, pieces.len()));
            records.push(record);
            ids.push(id);
        }
        self.kept.insert((line.number, line.column), ids.clone());
        ids
    }

    /// Returns the record if it is small enough, else its first piece; the other pieces are added to `more`.
    fn first_piece(&mut self, line: usize, message: NewMessage, more: &mut Vec<NewMessage>) -> NewMessage {
        let [part] = message.parts.as_slice() else { return message };
        let PartBody::Record(Record { kind, data }) = &*part.body else { return message };
        if kind.len() + data.len() <= self.message_bytes {
            return message;
        }
        let id = message.client_id.clone().unwrap_or_default();
        let pieces = self.pieces(data);
        let problem =
            format!("it has {} bytes, more than a record may have: kept in {} records", data.len(), pieces.len());
        let mut records = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            let id = if index == 0 { id.clone() } else { self.claim(&format!("line:{line}:piece:{}", index + 1)) };
            let mut record = record(id, kind, (*piece).to_owned(), message.origin_time);
            record.metadata_json = Some(piece_metadata(line, index, pieces.len()));
            records.push(record);
        }
        self.problems.push(Problem { line, message: problem });
        let mut records = records.into_iter();
        let first = records.next().unwrap_or(message);
        more.extend(records);
        first
    }

    /// Splits a text into pieces of half a message each, so that one request holds more than one.
    fn pieces<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            // A character has at most four bytes, so that each piece has at least one character.
            let (piece, more) = rest.split_at(rest.floor_char_boundary((self.message_bytes / 2).max(4)));
            pieces.push(piece);
            rest = more;
        }
        pieces
    }

    fn claim(&mut self, wanted: &str) -> String {
        let mut id = wanted.to_owned();
        let mut number = 2;
        while !self.taken.insert(id.clone()) {
            id = format!("{wanted}:{number}");
            number += 1;
        }
        id
    }
}

/// The position of a piece in its line, as metadata.
fn piece_metadata(line: usize, index: usize, count: usize) -> String {
    format!("{{\"line\":{line},\"piece\":{},\"pieces\":{count}}}", index + 1)
}

/// The lines that a message was made from, by number and column.
fn lines_of(message: &NewMessage) -> Option<Vec<(usize, usize)>> {
    let metadata: Value = serde_json::from_str(message.metadata_json.as_deref()?).ok()?;
    let number = |line: &Value, name: &str| line[name].as_u64().and_then(|number| usize::try_from(number).ok());
    let lines = metadata["lines"].as_array()?.iter();
    lines.map(|line| Some((number(line, "line")?, number(line, "column").unwrap_or(1)))).collect()
}

/// The size of a message as the daemon counts it, in bytes.
fn bytes_of(parts: &[NewPart]) -> usize {
    parts.iter().map(bytes).sum()
}

fn bytes(part: &NewPart) -> usize {
    let source = |source: &MediaSource| match source {
        MediaSource::Bytes(bytes) => bytes.len(),
        MediaSource::Uri(uri) => uri.len(),
    };
    let body = match &*part.body {
        PartBody::Text(text) | PartBody::Reasoning(text) => text.len(),
        PartBody::ToolCall(call) => call.input_json.len(),
        PartBody::ToolResult(result) => {
            result.output.len() + result.attachments.iter().map(|media| source(&media.source)).sum::<usize>()
        }
        PartBody::Media(media) => source(&media.source),
        PartBody::Marker(marker) => marker.name.len() + marker.text.len(),
        PartBody::Step(step) => step.finish_reason.len(),
        PartBody::Opaque(opaque) => opaque.provider.len() + opaque.kind.len() + opaque.data.len(),
        PartBody::Record(record) => record.kind.len() + record.data.len(),
    };
    body + part.metadata_json.as_ref().map_or(0, String::len)
}

/// Replaces the content of a part by a note and the beginning of the content.
fn shorten(part: &mut NewPart, note: &str) {
    // The note comes first, since views may truncate the text further.
    let start = |text: &str| format!("{note}\n{}", &text[..text.floor_char_boundary(KEPT_BYTES)]);
    // The other members of a block refer to its whole content.
    part.metadata_json = None;
    match Arc::make_mut(&mut part.body) {
        PartBody::Text(text) | PartBody::Reasoning(text) => *text = start(text),
        PartBody::ToolCall(call) => call.input_json = format!("{{\"note\":{}}}", quote(note)),
        PartBody::ToolResult(result) => {
            result.output = start(&result.output);
            result.attachments.clear();
        }
        PartBody::Marker(marker) => marker.text = start(&marker.text),
        PartBody::Media(_) | PartBody::Opaque(_) => part.body = PartBody::Text(note.to_owned()).into(),
        PartBody::Step(step) => step.finish_reason.clear(),
        PartBody::Record(record) => record.data = start(&record.data),
    }
}

#[cfg(test)]
mod tests;
