//! Sums of the usage of sessions, and where they belong, in stores that were written before their rows had these.

use super::codec;
use super::visibility::Location;
use crate::engine::{self, Connection};
use crate::error::Result;
use crate::model::event::{EventBody, EventKind};
use crate::model::usage::UsageTotals;

/// Sessions that are summed up in one transaction.
const BATCH: i64 = 256;

const UNCOUNTED: &str = "select id, metadata_json from session where usage is null order by id limit +?1";
const USAGES: &str = "select kind, body from event where session_id = ?1 and kind = ?2";
const SET: &str = "update session set usage = ?2, project = ?3, directory = ?4 where id = ?1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[UNCOUNTED, USAGES, SET];

/// Completes the rows of sessions without a sum. A stop in between loses no more than one batch.
pub(crate) fn count(conn: &Connection) -> Result<()> {
    loop {
        let sessions = engine::query(UNCOUNTED).bind(BATCH).all(conn)?;
        if sessions.is_empty() {
            return Ok(());
        }
        let transaction = conn.transaction()?;
        for session in sessions {
            let key: i64 = session.get(0)?;
            let Location { project, directory } = Location::from_metadata(session.get(1)?);
            let mut totals = UsageTotals::default();
            for row in engine::query(USAGES).bind(key).bind(EventKind::UsageRecorded as i32).all(&transaction)? {
                // An event that cannot be read is reported by the check of the chains.
                if let Ok(EventBody::UsageRecorded { usage, .. }) = codec::decode_event(row.get(0)?, row.get(1)?) {
                    totals.add(&usage);
                }
            }
            let query = engine::query(SET).bind(key).bind(codec::encode_usage_totals(&totals));
            query.bind(project).bind(directory).run(&transaction)?;
        }
        transaction.commit()?;
    }
}
