//! Rows that views and appends read once a summary covers everything but the last hundred messages: their number does
//! not depend on the length of the history. The benchmark fails if it does.

use crate::report::Report;
use longhand::app::compactions::NewSummary;
use longhand::app::sessions::NewSession;
use longhand::app::views::ViewRequest;
use longhand::app::{self, Caller, Longhand};
use longhand::clock::Clock;
use longhand::model::message::{NewMessage, Role};
use longhand::model::part::{NewPart, PartBody};
use longhand::model::usage::ModelWindow;
use longhand::scheduler::{Options, Scheduler};
use longhand::store::{self, Store};
use longhand::summarizer::{Extractive, Levels};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const BODY_BYTES: usize = 1_024;
/// Rows of a read by which the lengths may differ: in one of them, the session may be loaded once, with its hundred
/// messages behind the summary, and all other reads find it in memory.
const ROWS_SPREAD: u64 = 10;

fn message(index: usize) -> NewMessage {
    let words = format!("message {index}: the quick brown fox looks at src/module_{index}.rs and says ");
    let text = words.repeat(BODY_BYTES / words.len() + 1);
    NewMessage::sealed(
        if index.is_multiple_of(2) { Role::User } else { Role::Assistant },
        vec![NewPart::new(PartBody::Text(text[..BODY_BYTES].to_owned()))],
    )
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

async fn session(app: &Caller, name: &str, context: i64) -> String {
    let window = ModelWindow { context, output: Some(context / 8), ..ModelWindow::default() };
    let new = NewSession { client_id: Some(name.to_owned()), window, ..NewSession::default() };
    app.sessions().create(new).await.expect("a session").answer.0.session.id.to_string()
}

/// Median duration of a view.
async fn views(app: &Caller, id: &str, times: usize) -> Duration {
    let mut all = Vec::new();
    for _ in 0..times {
        let begun = Instant::now();
        app.views().get(id, ViewRequest::default()).await.expect("a view");
        all.push(begun.elapsed());
    }
    median(all)
}

/// Measures reads of a long history that is under a summary.
async fn history(app: &Caller, store: &Store, lengths: &[usize], report: &mut Report) {
    let mut rows_of_all = Vec::new();
    for &length in lengths {
        let id = session(app, &format!("history-{length}"), 0).await;
        let append = async |messages| {
            app.messages().append(&id, messages, None, None).await.expect("an append");
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
        app.compactions().supply_summary(&id, summary).await.expect("a summary");
        append((0..100).map(words).collect()).await;
        let before = store.upkeep().rows_read();
        let p50 = views(app, &id, 50).await;
        let of_view = (store.upkeep().rows_read() - before) / 50;
        let before = store.upkeep().rows_read();
        for index in 0..50 {
            append(vec![words(index)]).await;
        }
        let of_append = (store.upkeep().rows_read() - before) / 50;
        let figures = [
            ("view_p50_ms", p50.as_secs_f64() * 1e3),
            ("rows_of_view", of_view as f64),
            ("rows_of_append", of_append as f64),
        ];
        report.figures(&format!("{length} messages"), "Longhand, in this process", &figures);
        rows_of_all.push((of_view, of_append));
    }
    let (of_view, of_append) = rows_of_all[0];
    let has_grown = |rows: &(u64, u64)| rows.0 > of_view + ROWS_SPREAD || rows.1 > of_append + ROWS_SPREAD;
    assert!(!rows_of_all.iter().any(has_grown), "reads grow with the history: {rows_of_all:?}");
}

/// Measures a store in this process, which counts the rows that it reads.
pub(crate) async fn run(short: bool, report: &mut Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Clock::default();
    let options = store::Options { directory: folder.path().join("store"), durability: store::Durability::Full };
    let (store, writer) = Store::open(options, clock.clone()).await.expect("a store");
    tokio::spawn(writer);
    let workers = NonZeroUsize::new(2).expect("two is not zero");
    let scheduler = Scheduler::new(
        store.clone(),
        clock.clone(),
        Levels::same_for_all(Arc::new(Extractive)),
        Options { workers, loaded_bytes: longhand::limits::LOADED_MIB_DEFAULT << 20, ..Options::default() },
    );
    let stopping = CancellationToken::new();
    let options = app::Options {
        default_preset: "opencode@seed".to_owned(),
        defaults: Vec::new(),
        models: longhand::policy::models::Models::built_in(),
        vocabularies: Vec::new(),
        entrance: longhand::app::entrance::Entrance::new(&clock),
        stopping: stopping.clone(),
    };
    let app = Longhand::new(store.clone(), scheduler.handle(), &clock, options)
        .caller(longhand::app::access::Access::owner(), String::new(), None)
        .expect("a caller");
    tokio::spawn(scheduler.run(stopping.clone()));
    println!("a history under a summary, and a hundred messages behind it");
    let lengths: &[usize] = if short { &[1_000, 20_000] } else { &[1_000, 100_000, 1_000_000] };
    history(&app, &store, lengths, report).await;
    stopping.cancel();
}
