//! What compactions cost those who write: appends to sessions that are compacted meanwhile, beside appends under the same
//! policy without compactions. And the processor time of built-in summaries, of which each replaces the one before.

use crate::append::median;
use crate::client::{Client, encode};
use crate::fleet::Daemon;
use crate::process::Process;
use crate::report::{Bound, Latencies, Report};
use crate::source;
use crate::target::{NO_SEARCH, Texts, connect, name, request};
use clap::Args;
use longhand::model::compaction::Level;
use longhand::model::mark::Words;
use longhand::model::message::Role;
use longhand::model::part::{PartBody, ToolCall};
use longhand::model::view::SourceMessage;
use longhand::pb;
use longhand::pb::admin_service_client::AdminServiceClient;
use longhand::pb::session_service_client::SessionServiceClient;
use longhand::policy::summary::{SummaryInput, SummaryOutput};
use longhand::policy::tokens;
use longhand::presets;
use longhand::scheduler::SummaryInEffect;
use longhand_extractive::{self as extractive, Covered};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::JoinSet;

/// Tokens that each of the summaries in memory adds to those before it.
const SUMMARY_TOKENS: i64 = 200_000;
/// These summaries.
const SUMMARIES: usize = 10;
/// Goals: processor time for 1 000 tokens, and of the last summary for each of the first.
const MILLIS_MAX: f64 = 1.0;
const RATIO_MAX: f64 = 2.0;

/// Bytes of the longest text of a turn.
const OUTPUT_BYTES: usize = 2_048;
/// Threads of the daemon that work in the background.
const BACKGROUND: &str = "background";

/// Sessions that are compacted while they are written.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Callers, each with a session of its own.
    #[arg(long, default_value_t = 8)]
    callers: usize,
    /// Seconds of a turn.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Turns, each with new sessions.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Window of the sessions, in tokens.
    #[arg(long, default_value_t = 200_000)]
    window: i64,
    /// Only the summaries in memory.
    #[arg(long)]
    summaries_only: bool,
}

/// What one message of an agent's turn has.
enum Said {
    Request(String),
    Call { text: String, id: String, input_json: String },
    Result { id: String, output: String },
    Reply(String),
}

impl Said {
    /// The message with this number of a session: a request, a call, its result, or a reply.
    fn new(number: usize, texts: &mut Texts) -> Self {
        let turn = number / 4;
        let mut text = |bytes: usize| texts.text()[..bytes].to_owned();
        let id = format!("call_{turn}");
        match number % 4 {
            0 => Self::Request(format!("Please look at module_{turn}.rs: {}", text(300))),
            1 => {
                let input_json = format!("{{\"command\": \"cargo test module_{turn} 2>&1 | tail -20\"}}");
                Self::Call { text: text(200), id, input_json }
            }
            2 => Self::Result { id, output: text(OUTPUT_BYTES).replace(" fn ", "\n") },
            _ => Self::Reply(text(600)),
        }
    }

    fn role(&self) -> Role {
        match self {
            Self::Request(_) => Role::User,
            Self::Call { .. } | Self::Reply(_) => Role::Assistant,
            Self::Result { .. } => Role::Tool,
        }
    }

    fn to_request(&self, session: &str) -> pb::AppendMessagesRequest {
        let text = |text: &String| pb::part::Body::Text(pb::TextPart { text: text.clone() });
        let bodies = match self {
            Self::Request(words) | Self::Reply(words) => vec![text(words)],
            Self::Call { text: words, id, input_json } => {
                let (call_id, input_json) = (id.clone(), input_json.clone());
                let call = pb::ToolCallPart { call_id, tool: "bash".to_owned(), input_json, ..Default::default() };
                vec![text(words), pb::part::Body::ToolCall(call)]
            }
            Self::Result { id, output } => {
                let (call_id, output) = (id.clone(), output.clone());
                let status = pb::ToolResultStatus::Completed.into();
                vec![pb::part::Body::ToolResult(pb::ToolResultPart { call_id, status, output, ..Default::default() })]
            }
        };
        let role = match self.role() {
            Role::User => pb::Role::User,
            Role::Tool => pb::Role::Tool,
            Role::Assistant | Role::System => pb::Role::Assistant,
        };
        let part = |body| pb::Part { body: Some(body), ..pb::Part::default() };
        let message = pb::NewMessage {
            role: role.into(),
            kind: pb::MessageKind::Normal.into(),
            parts: bodies.into_iter().map(part).collect(),
            finish: Some(pb::Finish::default()),
            ..pb::NewMessage::default()
        };
        request(session, vec![message])
    }

    fn into_source(self, number: usize) -> SourceMessage {
        let role = self.role();
        let bodies = match self {
            Self::Request(words) | Self::Reply(words) => vec![PartBody::Text(words)],
            Self::Call { text, id, input_json } => {
                let call = ToolCall { call_id: id, tool: "bash".to_owned(), input_json, ..ToolCall::default() };
                vec![PartBody::Text(text), PartBody::ToolCall(call)]
            }
            Self::Result { id, output } => vec![source::result(id, output)],
        };
        source::message(number, role, None, bodies)
    }
}

/// Milliseconds of processor time of this thread.
fn millis_of(work: impl FnOnce()) -> f64 {
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
    };
    let before = now();
    work();
    now() - before
}

/// Built-in summaries of one session, in memory.
fn summaries(report: &mut Report) {
    println!("built-in summaries of {SUMMARY_TOKENS} tokens each, and of all that the ones before covered");
    let policy = presets::policy(presets::DEFAULT);
    let rules = policy.summarize(Level::Auto).expect("it summarizes").summary.clone();
    let mut input = SummaryInput {
        messages: Vec::new(),
        split_turn: Vec::new(),
        previous: None,
        previous_digest: None,
        words: Words::new(),
        previous_is_supplied: false,
        budget_tokens: rules.max_tokens,
        rules,
        counting: policy.counting.clone(),
        instructions: String::new(),
    };
    let (mut texts, mut number) = (Texts::new(1, OUTPUT_BYTES), 0);
    let (mut firsts, mut all) = (f64::NAN, Vec::new());
    // The first use of each pattern compiles it.
    for summary in 0..=SUMMARIES {
        let mut size = 0;
        input.messages = Vec::new();
        while size < SUMMARY_TOKENS {
            let source = Said::new(number, &mut texts).into_source(number);
            size += tokens::estimate_source(&policy, &source);
            input.messages.push(source);
            number += 1;
        }
        let (mut text, mut digest) = (String::new(), String::new());
        let mut covered = None;
        let writing = millis_of(|| {
            let read = Covered::new(&input);
            text = read.write();
            covered = Some(read);
        });
        let finishing = millis_of(|| {
            let output = SummaryOutput::new(text.clone(), extractive::NAME);
            let covered = covered.take().expect("it was read");
            let written = SummaryInEffect::new(covered, output, (&[], 0), false).expect("it is packed");
            assert!(written.digest.is_some(), "the next one is made from it");
        });
        let reading = millis_of(|| digest = Covered::new(&input).digest().to_json());
        if summary == 0 {
            continue;
        }
        all.push(writing + finishing);
        if summary == 1 {
            firsts = writing + finishing;
        }
        if summary == 1 || summary == SUMMARIES {
            let figures = [
                ("write_ms", writing),
                ("finish_ms", finishing),
                ("digest_ms", reading),
                ("digest_kib", digest.len() as f64 / 1_024.0),
            ];
            report.figures(&format!("summary {summary}"), "built-in", &figures);
        }
        (input.previous, input.previous_digest) = (Some(text), Some(digest));
    }
    let last = all.last().copied().unwrap_or(f64::NAN);
    let each = last / (SUMMARY_TOKENS as f64 / 1e3);
    report.target("for 1 000 tokens", "built-in", ("ms", each), Bound::AtMost(MILLIS_MAX));
    report.target("last to first", "built-in", ("ratio", last / firsts), Bound::AtMost(RATIO_MAX));
}

/// A daemon with sessions under one policy.
struct Written {
    what: &'static str,
    policy_override_json: &'static str,
    daemon: Daemon,
    rates: Vec<f64>,
    latencies: Latencies,
    messages: u64,
    cpu: Duration,
    background: Duration,
    _folder: TempDir,
}

impl Written {
    fn start(binary: &str, what: &'static str, policy_override_json: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let daemon = Daemon::start(binary, folder.path(), NO_SEARCH);
        let (rates, latencies) = (Vec::new(), Latencies::default());
        let (messages, cpu, background) = (0, Duration::ZERO, Duration::ZERO);
        Self { what, policy_override_json, daemon, rates, latencies, messages, cpu, background, _folder: folder }
    }

    async fn session(&self, window: i64) -> String {
        let window = pb::ModelWindow {
            max_context_tokens: window,
            max_output_tokens: Some(window / 8),
            ..pb::ModelWindow::default()
        };
        let create = pb::CreateSessionRequest {
            window: Some(window),
            policy_override_json: self.policy_override_json.to_owned(),
            ..pb::CreateSessionRequest::default()
        };
        let channel = connect(&self.daemon.socket).await;
        let created = SessionServiceClient::new(channel).create_session(create).await.expect("a session").into_inner();
        created.session.expect("a session").session_id
    }

    /// Appends by all callers for a while; returns when the daemon rests.
    async fn turn(&mut self, options: &Options) {
        let process = Process::new(self.daemon.pid());
        let before = (process.cost(), process.cpu_of_threads(BACKGROUND));
        let time = Duration::from_secs_f64(options.seconds);
        let mut callers = JoinSet::new();
        let texts = Texts::new(1, OUTPUT_BYTES);
        let mut sessions = Vec::new();
        for _ in 0..options.callers {
            sessions.push((self.session(options.window).await, Client::connect(&self.daemon.socket).await));
        }
        let began = Instant::now();
        for (caller, (session, mut client)) in sessions.into_iter().enumerate() {
            let mut texts = texts.of_caller(caller);
            callers.spawn(async move {
                let (mut latencies, mut count) = (Latencies::default(), 0);
                while began.elapsed() < time {
                    let body = encode(&Said::new(count, &mut texts).to_request(&session));
                    let begun = Instant::now();
                    client.append(body).await;
                    latencies.record(begun.elapsed());
                    count += 1;
                }
                (latencies, count as u64)
            });
        }
        let mut sum = 0;
        while let Some(done) = callers.join_next().await {
            let (latencies, count) = done.expect("a caller");
            self.latencies.add(&latencies);
            sum += count;
        }
        self.rates.push(sum as f64 / began.elapsed().as_secs_f64());
        self.messages += sum;
        process.rest().await;
        self.cpu += process.cost().since(before.0).cpu;
        self.background += process.cpu_of_threads(BACKGROUND).saturating_sub(before.1);
    }

    /// Compactions that ended.
    async fn compactions(&self) -> i64 {
        let mut admin = AdminServiceClient::new(connect(&self.daemon.socket).await);
        let info = admin.get_server_info(pb::GetServerInfoRequest::default()).await.expect("an answer").into_inner();
        info.compactions.iter().map(|ended| ended.count).sum()
    }
}

/// Measures the summaries in this process, and each build's appends by itself.
pub(crate) async fn run(binaries: &[String], options: &Options, short: bool, report: &mut Report) {
    summaries(report);
    if options.summaries_only {
        return;
    }
    let options = if short {
        Options { rounds: 1, seconds: options.seconds.min(2.0), ..options.clone() }
    } else {
        options.clone()
    };
    let Options { callers, window, .. } = options;
    println!("appends of {callers} callers to sessions with a window of {window} tokens");
    for binary in binaries {
        let mut both = [
            Written::start(binary, "without compactions", r#"{"trigger": {"auto": false}}"#),
            Written::start(binary, "with compactions", ""),
        ];
        for round in 0..options.rounds {
            both[round % 2].turn(&options).await;
            both[1 - round % 2].turn(&options).await;
        }
        for written in &both {
            let each = |time: Duration| time.as_secs_f64() * 1e6 / written.messages.max(1) as f64;
            let figures = [
                ("cpu_us", each(written.cpu)),
                ("background_cpu_us", each(written.background)),
                ("compactions", written.compactions().await as f64),
            ];
            let rate = Some(median(written.rates.clone()));
            report.row(written.what, &name(binary), rate, &written.latencies, &figures);
        }
        let [without, with] = &both;
        let ratios = with.rates.iter().zip(&without.rates).map(|(with, without)| with / without).collect();
        report.figures("with to without compactions", &name(binary), &[("ratio", median(ratios))]);
    }
}
