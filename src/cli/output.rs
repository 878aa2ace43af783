//! Standard output of commands: lines, tables, JSON.
//!
//! All output passes through this module. It escapes control characters, so that no text can command the terminal or
//! leave its line, whoever wrote it; `--raw` prints texts as they are.

use super::json;
use crate::telemetry::escape;
use prost::{Message, Name};
use serde::Serialize;
use std::io::{self, BufWriter, Stdout, Write};

/// Standard output as text or JSON. It is flushed at the end of a command, and where a reader waits for output.
pub(super) struct Output {
    json: bool,
    raw: bool,
    writer: BufWriter<Stdout>,
}

impl Output {
    /// Standard output: as JSON if `json` is set, without escaping of texts if `raw` is set.
    pub(super) fn new(json: bool, raw: bool) -> Self {
        Self { json, raw, writer: BufWriter::new(io::stdout()) }
    }

    /// True if the output is JSON.
    pub(super) fn json(&self) -> bool {
        self.json
    }

    /// Prints a line. It stays one line, whatever the text contains.
    pub(super) fn line(&mut self, text: &str) -> io::Result<()> {
        if self.raw { writeln!(self.writer, "{text}") } else { writeln!(self.writer, "{}", escape::line(text)) }
    }

    /// Prints a text that may have several lines and need not end one. The caller makes sure that no line of foreign
    /// text can pass for one of its own.
    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        if self.raw { write!(self.writer, "{text}") } else { write!(self.writer, "{}", escape::lines(text)) }
    }

    /// Prints foreign text with its lines, indented, so that none of them passes for a heading.
    pub(super) fn block(&mut self, text: &str) -> io::Result<()> {
        indented(text, "  ").iter().try_for_each(|line| self.line(line))
    }

    /// Prints a message of the protocol as JSON, on one line.
    pub(super) fn message<M: Message + Name>(&mut self, message: &M) -> anyhow::Result<()> {
        self.json_line(&json::encode(message)?)
    }

    /// Prints a value of the command line's own as JSON, on one line.
    pub(super) fn value<T: Serialize>(&mut self, value: &T) -> anyhow::Result<()> {
        self.json_line(&serde_json::to_string(value)?)
    }

    /// Prints JSON on one line, with control characters escaped: programs parse the same value, and a terminal is not
    /// commanded.
    fn json_line(&mut self, json: &str) -> anyhow::Result<()> {
        Ok(writeln!(self.writer, "{}", escape::json(json))?)
    }

    /// Flushes the lines printed so far.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// Rows under headings, with columns as wide as their widest entry.
pub(super) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub(super) fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with an entry for each column.
    ///
    /// Control characters are escaped here, so that they count for the column width.
    pub(super) fn row(&mut self, entries: Vec<String>) {
        self.rows.push(entries.iter().map(|entry| escape::line(entry).into_owned()).collect());
    }

    /// Lines of the table, headings first.
    pub(super) fn lines(&self) -> Vec<String> {
        let headings: Vec<String> = self.columns.iter().map(|(heading, _)| (*heading).to_owned()).collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|index| self.all(&headings).map(|row| width(&row[index])).max().unwrap_or(0))
            .collect();
        self.all(&headings).map(|row| self.line(row, &widths)).collect()
    }

    fn all<'a>(&'a self, headings: &'a Vec<String>) -> impl Iterator<Item = &'a Vec<String>> {
        std::iter::once(headings).chain(&self.rows)
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((entry, width_max), (_, align)) in row.iter().zip(widths).zip(&self.columns) {
            let padding = " ".repeat(width_max - width(entry));
            match align {
                Align::Left => line.extend([entry, &padding, "  "]),
                Align::Right => line.extend([&padding, entry, "  "]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }

    /// Prints the table.
    pub(super) fn print(&self, output: &mut Output) -> io::Result<()> {
        self.lines().iter().try_for_each(|line| output.line(line))
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// Lines of a text, indented by a margin. Empty lines are not indented.
pub(super) fn indented(text: &str, margin: &str) -> Vec<String> {
    text.lines().map(|line| if line.is_empty() { String::new() } else { format!("{margin}{line}") }).collect()
}

/// A text on one line of at most `width_max` characters; `…` marks omitted text.
pub(super) fn shorten(text: &str, width_max: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if width(&line) <= width_max {
        return line;
    }
    let mut short: String = line.chars().take(width_max.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// An instant, in UTC, to the second; `-` for none.
pub(super) fn time(time: Option<&prost_types::Timestamp>) -> String {
    instant(time).map_or_else(|| "-".to_owned(), |time| time.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
}

/// Time of day of an instant, in UTC, to the millisecond.
pub(super) fn time_of_day(time: Option<&prost_types::Timestamp>) -> String {
    instant(time).map_or_else(|| "-".to_owned(), |time| time.strftime("%H:%M:%S%.3f").to_string())
}

fn instant(time: Option<&prost_types::Timestamp>) -> Option<jiff::Timestamp> {
    time.and_then(|time| jiff::Timestamp::new(time.seconds, time.nanos).ok())
}

/// Readable name of an enum value, without its prefix: `ROLE_USER` is `user`.
pub(super) fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).replace('_', " ").to_lowercase()
}

/// Bytes as hex digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Tokens and their share of the window.
pub(super) fn context_usage(tokens: i64, window_tokens: i64) -> String {
    if window_tokens <= 0 {
        return format!("{tokens} tokens, no window known");
    }
    format!("{tokens} of {window_tokens} tokens ({} %)", tokens.saturating_mul(100) / window_tokens)
}

/// Millionths of a US dollar as dollars.
pub(super) fn dollars(micros: i64) -> String {
    format!("${}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// A number of things: `1 message`, `2 messages`.
pub(super) fn count(number: i64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_their_widest_entry() {
        let mut table = Table::new(&[("NAME", Align::Left), ("TOKENS", Align::Right), ("TITLE", Align::Left)]);
        table.row(vec!["a".into(), "7".into(), "fé".into()]);
        table.row(vec!["longer".into(), "1234567".into(), String::new()]);
        assert_eq!(table.lines(), ["NAME     TOKENS  TITLE", "a             7  fé", "longer  1234567"]);
    }

    #[test]
    fn long_texts_are_shortened_to_one_line() {
        for (text, width_max, expected) in
            [("a\n  b", 10, "a b"), ("abcdef", 6, "abcdef"), ("abcdefg", 6, "abcde…"), ("äöüß", 3, "äö…"), ("", 3, "")]
        {
            assert_eq!(shorten(text, width_max), expected);
        }
    }

    #[test]
    fn instants_are_printed_in_utc() {
        let instant = prost_types::Timestamp { seconds: 1_700_000_000, nanos: 250_000_000 };
        assert_eq!(time(Some(&instant)), "2023-11-14 22:13:20Z");
        assert_eq!(time_of_day(Some(&instant)), "22:13:20.250");
        assert_eq!(time(None), "-");
    }

    #[test]
    fn small_things_read_well() {
        assert_eq!(word("FINISH_REASON_TOOL_CALLS", "FINISH_REASON_"), "tool calls");
        assert_eq!(hex(&[0, 171]), "00ab");
        assert_eq!(context_usage(32_000, 64_000), "32000 of 64000 tokens (50 %)");
        assert_eq!(context_usage(5, 0), "5 tokens, no window known");
        assert_eq!((count(1, "part"), count(0, "part")), ("1 part".to_owned(), "0 parts".to_owned()));
    }
}
