//! What the store alone does for appends, reads and erasures: its processor time, and its instructions under valgrind's
//! callgrind, without what a call takes.
//!
//! `append N BYTES READS` appends N messages of some length to a session, one by one, and reads all of it that often.
//! `index N BYTES` fills N sessions with 200 messages each, and prints the time in which an index that is behind has them.
//! `erase N BYTES` fills N sessions with 200 messages each, erases all but one, and prints the time.
//! `retain N BYTES RATE` fills as many by eight writers, erases all but a tenth as a pass of retention does, and prints the
//! time, and that of appends of 1 KiB at this rate before and meanwhile.

use longhand_model::message::{NewMessage, Role};
use longhand_model::part::{NewPart, PartBody};
use longhand_model::usage::ModelWindow;
use longhand_runtime::clock::Clock;
use longhand_store::{
    AppendChanges, AppendInput, CheckedInput, CreateSession, Durability, EraseTarget, Options, PolicyText, Requester,
    SessionKey, Store,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

fn text(number: usize, bytes: usize) -> String {
    use std::fmt::Write as _;
    let (mut text, mut state) = (String::with_capacity(bytes + 16), number as u64 * 2 + 1);
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = (state >> 40) % 4_096;
        text.push_str(["the ", "view", "lo", "src/", "fn ", "is ", "as", "to "][(word % 8) as usize]);
        write!(text, "{word:x} ").expect("a string takes all");
    }
    text.truncate(bytes);
    text
}

async fn session(store: &Store) -> SessionKey {
    let new = CreateSession {
        tenant: "".into(),
        client_id: None,
        title: String::new(),
        policy: PolicyText { preset: "pi@1.5".to_owned(), json: "{}".to_owned() },
        window: ModelWindow::default(),
        metadata_json: None,
        parent: None,
        keeps_erased: false,
    };
    store.sessions().create(CheckedInput::trusted(new), Requester::default()).await.expect("a session").0
}

async fn append(store: &Store, key: SessionKey, numbers: std::ops::Range<usize>, bytes: usize) {
    let input = |number| AppendInput {
        message: NewMessage::sealed(Role::User, vec![NewPart::new(PartBody::Text(text(number, bytes)))]),
        token_counts: None,
        reports_overflow: false,
        received: None,
        keeps_erased: false,
    };
    let inputs = numbers.map(input).collect();
    let appended = store.history().append(
        key,
        Requester::default(),
        None,
        CheckedInput::trusted((inputs, AppendChanges::default())),
    );
    appended.await.expect("appended");
}

/// Processor time of the process, in seconds: its own, and the system's for it.
fn processor() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a process");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("ticks") / 100.0;
    (ticks(11), ticks(12))
}

/// Writers that fill a store, and those beside a pass.
const WRITERS: usize = 8;
/// Messages of a session.
const MESSAGES: usize = 200;

async fn fill(store: &Arc<Store>, sessions: usize, bytes: usize) {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(store);
        writers.spawn(async move {
            for at in (writer..sessions).step_by(WRITERS) {
                let key = session(&store).await;
                for from in (0..MESSAGES).step_by(50) {
                    append(&store, key, at * MESSAGES + from..at * MESSAGES + from + 50, bytes).await;
                }
            }
        });
    }
    while writers.join_next().await.is_some() {}
}

/// Appends at a rate until it is stopped, and prints how long that took.
async fn appends(store: &Arc<Store>, rate: f64, stop: Arc<AtomicBool>, what: &str) {
    let (sender, ticks) = mpsc::unbounded_channel();
    let ticks = Arc::new(Mutex::new(ticks));
    let pacer = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
        while !stop.load(Ordering::Relaxed) {
            ticks.tick().await;
            sender.send(Instant::now()).expect("somebody writes");
        }
    });
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let (store, ticks) = (Arc::clone(store), Arc::clone(&ticks));
        writers.spawn(async move {
            let (key, mut took) = (session(&store).await, Vec::new());
            loop {
                let tick = ticks.lock().await.recv().await;
                let Some(at) = tick else { return took };
                append(&store, key, took.len()..took.len() + 1, 1_024).await;
                took.push(at.elapsed().as_secs_f64() * 1e3);
            }
        });
    }
    let mut all = writers.join_all().await.concat();
    pacer.await.expect("it ends");
    all.sort_by(f64::total_cmp);
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| all[((all.len() - 1) as f64 * share) as usize]);
    println!("{what}: {} appends, p50 {p50:.2} ms, p99 {p99:.2} ms, p99.9 {p999:.2} ms", all.len());
}

/// Appends for ten seconds.
async fn appends_alone(store: &Arc<Store>, rate: f64, what: &str) {
    let stop = Arc::new(AtomicBool::new(false));
    let appending = appends(store, rate, Arc::clone(&stop), what);
    let ending = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(appending, ending);
}

fn written_mib() -> f64 {
    let io = std::fs::read_to_string("/proc/self/io").expect("a process");
    let bytes = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).expect("a count");
    bytes.parse::<f64>().expect("bytes") / f64::from(1 << 20)
}

async fn retain(store: Store, sessions: usize, bytes: usize, rate: f64) {
    let store = Arc::new(store);
    fill(&store, sessions, bytes).await;
    appends_alone(&store, rate, "before").await;
    let (mut due, mut behind) = (Vec::new(), None);
    loop {
        let page = store.erasures().candidates("", behind, 500).await.expect("candidates");
        let Some(last) = page.last() else { break };
        behind = Some((last.update_time, last.key));
        due.extend(page);
    }
    let due = due.into_iter().skip(WRITERS + sessions / 10).rev();
    let stop = Arc::new(AtomicBool::new(false));
    let appending = appends(&store, rate, Arc::clone(&stop), "meanwhile");
    let erasing = async {
        let (began, cost, written, stopping) = (Instant::now(), processor(), written_mib(), CancellationToken::new());
        let (mut erased, mut last) = (0, None);
        for candidate in due {
            let place = (candidate.key, candidate.revision);
            let erasing =
                store.erasures().erase_unchanged(place, Requester::default(), "retention".to_owned(), &stopping);
            last = Some(erasing.await.expect("erased"));
            erased += 1;
        }
        let (seconds, now) = (began.elapsed().as_secs_f64(), processor());
        println!(
            "{erased} sessions in {seconds:.1} s, {:.2} ms each; processor {:.2} + {:.2} s, {:.0} MiB written",
            seconds * 1e3 / f64::from(erased),
            now.0 - cost.0,
            now.1 - cost.1,
            written_mib() - written
        );
        stop.store(true, Ordering::Relaxed);
        let began = Instant::now();
        while !store.erasures().clean(&last.expect("one at least")).await.is_empty() {}
        println!("no file has anything of them {:.1} s later", began.elapsed().as_secs_f64());
    };
    tokio::join!(appending, erasing);
}

fn index(store: &Store) {
    let mut indexer = store.search().open(Clock::default()).expect("an index");
    let mut steps = vec![(processor(), Instant::now())];
    while let Some(page) = indexer.next_page().expect("a page") {
        indexer.add(page, true).expect("added");
    }
    steps.push((processor(), Instant::now()));
    indexer.join().expect("joined");
    steps.push((processor(), Instant::now()));
    for (what, step) in ["behind", "joined"].into_iter().zip(steps.windows(2)) {
        let [(before, began), (after, ended)] = step else { continue };
        let (seconds, own, system) = (ended.duration_since(*began), after.0 - before.0, after.1 - before.1);
        println!("{what}: {:.2} s; processor {own:.2} + {system:.2} s", seconds.as_secs_f64());
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments[at].parse::<usize>().expect("a number");
    let folder = tempfile::tempdir_in(std::env::var("TMPDIR").unwrap_or("/tmp".to_owned())).expect("a folder");
    let directory = folder.path().join("store");
    let options = Options { directory, durability: Durability::Full };
    let (store, writer) = Store::open(options, Clock::default()).await.expect("the store opens");
    let writer = tokio::spawn(writer);
    match arguments[1].as_str() {
        // N appends of one message, then R reads of the whole session.
        "append" => {
            let (count, bytes, reads) = (number(2), number(3), number(4));
            let key = session(&store).await;
            for at in 0..count {
                append(&store, key, at..at + 1, bytes).await;
            }
            for _ in 0..reads {
                let source = store.views().source(key, None).await.expect("a view's source");
                std::hint::black_box(&source);
            }
        }
        // S sessions of 200 messages, which are indexed.
        "index" => {
            let store = Arc::new(store.clone());
            fill(&store, number(2), number(3)).await;
            index(&store);
        }
        // S sessions of 200 messages, all but one of which are erased.
        "erase" => {
            let (sessions, bytes) = (number(2), number(3));
            let mut keys = Vec::new();
            for at in 0..sessions {
                let key = session(&store).await;
                for from in (0..200).step_by(50) {
                    append(&store, key, at * 200 + from..at * 200 + from + 50, bytes).await;
                }
                keys.push(key);
            }
            let (before, began) = (processor(), Instant::now());
            let (mut last, stopping) = (None, CancellationToken::new());
            for key in &keys[1..] {
                let reason = CheckedInput::trusted("retention".to_owned());
                let erasing =
                    store.erasures().erase(*key, Requester::default(), (EraseTarget::Session, reason, None), &stopping);
                last = Some(erasing.await.expect("erased"));
            }
            let (erased, wall) = (processor(), began.elapsed());
            let last = last.expect("two sessions at least");
            while !store.erasures().clean(&last).await.is_empty() {}
            let clean = processor();
            let messages = (sessions - 1) * 200;
            println!(
                "{messages} messages: {:.1} s; processor {:.2} + {:.2} s, and to clean {:.2} + {:.2} s after {:.1} s",
                wall.as_secs_f64(),
                erased.0 - before.0,
                erased.1 - before.1,
                clean.0 - erased.0,
                clean.1 - erased.1,
                began.elapsed().as_secs_f64()
            );
        }
        "retain" => {
            retain(store, number(2), number(3), number(4) as f64).await;
            return writer.await.expect("the writer ends");
        }
        other => panic!("{other}"),
    }
    drop(store);
    writer.await.expect("the writer ends");
}
