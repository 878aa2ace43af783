//! What is known of the times of events: when the clock was confirmed, and how far they were ahead of it.

use super::tx::Tx;
use crate::engine::{self, Reader};
use crate::error::Result;
use crate::model::dating::{ClockSegment, Dating};
use crate::model::time::Timestamp;

/// A bounded number of rows.
pub(crate) const ALL: &str = "select event_time, confirmed_time, micros from clock_segment order by event_time";
const WRITE: &str = "insert into clock_segment (event_time, confirmed_time, micros) values (?1, ?2, ?3) \
     on conflict (event_time) do update set confirmed_time = excluded.confirmed_time, micros = excluded.micros";
const FORGET: &str = "delete from clock_segment where event_time < ?1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[ALL, WRITE, FORGET];

/// All that is known.
pub(crate) fn read_dating(reader: &mut Reader<'_>) -> Result<Dating> {
    let mut dating = Dating::default();
    for row in reader.all(engine::query(ALL))? {
        let (event_time, confirmed_time) = (Timestamp(row.get(0)?), Timestamp(row.get(1)?));
        dating.add(ClockSegment { event_time, confirmed_time, micros: row.get(2)? });
    }
    Ok(dating)
}

/// Adds what a process has seen.
pub(crate) fn join(tx: &mut Tx<'_>, seen: &Dating) -> Result<()> {
    let before = read_dating(&mut Reader::new(tx.conn))?;
    let mut dating = before.clone();
    dating.join(seen);
    for segment in dating.segments().iter().filter(|segment| !before.segments().contains(segment)) {
        let ClockSegment { event_time, confirmed_time, micros } = segment;
        engine::query(WRITE).bind(event_time.0).bind(confirmed_time.0).bind(*micros).run(tx.conn)?;
    }
    let first = dating.segments().first().map_or(0, |first| first.event_time.0);
    engine::query(FORGET).bind(first).run(tx.conn)
}
