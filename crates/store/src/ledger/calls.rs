//! Calls of a transaction that are to be written, and those that wait for a result among them.

use crate::engine::{Connection, Insert, values};
use crate::error::Result;
use crate::model::Revision;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use uuid::Uuid;

static CALLS: Insert = Insert::new(
    "tool_call (session_id, call_id, writer, revision, position, message, answered_revision)",
    7,
    "on conflict (session_id, call_id, writer, revision, position) do update \
     set answered_revision = coalesce(excluded.answered_revision, tool_call.answered_revision)",
);

/// The inserts of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) static INSERTS: [&Insert; 1] = [&CALLS];

/// The position of a call: session, call id, writer, the revision of its message, the position of its part.
pub(crate) type CallKey = (i64, String, String, Revision, i64);

#[derive(Clone, Copy)]
pub(crate) struct CallState {
    pub(crate) message: Uuid,
    pub(crate) answered_revision: Option<Revision>,
}

/// Calls that are to be written.
#[derive(Default)]
pub(crate) struct CallRows(pub(crate) BTreeMap<CallKey, CallState>);

impl CallRows {
    pub(crate) fn calls_named(&self, key: i64, call_id: &str) -> impl Iterator<Item = (&CallKey, &CallState)> {
        let first = (key, call_id.to_owned(), String::new(), Revision::MIN, i64::MIN);
        self.0.range(first..).take_while(move |(call_key, _)| call_key.0 == key && call_key.1 == call_id)
    }

    /// The newest waiting call; of several in one message the first.
    pub(crate) fn waiting(
        &self,
        key: i64,
        call_id: &str,
        of: Candidates<'_>,
        before: Revision,
    ) -> Option<(CallKey, Uuid)> {
        let waits = |(call_key, state): &(&CallKey, &CallState)| {
            state.answered_revision.is_none() && call_key.3 <= before && of.includes(&call_key.2, state.message)
        };
        let newest = self
            .calls_named(key, call_id)
            .filter(waits)
            .max_by_key(|(call_key, _)| (call_key.3, Reverse(call_key.4)))?;
        Some((newest.0.clone(), newest.1.message))
    }

    /// Writes all of them.
    pub(crate) fn write(self, conn: &Connection) -> Result<()> {
        let values = self.0.into_iter().map(|((session, call_id, writer, revision, position), state)| {
            let message = state.message.into_bytes().to_vec();
            values![session, call_id, writer, revision, position, message, state.answered_revision]
        });
        CALLS.rows(conn, values)
    }
}

/// The calls among which the answered one is searched.
#[derive(Clone, Copy)]
pub(crate) enum Candidates<'a> {
    Writer(&'a str),
    Message(Uuid),
    Anybody,
}

impl<'a> Candidates<'a> {
    pub(crate) fn writer(self) -> Option<&'a str> {
        if let Self::Writer(writer) = self { Some(writer) } else { None }
    }

    pub(crate) fn message(self) -> Option<Uuid> {
        if let Self::Message(message) = self { Some(message) } else { None }
    }

    fn includes(self, writer: &str, message: Uuid) -> bool {
        self.writer().is_none_or(|own| own == writer) && self.message().is_none_or(|id| id == message)
    }
}
