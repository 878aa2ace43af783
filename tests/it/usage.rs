//! Usage that replies report, and the views that they belong to.

use crate::support::{TestApp, conversation, text, turns, window};
use crate::window_fit::settled;
use longhand::app::append::AppendAnswer;
use longhand::app::sessions::{ForkPoint, NewSession, SessionChange};
use longhand::app::views::{OverflowAction, ServedView, ViewRequest};
use longhand::app::{Error, Reason};
use longhand::model::compaction::Trigger;
use longhand::model::event::{EventBody, EventKind};
use longhand::model::message::{FinishReason, GivenView, NewFinish, NewMessage};
use longhand::model::usage::{ModelWindow, Usage, UsageDoubt};
use std::collections::BTreeMap;
use tokio::sync::Notify;

#[tokio::test]
async fn messages_after_a_view_are_estimated_on_top_at_any_age() {
    for restarts in [false, true] {
        let mut test = TestApp::start().await;
        let session = test.session("opencode@seed", 60_000, 1_000).await;
        test.append(&session, &turns(1, 2, 400)).await;
        let view = test.view(&session).await;
        // Other clients write 300 mutations, some 20 000 tokens.
        for number in 0..300 {
            test.append(&session, &format!("u{} 270c", 100 + number)).await;
        }
        let before = test.view(&session).await.context_tokens;
        if restarts {
            test = test.restart().await;
        }
        let late = reply("a3", view.context_tokens, Some(&view.token));
        let context = append(&test, &session, late).await.expect("appended").context;
        let now = test.view(&session).await;
        assert_eq!(Some(now.context_tokens), context.context_tokens);
        assert!((before - 300..before + 300).contains(&now.context_tokens), "{before} and {}", now.context_tokens);
        assert_eq!(test.findings().await, []);
    }
}

/// A reply with usage, to the view of a token.
fn reply(name: &str, input: i64, token: Option<&str>) -> Vec<NewMessage> {
    let mut reply = conversation(&format!("{name} \"so be it\""));
    reply[0].finish = Some(NewFinish {
        reason: Some(FinishReason::Stop),
        usage: Some(Usage { input, output: 5, ..Usage::default() }),
        view: token.map(str::to_owned),
        ..NewFinish::default()
    });
    reply
}

async fn append(test: &TestApp, session: &str, messages: Vec<NewMessage>) -> Result<AppendAnswer, Error> {
    test.app.messages().append(session, messages, None, None).await.map(|appended| appended.answer)
}

/// A view for a smaller window, shortened to it.
async fn shorter(test: &TestApp, session: &str) -> ServedView {
    let request = ViewRequest {
        window: Some(ModelWindow { model: "small".to_owned(), overhead: 9, ..window(600, 100) }),
        action: OverflowAction::Shorten,
        ..ViewRequest::default()
    };
    test.app.views().get(session, request).await.expect("a view")
}

#[tokio::test]
async fn a_reply_keeps_the_view_of_its_token() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 60_000, 1_000).await;
    test.append(&session, &turns(1, 4, 1_000)).await;
    let whole = test.view(&session).await;
    let short = shorter(&test, &session).await;
    append(&test, &session, reply("a5", 900, Some(&whole.token))).await.expect("appended");
    test.append(&session, "a6 open").await;
    let finish = NewFinish { view: Some(short.token.clone()), ..NewFinish::default() };
    test.app.messages().finish(&session, "a6", finish, None).await.expect("sealed");
    append(&test, &session, reply("a7", 900, None)).await.expect("appended");
    let given = |view: &ServedView, window, shortened| {
        Some(GivenView { revision: view.revision, hash: view.hash, window, shortened })
    };
    let small = ModelWindow { model: "small".to_owned(), overhead: 9, ..window(600, 100) };
    let expected = [given(&whole, window(60_000, 1_000), false), given(&short, small, true), None];
    let test = test.restart().await;
    for (name, view) in ["a5", "a6", "a7"].into_iter().zip(expected) {
        assert_eq!(test.app.messages().get(&session, name).await.expect("the message").0.finish.view, view, "{name}");
    }
    // A repeated reply is the same reply.
    let again = append(&test, &session, reply("a5", 900, Some(&whole.token))).await.expect("it is there");
    assert_eq!(again.existed_count, 1);
    let other = append(&test, &session, reply("a5", 900, Some(&test.view(&session).await.token))).await;
    assert_eq!(other.expect_err("to another view").reason, Reason::ClientIdReused);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn a_token_that_was_not_given_out_for_the_session_is_refused_before_anything_is_written() {
    let (test, elsewhere) = (TestApp::start().await, TestApp::start().await);
    let session = test.session("opencode@seed", 60_000, 1_000).await;
    let other = test.session("opencode@seed", 60_000, 1_000).await;
    let foreign = elsewhere.session("opencode@seed", 60_000, 1_000).await;
    test.append(&session, "u1 \"one\"\na0 open").await;
    let own = test.view(&session).await.token;
    let mut altered = own.clone();
    altered.replace_range(20..21, if &own[20..21] == "A" { "B" } else { "A" });
    let tokens = [
        String::new(),
        "none of ours".to_owned(),
        "A".repeat(100_000),
        altered,
        test.view(&other).await.token,
        elsewhere.view(&foreign).await.token,
    ];
    let before = test.number("select max(seq) from event");
    for token in &tokens {
        let messages = [conversation("u2 \"two\""), reply("a2", 900, Some(token))].concat();
        let error = append(&test, &session, messages).await.expect_err("refused");
        assert_eq!(error.reason, Reason::ViewTokenInvalid, "{token}");
        let finish = NewFinish { view: Some(token.clone()), ..NewFinish::default() };
        let sealed = test.app.messages().finish(&session, "a0", finish, None).await;
        assert_eq!(sealed.expect_err("refused").reason, Reason::ViewTokenInvalid, "{token}");
    }
    assert_eq!(test.number("select max(seq) from event"), before);
    // A token is valid at any time, also after a restart of the daemon.
    let test = test.restart().await;
    test.append(&session, "u3 \"three\"").await;
    append(&test, &session, reply("a3", 900, Some(&own))).await.expect("taken");
}

#[tokio::test]
async fn a_fork_takes_tokens_of_what_it_was_forked_from_as_far_as_both_share_it() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 60_000, 1_000).await;
    test.append(&session, "u1 \"one\"\na1 \"two\"").await;
    let shared = test.view(&session).await;
    let point = ForkPoint { as_of_revision: Some(shared.revision), ..ForkPoint::default() };
    test.append(&session, "u2 \"three\"").await;
    let later = test.view(&session).await;
    let forked = async |from: &str, point| {
        let fork = test.app.sessions().fork(from, point, None, String::new()).await;
        fork.expect("forked").0.session.id.to_string()
    };
    let fork = forked(&session, point).await;
    test.append(&fork, "u3 \"elsewhere\"").await;
    let of_fork = test.view(&fork).await;
    let deeper = forked(&fork, ForkPoint::default()).await;
    for (to, view, is_taken) in [
        (&fork, &shared, true),
        (&fork, &later, false),
        (&fork, &of_fork, true),
        (&deeper, &shared, true),
        (&deeper, &of_fork, true),
        (&deeper, &later, false),
        (&session, &of_fork, false),
    ] {
        let answer = append(&test, to, reply("a", 900, Some(&view.token))).await;
        let reason = answer.as_ref().err().map(|error| error.reason);
        assert_eq!(reason, (!is_taken).then_some(Reason::ViewTokenInvalid), "{} in {to}", view.revision);
    }
    // The usage of the parent's view does not count for the fork.
    let context = append(&test, &fork, reply("a", 9_000, Some(&shared.token))).await.expect("taken").context;
    assert!(context.context_tokens.is_some_and(|tokens| tokens < 2_000), "{context:?}");
}

#[tokio::test]
async fn usage_without_a_token_counts_until_the_view_is_first_changed_by_anything_but_appends() {
    for change in ["window", "policy", "edit", "rewind"] {
        let test = TestApp::start().await;
        let session = test.session("opencode@seed", 60_000, 1_000).await;
        test.append(&session, &turns(1, 3, 400)).await;
        let context = append(&test, &session, reply("a", 9_000, None)).await.expect("taken").context;
        assert_eq!(context.context_tokens, Some(9_005), "{change}");
        let update = async |change| {
            test.app.sessions().update(&session, change).await.expect("changed");
        };
        match change {
            "window" => update(SessionChange { window: Some(window(50_000, 0)), ..SessionChange::default() }).await,
            "policy" => {
                let policy_override_json = Some("{\"maintenance\": []}".to_owned());
                update(SessionChange { policy_override_json, ..SessionChange::default() }).await;
            }
            "edit" => drop(test.app.messages().edit(&session, "u2", &[text("better")], None).await.expect("edited")),
            _ => drop(test.app.messages().rewind(&session, "a2", None).await.expect("rewound")),
        }
        test.settled().await;
        let view = test.view(&session).await;
        assert!(view.context_tokens < 2_000, "{change}: {}", view.context_tokens);
        let context = append(&test, &session, reply("a", 9_000, None)).await.expect("taken").context;
        assert!(context.context_tokens.is_some_and(|tokens| tokens < 2_000), "{change}: {context:?}");
        let context = append(&test, &session, reply("a", 9_000, Some(&view.token))).await.expect("taken").context;
        assert!(context.context_tokens.is_some_and(|tokens| (9_005..9_100).contains(&tokens)), "{change}: {context:?}");
    }
}

#[tokio::test]
async fn a_view_whose_usage_is_far_above_its_estimate_is_shortened_in_proportion() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 60_000, 1_000).await;
    test.append(&session, &turns(1, 8, 1_000)).await;
    let whole = test.view(&session).await;
    // Four times the estimate, and more than the smaller window.
    append(&test, &session, reply("a9", 4 * whole.context_tokens, Some(&whole.token))).await.expect("appended");
    let whole = test.view(&session).await;
    let small = window(whole.context_tokens / 2, 100);
    let request = ViewRequest { window: Some(small), action: OverflowAction::Shorten, ..ViewRequest::default() };
    let short = test.app.views().get(&session, request).await.expect("a view");
    assert!((short.fits, short.shortened) == (true, true), "{} of {}", short.context_tokens, short.window_tokens);
    let left = short.estimated_tokens * 100 / whole.estimated_tokens;
    assert!((35..=50).contains(&left), "{left} % of the view is left in a window of half its size");
}

#[tokio::test]
async fn an_answer_is_consistent_during_concurrent_writes() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 4_000, 500).await;
    test.append(&session, &turns(1, 2, 100)).await;
    let ended = Notify::new();
    let writer = async {
        for number in 0..60 {
            let view = test.view(&session).await;
            let late = reply(&format!("a{}", 100 + number), view.context_tokens + 3, Some(&view.token));
            // A token of a view that was compacted meanwhile is still accepted; its usage does not count.
            append(&test, &session, late).await.expect("appended");
            test.append(&session, &format!("u{} 300c", 300 + number)).await;
        }
        test.settled().await;
        ended.notify_one();
    };
    let reader = async {
        let mut views = BTreeMap::new();
        let mut head = test.longhand.store().log().watch_head();
        loop {
            let view = test.view(&session).await;
            views.insert(view.revision, view);
            tokio::select! {
                changed = head.changed() => changed.expect("the store is open"),
                () = ended.notified() => break,
            }
        }
        let last = test.view(&session).await;
        views.insert(last.revision, last);
        views
    };
    let ((), views) = tokio::join!(writer, reader);
    assert!(views.values().any(|view| view.covered.is_some()), "compactions ran meanwhile");
    for view in views.into_values() {
        let again = test.view_as_of(&session, view.revision).await;
        let figures = |view: &ServedView| (view.hash, view.context_tokens, view.estimated_tokens, view.fits);
        assert_eq!(figures(&view), figures(&again), "at {}", view.revision);
    }
}

#[tokio::test]
async fn a_session_that_is_due_before_its_last_result_is_read_does_not_fall_asleep() {
    let test = TestApp::start().await;
    // Due at 183 617 tokens.
    let session = test.session("pi@0.73", 200_000, 0).await;
    test.append(&session, &turns(1, 20, 16_000)).await;
    test.settled().await;
    test.append(&session, "u21 \"and the log?\"\na21x \"looking\" call=c21").await;
    let due = test.append(&session, "t21 result=c21:100000c").await;
    assert!(due.context.context_tokens.is_some_and(|tokens| tokens > 183_617), "{:?}", due.context);
    test.settled().await;
    test.append(&session, "a21 \"nothing of note\"").await;
    test.settled().await;
    assert_eq!(test.number("select count(*) from job where state = 3"), 1);
}

/// An append never waits for a long history to be read; a request for the view loads the session into memory.
#[tokio::test]
async fn an_append_to_a_large_session_that_is_not_in_memory_leaves_the_context_usage_out() {
    if crate::support::loaded_bytes() == 0 {
        return;
    }
    let test = TestApp::start().await;
    let (small, large) =
        (test.session("opencode@seed", 900_000, 1_000).await, test.session("opencode@seed", 900_000, 1_000).await);
    test.append(&small, &turns(1, 3, 400)).await;
    test.append(&large, &turns(1, 3, 100_000)).await;
    test.settled().await;
    let known = test.app.sessions().get(&large).await.expect("the session").session;
    let test = test.restart().await;

    let of =
        async |session: &str, name: &str| test.append(session, &format!("{name} 40c")).await.context.context_tokens;
    assert!(of(&small, "u8").await.is_some_and(|tokens| tokens > 100));
    assert_eq!(of(&large, "u8").await, None);
    let cold = test.app.sessions().get(&large).await.expect("the session").session;
    assert_eq!((cold.context, cold.revision), (known.context, known.revision + 1), "the newest decision's");
    test.view(&large).await;
    let answered = of(&large, "u9").await;
    assert_eq!(answered, Some(test.view(&large).await.context_tokens));
    let warm = test.app.sessions().get(&large).await.expect("the session").session;
    assert_eq!(warm.context.map(|context| (Some(context.tokens), context.revision)), Some((answered, warm.revision)));
    let (listed, _) = test.app.sessions().list(&crate::support::all_sessions(9)).await.expect("listed");
    assert!(listed.iter().any(|info| info.session.context == warm.context));
}

/// A reply of some words that reports this usage for the newest view.
async fn reported(
    test: &TestApp,
    session: &str,
    name: &str,
    usage: Option<Usage>,
    reason: FinishReason,
) -> AppendAnswer {
    let mut reply = conversation(&format!("{name} 1200c"));
    let view = Some(test.view(session).await.token);
    reply[0].finish = Some(NewFinish { reason: Some(reason), usage, view, ..NewFinish::default() });
    let appended = append(test, session, reply).await.expect("appended");
    settled(test, session).await;
    appended
}

#[tokio::test]
async fn one_impossible_report_stops_no_compaction() {
    for preset in ["opencode@seed", "pi@1.5"] {
        let test = TestApp::start().await;
        let session = test.session(preset, 32_000, 8_000).await;
        test.append(&session, "u0 400c").await;
        let usage = Usage { input: 39_000, output: 1_000, total: Some(40_000), ..Usage::default() };
        let answer = reported(&test, &session, "a0", Some(usage), FinishReason::Stop).await.context;
        assert_eq!(answer.usage_doubt, Some(UsageDoubt::AboveWindow), "{preset}");
        let view = test.view(&session).await;
        assert_eq!(view.context_tokens, view.estimated_tokens, "{preset}: it is no size");
        for turn in 1..60 {
            test.append(&session, &format!("u{turn} 4000c")).await;
            reported(&test, &session, &format!("a{turn}"), None, FinishReason::Stop).await;
            let view = test.view(&session).await;
            assert!(view.fits, "{preset}: {} tokens in turn {turn}: {:?}", view.context_tokens, view.over_window);
        }
        let failures = test.events().await.into_iter().filter(|event| event.body.kind() == EventKind::CompactionFailed);
        assert_eq!(failures.count(), 0, "{preset}");
    }
}

#[tokio::test]
async fn figures_that_stay_above_the_window_start_one_recovery() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 32_000, 8_000).await;
    for turn in 0..30 {
        test.append(&session, &format!("u{turn} 1200c")).await;
        let usage = Usage { input: 900_000 + turn, output: 10, ..Usage::default() };
        reported(&test, &session, &format!("a{turn}"), Some(usage), FinishReason::Stop).await;
        assert!(test.view(&session).await.fits);
    }
    let overflows = test
        .events()
        .await
        .into_iter()
        .filter(|event| matches!(event.body, EventBody::CompactionStarted { trigger: Trigger::Overflow, .. }));
    assert!(overflows.count() <= 1);
}

/// What a request has besides its view keeps a level due after each summary. The next one comes when the view has grown
/// by a share of what makes the level due, however large the window is.
#[tokio::test]
async fn a_small_threshold_in_a_large_window_is_applied_again_and_again() {
    let test = TestApp::start().await;
    let limits = r#"{"auto": {"threshold": {"limit": {"ratio": 0.02}}}, "guards": {"minimum_gain_tokens": 1}}"#;
    let session = NewSession {
        preset: "gemini-cli@0.26".to_owned(),
        policy_override_json: limits.to_owned(),
        window: ModelWindow { overhead: 19_500, ..window(1_000_000, 8_000) },
        ..NewSession::default()
    };
    let session = test.create(session).await;
    for turn in 0..40 {
        test.append(&session, &format!("u{turn} 12000c")).await;
        let input = test.view(&session).await.estimated_tokens + 19_500;
        let usage = Usage { input, output: 1, ..Usage::default() };
        reported(&test, &session, &format!("a{turn}"), Some(usage), FinishReason::Stop).await;
        let tokens = test.view(&session).await.context_tokens;
        assert!(tokens < 40_000, "{tokens} tokens in turn {turn}");
    }
    let done = test.events().await.into_iter().filter(|event| event.body.kind() == EventKind::Compacted).count();
    assert!((10..=30).contains(&done), "{done} compactions in 40 turns");
}

#[tokio::test]
async fn usage_that_cannot_be_the_size_of_its_view_is_recorded_and_not_believed() {
    let test = TestApp::start().await;
    let session = test.session("opencode@seed", 200_000, 4_000).await;
    test.append(&session, &turns(1, 10, 6_000)).await;
    let size = test.view(&session).await.estimated_tokens;
    let honest = Usage { input: size + 2_000, output: 300, ..Usage::default() };
    let answer = reported(&test, &session, "a90", Some(honest), FinishReason::Stop).await.context;
    assert_eq!((answer.usage_doubt, answer.context_tokens), (None, Some(size + 2_300)));
    let broken = Usage { output: 2, ..Usage::default() };
    let partial = Usage { input: 3, output: 2, ..Usage::default() };
    let summed = Usage { input: 3 * size, output: 2, ..Usage::default() };
    for (name, usage, reason, doubt) in [
        ("a91", broken, FinishReason::Aborted, UsageDoubt::NoInput),
        ("a92", partial, FinishReason::Stop, UsageDoubt::BelowView),
        ("a93", honest, FinishReason::Stop, UsageDoubt::Sum),
        ("a94", honest, FinishReason::Stop, UsageDoubt::Stale),
        ("a95", summed, FinishReason::Stop, UsageDoubt::Sum),
    ] {
        let answer = reported(&test, &session, name, Some(usage), reason).await.context;
        // A report behind a low one is compared with the estimate alone.
        let doubt = if name == "a93" { None } else { Some(doubt) };
        assert_eq!(answer.usage_doubt, doubt, "{name}");
        let view = test.view(&session).await;
        assert_eq!(
            (Some(view.context_tokens), view.usage_doubt),
            (answer.context_tokens, answer.usage_doubt),
            "{name}"
        );
        assert!(view.context_tokens >= size && view.context_tokens < size + 10_000, "{name}: {}", view.context_tokens);
        assert_eq!(
            test.app.messages().get(&session, name).await.expect("it").0.finish.usage,
            Some(usage),
            "as reported"
        );
    }
    // A view that is shortened by the estimate fits by the estimate.
    let request =
        ViewRequest { window: Some(window(8_000, 1_000)), action: OverflowAction::Shorten, ..ViewRequest::default() };
    let short = test.app.views().get(&session, request).await.expect("a view");
    assert!(short.fits && short.estimated_tokens <= 8_000, "{} tokens", short.estimated_tokens);
    assert_eq!(test.findings().await, []);
}
