use crate::dsl;
use crate::model::usage::ModelWindow;
use crate::policy::omission::removals;
use crate::policy::{plan, tokens};
use crate::qwen_agent::items::tests::limited;

const RECORDED: &str = "s0 \"sys\"\nu1 \"u1\"\na1 \"a1\"\nt1 \"t1\"\nu2 \"u2\"\na2 \"a2\"\nt2 \"t2\"";

fn check(text: &str, limit: i64, expected: &str) {
    let messages = dsl::parse(text);
    let (policy, rule) = limited(crate::policy("joyagent"), limit);
    let removals = removals(&rule, &policy, &ModelWindow::default(), &messages);
    let left = messages.iter().filter(|source| !removals.omitted.contains(&source.message.revision));
    assert_eq!(left.map(dsl::name).collect::<Vec<_>>().join(" "), expected, "{limit}");
}

#[test]
fn estimates_include_the_envelope() {
    let policy = crate::policy("joyagent");
    let messages = dsl::parse(RECORDED);
    let each: Vec<i64> = messages.iter().map(|source| tokens::estimate_source(&policy, source)).collect();
    assert_eq!(each, [13, 10, 15, 10, 10, 15, 10]);
    assert_eq!(plan::view(&policy, &messages).estimated_tokens, 85);
}

#[test]
fn what_fits_stays_from_a_request_on() {
    check(RECORDED, 100, "s0 u1 a1 t1 u2 a2 t2");
    check(RECORDED, 60, "s0 u2 a2 t2");
    check(RECORDED, 50, "s0 u2 a2 t2");
    check(RECORDED, 83, "s0 u1 a1 t1 u2 a2 t2");
    check(RECORDED, 82, "s0 u2 a2 t2");
    // Replies before the first request are never kept.
    check("s0 \"s\"\na1 \"x\"\nu2 \"y\"\na3 \"z\"", 100, "s0 u2 a3");
}

#[test]
fn the_last_request_and_what_follows_it_stay_when_they_do_not_fit() {
    for limit in [40, 35, 20, 0] {
        check(RECORDED, limit, "s0 u2 a2 t2");
    }
    check("a1 \"x\"\na2 \"y\"", 3, "a1 a2");
}

#[test]
fn a_call_does_not_part_from_its_result() {
    let late = "u1 \"x\"\na2\n  call f#c in={}\nu3 \"y\"\nt4\n  result c out=\"ok\" done\na5 \"z\"";
    check(late, 60, "u1 a2 u3 t4 a5");
}
