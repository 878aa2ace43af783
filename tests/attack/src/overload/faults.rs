//! The faults. Each returns the number of attempts, the answers to the attackers, and the violations.

use super::bystander::{Bystander, append, reason_of};
use super::{Scale, Target, crowd, packed, plain, searches, strangers};
use crate::daemon::connect;
use crate::raw::{Answer, Call, RawClient, Windows, framed};
use anyhow::{Context as _, Result};
use bytes::{BufMut as _, Bytes, BytesMut};
use longhand::pb;
use longhand::pb::admin_service_client::AdminServiceClient;
use longhand::pb::message_service_client::MessageServiceClient;
use longhand::pb::session_service_client::SessionServiceClient;
use longhand::pb::subscribe_events_request::Start;
use longhand::pb::view_service_client::ViewServiceClient;
use rustix::process::{Resource, Rlimit, prlimit};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tonic::Status;

/// Maximum number of concurrent calls of one connection, as the daemon allows it.
const CALLS: usize = 250;
/// Deadline of every wait of an attacker.
const DEADLINE: Duration = Duration::from_secs(60);
/// Bytes of one message of a large view.
const LARGE_MESSAGE_BYTES: usize = 4_000_000;

/// What a client finds that took nothing: its last frame had its cursor.
pub(super) const CLOSED: &str = "connection closed";

pub(super) type Counts = BTreeMap<String, usize>;
pub(super) type Committed = (usize, Counts, Vec<String>);

/// The faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// More concurrent appends than the writer's queue takes.
    FullQueue,
    /// Thousands of calls of one access token of another tenant.
    Crowd,
    /// More connections than the daemon keeps.
    Connections,
    /// Event streams without a window, whose clients answer pings.
    UnreadStreams,
    /// Large views without a window, whose clients answer pings.
    UnreadViews,
    /// Large requests whose last bytes never come.
    HalfRequests,
    /// Event streams over HTTP/1.1 whose clients read nothing.
    UnreadPlainStreams,
    /// Large bodies over HTTP/1.1 whose last bytes never come.
    HalfBodies,
    /// JSON that is nested deeper than the daemon accepts.
    DeepJson,
    /// Connections that send nothing, or a byte now and then.
    SlowConnections,
    /// No descriptor is left for a connection.
    NoDescriptors,
    /// Queries whose terms every text has.
    Searches,
    /// Short requests that grow when they are decoded.
    PackedLists,
    /// Messages that are written in small frames while the daemon stands still.
    SmallFrames,
    /// More requests of clients without a token than there are connections, and none of them ends.
    Strangers,
    /// Acknowledgements of pings that nobody sent.
    Pings,
}

/// Data made before the fault.
pub(super) struct Prepared {
    session: String,
}

pub(super) fn count(counts: &mut Counts, what: impl Into<String>) {
    *counts.entry(what.into()).or_default() += 1;
}

pub(super) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(DEADLINE, future).await.with_context(|| format!("waited in vain for {what}"))
}

impl Fault {
    /// Every fault, in the order of the table.
    pub const ALL: [Self; 16] = [
        Self::FullQueue,
        Self::Crowd,
        Self::Connections,
        Self::UnreadStreams,
        Self::UnreadViews,
        Self::HalfRequests,
        Self::UnreadPlainStreams,
        Self::HalfBodies,
        Self::DeepJson,
        Self::SlowConnections,
        Self::NoDescriptors,
        Self::Searches,
        Self::PackedLists,
        Self::SmallFrames,
        Self::Strangers,
        Self::Pings,
    ];

    /// Name of the fault in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::FullQueue => "full-queue",
            Self::Crowd => "crowd",
            Self::Connections => "connections",
            Self::UnreadStreams => "unread-streams",
            Self::UnreadViews => "unread-views",
            Self::HalfRequests => "half-requests",
            Self::UnreadPlainStreams => "unread-plain-streams",
            Self::HalfBodies => "half-bodies",
            Self::DeepJson => "deep-json",
            Self::SlowConnections => "slow-connections",
            Self::NoDescriptors => "no-descriptors",
            Self::Searches => "searches",
            Self::PackedLists => "packed-lists",
            Self::SmallFrames => "small-frames",
            Self::Strangers => "strangers",
            Self::Pings => "pings",
        }
    }

    /// Maximum growth of the daemon's memory in KiB: the need of the fault, up to the bound of its memory.
    pub(super) fn memory_bound_kib(self, scale: Scale) -> u64 {
        let whole = |count: usize, bytes: usize| (count * bytes) as u64 >> 20;
        1024 * match self {
            Self::FullQueue | Self::Crowd => 512,
            Self::Connections => 384,
            // A few frames for each stream, of 64 KiB at most.
            Self::UnreadStreams | Self::UnreadPlainStreams => 64 + whole(scale.streams, 1 << 19).min(320),
            // The messages of each view, and the view made of them.
            Self::UnreadViews => 64 + whole(scale.views.0, 3 * scale.views.1).min(836),
            // The two budgets of requests, and half of that again.
            Self::HalfRequests | Self::HalfBodies | Self::PackedLists => 256,
            Self::Strangers => 256,
            Self::DeepJson | Self::SlowConnections | Self::NoDescriptors | Self::SmallFrames | Self::Pings => 128,
            Self::Searches => 128,
        }
    }

    /// Makes the data that the fault needs, whose memory does not count.
    pub(super) async fn prepare(self, target: &Target) -> Result<Prepared> {
        let channel = connect(target.daemon.socket());
        let made =
            SessionServiceClient::new(channel.clone()).create_session(pb::CreateSessionRequest::default()).await?;
        let session = made.into_inner().session.context("a session")?.session_id;
        let (messages, bytes) = match self {
            Self::UnreadStreams | Self::UnreadPlainStreams => (200, 10_000),
            Self::UnreadViews => (target.scale.views.1.div_ceil(LARGE_MESSAGE_BYTES), LARGE_MESSAGE_BYTES),
            _ => (0, 0),
        };
        let words: String = target.noise.chars().cycle().take(bytes).collect();
        let mut client = MessageServiceClient::new(channel);
        for _ in 0..messages {
            client.append_messages(append(&session, &words)).await?;
        }
        if self == Self::Searches {
            searches::fill(target, &session).await?;
        }
        // Resets the peak of the daemon's memory.
        std::fs::write(format!("/proc/{}/clear_refs", target.daemon.id()?.as_raw_nonzero()), "5")?;
        Ok(Prepared { session })
    }

    /// Causes the fault.
    pub(super) async fn commit(self, target: &Target, prepared: Prepared) -> Result<Committed> {
        let session = prepared.session;
        match self {
            Self::FullQueue => full_queue(target, session).await,
            Self::Crowd => crowd::crowd(target).await,
            Self::Connections => connections(target).await,
            Self::UnreadStreams => unread_streams(target).await,
            Self::UnreadViews => unread_views(target, &session).await,
            Self::HalfRequests => half_requests(target, &session).await,
            Self::UnreadPlainStreams => plain::unread_streams(target).await,
            Self::HalfBodies => plain::half_requests(target, &session).await,
            Self::DeepJson => deep_json(target, &session).await,
            Self::SlowConnections => slow_connections(target).await,
            Self::NoDescriptors => no_descriptors(target).await,
            Self::Searches => searches::attack(target).await,
            Self::PackedLists => packed::lists(target).await,
            Self::SmallFrames => packed::small_frames(target, &session).await,
            Self::Strangers => strangers::half_requests(target).await,
            Self::Pings => strangers::pings(target).await,
        }
    }
}

pub(super) async fn info(target: &Target) -> Result<pb::GetServerInfoResponse> {
    let mut admin = AdminServiceClient::new(connect(target.daemon.socket()));
    Ok(soon("the daemon's state", admin.get_server_info(pb::GetServerInfoRequest {})).await??.into_inner())
}

/// Waits until the daemon counts no streams of the attack. A client may hear of an end before the daemon has counted it.
pub(super) async fn no_subscribers(target: &Target, broken: &mut Vec<String>) -> Result<()> {
    let gone = async {
        // One stream is the bystander's, and one more while it changes its session.
        while info(target).await?.subscriber_count > 2 {
            tokio::time::sleep(target.scale.hold).await;
        }
        Ok(())
    };
    soon("the streams to be counted no more", gone).await.unwrap_or_else(|_| {
        broken.push("streams are left over".to_owned());
        Ok(())
    })
}

/// Checks that a client that connects during the fault is served like earlier ones.
pub(super) async fn newcomer(target: &Target, broken: &mut Vec<String>) -> Result<()> {
    let Ok(Ok(newcomer)) = soon("a newcomer", Bystander::start(target.daemon.socket())).await else {
        broken.push("a newcomer was not served".to_owned());
        return Ok(());
    };
    broken.extend(newcomer.stop().await?.errors.into_iter().map(|error| format!("a newcomer got the error: {error}")));
    Ok(())
}

/// Counts the ends of calls that their clients did not read; some are lost with their connection.
async fn ends(calls: Vec<Call>, counts: &mut Counts) -> Result<()> {
    let mut ending = JoinSet::new();
    for call in calls {
        ending.spawn(async move {
            let mut answer: Answer = call.answer().await?;
            answer.rest::<pb::GetViewResponse>().await.map(|(_, end)| end)
        });
    }
    while let Some(ended) = soon("an answer to end", ending.join_next()).await? {
        match ended? {
            Ok(end) if end.reason.is_empty() => count(counts, format!("{:?}", end.code)),
            Ok(end) => count(counts, end.reason),
            Err(_) => count(counts, CLOSED),
        }
    }
    Ok(())
}

async fn full_queue(target: &Target, session: String) -> Result<Committed> {
    let words: String = target.noise.chars().take(2_000).collect();
    let mut appending = JoinSet::new();
    let mut channel = connect(target.daemon.socket());
    for number in 0..target.scale.appends {
        if number % CALLS == 0 {
            channel = connect(target.daemon.socket());
        }
        let mut client = MessageServiceClient::new(channel.clone());
        let request = append(&session, &words);
        appending.spawn(async move { client.append_messages(request).await });
    }
    let (mut answers, mut broken, mut written) = (Counts::new(), Vec::new(), 0);
    while let Some(answer) = soon("an append to be answered", appending.join_next()).await? {
        match answer? {
            Ok(_) => {
                written += 1;
                count(&mut answers, "written");
            }
            Err(status) => count(&mut answers, reason_of(&status)),
        }
    }
    let request = pb::GetSessionRequest { session_id: session };
    let session = SessionServiceClient::new(channel).get_session(request).await?.into_inner().session;
    let revision = session.context("the session")?.revision;
    // The first revision is the session's own event.
    if revision != written + 1 {
        broken.push(format!("{written} appends were acknowledged, and the session is at revision {revision}"));
    }
    let known = |what: &&String| ["written", "STORE_BUSY"].contains(&what.as_str());
    broken.extend(answers.keys().filter(|what| !known(what)).cloned());
    Ok((target.scale.appends, answers, broken))
}

async fn connections(target: &Target) -> Result<Committed> {
    let (mut open, mut answers, mut broken) = (Vec::new(), Counts::new(), Vec::new());
    for _ in 0..target.scale.connections {
        match RawClient::connect(target.daemon.socket(), Windows::SMALL).await {
            Ok(client) => open.push(client),
            Err(_) => count(&mut answers, "connection refused"),
        }
    }
    newcomer(target, &mut broken).await?;
    tokio::time::sleep(target.scale.hold).await;
    let kept = info(target).await?.traffic.unwrap_or_default().connection_count;
    answers.insert("connections kept".to_owned(), usize::try_from(kept)?);
    if kept > 4_096 {
        broken.push(format!("{kept} connections are open"));
    }
    Ok((target.scale.connections, answers, broken))
}

async fn unread_streams(target: &Target) -> Result<Committed> {
    let start = Some(Start::FromBeginning(true));
    let request = pb::SubscribeEventsRequest { start, include_content: true, ..Default::default() };
    let (mut clients, mut calls) = (Vec::new(), Vec::new());
    for number in 0..target.scale.streams {
        if number % CALLS == 0 {
            clients.push(RawClient::connect(target.daemon.socket(), Windows::NONE).await?);
        }
        let client = clients.last_mut().context("a connection")?;
        calls.push(client.call("EventService/SubscribeEvents", &request).await?);
    }
    tokio::time::sleep(target.scale.hold).await;
    let (mut answers, mut broken) = (Counts::new(), Vec::new());
    ends(calls, &mut answers).await?;
    let known = |what: &&String| [CLOSED, "READER_STALLED"].contains(&what.as_str());
    broken.extend(answers.keys().filter(|what| !known(what)).cloned());
    no_subscribers(target, &mut broken).await?;
    Ok((target.scale.streams, answers, broken))
}

async fn unread_views(target: &Target, session: &str) -> Result<Committed> {
    let request = pb::GetViewRequest { session_id: session.to_owned(), ..Default::default() };
    let (mut clients, mut calls) = (Vec::new(), Vec::new());
    for _ in 0..target.scale.views.0 {
        let mut client = RawClient::connect(target.daemon.socket(), Windows::NONE).await?;
        calls.push(client.call("ViewService/GetView", &request).await?);
        clients.push(client);
    }
    let is_counted = async {
        while info(target).await?.traffic.unwrap_or_default().view_bytes < i64::try_from(target.scale.views.1)? {}
        Ok::<_, anyhow::Error>(())
    };
    soon("a view to be counted", is_counted).await??;
    let (mut answers, mut broken) = (Counts::new(), Vec::new());
    ends(calls, &mut answers).await?;
    let known = |what: &&String| [CLOSED, "READER_STALLED", "TOO_MANY_VIEWS"].contains(&what.as_str());
    broken.extend(answers.keys().filter(|what| !known(what)).cloned());
    // A client that reads gets the whole view.
    let mut views = ViewServiceClient::new(connect(target.daemon.socket())).max_decoding_message_size(1 << 27);
    let mut view = soon("a view", views.get_view(request)).await??.into_inner();
    let mut bytes = 0;
    while let Some(frame) = soon("a frame", view.message()).await?? {
        bytes += prost::Message::encoded_len(&frame);
    }
    if bytes < target.scale.views.1 {
        broken.push(format!("a view of {bytes} bytes"));
    }
    Ok((target.scale.views.0, answers, broken))
}

async fn half_requests(target: &Target, session: &str) -> Result<Committed> {
    let (number, bytes) = target.scale.requests;
    let whole: Bytes = {
        // The session id comes first, then one very long message.
        let request = append(session, &target.noise.chars().cycle().take(bytes).collect::<String>());
        let mut frame = BytesMut::new();
        frame.put_u8(0);
        frame.put_u32(u32::try_from(prost::Message::encoded_len(&request))?);
        prost::Message::encode(&request, &mut frame)?;
        frame.freeze()
    };
    let (mut clients, mut calls) = (Vec::new(), JoinSet::new());
    for number in 0..number {
        let mut client = RawClient::connect(target.daemon.socket(), Windows::SMALL).await?;
        let mut call = client.begin("MessageService/AppendMessages", &[]).await?;
        if number % 2 == 1 {
            // As the second message of a request whose first one is empty.
            call.request.send_data(framed(&pb::AppendMessagesRequest::default()), false)?;
        }
        // All but the last kibibyte.
        call.request.send_data(whole.slice(..whole.len() - 1_024), false)?;
        clients.push(client);
        calls.spawn(async move {
            let mut answer = call.answer().await?;
            answer.rest::<pb::AppendMessagesResponse>().await.map(|(_, end)| end)
        });
    }
    tokio::time::sleep(target.scale.hold).await;
    let (mut answers, mut broken) = (Counts::new(), Vec::new());
    while let Some(ended) = soon("a request to be refused", calls.join_next()).await? {
        match ended? {
            Ok(end) => count(&mut answers, end.reason),
            Err(_) => count(&mut answers, CLOSED),
        }
        // Requests that fit in the memory may take longer.
        if target.scale.is_short() && calls.len() * bytes <= longhand::limits::REQUESTS_BYTES_MAX {
            break;
        }
    }
    let reasons = ["TOO_MANY_REQUESTS", "REQUEST_TIMED_OUT", "REQUEST_MALFORMED"];
    let known = |what: &&String| reasons.contains(&what.as_str());
    broken.extend(answers.keys().filter(|what| !known(what)).map(|what| format!("unexpected answer {what:?}")));
    Ok((number, answers, broken))
}

async fn deep_json(target: &Target, session: &str) -> Result<Committed> {
    let channel = connect(target.daemon.socket());
    let (mut sessions, mut messages) =
        (SessionServiceClient::new(channel.clone()), MessageServiceClient::new(channel.clone()));
    let (mut answers, mut tried) = (Counts::new(), 0);
    let mut note = |answer: Result<(), Status>| {
        tried += 1;
        match answer {
            Ok(()) => count(&mut answers, "taken"),
            Err(status) => count(&mut answers, reason_of(&status)),
        }
    };
    // Within the limits of bytes, and beyond them.
    for depth in [200, target.scale.depth / 4, target.scale.depth] {
        for json in [
            format!("{}{}", "[".repeat(depth), "]".repeat(depth)),
            format!("{}1{}", "{\"a\":".repeat(depth / 5), "}".repeat(depth / 5)),
            "[".repeat(depth),
        ] {
            let with_metadata = |mut request: pb::AppendMessagesRequest, json: &str| {
                request.messages.iter_mut().for_each(|message| message.metadata_json = Some(json.to_owned()));
                request
            };
            let call = pb::ToolCallPart {
                call_id: format!("call {depth} {}", json.len()),
                tool: "deep".to_owned(),
                input_json: json.clone(),
                ..Default::default()
            };
            let part = pb::Part { body: Some(pb::part::Body::ToolCall(call)), ..Default::default() };
            let mut calls = append(session, "");
            calls.messages[0].role = pb::Role::Assistant.into();
            calls.messages[0].parts = vec![part];
            let new = pb::CreateSessionRequest::default();
            let update = pb::UpdateSessionRequest { session_id: session.to_owned(), ..Default::default() };
            note(messages.append_messages(with_metadata(append(session, "deep"), &json)).await.map(drop));
            note(messages.append_messages(calls).await.map(drop));
            let deep = pb::CreateSessionRequest { metadata_json: Some(json.clone()), ..new.clone() };
            note(sessions.create_session(deep).await.map(drop));
            let deep = pb::CreateSessionRequest { policy_override_json: json.clone(), ..new };
            note(sessions.create_session(deep).await.map(drop));
            let deep = pb::UpdateSessionRequest { policy_json: Some(json), ..update };
            note(sessions.update_session(deep).await.map(drop));
        }
    }
    let mut broken = Vec::new();
    let known = ["taken", "INVALID_FIELD", "POLICY_INVALID", "LIMIT_EXCEEDED"];
    broken.extend(answers.keys().filter(|what| !known.contains(&what.as_str())).cloned());
    // Everything accepted can be read.
    let request = pb::GetViewRequest { session_id: session.to_owned(), ..Default::default() };
    let mut view = soon("a view", ViewServiceClient::new(channel).get_view(request)).await??.into_inner();
    while soon("a frame", view.message()).await??.is_some() {}
    Ok((tried, answers, broken))
}

/// The kinds of slow connections.
#[derive(Debug, Clone, Copy)]
enum Slow {
    Silent,
    HalfGreeting,
    HalfHeaders,
    Dribbling,
}

const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
/// The frame header of a header block of 1000 bytes on stream 1.
const HEADERS: [u8; 9] = [0, 3, 232, 1, 4, 0, 0, 0, 1];

/// Sends slowly until the daemon closes the connection.
async fn be_slow(mut stream: UnixStream, slow: Slow) -> std::io::Result<()> {
    match slow {
        Slow::Silent => {}
        Slow::HalfGreeting => stream.write_all(&GREETING[..10]).await?,
        Slow::HalfHeaders => {
            stream.write_all(&[GREETING, &SETTINGS, &HEADERS, &[0x82; 10]].concat()).await?;
        }
        Slow::Dribbling => {
            for byte in GREETING.iter().chain(&SETTINGS).cycle() {
                tokio::time::sleep(Duration::from_millis(700)).await;
                stream.write_all(&[*byte]).await?;
            }
        }
    }
    let mut heard = [0; 1_024];
    while stream.read(&mut heard).await? > 0 {}
    Ok(())
}

async fn slow_connections(target: &Target) -> Result<Committed> {
    let kinds = [Slow::Silent, Slow::HalfGreeting, Slow::HalfHeaders, Slow::Dribbling];
    let mut slow = JoinSet::new();
    for number in 0..target.scale.slow {
        let stream = UnixStream::connect(target.daemon.socket()).await?;
        slow.spawn(be_slow(stream, kinds[number % kinds.len()]));
    }
    let (mut answers, mut broken) = (Counts::new(), Vec::new());
    newcomer(target, &mut broken).await?;
    tokio::time::sleep(target.scale.hold).await;
    if !target.scale.is_short() {
        while let Some(closed) = soon("a slow connection to be closed", slow.join_next()).await? {
            drop(closed?);
            count(&mut answers, "closed");
        }
    }
    Ok((target.scale.slow, answers, broken))
}

async fn no_descriptors(target: &Target) -> Result<Committed> {
    let process = target.daemon.id()?;
    let used = std::fs::read_dir(format!("/proc/{}/fd", process.as_raw_nonzero()))?.count() as u64;
    let usual = prlimit(Some(process), Resource::Nofile, Rlimit { current: Some(used + 2), maximum: None });
    // A process that may not raise the hard limit again leaves it unchanged.
    let usual = match usual {
        Ok(usual) => usual,
        Err(_) => {
            let limit = rustix::process::getrlimit(Resource::Nofile);
            prlimit(Some(process), Resource::Nofile, Rlimit { current: Some(used + 2), maximum: limit.maximum })?
        }
    };
    let mut waiting = Vec::new();
    for _ in 0..50 {
        waiting.push(RawClient::connect(target.daemon.socket(), Windows::SMALL).await?);
    }
    tokio::time::sleep(target.scale.hold.max(Duration::from_secs(1))).await;
    drop(waiting);
    prlimit(Some(process), Resource::Nofile, usual)?;
    let (mut answers, mut broken) = (Counts::new(), Vec::new());
    newcomer(target, &mut broken).await?;
    let failed = info(target).await?.traffic.unwrap_or_default().failed_accept_count;
    answers.insert("accepts failed".to_owned(), usize::try_from(failed)?);
    // About one each tenth of a second, instead of a busy loop.
    if !(1..=600).contains(&failed) {
        broken.push(format!("{failed} accepts failed"));
    }
    Ok((50, answers, broken))
}
