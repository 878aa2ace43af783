//! The replacement of a pruned part in a view.

use super::protection::{Call, PrunablePart};
use crate::model::ids::{CompactionId, PartId};
use crate::model::part::PartBody;
use crate::model::time::Timestamp;
use crate::model::truncation::Truncation;
use crate::model::view::PrunedPart;
use crate::policy::tokens::{estimate_part, estimate_part_of};
use crate::policy::{Policy, Prune, Replacement, Target};
use uuid::Uuid;

/// The input of a call whose input was pruned.
const NO_INPUT: &str = "{}";

/// The truncations that prune a part, and the input of its call if the step prunes inputs.
pub(super) fn truncations(
    policy: &Policy,
    prune: &Prune,
    now: Timestamp,
    found: &PrunablePart<'_>,
) -> Vec<(PartId, Truncation)> {
    let truncation = truncation(policy, prune, now, found);
    let is_shorter = || estimate(policy, found, Some(&truncation)) < estimate(policy, found, None);
    let mut truncations = Vec::new();
    if !is_excerpt_of_nothing(prune, found) && (!prune.only_if_shorter || is_shorter()) {
        truncations.push((found.part.id, truncation));
    }
    if let (Some(tools), Some(call)) = (&prune.inputs, &found.call)
        && tools.contain(Some(&call.call.tool))
        && has_input(call)
    {
        truncations.push((call.part.id, Truncation::placeholder(NO_INPUT)));
    }
    truncations
}

/// True if an output has no text for an excerpt. A truncation that keeps no text would remove the media too.
fn is_excerpt_of_nothing(prune: &Prune, found: &PrunablePart<'_>) -> bool {
    let PartBody::ToolResult(result) = &*found.part.body else { return false };
    matches!(prune.replacement, Replacement::Named(_)) && result.output.is_empty()
}

fn has_input(call: &Call<'_>) -> bool {
    call.call.input_json.len() > NO_INPUT.len() && call.source.pruned_part(call.part.id).is_none()
}

fn truncation(policy: &Policy, prune: &Prune, now: Timestamp, found: &PrunablePart<'_>) -> Truncation {
    let unit = policy.counting.unit;
    match (&prune.replacement, &*found.part.body, prune.target) {
        (Replacement::Placeholder(placeholder), PartBody::ToolResult(result), Target::Attachments) => {
            // A truncation that keeps any text of an output keeps its media, so the text that stays is a placeholder as
            // a whole.
            let shown = shown_output(found, &result.output);
            let about = result.attachments.iter().map(|media| placeholder.about_media(unit, now, found, media));
            let notes: Vec<String> = about.filter(|note| !note.is_empty()).collect();
            let lines = Some(shown).into_iter().filter(|shown| !shown.is_empty()).chain(notes);
            Truncation::placeholder(lines.collect::<Vec<_>>().join("\n"))
        }
        (Replacement::Placeholder(placeholder), _, _) => Truncation::placeholder(placeholder.about(unit, now, found)),
        (Replacement::Named(named), PartBody::ToolResult(result), _) => {
            let tool = found.call.map_or("", |call| &call.call.tool);
            let excerpt = named.excerpt();
            excerpt.map_or_else(Truncation::default, |excerpt| {
                excerpt.truncation(unit, tool, found.part.id, &result.output)
            })
        }
        (Replacement::Named(_), _, _) => Truncation::default(),
    }
}

/// An output as its marks show it.
fn shown_output(found: &PrunablePart<'_>, output: &str) -> String {
    let pruned = found.source.pruned_part(found.part.id);
    pruned
        .and_then(|pruned| pruned.truncation.as_ref())
        .map_or_else(|| output.to_owned(), |truncation| truncation.apply(output))
}

/// Estimate of the part in its message, as it is or with a truncation.
fn estimate(policy: &Policy, found: &PrunablePart<'_>, truncation: Option<&Truncation>) -> i64 {
    let tool = found.call.map(|found| found.call.tool.as_str());
    let Some(truncation) = truncation else { return estimate_part_of(policy, found.source, found.part, tool) };
    let pruned =
        PrunedPart { part: found.part.id, compaction: CompactionId(Uuid::nil()), truncation: Some(truncation.clone()) };
    estimate_part(policy, found.source.message.role, &found.part.body, Some(&pruned), tool)
}
