//! Splits a transcript into pieces that fit a window.

use super::data::{GAP, MARGIN, after_split, ends_line};

/// Upper estimate of the tokens of a text in ordinary cases.
///
/// The count of a model's own tokenizer is not known here. Code and JSON have about three ASCII characters to a token,
/// other scripts up to one token a character; so a text that fits by this estimate almost always fits in fact. If one
/// does not, the provider refuses it.
pub fn estimated_tokens(text: &str) -> i64 {
    let (ascii, others) =
        text.chars().fold(
            (0_i64, 0_i64),
            |(ascii, others), letter| {
                if letter.is_ascii() { (ascii + 1, others) } else { (ascii, others + 1) }
            },
        );
    ascii.saturating_add(2) / 3 + others
}

/// The smallest size of a piece, in tokens: a margin and a character, so that every split makes progress.
const ROOM_MIN: i64 = 2;

/// Joins entries into pieces of at most `room` tokens, in order. An entry that is larger by itself is split, at the end
/// of a line if possible; otherwise the text after the split has a margin. Nothing is left out.
pub fn chunks(entries: &[String], room: i64) -> Vec<String> {
    let room = room.max(ROOM_MIN);
    let mut pieces = Vec::new();
    let mut piece = String::new();
    let mut used = 0;
    for entry in entries {
        let gap = if piece.is_empty() { 0 } else { estimated_tokens(GAP) };
        let needed = estimated_tokens(entry);
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
        // The margin before the rest of a line counts too.
        let mut rest = entry.as_str();
        let mut margin = "";
        while estimated_tokens(rest) + estimated_tokens(margin) > room {
            let (front, back) = split(rest, room - estimated_tokens(margin));
            pieces.push(format!("{margin}{front}"));
            margin = if front.ends_with(ends_line) { "" } else { MARGIN };
            rest = back;
        }
        piece = format!("{margin}{rest}");
        used = estimated_tokens(&piece);
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

/// The same in at most `pieces_max` pieces: the middle of long entries is left out, and if that is not enough, whole
/// pieces.
pub fn condensed(entries: &[String], room: i64, pieces_max: usize) -> Vec<String> {
    let mut longest = room.max(1);
    // Room for the note about omitted pieces.
    let inner = room.saturating_sub(estimated_tokens(OMITTED_PIECES)).max(1);
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

/// Text in place of omitted pieces.
const OMITTED_PIECES: &str = "[... a long stretch is left out here ...]\n\n";

/// Size down to which long entries are shortened, in tokens.
const LEAST_ENTRY: i64 = 24;

/// Keeps the first and the last pieces, with a note in place of those between. More of the end is kept: the current
/// work depends on it.
fn thinned(mut pieces: Vec<String>, pieces_max: usize) -> Vec<String> {
    let dropped = pieces.len().saturating_sub(pieces_max);
    let from = pieces_max / 4;
    pieces.drain(from..from + dropped);
    if let Some(next) = pieces.get_mut(from) {
        next.insert_str(0, OMITTED_PIECES);
    }
    pieces
}

/// An entry shortened to about `longest` tokens: its beginning, a note about the omitted middle, and its end.
fn without_middle(entry: &str, longest: i64) -> String {
    let Some((head, note, middle, tail)) = ends(entry, longest) else { return entry.to_owned() };
    format!("{head}\n{note}\n{}", after_split(middle, tail))
}

/// The same for a text without margins, such as a summary of a piece.
pub fn note_without_middle(text: &str, longest: i64) -> String {
    let Some((head, note, _, tail)) = ends(text, longest) else { return text.to_owned() };
    format!("{head}\n{note}\n{tail}")
}

/// The beginning of a text that is too long, the note about its middle, the middle, and its end.
fn ends(text: &str, longest: i64) -> Option<(&str, String, &str, &str)> {
    if estimated_tokens(text) <= longest {
        return None;
    }
    let (head, rest) = prefix(text, (longest / 2).max(1));
    let tail = suffix(rest, (longest / 3).max(1));
    let middle = rest.strip_suffix(tail).unwrap_or_default();
    let note = format!("[... {} characters are left out here ...]", middle.chars().count());
    // If the middle is empty, the end follows the beginning.
    Some((head, note, if middle.is_empty() { head } else { middle }, tail))
}

/// Splits a text that is too long into as much as fits, at least one character, and the rest.
fn split(text: &str, room: i64) -> (&str, &str) {
    let (most, rest) = prefix(text, room);
    // To split at the end of a line, the first piece may be up to a quarter shorter.
    match most.rfind('\n') {
        Some(at) if at + 1 > most.len() / 4 * 3 => text.split_at(at + 1),
        Some(_) | None => (most, rest),
    }
}

/// The longest beginning of a text with at most `room` tokens, but at least one character, and the rest.
fn prefix(text: &str, room: i64) -> (&str, &str) {
    let mut measure = Measure::default();
    for (at, letter) in text.char_indices() {
        measure.add(letter);
        if measure.tokens() > room && at > 0 {
            return text.split_at(at);
        }
    }
    (text, "")
}

/// The longest end of a text with at most `room` tokens.
fn suffix(text: &str, room: i64) -> &str {
    let mut measure = Measure::default();
    for (at, letter) in text.char_indices().rev() {
        measure.add(letter);
        if measure.tokens() > room {
            return text.get(at + letter.len_utf8()..).unwrap_or_default();
        }
    }
    text
}

/// [`estimated_tokens`], one character at a time.
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

    fn tokens(&self) -> i64 {
        (self.ascii + 2) / 3 + self.others
    }
}
