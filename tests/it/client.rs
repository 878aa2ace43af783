//! The client in Rust against a real daemon: what it sends again, what it does not, and what it makes of refusals.

mod proxy;

use crate::cli::Daemon;
use crate::support::{private_folder, soon};
use longhand_client::{Address, Client, Error, Events, Outcome, Reason, Session, Target, message, v1};
use proxy::Proxy;
use std::path::Path;
use std::time::Duration;

/// Text of a message that has none but text.
fn text(parts: &[v1::Part]) -> String {
    let texts = parts.iter().filter_map(|part| match &part.body {
        Some(v1::part::Body::Text(text)) => Some(text.text.as_str()),
        _ => None,
    });
    texts.collect()
}

async fn connect(socket: &Path) -> Client {
    let target = Target::local(Address::Unix(socket.to_owned()));
    Client::connect_to(target, "test").await.expect("a daemon")
}

async fn of(daemon: &Daemon) -> Client {
    connect(&daemon.directory.join("longhand.sock")).await
}

async fn new_session(client: &Client) -> Session {
    client.create_session(v1::CreateSessionRequest::default()).await.expect("a session")
}

async fn history(session: &Session) -> Vec<v1::Message> {
    let request = v1::ListMessagesRequest { session_id: session.id().to_owned(), page_size: 7, ..Default::default() };
    session.client().pages(request).all(|page| page.messages).await.expect("pages")
}

async fn next(events: &mut Events) -> v1::Event {
    soon("an event", events.next()).await.expect("a stream").expect("no end")
}

/// Waits until a message of the session is written.
async fn written(session: &Session) {
    let mut events = session.events();
    while next(&mut events).await.kind() != v1::EventKind::MessageAppended {}
}

#[tokio::test(flavor = "multi_thread")]
async fn no_event_is_lost_and_none_comes_twice_when_the_daemon_is_killed() {
    const MESSAGES: usize = 90;
    let home = private_folder();
    let mut daemon = Daemon::start(home.path());
    let client = of(&daemon).await;
    let session = new_session(&client).await;
    let writer = session.clone();
    let writing = tokio::spawn(async move {
        for number in 0..MESSAGES {
            writer.append([message::user(format!("number {number}"))]).await.expect("written");
        }
    });
    let mut events = session.events();
    let mut seen = Vec::new();
    while seen.len() < MESSAGES + 1 {
        seen.push(next(&mut events).await);
        if [20, 50].contains(&seen.len()) {
            daemon.kill();
            daemon = Daemon::start(home.path());
        }
    }
    soon("the writer", writing).await.expect("no panic");
    let revisions: Vec<i64> = seen.iter().map(|event| event.revision).collect();
    assert_eq!(revisions, (1..=MESSAGES as i64 + 1).collect::<Vec<_>>());
    assert!(events.resume_count() >= 2, "{}", events.resume_count());
    let texts: Vec<String> = history(&session).await.iter().map(|message| text(&message.parts)).collect();
    assert_eq!(texts, (0..MESSAGES).map(|number| format!("number {number}")).collect::<Vec<_>>());
    daemon.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_answer_was_lost_is_carried_out_once() {
    let home = private_folder();
    let daemon = Daemon::start(home.path());
    let direct = of(&daemon).await;
    let proxy = Proxy::start(home.path(), &daemon.directory.join("longhand.sock"));
    let client = connect(&proxy.socket).await;
    for retries in [true, false] {
        let session = new_session(&direct).await;
        let client = if retries { client.clone() } else { client.with_retry(Duration::ZERO) };
        let through = client.session(session.id());
        through.get().await.expect("the proxy passes on");
        proxy.withhold();
        let appending = tokio::spawn(async move { through.append([message::user("once")]).await });
        // It is written, and its writer knows nothing of it.
        written(&session).await;
        proxy.cut();
        let answer = soon("the append", appending).await.expect("no panic");
        let there = history(&session).await;
        assert_eq!(there.len(), 1);
        match answer {
            Ok(answer) if retries => assert_eq!(answer.message_ids, [there[0].message_id.clone()]),
            Err(error) if !retries => assert_eq!(error.outcome(), Outcome::Unknown, "{error}"),
            answer => panic!("{answer:?}"),
        }
    }
    daemon.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_be_made_twice_is_not_sent_again() {
    let home = private_folder();
    let daemon = Daemon::start(home.path());
    let direct = of(&daemon).await;
    let proxy = Proxy::start(home.path(), &daemon.directory.join("longhand.sock"));
    let client = connect(&proxy.socket).await;
    client.check_version().await.expect("the same version");
    proxy.withhold();
    let creating = tokio::spawn(async move { client.call(v1::CreateSessionRequest::default()).await });
    let mut events = direct.events(v1::SubscribeEventsRequest {
        start: Some(v1::subscribe_events_request::Start::FromBeginning(true)),
        ..v1::SubscribeEventsRequest::default()
    });
    assert_eq!(next(&mut events).await.kind(), v1::EventKind::SessionCreated);
    proxy.cut();
    let error = soon("the call", creating).await.expect("no panic").expect_err("no second session");
    assert!(matches!(error, Error::Lost { was_sent: true, .. }), "{error:?}");
    let sessions = direct.call(v1::ListSessionsRequest::default()).await.expect("a page").sessions;
    assert_eq!(sessions.len(), 1);
    daemon.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_goes_on_when_its_stream_is_lost() {
    let home = private_folder();
    let daemon = Daemon::start(home.path());
    let direct = of(&daemon).await;
    let session = new_session(&direct).await;
    session.append([message::user("Count.")]).await.expect("written");
    let proxy = Proxy::start(home.path(), &daemon.directory.join("longhand.sock"));
    let mut through = connect(&proxy.socket).await.session(session.id());
    let hash = through.view().await.expect("a view").header.view_hash.clone();
    let role = v1::Role::Assistant.into();
    let mut reply = through.reply(v1::NewMessage { role, ..v1::NewMessage::default() }).await.expect("begun");
    let mut expected = String::new();
    let mut watched = direct.events(v1::SubscribeEventsRequest {
        session_ids: vec![session.id().to_owned()],
        start: Some(v1::subscribe_events_request::Start::FromBeginning(true)),
        ..v1::SubscribeEventsRequest::default()
    });
    for number in 0..40 {
        let word = format!("{number}ß ");
        expected.push_str(&word);
        reply.text(&word).await.expect("taken");
        if number == 20 {
            // The message is begun, whatever of it is written.
            while next(&mut watched).await.revision < 3 {}
            proxy.cut();
        }
    }
    let usage = v1::Usage { input_tokens: 12, output_tokens: 40, ..v1::Usage::default() };
    let client_id = reply.client_id().to_owned();
    let answer = soon("the end", reply.finish(Some(usage))).await.expect("sealed");
    assert!(answer.sealed);
    let there = history(&session).await;
    let reply = there.last().expect("a reply");
    assert_eq!((there.len(), text(&reply.parts), reply.message_id.clone()), (2, expected, answer.message_id));
    assert_eq!(reply.client_id.as_deref(), Some(client_id.as_str()));
    let finish = reply.finish.as_ref().expect("an end");
    let answered = reply.given_view.as_ref().map(|view| view.view_hash.clone());
    assert_eq!((finish.reason(), answered), (v1::FinishReason::Stop, Some(hash)));
    daemon.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_view_is_not_sent_again() {
    let home = private_folder();
    let daemon = Daemon::start(home.path());
    let client = of(&daemon).await;
    let mut session = client.open_session("mine", v1::CreateSessionRequest::default()).await.expect("a session");
    let same = client.open_session("mine", v1::CreateSessionRequest::default()).await.expect("the same session");
    assert_eq!(same.id(), session.id());
    for number in 0..3 {
        session.append([message::user(format!("number {number}"))]).await.expect("written");
        let whole = client.view(v1::GetViewRequest { session_id: session.id().to_owned(), ..Default::default() });
        let whole = whole.await.expect("a view");
        assert_eq!(whole.known_count, 0);
        let view = session.view().await.expect("a view");
        assert_eq!((view.known_count, view.messages.len()), (number, number + 1));
        assert_eq!(view.messages, whole.messages);
        // And nothing of it when nothing changed.
        assert_eq!(session.view().await.expect("a view").known_count, number + 1);
        let formatted = session.formatted_view(v1::MessageFormat::Anthropic).await.expect("a view");
        assert_eq!(formatted.messages.len(), 0);
        assert!(!formatted.formatted.is_empty());
    }
    // What the daemon itself sends of a known view.
    let known = session.view().await.expect("a view").header.clone();
    let request = v1::GetViewRequest {
        session_id: session.id().to_owned(),
        known_view_hash: Some(known.view_hash),
        known_revision: Some(known.revision),
        ..v1::GetViewRequest::default()
    };
    let mut frames = client.stream(request).await.expect("a stream");
    let mut sent = 0;
    while let Some(frame) = frames.next().await.expect("a frame") {
        if let Some(v1::get_view_response::Frame::Messages(page)) = frame.frame {
            sent += page.messages.len();
        }
    }
    assert_eq!(sent, 0);
    daemon.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_the_token_and_the_certificate_count() {
    let home = private_folder();
    let (daemon, port, _) = crate::access_tls::start(home.path(), "");
    let read = |path: &Path| std::fs::read_to_string(path).expect("a file");
    let token = read(&daemon.directory.join("access-token")).trim().to_owned();
    let address: Address = format!("https://localhost:{port}").parse().expect("an address");
    let target = Target {
        token: Some(token),
        authorities: Some(read(&home.path().join("server.pem"))),
        ..Target::local(address)
    };
    let client = Client::connect_to(target.clone(), "test").await.expect("a connection");
    assert_eq!(history(&new_session(&client).await).await, []);
    for (token, reason) in [(None, Reason::AccessTokenMissing), (Some("lhs_wrong"), Reason::AccessTokenInvalid)] {
        let target = Target { token: token.map(str::to_owned), ..target.clone() };
        let client = Client::connect_to(target, "test").await.expect("a connection");
        let error = client.call(v1::ListSessionsRequest::default()).await.expect_err("a refusal");
        assert_eq!(error.reason(), Some(reason));
    }
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    for authorities in [Some(other.cert.pem()), None] {
        let target = Target { authorities, ..target.clone() };
        let error = Client::connect_to(target, "test").await.expect_err("an unknown certificate");
        assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    }
    daemon.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn misuse_has_its_stable_reason_and_writes_nothing() {
    let home = private_folder();
    let daemon = Daemon::start(home.path());
    let client = of(&daemon).await;
    let session = new_session(&client).await;
    let session_id = session.id().to_owned();
    let unknown = client.session("nobody").get().await.expect_err("no such session");
    assert_eq!((unknown.reason(), unknown.metadata("session_id")), (Some(Reason::SessionNotFound), Some("nobody")));
    let empty = session.append([]).await.expect_err("no messages");
    assert_eq!(empty.reason(), Some(Reason::InvalidField), "{empty}");
    let stale = v1::AppendMessagesRequest {
        session_id: session_id.clone(),
        messages: vec![message::user("late")],
        expected_revision: Some(0),
        ..v1::AppendMessagesRequest::default()
    };
    let stale = client.call(stale).await.expect_err("an old revision");
    assert_eq!(stale.outcome(), Outcome::Nothing);
    assert!(matches!(stale.reason(), Some(Reason::RevisionMismatch | Reason::RevisionOutOfRange)), "{stale}");
    let of_run = client.for_run(7).session(&session_id).append([message::user("lost")]).await.expect_err("no run");
    assert_eq!((of_run.reason(), of_run.metadata("epoch")), (Some(Reason::RunLost), Some("7")));
    let mut foreign = client.events(v1::SubscribeEventsRequest {
        start: Some(v1::subscribe_events_request::Start::AfterCursor("nonsense".to_owned())),
        ..v1::SubscribeEventsRequest::default()
    });
    let foreign = soon("a refusal", foreign.next()).await.expect_err("no position");
    assert_eq!(foreign.reason(), Some(Reason::CursorInvalid));
    let nobody = Target::local(Address::Unix(home.path().join("nobody.sock")));
    assert!(matches!(Client::connect_to(nobody.clone(), "test").await, Err(Error::Unreachable { .. })));
    assert!(matches!(Client::connect_to(nobody, "Zoë").await, Err(Error::Invalid(_))));
    assert_eq!(history(&session).await, []);
    daemon.stop();
}

/// The two places that say where a daemon without arguments is.
#[test]
fn the_client_looks_where_the_daemon_is() {
    let data_dir = longhand_client::target::default_data_dir();
    let config = longhand::config::Config::default();
    assert_eq!(data_dir, config.data_dir);
    assert_eq!(Address::of_data_dir(&data_dir), Address::Unix(config.socket_path()));
}

#[test]
fn a_command_follows_events_across_a_restart() {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;
    let home = private_folder();
    let daemon = Daemon::start(home.path());
    let session = daemon.text(&["create"]).trim().to_owned();
    let follow = ["events", "--follow", "--json"];
    let mut command = daemon.command(&follow).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a command");
    let mut lines = BufReader::new(command.stdout.take().expect("piped")).lines();
    let mut next = || -> serde_json::Value {
        serde_json::from_str(&lines.next().expect("no end").expect("a line")).expect("an event")
    };
    assert_eq!(next()["kind"], "EVENT_KIND_SESSION_CREATED");
    daemon.kill();
    let daemon = Daemon::start(home.path());
    daemon.text(&["append", &session, "after the restart"]);
    let appended = next();
    assert_eq!((appended["kind"].as_str(), appended["seq"].as_str()), (Some("EVENT_KIND_MESSAGE_APPENDED"), Some("2")));
    drop(command.kill());
    drop(command.wait());
    daemon.stop();
}
