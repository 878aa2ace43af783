//! The passage of a text that shows what a query found.

use super::cut::{Form, PlacedWords};
use super::query::Query;
use std::ops::Range;

/// The share of a snippet before its first match: one in this many bytes.
const BEFORE: usize = 4;

/// A passage of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet {
    /// Its bytes in the text.
    pub bytes: Range<usize>,
    /// The bytes that match, in the text and within the passage; ascending and disjoint.
    pub matches: Vec<Range<usize>>,
}

/// The passage of at most about `bytes_max` bytes with the most clues of a query, of equals the first; the beginning of
/// the text if nothing in it matches.
pub fn snippet(query: &Query, text: &str, form: Form, bytes_max: usize) -> Snippet {
    let words = PlacedWords::from_text(text, form);
    let mut places: Vec<(Range<usize>, usize)> = Vec::new();
    for (term, number) in query.clues.iter().zip(0..) {
        places.extend(term.places(&words).into_iter().map(|place| (place, number)));
    }
    places.sort_by_key(|(place, _)| (place.start, place.end));
    let bytes = match best(&places, bytes_max) {
        Some(first) => window(text, first, bytes_max),
        None => 0..shorter(text, bytes_max),
    };
    let within = places.into_iter().map(|(place, _)| place);
    let within = within.filter(|place| bytes.start <= place.start && place.end <= bytes.end);
    let mut matches: Vec<Range<usize>> = Vec::new();
    for place in within {
        match matches.last_mut() {
            Some(last) if place.start < last.end => last.end = last.end.max(place.end),
            _ => matches.push(place),
        }
    }
    Snippet { bytes, matches }
}

/// The match at which the best passage begins.
fn best(places: &[(Range<usize>, usize)], bytes_max: usize) -> Option<Range<usize>> {
    let room = bytes_max - bytes_max / BEFORE;
    let mut best: Option<(usize, usize)> = None;
    // How often each term is in the window, which moves from match to match.
    let mut counts = std::collections::HashMap::<usize, usize>::new();
    let mut end = 0;
    for (index, (first, number)) in places.iter().enumerate() {
        while let Some((place, term)) = places.get(end).filter(|(place, _)| place.end <= first.start + room) {
            debug_assert!(place.start >= first.start);
            *counts.entry(*term).or_default() += 1;
            end += 1;
        }
        end = end.max(index);
        if best.is_none_or(|(_, most)| counts.len() > most) {
            best = Some((index, counts.len()));
        }
        if end > index {
            if let Some(count) = counts.get_mut(number) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(number);
                }
            }
        } else {
            end = index + 1;
        }
    }
    best.map(|(index, _)| places[index].0.clone())
}

/// The passage around a match, from a word's begin to a word's end if possible.
fn window(text: &str, first: Range<usize>, bytes_max: usize) -> Range<usize> {
    let earliest = text.ceil_char_boundary(first.start.saturating_sub(bytes_max / BEFORE));
    let is_blank = |character: char| character.is_whitespace();
    let start = match earliest {
        0 => 0,
        _ => {
            let before = &text[earliest..first.start];
            before
                .find(is_blank)
                .map_or(earliest, |at| earliest + at + before[at..].chars().next().map_or(0, char::len_utf8))
        }
    };
    // A match longer than the passage is shown whole: it is as long as a query.
    let latest = text.floor_char_boundary((start + bytes_max).max(first.end).min(text.len()));
    let end = if latest == text.len() {
        latest
    } else {
        let behind = &text[first.end..latest];
        behind.rfind(is_blank).map_or(latest, |at| first.end + at)
    };
    start..end
}

/// The length of the beginning of a text.
fn shorter(text: &str, bytes_max: usize) -> usize {
    text.floor_char_boundary(bytes_max.min(text.len()))
}
