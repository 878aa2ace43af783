use super::*;
use crate::dsl;
use crate::model::ids::CompactionId;
use crate::model::truncation::Truncation;
use crate::policy::{PolicyStep, plan, tokens};
use uuid::Uuid;

fn rule(policy: &Policy) -> PerRole {
    let mut steps = policy.auto.iter().flat_map(|level_policy| &level_policy.steps);
    steps
        .find_map(|step| match step {
            PolicyStep::Omit(omission) => omission.parameters::<PerRole>().cloned(),
            PolicyStep::Prune(_) | PolicyStep::Summarize(_) => None,
        })
        .expect("the preset truncates by role")
}

/// One message for each text; the letter before the text is the role.
fn messages(texts: &[(char, String)]) -> Vec<SourceMessage> {
    let line = |(index, (role, text)): (usize, &(char, String))| {
        format!("{role}{index} {}", serde_json::to_string(text).expect("a text is JSON"))
    };
    dsl::parse(&texts.iter().enumerate().map(line).collect::<Vec<_>>().join("\n"))
}

/// The shown text of each message after the truncations.
fn shown(policy: &Policy, rule: &PerRole, context: i64, messages: &[SourceMessage]) -> Vec<String> {
    let window = ModelWindow { context, output: Some(4_096), ..ModelWindow::default() };
    let removals = removals(rule, policy, &window, messages);
    assert!(removals.omitted.is_empty());
    let after = plan::with_removals(messages, &removals, CompactionId(Uuid::nil()));
    after.iter().map(|source| Texts::from_source(policy, source).shown().collect::<String>()).collect()
}

#[test]
fn twelve_messages_of_four_thousand_words() {
    // The recorded vector: at 2 048 tokens all messages are truncated but the newest of each role.
    let policy = crate::policy("suna@2025-07");
    let text =
        |index: usize| (if index.is_multiple_of(2) { 'u' } else { 'a' }, format!("{index} {}", "word ".repeat(4_000)));
    let texts: Vec<(char, String)> = (0..12).map(text).collect();
    let lengths: Vec<usize> =
        shown(&policy, &rule(&policy), 0, &messages(&texts)).iter().map(|text| text.chars().count()).collect();
    // The note has 72 characters with an id of two, as recorded; ids have 36 characters here.
    assert_eq!(lengths, [vec![6_144 + 72 - 2 + 36; 10], vec![20_003; 2]].concat());
}

#[test]
fn json_is_truncated_from_its_whole_in_each_round_and_left_whole_after_the_last() {
    let mut policy = crate::policy("suna@2025-07");
    let rule = rule(&policy);
    let json = |words: usize| ('u', format!("{{\"tool_execution\": {{\"result\": \"{}\"}}}}", "word ".repeat(words)));
    let filler = ('u', "word ".repeat(3_000));
    let last = [('u', json(1).1), ('a', "ok".to_owned())];
    let limit = |policy: &mut Policy, tokens| {
        let level_policy = policy.auto.as_mut().expect("a level");
        level_policy.threshold.limit = crate::policy::Limit::Tokens(tokens);
    };
    let texts = messages(&[vec![json(700), json(1_500), filler], last.to_vec()].concat());
    // At 1 024 tokens, with the text before truncated to 6 144 characters at 2 048.
    limit(&mut policy, 2_300);
    let lengths: Vec<usize> = shown(&policy, &rule, 0, &texts).iter().map(String::len).collect();
    assert_eq!(lengths[..3], [texts_len(&texts[0]), 3_072 + 106, 3_072 + 106], "JSON under the measure is whole");
    limit(&mut policy, 100);
    let lengths: Vec<usize> = shown(&policy, &rule, 0, &texts).iter().map(String::len).collect();
    assert_eq!(lengths[..3], [texts_len(&texts[0]), texts_len(&texts[1]), 384 + 106]);
    let once = PerRole { json_starts_over: false, ..rule };
    let lengths: Vec<usize> = shown(&policy, &once, 0, &texts).iter().map(String::len).collect();
    assert_eq!(lengths[..3], [384 + 106; 3]);
}

fn texts_len(source: &SourceMessage) -> usize {
    Texts::from_source(&crate::policy("suna@2025-07"), source).length()
}

#[test]
fn results_are_known_by_what_is_in_them() {
    let policy = crate::policy("suna@2025-07");
    let signs = rule(&policy).results;
    for (text, expected) in [
        ("a ToolResult(…)", true),
        (r#"{"tool_execution": {}}"#, true),
        (r#" {"tool_execution": 1}"#, true),
        (r#"{"a": {"tool_execution": 1}}"#, false),
        (r#"{"a": "interactive_elements"}"#, true),
        (r#"["interactive_elements"]"#, false),
        ("interactive_elements tool_execution", false),
        (r#"{"tool_execution": "#, false),
        ("", false),
    ] {
        let messages = messages(&[('a', text.to_owned())]);
        assert_eq!(signs.are_in(&Texts::from_source(&policy, &messages[0])), expected, "{text}");
        assert!(!ResultSigns::default().are_in(&Texts::from_source(&policy, &messages[0])));
    }
}

#[test]
fn what_is_not_short_becomes_a_note_when_it_is_old() {
    // A target of 600 tokens. Three thousand characters of Chinese are more than 500 tokens, those of the Latin text
    // are not: the Latin text only loses its end.
    let policy = crate::policy("suna@2026");
    let rule = rule(&policy);
    let mut texts = vec![('u', "会话".repeat(1_600)), ('u', "internationalization ".repeat(200))];
    texts.extend((0..9).map(|_| ('u', "short".to_owned())));
    texts.extend([('u', "会话".repeat(1_600)), ('a', "done".to_owned())]);
    let shown = shown(&policy, &rule, 9_000, &messages(&texts));
    assert_eq!(
        shown[0],
        "[Content compressed]\n\nmessage_id \"msg_00000000000000010000000000000001\"\nUse expand-message tool to see contents"
    );
    assert_eq!((shown[1].len(), shown[1].ends_with("... (truncated)")), (3_015, true));
    // One of the last ten: its middle is left out, down to twice as many characters as the target has tokens.
    assert_eq!(shown[11].chars().count(), 1_200 - 33);
    assert!(shown[11].contains("\n\n... (middle truncated) ...\n\n"));
}

#[test]
fn a_tier_is_left_out_when_the_rest_fits() {
    let policy = crate::policy("suna@2026");
    let rule = rule(&policy);
    let mut texts = vec![('u', "word ".repeat(1_000)), ('a', "word ".repeat(1_000))];
    texts.extend((0..10).flat_map(|_| [('u', "short".to_owned()), ('a', "short".to_owned())]));
    let messages = messages(&texts);
    let lengths = |context| {
        let shown = shown(&policy, &rule, context, &messages);
        [shown[0].len(), shown[1].len()]
    };
    let total = tokens::estimate_sources(&policy, &messages);
    // For windows below 100 000 tokens the target is 60 % of the window without 8 000 tokens.
    let context = |goal: i64| 8_000 + (goal as f64 / 0.6).ceil() as i64;
    assert_eq!(lengths(context(total)), [5_000, 5_000]);
    assert_eq!(lengths(context(total - 1)), [3_015, 5_000]);
    assert_eq!(lengths(context(total - 500)), [3_015, 3_015]);
}

#[test]
fn nothing_is_truncated_without_a_known_window() {
    let policy = crate::policy("suna@2026");
    let rule = rule(&policy);
    let messages = messages(&[('u', "word ".repeat(9_000)), ('a', "done".to_owned())]);
    assert_eq!(removals(&rule, &policy, &ModelWindow::default(), &messages), Removals::default());
    let open = dsl::parse("u1 \"x\"\na2 90000c open");
    let window = ModelWindow { context: 8_001, ..ModelWindow::default() };
    assert_eq!(removals(&rule, &policy, &window, &open), Removals::default());
    let sealed = dsl::parse("u1 \"x\"\na2 90000c");
    let removals = removals(&rule, &policy, &window, &sealed);
    assert_eq!(removals.parts.len(), 1);
    assert_ne!(removals.parts[0].1, Truncation::default());
}
