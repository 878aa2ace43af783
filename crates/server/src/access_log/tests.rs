//! The log on disk: order, days, crashes, tampering.

use super::*;
use std::path::Path;

const DAY: i64 = 24 * 60 * 60 * 1_000;

fn entry(method: &str) -> Entry {
    Entry {
        principal: "ci \"quoted\"\nline".to_owned(),
        token: "tok_1".to_owned(),
        tenant: String::new(),
        address: "127.0.0.1:9".to_owned(),
        method: method.to_owned(),
        sessions: vec!["ses_1".to_owned(), ",\"hash\":\"".to_owned()],
        outcome: "OK".to_owned(),
        count: 1,
    }
}

fn clock() -> Clock {
    Clock::fixed_at(Timestamp(1_800_000_000_000_000))
}

/// Writes lines with a log that is opened for them.
async fn write(directory: &Path, clock: &Clock, retention_days: u32, methods: &[&str]) {
    let options = Options { directory: directory.to_owned(), retention_days };
    let (log, thread) = AccessLog::open(options, clock.clone()).expect("a log");
    for method in methods {
        log.record(entry(method)).await.expect("written");
    }
    drop(log);
    thread.join().expect("no panic");
}

fn verified(directory: &Path) -> VerifiedLog {
    verify(directory, |_| Ok(())).expect("it can be read")
}

#[tokio::test]
async fn lines_of_many_days_and_starts_are_one_chain() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = clock();
    assert_eq!(verified(folder.path()).lines, 0);
    write(folder.path(), &clock, 0, &["a", "b"]).await;
    write(folder.path(), &clock, 0, &["c"]).await;
    clock.advance(3 * DAY);
    write(folder.path(), &clock, 0, &["d", "e"]).await;
    let mut methods = Vec::new();
    let found = verify(folder.path(), |line| {
        let line: serde_json::Value = serde_json::from_str(line)?;
        methods.push(line["method"].as_str().expect("a method").to_owned());
        Ok(())
    });
    let found = found.expect("it can be read");
    assert_eq!((found.lines, found.last_number, found.fault), (5, 5, None));
    assert_eq!(methods, ["a", "b", "c", "d", "e"]);
    assert_eq!(files::list(folder.path()).expect("files").len(), 2);
    // Older files go, and what is left is still a chain.
    clock.advance(2 * DAY);
    write(folder.path(), &clock, 3, &["f"]).await;
    let found = verified(folder.path());
    assert_eq!((found.lines, found.last_number, found.fault), (3, 6, None));
}

#[tokio::test]
async fn whatever_is_changed_dropped_or_inserted_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = clock();
    write(folder.path(), &clock, 0, &["a", "b", "c"]).await;
    clock.advance(DAY);
    write(folder.path(), &clock, 0, &["d", "e"]).await;
    let paths = files::list(folder.path()).expect("files");
    for (number, path) in paths.iter().enumerate() {
        let text = std::fs::read_to_string(path).expect("text");
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let mut changes: Vec<(String, usize)> = Vec::new();
        for at in 0..lines.len() {
            let with = |change: &str| [&lines[..at].concat(), change, &lines[at + 1..].concat()].concat();
            changes.push((with(&lines[at].replace("ses_1", "ses_2")), at + 1));
            changes.push((with(&lines[at].replace("\"outcome\":\"OK\"", "\"outcome\":\"NO\"")), at + 1));
            changes.push((with(&[lines[at], lines[at]].concat()), at + 2));
            // The last line of the newest file leaves no trace: its number and hash are to be kept elsewhere.
            if at + 1 < lines.len() {
                changes.push((with(""), at + 1));
            }
        }
        for (changed, line) in changes {
            std::fs::write(path, &changed).expect("written");
            let fault = verified(folder.path()).fault.unwrap_or_else(|| panic!("unnoticed: {changed}"));
            assert_eq!((&fault.file, fault.line), (path, line), "file {number}: {changed}");
        }
        std::fs::write(path, &text).expect("restored");
    }
    let first = std::fs::read_to_string(&paths[0]).expect("text");
    std::fs::write(&paths[0], first.lines().next().expect("a line").to_owned() + "\n").expect("cut short");
    assert_eq!(verified(folder.path()).fault.map(|fault| fault.file), Some(paths[1].clone()));
}

#[tokio::test]
async fn a_line_that_was_not_written_whole_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = clock();
    write(folder.path(), &clock, 0, &["a"]).await;
    let path = files::list(folder.path()).expect("files").remove(0);
    let whole = std::fs::read_to_string(&path).expect("text");
    std::fs::write(&path, format!("{whole}{{\"number\":2,\"ti")).expect("written");
    write(folder.path(), &clock, 0, &["b"]).await;
    assert_eq!((verified(folder.path()).lines, verified(folder.path()).fault), (2, None));
}

#[tokio::test]
async fn a_log_that_cannot_be_written_says_so_and_recovers() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("log");
    let options = Options { directory: directory.clone(), retention_days: 0 };
    let clock = clock();
    let (log, thread) = AccessLog::open(options, clock.clone()).expect("a log");
    std::fs::remove_dir(&directory).expect("removed");
    log.record(entry("lost")).await.expect_err("there is no folder");
    assert!(log.is_failing());
    std::fs::create_dir(&directory).expect("made again");
    log.record(entry("kept")).await.expect("written");
    assert!(!log.is_failing());
    drop(log);
    thread.join().expect("no panic");
    assert_eq!((verified(&directory).lines, verified(&directory).fault), (1, None));
}
