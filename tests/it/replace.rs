//! P4, P14: a rewind, messages, and a session's title and metadata in one mutation, guarded by the last message.

use crate::support::{Line, ScriptedSummarizer, TestApp, conversation, shown, text, turns};
use longhand::app::append::{AppendAnswer, AppendRequest, OpenPart, RewindTo};
use longhand::app::compactions::NewSummary;
use longhand::app::sessions::ForkPoint;
use longhand::app::{Caller, Error, Reason};
use longhand::model::compaction::CompactionState;
use longhand::model::event::{EventBody, EventKind};
use longhand::model::message::Finish;
use longhand::policy::pairing;

/// A request that leaves everything after a message out and appends a conversation.
fn replacing<'a>(after: &'a str, words: &str) -> AppendRequest<'a> {
    AppendRequest { rewind: Some(RewindTo::Message(after)), ..appending(words) }
}

fn appending<'a>(words: &str) -> AppendRequest<'a> {
    AppendRequest { messages: conversation(words), ..AppendRequest::default() }
}

fn expecting<'a>(last: &str, words: &str) -> AppendRequest<'a> {
    AppendRequest { expected_last: Some(last.to_owned()), ..appending(words) }
}

/// The texts of a view that is valid input.
async fn view(test: &TestApp, session: &str) -> Vec<String> {
    let view = test.view(session).await;
    assert_eq!(pairing::violations(&view.messages), Vec::<String>::new());
    let words = shown(&view).into_iter();
    words.map(|line| line.split_once(" shown: ").map_or(line.clone(), |(_, words)| words.to_owned())).collect()
}

/// The error of a request that must change nothing.
async fn refused(test: &TestApp, caller: &Caller, session: &str, request: AppendRequest<'_>) -> Error {
    let before = test.revision(session).await;
    let error = match caller.messages().append_with(session, request).await {
        Ok(appended) => panic!("it was taken: {appended:?}"),
        Err(error) => error,
    };
    assert_eq!(test.revision(session).await, before, "{error}: nothing is half written");
    error
}

fn fact<'a>(error: &'a Error, name: &str) -> &'a str {
    error.metadata.get(name).map_or("", String::as_str)
}

#[tokio::test]
async fn a_guarded_request_whose_answer_was_lost_is_answered_again() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na1 \"two\"").await;
    for request in [
        || expecting("a1", "u2 \"three\""),
        || AppendRequest { expected_last: Some("u2".to_owned()), ..replacing("u1", "a2 \"four\"") },
    ] {
        let first = test.app.messages().append_with(&session, request()).await.expect("appended");
        let revision = test.revision(&session).await;
        let again = test.app.messages().append_with(&session, request()).await.expect("answered");
        assert_eq!((again.answer.ids, again.answer.existed_count), (first.answer.ids, 1));
        assert_eq!(test.revision(&session).await, revision, "nothing is written twice");
        // What it would change is guarded.
        let renames = AppendRequest { title: Some("new".to_owned()), ..request() };
        assert_eq!(refused(&test, &test.app, &session, renames).await.reason, Reason::LastMessageMismatch);
    }
    assert_eq!(view(&test, &session).await, ["one", "four"]);
}

#[tokio::test]
async fn an_edited_request_is_sent_again_in_one_mutation() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let seen = test.append(&session, "u1 \"one\"\na1 \"two\"\nu2 \"three\"\na2 \"four\"").await.revision;
    let request = || AppendRequest {
        expected_last: Some("a2".to_owned()),
        expected_revision: Some(seen),
        title: Some("again".to_owned()),
        metadata_json: Some("{\"tries\":2}".to_owned()),
        ..replacing("a1", "u3 \"three, please\"\na3 \"five\" usage=40/2")
    };
    let ask = async |payload: &str| test.once("r", payload).messages().append_with(&session, request()).await;
    let done = ask("p").await.expect("replaced");
    assert_eq!(view(&test, &session).await, ["one", "two", "three, please", "five"]);
    assert_eq!(done.existed_count, 0);
    let events: Vec<_> = test.events().await.into_iter().filter(|event| event.revision > seen).collect();
    let kinds: Vec<EventKind> = events.iter().map(|event| event.body.kind()).collect();
    let appended = EventKind::MessageAppended;
    let expected = [EventKind::SessionRewound, appended, appended, EventKind::UsageRecorded, EventKind::SessionUpdated];
    assert_eq!(kinds, expected);
    let ends: Vec<bool> = events.iter().map(|event| event.ends_mutation).collect();
    assert_eq!(ends, [false, false, false, false, true], "it is one mutation");
    assert_eq!(done.revision, events.last().expect("events").revision);
    let info = test.app.sessions().get(&session).await.expect("the session").session;
    assert_eq!((info.title.as_str(), info.metadata_json.as_deref()), ("again", Some("{\"tries\":2}")));
    test.settled().await;
    let tokens = test.view(&session).await.context_tokens;
    assert_eq!(done.context.context_tokens, Some(tokens), "the figures are those of the new view");

    let again = ask("p").await.expect("answered again");
    assert_eq!((&again.ids, again.revision, again.seq), (&done.ids, done.revision, done.seq));
    assert_eq!(ask("other").await.expect_err("another payload").reason, Reason::RequestIdReused);
    assert_eq!(test.revision(&session).await, done.revision, "nothing was done twice");
    assert_eq!(test.history(&session).await.len(), 6, "the history keeps what was left out");
    test.app.compactions().undo(&session, None).await.expect("the rewind is undone");
    assert_eq!(view(&test, &session).await, ["one", "two", "three", "four", "three, please", "five"]);
    assert_eq!(test.findings().await, []);
    let test = test.kill().await;
    test.app.compactions().redo(&session, None).await.expect("redone");
    assert_eq!(view(&test, &session).await, ["one", "two", "three, please", "five"]);
    let again =
        test.once("r", "p").messages().append_with(&session, request()).await.expect("answered after a restart");
    assert_eq!((again.answer.ids, again.answer.revision), (done.answer.ids, done.answer.revision));
}

#[tokio::test]
async fn a_replace_that_cannot_be_is_refused_before_anything_is_written() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na1 \"two\"\nr1 \"entry\"\nu2 \"three\"\na2 open").await;
    for (after, reason) in
        [("", Reason::InvalidField), ("nobody", Reason::MessageNotFound), ("a2", Reason::MessageOpen)]
    {
        let error = refused(&test, &test.app, &session, replacing(after, "u9 \"x\"")).await;
        assert_eq!(error.reason, reason, "{after:?}");
    }
    let stale = AppendRequest { expected_revision: Some(2), ..replacing("u1", "u9 \"x\"") };
    assert_eq!(refused(&test, &test.app, &session, stale).await.reason, Reason::RevisionMismatch);
    let bad = AppendRequest { metadata_json: Some("[]".to_owned()), ..replacing("u1", "u9 \"x\"") };
    assert_eq!(fact(&refused(&test, &test.app, &session, bad).await, "field"), "metadata_json");
    let bad = AppendRequest { title: Some("\0".to_owned()), ..replacing("u1", "u9 \"x\"") };
    assert_eq!(fact(&refused(&test, &test.app, &session, bad).await, "field"), "title");
    let empty = refused(&test, &test.app, &session, replacing("u1", "")).await;
    assert_eq!(fact(&empty, "field"), "messages", "a rewind alone is another call");
    test.app.messages().append_with(&session, replacing("u1", "u9 \"x\"")).await.expect("the open message is left out");
    test.app.messages().append_parts(&session, "a2", vec![OpenPart::Whole(text("late"))]).await.expect("and may grow");
    assert_eq!(view(&test, &session).await, ["one", "x"]);
    let gone = refused(&test, &test.app, &session, replacing("u2", "u8 \"y\"")).await;
    assert_eq!(gone.reason, Reason::BoundaryInvalid, "a rewind left it out");
    test.app.sessions().archive(&session).await.expect("archived");
    assert_eq!(refused(&test, &test.app, &session, replacing("u1", "u8 \"y\"")).await.reason, Reason::SessionArchived);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn the_last_message_is_the_last_of_the_conversation() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let app = &test.app;
    let is_last = async |session: &str, id: &str| {
        let error = refused(&test, app, session, expecting("nobody", "u \"x\"")).await;
        assert_eq!((error.reason, fact(&error, "expected_last_message_id")), (Reason::LastMessageMismatch, "nobody"));
        let last = fact(&error, "last_message_id").to_owned();
        let expected = match id {
            "" => String::new(),
            id => app.messages().get(session, id).await.expect("a message").0.id.to_string(),
        };
        assert_eq!(last, expected, "{id:?}");
    };
    is_last(&session, "").await;
    app.messages().append_with(&session, expecting("", "u1 \"one\"\nr1 \"entry\"")).await.expect("nothing was there");
    is_last(&session, "u1").await;
    assert_eq!(refused(&test, app, &session, expecting("", "u \"x\"")).await.reason, Reason::LastMessageMismatch);
    let record = refused(&test, app, &session, expecting("r1", "u \"x\"")).await;
    assert_eq!(record.reason, Reason::LastMessageMismatch, "a record is not of the conversation");
    app.messages()
        .append_with(&session, expecting("u1", "a1 \"two\"\nu2 \"three\"\na2 open"))
        .await
        .expect("u1 was the last");
    is_last(&session, "a2").await;
    app.messages().finish(&session, "a2", Finish::default(), None).await.expect("sealed");
    // An edit stands for the message: who has not seen it is refused.
    let edit = app.messages().edit(&session, "a2", &[text("four")], None).await.expect("edited").ids[0];
    let edit = longhand::model::ids::MessageId(edit).to_string();
    is_last(&session, &edit).await;
    assert_eq!(refused(&test, app, &session, expecting("a2", "u \"x\"")).await.reason, Reason::LastMessageMismatch);
    app.messages().edit(&session, "a2", &[], None).await.expect("removed");
    is_last(&session, "u2").await;
    app.compactions().undo(&session, None).await.expect("undone");
    is_last(&session, &edit).await;
    let fork = app.sessions().fork(&session, ForkPoint::default(), None, String::new()).await.expect("forked").answer;
    let fork = fork.0.session.id.to_string();
    is_last(&fork, &edit).await;
    app.messages().rewind(&fork, "u1", None).await.expect("rewound");
    is_last(&fork, "u1").await;
    app.messages().append_with(&fork, expecting("u1", "a9 \"else\"")).await.expect("appended");
    is_last(&fork, "a9").await;
    app.messages()
        .append_with(&fork, AppendRequest { rewind: Some(RewindTo::Start), ..appending("u9 \"new\"") })
        .await
        .expect("from the start");
    is_last(&fork, "u9").await;
    app.messages().rewind(&fork, RewindTo::Start, None).await.expect("rewound");
    is_last(&fork, "").await;
    // A compaction changes the view, and not the conversation.
    let summary = NewSummary { text: "so far".to_owned(), ..NewSummary::default() };
    app.compactions().supply_summary(&session, summary).await.expect("supplied");
    is_last(&session, &edit).await;
    app.messages().append_with(&session, expecting(&edit, "u4 \"on\"")).await.expect("as expected");
    assert_eq!(view(&test, &session).await.last().map(String::as_str), Some("on"));
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_rewind_needs_new_client_ids_unless_it_was_done() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let app = &test.app;
    test.append(&session, "u1 \"one\"\na1 \"two\"\nu2 \"three\"\na2 \"four\"").await;
    for (words, what) in [
        ("u2 \"three\"", "the same message, which is left out"),
        ("u2 \"other\"", "another one by its id"),
        ("u7 \"new\"\na1 \"two\"", "one that stays"),
    ] {
        let error = refused(&test, app, &session, replacing("a1", words)).await;
        assert_eq!(error.reason, Reason::ClientIdReused, "{what}");
        assert!(["u2", "a1"].contains(&fact(&error, "client_id")), "{what}");
    }
    let request = || AppendRequest {
        title: Some("t".to_owned()),
        ..replacing("a1", "u3 \"three, please\"\nr3 \"entry\"\na3 \"five\"")
    };
    let done = app.messages().append_with(&session, request()).await.expect("replaced");
    // The answer was lost, and there is no request id: the client ids show that it was carried out.
    let again = app.messages().append_with(&session, request()).await.expect("again");
    let repeated = AppendAnswer { existed_count: 3, ..done.answer.clone() };
    assert_eq!((&again.ids, again.existed_count, again.revision), (&repeated.ids, 3, repeated.revision));
    assert_eq!(test.revision(&session).await, done.revision);
    // What another client wrote behind it is not thrown away.
    test.by("other").messages().append(&session, conversation("u4 \"and\""), None, None).await.expect("appended");
    let error = refused(&test, app, &session, request()).await;
    assert_eq!((error.reason, fact(&error, "client_id")), (Reason::ClientIdReused, "u3"));
    assert_eq!(view(&test, &session).await, ["one", "two", "three, please", "five", "and"]);
    // Nor does an edit of it pass for the request's own message.
    app.messages().rewind(&session, "a3", None).await.expect("rewound");
    app.messages().edit(&session, "a3", &[text("six")], None).await.expect("edited");
    assert_eq!(refused(&test, app, &session, request()).await.reason, Reason::ClientIdReused);
    assert_eq!(view(&test, &session).await, ["one", "two", "three, please", "six"]);
}

#[tokio::test]
async fn a_call_whose_result_is_left_out_is_answered_anew() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"one\"\na1 \"\" call=c1\nt1 result=c1:wrong\na2 \"so\"").await;
    test.app
        .messages()
        .append_with(&session, replacing("a1", "t2 result=c1:right\na3 \"then\""))
        .await
        .expect("replaced");
    let shown = view(&test, &session).await;
    assert!(shown.concat().contains("right") && !shown.concat().contains("wrong"), "{shown:?}");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_replace_of_what_a_running_compaction_covers_ends_the_compaction() {
    let script = ScriptedSummarizer::new([Line::Hold("S1".to_owned())]);
    let test = TestApp::with(script.clone()).await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    test.append(&session, &turns(1, 9, 1_100)).await;
    script.held().await;
    let running = test.view(&session).await.pending.expect("a compaction").to_string();
    let before = test.revision(&session).await;
    let done = test.app.messages().append_with(&session, replacing("a2", "u99 \"short\"")).await.expect("replaced");
    let events: Vec<_> = test.events().await.into_iter().filter(|event| event.revision > before).collect();
    let ended = events.iter().find(|event| matches!(event.body, EventBody::CompactionCancelled { .. }));
    assert_eq!(ended.map(|event| (event.revision, event.ends_mutation)), Some((done.revision, true)));
    script.release();
    test.settled().await;
    let state = test.app.compactions().get(&running).await.expect("it is listed").state;
    assert_eq!(state, CompactionState::Superseded);
    assert_eq!(view(&test, &session).await.last().map(String::as_str), Some("short"));
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_title_and_metadata_come_with_messages_once() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let request = || AppendRequest {
        title: Some("tides".to_owned()),
        metadata_json: Some("{\"n\": 1}".to_owned()),
        ..appending("u1 \"one\"")
    };
    let done = test.app.messages().append_with(&session, request()).await.expect("appended");
    let again = test.app.messages().append_with(&session, request()).await.expect("again");
    assert_eq!(
        (again.answer.ids, again.answer.existed_count, again.answer.revision),
        (done.ids.clone(), 1, done.revision)
    );
    // Only what differs is changed.
    let other = AppendRequest { title: Some("ebb".to_owned()), ..request() };
    let renamed = test.app.messages().append_with(&session, other).await.expect("renamed");
    assert_eq!((renamed.answer.ids, renamed.answer.revision), (done.answer.ids.clone(), done.revision + 1));
    let events = test.events().await.into_iter();
    let updates = events.filter_map(|event| match event.body {
        EventBody::SessionUpdated { title, metadata_json, window: None } => Some((title, metadata_json)),
        _ => None,
    });
    let updates: Vec<_> = updates.collect();
    let name = |name: &str| Some(name.to_owned());
    assert_eq!(updates, [(name("tides"), name("{\"n\": 1}")), (name("ebb"), None)]);
    // A title is no change of history.
    let expecting = AppendRequest { expected_revision: Some(done.revision), ..appending("a1 \"two\"") };
    test.app.messages().append_with(&session, expecting).await.expect("history is as it was");
    let test = test.restart().await;
    let info = test.app.sessions().get(&session).await.expect("the session").session;
    assert_eq!((info.title.as_str(), info.metadata_json.as_deref()), ("ebb", Some("{\"n\": 1}")));
    assert_eq!(test.findings().await, []);
}
