//! Rows that lost most of their bytes. SQLite leaves each on its page, which is nearly empty then and is not given back; a row
//! that is put in again joins those beside it on one page, and the pages that this frees are given back by `shrink`.

use super::connection::Connection;
use super::statement;
use crate::error::Result;

/// A row that replaces itself is deleted and inserted, and triggers against deletions are not asked.
const PARTS: &str = "replace into part select * from part where message_id = ?1";

/// Packs the rows of a message's parts. Other engines reuse such pages by themselves.
pub fn parts(conn: &Connection, message: i64) -> Result<()> {
    match conn {
        Connection::Sqlite(_) => statement::query(PARTS).bind(message).run(conn),
        Connection::Server(_) => Ok(()),
    }
}
