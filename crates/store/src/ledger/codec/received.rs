//! Disk form of what is known of content that a rule for secrets changed.

use super::columns::decode_plain;
use super::parts::{EncodedPart, encode_part_with, text_bytes};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::part::PartBody;
use crate::secrets::{DIGEST_BYTES, ReplacedSecret};
use prost::Message as _;

/// What is known of a part as it was received.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum ReceivedPart {
    /// As it is stored.
    #[default]
    AsStored,
    /// The salted digest of what came whole.
    Whole([u8; 32]),
    /// A draft, with what placeholders in its text stand for, and the salted digest of its metadata, if they were received
    /// otherwise.
    InPieces { replaced: Vec<ReplacedSecret>, metadata: Option<[u8; 32]> },
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DiskReplaced {
    #[prost(uint64, tag = "1")]
    at: u64,
    #[prost(uint64, tag = "2")]
    length: u64,
    #[prost(uint64, tag = "3")]
    received: u64,
    #[prost(bytes = "vec", tag = "4")]
    digest: Vec<u8>,
}

impl From<&ReplacedSecret> for DiskReplaced {
    fn from(replaced: &ReplacedSecret) -> Self {
        let ReplacedSecret { at, length, received, digest } = replaced;
        let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Self { at: number(*at), length: number(*length), received: number(*received), digest: digest.to_vec() }
    }
}

impl TryFrom<&DiskReplaced> for ReplacedSecret {
    type Error = Error;

    fn try_from(disk: &DiskReplaced) -> Result<Self> {
        let number = |number: u64| usize::try_from(number).map_err(|error| Error::corrupt("part", error));
        let digest: [u8; DIGEST_BYTES] = disk.digest.as_slice().try_into().map_err(|_| {
            Error::corrupt("part", format_args!("the digest of a secret has {} bytes", disk.digest.len()))
        })?;
        Ok(Self { at: number(disk.at)?, length: number(disk.length)?, received: number(disk.received)?, digest })
    }
}

/// The fields of a part's bytes beside its content.
#[derive(Clone, PartialEq, prost::Message)]
struct DiskReceived {
    #[prost(bytes = "vec", optional, tag = "11")]
    pub(super) digest: Option<Vec<u8>>,
    #[prost(message, repeated, tag = "12")]
    pub(super) replaced: Vec<DiskReplaced>,
    #[prost(bytes = "vec", optional, tag = "13")]
    pub(super) metadata: Option<Vec<u8>>,
}

impl From<&ReceivedPart> for DiskReceived {
    fn from(received: &ReceivedPart) -> Self {
        match received {
            ReceivedPart::AsStored => Self::default(),
            ReceivedPart::Whole(digest) => Self { digest: Some(digest.to_vec()), ..Self::default() },
            ReceivedPart::InPieces { replaced, metadata } => Self {
                digest: None,
                replaced: replaced.iter().map(Into::into).collect(),
                metadata: metadata.map(Vec::from),
            },
        }
    }
}

/// Encodes a part of which more is known than its content.
pub(crate) fn encode_received_part(
    body: &PartBody,
    metadata_json: Option<&str>,
    received: &ReceivedPart,
    salt: [u8; 16],
) -> EncodedPart {
    encode_part_with(body, metadata_json, &DiskReceived::from(received).encode_to_vec(), salt)
}

/// What a part's bytes say of how it was received. The other fields are skipped.
pub(crate) fn decode_received(plain: &[u8]) -> Result<ReceivedPart> {
    let disk: DiskReceived = decode_plain("part", plain)?;
    let digest = |digest: Vec<u8>| {
        digest.try_into().map_err(|digest: Vec<u8>| {
            Error::corrupt("part", format_args!("the digest of what was received has {} bytes", digest.len()))
        })
    };
    match (disk.digest, disk.metadata) {
        (Some(whole), _) => digest(whole).map(ReceivedPart::Whole),
        (None, None) if disk.replaced.is_empty() => Ok(ReceivedPart::AsStored),
        (None, metadata) => {
            let replaced = disk.replaced.iter().map(TryInto::try_into).collect::<Result<Vec<_>>>()?;
            if !replaced.is_empty() {
                check_replaced(&replaced, text_bytes(plain)?)?;
            }
            Ok(ReceivedPart::InPieces { replaced, metadata: metadata.map(digest).transpose()? })
        }
    }
}

/// Refuses placeholders that are not one behind the other in a text of this length. An archive may have any.
fn check_replaced(all: &[ReplacedSecret], text_bytes: usize) -> Result<()> {
    let mut end = 0;
    for replaced in all {
        let fits = replaced.at >= end && replaced.length > 0 && replaced.received <= limits::DRAFT_BYTES_MAX;
        let behind = replaced.at.checked_add(replaced.length).filter(|behind| fits && *behind <= text_bytes);
        end = behind.ok_or_else(|| Error::corrupt("part", "placeholders are not in order within its text"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{decode_received, decompress, encode_received_part};
    use super::ReceivedPart;
    use crate::model::part::PartBody;
    use crate::secrets::{DIGEST_BYTES, ReplacedSecret};

    #[test]
    fn placeholders_are_in_order_within_their_text() {
        let at = |at, length| ReplacedSecret { at, length, received: 9, digest: [7; DIGEST_BYTES] };
        let huge = ReplacedSecret { received: usize::MAX / 2, ..at(0, 4) };
        for (replaced, is_valid) in [
            (vec![at(0, 4), at(4, 6)], true),
            (vec![at(2, 3)], true),
            (vec![at(4, 6), at(0, 4)], false),
            (vec![at(0, 4), at(3, 4)], false),
            (vec![at(4, 7)], false),
            (vec![at(usize::MAX, 1)], false),
            (vec![at(0, 0)], false),
            (vec![huge.clone(), huge], false),
        ] {
            let received = ReceivedPart::InPieces { replaced: replaced.clone(), metadata: Some([1; 32]) };
            let encoded = encode_received_part(&PartBody::Text("0123456789".to_owned()), None, &received, [0; 16]);
            let body = encoded.body.expect("it is short");
            let plain = decompress("part", encoded.codec, encoded.length, body.to_vec()).expect("it is whole");
            let decoded = decode_received(&plain).ok();
            assert_eq!(decoded, is_valid.then_some(received), "{replaced:?}");
        }
    }
}
