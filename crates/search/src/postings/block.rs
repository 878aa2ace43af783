//! Blocks: the lists of a segment's words, one behind the other in the order of their keys.
//!
//! A block fills a page of the file. It is a sequence of records: a word, and the entries that have it. A record that
//! does not fit goes on in the next blocks.
//!
//! - A record: the bytes that its key shares with the one before it in the block, the number of its other bytes, these;
//!   the entries of the list from here on, also in the blocks behind this one; the bytes of those that are here, these.
//! - An entry: twice its distance from the one before it, the first one's from the first entry of the segment, and one
//!   more if it has the word several times; then how often; then, in columns with phrases, the places of the word, each by
//!   its distance from the one before it.
//!
//! All numbers are of variable length, seven bits in a byte, the lowest first.

use crate::error::{Error, Result};

/// Bytes of a block: with its row it fits on a page.
const BLOCK_BYTES: usize = 3_990;
/// A list that has less room than this begins in the next block.
const ROOM_MIN: usize = BLOCK_BYTES / 32;
/// Behind a word in keys: no word has it, and every other sign is larger.
const END: u8 = 0;

/// What a list is about, in the order of their letters in keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Column {
    /// All entries of the tenant: the word is empty.
    All,
    /// The pieces of names.
    Piece,
    /// Stems of words and pieces.
    Stem,
    /// Whole words.
    Whole,
    /// What a search is restricted by.
    Scope,
}

impl Column {
    pub(super) fn letter(self) -> u8 {
        match self {
            Self::All => b'a',
            Self::Piece => b'p',
            Self::Stem => b's',
            Self::Whole => b'w',
            Self::Scope => b'x',
        }
    }
}

/// The bytes of a tenant in keys.
const TENANT_BYTES: usize = 4;

/// True if the lists of a key have the places of the word.
fn has_places(key: &[u8]) -> bool {
    matches!(key.get(TENANT_BYTES), Some(b'p' | b'w'))
}

pub(super) fn key(tenant: u32, column: Column, word: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(TENANT_BYTES + 2 + word.len());
    key.extend(tenant.to_be_bytes());
    key.push(column.letter());
    key.extend_from_slice(word);
    key
}

/// The start of a block that begins with the list of a key, or with the part of it that begins with an entry.
pub(super) fn start(key: &[u8], entry: Option<i64>) -> Vec<u8> {
    let mut start = [key, &[END]].concat();
    start.extend(entry.into_iter().flat_map(i64::to_be_bytes));
    start
}

/// The first start behind all of a key.
pub(super) fn start_behind(key: &[u8]) -> Vec<u8> {
    [key, &[END + 1]].concat()
}

pub(super) fn damaged(what: &'static str) -> Error {
    Error::corrupt("search index", what)
}

pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads a number, and moves behind it.
pub(super) fn take_number(bytes: &mut &[u8]) -> Result<u64> {
    let (mut number, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Ok(number);
        }
        shift += 7;
        if shift > 63 {
            break;
        }
    }
    Err(damaged("a number has no end"))
}

fn take_length(bytes: &mut &[u8]) -> Result<usize> {
    usize::try_from(take_number(bytes)?).map_err(|_| damaged("a length is too large"))
}

/// The records of a block.
pub(super) struct Records<'b> {
    left: &'b [u8],
    key: Vec<u8>,
}

/// A list, or what a block has of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'b> {
    /// Entries of the list from here on.
    pub(super) remaining: u64,
    /// What the block has of them.
    pub(super) list: &'b [u8],
}

impl<'b> Records<'b> {
    pub(super) fn new(block: &'b [u8]) -> Self {
        Self { left: block, key: Vec::new() }
    }

    /// The key of the record that was read last.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// True if the block has no other record behind it: the list may go on in the next block.
    pub(super) fn is_last(&self) -> bool {
        self.left.is_empty()
    }

    pub(super) fn next(&mut self) -> Result<Option<Record<'b>>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let shared = take_length(&mut self.left)?;
        let other = take_length(&mut self.left)?;
        let (other, left) = self.left.split_at_checked(other).ok_or_else(|| damaged("a key has no end"))?;
        if shared > self.key.len() {
            return Err(damaged("a key goes on with more than there is"));
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(other);
        self.left = left;
        let remaining = take_number(&mut self.left)?;
        let length = take_length(&mut self.left)?;
        let (list, left) = self.left.split_at_checked(length).ok_or_else(|| damaged("a list has no end"))?;
        self.left = left;
        Ok(Some(Record { remaining, list }))
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ListedEntry<'b> {
    pub(super) id: i64,
    /// How often it has the word.
    pub(super) often: u32,
    /// The places, as they are in the list.
    places: &'b [u8],
}

impl ListedEntry<'_> {
    /// Calls `each` with the places of the word.
    pub(super) fn places(&self, mut each: impl FnMut(u32)) -> Result<()> {
        let (mut left, mut place) = (self.places, 0_u64);
        while !left.is_empty() {
            place = place.saturating_add(take_number(&mut left)?);
            each(u32::try_from(place).map_err(|_| damaged("a place is too large"))?);
        }
        Ok(())
    }
}

/// The entries of what a block has of a list.
pub(super) struct Entries<'b> {
    left: &'b [u8],
    id: i64,
    has_places: bool,
}

impl<'b> Entries<'b> {
    pub(super) fn new(key: &[u8], first: i64, list: &'b [u8]) -> Self {
        Self { left: list, id: first, has_places: has_places(key) }
    }

    /// What is left.
    pub(super) fn left(&self) -> &'b [u8] {
        self.left
    }

    pub(super) fn next(&mut self) -> Result<Option<ListedEntry<'b>>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let head = take_number(&mut self.left)?;
        self.id = self.id.checked_add_unsigned(head >> 1).ok_or_else(|| damaged("an entry is too large"))?;
        let often = if head & 1 == 0 { 1 } else { take_number(&mut self.left)? };
        let mut places: &[u8] = &[];
        if self.has_places {
            // The last byte of each number is below 0x80.
            let mut ends = self.left.iter().enumerate().filter(|(_, byte)| **byte < 0x80);
            let nth = usize::try_from(often.saturating_sub(1)).unwrap_or(usize::MAX);
            let (end, _) = ends.nth(nth).ok_or_else(|| damaged("places have no end"))?;
            (places, self.left) = self.left.split_at(end + 1);
        }
        Ok(Some(ListedEntry { id: self.id, often: u32::try_from(often).unwrap_or(u32::MAX), places }))
    }
}

/// A list in the making.
#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) bytes: Vec<u8>,
    pub(super) count: u64,
    last: i64,
}

impl List {
    /// Begins a list in a segment with this first entry.
    pub(super) fn begin(&mut self, first: i64) {
        self.bytes.clear();
        (self.count, self.last) = (0, first);
    }

    /// Begins the next entry that has the word; its places follow, where the column has some.
    pub(super) fn push(&mut self, id: i64, often: u32) {
        let distance = (id - self.last).unsigned_abs();
        put_number(&mut self.bytes, distance << 1 | u64::from(often > 1));
        if often > 1 {
            put_number(&mut self.bytes, u64::from(often));
        }
        (self.count, self.last) = (self.count + 1, id);
    }

    /// Adds the places of the entry that was begun last, ascending.
    pub(super) fn push_places(&mut self, places: impl IntoIterator<Item = u32>) {
        let mut before = 0;
        for place in places {
            put_number(&mut self.bytes, u64::from(place - before));
            before = place;
        }
    }

    /// Adds an entry of another list.
    pub(super) fn push_listed(&mut self, listed: &ListedEntry<'_>) {
        self.push(listed.id, listed.often);
        self.bytes.extend_from_slice(listed.places);
    }

    /// Adds so many entries of another list, of which the others are as they are in it. Nothing is added behind them.
    pub(super) fn push_all(&mut self, first: &ListedEntry<'_>, others: &[u8], count: u64) {
        self.push_listed(first);
        self.bytes.extend_from_slice(others);
        // There may be some of the block before.
        self.count = self.count.saturating_add(count).saturating_sub(1);
    }
}

/// The blocks of a segment in the making.
pub(super) struct Blocks<W> {
    /// The first entry of the segment.
    first: i64,
    block: Vec<u8>,
    start: Vec<u8>,
    key: Vec<u8>,
    write: W,
}

impl<W: FnMut(&[u8], &[u8]) -> Result<()>> Blocks<W> {
    /// `write` takes each block: its start, and itself.
    pub(super) fn new(first: i64, write: W) -> Self {
        Self { first, block: Vec::with_capacity(BLOCK_BYTES), start: Vec::new(), key: Vec::new(), write }
    }

    /// Adds a list. Keys come in their order, and none twice.
    pub(super) fn add(&mut self, key: &[u8], list: &List) -> Result<()> {
        let shared = key.iter().zip(&self.key).take_while(|(one, other)| one == other).count();
        // Of a record without its list; the largest number of a length has three bytes, of entries five.
        let around = key.len() - shared + 10;
        let room = BLOCK_BYTES.saturating_sub(self.block.len() + around);
        if list.bytes.len() <= room {
            return self.record(key, None, list.count, &list.bytes);
        }
        if !self.block.is_empty() && room < ROOM_MIN {
            self.flush()?;
            return self.add(key, list);
        }
        let mut entries = Entries::new(key, self.first, &list.bytes);
        let mut piece = List::default();
        piece.begin(self.first);
        let (mut begins_with, mut remaining, mut room) = (None, list.count, room);
        while let Some(listed) = entries.next()? {
            if piece.count > 0 && piece.bytes.len() + listed.places.len() + 10 > room {
                self.record(key, begins_with, remaining, &piece.bytes)?;
                self.flush()?;
                remaining = remaining.saturating_sub(piece.count);
                piece.begin(self.first);
                begins_with = Some(listed.id);
                room = BLOCK_BYTES.saturating_sub(key.len() + 10);
            }
            piece.push_listed(&listed);
        }
        self.record(key, begins_with, remaining, &piece.bytes)
    }

    fn record(&mut self, key: &[u8], begins_with: Option<i64>, remaining: u64, list: &[u8]) -> Result<()> {
        if self.block.is_empty() {
            self.start = start(key, begins_with);
        }
        let shared = key.iter().zip(&self.key).take_while(|(one, other)| one == other).count();
        put_number(&mut self.block, shared as u64);
        put_number(&mut self.block, (key.len() - shared) as u64);
        self.block.extend_from_slice(&key[shared..]);
        put_number(&mut self.block, remaining);
        put_number(&mut self.block, list.len() as u64);
        self.block.extend_from_slice(list);
        self.key.clear();
        self.key.extend_from_slice(key);
        if self.block.len() >= BLOCK_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes what is left.
    pub(super) fn flush(&mut self) -> Result<()> {
        if !self.block.is_empty() {
            (self.write)(&self.start, &self.block)?;
            self.block.clear();
            self.key.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Entries with the places of a word in each.
    type Of = Vec<(i64, Vec<u32>)>;

    fn list(first: i64, of: &Of) -> List {
        let mut list = List::default();
        list.begin(first);
        for (id, places) in of {
            list.push(*id, u32::try_from(places.len()).expect("a few"));
            list.push_places(places.iter().copied());
        }
        list
    }

    /// All that some blocks have. Their starts say with what they begin.
    fn read(first: i64, blocks: &[(Vec<u8>, Vec<u8>)]) -> BTreeMap<Vec<u8>, Of> {
        let (mut read, mut left) = (BTreeMap::<Vec<u8>, Of>::new(), 0);
        for (begin, block) in blocks {
            let mut records = Records::new(block);
            while let Some(record) = records.next().expect("a record") {
                let (key, mut own) = (records.key().to_vec(), Of::new());
                let mut entries = Entries::new(&key, first, record.list);
                while let Some(listed) = entries.next().expect("an entry") {
                    let mut places = Vec::new();
                    listed.places(|place| places.push(place)).expect("places");
                    assert_eq!(places.len(), listed.often as usize);
                    own.push((listed.id, places));
                }
                if left > 0 {
                    assert_eq!((record.remaining, begin), (left, &start(&key, Some(own[0].0))), "it goes on");
                }
                left = record.remaining - own.len() as u64;
                read.entry(key).or_default().extend(own);
            }
        }
        assert_eq!(left, 0, "the last list ends");
        read
    }

    proptest! {
        #[test]
        fn lists_are_read_as_they_were_written(
            lists in prop::collection::btree_map("[a-c]{0,3}", (1..4_000_i64, 1..90_000_i64, 1..4_u32), 1..40),
            first in 0..1_000_000_i64,
        ) {
            let of = |(word, (count, distance, often)): (String, (i64, i64, u32))| {
                // Short lists are more than long ones.
                let entries = 0..count * count / 4_000 + 1;
                let entry = |at: i64| (first + at * distance, (0..often).map(|nth| nth * 90 + word.len() as u32).collect());
                (key(7, Column::Whole, word.as_bytes()), entries.map(entry).collect::<Of>())
            };
            let lists: BTreeMap<Vec<u8>, Of> = lists.into_iter().map(of).collect();
            let mut blocks = Vec::new();
            let mut writer = Blocks::new(first, |start, block| {
                blocks.push((start.to_vec(), block.to_vec()));
                Ok(())
            });
            for (key, of) in &lists {
                writer.add(key, &list(first, of)).expect("added");
            }
            writer.flush().expect("written");
            prop_assert!(blocks.is_sorted_by(|one, other| one.0 < other.0));
            prop_assert!(blocks.iter().all(|(_, block)| block.len() <= BLOCK_BYTES + 16), "they fit on pages");
            prop_assert_eq!(read(first, &blocks), lists);
        }

        #[test]
        fn damaged_blocks_are_errors_and_no_panics(block in prop::collection::vec(any::<u8>(), 0..60), bits: [u8; 5]) {
            let mut records = Records::new(&block);
            while let Ok(Some(record)) = records.next() {
                let mut entries = Entries::new(&[&bits[..4], b"w"].concat(), i64::from(bits[4]), record.list);
                while let Ok(Some(listed)) = entries.next() {
                    let _ = listed.places(|_| {});
                }
            }
        }
    }
}
