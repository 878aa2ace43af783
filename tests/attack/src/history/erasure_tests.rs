//! Doctored erasures: each kind of finding about them is found, and nothing in the history that they are made from.

use super::agreement::{Answer, Observation, Refused, Written, read_on};
use super::content::{self, PartPrints, Prints};
use super::erasures::Lost;
use super::log::Log;
use super::markers;
use super::record::{Asked, Fate, Record, Searchable, lock};
use super::rpc::Promised;
use super::searches;
use super::state::Replay;
use longhand::pb;
use pb::event::Body;
use pb::{ErasedTarget, Event, EventKind, MessageKind};
use prost::Message as _;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use std::collections::BTreeSet;

fn rng() -> StdRng {
    StdRng::seed_from_u64(7)
}

fn event(session: &str, body: Body) -> Event {
    let kind = match &body {
        Body::SessionCreated(_) => EventKind::SessionCreated,
        Body::SessionForked(_) => EventKind::SessionForked,
        Body::SessionArchived(_) => EventKind::SessionArchived,
        Body::MessageAppended(_) => EventKind::MessageAppended,
        Body::MessageFinished(_) => EventKind::MessageFinished,
        Body::MessageEdited(_) => EventKind::MessageEdited,
        Body::Erased(_) => EventKind::Erased,
        _ => EventKind::Unspecified,
    };
    Event { session_id: session.to_owned(), kind: kind.into(), body: Some(body), ..Event::default() }
}

fn appended(id: &str, kind: MessageKind) -> Body {
    let client_id = (kind == MessageKind::Record).then(|| "state".to_owned());
    let message_id = id.to_owned();
    Body::MessageAppended(pb::MessageAppended {
        message_id,
        client_id,
        kind: kind.into(),
        sealed: true,
        ..Default::default()
    })
}

fn range(first_revision: i64, last_revision: i64) -> pb::RevisionRange {
    pb::RevisionRange { first_revision, last_revision }
}

fn summarized(summary: &str, first: i64, last: i64) -> Body {
    let outcome = pb::CompactionOutcome {
        covered_ranges: vec![range(first, last)],
        summary_message_id: Some(summary.to_owned()),
        ..pb::CompactionOutcome::default()
    };
    let trigger = pb::CompactionTrigger::Supplied.into();
    Body::Compacted(pb::Compacted {
        compaction_id: format!("of {summary}"),
        trigger,
        outcome: Some(outcome),
        ..Default::default()
    })
}

fn erased(target: ErasedTarget, messages: &[(&str, &[&str])], revisions: &[i64]) -> pb::Erased {
    let named = |(id, parts): &(&str, &[&str])| pb::ErasedMessage {
        message_id: (*id).to_owned(),
        part_ids: parts.iter().map(|id| (*id).to_owned()).collect(),
    };
    pb::Erased {
        target: target.into(),
        messages: messages.iter().map(named).collect(),
        ranges: revisions.iter().map(|at| range(*at, *at)).collect(),
        ..pb::Erased::default()
    }
}

/// A history as it should be: a message is erased with its edit and the summary of both, in its session and in a fork;
/// then a part, then a record with its versions, then the whole session.
fn history() -> Vec<Event> {
    let edited = pb::MessageEdited { message_id: "m1".to_owned(), replacement_message_id: Some("e1".to_owned()) };
    let forked = pb::SessionForked { source_session_id: "a".to_owned(), source_revision: 7, ..Default::default() };
    let in_fork = |erased: pb::Erased| Body::Erased(pb::Erased { source_session_id: Some("a".to_owned()), ..erased });
    let one = || erased(ErasedTarget::Message, &[("m1", &[]), ("e1", &[]), ("s1", &[])], &[2, 4, 6]);
    let whole = |last| pb::Erased { ranges: vec![range(1, last)], ..erased(ErasedTarget::Session, &[], &[]) };
    vec![
        event("a", Body::SessionCreated(pb::SessionCreated::default())),
        event("a", appended("m1", MessageKind::Normal)),
        event("a", appended("m2", MessageKind::Normal)),
        event("a", appended("e1", MessageKind::Edit)),
        event("a", Body::MessageEdited(edited)),
        event("a", appended("s1", MessageKind::Summary)),
        event("a", summarized("s1", 2, 3)),
        event("b", Body::SessionForked(forked)),
        event("b", appended("m3", MessageKind::Normal)),
        event("a", Body::Erased(one())),
        event("b", in_fork(one())),
        event("a", appended("r1", MessageKind::Record)),
        event("a", appended("r2", MessageKind::Record)),
        event("a", Body::Erased(erased(ErasedTarget::Part, &[("m2", &["p2"])], &[3]))),
        event("a", Body::Erased(erased(ErasedTarget::Message, &[("r1", &[]), ("r2", &[])], &[9, 10]))),
        event("a", Body::Erased(whole(12))),
        event("b", in_fork(whole(7))),
        event("b", appended("m4", MessageKind::Normal)),
    ]
}

/// Reads a history, with dense numbers; what is wrong with it, and the log.
fn read(mut events: Vec<Event>) -> (Vec<String>, Log) {
    let (mut log, record) = (Log::default(), Record::default());
    for (event, seq) in events.iter_mut().zip(1..) {
        let before = log.sessions.get(&event.session_id).map(|session| session.revision);
        let at_fork = match &event.body {
            Some(Body::SessionForked(body)) => body.source_revision,
            _ => 0,
        };
        (event.seq, event.revision) = (seq, before.unwrap_or(at_fork) + 1);
        log.add(&record, event.clone());
    }
    log.check_ends(&record);
    log.check_archived(&record);
    let found = lock(&record.findings).clone();
    (found, log)
}

#[test]
fn an_erasure_that_took_what_it_names_has_no_fault_and_is_known() {
    let (found, log) = read(history());
    assert_eq!(found, Vec::<String>::new());
    let lost = |id: &str| log.lost(id).cloned();
    let all = ["m1", "e1", "s1", "m2", "r1", "r2"].map(lost);
    assert!(all.iter().all(|lost| *lost == Some(Lost::All)), "{all:?}");
    assert_eq!((lost("m3"), lost("m4")), (None, None), "the fork's own messages stay");
    assert!(log.erasures.is_erased("a") && !log.erasures.is_erased("b") && log.erasures.is_touched("b"));
    let (_, log) = read(history().drain(..14).collect());
    assert_eq!(log.lost("m2"), Some(&Lost::Parts(BTreeSet::from(["p2".to_owned()]))));
}

#[test]
fn a_session_that_goes_in_steps_is_erased_by_the_last() {
    let step = pb::Erased { ranges: vec![range(1, 3)], unfinished: true, ..erased(ErasedTarget::Session, &[], &[]) };
    let mut events = history();
    events.insert(15, event("a", Body::Erased(step)));
    assert_eq!(read(events.clone()).0, Vec::<String>::new());
    events.truncate(16);
    let (found, log) = read(events.clone());
    assert_eq!(found, Vec::<String>::new());
    assert!(!log.erasures.is_erased("a") && log.lost("m2") == Some(&Lost::All));
    body(&mut events, 15).unfinished = false;
    let found = read(events).0;
    assert!(found.iter().any(|fault| fault.contains("the erasure of a left e1")), "{found:?}");
}

fn edited(message: &str, edit: &str) -> [Event; 2] {
    let edited = pb::MessageEdited { message_id: message.to_owned(), replacement_message_id: Some(edit.to_owned()) };
    [event("b", appended(edit, MessageKind::Edit)), event("b", Body::MessageEdited(edited))]
}

#[test]
fn an_edit_of_what_is_erased_goes_with_another_erasure_or_with_its_own_session() {
    let again =
        pb::Erased { target: ErasedTarget::Message.into(), ..erased(ErasedTarget::Message, &[("e3", &[])], &[13]) };
    let of_fork = pb::Erased { ranges: vec![range(8, 15)], ..erased(ErasedTarget::Session, &[], &[]) };
    for erased in [again, of_fork] {
        let mut events = history();
        events.truncate(11);
        events.extend(edited("m1", "e2").into_iter().chain(edited("e2", "e3")));
        events.push(event("b", Body::Erased(erased)));
        assert_eq!(read(events).0, Vec::<String>::new());
    }
}

#[test]
fn a_summary_that_is_erased_takes_those_that_go_on_from_it() {
    let mut events = history();
    events.truncate(7);
    events.extend([event("a", appended("s2", MessageKind::Summary)), event("a", summarized("s2", 2, 4))]);
    events.push(event("a", appended("s3", MessageKind::Summary)));
    events.push(event("a", summarized("s3", 5, 5)));
    let go = |events: &[Event], messages: &[(&str, &[&str])], at: &[i64]| {
        read([events, &[event("a", Body::Erased(erased(ErasedTarget::Message, messages, at)))]].concat()).0
    };
    assert_eq!(go(&events, &[("s1", &[]), ("s2", &[])], &[6, 8]), Vec::<String>::new());
    let found = go(&events, &[("s1", &[]), ("s3", &[])], &[6, 10]);
    assert!(found.iter().any(|fault| fault.contains("erases s3, a summary of other messages")), "{found:?}");
}

#[test]
fn a_summary_goes_with_a_message_behind_the_covered_ones_that_it_may_quote() {
    let mut events = history();
    events.truncate(7);
    let go = |events: &[Event], at: i64| {
        let named: &[(&str, &[&str])] = &[("m2", &[]), ("s1", &[])];
        read([events, &[event("a", Body::Erased(erased(ErasedTarget::Message, named, &[at, 6])))]].concat()).0
    };
    events[6].body = Some(summarized("s1", 2, 2));
    assert!(go(&events, 3).iter().any(|fault| fault.contains("erases s1, a summary of other messages")));
    for (last, faults) in [(2, 1), (3, 0), (5, 0)] {
        let Some(Body::Compacted(body)) = &mut events[6].body else { panic!("no compaction") };
        body.outcome.as_mut().expect("an outcome").last_quoted_revision = Some(last);
        let found = go(&events, 3);
        assert_eq!(found.len(), faults, "quoted until {last}: {found:?}");
    }
}

#[test]
fn an_erasure_may_take_what_a_fork_made_of_something_erased_and_nothing_else() {
    let mut events = history();
    events.truncate(11);
    let edited = pb::MessageEdited { message_id: "m1".to_owned(), replacement_message_id: Some("x1".to_owned()) };
    events.push(event("b", appended("x1", MessageKind::Edit)));
    events.push(event("b", Body::MessageEdited(edited)));
    events.push(event("a", Body::Erased(erased(ErasedTarget::Message, &[], &[2]))));
    assert!(read(events.clone()).0.iter().any(|fault| fault.contains("event 14 erases nothing")));
    let in_fork = erased(ErasedTarget::Message, &[("x1", &[])], &[2, 11]);
    events.push(event("b", Body::Erased(pb::Erased { source_session_id: Some("a".to_owned()), ..in_fork })));
    assert_eq!(read(events).0, Vec::<String>::new());
}

#[test]
fn only_an_erasure_of_several_messages_takes_what_does_not_belong_together() {
    for (target, faults) in [(ErasedTarget::Messages, 0), (ErasedTarget::Message, 1)] {
        let mut events = history();
        events.truncate(4);
        let gone = erased(target, &[("m1", &[]), ("m2", &[])], &[2, 3]);
        events.push(event("a", Body::Erased(gone)));
        let found = read(events).0;
        assert_eq!(found.len(), faults, "{found:?}");
    }
}

fn body(events: &mut [Event], index: usize) -> &mut pb::Erased {
    match &mut events[index].body {
        Some(Body::Erased(body)) => body,
        other => panic!("no erasure: {other:?}"),
    }
}

fn also(id: &str) -> pb::ErasedMessage {
    pb::ErasedMessage { message_id: id.to_owned(), part_ids: Vec::new() }
}

/// A name, what is done to the history, and what is found.
type Case = (&'static str, fn(&mut Vec<Event>), &'static str);

const CASES: &[Case] = &[
    (
        "another message goes as well",
        |events| {
            body(events, 9).messages.push(also("m2"));
            body(events, 9).ranges.push(range(3, 3));
        },
        "which do not belong together",
    ),
    (
        "a part of another message goes as well",
        |events| body(events, 13).messages.push(pb::ErasedMessage { part_ids: vec!["p9".to_owned()], ..also("m1") }),
        "outside of its positions",
    ),
    (
        "a part of its edit goes as well",
        |events| {
            body(events, 13).messages[0].message_id = "m1".to_owned();
            body(events, 13).messages.push(pb::ErasedMessage { part_ids: vec!["p9".to_owned()], ..also("e1") });
            body(events, 13).ranges = vec![range(2, 6)];
        },
        "which do not belong together",
    ),
    (
        "a message goes that nobody wrote",
        |events| body(events, 9).messages.push(also("m9")),
        "which its session does not have",
    ),
    (
        "a message of the fork goes with its parent's",
        |events| body(events, 9).messages.push(also("m3")),
        "which its session does not have",
    ),
    (
        "a summary of other messages goes",
        |events| events[6].body = Some(summarized("s1", 9, 9)),
        "a summary of other messages",
    ),
    (
        "a session keeps a message",
        |events| body(events, 15).ranges = vec![range(1, 8), range(10, 12)],
        "the erasure of a left r1",
    ),
    (
        "a fork keeps a message of the session",
        |events| body(events, 16).ranges = vec![range(1, 2), range(4, 7)],
        "the erasure of a left m2 in b",
    ),
    ("a fork loses a message of its own", |events| body(events, 16).ranges = vec![range(1, 9)], "took m3 of b with it"),
    (
        "something is written to an erased session",
        |events| events.push(event("a", appended("m5", MessageKind::Normal))),
        "MessageAppended changed a, which is erased",
    ),
    (
        "a session is erased twice",
        |events| {
            let again = events[15].clone();
            events.push(again);
        },
        "a is erased twice",
    ),
    ("a message is erased twice", |events| events.insert(15, events[9].clone()), "erases m1 again"),
    ("a part is erased twice", |events| events.insert(15, events[13].clone()), "erases m2 again"),
    ("an erasure takes nothing", |events| body(events, 13).messages.clear(), "erases nothing"),
    (
        "a message is sealed in an archived session, and nothing is erased",
        |events| {
            let sealed = pb::MessageFinished { message_id: "m3".to_owned(), ..Default::default() };
            events.push(event("b", Body::SessionArchived(pb::SessionArchived {})));
            events.push(event("b", Body::MessageFinished(sealed)));
        },
        "changed b, which is archived",
    ),
];

#[test]
fn every_doctored_erasure_is_found() {
    for (name, doctor, expected) in CASES {
        let mut events = history();
        doctor(&mut events);
        let (found, _) = read(events);
        assert!(found.iter().any(|fault| fault.contains(expected)), "{name}: {found:?}");
    }
}

#[test]
fn an_acknowledged_erasure_that_is_not_in_the_log_is_found() {
    let (_, log) = read(history());
    for (session, revision, seq, count) in
        [("a", 8, 10, 0), ("a", 7, 10, 1), ("b", 8, 10, 1), ("a", 2, 2, 1), ("a", 99, 99, 1)]
    {
        let record = Record::default();
        lock(&record.erased_answers).push((session.to_owned(), revision, seq));
        log.check_erased_answers(&record);
        assert_eq!(lock(&record.findings).len(), count, "{session} {revision} {seq}");
    }
}

#[test]
fn an_acknowledged_erasure_whose_event_names_something_else_is_found() {
    let parts: &[&str] = &["p2"];
    for (index, target, named, is_right) in [
        (9, ErasedTarget::Message, ("m1", &[] as &[&str]), true),
        (9, ErasedTarget::Message, ("e1", &[]), true),
        (9, ErasedTarget::Message, ("m2", &[]), false),
        (9, ErasedTarget::Part, ("", parts), false),
        (13, ErasedTarget::Part, ("", parts), true),
        (13, ErasedTarget::Message, ("m2", &[]), false),
        (15, ErasedTarget::Session, ("r1", &[]), false),
    ] {
        let mut events = history();
        events[index].request_id = "q".to_owned();
        let (_, mut log) = read(events);
        let record = Record::default();
        let changes = vec![Body::Erased(erased(target, &[named], &[]))];
        let (rpc, fate) = ("EraseContent", Fate::Done(Promised::default()));
        let asked =
            Asked { rpc, after_seq: 0, expected_revision: None, new_end: None, epoch: None, sent: 0, changes, fate };
        lock(&record.asked).insert(("a".to_owned(), "q".to_owned()), asked);
        log.check_requests(&record);
        let found = lock(&record.findings).clone();
        assert_eq!(found.is_empty(), is_right, "{index} {named:?}: {found:?}");
    }
}

#[test]
fn texts_of_events_may_go_where_something_was_erased_and_nowhere_else() {
    let (_, log) = read(history());
    let titled = |seq: usize, title: &str| {
        let title = title.to_owned();
        let body = Body::SessionCreated(pb::SessionCreated { title, ..Default::default() });
        log.print(
            i64::try_from(seq).expect("small"),
            content::event(&Event { body: Some(body), ..log.events[seq - 1].clone() }),
        )
    };
    assert_eq!(titled(1, ""), titled(1, "gone"), "of a session that is erased");
    let (_, untouched) = read(history().drain(..9).collect());
    let print = |title: &str| {
        let body = Body::SessionCreated(pb::SessionCreated { title: title.to_owned(), ..Default::default() });
        untouched.print(1, content::event(&Event { body: Some(body), ..untouched.events[0].clone() }))
    };
    assert_ne!(print(""), print("gone"), "of one that is not");
}

/// A message as it is sent, with parts of most kinds, and as it is read.
fn message() -> (pb::NewMessage, pb::Message) {
    let rng = &mut rng();
    let mut parts = vec![
        content::text(content::words(rng, 40)),
        content::call(rng, "c1", "t1"),
        content::result(rng, "c1", "t1", 40),
        content::part(pb::part::Body::Reasoning(pb::ReasoningPart { text: content::words(rng, 9) })),
    ];
    parts[0].metadata_json = Some("{\"x\":1}".to_owned());
    let sent = pb::NewMessage {
        client_id: Some("mine".to_owned()),
        role: pb::Role::Assistant.into(),
        kind: MessageKind::Normal.into(),
        parts: parts.clone(),
        finish: Some(pb::Finish { detail: "so".to_owned(), ..pb::Finish::default() }),
        metadata_json: Some("{}".to_owned()),
        ..pb::NewMessage::default()
    };
    for (part, number) in parts.iter_mut().zip(1..) {
        part.part_id = format!("p{number}");
    }
    let found = pb::Message {
        client_id: sent.client_id.clone(),
        role: sent.role,
        kind: sent.kind,
        parts,
        finish: sent.finish.clone(),
        metadata_json: sent.metadata_json.clone(),
        sealed_revision: Some(2),
        ..pb::Message::default()
    };
    (sent, found)
}

/// The message less all that it can lose.
fn less(found: &pb::Message) -> pb::Message {
    let mut found = found.clone();
    found.parts = found.parts.iter().map(content::erased).collect();
    found.metadata_json = None;
    found.finish.iter_mut().for_each(|finish| finish.detail.clear());
    found
}

#[test]
fn a_message_fits_what_was_sent_less_what_was_erased_and_nothing_else_does() {
    let (sent, whole) = message();
    let prints = Prints::of(&sent, true);
    let part = Lost::Parts(BTreeSet::from(["p2".to_owned()]));
    let mut without_part = whole.clone();
    without_part.parts[1] = content::erased(&whole.parts[1]);
    let nameless = pb::Message { client_id: None, ..less(&whole) };
    let altered = |alter: fn(&mut pb::Message)| {
        let mut found = less(&whole);
        alter(&mut found);
        found
    };
    let role = altered(|found| found.role = pb::Role::User.into());
    let call = altered(|found| found.parts[1] = found.parts[0].clone());
    let unmarked = altered(|found| found.parts[0].erased = false);
    let kept = altered(|found| found.metadata_json = Some("{}".to_owned()));
    let detail = altered(|found| found.finish.get_or_insert_default().detail = "so".to_owned());
    let short = altered(|found| drop(found.parts.pop()));
    for (name, found, lost, fits) in [
        ("whole", &whole, None, true),
        ("erased without an erasure", &less(&whole), None, false),
        ("a part is erased without an erasure", &without_part, None, false),
        ("a part", &without_part, Some(&part), true),
        ("a part is left", &whole, Some(&part), false),
        ("more than a part", &less(&whole), Some(&part), false),
        ("all", &less(&whole), Some(&Lost::All), true),
        ("all, with its session", &nameless, Some(&Lost::All), true),
        ("all is left", &whole, Some(&Lost::All), false),
        ("only a part", &without_part, Some(&Lost::All), false),
        ("another role", &role, Some(&Lost::All), false),
        ("a call that is no call any more", &call, Some(&Lost::All), false),
        ("a part that does not say so", &unmarked, Some(&Lost::All), false),
        ("metadata are left", &kept, Some(&Lost::All), false),
        ("words about the end are left", &detail, Some(&Lost::All), false),
        ("a part is missing", &short, Some(&Lost::All), false),
    ] {
        assert_eq!(prints.fit(found, lost), fits, "{name}");
    }
    assert!(PartPrints::of(&sent.parts).fit(&without_part.parts, Some(&part)));
}

#[test]
fn an_erased_marker_is_found_in_every_answer_that_was_asked_for_later() {
    let record = Record::default();
    let text = content::words(&mut rng(), 200);
    let answer = pb::GetMessageResponse {
        message: Some(pb::Message { parts: vec![content::text(text.clone())], ..pb::Message::default() }),
        ..pb::GetMessageResponse::default()
    };
    let bytes = answer.encode_to_vec();
    record.markers.wrote("a", "Method", text.as_bytes());
    record.check_erased("GetMessage", &bytes, 9);
    assert_eq!(lock(&record.findings).len(), 0, "it is not erased");
    record.markers.session_erased("b", 4);
    record.check_erased("GetMessage", &bytes, 9);
    assert_eq!(lock(&record.findings).len(), 0, "another session is erased");
    record.markers.session_erased("a", 5);
    record.check_erased("GetMessage", &bytes, 5);
    assert_eq!(lock(&record.findings).len(), 0, "it was asked for before");
    record.check_erased("GetMessage", &bytes, 6);
    assert_eq!(lock(&record.findings).len(), 1);
    // What comes to an erased session late is erased, too.
    let late = content::words(&mut StdRng::seed_from_u64(8), 20);
    record.markers.wrote("a", "Method", late.as_bytes());
    record.check_erased("GetMessage", late.as_bytes(), 6);
    assert_eq!(lock(&record.findings).len(), 2);
}

#[test]
fn an_erased_marker_is_found_in_files_also_behind_a_beginning_that_an_index_shares() {
    let folder = tempfile::tempdir().expect("a folder");
    let below = folder.path().join("below");
    std::fs::create_dir(&below).expect("a folder");
    let rng = &mut rng();
    let (erased, other) = (markers::fresh(rng), markers::fresh(rng));
    let wanted = markers::scan(erased.as_bytes()).into_iter().collect();
    std::fs::write(folder.path().join("kept"), other.as_bytes()).expect("a file");
    std::fs::write(below.join("short"), &erased.as_bytes()[..20]).expect("a file");
    assert_eq!(markers::in_files(folder.path(), &wanted).expect("read"), []);
    std::fs::write(below.join("index"), [&[0, 255], &erased.as_bytes()[6..], &[7]].concat()).expect("a file");
    let found = markers::in_files(folder.path(), &wanted).expect("read");
    assert_eq!(found.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["below/index"]);
}

#[test]
fn a_search_that_lacks_what_was_acknowledged_or_has_anything_else_is_found() {
    let wanted = Searchable { word: "w".to_owned(), session: "a".to_owned(), message: "m1".to_owned(), seq: 5 };
    let hit = |id: &str, kind: MessageKind| pb::SearchHit {
        message_id: id.to_owned(),
        kind: kind.into(),
        ..Default::default()
    };
    let (normal, summary) = (MessageKind::Normal, MessageKind::Summary);
    for (hits, indexed_seq, expected) in [
        (vec![hit("m1", normal)], 5, None),
        (vec![hit("m1", normal), hit("s1", summary)], 9, None),
        (vec![hit("m1", normal)], 4, Some("reaches 4")),
        (vec![], 5, Some("is found in []")),
        (vec![hit("m2", normal)], 5, Some("is found in")),
        (vec![hit("m1", normal), hit("m2", normal)], 5, Some("is found in")),
    ] {
        let answer = pb::SearchHistoryResponse { hits, indexed_seq, ..pb::SearchHistoryResponse::default() };
        let found = searches::fault(&answer, &wanted);
        match expected {
            None => assert_eq!(found, None),
            Some(expected) => assert!(found.as_ref().is_some_and(|fault| fault.contains(expected)), "{found:?}"),
        }
    }
}

#[test]
fn prompts_and_refusals_agree_with_what_was_erased() {
    let part = || content::text("a wish".to_owned());
    let submitted = pb::PromptSubmitted { prompt_id: "q1".to_owned(), delivery: pb::Delivery::Queue.into() };
    let withdrawn = pb::PromptWithdrawn { prompt_id: "q1".to_owned() };
    let whole = pb::Erased { ranges: vec![range(1, 2)], ..erased(ErasedTarget::Session, &[], &[]) };
    let mut events = [
        event("a", Body::PromptSubmitted(submitted)),
        event("a", Body::PromptWithdrawn(withdrawn)),
        event("a", Body::Erased(whole)),
    ];
    for (event, seq) in events.iter_mut().zip(1..) {
        (event.seq, event.revision) = (seq, seq);
    }
    let events: Vec<(&Event, Option<i64>)> = events.iter().map(|event| (event, None)).collect();
    let mut written = Written::default();
    let row = pb::Prompt {
        prompt_id: "q1".to_owned(),
        delivery: pb::Delivery::Queue.into(),
        parts: vec![part()],
        metadata_json: Some("{}".to_owned()),
        submit_revision: 1,
        end: Some(pb::PromptEnd { end_revision: 2, ..pb::PromptEnd::default() }),
        ..pb::Prompt::default()
    };
    written.prompts.insert("q1".to_owned(), row.clone());
    let gone = pb::Prompt { parts: vec![content::erased(&part())], metadata_json: None, ..row.clone() };
    let half = pb::Prompt { metadata_json: Some("{}".to_owned()), ..gone.clone() };
    let refused =
        || Answer::Refused(Refused { rpc: "Method", reason: "SESSION_ERASED".to_owned(), ..Refused::default() });
    for (name, after_seq, answer, is_right) in [
        ("as it was", 2, Answer::Prompts(vec![row.clone()]), true),
        ("gone before", 2, Answer::Prompts(vec![gone.clone()]), false),
        ("gone", 3, Answer::Prompts(vec![gone]), true),
        ("left", 3, Answer::Prompts(vec![row]), false),
        ("half of it left", 3, Answer::Prompts(vec![half]), false),
        ("refused", 3, refused(), true),
        ("refused before", 2, refused(), false),
    ] {
        let observation = Observation { session: "a".to_owned(), after_seq, to_seq: after_seq, answer };
        let found = read_on(&mut Replay::default(), &events, vec![observation], &written);
        assert_eq!(found.is_empty(), is_right, "{name}: {found:?}");
    }
}
