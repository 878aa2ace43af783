//! Marks and layouts on disk.

use super::{DiskRange, Number as _, decode, encode, id_bytes, ranges_from_disk, ranges_to_disk, uuid};
use crate::model::compaction::RevisionRange;
use crate::model::cut::Cut;
use crate::model::ids::CompactionId;
use crate::model::layout::{Covered, Layout, OmitReason, Omitted, Place, Span};
use crate::model::mark::{CompactedMark, MarkBody, Replay};
use crate::store::error::{Error, Result};
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
    #[prost(message, repeated, tag = "10")]
    omitted: Vec<DiskRange>,
    #[prost(int64, repeated, tag = "11")]
    retained: Vec<i64>,
    #[prost(bool, tag = "12")]
    retained_first: bool,
    #[prost(int64, optional, tag = "13")]
    continuation: Option<i64>,
    #[prost(bool, tag = "14")]
    told: bool,
    #[prost(bool, tag = "15")]
    of_fork: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskCut {
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

pub(crate) fn encode_cut(cut: &Cut) -> Vec<u8> {
    encode(&DiskCut {
        before: cut.before.clone(),
        head: cut.head as u64,
        middle: cut.middle.clone(),
        tail: cut.tail as u64,
        after: cut.after.clone(),
    })
}

pub(crate) fn decode_cut(bytes: &[u8]) -> Result<Cut> {
    let disk: DiskCut = decode("pruned", bytes)?;
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let (head, tail) = (size(disk.head), size(disk.tail));
    Ok(Cut { before: disk.before, head, middle: disk.middle, tail, after: disk.after })
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
            retained: mark.retained.clone(),
            retained_first: mark.retained_first,
            continuation: mark.continuation,
            ..DiskMark::default()
        },
        MarkBody::Pruned { compaction, part_count, omitted, replay } => DiskMark {
            compaction: id_bytes(compaction.0),
            part_count: *part_count,
            omitted: ranges_to_disk(omitted),
            // No message has the revision 0, so that one is none.
            target: replay.map_or(0, |replay| replay.target),
            replacement: replay.map_or(0, |replay| replay.replacement),
            ..DiskMark::default()
        },
        MarkBody::Rewound { after, told, of_fork } => {
            DiskMark { target: *after, told: *told, of_fork: *of_fork, ..DiskMark::default() }
        }
        MarkBody::Edited { target, replacement } => {
            DiskMark { target: *target, replacement: replacement.unwrap_or_default(), ..DiskMark::default() }
        }
        MarkBody::Pinned { target } => DiskMark { target: *target, ..DiskMark::default() },
        MarkBody::Undone { mark } => DiskMark { target: *mark, ..DiskMark::default() },
    };
    encode(&disk)
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
            retained: disk.retained,
            retained_first: disk.retained_first,
            continuation: disk.continuation,
        }),
        2 => MarkBody::Pruned {
            compaction: CompactionId(uuid(&disk.compaction)?),
            part_count: disk.part_count,
            omitted: ranges_from_disk(disk.omitted),
            replay: (disk.replacement > 0).then_some(Replay { target: disk.target, replacement: disk.replacement }),
        },
        3 => MarkBody::Rewound { after: disk.target, told: disk.told, of_fork: disk.of_fork },
        4 => MarkBody::Edited { target: disk.target, replacement: (disk.replacement > 0).then_some(disk.replacement) },
        5 => MarkBody::Pinned { target: disk.target },
        6 => MarkBody::Undone { mark: disk.target },
        other => return Err(Error::corrupt("mark", format_args!("unknown kind {other}"))),
    })
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskSpan {
    /// 1 inline, 2 marker, 3 summary, 4 pinned, 5 edit, 6 retained, 7 continuation.
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
                Place::Retained => DiskSpan { kind: 6, first: revision, last: None },
                Place::Continuation => DiskSpan { kind: 7, first: revision, last: None },
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
    encode(&DiskLayout {
        spans,
        compaction: covered.map(|covered| id_bytes(covered.compaction.0)).unwrap_or_default(),
        compaction_mark: covered.map_or(0, |covered| covered.mark),
        summary: covered.map_or(0, |covered| covered.summary),
        covered: covered.map(|covered| ranges_to_disk(&covered.ranges)).unwrap_or_default(),
        omitted,
        pinned: layout.pinned.clone(),
        undone_prunes: layout.undone_prunes.clone(),
    })
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
                6 => placed(Place::Retained),
                7 => placed(Place::Continuation),
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
