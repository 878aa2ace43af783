//! Removes a field from texts that are JSON objects, such as the arguments that a tool's result repeats.

use super::parameters::Strip;
use crate::model::part::PartBody;
use crate::model::truncation::{Removals, Truncation};
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use crate::policy::Policy;
use crate::policy::omission::text::text_of;
use crate::policy::strategy::{OmissionBound, OmissionStrategy, Parameters};
use crate::policy::violation::Check;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

impl Parameters for Strip {
    const NAME: &'static str = "strip";

    fn check(&self, check: &mut Check, path: &str) {
        check.that(!self.object.is_empty(), &format!("{path}.object"), "must name a field");
        check.that(!self.field.is_empty(), &format!("{path}.field"), "must name a field");
    }
}

impl OmissionStrategy for Strip {
    fn removals(&self, _policy: &Policy, _window: &ModelWindow, messages: &[SourceMessage]) -> Removals {
        removals(self, messages)
    }

    fn bound(&self) -> OmissionBound {
        OmissionBound::Parts
    }

    fn applies_to(&self, body: &PartBody) -> bool {
        text_of(body).is_some_and(|text| range_of(self, text).is_some())
    }
}

/// Removes the field from the texts of messages and the outputs of tools. Parts that are shortened already and open
/// messages stay as they are.
fn removals(rule: &Strip, messages: &[SourceMessage]) -> Removals {
    let mut removals = Removals::default();
    for source in messages.iter().filter(|source| source.message.sealed_revision.is_some()) {
        for part in source.message.parts.iter().filter(|part| source.pruned_part(part.id).is_none()) {
            let Some(text) = text_of(&part.body) else { continue };
            let truncation = range_of(rule, text).map(|gone| Truncation {
                head: gone.start,
                tail: text.len() - gone.end,
                ..Truncation::default()
            });
            removals.parts.extend(truncation.map(|truncation| (part.id, truncation)));
        }
    }
    removals
}

/// The byte range of the field with its value, and of the comma that is removed with it.
fn range_of(rule: &Strip, text: &str) -> Option<Range<usize>> {
    // Parsing JSON is expensive, and most texts are not JSON.
    if !text.trim_ascii_start().starts_with('{') || !text.contains(rule.field.as_str()) {
        return None;
    }
    let object = serde_json::from_str::<Fields<'_>>(text).ok()?.member(&rule.object)?;
    let fields = serde_json::from_str::<Fields<'_>>(object.get()).ok()?;
    let index = fields.0.iter().rposition(|(name, _)| *name == rule.field)?;
    let end_of = |value: &RawValue| offset(text, value.get()).map(|start| start + value.get().len());
    let end = end_of(fields.0[index].1)?;
    let brace = offset(text, object.get())? + 1;
    match index.checked_sub(1) {
        Some(before) => Some(end_of(fields.0[before].1)?..end),
        // If the first field is removed, the comma after it and the blanks there are removed too.
        None if fields.0.len() > 1 => {
            let behind = text.get(end..)?.find('"')?;
            Some(brace..end + behind)
        }
        None => Some(brace..end),
    }
}

/// The byte offset of a piece of a text.
fn offset(text: &str, piece: &str) -> Option<usize> {
    let start = piece.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    (start + piece.len() <= text.len()).then_some(start)
}

/// The fields of a JSON object with their values as they are written.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    fn member(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(field, _)| field == name).map(|(_, value)| *value)
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Fields<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    fields.push((name.0, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// The name of a field, copied only if it is written with escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests;
