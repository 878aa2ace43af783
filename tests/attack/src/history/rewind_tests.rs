//! Doctored prompts with rewinds and with results of tools: a rewind without its prompt, or a prompt without its rewind,
//! and a call with two results are found.

use super::agreement::{Answer, Written};
use super::rewinds;
use super::rpc::View;
use super::tests::{
    Step, appended, faults, numbered, observed, refused, run_started, step, submitted, taken, withdrawn,
};
use longhand::pb;
use pb::Delivery;
use pb::event::Body;

fn rewound(after_revision: i64) -> Body {
    Body::SessionRewound(pb::SessionRewound { after_revision })
}

/// Two front ends have the result of one call, and a third one words.
fn written() -> Written {
    let part = |body: pb::part::Body| pb::Part { body: Some(body), ..pb::Part::default() };
    let result = pb::part::Body::ToolResult(pb::ToolResultPart { call_id: "c1".to_owned(), ..Default::default() });
    let words = pb::part::Body::Text(pb::TextPart { text: "words".to_owned() });
    let mut written = Written::default();
    for (id, body) in [("p1", result.clone()), ("p2", result), ("p3", words)] {
        written.prompts.insert(id.to_owned(), pb::Prompt { parts: vec![part(body)], ..pb::Prompt::default() });
    }
    written.calls.insert("c1".to_owned(), 1);
    written
}

/// A call, its result, which a run takes and a rewind leaves out, and another result of it.
fn history() -> Vec<Step> {
    vec![
        step("r1", None, appended("m1", true)),
        step("r2", None, submitted("p1", Delivery::Steer)),
        step("r3", None, run_started("a", 1)),
        step("r4", Some(1), taken("p1", 1, "m2")),
        step("r4", Some(1), appended("m2", true)),
        step("r6", None, rewound(1)),
        step("r7", None, submitted("p2", Delivery::Steer)),
    ]
}

/// A name, what is done to the history, and what is found, if anything is.
type Case = (&'static str, fn(&mut Vec<Step>), Option<&'static str>);

#[test]
fn a_call_that_two_prompts_answer_or_that_is_left_out_is_found() {
    let cases: [Case; 7] = [
        ("as it should be", |_| {}, None),
        ("the first result is in the view", |steps| drop(steps.remove(5)), Some("p2 came for c1")),
        ("the first result waits", |steps| steps.insert(2, step("r7", None, submitted("p2", Delivery::Queue))), {
            Some("p2 came for c1")
        }),
        (
            "the first result was withdrawn",
            |steps| {
                steps.splice(
                    2..,
                    [step("r3", None, withdrawn("p1")), step("r4", None, submitted("p2", Delivery::Queue))],
                );
            },
            None,
        ),
        ("the call is left out with its result", |steps| steps[5].0.body = Some(rewound(0)), Some("p2 came for c1")),
        ("a result waits for what is left out", |steps| steps.insert(2, step("r8", None, rewound(0))), {
            Some("p1 waits behind a rewind to 0")
        }),
        (
            "the run goes on behind a prompt's own rewind",
            |steps| steps[6].0.request_id = "r6".to_owned(),
            Some("1 goes on behind the rewind of p2"),
        ),
    ];
    for (name, doctor, expected) in cases {
        let mut steps = history();
        doctor(&mut steps);
        let found = faults(steps, Vec::new(), &written());
        match expected {
            None => assert_eq!(found, Vec::<String>::new(), "{name}"),
            Some(expected) => assert!(found.iter().any(|fault| fault.contains(expected)), "{name}: {found:?}"),
        }
    }
}

#[test]
fn a_result_is_refused_only_while_another_one_answers_its_call() {
    let answered = || refused("CALL_ANSWERED", &[("call_id", "c1")], &["c1"]);
    let cases: [(i64, i64, Answer, bool); 8] = [
        (1, 1, answered(), false),
        (1, 2, answered(), true),
        (5, 5, answered(), true),
        (6, 6, answered(), false),
        (7, 7, answered(), true),
        (5, 5, refused("CALL_NOT_FOUND", &[], &["c1"]), true),
        (6, 6, refused("CALL_NOT_FOUND", &[], &["c1"]), false),
        (5, 5, refused("CALL_ANSWERED", &[("call_id", "c2")], &["c1"]), false),
    ];
    for (after, to, answer, is_right) in cases {
        let name = format!("{after} to {to}: {answer:?}");
        let found = faults(history(), vec![observed(after, to, answer)], &written());
        assert_eq!(found.is_empty(), is_right, "{name}: {found:?}");
    }
}

/// What was sent, the position that it named, what is in the log, and a part of the fault that is found, if one is.
type RewindCase = (&'static str, &'static str, Option<Option<i64>>, Vec<Body>, Option<&'static str>);

#[test]
fn a_rewind_is_in_the_mutation_of_its_request_once_and_to_where_it_was_asked() {
    let (prompt, rewind) = (|| submitted("p3", Delivery::Queue), || rewound(4));
    let sent = "SubmitPrompt";
    let cases: [RewindCase; 14] = [
        ("as asked", sent, Some(Some(4)), vec![rewind(), prompt()], None),
        ("no rewind", sent, None, vec![prompt()], None),
        ("to a position that is not known", sent, Some(None), vec![rewind(), prompt()], None),
        ("an append", "AppendMessages", Some(Some(4)), vec![rewind(), appended("m1", true)], None),
        ("a prompt without its rewind", sent, Some(Some(4)), vec![prompt()], Some("rewinds to [], and")),
        ("without one that is not known", sent, Some(None), vec![prompt()], Some("rewinds to [], and")),
        ("a rewind without its prompt", sent, Some(Some(4)), vec![rewind()], Some("has 0 prompts")),
        ("twice", sent, Some(Some(4)), vec![rewind(), rewind(), prompt()], Some("rewinds to [4, 4], and")),
        ("elsewhere", sent, Some(Some(3)), vec![rewind(), prompt()], Some("rewinds to [4], and Some(Some(3))")),
        ("behind its prompt", sent, Some(Some(4)), vec![prompt(), rewind()], Some("is behind its prompt")),
        ("by the run that takes it", "TakePrompt", None, vec![taken("p3", 1, "m1"), rewind()], Some("rewinds to [4]")),
        ("by the withdrawal", "WithdrawPrompt", None, vec![withdrawn("p3"), rewind()], Some("rewinds to [4]")),
        ("a result that stays", sent, Some(Some(4)), vec![withdrawn("p1"), rewind(), prompt()], {
            Some("p1 was withdrawn")
        }),
        ("a result that goes", sent, Some(Some(0)), vec![withdrawn("p1"), rewound(0), prompt()], None),
    ];
    for (name, rpc, asked, bodies, expected) in cases {
        let steps = numbered(bodies.into_iter().map(|body| step("r1", None, body)).collect());
        let events: Vec<&pb::Event> = steps.iter().map(|(event, _)| event).collect();
        let found = rewinds::faults(rpc, asked, &events, &written());
        match expected {
            None => assert_eq!(found, Vec::<String>::new(), "{name}"),
            Some(expected) => assert!(found.iter().any(|fault| fault.contains(expected)), "{name}: {found:?}"),
        }
    }
}

#[test]
fn a_view_that_shows_what_a_rewind_left_out_is_found() {
    let view = |ids: &[&str]| {
        let shown = |id: &&str| pb::ViewMessage {
            message_id: (*id).to_owned(),
            kind: pb::ViewMessageKind::Shown.into(),
            ..pb::ViewMessage::default()
        };
        View { messages: ids.iter().map(shown).collect(), ..View::default() }
    };
    let position = |id: &str| id.strip_prefix('m').and_then(|position| position.parse().ok());
    for (ids, expected) in [
        (&["m2", "m4", "summary"][..], None),
        (&["m2", "m5"], Some("m5")),
        (&["m9", "m10"], Some("m9")),
        (&["m4", "m10"], None),
    ] {
        assert_eq!(rewinds::shown_in(&view(ids), 5..=9, position), expected, "{ids:?}");
    }
}
