//! P1, P7: the daemon dies at every point where something is half done, and leaves a consistent store.
//!
//! Each row names a fail point (`telemetry::failpoint`) of the real binary. The daemon is started with it, gets appends
//! until it dies there, and is started again; the client then repeats its unacknowledged requests.

use crate::cli::{Daemon, check_ends, check_order, count, live, transcript};
use crate::provider::fake::{FakeProvider, Protocol, Reaction};
use crate::support::number;
use longhand::telemetry::failpoint;
use serde_json::Value;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::mpsc;
use std::time::Duration;

/// Deadline of every wait of a test.
const DEADLINE: Duration = Duration::from_secs(60);
/// Number of turns that make one summary due, and of those after the crash.
const TURNS: usize = 40;
const MORE: usize = 42;
const SIGABRT: i32 = 6;

/// Fail points, in the order from an append to a summary.
const POINTS: [&str; 15] = [
    // The migrations have run, and nothing else.
    "migrated",
    // An append is written and not committed; it is committed and its client has no answer.
    "append.uncommitted:9",
    "append.committed:9",
    // The job of a session that is due.
    "enqueue.uncommitted",
    "enqueue.committed",
    // The claim, and after it before any work.
    "claim.uncommitted",
    "claim.committed",
    "work.claimed",
    // The summary is written, and not committed.
    "work.done",
    // Within the transaction that completes the job, before and after its statements.
    "commit.begun",
    "commit.written",
    "commit.ended",
    "commit.uncommitted",
    // The transaction is committed, and the worker does not know it yet.
    "commit.committed",
    // A stopping daemon is about to checkpoint its log.
    "checkpoint",
];

/// Waits until a daemon has died. Kills it at the deadline, so that no test leaves it running.
fn death(daemon: Daemon, point: &str) -> ExitStatus {
    let id = daemon.id();
    let (done, waiting) = mpsc::channel();
    std::thread::spawn(move || done.send(daemon.ended()));
    waiting.recv_timeout(DEADLINE).unwrap_or_else(|_| {
        rustix::process::kill_process(id, rustix::process::Signal::KILL).expect("the daemon can be killed");
        panic!("{point} was not reached")
    })
}

/// The events, once nothing of the session is due, ready or running.
///
/// The view exceeds a window of one token, so that the daemon answers when nothing is pending any more, or after half a
/// minute.
fn settled(daemon: &Daemon, session: &str, point: &str) -> Vec<Value> {
    const BUSY: &str = "select (select count(*) from session where due_revision is not null) \
         + (select count(*) from job where state in (1, 2))";
    let view = ["view", session, "--wait", "--window", "1"];
    let is_idle = (0..2).any(|_| {
        daemon.text(&view);
        number(&daemon.directory, BUSY) == 0
    });
    assert!(is_idle, "{point}: a compaction has no end");
    let events = daemon.json(&["events"]);
    assert!(count(&events, "EVENT_KIND_COMPACTION_STARTED") > 0, "{point}: nothing is compacted");
    events
}

/// A folder with a transcript in it, and the settings of the daemon.
struct Home {
    folder: tempfile::TempDir,
    settings: Option<PathBuf>,
}

impl Home {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), settings: None }
    }

    /// A folder whose daemon asks this provider for summaries.
    fn with(provider: &FakeProvider) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = folder.path().join("longhand.toml");
        let words = format!(
            "[summarizers.fake]\nkind = \"openai-chat\"\nbase_url = \"{}\"\nmodel = \"m\"\nwindow = 200000\n\
             max_output = 1000\n[summarizer]\nauto = \"fake\"\n",
            provider.base_url()
        );
        std::fs::write(&settings, words).expect("settings are written");
        Self { folder, settings: Some(settings) }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn start(&self, point: Option<&str>) -> Daemon {
        let change = |command: &mut std::process::Command| {
            if let Some(point) = point {
                command.env(failpoint::VARIABLE, point);
            }
            if let Some(settings) = &self.settings {
                command.arg("--config").arg(settings);
            }
        };
        Daemon::start_as(self.path(), change).0
    }

    /// The arguments that import a transcript of this number of turns, and its number of messages.
    fn import(&self, turns: usize) -> (Vec<String>, usize) {
        let file = self.path().join("session.jsonl");
        let messages = transcript(&file, turns);
        (live(&file), messages)
    }

    /// Starts a daemon, sends appends until it dies at the fail point, and checks that it died there.
    fn die_at(&self, point: &str) {
        let (import, _) = self.import(TURNS);
        let import: Vec<&str> = import.iter().map(String::as_str).collect();
        let daemon = self.start(Some(point));
        let mut client = daemon.spawn(&import);
        let status = if point == "checkpoint" {
            client.wait().expect("the import ends");
            daemon.stop()
        } else {
            death(daemon, point)
        };
        drop(client.kill());
        drop(client.wait());
        assert_eq!(status.signal(), Some(SIGABRT), "{point} was not reached: {status}");
    }

    /// Starts the daemon again, repeats all requests, and checks that each message is present once and that work
    /// continues.
    fn recover(&self, point: &str) {
        let daemon = self.start(None);
        let mut session = String::new();
        for turns in [TURNS, MORE] {
            let (import, messages) = self.import(turns);
            let import: Vec<&str> = import.iter().map(String::as_str).collect();
            let report = daemon.json(&import).remove(0);
            assert_eq!(report["messages"], messages, "{point}");
            report["sessions"][0]["session_id"].as_str().expect("a session").clone_into(&mut session);
            let shown = daemon.json(&["show", &session]);
            let mut ids: Vec<&str> = shown.iter().filter_map(|message| message["clientId"].as_str()).collect();
            let all = ids.len();
            ids.sort_unstable();
            ids.dedup();
            // The records that the importer makes of the file's head are present too.
            assert!(all >= messages, "{point}: {all} of {messages} messages are there");
            assert_eq!(all, ids.len(), "{point}: a message is there twice");
        }
        let events = settled(&daemon, &session, point);
        check_order(&events);
        check_ends(&events);
        assert!(count(&events, "EVENT_KIND_COMPACTED") >= 1, "{point}: the trigger is not lost");
        assert!(daemon.run(&["audit", "verify"]).status.success(), "{point}");
        assert!(daemon.stop().success(), "{point}");
    }
}

#[test]
fn a_daemon_that_dies_at_any_point_leaves_what_it_acknowledged() {
    // Few at a time, so that none starves.
    for points in POINTS.chunks(3) {
        std::thread::scope(|scope| {
            for point in points {
                scope.spawn(|| {
                    let home = Home::new();
                    home.die_at(point);
                    home.recover(point);
                });
            }
        });
    }
}

#[test]
fn a_daemon_that_dies_within_a_replace_leaves_all_of_it_or_nothing() {
    for (point, is_there) in [("append.uncommitted:3", false), ("append.committed:3", true)] {
        let home = Home::new();
        let daemon = home.start(Some(point));
        daemon.text(&["create", "--client-id", "mine", "--title", "old"]);
        daemon.text(&["append", "mine", "one", "--client-id", "u1"]);
        daemon.text(&["append", "mine", "two", "--role", "assistant", "--client-id", "a1"]);
        let replace = ["append", "mine", "three", "--client-id", "u2", "--rewind-to", "u1", "--title", "new"];
        let mut client = daemon.spawn(&replace);
        assert_eq!(death(daemon, point).signal(), Some(SIGABRT), "{point} was not reached");
        assert!(!client.wait().expect("it ends").success(), "{point}: nobody answered");
        let daemon = home.start(None);
        let content = || {
            let frames = daemon.json(&["view", "mine"]);
            let messages = frames.iter().filter_map(|frame| frame["messages"]["messages"].as_array()).flatten();
            let texts: Vec<String> =
                messages.map(|message| message["parts"][0]["part"]["text"]["text"].to_string()).collect();
            let title = daemon.json(&["sessions"]).remove(0)["title"].to_string();
            (texts.concat(), title)
        };
        let (old, new) = ("\"one\"\"two\"", "\"one\"\"three\"");
        let expected = if is_there { (new, "\"new\"") } else { (old, "\"old\"") };
        assert_eq!(content(), (expected.0.to_owned(), expected.1.to_owned()), "{point}");
        daemon.text(&replace);
        daemon.text(&replace);
        assert_eq!(content(), (new.to_owned(), "\"new\"".to_owned()), "{point}, sent again");
        assert_eq!(daemon.json(&["show", "mine"]).len(), 3, "{point}: it is there once");
        assert!(daemon.run(&["audit", "verify"]).status.success(), "{point}");
        assert!(daemon.stop().success(), "{point}");
    }
}

/// The steps of an erasure, and whether the content is still there after a death at each.
const ERASURE: [(&str, bool); 7] = [
    ("erase.uncommitted", true),
    // It is committed, and the log has the old pages.
    ("erase.committed", false),
    ("erase.emptied", false),
    ("erase.clean", false),
    // The index has no entry any more, and still the words; it has no word any more, and its log has; none has.
    ("search.removed", false),
    ("search.cleaned", false),
    ("search.emptied", false),
];

/// The files of a store that have a word, behind the beginning that an index of words may share.
fn holders(directory: &Path, word: &str) -> Vec<String> {
    let word = &word.as_bytes()[4..];
    let files = std::fs::read_dir(directory).expect("the folder").map(|entry| entry.expect("an entry"));
    let files = files.filter(|entry| entry.path().is_file());
    let has = |entry: &std::fs::DirEntry| {
        std::fs::read(entry.path()).expect("a file").windows(word.len()).any(|window| window == word)
    };
    files.filter(has).map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn die_within_an_erasure(point: &str, is_there: bool) {
    const WORD: &str = "zqjpbvbwsmwfmmdfmmtr";
    let home = Home::new();
    let daemon = home.start(Some(point));
    daemon.text(&["create", "--client-id", "mine"]);
    daemon.text(&["append", "mine", &format!("the key is {WORD}"), "--client-id", "u1"]);
    daemon.text(&["append", "mine", "understood", "--role", "assistant", "--client-id", "a1"]);
    daemon.text(&["fork", "mine", "--client-id", "theirs"]);
    let search = |daemon: &Daemon| daemon.text(&["search", WORD]).contains("the key is");
    assert!((0..100).any(|_| search(&daemon)), "{point}: it is found before");
    let erase = ["erase", "mine", "u1", "--reason", "a key was pasted", "--yes"];
    let mut client = daemon.spawn(&erase);
    assert_eq!(death(daemon, point).signal(), Some(SIGABRT), "{point} was not reached");
    assert!(!client.wait().expect("it ends").success(), "{point}: nobody answered");
    let daemon = home.start(None);
    let everything = || {
        let views = ["mine", "theirs"].map(|session| daemon.text(&["view", session, "--json"]));
        let histories = ["mine", "theirs"].map(|session| daemon.text(&["show", session, "--json"]));
        [views, histories].concat().concat() + &daemon.text(&["events", "--json"])
    };
    let all = everything();
    assert_eq!(all.contains(WORD), is_there, "{point}: all of it is there, or nothing");
    assert_eq!(all.matches("\"understood\"").count(), 4, "{point}: the rest is in both sessions");
    let erased = daemon.json(&erase).remove(0);
    assert_eq!(daemon.json(&erase).remove(0)["seq"], erased["seq"], "{point}: the same answer");
    // What PostgreSQL keeps, it keeps in any case.
    assert_eq!(
        erased["pendingFiles"].as_array().map_or(0, Vec::len),
        if crate::engines::is_sqlite() { 0 } else { 2 },
        "{point}"
    );
    assert!(!everything().contains(WORD) && !search(&daemon), "{point}");
    assert_eq!(holders(&daemon.directory, WORD), Vec::<String>::new(), "{point}");
    let events = daemon.json(&["events"]);
    assert_eq!(count(&events, "EVENT_KIND_ERASED"), 2, "{point}: once in each session");
    assert!(daemon.run(&["audit", "verify"]).status.success(), "{point}");
    assert!(daemon.stop().success(), "{point}");
}

#[test]
fn a_daemon_that_dies_within_an_erasure_has_erased_all_of_it_or_nothing() {
    for points in ERASURE.chunks(4) {
        std::thread::scope(|scope| {
            for (point, is_there) in points {
                scope.spawn(|| die_within_an_erasure(point, *is_there));
            }
        });
    }
}

#[test]
fn an_erasure_whose_outcome_is_unknown_is_served_as_it_is_in_the_store() {
    const WORD: &str = "zqjpbvbwsmwfmmdfmmtr";
    let home = Home::new();
    let daemon = home.start(Some("erase.unsynced:1"));
    daemon.text(&["create", "--client-id", "mine"]);
    daemon.text(&["append", "mine", &format!("the key is {WORD}"), "--client-id", "u1"]);
    let has_word = |command: &[&str]| daemon.text(&[command, &["--json"]].concat()).contains(WORD);
    assert!(has_word(&["events", "--content"]), "streams have it in memory");
    let refused = daemon.run(&["erase", "mine", "u1", "--reason", "a key was pasted", "--yes", "--retry", "0"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("OUTCOME_UNCERTAIN"), "{refused:?}");
    assert_eq!(has_word(&["events", "--content"]), has_word(&["show", "mine"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_dies_while_a_model_writes_has_the_summary_written_again() {
    let provider = FakeProvider::playing(Protocol::Chat, []).await;
    let home = Home::with(&provider);
    let home = tokio::task::spawn_blocking(move || {
        home.die_at("work.words");
        home
    });
    let home = home.await.expect("it died in the middle of the stream");
    assert_eq!(provider.asked().len(), 1);
    tokio::task::spawn_blocking(move || home.recover("work.words")).await.expect("it recovered");
    assert!(provider.asked().len() >= 2, "nothing of the first reply is used");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_dies_with_a_heartbeat_leaves_a_job_that_is_taken_up() {
    // The first request is never answered, so that the worker sends a heartbeat.
    let provider = FakeProvider::playing(Protocol::Chat, [Reaction::Hang]).await;
    let home = Home::with(&provider);
    let done = tokio::task::spawn_blocking(move || {
        home.die_at("heartbeat.uncommitted");
        home.recover("heartbeat.uncommitted");
    });
    done.await.expect("it recovered");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_whose_commit_fails_is_committed_again_without_the_model() {
    let provider = FakeProvider::playing(Protocol::Chat, []).await;
    let home = Home::with(&provider);
    let done = tokio::task::spawn_blocking(move || {
        let daemon = home.start(Some("commit.refused:1"));
        let (import, _) = home.import(TURNS);
        let import: Vec<&str> = import.iter().map(String::as_str).collect();
        let report = daemon.json(&import).remove(0);
        let session = report["sessions"][0]["session_id"].as_str().expect("a session").to_owned();
        settled(&daemon, &session, "commit.refused");
        let compactions = daemon.json(&["compactions", &session]);
        assert!(!compactions.is_empty());
        for compaction in &compactions {
            assert_eq!(
                (&compaction["state"], &compaction["attemptCount"]),
                (&"COMPACTION_STATE_DONE".into(), &1.into())
            );
        }
        assert_eq!(count(&daemon.json(&["events"]), "EVENT_KIND_COMPACTION_RETRIED"), 0);
        let kinds: Vec<&Value> = compactions.iter().rev().map(|compaction| &compaction["kind"]).collect();
        assert_eq!(kinds[0], "COMPACTION_KIND_SUMMARY", "the test needs it");
        kinds.iter().filter(|kind| **kind == "COMPACTION_KIND_SUMMARY").count()
    });
    let summaries = done.await.expect("it was committed");
    assert_eq!(provider.asked().len(), summaries, "one request for each summary, the refused one included");
}
