//! Opaque tokens: cursors of the log and page tokens of lists.

use super::error::{Error, Reason, Result};
use crate::model::Seq;
use crate::store::{ListPosition, Store};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

/// Version of the cursor format, after the sequence number.
const CURSOR_FORM: u8 = 2;
/// Bytes of an event's hash in a cursor: enough to detect a store that was restored and continued differently.
const HASH_BYTES: usize = 8;
/// Characters of the parts of a cursor before the hash: the sequence number, the form, and the store's id, in
/// hexadecimal digits. The number comes first and has a fixed length, so that cursors sort as text as their events do in
/// the log.
const SEQ_LENGTH: usize = 16;
const FORM_LENGTH: usize = 2;
const ID_LENGTH: usize = 32;
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The cursor after an event.
pub(super) fn behind(store: &Store, seq: Seq, hash: &[u8]) -> String {
    write(store.id(), seq, hash)
}

fn write(store: Uuid, seq: Seq, hash: &[u8]) -> String {
    let bytes = seq.to_be_bytes().into_iter().chain([CURSOR_FORM]).chain(store.into_bytes());
    let mut cursor = String::with_capacity(SEQ_LENGTH + FORM_LENGTH + ID_LENGTH + 2 * HASH_BYTES);
    // Every delivery of an event has one: the machinery of `format!` would be a tenth of its cost.
    for byte in bytes.chain(hash.iter().copied().take(HASH_BYTES)) {
        cursor.push(char::from(DIGITS[usize::from(byte >> 4)]));
        cursor.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    cursor
}

/// The parts of a cursor; none if it is not one of Longhand's.
fn parse(text: &str) -> Option<(Seq, Uuid)> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() < SEQ_LENGTH + FORM_LENGTH + ID_LENGTH || !text.bytes().all(is_digit) {
        return None;
    }
    let (seq, rest) = text.split_at(SEQ_LENGTH);
    let (form, rest) = rest.split_at(FORM_LENGTH);
    let (id, hash) = rest.split_at(ID_LENGTH);
    let seq = Seq::from_str_radix(seq, 16).ok()?;
    // There is no event before the first.
    let hash_length = if seq == 0 { 0 } else { 2 * HASH_BYTES };
    let is_known = u8::from_str_radix(form, 16) == Ok(CURSOR_FORM) && hash.len() == hash_length;
    Uuid::try_parse(id).ok().filter(|_| is_known).map(|id| (seq, id))
}

/// The cursor after the event with this number; zero means the beginning.
pub(super) async fn at(store: &Store, seq: Seq) -> Result<String> {
    let hash = if seq == 0 { None } else { store.log().hash_at_seq(seq).await? };
    Ok(behind(store, seq, &hash.unwrap_or_default()))
}

/// Parses a cursor, and refuses one that this store did not issue.
pub(super) async fn read(store: &Store, text: &str) -> Result<Seq> {
    let invalid = || Error::new(Reason::CursorInvalid, "the cursor is not one of Longhand's");
    let (seq, id) = parse(text).ok_or_else(invalid)?;
    let foreign = |why: &str| {
        Error::new(Reason::CursorForeign, format!("the cursor {why}; start from the beginning or with a snapshot"))
    };
    if id != store.id() {
        let restored = store.was_restored_from(id);
        return Err(foreign(if restored {
            "is from before the store was restored"
        } else {
            "belongs to another store"
        }));
    }
    if seq == 0 {
        return Ok(0);
    }
    match store.log().hash_at_seq(seq).await? {
        Some(there) if write(id, seq, &there) == text => Ok(seq),
        Some(_) => Err(foreign("is from before the store was restored")),
        None => {
            let head = store.log().head_seq();
            Err(Error::new(Reason::CursorOutOfRange, format!("the cursor is beyond the log, which ends at {head}"))
                .with("head_seq", head)
                .with("cursor_seq", seq))
        }
    }
}

/// The token of a list's next page. It is tied to the parameters of the list.
pub(super) fn page_token(position: i64, scope: &str) -> String {
    token(&[position], scope)
}

/// The position at which a page begins; none for the first page.
pub(super) fn page_start(token: &str, scope: &str) -> Result<Option<i64>> {
    Ok(start(token, scope)?.map(|[position]| position))
}

/// The token of the next page of a list of sessions.
pub(super) fn list_token(position: ListPosition, scope: &str) -> String {
    token(&[position.time, position.key], scope)
}

/// The place behind which a page of sessions begins; none for the first page.
pub(super) fn list_start(token: &str, scope: &str) -> Result<Option<ListPosition>> {
    Ok(start(token, scope)?.map(|[time, key]| ListPosition { time, key }))
}

fn token(positions: &[i64], scope: &str) -> String {
    let mut bytes: Vec<u8> = positions.iter().flat_map(|position| position.to_le_bytes()).collect();
    bytes.extend_from_slice(&blake3::hash(scope.as_bytes()).as_bytes()[..HASH_BYTES]);
    URL_SAFE_NO_PAD.encode(bytes)
}

fn start<const COUNT: usize>(token: &str, scope: &str) -> Result<Option<[i64; COUNT]>> {
    if token.is_empty() {
        return Ok(None);
    }
    let invalid = || Error::new(Reason::PageTokenInvalid, "the page token belongs to no list like this one");
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| invalid())?;
    let (positions, hash) = bytes.split_at_checked(8 * COUNT).ok_or_else(invalid)?;
    if *hash != blake3::hash(scope.as_bytes()).as_bytes()[..HASH_BYTES] {
        return Err(invalid());
    }
    let mut found = [0; COUNT];
    for (position, bytes) in found.iter_mut().zip(positions.chunks_exact(8)) {
        *position = i64::from_le_bytes(bytes.try_into().map_err(|_| invalid())?);
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cursors_sort_as_text_in_the_order_of_the_log(
            left in 1..i64::MAX,
            step in 0..3_i64,
            far: bool,
            id: u128,
            hashes: [[u8; 32]; 2],
        ) {
            let right = if far { i64::MAX - left + 1 } else { left.saturating_add(step) };
            let id = Uuid::from_u128(id);
            let cursors = [(left, hashes[0]), (right, hashes[1])].map(|(seq, hash)| write(id, seq, &hash));
            if left != right {
                prop_assert_eq!(cursors[0].cmp(&cursors[1]), left.cmp(&right));
            }
            for (cursor, seq) in cursors.iter().zip([left, right]) {
                prop_assert!(cursor.len() <= 256 && cursor.bytes().all(|byte| byte.is_ascii_alphanumeric()));
                prop_assert_eq!(parse(cursor), Some((seq, id)));
            }
        }
    }

    #[test]
    fn other_texts_are_no_cursors() {
        let cursor = write(Uuid::from_u128(7), 300, &[0xab; 32]);
        assert_eq!(parse(&cursor), Some((300, Uuid::from_u128(7))));
        let beginning = write(Uuid::from_u128(7), 0, &[]);
        assert_eq!(parse(&beginning), Some((0, Uuid::from_u128(7))));
        let negative = format!("8{}", &cursor[1..]);
        for text in
            ["", "-1", "now", &cursor[1..], &cursor.to_uppercase(), &cursor[..64], &format!("{cursor}ab"), &negative]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
