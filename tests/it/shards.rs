//! Two daemons on one PostgreSQL database: one owns the shard, and the other waits for its lease. Skipped with a line where
//! the machine has no PostgreSQL.

use crate::cli::{Daemon, longhand};
use crate::postgres::Server;
use longhand::clock::Clock;
use longhand::store::{self, Shard, Store};
use rustix::process::{Signal, kill_process};
use sqlx::ConnectOptions as _;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

mod failover;

/// Arguments of a daemon on a shard with a short lease.
fn serve(home: &Path, server: &Server, shard: &str) -> (Daemon, String) {
    std::fs::write(home.join("settings.toml"), "lease_seconds = 4\n").expect("a file");
    Daemon::start_as(home, |command| {
        command.args(["--listen", "off", "--shard", shard, "--database"]).arg(server.url());
        command.arg("--config").arg(home.join("settings.toml"));
    })
}

/// Starts a daemon that waits for the lease. It prints its address once it has it.
fn wait(home: &Path, server: &Server, shard: &str) -> Child {
    std::fs::write(home.join("settings.toml"), "lease_seconds = 4\n").expect("a file");
    let mut command = longhand(home);
    command.args(["serve", "--data-dir"]).arg(home.join("store")).stdout(Stdio::piped()).stderr(Stdio::null());
    command.args(["--listen", "off", "--shard", shard, "--database"]).arg(server.url());
    command.arg("--config").arg(home.join("settings.toml"));
    command.spawn().expect("the daemon starts")
}

/// Waits until a daemon has the lease.
fn taken(daemon: &mut Child) {
    let mut line = String::new();
    let stdout = daemon.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    assert!(line.contains("longhand.sock"), "{line:?}");
}

/// Runs a command of the command line at a daemon; its standard output if it succeeds, else its standard error.
fn at(home: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = longhand(home);
    let server = format!("unix:{}", home.join("store/longhand.sock").display());
    let output = command.args(arguments).args(["--server", &server]).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[test]
fn a_daemon_that_was_frozen_beyond_its_lease_serves_and_writes_nothing() {
    let Some(server) = Server::shared() else { return };
    let (first_home, second_home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (first, line) = serve(first_home.path(), server, "frozen");
    assert!(line.contains("longhand.sock"), "{line:?}");
    first.text(&["create", "--client-id", "shared", "--preset", "pi@1.5", "--window", "60000"]);
    first.text(&["append", "shared", "before"]);
    let mut second = wait(second_home.path(), server, "frozen");

    kill_process(first.id(), Signal::STOP).expect("stopped");
    taken(&mut second);
    assert!(at(second_home.path(), &["show", "shared"]).expect("shown").contains("before"));
    at(second_home.path(), &["append", "shared", "meanwhile"]).expect("appended");

    // A write and a read wait at the frozen daemon.
    let frozen = |arguments: &[&str]| first.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let write = frozen(&["append", "shared", "stale"]).expect("it starts");
    let read = frozen(&["show", "shared"]).expect("it starts");
    kill_process(first.id(), Signal::CONT).expect("continued");
    for waiting in [write, read] {
        let output = waiting.wait_with_output().expect("it ends");
        assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    assert!(!first.ended().success(), "it ends by itself");
    let shown = at(second_home.path(), &["show", "shared"]).expect("shown");
    assert!(shown.contains("meanwhile") && !shown.contains("stale"), "{shown}");
    at(second_home.path(), &["audit", "verify"]).expect("no findings");
    second.kill().expect("killed");
    second.wait().expect("it ends");
}

/// As README.md shows it.
#[test]
fn a_session_survives_the_kill_of_its_daemon_at_another_one() {
    let Some(server) = Server::shared() else { return };
    let (first_home, second_home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (first, _) = serve(first_home.path(), server, "survives");
    first.text(&["create", "--client-id", "shared", "--preset", "pi@1.5", "--window", "60000"]);
    first.text(&["append", "shared", "the quokka was here"]);
    let mut second = wait(second_home.path(), server, "survives");
    kill_process(first.id(), Signal::KILL).expect("killed");
    taken(&mut second);
    let second = Running(second);
    at(second_home.path(), &["append", "shared", "and stays"]).expect("appended");
    let shown = at(second_home.path(), &["show", "shared"]).expect("shown");
    assert!(shown.contains("the quokka was here") && shown.contains("and stays"), "{shown}");
    // Its own index has nothing yet; a search waits until it has.
    let found = at(second_home.path(), &["search", "quokka"]).expect("found");
    assert!(found.contains("quokka"), "{found}");
    at(second_home.path(), &["audit", "verify"]).expect("no findings");
    drop(second);
}

/// A daemon that is killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop((self.0.kill(), self.0.wait()));
    }
}

/// A transaction of the writer that lasts longer than the lease keeps it, and what it commits is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_may_last_longer_than_the_lease() {
    let Some(server) = Server::shared() else { return };
    let (folder, other) = (crate::support::private_folder(), crate::support::private_folder());
    let open = async |folder: &Path| {
        let shard = Shard::new(&server.url(), "long").expect("a shard");
        Store::open_shard(shard, folder.to_owned(), Duration::from_secs(2), Clock::default()).await
    };
    let (store, writer) = open(folder.path()).await.expect("the shard opens");
    let writer = tokio::spawn(writer);
    let mut waiting = std::pin::pin!(open(other.path()));
    let options: sqlx::postgres::PgConnectOptions = server.url().parse().expect("an address");
    let mut database = options.connect().await.expect("connected");
    for lock in ["begin", "lock table lh_long.session in exclusive mode"] {
        sqlx::query(lock).execute(&mut database).await.expect(lock);
    }
    let creating = tokio::spawn({
        let store = store.clone();
        async move { store.sessions().create(new(), store::Requester::default()).await.map(drop) }
    });
    let mut observer = options.connect().await.expect("connected");
    let passed =
        "select (select lease_until from lh.lease where name = 'long') > $1::timestamptz + interval '7 seconds'";
    let begin: String =
        sqlx::query_scalar("select clock_timestamp()::text").fetch_one(&mut observer).await.expect("now");
    let long = async {
        // Renewals go on, three leases long.
        while !sqlx::query_scalar::<_, bool>(passed).bind(&begin).fetch_one(&mut observer).await.expect("asked") {
            sqlx::query("select pg_sleep(0.05)").execute(&mut observer).await.expect("a pause");
        }
    };
    tokio::select! {
        _ = &mut waiting => panic!("another daemon has taken the shard"),
        () = crate::support::soon("three leases", long) => {}
    }
    assert!(store.check_owned().is_ok(), "it is trusted");
    sqlx::query("rollback").execute(&mut database).await.expect("unlocked");
    creating.await.expect("no panic").expect("created");
    assert_eq!(store.log().head_seq(), 1);
    drop(store);
    writer.await.expect("no panic in the writer");
    let (store, writer) = crate::support::soon("the other daemon", waiting).await.expect("it has the shard");
    assert_eq!(store.log().head_seq(), 1);
    drop((store, writer));
}

fn new() -> store::CreateSession {
    store::CreateSession {
        tenant: "".into(),
        client_id: None,
        title: String::new(),
        policy: store::PolicyText { preset: "pi@1.5".to_owned(), json: "{}".to_owned() },
        window: longhand::model::usage::ModelWindow::default(),
        metadata_json: None,
        parent: None,
        keeps_erased: false,
    }
}

#[test]
fn an_orderly_stop_hands_the_shard_over() {
    let Some(server) = Server::shared() else { return };
    let (first_home, second_home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (first, _) = serve(first_home.path(), server, "handed");
    first.text(&["create", "--client-id", "shared", "--preset", "pi@1.5", "--window", "60000"]);
    let mut second = wait(second_home.path(), server, "handed");
    assert!(first.stop().success());
    taken(&mut second);
    at(second_home.path(), &["append", "shared", "after"]).expect("appended");
    second.kill().expect("killed");
    second.wait().expect("it ends");
}

/// Every backend of the writer is ended again and again while it commits: what was acknowledged is there, once, in place.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_there_although_backends_are_killed_during_commits() {
    let Some(server) = Server::shared() else { return };
    let folder = crate::support::private_folder();
    let shard = Shard::new(&server.url(), "killed").expect("a shard");
    let opened = Store::open_shard(shard, folder.path().to_owned(), Duration::from_secs(30), Clock::default()).await;
    let (store, writer) = opened.expect("the shard opens");
    let writer = tokio::spawn(writer);
    let (session, _) = store.sessions().create(new(), store::Requester::default()).await.expect("a session");
    let options: sqlx::postgres::PgConnectOptions = server.url().parse().expect("an address");
    let mut other = options.connect().await.expect("connected");
    let (mut acknowledged, mut killed) = (0_i64, 0);
    for round in 0..60 {
        let append = || {
            let message =
                longhand::model::message::NewMessage::sealed(longhand::model::message::Role::User, Vec::new());
            let entry = store::AppendInput {
                message,
                received: None,
                token_counts: None,
                reports_overflow: false,
                keeps_erased: false,
            };
            let store = store.clone();
            async move { store.history().append(session, store::Requester::default(), None, vec![entry]).await }
        };
        let kill = sqlx::query_scalar::<_, bool>(
            "select pg_terminate_backend(pid) from lh.shard where name = 'killed' and pid <> pg_backend_pid()",
        );
        let appends = futures::future::join_all((0..4).map(|_| append()));
        let (answers, ended) = tokio::join!(appends, async {
            if round % 3 == 0 { kill.fetch_one(&mut other).await.expect("asked") } else { false }
        });
        killed += i32::from(ended);
        for answer in answers {
            match answer {
                Ok(_) => acknowledged += 1,
                Err(store::Error::Unreachable(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(killed > 10 && acknowledged > 100, "{killed} killed, {acknowledged} acknowledged");
    // The first event is that of the session.
    assert_eq!(store.log().head_seq(), acknowledged + 1, "nothing else was written");
    let counts =
        "select max(seq), count(*), (select head_seq from lh.shard where name = 'killed') from lh_killed.event";
    let counts: (i64, i64, i64) = sqlx::query_as(counts).fetch_one(&mut other).await.expect("counts");
    assert_eq!(counts, (acknowledged + 1, acknowledged + 1, acknowledged + 1));
    drop(store);
    writer.await.expect("no panic in the writer");
}
