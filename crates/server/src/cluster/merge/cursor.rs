//! Positions in the logs of several shards as one, and places in their lists.
//!
//! A cursor is the sum of the positions, as 16 hexadecimal digits, and the cursor of each shard behind `s`, its number and
//! `x`. Each event lets the sum grow: so cursors sort as text in the order in which one stream has its events.

use crate::app::{Error, Reason};
use crate::postgres;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// Digits of a position, with which the cursor of a shard begins.
const SEQ_DIGITS: usize = 16;

/// The cursors of the shards, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Positions(pub(super) BTreeMap<String, String>);

impl Positions {
    /// The positions in a cursor. That of one shard is from when the database had no other, or of sessions of one shard: the
    /// first shard has it, or refuses it.
    ///
    /// # Errors
    ///
    /// `CURSOR_INVALID` for a text that is none.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let invalid = || Error::new(Reason::CursorInvalid, "the cursor is not one of Longhand's");
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        let mut pieces = text.split('s');
        let sum = pieces.next().unwrap_or_default();
        if !is_digits(sum) || sum.len() < SEQ_DIGITS {
            return Err(invalid());
        }
        let mut positions = BTreeMap::new();
        if sum.len() > SEQ_DIGITS {
            positions.insert(postgres::shard_name(1), sum.to_owned());
        }
        for piece in pieces {
            let (number, cursor) = piece.split_once('x').ok_or_else(invalid)?;
            if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) || !is_digits(cursor) {
                return Err(invalid());
            }
            positions.insert(format!("s{number}"), cursor.to_owned());
        }
        Ok(Self(positions))
    }

    /// The number of events up to these positions.
    pub(super) fn sum(&self) -> i64 {
        let seq = |cursor: &String| cursor.get(..SEQ_DIGITS).and_then(|digits| i64::from_str_radix(digits, 16).ok());
        self.0.values().filter_map(seq).sum()
    }

    /// Its text.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{:016x}", self.sum());
        for (shard, cursor) in &self.0 {
            text.extend([shard.as_str(), "x", cursor]);
        }
        text
    }

    /// The same positions, but for one shard.
    pub(super) fn advance(&mut self, shard: &str, cursor: String) -> String {
        self.0.insert(shard.to_owned(), cursor);
        self.text()
    }
}

/// The token of a place in the lists of several shards.
pub(super) fn token(place: &impl Serialize) -> Result<String, Error> {
    Ok(URL_SAFE_NO_PAD.encode(serde_json::to_vec(place).map_err(Error::internal)?))
}

/// The place of a token; none for the begin.
///
/// # Errors
///
/// `PAGE_TOKEN_INVALID` for a text that is no token of such lists.
pub(super) fn place<P: DeserializeOwned>(token: &str) -> Result<Option<P>, Error> {
    if token.is_empty() {
        return Ok(None);
    }
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    let place = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let invalid = || Error::new(Reason::PageTokenInvalid, "the page token belongs to no list like this one");
    place.map(Some).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(seq: u64) -> String {
        format!("{seq:016x}02{:032x}{:016x}", 7, 9)
    }

    #[test]
    fn positions_come_back_and_sort_in_the_order_of_a_stream() {
        let mut positions = Positions::default();
        let mut before = positions.text();
        for (shard, seq) in [("s1", 0), ("s2", 3), ("s10", 1), ("s1", 255), ("s2", 4), ("s10", 4_096)] {
            let text = positions.advance(shard, cursor(seq));
            assert_eq!(Positions::parse(&text).expect("a cursor"), positions);
            assert_eq!(i64::from_str_radix(&text[..SEQ_DIGITS], 16), Ok(positions.sum()));
            assert!(text >= before && text.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{before} {text}");
            before = text;
        }
        let alone = Positions(BTreeMap::from([("s1".to_owned(), cursor(4))]));
        assert_eq!(Positions::parse(&cursor(4)).expect("that of the only shard"), alone);
        for wrong in
            ["", "0", "x", "0000000000000000s", "0000000000000000s1", "0000000000000000sxab", "0000000000000000s1xyz"]
        {
            assert_eq!(Positions::parse(wrong).expect_err(wrong).reason, Reason::CursorInvalid, "{wrong}");
        }
    }

    #[test]
    fn places_come_back() {
        let made = BTreeMap::from([("s1".to_owned(), "abc".to_owned())]);
        assert_eq!(place(&token(&made).expect("a token")).expect("a token"), Some(made));
        assert_eq!(place::<BTreeMap<String, String>>("").expect("the begin"), None);
        assert_eq!(place::<BTreeMap<String, String>>("e30x!").expect_err("no token").reason, Reason::PageTokenInvalid);
    }
}
