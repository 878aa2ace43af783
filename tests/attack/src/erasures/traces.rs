//! What content leaves in files: words that nothing else has, and pieces of its compressed form, which is known because
//! the same text is always compressed to the same bytes.

use anyhow::Result;
use memchr::memmem;
use rand::Rng;
use rand::seq::IndexedRandom as _;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use zstd::bulk::Compressor;
use zstd::dict::EncoderDictionary;

/// The letters of a marker, which those of its sign are not among.
const LETTERS: &[u8; 16] = b"bcdfghklmnprstvw";
/// The sign in each marker. An index of words stores the beginning that a word shares with the one before it only once,
/// so letters that nothing shares come first.
const SIGN: &str = "zqj";
const LETTERS_BEFORE: usize = 6;
/// The letters behind the sign, by which a marker is known.
const LETTERS_BEHIND: usize = 15;
/// Common words among markers, so that texts become shorter when they are compressed.
const WORDS: [&str; 12] =
    ["the", "parser", "fails", "when", "a", "cursor", "stands", "behind", "error:", "src/main.rs", "test", "\n"];

/// The letters of a marker behind its sign.
pub(super) type Marker = [u8; LETTERS_BEHIND];
/// Some bytes of a compressed text.
pub(super) type Print = u128;

/// Bytes of a text from which bodies are compressed; the fields that a text is stored in, by their number.
const COMPRESSED_BYTES_MIN: usize = 64;
const TEXT_FIELD: u8 = 2 << 3 | 2;
/// The store's dictionary and level.
const DICTIONARY: &[u8] = include_bytes!("../../../../src/store/ledger/codec/dictionary.txt");
const LEVEL: i32 = 1;
static ENCODER: LazyLock<EncoderDictionary<'_>> = LazyLock::new(|| EncoderDictionary::copy(DICTIONARY, LEVEL));
/// Bytes of a print.
const PRINT_BYTES: usize = size_of::<Print>();
/// Bytes of a compressed text before its first print: headers and the table of its letters, which texts share.
const HEADER_BYTES: usize = 48;
/// Prints of a text at most, and the bytes from one to the next at least.
const PRINTS_MAX: usize = 64;
const STRIDE: usize = 16;
/// Bytes of a print that no text has, at least: words that are stored as they are stand in other texts, too.
const OTHER_BYTES_MIN: usize = 5;
/// The bits of the filter that is asked for each offset of a file.
const FILTER_BITS: u32 = 22;

/// A text with a marker in each of its lines of about a hundred bytes.
pub(super) fn text(rng: &mut impl Rng, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 64);
    while text.len() < bytes.max(1) {
        let mut letters = |many: usize| -> String {
            (0..many).map(|_| char::from(LETTERS[rng.random_range(0..LETTERS.len())])).collect()
        };
        text.push_str(&format!("{}{SIGN}{}", letters(LETTERS_BEFORE), letters(LETTERS_BEHIND)));
        for _ in 0..rng.random_range(2..14) {
            text.push(' ');
            text.push_str(WORDS.choose(rng).copied().unwrap_or("word"));
        }
        text.push(' ');
    }
    text
}

/// The markers in some bytes, with their offsets.
fn markers(bytes: &[u8]) -> impl Iterator<Item = (usize, Marker)> {
    memmem::find_iter(bytes, SIGN).filter_map(move |at| {
        let letters: &Marker = bytes.get(at + SIGN.len()..)?.first_chunk()?;
        letters.iter().all(|letter| LETTERS.contains(letter)).then_some((at, *letters))
    })
}

/// What a piece of content leaves.
#[derive(Debug, Clone, Default)]
pub(super) struct Trace {
    pub(super) markers: Vec<Marker>,
    pub(super) prints: Vec<Print>,
}

/// A file with traces: its path, its bytes, and what was found in them.
pub(super) type Traced = (PathBuf, Vec<u8>, Vec<Found>);

impl Trace {
    /// What a text leaves that is compressed with other bytes, or not at all.
    pub(super) fn of_words(text: &str) -> Self {
        Self { markers: markers(text.as_bytes()).map(|(_, marker)| marker).collect(), prints: Vec::new() }
    }

    /// What a part leaves that is this text.
    pub(super) fn of_text(text: &str) -> Result<Self> {
        let mut plain = vec![TEXT_FIELD];
        let mut length = text.len();
        while length >= 0x80 {
            plain.push(u8::try_from(length & 0x7f)? | 0x80);
            length >>= 7;
        }
        plain.push(u8::try_from(length)?);
        plain.extend_from_slice(text.as_bytes());
        let mut trace = Self::of_words(text);
        if plain.len() >= COMPRESSED_BYTES_MIN {
            let packed = Compressor::with_prepared_dictionary(&ENCODER)?.compress(&plain)?;
            let stride = (packed.len() / PRINTS_MAX).max(STRIDE);
            let prints = (HEADER_BYTES..packed.len()).step_by(stride);
            trace.prints = prints.filter_map(|at| print(&packed, at)).collect();
        }
        Ok(trace)
    }

    /// Adds what another piece leaves.
    pub(super) fn extend(&mut self, other: &Self) {
        self.markers.extend(&other.markers);
        self.prints.extend(&other.prints);
    }
}

fn print(bytes: &[u8], at: usize) -> Option<Print> {
    let chunk: &[u8; PRINT_BYTES] = bytes.get(at..)?.first_chunk()?;
    let others = chunk.iter().filter(|byte| !byte.is_ascii_graphic() && !byte.is_ascii_whitespace() && **byte != 0);
    (others.count() >= OTHER_BYTES_MIN).then(|| Print::from_le_bytes(*chunk))
}

/// Traces that are looked for, each with the number of what left it.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    markers: HashMap<Marker, usize>,
    prints: HashMap<Print, usize>,
    /// A bit for each print, by its hash.
    filter: Vec<u64>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { markers: HashMap::new(), prints: HashMap::new(), filter: vec![0; 1 << (FILTER_BITS - 6)] }
    }
}

fn bit(print: Print) -> (usize, u64) {
    let [low, high] = [print & Print::from(u64::MAX), print >> 64].map(|half| u64::try_from(half).unwrap_or(0));
    let hash = (low ^ high.rotate_left(23)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - FILTER_BITS);
    (usize::try_from(hash >> 6).unwrap_or(0), 1 << (hash & 63))
}

/// A trace in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) offset: usize,
    /// The number of what left it.
    pub(super) of: usize,
    /// True for a print.
    pub(super) is_compressed: bool,
}

impl Wanted {
    /// Looks for this trace from now on.
    pub(super) fn add(&mut self, trace: &Trace, of: usize) {
        self.markers.extend(trace.markers.iter().map(|marker| (*marker, of)));
        for print in &trace.prints {
            self.prints.insert(*print, of);
            let (word, mask) = bit(*print);
            self.filter[word] |= mask;
        }
    }

    /// The traces in some bytes.
    fn find(&self, bytes: &[u8]) -> Vec<Found> {
        let plain = markers(bytes).filter_map(|(offset, marker)| {
            let of = *self.markers.get(&marker)?;
            Some(Found { offset, of, is_compressed: false })
        });
        let mut found: Vec<Found> = plain.collect();
        if self.prints.is_empty() {
            return found;
        }
        let mut print: Print = 0;
        for (last, byte) in bytes.iter().enumerate() {
            print = print >> 8 | Print::from(*byte) << (8 * (PRINT_BYTES - 1));
            let (word, mask) = bit(print);
            if self.filter[word] & mask != 0
                && let Some(of) = self.prints.get(&print)
                && last >= PRINT_BYTES - 1
            {
                found.push(Found { offset: last + 1 - PRINT_BYTES, of: *of, is_compressed: true });
            }
        }
        found
    }

    /// The traces in all files of a folder and of those below it, with the files and their bytes.
    pub(super) fn in_files(&self, folder: &Path) -> io::Result<Vec<Traced>> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                all.extend(self.in_files(&entry.path())?);
            }
            if !kind.is_file() {
                continue;
            }
            match std::fs::read(entry.path()) {
                Ok(bytes) => {
                    let found = self.find(&bytes);
                    all.push((entry.path(), bytes, found));
                }
                // A log that is removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_as_it_is_and_compressed() {
        let mut rng = crate::seed::generator(7, "traces");
        let (erased, other) = (text(&mut rng, 3_000), text(&mut rng, 3_000));
        let trace = Trace::of_text(&erased).expect("compressed");
        assert!(trace.markers.len() > 20 && trace.prints.len() > 20, "{trace:?}");
        let mut wanted = Wanted::default();
        wanted.add(&trace, 5);
        let plain = format!("before {erased} after").into_bytes();
        let found = wanted.find(&plain);
        assert_eq!(found.len(), trace.markers.len());
        assert!(found.iter().all(|found| found.of == 5 && !found.is_compressed));
        let bytes: Vec<u8> = trace.prints.iter().flat_map(|print| print.to_le_bytes()).collect();
        assert!(wanted.find(&bytes).iter().filter(|found| found.is_compressed).count() >= trace.prints.len());
        assert_eq!(wanted.find(other.as_bytes()), []);
    }
}
