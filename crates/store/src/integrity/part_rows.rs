//! The digest of a stored part.

use crate::engine::Reader;
use crate::error::Result;
use crate::ledger::chain::{self, Digest};
use crate::ledger::codec;
use crate::ledger::messages::{self, NumberedPart};
use crate::model::ids::{MessageId, PartId};

/// Adds a part at a position of a message of a session. Returns the bytes of its content.
pub(super) fn part(
    reader: &mut Reader<'_>,
    digest: &mut Digest,
    (session, message, position): (i64, MessageId, i64),
    numbered: NumberedPart,
) -> Result<u64> {
    let NumberedPart { number, mut stored, .. } = numbered;
    let plain = messages::plain_body(reader, session, &mut stored)?;
    let mut bytes = plain.len() as u64;
    for hash in codec::media_blobs(&plain)? {
        bytes += messages::blob(reader, session, &hash)?.len() as u64;
    }
    chain::part(
        digest,
        &chain::PartColumns {
            public_id: PartId::in_message(message, number).0.as_bytes(),
            client_id: stored.client_id.as_deref(),
            position,
            kind: stored.kind,
            commitment: &codec::commitment(&stored.salt, &plain),
            call_message: stored.call_message.as_deref(),
        },
    );
    Ok(bytes)
}
