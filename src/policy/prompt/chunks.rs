//! Cutting a transcript into pieces that fit a window.

use super::data::{ends_line, from_cut};
use super::{GAP, MARGIN};

/// How many tokens a text may have in the worst ordinary case.
///
/// What a model's own tokenizer says is not known here. Code and JSON have about three ASCII characters to a token,
/// other scripts up to one token a character; so a text that fits by this measure fits in fact, but for rare ones, which
/// the provider then refuses.
pub fn weight(text: &str) -> i64 {
    let (ascii, others) =
        text.chars().fold(
            (0_i64, 0_i64),
            |(ascii, others), letter| {
                if letter.is_ascii() { (ascii + 1, others) } else { (ascii, others + 1) }
            },
        );
    ascii.saturating_add(2) / 3 + others
}

/// The least that a piece holds: a margin and a character, so that every cut makes progress.
const ROOM_MIN: i64 = 2;

/// Joins entries into pieces of at most `room`, in order. An entry that is larger by itself is cut, at the end of a
/// line where there is one; where there is none, what follows the cut has a margin. Nothing is left out.
pub fn chunks(entries: &[String], room: i64) -> Vec<String> {
    let room = room.max(ROOM_MIN);
    let mut pieces = Vec::new();
    let mut piece = String::new();
    let mut used = 0;
    for entry in entries {
        let gap = if piece.is_empty() { 0 } else { weight(GAP) };
        let needed = weight(entry);
        if used + gap + needed <= room {
            if !piece.is_empty() {
                piece.push_str(GAP);
            }
            piece.push_str(entry);
            used += gap + needed;
            continue;
        }
        if !piece.is_empty() {
            pieces.push(std::mem::take(&mut piece));
        }
        // The margin in front of what is left of a line counts too.
        let mut rest = entry.as_str();
        let mut margin = "";
        while weight(rest) + weight(margin) > room {
            let (front, back) = split(rest, room - weight(margin));
            pieces.push(format!("{margin}{front}"));
            margin = if front.ends_with(ends_line) { "" } else { MARGIN };
            rest = back;
        }
        piece = format!("{margin}{rest}");
        used = weight(&piece);
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

/// The same in at most `pieces_max` pieces: the middle of long entries is left out until that is enough.
pub fn condensed(entries: &[String], room: i64, pieces_max: usize) -> Vec<String> {
    let mut longest = room.max(1);
    // Room for the note about what is left out.
    let inner = room.saturating_sub(weight(STRETCH)).max(1);
    loop {
        let short: Vec<String> = entries.iter().map(|entry| without_middle(entry, longest)).collect();
        let pieces = chunks(&short, inner);
        if pieces.len() <= pieces_max.max(1) {
            return pieces;
        }
        if longest <= LEAST_ENTRY {
            return thinned(pieces, pieces_max.max(1));
        }
        longest /= 2;
    }
}

/// What stands where whole pieces are missing.
const STRETCH: &str = "[... a long stretch is left out here ...]\n\n";

/// What is left of a long entry at least, in tokens.
const LEAST_ENTRY: i64 = 24;

/// The first pieces and the last ones, and a word about those between. The end matters more: it is what the work
/// stands on.
fn thinned(mut pieces: Vec<String>, pieces_max: usize) -> Vec<String> {
    let dropped = pieces.len().saturating_sub(pieces_max);
    let from = pieces_max / 4;
    pieces.drain(from..from + dropped);
    if let Some(next) = pieces.get_mut(from) {
        next.insert_str(0, STRETCH);
    }
    pieces
}

/// An entry of about `longest` tokens: its beginning and its end, and a word about what is missing.
fn without_middle(entry: &str, longest: i64) -> String {
    let Some((head, note, middle, tail)) = ends(entry, longest) else { return entry.to_owned() };
    format!("{head}\n{note}\n{}", from_cut(middle, tail))
}

/// The same of a text that has no margins yet, such as a summary of a piece.
pub fn note_without_middle(text: &str, longest: i64) -> String {
    let Some((head, note, _, tail)) = ends(text, longest) else { return text.to_owned() };
    format!("{head}\n{note}\n{tail}")
}

/// The beginning and the end of a text that is too long, with what is said of its middle, and that.
fn ends(text: &str, longest: i64) -> Option<(&str, String, &str, &str)> {
    if weight(text) <= longest {
        return None;
    }
    let (head, rest) = prefix(text, (longest / 2).max(1));
    let tail = suffix(rest, (longest / 3).max(1));
    let middle = rest.strip_suffix(tail).unwrap_or_default();
    let note = format!("[... {} characters are left out here ...]", middle.chars().count());
    // Where nothing is left of the middle, the tail follows the head.
    Some((head, note, if middle.is_empty() { head } else { middle }, tail))
}

/// Splits a text that is too long: as much as fits, and the rest. Both ends make progress.
fn split(text: &str, room: i64) -> (&str, &str) {
    let (most, rest) = prefix(text, room);
    // A cut at a line's end is worth a quarter of the piece.
    match most.rfind('\n') {
        Some(at) if at + 1 > most.len() / 4 * 3 => text.split_at(at + 1),
        Some(_) | None => (most, rest),
    }
}

/// The longest start of a text that weighs at most `room`, but one character at least, and the rest.
fn prefix(text: &str, room: i64) -> (&str, &str) {
    let mut measure = Measure::default();
    for (at, letter) in text.char_indices() {
        measure.add(letter);
        if measure.weight() > room && at > 0 {
            return text.split_at(at);
        }
    }
    (text, "")
}

/// The longest end of a text that weighs at most `room`.
fn suffix(text: &str, room: i64) -> &str {
    let mut measure = Measure::default();
    for (at, letter) in text.char_indices().rev() {
        measure.add(letter);
        if measure.weight() > room {
            return text.get(at + letter.len_utf8()..).unwrap_or_default();
        }
    }
    text
}

/// [`weight`], one character at a time.
#[derive(Default)]
struct Measure {
    ascii: i64,
    others: i64,
}

impl Measure {
    fn add(&mut self, letter: char) {
        if letter.is_ascii() {
            self.ascii += 1;
        } else {
            self.others += 1;
        }
    }

    fn weight(&self) -> i64 {
        (self.ascii + 2) / 3 + self.others
    }
}
