//! Counts of texts that were encoded before. Decisions and views count texts that marks shorten, summaries and passages
//! again and again, and their counts are not stored.

use std::sync::{Mutex, PoisonError};

/// Number of places for counts. A text has one place; another text with the same place takes it over.
const PLACES: usize = 1 << 14;

/// Bytes of the shortest text that is kept. A shorter one is encoded about as fast as it is found.
const BYTES_MIN: usize = 64;

/// A text, by its hash, and its number of tokens.
type Place = ([u8; 16], i64);

/// The counts of the newest texts.
#[derive(Debug, Default)]
pub(super) struct KnownCounts {
    /// Empty until the first text is kept.
    places: Mutex<Vec<Place>>,
}

impl KnownCounts {
    /// The number of tokens of a text, or a smaller one above `enough`. `count` encodes the text, up to a number of
    /// tokens above the one that it gets.
    pub(super) fn count(&self, text: &str, enough: i64, count: impl FnOnce(i64) -> i64) -> i64 {
        if text.len() < BYTES_MIN {
            return count(enough);
        }
        let mut hash = [0; 16];
        hash.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..16]);
        let place = usize::from_le_bytes(std::array::from_fn(|index| hash[index])) % PLACES;
        let places = || self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tokens)) = places().get(place).filter(|(known, tokens)| *known == hash && *tokens > 0) {
            return *tokens;
        }
        let tokens = count(enough);
        if tokens <= enough {
            let mut places = places();
            places.resize(PLACES, Place::default());
            places[place] = (hash, tokens);
        }
        tokens
    }
}
