//! Receipts of erasures. The store recognises erased content by them, so that an import does not bring it back. A
//! receipt is a hash keyed with the store's secret: nobody else can test a guess against it.

use super::codec;
use super::tx::PartInput;
use crate::engine::{self, Connection, Insert, List, values};
use crate::error::Result;
use crate::model::ids::{MessageId, PartId};
use crate::model::part::NewPart;
use crate::secrets::Salt;
use std::collections::HashSet;
use std::sync::Arc;

const FIND: &str =
    "select e.hash from rarray(?1) wanted join erased_content e on e.hash = wanted.value group by e.hash";
static ADD: Insert = Insert::new("erased_content (hash)", 1, "on conflict (hash) do nothing");

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[FIND];

#[cfg(test)]
pub(crate) static INSERTS: [&Insert; 1] = [&ADD];

/// The receipt of something that was erased.
pub(crate) type Hash = [u8; 32];

/// The receipts of a tenant's content.
#[derive(Clone)]
pub(crate) struct Receipts<'s> {
    salt: &'s Salt,
    tenant: Arc<str>,
}

impl<'s> Receipts<'s> {
    /// Receipts for a tenant's content, with the salt of digests.
    pub(crate) fn new(salt: &'s Salt, tenant: Arc<str>) -> Self {
        Self { salt, tenant }
    }

    pub(crate) fn salt(&self) -> &'s Salt {
        self.salt
    }

    fn hash(&self, kind: &str, fields: &[&[u8]]) -> Hash {
        let mut bytes = Vec::new();
        for field in [kind.as_bytes(), self.tenant.as_bytes()].iter().chain(fields) {
            bytes.extend((field.len() as u64).to_le_bytes());
            bytes.extend(*field);
        }
        self.salt.digest(&bytes)
    }

    /// For a part of a message with this client id, by the digest of what was received.
    pub(crate) fn of_part(&self, client_id: &str, digest: &[u8; 32]) -> Hash {
        self.hash("erased part", &[client_id.as_bytes(), digest])
    }

    /// For a part of this message alone.
    pub(crate) fn of_part_of(&self, part: PartId, digest: &[u8; 32]) -> Hash {
        self.hash("erased part of a version", &[part.0.as_bytes(), digest])
    }

    /// For metadata and end of this message alone.
    pub(crate) fn of_rest(&self, message: MessageId, digest: &[u8; 32]) -> Hash {
        self.hash("erased rest of a message", &[message.0.as_bytes(), digest])
    }

    /// For a part of an edit of a message with this client id. Edits have no client ids of their own.
    pub(crate) fn of_edit(&self, client_id: &str, digest: &[u8; 32]) -> Hash {
        self.hash("erased part of an edit", &[client_id.as_bytes(), digest])
    }

    /// For a summary, which has no client id, by the digest of its part.
    pub(crate) fn of_summary(&self, digest: &[u8; 32]) -> Hash {
        self.hash("erased summary", &[digest])
    }

    /// For a session whose metadata name its origin; none if they do not.
    pub(crate) fn of_session(&self, metadata_json: Option<&str>) -> Option<Hash> {
        let metadata: serde_json::Value = serde_json::from_str(metadata_json?).ok()?;
        let source = &metadata["source"];
        let [format, id, branch] = ["format", "id", "branch"].map(|name| source[name].as_str().unwrap_or_default());
        let is_named = !format.is_empty() && !id.is_empty();
        is_named.then(|| self.hash("erased session", &[format.as_bytes(), id.as_bytes(), branch.as_bytes()]))
    }
}

/// The digest of an erased part, by its bytes before compression: that of what was received, if they say it.
pub(crate) fn digest_of_stored(salt: &Salt, plain: &[u8]) -> Result<[u8; 32]> {
    Ok(match codec::decode_received(plain)? {
        codec::ReceivedPart::Whole(digest) => digest,
        // The bytes are those of `digest_of_part`.
        codec::ReceivedPart::AsStored => salt.digest(plain),
        codec::ReceivedPart::InPieces { .. } => {
            // A draft has no media.
            let (body, metadata) = codec::decode_part(plain, &|_| Some(Vec::new()))?;
            codec::digest_of_part(salt, &body, metadata.as_deref())
        }
    })
}

/// The digests that can identify a part that is sent: of the part as received, and of what rules for secrets left of
/// it.
pub(crate) fn digests_of_sent(salt: &Salt, part: &NewPart) -> Vec<[u8; 32]> {
    let as_stored = codec::digest_of_part(salt, &part.body, part.metadata_json.as_deref());
    part.received.into_iter().chain([as_stored]).collect()
}

/// Replaces a part by its erased form.
pub(crate) fn erase(part: &mut NewPart, input: &mut PartInput) {
    *part = NewPart { client_id: part.client_id.take(), ..NewPart::new(part.body.erased()) };
    *input = PartInput::from_client(part);
}

/// Keeps receipts for ever.
pub(crate) fn add(conn: &Connection, hashes: &[Hash]) -> Result<()> {
    ADD.rows(conn, hashes.iter().map(|hash| values![hash.as_slice()]))
}

/// The hashes among these that are receipts.
pub(crate) fn existing_receipts(conn: &Connection, hashes: &[Hash]) -> Result<HashSet<Vec<u8>>> {
    if hashes.is_empty() {
        return Ok(HashSet::new());
    }
    let wanted = List::of_bytes(hashes.iter().map(<[u8; 32]>::as_slice));
    Ok(engine::scalar(FIND).bind(wanted).all(conn)?.into_iter().collect())
}
