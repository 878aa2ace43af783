use super::summary::previous;
use super::*;
use crate::model::compaction::RevisionRange;
use crate::model::layout::{Layout, OmitReason, OmittedHistory};
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::policy::{dsl, samples};

#[test]
fn a_history_is_as_long_as_what_it_says() {
    let policy = samples::policy("qwen-code@0.24");
    let steps = policy.auto.iter().flat_map(|level_policy| &level_policy.steps);
    let rule = steps.filter_map(|step| if let PolicyStep::Summarize(rule) = step { Some(rule) } else { None }).next();
    let rule = rule.expect("it summarizes");
    assert_eq!(rule.minimum_messages, 2);
    let (window, layout) = (ModelWindow { context: 100_000, ..ModelWindow::default() }, Layout::everything());
    for (text, expected) in [
        ("a1 \"x\"", false),
        ("u1 \"\"\na2 \"x\"", false),
        ("u1 \"y\"\na2 \"\"", false),
        ("u1 \"y\"\na2 \"x\"", true),
        ("u1 \"y\"\na2 \"\"\na3 \"x\"", true),
    ] {
        let sources = dsl::parse(text);
        let planning = PlanningInput {
            policy: &policy,
            window: &window,
            layout: &layout,
            sources: &sources,
            covered: &[],
            base: 9,
            now: Timestamp(0),
        };
        assert_eq!(planned_summary(planning, rule).is_some(), expected, "{text}");
    }
}

#[test]
fn the_words_of_a_summary_are_not_those_that_it_carries_along() {
    let policy = samples::policy("qwen-code@0.24");
    let sources = dsl::parse("u1 \"y\"\na2 \"x\"\nu3 \"z\"");
    let boundary = Boundary { tail_start: 3, retained: &[], retained_first: false };
    let carried = [PartBody::Text("a file".to_owned())];
    let after = with_summary(&policy, &Layout::everything(), &sources, &boundary, "the words", &carried);
    assert_eq!(shown_summary(&after).as_deref(), Some("the words"));
    assert_eq!(previous(&after).as_deref(), Some("the words\n\na file"));
    // Nor does the next writer read what was recorded beside it: that is of then.
    let words =
        "the words\n\n# Record of what happened\n- `make`: failed\n- edited: a\n\n<read-files>\na\n</read-files>";
    let beside = ["# Record of what happened\n- `make`: failed", "# What people said\n- go on", "a file"];
    let beside = beside.map(|text| PartBody::Text(text.to_owned()));
    let after = with_summary(&policy, &Layout::everything(), &sources, &boundary, words, &beside);
    assert_eq!(previous(&after).as_deref(), Some("the words\n\n<read-files>\na\n</read-files>\n\na file"));
    // What a writer begins with the same words is its own, and so is what stands behind a blank line.
    let words = "# What people said\n- go on\n\n# Record of what happened\n\n- a plan";
    let after = with_summary(&policy, &Layout::everything(), &sources, &boundary, words, &[]);
    assert_eq!(previous(&after).as_deref(), Some("# What people said\n- go on\n\n- a plan"));
}

#[test]
fn ranges_of_omitted_messages_are_disjoint_and_spare_an_edit_whose_own_revision_lies_between_them() {
    let sources = dsl::parse("u edit=8 at=11 \"in place of 8\"\na at=10 \"x\"\nu at=13 \"y\"");
    let layout = Layout {
        omitted: vec![OmittedHistory {
            range: RevisionRange { first: 8, last: 8 },
            mark: 12,
            reason: OmitReason::Edited,
        }],
        ..Layout::everything()
    };
    for (omitted, expected) in [(vec![10, 11, 13], vec![(10, 13)]), (vec![10, 13], vec![(10, 10), (12, 13)])] {
        let removals = Removals { omitted: omitted.clone(), ..Removals::default() };
        let ranges = omitted_ranges(&layout, &sources, &removals);
        let ranges: Vec<_> = ranges.iter().map(|range| (range.first, range.last)).collect();
        assert_eq!(ranges, expected, "{omitted:?}");
    }
}
