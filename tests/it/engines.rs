//! The engine on which the tests run: SQLite, or PostgreSQL by `LONGHAND_TEST_DATABASE=postgres`.

use longhand::clock::Clock;
use longhand::store::{self, Durability, Store};
use sqlx::ConnectOptions as _;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

/// Opens the store of a test: files in its folder, or a shard for it if `LONGHAND_TEST_DATABASE` is `postgres`.
pub(crate) async fn open_store(directory: &Path, clock: Clock) -> (Store, Pin<Box<dyn Future<Output = ()> + Send>>) {
    if let Some((url, name)) = shard_of(directory) {
        let shard = store::Shard::new(&url, &name).expect("a shard");
        let opened = Store::open_shard(shard, directory.to_owned(), LEASE, clock).await;
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

/// The database and the shard of a folder; none if tests run on SQLite.
pub(crate) fn shard_of(directory: &Path) -> Option<(String, String)> {
    let engine = std::env::var("LONGHAND_TEST_DATABASE").ok()?;
    assert_eq!(engine, "postgres", "LONGHAND_TEST_DATABASE");
    let server = crate::postgres::Server::shared().expect("PostgreSQL is installed");
    let name = blake3::hash(directory.as_os_str().as_encoded_bytes()).to_hex();
    Some((server.url(), format!("t{}", &name[..24])))
}

/// Reads one number from a shard, in a thread without a runtime.
pub(crate) fn number_in_shard(url: &str, name: &str, sql: &str) -> i64 {
    let read = async || -> sqlx::Result<i64> {
        let options: sqlx::postgres::PgConnectOptions = url.parse()?;
        let mut database = options.options([("search_path", format!("lh_{name}"))]).connect().await?;
        let sql = sqlx::AssertSqlSafe(format!("select ({sql})::bigint"));
        sqlx::query_scalar(sql).fetch_one(&mut database).await
    };
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    std::thread::scope(|scope| scope.spawn(|| runtime().block_on(read())).join()).expect("no panic").expect(sql)
}
