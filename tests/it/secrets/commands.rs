//! The configuration of rules, and the command that tries them.

use crate::cli::{Daemon, longhand};
use std::path::Path;

const RULES: &str = "[[rule]]\nname = \"hush\"\npattern = 'hush-[0-9a-f]{16}'\naction = \"redact\"\n";
const SECRET: &str = "hush-abcdef0123456789";

fn write(folder: &Path, name: &str, text: &str) -> String {
    let file = folder.join(name);
    std::fs::write(&file, text).expect("the file is written");
    file.to_string_lossy().into_owned()
}

#[test]
fn a_daemon_applies_the_rules_of_its_configuration() {
    let home = tempfile::tempdir().expect("a folder");
    let rules = write(home.path(), "secrets.toml", RULES);
    let config = write(home.path(), "longhand.toml", &format!("[secrets]\nrules = {rules:?}\nknown = \"warn\"\n"));
    let start = || {
        Daemon::start_as(home.path(), |command| {
            command.arg("--config").arg(&config);
        })
        .0
    };
    let daemon = start();
    daemon.text(&["create", "--client-id", "mine"]);
    let appended = daemon.run(&["append", "mine", &format!("one {SECRET} two"), "--client-id", "u1"]);
    let said = String::from_utf8_lossy(&appended.stderr);
    assert_eq!(said, "longhand: messages[0].parts[0].text has 1 of what the rule hush finds: redacted\n");
    let shown = daemon.text(&["show", "mine"]);
    assert!(shown.contains("one [secret:hush:") && !shown.contains(SECRET), "{shown}");
    let metrics = daemon.text(&["status", "--metrics"]);
    assert!(metrics.contains("longhand_secrets_total{rule=\"hush\",action=\"redact\"} 1\n"), "{metrics}");
    assert!(metrics.contains("longhand_secrets_total{rule=\"aws-access-token\",action=\"warn\"} 0\n"), "{metrics}");
    daemon.kill();
    let daemon = start();
    let again = daemon.text(&["append", "mine", &format!("one {SECRET} two"), "--client-id", "u1"]);
    assert_eq!(daemon.text(&["append", "mine", &format!("one {SECRET} two"), "--client-id", "u1"]), again);
    assert_eq!(daemon.text(&["show", "mine"]).matches("[secret:hush:").count(), 1, "it is not stored twice");
}

#[test]
fn rules_that_cannot_be_used_stop_the_start_and_are_not_quoted() {
    let home = tempfile::tempdir().expect("a folder");
    let private = |text: &str, expected: &str| {
        let rules = write(home.path(), "secrets.toml", text);
        let config = write(home.path(), "longhand.toml", &format!("secrets = {{ rules = {rules:?} }}"));
        let mut command = longhand(home.path());
        let output = command.args(["serve", "--data-dir"]).arg(home.path().join("store")).args(["--config", &config]);
        let output = output.output().expect("it ends");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{error}");
        assert!(error.contains(expected) && error.contains("secrets.toml") && !error.contains("hush-"), "{error}");
        assert!(!home.path().join("store").exists(), "nothing is made");
    };
    private("[[rule]]\nname = \"a\"\npattern = 'hush-[0-9]+'\naction = \"warn\"", "rule 0 (\"a\") can match more than");
    private(
        "[[rule]]\nname = \"a\"\npattern = 'hush-('\naction = \"warn\"",
        "rule 0 (\"a\") has no regular expression",
    );
    private("[[rule]]\nname = \"a\"\npattern = 'hush-[0-9]{4}'\naction = \"erase\"", "line 4");
    private("[[rules]]\nname = \"a\"", "unknown field `rules`");
}

#[test]
fn rules_are_tried_on_files_without_a_daemon() {
    let home = tempfile::tempdir().expect("a folder");
    let rules = write(home.path(), "secrets.toml", RULES);
    let text = write(home.path(), "a.txt", &format!("first\n  é {SECRET}\n"));
    let lines = write(home.path(), "b.jsonl", &format!("{{}}\n{{\"a\": \"\\u0068{}\"}}\n", &SECRET[1..]));
    let clean = write(home.path(), "c.txt", "nothing");
    let run = |arguments: &[&str]| {
        let output = longhand(home.path()).args(["secrets", "check"]).args(arguments).output().expect("it ends");
        (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
    };
    let (code, printed) = run(&["--rules", &rules, &text, &lines, &clean]);
    assert_eq!(code, Some(3), "{printed}");
    assert_eq!(printed, format!("{text}:2:5: hush (redact)\n{lines}:2:8: hush (redact)\n2 findings by 1 rule\n"));
    assert_eq!(run(&["--rules", &rules, &clean]), (Some(0), "0 findings by 1 rule\n".to_owned()));
    let (code, printed) = run(&[&text]);
    assert_eq!((code, printed.starts_with("0 findings by 2")), (Some(0), true), "the built-in rules: {printed}");
}

#[test]
fn what_is_stored_is_scanned_and_erased() {
    let home = tempfile::tempdir().expect("a folder");
    let rules = write(home.path(), "secrets.toml", RULES);
    let daemon = Daemon::start(home.path());
    daemon.text(&["create", "--client-id", "mine", "--title", &format!("about {SECRET}")]);
    daemon.text(&["append", "mine", &format!("one {SECRET} and {SECRET}"), "--client-id", "u1"]);
    daemon.text(&["append", "mine", "nothing to hide", "--client-id", "u2"]);
    daemon.text(&["create", "--client-id", "other"]);
    daemon.text(&["append", "other", &format!("{SECRET} again"), "--client-id", "u1"]);
    daemon.text(&["archive", "other"]);
    let scan = |arguments: &[&str]| {
        let output = daemon.run(&[&["secrets", "scan", "--rules", &rules], arguments].concat());
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        assert!(!text(output.stdout.clone()).contains(SECRET), "it is not printed");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, printed, error) = scan(&[]);
    assert_eq!(code, Some(3), "{error}");
    assert!(printed.contains("the session title: hush\n") && printed.contains(" text: hush, 2 times\n"), "{printed}");
    assert!(printed.ends_with("4 findings by 1 rule\n"), "archived sessions too: {printed}");
    assert!(scan(&["mine"]).1.ends_with("3 findings by 1 rule\n"));
    let erase = ["--erase", "--reason", "keys were pasted"];
    let (code, printed, _) = scan(&[&erase[..], &["--dry-run"]].concat());
    assert!(code == Some(3) && printed.contains("would erase 2 part"), "{printed}");
    assert!(daemon.text(&["show", "mine"]).contains(SECRET), "nothing was erased");
    let (code, _, error) = scan(&erase);
    assert!(code == Some(64) && error.contains("--yes"), "{error}");
    let (_, printed, error) = scan(&[&erase[..], &["--yes"]].concat());
    assert!(printed.contains("\nerased 2 part"), "{printed}{error}");
    let shown = daemon.text(&["show", "mine"]);
    assert!(!shown.contains(SECRET) && shown.contains("nothing to hide"), "{shown}");
    let (_, printed, _) = scan(&[]);
    assert!(printed.ends_with("1 finding by 1 rule\n"), "the title is left: {printed}");
    assert!(scan(&["other"]).0 == Some(0));
}
