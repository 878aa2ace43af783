//! The engine on which the tests run: SQLite, or PostgreSQL by `LONGHAND_TEST_DATABASE=postgres`.

use longhand::app::Caller;
use longhand::app::erase::{EraseAnswer, EraseRequest};
use longhand::clock::Clock;
use longhand::postgres;
use longhand::store::{self, Durability, Store};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::Duration;

/// Opens the store of a test: files in its folder, or a shard for it if `LONGHAND_TEST_DATABASE` is `postgres`.
pub(crate) async fn open_store(directory: &Path, clock: Clock) -> (Store, Pin<Box<dyn Future<Output = ()> + Send>>) {
    if let Some((url, name)) = shard_of(directory) {
        let shard = postgres::Shard::new(&url, &name).expect("a shard");
        let opened = Store::open_shard(Arc::new(shard), directory.to_owned(), LEASE, clock).await;
        let (store, writer) = opened.expect("the shard opens");
        return (store, Box::pin(writer));
    }
    // No test cuts the power, and syncing would take most of the tests' time.
    let options = store::Options { directory: directory.to_owned(), durability: Durability::ProcessCrash };
    let (store, writer) = Store::open(options, clock).await.expect("the store opens");
    (store, Box::pin(writer))
}

/// Time for which the lease of a test's shard lasts: a test may wait long for a processor.
const LEASE: Duration = Duration::from_secs(60);

/// Folders whose stores are in a shard, whatever the others are in: the address of the database, and the shard.
static PLACED: Mutex<BTreeMap<PathBuf, (String, String)>> = Mutex::new(BTreeMap::new());

/// Has the store of a folder in a shard of a database from now on, or where those of all tests are.
pub(crate) fn place(directory: &Path, shard: Option<(String, &str)>) {
    let mut placed = PLACED.lock().expect("no panic");
    match shard {
        Some((url, shard)) => drop(placed.insert(directory.to_owned(), (url, shard.to_owned()))),
        None => drop(placed.remove(directory)),
    }
}

/// The database and the shard of a folder; none if its store is in files.
pub(crate) fn shard_of(directory: &Path) -> Option<(String, String)> {
    if let Some(placed) = PLACED.lock().expect("no panic").get(directory) {
        return Some(placed.clone());
    }
    let engine = std::env::var("LONGHAND_TEST_DATABASE").ok()?;
    assert_eq!(engine, "postgres", "LONGHAND_TEST_DATABASE");
    let server = crate::postgres::Server::shared().expect("PostgreSQL is installed");
    let hash = blake3::hash(directory.as_os_str().as_encoded_bytes()).to_hex();
    let name = format!("t{}", &hash[..24]);
    if served().contains(directory) {
        return Some((server.database(&name), postgres::shard_name(1)));
    }
    Some((server.url(), name))
}

/// The data directories of daemons, each of which has a database of its own.
fn served() -> MutexGuard<'static, HashSet<PathBuf>> {
    static SERVED: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);
    SERVED.lock().expect("no test panics with it")
}

/// True if tests run on SQLite.
pub(crate) fn is_sqlite() -> bool {
    std::env::var("LONGHAND_TEST_DATABASE").is_err()
}

/// Has a daemon keep its store where tests do: in a database for its data directory if they run on PostgreSQL.
pub(crate) fn serve_in_database(command: &mut Command, directory: &Path) {
    served().insert(directory.to_owned());
    if let Some((url, _)) = shard_of(directory) {
        command.env("LONGHAND_DATABASE", url);
    }
}

/// Erases, and sees that nothing is left over for later. What PostgreSQL keeps, it keeps in any case.
pub(crate) async fn erase_at_once(caller: &Caller, session: &str, request: EraseRequest) -> EraseAnswer {
    let pending = |erased: &EraseAnswer| erased.pending_files.iter().any(|name| !name.starts_with("PostgreSQL: "));
    let erased = caller.content().erase(session, request.clone()).await.expect("erased");
    let mut last = erased.clone();
    // On a busy machine the search index may be far behind: each repetition waits for it again.
    for _ in 0..20 {
        if !pending(&last) {
            break;
        }
        let again = EraseRequest { expected_revision: None, ..request.clone() };
        last = caller.content().erase(session, again).await.expect("erased again");
    }
    assert!(!pending(&last), "nobody reads an earlier state: {:?}", last.pending_files);
    erased
}
