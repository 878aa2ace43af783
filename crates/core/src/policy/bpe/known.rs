//! Counts of texts that were encoded before. Decisions and views count texts that marks shorten, summaries and passages
//! again and again, and their counts are not stored.

use std::cell::RefCell;

/// Number of places for the counts of a thread. A text has one place; another text with the same place takes it over.
const PLACES: usize = 1 << 14;

/// Bytes of the shortest text that is kept. A shorter one is encoded about as fast as it is found.
const BYTES_MIN: usize = 64;

/// A text in an encoding, by its hash, and its number of tokens.
type KnownCount = ([u8; 16], i64);

thread_local! {
    /// Empty until the first text is kept.
    static PLACES_OF_THREAD: RefCell<Vec<KnownCount>> = const { RefCell::new(Vec::new()) };
}

/// The counts of the newest texts in one encoding. They are kept by thread, so that none waits for another one.
#[derive(Debug)]
pub(super) struct KnownCounts {
    /// The hash of the encoding's tokens.
    encoding: [u8; 32],
}

impl KnownCounts {
    /// The known counts of the encoding with these tokens, in any form.
    pub(super) fn for_encoding(tokens: &[u8]) -> Self {
        Self { encoding: *blake3::hash(tokens).as_bytes() }
    }

    /// The number of tokens of a text, or a smaller one above `enough`. `count` encodes the text, up to a number of
    /// tokens above the one that it gets.
    pub(super) fn count(&self, text: &str, enough: i64, count: impl FnOnce(i64) -> i64) -> i64 {
        if text.len() < BYTES_MIN {
            return count(enough);
        }
        let mut hash = [0; 16];
        hash.copy_from_slice(&blake3::keyed_hash(&self.encoding, text.as_bytes()).as_bytes()[..16]);
        let place = usize::from_le_bytes(std::array::from_fn(|index| hash[index])) % PLACES;
        let known = PLACES_OF_THREAD.with_borrow(|places| places.get(place).copied());
        if let Some((_, tokens)) = known.filter(|(known, tokens)| *known == hash && *tokens > 0) {
            return tokens;
        }
        let tokens = count(enough);
        if tokens <= enough {
            PLACES_OF_THREAD.with_borrow_mut(|places| {
                places.resize(PLACES, KnownCount::default());
                places[place] = (hash, tokens);
            });
        }
        tokens
    }
}
