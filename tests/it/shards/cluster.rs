//! Three daemons with four shards.

use super::{at, owns, serve_with};
use crate::cli::Daemon;
use crate::postgres::Server;
use crate::support::soon;
use longhand::pb;
use longhand::pb::event_service_client::EventServiceClient;
use longhand::pb::session_service_client::SessionServiceClient;
use longhand::pb::subscribe_events_response::Frame as Subscribed;
use longhand::pb::summary_task_service_client::SummaryTaskServiceClient;
use longhand::pb::watch_sessions_response::Frame;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};
use tonic_types::StatusExt as _;

const SHARDS: [&str; 2] = ["--shards", "4"];

/// Daemons, each with its home.
pub(super) struct Nodes(Vec<(Daemon, TempDir)>);

impl Nodes {
    pub(super) fn start(database: &str, count: usize) -> Self {
        let node = |_| {
            let home = tempfile::tempdir().expect("a folder");
            (serve_with(home.path(), database, &SHARDS), home)
        };
        let nodes: Vec<_> = (0..count).map(node).collect();
        Self(nodes)
    }

    pub(super) fn node(&self, number: usize) -> &Daemon {
        &self.0[number % self.0.len()].0
    }

    /// Waits until the shards are shared evenly.
    pub(super) fn settle(&self) {
        let (shards, daemons) = (4, self.0.len());
        for _ in 0..3_000 {
            let cluster = &self.node(0).json(&["cluster"])[0];
            let owners: Vec<&Value> =
                cluster["shards"].as_array().expect("shards").iter().map(|shard| &shard["ownerDaemonId"]).collect();
            let count = |id: &Value| owners.iter().filter(|owner| **owner == id).count();
            let ids = cluster["daemons"].as_array().expect("daemons").iter().map(|one| count(&one["daemonId"]));
            let counts: Vec<usize> = ids.collect();
            let (least, most) = (shards / daemons, shards.div_ceil(daemons));
            if counts.len() == daemons
                && counts.iter().sum::<usize>() == shards
                && counts.iter().all(|&own| (least..=most).contains(&own))
            {
                return;
            }
        }
        panic!("the shards are not shared: {:?}", self.node(0).json(&["cluster"]));
    }
}

pub(super) fn create(daemon: &Daemon, client_id: &str) {
    daemon.text(&["create", "--client-id", client_id, "--preset", "pi@1.5", "--window", "60000"]);
}

/// The client ids of the sessions that a daemon lists, in their order.
fn listed(daemon: &Daemon, arguments: &[&str]) -> Vec<String> {
    let listed = daemon.json(&[&["sessions"], arguments].concat());
    listed.iter().map(|session| session["clientId"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The number of events in each shard, from the database: what daemons say of the shards of others is a little old.
fn events(server: &Server, database: &str) -> [usize; 4] {
    ["s1", "s2", "s3", "s4"].map(|shard| {
        let count = server.sql(database, &format!("select count(*) from lh_{shard}.event")).expect("counted");
        count.trim().parse().expect("a number")
    })
}

/// Checks that the sessions are not in one shard, and gives the number of events of all.
pub(super) fn spread(server: &Server, database: &str) -> usize {
    let events = events(server, database);
    assert!(events.iter().filter(|&&events| events > 0).count() > 1, "the sessions are in one shard: {events:?}");
    events.iter().sum()
}

/// Checks that no number of an event is missing or twice in any shard.
pub(super) fn check_numbers(server: &Server, database: &str) {
    for shard in ["s1", "s2", "s3", "s4"] {
        let dense = format!("select coalesce(max(seq), 0) = count(*) from lh_{shard}.event");
        assert_eq!(server.sql(database, &dense).expect("counted").trim(), "t", "{shard}");
    }
}

#[test]
fn any_daemon_answers_for_every_session_and_merges_what_concerns_all() {
    let Some(server) = Server::shared() else { return };
    let nodes = Nodes::start(&server.database("together"), 3);
    nodes.settle();
    let names: Vec<String> = (0..12).map(|number| format!("session-{number:02}")).collect();
    for (number, name) in names.iter().enumerate() {
        create(nodes.node(number), name);
        nodes.node(number + 1).text(&["append", name, &format!("wombat number {number}")]);
    }
    // A repetition finds what was made, at any daemon.
    create(nodes.node(2), "session-00");
    let newest_first: Vec<String> = names.iter().rev().cloned().collect();
    spread(server, "together");
    for (daemon, _) in &nodes.0 {
        for name in &names {
            assert!(daemon.text(&["show", name]).contains("wombat"), "{name}");
        }
        assert_eq!(listed(daemon, &[]), newest_first);
        let found = daemon.json(&["search", "wombat", "--limit", "100"]);
        assert_eq!(found.len(), names.len(), "{found:?}");
        ranks_as_one_index_would(daemon);
        // An append may be followed by a decision meanwhile.
        let total = || events(server, "together").iter().sum::<usize>();
        let (before, listed, after) = (total(), daemon.json(&["events"]).len(), total());
        assert!((before..=after).contains(&listed), "{listed} of {before} to {after}");
        let status = &daemon.json(&["status"])[0];
        assert_eq!(status["sessionCount"], "12");
        daemon.text(&["audit", "verify"]);
        assert_eq!(daemon.json(&["audit", "head"]).len(), names.len());
    }
    // A child and a fork stay with theirs, and a session that nobody has is missed.
    nodes.node(1).text(&["fork", "session-03", "--client-id", "fork"]);
    assert!(nodes.node(2).text(&["show", "fork"]).contains("wombat number 3"));
    let missing = at(nodes.node(1), &["show", "nobody"]).expect_err("there is none");
    assert!(missing.contains("SESSION_NOT_FOUND") || missing.contains("nobody"), "{missing}");
}

/// Checks that hits of all shards stand in the order of one index, with scores that compare, on one page and on many.
fn ranks_as_one_index_would(daemon: &Daemon) {
    let question = "which number has the wombat 3?";
    let hits = daemon.json(&["search", question]);
    let first = hits[0]["snippet"]["text"].as_str().expect("a passage");
    assert_eq!((hits.len(), first), (12, "wombat number 3"), "{hits:?}");
    let score =
        |hit: &Value| hit["rank"]["score"].as_str().and_then(|score| score.parse::<i64>().ok()).expect("a score");
    assert!(hits.is_sorted_by(|one, other| score(one) >= score(other)), "{hits:?}");
    // In one index too, all others have the same words, and the same length.
    assert!(hits[1..].iter().all(|hit| score(hit) == score(&hits[1])), "{hits:?}");
    let newest = daemon.json(&["search", question, "--newest", "--limit", "3"]);
    let texts: Vec<&str> = newest.iter().filter_map(|hit| hit["snippet"]["text"].as_str()).collect();
    assert_eq!(texts, ["wombat number 11", "wombat number 10", "wombat number 9"]);
    assert_eq!(daemon.json(&["search", "wombat", "3", "--all"]).len(), 1);
}

/// Follows events at a daemon, and sends each line of JSON.
pub(super) fn follow(daemon: &Daemon) -> (std::process::Child, mpsc::Receiver<Value>) {
    let mut child =
        daemon.command(&["events", "--follow", "--json"]).stdout(Stdio::piped()).spawn().expect("it starts");
    let (sender, lines) = mpsc::channel();
    let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    std::thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            if sender.send(serde_json::from_str(&line).expect("JSON")).is_err() {
                return;
            }
        }
    });
    (child, lines)
}

/// Waits for as many events, none of them twice.
pub(super) fn all(lines: &mpsc::Receiver<Value>, expected: usize) {
    let mut seen = BTreeSet::new();
    while seen.len() < expected {
        let event = lines.recv_timeout(Duration::from_secs(60)).expect("an event");
        let key = (event["sessionId"].as_str().unwrap_or_default().to_owned(), event["revision"].to_string());
        assert!(seen.insert(key), "it came twice: {event}");
    }
}

#[test]
fn a_subscriber_misses_nothing_when_an_owner_is_killed_and_when_a_shard_moves() {
    let Some(server) = Server::shared() else { return };
    let mut nodes = Nodes::start(&server.database("moving"), 3);
    nodes.settle();
    let names: Vec<String> = (0..8).map(|number| format!("session-{number}")).collect();
    names.iter().for_each(|name| create(nodes.node(0), name));
    let (mut child, lines) = follow(nodes.node(0));
    let append = |nodes: &Nodes, round: usize| {
        for name in &names {
            at(nodes.node(0), &["append", name, &format!("round {round}")]).expect("appended");
        }
    };
    append(&nodes, 0);
    // The owner of some shards is gone, without a word.
    let (killed, _home) = nodes.0.pop().expect("a daemon");
    killed.kill();
    append(&nodes, 1);
    // Each shard moves to the other daemon.
    let cluster = &nodes.node(0).json(&["cluster"])[0];
    let other = cluster["daemons"].as_array().expect("daemons").iter().find(|one| one["answering"] != true);
    let other = other.expect("another daemon")["daemonId"].as_str().expect("an id").to_owned();
    for shard in ["s1", "s2", "s3", "s4"] {
        nodes.node(0).text(&["move", shard, &other]);
    }
    append(&nodes, 2);
    owns(nodes.node(1), 4);
    append(&nodes, 3);
    let expected = spread(server, "moving");
    all(&lines, expected);
    drop((child.kill(), child.wait()));
    nodes.node(0).text(&["audit", "verify"]);
    check_numbers(server, "moving");
    // Of what this daemon owned it keeps no words.
    let index = nodes.node(0).directory.join("shards");
    let kept = ["s1", "s2", "s3", "s4"].map(|shard| index.join(shard).join("longhand-search.db").exists());
    assert_eq!(kept, [false; 4]);
    let refused = at(nodes.node(0), &["move", "s9", "any"]).expect_err("there is no such shard");
    assert!(refused.contains("s9"), "{refused}");
    nodes.node(0).text(&["move", "s1", "any"]);
}

#[test]
fn a_daemon_without_a_shard_answers_too() {
    let Some(server) = Server::shared() else { return };
    let database = server.database("empty");
    let (first_home, second_home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let first = super::serve(first_home.path(), &database);
    owns(&first, 1);
    let second = super::serve(second_home.path(), &database);
    create(&second, "elsewhere");
    second.text(&["append", "elsewhere", "over there"]);
    assert!(first.text(&["show", "elsewhere"]).contains("over there"));
    owns(&second, 0);
    // A file is written for those alone who have the rights of the daemon that writes it.
    let file = first_home.path().join("backup.db");
    let file = file.to_str().expect("UTF-8");
    let refused = at(&second, &["backup", file]).expect_err("another daemon owns the shard");
    assert!(refused.contains("another daemon owns the shard s1"), "{refused}");
    assert!(at(&first, &["backup", file, "--shard", "s2"]).expect_err("no such shard").contains("s2"));
    first.text(&["backup", file, "--shard", "s1"]);
    let child = second.text(&["token", "create", "agent", "--scopes", "read"]);
    assert!(child.contains("lh_"), "{child}");
}

/// A daemon's connection.
async fn connect(daemon: &Daemon) -> Channel {
    Endpoint::from_shared(daemon.server()).expect("an address").connect().await.expect("connected")
}

fn client_ids(sessions: &[pb::Session]) -> Vec<String> {
    sessions.iter().map(|session| session.client_id().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_several_shards_come_in_pages_and_go_on_behind_any_entry() {
    let Some(server) = Server::shared() else { return };
    let nodes = Nodes::start(&server.database("paged"), 2);
    nodes.settle();
    let names: Vec<String> = (0..10).map(|number| format!("session-{number:02}")).collect();
    names.iter().for_each(|name| create(nodes.node(0), name));
    let newest_first: Vec<String> = names.iter().rev().cloned().collect();
    let mut sessions = SessionServiceClient::new(connect(nodes.node(1)).await);
    let mut request = pb::ListSessionsRequest { page_size: 3, include_page_tokens: true, ..Default::default() };
    let mut found = Vec::new();
    loop {
        let page = sessions.list_sessions(request.clone()).await.expect("a page").into_inner();
        assert_eq!(page.page_tokens.len(), page.sessions.len());
        // The token with an entry leads behind it.
        let behind = pb::ListSessionsRequest { page_token: page.page_tokens[0].clone(), ..request.clone() };
        let behind = sessions.list_sessions(behind).await.expect("a page").into_inner();
        let at = found.len();
        assert_eq!(client_ids(&behind.sessions), newest_first[at + 1..newest_first.len().min(at + 4)]);
        found.extend(client_ids(&page.sessions));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(found, newest_first);
    let other = pb::ListSessionsRequest { page_token: "e30".to_owned(), order: 2, ..Default::default() };
    assert_eq!(client_ids(&sessions.list_sessions(other).await.expect("a page").into_inner().sessions), names);
    let wrong = pb::ListSessionsRequest { page_token: "?".to_owned(), ..Default::default() };
    assert!(sessions.list_sessions(wrong).await.is_err());

    let total = spread(server, "paged");
    let mut log = EventServiceClient::new(connect(nodes.node(0)).await);
    let (mut request, mut seen) = (pb::ListEventsRequest { page_size: 7, ..Default::default() }, BTreeSet::new());
    let mut last = String::new();
    loop {
        let page = log.list_events(request.clone()).await.expect("a page").into_inner();
        for event in page.events {
            assert!(event.cursor > last, "cursors sort");
            last.clone_from(&event.cursor);
            assert!(seen.insert((event.session_id, event.revision)), "it comes once");
        }
        if page.next_cursor.is_empty() {
            break;
        }
        request.after_cursor = page.next_cursor;
    }
    assert_eq!(seen.len(), total);
    // A stream that has caught up says so in the numbers with which it began.
    let interval = Some(prost_types::Duration { seconds: 1, nanos: 0 });
    let request = pb::SubscribeEventsRequest { progress_interval: interval, ..Default::default() };
    let mut frames = log.subscribe_events(request).await.expect("a stream").into_inner();
    let mut positions = Vec::new();
    while positions.len() < 2 {
        match soon("a frame", frames.message()).await.expect("a frame").and_then(|frame| frame.frame) {
            Some(Subscribed::Ready(ready)) => positions.push(ready.head_seq),
            Some(Subscribed::Progress(progress)) => positions.push(progress.seq),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(positions, [i64::try_from(total).expect("few"); 2]);
    // A cursor of one shard goes on in the first one, which refuses those of others.
    let mut refused = 0;
    for name in &names {
        let first = log.list_events(pb::ListEventsRequest { session_id: Some(name.clone()), ..Default::default() });
        let cursor = first.await.expect("a page").into_inner().events[0].cursor.clone();
        let foreign = log.list_events(pb::ListEventsRequest { after_cursor: cursor, ..Default::default() }).await;
        let is_foreign =
            |status: Status| status.get_details_error_info().is_some_and(|info| info.reason == "CURSOR_FOREIGN");
        refused += usize::from(foreign.is_err_and(is_foreign));
    }
    assert!(refused > 0, "those of other shards");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_daemon_answers_does_not_hold_up_a_stop() {
    let Some(server) = Server::shared() else { return };
    let database = server.database("stopped");
    let (owner_home, passing_home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let settings = "[summarizer]\nclient_wait_seconds = 60\n";
    let owner = super::serve_as(owner_home.path(), &database, settings, &["--listen", "off"]);
    owns(&owner, 1);
    create(&owner, "followed");
    let passing = super::serve(passing_home.path(), &database);
    let channel = connect(&passing).await;
    let mut tasks = SummaryTaskServiceClient::new(channel.clone());
    let wait_timeout = Some(prost_types::Duration { seconds: 30, nanos: 0 });
    let request = pb::LeaseSummaryTaskRequest { wait_timeout, ..Default::default() };
    let waiting = tokio::spawn(async move { tasks.lease_summary_task(request).await });
    let mut events = EventServiceClient::new(channel);
    let request = pb::SubscribeEventsRequest { session_ids: vec!["followed".to_owned()], ..Default::default() };
    let mut followed = events.subscribe_events(request).await.expect("a stream").into_inner();
    let passing = tokio::task::spawn_blocking(move || passing.stop());
    let end = loop {
        match soon("the end", followed.message()).await {
            Ok(frame) => assert!(frame.is_some(), "the stream ended without a reason"),
            Err(status) => break status,
        }
    };
    let waited = waiting.await.expect("no panic").expect_err("nothing came");
    let reason = |status: &Status| status.get_details_error_info().map(|info| info.reason);
    assert_eq!(reason(&end).as_deref(), Some("SHUTTING_DOWN"), "{end:?}");
    assert_eq!(reason(&waited).as_deref(), Some("OUTCOME_UNCERTAIN"), "{waited:?}");
    assert!(passing.await.expect("no panic").success());
    let log = std::fs::read_to_string(passing_home.path().join("log")).expect("a log");
    assert!(log.contains("stopping") && !log.contains("WARN"), "{log}");
}

/// The next frame of a watched list.
async fn next(frames: &mut Streaming<pb::WatchSessionsResponse>) -> pb::WatchSessionsResponse {
    soon("a frame", frames.message()).await.expect("a frame").expect("a frame")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_list_of_several_shards_has_all_and_then_what_changes() {
    let Some(server) = Server::shared() else { return };
    let mut nodes = Nodes::start(&server.database("watched"), 2);
    nodes.settle();
    let names: Vec<String> = (0..8).map(|number| format!("session-{number}")).collect();
    names.iter().for_each(|name| create(nodes.node(0), name));
    let mut sessions = SessionServiceClient::new(connect(nodes.node(1)).await);
    let mut frames = sessions.watch_sessions(pb::WatchSessionsRequest::default()).await.expect("a stream").into_inner();
    let (mut listed, mut cursor) = (BTreeSet::new(), String::new());
    while cursor.is_empty() {
        let frame = next(&mut frames).await;
        cursor.clone_from(&frame.cursor);
        match frame.frame {
            Some(Frame::SnapshotPage(page)) => listed.extend(client_ids(&page.sessions)),
            other => assert!(matches!(other, Some(Frame::SnapshotEnd(_))), "{other:?}"),
        }
    }
    assert_eq!(listed, names.iter().cloned().collect());
    create(nodes.node(0), "later");
    let changed = |frame: pb::WatchSessionsResponse| match frame.frame {
        Some(Frame::Change(change)) => client_ids(&change.changed_sessions),
        _ => Vec::new(),
    };
    let mut live = Vec::new();
    while !live.contains(&"later".to_owned()) {
        live.extend(changed(next(&mut frames).await));
    }
    // Behind the snapshot there is no other one.
    let resumed = pb::WatchSessionsRequest { after_cursor: cursor, ..Default::default() };
    let mut frames = sessions.watch_sessions(resumed).await.expect("a stream").into_inner();
    let mut again = Vec::new();
    while !again.contains(&"later".to_owned()) {
        let frame = next(&mut frames).await;
        assert!(!matches!(frame.frame, Some(Frame::SnapshotPage(_) | Frame::SnapshotEnd(_))), "{frame:?}");
        again.extend(changed(frame));
    }
    // The owner of some shards is gone: the list goes on with those that took them.
    let (killed, _home) = nodes.0.remove(0);
    killed.kill();
    let mut missing: BTreeSet<String> = names.into_iter().collect();
    missing.iter().for_each(|name| drop(nodes.node(0).text(&["append", name, "anybody"])));
    while !missing.is_empty() {
        let changed = changed(next(&mut frames).await);
        missing.retain(|name| !changed.contains(name));
    }
}
