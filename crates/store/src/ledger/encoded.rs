//! Encoded messages of appends. A request can ask that content that was erased before stays erased.

use super::erased_content::{self, Receipts};
use super::received;
use super::tx::{MessageInput, Tx};
use crate::engine::Connection;
use crate::error::Result;
use crate::model::ids::PartId;
use crate::model::message::{GivenView, NewMessage};
use crate::secrets::Salt;
use std::collections::HashSet;
use uuid::Uuid;

#[derive(Clone)]
pub(crate) struct EncodedMessage {
    /// The message as the client sent it, for comparison with an existing one.
    pub(crate) original: NewMessage<Option<GivenView>>,
    pub(crate) input: MessageInput,
    /// The salted digest of its metadata and the details of its end, if they were received otherwise.
    pub(crate) received: Option<[u8; 32]>,
    /// True if it reports that a provider refused the view as too large.
    pub(crate) reports_overflow: bool,
    /// True if content that was erased before must stay erased.
    pub(crate) keeps_erased: bool,
    /// For each part, the digests that tell whether it was erased; empty if the request does not ask.
    pub(crate) digests: Vec<Vec<[u8; 32]>>,
    /// What it lacks because it was erased before; none if it lacks nothing.
    pub(crate) lacking: Option<MissingContent>,
}

/// What a message lacks because it was erased before.
#[derive(Clone)]
pub(crate) struct MissingContent {
    /// For each part, whether it is lacking.
    parts: Vec<bool>,
    /// The salted digest of the erased metadata and end; none if the message still has them.
    rest: Option<[u8; 32]>,
}

/// Removes content that was erased before from messages that ask for it, as an erasure would. Returns their ids.
pub(super) fn keep_erased(
    conn: &Connection,
    receipts: &Receipts<'_>,
    messages: Vec<&mut EncodedMessage>,
) -> Result<HashSet<Uuid>> {
    let mut erased = HashSet::new();
    let keeping: Vec<_> = messages.into_iter().filter(|message| message.keeps_erased).collect();
    let mut hashes = Vec::with_capacity(keeping.len());
    for message in &keeping {
        let client_id = message.original.client_id.as_deref();
        let hash = |digest: &[u8; 32]| client_id.map(|client_id| receipts.of_part(client_id, digest));
        hashes.push(message.digests.iter().map(|part| part.iter().filter_map(hash).collect()).collect::<Vec<Vec<_>>>());
    }
    let erased_hashes = erased_content::existing_receipts(conn, &hashes.concat().concat())?;
    if erased_hashes.is_empty() {
        return Ok(erased);
    }
    for (hashes, message) in hashes.iter().zip(keeping) {
        let is_known =
            |part: &Vec<erased_content::Hash>| part.iter().any(|hash| erased_hashes.contains(hash.as_slice()));
        let parts: Vec<bool> = hashes.iter().map(is_known).collect();
        if parts.contains(&true) {
            message.erase(parts, receipts.salt());
            erased.insert(message.input.id.0);
        }
    }
    Ok(erased)
}

impl EncodedMessage {
    /// Replaces erased parts by their erased form. A message that loses all its parts loses metadata and end as well.
    fn erase(&mut self, parts: Vec<bool>, salt: &Salt) {
        let Self { original, input, received, .. } = self;
        let parts_with_input = original.parts.iter_mut().zip(&mut input.parts).zip(&parts);
        for ((part, input), _) in parts_with_input.filter(|(_, is_erased)| **is_erased) {
            erased_content::erase(part, input);
        }
        input.counted = None;
        let mut rest = None;
        if !parts.contains(&false) {
            let detail = original.finish.as_ref().map_or("", |finish| finish.detail.as_str());
            let digest = || received::digest_of_rest(salt, original.metadata_json.as_deref(), detail);
            rest = Some(received.unwrap_or_else(digest));
            (original.metadata_json, input.head.metadata_json, input.head.received) = (None, None, None);
            let ends = [&mut original.finish, &mut input.finish];
            ends.into_iter().flatten().for_each(|finish| finish.detail.clear());
        }
        self.lacking = Some(MissingContent { parts, rest });
    }

    /// Keeps receipts for what was removed, so that another append of it is recognised.
    pub(super) fn keep_receipts(&self, tx: &mut Tx<'_>, key: i64) -> Result<()> {
        let Some(MissingContent { parts, rest }) = &self.lacking else { return Ok(()) };
        let receipts = Receipts::new(tx.secrets.salt(), tx.loaded(key)?.tenant.clone());
        let id = self.input.id;
        let lacking = (1..).zip(&self.digests).zip(parts).filter(|(_, is_lacking)| **is_lacking);
        let kept = lacking.flat_map(|((number, digests), _)| digests.iter().map(move |digest| (number, digest)));
        let kept = kept.map(|(number, digest)| receipts.of_part_of(PartId::in_message(id, number), digest));
        let kept: Vec<_> = kept.chain(rest.map(|rest| receipts.of_rest(id, &rest))).collect();
        erased_content::add(tx.conn, &kept)
    }
}
