//! The parts of a commit, as lists of their words.

use super::block::{self, Blocks, Column, List};
use super::entries::{KnownEntry, role_number};
use crate::error::Result;
use crate::limits;
use crate::model::part::PartBody;
use crate::part::Part;
use crate::texts::text_of;
use crate::words::{self, Form, cut_unstemmed, stem};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::Arc;

/// Words that are known from one commit to the next, of which most of a text consists.
const WORDS_KEPT: usize = 16_384;

/// Entries for which memory is kept from one commit to the next: a usual page has fewer.
const ENTRIES_KEPT: usize = 4_096;
/// The same of words in them: about those of a page of `limits::SEARCH_BATCH_BYTES`.
const OCCURRENCES_KEPT: usize = 524_288;
/// The same of lists.
const SLOTS_KEPT: usize = 65_536;

/// The number of what is not looked for yet.
const UNKNOWN: u32 = u32::MAX;
/// The number of the stem of a word that is its own.
const NONE: u32 = u32::MAX - 1;

/// Bytes of a word that fits into its code: most words do.
const SHORT_BYTES: usize = 15;
/// Behind the first bytes of a longer word, in place of its length.
const LONG: u8 = u8::MAX;

/// A short word, or the beginning of a longer one: in the order of the words.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Code(u128);

impl Code {
    fn new(word: &[u8]) -> Self {
        let (mut code, length) = ([0; 16], word.len().min(SHORT_BYTES));
        code[..length].copy_from_slice(&word[..length]);
        code[SHORT_BYTES] = if word.len() > SHORT_BYTES { LONG } else { length as u8 };
        Self(u128::from_be_bytes(code))
    }

    fn is_long(self) -> bool {
        self.0.to_be_bytes()[SHORT_BYTES] == LONG
    }
}

/// Words with a number each, and the number of their stems: to make one takes longer than all else.
#[derive(Default)]
struct Vocabulary {
    short: HashMap<Code, u32, RandomState>,
    long: HashMap<Box<[u8]>, u32, RandomState>,
    words: Vec<Word>,
}

/// A word of the vocabulary.
struct Word {
    code: Code,
    /// Of which turn the slots are.
    turn: u64,
    /// The number of its stem.
    stem: u32,
    /// Where its list is in the batch, by column.
    slots: [u32; COLUMNS],
}

/// Columns of lists.
const COLUMNS: usize = 5;

impl Vocabulary {
    fn number(&mut self, word: &[u8]) -> u32 {
        let code = Code::new(word);
        let known = if code.is_long() { self.long.get(word) } else { self.short.get(&code) };
        if let Some(number) = known {
            return *number;
        }
        let number = u32::try_from(self.words.len()).unwrap_or(NONE);
        if code.is_long() {
            self.long.insert(word.into(), number);
        } else {
            self.short.insert(code, number);
        }
        self.words.push(Word { code, turn: 0, stem: UNKNOWN, slots: [UNKNOWN; COLUMNS] });
        number
    }

    /// The number of the stem of a word, which has this number.
    fn stem(&mut self, number: u32, word: &str) -> Option<u32> {
        let mut found = self.words[number as usize].stem;
        if found == UNKNOWN {
            found = stem(word).map_or(NONE, |stem| self.number(stem.as_bytes()));
            self.words[number as usize].stem = found;
        }
        (found != NONE).then_some(found)
    }
}

/// A word in an entry.
#[derive(Clone, Copy)]
struct Occurrence {
    slot: u32,
    entry: u32,
    place: u32,
}

/// A list that a commit has.
struct Slot {
    tenant: u32,
    column: Column,
    word: u32,
}

/// The parts of a commit. It keeps memory for the next one, as much as a usual one needs.
#[derive(Default)]
pub struct Batch {
    vocabulary: Vocabulary,
    /// The entries; their numbers and tenants are those of the batch.
    pub(super) entries: Vec<KnownEntry>,
    /// The names of the tenants.
    pub(super) tenants: Vec<Arc<str>>,
    occurrences: Vec<Occurrence>,
    slots: Vec<Slot>,
    /// The slots of words whose tenant is not the one of the part before.
    numbers: HashMap<u64, u32, RandomState>,
    /// Rises with each batch, and with each part of another tenant than the one before it.
    turn: u64,
}

impl Batch {
    /// Begins a batch.
    pub(super) fn begin(&mut self) {
        self.end();
        self.turn += 1;
    }

    /// Ends a batch: what a large one needed is given back, since the next one may be long in coming.
    pub(super) fn end(&mut self) {
        if self.vocabulary.words.len() > WORDS_KEPT {
            self.vocabulary = Vocabulary::default();
        }
        self.entries.clear();
        self.entries.shrink_to(ENTRIES_KEPT);
        self.tenants.clear();
        self.tenants.shrink_to(ENTRIES_KEPT);
        self.occurrences.clear();
        self.occurrences.shrink_to(OCCURRENCES_KEPT);
        self.slots.clear();
        self.slots.shrink_to(SLOTS_KEPT);
        self.numbers.clear();
        self.numbers.shrink_to(SLOTS_KEPT);
    }

    /// Adds a part, unless it has no word.
    pub(super) fn add(&mut self, part: &Part) {
        let known = self.tenants.iter().position(|tenant| *tenant == part.tenant);
        let tenant = known.unwrap_or_else(|| {
            self.tenants.push(Arc::clone(&part.tenant));
            self.tenants.len() - 1
        });
        let tenant = tenant as u32;
        self.turn += u64::from(self.entries.last().is_some_and(|before| before.tenant != tenant));
        let (mut whole, mut pieces) = (0, 0);
        if let PartBody::ToolCall(call) = &*part.body {
            self.cut(tenant, &call.tool, Form::Plain, (&mut whole, &mut pieces));
        }
        if let Some((text, form)) = text_of(&part.body) {
            self.cut(tenant, text, form, (&mut whole, &mut pieces));
        }
        if whole == 0 {
            return;
        }
        self.note(tenant, Column::All, b"", 0);
        self.scope(tenant, part);
        self.entries.push(KnownEntry {
            id: self.entries.len() as i64,
            tenant,
            owner: part.owner,
            message: part.message,
            number: part.number,
            time: part.time.0,
            role: role_number(part.role),
            kind: part.kind as u8,
            is_derived: part.is_derived,
            words: whole,
        });
    }

    fn cut(&mut self, tenant: u32, text: &str, form: Form, (whole, pieces): (&mut u32, &mut u32)) {
        cut_unstemmed(text, form, &mut |column, word, _, has_stem| {
            let number = self.vocabulary.number(word.as_bytes());
            let (column, place) = match column {
                words::Column::Whole => (Column::Whole, &mut *whole),
                words::Column::Piece | words::Column::Stem => (Column::Piece, &mut *pieces),
            };
            self.note_number(tenant, column, number, *place);
            *place += 1;
            if has_stem && let Some(stem) = self.vocabulary.stem(number, word) {
                self.note_number(tenant, Column::Stem, stem, 0);
            }
        });
    }

    /// The words by which searches are restricted: those of its session, of the sessions above it and of its tool.
    fn scope(&mut self, tenant: u32, part: &Part) {
        self.note(tenant, Column::Scope, format!("s{}", part.owner.0).as_bytes(), 0);
        if let Some(tool) = &part.tool {
            self.note(tenant, Column::Scope, format!("t{}", words::tool(tool)).as_bytes(), 0);
        }
        let above: Vec<_> = part.above.iter().filter(|above| **above != part.owner).collect();
        for above in above.iter().take(limits::SEARCH_ABOVE_MAX) {
            self.note(tenant, Column::Scope, format!("u{}", above.0).as_bytes(), 0);
        }
        if above.len() > limits::SEARCH_ABOVE_MAX {
            self.note(tenant, Column::Scope, b"deep", 0);
        }
    }

    fn note(&mut self, tenant: u32, column: Column, word: &[u8], place: u32) {
        let number = self.vocabulary.number(word);
        self.note_number(tenant, column, number, place);
    }

    fn note_number(&mut self, tenant: u32, column: Column, word: u32, place: u32) {
        let known = &mut self.vocabulary.words[word as usize];
        if known.turn != self.turn {
            (known.turn, known.slots) = (self.turn, [UNKNOWN; COLUMNS]);
        }
        let known = &mut known.slots[column as usize];
        if *known == UNKNOWN {
            // Fewer tenants than parts, and these are few.
            let code = u64::from(tenant) << 40 | u64::from(column.letter()) << 32 | u64::from(word);
            *known = *self.numbers.entry(code).or_insert_with(|| {
                self.slots.push(Slot { tenant, column, word });
                self.slots.len() as u32 - 1
            });
        }
        let slot = *known;
        self.occurrences.push(Occurrence { slot, entry: self.entries.len() as u32, place });
    }

    /// Writes the lists of a segment, whose tenants have these ids, and whose entries begin with this one.
    pub(super) fn write(
        &self,
        tenants: &[u32],
        first: i64,
        write: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let long: HashMap<u32, &[u8], RandomState> =
            self.vocabulary.long.iter().map(|(word, number)| (*number, &**word)).collect();
        let code = |slot: &Slot| self.vocabulary.words[slot.word as usize].code;
        let keyed = self.slots.iter().enumerate();
        let keyed = keyed.map(|(slot, of)| (tenants[of.tenant as usize], of.column, code(of), slot));
        let mut order: Vec<(u32, Column, Code, usize)> = keyed.collect();
        let long_word = |(.., slot): &(u32, Column, Code, usize)| long.get(&self.slots[*slot].word);
        order.sort_unstable_by(|one, other| {
            let by_code = (one.0, one.1, one.2).cmp(&(other.0, other.1, other.2));
            by_code.then_with(|| long_word(one).cmp(&long_word(other)))
        });
        // The occurrences by their lists: each is in the order of the entries already.
        let mut counts = vec![0_usize; self.slots.len()];
        self.occurrences.iter().for_each(|occurrence| counts[occurrence.slot as usize] += 1);
        let (mut starts, mut next) = (vec![0; self.slots.len()], 0);
        for (.., slot) in &order {
            starts[*slot] = next;
            next += counts[*slot];
        }
        let mut sorted = vec![(0, 0); self.occurrences.len()];
        for Occurrence { slot, entry, place } in &self.occurrences {
            let at = &mut starts[*slot as usize];
            sorted[*at] = (*entry, *place);
            *at += 1;
        }
        let (mut blocks, mut list, mut left) = (Blocks::new(first, write), List::default(), &sorted[..]);
        for of @ (tenant, column, code, slot) in order {
            let (own, rest) = left.split_at(counts[slot]);
            left = rest;
            list.begin(first);
            for of_entry in own.chunk_by(|one, other| one.0 == other.0) {
                list.push(first + i64::from(of_entry[0].0), of_entry.len() as u32);
                if matches!(column, Column::Whole | Column::Piece) {
                    list.push_places(of_entry.iter().map(|(_, place)| *place));
                }
            }
            let bytes = code.0.to_be_bytes();
            let short = || &bytes[..usize::from(bytes[SHORT_BYTES])];
            blocks.add(&block::key(tenant, column, long_word(&of).copied().unwrap_or_else(short)), &list)?;
        }
        blocks.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_batch_gives_its_memory_back() {
        let mut batch = Batch::default();
        batch.begin();
        for at in 0..SLOTS_KEPT * 3 {
            batch.note(0, Column::Whole, &at.to_be_bytes(), 0);
        }
        let word = batch.vocabulary.number(b"word");
        for _ in 0..=OCCURRENCES_KEPT {
            batch.note_number(0, Column::Whole, word, 0);
        }
        assert!(batch.occurrences.capacity() > OCCURRENCES_KEPT && batch.slots.capacity() > SLOTS_KEPT);
        batch.end();
        assert_eq!(batch.vocabulary.words.capacity(), 0);
        assert!(batch.occurrences.capacity() <= OCCURRENCES_KEPT, "{}", batch.occurrences.capacity());
        assert!(batch.slots.capacity() <= SLOTS_KEPT, "{}", batch.slots.capacity());
        // A map has room for more than it is asked for.
        assert!(batch.numbers.capacity() <= SLOTS_KEPT * 2, "{}", batch.numbers.capacity());
    }
}
