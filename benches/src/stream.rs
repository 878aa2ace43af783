//! Replies that are written token by token, by streams and by a call for each token, and read by watchers.

use crate::fleet::Daemon;
use crate::process::{Cost, Process};
use crate::report::{Latencies, Report};
use crate::target::{self, connect, session};
use clap::Args;
use longhand::pb;
use longhand::pb::event::Body;
use longhand::pb::event_service_client::EventServiceClient;
use longhand::pb::message_service_client::MessageServiceClient;
use longhand::pb::subscribe_events_response::Frame as WatchFrame;
use longhand::pb::write_message_request::Frame;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

/// A token: its length is that of all, so that an offset names a token.
const TOKEN: &str = "word ";
/// Tokens of a writer that wait for the daemon.
const AHEAD: usize = 64;
/// Time without a frame after which a watcher has all that it gets.
const SILENCE: Duration = Duration::from_secs(1);

/// Streamed replies.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Writers, each with a session and a connection of its own.
    #[arg(long, default_value_t = 8)]
    writers: usize,
    /// Watchers, shared among the sessions.
    #[arg(long, default_value_t = 64)]
    watchers: usize,
    /// Messages of each writer, one after the other.
    #[arg(long, default_value_t = 4)]
    messages: usize,
    /// Tokens of a message.
    #[arg(long, default_value_t = 2_000)]
    tokens: usize,
    /// Tokens in a second of each writer in the paced loop, whose delays count from the scheduled time of a token.
    #[arg(long, default_value_t = 100.0)]
    rate: f64,
}

/// The way in which tokens are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Stream,
    Calls,
}

/// The times at which a writer's tokens were to be sent, message by message.
type Times = Arc<Mutex<Vec<Vec<Instant>>>>;

/// A writer with its session.
struct Writer {
    messages: MessageServiceClient<Channel>,
    session: String,
    times: Times,
}

/// What a watcher has got.
#[derive(Default)]
struct Heard {
    delays: Latencies,
    tokens: u64,
    frames: u64,
}

/// Figures of a loop.
struct Figures {
    time: Duration,
    tokens: u64,
    heard: Heard,
    cost: Cost,
}

/// Measures each build by itself.
pub(crate) async fn run(binaries: &[String], options: &Options, short: bool, report: &mut Report) {
    let mut options = options.clone();
    if short {
        options.messages = options.messages.min(1);
        options.tokens = options.tokens.min(500);
    }
    let Options { writers, watchers, messages, tokens, .. } = options;
    println!("{messages} messages of {tokens} tokens by each of {writers} writers, {watchers} watchers in all");
    for binary in binaries {
        for (what, pace) in [("as fast as it goes", None), ("at a rate", Some(options.rate))] {
            for (way, name) in [(Way::Stream, "WriteMessage"), (Way::Calls, "AppendDraft")] {
                let folder = tempfile::tempdir().expect("a folder");
                let daemon = Daemon::start(binary, folder.path(), "");
                // A paced message takes long enough.
                let messages = if pace.is_some() { 1 } else { messages };
                let figures = measure(&daemon, way, pace, &Options { messages, ..options.clone() }).await;
                row(&format!("{name}, {what}"), &target::name(binary), watchers / writers.max(1), &figures, report);
            }
        }
    }
}

fn row(what: &str, of: &str, watchers: usize, figures: &Figures, report: &mut Report) {
    let expected = figures.tokens * watchers as u64;
    let more = [
        ("cpu_us_per_token", figures.cost.micros_each(figures.tokens)),
        ("written_bytes", figures.cost.written as f64 / figures.tokens.max(1) as f64),
        ("tokens_per_frame", figures.heard.tokens as f64 / figures.heard.frames.max(1) as f64),
        ("missed", expected.saturating_sub(figures.heard.tokens) as f64 / expected.max(1) as f64),
    ];
    let rate = figures.tokens as f64 / figures.time.as_secs_f64();
    report.row(what, of, Some(rate), &figures.heard.delays, &more);
}

async fn measure(daemon: &Daemon, way: Way, pace: Option<f64>, options: &Options) -> Figures {
    let mut writers = Vec::new();
    let mut watchers = Vec::new();
    for _ in 0..options.writers {
        let channel = connect(&daemon.socket).await;
        let session = session(&channel).await;
        let times = Times::default();
        for _ in 0..options.watchers / options.writers.max(1) {
            let stream = subscribe(&daemon.socket, &session).await;
            watchers.push(tokio::spawn(listen(stream, times.clone(), options.messages)));
        }
        writers.push(Writer { messages: MessageServiceClient::new(channel), session, times });
    }
    let before = Process::new(daemon.pid()).cost();
    let began = Instant::now();
    let tasks: Vec<_> =
        writers.into_iter().map(|writer| tokio::spawn(writer.write(way, pace, options.clone()))).collect();
    for task in tasks {
        task.await.expect("a writer");
    }
    let time = began.elapsed();
    let mut heard = Heard::default();
    for watcher in watchers {
        let of_watcher = watcher.await.expect("a watcher");
        heard.delays.add(&of_watcher.delays);
        heard.tokens += of_watcher.tokens;
        heard.frames += of_watcher.frames;
    }
    let cost = Process::new(daemon.pid()).cost().since(before);
    let tokens = (options.writers * options.messages * options.tokens) as u64;
    Figures { time, tokens, heard, cost }
}

/// A stream of a session's words.
async fn subscribe(address: &str, session: &str) -> Streaming<pb::SubscribeEventsResponse> {
    let mut client = EventServiceClient::new(connect(address).await);
    let session_ids = vec![session.to_owned()];
    let request =
        pb::SubscribeEventsRequest { session_ids, include_deltas: true, ..pb::SubscribeEventsRequest::default() };
    let mut stream = client.subscribe_events(request).await.expect("a stream").into_inner();
    stream.message().await.expect("it is ready");
    stream
}

/// Reads until all messages are finished and nothing more comes.
async fn listen(mut stream: Streaming<pb::SubscribeEventsResponse>, times: Times, messages: usize) -> Heard {
    let mut heard = Heard::default();
    let (mut finished, mut known) = (0, Vec::new());
    loop {
        let next = match finished < messages {
            true => stream.message().await,
            false => match tokio::time::timeout(SILENCE, stream.message()).await {
                Ok(next) => next,
                Err(_) => return heard,
            },
        };
        let frame = next.expect("the stream goes on").expect("the stream goes on").frame;
        match frame {
            Some(WatchFrame::DraftDelta(delta)) => {
                let now = Instant::now();
                let index = known.iter().position(|id| *id == delta.message_id).unwrap_or_else(|| {
                    known.push(delta.message_id.clone());
                    known.len() - 1
                });
                let first = usize::try_from(delta.offset_bytes).expect("an offset") / TOKEN.len();
                let count = delta.delta.len() / TOKEN.len();
                let sent = times.lock().expect("no panic");
                for at in &sent[index][first..first + count] {
                    heard.delays.record(now.saturating_duration_since(*at));
                }
                heard.tokens += count as u64;
                heard.frames += 1;
            }
            Some(WatchFrame::Events(batch)) => {
                let is_end = |event: &&pb::Event| matches!(event.body, Some(Body::MessageFinished(_)));
                finished += batch.events.iter().filter(is_end).count();
            }
            _ => {}
        }
    }
}

impl Writer {
    async fn write(mut self, way: Way, pace: Option<f64>, options: Options) {
        for number in 0..options.messages {
            self.times.lock().expect("no panic").push(Vec::with_capacity(options.tokens));
            match way {
                Way::Stream => self.stream(number, pace, options.tokens).await,
                Way::Calls => self.calls(number, pace, options.tokens).await,
            }
        }
    }

    /// Waits for the time of a token, and records it.
    async fn token(times: &Times, number: usize, began: Instant, index: usize, pace: Option<f64>) {
        let at = match pace {
            None => Instant::now(),
            Some(rate) => {
                let at = began + Duration::from_secs_f64(index as f64 / rate);
                tokio::time::sleep_until(at.into()).await;
                at
            }
        };
        times.lock().expect("no panic")[number].push(at);
    }

    fn opened(number: usize) -> pb::NewMessage {
        let client_id = Some(format!("a{number}"));
        pb::NewMessage { role: pb::Role::Assistant.into(), open: true, client_id, ..pb::NewMessage::default() }
    }

    async fn stream(&mut self, number: usize, pace: Option<f64>, tokens: usize) {
        let (sender, receiver) = mpsc::channel(AHEAD);
        let frame = |frame| pb::WriteMessageRequest { frame: Some(frame) };
        let message = Some(pb::write_target::Message::NewMessage(Self::opened(number)));
        let target = pb::WriteTarget { session_id: self.session.clone(), message, request_id: String::new() };
        let times = self.times.clone();
        let feeding = tokio::spawn(async move {
            sender.send(frame(Frame::Target(target))).await.expect("it is read");
            let began = Instant::now();
            for index in 0..tokens {
                let text = pb::DraftText { client_id: "t".into(), delta: TOKEN.into(), ..pb::DraftText::default() };
                let slot = sender.reserve().await.expect("it is read");
                Self::token(&times, number, began, index, pace).await;
                slot.send(frame(Frame::DraftText(text)));
            }
            sender.send(frame(Frame::MessageEnd(pb::MessageEnd::default()))).await.expect("it is read");
        });
        let written = self.messages.write_message(ReceiverStream::new(receiver)).await.expect("written").into_inner();
        assert!(written.sealed);
        feeding.await.expect("no panic");
    }

    async fn calls(&mut self, number: usize, pace: Option<f64>, tokens: usize) {
        let request = target::request(&self.session, vec![Self::opened(number)]);
        let opened = self.messages.append_messages(request).await.expect("opened").into_inner();
        let message_id = opened.message_ids.into_iter().next().expect("an id");
        let began = Instant::now();
        let (mut part_id, mut offset_bytes) = (String::new(), 0);
        for index in 0..tokens {
            Self::token(&self.times, number, began, index, pace).await;
            let request = pb::AppendDraftRequest {
                session_id: self.session.clone(),
                message_id: message_id.clone(),
                part_id: part_id.clone(),
                offset_bytes,
                delta: TOKEN.into(),
                ..pb::AppendDraftRequest::default()
            };
            let added = self.messages.append_draft(request).await.expect("added").into_inner();
            (part_id, offset_bytes) = (added.part_id, added.length_bytes);
        }
        let request = pb::FinishMessageRequest {
            session_id: self.session.clone(),
            message_id,
            ..pb::FinishMessageRequest::default()
        };
        self.messages.finish_message(request).await.expect("sealed");
    }
}
