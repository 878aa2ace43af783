//! Views in which a line of text stands for what a format cannot carry.

use super::format::Format;
use super::prepared::{block_of, is_reasoning, is_tool_name};
use super::written::{LeftOut, LeftOutKind, Refusal, RefusalKind, media_refusal};
use longhand_model::message::Role;
use longhand_model::part::{Media, PartBody, ToolCall, ToolResult};
use longhand_model::view::{ViewKind, ViewMessage, ViewPart};
use std::sync::Arc;

/// The name in the place of a tool's that has no letter which a format allows.
const TOOL: &str = "tool";

/// A view in which what was refused is replaced.
pub(super) struct DegradedView {
    format: Format,
    pub(super) view: Vec<ViewMessage>,
    pub(super) left_out: Vec<LeftOut>,
}

impl DegradedView {
    pub(super) fn new(format: Format, view: &[ViewMessage]) -> Self {
        Self { format, view: view.to_vec(), left_out: Vec::new() }
    }

    /// Replaces everything of the refused kind: a view may have hundreds of it. False if there was nothing to replace.
    pub(super) fn replace(&mut self, refusal: &Refusal) -> bool {
        let before = self.left_out.len();
        let format = self.format;
        match &refusal.kind {
            RefusalKind::ForeignBlock { .. } | RefusalKind::DamagedBlock { .. } => {
                self.parts(LeftOutKind::Block, |_, part| block(format, part));
            }
            RefusalKind::Media { .. } => {
                let is_refused = |media: &Media| media_refusal(media) == refusal.kind;
                self.parts(LeftOutKind::Media, |_, part| without_media(part, &is_refused));
            }
            RefusalKind::MediaOfRole { role } => {
                self.parts(LeftOutKind::Media, |message, part| {
                    if is_of(role, message) { without_media(part, &|_| true) } else { None }
                });
            }
            RefusalKind::PartOfRole { role } => {
                let is_text = |part: &ViewPart| matches!(&*part.body, PartBody::Text(_) | PartBody::Marker(_));
                let is_media = |part: &ViewPart| matches!(&*part.body, PartBody::Media(_));
                self.parts(LeftOutKind::Role, |message, part| {
                    (is_of(role, message) && !is_text(part) && !is_media(part)).then(|| note(&refusal.kind.to_string()))
                });
            }
            RefusalKind::ToolName { .. } => {
                self.parts(LeftOutKind::ToolName, |_, part| match &*part.body {
                    PartBody::ToolCall(call) if !is_tool_name(format, &call.tool) => {
                        Some(PartBody::ToolCall(ToolCall { tool: tool_name(format, &call.tool), ..call.clone() }))
                    }
                    _ => None,
                });
            }
            RefusalKind::LateSystem => {
                let begin = self.view.iter().position(|message| message.role != Role::System).unwrap_or(0);
                for message in self.view[begin..].iter_mut().filter(|message| message.role == Role::System) {
                    message.role = Role::User;
                    self.left_out.push(LeftOut { message: message.source, part: None, kind: LeftOutKind::Role });
                }
            }
            RefusalKind::NoUserFirst => {
                let begin = self.view.iter().position(|message| message.role != Role::System).unwrap_or(0);
                let first = ViewMessage {
                    source: None,
                    revision: 0,
                    role: Role::User,
                    kind: ViewKind::Filler,
                    parts: vec![ViewPart::new(None, note("what came before the reply"), None)],
                    original_fields: None,
                    provenance: None,
                };
                self.view.insert(begin, first);
                self.left_out.push(LeftOut { message: None, part: None, kind: LeftOutKind::Role });
            }
        }
        self.left_out.len() > before
    }

    /// Puts other content into the place of parts.
    fn parts(&mut self, kind: LeftOutKind, with: impl Fn(&ViewMessage, &ViewPart) -> Option<PartBody>) {
        for message in &mut self.view {
            let replaced: Vec<_> = message.parts.iter().map(|part| with(message, part)).collect();
            for (part, body) in message.parts.iter_mut().zip(replaced) {
                if let Some(body) = body {
                    self.left_out.push(LeftOut { message: message.source, part: part.source, kind });
                    (part.body, part.metadata_json) = (Arc::new(body), None);
                }
            }
        }
    }
}

/// True for a message of a role that a refusal names.
fn is_of(role: &str, message: &ViewMessage) -> bool {
    match message.role {
        Role::System => role == "system",
        Role::Assistant => role == "assistant",
        Role::User | Role::Tool => role == "user",
    }
}

fn note(what: &str) -> PartBody {
    PartBody::Text(line(what))
}

fn line(what: &str) -> String {
    format!("[left out: {what}]")
}

/// What stands for a block that another format has, or that is damaged.
fn block(format: Format, part: &ViewPart) -> Option<PartBody> {
    let PartBody::Opaque(opaque) = &*part.body else { return None };
    let is_read = if format.owns(&opaque.provider) { block_of(opaque).is_some() } else { is_reasoning(opaque) };
    (!is_read).then(|| note(&format!("a {} block of {}", opaque.kind, opaque.provider)))
}

/// What stands for media, and for a result with media.
fn without_media(part: &ViewPart, is_refused: &dyn Fn(&Media) -> bool) -> Option<PartBody> {
    match &*part.body {
        PartBody::Media(media) if is_refused(media) => Some(note(&media_refusal(media).to_string())),
        PartBody::ToolResult(result) if result.attachments.iter().any(is_refused) => {
            let (refused, attachments): (Vec<Media>, Vec<Media>) =
                result.attachments.iter().cloned().partition(|media| is_refused(media));
            let lines = refused.iter().map(|media| line(&media_refusal(media).to_string()));
            let output = std::iter::once(result.output.clone()).filter(|output| !output.is_empty()).chain(lines);
            let output = output.collect::<Vec<_>>().join("\n");
            Some(PartBody::ToolResult(ToolResult { output, attachments, ..result.clone() }))
        }
        _ => None,
    }
}

/// A tool's name in the letters that a format allows.
fn tool_name(format: Format, name: &str) -> String {
    let allowed: String = name
        .chars()
        .map(|letter| if is_tool_name(format, &letter.to_string()) { letter } else { '_' })
        .take(64)
        .collect();
    if allowed.is_empty() { TOOL.to_owned() } else { allowed }
}
