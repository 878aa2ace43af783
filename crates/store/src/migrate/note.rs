//! What a copy of a store says of itself until it is the store: what it is a copy of, as it was when the copy began. And
//! what a store says that is set aside: which copy took its place. No other copy of it ever becomes a store.

use crate::clock::fresh_id;
use crate::engine::connect::{self, UNFINISHED};
use crate::engine::{self, Connection};
use crate::error::Result;
use crate::model::Seq;

const MAKE: &str = "create table unfinished_copy (
    copy_id blob not null,                          -- of this copy
    source text primary key,                        -- the place of the store
    store_id blob not null,                         -- the rest is of the store, as it was when the copy began
    seq integer not null,                           -- of its newest event
    hash blob not null,                             -- of that event; empty without one
    version integer not null,                       -- of its schema
    is_verified integer not null                    -- 1 once the copy has been compared with it
) strict;";
const WRITE: &str = "insert into unfinished_copy (source, store_id, seq, hash, version, copy_id, is_verified) \
     values (?1, ?2, ?3, ?4, ?5, ?6, 0)";
const READ: &str = "select source, store_id, seq, hash, version, copy_id, is_verified from unfinished_copy";
const SET_VERIFIED: &str = "update unfinished_copy set is_verified = ?1";
const DROP: &str = "drop table unfinished_copy";
const MAKE_SUCCESSOR: &str = "drop table if exists migrated_to;
create table migrated_to (
    copy_id blob not null primary key               -- of the copy that took the place of this store
) strict;";
const COPY_ID: &str = "select copy_id from unfinished_copy";
const WRITE_SUCCESSOR: &str = "insert into migrated_to (copy_id) values (?1)";
const SUCCESSOR: &str = "select copy_id from migrated_to";
/// The table of a store that is set aside, or was about to be.
const MIGRATED_TO: &str = "migrated_to";
const IDS: &str = "select public_id from store order by id desc";
const NEWEST: &str = "select seq, hash from event order by seq desc limit 1";
const VERSION: &str = "select max(version) from migration";

/// The store that a copy is made of, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CopyNote {
    /// The place of the store.
    pub(super) source: String,
    pub(super) store_id: Vec<u8>,
    /// The newest event.
    pub(super) seq: Seq,
    hash: Vec<u8>,
    version: i64,
}

/// What is in a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    Nothing,
    /// A copy that is not the store yet.
    Unfinished {
        note: CopyNote,
        copy_id: Vec<u8>,
        is_verified: bool,
    },
    /// A store, by its ids: the newest, and those of the stores whose backups it was restored from.
    Store(Vec<Vec<u8>>),
}

impl Content {
    /// The content of a database.
    pub(super) fn read(conn: &Connection) -> Result<Self> {
        if connect::has_table(conn, UNFINISHED)? {
            let row = engine::query(READ).one(conn)?;
            let note = CopyNote {
                source: row.get(0)?,
                store_id: row.get(1)?,
                seq: row.get(2)?,
                hash: row.get(3)?,
                version: row.get(4)?,
            };
            return Ok(Self::Unfinished { note, copy_id: row.get(5)?, is_verified: row.get(6)? });
        }
        match connect::has_table(conn, "store")? {
            true => Ok(Self::Store(engine::scalar(IDS).all(conn)?)),
            false => Ok(Self::Nothing),
        }
    }
}

impl CopyNote {
    /// The note about a store in a place.
    pub(super) fn read(conn: &Connection, place: &str) -> Result<Self> {
        let (seq, hash) = match engine::query(NEWEST).optional(conn)? {
            Some(row) => (row.get(0)?, row.get(1)?),
            None => (0, Vec::new()),
        };
        let store_id = engine::scalar(IDS).optional(conn)?.unwrap_or_default();
        let version = engine::scalar(VERSION).one(conn)?;
        Ok(Self { source: place.to_owned(), store_id, seq, hash, version })
    }

    /// Writes the note into a copy that begins, with a new id for the copy.
    pub(super) fn write(&self, conn: &Connection) -> Result<()> {
        conn.make_schema(MAKE)?;
        let Self { source, store_id, seq, hash, version } = self;
        let copy_id = fresh_id().as_bytes().to_vec();
        let written = engine::query(WRITE).bind(source).bind(store_id).bind(*seq).bind(hash).bind(*version);
        written.bind(copy_id).run(conn)
    }
}

/// The id of an unfinished copy.
pub(super) fn copy_id(conn: &Connection) -> Result<Vec<u8>> {
    engine::scalar(COPY_ID).one(conn)
}

/// Notes in a store which copy takes its place, within a transaction of the caller.
pub(super) fn set_successor(conn: &Connection, copy_id: &[u8]) -> Result<()> {
    conn.make_schema(MAKE_SUCCESSOR)?;
    engine::query(WRITE_SUCCESSOR).bind(copy_id).run(conn)
}

/// The copy that took the place of a store that is set aside.
pub(super) fn successor(conn: &Connection) -> Result<Option<Vec<u8>>> {
    match connect::has_table(conn, MIGRATED_TO)? {
        true => engine::scalar(SUCCESSOR).optional(conn),
        false => Ok(None),
    }
}

/// Notes in a copy whether it was compared with its store.
pub(super) fn set_verified(conn: &Connection, is_verified: bool) -> Result<()> {
    let transaction = conn.transaction()?;
    engine::query(SET_VERIFIED).bind(is_verified).run(&transaction)?;
    transaction.commit()
}

/// Makes a copy the store, within a transaction of the caller.
pub(super) fn remove(conn: &Connection) -> Result<()> {
    conn.execute_batch(DROP)
}
