//! What content leaves in files: words that nothing else has, and pieces of its compressed form, which is known because
//! the same text is always compressed to the same bytes.

use anyhow::Result;
use memchr::memmem;
use rand::Rng;
use rand::seq::IndexedRandom as _;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
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

/// The field that a text is stored in.
const TEXT_FIELD: u8 = 2 << 3 | 2;
/// The store's dictionary and level.
const TABLES: &[u8] = include_bytes!("../../../../crates/store/src/ledger/codec/dictionary.tables");
const DICTIONARY: &[u8] = include_bytes!("../../../../crates/store/src/ledger/codec/dictionary.txt");
const LEVEL: i32 = 1;
static ENCODER: LazyLock<EncoderDictionary<'_>> =
    LazyLock::new(|| EncoderDictionary::copy(&[TABLES, DICTIONARY].concat(), LEVEL));
/// Bytes of a print.
const PRINT_BYTES: usize = size_of::<Print>();
/// Bytes of the three tables that the repetitions of a compressed text begin with.
const SEQUENCE_TABLES_BYTES: usize = 64;
/// Prints of a text at most, and the bytes from one to the next at least.
const PRINTS_MAX: usize = 64;
const STRIDE: usize = 16;
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
pub(super) type Traced = (PathBuf, Vec<u8>, Vec<FileTrace>);

impl Trace {
    /// What a text leaves that is compressed with other bytes, or not at all.
    pub(super) fn of_words(text: &str) -> Self {
        Self { markers: markers(text.as_bytes()).map(|(_, marker)| marker).collect(), prints: Vec::new() }
    }

    /// What a part leaves that is this text.
    pub(super) fn of_text(text: &str) -> Result<Self> {
        let mut trace = Self::of_words(text);
        let packed = packed(text)?;
        let stride = (packed.len() / PRINTS_MAX).max(STRIDE);
        for range in own_ranges(&packed).into_iter().flatten() {
            trace.prints.extend(range.step_by(stride).filter_map(|at| print(&packed, at)));
        }
        Ok(trace)
    }

    /// Adds what another piece leaves.
    pub(super) fn extend(&mut self, other: &Self) {
        self.markers.extend(&other.markers);
        self.prints.extend(&other.prints);
    }
}

/// The compressed form of a part that is this text.
fn packed(text: &str) -> Result<Vec<u8>> {
    let mut plain = vec![TEXT_FIELD];
    let mut length = text.len();
    while length >= 0x80 {
        plain.push(u8::try_from(length & 0x7f)? | 0x80);
        length >>= 7;
    }
    plain.push(u8::try_from(length)?);
    plain.extend_from_slice(text.as_bytes());
    Ok(Compressor::with_prepared_dictionary(&ENCODER)?.compress(&plain)?)
}

fn print(bytes: &[u8], at: usize) -> Option<Print> {
    bytes.get(at..)?.first_chunk().copied().map(Print::from_le_bytes)
}

/// Where a compressed text (RFC 8878) has its letters and its repetitions, without the last bytes of each, where no print
/// begins. The headers and the tables before them are left out: texts with the same letters and words often have equal
/// ones. None if the letters are stored as they are, where markers are found.
fn own_ranges(packed: &[u8]) -> Option<[Range<usize>; 2]> {
    let number = |at: usize, bytes: usize| {
        let bytes = packed.get(at..at + bytes)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    let descriptor = number(4, 1)?;
    let is_single = descriptor >> 5 & 1;
    let block = 6 - is_single + [0, 1, 2, 4][descriptor & 3] + [is_single, 2, 4, 8][descriptor >> 6];
    let (block_header, letters) = (number(block, 3)?, block + 3);
    let kinds = number(letters, 1)?;
    if block_header >> 1 & 3 != 2 || kinds & 3 < 2 {
        return None;
    }
    let (header_bytes, size_bits, lengths_bytes) = match kinds >> 2 & 3 {
        0 => (3, 10, 0),
        1 => (3, 10, 6),
        2 => (4, 14, 6),
        _ => (5, 18, 6),
    };
    let table = letters + header_bytes;
    let table_bytes = match number(table, 1)? {
        // Those of the dictionary.
        _ if kinds & 3 == 3 => 0,
        packed @ ..128 => 1 + packed,
        letters => 1 + (letters - 127).div_ceil(2),
    };
    let repetitions = table + (number(letters, header_bytes)? >> (4 + size_bits) & ((1 << size_bits) - 1));
    let end = letters + (block_header >> 3);
    let range = |begin: usize, end: usize| begin..(end + 1).saturating_sub(PRINT_BYTES);
    let letters = range(table + table_bytes + lengths_bytes, repetitions);
    Some([letters, range(repetitions + SEQUENCE_TABLES_BYTES, end)])
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
pub(super) struct FileTrace {
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
    fn find(&self, bytes: &[u8]) -> Vec<FileTrace> {
        let plain = markers(bytes).filter_map(|(offset, marker)| {
            let of = *self.markers.get(&marker)?;
            Some(FileTrace { offset, of, is_compressed: false })
        });
        let mut found: Vec<FileTrace> = plain.collect();
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
                found.push(FileTrace { offset: last + 1 - PRINT_BYTES, of: *of, is_compressed: true });
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

    #[test]
    fn texts_have_no_print_in_common() {
        let mut rng = crate::seed::generator(2, "prints");
        let (mut wanted, mut all, mut prints) = (Wanted::default(), Vec::new(), 0);
        for number in 0..3_000 {
            let bytes = rng.random_range(60..4_000);
            let text = text(&mut rng, bytes);
            let trace = Trace::of_text(&text).expect("compressed");
            prints += trace.prints.len();
            wanted.add(&Trace { prints: trace.prints, markers: Vec::new() }, number);
            all.push(packed(&text).expect("compressed"));
        }
        assert!(prints > 60_000, "{prints}");
        for (number, packed) in all.iter().enumerate() {
            let found = wanted.find(packed);
            assert!(found.iter().all(|found| found.of == number), "text {number}: {found:?}");
        }
    }
}
