//! Plan of an import: sessions, forks and children, and the entries of each, in order.

use super::source::Source;
use crate::grpc::wire;
use crate::interop::{Entry, ImportedCompaction, ImportedEdit, Transcript};
use crate::limits;
use crate::model::ids::client_id_defect;
use crate::pb;
use prost::Message;
use serde::Serialize;
use std::collections::HashSet;

/// Options that identify the sessions of an import: other options make other sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Combination {
    /// Name of the preset or of the policy; empty for the daemon's default.
    pub(super) preset: String,
    /// The model window, in tokens; 0 if unknown.
    pub(super) window: i64,
    /// Maximum size of a reply, in tokens.
    pub(super) output: Option<i64>,
    /// True if the entries are written live, as an agent would.
    pub(super) live: bool,
    /// True if the usage that replies report is left out.
    pub(super) no_usage: bool,
}

/// A session to write. Sessions and entries are referenced by client ids; the daemon gives them ids of its own.
#[derive(Debug)]
pub(super) struct PlannedSession {
    /// Client id, by which the session is found again.
    pub(super) client_id: String,
    /// Its title.
    pub(super) title: String,
    /// Its origin.
    pub(super) origin: SessionOrigin,
    /// Source and options of the import, as JSON.
    pub(super) metadata_json: String,
    /// The model of its newest reply; empty if none names one.
    pub(super) model: String,
    /// Its entries, in order.
    pub(super) entries: Vec<Entry>,
}

/// Origin of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SessionOrigin {
    /// A session of its own, or a child of another.
    New {
        /// Client id of the parent session.
        parent: Option<String>,
    },
    /// A fork.
    Fork {
        /// Client id of the forked session.
        of: String,
        /// Client id of the last shared entry.
        after: String,
    },
}

/// Sessions of one file. They share the ids of its entries.
pub(super) type Group = Vec<PlannedSession>;

/// What is chosen for one import, and does not make other sessions.
#[derive(Debug, Default)]
pub(super) struct ImportChoices {
    /// Client id of the main session.
    pub(super) client_id: Option<String>,
    /// The project of the sessions.
    pub(super) project: Option<String>,
    /// The time of an import that brings back what was erased.
    pub(super) again: Option<String>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    /// The folder in which the agent worked.
    #[serde(skip_serializing_if = "str::is_empty")]
    cwd: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<&'a str>,
    source: MetadataSource<'a>,
    #[serde(flatten)]
    combination: &'a Combination,
    /// The time of an import that brings back what was erased.
    #[serde(skip_serializing_if = "Option::is_none")]
    again: Option<&'a str>,
}

#[derive(Serialize)]
struct MetadataSource<'a> {
    format: &'a str,
    id: &'a str,
    file: &'a str,
    branch: &'a str,
}

/// Plans the sessions of all files; the first file is the main one, the others are its children.
pub(super) fn groups(sources: Vec<Source>, combination: &Combination, chosen: &ImportChoices) -> Vec<Group> {
    let mut planner = Planner { combination, chosen, taken: HashSet::new(), groups: Vec::new() };
    let mut main: Option<String> = None;
    for source in sources {
        let id = match (&main, &chosen.client_id) {
            (Some(main), _) => format!("{main}/{}", source.transcript.source_id),
            (None, Some(own)) => own.clone(),
            (None, None) => main_id(&source, combination),
        };
        let id = planner.add(source.transcript, &source.file, id, main.clone());
        main.get_or_insert(id);
    }
    planner.groups
}

/// Client id of a transcript's main session: the same for the same transcript and options, and readable if the
/// transcript has an id.
fn main_id(source: &Source, combination: &Combination) -> String {
    let Transcript { format, source_id, .. } = &source.transcript;
    let own = if source_id.is_empty() { &source.content_hash[..16] } else { source_id };
    let choice = format!("{combination:?}");
    let choice = blake3::hash(choice.as_bytes()).to_hex();
    format!("{}:{own}:{}", format.name(), &choice[..8])
}

struct Planner<'a> {
    combination: &'a Combination,
    chosen: &'a ImportChoices,
    taken: HashSet<String>,
    groups: Vec<Group>,
}

impl Planner<'_> {
    /// Plans one transcript and the children in it. Returns the client id of its main session.
    fn add(&mut self, transcript: Transcript, file: &str, wanted: String, parent: Option<String>) -> String {
        let Transcript { format, mut source_id, title, folder, branches, children, .. } = transcript;
        let own_project = project(&folder);
        if source_id.len() > limits::NAME_BYTES_MAX {
            source_id = fitting(&source_id);
        }
        let title = shortened_title(if title.is_empty() { file } else { &title });
        let mut ids: Vec<String> = Vec::new();
        let mut group = Vec::new();
        for (index, branch) in branches.into_iter().enumerate() {
            let main = ids.first().cloned();
            let id = self.claim(main.as_ref().map_or(wanted.clone(), |main| format!("{main}#{}", branch.name)));
            let origin = match branch.fork_after {
                Some(after) if index > 0 => SessionOrigin::Fork { of: ids[branch.from].clone(), after },
                _ => SessionOrigin::New { parent: parent.clone() },
            };
            let source = MetadataSource { format: format.name(), id: &source_id, file, branch: &branch.name };
            group.push(PlannedSession {
                client_id: id.clone(),
                title: title.clone(),
                origin,
                metadata_json: metadata(&Metadata {
                    cwd: &folder,
                    project: self.chosen.project.as_deref().or(own_project),
                    source,
                    combination: self.combination,
                    again: self.chosen.again.as_deref(),
                }),
                model: model(&branch.entries),
                entries: branch.entries,
            });
            ids.push(id);
        }
        self.groups.push(group);
        let main = ids.into_iter().next().unwrap_or(wanted);
        for child in children {
            let wanted = format!("{main}/{}", child.source_id);
            self.add(child, file, wanted, Some(main.clone()));
        }
        main
    }

    /// A client id that the daemon accepts, and that is unique in this import.
    fn claim(&mut self, wanted: String) -> String {
        let mut id = fitting(&wanted);
        let mut number = 2;
        while !self.taken.insert(id.clone()) {
            id = fitting(&format!("{wanted}:{number}"));
            number += 1;
        }
        id
    }
}

/// The name of a project by its folder; none if an access token could not be bound to it.
fn project(folder: &str) -> Option<&str> {
    let name = folder.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or_default();
    let fits = (1..=limits::ACCESS_NAME_BYTES_MAX).contains(&name.len()) && name.trim() == name;
    (fits && name.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')).then_some(name)
}

fn fitting(id: &str) -> String {
    let fits = id.len() <= limits::NAME_BYTES_MAX && client_id_defect(id).is_none();
    if fits { id.to_owned() } else { format!("import:{}", blake3::hash(id.as_bytes())) }
}

fn shortened_title(title: &str) -> String {
    let title = title.replace('\0', "\u{fffd}");
    title[..title.floor_char_boundary(limits::TITLE_BYTES_MAX)].to_owned()
}

/// The metadata as JSON. Every field has a JSON form, so that serialization cannot fail.
fn metadata(metadata: &Metadata<'_>) -> String {
    serde_json::to_string(metadata).unwrap_or_default()
}

/// One request of an import that is not live.
#[derive(Debug)]
pub(super) enum ImportStep {
    /// Appends messages, together.
    Append(Vec<pb::NewMessage>),
    /// Applies a summary of the agent; its record follows.
    Supply(Supply),
    /// Applies an edit of the agent; its record follows.
    Edit(Edit),
    /// Sets the session's model window, if it differs. This step follows the last summary of the agent: without a
    /// window the daemon triggers no compaction, so that none of its own comes between the agent's summaries.
    SetWindow,
}

/// A summary of the agent, with entries referenced by their client ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Supply {
    /// The agent's id of the summary.
    pub(super) client_id: String,
    /// Line of the transcript.
    pub(super) line: usize,
    /// Text of the summary.
    pub(super) text: String,
    /// First entry of the tail; none for no tail.
    pub(super) tail_start: Option<String>,
    /// Last entry before the summary.
    pub(super) until: String,
}

/// An edit of the agent, with entries referenced by their client ids.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Edit {
    /// The agent's id of the edit.
    pub(super) client_id: String,
    /// Line of the transcript.
    pub(super) line: usize,
    /// The edited entry.
    pub(super) target: String,
    /// Replacement parts; empty if the entry is left out.
    pub(super) parts: Vec<pb::Part>,
}

/// True if the entries contain a summary of the agent.
pub(super) fn has_compactions(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| matches!(entry, Entry::Compaction(_)))
}

/// The model of the newest reply that names one. Claude Code's own replies have a name in angle brackets in its place.
fn model(entries: &[Entry]) -> String {
    let models = entries.iter().rev().filter_map(|entry| match entry {
        Entry::Message { message, .. } => Some(&message.model),
        _ => None,
    });
    models.into_iter().find(|model| !model.is_empty() && !model.starts_with('<')).cloned().unwrap_or_default()
}

/// The requests that write entries, in order.
pub(super) fn steps(entries: Vec<Entry>) -> Vec<ImportStep> {
    let compactions = entries.iter().filter(|entry| matches!(entry, Entry::Compaction(_))).count();
    let mut batches = Batches::default();
    let mut seen = 0;
    let mut last = None;
    if compactions == 0 {
        batches.step(ImportStep::SetWindow);
    }
    for entry in entries {
        match entry {
            Entry::Message { message, .. } => {
                last.clone_from(&message.client_id);
                batches.append(wire::new_message(message));
            }
            Entry::Record { message, .. } => batches.append(wire::new_message(message)),
            Entry::Compaction(compaction) => {
                seen += 1;
                let (supply, record) = supply(compaction, last.as_deref());
                batches.step(ImportStep::Supply(supply));
                // A request of its own, whose answer states if the record, and so the summary, existed before.
                batches.step(ImportStep::Append(vec![record]));
                if seen == compactions {
                    batches.step(ImportStep::SetWindow);
                }
            }
            Entry::Edit(imported) => {
                let (edit, record) = edit(imported);
                batches.step(ImportStep::Edit(edit));
                batches.append(record);
            }
        }
    }
    batches.close();
    batches.steps
}

fn supply(compaction: ImportedCompaction, last: Option<&str>) -> (Supply, pb::NewMessage) {
    let until = match (&compaction.first_kept_client_id, last) {
        (Some(_), Some(last)) => last.to_owned(),
        (Some(_), None) | (None, _) => compaction.covers_until_client_id,
    };
    let supply = Supply {
        client_id: compaction.client_id,
        line: compaction.line,
        text: compaction.summary_text,
        tail_start: compaction.first_kept_client_id,
        until,
    };
    (supply, wire::new_message(compaction.record))
}

fn edit(imported: ImportedEdit) -> (Edit, pb::NewMessage) {
    let ImportedEdit { client_id, line, target_client_id, parts, record } = imported;
    let parts = parts.into_iter().map(wire::new_part).collect();
    (Edit { client_id, line, target: target_client_id, parts }, wire::new_message(record))
}

/// Collects messages into requests as large as the daemon accepts.
#[derive(Default)]
struct Batches {
    steps: Vec<ImportStep>,
    batch: Vec<pb::NewMessage>,
    bytes: usize,
}

impl Batches {
    fn append(&mut self, message: pb::NewMessage) {
        let bytes = message.encoded_len();
        let full = self.batch.len() == limits::BATCH_MESSAGES_MAX || self.bytes + bytes > limits::BATCH_BYTES_MAX;
        if full {
            self.close();
        }
        self.bytes += bytes;
        self.batch.push(message);
    }

    fn step(&mut self, step: ImportStep) {
        self.close();
        self.steps.push(step);
    }

    fn close(&mut self) {
        if !self.batch.is_empty() {
            self.steps.push(ImportStep::Append(std::mem::take(&mut self.batch)));
        }
        self.bytes = 0;
    }
}

/// One write of an agent in a live import.
#[derive(Debug)]
pub(super) struct ImportTurn {
    /// The edit that precedes the message.
    pub(super) edit: Option<Edit>,
    /// The message.
    pub(super) message: pb::NewMessage,
}

/// Writes of an agent, one by one. A compaction of the agent is reduced to its record.
pub(super) fn turns(entries: Vec<Entry>, no_usage: bool) -> Vec<ImportTurn> {
    let turn = |entry| match entry {
        Entry::Message { message, .. } | Entry::Record { message, .. } => {
            ImportTurn { edit: None, message: wire::new_message(message) }
        }
        Entry::Compaction(compaction) => ImportTurn { edit: None, message: wire::new_message(compaction.record) },
        Entry::Edit(imported) => {
            let (edit, message) = edit(imported);
            ImportTurn { edit: Some(edit), message }
        }
    };
    let mut turns: Vec<ImportTurn> = entries.into_iter().map(turn).collect();
    if no_usage {
        turns.iter_mut().filter_map(|turn| turn.message.finish.as_mut()).for_each(|finish| finish.usage = None);
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interop::{Branch, Format};
    use crate::model::message::{MessageKind, NewMessage, Role};
    use crate::model::part::{NewPart, PartBody};

    fn new_message(id: &str, text: &str) -> NewMessage {
        NewMessage {
            client_id: Some(id.into()),
            ..NewMessage::sealed(Role::User, vec![NewPart::new(PartBody::Text(text.into()))])
        }
    }

    fn entry(id: &str) -> Entry {
        Entry::Message { line: 1, message: new_message(id, "hello") }
    }

    fn compaction(id: &str, kept: Option<&str>, until: &str) -> Entry {
        Entry::Compaction(ImportedCompaction {
            client_id: id.into(),
            line: 9,
            summary_text: "summary".into(),
            first_kept_client_id: kept.map(str::to_owned),
            covers_until_client_id: until.into(),
            trigger: String::new(),
            tokens_before: 0,
            from_hook: false,
            record: NewMessage { kind: MessageKind::Record, ..new_message(id, "record") },
        })
    }

    /// Short form of steps: ids of appended messages, `=` and the range of a summary, `~` and the target of an edit,
    /// `w` for the window.
    fn short_forms(steps: &[ImportStep]) -> Vec<String> {
        let id = |message: &pb::NewMessage| message.client_id.clone().unwrap_or_default();
        let short_form = |step: &ImportStep| match step {
            ImportStep::Append(messages) => messages.iter().map(id).collect::<Vec<_>>().join(" "),
            ImportStep::Supply(supply) => format!("={:?}..{}", supply.tail_start, supply.until),
            ImportStep::Edit(edit) => format!("~{}", edit.target),
            ImportStep::SetWindow => "w".to_owned(),
        };
        steps.iter().map(short_form).collect()
    }

    #[test]
    fn summaries_are_between_the_messages_and_before_the_window() {
        let kept = compaction("k1", Some("b"), "a");
        let all = compaction("k2", None, "c");
        let entries = vec![entry("a"), entry("b"), kept, entry("c"), all, entry("d"), entry("e")];
        let steps = steps(entries);
        assert_eq!(short_forms(&steps), ["a b", "=Some(\"b\")..b", "k1", "c", "=None..c", "k2", "w", "d e"]);
    }

    fn imported_edit(id: &str, target: &str) -> Entry {
        let record = NewMessage { kind: MessageKind::Record, ..new_message(id, "record") };
        let (client_id, target_client_id) = (id.to_owned(), target.to_owned());
        Entry::Edit(ImportedEdit { client_id, line: 9, target_client_id, parts: Vec::new(), record })
    }

    #[test]
    fn an_edit_is_made_behind_its_target_and_before_its_record() {
        let entries = || vec![entry("a"), entry("b"), imported_edit("e", "a"), entry("c")];
        assert_eq!(short_forms(&steps(entries())), ["w", "a b", "~a", "e c"]);
        let played = turns(entries(), false);
        let edits: Vec<_> = played
            .iter()
            .map(|turn| (turn.edit.as_ref().map(|edit| edit.target.as_str()), turn.message.client_id.as_deref()))
            .collect();
        assert_eq!(edits, [(None, Some("a")), (None, Some("b")), (Some("a"), Some("e")), (None, Some("c"))]);
    }

    #[test]
    fn without_summaries_the_window_comes_first() {
        assert_eq!(short_forms(&steps(vec![entry("a"), entry("b")])), ["w", "a b"]);
    }

    #[test]
    fn batches_stay_below_the_limits() {
        let many: Vec<_> = (0..limits::BATCH_MESSAGES_MAX + 1).map(|index| entry(&index.to_string())).collect();
        let large = "x".repeat(limits::BATCH_BYTES_MAX / 2);
        let heavy = ["a", "b", "c"].map(|id| Entry::Message { line: 1, message: new_message(id, &large) });
        for (entries, batches) in [(many, 2), (heavy.to_vec(), 3)] {
            let count = entries.len();
            let appended: Vec<_> = steps(entries)
                .into_iter()
                .filter_map(|step| if let ImportStep::Append(batch) = step { Some(batch) } else { None })
                .collect();
            assert_eq!(appended.len(), batches);
            assert_eq!(appended.iter().map(Vec::len).sum::<usize>(), count);
            for batch in appended {
                assert!(batch.len() <= limits::BATCH_MESSAGES_MAX);
                assert!(batch.iter().map(Message::encoded_len).sum::<usize>() <= limits::BATCH_BYTES_MAX);
            }
        }
    }

    fn source(id: &str, branches: Vec<Branch>, children: Vec<Transcript>) -> Source {
        let transcript = Transcript {
            format: Format::Pi,
            source_id: id.into(),
            title: "title".into(),
            folder: "/work/parser/".into(),
            branches,
            children,
            problems: Vec::new(),
        };
        Source { file: "file.jsonl".into(), content_hash: "0123456789abcdef0123".into(), transcript }
    }

    fn branch(name: &str, from: usize, fork_after: Option<&str>) -> Branch {
        let (name, fork_after) = (name.to_owned(), fork_after.map(str::to_owned));
        Branch { name, from, fork_after, entries: vec![entry("a")] }
    }

    fn combination(live: bool) -> Combination {
        Combination { preset: "opencode@seed".into(), window: 64_000, output: None, live, no_usage: false }
    }

    #[test]
    fn branches_become_forks_and_children_know_their_parent() {
        let branches =
            vec![branch("main", 0, None), branch("x", 0, Some("a")), branch("y", 1, Some("b")), branch("z", 0, None)];
        let child = source("agent", vec![branch("main", 0, None)], Vec::new()).transcript;
        let sources =
            vec![source("s", branches, vec![child]), source("agent", vec![branch("main", 0, None)], Vec::new())];
        let groups = groups(
            sources,
            &combination(true),
            &ImportChoices { client_id: Some("own".into()), ..ImportChoices::default() },
        );
        let planned: Vec<_> = groups.iter().flatten().map(|s| (s.client_id.as_str(), s.origin.clone())).collect();
        let fork = |of: &str, after: &str| SessionOrigin::Fork { of: of.into(), after: after.into() };
        let own = || SessionOrigin::New { parent: None };
        let child = || SessionOrigin::New { parent: Some("own".into()) };
        assert_eq!(
            planned,
            [
                ("own", own()),
                ("own#x", fork("own", "a")),
                ("own#y", fork("own#x", "b")),
                ("own#z", own()),
                ("own/agent", child()),
                ("own/agent:2", child()),
            ]
        );
    }

    #[test]
    fn the_same_choice_gives_the_same_id_and_another_choice_another() {
        let id = |source_id: &str, live: bool| {
            let sources = vec![source(source_id, vec![branch("main", 0, None)], Vec::new())];
            let groups = groups(sources, &combination(live), &ImportChoices::default());
            groups[0][0].client_id.clone()
        };
        assert_eq!(id("s", true), id("s", true));
        assert_ne!(id("s", true), id("s", false));
        assert!(id("s", true).starts_with("pi:s:"), "{}", id("s", true));
        assert!(id("", true).starts_with("pi:0123456789abcdef:"), "{}", id("", true));
        assert!(id(&"x".repeat(300), true).len() <= limits::NAME_BYTES_MAX);
    }

    #[test]
    fn metadata_names_the_source() {
        let metadata = |again: Option<&str>| {
            let sources = vec![source("s", vec![branch("main", 0, None)], Vec::new())];
            let chosen = ImportChoices { again: again.map(str::to_owned), ..ImportChoices::default() };
            groups(sources, &combination(true), &chosen)[0][0].metadata_json.clone()
        };
        assert_eq!(
            metadata(None),
            "{\"cwd\":\"/work/parser/\",\"project\":\"parser\",\"source\":{\"format\":\"pi\",\"id\":\"s\",\"file\":\"file.jsonl\",\"branch\":\"main\"},\
             \"preset\":\"opencode@seed\",\"window\":64000,\"output\":null,\"live\":true,\"no_usage\":false}"
        );
        assert_eq!(metadata(Some("T")), metadata(None).replace("false}", "false,\"again\":\"T\"}"));
    }

    #[test]
    fn a_live_replay_keeps_compactions_as_records() {
        let played = turns(vec![entry("a"), compaction("k", None, "a"), entry("b")], false);
        let kinds: Vec<_> =
            played.iter().map(|turn| (turn.message.client_id.as_deref().unwrap_or(""), turn.message.kind())).collect();
        assert_eq!(
            kinds,
            [("a", pb::MessageKind::Normal), ("k", pb::MessageKind::Record), ("b", pb::MessageKind::Normal)]
        );
    }
}
