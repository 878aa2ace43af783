//! Standard output of commands: lines, styles, JSON.
//!
//! All output passes through this module. It escapes control characters, so that no text can command the terminal or
//! leave its line, whoever wrote it; `--raw` prints texts as they are.

use super::json;
use crate::pb;
use crate::telemetry::escape;
use anstyle::{AnsiColor, Style};
use prost::{Message, Name};
use serde::Serialize;
use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Style of plain text.
pub(super) const PLAIN: Style = Style::new();
/// Style of headings.
pub(super) const HEADING: Style = Style::new().bold();
/// Style of what is less important than the text beside it.
pub(super) const DIMMED: Style = Style::new().dimmed();
/// Style of success.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// Style of failure.
pub(super) const BAD: Style = AnsiColor::Red.on_default();
/// Style of what has not ended.
pub(super) const PENDING: Style = AnsiColor::Yellow.on_default();

/// Width assumed for a terminal that does not state its own.
const COLUMNS_DEFAULT: usize = 80;

/// Minimum columns of a text that is wrapped.
const WRAPPED_COLUMNS_MIN: usize = 20;

/// Standard output as text or JSON. It is flushed at the end of a command, and where a reader waits for output.
pub(super) struct Output {
    json: bool,
    raw: bool,
    styled: bool,
    columns: Option<usize>,
    writer: BufWriter<Stdout>,
}

impl Output {
    /// Standard output: as JSON if `json` is set, without escaping of texts if `raw` is set.
    pub(super) fn new(json: bool, raw: bool, color: clap::ColorChoice) -> Self {
        let stdout = io::stdout();
        let styled = match color {
            clap::ColorChoice::Always => true,
            clap::ColorChoice::Never => false,
            // `auto` follows NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM.
            clap::ColorChoice::Auto => anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never,
        };
        let size = terminal_size::terminal_size_of(&stdout).map(|(columns, _)| usize::from(columns.0));
        let columns = stdout.is_terminal().then(|| size.filter(|&columns| columns > 0).unwrap_or(COLUMNS_DEFAULT));
        Self { json, raw, styled: styled && !json, columns, writer: BufWriter::new(stdout) }
    }

    /// True if the output is JSON.
    pub(super) fn json(&self) -> bool {
        self.json
    }

    /// Width of the terminal; none if standard output is no terminal, and nothing is shortened.
    pub(super) fn columns(&self) -> Option<usize> {
        self.columns
    }

    /// Prints a line of pieces, each in its style if the output has styles.
    pub(super) fn styled_line<T: AsRef<str>>(&mut self, pieces: &[(Style, T)]) -> io::Result<()> {
        pieces.iter().try_for_each(|(style, text)| self.piece(*style, text.as_ref()))?;
        writeln!(self.writer)
    }

    /// Prints a piece of a line in a style. It does not end the line, whatever the text contains.
    pub(super) fn piece(&mut self, style: Style, text: &str) -> io::Result<()> {
        let text = if self.raw { text.into() } else { escape::line(text) };
        if self.styled { write!(self.writer, "{style}{text}{style:#}") } else { write!(self.writer, "{text}") }
    }

    /// Prints a line. It stays one line, whatever the text contains.
    pub(super) fn line(&mut self, text: &str) -> io::Result<()> {
        if self.raw { writeln!(self.writer, "{text}") } else { writeln!(self.writer, "{}", escape::line(text)) }
    }

    /// Prints a line; on a terminal, one that is too long is wrapped at words and indented by `margin` from its second
    /// line on.
    pub(super) fn wrapped_line(&mut self, text: &str, margin: &str) -> io::Result<()> {
        let Some(columns) = self.columns else { return self.line(text) };
        let options = textwrap::Options::new(columns).subsequent_indent(margin).break_words(false);
        textwrap::wrap(text, options).iter().try_for_each(|line| self.line(line))
    }

    /// Prints a dimmed beginning of a line and a text beside it; on a terminal, a long text is wrapped at words and stays
    /// beside the beginning.
    pub(super) fn line_beside(&mut self, beginning: &str, style: Style, text: &str) -> io::Result<()> {
        let mut beginning = beginning.to_owned();
        for line in wrapped(text, self.columns.map(|columns| columns.saturating_sub(beginning.width()))) {
            self.styled_line(&[(DIMMED, &beginning), (style, &line)])?;
            beginning = " ".repeat(beginning.width());
        }
        Ok(())
    }

    /// Prints a text that may have several lines and need not end one. The caller makes sure that no line of foreign
    /// text can pass for one of its own.
    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        if self.raw { write!(self.writer, "{text}") } else { write!(self.writer, "{}", escape::lines(text)) }
    }

    /// Prints a text as `text` does, in a style.
    pub(super) fn styled_text(&mut self, style: Style, text: &str) -> io::Result<()> {
        if !self.styled {
            return self.text(text);
        }
        write!(self.writer, "{style}")?;
        self.text(text)?;
        write!(self.writer, "{style:#}")
    }

    /// Prints foreign text with its lines, indented, so that none of them passes for a heading.
    pub(super) fn block(&mut self, text: &str) -> io::Result<()> {
        indented(text, "  ").iter().try_for_each(|line| self.line(line))
    }

    /// Prints a message of the protocol as JSON, on one line.
    pub(super) fn message<M: Message + Name>(&mut self, message: &M) -> anyhow::Result<()> {
        self.json_line(&json::encode(message)?)
    }

    /// Prints the answer of a change: as JSON, or else this line about it.
    pub(super) fn answer<M: Message + Name>(&mut self, answer: &M, line: &str) -> anyhow::Result<()> {
        if self.json { self.message(answer) } else { Ok(self.line(line)?) }
    }

    /// Prints a value of the command line's own as JSON, on one line.
    pub(super) fn value<T: Serialize>(&mut self, value: &T) -> anyhow::Result<()> {
        self.json_line(&serde_json::to_string(value)?)
    }

    /// Prints JSON on one line, with control characters escaped: programs parse the same value, and a terminal is not
    /// commanded.
    pub(super) fn json_line(&mut self, json: &str) -> anyhow::Result<()> {
        Ok(writeln!(self.writer, "{}", escape::json(json))?)
    }

    /// Flushes the lines printed so far.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// The lines of a text that is wrapped at words, and within words that are too long, if there is a maximum number of
/// columns.
pub(super) fn wrapped(text: &str, columns: Option<usize>) -> Vec<String> {
    let Some(columns) = columns else { return vec![text.to_owned()] };
    let options = textwrap::Options::new(columns.max(WRAPPED_COLUMNS_MIN));
    textwrap::wrap(text, options).into_iter().map(Cow::into_owned).collect()
}

/// Lines of a text, indented by a margin. Empty lines are not indented.
pub(super) fn indented(text: &str, margin: &str) -> Vec<String> {
    text.lines().map(|line| if line.is_empty() { String::new() } else { format!("{margin}{line}") }).collect()
}

/// Width of a text on a terminal, in columns: letters of East Asian scripts and emoji take two.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// A text on one line: each run of white space is one blank.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text on one line of at most `width_max` columns; `…` marks omitted text.
pub(super) fn shorten(text: &str, width_max: usize) -> String {
    truncate(&one_line(text), width_max)
}

/// The beginning of a line, of at most `width_max` columns; `…` marks omitted text.
pub(super) fn truncate(line: &str, width_max: usize) -> String {
    if width(line) <= width_max {
        return line.to_owned();
    }
    let mut remaining = width_max.saturating_sub(1);
    let fits = |letter: &char| {
        let left = remaining.checked_sub(letter.width().unwrap_or(0));
        remaining = left.unwrap_or(0);
        left.is_some()
    };
    let mut short: String = line.chars().take_while(fits).collect();
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

/// Time of day of an instant, in UTC, to the second.
pub(super) fn clock_time(time: Option<&prost_types::Timestamp>) -> String {
    instant(time).map_or_else(|| "-".to_owned(), |time| time.strftime("%H:%M:%S").to_string())
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

/// Millionths of a US dollar as dollars and cents; below a cent, with two digits more.
pub(super) fn dollars(micros: i64) -> String {
    let digits = if micros.abs() < 10_000 { 4 } else { 2 };
    format!("${:.digits$}", micros as f64 / 1e6)
}

/// A number of things: `1 message`, `2 messages`.
pub(super) fn count(number: impl Into<i64>, thing: &str) -> String {
    let number = number.into();
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// The reason for which a view exceeds its window, as text.
pub(super) fn over_window_text(reason: &pb::OverWindow) -> String {
    match &reason.wait_end_time {
        Some(end) => format!("{}; it begins {} anyway", reason.message, time(Some(end))),
        None => reason.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_shortened_to_one_line() {
        for (text, width_max, expected) in [
            ("a\n  b", 10, "a b"),
            ("abcdef", 6, "abcdef"),
            ("abcdefg", 6, "abcde…"),
            ("äöüß", 3, "äö…"),
            ("", 3, ""),
            ("漢字漢字", 8, "漢字漢字"),
            ("漢字漢字", 6, "漢字…"),
            ("漢字漢字", 7, "漢字漢…"),
        ] {
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
