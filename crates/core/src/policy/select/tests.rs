use super::boundaries::{is_reply, safe_boundaries};
use super::*;
use crate::model::message::Role;
use crate::model::part::PartBody;
use crate::policy::calls::Calls;
use crate::policy::tokens::RangeEstimate;
use crate::policy::{PolicyStep, dsl, samples};
use proptest::prelude::*;

/// A line of a generated conversation. The lines of two writers come in any order.
#[derive(Debug, Clone)]
enum Line {
    Request(u16),
    Reply { length: u16, calls: u8, fails: bool },
    OpenReply,
    Result { call: u8, length: u16 },
    Instructions,
}

fn line() -> impl Strategy<Value = Line> {
    prop_oneof![
        3 => (0_u16..4000).prop_map(Line::Request),
        5 => (0_u16..4000, 0_u8..3, prop::bool::weighted(0.1))
            .prop_map(|(length, calls, fails)| Line::Reply { length, calls, fails }),
        1 => Just(Line::OpenReply),
        5 => (0_u8..6, 0_u16..4000).prop_map(|(call, length)| Line::Result { call, length }),
        1 => Just(Line::Instructions),
    ]
}

/// The conversation: results answer one of the latest calls, and some calls are never answered.
fn conversation(lines: &[Line]) -> Vec<SourceMessage> {
    let mut text = String::new();
    let mut open: Vec<String> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        match line {
            Line::Request(length) => text.push_str(&format!("u{index} {length}c\n")),
            Line::Reply { length, calls, fails } => {
                let finish = if *fails { " finish=error" } else { "" };
                text.push_str(&format!("a{index} {length}c{finish}\n"));
                for call in 0..*calls {
                    open.push(format!("c{index}-{call}"));
                    text.push_str(&format!("  call bash#c{index}-{call}\n"));
                }
            }
            Line::OpenReply => text.push_str(&format!("a{index} \"…\" open\n")),
            Line::Result { call, length } => {
                let position = open.len().checked_sub(1 + *call as usize);
                let call_id = position.map_or("none".to_owned(), |position| open.remove(position));
                text.push_str(&format!("t{index}\n  result {call_id} out={length}c done\n"));
            }
            Line::Instructions => text.push_str(&format!("s{index} 40c\n")),
        }
    }
    dsl::parse(&text)
}

fn tail_of(policy: &Policy) -> &Tail {
    match policy.auto.as_ref().and_then(|level_policy| level_policy.steps.last()) {
        Some(PolicyStep::Summarize(rule)) => &rule.tail,
        other => panic!("{other:?} is no summary"),
    }
}

fn policies() -> Vec<Policy> {
    let small = r#"{"auto":{"steps":{"0":{"summarize":{"tail":{"recent":{"keep_tokens":1500}}}}}}}"#;
    let none = r#"{"auto":{"steps":{"0":{"summarize":{"tail":{"turns":{"turns":0}}}}}}}"#;
    vec![
        samples::policy("opencode@seed"),
        samples::policy("opencode@seed").with_overrides(none).expect("valid"),
        samples::policy("opencode@1.18"),
        samples::policy("pi@1.5"),
        samples::policy("pi@1.5").with_overrides(small).expect("valid"),
        samples::policy("pi@0.73").with_overrides(small).expect("valid"),
        samples::policy("claude-code@seed"),
        samples::policy("codex@2026-08"),
    ]
}

/// The faults of a selection that are faults under every policy.
fn faults(messages: &[SourceMessage], selection: Selection) -> Vec<String> {
    let (head, tail) = messages.split_at(selection.head_end);
    let mut faults = Vec::new();
    for source in head {
        if source.message.sealed_revision.is_none() {
            faults.push(format!("{} is open", dsl::name(source)));
        }
        for part in &source.message.parts {
            if let PartBody::ToolCall(call) = &*part.body {
                if has_result(tail, &call.call_id) {
                    faults.push(format!("{} is parted from its result", call.call_id));
                }
                let replied = messages.iter().rposition(|later| later.message.role == Role::Assistant);
                let is_last = replied.is_some_and(|last| messages[last].message.id == source.message.id);
                if is_last && !has_result(head, &call.call_id) {
                    faults.push(format!("{} still runs", call.call_id));
                }
            }
        }
    }
    let is_unanswered = !head.is_empty() && !head.iter().chain(tail).any(|source| is_reply(&source.message));
    let replies_behind = |index: usize| messages[index..].iter().any(|source| is_reply(&source.message));
    let unread = (0..selection.head_end).filter(|&index| !replies_behind(index));
    faults.extend(unread.map(|index| format!("{} has no reply", dsl::name(&messages[index]))));
    if is_unanswered {
        faults.push("nothing was ever answered".to_owned());
    }
    if let Some(start) = selection.split_turn_start {
        let is_front = start < selection.head_end && starts_turn(&messages[start].message);
        let is_one_turn = !messages[start + 1..=selection.head_end].iter().any(|source| starts_turn(&source.message));
        if !is_front || !is_one_turn {
            faults.push(format!("{} does not start the split turn", dsl::name(&messages[start])));
        }
    }
    faults
}

fn has_result(messages: &[SourceMessage], call_id: &str) -> bool {
    let bodies = messages.iter().flat_map(|source| &source.message.parts).map(|part| &*part.body);
    bodies.into_iter().any(|body| matches!(body, PartBody::ToolResult(result) if result.call_id == call_id))
}

proptest! {
    #[test]
    fn no_boundary_does_harm(lines in prop::collection::vec(line(), 0..40), context in 0_i64..60_000) {
        let messages = conversation(&lines);
        let window = ModelWindow { context, output: Some(2_000), ..ModelWindow::default() };
        for policy in policies() {
            let selection = select(&policy, tail_of(&policy), &window, &messages);
            let faults = faults(&messages, selection.clone());
            prop_assert!(faults.is_empty(), "{}: {selection:?} {faults:?}", policy.preset);
        }
    }

    #[test]
    fn a_whole_conversation_of_finished_turns_obeys_its_budget(lengths in prop::collection::vec(1_u16..8000, 1..20)) {
        let pair = |(index, length): (usize, &u16)| format!("u{index} {length}c\na{index} {length}c\n");
        let messages = dsl::parse(&lengths.iter().enumerate().map(pair).collect::<String>());
        let policy = samples::policy("opencode@seed");
        let window = ModelWindow { context: 40_000, output: Some(20_000), ..ModelWindow::default() };
        let selection = select(&policy, tail_of(&policy), &window, &messages);
        let tail = RangeEstimate::from_messages(&policy, &messages).tokens(selection.head_end..messages.len());
        prop_assert!(tail <= 5_000 && selection.head_end > 0, "{selection:?} leaves {tail}");
    }
}

#[test]
fn a_result_in_the_same_message_parts_from_nothing() {
    let messages = dsl::parse("u1 \"x\"\na2\n  tool bash#c1 out=4c done\nu3 \"x\"\na4 \"y\"");
    assert_eq!(safe_boundaries(&Calls::from_messages(&messages), messages.len()), [true; 5]);
    assert_eq!(answered_calls(&Calls::from_messages(&messages)).collect::<Vec<_>>(), [(1, 1)]);
}

#[test]
fn a_call_id_that_is_used_twice_belongs_to_the_nearest_call() {
    let text = "a0\n  call bash#c\nt1\n  result c out=\"1\" done\na2\n  call bash#c\nt3\n  result c out=\"2\" done";
    let messages = dsl::parse(text);
    assert_eq!(answered_calls(&Calls::from_messages(&messages)).collect::<Vec<_>>(), [(0, 1), (2, 3)]);
    assert_eq!(safe_boundaries(&Calls::from_messages(&messages), 4), [true, false, true, false, true]);
}

#[test]
fn a_step_of_several_messages_runs_as_a_whole() {
    let text = "u0 \"x\"\na1 \"y\"\nu2 \"x\"\na3\n  call bash#c1\na4\n  call bash#c2";
    let messages = dsl::parse(text);
    assert_eq!(SafeBoundaries::from_messages(&messages).last, 3);
    // With a result in between, the model has replied again, and the first call is abandoned.
    let messages = dsl::parse(&format!("{}\n  tool bash#c3 out=4c done\na5 \"z\"", &text[..text.len() - 17]));
    assert_eq!(SafeBoundaries::from_messages(&messages).last, 5);
}
