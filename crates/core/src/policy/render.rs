//! Rendering of stored messages to a view: the parts that a model sees.
//!
//! This code implements `render_version` 1 of policies. Served views must keep their bytes, so a change of rendering
//! requires a new version beside this one, not an edit.

use crate::model::layout::Placement;
use crate::model::message::{MessageKind, Role};
use crate::model::part::{Part, PartBody, ToolCall, ToolResult};
use crate::model::view::{PartShortening, PrunedPart, SourceMessage, View, ViewKind, ViewMessage, ViewPart};

use super::calls::{CallWithResult, Calls, Earlier};
use super::{Policy, RESUME_TEXT, SummaryRole, pairing, tokens, truncate};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// The view of messages in the order of their layout.
///
/// Parts without content for a model (steps, records, empty texts) are left out, and so are messages without other
/// parts.
pub fn render(policy: &Policy, sources: &[SourceMessage]) -> View {
    let rendered = render_behind(policy, None, sources);
    let messages: Vec<ViewMessage> = rendered.messages.into_iter().map(|(_, message)| message).collect();
    let estimated_tokens = tokens::estimate_view(policy, &messages, sources);
    View { messages, estimated_tokens }
}

/// Messages of a view, with the data that rendering of later ones requires.
#[derive(Debug)]
pub struct RenderedMessages<'a> {
    /// The messages, each with the index of the stored message that it represents or follows; these indexes ascend.
    pub messages: Vec<(usize, ViewMessage)>,
    /// The calls, in reading order.
    pub calls: Vec<RenderedCall<'a>>,
    /// Index of the stored message from which on the assistant may speak; none if there is none yet.
    pub opened: Option<usize>,
}

/// A call among rendered messages.
#[derive(Debug, Clone, Copy)]
pub struct RenderedCall<'a> {
    /// Index of its message.
    pub index: usize,
    /// Index of the message of its result; none without a result.
    pub answer: Option<usize>,
    /// The id of the call.
    pub call_id: &'a str,
    /// The writer of the call.
    pub writer: &'a str,
}

/// Renders messages that follow earlier ones, if none of their results answers an earlier call and the assistant may
/// speak after these. No earlier ones: the messages begin a view.
pub fn render_behind<'a>(
    policy: &Policy,
    earlier: Option<&Earlier>,
    sources: &'a [SourceMessage],
) -> RenderedMessages<'a> {
    let indexed = sources.iter().enumerate().filter(|(_, source)| source.message.kind != MessageKind::Record);
    let (mut indexes, mut messages): (Vec<usize>, Vec<ViewMessage>) =
        indexed.map(|(index, source)| (index, view_message(policy, source))).unzip();
    if let Some((at, added)) = answer_summary(policy, &mut messages) {
        indexes.splice(at..at, std::iter::repeat_n(indexes[at], added).collect::<Vec<_>>());
    }
    let calls = Calls::behind(earlier, sources);
    let answered = calls.iter().filter_map(|called| Some((called.answer?.part.id, called.part.id))).collect();
    let rendered = |called: &CallWithResult<'a>| RenderedCall {
        index: called.index,
        answer: called.answer.map(|answer| answer.index),
        call_id: &called.call.call_id,
        writer: called.source.message.writer(),
    };
    let paired = pairing::pair(&policy.view.interrupted_text, messages, &answered, earlier).into_iter();
    let paired = paired.map(|(index, message)| (indexes[index], message));
    let (messages, opened) = open(policy, earlier.is_some(), paired);
    RenderedMessages { calls: calls.iter().map(rendered).collect(), messages, opened }
}

/// Adds a request wherever the assistant would speak without one: at the beginning of a view, but for a provider's
/// compaction, and after one that is alone, its own summary or acknowledgement. Also returns the index from which on it
/// may speak.
fn open(
    policy: &Policy,
    is_behind: bool,
    paired: impl Iterator<Item = (usize, ViewMessage)>,
) -> (Vec<(usize, ViewMessage)>, Option<usize>) {
    let mut opened = is_behind.then_some(0);
    let mut messages = Vec::new();
    for (index, message) in paired {
        let is_assistants = message.role == Role::Assistant;
        if message.begins_with_compaction() {
            // What the reply says after its block continues what the block stands for.
            opened = (message.parts.len() > 1).then_some(index);
            messages.push((index, message));
            continue;
        }
        if is_assistants && opened.is_none() {
            messages.push((index, filler(Role::User, policy.view.resume_text.as_deref().unwrap_or(RESUME_TEXT))));
        }
        if is_assistants && matches!(message.kind, ViewKind::Summary | ViewKind::Filler) {
            opened = None;
        } else if message.role != Role::System {
            opened.get_or_insert(index);
        }
        messages.push((index, message));
    }
    (messages, opened)
}

/// The view of one message. Pairing removes it if it has no parts.
fn view_message(policy: &Policy, source: &SourceMessage) -> ViewMessage {
    let message = &source.message;
    let kind = match source.placement {
        Some(Placement::Continuation) => ViewKind::Added,
        Some(Placement::Edit(_)) if message.kind == MessageKind::Replay => ViewKind::Added,
        Some(Placement::Marker) => ViewKind::Marker,
        Some(Placement::Summary) => ViewKind::Summary,
        Some(Placement::Pinned | Placement::Retained | Placement::Edit(_) | Placement::Block) | None
            if message.kind == MessageKind::Branch =>
        {
            ViewKind::Branch
        }
        Some(Placement::Pinned | Placement::Retained | Placement::Edit(_) | Placement::Block) | None => ViewKind::Shown,
    };
    let mut parts: Vec<ViewPart> =
        message.parts.iter().filter_map(|part| view_part(policy, part, source.pruned_part(part.id))).collect();
    if kind == ViewKind::Summary {
        // If an acknowledgement follows the summary, attachments come after the acknowledgement.
        let own = if policy.view.acknowledgement.is_some() { parts.len().min(1) } else { parts.len() };
        wrap(&mut parts[..own], &policy.view.summary_prefix, &policy.view.summary_suffix);
    }
    let role = match (kind, policy.view.summary_role) {
        (ViewKind::Summary, SummaryRole::User) => Role::User,
        (ViewKind::Summary, SummaryRole::Assistant) => Role::Assistant,
        (
            ViewKind::Shown
            | ViewKind::Marker
            | ViewKind::Paired
            | ViewKind::Filler
            | ViewKind::Retrieved
            | ViewKind::Branch
            | ViewKind::Added,
            _,
        ) => message.role,
    };
    let (source, revision) = (Some(message.id), message.revision);
    ViewMessage { source, revision, role, kind, parts, original_fields: None, provenance: None }
}

/// Puts the policy's prefix and suffix around the text of a summary.
fn wrap(parts: &mut [ViewPart], prefix: &str, suffix: &str) {
    let mut texts: Vec<&mut String> = Vec::new();
    for part in parts {
        if let PartBody::Text(text) = Arc::make_mut(&mut part.body) {
            texts.push(text);
        }
    }
    if let Some(first) = texts.first_mut() {
        first.insert_str(0, prefix);
    }
    if let Some(last) = texts.last_mut() {
        last.push_str(suffix);
    }
}

/// Adds an acknowledgement by the model after the summary, if the policy has one, so that the turns of both sides
/// alternate. Attachments of the summary follow as a message of their own.
///
/// Returns the index of the summary and the number of messages added after it; none without a summary.
fn answer_summary(policy: &Policy, messages: &mut Vec<ViewMessage>) -> Option<(usize, usize)> {
    let at = messages.iter().position(|message| message.kind == ViewKind::Summary)?;
    let mut behind = Vec::new();
    if let Some(words) = &policy.view.acknowledgement {
        behind.push(filler(Role::Assistant, words));
        let summary = &mut messages[at];
        let attached = summary.parts.split_off(summary.parts.len().min(1));
        if !attached.is_empty() {
            behind.push(ViewMessage { role: Role::User, parts: attached, ..summary.clone() });
        }
    }
    let added = behind.len();
    messages.splice(at + 1..at + 1, behind);
    Some((at, added))
}

/// A message that exists in the view only.
fn filler(role: Role, words: &str) -> ViewMessage {
    let parts = vec![ViewPart::new(None, PartBody::Text(words.to_owned()), None)];
    let kind = ViewKind::Filler;
    ViewMessage { source: None, revision: 0, role, kind, parts, original_fields: None, provenance: None }
}

/// The view of one part; none if it is not shown.
fn view_part(policy: &Policy, part: &Part, pruned: Option<&PrunedPart>) -> Option<ViewPart> {
    let (body, shortened) = match (&*part.body, pruned) {
        (PartBody::Step(_) | PartBody::Record(_), _) => return None,
        (PartBody::ToolResult(result), None) => match truncated(policy, result) {
            Some((result, shortened)) => (PartBody::ToolResult(result).into(), Some(shortened)),
            None => (part.body.clone(), None),
        },
        (_, None) => (part.body.clone(), None),
        (body, Some(pruned)) => {
            let (body, shortened) = shorten(policy, body, pruned);
            (body.into(), shortened)
        }
    };
    let says_nothing = match &*body {
        PartBody::Text(text) | PartBody::Reasoning(text) => text.is_empty(),
        PartBody::Marker(marker) => marker.text.is_empty(),
        PartBody::Opaque(_) => shortened.is_some(),
        PartBody::ToolCall(_)
        | PartBody::ToolResult(_)
        | PartBody::Media(_)
        | PartBody::Step(_)
        | PartBody::Record(_) => false,
    };
    let shortened = if part.body.is_erased() { Some(PartShortening::Erased) } else { shortened };
    (!says_nothing).then(|| ViewPart::new(Some(part.id), body, shortened))
}

/// The view of a part that a mark shortens.
pub(super) fn shortened(policy: &Policy, body: &PartBody, pruned: &PrunedPart) -> PartBody {
    shorten(policy, body, pruned).0
}

/// A part that a mark shortens: a result or a text after its truncation, a media item as text.
fn shorten(policy: &Policy, body: &PartBody, pruned: &PrunedPart) -> (PartBody, Option<PartShortening>) {
    let unit = policy.counting.unit;
    let apply = |text: &str| match &pruned.truncation {
        Some(truncation) => truncation.apply(text),
        None => policy.placeholder().to_owned(),
    };
    let (body, original) = match body {
        PartBody::Text(text) => (PartBody::Text(apply(text)), tokens::length(unit, text)),
        PartBody::Reasoning(text) => (PartBody::Reasoning(apply(text)), tokens::length(unit, text)),
        PartBody::ToolCall(call) => {
            let shorter = ToolCall { input_json: apply(&call.input_json), ..call.clone() };
            (PartBody::ToolCall(shorter), tokens::length(unit, &call.input_json))
        }
        PartBody::ToolResult(result) => {
            let keeps_nothing = pruned.truncation.as_ref().is_none_or(|truncation| truncation.keeps_nothing());
            let attachments = if keeps_nothing { Vec::new() } else { result.attachments.clone() };
            let shorter = ToolResult { output: apply(&result.output), attachments, ..result.clone() };
            (PartBody::ToolResult(shorter), tokens::length(unit, &result.output))
        }
        PartBody::Media(_) => (PartBody::Text(apply("")), 0),
        PartBody::Opaque(opaque) => (body.clone(), opaque.data.len()),
        PartBody::Marker(_) | PartBody::Step(_) | PartBody::Record(_) => return (body.clone(), None),
    };
    (body, Some(PartShortening::Pruned { original_length: i64::try_from(original).unwrap_or(i64::MAX) }))
}

/// A result that is longer than the policy lets it be, as the view shows it.
fn truncated(policy: &Policy, result: &ToolResult) -> Option<(ToolResult, PartShortening)> {
    let rule = policy.truncate.as_ref()?;
    let truncated = truncate::truncated(rule, policy.counting.unit, &result.output)?;
    let output = truncated.truncation.apply(&result.output);
    Some((ToolResult { output, ..result.clone() }, PartShortening::Truncated { omitted_length: truncated.omitted }))
}
