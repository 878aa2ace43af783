//! Disk form of what is known of content that a rule for secrets changed.

use super::columns::decode_plain;
use crate::secrets::{DIGEST_BYTES, Replaced};
use crate::store::error::{Error, Result};

/// What is known of a part as it was received.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Received {
    /// As it is stored.
    #[default]
    AsStored,
    /// The salted digest of what came whole.
    Whole([u8; 32]),
    /// What placeholders in the text of a draft stand for.
    InPieces(Vec<Replaced>),
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

impl From<&Replaced> for DiskReplaced {
    fn from(replaced: &Replaced) -> Self {
        let Replaced { at, length, received, digest } = replaced;
        let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Self { at: number(*at), length: number(*length), received: number(*received), digest: digest.to_vec() }
    }
}

impl TryFrom<&DiskReplaced> for Replaced {
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
pub(super) struct DiskReceived {
    #[prost(bytes = "vec", optional, tag = "11")]
    pub(super) digest: Option<Vec<u8>>,
    #[prost(message, repeated, tag = "12")]
    pub(super) replaced: Vec<DiskReplaced>,
}

impl From<&Received> for DiskReceived {
    fn from(received: &Received) -> Self {
        match received {
            Received::AsStored => Self::default(),
            Received::Whole(digest) => Self { digest: Some(digest.to_vec()), replaced: Vec::new() },
            Received::InPieces(replaced) => Self { digest: None, replaced: replaced.iter().map(Into::into).collect() },
        }
    }
}

/// What a part's bytes say of how it was received. The other fields are skipped.
pub(crate) fn decode_received(plain: &[u8]) -> Result<Received> {
    let disk: DiskReceived = decode_plain("part", plain)?;
    match disk.digest {
        Some(digest) => digest.try_into().map(Received::Whole).map_err(|digest: Vec<u8>| {
            Error::corrupt("part", format_args!("the digest of what was received has {} bytes", digest.len()))
        }),
        None if disk.replaced.is_empty() => Ok(Received::AsStored),
        None => disk.replaced.iter().map(TryInto::try_into).collect::<Result<_>>().map(Received::InPieces),
    }
}
