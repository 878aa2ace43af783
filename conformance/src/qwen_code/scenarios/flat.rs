//! Contents without attachments, and what was attached.

use super::SUMMARY_END;
use serde_json::{Value, json};

/// Contents in a form common to both sides: a summary without the text around it, and its attachments separately, by
/// name only.
pub(super) struct Flat {
    pub(super) contents: Vec<Value>,
    pub(super) carried: Value,
}

impl Flat {
    pub(super) fn of(contents: &[Value]) -> Self {
        let mut contents = contents.to_vec();
        if let Some(summary) = contents.first_mut() {
            let text = summary["parts"][0]["text"].as_str().unwrap_or_default();
            summary["parts"] = json!([{ "text": text.split_inclusive(SUMMARY_END).next().unwrap_or_default() }]);
        }
        let found = contents.get(2).and_then(carried);
        if found.is_some() {
            contents.remove(2);
        }
        Self { contents, carried: found.unwrap_or_else(|| json!({ "named": [], "whole": [], "images": 0 })) }
    }
}

/// The names in a content with attachments; none for any other content.
fn carried(content: &Value) -> Option<Value> {
    let parts = content["parts"].as_array()?;
    let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    let first = texts.first()?;
    const BEGIN: [&str; 6] =
        ["The following files", "Recently accessed", "Files used last", "File ", "The last images", "Recent"];
    if content["role"] != "user" || !BEGIN.iter().any(|begin| first.starts_with(begin)) {
        return None;
    }
    let named =
        texts.iter().filter(|text| text.starts_with("The following files") || text.starts_with("Files used last"));
    let named: Vec<&str> = named.flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix("- ")).collect();
    let whole = texts.iter().filter_map(|text| {
        let ours = text.strip_prefix("File ").and_then(|rest| rest.split_once(", as last seen:")).map(|(path, _)| path);
        let theirs = text.strip_prefix("Recently accessed file").and_then(|rest| rest.split("\n## ").nth(1));
        ours.or_else(|| theirs.and_then(|rest| rest.lines().next()))
    });
    let images = parts.iter().filter(|part| part.get("inlineData").is_some()).count();
    Some(json!({ "named": named, "whole": whole.collect::<Vec<_>>(), "images": images }))
}
