//! A database that moves to another server: a standby that was promoted, with or without the newest acknowledged writes.

use crate::support::soon;
use longhand::clock::Clock;
use longhand::model::message::{NewMessage, Role};
use longhand::store::{self, Durability, Shard, Store};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Executor as _};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;
use tokio::task::JoinHandle;

const LEASE: Duration = Duration::from_secs(4);

/// Makes a cluster, or a standby of the one whose sockets are in the folder `$2`, and runs it until the standard input
/// ends, which it then stops without a checkpoint. It prints its folder once it is ready.
const SCRIPT: &str = r#"
set -e
folder=$(mktemp -d /tmp/longhand-failover.XXXXXX)
trap 'rm -rf "$folder"' EXIT
if [ -z "$2" ]; then
    "$1/initdb" --no-sync --auth=trust --locale=C.UTF-8 --username=longhand -D "$folder/data" >"$folder/log" 2>&1
    printf 'fsync = off\nfull_page_writes = off\nautovacuum = off\n' >>"$folder/data/postgresql.conf"
else
    "$1/pg_basebackup" --no-sync -h "$2" -U longhand -D "$folder/data" -R --checkpoint=fast >"$folder/log" 2>&1
fi
"$1/postgres" -D "$folder/data" -k "$folder" -c listen_addresses= >>"$folder/log" 2>&1 </dev/null &
server=$!
while ! "$1/pg_isready" -q -h "$folder" -U longhand; do
    kill -0 $server
    sleep 0.05
done
echo "$folder"
read -r _ || true
kill -QUIT $server
wait $server || true
"#;

/// A server of this test's own.
struct Server {
    folder: PathBuf,
    running: Child,
}

impl Server {
    /// Starts it, as a standby of another one if there is one; none if the machine has no PostgreSQL.
    fn start(primary: Option<&Self>) -> Option<Self> {
        let programs = crate::postgres::programs()?;
        let mut command = crate::postgres::unprivileged("sh");
        command.args(["-c", SCRIPT, "sh"]).arg(programs).current_dir("/tmp");
        command.arg(primary.map_or(Path::new(""), |primary| &primary.folder));
        let mut running = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        let mut folder = String::new();
        BufReader::new(running.stdout.take().expect("a pipe")).read_line(&mut folder).expect("a line");
        assert!(!folder.trim().is_empty(), "PostgreSQL does not start");
        Some(Self { folder: folder.trim().into(), running })
    }

    async fn connect(&self) -> PgConnection {
        let url = format!("postgres://longhand@localhost/postgres?host={}", self.folder.display());
        let options: PgConnectOptions = url.parse().expect("an address");
        options.connect().await.expect("connected")
    }

    /// Ends it as a crash does.
    fn crash(mut self) {
        drop(self.running.stdin.take());
        self.running.wait().expect("it ends");
    }
}

/// Waits until a query on a server says so.
async fn until(server: &Server, query: &'static str) {
    let mut conn = server.connect().await;
    let holds = async {
        while !sqlx::query_scalar::<_, bool>(query).fetch_one(&mut conn).await.expect(query) {
            conn.execute("select pg_sleep(0.02)").await.expect("a pause");
        }
    };
    soon(query, holds).await;
}

/// A store at an address behind which the server can be another one.
struct Opened {
    store: Store,
    writer: JoinHandle<()>,
}

async fn open(address: &Path, folder: &Path) -> Opened {
    let url = format!("postgres://longhand@localhost/postgres?host={}", address.display());
    let shard = Shard::new(&url, "moved").expect("a shard");
    let opened = soon("the lease", Store::open_shard(shard, folder.to_owned(), LEASE, Clock::default())).await;
    let (store, writer) = opened.expect("the shard opens");
    Opened { store, writer: tokio::spawn(writer) }
}

async fn append(store: &Store, session: store::SessionKey) -> store::Result<()> {
    let message = NewMessage::sealed(Role::User, Vec::new());
    let entry = store::AppendInput {
        message,
        received: None,
        token_counts: None,
        reports_overflow: false,
        keeps_erased: false,
    };
    store.history().append(session, store::Requester::default(), None, vec![entry]).await.map(drop)
}

/// Has the address lead to another server.
fn lead(address: &Path, to: &Server) {
    drop(std::fs::remove_file(address));
    symlink(&to.folder, address).expect("a link");
}

async fn promote(server: &Server) {
    server.connect().await.execute("select pg_promote()").await.expect("promoted");
}

/// What the standby has of the shard.
const HAS_ALL: &str = "select count(*) = 1 from lh.shard where head_seq = 3";

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_goes_on_with_what_it_has_and_never_as_if_it_had_what_it_lacks() {
    let Some(first) = Server::start(None) else {
        println!("skipped: this machine has no PostgreSQL");
        return;
    };
    let folder = crate::support::private_folder();
    let address = folder.path().join("address");
    lead(&address, &first);
    let data = crate::support::private_folder();
    let Opened { store, writer } = open(&address, data.path()).await;
    let identity = store.id();
    // What acknowledged writes survive is what the server says, at any time.
    assert_eq!(store.durability(), Durability::ProcessCrash);
    let mut conn = first.connect().await;
    conn.execute("alter system set fsync = on").await.expect("set");
    conn.execute("select pg_reload_conf()").await.expect("loaded");
    let said = async {
        while store.durability() != Durability::Full {
            conn.execute("select pg_sleep(0.02)").await.expect("a pause");
        }
    };
    soon("the other durability", said).await;
    let (session, _) = store.sessions().create(super::new(), store::Requester::default()).await.expect("a session");
    append(&store, session).await.expect("appended");
    append(&store, session).await.expect("appended");

    // A standby that has everything: the owner goes on, as the same store.
    let second = Server::start(Some(&first)).expect("a standby");
    until(&second, HAS_ALL).await;
    drop(conn);
    first.crash();
    promote(&second).await;
    lead(&address, &second);
    append(&store, session).await.expect("appended on the other server");
    assert_eq!((store.id(), store.log().head_seq()), (identity, 4));

    // One that lacks the newest write.
    let third = Server::start(Some(&second)).expect("a standby");
    until(&third, "select count(*) = 1 from lh.shard where head_seq = 4").await;
    let mut conn = third.connect().await;
    conn.execute("alter system set primary_conninfo = ''").await.expect("set");
    conn.execute("select pg_reload_conf()").await.expect("loaded");
    until(&third, "select count(*) = 0 from pg_stat_wal_receiver").await;
    append(&store, session).await.expect("appended");
    second.crash();
    promote(&third).await;
    lead(&address, &third);
    let refused = append(&store, session).await.expect_err("an acknowledged write is missing");
    assert!(matches!(refused, store::Error::Stopped(store::WriteState::LeaseLost)), "{refused}");
    assert!(store.check_owned().is_err(), "nothing is answered from memory");
    drop(store);
    writer.await.expect("no panic in the writer");
    let Opened { store, writer } = open(&address, data.path()).await;
    assert_ne!(store.id(), identity, "cursors of the lost writes are not continued");
    assert_eq!(store.log().head_seq(), 4);
    append(&store, session).await.expect("it goes on");
    let identity = store.id();
    drop(store);
    writer.await.expect("no panic in the writer");

    // The identity stays as long as the server does, and a daemon that has no memory notices a promotion as well.
    let Opened { store, writer } = open(&address, data.path()).await;
    assert_eq!(store.id(), identity);
    drop(store);
    writer.await.expect("no panic in the writer");
    let fourth = Server::start(Some(&third)).expect("a standby");
    until(&fourth, "select count(*) = 1 from lh.shard where head_seq = 5").await;
    drop(conn);
    third.crash();
    promote(&fourth).await;
    lead(&address, &fourth);
    let Opened { store, writer } = open(&address, data.path()).await;
    assert_ne!(store.id(), identity);
    drop(store);
    writer.await.expect("no panic in the writer");
}
