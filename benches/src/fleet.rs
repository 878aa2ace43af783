//! Many sessions that the real daemon compacts at the same time, with a provider that accepts few concurrent requests.
//!
//! The load generator runs it with many sessions, the tests with fewer. It panics when a promise is broken.

use longhand::pb;
use longhand::pb::admin_service_client::AdminServiceClient;
use longhand::pb::compaction_service_client::CompactionServiceClient;
use longhand::pb::event_service_client::EventServiceClient;
use longhand::pb::message_service_client::MessageServiceClient;
use longhand::pb::session_service_client::SessionServiceClient;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tonic::transport::{Channel, Endpoint};

/// Configured maximum number of concurrent requests to the provider.
const PROVIDER_LIMIT: usize = 8;
/// Workers of the daemon: more than the provider's limit, so that this limit holds them back.
const WORKERS: usize = 32;
/// One session out of this number requests a second compaction while its first one waits.
const EAGER: usize = 10;
const TURN_BYTES: usize = 3_000;

/// Results of a run.
pub(crate) struct Report {
    /// Time from the release of the first reply to the end of the last compaction.
    pub(crate) elapsed: Duration,
    /// Number of completed compactions.
    pub(crate) compacted: usize,
    /// Maximum number of concurrent requests at the provider.
    pub(crate) at_once: usize,
    /// Peak resident memory of the daemon, in KiB; none if the system does not report it.
    pub(crate) peak_kib: Option<u64>,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { elapsed, compacted, at_once, peak_kib } = self;
        let memory = peak_kib.map_or("unknown".to_owned(), |kib| format!("{} MiB", kib / 1_024));
        let seconds = elapsed.as_secs_f64();
        writeln!(f, "  {compacted} compactions in {seconds:.1} s, {at_once} requests at a time")?;
        write!(f, "  the daemon's largest resident memory: {memory}")
    }
}

/// A provider that holds its answers until it is released, and counts concurrent requests.
#[derive(Default)]
struct Provider {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Provider {
    async fn serve(&self, mut stream: TcpStream, open: &Semaphore) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        let mut more = [0; 64 * 1024];
        loop {
            let head = bytes.windows(4).position(|window| window == b"\r\n\r\n");
            let length = head.and_then(|end| {
                let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ").map(str::to_owned))?;
                Some(end + 4 + length.trim().parse::<usize>().ok()?)
            });
            if length.is_some_and(|length| bytes.len() >= length) {
                break;
            }
            match stream.read(&mut more).await? {
                0 => return Ok(()),
                count => bytes.extend_from_slice(&more[..count]),
            }
        }
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        drop(open.acquire().await);
        self.now.fetch_sub(1, Ordering::Relaxed);
        let body = r###"{"object": "chat.completion", "model": "fake", "choices": [{"message": {"role": "assistant",
            "content": "## Goal\n- go on"}, "finish_reason": "stop"}]}"###;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ";
        stream.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes()).await?;
        stream.flush().await
    }
}

/// The program of a daemon to measure, and the database that it is to use in place of a file.
pub(crate) fn program(binary: &str) -> (&str, Option<&str>) {
    match binary.split_once("@postgres:") {
        Some((program, _)) => (program, Some(&binary[program.len() + 1..])),
        None => (binary, None),
    }
}

/// A process, killed when it is dropped.
pub(crate) struct OwnedProcess(Child);

impl OwnedProcess {
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl From<Child> for OwnedProcess {
    fn from(child: Child) -> Self {
        Self(child)
    }
}

impl Drop for OwnedProcess {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A daemon, killed when it is dropped.
pub(crate) struct Daemon {
    process: OwnedProcess,
    /// The address of its Unix socket.
    pub(crate) socket: String,
}

impl Daemon {
    /// Starts the daemon with settings. Behind its path, `@` and the address of a PostgreSQL database may follow.
    pub(crate) fn start(binary: &str, folder: &Path, settings: &str) -> Self {
        let file = folder.join("longhand.toml");
        let (program, database) = program(binary);
        let database = database.map(|address| format!("database = {address:?}\n")).unwrap_or_default();
        std::fs::write(&file, database + settings).expect("settings are written");
        let mut child = Command::new(program)
            .args(["serve", "--json", "--data-dir"])
            .arg(folder.join("store"))
            .arg("--config")
            .arg(file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the daemon starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("standard output is piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("it says where it listens");
        let announced: serde_json::Value = serde_json::from_str(&line).expect("an object");
        let socket = announced["socket"].as_str().expect("an address").to_owned();
        Self { socket, process: child.into() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    fn peak_kib(&self) -> Option<u64> {
        self.memory_kib("VmHWM:")
    }

    /// A figure of `/proc/PID/status` in KiB, such as `VmRSS:`; none if the system does not report it.
    pub(crate) fn memory_kib(&self, field: &str) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    }
}

fn turns(from: usize, count: usize) -> Vec<pb::NewMessage> {
    let message = |index: usize| {
        let words = format!("message {index} has something to say about src/module_{index}.rs. ");
        let text = words.chars().cycle().take(TURN_BYTES).collect();
        pb::NewMessage {
            role: if index.is_multiple_of(2) { pb::Role::User } else { pb::Role::Assistant }.into(),
            kind: pb::MessageKind::Normal.into(),
            parts: vec![pb::Part { body: Some(pb::part::Body::Text(pb::TextPart { text })), ..pb::Part::default() }],
            finish: Some(pb::Finish::default()),
            ..pb::NewMessage::default()
        }
    };
    (from..from + count).map(message).collect()
}

/// The clients of the daemon.
struct Clients {
    channel: Channel,
}

impl Clients {
    async fn append(&self, session: &str, messages: Vec<pb::NewMessage>) {
        let session_id = session.to_owned();
        let request = pb::AppendMessagesRequest { session_id, messages, ..Default::default() };
        MessageServiceClient::new(self.channel.clone()).append_messages(request).await.expect("appended");
    }

    /// Creates a session that is due for a compaction.
    async fn session(&self, index: usize) -> String {
        let window =
            pb::ModelWindow { max_context_tokens: 20_000, max_output_tokens: Some(4_000), ..Default::default() };
        let request = pb::CreateSessionRequest {
            client_id: Some(format!("session {index}")),
            preset: "opencode@seed".to_owned(),
            window: Some(window),
            ..Default::default()
        };
        let made = SessionServiceClient::new(self.channel.clone()).create_session(request).await.expect("a session");
        let session = made.into_inner().session.expect("a session").session_id;
        self.append(&session, turns(0, 24)).await;
        session
    }

    async fn ask_again(&self, session: &str) {
        let request = pb::StartCompactionRequest {
            session_id: session.to_owned(),
            kind: pb::CompactionKind::Summary.into(),
            instructions: "and again".to_owned(),
            ..Default::default()
        };
        CompactionServiceClient::new(self.channel.clone()).start_compaction(request).await.expect("taken");
        self.append(session, turns(24, 12)).await;
    }

    /// Number of compactions that wait or run.
    async fn live(&self) -> i64 {
        let info = AdminServiceClient::new(self.channel.clone()).get_server_info(pb::GetServerInfoRequest {}).await;
        let info = info.expect("the daemon answers").into_inner();
        info.ready_compaction_count + info.running_compaction_count
    }

    /// Compactions in the event log: the sessions in the order of the starts, and the number of starts and ends of each
    /// compaction.
    async fn log(&self) -> (Vec<String>, BTreeMap<String, (usize, usize)>) {
        use pb::event::Body;
        let mut client = EventServiceClient::new(self.channel.clone());
        let (mut order, mut counts): (Vec<String>, BTreeMap<String, (usize, usize)>) = Default::default();
        let kinds = [
            pb::EventKind::CompactionStarted,
            pb::EventKind::Compacted,
            pb::EventKind::CompactionFailed,
            pb::EventKind::CompactionCancelled,
        ];
        let mut request =
            pb::ListEventsRequest { kinds: kinds.map(i32::from).to_vec(), page_size: 1_000, ..Default::default() };
        loop {
            let page = client.list_events(request.clone()).await.expect("a page").into_inner();
            for event in page.events {
                match event.body {
                    Some(Body::CompactionStarted(started)) => {
                        order.push(event.session_id);
                        counts.entry(started.compaction_id).or_default().0 += 1;
                    }
                    Some(Body::Compacted(ended)) => counts.entry(ended.compaction_id).or_default().1 += 1,
                    other => panic!("a compaction was lost: {other:?}"),
                }
            }
            if page.next_cursor.is_empty() {
                return (order, counts);
            }
            request.after_cursor = page.next_cursor;
        }
    }
}

/// Compacts this number of sessions at once, and checks that no compaction is lost, doubled, or started before its
/// turn.
pub(crate) async fn run(binary: &str, folder: &Path, sessions: usize) -> Report {
    let provider = Arc::new(Provider::default());
    let open = Arc::new(Semaphore::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (serving, gate) = (provider.clone(), open.clone());
    let accepting = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (serving, gate) = (serving.clone(), gate.clone());
            tokio::spawn(async move { serving.serve(stream, &gate).await });
        }
    });
    let settings = format!(
        "workers = {WORKERS}\n[summarizers.fake]\nkind = \"openai-chat\"\nbase_url = \"http://{address}/v1\"\n\
         model = \"m\"\nwindow = 200000\nmax_output = 1000\nconcurrency = {PROVIDER_LIMIT}\n[summarizer]\nauto = \"fake\"\n"
    );
    let daemon = Daemon::start(binary, folder, &settings);
    let channel = Endpoint::from_shared(daemon.socket.clone()).expect("an address");
    let channel = channel.connect().await.expect("the daemon listens");
    let clients = Clients { channel };
    let mut ids = Vec::new();
    for index in 0..sessions {
        ids.push(clients.session(index).await);
    }
    let eager: Vec<&String> = ids.iter().step_by(EAGER).collect();
    // All compactions wait for the provider or for a worker before the first reply comes.
    let mut second = 0;
    while clients.live().await < i64::try_from(sessions + second).expect("few") {
        if second == 0 && clients.live().await >= i64::try_from(sessions).expect("few") {
            for session in &eager {
                clients.ask_again(session).await;
            }
            second = eager.len();
        }
    }
    let began = Instant::now();
    open.add_permits(1_000_000);
    let elapsed = loop {
        if clients.live().await == 0 {
            let (order, counts) = clients.log().await;
            if counts.values().all(|times| *times == (1, 1)) && order.len() >= sessions + second {
                break began.elapsed();
            }
        }
    };
    let (order, counts) = clients.log().await;
    let firsts: BTreeSet<&String> = order[..sessions].iter().collect();
    assert_eq!(firsts.len(), sessions, "a session began its second compaction before another began its first");
    let at_once = provider.most.load(Ordering::Relaxed);
    assert!(at_once <= PROVIDER_LIMIT, "{at_once} requests at the same time");
    accepting.abort();
    Report { elapsed, compacted: counts.len(), at_once, peak_kib: daemon.peak_kib() }
}
