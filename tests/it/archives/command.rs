//! The commands that export, import and check, as their user types them.

use crate::cli::{Daemon, longhand, transcript};
use crate::support::private_folder;
use std::fs;
use std::path::Path;
use std::process::Output;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A daemon with an imported transcript; returns the id of its session.
fn with_session(home: &Path) -> (Daemon, String) {
    let daemon = Daemon::start(home);
    let file = home.join("session.jsonl");
    transcript(&file, 3);
    daemon.text(&["import", file.to_str().expect("UTF-8")]);
    let session = daemon.json(&["sessions"])[0]["sessionId"].as_str().expect("an id").to_owned();
    (daemon, session)
}

#[test]
fn a_session_moves_by_a_file() {
    let (from, to) = (private_folder(), private_folder());
    let (source, session) = with_session(from.path());
    let file = from.path().join("archive.jsonl");
    let path = file.to_str().expect("UTF-8");
    source.text(&["export", &session, "--output", path]);
    assert_eq!(fs::read_to_string(&file).expect("a file"), source.text(&["export", &session]));
    assert!(!from.path().join("archive.jsonl.partial").exists());
    let target = Daemon::start(to.path());
    let written = target.text(&["import", path]);
    assert!(written.contains(&session) && written.contains("1 session written and verified"), "{written}");
    assert!(target.text(&["import", path]).contains("was there"));
    assert_eq!(target.text(&["show", &session]), source.text(&["show", &session]));
    assert!(target.text(&["audit", "verify"]).contains("no findings"));
    let with_options = target.run(&["import", path, "--strict"]);
    assert_eq!(with_options.status.code(), Some(64), "{}", said(&with_options));
    // A file that was cut off, and a session that is not there, leave nothing.
    let whole = fs::read(&file).expect("a file");
    fs::write(&file, &whole[..whole.len() / 2]).expect("written");
    let refused = target.run(&["import", path]);
    assert!(!refused.status.success() && said(&refused).contains("ARCHIVE_INVALID"), "{}", said(&refused));
    let missing = from.path().join("none.jsonl");
    assert!(!source.run(&["export", "nobody", "--output", missing.to_str().expect("UTF-8")]).status.success());
    assert!(!missing.exists());
}

#[test]
fn signed_heads_prove_an_export_to_who_has_the_public_key_alone() {
    let home = private_folder();
    let (daemon, session) = with_session(home.path());
    let file = |name: &str| home.path().join(name).to_str().expect("UTF-8").to_owned();
    let offline = |arguments: &[&str]| longhand(home.path()).args(arguments).output().expect("it runs");
    for name in ["key", "other"] {
        let made = offline(&["audit", "key", &file(name)]);
        assert!(made.status.success(), "{}", said(&made));
    }
    let heads = daemon.text(&["audit", "head", "--sign", &file("key")]);
    fs::write(file("heads"), &heads).expect("written");
    // The session grows after the heads were signed.
    daemon.text(&["append", &session, "one more"]);
    daemon.text(&["export", &session, "--output", &file("archive")]);
    let verified = daemon.run(&["audit", "verify", "--expect", &file("heads"), "--key", &file("key.pub")]);
    assert!(verified.status.success(), "{}", said(&verified));
    let by_other = daemon.run(&["audit", "verify", "--expect", &file("heads"), "--key", &file("other.pub")]);
    assert!(by_other.status.code() == Some(3) && said(&by_other).contains("another key"), "{}", said(&by_other));
    daemon.kill();

    let check = |archive: &str, heads: &str, key: &str| {
        let arguments = ["audit", "check", &file(archive), "--head", &file(heads), "--key", &file(key)];
        let output = offline(&arguments);
        (output.status.code(), said(&output))
    };
    let (code, words) = check("archive", "heads", "key.pub");
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains("as it was when its head was signed; 1 revision after it"), "{words}");
    let (code, words) = check("archive", "heads", "other.pub");
    assert!(code == Some(3) && words.contains("another key"), "{words}");
    // Heads that were altered, and heads of another history.
    let first = heads.lines().next().expect("a head");
    let revision = first.split("\"revision\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a revision");
    let earlier = (revision.parse::<i64>().expect("a number") - 1).to_string();
    let revision_of = |text: &str| format!("\"revision\":\"{text}\"");
    fs::write(file("altered"), heads.replacen(&revision_of(revision), &revision_of(&earlier), 1)).expect("written");
    let (code, words) = check("archive", "altered", "key.pub");
    assert!(code == Some(3), "{words}");
    assert!(words.contains("not those that were signed") && words.contains("the hash at revision"), "{words}");
    // Without heads the archive is checked against itself; an altered one is refused.
    let alone = offline(&["audit", "check", &file("archive")]);
    assert!(alone.status.success() && said(&alone).contains("no head names it"), "{}", said(&alone));
    let archive = fs::read_to_string(file("archive")).expect("a file");
    fs::write(file("forged"), archive.replacen("\"title\":\"", "\"title\":\"x", 1)).expect("written");
    let (code, words) = check("forged", "heads", "key.pub");
    assert!(code == Some(3) && words.contains("not those that were written"), "{words}");
}
