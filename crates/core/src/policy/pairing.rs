//! Pairing: every call is directly followed by its result, whatever other writers added in between.
//!
//! There is one canonical form. Calls are in assistant messages. Their results are in tool messages directly after
//! them, in call order, one tool message for each stored message that results came from. A call without a result gets
//! an interrupted one. Parts after a result in the same reply follow in a message of their own, because the model wrote
//! them after it had read the result. A result that answers no call becomes text of a user message at its own position,
//! which says if a call with its id is before it. The assignment of results to calls is in `calls`.

use foldhash::{HashMap, HashSet};

use crate::model::ids::PartId;
use crate::model::message::Role;
use crate::model::part::{Answers, PartBody, ResultStatus, ToolResult};
use crate::model::view::{ViewKind, ViewMessage, ViewPart};

use super::calls::Earlier;

mod check;
#[cfg(test)]
mod tests;

pub use check::violations;

/// Converts the messages of a view to the canonical form; `interrupted_text` is the output of a call without a result.
///
/// Messages without parts are removed. The function is idempotent. Each message has the index of the input message that
/// it represents or follows; these indexes ascend.
///
/// `answered` maps the part of each result to the part of its call. `earlier` has the calls before these messages.
pub(super) fn pair(
    interrupted_text: &str,
    messages: Vec<ViewMessage>,
    answered: &HashMap<PartId, PartId>,
    earlier: Option<&Earlier>,
) -> Vec<(usize, ViewMessage)> {
    let (pieces, mut answers) = take_apart(messages, answered, earlier);
    let mut paired = Vec::new();
    for piece in pieces.done {
        let results = tool_messages(interrupted_text, &piece, &mut answers);
        paired.push((piece.from, piece.message));
        paired.extend(results.into_iter().map(|message| (piece.from, message)));
    }
    paired
}

/// Separates results from the rest: the rest in pieces, and for each call, in reading order, its result.
fn take_apart(
    messages: Vec<ViewMessage>,
    answered: &HashMap<PartId, PartId>,
    earlier: Option<&Earlier>,
) -> (Pieces, Vec<Option<MovedResult>>) {
    let numbers = numbers(&messages);
    let repeated = repeated(&messages, earlier);
    let mut pieces = Pieces::default();
    let mut answers = Vec::new();
    for (from, message) in messages.into_iter().enumerate() {
        let ViewMessage { source, revision, role, kind, parts, original_fields, provenance } = message;
        let header = |role| {
            let (original_fields, provenance) = (original_fields.clone(), provenance.clone());
            ViewMessage { source, revision, role, kind, parts: Vec::new(), original_fields, provenance }
        };
        // Text beside results cannot stay in a tool message; of the other roles, user is the closest to tool.
        let role_of_words = if role == Role::Tool { Role::User } else { role };
        for part in parts {
            match &*part.body {
                PartBody::ToolCall(_) => {
                    pieces.add_call(header(Role::Assistant), from, part, answers.len());
                    answers.push(None);
                }
                PartBody::ToolResult(result) => {
                    match part.source.and_then(|id| numbers.get(answered.get(&id)?)).copied() {
                        Some(call) => {
                            pieces.close(from, call);
                            answers[call] = Some(MovedResult { from, header: header(Role::Tool), part });
                        }
                        None => {
                            let is_repeated = part.source.is_some_and(|id| repeated.contains(&id));
                            let shown = result_as_text(&part, result, is_repeated);
                            shown.into_iter().for_each(|part| pieces.add(header(Role::User), from, part));
                        }
                    }
                }
                PartBody::Text(_)
                | PartBody::Reasoning(_)
                | PartBody::Media(_)
                | PartBody::Marker(_)
                | PartBody::Step(_)
                | PartBody::Opaque(_)
                | PartBody::Record(_) => pieces.add(header(role_of_words), from, part),
            }
        }
    }
    (pieces, answers)
}

/// The numbers of the calls in reading order, by their parts.
fn numbers(messages: &[ViewMessage]) -> HashMap<PartId, usize> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let calls = parts.filter(|part| matches!(*part.body, PartBody::ToolCall(_)));
    calls.enumerate().filter_map(|(number, part)| Some((part.source?, number))).collect()
}

/// The results that follow a call with their id.
fn repeated(messages: &[ViewMessage], earlier: Option<&Earlier>) -> HashSet<PartId> {
    let mut called: HashSet<&str> = HashSet::default();
    let mut repeated = HashSet::default();
    for part in messages.iter().flat_map(|message| &message.parts) {
        match &*part.body {
            PartBody::ToolCall(call) => {
                called.insert(&call.call_id);
            }
            PartBody::ToolResult(ToolResult { call_id, .. })
                if called.contains(&**call_id) || earlier.is_some_and(|earlier| earlier.has_id(call_id)) =>
            {
                repeated.extend(part.source);
            }
            _ => {}
        }
    }
    repeated
}

/// A result that must be moved directly after its call.
struct MovedResult {
    /// Index of the message from which it came.
    from: usize,
    /// An empty tool message with the header of that message.
    header: ViewMessage,
    /// The result.
    part: ViewPart,
}

/// A segment of one message that stays together.
struct Piece {
    /// Index of the message from which it came.
    from: usize,
    /// Its parts, without results.
    message: ViewMessage,
    /// The numbers of its calls, in reading order.
    calls: Vec<usize>,
    /// True if no further part may join it.
    closed: bool,
}

/// The messages without their results, split where the canonical form requires it.
#[derive(Default)]
struct Pieces {
    done: Vec<Piece>,
}

impl Pieces {
    /// Adds a part to the newest piece if that came from the same message and is open, else to a new one.
    fn add(&mut self, header: ViewMessage, from: usize, part: ViewPart) {
        match self.done.last_mut() {
            Some(piece) if piece.from == from && piece.message.role == header.role && !piece.closed => {
                piece.message.parts.push(part);
            }
            Some(_) | None => {
                let message = ViewMessage { parts: vec![part], ..header };
                self.done.push(Piece { from, message, calls: Vec::new(), closed: false });
            }
        }
    }

    /// Adds a call. No piece contains two calls with one id, since their results would be ambiguous.
    fn add_call(&mut self, header: ViewMessage, from: usize, part: ViewPart, number: usize) {
        if let Some(piece) = self.done.last_mut() {
            piece.closed |= piece.message.parts.iter().any(|other| call_id(other) == call_id(&part));
        }
        self.add(header, from, part);
        if let Some(piece) = self.done.last_mut() {
            piece.calls.push(number);
        }
    }

    /// Notes that the message with index `from` answers a call. If the call is in the same message, the following parts
    /// were written later.
    fn close(&mut self, from: usize, call: usize) {
        if let Some(piece) = self.done.last_mut() {
            piece.closed |= piece.from == from && piece.calls.contains(&call);
        }
    }
}

/// The id of the call, if the part is one.
fn call_id(part: &ViewPart) -> Option<&str> {
    if let PartBody::ToolCall(call) = &*part.body { Some(&call.call_id) } else { None }
}

/// The tool messages that follow a piece.
fn tool_messages(interrupted_text: &str, piece: &Piece, answers: &mut [Option<MovedResult>]) -> Vec<ViewMessage> {
    let mut messages: Vec<(Option<usize>, ViewMessage)> = Vec::new();
    for (&call, call_id) in piece.calls.iter().zip(piece.message.parts.iter().filter_map(call_id)) {
        let Some(MovedResult { from, header, part }) = answers[call].take() else {
            messages.push((None, interrupted(interrupted_text, call_id)));
            continue;
        };
        match messages.iter_mut().find(|(other, _)| *other == Some(from)) {
            Some((_, message)) => message.parts.push(part),
            None => messages.push((Some(from), ViewMessage { parts: vec![part], ..header })),
        }
    }
    messages.into_iter().map(|(_, message)| message).collect()
}

/// The result of a call that never got a result.
fn interrupted(text: &str, call_id: &str) -> ViewMessage {
    let result = ToolResult {
        call_id: call_id.to_owned(),
        status: ResultStatus::Interrupted,
        output: text.to_owned(),
        attachments: Vec::new(),
        start_time: None,
        end_time: None,
        answers: Answers::Nearest,
    };
    let part = ViewPart::new(None, PartBody::ToolResult(result), None);
    ViewMessage {
        source: None,
        revision: 0,
        role: Role::Tool,
        kind: ViewKind::Paired,
        parts: vec![part],
        original_fields: None,
        provenance: None,
    }
}

/// A result that answers no call, as text for the model, followed by its media. A call with its id may be before it,
/// with the result that answers it, or come later.
fn result_as_text(part: &ViewPart, result: &ToolResult, is_repeated: bool) -> Vec<ViewPart> {
    let ToolResult { call_id, output, .. } = result;
    let words = if is_repeated {
        format!("[Another tool result with the id of call {call_id}]\n{output}")
    } else {
        format!("[Tool result for call {call_id}, which is not in this view before it]\n{output}")
    };
    let media = result.attachments.iter().cloned().map(PartBody::Media);
    let bodies = std::iter::once(PartBody::Text(words)).chain(media);
    bodies.map(|body| ViewPart::new(part.source, body, part.shortened)).collect()
}
