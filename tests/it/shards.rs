//! Several daemons on one PostgreSQL database: each owns shards, and answers for all. Skipped with a line where the machine
//! has no PostgreSQL.

use crate::cli::Daemon;
use crate::postgres::Server;
use futures::FutureExt as _;
use longhand::clock::Clock;
use longhand::postgres::Shard;
use longhand::store::{self, Store};
use rustix::process::{Pid, Signal, kill_process};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Executor as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

mod cluster;
mod failover;
mod sick;

/// Starts a daemon of a database with a short lease. It answers at once, whoever owns the shard.
fn serve(home: &Path, database: &str) -> Daemon {
    serve_with(home, database, &[])
}

/// As `serve`, with further arguments.
fn serve_with(home: &Path, database: &str, arguments: &[&str]) -> Daemon {
    serve_as(home, database, "", &[&["--listen", "off"], arguments].concat())
}

/// As `serve`, with settings. It logs to a file in its home.
fn serve_as(home: &Path, database: &str, settings: &str, arguments: &[&str]) -> Daemon {
    std::fs::write(home.join("settings.toml"), format!("lease_seconds = 4\n{settings}")).expect("a file");
    let log = std::fs::File::create(home.join("log")).expect("a file");
    let (daemon, line) = Daemon::start_as(home, |command| {
        command.stderr(log);
        command.args(["--database", database, "--config"]).arg(home.join("settings.toml")).args(arguments);
    });
    assert!(line.contains("longhand.sock"), "{line:?}");
    daemon
}

/// Waits until a daemon owns as many shards.
fn owns(daemon: &Daemon, count: usize) {
    for _ in 0..3_000 {
        let cluster = &daemon.json(&["cluster"])[0];
        let own = cluster["daemons"].as_array().expect("daemons").iter().find(|one| one["answering"] == true);
        let own = own.map(|own| own["daemonId"].clone()).unwrap_or_default();
        let shards = cluster["shards"].as_array().expect("shards");
        if shards.iter().filter(|shard| shard["ownerDaemonId"] == own).count() == count {
            return;
        }
    }
    panic!("the daemon does not own {count} shards: {:?}", daemon.json(&["cluster"]));
}

/// Runs a command at a daemon; its standard output if it succeeds, else its standard error.
fn at(daemon: &Daemon, arguments: &[&str]) -> Result<String, String> {
    let output = daemon.run(arguments);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[test]
fn calls_wait_while_the_database_restarts() {
    let Some(mut server) = Server::start(None) else { return };
    let home = tempfile::tempdir().expect("a folder");
    let daemon = serve(home.path(), &server.database("restarted"));
    owns(&daemon, 1);
    daemon.text(&["create", "--client-id", "kept", "--preset", "pi@1.5", "--window", "60000"]);
    for number in 0..3 {
        daemon.text(&["append", "kept", &format!("before restart {number}")]);
        server.restart();
        let shown = daemon.text(&["show", "kept"]);
        assert!((0..=number).all(|number| shown.contains(&format!("before restart {number}"))), "{shown}");
    }
    // The index goes on, on another connection.
    daemon.text(&["append", "kept", "behind restarts"]);
    let is_found = |_| daemon.json(&["search", "behind"]).len() == 1;
    assert!((0..2_000).any(is_found), "{:?}", daemon.json(&["status"]));
}

#[test]
fn a_daemon_that_was_frozen_beyond_its_lease_serves_and_writes_nothing_of_its_own() {
    let Some(server) = Server::shared() else { return };
    let (first_home, second_home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let database = server.database("frozen");
    let first = serve(first_home.path(), &database);
    first.text(&["create", "--client-id", "shared", "--preset", "pi@1.5", "--window", "60000"]);
    first.text(&["append", "shared", "before"]);
    let second = serve(second_home.path(), &database);
    assert!(at(&second, &["show", "shared"]).expect("passed on").contains("before"));

    kill_process(first.id(), Signal::STOP).expect("stopped");
    owns(&second, 1);
    assert!(at(&second, &["show", "shared"]).expect("shown").contains("before"));
    at(&second, &["append", "shared", "meanwhile"]).expect("appended");

    // A write and a read wait at the frozen daemon.
    let frozen = |arguments: &[&str]| first.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let write = frozen(&["append", "shared", "late"]).expect("it starts");
    let read = frozen(&["show", "shared"]).expect("it starts");
    kill_process(first.id(), Signal::CONT).expect("continued");
    let wrote = write.wait_with_output().expect("it ends");
    let read = read.wait_with_output().expect("it ends");
    // What it answers, the other one has answered: nothing is older than what that one wrote.
    let shown = String::from_utf8_lossy(&read.stdout).into_owned();
    assert!(!read.status.success() || shown.contains("meanwhile"), "{shown}");
    let shown = at(&second, &["show", "shared"]).expect("shown");
    assert!(shown.contains("meanwhile"), "{shown}");
    assert_eq!(wrote.status.success(), shown.contains("late"), "{shown}");
    assert!(at(&first, &["show", "shared"]).expect("it passes calls on").contains("meanwhile"));
    at(&second, &["audit", "verify"]).expect("no findings");
}

/// As docs/postgres.md shows it.
#[test]
fn a_session_survives_the_kill_of_its_daemon_at_another_one() {
    let Some(server) = Server::shared() else { return };
    let (first_home, second_home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let database = server.database("survives");
    let first = serve(first_home.path(), &database);
    first.text(&["create", "--client-id", "shared", "--preset", "pi@1.5", "--window", "60000"]);
    first.text(&["append", "shared", "the quokka was here"]);
    let second = serve(second_home.path(), &database);
    kill_process(first.id(), Signal::KILL).expect("killed");
    // The call waits for the next owner.
    at(&second, &["append", "shared", "and stays"]).expect("appended");
    let shown = at(&second, &["show", "shared"]).expect("shown");
    assert!(shown.contains("the quokka was here") && shown.contains("and stays"), "{shown}");
    // Its own index has nothing yet; a search waits until it has.
    let found = at(&second, &["search", "quokka"]).expect("found");
    assert!(found.contains("quokka"), "{found}");
    at(&second, &["audit", "verify"]).expect("no findings");
}

/// Connections on which nothing comes any more, as when a network loses everything without a word, are replaced.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_do_not_answer_are_replaced() {
    let Some(server) = Server::start(None) else { return };
    let home = tempfile::tempdir().expect("a folder");
    let daemon = serve_with(home.path(), &server.url(), &["--shards", "2"]);
    owns(&daemon, 2);
    cluster::create(&daemon, "silent");
    // Both wait for an answer when it comes to that.
    let mut blocking =
        server.url().parse::<PgConnectOptions>().expect("an address").connect().await.expect("connected");
    blocking.execute("begin; lock table lh.daemon, lh.directory in access exclusive mode").await.expect("locked");
    let mut asking = daemon.spawn(&["append", "silent", "asked for"]);
    let waiting =
        "select count(*) = 2 from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'longhand'";
    assert!((0..1_000).any(|_| server.sql("postgres", waiting).expect("asked").trim() == "t"), "they do not wait");
    let backends = server.sql("postgres", "select pid from pg_stat_activity where application_name = 'longhand'");
    let backends = backends.expect("backends");
    let backends: Vec<Pid> = backends.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect();
    assert!(!backends.is_empty());
    backends.iter().for_each(|backend| kill_process(*backend, Signal::STOP).expect("stopped"));
    blocking.execute("commit").await.expect("committed");
    asking.wait().expect("it ends");
    let answer = at(&daemon, &["append", "silent", "the quokka was here"]);
    backends.iter().for_each(|backend| kill_process(*backend, Signal::CONT).unwrap_or_default());
    answer.expect("an answer");
    assert!(at(&daemon, &["show", "silent"]).expect("shown").contains("quokka"));
}

/// A shard that was taken, and cannot be opened to the end, is given back and taken again.
#[tokio::test(flavor = "multi_thread")]
async fn a_shard_whose_opening_fails_is_not_kept_from_everybody() {
    let Some(server) = Server::start(None) else { return };
    let home = tempfile::tempdir().expect("a folder");
    let daemon = serve_with(home.path(), &server.url(), &["--shards", "2"]);
    owns(&daemon, 2);
    daemon.stop();
    let mut blocking =
        server.url().parse::<PgConnectOptions>().expect("an address").connect().await.expect("connected");
    blocking.execute("begin; lock table lh_s1.access_token in access exclusive mode").await.expect("locked");
    let daemon = serve_with(home.path(), &server.url(), &["--shards", "2"]);
    let end = "select count(pg_terminate_backend(pid)) > 0 from pg_stat_activity \
        where wait_event_type = 'Lock' and query like '%access_token%'";
    assert!((0..1_000).any(|_| server.sql("postgres", end).expect("asked").trim() == "t"), "nobody reads the tokens");
    blocking.execute("commit").await.expect("committed");
    at(&daemon, &["sessions"]).expect("both shards answer");
}

#[test]
fn daemons_of_a_plain_role_reach_each_other_over_tls() {
    let Some(server) = Server::shared() else { return };
    let database = server.database("plain").replace("longhand@", "plain@");
    server.sql("plain", "create role plain login; alter database plain owner to plain").expect("a role");
    let homes = [0, 1].map(|_| tempfile::tempdir().expect("a folder"));
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let file = |name: &str| homes[0].path().join(name).display().to_string();
    std::fs::write(file("key.pem"), signing_key.serialize_pem()).expect("written");
    std::fs::write(file("server.pem"), cert.pem()).expect("written");
    let (key, certificate) = (file("key.pem"), file("server.pem"));
    let settings = format!(
        "tls = {{ certificate = {certificate:?}, key = {key:?} }}\ncluster = {{ shards = 2, authorities = {certificate:?} }}\n"
    );
    let [first, second] =
        [0, 1].map(|number| serve_as(homes[number].path(), &database, &settings, &["--listen", "127.0.0.1:0"]));
    owns(&second, 1);
    owns(&first, 1);
    let names: Vec<String> = (0..8).map(|number| format!("session-{number}")).collect();
    for name in &names {
        first.text(&["create", "--client-id", name, "--preset", "pi@1.5", "--window", "60000"]);
        second.text(&["append", name, "the quokka was here"]);
    }
    let cluster = &first.json(&["cluster"])[0];
    let addresses: Vec<&str> =
        cluster["daemons"].as_array().expect("daemons").iter().filter_map(|one| one["address"].as_str()).collect();
    assert!(addresses.len() == 2 && addresses.iter().all(|address| address.starts_with("https://")), "{cluster}");
    kill_process(first.id(), Signal::KILL).expect("killed");
    for name in &names {
        assert!(at(&second, &["show", name]).expect("shown").contains("quokka"), "{name}");
    }
}

/// A transaction of the writer that lasts longer than the lease keeps it, and what it commits is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_may_last_longer_than_the_lease() {
    let Some(server) = Server::shared() else { return };
    let (folder, other) = (crate::support::private_folder(), crate::support::private_folder());
    let open = async |folder: &Path| {
        let shard = Shard::new(&server.url(), "long").expect("a shard");
        Store::open_shard(Arc::new(shard), folder.to_owned(), Duration::from_secs(2), Clock::default()).await
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
        async move {
            store.sessions().create(store::CheckedInput::trusted(new()), store::Requester::default()).await.map(drop)
        }
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

/// A store that somebody still holds writes what waits, ends, and takes nothing more.
#[tokio::test(flavor = "multi_thread")]
async fn a_shard_is_given_up_although_somebody_holds_it() {
    let Some(server) = Server::shared() else { return };
    let (folder, other) = (crate::support::private_folder(), crate::support::private_folder());
    let open = async |folder: &Path| {
        let shard = Shard::new(&server.url(), "held").expect("a shard");
        Store::open_shard(Arc::new(shard), folder.to_owned(), Duration::from_secs(60), Clock::default()).await
    };
    let (store, writer) = open(folder.path()).await.expect("the shard opens");
    let writer = tokio::spawn(writer);
    let held = store.clone();
    let create = || held.sessions().create(store::CheckedInput::trusted(new()), store::Requester::default());
    let mut waiting = std::pin::pin!(create());
    assert!(waiting.as_mut().now_or_never().is_none());
    store.close().end();
    crate::support::soon("what waited", waiting).await.expect("created");
    crate::support::soon("the end", writer).await.expect("no panic in the writer");
    assert!(matches!(create().await, Err(store::Error::Closed)));
    let (next, _writer) = crate::support::soon("the next owner", open(other.path())).await.expect("it has the shard");
    assert_eq!(next.log().head_seq(), 1);
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
    let database = server.database("handed");
    let first = serve(first_home.path(), &database);
    first.text(&["create", "--client-id", "shared", "--preset", "pi@1.5", "--window", "60000"]);
    let second = serve(second_home.path(), &database);
    assert!(first.stop().success());
    at(&second, &["append", "shared", "after"]).expect("appended");
    owns(&second, 1);
}

/// Every backend of the writer is ended again and again while it commits: what was acknowledged is there, once, in place.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_there_although_backends_are_killed_during_commits() {
    let Some(server) = Server::shared() else { return };
    let folder = crate::support::private_folder();
    let shard = Shard::new(&server.url(), "killed").expect("a shard");
    let opened =
        Store::open_shard(Arc::new(shard), folder.path().to_owned(), Duration::from_secs(30), Clock::default()).await;
    let (store, writer) = opened.expect("the shard opens");
    let writer = tokio::spawn(writer);
    let (session, _) = store
        .sessions()
        .create(store::CheckedInput::trusted(new()), store::Requester::default())
        .await
        .expect("a session");
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
            async move {
                store
                    .history()
                    .append(
                        session,
                        store::Requester::default(),
                        None,
                        store::CheckedInput::trusted((vec![entry], store::AppendChanges::default())),
                    )
                    .await
            }
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
