use super::*;
use crate::dsl;
use crate::policy::Limit;

/// Compares the names of the omitted messages under a limit of tokens.
fn check(batch: u32, minimum: u32, tokens: i64, text: &str, expected: &str) {
    let mut policy = crate::policy("suna@2025-07");
    policy.auto.as_mut().expect("a level").threshold.limit = Limit::Tokens(tokens);
    let messages = dsl::parse(text);
    let rule = Groups { target_ratio: 1.0, batch, minimum };
    let window = ModelWindow { context: 1_000_000, ..ModelWindow::default() };
    let removals = removals(&rule, &policy, &window, &messages);
    let gone = messages.iter().filter(|source| removals.omitted.contains(&source.message.revision));
    assert_eq!(gone.map(dsl::name).collect::<Vec<_>>().join(" "), expected);
}

/// Messages with the text `x`; all are requests but the last, which is a reply.
fn list(count: usize) -> String {
    let line = |index| if index == count { format!("a{index} \"x\"") } else { format!("u{index} \"x\"") };
    (1..=count).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn thirty_messages_of_three_thousand_words() {
    // The recorded vector: of 30 messages of 3 000 words the system message and the last ten stay.
    let policy = crate::policy("suna@2025-07");
    let words = serde_json::to_string(&"word ".repeat(3_000)).expect("a text is JSON");
    let role = |index: usize| if index.is_multiple_of(2) { 'u' } else { 'a' };
    let lines = (1..=30).map(|index| format!("{}{index} {words}", role(index - 1)));
    let text = std::iter::once("s0 \"You are a helper.\"".to_owned()).chain(lines).collect::<Vec<_>>().join("\n");
    let messages = dsl::parse(&text);
    let rule = Groups { target_ratio: 1.0, batch: 10, minimum: 10 };
    let removals = removals(&rule, &policy, &ModelWindow::default(), &messages);
    assert_eq!(removals.omitted, (2..=21).collect::<Vec<_>>());
}

#[test]
fn the_middle_goes_while_there_are_many_and_then_the_beginning() {
    check(2, 1, 0, &list(5), "u1 u2 u3 u4");
    check(2, 2, 0, &list(5), "u1 u2 u3");
    check(2, 3, 0, &list(5), "u2 u3");
    check(3, 0, 0, &list(7), "u1 u2 u3 u4 u5 u6");
    check(2, 5, 0, &list(5), "");
    check(2, 1, 200, &list(5), "");
}

#[test]
fn what_is_unfinished_stays_and_ends_it() {
    check(2, 0, 0, "u1 \"x\"\na2 \"x\"\nu3 \"x\"", "u1 a2");
    check(3, 0, 0, "u1 \"x\"\nu2 \"x\"\nu3 \"x\"", "");
    check(9, 0, 0, "u1 \"x\"\na2 \"x\"\nu3 \"x\"\na4 open \"x\"\nu5 \"x\"\nu6 \"x\"", "u1 a2");
    check(1, 0, 0, "s1 \"x\"\nu2 \"x\"\na3 \"x\"\nu4 \"x\"", "u2 a3");
}

#[test]
fn a_call_and_its_results_go_together() {
    let text =
        "u1 \"x\"\na2\n  call bash#c1 in={}\nu3 \"x\"\nt4\n  result c1 out=\"x\" done\na5 \"x\"\nu6 \"x\"\na7 \"x\"";
    check(2, 3, 0, text, "a2 u3 t4 a5");
}
