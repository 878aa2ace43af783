//! Boundaries of turns.

use crate::model::message::{Message, MessageKind, Role};
use crate::model::part::{PartBody, are_notes};
use crate::model::view::SourceMessage;

/// The name of the marker part by which agents note a compaction in a user message.
const COMPACTION_MARKER: &str = "compaction";

/// A turn, as a half-open range of indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Index of the user message that starts it.
    pub start: usize,
    /// One past its last message.
    pub end: usize,
}

/// The turns, in order. Messages before the first user message belong to none.
pub fn turns(messages: &[SourceMessage]) -> Vec<Turn> {
    let starts = (0..messages.len()).filter(|&index| starts_turn(&messages[index].message));
    let mut turns: Vec<Turn> = starts.map(|start| Turn { start, end: messages.len() }).collect();
    for index in 1..turns.len() {
        turns[index - 1].end = turns[index].start;
    }
    turns
}

/// True if the message starts a turn: a request, unless it only notes that a compaction took place.
pub fn starts_turn(message: &Message) -> bool {
    is_request(message) && !message.parts.iter().any(|part| is_compaction_marker(&part.body))
}

/// True for a request: a message of the user, or of Longhand in place of the user. A user message with tool results
/// only is no request, since some providers put results there. Neither is one with notes of an agent.
pub fn is_request(message: &Message) -> bool {
    let speaks = match message.kind {
        MessageKind::Normal | MessageKind::Edit | MessageKind::Continuation | MessageKind::Replay => true,
        MessageKind::Record | MessageKind::Summary | MessageKind::Marker | MessageKind::Branch => false,
    };
    let notes = || are_notes(message.parts.iter().map(|part| &*part.body));
    speaks && message.role == Role::User && !only_brings_results(message) && !notes()
}

/// True if the message has tool results and nothing else.
pub fn only_brings_results(message: &Message) -> bool {
    !message.parts.is_empty() && message.parts.iter().all(|part| matches!(*part.body, PartBody::ToolResult(_)))
}

/// True if a view shows anything of the message.
pub fn says_something(message: &Message) -> bool {
    message.parts.iter().any(|part| match &*part.body {
        PartBody::Text(text) | PartBody::Reasoning(text) => !text.is_empty(),
        PartBody::Marker(marker) => !marker.text.is_empty(),
        PartBody::Step(_) | PartBody::Record(_) => false,
        PartBody::ToolCall(_) | PartBody::ToolResult(_) | PartBody::Media(_) | PartBody::Opaque(_) => true,
    })
}

fn is_compaction_marker(body: &PartBody) -> bool {
    matches!(body, PartBody::Marker(marker) if marker.name == COMPACTION_MARKER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::dsl;

    fn check(text: &str, expected: &[(usize, usize)]) {
        let actual: Vec<_> = turns(&dsl::parse(text)).iter().map(|turn| (turn.start, turn.end)).collect();
        assert_eq!(actual, expected, "{text}");
    }

    #[test]
    fn a_turn_runs_from_a_request_to_the_next() {
        check("a0 \"hello\"\nu1 \"x\"\na1 \"y\"\nu2 \"x\"\nu3 \"x\"\na3 \"y\"", &[(1, 3), (3, 4), (4, 6)]);
        check("a0 \"hello\"", &[]);
        check("", &[]);
    }

    #[test]
    fn results_in_a_user_message_start_no_turn() {
        check("u1 \"x\"\na1\n  call bash#c1\nu2\n  result c1 out=\"ok\" done\na2 \"y\"", &[(0, 4)]);
        check("u1 \"x\"\nu2\n  result c1 out=\"ok\" done\n  text \"and more\"", &[(0, 1), (1, 2)]);
    }

    #[test]
    fn a_note_of_a_compaction_starts_no_turn() {
        check("u1 \"x\"\na1 \"y\"\nu2\n  marker compaction \"What did we do so far?\"\na2 \"z\"", &[(0, 4)]);
    }

    #[test]
    fn notes_of_an_agent_start_no_turn() {
        check("u1 \"x\"\na1 \"y\"\nu2\n  marker note \"the text of a skill\"\na2 \"z\"", &[(0, 4)]);
        check("u1\n  marker note \"a\"\n  media image/png\nu2\n  marker note \"a\"\n  text \"b\"", &[(1, 2)]);
        check("u1\n  media image/png", &[(0, 1)]);
    }

    #[test]
    fn an_edited_request_starts_a_turn_and_a_placed_marker_does_not() {
        check("u1 marker \"x\"\na1 summary \"y\"\nu2 edit=1 \"x\"\na2 \"z\"", &[(2, 4)]);
    }
}
