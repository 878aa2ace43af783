//! The load generator: how fast messages go in, and what a view costs at the beginning and at the end of a session.
//!
//! `cargo bench --bench load` prints a table. Figures of one run belong together; across machines only ratios mean
//! anything.
//!
//! `cargo bench --bench load -- compactions 1000` instead has so many sessions compacted at the same time by the real
//! daemon against a provider that takes 8 requests at a time, and prints the daemon's largest resident memory. It fails
//! when a reduction is lost or doubled, or when a session gets its second turn before another has had its first.
//!
//! `cargo bench --bench load -- reads [BINARY …]` instead reads sessions through the real daemon, and in turn through those
//! of other builds, so that the figures of all are of one run.
//!
//! `cargo bench --bench load -- memory` instead reads 1 000 and 10 000 sessions through the real daemon and prints its
//! resident memory.
//!
//! `cargo bench --bench load -- history` instead prints what views and appends read once everything but the last hundred
//! messages is under a summary, at 1 000, 100 000 and 1 000 000 messages, and fails when the rows differ.

#[path = "load/fleet.rs"]
mod fleet;
#[path = "load/memory.rs"]
mod memory;
#[path = "load/reads.rs"]
mod reads;

use longhand::app::compactions::NewSummary;
use longhand::app::context::ContextRequest;
use longhand::app::sessions::NewSession;
use longhand::app::{self, Longhand};
use longhand::clock::Clock;
use longhand::model::message::{Finish, MessageKind, NewMessage, Role};
use longhand::model::part::{NewPart, PartBody};
use longhand::model::usage::ModelWindow;
use longhand::scheduler::{Options, Scheduler};
use longhand::store::{self, Caller, Store};
use longhand::summarizer::{Extractive, Levels};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const BODY_BYTES: usize = 1_024;

fn message(index: usize) -> NewMessage {
    let words = format!("message {index}: the quick brown fox looks at src/module_{index}.rs and says ");
    let text = words.repeat(BODY_BYTES / words.len() + 1);
    NewMessage {
        client_id: None,
        role: if index.is_multiple_of(2) { Role::User } else { Role::Assistant },
        kind: MessageKind::Normal,
        parts: vec![NewPart::new(PartBody::Text(text[..BODY_BYTES].to_owned()))],
        finish: Some(Finish::default()),
        model: String::new(),
        provider: String::new(),
        origin_time: None,
        open_timeout_ms: None,
        metadata_json: None,
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

async fn session(app: &Longhand, name: &str, context: i64) -> String {
    let window = ModelWindow { context, output: Some(context / 8), ..ModelWindow::default() };
    let new = NewSession { client_id: Some(name.to_owned()), window, ..NewSession::default() };
    app.create_session(new, Caller::default()).await.expect("a session").0.session.id.to_string()
}

/// Appends of one message each by several writers, each waiting for its own to be durable.
async fn appends(app: &Longhand, writers: usize, each: usize) -> (f64, Duration) {
    let start = Instant::now();
    let mut tasks = Vec::new();
    for writer in 0..writers {
        let app = app.clone();
        tasks.push(tokio::spawn(async move {
            let id = session(&app, &format!("append-{writers}-{writer}"), 0).await;
            let mut times = Vec::with_capacity(each);
            for index in 0..each {
                let begun = Instant::now();
                app.append(&id, vec![message(index)], None, None, Caller::default()).await.expect("an append");
                times.push(begun.elapsed());
            }
            times
        }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.expect("a writer"));
    }
    (times.len() as f64 / start.elapsed().as_secs_f64(), median(times))
}

async fn batches(app: &Longhand, count: usize) -> f64 {
    let id = session(app, "batches", 0).await;
    let start = Instant::now();
    for batch in 0..count {
        let messages = (0..256).map(|index| message(batch * 256 + index)).collect();
        app.append(&id, messages, None, None, Caller::default()).await.expect("an append");
    }
    (count * 256) as f64 / start.elapsed().as_secs_f64()
}

/// The median time of a view of a session that is compacted as it grows.
async fn views(app: &Longhand, id: &str, times: usize) -> Duration {
    let mut all = Vec::new();
    for _ in 0..times {
        let begun = Instant::now();
        app.context(id, ContextRequest::default()).await.expect("a view");
        all.push(begun.elapsed());
    }
    median(all)
}

/// What is read of a long history that is under a summary.
async fn history(app: &Longhand, store: &Store) {
    let mut rows_of_all = Vec::new();
    for length in [1_000, 100_000, 1_000_000_usize] {
        let id = session(app, &format!("history-{length}"), 0).await;
        let append = async |messages| {
            app.append(&id, messages, None, None, Caller::default()).await.expect("an append");
        };
        let words = |index: usize| NewMessage {
            parts: vec![NewPart::new(PartBody::Text(format!("message {index}")))],
            ..message(index)
        };
        let tail = NewMessage { client_id: Some("tail".to_owned()), ..words(0) };
        for start in (1..length).step_by(512) {
            append((start..length.min(start + 512)).map(words).collect()).await;
        }
        append(vec![tail]).await;
        let summary = NewSummary { text: "so far".to_owned(), tail_start: "tail".to_owned(), ..NewSummary::default() };
        app.supply_summary(&id, summary, Caller::default()).await.expect("a summary");
        append((0..100).map(words).collect()).await;
        let before = store.rows_read();
        let p50 = views(app, &id, 50).await;
        let of_view = (store.rows_read() - before) / 50;
        let before = store.rows_read();
        for index in 0..50 {
            append(vec![words(index)]).await;
        }
        let of_append = (store.rows_read() - before) / 50;
        let millis = p50.as_secs_f64() * 1e3;
        println!("  {length:>8} messages  view {millis:>6.1} ms, {of_view:>4} rows  append {of_append:>3} rows");
        rows_of_all.push((of_view, of_append));
    }
    assert!(rows_of_all.iter().all(|rows| *rows == rows_of_all[0]), "reads grow with the history: {rows_of_all:?}");
}

/// So many sessions at once, as the command line says.
fn fleet_sessions() -> Option<usize> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "compactions");
    arguments.next()?;
    Some(arguments.next().and_then(|count| count.parse().ok()).unwrap_or(1_000))
}

async fn fleet(sessions: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let report = fleet::run(env!("CARGO_BIN_EXE_longhand"), folder.path(), sessions).await;
    println!("{sessions} sessions compacted at the same time, the provider takes 8 requests at a time");
    println!("{report}");
}

#[tokio::main]
async fn main() {
    if let Some(sessions) = fleet_sessions() {
        return fleet(sessions).await;
    }
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "reads") {
        let is_binary = |argument: &&String| !argument.starts_with("--");
        return reads::run(&arguments[at + 1..].iter().filter(is_binary).cloned().collect::<Vec<_>>()).await;
    }
    if arguments.iter().any(|argument| argument == "memory") {
        return memory::run().await;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Clock::default();
    let options = store::Options { directory: folder.path().join("store"), durability: store::Durability::Full };
    let (store, writer) = Store::open(options, clock.clone()).await.expect("a store");
    tokio::spawn(writer);
    let workers = NonZeroUsize::new(2).expect("two is not zero");
    let scheduler = Scheduler::new(
        store.clone(),
        clock.clone(),
        Levels::all(Arc::new(Extractive)),
        Options { workers, loaded_bytes: longhand::limits::LOADED_MIB_DEFAULT << 20, ..Options::default() },
    );
    let stopping = CancellationToken::new();
    let options = app::Options {
        default_preset: "opencode@seed".to_owned(),
        defaults: Vec::new(),
        vocabularies: Vec::new(),
        stopping: stopping.clone(),
    };
    let app = Longhand::new(store.clone(), scheduler.handle(), &clock, options);
    tokio::spawn(scheduler.run(stopping.clone()));

    if std::env::args().any(|argument| argument == "history") {
        println!("a history under a summary, and a hundred messages behind it");
        history(&app, &store).await;
        stopping.cancel();
        return;
    }
    println!("durable appends of one message of {BODY_BYTES} bytes, each acknowledged");
    for (writers, each) in [(1, 2_000), (8, 1_000), (64, 250)] {
        let (rate, p50) = appends(&app, writers, each).await;
        println!("  {writers:>3} writers  {rate:>9.0} messages/s  median {:>8.1} µs", p50.as_secs_f64() * 1e6);
    }
    println!("  batches of 256 {:>8.0} messages/s", batches(&app, 40).await);

    println!("a view of a session with a window of 64 000 tokens, compacted as it grows");
    let id = session(&app, "views", 64_000).await;
    let mut index = 0;
    for target in [100, 1_000, 10_000] {
        while index < target {
            let messages = (index..target.min(index + 50)).map(message).collect::<Vec<_>>();
            index += messages.len();
            app.append(&id, messages, None, None, Caller::default()).await.expect("an append");
        }
        let before = store.rows_read();
        let p50 = views(&app, &id, 50).await;
        let rows = (store.rows_read() - before) / 50;
        println!("  after {target:>6} messages  median {:>8.1} ms  {rows:>5} rows read", p50.as_secs_f64() * 1e3);
    }
    println!("{:.2} bytes on disk per byte of content", {
        let content = (2_000 + 8 * 1_000 + 64 * 250 + 40 * 256 + 10_000) * BODY_BYTES;
        store.bytes_on_disk() as f64 / content as f64
    });
    stopping.cancel();
}
