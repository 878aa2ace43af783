//! The objects on a damaged line. A writer that dies leaves the beginning of a record without a line feed, or zeros, and
//! the next record follows on the same line.

use super::raw::Object;
use serde::de::IgnoredAny;
use std::ops::Range;

/// Limit of the bytes that are read in vain for objects of a line, in multiples of its length: nested openings would
/// otherwise take a time that grows with its square.
const READS_MAX: usize = 64;

/// Pieces of a line: its complete objects, and what is between them. A line that is one JSON value, or that has no
/// complete object, is one piece.
pub(super) fn pieces(line: &str) -> Vec<Range<usize>> {
    let whole = 0..line.len();
    if serde_json::from_str::<IgnoredAny>(line).is_ok() {
        return vec![whole];
    }
    let (mut pieces, mut start, mut at) = (Vec::new(), 0, 0);
    let mut left = line.len().saturating_mul(READS_MAX);
    while let Some(found) = line[at..].find('{') {
        let opening = at + found;
        match object(&line[opening..]) {
            Ok((object, length)) => {
                at = opening + length;
                if is_separate(line, start, opening..at, &object) {
                    pieces.extend(fragment(line, start..opening));
                    pieces.push(opening..at);
                    start = at;
                }
            }
            Err(read) if read < left => {
                left -= read;
                at = opening + 1;
            }
            Err(_) => break,
        }
    }
    if start == 0 {
        return vec![whole];
    }
    pieces.extend(fragment(line, start..line.len()));
    pieces
}

/// The object at the beginning of a text and its length, or the number of bytes that show that there is none.
fn object(text: &str) -> Result<(Object<'_>, usize), usize> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Object<'_>>();
    match values.next() {
        Some(Ok(object)) => Ok((object, values.byte_offset())),
        Some(Err(error)) => Err(error.column()),
        None => Err(0),
    }
}

/// True if an object is a record of its own, and no value inside a record whose beginning or end is missing.
fn is_separate(line: &str, start: usize, object: Range<usize>, content: &Object<'_>) -> bool {
    let before = &line[start..object.start];
    let goes_on = line[object.end..].trim_start().starts_with([',', ']', '}']);
    if before.chars().all(|letter| is_blank(letter) || letter == '\0') {
        return !goes_on || is_row(content);
    }
    let inside = goes_on && before.trim_end().ends_with([':', '[', ',']);
    is_row(content) && !inside
}

/// True if an object has the members of a row. Claude Code's progress rows contain messages with a `uuid` and a
/// `timestamp` that are none.
fn is_row(object: &Object<'_>) -> bool {
    let named = ["sessionId", "leafUuid", "messageId"].iter().any(|name| object.id(name).is_some());
    let dated = object.get("timestamp").is_some() && object.get("uuid").is_none();
    object.id("type").is_some() && (named || dated)
}

/// A piece that is no object; none if it is blank.
fn fragment(line: &str, piece: Range<usize>) -> Option<Range<usize>> {
    let text = &line[piece.clone()];
    let end = piece.start + text.trim_end_matches(is_blank).len();
    let start = piece.end - text.trim_start_matches(is_blank).len();
    (start < end).then_some(start..end)
}

/// True for characters that are no content. A byte order mark stands where files were joined.
pub(super) fn is_blank(letter: char) -> bool {
    letter.is_whitespace() || letter == '\u{feff}'
}
