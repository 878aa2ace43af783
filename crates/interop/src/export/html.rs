//! The writer of one HTML file for people.
//!
//! The file is whole and safe: no script, no address that is loaded, a policy that forbids both, and every text of the
//! session escaped. Images are those whose bytes are of the raster type that they are said to have.

use super::session::{Look, Message, Session, beginning, finish_text, heading, positions, state_name, state_text};
use super::visible::visible;
use crate::compose::base64_text;
use longhand_model::message::{MessageKind, MessageState, Role};
use longhand_model::part::{Media, MediaSource, NewPart, PartBody, ResultStatus};
use std::collections::HashMap;
use std::io::{self, Write};

/// Everything before the title.
const HEAD: &str = concat!(
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; ",
    "img-src data:; base-uri 'none'; form-action 'none'\">\n",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
    "<meta name=\"referrer\" content=\"no-referrer\">\n",
    "<meta name=\"color-scheme\" content=\"light dark\">\n",
    "<link rel=\"icon\" href=\"data:,\">\n",
);

const STYLE: &str = include_str!("export.css");

/// Writes a session as an HTML file.
///
/// # Errors
///
/// The writer failed.
pub fn write(session: &Session, look: &Look, out: &mut dyn Write) -> io::Result<()> {
    let title = if session.title.is_empty() { "Session" } else { &session.title };
    write!(out, "{HEAD}<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n", text(title))?;
    let shown = session.messages.iter().filter(|message| look.records || message.kind != MessageKind::Record);
    let (id, created) = (text(&session.id), session.create_time.to_iso_8601());
    let count = shown.clone().count();
    write!(out, "<header>\n<h1><bdi>{}</bdi></h1>\n<p><code>{id}</code> · created {created} · ", text(title))?;
    let left_out = session.messages.len() - count;
    write!(out, "{count} messages")?;
    if left_out > 0 {
        write!(out, ", {left_out} records left out")?;
    }
    writeln!(out, "</p>\n</header>")?;
    let positions = positions(session);
    for message in shown {
        write_message(&positions, message, look, out)?;
    }
    writeln!(out, "</main>\n</body>\n</html>")
}

fn write_message(
    positions: &HashMap<&str, i64>,
    message: &Message,
    look: &Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let role = match (message.kind, message.role) {
        (kind, _) if kind.is_derived() => "derived",
        (_, Role::User) => "user",
        (_, Role::Assistant) => "assistant",
        (_, Role::Tool) => "tool",
        (_, Role::System) => "system",
    };
    let is_shown = message.status.state == MessageState::Active;
    let hidden = if is_shown { "" } else { " hidden-in-view" };
    writeln!(out, "<article class=\"{role}{hidden}\" id=\"m{}\">", message.revision)?;
    write!(out, "<h2><bdi>{}</bdi>", text(&heading(message)))?;
    let state = state_text(positions, &message.status).unwrap_or_else(|| state_name(message.status.state).to_owned());
    writeln!(out, " <span class=\"state\"><bdi>{}</bdi></span></h2>", text(&state))?;
    for part in &message.parts {
        write_part(part, look, out)?;
    }
    if let Some(end) = finish_text(message) {
        writeln!(out, "<p class=\"end\"><bdi>{}</bdi></p>", text(&end))?;
    }
    writeln!(out, "</article>")
}

fn write_part(part: &NewPart, look: &Look, out: &mut dyn Write) -> io::Result<()> {
    match &*part.body {
        PartBody::Text(words) => writeln!(out, "<div class=\"text\" dir=\"auto\">{}</div>", text(words)),
        PartBody::Reasoning(words) => folded("Thinking", "thinking", words, usize::MAX, out),
        PartBody::ToolCall(call) => {
            folded(&format!("Call of {} ({})", call.tool, call.call_id), "call", &call.input_json, usize::MAX, out)
        }
        PartBody::ToolResult(result) => {
            let (status, class) = match result.status {
                ResultStatus::Completed => ("Result", "result"),
                ResultStatus::Error => ("Error", "result failed"),
                ResultStatus::Interrupted => ("Interrupted", "result failed"),
            };
            let lines = result.output.lines().count();
            let summary = format!("{status} of {}, {lines} lines", result.call_id);
            folded(&summary, class, &result.output, look.output_bytes, out)?;
            result.attachments.iter().try_for_each(|media| write_media(media, out))
        }
        PartBody::Media(media) => write_media(media, out),
        PartBody::Marker(marker) => folded(&format!("Marker {}", marker.name), "marker", &marker.text, usize::MAX, out),
        PartBody::Step(step) => {
            writeln!(out, "<p class=\"end\"><bdi>End of a step: {}</bdi></p>", text(&step.finish_reason))
        }
        PartBody::Opaque(opaque) => {
            let (provider, kind) = (text(&opaque.provider), text(&opaque.kind));
            let bytes = opaque.data.len();
            writeln!(out, "<p class=\"end\"><bdi>Block of {provider}, {kind}: {bytes} bytes</bdi></p>")
        }
        PartBody::Record(record) => {
            folded(&format!("Record {}", record.kind), "record", &record.data, look.output_bytes, out)
        }
    }
}

fn folded(summary: &str, class: &str, words: &str, bytes: usize, out: &mut dyn Write) -> io::Result<()> {
    let (words, lacks) = beginning(words, bytes);
    write!(out, "<details class=\"{class}\"><summary><bdi>{}</bdi></summary>", text(summary))?;
    // A line feed directly after the tag is no content.
    write!(out, "<pre dir=\"auto\">\n{}</pre>", text(words))?;
    if lacks > 0 {
        write!(out, "<p class=\"end\">{lacks} bytes more</p>")?;
    }
    writeln!(out, "</details>")
}

fn write_media(media: &Media, out: &mut dyn Write) -> io::Result<()> {
    let name = if media.name.is_empty() { "attachment" } else { &media.name };
    let (name, mime_type) = (text(name), text(&media.mime_type));
    match &media.source {
        MediaSource::Bytes(bytes) => match raster_type(bytes).filter(|found| *found == media.mime_type) {
            Some(found) => {
                let data = base64_text(bytes);
                writeln!(out, "<figure><img alt=\"{name}\" src=\"data:{found};base64,{data}\">")?;
                writeln!(out, "<figcaption><bdi>{name}</bdi>, {mime_type}</figcaption></figure>")
            }
            None => {
                let bytes = bytes.len();
                writeln!(out, "<p class=\"media\"><bdi>{name}</bdi>, {mime_type}: {bytes} bytes, not shown</p>")
            }
        },
        MediaSource::Uri(uri) => {
            let uri = text(uri);
            writeln!(out, "<p class=\"media\"><bdi>{name}</bdi>, {mime_type}: <bdi>{uri}</bdi>, not loaded</p>")
        }
    }
}

/// The raster type that bytes begin like.
fn raster_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// A text within an element or a quoted attribute.
fn text(text: &str) -> String {
    let text = visible(text);
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            letter => out.push(letter),
        }
    }
    out
}
