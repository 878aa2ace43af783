//! The program dies anywhere: the same command again ends the migration, and in between at most one of the two is served.

use super::{files, migrate, open};
use crate::cli::{Daemon, longhand};
use crate::database::Database;
use crate::engines::place;
use crate::postgres::Server;
use crate::support::{TestApp, private_folder, turns};
use longhand::telemetry::failpoint;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

/// The places at which the program dies, in their order, each with whether the source is set aside by then, and whether
/// the copy is the store.
const POINTS: [(&str, bool, bool); 8] = [
    ("migrate.begun", false, false),
    ("migrate.page", false, false),
    ("migrate.page:12", false, false),
    ("migrate.copied", false, false),
    ("migrate.ended", false, false),
    ("migrate.verified", false, false),
    ("migrate.aside", true, false),
    ("migrate.complete", true, true),
];

/// A home with its two places.
struct Home {
    folder: tempfile::TempDir,
    server: &'static Server,
    /// Its database, of which a daemon has the first shard.
    database: String,
    /// True for a move from the shard into files.
    is_back: bool,
}

impl Home {
    fn files(&self) -> std::path::PathBuf {
        self.folder.path().join("store")
    }

    fn migrate(&self, point: Option<&str>) -> Output {
        let mut command = longhand(self.folder.path());
        let (files, url) = (self.files(), self.server.database(&self.database));
        command.arg("migrate");
        match self.is_back {
            true => command.arg(url).arg(files),
            false => command.arg(files).arg(url),
        };
        if let Some(point) = point {
            command.env(failpoint::VARIABLE, point);
        }
        command.output().expect("it runs")
    }

    fn is_served(&self, in_shard: bool, refusal: &str) -> bool {
        let data = if in_shard { "data" } else { "store" };
        let mut command = longhand(self.folder.path());
        command.args(["serve", "--listen", "off", "--data-dir"]).arg(self.folder.path().join(data));
        if in_shard {
            command.args(["--database", &self.server.database(&self.database)]);
        }
        is_served(command, refusal)
    }
}

/// True if a daemon serves, which is stopped then; else it ends with an error, and must have said why.
pub(super) fn is_served(mut command: Command, refusal: &str) -> bool {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("a line, or an end");
    if line.contains("longhand.sock") {
        kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
        child.wait().expect("it ends");
        return true;
    }
    let output = child.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains(refusal), "{error}");
    false
}

/// A store with some sessions.
async fn store() -> Arc<tempfile::TempDir> {
    let test = TestApp::start().await;
    for _ in 0..2 {
        let session = test.manual_session().await;
        test.append(&session, &turns(1, 12, 3_000)).await;
    }
    test.stop().await
}

async fn home(server: &'static Server, original: &Path, (index, point): (usize, &str), is_back: bool) -> Home {
    let database = format!("kill_{}_{index}", if is_back { "back" } else { "there" });
    let home = Home { folder: private_folder(), server, database, is_back };
    let directory = home.files();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::create_dir(&directory).expect(point);
    std::fs::set_permissions(&directory, private).expect(point);
    crate::support::copy_database(original, &directory);
    if is_back {
        migrate(&files(&directory), &super::of_daemons(server, &home.database)).await.expect(point);
        std::fs::remove_file(directory.join("longhand.db.migrated")).expect(point);
    }
    home
}

async fn dies_anywhere(is_back: bool) {
    let Some(server) = Server::shared() else { return };
    let original = store().await;
    for (index, (point, is_aside, is_complete)) in POINTS.into_iter().enumerate() {
        let home = home(server, original.path(), (index, point), is_back).await;
        let killed = home.migrate(Some(point));
        let error = String::from_utf8_lossy(&killed.stderr).into_owned();
        assert_eq!(killed.status.signal(), Some(6), "{point} was not reached: {error}");
        // Before a daemon looks: it must not matter whether one did.
        if index % 2 == 0 {
            let source = home.is_served(is_back, "set aside");
            let copy = home.is_served(!is_back, "is not whole");
            assert_eq!((source, copy), (!is_aside, is_complete), "{point}");
        }
        for _ in 0..2 {
            let again = home.migrate(None);
            assert!(again.status.success(), "{point}: {}", String::from_utf8_lossy(&again.stderr));
        }
        assert!(!home.is_served(is_back, "set aside"), "{point}");
        assert!(home.is_served(!is_back, ""), "{point}");
        let checked = checked(&home, !is_back);
        assert!(checked.contains("2 sessions") && checked.contains("no findings"), "{point}: {checked}");
    }
}

/// What the check of a store says.
fn checked(home: &Home, in_shard: bool) -> String {
    let folder = home.folder.path();
    if in_shard {
        // A daemon of the tests has its data directory there.
        std::fs::rename(folder.join("store"), folder.join("original")).expect("renamed");
        place(&folder.join("store"), Some((home.server.database(&home.database), "s1")));
    }
    let daemon = Daemon::start(folder);
    let text = daemon.text(&["audit", "verify"]);
    daemon.stop();
    place(&folder.join("store"), None);
    text
}

/// Puts the files of a store in the place of others.
fn replace(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(to).expect("a folder") {
        std::fs::remove_file(entry.expect("an entry").path()).expect("removed");
    }
    crate::support::copy_database(from, to);
}

#[tokio::test]
async fn a_migration_into_a_shard_that_dies_anywhere_is_ended_by_the_next_one() {
    dies_anywhere(false).await;
}

#[tokio::test]
async fn a_migration_into_files_that_dies_anywhere_is_ended_by_the_next_one() {
    dies_anywhere(true).await;
}

/// The rows that are there already are not copied again, unless the store has changed since.
#[tokio::test]
async fn a_second_migration_goes_on_where_the_first_one_ended_if_the_store_is_the_same() {
    let Some(server) = Server::shared() else { return };
    let original = store().await;
    let home = home(server, original.path(), (99, "resumed"), false).await;
    let killed = home.migrate(Some("migrate.copied"));
    assert_eq!(killed.status.signal(), Some(6));
    let directory = home.files();
    place(&home.folder.path().join("data"), Some((server.database(&home.database), "s1")));
    let mut database = Database::of(&home.folder.path().join("data"));
    // The transactions that wrote the rows.
    let mut written = || -> Vec<String> {
        let sql = "select xmin::text from event union all select xmin::text from message union all select xmin::text from \
             session";
        database.column(sql)
    };
    let first = written();
    assert!(home.migrate(Some("migrate.copied")).status.signal() == Some(6));
    let second = written();
    let kept = first.iter().zip(&second).filter(|(first, second)| first == second).count();
    assert_eq!(kept, first.len() - 2, "only those of sessions were copied again");
    // Another event: all is copied again.
    let folder = Arc::new(private_folder());
    crate::support::copy_database(&directory, folder.path());
    let test = open(&folder).await;
    let session = test.manual_session().await;
    test.append(&session, "u1 \"a change\"").await;
    let changed = test.stop().await;
    replace(changed.path(), &directory);
    assert!(home.migrate(Some("migrate.copied")).status.signal() == Some(6));
    let third = written();
    assert_eq!(second.iter().zip(&third).filter(|(second, third)| second == third).count(), 0);
    assert!(third.len() > second.len());
    // Another store does not get the copy of this one.
    let other = private_folder();
    crate::support::copy_database(original.path(), other.path());
    let refused = migrate(&files(other.path()), &super::of_daemons(server, &home.database)).await.expect_err("refused");
    assert!(refused.contains("an unfinished copy of another store"), "{refused}");
    let ended = home.migrate(None);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(checked(&home, true).contains("3 sessions"));
}

/// A verified copy that another one overtook never becomes a store.
#[tokio::test]
async fn only_one_of_two_copies_becomes_the_store() {
    let Some(server) = Server::shared() else { return };
    let original = store().await;
    for (index, point) in ["migrate.verified", "migrate.aside"].into_iter().enumerate() {
        let home = home(server, original.path(), (200 + index, point), false).await;
        assert_eq!(home.migrate(Some(point)).status.signal(), Some(6), "{point}");
        let (aside, database) = (home.files().join("longhand.db.migrated"), home.files().join("longhand.db"));
        if aside.exists() {
            // Taken back by hand.
            std::fs::rename(&aside, &database).expect("renamed");
        }
        let other = format!("overtook_{index}");
        migrate(&files(&home.files()), &super::shard(server, &other)).await.expect("migrated");
        let refused = home.migrate(None);
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(error.contains("was migrated before, and not to this destination"), "{point}: {error}");
        assert!(!home.is_served(true, "is not whole"), "{point}");
        migrate(&files(&home.files()), &super::shard(server, &other)).await.expect("nothing is left to do");
    }
}
