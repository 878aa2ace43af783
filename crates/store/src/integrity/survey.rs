//! The rows of a table of a damaged store, by every path that leads to them.
//!
//! A damaged page can make SQLite return fewer rows without an error. So the rows of the table are compared with those of
//! an index, and if the two differ, the table is also read backwards, in ranges and row by row.

use crate::engine::{self, Connection, Row};
use crate::error::{Error, Result};
use crate::limits;
use std::collections::BTreeSet;

/// The paths to the rows of a table. The first column of each statement is the number of the row.
pub(super) struct Paths {
    /// All rows from the first to the last.
    pub(super) forward: &'static str,
    /// All rows from the last to the first.
    pub(super) backward: &'static str,
    /// The rows between two numbers.
    pub(super) range: &'static str,
    /// The last number.
    pub(super) last: &'static str,
    /// All rows by an index alone.
    pub(super) index: &'static str,
}

/// The numbers of the rows that were found.
#[derive(Default)]
pub(super) struct Survey {
    /// Rows of the table.
    pub(super) found: BTreeSet<i64>,
    pub(super) indexed: BTreeSet<i64>,
    /// Rows that cannot be read, although a row may be there.
    pub(super) unread: Vec<(i64, Error)>,
    /// True if the index was read to its end.
    pub(super) is_index_read: bool,
}

impl Survey {
    /// The rows of the table and of the index.
    pub(super) fn all_rows(&self) -> BTreeSet<i64> {
        self.found.union(&self.indexed).copied().collect()
    }
}

/// Reads a table by its paths. `each` gets each row of the table once, and `of_index` each row of the index.
/// `rows_max` is a bound for the number of rows.
pub(super) fn survey(
    conn: &Connection,
    paths: &Paths,
    rows_max: i64,
    each: &mut dyn FnMut(&Row),
    of_index: &mut dyn FnMut(&Row),
) -> Survey {
    let mut survey = Survey::default();
    let (found, indexed) = (&mut survey.found, &mut survey.indexed);
    let index = walk(conn, paths.index, rows_max, indexed, of_index);
    survey.is_index_read = index.is_ok();
    let forward = walk(conn, paths.forward, rows_max, found, each);
    if forward.is_ok() && index.is_ok() && found == indexed {
        return survey;
    }
    drop(walk(conn, paths.backward, rows_max, found, each));
    let last = engine::scalar::<Option<i64>>(paths.last).one(conn);
    let known = [last.as_ref().ok().copied().flatten(), found.last().copied(), indexed.last().copied()];
    let known = known.into_iter().flatten().filter(|last| *last <= rows_max).max();
    let last = if last.is_err() && known.is_none() { rows_max } else { known.unwrap_or(0) };
    let mut take = |row: &Row| {
        if row.get(0).is_ok_and(|id| found.insert(id)) {
            each(row);
        }
    };
    let read = |from: i64, to: i64| engine::query(paths.range).bind(from).bind(to).all(conn);
    for row in ranges(last).flat_map(|range| salvage(range, read)) {
        match row {
            Ok(row) => take(&row),
            Err(unread) => survey.unread.push(unread),
        }
    }
    let missing: Vec<i64> = survey.indexed.difference(&survey.found).copied().collect();
    for id in missing {
        // Its error is found again by whoever reads the row.
        for row in read(id, id).unwrap_or_default() {
            if row.get(0).is_ok_and(|id| survey.found.insert(id)) {
                each(&row);
            }
        }
    }
    survey.unread.retain(|(id, _)| !survey.found.contains(id));
    survey
}

/// Reads all rows of a statement in its order, until one cannot be read; `each` gets those that were not yet found.
fn walk(
    conn: &Connection,
    sql: &str,
    rows_max: i64,
    found: &mut BTreeSet<i64>,
    each: &mut dyn FnMut(&Row),
) -> Result<()> {
    let mut remaining = rows_max;
    engine::query(sql).for_each(conn, |row| {
        if row.get(0).is_ok_and(|id| found.insert(id)) {
            each(&row);
        }
        // A damaged tree may lead to the same rows again and again.
        remaining -= 1;
        remaining > 0
    })
}

/// The ranges in which the rows up to the last one are read.
fn ranges(last: i64) -> impl Iterator<Item = (i64, i64)> {
    let size = limits::PAGE_SIZE_MAX;
    (0..=(last - 1).div_euclid(size)).map(move |index| (index * size + 1, last.min((index + 1) * size)))
}

/// Reads a range of rows, and halves what cannot be read down to single rows. Returns the rows in their order, and the
/// number and the error of each row that cannot be read.
fn salvage<T>(
    (first, last): (i64, i64),
    read: impl Fn(i64, i64) -> Result<Vec<T>>,
) -> Vec<std::result::Result<T, (i64, Error)>> {
    let mut found = Vec::new();
    let mut ranges = vec![(first, last)];
    while let Some((from, to)) = ranges.pop() {
        match read(from, to) {
            Ok(rows) => found.extend(rows.into_iter().map(Ok)),
            Err(error) if from == to => found.push(Err((from, error))),
            Err(_) => {
                let middle = from + (to - from) / 2;
                ranges.extend([(middle + 1, to), (from, middle)]);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_cannot_be_read_cost_no_others() {
        let all = 2_500;
        for bad in [vec![], vec![1], vec![2_500], vec![7, 8, 1_000, 1_001], (1_200..1_300).collect()] {
            let read = |from: i64, to: i64| match bad.iter().find(|row| (from..=to).contains(*row)) {
                Some(row) => Err(Error::corrupt("message", row)),
                // Some numbers have no row.
                None => Ok((from..=to).filter(|row| row % 5 != 0).collect()),
            };
            let found: Vec<_> = ranges(all).flat_map(|range| salvage(range, read)).collect();
            let numbers: Vec<i64> = found.iter().map(|row| *row.as_ref().unwrap_or_else(|(row, _)| row)).collect();
            let expected: Vec<i64> = (1..=all).filter(|row| row % 5 != 0 || bad.contains(row)).collect();
            assert_eq!(numbers, expected, "in their order");
            let lost: Vec<i64> = found.iter().filter_map(|row| Some(row.as_ref().err()?.0)).collect();
            assert_eq!(lost, bad);
        }
        assert_eq!(ranges(0).count(), 0);
    }
}
