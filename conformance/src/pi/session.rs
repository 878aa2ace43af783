//! A conversation as a session of pi, and the same session as our view.

use crate::generate::{Conversation, text};
use longhand::model::Revision;
use longhand::model::layout::{Layout, Placement};
use longhand::model::message::{FinishReason, Message, MessageKind, Role};
use longhand::model::part::{Media, PartBody, ResultStatus};
use longhand::model::time::Timestamp;
use longhand::model::usage::{ModelWindow, Usage};
use longhand::model::view::{SourceMessage, View, ViewKind, ViewMessage};
use longhand::policy::FileTools;
use longhand::policy::files::FileOperations;
use longhand::policy::plan::{self, Boundary, PlanningInput};
use longhand::policy::{Policy, PolicyStep, Summarize, Tail, tokens};
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Entries that are never in a context, without their ids.
const RECORDS: [&str; 4] = [
    r#"{"type":"model_change","provider":"p","modelId":"m"}"#,
    r#"{"type":"thinking_level_change","thinkingLevel":"high"}"#,
    r#"{"type":"custom","customType":"state","data":{"n":1}}"#,
    r#"{"type":"label","targetId":"m1","label":"here"}"#,
];
/// Budgets from pi's own tests, and its default.
const BUDGETS: [i64; 6] = [1, 5, 40, 500, 2_000, 20_000];

/// A session of pi, with the data drawn besides the conversation.
pub(super) struct Session {
    conversation: Conversation,
    /// Revisions of messages that an extension wrote; true for those with their own kind of entry.
    extensions: Vec<(Revision, bool)>,
    entries: Vec<Value>,
    /// The messages of our view of it, after its compactions.
    sources: Vec<SourceMessage>,
    /// Lists of files in the details of its newest compaction: read and modified.
    earlier_files: (Vec<String>, Vec<String>),
    compacted: bool,
    is_early: bool,
    keep_tokens: i64,
}

/// The plan of a compaction. Messages are identified by their revisions, which are pi's timestamps here.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Prepared {
    /// The first message that is kept.
    pub(super) first: Revision,
    /// The messages of the summary.
    pub(super) summarize: Vec<Revision>,
    /// The beginning of the split turn, which continues in the kept messages.
    pub(super) prefix: Vec<Revision>,
    previous: Value,
    files: Value,
}

impl Prepared {
    /// All messages that summaries cover.
    pub(super) fn head(&self) -> Vec<Revision> {
        [&self.summarize[..], &self.prefix[..]].concat()
    }

    /// The same plan with a single summary.
    pub(super) fn unsplit(&self) -> Self {
        Self { summarize: self.head(), prefix: Vec::new(), ..self.clone() }
    }

    pub(super) fn to_json(&self) -> Value {
        let Self { first, summarize, prefix, previous, files } = self;
        json!({ "first": first, "summarize": summarize, "prefix": prefix, "previous": previous, "files": files })
    }

    pub(super) fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            first: value["first"].as_i64()?,
            summarize: numbers(&value["summarize"]),
            prefix: numbers(&value["prefix"]),
            previous: value["previous"].clone(),
            files: value["files"].clone(),
        })
    }
}

impl Session {
    /// Draws the content that a session of pi has besides messages: records, extensions, compactions and a budget.
    pub(super) fn draw(conversation: Conversation, policy: &Policy, extensions: bool) -> Self {
        let mut dice = conversation.dice("session");
        let mut session = Self {
            extensions: Vec::new(),
            entries: Vec::new(),
            sources: Vec::new(),
            earlier_files: (file_list(&mut dice), file_list(&mut dice)),
            compacted: false,
            is_early: !extensions,
            keep_tokens: 0,
            conversation,
        };
        if extensions {
            let users = session.messages().iter().filter(|source| source.message.role == Role::User);
            let users: Vec<Revision> = users.map(|source| source.message.revision).collect();
            let drawn = users.into_iter().map(|revision| (revision, dice.random_range(0..14)));
            let chosen = drawn.filter(|(_, number)| *number < 2);
            session.extensions = chosen.map(|(revision, number)| (revision, number == 0)).collect();
        }
        let compacts = dice.random_bool(0.5);
        let mut kept_from = 0;
        for index in 0..session.messages().len() {
            let records = if dice.random_bool(0.15) { dice.random_range(1..=2) } else { 0 };
            (0..records).for_each(|_| session.add_record(&mut dice));
            session.add_message(index);
            // pi waits for results, and refuses to compact if nothing follows the last compaction.
            let next = session.messages().get(index + 1);
            if compacts && next.is_some_and(|next| next.message.role != Role::Tool) && dice.random_bool(0.12) {
                kept_from = session.compact(&mut dice, policy, kept_from, index);
            }
        }
        session.keep_tokens = session.draw_budget(&mut dice, policy);
        session
    }

    fn add_record(&mut self, dice: &mut StdRng) {
        let mut record: Value = serde_json::from_str(RECORDS[dice.random_range(0..RECORDS.len())]).unwrap_or_default();
        record["id"] = json!(format!("x{}", self.entries.len()));
        self.push(record);
    }

    fn add_message(&mut self, index: usize) {
        let source = self.messages()[index].clone();
        let entry = self.message_entry(&source.message);
        self.push(entry);
        self.sources.push(source);
    }

    fn message_entry(&self, message: &Message) -> Value {
        let id = format!("m{}", message.revision);
        let raw = self.raw_message(message);
        if raw["role"] == "custom" && self.is_extension_entry(message.revision) {
            let content = &raw["content"];
            let timestamp = message.revision;
            return json!({
                "type": "custom_message", "id": id, "timestamp": timestamp, "customType": "x", "content": content,
                "display": true,
            });
        }
        json!({ "type": "message", "id": id, "timestamp": message.revision, "message": raw })
    }

    fn push(&mut self, mut entry: Value) {
        entry["parentId"] = self.entries.last().map_or(Value::Null, |parent| parent["id"].clone());
        self.entries.push(entry);
    }

    /// Adds a compaction after the message with this index, if there is anything to cover; returns the index of the
    /// first kept message.
    fn compact(&mut self, dice: &mut StdRng, policy: &Policy, kept_from: usize, last: usize) -> usize {
        let messages = self.messages();
        let can_begin_tail = |index: &usize| matches!(messages[*index].message.role, Role::User | Role::Assistant);
        // After the first message that belongs to the conversation.
        let speaks = (kept_from..=last).find(|&index| messages[index].message.role != Role::System);
        let Some(speaks) = speaks else { return kept_from };
        let mut points: Vec<usize> = (speaks + 1..=last).filter(can_begin_tail).collect();
        points.push(last + 1);
        let start = points[dice.random_range(0..points.len())];
        let tail_start = start as Revision + 1;
        let is_instruction = |source: &&SourceMessage| source.message.role == Role::System;
        let instructions: Vec<SourceMessage> = messages[..start].iter().filter(is_instruction).cloned().collect();
        let retained: Vec<Revision> = instructions.iter().map(|source| source.message.revision).collect();
        let id = format!("c{}", self.entries.len());
        let summary = format!("SUMMARY {id} {}", text(dice, 400));
        let boundary = Boundary { tail_start, retained: &retained, retained_first: true };
        self.sources = plan::with_summary(policy, &Layout::everything(), &self.sources, &boundary, &summary, &[]);
        let first = if start > last { id.clone() } else { self.entry_to_keep(dice, tail_start) };
        let (read, modified) = &self.earlier_files;
        let mut entry = json!({
            "type": "compaction", "id": id, "timestamp": 0, "summary": summary, "firstKeptEntryId": first,
            "tokensBefore": 1, "details": { "readFiles": read, "modifiedFiles": modified },
        });
        if let Some(instruction) = instructions.first() {
            entry["systemMessage"] = self.raw_message(&instruction.message);
        }
        self.compacted = true;
        self.push(entry);
        start
    }

    /// The entry of a message, or the record before it.
    fn entry_to_keep(&self, dice: &mut StdRng, revision: Revision) -> String {
        let at = self.entries.iter().position(|entry| entry["id"] == format!("m{revision}")).unwrap_or(0);
        let before = at.checked_sub(1).map(|before| &self.entries[before]).filter(|entry| is_record(entry));
        let chosen = before.filter(|_| dice.random_bool(0.5)).unwrap_or(&self.entries[at]);
        chosen["id"].as_str().unwrap_or_default().to_owned()
    }

    /// A budget: any, or one that some number of the last messages just reaches or just misses.
    fn draw_budget(&self, dice: &mut StdRng, policy: &Policy) -> i64 {
        if self.sources.is_empty() || dice.random_bool(0.3) {
            return BUDGETS[dice.random_range(0..BUDGETS.len())];
        }
        let from = dice.random_range(0..self.sources.len());
        let estimate = self.sources[from..].iter().map(|source| tokens::estimate_source(policy, source));
        (estimate.sum::<i64>() + dice.random_range(-1..=1)).max(1)
    }

    pub(super) fn index(&self) -> u64 {
        self.conversation.index
    }

    pub(super) fn dice(&self, purpose: &str) -> StdRng {
        self.conversation.dice(purpose)
    }

    pub(super) fn messages(&self) -> &[SourceMessage] {
        &self.conversation.messages
    }

    pub(super) fn sources(&self) -> &[SourceMessage] {
        &self.sources
    }

    pub(super) fn entries(&self) -> &[Value] {
        &self.entries
    }

    pub(super) fn earlier_files(&self) -> (Vec<String>, Vec<String>) {
        self.earlier_files.clone()
    }

    pub(super) fn settings(&self) -> Value {
        json!({ "enabled": true, "reserveTokens": 16_384, "keepRecentTokens": self.keep_tokens })
    }

    /// The messages in pi's form.
    pub(super) fn raw_messages(&self) -> Vec<Value> {
        self.messages().iter().map(|source| self.raw_message(&source.message)).collect()
    }

    /// The plan of a compaction of the session now, by our policy, in pi's terms.
    pub(super) fn prepare(&self, policy: &Policy) -> Option<Prepared> {
        let mut rule = rule(policy)?;
        if let Tail::Recent(recent) = &mut rule.tail {
            recent.keep_tokens = self.keep_tokens;
        }
        let window = ModelWindow::default();
        let base = self.messages().len() as Revision;
        let layout = Layout::everything();
        let planning = PlanningInput {
            policy,
            window: &window,
            layout: &layout,
            sources: &self.sources,
            covered: &[],
            base,
            now: Timestamp(0),
        };
        let plan = plan::planned_summary(planning, &rule)?;
        let mut operations = FileOperations::default();
        plan.head.iter().chain(&plan.split_turn).for_each(|source| operations.add_all(FileTools::Pi, source));
        if self.compacted {
            let (read, modified) = self.earlier_files();
            operations.inherit(read, modified);
        }
        Some(Prepared {
            first: plan.tail_start,
            summarize: revisions(&plan.head),
            prefix: revisions(&plan.split_turn),
            previous: plan.previous.map_or(Value::Null, Value::from),
            files: file_sets(&operations),
        })
    }

    /// Reads pi's own plan.
    pub(super) fn read_preparation(&self, value: &Value) -> Option<Prepared> {
        let first = value["firstKeptEntryId"].as_str()?;
        let at = self.entries.iter().position(|entry| entry["id"] == first)?;
        // A boundary before records is a boundary before the message after them.
        let next =
            self.entries[at..].iter().find(|entry| entry["type"] == "message" || entry["type"] == "custom_message");
        Some(Prepared {
            first: next.and_then(|entry| entry["timestamp"].as_i64()).unwrap_or_default(),
            summarize: numbers(&value["messagesToSummarize"]),
            prefix: numbers(&value["turnPrefixMessages"]),
            previous: value["previousSummary"].clone(),
            files: value["fileOps"].clone(),
        })
    }

    /// The messages that a summary could cover.
    pub(super) fn inline(&self) -> &[SourceMessage] {
        let front = self.sources.iter().position(|source| source.placement == Some(Placement::Summary));
        // The summary follows the instructions that it retained, which are not part of any boundary.
        front.map_or(&self.sources[..], |at| &self.sources[at + 1..])
    }

    /// True if the user's images do not count, as in the version without extensions.
    pub(super) fn is_early(&self) -> bool {
        self.is_early
    }

    /// The non-empty instructions before the summary.
    pub(super) fn retained_instructions(&self) -> Vec<Revision> {
        let has_content =
            |part: &longhand::model::part::Part| !matches!(&*part.body, PartBody::Text(text) if text.is_empty());
        let retained = self.sources.iter().filter(|source| source.placement == Some(Placement::Retained));
        retained
            .filter(|source| source.message.parts.iter().any(has_content))
            .map(|source| source.message.revision)
            .collect()
    }

    /// The index of the boundary before a message.
    pub(super) fn boundary_before(&self, first: Revision) -> usize {
        self.inline().iter().take_while(|source| source.message.revision < first).count()
    }

    /// The plan with this boundary, computed without our functions; none if it covers no conversation.
    pub(super) fn prepared_at(&self, cut: usize) -> Option<Prepared> {
        let (head, tail) = self.inline().split_at(cut);
        let asks = |source: &&SourceMessage| source.message.role == Role::User;
        let split =
            if tail.first().is_none_or(|next| asks(&next)) { None } else { head.iter().rposition(|it| asks(&it)) };
        let (summarize, prefix) = head.split_at(split.unwrap_or(cut));
        let mut files = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
        if self.compacted {
            let (read, modified) = self.earlier_files();
            files[0].extend(read);
            files[2].extend(modified);
        }
        for part in head.iter().flat_map(|source| &source.message.parts) {
            let PartBody::ToolCall(call) = &*part.body else { continue };
            let Some(position) = ["read", "write", "edit"].iter().position(|tool| *tool == call.tool) else { continue };
            let input: Value = serde_json::from_str(&call.input_json).unwrap_or_default();
            files[position].extend(input["path"].as_str().filter(|path| !path.is_empty()).map(str::to_owned));
        }
        let [read, written, edited] = files;
        let summary = self.sources.iter().find(|source| source.placement == Some(Placement::Summary));
        let previous = summary.and_then(|source| match &*source.message.parts.first()?.body {
            PartBody::Text(text) => Some(text.clone()),
            _ => None,
        });
        let prepared = Prepared {
            first: tail.first().map_or(self.messages().len() as Revision + 1, |source| source.message.revision),
            summarize: revisions(summarize),
            prefix: revisions(prefix),
            previous: previous.map_or(Value::Null, Value::from),
            files: file_sets(&FileOperations { read, written, edited }),
        };
        (!prepared.head().is_empty()).then_some(prepared)
    }

    /// True if this message is a request with a record directly before it.
    pub(super) fn has_record_before_request(&self, revision: Revision) -> bool {
        let is_request = self
            .messages()
            .iter()
            .any(|source| source.message.revision == revision && source.message.role == Role::User);
        let at = self.entries.iter().position(|entry| entry["id"] == format!("m{revision}"));
        let before = at.and_then(|at| at.checked_sub(1)).map(|before| &self.entries[before]);
        is_request && before.is_some_and(is_record)
    }

    /// The session as an abandoned branch: our messages including the summaries, and pi's entries.
    pub(super) fn branch(&self) -> (Vec<SourceMessage>, Vec<Value>) {
        let mut dice = self.dice("branch entries");
        let (mut messages, mut entries) = (Vec::new(), Vec::new());
        let inherits = dice.random_range(0..=self.messages().len());
        for (index, source) in self.messages().iter().enumerate() {
            if index == inherits || dice.random_bool(0.1) {
                let (read, modified) = if index == inherits { self.earlier_files() } else { Default::default() };
                let is_compaction = index != inherits && dice.random_bool(0.5);
                let summary = text(&mut dice, 2_000) + "S";
                let revision = 10_000 + index as Revision;
                let kind = if is_compaction { "compaction" } else { "branch_summary" };
                entries.push(json!({
                    "type": kind, "id": format!("s{index}"), "timestamp": revision, "summary": summary,
                    "fromId": "root", "firstKeptEntryId": "m1", "tokensBefore": 1,
                    "details": { "readFiles": read, "modifiedFiles": modified },
                }));
                messages.push(summary_message(source, revision, summary));
            }
            entries.push(self.message_entry(&source.message));
            messages.push(source.clone());
        }
        (messages, entries)
    }

    /// True if the lists of earlier files are in the branch.
    pub(super) fn branch_inherits(&self) -> bool {
        self.dice("branch entries").random_range(0..=self.messages().len()) < self.messages().len()
    }

    fn is_extension_entry(&self, revision: Revision) -> bool {
        self.extensions.iter().any(|(extension, is_entry)| *extension == revision && *is_entry)
    }

    fn raw_message(&self, message: &Message) -> Value {
        raw_message(message, self.extensions.iter().any(|(revision, _)| *revision == message.revision))
    }
}

/// A message in pi's form; a user message may be an extension's.
pub(super) fn raw_message(message: &Message, is_extension: bool) -> Value {
    match message.role {
        Role::User if is_extension => json!({
            "role": "custom", "customType": "x", "content": content(message), "display": true,
            "timestamp": message.revision,
        }),
        Role::User => json!({ "role": "user", "content": content(message), "timestamp": message.revision }),
        Role::System => json!({ "role": "system", "content": content(message), "timestamp": message.revision }),
        Role::Assistant => json!({
            "role": "assistant", "content": content(message), "timestamp": message.revision,
            "stopReason": stop_reason(message.finish.reason), "provider": "p", "model": "m", "api": "a",
            "usage": usage(message.finish.usage.as_ref()),
        }),
        Role::Tool => {
            let mut raw = json!({ "role": "toolResult", "toolName": "tool", "timestamp": message.revision });
            if let Some(PartBody::ToolResult(result)) = message.parts.first().map(|part| &*part.body) {
                let text = json!({ "type": "text", "text": result.output });
                raw["toolCallId"] = json!(result.call_id);
                raw["isError"] = json!(result.status != ResultStatus::Completed);
                raw["content"] = std::iter::once(text).chain(result.attachments.iter().map(image)).collect();
            }
            raw
        }
    }
}

/// The estimate of a message by pi's rules, computed without our functions: a token for each four characters of its
/// text, calls and images. In the early version the user's images did not count.
pub(super) fn message_tokens(message: &Message, is_early: bool) -> i64 {
    const IMAGE_CHARACTERS: usize = 4_800;
    let length = |text: &str| text.encode_utf16().count();
    let characters = message.parts.iter().map(|part| match &*part.body {
        PartBody::Text(text) | PartBody::Reasoning(text) => length(text),
        PartBody::ToolCall(call) => {
            let input: Value = serde_json::from_str(&call.input_json).unwrap_or_default();
            length(&call.tool) + length(&input.to_string())
        }
        PartBody::ToolResult(result) => length(&result.output) + IMAGE_CHARACTERS * result.attachments.len(),
        PartBody::Media(_) if !is_early => IMAGE_CHARACTERS,
        _ => 0,
    });
    characters.sum::<usize>().div_ceil(4) as i64
}

fn is_record(entry: &Value) -> bool {
    entry["id"].as_str().is_some_and(|id| id.starts_with('x'))
}

/// The summarizing step of the policy.
fn rule(policy: &Policy) -> Option<Summarize> {
    policy.auto.iter().flat_map(|level_policy| &level_policy.steps).find_map(|step| match step {
        PolicyStep::Summarize(rule) => Some((**rule).clone()),
        PolicyStep::Prune(_) | PolicyStep::Omit(_) => None,
    })
}

/// The revisions of the messages that belong to the conversation. pi keeps instructions apart.
fn revisions(messages: &[SourceMessage]) -> Vec<Revision> {
    let spoken = messages.iter().filter(|source| source.message.role != Role::System);
    spoken.map(|source| source.message.revision).collect()
}

fn numbers(value: &Value) -> Vec<i64> {
    value.as_array().map(|items| items.iter().filter_map(Value::as_i64).collect()).unwrap_or_default()
}

/// The files that were read, written and edited, as pi's peer lists them.
pub(super) fn file_sets(operations: &FileOperations) -> Value {
    let sorted = |paths: &BTreeSet<String>| {
        let mut paths: Vec<&String> = paths.iter().collect();
        paths.sort_by(|left, right| left.encode_utf16().cmp(right.encode_utf16()));
        json!(paths)
    };
    let FileOperations { read, written, edited } = operations;
    json!({ "read": sorted(read), "written": sorted(written), "edited": sorted(edited) })
}

fn file_list(dice: &mut StdRng) -> Vec<String> {
    let names = ["a.rs", "src/the/it.rs", "𝒙.ts", "\u{ff5e}.md"];
    let count = dice.random_range(0..3);
    (0..count).map(|_| names[dice.random_range(0..names.len())].to_owned()).collect()
}

fn summary_message(like: &SourceMessage, revision: Revision, summary: String) -> SourceMessage {
    let mut source = like.clone();
    let message = &mut source.message;
    (message.revision, message.role, message.kind) = (revision, Role::User, MessageKind::Summary);
    message.parts.truncate(1);
    for part in &mut message.parts {
        part.body = PartBody::Text(summary.clone()).into();
    }
    source.placement = Some(Placement::Summary);
    source
}

fn content(message: &Message) -> Value {
    let block = |body: &PartBody| match body {
        PartBody::Text(text) => Some(json!({ "type": "text", "text": text })),
        PartBody::Reasoning(text) => Some(json!({ "type": "thinking", "thinking": text })),
        PartBody::ToolCall(call) => {
            let arguments: Value = serde_json::from_str(&call.input_json).unwrap_or_default();
            Some(json!({ "type": "toolCall", "id": call.call_id, "name": call.tool, "arguments": arguments }))
        }
        PartBody::Media(media) => Some(image(media)),
        _ => None,
    };
    message.parts.iter().filter_map(|part| block(&part.body)).collect()
}

fn image(media: &Media) -> Value {
    json!({ "type": "image", "data": "", "mimeType": media.mime_type })
}

fn stop_reason(reason: Option<FinishReason>) -> &'static str {
    match reason {
        Some(FinishReason::ToolCalls) => "toolUse",
        Some(FinishReason::Length) => "length",
        Some(FinishReason::Error | FinishReason::ContentFilter) => "error",
        Some(FinishReason::Aborted) => "aborted",
        Some(FinishReason::Stop) | None => "stop",
    }
}

pub(super) fn usage(usage: Option<&Usage>) -> Value {
    let usage = usage.cloned().unwrap_or_default();
    json!({
        "input": usage.input, "output": usage.output, "cacheRead": usage.cache_read, "cacheWrite": usage.cache_write,
        "totalTokens": usage.total.unwrap_or(0),
    })
}

/// The content of a view, a line for each part. Empty texts are left out on both sides.
pub(super) fn flat_view(view: &View) -> Value {
    view.messages.iter().flat_map(view_lines).collect()
}

fn view_lines(message: &ViewMessage) -> Vec<Value> {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "toolResult",
        Role::System => "system",
    };
    let line = |body: &PartBody| match body {
        PartBody::Text(text) => Some(json!({ "role": role, "kind": "text", "text": text })),
        PartBody::Reasoning(text) => Some(json!({ "role": role, "kind": "thinking", "text": text })),
        PartBody::ToolCall(call) => {
            let input: Value = serde_json::from_str(&call.input_json).unwrap_or_default();
            Some(json!({ "role": role, "kind": "call", "id": call.call_id, "name": call.tool, "input": input }))
        }
        PartBody::ToolResult(result) => {
            let kind = if message.kind == ViewKind::Paired { "paired" } else { "result" };
            let (id, images) = (&result.call_id, result.attachments.len());
            Some(json!({ "role": role, "kind": kind, "id": id, "text": result.output, "images": images }))
        }
        PartBody::Media(media) => Some(json!({ "role": role, "kind": "image", "mime": media.mime_type })),
        _ => None,
    };
    message.parts.iter().filter_map(|part| line(&part.body)).collect()
}

/// The messages that pi sends to a model, in the same lines.
pub(super) fn flat_context(messages: &Value) -> Value {
    messages.as_array().into_iter().flatten().flat_map(context_lines).collect()
}

fn context_lines(message: &Value) -> Vec<Value> {
    let role = &message["role"];
    // pi treats a plain text as one block.
    let alone = [json!({ "type": "text", "text": message["content"] })];
    let blocks: &[Value] = message["content"].as_array().map_or(&alone, Vec::as_slice);
    if role == "toolResult" {
        let images = blocks.iter().filter(|block| block["type"] == "image").count();
        let text = blocks.first().map(|block| block["text"].clone());
        return vec![json!({
            "role": role, "kind": "result", "id": message["toolCallId"], "text": text, "images": images,
        })];
    }
    let line = |block: &Value| match block["type"].as_str() {
        Some("text") if block["text"] != "" => Some(json!({ "role": role, "kind": "text", "text": block["text"] })),
        Some("thinking") if block["thinking"] != "" => {
            Some(json!({ "role": role, "kind": "thinking", "text": block["thinking"] }))
        }
        Some("toolCall") => Some(json!({
            "role": role, "kind": "call", "id": block["id"], "name": block["name"], "input": block["arguments"],
        })),
        Some("image") => Some(json!({ "role": role, "kind": "image", "mime": block["mimeType"] })),
        _ => None,
    };
    blocks.iter().filter_map(line).collect()
}
