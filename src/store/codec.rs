//! Disk formats: what the encoded columns hold. The numbers here are on disks, and never change their meaning.

use super::error::{Error, Result};
use crate::limits;
use crate::model::compaction::{CompactionKind, CompactionState, Failure, Outcome, RevisionRange, Trigger};
use crate::model::event::{EventBody, EventKind};
use crate::model::ids::{CompactionId, MessageId, PartId, SessionId};
use crate::model::layout::{Covered, Layout, OmitReason, Omitted, Place, Span};
use crate::model::mark::{CompactedMark, MarkBody};
use crate::model::message::{Finish, FinishReason, MessageKind, Role};
use crate::model::part::{
    Marker, Media, MediaSource, Opaque, PartBody, Record, ResultStatus, Step, ToolCall, ToolResult,
};
use crate::model::session::SessionState;
use crate::model::time::Timestamp;
use crate::model::usage::{ModelWindow, Usage};
use prost::Message as _;
use uuid::Uuid;

/// Gives every closed enum a fixed number on disk, and refuses unknown ones.
macro_rules! numbers {
    ($type:ty, $table:literal, $( $variant:path = $number:literal ),+ $(,)?) => {
        impl Number for $type {
            fn number(self) -> i32 {
                match self { $( $variant => $number ),+ }
            }

            fn from_number(number: i32) -> Result<Self> {
                match number {
                    $( $number => Ok($variant), )+
                    other => Err(Error::corrupt($table, format_args!("unknown {} {other}", stringify!($type)))),
                }
            }
        }
    };
}

/// A closed enum with fixed numbers on disk.
pub(crate) trait Number: Sized {
    /// The number on disk.
    fn number(self) -> i32;
    /// What the number means.
    fn from_number(number: i32) -> Result<Self>;
}

numbers!(Role, "message", Role::User = 1, Role::Assistant = 2, Role::Tool = 3, Role::System = 4);
numbers!(
    MessageKind,
    "message",
    MessageKind::Normal = 1,
    MessageKind::Record = 2,
    MessageKind::Edit = 3,
    MessageKind::Summary = 4,
    MessageKind::Marker = 5
);
numbers!(
    FinishReason,
    "message",
    FinishReason::Stop = 1,
    FinishReason::ToolCalls = 2,
    FinishReason::Length = 3,
    FinishReason::ContentFilter = 4,
    FinishReason::Error = 5,
    FinishReason::Aborted = 6
);
numbers!(ResultStatus, "part", ResultStatus::Completed = 1, ResultStatus::Error = 2, ResultStatus::Interrupted = 3);
numbers!(SessionState, "session", SessionState::Active = 1, SessionState::Archived = 2);
numbers!(CompactionKind, "job", CompactionKind::Prune = 1, CompactionKind::Summary = 2);
numbers!(Trigger, "job", Trigger::Threshold = 1, Trigger::Routine = 2, Trigger::Manual = 3, Trigger::Supplied = 4);
numbers!(
    CompactionState,
    "job",
    CompactionState::Ready = 1,
    CompactionState::Running = 2,
    CompactionState::Done = 3,
    CompactionState::Failed = 4,
    CompactionState::Cancelled = 5,
    CompactionState::Superseded = 6,
    CompactionState::Dead = 7
);
numbers!(OmitReason, "layout", OmitReason::Rewound = 1, OmitReason::Edited = 2);

/// The lane a kind of message lives in, see the migration.
pub(crate) fn lane(kind: MessageKind) -> i32 {
    match kind {
        MessageKind::Normal => 0,
        MessageKind::Summary | MessageKind::Marker => 1,
        MessageKind::Record => 2,
        MessageKind::Edit => 3,
    }
}

/// Reads an id's 16 bytes.
pub(crate) fn uuid(bytes: &[u8]) -> Result<Uuid> {
    Uuid::from_slice(bytes).map_err(|error| Error::corrupt("public_id", error))
}

fn id_bytes(id: Uuid) -> Vec<u8> {
    id.as_bytes().to_vec()
}

fn decode<M: prost::Message + Default>(table: &'static str, bytes: &[u8]) -> Result<M> {
    M::decode(bytes).map_err(|error| Error::corrupt(table, error))
}

// ---- small values ----

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DiskUsage {
    #[prost(int64, tag = "1")]
    input: i64,
    #[prost(int64, tag = "2")]
    output: i64,
    #[prost(int64, tag = "3")]
    reasoning: i64,
    #[prost(int64, tag = "4")]
    cache_read: i64,
    #[prost(int64, tag = "5")]
    cache_write: i64,
    #[prost(int64, optional, tag = "6")]
    total: Option<i64>,
    #[prost(double, optional, tag = "7")]
    cost_usd: Option<f64>,
}

impl From<Usage> for DiskUsage {
    fn from(usage: Usage) -> Self {
        let Usage { input, output, reasoning, cache_read, cache_write, total, cost_usd } = usage;
        Self { input, output, reasoning, cache_read, cache_write, total, cost_usd }
    }
}

impl From<DiskUsage> for Usage {
    fn from(usage: DiskUsage) -> Self {
        let DiskUsage { input, output, reasoning, cache_read, cache_write, total, cost_usd } = usage;
        Self { input, output, reasoning, cache_read, cache_write, total, cost_usd }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DiskWindow {
    #[prost(string, tag = "1")]
    model: String,
    #[prost(int64, tag = "2")]
    context: i64,
    #[prost(int64, optional, tag = "3")]
    input: Option<i64>,
    #[prost(int64, optional, tag = "4")]
    output: Option<i64>,
}

impl From<&ModelWindow> for DiskWindow {
    fn from(window: &ModelWindow) -> Self {
        let ModelWindow { model, context, input, output } = window.clone();
        Self { model, context, input, output }
    }
}

impl From<DiskWindow> for ModelWindow {
    fn from(window: DiskWindow) -> Self {
        let DiskWindow { model, context, input, output } = window;
        Self { model, context, input, output }
    }
}

pub(crate) fn encode_window(window: &ModelWindow) -> Vec<u8> {
    DiskWindow::from(window).encode_to_vec()
}

pub(crate) fn decode_window(bytes: &[u8]) -> Result<ModelWindow> {
    decode::<DiskWindow>("session", bytes).map(Into::into)
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DiskRange {
    #[prost(int64, tag = "1")]
    first: i64,
    #[prost(int64, tag = "2")]
    last: i64,
}

fn ranges_to_disk(ranges: &[RevisionRange]) -> Vec<DiskRange> {
    ranges.iter().map(|range| DiskRange { first: range.first, last: range.last }).collect()
}

fn ranges_from_disk(ranges: Vec<DiskRange>) -> Vec<RevisionRange> {
    ranges.into_iter().map(|range| RevisionRange { first: range.first, last: range.last }).collect()
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DiskFailure {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    message: String,
}

impl From<&Failure> for DiskFailure {
    fn from(failure: &Failure) -> Self {
        Self { reason: failure.reason.clone(), message: failure.message.clone() }
    }
}

impl From<DiskFailure> for Failure {
    fn from(failure: DiskFailure) -> Self {
        Self { reason: failure.reason, message: failure.message }
    }
}

pub(crate) fn encode_failure(failure: &Failure) -> Vec<u8> {
    DiskFailure::from(failure).encode_to_vec()
}

pub(crate) fn decode_failure(bytes: &[u8]) -> Result<Failure> {
    decode::<DiskFailure>("job", bytes).map(Into::into)
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DiskOutcome {
    #[prost(message, repeated, tag = "1")]
    covered: Vec<DiskRange>,
    #[prost(int64, tag = "2")]
    covered_count: i64,
    #[prost(bytes = "vec", optional, tag = "3")]
    tail_start: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "4")]
    summary_message: Option<Vec<u8>>,
    #[prost(int64, tag = "5")]
    pruned_count: i64,
    #[prost(int64, tag = "6")]
    tokens_before: i64,
    #[prost(int64, tag = "7")]
    tokens_after: i64,
    #[prost(int64, tag = "8")]
    first_changed_index: i64,
    #[prost(string, tag = "9")]
    summarizer: String,
    #[prost(message, optional, tag = "10")]
    usage: Option<DiskUsage>,
    #[prost(int64, tag = "11")]
    duration_ms: i64,
}

impl From<&Outcome> for DiskOutcome {
    fn from(outcome: &Outcome) -> Self {
        Self {
            covered: ranges_to_disk(&outcome.covered),
            covered_count: outcome.covered_count,
            tail_start: outcome.tail_start.map(|id| id_bytes(id.0)),
            summary_message: outcome.summary_message.map(|id| id_bytes(id.0)),
            pruned_count: outcome.pruned_count,
            tokens_before: outcome.tokens_before,
            tokens_after: outcome.tokens_after,
            first_changed_index: outcome.first_changed_index,
            summarizer: outcome.summarizer.clone(),
            usage: outcome.usage.map(Into::into),
            duration_ms: outcome.duration_ms,
        }
    }
}

impl TryFrom<DiskOutcome> for Outcome {
    type Error = Error;

    fn try_from(outcome: DiskOutcome) -> Result<Self> {
        let message = |id: Option<Vec<u8>>| id.map(|id| uuid(&id).map(MessageId)).transpose();
        Ok(Self {
            covered: ranges_from_disk(outcome.covered),
            covered_count: outcome.covered_count,
            tail_start: message(outcome.tail_start)?,
            summary_message: message(outcome.summary_message)?,
            pruned_count: outcome.pruned_count,
            tokens_before: outcome.tokens_before,
            tokens_after: outcome.tokens_after,
            first_changed_index: outcome.first_changed_index,
            summarizer: outcome.summarizer,
            usage: outcome.usage.map(Into::into),
            duration_ms: outcome.duration_ms,
        })
    }
}

pub(crate) fn encode_outcome(outcome: &Outcome) -> Vec<u8> {
    DiskOutcome::from(outcome).encode_to_vec()
}

pub(crate) fn decode_outcome(bytes: &[u8]) -> Result<Outcome> {
    decode::<DiskOutcome>("job", bytes)?.try_into()
}

// ---- messages ----

/// The columns of a message that no query looks into.
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
    /// The metadata, compressed, and its length before; in place of the plain text where that is shorter.
    #[prost(bytes = "vec", optional, tag = "6")]
    pub(crate) packed_metadata: Option<Vec<u8>>,
    #[prost(int64, tag = "7")]
    pub(crate) metadata_length: i64,
}

impl MessageHead {
    /// The head with its metadata compressed when that pays.
    pub(crate) fn encode_packed(mut self) -> Vec<u8> {
        if let Some(text) = &self.metadata_json
            && text.len() >= limits::COMPRESS_METADATA_BYTES_MIN
            && let Ok(packed) = zstd::bulk::compress(text.as_bytes(), 3)
            && packed.len() < text.len()
        {
            self.metadata_length = i64::try_from(text.len()).unwrap_or(i64::MAX);
            self.packed_metadata = Some(packed);
            self.metadata_json = None;
        }
        self.encode_to_vec()
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
    #[prost(int64, optional, tag = "4")]
    context_revision: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "5")]
    view_hash: Option<Vec<u8>>,
}

pub(crate) fn encode_finish(finish: &Finish) -> Vec<u8> {
    DiskFinish {
        reason: finish.reason.map(Number::number),
        detail: finish.detail.clone(),
        usage: finish.usage.map(Into::into),
        context_revision: finish.context_revision,
        view_hash: finish.view_hash.clone(),
    }
    .encode_to_vec()
}

pub(crate) fn decode_finish(bytes: &[u8]) -> Result<Finish> {
    let disk: DiskFinish = decode("message", bytes)?;
    Ok(Finish {
        reason: disk.reason.map(FinishReason::from_number).transpose()?,
        detail: disk.detail,
        usage: disk.usage.map(Into::into),
        context_revision: disk.context_revision,
        view_hash: disk.view_hash,
    })
}

// ---- parts ----

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DiskMedia {
    #[prost(string, tag = "1")]
    mime_type: String,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(oneof = "DiskSource", tags = "3, 4, 5")]
    source: Option<DiskSource>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum DiskSource {
    #[prost(bytes, tag = "3")]
    Bytes(Vec<u8>),
    #[prost(string, tag = "4")]
    Uri(String),
    /// The hash of a blob.
    #[prost(bytes, tag = "5")]
    Blob(Vec<u8>),
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskCall {
    #[prost(string, tag = "1")]
    call_id: String,
    #[prost(string, tag = "2")]
    tool: String,
    #[prost(string, tag = "3")]
    input_json: String,
    #[prost(int64, optional, tag = "4")]
    start_time: Option<i64>,
    #[prost(int64, optional, tag = "5")]
    end_time: Option<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskResult {
    #[prost(string, tag = "1")]
    call_id: String,
    #[prost(int32, tag = "2")]
    status: i32,
    #[prost(string, tag = "3")]
    output: String,
    #[prost(message, repeated, tag = "4")]
    attachments: Vec<DiskMedia>,
    #[prost(int64, optional, tag = "5")]
    start_time: Option<i64>,
    #[prost(int64, optional, tag = "6")]
    end_time: Option<i64>,
}

/// Two texts and a usage or some bytes: enough for markers, steps, opaque blocks and records.
#[derive(Clone, PartialEq, prost::Message)]
struct DiskPair {
    #[prost(string, tag = "1")]
    first: String,
    #[prost(string, tag = "2")]
    second: String,
    #[prost(message, optional, tag = "3")]
    usage: Option<DiskUsage>,
    #[prost(bytes = "vec", tag = "4")]
    data: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskPart {
    #[prost(string, optional, tag = "1")]
    metadata_json: Option<String>,
    #[prost(oneof = "DiskBody", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10")]
    body: Option<DiskBody>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum DiskBody {
    #[prost(string, tag = "2")]
    Text(String),
    #[prost(string, tag = "3")]
    Reasoning(String),
    #[prost(message, tag = "4")]
    ToolCall(DiskCall),
    #[prost(message, tag = "5")]
    ToolResult(DiskResult),
    #[prost(message, tag = "6")]
    Media(DiskMedia),
    #[prost(message, tag = "7")]
    Marker(DiskPair),
    #[prost(message, tag = "8")]
    Step(DiskPair),
    #[prost(message, tag = "9")]
    Opaque(DiskPair),
    #[prost(message, tag = "10")]
    Record(DiskPair),
}

/// The number of a part's kind on disk.
pub(crate) fn part_kind(body: &PartBody) -> i32 {
    match body {
        PartBody::Text(_) => 1,
        PartBody::Reasoning(_) => 2,
        PartBody::ToolCall(_) => 3,
        PartBody::ToolResult(_) => 4,
        PartBody::Media(_) => 5,
        PartBody::Marker(_) => 6,
        PartBody::Step(_) => 7,
        PartBody::Opaque(_) => 8,
        PartBody::Record(_) => 9,
    }
}

/// Bytes that are stored once, under their hash.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EncodedBlob {
    pub(crate) hash: [u8; 32],
    pub(crate) codec: i32,
    pub(crate) length: i64,
    pub(crate) data: Vec<u8>,
}

/// A part's columns, ready to be written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EncodedPart {
    pub(crate) kind: i32,
    pub(crate) codec: i32,
    pub(crate) length: i64,
    pub(crate) salt: [u8; 16],
    /// blake3 over the salt and the bytes before compression: what the chain commits to.
    pub(crate) commitment: [u8; 32],
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) blob_hash: Option<[u8; 32]>,
    pub(crate) blobs: Vec<EncodedBlob>,
}

/// What the chain commits to in place of a body.
pub(crate) fn commitment(salt: &[u8], plain: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(salt).update(plain);
    *hasher.finalize().as_bytes()
}

fn compress(plain: Vec<u8>) -> (i32, Vec<u8>) {
    if plain.len() < limits::COMPRESS_BYTES_MIN {
        return (0, plain);
    }
    match zstd::bulk::compress(&plain, 3) {
        Ok(packed) if packed.len() < plain.len() => (1, packed),
        _ => (0, plain),
    }
}

pub(crate) fn decompress(table: &'static str, codec: i32, length: i64, data: Vec<u8>) -> Result<Vec<u8>> {
    let length = usize::try_from(length).map_err(|error| Error::corrupt(table, error))?;
    let plain = match codec {
        0 => data,
        1 if length <= limits::DECOMPRESS_BYTES_MAX => {
            zstd::bulk::decompress(&data, length).map_err(|error| Error::corrupt(table, error))?
        }
        _ => return Err(Error::corrupt(table, format_args!("codec {codec}, length {length}"))),
    };
    if plain.len() == length { Ok(plain) } else { Err(Error::corrupt(table, "a body has another length")) }
}

fn blob(plain: Vec<u8>) -> EncodedBlob {
    let hash = *blake3::hash(&plain).as_bytes();
    let length = i64::try_from(plain.len()).unwrap_or(i64::MAX);
    let (codec, data) = compress(plain);
    EncodedBlob { hash, codec, length, data }
}

fn media_to_disk(media: &Media, blobs: &mut Vec<EncodedBlob>) -> DiskMedia {
    let source = match &media.source {
        MediaSource::Uri(uri) => DiskSource::Uri(uri.clone()),
        MediaSource::Bytes(bytes) if bytes.len() > limits::BLOB_BYTES_MIN => {
            let blob = blob(bytes.clone());
            let hash = blob.hash.to_vec();
            blobs.push(blob);
            DiskSource::Blob(hash)
        }
        MediaSource::Bytes(bytes) => DiskSource::Bytes(bytes.clone()),
    };
    DiskMedia { mime_type: media.mime_type.clone(), name: media.name.clone(), source: Some(source) }
}

/// Encodes a part: its body as bytes, compressed when that pays, with large media and large bodies apart.
pub(crate) fn encode_part(body: &PartBody, metadata_json: Option<&str>, salt: [u8; 16]) -> EncodedPart {
    let micros = |time: Option<Timestamp>| time.map(|time| time.0);
    let mut blobs = Vec::new();
    let disk = match body {
        PartBody::Text(text) => DiskBody::Text(text.clone()),
        PartBody::Reasoning(text) => DiskBody::Reasoning(text.clone()),
        PartBody::ToolCall(call) => DiskBody::ToolCall(DiskCall {
            call_id: call.call_id.clone(),
            tool: call.tool.clone(),
            input_json: call.input_json.clone(),
            start_time: micros(call.start_time),
            end_time: micros(call.end_time),
        }),
        PartBody::ToolResult(result) => DiskBody::ToolResult(DiskResult {
            call_id: result.call_id.clone(),
            status: result.status.number(),
            output: result.output.clone(),
            attachments: result.attachments.iter().map(|media| media_to_disk(media, &mut blobs)).collect(),
            start_time: micros(result.start_time),
            end_time: micros(result.end_time),
        }),
        PartBody::Media(media) => DiskBody::Media(media_to_disk(media, &mut blobs)),
        PartBody::Marker(marker) => DiskBody::Marker(DiskPair {
            first: marker.name.clone(),
            second: marker.text.clone(),
            ..DiskPair::default()
        }),
        PartBody::Step(step) => DiskBody::Step(DiskPair {
            first: step.finish_reason.clone(),
            usage: step.usage.map(Into::into),
            ..DiskPair::default()
        }),
        PartBody::Opaque(opaque) => DiskBody::Opaque(DiskPair {
            first: opaque.provider.clone(),
            second: opaque.kind.clone(),
            data: opaque.data.clone(),
            ..DiskPair::default()
        }),
        PartBody::Record(record) => DiskBody::Record(DiskPair {
            first: record.kind.clone(),
            second: record.data.clone(),
            ..DiskPair::default()
        }),
    };
    let plain = DiskPart { metadata_json: metadata_json.map(str::to_owned), body: Some(disk) }.encode_to_vec();
    let commitment = commitment(&salt, &plain);
    let kind = part_kind(body);
    let length = i64::try_from(plain.len()).unwrap_or(i64::MAX);
    if plain.len() > limits::BLOB_BYTES_MIN {
        let blob = blob(plain);
        let hash = blob.hash;
        blobs.push(blob);
        return EncodedPart { kind, codec: 0, length, salt, commitment, body: None, blob_hash: Some(hash), blobs };
    }
    let (codec, body) = compress(plain);
    EncodedPart { kind, codec, length, salt, commitment, body: Some(body), blob_hash: None, blobs }
}

/// The blobs that a part's bytes refer to.
pub(crate) fn media_blobs(plain: &[u8]) -> Result<Vec<Vec<u8>>> {
    let disk: DiskPart = decode("part", plain)?;
    let of = |media: &DiskMedia| match &media.source {
        Some(DiskSource::Blob(hash)) => Some(hash.clone()),
        _ => None,
    };
    Ok(match &disk.body {
        Some(DiskBody::ToolResult(result)) => result.attachments.iter().filter_map(of).collect(),
        Some(DiskBody::Media(media)) => of(media).into_iter().collect(),
        _ => Vec::new(),
    })
}

fn media_from_disk(media: DiskMedia, blobs: &dyn Fn(&[u8]) -> Option<Vec<u8>>) -> Result<Media> {
    let source = match media.source {
        Some(DiskSource::Bytes(bytes)) => MediaSource::Bytes(bytes),
        Some(DiskSource::Uri(uri)) => MediaSource::Uri(uri),
        Some(DiskSource::Blob(hash)) => {
            MediaSource::Bytes(blobs(&hash).ok_or_else(|| Error::corrupt("blob", "a blob is missing"))?)
        }
        None => MediaSource::default(),
    };
    Ok(Media { mime_type: media.mime_type, name: media.name, source })
}

/// Decodes a part's bytes; `blobs` finds the bytes of a blob.
pub(crate) fn decode_part(
    plain: &[u8],
    blobs: &dyn Fn(&[u8]) -> Option<Vec<u8>>,
) -> Result<(PartBody, Option<String>)> {
    let disk: DiskPart = decode("part", plain)?;
    let time = |micros: Option<i64>| micros.map(Timestamp);
    let body = match disk.body.ok_or_else(|| Error::corrupt("part", "a part has no body"))? {
        DiskBody::Text(text) => PartBody::Text(text),
        DiskBody::Reasoning(text) => PartBody::Reasoning(text),
        DiskBody::ToolCall(call) => PartBody::ToolCall(ToolCall {
            call_id: call.call_id,
            tool: call.tool,
            input_json: call.input_json,
            start_time: time(call.start_time),
            end_time: time(call.end_time),
        }),
        DiskBody::ToolResult(result) => PartBody::ToolResult(ToolResult {
            call_id: result.call_id,
            status: ResultStatus::from_number(result.status)?,
            output: result.output,
            attachments: result
                .attachments
                .into_iter()
                .map(|media| media_from_disk(media, blobs))
                .collect::<Result<_>>()?,
            start_time: time(result.start_time),
            end_time: time(result.end_time),
        }),
        DiskBody::Media(media) => PartBody::Media(media_from_disk(media, blobs)?),
        DiskBody::Marker(pair) => PartBody::Marker(Marker { name: pair.first, text: pair.second }),
        DiskBody::Step(pair) => PartBody::Step(Step { finish_reason: pair.first, usage: pair.usage.map(Into::into) }),
        DiskBody::Opaque(pair) => PartBody::Opaque(Opaque { provider: pair.first, kind: pair.second, data: pair.data }),
        DiskBody::Record(pair) => PartBody::Record(Record { kind: pair.first, data: pair.second }),
    };
    Ok((body, disk.metadata_json))
}

// ---- marks ----

#[derive(Clone, PartialEq, prost::Message)]
struct DiskMark {
    #[prost(bytes = "vec", tag = "1")]
    compaction: Vec<u8>,
    #[prost(int64, tag = "2")]
    base: i64,
    #[prost(message, repeated, tag = "3")]
    covered: Vec<DiskRange>,
    #[prost(int64, tag = "4")]
    tail_start: i64,
    #[prost(int64, optional, tag = "5")]
    marker: Option<i64>,
    #[prost(int64, tag = "6")]
    summary: i64,
    #[prost(int64, tag = "7")]
    target: i64,
    #[prost(int64, tag = "8")]
    replacement: i64,
    #[prost(int64, tag = "9")]
    part_count: i64,
}

/// The number of a mark's kind on disk.
pub(crate) fn mark_kind(body: &MarkBody) -> i32 {
    match body {
        MarkBody::Compacted(_) => 1,
        MarkBody::Pruned { .. } => 2,
        MarkBody::Rewound { .. } => 3,
        MarkBody::Edited { .. } => 4,
        MarkBody::Pinned { .. } => 5,
        MarkBody::Undone { .. } => 6,
    }
}

pub(crate) fn encode_mark(body: &MarkBody) -> Vec<u8> {
    let disk = match body {
        MarkBody::Compacted(mark) => DiskMark {
            compaction: id_bytes(mark.compaction.0),
            base: mark.base,
            covered: ranges_to_disk(&mark.covered),
            tail_start: mark.tail_start,
            marker: mark.marker,
            summary: mark.summary,
            ..DiskMark::default()
        },
        MarkBody::Pruned { compaction, part_count } => {
            DiskMark { compaction: id_bytes(compaction.0), part_count: *part_count, ..DiskMark::default() }
        }
        MarkBody::Rewound { after } => DiskMark { target: *after, ..DiskMark::default() },
        MarkBody::Edited { target, replacement } => {
            DiskMark { target: *target, replacement: *replacement, ..DiskMark::default() }
        }
        MarkBody::Pinned { target } => DiskMark { target: *target, ..DiskMark::default() },
        MarkBody::Undone { mark } => DiskMark { target: *mark, ..DiskMark::default() },
    };
    disk.encode_to_vec()
}

pub(crate) fn decode_mark(kind: i32, bytes: &[u8]) -> Result<MarkBody> {
    let disk: DiskMark = decode("mark", bytes)?;
    Ok(match kind {
        1 => MarkBody::Compacted(CompactedMark {
            compaction: CompactionId(uuid(&disk.compaction)?),
            base: disk.base,
            covered: ranges_from_disk(disk.covered),
            tail_start: disk.tail_start,
            marker: disk.marker,
            summary: disk.summary,
        }),
        2 => MarkBody::Pruned { compaction: CompactionId(uuid(&disk.compaction)?), part_count: disk.part_count },
        3 => MarkBody::Rewound { after: disk.target },
        4 => MarkBody::Edited { target: disk.target, replacement: disk.replacement },
        5 => MarkBody::Pinned { target: disk.target },
        6 => MarkBody::Undone { mark: disk.target },
        other => return Err(Error::corrupt("mark", format_args!("unknown kind {other}"))),
    })
}

// ---- layouts ----

#[derive(Clone, PartialEq, prost::Message)]
struct DiskSpan {
    /// 1 inline, 2 marker, 3 summary, 4 pinned, 5 edit.
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(int64, tag = "2")]
    first: i64,
    #[prost(int64, optional, tag = "3")]
    last: Option<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskOmitted {
    #[prost(message, optional, tag = "1")]
    range: Option<DiskRange>,
    #[prost(int64, tag = "2")]
    mark: i64,
    #[prost(int32, tag = "3")]
    reason: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskLayout {
    #[prost(message, repeated, tag = "1")]
    spans: Vec<DiskSpan>,
    #[prost(bytes = "vec", tag = "2")]
    compaction: Vec<u8>,
    #[prost(int64, tag = "3")]
    compaction_mark: i64,
    #[prost(int64, tag = "4")]
    summary: i64,
    #[prost(message, repeated, tag = "5")]
    covered: Vec<DiskRange>,
    #[prost(message, repeated, tag = "6")]
    omitted: Vec<DiskOmitted>,
    #[prost(int64, repeated, tag = "7")]
    pinned: Vec<i64>,
    #[prost(int64, repeated, tag = "8")]
    undone_prunes: Vec<i64>,
}

pub(crate) fn encode_layout(layout: &Layout) -> Vec<u8> {
    let spans = layout
        .spans
        .iter()
        .map(|span| match *span {
            Span::Inline { first, last } => DiskSpan { kind: 1, first, last },
            Span::Placed { revision, place } => match place {
                Place::Marker => DiskSpan { kind: 2, first: revision, last: None },
                Place::Summary => DiskSpan { kind: 3, first: revision, last: None },
                Place::Pinned => DiskSpan { kind: 4, first: revision, last: None },
                Place::Edit(target) => DiskSpan { kind: 5, first: revision, last: Some(target) },
            },
        })
        .collect();
    let omitted = layout
        .omitted
        .iter()
        .map(|omitted| DiskOmitted {
            range: Some(DiskRange { first: omitted.range.first, last: omitted.range.last }),
            mark: omitted.mark,
            reason: omitted.reason.number(),
        })
        .collect();
    let covered = layout.covered.as_ref();
    DiskLayout {
        spans,
        compaction: covered.map(|covered| id_bytes(covered.compaction.0)).unwrap_or_default(),
        compaction_mark: covered.map_or(0, |covered| covered.mark),
        summary: covered.map_or(0, |covered| covered.summary),
        covered: covered.map(|covered| ranges_to_disk(&covered.ranges)).unwrap_or_default(),
        omitted,
        pinned: layout.pinned.clone(),
        undone_prunes: layout.undone_prunes.clone(),
    }
    .encode_to_vec()
}

pub(crate) fn decode_layout(bytes: &[u8]) -> Result<Layout> {
    let disk: DiskLayout = decode("layout", bytes)?;
    let spans = disk
        .spans
        .into_iter()
        .map(|span| {
            let placed = |place| Span::Placed { revision: span.first, place };
            Ok(match span.kind {
                1 => Span::Inline { first: span.first, last: span.last },
                2 => placed(Place::Marker),
                3 => placed(Place::Summary),
                4 => placed(Place::Pinned),
                5 => placed(Place::Edit(span.last.unwrap_or_default())),
                other => return Err(Error::corrupt("layout", format_args!("unknown span {other}"))),
            })
        })
        .collect::<Result<_>>()?;
    let covered = if disk.compaction.is_empty() {
        None
    } else {
        Some(Covered {
            compaction: CompactionId(uuid(&disk.compaction)?),
            mark: disk.compaction_mark,
            summary: disk.summary,
            ranges: ranges_from_disk(disk.covered),
        })
    };
    let omitted = disk
        .omitted
        .into_iter()
        .map(|omitted| {
            let range = omitted.range.unwrap_or_default();
            Ok(Omitted {
                range: RevisionRange { first: range.first, last: range.last },
                mark: omitted.mark,
                reason: OmitReason::from_number(omitted.reason)?,
            })
        })
        .collect::<Result<_>>()?;
    Ok(Layout { spans, covered, omitted, pinned: disk.pinned, undone_prunes: disk.undone_prunes })
}

// ---- events ----

/// One shape for the small fields of all kinds of event; which are set follows from the kind.
#[derive(Clone, PartialEq, prost::Message)]
struct DiskEvent {
    #[prost(bytes = "vec", tag = "1")]
    id: Vec<u8>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    ids: Vec<Vec<u8>>,
    #[prost(string, optional, tag = "3")]
    text: Option<String>,
    #[prost(string, optional, tag = "4")]
    other_text: Option<String>,
    #[prost(int64, tag = "5")]
    number: i64,
    #[prost(int64, tag = "6")]
    other_number: i64,
    #[prost(int32, tag = "7")]
    what: i32,
    #[prost(int32, tag = "8")]
    who: i32,
    #[prost(bool, tag = "9")]
    flag: bool,
    #[prost(bool, tag = "10")]
    other_flag: bool,
    #[prost(int64, tag = "11")]
    window_tokens: i64,
    #[prost(message, optional, tag = "12")]
    usage: Option<DiskUsage>,
    #[prost(message, optional, tag = "13")]
    window: Option<DiskWindow>,
    #[prost(message, optional, tag = "14")]
    failure: Option<DiskFailure>,
    #[prost(message, optional, tag = "15")]
    outcome: Option<DiskOutcome>,
}

pub(crate) fn encode_event(body: &EventBody) -> Vec<u8> {
    let empty = DiskEvent::default();
    let about = |id: Uuid| DiskEvent { id: id_bytes(id), ..DiskEvent::default() };
    let parts = |parts: &[PartId]| parts.iter().map(|part| id_bytes(part.0)).collect();
    let disk = match body {
        EventBody::SessionCreated { title, preset, parent } => DiskEvent {
            id: parent.map(|id| id_bytes(id.0)).unwrap_or_default(),
            text: Some(title.clone()),
            other_text: Some(preset.clone()),
            ..empty
        },
        EventBody::SessionUpdated { title, metadata_json, window } => DiskEvent {
            text: title.clone(),
            other_text: metadata_json.clone(),
            window: window.as_ref().map(Into::into),
            ..empty
        },
        EventBody::SessionArchived | EventBody::SessionRestored => empty,
        EventBody::SessionForked { from, at, title } => {
            DiskEvent { number: *at, text: Some(title.clone()), ..about(from.0) }
        }
        EventBody::PolicyChanged { preset } => DiskEvent { text: Some(preset.clone()), ..empty },
        EventBody::MessageAppended { message, client_id, role, kind, part_count, sealed } => DiskEvent {
            text: client_id.clone(),
            who: role.number(),
            what: kind.number(),
            number: *part_count,
            flag: *sealed,
            ..about(message.0)
        },
        EventBody::PartsClosed { message, parts: closed } => DiskEvent { ids: parts(closed), ..about(message.0) },
        EventBody::MessageFinished { message, reason } => {
            DiskEvent { what: reason.map_or(0, Number::number), ..about(message.0) }
        }
        EventBody::UsageRecorded { message, usage, trusted, context_tokens, window_tokens, due } => DiskEvent {
            usage: Some((*usage).into()),
            flag: *trusted,
            other_flag: *due,
            number: *context_tokens,
            window_tokens: *window_tokens,
            ..about(message.0)
        },
        EventBody::SessionRewound { after } => DiskEvent { number: *after, ..empty },
        EventBody::MessageEdited { message, replacement } => {
            DiskEvent { ids: vec![id_bytes(replacement.0)], ..about(message.0) }
        }
        EventBody::MessagePinned { message } | EventBody::MessageUnpinned { message } => about(message.0),
        EventBody::CompactionStarted { compaction, kind, trigger, base, context_tokens, window_tokens } => DiskEvent {
            what: kind.number(),
            who: trigger.number(),
            number: *base,
            other_number: *context_tokens,
            window_tokens: *window_tokens,
            ..about(compaction.0)
        },
        EventBody::CompactionRetried { compaction, attempt, failure } => {
            DiskEvent { number: *attempt, failure: Some(failure.into()), ..about(compaction.0) }
        }
        EventBody::PartsPruned { compaction, parts: pruned } => DiskEvent { ids: parts(pruned), ..about(compaction.0) },
        EventBody::Compacted { compaction, kind, trigger, outcome, window_tokens } => DiskEvent {
            what: kind.number(),
            who: trigger.number(),
            outcome: Some((&**outcome).into()),
            window_tokens: *window_tokens,
            ..about(compaction.0)
        },
        EventBody::CompactionFailed { compaction, failure }
        | EventBody::CompactionCancelled { compaction, failure } => {
            DiskEvent { failure: Some(failure.into()), ..about(compaction.0) }
        }
        EventBody::CompactionUndone { compaction } => about(compaction.0),
    };
    disk.encode_to_vec()
}

pub(crate) fn decode_event(kind: i32, bytes: &[u8]) -> Result<EventBody> {
    let kind =
        EventKind::from_number(kind).ok_or_else(|| Error::corrupt("event", format_args!("unknown kind {kind}")))?;
    let disk: DiskEvent = decode("event", bytes)?;
    let message = || uuid(&disk.id).map(MessageId);
    let compaction = || uuid(&disk.id).map(CompactionId);
    let text = || disk.text.clone().unwrap_or_default();
    let failure = || disk.failure.clone().unwrap_or_default().into();
    let parts = || disk.ids.iter().map(|id| uuid(id).map(PartId)).collect::<Result<Vec<_>>>();
    Ok(match kind {
        EventKind::SessionCreated => EventBody::SessionCreated {
            title: text(),
            preset: disk.other_text.clone().unwrap_or_default(),
            parent: if disk.id.is_empty() { None } else { Some(SessionId(uuid(&disk.id)?)) },
        },
        EventKind::SessionUpdated => EventBody::SessionUpdated {
            title: disk.text.clone(),
            metadata_json: disk.other_text.clone(),
            window: disk.window.clone().map(Into::into),
        },
        EventKind::SessionArchived => EventBody::SessionArchived,
        EventKind::SessionRestored => EventBody::SessionRestored,
        EventKind::SessionForked => {
            EventBody::SessionForked { from: SessionId(uuid(&disk.id)?), at: disk.number, title: text() }
        }
        EventKind::PolicyChanged => EventBody::PolicyChanged { preset: text() },
        EventKind::MessageAppended => EventBody::MessageAppended {
            message: message()?,
            client_id: disk.text.clone(),
            role: Role::from_number(disk.who)?,
            kind: MessageKind::from_number(disk.what)?,
            part_count: disk.number,
            sealed: disk.flag,
        },
        EventKind::PartsClosed => EventBody::PartsClosed { message: message()?, parts: parts()? },
        EventKind::MessageFinished => EventBody::MessageFinished {
            message: message()?,
            reason: if disk.what == 0 { None } else { Some(FinishReason::from_number(disk.what)?) },
        },
        EventKind::UsageRecorded => EventBody::UsageRecorded {
            message: message()?,
            usage: disk.usage.unwrap_or_default().into(),
            trusted: disk.flag,
            context_tokens: disk.number,
            window_tokens: disk.window_tokens,
            due: disk.other_flag,
        },
        EventKind::SessionRewound => EventBody::SessionRewound { after: disk.number },
        EventKind::MessageEdited => EventBody::MessageEdited {
            message: message()?,
            replacement: MessageId(uuid(disk.ids.first().map_or(&[][..], |id| id))?),
        },
        EventKind::MessagePinned => EventBody::MessagePinned { message: message()? },
        EventKind::MessageUnpinned => EventBody::MessageUnpinned { message: message()? },
        EventKind::CompactionStarted => EventBody::CompactionStarted {
            compaction: compaction()?,
            kind: CompactionKind::from_number(disk.what)?,
            trigger: Trigger::from_number(disk.who)?,
            base: disk.number,
            context_tokens: disk.other_number,
            window_tokens: disk.window_tokens,
        },
        EventKind::CompactionRetried => {
            EventBody::CompactionRetried { compaction: compaction()?, attempt: disk.number, failure: failure() }
        }
        EventKind::PartsPruned => EventBody::PartsPruned { compaction: compaction()?, parts: parts()? },
        EventKind::Compacted => EventBody::Compacted {
            compaction: compaction()?,
            kind: CompactionKind::from_number(disk.what)?,
            trigger: Trigger::from_number(disk.who)?,
            outcome: Box::new(disk.outcome.clone().unwrap_or_default().try_into()?),
            window_tokens: disk.window_tokens,
        },
        EventKind::CompactionFailed => EventBody::CompactionFailed { compaction: compaction()?, failure: failure() },
        EventKind::CompactionCancelled => {
            EventBody::CompactionCancelled { compaction: compaction()?, failure: failure() }
        }
        EventKind::CompactionUndone => EventBody::CompactionUndone { compaction: compaction()? },
    })
}

// ---- receipts ----

/// What a mutation answered, so that the same request is answered the same way for ever.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DiskReceipt {
    #[prost(int64, tag = "1")]
    pub(crate) revision: i64,
    #[prost(int64, tag = "2")]
    pub(crate) seq: i64,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub(crate) ids: Vec<Vec<u8>>,
    #[prost(int64, tag = "4")]
    pub(crate) existed_count: i64,
    #[prost(int64, tag = "5")]
    pub(crate) context_tokens: i64,
    #[prost(bool, tag = "6")]
    pub(crate) due: bool,
    #[prost(bytes = "vec", optional, tag = "7")]
    pub(crate) pending: Option<Vec<u8>>,
    #[prost(int64, optional, tag = "8")]
    pub(crate) due_tokens: Option<i64>,
    #[prost(int64, tag = "9")]
    pub(crate) window_tokens: i64,
}
