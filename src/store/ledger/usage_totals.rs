//! Sums of the usage of sessions in stores that were written before their rows had them.

use super::codec;
use crate::model::event::{EventBody, EventKind};
use crate::model::usage::UsageTotals;
use crate::store::engine::{self, Connection};
use crate::store::error::Result;

/// Sessions that are summed up in one transaction.
const BATCH: i64 = 256;

const UNCOUNTED: &str = "select id from session where usage is null order by id limit +?1";
const USAGES: &str = "select kind, body from event where session_id = ?1 and kind = ?2";
const SET: &str = "update session set usage = ?2 where id = ?1";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[UNCOUNTED, USAGES, SET];

/// Sums up the events of the sessions whose rows have no sum. A stop in between loses no more than one batch.
pub(crate) fn count(conn: &Connection) -> Result<()> {
    loop {
        let keys: Vec<i64> = engine::scalar(UNCOUNTED).bind(BATCH).all(conn)?;
        if keys.is_empty() {
            return Ok(());
        }
        let transaction = conn.unchecked_transaction()?;
        for key in keys {
            let mut totals = UsageTotals::default();
            for row in engine::query(USAGES).bind(key).bind(EventKind::UsageRecorded as i32).all(&transaction)? {
                // An event that cannot be read is reported by the check of the chains.
                if let Ok(EventBody::UsageRecorded { usage, .. }) = codec::decode_event(row.get(0)?, row.get(1)?) {
                    totals.add(&usage);
                }
            }
            engine::query(SET).bind(key).bind(codec::encode_usage_totals(&totals)).run(&transaction)?;
        }
        transaction.commit()?;
    }
}
