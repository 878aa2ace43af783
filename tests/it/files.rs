//! Invalid paths: each is refused with one sentence, before anything is made, changed or removed.

use crate::cli::{Daemon, longhand};
use crate::support::connect;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Everything below a folder: type, permissions and content.
fn everything(folder: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("an entry").path();
        let state = fs::symlink_metadata(&path).expect("it is there");
        let bytes = if state.is_file() {
            fs::read(&path).expect("it can be read")
        } else if state.is_symlink() {
            fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
        } else {
            Vec::new()
        };
        if state.is_dir() {
            found.extend(everything(&path));
        }
        found.insert(path, (state.mode(), bytes));
    }
    found
}

/// The message of a daemon that is refused; checks that it changed nothing.
fn refusal(home: &Path, arguments: &[&Path]) -> String {
    let before = everything(home);
    let mut command = longhand(home);
    command.arg("serve").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the daemon starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line).expect("its first line");
    if !line.is_empty() {
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        panic!("it was to be refused: {arguments:?}: {line}");
    }
    let mut words = String::new();
    child.stderr.take().expect("it is piped").read_to_string(&mut words).expect("its words");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(1), "{arguments:?}: {words}");
    let words: Vec<&str> = words.lines().filter(|line| line.starts_with("longhand: ")).collect();
    assert_eq!(words.len(), 1, "one sentence: {words:?}");
    assert_eq!(everything(home), before, "{arguments:?} changed something");
    words[0].to_owned()
}

fn private(folder: &Path) -> PathBuf {
    fs::DirBuilder::new().mode(0o700).create(folder).expect("a folder");
    folder.to_owned()
}

/// A folder with a store that no daemon serves, with a log that is not checkpointed.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a folder");
    Daemon::start(home.path()).kill();
    home
}

#[test]
fn a_socket_replaces_nothing_but_a_dead_socket() {
    let home = home();
    let at = |name: &str| home.path().join(name);
    let store = at("store");
    fs::write(at("notes"), "of somebody").expect("a file");
    private(&at("folder"));
    symlink(at("notes"), at("link")).expect("a link");
    symlink(at("nowhere"), at("dangling")).expect("a link");
    symlink(store.join("longhand.sock"), at("to-socket")).expect("a link");
    let datagrams = UnixDatagram::bind(at("datagrams")).expect("a socket");
    let listening = UnixListener::bind(at("listening")).expect("a socket");
    let long = at(&"x".repeat(120));
    let cases = [
        (at("notes"), "a file is there"),
        (at("folder"), "a directory is there"),
        (at("link"), "a symbolic link is there"),
        (at("dangling"), "a symbolic link is there"),
        (at("to-socket"), "a symbolic link is there"),
        (at("datagrams"), "it is unknown if the socket there is used"),
        (at("listening"), "another daemon listens there already"),
        (long, "is too long for a socket"),
        (at("notes/beneath"), "Not a directory"),
        (at("folder/.."), "names no file"),
        (store.clone(), "the store has its own files there"),
        (store.join("longhand.db"), "the store has its own files there"),
        (store.join("longhand.db-wal"), "the store has its own files there"),
        (at("folder/../store/longhand.db-shm"), "the store has its own files there"),
    ];
    for (socket, why) in cases {
        let message = refusal(home.path(), &[Path::new("--data-dir"), &store, Path::new("--socket"), &socket]);
        assert!(message.contains("cannot listen on unix:") && message.contains(why), "{message}");
    }
    // The refusal does not create a store that does not exist.
    let new = at("new");
    let message =
        refusal(home.path(), &[Path::new("--data-dir"), &new, Path::new("--socket"), &new.join("longhand.db")]);
    assert!(message.contains("the store has its own files there"), "{message}");
    drop((datagrams, listening));

    // The killed daemon's socket, and a socket without a listener, are replaced.
    for socket in [store.join("longhand.sock"), at("listening")] {
        assert!(fs::symlink_metadata(&socket).expect("it is left").file_type().is_socket());
        let daemon = Daemon::start_as(home.path(), |command| {
            command.arg("--socket").arg(&socket);
        })
        .0;
        assert_eq!(fs::symlink_metadata(&socket).expect("it is there").mode() & 0o777, 0o600);
        assert!(daemon.stop().success());
        assert!(!socket.exists(), "a daemon that stops takes its socket along");
    }
}

#[test]
fn a_daemon_that_stops_leaves_what_replaced_its_socket() {
    let home = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(home.path());
    let socket = daemon.directory.join("longhand.sock");
    fs::remove_file(&socket).expect("removed");
    fs::write(&socket, "of somebody").expect("a file");
    assert!(daemon.stop().success());
    assert_eq!(fs::read(&socket).expect("it is left"), b"of somebody");
}

#[test]
fn a_socket_gets_a_directory_that_only_its_owner_enters() {
    let home = tempfile::tempdir().expect("a folder");
    let socket = home.path().join("deep/er/s");
    let daemon = Daemon::start_as(home.path(), |command| {
        command.arg("--socket").arg(&socket);
    })
    .0;
    for folder in ["deep", "deep/er", "store"] {
        let mode = fs::metadata(home.path().join(folder)).expect("it is made").mode();
        assert_eq!(mode & 0o777, 0o700, "{folder}");
    }
    assert!(daemon.stop().success());
}

/// A change of a store, and the daemon's message about it.
type Spoil = (&'static str, fn(&Path), &'static str);

#[test]
fn a_data_directory_that_is_not_private_or_not_ours_is_refused() {
    let cases: [Spoil; 12] = [
        ("others enter", |store| chmod(store, 0o755), "is open to others (mode 755): chmod 700 "),
        ("a group enters", |store| chmod(store, 0o710), "is open to others (mode 710)"),
        ("others read the database", |store| chmod(&store.join("longhand.db"), 0o644), "chmod 600 "),
        ("a group reads the log", |store| chmod(&store.join("longhand.db-wal"), 0o640), "chmod 600 "),
        ("the database is a link", |store| linked(&store.join("longhand.db")), "is a symbolic link"),
        ("the log is a link", |store| linked(&store.join("longhand.db-wal")), "is a symbolic link"),
        ("the index is a link", |store| linked(&store.join("longhand.db-shm")), "is a symbolic link"),
        (
            "the database has two names",
            |store| fs::hard_link(store.join("longhand.db"), store.join("other")).expect("a link"),
            "has a second name elsewhere",
        ),
        ("the database is a directory", |store| emptied(&store.join("longhand.db")), "is not a file"),
        (
            "the database is gone and its log is not",
            |store| fs::remove_file(store.join("longhand.db")).expect("removed"),
            "is missing or empty, but its log is there",
        ),
        (
            "the database is empty and its log is not",
            |store| fs::write(store.join("longhand.db"), "").expect("emptied"),
            "is missing or empty, but its log is there",
        ),
        ("the directory is a link", linked, "is a symbolic link: name the data directory itself"),
    ];
    for (what, spoil, why) in cases {
        let home = home();
        let store = home.path().join("store");
        spoil(&store);
        for given in [store.clone(), store.join("")] {
            let message = refusal(home.path(), &[Path::new("--data-dir"), &given]);
            assert!(message.contains(why), "{what}: {message}");
        }
    }
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
}

/// Moves a path away, and replaces it by a symbolic link to it.
fn linked(path: &Path) {
    let moved = path.with_extension("moved");
    fs::rename(path, &moved).expect("moved");
    symlink(&moved, path).expect("a link");
}

/// Replaces a file by an empty directory.
fn emptied(path: &Path) {
    fs::remove_file(path).expect("removed");
    private(path);
}

#[tokio::test]
async fn foreign_databases_are_refused() {
    let home = home();
    let file = home.path().join("file");
    fs::write(&file, "of somebody").expect("a file");
    let refused = |store: &Path| refusal(home.path(), &[Path::new("--data-dir"), store]);
    assert!(refused(&file).contains("is not a directory"), "{file:?}");
    assert!(refused(&file.join("beneath")).contains("cannot look at"), "{file:?}");
    let settings = home.path().join("longhand.toml");
    fs::write(&settings, "data_dir = \"\"\n").expect("settings");
    let message = refusal(home.path(), &[Path::new("--config"), &settings]);
    assert!(message.contains("the path of the data directory is empty"), "{message}");

    let mut count = 0;
    let mut store_with = |words: &[u8]| {
        count += 1;
        let store = private(&home.path().join(format!("store-{count}")));
        fs::write(store.join("longhand.db"), words).expect("a file");
        chmod(&store.join("longhand.db"), 0o600);
        store
    };
    assert!(refused(&store_with(b"of somebody")).contains("is not a database"));
    assert!(refused(&store_with(&[0; 8_192])).contains("is not a database"));
    assert!(refused(&store_with(b"SQLite format 3\0")).contains("is not a database"));

    // Databases of other programs: with their own id, in the file, still in the log, and in an old journal.
    for sql in [
        "pragma application_id = 7; vacuum;",
        "create table t (c)",
        "pragma journal_mode = wal; create table t (c)",
        "create table t (c); begin; insert into t values (1)",
    ] {
        let store = store_with(b"");
        let database = connect(&store);
        database.execute_batch(sql).expect(sql);
        assert!(refused(&store).contains("is a database of another program"), "{sql}");
        drop(database);
    }
}

#[tokio::test]
async fn a_first_start_that_was_interrupted_is_no_hindrance() {
    // An interrupted first start leaves an empty file, or an empty database.
    for sql in ["", "pragma journal_mode = wal"] {
        let home = tempfile::tempdir().expect("a folder");
        let store = private(&home.path().join("store"));
        fs::write(store.join("longhand.db"), "").expect("a file");
        chmod(&store.join("longhand.db"), 0o600);
        let database = connect(&store);
        database.execute_batch(sql).expect(sql);
        database.close().expect("closed");
        assert!(Daemon::start(home.path()).stop().success(), "{sql}");
    }
}

#[tokio::test]
async fn a_store_of_another_version_is_refused_and_left_as_it_is() {
    let home = home();
    let store = home.path().join("store");
    let database = connect(&store);
    let other = "insert into migration (version, time) values (29990101000000, 0)";
    database.execute_batch(other).expect("written");
    database.close().expect("closed");
    let message = refusal(home.path(), &[Path::new("--data-dir"), &store]);
    assert!(message.contains("was written by another version of Longhand"), "{message}");
    assert!(message.contains("29990101000000"), "{message}");
}
