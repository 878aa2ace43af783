use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use uuid::Uuid;

use super::*;
use crate::compaction::RevisionRange;
use crate::ids::CompactionId;
use crate::layout::{LayoutChange, OmitReason, Placement, Span};
use crate::mark::{CompactedMark, MarkBody, Replay, WordsStance};

mod oracle;

use oracle::Oracle;

fn newest_change(marks: &[Mark], at: Revision) -> Option<Reversal> {
    Marks::at(marks, at).newest_change()
}

fn newest_undone(marks: &[Mark], at: Revision) -> Redo {
    Marks::at(marks, at).newest_undone()
}

fn still_applies(
    marks: &[Mark],
    base: Revision,
    covered: &[RevisionRange],
    tail_start: Revision,
    at: Revision,
) -> bool {
    Marks::at(marks, at).still_applies(base, covered, tail_start)
}

fn range(first: Revision, last: Revision) -> RevisionRange {
    RevisionRange { first, last }
}

fn mark(revision: Revision, body: MarkBody) -> Mark {
    Mark { revision, body }
}

fn rewound(revision: Revision, after: Revision) -> Mark {
    mark(revision, MarkBody::Rewound { after, has_summary: false, of_fork: false })
}

fn edited(revision: Revision, target: Revision, replacement: Revision) -> Mark {
    mark(revision, MarkBody::Edited { target, replacement: Some(replacement) })
}

/// An edit that omits a message.
fn taken_out(revision: Revision, target: Revision) -> Mark {
    mark(revision, MarkBody::Edited { target, replacement: None })
}

fn pinned(revision: Revision, target: Revision) -> Mark {
    mark(revision, MarkBody::Pinned { target })
}

fn undo(revision: Revision, target: Revision) -> Mark {
    mark(revision, MarkBody::Undone { mark: target })
}

fn compaction(number: Revision) -> CompactionId {
    CompactionId(Uuid::from_u128(u128::from(number.unsigned_abs())))
}

fn pruned(revision: Revision) -> Mark {
    mark(
        revision,
        MarkBody::Pruned { compaction: compaction(revision), part_count: 1, omitted: Vec::new(), replay: None },
    )
}

/// A compaction that omits messages.
fn left_out(revision: Revision, omitted: RevisionRange) -> Mark {
    let omitted = vec![omitted];
    mark(revision, MarkBody::Pruned { compaction: compaction(revision), part_count: 0, omitted, replay: None })
}

/// A compaction whose marker and summary come right before its mark.
fn compacted(revision: Revision, base: Revision, covered: &[RevisionRange], tail_start: Revision) -> Mark {
    let body = CompactedMark {
        compaction: compaction(revision),
        base,
        covered: covered.to_vec(),
        tail_start,
        marker: Some(revision - 2),
        summary: revision - 1,
        retained: Vec::new(),
        retained_first: false,
        continuation: None,
        quoted_until: None,
        said_in: Vec::new(),
    };
    mark(revision, MarkBody::Compacted(body))
}

/// A summary of the first messages, with some of them retained before it.
fn beside(retained: &[Revision]) -> Mark {
    let Mark { revision, body: MarkBody::Compacted(body) } = compacted(20, 17, &[range(1, 8)], 9) else {
        unreachable!("a compaction")
    };
    mark(revision, MarkBody::Compacted(CompactedMark { retained: retained.to_vec(), retained_first: true, ..body }))
}

/// A layout in short notation: `M12 S13 P4 E3>15 6-9 16-` for marker, summary, pinned, edit, inline; `R` for retained,
/// `C` for a continuation.
fn sketch(layout: &Layout) -> String {
    let spans = layout.spans.iter().map(|span| match span {
        Span::Inline { first, last: Some(last) } => format!("{first}-{last}"),
        Span::Inline { first, last: None } => format!("{first}-"),
        Span::Placed { revision, placement: Placement::Marker } => format!("M{revision}"),
        Span::Placed { revision, placement: Placement::Summary } => format!("S{revision}"),
        Span::Placed { revision, placement: Placement::Pinned } => format!("P{revision}"),
        Span::Placed { revision, placement: Placement::Retained } => format!("R{revision}"),
        Span::Placed { revision, placement: Placement::Edit(target) } => format!("E{target}>{revision}"),
        Span::Placed { revision, placement: Placement::Continuation } => format!("C{revision}"),
        Span::Placed { revision, placement: Placement::Block } => format!("B{revision}"),
    });
    spans.collect::<Vec<_>>().join(" ")
}

/// The omissions of a layout in short notation: `4-6@7 3@9` for messages 4 to 6 rewound by mark 7, and 3 edited by mark
/// 9.
fn omissions(layout: &Layout) -> String {
    let omitted = layout.omitted.iter().map(|omitted| match omitted.reason {
        OmitReason::Rewound | OmitReason::Compacted => {
            format!("{}-{}@{}", omitted.range.first, omitted.range.last, omitted.mark)
        }
        OmitReason::Edited | OmitReason::Replayed => format!("{}@{}", omitted.range.first, omitted.mark),
    });
    omitted.collect::<Vec<_>>().join(" ")
}

/// The name of a history, its marks, the short notation of its layout, and its omissions.
type Case = (&'static str, Vec<Mark>, &'static str, &'static str);

fn check(cases: Vec<Case>) {
    for (name, marks, expected, left_out) in cases {
        let layout = layout_at(&marks, 100);
        assert_eq!(sketch(&layout), expected, "{name}");
        assert_eq!(omissions(&layout), left_out, "{name}");
    }
}

#[test]
fn rewinds_and_edits() {
    check(vec![
        ("nothing", vec![], "0-", ""),
        ("a rewind", vec![rewound(9, 4)], "0-4 10-", "5-9@9"),
        ("a rewind of everything", vec![rewound(9, 0)], "0-0 10-", "1-9@9"),
        ("a rewind of nothing", vec![rewound(9, 9)], "0-", ""),
        ("a rewind undone", vec![rewound(9, 4), undo(12, 9)], "0-", ""),
        ("an undo undone", vec![rewound(9, 4), undo(12, 9), undo(13, 12)], "0-4 10-", "5-9@9"),
        ("an undo of itself", vec![rewound(9, 4), undo(12, 12)], "0-4 10-", "5-9@9"),
        ("an undo of what is yet to come", vec![undo(8, 9), rewound(9, 4)], "0-4 10-", "5-9@9"),
        ("two rewinds apart", vec![rewound(9, 4), rewound(15, 11)], "0-4 10-11 16-", "5-9@9 12-15@15"),
        ("two rewinds overlapping", vec![rewound(9, 4), rewound(15, 7)], "0-4 16-", "5-7@9 8-15@15"),
        ("a rewind over a rewind", vec![rewound(9, 4), rewound(15, 2)], "0-2 16-", "3-15@15"),
        ("an edit", vec![edited(9, 3, 8)], "0-2 E3>8 4-", "3@9"),
        ("an edit edited", vec![edited(9, 3, 8), edited(12, 3, 11)], "0-2 E3>11 4-", "3@12 8@12"),
        (
            "an edit of an edit undone",
            vec![edited(9, 3, 8), edited(12, 3, 11), undo(13, 12)],
            "0-2 E3>8 4-",
            "3@9 11@13",
        ),
        ("an edit undone", vec![edited(9, 3, 8), undo(10, 9)], "0-", "8@10"),
        ("a message taken out", vec![taken_out(9, 3)], "0-2 4-", "3@9"),
        ("and brought back", vec![taken_out(9, 3), undo(10, 9)], "0-", ""),
        ("an edited message taken out", vec![edited(9, 3, 8), taken_out(12, 3)], "0-2 4-", "3@12 8@12"),
        ("a message taken out, then edited", vec![taken_out(9, 3), edited(12, 3, 11)], "0-2 E3>11 4-", "3@12"),
        ("a pinned message taken out", vec![pinned(5, 3), taken_out(9, 3)], "0-2 4-", "3@9"),
        ("a message taken out, rewound", vec![taken_out(9, 5), rewound(12, 4)], "0-4 13-", "5-12@12"),
        ("an edit, rewound", vec![edited(9, 5, 8), rewound(12, 4)], "0-4 13-", "5-12@12"),
        ("an edit of a rewound message", vec![rewound(7, 4), edited(9, 5, 8)], "0-4 8-", "5-7@7 8-8@7"),
        ("an edit whose mark is rewound", vec![edited(9, 3, 8), rewound(12, 6)], "0-2 E3>8 4-6 13-", "3@9 7-12@12"),
    ]);
}

#[test]
fn rewinds_into_what_a_compaction_left_out() {
    let first = || left_out(20, range(1, 8));
    let second = || left_out(30, range(9, 15));
    check(vec![
        ("behind it, it lasts", vec![first(), rewound(21, 9)], "0-0 9-9 22-", "1-8@20 10-21@21"),
        ("to its last message, it ends", vec![first(), rewound(21, 8)], "0-8 22-", "9-21@21"),
        ("into it, it ends", vec![first(), rewound(21, 3)], "0-3 22-", "4-21@21"),
        ("to nothing, it ends", vec![first(), rewound(21, 0)], "0-0 22-", "1-21@21"),
        ("an undo of the rewind brings it back", vec![first(), rewound(21, 3), undo(22, 21)], "0-0 9-", "1-8@20"),
        ("and a redo ends it again", vec![first(), rewound(21, 3), undo(22, 21), undo(23, 22)], "0-3 22-", "4-21@21"),
        ("only the newer one ends", vec![first(), second(), rewound(31, 12)], "0-0 9-12 32-", "1-8@20 13-31@31"),
        ("both end", vec![first(), second(), rewound(31, 8)], "0-8 32-", "9-31@31"),
        (
            "an edit has the position of what it replaces",
            vec![edited(19, 4, 18), left_out(20, range(18, 18)), rewound(21, 10)],
            "0-3 5-10 22-",
            "4@19 11-21@21",
        ),
        (
            "and comes back with it",
            vec![edited(19, 4, 18), left_out(20, range(18, 18)), rewound(21, 4)],
            "0-3 E4>18 22-",
            "4@19 5-21@21",
        ),
    ]);
}

#[test]
fn what_a_rewind_brings_back_under_a_summary_ends_the_summary() {
    let marks = || vec![left_out(20, range(1, 4)), left_out(21, range(12, 13))];
    let summary = compacted(24, 21, &[range(5, 8)], 9);
    let with = |more: Vec<Mark>| layout_at(&[marks(), more].concat(), 100);
    assert_eq!(sketch(&with(vec![summary.clone()])), "M22 S23 9-11 14-");
    assert_eq!(sketch(&with(vec![summary.clone(), rewound(25, 12)])), "M22 S23 9-12 26-");
    let whole = vec![Mark {
        revision: 20,
        body: MarkBody::Pruned {
            compaction: compaction(20),
            part_count: 0,
            omitted: vec![range(1, 4), range(12, 13)],
            replay: None,
        },
    }];
    let layout = layout_at(&[whole, vec![summary, rewound(25, 12)]].concat(), 100);
    assert_eq!(sketch(&layout), "0-12 26-", "the summary has not what is in front of its tail again");
}

#[test]
fn erasures() {
    let first = || compacted(20, 17, &[range(1, 8)], 9);
    let second = || compacted(40, 37, &[range(1, 8), range(21, 30)], 31);
    let erased = |revision, target| mark(revision, MarkBody::Erased { ranges: vec![range(target, target)] });
    check(vec![
        ("a covered message", vec![first(), erased(25, 3)], "0-", ""),
        ("a message of the tail", vec![first(), erased(25, 12)], "M18 S19 9-", ""),
        ("a message that no summary has had", vec![erased(5, 3), first()], "M18 S19 9-", ""),
        ("a message under two summaries", vec![first(), second(), erased(45, 3)], "0-", ""),
        ("a message under the second alone", vec![first(), second(), erased(45, 25)], "M18 S19 9-", ""),
        ("the text of a summary", vec![first(), erased(25, 19)], "0-", ""),
        ("a message under an undone summary", vec![first(), undo(22, 20), erased(25, 3), undo(27, 22)], "0-", ""),
        ("a pinned message", vec![pinned(5, 3), first(), erased(25, 3)], "0-", ""),
    ]);
    assert_eq!(newest_change(&[first(), erased(25, 3)], 30), None, "neither the summary nor the erasure is undone");
    assert_eq!(newest_undone(&[first(), undo(22, 20), erased(25, 3)], 30), Redo::Nothing);
    assert!(matches!(newest_undone(&[first(), undo(22, 20), erased(25, 12)], 30), Redo::Possible(_)));
    assert!(!still_applies(&[erased(25, 3)], 17, &[range(1, 8)], 9, 30), "it was made from what is gone");
    assert!(still_applies(&[erased(25, 12)], 17, &[range(1, 8)], 9, 30));
}

#[test]
fn summaries() {
    let first = || compacted(20, 17, &[range(1, 8)], 9);
    let second = || compacted(40, 37, &[range(1, 8), range(21, 30)], 31);
    check(vec![
        ("a summary", vec![first()], "M18 S19 9-", ""),
        ("a summary undone", vec![first(), undo(22, 20)], "0-", ""),
        ("a pin under a summary", vec![pinned(5, 3), pinned(6, 12), first()], "M18 S19 P3 9-", ""),
        ("a pin that came later", vec![first(), pinned(25, 3)], "M18 S19 P3 9-", ""),
        ("a pin undone", vec![pinned(5, 3), first(), undo(25, 5)], "M18 S19 9-", ""),
        ("what is retained", vec![beside(&[1, 3])], "R1 R3 M18 S19 9-", ""),
        ("a pin of what is retained", vec![pinned(5, 3), beside(&[1, 3]), pinned(25, 1)], "M18 S19 P1 P3 9-", ""),
        ("a pin undone of what is retained", vec![pinned(5, 3), beside(&[1, 3]), undo(25, 5)], "R1 R3 M18 S19 9-", ""),
        (
            "a pin of a message whose replacement is retained",
            vec![edited(7, 3, 6), beside(&[1, 6]), pinned(25, 3)],
            "R1 M18 S19 P6 9-",
            "3@7",
        ),
        (
            "a pinned message that was edited",
            vec![pinned(5, 3), edited(7, 3, 6), compacted(20, 17, &[range(1, 2), range(4, 8)], 9)],
            "M18 S19 P6 9-",
            "3@7",
        ),
        (
            "a pin that names a replacement",
            vec![edited(5, 3, 4), pinned(6, 4), compacted(20, 17, &[range(1, 2), range(4, 8)], 9)],
            "M18 S19 P4 9-",
            "3@5",
        ),
        ("a message taken out under a summary", vec![first(), taken_out(23, 3)], "0-2 4-", "3@23"),
        (
            "a pinned message taken out in front of a summary",
            vec![pinned(4, 3), taken_out(6, 3), compacted(20, 17, &[range(1, 2), range(4, 8)], 9)],
            "M18 S19 9-",
            "3@6",
        ),
        ("an edit under a summary", vec![first(), edited(23, 3, 22)], "0-2 E3>22 4-", "3@23"),
        ("an edit under a summary, undone", vec![first(), edited(23, 3, 22), undo(24, 23)], "M18 S19 9-", "22@24"),
        ("an edit in the tail", vec![first(), edited(23, 10, 22)], "M18 S19 9-9 E10>22 11-", "10@23"),
        ("a rewind of the tail's end", vec![first(), rewound(25, 12)], "M18 S19 9-12 26-", "13-25@25"),
        ("a rewind of the whole tail", vec![first(), rewound(25, 8)], "M18 S19 26-", "9-25@25"),
        ("a rewind under the summary", vec![first(), rewound(25, 7)], "0-7 26-", "8-25@25"),
        ("a rewind under the summary, undone", vec![first(), rewound(25, 7), undo(26, 25)], "M18 S19 9-", ""),
        ("a chain", vec![first(), second()], "M38 S39 31-", ""),
        ("a chain popped once", vec![first(), second(), undo(41, 40)], "M18 S19 9-", ""),
        ("a chain popped twice", vec![first(), second(), undo(41, 40), undo(42, 20)], "0-", ""),
        ("an older link undone", vec![first(), second(), undo(42, 20)], "M38 S39 31-", ""),
        ("a chain cut by a rewind", vec![first(), second(), rewound(45, 25)], "M18 S19 9-25 46-", "26-45@45"),
        ("a chain cut by an edit", vec![first(), second(), edited(45, 25, 44)], "M18 S19 9-24 E25>44 26-", "25@45"),
        ("a chain cut through", vec![first(), second(), edited(45, 5, 44)], "0-4 E5>44 6-", "5@45"),
        ("a pinned summary", vec![first(), pinned(25, 19), second()], "M38 S39 31-", ""),
    ]);
}

/// A compaction with a continuation right before its mark.
fn continued(revision: Revision, base: Revision, covered: &[RevisionRange], tail_start: Revision) -> Mark {
    let Mark { body: MarkBody::Compacted(body), .. } = compacted(revision - 1, base, covered, tail_start) else {
        unreachable!("a compaction")
    };
    mark(revision, MarkBody::Compacted(CompactedMark { continuation: Some(revision - 1), ..body }))
}

/// A prune with a replay of a request right before its mark.
fn replayed(revision: Revision, target: Revision) -> Mark {
    let replay = Some(Replay { target, replacement: revision - 1 });
    mark(revision, MarkBody::Pruned { compaction: compaction(revision), part_count: 0, omitted: Vec::new(), replay })
}

#[test]
fn additions_of_a_compaction_last_as_long_as_the_compaction() {
    let first = || continued(20, 16, &[range(1, 8)], 9);
    check(vec![
        ("a continuation", vec![first()], "M17 S18 9-18 C19 20-", ""),
        ("a continuation undone", vec![first(), undo(22, 20)], "0-", ""),
        ("and redone", vec![first(), undo(22, 20), undo(23, 22)], "M17 S18 9-18 C19 20-", ""),
        ("an edit under its summary", vec![first(), edited(25, 3, 24)], "0-2 E3>24 4-", "3@25"),
        ("a rewind behind it", vec![first(), rewound(25, 22)], "M17 S18 9-18 C19 20-22 26-", "23-25@25"),
        ("a rewind before it", vec![first(), rewound(25, 12)], "M17 S18 9-12 26-", "13-25@25"),
        (
            "the next summary's tail begins with it",
            vec![first(), compacted(40, 37, &[range(1, 15)], 19)],
            "M38 S39 C19 20-",
            "",
        ),
        ("the next summary covers it", vec![first(), compacted(40, 37, &[range(1, 25)], 26)], "M38 S39 26-", ""),
        ("a replay", vec![replayed(20, 9)], "0-8 E9>19 10-", "9@20"),
        ("a replay undone", vec![replayed(20, 9), undo(21, 20)], "0-", ""),
        ("a replay rewound", vec![replayed(20, 9), rewound(25, 8)], "0-8 26-", "9-25@25"),
        ("a replay of an edited request", vec![edited(12, 9, 11), replayed(20, 9)], "0-8 E9>19 10-", "9@20 11@20"),
        ("a request edited behind its replay", vec![replayed(20, 9), edited(25, 9, 24)], "0-8 E9>24 10-", "9@25"),
        ("and the edit undone", vec![replayed(20, 9), edited(25, 9, 24), undo(26, 25)], "0-8 E9>19 10-", "9@20 24@26"),
        (
            "a summary beside a replay",
            vec![replayed(20, 9), compacted(23, 16, &[range(1, 8)], 9)],
            "M21 S22 E9>19 10-",
            "9@20",
        ),
    ]);
}

#[test]
fn marks_that_a_summary_was_written_from() {
    check(vec![
        (
            "an edit that a summary was written from, undone",
            vec![edited(5, 3, 4), compacted(20, 17, &[range(1, 2), range(4, 8)], 9), undo(21, 5)],
            "0-",
            "4@21",
        ),
        (
            "an edit that a summary was written from, edited again",
            vec![edited(5, 3, 4), compacted(20, 17, &[range(1, 2), range(4, 8)], 9), edited(23, 3, 22)],
            "0-2 E3>22 4-",
            "3@23 4@23",
        ),
        (
            "a rewind before a summary, undone after it",
            vec![rewound(7, 4), compacted(20, 17, &[range(1, 4), range(8, 8)], 9), undo(21, 7)],
            "0-",
            "",
        ),
        (
            "a rewind before a summary",
            vec![rewound(7, 4), compacted(20, 17, &[range(1, 4), range(8, 8)], 9)],
            "M18 S19 9-",
            "5-7@7",
        ),
        (
            "a rewind past revisions between replacements",
            vec![
                edited(14, 3, 13),
                edited(16, 5, 15),
                compacted(20, 17, &[range(1, 2), range(4, 4), range(6, 7), range(13, 15)], 9),
                rewound(25, 7),
            ],
            "M18 S19 26-",
            "3@14 5@16 8-25@25",
        ),
        (
            "a pinned message, rewound",
            vec![pinned(5, 6), rewound(7, 4), compacted(20, 17, &[range(1, 8)], 9)],
            "M18 S19 9-",
            "5-7@7",
        ),
        (
            "a rewind past the place of a replacement only",
            vec![edited(14, 3, 13), compacted(20, 17, &[range(1, 2), range(4, 8), range(13, 13)], 9), rewound(25, 11)],
            "M18 S19 9-11 26-",
            "3@14 12-25@25",
        ),
    ]);
}

#[test]
fn an_undone_prune_is_listed_and_an_active_one_is_not() {
    let marks = [pruned(5), pruned(9), undo(11, 5), undo(12, 9), undo(13, 12)];
    assert_eq!(layout_at(&marks, 10).undone_prunes, Vec::<Revision>::new());
    assert_eq!(layout_at(&marks, 12).undone_prunes, [5, 9]);
    assert_eq!(layout_at(&marks, 13).undone_prunes, [5]);
}

#[test]
fn undo_pops_the_newest_change_in_force() {
    let marks = [
        rewound(10, 8),
        compacted(20, 17, &[range(1, 8)], 9),
        pruned(25),
        compacted(40, 37, &[range(1, 30)], 31),
        pinned(43, 3),
        edited(45, 25, 44),
    ];
    let cases = [(9, None), (10, Some(10)), (20, Some(20)), (30, Some(25)), (43, Some(40)), (45, Some(45))];
    let found = |marks: &[Mark], at| newest_change(marks, at).map(|found| (found.change, found.target));
    for (at, expected) in cases {
        assert_eq!(found(&marks, at), expected.map(|change| (change, change)), "at {at}");
    }
    let mut popped = marks.to_vec();
    for (revision, change) in [(46, 45), (47, 40), (48, 25), (49, 20), (50, 10)] {
        assert_eq!(found(&popped, revision), Some((change, change)));
        popped.push(undo(revision, change));
    }
    assert_eq!(found(&popped, 50), None);
    // A redone change is undone by the mark that redid it.
    popped.push(undo(51, 50));
    assert_eq!(found(&popped, 51), Some((10, 51)));
}

#[test]
fn redo_brings_back_what_was_taken_back_last_unless_something_was_changed_since() {
    let possible = |change, target| Redo::Possible(Reversal { change, target });
    let undone = || vec![pruned(5), edited(9, 3, 8), undo(11, 9), undo(12, 5)];
    let cases: Vec<(&str, Vec<Mark>, Redo)> = vec![
        ("nothing", vec![], Redo::Nothing),
        ("nothing is undone", vec![pruned(5)], Redo::Nothing),
        ("two are", vec![], possible(5, 12)),
        ("one is again in force", vec![undo(13, 12)], possible(9, 11)),
        ("both are", vec![undo(13, 12), undo(14, 11)], Redo::Nothing),
        ("and taken back once more", vec![undo(13, 12), undo(14, 11), undo(15, 14)], possible(9, 15)),
        ("a pin came since", vec![pinned(13, 3), undo(14, 13)], possible(5, 12)),
        ("a rewind came since", vec![rewound(15, 13)], Redo::Overtaken(15)),
        ("a prune came since and another", vec![pruned(15), pruned(16)], Redo::Overtaken(16)),
        ("what came since was taken back", vec![rewound(15, 13), undo(16, 15)], possible(15, 16)),
        ("and brought back", vec![rewound(15, 13), undo(16, 15), undo(17, 16)], Redo::Overtaken(15)),
    ];
    for (index, (name, since, expected)) in cases.into_iter().enumerate() {
        let marks = match index {
            0 | 1 => since,
            _ => [undone(), since].concat(),
        };
        assert_eq!(newest_undone(&marks, 20), expected, "{name}");
    }
    assert_eq!(newest_undone(&undone(), 11), possible(9, 11), "what comes later does not matter");
}

#[test]
fn a_finished_summary_applies_only_to_what_it_was_written_from() {
    let before = || vec![compacted(20, 17, &[range(1, 8)], 9), edited(27, 12, 26)];
    let cases: &[(&str, Mark, bool)] = &[
        ("a pin", pinned(35, 3), true),
        ("a prune", pruned(35), true),
        ("a rewind of the tail", rewound(35, 24), true),
        ("a rewind further back", rewound(35, 23), false),
        ("an edit in the tail", edited(35, 28, 34), true),
        ("an edit of the old tail", edited(35, 14, 34), false),
        ("an edit edited again", edited(35, 12, 34), false),
        ("an edit undone", undo(35, 27), false),
        ("an edit under the summary before", edited(35, 4, 34), false),
        ("the summary before undone", undo(35, 20), false),
        ("another summary", compacted(35, 30, &[range(1, 14)], 15), false),
    ];
    let covered = [range(1, 11), range(13, 24), range(26, 26)];
    for (name, mark, expected) in cases {
        let marks = [before(), vec![mark.clone()]].concat();
        assert_eq!(still_applies(&marks, 30, &covered, 25, 35), *expected, "{name}");
        assert!(still_applies(&marks, 30, &covered, 25, 34), "{name}, one revision earlier");
    }
    let undone = [before(), vec![edited(33, 4, 32), undo(34, 33)]].concat();
    assert!(still_applies(&undone, 30, &covered, 25, 34));
}

#[test]
fn an_omitted_message_that_returns_under_a_summary_ends_the_summary() {
    let edit_of_3 = || edited(16, 3, 15);
    let cases: &[(&str, RevisionRange, &[Mark], Revision, bool)] = &[
        ("in front of the tail", range(1, 2), &[], 10, false),
        ("in the tail", range(10, 12), &[], 10, true),
        ("an edited message in front of the tail, by its own revision", range(15, 15), &[edit_of_3()], 10, false),
        ("rewound since", range(12, 13), &[rewound(29, 11)], 14, true),
        ("left out by another compaction", range(1, 2), &[left_out(29, range(1, 2))], 10, true),
    ];
    for (name, omitted, others, tail_start, expected) in cases {
        let (then, since): (Vec<Mark>, Vec<Mark>) = others.iter().cloned().partition(|mark| mark.revision < 18);
        let marks = [then, vec![left_out(18, *omitted)], since, vec![undo(30, 18)]].concat();
        let covered = [range(4, 9)];
        assert_eq!(still_applies(&marks, 20, &covered, *tail_start, 30), *expected, "{name}");
        assert!(still_applies(&marks, 20, &covered, *tail_start, 28), "{name}, before");
    }
}

#[test]
fn what_came_back_from_under_a_summary_and_was_edited_away_lets_it_stand_again() {
    let marks = [left_out(3, range(1, 1)), compacted(8, 6, &[range(4, 4)], 7), undo(9, 3), taken_out(10, 1)];
    let summary_at = |at| layout_at(&marks, at).covered.map(|covered| covered.mark);
    assert_eq!([8, 9, 10].map(summary_at), [Some(8), None, Some(8)]);
}

/// Arbitrary marks, well-formed or not.
fn any_marks() -> impl Strategy<Value = Vec<Mark>> {
    let revision = || -2_i64..60;
    let body = prop_oneof![
        revision().prop_map(|after| MarkBody::Rewound { after, has_summary: false, of_fork: false }),
        (revision(), proptest::option::of(revision()))
            .prop_map(|(target, replacement)| MarkBody::Edited { target, replacement }),
        revision().prop_map(|target| MarkBody::Pinned { target }),
        (revision(), 0_u8..3).prop_map(|(target, stance)| {
            let stance = [None, Some(WordsStance::Struck), Some(WordsStance::Kept)][usize::from(stance)];
            MarkBody::Words { target, stance }
        }),
        revision().prop_map(|mark| MarkBody::Undone { mark }),
        Just(MarkBody::Pruned { compaction: compaction(1), part_count: 1, omitted: Vec::new(), replay: None }),
        (revision(), revision(), revision(), revision()).prop_map(|(base, first, last, tail_start)| {
            let covered = if first <= last { vec![range(first, last)] } else { Vec::new() };
            let marker = (base % 2 == 0).then_some(base);
            let summary = base;
            let compaction = compaction(2);
            MarkBody::Compacted(CompactedMark {
                compaction,
                base,
                covered,
                tail_start,
                marker,
                summary,
                retained: Vec::new(),
                retained_first: false,
                continuation: None,
                quoted_until: None,
                said_in: Vec::new(),
            })
        }),
    ];
    proptest::collection::vec((1_i64..4, body), 0..20).prop_map(|steps| {
        let mut revision = 0;
        let numbered = steps.into_iter().map(|(step, body)| {
            revision += step;
            mark(revision, body)
        });
        numbered.collect()
    })
}

/// The same marks, some of them with what the steps of the oracle do not have: messages that summaries retain, summaries
/// of branches, the beginning of a fork, and prunes of the same compaction as the summary after them.
fn varied(mut marks: Vec<Mark>, variety: u64) -> Vec<Mark> {
    for index in 0..marks.len() {
        let next = marks.get(index + 1).and_then(|next| match &next.body {
            MarkBody::Compacted(compacted) => Some(compacted.compaction),
            _ => None,
        });
        let is_chosen = |kind: usize| variety.rotate_right(u32::try_from(index * 3 + kind).unwrap_or(0)) % 2 == 0;
        match &mut marks[index].body {
            MarkBody::Compacted(compacted) => {
                let first = compacted.covered.iter().map(|range| range.first);
                compacted.retained = first.filter(|first| is_chosen(*first as usize % 3)).collect();
                compacted.retained_first = is_chosen(1);
            }
            MarkBody::Rewound { has_summary, of_fork, .. } => (*has_summary, *of_fork) = (is_chosen(0), is_chosen(1)),
            body @ MarkBody::Pinned { .. } if is_chosen(2) => {
                if let MarkBody::Pinned { target } = *body {
                    *body = MarkBody::Erased { ranges: vec![range(target, target + 1)] };
                }
            }
            MarkBody::Pruned { compaction, .. } => *compaction = next.filter(|_| is_chosen(0)).unwrap_or(*compaction),
            MarkBody::Words { stance, .. } => *stance = None,
            MarkBody::Edited { .. } | MarkBody::Pinned { .. } | MarkBody::Undone { .. } | MarkBody::Erased { .. } => {}
        }
    }
    marks
}

fn apply(change: &LayoutChange, layout: &mut Layout) {
    change.spans.iter().for_each(|splice| splice.apply(&mut layout.spans));
    change.omitted.iter().for_each(|splice| splice.apply(&mut layout.omitted));
    change.pinned.iter().for_each(|splice| splice.apply(&mut layout.pinned));
    change.undone_prunes.iter().for_each(|splice| splice.apply(&mut layout.undone_prunes));
    if let Some(covered) = &change.covered {
        layout.covered.clone_from(covered);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_message_is_accounted_for(steps in oracle::steps()) {
        let oracle = Oracle::play(&steps);
        for at in 0..=oracle.revision {
            let layout = layout_at(&oracle.marks, at);
            prop_assert_eq!(oracle.shown_by(&layout, at), oracle.view(at), "what is shown at {}", at);
            oracle.check_accounts(&layout, at)?;
        }
    }

    #[test]
    fn a_summary_may_be_committed_exactly_when_the_layout_would_show_it(steps in oracle::steps()) {
        let oracle = Oracle::play(&steps);
        for (applied, mark) in &oracle.attempts {
            let marks: Vec<Mark> = oracle.marks.iter().filter(|other| other.revision < mark.revision).cloned().collect();
            let before = layout_at(&marks, mark.revision);
            let shown = layout_at(&[marks, vec![mark.clone()]].concat(), mark.revision);
            let would_show = shown.covered.map(|covered| covered.mark) == Some(mark.revision);
            let MarkBody::Compacted(compacted) = &mark.body else { unreachable!("attempts are compactions") };
            let base = layout_at(&oracle.marks, compacted.base);
            let same_ground = before.covered.map(|covered| covered.mark) == base.covered.map(|covered| covered.mark);
            prop_assert_eq!(*applied, would_show && same_ground);
        }
    }

    #[test]
    fn undoing_the_newest_compaction_gives_the_layout_before_it(steps in oracle::steps(), prune in any::<bool>()) {
        let mut oracle = Oracle::play(&steps);
        let before = layout_at(&oracle.marks, oracle.revision);
        let made = if prune { Some(oracle.prune()) } else { oracle.compact(2) };
        if let Some(made) = made {
            prop_assert_eq!(newest_change(&oracle.marks, made).map(|found| found.target), Some(made));
            let mut after = layout_at(&[oracle.marks, vec![undo(made + 1, made)]].concat(), made + 1);
            if prune {
                prop_assert_eq!(after.undone_prunes.pop(), Some(made));
            }
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn undone_to_the_start_everything_is_as_it_was_written_and_redone_as_it_was_changed(steps in oracle::steps()) {
        let mut oracle = Oracle::play(&steps);
        let mut layouts = vec![layout_at(&oracle.marks, oracle.revision)];
        while let Some(found) = newest_change(&oracle.marks, oracle.revision) {
            oracle.reverse(found.target);
            layouts.push(layout_at(&oracle.marks, oracle.revision));
        }
        let whole = layouts.pop().expect("one at least");
        prop_assert_eq!(oracle.shown_by(&whole, oracle.revision), oracle.written());
        for before in layouts.iter().rev() {
            let Redo::Possible(found) = newest_undone(&oracle.marks, oracle.revision) else {
                return Err(TestCaseError::fail("what was taken back can be brought back"));
            };
            oracle.reverse(found.target);
            prop_assert_eq!(&layout_at(&oracle.marks, oracle.revision), before);
        }
        for before in layouts.iter().skip(1) {
            let found = newest_change(&oracle.marks, oracle.revision).expect("what was brought back is in force");
            oracle.reverse(found.target);
            prop_assert_eq!(&layout_at(&oracle.marks, oracle.revision).spans, &before.spans);
        }
    }

    #[test]
    fn marks_added_one_by_one_give_what_all_of_them_give(steps in oracle::steps(), variety in any::<u64>()) {
        let all = varied(Oracle::play(&steps).marks, variety);
        let mut marks = Marks::default();
        let mut layout = Layout::everything();
        for (index, mark) in all.iter().enumerate() {
            let change = marks.add(mark.clone());
            apply(&change, &mut layout);
            let derived = Marks::new(all[..=index].to_vec());
            prop_assert_eq!(marks.layout(), derived.layout(), "after {:?}", &all[..=index]);
            prop_assert_eq!(&layout, derived.layout(), "by {:?}", change);
            prop_assert_eq!(&marks.state, &derived.state);
            prop_assert_eq!(marks.newest_change(), derived.newest_change());
            prop_assert_eq!(marks.newest_undone(), derived.newest_undone());
            let summaries = |marks: &Marks| all.iter().map(|mark| marks.is_active(mark.revision)).collect::<Vec<_>>();
            prop_assert_eq!(summaries(&marks), summaries(&derived));
        }
    }

    #[test]
    fn a_layout_depends_on_nothing_later(marks in any_marks(), at in 0_i64..60) {
        let earlier: Vec<Mark> = marks.iter().filter(|mark| mark.revision <= at).cloned().collect();
        prop_assert_eq!(layout_at(&marks, at), layout_at(&earlier, Revision::MAX));
        prop_assert_eq!(newest_change(&marks, at), newest_change(&earlier, Revision::MAX));
        prop_assert_eq!(newest_undone(&marks, at), newest_undone(&earlier, Revision::MAX));
    }

    #[test]
    fn any_marks_give_an_ordered_open_layout(marks in any_marks()) {
        let mut added = Marks::default();
        marks.iter().for_each(|mark| drop(added.add(mark.clone())));
        let layout = layout_at(&marks, 100);
        let open = layout.spans.iter().filter(|span| matches!(span, Span::Inline { last: None, .. })).count();
        prop_assert_eq!(open, 1);
        let last_is_open = matches!(layout.spans.last(), Some(Span::Inline { last: None, .. }));
        prop_assert!(last_is_open);
        let mut next = Revision::MIN;
        for span in &layout.spans {
            if let Span::Inline { first, last } = span {
                prop_assert!(next <= *first && last.is_none_or(|last| *first <= last));
                next = last.map_or(Revision::MAX, |last| last + 1);
            }
        }
    }
}

#[test]
fn an_omission_that_edits_divide_is_listed_once() {
    let marks = [left_out(20, range(5, 15)), edited(22, 10, 21), edited(24, 10, 23), taken_out(25, 7)];
    let mut grown = Marks::default();
    for (index, mark) in marks.iter().enumerate() {
        grown.add(mark.clone());
        assert_eq!(grown.layout(), Marks::new(marks[..=index].to_vec()).layout(), "behind mark {}", mark.revision);
    }
}

/// A replacement is covered in the position of its target, and named by its own revision.
#[test]
fn an_erased_replacement_ends_the_summary_that_covers_it() {
    let erased = mark(16, MarkBody::Erased { ranges: vec![range(7, 7)] });
    let marks = [edited(8, 2, 7), compacted(12, 8, &[range(1, 1), range(7, 7)], 3), erased];
    let mut grown = Marks::default();
    marks.iter().for_each(|mark| drop(grown.add(mark.clone())));
    let covered = |marks: &Marks| marks.layout().covered.clone();
    assert_eq!((covered(&grown), covered(&Marks::new(marks.to_vec()))), (None, None));
    assert!(covered(&Marks::new(marks[..2].to_vec())).is_some());
}
