//! The size of a message in units, by the rule of the policy.

use super::shown::{as_is, shown_parts};
use super::units::{ShownPart, is_encoded, text_units};
use super::{contents, json, words};
use crate::model::message::Role;
use crate::model::part::PartBody;
use crate::model::view::{SourceMessage, ViewKind, ViewMessage};
use crate::policy::{CountPer, Counting, Policy, bpe};

/// The units of one message; 0 if a model sees nothing of it.
pub(in crate::policy) fn units(counting: &Counting, role: Role, parts: &[ShownPart<'_>]) -> i64 {
    if parts.is_empty() {
        return 0;
    }
    match &counting.per {
        CountPer::Message => words::units(counting, parts),
        CountPer::Parts { part_units } => words::units_in_parts(counting, parts, *part_units),
        CountPer::JsonRange => json::units(counting, role, parts),
        CountPer::Contents => contents::units(counting, parts),
        CountPer::Characters => contents::characters(counting, parts),
        CountPer::Named(named) => named.count().map_or(0, |strategy| strategy.units(counting, role, parts)),
    }
}

pub(in crate::policy) fn view_units(policy: &Policy, message: &ViewMessage) -> i64 {
    // The parts of a view are truncated already and are not truncated again.
    let parts: Vec<ShownPart<'_>> = message.parts.iter().filter_map(|part| as_is(&part.body)).collect();
    let units = units(&policy.counting, message.role, &parts);
    match (&policy.counting.per, message.kind) {
        (CountPer::Message | CountPer::Contents | CountPer::Characters, ViewKind::Summary)
            if is_wrapped(policy, message) =>
        {
            (units - wrapper_units(policy)).max(0)
        }
        (
            CountPer::Message
            | CountPer::Contents
            | CountPer::Characters
            | CountPer::Parts { .. }
            | CountPer::JsonRange
            | CountPer::Named(_),
            _,
        ) => units,
    }
}

/// True for a summary with the policy's prefix and suffix. Its attachments may be in a message of their own without
/// them.
pub(in crate::policy) fn is_wrapped(policy: &Policy, message: &ViewMessage) -> bool {
    let mut texts = message.parts.iter().filter_map(|part| match &*part.body {
        PartBody::Text(text) => Some(text),
        _ => None,
    });
    let first = texts.next();
    let last = texts.next_back().or(first);
    first.is_some_and(|text| text.starts_with(&policy.view.summary_prefix))
        && last.is_some_and(|text| text.ends_with(&policy.view.summary_suffix))
}

pub(in crate::policy) fn wrapper_units(policy: &Policy) -> i64 {
    text_units(&policy.counting, &policy.view.summary_prefix)
        + text_units(&policy.counting, &policy.view.summary_suffix)
}

pub(in crate::policy) fn source_units(policy: &Policy, source: &SourceMessage) -> i64 {
    if let Some(counts) = source.counts.as_ref().filter(|_| source.pruned.is_empty()) {
        return counts.whole;
    }
    units(&policy.counting, source.message.role, &shown_parts(policy, source))
}

/// The least and the most units that a stored message can have as a view will show it. They are equal unless its texts
/// must be encoded to be counted.
pub(in crate::policy) fn bounds(policy: &Policy, source: &SourceMessage) -> (i64, i64) {
    let counting = &policy.counting;
    let role = source.message.role;
    let is_known = source.counts.is_some() && source.pruned.is_empty();
    let parts = if is_known || !is_encoded(counting) { Vec::new() } else { shown_parts(policy, source) };
    let by = |contribution: fn(&str) -> i64| match &counting.per {
        CountPer::Named(named) => named.count()?.units_by(counting, role, &parts, &contribution),
        CountPer::Message => Some(words::units_by(counting, &parts, contribution)),
        CountPer::Parts { .. } | CountPer::JsonRange | CountPer::Contents | CountPer::Characters => None,
    };
    let bounds = if parts.is_empty() { None } else { by(bpe::least).zip(by(bpe::most)) };
    bounds.unwrap_or_else(|| {
        let units = source_units(policy, source);
        (units, units)
    })
}
