//! The reader of Claude Code transcripts, and of those of its sub-agents.
//!
//! Lines are read in the order of the file. Their tree is used only to find prompts that were edited (`tree`): parallel
//! tools, hooks and progress often make it branch although nothing was abandoned.

mod blocks;
mod queue;
mod row;
#[cfg(test)]
mod tests;
mod tree;

use super::branches::finish_branches;
use super::draft::MessageDraft;
use super::name_index::{CLIENT_ID_BYTES, Line, NameIndex, record};
use super::raw::Object;
use super::titles::{title_of, title_of_request};
use super::transcript::{Branch, Entry, Format, ImportedCompaction, Problem, REPEATED_RECORD, Transcript};
use blocks::Content;
use longhand_model::harness::is_notice;
use longhand_model::ids::client_id_defect;
use longhand_model::message::{FinishReason, Role};
use longhand_model::part::{Marker, NOTE, PartBody};
use longhand_model::usage::Usage;
use queue::{Prompt, Queue};
use row::Row;
use std::collections::{HashMap, HashSet};
use tree::Tree;

/// The kinds of rows by which a transcript is recognised; each has an id too.
const KINDS: [&str; 17] = [
    "user",
    "assistant",
    "system",
    "summary",
    "attachment",
    "progress",
    "file-history-snapshot",
    "queue-operation",
    "last-prompt",
    "custom-title",
    "ai-title",
    "agent-name",
    "mode",
    "permission-mode",
    "tag",
    "pr-link",
    "worktree-state",
];

/// True if a line looks like one of this format. A message has its content as Anthropic's API does.
pub(super) fn is_line(line: &Object<'_>) -> bool {
    let identified = ["sessionId", "uuid", "leafUuid", "messageId"].iter().any(|name| line.id(name).is_some());
    let Some(kind) = line.id("type").filter(|kind| identified && KINDS.contains(&kind.as_str())) else { return false };
    !matches!(kind.as_str(), "user" | "assistant")
        || line.object("message").is_some_and(|message| message.get("content").is_some())
}

/// True if a record of that kind is what the reader makes of a line.
pub(super) fn is_record(line: &Object<'_>, kind: &str) -> bool {
    let Some(own) = line.id("type") else { return false };
    match line.id("subtype") {
        _ if kind == "compact_boundary" && line.flag("isCompactSummary") => true,
        Some(subtype) if kind == "compact_boundary" => subtype == kind,
        Some(subtype) => kind == format!("{own}/{subtype}"),
        None => own == kind,
    }
}

/// Reads a transcript; all lines of a sub-agent's transcript are on the side chain.
pub(super) fn read(lines: &[Line], problems: Vec<Problem>, metadata_bytes: usize, child: bool) -> Transcript {
    let mut names = NameIndex::new(problems);
    let rows = without_repetitions(lines.iter().map(Row::read), &mut names);
    // A sub-agent's file may also be passed as a session's.
    let child = child || !rows.iter().any(|row| row.talks && !row.sidechain);
    let mut main = Vec::new();
    let mut agents: Vec<(String, Vec<Row<'_>>)> = Vec::new();
    let mut agent_of: HashMap<String, String> = HashMap::new();
    for row in rows {
        if child || !row.sidechain {
            main.push(row);
            continue;
        }
        let latest = agents.last().map(|(agent, _)| agent);
        let agent = agent(&row, &agent_of, latest);
        if let Some(uuid) = &row.uuid {
            agent_of.insert(uuid.clone(), agent.clone());
        }
        match agents.iter_mut().find(|(other, _)| *other == agent) {
            Some((_, rows)) => rows.push(row),
            None => agents.push((agent, vec![row])),
        }
    }
    let source_id = if child { own_id(&main, "agentId") } else { own_id(&main, "sessionId") };
    let mut transcript = conversation(&main, source_id, metadata_bytes, &mut names);
    for (agent, rows) in agents {
        transcript.children.push(conversation(&rows, agent, metadata_bytes, &mut names));
    }
    transcript.problems = names.problems;
    transcript.problems.sort_by_key(|problem| problem.line);
    transcript
}

/// The rows without those that equal an earlier one. A row whose message is an earlier one's, but whose other members
/// differ, stays as a record.
fn without_repetitions<'a>(read: impl Iterator<Item = Row<'a>>, names: &mut NameIndex) -> Vec<Row<'a>> {
    let mut texts: HashMap<(String, String, &str), &str> = HashMap::new();
    let (mut rows, mut repetitions) = (Vec::new(), Vec::new());
    for mut row in read {
        if let Some(uuid) = &row.uuid {
            let text = row.line.text().trim();
            let first = *texts.entry((uuid.clone(), row.kind.clone(), row.content())).or_insert(text);
            if !std::ptr::eq(first, text) {
                repetitions.push(row.line);
                if first == text {
                    continue;
                }
                row.retire();
            }
        }
        rows.push(row);
    }
    names.report_repetitions(&repetitions);
    rows
}

/// The sub-agent that a line of the side chain belongs to. Old versions name none; the id of the chain's first line
/// then identifies it. A reply or a result without a parent belongs to the chain before it.
fn agent(row: &Row<'_>, agent_of: &HashMap<String, String>, latest: Option<&String>) -> String {
    let named = row.object.as_ref().and_then(|object| object.id("agentId"));
    let inherited = || row.parent.as_ref().and_then(|parent| agent_of.get(parent)).cloned();
    let continued = latest.filter(|_| !row.prompts && row.parent.is_none()).cloned();
    named
        .or_else(inherited)
        .or(continued)
        .or_else(|| row.uuid.clone())
        .unwrap_or_else(|| format!("line:{}", row.line.position()))
}

/// The last id of that name: a resumed session may begin with lines of an older one.
fn own_id(rows: &[Row<'_>], name: &str) -> String {
    let ids = rows.iter().rev().filter_map(|row| row.object.as_ref());
    ids.into_iter().find_map(|object| object.id(name)).unwrap_or_default()
}

/// An entry of a branch, or a reply that later lines may still extend.
enum Slot<'a> {
    Done(Entry),
    Reply { client_id: String, is_copy: bool, draft: MessageDraft<'a>, stop_reason: String },
}

impl Slot<'_> {
    fn client_id(&self) -> &str {
        match self {
            Self::Done(entry) => entry.client_id(),
            Self::Reply { client_id, .. } => client_id,
        }
    }
}

/// A builder of a conversation.
struct Converter<'a, 'b> {
    names: &'b mut NameIndex,
    metadata_bytes: usize,
    /// The branches so far: the branch that each leaves, the last shared entry, and its own entries.
    branches: Vec<(usize, Option<String>, Vec<Slot<'a>>)>,
    /// Index of the reply with a provider's message id, by branch.
    replies: HashMap<(usize, String), usize>,
    /// The times and the contents of messages, those of replies with their provider's id: a resume may copy lines under
    /// new ids.
    contents: HashSet<(usize, Option<String>, String, &'a str)>,
    /// The entry that each line became part of.
    entry_of: HashMap<String, String>,
}

fn conversation(rows: &[Row<'_>], source_id: String, metadata_bytes: usize, names: &mut NameIndex) -> Transcript {
    let tree = Tree::grow(rows);
    let branches = vec![(0, None, Vec::new())];
    let mut converter = Converter {
        names,
        metadata_bytes,
        branches,
        replies: HashMap::new(),
        contents: HashSet::new(),
        entry_of: HashMap::new(),
    };
    let mut used = HashSet::new();
    let mut queue = Queue::default();
    for (index, row) in rows.iter().enumerate() {
        for fork in tree.forks.iter().filter(|fork| fork.leaves_at == index) {
            converter.open(fork.branch, fork.from);
        }
        if used.contains(&index) {
            continue;
        }
        let branch = tree.branch_of[index];
        if row.kind == "assistant" && converter.begins_reply(branch, row) {
            for prompt in queue.absorbed() {
                converter.absorbed(branch, prompt);
            }
        }
        queue.read(row);
        let summary = if row.boundary { tree.summary_of(rows, index) } else { row.summary.then_some(index) };
        match summary {
            Some(summary) => {
                used.insert(summary);
                converter.compaction(branch, row, &rows[summary]);
            }
            None => converter.row(branch, row),
        }
    }
    let mut branches = converter.close();
    finish_branches(&mut branches, &mut names.problems);
    let title = title(rows, &branches[0]);
    let mut objects = rows.iter().filter_map(|row| row.object.as_ref());
    let folder = objects.find_map(|object| object.id("cwd")).unwrap_or_default();
    let (children, problems) = (Vec::new(), Vec::new());
    Transcript { format: Format::ClaudeCode, source_id, title, folder, branches, children, problems }
}

impl<'a> Converter<'a, '_> {
    /// Sets the fork position of a branch; its own lines come later.
    fn open(&mut self, branch: usize, from: usize) {
        while self.branches.len() <= branch {
            self.branches.push((0, None, Vec::new()));
        }
        let shared = self.branches[from].2.last().map(|slot| slot.client_id().to_owned());
        self.branches[branch].0 = from;
        self.branches[branch].1 = shared;
    }

    fn push(&mut self, branch: usize, entries: impl IntoIterator<Item = Entry>) {
        self.branches[branch].2.extend(entries.into_iter().map(Slot::Done));
    }

    fn row(&mut self, branch: usize, row: &Row<'a>) {
        let Some(object) = &row.object else { return self.malformed(branch, row, &row.problem) };
        if !row.talks {
            return self.record(branch, row, object);
        }
        let Some(message) = object.object(if row.queued { "attachment" } else { "message" }) else {
            return self.malformed(branch, row, "the line has no message");
        };
        match row.kind.as_str() {
            "assistant" => self.reply(branch, row, object, &message),
            _ if row.queued => self.user(branch, row, object, Content::of_attachment(&message)),
            _ => self.user(branch, row, object, Content::of_message(&message)),
        }
    }

    fn claim(&mut self, row: &Row<'a>) -> String {
        let client_id = self.names.claim(row.line, row.uuid.as_deref());
        if let Some(uuid) = &row.uuid {
            self.entry_of.insert(uuid.clone(), client_id.clone());
        }
        client_id
    }

    fn malformed(&mut self, branch: usize, row: &Row<'a>, problem: &str) {
        let message = self.names.malformed(row.line, format!("{problem}; kept as a record"));
        self.push(branch, [Entry::Record { line: row.line.number, message }]);
    }

    fn record(&mut self, branch: usize, row: &Row<'a>, object: &Object<'a>) {
        let client_id = self.claim(row);
        let time = self.names.time(row.line, object, "timestamp");
        let message = record(client_id, &row.record_kind(), row.line.text().to_owned(), time);
        self.push(branch, [Entry::Record { line: row.line.number, message }]);
    }

    /// Reads a line with the user's role: tool results become a message of their own, before the user's text.
    fn user(&mut self, branch: usize, row: &Row<'a>, object: &Object<'a>, content: Content<'a, '_>) {
        // Of hooks, several can say the same at once.
        if !row.meta && self.is_copy(branch, row, object, None) {
            return self.repeated(branch, row);
        }
        let mut user_draft = MessageDraft::new(Format::ClaudeCode, self.metadata_bytes, Role::User, row.line);
        user_draft.origin_time = self.names.time(row.line, object, "timestamp");
        let mut results = user_draft.sibling(Role::Tool);
        if let Err(problem) = blocks::user(&mut user_draft, &mut results, content, self.names) {
            return self.malformed(branch, row, problem);
        }
        if row.meta
            || user_draft.parts.iter().all(|part| matches!(&*part.body, PartBody::Text(text) if is_notice(text)))
        {
            take_for_notes(&mut user_draft);
        }
        let mut client_id = self.claim(row);
        if !results.parts.is_empty() {
            name_parts(&mut results, &client_id);
            // The first message of the line keeps the rest of it.
            results.keep_rest(&mut user_draft);
            let entries = results.finish(client_id.clone(), self.names);
            self.push(branch, entries);
            if user_draft.parts.is_empty() {
                return;
            }
            client_id = self.names.claim(row.line, Some(&format!("{client_id}:text")));
        }
        name_parts(&mut user_draft, &client_id);
        let entries = user_draft.finish(client_id, self.names);
        self.push(branch, entries);
    }

    /// True if an earlier line of the branch has the same content of the same time: two people do not type alike in the
    /// same millisecond. A line without a time is no copy.
    fn is_copy(&mut self, branch: usize, row: &Row<'a>, object: &Object<'a>, provider_id: Option<&String>) -> bool {
        let Some(time) = object.id("timestamp") else { return false };
        !self.contents.insert((branch, provider_id.cloned(), time, row.content()))
    }

    fn repeated(&mut self, branch: usize, row: &Row<'a>) {
        self.names.report_repetitions(&[row.line]);
        let client_id = self.claim(row);
        let message = record(client_id, REPEATED_RECORD, row.line.text().to_owned(), None);
        self.push(branch, [Entry::Record { line: row.line.number, message }]);
    }

    /// True if a line of a reply is the first one.
    fn begins_reply(&self, branch: usize, row: &Row<'a>) -> bool {
        let message = row.object.as_ref().and_then(|object| object.object("message"));
        let provider_id = message.and_then(|message| message.id("id"));
        provider_id.is_none_or(|id| !self.replies.contains_key(&(branch, id)))
    }

    /// A prompt that a model read, but that only the record of its queue has.
    fn absorbed(&mut self, branch: usize, prompt: Prompt<'a>) {
        let draft = MessageDraft::new(Format::ClaudeCode, self.metadata_bytes, Role::User, prompt.line);
        // The record of the line has all of it.
        let mut draft = draft.sibling(Role::User);
        draft.origin_time = prompt.object.time("timestamp");
        draft.push(PartBody::Text(prompt.text));
        let client_id = self.names.claim(prompt.line, Some(&format!("queued:{}", prompt.line.position())));
        name_parts(&mut draft, &client_id);
        let entries = draft.finish(client_id, self.names);
        self.push(branch, entries);
    }

    /// Reads a line of a reply. A reply has one line for each of its blocks, with results of its calls in between.
    fn reply(&mut self, branch: usize, row: &Row<'a>, object: &Object<'a>, message: &Object<'a>) {
        let key = message.id("id").map(|id| (branch, id));
        if let Some((_, id)) = &key
            && self.is_copy(branch, row, object, Some(id))
        {
            return self.repeated(branch, row);
        }
        let mut draft = MessageDraft::new(Format::ClaudeCode, self.metadata_bytes, Role::Assistant, row.line);
        let is_error = object.flag("isApiErrorMessage");
        // Claude Code shows the text of an error to the user; no model wrote or reads it.
        let blocks = if is_error { Ok(()) } else { blocks::assistant(&mut draft, message, self.names) };
        if let Err(problem) = blocks {
            return self.malformed(branch, row, problem);
        }
        // Each line of a reply claims its own id, so that the ids of the parts are unique too.
        let own = self.claim(row);
        name_parts(&mut draft, &own);
        draft.origin_time = self.names.time(row.line, object, "timestamp");
        draft.model = self.names.name(row.line, "model", message.string("model"));
        draft.provider = if draft.model == "<synthetic>" { String::new() } else { "anthropic".to_owned() };
        draft.finish.usage = message.object("usage").and_then(|usage| self.names.usage(row.line, read_usage(&usage)));
        if is_error {
            draft.finish.reason = Some(FinishReason::Error);
            let words = blocks::message_text(message);
            draft.finish.detail = if words.is_empty() { object.string("error") } else { words };
        }
        let stop = message.string("stop_reason");
        let position = key.as_ref().and_then(|key| self.replies.get(key)).copied();
        let slot = position.and_then(|position| self.branches[branch].2.get_mut(position));
        if let Some(Slot::Reply { client_id, draft: reply, stop_reason, .. }) = slot {
            let usage = draft.finish.usage.take();
            reply.finish.usage = usage.or(reply.finish.usage);
            if is_error {
                (reply.finish.reason, reply.finish.detail) =
                    (draft.finish.reason, std::mem::take(&mut draft.finish.detail));
            }
            reply.join(draft);
            if !stop.is_empty() {
                *stop_reason = stop;
            }
            if let Some(uuid) = &row.uuid {
                self.entry_of.insert(uuid.clone(), client_id.clone());
            }
            return;
        }
        // The first one in the file pays, so that a copy that comes after an import does not count again.
        let is_copy = key.as_ref().is_some_and(|(_, id)| !self.names.count_reply(id.clone()));
        if let Some(key) = key {
            self.replies.insert(key, self.branches[branch].2.len());
        }
        self.branches[branch].2.push(Slot::Reply { client_id: own, is_copy, draft, stop_reason: stop });
    }

    /// Reads a compaction: its boundary and its summary, or, in old versions, the summary alone.
    fn compaction(&mut self, branch: usize, boundary: &Row<'a>, summary: &Row<'a>) {
        let line = boundary.line;
        let message = summary.object.as_ref().and_then(|object| object.object("message"));
        let summary_text = message.map(|message| blocks::message_text(&message)).unwrap_or_default();
        let Some(object) = boundary.object.as_ref().filter(|_| !summary_text.trim().is_empty()) else {
            self.malformed(branch, boundary, "the compaction has no summary");
            if line != summary.line {
                self.malformed(branch, summary, "the summary has no text");
            }
            return;
        };
        let metadata = object.object("compactMetadata");
        let first_kept = metadata.as_ref().and_then(|metadata| self.first_kept(branch, metadata));
        let client_id = self.claim(boundary);
        let mut verbatim = line.text().to_owned();
        if line != summary.line {
            verbatim = format!("{verbatim}\n{}", summary.line.text());
            if let Some(uuid) = &summary.uuid {
                self.entry_of.insert(uuid.clone(), client_id.clone());
            }
        }
        let time = self.names.time(line, object, "timestamp");
        let record = record(client_id.clone(), "compact_boundary", verbatim, time);
        let compaction = ImportedCompaction {
            client_id,
            line: line.number,
            summary_text,
            first_kept_client_id: first_kept,
            covers_until_client_id: String::new(),
            trigger: metadata.as_ref().map(|metadata| metadata.string("trigger")).unwrap_or_default(),
            tokens_before: metadata.as_ref().map_or(0, |metadata| metadata.count("preTokens")),
            from_hook: false,
            record,
        };
        self.push(branch, [Entry::Compaction(compaction)]);
        // No reply continues after a boundary.
        self.replies.retain(|(other, _), _| *other != branch);
        self.contents.retain(|(other, ..)| *other != branch);
    }

    /// The first kept entry before a boundary, if any was kept.
    fn first_kept(&mut self, branch: usize, metadata: &Object<'_>) -> Option<String> {
        let mut kept = HashSet::new();
        if let Some(uuids) = metadata.object("preservedMessages").and_then(|kept| kept.list("uuids")) {
            kept.extend(uuids.into_iter().filter_map(super::raw::text).map(|uuid| uuid.text));
        }
        if let Some(segment) = metadata.object("preservedSegment") {
            kept.extend(segment.id("headUuid"));
        }
        let kept: HashSet<&String> = kept.iter().filter_map(|uuid| self.entry_of.get(uuid)).collect();
        let slots = self.branches[branch].2.iter().map(Slot::client_id);
        slots.into_iter().find(|client_id| kept.iter().any(|kept| kept == client_id)).map(str::to_owned)
    }

    fn close(self) -> Vec<Branch> {
        let mut closed = Vec::new();
        for (index, (from, fork_after, slots)) in self.branches.into_iter().enumerate() {
            let mut entries = Vec::new();
            for slot in slots {
                match slot {
                    Slot::Done(entry) => entries.push(entry),
                    Slot::Reply { client_id, is_copy, mut draft, stop_reason } => {
                        // A resume copies replies: their usage was paid once.
                        if is_copy {
                            draft.finish.usage = None;
                        }
                        seal(&mut draft, &stop_reason);
                        entries.extend(draft.finish(client_id, self.names));
                    }
                }
            }
            let first = entries.first().map(Entry::client_id).unwrap_or_default();
            let name = if index == 0 { "main".to_owned() } else { first.to_owned() };
            closed.push(Branch { name, from, fork_after, entries });
        }
        closed
    }
}

/// Turns texts that Claude Code wrote with the user's role into notes: a model read them, but they are no request of a
/// person.
fn take_for_notes(user_draft: &mut MessageDraft<'_>) {
    for part in &mut user_draft.parts {
        if let PartBody::Text(text) = &*part.body {
            part.body = PartBody::Marker(Marker { name: NOTE.to_owned(), text: text.clone() }).into();
        }
    }
}

/// Assigns the ids of a line's parts: the line's own id, numbered if there are several.
fn name_parts(draft: &mut MessageDraft<'_>, own: &str) {
    let several = draft.parts.len() > 1;
    for (index, part) in draft.parts.iter_mut().enumerate() {
        let id = if several { format!("{own}:{index}") } else { own.to_owned() };
        part.client_id = Some(id).filter(|id| id.len() <= CLIENT_ID_BYTES && client_id_defect(id).is_none());
    }
}

/// Sets the finish reason of a reply. A line that was written during the reply has none.
fn seal(draft: &mut MessageDraft<'_>, stop_reason: &str) {
    if draft.finish.reason.is_some() {
        return;
    }
    let (reason, known) = match stop_reason {
        "end_turn" | "stop_sequence" => (FinishReason::Stop, true),
        // A paused turn continues like one that waits for tools.
        "tool_use" | "pause_turn" => (FinishReason::ToolCalls, true),
        "max_tokens" | "model_context_window_exceeded" => (FinishReason::Length, true),
        "refusal" => (FinishReason::ContentFilter, true),
        "" => (draft.reason_by_parts(), true),
        _ => (draft.reason_by_parts(), false),
    };
    draft.finish.reason = Some(reason);
    if !known {
        draft.finish.detail = stop_reason.to_owned();
    }
}

fn read_usage(usage: &Object<'_>) -> Usage {
    Usage {
        input: usage.count("input_tokens"),
        output: usage.count("output_tokens"),
        reasoning: 0,
        cache_read: usage.count("cache_read_input_tokens"),
        cache_write: usage.count("cache_creation_input_tokens"),
        total: None,
        cost_usd: None,
        cost_is_computed: false,
    }
}

/// The newest title that old versions made of a conversation. A file may also have those of other conversations, whose
/// last rows it does not have.
fn summary_title(rows: &[Row<'_>]) -> Option<String> {
    let uuids: HashSet<&str> = rows.iter().filter_map(|row| row.uuid.as_deref()).collect();
    let titles = rows.iter().rev().filter(|row| row.kind == "summary").filter_map(|row| row.object.as_ref());
    let own = titles.filter(|title| title.id("leafUuid").is_some_and(|leaf| uuids.contains(leaf.as_str())));
    own.filter_map(|title| title.id("summary")).map(|title| title_of(&title)).find(|title| !title.is_empty())
}

/// The title that was given to the session, or else its first prompt.
fn title(rows: &[Row<'_>], main: &Branch) -> String {
    let given = |kind: &str, name: &str| {
        let titles = rows.iter().rev().filter(|row| row.kind == kind).filter_map(|row| row.object.as_ref());
        titles.filter_map(|object| object.id(name)).map(|title| title_of(&title)).find(|title| !title.is_empty())
    };
    let asks = |row: &&Row<'_>| row.prompts || row.queued;
    let prompts: HashSet<usize> = rows.iter().filter(asks).map(|row| row.line.number).collect();
    let first_prompt = || {
        let mut messages = main.entries.iter().filter_map(|entry| match entry {
            Entry::Message { line, message } if message.role == Role::User && prompts.contains(line) => Some(message),
            _ => None,
        });
        messages.find_map(|message| {
            message.parts.iter().find_map(|part| match &*part.body {
                PartBody::Text(text) => title_of_request(text),
                _ => None,
            })
        })
    };
    given("custom-title", "customTitle")
        .or_else(|| given("ai-title", "aiTitle"))
        .or_else(|| summary_title(rows))
        .or_else(first_prompt)
        .or_else(|| given("summary", "summary"))
        .unwrap_or_default()
}
