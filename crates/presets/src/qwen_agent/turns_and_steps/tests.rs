use crate::model::view::SourceMessage;
use crate::qwen_agent::items::tests::{conversation, in_short, shortened, shortened_beside};

fn check(short: &str, limit: i64, expected: &str) {
    let policy = crate::policy("qwen-agent@0.0.34");
    let shortened = shortened(policy.clone(), limit, &conversation(short));
    assert_eq!(in_short(&policy, &shortened), expected, "{short} in {limit}");
}

#[test]
fn one_turn_is_reduced_as_recorded() {
    let turn = "S1 U5 C F100 C F100 C F100 A5";
    check(turn, 344, "U5 C F100 C F100 C F100 A5");
    check(turn, 300, "U5 C F56 C F100 C F100 A5");
    check(turn, 200, "U5 C Fomit C F56 C F100 A5");
    check(turn, 150, "U5 C Fomit C F6 C F100 A5");
    check(turn, 120, "U5 C Fomit C Fomit C F76 A5");
    check(turn, 60, "U5 C Fomit C Fomit C F16 A5");
    check(turn, 40, "U5 C Fomit C Fomit A5");
    check(turn, 20, "U5 A5");
    check(turn, 10, "U4 A5");
    check(turn, 5, "Uomit A4");
}

#[test]
fn several_turns_are_reduced_as_recorded() {
    let turns = "U10 A50 U10 A50 U10";
    check(turns, 100, "Uomit A30 U10 A50 U10");
    check(turns, 70, "U10 A50 U10");
    check(turns, 30, "Uomit A20 U10");
    check(turns, 5, "U5");
}

#[test]
fn the_last_step_is_squeezed_when_nothing_else_is_left() {
    check("U5 C F100 C F100", 150, "U5 C F23 C F100");
    check("U5 C F100 C F100", 90, "U5 C F74");
    check("U5 C F100 C F100", 30, "U5 C F14");
    check("U5 C F100", 16, "U5 C Fomit");
    check("U5 C F100", 14, "U3 C Fomit");
}

#[test]
fn what_a_request_carries_beside_the_messages_takes_of_the_room() {
    let turns = conversation("U10 A50 U10 A50 U10");
    for policy in [crate::policy("qwen-agent@0.0.34"), crate::policy("qwen-agent@old")] {
        let of = |limit, overhead| in_short(&policy, &shortened_beside(policy.clone(), limit, overhead, &turns));
        assert_eq!(of(170, 100), of(70, 0));
        assert_ne!(of(170, 100), of(170, 0));
    }
}

#[test]
fn instructions_that_reach_the_limit_leave_nothing_to_decide() {
    check("S50 U5 A5", 50, "U5 A5");
    check("S50 U5 A5 U5 A5", 61, "Uomit A1 U5 A5");
}

#[test]
fn an_unanswered_request_is_truncated_like_any_other() {
    // The original fails in the first case, and drops the request in the second.
    check("U50 U10 A5", 40, "U25 U10 A5");
    check("U50 U10", 10, "Uomit U10");
}

#[test]
fn text_is_truncated_and_media_stay() {
    check("I50 A5 U5 A5", 63, "U48 A5 U5 A5");
}

#[test]
fn what_is_gone_already_frees_nothing_again() {
    let policy = crate::policy("qwen-agent@0.0.34");
    let first = shortened(policy.clone(), 120, &conversation("S1 U5 C F100 C F100 C F100 A5"));
    assert_eq!(in_short(&policy, &first), "U5 C Fomit C Fomit C F76 A5");
    let second = shortened(policy.clone(), 120, &first);
    assert_eq!(in_short(&policy, &second), "U5 C Fomit C Fomit C F74 A5");
    assert_eq!(shortened(policy.clone(), 120, &second), second);
}

#[test]
fn what_is_gone_frees_its_words_when_its_step_is_left_out() {
    let policy = crate::policy("qwen-agent@0.0.34");
    let whole = conversation("S1 U5 C F30 C F30 C F30 C F100");
    let estimate = |messages: &[SourceMessage]| crate::policy::tokens::estimate_sources(&policy, messages);
    let first = shortened(policy.clone(), estimate(&whole) - 90, &whole);
    assert_eq!(in_short(&policy, &first), "U5 C Fomit C Fomit C Fomit C F100");
    // A call and the word in place of its result.
    let step = estimate(&first[2..4]);
    let second = shortened(policy.clone(), estimate(&first) - step, &first);
    assert_eq!(in_short(&policy, &second), "U5 C Fomit C Fomit C F100");
}
