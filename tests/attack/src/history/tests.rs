//! Doctored histories: the model of runs, prompts and approvals finds what is wrong with each of them, and nothing in the
//! one that they are made from.

use super::agreement::{Answer, Limit, Observation, Refused, Written, read_on};
use super::log::Log;
use super::record::{Asked, Fate, OpenState, Record, lock};
use super::rpc::Promised;
use super::state::Replay;
use longhand::pb;
use pb::event::Body;
use pb::{ApprovalEndReason, Delivery, Event, RunEndReason};
use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

const SESSION: &str = "ses";

/// An event with the run on whose behalf it was requested.
pub(super) type Step = (Event, Option<i64>);

pub(super) fn step(request_id: &str, epoch: Option<i64>, body: Body) -> Step {
    let actor = if request_id.is_empty() { "" } else { "somebody" };
    let event = Event {
        session_id: SESSION.to_owned(),
        request_id: request_id.to_owned(),
        actor: actor.to_owned(),
        kind: kind(&body).into(),
        body: Some(body),
        ..Event::default()
    };
    (event, epoch)
}

/// The kinds that the log reads.
fn kind(body: &Body) -> pb::EventKind {
    match body {
        Body::PromptSubmitted(_) => pb::EventKind::PromptSubmitted,
        Body::PromptTaken(_) => pb::EventKind::PromptTaken,
        Body::MessageAppended(_) => pb::EventKind::MessageAppended,
        Body::RunStarted(_) => pb::EventKind::RunStarted,
        Body::ApprovalEnded(_) => pb::EventKind::ApprovalEnded,
        _ => pb::EventKind::Unspecified,
    }
}

pub(super) fn run_started(run_id: &str, epoch: i64) -> Body {
    Body::RunStarted(pb::RunStarted { run_id: run_id.to_owned(), epoch })
}

fn run_ended(run_id: &str, epoch: i64, reason: RunEndReason) -> Body {
    Body::RunEnded(pb::RunEnded { run_id: run_id.to_owned(), epoch, reason: reason.into(), ..Default::default() })
}

pub(super) fn submitted(prompt_id: &str, delivery: Delivery) -> Body {
    Body::PromptSubmitted(pb::PromptSubmitted { prompt_id: prompt_id.to_owned(), delivery: delivery.into() })
}

pub(super) fn taken(prompt_id: &str, epoch: i64, message_id: &str) -> Body {
    let (prompt_id, message_id) = (prompt_id.to_owned(), message_id.to_owned());
    Body::PromptTaken(pb::PromptTaken { prompt_id, epoch, message_id })
}

pub(super) fn withdrawn(prompt_id: &str) -> Body {
    Body::PromptWithdrawn(pb::PromptWithdrawn { prompt_id: prompt_id.to_owned() })
}

pub(super) fn appended(message_id: &str, sealed: bool) -> Body {
    Body::MessageAppended(pb::MessageAppended { message_id: message_id.to_owned(), sealed, ..Default::default() })
}

fn asked(approval_id: &str, epoch: i64) -> Body {
    Body::ApprovalRequested(pb::ApprovalRequested { approval_id: approval_id.to_owned(), epoch: Some(epoch) })
}

fn ended(approval_id: &str, reason: ApprovalEndReason, choice: &str) -> Body {
    let choice = (!choice.is_empty()).then(|| choice.to_owned());
    Body::ApprovalEnded(pb::ApprovalEnded { approval_id: approval_id.to_owned(), reason: reason.into(), choice })
}

/// A history as it should be. The numbers of its events are their positions, from 1.
pub(super) fn history() -> Vec<Step> {
    let finished = Body::MessageFinished(pb::MessageFinished { message_id: "m9".to_owned(), ..Default::default() });
    let cancel = pb::RunCancelRequested { run_id: "a".to_owned(), epoch: 1 };
    vec![
        step("r1", None, run_started("a", 1)),
        step("r2", None, submitted("p1", Delivery::Queue)),
        step("r3", None, submitted("p2", Delivery::Steer)),
        step("r4", Some(1), taken("p2", 1, "m2")),
        step("r4", Some(1), appended("m2", true)),
        step("r5", Some(1), asked("a1", 1)),
        step("r6", None, ended("a1", ApprovalEndReason::Answered, "yes")),
        step("r7", Some(1), appended("m9", false)),
        step("r8", None, submitted("p3", Delivery::Interrupt)),
        step("r8", None, Body::RunCancelRequested(cancel)),
        step("r9", Some(1), finished),
        step("r9", Some(1), run_ended("a", 1, RunEndReason::Cancelled)),
        step("r10", None, run_started("b", 2)),
        step("r10", None, taken("p3", 2, "m3")),
        step("r10", None, appended("m3", true)),
        step("r11", Some(2), asked("a2", 2)),
        step("", None, run_ended("b", 2, RunEndReason::Lost)),
        step("", None, ended("a2", ApprovalEndReason::Expired, "no")),
        step("r12", None, submitted("p4", Delivery::Queue)),
        step("r13", None, withdrawn("p4")),
    ]
}

/// Gives the events their numbers; a second each.
pub(super) fn numbered(mut steps: Vec<Step>) -> Vec<Step> {
    for ((event, _), seq) in steps.iter_mut().zip(1..) {
        let time = Some(prost_types::Timestamp { seconds: seq, nanos: 0 });
        (event.seq, event.revision, event.event_time) = (seq, seq, time);
    }
    steps
}

pub(super) fn faults(steps: Vec<Step>, observations: Vec<Observation>, written: &Written) -> Vec<String> {
    let steps = numbered(steps);
    let events: Vec<(&Event, Option<i64>)> = steps.iter().map(|(event, epoch)| (event, *epoch)).collect();
    read_on(&mut Replay::default(), &events, observations, written)
}

#[test]
fn a_history_as_it_should_be_has_no_fault() {
    assert_eq!(faults(history(), Vec::new(), &Written::default()), Vec::<String>::new());
}

/// A name, what is done to the history, and what is found.
type Case = (&'static str, fn(&mut Vec<Step>), &'static str);

/// Prompts that are taken twice, lost, or without their message.
fn doctored_prompts() -> Vec<Case> {
    vec![
        (
            "a prompt is taken twice",
            |steps| {
                let again = [step("r14", Some(1), taken("p2", 1, "m4")), step("r14", Some(1), appended("m4", true))];
                steps.splice(5..5, again).count();
            },
            "p2 was taken and does not wait",
        ),
        (
            "a withdrawn prompt is taken",
            |steps| {
                steps.insert(1, step("r2", None, withdrawn("p2")));
            },
            "p2 was withdrawn and does not wait",
        ),
        (
            "a prompt that was taken is withdrawn",
            |steps| steps[19] = step("r13", None, withdrawn("p2")),
            "p2 was withdrawn and does not wait",
        ),
        ("a prompt that is taken has no message", |steps| drop(steps.remove(4)), "Message(\"m2\") must follow"),
        (
            "a prompt that is taken has another message",
            |steps| steps[4] = step("r4", Some(1), appended("m5", true)),
            "Message(\"m2\") must follow",
        ),
        (
            "the message of a prompt is of another request",
            |steps| steps[4].0.request_id = "r99".to_owned(),
            "Message(\"m2\") must follow",
        ),
        ("the log ends with a prompt and without its message", |steps| steps.truncate(4), "the log ends where"),
        (
            "the message of a prompt is there twice",
            |steps| steps.push(step("r14", None, appended("m2", true))),
            "m2 was appended twice",
        ),
    ]
}

/// Runs beside each other, and writes for those that are over.
fn doctored_runs() -> Vec<Case> {
    vec![
        (
            "a run that is over takes a prompt",
            |steps| steps[13] = step("r10", None, taken("p3", 1, "m3")),
            "run 1 took p3 while Some(2) is active",
        ),
        (
            "a run that is over writes",
            |steps| steps.insert(13, step("r14", Some(1), appended("m4", true))),
            "a write of run 1 was taken while Some(2) is active",
        ),
        (
            "a run writes that never was",
            |steps| steps.push(step("r14", Some(3), appended("m4", true))),
            "a write of run 3 was taken while None is active",
        ),
        ("two runs are active", |steps| drop(steps.drain(8..12)), "b begins while run 1 is active"),
        (
            "two runs have a number",
            |steps| steps[12] = step("r10", None, run_started("b", 1)),
            "b has the number 1 behind 1",
        ),
        (
            "a run ends twice",
            |steps| steps.push(step("r14", None, run_ended("a", 1, RunEndReason::Cancelled))),
            "a ends while None is active",
        ),
        ("a run leaves a message open", |steps| drop(steps.remove(10)), "left m9 open"),
        (
            "a run that was to stop completes",
            |steps| steps[11].0.body = Some(run_ended("a", 1, RunEndReason::Completed)),
            "ends as Completed",
        ),
        (
            "a run is lost by a client",
            |steps| steps[16] = step("r14", None, run_ended("b", 2, RunEndReason::Lost)),
            "ends as Lost",
        ),
        (
            "a run ends with a call of another",
            |steps| {
                let call = pb::InterruptedCall { message_id: "m3".to_owned(), call_id: "c".to_owned() };
                if let Some(Body::RunEnded(body)) = &mut steps[11].0.body {
                    body.interrupted_calls.push(call);
                }
            },
            "which it did not make",
        ),
        ("a prompt interrupts nobody", |steps| drop(steps.remove(9)), "Cancel(1) must follow"),
    ]
}

/// Questions with two answers, or without their run.
fn doctored_approvals() -> Vec<Case> {
    vec![
        (
            "a question has two answers",
            |steps| {
                steps.insert(7, step("r14", None, ended("a1", ApprovalEndReason::Answered, "no")));
            },
            "a1 ends as",
        ),
        (
            "a question that was answered expires",
            |steps| {
                steps.insert(7, step("", None, ended("a1", ApprovalEndReason::Expired, "no")));
            },
            "a1 ends as",
        ),
        ("an answer has no question", |steps| drop(steps.remove(5)), "a1 ends and was never asked"),
        ("a question waits for a run that is over", |steps| drop(steps.remove(6)), "a1 waits behind the end of a"),
        (
            "a question is of a run that is over",
            |steps| steps[15] = step("r11", None, asked("a2", 1)),
            "a2 was asked by Some(1) while Some(2) is active",
        ),
    ]
}

#[test]
fn every_doctored_history_is_found() {
    let cases = [doctored_prompts(), doctored_runs(), doctored_approvals()].concat();
    for (name, doctor, expected) in cases {
        let mut steps = history();
        doctor(&mut steps);
        let found = faults(steps, Vec::new(), &Written::default());
        assert!(found.iter().any(|fault| fault.contains(expected)), "{name}: {found:?}");
    }
}

pub(super) fn observed(after_seq: i64, to_seq: i64, answer: Answer) -> Observation {
    Observation { session: SESSION.to_owned(), after_seq, to_seq, answer }
}

pub(super) fn refused(reason: &str, metadata: &[(&str, &str)], subjects: &[&str]) -> Answer {
    let owned = |text: &&str| (*text).to_owned();
    let metadata: HashMap<String, String> = metadata.iter().map(|(name, value)| (owned(name), owned(value))).collect();
    let subjects = subjects.iter().map(owned).collect();
    let (reason, epoch) = (reason.to_owned(), Some(1));
    Answer::Refused(Refused { rpc: "Method", reason, metadata, epoch, subjects, is_steering_only: false })
}

/// The row of a prompt that was submitted as event `seq`.
fn prompt(id: &str, seq: i64, delivery: Delivery) -> pb::Prompt {
    pb::Prompt {
        prompt_id: id.to_owned(),
        delivery: delivery.into(),
        actor: "somebody".to_owned(),
        create_time: Some(prost_types::Timestamp { seconds: seq, nanos: 0 }),
        submit_revision: seq,
        ..pb::Prompt::default()
    }
}

/// The row of the first question, with this answer.
fn approval(choice: Option<&str>) -> pb::Approval {
    let end = choice.map(|choice| pb::ApprovalEnd {
        reason: ApprovalEndReason::Answered.into(),
        choice: Some(choice.to_owned()),
        text: "so".to_owned(),
        actor: "somebody".to_owned(),
        end_time: Some(prost_types::Timestamp { seconds: 7, nanos: 0 }),
        end_revision: 7,
    });
    pb::Approval {
        approval_id: "a1".to_owned(),
        epoch: Some(1),
        actor: "somebody".to_owned(),
        create_time: Some(prost_types::Timestamp { seconds: 6, nanos: 0 }),
        request_revision: 6,
        end,
        ..pb::Approval::default()
    }
}

/// What the clients of the history wrote.
fn written() -> Written {
    let mut written = Written::default();
    for (id, delivery) in [("p1", Delivery::Queue), ("p2", Delivery::Steer), ("p3", Delivery::Interrupt)] {
        written.prompts.insert(id.to_owned(), prompt(id, 0, delivery));
    }
    let asked = pb::Approval { epoch: Some(1), actor: "somebody".to_owned(), ..pb::Approval::default() };
    written.approvals.insert("a1".to_owned(), asked);
    written.answers.insert("a1".to_owned(), (Some("yes".to_owned()), "so".to_owned(), "somebody".to_owned()));
    written
}

#[test]
fn an_answer_agrees_with_a_state_of_its_time_or_is_found() {
    let (p1, p2) = (prompt("p1", 2, Delivery::Queue), prompt("p2", 3, Delivery::Steer));
    let altered = pb::Prompt { metadata_json: Some("{}".to_owned()), ..p1.clone() };
    // Between which events, what, and what is wrong with it.
    let cases: Vec<(i64, i64, Answer, Option<&str>)> = vec![
        (3, 3, Answer::Queue(vec![p2.clone(), p1.clone()]), None),
        (3, 3, Answer::Queue(vec![p1.clone(), p2.clone()]), Some("a row is")),
        (1, 6, Answer::Queue(vec![p2.clone(), p1.clone()]), None),
        (5, 8, Answer::Queue(vec![p2, p1.clone()]), Some("a list has 2 rows, and by the log 1")),
        (5, 8, Answer::Queue(vec![p1]), None),
        (5, 20, Answer::Queue(Vec::new()), Some("a list has 0 rows, and by the log 1")),
        (5, 8, Answer::Queue(vec![altered]), Some("was submitted as")),
        (3, 8, refused("RUN_ACTIVE", &[("epoch", "1"), ("actor", "somebody")], &[]), None),
        (12, 12, refused("RUN_ACTIVE", &[("epoch", "1"), ("actor", "somebody")], &[]), Some("is refused")),
        (3, 11, refused("RUN_LOST", &[], &[]), Some("is refused")),
        (3, 12, refused("RUN_LOST", &[], &[]), None),
        (3, 3, refused("NO_PROMPT", &[], &[]), Some("is refused")),
        (0, 1, refused("NO_PROMPT", &[], &[]), None),
        (5, 5, refused("PROMPT_ENDED", &[("end", "taken")], &["p2"]), None),
        (5, 5, refused("PROMPT_ENDED", &[("end", "withdrawn")], &["p2"]), Some("is refused")),
        (5, 5, refused("PROMPT_ENDED", &[("end", "taken")], &["p1"]), Some("is refused")),
        (7, 9, refused("APPROVAL_ENDED", &[("actor", "somebody"), ("choice", "yes")], &["a1"]), None),
        (7, 9, refused("APPROVAL_ENDED", &[("actor", "somebody"), ("choice", "no")], &["a1"]), Some("is refused")),
        (1, 6, refused("APPROVAL_ENDED", &[("actor", "somebody"), ("choice", "yes")], &["a1"]), Some("is refused")),
        (1, 9, refused("SESSION_ARCHIVED", &[], &[]), Some("is refused")),
        (3, 5, Answer::InRun(1), None),
        (12, 12, Answer::InRun(1), Some("a write of run 1 was taken while None is active")),
        (6, 9, Answer::Approval(Box::new(approval(None))), None),
        (7, 9, Answer::Approval(Box::new(approval(None))), Some("a row is")),
        (7, 9, Answer::Approval(Box::new(approval(Some("yes")))), None),
        (7, 9, Answer::Approval(Box::new(approval(Some("no")))), Some("a row is")),
        (7, 9, Answer::Approvals(Vec::new()), Some("a list has 0 rows, and by the log 1")),
        (6, 9, Answer::WaitingApprovals(Vec::new()), None),
        (3, 3, Answer::Snapshot(Some("a".to_owned()), vec!["p2".to_owned(), "p1".to_owned()], Vec::new()), None),
        (3, 3, Answer::Snapshot(None, vec!["p2".to_owned(), "p1".to_owned()], Vec::new()), Some("a snapshot has")),
    ];
    for (after, to, answer, expected) in cases {
        let name = format!("{after} to {to}: {answer:?}");
        let found = faults(history(), vec![observed(after, to, answer)], &written());
        match expected {
            None => assert_eq!(found, Vec::<String>::new(), "{name}"),
            Some(expected) => assert!(found.iter().any(|fault| fault.contains(expected)), "{name}: {found:?}"),
        }
    }
}

#[test]
fn what_a_step_of_the_erasure_of_a_session_left_is_what_was_written() {
    let erased = |first_revision, last_revision, unfinished| {
        let ranges = vec![pb::RevisionRange { first_revision, last_revision }];
        let target = pb::ErasedTarget::Session.into();
        step("", None, Body::Erased(pb::Erased { target, ranges, unfinished, ..pb::Erased::default() }))
    };
    let history = |first_step: i64| {
        let mut steps = history();
        steps.extend([erased(1, first_step, true), erased(1, 21, false)]);
        steps
    };
    let mut written = written();
    let question = pb::Question { text: "may I?".to_owned(), ..pb::Question::default() };
    written.approvals.get_mut("a1").expect("the first question").question = Some(question.clone());
    let whole = pb::Approval { question: Some(question), ..approval(Some("yes")) };
    let mut nothing = whole.clone();
    nothing.question.as_mut().expect("its question").text = "[erased from the history]".to_owned();
    let end = nothing.end.as_mut().expect("its end");
    (end.choice, end.text) = (None, String::new());
    // The last revision of the first step, an event, and whether the question of revision 6 is still there behind it.
    for (first_step, at, is_there) in [(5, 20, true), (5, 21, true), (6, 21, false), (5, 22, false), (6, 22, false)] {
        for (row, fits) in [(&whole, is_there), (&nothing, !is_there)] {
            let row = Answer::Approval(Box::new(row.clone()));
            let found = faults(history(first_step), vec![observed(at, at, row)], &written);
            assert_eq!(found.is_empty(), fits, "a step up to {first_step}, behind {at}: {found:?}");
        }
    }
}

#[test]
fn an_acknowledged_answer_that_is_another_one_in_the_row_is_found() {
    let mut written = written();
    written.answers.insert("a1".to_owned(), (Some("yes".to_owned()), "other".to_owned(), "somebody".to_owned()));
    let row = Answer::Approval(Box::new(approval(Some("yes"))));
    let found = faults(history(), vec![observed(7, 9, row)], &written);
    assert!(found.iter().any(|fault| fault.contains("another end than the acknowledged answer")), "{found:?}");
}

#[test]
fn a_lease_or_a_time_limit_that_ends_early_is_found() {
    // Run b is lost at second 17, and the default of a2 holds at second 18.
    let limit = |from: u64, seconds| Limit {
        from: UNIX_EPOCH + Duration::from_secs(from),
        length: Duration::from_secs(seconds),
    };
    for (from, seconds, count) in [(13, 4, 0), (13, 9, 2)] {
        let mut written = Written::default();
        written.leases.insert((SESSION.to_owned(), 2), limit(from, seconds));
        written.limits.insert("a2".to_owned(), limit(from, seconds));
        let found = faults(history(), Vec::new(), &written);
        assert_eq!(found.iter().filter(|fault| fault.contains("too early")).count(), count, "{found:?}");
    }
}

/// A record with one request of the history.
fn asked_for(request_id: &str, rpc: &'static str, changes: Vec<Body>) -> Record {
    let record = Record::default();
    let fate = Fate::Done(Promised::default());
    let asked =
        Asked { rpc, after_seq: 0, expected_revision: None, new_end: None, epoch: None, sent: 0, changes, fate };
    lock(&record.asked).insert((SESSION.to_owned(), request_id.to_owned()), asked);
    record
}

#[test]
fn an_acknowledged_change_that_is_not_in_the_log_is_found() {
    let cases = [
        ("r4", "TakePrompt", vec![taken("p2", 1, "m2")], None),
        ("r4", "TakePrompt", vec![taken("p1", 1, "m2")], Some("was answered with")),
        ("r6", "AnswerApproval", vec![ended("a1", ApprovalEndReason::Answered, "yes")], None),
        ("r6", "AnswerApproval", vec![ended("a1", ApprovalEndReason::Answered, "no")], Some("was answered with")),
        ("r99", "AnswerApproval", vec![ended("a1", ApprovalEndReason::Answered, "yes")], Some("is not in the log")),
        ("r99", "SubmitPrompt", Vec::new(), Some("is not in the log")),
        ("r5", "TakePrompt", Vec::new(), None),
        ("r7", "TakePrompt", Vec::new(), Some("made 1 messages of 0 prompts")),
    ];
    for (request_id, rpc, changes, expected) in cases {
        let record = asked_for(request_id, rpc, changes);
        let mut log = Log::default();
        for (event, _) in numbered(history()) {
            log.add(&record, event);
        }
        log.check_requests(&record);
        let found: Vec<String> =
            lock(&record.findings).iter().filter(|finding| !finding.contains("was never asked")).cloned().collect();
        match expected {
            None => assert_eq!(found, Vec::<String>::new(), "{rpc} {request_id}"),
            Some(expected) => {
                assert!(found.iter().any(|fault| fault.contains(expected)), "{rpc} {request_id}: {found:?}");
            }
        }
    }
}

/// A refusal after a lost answer leaves open how much of the words is there: none of them, or those of some frames.
#[test]
fn words_in_doubt_stand_in_the_place_of_their_draft() {
    let draft = |text: &str| pb::Draft { text: text.to_owned(), ..pb::Draft::default() };
    let doubts = |doubts| OpenState { drafts: vec![draft("a"), draft("b")], doubts, ..OpenState::default() };
    let texts = |state: OpenState| -> Vec<String> {
        let drafts = state.possible_drafts();
        drafts.iter().map(|drafts| drafts.iter().map(|draft| format!("{} ", draft.text)).collect()).collect()
    };
    assert_eq!(texts(doubts(vec![])), ["a b "]);
    assert_eq!(texts(doubts(vec![(0, draft("ax")), (0, draft("axy"))])), ["a b ", "ax b ", "axy b "]);
    assert_eq!(texts(doubts(vec![(2, draft("new"))])), ["a b ", "a b new "]);
}
