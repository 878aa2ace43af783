//! Rows that lost most of their bytes. SQLite leaves each on its page, which is nearly empty then and is not given back; a row
//! that is put in again joins those beside it on one page, and the pages that this frees are given back by `shrink`.

use super::connection::Connection;
use super::statement;
use crate::error::Result;

/// A row that replaces itself is deleted and inserted. Rows that refer to it find it at the end of the statement, and triggers
/// against deletions are not asked.
const MESSAGE: &str = "replace into message select * from message where id = ?1";
const PARTS: &str = "replace into part select * from part where message_id = ?1";

/// Packs a message's row, and the rows of its parts. Other engines reuse such pages by themselves.
pub fn message(conn: &Connection, id: i64) -> Result<()> {
    if let Connection::Sqlite(_) = conn {
        statement::query(MESSAGE).bind(id).run(conn)?;
        statement::query(PARTS).bind(id).run(conn)?;
    }
    Ok(())
}
