//! Open messages: drafts, closed parts, the seal.

use crate::support::{TestApp, body_text, call, conversation, shown, text, words_of};
use longhand::app::Reason;
use longhand::app::append::{NewDraftText, OpenPart};
use longhand::app::runs::CancelRun;
use longhand::limits;
use longhand::model::draft::{Draft, DraftKind};
use longhand::model::event::{EventBody, EventKind};
use longhand::model::ids::PartId;
use longhand::model::message::{Finish, FinishReason, NewFinish};
use longhand::model::part::{Media, MediaSource, NewPart, PartBody};
use longhand::model::usage::Usage;
use longhand::store::DraftReceipt;

fn adding(part: Option<PartId>, offset: i64, delta: &str) -> NewDraftText {
    NewDraftText { part, client_id: None, kind: DraftKind::Text, offset, delta: delta.to_owned() }
}

/// A draft of text as it is read.
fn written(id: PartId, words: &str) -> Draft {
    Draft { id, client_id: None, kind: DraftKind::Text, text: words.to_owned() }
}

async fn draft(test: &TestApp, session: &str, words: NewDraftText) -> DraftReceipt {
    test.app.messages().append_draft(session, "a1", words).await.expect("the words are taken").answer
}

#[tokio::test]
async fn a_reply_grows_from_drafts_and_parts_and_is_sealed() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"hello\"\na1 open").await;
    let before = test.revision(&session).await;
    let DraftReceipt { part, length, .. } = draft(&test, &session, adding(None, 0, "grüß")).await;
    assert_eq!(length, 6, "an offset counts bytes");
    assert_eq!(draft(&test, &session, adding(Some(part), 6, " dich")).await.length, 11);
    assert_eq!(test.revision(&session).await, before, "drafts are outside history");
    let (open, drafts, _) = test.app.messages().get(&session, "a1").await.expect("the message");
    assert_eq!((open.sealed_revision, open.parts.len()), (None, 0));
    assert_eq!(drafts, [written(part, "grüß dich")]);
    assert_eq!(shown(&test.view(&session).await), ["user shown: hello"], "no view shows a draft");

    let close = vec![OpenPart::draft(part, Some("{\"n\":1}".to_owned())), OpenPart::Whole(call("c1"))];
    let closed = test.app.messages().append_parts(&session, "a1", close).await.expect("closed");
    assert_eq!(PartId(closed.ids[0]), part, "a draft keeps its id");
    assert_eq!(
        shown(&test.view(&session).await),
        [
            "user shown: hello",
            "assistant shown: grüß dich call c1",
            "tool paired: result c1 [tool execution was interrupted]"
        ]
    );
    let usage = Usage { input: 100, output: 7, ..Usage::default() };
    let finish = Finish { reason: Some(FinishReason::ToolCalls), usage: Some(usage), ..Finish::default() };
    let sealed = test.app.messages().finish(&session, "a1", finish.clone(), None).await;
    assert_eq!(sealed.expect("sealed").context.context_tokens, Some(107));
    let (message, drafts, _) = test.app.messages().get(&session, "a1").await.expect("the message");
    assert_eq!((message.finish, drafts), (finish.with_view(None), Vec::new()));
    assert_eq!(message.parts[0].metadata_json.as_deref(), Some("{\"n\":1}"));
    let kinds: Vec<&str> = message.parts.iter().map(|part| part.body.kind()).collect();
    assert_eq!(kinds, ["text", "tool_call"]);
    let as_of = test.history_as_of(&session, Some(before)).await;
    assert_eq!((as_of[1].parts.len(), as_of[1].sealed_revision), (0, None), "then it was open and empty");
    assert_eq!(test.findings().await, []);
}

/// Offsets are those of the text, also where a database has other bytes for it.
#[tokio::test]
async fn every_character_of_a_draft_has_its_bytes() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"hello\"\na1 open").await;
    let DraftReceipt { part, length, .. } = draft(&test, &session, adding(None, 0, "a\0b")).await;
    assert_eq!(length, 3);
    let received = draft(&test, &session, adding(Some(part), 3, "\u{FDD0}é\0")).await;
    assert_eq!((received.length, received.added_at), (9, Some(3)));
    // What is there already is recognised from any character on, and what differs is refused.
    let repeated = draft(&test, &session, adding(Some(part), 1, "\0b\u{FDD0}")).await;
    assert_eq!((repeated.length, repeated.added_at), (6, None));
    let longer = draft(&test, &session, adding(Some(part), 8, "\0\u{FDD0}0")).await;
    assert_eq!((longer.length, longer.added_at), (13, Some(9)));
    for (offset, words) in [(1, "b"), (2, "\0"), (8, "\u{FDD0}"), (14, "x")] {
        let error = test
            .app
            .messages()
            .append_draft(&session, "a1", adding(Some(part), offset, words))
            .await
            .expect_err("refused");
        assert_eq!((error.reason, error.metadata["length_bytes"].as_str()), (Reason::OffsetMismatch, "13"), "{offset}");
    }
    let words = "a\0b\u{FDD0}é\0\u{FDD0}0";
    let (_, drafts, _) = test.app.messages().get(&session, "a1").await.expect("the message");
    assert_eq!(drafts, [written(part, words)]);
    test.app.messages().append_parts(&session, "a1", vec![OpenPart::draft(part, None)]).await.expect("closed");
    let test = test.restart().await;
    let (message, ..) = test.app.messages().get(&session, "a1").await.expect("the message");
    assert_eq!(words_of(&message), words);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn words_that_do_not_follow_on_are_refused() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"hello\"\na1 open\na2 \"sealed\"").await;
    let DraftReceipt { part, .. } = draft(&test, &session, adding(None, 0, "abc")).await;
    let app = &test.app;
    for (words, reason) in [
        (adding(Some(part), 2, "x"), Reason::OffsetMismatch),
        (adding(Some(part), 4, "x"), Reason::OffsetMismatch),
        (adding(None, 1, "x"), Reason::OffsetMismatch),
        (adding(Some(PartId(uuid::Uuid::from_u128(7))), 0, "x"), Reason::DraftNotFound),
        (adding(None, 0, &"x".repeat(limits::DRAFT_BYTES_MAX + 1)), Reason::LimitExceeded),
        (adding(Some(part), 3, &"x".repeat(limits::DRAFT_BYTES_MAX)), Reason::LimitExceeded),
    ] {
        let error = app.messages().append_draft(&session, "a1", words).await.expect_err("refused");
        assert_eq!(error.reason, reason, "{error}");
        if reason == Reason::OffsetMismatch {
            assert!(error.metadata.contains_key("length_bytes"), "so that the writer can go on from there");
        }
    }
    let error = app.messages().append_draft(&session, "a2", adding(None, 0, "x")).await.expect_err("sealed");
    assert_eq!(error.reason, Reason::MessageSealed);
    let error = app.messages().append_draft(&session, "a9", adding(None, 0, "x")).await.expect_err("not there");
    assert_eq!(error.reason, Reason::MessageNotFound);
    for _ in 1..limits::MESSAGE_DRAFTS_MAX {
        draft(&test, &session, adding(None, 0, "x")).await;
    }
    let error = app.messages().append_draft(&session, "a1", adding(None, 0, "x")).await.expect_err("too many");
    assert_eq!(error.reason, Reason::LimitExceeded);
    let (_, drafts, _) = app.messages().get(&session, "a1").await.expect("the message");
    assert_eq!(drafts[0], written(part, "abc"), "what was refused left nothing");
}

#[tokio::test]
async fn a_sealed_message_takes_nothing_more() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "a1 \"done\"").await;
    let app = &test.app;
    let part = vec![OpenPart::Whole(text("more"))];
    let error = app.messages().append_parts(&session, "a1", part).await.expect_err("sealed");
    assert_eq!(error.reason, Reason::MessageSealed);
    let error = app.messages().finish(&session, "a1", Finish::default(), None).await;
    assert_eq!(error.expect_err("sealed").reason, Reason::MessageSealed);
    test.append(&session, "a2 \"half\" open").await;
    for refusal in [
        app.messages().edit(&session, "a2", &[text("x")], None).await.map(drop),
        app.messages().pin(&session, "a2").await.map(drop),
        app.messages().rewind(&session, "a2", None).await.map(drop),
    ] {
        assert_eq!(refusal.expect_err("open").reason, Reason::MessageOpen);
    }
}

#[tokio::test]
async fn a_draft_closes_once() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "a1 open").await;
    let DraftReceipt { part, .. } = draft(&test, &session, adding(None, 0, "abc")).await;
    let twice = vec![OpenPart::draft(part, None), OpenPart::draft(part, None)];
    let error = test.app.messages().append_parts(&session, "a1", twice).await.expect_err("named twice");
    assert_eq!(error.reason, Reason::DraftNotFound);
    let once = || vec![OpenPart::draft(part, None)];
    test.app.messages().append_parts(&session, "a1", once()).await.expect("closed");
    let error = test.app.messages().append_parts(&session, "a1", once()).await.expect_err("closed before");
    assert_eq!(error.reason, Reason::DraftNotFound);
    assert_eq!(test.history(&session).await[0].parts.len(), 1);
}

#[tokio::test]
async fn a_parts_client_id_is_used_once_in_its_message() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "a1 open").await;
    let named = |words: &str| {
        let mut part = text(words);
        part.client_id = Some("p1".to_owned());
        vec![OpenPart::Whole(part)]
    };
    test.app.messages().append_parts(&session, "a1", named("one")).await.expect("added");
    let error = test.app.messages().append_parts(&session, "a1", named("two")).await.expect_err("reused");
    assert_eq!(error.reason, Reason::ClientIdReused);
    let again = test.app.messages().append_parts(&session, "a1", named("one")).await.expect("the same again");
    let history = test.history(&session).await;
    assert_eq!((again.existed_count, history[0].parts.len()), (1, 1));
    assert_eq!(again.ids, [history[0].parts[0].id.0]);
}

#[tokio::test]
async fn a_draft_with_a_client_id_begins_once() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "a1 open").await;
    let named = |id: &str, delta: &str| NewDraftText { client_id: Some(id.to_owned()), ..adding(None, 0, delta) };
    let first = draft(&test, &session, named("p1", "grü")).await;
    let again = draft(&test, &session, named("p1", "grü")).await;
    assert_eq!((again.part, again.length, first.added_at, again.added_at), (first.part, 4, Some(0), None));
    draft(&test, &session, adding(Some(first.part), 4, "ß")).await;
    let test = test.restart().await;
    let again = draft(&test, &session, named("p1", "grü")).await;
    assert_eq!((again.part, again.length), (first.part, 4), "so that the writer can go on from there");
    let longer = draft(&test, &session, named("p1", "grüße")).await;
    assert_eq!((longer.length, longer.added_at), (7, Some(6)), "a writer that has forgotten all begins again");
    let other = draft(&test, &session, named("p2", "grü")).await;
    assert_ne!(other.part, first.part);
    let refused = async |words| {
        let refused = test.app.messages().append_draft(&session, "a1", words).await.expect_err("refused");
        assert_eq!(refused.reason, Reason::ClientIdReused);
    };
    refused(named("p1", "gra")).await;
    refused(named("p1", "grüse")).await;
    refused(NewDraftText { kind: DraftKind::Reasoning, ..named("p1", "grü") }).await;
    let mut part = text("grüße");
    part.client_id = Some("p1".to_owned());
    let whole = vec![OpenPart::Whole(part)];
    let error = test.app.messages().append_parts(&session, "a1", whole).await.expect_err("a draft's");
    assert_eq!(error.reason, Reason::ClientIdReused);
    let long = named(&"x".repeat(limits::NAME_BYTES_MAX + 1), "x");
    test.app.messages().append_draft(&session, "a1", long).await.expect_err("too long an id");

    let close = vec![OpenPart::draft(first.part, None)];
    test.app.messages().append_parts(&session, "a1", close).await.expect("closed");
    assert_eq!(draft(&test, &session, named("p1", "grü")).await.part, first.part);
    refused(named("p1", "grüße!")).await;
    test.app.messages().finish(&session, "a1", Finish::default(), None).await.expect("sealed");
    let parts = test.history(&session).await.remove(0).parts;
    let names: Vec<_> = parts.iter().map(|part| (part.id, part.client_id.as_deref())).collect();
    assert_eq!(names, [(first.part, Some("p1")), (other.part, Some("p2"))], "a part keeps its draft's ids");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn words_that_are_sent_again_are_answered_again_and_added_once() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "a1 open").await;
    let part = draft(&test, &session, adding(None, 0, "grüß")).await.part;
    let words = [adding(Some(part), 6, " dich"), adding(Some(part), 11, ", Welt")];
    let mut answers = Vec::new();
    for words in &words {
        answers.push(draft(&test, &session, words.clone()).await);
    }
    let again = async |test: &TestApp| {
        for (words, answer) in words.iter().zip(&answers) {
            let again = draft(test, &session, words.clone()).await;
            assert_eq!((again.part, again.length, again.added_at), (part, answer.length, None));
        }
    };
    again(&test).await;
    // A repeated request with more text; only the new text is added.
    let longer = draft(&test, &session, adding(Some(part), 11, ", Welt!")).await;
    assert_eq!((longer.length, longer.added_at), (18, Some(17)));
    let test = test.restart().await;
    again(&test).await;
    for words in [adding(Some(part), 6, " mich"), adding(Some(part), 5, "x"), adding(Some(part), -1, "x")] {
        let error = test.app.messages().append_draft(&session, "a1", words).await.expect_err("others are there");
        assert_eq!((error.reason, error.metadata["length_bytes"].as_str()), (Reason::OffsetMismatch, "18"));
    }
    let (_, drafts, _) = test.app.messages().get(&session, "a1").await.expect("the message");
    assert_eq!(drafts, [written(part, "grüß dich, Welt!")]);

    let close = vec![OpenPart::draft(part, None)];
    test.app.messages().append_parts(&session, "a1", close).await.expect("closed");
    again(&test).await;
    let more =
        async |test: &TestApp| test.app.messages().append_draft(&session, "a1", adding(Some(part), 18, "?")).await;
    assert_eq!(more(&test).await.expect_err("closed").reason, Reason::DraftNotFound);
    test.app.messages().finish(&session, "a1", Finish::default(), None).await.expect("sealed");
    again(&test).await;
    assert_eq!(more(&test).await.expect_err("sealed").reason, Reason::MessageSealed);
    test.app.sessions().archive(&session).await.expect("archived");
    again(&test).await;
    assert_eq!(more(&test).await.expect_err("archived").reason, Reason::SessionArchived);
    assert_eq!(words_of(&test.history(&session).await[0]), "grüß dich, Welt!");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn drafts_count_among_the_parts_that_a_message_may_have() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "a1 open").await;
    let parts = |count: usize| vec![OpenPart::Whole(text("x")); count];
    let add = |count| test.app.messages().append_parts(&session, "a1", parts(count));
    add(limits::MESSAGE_PARTS_MAX - 2).await.expect("two are left");
    let part = draft(&test, &session, adding(None, 0, "one")).await.part;
    assert_eq!(add(2).await.expect_err("one is left").reason, Reason::LimitExceeded);
    draft(&test, &session, adding(None, 0, "two")).await;
    let error =
        test.app.messages().append_draft(&session, "a1", adding(None, 0, "three")).await.expect_err("one too many");
    assert_eq!(error.reason, Reason::LimitExceeded);
    draft(&test, &session, adding(Some(part), 3, " more")).await;
    let close = vec![OpenPart::draft(part, None)];
    test.app.messages().append_parts(&session, "a1", close).await.expect("a draft's place is its part's");
    test.app.messages().finish(&session, "a1", Finish::default(), None).await.expect("sealed");
    assert_eq!(test.history(&session).await[0].parts.len(), limits::MESSAGE_PARTS_MAX);
}

#[tokio::test]
async fn an_open_message_grows_to_its_limit_of_parts() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "a1 \"one\" open").await;
    let parts = |count: usize| vec![OpenPart::Whole(text("x")); count];
    let add = |count| test.app.messages().append_parts(&session, "a1", parts(count));
    add(limits::MESSAGE_PARTS_MAX - 1).await.expect("as many as may be");
    assert_eq!(add(1).await.expect_err("one too many").reason, Reason::LimitExceeded);
    assert_eq!(test.history(&session).await[0].parts.len(), limits::MESSAGE_PARTS_MAX);
}

#[tokio::test]
async fn an_open_message_grows_to_its_limit_of_bytes() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "a1 open").await;
    let mega = 1024 * 1024;
    let words = |size: usize| vec![OpenPart::Whole(text(&"x".repeat(size)))];
    // Large media are stored apart from their part, and count like it.
    let source = MediaSource::Bytes(vec![7; 3 * mega]);
    let image = Media { mime_type: "image/png".to_owned(), name: String::new(), source };
    let image = vec![OpenPart::Whole(NewPart::new(PartBody::Media(image)))];
    test.app.messages().append_parts(&session, "a1", image).await.expect("3 MiB");
    test.app.messages().append_parts(&session, "a1", words(3 * mega)).await.expect("6 MiB");
    let DraftReceipt { part, length, .. } = draft(&test, &session, adding(None, 0, &"y".repeat(mega))).await;
    let mut test = test;
    for restarted in [false, true] {
        if restarted {
            test = test.restart().await;
        }
        let large = "y".repeat(3 * mega / 2);
        let refused = [
            test.app.messages().append_parts(&session, "a1", words(3 * mega / 2)).await.map(drop),
            test.app.messages().append_draft(&session, "a1", adding(None, 0, &large)).await.map(drop),
            test.app.messages().append_draft(&session, "a1", adding(Some(part), length, &large)).await.map(drop),
        ];
        for refused in refused {
            assert_eq!(refused.expect_err("more than 8 MiB").reason, Reason::LimitExceeded, "restarted: {restarted}");
        }
    }
    // A draft that closes is counted once.
    let close = vec![OpenPart::draft(part, None), OpenPart::Whole(text(&"x".repeat(mega / 2)))];
    test.app.messages().append_parts(&session, "a1", close).await.expect("7.5 MiB");
    draft(&test, &session, adding(None, 0, &"y".repeat(mega / 4))).await;
    test.app.messages().finish(&session, "a1", Finish::default(), None).await.expect("sealed");
    assert_eq!(test.history(&session).await[0].parts.len(), 5);
}

#[tokio::test]
async fn drafts_and_open_messages_outlive_the_daemon() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"hello\"\na1 \"first\" open").await;
    let DraftReceipt { part, .. } = draft(&test, &session, adding(None, 0, "second ")).await;
    let test = test.restart().await;
    assert_eq!(draft(&test, &session, adding(Some(part), 7, "half")).await.length, 11);
    let test = test.kill().await;
    let (_, drafts, _) = test.app.messages().get(&session, "a1").await.expect("the message");
    assert_eq!(drafts, [written(part, "second half")]);
    test.append(&session, "u2 \"somebody else meanwhile\"").await;
    // A draft that is open when the message ends closes with its text so far.
    let finish = Finish { reason: Some(FinishReason::Aborted), ..Finish::default() };
    test.app.messages().finish(&session, "a1", finish, None).await.expect("sealed");
    let history = test.history(&session).await;
    let names: Vec<&str> = history.iter().filter_map(|message| message.client_id.as_deref()).collect();
    assert_eq!(names, ["u1", "a1", "u2"], "a message stands where it was opened");
    assert_eq!(words_of(&history[1]), "firstsecond half");
    assert_eq!(history[1].parts[1].id, part);
    assert_eq!(test.number("select count(*) from draft"), 0);
    let shown = test.view(&session).await.messages;
    let closed: Vec<&PartBody> = shown[1].parts.iter().map(|part| &*part.body).collect();
    assert_eq!(closed.iter().filter_map(|body| body_text(body)).collect::<Vec<_>>(), ["first", "second half"]);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn watchers_see_the_words_as_they_come() {
    use longhand::app::events::{Frame, Start, SubscribeRequest};
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, "a1 open").await;
    let request = SubscribeRequest {
        sessions: vec![session.clone()],
        live: true,
        start: Start::Now,
        ..SubscribeRequest::default()
    };
    let mut watch = crate::support::Watch::new(test.app.events().subscribe(request).await.expect("a stream"));
    assert!(matches!(watch.frame().await, Frame::Ready { .. }));
    let DraftReceipt { part, .. } = draft(&test, &session, adding(None, 0, "grüß")).await;
    draft(&test, &session, adding(Some(part), 6, " dich")).await;
    let mut heard = String::new();
    while heard.len() < 11 {
        let Frame::DraftDelta { session: id, delta } = watch.frame().await else { panic!("only words are said") };
        assert_eq!((id.to_string(), delta.part), (session.clone(), part));
        assert_eq!(usize::try_from(delta.offset).expect("small"), heard.len());
        heard.push_str(&delta.delta);
    }
    assert_eq!(heard, "grüß dich");
    assert!(watch.log.is_empty());
}

const SECOND_MS: i64 = 1_000;

/// A session with a message that stays open for this time, with a call and a draft.
async fn left_open(test: &TestApp, timeout_ms: Option<i64>) -> (String, PartId) {
    let session = test.manual_session().await;
    let mut messages = conversation("u1 \"go\"\na1 call=c1 open");
    messages[1].open_timeout_ms = timeout_ms;
    test.app.messages().append(&session, messages, None, None).await.expect("appended");
    let part = draft(test, &session, adding(None, 0, "half a w")).await.part;
    test.settled().await;
    (session, part)
}

/// Advances the clock, and lets the daemon act on it.
async fn pass(test: &TestApp, milliseconds: i64) {
    test.clock.skip_to(test.clock.now().plus_millis(milliseconds));
    test.longhand.store().jobs().wake().await.expect("done");
}

async fn is_open(test: &TestApp, session: &str) -> bool {
    test.app.messages().get(session, "a1").await.expect("the message").0.sealed_revision.is_none()
}

#[tokio::test]
async fn a_message_that_nobody_writes_to_is_sealed_with_what_it_has() {
    for (given, timeout) in [(None, limits::OPEN_TIMEOUT_MS_DEFAULT), (Some(3 * SECOND_MS), 3 * SECOND_MS)] {
        let test = TestApp::start().await;
        let (session, part) = left_open(&test, given).await;
        let mut watch = test.watch().await;
        pass(&test, timeout - SECOND_MS).await;
        assert!(is_open(&test, &session).await);
        // The scheduler wakes by itself, without a request.
        test.clock.skip_to(test.clock.now().plus_millis(SECOND_MS));
        test.wake.wake();
        let sealed = watch.wait_for(EventKind::MessageFinished).await;
        let (message, drafts, _) = test.app.messages().get(&session, "a1").await.expect("the message");
        let expected =
            EventBody::MessageFinished { message: message.id, reason: Some(FinishReason::Aborted), expired: true };
        assert_eq!((sealed.body, sealed.actor.as_str()), (expected, ""));
        assert_eq!((message.finish.reason, drafts.len()), (Some(FinishReason::Aborted), 0));
        assert_eq!((message.parts.len(), body_text(&message.parts[1].body)), (2, Some("half a w")));

        // A late writer is refused with that reason, and appends the rest as a new message.
        let app = &test.app;
        let late = [
            app.messages().append_draft(&session, "a1", adding(Some(part), 8, "ord")).await.map(drop),
            app.messages().append_parts(&session, "a1", vec![OpenPart::Whole(text("x"))]).await.map(drop),
            app.messages().append_parts(&session, "a1", Vec::new()).await.map(drop),
            app.messages().finish(&session, "a1", Finish::default(), None).await.map(drop),
        ];
        for refused in late {
            assert_eq!(refused.expect_err("it is sealed").reason, Reason::MessageExpired);
        }
        test.append(&session, "t1 result=c1:done").await;
        let view = ["user shown: go", "assistant shown: call c1 half a w", "tool shown: result c1 done"];
        assert_eq!(shown(&test.view(&session).await), view);
        assert_eq!(test.number("select count(*) from open_message"), 0);
        assert_eq!(test.findings().await, []);
    }
}

#[tokio::test]
async fn every_write_to_a_message_keeps_it_open() {
    let test = TestApp::start().await;
    let (session, part) = left_open(&test, Some(10 * SECOND_MS)).await;
    let app = &test.app;
    let revision = test.revision(&session).await;
    for round in 0..3 {
        pass(&test, 9 * SECOND_MS).await;
        match round {
            0 => drop(draft(&test, &session, adding(Some(part), 8, "ord")).await),
            1 => drop(app.messages().append_parts(&session, "a1", vec![OpenPart::Whole(text("x"))]).await),
            _ => drop(app.messages().append_parts(&session, "a1", Vec::new()).await.expect("a heartbeat")),
        }
    }
    assert_eq!(test.revision(&session).await, revision + 1, "a heartbeat is no part of history");
    pass(&test, 9 * SECOND_MS).await;
    assert!(is_open(&test, &session).await);
    // Writes to other messages, and reads, do not count.
    test.append(&session, "u2 \"and?\"").await;
    test.view(&session).await;
    pass(&test, SECOND_MS).await;
    assert!(!is_open(&test, &session).await);
}

#[tokio::test]
async fn the_time_of_an_open_message_stops_while_nobody_can_write() {
    let test = TestApp::start().await;
    let (session, _) = left_open(&test, Some(10 * SECOND_MS)).await;
    pass(&test, 9 * SECOND_MS).await;
    let test = test.restart().await;
    pass(&test, 9 * SECOND_MS).await;
    assert!(is_open(&test, &session).await, "a start of the daemon gives it the whole time");

    test.app.sessions().archive(&session).await.expect("archived");
    pass(&test, 99 * SECOND_MS).await;
    assert!(is_open(&test, &session).await, "nothing changes an archived session");
    let test = test.restart().await;
    pass(&test, 99 * SECOND_MS).await;
    assert!(is_open(&test, &session).await);
    test.app.sessions().restore(&session).await.expect("restored");
    pass(&test, 9 * SECOND_MS).await;
    assert!(is_open(&test, &session).await);
    test.clock.suspend(3_600 * SECOND_MS);
    test.longhand.store().jobs().wake().await.expect("done");
    assert!(is_open(&test, &session).await, "the machine slept");
    pass(&test, 9 * SECOND_MS).await;
    assert!(is_open(&test, &session).await);
    pass(&test, SECOND_MS).await;
    assert!(!is_open(&test, &session).await);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn an_open_timeout_that_makes_no_sense_is_refused() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    for (line, timeout_ms) in [
        ("a1 open", limits::OPEN_TIMEOUT_MS_MIN - 1),
        ("a1 open", limits::OPEN_TIMEOUT_MS_MAX + 1),
        ("a1 \"sealed\"", limits::OPEN_TIMEOUT_MS_MIN),
    ] {
        let mut messages = conversation(line);
        messages[0].open_timeout_ms = Some(timeout_ms);
        let refused = test.app.messages().append(&session, messages, None, None).await.expect_err("refused");
        assert_eq!(refused.metadata["field"], "messages[0].open_timeout");
    }
}

/// Text that comes once its message takes no more is refused for that, whatever names its draft.
#[tokio::test]
async fn late_text_is_refused_for_the_reason_why_its_message_is_closed() {
    let test = TestApp::start().await;
    let words = |client_id: Option<&str>, part, offset, delta: &str| NewDraftText {
        client_id: client_id.map(str::to_owned),
        ..adding(part, offset, delta)
    };
    for end in ["sealed", "expired", "lost"] {
        let session = test.manual_session().await;
        let caller = match end {
            "lost" => {
                test.app.clone().in_run(test.app.runs().acquire(&session, None, false).await.expect("a run").run.epoch)
            }
            _ => test.app.clone(),
        };
        caller.messages().append(&session, conversation("a1 open"), None, None).await.expect("opened");
        let begun = caller
            .messages()
            .append_draft(&session, "a1", words(Some("d"), None, 0, "some words"))
            .await
            .expect("begun");
        let reason = match end {
            "sealed" => {
                test.app.messages().finish(&session, "a1", NewFinish::default(), None).await.expect("sealed");
                Reason::MessageSealed
            }
            "expired" => {
                pass(&test, 3_600_000).await;
                Reason::MessageExpired
            }
            _ => {
                test.app
                    .runs()
                    .cancel(&session, CancelRun { epoch: None, force: true, tree: false })
                    .await
                    .expect("ended");
                Reason::RunLost
            }
        };
        let late = [
            ("more words", words(Some("d"), None, 10, " and more")),
            ("other words", words(Some("d"), None, 0, "other words")),
            ("a gap", words(Some("d"), None, 99, "far behind")),
            ("another kind", NewDraftText { kind: DraftKind::Reasoning, ..words(Some("d"), None, 0, "some words") }),
            ("by the part's id", words(None, Some(begun.part), 10, " and more")),
            ("a new draft", words(Some("e"), None, 0, "new")),
        ];
        for (what, late) in late {
            let error = caller.messages().append_draft(&session, "a1", late).await.expect_err("it takes no more");
            assert_eq!(error.reason, reason, "{end}: {what}");
        }
        let again = caller.messages().append_draft(&session, "a1", words(Some("d"), None, 0, "some words")).await;
        assert_eq!(again.expect("it is there").part, begun.part, "{end}");
    }
}
