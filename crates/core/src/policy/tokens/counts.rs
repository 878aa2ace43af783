//! Stored counts of messages, with the name of the counting that they were made by.

use super::messages::units;
use super::shown::{as_is, estimated_output, shown};
use super::units::text_units;
use crate::model::ids::MessageId;
use crate::model::message::Role;
use crate::model::part::{Part, PartBody};
use crate::model::view::{Counts, PartCounts, SourceMessage, ViewKind, ViewMessage};
use crate::policy::{Counting, Policy, TextUnits, Truncate};
use foldhash::HashMap;
use serde::Serialize;

/// The name of a policy's counting; none if its counts are not worth keeping. Equal names mean equal counts of every
/// message. Counts are kept if each text must be encoded to be counted; a length is computed faster than a count is
/// read.
pub fn basis(policy: &Policy) -> Option<String> {
    #[derive(Serialize)]
    struct Basis<'a> {
        counting: &'a Counting,
        /// Outputs count as views show them, and in prunes as the policy says.
        truncate: &'a Option<Truncate>,
        /// Fingerprint of a vocabulary's tokens, which its name alone does not identify.
        vocabulary: Option<&'a str>,
    }
    let vocabulary = match &policy.counting.text {
        TextUnits::Length | TextUnits::Mixed { .. } | TextUnits::Classes => return None,
        TextUnits::Bpe { .. } => None,
        TextUnits::Vocabulary { attached, .. } => Some(attached.0.as_ref()?.fingerprint()),
    };
    let basis = Basis { counting: &policy.counting, truncate: &policy.truncate, vocabulary };
    serde_json::to_string(&basis).ok()
}

/// Counts a message as it was written.
pub fn count(policy: &Policy, role: Role, bodies: &[&PartBody]) -> Counts {
    let counting = &policy.counting;
    let part = |body: &&PartBody| {
        let alone = shown(policy, body, None).map_or(0, |shown| units(counting, role, &[shown]));
        let words = match body {
            PartBody::ToolResult(result) => text_units(counting, &estimated_output(policy, result)),
            _ => 0,
        };
        PartCounts { alone, words }
    };
    let parts: Vec<PartCounts> = bodies.iter().map(part).collect();
    let whole = match parts.as_slice() {
        [only] => only.alone,
        _ => {
            let parts = bodies.iter().filter_map(|body| shown(policy, body, None));
            units(counting, role, &parts.collect::<Vec<_>>())
        }
    };
    Counts { whole, parts, erased: bodies.iter().filter(|body| body.is_erased()).count() }
}

/// The counts of a part, if they are known and no mark changes the part.
pub(super) fn count_part(source: &SourceMessage, part: &Part) -> Option<PartCounts> {
    source.counts.as_ref()?;
    of_part(source, source.message.parts.iter().position(|other| other.id == part.id)?)
}

/// The same by its index.
pub(super) fn of_part(source: &SourceMessage, index: usize) -> Option<PartCounts> {
    let counts = source.counts.as_ref()?;
    let part = source.message.parts.get(index)?;
    if source.pruned_part(part.id).is_none() { counts.parts.get(index).copied() } else { None }
}

/// The counted messages that no mark changes.
pub(super) fn by_id<'a>(sources: impl IntoIterator<Item = &'a SourceMessage>) -> HashMap<MessageId, &'a SourceMessage> {
    let is_counted = |source: &&SourceMessage| source.counts.is_some() && source.pruned.is_empty();
    sources.into_iter().filter(is_counted).map(|source| (source.message.id, source)).collect()
}

/// The units of a message of a view, if it shows a counted message as it was written.
pub(super) fn of_view(counted: &HashMap<MessageId, &SourceMessage>, message: &ViewMessage) -> Option<i64> {
    let source = counted.get(&message.source?)?;
    let is_itself = message.kind == ViewKind::Shown && message.role == source.message.role;
    let seen = source.message.parts.iter().filter(|part| as_is(&part.body).is_some());
    let parts = message.parts.iter().filter(|part| as_is(&part.body).is_some());
    let is_whole = is_itself && seen.map(|part| Some(part.id)).eq(parts.map(|part| part.source));
    source.counts.as_ref().filter(|_| is_whole).map(|counts| counts.whole)
}
