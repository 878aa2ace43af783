//! The writer of Markdown for people.
//!
//! No text of a session can end a fence, begin HTML, load an image or pass for a heading: texts are written with their
//! markup, but what begins HTML is escaped, links and images are taken apart, and every fence is written anew and closed.

use super::session::{Look, Message, Session, beginning, finish_text, heading, positions, state_text};
use super::visible::{visible, visible_line};
use longhand_model::message::MessageKind;
use longhand_model::part::{Media, MediaSource, NewPart, PartBody, ResultStatus};
use std::collections::HashMap;
use std::io::{self, Write};

/// Writes a session as Markdown.
///
/// # Errors
///
/// The writer failed.
pub fn write(session: &Session, look: &Look, out: &mut dyn Write) -> io::Result<()> {
    let title = if session.title.is_empty() { "Session" } else { &session.title };
    writeln!(out, "# {}\n", inline(title))?;
    let created = session.create_time.to_iso_8601();
    writeln!(out, "Session {}, created {created}.", inline(&session.id))?;
    let mut records = 0;
    let positions = positions(session);
    for message in &session.messages {
        if message.kind == MessageKind::Record && !look.records {
            records += 1;
            continue;
        }
        write_message(&positions, message, look, out)?;
    }
    if records > 0 {
        writeln!(out, "\n---\n\n{records} records are left out.")?;
    }
    Ok(())
}

fn write_message(
    positions: &HashMap<&str, i64>,
    message: &Message,
    look: &Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "\n## {}", inline(&heading(message)))?;
    if let Some(state) = state_text(positions, &message.status) {
        writeln!(out, "\n> **{}**", inline(&state))?;
    }
    for part in &message.parts {
        writeln!(out)?;
        write_part(part, look, out)?;
    }
    if let Some(end) = finish_text(message) {
        writeln!(out, "\n*{}*", inline(&end).replace('*', "\\*"))?;
    }
    Ok(())
}

fn write_part(part: &NewPart, look: &Look, out: &mut dyn Write) -> io::Result<()> {
    match &*part.body {
        PartBody::Text(text) => write_prose(text, out),
        PartBody::Reasoning(text) => folded("Thinking", "text", text, usize::MAX, out),
        PartBody::ToolCall(call) => {
            writeln!(out, "**Call of {}** ({})\n", inline(&call.tool), inline(&call.call_id))?;
            fenced("json", &call.input_json, usize::MAX, out)
        }
        PartBody::ToolResult(result) => {
            let status = match result.status {
                ResultStatus::Completed => "Result",
                ResultStatus::Error => "Result: error",
                ResultStatus::Interrupted => "Result: interrupted",
            };
            let lines = result.output.lines().count();
            let summary = format!("{status} of {}, {lines} lines", result.call_id);
            folded(&summary, "text", &result.output, look.output_bytes, out)?;
            result.attachments.iter().try_for_each(|media| write_media(media, out))
        }
        PartBody::Media(media) => write_media(media, out),
        PartBody::Marker(marker) => {
            writeln!(out, "**Marker {}**", inline(&marker.name))?;
            if marker.text.is_empty() { Ok(()) } else { writeln!(out).and_then(|()| write_prose(&marker.text, out)) }
        }
        PartBody::Step(step) => writeln!(out, "*End of a step: {}*", inline(&step.finish_reason).replace('*', "\\*")),
        PartBody::Opaque(opaque) => {
            writeln!(
                out,
                "*Block of {}, {}: {} bytes*",
                inline(&opaque.provider),
                inline(&opaque.kind),
                opaque.data.len()
            )
        }
        PartBody::Record(record) => {
            folded(&format!("Record {}", record.kind), "text", &record.data, look.output_bytes, out)
        }
    }
}

fn write_media(media: &Media, out: &mut dyn Write) -> io::Result<()> {
    let source = match &media.source {
        MediaSource::Bytes(bytes) => format!("{} bytes", bytes.len()),
        MediaSource::Uri(uri) => uri.clone(),
    };
    let name = if media.name.is_empty() { String::new() } else { format!(" {}", media.name) };
    writeln!(out, "\n*Attachment{}*", inline(&format!("{name} ({}): {source}", media.mime_type)).replace('*', "\\*"))
}

/// A text in a fence that folds away.
fn folded(summary: &str, language: &str, text: &str, bytes: usize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<details>\n<summary>{}</summary>\n", inline(summary).replace('>', "&gt;"))?;
    fenced(language, text, bytes, out)?;
    writeln!(out, "\n</details>")
}

/// A text in a fence that is longer than any in it.
fn fenced(language: &str, text: &str, bytes: usize, out: &mut dyn Write) -> io::Result<()> {
    let (text, lacks) = beginning(text, bytes);
    let fence = "`".repeat(longest_run(text, '`').max(2) + 1);
    writeln!(out, "{fence}{language}")?;
    let text = visible(text);
    write!(out, "{text}")?;
    if !text.is_empty() && !text.ends_with('\n') {
        writeln!(out)?;
    }
    writeln!(out, "{fence}")?;
    if lacks > 0 { writeln!(out, "\n*{lacks} bytes more*") } else { Ok(()) }
}

fn longest_run(text: &str, letter: char) -> usize {
    let (mut longest, mut run) = (0, 0);
    for other in text.chars() {
        run = if other == letter { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

/// Writes a text with its markup, made harmless.
fn write_prose(text: &str, out: &mut dyn Write) -> io::Result<()> {
    let text = visible(text);
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        let Some((letter, length, language)) = opening(line) else {
            writeln!(out, "{}", prose(line))?;
            continue;
        };
        let mut code = Vec::new();
        for line in lines.by_ref() {
            if is_closing(line, letter, length) {
                break;
            }
            code.push(line);
        }
        fenced(&language, &code.join("\n"), usize::MAX, out)?;
    }
    Ok(())
}

/// The letter, the length and the language of a line that opens a fence.
fn opening(line: &str) -> Option<(char, usize, String)> {
    let text = line.trim_start_matches(' ');
    let letter = text.chars().next().filter(|letter| matches!(letter, '`' | '~'))?;
    let length = text.chars().take_while(|other| *other == letter).count();
    let info = &text[length..];
    let is_fence = line.len() - text.len() < 4 && length >= 3 && !(letter == '`' && info.contains('`'));
    let language = info.trim().chars().take_while(char::is_ascii_alphanumeric).take(20).collect();
    is_fence.then_some((letter, length, language))
}

fn is_closing(line: &str, letter: char, length: usize) -> bool {
    let text = line.trim_start_matches(' ');
    let run = text.chars().take_while(|other| *other == letter).count();
    line.len() - text.len() < 4 && run >= length && text[run..].trim().is_empty()
}

/// A line of prose: no HTML, no image, no link, no heading, and no underline that makes one of the line before.
fn prose(line: &str) -> String {
    let mut safe = escaped(line);
    let start = safe.len() - safe.trim_start_matches([' ', '\t']).len();
    let text = &safe[start..];
    let is_underline = |letter: char| !text.is_empty() && text.trim_end().chars().all(|other| other == letter);
    let is_definition = text.starts_with('[') && text.contains("]:");
    if text.starts_with('#') || is_underline('=') || is_underline('-') || is_definition {
        safe.insert(start, '\\');
    }
    safe
}

/// What begins HTML, links and images is escaped. An entity cannot be undone by what stands before it, as a backslash can.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace("![", "!&#91;")
        .replace("](", "]&#40;")
        .replace("][", "]&#91;")
}

/// A text within a line of our own.
fn inline(text: &str) -> String {
    let text = escaped(&visible_line(text));
    text.replace('`', "&#96;").replace('|', "&#124;").replace('[', "&#91;").replace('_', "&#95;")
}
