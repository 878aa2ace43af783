//! A door to the disk format for the fuzzer of `tests/attack`, which alters bytes of rows by the hundred thousand. Nothing
//! else may use it: it is no part of the library's interface, and goes when the fuzzer goes.

use super::codec;
use super::error::{Error, Result};
use super::head::Receipt;
use prost::Message as _;

/// A form that bytes of a row have.
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
    /// A part's bytes before compression.
    Part,
    /// Compressed bytes, with the length that the row says they have.
    Packed(i64),
    /// `layout.body`.
    Layout,
    /// `pruned.cut`.
    Cut,
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

/// Reads bytes as a row's are read, and writes what was read. What was compressed stays plain. The check that columns end
/// in is put there before reading and taken off what is written: it would refuse every altered byte.
#[doc(hidden)]
pub fn reread(form: DiskForm, bytes: &[u8]) -> Result<Vec<u8>> {
    let column = codec::with_check(bytes.to_vec());
    let written = match form {
        DiskForm::Event(kind) => codec::encode_event(&codec::decode_event(kind, &column)?),
        DiskForm::Mark(kind) => codec::encode_mark(&codec::decode_mark(kind, &column)?),
        DiskForm::MessageHead => return Ok(codec::decode_message_head(&column)?.encode_to_vec()),
        DiskForm::Finish => codec::encode_finish(&codec::decode_finish(&column)?),
        DiskForm::Part => {
            codec::media_blobs(bytes)?;
            let (body, metadata_json) = codec::decode_part(bytes, &|hash| Some(hash.to_vec()))?;
            let encoded = codec::encode_part(&body, metadata_json.as_deref(), [0; 16]);
            return match (encoded.body, encoded.blobs.into_iter().next_back()) {
                (Some(body), _) => codec::inline_body(encoded.codec, encoded.length, &body),
                (None, Some(blob)) => codec::decompress("blob", blob.codec, blob.length, blob.data),
                (None, None) => Err(Error::corrupt("part", "a part was written without its bytes")),
            };
        }
        DiskForm::Packed(length) => return codec::decompress("part", 1, length, bytes.to_vec()),
        DiskForm::Layout => codec::encode_layout(&codec::decode_layout([column.as_slice()])?),
        DiskForm::Cut => codec::encode_cut(&codec::decode_cut(&column)?),
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
