//! Labels of sessions.

use super::chain::Digest;
use super::codec;
use super::head::{Receipt, SessionKey};
use super::receipts::answered;
use super::tx::{Requester, Tx};
use crate::engine::{self, Connection, Reader};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::event::{EventBody, EventKind};
use crate::model::session::SessionState;

const OF_SESSION: &str = "select label from session_label where session_id = ?1 order by label";
const INSERT: &str = "insert into session_label (session_id, label, tenant) values (?1, ?2, ?3)";
const DELETE: &str = "delete from session_label where session_id = ?1 and label = ?2";
const CHANGES: &str = "select kind, body from event where session_id = ?1 and kind in (?2, ?3) order by revision";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[OF_SESSION, INSERT, DELETE, CHANGES];

/// A change of a session's labels.
#[derive(Debug, Clone)]
pub enum LabelChange {
    /// Adds a label; one that is there stays.
    Add(String),
    /// Removes a label, if it is there.
    Remove(String),
}

/// The labels of a session, in the order of their bytes.
pub(crate) fn of_session(reader: &mut Reader<'_>, key: i64) -> Result<Vec<String>> {
    reader.all(engine::query(OF_SESSION).bind(key))?.iter().map(|row| row.get(0)).collect()
}

fn labels(conn: &Connection, key: i64) -> Result<Vec<String>> {
    engine::scalar(OF_SESSION).bind(key).all(conn)
}

/// Writes the labels that follow from the events of a session which came from an archive.
pub(crate) fn follow(conn: &Connection, key: i64, tenant: &str) -> Result<()> {
    let (added, removed) = (EventKind::LabelAdded as i32, EventKind::LabelRemoved as i32);
    for row in engine::query(CHANGES).bind(key).bind(added).bind(removed).all(conn)? {
        match codec::decode_event(row.get(0)?, row.get(1)?)? {
            EventBody::LabelAdded { label } => engine::query(INSERT).bind(key).bind(label).bind(tenant).run(conn)?,
            EventBody::LabelRemoved { label } => engine::query(DELETE).bind(key).bind(label).run(conn)?,
            _ => {}
        }
    }
    Ok(())
}

/// Changes a session's labels, of an archived one too: they are about the session, and not part of it. Without an effect
/// there is no event.
pub(crate) fn change(tx: &mut Tx<'_>, key: SessionKey, change: &LabelChange, caller: &Requester) -> Result<Receipt> {
    let key = key.0;
    tx.head(key)?;
    if let Some(receipt) = answered(tx, key, caller)? {
        return Ok(receipt);
    }
    if tx.loaded(key)?.state == SessionState::Erased {
        return Err(Error::SessionErased);
    }
    let labels = labels(tx.conn, key)?;
    match change {
        LabelChange::Add(label) if !labels.contains(label) => {
            if labels.len() >= limits::SESSION_LABELS_MAX {
                let count = |count| i64::try_from(count).unwrap_or(i64::MAX);
                let (limit, actual) = (count(limits::SESSION_LABELS_MAX), count(labels.len() + 1));
                return Err(Error::LimitExceeded { what: "labels of one session", limit, actual });
            }
            let tenant = tx.loaded(key)?.tenant.clone();
            engine::query(INSERT).bind(key).bind(label).bind(tenant.to_string()).run(tx.conn)?;
            tx.event(key, caller, &EventBody::LabelAdded { label: label.clone() }, &Digest::default())?;
        }
        LabelChange::Remove(label) if labels.contains(label) => {
            engine::query(DELETE).bind(key).bind(label).run(tx.conn)?;
            tx.event(key, caller, &EventBody::LabelRemoved { label: label.clone() }, &Digest::default())?;
        }
        LabelChange::Add(_) | LabelChange::Remove(_) => {}
    }
    tx.end_mutation(key, caller, Receipt::default())
}
