use proptest::prelude::*;
use std::collections::HashSet;

use super::*;
use crate::model::message::ReplacedMessage;
use crate::policy::{dsl, pairing, render, samples, select};

/// The pairs of results and calls: the names of their messages, and the input of the call.
fn answered(text: &str) -> Vec<String> {
    let messages = dsl::parse(text);
    let calls = Calls::from_messages(&messages);
    let pairs = calls.iter().filter_map(|called| {
        let answer = called.answer?;
        Some(format!("{} {} {}", dsl::name(answer.source), dsl::name(called.source), called.call.input_json))
    });
    pairs.collect()
}

#[test]
fn equal_ids_of_two_writers_are_not_mixed_up() {
    let text = "a1 by=one\n  call read#c0 in=1\na2 by=two\n  call read#c0 in=2\n\
                t3 by=one\n  result c0 out=\"x\" done\nt4 by=two\n  result c0 out=\"x\" done\n";
    assert_eq!(answered(text), ["t3 a1 1", "t4 a2 2"]);
}

#[test]
fn an_id_that_comes_again_is_of_the_nearest_call_and_in_one_message_of_the_first() {
    let again = "a1\n  call read#c0 in=1\nu2 \"stop\"\na3\n  call read#c0 in=3\nt4\n  result c0 out=\"x\" done\n";
    assert_eq!(answered(again), ["t4 a3 3"]);
    let twice = "a1\n  call read#c0 in=1\n  call read#c0 in=2\nt2\n  result c0 out=\"x\" done\nt3\n  result c0 out=\"x\" done\n";
    assert_eq!(answered(twice), ["t2 a1 1", "t3 a1 2"]);
}

#[test]
fn results_of_many_calls_answer_the_newest_message_first() {
    let count = 3 * SEARCHED_MAX;
    let made = |name: &str| -> String {
        (0..count).map(|call| format!("  call read#c{} in=\"{name}{call}\"\n", call / 2)).collect()
    };
    for order in [(0..count).collect::<Vec<_>>(), (0..count).rev().collect()] {
        let ids = order.iter().chain(&order).map(|call| call / 2);
        let results = ids.enumerate().map(|(at, id)| format!("t{at}\n  result c{id} out=\"x\" done\n"));
        let text = format!("a1\n{}a2\n{}{}", made("old"), made("new"), results.collect::<String>());
        // The first call of two with one id has the first result for the id.
        let position = |call: usize| {
            let positions = order.iter().enumerate().filter(|(_, other)| **other / 2 == call / 2);
            positions.map(|(at, _)| at).nth(call % 2).expect("a result")
        };
        let old = (0..count).map(|call| format!("t{} a1 \"old{call}\"", position(call) + count));
        let new = (0..count).map(|call| format!("t{} a2 \"new{call}\"", position(call)));
        assert_eq!(answered(&text), old.chain(new).collect::<Vec<_>>());
    }
}

#[test]
fn whoever_answers_for_others_takes_the_nearest_call_or_names_it() {
    let calls = "a1 by=one\n  call read#c0 in=1\na2 by=two\n  call read#c0 in=2\n";
    let unnamed = format!("{calls}t3 by=runner\n  result c0 out=\"x\" done\n");
    assert_eq!(answered(&unnamed), ["t3 a2 2"]);
    let named = format!(
        "{calls}t3 by=runner\n  result c0 out=\"x\" of=a1 done\nt4 by=runner\n  result c0 out=\"x\" of=a2 done\n"
    );
    assert_eq!(answered(&named), ["t3 a1 1", "t4 a2 2"]);
    // A writer with a call of its own with that id answers no call of others.
    let own = "a1 by=one\n  call read#c0 in=1\nt2 by=one\n  result c0 out=\"x\" done\na3 by=two\n  call read#c0 in=3\n\
               t4 by=one\n  result c0 out=\"again\" done\n";
    assert_eq!(answered(own), ["t2 a1 1"]);
}

#[test]
fn a_named_message_that_is_not_there_has_no_call() {
    let text = "a1\n  call read#c0 in=1\na2\n  call read#c0 in=2\nt3\n  result c0 out=\"x\" of=a1 done\n";
    let messages = dsl::parse(text);
    assert!(Calls::from_messages(&messages[1..]).iter().all(|called| called.answer.is_none()), "not the other one");
}

#[test]
fn an_edit_holds_the_calls_of_who_wrote_the_original() {
    let mut messages = dsl::parse(
        "a1 by=one\n  call read#c0 in=1\na2 by=two\n  call read#c0 in=2\nt3 by=one\n  result c0 out=\"x\" done\n\
         t4 by=runner\n  result c0 out=\"x\" of=a2 done\n",
    );
    for source in &mut messages[..2] {
        let replaced = ReplacedMessage { message: source.message.id, writer: source.message.actor.clone() };
        source.message.replaces = Some(replaced);
        source.message.actor = "editor".to_owned();
        source.message.id = MessageId(uuid::Uuid::from_u128(source.message.id.0.as_u128() + 1_000));
    }
    let calls = Calls::from_messages(&messages);
    let by: Vec<&str> = calls.iter().map(|called| dsl::name(called.answer.expect("answered").source)).collect();
    assert_eq!(by, ["t3", "t4"]);
}

#[test]
fn a_call_runs_until_its_own_writer_goes_on_or_anybody_after_a_request() {
    let check = |text: &str, running: Option<usize>| {
        let messages = dsl::parse(text);
        assert_eq!(Calls::from_messages(&messages).unfinished(&messages).running, running, "{text}");
    };
    let other = "a1 by=one\n  call read#c0 in=1\na2 by=two\n  tool read#c1 in=2 out=\"x\" done\na3 by=two \"so\"\n";
    check(other, Some(0));
    check(&format!("{other}u4 \"and now?\"\n"), Some(0));
    check(&format!("{other}u4 \"and now?\"\na5 by=two \"well\"\n"), None);
    check(&format!("{other}t4 by=one\n  result c0 out=\"x\" done\n"), None);
    let own = "a1 by=one\n  call read#c0 in=1\n  call read#c1 in=2\nt2 by=one\n  result c1 out=\"x\" done\n";
    check(own, Some(0));
    check(&format!("{own}a3 by=one \"so\"\n"), None);
}

/// An action of one of several agents.
#[derive(Debug, Clone)]
enum Action {
    /// A reply with this number of calls, whose ids start anew in each reply; a runner of its own answers some of them,
    /// with or without the name of the message; the others stay unanswered.
    Call { calls: usize, answers: usize, named: bool, together: bool },
    /// Text.
    Say,
}

fn act() -> impl Strategy<Value = Action> {
    let call = (1_usize..4, 0_usize..4, any::<bool>(), any::<bool>()).prop_map(|(calls, answers, named, together)| {
        Action::Call { calls, answers: answers.min(calls), named, together }
    });
    prop_oneof![4 => call, 1 => Just(Action::Say)]
}

/// The messages of one agent, as text; the first line of each has its name.
fn messages_of(agent: usize, acts: &[Action]) -> Vec<String> {
    let mut messages = Vec::new();
    for (turn, act) in acts.iter().enumerate() {
        let name = format!("a{agent}x{turn}");
        let Action::Call { calls, answers, named, together } = *act else {
            messages.push(format!("{name} by=agent{agent} \"words\"\n"));
            continue;
        };
        let made: String =
            (0..calls).map(|call| format!("  call read#c{call} in={{\"is\":\"{name}-{call}\"}}\n")).collect();
        messages.push(format!("{name} by=agent{agent}\n{made}"));
        // A writer that answers for an agent must name the message with the call.
        let (by, of) =
            if named { ("runner".to_owned(), format!(" of={name}")) } else { (format!("agent{agent}"), String::new()) };
        let results: Vec<String> =
            (0..answers).map(|call| format!("  result c{call} out=\"{name}-{call}\"{of} done\n")).collect();
        if together && !results.is_empty() {
            messages.push(format!("t{agent}x{turn} by={by}\n{}", results.concat()));
        } else {
            let each = results.iter().enumerate();
            messages.extend(each.map(|(call, result)| format!("t{agent}x{turn}x{call} by={by}\n{result}")));
        }
    }
    messages
}

/// Messages of several agents in one session, each in its own order.
fn interleaved() -> impl Strategy<Value = String> {
    let agents = prop::collection::vec(prop::collection::vec(act(), 1..5), 2..4);
    (agents, prop::collection::vec(0_usize..8, 80)).prop_map(|(agents, turns)| {
        let queues = agents.iter().enumerate().map(|(agent, acts)| messages_of(agent, acts).into_iter());
        let mut queues: Vec<_> = queues.collect();
        let count = queues.len();
        let mut text: String = turns.into_iter().filter_map(|turn| queues[turn % count].next()).collect();
        text.extend(queues.into_iter().flatten());
        text
    })
}

/// The subject of a call or a result, which its id does not contain.
fn subject(body: &PartBody) -> Option<String> {
    match body {
        PartBody::ToolCall(call) => {
            let input: serde_json::Value = serde_json::from_str(&call.input_json).ok()?;
            input["is"].as_str().map(str::to_owned)
        }
        PartBody::ToolResult(result) => Some(result.output.clone()),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_call_is_followed_by_its_own_result(text in interleaved()) {
        let policy = samples::policy("opencode@seed");
        let whole = dsl::parse(&text);
        for end in 0..=whole.len() {
            let messages = &whole[..end];
            let view = render::render(&policy, messages).messages;
            prop_assert_eq!(pairing::violations(&view), Vec::<String>::new());
            let bodies = messages.iter().flat_map(|source| &source.message.parts).map(|part| &*part.body);
            let mut unseen: HashSet<String> =
                bodies.filter(|body| matches!(body, PartBody::ToolResult(_))).filter_map(subject).collect();
            let mut asked: Vec<(String, String)> = Vec::new();
            for part in view.iter().flat_map(|message| &message.parts) {
                match &*part.body {
                    PartBody::ToolCall(call) => asked.push((call.call_id.clone(), subject(&part.body).expect("a subject"))),
                    PartBody::ToolResult(result) => {
                        let at = asked.iter().position(|(id, _)| *id == result.call_id).expect("its call is in front");
                        let (_, about) = asked.remove(at);
                        if part.source.is_some() {
                            prop_assert_eq!(&about, &result.output);
                            unseen.remove(&about);
                        } else {
                            prop_assert!(!unseen.contains(&about), "{} has a result", about);
                        }
                    }
                    _ => {}
                }
            }
            prop_assert!(unseen.is_empty(), "not shown as results: {:?}", unseen);
        }
    }

    #[test]
    fn no_boundary_parts_a_call_from_its_own_result(text in interleaved()) {
        let messages = dsl::parse(&text);
        let ends: Vec<usize> = select::groups(&messages).iter().map(|group| group.messages.end).collect();
        let about = |messages: &[SourceMessage], is_call: bool| -> HashSet<String> {
            let bodies = messages.iter().flat_map(|source| &source.message.parts).map(|part| &*part.body);
            bodies.filter(|body| matches!(body, PartBody::ToolCall(_)) == is_call).filter_map(subject).collect()
        };
        for end in ends {
            let (called, answered) = (about(&messages[..end], true), about(&messages[end..], false));
            prop_assert!(called.is_disjoint(&answered), "cut at {}: {:?}", end, called.intersection(&answered));
        }
        // No boundary is after an open call of an agent that has not continued.
        let running = Calls::from_messages(&messages).unfinished(&messages).running;
        prop_assert!(select::last_safe_boundary(&messages) <= running.unwrap_or(messages.len()));
    }
}
