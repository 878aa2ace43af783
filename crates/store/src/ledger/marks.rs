//! Marks and the layouts that follow from them: read, and written at the next revision.

use super::ancestry::Ancestry;
use super::chain::{self, Digest};
use super::codec;
use super::head::Head;
use super::heads::SessionMarks;
use super::layouts;
use super::tx::Tx;
use crate::engine::Reader;
use crate::engine::{self, Connection};
use crate::error::{Error, Result};
use crate::model::Revision;
use crate::model::layout::Layout;
use crate::model::layouts::{Marks, layout_at};
use crate::model::mark::{Mark, MarkBody};

const MARKS: &str = "select revision, kind, body from mark \
     where session_id = ?1 and revision between ?2 and ?3 order by revision";
const INSERT_MARK: &str = "insert into mark (session_id, revision, kind, body) values (?1, ?2, ?3, ?4)";
const VOID_MARK: &str =
    "update mark set voided_revision = ?3 where session_id = ?1 and revision = ?2 and voided_revision is null";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[MARKS, INSERT_MARK, VOID_MARK];

/// All marks of a history, ascending, including those of ancestors.
pub(crate) fn read_all(reader: &mut Reader<'_>, ancestry: &Ancestry) -> Result<Vec<Mark>> {
    let mut marks = Vec::new();
    for (segment, _) in ancestry.all_segments(reader)? {
        let query = engine::query(MARKS).bind(segment.owner).bind(segment.first).bind(segment.end.last());
        for row in reader.all(query)? {
            let body = codec::decode_mark(row.get(1)?, row.get(2)?)?;
            marks.push(Mark { revision: row.get(0)?, body });
        }
    }
    Ok(marks)
}

/// The ancestry for reads by the writer; gathered rows are flushed to the connection first.
pub(crate) fn ancestry_of(tx: &mut Tx<'_>, key: i64) -> Result<Ancestry> {
    let ancestry = of_head(tx.head(key)?);
    tx.flush()?;
    Ok(ancestry)
}

fn of_head(head: &Head) -> Ancestry {
    Ancestry { key: head.key, fork_revision: head.fork_revision, revision: head.revision }
}

/// The marks of a session's history, from the writer's memory, or read at the first rewrite.
pub(crate) fn session_marks<'t>(tx: &'t mut Tx<'_>, key: i64) -> Result<&'t mut Marks> {
    loaded_marks(tx, key).map(|known| &mut known.marks)
}

fn loaded_marks<'t>(tx: &'t mut Tx<'_>, key: i64) -> Result<&'t mut SessionMarks> {
    if tx.heads.marks(key).is_none() {
        // Marks, unlike other rows, are written at once: nothing is flushed, because the mutation may have begun.
        let ancestry = of_head(tx.head(key)?);
        let marks = Marks::new(read_all(&mut Reader::new(tx.conn), &ancestry)?);
        let rows = layouts::Rows::read(tx.conn, key)?;
        tx.heads.insert_marks(key, SessionMarks { marks, rows });
    }
    tx.heads.marks(key).ok_or(Error::Bug("the marks of a session were not loaded"))
}

/// Writes a mark at the session's next revision, and the layout if the mark changes it.
///
/// The caller adds the event of that revision right after, with the same digest.
pub(crate) fn write(tx: &mut Tx<'_>, digest: &mut Digest, key: i64, body: MarkBody) -> Result<()> {
    let (conn, revision) = (tx.conn, tx.next_revision(key)?);
    // They are read before the new mark is a row.
    loaded_marks(tx, key)?;
    insert(conn, digest, key, revision, &body)?;
    if let MarkBody::Undone { mark } = body {
        engine::query(VOID_MARK).bind(key).bind(mark).bind(revision).run(conn)?;
    }
    let SessionMarks { marks, rows } = loaded_marks(tx, key)?;
    let change = marks.add(Mark { revision, body });
    if !change.is_empty() {
        rows.write_next(conn, digest, key, revision, (&change, marks.layout()))?;
    }
    tx.heads.count_mark();
    Ok(())
}

/// Writes, at the fork's first revision `at`, the mark that omits the inherited messages after its starting position.
/// Returns the fork's first layout, which the caller writes. `marks` are the inherited ones.
pub(crate) fn write_fork_point(
    tx: &mut Tx<'_>,
    digest: &mut Digest,
    key: i64,
    (at, after): (Revision, Revision),
    marks: &mut Vec<Mark>,
) -> Result<Layout> {
    let body = MarkBody::Rewound { after, has_summary: false, of_fork: true };
    insert(tx.conn, digest, key, at, &body)?;
    marks.push(Mark { revision: at, body });
    Ok(layout_at(marks, at))
}

fn insert(conn: &Connection, digest: &mut Digest, key: i64, revision: Revision, body: &MarkBody) -> Result<()> {
    let (kind, bytes) = (codec::mark_kind(body), codec::encode_mark(body));
    chain::mark(digest, kind, &bytes);
    engine::query(INSERT_MARK).bind(key).bind(revision).bind(kind).bind(bytes).run(conn)?;
    Ok(())
}

/// Records a rewrite that changed the view: usage is stale, and the scheduler evaluates the session again.
pub(crate) fn changed(tx: &mut Tx<'_>, key: i64, at: Revision) -> Result<()> {
    let head = tx.loaded(key)?;
    head.changed(at);
    Ok(())
}
