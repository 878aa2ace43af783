//! Placeholders for pruned parts, with fields about the part.

use super::protection::PrunablePart;
use crate::model::part::{Media, PartBody, ToolCall};
use crate::model::time::Timestamp;
use crate::policy::tokens::length;
use crate::policy::{Hint, LengthUnit, Placeholder};
use serde_json::Value;

/// The fields of an input that name the object of a call, the most specific first.
const TARGET_FIELDS: [&str; 13] = [
    "file_path",
    "filePath",
    "absolute_path",
    "notebook_path",
    "path",
    "dir_path",
    "command",
    "cmd",
    "pattern",
    "query",
    "url",
    "description",
    "name",
];
/// The target of a call without such a field.
const NO_TARGET: &str = "unnamed input";
/// The tool of an output without a call.
const NO_TOOL: &str = "unknown tool";
/// Maximum number of characters of a target, of a first line, and of a media type.
const FIELD_CHARS: usize = 128;

impl Placeholder {
    /// The placeholder for a part.
    pub(super) fn about(&self, unit: LengthUnit, now: Timestamp, found: &PrunablePart<'_>) -> String {
        let media = match &*found.part.body {
            PartBody::Media(media) => Some(media),
            _ => None,
        };
        self.filled(unit, now, found, media)
    }

    /// The placeholder for a media item of an output.
    pub(super) fn about_media(
        &self,
        unit: LengthUnit,
        now: Timestamp,
        found: &PrunablePart<'_>,
        media: &Media,
    ) -> String {
        self.filled(unit, now, found, Some(media))
    }

    fn filled(&self, unit: LengthUnit, now: Timestamp, found: &PrunablePart<'_>, media: Option<&Media>) -> String {
        let call = found.call.map(|found| found.call);
        let tool = call.map_or(NO_TOOL, |call| &call.tool);
        let text = match &*found.part.body {
            PartBody::ToolResult(result) => result.output.as_str(),
            PartBody::Text(text) | PartBody::Reasoning(text) => text,
            _ => "",
        };
        let plain = |field: &str| {
            Some(match field {
                "tool" => tool.to_owned(),
                "target" => call.and_then(target).unwrap_or_else(|| NO_TARGET.to_owned()),
                "lines" => text.lines().count().to_string(),
                "length" => length(unit, text).to_string(),
                "first" => one_line(text),
                "mime" => media.map(|media| without_brackets(&media.mime_type)).unwrap_or_default(),
                "name" => media.map(|media| one_line(&media.name)).unwrap_or_default(),
                "time" => now.to_iso_8601(),
                "message" => found.source.message.id.to_string(),
                "part" => found.part.id.to_string(),
                _ => return None,
            })
        };
        let is_for = |hint: &&Hint| hint.tools.is_empty() || hint.tools.iter().any(|name| name == tool);
        let hint = self.hints.iter().find(is_for).map_or(String::new(), |hint| fill(&hint.text, plain));
        fill(&self.text, |field| if field == "hint" { Some(hint.clone()) } else { plain(field) })
    }
}

/// The text with its fields filled in, once: the values are not searched for fields. Unknown fields stay as they are.
fn fill(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, from)) = rest.split_once('{') {
        filled.push_str(before);
        match from.split_once('}').and_then(|(field, behind)| Some((value(field)?, behind))) {
            Some((value, behind)) => {
                filled.push_str(&value);
                rest = behind;
            }
            None => {
                filled.push('{');
                rest = from;
            }
        }
    }
    filled + rest
}

/// The object of a call: the first known field of its input, or else its first text.
fn target(call: &ToolCall) -> Option<String> {
    let Ok(Value::Object(fields)) = serde_json::from_str(&call.input_json) else { return None };
    let known = TARGET_FIELDS.iter().filter_map(|field| fields.get(*field));
    let texts = known.chain(fields.values()).filter_map(Value::as_str).map(one_line);
    texts.into_iter().find(|text| !text.is_empty())
}

/// The first line that is not blank, truncated to `FIELD_CHARS` characters.
fn one_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    match line.char_indices().nth(FIELD_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// A media type in one line without brackets, so that it cannot end the placeholder around it.
fn without_brackets(mime_type: &str) -> String {
    let plain = mime_type.chars().filter(|character| !"[]".contains(*character));
    plain.map(|character| if character.is_control() { ' ' } else { character }).take(FIELD_CHARS).collect()
}
