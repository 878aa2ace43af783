//! What a block has beside the content of its part: the block with `null` in the content's place.

use super::format::Format;
use crate::compose::ObjectWriter;
use crate::raw::{self, Object, quote};
use serde_json::value::RawValue;

/// A way through a block: names of members, and indexes of lists.
pub(super) type Path<'a> = &'a [&'a str];

/// The value at the end of a path; none if there is none. `null` is a value here.
pub(super) fn value<'a>(block: &'a str, path: Path<'_>) -> Option<&'a RawValue> {
    let mut value: &RawValue = serde_json::from_str(block).ok()?;
    for step in path {
        value = match raw::object(value) {
            Some(object) => object.members().filter(|(name, _)| name == step).last()?.1,
            None => raw::list(value)?.get(step.parse::<usize>().ok()?).copied()?,
        };
    }
    Some(value)
}

/// A block with other values at the ends of some paths; those that it does not have are not added.
pub(super) fn with_values(block: &str, values: &[(Path<'_>, &str)]) -> String {
    let mut block = block.to_owned();
    for (path, content) in values {
        if let Some(range) = value(&block, path).and_then(|found| raw::span(&block, found)) {
            block.replace_range(range, content);
        }
    }
    block
}

/// A block with its content back, where it has `null` at the end of the path.
pub(super) fn filled(block: &str, path: Path<'_>, content: &str) -> String {
    let is_empty = value(block, path).is_some_and(|value| value.get() == "null");
    if is_empty { with_values(block, &[(path, content)]) } else { block.to_owned() }
}

/// The metadata of a part that has the content at the end of the path: the block without it, under the name of the format.
/// None if the block is what the format would make of the content alone.
pub(super) fn metadata(format: Format, block: &str, path: Path<'_>, plain: &str) -> Option<String> {
    (!is_same(block, plain)).then(|| under(format, &with_values(block, &[(path, "null")])))
}

/// True for blocks that have the same members, in whatever order and with whatever white space.
pub(super) fn is_same(block: &str, other: &str) -> bool {
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    block == other || read(block).is_some_and(|block| read(other) == Some(block))
}

/// A value under the name of a format.
pub(super) fn under(format: Format, value: &str) -> String {
    ObjectWriter::default().json(format.name(), value).end()
}

/// What a metadata text has under the name of a format.
pub(super) fn of_format(format: Format, metadata: Option<&str>) -> Option<&str> {
    Object::parse(metadata?, 1).ok()?.get(format.name()).map(RawValue::get)
}

/// True if a metadata text has anything of another format.
pub(super) fn has_other(format: Format, metadata: Option<&str>) -> bool {
    let object = metadata.and_then(|metadata| Object::parse(metadata, 1).ok());
    let others = Format::ALL.into_iter().filter(|other| *other != format);
    object.is_some_and(|object| others.into_iter().any(|other| object.get(other.name()).is_some()))
}

/// An object with one more member at its end.
pub(super) fn with_member(object: &str, name: &str, value: &str) -> String {
    let open = object.trim_end().strip_suffix('}').unwrap_or(object).trim_end();
    let separator = if open.ends_with('{') { "" } else { "," };
    format!("{open}{separator}{}:{value}}}", quote(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_what_it_was_once_its_content_is_back() {
        for (block, path) in [
            (r#"{"type":"thinking", "thinking":"hm","signature":"s=="}"#, ["thinking"].as_slice()),
            (r#"{"b":[{"a":null},{"text":"x"}],"n":1.0}"#, &["b", "1", "text"]),
        ] {
            let plain = "";
            let metadata = metadata(Format::Anthropic, block, path, plain).unwrap();
            let content = value(block, path).unwrap().get().to_owned();
            let kept = of_format(Format::Anthropic, Some(&metadata)).unwrap();
            assert_eq!(value(kept, path).unwrap().get(), "null");
            assert_eq!(with_values(kept, &[(path, &content)]), block);
        }
    }

    #[test]
    fn a_block_without_anything_else_leaves_nothing() {
        assert_eq!(metadata(Format::Gemini, r#"{"text":"x"}"#, &["text"], r#"{"text":"x"}"#), None);
    }

    #[test]
    fn a_member_joins_an_object_with_and_without_others() {
        assert_eq!(with_member("{}", "a", "1"), r#"{"a":1}"#);
        assert_eq!(with_member(r#"{"b":2 }"#, "a", "1"), r#"{"b":2,"a":1}"#);
    }
}
