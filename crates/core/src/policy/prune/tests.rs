use super::*;
use crate::model::ids::PartId;
use crate::model::message::{FinishReason, Role};
use crate::model::part::PartBody;
use crate::model::truncation::Truncation;
use crate::policy::OfWindow;
use crate::policy::PartsAsWritten;
use crate::policy::tokens::count;
use crate::policy::{Count, FailedOutputs, Hint, Keep, Placeholder, Walk, dsl, plan, samples};

use proptest::prelude::*;
use std::sync::Arc;

/// One turn: outputs with their length in tokens, each of a protected tool or not.
fn turn(number: usize, outputs: &[(u16, bool)]) -> String {
    let mut text = format!("u{number} \"x\"\na{number}\n");
    for (index, (tokens, is_protected)) in outputs.iter().enumerate() {
        let tool = if *is_protected { "skill" } else { "bash" };
        text.push_str(&format!("  tool {tool}#c{number}-{index} out={tokens}t done\n"));
    }
    text
}

/// A prune of all outputs that the model has read, with this placeholder.
fn outputs(text: &str) -> Prune {
    Prune { replacement: Replacement::text(text), ..Prune::default() }
}

fn small_policy() -> Policy {
    let overrides = r#"{"maintenance":{"0":{"prune":{"keep":{"tokens":400},"minimum_tokens":201}}}}"#;
    samples::policy("opencode@seed").with_overrides(overrides).expect("valid")
}

fn select(policy: &Policy, messages: &[SourceMessage]) -> PrunePlan {
    let Some(PolicyStep::Prune(prune)) = policy.maintenance.first() else { panic!("a prune") };
    super::select(policy, prune, &ModelWindow::default(), Timestamp(0), messages)
}

fn apply(messages: &mut Vec<SourceMessage>, plan: &PrunePlan) {
    *messages = plan::with_removals(messages, &plan.removals, dsl::PRUNED_BY);
}

proptest! {
    #[test]
    fn what_is_protected_stays_and_a_second_prune_finds_nothing(
        turns in prop::collection::vec(prop::collection::vec((0_u16..300, prop::bool::weighted(0.2)), 0..4), 0..12)
    ) {
        let policy = small_policy();
        let text: String = turns.iter().enumerate().map(|(number, outputs)| turn(number, outputs)).collect();
        let mut messages = dsl::parse(&text);
        let plan = select(&policy, &messages);
        let names = dsl::part_names(&messages);
        let mut kept = 0_i64;
        for (number, outputs) in turns.iter().enumerate() {
            for (index, (tokens, is_protected)) in outputs.iter().enumerate() {
                let is_pruned = plan.removals.parts.iter().any(|(id, _)| names[id] == format!("c{number}-{index}:result"));
                prop_assert!(!is_pruned || (!is_protected && number + 2 < turns.len()));
                if !is_pruned && !is_protected && number + 2 < turns.len() {
                    kept += i64::from(*tokens);
                }
            }
        }
        prop_assert!(plan.removals.is_empty() || (plan.freed_tokens > 200 && kept <= 400));
        apply(&mut messages, &plan);
        prop_assert!(plan.removals.is_empty() || select(&policy, &messages) == PrunePlan::default());
    }
}

#[test]
fn what_is_old_enough_is_cleared() {
    let messages = dsl::parse("a1\n  tool bash#c1 out=90000t done\nu2 \"x\"\nu3 \"x\"");
    assert_eq!(select(&samples::policy("opencode@seed"), &messages).freed_tokens, 90_000);
}

/// Neovate keeps of an output what its models see; OpenCode keeps all of it, and shows less. Counts that were stored with
/// the messages say the same.
#[test]
fn a_truncated_output_is_estimated_by_what_its_agent_keeps() {
    let output = "alpha beta gamma delta ".repeat(10_000);
    let mut text = String::new();
    for number in 1..=5 {
        text.push_str(&format!("u{number} \"x\"\na{number}\n  tool bash#c{number} out=\"{output}\" done\n"));
    }
    let whole = dsl::parse(&format!("{text}a6 \"read\"\nu7 \"x\"\na7 \"y\"\nu8 \"x\"\na8 \"y\"\n"));
    for (preset, pruned) in [("neovate@2026", 0), ("neovate@2026-fixed", 0), ("opencode@seed", 5)] {
        let policy = samples::policy(preset);
        let steps = policy.maintenance.iter().chain(policy.levels().flat_map(|(_, level)| &level.steps));
        let prune =
            steps.filter_map(|step| if let PolicyStep::Prune(prune) = step { Some(prune) } else { None }).next();
        let prune = Prune { minimum_tokens: 15_000, ..prune.expect("a prune").clone() };
        let counted = whole.iter().cloned().map(|mut source| {
            let bodies: Vec<&PartBody> = source.message.parts.iter().map(|part| &*part.body).collect();
            source.counts = Some(Arc::new(count(&policy, source.message.role, &bodies)));
            source
        });
        for messages in [whole.clone(), counted.collect()] {
            let plan = super::select(&policy, &prune, &ModelWindow::default(), Timestamp(0), &messages);
            assert_eq!(plan.removals.parts.len(), pruned, "{preset}: {} tokens", plan.freed_tokens);
        }
    }
}

#[test]
fn a_rule_without_protection_clears_the_newest_output_too() {
    let overrides = r#"{"maintenance":{"0":{"prune":{"keep":{"tokens":0,"turns":0},"minimum_tokens":0}}}}"#;
    let policy = samples::policy("opencode@seed").with_overrides(overrides).expect("valid");
    let messages = dsl::parse("u1 \"x\"\na1\n  tool bash#c1 out=1t done");
    assert_eq!(select(&policy, &messages).freed_tokens, 1);
}

/// The names of the parts that a rule clears, with their replacements.
fn cleared(rule: &Prune, now: i64, text: &str) -> Vec<(String, String)> {
    let messages = dsl::parse(text);
    let policy = samples::policy("opencode@seed");
    let plan = super::select(&policy, rule, &ModelWindow::default(), Timestamp(now), &messages);
    let names = dsl::part_names(&messages);
    let parts: Vec<_> = messages.iter().flat_map(|source| &source.message.parts).collect();
    let shown = |(id, truncation): &(PartId, Truncation)| {
        let part = parts.iter().find(|part| part.id == *id).expect("a part of the conversation");
        let text = match &*part.body {
            PartBody::ToolResult(result) => &result.output,
            PartBody::ToolCall(call) => &call.input_json,
            PartBody::Reasoning(text) => text,
            _ => "",
        };
        (names.get(id).cloned().unwrap_or_default(), truncation.apply(text))
    };
    plan.removals.parts.iter().map(shown).collect()
}

fn grows(words: &str) -> Prune {
    Prune { only_if_shorter: false, ..outputs(words) }
}

#[test]
fn the_placeholder_says_what_was_cleared() {
    let text = r#"a1
  tool Read#c1 in={"offset": 3, "path": "src/{tool}.ts"} out="\n  {lines} first  \nsecond\n" done"#;
    for (words, expected) in [
        ("{tool}|{target}|{lines}|{length}|{first}", "Read|src/{tool}.ts|3|26|{lines} first"),
        ("{time} {message}", "1970-01-01T00:00:01.000Z msg_00000000000000010000000000000001"),
        ("{part}", "prt_00000000000000020000000000000002"),
        ("{unknown} {", "{unknown} {"),
        ("{}}{tool", "{}}{tool"),
    ] {
        assert_eq!(cleared(&grows(words), 1_000_000, text), [("c1:result".to_owned(), expected.to_owned())], "{words}");
    }
    let orphan = "t1\n  result c1 out=\"x\" done";
    assert_eq!(cleared(&grows("{tool} of {target}"), 0, orphan)[0].1, "unknown tool of unnamed input");
    let hint = |tools: &[&str], text: &str| Hint {
        tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
        text: text.to_owned(),
    };
    for (hints, expected) in [
        (vec![hint(&["Grep"], "grep"), hint(&["Read"], "use {tool}"), hint(&[], "any")], "(use Read)"),
        (vec![hint(&["Grep"], "grep"), hint(&[], "{hint}")], "({hint})"),
        (vec![], "()"),
    ] {
        let replacement = Replacement::Placeholder(Placeholder { text: "({hint})".to_owned(), hints });
        assert_eq!(cleared(&Prune { replacement, ..grows("") }, 0, text)[0].1, expected);
    }
}

#[test]
fn a_target_is_one_line_of_bearable_length() {
    let long = "é".repeat(200);
    let text = format!("a1\n  tool bash#c1 in={{\"command\": \"\\n {long}\\nmore\"}} out=\"x\" done");
    assert_eq!(cleared(&grows("{target}"), 0, &text)[0].1, format!("{}…", "é".repeat(128)));
}

#[test]
fn nothing_has_no_excerpt_and_keeps_its_media() {
    let agents = samples::policy("gemini-cli@0.26");
    let Some(PolicyStep::Prune(Prune { replacement, .. })) = agents.maintenance.into_iter().next() else {
        panic!("a prune")
    };
    let rule = Prune { replacement, ..Prune::default() };
    let outputs = |words: &str| format!("a1\n  tool x#c1 out={words} media=image/png done\na2 \"done\"");
    assert_eq!(cleared(&rule, 0, &outputs("\"\"")), []);
    let shown = cleared(&rule, 0, &outputs("900c"));
    assert_eq!(shown.len(), 1);
    assert!(shown[0].1.contains("[prt_00000000000000020000000000000002]"), "{shown:?}");
}

#[test]
fn an_output_of_media_alone_is_cleared_where_its_agent_counts_them() {
    let outputs = |tool: &str, first: &str| {
        let others = (2..=6).map(|number| format!("  tool {tool}#c{number} out=9t media=image/png done\n"));
        format!("a1\n  tool {tool}#c1 out={first} done\n{}a2 \"done\"", others.collect::<String>())
    };
    let [early, late] =
        [samples::policy("qwen-code@0.15"), samples::policy("qwen-code@0.24")].map(|policy| policy.maintenance);
    for (step, tool, first, is_cleared) in [
        (&late[0], "read_file", "9t", true),
        (&late[0], "read_file", "\"\" media=image/png", true),
        (&late[0], "read_file", "\"\"", false),
        // Media beside outputs that stay.
        (&late[2], "agent", "9t media=image/png", true),
        (&late[2], "agent", "\"\" media=image/png", true),
        (&early[0], "read_file", "9t", true),
        (&early[0], "read_file", "\"\" media=image/png", false),
    ] {
        let PolicyStep::Prune(rule) = step else { panic!("a clearing") };
        let names: Vec<String> =
            cleared(rule, i64::MAX / 4, &outputs(tool, first)).into_iter().map(|(name, _)| name).collect();
        let expected: &[&str] = if is_cleared { &["c1:result"] } else { &[] };
        assert_eq!(names, expected, "{tool} {first} {:?}", rule.target);
    }
}

#[test]
fn failures_may_be_among_what_is_kept_and_what_says_nothing_may_be_passed_over() {
    let text = "a1\n  tool x#c1 out=9t done\n  tool x#c2 out=\"\" done\n  tool x#c3 out=9t error\n  \
                tool x#c4 out=9t done\na2 \"done\"";
    for (failed_outputs, skip_empty, expected) in [
        (FailedOutputs::Count, false, "c2 c1"),
        (FailedOutputs::Count, true, "c1"),
        (FailedOutputs::Skip, false, "c1"),
        (FailedOutputs::Skip, true, ""),
        (FailedOutputs::Prune, false, "c2 c1"),
    ] {
        let keep = Keep { parts: Count::Fixed(2), ..Keep::default() };
        let rule = Prune { keep, failed_outputs, skip_empty, only_if_shorter: false, ..outputs("gone") };
        let names: Vec<String> = cleared(&rule, 0, text).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.join(" ").replace(":result", ""), expected, "{failed_outputs:?} {skip_empty}");
    }
}

#[test]
fn the_last_messages_are_those_that_a_view_shows() {
    let rounds =
        "u1 \"x\"\na2\n  call bash#c1\nt3\n  result c1 out=9t done\na4\n  call bash#c2\nt5\n  result c2 out=9t done\n";
    for (last, kept, expected) in
        [("a6 \"done\"", 1, 2), ("a6 \"done\"", 2, 1), ("a6 \"\"", 1, 1), ("a6 \"\"", 2, 1), ("a6 \"\"", 3, 0)]
    {
        let keep = Keep { messages: kept, ..Keep::default() };
        let rule = Prune { keep, only_if_shorter: false, ..outputs("gone") };
        assert_eq!(cleared(&rule, 0, &format!("{rounds}{last}")).len(), expected, "{last}, {kept}");
    }
}

#[test]
fn where_lengths_decide_a_part_without_words_stays_and_is_not_counted() {
    let text = "a1\n  tool x#c1 out=\"\" media=image/png done\n  tool x#c2 out=90c done\n  \
                tool x#c3 out=\"\" media=image/png done\n  tool x#c4 out=90c done\na2 \"done\"";
    let keep = Keep { parts: Count::Fixed(1), ..Keep::default() };
    let rule = Prune { keep, condition: Condition::Length { above_units: 90, down_to_units: 0 }, ..outputs("gone") };
    assert_eq!(cleared(&rule, 0, text), [("c2:result".to_owned(), "gone".to_owned())]);
}

#[test]
fn a_condition_says_whether_and_how_much() {
    let outputs: String = (1..=6).map(|n| format!("u{n} \"x\"\na{n}\n  tool bash#c{n} out=100c done\n")).collect();
    // The replies were written in the first microseconds.
    let hour = 3_600_000_000;
    let idle = Condition::Idle { seconds: 3_600 };
    let units = |above_units, down_to_units| Condition::Length { above_units, down_to_units };
    let parts = |above| Condition::Parts { above: Count::Fixed(above) };
    for (condition, keep, now, expected) in [
        (Condition::Always, 5, 0, "c1"),
        (idle.clone(), 4, hour + 11, ""),
        (idle, 4, hour + 12, "c2 c1"),
        (units(600, 0), 0, 0, ""),
        (units(599, 600), 0, 0, ""),
        (units(599, 300), 0, 0, "c3 c2 c1"),
        (units(599, 301), 0, 0, "c3 c2 c1"),
        (units(599, 299), 0, 0, "c4 c3 c2 c1"),
        (units(599, 0), 4, 0, "c2 c1"),
        (parts(6), 4, 0, ""),
        (parts(5), 4, 0, "c2 c1"),
    ] {
        let name = format!("{condition:?} at {now}");
        let keep = Keep { parts: Count::Fixed(keep), ..Keep::default() };
        let rule = Prune { condition, keep, ..grows("[x]") };
        let names: Vec<String> = cleared(&rule, now, &outputs).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.join(" ").replace(":result", ""), expected, "{name}");
        let by_hand = cleared(&rule.by_hand(), 0, &outputs).len();
        assert!(by_hand >= names.len() && by_hand > 0, "{name}");
    }
}

#[test]
fn media_become_text_in_every_position() {
    let text = "u1 \"x\"\n  media image/png\na2\n  tool shot#c2 in={} out=\"seen\" media=image/webp done\n  \
                tool shot#c3 in={} out=\"\" media=image/gif done\na4 \"y\"";
    let rule = Prune { target: Target::Media, ..grows("[gone: {mime}]") };
    assert_eq!(cleared(&rule, 0, text), [(String::new(), "[gone: image/png]".to_owned())]);
    let rule = Prune { target: Target::Attachments, ..rule };
    let expected = [("c3:result", "[gone: image/gif]"), ("c2:result", "seen\n[gone: image/webp]")];
    let expected = expected.map(|(name, shown)| (name.to_owned(), shown.to_owned()));
    assert_eq!(cleared(&rule, 0, text), expected);
}

#[test]
fn a_number_can_follow_the_window() {
    let count = Count::OfWindow(OfWindow { context_tokens_each: 12_500, minimum: 10, maximum: 500 });
    for (context, expected) in [(0, 10), (-5, 10), (200_000, 16), (1_000_000, 80), (i64::MAX, 500)] {
        assert_eq!(count.in_window(&ModelWindow { context, ..ModelWindow::default() }), expected, "{context}");
    }
    let json = r#"{"context_tokens_each":12500,"minimum":10,"maximum":500}"#;
    assert_eq!(serde_json::from_str::<Count>(json).expect("a count"), count);
    assert_eq!(serde_json::from_str::<Count>("7").expect("a count"), Count::Fixed(7));
    assert!(serde_json::from_str::<Count>(r#"{"context_tokens_each":1,"minimum":1,"maximum":2,"more":3}"#).is_err());
}

/// Rules of every kind, with as little protection as possible.
fn rules() -> Vec<Prune> {
    let all = || Prune { failed_outputs: FailedOutputs::Prune, ..grows("{tool} {target} {first} {mime}") };
    vec![
        Prune { inputs: Some(Tools::All), ..all() },
        Prune { target: Target::Attachments, ..all() },
        Prune { target: Target::Reasoning, ..all() },
        Prune { target: Target::Media, ..all() },
        Prune {
            batch: Some(Count::Fixed(2)),
            walk: Walk::PartsAsWritten(PartsAsWritten { ends_at_pruned: false }),
            ..all()
        },
    ]
}

proptest! {
    #[test]
    fn what_nobody_has_read_and_what_is_open_stays(
        lines in prop::collection::vec((0_u8..7, 0_u16..200), 0..30)
    ) {
        let mut text = String::new();
        for (index, (kind, size)) in lines.iter().enumerate() {
            text.push_str(&match kind {
                0 => format!("u{index} {size}c\n  media image/png\n"),
                1 => format!("a{index} {size}c\n  reasoning \"{}\"\n", "r".repeat(usize::from(*size))),
                2 => format!("a{index}\n  call bash#c{index} in={{\"command\": \"{size}\"}}\n"),
                3 => format!("t{index}\n  result c{} out={size}c media=image/png done\n", index.saturating_sub(1)),
                4 => format!("a{index}\n  tool bash#c{index} in={{\"a\": {size}}} out={size}c error\n"),
                5 => format!("a{index} finish=error \"{size}\"\n"),
                _ => format!("a{index} open\n  tool bash#c{index} in={{}} out={size}c done\n"),
            });
        }
        let messages = dsl::parse(&text);
        let last_reply = messages.iter().rposition(|source| {
            let message = &source.message;
            message.role == Role::Assistant
                && message.sealed_revision.is_some()
                && message.finish.reason != Some(FinishReason::Error)
        });
        for rule in rules() {
            let policy = samples::policy("opencode@seed");
            let plan = super::select(&policy, &rule, &ModelWindow::default(), Timestamp(0), &messages);
            for (id, truncation) in &plan.removals.parts {
                let holds = |source: &&SourceMessage| source.message.parts.iter().any(|part| part.id == *id);
                let source = messages.iter().find(holds).expect("its message");
                let index = messages.iter().position(|other| other.message.id == source.message.id);
                prop_assert!(source.message.sealed_revision.is_some(), "{} is open", dsl::name(source));
                let speaks = messages.iter().any(|m| m.message.role == Role::Assistant);
                prop_assert!(!speaks || index <= last_reply, "{} is unread", dsl::name(source));
                let part = source.message.parts.iter().find(|part| part.id == *id).expect("the part");
                if let PartBody::ToolCall(_) = *part.body {
                    prop_assert!(serde_json::from_str::<serde_json::Value>(&truncation.apply("")).is_ok());
                }
            }
            let mut after = messages.clone();
            apply(&mut after, &plan);
            let again = super::select(&policy, &rule, &ModelWindow::default(), Timestamp(0), &after);
            prop_assert!(rule.batch.is_some() || again.removals.is_empty(), "{again:?}");
        }
    }
}
