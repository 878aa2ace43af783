//! Servers that take appends, and their callers: the daemon over gRPC and over HTTP, raw SQLite, the two baselines over
//! gRPC, and the log of another server over HTTP.

use crate::client::{self, Client};
use crate::durable_streams;
use crate::fleet::{self, Daemon};
use crate::floor::Floor;
use crate::http1::Http1;
use crate::process::{Cost, Process};
use crate::rpc;
use bytes::Bytes;
use longhand::pb;
use longhand::pb::access_service_client::AccessServiceClient;
use longhand::pb::admin_service_client::AdminServiceClient;
use longhand::pb::session_service_client::SessionServiceClient;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Mutex;
use tonic::transport::{Channel, Endpoint};

/// Size of a message's text, in bytes.
pub(crate) const BODY_BYTES: usize = 1_024;
/// Messages of each caller after which its session is replaced by a new one, as agents do. A session that is never
/// compacted would fill the memory for loaded sessions.
const SESSION_MESSAGES: usize = 500;
/// Different texts of a run.
const TEXTS: usize = 512;
/// Digits of the number at the beginning of a text.
const NUMBER_DIGITS: usize = 12;
/// Shards of several daemons.
const SHARDS: usize = 8;
pub(crate) const RAW: &str = "raw SQLite";
pub(crate) const RPC: &str = "RPC alone";
pub(crate) const RPC_RAW: &str = "RPC and raw SQLite";
pub(crate) const DURABLE_STREAMS: &str = "durable-streams";

/// Texts of random words, as compressible as prose. They are made in advance, so that the load generator has little
/// work at each call; a number at the beginning makes each text unique.
#[derive(Clone)]
pub(crate) struct Texts {
    texts: Arc<Vec<String>>,
    next: usize,
}

impl Texts {
    /// Texts of `bytes` bytes each; the same ones for the same seed.
    pub(crate) fn new(seed: u64, bytes: usize) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let text = |_| {
            let mut text = String::with_capacity(bytes + 16);
            while text.len() < bytes {
                let word: u32 = random.random_range(0..4_096);
                text.push_str(["the ", "view", "lo", "src/", "fn ", "is ", "as", "to "][(word % 8) as usize]);
                write!(text, "{word:x} ").expect("a string takes all");
            }
            text.truncate(bytes);
            text
        };
        Self { texts: Arc::new((0..TEXTS).map(text).collect()), next: 0 }
    }

    /// The texts of one of several callers.
    pub(crate) fn of_caller(&self, index: usize) -> Self {
        Self { next: index << 24, ..self.clone() }
    }

    pub(crate) fn text(&mut self) -> String {
        let text = &self.texts[self.next % TEXTS];
        let mut unique = String::with_capacity(text.len() + NUMBER_DIGITS);
        write!(unique, "{:0NUMBER_DIGITS$x}", self.next).expect("a string takes all");
        unique.truncate(text.len());
        unique.push_str(&text[unique.len()..]);
        self.next += 1;
        unique
    }
}

/// Settings of a daemon without a search index, whose work behind the answers would be counted or not as it comes.
pub(crate) const NO_SEARCH: &str = "search = false\n";

/// A sealed message of the user.
pub(crate) fn message(text: String) -> pb::NewMessage {
    pb::NewMessage {
        role: pb::Role::User.into(),
        kind: pb::MessageKind::Normal.into(),
        parts: vec![pb::Part { body: Some(pb::part::Body::Text(pb::TextPart { text })), ..pb::Part::default() }],
        finish: Some(pb::Finish::default()),
        ..pb::NewMessage::default()
    }
}

/// A request to append messages to a session.
pub(crate) fn request(session: &str, messages: Vec<pb::NewMessage>) -> pb::AppendMessagesRequest {
    pb::AppendMessagesRequest { session_id: session.to_owned(), messages, ..pb::AppendMessagesRequest::default() }
}

/// A connection to a server.
pub(crate) async fn connect(address: &str) -> Channel {
    Endpoint::from_shared(address.to_owned()).expect("an address").connect().await.expect("it listens")
}

/// Creates a session and returns its id.
pub(crate) async fn session(channel: &Channel) -> String {
    let mut sessions = SessionServiceClient::new(channel.clone());
    let created = sessions.create_session(pb::CreateSessionRequest::default()).await.expect("a session").into_inner();
    created.session.expect("a session").session_id
}

enum Kind {
    Floor(Floor),
    Rpc(rpc::Server),
    /// One daemon, or several of one database.
    Daemons(Vec<Daemon>),
    /// A daemon over HTTP with JSON, with an access token for it.
    Json(Daemon, HttpAddress),
    Log(durable_streams::Server),
}

/// Where a daemon takes requests over HTTP, and the token that it wants.
struct HttpAddress {
    url: String,
    secret: String,
}

/// A server that takes appends, with its store in a folder of its own.
pub(crate) struct Target {
    pub(crate) name: String,
    kind: Kind,
    processes: Vec<Process>,
    folder: TempDir,
}

impl Target {
    /// A daemon; or as many as the number behind the address of its database and `#`, which share some shards evenly.
    pub(crate) async fn daemon(binary: &str, settings: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, count) = several(binary);
        let cluster = if count > 1 { format!("cluster = {{ shards = {SHARDS} }}\n") } else { String::new() };
        let settings = cluster + settings;
        let start = |number: usize| {
            let own = if number == 0 { folder.path().to_owned() } else { folder.path().join(number.to_string()) };
            std::fs::create_dir_all(&own).expect("a folder");
            Daemon::start(one, &own, &settings)
        };
        let daemons: Vec<Daemon> = (0..count).map(start).collect();
        if count > 1 {
            settle(&daemons).await;
        }
        let processes = daemons.iter().map(|daemon| Process::new(daemon.pid())).collect();
        Self { name: name(binary), kind: Kind::Daemons(daemons), processes, folder }
    }

    /// A daemon whose callers speak HTTP/1.1 with JSON.
    pub(crate) async fn json(binary: &str, settings: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let daemon = Daemon::start(binary, folder.path(), settings);
        let url = std::fs::read_to_string(folder.path().join("store/longhand.url")).expect("it says where it listens");
        let token = pb::CreateAccessTokenRequest {
            principal: "bench".to_owned(),
            scopes: vec![pb::Scope::Read.into(), pb::Scope::Write.into()],
            ..Default::default()
        };
        let mut access = AccessServiceClient::new(connect(&daemon.socket).await);
        let secret = access.create_access_token(token).await.expect("a token").into_inner().secret;
        let processes = vec![Process::new(daemon.pid())];
        let http = HttpAddress { url: url.trim().to_owned(), secret };
        Self { name: format!("{}, JSON", name(binary)), kind: Kind::Json(daemon, http), processes, folder }
    }

    /// The server of `durable-streams`, which was installed in this folder.
    pub(crate) fn durable_streams(installed: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let server = durable_streams::Server::start(installed, folder.path());
        let processes = vec![Process::new(server.pid())];
        Self { name: DURABLE_STREAMS.to_owned(), kind: Kind::Log(server), processes, folder }
    }

    /// The baselines: raw SQLite, gRPC without a store, gRPC with raw SQLite.
    pub(crate) fn floors() -> Vec<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let floor = Floor::start(folder.path());
        let processes = vec![floor.thread.clone()];
        let mut floors = vec![Self { name: RAW.to_owned(), kind: Kind::Floor(floor), processes, folder }];
        for (name, commits) in [(RPC, false), (RPC_RAW, true)] {
            let folder = tempfile::tempdir().expect("a folder");
            let server = rpc::Server::start(folder.path(), commits);
            let processes = vec![Process::new(server.pid())];
            floors.push(Self { name: name.to_owned(), kind: Kind::Rpc(server), processes, folder });
        }
        floors
    }

    /// The address of the socket of a baseline, or of a daemon.
    pub(crate) fn address(&self) -> &str {
        self.address_of(0)
    }

    /// The address for the caller with this number.
    fn address_of(&self, caller: usize) -> &str {
        match &self.kind {
            Kind::Floor(_) => "",
            Kind::Rpc(server) => &server.address,
            Kind::Daemons(daemons) => &daemons[caller % daemons.len()].socket,
            Kind::Json(daemon, _) => &daemon.socket,
            Kind::Log(server) => &server.url,
        }
    }

    pub(crate) fn is_baseline(&self) -> bool {
        !matches!(self.kind, Kind::Daemons(_) | Kind::Json(..))
    }

    /// Cost of the server so far.
    pub(crate) fn cost(&self) -> Cost {
        let cost = self.processes.iter().map(Process::cost).fold(Cost::default(), Cost::plus);
        match self.kind {
            // Nothing else in this process writes.
            Kind::Floor(_) => Cost { written: Process::own().cost().written, ..cost },
            Kind::Rpc(_) | Kind::Daemons(_) | Kind::Json(..) | Kind::Log(_) => cost,
        }
    }

    /// Waits until the server needs no processor.
    pub(crate) async fn rest(&self) {
        for process in &self.processes {
            process.rest().await;
        }
    }

    /// Processor time of the callers so far.
    pub(crate) fn cost_of_callers(&self) -> Cost {
        match self.kind {
            Kind::Floor(_) => Process::own().cost().since(Cost { written: 0, ..self.processes[0].cost() }),
            Kind::Rpc(_) | Kind::Daemons(_) | Kind::Json(..) | Kind::Log(_) => Process::own().cost(),
        }
    }

    /// The process of a daemon.
    pub(crate) fn pid(&self) -> u32 {
        match &self.kind {
            Kind::Daemons(daemons) => daemons[0].pid(),
            Kind::Json(daemon, _) => daemon.pid(),
            Kind::Rpc(server) => server.pid(),
            Kind::Log(server) => server.pid(),
            Kind::Floor(_) => std::process::id(),
        }
    }

    /// The write-ahead log of its store; none if it has no store.
    pub(crate) fn log(&self) -> Option<PathBuf> {
        let folder = match self.kind {
            Kind::Floor(_) | Kind::Rpc(_) | Kind::Log(_) => self.folder.path().to_owned(),
            Kind::Daemons(_) | Kind::Json(..) => self.folder.path().join("store"),
        };
        log_in(&folder)
    }

    /// Creates callers, several of which may share a connection, and all of which may share a session.
    pub(crate) async fn callers(
        &self,
        count: usize,
        per_connection: usize,
        sessions: Sessions,
        texts: &Texts,
    ) -> Vec<Caller> {
        let mut channels = Vec::new();
        let daemons = match &self.kind {
            Kind::Daemons(daemons) => &daemons[..],
            Kind::Json(daemon, _) => std::slice::from_ref(daemon),
            Kind::Floor(_) | Kind::Rpc(_) | Kind::Log(_) => &[],
        };
        for daemon in daemons {
            channels.push(connect(&daemon.socket).await);
        }
        let writers = match sessions {
            Sessions::Own => 1,
            Sessions::Shared => count,
        };
        let mut session: Option<Arc<Mutex<Session>>> = None;
        let mut callers = Vec::new();
        let mut shared: Option<Client> = None;
        for index in 0..count {
            let to = match &self.kind {
                Kind::Floor(floor) => To::Floor(floor.clone(), index as i64),
                Kind::Rpc(_) | Kind::Daemons(_) => {
                    let client = match &shared {
                        Some(client) if index % per_connection != 0 => client.clone(),
                        _ => Client::connect(self.address_of(index)).await,
                    };
                    shared = Some(client.clone());
                    let own = match &session {
                        Some(session) if index % writers != 0 => session.clone(),
                        _ => {
                            let maker = channels.get(index % channels.len().max(1)).cloned();
                            let maker = maker.map_or(SessionMaker::Nobody, SessionMaker::Daemon);
                            Arc::new(Mutex::new(Session::begin(maker, writers).await))
                        }
                    };
                    session = Some(own.clone());
                    To::Remote(client, own)
                }
                Kind::Json(_, HttpAddress { url, secret }) => {
                    let connection = Http1::connect(url, Some(secret)).await;
                    let session = Session::begin(SessionMaker::Daemon(channels[0].clone()), 1).await;
                    To::Json(connection, session)
                }
                Kind::Log(server) => {
                    let maker = SessionMaker::Log(Box::new(Http1::connect(&server.url, None).await));
                    To::Log(Http1::connect(&server.url, None).await, Session::begin(maker, 1).await)
                }
            };
            callers.push(Caller { texts: texts.of_caller(index), to });
        }
        callers
    }
}

/// A program with its database, and the number of daemons.
fn several(binary: &str) -> (&str, usize) {
    let (one, count) = binary.rsplit_once('#').unwrap_or((binary, ""));
    count.parse().map_or((binary, 1), |count| (one, count))
}

/// Waits until daemons share their shards evenly.
async fn settle(daemons: &[Daemon]) {
    let mut admin = AdminServiceClient::new(connect(&daemons[0].socket).await);
    let mut looks = tokio::time::interval(Duration::from_millis(100));
    loop {
        looks.tick().await;
        let cluster = admin.get_cluster(pb::GetClusterRequest {}).await.expect("the cluster").into_inner();
        let owned = |id: &str| cluster.shards.iter().filter(|shard| shard.owner_daemon_id() == id).count();
        let counts: Vec<usize> = cluster.daemons.iter().map(|daemon| owned(&daemon.daemon_id)).collect();
        if counts.len() == daemons.len()
            && counts.iter().sum::<usize>() == SHARDS
            && counts.iter().max() <= counts.iter().map(|own| own + 1).min().as_ref()
        {
            return;
        }
    }
}

/// The name of a build in the report.
pub(crate) fn name(binary: &str) -> String {
    let (program, database) = fleet::program(binary);
    let name = if program == crate::own_binary() { "Longhand" } else { program };
    match (database, several(binary).1) {
        (None, _) => name.to_owned(),
        (Some(_), 1) => format!("{name} on PostgreSQL"),
        (Some(_), count) => format!("{name} on PostgreSQL, {count} daemons"),
    }
}

/// The write-ahead log in a folder.
pub(crate) fn log_in(folder: &Path) -> Option<PathBuf> {
    let files = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    files.into_iter().find(|path| {
        let name = path.to_string_lossy();
        name.ends_with("-wal") && !name.contains("-search")
    })
}

/// One caller of a server.
pub(crate) struct Caller {
    texts: Texts,
    to: To,
}

enum To {
    Remote(Client, Arc<Mutex<Session>>),
    Floor(Floor, i64),
    Json(Http1, Session),
    Log(Http1, Session),
}

/// The sessions of callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sessions {
    /// Each caller has a session of its own.
    Own,
    /// All callers share one session.
    Shared,
}

/// A session, and those that replace it.
struct Session {
    maker: SessionMaker,
    id: String,
    /// Messages in the session.
    count: usize,
    /// Messages after which it is replaced.
    most: usize,
}

/// What creates the sessions of callers.
enum SessionMaker {
    /// The server has no sessions.
    Nobody,
    Daemon(Channel),
    Log(Box<Http1>),
}

impl SessionMaker {
    async fn session(&mut self) -> String {
        match self {
            Self::Nobody => "ses_00000000000000000000000000000000".to_owned(),
            Self::Daemon(channel) => session(channel).await,
            Self::Log(connection) => durable_streams::create(connection).await,
        }
    }
}

impl Session {
    /// A new session for this number of callers.
    async fn begin(mut maker: SessionMaker, writers: usize) -> Self {
        Self { id: maker.session().await, maker, count: 0, most: writers * SESSION_MESSAGES }
    }

    /// The session for the next messages.
    async fn next(&mut self, count: usize) -> &str {
        if self.count >= self.most {
            self.id = self.maker.session().await;
            self.count = 0;
        }
        self.count += count;
        &self.id
    }
}

/// A call that is ready to be made.
pub(crate) enum Call {
    Remote(Bytes),
    Floor(Vec<String>),
    Http(Vec<u8>),
}

/// The body of an append over HTTP, the same for every server.
fn json_body(texts: impl Iterator<Item = String>) -> String {
    let message = |text| json!({ "role": "ROLE_USER", "parts": [{ "text": { "text": text } }], "finish": {} });
    json!({ "messages": texts.map(message).collect::<Vec<_>>() }).to_string()
}

impl Caller {
    /// Prepares an append of `count` messages. Continues in a new session if the session is long enough.
    pub(crate) async fn prepare(&mut self, count: usize) -> Call {
        let texts = &mut self.texts;
        let texts = (0..count).map(|_| texts.text());
        match &mut self.to {
            To::Floor(..) => Call::Floor(texts.collect()),
            To::Remote(_, session) => {
                let mut session = session.lock().await;
                Call::Remote(client::encode(&request(session.next(count).await, texts.map(message).collect())))
            }
            To::Json(connection, session) => {
                let path = format!("/v1/sessions/{}/messages", session.next(count).await);
                Call::Http(connection.request("POST", &path, "application/json", &json_body(texts)))
            }
            To::Log(connection, session) => {
                let path = durable_streams::path(session.next(count).await);
                Call::Http(connection.request("POST", &path, durable_streams::MEDIA_TYPE, &json_body(texts)))
            }
        }
    }

    /// Makes a call that this caller prepared.
    pub(crate) async fn call(&mut self, call: Call) {
        match (&mut self.to, call) {
            (To::Remote(client, _), Call::Remote(body)) => client.append(body).await,
            (To::Floor(floor, session), Call::Floor(texts)) => floor.append(*session, texts).await,
            (To::Json(connection, _) | To::Log(connection, _), Call::Http(request)) => {
                connection.call(&request).await;
            }
            _ => panic!("a call of another caller"),
        }
    }
}
