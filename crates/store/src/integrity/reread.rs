//! Access to the disk format for the fuzzer of `tests/attack`, which alters bytes of rows several hundred thousand
//! times. Nothing else may use it: it is not part of the library's interface, and will be removed with the fuzzer.

use crate::error::{Error, Result};
use crate::ledger::codec;
use crate::ledger::head::Receipt;
use prost::Message as _;

/// An encoded form of a row's bytes.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskForm {
    /// `event.body`, with its kind.
    Event(i32),
    /// `mark.body`, with its kind.
    Mark(i32),
    /// `message.head`.
    MessageHead,
    /// `message.seal`.
    Finish,
    /// `message.parts`.
    Parts,
    /// A part's bytes before compression.
    Part,
    /// Compressed bytes, with their uncompressed length according to the row.
    Packed(i64),
    /// `layout.body`.
    Layout,
    /// `pruned.truncation`.
    Truncation,
    /// `session.window`.
    Window,
    /// `job.outcome`.
    Outcome,
    /// `job.failure`.
    Failure,
    /// `summary_request.usage`.
    Usage,
    /// `request.receipt`.
    Receipt,
}

/// Decodes bytes like those of a row, and encodes the result. Compressed content stays plain. The check at the end of
/// columns is added before decoding and removed after encoding, because it would refuse every altered byte.
#[doc(hidden)]
pub fn reread(form: DiskForm, bytes: &[u8]) -> Result<Vec<u8>> {
    let column = codec::with_check(bytes.to_vec());
    let written = match form {
        DiskForm::Event(kind) => codec::encode_event(&codec::decode_event(kind, &column)?),
        DiskForm::Mark(kind) => codec::encode_mark(&codec::decode_mark(kind, &column)?),
        DiskForm::MessageHead => return Ok(codec::decode_message_head(&column)?.encode_to_vec()),
        DiskForm::Finish => codec::encode_finish(&codec::decode_finish(&column)?),
        DiskForm::Parts => codec::encode_parts(codec::decode_parts(&column)?),
        DiskForm::Part => {
            codec::media_blobs(bytes)?;
            let (body, metadata_json) = codec::decode_part(bytes, &|hash| Some(hash.to_vec()))?;
            let encoded =
                codec::encode_received_part(&body, metadata_json.as_deref(), &codec::decode_received(bytes)?, [0; 16]);
            return match (encoded.body, encoded.blobs.into_iter().next_back()) {
                (Some(body), _) => codec::decompress("part", encoded.codec, encoded.length, body),
                (None, Some(blob)) => codec::decompress("blob", blob.codec, blob.length, blob.data),
                (None, None) => Err(Error::Bug("a part was encoded without its bytes")),
            };
        }
        DiskForm::Packed(length) => return codec::decompress("part", 1, length, bytes.to_vec()),
        DiskForm::Layout => codec::encode_layout(&codec::decode_layout([column.as_slice()])?),
        DiskForm::Truncation => codec::encode_truncation(&codec::decode_truncation(&column)?),
        DiskForm::Window => codec::encode_window(&codec::decode_window(&column)?),
        DiskForm::Outcome => codec::encode_outcome(&codec::decode_outcome(&column)?),
        DiskForm::Failure => codec::encode_failure(&codec::decode_failure(&column)?),
        DiskForm::Usage => codec::encode_usage(codec::decode_usage(&column)?),
        DiskForm::Receipt => {
            codec::encode(&Receipt::from_disk(codec::decode::<codec::DiskReceipt>("request", &column)?)?.to_disk())
        }
    };
    codec::without_check("column", &written).map(<[u8]>::to_vec)
}
