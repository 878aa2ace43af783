//! Spans of requests, decisions and jobs in the log, which has no content.

use crate::cli::{Daemon, live, transcript};
use crate::support::private_folder;
use std::fs;
use std::path::Path;

/// The log of a daemon with this filter that imports a transcript, compacts it, and refuses a request.
fn log(home: &Path, filter: Option<&str>) -> (String, String) {
    let file = home.join("session.jsonl");
    transcript(&file, 60);
    let path = home.join("log");
    let (daemon, _) = Daemon::start_as(home, |command| {
        command.stderr(fs::File::create(&path).expect("a file"));
        match filter {
            Some(filter) => command.env("LONGHAND_LOG", filter),
            None => command.env_remove("LONGHAND_LOG"),
        };
    });
    let arguments = live(&file);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let report = daemon.json(&arguments).remove(0);
    let session = report["sessions"][0]["session_id"].as_str().expect("a session").to_owned();
    assert!(report["compactions"]["freed_tokens"].as_i64().expect("a sum") > 0, "{report}");
    // The name comes from a client, and may be content.
    assert!(!daemon.run(&["show", "plutonium"]).status.success());
    assert!(!daemon.run(&["pin", &session, "plutonium"]).status.success());
    daemon.stop();
    (fs::read_to_string(&path).expect("the log"), session)
}

#[test]
fn requests_decisions_and_jobs_have_spans_without_content() {
    let home = private_folder();
    let (log, session) = log(home.path(), Some("longhand=trace"));
    let line = |words: &[&str]| {
        let is_it = |line: &&str| words.iter().all(|word| line.contains(word));
        assert!(log.lines().any(|line| is_it(&line)), "no line with {words:?} in:\n{log}");
    };
    let of_session = format!("session={session}");
    let append = "method=\"longhand.v1.MessageService/AppendMessages\"";
    line(&["DEBUG call{", append, &of_session, "status=Ok", "longhand::call: call ended duration_us="]);
    // The end of a stream comes with its trailers.
    line(&["GetView\"", &of_session, "status=Ok", "call ended"]);
    line(&["PinMessage\"", &of_session, "status=NotFound", "reason=MESSAGE_NOT_FOUND", "call ended"]);
    line(&["DEBUG decision{", &of_session, "longhand::decision: decision ended duration_us="]);
    line(&["decision{", &of_session, "compaction requested compaction=cmp_"]);
    line(&["DEBUG job{", &of_session, "compaction=cmp_", "trigger=\"threshold\"", "attempt=1", "job ended state=Done"]);
    for word in ["plutonium", "please fix", "module_", "/project", "read it first"] {
        let found = log.lines().find(|line| line.contains(word));
        assert_eq!(found, None, "content in the log");
    }
}

#[test]
fn the_default_log_has_no_line_of_a_request() {
    let home = private_folder();
    let (log, _) = log(home.path(), None);
    assert!(log.contains("listening"), "{log}");
    for line in log.lines() {
        assert!(!line.contains(" ended") && !line.contains("call{") && !line.contains("decision{"), "{line}");
    }
}
