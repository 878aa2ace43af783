//! What the status page shows of reductions and guards: counters kept in rows, and bounded looks at few sessions.

use super::codec::{self, Number as _};
use super::error::Result;
use super::lineage::Reader;
use crate::limits;
use crate::model::compaction::{CompactionKind, CompactionState, Level};
use crate::model::ids::SessionId;
use crate::model::time::Timestamp;
use sqlx::{Row as _, SqliteConnection};

/// Reductions that ended in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// What they did.
    pub kind: CompactionKind,
    /// Which rung of the ladder; none for the routine and for supplied summaries.
    pub level: Option<Level>,
    /// How they ended.
    pub state: CompactionState,
    /// How many.
    pub count: i64,
    /// Tokens that all of them together took out of views.
    pub freed_tokens: i64,
}

/// How reductions fare in the whole store. Counts of sessions stop at `limits::STATUS_SESSIONS_MAX`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fare {
    /// The reductions that ended.
    pub tallies: Vec<Tally>,
    /// Sessions that wait for the scheduler to look at them.
    pub due_count: i64,
    /// Sessions whose breaker is open.
    pub breaker_count: i64,
    /// Sessions whose triggers wait since a reduction was taken back.
    pub undo_count: i64,
    /// Sessions whose ladder rests after a reduction.
    pub cooling_count: i64,
    /// Sessions in which what no reduction takes away fills the window.
    pub overhead_count: i64,
    /// The sessions whose breaker is open, and those that the overhead fills.
    pub stopped: Vec<SessionId>,
}

const ADD: &str = "insert into reduction_tally (kind, level, state, count, freed_tokens) \
     select kind, coalesce(level, 0), state, 1, $2 from job where id = $1 \
     on conflict (kind, level, state) do update set count = count + 1, freed_tokens = freed_tokens + excluded.freed_tokens";
pub(super) const TALLIES: &str = "select kind, level, state, count, freed_tokens from reduction_tally";
const DUE: &str = "select id from session where due_revision is not null limit $1";
const HELD: &str = "select public_id, hold_breaker from session where hold_turns > 0 limit $1";
const FILLED: &str = "select public_id from session where overhead_tokens is not null limit $1";
const COOLING: &str = "select id from session where cool_until > $1 limit $2";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[ADD, TALLIES, DUE, HELD, FILLED, COOLING];

/// Counts a job that has just ended, in the transaction that ends it.
pub(super) async fn add(conn: &mut SqliteConnection, job: i64, freed_tokens: i64) -> Result<()> {
    sqlx::query(ADD).bind(job).bind(freed_tokens).execute(conn).await?;
    Ok(())
}

/// How reductions fare. It reads a bounded number of rows, however many sessions and jobs there are.
pub(super) async fn fare(reader: &mut Reader<'_>, now: Timestamp) -> Result<Fare> {
    let most = limits::STATUS_SESSIONS_MAX;
    let mut fare = Fare::default();
    for row in reader.all(sqlx::query(TALLIES)).await? {
        let level: i32 = row.try_get(1)?;
        fare.tallies.push(Tally {
            kind: CompactionKind::from_number(row.try_get(0)?)?,
            level: if level == 0 { None } else { Some(Level::from_number(level)?) },
            state: CompactionState::from_number(row.try_get(2)?)?,
            count: row.try_get(3)?,
            freed_tokens: row.try_get(4)?,
        });
    }
    fare.due_count = rows(reader.all(sqlx::query(DUE).bind(most)).await?.len());
    fare.cooling_count = rows(reader.all(sqlx::query(COOLING).bind(now.0).bind(most)).await?.len());
    for row in reader.all(sqlx::query(HELD).bind(most)).await? {
        if row.try_get(1)? {
            fare.breaker_count += 1;
            fare.stopped.push(SessionId(codec::uuid(row.try_get(0)?)?));
        } else {
            fare.undo_count += 1;
        }
    }
    for row in reader.all(sqlx::query(FILLED).bind(most)).await? {
        fare.overhead_count += 1;
        fare.stopped.push(SessionId(codec::uuid(row.try_get(0)?)?));
    }
    Ok(fare)
}

fn rows(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
