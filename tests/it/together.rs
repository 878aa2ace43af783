//! Two agents and two people on one session, by the command line and over the socket: they queue, steer, interrupt and
//! approve, a compaction comes in between, and an agent and the daemon are killed.

use crate::cli::Daemon;
use serde_json::Value;
use std::io::Write as _;

/// A command of somebody, which must succeed; its output without the last line break.
fn by(daemon: &Daemon, actor: &str, arguments: &[&str]) -> String {
    daemon.text(&[arguments, &["--actor", actor]].concat()).trim_end().to_owned()
}

/// The message of a command that must be refused.
fn refused(daemon: &Daemon, actor: &str, arguments: &[&str]) -> String {
    let output = daemon.run(&[arguments, &["--actor", actor]].concat());
    assert_eq!(output.status.code(), Some(1), "{arguments:?} is refused");
    String::from_utf8(output.stderr).expect("UTF-8")
}

/// The only object that a command prints.
fn object(daemon: &Daemon, arguments: &[&str]) -> Value {
    let mut objects = daemon.json(arguments);
    assert_eq!(objects.len(), 1, "{arguments:?}");
    objects.remove(0)
}

#[test]
fn two_agents_and_two_people_share_a_session() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let daemon = Daemon::start(home.path());
    daemon.text(&["create", "--client-id", "shared", "--preset", "pi", "--window", "60000"]);
    let idle = object(&daemon, &["run", "show", "shared"]);
    assert_eq!(idle["activity"], "ACTIVITY_IDLE");

    // Pat asks, and one of the agents answers.
    by(&daemon, "pat", &["prompt", "submit", "shared", "Build it."]);
    by(&daemon, "pat", &["prompt", "submit", "shared", "Then clean up."]);
    assert_eq!(by(&daemon, "ada", &["run", "acquire", "shared", "--take", "--lease", "600"]), "1");
    let taken = refused(&daemon, "bob", &["run", "acquire", "shared"]);
    assert!(taken.contains("RUN_ACTIVE") && taken.contains("ada"), "{taken}");
    let call = r#"{"role":"ROLE_ASSISTANT","parts":[{"toolCall":{"callId":"c1","tool":"bash","inputJson":"{}"}}]}"#;
    let result = format!(
        r#"{{"role":"ROLE_TOOL","parts":[{{"toolResult":{{"callId":"c1","status":"TOOL_RESULT_STATUS_COMPLETED","output":"{}"}}}}]}}"#,
        "built ".repeat(4_000)
    );
    let lines = home.path().join("reply.jsonl");
    let mut file = std::fs::File::create(&lines).expect("a file");
    writeln!(file, "{call}\n{result}").expect("written");
    let lines = lines.to_str().expect("UTF-8");
    by(&daemon, "ada", &["append", "shared", "--messages", lines, "--run", "1"]);

    // Eve steers, and the agent asks.
    by(&daemon, "eve", &["prompt", "submit", "shared", "And test it.", "--steer"]);
    by(&daemon, "ada", &["prompt", "take", "shared", "1", "--steering"]);
    let question = by(&daemon, "ada", &["approve", "ask", "shared", "Push it?", "--tool", "git", "--run", "1"]);
    assert_eq!(object(&daemon, &["run", "show", "shared"])["activity"], "ACTIVITY_WAITING_FOR_APPROVAL");
    by(&daemon, "pat", &["approve", "answer", "shared", &question, "no"]);
    let second = refused(&daemon, "eve", &["approve", "answer", "shared", &question, "yes"]);
    assert!(second.contains("APPROVAL_ENDED") && second.contains("pat"), "{second}");

    // A compaction in between disturbs nobody.
    for number in 0..10 {
        let words = format!("{number} {}", "words of the reply ".repeat(600));
        by(&daemon, "ada", &["append", "shared", "--role", "assistant", &words, "--run", "1"]);
    }
    by(&daemon, "eve", &["compact", "shared"]);

    // The daemon is killed; the run goes on.
    daemon.kill();
    let daemon = Daemon::start(home.path());
    by(&daemon, "ada", &["run", "renew", "shared", "1", "--lease", "600"]);
    by(&daemon, "ada", &["append", "shared", "--role", "assistant", "Tested.", "--run", "1"]);

    // Pat interrupts; the other agent goes on, and is killed.
    by(&daemon, "pat", &["prompt", "submit", "shared", "Stop, mend the door first.", "--interrupt"]);
    let asked = object(&daemon, &["run", "show", "shared"]);
    assert!(asked["run"]["cancelRevision"].is_string(), "{asked}");
    by(&daemon, "ada", &["run", "release", "shared", "1"]);
    assert_eq!(by(&daemon, "bob", &["run", "acquire", "shared", "--take", "--lease", "1"]), "2");
    by(&daemon, "bob", &["append", "shared", "--messages", lines, "--run", "2"]);
    let end = daemon.text(&["run", "watch", "shared", "2"]);
    assert!(end.ends_with("run 2 ended: lost\n"), "{end}");
    assert_eq!(object(&daemon, &["run", "show", "shared"])["activity"], "ACTIVITY_FAILED");
    let stale = refused(&daemon, "bob", &["append", "shared", "late", "--run", "2"]);
    assert!(stale.contains("RUN_LOST"), "{stale}");

    // Every prompt was taken once, in its order; what was asked and answered stays.
    assert_eq!(by(&daemon, "ada", &["run", "acquire", "shared", "--take"]), "3");
    let history = daemon.json(&["show", "shared"]);
    let asked: Vec<&str> = history
        .iter()
        .filter(|message| message["role"] == "ROLE_USER" && message["kind"] == "MESSAGE_KIND_NORMAL")
        .filter_map(|message| message["parts"][0]["text"]["text"].as_str())
        .collect();
    assert_eq!(asked, ["Build it.", "And test it.", "Stop, mend the door first.", "Then clean up."]);
    assert!(daemon.text(&["approve", "list", "shared", "--all"]).contains("no by pat"));
    assert!(daemon.text(&["who", "shared"]).contains("ada runs, as run 3"));
    assert!(daemon.text(&["replay", "shared"]).contains("asked to stop"));
    daemon.text(&["audit", "verify"]);
}

#[test]
fn a_person_sends_again_and_has_the_result_of_a_call() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let daemon = Daemon::start(home.path());
    daemon.text(&["create", "--client-id", "again", "--preset", "pi"]);
    let first = by(&daemon, "pat", &["append", "again", "Hello"]);
    let second = by(&daemon, "pat", &["append", "again", "Where?"]);
    let call = r#"{"role":"ROLE_ASSISTANT","parts":[{"toolCall":{"callId":"c1","tool":"locate","inputJson":"{}"}}]}"#;
    let lines = home.path().join("reply.jsonl");
    std::fs::write(&lines, call).expect("written");
    by(&daemon, "ada", &["append", "again", "--messages", lines.to_str().expect("UTF-8")]);
    by(&daemon, "pat", &["edit", "again", &first, "Good morning", "--metadata", r#"{"mood": "good"}"#]);

    by(&daemon, "pat", &["prompt", "submit", "again", "at home", "--result", "c1"]);
    let waits = by(&daemon, "pat", &["prompt", "list", "again"]);
    assert!(waits.contains("[result of c1] at home"), "{waits}");
    let twice = refused(&daemon, "eve", &["prompt", "submit", "again", "elsewhere", "--result", "c1"]);
    assert!(twice.contains("CALL_ANSWERED"), "{twice}");
    by(&daemon, "ada", &["run", "acquire", "again", "--take", "--lease", "600"]);
    let view = daemon.json(&["view", "again"]);
    let text = serde_json::to_string(&view).expect("JSON");
    assert!(
        text.contains(r#""output":"at home""#) && text.contains(r#""metadataJson":"{\"mood\": \"good\"}""#),
        "{text}"
    );

    // The run is at work on what the person leaves out.
    by(&daemon, "pat", &["prompt", "submit", "again", "And where else?", "--rewind-to", &first]);
    assert_eq!(object(&daemon, &["run", "show", "again"])["run"]["end"]["reason"], "RUN_END_REASON_CANCELLED");
    by(&daemon, "ada", &["run", "acquire", "again", "--take"]);
    let view = by(&daemon, "pat", &["view", "again"]);
    assert!(view.contains("Good morning") && view.contains("And where else?"), "{view}");
    assert!(!view.contains("at home") && !view.contains("Where?\n"), "{view} {second}");
    by(&daemon, "pat", &["prompt", "submit", "again", "Anew", "--rewind-all"]);
    assert!(!by(&daemon, "pat", &["view", "again"]).contains("Good morning"));
    // Fails if a chain is not whole.
    daemon.text(&["audit", "verify"]);
}
