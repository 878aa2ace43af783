//! The commands that change sessions, as a script uses them.

use crate::cli::Daemon;
use serde_json::Value;
use std::io::Write as _;
use std::process::Stdio;

/// A command's output, one id in one line.
fn id(daemon: &Daemon, arguments: &[&str]) -> String {
    let text = daemon.text(arguments);
    let id = text.strip_suffix('\n').expect("a line");
    assert!(!id.is_empty() && !id.contains('\n'), "{arguments:?}: {text:?}");
    id.to_owned()
}

/// A command's output, with a text on its standard input.
fn fed(daemon: &Daemon, arguments: &[&str], input: &str) -> String {
    let mut child = daemon.command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// The texts of a session's view.
fn view(daemon: &Daemon, session: &str) -> Vec<String> {
    let frames = daemon.json(&["view", session]);
    let messages = frames.iter().filter_map(|frame| frame["messages"]["messages"].as_array()).flatten();
    let parts = messages.filter_map(|message| message["parts"].as_array()).flatten();
    parts.map(|part| part["part"]["text"]["text"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_script_creates_a_session_and_works_on_it() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let daemon = Daemon::start(home.path());
    let create = ["create", "--client-id", "mine", "--preset", "pi", "--window", "9000", "--title", "one"];
    let session = id(&daemon, &create);
    assert_eq!(id(&daemon, &create), session, "it is there already");
    let first = id(&daemon, &["append", "mine", "hello", "--client-id", "u1"]);
    assert_eq!(id(&daemon, &["append", "mine", "hello", "--client-id", "u1"]), first, "once");
    let second = fed(&daemon, &["append", "mine", "--role", "assistant"], "two\nlines\n");
    let refused = daemon.run(&["append", "mine"]);
    assert_eq!(refused.status.code(), Some(64), "there is no text");
    let third = id(&daemon, &["append", "mine", "three"]);
    assert_eq!(view(&daemon, "mine"), ["hello", "two\nlines", "three"]);

    assert_ne!(id(&daemon, &["edit", "mine", "u1", "good day"]), first);
    daemon.text(&["edit", "mine", &third, "--remove"]);
    assert_eq!(view(&daemon, "mine"), ["good day", "two\nlines"]);
    let fork = id(&daemon, &["fork", "mine", "--after", second.trim_end(), "--title", "branch"]);
    daemon.text(&["rewind", &fork, "u1"]);
    assert_eq!(view(&daemon, &fork), ["good day"]);
    daemon.text(&["rewind", &fork, "--all"]);
    assert_eq!((view(&daemon, &fork), view(&daemon, "mine").len()), (Vec::new(), 2));

    let printed = daemon.text(&["show", "mine", &third, "u1"]);
    let headings: Vec<&str> = printed.lines().filter(|line| line.starts_with('#')).collect();
    let [removed, edited] = headings[..] else { panic!("{printed}") };
    assert!(removed.contains(" · removed at #") && edited.contains(" · edited at #"), "{printed}");
    let named = daemon.json(&["show", "mine", "u1"]).remove(0);
    assert_eq!(named["status"]["state"], "MESSAGE_STATE_EDITED", "{named}");
    let refused = daemon.run(&["append", &fork, "x", "--expect-last", second.trim_end()]);
    let reason = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && reason.contains("LAST_MESSAGE_MISMATCH"), "{reason}");
    id(&daemon, &["append", &fork, "first", "--expect-empty", "--title", "anew"]);
    id(&daemon, &["append", &fork, "second", "--rewind-all"]);
    let last = id(&daemon, &["append", &fork, "third"]);
    id(&daemon, &["append", &fork, "fourth", "--expect-last", &last]);
    id(&daemon, &["append", &fork, "fifth", "--rewind-to", &last]);
    assert_eq!(view(&daemon, &fork), ["second", "third", "fifth"]);
    assert!(daemon.text(&["sessions"]).contains("anew"));

    daemon.text(&["pin", "mine", "u1"]);
    daemon.text(&["pin", "mine", "u1", "--remove"]);
    let revision = daemon.json(&["show", "mine"])[1]["revision"].as_str().expect("a revision").to_owned();
    let by_revision = id(&daemon, &["fork", "mine", "--after", &format!("#{revision}"), "--client-id", "by-revision"]);
    assert_eq!(view(&daemon, &by_revision), ["good day", "two\nlines"]);
    daemon.text(&["pin", "mine", &revision]);
    daemon.text(&["pin", "mine", &revision, "--remove"]);
    let refused = daemon.run(&["pin", "mine", "#1"]);
    let printed = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(64) && printed.contains("at revision 1"), "{printed}");
    daemon.text(&["said", "mine", "--strike", "u1"]);
    assert!(daemon.text(&["said", "mine"]).contains("[struck out]"));
    assert!(daemon.text(&["undo", "mine"]).contains("words"));
    assert_eq!(daemon.text(&["said", "mine"]), "");
    daemon.text(&["said", "mine", "--add", "u1"]);
    assert_eq!(daemon.json(&["said", "mine"])[0]["markedWords"][0]["stance"], "WORDS_STANCE_KEPT");
    daemon.text(&["said", "mine", "--reset", "u1"]);
    daemon.text(&["title", "mine", "another"]);
    daemon.text(&["archive", "mine"]);
    assert!(!daemon.run(&["append", "mine", "late"]).status.success(), "it is archived");
    daemon.text(&["archive", "mine", "--restore"]);
    let kinds: Vec<Value> = daemon.json(&["events"]).into_iter().map(|event| event["kind"].clone()).collect();
    for kind in
        ["MESSAGE_PINNED", "MESSAGE_UNPINNED", "WORDS_MARKED", "SESSION_ARCHIVED", "SESSION_RESTORED", "SESSION_FORKED"]
    {
        assert!(kinds.contains(&Value::from(format!("EVENT_KIND_{kind}"))), "{kind}: {kinds:?}");
    }
    assert!(daemon.text(&["sessions"]).contains("another"));
}

#[test]
fn sessions_are_labelled_and_found_by_what_they_have() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let daemon = Daemon::start(home.path());
    for name in ["one", "two", "three"] {
        id(&daemon, &["create", "--client-id", name, "--title", name, "--metadata", "{\"project\": \"p\"}"]);
    }
    assert_eq!(daemon.text(&["label", "one", "add", "keep", "mine"]), "keep\nmine\n");
    assert_eq!(daemon.text(&["label", "two", "add", "keep"]), "keep\n");
    assert_eq!(daemon.text(&["label", "one", "remove", "mine"]), "keep\n");
    assert_eq!(daemon.json(&["label", "one"]), [serde_json::json!(["keep"])]);
    let found = |options: &[&str]| {
        let listed = daemon.json(&[&["sessions"], options].concat());
        listed.iter().map(|session| session["title"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(&["--label", "keep"]), ["two", "one"]);
    assert_eq!(found(&["--label", "keep", "--order", "changed"]), ["one", "two"]);
    assert_eq!(found(&["--title", "t", "--order", "oldest"]), ["two", "three"]);
    assert_eq!(found(&["--metadata", "project=p", "--limit", "1"]), ["three"]);
    assert_eq!(found(&["--until", "1h"]), [""; 0]);
    assert_eq!(found(&["--since", "1h", "--client-id", "on"]), ["one"]);
    assert!(daemon.text(&["sessions"]).contains("keep"));
    assert!(daemon.json(&["sessions", "--policies"])[0]["policyJson"].is_string());
    let refused = daemon.run(&["label", "one", "add", "a b"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("white space"), "{refused:?}");
}

#[test]
fn a_compaction_that_has_ended_is_not_cancelled() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let daemon = Daemon::start(home.path());
    let session = id(&daemon, &["create", "--window", "9000", "--override", r#"{"trigger":{"auto":false}}"#]);
    for role in ["user", "assistant"].repeat(8) {
        id(&daemon, &["append", &session, "--role", role, &"one of many words ".repeat(120)]);
    }
    let compaction = daemon.json(&["compact", &session])[0]["compactionId"].as_str().expect("an id").to_owned();
    let refused = daemon.run(&["cancel", &compaction]);
    let printed = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && printed.contains("COMPACTION_ENDED"), "{printed}");
    assert!(daemon.run(&["status", "--check"]).status.success());
}

#[test]
fn messages_of_every_form_come_as_json_lines() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let daemon = Daemon::start(home.path());
    let session = id(&daemon, &["create"]);
    let lines = r#"{"role":"ROLE_USER","parts":[{"text":{"text":"list the files"}}]}
{"role":"ROLE_ASSISTANT","parts":[{"toolCall":{"callId":"c1","tool":"ls","inputJson":"{}"}}],"finish":{"reason":"FINISH_REASON_TOOL_CALLS"}}

{"role":"ROLE_TOOL","parts":[{"toolResult":{"callId":"c1","status":"TOOL_RESULT_STATUS_COMPLETED","output":"a b"}}]}
{"clientId":"reply","role":"ROLE_ASSISTANT","open":true,"parts":[{"text":{"text":"They are a"}}]}
"#;
    let ids = fed(&daemon, &["append", &session, "--messages", "-"], lines);
    assert_eq!(ids.lines().count(), 4);
    daemon.text(&["finish", &session, "reply", "--reason", "length"]);
    let shown = daemon.json(&["show", &session]);
    assert_eq!(shown.len(), 4);
    assert_eq!(shown[3]["finish"]["reason"], "FINISH_REASON_LENGTH");

    let refused = daemon.run(&["append", &session, "--messages", "/nowhere"]);
    assert_eq!(refused.status.code(), Some(1));
    let file = home.path().join("wrong.jsonl");
    std::fs::write(&file, "{\"role\":\"ROLE_USER\"}\n{\"rolle\":1}\n").expect("written");
    let refused = daemon.run(&["append", &session, "--messages", file.to_str().expect("UTF-8")]);
    let printed = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!((refused.status.code(), printed.contains("line 2")), (Some(64), true), "{printed}");
    assert_eq!(daemon.json(&["show", &session]).len(), 4, "nothing was appended");
}

#[test]
fn a_search_prints_what_matches_and_whether_the_view_shows_it() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let daemon = Daemon::start(home.path());
    let session = id(&daemon, &["create", "--title", "vaults"]);
    let first = id(&daemon, &["append", &session, "The deploy key is in vault seven."]);
    id(&daemon, &["append", &session, "Noted: vault seven.", "--role", "assistant"]);
    // What was acknowledged is indexed soon after.
    let found = |arguments: &[&str]| {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            let hits = daemon.json(&[&["search", "vault"], arguments].concat());
            if hits.len() >= 2 || arguments.contains(&"--role") && !hits.is_empty() {
                return hits;
            }
            assert!(std::time::Instant::now() < deadline, "{hits:?}");
        }
    };
    let hits = found(&[]);
    assert_eq!(hits.len(), 2);
    let of_user = found(&["--role", "user", "--session", &session, "--type", "text", "--since", "1h"]);
    assert_eq!(of_user[0]["messageId"], first.as_str());
    assert_eq!(of_user[0]["snippet"]["matches"][0]["offsetBytes"], "21");
    let text = daemon.text(&["search", "deploy", "vault seven"]);
    assert!(text.contains("The deploy key is in vault seven."), "{text}");
    assert!(text.contains("user (text)") && text.contains("in view") && text.contains(&first), "{text}");
    daemon.text(&["rewind", &session, "--all"]);
    let text = daemon.text(&["search", "deploy"]);
    assert!(text.contains("rewound at revision"), "{text}");
    for (arguments, why) in [(&["search", "…"][..], "query"), (&["search", "x", "--role", "boss"], "is no role")] {
        let refused = daemon.run(arguments);
        assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains(why), "{arguments:?}");
    }
    let nothing = daemon.run(&["search", "absent"]);
    let said = String::from_utf8_lossy(&nothing.stderr).into_owned();
    assert!(nothing.status.success() && nothing.stdout.is_empty() && said.contains("nothing found"), "{said}");
    let why = daemon.text(&["search", "deploy absent", "--why"]);
    assert!(why.lines().any(|line| line.trim_start().starts_with("deploy ")), "{why}");
    assert_eq!(daemon.text(&["search", "deploy absent", "--all"]), "");
}

#[test]
fn a_daemon_without_search_keeps_no_index() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let daemon = Daemon::start(home.path());
    let index = home.path().join("store").join("longhand-search.db");
    assert!(index.exists());
    assert!(daemon.stop().success());
    let settings = home.path().join("longhand.toml");
    std::fs::write(&settings, "search = false\n").expect("settings");
    let (daemon, _) = Daemon::start_as(home.path(), |command| {
        command.arg("--config").arg(&settings);
    });
    assert!(!index.exists());
    let refused = daemon.run(&["search", "x"]);
    let printed = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && printed.contains("the search index is not open"), "{printed}");
}

#[test]
fn a_script_erases_a_part_a_message_and_a_session() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let daemon = Daemon::start(home.path());
    let session = id(&daemon, &["create", "--client-id", "mine", "--title", "about a key"]);
    let words = |name: &str| format!("{name}-is-a-word-that-nobody-else-writes");
    for name in ["first", "second", "third"] {
        id(&daemon, &["append", "mine", &words(name), "--client-id", name]);
    }
    let shown = daemon.json(&["show", "mine"]);
    let part = shown[1]["parts"][0]["partId"].as_str().expect("a part").to_owned();
    let would = daemon.text(&["erase", "mine", "first", "--reason", "a key", "--dry-run"]);
    assert!(would.starts_with("would erase 1 message with 1 part, "), "{would}");
    let refused = daemon.run(&["erase", "mine", "first", "--reason", "a key"]);
    let printed = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(64) && printed.contains("--yes"), "{printed}");
    assert_eq!(view(&daemon, "mine").len(), 3);
    let erased = daemon.text(&["erase", "mine", "first", "--reason", "a key", "--yes"]);
    assert!(erased.starts_with("erased 1 message with 1 part, "), "{erased}");
    daemon.text(&["erase", "mine", "second", &part, "--reason", "a name", "--yes"]);
    let shown = daemon.json(&["show", "mine"]);
    let is_erased: Vec<bool> =
        shown.iter().map(|message| message["parts"][0]["erased"].as_bool().unwrap_or_default()).collect();
    assert_eq!(is_erased, [true, true, false]);
    assert!(daemon.text(&["events"]).contains("message erased: a key"));
    assert!(daemon.text(&["view", "mine"]).contains("[erased]"));
    daemon.text(&["erase", "mine", "--reason", "all of it", "--yes"]);
    assert!(daemon.text(&["sessions", "--archived"]).contains("(erased)"));
    assert!(daemon.run(&["audit", "verify"]).status.success());
    for entry in std::fs::read_dir(&daemon.directory).expect("the folder") {
        let path = entry.expect("an entry").path();
        let Ok(bytes) = std::fs::read(&path) else { continue };
        for words in ["first", "second", "third"].map(words) {
            let has = bytes.windows(words.len()).any(|window| window == words.as_bytes());
            assert!(!has, "{words} is in {}", path.display());
        }
    }
    assert_ne!(id(&daemon, &["create", "--client-id", "mine", "--title", "another"]), session);
}
