//! Black-box tests of the real binary: the daemon as a process, the command line as its user types it.

use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The command line under test, in a separate environment.
pub(crate) fn longhand(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhand"));
    command.env("HOME", home).env("XDG_DATA_HOME", home.join("data")).env_remove("LONGHAND_SERVER");
    command.stdin(Stdio::null());
    command
}

/// A daemon in a separate process, killed when the test ends.
pub(crate) struct Daemon {
    child: Child,
    home: PathBuf,
    pub(crate) directory: PathBuf,
}

impl Daemon {
    /// Starts a daemon and waits until it prints its address.
    pub(crate) fn start(home: &Path) -> Self {
        let (daemon, line) = Self::start_as(home, |_| {});
        assert!(line.contains("longhand.sock"), "{line:?}");
        daemon
    }

    /// Starts a daemon whose command is changed first, and waits until it prints its address or ends.
    pub(crate) fn start_as(home: &Path, change: impl FnOnce(&mut Command)) -> (Self, String) {
        let directory = home.join("store");
        let mut command = longhand(home);
        command.args(["serve", "--data-dir"]).arg(&directory).stdout(Stdio::piped()).stderr(Stdio::null());
        crate::engines::serve_in_database(&mut command, &directory);
        change(&mut command);
        let mut child = command.spawn().expect("the daemon starts");
        let stdout = child.stdout.take().expect("standard output is piped");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("the daemon says where it listens");
        (Self { child, home: home.to_owned(), directory }, line)
    }

    /// The daemon's process id.
    pub(crate) fn id(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// Waits until the daemon has ended by itself.
    pub(crate) fn ended(mut self) -> std::process::ExitStatus {
        self.child.wait().expect("the daemon ends")
    }

    pub(crate) fn server(&self) -> String {
        format!("unix:{}", self.directory.join("longhand.sock").display())
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = longhand(&self.home);
        command.args(arguments).arg("--server").arg(self.server());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the command runs")
    }

    /// The standard output of a command, which must succeed.
    pub(crate) fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?} failed: {error}");
        String::from_utf8(output.stdout).expect("output is UTF-8")
    }

    /// The JSON objects that a command prints, one per line.
    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let text = self.text(&[arguments, &["--json"]].concat());
        text.lines().map(|line| serde_json::from_str(line).expect("each line is an object")).collect()
    }

    /// Starts a command without waiting for it.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts")
    }

    /// Kills the daemon without warning.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("the daemon can be killed");
        self.child.wait().expect("the daemon ends");
    }

    /// Asks the daemon to stop, and waits for it.
    pub(crate) fn stop(mut self) -> std::process::ExitStatus {
        rustix::process::kill_process(self.id(), rustix::process::Signal::TERM).expect("the daemon runs");
        self.child.wait().expect("the daemon ends")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // After `kill` and `stop` the process has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A transcript in pi's format with enough tool output to cross a small window's threshold several times.
pub(crate) fn transcript(path: &Path, turns: usize) -> usize {
    let mut lines = vec![
        r#"{"type":"session","version":3,"id":"0196f5a0-0000-7000-8000-000000000001","timestamp":"2026-01-05T10:00:00.000Z","cwd":"/project"}"#
            .to_owned(),
    ];
    let mut parent = String::from("null");
    let mut count = 0;
    let mut entry = |message: String| {
        count += 1;
        let id = format!("{count:08x}");
        let time = format!("2026-01-05T10:{:02}:{:02}.000Z", count / 60 % 60, count % 60);
        lines.push(format!(
            r#"{{"type":"message","id":"{id}","parentId":{parent},"timestamp":"{time}","message":{message}}}"#
        ));
        parent = format!("\"{id}\"");
    };
    for turn in 0..turns {
        entry(format!(
            r#"{{"role":"user","content":[{{"type":"text","text":"please fix module_{turn} in src/module_{turn}.rs"}}],"timestamp":1767607200000}}"#
        ));
        entry(format!(
            r#"{{"role":"assistant","content":[{{"type":"text","text":"I read it first."}},{{"type":"toolCall","id":"call_{turn}","name":"read","arguments":{{"path":"src/module_{turn}.rs"}}}}],"model":"m","provider":"p","usage":{{"input":10,"output":5,"cacheRead":0,"cacheWrite":0,"totalTokens":15}},"stopReason":"toolUse","timestamp":1767607200000}}"#
        ));
        let body = format!("fn module_{turn}() {{ body }}\\n").repeat(300);
        entry(format!(
            r#"{{"role":"toolResult","toolCallId":"call_{turn}","toolName":"read","content":[{{"type":"text","text":"{body}"}}],"isError":false,"timestamp":1767607200000}}"#
        ));
        entry(format!(
            r#"{{"role":"assistant","content":[{{"type":"text","text":"module_{turn} is fixed: the loop in src/module_{turn}.rs ended too early."}}],"model":"m","provider":"p","usage":{{"input":10,"output":5,"cacheRead":0,"cacheWrite":0,"totalTokens":15}},"stopReason":"stop","timestamp":1767607200000}}"#
        ));
    }
    std::fs::write(path, lines.join("\n") + "\n").expect("the transcript is written");
    count
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["kind"].as_str()).collect()
}

pub(crate) fn count(events: &[Value], kind: &str) -> usize {
    kinds(events).into_iter().filter(|found| *found == kind).count()
}

/// Checks that every started compaction has exactly one end.
pub(crate) fn check_ends(events: &[Value]) {
    let (began, ended) = begun_and_ended(events);
    assert_eq!(began, ended);
    let distinct: std::collections::BTreeSet<&String> = began.iter().collect();
    assert_eq!(distinct.len(), ended.len(), "a compaction began twice");
}

/// The events of a daemon, once every compaction that it started has ended.
pub(crate) fn ended_events(daemon: &Daemon) -> Vec<Value> {
    let mut events = daemon.json(&["events"]);
    for _ in 0..200 {
        let (began, ended) = begun_and_ended(&events);
        if began.len() == ended.len() {
            break;
        }
        events = daemon.json(&["events"]);
    }
    events
}

/// The ids of compactions that started, and of those that ended, according to the events, sorted.
fn begun_and_ended(events: &[Value]) -> (Vec<String>, Vec<String>) {
    let of = |kind: &str, field: &str| -> Vec<String> {
        let named = events.iter().filter(|event| event["kind"] == kind);
        named.map(|event| event[field]["compactionId"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let mut began = of("EVENT_KIND_COMPACTION_STARTED", "compactionStarted");
    let mut ended = of("EVENT_KIND_COMPACTED", "compacted");
    ended.extend(of("EVENT_KIND_COMPACTION_FAILED", "compactionFailed"));
    ended.extend(of("EVENT_KIND_COMPACTION_CANCELLED", "compactionCancelled"));
    began.sort();
    ended.sort();
    (began, ended)
}

/// Checks that events are complete and in order: `seq` is dense and increasing.
pub(crate) fn check_order(events: &[Value]) {
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], Value::String((index + 1).to_string()));
    }
}

const LIVE: [&str; 9] =
    ["import", "--live", "--preset", "opencode@seed", "--window", "20000", "--max-output", "4000", "FILE"];

pub(crate) fn live(file: &Path) -> Vec<String> {
    LIVE.iter().map(|word| if *word == "FILE" { file.display().to_string() } else { (*word).to_owned() }).collect()
}

#[test]
fn the_demo_succeeds() {
    let home = tempfile::tempdir().expect("a folder");
    let output = longhand(home.path()).arg("demo").output().expect("the demo runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let (is_too_large, is_explained) =
        (text.contains("leaves too little space"), text.contains("tokens that the window reserves for a reply"));
    assert_eq!(is_too_large, is_explained, "{text}");
}

#[test]
fn an_import_is_compacted_while_it_is_written_and_comes_out_whole() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("session.jsonl");
    let messages = transcript(&file, 60);
    let daemon = Daemon::start(home.path());
    let arguments = live(&file);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let report = daemon.json(&arguments).remove(0);
    assert_eq!(report["messages"], messages);
    assert_eq!(report["views"]["asked"], report["views"]["within_window"]);
    assert_eq!(report["views"]["unpaired"], 0);

    let events = ended_events(&daemon);
    check_order(&events);
    check_ends(&events);
    let compactions = count(&events, "EVENT_KIND_COMPACTED");
    assert!(compactions >= 2, "{:?}", kinds(&events));
    // Two compactions may become active between two replies.
    let changed = report["views"]["changed_prefixes"].as_u64().expect("a count");
    assert!((1..=compactions as u64).contains(&changed), "{report}");
    assert!(report["compactions"]["freed_tokens"].as_i64().expect("a sum") > 10_000, "{report}");
    let session = report["sessions"][0]["session_id"].as_str().expect("a session").to_owned();
    let shown = daemon.json(&["show", &session, "--records"]);
    let normal = shown.iter().filter(|message| message["kind"] == "MESSAGE_KIND_NORMAL").count();
    assert_eq!(normal, messages);
    assert!(daemon.run(&["audit", "verify"]).status.success());

    // A second import adds nothing.
    let again = daemon.json(&arguments).remove(0);
    assert_eq!(again["written"], 0);
    assert_eq!(daemon.json(&["events"]).len(), events.len());
}

#[test]
fn an_import_may_leave_out_the_recorded_usage() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("session.jsonl");
    transcript(&file, 2);
    let daemon = Daemon::start(home.path());
    let file = file.display().to_string();
    for (arguments, reported) in
        [(vec!["import", "--live", &file], 4), (vec!["import", "--live", "--no-usage", &file], 0)]
    {
        let report = daemon.json(&arguments).remove(0);
        let session = report["sessions"][0]["session_id"].as_str().expect("a session").to_owned();
        let shown = daemon.json(&["show", &session]);
        let has_usage = |message: &&Value| message["finish"]["usage"].is_object();
        assert_eq!(shown.iter().filter(has_usage).count(), reported, "{shown:?}");
    }
}

#[test]
fn a_killed_daemon_loses_nothing_that_was_acknowledged() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("session.jsonl");
    let messages = transcript(&file, 120);
    let arguments = live(&file);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // At this pace the kill comes in the middle, on any machine.
    let slowly = [&arguments[..], &["--pace", "5"]].concat();

    // The daemon dies when the third compaction has started, in the middle of the import.
    let daemon = Daemon::start(home.path());
    let mut watcher = daemon
        .command(&["events", "--follow", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the watcher starts");
    let mut import = daemon.spawn(&slowly);
    let lines = BufReader::new(watcher.stdout.take().expect("standard output is piped")).lines();
    let mut seen = Vec::new();
    let mut began = 0;
    for line in lines {
        let event: Value = serde_json::from_str(&line.expect("a line")).expect("an event");
        began += usize::from(event["kind"] == "EVENT_KIND_COMPACTION_STARTED");
        seen.push(event);
        if began == 3 {
            break;
        }
    }
    daemon.kill();
    assert!(!import.wait().expect("the import ends").success(), "the import noticed nothing");
    drop(watcher.kill());
    drop(watcher.wait());

    let daemon = Daemon::start(home.path());
    let report = daemon.json(&arguments).remove(0);
    assert_eq!(report["messages"], messages);
    let events = ended_events(&daemon);
    check_order(&events);
    check_ends(&events);
    assert_eq!(events[..seen.len()], seen, "what a watcher saw before the kill is what happened");
    let session = report["sessions"][0]["session_id"].as_str().expect("a session").to_owned();
    let shown = daemon.json(&["show", &session]);
    let mut ids: Vec<&str> = shown.iter().filter_map(|message| message["clientId"].as_str()).collect();
    let there = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), there, "a message is there twice");
    assert!(there >= messages);
    assert!(daemon.run(&["audit", "verify"]).status.success());
}

#[test]
fn a_daemon_stops_cleanly_and_its_socket_is_private() {
    let home = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(home.path());
    let socket = home.path().join("store/longhand.sock");
    let mode = std::fs::metadata(&socket).expect("the socket is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut follower = daemon.spawn(&["events", "--follow"]);
    assert!(daemon.stop().success());
    follower.wait().expect("the stream ended");
    assert!(!socket.exists());
}

#[test]
fn a_second_daemon_on_the_same_store_is_refused() {
    let home = tempfile::tempdir().expect("a folder");
    let _daemon = Daemon::start(home.path());
    let second = longhand(home.path())
        .args(["serve", "--data-dir"])
        .arg(home.path().join("store"))
        .output()
        .expect("the command runs");
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("another daemon"));
}

#[test]
fn mistakes_give_one_clear_line_and_an_exit_code() {
    let home = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(home.path());
    let fails = |mut command: Command, code: i32, words: &str| {
        let output = command.output().expect("the command runs");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(words), "{text}");
        assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    };
    fails(daemon.command(&["show", "ses_00000000000000000000000000000000"]), 1, "ses_0000");
    let mut missing = longhand(home.path());
    missing.args(["sessions", "--server", "unix:/nowhere/longhand.sock"]);
    fails(missing, 1, "/nowhere/longhand.sock");
    let mut open = longhand(home.path());
    open.args(["serve", "--listen", "0.0.0.0:0", "--data-dir"]).arg(home.path().join("other"));
    fails(open, 64, "loopback");
    assert!(!home.path().join("other").exists(), "a refused daemon leaves nothing behind");
}

#[test]
fn heads_that_were_exported_are_checked_later() {
    let home = tempfile::tempdir().expect("a folder");
    let file = home.path().join("session.jsonl");
    transcript(&file, 3);
    let daemon = Daemon::start(home.path());
    daemon.json(&["import", &file.display().to_string()]);
    let heads = daemon.text(&["audit", "head"]);
    let kept = home.path().join("heads");
    std::fs::write(&kept, &heads).expect("heads are written");
    let kept = kept.display().to_string();
    assert!(daemon.run(&["audit", "verify", "--expect", &kept]).status.success());
    let hash = heads.split("\"hash\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a hash");
    std::fs::write(&kept, heads.replace(hash, &hash.chars().rev().collect::<String>())).expect("heads are written");
    assert!(!daemon.run(&["audit", "verify", "--expect", &kept]).status.success());
}
