//! Backups of a store that is written, and stores that are made from them.

use crate::cli::Daemon;
use crate::support::{TestApp, Watch, connect, private_folder, soon, text};
use longhand::app::Reason;
use longhand::app::backup::BackupItem;
use longhand::app::events::{Frame, Start, SubscribeRequest};
use longhand::daemon::offline::{self, CopyProgress};
use longhand::model::message::{NewMessage, Role};
use longhand::store::CheckedCopy;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A store that is made from a backup by copying the file, as an operator without our commands does.
async fn copied(backup: &Path) -> TestApp {
    let folder = private_folder();
    fs::copy(backup, folder.path().join("longhand.db")).expect("copied");
    TestApp::copy_of(folder.path()).await
}

pub(crate) async fn finish(test: &TestApp, path: &Path) -> Result<CheckedCopy, longhand::app::Error> {
    let mut items = test.app.daemon().create_backup(path.to_str().expect("UTF-8"))?;
    loop {
        match soon("the backup", items.recv()).await.expect("an end")? {
            BackupItem::Progress(_) => {}
            BackupItem::End(copy) => return Ok(copy),
        }
    }
}

async fn refused(test: &TestApp, path: &Path) -> longhand::app::Error {
    finish(test, path).await.expect_err("refused")
}

pub(crate) fn names(folder: &TempDir) -> Vec<PathBuf> {
    fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
}

/// The cursor of the newest event.
async fn head(test: &TestApp) -> String {
    let request = SubscribeRequest { start: Start::Now, ..SubscribeRequest::default() };
    let mut stream = Watch::new(test.app.events().subscribe(request).await.expect("a stream"));
    match stream.frame().await {
        Frame::Ready { cursor, .. } => cursor,
        frame => panic!("not ready: {frame:?}"),
    }
}

/// The error of a store that gets a cursor; none if it is accepted.
async fn resume(test: &TestApp, cursor: &str) -> Option<longhand::app::Error> {
    let request = SubscribeRequest { start: Start::After(cursor.to_owned()), ..SubscribeRequest::default() };
    test.app.events().subscribe(request).await.err()
}

#[tokio::test]
async fn a_restored_backup_has_the_same_sessions_and_another_identity() {
    let test = crate::tamper::rich().await;
    let cursor = head(&test).await;
    let folder = private_folder();
    let path = folder.path().join("backup.db");
    let copy = finish(&test, &path).await.expect("a backup");
    let info = test.app.daemon().info().await.expect("the state");
    assert_eq!((copy.path.as_path(), copy.head_seq), (path.as_path(), info.head_seq));
    assert_eq!((copy.checked.sessions, copy.checked.findings), (info.session_count, 0));
    assert_eq!(names(&folder), std::slice::from_ref(&path), "nothing is beside it");
    assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
    assert_eq!(resume(&test, &cursor).await, None, "the store itself stays what it is");

    let view = test.view("main").await;
    let mut ids = vec![info.store_id];
    for store in [copied(&path).await, copied(&path).await, restored(&path).await] {
        assert_eq!(store.findings().await, []);
        let id = store.app.daemon().info().await.expect("the state").store_id;
        assert!(!ids.contains(&id), "each store has an id of its own");
        ids.push(id);
        let error = resume(&store, &cursor).await.expect("refused");
        assert_eq!(error.reason, Reason::CursorForeign);
        assert!(error.message.contains("before the store was restored") && error.message.contains("start from"));
        assert_eq!(store.view("main").await.hash, view.hash);
        assert_eq!(store.view("main").await.token, view.token, "tokens of views stay valid");
        store.append("main", "u30 \"afterwards\"").await;
        let again = store.restart().await;
        assert_eq!(again.app.daemon().info().await.expect("the state").store_id, id, "once");
        assert_eq!(again.findings().await, []);
    }
}

/// A store that is made by `restore`.
async fn restored(backup: &Path) -> TestApp {
    let folder = private_folder();
    let phases = std::sync::Mutex::new(Vec::new());
    let note = |now| phases.lock().expect("no panic").push(now);
    let made = offline::restore(backup, &folder.path().join("store"), &note).await.expect("restored");
    assert_eq!(made.copy.checked.findings, 0);
    let phases = phases.into_inner().expect("no panic");
    assert!(matches!(phases[0], CopyProgress::Copying { .. }) && phases.contains(&CopyProgress::Checking));
    let all = CopyProgress::Verifying { events: made.copy.checked.events, total: made.copy.head_seq };
    assert_eq!(phases.last(), Some(&all));
    let store = TestApp::copy_of(&folder.path().join("store")).await;
    assert_eq!(store.app.daemon().info().await.expect("the state").store_id, made.store_id);
    store
}

#[tokio::test]
async fn appends_go_on_during_a_backup_which_is_of_one_moment() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let folder = private_folder();
    let first = folder.path().join("0.db");
    let mut items = test.app.daemon().create_backup(first.to_str().expect("UTF-8")).expect("it begins");
    let mut appended = Vec::new();
    let copy = loop {
        let message = NewMessage::sealed(Role::User, vec![text("words")]);
        let receipt = test.app.messages().append(&session, vec![message], None, None).await.expect("appended");
        appended.push(receipt.revision);
        match items.try_recv() {
            Ok(Ok(BackupItem::End(copy))) => break copy,
            Ok(Err(error)) => panic!("{error}"),
            Ok(Ok(BackupItem::Progress(_))) | Err(_) => {}
        }
    };
    assert_eq!(copy.checked.events, copy.head_seq, "no event is missing before the newest");
    assert!(appended.len() > 1 && copy.head_seq <= 1 + *appended.last().expect("one"));
    let store = copied(&first).await;
    assert_eq!(store.revision(&session).await, copy.head_seq);
    assert_eq!(store.findings().await, []);
}

#[tokio::test]
async fn only_new_files_outside_of_the_data_directory_are_written() {
    let test = TestApp::start().await;
    test.manual_session().await;
    let folder = private_folder();
    let existing = folder.path().join("existing");
    fs::write(&existing, "precious").expect("a file");
    std::os::unix::fs::symlink(folder.path().join("nowhere"), folder.path().join("link")).expect("a link");
    fs::write(folder.path().join("half.db.partial"), "left over").expect("a file");
    for (path, reason) in [
        (existing.clone(), Reason::BackupExists),
        (folder.path().join("link"), Reason::BackupExists),
        (folder.path().join("half.db"), Reason::BackupExists),
        (PathBuf::new(), Reason::InvalidField),
        (PathBuf::from("relative.db"), Reason::InvalidField),
        (folder.path().join("missing/x.db"), Reason::InvalidField),
        (existing.join("x.db"), Reason::InvalidField),
        (test.directory().join("longhand.db-journal"), Reason::InvalidField),
        (folder.path().join(".."), Reason::BackupExists),
    ] {
        assert_eq!(refused(&test, &path).await.reason, reason, "{path:?}");
    }
    assert_eq!(fs::read_to_string(&existing).expect("a file"), "precious");
    assert_eq!(names(&folder).len(), 3, "nothing else was made");
    assert!(finish(&test, &folder.path().join("new.db")).await.is_ok());
}

#[tokio::test]
async fn a_backup_of_a_damaged_store_is_no_backup() {
    let test = crate::tamper::rich().await;
    let closed = test.stop().await;
    let folder = private_folder();
    for sql in [
        "update message set head = x'00' where id = 2",
        "update event set actor = 'eve' where seq = 3",
        "update mark set body = x'00' where session_id = 1",
    ] {
        let damaged = TestApp::altered(closed.path(), sql).await;
        let error = refused(&damaged, &folder.path().join("backup.db")).await;
        assert_eq!(error.reason, Reason::BackupDamaged, "{sql}: {error}");
        assert_eq!(names(&folder), Vec::<PathBuf>::new(), "{sql}");
    }
}

#[tokio::test]
async fn a_caller_that_is_gone_ends_the_backup() {
    let test = TestApp::start().await;
    test.manual_session().await;
    let folder = private_folder();
    let path = folder.path().join("backup.db");
    drop(test.app.daemon().create_backup(path.to_str().expect("UTF-8")).expect("it begins"));
    // The next one begins once the abandoned one has ended.
    let done = async {
        loop {
            match finish(&test, &path).await {
                Err(error) if error.reason == Reason::BackupRunning => tokio::task::yield_now().await,
                done => return done,
            }
        }
    };
    let outcome = soon("the next backup", done).await;
    assert!(outcome.is_ok_and(|copy| copy.path == path));
    assert_eq!(names(&folder), [path]);
}

#[tokio::test]
async fn only_a_backup_is_restored_and_only_into_an_empty_directory() {
    let test = TestApp::start().await;
    let session = test.manual_session().await;
    let folder = private_folder();
    let backup = folder.path().join("backup.db");
    finish(&test, &backup).await.expect("a backup");
    let occupied = folder.path().join("occupied");
    fs::create_dir(&occupied).expect("a folder");
    fs::write(occupied.join("x"), "").expect("a file");
    let other = folder.path().join("other");
    fs::write(&other, [0; 4_096]).expect("a file");
    let live = test.directory().join("longhand.db");
    test.append(&session, "u1 \"in the log\"").await;
    for (from, to, expected) in [
        (&backup, occupied.clone(), "is not empty"),
        (&backup, other.clone(), "cannot be read"),
        (&other, folder.path().join("new"), "is not a backup"),
        (&folder.path().join("missing"), folder.path().join("new"), "cannot be read"),
        (&occupied, folder.path().join("new"), "is not a file"),
        (&live, folder.path().join("new"), "has a log beside it"),
    ] {
        let error = offline::restore(from, &to, &|_| {}).await.expect_err("refused").to_string();
        assert!(error.contains(expected), "{from:?} to {to:?}: {error}");
    }
    assert!(!folder.path().join("new").exists(), "nothing was made");
    // A damaged backup leaves nothing that a daemon would open.
    let mut bytes = fs::read(&backup).expect("a backup");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4_096].fill(0xff);
    fs::write(&other, bytes).expect("a file");
    offline::restore(&other, &folder.path().join("new"), &|_| {}).await.expect_err("refused");
    assert_eq!(fs::read_dir(folder.path().join("new")).expect("a folder").count(), 0);
    offline::restore(&backup, &folder.path().join("new"), &|_| {}).await.expect("an empty directory");
}

#[test]
fn the_commands_make_a_backup_and_a_store_of_it() {
    let home = private_folder();
    let daemon = Daemon::start(home.path());
    let session = daemon.text(&["create", "--title", "kept"]).trim().to_owned();
    daemon.text(&["append", &session, "words"]);
    let path = home.path().join("backup.db");
    let path = path.to_str().expect("UTF-8");
    let made = &daemon.json(&["backup", path])[0];
    assert_eq!((&made["path"], &made["sessionCount"]), (&path.into(), &"1".into()));
    let again = daemon.run(&["backup", path]);
    assert!(!again.status.success());
    assert!(String::from_utf8_lossy(&again.stderr).contains("exists, and is not replaced"), "{again:?}");
    let other = private_folder();
    let store = other.path().join("store");
    let store = store.to_str().expect("UTF-8");
    assert!(daemon.text(&["restore", path, "--data-dir", store]).contains("new store id"));
    let restored = Daemon::start(other.path());
    assert!(restored.text(&["show", &session]).contains("words"));
    assert_ne!(restored.json(&["status"])[0]["storeId"], daemon.json(&["status"])[0]["storeId"]);
}

#[test]
fn a_backup_is_refused_over_tcp() {
    let home = private_folder();
    let (daemon, line) = Daemon::start_as(home.path(), |command| {
        command.args(["--listen", "127.0.0.1:0"]);
    });
    let tcp = line.split_whitespace().find(|word| word.starts_with("http://")).expect("an address");
    let path = home.path().join("backup.db");
    let output = crate::cli::longhand(home.path())
        .args(["backup", "--server", tcp, "--token-file"])
        .arg(daemon.directory.join("access-token"))
        .arg(&path)
        .output()
        .expect("the command runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("SOCKET_REQUIRED"), "{output:?}");
    assert!(!path.exists());
    drop(daemon);
}

#[tokio::test]
async fn rows_of_foreign_sessions_are_found_in_a_copy() {
    let test = TestApp::start().await;
    test.manual_session().await;
    let closed = test.stop().await;
    let database = connect(closed.path());
    let sql = "insert into job select null, x'01', 7, 1, 1, null, 3, 0, 0, '', '', null, null, '', null, 0, 0, x'', 0, 0, \
         0, null, null, 0, null, null, null, null, null, 0, null, null, null";
    database.execute_batch(sql).expect("inserted");
    let damaged = TestApp::copy_of(closed.path()).await;
    let folder = private_folder();
    let error = refused(&damaged, &folder.path().join("backup.db")).await;
    assert!(error.message.contains("rows refer to rows that are not there"), "{error}");
}

#[test]
fn erasures_since_a_backup_are_applied_to_the_store_that_is_made_of_it() {
    let home = private_folder();
    let daemon = Daemon::start(home.path());
    let create = || daemon.text(&["create"]).trim().to_owned();
    let append = |session: &str, words: &str| daemon.text(&["append", session, words]).trim().to_owned();
    let (session, whole, both) = (create(), create(), create());
    let before = append(&session, "zarpfdnr before the backup");
    append(&session, "kept words");
    let before_too = append(&session, "zarpfdnr in another message");
    append(&whole, "zarpfdnr in a session of its own");
    append(&both, "zarpfdnr in a session of two erasures");
    let backup = home.path().join("backup.db");
    daemon.text(&["backup", backup.to_str().expect("UTF-8")]);
    let fork = daemon.text(&["fork", &session]).trim().to_owned();
    let after = append(&session, "written later");
    let of_both = append(&both, "a message of it");
    let later = create();
    append(&later, "another session");
    let erase = |what: &[&str]| daemon.text(&[&["erase"], what, &["--reason", "a request", "--yes"]].concat());
    erase(&[&session, &before, "--also", &before_too]);
    erase(&[&session, &after]);
    erase(&[&both, &of_both]);
    erase(&[&both]);
    erase(&[&whole]);
    erase(&[&later]);
    erase(&[&later]);
    let exported = daemon.text(&["erasures", "export"]);
    assert!(exported.contains(&fork) && !exported.contains("zarpfdnr"), "{exported}");
    let file = home.path().join("erasures");
    fs::write(&file, &exported).expect("written");
    let file = file.to_str().expect("UTF-8");

    let other = private_folder();
    let store = other.path().join("store");
    daemon.text(&["restore", backup.to_str().expect("UTF-8"), "--data-dir", store.to_str().expect("UTF-8")]);
    let restored = Daemon::start(other.path());
    assert!(restored.text(&["show", &session]).contains("zarpfdnr"));
    assert!(!restored.run(&["erasures", "apply", file]).status.success(), "nobody can be asked");
    let apply = || restored.json(&["erasures", "apply", file, "--yes"]).remove(0);
    let applied = apply();
    let counts = |applied: &serde_json::Value| {
        ["erasedCount", "existedCount", "missingCount"].map(|name| applied[name].as_i64().expect("a count"))
    };
    assert_eq!(counts(&applied), [4, 0, 3], "{applied}");
    assert_eq!(applied["pendingFiles"].as_array().map_or(0, Vec::len), 0, "{applied}");
    let shown = restored.text(&["show", &session]);
    assert!(shown.contains("kept words") && !shown.contains("zarpfdnr"), "{shown}");
    for file in fs::read_dir(&restored.directory).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let has = file.is_file() && fs::read(&file).expect("a file").windows(8).any(|window| window == b"zarpfdnr");
        assert!(!has, "{} has it", file.display());
    }
    // The message that the copy lacks went with its session, which does not stop what comes after it.
    assert_eq!(counts(&apply()), [0, 5, 2], "once is enough");
    assert!(restored.run(&["audit", "verify"]).status.success());
    let foreign = home.path().join("foreign");
    fs::write(&foreign, format!("{}\n", daemon.text(&["events", "--json"]).lines().next().expect("an event")))
        .expect("written");
    let refused = restored.run(&["erasures", "apply", foreign.to_str().expect("UTF-8"), "--yes"]);
    assert_eq!(refused.status.code(), Some(64), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("line 1 is no erasure"), "{refused:?}");
}
