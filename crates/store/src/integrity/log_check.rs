//! Findings, and the check of the log as a whole.

use crate::engine;
use crate::engine::readers::Readers;
use crate::error::Result;
use crate::limits;
use crate::model::ids::SessionId;
use crate::model::{Revision, Seq};

/// Evidence that something was altered, dropped or inserted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The session; none for the log as a whole.
    pub session: Option<SessionId>,
    /// The revision of the evidence.
    pub revision: Revision,
    /// A description.
    pub message: String,
}

const LOG: &str = "select max(seq), count(*), \
     count(*) filter (where not exists (select 1 from session s where s.id = page.session_id)) \
     from (select seq, session_id from event where seq > ?1 order by seq limit +?2) as page";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[LOG];

/// The check that the log has no gap, and no event without a session, page by page.
#[derive(Debug, Default)]
pub(crate) struct LogCheck {
    /// Number of the last checked event.
    position: Seq,
}

impl LogCheck {
    /// Checks the next page of events. Returns the findings, and true if there may be more pages.
    pub(crate) async fn page(&mut self, readers: &Readers) -> Result<(Vec<Finding>, bool)> {
        let after = self.position;
        let query = engine::query(LOG).bind(after).bind(limits::CHECK_LOG_EVENTS);
        let row = readers.reading(|reader| reader.one(query)).await?;
        let Some(row) = row.filter(|row| row.get::<i64>(1).is_ok_and(|count| count > 0)) else {
            return Ok((Vec::new(), false));
        };
        let (last, count, orphans): (Seq, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        self.position = last;
        let mut findings = Vec::new();
        let mut find = |message| findings.push(Finding { session: None, revision: 0, message });
        if last - after != count {
            find(format!("of the {} events numbered {} to {last}, the log holds {count}", last - after, after + 1));
        }
        if orphans > 0 {
            find(format!("{orphans} events numbered {} to {last} belong to a session that is not there", after + 1));
        }
        Ok((findings, count == limits::CHECK_LOG_EVENTS))
    }
}
