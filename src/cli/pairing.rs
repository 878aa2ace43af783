//! A check of the tool calls and results of views.

use crate::pb;
use crate::pb::part::Body;

/// Faults for which a provider would refuse the view: calls without a result directly after them, results without a
/// call directly before them.
pub(super) fn faults(messages: &[pb::ViewMessage]) -> Vec<String> {
    let mut faults = Vec::new();
    // Calls without a result so far, and the index of the message that contains them.
    let mut open: Vec<&str> = Vec::new();
    let mut calls_at = 0;
    let bodies = messages.iter().enumerate().flat_map(|(index, message)| {
        message.parts.iter().filter_map(move |part| Some((index, part.part.as_ref()?.body.as_ref()?)))
    });
    for (index, body) in bodies {
        if let Body::ToolResult(result) = body {
            match open.iter().position(|call_id| *call_id == result.call_id) {
                Some(position) => drop(open.remove(position)),
                None => faults.push(format!("the result of {} follows no call of it", result.call_id)),
            }
            continue;
        }
        if index != calls_at {
            faults.extend(open.drain(..).map(unanswered));
        }
        if let Body::ToolCall(call) = body {
            open.push(&call.call_id);
            calls_at = index;
        }
    }
    faults.extend(open.into_iter().map(unanswered));
    faults
}

fn unanswered(call_id: &str) -> String {
    format!("the call {call_id} is not followed by its result")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message from a short form: `c1` is a call, `r1` its result, anything else is text.
    fn message(parts: &[&str]) -> pb::ViewMessage {
        let part = |form: &&str| {
            let body = match form.split_at(1) {
                ("c", id) => Body::ToolCall(pb::ToolCallPart { call_id: id.into(), ..Default::default() }),
                ("r", id) => Body::ToolResult(pb::ToolResultPart { call_id: id.into(), ..Default::default() }),
                _ => Body::Text(pb::TextPart { text: (*form).into() }),
            };
            let part = pb::Part { body: Some(body), ..pb::Part::default() };
            pb::ViewPart { part: Some(part), ..pb::ViewPart::default() }
        };
        pb::ViewMessage { parts: parts.iter().map(part).collect(), ..pb::ViewMessage::default() }
    }

    #[test]
    fn calls_and_results_must_be_together() {
        let cases: [(&[&[&str]], usize); 10] = [
            (&[&["hello"], &["text", "c1"], &["r1"], &["done"]], 0),
            (&[&["c1", "c2"], &["r2"], &["r1"]], 0),
            (&[&["c1", "text", "c2"], &["r1", "r2"], &["c3"], &["r3"]], 0),
            (&[&["c1", "r1", "text"]], 0),
            (&[&["c1"], &["text"], &["r1"]], 2),
            (&[&["c1"]], 1),
            (&[&["r1"]], 1),
            (&[&["c1"], &["r1"], &["r1"]], 1),
            (&[&["c1"], &["c2"], &["r2"]], 1),
            (&[&["c1"], &[], &["r1"]], 0),
        ];
        for (view, expected) in cases {
            let messages: Vec<_> = view.iter().map(|parts| message(parts)).collect();
            assert_eq!(faults(&messages).len(), expected, "{view:?}");
        }
    }
}
