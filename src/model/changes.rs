//! The changes that a compaction makes, and the rows that they are written as. The store and simulations write the same
//! rows, so that the same layouts follow from them.

use super::Revision;
use super::compaction::{Contradiction, RevisionRange};
use super::cut::Cut;
use super::ids::{CompactionId, MessageId, PartId};
use super::mark::{CompactedMark, MarkBody, Replay};
use super::message::{MessageKind, Role};
use super::part::{Marker, PartBody};
use super::usage::Usage;

/// The name of the marker in front of a summary.
const MARKER_NAME: &str = "compaction";

/// Everything that a compaction changes; one of the four kinds at least.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// The parts that are shortened, with their messages.
    pub parts: Vec<(MessageId, PartId, Cut)>,
    /// The messages that are left out; sorted and disjoint.
    pub omitted: Vec<RevisionRange>,
    /// The number of those messages.
    pub omitted_count: i64,
    /// The request that is replayed without its media, at that request's position.
    pub replay: Option<ReplayChange>,
    /// The summary in the place of a range.
    pub summary: Option<SummaryChange>,
    /// The message behind the summary that asks the model to go on.
    pub continuation: Option<ContinuationChange>,
}

/// A request that is replayed.
#[derive(Debug, Clone)]
pub struct ReplayChange {
    /// The request's position: that of its original.
    pub target: Revision,
    /// The parts of the replay.
    pub bodies: Vec<PartBody>,
}

/// A message that asks the model to go on.
#[derive(Debug, Clone)]
pub struct ContinuationChange {
    /// Its text.
    pub text: String,
    /// Its estimate in a view, in tokens.
    pub tokens: i64,
    /// The revision at which the turn was seen to be unfinished. When history went on since, nobody is asked to.
    pub seen: Revision,
}

/// A summary in the place of a range.
#[derive(Debug, Clone)]
pub struct SummaryChange {
    /// The summary.
    pub text: String,
    /// The words that introduce it, if the policy has some.
    pub marker_text: Option<String>,
    /// The first message kept verbatim, by its position in the view.
    pub tail_start: Revision,
    /// That message's id, if there is one.
    pub tail_message: Option<MessageId>,
    /// Every message the summary stands for, those of the summaries before it included.
    pub covered: Vec<RevisionRange>,
    /// The number of messages that are covered anew.
    pub covered_count: i64,
    /// Covered messages that the view shows all the same, ascending.
    pub retained: Vec<Revision>,
    /// Whether they stand in front of the summary.
    pub retained_first: bool,
    /// What the summary carries along word for word, as parts behind its text.
    pub attachments: Vec<PartBody>,
    /// The summarizer that wrote it.
    pub summarizer: String,
    /// What it cost.
    pub usage: Option<Usage>,
    /// Whether a client supplied it, instead of a summarizer that was asked.
    pub supplied: bool,
    /// Free JSON that is kept with it, as the metadata of its message.
    pub details_json: Option<String>,
    /// Its claims that the history contradicts.
    pub contradictions: Vec<Contradiction>,
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
        /// Free JSON that is kept with it.
        metadata_json: Option<String>,
    },
    /// The mark of prunes and omissions, with the parts that it shortens.
    Pruned(MarkBody, Vec<(MessageId, PartId, Cut)>),
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
        })));
    }
    rows.rows
}

struct Rows {
    first: Revision,
    rows: Vec<Row>,
}

impl Rows {
    /// Adds a row; its revision.
    fn add(&mut self, row: Row) -> Revision {
        let revision = self.first + i64::try_from(self.rows.len()).unwrap_or(i64::MAX);
        self.rows.push(row);
        revision
    }
}
