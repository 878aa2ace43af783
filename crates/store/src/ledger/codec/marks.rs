//! Marks on disk: one protobuf message for each kind of mark. The tags never change.

use super::columns::{DiskRange, decode, encode, id_bytes, ranges_from_disk, ranges_to_disk, uuid};
use crate::error::{Error, Result};
use crate::model::ids::CompactionId;
use crate::model::mark::{CompactedMark, MarkBody, Replay, WordsStance};
use crate::model::truncation::Truncation;

#[derive(Clone, PartialEq, prost::Message)]
struct DiskCompactedMark {
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
    #[prost(int64, repeated, tag = "7")]
    retained: Vec<i64>,
    #[prost(bool, tag = "8")]
    retained_first: bool,
    #[prost(int64, optional, tag = "9")]
    continuation: Option<i64>,
    #[prost(int64, optional, tag = "10")]
    quoted_until: Option<i64>,
    #[prost(int64, repeated, tag = "11")]
    said_in: Vec<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskReplay {
    #[prost(int64, tag = "1")]
    target: i64,
    #[prost(int64, tag = "2")]
    replacement: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskPrunedMark {
    #[prost(bytes = "vec", tag = "1")]
    compaction: Vec<u8>,
    #[prost(int64, tag = "2")]
    part_count: i64,
    #[prost(message, repeated, tag = "3")]
    omitted: Vec<DiskRange>,
    #[prost(message, optional, tag = "4")]
    replay: Option<DiskReplay>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskRewoundMark {
    #[prost(int64, tag = "1")]
    after: i64,
    #[prost(bool, tag = "2")]
    has_summary: bool,
    #[prost(bool, tag = "3")]
    of_fork: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskEditedMark {
    #[prost(int64, tag = "1")]
    target: i64,
    #[prost(int64, optional, tag = "2")]
    replacement: Option<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskPinnedMark {
    #[prost(int64, tag = "1")]
    target: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskWordsMark {
    #[prost(int64, tag = "1")]
    target: i64,
    #[prost(int32, tag = "2")]
    stance: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskUndoneMark {
    #[prost(int64, tag = "1")]
    mark: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskErasedMark {
    #[prost(message, repeated, tag = "1")]
    ranges: Vec<DiskRange>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskTruncation {
    #[prost(string, tag = "1")]
    before: String,
    #[prost(uint64, tag = "2")]
    head: u64,
    #[prost(string, tag = "3")]
    middle: String,
    #[prost(uint64, tag = "4")]
    tail: u64,
    #[prost(string, tag = "5")]
    after: String,
}

pub(crate) fn encode_truncation(truncation: &Truncation) -> Vec<u8> {
    encode(&DiskTruncation {
        before: truncation.before.clone(),
        head: truncation.head as u64,
        middle: truncation.middle.clone(),
        tail: truncation.tail as u64,
        after: truncation.after.clone(),
    })
}

pub(crate) fn decode_truncation(bytes: &[u8]) -> Result<Truncation> {
    let disk: DiskTruncation = decode("pruned", bytes)?;
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let (head, tail) = (size(disk.head), size(disk.tail));
    Ok(Truncation { before: disk.before, head, middle: disk.middle, tail, after: disk.after })
}

pub(super) fn encode_stance(stance: Option<WordsStance>) -> i32 {
    match stance {
        None => 0,
        Some(WordsStance::Struck) => 1,
        Some(WordsStance::Kept) => 2,
    }
}

pub(super) fn decode_stance(number: i32) -> Result<Option<WordsStance>> {
    Ok(match number {
        0 => None,
        1 => Some(WordsStance::Struck),
        2 => Some(WordsStance::Kept),
        other => return Err(Error::corrupt("mark", format_args!("unknown stance {other}"))),
    })
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
        MarkBody::Erased { .. } => 7,
        MarkBody::Words { .. } => 8,
    }
}

pub(crate) fn encode_mark(body: &MarkBody) -> Vec<u8> {
    match body {
        MarkBody::Compacted(mark) => encode(&DiskCompactedMark {
            compaction: id_bytes(mark.compaction.0),
            base: mark.base,
            covered: ranges_to_disk(&mark.covered),
            tail_start: mark.tail_start,
            marker: mark.marker,
            summary: mark.summary,
            retained: mark.retained.clone(),
            retained_first: mark.retained_first,
            continuation: mark.continuation,
            quoted_until: mark.quoted_until,
            said_in: mark.said_in.clone(),
        }),
        MarkBody::Pruned { compaction, part_count, omitted, replay } => encode(&DiskPrunedMark {
            compaction: id_bytes(compaction.0),
            part_count: *part_count,
            omitted: ranges_to_disk(omitted),
            replay: replay.map(|Replay { target, replacement }| DiskReplay { target, replacement }),
        }),
        MarkBody::Rewound { after, has_summary, of_fork } => {
            encode(&DiskRewoundMark { after: *after, has_summary: *has_summary, of_fork: *of_fork })
        }
        MarkBody::Edited { target, replacement } => {
            encode(&DiskEditedMark { target: *target, replacement: *replacement })
        }
        MarkBody::Pinned { target } => encode(&DiskPinnedMark { target: *target }),
        MarkBody::Words { target, stance } => {
            encode(&DiskWordsMark { target: *target, stance: encode_stance(*stance) })
        }
        MarkBody::Undone { mark } => encode(&DiskUndoneMark { mark: *mark }),
        MarkBody::Erased { ranges } => encode(&DiskErasedMark { ranges: ranges_to_disk(ranges) }),
    }
}

pub(crate) fn decode_mark(kind: i32, bytes: &[u8]) -> Result<MarkBody> {
    Ok(match kind {
        1 => {
            let disk: DiskCompactedMark = decode("mark", bytes)?;
            MarkBody::Compacted(CompactedMark {
                compaction: CompactionId(uuid(&disk.compaction)?),
                base: disk.base,
                covered: ranges_from_disk(disk.covered),
                tail_start: disk.tail_start,
                marker: disk.marker,
                summary: disk.summary,
                retained: disk.retained,
                retained_first: disk.retained_first,
                continuation: disk.continuation,
                quoted_until: disk.quoted_until,
                said_in: disk.said_in,
            })
        }
        2 => {
            let DiskPrunedMark { compaction, part_count, omitted, replay } = decode("mark", bytes)?;
            MarkBody::Pruned {
                compaction: CompactionId(uuid(&compaction)?),
                part_count,
                omitted: ranges_from_disk(omitted),
                replay: replay.map(|DiskReplay { target, replacement }| Replay { target, replacement }),
            }
        }
        3 => {
            let DiskRewoundMark { after, has_summary, of_fork } = decode("mark", bytes)?;
            MarkBody::Rewound { after, has_summary, of_fork }
        }
        4 => {
            let DiskEditedMark { target, replacement } = decode("mark", bytes)?;
            MarkBody::Edited { target, replacement }
        }
        5 => MarkBody::Pinned { target: decode::<DiskPinnedMark>("mark", bytes)?.target },
        6 => MarkBody::Undone { mark: decode::<DiskUndoneMark>("mark", bytes)?.mark },
        7 => MarkBody::Erased { ranges: ranges_from_disk(decode::<DiskErasedMark>("mark", bytes)?.ranges) },
        8 => {
            let DiskWordsMark { target, stance } = decode("mark", bytes)?;
            MarkBody::Words { target, stance: decode_stance(stance)? }
        }
        other => return Err(Error::corrupt("mark", format_args!("unknown kind {other}"))),
    })
}
