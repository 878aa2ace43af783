//! Conversations as text, for tests: one line per message, with an indented line per part.
//!
//! ```text
//! # comment
//! u1 "fix the bug"                          user message; a: assistant, t: tool, s: system
//! a1 "looking" usage=12000/300              usage: input/output[/cache_read/cache_write]
//!   reasoning "hm"                          text, reasoning: a string, or a size in tokens (t) or characters (c)
//!   tool bash#c1 in=40t out=3000t done      a call and its result: done, error, interrupted; without a result: pending
//!   call read#c2 in={"path": "a.ts"}        a call alone
//!   media image/png
//!   marker compaction "words"
//!   opaque "data"
//! t2
//!   result c2 out="words" done pruned       a result alone; pruned: by an earlier prune; of=a1: of the call in a1
//! a3 open                                   not sealed yet
//! a4 500c finish=error by=alice             finish: stop, tool_calls, length, content_filter, error, aborted
//! u5 edit=1 "better"                        replaces the message with revision 1; also: pinned, retained
//! u6 marker "What did we do so far?"        the derived marker and summary of a compaction
//! a6 summary at=40 "S1"                     at: the revision; without it, one more than the highest before
//! ```
//!
//! Ids are the same in every run. The name of a message is its `client_id`. The name of a part is the id of its call,
//! with the suffix `:result` for a result. A reply with a call ends with `tool_calls`, any other with `stop`.

use crate::model::Revision;
use crate::model::ids::{CompactionId, MessageId, PartId, SessionId};
use crate::model::layout::Placement;
use crate::model::message::{Finish, FinishReason, Message, MessageKind, Role};
use crate::model::part::{
    Answers, Marker, Media, MediaSource, Opaque, Part, PartBody, ResultStatus, ToolCall, ToolResult,
};
use crate::model::time::Timestamp;
use crate::model::usage::Usage;
use crate::model::view::{PrunedPart, SourceMessage};
use serde_json::value::RawValue;
use std::collections::HashMap;
use uuid::Uuid;

/// The compaction to which every `pruned` part belongs.
pub(crate) const PRUNED_BY: CompactionId = CompactionId(Uuid::from_u128(0xC0));

/// The conversation that the text describes. Panics with the number of an invalid line.
pub(crate) fn parse(text: &str) -> Vec<SourceMessage> {
    let mut parser = Parser { messages: Vec::new(), highest: 0, part_count: 0 };
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        let is_part = line.starts_with(' ');
        let outcome = if is_part { parser.part(trimmed) } else { parser.message(trimmed) };
        if let Err(problem) = outcome {
            panic!("line {}: {problem}: {line}", number + 1);
        }
    }
    for source in &mut parser.messages {
        settle(&mut source.message);
    }
    parser.messages
}

/// The name of a message in the text.
pub(crate) fn name(source: &SourceMessage) -> &str {
    source.message.client_id.as_deref().unwrap_or("?")
}

/// The names of all named parts, by id.
pub(crate) fn part_names(messages: &[SourceMessage]) -> HashMap<PartId, String> {
    let parts = messages.iter().flat_map(|source| &source.message.parts);
    parts.filter_map(|part| Some((part.id, part.client_id.clone()?))).collect()
}

struct Parser {
    messages: Vec<SourceMessage>,
    highest: Revision,
    part_count: u128,
}

impl Parser {
    fn message(&mut self, line: &str) -> Result<(), String> {
        let words = words(line)?;
        let (name, rest) = words.split_first().ok_or("empty")?;
        let name = name.bare()?;
        let role = match name.as_bytes()[0] {
            b'u' => Role::User,
            b'a' => Role::Assistant,
            b't' => Role::Tool,
            b's' => Role::System,
            _ => return Err(format!("no role begins like {name}")),
        };
        let revision = self.highest + 1;
        self.messages.push(SourceMessage {
            message: empty(name, role, revision).into(),
            placement: None,
            pruned: Vec::new(),
            counts: None,
        });
        for word in rest {
            self.message_word(word)?;
        }
        let message = &mut self.last()?.message;
        if message.sealed_revision.is_some() {
            message.sealed_revision = Some(message.revision);
        }
        let revision = message.revision;
        message.id = MessageId(Uuid::from_u128((1 << 64) + revision as u128));
        self.highest = self.highest.max(revision);
        Ok(())
    }

    fn message_word(&mut self, word: &Word) -> Result<(), String> {
        if let Some(text) = word.text() {
            return self.push(PartBody::Text(text), None);
        }
        let source = self.last()?;
        let message = &mut source.message;
        match word.pair() {
            ("open", "") => message.sealed_revision = None,
            ("summary", "") => (message.kind, source.placement) = (MessageKind::Summary, Some(Placement::Summary)),
            ("marker", "") => (message.kind, source.placement) = (MessageKind::Marker, Some(Placement::Marker)),
            ("pinned", "") => source.placement = Some(Placement::Pinned),
            ("retained", "") => source.placement = Some(Placement::Retained),
            ("edit", target) => {
                message.kind = MessageKind::Edit;
                source.placement = Some(Placement::Edit(number(target)?));
            }
            ("at", revision) => message.revision = number(revision)?,
            ("by", actor) => message.actor = actor.to_owned(),
            ("finish", reason) => message.finish.reason = Some(finish_reason(reason)?),
            ("usage", counts) => message.finish.usage = Some(usage(counts)?),
            (word, _) => return Err(format!("unknown word {word}")),
        }
        Ok(())
    }

    fn part(&mut self, line: &str) -> Result<(), String> {
        let words = words(line)?;
        let (kind, rest) = words.split_first().ok_or("empty")?;
        let kind = kind.bare()?;
        let first = rest.first().ok_or("a part says more than its kind")?;
        match kind {
            "text" => self.push(PartBody::Text(first.text().ok_or("no text")?), None),
            "reasoning" => self.push(PartBody::Reasoning(first.text().ok_or("no text")?), None),
            "opaque" => {
                let data = first.text().ok_or("no data")?.into_bytes();
                self.push(PartBody::Opaque(Opaque { provider: "test".into(), kind: "block".into(), data }), None)
            }
            "media" => self.push(PartBody::Media(media(first.bare()?)), None),
            "marker" => {
                let text = rest.get(1).and_then(Word::text).unwrap_or_default();
                self.push(PartBody::Marker(Marker { name: first.bare()?.to_owned(), text }), None)
            }
            "tool" | "call" => {
                let (tool, call_id) = first.bare()?.split_once('#').ok_or("a call is TOOL#ID")?;
                let input = rest.iter().find_map(|word| word.value_of("in"));
                let call = ToolCall {
                    call_id: call_id.to_owned(),
                    tool: tool.to_owned(),
                    input_json: input.map_or(Ok("{}".to_owned()), Word::json)?,
                    ..ToolCall::default()
                };
                self.push(PartBody::ToolCall(call), Some(call_id.to_owned()))?;
                if kind == "tool" { self.result(call_id, &rest[1..]) } else { Ok(()) }
            }
            "result" => self.result(first.bare()?, &rest[1..]),
            _ => Err(format!("unknown part {kind}")),
        }
    }

    fn result(&mut self, call_id: &str, words: &[Word]) -> Result<(), String> {
        let mut status = None;
        let mut pruned = false;
        let mut output = String::new();
        let mut answers = Answers::Nearest;
        let mut attachments = Vec::new();
        for word in words {
            match word.pair() {
                ("in", _) | ("pending" | "running", "") => {}
                ("out", _) => output = word.value_of("out").and_then(|word| word.text()).ok_or("no output")?,
                ("of", name) => {
                    let named = self.messages.iter().find(|source| self::name(source) == name);
                    answers = Answers::In(named.ok_or("no such message")?.message.id.to_string());
                }
                ("media", mime_type) => attachments.push(media(mime_type)),
                ("pruned", "") => pruned = true,
                ("done", "") => status = Some(ResultStatus::Completed),
                ("error", "") => status = Some(ResultStatus::Error),
                ("interrupted", "") => status = Some(ResultStatus::Interrupted),
                (word, _) => return Err(format!("unknown word {word}")),
            }
        }
        let Some(status) = status else {
            return Ok(());
        };
        let call_id = call_id.to_owned();
        let name = format!("{call_id}:result");
        let (start_time, end_time) = (None, None);
        let result = ToolResult { call_id, answers, status, output, attachments, start_time, end_time };
        self.push(PartBody::ToolResult(result), Some(name))?;
        let source = self.last()?;
        if pruned {
            let of = |part: &Part| PrunedPart { part: part.id, compaction: PRUNED_BY, truncation: None };
            source.pruned.extend(source.message.parts.last().map(of));
        }
        Ok(())
    }

    fn push(&mut self, body: PartBody, client_id: Option<String>) -> Result<(), String> {
        self.part_count += 1;
        let id = PartId(Uuid::from_u128((2 << 64) + self.part_count));
        let message = &mut self.last()?.message;
        let revision = message.revision;
        message.parts.push(Part { id, client_id, revision, body: body.into(), metadata_json: None });
        Ok(())
    }

    fn last(&mut self) -> Result<&mut SourceMessage, String> {
        self.messages.last_mut().ok_or_else(|| "a part before the first message".to_owned())
    }
}

fn empty(name: &str, role: Role, revision: Revision) -> Message {
    Message {
        id: MessageId(Uuid::nil()),
        session_id: SessionId(Uuid::from_u128(1)),
        client_id: Some(name.to_owned()),
        revision,
        role,
        kind: MessageKind::Normal,
        parts: Vec::new(),
        sealed_revision: Some(revision),
        finish: Finish::default(),
        model: String::new(),
        provider: String::new(),
        create_time: Timestamp(revision),
        origin_time: None,
        actor: String::new(),
        metadata_json: None,
        replaces: None,
    }
}

/// Sets the values that depend on all parts of the message.
fn settle(message: &mut Message) {
    for part in &mut message.parts {
        part.revision = message.revision;
    }
    if message.role == Role::Assistant && message.sealed_revision.is_some() && message.finish.reason.is_none() {
        let calls = message.parts.iter().any(|part| matches!(*part.body, PartBody::ToolCall(_)));
        message.finish.reason = Some(if calls { FinishReason::ToolCalls } else { FinishReason::Stop });
    }
}

fn media(mime_type: &str) -> Media {
    let source = MediaSource::Bytes(b"bytes".to_vec());
    Media { mime_type: mime_type.to_owned(), name: String::new(), source }
}

fn finish_reason(word: &str) -> Result<FinishReason, String> {
    Ok(match word {
        "stop" => FinishReason::Stop,
        "tool_calls" => FinishReason::ToolCalls,
        "length" => FinishReason::Length,
        "content_filter" => FinishReason::ContentFilter,
        "error" => FinishReason::Error,
        "aborted" => FinishReason::Aborted,
        _ => return Err(format!("unknown finish reason {word}")),
    })
}

fn usage(word: &str) -> Result<Usage, String> {
    let counts: Vec<i64> = word.split('/').map(number).collect::<Result<_, _>>()?;
    let count = |index: usize| counts.get(index).copied().unwrap_or(0);
    Ok(Usage { input: count(0), output: count(1), cache_read: count(2), cache_write: count(3), ..Usage::default() })
}

fn number(word: &str) -> Result<i64, String> {
    word.parse().map_err(|_| format!("{word} is no number"))
}

/// A word of a line: `bare`, `key=value`, or a JSON value with or without a key.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    key: String,
    /// JSON text, if it begins like a string, an object or an array.
    value: String,
}

impl Word {
    fn bare(&self) -> Result<&str, String> {
        if self.key.is_empty() { Ok(&self.value) } else { Err(format!("{}= stands where a word should", self.key)) }
    }

    /// The key and the value, or the word and an empty value.
    fn pair(&self) -> (&str, &str) {
        if self.key.is_empty() { (&self.value, "") } else { (&self.key, &self.value) }
    }

    fn value_of(&self, key: &str) -> Option<&Self> {
        (self.key == key).then_some(self)
    }

    /// The quoted text, or a text of the given size.
    fn text(&self) -> Option<String> {
        if self.value.starts_with('"') {
            return serde_json::from_str(&self.value).ok();
        }
        size(&self.value).map(|size| "x".repeat(size))
    }

    /// The given JSON, or an object of the given size.
    fn json(&self) -> Result<String, String> {
        match size(&self.value) {
            Some(size) => Ok(format!(r#"{{"x":"{}"}}"#, "x".repeat(size.saturating_sub(8)))),
            None => Ok(self.value.clone()),
        }
    }
}

/// `30c` is 30 characters, `30t` is 30 tokens of four characters.
fn size(word: &str) -> Option<usize> {
    if let Some(characters) = word.strip_suffix('c') {
        return characters.parse().ok();
    }
    Some(4 * word.strip_suffix('t')?.parse::<usize>().ok()?)
}

fn words(line: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let plain = rest.find([' ', '=', '"', '{', '[']).unwrap_or(rest.len());
        let (key, from) = match rest[plain..].starts_with('=') {
            true => (&rest[..plain], &rest[plain + 1..]),
            false => ("", rest),
        };
        let end = if from.starts_with(['"', '{', '[']) {
            let mut values = serde_json::Deserializer::from_str(from).into_iter::<&RawValue>();
            values.next().ok_or("no value")?.map_err(|error| error.to_string())?;
            values.byte_offset()
        } else {
            from.find(' ').unwrap_or(from.len())
        };
        words.push(Word { key: key.to_owned(), value: from[..end].to_owned() });
        rest = from[end..].trim_start();
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_roles_names_and_revisions_in_order() {
        let messages = parse("# a comment\nu1 \"hi\"\n\na2 8c\nt3\ns4 2t\nu5 at=9 \"x\"\na6 \"y\"");
        let found: Vec<_> =
            messages.iter().map(|source| (name(source), source.message.role, source.message.revision)).collect();
        assert_eq!(
            found,
            [
                ("u1", Role::User, 1),
                ("a2", Role::Assistant, 2),
                ("t3", Role::Tool, 3),
                ("s4", Role::System, 4),
                ("u5", Role::User, 9),
                ("a6", Role::Assistant, 10),
            ]
        );
        assert_eq!(*messages[0].message.parts[0].body, PartBody::Text("hi".into()));
        assert_eq!(*messages[1].message.parts[0].body, PartBody::Text("xxxxxxxx".into()));
    }

    #[test]
    fn a_tool_is_a_call_with_its_result() {
        let text =
            "a1\n  tool bash#c1 in={\"cmd\": \"a b\"} out=\"so = it\" done pruned\n  tool read#c2 in=20c pending";
        let messages = parse(text);
        let bodies: Vec<_> = messages[0].message.parts.iter().map(|part| &*part.body).collect();
        let [PartBody::ToolCall(first), PartBody::ToolResult(result), PartBody::ToolCall(second)] = bodies[..] else {
            panic!("{bodies:?}");
        };
        assert_eq!((first.tool.as_str(), first.input_json.as_str()), ("bash", "{\"cmd\": \"a b\"}"));
        assert_eq!((result.output.as_str(), result.status), ("so = it", ResultStatus::Completed));
        assert_eq!((second.call_id.as_str(), second.input_json.len()), ("c2", 20));
        let pruned = PrunedPart { part: messages[0].message.parts[1].id, compaction: PRUNED_BY, truncation: None };
        assert_eq!(messages[0].pruned, [pruned]);
        assert_eq!(messages[0].message.finish.reason, Some(FinishReason::ToolCalls));
        assert_eq!(part_names(&messages)[&messages[0].message.parts[1].id], "c1:result");
    }

    #[test]
    fn derived_open_and_edited_messages_are_distinguished() {
        let messages =
            parse("a1 open\nu2 edit=1 \"x\"\nu3 marker \"m\"\na4 summary \"s\" usage=10/2/3\nu5 pinned \"p\"");
        assert_eq!(messages[0].message.sealed_revision, None);
        assert_eq!(messages[0].message.finish.reason, None);
        assert_eq!((messages[1].message.kind, messages[1].placement), (MessageKind::Edit, Some(Placement::Edit(1))));
        assert_eq!((messages[2].message.kind, messages[2].placement), (MessageKind::Marker, Some(Placement::Marker)));
        assert_eq!((messages[3].message.kind, messages[3].placement), (MessageKind::Summary, Some(Placement::Summary)));
        assert_eq!(messages[3].message.finish.usage.map(|usage| usage.context_tokens()), Some(15));
        assert_eq!(messages[4].placement, Some(Placement::Pinned));
    }
}
