//! A session in memory with all its rows, as a daemon keeps them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use uuid::Uuid;

use crate::model::Revision;
use crate::model::changes::{self, Changes, Row};
use crate::model::compaction::RevisionRange;
use crate::model::ids::{CompactionId, MessageId, PartId, SessionId};
use crate::model::layout::{Layout, Placement, Span};
use crate::model::layouts::{self, Marks};
use crate::model::mark::{Mark, MarkBody};
use crate::model::message::{Finish, FinishReason, GivenView, Message, MessageKind, Role};
use crate::model::part::{Answers, Media, MediaSource, Opaque, Part, PartBody, ResultStatus, ToolCall, ToolResult};
use crate::model::time::Timestamp;
use crate::model::usage::{ModelWindow, Usage};
use crate::model::view::{PrunedPart, SourceMessage, View};
use crate::policy::Policy;
use crate::policy::plan::{self, PlanningInput};

/// A step of a client. The numbers choose among the existing items.
#[derive(Debug, Clone)]
pub(super) enum StoredChange {
    /// A request, optionally with an image.
    Request(Words, bool),
    /// A reply with reasoning and a number of calls.
    Reply(Words, Words, usize),
    /// Results of a number of calls that have none, optionally the newest first and with an image.
    Results(Words, usize, bool, bool),
    /// A reply with a call, its result, and text after it.
    Whole(Words),
    /// A result without a call, or a second result for a call.
    Stray(usize),
    /// Instructions in between.
    System(Words),
    /// An entry that no view shows.
    Record,
    /// A reply that failed.
    Failure(Words),
    /// Begins a reply.
    Open(Words),
    /// Adds a call to an open reply.
    Grow(usize),
    /// Seals an open reply.
    Seal(usize),
    /// Pins a message.
    Pin(usize),
    /// Erases a message, with every summary of it.
    Erase(usize),
    /// Undoes the newest compaction.
    Undo,
    /// A prune by hand.
    Prune,
    /// Applies the highest level by hand.
    ApplyLevel,
    /// Hours without a write.
    Pause,
}

/// A text: a way of writing, and a number of characters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words {
    writing: usize,
    length: usize,
}

impl Words {
    pub(super) fn new(writing: usize, length: usize) -> Self {
        Self { writing, length }
    }

    fn text(self) -> String {
        let sample = match self.writing {
            0 => "the quick brown fox looks at src/main.rs again and ",
            1 => "把配置文件里的超时时间改成三十秒，然后重新运行测试。",
            2 => "\u{1F680}\u{1F9D1}\u{200D}\u{1F4BB}\u{20BB7}e\u{301}\u{1D11E}",
            3 => "error[E0308]: mismatched types\n  --> src/lib.rs:7:5\n\n",
            _ => "{\"path\": \"src/日.rs\", \"lines\": [1, 2]}, \"\\\"\t",
        };
        sample.chars().cycle().take(self.length).collect()
    }
}

fn words() -> impl Strategy<Value = Words> {
    let length = prop_oneof![1 => Just(0_usize), 4 => 1_usize..80, 4 => 80_usize..900, 1 => 900_usize..4_000];
    (0_usize..5, length).prop_map(|(writing, length)| Words { writing, length })
}

/// Any step of a client.
pub(super) fn step() -> impl Strategy<Value = StoredChange> {
    let pick = || 0_usize..1_000;
    let flag = any::<bool>;
    prop_oneof![
        5 => (words(), prop::bool::weighted(0.1)).prop_map(|(words, image)| StoredChange::Request(words, image)),
        6 => (words(), words(), 0_usize..4).prop_map(|(words, thoughts, calls)| StoredChange::Reply(words, thoughts, calls)),
        6 => (words(), 1_usize..4, flag(), prop::bool::weighted(0.1))
            .prop_map(|(words, count, last, image)| StoredChange::Results(words, count, last, image)),
        2 => words().prop_map(StoredChange::Whole),
        1 => pick().prop_map(StoredChange::Stray),
        1 => words().prop_map(StoredChange::System),
        1 => Just(StoredChange::Record),
        1 => words().prop_map(StoredChange::Failure),
        1 => words().prop_map(StoredChange::Open),
        1 => pick().prop_map(StoredChange::Grow),
        2 => pick().prop_map(StoredChange::Seal),
        1 => pick().prop_map(StoredChange::Pin),
        1 => pick().prop_map(StoredChange::Erase),
        1 => Just(StoredChange::Undo),
        1 => Just(StoredChange::Prune),
        1 => Just(StoredChange::ApplyLevel),
        1 => Just(StoredChange::Pause),
    ]
}

/// A provider, by the usage that it reports.
#[derive(Debug, Clone, Copy)]
pub(super) enum Provider {
    /// None at all.
    Silent,
    /// The size of the request, as this percentage of the estimate.
    Honest(i64),
    /// Output alone, as of a stream that broke.
    OutputAlone,
    /// The input that no cache served.
    Partial,
    /// The total of several requests.
    Summed(i64),
    /// The sum of all requests so far.
    Cumulative,
    /// The usage of the first request, again and again.
    Stale,
    /// A number that no window holds.
    Impossible,
    /// Any number.
    Any(i64),
    /// Another of these for each reply.
    Mixed,
}

pub(super) fn provider() -> impl Strategy<Value = Provider> {
    prop_oneof![
        4 => Just(Provider::Silent),
        2 => (50_i64..300).prop_map(Provider::Honest),
        1 => Just(Provider::OutputAlone),
        1 => Just(Provider::Partial),
        1 => (2_i64..6).prop_map(Provider::Summed),
        1 => Just(Provider::Cumulative),
        1 => Just(Provider::Stale),
        1 => Just(Provider::Impossible),
        1 => (0_i64..40_000).prop_map(Provider::Any),
        2 => Just(Provider::Mixed),
    ]
}

impl Provider {
    /// The usage of a request with these tokens. `sum` has those of all requests, and `first` the first report.
    fn usage(self, number: u128, tokens: i64, sum: i64, first: Option<Usage>) -> Option<Usage> {
        let input = |input| Some(Usage { input, output: 5, ..Usage::default() });
        match self {
            Self::Silent => None,
            Self::Honest(percent) => input(tokens * percent / 100),
            Self::OutputAlone => input(0),
            Self::Partial => input(3),
            Self::Summed(requests) => input(tokens * requests),
            Self::Cumulative => Some(Usage { total: Some(sum), ..input(tokens)? }),
            Self::Stale => first.or(input(tokens)),
            Self::Impossible => input(i64::MAX / 2),
            Self::Any(tokens) => input(tokens),
            Self::Mixed => {
                let all = [
                    Self::Honest(100),
                    Self::Silent,
                    Self::Cumulative,
                    Self::OutputAlone,
                    Self::Impossible,
                    Self::Stale,
                    Self::Partial,
                    Self::Any(9_000),
                ];
                all[usize::try_from(number % 8).expect("small")].usage(number, tokens, sum, first)
            }
        }
    }
}

/// The rows of a session, as a daemon keeps them.
pub(super) struct StoredSession {
    pub(super) policy: Policy,
    pub(super) window: ModelWindow,
    /// The text of summaries; none if every summary is refused.
    pub(super) summary: Option<String>,
    /// All written messages, including derived ones, by revision.
    pub(super) messages: BTreeMap<Revision, Message>,
    pub(super) marks: Vec<Mark>,
    /// The parts that prune marks shorten, each with its mark, in their order.
    pruned: Vec<(Revision, PrunedPart)>,
    pub(super) revision: Revision,
    pub(super) now: Timestamp,
    /// Calls without a result.
    calls: Vec<String>,
    ids: u128,
    provider: Provider,
    /// Tokens of all requests so far, and the first report of usage.
    sum: i64,
    first: Option<Usage>,
}

impl StoredSession {
    pub(super) fn new(policy: Policy, window: ModelWindow, summary: Option<String>, provider: Provider) -> Self {
        Self {
            policy,
            window,
            summary,
            messages: BTreeMap::new(),
            marks: Vec::new(),
            pruned: Vec::new(),
            revision: 0,
            now: Timestamp(1_000_000),
            calls: Vec::new(),
            ids: 0,
            provider,
            sum: 0,
            first: None,
        }
    }

    fn id(&mut self) -> Uuid {
        self.ids += 1;
        Uuid::from_u128(self.ids)
    }

    pub(super) fn tick(&mut self) -> Revision {
        self.revision += 1;
        self.now = self.now.plus_millis(10_000);
        self.revision
    }

    /// Writes a message and returns its revision.
    fn write(&mut self, role: Role, kind: MessageKind, bodies: Vec<PartBody>, finish: Option<Finish>) -> Revision {
        let revision = self.tick();
        let parts = bodies.into_iter().map(|body| self.part(revision, body)).collect();
        let message = Message {
            id: MessageId(self.id()),
            session_id: SessionId(Uuid::nil()),
            client_id: None,
            revision,
            role,
            kind,
            parts,
            sealed_revision: finish.is_some().then_some(revision),
            finish: finish.unwrap_or_default(),
            model: String::new(),
            provider: String::new(),
            create_time: self.now,
            origin_time: None,
            actor: String::new(),
            metadata_json: None,
            replaces: None,
        };
        self.messages.insert(revision, message);
        revision
    }

    /// The end of a reply to the present view, with the usage that the provider reports.
    fn replied(&mut self, reason: FinishReason) -> Option<Finish> {
        let tokens = self.current().view.estimated_tokens + self.window.overhead;
        self.sum = self.sum.saturating_add(tokens);
        let usage = self.provider.usage(self.ids, tokens, self.sum, self.first);
        self.first = self.first.or(usage);
        let (revision, window) = (self.revision, self.window.clone());
        let view = usage.map(|_| GivenView { revision, hash: [0; 32], window, shortened: false });
        Some(Finish { reason: Some(reason), usage, view, ..Finish::default() })
    }

    fn part(&mut self, revision: Revision, body: PartBody) -> Part {
        Part { id: PartId(self.id()), client_id: None, revision, body: body.into(), metadata_json: None }
    }

    fn call(&mut self) -> PartBody {
        let number = self.ids;
        let call_id = format!("c{number}");
        let tools = ["bash", "read_file", "edit", "skill", "Read", "run_shell_command", "web"];
        let inputs = [
            format!("{{\"command\": \"cargo test -p crate{number}\"}}"),
            "{\"path\": \"src/配置.rs\", \"file_path\": \"src/a.rs\", \"absolute_path\": \"/b.rs\"}".to_owned(),
            "{}".to_owned(),
            format!("{{\"file_path\": \"a.rs\", \"content\": \"{}\"}}", "x\\u65e5 ".repeat(60)),
            "not json".to_owned(),
        ];
        let tool = tools[number as usize % tools.len()].to_owned();
        let input_json = inputs[number as usize % inputs.len()].clone();
        self.calls.push(call_id.clone());
        PartBody::ToolCall(ToolCall { call_id, tool, input_json, ..ToolCall::default() })
    }

    fn result(&self, call_id: String, words: Words, image: bool) -> PartBody {
        let status = match self.ids % 7 {
            0 => ResultStatus::Error,
            1 => ResultStatus::Interrupted,
            _ => ResultStatus::Completed,
        };
        let attachments = image.then(image_media).into_iter().collect();
        let output = words.text();
        PartBody::ToolResult(ToolResult {
            call_id,
            status,
            output,
            attachments,
            start_time: None,
            end_time: None,
            answers: Answers::Nearest,
        })
    }

    /// Executes a step that is not a compaction. Returns true if anything was written.
    pub(super) fn take(&mut self, step: &StoredChange) -> bool {
        let sealed = || Some(Finish::default());
        let reason = |reason| Some(Finish { reason: Some(reason), ..Finish::default() });
        let normal = MessageKind::Normal;
        match *step {
            StoredChange::Request(words, image) => {
                let mut bodies = vec![PartBody::Text(words.text())];
                bodies.extend(image.then(|| PartBody::Media(image_media())));
                self.write(Role::User, normal, bodies, sealed());
            }
            StoredChange::Reply(words, thoughts, calls) => {
                let mut bodies = vec![PartBody::Reasoning(thoughts.text()), PartBody::Text(words.text())];
                let block = Opaque { provider: "p".into(), kind: "signed".into(), data: vec![7; thoughts.length % 9] };
                bodies.extend((thoughts.length % 5 == 1).then_some(PartBody::Opaque(block)));
                bodies.extend((0..calls).map(|_| {
                    self.ids += 1;
                    self.call()
                }));
                let finish = self.replied(if calls > 0 { FinishReason::ToolCalls } else { FinishReason::Stop });
                self.write(Role::Assistant, normal, bodies, finish);
            }
            StoredChange::Results(words, count, last_first, image) => {
                let count = count.min(self.calls.len());
                if count == 0 {
                    return false;
                }
                let from = if last_first { self.calls.len() - count } else { 0 };
                let taken: Vec<String> = self.calls.drain(from..from + count).collect();
                let bodies = taken.into_iter().map(|call| self.result(call, words, image)).collect();
                self.write(Role::Tool, normal, bodies, sealed());
            }
            StoredChange::Whole(words) => {
                let call = self.call();
                let call_id = self.calls.pop().unwrap_or_default();
                let result = self.result(call_id, words, false);
                let bodies = vec![call, result, PartBody::Text("so be it".to_owned())];
                let finish = self.replied(FinishReason::Stop);
                self.write(Role::Assistant, normal, bodies, finish);
            }
            StoredChange::Stray(number) => {
                let result = self.result(format!("c{number}"), Words { writing: 0, length: 40 }, false);
                self.write(Role::Tool, normal, vec![result], sealed());
            }
            StoredChange::System(words) => {
                self.write(Role::System, normal, vec![PartBody::Text(words.text())], sealed());
            }
            StoredChange::Record => {
                self.write(Role::System, MessageKind::Record, Vec::new(), sealed());
            }
            StoredChange::Failure(words) => {
                let bodies = vec![PartBody::Text(words.text())];
                self.write(Role::Assistant, normal, bodies, reason(FinishReason::Error));
            }
            StoredChange::Open(words) => {
                self.write(Role::Assistant, normal, vec![PartBody::Text(words.text())], None);
            }
            StoredChange::Grow(number) => {
                let Some(open) = self.open(number) else { return false };
                let revision = self.tick();
                let call = self.call();
                let part = self.part(revision, call);
                self.messages.entry(open).and_modify(|message| message.parts.push(part));
            }
            StoredChange::Seal(number) => {
                let Some(open) = self.open(number) else { return false };
                let revision = self.tick();
                let finish = Finish { reason: Some(FinishReason::Stop), ..Finish::default() };
                let seal = |message: &mut Message| {
                    (message.sealed_revision, message.finish) = (Some(revision), finish.clone());
                };
                self.messages.entry(open).and_modify(seal);
            }
            StoredChange::Pin(number) => {
                // A message that is hidden or shortened comes back by an undo and not by a pin.
                let is_whole =
                    |source: &&SourceMessage| source.message.kind == MessageKind::Normal && source.pruned.is_empty();
                let whole: Vec<Revision> =
                    self.current().sources.iter().filter(is_whole).map(|source| source.message.revision).collect();
                let Some(&target) = number.checked_rem(whole.len()).and_then(|index| whole.get(index)) else {
                    return false;
                };
                self.mark(MarkBody::Pinned { target });
            }
            StoredChange::Erase(number) => {
                let sealed = self.originals().filter(|message| message.sealed_revision.is_some());
                let sealed: Vec<Revision> = sealed.map(|message| message.revision).collect();
                let Some(&target) = number.checked_rem(sealed.len()).and_then(|index| sealed.get(index)) else {
                    return false;
                };
                self.erase(target);
            }
            StoredChange::Undo => {
                let Some(found) = Marks::at(&self.marks, self.revision).newest_change() else { return false };
                self.mark(MarkBody::Undone { mark: found.target });
                return false;
            }
            StoredChange::Pause => {
                self.now = self.now.plus_millis(3 * 3_600_000);
            }
            StoredChange::Prune | StoredChange::ApplyLevel => return false,
        }
        true
    }

    /// Erases a message as the store does: with what replaced it and with every summary of it.
    fn erase(&mut self, target: Revision) {
        let mut erased = BTreeSet::from([target]);
        for mark in &self.marks {
            match &mark.body {
                MarkBody::Compacted(compacted) => {
                    let quoted = compacted.quoted_until.map(|last| RevisionRange { first: compacted.tail_start, last });
                    let mut read = compacted.covered.iter().chain(&quoted);
                    let covers = read.any(|range| erased.iter().any(|at| range.contains(*at)));
                    erased.extend(covers.then_some(compacted.summary));
                }
                body => erased.extend(
                    body.replaced().filter(|(target, _)| erased.contains(target)).map(|(_, replacement)| replacement),
                ),
            }
        }
        for revision in &erased {
            let erase = |message: &mut Message| {
                for part in &mut message.parts {
                    (part.body, part.metadata_json) = (part.body.erased().into(), None);
                }
                message.metadata_json = None;
            };
            self.messages.entry(*revision).and_modify(erase);
        }
        let ranges = erased.into_iter().map(|revision| RevisionRange { first: revision, last: revision }).collect();
        self.mark(MarkBody::Erased { ranges });
    }

    /// An open message, by its index.
    fn open(&self, number: usize) -> Option<Revision> {
        let open: Vec<Revision> = self
            .originals()
            .filter(|message| message.sealed_revision.is_none())
            .map(|message| message.revision)
            .collect();
        open.get(number.checked_rem(open.len())?).copied()
    }

    /// The messages of clients that a view should account for.
    pub(super) fn originals(&self) -> impl Iterator<Item = &Message> {
        self.messages.values().filter(|message| message.kind == MessageKind::Normal)
    }

    pub(super) fn mark(&mut self, body: MarkBody) {
        let revision = self.tick();
        self.marks.push(Mark { revision, body });
    }

    /// The newest change of the view by a mark; 0 without one.
    pub(super) fn changed_revision(&self) -> Revision {
        self.marks.last().map_or(0, |mark| mark.revision)
    }

    /// The newest change that was not a compaction, and the newest undo without a later message of the user.
    pub(super) fn changes(&self) -> (Revision, Option<Revision>) {
        let newest = |is_wanted: fn(&MarkBody) -> bool| {
            self.marks.iter().rev().find(|mark| is_wanted(&mark.body)).map(|mark| mark.revision)
        };
        let changed = newest(|body| !matches!(body, MarkBody::Pruned { .. } | MarkBody::Compacted(_)));
        let spoken =
            self.originals().filter(|message| message.role == Role::User).map(|message| message.revision).max();
        let undone = newest(|body| matches!(body, MarkBody::Undone { .. }));
        (changed.unwrap_or(0), undone.filter(|undone| spoken.is_none_or(|spoken| spoken < *undone)))
    }

    /// The view at a revision under some marks, with its inputs.
    pub(super) fn snapshot(&self, marks: &[Mark], at: Revision) -> Snapshot {
        let layout = layouts::layout_at(marks, at);
        let is_made = |mark: &Mark| mark.revision <= at && layout.undone_prunes.binary_search(&mark.revision).is_err();
        let prunes: BTreeSet<Revision> = marks.iter().filter(|mark| is_made(mark)).map(|mark| mark.revision).collect();
        let mut sources = Vec::new();
        for span in &layout.spans {
            match *span {
                Span::Inline { first, last } => {
                    let last = last.unwrap_or(Revision::MAX).min(at);
                    let within = self.messages.values().filter(|message| (first..=last).contains(&message.revision));
                    let inline = within.filter(|message| message.kind.is_inline());
                    sources.extend(inline.map(|message| self.source(&prunes, message, None, at)));
                }
                Span::Placed { revision, placement } => {
                    sources.push(self.source(&prunes, &self.messages[&revision], Some(placement), at));
                }
            }
        }
        let view = plan::view(&self.policy, &sources);
        Snapshot { at, layout, sources, view }
    }

    /// The newest view.
    pub(super) fn current(&self) -> Snapshot {
        self.snapshot(&self.marks, self.revision)
    }

    /// A message as it was at a revision, with the effect of the prunes that were active then.
    fn source(
        &self,
        prunes: &BTreeSet<Revision>,
        message: &Message,
        placement: Option<Placement>,
        at: Revision,
    ) -> SourceMessage {
        let mut message = message.clone();
        message.parts.retain(|part| part.revision <= at);
        if message.sealed_revision.is_some_and(|sealed| sealed > at) {
            (message.sealed_revision, message.finish) = (None, Finish::default());
        }
        let newest = |part: &Part| {
            self.pruned.iter().rev().find(|(mark, pruned)| pruned.part == part.id && prunes.contains(mark))
        };
        let pruned = message.parts.iter().filter_map(newest).map(|(_, pruned)| pruned.clone()).collect();
        SourceMessage { message: message.into(), placement, pruned, counts: None }
    }

    pub(super) fn planning<'a>(&'a self, snapshot: &'a Snapshot) -> PlanningInput<'a> {
        PlanningInput {
            policy: &self.policy,
            window: &self.window,
            layout: &snapshot.layout,
            sources: &snapshot.sources,
            covered: &[],
            base: snapshot.at,
            now: self.now,
        }
    }

    /// Commits a compaction: the rows that the store writes.
    pub(super) fn commit(&mut self, snapshot: &Snapshot, changes: Changes) {
        let compaction = CompactionId(self.id());
        if let Some(summary) = &changes.summary {
            let (covered, tail_start) = (&summary.covered, summary.tail_start);
            let marks = Marks::at(&self.marks, self.revision);
            assert!(marks.still_applies(snapshot.at, covered, tail_start));
        }
        for row in changes::rows(self.revision + 1, snapshot.at, compaction, changes) {
            match row {
                Row::Message { kind, role, bodies, metadata_json: _ } => {
                    self.write(role, kind, bodies, Some(Finish::default()));
                }
                Row::Pruned(body, parts) => {
                    self.mark(body);
                    let mark = self.revision;
                    let pruned =
                        |(_, part, truncation)| (mark, PrunedPart { part, compaction, truncation: Some(truncation) });
                    self.pruned.extend(parts.into_iter().map(pruned));
                }
                Row::Compacted(body) => self.mark(body),
            }
        }
    }
}

/// A view with its inputs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Snapshot {
    pub(super) at: Revision,
    pub(super) layout: Layout,
    pub(super) sources: Vec<SourceMessage>,
    pub(super) view: View,
}

fn image_media() -> Media {
    Media { mime_type: "image/png".into(), name: "图.png".into(), source: MediaSource::Bytes(vec![1; 60]) }
}
