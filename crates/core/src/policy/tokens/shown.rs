//! The parts of stored messages and of views as a model sees them.

use super::units::ShownPart;
use crate::model::part::{Media, PartBody, ToolResult};
use crate::model::view::{PrunedPart, SourceMessage};
use crate::policy::{OutputEstimate, Policy, truncate};
use std::borrow::Cow;

/// The view of a part, as far as it counts; none if a model does not see it.
pub(in crate::policy) fn shown<'a>(
    policy: &Policy,
    body: &'a PartBody,
    pruned: Option<&'a PrunedPart>,
) -> Option<ShownPart<'a>> {
    let truncation = pruned.and_then(|pruned| pruned.truncation.as_ref());
    let apply = |text: &'a str| truncation.map_or(Cow::Borrowed(text), |truncation| Cow::Owned(truncation.apply(text)));
    let seen = |text: Cow<'a, str>| (!text.is_empty()).then_some(text);
    match body {
        PartBody::Text(text) => seen(apply(text)).map(ShownPart::Text),
        PartBody::Reasoning(text) => seen(apply(text)).map(ShownPart::Reasoning),
        PartBody::Marker(marker) => seen(Cow::Borrowed(&marker.text)).map(ShownPart::Text),
        PartBody::ToolCall(call) => Some(ShownPart::Call { call, input_json: apply(&call.input_json) }),
        PartBody::ToolResult(result) => {
            let attachments: &[Media] = if truncation.map_or(pruned.is_some(), |truncation| truncation.keeps_nothing())
            {
                &[]
            } else {
                &result.attachments
            };
            let output = match (pruned, truncation) {
                (None, _) => truncated_output(policy, result),
                (Some(_), Some(truncation)) => Cow::Owned(truncation.apply(&result.output)),
                (Some(_), None) => Cow::Owned(policy.placeholder().to_owned()),
            };
            Some(ShownPart::Result { result, output, attachments })
        }
        PartBody::Media(media) => match truncation {
            Some(truncation) => seen(Cow::Owned(truncation.apply(""))).map(ShownPart::Text),
            None => Some(ShownPart::Media(media)),
        },
        PartBody::Opaque(opaque) => truncation.is_none().then_some(ShownPart::Opaque(opaque)),
        PartBody::Step(_) | PartBody::Record(_) => None,
    }
}

/// The text of an output that counts in a prune, if no mark shortens it.
pub(in crate::policy) fn estimated_output<'a>(policy: &Policy, result: &'a ToolResult) -> Cow<'a, str> {
    match policy.truncate.as_ref().map(|rule| rule.estimate) {
        Some(OutputEstimate::Shown) => truncated_output(policy, result),
        Some(OutputEstimate::Whole) | None => Cow::Borrowed(&result.output),
    }
}

pub(in crate::policy) fn truncated_output<'a>(policy: &Policy, result: &'a ToolResult) -> Cow<'a, str> {
    let rule = policy.truncate.as_ref();
    let truncation = rule.and_then(|rule| truncate::truncated(rule, policy.counting.unit, &result.output));
    truncation.map_or(Cow::Borrowed(result.output.as_str()), |truncation| {
        Cow::Owned(truncation.truncation.apply(&result.output))
    })
}

pub(in crate::policy) fn as_is(body: &PartBody) -> Option<ShownPart<'_>> {
    let seen = |text: &'_ str| (!text.is_empty()).then_some(());
    match body {
        PartBody::Text(text) => seen(text).map(|()| ShownPart::Text(Cow::Borrowed(text))),
        PartBody::Reasoning(text) => seen(text).map(|()| ShownPart::Reasoning(Cow::Borrowed(text))),
        PartBody::Marker(marker) => seen(&marker.text).map(|()| ShownPart::Text(Cow::Borrowed(&marker.text))),
        PartBody::ToolCall(call) => Some(ShownPart::Call { call, input_json: Cow::Borrowed(&call.input_json) }),
        PartBody::ToolResult(result) => {
            let output = Cow::Borrowed(result.output.as_str());
            Some(ShownPart::Result { result, output, attachments: &result.attachments })
        }
        PartBody::Media(media) => Some(ShownPart::Media(media)),
        PartBody::Opaque(opaque) => Some(ShownPart::Opaque(opaque)),
        PartBody::Step(_) | PartBody::Record(_) => None,
    }
}

/// The parts of a stored message as a view will show them.
pub(in crate::policy) fn shown_parts<'a>(policy: &Policy, source: &'a SourceMessage) -> Vec<ShownPart<'a>> {
    shown_one_by_one(policy, source).collect()
}

/// The same as an iterator.
pub(in crate::policy) fn shown_one_by_one<'a>(
    policy: &Policy,
    source: &'a SourceMessage,
) -> impl Iterator<Item = ShownPart<'a>> {
    let parts = source.message.parts.iter();
    parts.filter_map(|part| shown(policy, &part.body, source.pruned_part(part.id)))
}
