//! What the store alone does for appends, reads and erasures: its processor time, and its instructions under valgrind's
//! callgrind, without what a call takes.
//!
//! `append N BYTES READS` appends N messages of some length to a session, one by one, and reads all of it that often.
//! `erase N BYTES` fills N sessions with 200 messages each, erases all but one, and prints the time.

use longhand_model::message::{NewMessage, Role};
use longhand_model::part::{NewPart, PartBody};
use longhand_model::usage::ModelWindow;
use longhand_runtime::clock::Clock;
use longhand_store::{
    AppendChanges, AppendInput, CheckedInput, CreateSession, Durability, EraseTarget, Options, PolicyText, Requester,
    SessionKey, Store,
};
use std::time::Instant;
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
        other => panic!("{other}"),
    }
    drop(store);
    writer.await.expect("the writer ends");
}
