//! The console over HTTP: its page, the link that opens it once, and what its sessions may do.

use crate::cli::Daemon;
use crate::support::private_folder;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Deadline of every wait.
const DEADLINE: Duration = Duration::from_secs(20);

/// A browser's part: its cookies, and the daemon's address.
struct Browser {
    authority: String,
    cookies: Vec<(String, String)>,
}

struct Answer {
    status: u16,
    text: String,
}

impl Answer {
    fn reason(&self, reason: &str) -> bool {
        self.text.contains(&format!("\"reason\":\"{reason}\""))
    }
}

impl Browser {
    fn of(daemon: &Daemon) -> Self {
        let url = fs::read_to_string(daemon.directory.join("longhand.url")).expect("a URL");
        let authority = url.trim().strip_prefix("http://").expect("no TLS").to_owned();
        Self { authority, cookies: Vec::new() }
    }

    fn cookie(&self, token: bool) -> &str {
        let found = self.cookies.iter().find(|(name, _)| name.contains("-token-") == token);
        found.map_or("", |(_, value)| value)
    }

    /// Sends a request with the browser's cookies, and keeps those of the answer.
    fn ask(&mut self, request: &str, headers: &[&str], body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.authority).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        write!(
            stream,
            "{request} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n{headers}Content-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.authority,
            cookies.join("; "),
            body.len()
        )
        .expect("sent");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        for cookie in text.lines().filter_map(|line| line.strip_prefix("set-cookie: ")) {
            let (name, value) = cookie.split(';').next().and_then(|pair| pair.split_once('=')).expect("a cookie");
            self.cookies.retain(|(known, _)| known != name);
            self.cookies.push((name.to_owned(), value.to_owned()));
        }
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Answer { status, text }
    }

    /// Opens the console by a link of `longhand console`.
    fn open(&mut self, link: &str) -> Answer {
        let (_, secret) = link.trim().split_once("/#login=").expect("a link");
        self.ask("POST /console/login", &[], &format!("{{\"link\":\"{secret}\"}}"))
    }
}

#[test]
fn the_page_is_strict_and_open_to_everybody() {
    let home = private_folder();
    let daemon = Daemon::start(home.path());
    let mut browser = Browser::of(&daemon);
    let page = browser.ask("GET /", &[], "");
    assert_eq!(page.status, 200, "{}", page.text);
    for expected in [
        "default-src 'none'; script-src 'self'; style-src 'self'",
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "content-type: text/html",
    ] {
        assert!(page.text.contains(expected), "{expected}: {}", page.text);
    }
    let script = page.text.split('"').find(|text| text.ends_with(".js")).expect("a script");
    let script = browser.ask(&format!("GET {script}"), &[], "");
    assert!(script.status == 200 && script.text.contains("content-type: text/javascript"), "{}", script.status);
    assert_eq!(browser.ask("GET /console/nothing.js", &[], "").status, 404);
    // What is no secret is all that there is without a session.
    assert_eq!(browser.ask("GET /console/session", &[], "").status, 401);
    assert_eq!(browser.ask("GET /v1/sessions", &[], "").status, 401);
    daemon.stop();
}

#[test]
fn a_link_opens_the_console_once() {
    let home = private_folder();
    let daemon = Daemon::start(home.path());
    let link = daemon.text(&["console"]);
    let mut browser = Browser::of(&daemon);
    let opened = browser.open(&link);
    assert_eq!(opened.status, 200, "{}", opened.text);
    assert!(opened.text.contains("SameSite=Strict; HttpOnly") && opened.text.contains("\"principal\":\"console\""));
    assert_eq!(browser.ask("GET /v1/sessions", &[], "").status, 200);
    let mut thief = Browser::of(&daemon);
    let again = thief.open(&link);
    assert!(again.status == 401 && again.reason("CONSOLE_LINK_INVALID"), "{}", again.text);
    assert!(thief.cookies.is_empty());
    // The daemon keeps a hash alone: neither the link's secret nor the session's is in its files.
    let secret = browser.cookie(false).as_bytes();
    let stored = crate::database::stored(&daemon.directory);
    assert!(
        !secret.is_empty() && !stored.iter().any(|(_, file)| file.windows(secret.len()).any(|part| part == secret))
    );
    // A session outlives the daemon; leaving it ends it for every copy of its cookie.
    daemon.stop();
    let daemon = Daemon::start(home.path());
    browser.authority = Browser::of(&daemon).authority;
    let port = |authority: &str| authority.rsplit_once(':').map(|(_, port)| port.to_owned()).expect("a port");
    let moved = port(&browser.authority);
    for (name, _) in &mut browser.cookies {
        let (begin, _) = name.rsplit_once('-').expect("a port");
        *name = format!("{begin}-{moved}");
    }
    assert_eq!(browser.ask("GET /v1/sessions", &[], "").status, 200);
    let copy = browser.cookies.clone();
    let token = format!("longhand-console-token: {}", browser.cookie(true));
    assert_eq!(browser.ask("POST /console/logout", &[&token], "").status, 204);
    browser.cookies = copy;
    assert_eq!(browser.ask("GET /v1/sessions", &[], "").status, 401);
    daemon.stop();
}

#[test]
fn a_change_needs_the_token_of_the_page_and_its_own_origin() {
    let home = private_folder();
    let daemon = Daemon::start(home.path());
    let mut browser = Browser::of(&daemon);
    browser.open(&daemon.text(&["console"]));
    let create = "POST /v1/sessions";
    let token = format!("longhand-console-token: {}", browser.cookie(true));
    let own = format!("Origin: http://{}", browser.authority);
    for (headers, status, reason) in [
        (vec![], 403, "CONSOLE_TOKEN_INVALID"),
        (vec!["longhand-console-token: guessed"], 403, "CONSOLE_TOKEN_INVALID"),
        (vec![token.as_str(), "Origin: https://evil.example"], 403, "ORIGIN_REFUSED"),
        (vec![token.as_str(), "Sec-Fetch-Site: cross-site"], 403, "ORIGIN_REFUSED"),
        (vec![token.as_str(), "Sec-Fetch-Site: same-site"], 403, "ORIGIN_REFUSED"),
    ] {
        let refused = browser.ask(create, &headers, "{\"title\":\"x\"}");
        assert!(refused.status == status && refused.reason(reason), "{headers:?}: {}", refused.text);
    }
    let refused = browser.ask("GET /v1/events?offset=-1", &["Sec-Fetch-Site: cross-site"], "");
    assert!(refused.status == 403 && refused.reason("ORIGIN_REFUSED"), "{}", refused.text);
    assert_eq!(daemon.json(&["sessions"]).len(), 0, "nothing was written");
    let made = browser.ask(create, &[&token, &own, "Sec-Fetch-Site: same-origin"], "{\"title\":\"x\"}");
    assert!(made.status == 200 && made.text.contains("\"actor\":\"console\""), "{}", made.text);
    // A session of the console is none of gRPC-Web's.
    let list = "POST /longhand.v1.SessionService/ListSessions";
    let over_grpc = browser.ask(list, &[&token, "Content-Type: application/grpc-web+proto"], "");
    assert!(!over_grpc.text.contains("ses_"), "{}", over_grpc.text);
    daemon.stop();
}

#[test]
fn a_session_has_the_scopes_and_the_binding_of_its_link() {
    let home = private_folder();
    let daemon = Daemon::start(home.path());
    daemon.text(&["create", "--title", "plutonium"]);
    let mut browser = Browser::of(&daemon);
    let link = daemon.text(&["console", "--principal", "guest", "--scopes", "read", "--project", "mine"]);
    browser.open(&link);
    let token = format!("longhand-console-token: {}", browser.cookie(true));
    let listed = browser.ask("GET /v1/sessions", &[], "");
    assert!(listed.status == 200 && !listed.text.contains("plutonium"), "{}", listed.text);
    for call in ["POST /v1/sessions", "POST /v1/consoleLinks", "POST /v1/accessTokens"] {
        let refused = browser.ask(call, &[&token], "{}");
        assert!(refused.status == 403 && refused.reason("SCOPE_MISSING"), "{call}: {}", refused.text);
    }
    let tokens = daemon.json(&["token", "list"]);
    assert_eq!((&tokens[0]["principal"], &tokens[0]["project"]), (&"guest".into(), &"mine".into()));
    assert!(tokens[0]["expireTime"].is_string(), "it ends by itself");
    daemon.text(&["token", "revoke", tokens[0]["accessTokenId"].as_str().expect("an id")]);
    assert_eq!(browser.ask("GET /v1/sessions", &[], "").status, 401);
    let refused = daemon.run(&["console", "--scopes", "swim"]);
    assert!(!refused.status.success());
    daemon.stop();
}

#[test]
fn the_browser_is_for_the_checks_of_a_change() {
    let checks = fs::read_to_string(".ci/run").expect("the checks");
    assert!(checks.contains("tests/console/run"), "nobody uses the console in a browser");
    println!("skipped here: tests/console/run, which needs Node and Chromium; .ci/run calls it");
}
