//! A database that moves to another server: a standby that was promoted, with or without the newest acknowledged writes.

use super::at;
use super::cluster::{Nodes, all, check_numbers, create, follow, spread};
use crate::postgres::{self, Server};
use crate::support::soon;
use longhand::clock::Clock;
use longhand::model::message::{NewMessage, Role};
use longhand::postgres::Shard;
use longhand::store::{self, Durability, Store};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Executor as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Longer than a failover takes here: a standby that is not synchronous has all for sure within the lease alone.
const LEASE: Duration = Duration::from_secs(30);

async fn connect(server: &Server) -> PgConnection {
    let options: PgConnectOptions = server.url().parse().expect("an address");
    options.connect().await.expect("connected")
}

/// Waits until a query on a server says so.
async fn until(server: &Server, query: &'static str) {
    let mut conn = connect(server).await;
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
    let shard = Shard::new(&postgres::url(address), "moved").expect("a shard");
    let opened =
        soon("the lease", Store::open_shard(Arc::new(shard), folder.to_owned(), LEASE, Clock::default())).await;
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
    store
        .history()
        .append(
            session,
            store::Requester::default(),
            None,
            store::CheckedInput::trusted((vec![entry], store::AppendChanges::default())),
        )
        .await
        .map(drop)
}

/// Has the address lead to another server.
fn lead(address: &Path, to: &Server) {
    drop(std::fs::remove_file(address));
    symlink(&to.folder, address).expect("a link");
}

async fn promote(server: &Server) {
    connect(server).await.execute("select pg_promote()").await.expect("promoted");
}

/// What the standby has of the shard.
const HAS_ALL: &str = "select count(*) = 1 from lh.shard where head_seq = 3";

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_goes_on_with_what_it_has_and_never_as_if_it_had_what_it_lacks() {
    let Some(first) = Server::start(None) else { return };
    let folder = crate::support::private_folder();
    let address = folder.path().join("address");
    lead(&address, &first);
    let data = crate::support::private_folder();
    let Opened { store, writer } = open(&address, data.path()).await;
    let identity = store.id();
    // What acknowledged writes survive is what the server says, at any time.
    assert_eq!(store.durability(), Durability::ProcessCrash);
    let mut conn = connect(&first).await;
    conn.execute("alter system set fsync = on").await.expect("set");
    conn.execute("select pg_reload_conf()").await.expect("loaded");
    let said = async {
        while store.durability() != Durability::Full {
            conn.execute("select pg_sleep(0.02)").await.expect("a pause");
        }
    };
    soon("the other durability", said).await;
    let (session, _) = store
        .sessions()
        .create(store::CheckedInput::trusted(super::new()), store::Requester::default())
        .await
        .expect("a session");
    append(&store, session).await.expect("appended");
    append(&store, session).await.expect("appended");

    // A standby that has everything: the owner goes on, as the same store.
    let second = Server::start(Some(&first)).expect("a standby");
    until(&second, HAS_ALL).await;
    // It is asked for nothing, although it would answer: what it has may be old.
    lead(&address, &second);
    conn.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'longhand'")
        .await
        .expect("ended");
    let mut refused = 0;
    while refused < 3 {
        match store.log().event_at(session, 1).await {
            Err(store::Error::Unreachable(_)) => refused += 1,
            // The connection ends in a moment.
            answered => assert!(answered.is_ok() && refused == 0, "{answered:?} behind {refused} refusals"),
        }
    }
    drop(conn);
    drop(first);
    promote(&second).await;
    lead(&address, &second);
    append(&store, session).await.expect("appended on the other server");
    assert_eq!((store.id(), store.log().head_seq()), (identity, 4));

    // One that lacks the newest write.
    let third = Server::start(Some(&second)).expect("a standby");
    until(&third, "select count(*) = 1 from lh.shard where head_seq = 4").await;
    let mut conn = connect(&third).await;
    conn.execute("alter system set primary_conninfo = ''").await.expect("set");
    conn.execute("select pg_reload_conf()").await.expect("loaded");
    until(&third, "select count(*) = 0 from pg_stat_wal_receiver").await;
    append(&store, session).await.expect("appended");
    drop(second);
    promote(&third).await;
    lead(&address, &third);
    let refused = append(&store, session).await.expect_err("an acknowledged write is missing");
    // It depends on whether the loss of the connection or the write was noticed first.
    let is_lost = matches!(refused, store::Error::Stopped(store::WriteState::LeaseLost) | store::Error::Uncertain);
    assert!(is_lost, "{refused}");
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
    drop(third);
    promote(&fourth).await;
    lead(&address, &fourth);
    let Opened { store, writer } = open(&address, data.path()).await;
    assert_ne!(store.id(), identity);
    drop(store);
    writer.await.expect("no panic in the writer");
}

/// Waits until a query on a server says so.
fn wait(server: &Server, query: &str) {
    let holds = || server.sql("postgres", query).expect(query).trim() == "t";
    assert!((0..10_000).any(|_| holds()), "{query}");
}

#[test]
fn a_failover_longer_than_the_leases_costs_no_subscriber_anything() {
    let Some(first) = Server::start(None) else { return };
    let folder = crate::support::private_folder();
    let address = folder.path().join("address");
    lead(&address, &first);
    let nodes = Nodes::start(&postgres::url(&address), 2);
    nodes.settle();
    let names: Vec<String> = (0..8).map(|number| format!("session-{number}")).collect();
    names.iter().for_each(|name| create(nodes.node(0), name));
    let (mut child, lines) = follow(nodes.node(0));
    // Where a session is, a daemon knows by its own id.
    let sessions = nodes.node(0).json(&["sessions"]);
    let ids: Vec<&str> = sessions.iter().map(|session| session["sessionId"].as_str().expect("an id")).collect();
    ids.iter().for_each(|id| drop(at(nodes.node(0), &["append", id, "before"]).expect("appended")));
    let second = Server::start(Some(&first)).expect("a standby");
    first.sql("postgres", "alter system set synchronous_standby_names = '*'").expect("set");
    first.sql("postgres", "select pg_reload_conf()").expect("loaded");
    wait(&first, "select count(*) = 1 from pg_stat_replication where sync_state = 'sync'");
    // Commits wait for it from now on.
    first.sql("postgres", "checkpoint").expect("written");
    let head = first.sql("postgres", "select pg_current_wal_lsn()").expect("a position");
    // Every owner learns of it with the next renewal.
    let now = first.sql("postgres", "select clock_timestamp()").expect("a time");
    wait(&first, &format!("select min(lease_until) > '{}'::timestamptz + interval '4 s' from lh.lease", now.trim()));
    wait(&second, &format!("select pg_last_wal_replay_lsn() >= '{}'", head.trim()));
    let owners = "select string_agg(split_part(owner, '.', 1), ' ' order by name), string_agg(owner, ' ' order by name) from lh.lease";
    let before = first.sql("postgres", owners).expect("owners");
    drop(first);
    // Each owner learns of the loss.
    let lost: Vec<_> = ids.iter().map(|id| nodes.node(0).command(&["append", id, "lost"]).spawn()).collect();
    // By then all have given up their shards.
    wait(&second, "select bool_and(lease_until < clock_timestamp() - interval '12 s') from lh.lease");
    second.sql("postgres", "select pg_promote()").expect("promoted");
    lead(&address, &second);
    names.iter().for_each(|name| drop(at(nodes.node(1), &["append", name, "behind"]).expect("appended")));
    lost.into_iter().for_each(|append| drop(append.expect("it starts").wait()));
    let after = second.sql("postgres", owners).expect("owners");
    let (before, after) = (before.split_once('|').expect("two"), after.split_once('|').expect("two"));
    assert!(before.0 == after.0 && before.1 != after.1, "not given up, or not taken again: {before:?} {after:?}");
    all(&lines, spread(&second, "postgres"));
    drop((child.kill(), child.wait()));
    check_numbers(&second, "postgres");
    // Each owner came back, and knew that nothing is missing.
    for shard in ["s1", "s2", "s3", "s4"] {
        let identities = second.sql("postgres", &format!("select count(*) from lh_{shard}.store")).expect("counted");
        assert_eq!(identities.trim(), "1", "{shard} has another identity");
    }
}
