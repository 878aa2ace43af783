//! Counts the texts of each message and the chat format around them, as litellm counts a list of messages.
//!
//! The units of a message are a fixed number, and those of its role's name, its texts, the inputs of its calls without
//! the names of the tools, and its results with the ids of their calls. A list has a fixed number more: the beginning
//! of the reply. Reasoning and provider blocks are not in the lists that litellm is given, and count nothing.

use super::parameters::ChatFormat;
use crate::model::message::Role;
use crate::policy::Counting;
use crate::policy::strategy::{CountStrategy, Parameters};
use crate::policy::tokens::units::{ShownPart, role_name, text_units};

/// Units of a list of messages: the beginning of the reply.
const LIST_UNITS: i64 = 3;

impl Parameters for ChatFormat {
    const NAME: &'static str = "chat";
}

impl CountStrategy for ChatFormat {
    fn units(&self, counting: &Counting, role: Role, parts: &[ShownPart<'_>]) -> i64 {
        units(*self, counting, role, parts)
    }

    fn units_by(
        &self,
        counting: &Counting,
        role: Role,
        parts: &[ShownPart<'_>],
        size: &dyn Fn(&str) -> i64,
    ) -> Option<i64> {
        Some(units_by(*self, counting, role, parts, size))
    }

    fn message_units(&self) -> i64 {
        i64::from(self.message_units)
    }

    fn list_units(&self) -> i64 {
        LIST_UNITS
    }
}

/// The units of one message; the caller adds those of the list.
fn units(format: ChatFormat, counting: &Counting, role: Role, parts: &[ShownPart<'_>]) -> i64 {
    units_by(format, counting, role, parts, |text| text_units(counting, text))
}

/// The same with another size of texts.
fn units_by(
    format: ChatFormat,
    counting: &Counting,
    role: Role,
    parts: &[ShownPart<'_>],
    units: impl Fn(&str) -> i64,
) -> i64 {
    let envelope = i64::from(format.message_units).saturating_add(units(role_name(role)));
    let of = |part: &ShownPart<'_>| match part {
        ShownPart::Text(text) => units(text),
        ShownPart::Call { input_json, .. } => units(input_json),
        ShownPart::Result { result, output, attachments } => {
            let words = units(output).saturating_add(units(&result.call_id));
            words.saturating_add(counting.media.of_attachments(attachments))
        }
        ShownPart::Media(media) => counting.media.units_of(media),
        ShownPart::Reasoning(_) | ShownPart::Opaque(_) => 0,
    };
    parts.iter().map(of).fold(envelope, i64::saturating_add)
}
