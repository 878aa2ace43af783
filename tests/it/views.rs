//! Views for callers: their size, their differences, and the actions on a view over its window.

use crate::support::{Line, ScriptedSummarizer, TestApp, conversation, shown, text, turns, window};
use longhand::app::Reason;
use longhand::app::compactions::NewCompaction;
use longhand::app::views::{OverflowAction, ServedView, ViewRequest};
use longhand::model::compaction::{CompactionKind, RevisionRange};
use longhand::model::event::{EventBody, EventKind};
use longhand::model::message::{Finish, FinishReason, NewMessage, Role};
use longhand::model::part::{Media, MediaSource, NewPart, PartBody};
use longhand::model::usage::{ModelWindow, Usage};
use longhand::policy::pairing;
use std::time::Duration;

async fn ask(test: &TestApp, session: &str, request: ViewRequest) -> ServedView {
    test.app.views().get(session, request).await.expect("a view")
}

#[tokio::test]
async fn a_caller_that_holds_a_view_gets_what_is_new_in_it() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 3, 50)).await;
    let held = test.view(&session).await;
    let knowing = |view: &ServedView| ViewRequest {
        known_hash: Some(view.hash.to_vec()),
        known_revision: Some(view.revision),
        ..ViewRequest::default()
    };
    let same = ask(&test, &session, knowing(&held)).await;
    assert_eq!((same.hash, same.known_count, same.messages.len()), (held.hash, 6, 0));
    test.append(&session, "u4 \"more\"").await;
    let grown = ask(&test, &session, knowing(&held)).await;
    assert_eq!((grown.known_count, shown(&grown)), (6, vec!["user shown: more".to_owned()]));
    test.app.messages().edit(&session, "u3", &[text("better")], None).await.expect("edited");
    let edited = ask(&test, &session, knowing(&grown)).await;
    assert_eq!((edited.known_count, edited.messages.len()), (4, 3), "up to the first difference");
    let whole = test.view(&session).await;
    assert_eq!(edited.hash, whole.hash, "the hash is the whole view's");
    assert_eq!(whole.messages[4..], edited.messages);
    let unknown = ViewRequest { known_hash: Some(vec![7; 32]), ..ViewRequest::default() };
    assert_eq!(ask(&test, &session, unknown).await.known_count, 0);
    let short = ViewRequest { known_hash: Some(vec![7; 31]), ..ViewRequest::default() };
    assert_eq!(test.app.views().get(&session, short).await.expect_err("no hash").reason, Reason::InvalidField);
}

/// The store's newest event, the session's newest revision, the number of jobs, and of sessions to be evaluated.
async fn state(test: &TestApp, session: &str) -> (i64, i64, i64, i64) {
    let seq = test.number("select max(seq) from event");
    let jobs = test.number("select count(*) from job");
    let due = test.number("select count(*) from session where due_revision is not null or due_time is not null");
    (seq, test.revision(session).await, jobs, due)
}

#[tokio::test]
async fn a_large_view_is_compared_with_another_only_if_memory_allows_both() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let image = async |number: usize| {
        let source = MediaSource::Bytes(vec![0; 7_000_000]);
        let image = Media { mime_type: "image/png".to_owned(), source, ..Media::default() };
        let mut messages = conversation(&format!("u{number} \"look\""));
        messages[0].parts.push(NewPart::new(PartBody::Media(image)));
        test.app.messages().append(&session, messages, None, None).await.expect("appended");
    };
    for number in 1..=4 {
        image(number).await;
    }
    let four = test.view(&session).await;
    image(5).await;
    let five = test.view(&session).await;
    test.app.messages().rewind(&session, "u3", None).await.expect("rewound");
    let known = |view: &ServedView| ViewRequest {
        known_hash: Some(view.hash.to_vec()),
        known_revision: Some(view.revision),
        ..ViewRequest::default()
    };
    let compared = ask(&test, &session, known(&four)).await;
    assert_eq!((compared.known_count, compared.messages.len()), (3, 0));
    let whole = ask(&test, &session, known(&five)).await;
    assert_eq!((whole.known_count, whole.messages.len()), (0, 3), "35 MB take more memory than the view has");
    assert_eq!(whole.hash, compared.hash);
}

#[tokio::test]
async fn reading_with_a_smaller_window_starts_nothing_and_writes_nothing() {
    let test = TestApp::start().await;
    let session = test.session("pi@1.5", 200_000, 16_000).await;
    // A third of the window: some 67 000 tokens.
    test.append(&session, &turns(1, 24, 5_500)).await;
    test.settled().await;
    let before = state(&test, &session).await;
    let own = test.view(&session).await;
    assert!((60_000..80_000).contains(&own.context_tokens) && own.fits, "{}", own.context_tokens);
    for action in [OverflowAction::Return, OverflowAction::Wait, OverflowAction::Shorten] {
        let narrow = ViewRequest { window: Some(window(32_000, 4_000)), action, ..ViewRequest::default() };
        let view = ask(&test, &session, narrow).await;
        let is_shorter = action == OverflowAction::Shorten;
        assert_eq!((view.window_tokens, view.pending), (32_000, None), "{action:?}");
        assert_eq!((view.fits, view.shortened, view.hash != own.hash), (is_shorter, is_shorter, is_shorter));
    }
    test.settled().await;
    assert_eq!(state(&test, &session).await, before);
    let after = test.view(&session).await;
    assert_eq!((after.hash, after.context_tokens, after.fits), (own.hash, own.context_tokens, true));
}

#[tokio::test]
async fn an_append_with_a_smaller_window_starts_nothing_and_is_answered_for_that_window() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 200_000, 1_000).await;
    assert!(!test.append(&session, &turns(1, 9, 1_100)).await.context.due);
    // The decision about the session estimates its view; until then answers add up the appended messages.
    test.settled().await;
    let narrow = || Some(ModelWindow { overhead: 70, ..window(6_000, 1_000) });
    let words = "u10 \"hi\"\na10 open";
    let messages = conversation(words);
    let usage = test.app.messages().append(&session, messages, narrow(), None).await.expect("appended").context;
    let own = test.append(&session, words).await.context;
    assert_eq!((usage.window_tokens, usage.due_tokens, usage.due), (6_000, Some(5_000), false));
    let own_tokens = own.context_tokens.expect("known");
    assert_eq!((usage.context_tokens, own_tokens > 5_000), (Some(own_tokens + 70), true));
    let usage = Some(Usage { input: 7_000, ..Usage::default() });
    let finish = Finish { usage, reason: Some(FinishReason::Stop), ..Finish::default() };
    let sealed = test.app.messages().finish(&session, "a10", finish, narrow()).await.expect("sealed");
    assert_eq!(
        (sealed.context.context_tokens, sealed.context.window_tokens, sealed.context.due),
        (Some(7_000), 6_000, false)
    );
    test.settled().await;
    assert_eq!(test.number("select count(*) from job"), 0);
}

#[tokio::test]
async fn a_view_that_does_not_fit_names_what_is_pending_and_may_be_waited_for() {
    let script = ScriptedSummarizer::new([Line::Hold("S1".to_owned())]);
    let test = TestApp::with(script.clone()).await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    test.append(&session, &turns(1, 9, 1_400)).await;
    script.held().await;
    let view = test.view(&session).await;
    assert!(!view.fits && view.context_tokens > 6_000 && view.messages.len() == 18 && view.pending.is_some());
    // A waiting caller gets the compacted view as soon as it exists.
    let waiting = ViewRequest { action: OverflowAction::Wait, ..ViewRequest::default() };
    let (waited, ()) = futures::future::join(ask(&test, &session, waiting), async { script.release() }).await;
    assert!(waited.fits && waited.covered.is_some());
    assert_eq!(test.number("select count(*) from job"), 1);
}

#[tokio::test]
async fn a_wait_begins_with_the_wait_for_a_decision() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    assert!(test.append(&session, &turns(1, 9, 1_400)).await.context.due);
    // No compaction has been requested yet, or only just now.
    let waiting = ViewRequest { action: OverflowAction::Wait, ..ViewRequest::default() };
    let view = ask(&test, &session, waiting).await;
    assert!(view.fits && view.covered.is_some());
}

#[tokio::test]
async fn waiting_ends_with_its_time() {
    let script = ScriptedSummarizer::new([Line::Hold("S1".to_owned())]);
    let test = TestApp::with(script.clone()).await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    test.append(&session, &turns(1, 9, 1_400)).await;
    script.held().await;
    let request =
        ViewRequest { action: OverflowAction::Wait, wait: Some(Duration::from_millis(50)), ..ViewRequest::default() };
    let view = ask(&test, &session, request).await;
    assert!(!view.fits && view.pending.is_some(), "the whole view, and what is being done about it");
}

#[tokio::test]
async fn a_view_can_be_shortened_for_one_call() {
    let script = ScriptedSummarizer::new([Line::Hold("S1".to_owned())]);
    let test = TestApp::with(script.clone()).await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 9, 1_100)).await;
    let request =
        ViewRequest { window: Some(window(3_000, 1_000)), action: OverflowAction::Shorten, ..ViewRequest::default() };
    let view = ask(&test, &session, request).await;
    assert!(view.shortened && view.fits && view.estimated_tokens <= 3_000);
    assert!(!view.shortened_away.is_empty());
    assert_eq!(view.shortened_away.len() + view.messages.len(), 18, "what is not shown is named");
    let whole = test.view(&session).await;
    assert_eq!((whole.shortened, whole.messages.len()), (false, 18), "for that call only");
}

#[tokio::test]
async fn one_long_turn_is_shortened_too() {
    let steps: String =
        (1..=40).map(|step| format!("a{step} \"step {step}\" call=c{step}\nt{step} result=c{step}:3000c\n")).collect();
    let turn = format!("u1 \"do it\"\n{steps}");
    for conversation in [turn.as_str(), "u1 200000c", "u1 90000c\na1 \"hm\" call=c1\nt1 result=c1:90000c"] {
        let test = TestApp::with(ScriptedSummarizer::new([Line::Hold("S1".to_owned())])).await;
        let session = test.manual_session().await;
        test.append(&session, conversation).await;
        let request = ViewRequest {
            window: Some(window(2_000, 1_000)),
            action: OverflowAction::Shorten,
            ..ViewRequest::default()
        };
        let view = ask(&test, &session, request).await;
        let whole = test.view(&session).await;
        assert!(view.shortened && view.fits && view.estimated_tokens <= 2_000, "{}", view.estimated_tokens);
        assert_eq!(pairing::violations(&view.messages), Vec::<String>::new());
        assert_eq!(view.messages[0].revision, whole.messages[0].revision, "the request stays");
        let newest = |view: &ServedView| view.messages.last().map(|last| last.revision);
        assert_eq!(newest(&view), newest(&whole), "and so does the newest result");
        assert_eq!(view.shortened_away.len() + view.messages.len(), whole.messages.len(), "what is not shown is named");
    }
}

#[tokio::test]
async fn usage_of_a_shortened_view_does_not_count_for_the_whole_one() {
    let test = TestApp::with(ScriptedSummarizer::new([Line::Hold("S1".to_owned())])).await;
    let session = test.manual_session().await;
    test.append(&session, &turns(1, 9, 1_100)).await;
    test.append(&session, "u10 \"go on\"\na10 open").await;
    let shorten = || ViewRequest {
        window: Some(window(3_000, 1_000)),
        action: OverflowAction::Shorten,
        ..ViewRequest::default()
    };
    let finish = |view: &ServedView| Finish {
        usage: Some(Usage { input: 2_000, output: 10, ..Usage::default() }),
        view: Some(view.token.clone()),
        ..Finish::default()
    };
    let short = ask(&test, &session, shorten()).await;
    let whole = test.view(&session).await;
    assert!(short.shortened && short.hash != whole.hash);
    test.app.messages().finish(&session, "a10", finish(&short), None).await.expect("sealed");
    let mut reply = conversation("a11 \"so\"");
    reply[0].finish = Some(finish(&short));
    test.app.messages().append(&session, reply, None, None).await.expect("appended");
    assert!(test.view(&session).await.context_tokens >= whole.estimated_tokens);
    let mut reply = conversation("a12 \"so\"");
    reply[0].finish = Some(finish(&whole));
    test.app.messages().append(&session, reply, None, None).await.expect("appended");
    assert!(test.view(&session).await.context_tokens < whole.estimated_tokens);
    let window_of = |body: &EventBody| match body {
        EventBody::UsageRecorded { window, .. } => Some(window.context),
        _ => None,
    };
    let windows: Vec<i64> = test.events().await.iter().filter_map(|event| window_of(&event.body)).collect();
    assert_eq!(windows, [3_000, 3_000, 0], "the window of the view that each was given");
}

#[tokio::test]
async fn a_revision_that_never_was_has_no_view() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let newest = test.append(&session, "u1 \"one\"").await.revision;
    for at in [-1, newest + 1] {
        let request = ViewRequest { as_of: Some(at), ..ViewRequest::default() };
        let error = test.app.views().get(&session, request).await.expect_err("refused");
        assert_eq!(error.reason, Reason::RevisionOutOfRange);
    }
    assert!(test.view_as_of(&session, 0).await.messages.is_empty());
}

#[tokio::test]
async fn reading_does_not_reduce_a_session_on_hold() {
    let script = ScriptedSummarizer::new([Line::Say("S1".to_owned())]);
    let test = TestApp::with(script.clone()).await;
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    let mut watch = test.watch().await;
    test.append(&session, &turns(1, 9, 1_400)).await;
    watch.wait_for(EventKind::Compacted).await;
    test.app.compactions().undo(&session, None).await.expect("undone");
    test.settled().await;
    let view = test.view(&session).await;
    assert_eq!((view.fits, view.pending), (false, None));
    assert_eq!(test.number("select count(*) from job"), 1);
}

#[tokio::test]
async fn a_message_of_which_nothing_is_left_to_show_is_left_out_with_that_reason() {
    let test = TestApp::start().await;
    let session = test.session("anthropic-context-editing@2025-10", 0, 0).await;
    let reply = |body| NewMessage {
        finish: Some(Finish { reason: Some(FinishReason::Stop), ..Finish::default() }),
        ..NewMessage::sealed(Role::Assistant, vec![NewPart::new(body)])
    };
    let thought = async |words: &str| {
        let message = reply(PartBody::Reasoning(words.to_owned()));
        let appended = test.app.messages().append(&session, vec![message], None, None).await.expect("appended");
        RevisionRange { first: appended.revision, last: appended.revision }
    };
    test.append(&session, "u1 \"think\"").await;
    let first = thought("hm").await;
    let silent = thought("").await;
    test.append(&session, &turns(2, 4, 50)).await;
    test.append(&session, "u5 \"think again\"").await;
    let last = thought("well").await;
    assert_eq!(test.view(&session).await.empty, [silent], "it says nothing");
    let wanted = NewCompaction::of_kind(CompactionKind::Prune);
    test.app.compactions().start(&session, wanted).await.expect("old thoughts can be cleared");
    test.settled().await;
    let view = test.view(&session).await;
    let range = RevisionRange { first: first.first, last: silent.last };
    assert_eq!(view.empty, [range], "a thought that was cleared is all that its message said");
    assert!(view.messages.iter().any(|message| message.revision == last.first), "the last one is shown");
    assert_eq!(test.view_as_of(&session, last.last).await.empty, [silent], "and as it was then");
}
