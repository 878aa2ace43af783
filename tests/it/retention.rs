//! Retention: sessions go by rules, what protects them holds, and the files become smaller.

use crate::support::{TestApp, conversation, soon, text};
use longhand::app::retention::{
    ExpiredSession, RetentionItem, RetentionReason, RetentionRule, RetentionSummary, RetentionTimes,
};
use longhand::app::sessions::{ForkPoint, NewSession};
use longhand::limits;
use longhand::model::event::{EventBody, EventKind};
use longhand::model::session::SessionState;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const DAY: Duration = Duration::from_secs(86_400);

fn rule(name: &str) -> RetentionRule {
    RetentionRule { name: name.to_owned(), ..RetentionRule::default() }
}

async fn session(test: &TestApp, name: &str) -> String {
    let new = NewSession { client_id: Some(name.to_owned()), title: name.to_owned(), ..NewSession::default() };
    test.app.sessions().create(new).await.expect("created").answer.0.session.id.to_string()
}

fn advance(test: &TestApp, days: i64) {
    test.clock.advance(days * 86_400_000);
}

async fn apply(test: &TestApp, is_dry: bool) -> (Vec<ExpiredSession>, RetentionSummary) {
    let mut items = test.app.content().apply_retention(is_dry).expect("begun");
    let mut expired = Vec::new();
    loop {
        match items.recv().await.expect("an end").expect("applied") {
            RetentionItem::Expired(session) => expired.push(session),
            RetentionItem::End(summary) => return (expired, summary),
        }
    }
}

fn titles(expired: &[ExpiredSession]) -> Vec<&str> {
    expired.iter().map(|session| session.title.as_str()).collect()
}

#[tokio::test]
async fn sessions_go_by_age_by_idleness_and_by_label() {
    let test = TestApp::start().await;
    test.longhand.set_retention(vec![
        RetentionRule { idle: Some(30 * DAY), ..rule("idle") },
        RetentionRule { age: Some(90 * DAY), ..rule("old") },
        RetentionRule { label: Some("scratch".to_owned()), idle: Some(DAY), ..rule("scratch") },
        RetentionRule { tenant: Some("other".to_owned()), idle: Some(DAY), ..rule("of another tenant") },
    ]);
    for name in ["busy", "idle", "scratch", "kept"] {
        session(&test, name).await;
    }
    test.app.sessions().add_label("kept", "keep".to_owned()).await.expect("labelled");
    advance(&test, 29);
    test.append("busy", "u1 \"hello\"").await;
    test.append("scratch", "u1 \"hello\"").await;
    test.app.sessions().add_label("scratch", "scratch".to_owned()).await.expect("labelled");
    assert_eq!(apply(&test, false).await.1, RetentionSummary { examined: 4, ..RetentionSummary::default() });
    advance(&test, 2);
    let before = test.events().await.len();
    let (would, summary) = apply(&test, true).await;
    assert_eq!(test.events().await.len(), before, "a dry run changes nothing");
    assert_eq!(titles(&would), ["idle", "scratch"], "the oldest change first");
    assert_eq!((would[0].rule.as_str(), would[1].rule.as_str()), ("idle", "scratch"));
    assert!(matches!(would[1].reason, RetentionReason::Idle(48)));
    assert_eq!((summary.examined, summary.erased, summary.protected), (4, 2, 1));
    assert_eq!(apply(&test, false).await, (would, summary), "what would go goes");
    for name in ["busy", "kept"] {
        assert_eq!(test.app.sessions().get(name).await.expect("there").session.state, SessionState::Active);
    }
    let erasures: Vec<_> = test.events().await.into_iter().skip(before).collect();
    let erased = |event: &longhand::model::event::Event| match &event.body {
        EventBody::Erased { reason, .. } => Some((event.actor.clone(), reason.clone())),
        _ => None,
    };
    let erased: Vec<_> = erasures.iter().filter_map(erased).collect();
    assert_eq!(erased[0].0, "retention:idle");
    assert!(erased[1].1.starts_with("retention rule \"scratch\": not changed for 48 hours"), "{erased:?}");
    advance(&test, 60);
    let (expired, _) = apply(&test, false).await;
    assert_eq!(titles(&expired), ["busy"]);
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn the_sessions_that_changed_longest_ago_make_room() {
    let test = TestApp::start().await;
    let large = RetentionRule { bytes: Some(25_000), label: Some("l".to_owned()), ..rule("room") };
    test.longhand.set_retention(vec![large]);
    for name in ["first", "second", "third", "fourth", "unlabelled"] {
        session(&test, name).await;
        let mut messages = conversation("u1 \"short\"");
        messages[0].parts = vec![text(&"word ".repeat(2_000))];
        test.app.messages().append(name, messages, None, None).await.expect("appended");
        if name != "unlabelled" {
            test.app.sessions().add_label(name, "l".to_owned()).await.expect("labelled");
        }
        advance(&test, 1);
    }
    test.append("first", "u2 \"again\"").await;
    let (expired, summary) = apply(&test, false).await;
    assert_eq!(titles(&expired), ["second", "third"], "first was changed last");
    assert!(expired.iter().all(|session| session.reason == RetentionReason::Bytes));
    assert!(summary.content_bytes >= 20_000, "{summary:?}");
    assert_eq!(apply(&test, false).await.1.erased, 0);
}

#[tokio::test]
async fn a_session_stays_while_a_run_or_a_fork_needs_it() {
    let test = TestApp::start().await;
    // The clock is confirmed.
    test.clock.now();
    test.clock.advance(limits::CLOCK_CONFIRMED_MS);
    let idle = Duration::from_secs(10);
    test.longhand.set_retention(vec![RetentionRule { idle: Some(idle), ..rule("idle") }]);
    let pass = || test.clock.advance(11_000);
    for name in ["at-work", "shared"] {
        session(&test, name).await;
        test.append(name, "u1 \"hello\"\na1 \"there\"").await;
    }
    let ada = test.by("ada");
    let run = ada.runs().acquire("at-work", Some(60 * idle), false).await.expect("a run").run;
    let fork = test.app.sessions().fork("shared", ForkPoint::default(), Some("fork".to_owned()), "fork".to_owned());
    fork.await.expect("forked");
    test.app.sessions().add_label("fork", "keep".to_owned()).await.expect("labelled");
    pass();
    let (expired, summary) = apply(&test, false).await;
    assert_eq!((titles(&expired), summary.protected), (vec![], 3));
    ada.runs().release("at-work", run.epoch, None).await.expect("released");
    test.app.sessions().remove_label("fork", "keep".to_owned()).await.expect("unlabelled");
    pass();
    assert_eq!(titles(&apply(&test, false).await.0), ["at-work", "fork"]);
    assert_eq!(titles(&apply(&test, false).await.0), ["shared"], "nobody shares it any more");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn the_daemon_applies_the_rules_by_itself() {
    let test = TestApp::start().await;
    test.longhand.set_retention(vec![RetentionRule { idle: Some(DAY), ..rule("idle") }]);
    session(&test, "old").await;
    advance(&test, 2);
    session(&test, "new").await;
    let mut watch = test.watch().await;
    let stopping = CancellationToken::new();
    let times = RetentionTimes { delay: Duration::ZERO, interval: DAY };
    let task = tokio::spawn(test.longhand.clone().retain(times, stopping.clone()));
    let erased = watch.wait_for(EventKind::Erased).await;
    assert_eq!(erased.actor, "retention:idle");
    stopping.cancel();
    soon("the end of the task", task).await.expect("ended");
    assert_eq!(test.app.sessions().get("new").await.expect("there").session.state, SessionState::Active);
}

const YEAR_MS: i64 = 365 * 86_400_000;

#[tokio::test]
async fn a_clock_that_is_wrong_for_three_seconds_has_no_session_erased() {
    let test = TestApp::start().await;
    let rules = || vec![RetentionRule { idle: Some(30 * DAY), ..rule("idle") }];
    test.longhand.set_retention(rules());
    session(&test, "before").await;
    advance(&test, 1);
    test.clock.shift_system(YEAR_MS);
    session(&test, "meanwhile").await;
    test.clock.advance(3_000);
    assert_eq!(titles(&apply(&test, false).await.0), [""; 0], "a year that nothing confirms");
    test.clock.shift_system(-YEAR_MS);
    session(&test, "after").await;
    advance(&test, 1);
    assert_eq!(titles(&apply(&test, false).await.0), [""; 0]);
    let test = test.restart().await;
    test.longhand.set_retention(rules());
    advance(&test, 1);
    assert_eq!(titles(&apply(&test, false).await.0), [""; 0], "nor after a restart");
    advance(&test, 31);
    assert_eq!(titles(&apply(&test, false).await.0), ["before", "meanwhile", "after"], "all in their time");
    assert_eq!(test.findings().await, []);
}

#[tokio::test]
async fn what_was_written_by_a_clock_that_was_ahead_goes_in_its_time_too() {
    let test = TestApp::start().await;
    let rules = || vec![RetentionRule { idle: Some(30 * DAY), ..rule("idle") }];
    test.longhand.set_retention(rules());
    session(&test, "before").await;
    advance(&test, 1);
    let began = test.clock.now();
    test.clock.shift_system(YEAR_MS);
    test.clock.now();
    test.clock.advance(300_000);
    session(&test, "ahead").await;
    let ahead = test.app.sessions().get("ahead").await.expect("there").session.create_time;
    assert!(ahead > began.plus_millis(YEAR_MS), "the clock was believed");
    test.clock.shift_system(-YEAR_MS);
    test.clock.now();
    advance(&test, 1);
    let (expired, summary) = apply(&test, false).await;
    assert_eq!((titles(&expired), summary.is_clock_unconfirmed), (vec![], false));
    let test = test.restart().await;
    test.longhand.set_retention(rules());
    assert!(apply(&test, false).await.1.is_clock_unconfirmed, "a start confirms nothing");
    advance(&test, 1);
    assert_eq!(titles(&apply(&test, false).await.0), [""; 0]);
    advance(&test, 31);
    assert_eq!(titles(&apply(&test, true).await.0), ["before", "ahead"]);
    assert_eq!(titles(&apply(&test, false).await.0), ["before", "ahead"], "a year before its event is that old");
    assert!(test.clock.now() > ahead, "times do not go back");
    assert_eq!(test.findings().await, []);
}
