//! Statistics of compactions and guards for the status page: counters in rows, and bounded reads of few sessions.

use super::codec::{self, Number as _};
use crate::engine::Reader;
use crate::engine::{self, Connection, Query};
use crate::error::Result;
use crate::limits;
use crate::model::compaction::{CompactionKind, CompactionState, ContradictionKind, Level, Outcome, Trigger};
use crate::model::ids::SessionId;
use crate::model::session::OverWindowReason;
use crate::model::time::Timestamp;

/// The counter of compactions that ended in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionCounter {
    /// The kind of compaction.
    pub kind: CompactionKind,
    /// The policy's level; none for maintenance and for supplied summaries.
    pub level: Option<Level>,
    /// The origin of the requests; none for compactions that ended before it was counted.
    pub trigger: Option<Trigger>,
    /// Their end state.
    pub state: CompactionState,
    /// Their number.
    pub count: i64,
    /// Tokens that all of them together removed from views.
    pub freed_tokens: i64,
}

/// Statistics of compactions in the whole store. Counts of sessions stop at `limits::STATUS_COUNT_MAX`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Counters of the compactions that ended.
    pub counters: Vec<CompactionCounter>,
    /// Sessions that wait for a decision of the scheduler.
    pub due_count: i64,
    /// Sessions whose breaker is open.
    pub breaker_count: i64,
    /// Sessions that hold automatic compactions after an undo.
    pub undo_count: i64,
    /// Sessions in the cooldown after a compaction.
    pub cooldown_count: i64,
    /// Sessions whose window is filled by overhead that no compaction removes.
    pub overhead_count: i64,
    /// Sessions whose view exceeds its window by the newest decision, by the reason.
    pub over_window: Vec<(OverWindowReason, i64)>,
    /// The sessions with an open breaker, and those whose window the overhead takes up; `limits::STATUS_SESSIONS_MAX`
    /// of each.
    pub stopped: Vec<SessionId>,
    /// Claims of summaries that the history contradicted, by their subject.
    pub contradictions: Vec<(ContradictionKind, i64)>,
}

const ADD: &str = "insert into compaction_count (kind, level, trigger, state, count, freed_tokens) \
     select kind, coalesce(level, 0), trigger, state, 1, ?2 from job where id = ?1 \
     on conflict (kind, level, trigger, state) do update set count = compaction_count.count + 1, \
     freed_tokens = compaction_count.freed_tokens + excluded.freed_tokens";
pub(crate) const COUNTERS: &str = "select kind, level, trigger, state, count, freed_tokens from compaction_count \
     order by kind, level, trigger, state";
const ADD_CONTRADICTION: &str = "insert into contradiction_count (kind, count) values (?1, 1) \
     on conflict (kind) do update set count = contradiction_count.count + 1";
pub(crate) const CONTRADICTIONS: &str = "select kind, count from contradiction_count order by kind";
const DUE: &str = "select count(*) from (select 1 from session where due_revision is not null limit +?1) as found";
const BREAKERS: &str =
    "select count(*) from (select 1 from session where hold_turns > 0 and hold_breaker = 1 limit +?1) as found";
const UNDONE: &str =
    "select count(*) from (select 1 from session where hold_turns > 0 and hold_breaker = 0 limit +?1) as found";
const FILLED: &str =
    "select count(*) from (select 1 from session where overhead_tokens is not null limit +?1) as found";
const IN_COOLDOWN: &str = "select count(*) from (select 1 from session where cooldown_end > ?2 limit +?1) as found";
const OVER_WINDOW: &str = "select over_window, count(*) from \
     (select over_window from session where over_window is not null limit +?1) as found group by over_window \
     order by over_window";
const STOPPED_BY_BREAKER: &str = "select public_id from session where hold_turns > 0 and hold_breaker = 1 limit +?1";
const STOPPED_BY_OVERHEAD: &str = "select public_id from session where overhead_tokens is not null limit +?1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    ADD,
    COUNTERS,
    ADD_CONTRADICTION,
    CONTRADICTIONS,
    DUE,
    BREAKERS,
    UNDONE,
    FILLED,
    IN_COOLDOWN,
    OVER_WINDOW,
    STOPPED_BY_BREAKER,
    STOPPED_BY_OVERHEAD,
];

/// Counts a job that has just ended, in the transaction that ends it.
pub(crate) fn add(conn: &Connection, job: i64, outcome: Option<&Outcome>) -> Result<()> {
    let freed = outcome.map_or(0, |outcome| (outcome.tokens_before - outcome.tokens_after).max(0));
    engine::query(ADD).bind(job).bind(freed).run(conn)?;
    for found in outcome.into_iter().flat_map(|outcome| &outcome.contradictions) {
        engine::query(ADD_CONTRADICTION).bind(found.kind.number()).run(conn)?;
    }
    Ok(())
}

/// Statistics of compactions. Reads a bounded number of rows, however many sessions and jobs there are.
pub(crate) fn statistics(reader: &mut Reader<'_>, now: Timestamp) -> Result<Statistics> {
    let mut statistics = Statistics::default();
    for row in reader.all(engine::query(COUNTERS))? {
        let (level, trigger): (i32, i32) = (row.get(1)?, row.get(2)?);
        statistics.counters.push(CompactionCounter {
            kind: CompactionKind::from_number(row.get(0)?)?,
            level: if level == 0 { None } else { Some(Level::from_number(level)?) },
            trigger: if trigger == 0 { None } else { Some(Trigger::from_number(trigger)?) },
            state: CompactionState::from_number(row.get(3)?)?,
            count: row.get(4)?,
            freed_tokens: row.get(5)?,
        });
    }
    for row in reader.all(engine::query(CONTRADICTIONS))? {
        statistics.contradictions.push((ContradictionKind::from_number(row.get(0)?)?, row.get(1)?));
    }
    let most = limits::STATUS_COUNT_MAX;
    statistics.due_count = count(reader, engine::query(DUE).bind(most))?;
    statistics.breaker_count = count(reader, engine::query(BREAKERS).bind(most))?;
    statistics.undo_count = count(reader, engine::query(UNDONE).bind(most))?;
    statistics.cooldown_count = count(reader, engine::query(IN_COOLDOWN).bind(most).bind(now.0))?;
    statistics.overhead_count = count(reader, engine::query(FILLED).bind(most))?;
    for row in reader.all(engine::query(OVER_WINDOW).bind(most))? {
        statistics.over_window.push((OverWindowReason::from_number(row.get(0)?)?, row.get(1)?));
    }
    for statement in [STOPPED_BY_BREAKER, STOPPED_BY_OVERHEAD] {
        for row in reader.all(engine::query(statement).bind(limits::STATUS_SESSIONS_MAX))? {
            let session = SessionId(codec::uuid(row.get(0)?)?);
            if !statistics.stopped.contains(&session) {
                statistics.stopped.push(session);
            }
        }
    }
    Ok(statistics)
}

fn count(reader: &mut Reader<'_>, query: Query<'_>) -> Result<i64> {
    reader.one(query)?.map_or(Ok(0), |row| row.get(0))
}
