use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::model::ids::{MessageId, PartId};
use crate::model::part::{Answers, Media, MediaSource, Opaque, ToolCall};
use crate::model::view::PartShortening;

const INTERRUPTED: &str = "interrupted";

fn call(call_id: &str) -> PartBody {
    PartBody::ToolCall(ToolCall { call_id: call_id.to_owned(), tool: "read".to_owned(), ..ToolCall::default() })
}

fn result(call_id: &str, output: &str, attachments: Vec<Media>) -> PartBody {
    let (call_id, output) = (call_id.to_owned(), output.to_owned());
    let status = ResultStatus::Completed;
    PartBody::ToolResult(ToolResult {
        call_id,
        status,
        output,
        attachments,
        start_time: None,
        end_time: None,
        answers: Answers::Nearest,
    })
}

fn media(name: &str) -> Media {
    let source = MediaSource::Uri(format!("file:{name}"));
    Media { mime_type: "image/png".to_owned(), name: name.to_owned(), source }
}

/// The messages with ids: message `n` has id and revision `n`, and its part `p` has the id `100 n + p`, from 1 on.
fn number(messages: Vec<(Role, Vec<PartBody>)>) -> Vec<ViewMessage> {
    let number_parts = |message: usize, bodies: Vec<PartBody>| {
        let parts = bodies.into_iter().enumerate().map(|(index, body)| {
            let source = Some(PartId(Uuid::from_u128((100 * message + index + 1) as u128)));
            ViewPart::new(source, body, None)
        });
        parts.collect()
    };
    let messages = messages.into_iter().enumerate().map(|(index, (role, bodies))| ViewMessage {
        source: Some(MessageId(Uuid::from_u128(index as u128 + 1))),
        revision: index as i64 + 1,
        role,
        kind: ViewKind::Shown,
        parts: number_parts(index + 1, bodies),
        original_fields: None,
        provenance: None,
    });
    messages.collect()
}

/// Messages in short: `a:hi +x +y | t:=x | u:bye` is a reply with a text and the calls x and y, a tool message with the
/// result of x, and a user message. A result's output is its call's id.
fn parse(text: &str) -> Vec<ViewMessage> {
    let messages = text.split(" | ").map(|message| {
        let (role, parts) = message.split_once(':').expect("a role");
        let role = match role {
            "a" => Role::Assistant,
            "t" => Role::Tool,
            "u" => Role::User,
            _ => Role::System,
        };
        let bodies = parts.split_whitespace().map(|part| match part.split_at(1) {
            ("+", call_id) => call(call_id),
            ("=", call_id) => result(call_id, call_id, Vec::new()),
            _ => PartBody::Text(part.to_owned()),
        });
        (role, bodies.collect())
    });
    number(messages.collect())
}

/// The inverse, with the revision after each role; `!x` is an interrupted result, `?x` a result as text without a call
/// before it, `&x` one with a call before it.
fn sketch(messages: &[ViewMessage]) -> String {
    let part = |part: &ViewPart| match &*part.body {
        PartBody::ToolCall(call) => format!("+{}", call.call_id),
        PartBody::ToolResult(result) if part.source.is_none() => format!("!{}", result.call_id),
        PartBody::ToolResult(result) => format!("={}", result.call_id),
        PartBody::Text(text) => match text.lines().next().and_then(spoken) {
            Some((id, true)) => format!("&{id}"),
            Some((id, false)) => format!("?{id}"),
            None => text.clone(),
        },
        other => other.kind().to_owned(),
    };
    let message = |message: &ViewMessage| {
        let role = match message.role {
            Role::Assistant => "a",
            Role::Tool => "t",
            Role::User => "u",
            Role::System => "s",
        };
        let parts: Vec<String> = message.parts.iter().map(part).collect();
        format!("{role}{}:{}", message.revision, parts.join(" "))
    };
    messages.iter().map(message).collect::<Vec<_>>().join(" | ")
}

/// The id in the first line of a result as text, and true if the line says that a call with the id is before it.
fn spoken(line: &str) -> Option<(&str, bool)> {
    let absent = line
        .strip_prefix("[Tool result for call ")
        .and_then(|rest| rest.strip_suffix(", which is not in this view before it]"));
    let present =
        line.strip_prefix("[Another tool result with the id of call ").and_then(|rest| rest.strip_suffix("]"));
    present.map(|id| (id, true)).or(absent.map(|id| (id, false)))
}

/// The messages with every result after the call that `answers` returns for it.
fn paired(messages: Vec<ViewMessage>) -> Vec<ViewMessage> {
    let answered = answers(&messages).into_iter().collect();
    pair(INTERRUPTED, messages, &answered, None).into_iter().map(|(_, message)| message).collect()
}

/// True if pairing changes nothing. Results that pairing made have no ids, and a second pairing would find no call for
/// them.
fn is_canonical(mut messages: Vec<ViewMessage>) -> bool {
    let parts = messages.iter_mut().flat_map(|message| &mut message.parts);
    for (number, part) in (1 << 32..).zip(parts.filter(|part| part.source.is_none())) {
        part.source = Some(PartId(Uuid::from_u128(number)));
    }
    paired(messages.clone()) == messages
}

#[test]
fn the_canonical_form() {
    let cases = [
        ("nothing to pair", "u:hi | a:hello | s:rules", "u1:hi | a2:hello | s3:rules"),
        ("in place", "a:+x | t:=x | a:done", "a1:+x | t2:=x | a3:done"),
        ("others in between", "a:+x | u:hey | s:rule | t:=x", "a1:+x | t4:=x | u2:hey | s3:rule"),
        ("two writers", "a:+x | a:+y | t:=x | t:=y", "a1:+x | t3:=x | a2:+y | t4:=y"),
        ("in call order", "a:+x +y +z | t:=z =x | t:=y", "a1:+x +y +z | t2:=x =z | t3:=y"),
        ("one message answers two", "a:+x | a:+y | t:=x =y", "a1:+x | t3:=x | a2:+y | t3:=y"),
        ("never answered", "a:hm +x | u:go on", "a1:hm +x | t0:!x | u2:go on"),
        ("partly answered", "a:+x +y +z | t:=y", "a1:+x +y +z | t0:!x | t2:=y | t0:!z"),
        ("in the reply itself", "a:+x =x", "a1:+x | t1:=x"),
        ("a reply in steps", "a:let +x =x then +y =y done", "a1:let +x | t1:=x | a1:then +y | t1:=y | a1:done"),
        ("a parallel step", "a:+x +y =y =x done", "a1:+x +y | t1:=x =y | a1:done"),
        ("words before the result", "a:+x wait =x", "a1:+x wait | t1:=x"),
        ("in a user message", "a:+x | u:=x thanks", "a1:+x | t2:=x | u2:thanks"),
        ("around it", "a:+x | u:well =x thanks", "a1:+x | t2:=x | u2:well thanks"),
        ("words in a tool message", "a:+x | t:=x note", "a1:+x | t2:=x | u2:note"),
        ("in a later reply", "a:+x | a:so =x what", "a1:+x | t2:=x | a2:so what"),
        ("no call", "u:hi | t:=x | a:ok", "u1:hi | u2:?x | a3:ok"),
        ("a result before its call", "t:=x | a:+x", "u1:?x | a2:+x | t0:!x"),
        ("a second result", "a:+x | t:=x | t:=x", "a1:+x | t2:=x | u3:&x"),
        ("a second result beside another", "a:+x +y | t:=x | t:=x =y", "a1:+x +y | t2:=x | t3:=y | u3:&x"),
        ("no call, in a reply", "a:one =x two", "a1:one | u1:?x | a1:two"),
        ("no call, in a user message", "u:one =x two", "u1:one ?x two"),
        ("one id twice, answered in turn", "a:+x | t:=x | a:+x | t:=x", "a1:+x | t2:=x | a3:+x | t4:=x"),
        ("one id twice, answered late", "a:+x | a:+x | t:=x", "a1:+x | t0:!x | a2:+x | t3:=x"),
        ("one id twice, answered twice", "a:+x | a:+x | t:=x | t:=x", "a1:+x | t4:=x | a2:+x | t3:=x"),
        ("one id twice in a reply", "a:+x +x | t:=x =x", "a1:+x | t2:=x | a1:+x | t2:=x"),
        ("a call by the user", "u:run +x now | t:=x", "u1:run | a1:+x | t2:=x | u1:now"),
        ("a call in a tool message", "t:+x =x", "a1:+x | t1:=x"),
        ("nothing left", "u: | a:+x | u:=x | a:", "a2:+x | t3:=x"),
    ];
    for (name, input, expected) in cases {
        let paired = paired(parse(input));
        assert_eq!(sketch(&paired), expected, "{name}");
        assert_eq!(check::unpaired(&paired), Vec::<String>::new(), "{name}");
        assert!(is_canonical(paired), "{name}, again");
    }
}

#[test]
fn an_interrupted_call_says_so() {
    let paired = paired(parse("a:+x"));
    let ViewMessage { source, kind, parts, .. } = &paired[1];
    assert_eq!((*source, *kind), (None, ViewKind::Paired));
    let PartBody::ToolResult(result) = &*parts[0].body else { panic!("a result") };
    assert_eq!((result.status, result.output.as_str()), (ResultStatus::Interrupted, INTERRUPTED));
}

#[test]
fn a_result_without_a_call_keeps_its_words_media_and_what_was_taken_away() {
    let shortened = Some(PartShortening::Truncated { omitted_length: 7 });
    let mut messages = number(vec![(Role::Tool, vec![result("x", "found it", vec![media("shot")])])]);
    messages[0].parts[0].shortened = shortened;
    let source = messages[0].parts[0].source;
    let words = "[Tool result for call x, which is not in this view before it]\nfound it".to_owned();
    let paired = paired(messages);
    let bodies: Vec<PartBody> = paired[0].parts.iter().map(|part| (*part.body).clone()).collect();
    assert_eq!(bodies, [PartBody::Text(words), PartBody::Media(media("shot"))]);
    assert!(paired[0].parts.iter().all(|part| part.source == source && part.shortened == shortened));
    assert_eq!(paired[0].role, Role::User);
}

#[test]
fn the_check_finds_what_is_wrong() {
    let cases = [
        ("a:+x | t:=x", 0),
        ("a:+x +y | t:=y | t:=x", 0),
        ("a:+x", 1),
        ("a:+x | u:hey | t:=x", 2),
        ("t:=x", 1),
        ("u:hi | t:=x", 1),
        ("a:+x | t:=x | t:=x", 1),
        ("a:+x | t:=y", 2),
        ("a:+x +x | t:=x", 1),
        ("a:+x =x", 2),
        ("u:+x | t:=x", 1),
        ("a:+x | t:=x note", 1),
        ("t:note", 1),
        ("a:", 1),
    ];
    for (input, expected) in cases {
        let found = check::unpaired(&parse(input));
        assert_eq!(found.len(), expected, "{input}: {found:?}");
    }
    for body in [PartBody::Step(Default::default()), PartBody::Record(Default::default())] {
        assert_eq!(check::unpaired(&number(vec![(Role::User, vec![body])])).len(), 1);
    }
}

/// Conversations with all parts in any order; few call ids, so that duplicates, gaps and results before calls occur.
fn conversations() -> impl Strategy<Value = Vec<ViewMessage>> {
    let call_id = || (0..6_u8).prop_map(|id| format!("c{id}"));
    let name = || "[a-z]{1,3}";
    let attachments = || proptest::collection::vec(name().prop_map(|name| media(&name)), 0..2);
    let part = prop_oneof![
        3 => name().prop_map(PartBody::Text),
        1 => name().prop_map(PartBody::Reasoning),
        4 => call_id().prop_map(|id| call(&id)),
        5 => (call_id(), name(), attachments()).prop_map(|(id, output, attachments)| result(&id, &output, attachments)),
        1 => name().prop_map(|name| PartBody::Media(media(&name))),
        1 => Just(PartBody::Opaque(Opaque { provider: "p".to_owned(), kind: "k".to_owned(), data: vec![1] })),
    ];
    let role = prop_oneof![
        4 => Just(Role::Assistant),
        4 => Just(Role::Tool),
        2 => Just(Role::User),
        1 => Just(Role::System),
    ];
    let message = (role, proptest::collection::vec(part, 0..5));
    proptest::collection::vec(message, 0..12).prop_map(number)
}

/// Messages of several agents in one session: each calls and answers in order, and some calls stay open.
fn interleaved_writers() -> impl Strategy<Value = Vec<ViewMessage>> {
    let writer = proptest::collection::vec((1_usize..4, any::<bool>(), any::<bool>()), 1..5);
    let writers = proptest::collection::vec(writer, 1..4);
    (writers, proptest::collection::vec(0_usize..4, 60)).prop_map(|(writers, turns)| {
        let write = |(writer, steps): (usize, Vec<(usize, bool, bool)>)| {
            let messages = steps.into_iter().enumerate().flat_map(move |(step, (calls, answered, in_one))| {
                let ids = move || (0..calls).map(move |call| format!("w{writer}s{step}c{call}"));
                let results = move || ids().map(|id| result(&id, &id, Vec::new()));
                let reply = (Role::Assistant, ids().map(|id| call(&id)).collect());
                let answers: Vec<(Role, Vec<PartBody>)> = match (answered, in_one) {
                    (true, true) => vec![(Role::Tool, results().collect())],
                    (true, false) => results().map(|result| (Role::Tool, vec![result])).collect(),
                    (false, _) => vec![(Role::User, vec![PartBody::Text("stop".to_owned())])],
                };
                std::iter::once(reply).chain(answers)
            });
            messages.collect::<Vec<_>>().into_iter()
        };
        let mut queues: Vec<_> = writers.into_iter().enumerate().map(write).collect();
        let mut merged = Vec::new();
        for turn in turns {
            let index = turn % queues.len();
            merged.extend(queues[index].next());
        }
        merged.extend(queues.into_iter().flatten());
        number(merged)
    })
}

/// For each result part the call part it answers, found by a search in everything before it.
fn answers(messages: &[ViewMessage]) -> BTreeMap<PartId, PartId> {
    let mut answers: BTreeMap<PartId, PartId> = BTreeMap::new();
    let parts: Vec<&ViewPart> = messages.iter().flat_map(|message| &message.parts).collect();
    for (index, part) in parts.iter().enumerate() {
        let PartBody::ToolResult(result) = &*part.body else { continue };
        let answered: BTreeSet<PartId> = answers.values().copied().collect();
        let nearest = parts[..index].iter().rev().find(|earlier| {
            let is_call = matches!(&*earlier.body, PartBody::ToolCall(call) if call.call_id == result.call_id);
            is_call && earlier.source.is_some_and(|id| !answered.contains(&id))
        });
        if let (Some(id), Some(call)) = (part.source, nearest.and_then(|call| call.source)) {
            answers.insert(id, call);
        }
    }
    answers
}

/// Checks all guarantees of pairing for one input.
fn check(messages: &[ViewMessage]) -> Result<(), TestCaseError> {
    let paired = paired(messages.to_vec());
    prop_assert_eq!(check::unpaired(&paired), Vec::<String>::new());
    prop_assert!(is_canonical(paired.clone()), "again");
    let answers = answers(messages);
    let mut behind = BTreeMap::new();
    let mut newest_calls: BTreeMap<&str, Option<PartId>> = BTreeMap::new();
    for part in paired.iter().flat_map(|message| &message.parts) {
        if let PartBody::ToolCall(call) = &*part.body {
            newest_calls.insert(&call.call_id, part.source);
        } else if let (PartBody::ToolResult(result), Some(id)) = (&*part.body, part.source) {
            behind.insert(id, newest_calls[result.call_id.as_str()].expect("calls have sources"));
        }
    }
    prop_assert_eq!(behind, answers.clone(), "which result answers which call");
    // Apart from the moved results, all parts keep their order and their content, including results shown as text.
    let stays = |part: &&ViewPart| part.source.is_some_and(|id| !answers.contains_key(&id));
    let before = messages.iter().flat_map(|message| &message.parts).filter(stays);
    let repeated = repeated(messages, None);
    let shown = before.flat_map(|part| match &*part.body {
        PartBody::ToolResult(result) => {
            result_as_text(part, result, part.source.is_some_and(|id| repeated.contains(&id)))
        }
        _ => vec![part.clone()],
    });
    let after = paired.iter().flat_map(|message| &message.parts).filter(stays).cloned();
    prop_assert_eq!(after.collect::<Vec<_>>(), shown.collect::<Vec<_>>());
    // What a result as text says about its call is true.
    let mut shown_calls: BTreeSet<&str> = BTreeSet::new();
    for part in paired.iter().flat_map(|message| &message.parts) {
        match &*part.body {
            PartBody::ToolCall(call) => {
                shown_calls.insert(&call.call_id);
            }
            PartBody::Text(text) => {
                if let Some((id, is_before)) = text.lines().next().and_then(spoken) {
                    prop_assert_eq!(shown_calls.contains(id), is_before, "{}", text);
                }
            }
            _ => {}
        }
    }
    // The content of moved results is unchanged too.
    let moved = |messages: &[ViewMessage]| -> BTreeMap<PartId, ViewPart> {
        let parts = messages.iter().flat_map(|message| &message.parts).filter(|part| !stays(part));
        parts.filter_map(|part| Some((part.source?, part.clone()))).collect()
    };
    prop_assert_eq!(moved(&paired), moved(messages));
    // A message names the source of each of its parts.
    for message in paired.iter().filter(|message| message.kind != ViewKind::Paired) {
        let original = messages.iter().find(|original| original.source == message.source).expect("a source");
        prop_assert_eq!(original.revision, message.revision);
        let ids: Vec<Option<PartId>> = original.parts.iter().map(|part| part.source).collect();
        prop_assert!(message.parts.iter().all(|part| ids.contains(&part.source)));
        let role_changes = message.parts.iter().all(|part| !matches!(*part.body, PartBody::ToolCall(_)))
            && message.role != Role::Tool
            && message.role != original.role;
        prop_assert!(!role_changes || message.role == Role::User);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn anything_is_paired(messages in conversations()) {
        check(&messages)?;
    }

    #[test]
    fn writers_do_not_disturb_each_other(messages in interleaved_writers()) {
        check(&messages)?;
        let shown = paired(messages).iter().flat_map(|message| &message.parts).any(|part| {
            matches!(&*part.body, PartBody::Text(text) if text.lines().next().and_then(spoken).is_some())
        });
        prop_assert!(!shown, "every result has its call");
    }
}
