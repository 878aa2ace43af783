//! The changes that a compaction makes, and the rows that record them. The store and simulations write the same rows,
//! so that the same layouts follow from them.

use super::Revision;
use super::compaction::{Contradiction, RevisionRange};
use super::ids::{CompactionId, MessageId, PartId};
use super::mark::{CompactedMark, MarkBody, Replay};
use super::message::{MessageKind, Role};
use super::part::{Marker, PartBody};
use super::truncation::Truncation;
use super::usage::Usage;

/// The name of the marker before a summary.
const MARKER_NAME: &str = "compaction";

/// All changes of a compaction; at least one of the four kinds.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// The parts that are shortened, with their messages.
    pub parts: Vec<(MessageId, PartId, Truncation)>,
    /// The omitted messages; sorted and disjoint.
    pub omitted: Vec<RevisionRange>,
    /// The number of those messages.
    pub omitted_count: i64,
    /// The request that is replayed without its media, at that request's position.
    pub replay: Option<ReplayChange>,
    /// The summary in place of a range.
    pub summary: Option<SummaryChange>,
    /// The continuation: the message after the summary that asks the model to go on.
    pub continuation: Option<ContinuationChange>,
}

/// A request that is replayed.
#[derive(Debug, Clone)]
pub struct ReplayChange {
    /// The position of the request: the revision of its original.
    pub target: Revision,
    /// The parts of the replay.
    pub bodies: Vec<PartBody>,
}

/// A continuation: a message that asks the model to go on.
#[derive(Debug, Clone)]
pub struct ContinuationChange {
    /// Its text.
    pub text: String,
    /// Its estimate in a view, in tokens.
    pub tokens: i64,
    /// The revision at which the turn was found unfinished. If history changed since, there is no continuation.
    pub seen: Revision,
}

/// A summary in place of a range.
#[derive(Debug, Clone)]
pub struct SummaryChange {
    /// The summary.
    pub text: String,
    /// The text that introduces it, if the policy has one.
    pub marker_text: Option<String>,
    /// The first message kept verbatim, by its position in the view.
    pub tail_start: Revision,
    /// That message's id, if there is one.
    pub tail_message: Option<MessageId>,
    /// All messages that the summary covers, including those of the summaries before it.
    pub covered: Vec<RevisionRange>,
    /// The number of newly covered messages.
    pub covered_count: i64,
    /// Covered messages that the view shows nevertheless, ascending.
    pub retained: Vec<Revision>,
    /// True if the retained messages come before the summary.
    pub retained_first: bool,
    /// Content that the summary carries verbatim, as parts after its text.
    pub attachments: Vec<PartBody>,
    /// The summarizer that wrote it.
    pub summarizer: String,
    /// Its token usage and cost.
    pub usage: Option<Usage>,
    /// True if a client supplied it, false if a summarizer was asked.
    pub supplied: bool,
    /// Free JSON of the summary, kept as the metadata of its message.
    pub details_json: Option<String>,
    /// Claims of the summary that the history contradicts.
    pub contradictions: Vec<Contradiction>,
    /// The digest of what it covers, packed; no view and no event has it.
    pub digest: Option<Vec<u8>>,
    /// The last revision of the messages behind the covered ones that it may quote; none if it quotes none of them.
    pub quoted_until: Option<Revision>,
    /// The message of each line of people's words that follow it.
    pub said_in: Vec<Revision>,
}

/// A row of a compaction, with a revision of its own.
#[derive(Debug, Clone, PartialEq)]
pub enum Row {
    /// A message that Longhand makes.
    Message {
        /// Its kind.
        kind: MessageKind,
        /// Its role.
        role: Role,
        /// Its parts.
        bodies: Vec<PartBody>,
        /// Free JSON, kept as its metadata.
        metadata_json: Option<String>,
    },
    /// The mark of prunes and omissions, with the parts that it shortens.
    Pruned(MarkBody, Vec<(MessageId, PartId, Truncation)>),
    /// The mark of a summary.
    Compacted(MarkBody),
}

impl Row {
    fn message(kind: MessageKind, role: Role, bodies: Vec<PartBody>) -> Self {
        Self::Message { kind, role, bodies, metadata_json: None }
    }
}

/// The rows of a compaction in their order, the first at the revision `first`. `base` is the revision whose view was
/// compacted.
pub fn rows(first: Revision, base: Revision, compaction: CompactionId, changes: Changes) -> Vec<Row> {
    let Changes { parts, omitted, omitted_count: _, replay, summary, continuation } = changes;
    let mut rows = Rows { first, rows: Vec::new() };
    if !parts.is_empty() || !omitted.is_empty() || replay.is_some() {
        let replay = replay.map(|ReplayChange { target, bodies }| Replay {
            target,
            replacement: rows.add(Row::message(MessageKind::Replay, Role::User, bodies)),
        });
        let part_count = i64::try_from(parts.len()).unwrap_or(i64::MAX);
        rows.add(Row::Pruned(MarkBody::Pruned { compaction, part_count, omitted, replay }, parts));
    }
    if let Some(summary) = summary {
        let marker = summary.marker_text.map(|text| {
            let body = PartBody::Marker(Marker { name: MARKER_NAME.to_owned(), text });
            rows.add(Row::message(MessageKind::Marker, Role::User, vec![body]))
        });
        let text = std::iter::once(PartBody::Text(summary.text));
        let written = rows.add(Row::Message {
            kind: MessageKind::Summary,
            role: Role::Assistant,
            bodies: text.chain(summary.attachments).collect(),
            metadata_json: summary.details_json,
        });
        let continuation = continuation.map(|continuation| {
            let body = PartBody::Text(continuation.text);
            rows.add(Row::message(MessageKind::Continuation, Role::User, vec![body]))
        });
        rows.add(Row::Compacted(MarkBody::Compacted(CompactedMark {
            compaction,
            base,
            covered: summary.covered,
            tail_start: summary.tail_start,
            marker,
            summary: written,
            retained: summary.retained,
            retained_first: summary.retained_first,
            continuation,
            quoted_until: summary.quoted_until,
            said_in: summary.said_in,
        })));
    }
    rows.rows
}

struct Rows {
    first: Revision,
    rows: Vec<Row>,
}

impl Rows {
    /// Adds a row and returns its revision.
    fn add(&mut self, row: Row) -> Revision {
        let revision = self.first + i64::try_from(self.rows.len()).unwrap_or(i64::MAX);
        self.rows.push(row);
        revision
    }
}
