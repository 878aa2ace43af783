//! P4, P5, P14: appends happen once, in one order, whole or not at all.

use crate::support::{TestApp, conversation, result, text, words_of};
use futures::FutureExt as _;
use longhand::app::append::AppendAnswer;
use longhand::app::{Caller, Error, Reason, RequestKey};
use longhand::limits;
use longhand::model::message::{Finish, FinishReason, MessageKind, NewMessage};
use longhand::model::part::{NewPart, PartBody};
use longhand::model::time::Timestamp;
use longhand::model::usage::Usage;
use std::collections::BTreeSet;

async fn refused(caller: &Caller, session: &str, messages: Vec<NewMessage>) -> Error {
    match caller.messages().append(session, messages, None, None).await {
        Ok(appended) => panic!("it was taken: {appended:?}"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_request_that_comes_again_gets_the_same_answer() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let messages = || conversation("u \"hello\"\na \"hi\"");
    let ask = async || test.once("r1", "hello hi").messages().append(&session, messages(), None, None).await;
    let first = ask().await.expect("appended");
    let between = test.append(&session, "u \"something else\"").await;
    // The ids and the revision are those of the first answer; the context usage is the current one.
    assert_ne!(between.context, first.context);
    let first = AppendAnswer { context: between.context, ..first.answer };
    assert_eq!(ask().await.expect("answered again").answer, first);
    let error = refused(&test.once("r1", "something else"), &session, messages()).await;
    assert_eq!(error.reason, Reason::RequestIdReused);
    assert_eq!(error.metadata.get("request_id").map(String::as_str), Some("r1"));
    let test = test.restart().await;
    let again = test.once("r1", "hello hi").messages().append(&session, messages(), None, None).await;
    assert_eq!(again.expect("answered after a restart").answer, first);
    assert_eq!(test.history(&session).await.len(), 3);
    // A request id belongs to its session.
    let other = test.manual_session().await;
    test.once("r1", "more").messages().append(&other, messages(), None, None).await.expect("another session");
}

#[tokio::test]
async fn every_mutation_is_idempotent_by_its_request_id() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na1 \"two\"\nu2 \"three\"\na2 open").await;
    let first = test.once("edit", "e").messages().edit(&session, "u1", &[text("uno")], None).await.expect("edited");
    assert_eq!(
        test.once("edit", "e").messages().edit(&session, "u1", &[text("uno")], None).await.expect("again"),
        first
    );
    let first = test.once("pin", "p").messages().pin(&session, "a1").await.expect("pinned");
    assert_eq!(test.once("pin", "p").messages().pin(&session, "a1").await.expect("again"), first);
    let part = || vec![longhand::app::append::OpenPart::Whole(text("part"))];
    let first = test.once("parts", "a").messages().append_parts(&session, "a2", part()).await.expect("added");
    let again = test.once("parts", "a").messages().append_parts(&session, "a2", part()).await.expect("again");
    assert_eq!((&again.ids, again.revision, again.seq), (&first.ids, first.revision, first.seq));
    // The answers contain the current context usage, which the scheduler updates after a change.
    test.settled().await;
    let finish = || Finish { reason: Some(FinishReason::Stop), ..Finish::default() };
    let first = test.once("finish", "f").messages().finish(&session, "a2", finish(), None).await.expect("sealed");
    assert_eq!(test.once("finish", "f").messages().finish(&session, "a2", finish(), None).await.expect("again"), first);
    let first = test.once("rewind", "r").messages().rewind(&session, "a1", None).await.expect("rewound");
    assert_eq!(test.once("rewind", "r").messages().rewind(&session, "a1", None).await.expect("again"), first);
    let first = test.once("archive", "x").sessions().archive(&session).await.expect("archived");
    let again = test.once("archive", "x").sessions().archive(&session).await.expect("again");
    assert_eq!((again.revision, again.seq), (first.revision, first.seq));
    assert_eq!(test.revision(&session).await, first.revision, "nothing was done twice");
    assert_eq!(words_of(&test.history(&session).await[3]), "part");
}

#[tokio::test]
async fn a_client_id_that_comes_again_is_the_same_message() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let first = test.append(&session, "u1 \"hello\"\na1 \"hi\" usage=10/2").await;
    let again = test.append(&session, "u1 \"hello\"\na1 \"hi\" usage=10/2\nu2 \"more\"").await;
    assert_eq!((again.existed_count, &again.ids[..2]), (2, &first.ids[..]));
    assert_eq!(test.history(&session).await.len(), 3);
    for (other, words) in [
        ("u1 \"hallo\"", "other words"),
        ("a1 \"hi\" usage=11/2", "other usage"),
        ("u1 \"hello\" \"more\"", "another part"),
        ("u9 \"fresh\"\nu1 \"hallo\"", "beside a fresh one"),
    ] {
        let error = refused(&test.app, &session, conversation(other)).await;
        assert_eq!(error.reason, Reason::ClientIdReused, "{words}");
    }
    let mut elsewhere = conversation("a1 \"hi\" usage=10/2");
    elsewhere[0].provider = "another".to_owned();
    assert_eq!(refused(&test.app, &session, elsewhere).await.reason, Reason::ClientIdReused, "another provider");
    let mut later = conversation("u1 \"hello\"");
    later[0].origin_time = Some(Timestamp(7));
    let repeated =
        test.app.messages().append(&session, later, None, None).await.expect("the clock of a client goes on");
    assert_eq!(repeated.existed_count, 1);
    assert_eq!(test.history(&session).await.len(), 3, "a refused batch leaves nothing behind");
    let error = refused(&test.app, &session, conversation("u5 \"x\"\nu5 \"x\"")).await;
    assert_eq!(error.reason, Reason::InvalidField, "the same id twice in one batch");
}

#[tokio::test]
async fn a_grown_open_message_is_still_the_one_that_was_appended() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let first = test.append(&session, "a1 \"be\" open").await;
    let more = vec![longhand::app::append::OpenPart::Whole(text("gin"))];
    test.app.messages().append_parts(&session, "a1", more).await.expect("added");
    let again = test.append(&session, "a1 \"be\" open").await;
    assert_eq!((again.existed_count, again.ids), (1, first.ids));
}

#[tokio::test]
async fn an_expected_revision_watches_history_marks_and_policy_only() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let seen = test.append(&session, "u1 \"hello\"\na1 \"hi\" usage=10/2").await.revision;
    // Neither the usage, the last event of that append, nor a title is part of history.
    let title = longhand::app::sessions::SessionChange { title: Some("t".to_owned()), ..Default::default() };
    test.app.sessions().update(&session, title).await.expect("renamed");
    let expecting = |words: &str, seen| test.app.messages().append(&session, conversation(words), None, Some(seen));
    let seen = expecting("u2 \"more\"", seen).await.expect("usage and titles do not matter").revision;
    let error = expecting("u3 \"x\"", seen - 1).await.expect_err("a message came since");
    assert_eq!(error.reason, Reason::RevisionMismatch);
    assert_eq!(error.metadata.get("current_revision"), Some(&seen.to_string()));
    assert_eq!(expecting("u3 \"x\"", seen + 9).await.expect_err("the future").reason, Reason::RevisionOutOfRange);
    test.app.messages().pin(&session, "u1").await.expect("pinned");
    assert_eq!(expecting("u3 \"x\"", seen).await.expect_err("a mark came").reason, Reason::RevisionMismatch);
    let seen = test.revision(&session).await;
    let policy = longhand::app::sessions::SessionChange { preset: Some("pi@1.5".to_owned()), ..Default::default() };
    test.app.sessions().update(&session, policy).await.expect("another policy");
    assert_eq!(expecting("u3 \"x\"", seen).await.expect_err("a policy came").reason, Reason::RevisionMismatch);
    let seen = test.revision(&session).await;
    let stale = test.app.messages().rewind(&session, "u1", Some(seen - 1)).await;
    assert_eq!(stale.expect_err("rewinds heed it too").reason, Reason::RevisionMismatch);
    test.app.messages().rewind(&session, "u1", Some(seen)).await.expect("nothing came since");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_at_the_same_time_make_one_dense_order() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let other = test.manual_session().await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..50 {
        let (caller, session, other) = (test.by(&writer.to_string()), session.clone(), other.clone());
        writers.spawn(async move {
            for turn in 0..4 {
                let target = if turn == 3 { &other } else { &session };
                let words = format!("u{writer}-{turn} \"{writer} {turn}\"\na \"answer {writer} {turn}\" usage=5/1");
                let appended = caller.messages().append(target, conversation(&words), None, None).await;
                appended.expect("appended");
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.expect("no writer failed");
    }
    let history = test.history(&session).await;
    assert_eq!(history.len(), 50 * 3 * 2);
    let wanted: BTreeSet<String> =
        (0..50).flat_map(|writer| (0..3).map(move |turn| format!("u{writer}-{turn}"))).collect();
    let found: BTreeSet<String> = history.iter().filter_map(|message| message.client_id.clone()).collect();
    assert_eq!(found, wanted);
    for pair in history.chunks(2) {
        // The messages of one append are adjacent: user, answer; the usage event follows them.
        assert_eq!(words_of(&pair[1]), format!("answer {}", words_of(&pair[0])));
        assert_eq!(pair[1].revision, pair[0].revision + 1);
    }
    for writer in 0..50 {
        let turns: Vec<String> = history
            .iter()
            .filter(|message| message.actor == writer.to_string())
            .filter_map(|message| message.client_id.clone())
            .collect();
        assert_eq!(turns, (0..3).map(|turn| format!("u{writer}-{turn}")).collect::<Vec<_>>(), "its own order");
    }
    let events = test.events().await;
    let seqs: Vec<i64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=i64::try_from(seqs.len()).expect("few")).collect::<Vec<_>>());
    for id in [&session, &other] {
        let revisions: Vec<i64> =
            events.iter().filter(|event| event.session_id.to_string() == *id).map(|event| event.revision).collect();
        assert_eq!(revisions, (1..=test.revision(id).await).collect::<Vec<_>>());
    }
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_bad_command_among_many_hurts_only_itself() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let archived = test.manual_session().await;
    test.append(&session, "u1 \"taken\"").await;
    test.app.sessions().archive(&archived).await.expect("archived");
    // All of them are sent before the writer wakes, so they share one transaction.
    let good = |n: i64| (session.clone(), format!("u2-{n} \"good {n}\""));
    let mut commands: Vec<_> = (0..20).map(good).collect();
    commands.insert(5, (session.clone(), "u1 \"other words\"".to_owned()));
    commands.insert(11, (archived.clone(), "u \"too late\"".to_owned()));
    let sent = commands.iter().map(|(id, words)| test.app.messages().append(id, conversation(words), None, None));
    let answers = futures::future::join_all(sent).await;
    for (index, answer) in answers.iter().enumerate() {
        match index {
            5 => assert_eq!(answer.as_ref().expect_err("reused").reason, Reason::ClientIdReused),
            11 => assert_eq!(answer.as_ref().expect_err("archived").reason, Reason::SessionArchived),
            _ => assert!(answer.is_ok(), "{index}: {answer:?}"),
        }
    }
    assert_eq!(test.history(&session).await.len(), 21);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_command_that_the_database_refuses_hurts_only_itself() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let spoiled = test.manual_session().await;
    test.append(&spoiled, "u \"fine so far\"").await;
    test.append(&session, "u0 \"fine so far\"").await;
    // Another process took the revision of this session's next message.
    let mut database = test.database();
    database
        .execute_batch(
            "insert into event select 1000000, session_id, revision + 1, kind, ends_mutation, time, actor, request_id, \
         body, digest, hash from event where session_id = 2 order by seq desc limit 1",
        )
        .expect("inserted");
    // While the writer waits for this transaction with the first command, the others gather behind it: they share one
    // transaction, which fails.
    database.lock_writes();
    let commands = [
        (&session, "u1 \"waits\""),
        (&session, "u2 \"a\""),
        (&spoiled, "u \"no\""),
        (&session, "u3 \"b\""),
        (&session, "u4 \"c\""),
    ];
    let sent = commands.map(|(id, words)| test.app.messages().append(id, conversation(words), None, None));
    let mut answers = std::pin::pin!(futures::future::join_all(sent));
    assert!(answers.as_mut().now_or_never().is_none(), "all of them are sent");
    database.unlock();
    for (index, answer) in answers.await.into_iter().enumerate() {
        match index {
            2 => assert_eq!(answer.expect_err("refused").reason, Reason::Internal),
            _ => drop(answer.expect("appended")),
        }
    }
    assert_eq!(test.history(&session).await.len(), 5);
    assert_eq!(test.history(&spoiled).await.len(), 1);
}

#[tokio::test]
async fn an_archived_session_takes_nothing() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"hello\"\na1 \"hi\"\na2 open").await;
    let app = &test.app;
    app.sessions().archive(&session).await.expect("archived");
    let rows = test.number("select count(*) from event");
    let refusals = [
        app.messages().append(&session, conversation("u \"x\""), None, None).await.map(drop),
        app.messages()
            .append_parts(&session, "a2", vec![longhand::app::append::OpenPart::Whole(text("x"))])
            .await
            .map(drop),
        app.messages().finish(&session, "a2", Finish::default(), None).await.map(drop),
        app.messages().rewind(&session, "u1", None).await.map(drop),
        app.messages().edit(&session, "u1", &[text("x")], None).await.map(drop),
        app.messages().pin(&session, "u1").await.map(drop),
        app.compactions().undo(&session, None).await.map(drop),
        app.sessions()
            .update(
                &session,
                longhand::app::sessions::SessionChange { title: Some("x".to_owned()), ..Default::default() },
            )
            .await
            .map(drop),
    ];
    for (index, refusal) in refusals.into_iter().enumerate() {
        assert_eq!(refusal.expect_err("archived").reason, Reason::SessionArchived, "{index}");
    }
    assert_eq!(test.number("select count(*) from event"), rows);
    test.view(&session).await;
    app.sessions().restore(&session).await.expect("restored");
    test.append(&session, "u2 \"back\"").await;
}

/// A user message with these parts.
fn holding(parts: Vec<NewPart>) -> NewMessage {
    NewMessage { parts, ..conversation("u").remove(0) }
}

#[tokio::test]
async fn every_limit_is_named_and_nothing_is_written() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let events = test.number("select count(*) from event");
    let many = |count: usize| vec![holding(vec![text("x")]); count];
    let long = |bytes: usize| "x".repeat(bytes);
    let message = |change: fn(&mut NewMessage, String), bytes: usize| {
        let mut message = holding(vec![text("x")]);
        change(&mut message, long(bytes));
        vec![message]
    };
    let json = |bytes: usize| format!("\"{}\"", long(bytes));
    let metadata = {
        let mut message = holding(vec![text("x")]);
        message.metadata_json = Some(json(limits::METADATA_BYTES_MAX));
        vec![message]
    };
    let eight = vec![holding(vec![text(&long(limits::MESSAGE_BYTES_MAX))]); 2];
    let detail = |message: &mut NewMessage, words| {
        message.finish = Some(Finish { detail: words, ..Finish::default() });
    };
    for (what, limit, messages) in [
        ("messages", limits::BATCH_MESSAGES_MAX, many(limits::BATCH_MESSAGES_MAX + 1)),
        ("messages[0].parts", limits::MESSAGE_PARTS_MAX, vec![holding(vec![text("x"); 257])]),
        ("bytes of messages[0]", limits::MESSAGE_BYTES_MAX, message(|m, s| m.parts = vec![text(&s)], (8 << 20) + 1)),
        ("bytes of messages", limits::BATCH_BYTES_MAX, eight),
        ("bytes of messages[0].client_id", limits::NAME_BYTES_MAX, message(|m, s| m.client_id = Some(s), 129)),
        ("bytes of messages[0].model", limits::NAME_BYTES_MAX, message(|m, s| m.model = s, 129)),
        ("bytes of messages[0].metadata_json", limits::METADATA_BYTES_MAX, metadata),
        ("bytes of messages[0].finish.detail", limits::FINISH_DETAIL_BYTES_MAX, message(detail, (64 << 10) + 1)),
        (
            "bytes of messages[0].parts[0].tool_result.call_id",
            limits::CALL_ID_BYTES_MAX,
            message(|m, s| m.parts = vec![result(&s, "x")], 257),
        ),
    ] {
        let error = refused(&test.app, &session, messages).await;
        assert_eq!(error.reason, Reason::LimitExceeded, "{what}: {error}");
        assert_eq!(error.metadata.get("what").map(String::as_str), Some(what));
        assert_eq!(error.metadata.get("limit"), Some(&limit.to_string()), "{what}");
        assert!(error.metadata.contains_key("actual"), "{what}");
    }
    let request = |id| Some(RequestKey { id, payload_hash: [0; 32] });
    for (what, actor, request) in
        [("request_id", String::new(), request(long(129))), ("longhand-actor", long(129), None)]
    {
        let error =
            test.longhand.caller(longhand::app::access::Access::owner(), actor, request).err().expect("refused");
        assert_eq!(error.reason, Reason::LimitExceeded, "{what}");
    }
    assert_eq!(test.number("select count(*) from event"), events);
    assert_eq!(test.number("select count(*) from message"), 0);
    test.app.messages().append(&session, many(limits::BATCH_MESSAGES_MAX), None, None).await.expect("as many");
}

#[tokio::test]
async fn bad_input_is_refused_whole_and_before_anything_is_written() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let bad = |change: fn(&mut NewMessage)| {
        let mut message = holding(vec![text("x")]);
        change(&mut message);
        // A valid message before it must not be accepted either.
        vec![holding(vec![text("good")]), message]
    };
    let usage = |input| Finish { usage: Some(Usage { input, ..Usage::default() }), ..Finish::default() };
    let minus = usage(-1);
    assert_eq!(usage(5).usage.map(|usage| usage.input), Some(5));
    let mut negative = bad(|_| {});
    negative[1].finish = Some(minus);
    for (field, messages) in [
        ("messages", Vec::new()),
        ("messages[1].client_id", bad(|m| m.client_id = Some(String::new()))),
        ("messages[1].client_id", bad(|m| m.client_id = Some(format!("ses_{}", "0".repeat(32))))),
        ("messages[1].client_id", bad(|m| m.client_id = Some(format!("msg_{}", "0".repeat(32))))),
        ("messages[1].client_id", bad(|m| m.client_id = Some(format!("prt_{}", "aB".repeat(16))))),
        ("messages[1].client_id", bad(|m| m.client_id = Some(format!("cmp_{}", "f".repeat(32))))),
        ("messages[1].client_id", bad(|m| m.client_id = Some(format!("evt_{}", "7".repeat(32))))),
        ("messages[1].client_id", bad(|m| m.client_id = Some(format!("job_{}", "7".repeat(32))))),
        ("messages[1].client_id", bad(|m| m.client_id = Some("two\nlines".to_owned()))),
        ("messages[1].client_id", bad(|m| m.client_id = Some("one ".to_owned()))),
        ("messages[1].metadata_json", bad(|m| m.metadata_json = Some("{".to_owned()))),
        ("messages[1].kind", bad(|m| m.kind = MessageKind::Summary)),
        ("messages[1].parts[0]", bad(|m| m.kind = MessageKind::Record)),
        ("messages[1].open", {
            let mut messages = bad(|m| m.finish = None);
            messages[1].kind = MessageKind::Record;
            messages[1].parts.clear();
            messages
        }),
        ("messages[1].parts[0].tool_result.call_id", bad(|m| m.parts = vec![result("", "x")])),
        ("messages[1].finish.usage.input_tokens", negative),
        (
            "messages[1].parts[0].media.mime_type",
            bad(|m| {
                m.parts = vec![NewPart::new(PartBody::Media(Default::default()))];
            }),
        ),
    ] {
        let error = refused(&test.app, &session, messages).await;
        assert_eq!(error.reason, Reason::InvalidField, "{field}: {error}");
        assert_eq!(error.metadata.get("field").map(String::as_str), Some(field));
    }
    assert_eq!(test.number("select count(*) from message"), 0);
    let error = refused(&test.app, "ses_nothing", conversation("u \"x\"")).await;
    assert_eq!(error.reason, Reason::SessionNotFound);
}
