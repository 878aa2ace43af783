use super::*;
use crate::dsl;
use proptest::prelude::*;

/// The shown texts of a message after a change, and the changed message if there was a change.
fn after(source: &SourceMessage, change: impl FnOnce(&mut Texts<'_>)) -> (Vec<String>, Option<SourceMessage>) {
    let policy = crate::policy("suna@2025-07");
    let mut texts = Texts::from_source(&policy, source);
    change(&mut texts);
    let changed = texts.changed(source);
    let source = changed.as_ref().unwrap_or(source);
    (Texts::from_source(&policy, source).shown().map(str::to_owned).collect(), changed)
}

fn message(text: &str) -> SourceMessage {
    dsl::parse(text).remove(0)
}

#[test]
fn the_beginning_stays_whatever_parts_it_is_in() {
    let source =
        message("a1 \"日本語\"\n  reasoning \"hm\"\n  tool bash#c1 in={\"a\":1} out=\"output\" done\n  text \"more\"");
    for (units, expected) in [
        (13, ["日本語", "output", "more"]),
        (12, ["日本語", "output", "mor~"]),
        (9, ["日本語", "output", "~"]),
        (8, ["日本語", "outpu~", ""]),
        (3, ["日本語", "~", ""]),
        (2, ["日本~", "~", ""]),
        (0, ["~", "~", ""]),
    ] {
        let (shown, changed) = after(&source, |texts| texts.keep_head(units, "~"));
        assert_eq!(shown, expected, "{units}");
        assert_eq!(changed.is_some(), units < 13);
        assert_eq!(source.message.parts, changed.unwrap_or_else(|| source.clone()).message.parts);
    }
}

#[test]
fn both_ends_stay_whatever_parts_they_are_in() {
    let source = message("u1 \"abcdef\"\n  text \"ghi\"\n  text \"jklmno\"");
    for (ends, expected) in [
        ([2, 2], ["ab…", "", "no~"]),
        ([7, 6], ["abcdef", "g…", "jklmno~"]),
        ([0, 7], ["…", "i", "jklmno~"]),
        ([6, 0], ["abcdef", "…", "~"]),
    ] {
        assert_eq!(
            after(&source, |texts| texts.keep_both_ends(ends, "…", "~")).0.concat(),
            expected.concat(),
            "{ends:?}"
        );
    }
    let (shown, _) = after(&message("u1 \"日本語日本語\""), |texts| texts.keep_both_ends([1, 2], "…", "~"));
    assert_eq!(shown, ["日…本語~"]);
}

#[test]
fn text_replaces_everything() {
    let source = message("u1 \"look\"\n  media image/png\n  text \"here\"");
    let (shown, changed) = after(&source, |texts| texts.replace("[gone]"));
    assert_eq!(shown, ["[gone]", ""]);
    let changed = changed.expect("a change");
    assert_eq!(changed.pruned.len(), 3, "the image is gone, too");
    assert_eq!(after(&changed, |texts| texts.replace("[gone]")).1, None, "it says so already");
    let (_, media) = after(&message("u1\n  media image/png"), |texts| texts.replace("[gone]"));
    assert_eq!(media.expect("a change").pruned[0].truncation, Some(Truncation::placeholder("[gone]")));
}

#[test]
fn a_second_truncation_starts_from_what_is_shown() {
    let source = message("u1 \"0123456789\"");
    let (_, once) = after(&source, |texts| texts.keep_head(6, "~"));
    let (shown, twice) = after(&once.expect("a change"), |texts| texts.keep_head(3, "~"));
    let twice = twice.expect("a change");
    assert_eq!(
        (shown.concat(), twice.pruned[0].truncation.as_ref().map(|truncation| truncation.head)),
        ("012~".to_owned(), Some(3))
    );
    // Text before the kept beginning is not the beginning of the original: the shown text is kept as a placeholder.
    let mut worded = source.clone();
    let truncation = Truncation { before: "[cut] ".to_owned(), head: 8, ..Truncation::default() };
    worded.pruned.push(PrunedPart {
        part: source.message.parts[0].id,
        compaction: dsl::PRUNED_BY,
        truncation: Some(truncation),
    });
    assert_eq!(after(&worded, |texts| texts.keep_head(8, "~")).0, ["[cut] 01~"]);
    assert_eq!(after(&worded, |texts| texts.keep_both_ends([7, 1], "…", "~")).0, ["[cut] 0…7~"]);
}

proptest! {
    #[test]
    fn every_text_can_be_truncated(
        texts in proptest::collection::vec("\\PC{0,12}", 1..4),
        (head, tail) in (0_usize..30, 0_usize..30),
        first in 0_usize..20,
        last in 0_usize..20,
    ) {
        let mut source = message("u1 \"x\"\n  text \"x\"\n  text \"x\"");
        source.message.parts.truncate(texts.len());
        for (part, text) in source.message.parts.iter_mut().zip(&texts) {
            part.body = PartBody::Text(text.clone()).into();
        }
        let truncation = Truncation { head, middle: "|".to_owned(), tail, ..Truncation::default() };
        source.pruned.push(PrunedPart { part: source.message.parts[0].id, compaction: dsl::PRUNED_BY, truncation: Some(truncation) });
        let before: String = after(&source, |_| {}).0.concat();
        let units = before.chars().count();
        let expected = |kept: String, all: bool| if all { before.clone() } else { kept };
        let (shown, _) = after(&source, |texts| texts.keep_head(first, "~"));
        let kept: String = before.chars().take(first).chain(['~']).collect();
        prop_assert_eq!(shown.concat(), expected(kept, units <= first));
        if first + last < units {
            let (shown, _) = after(&source, |texts| texts.keep_both_ends([first, last], "…", "~"));
            let front = before.chars().take(first);
            let kept: String = front.chain(['…']).chain(before.chars().skip(units - last)).chain(['~']).collect();
            prop_assert_eq!(shown.concat(), kept);
        }
    }
}
