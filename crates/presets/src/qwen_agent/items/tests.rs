use super::*;
use crate::dsl;
use crate::model::ids::CompactionId;
use crate::model::usage::ModelWindow;
use crate::policy::omission::removals;
use crate::policy::{Limit, Omission, PolicyStep, plan};
use uuid::Uuid;

/// A conversation in short: `U5 C F100 A5` is a request of five words, a call, its result of a hundred words and a
/// reply of five. `S1` is a system message of one word, `I20` a request of twenty words with an image.
pub(crate) fn conversation(short: &str) -> Vec<SourceMessage> {
    let mut text = String::new();
    for (index, word) in short.split_whitespace().enumerate() {
        let (kind, count) = word.split_at(1);
        let words = vec!["a"; count.parse().unwrap_or(0)].join(" ");
        text.push_str(&match kind {
            "S" => format!("s{index} \"{words}\"\n"),
            "U" => format!("u{index} \"{words}\"\n"),
            "I" => format!("u{index} \"{words}\"\n  media image/png\n"),
            "A" => format!("a{index} \"{words}\"\n"),
            "C" => format!("a{index}\n  call f#c{index} in={{}}\n"),
            "F" => format!("t{index}\n  result c{} out=\"{words}\" done\n", index - 1),
            "O" => format!("a{index} open\n  text \"{words}\"\n"),
            _ => panic!("{word}"),
        });
    }
    dsl::parse(&text)
}

/// A conversation in short, with `omit` for texts that were replaced by the placeholder.
pub(crate) fn in_short(policy: &Policy, messages: &[SourceMessage]) -> String {
    let items = Items::from_messages(policy, messages);
    let words: Vec<String> = items.list.iter().map(|item| word(&items, item)).collect();
    words.join(" ")
}

fn word(items: &Items<'_>, item: &Item) -> String {
    let kind = match item.kind {
        Kind::Request => "U",
        Kind::Reply => "A",
        Kind::Call => "C",
        Kind::Result => "F",
    };
    let source = &items.messages[item.message];
    let parts = item.parts.iter().map(|&part| &source.message.parts[part]);
    let shown: Vec<Cow<'_, str>> =
        parts.filter(|part| text_of(&part.body).is_some()).map(|part| items.shown(source, part)).collect();
    let is_truncated = |&part: &usize| source.pruned_part(source.message.parts[part].id).is_some();
    match (item.kind, shown.concat().as_str()) {
        (Kind::Call, _) if !item.parts.iter().any(is_truncated) => kind.to_owned(),
        (Kind::Call, _) => "C{}".to_owned(),
        (_, "omit") => format!("{kind}omit"),
        _ => format!("{kind}{}", item.tokens),
    }
}

/// A policy of Qwen-Agent with another limit, and its truncation strategy.
pub(crate) fn limited(mut policy: Policy, tokens: i64) -> (Policy, Omission) {
    let level_policy = policy.auto.as_mut().expect("a level");
    level_policy.threshold.limit = Limit::Tokens(tokens);
    let Some(PolicyStep::Omit(rule)) = level_policy.steps.first().cloned() else { panic!("an omission") };
    (policy, rule)
}

/// The messages that a policy leaves under a limit.
pub(crate) fn shortened(policy: Policy, tokens: i64, messages: &[SourceMessage]) -> Vec<SourceMessage> {
    shortened_beside(policy, tokens, 0, messages)
}

/// The same with an overhead of the window.
pub(crate) fn shortened_beside(
    policy: Policy,
    tokens: i64,
    overhead: i64,
    messages: &[SourceMessage],
) -> Vec<SourceMessage> {
    let (policy, rule) = limited(policy, tokens);
    let window = ModelWindow { overhead, ..ModelWindow::default() };
    let removals = removals(&rule, &policy, &window, messages);
    let again = plan::with_removals(messages, &removals, CompactionId(Uuid::nil()));
    assert_eq!(in_short(&policy, &again), in_short(&policy, &again), "the same twice");
    again
}

fn shown_texts(policy: &Policy, messages: &[SourceMessage]) -> Vec<String> {
    let view = plan::view(policy, messages);
    let parts = view.messages.into_iter().flat_map(|message| message.parts);
    parts
        .filter_map(|part| match &*part.body {
            PartBody::Text(text) => Some(text.clone()),
            PartBody::ToolResult(result) => Some(result.output.clone()),
            _ => None,
        })
        .collect()
}

/// Applies one treatment to the only item of a message and compares the shown texts.
fn check(message: &str, treatment: Treatment, expected: &[&str]) {
    let policy = crate::policy("qwen-agent@0.0.34");
    let messages = dsl::parse(&format!("{message}\na9 \"x\""));
    let items = Items::from_messages(&policy, &messages);
    let mut treatments = vec![Treatment::Stays; items.list.len()];
    treatments[0] = treatment;
    let removals = items.removals(&treatments);
    let messages = plan::with_removals(&messages, &removals, CompactionId(Uuid::nil()));
    let mut texts = shown_texts(&policy, &messages);
    texts.pop();
    assert_eq!(texts, expected, "{message} {treatment:?}");
}

#[test]
fn a_text_is_truncated_to_tokens_of_both_ends_or_of_the_beginning() {
    let letters = "u1 \"a b c d e f g h i j\"";
    check(letters, Treatment::BothSides(5), &["a b... i j"]);
    check(letters, Treatment::BothSides(4), &["a... i j"]);
    check(letters, Treatment::BothSides(1), &["a"]);
    check(letters, Treatment::BothSides(10), &["a b c d e f g h i j"]);
    check(letters, Treatment::BothSides(0), &["omit"]);
    check(letters, Treatment::Beginning(5), &["a b c d e"]);
    check(letters, Treatment::Placeholder, &["omit"]);
}

#[test]
fn several_texts_count_as_one_with_line_breaks_between_them() {
    let letters = "u1 \"a b c d\"\n  text \"e f g h\"\n  text \"i j\"";
    check(letters, Treatment::BothSides(7), &["a b c...", "i j"]);
    check(letters, Treatment::BothSides(9), &["a b c d", "... h", "i j"]);
    check(letters, Treatment::BothSides(3), &["a...", " j"]);
    check(letters, Treatment::Beginning(6), &["a b c d", "e"]);
    check(letters, Treatment::Placeholder, &["omit"]);
}

#[test]
fn a_truncation_never_leaves_half_a_character() {
    // Each of these characters is three tokens.
    check("u1 \"𓀀𓀁𓀂𓀃\"", Treatment::Beginning(4), &["𓀀"]);
    check("u1 \"𓀀𓀁𓀂𓀃\"", Treatment::BothSides(6), &["...𓀃"]);
    check("u1 \"𓀀𓀁𓀂𓀃\"", Treatment::Beginning(1), &["omit"]);
}

#[test]
fn a_text_in_another_normal_form_is_truncated_in_its_composed_one() {
    let decomposed = "u1 \"e\u{301} e\u{301} e\u{301} e\u{301}\"";
    check(decomposed, Treatment::Beginning(2), &["\u{e9} \u{e9}"]);
}

#[test]
fn a_second_truncation_is_measured_against_the_original() {
    let letters = "abcdefghij";
    let truncation = |before: &str, head, middle: &str, tail| Truncation {
        before: before.into(),
        head,
        middle: middle.into(),
        tail,
        after: String::new(),
    };
    for (old, head, tail, expected) in [
        (None, 2, 1, truncation("", 2, "|", 1)),
        (Some(truncation("", 3, "...", 3)), 2, 1, truncation("", 2, "|", 1)),
        (Some(truncation("", 3, "...", 3)), 4, 1, truncation("abc.|j", 0, "", 0)),
        (Some(truncation("<", 3, "...", 3)), 2, 1, truncation("<a|j", 0, "", 0)),
        (Some(truncation("", 9, "...", 9)), 9, 1, truncation("", 9, "|", 1)),
        (Some(truncation("", 9, "...", 9)), 9, 2, truncation("abcdefghi|.j", 0, "", 0)),
    ] {
        let shown = old.as_ref().map_or(letters.to_owned(), |truncation| truncation.apply(letters));
        let again = truncated_again(letters, old.clone(), &shown, (head, "|", tail));
        assert_eq!(again, expected, "{old:?}");
        assert_eq!(again.apply(letters), [&shown[..head], "|", &shown[shown.len() - tail..]].concat());
    }
}

#[test]
fn only_whole_messages_that_are_answered_are_left_out() {
    let policy = crate::policy("qwen-agent@0.0.34");
    for (short, going, expected) in [
        ("U5 A5 U5 A5", &[0, 1][..], "U5 A5"),
        // The last request stays, and so do messages without a reply.
        ("U5 A5 U5 A5", &[2, 3], "U5 A5 Uomit"),
        ("U5 A5 U5", &[0, 2], "A5 Uomit"),
        ("U5 C F5", &[1, 2], "U5 C Fomit"),
        // A call stays with its result.
        ("U5 C F5 A5", &[1], "U5 C F5 A5"),
        ("U5 C F5 A5", &[2], "U5 C Fomit A5"),
        ("U5 C F5 A5", &[1, 2], "U5 A5"),
        // An open message stays whole.
        ("U5 O5", &[1], "U5 A5"),
    ] {
        let messages = conversation(short);
        let items = Items::from_messages(&policy, &messages);
        let treatments: Vec<Treatment> = (0..items.list.len())
            .map(|item| if going.contains(&item) { Treatment::Goes } else { Treatment::Stays })
            .collect();
        let removals = items.removals(&treatments);
        let left = plan::with_removals(&messages, &removals, CompactionId(Uuid::nil()));
        assert_eq!(in_short(&policy, &left), expected, "{short} without {going:?}");
    }
}

#[test]
fn a_call_keeps_an_input_and_one_that_runs_keeps_its_own() {
    let policy = crate::policy("qwen-agent@0.0.34");
    for (text, expected) in [
        ("u1 \"x\"\na2\n  call f#c in={\"a\": 1}\nt3\n  result c out=\"ok\" done\na4 \"y\"", "{}"),
        ("u1 \"x\"\na2\n  call f#c in={\"a\": 1}", "{\"a\": 1}"),
        ("u1 \"x\"\na2\n  call f#c in={\"a\": 1}\nu3 \"x\"\na4 \"y\"", "{}"),
        // A call beside it may run.
        ("u1 \"x\"\na2\n  call f#c in={\"a\": 1}\n  call f#d\nt3\n  result c out=\"ok\" done", "{}"),
        ("u1 \"x\"\na2\n  call f#c in={\"a\": 1}\n  call f#d\nt3\n  result d out=\"ok\" done", "{\"a\": 1}"),
    ] {
        let messages = dsl::parse(text);
        let items = Items::from_messages(&policy, &messages);
        let mut treatments = vec![Treatment::Stays; items.list.len()];
        treatments[1] = Treatment::BothSides(3);
        let removals = items.removals(&treatments);
        let view = plan::view(&policy, &plan::with_removals(&messages, &removals, CompactionId(Uuid::nil())));
        let PartBody::ToolCall(call) = &*view.messages[1].parts[0].body else { panic!("a call") };
        assert_eq!(call.input_json, expected);
    }
}
