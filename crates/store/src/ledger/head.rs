//! Heads: the newest state of sessions, in the writer's memory and in the `session` row.

use super::codec::{self, Number};
use super::visibility::Location;
use crate::engine::Reader;
use crate::engine::{self, Connection, Parameter, Row, values};
use crate::error::{Error, Kind, Result};
use crate::limits;
use crate::model::ids::{CompactionId, MessageId, RunId, SessionId};
use crate::model::message::GivenView;
use crate::model::run::Epoch;
pub use crate::model::session::SessionKey;
use crate::model::session::{ContextSize, Guards, OriginTimes, OverWindowReason, SessionState, WakeCondition};
use crate::model::time::Timestamp;
use crate::model::usage::{ModelWindow, UsageTotals};
use crate::model::{Revision, Seq};
use crate::secrets::Hit;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

/// Pending work that may still change a session's view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PendingWork {
    /// True if a compaction is due and not yet requested.
    pub is_due: bool,
    /// The compaction that waits or runs.
    pub compaction: Option<CompactionId>,
}

/// The fields of an open message that appends need.
#[derive(Debug, Clone)]
pub(crate) struct OpenMessage {
    pub(crate) row: i64,
    /// Its position.
    pub(crate) revision: Revision,
    /// The writer of its calls.
    pub(crate) writer: String,
    /// The run that writes it; none without one.
    pub(crate) epoch: Option<Epoch>,
    pub(crate) next_position: i64,
    /// The number of its next part or draft, see `PartId::number`.
    pub(crate) next_number: u16,
    /// Bytes of its parts so far, without drafts.
    pub(crate) bytes: i64,
    /// Milliseconds without a write after which it is sealed.
    pub(crate) timeout_ms: i64,
}

/// The run that is active in a session, as far as its row does not change with every renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ActiveRun {
    pub(crate) id: RunId,
    pub(crate) epoch: Epoch,
    pub(crate) actor: String,
    pub(crate) start_revision: Revision,
    /// True once it was asked to stop.
    pub(crate) is_cancelled: bool,
}

/// The conditions that make a session due, from its newest decision. A session without a decision is due with its first
/// message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wake {
    /// The growth of the history, since the session was made, at which it is due; none if no growth makes it due.
    pub(crate) bytes: Option<i64>,
    /// True if the end of a reply makes it due.
    pub(crate) on_reply: bool,
    /// True if a message of the user makes it due.
    pub(crate) on_request: bool,
    /// The time at which it is due.
    pub(crate) time: Option<Timestamp>,
}

/// The newest state of a session.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) key: i64,
    pub(crate) id: SessionId,
    pub(crate) tenant: Arc<str>,
    pub(crate) fork_revision: Option<Revision>,
    title: String,
    /// True if title and metadata are to be written: their indexes are touched only then.
    is_described_anew: bool,
    pub(crate) state: SessionState,
    metadata_json: Option<String>,
    pub(crate) window: ModelWindow,
    pub(crate) revision: Revision,
    pub(crate) history_revision: Revision,
    pub(crate) compaction_revision: Revision,
    pub(crate) chain_hash: [u8; 32],
    pub(crate) message_count: i64,
    pub(crate) usage: UsageTotals,
    /// When its messages were written elsewhere.
    pub(crate) origin: Option<OriginTimes>,
    pub(crate) update_time: Timestamp,
    /// The context usage of the newest decision.
    pub(crate) context: Option<ContextSize>,
    /// The newest reply that reported usage, as far as this process knows.
    pub(crate) usage_revision: Revision,
    /// Growth of the history since the session was made.
    pub(crate) appended_bytes: i64,
    /// Bytes of its own content, for its tenant's quota.
    pub(crate) content_bytes: i64,
    pub(crate) due_revision: Option<Revision>,
    /// The time since which it is due; kept consistent with the mark when the head is written.
    pub(crate) due_time: Option<Timestamp>,
    /// True if it became due while a compaction was current. On disk this is a due time without a due mark.
    pub(crate) due_during_compaction: bool,
    /// The guards of the newest decision, for status requests. An event that may end a guard makes the session due, and
    /// the next decision evaluates the guards again.
    pub(crate) guards: Guards,
    /// The newest change of history, policy or window that was not a compaction: compactions that ended before it do
    /// not count for guards.
    pub(crate) guard_revision: Revision,
    /// The newest undo, until the next message of the user or its redo.
    pub(crate) undo_revision: Option<Revision>,
    /// The conditions that make the session due.
    pub(crate) wake: Wake,
    pub(crate) current_job: Option<CompactionId>,
    pub(crate) run: Option<ActiveRun>,
    /// The reason for which the view exceeds its window, by the newest decision or by what its compaction did since.
    pub(crate) over_window: Option<OverWindowReason>,
    pub(crate) open: HashMap<Uuid, OpenMessage>,
    /// The period of its last change, as its row has it.
    period: i64,
    /// True if the row does not have it yet.
    is_moved: bool,
    /// What its row has of decisions.
    saved: Option<Decided>,
    /// True if that is as here: then an append need not write it again.
    is_as_decided: bool,
}

/// What decisions and settings make of a session: most appends change none of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Decided {
    state: SessionState,
    window: ModelWindow,
    compaction_revision: Revision,
    context: Option<ContextSize>,
    due: (Option<Revision>, Option<Timestamp>),
    guards: Guards,
    guard_revision: Revision,
    undo_revision: Option<Revision>,
    wake: Wake,
    over_window: Option<OverWindowReason>,
}

const SELECT: &str = "select id, public_id, tenant, fork_revision, title, state, metadata_json, \"window\", revision, \
     history_revision, compaction_revision, chain_hash, message_count, update_time, context_tokens, \
     context_revision, appended_bytes, due_revision, due_time, failures, hold_turns, hold_breaker, cooldown_end, \
     overhead_tokens, guard_revision, undo_revision, wake_bytes, wake_on_reply, wake_on_request, wake_time, \
     over_window, content_bytes, usage, origin_start_time, origin_end_time, update_period from session where id = ?1";
const SELECT_OPEN: &str = "select m.id, m.public_id, m.revision, m.head, \
     (select count(*) from part p where p.message_id = m.id), o.timeout_ms, \
     coalesce((select max(p.number) from part p where p.message_id = m.id), 0), \
     coalesce((select max(d.number) from draft d where d.message_id = m.id), 0) \
     from message m left join open_message o on o.message_id = m.id where m.session_id = ?1 and m.sealed_revision is null";
const SELECT_CURRENT_JOB: &str = "select public_id from job where session_id = ?1 and state in (1, 2) and queued = 0";
const SELECT_RUN: &str = "select public_id, epoch, actor, start_revision, cancel_revision is not null from run \
     where session_id = ?1 and end_reason is null";
const UPDATE: &str = "update session set usage = ?2, state = ?3, \"window\" = ?4, revision = ?5, \
     history_revision = ?6, compaction_revision = ?7, chain_hash = ?8, message_count = ?9, update_time = \
     ?10, context_tokens = ?11, context_revision = ?12, appended_bytes = ?13, due_revision = ?14, \
     due_time = ?15, failures = ?16, hold_turns = ?17, hold_breaker = ?18, cooldown_end = ?19, \
     overhead_tokens = ?20, guard_revision = ?21, undo_revision = ?22, wake_bytes = ?23, wake_on_reply = \
     ?24, wake_on_request = ?25, wake_time = ?26, over_window = ?27, content_bytes = ?28, \
     origin_start_time = ?29, origin_end_time = ?30 where id = ?1";
/// The columns that an append changes. SQLite prepares and looks after only those that a statement names.
const ADVANCE: &str = "update session set usage = ?2, revision = ?3, history_revision = ?4, chain_hash = ?5, \
     message_count = ?6, update_time = ?7, appended_bytes = ?8, content_bytes = ?9, origin_start_time = ?10, \
     origin_end_time = ?11 where id = ?1";
/// For the lists by last change, whose index an append would write otherwise.
const MOVE: &str = "update session set update_period = ?2 where id = ?1";
const DESCRIBE: &str = "update session set title = ?2, metadata_json = ?3, project = ?4, directory = ?5 where id = ?1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] =
    &[SELECT, SELECT_OPEN, SELECT_CURRENT_JOB, SELECT_RUN, UPDATE, ADVANCE, MOVE, DESCRIBE];

/// Writes heads to their rows.
pub(crate) fn save<'h>(conn: &Connection, heads: impl Iterator<Item = &'h Head>) -> Result<()> {
    let heads: Vec<&Head> = heads.collect();
    let moved = heads.iter().filter(|head| head.is_moved).map(|head| values![head.key, head.period]);
    engine::run_for_each(conn, MOVE, moved.collect())?;
    let (advanced, decided): (Vec<&Head>, Vec<&Head>) = heads.into_iter().partition(|head| head.is_as_decided);
    engine::run_for_each(conn, ADVANCE, advanced.into_iter().map(Head::advanced_columns).collect())?;
    engine::run_for_each(conn, UPDATE, decided.into_iter().map(Head::columns).collect())
}

impl Head {
    /// Reads a head from its row.
    pub(crate) fn load(conn: &Connection, key: i64) -> Result<Self> {
        let row =
            engine::query(SELECT).bind(key).optional(conn)?.ok_or_else(|| Error::not_found(Kind::Session, key))?;
        let hash: Vec<u8> = row.get("chain_hash")?;
        let mut open = HashMap::new();
        for row in engine::query(SELECT_OPEN).bind(key).all(conn)? {
            let message = row.get(0)?;
            let bytes = super::messages::bytes_of(&mut Reader::new(conn), key, message)?;
            let columns = codec::decode_message_head(row.get(3)?)?;
            let message = OpenMessage {
                row: message,
                revision: row.get(2)?,
                writer: columns.actor,
                epoch: columns.epoch,
                next_position: row.get(4)?,
                next_number: row.get::<u16>(6)?.max(row.get(7)?).saturating_add(1),
                bytes,
                timeout_ms: row.get::<Option<i64>>(5)?.unwrap_or(limits::OPEN_TIMEOUT_MS_DEFAULT),
            };
            open.insert(codec::uuid(row.get(1)?)?, message);
        }
        let due_revision: Option<Revision> = row.get("due_revision")?;
        let due_time = row.get::<Option<i64>>("due_time")?.map(Timestamp);
        let job: Option<Vec<u8>> = engine::scalar(SELECT_CURRENT_JOB).bind(key).optional(conn)?;
        let mut head = Self {
            key,
            id: SessionId(codec::uuid(row.get("public_id")?)?),
            tenant: row.get::<&str>("tenant")?.into(),
            fork_revision: row.get("fork_revision")?,
            title: row.get("title")?,
            is_described_anew: false,
            state: SessionState::from_number(row.get("state")?)?,
            metadata_json: row.get("metadata_json")?,
            window: codec::decode_window(row.get("window")?)?,
            revision: row.get("revision")?,
            history_revision: row.get("history_revision")?,
            compaction_revision: row.get("compaction_revision")?,
            chain_hash: hash.try_into().map_err(|_| Error::corrupt("session", "chain_hash is not 32 bytes"))?,
            message_count: row.get("message_count")?,
            usage: usage_totals(&row)?,
            origin: origin_times(&row)?,
            update_time: Timestamp(row.get("update_time")?),
            context: context(&row)?,
            usage_revision: row.get("revision")?,
            appended_bytes: row.get("appended_bytes")?,
            content_bytes: row.get("content_bytes")?,
            due_revision,
            due_time,
            due_during_compaction: due_revision.is_none() && due_time.is_some(),
            guards: guards(&row)?,
            guard_revision: row.get("guard_revision")?,
            undo_revision: row.get("undo_revision")?,
            wake: Wake {
                bytes: row.get("wake_bytes")?,
                on_reply: row.get("wake_on_reply")?,
                on_request: row.get("wake_on_request")?,
                time: row.get::<Option<i64>>("wake_time")?.map(Timestamp),
            },
            over_window: row.get::<Option<i32>>("over_window")?.map(OverWindowReason::from_number).transpose()?,
            current_job: job.map(|id| codec::uuid(&id).map(CompactionId)).transpose()?,
            run: active_run(conn, key)?,
            open,
            period: row.get("update_period")?,
            is_moved: false,
            saved: None,
            is_as_decided: true,
        };
        head.saved = Some(head.decided());
        Ok(head)
    }

    /// The period in which it changed last.
    fn update_period(&self) -> i64 {
        self.update_time.0.div_euclid(limits::UPDATE_PERIOD_MICROS)
    }

    fn decided(&self) -> Decided {
        Decided {
            state: self.state,
            window: self.window.clone(),
            compaction_revision: self.compaction_revision,
            context: self.context,
            due: (self.due_revision, self.due_time),
            guards: self.guards,
            guard_revision: self.guard_revision,
            undo_revision: self.undo_revision,
            wake: self.wake,
            over_window: self.over_window,
        }
    }

    /// Prepares it to be written to its row: a due session has a due time, and title and metadata are written at once.
    pub(crate) fn settle(&mut self, conn: &Connection, now: Timestamp) -> Result<()> {
        let is_due = self.due_revision.is_some() || self.due_during_compaction;
        self.due_time = is_due.then(|| self.due_time.unwrap_or(now));
        let decided = Some(self.decided());
        self.is_as_decided = self.saved == decided;
        self.saved = decided;
        let period = self.update_period();
        self.is_moved = period != self.period;
        self.period = period;
        self.describe(conn)
    }

    /// Writes what is seldom changed to the row.
    fn describe(&mut self, conn: &Connection) -> Result<()> {
        if std::mem::take(&mut self.is_described_anew) {
            let Location { project, directory } = Location::from_metadata(self.metadata_json.as_deref());
            let query = engine::query(DESCRIBE).bind(self.key).bind(&self.title).bind(self.metadata_json.as_deref());
            query.bind(project).bind(directory).run(conn)?;
        }
        Ok(())
    }

    /// The values of `ADVANCE`.
    fn advanced_columns(&self) -> Vec<Parameter<'_>> {
        values![
            self.key,
            codec::encode_usage_totals(&self.usage),
            self.revision,
            self.history_revision,
            &self.chain_hash,
            self.message_count,
            self.update_time.0,
            self.appended_bytes,
            self.content_bytes,
            self.origin.map(|times| times.start.0),
            self.origin.map(|times| times.end.0),
        ]
    }

    /// The values of `UPDATE`.
    pub(crate) fn columns(&self) -> Vec<Parameter<'_>> {
        values![
            self.key,
            codec::encode_usage_totals(&self.usage),
            self.state.number(),
            codec::encode_window(&self.window),
            self.revision,
            self.history_revision,
            self.compaction_revision,
            &self.chain_hash,
            self.message_count,
            self.update_time.0,
            self.context.map(|context| context.tokens),
            self.context.map(|context| context.revision),
            self.appended_bytes,
            self.due_revision,
            self.due_time.map(|since| since.0),
            self.guards.failure_count,
            self.guards.hold_turns,
            self.guards.breaker_open,
            self.guards.cooldown_end.map(|until| until.0),
            self.guards.overhead_tokens,
            self.guard_revision,
            self.undo_revision,
            self.wake.bytes,
            self.wake.on_reply,
            self.wake.on_request,
            self.wake.time.map(|time| time.0),
            self.over_window.map(OverWindowReason::number),
            self.content_bytes,
            self.origin.map(|times| times.start.0),
            self.origin.map(|times| times.end.0),
        ]
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    pub(crate) fn retitle(&mut self, title: &str) {
        title.clone_into(&mut self.title);
        self.is_described_anew = true;
    }

    pub(crate) fn metadata_json(&self) -> Option<&str> {
        self.metadata_json.as_deref()
    }

    pub(crate) fn set_metadata(&mut self, metadata_json: &str) {
        self.metadata_json = Some(metadata_json.to_owned());
        self.is_described_anew = true;
    }

    /// Refuses writes to an archived session, and to an erased one.
    pub(crate) fn writable(&self) -> Result<()> {
        match self.state {
            SessionState::Active => Ok(()),
            SessionState::Archived => Err(Error::Archived),
            SessionState::Erased => Err(Error::SessionErased),
        }
    }

    /// Refuses a write on behalf of a run that is not the active one.
    pub(crate) fn fence(&self, epoch: Option<Epoch>) -> Result<()> {
        let current = self.run.as_ref().map(|run| run.epoch);
        match epoch {
            Some(epoch) if current != Some(epoch) => Err(Error::RunLost { epoch, current }),
            _ => Ok(()),
        }
    }

    /// Refuses if history, marks, policy or window changed after `expected`.
    pub(crate) fn expect(&self, expected: Option<Revision>) -> Result<()> {
        match expected {
            Some(expected) if expected > self.revision => {
                Err(Error::RevisionOutOfRange { revision: expected, newest: self.revision })
            }
            Some(expected) if self.history_revision > expected => {
                Err(Error::RevisionMismatch { expected, current: self.history_revision })
            }
            _ => Ok(()),
        }
    }

    /// Refuses a token of a view newer than this store's state: the store was restored, or the token is forged.
    pub(crate) fn check_view(&self, view: Option<&GivenView>) -> Result<()> {
        match view {
            Some(view) if !(0..=self.revision).contains(&view.revision) => {
                Err(Error::ViewTokenInvalid { revision: view.revision, newest: self.revision })
            }
            _ => Ok(()),
        }
    }

    /// Adds growth of the history. The session becomes due once it reaches the growth of its wake condition.
    pub(crate) fn on_growth(&mut self, bytes: i64) {
        self.appended_bytes += bytes;
        if self.wake.bytes.is_some_and(|wake| self.appended_bytes >= wake) {
            self.mark_due();
        }
    }

    /// Records a change of history, policy or window: earlier compactions no longer count for guards, and the scheduler
    /// decides again.
    pub(crate) fn changed(&mut self, at: Revision) {
        self.compaction_revision = at;
        self.guard_revision = at;
        self.set_due(at);
    }

    /// Sets the due mark. A decision during a current compaction requests nothing, and is repeated if that ends without
    /// effect. The scheduler decides about an archived session when it is restored.
    pub(crate) fn mark_due(&mut self) {
        if self.state == SessionState::Active {
            self.due_revision = Some(self.revision);
        }
    }

    /// The number of the next part or draft of an open message.
    pub(crate) fn next_number(&self, message: MessageId) -> Result<u16> {
        self.open.get(&message.0).map(|open| open.next_number).ok_or(Error::MessageSealed)
    }

    /// Sets the number of the next part or draft of an open message.
    pub(crate) fn set_next_number(&mut self, message: MessageId, number: u16) {
        if let Some(open) = self.open.get_mut(&message.0) {
            open.next_number = number;
        }
    }

    /// Records a message of the user, which ends the hold after an undo and may end the breaker's.
    pub(crate) fn on_user_message(&mut self) {
        self.undo_revision = None;
        if self.wake.on_request {
            self.mark_due();
        }
    }

    /// Records the end of a reply. Its usage may show that the context is larger, or the overhead smaller, than
    /// estimated.
    pub(crate) fn on_reply(&mut self, reports_usage: bool) {
        if reports_usage {
            self.usage_revision = self.revision;
        }
        if self.wake.on_reply || (reports_usage && self.wake.bytes.is_some()) {
            self.mark_due();
        }
    }

    /// After a compaction ended without effect, requests the decision that became due while it was current.
    pub(crate) fn ended(&mut self) {
        if self.current_job.is_none() && std::mem::take(&mut self.due_during_compaction) && self.due_revision.is_none()
        {
            self.due_revision = Some(self.revision);
            // It queues after the sessions that wait already.
            self.due_time = None;
        }
    }

    /// Sets the wake condition of a decision that was made at the revision `at`, when `appended_bytes` had been
    /// appended.
    pub(crate) fn wait_for(&mut self, condition: WakeCondition, at: Revision, appended_bytes: i64) {
        let WakeCondition { growth_bytes, on_reply, on_request, time } = condition;
        let bytes = growth_bytes.map(|growth| appended_bytes.saturating_add(growth));
        self.wake = Wake { bytes, on_reply, on_request, time };
        // Changes after the decision were not compared with this condition.
        let has_grown = bytes.is_some_and(|bytes| self.appended_bytes >= bytes);
        let has_reported = bytes.is_some() && self.usage_revision > at;
        if has_grown || has_reported || (self.revision > at && (on_reply || on_request)) {
            self.mark_due();
        }
    }

    /// Sets the due mark if the wake time has come.
    pub(crate) fn woken(&mut self, now: Timestamp) {
        if self.wake.time.is_some_and(|time| time <= now) {
            self.wake.time = None;
            self.mark_due();
        }
    }

    /// Removes the due mark of a session that is archived: the scheduler does not evaluate it until it is restored.
    pub(crate) fn clear_due(&mut self) {
        self.due_revision = None;
        self.due_during_compaction = false;
    }

    /// Sets the due mark after a change of the view, so that the scheduler evaluates it again.
    pub(crate) fn set_due(&mut self, at: Revision) {
        self.due_revision = Some(at);
    }

    /// Pending changes of the view.
    pub(crate) fn pending(&self) -> PendingWork {
        PendingWork { is_due: self.due_revision.is_some(), compaction: self.current_job }
    }
}

/// The run that is active in a session, for its head.
fn active_run(conn: &Connection, key: i64) -> Result<Option<ActiveRun>> {
    let Some(row) = engine::query(SELECT_RUN).bind(key).optional(conn)? else { return Ok(None) };
    Ok(Some(ActiveRun {
        id: RunId(codec::uuid(row.get(0)?)?),
        epoch: row.get(1)?,
        actor: row.get(2)?,
        start_revision: row.get(3)?,
        is_cancelled: row.get(4)?,
    }))
}

/// The compaction of a session that waits or runs.
pub(crate) fn current_job(reader: &mut Reader<'_>, key: i64) -> Result<Option<CompactionId>> {
    let row = reader.one(engine::query(SELECT_CURRENT_JOB).bind(key))?;
    row.map(|row| codec::uuid(row.get(0)?).map(CompactionId)).transpose()
}

/// The context usage of the newest decision, from a session's row.
pub(crate) fn context(row: &Row) -> Result<Option<ContextSize>> {
    let (tokens, revision) = (row.get("context_tokens")?, row.get("context_revision")?);
    let tokens: Option<i64> = tokens;
    Ok(tokens.zip(revision).map(|(tokens, revision)| ContextSize { tokens, revision }))
}

/// When the messages of a session were written elsewhere, from its row.
pub(crate) fn origin_times(row: &Row) -> Result<Option<OriginTimes>> {
    let time = |column| Ok::<_, Error>(row.get::<Option<i64>>(column)?.map(Timestamp));
    match (time("origin_start_time")?, time("origin_end_time")?) {
        (Some(start), Some(end)) => Ok(Some(OriginTimes { start, end })),
        (None, None) => Ok(None),
        _ => Err(Error::corrupt("session", "it has one of two origin times")),
    }
}

/// The usage of a session's replies, from its row.
pub(crate) fn usage_totals(row: &Row) -> Result<UsageTotals> {
    let bytes: Option<&[u8]> = row.get("usage")?;
    bytes.map_or_else(|| Ok(UsageTotals::default()), codec::decode_usage_totals)
}

/// The guards of the newest decision, from a session's row.
pub(crate) fn guards(row: &Row) -> Result<Guards> {
    Ok(Guards {
        failure_count: row.get("failures")?,
        hold_turns: row.get("hold_turns")?,
        breaker_open: row.get("hold_breaker")?,
        cooldown_end: row.get::<Option<i64>>("cooldown_end")?.map(Timestamp),
        overhead_tokens: row.get("overhead_tokens")?,
    })
}

/// The answer to a mutation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Receipt {
    /// The session's revision after the mutation.
    pub revision: Revision,
    /// The store's newest event of the mutation.
    pub seq: Seq,
    /// The ids that it made or found, in the order of the request.
    pub ids: Vec<Uuid>,
    /// The number of ids that existed before.
    pub existed_count: i64,
    /// The messages among them that lack content, because it was erased before.
    pub erased: Vec<Uuid>,
    /// The session's newest revision at the time of the answer, which a repeated request gets too. Like the next two
    /// fields, only appends and seals set it.
    pub newest: Revision,
    /// Pending changes of the view.
    pub pending: PendingWork,
    /// Growth of the history by appended content, as `PartBody::growth_bytes` counts it. A fork starts with the growth
    /// of the session that it was made from.
    pub appended_bytes: i64,
    /// The secrets that were found at the end of drafts that it closed.
    pub hits: Vec<Hit>,
}

impl Receipt {
    /// The receipt as the `request` table keeps it.
    pub(crate) fn to_disk(&self) -> codec::DiskReceipt {
        codec::DiskReceipt {
            revision: self.revision,
            seq: self.seq,
            ids: self.ids.iter().map(|id| id.as_bytes().to_vec()).collect(),
            existed_count: self.existed_count,
            erased: self.erased.iter().map(|id| id.as_bytes().to_vec()).collect(),
        }
    }

    /// Reads a kept receipt. The state of the session is not kept: a repeated request is answered with that of now.
    pub(crate) fn from_disk(disk: codec::DiskReceipt) -> Result<Self> {
        Ok(Self {
            revision: disk.revision,
            seq: disk.seq,
            ids: disk.ids.iter().map(|id| codec::uuid(id)).collect::<Result<_>>()?,
            existed_count: disk.existed_count,
            erased: disk.erased.iter().map(|id| codec::uuid(id)).collect::<Result<_>>()?,
            ..Self::default()
        })
    }
}
