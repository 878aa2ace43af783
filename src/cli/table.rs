//! Tables that fit the terminal.
//!
//! Crates for tables wrap long cells; here a row is one line: columns are left out by rank, and texts end in `…`.

use super::output::{DIMMED, HEADING, Output, PLAIN, truncate, width};
use crate::telemetry::escape;
use anstyle::Style;
use std::io;

/// Minimum width of a column whose entries are shortened, in columns of the terminal.
const WIDTH_MIN: usize = 24;
/// Blanks between two columns.
const GAP: usize = 2;

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    heading: &'static str,
    align: Align,
    shrinks: bool,
    rank: u8,
    style: fn(&str) -> Style,
}

impl Column {
    /// A column of short words that are never shortened, such as ids.
    pub(super) fn word(heading: &'static str) -> Self {
        Self { heading, align: Align::Left, shrinks: false, rank: 0, style: |_| PLAIN }
    }

    /// A column of numbers.
    pub(super) fn number(heading: &'static str) -> Self {
        Self { align: Align::Right, ..Self::word(heading) }
    }

    /// A column of texts, which are shortened if the table is wider than the terminal.
    pub(super) fn text(heading: &'static str) -> Self {
        Self { shrinks: true, ..Self::word(heading) }
    }

    /// The same column, left out if the table is wider than the terminal. The highest rank is left out first.
    pub(super) fn optional(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    /// The same column, with a style for each entry.
    pub(super) fn styled(self, style: fn(&str) -> Style) -> Self {
        Self { style, ..self }
    }
}

/// Rows under headings. Columns are as wide as their widest entry; on a terminal, the table is at most as wide as that.
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

/// A line in pieces of one style each.
type Line = Vec<(Style, String)>;

impl Table {
    /// A table without rows.
    pub(super) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with an entry for each column.
    ///
    /// Control characters are escaped here, so that they count for the column width.
    pub(super) fn row(&mut self, entries: Vec<String>) {
        self.rows.push(entries.iter().map(|entry| escape::line(entry).into_owned()).collect());
    }

    /// Lines of the table as plain text, headings first, at most this wide; unshortened without a width.
    #[cfg(test)]
    pub(super) fn lines(&self, columns: Option<usize>) -> Vec<String> {
        let text = |line: Line| line.into_iter().map(|(_, text)| text).collect();
        self.styled_lines(&self.fit(columns)).into_iter().map(text).collect()
    }

    /// Prints the table. Headings of columns that are left out are named below it.
    pub(super) fn print(&self, output: &mut Output) -> io::Result<()> {
        let fit = self.fit(output.columns());
        self.styled_lines(&fit).iter().try_for_each(|line| output.styled_line(line))?;
        let left_out: Vec<String> = (0..self.columns.len())
            .filter(|index| fit.iter().all(|(shown, _)| shown != index))
            .map(|index| self.columns[index].heading.to_lowercase())
            .collect();
        if left_out.is_empty() {
            return Ok(());
        }
        let note = format!("not shown, for lack of width: {}", left_out.join(", "));
        output.styled_line(&[(DIMMED, truncate(&note, output.columns().unwrap_or(usize::MAX)))])
    }

    /// The shown columns with their widths.
    fn fit(&self, columns: Option<usize>) -> Vec<(usize, usize)> {
        let widest = |index: usize| {
            let entries = self.rows.iter().map(|row| width(&row[index]));
            entries.chain([width(self.columns[index].heading)]).max().unwrap_or(0)
        };
        let mut shown: Vec<(usize, usize)> = (0..self.columns.len()).map(|index| (index, widest(index))).collect();
        let Some(width) = columns else { return shown };
        let total = |shown: &[(usize, usize)]| shown.iter().map(|(_, width)| width + GAP).sum::<usize>();
        let least = |&(index, widest): &(usize, usize)| {
            let least = if self.columns[index].shrinks { widest.min(WIDTH_MIN) } else { widest };
            (index, least)
        };
        while total(&shown.iter().map(least).collect::<Vec<_>>()) > width + GAP {
            let rank = |&(index, _): &(usize, usize)| self.columns[index].rank;
            let Some(last) = shown.iter().map(rank).max().filter(|&rank| rank > 0) else { break };
            shown.retain(|column| rank(column) != last);
        }
        // The widest text gives way first.
        while total(&shown) > width + GAP {
            let excess = total(&shown) - width - GAP;
            let shrinking = shown.iter_mut().filter(|(index, width)| self.columns[*index].shrinks && *width > 1);
            let mut widths: Vec<&mut usize> = shrinking.map(|(_, width)| width).collect();
            widths.sort_unstable_by_key(|width| std::cmp::Reverse(**width));
            let second = widths.get(1).map_or(1, |width| **width);
            let Some(first) = widths.first_mut() else { break };
            let step = excess.min((**first - second).max(1)).min(**first - 1);
            **first -= step;
        }
        shown
    }

    fn styled_lines(&self, fit: &[(usize, usize)]) -> Vec<Line> {
        let headings = fit.iter().map(|&(index, width)| (index, width, self.columns[index].heading, HEADING)).collect();
        let rows = self.rows.iter().map(|row| {
            let entry = |&(index, width): &(usize, usize)| {
                (index, width, row[index].as_str(), (self.columns[index].style)(&row[index]))
            };
            fit.iter().map(entry).collect::<Vec<_>>()
        });
        std::iter::once(headings).chain(rows).map(|cells| self.line(&cells)).collect()
    }

    fn line(&self, cells: &[(usize, usize, &str, Style)]) -> Line {
        let mut line = Line::new();
        let mut gap = 0;
        for &(index, width_max, entry, style) in cells {
            let entry = truncate(entry, width_max);
            let padding = width_max.saturating_sub(width(&entry));
            let (before, after) = match self.columns[index].align {
                Align::Left => (gap, padding),
                Align::Right => (gap + padding, 0),
            };
            gap = after + GAP;
            if !entry.is_empty() {
                line.extend([(PLAIN, " ".repeat(before)), (style, entry)]);
            } else {
                gap += before;
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Table {
        let mut table = Table::new(&[Column::word("NAME"), Column::number("TOKENS"), Column::text("TITLE")]);
        table.row(vec!["a".into(), "7".into(), "fé".into()]);
        table.row(vec!["longer".into(), "1234567".into(), String::new()]);
        table
    }

    #[test]
    fn columns_are_aligned_by_their_widest_entry() {
        assert_eq!(names().lines(None), ["NAME     TOKENS  TITLE", "a             7  fé", "longer  1234567"]);
    }

    #[test]
    fn letters_of_two_columns_count_as_two() {
        let mut table = Table::new(&[Column::text("TITLE"), Column::number("N")]);
        table.row(vec!["潮汐表".into(), "1".into()]);
        table.row(vec!["tides".into(), "2".into()]);
        assert_eq!(table.lines(None), ["TITLE   N", "潮汐表  1", "tides   2"]);
        let mut long = Table::new(&[Column::text("TITLE"), Column::number("N")]);
        long.row(vec!["潮汐表".repeat(9), "1".into()]);
        assert_eq!(long.lines(Some(20)), ["TITLE              N", "潮汐表潮汐表潮汐…  1"]);
    }

    #[test]
    fn the_widest_texts_give_way_to_the_terminal() {
        let mut table = Table::new(&[Column::word("ID"), Column::text("A"), Column::text("B")]);
        table.row(vec!["x".repeat(10), "a".repeat(60), "b".repeat(20)]);
        for (columns, a, b) in [(94, 60, 20), (60, 26, 20), (46, 16, 16), (30, 8, 8)] {
            let lines = table.lines(Some(columns));
            let widths: Vec<usize> = lines[1].split_whitespace().map(width).collect();
            assert_eq!(widths, [10, a, b], "{columns}: {lines:?}");
            assert!(lines.iter().all(|line| width(line) <= columns), "{columns}: {lines:?}");
        }
    }

    #[test]
    fn optional_columns_are_left_out_in_their_order() {
        let mut table = Table::new(&[
            Column::word("ID"),
            Column::word("FIRST").optional(1),
            Column::number("SECOND").optional(2),
            Column::text("TEXT"),
        ]);
        table.row(vec!["id".into(), "1".into(), "2".into(), "t".repeat(30)]);
        for (columns, headings) in [(60, "ID FIRST SECOND TEXT"), (40, "ID FIRST TEXT"), (30, "ID TEXT"), (3, "ID …")]
        {
            let heading = table.lines(Some(columns)).remove(0);
            assert_eq!(heading.split_whitespace().collect::<Vec<_>>().join(" "), headings, "{columns}");
        }
    }

    #[test]
    fn control_characters_count_as_they_are_printed() {
        let mut table = Table::new(&[Column::text("A"), Column::word("B")]);
        table.row(vec!["\u{1b}".into(), "b".into()]);
        assert_eq!(table.lines(None), ["A       B", "\\u{1b}  b"]);
    }
}
