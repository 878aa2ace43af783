//! Sets of revisions as ranges.

use super::compaction::RevisionRange;

/// The ranges, sorted; ranges that share a revision are merged.
pub fn disjoint(ranges: Vec<RevisionRange>) -> Vec<RevisionRange> {
    merged(ranges, 0)
}

/// The ranges, sorted; ranges that share a revision or touch are merged.
pub fn union(ranges: Vec<RevisionRange>) -> Vec<RevisionRange> {
    merged(ranges, 1)
}

/// Merges ranges with fewer than `gap` revisions between them.
fn merged(mut ranges: Vec<RevisionRange>, gap: i64) -> Vec<RevisionRange> {
    ranges.sort_by_key(|range| (range.first, range.last));
    let mut merged: Vec<RevisionRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.first <= last.last.saturating_add(gap) => last.last = last.last.max(range.last),
            _ => merged.push(range),
        }
    }
    merged
}

/// The revisions of `ranges` that are not in `taken`; both are ascending and disjoint.
pub fn subtract(ranges: &[RevisionRange], taken: &[RevisionRange]) -> Vec<RevisionRange> {
    let mut left = Vec::new();
    for range in ranges {
        let mut first = range.first;
        let from = taken.partition_point(|taken| taken.last < range.first);
        for taken in taken[from..].iter().take_while(|taken| taken.first <= range.last) {
            if first < taken.first {
                left.push(RevisionRange { first, last: taken.first.saturating_sub(1) });
            }
            first = first.max(taken.last.saturating_add(1));
        }
        if first <= range.last {
            left.push(RevisionRange { first, last: range.last });
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(text: &str) -> Vec<RevisionRange> {
        let range = |word: &str| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            RevisionRange { first: first.parse().expect("a number"), last: last.parse().expect("a number") }
        };
        text.split_whitespace().map(range).collect()
    }

    #[test]
    fn ranges_are_merged_and_subtracted() {
        for (given, separate, together) in [
            ("", "", ""),
            ("4-6 1-2", "1-2 4-6", "1-2 4-6"),
            ("1-2 3", "1-2 3", "1-3"),
            ("10-13 11 13-14", "10-14", "10-14"),
        ] {
            assert_eq!(disjoint(ranges(given)), ranges(separate), "{given}");
            assert_eq!(union(ranges(given)), ranges(together), "{given}");
        }
        for (given, taken, left) in
            [("1-9", "", "1-9"), ("1-9", "1-9", ""), ("1-9", "3-4 9", "1-2 5-8"), ("1-3 5-9", "2-6", "1 7-9")]
        {
            assert_eq!(subtract(&ranges(given), &ranges(taken)), ranges(left), "{given} without {taken}");
        }
    }
}
