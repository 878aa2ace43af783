//! Opaque tokens: cursors of the log and page tokens of lists.

use super::Caller;
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
pub(super) fn after_event(store: &Store, seq: Seq, hash: &[u8]) -> String {
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
pub(super) async fn after_seq(store: &Store, seq: Seq) -> Result<String> {
    let hash = if seq == 0 { None } else { store.log().hash_at_seq(seq).await? };
    Ok(after_event(store, seq, &hash.unwrap_or_default()))
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

impl Caller {
    /// The token of a list's next page. It is tied to the parameters of the list and to the caller's tenant.
    pub(super) fn page_token(&self, position: i64, scope: &str) -> String {
        self.token(&[position], scope)
    }

    /// The position at which a page begins; none for the first page.
    pub(super) fn page_start(&self, token: &str, scope: &str) -> Result<Option<i64>> {
        Ok(self.start(token, scope)?.map(|[position]| position))
    }

    /// The token of the next page of a list of sessions.
    pub(super) fn list_token(&self, position: ListPosition, scope: &str) -> String {
        self.token(&[position.time, position.key], scope)
    }

    /// The place behind which a page of sessions begins; none for the first page.
    pub(super) fn list_start(&self, token: &str, scope: &str) -> Result<Option<ListPosition>> {
        Ok(self.start(token, scope)?.map(|[time, key]| ListPosition { time, key }))
    }

    fn token(&self, positions: &[i64], scope: &str) -> String {
        let bytes: Vec<u8> = positions.iter().flat_map(|position| position.to_le_bytes()).collect();
        seal(self.store().page_key(), &self.page_scope(scope), bytes)
    }

    fn start<const COUNT: usize>(&self, token: &str, scope: &str) -> Result<Option<[i64; COUNT]>> {
        if token.is_empty() {
            return Ok(None);
        }
        let invalid = || Error::new(Reason::PageTokenInvalid, "the page token belongs to no list like this one");
        let bytes = open(self.store().page_key(), &self.page_scope(scope), token).ok_or_else(invalid)?;
        let (positions, rest) = bytes.as_chunks::<8>();
        let positions: Vec<i64> = positions.iter().copied().map(i64::from_le_bytes).collect();
        positions.try_into().ok().filter(|_| rest.is_empty()).map(Some).ok_or_else(invalid)
    }

    fn page_scope(&self, scope: &str) -> String {
        format!("{:?} {scope}", self.visibility.tenant)
    }
}

/// Seals bytes for a scope, so that they tell nothing and nobody else can make such a token. The mask follows from the
/// hash of what it hides, and so the same place has the same token: pages that are read again are equal.
fn seal(key: &[u8; 32], scope: &str, mut bytes: Vec<u8>) -> String {
    let hash = sealing_hash(key, scope, &bytes);
    mask(key, &hash, &mut bytes);
    URL_SAFE_NO_PAD.encode([hash.as_bytes().as_slice(), &bytes].concat())
}

/// The bytes that were sealed; none if this key never sealed them for the scope.
fn open(key: &[u8; 32], scope: &str, token: &str) -> Option<Vec<u8>> {
    let sealed = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (hash, bytes) = sealed.split_first_chunk::<32>()?;
    let (hash, mut bytes) = (blake3::Hash::from_bytes(*hash), bytes.to_vec());
    mask(key, &hash, &mut bytes);
    // Hashes compare in constant time.
    (sealing_hash(key, scope, &bytes) == hash).then_some(bytes)
}

fn sealing_hash(key: &[u8; 32], scope: &str, bytes: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(b"hash").update(&(scope.len() as u64).to_le_bytes()).update(scope.as_bytes()).update(bytes);
    hasher.finalize()
}

/// Hides bytes, or shows them again.
fn mask(key: &[u8; 32], hash: &blake3::Hash, bytes: &mut [u8]) {
    let mut stream = vec![0; bytes.len()];
    blake3::Hasher::new_keyed(key).update(b"mask").update(hash.as_bytes()).finalize_xof().fill(&mut stream);
    bytes.iter_mut().zip(stream).for_each(|(byte, mask)| *byte ^= mask);
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
