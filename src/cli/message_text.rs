//! Text form of messages and their parts.

use super::output::{HEADING, Output, count, dollars, hex, indented, shorten, time, word};
use crate::model::provider_compaction::WINDOW;
use crate::pb;
use crate::pb::part::Body;
use std::io;

/// Maximum width of a shortened record, detail or URI, in characters.
const RECORD_WIDTH: usize = 100;

/// Prints a message of the history: its heading, its parts and its finish. Records are shortened unless `whole_records`
/// is set.
pub(super) fn print(output: &mut Output, message: &pb::Message, whole_records: bool) -> io::Result<()> {
    output.styled_line(&[(HEADING, heading(message))])?;
    for part in &message.parts {
        for line in part_lines(part, whole_records) {
            output.line(&line)?;
        }
    }
    if let Some(ended) = finish(message) {
        output.line(&format!("  = {ended}"))?;
    }
    output.line("")
}

/// Name of a message's kind; none for an ordinary message.
pub(super) fn special_kind(kind: pb::MessageKind) -> Option<String> {
    match kind {
        pb::MessageKind::Unspecified | pb::MessageKind::Normal => None,
        pb::MessageKind::Record
        | pb::MessageKind::Edit
        | pb::MessageKind::Summary
        | pb::MessageKind::Marker
        | pb::MessageKind::BranchSummary
        | pb::MessageKind::Continuation
        | pb::MessageKind::Replay => Some(word(kind.as_str_name(), "MESSAGE_KIND_")),
    }
}

/// Heading of a message: revision, role, kind, model, times, ids and actor, and `open` if it is not sealed.
pub(super) fn heading(message: &pb::Message) -> String {
    let mut heading = format!("#{} {}", message.revision, role(message.role));
    if let Some(kind) = special_kind(message.kind()) {
        heading += &format!(" ({kind})");
    }
    if !message.model.is_empty() {
        heading += &format!(" {}", message.model);
    }
    let came = time(message.create_time.as_ref());
    heading += &match &message.origin_time {
        Some(written) => format!(" · {} (came {came})", time(Some(written))),
        None => format!(" · {came}"),
    };
    heading += &format!(" · {}", message.message_id);
    if let Some(client_id) = &message.client_id {
        heading += &format!(" · {client_id}");
    }
    if !message.actor.is_empty() {
        heading += &format!(" · by {}", message.actor);
    }
    if message.sealed_revision.is_none() {
        heading += " · open";
    }
    if let Some(state) = message.status.as_ref().and_then(state) {
        heading += &format!(" · {state}");
    }
    heading
}

/// What a message is to the conversation and to the view, with the reason; none if the view shows it without a pin, and
/// for a record.
fn state(status: &pb::MessageStatus) -> Option<String> {
    let mut text = match status.state() {
        pb::MessageState::Unspecified | pb::MessageState::Active | pb::MessageState::Record => String::new(),
        pb::MessageState::Rewound
        | pb::MessageState::Edited
        | pb::MessageState::Removed
        | pb::MessageState::Covered
        | pb::MessageState::Omitted
        | pb::MessageState::Replayed
        | pb::MessageState::Undone
        | pb::MessageState::Superseded
        | pb::MessageState::Inactive => word(status.state().as_str_name(), "MESSAGE_STATE_"),
    };
    if status.by_revision > 0 {
        text += &format!(" at #{}", status.by_revision);
    }
    if let Some(by) = status.by_message_id.as_ref().or(status.by_compaction_id.as_ref()) {
        text += &format!(" by {by}");
    }
    if status.pinned {
        text += if text.is_empty() { "pinned" } else { ", pinned" };
    }
    (!text.is_empty()).then_some(text)
}

/// Name of a role.
pub(super) fn role(role: i32) -> String {
    pb::Role::try_from(role).map_or_else(|_| "somebody".to_owned(), |role| word(role.as_str_name(), "ROLE_"))
}

/// Indentation of the lines of a text. Headings of parts are indented less, and headings of messages and events not at
/// all, so that no text passes for either.
const MARGIN: &str = "    ";

/// Lines of a part, with its texts indented.
pub(super) fn part_lines(part: &pb::Part, whole_records: bool) -> Vec<String> {
    let Some(body) = &part.body else { return vec!["  [a part unknown to this version]".into()] };
    match body {
        Body::Text(text) => indented(&text.text, MARGIN),
        Body::Reasoning(reasoning) => under("  [reasoning]".into(), &reasoning.text),
        Body::ToolCall(call) => under(format!("  → {} ({})", call.tool, call.call_id), &call.input_json),
        Body::ToolResult(result) => tool_result(result),
        Body::Media(media) => vec![format!("  [{}]", media_line(media))],
        Body::Marker(marker) => under(format!("  [marker {}]", marker.name), &marker.text),
        Body::Step(step) => vec![step_line(step)],
        Body::Opaque(opaque) => {
            let bytes = count(opaque.data.len() as i64, "byte");
            let what = match opaque.kind.as_str() {
                "compaction" | WINDOW => format!("compaction by {}", opaque.provider),
                kind => format!("{} block {kind}", opaque.provider),
            };
            vec![format!("  [{what}: {bytes}]")]
        }
        Body::Record(record) if whole_records => under(format!("  [record {}]", record.kind), &record.data),
        Body::Record(record) => {
            vec![format!("  [record {}] {}", record.kind, shorten(&record.data, RECORD_WIDTH))]
        }
    }
}

fn tool_result(result: &pb::ToolResultPart) -> Vec<String> {
    let status = word(result.status().as_str_name(), "TOOL_RESULT_STATUS_");
    let mut lines = under(format!("  ← {status} ({})", result.call_id), &result.output);
    lines.extend(result.attachments.iter().map(|media| format!("  [{}]", media_line(media))));
    lines
}

fn step_line(step: &pb::StepPart) -> String {
    match &step.usage {
        Some(usage) => format!("  [step {}: {}]", step.finish_reason, usage_text(usage)),
        None => format!("  [step {}]", step.finish_reason),
    }
}

fn media_line(media: &pb::MediaPart) -> String {
    let source = match &media.source {
        Some(pb::media_part::Source::Data(data)) => count(data.len() as i64, "byte"),
        Some(pb::media_part::Source::Uri(uri)) => shorten(uri, RECORD_WIDTH),
        None => "no source".to_owned(),
    };
    let name = if media.name.is_empty() { String::new() } else { format!(" {}", media.name) };
    format!("media {}{name}: {source}", media.mime_type)
}

/// Finish of a reply: reason, detail, usage, and the view it was given; none if all of them are empty.
pub(super) fn finish(message: &pb::Message) -> Option<String> {
    let finish = message.finish.as_ref()?;
    let mut pieces = Vec::new();
    if finish.reason() != pb::FinishReason::Unspecified {
        pieces.push(word(finish.reason().as_str_name(), "FINISH_REASON_"));
    }
    if !finish.detail.is_empty() {
        pieces.push(shorten(&finish.detail, RECORD_WIDTH));
    }
    pieces.extend(finish.usage.as_ref().map(usage_text));
    pieces.extend(message.given_view.as_ref().map(given_view));
    (!pieces.is_empty()).then(|| pieces.join(" · "))
}

/// The view that a reply was given, as text.
fn given_view(view: &pb::GivenView) -> String {
    let shortened = if view.shortened { ", shortened for it" } else { "" };
    let window = view.window.as_ref().map_or(0, |window| window.max_context_tokens);
    let window = if window > 0 { format!(", for a window of {window} tokens") } else { String::new() };
    format!("was given the view at revision {}, hash {}{shortened}{window}", view.revision, hex(&view.view_hash))
}

/// Usage of a reply, as text.
pub(super) fn usage_text(usage: &pb::Usage) -> String {
    let mut text = format!("{} in, {} out", usage.input_tokens, usage.output_tokens);
    for (tokens, what) in [
        (usage.reasoning_tokens, "reasoning"),
        (usage.cache_read_tokens, "read from cache"),
        (usage.cache_write_tokens, "written to cache"),
    ] {
        if tokens > 0 {
            text += &format!(", {tokens} {what}");
        }
    }
    if let Some(cost) = usage.cost_micro_usd {
        text += &format!(", {}", dollars(cost));
    }
    text
}

fn under(heading: String, text: &str) -> Vec<String> {
    let mut lines = vec![heading];
    lines.extend(indented(text, MARGIN));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(body: Body) -> pb::Part {
        pb::Part { body: Some(body), ..pb::Part::default() }
    }

    #[test]
    fn parts_are_printed_whole() {
        let output = "x".repeat(5_000);
        let result = pb::ToolResultPart {
            call_id: "c1".into(),
            status: pb::ToolResultStatus::Error.into(),
            output: format!("first\n\n{output}"),
            attachments: vec![pb::MediaPart { mime_type: "image/png".into(), ..pb::MediaPart::default() }],
            ..pb::ToolResultPart::default()
        };
        assert_eq!(
            part_lines(&part(Body::ToolResult(result)), false),
            ["  ← error (c1)", "    first", "", &format!("    {output}"), "  [media image/png: no source]"]
        );
        let call = pb::ToolCallPart {
            call_id: "c1".into(),
            tool: "bash".into(),
            input_json: "{\"a\": 1}".into(),
            ..pb::ToolCallPart::default()
        };
        assert_eq!(part_lines(&part(Body::ToolCall(call)), false), ["  → bash (c1)", "    {\"a\": 1}"]);
        assert_eq!(part_lines(&pb::Part::default(), false).len(), 1);
    }

    #[test]
    fn records_are_one_line_unless_asked_for() {
        let record = pb::RecordPart { kind: "custom".into(), data: format!("{{\n{}}}", "y".repeat(300)) };
        let lines = part_lines(&part(Body::Record(record.clone())), false);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].ends_with('…'), "{lines:?}");
        assert!(part_lines(&part(Body::Record(record)), true).concat().contains(&"y".repeat(300)));
    }

    #[test]
    fn a_reply_names_the_view_that_it_was_given() {
        let ended = pb::Finish {
            reason: pb::FinishReason::ToolCalls.into(),
            usage: Some(pb::Usage {
                input_tokens: 7,
                output_tokens: 2,
                cost_micro_usd: Some(500_000),
                ..pb::Usage::default()
            }),
            ..pb::Finish::default()
        };
        let given = pb::GivenView { revision: 41, view_hash: vec![0xab], ..pb::GivenView::default() };
        let mut message =
            pb::Message { finish: Some(ended), given_view: Some(given.clone()), ..pb::Message::default() };
        assert_eq!(
            finish(&message).as_deref(),
            Some("tool calls · 7 in, 2 out, $0.50 · was given the view at revision 41, hash ab")
        );
        let window = pb::ModelWindow { max_context_tokens: 9, ..pb::ModelWindow::default() };
        message.given_view = Some(pb::GivenView { window: Some(window), shortened: true, ..given });
        let text = finish(&message).expect("it tells");
        assert!(text.ends_with("revision 41, hash ab, shortened for it, for a window of 9 tokens"), "{text}");
        assert_eq!(finish(&pb::Message { finish: Some(pb::Finish::default()), ..pb::Message::default() }), None);
    }

    #[test]
    fn headings_name_unusual_kinds_and_states() {
        let message = pb::Message {
            revision: 3,
            role: pb::Role::User.into(),
            kind: pb::MessageKind::Record.into(),
            message_id: "msg_1".into(),
            client_id: Some("line:7".into()),
            actor: "cli".into(),
            ..pb::Message::default()
        };
        assert_eq!(heading(&message), "#3 user (record) · - · msg_1 · line:7 · by cli · open");
        let with = |status| heading(&pb::Message { status: Some(status), ..message.clone() });
        for (state, by_revision, by_message_id, pinned, expected) in [
            (pb::MessageState::Active, 0, None, false, "open"),
            (pb::MessageState::Active, 0, None, true, "open · pinned"),
            (pb::MessageState::Rewound, 9, None, false, "open · rewound at #9"),
            (pb::MessageState::Edited, 9, Some("msg_2"), true, "open · edited at #9 by msg_2, pinned"),
            (pb::MessageState::Inactive, 0, None, false, "open · inactive"),
        ] {
            let by_message_id = by_message_id.map(str::to_owned);
            let status =
                pb::MessageStatus { state: state.into(), by_revision, by_message_id, pinned, by_compaction_id: None };
            let text = with(status);
            assert!(text.ends_with(expected), "{text}");
        }
    }
}
