//! The rows that a message becomes.

use super::super::session::{FileLine, Message, speaker};
use super::Writer;
use crate::compose::{ObjectWriter, base64, digits, input_object, list, one_line, string_in, uuid};
use crate::raw::{Object, quote};
use longhand_model::message::{FinishReason, MessageKind, Role};
use longhand_model::part::{Media, MediaSource, NewPart, PartBody, ResultStatus, ToolResult};
use longhand_model::usage::Usage;

/// Members of a block that parts have fields for.
const MAPPED: &[&str] = &["type", "text", "thinking", "id", "name", "input", "source", "title"];

impl Writer<'_> {
    /// Writes the rows of a message, or of its replacement at its position.
    pub(super) fn compose(&mut self, original: &Message, message: &Message) {
        self.turn_back(original.revision);
        if message.kind == MessageKind::Summary {
            return self.compaction_rows(message);
        }
        if message.finish.is_none() {
            self.report.note("open messages, which are written as far as they are");
        }
        let mut words: Vec<(usize, &NewPart)> = Vec::new();
        let mut results: Vec<&ToolResult> = Vec::new();
        let mut segment = 0;
        for (index, part) in message.parts.iter().enumerate() {
            match &*part.body {
                PartBody::ToolResult(result) => {
                    if message.role == Role::Assistant && !words.is_empty() {
                        self.reply(original, message, &std::mem::take(&mut words), segment, false);
                        segment += 1;
                    }
                    results.push(result);
                }
                _ => {
                    if message.role == Role::Assistant {
                        self.results(original, &std::mem::take(&mut results));
                    }
                    words.push((index, part));
                }
            }
        }
        self.results(original, &results);
        if message.role == Role::Assistant {
            if !words.is_empty() || message.parts.is_empty() {
                self.reply(original, message, &words, segment, true);
            }
        } else if !words.is_empty() {
            self.user(original, message, &words);
        }
    }

    /// The id of a message's next row.
    fn own_uuid(&mut self, message: &Message, part: Option<usize>) -> String {
        let is_first = !self.rows_of.contains_key(&message.id);
        let client_id = message.client_id.as_deref().filter(|own| is_first && is_uuid(own)).map(str::to_owned);
        let by_part = part.and_then(|part| message.part_ids.get(part)).filter(|_| !is_first).map(|id| uuid(id));
        let wanted = client_id.or(by_part).unwrap_or_else(|| uuid(&message.id));
        self.claim(&wanted)
    }

    /// Writes a row after the current position.
    fn row(&mut self, message: &Message, id: String, parent: Option<String>, members: ObjectWriter) {
        let envelope = &self.envelope;
        let mut row = ObjectWriter::default()
            .nullable("parentUuid", parent.as_deref())
            .value("isSidechain", envelope.is_sidechain)
            .text("userType", "external")
            .text("cwd", &envelope.folder)
            .text("sessionId", &envelope.session_id)
            .text("version", &envelope.version)
            .text("gitBranch", &envelope.git_branch);
        if let Some(agent) = &envelope.agent_id {
            row = row.text("agentId", agent);
        }
        let row =
            row.members(Some(&members.end()), &[]).text("uuid", &id).text("timestamp", &message.time.to_iso_8601());
        self.out.push(FileLine { text: row.end(), is_verbatim: false });
        self.push(message, id, message.rewound_at());
        self.after_composed = true;
    }

    fn parent(&self) -> Option<String> {
        self.path.last().map(|row| row.uuid.clone())
    }

    fn user(&mut self, original: &Message, message: &Message, parts: &[(usize, &NewPart)]) {
        let content = match parts {
            [(_, only)] => match &*only.body {
                PartBody::Text(text) => quote(text),
                PartBody::Marker(marker) => quote(&marker.text),
                _ => self.user_blocks(message, parts),
            },
            _ => self.user_blocks(message, parts),
        };
        let is_meta =
            message.is_note() || message.kind == MessageKind::Continuation || message.kind == MessageKind::Branch;
        let mut members = ObjectWriter::default().text("type", "user");
        if is_meta {
            members = members.value("isMeta", true);
        }
        let inner = ObjectWriter::default().text("role", "user").json("content", content);
        let (id, parent) = (self.own_uuid(original, None), self.parent());
        self.row(original, id, parent, members.json("message", inner.end()));
    }

    fn user_blocks(&mut self, message: &Message, parts: &[(usize, &NewPart)]) -> String {
        let blocks: Vec<_> = parts.iter().filter_map(|(_, part)| self.block(message, part)).collect();
        list(&blocks)
    }

    fn results(&mut self, message: &Message, results: &[&ToolResult]) {
        let mut blocks = Vec::new();
        for result in results {
            if self.calls.contains(&result.call_id) {
                blocks.push(self.result(result));
            } else {
                self.report.note("results whose call is not in the file");
            }
        }
        if blocks.is_empty() {
            return;
        }
        let inner = ObjectWriter::default().text("role", "user").json("content", list(&blocks));
        let members = ObjectWriter::default().text("type", "user").json("message", inner.end());
        let (id, parent) = (self.own_uuid(message, None), self.parent());
        self.row(message, id, parent, members);
    }

    fn result(&mut self, result: &ToolResult) -> String {
        let mut media = Vec::new();
        for attachment in &result.attachments {
            media.extend(self.media(attachment, None));
        }
        let content = if media.is_empty() {
            quote(&result.output)
        } else {
            if !result.output.is_empty() {
                media.insert(0, ObjectWriter::default().text("type", "text").text("text", &result.output).end());
            }
            list(&media)
        };
        let block = ObjectWriter::default()
            .text("tool_use_id", &result.call_id)
            .text("type", "tool_result")
            .json("content", content);
        if result.status == ResultStatus::Completed { block.end() } else { block.value("is_error", true).end() }
    }

    /// Writes the rows of a reply: one for each of its blocks.
    fn reply(
        &mut self,
        original: &Message,
        message: &Message,
        parts: &[(usize, &NewPart)],
        segment: usize,
        is_last: bool,
    ) {
        self.note_calls(message);
        let mut blocks = Vec::new();
        for (index, part) in parts {
            if let Some(block) = self.block(message, part) {
                blocks.push((Some(*index), block));
            }
        }
        if blocks.is_empty() {
            blocks.push((None, ObjectWriter::default().text("type", "text").text("text", "").end()));
        }
        let number = if segment == 0 { String::new() } else { format!("_{segment}") };
        let reply = format!("msg_{}{number}", digits(&original.id));
        let finish = message.finish.as_ref();
        let usage = finish.and_then(|finish| finish.usage).unwrap_or_default();
        let last = blocks.len() - 1;
        for (position, (index, block)) in blocks.into_iter().enumerate() {
            let is_end = position == last;
            let has_calls = parts.iter().any(|(_, part)| matches!(&*part.body, PartBody::ToolCall(_)));
            let stop = finish.map(|finish| finish.reason).filter(|_| is_end);
            let stop = if is_last { stop.and_then(|reason| stop_reason(reason, has_calls)) } else { Some("tool_use") };
            let inner = ObjectWriter::default()
                .text("model", if message.model.is_empty() { "unknown" } else { &message.model })
                .text("id", &reply)
                .text("type", "message")
                .text("role", "assistant")
                .json("content", list(&[block]))
                .nullable("stop_reason", stop.filter(|_| is_end))
                .json("stop_sequence", "null")
                .json("usage", usage_json(usage));
            let members = ObjectWriter::default().json("message", inner.end()).text("type", "assistant");
            let (id, parent) = (self.own_uuid(original, index), self.parent());
            self.row(original, id, parent, members);
        }
    }

    fn block(&mut self, message: &Message, part: &NewPart) -> Option<String> {
        let is_own = string_in(message.metadata_json.as_deref(), "format").as_deref() == Some("claude-code");
        let metadata = part.metadata_json.as_deref();
        let is_reply = message.role == Role::Assistant;
        let block = ObjectWriter::default();
        let block = match &*part.body {
            PartBody::Text(text) => block.text("type", "text").text("text", text),
            PartBody::Marker(marker) if !marker.text.is_empty() => {
                block.text("type", "text").text("text", &marker.text)
            }
            PartBody::Reasoning(text) if is_reply => {
                let block = block.text("type", "thinking").text("thinking", text);
                let signature =
                    crate::compose::signature(metadata).or_else(|| string_in(metadata, "thinkingSignature"));
                if is_own { block } else { block.text("signature", &signature.unwrap_or_default()) }
            }
            PartBody::ToolCall(call) if is_reply => {
                let input = input_object(&call.input_json).unwrap_or_else(|| {
                    self.report.note("inputs that are no JSON object, which are a text in the file");
                    ObjectWriter::default().text("input", &call.input_json).end()
                });
                block.text("type", "tool_use").text("id", &call.call_id).text("name", &call.tool).json("input", input)
            }
            PartBody::Media(media) => return self.media(media, metadata.filter(|_| is_own)),
            PartBody::Opaque(opaque) if opaque.provider == "anthropic" => {
                let data = std::str::from_utf8(&opaque.data).ok().filter(|data| Object::parse(data, 1).is_ok());
                return data.map(one_line);
            }
            PartBody::Opaque(opaque) => {
                self.report.note(format!("blocks of {} of kind {}", opaque.provider, opaque.kind));
                return None;
            }
            PartBody::Marker(_) => return None,
            other => {
                self.report.note(format!("{} parts of {} messages", other.kind(), speaker(message)));
                return None;
            }
        };
        Some(block.members(metadata.filter(|_| is_own), MAPPED).end())
    }

    /// The block of an image or a document; none for other media.
    fn media(&mut self, media: &Media, members: Option<&str>) -> Option<String> {
        let kind = match media.mime_type.as_str() {
            "application/pdf" | "text/plain" | "application/*" => "document",
            image if image.starts_with("image/") => "image",
            other => {
                self.report.note(format!("media of type {other}"));
                return None;
            }
        };
        let source = match &media.source {
            MediaSource::Bytes(bytes) => ObjectWriter::default()
                .text("type", "base64")
                .text("media_type", &media.mime_type)
                .json("data", base64(bytes)),
            MediaSource::Uri(uri) => ObjectWriter::default().text("type", "url").text("url", uri),
        };
        let mut block = ObjectWriter::default().text("type", kind).json("source", source.end());
        if kind == "document" && !media.name.is_empty() {
            block = block.text("title", &media.name);
        }
        Some(block.members(members, MAPPED).end())
    }

    /// Writes a compaction: its boundary, and its summary.
    fn compaction_rows(&mut self, summary: &Message) {
        let Some(made) = self.session.compaction_of(summary) else { return };
        let messages = &self.session.messages;
        let tail = made.tail_start.as_ref().and_then(|tail| messages.iter().find(|message| message.id == *tail));
        let kept = messages
            .iter()
            .filter(|message| tail.is_some_and(|tail| (tail.revision..summary.revision).contains(&message.revision)));
        let kept: Vec<_> = kept.filter_map(|message| self.rows_of.get(&message.id)).cloned().collect();
        let anchor = uuid(&summary.id);
        let mut metadata = ObjectWriter::default()
            .text("trigger", if made.is_manual { "manual" } else { "auto" })
            .value("preTokens", made.tokens_before);
        if let (Some(first), Some(last)) = (kept.first(), kept.last()) {
            let segment = ObjectWriter::default()
                .text("headUuid", &first.0)
                .text("anchorUuid", &anchor)
                .text("tailUuid", &last.1);
            let from = self.path.iter().position(|row| row.uuid == first.0).unwrap_or(self.path.len());
            let uuids: Vec<_> = self.path[from..].iter().map(|row| quote(&row.uuid)).collect();
            let preserved = ObjectWriter::default()
                .text("anchorUuid", &anchor)
                .json("uuids", list(&uuids))
                .json("allUuids", list(&uuids));
            metadata = metadata.json("preservedSegment", segment.end()).json("preservedMessages", preserved.end());
        }
        let before = self.parent();
        let boundary = ObjectWriter::default()
            .nullable("logicalParentUuid", before.as_deref())
            .text("type", "system")
            .text("subtype", "compact_boundary")
            .text("content", "Conversation compacted")
            .value("isMeta", false)
            .text("level", "info")
            .json("compactMetadata", metadata.end());
        let id = self.claim(&uuid(&made.id));
        self.row(summary, id.clone(), None, boundary);
        let inner = ObjectWriter::default().text("role", "user").text("content", &summary.text());
        let members = ObjectWriter::default()
            .text("type", "user")
            .json("message", inner.end())
            .value("isVisibleInTranscriptOnly", true)
            .value("isCompactSummary", true);
        let anchor = self.claim(&anchor);
        self.row(summary, anchor, Some(id), members);
        // The kept rows follow the summary when the file is read, and new ones follow the kept.
        if let Some((_, last)) = kept.last() {
            let last = last.clone();
            self.path.push(super::OnPath { uuid: last, rewound_at: None });
        }
        self.note_shown_before(summary, tail.map_or(summary.revision, |tail| tail.revision));
    }

    fn note_shown_before(&mut self, summary: &Message, tail: i64) {
        let is_shown = |message: &&Message| {
            message.kind == MessageKind::Normal
                && message.status.state == longhand_model::message::MessageState::Active
                && message.revision < tail
        };
        let is_active = summary.status.state == longhand_model::message::MessageState::Active;
        for message in self.session.messages.iter().filter(|_| is_active).filter(is_shown) {
            self.report.note(format!("{} messages that the view shows before a summary", speaker(message)));
        }
    }
}

fn is_uuid(id: &str) -> bool {
    let groups: Vec<_> = id.split('-').map(str::len).collect();
    groups == [8, 4, 4, 4, 12] && id.bytes().all(|letter| letter == b'-' || letter.is_ascii_hexdigit())
}

/// The stop reason of a reply; none for one that failed or was stopped.
fn stop_reason(reason: Option<FinishReason>, has_calls: bool) -> Option<&'static str> {
    match reason {
        Some(FinishReason::Stop) => Some("end_turn"),
        Some(FinishReason::ToolCalls) => Some("tool_use"),
        Some(FinishReason::Length) => Some("max_tokens"),
        Some(FinishReason::ContentFilter) => Some("refusal"),
        Some(FinishReason::Error | FinishReason::Aborted) => None,
        None => Some(if has_calls { "tool_use" } else { "end_turn" }),
    }
}

fn usage_json(usage: Usage) -> String {
    ObjectWriter::default()
        .value("input_tokens", usage.input)
        .value("cache_creation_input_tokens", usage.cache_write)
        .value("cache_read_input_tokens", usage.cache_read)
        .value("output_tokens", usage.output.saturating_add(usage.reasoning))
        .end()
}
