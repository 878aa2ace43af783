//! Repeated requests with content that a rule for secrets changed before it was stored. Salted digests of what was
//! received recognise them, even if the rules have changed since.

use super::codec::{self, ReceivedPart};
use super::erased_content::{self, Hash, Receipts};
use super::messages::{self, NumberedPart};
use super::secrets::Secrets;
use super::tx::Tx;
use crate::engine::{self, Connection, Reader};
use crate::error::{Error, Result};
use crate::model::draft::DraftKind;
use crate::model::ids::{MessageId, PartId};
use crate::model::message::{Finish, GivenView, Message, NewMessage};
use crate::model::part::{Answers, NewPart, Part, PartBody, ResultStatus};
use crate::secrets::{DraftText, ReplacedSecret, Salt};
use std::collections::HashMap;

const MESSAGE: &str = "select id, head, parts, revision, session_id from message where public_id = ?1";
const PARTS: &str = "select number, revision, client_id, kind, codec, length, salt, body, blob_hash, call_message \
     from part where message_id = ?1 order by position";
const PART: &str = "select p.number, p.revision, p.client_id, p.kind, p.codec, p.length, p.salt, p.body, p.blob_hash, \
     p.call_message, m.session_id from message m join part p on p.message_id = m.id where m.public_id = ?1 and p.number = ?2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[MESSAGE, PARTS, PART];

/// What is known of a stored message as it was received.
pub(crate) struct ReceivedMessage {
    digest: Option<Vec<u8>>,
    parts: HashMap<PartId, ReceivedPart>,
}

impl ReceivedMessage {
    /// What is known of a part.
    pub(crate) fn part(&self, id: PartId) -> &ReceivedPart {
        self.parts.get(&id).unwrap_or(&ReceivedPart::AsStored)
    }
}

/// What is known of a message as it was received.
pub(crate) fn of_message(conn: &Connection, id: MessageId) -> Result<ReceivedMessage> {
    let mut reader = Reader::new(conn);
    let row = reader.one(engine::query(MESSAGE).bind(id.0.as_bytes().to_vec()))?;
    let row = row.ok_or_else(|| Error::corrupt("message", "the message is gone").in_row(id))?;
    let head = codec::decode_message_head(row.get(1)?).map_err(|error| error.in_row(id))?;
    let numbered: Vec<NumberedPart> = match row.get::<Option<&[u8]>>(2)? {
        Some(parts) => messages::whole(codec::decode_parts(parts).map_err(|error| error.in_row(id))?, row.get(3)?),
        None => {
            let rows = reader.all(engine::query(PARTS).bind(row.get::<i64>(0)?))?;
            rows.iter().map(messages::part_row).collect::<Result<_>>()?
        }
    };
    let session = row.get(4)?;
    let mut parts = HashMap::with_capacity(numbered.len());
    for NumberedPart { number, mut stored, .. } in numbered {
        let part = PartId::in_message(id, number);
        let plain = messages::plain_body(&mut reader, session, &mut stored).map_err(|error| error.in_row(part))?;
        parts.insert(part, codec::decode_received(&plain).map_err(|error| error.in_row(part))?);
    }
    Ok(ReceivedMessage { digest: head.received, parts })
}

/// What is known of a part of a message that was open.
pub(crate) fn of_part(conn: &Connection, part: PartId) -> Result<ReceivedPart> {
    let mut reader = Reader::new(conn);
    let message = part.message().0.as_bytes().to_vec();
    let Some(row) = reader.one(engine::query(PART).bind(message).bind(part.number()))? else {
        return Err(Error::corrupt("part", "the part is gone").in_row(part));
    };
    let mut stored = messages::part_row(&row)?.stored;
    let plain = messages::plain_body(&mut reader, row.get(10)?, &mut stored).map_err(|error| error.in_row(part))?;
    codec::decode_received(&plain).map_err(|error| error.in_row(part))
}

/// The salted digest of a part as it was received.
pub(crate) fn received_part(secrets: &Secrets, body: &PartBody, metadata_json: Option<&str>) -> [u8; 32] {
    codec::digest_of_part(secrets.salt(), body, metadata_json)
}

/// The salted digest of a message's metadata and end as received: a rule may change them.
pub(crate) fn received_rest(secrets: &Secrets, metadata_json: Option<&str>, detail: &str) -> [u8; 32] {
    digest_of_rest(secrets.salt(), metadata_json, detail)
}

/// The same for a message in the store.
pub(crate) fn digest_of_rest(salt: &Salt, metadata_json: Option<&str>, detail: &str) -> [u8; 32] {
    let mut bytes = Vec::new();
    for text in [metadata_json, Some(detail)] {
        let length = text.map_or(u64::MAX, |text| u64::try_from(text.len()).unwrap_or(u64::MAX));
        bytes.extend(length.to_le_bytes());
        bytes.extend(text.unwrap_or_default().bytes());
    }
    salt.digest(&bytes)
}

/// True if a message equals what was received for a stored message that now differs from it.
pub(crate) fn repeats(
    tx: &Tx<'_>,
    stored: &Message,
    (original, received): (&NewMessage<Option<GivenView>>, Option<[u8; 32]>),
) -> Result<bool> {
    if !has_same_frame(stored, original) {
        return Ok(false);
    }
    let known = of_message(tx.conn, stored.id)?;
    let salt = tx.secrets.salt();
    let (was, is) = rests(salt, &known, stored, (original, received));
    let parts = || stored.parts.iter().zip(&original.parts);
    Ok(was == is && parts().all(|(stored, sent)| same_part(salt, known.part(stored.id), stored, sent)))
}

/// True if a message equals a stored one in what that still has and in what it lost to an erasure.
pub(crate) fn repeats_erased(
    tx: &Tx<'_>,
    receipts: &Receipts<'_>,
    stored: &Message,
    (original, received): (&NewMessage<Option<GivenView>>, Option<[u8; 32]>),
) -> Result<bool> {
    if !has_same_frame(stored, original) {
        return Ok(false);
    }
    let known = of_message(tx.conn, stored.id)?;
    let salt = tx.secrets.salt();
    let mut erased = Vec::new();
    for (stored, sent) in stored.parts.iter().zip(&original.parts) {
        if stored.body.is_erased() && stored.client_id == sent.client_id {
            erased.push(receipts_of_part(receipts, stored.id, sent));
        } else if !same_part(salt, known.part(stored.id), stored, sent) {
            return Ok(false);
        }
    }
    let (was, is) = rests(salt, &known, stored, (original, received));
    if was != is {
        erased.push(vec![receipts.of_rest(stored.id, &is)]);
    }
    are_known(tx, &erased)
}

/// The same for an erased part of an open message.
pub(crate) fn repeats_erased_part(tx: &Tx<'_>, receipts: &Receipts<'_>, stored: &Part, sent: &NewPart) -> Result<bool> {
    are_known(tx, &[receipts_of_part(receipts, stored.id, sent)])
}

/// The receipts by which what is sent is known as an erased part of a message.
fn receipts_of_part(receipts: &Receipts<'_>, part: PartId, sent: &NewPart) -> Vec<Hash> {
    let digests = erased_content::digests_of_sent(receipts.salt(), sent);
    digests.iter().map(|digest| receipts.of_part_of(part, digest)).collect()
}

/// True if each of these has a receipt.
fn are_known(tx: &Tx<'_>, wanted: &[Vec<Hash>]) -> Result<bool> {
    let erased_hashes = erased_content::existing_receipts(tx.conn, &wanted.concat())?;
    Ok(wanted.iter().all(|any| any.iter().any(|hash| erased_hashes.contains(hash.as_slice()))))
}

/// True if a message that is sent again equals a stored one in what no rule changes and no erasure takes.
fn has_same_frame(stored: &Message, sent: &NewMessage<Option<GivenView>>) -> bool {
    let same_finish = match &sent.finish {
        Some(finish) => {
            // The text of the end is compared by its digest.
            let words = Finish { detail: stored.finish.detail.clone(), ..finish.clone() };
            stored.finish.is_as_sent(&words) && stored.parts.len() == sent.parts.len()
        }
        // A message that was left open may have grown since.
        None => stored.parts.len() >= sent.parts.len(),
    };
    stored.role == sent.role
        && stored.kind == sent.kind
        && stored.model == sent.model
        && stored.provider == sent.provider
        && same_finish
}

/// The digests of what a stored message has beside its parts, and of what is sent again.
fn rests(
    salt: &Salt,
    known: &ReceivedMessage,
    stored: &Message,
    (sent, received): (&NewMessage<Option<GivenView>>, Option<[u8; 32]>),
) -> ([u8; 32], [u8; 32]) {
    let detail = sent.finish.as_ref().map_or("", |_| stored.finish.detail.as_str());
    let was = known.digest.as_deref().and_then(|digest| digest.try_into().ok());
    let was = was.unwrap_or_else(|| digest_of_rest(salt, stored.metadata_json.as_deref(), detail));
    let sent_detail = sent.finish.as_ref().map_or("", |finish| finish.detail.as_str());
    let is = received.unwrap_or_else(|| digest_of_rest(salt, sent.metadata_json.as_deref(), sent_detail));
    (was, is)
}

/// The same for a part of an open message.
pub(crate) fn repeats_part(tx: &Tx<'_>, stored: &Part, sent: &NewPart) -> Result<bool> {
    Ok(same_part(tx.secrets.salt(), &of_part(tx.conn, stored.id)?, stored, sent))
}

/// True if the metadata of a draft that closes again are what was received for its part: as they are sent, with the salted
/// digest of what they were before a rule changed them.
pub(crate) fn repeats_metadata(
    tx: &Tx<'_>,
    stored: &Part,
    (metadata_json, received): (&Option<String>, Option<[u8; 32]>),
) -> Result<bool> {
    let digest = |json: &Option<String>| json.as_ref().map(|json| tx.secrets.salt().digest(json.as_bytes()));
    let was = match of_part(tx.conn, stored.id)? {
        ReceivedPart::Whole(_) => return Ok(false),
        ReceivedPart::InPieces { metadata: Some(metadata), .. } => Some(metadata),
        ReceivedPart::InPieces { metadata: None, .. } | ReceivedPart::AsStored => digest(&stored.metadata_json),
    };
    Ok(was == received.or_else(|| digest(metadata_json)))
}

/// The same for a part that came as a draft, and is sent again as a whole under no rule that changes it.
fn same_text(
    salt: &Salt,
    (replaced, metadata): (&[ReplacedSecret], Option<[u8; 32]>),
    stored: &Part,
    sent: &NewPart,
) -> bool {
    let (Some((kind, shown)), Some((_, text))) = (DraftKind::from_body(&stored.body), DraftKind::from_body(&sent.body))
    else {
        return false;
    };
    let status = match &*stored.body {
        PartBody::ToolResult(result) => result.status,
        _ => ResultStatus::Completed,
    };
    let digest = |json: &Option<String>| json.as_ref().map(|json| salt.digest(json.as_bytes()));
    sent.received.is_none()
        && DraftText::closed(replaced).is_all(salt, shown, text)
        && kind.part(text.to_owned(), status).is_as_sent(&sent.body)
        && metadata.or_else(|| digest(&stored.metadata_json)) == digest(&sent.metadata_json)
        && stored.client_id == sent.client_id
}

fn same_part(salt: &Salt, known: &ReceivedPart, stored: &Part, sent: &NewPart) -> bool {
    let digest = |body: &PartBody, metadata: &Option<String>| codec::digest_of_part(salt, body, metadata.as_deref());
    let was = match known {
        ReceivedPart::AsStored => digest(&stored.body, &stored.metadata_json),
        ReceivedPart::Whole(digest) => *digest,
        ReceivedPart::InPieces { replaced, metadata } => return same_text(salt, (replaced, *metadata), stored, sent),
    };
    let is = sent.received.unwrap_or_else(|| digest(&sent.body, &sent.metadata_json));
    let same_call = match (&*stored.body, &*sent.body) {
        (PartBody::ToolResult(stored), PartBody::ToolResult(sent)) => {
            sent.answers == Answers::Nearest || sent.answers == stored.answers
        }
        _ => true,
    };
    was == is && same_call && stored.client_id == sent.client_id
}
