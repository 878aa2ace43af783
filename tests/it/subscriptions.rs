//! P6: a stream has every event, in order, once, wherever it starts and however often it is resumed.

use crate::database::copy_store;
use crate::engines::erase_at_once;
use crate::support::{TestApp, Watch, block_on, cases, conversation, text, turns, window, words_of};
use longhand::app::Reason;
use longhand::app::append::{NewDraftText, OpenPart};
use longhand::app::compactions::NewSummary;
use longhand::app::erase::{EraseRequest, EraseTarget};
use longhand::app::events::{Frame, ListEvents, ServedEvent, Start, SubscribeRequest};
use longhand::app::sessions::{ForkPoint, SessionChange, SessionInfo};
use longhand::model::draft::DraftKind;
use longhand::model::event::{Event, EventBody, EventKind};
use longhand::model::message::MessageKind;
use longhand::store::{EventFilter, Visibility};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn from(start: Start) -> SubscribeRequest {
    SubscribeRequest { start, ..SubscribeRequest::default() }
}

async fn stream(test: &TestApp, request: SubscribeRequest) -> Watch {
    Watch::new(test.app.events().subscribe(request).await.expect("a stream"))
}

/// The cursor in the first frame of a stream.
async fn ready(watch: &mut Watch) -> String {
    match watch.frame().await {
        Frame::Ready { cursor, .. } => cursor,
        other => panic!("a stream begins with {other:?}"),
    }
}

/// The next events, with the frame's cursor and the `more` flag of the last event.
async fn batch(watch: &mut Watch) -> (Vec<ServedEvent>, String, bool) {
    match watch.frame().await {
        Frame::Events { events, cursor } => {
            let more = events.last().expect("never empty").more;
            (events, cursor.to_string(), more)
        }
        other => panic!("no events but {other:?}"),
    }
}

fn seqs(watch: &Watch) -> Vec<i64> {
    watch.log.iter().map(|event| event.seq).collect()
}

#[tokio::test]
async fn a_stream_starts_at_its_cursor() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"").await;
    let mut now = stream(&test, from(Start::Now)).await;
    let cursor = ready(&mut now).await;
    test.append(&session, "u2 \"two\"").await;
    let (events, behind, more) = batch(&mut now).await;
    assert_eq!((events.len(), events[0].event.seq, more), (1, 3, false));
    let mut again = stream(&test, from(Start::After(cursor))).await;
    ready(&mut again).await;
    assert_eq!(batch(&mut again).await.0, events, "the same event, the same cursor");
    let mut whole = stream(&test, from(Start::Beginning)).await;
    ready(&mut whole).await;
    batch(&mut whole).await;
    assert_eq!(seqs(&whole), [1, 2, 3]);
    let mut tail = stream(&test, from(Start::After(behind))).await;
    ready(&mut tail).await;
    test.append(&session, "u3 \"three\"").await;
    batch(&mut tail).await;
    assert_eq!(seqs(&tail), [4]);
}

#[tokio::test]
async fn events_bring_their_message_when_asked() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let request = SubscribeRequest { content: true, kinds: vec![EventKind::MessageAppended], ..from(Start::Beginning) };
    let mut watch = stream(&test, request).await;
    ready(&mut watch).await;
    test.append(&session, "u1 \"one\"").await;
    let (events, ..) = batch(&mut watch).await;
    assert_eq!(events[0].message.as_deref(), test.history(&session).await.first());
}

#[tokio::test]
async fn the_cursor_of_a_frame_is_behind_what_its_filter_skipped() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\nu2 \"two\"").await;
    let mut now = stream(&test, from(Start::Now)).await;
    let head = ready(&mut now).await;
    for (kind, is_last) in [(EventKind::SessionCreated, false), (EventKind::MessageAppended, true)] {
        let mut watch = stream(&test, SubscribeRequest { kinds: vec![kind], ..from(Start::Beginning) }).await;
        ready(&mut watch).await;
        let (events, cursor, _) = batch(&mut watch).await;
        assert_eq!((&cursor, *events.last().expect("an event").cursor == cursor), (&head, is_last), "{kind:?}");
    }
}

#[tokio::test]
async fn a_message_is_read_once_for_all_streams_until_it_is_erased() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\nu2 \"two\"").await;
    let read = async || {
        let kinds = vec![EventKind::MessageAppended];
        let mut watch = stream(&test, SubscribeRequest { content: true, kinds, ..from(Start::Beginning) }).await;
        ready(&mut watch).await;
        let (events, ..) = batch(&mut watch).await;
        events.into_iter().map(|served| served.message.expect("a message")).collect::<Vec<_>>()
    };
    let (first, second) = (read().await, read().await);
    assert!(first.len() == 2 && first.iter().zip(&second).all(|(one, other)| Arc::ptr_eq(one, other)));
    let target = EraseTarget::Messages(vec!["u1".to_owned()]);
    let request = EraseRequest { target, reason: "a key".to_owned(), dry_run: false, expected_revision: None };
    erase_at_once(&test.app, &session, request).await;
    let messages: Vec<_> = read().await.iter().map(|message| message.as_ref().clone()).collect();
    assert_eq!(messages, test.history(&session).await);
    assert!(messages[0].parts[0].body.is_erased() && messages[1] == *first[1]);
    // An open message is read anew each time.
    test.append(&session, "a3 \"be\" open").await;
    assert_eq!(read().await[2].parts.len(), 1);
    test.app.messages().append_parts(&session, "a3", vec![OpenPart::Whole(text("gin"))]).await.expect("gone on");
    assert_eq!(read().await[2].parts.len(), 2);
}

#[tokio::test]
async fn a_mutation_is_never_split_without_saying_so() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let one = |turn: usize| format!("a{turn} \"reply\" usage=5/1\n");
    // Mutations of 2, 14, 84 and 800 events: below, across and above the length of a page.
    let mut next = 0;
    for size in [1, 7, 1, 42, 42, 42, 400, 1, 7] {
        let text: String = (next..next + size).map(one).collect();
        next += size;
        test.append(&session, &text).await;
    }
    let last = test.app.messages().get(&session, "a542").await.expect("the last one").0.id;
    let has_last = |watch: &Watch| watch.log.last().and_then(|event| event.body.message()) == Some(last);
    for kinds in [Vec::new(), vec![EventKind::MessageAppended], vec![EventKind::UsageRecorded]] {
        let request = SubscribeRequest { kinds: kinds.clone(), ..from(Start::Beginning) };
        let mut watch = stream(&test, request).await;
        ready(&mut watch).await;
        let mut incomplete = 0;
        while !has_last(&watch) {
            let (events, _, more) = batch(&mut watch).await;
            incomplete += usize::from(more);
            let ends = events.last().expect("never empty").event.ends_mutation;
            if kinds.is_empty() {
                assert_eq!(ends, !more);
            } else if ends {
                assert!(!more, "it cannot go on when it has ended");
            }
        }
        assert!(
            (2..=4).contains(&incomplete),
            "only the mutation of 800 events is cut, not {incomplete} pages ({kinds:?})"
        );
        let expected = if kinds.is_empty() { 1 + 2 * next } else { next };
        assert_eq!(watch.log.len(), expected);
        assert!(seqs(&watch).is_sorted_by(|before, after| before < after));
    }
}

#[tokio::test]
async fn more_is_set_only_if_a_matching_event_follows() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    // One mutation of more events than a page has, the last of which match no filter.
    let matching = 40;
    let text: String = (0..matching).map(|turn| format!("a{turn} \"reply\" usage=5/1\n")).collect();
    let rest: String = (0..440).map(|turn| format!("u{turn}-x \"more\"\n")).collect();
    test.append(&session, &(text + &rest)).await;
    test.append(&session, "a-last \"reply\" usage=5/1").await;
    for (content, sessions) in [(false, Vec::new()), (true, vec![session.clone()])] {
        let kinds = vec![EventKind::UsageRecorded];
        let request = SubscribeRequest { kinds, content, sessions, ..from(Start::Beginning) };
        let mut watch = stream(&test, request).await;
        ready(&mut watch).await;
        let mut flags = Vec::new();
        while watch.log.len() <= matching {
            let (events, ..) = batch(&mut watch).await;
            flags.extend(events.iter().map(|served| served.more));
        }
        let expected: Vec<bool> = (0..=matching).map(|index| index + 1 < matching).collect();
        assert_eq!(flags, expected, "the last that matches is the last of its mutation");
    }
}

#[tokio::test]
async fn a_compaction_brings_its_summary_when_content_is_asked_for() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 4, 50)).await;
    let supplied =
        NewSummary { text: "what was said".to_owned(), tail_start: "u3".to_owned(), ..NewSummary::default() };
    test.app.compactions().supply_summary(&session, supplied).await.expect("supplied");
    let kinds = vec![EventKind::Compacted];
    let request = SubscribeRequest { kinds, content: true, ..from(Start::Beginning) };
    let mut watch = stream(&test, request).await;
    ready(&mut watch).await;
    let (events, ..) = batch(&mut watch).await;
    let EventBody::Compacted { outcome, .. } = &events[0].event.body else { panic!("only these were asked for") };
    let summary = events[0].message.as_ref().expect("the summary");
    assert_eq!(Some(summary.id), outcome.summary_message);
    assert_eq!((summary.kind, words_of(summary)), (MessageKind::Summary, "what was said".to_owned()));
    let tail = test.app.messages().get(&session, "u3").await.expect("a message").0.id;
    assert_eq!(outcome.tail_start, Some(tail), "where the tail begins is said too");
}

#[tokio::test]
async fn a_snapshot_has_open_messages_and_their_words_go_on_behind_it() {
    let test = TestApp::start().await;
    let (session, other) = (test.manual_session().await, test.manual_session().await);
    test.append(&session, "u1 \"hello\"\na0 \"sealed\"\na1 \"closed\" open\na2 open").await;
    test.append(&other, "a9 open").await;
    let words = |part, offset, delta: &str| NewDraftText {
        part,
        client_id: None,
        kind: DraftKind::Text,
        offset,
        delta: delta.to_owned(),
    };
    let add =
        async |message: &str, words| test.app.messages().append_draft(&session, message, words).await.expect("added");
    let part = add("a1", words(None, 0, "grüß")).await.part;
    let request =
        SubscribeRequest { sessions: vec![session.clone()], live: true, content: true, ..from(Start::Snapshot) };
    let mut watch = stream(&test, request).await;
    // Before the snapshot is read: this text is in it, and is not sent again.
    add("a1", words(Some(part), 6, " dich")).await;
    ready(&mut watch).await;
    assert!(matches!(watch.frame().await, Frame::SnapshotSession(_)));
    let mut shown = Vec::new();
    let mut open = Vec::new();
    loop {
        match watch.frame().await {
            Frame::SnapshotMessage(message) => shown.push(message.source.expect("nothing is paired here")),
            Frame::SnapshotOpen(message) => open.push(*message),
            Frame::SnapshotEnd { .. } => break,
            unexpected => panic!("within a snapshot: {unexpected:?}"),
        }
    }
    let history = test.history(&session).await;
    let of = |name: &str| history.iter().find(|message| message.client_id.as_deref() == Some(name)).expect("there");
    assert_eq!(shown, [of("u1").id, of("a0").id, of("a1").id], "the view has what is closed");
    assert_eq!(open.iter().map(|open| open.message.id).collect::<Vec<_>>(), [of("a1").id, of("a2").id]);
    assert_eq!((open[0].message.sealed_revision, words_of(&open[0].message)), (None, "closed".to_owned()));
    assert_eq!((open[0].drafts.len(), open[0].drafts[0].id, open[0].drafts[0].text.as_str()), (1, part, "grüß dich"));
    assert_eq!(open[1].drafts, []);
    add("a1", words(Some(part), 11, "!")).await;
    let Frame::DraftDelta { delta, .. } = watch.frame().await else { panic!("words follow") };
    assert_eq!((delta.part, delta.offset, delta.delta.as_str()), (part, 11, "!"), "without a gap, and nothing twice");
    let close = vec![OpenPart::draft(part, None)];
    test.app.messages().append_parts(&session, "a1", close).await.expect("closed");
    let (events, ..) = batch(&mut watch).await;
    assert!(matches!(&events[0].event.body, EventBody::PartsClosed { parts, .. } if *parts == [part]));
}

#[tokio::test]
async fn an_idle_stream_reports_its_cursor() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let request = SubscribeRequest {
        kinds: vec![EventKind::Compacted],
        progress: Some(Duration::from_secs(1)),
        ..from(Start::Now)
    };
    let mut watch = stream(&test, request).await;
    let first = ready(&mut watch).await;
    test.append(&session, &turns(1, 5, 10)).await;
    let Frame::Progress { cursor, seq } = watch.frame().await else { panic!("nothing matches") };
    assert_eq!(seq, test.number("select max(seq) from event"));
    assert_ne!(cursor, first, "what does not match moves the cursor all the same");
    test.append(&session, "u9 \"later\"").await;
    let mut resumed = stream(&test, from(Start::After(cursor))).await;
    ready(&mut resumed).await;
    batch(&mut resumed).await;
    assert_eq!(seqs(&resumed), [seq + 1]);
    for progress in [Duration::ZERO, Duration::from_secs(3_600)] {
        let request = SubscribeRequest { progress: Some(progress), ..from(Start::Now) };
        assert_eq!(test.app.events().subscribe(request).await.err().expect("refused").reason, Reason::InvalidField);
    }
}

#[tokio::test]
async fn a_cursor_of_another_store_or_time_is_refused() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let old = test.stop().await;
    let kept = crate::support::private_folder();
    copy_store(old.path(), kept.path()).await;
    let test = TestApp::copy_of(kept.path()).await;
    test.append(&session, "u1 \"one\"\nu2 \"two\"").await;
    let mut watch = stream(&test, from(Start::Beginning)).await;
    ready(&mut watch).await;
    let (events, ..) = batch(&mut watch).await;
    drop(watch);
    // An operator restores the copy made before the two messages.
    let restored = TestApp::copy_of(kept.path()).await;
    let refused = async |cursor: &str| {
        restored.app.events().subscribe(from(Start::After(cursor.to_owned()))).await.err().expect("refused")
    };
    let error = refused(&events.last().expect("events").cursor).await;
    assert_eq!(error.reason, Reason::CursorOutOfRange);
    assert_eq!(error.metadata.get("head_seq").map(String::as_str), Some("1"));
    restored.append(&session, "u1 \"another one\"\nu2 \"another two\"").await;
    assert_eq!(refused(&events.last().expect("events").cursor).await.reason, Reason::CursorForeign);
    // A cursor from before the difference is still valid.
    let shared = restored.app.events().subscribe(from(Start::After(events[0].cursor.to_string()))).await;
    shared.expect("the first event is the same in both");
    let other = TestApp::start().await;
    other.manual_session().await;
    let mut watch = stream(&other, from(Start::Now)).await;
    assert_eq!(refused(&ready(&mut watch).await).await.reason, Reason::CursorForeign);
    for garbage in ["x", "", "AAAA", &events[0].cursor[1..]] {
        assert_eq!(refused(garbage).await.reason, Reason::CursorInvalid, "{garbage:?}");
    }
}

#[tokio::test]
async fn a_reader_that_never_reads_delays_nobody() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let mut lazy = stream(&test, from(Start::Beginning)).await;
    let mut eager = stream(&test, from(Start::Beginning)).await;
    ready(&mut eager).await;
    for round in 0..20 {
        let text: String = (0..100).map(|turn| format!("u{round}-{turn} \"{turn}\"\n")).collect();
        test.append(&session, &text).await;
    }
    while eager.log.len() < 2_001 {
        batch(&mut eager).await;
    }
    ready(&mut lazy).await;
    while lazy.log.len() < 2_001 {
        batch(&mut lazy).await;
    }
    assert_eq!(lazy.log, eager.log, "and it has missed nothing");
}

#[tokio::test]
async fn a_snapshot_and_what_follows_have_no_gap() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 10, 20)).await;
    let app = test.app.clone();
    let target = session.clone();
    let writing = tokio::spawn(async move {
        for turn in 0..200 {
            let words = conversation(&format!("u{turn}-x \"late {turn}\""));
            app.messages().append(&target, words, None, None).await.expect("appended");
        }
    });
    for _ in 0..5 {
        let request = SubscribeRequest { sessions: vec![session.clone()], ..from(Start::Snapshot) };
        let mut watch = stream(&test, request).await;
        ready(&mut watch).await;
        let Frame::SnapshotSession(info) = watch.frame().await else { panic!("a session comes first") };
        assert_eq!(info.session.id.to_string(), session);
        let next = info.session.revision + 1;
        let mut seen = Vec::new();
        let end = loop {
            match watch.frame().await {
                Frame::SnapshotMessage(message) => seen.push(message.source.expect("nothing is paired here")),
                Frame::SnapshotEnd { cursor } => break cursor,
                other => panic!("within a snapshot: {other:?}"),
            }
        };
        let mut resumed = stream(&test, from(Start::After(end))).await;
        ready(&mut resumed).await;
        while seen.len() < 220 {
            let (events, ..) = batch(&mut watch).await;
            seen.extend(events.iter().filter_map(|served| served.event.body.message()));
        }
        while resumed.log.len() < watch.log.len() {
            batch(&mut resumed).await;
        }
        assert_eq!(resumed.log, watch.log, "the snapshot's cursor resumes right behind it");
        let first = watch.log.first().map(|event| event.revision);
        assert!(first.is_none_or(|first| first == next), "{first:?} follows the session, not {next}");
        assert_eq!(seen, test.history(&session).await.iter().map(|message| message.id).collect::<Vec<_>>());
    }
    writing.await.expect("all was written");
    let nothing = test.app.events().subscribe(from(Start::Snapshot)).await;
    assert_eq!(nothing.err().expect("refused").reason, Reason::InvalidField);
}

/// The sessions of a snapshot, which is read to its end.
async fn snapshot(watch: &mut Watch) -> Vec<SessionInfo> {
    let mut found = Vec::new();
    loop {
        match watch.frame().await {
            Frame::SnapshotSession(info) => found.push(*info),
            Frame::SnapshotEnd { .. } => return found,
            Frame::Ready { .. } | Frame::SnapshotMessage(_) | Frame::SnapshotOpen(_) => {}
            other => panic!("within a snapshot: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_snapshot_has_its_sessions_as_they_were_when_it_was_asked_for() {
    let test = TestApp::start().await;
    let (one, two) = (test.manual_session().await, test.manual_session().await);
    let mut expected = Vec::new();
    for session in [&one, &two] {
        let change = SessionChange {
            title: Some(format!("of {session}")),
            metadata_json: Some("{\"n\": 1}".to_owned()),
            ..SessionChange::default()
        };
        test.app.sessions().update(session, change).await.expect("changed");
        test.append(session, &turns(1, 3, 40)).await;
        expected.push(test.app.sessions().get(session).await.expect("a session"));
    }
    let request = SubscribeRequest { sessions: vec![one.clone(), two.clone()], ..from(Start::Snapshot) };
    let mut watch = stream(&test, request).await;
    // Before the snapshot is read, everything about the sessions changes.
    for session in [&one, &two] {
        let change = SessionChange {
            title: Some("later".to_owned()),
            metadata_json: Some("{\"n\": 2}".to_owned()),
            window: Some(window(77_000, 7_000)),
            preset: Some("pi".to_owned()),
            ..SessionChange::default()
        };
        test.append(session, &turns(4, 9, 40)).await;
        test.app.sessions().update(session, change).await.expect("changed");
        test.app.sessions().archive(session).await.expect("archived");
    }
    let mut found = snapshot(&mut watch).await;
    found.sort_by_key(|info| info.session.id.to_string() != one);
    assert_eq!(found, expected);
}

/// The title that a session has after each of its revisions, by its events.
fn titles(events: &[Event], session: &str) -> Vec<(i64, String)> {
    let of_session = events.iter().filter(|event| event.session_id.to_string() == session);
    let mut title = String::new();
    let titles = of_session.map(|event| {
        match &event.body {
            EventBody::SessionCreated { title: new, .. } | EventBody::SessionUpdated { title: Some(new), .. } => {
                title.clone_from(new);
            }
            _ => {}
        }
        (event.revision, title.clone())
    });
    titles.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_beside_two_writers_have_one_revision() {
    const SNAPSHOTS: usize = 60;
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let done = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for writer in 0..2 {
        let (app, session, done) = (test.app.clone(), session.clone(), done.clone());
        writers.push(tokio::spawn(async move {
            for turn in 0.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                let words = conversation(&format!("u{writer}-{turn} \"words\""));
                app.messages().append(&session, words, None, None).await.expect("appended");
                let change = SessionChange { title: Some(format!("{writer} {turn}")), ..SessionChange::default() };
                app.sessions().update(&session, change).await.expect("changed");
            }
        }));
    }
    let mut taken = Vec::new();
    for _ in 0..SNAPSHOTS {
        let request = SubscribeRequest { sessions: vec![session.clone()], ..from(Start::Snapshot) };
        let mut watch = stream(&test, request).await;
        let info = snapshot(&mut watch).await.pop().expect("a session");
        let (events, ..) = batch(&mut watch).await;
        taken.push((info.session, events[0].event.revision));
    }
    done.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("it stopped");
    }
    let titles = titles(&test.events().await, &session);
    for (session, next) in taken {
        assert_eq!(session.revision + 1, next, "the first event after the snapshot");
        assert_eq!(session.context.map(|context| context.revision), Some(session.revision));
        let then = titles.iter().find(|(revision, _)| *revision == session.revision).expect("an event");
        assert_eq!(session.title, then.1);
    }
}

#[tokio::test]
async fn a_stopping_daemon_ends_streams_with_their_cursor() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let mut stream = test.app.events().subscribe(from(Start::Beginning)).await.expect("a stream");
    while !matches!(stream.next().await.expect("a frame"), Frame::Events { .. }) {}
    let ending = async move { stream.next().await.map(drop).expect_err("the stream ends") };
    let (ended, directory) = futures::future::join(ending, test.stop()).await;
    assert_eq!(ended.reason, Reason::ShuttingDown);
    let cursor = ended.metadata.get("cursor").expect("a cursor").clone();
    let test = TestApp::copy_of(directory.path()).await;
    let mut watch = Watch::new(test.app.events().subscribe(from(Start::After(cursor))).await.expect("resumed"));
    ready(&mut watch).await;
    test.append(&session, "u1 \"one\"").await;
    batch(&mut watch).await;
    assert_eq!(seqs(&watch), [2]);
}

#[tokio::test]
async fn lists_of_events_agree_with_the_stream() {
    let test = TestApp::start().await;
    let (one, two) = (test.manual_session().await, test.manual_session().await);
    for turn in 1..30 {
        test.append(if turn % 3 == 0 { &two } else { &one }, &turns(turn, turn, 10)).await;
    }
    let all = test.events().await;
    let all_of = async |session: Option<String>, kinds: Vec<EventKind>, page_size| {
        let mut events = Vec::new();
        let mut list = ListEvents { session, kinds, page_size, ..ListEvents::default() };
        loop {
            let (page, next) = test.app.events().list(list.clone()).await.expect("a page");
            events.extend(page.into_iter().map(|served| served.event.unwrap_or_clone()));
            if next.is_empty() {
                return events;
            }
            list.after = next;
        }
    };
    for page_size in [1, 7, 1_000] {
        assert_eq!(all_of(None, Vec::new(), page_size).await, all);
        let of_two: Vec<_> = all.iter().filter(|event| event.session_id.to_string() == two).cloned().collect();
        assert_eq!(all_of(Some(two.clone()), Vec::new(), page_size).await, of_two);
        let created = all_of(None, vec![EventKind::SessionCreated], page_size).await;
        assert!(created.iter().all(|event| matches!(event.body, EventBody::SessionCreated { .. })));
        assert_eq!(created.len(), 2);
    }
}

#[tokio::test]
async fn a_page_of_events_ends_before_the_message_that_exceeds_it() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let third = longhand::limits::PAGE_BYTES_MAX / 3;
    for turn in 1..=4 {
        test.append(&session, &format!("u{turn} {third}c")).await;
    }
    test.append(&session, &format!("u5 {}c", 4 * third)).await;
    let mut list = ListEvents { content: true, kinds: vec![EventKind::MessageAppended], ..ListEvents::default() };
    for of in [None, Some(session)] {
        (list.session, list.after) = (of, String::new());
        let mut lengths = Vec::new();
        while lengths.is_empty() || !list.after.is_empty() {
            let (page, next) = test.app.events().list(list.clone()).await.expect("a page");
            lengths.push(page.len());
            list.after = next;
        }
        assert_eq!(lengths, [2, 2, 1]);
    }
}

#[tokio::test]
async fn the_events_of_a_session_continue_behind_any_number_of_the_log() {
    let test = TestApp::start().await;
    let (one, two) = (test.manual_session().await, test.manual_session().await);
    test.append(&one, &turns(1, 1, 10)).await;
    let point = ForkPoint::default();
    let forked = test.app.sessions().fork(&one, point, None, String::new()).await.expect("a fork").answer;
    let fork = forked.0.session.id.to_string();
    for turn in 2..12 {
        for session in [&fork, &two, &one].into_iter().take(turn % 4) {
            test.append(session, &turns(turn, turn, 10)).await;
        }
    }
    let store = test.longhand.store();
    let all = test.events().await;
    let head = store.log().head_seq();
    for session in [&one, &two, &fork] {
        let key = store.sessions().find(&Visibility::default(), session).await.expect("a session");
        let filter = EventFilter { sessions: vec![key], ..EventFilter::default() };
        for after in 0..=head {
            let page = store.log().tail(&filter, after, head).await.expect("a page");
            let found: Vec<i64> = page.events.iter().map(|paged| paged.event.seq).collect();
            let of_session = all.iter().filter(|event| event.session_id.to_string() == *session && event.seq > after);
            assert_eq!(found, of_session.map(|event| event.seq).collect::<Vec<_>>(), "{session} behind {after}");
        }
    }
}

/// The connection losses of a reader: the number of events before each, and true if it handled only a part of a frame.
type Losses = Vec<(usize, bool)>;

/// Reads up to the last event of the log, over several streams: each one resumes from the last cursor that the reader
/// handled.
async fn in_pieces(test: &TestApp, request: SubscribeRequest, losses: Losses) -> Vec<i64> {
    let mut found = Vec::new();
    let mut request = SubscribeRequest { start: Start::Beginning, ..request };
    let mut losses = losses.into_iter();
    loop {
        let mut watch = stream(test, request.clone()).await;
        let mut cursor = ready(&mut watch).await;
        let (mut left, inside) = losses.next().unwrap_or((usize::MAX, false));
        while left > 0 {
            let (events, behind, _) = batch(&mut watch).await;
            let take = if inside { left.min(events.len()) } else { events.len() };
            found.extend(events[..take].iter().map(|served| served.event.seq));
            cursor = if take < events.len() { events[take - 1].cursor.to_string() } else { behind };
            left = left.saturating_sub(take);
            if events[..take].iter().any(|served| matches!(served.event.body, EventBody::SessionArchived)) {
                return found;
            }
        }
        request.start = Start::After(cursor);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_often_a_stream_is_lost_nothing_is() {
    let test = TestApp::start().await;
    let (one, two) = (test.manual_session().await, test.manual_session().await);
    for turn in 0..160 {
        test.append(if turn % 3 == 0 { &two } else { &one }, &turns(turn, turn + turn % 4, 10)).await;
    }
    // The last event matches every filter of this test.
    test.app.sessions().archive(&one).await.expect("archived");
    let all = test.events().await;
    let kinds = vec![EventKind::MessageAppended, EventKind::SessionArchived];
    let filters = [
        (SubscribeRequest::default(), all.iter().map(|event| event.seq).collect::<Vec<_>>()),
        (
            SubscribeRequest { sessions: vec![one.clone()], ..SubscribeRequest::default() },
            all.iter().filter(|event| event.session_id.to_string() == one).map(|event| event.seq).collect(),
        ),
        (
            SubscribeRequest { kinds: kinds.clone(), sessions: vec![two, one], ..SubscribeRequest::default() },
            all.iter().filter(|event| kinds.contains(&event.body.kind())).map(|event| event.seq).collect(),
        ),
    ];
    let losses = prop::collection::vec((1_usize..300, any::<bool>()), 0..12);
    let mut runner = TestRunner::new(Config { cases: cases(24), failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&(0..filters.len(), losses), |(filter, losses)| {
        let (request, expected) = filters[filter].clone();
        let found = block_on(in_pieces(&test, request, losses));
        prop_assert_eq!(found, expected);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
