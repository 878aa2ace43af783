//! The reader of pi session files, versions 1 to 3.
//!
//! Since version 2 the entries form a tree, and the last entry of the file is the current position of the conversation.
//! Version 1 is a plain list without ids. An entry that pi shows a model becomes a message, a later edit of it an edit
//! (`edits`); all other entries become records.

mod edits;
#[cfg(test)]
mod tests;

use super::branches::finish_branches;
use super::content::{self, Output};
use super::draft::MessageDraft;
use super::name_index::{Line, NameIndex, record};
use super::raw::{self, Object};
use super::titles::{title_of, title_of_request};
use super::transcript::{Branch, Entry, Format, ImportedCompaction, ImportedEdit, Problem, Transcript};
use longhand_model::message::{FinishReason, Role};
use longhand_model::part::{NewPart, PartBody, ResultStatus};
use longhand_model::usage::Usage;
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet};

/// True if a line is the header of a session file.
pub(super) fn is_header(line: &Object<'_>) -> bool {
    line.string("type") == "session" && line.get("id").is_some()
}

/// The kinds of entries of a tree.
const KINDS: [&str; 11] = [
    "message",
    "model_change",
    "thinking_level_change",
    "compaction",
    "branch_summary",
    "custom",
    "custom_message",
    "label",
    "session_info",
    "usage",
    "context_edit",
];

/// True if a line looks like one of this format: the header, or an entry of a tree, since the header may be damaged.
pub(super) fn is_line(line: &Object<'_>) -> bool {
    let is_known = line.id("type").is_some_and(|kind| KINDS.contains(&kind.as_str()));
    let linked = line.members().any(|(name, _)| name == "parentId");
    is_header(line) || (is_known && linked && line.id("id").is_some() && line.get("timestamp").is_some())
}

/// True if a record of that kind is what the reader makes of a line.
pub(super) fn is_record(line: &Object<'_>, kind: &str) -> bool {
    let role = || line.object("message").is_some_and(|message| message.string("role") == kind);
    line.id("type").is_some_and(|own| own == kind || (own == "message" && role()))
}

/// Reads a session file.
pub(super) fn read(lines: &[Line], problems: Vec<Problem>, metadata_bytes: usize) -> Transcript {
    let mut reader = Reader {
        names: NameIndex::new(problems),
        metadata_bytes,
        version: 0,
        chained: true,
        source_id: String::new(),
        folder: String::new(),
        name: String::new(),
        nodes: Vec::new(),
        by_id: HashMap::new(),
        by_index: Vec::new(),
    };
    let lines = reader.without_repetitions(lines);
    // A reply always has a parent, so that parents are missing where one has none.
    let mut entries = lines.iter().filter_map(|(_, entry)| Some(&entry.as_ref().ok()?.0));
    reader.chained = entries.all(|entry| entry.text("parentId").is_some() || !is_answer(entry));
    for (line, entry) in parents_first(lines) {
        reader.line(line, entry);
    }
    reader.transcript()
}

/// A line and its entry with the kind, or the problem with it.
type ReadLine<'a> = (&'a Line, Result<(Object<'a>, String), String>);

fn entry(line: &Line) -> Result<(Object<'_>, String), String> {
    let entry = line.object()?;
    let kind = entry.id("type").ok_or("the entry has no type")?;
    Ok((entry, kind))
}

/// The lines in the order of the file, except that the header comes first, and an entry after its parent.
fn parents_first(lines: Vec<ReadLine<'_>>) -> Vec<ReadLine<'_>> {
    let name = |line: &ReadLine<'_>, name: &str| line.1.as_ref().ok().and_then(|(entry, _)| entry.id(name));
    let mut by_id = HashMap::new();
    for (index, line) in lines.iter().enumerate() {
        if let Some(id) = name(line, "id") {
            by_id.entry(id).or_insert(index);
        }
    }
    let parents: Vec<Option<usize>> = lines.iter().map(|line| by_id.get(&name(line, "parentId")?).copied()).collect();
    let header = lines.iter().position(|line| line.1.as_ref().is_ok_and(|(entry, _)| is_header(entry)));
    let mut ordered = Vec::with_capacity(lines.len());
    let mut lines: Vec<Option<ReadLine<'_>>> = lines.into_iter().map(Some).collect();
    for index in header.into_iter().chain(0..lines.len()) {
        let (mut chain, mut next) = (Vec::new(), Some(index));
        while let Some((at, line)) = next.and_then(|at| Some((at, lines[at].take()?))) {
            chain.push(line);
            next = parents[at];
        }
        ordered.extend(chain.into_iter().rev());
    }
    ordered
}

/// True if an entry is a reply or a result.
fn is_answer(entry: &Object<'_>) -> bool {
    let role = entry.object("message").map(|message| message.string("role"));
    role.is_some_and(|role| matches!(role.as_str(), "assistant" | "toolResult"))
}

/// True if pi lets a later entry edit this one.
fn is_editable(entry: &Object<'_>, kind: &str) -> bool {
    let is_user = || entry.object("message").is_some_and(|message| message.string("role") == "user");
    kind == "custom_message" || (kind == "message" && (is_user() || is_answer(entry)))
}

/// A line's node in the tree.
struct Node {
    /// The node of the entry before it; none for the header, and for the first entry if there is no header.
    parent: Option<usize>,
    /// True if the line could not be parsed and only keeps its position after the entry before it.
    stray: bool,
    /// True if pi lets a later entry edit this one.
    editable: bool,
    /// The resulting entries; never empty.
    entries: Vec<Entry>,
}

/// The content of an entry.
enum Content<'a> {
    Message(Box<MessageDraft<'a>>),
    Record(String),
    Compaction { summary: String, tail: Option<String> },
    Edit { target: String, parts: Vec<NewPart> },
}

/// Assigns the id of a call in a message.
type CallId = fn(&mut NameIndex, &Line, &str) -> String;

struct Reader {
    names: NameIndex,
    metadata_bytes: usize,
    version: i64,
    /// True if an entry without a parent is the root of a tree; else the parents are missing.
    chained: bool,
    source_id: String,
    folder: String,
    name: String,
    nodes: Vec<Node>,
    by_id: HashMap<String, usize>,
    by_index: Vec<usize>,
}

impl Reader {
    /// The entries without those that equal an earlier one.
    fn without_repetitions<'a>(&mut self, lines: &'a [Line]) -> Vec<ReadLine<'a>> {
        let mut texts = HashSet::new();
        let (mut read, mut repetitions) = (Vec::new(), Vec::new());
        for line in lines {
            let entry = entry(line);
            let is_identified = |entry: &Object<'_>| entry.get("id").or(entry.get("timestamp")).is_some();
            if entry.as_ref().is_ok_and(|(entry, _)| is_identified(entry)) && !texts.insert(line.text().trim()) {
                repetitions.push(line);
            } else {
                read.push((line, entry));
            }
        }
        self.names.report_repetitions(&repetitions);
        read
    }

    fn line<'a>(&mut self, line: &'a Line, entry: Result<(Object<'a>, String), String>) {
        let (entry, kind) = match entry {
            Ok(parsed) => parsed,
            Err(problem) => {
                let message = self.names.malformed(line, format!("{problem}; kept as a record"));
                let entries = vec![Entry::Record { line: line.number, message }];
                self.nodes.push(Node { parent: self.last(), stray: true, editable: false, entries });
                return;
            }
        };
        if self.by_index.is_empty() {
            self.header(line, &entry);
        }
        let own = if self.version >= 2 { entry.id("id") } else { None };
        let parent = self.parent(line, &entry);
        let entries = self.entries(line, &entry, &kind, own.as_deref(), parent);
        let node = self.nodes.len();
        let editable = is_editable(&entry, &kind);
        self.nodes.push(Node { parent, stray: false, editable, entries });
        self.by_index.push(node);
        if let Some(own) = own {
            self.by_id.insert(own, node);
        }
    }

    fn header(&mut self, line: &Line, entry: &Object<'_>) {
        if is_header(entry) {
            self.source_id = entry.string("id");
            self.folder = entry.string("cwd");
            self.version = entry.count("version").max(1);
        } else {
            self.names.report(line, "the file does not begin with a session header");
            self.version = if entry.get("id").is_some() { 3 } else { 1 };
        }
    }

    /// The last entry that was read.
    fn last(&self) -> Option<usize> {
        self.by_index.last().copied()
    }

    fn parent(&mut self, line: &Line, entry: &Object<'_>) -> Option<usize> {
        let named = entry.text("parentId").filter(|_| self.version >= 2).map(|id| id.text);
        match named {
            Some(named) => {
                let found = self.by_id.get(&named).copied();
                if found.is_none() {
                    // Most likely the parent's line is damaged; one whole conversation is better than two halves.
                    let message = format!("its parent {named} stands nowhere before it: it follows the line before");
                    self.names.report(line, message);
                }
                found.or(self.last())
            }
            // The root of a tree follows the header; so does a second root.
            None if self.version >= 2 && self.chained && entry.id("id").is_some() => {
                self.by_index.first().copied().filter(|_| !self.source_id.is_empty())
            }
            None => self.last(),
        }
    }

    fn entries(
        &mut self,
        line: &Line,
        entry: &Object<'_>,
        kind: &str,
        own: Option<&str>,
        parent: Option<usize>,
    ) -> Vec<Entry> {
        let origin_time = self.names.time(line, entry, "timestamp");
        let number = line.number;
        let content = match self.content(line, entry, kind, parent) {
            Ok(content) => content,
            Err(problem) => {
                let message = self.names.malformed(line, format!("{problem}; kept as a record"));
                return vec![Entry::Record { line: number, message }];
            }
        };
        // A version 2 header has an id too, but that is the session's.
        let own = own.filter(|_| kind != "session");
        let client_id = self.names.claim(line, own);
        let verbatim = line.text().to_owned();
        match content {
            Content::Message(mut draft) => {
                draft.origin_time = origin_time.or(draft.origin_time);
                draft.finish(client_id, &mut self.names)
            }
            Content::Record(kind) => {
                let message = record(client_id, &kind, verbatim, origin_time);
                vec![Entry::Record { line: number, message }]
            }
            Content::Compaction { summary, tail } => vec![Entry::Compaction(ImportedCompaction {
                line: number,
                summary_text: summary,
                first_kept_client_id: tail,
                covers_until_client_id: String::new(),
                trigger: String::new(),
                tokens_before: entry.count("tokensBefore"),
                from_hook: entry.flag("fromHook"),
                record: record(client_id.clone(), kind, verbatim, origin_time),
                client_id,
            })],
            Content::Edit { target, parts } => vec![Entry::Edit(ImportedEdit {
                line: number,
                target_client_id: target,
                parts,
                record: record(client_id.clone(), kind, verbatim, origin_time),
                client_id,
            })],
        }
    }

    fn content<'a>(
        &mut self,
        line: &'a Line,
        entry: &Object<'a>,
        kind: &str,
        parent: Option<usize>,
    ) -> Result<Content<'a>, String> {
        let user = || MessageDraft::new(Format::Pi, self.metadata_bytes, Role::User, line);
        match kind {
            "message" => {
                let message = entry.object("message").ok_or("the entry has no message")?;
                self.message(line, &message)
            }
            "custom_message" => {
                let mut draft = user();
                self.blocks(&mut draft, entry, "/content", "pi", NameIndex::call)?;
                Ok(Content::Message(Box::new(draft)))
            }
            "branch_summary" => match entry.id("summary") {
                Some(summary) => Ok(text_message(user(), branch_summary(&summary))),
                None => Ok(Content::Record(kind.to_owned())),
            },
            "session_info" => {
                self.name = entry.string("name");
                Ok(Content::Record(kind.to_owned()))
            }
            "compaction" => {
                let summary = entry.id("summary").filter(|summary| !summary.trim().is_empty());
                let summary = summary.ok_or("the compaction has no summary")?;
                Ok(Content::Compaction { summary, tail: self.tail(line, entry) })
            }
            "context_edit" => Ok(self.edit(line, entry, parent)),
            _ => Ok(Content::Record(kind.to_owned())),
        }
    }

    /// The `client_id` of the first entry that a compaction kept.
    fn tail(&mut self, line: &Line, entry: &Object<'_>) -> Option<String> {
        let first_kept = entry.id("firstKeptEntryId");
        // The compaction's own id means that it kept nothing.
        if first_kept.is_some() && first_kept == entry.id("id") {
            return None;
        }
        let node = match &first_kept {
            Some(id) => self.by_id.get(id),
            None => entry.number("firstKeptEntryIndex").and_then(|index| self.by_index.get(index as usize)),
        };
        if node.is_none() {
            self.names.report(line, "the compaction does not state its kept messages: it is taken to keep none");
        }
        node.and_then(|node| self.nodes[*node].entries.first()).map(|first| first.client_id().to_owned())
    }

    fn message<'a>(&mut self, line: &'a Line, message: &Object<'a>) -> Result<Content<'a>, String> {
        let role = message.id("role").ok_or("the message has no role")?;
        let mut draft = MessageDraft::new(Format::Pi, self.metadata_bytes, Role::User, line);
        draft.origin_time = self.names.time(line, message, "timestamp");
        match role.as_str() {
            // Version 2 called them hook messages.
            "user" | "custom" | "hookMessage" => {
                self.blocks(&mut draft, message, "/message/content", "pi", NameIndex::call)?;
            }
            "system" => {
                draft.role = Role::System;
                self.blocks(&mut draft, message, "/message/content", "pi", NameIndex::call)?;
            }
            "assistant" => self.reply(&mut draft, message)?,
            "toolResult" => self.result(&mut draft, message)?,
            // pi does not show these to the model.
            "bashExecution" if message.flag("excludeFromContext") => return Ok(Content::Record(role)),
            "bashExecution" => return Ok(text_message(draft, bash_execution(message))),
            "branchSummary" => return Ok(text_message(draft, branch_summary(&message.string("summary")))),
            "compactionSummary" => return Ok(text_message(draft, compaction_summary(&message.string("summary")))),
            _ => return Err(format!("the message has the unknown role {role}")),
        }
        Ok(Content::Message(Box::new(draft)))
    }

    fn reply<'a>(&mut self, draft: &mut MessageDraft<'a>, message: &Object<'a>) -> Result<(), String> {
        draft.role = Role::Assistant;
        let line = draft.line();
        draft.model = self.names.name(line, "model", message.string("model"));
        draft.provider = self.names.name(line, "provider", message.string("provider"));
        let provider = if draft.provider.is_empty() { "pi".to_owned() } else { draft.provider.clone() };
        self.blocks(draft, message, "/message/content", &provider, NameIndex::call)?;
        draft.finish.usage = message.object("usage").and_then(|usage| self.names.usage(line, read_usage(&usage)));
        draft.finish.detail = message.string("errorMessage");
        let reason = message.string("stopReason");
        draft.finish.reason = Some(match reason.as_str() {
            "stop" => FinishReason::Stop,
            "toolUse" => FinishReason::ToolCalls,
            "length" => FinishReason::Length,
            "error" => FinishReason::Error,
            "aborted" => FinishReason::Aborted,
            _ => {
                if draft.finish.detail.is_empty() {
                    draft.finish.detail = reason;
                }
                draft.reason_by_parts()
            }
        });
        Ok(())
    }

    fn result<'a>(&mut self, draft: &mut MessageDraft<'a>, message: &Object<'a>) -> Result<(), String> {
        draft.role = Role::Tool;
        let own = message.id("toolCallId").ok_or("the tool result names no call")?;
        let call_id = self.names.answered(draft.line(), &own);
        let status = if message.flag("isError") { ResultStatus::Error } else { ResultStatus::Completed };
        let value = message.get("content").ok_or("the tool result has no content")?;
        content::result(draft, call_id, status, outputs(value)?);
        Ok(())
    }

    /// Adds the content of a message: a text, or a list of blocks.
    fn blocks<'a>(
        &mut self,
        draft: &mut MessageDraft<'a>,
        message: &Object<'a>,
        pointer: &str,
        provider: &str,
        call_id: CallId,
    ) -> Result<(), String> {
        let value = message.get("content").ok_or("the message has no content")?;
        if content::text(draft, value, pointer.to_owned()).is_some() {
            return Ok(());
        }
        let blocks = raw::list(value).ok_or("the message's content is neither text nor a list")?;
        for (index, block) in blocks.into_iter().enumerate() {
            let pointer = format!("{pointer}/{index}");
            let object = raw::object(block);
            let kind = object.as_ref().map(|block| block.string("type")).unwrap_or_default();
            let known = object.is_some_and(|object| self.block(draft, &object, &kind, &pointer, call_id));
            if !known {
                if matches!(kind.as_str(), "" | "text" | "thinking" | "image" | "toolCall") {
                    let message = format!("block {index} does not match its type; kept as it is");
                    self.names.report(draft.line(), message);
                }
                content::opaque(draft, provider, &kind, block, pointer);
            }
        }
        Ok(())
    }

    /// Adds a block, if its kind has a part type of its own.
    fn block<'a>(
        &mut self,
        draft: &mut MessageDraft<'a>,
        block: &Object<'a>,
        kind: &str,
        pointer: &str,
        call_id: CallId,
    ) -> bool {
        let (part, mapped): (_, &[&str]) = match kind {
            "text" => {
                let part = block.get("text").and_then(|text| content::text(draft, text, format!("{pointer}/text")));
                (part, &["type", "text"])
            }
            "thinking" => {
                let words = block.get("thinking");
                let part = words.and_then(|words| content::reasoning(draft, words, format!("{pointer}/thinking")));
                (part, &["type", "thinking"])
            }
            "image" => {
                let part = block.get("data").and_then(|data| {
                    let bytes = content::media_bytes(data)?;
                    let media = content::media(block.string("mimeType"), String::new(), bytes)?;
                    Some(content::attach(draft, media, Some((data, format!("{pointer}/data")))))
                });
                (part, &["type", "mimeType", "data"])
            }
            "toolCall" => {
                let part = block.id("id").zip(block.id("name")).map(|(own, tool)| {
                    let call_id = call_id(&mut self.names, draft.line(), &own);
                    let tool = self.names.name(draft.line(), "name of a tool", tool);
                    content::call(draft, call_id, tool, block.get("arguments"), format!("{pointer}/arguments"))
                });
                (part, &["type", "id", "name", "arguments"])
            }
            _ => (None, &[]),
        };
        if let Some(part) = part {
            draft.keep_members(block, mapped, pointer, part);
        }
        part.is_some()
    }

    fn transcript(mut self) -> Transcript {
        let mut branches = sort(self.nodes);
        finish_branches(&mut branches, &mut self.names.problems);
        self.names.problems.sort_by_key(|problem| problem.line);
        let title = if self.name.is_empty() { first_request(&branches[0]) } else { title_of(&self.name) };
        Transcript {
            format: Format::Pi,
            source_id: self.source_id,
            title,
            folder: self.folder,
            branches,
            children: Vec::new(),
            problems: self.names.problems,
        }
    }
}

/// Sorts the nodes of a tree into branches: at each fork the child with the latest descendant continues the branch, and
/// each other child starts a new one.
fn sort(nodes: Vec<Node>) -> Vec<Branch> {
    let mut latest: Vec<usize> = (0..nodes.len()).collect();
    // A parent always comes before its children.
    for (index, node) in nodes.iter().enumerate().rev().filter(|(_, node)| !node.stray) {
        if let Some(parent) = node.parent {
            latest[parent] = latest[parent].max(latest[index]);
        }
    }
    let mut heirs: HashMap<Option<usize>, usize> = HashMap::new();
    for (index, node) in nodes.iter().enumerate().filter(|(_, node)| !node.stray) {
        let heir = heirs.entry(node.parent).or_insert(index);
        if latest[index] > latest[*heir] {
            *heir = index;
        }
    }
    let mut branches = vec![Branch { name: "main".into(), from: 0, fork_after: None, entries: Vec::new() }];
    let mut located: Vec<(usize, Option<String>)> = Vec::new();
    for (index, node) in nodes.into_iter().enumerate() {
        let (parent, shared) = node.parent.map_or((0, None), |parent| located[parent].clone());
        let goes_on = node.stray || heirs.get(&node.parent) == Some(&index);
        let branch = if goes_on { parent } else { branches.len() };
        if !goes_on {
            let name = node.entries.first().map(|first| first.client_id().to_owned()).unwrap_or_default();
            branches.push(Branch { name, from: parent, fork_after: shared, entries: Vec::new() });
        }
        located.push((branch, node.entries.last().map(|last| last.client_id().to_owned())));
        branches[branch].entries.extend(node.entries);
    }
    branches
}

/// A message with the text that pi composes from an entry's fields; the entry stays whole in the metadata.
fn text_message<'a>(mut draft: MessageDraft<'a>, words: String) -> Content<'a> {
    draft.push(PartBody::Text(words));
    Content::Message(Box::new(draft))
}

fn branch_summary(summary: &str) -> String {
    let lead = "The following is a summary of a branch that this conversation came back from:";
    format!("{lead}\n\n<summary>\n{summary}</summary>")
}

fn compaction_summary(summary: &str) -> String {
    let lead = "The conversation history before this point was compacted into the following summary:";
    format!("{lead}\n\n<summary>\n{summary}\n</summary>")
}

fn bash_execution(message: &Object<'_>) -> String {
    let mut words = format!("Ran `{}`\n", message.string("command"));
    match message.id("output") {
        Some(output) => words.push_str(&format!("```\n{output}\n```")),
        None => words.push_str("(no output)"),
    }
    let code = message.number("exitCode").unwrap_or_default();
    if message.flag("cancelled") {
        words.push_str("\n\n(command cancelled)");
    } else if code != 0.0 {
        words.push_str(&format!("\n\nCommand exited with code {code}"));
    }
    if let Some(path) = message.id("fullOutputPath").filter(|_| message.flag("truncated")) {
        words.push_str(&format!("\n\n[Output truncated. Full output: {path}]"));
    }
    words
}

fn read_usage(usage: &Object<'_>) -> Usage {
    Usage {
        input: usage.count("input"),
        output: usage.count("output"),
        reasoning: 0,
        cache_read: usage.count("cacheRead"),
        cache_write: usage.count("cacheWrite"),
        total: usage.get("totalTokens").map(|_| usage.count("totalTokens")),
        cost_usd: usage.object("cost").and_then(|cost| cost.number("total")),
        cost_is_computed: false,
    }
}

/// The output of a tool: a text, or a list of texts and images.
fn outputs(value: &RawValue) -> Result<Vec<Output<'_>>, String> {
    match raw::list(value) {
        Some(items) => Ok(items.into_iter().enumerate().map(|(index, item)| output(index, item)).collect()),
        None if raw::text(value).is_some() => Ok(vec![Output::Text(value, "/message/content".into())]),
        None => Err("the tool result's content is neither text nor a list".into()),
    }
}

fn output(index: usize, item: &RawValue) -> Output<'_> {
    let Some(block) = raw::object(item) else { return Output::Other(item) };
    match (block.string("type").as_str(), block.get("text"), block.get("data")) {
        ("text", Some(text), _) if raw::text(text).is_some() => {
            Output::Text(text, format!("/message/content/{index}/text"))
        }
        ("image", _, Some(data)) => match content::media_bytes(data)
            .and_then(|bytes| content::media(block.string("mimeType"), String::new(), bytes))
        {
            Some(media) => Output::Media(media, Some((data, format!("/message/content/{index}/data")))),
            None => Output::Other(item),
        },
        _ => Output::Other(item),
    }
}

/// A title made from the first request of a branch.
fn first_request(branch: &Branch) -> String {
    let messages = branch.entries.iter().filter_map(|entry| match entry {
        Entry::Message { message, .. } if message.role == Role::User => Some(message),
        _ => None,
    });
    let texts = messages.flat_map(|message| &message.parts).filter_map(|part| match &*part.body {
        PartBody::Text(text) => title_of_request(text),
        _ => None,
    });
    texts.into_iter().next().unwrap_or_default()
}
