//! Durable appends: closed loops, in which each caller waits for its answer, and an open loop, in which calls start at
//! a fixed rate and latency counts from the intended start.

use crate::fleet::Daemon;
use crate::floor::Floor;
use crate::report::{Latencies, Report};
use clap::Args;
use longhand::pb;
use longhand::pb::message_service_client::MessageServiceClient;
use longhand::pb::session_service_client::SessionServiceClient;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};

/// Size of a message's text, in bytes.
pub(crate) const BODY_BYTES: usize = 1_024;
/// Messages after which a caller continues in a new session, as agents do. A session that is never compacted would fill
/// the memory for loaded sessions.
const SESSION_MESSAGES: usize = 500;
/// Warm-up time of a loop, which is not counted.
const WARM_UP: Duration = Duration::from_millis(500);

/// Durable appends.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Seconds of each loop, shared among its rounds.
    #[arg(long, default_value_t = 6)]
    seconds: u64,
    /// Rounds in which the builds and the floor take turns.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Only these numbers of callers.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64])]
    callers: Vec<usize>,
    /// Calls in a second of the open loop, by 64 callers; several are measured in turn.
    #[arg(long, value_delimiter = ',', default_values_t = [500.0, 2_000.0, 5_000.0])]
    rates: Vec<f64>,
    /// Messages of a call in the loop of batches.
    #[arg(long, default_value_t = 256)]
    batch: usize,
    /// No open loop and no batches.
    #[arg(long)]
    closed_only: bool,
}

/// Texts of random words, as compressible as prose.
pub(crate) struct Texts(StdRng);

impl Texts {
    pub(crate) fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    pub(crate) fn text(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 16);
        while text.len() < bytes {
            let word: u32 = self.0.random_range(0..4_096);
            text.push_str(["the ", "view", "lo", "src/", "fn ", "is ", "as", "to "][(word % 8) as usize]);
            text.push_str(&format!("{word:x} "));
        }
        text.truncate(bytes);
        text
    }
}

/// A daemon, or raw SQLite.
enum Target {
    Daemon { name: String, address: String, _daemon: Daemon, _folder: tempfile::TempDir },
    Floor { floor: Floor, _folder: tempfile::TempDir },
}

/// One caller of a target.
struct Caller {
    texts: Texts,
    to: To,
}

/// A caller's connection to its target, with a session of its own.
enum To {
    Daemon(Box<Connection>),
    Floor(Floor, i64),
}

struct Connection {
    channel: Channel,
    messages: MessageServiceClient<Channel>,
    session: String,
    /// Messages in the session.
    count: usize,
}

/// A connection to a daemon.
pub(crate) async fn connect(address: &str) -> Channel {
    Endpoint::from_shared(address.to_owned()).expect("an address").connect().await.expect("it listens")
}

/// Creates a session and returns its id.
pub(crate) async fn session(channel: &Channel) -> String {
    let mut sessions = SessionServiceClient::new(channel.clone());
    let created = sessions.create_session(pb::CreateSessionRequest::default()).await.expect("a session").into_inner();
    created.session.expect("a session").session_id
}

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

impl Target {
    fn daemon(binary: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let daemon = Daemon::start(binary, folder.path(), "");
        let address = daemon.socket.clone();
        Self::Daemon { name: binary.to_owned(), address, _daemon: daemon, _folder: folder }
    }

    fn floor() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self::Floor { floor: Floor::start(folder.path()), _folder: folder }
    }

    fn name(&self) -> &str {
        match self {
            Self::Daemon { name, .. } => name,
            Self::Floor { .. } => "raw SQLite",
        }
    }

    /// Creates a caller with a connection of its own, as an agent has.
    async fn caller(&self, index: usize) -> Caller {
        let to = match self {
            Self::Daemon { address, .. } => {
                let channel = connect(address).await;
                let session = session(&channel).await;
                let messages = MessageServiceClient::new(channel.clone());
                To::Daemon(Box::new(Connection { channel, messages, session, count: 0 }))
            }
            Self::Floor { floor, .. } => To::Floor(floor.clone(), index as i64),
        };
        Caller { texts: Texts::new(index as u64), to }
    }
}

impl Caller {
    fn bodies(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.texts.text(BODY_BYTES)).collect()
    }

    async fn append(&mut self, bodies: Vec<String>) {
        match &mut self.to {
            To::Daemon(connection) => {
                let Connection { channel, messages, session: id, count } = &mut **connection;
                if *count >= SESSION_MESSAGES {
                    *id = session(channel).await;
                    *count = 0;
                }
                *count += bodies.len();
                let request = pb::AppendMessagesRequest {
                    session_id: id.clone(),
                    messages: bodies.into_iter().map(message).collect(),
                    ..pb::AppendMessagesRequest::default()
                };
                messages.append_messages(request).await.expect("appended");
            }
            To::Floor(floor, session) => floor.append(*session, bodies).await,
        }
    }
}

/// Measurements of one loop.
#[derive(Default)]
struct Figures {
    rates: Vec<f64>,
    latencies: Latencies,
}

impl Figures {
    fn rate(&mut self) -> f64 {
        self.rates.sort_unstable_by(f64::total_cmp);
        self.rates[self.rates.len() / 2]
    }
}

/// Task of a caller; returns the caller, its latencies and the number of its calls.
type Work = JoinHandle<(Caller, Latencies, u64)>;

/// Waits for all callers. Returns the number of their calls.
async fn joined(tasks: Vec<Work>, callers: &mut Vec<Caller>, latencies: &mut Latencies) -> u64 {
    let mut all = 0;
    for task in tasks {
        let (caller, of_caller, count) = task.await.expect("a caller");
        callers.push(caller);
        latencies.add(&of_caller);
        all += count;
    }
    all
}

/// Closed loop: each caller calls again as soon as its last call is answered. Returns the calls per second.
async fn closed(callers: &mut Vec<Caller>, batch: usize, time: Duration, latencies: &mut Latencies) -> f64 {
    let begins = Instant::now() + WARM_UP;
    let ends = begins + time;
    let mut tasks = Vec::new();
    for mut caller in std::mem::take(callers) {
        tasks.push(tokio::spawn(async move {
            let (mut latencies, mut count) = (Latencies::default(), 0_u64);
            while Instant::now() < ends {
                let bodies = caller.bodies(batch);
                let began = Instant::now();
                caller.append(bodies).await;
                if began >= begins {
                    latencies.record(began.elapsed());
                    count += 1;
                }
            }
            (caller, latencies, count)
        }));
    }
    let all = joined(tasks, callers, latencies).await;
    all as f64 / begins.elapsed().as_secs_f64()
}

/// Open loop: calls start at a fixed rate, regardless of earlier calls; latency counts from the intended start. Returns
/// the calls per second.
async fn open(callers: &mut Vec<Caller>, rate: f64, time: Duration, latencies: &mut Latencies) -> f64 {
    let (ticks, queue) = async_channel::unbounded::<Instant>();
    let mut tasks = Vec::new();
    for mut caller in std::mem::take(callers) {
        let queue = queue.clone();
        tasks.push(tokio::spawn(async move {
            let (mut latencies, mut count) = (Latencies::default(), 0_u64);
            while let Ok(intended) = queue.recv().await {
                let bodies = caller.bodies(1);
                caller.append(bodies).await;
                latencies.record(intended.elapsed());
                count += 1;
            }
            (caller, latencies, count)
        }));
    }
    let began = Instant::now();
    // A thread of its own, because the runtime's timers have a resolution of a millisecond.
    #[expect(clippy::disallowed_methods, reason = "it is no thread of the runtime")]
    let pacer = std::thread::spawn(move || {
        let mut index = 0_u32;
        loop {
            let intended = began + Duration::from_secs_f64(f64::from(index) / rate);
            if intended > began + time {
                break;
            }
            std::thread::sleep(intended.saturating_duration_since(Instant::now()));
            ticks.try_send(intended).expect("somebody calls");
            index += 1;
        }
    });
    let all = joined(tasks, callers, latencies).await;
    pacer.join().expect("the pacer");
    all as f64 / began.elapsed().as_secs_f64()
}

/// Kind of loop.
#[derive(Clone, Copy)]
enum Loop {
    Closed { batch: usize },
    Open { rate: f64 },
}

/// Measures the builds and, as their baseline, raw SQLite.
pub(crate) async fn run(binaries: &[String], options: &Options, report: &mut Report) {
    println!("durable appends of messages of {BODY_BYTES} bytes over the Unix socket, each acknowledged");
    let mut loops: Vec<(String, usize, Loop)> = Vec::new();
    for &callers in &options.callers {
        loops.push((format!("closed, {callers} callers"), callers, Loop::Closed { batch: 1 }));
    }
    if !options.closed_only {
        let batch = options.batch;
        loops.push((format!("closed, 1 caller, batches of {batch}"), 1, Loop::Closed { batch }));
        for &rate in &options.rates {
            loops.push((format!("open, {rate} calls a second"), 64, Loop::Open { rate }));
        }
    }
    let mut targets = vec![Target::floor()];
    targets.extend(binaries.iter().map(|binary| Target::daemon(binary)));
    let time = Duration::from_secs(options.seconds) / options.rounds;
    for (what, count, measured) in loops {
        let mut figures: Vec<Figures> = targets.iter().map(|_| Figures::default()).collect();
        let mut callers = Vec::new();
        for target in &targets {
            let mut of_target = Vec::new();
            for index in 0..count {
                of_target.push(target.caller(index).await);
            }
            callers.push(of_target);
        }
        for _ in 0..options.rounds {
            for (callers, figures) in callers.iter_mut().zip(&mut figures) {
                let latencies = &mut figures.latencies;
                let rate = match measured {
                    Loop::Closed { batch } => closed(callers, batch, time, latencies).await * batch as f64,
                    Loop::Open { rate } => open(callers, rate, time, latencies).await,
                };
                figures.rates.push(rate);
            }
        }
        for (target, figures) in targets.iter().zip(&mut figures) {
            let rate = figures.rate();
            report.row(&what, target.name(), Some(rate), &figures.latencies);
        }
        let (floor, rest) = figures.split_first_mut().expect("the floor");
        for (figures, target) in rest.iter_mut().zip(&targets[1..]) {
            println!("  {:<40} {:>11.2}  of raw SQLite  {}", "", figures.rate() / floor.rate(), target.name());
        }
    }
}
