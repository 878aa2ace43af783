//! Events before they have their place in the chain of a session.

use super::chain::{self, Link};
use super::ring::EventRow;
use crate::model::event::EventKind;
use crate::model::ids::SessionId;
use crate::model::time::Timestamp;
use crate::model::{Revision, Seq};

/// An event of a mutation that has not ended. It is no row: only the end of its mutation makes one of it, so that
/// nothing that is written in between can hold an event without its hash.
pub(super) struct UnlinkedEvent {
    pub(super) seq: Seq,
    pub(super) session: i64,
    pub(super) session_id: SessionId,
    pub(super) revision: Revision,
    pub(super) kind: EventKind,
    pub(super) time: Timestamp,
    pub(super) actor: String,
    pub(super) request_id: String,
    pub(super) body: Vec<u8>,
    pub(super) digest: [u8; 32],
}

impl UnlinkedEvent {
    /// Its row, behind the event with this hash.
    pub(super) fn link(self, before: &[u8; 32], ends_mutation: bool) -> EventRow {
        let Self { seq, session, session_id, revision, kind, time, actor, request_id, body, digest } = self;
        let link = Link {
            seq,
            revision,
            kind: kind as i32,
            ends_mutation,
            time,
            actor: &actor,
            request_id: &request_id,
            body: &body,
            digest: &digest,
        };
        let hash = chain::link(before, &link);
        EventRow {
            seq,
            session,
            session_id,
            revision,
            kind,
            ends_mutation,
            time,
            actor,
            request_id,
            body,
            digest,
            hash,
        }
    }
}
