//! The export of damaged stores without a daemon.

use crate::cli::longhand;
use crate::support::{connect, copy_database, private_folder};
use crate::tamper;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

/// The files of an export, as JSON values.
#[derive(Default)]
struct Export {
    sessions: Vec<Value>,
    /// By id, with the file's name.
    messages: BTreeMap<String, (String, Value)>,
    lost: Vec<Value>,
}

impl Export {
    /// Rows that could not be read.
    fn rows(&self) -> impl Iterator<Item = &Value> {
        self.lost.iter().filter(|row| word(row, "kind") == "lost")
    }
}

fn word<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

fn read(folder: &Path) -> Export {
    let mut export = Export::default();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("a file");
        for value in text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")) {
            match name.as_str() {
                "sessions.jsonl" => export.sessions.push(value),
                "lost.jsonl" => export.lost.push(value),
                _ => drop(export.messages.insert(word(&value, "messageId").to_owned(), (name.clone(), value))),
            }
        }
    }
    export
}

fn doctor(store: &Path, folder: &Path) -> Output {
    let home = private_folder();
    let mut command = longhand(home.path());
    command.arg("doctor").arg(store).arg("--export").arg(folder).output().expect("it runs")
}

/// Exports a store, which stays as it is.
fn export(store: &Path) -> Export {
    let database = fs::read(store.join("longhand.db")).expect("a file");
    let folder = private_folder();
    let output = doctor(store, folder.path());
    assert!(fs::read(store.join("longhand.db")).expect("a file") == database, "the store was changed");
    let export = read(folder.path());
    let expected = if export.lost.is_empty() { 0 } else { 3 };
    assert_eq!(output.status.code(), Some(expected), "{}", String::from_utf8_lossy(&output.stderr));
    export
}

fn altered(closed: &Path, sql: &str) -> TempDir {
    let folder = private_folder();
    copy_database(closed, folder.path());
    let database = connect(folder.path());
    for trigger in crate::support::column(&database, "select name from sqlite_master where type = 'trigger'") {
        database.execute_batch(&format!("drop trigger {trigger}")).expect("dropped");
    }
    database.execute_batch(sql).expect(sql);
    database.close().expect("closed");
    folder
}

#[tokio::test]
async fn damaged_rows_are_named_and_all_others_are_exported() {
    let closed = tamper::rich().await.stop().await;
    let whole = export(closed.path());
    let count = |sql| usize::try_from(crate::support::number(closed.path(), sql)).expect("a count");
    assert_eq!(whole.messages.len(), count("select count(*) from message"));
    assert_eq!(whole.sessions.len(), count("select count(*) from session"));
    assert_eq!(whole.lost, Vec::<Value>::new());
    for (name, message) in whole.messages.values() {
        assert_eq!(*name, format!("messages-{}.jsonl", word(message, "sessionId")));
    }
    let parts = |message: &Value| message["parts"].as_array().map_or(0, Vec::len);
    for (sql, table, messages, lost_parts) in [
        ("update message set head = x'00' where id in (2, 5)", "message", 2, 0),
        ("update message set kind = 99 where id = 3", "message", 1, 0),
        // No time that JSON has a form for.
        ("update message set create_time = 9000000000000000000 where id = 3", "message", 1, 0),
        ("update part set body = x'00' where rowid = (select min(rowid) from part)", "part", 0, 1),
        ("update blob set data = substr(data, 2) where rowid = 1", "blob", 0, 1),
        ("update session set window = x'00' where id = 1", "session", 0, 0),
    ] {
        let folder = altered(closed.path(), sql);
        let found = export(folder.path());
        assert!(
            found.rows().next().is_some() && found.rows().all(|row| word(row, "table") == table),
            "{sql}: {:?}",
            found.lost
        );
        for row in &found.lost {
            assert!(word(row, "sessionId").starts_with("ses_") && !word(row, "reason").is_empty(), "{sql}: {row}");
        }
        assert_eq!(found.messages.len(), whole.messages.len() - messages, "{sql}");
        let all = |export: &Export| export.messages.values().map(|(_, message)| parts(message)).sum::<usize>();
        let kept: usize = whole
            .messages
            .iter()
            .filter(|(id, _)| found.messages.contains_key(*id))
            .map(|(_, (_, message))| parts(message))
            .sum();
        assert!(all(&found) <= kept && all(&found) + 2 * lost_parts >= kept, "{sql}");
        let differing = found.messages.iter().filter(|(id, message)| whole.messages[*id] != **message).count();
        assert!(differing <= 2 * lost_parts, "{sql}: {differing}");
    }
}

#[tokio::test]
async fn a_damaged_page_costs_its_own_rows_only() {
    let closed = tamper::rich().await.stop().await;
    let whole = export(closed.path());
    let folder = altered(closed.path(), "pragma wal_checkpoint(truncate)");
    let database = connect(folder.path());
    // Pages of the table of messages with its leaves, and roots of its indexes.
    let pages = |sql: &str| -> Vec<usize> {
        let mut statement = database.prepare(sql).expect("a statement");
        let pages = statement.query_map([], |row| row.get::<_, i64>(0)).expect("rows");
        pages.map(|page| usize::try_from(page.expect("a page")).expect("a number")).collect()
    };
    let roots = pages("select rootpage from sqlite_master where name in ('message', 'message_class', 'session')");
    let interior = roots.clone();
    drop(database);
    let path = folder.path().join("longhand.db");
    let bytes = fs::read(&path).expect("a file");
    let total = bytes.len() / 4_096;
    let mut lost_anything = 0;
    for page in (20..total).step_by(23).chain(interior.into_iter().map(|root| root - 1)) {
        let mut damaged = bytes.clone();
        damaged[page * 4_096..][..4_096].fill(0xa5);
        fs::write(&path, damaged).expect("a file");
        let found = export(folder.path());
        let lost = found.rows().filter(|row| word(row, "table") == "message").count();
        assert_eq!(found.messages.len() + lost, whole.messages.len(), "page {page}: {:?}", found.lost);
        lost_anything += found.lost.len();
        for (id, (_, message)) in &found.messages {
            let has_lost = found.lost.iter().any(|row| word(row, "table") == "part");
            assert!(has_lost || message["parts"] == whole.messages[id].1["parts"], "page {page}: {id}");
        }
    }
    assert!(lost_anything > 0);
}

#[tokio::test]
async fn an_export_replaces_nothing() {
    let closed = tamper::rich().await.stop().await;
    let folder = private_folder();
    fs::write(folder.path().join("precious"), "x").expect("a file");
    let refused = doctor(closed.path(), folder.path());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is not an empty folder"), "{refused:?}");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
}
