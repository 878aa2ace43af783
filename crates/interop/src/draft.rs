//! Builders of messages: parts, and the rest of their lines.

use super::name_index::{Line, NameIndex, record};
use super::raw::{Object, quote, step};
use super::transcript::{Entry, Format, REST_RECORD};
use longhand_model::message::{FinishReason, MessageKind, NewFinish, NewMessage, Role};
use longhand_model::part::{NewPart, PartBody};
use longhand_model::time::Timestamp;
use serde_json::value::RawValue;
use std::ops::Range;

/// Maximum size of an error's text in the message's finish, in bytes; the line has all of it.
const DETAIL_BYTES: usize = 4 * 1024;

/// New position of a value that was moved out of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MovedValuePlace {
    /// The part's content.
    Body,
    /// The bytes of an attachment of a tool result, by its index.
    Attachment(usize),
    /// The member of that name in the part's metadata.
    Member(String),
}

#[derive(Debug, Clone)]
struct MovedValue {
    range: Range<usize>,
    pointer: String,
    part: usize,
    kept: MovedValuePlace,
}

#[derive(Debug, Clone)]
struct Piece<'a> {
    line: &'a Line,
    moved: Vec<MovedValue>,
    /// Values that another message of the same line has.
    moved_by_sibling: Vec<Range<usize>>,
    has_rest: bool,
}

impl<'a> Piece<'a> {
    fn new(line: &'a Line, has_rest: bool) -> Self {
        Self { line, moved: Vec::new(), moved_by_sibling: Vec::new(), has_rest }
    }
}

/// A builder of a message.
#[derive(Debug, Clone)]
pub(super) struct MessageDraft<'a> {
    format: Format,
    metadata_bytes: usize,
    /// Role of the message.
    pub(super) role: Role,
    /// The parts so far.
    pub(super) parts: Vec<NewPart>,
    /// Finish of the message.
    pub(super) finish: NewFinish,
    /// The model that wrote it, or empty.
    pub(super) model: String,
    /// The provider of that model, or empty.
    pub(super) provider: String,
    /// Time at which it was written.
    pub(super) origin_time: Option<Timestamp>,
    pieces: Vec<Piece<'a>>,
}

impl<'a> MessageDraft<'a> {
    /// Creates a message that starts with a line and keeps the rest of it.
    pub(super) fn new(format: Format, metadata_bytes: usize, role: Role, line: &'a Line) -> Self {
        Self {
            format,
            metadata_bytes,
            role,
            parts: Vec::new(),
            finish: NewFinish::default(),
            model: String::new(),
            provider: String::new(),
            origin_time: None,
            pieces: vec![Piece::new(line, true)],
        }
    }

    /// Creates a second message for the same lines; the first one keeps the rest.
    pub(super) fn sibling(&self, role: Role) -> Self {
        let pieces = self.pieces.iter().map(|piece| Piece::new(piece.line, false)).collect();
        Self { role, parts: Vec::new(), pieces, ..self.clone() }
    }

    /// Keeps the content of the lines that becomes a part neither here nor in a sibling; the sibling then keeps no
    /// rest.
    pub(super) fn keep_rest(&mut self, sibling: &mut Self) {
        for (own, other) in self.pieces.iter_mut().zip(&mut sibling.pieces) {
            own.has_rest = true;
            own.moved_by_sibling = other.moved.iter().map(|value| value.range.clone()).collect();
            other.has_rest = false;
        }
    }

    /// Appends the content that another draft has of a later line.
    pub(super) fn join(&mut self, other: Self) {
        let offset = self.parts.len();
        self.parts.extend(other.parts);
        for mut piece in other.pieces {
            for value in &mut piece.moved {
                value.part += offset;
            }
            self.pieces.push(piece);
        }
    }

    /// The current line.
    pub(super) fn line(&self) -> &'a Line {
        self.pieces[self.pieces.len() - 1].line
    }

    /// The finish reason of a reply by its parts: tool calls if it has any, else stop.
    pub(super) fn reason_by_parts(&self) -> FinishReason {
        let calls = self.parts.iter().any(|part| matches!(*part.body, PartBody::ToolCall(_)));
        if calls { FinishReason::ToolCalls } else { FinishReason::Stop }
    }

    /// Adds a part, and returns its index.
    pub(super) fn push(&mut self, body: PartBody) -> usize {
        self.parts.push(NewPart::new(body));
        self.parts.len() - 1
    }

    /// Moves a value out of the current line, because the message keeps it elsewhere, byte for byte.
    pub(super) fn move_out(&mut self, value: &RawValue, pointer: String, part: usize, kept: MovedValuePlace) {
        let Some(piece) = self.pieces.last_mut() else { return };
        let (text, value) = (piece.line.text(), value.get());
        let start = value.as_ptr().addr().wrapping_sub(text.as_ptr().addr());
        let range = start..start.saturating_add(value.len());
        // A value that is not a slice of the line stays in the rest, which is always correct.
        if range.end <= text.len() {
            piece.moved.push(MovedValue { range, pointer, part, kept });
        }
    }

    /// Moves the other members of a block to the part's metadata, for clients that return the block to its provider;
    /// members that are too large for that stay in the rest of the line.
    pub(super) fn keep_members(&mut self, block: &Object<'a>, mapped: &[&str], pointer: &str, part: usize) {
        let mut members = Vec::new();
        for (name, value) in block.members().filter(|(name, _)| !mapped.contains(name)) {
            // Of several members of one name, a pointer can name only the last.
            members.retain(|(other, _)| *other != name);
            members.push((name, value));
        }
        let size: usize = members.iter().map(|(name, value)| quote(name).len() + value.get().len() + 2).sum();
        if members.is_empty() || size + 2 > self.metadata_bytes {
            return;
        }
        let written: Vec<_> = members.iter().map(|(name, value)| format!("{}:{}", quote(name), value.get())).collect();
        self.parts[part].metadata_json = Some(format!("{{{}}}", written.join(",")));
        for (name, value) in members {
            self.move_out(value, format!("{pointer}/{}", step(name)), part, MovedValuePlace::Member(name.to_owned()));
        }
    }

    /// Returns the message, and the records that hold text that did not fit into its metadata.
    pub(super) fn finish(mut self, client_id: String, names: &mut NameIndex) -> Vec<Entry> {
        let line = self.pieces[0].line.number;
        self.finish.detail.truncate(self.finish.detail.floor_char_boundary(DETAIL_BYTES));
        let mut records = Vec::new();
        while self.metadata().len() > self.metadata_bytes {
            // The largest rest goes first. Without any rest, the size of the metadata depends only on the number of
            // parts.
            let with_rest = self.pieces.iter_mut().filter(|piece| piece.has_rest);
            let Some(piece) = with_rest.max_by_key(|piece| piece.rest_length()) else { break };
            let own = format!("{REST_RECORD}:{}", piece.line.position());
            let data = wrap(self.format, &[piece.written(false, true)]);
            piece.has_rest = false;
            let id = names.claim(piece.line, Some(&own));
            let message = record(id, REST_RECORD, data, self.origin_time);
            records.push(Entry::Record { line: piece.line.number, message });
        }
        let message = NewMessage {
            client_id: Some(client_id),
            role: self.role,
            kind: MessageKind::Normal,
            open_timeout_ms: None,
            metadata_json: Some(self.metadata()),
            replace_existing: false,
            parts: self.parts,
            finish: Some(self.finish),
            model: self.model,
            provider: self.provider,
            origin_time: self.origin_time,
        };
        let mut entries = vec![Entry::Message { line, message }];
        entries.append(&mut records);
        entries
    }

    fn metadata(&self) -> String {
        let pieces: Vec<_> = self.pieces.iter().map(|piece| piece.written(true, piece.has_rest)).collect();
        wrap(self.format, &pieces)
    }
}

fn wrap(format: Format, pieces: &[String]) -> String {
    format!("{{\"format\":{},\"lines\":[{}]}}", quote(format.name()), pieces.join(","))
}

impl Piece<'_> {
    fn rest_length(&self) -> usize {
        self.line.text().len() - self.moved.iter().map(|value| value.range.len()).sum::<usize>()
    }

    fn written(&self, with_moved: bool, with_rest: bool) -> String {
        let mut members = self.line.position_json();
        if with_moved && !self.moved.is_empty() {
            let moved: Vec<_> = self.moved.iter().map(MovedValue::written).collect();
            members.push_str(&format!(",\"cut\":[{}]", moved.join(",")));
        }
        if with_rest {
            members.push_str(",\"rest\":");
            members.push_str(&self.rest());
        }
        format!("{{{members}}}")
    }

    fn rest(&self) -> String {
        let text = self.line.text();
        let mut moved: Vec<_> = self.moved.iter().map(|value| value.range.clone()).collect();
        moved.extend_from_slice(&self.moved_by_sibling);
        moved.sort_by_key(|range| range.start);
        let mut rest = String::new();
        let mut end = 0;
        for range in moved {
            rest.push_str(text.get(end..range.start).unwrap_or_default());
            rest.push_str("null");
            end = range.end;
        }
        rest.push_str(text.get(end..).unwrap_or_default());
        rest
    }
}

impl MovedValue {
    fn written(&self) -> String {
        let kept = match &self.kept {
            MovedValuePlace::Body => String::new(),
            MovedValuePlace::Attachment(index) => format!(",{index}"),
            MovedValuePlace::Member(name) => format!(",{}", quote(name)),
        };
        format!("[{},{}{kept}]", quote(&self.pointer), self.part)
    }
}
