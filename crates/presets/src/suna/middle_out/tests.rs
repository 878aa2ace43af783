use super::*;
use crate::dsl;

fn gone(max_messages: u32, minimum_groups: u32, text: &str) -> Vec<i64> {
    removals(&MiddleOut { max_messages, minimum_groups }, &dsl::parse(text)).omitted
}

fn list(count: usize) -> String {
    (1..=count)
        .map(|index| format!("{}{index} \"x\"", if index % 2 == 1 { 'u' } else { 'a' }))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn both_ends_of_a_long_list_stay() {
    assert!(gone(320, 4, &list(320)).is_empty());
    assert_eq!(gone(320, 4, &list(326)), (161..=166).collect::<Vec<_>>());
    assert_eq!(gone(5, 4, &list(11)), (3..=8).collect::<Vec<_>>(), "the recorded vector");
    assert_eq!(gone(2, 4, &list(5)), [3]);
    assert!(gone(2, 9, &list(5)).is_empty());
    assert_eq!(gone(1, 0, &list(4)), [1, 2, 3]);
    assert!(gone(0, 0, &list(0)).is_empty());
}

#[test]
fn a_call_and_its_results_are_one() {
    let step = |n: usize| format!("a{n}\n  call bash#c{n} in={{}}\nt{n}\n  result c{n} out=\"x\" done");
    let text =
        [vec!["u1 \"x\"".to_owned()], (2..8).map(step).collect(), vec!["a9 \"x\"".to_owned()]].concat().join("\n");
    // Fourteen messages in eight groups: room for eight messages is room for four groups.
    assert_eq!(gone(8, 0, &text), (4..=11).collect::<Vec<_>>());
}

#[test]
fn what_nobody_has_answered_stays() {
    assert_eq!(gone(2, 2, "u1 \"x\"\na2 \"x\"\na3 \"x\"\nu4 \"x\"\nu5 \"x\""), [2, 3]);
}
