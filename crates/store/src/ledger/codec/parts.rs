//! Disk format of parts and of their bodies.

use super::columns::{DiskUsage, Number as _, decode, decode_plain, encode};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::part::{
    Answers, Marker, Media, MediaSource, Opaque, PartBody, Record, ReplyStep, ResultStatus, ToolCall, ToolResult,
};
use crate::model::time::Timestamp;
use crate::secrets::Salt;
use bytes::Bytes;
use prost::Message as _;
use std::cell::RefCell;
use std::io;
use std::sync::LazyLock;
use uuid::Uuid;
use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::EncoderDictionary;
use zstd::zstd_safe;

/// The stored form of a closed part: an element of `message.parts`, or a row of `part`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StoredPart {
    #[prost(string, optional, tag = "1")]
    pub(crate) client_id: Option<String>,
    #[prost(int32, tag = "2")]
    pub(crate) kind: i32,
    #[prost(int32, tag = "3")]
    pub(crate) codec: i32,
    #[prost(int64, tag = "4")]
    pub(crate) length: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) salt: Vec<u8>,
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub(crate) body: Option<Bytes>,
    #[prost(bytes = "vec", optional, tag = "7")]
    pub(crate) blob_hash: Option<Vec<u8>>,
    /// The id of the message with the call that a result answers.
    #[prost(bytes = "vec", optional, tag = "8")]
    pub(crate) call_message: Option<Vec<u8>>,
}

/// The parts of one message, in order.
#[derive(Clone, PartialEq, prost::Message)]
struct StoredParts {
    #[prost(message, repeated, tag = "1")]
    parts: Vec<StoredPart>,
}

/// Encodes the parts of a message that came sealed.
pub(crate) fn encode_parts(parts: Vec<StoredPart>) -> Vec<u8> {
    encode(&StoredParts { parts })
}

/// Decodes the parts of a message that came sealed.
pub(crate) fn decode_parts(bytes: &[u8]) -> Result<Vec<StoredPart>> {
    decode::<StoredParts>("message", bytes).map(|stored| stored.parts)
}

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

/// Two texts and a usage or some bytes: the common form of markers, steps, opaque blocks and records.
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

/// Bytes that are stored once, by their hash. Cloning copies none of them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EncodedBlob {
    pub(crate) hash: [u8; 32],
    pub(crate) codec: i32,
    pub(crate) length: i64,
    pub(crate) data: Bytes,
}

/// A part's columns, ready to be written. Cloning copies no content.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EncodedPart {
    pub(crate) kind: i32,
    pub(crate) codec: i32,
    pub(crate) length: i64,
    pub(crate) salt: [u8; 16],
    /// blake3 over the salt and the bytes before compression, to which the chain commits.
    pub(crate) commitment: [u8; 32],
    pub(crate) body: Option<Bytes>,
    pub(crate) blob_hash: Option<[u8; 32]>,
    pub(crate) blobs: Vec<EncodedBlob>,
}

impl EncodedPart {
    /// The stored form, without the blobs.
    pub(crate) fn into_stored(self, client_id: Option<String>, call_message: Option<Uuid>) -> StoredPart {
        let Self { kind, codec, length, salt, body, blob_hash, .. } = self;
        StoredPart {
            client_id,
            kind,
            codec,
            length,
            salt: salt.to_vec(),
            body,
            blob_hash: blob_hash.map(|hash| hash.to_vec()),
            call_message: call_message.map(|id| id.as_bytes().to_vec()),
        }
    }

    /// The bytes of the part before compression, including its media.
    pub(crate) fn bytes(&self) -> i64 {
        let media = self.blobs.iter().filter(|blob| Some(blob.hash) != self.blob_hash);
        media.map(|blob| blob.length).sum::<i64>() + self.length
    }
}

/// The commitment of the chain to a body.
pub(crate) fn commitment(salt: &[u8], plain: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(salt).update(plain);
    *hasher.finalize().as_bytes()
}

/// The compression level; higher levels cost twice the time, and save a few percent of texts of this size.
const ZSTD_LEVEL: i32 = 1;

/// Text that stored bodies are likely to share: the records of agents, arguments and outputs of tools, phrases. Most
/// bodies are too short to repeat much of themselves. Stored bytes cannot be read without it: it never changes, and a
/// better one gets an id of its own.
const TEXT: &[u8] = include_bytes!("dictionary.txt");
/// A dictionary's head in zstd's format: its id, and the codes of bytes, lengths and offsets as transcripts have them, by
/// `ZDICT_finalizeDictionary`. Without it, most of the time and many bytes of a short body would go into codes of its own.
const TABLES: &[u8] = include_bytes!("dictionary.tables");
static ENCODER: LazyLock<EncoderDictionary<'_>> =
    LazyLock::new(|| EncoderDictionary::copy(&[TABLES, TEXT].concat(), ZSTD_LEVEL));

thread_local! {
    // Making a context costs more than compressing a small body with it.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    /// The one for the text alone, of which frames have no id; and the one with the tables.
    static DECOMPRESSORS: [RefCell<Option<Decompressor<'static>>>; 2] = const { [const { RefCell::new(None) }; 2] };
}

/// Compresses bytes.
pub(super) fn pack(plain: &[u8]) -> io::Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|kept| match kept {
        Some(compressor) => compressor.compress(plain),
        None => kept.insert(Compressor::with_prepared_dictionary(&ENCODER)?).compress(plain),
    })
}

/// Decompresses bytes of a known length.
fn unpack(packed: &[u8], length: usize) -> io::Result<Vec<u8>> {
    let has_tables = zstd_safe::get_dict_id_from_frame(packed).is_some();
    DECOMPRESSORS.with(|kept| {
        let mut kept = kept[usize::from(has_tables)].borrow_mut();
        match &mut *kept {
            Some(decompressor) => decompressor.decompress(packed, length),
            None => {
                let tables = if has_tables { TABLES } else { &[] };
                kept.insert(Decompressor::with_dictionary(&[tables, TEXT].concat())?).decompress(packed, length)
            }
        }
    })
}

fn compress(plain: Vec<u8>) -> (i32, Vec<u8>) {
    if plain.len() < limits::COMPRESS_BYTES_MIN {
        return (0, plain);
    }
    match pack(&plain) {
        Ok(packed) if packed.len() < plain.len() => (1, packed),
        _ => (0, plain),
    }
}

pub(crate) fn decompress(
    table: &'static str,
    codec: i32,
    length: i64,
    data: impl Into<Vec<u8>> + AsRef<[u8]>,
) -> Result<Vec<u8>> {
    let length = usize::try_from(length).map_err(|error| Error::corrupt(table, error))?;
    let plain = match codec {
        0 => data.into(),
        1 if length <= limits::DECOMPRESS_BYTES_MAX => {
            unpack(data.as_ref(), length).map_err(|error| Error::corrupt(table, error))?
        }
        _ => return Err(Error::corrupt(table, format_args!("codec {codec}, length {length}"))),
    };
    if plain.len() == length { Ok(plain) } else { Err(Error::corrupt(table, "a body has another length")) }
}

fn blob(plain: Vec<u8>) -> EncodedBlob {
    let hash = *blake3::hash(&plain).as_bytes();
    let length = i64::try_from(plain.len()).unwrap_or(i64::MAX);
    let (codec, data) = compress(plain);
    EncodedBlob { hash, codec, length, data: data.into() }
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

/// Encodes a part: its body as bytes, compressed if that saves space, with large media and large bodies as blobs.
pub(crate) fn encode_part(body: &PartBody, metadata_json: Option<&str>, salt: [u8; 16]) -> EncodedPart {
    encode_part_with(body, metadata_json, &[], salt)
}

/// The same, with bytes of further fields behind its own.
pub(super) fn encode_part_with(
    body: &PartBody,
    metadata_json: Option<&str>,
    further: &[u8],
    salt: [u8; 16],
) -> EncodedPart {
    let mut blobs = Vec::new();
    let mut plain = plain_part(body, metadata_json, &mut blobs);
    plain.extend(further);
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
    EncodedPart { kind, codec, length, salt, commitment, body: Some(body.into()), blob_hash: None, blobs }
}

/// The salted digest of a part: all of it but its ids and the call that a result answers.
pub(crate) fn digest_of_part(salt: &Salt, body: &PartBody, metadata_json: Option<&str>) -> [u8; 32] {
    salt.digest(&plain_part(body, metadata_json, &mut Vec::new()))
}

/// The bytes of a part before compression, with its large media as blobs.
fn plain_part(body: &PartBody, metadata_json: Option<&str>, blobs: &mut Vec<EncodedBlob>) -> Vec<u8> {
    let micros = |time: Option<Timestamp>| time.map(|time| time.0);
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
            attachments: result.attachments.iter().map(|media| media_to_disk(media, blobs)).collect(),
            start_time: micros(result.start_time),
            end_time: micros(result.end_time),
        }),
        PartBody::Media(media) => DiskBody::Media(media_to_disk(media, blobs)),
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
    DiskPart { metadata_json: metadata_json.map(str::to_owned), body: Some(disk) }.encode_to_vec()
}

/// The bytes of the text that came as a draft.
pub(super) fn text_bytes(plain: &[u8]) -> Result<usize> {
    let disk: DiskPart = decode_plain("part", plain)?;
    Ok(match &disk.body {
        Some(DiskBody::Text(text) | DiskBody::Reasoning(text)) => text.len(),
        Some(DiskBody::ToolCall(call)) => call.input_json.len(),
        Some(DiskBody::ToolResult(result)) => result.output.len(),
        _ => 0,
    })
}

/// The hashes of the blobs that a part's bytes refer to.
pub(crate) fn media_blobs(plain: &[u8]) -> Result<Vec<Vec<u8>>> {
    let disk: DiskPart = decode_plain("part", plain)?;
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
    let disk: DiskPart = decode_plain("part", plain)?;
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
            answers: Answers::Nearest,
        }),
        DiskBody::Media(media) => PartBody::Media(media_from_disk(media, blobs)?),
        DiskBody::Marker(pair) => PartBody::Marker(Marker { name: pair.first, text: pair.second }),
        DiskBody::Step(pair) => {
            PartBody::Step(ReplyStep { finish_reason: pair.first, usage: pair.usage.map(Into::into) })
        }
        DiskBody::Opaque(pair) => PartBody::Opaque(Opaque { provider: pair.first, kind: pair.second, data: pair.data }),
        DiskBody::Record(pair) => PartBody::Record(Record { kind: pair.first, data: pair.second }),
    };
    Ok((body, disk.metadata_json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_read_that_were_compressed_with_the_text_alone() {
        let plain =
            b"pub fn new() -> Self { the session's tests fail when a cursor stands behind the parser }".repeat(3);
        let mut text_alone = Compressor::with_dictionary(ZSTD_LEVEL, TEXT).expect("a dictionary");
        for packed in [text_alone.compress(&plain).expect("compressed"), pack(&plain).expect("compressed")] {
            assert!(packed.len() < plain.len() / 2, "{}", packed.len());
            assert_eq!(unpack(&packed, plain.len()).expect("a frame"), plain);
        }
    }
}
