//! Which store an event is of. Several daemons have several stores, each of which numbers its events from 1. The checker
//! gives an event a number that says its store too, so that no two events have the same number; numbers of one store
//! follow each other. A cursor names each store and the position in it: nothing else of a cursor is read here.

use super::record::lock;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Mutex;

/// The bits of a number below those of the store.
const SEQ_BITS: u32 = 40;
/// Where a cursor of one store has its position and the store's id.
const SEQ: Range<usize> = 0..16;
const STORE: Range<usize> = 18..50;

/// The number of an event of a store.
pub(super) fn number(store: i64, seq: i64) -> i64 {
    (store << SEQ_BITS) + seq
}

/// The store of a number.
pub(super) fn store_of(number: i64) -> i64 {
    number >> SEQ_BITS
}

/// The newest events of some stores.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Heads(BTreeMap<i64, i64>);

impl Heads {
    /// The newest event of a store; the number before its first one if there is none.
    pub(super) fn of(&self, store: i64) -> i64 {
        self.0.get(&store).copied().unwrap_or(number(store, 0))
    }

    /// True if the store is one of these.
    pub(super) fn has(&self, store: i64) -> bool {
        self.0.contains_key(&store)
    }

    /// Notes an event.
    pub(super) fn note(&mut self, number: i64) {
        let head = self.0.entry(store_of(number)).or_insert(number);
        *head = number.max(*head);
    }

    /// The newest events of either.
    pub(super) fn join(&mut self, other: &Self) {
        other.0.values().for_each(|number| self.note(*number));
    }

    /// The beginnings of these stores.
    pub(super) fn begins(&self) -> Self {
        Self(self.0.keys().map(|store| (*store, number(*store, 0))).collect())
    }

    /// The first store of these that does not reach the other's event of it.
    pub(super) fn behind(&self, other: &Self) -> Option<i64> {
        self.0.iter().find(|(store, number)| **number < other.of(**store)).map(|(store, _)| *store)
    }
}

/// The stores, and which of them each session is in.
#[derive(Debug, Default)]
pub(super) struct Stores {
    /// Their ids, in the order in which they were seen.
    ids: Mutex<Vec<String>>,
    sessions: Mutex<HashMap<String, i64>>,
}

impl Stores {
    fn known(&self, id: &str) -> i64 {
        let mut ids = lock(&self.ids);
        let index = ids.iter().position(|there| there == id).unwrap_or_else(|| {
            ids.push(id.to_owned());
            ids.len() - 1
        });
        i64::try_from(index).unwrap_or(i64::MAX)
    }

    /// Notes the store of a session.
    pub(super) fn learn(&self, session: &str, store: i64) {
        lock(&self.sessions).insert(session.to_owned(), store);
    }

    /// The store of a session: the first one if it is not known, which it is before a client is given the session.
    pub(super) fn of(&self, session: &str) -> i64 {
        lock(&self.sessions).get(session).copied().unwrap_or_default()
    }

    /// The newest known session of each store.
    pub(super) fn one_session_of_each(&self) -> Vec<String> {
        let sessions = lock(&self.sessions);
        // Ids grow with time.
        let newest: BTreeMap<i64, &String> = sessions.iter().fold(BTreeMap::new(), |mut newest, (id, store)| {
            let there = newest.entry(*store).or_insert(id);
            *there = id.max(*there);
            newest
        });
        newest.into_values().cloned().collect()
    }

    /// The positions of a cursor, of one store or of several.
    pub(super) fn heads(&self, cursor: &str) -> Heads {
        let mut pieces: Vec<&str> =
            cursor.split('s').skip(1).filter_map(|piece| Some(piece.split_once('x')?.1)).collect();
        if pieces.is_empty() {
            pieces.push(cursor);
        }
        let mut heads = Heads::default();
        for piece in pieces {
            let seq = piece.get(SEQ).and_then(|digits| i64::from_str_radix(digits, 16).ok());
            if let (Some(seq), Some(id)) = (seq, piece.get(STORE)) {
                heads.note(number(self.known(id), seq));
            }
        }
        heads
    }

    /// The number of an event with this cursor, which follows these positions in a list or stream; none if no store is at
    /// its position.
    pub(super) fn number_of(&self, before: &Heads, (cursor, seq): (&str, i64)) -> Option<i64> {
        let here = |there: &&i64| **there == number(store_of(**there), seq);
        let heads = self.heads(cursor);
        let is_new = |there: &&i64| before.0.get(&store_of(**there)) != Some(*there);
        let moved = heads.0.values().filter(here).find(is_new);
        // An event that comes again has not moved anything.
        moved.or_else(|| heads.0.values().find(here)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(seq: i64, store: u8) -> String {
        format!("{seq:016x}02{store:032x}{:016x}", 7)
    }

    #[test]
    fn a_cursor_says_the_store_of_its_event() {
        let stores = Stores::default();
        let merged = |a: i64, b: i64| format!("{:016x}s1x{}s10x{}", a + b, piece(a, 1), piece(b, 2));
        let before = stores.heads(&merged(3, 4));
        assert_eq!((before.of(0), before.of(1)), (3, number(1, 4)));
        assert_eq!(stores.number_of(&before, (&merged(4, 4), 4)), Some(4));
        assert_eq!(stores.number_of(&before, (&merged(3, 5), 5)), Some(number(1, 5)));
        assert_eq!(stores.number_of(&before, (&merged(3, 4), 4)), Some(number(1, 4)));
        assert_eq!(stores.number_of(&Heads::default(), (&piece(9, 2), 9)), Some(number(1, 9)));
        assert_eq!(stores.number_of(&before, (&merged(4, 4), 9)), None);
        let (mut behind, ahead) = (stores.heads(&merged(3, 4)), stores.heads(&merged(3, 5)));
        assert_eq!((behind.behind(&ahead), ahead.behind(&behind)), (Some(1), None));
        behind.join(&ahead);
        assert_eq!(behind, ahead);
        assert_eq!(stores.heads(&piece(9, 1)).behind(&ahead), None);
    }
}
