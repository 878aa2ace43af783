//! The content blocks of a Claude Code line, in the format of Anthropic's messages.

use crate::content::{self, Output};
use crate::draft::MessageDraft;
use crate::name_index::NameIndex;
use crate::raw::{self, Object};
use longhand_model::message::Role;
use longhand_model::part::{Media, MediaSource, ResultStatus};
use serde_json::value::RawValue;

const PROVIDER: &str = "anthropic";
/// The content of a row: a member of an object in it.
#[derive(Clone, Copy)]
pub(super) struct Content<'a, 'b> {
    object: &'b Object<'a>,
    member: &'static str,
    pointer: &'static str,
}

impl<'a, 'b> Content<'a, 'b> {
    pub(super) fn of_message(object: &'b Object<'a>) -> Self {
        Self { object, member: "content", pointer: "/message/content" }
    }

    /// That of a prompt from the queue.
    pub(super) fn of_attachment(object: &'b Object<'a>) -> Self {
        Self { object, member: "prompt", pointer: "/attachment/prompt" }
    }
}

/// True if a line with the user's role contains tool results.
pub(super) fn has_results(line: &Object<'_>) -> bool {
    let blocks = line.object("message").and_then(|message| message.list("content")).unwrap_or_default();
    blocks.into_iter().any(|block| raw::object(block).is_some_and(|block| block.string("type") == "tool_result"))
}

/// The text of a message, or of its text blocks.
pub(super) fn message_text(message: &Object<'_>) -> String {
    if let Some(text) = message.text("content") {
        return text.text;
    }
    let blocks = message.list("content").unwrap_or_default();
    let texts = blocks.into_iter().filter_map(raw::object).filter_map(|block| block.id("text"));
    texts.collect::<Vec<_>>().join("\n")
}

/// Adds the content of a line with the user's role: tool results to one message, the rest to the other.
pub(super) fn user<'a>(
    user_draft: &mut MessageDraft<'a>,
    results: &mut MessageDraft<'a>,
    content: Content<'a, '_>,
    names: &mut NameIndex,
) -> Result<(), &'static str> {
    each(user_draft, content, names, |user_draft, names, block, kind, pointer| {
        if kind == "tool_result" {
            result(results, names, block, pointer)
        } else {
            block_of(user_draft, names, block, kind, pointer)
        }
    })
}

/// Adds the content of a line of a reply.
pub(super) fn assistant<'a>(
    draft: &mut MessageDraft<'a>,
    message: &Object<'a>,
    names: &mut NameIndex,
) -> Result<(), &'static str> {
    each(draft, Content::of_message(message), names, block_of)
}

fn each<'a>(
    draft: &mut MessageDraft<'a>,
    content: Content<'a, '_>,
    names: &mut NameIndex,
    mut add: impl FnMut(&mut MessageDraft<'a>, &mut NameIndex, &Object<'a>, &str, &str) -> bool,
) -> Result<(), &'static str> {
    let value = content.object.get(content.member).ok_or("the message has no content")?;
    if content::text(draft, value, content.pointer.to_owned()).is_some() {
        return Ok(());
    }
    let blocks = raw::list(value).ok_or("the message's content is neither text nor a list")?;
    for (index, block) in blocks.into_iter().enumerate() {
        let pointer = format!("{}/{index}", content.pointer);
        let object = raw::object(block);
        let kind = object.as_ref().map(|block| block.string("type")).unwrap_or_default();
        if object.is_some_and(|object| add(draft, names, &object, &kind, &pointer)) {
            continue;
        }
        if matches!(kind.as_str(), "" | "text" | "thinking" | "tool_use" | "tool_result") {
            names.report(draft.line(), format!("block {index} does not match its type; kept as it is"));
        }
        content::opaque(draft, PROVIDER, &kind, block, pointer);
    }
    Ok(())
}

/// Adds a block, if its kind has a part type of its own and is valid for the message's role.
fn block_of<'a>(
    draft: &mut MessageDraft<'a>,
    names: &mut NameIndex,
    block: &Object<'a>,
    kind: &str,
    pointer: &str,
) -> bool {
    let reply = draft.role == Role::Assistant;
    let (part, mapped): (_, &[&str]) = match kind {
        "text" => {
            let text = block.get("text");
            (text.and_then(|text| content::text(draft, text, format!("{pointer}/text"))), &["type", "text"])
        }
        "thinking" if reply => {
            let words = block.get("thinking");
            let part = words.and_then(|words| content::reasoning(draft, words, format!("{pointer}/thinking")));
            (part, &["type", "thinking"])
        }
        "tool_use" if reply => {
            let part = block.id("id").zip(block.id("name")).map(|(own, tool)| {
                let call_id = names.call(draft.line(), &own);
                let tool = names.name(draft.line(), "name of a tool", tool);
                content::call(draft, call_id, tool, block.get("input"), format!("{pointer}/input"))
            });
            (part, &["type", "id", "name", "input"])
        }
        "image" | "document" => {
            let found = media(block, pointer);
            (found.map(|(media, bytes)| content::attach(draft, media, bytes)), &["type", "source", "title"])
        }
        _ => (None, &[]),
    };
    if let Some(part) = part {
        draft.keep_members(block, mapped, pointer, part);
    }
    part.is_some()
}

fn result<'a>(draft: &mut MessageDraft<'a>, names: &mut NameIndex, block: &Object<'a>, pointer: &str) -> bool {
    let Some(own) = block.id("tool_use_id") else { return false };
    let pointer = format!("{pointer}/content");
    let outputs = match block.get("content") {
        None => Vec::new(),
        Some(value) => match raw::list(value) {
            Some(items) => {
                let items = items.into_iter().enumerate();
                items.map(|(index, item)| output(item, &format!("{pointer}/{index}"))).collect()
            }
            None if raw::text(value).is_some() => vec![Output::Text(value, pointer.clone())],
            None => return false,
        },
    };
    let status = if block.flag("is_error") { ResultStatus::Error } else { ResultStatus::Completed };
    content::result(draft, names.answered(draft.line(), &own), status, outputs);
    true
}

fn output<'a>(item: &'a RawValue, pointer: &str) -> Output<'a> {
    let Some(block) = raw::object(item) else { return Output::Other(item) };
    match (block.string("type").as_str(), block.get("text")) {
        ("text", Some(text)) if raw::text(text).is_some() => Output::Text(text, format!("{pointer}/text")),
        ("image" | "document", _) => match media(&block, pointer) {
            Some((media, bytes)) => Output::Media(media, bytes),
            None => Output::Other(item),
        },
        _ => Output::Other(item),
    }
}

/// The media of an image or a document, with the value of its bytes and the pointer to it.
fn media<'a>(block: &Object<'a>, pointer: &str) -> Option<(Media, Option<(&'a RawValue, String)>)> {
    let source = block.object("source")?;
    let name = block.string("title");
    match source.string("type").as_str() {
        "base64" => {
            let data = source.get("data")?;
            let media = content::media(source.string("media_type"), name, content::media_bytes(data)?)?;
            Some((media, Some((data, format!("{pointer}/source/data")))))
        }
        "url" => {
            let source = MediaSource::Uri(source.id("url")?);
            // The line does not contain the type, and media without one are refused.
            let mime_type = if block.string("type") == "image" { "image/*" } else { "application/*" };
            Some((content::media(mime_type.to_owned(), name, source)?, None))
        }
        _ => None,
    }
}
