//! The status: results of compactions, their cost, and the state of providers.

use crate::cli::{Daemon, transcript};
use crate::provider::fake::{FakeProvider, Protocol, Reaction};
use crate::provider::{LONG_TIMEOUTS, configured, input, reply, status};
use crate::support::{TestApp, soon, turns};
use crate::tidy::assert_reviewed;
use futures::FutureExt as _;
use longhand::app::admin::{Breaker, Provider, SummarizerSpending};
use longhand::app::compactions::NewCompaction;
use longhand::model::compaction::CompactionKind;
use longhand::model::event::EventKind;
use longhand::model::ids::MessageId;
use longhand::model::message::MessageKind;
use longhand::model::summary_request::{Purpose, SummaryRequest};
use longhand::model::usage::Usage;
use longhand::summarizer::NoObserver;

/// A request with a truncated reply, a request that fails at the provider, and one that returns the summary.
fn reactions() -> [Reaction; 3] {
    [Reaction::Length("## Go".to_owned()), status(500, &[], "internal", "oops"), reply()]
}

/// A new session that is summarized with three requests; returns its id.
async fn summarized(test: &TestApp) -> String {
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    let mut watch = test.watch().await;
    let before = watch.log.len();
    test.append(&session, &turns(1, 9, 1_100)).await;
    while !watch.log[before..]
        .iter()
        .any(|event| event.body.kind() == EventKind::Compacted && event.session_id.to_string() == session)
    {
        watch.frame().await;
    }
    test.settled().await;
    session
}

async fn spent(test: &TestApp) -> Vec<SummarizerSpending> {
    test.app.daemon().info().await.expect("the state").spent
}

/// The totals of this number of times the three requests.
fn expected(times: i64) -> Vec<SummarizerSpending> {
    let replied = SummarizerSpending {
        summarizer: "fake".to_owned(),
        model: "fake-1".to_owned(),
        requests: 2 * times,
        failures: times,
        usage: Usage {
            input: 120 * times,
            output: 40 * times,
            reasoning: 20 * times,
            cache_read: 80 * times,
            ..Usage::default()
        },
        cost_micros: 280 * times,
        unpriced: 0,
        duration_ms: 0,
    };
    let failed = SummarizerSpending {
        model: "m".to_owned(),
        requests: times,
        usage: Usage::default(),
        cost_micros: 0,
        unpriced: times,
        ..replied.clone()
    };
    vec![replied, failed]
}

/// The same without durations.
fn timeless(spent: Vec<SummarizerSpending>) -> Vec<SummarizerSpending> {
    spent.into_iter().map(|spent| SummarizerSpending { duration_ms: 0, ..spent }).collect()
}

#[tokio::test]
async fn the_cost_of_summaries_is_counted_from_the_request_log() {
    let fake = FakeProvider::playing(Protocol::Chat, [reactions(), reactions()].concat()).await;
    let test = TestApp::with(configured(&fake, Protocol::Chat, LONG_TIMEOUTS, 20_000, "").auto).await;
    assert_eq!(spent(&test).await, []);
    let rows = async |test: &TestApp| {
        let before = test.longhand.store().upkeep().rows_read();
        spent(test).await;
        test.longhand.store().upkeep().rows_read() - before
    };
    summarized(&test).await;
    assert_eq!(timeless(spent(&test).await), expected(1));
    let few = rows(&test).await;
    summarized(&test).await;
    assert_eq!(timeless(spent(&test).await), expected(2));
    assert_eq!(rows(&test).await, few, "nobody walks the books for it");
    let in_the_log = test.number("select sum(duration_ms) from summary_request");
    let counted = spent(&test).await;
    assert_eq!(counted.iter().map(|spent| spent.duration_ms).sum::<i64>(), in_the_log);
    let test = test.restart().await;
    assert_eq!(spent(&test).await, counted);
}

/// The state of the only provider.
async fn provider(test: &TestApp) -> Provider {
    let mut providers = test.app.daemon().info().await.expect("the state").providers;
    assert_eq!(providers.len(), 1, "each is there once: {providers:?}");
    providers.remove(0)
}

#[tokio::test]
async fn a_provider_with_an_open_breaker_is_shown() {
    let now = || [("retry-after-ms", "3")];
    let failing = || std::iter::repeat_n(status(500, &now(), "internal", "oops"), 5);
    let later = || std::iter::once(status(429, &[("retry-after", "3600")], "x", "wait"));
    let input = input().await;
    for (reactions, calls, breaker, failures, closed_ms) in [
        (vec![reply()], 1, Breaker::Closed, 0, None),
        (later().collect::<Vec<_>>(), 1, Breaker::Paused, 1, Some(3_600_000)),
        (failing().collect(), 2, Breaker::Open, 5, Some(30_000)),
    ] {
        let fake = FakeProvider::playing(Protocol::Chat, reactions).await;
        let summarizer = configured(&fake, Protocol::Chat, LONG_TIMEOUTS, 20_000, "concurrency = 3").auto;
        let test = TestApp::with(summarizer.clone()).await;
        let before = test.clock.now();
        for _ in 0..calls {
            // Only the gate matters here, which all summaries of the daemon share.
            drop(summarizer.summarize(&input, &NoObserver).await);
        }
        let found = provider(&test).await;
        let state = found.gate.state;
        assert_eq!((found.gate.summarizer.as_str(), found.gate.model.as_str()), ("fake", "m"));
        assert_eq!((state.breaker, state.failures), (breaker, failures));
        assert_eq!((state.running, state.waiting, state.slots), (0, 0, 3));
        // As exact as the duration of the test itself permits, plus or minus a second.
        let after = test.clock.now();
        let is_near = |ms: i64| {
            let until = found.resume_time.expect("an end");
            before.plus_millis(ms - 1_000) <= until && until <= after.plus_millis(ms + 1_000)
        };
        assert!(closed_ms.map_or(found.resume_time.is_none(), is_near), "{found:?}");
    }
}

#[tokio::test]
async fn running_and_waiting_requests_are_shown() {
    let fake = FakeProvider::playing(Protocol::Chat, [Reaction::Hang, Reaction::Hang]).await;
    let for_ever = "{ connect_ms = 60_000, idle_ms = 600_000, total_ms = 600_000 }";
    let summarizer = configured(&fake, Protocol::Chat, for_ever, 20_000, "concurrency = 1").auto;
    let test = TestApp::with(summarizer.clone()).await;
    let input = input().await;
    let counts = async || {
        let state = provider(&test).await.gate.state;
        (state.running, state.waiting)
    };
    let mut requests = [summarizer.summarize(&input, &NoObserver), summarizer.summarize(&input, &NoObserver)];
    for request in &mut requests {
        assert!(request.as_mut().now_or_never().is_none(), "nobody answers");
    }
    assert_eq!(counts().await, (1, 1));
    drop(requests);
    assert_eq!(counts().await, (0, 0), "both were given up");
}

/// The samples of a metric family, by their labels.
fn samples<'a>(metrics: &'a str, family: &str) -> Vec<(&'a str, i64)> {
    let of = |line: &'a str| {
        let (labels, value) = line.strip_prefix(family)?.rsplit_once(' ')?;
        (labels.is_empty() || labels.starts_with('{')).then(|| (labels, value.parse().expect("a whole number")))
    };
    metrics.lines().filter_map(of).collect()
}

#[test]
fn the_metrics_of_a_daemon_move_with_its_compactions() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("session.jsonl");
    transcript(&file, 30);
    let daemon = Daemon::start(home.path());
    let new = daemon.text(&["status", "--metrics"]);
    let described: String = new.lines().filter(|line| line.starts_with("# ")).flat_map(|line| [line, "\n"]).collect();
    assert_reviewed("tests/snapshots/metrics.txt", &described, "who draws these figures relies on their names");
    assert_eq!(samples(&new, "longhand_compactions_total"), []);
    assert_eq!(samples(&new, "longhand_events_total"), [("", 0)]);
    assert_eq!(daemon.run(&["--json", "status", "--metrics"]).status.code(), Some(64));
    // Without a window no summary is due automatically.
    let report = daemon.json(&["import", &file.display().to_string()]).remove(0);
    let session = report["sessions"][0]["session_id"].as_str().expect("a session");
    daemon.text(&["compact", session]);
    let metrics = daemon.text(&["status", "--metrics"]);
    let by_hand = r#"{kind="summary",level="auto",trigger="manual",outcome="done"}"#;
    for (family, least) in [("longhand_compactions_total", 1), ("longhand_compaction_freed_tokens_total", 1)] {
        let found = samples(&metrics, family);
        assert!(found.iter().any(|(labels, value)| *labels == by_hand && *value >= least), "{family}: {found:?}");
    }
    assert_eq!(samples(&metrics, "longhand_sessions"), [("", 1)]);
    let events = daemon.json(&["events"]).len();
    let event_count = samples(&daemon.text(&["status", "--metrics"]), "longhand_events_total")[0].1;
    assert!(event_count >= i64::try_from(events).expect("few"), "{event_count} of {events}");
    let printed = daemon.text(&["status", session]);
    assert!(printed.contains("breaker         closed") && printed.contains("is done: "), "{printed}");
    assert_eq!(daemon.json(&["status", session])[0]["session"]["sessionId"], session);
}

/// The purpose of a request, true if it returned a summary, and its cost.
type Recorded = (Purpose, bool, Option<i64>);

/// The requests of a session, newest first; pages of one must agree with one page of all.
async fn recorded(test: &TestApp, session: &str) -> Vec<Recorded> {
    let summary_of =
        |(purpose, request): &(Purpose, SummaryRequest)| (*purpose, request.failure.is_none(), request.cost_micros);
    let (all, next) = test.app.compactions().list_summary_requests(session, 0, "", false).await.expect("a page");
    assert!(next.is_empty() && all.iter().all(|(_, request)| request.texts.is_none()));
    let (mut singly, mut token) = (Vec::new(), String::new());
    while singly.len() < all.len() {
        let (page, next) =
            test.app.compactions().list_summary_requests(session, 0, &token, true).await.expect("a page");
        assert_eq!(page.len(), 1, "texts come one at a time");
        assert!(page[0].1.texts.is_some(), "the configuration has them recorded");
        singly.extend(page);
        token = next;
    }
    assert!(token.is_empty());
    assert!(all.iter().map(summary_of).eq(singly.iter().map(summary_of)));
    all.iter().map(summary_of).collect()
}

#[tokio::test]
async fn requests_for_the_summary_of_a_branch_are_in_the_request_log() {
    let reactions = [status(500, &[("retry-after-ms", "3")], "internal", "oops"), reply(), reply(), Reaction::Hang];
    let fake = FakeProvider::playing(Protocol::Chat, reactions).await;
    let test = TestApp::with(configured(&fake, Protocol::Chat, LONG_TIMEOUTS, 20_000, "record_text = true").auto).await;
    let session = test.session("pi@1.5", 400_000, 1_000).await;
    test.append(&session, "u1 \"stay here\"").await;
    test.append(&session, &turns(2, 3, 400)).await;
    let rewind = async |expected| test.app.messages().rewind_with_summary(&session, "u1", "", expected).await;
    assert_eq!(recorded(&test, &session).await, []);
    let made = rewind(None).await.expect("rewound").answer.ids;
    let branch = |id| Purpose::Branch(MessageId(id));
    let of_made = [(branch(made[0]), true, Some(140)), (branch(made[0]), false, None)];
    assert_eq!(recorded(&test, &session).await, of_made, "the message that names them is there");
    let message = MessageId(made[0]).to_string();
    assert_eq!(test.app.messages().get(&session, &message).await.expect("the summary").0.kind, MessageKind::Branch);

    // A refused rewind had its summary written nevertheless, …
    test.append(&session, &turns(4, 5, 400)).await;
    rewind(Some(1)).await.expect_err("history changed since");
    let after = recorded(&test, &session).await;
    let [(Purpose::Branch(refused), true, Some(140)), rest @ ..] = after.as_slice() else { panic!("{after:?}") };
    assert_eq!(rest, of_made);
    test.app.messages().get(&session, &refused.to_string()).await.expect_err("it was never there");

    // … and for one whose caller gave up, a request was sent.
    let app = test.app.clone();
    let given_up = session.clone();
    let caller = tokio::spawn(async move {
        drop(app.messages().rewind_with_summary(&given_up, "u1", "", None).await);
    });
    soon("the request", fake.hangs()).await;
    caller.abort();
    let recorded_requests = async || test.number("select count(*) from summary_request");
    test.until("the record of the request", async || recorded_requests().await == 4).await;
    let after = recorded(&test, &session).await;
    assert!(matches!(after[0], (Purpose::Branch(_), false, None)), "{after:?}");
    let counted = spent(&test).await;
    let sum = |of: fn(&SummarizerSpending) -> i64| counted.iter().map(of).sum::<i64>();
    assert_eq!((sum(|spent| spent.requests), sum(|spent| spent.cost_micros)), (4, 280));

    // The request log cannot be changed, and also contains the requests of compactions.
    let mut database = test.database();
    for statement in ["update summary_request set message_id = x'00'", "delete from summary_request"] {
        let refused = database.execute_batch(statement).expect_err(statement).to_string();
        assert!(refused.contains("never"), "{refused}");
    }
    test.append(&session, &turns(6, 9, 1_100)).await;
    let wanted = NewCompaction { tail_start: "u9".to_owned(), ..NewCompaction::of_kind(CompactionKind::Summary) };
    let (compaction, _) = test.app.compactions().start(&session, wanted).await.expect("started").answer;
    test.settled().await;
    assert_eq!(recorded(&test, &session).await[0].0, Purpose::Compaction(compaction.id));
    assert_eq!(test.app.compactions().get(&compaction.id.to_string()).await.expect("it").requests.len(), 1);
    assert_eq!(test.findings().await, []);
}
