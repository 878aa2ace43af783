//! Commits of compactions: guarded, and in one transaction with the end of their job.

use super::chain::{self, Digest};
use super::claiming::{history_changed, recheck};
use super::claims::Claim;
use super::codec;
use super::digests;
use super::erased_content::{self, Receipts};
use super::head::{Receipt, SessionKey};
use super::jobs::{Finish, finish, holds};
use super::marks;
use super::receipts::admitted;
use super::statistics;
use super::tx::{MessageInput, Requester, Tx};
use crate::clock::fresh_id;
use crate::engine::{self, Insert, List, values};
use crate::error::{Error, Result};
use crate::model::Revision;
use crate::model::changes::{self, Changes, Row, SummaryChange};
use crate::model::compaction::{CompactionKind, CompactionState, Failure, Level, Outcome, Trigger};
use crate::model::event::EventBody;
use crate::model::ids::{CompactionId, MessageId, PartId};
use crate::model::mark::MarkBody;
use crate::model::message::MessageKind;
use crate::model::part::PartBody;
use crate::model::truncation::Truncation;
use crate::model::usage::ModelWindow;
use crate::telemetry::failpoint;
use std::collections::HashMap;

/// A finished compaction that is to be committed.
#[derive(Clone)]
pub struct Commit {
    /// The claim of its worker.
    pub claim: Claim,
    /// Its changes.
    pub changes: Changes,
    /// Tokens of the view at the base, before the changes.
    pub tokens_before: i64,
    /// Tokens of that view, after the changes.
    pub tokens_after: i64,
    /// Index of the first view message that changed.
    pub first_changed_index: i64,
    /// Tokens of the view from that message on, before the changes.
    pub invalidated_tokens: i64,
    /// Context usage at the base; none if no usage was valid.
    pub usage_before: Option<i64>,
    /// Tokens of every request that no view contains, as known at the base.
    pub overhead_tokens: i64,
    /// The reason for which automatic compactions stop after this one; none if they go on.
    pub stopped: Option<Failure>,
}

/// A finished summary that a client supplies. It is committed at once, without a running job.
#[derive(Clone)]
pub struct SuppliedSummary {
    /// The session.
    pub session: SessionKey,
    /// The caller that supplies it.
    pub caller: Requester,
    /// Refuse if history, marks, policy or window changed after this revision.
    pub expected_revision: Option<Revision>,
    /// The summary and the ranges that it covers.
    pub summary: SummaryChange,
    /// True if no message or call before the tail is still open.
    pub boundary_is_safe: bool,
    /// The last revision that the summary may cover.
    pub until: Revision,
    /// The revision at which the view was measured.
    pub measured_at: Revision,
    /// Tokens of the view before, by the policy's estimate.
    pub tokens_before: i64,
    /// Tokens of the view after, by the same estimate.
    pub tokens_after: i64,
    /// True to refuse a summary that was erased.
    pub keeps_erased: bool,
}

const INSERT_DONE: &str = "insert into job (public_id, session_id, kind, trigger, state, queued, instructions, actor, \
     base_revision, requested_revision, tokens_at_request, \"window\", attempt, lease_epoch, run_at, ended_revision, outcome, \
     create_time, end_time) values (?1, ?2, 2, 4, 3, 0, '', ?3, ?4, ?4, ?5, ?9, 0, 1, ?6, ?7, ?8, ?6, ?6) returning id";
const MESSAGE_ROWS: &str = "select m.public_id, m.id from rarray(?1) wanted \
     join message m on m.public_id = wanted.value";
static PRUNED: Insert =
    Insert::new("pruned (message_id, number, session_id, revision, compaction_id, truncation)", 6, "");

#[cfg(test)]
pub(crate) static INSERTS: [&Insert; 1] = [&PRUNED];

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[INSERT_DONE, MESSAGE_ROWS];

/// The compaction that rows are written for.
struct Subject<'a> {
    key: i64,
    base: Revision,
    compaction: CompactionId,
    kind: CompactionKind,
    trigger: Trigger,
    level: Option<Level>,
    notice: &'a str,
    window_tokens: i64,
}

impl Subject<'_> {
    fn compacted(&self, kind: CompactionKind, outcome: &Outcome) -> EventBody {
        EventBody::Compacted {
            compaction: self.compaction,
            level: self.level,
            notice: self.notice.to_owned(),
            kind,
            trigger: self.trigger,
            outcome: Box::new(outcome.clone()),
            window_tokens: self.window_tokens,
        }
    }
}

/// The result of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The compaction is active.
    Done,
    /// History changed meanwhile; the compaction ended as superseded.
    Superseded,
}

impl Commit {
    /// Commits the compaction if its claim is valid and history before the boundary has not changed.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<CommitOutcome> {
        let key = self.claim.session.0;
        tx.head(key)?;
        holds(tx, &self.claim)?;
        // Archiving ends all jobs of a session, so this refuses only after a bug.
        tx.loaded(key)?.writable()?;
        tx.claims.release(self.claim.job);
        tx.flush()?;
        let caller = Requester::default();
        if let Some(summary) = &self.changes.summary {
            // An erasure of what it quotes has ended the job.
            if !marks::session_marks(tx, key)?.still_applies(self.claim.base, &summary.covered, summary.tail_start) {
                return self.supersede(tx, &caller);
            }
        }
        // Truncations and replays require that the view has not changed since the base.
        let is_in_place = self.changes.summary.is_none() || self.changes.replay.is_some();
        if is_in_place && tx.loaded(key)?.compaction_revision > self.claim.base {
            return self.supersede(tx, &caller);
        }
        let history_revision = tx.loaded(key)?.history_revision;
        let mut changes = self.changes.clone();
        changes.continuation.take_if(|continuation| history_revision > continuation.seen);
        let duration = (tx.now.0 - self.claim.start_time.0).max(0) / 1_000;
        let mut outcome = Outcome {
            tokens_before: self.tokens_before,
            tokens_after: self.tokens_after,
            first_changed_index: self.first_changed_index,
            invalidated_tokens: self.invalidated_tokens,
            usage_before: self.usage_before,
            overhead_tokens: self.overhead_tokens,
            duration_ms: duration,
            stopped: self.stopped.clone(),
            ..Outcome::default()
        };
        let claim = &self.claim;
        failpoint::reach("commit.begun");
        let subject = Subject {
            key,
            base: claim.base,
            compaction: claim.compaction,
            kind: claim.request.kind,
            trigger: claim.request.trigger,
            level: claim.request.level,
            notice: &claim.request.notice,
            window_tokens: claim.window.context,
        };
        let digest = changes.summary.as_mut().and_then(|summary| summary.digest.take());
        let at = write_changes(tx, &caller, &subject, changes, &mut outcome)?;
        digests::keep(tx.conn, (key, claim.job), digest)?;
        failpoint::reach("commit.written");
        let end = Finish {
            job: claim.job,
            epoch: claim.epoch,
            state: CompactionState::Done,
            revision: Some(at),
            outcome: Some(&outcome),
            failure: None,
        };
        finish(tx, key, end)?;
        failpoint::reach("commit.ended");
        let head = tx.loaded(key)?;
        head.compaction_revision = at;
        head.due_during_compaction = false;
        head.mark_due();
        tx.end_mutation(key, &caller, Receipt::default())?;
        Ok(CommitOutcome::Done)
    }

    fn supersede(&self, tx: &mut Tx<'_>, caller: &Requester) -> Result<CommitOutcome> {
        let key = self.claim.session.0;
        let failure = history_changed();
        let revision = tx.next_revision(key)?;
        let end = Finish {
            job: self.claim.job,
            epoch: self.claim.epoch,
            state: CompactionState::Superseded,
            revision: Some(revision),
            outcome: None,
            failure: Some(&failure),
        };
        finish(tx, key, end)?;
        let body = EventBody::CompactionCancelled { compaction: self.claim.compaction, failure };
        tx.event(key, caller, &body, &Digest::default())?;
        // The change of history may have left the view over the threshold: the scheduler evaluates it again.
        let head = tx.loaded(key)?;
        head.set_due(revision);
        tx.end_mutation(key, caller, Receipt::default())?;
        Ok(CommitOutcome::Superseded)
    }
}

/// Writes a compaction's rows, each with its event, in one mutation. Returns the revision of the mark that an undo
/// voids.
fn write_changes(
    tx: &mut Tx<'_>,
    caller: &Requester,
    subject: &Subject<'_>,
    changes: Changes,
    outcome: &mut Outcome,
) -> Result<Revision> {
    let Subject { key, compaction, .. } = *subject;
    outcome.pruned_count = i64::try_from(changes.parts.len()).unwrap_or(i64::MAX);
    outcome.omitted_count = changes.omitted_count;
    outcome.tokens_after += changes.continuation.as_ref().map_or(0, |continuation| continuation.tokens);
    if let Some(summary) = &changes.summary {
        outcome.covered.clone_from(&summary.covered);
        outcome.covered_count = summary.covered_count;
        outcome.tail_start = summary.tail_message;
        outcome.summarizer.clone_from(&summary.summarizer);
        outcome.usage = summary.usage;
        outcome.supplied = summary.supplied;
        outcome.contradictions.clone_from(&summary.contradictions);
        outcome.quoted_until = summary.quoted_until;
    }
    let first = tx.next_revision(key)?;
    let mut pruned = None;
    for row in changes::rows(first, subject.base, compaction, changes) {
        match row {
            Row::Message { kind, role, bodies, metadata_json } => {
                let mut input = MessageInput::derived(role, kind, &bodies);
                input.head.metadata_json = metadata_json;
                let (id, _) = tx.message(key, caller, input)?;
                if kind == MessageKind::Summary {
                    outcome.summary_message = Some(MessageId(id));
                }
            }
            Row::Pruned(mark, parts) => {
                pruned = Some(write_prune(tx, caller, key, compaction, mark, parts)?);
            }
            Row::Compacted(mark) => {
                let mut digest = Digest::default();
                marks::write(tx, &mut digest, key, mark)?;
                return tx.event(key, caller, &subject.compacted(CompactionKind::Summary, outcome), &digest);
            }
        }
    }
    let pruned = pruned.ok_or(Error::Bug("a compaction that changes nothing was committed"))?;
    tx.event(key, caller, &subject.compacted(subject.kind, outcome), &Digest::default())?;
    Ok(pruned)
}

/// Writes a prune mark with its parts, and the event that names them.
fn write_prune(
    tx: &mut Tx<'_>,
    caller: &Requester,
    key: i64,
    compaction: CompactionId,
    mark: MarkBody,
    parts: Vec<(MessageId, PartId, Truncation)>,
) -> Result<Revision> {
    let revision = tx.next_revision(key)?;
    let mut digest = Digest::default();
    let wanted = List::of_bytes(parts.iter().map(|(message, ..)| message.0.as_bytes().as_slice()));
    let mut message_rows = HashMap::new();
    for row in engine::query(MESSAGE_ROWS).bind(wanted).all(tx.conn)? {
        message_rows.insert(MessageId(codec::uuid(row.get(0)?)?), row.get::<i64>(1)?);
    }
    let mut rows = Vec::with_capacity(parts.len());
    for (message, part, truncation) in &parts {
        let row =
            *message_rows.get(message).ok_or_else(|| Error::corrupt("message", format_args!("{message} is gone")))?;
        rows.push((row, part.number(), part, codec::encode_truncation(truncation)));
    }
    // In row order, so that the check, which reads them by index, sees them in the order of the digest.
    rows.sort_unstable();
    for (_, _, part, truncation) in &rows {
        chain::pruned(&mut digest, part.0.as_bytes(), compaction.0.as_bytes(), Some(truncation));
    }
    let values = rows
        .iter()
        .map(|(row, number, _, truncation)| values![*row, *number, key, revision, compaction.0.as_bytes(), truncation]);
    PRUNED.rows(tx.conn, values)?;
    let omitted = match &mark {
        MarkBody::Pruned { omitted, .. } => omitted.clone(),
        _ => Vec::new(),
    };
    marks::write(tx, &mut digest, key, mark)?;
    let ids = parts.iter().map(|(_, part, _)| *part).collect();
    tx.event(key, caller, &EventBody::PartsPruned { compaction, parts: ids, omitted }, &digest)
}

/// Refuses the text of a summary that was erased.
fn refuse_erased(tx: &mut Tx<'_>, key: i64, text: &str) -> Result<()> {
    let salt = tx.secrets.salt();
    let receipts = Receipts::new(salt, tx.loaded(key)?.tenant.clone());
    let digest = codec::digest_of_part(salt, &PartBody::Text(text.to_owned()), None);
    match erased_content::existing_receipts(tx.conn, &[receipts.of_summary(&digest)])?.is_empty() {
        true => Ok(()),
        false => Err(Error::ContentErased),
    }
}

impl SuppliedSummary {
    /// Validates first, then writes: the summary is active when the call returns. None if another compaction was committed
    /// since the view was read: what the summary covers has to be taken from the new view.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<Option<Receipt>> {
        let key = self.session.0;
        if let Some(receipt) = admitted(tx, key, &self.caller, self.expected_revision)? {
            return Ok(Some(receipt));
        }
        if tx.loaded(key)?.compaction_revision > self.measured_at {
            return Ok(None);
        }
        if !self.boundary_is_safe {
            return Err(Error::BoundaryInvalid("an open message or a running call stands before the tail"));
        }
        tx.flush()?;
        if self.summary.tail_start > self.until + 1 {
            return Err(Error::BoundaryInvalid("the tail starts after the message that ends the range"));
        }
        if self.summary.covered.is_empty() {
            return Err(Error::BoundaryInvalid("nothing stands before the tail"));
        }
        if self.keeps_erased {
            refuse_erased(tx, key, &self.summary.text)?;
        }
        tx.admit_in(key, i64::try_from(self.summary.text.len()).unwrap_or(i64::MAX))?;
        let id = CompactionId(fresh_id());
        // The ranges were taken from the newest view, so that is the base of the summary, wherever its range ends.
        let base = tx.loaded(key)?.revision;
        let mut outcome = Outcome {
            tokens_before: self.tokens_before,
            tokens_after: self.tokens_after,
            // The summary comes before everything else.
            invalidated_tokens: self.tokens_before,
            ..Outcome::default()
        };
        let trigger = Trigger::Supplied;
        let subject = Subject {
            key,
            base,
            compaction: id,
            kind: CompactionKind::Summary,
            trigger,
            level: None,
            notice: "",
            window_tokens: 0,
        };
        let mut summary = self.summary.clone();
        let digest = summary.digest.take();
        let changes = Changes { summary: Some(summary), ..Changes::default() };
        let at = write_changes(tx, &self.caller, &subject, changes, &mut outcome)?;
        let job: i64 = engine::scalar(INSERT_DONE)
            .bind(id.0.as_bytes().to_vec())
            .bind(key)
            .bind(&self.caller.actor)
            .bind(base)
            .bind(self.tokens_before)
            .bind(tx.now.0)
            .bind(at)
            .bind(codec::encode_outcome(&outcome))
            // There is no window to compare with.
            .bind(codec::encode_window(&ModelWindow::default()))
            .one(tx.conn)?;
        digests::keep(tx.conn, (key, job), digest)?;
        statistics::add(tx.conn, job, Some(&outcome))?;
        let head = tx.loaded(key)?;
        head.changed(at);
        recheck(tx, key, &self.caller, None)?;
        tx.end_mutation(key, &self.caller, Receipt { ids: vec![id.0], ..Receipt::default() }).map(Some)
    }
}
