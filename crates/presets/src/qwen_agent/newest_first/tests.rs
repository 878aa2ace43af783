use crate::dsl;
use crate::qwen_agent::items::tests::{conversation, in_short, shortened};

fn check(short: &str, limit: i64, expected: &str) {
    let policy = crate::policy("qwen-agent@old");
    let shortened = shortened(policy.clone(), limit, &conversation(short));
    assert_eq!(in_short(&policy, &shortened), expected, "{short} in {limit}");
}

#[test]
fn results_are_truncated_to_the_room_that_is_left_and_do_not_use_it_up() {
    let turn = "S1 U5 C F100 C F100 C F100 A5";
    check(turn, 311, "U5 C F100 C F100 C F100 A5");
    check(turn, 300, "U5 C F94 C F100 C F100 A5");
    check(turn, 200, "U5 C F94 C F94 C F100 A5");
    check(turn, 60, "U5 C F54 C F54 C F54 A5");
    check(turn, 10, "U4 C F4 C F4 C F4 A5");
}

#[test]
fn the_walk_ends_where_text_does_not_fit() {
    let turns = "U10 A50 U10 A50 U10";
    check(turns, 100, "U10 A50 U10");
    check(turns, 70, "U10 A50 U10");
    check(turns, 30, "U10");
    check("U50 U10 A5", 40, "U25 U10 A5");
    check("U50 A5 U10 A5", 20, "A5 U10 A5");
    check("I50 A5 U10 A5", 40, "A5 U10 A5");
}

#[test]
fn a_list_that_the_original_refuses_is_left_alone() {
    check("U10 A50 U10 A50 U10", 5, "U10 A50 U10 A50 U10");
    check("S10 U5 A5", 5, "U5 A5");
}

#[test]
fn the_last_request_stays_in_the_room_that_is_left() {
    check("U5 A5 U20 A50 C F10", 20, "U10 C F10");
    check("U5 A5 U20 A50 C F10 A5", 12, "U7 C F7 A5");
    check("U5 A5 U20 A50 C F10 A5", 5, "Uomit C F0 A5");
    check("U5 A5 U20 A50 C F10", 60, "Uomit A50 C F10");
}

#[test]
fn results_of_a_reply_keep_their_calls_where_the_walk_ends() {
    let policy = crate::policy("qwen-agent@old");
    let messages = dsl::parse(
        "u1 \"a a a\"\na2 \"a a\"\n  call f#c1\n  call f#c2\nt3\n  result c1 out=\"a a a a a\" done media=image/png\nt4\n  \
         result c2 out=\"a a\" done\na5 \"a\"\nu6 \"a\"",
    );
    let shortened = shortened(policy.clone(), 6, &messages);
    assert_eq!(in_short(&policy, &shortened), "C C Fomit F2 A1 U1");
}
