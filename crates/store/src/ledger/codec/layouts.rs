//! Layouts on disk: whole, or as the difference to the previous one. An edit or a pin changes one place of a layout,
//! however many marks there are. The tags never change.

use super::columns::{
    DiskRange, Number as _, decode, encode, id_bytes, ranges_from_disk, ranges_to_disk, required, uuid,
};
use crate::error::{Error, Result};
use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use crate::model::ids::CompactionId;
use crate::model::layout::{CoveredHistory, Layout, LayoutChange, OmitReason, OmittedHistory, Placement, Span, Splice};

#[derive(Clone, PartialEq, prost::Message)]
struct DiskSpan {
    /// 1 inline, 2 marker, 3 summary, 4 pinned, 5 edit, 6 retained, 7 continuation.
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(int64, tag = "2")]
    first: i64,
    /// The end of an inline range, or the target of an edit.
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
struct DiskCovered {
    #[prost(bytes = "vec", tag = "1")]
    compaction: Vec<u8>,
    #[prost(int64, tag = "2")]
    mark: i64,
    #[prost(int64, tag = "3")]
    summary: i64,
    #[prost(message, repeated, tag = "4")]
    ranges: Vec<DiskRange>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskWhole {
    #[prost(message, repeated, tag = "1")]
    spans: Vec<DiskSpan>,
    #[prost(message, optional, tag = "2")]
    covered: Option<DiskCovered>,
    #[prost(message, repeated, tag = "3")]
    omitted: Vec<DiskOmitted>,
    #[prost(int64, repeated, tag = "4")]
    pinned: Vec<i64>,
    #[prost(int64, repeated, tag = "5")]
    undone_prunes: Vec<i64>,
}

/// A change of a list: `inserted` replaces `removed` items from `start` on.
macro_rules! splice {
    ($name:ident, $item:ty, $kind:tt, $to_disk:path: $domain:ty) => {
        #[derive(Clone, PartialEq, prost::Message)]
        struct $name {
            #[prost(uint64, tag = "1")]
            start: u64,
            #[prost(uint64, tag = "2")]
            removed: u64,
            #[prost($kind, repeated, tag = "3")]
            inserted: Vec<$item>,
        }

        impl From<&Splice<$domain>> for $name {
            fn from(Splice { start, removed, inserted }: &Splice<$domain>) -> Self {
                let inserted = inserted.iter().map($to_disk).collect();
                Self { start: *start as u64, removed: *removed as u64, inserted }
            }
        }

        impl $name {
            fn apply(self, list: &mut Vec<$item>) -> Result<()> {
                let start = usize::try_from(self.start).unwrap_or(usize::MAX);
                let end = start.saturating_add(usize::try_from(self.removed).unwrap_or(usize::MAX));
                if end > list.len() {
                    return Err(Error::corrupt("layout", "a difference to another layout"));
                }
                list.splice(start..end, self.inserted);
                Ok(())
            }
        }
    };
}

splice!(SpanSplice, DiskSpan, message, disk_span: Span);
splice!(OmittedSplice, DiskOmitted, message, disk_omitted: OmittedHistory);
splice!(RevisionSplice, i64, int64, i64::clone: i64);

/// The new messages covered by the active summary, if they changed; none without a summary.
#[derive(Clone, PartialEq, prost::Message)]
struct CoveredChange {
    #[prost(message, optional, tag = "1")]
    covered: Option<DiskCovered>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiskDifference {
    /// The revision of the whole layout that it is based on.
    #[prost(int64, tag = "1")]
    whole_revision: i64,
    /// The splices of a list apply one after the other.
    #[prost(message, repeated, tag = "2")]
    spans: Vec<SpanSplice>,
    #[prost(message, optional, tag = "3")]
    covered: Option<CoveredChange>,
    #[prost(message, repeated, tag = "4")]
    omitted: Vec<OmittedSplice>,
    #[prost(message, repeated, tag = "5")]
    pinned: Vec<RevisionSplice>,
    #[prost(message, repeated, tag = "6")]
    undone_prunes: Vec<RevisionSplice>,
}

/// Exactly one of the two is set.
#[derive(Clone, PartialEq, prost::Message)]
struct DiskLayout {
    #[prost(message, optional, tag = "1")]
    whole: Option<DiskWhole>,
    #[prost(message, optional, tag = "2")]
    difference: Option<DiskDifference>,
}

fn disk_span(span: &Span) -> DiskSpan {
    match *span {
        Span::Inline { first, last } => DiskSpan { kind: 1, first, last },
        Span::Placed { revision: first, placement } => match placement {
            Placement::Marker => DiskSpan { kind: 2, first, last: None },
            Placement::Summary => DiskSpan { kind: 3, first, last: None },
            Placement::Pinned => DiskSpan { kind: 4, first, last: None },
            Placement::Edit(target) => DiskSpan { kind: 5, first, last: Some(target) },
            Placement::Retained => DiskSpan { kind: 6, first, last: None },
            Placement::Continuation => DiskSpan { kind: 7, first, last: None },
            // Only the form of a view has it: no layout does, and none with it is read.
            Placement::Block => DiskSpan { kind: 8, first, last: None },
        },
    }
}

fn disk_covered(covered: &CoveredHistory) -> DiskCovered {
    DiskCovered {
        compaction: id_bytes(covered.compaction.0),
        mark: covered.mark,
        summary: covered.summary,
        ranges: ranges_to_disk(&covered.ranges),
    }
}

fn disk_omitted(omitted: &OmittedHistory) -> DiskOmitted {
    DiskOmitted {
        range: Some(DiskRange { first: omitted.range.first, last: omitted.range.last }),
        mark: omitted.mark,
        reason: omitted.reason.number(),
    }
}

fn span(span: DiskSpan) -> Result<Span> {
    let placed = |placement| Span::Placed { revision: span.first, placement };
    Ok(match span.kind {
        1 => Span::Inline { first: span.first, last: span.last },
        2 => placed(Placement::Marker),
        3 => placed(Placement::Summary),
        4 => placed(Placement::Pinned),
        5 => placed(Placement::Edit(required("layout", "the target of an edit", span.last)?)),
        6 => placed(Placement::Retained),
        7 => placed(Placement::Continuation),
        other => return Err(Error::corrupt("layout", format_args!("unknown span {other}"))),
    })
}

fn omitted(disk: DiskOmitted) -> Result<OmittedHistory> {
    let DiskRange { first, last } = required("layout", "an omitted range", disk.range)?;
    let reason = OmitReason::from_number(disk.reason)?;
    Ok(OmittedHistory { range: RevisionRange { first, last }, mark: disk.mark, reason })
}

impl From<&Layout> for DiskWhole {
    fn from(layout: &Layout) -> Self {
        Self {
            spans: layout.spans.iter().map(disk_span).collect(),
            covered: layout.covered.as_ref().map(disk_covered),
            omitted: layout.omitted.iter().map(disk_omitted).collect(),
            pinned: layout.pinned.clone(),
            undone_prunes: layout.undone_prunes.clone(),
        }
    }
}

impl TryFrom<DiskWhole> for Layout {
    type Error = Error;

    fn try_from(disk: DiskWhole) -> Result<Self> {
        let covered = |disk: DiskCovered| -> Result<CoveredHistory> {
            let DiskCovered { compaction, mark, summary, ranges } = disk;
            let compaction = CompactionId(uuid(&compaction)?);
            Ok(CoveredHistory { compaction, mark, summary, ranges: ranges_from_disk(ranges) })
        };
        Ok(Self {
            spans: disk.spans.into_iter().map(span).collect::<Result<_>>()?,
            covered: disk.covered.map(covered).transpose()?,
            omitted: disk.omitted.into_iter().map(omitted).collect::<Result<_>>()?,
            pinned: disk.pinned,
            undone_prunes: disk.undone_prunes,
        })
    }
}

impl DiskDifference {
    fn apply(self, whole: &mut DiskWhole) -> Result<()> {
        let Self { whole_revision: _, spans, covered, omitted, pinned, undone_prunes } = self;
        spans.into_iter().try_for_each(|splice| splice.apply(&mut whole.spans))?;
        omitted.into_iter().try_for_each(|splice| splice.apply(&mut whole.omitted))?;
        pinned.into_iter().try_for_each(|splice| splice.apply(&mut whole.pinned))?;
        undone_prunes.into_iter().try_for_each(|splice| splice.apply(&mut whole.undone_prunes))?;
        if let Some(CoveredChange { covered }) = covered {
            whole.covered = covered;
        }
        Ok(())
    }
}

/// The bytes of `layout.body` for a whole layout.
pub(crate) fn encode_layout(layout: &Layout) -> Vec<u8> {
    encode(&DiskLayout { whole: Some(layout.into()), difference: None })
}

/// The bytes of `layout.body` for the change of the layout of the previous row. `whole_revision` is the revision of the
/// newest row with a whole layout.
pub(crate) fn encode_layout_change(change: &LayoutChange, whole_revision: Revision) -> Vec<u8> {
    let LayoutChange { spans, covered, omitted, pinned, undone_prunes } = change;
    let covered = covered.as_ref().map(|covered| CoveredChange { covered: covered.as_ref().map(disk_covered) });
    encode(&DiskLayout {
        whole: None,
        difference: Some(DiskDifference {
            whole_revision,
            spans: spans.iter().map(SpanSplice::from).collect(),
            covered,
            omitted: omitted.iter().map(OmittedSplice::from).collect(),
            pinned: pinned.iter().map(RevisionSplice::from).collect(),
            undone_prunes: undone_prunes.iter().map(RevisionSplice::from).collect(),
        }),
    })
}

/// The revision of the row with the whole layout that these bytes are based on; none if they are a whole layout.
pub(crate) fn layout_base(bytes: &[u8]) -> Result<Option<Revision>> {
    let disk: DiskLayout = decode("layout", bytes)?;
    match disk {
        DiskLayout { whole: Some(_), difference: None } => Ok(None),
        DiskLayout { whole: None, difference: Some(difference) } => Ok(Some(difference.whole_revision)),
        _ => Err(Error::corrupt("layout", "neither a whole layout nor a difference")),
    }
}

/// Decodes a layout from the bytes of its rows, the whole one first, then each difference.
pub(crate) fn decode_layout<'b>(rows: impl IntoIterator<Item = &'b [u8]>) -> Result<Layout> {
    let mut layout: Option<DiskWhole> = None;
    for row in rows {
        let disk: DiskLayout = decode("layout", row)?;
        match (disk.whole, disk.difference, &mut layout) {
            (Some(whole), None, before @ None) => *before = Some(whole),
            (None, Some(difference), Some(before)) => difference.apply(before)?,
            _ => return Err(Error::corrupt("layout", "a difference without a whole layout before it")),
        }
    }
    required("layout", "a row", layout)?.try_into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layouts() -> impl Strategy<Value = Layout> {
        let span = prop_oneof![
            (0..9_i64, prop::option::of(9..20_i64)).prop_map(|(first, last)| Span::Inline { first, last }),
            (0..20_i64, 0..9_i64).prop_map(|(revision, of)| Span::Placed { revision, placement: Placement::Edit(of) }),
            (0..20_i64).prop_map(|revision| Span::Placed { revision, placement: Placement::Pinned }),
        ];
        let omitted = (0..9_i64, 0..9_i64).prop_map(|(first, mark)| OmittedHistory {
            range: RevisionRange { first, last: first + 3 },
            mark,
            reason: OmitReason::Edited,
        });
        let covered = (0..5_i64).prop_map(|mark| CoveredHistory {
            compaction: CompactionId(uuid::Uuid::nil()),
            mark,
            summary: mark + 1,
            ranges: vec![RevisionRange { first: 0, last: mark }],
        });
        let revisions = || prop::collection::vec(0..9_i64, 0..6);
        let lists = (prop::collection::vec(span, 0..6), prop::collection::vec(omitted, 0..6), revisions(), revisions());
        (lists, prop::option::of(covered)).prop_map(|((spans, omitted, pinned, undone_prunes), covered)| Layout {
            spans,
            covered,
            omitted,
            pinned,
            undone_prunes,
        })
    }

    proptest! {
        #[test]
        fn differences_give_the_layout_that_they_were_made_of(all in prop::collection::vec(layouts(), 1..6)) {
            let mut rows = vec![encode_layout(&all[0])];
            rows.extend(all.windows(2).map(|pair| encode_layout_change(&LayoutChange::between(&pair[0], &pair[1]), 7)));
            let read = decode_layout(rows.iter().map(Vec::as_slice)).expect("they are whole");
            prop_assert_eq!(&read, all.last().expect("at least one"));
            prop_assert_eq!(layout_base(&rows[0]).expect("a whole layout"), None);
            for difference in &rows[1..] {
                prop_assert_eq!(layout_base(difference).expect("a difference"), Some(7));
                prop_assert!(decode_layout([difference.as_slice()]).is_err());
            }
        }
    }

    #[test]
    fn a_change_at_one_position_of_a_long_layout_costs_no_more_than_in_a_short_one() {
        let layout = |count: i64| Layout {
            spans: (0..count).map(|revision| Span::Placed { revision, placement: Placement::Pinned }).collect(),
            pinned: (0..count).collect(),
            ..Layout::everything()
        };
        let cost = |count| encode_layout_change(&LayoutChange::between(&layout(count), &layout(count + 1)), 1).len();
        assert!(cost(10_000) <= cost(10) + 16, "{} bytes", cost(10_000));
    }

    #[test]
    fn a_difference_to_another_layout_is_refused() {
        let long = Layout { pinned: (0..100).collect(), ..Layout::everything() };
        let short = Layout { pinned: Vec::new(), ..Layout::everything() };
        let rows = [encode_layout(&short), encode_layout_change(&LayoutChange::between(&long, &short), 1)];
        assert!(decode_layout(rows.iter().map(Vec::as_slice)).is_err());
    }
}
