//! The encoded columns of a message: its head and its end.

use super::columns::{DiskUsage, DiskWindow, Number, decode, encode, id_bytes, uuid};
use super::parts::{decompress, pack};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::ids::MessageId;
use crate::model::message::{Finish, FinishReason, GivenView, Message, ReplacedMessage};

/// The columns of a message that no query uses.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct MessageHead {
    #[prost(string, tag = "1")]
    pub(crate) actor: String,
    #[prost(string, tag = "2")]
    pub(crate) model: String,
    #[prost(string, tag = "3")]
    pub(crate) provider: String,
    #[prost(int64, optional, tag = "4")]
    pub(crate) origin_time: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub(crate) metadata_json: Option<String>,
    /// The compressed metadata, in place of the plain text if shorter; the next field is the length before compression.
    #[prost(bytes = "vec", optional, tag = "6")]
    pub(crate) packed_metadata: Option<Vec<u8>>,
    #[prost(int64, tag = "7")]
    pub(crate) metadata_length: i64,
    /// For an edit: the id of the message that it replaces, and the writer of that message.
    #[prost(bytes = "vec", optional, tag = "8")]
    pub(crate) replaced_id: Option<Vec<u8>>,
    #[prost(string, tag = "9")]
    pub(crate) replaced_writer: String,
    /// The number of the run that wrote it.
    #[prost(int64, optional, tag = "10")]
    pub(crate) epoch: Option<i64>,
    /// The salted digest of metadata and details of the end as they were received, if a rule for secrets changed them.
    #[prost(bytes = "vec", optional, tag = "11")]
    pub(crate) received: Option<Vec<u8>>,
}

impl MessageHead {
    /// The head of a message that replaces another.
    pub(crate) fn replacing(original: &Message) -> Self {
        let replaced_id = Some(id_bytes(original.id.0));
        Self { replaced_id, replaced_writer: original.writer().to_owned(), ..Self::default() }
    }

    /// The message that it replaces.
    pub(crate) fn replaces(&self) -> Result<Option<ReplacedMessage>> {
        let Some(id) = &self.replaced_id else { return Ok(None) };
        Ok(Some(ReplacedMessage { message: MessageId(uuid(id)?), writer: self.replaced_writer.clone() }))
    }

    /// The encoded head, with its metadata compressed if that saves space.
    pub(crate) fn encode_packed(mut self) -> Vec<u8> {
        if let Some(text) = &self.metadata_json
            && text.len() >= limits::COMPRESS_BYTES_MIN
            && let Ok(packed) = pack(text.as_bytes())
            && packed.len() < text.len()
        {
            self.metadata_length = i64::try_from(text.len()).unwrap_or(i64::MAX);
            self.packed_metadata = Some(packed);
            self.metadata_json = None;
        }
        encode(&self)
    }
}

pub(crate) fn decode_message_head(bytes: &[u8]) -> Result<MessageHead> {
    let mut head: MessageHead = decode("message", bytes)?;
    if let Some(packed) = head.packed_metadata.take() {
        let plain = decompress("message", 1, head.metadata_length, packed)?;
        head.metadata_json = Some(String::from_utf8(plain).map_err(|error| Error::corrupt("message", error))?);
    }
    Ok(head)
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskFinish {
    #[prost(int32, optional, tag = "1")]
    reason: Option<i32>,
    #[prost(string, tag = "2")]
    detail: String,
    #[prost(message, optional, tag = "3")]
    usage: Option<DiskUsage>,
    #[prost(message, optional, tag = "6")]
    view: Option<DiskGivenView>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskGivenView {
    #[prost(int64, tag = "1")]
    revision: i64,
    #[prost(bytes = "vec", tag = "2")]
    hash: Vec<u8>,
    #[prost(message, optional, tag = "3")]
    window: Option<DiskWindow>,
    #[prost(bool, tag = "4")]
    shortened: bool,
}

impl From<&GivenView> for DiskGivenView {
    fn from(view: &GivenView) -> Self {
        let GivenView { revision, hash, window, shortened } = view;
        Self { revision: *revision, hash: hash.to_vec(), window: Some(window.into()), shortened: *shortened }
    }
}

impl TryFrom<DiskGivenView> for GivenView {
    type Error = Error;

    fn try_from(disk: DiskGivenView) -> Result<Self> {
        let hash = disk.hash.try_into().map_err(|_| Error::corrupt("message", "a view's hash is not 32 bytes"))?;
        let window = disk.window.ok_or_else(|| Error::corrupt("message", "a view has no window"))?.try_into()?;
        Ok(Self { revision: disk.revision, hash, window, shortened: disk.shortened })
    }
}

pub(crate) fn encode_finish(finish: &Finish) -> Vec<u8> {
    encode(&DiskFinish {
        reason: finish.reason.map(Number::number),
        detail: finish.detail.clone(),
        usage: finish.usage.map(Into::into),
        view: finish.view.as_ref().map(Into::into),
    })
}

pub(crate) fn decode_finish(bytes: &[u8]) -> Result<Finish> {
    let disk: DiskFinish = decode("message", bytes)?;
    Ok(Finish {
        reason: disk.reason.map(FinishReason::from_number).transpose()?,
        detail: disk.detail,
        usage: disk.usage.map(Into::into),
        view: disk.view.map(TryInto::try_into).transpose()?,
    })
}
