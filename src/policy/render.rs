//! From stored messages to a view: what a model sees of each.
//!
//! This is version 1 of the code that policies name with `render_version`. Views that were served must keep their
//! bytes, so a change of what it shows is a new version beside this one, not an edit.

use crate::model::ids::{CompactionId, PartId};
use crate::model::layout::Place;
use crate::model::message::{MessageKind, Role};
use crate::model::part::{Part, PartBody, ToolResult};
use crate::model::view::{Shortened, SourceMessage, Standing, View, ViewMessage, ViewPart};

use super::{Policy, SummaryRole, pairing, tokens, truncate};

#[cfg(test)]
mod tests;

/// The newest version of rendering; a policy that names a later one cannot be honoured.
pub const NEWEST_VERSION: u32 = 1;

/// What stands in place of a pruned output when the policy in force has no words for it: the prune was made under an
/// earlier policy, and what it cleared stays cleared.
const PLACEHOLDER: &str = "[Old tool result content cleared]";

/// The view of `messages`, which stand in the order of their layout.
///
/// Parts that say nothing to a model (steps, records, empty texts) are left out, and so are messages that have no other
/// parts.
pub fn render(policy: &Policy, messages: &[SourceMessage]) -> View {
    let messages = messages.iter().filter(|source| source.message.kind != MessageKind::Record);
    let messages = messages.map(|source| view_message(policy, source)).collect();
    let messages = pairing::pair(&policy.view.interrupted_text, messages);
    let estimated_tokens = tokens::estimate_messages(policy, &messages);
    View { messages, estimated_tokens }
}

/// What a view shows of one message. Without parts it will not outlast pairing.
fn view_message(policy: &Policy, source: &SourceMessage) -> ViewMessage {
    let message = &source.message;
    let standing = match source.place {
        Some(Place::Marker) => Standing::Marker,
        Some(Place::Summary) => Standing::Summary,
        Some(Place::Pinned | Place::Edit(_)) | None => Standing::Shown,
    };
    let mut parts: Vec<ViewPart> =
        message.parts.iter().filter_map(|part| view_part(policy, part, &source.pruned)).collect();
    if standing == Standing::Summary {
        wrap(&mut parts, &policy.view.summary_prefix, &policy.view.summary_suffix);
    }
    let role = match (standing, policy.view.summary_role) {
        (Standing::Summary, SummaryRole::User) => Role::User,
        (Standing::Summary, SummaryRole::Assistant) => Role::Assistant,
        (Standing::Shown | Standing::Marker | Standing::Paired, _) => message.role,
    };
    ViewMessage { source: Some(message.id), revision: message.revision, role, standing, parts }
}

/// Puts the policy's words around the text of a summary.
fn wrap(parts: &mut [ViewPart], prefix: &str, suffix: &str) {
    let mut texts: Vec<&mut String> = Vec::new();
    for part in parts {
        if let PartBody::Text(text) = &mut part.body {
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

/// What a view shows of one part, if anything.
fn view_part(policy: &Policy, part: &Part, pruned: &[(PartId, CompactionId)]) -> Option<ViewPart> {
    let (body, shortened) = match &part.body {
        PartBody::Text(text) | PartBody::Reasoning(text) if text.is_empty() => return None,
        PartBody::Marker(marker) if marker.text.is_empty() => return None,
        PartBody::Step(_) | PartBody::Record(_) => return None,
        PartBody::ToolResult(result) => {
            let is_pruned = pruned.iter().any(|(id, _)| *id == part.id);
            let (result, shortened) = if is_pruned { clear(policy, result) } else { cut(policy, result) };
            (PartBody::ToolResult(result), shortened)
        }
        PartBody::Text(_)
        | PartBody::Reasoning(_)
        | PartBody::ToolCall(_)
        | PartBody::Media(_)
        | PartBody::Marker(_)
        | PartBody::Opaque(_) => (part.body.clone(), None),
    };
    Some(ViewPart { source: Some(part.id), body, shortened })
}

/// A pruned result: a placeholder, and no attachments.
fn clear(policy: &Policy, result: &ToolResult) -> (ToolResult, Option<Shortened>) {
    let placeholder = policy.prune.as_ref().map_or(PLACEHOLDER, |prune| &prune.placeholder);
    let original_length = tokens::length(policy.counting.unit, &result.output);
    let cleared = ToolResult { output: placeholder.to_owned(), attachments: Vec::new(), ..result.clone() };
    (cleared, Some(Shortened::Pruned { original_length: i64::try_from(original_length).unwrap_or(i64::MAX) }))
}

/// A result as long as the policy lets it be.
fn cut(policy: &Policy, result: &ToolResult) -> (ToolResult, Option<Shortened>) {
    let cut = policy.truncate.as_ref().and_then(|rule| truncate::cut(rule, policy.counting.unit, &result.output));
    match cut {
        Some((output, omitted_length)) => {
            (ToolResult { output, ..result.clone() }, Some(Shortened::Truncated { omitted_length }))
        }
        None => (result.clone(), None),
    }
}
