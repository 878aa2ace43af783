//! Daemons that lack something: a directory, the database, a shard that came later.

use super::cluster::{all, create, follow};
use super::{at, owns, serve, serve_as, serve_with};
use crate::access_tcp::{remote, url};
use crate::cli::Daemon;
use crate::postgres::{self, Server};
use serde_json::Value;
use std::os::unix::fs::symlink;
use std::path::Path;

/// What a daemon says of a shard that it cannot open.
fn failures(daemon: &Daemon) -> Vec<Value> {
    let cluster = &daemon.json(&["cluster"])[0];
    let daemons = cluster["daemons"].as_array().expect("daemons");
    daemons.iter().filter_map(|one| one["failures"].as_array()).flatten().cloned().collect()
}

#[test]
fn a_shard_that_a_daemon_cannot_open_is_served_by_another_one() {
    let Some(server) = Server::shared() else { return };
    let (sick_home, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let database = server.database("sick");
    // There is a file in the place of its directory.
    let directory = sick_home.path().join("store/shards");
    std::fs::create_dir_all(&directory).expect("a folder");
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o700);
    std::fs::set_permissions(sick_home.path().join("store"), mode).expect("permissions");
    std::fs::write(directory.join("s2"), "").expect("a file");
    let sick = serve_with(sick_home.path(), &database, &["--shards", "2"]);
    owns(&sick, 1);
    let is_said = || failures(&sick).iter().any(|failure| failure["shard"] == "s2" && !failure["error"].is_null());
    assert!((0..2_000).any(|_| is_said()), "{:?}", sick.json(&["cluster"]));
    let healthy = serve_with(home.path(), &database, &["--shards", "2"]);
    owns(&healthy, 1);
    let names: Vec<String> = (0..8).map(|number| format!("session-{number}")).collect();
    for name in &names {
        create(&sick, name);
        at(&healthy, &["append", name, "the quokka was here"]).expect("appended");
        assert!(at(&sick, &["show", name]).expect("shown").contains("quokka"), "{name}");
    }
    let said = sick.text(&["cluster"]);
    assert!(said.contains("cannot open s2: "), "{said}");
    // Whoever is asked to have what it cannot open hands it back.
    let cluster = &sick.json(&["cluster"])[0];
    let id = cluster["daemons"].as_array().expect("daemons").iter().find(|one| one["answering"] == true);
    let id = id.expect("itself")["daemonId"].as_str().expect("an id").to_owned();
    sick.text(&["move", "s2", &id]);
    for name in &names {
        at(&sick, &["append", name, "and stays"]).expect("appended");
    }
    owns(&healthy, 1);
}

/// Has an address lead to the folder of a server's socket.
fn lead(address: &Path, server: &Server) {
    symlink(&server.folder, address).expect("a link");
}

#[test]
fn a_revoked_token_opens_nothing_at_a_daemon_that_lost_the_database() {
    let Some(server) = Server::start(None) else { return };
    let homes = [0, 1].map(|_| tempfile::tempdir().expect("a folder"));
    let address = homes[1].path().join("address");
    lead(&address, &server);
    let owner = serve(homes[0].path(), &server.url());
    owns(&owner, 1);
    create(&owner, "kept");
    owner.text(&["append", "kept", "the quokka was here"]);
    let created = owner.json(&["token", "create", "reader", "--scopes", "read"]);
    let secret = created[0]["secret"].as_str().expect("a secret").to_owned();
    let other = serve_as(homes[1].path(), &postgres::url(&address), "", &["--listen", "127.0.0.1:0"]);
    let url = url(&other);
    let reads = || remote(homes[0].path(), &["show", "kept", "--retry", "0"], &url, &secret);
    // It reads the tokens now and then.
    assert!((0..400).any(|_| reads().status.success()), "{:?}", reads());

    // The daemon loses the database. What it passes on, its owner answers.
    std::fs::remove_file(&address).expect("removed");
    let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 'longhand'";
    server.sql("postgres", end).expect("ended");
    let named = created[0]["accessToken"]["accessTokenId"].as_str().expect("an id").to_owned();
    // Its own connections were ended too.
    let revoke = |_| at(&owner, &["token", "revoke", &named]).is_ok();
    assert!((0..400).any(revoke), "it comes back");
    let refused = (0..400).map(|_| reads()).find(|output| !output.status.success());
    let refused = refused.expect("the list is too old by now");
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.contains("access token cannot be checked"), "{error}");
    assert!((0..20).all(|_| !reads().status.success()), "it stays so");
    // The owner of the daemon is asked nothing that the database knows.
    assert!(at(&other, &["show", "kept"]).expect("passed on").contains("quokka"));
    lead(&address, &server);
    let is_unknown = || String::from_utf8_lossy(&reads().stderr).contains("unknown, revoked or over");
    assert!((0..400).any(|_| is_unknown()), "{:?}", reads());
}

#[test]
fn followers_get_the_events_of_shards_that_are_added() {
    let Some(server) = Server::shared() else { return };
    let homes = [0, 1, 2].map(|_| tempfile::tempdir().expect("a folder"));
    let database = server.database("added");
    let first = serve(homes[0].path(), &database);
    owns(&first, 1);
    create(&first, "alone");
    let (mut child, lines) = follow(&first);
    let mut later = Vec::new();
    // One shard has become two, and then four: the stream goes on from each.
    for (home, shards) in homes[1..].iter().zip(["2", "4"]) {
        later.push(serve_with(home.path(), &database, &["--shards", shards]));
        let count = || first.json(&["cluster"])[0]["shards"].as_array().expect("shards").len().to_string();
        assert!((0..2_000).any(|_| count() == shards), "{shards} shards");
        (0..8).for_each(|number| create(&first, &format!("of-{shards}-{number}")));
    }
    let events: usize = ["s1", "s2", "s3", "s4"]
        .iter()
        .map(|shard| server.sql("added", &format!("select count(*) from lh_{shard}.event")).expect("counted"))
        .map(|count| count.trim().parse::<usize>().expect("a number"))
        .sum();
    all(&lines, events);
    drop((child.kill(), child.wait()));
}

/// The server says so in a warning alone: the answer of the commit is that of any other.
#[test]
fn a_commit_that_no_standby_confirmed_is_no_success() {
    let Some(server) = Server::start(None) else { return };
    let home = tempfile::tempdir().expect("a folder");
    let daemon = serve(home.path(), &server.url());
    owns(&daemon, 1);
    create(&daemon, "alone");
    server.sql("postgres", "alter system set synchronous_standby_names = 'nobody'").expect("set");
    server.sql("postgres", "select pg_reload_conf()").expect("loaded");
    let mut waiting = daemon.command(&["append", "alone", "the quokka was here", "--retry", "0"]);
    let waiting = waiting.stderr(std::process::Stdio::piped()).spawn().expect("it starts");
    let cancel = "select count(pg_cancel_backend(pid)) > 0 from pg_stat_activity \
        where wait_event = 'SyncRep' and pid in (select pid from lh.shard)";
    assert!((0..2_000).any(|_| server.sql("postgres", cancel).expect("asked").trim() == "t"), "it does not wait");
    let output = waiting.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("OUTCOME_UNCERTAIN"), "{error}");
    server.sql("postgres", "alter system set synchronous_standby_names = ''").expect("set");
    server.sql("postgres", "select pg_reload_conf()").expect("loaded");
    assert!(daemon.text(&["show", "alone"]).contains("quokka"), "it is there");
    daemon.text(&["append", "alone", "and goes on"]);
    daemon.text(&["audit", "verify"]);
}
