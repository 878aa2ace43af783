//! State of a reader: the lines of the file, the assigned ids, and the problems.

use super::raw::Object;
use super::split;
use super::transcript::{MALFORMED_RECORD, Problem};
use longhand_model::ids::client_id_defect;
use longhand_model::limits;
use longhand_model::message::{MessageKind, NewMessage, Role};
use longhand_model::part::{NewPart, PartBody, Record};
use longhand_model::time::Timestamp;
use longhand_model::usage::Usage;
use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead};

/// Maximum length of a `client_id` in the protocol, in bytes.
pub(super) const CLIENT_ID_BYTES: usize = limits::NAME_BYTES_MAX;

/// Maximum length of a call id in the protocol, in bytes. Some providers encode a whole state in theirs.
const CALL_ID_BYTES: usize = limits::CALL_ID_BYTES_MAX;

/// One line of a file that is not blank, or a piece of a damaged one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Its number, from 1.
    pub(super) number: usize,
    /// The position of its text in the line, from 1, in bytes.
    pub(super) column: usize,
    text: String,
}

impl Line {
    /// Its text, without the line ending.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Its object; an error states the problem and its column.
    pub(super) fn object(&self) -> Result<Object<'_>, String> {
        Object::parse(&self.text, self.column)
    }

    /// Its position in ids: the number of the line, with the column of a later piece.
    pub(super) fn position(&self) -> String {
        if self.column == 1 { self.number.to_string() } else { format!("{}:{}", self.number, self.column) }
    }

    /// Its position as members of a JSON object.
    pub(super) fn position_json(&self) -> String {
        let column = if self.column == 1 { String::new() } else { format!(",\"column\":{}", self.column) };
        format!("\"line\":{}{column}", self.number)
    }
}

/// Reads all lines except blank ones, and damaged ones in pieces; bytes that are not UTF-8 are replaced and reported.
pub(super) fn read_lines(mut reader: impl BufRead) -> io::Result<(Vec<Line>, Vec<Problem>)> {
    let mut lines = Vec::new();
    let mut problems = Vec::new();
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        if reader.read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        let (text, wrong) = decoded(&bytes);
        if let Some(at) = wrong {
            let message = format!("not UTF-8 from byte {at} on: what is not was replaced");
            problems.push(Problem { line: number, message });
        }
        // A byte order mark is no content, and JSON does not allow it.
        let text = text.trim_end_matches(['\n', '\r']).trim_start_matches('\u{feff}');
        if text.chars().all(split::is_blank) {
            continue;
        }
        let pieces = split::pieces(text);
        let objects = pieces.iter().filter(|piece| text[piece.start..].starts_with('{')).count();
        if objects > 1 {
            let message = format!("{objects} objects stand on this line: each is read by itself");
            problems.push(Problem { line: number, message });
        }
        lines.extend(pieces.into_iter().map(|piece| Line {
            number,
            column: piece.start + 1,
            text: text[piece].to_owned(),
        }));
    }
    Ok((lines, problems))
}

/// A line as text, and the position, from 1, of the first byte that is not UTF-8.
///
/// Some writers encode half of a surrogate pair as three bytes, which a Rust string cannot hold; it becomes the
/// equivalent JSON escape, so that nothing is lost.
fn decoded(bytes: &[u8]) -> (String, Option<usize>) {
    let mut text = String::with_capacity(bytes.len());
    let (mut rest, mut wrong) = (bytes, None);
    loop {
        let error = match std::str::from_utf8(rest) {
            Ok(valid) => {
                text.push_str(valid);
                return (text, wrong);
            }
            Err(error) => error,
        };
        let (valid, behind) = rest.split_at(error.valid_up_to());
        text.push_str(&String::from_utf8_lossy(valid));
        if let [0xed, middle @ 0xa0..=0xbf, last @ 0x80..=0xbf, behind @ ..] = behind {
            let unit = 0xd000 | (u32::from(middle & 0x3f) << 6) | u32::from(last & 0x3f);
            text.push_str(&format!("\\u{unit:04x}"));
            rest = behind;
            continue;
        }
        wrong.get_or_insert(bytes.len() - behind.len() + 1);
        text.push('\u{fffd}');
        rest = &behind[error.error_len().unwrap_or(behind.len())..];
    }
}

/// State of a reader while the lines of a file become entries.
#[derive(Debug, Default)]
pub(super) struct NameIndex {
    taken: HashSet<String>,
    calls_taken: HashSet<String>,
    calls: HashMap<String, String>,
    /// The provider's ids of the replies whose usage was read.
    counted: HashSet<String>,
    /// The problems so far.
    pub(super) problems: Vec<Problem>,
}

impl NameIndex {
    /// Creates a state with the problems so far.
    pub(super) fn new(problems: Vec<Problem>) -> Self {
        Self { problems, ..Self::default() }
    }

    /// Reports a problem with a line.
    pub(super) fn report(&mut self, line: &Line, message: impl Into<String>) {
        self.problems.push(Problem { line: line.number, message: message.into() });
    }

    /// Assigns a line's `client_id`: its own id if that can be one and is not in use.
    pub(super) fn claim(&mut self, line: &Line, own: Option<&str>) -> String {
        let by_line = format!("line:{}", line.position());
        let defect = own.and_then(client_id_defect);
        if let Some(defect) = defect {
            self.report(line, format!("its id {defect}: it is now named by its line"));
        }
        let wanted = own.filter(|_| defect.is_none()).unwrap_or(&by_line);
        let id = free(&self.taken, CLIENT_ID_BYTES, wanted, &by_line);
        if id != wanted && wanted.len() > CLIENT_ID_BYTES {
            self.report(line, format!("its id has more than {CLIENT_ID_BYTES} bytes: it is now {id}"));
        } else if id != wanted {
            self.report(line, format!("the id {wanted} is taken by an earlier line: it is now {id}"));
        }
        self.taken.insert(id.clone());
        id
    }

    /// True for the first reply with a provider's id.
    pub(super) fn count_reply(&mut self, provider_id: String) -> bool {
        self.counted.insert(provider_id)
    }

    /// Assigns a tool call's id: its own if that is short enough and no earlier call uses it.
    pub(super) fn call(&mut self, line: &Line, own: &str) -> String {
        let id = free(&self.calls_taken, CALL_ID_BYTES, own, &format!("line:{}", line.position()));
        if id != own && own.len() > CALL_ID_BYTES {
            self.report(line, format!("a call id has more than {CALL_ID_BYTES} bytes: it is now {id}"));
        } else if own.contains('\0') {
            self.report(line, format!("a call id has the character U+0000: it is now {id}"));
        } else if id != own {
            self.report(line, format!("the call id {own} is taken by an earlier call: it is now {id}"));
        }
        self.calls_taken.insert(id.clone());
        self.calls.insert(own.to_owned(), id.clone());
        id
    }

    /// The assigned id of the latest call whose own id was `own`.
    pub(super) fn answered(&mut self, line: &Line, own: &str) -> String {
        match self.calls.get(own) {
            Some(id) => id.clone(),
            // No earlier call has this id, but it must be short enough nevertheless.
            None if own.len() > CALL_ID_BYTES || own.contains('\0') => self.call(line, own),
            None => own.to_owned(),
        }
    }

    /// Reports lines that repeat earlier ones: once, because agents may repeat thousands.
    pub(super) fn report_repetitions(&mut self, lines: &[&Line]) {
        match lines {
            [] => {}
            [line] => self.report(line, "it repeats an earlier line: it is read once"),
            [line, later @ ..] => {
                let later = later.len();
                self.report(line, format!("it repeats an earlier line, as {later} later ones do: each is read once"));
            }
        }
    }

    /// The instant of a line in a member of an object. What is none, or none that the protocol can hold, is reported.
    pub(super) fn time(&mut self, line: &Line, object: &Object<'_>, name: &str) -> Option<Timestamp> {
        let time = object.time(name);
        if time.is_none() && object.get(name).is_some() {
            self.report(line, format!("its {name} is no time between the years 1 and 9999: it is left out"));
        }
        time
    }

    /// A name within the protocol's limits for names.
    pub(super) fn name(&mut self, line: &Line, what: &str, name: String) -> String {
        let within = limits::name_within(&name);
        if *within != name {
            let most = limits::NAME_BYTES_MAX;
            self.report(line, format!("the {what} has more than {most} bytes, or the character U+0000: it is changed"));
        }
        within.into_owned()
    }

    /// The usage of a reply; none if a figure is out of range, which is reported, or if all are zeros, which agents
    /// write for replies that never came.
    pub(super) fn usage(&mut self, line: &Line, usage: Usage) -> Option<Usage> {
        if let Some((field, defect)) = usage.defect() {
            self.report(line, format!("its usage is out of range ({field}: {defect}): it is left out"));
            return None;
        }
        let is_zero = usage.prompt_tokens() == 0 && usage.output == 0 && usage.reasoning == 0;
        (!is_zero || usage.total.is_some_and(|total| total != 0)).then_some(usage)
    }

    /// Reports a line that could not be parsed, and keeps it as a record.
    pub(super) fn malformed(&mut self, line: &Line, message: impl Into<String>) -> NewMessage {
        self.report(line, message);
        let client_id = self.claim(line, None);
        record(client_id, MALFORMED_RECORD, line.text().to_owned(), None)
    }
}

/// An id derived from the wanted one that is short enough and not in use.
fn free(taken: &HashSet<String>, bytes: usize, wanted: &str, by_line: &str) -> String {
    let numbered = (2..=taken.len() + 2).map(|count| format!("{by_line}:{count}"));
    let mut candidates =
        [wanted.to_owned(), format!("{wanted}:{by_line}"), by_line.to_owned()].into_iter().chain(numbered);
    // There is one more candidate than there are ids in use, so that one of them is free.
    candidates.find(|id| id.len() <= bytes && !id.contains('\0') && !taken.contains(id)).unwrap_or_default()
}

pub(super) fn record(client_id: String, kind: &str, data: String, origin_time: Option<Timestamp>) -> NewMessage {
    // The line has all of a kind that is shortened.
    let kind = kind[..kind.floor_char_boundary(limits::NAME_BYTES_MAX)].to_owned();
    NewMessage {
        client_id: Some(client_id),
        kind: MessageKind::Record,
        origin_time,
        ..NewMessage::sealed(Role::System, vec![NewPart::new(PartBody::Record(Record { kind, data }))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: usize) -> Line {
        Line { number, column: 1, text: String::new() }
    }

    #[test]
    fn lines_keep_their_numbers_and_lose_only_their_ends() {
        let bytes = b"\xef\xbb\xbf{}\r\n\n  \n{\"a\":\"\xff\"}\nlast";
        let (lines, problems) = read_lines(&bytes[..]).unwrap();
        let read: Vec<_> = lines.iter().map(|line| (line.number, line.text())).collect();
        assert_eq!(read, [(1, "{}"), (4, "{\"a\":\"\u{fffd}\"}"), (5, "last")]);
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].line, 4);
    }

    #[test]
    fn halves_of_surrogate_pairs_become_the_escapes_that_mean_the_same() {
        for (bytes, expected, wrong) in [
            (&b"\"cut \xed\xa0\xbd\""[..], "\"cut \\ud83d\"", None),
            (b"\"\xed\xa0\xbd\xed\xb8\x80\"", "\"\\ud83d\\ude00\"", None),
            (b"a\xff\xed\xa0\xbdb\xc3", "a\u{fffd}\\ud83db\u{fffd}", Some(2)),
            ("\u{d7ff}\u{e000}".as_bytes(), "\u{d7ff}\u{e000}", None),
        ] {
            assert_eq!(decoded(bytes), (expected.to_owned(), wrong));
        }
        let (_, problems) = read_lines(&b"\"cut \xed\xa0\xbd\""[..]).unwrap();
        assert_eq!(problems, [], "it is no problem of the line");
    }

    #[test]
    fn ids_are_unique_short_and_reported_when_changed() {
        let mut names = NameIndex::default();
        assert_eq!(names.claim(&line(1), Some("a")), "a");
        assert_eq!(names.claim(&line(2), None), "line:2");
        assert!(names.problems.is_empty());
        assert_eq!(names.claim(&line(3), Some("a")), "a:line:3");
        assert_eq!(names.claim(&line(4), Some(&"x".repeat(129))), "line:4");
        assert_eq!(names.claim(&line(5), Some(&"y".repeat(128))), "y".repeat(128));
        assert_eq!(names.claim(&line(6), Some(&"y".repeat(128))), "line:6");
        let lines: Vec<_> = names.problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [3, 4, 6]);
    }

    #[test]
    fn a_file_that_sets_out_to_collide_still_gets_ids() {
        let mut names = NameIndex::default();
        names.claim(&line(1), Some("line:3"));
        names.claim(&line(2), Some("line:3:line:3"));
        assert_eq!(names.claim(&line(3), None), "line:3:2");
        let long = "z".repeat(128);
        names.claim(&line(4), Some(&long));
        names.claim(&line(5), Some("line:9"));
        assert_eq!(names.claim(&line(9), Some(&long)), "line:9:2");
    }

    #[test]
    fn a_repeated_call_id_gets_another_name() {
        let mut names = NameIndex::default();
        assert_eq!(names.call(&line(1), "read:0"), "read:0");
        assert_eq!(names.answered(&line(9), "read:0"), "read:0");
        assert_eq!(names.call(&line(3), "read:0"), "read:0:line:3");
        assert_eq!(names.answered(&line(9), "read:0"), "read:0:line:3");
        assert_eq!(names.answered(&line(9), "other"), "other");
        assert_eq!(names.problems.len(), 1);
        let long = "c".repeat(257);
        assert_eq!(names.call(&line(5), &long), "line:5");
        assert_eq!(names.answered(&line(6), &long), "line:5");
        assert_eq!(names.answered(&line(7), &"d".repeat(257)), "line:7");
        assert_eq!(names.problems.len(), 3);
    }
}
