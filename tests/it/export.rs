//! The export of damaged stores without a daemon.

use crate::cli::longhand;
use crate::support::{connect, copy_database, private_folder, turns};
use crate::tamper;
use longhand::app::append::NewDraftText;
use longhand::model::draft::DraftKind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
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
async fn a_session_whose_id_was_altered_is_named_by_the_id_of_its_index() {
    let closed = tamper::rich().await.stop().await;
    let whole = export(closed.path());
    let folder = altered(closed.path(), "pragma wal_checkpoint(truncate)");
    let path = folder.path().join("longhand.db");
    let database = fs::read(&path).expect("a file");
    let mut named = 0;
    for id in whole.sessions.iter().map(|session| word(session, "sessionId")) {
        let digits = id.trim_start_matches("ses_");
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
        let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
        // In its row, in the index, and wherever else it is.
        let places = (0..database.len() - bytes.len()).filter(|at| database[*at..].starts_with(&bytes));
        for at in places {
            let mut damaged = database.clone();
            damaged[at + 9] ^= 0xf4;
            fs::write(&path, &damaged).expect("written");
            let found = export(folder.path());
            let is_named = found.lost.iter().any(|line| word(line, "table") == "session" && word(line, "row") == id);
            let is_whole = |id: &String| found.messages.get(id) == whole.messages.get(id);
            let is_its = |message: &(String, Value)| word(&message.1, "sessionId") == id;
            let all = whole.messages.iter().filter(|(_, message)| is_its(message));
            assert!(is_named || all.map(|(id, _)| id).all(is_whole), "{id} at {at}: {:?}", found.lost);
            named += usize::from(is_named);
        }
    }
    assert!(named >= whole.sessions.len(), "{named} of {}", whole.sessions.len());
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
    // Without the schema nothing of a database can be read.
    let of_schema: Vec<usize> = pages("select pageno from dbstat where name = 'sqlite_schema'");
    drop(database);
    let path = folder.path().join("longhand.db");
    let bytes = fs::read(&path).expect("a file");
    let total = bytes.len() / 4_096;
    let mut lost_anything = 0;
    let leaves = (20..total).step_by(23).filter(|page| !of_schema.contains(&(page + 1)));
    for page in leaves.chain(interior.into_iter().map(|root| root - 1)) {
        let mut damaged = bytes.clone();
        damaged[page * 4_096..][..4_096].fill(0xa5);
        fs::write(&path, damaged).expect("a file");
        let found = export(folder.path());
        let lost = found.rows().filter(|row| word(row, "table") == "message").count();
        assert_eq!(found.messages.len() + lost, whole.messages.len(), "page {page}: {:?}", found.lost);
        lost_anything += found.lost.len();
        for (id, (_, message)) in &found.messages {
            let has_lost = found.lost.iter().any(|row| ["part", "blob"].contains(&word(row, "table")));
            assert!(has_lost || message["parts"] == whole.messages[id].1["parts"], "page {page}: {id}");
        }
    }
    assert!(lost_anything > 0);
}

/// A store with every kind of row, an open message with a draft, an archived session, and tables of several pages.
async fn full() -> Arc<TempDir> {
    let test = tamper::rich().await;
    let session = test.manual_session().await;
    for first in [1, 101, 201] {
        test.append(&session, &turns(first, first + 99, 200)).await;
    }
    test.append(&session, "a900 \"begun\" open").await;
    let words = NewDraftText { part: None, client_id: None, kind: DraftKind::Text, offset: 0, delta: "hm".to_owned() };
    test.app.messages().append_draft(&session, "a900", words).await.expect("drafted");
    let archived = test.manual_session().await;
    test.append(&archived, "u1 \"done\"").await;
    test.app.sessions().archive(&archived).await.expect("archived");
    test.stop().await
}

/// A copy of a closed store without a log, and the path of its database.
fn checkpointed(closed: &Path) -> (TempDir, PathBuf) {
    let folder = altered(closed, "pragma wal_checkpoint(truncate)");
    let path = folder.path().join("longhand.db");
    (folder, path)
}

/// The missing and the altered messages of an export, with their sessions and the revisions at which they were written.
fn lacking<'w>(found: &Export, whole: &'w Export) -> Vec<(&'w str, Vec<i64>)> {
    let at = |value: &Value, name| word(value, name).parse::<i64>().ok();
    let missing = whole.messages.iter().filter(|(id, message)| found.messages.get(*id) != Some(*message));
    missing
        .map(|(_, (_, message))| {
            let parts = message["parts"].as_array().into_iter().flatten();
            let all = parts.chain([message]).flat_map(|value| [at(value, "revision"), at(value, "sealedRevision")]);
            (word(message, "sessionId"), all.flatten().collect())
        })
        .collect()
}

/// True if a line names a session and one of the revisions.
fn names(lost: &[Value], session: &str, revisions: &[i64]) -> bool {
    lost.iter().any(|line| {
        let at = |name| word(line, name).parse::<i64>().ok();
        let first = at("revision");
        let range = first.zip(at("lastRevision").or(first));
        let is_there = |(first, last)| revisions.iter().any(|revision| (first..=last).contains(revision));
        word(line, "sessionId") == session && range.is_some_and(is_there)
    })
}

#[tokio::test]
async fn rows_that_a_damaged_page_hides_are_named() {
    let closed = full().await;
    let whole = export(closed.path());
    assert_eq!(whole.lost, Vec::<Value>::new(), "open, archived, forked, edited and derived messages are no gaps");
    let (folder, path) = checkpointed(closed.path());
    let bytes = fs::read(&path).expect("a file");
    let (mut pages, mut lossy) = (0, 0);
    for header in (1..bytes.len() / 4_096).step_by(4).map(|page| page * 4_096) {
        let cells = u16::from_be_bytes([bytes[header + 3], bytes[header + 4]]);
        if ![5, 10, 13].contains(&bytes[header]) || !(4..=400).contains(&cells) {
            continue;
        }
        // SQLite then reads the first half of the cells, and finds nothing wrong.
        let mut damaged = bytes.clone();
        damaged[header + 3..header + 5].copy_from_slice(&(cells / 2).to_be_bytes());
        fs::write(&path, damaged).expect("a file");
        let found = export(folder.path());
        for (session, revisions) in lacking(&found, &whole) {
            lossy += 1;
            assert!(
                names(&found.lost, session, &revisions),
                "page at {header}: {session} {revisions:?}: {:?}",
                found.lost
            );
        }
        pages += 1;
    }
    assert!(pages > 10 && lossy > 50, "{pages} pages, {lossy} messages");
}

#[tokio::test]
async fn rows_that_are_gone_or_altered_are_named_with_their_place() {
    let closed = full().await;
    let whole = export(closed.path());
    let database = connect(closed.path());
    let place =
        |sql: &str| -> (String, i64) { database.query_row(sql, (), |row| Ok((row.get(0)?, row.get(1)?))).expect(sql) };
    let of = |table: &str, condition: &str| {
        place(&format!(
            "select 'ses_' || lower(hex(s.public_id)), r.revision from {table} r join session s on s.id = r.session_id \
             where {condition}"
        ))
    };
    let message = |condition: &str| of("message", condition);
    let appended = "r.id = 12";
    let streamed = "r.id = (select min(message_id) from part)";
    let of_part = "(select min(message_id) from part)";
    for (sql, kind, table, (session, revision)) in [
        ("delete from message where id = 12".to_owned(), "gap", "message", message(appended)),
        ("delete from message where id between 12 and 15".to_owned(), "gap", "message", message(appended)),
        (format!("delete from part where message_id = {of_part}"), "gap", "part", message(streamed)),
        (format!("delete from part where message_id = {of_part} and position = 0"), "gap", "part", message(streamed)),
        ("delete from event where seq = 9".to_owned(), "gap", "event", of("event", "r.seq = 9")),
        // The last event of the log, and the message that came with it.
        (
            "delete from message where (session_id, revision) = \
             (select session_id, revision from event where kind = 7 order by seq desc limit 1); \
             delete from event where seq = (select max(seq) from event where kind = 7)"
                .to_owned(),
            "gap",
            "event",
            of("event", "r.kind = 7 order by r.seq desc limit 1"),
        ),
        ("update message set role = 3 - role where id = 12".to_owned(), "doubt", "event", message(appended)),
        ("update message set client_id = 'eve' where id = 12".to_owned(), "doubt", "event", message(appended)),
        ("update message set revision = 7000 where id = 12".to_owned(), "doubt", "message", message(appended)),
        ("update message set public_id = zeroblob(16) where id = 12".to_owned(), "gap", "message", message(appended)),
        ("update message set session_id = 77 where id = 12".to_owned(), "doubt", "message", message(appended)),
        ("update event set actor = 'eve' where seq = 9".to_owned(), "doubt", "event", of("event", "r.seq = 9")),
        ("delete from mark where session_id = 1".to_owned(), "doubt", "event", of("mark", "r.session_id = 1 limit 1")),
    ] {
        let found = export(altered(closed.path(), &sql).path());
        let lines: Vec<Value> = found
            .lost
            .iter()
            .filter(|line| word(line, "kind") == kind && word(line, "table") == table)
            .cloned()
            .collect();
        assert!(names(&lines, &session, &[revision]), "{sql}: {session} {revision} in {:?}", found.lost);
        for (session, revisions) in lacking(&found, &whole) {
            assert!(names(&found.lost, session, &revisions), "{sql}: {session} {revisions:?}: {:?}", found.lost);
        }
    }
    let found = export(altered(closed.path(), "delete from session where id = 1").path());
    let gap = found.lost.iter().find(|line| word(line, "table") == "session").expect("a gap");
    assert_eq!((word(gap, "kind"), word(gap, "row"), word(gap, "rowCount")), ("gap", "1", "1"), "{:?}", found.lost);
    assert_eq!(found.messages.len(), whole.messages.len(), "the messages of a session that is gone are exported");
}

#[tokio::test]
async fn rows_are_found_by_another_path() {
    let closed = full().await;
    let whole = export(closed.path());
    let (folder, path) = checkpointed(closed.path());
    let bytes = fs::read(&path).expect("a file");
    let database = connect(folder.path());
    let root = |name: &str| -> usize {
        let sql = format!("select rootpage from sqlite_master where name = '{name}'");
        usize::try_from(crate::support::value::<i64>(&database, &sql)).expect("a page") - 1
    };
    let read = |damaged: &[u8]| {
        fs::write(&path, damaged).expect("a file");
        export(folder.path())
    };
    // Without its index, a table is scanned.
    for index in
        ["message_class", "event_revision", "part_position", "sqlite_autoindex_blob_1", "sqlite_autoindex_session_1"]
    {
        let mut damaged = bytes.clone();
        damaged[root(index) * 4_096..][..4_096].fill(0xa5);
        let found = read(&damaged);
        // The log shows that no session is missing.
        let is_needed = index != "sqlite_autoindex_session_1";
        assert_eq!(found.lost.is_empty(), !is_needed, "{index}: nobody can say that it is whole: {:?}", found.lost);
        assert_eq!(lacking(&found, &whole), [], "{index}: {:?}", found.lost);
        assert_eq!(found.sessions.len(), whole.sessions.len(), "{index}");
    }
    // Look-ups follow the keys in the upper pages of a tree, and scans do not.
    let upper = root("message") * 4_096;
    assert_eq!(bytes[upper], 5, "the table has upper pages");
    let cell = upper + usize::from(u16::from_be_bytes([bytes[upper + 12], bytes[upper + 13]]));
    let mut damaged = bytes.clone();
    damaged[cell + 4] = 1;
    let found = read(&damaged);
    assert_eq!(lacking(&found, &whole), [], "{:?}", found.lost);
    // An entry of the schema that nobody can read costs only what it describes.
    let entry = b"session_wake on session";
    let at = bytes.windows(entry.len()).position(|window| window == entry).expect("an index");
    let mut damaged = bytes.clone();
    damaged[at + b"session_wake ".len()] = b'x';
    assert_eq!(lacking(&read(&damaged), &whole), []);
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
