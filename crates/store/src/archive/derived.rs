//! The check of what an archive has beside its chains. Rows that follow from events and messages are compared with those.
//! Values that follow from nothing must be such as a caller could have given. What is left is what callers said and no event
//! repeats: the texts of drafts, the hashes of requests, instructions for summaries.

use crate::engine::{self, Reader};
use crate::error::{Error, Result};
use crate::ledger::codec::{self, DiskReceipt, Number as _};
use crate::ledger::jobs;
use crate::limits;
use crate::model::Revision;
use crate::model::compaction::{Compaction, CompactionKind, CompactionState, Failure, Level, Outcome, Trigger};
use crate::model::event::EventBody;
use crate::model::ids::{CompactionId, PartId};
use crate::model::session::SessionState;
use std::collections::{BTreeMap, BTreeSet, HashMap};

const EVENTS: &str = "select revision, kind, body, request_id, ends_mutation from event \
     where session_id = ?1 and revision > ?2 order by revision limit +?3";
const REQUESTS: &str = "select request_id, receipt from request where session_id = ?1";
const IS_ID: &str = "select exists (select 1 from message where public_id in (?1, ?2)) \
     or exists (select 1 from job where public_id = ?1) or exists (select 1 from run where public_id = ?1) \
     or exists (select 1 from prompt where public_id = ?1) or exists (select 1 from approval where public_id = ?1) \
     or exists (select 1 from erasure where public_id = ?1) or exists (select 1 from session where public_id = ?1)";
const HEAD: &str = "select revision, compaction_revision, guard_revision, coalesce(undo_revision, 0), appended_bytes, \
     content_bytes, state from session where id = ?1";

/// Each finds a row of the session ?1 that no daemon writes.
const WRONG: [(&str, &str); 10] = [
    (
        "open_message",
        "select m.id from open_message o join message m on m.id = o.message_id where m.session_id = ?1 \
         and (m.sealed_revision is not null or o.session_id <> m.session_id) limit 1",
    ),
    (
        "open_message",
        "select message_id from open_message where session_id = ?1 and timeout_ms not between ?2 and ?3 limit 1",
    ),
    (
        "draft",
        "select d.id from draft d join message m on m.id = d.message_id where m.session_id = ?1 \
         and (m.sealed_revision is not null or d.kind not between 1 and 4 or d.number not between 1 and 65535) limit 1",
    ),
    (
        "draft",
        "select d.id from draft d join message m on m.id = d.message_id join part p on p.message_id = d.message_id \
         and p.number = d.number where m.session_id = ?1 limit 1",
    ),
    ("run", "select epoch from run where session_id = ?1 and lease_ms not between ?2 and ?3 limit 1"),
    ("approval", "select id from approval where session_id = ?1 and timeout_ms not between ?2 and ?3 limit 1"),
    (
        "prompt",
        "select p.id from prompt p join prompt o on o.session_id = p.session_id and o.rank = p.rank and o.id <> p.id \
         where p.session_id = ?1 limit 1",
    ),
    (
        "job",
        "select id from job where session_id = ?1 and ((state in (1, 2)) <> (end_time is null) or attempt < 0 \
         or lost_attempts < 0 or queued not in (0, 1) or proposed not between 0 and 2 \
         or (started_revision is null) <> (start_time is null)) limit 1",
    ),
    (
        "tool_call",
        "select position from tool_call t join session s on s.id = t.session_id where t.session_id = ?1 \
         and (t.position < 0 or t.answered_revision > s.revision or t.answered_revision < t.revision) limit 1",
    ),
    (
        "tool_call",
        "select position from tool_call t where t.session_id = ?1 and not exists \
         (select 1 from message m where m.public_id = t.message and m.revision = t.revision) limit 1",
    ),
];

/// The bounds of the values that a statement compares: of the open timeout, the lease of a run, and the timeout of an
/// approval.
fn bounds(table: &str) -> (i64, i64) {
    match table {
        "open_message" => (limits::OPEN_TIMEOUT_MS_MIN, limits::OPEN_TIMEOUT_MS_MAX),
        "run" => (limits::RUN_LEASE_MS_MIN, limits::RUN_LEASE_MS_MAX),
        _ => (limits::APPROVAL_TIMEOUT_MS_MIN, limits::APPROVAL_TIMEOUT_MS_MAX),
    }
}

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    EVENTS, REQUESTS, IS_ID, HEAD, WRONG[0].1, WRONG[1].1, WRONG[2].1, WRONG[3].1, WRONG[4].1, WRONG[5].1, WRONG[6].1,
    WRONG[7].1, WRONG[8].1, WRONG[9].1,
];

fn wrong(table: &str) -> Error {
    Error::ArchiveInvalid(format!("a row of {table} does not follow from the events and messages"))
}

fn require(is_right: bool, table: &str) -> Result<()> {
    if is_right { Ok(()) } else { Err(wrong(table)) }
}

/// A compaction by its events.
#[derive(Default)]
struct EventCompaction {
    start: Option<(CompactionKind, Trigger, Option<Level>, i64, i64)>,
    /// Its newest prune mark, at whose revision a compaction without a summary ends.
    pruned: Option<Revision>,
    end: Option<(Revision, End)>,
    undone: Option<Revision>,
}

/// The end of a compaction by its event.
enum End {
    Done(Box<Outcome>),
    Failed(Failure),
    Cancelled(Failure),
}

/// What the events of a session say of its compactions and requests.
#[derive(Default)]
struct Events {
    compactions: BTreeMap<CompactionId, EventCompaction>,
    /// The last revisions of the mutations with a request id.
    requests: HashMap<String, BTreeSet<Revision>>,
}

impl Events {
    fn read(reader: &mut Reader<'_>, key: i64) -> Result<Self> {
        let mut events = Self::default();
        let mut requests: BTreeSet<String> = BTreeSet::new();
        let mut newest: Revision = 0;
        loop {
            let query = engine::query(EVENTS).bind(key).bind(newest).bind(limits::SUBSCRIPTION_PAGE_EVENTS);
            let rows = reader.all(query)?;
            if rows.is_empty() {
                return Ok(events);
            }
            for row in rows {
                newest = row.get(0)?;
                events.note(newest, codec::decode_event(row.get(1)?, row.get(2)?)?);
                requests.insert(row.get(3)?);
                if row.get(4)? {
                    for request in std::mem::take(&mut requests) {
                        events.requests.entry(request).or_default().insert(newest);
                    }
                }
            }
        }
    }

    fn note(&mut self, at: Revision, body: EventBody) {
        match body {
            EventBody::CompactionStarted {
                compaction, level, kind, trigger, context_tokens, window_tokens, ..
            } => {
                self.of_compaction(compaction).start = Some((kind, trigger, level, context_tokens, window_tokens));
            }
            EventBody::PartsPruned { compaction, .. } => self.of_compaction(compaction).pruned = Some(at),
            EventBody::Compacted { compaction, outcome, .. } => {
                self.of_compaction(compaction).end = Some((at, End::Done(outcome)));
            }
            EventBody::CompactionFailed { compaction, failure } => {
                self.of_compaction(compaction).end = Some((at, End::Failed(failure)));
            }
            EventBody::CompactionCancelled { compaction, failure } => {
                self.of_compaction(compaction).end = Some((at, End::Cancelled(failure)));
            }
            EventBody::CompactionUndone { compaction } => self.of_compaction(compaction).undone = Some(at),
            EventBody::CompactionRedone { compaction } => self.of_compaction(compaction).undone = None,
            _ => {}
        }
    }

    fn of_compaction(&mut self, id: CompactionId) -> &mut EventCompaction {
        self.compactions.entry(id).or_default()
    }
}

impl EventCompaction {
    /// True if a row says the same.
    fn matches(&self, row: &Compaction) -> bool {
        let same_start = self.start.is_none_or(|(kind, trigger, level, context_tokens, window_tokens)| {
            let request = &row.request;
            (request.kind, request.trigger, request.level) == (kind, trigger, level)
                && (row.tokens_at_request, row.window_tokens) == (context_tokens, window_tokens)
        });
        let same_end = match &self.end {
            Some((at, end)) => {
                let revisions = [Some(*at), self.pruned];
                row.end_revision.is_some() && revisions.contains(&row.end_revision) && end.matches(row)
            }
            // One that never began ends without an event.
            None => {
                row.end_revision.is_none() && row.outcome.is_none() && (self.start.is_none() || row.end_time.is_none())
            }
        };
        same_start && same_end && row.undone_revision == self.undone
    }
}

impl End {
    fn matches(&self, row: &Compaction) -> bool {
        use CompactionState::{Cancelled, Dead, Done, Failed, Superseded};
        match self {
            Self::Done(outcome) => row.state == Done && row.outcome.as_ref() == Some(&**outcome),
            Self::Failed(failure) => matches!(row.state, Failed | Dead) && row.failure.as_ref() == Some(failure),
            Self::Cancelled(failure) => {
                matches!(row.state, Cancelled | Superseded) && row.failure.as_ref() == Some(failure)
            }
        }
    }
}

/// Refuses rows of a session that contradict its events and messages, or that no daemon writes.
pub(super) fn check(reader: &mut Reader<'_>, key: i64) -> Result<()> {
    for (table, statement) in WRONG {
        let (least, most) = bounds(table);
        let mut query = engine::query(statement).bind(key);
        if statement.contains("?3") {
            query = query.bind(least).bind(most);
        }
        require(reader.one(query)?.is_none(), table)?;
    }
    let row = reader.always(engine::query(HEAD).bind(key))?;
    let newest: Revision = row.get(0)?;
    for column in 1..4 {
        require((0..=newest).contains(&row.get::<Revision>(column)?), "session")?;
    }
    require(row.get::<i64>(4)? >= 0 && row.get::<i64>(5)? >= 0, "session")?;
    let Events { mut compactions, requests } = Events::read(reader, key)?;
    let mut below = None;
    loop {
        let rows = jobs::of_session(reader, key, below, limits::PAGE_SIZE_MAX)?;
        let Some((last, _)) = rows.last() else { break };
        below = Some(*last);
        for (_, row) in &rows {
            require(compactions.remove(&row.id).unwrap_or_default().matches(row), "job")?;
        }
    }
    // A fork may have undone one of the session that it was forked from, and an erased session has no rows of any.
    let is_erased = SessionState::from_number(row.get(6)?)? == SessionState::Erased;
    let is_missing = compactions.values().any(|left| left.start.is_some() || left.end.is_some());
    require(is_erased || !is_missing, "job")?;
    check_requests(reader, key, newest, &requests)
}

/// The answers to requests are those of their events, and name what is there.
fn check_requests(
    reader: &mut Reader<'_>,
    key: i64,
    newest: Revision,
    requests: &HashMap<String, BTreeSet<Revision>>,
) -> Result<()> {
    for row in reader.all(engine::query(REQUESTS).bind(key))? {
        let receipt: DiskReceipt = codec::decode("request", row.get(1)?)?;
        let is_right = match requests.get(row.get::<&str>(0)?) {
            Some(revisions) => revisions.contains(&receipt.revision),
            // It changed nothing.
            None => (0..=newest).contains(&receipt.revision),
        };
        require(is_right && receipt.existed_count >= 0, "request")?;
        for id in receipt.ids.iter().chain(&receipt.erased) {
            // Parts have the ids of their messages, with a number.
            let message = PartId(codec::uuid(id)?).message().0;
            let found = reader.always(engine::query(IS_ID).bind(id.clone()).bind(message.as_bytes().to_vec()))?;
            require(found.get(0)?, "request")?;
        }
    }
    Ok(())
}
