//! Opaque tokens: cursors of the log and page tokens of lists.

use super::error::{Error, Reason, Result};
use crate::model::Seq;
use crate::store::Store;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

/// Version of the cursor format, the first byte of a cursor.
const CURSOR_FORM: u8 = 1;
/// Bytes of an event's hash in a cursor: enough to detect a store that was restored and continued differently.
const HASH_BYTES: usize = 8;

/// The cursor after an event.
pub(super) fn behind(store: &Store, seq: Seq, hash: &[u8]) -> String {
    let mut bytes = vec![CURSOR_FORM];
    bytes.extend_from_slice(store.id().as_bytes());
    bytes.extend_from_slice(&seq.to_le_bytes());
    bytes.extend_from_slice(&hash[..HASH_BYTES.min(hash.len())]);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The cursor after the event with this number; zero means the beginning.
pub(super) async fn at(store: &Store, seq: Seq) -> Result<String> {
    let hash = if seq == 0 { None } else { store.log().hash_at_seq(seq).await? };
    Ok(behind(store, seq, &hash.unwrap_or_default()))
}

/// Parses a cursor, and refuses one that this store did not issue.
pub(super) async fn read(store: &Store, text: &str) -> Result<Seq> {
    let invalid = || Error::new(Reason::CursorInvalid, "the cursor is not one of Longhand's");
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid())?;
    let (form, rest) = bytes.split_first().ok_or_else(invalid)?;
    if *form != CURSOR_FORM || rest.len() < 24 || rest.len() > 24 + HASH_BYTES {
        return Err(invalid());
    }
    let (id, rest) = rest.split_at(16);
    let (seq, hash) = rest.split_at(8);
    let foreign = |why: &str| {
        Error::new(Reason::CursorForeign, format!("the cursor {why}; start from the beginning or with a snapshot"))
    };
    let id = Uuid::from_slice(id).map_err(|_| invalid())?;
    if id != store.id() {
        let restored = store.was_restored_from(id);
        return Err(foreign(if restored {
            "is from before the store was restored"
        } else {
            "belongs to another store"
        }));
    }
    let seq = Seq::from_le_bytes(seq.try_into().map_err(|_| invalid())?);
    if seq < 0 {
        return Err(invalid());
    }
    if seq == 0 {
        return Ok(0);
    }
    match store.log().hash_at_seq(seq).await? {
        Some(there) if there.starts_with(hash) => Ok(seq),
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
    let mut bytes = position.to_le_bytes().to_vec();
    bytes.extend_from_slice(&blake3::hash(scope.as_bytes()).as_bytes()[..HASH_BYTES]);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The position at which a page begins; none for the first page.
pub(super) fn page_start(token: &str, scope: &str) -> Result<Option<i64>> {
    if token.is_empty() {
        return Ok(None);
    }
    let invalid = || Error::new(Reason::PageTokenInvalid, "the page token belongs to no list like this one");
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| invalid())?;
    if bytes.len() != 8 + HASH_BYTES || bytes[8..] != blake3::hash(scope.as_bytes()).as_bytes()[..HASH_BYTES] {
        return Err(invalid());
    }
    let position: [u8; 8] = bytes[..8].try_into().map_err(|_| invalid())?;
    Ok(Some(i64::from_le_bytes(position)))
}
