//! An independent check that a view is valid input for a model. It shares no code with `pair` and with rendering, so
//! that a test can trust it.

use std::collections::BTreeMap;

use crate::model::message::Role;
use crate::model::part::PartBody;
use crate::model::view::{ViewKind, ViewMessage};

/// Returns the errors of a view, one sentence each; empty if a model can be given the view.
///
/// Calls and results are paired, and the user speaks first: the first message that is not the system's is the user's,
/// be it a marker or a summary. After a summary or an acknowledgement in the role of the assistant, the next message is
/// the user's too. After a summary in the user's role, the assistant may continue. A provider's own compaction may begin a
/// view, and where its message has nothing else, the user's follows.
pub fn violations(messages: &[ViewMessage]) -> Vec<String> {
    let mut found = unpaired(messages);
    let mut before: Option<&ViewMessage> = None;
    for (index, message) in messages.iter().enumerate().filter(|(_, message)| message.role != Role::System) {
        let ended = |before: &ViewMessage| {
            let is_alone = before.begins_with_compaction() && before.parts.len() == 1;
            before.role == Role::Assistant && (is_alone || matches!(before.kind, ViewKind::Summary | ViewKind::Filler))
        };
        if message.role != Role::User && !message.begins_with_compaction() && before.is_none_or(ended) {
            found.push(format!("message {index} has the role {:?} where the user must speak", message.role));
        }
        before = Some(message);
    }
    found
}

/// The errors in the calls and results of messages, and in the roles of their parts.
pub(super) fn unpaired(messages: &[ViewMessage]) -> Vec<String> {
    let mut found = Vec::new();
    let mut index = 0;
    while index < messages.len() {
        let answers = messages[index + 1..].iter().take_while(|message| message.role == Role::Tool).count();
        let behind = &messages[index + 1..index + 1 + answers];
        check_roles(index, &messages[index], &mut found);
        for (offset, message) in behind.iter().enumerate() {
            check_roles(index + 1 + offset, message, &mut found);
        }
        check_answers(index, &messages[index], behind, &mut found);
        index += 1 + answers;
    }
    found
}

/// Each message must have parts, and only those that providers allow for its role.
fn check_roles(index: usize, message: &ViewMessage, found: &mut Vec<String>) {
    if message.parts.is_empty() {
        found.push(format!("message {index} is empty"));
    }
    for part in &message.parts {
        let fits = match &*part.body {
            PartBody::ToolCall(_) => message.role == Role::Assistant,
            PartBody::ToolResult(_) => message.role == Role::Tool,
            PartBody::Text(_)
            | PartBody::Reasoning(_)
            | PartBody::Media(_)
            | PartBody::Marker(_)
            | PartBody::Opaque(_) => message.role != Role::Tool,
            PartBody::Step(_) | PartBody::Record(_) => false,
        };
        if !fits {
            found.push(format!("message {index} has a {} part in the role {:?}", part.body.kind(), message.role));
        }
    }
}

/// The calls of a message and the results in the tool messages after it must have the same ids, each once.
fn check_answers(index: usize, message: &ViewMessage, behind: &[ViewMessage], found: &mut Vec<String>) {
    let mut seen: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for part in &message.parts {
        if let PartBody::ToolCall(call) = &*part.body {
            seen.entry(&call.call_id).or_default().0 += 1;
        }
    }
    // If a view begins with a tool message, no message before it can have its calls.
    let results = if message.role == Role::Tool { std::slice::from_ref(message) } else { &[] };
    for part in results.iter().chain(behind).flat_map(|message| &message.parts) {
        if let PartBody::ToolResult(result) = &*part.body {
            seen.entry(&result.call_id).or_default().1 += 1;
        }
    }
    for (call_id, (calls, results)) in seen {
        if (calls, results) != (1, 1) {
            found.push(format!("call {call_id} of message {index} stands there {calls} times, with {results} results"));
        }
    }
}
