//! Answers to requests that were answered before, and the common checks of changes of history.

use super::codec;
use super::head::Receipt;
use super::tx::{RequestKey, Requester, Tx};
use crate::engine;
use crate::engine::Reader;
use crate::error::{Error, Result};
use crate::model::Revision;

const SELECT_REQUEST: &str = "select payload_hash, receipt from request where session_id = ?1 and request_id = ?2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[SELECT_REQUEST];

/// The kept answer to an earlier request with the same id, if there was one. A new request is refused if it is made on
/// behalf of a run that is not the active one: every mutation of a session begins here. The head must be loaded.
pub(crate) fn answered(tx: &mut Tx<'_>, key: i64, caller: &Requester) -> Result<Option<Receipt>> {
    if let Some(answer) = caller.request.as_ref().and_then(|request| tx.fresh_request(key, request)) {
        return answer.map(Some);
    }
    let kept = kept_answer(&mut Reader::new(tx.conn), key, caller)?;
    if kept.is_none() {
        tx.loaded(key)?.fence(caller.epoch)?;
    }
    Ok(kept)
}

/// The answer to an earlier committed request with the same id, if there was one.
pub(crate) fn kept_answer(reader: &mut Reader<'_>, key: i64, caller: &Requester) -> Result<Option<Receipt>> {
    let Some(RequestKey { id, .. }) = &caller.request else { return Ok(None) };
    let row = reader.one(engine::query(SELECT_REQUEST).bind(key).bind(id))?;
    let Some(row) = row else { return Ok(None) };
    // Without the hash, nothing proves that it is the same request.
    if !caller.repeats(row.get(0)?) {
        return Err(Error::RequestIdReused { request_id: id.clone() });
    }
    let receipt: &[u8] = row.get(1)?;
    let receipt = codec::decode("request", receipt).map_err(|error| error.in_row(id))?;
    Receipt::from_disk(receipt).map(Some)
}

/// The common beginning of every change of history: first the kept answer to a repeated request, then the checks that
/// refuse a new one. All other checks must come after this, or a repeated request could get another answer.
pub(crate) fn admitted(
    tx: &mut Tx<'_>,
    key: i64,
    caller: &Requester,
    expected_revision: Option<Revision>,
) -> Result<Option<Receipt>> {
    tx.head(key)?;
    let answer = answered(tx, key, caller)?;
    if answer.is_none() {
        let head = tx.loaded(key)?;
        head.writable()?;
        head.expect(expected_revision)?;
    }
    Ok(answer)
}
