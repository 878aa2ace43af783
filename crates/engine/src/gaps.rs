//! Copies of rows in the gaps of SQLite's pages.
//!
//! SQLite overwrites a row that it deletes (`secure_delete`), but not the copies that it leaves when it distributes the
//! rows of some pages anew: behind the pointers to the rows of a page is a gap, and a page that is built again keeps there
//! what was there before. A row can have been moved long before it is erased, so that an erasure concerns all pages. The
//! first one since the start of the daemon looks at each of them, and from then on the log says which ones were written.
//!
//! Pages are read and written by the table `sqlite_dbpage`, through the connection's cache and log. So readers and
//! crashes see ordinary writes. Only unused bytes change.

use super::connection::Connection;
use super::sqlite::PAGE_BYTES;
use super::statement;
use crate::error::{Error, Result};
use crate::limits;
use rusqlite::types::ValueRef;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::LazyLock;

const PAGE_COUNT: &str = "pragma page_count";
const AUTO_VACUUM: &str = "pragma auto_vacuum";
const COUNT_FRAMES: &str = "pragma wal_checkpoint(noop)";
const READ: &str = "select data from sqlite_dbpage where pgno = ?1";
const WRITE: &str = "update sqlite_dbpage set data = ?2 where pgno = ?1";
const HAS_TABLE: &str = "select sqlite_compileoption_used('ENABLE_DBPAGE_VTAB')";

/// Bytes of a page.
const PAGE: usize = PAGE_BYTES as usize;
/// The first page begins with the header of the database.
const DATABASE_HEADER: usize = 100;
/// The page with the bytes that SQLite locks.
const LOCK_PAGE: u32 = 0x4000_0000 / PAGE_BYTES + 1;
/// The entries on a page of the map that files have from which pages can be given back, each for one of the pages behind it.
const MAP_ENTRIES: u32 = PAGE_BYTES / 5;
/// From this number of pages on (128 GiB), the number of a page can begin like a page with rows does.
const PAGES_MAX: u32 = 1 << 25;
/// The headers of the log and of each page in it.
const LOG_HEADER: usize = 32;
const SALTS: u64 = 16;
const FRAME_HEADER: usize = 24;

/// True if this build's SQLite has `sqlite_dbpage`: a build without the flags of `.cargo/config.toml` lacks it.
pub fn can_be_cleaned() -> bool {
    static HAS: LazyLock<bool> = LazyLock::new(|| {
        let has = Connection::open(":memory:").and_then(|conn| statement::scalar::<i64>(HAS_TABLE).one(&conn));
        matches!(has, Ok(1))
    });
    *HAS
}

fn two_bytes(page: &[u8], at: usize) -> usize {
    page.get(at..at + 2).map_or(0, |bytes| usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
}

/// Overwrites the unused bytes of a page with rows: its gap, and its free blocks behind their headers. False if nothing
/// changed, and for a page without rows or a damaged one.
fn clean_page(page: &mut [u8], is_first: bool) -> bool {
    let header = if is_first { DATABASE_HEADER } else { 0 };
    let header_bytes = match page.get(header) {
        Some(2 | 5) => 12,
        Some(10 | 13) => 8,
        _ => return false,
    };
    let pointers_end = header + header_bytes + 2 * two_bytes(page, header + 3);
    let rows = match two_bytes(page, header + 5) {
        0 => 1 << 16,
        rows => rows,
    };
    if pointers_end > rows || rows > page.len() {
        return false;
    }
    let mut is_changed = overwrite(&mut page[pointers_end..rows]);
    let (mut block, mut behind) = (two_bytes(page, header + 1), rows);
    while block >= behind && block + 4 <= page.len() {
        let (next, end) = (two_bytes(page, block), block + two_bytes(page, block + 2));
        if end < block + 4 || end > page.len() {
            break;
        }
        is_changed |= overwrite(&mut page[block + 4..end]);
        (block, behind) = (next, end);
    }
    is_changed
}

fn overwrite(bytes: &mut [u8]) -> bool {
    let is_changed = bytes.iter().any(|byte| *byte != 0);
    if is_changed {
        bytes.fill(0);
    }
    is_changed
}

/// True for a page without rows by its number: one of the map, or the one that is locked.
fn is_map(number: u32, has_map: bool) -> bool {
    if number == LOCK_PAGE {
        return true;
    }
    let Some(behind_first) = number.checked_sub(2) else { return false };
    let map = behind_first / (MAP_ENTRIES + 1) * (MAP_ENTRIES + 1) + 2;
    has_map && number == if map == LOCK_PAGE { map + 1 } else { map }
}

/// The pages whose gaps are still to be read. It relies on the owner having the only connection that writes or makes
/// checkpoints.
#[derive(Debug)]
pub struct Gaps {
    /// This page and those behind it are to be looked at.
    next: u32,
    /// Others that were written since they were looked at.
    written: BTreeSet<u32>,
    /// How much of the log is noted; none before the first page is looked at.
    noted: Option<LogPosition>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LogPosition {
    /// The salts of the log's header: a counter and a random number, new each time that the log restarts. None before
    /// the first frame.
    salts: Option<[u8; 8]>,
    frames: u32,
}

impl Default for Gaps {
    /// Nothing is known of any page.
    fn default() -> Self {
        Self { next: 1, written: BTreeSet::new(), noted: None }
    }
}

/// The number of frames in the log of a connection.
fn count_frames(conn: &Connection) -> Result<u32> {
    let row = statement::query(COUNT_FRAMES).one(conn)?;
    Ok(u32::try_from(row.get::<i64>(1)?).unwrap_or(0))
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

fn frame_at(frame: u32) -> u64 {
    LOG_HEADER as u64 + u64::from(frame) * (FRAME_HEADER + PAGE) as u64
}

impl Gaps {
    /// Notes from the log which pages were written, before a checkpoint lets the log restart. Free until the first
    /// erasure.
    pub fn note(&mut self, conn: &Connection, log: &File) {
        let Some(noted) = self.noted else { return };
        let written = count_frames(conn).and_then(|frames| self.read_log(noted, frames, log));
        match written {
            Ok(()) if self.written.len() <= limits::ERASE_PAGES_NOTED_MAX => {}
            Ok(()) => *self = Self::default(),
            Err(error) => {
                tracing::debug!(%error, "which pages were written is not known");
                *self = Self::default();
            }
        }
    }

    fn read_log(&mut self, noted: LogPosition, frames: u32, log: &File) -> Result<()> {
        let failed = |error: io::Error| Error::Database(error.to_string());
        if frames == 0 {
            return Ok(());
        }
        let salts = salts(log).map_err(failed)?;
        let from = match noted.salts {
            None => 0,
            Some(before) if before == salts && frames >= noted.frames => noted.frames,
            Some(before) if number(&salts, 0).wrapping_sub(number(&before, 0)) == 1 => 0,
            // Another program has made a checkpoint.
            Some(_) => return Err(Error::Database("the log is another one".to_owned())),
        };
        let mut header = [0; FRAME_HEADER];
        for frame in from..frames {
            log.read_exact_at(&mut header, frame_at(frame)).map_err(failed)?;
            if header[8..16] != salts {
                return Err(Error::Database("the log has frames of an earlier one".to_owned()));
            }
            self.written.insert(number(&header, 0));
        }
        self.noted = Some(LogPosition { salts: Some(salts), frames });
        Ok(())
    }

    /// Looks at some pages that are left, and overwrites their gaps, in a transaction of its own. True if none is left. What
    /// was written before is noted, and `log` is none for a file that nobody writes until the last one is looked at.
    pub fn clean(&mut self, conn: &Connection, log: Option<&File>) -> Result<bool> {
        if let Some(log) = log {
            self.note(conn, log);
            if self.noted.is_none() {
                self.noted = Some(newest(conn, log)?);
            }
        }
        let transaction = conn.transaction()?;
        let pages = u32::try_from(statement::scalar::<i64>(PAGE_COUNT).one(&transaction)?).unwrap_or(PAGES_MAX);
        if pages >= PAGES_MAX {
            return Err(Error::Database("a file of 128 GiB cannot be cleaned of what was erased".to_owned()));
        }
        let has_map = statement::scalar::<i64>(AUTO_VACUUM).one(&transaction)? != 0;
        let next = self.next;
        let numbers = self.written.iter().copied().filter(|number| *number < next.min(pages + 1));
        let numbers = numbers.chain(next..=pages);
        let (mut looked_at, mut changed) = (Vec::new(), 0);
        for number in numbers.take(limits::ERASE_PAGES_READ) {
            if !is_map(number, has_map) {
                changed += usize::from(clean_one(&transaction, number)?);
            }
            looked_at.push(number);
            if changed >= limits::ERASE_PAGES_WRITTEN {
                break;
            }
        }
        transaction.commit()?;
        for number in looked_at {
            self.written.remove(&number);
            if number == self.next {
                self.next += 1;
            }
        }
        if changed > 0
            && let Some(log) = log
        {
            // The log has only the pages that this step wrote.
            self.noted = Some(newest(conn, log)?);
        }
        self.written.retain(|number| *number <= pages);
        Ok(self.next > pages && self.written.is_empty())
    }
}

/// The position in the log behind its last frame.
fn newest(conn: &Connection, log: &File) -> Result<LogPosition> {
    match count_frames(conn)? {
        0 => Ok(LogPosition { salts: None, frames: 0 }),
        frames => {
            let salts = salts(log).map_err(|error| Error::Database(error.to_string()))?;
            Ok(LogPosition { salts: Some(salts), frames })
        }
    }
}

/// What the frames of the log have in common, by its header.
fn salts(log: &File) -> io::Result<[u8; 8]> {
    let mut salts = [0; 8];
    log.read_exact_at(&mut salts, SALTS)?;
    Ok(salts)
}

/// Overwrites the gaps of a page. False if there is nothing in them.
fn clean_one(conn: &Connection, number: u32) -> Result<bool> {
    let conn = conn.sqlite()?;
    let page = conn.prepare_cached(READ)?.query_row([number], |row| {
        let ValueRef::Blob(page) = row.get_ref(0)? else { return Ok(None) };
        let mut page = page.to_vec();
        Ok(clean_page(&mut page, number == 1).then_some(page))
    })?;
    let Some(page) = page else { return Ok(false) };
    conn.prepare_cached(WRITE)?.execute((number, page))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Letters that nothing else has.
    const MARK: &str = "zqjmarked";

    fn has_mark(bytes: &[u8]) -> bool {
        bytes.windows(MARK.len()).any(|window| window == MARK.as_bytes())
    }

    /// A database with a log in a folder, whose rows grew until pages were divided, and then lost what is marked.
    fn filled(folder: &std::path::Path) -> Connection {
        let conn = Connection::open(folder.join("a.db")).expect("a database");
        conn.execute_batch(
            "pragma auto_vacuum = incremental; pragma journal_mode = wal; pragma wal_autocheckpoint = 0; \
             pragma secure_delete = on; create table a (id integer primary key, text text); \
             create table b (text text primary key) without rowid",
        )
        .expect("tables");
        grow(&conn, 1);
        conn
    }

    /// Rows that are inserted in no order, grow, and are erased.
    fn grow(conn: &Connection, from: i64) {
        for round in 0..400_i64 {
            let id = from + round * 7_919 % 4_001;
            let text = format!("{MARK} {id} {}", "word ".repeat(usize::try_from(round % 40).unwrap_or(0)));
            statement::query("insert or replace into a values (?1, ?2)")
                .bind(id)
                .bind("short")
                .run(conn)
                .expect("a row");
            statement::query("update a set text = ?2 where id = ?1").bind(id).bind(&text).run(conn).expect("it grows");
            statement::query("insert or replace into b values (?1)").bind(&text).run(conn).expect("a row");
        }
        for statement in ["update a set text = 'gone' where text like 'zqj%'", "delete from b"] {
            statement::query(statement).run(conn).expect("erased");
        }
    }

    fn in_files(folder: &std::path::Path) -> bool {
        ["a.db", "a.db-wal"].iter().any(|name| std::fs::read(folder.join(name)).is_ok_and(|bytes| has_mark(&bytes)))
    }

    fn empty(conn: &Connection) {
        let is_empty = super::super::checkpoint::empty_log(conn, Duration::ZERO, Duration::ZERO);
        assert!(is_empty.expect("a checkpoint"), "nobody reads");
    }

    fn clean(gaps: &mut Gaps, conn: &Connection, log: Option<&File>) -> usize {
        let mut steps = 1;
        while !gaps.clean(conn, log).expect("a step") {
            steps += 1;
        }
        steps
    }

    fn check(conn: &Connection) {
        let found: String = statement::scalar("pragma integrity_check").one(conn).expect("a check");
        assert_eq!(found, "ok");
        let rows: i64 = statement::scalar("select count(*) from a where text = 'gone'").one(conn).expect("a count");
        assert!(rows > 0, "the rows are there");
    }

    #[test]
    fn this_build_can_clean_files() {
        assert!(can_be_cleaned(), "build with the flags of .cargo/config.toml");
    }

    #[test]
    fn what_is_erased_is_left_in_gaps_and_is_overwritten_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let conn = filled(folder.path());
        empty(&conn);
        assert!(in_files(folder.path()), "SQLite leaves copies");
        clean(&mut Gaps::default(), &conn, None);
        empty(&conn);
        assert!(!in_files(folder.path()), "none is left");
        check(&conn);
    }

    #[test]
    fn the_log_says_which_pages_were_written_since() {
        let folder = tempfile::tempdir().expect("a folder");
        let conn = filled(folder.path());
        let log = File::open(folder.path().join("a.db-wal")).expect("the log");
        let mut gaps = Gaps::default();
        clean(&mut gaps, &conn, Some(&log));
        empty(&conn);
        assert!(!in_files(folder.path()));
        for round in 0..4 {
            grow(&conn, 10_000 * round);
            gaps.note(&conn, &log);
            if round == 1 {
                // The next write begins the log anew.
                statement::query("pragma wal_checkpoint(passive)").one(&conn).expect("a checkpoint");
            }
            assert!(gaps.next > 1 && !gaps.written.is_empty(), "only these are looked at: {gaps:?}");
            if round != 1 {
                clean(&mut gaps, &conn, Some(&log));
                empty(&conn);
                assert!(!in_files(folder.path()), "round {round}");
                check(&conn);
            }
        }
        // A stranger's checkpoint, and what it hides.
        grow(&conn, 1);
        empty(&conn);
        grow(&conn, 1);
        empty(&conn);
        statement::query("delete from b").run(&conn).expect("a write");
        gaps.note(&conn, &log);
        assert_eq!(gaps.next, 1, "everything is looked at again");
        clean(&mut gaps, &conn, Some(&log));
        empty(&conn);
        assert!(!in_files(folder.path()));
        check(&conn);
    }

    #[test]
    fn a_page_keeps_its_header_its_rows_and_the_chain_of_its_free_blocks() {
        let mut page = vec![7; PAGE];
        page[..8].copy_from_slice(&[13, 0x0f, 0x00, 0, 2, 0x0e, 0x00, 0]);
        page[0xf00..0xf04].copy_from_slice(&[0x0f, 0x80, 0, 0x10]);
        page[0xf80..0xf84].copy_from_slice(&[0, 0, 0, 0x80]);
        let before = page.clone();
        assert!(clean_page(&mut page, false));
        assert_eq!(page[..12], before[..12], "header and pointers");
        assert!(page[12..0xe00].iter().all(|byte| *byte == 0), "the gap");
        assert_eq!(page[0xe00..0xf04], before[0xe00..0xf04], "rows");
        assert!(page[0xf04..0xf10].iter().chain(&page[0xf84..]).all(|byte| *byte == 0), "free blocks");
        assert_eq!(page[0xf10..0xf84], before[0xf10..0xf84]);
        assert!(!clean_page(&mut page, false), "nothing is left to do");
        for (at, byte) in [(0, 4), (3, 0xff), (5, 0xff)] {
            let mut other = before.clone();
            other[at] = byte;
            let damaged = other.clone();
            assert!(!clean_page(&mut other, false), "a page without rows, or a damaged one");
            assert_eq!(other, damaged);
        }
    }

    #[test]
    fn pages_of_the_map_are_left_as_they_are() {
        let maps: Vec<u32> = (1..=1_700).filter(|number| is_map(*number, true)).collect();
        assert_eq!(maps, [2, 822, 1_642]);
        assert!(!is_map(2, false) && is_map(LOCK_PAGE, false));
        let around: Vec<u32> = (LOCK_PAGE - 900..LOCK_PAGE + 900).filter(|number| is_map(*number, true)).collect();
        assert_eq!(around, [261_582, LOCK_PAGE, 262_402]);
    }
}
