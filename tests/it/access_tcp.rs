//! The running daemon on TCP: tokens, TLS, and what a browser's page gets.

use crate::cli::{Daemon, longhand};
use crate::support::private_folder;
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

/// Deadline of every wait.
const DEADLINE: Duration = Duration::from_secs(20);

/// The URL in the data directory.
pub(crate) fn url(daemon: &Daemon) -> String {
    fs::read_to_string(daemon.directory.join("longhand.url")).expect("a URL").trim().to_owned()
}

fn owner_secret(daemon: &Daemon) -> String {
    fs::read_to_string(daemon.directory.join("access-token")).expect("a secret").trim().to_owned()
}

/// Sends a request of HTTP/1.1, and returns the answer as text.
fn ask(url: &str, request: &str, headers: &[&str]) -> String {
    let authority = url.strip_prefix("http://").expect("no TLS");
    let mut stream = TcpStream::connect(authority).expect("a connection");
    stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
    let host = if headers.iter().any(|header| header.starts_with("Host:")) {
        String::new()
    } else {
        format!("Host: {authority}\r\n")
    };
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    write!(stream, "{request} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

/// A command of another user of the network: it finds nothing in the data directory.
pub(crate) fn remote(home: &Path, arguments: &[&str], url: &str, secret: &str) -> Output {
    let mut command = longhand(home);
    command.args(arguments).args(["--server", url]).env("LONGHAND_TOKEN", secret);
    command.output().expect("the command runs")
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_command_on_tcp_proves_itself_by_a_token_with_scopes() {
    let home = private_folder();
    let daemon = Daemon::start(home.path());
    let url = url(&daemon);
    let mode = fs::metadata(daemon.directory.join("access-token")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let secret = daemon.text(&["token", "create", "ci", "--scopes", "read", "--expires", "1h"]);
    let secret = secret.trim();
    assert!(remote(home.path(), &["sessions"], &url, secret).status.success());
    assert!(remote(home.path(), &["sessions"], &url, &owner_secret(&daemon)).status.success());
    for (arguments, secret, reason) in [
        (&["create"][..], secret, "SCOPE_MISSING"),
        (&["token", "list"], secret, "SCOPE_MISSING"),
        (&["sessions"], "lh_owner_wrong", "ACCESS_TOKEN_INVALID"),
        (&["sessions"], "", "ACCESS_TOKEN_MISSING"),
    ] {
        let refused = remote(home.path(), arguments, &url, secret);
        assert!(!refused.status.success() && error(&refused).contains(reason), "{arguments:?}: {}", error(&refused));
    }
    let listed = daemon.json(&["token", "list"]);
    let id = listed[0]["accessTokenId"].as_str().expect("an id").to_owned();
    assert_eq!((&listed[0]["principal"], &listed[0]["scopes"]), (&"ci".into(), &serde_json::json!(["SCOPE_READ"])));
    assert!(daemon.text(&["token", "list"]).contains("valid"));
    daemon.text(&["token", "revoke", &id]);
    assert!(daemon.text(&["token", "list"]).contains("revoked"));
    assert!(error(&remote(home.path(), &["sessions"], &url, secret)).contains("ACCESS_TOKEN_INVALID"));
    // What it read is in the access log.
    let directory = daemon.directory.display().to_string();
    let logged = daemon.text(&["audit", "access", "--data-dir", &directory]);
    let logged: Vec<Value> = logged.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert_eq!((&logged[0]["principal"], &logged[0]["outcome"]), (&"ci".into(), &"OK".into()));
    daemon.stop();
    assert!(!home.path().join("store/longhand.url").exists());
}

#[test]
fn a_daemon_comes_back_at_the_port_that_it_had_if_it_is_free() {
    let home = private_folder();
    // Another program may take the port in between, though hardly every time.
    let comes_back = (0..5).any(|_| {
        let daemon = Daemon::start(home.path());
        let before = url(&daemon);
        daemon.stop();
        let daemon = Daemon::start(home.path());
        let after = url(&daemon);
        daemon.stop();
        before == after
    });
    assert!(comes_back);
    let port = fs::read_to_string(home.path().join("store/longhand.port")).expect("a port");
    let taken = std::net::TcpListener::bind(format!("127.0.0.1:{}", port.trim()));
    let daemon = Daemon::start(home.path());
    assert!(taken.is_err() || !url(&daemon).ends_with(&format!(":{}", port.trim())));
    daemon.stop();
}

#[test]
fn a_link_to_the_console_gives_what_its_maker_has() {
    let home = private_folder();
    let daemon = Daemon::start(home.path());
    let url = url(&daemon);
    let secret = daemon.text(&["token", "create", "operator", "--scopes", "read,admin", "--expires", "1h"]);
    let link = remote(home.path(), &["console"], &url, secret.trim());
    assert!(link.status.success(), "{}", error(&link));
    let refused = remote(home.path(), &["console", "--scopes", "write"], &url, secret.trim());
    assert!(!refused.status.success() && error(&refused).contains("SCOPE_MISSING"), "{}", error(&refused));
    daemon.stop();
}

#[test]
fn a_page_of_another_origin_gets_nothing() {
    let home = private_folder();
    let daemon = Daemon::start(home.path());
    daemon.text(&["create", "--title", "plutonium"]);
    let url = url(&daemon);
    let bearer = format!("Authorization: Bearer {}", owner_secret(&daemon));
    let sessions = "GET /v1/sessions";
    let own = ask(&url, sessions, &[&bearer]);
    assert!(status(&own) == "200" && own.contains("plutonium"), "{own}");
    for strict in ["content-security-policy: default-src 'none'", "x-content-type-options: nosniff"] {
        assert!(own.contains(strict), "{own}");
    }
    let origin = "Origin: https://evil.example";
    for (request, headers, expected) in [
        (sessions, vec![], "401"),
        // Nothing of a body is read before the caller is known.
        ("POST /v1/sessions", vec!["Content-Type: text/plain", "Content-Length: 0"], "401"),
        (sessions, vec![origin], "403"),
        (sessions, vec![origin, &bearer], "403"),
        ("GET /v1/events?offset=-1", vec![origin, &bearer], "403"),
        (sessions, vec!["Origin: null", &bearer], "403"),
        (sessions, vec!["Host: evil.example", &bearer], "403"),
        ("GET /metrics", vec!["Host: evil.example", &bearer], "403"),
        ("POST /longhand.v1.SessionService/ListSessions", vec![origin, "Content-Type: application/grpc-web"], "200"),
    ] {
        let answer = ask(&url, request, &headers);
        assert_eq!(status(&answer), expected, "{request} {headers:?}: {answer}");
        assert!(!answer.contains("plutonium") && !answer.to_lowercase().contains("access-control"), "{answer}");
        // A refusal over gRPC-Web is in its status.
        assert!(expected != "200" || answer.contains("grpc-status: 7") || answer.contains("grpc-status:7"), "{answer}");
    }
    let preflight = ask(&url, "OPTIONS /v1/sessions", &[origin, "Access-Control-Request-Method: POST"]);
    assert!(!preflight.to_lowercase().contains("access-control-allow"), "{preflight}");
    daemon.stop();
}

#[test]
fn grpc_web_is_served_over_http_1() {
    let home = private_folder();
    let daemon = Daemon::start(home.path());
    let id = daemon.json(&["create"])[0]["session"]["sessionId"].as_str().expect("an id").to_owned();
    let bearer = format!("Authorization: Bearer {}", owner_secret(&daemon));
    let list = "POST /longhand.v1.SessionService/ListSessions";
    let mut stream = TcpStream::connect(url(&daemon).trim_start_matches("http://")).expect("a connection");
    stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
    let head = format!(
        "{list} HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\nContent-Type: application/grpc-web+proto\r\n\
         Content-Length: 5\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), &[0; 5]].concat()).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let text = String::from_utf8_lossy(&answer);
    assert!(text.contains(&id) && text.contains("grpc-status:0"), "{text}");
    daemon.stop();
}

#[test]
fn a_page_of_a_configured_origin_may_call() {
    let home = private_folder();
    let settings = home.path().join("longhand.toml");
    fs::write(&settings, "origins = [\"https://ui.example\"]\n").expect("written");
    let (daemon, _) = Daemon::start_as(home.path(), |command| {
        command.arg("--config").arg(&settings);
    });
    let url = url(&daemon);
    let bearer = format!("Authorization: Bearer {}", owner_secret(&daemon));
    let origin = "Origin: https://ui.example";
    let preflight = [origin, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization"];
    let answer = ask(&url, "OPTIONS /v1/sessions", &preflight).to_lowercase();
    assert!(answer.contains("access-control-allow-origin: https://ui.example"), "{answer}");
    let answer = ask(&url, "GET /v1/sessions", &[origin, &bearer]).to_lowercase();
    assert!(status(&answer) == "200" && answer.contains("access-control-allow-origin: https://ui.example"), "{answer}");
    assert_eq!(status(&ask(&url, "GET /v1/sessions", &["Origin: https://other.example", &bearer])), "403");
    daemon.stop();
}

/// A certificate for `localhost`, and its key, in files.
fn certificate(folder: &Path) -> String {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    fs::write(folder.join("key.pem"), signing_key.serialize_pem()).expect("written");
    fs::write(folder.join("certificate.pem"), cert.pem()).expect("written");
    cert.pem()
}

#[test]
fn tls_serves_a_new_certificate_without_a_restart() {
    let home = private_folder();
    let first = certificate(home.path());
    let settings = home.path().join("longhand.toml");
    let files = |name: &str| home.path().join(name).display().to_string();
    let tls = format!("tls = {{ certificate = {:?}, key = {:?} }}\n", files("certificate.pem"), files("key.pem"));
    // Other addresses than loopback are fine with TLS.
    fs::write(&settings, format!("listen = \"0.0.0.0:0\"\n{tls}")).expect("written");
    let (daemon, _) = Daemon::start_as(home.path(), |command| {
        command.arg("--config").arg(&settings);
    });
    let url = url(&daemon).replace("0.0.0.0", "localhost");
    assert!(url.starts_with("https://"), "{url}");
    let secret = owner_secret(&daemon);
    let trusting = |certificate: &str| {
        let file = home.path().join("trusted.pem");
        fs::write(&file, certificate).expect("written");
        remote(home.path(), &["sessions", "--ca-file", &file.display().to_string()], &url, &secret)
    };
    let output = trusting(&first);
    assert!(output.status.success(), "{}", error(&output));
    assert!(!remote(home.path(), &["sessions"], &url, &secret).status.success(), "nobody vouches for it");
    // A file that is no certificate changes nothing.
    fs::write(home.path().join("certificate.pem"), "nonsense").expect("written");
    assert!(trusting(&first).status.success());
    let second = certificate(home.path());
    let began = Instant::now();
    while !trusting(&second).status.success() {
        assert!(began.elapsed() < DEADLINE, "the new certificate is not served");
    }
    assert!(!trusting(&first).status.success(), "the old one is gone");
    daemon.stop();
    // Without its files, the daemon does not start.
    fs::remove_file(home.path().join("key.pem")).expect("removed");
    let mut broken = longhand(home.path());
    let broken = broken.args(["serve", "--data-dir"]).arg(home.path().join("store")).arg("--config").arg(&settings);
    let output = broken.output().expect("it ends");
    assert!(!output.status.success() && error(&output).contains("key.pem"), "{}", error(&output));
}

#[test]
fn a_token_file_that_others_may_read_stops_the_start() {
    let home = private_folder();
    Daemon::start(home.path()).stop();
    let file = home.path().join("store/access-token");
    let secret = fs::read_to_string(&file).expect("a secret");
    let start = || {
        let mut command = longhand(home.path());
        let output = command.args(["serve", "--data-dir"]).arg(home.path().join("store")).output().expect("it ends");
        assert!(!output.status.success());
        error(&output)
    };
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("changed");
    assert!(start().contains("others may read it"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("changed");
    fs::write(&file, "short\n").expect("written");
    let refused = start();
    assert!(refused.contains("no access token") && !refused.contains("short"), "{refused}");
    fs::remove_file(&file).expect("removed");
    std::os::unix::fs::symlink("/etc/passwd", &file).expect("linked");
    start();
    fs::remove_file(&file).expect("removed");
    let daemon = Daemon::start(home.path());
    assert_ne!(owner_secret(&daemon), secret.trim(), "a new one");
    daemon.stop();
}

#[test]
fn no_secret_is_in_the_log() {
    let home = private_folder();
    let log = home.path().join("log");
    let (daemon, _) = Daemon::start_as(home.path(), |command| {
        command.stderr(fs::File::create(&log).expect("a file")).env("LONGHAND_LOG", "longhand=trace");
    });
    let (url, owner) = (url(&daemon), owner_secret(&daemon));
    let made = daemon.text(&["token", "create", "ci"]);
    let wrong = made.trim().replace("lh_", "lh_0");
    let mut said = String::new();
    for secret in [owner.as_str(), made.trim(), &wrong] {
        let answer = remote(home.path(), &["sessions"], &url, secret);
        said += &error(&answer);
        said += &ask(&url, "GET /v1/sessions", &[&format!("Authorization: Bearer {secret}")]);
        said += &ask(&url, "GET /v1/nothing", &[&format!("Authorization: Bearer {secret}")]);
    }
    said += &daemon.text(&["token", "list"]);
    daemon.stop();
    said += &fs::read_to_string(&log).expect("the log");
    let database = crate::database::stored(&home.path().join("store")).into_iter();
    // The owner's secret lies there, for its owner alone.
    let mut store =
        database.filter(|(name, _)| name != "access-token").flat_map(|(_, bytes)| bytes).collect::<Vec<_>>();
    for file in fs::read_dir(home.path().join("store/access-log")).expect("a folder") {
        store.extend(fs::read(file.expect("a file").path()).expect("a file"));
    }
    said += &String::from_utf8_lossy(&store);
    for secret in [owner.as_str(), made.trim(), &wrong] {
        let (_, random) = secret.split_at(secret.len() - 43);
        for part in [&random[..20], &random[23..]] {
            assert!(!said.contains(part), "a part of a secret is there");
        }
    }
}
