//! Gives pages that erasures freed back to the system, in small steps between commits.

use super::connection::Connection;
use super::statement;
use crate::error::Result;
use crate::limits;

const PAGES: &str = "pragma page_count";
const FREE: &str = "pragma freelist_count";

/// The number of free pages that are given back next; none while new content needs them soon, or while they are few.
fn step_pages(pages: i64, free: i64) -> Option<i64> {
    let kept_pages = (pages / limits::SHRINK_KEPT_FRACTION).max(limits::SHRINK_KEPT_PAGES);
    (free > kept_pages).then(|| (free - kept_pages).min(limits::SHRINK_STEP_PAGES))
}

/// Gives pages back in a number of steps at most; `goes_on` is asked before each step but the first. Returns the number of
/// pages. A file that was made without this ability keeps its size.
pub(super) fn run(conn: &Connection, mut steps: u32, goes_on: impl Fn() -> bool) -> Result<i64> {
    let mut given_back = 0;
    loop {
        let (pages, free) = (statement::scalar(PAGES).one(conn)?, statement::scalar::<i64>(FREE).one(conn)?);
        let Some(step) = step_pages(pages, free) else { return Ok(given_back) };
        // The pragma gives back one page for each row that is read.
        statement::query(&format!("pragma incremental_vacuum({step})")).for_each(conn, |_| true)?;
        let now: i64 = statement::scalar(FREE).one(conn)?;
        given_back += free - now;
        steps = steps.saturating_sub(1);
        if now == free || steps == 0 || !goes_on() {
            return Ok(given_back);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_database_becomes_smaller_in_steps() {
        let folder = tempfile::tempdir().expect("a folder");
        let conn = Connection::open(folder.path().join("a.db")).expect("a database");
        let fill = "pragma auto_vacuum = incremental; create table a (b blob); \
             insert into a select zeroblob(4000) from (with recursive n (i) as \
             (select 1 union all select i + 1 from n where i < 3000) select i from n); delete from a where rowid > 10";
        conn.execute_batch(fill).expect("filled and emptied");
        let pages = || statement::scalar::<i64>(PAGES).one(&conn).expect("a count");
        let before = pages();
        assert_eq!(run(&conn, 1, || true).expect("a step"), limits::SHRINK_STEP_PAGES);
        assert_eq!(pages(), before - limits::SHRINK_STEP_PAGES);
        assert_eq!(run(&conn, 9, || false).expect("a step"), limits::SHRINK_STEP_PAGES, "it stops when it is told to");
        run(&conn, u32::MAX, || true).expect("all steps");
        let free: i64 = statement::scalar(FREE).one(&conn).expect("a count");
        assert_eq!(free, limits::SHRINK_KEPT_PAGES);
        assert_eq!(run(&conn, u32::MAX, || true).expect("nothing"), 0);
    }

    #[test]
    fn pages_are_given_back_down_to_what_new_content_needs_soon() {
        let kept = limits::SHRINK_KEPT_PAGES;
        for (pages, free, expected) in [
            (0, 0, None),
            (kept * 2, kept, None),
            (kept * 2, kept + 1, Some(1)),
            (kept * 2, kept * 2, Some(limits::SHRINK_STEP_PAGES.min(kept))),
            (1_000_000, 1_000_000 / limits::SHRINK_KEPT_FRACTION, None),
            (1_000_000, 900_000, Some(limits::SHRINK_STEP_PAGES)),
        ] {
            assert_eq!(step_pages(pages, free), expected, "{free} of {pages}");
        }
    }
}
