//! Overload: readers that do not read, requests that do not end.

use longhand::pb;
use longhand::pb::admin_service_client::AdminServiceClient;
use longhand::pb::event_service_client::EventServiceClient;
use longhand::pb::message_service_client::MessageServiceClient;
use longhand::pb::session_service_client::SessionServiceClient;
use longhand::pb::subscribe_events_request::Start;
use longhand::pb::subscribe_events_response::Frame;
use longhand::pb::view_service_client::ViewServiceClient;
use longhand_attack::daemon::{Daemon, connect};
use longhand_attack::overload::{self, Fault, Scale};
use longhand_attack::raw::{RawClient, Windows, framed};
use std::path::Path;
use std::time::{Duration, Instant};
use tonic::codec::CompressionEncoding;
use tonic::transport::Channel;

/// Deadline of every wait of a test.
const DEADLINE: Duration = Duration::from_secs(20);

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// A well-behaved client.
#[derive(Clone)]
struct Good {
    channel: Channel,
    session: String,
}

impl Good {
    async fn new(daemon: &Daemon) -> Self {
        let channel = connect(daemon.socket());
        let request = pb::CreateSessionRequest::default();
        let made = SessionServiceClient::new(channel.clone()).create_session(request).await.expect("a session");
        let session = made.into_inner().session.expect("a session").session_id;
        Self { channel, session }
    }

    async fn append(&self, words: &str) {
        let body = pb::part::Body::Text(pb::TextPart { text: words.to_owned() });
        let parts = vec![pb::Part { body: Some(body), ..Default::default() }];
        let messages = vec![pb::NewMessage { role: pb::Role::User.into(), parts, ..Default::default() }];
        let request = pb::AppendMessagesRequest { session_id: self.session.clone(), messages, ..Default::default() };
        let mut messages = MessageServiceClient::new(self.channel.clone());
        let appended = messages.append_messages(request);
        soon("an append", appended).await.expect("an append");
    }

    /// Checks that every kind of call is answered.
    async fn works(&self) {
        self.append("on it").await;
        self.info().await;
        let request = pb::GetViewRequest { session_id: self.session.clone(), ..Default::default() };
        let mut views = ViewServiceClient::new(self.channel.clone());
        let view = async {
            let mut frames = views.get_view(request).await?.into_inner();
            while frames.message().await?.is_some() {}
            Ok::<_, tonic::Status>(())
        };
        soon("GetView", view).await.expect("a view");
    }

    async fn info(&self) -> pb::GetServerInfoResponse {
        let mut admin = AdminServiceClient::new(self.channel.clone());
        let info = admin.get_server_info(pb::GetServerInfoRequest::default());
        soon("GetServerInfo", info).await.expect("the daemon's state").into_inner()
    }

    /// Waits until the daemon's state is as expected.
    async fn until(&self, what: &str, is_so: impl Fn(&pb::GetServerInfoResponse) -> bool) {
        soon(what, async { while !is_so(&self.info().await) {} }).await;
    }
}

async fn start(directory: &Path) -> Daemon {
    Daemon::start(Path::new(super::ATTACK), directory, |_| {}).await.expect("the daemon starts")
}

/// A daemon that drops a stalled reader after one second.
async fn start_with_short_timeout(directory: &Path) -> Daemon {
    let settings = directory.join("longhand.toml");
    std::fs::write(&settings, "stall_seconds = 1\n").expect("settings are written");
    let change = |command: &mut tokio::process::Command| {
        command.arg("--config").arg(settings);
    };
    Daemon::start(Path::new(super::ATTACK), directory, change).await.expect("the daemon starts")
}

fn from_the_beginning() -> pb::SubscribeEventsRequest {
    pb::SubscribeEventsRequest { start: Some(Start::FromBeginning(true)), include_content: true, ..Default::default() }
}

/// The sequence numbers of the events in a frame.
fn seqs(frame: &pb::SubscribeEventsResponse) -> Vec<i64> {
    match &frame.frame {
        Some(Frame::Events(batch)) => batch.events.iter().map(|event| event.seq).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn subscribers_that_stop_reading_delay_nobody() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let daemon = start(directory.path()).await;
    let good = Good::new(&daemon).await;
    let mut raw = RawClient::connect(daemon.socket(), Windows::SMALL).await.expect("a connection");
    let mut unread = Vec::new();
    for _ in 0..12 {
        let call = raw.call("EventService/SubscribeEvents", &pb::SubscribeEventsRequest::default()).await;
        unread.push(soon("a stream", call.expect("a call").answer()).await.expect("a stream"));
    }
    // Concurrent writers, so that streams have more to read each time.
    let writers: Vec<_> = (0..10)
        .map(|_| {
            tokio::spawn({
                let good = good.clone();
                async move {
                    for number in 0..5 {
                        good.append(&format!("message {number}")).await;
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("it writes");
    }
    good.works().await;
    daemon.stop().await.expect("the daemon ends");
}

#[tokio::test]
async fn subscribers_without_a_window_delay_nobody() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let daemon = start(directory.path()).await;
    let good = Good::new(&daemon).await;
    for number in 0..8 {
        good.append(&format!("message {number}")).await;
    }
    let mut raw = RawClient::connect(daemon.socket(), Windows::NONE).await.expect("a connection");
    let request = from_the_beginning();
    let mut unread = Vec::new();
    for _ in 0..4 {
        let call = raw.call("EventService/SubscribeEvents", &request).await.expect("a call");
        unread.push(soon("a stream", call.answer()).await.expect("a stream"));
    }
    good.works().await;
    daemon.stop().await.expect("the daemon ends");
}

/// The cursor at which a stream resumes behind a frame.
fn cursor(frame: &pb::SubscribeEventsResponse) -> Option<&str> {
    match frame.frame.as_ref()? {
        Frame::Ready(pb::Ready { cursor, .. }) | Frame::Events(pb::EventBatch { cursor, .. }) => Some(cursor),
        _ => None,
    }
}

/// Reads the events behind a cursor, up to the given one.
async fn resume(good: &Good, cursor: String, seen: &mut Vec<i64>, last: i64) {
    let request = pb::SubscribeEventsRequest { start: Some(Start::AfterCursor(cursor)), ..Default::default() };
    let mut events = EventServiceClient::new(good.channel.clone());
    let mut rest = events.subscribe_events(request).await.expect("resumed").into_inner();
    while seen.last() != Some(&last) {
        let frame = soon("a frame", rest.message()).await.expect("the stream goes on").expect("a frame");
        seen.extend(seqs(&frame));
    }
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_disconnected_and_resumes_behind_its_last_frame() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let daemon = start_with_short_timeout(directory.path()).await;
    let good = Good::new(&daemon).await;
    for _ in 0..200 {
        good.append(&"word ".repeat(200)).await;
    }
    let mut raw = RawClient::connect(daemon.socket(), Windows::SMALL).await.expect("a connection");
    let call = raw.call("EventService/SubscribeEvents", &from_the_beginning()).await.expect("a call");
    let mut answer = soon("a stream", call.answer()).await.expect("a stream");
    good.until("the stream to begin", |info| info.subscriber_count == 1).await;
    good.until("the stream to be dropped", |info| info.subscriber_count == 0).await;
    let frames: Vec<pb::SubscribeEventsResponse> = soon("the end", answer.until_broken()).await.expect("frames");
    let mut seen: Vec<i64> = frames.iter().flat_map(seqs).collect();
    let taken = seen.len();
    let cursor = frames.iter().rev().find_map(cursor).expect("a cursor").to_owned();
    resume(&good, cursor, &mut seen, 201).await;
    assert!(taken > 0 && taken < 201, "it took some: {taken}");
    assert_eq!(seen, (1..=201).collect::<Vec<_>>(), "every event once and in order");
    daemon.stop().await.expect("the daemon ends");
}

#[tokio::test]
async fn a_stream_that_its_client_does_not_take_beside_others_ends_with_a_reason_and_the_cursor() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let daemon = start_with_short_timeout(directory.path()).await;
    let good = Good::new(&daemon).await;
    for _ in 0..200 {
        good.append(&"word ".repeat(200)).await;
    }
    let windows = Windows { connection: 1 << 20, ..Windows::SMALL };
    let mut raw = RawClient::connect(daemon.socket(), windows).await.expect("a connection");
    let call = raw.call("EventService/SubscribeEvents", &from_the_beginning()).await.expect("a call");
    let mut answer = soon("a stream", call.answer()).await.expect("a stream");
    good.until("the stream to begin", |info| info.subscriber_count == 1).await;
    // The client is alive: it takes other answers meanwhile.
    let other = async {
        loop {
            let call = raw.call("AdminService/ListPresets", &pb::ListPresetsRequest::default()).await.expect("a call");
            let mut presets = call.answer().await.expect("an answer");
            presets.rest::<pb::ListPresetsResponse>().await.expect("the presets");
        }
    };
    tokio::select! {
        () = other => {}
        () = good.until("the stream to be dropped", |info| info.subscriber_count == 0) => {}
    }
    let (frames, end) = soon("the end", answer.rest::<pb::SubscribeEventsResponse>()).await.expect("an end");
    assert_eq!((end.code, end.reason.as_str()), (tonic::Code::ResourceExhausted, "READER_STALLED"));
    let mut seen: Vec<i64> = frames.iter().flat_map(seqs).collect();
    let taken = seen.len();
    let cursor = end.facts.get("cursor").expect("a cursor").clone();
    resume(&good, cursor, &mut seen, 201).await;
    assert!(taken > 0 && taken < 201, "it took some: {taken}");
    assert_eq!(seen, (1..=201).collect::<Vec<_>>(), "every event once and in order");
    daemon.stop().await.expect("the daemon ends");
}

#[tokio::test]
async fn a_client_without_a_window_is_disconnected() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let daemon = start_with_short_timeout(directory.path()).await;
    let good = Good::new(&daemon).await;
    good.append("something").await;
    let mut raw = RawClient::connect(daemon.socket(), Windows::NONE).await.expect("a connection");
    let view = pb::GetViewRequest { session_id: good.session.clone(), ..Default::default() };
    let page = pb::ListMessagesRequest { session_id: good.session.clone(), ..Default::default() };
    let calls = [
        raw.call("EventService/SubscribeEvents", &from_the_beginning()).await.expect("a call"),
        raw.call("ViewService/GetView", &view).await.expect("a call"),
        raw.call("MessageService/ListMessages", &page).await.expect("a call"),
    ];
    for call in calls {
        let mut answer = soon("an answer", call.answer()).await.expect("an answer");
        let frames: Vec<pb::SubscribeEventsResponse> = soon("the end", answer.until_broken()).await.expect("frames");
        assert_eq!(frames.len(), 0);
    }
    good.until("the connection to end", |info| info.traffic.unwrap_or_default().connection_count == 1).await;
    daemon.stop().await.expect("the daemon ends");
}

#[tokio::test]
async fn a_silent_reader_does_not_keep_the_daemon_from_stopping() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let daemon = start(directory.path()).await;
    let good = Good::new(&daemon).await;
    for _ in 0..20 {
        good.append(&"word ".repeat(2_000)).await;
    }
    let mut raw = RawClient::connect(daemon.socket(), Windows::SMALL).await.expect("a connection");
    let mut unread = Vec::new();
    for _ in 0..6 {
        let call = raw.call("EventService/SubscribeEvents", &from_the_beginning()).await.expect("a call");
        unread.push(soon("a stream", call.answer()).await.expect("a stream"));
    }
    good.works().await;
    let began = Instant::now();
    let ended = soon("the daemon to stop", daemon.stop()).await.expect("the daemon ends");
    assert!(ended.success(), "it stopped cleanly");
    assert!(began.elapsed() < Duration::from_secs(8), "it took {:?}", began.elapsed());
    let log = std::fs::metadata(directory.path().join("longhand.db-wal")).map_or(0, |log| log.len());
    assert_eq!(log, 0, "the log is folded into the database");
}

#[tokio::test]
async fn requests_come_in_gzip_and_the_name_of_another_encoding_is_refused() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let daemon = start(directory.path()).await;
    let good = Good::new(&daemon).await;
    let body = pb::part::Body::Text(pb::TextPart { text: "word ".repeat(10_000) });
    let parts = vec![pb::Part { body: Some(body), ..Default::default() }];
    let messages = vec![pb::NewMessage { role: pb::Role::User.into(), parts, ..Default::default() }];
    let request = pb::AppendMessagesRequest { session_id: good.session.clone(), messages, ..Default::default() };
    let mut compressed = MessageServiceClient::new(good.channel.clone()).send_compressed(CompressionEncoding::Gzip);
    let appended = soon("an append", compressed.append_messages(request.clone())).await.expect("an append");
    assert_eq!(appended.into_inner().message_ids.len(), 1);
    let mut raw = RawClient::connect(daemon.socket(), Windows::SMALL).await.expect("a connection");
    let encoding = [("grpc-encoding", "br")];
    let mut call = raw.begin("MessageService/AppendMessages", &encoding).await.expect("a call");
    call.request.send_data(framed(&request), true).expect("sent");
    let mut answer = soon("an answer", call.answer()).await.expect("an answer");
    let (_, end) = soon("the end", answer.rest::<pb::AppendMessagesResponse>()).await.expect("an end");
    assert_eq!((end.code, end.reason.as_str()), (tonic::Code::Unimplemented, "ENCODING_UNKNOWN"));
    daemon.stop().await.expect("the daemon ends");
}

#[tokio::test]
async fn a_request_holds_one_message() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let daemon = start(directory.path()).await;
    let good = Good::new(&daemon).await;
    let mut raw = RawClient::connect(daemon.socket(), Windows::SMALL).await.expect("a connection");
    let request = framed(&pb::GetSessionRequest { session_id: good.session.clone() });
    let mut call = raw.begin("SessionService/GetSession", &[]).await.expect("a call");
    call.request.send_data(request.clone(), false).expect("sent");
    call.request.send_data(request, true).expect("sent");
    let mut answer = soon("an answer", call.answer()).await.expect("an answer");
    let (_, end) = soon("the end", answer.rest::<pb::GetSessionResponse>()).await.expect("an end");
    assert_eq!((end.code, end.reason.as_str()), (tonic::Code::InvalidArgument, "REQUEST_MALFORMED"));
    daemon.stop().await.expect("the daemon ends");
}

#[tokio::test]
async fn a_view_that_waits_for_its_client_is_counted_however_small_it_is() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    let daemon = start(directory.path()).await;
    let good = Good::new(&daemon).await;
    let bytes = 3_000_000;
    good.append(&"x".repeat(bytes)).await;
    let mut raw = RawClient::connect(daemon.socket(), Windows::NONE).await.expect("a connection");
    let view = pb::GetViewRequest { session_id: good.session.clone(), ..Default::default() };
    let session_ids = vec![good.session.clone()];
    let snapshot = pb::SubscribeEventsRequest { start: Some(Start::Snapshot(true)), session_ids, ..Default::default() };
    let mut unread = Vec::new();
    for _ in 0..3 {
        unread.push(raw.call("ViewService/GetView", &view).await.expect("a call"));
        unread.push(raw.call("EventService/SubscribeEvents", &snapshot).await.expect("a call"));
    }
    let all = i64::try_from(6 * bytes).expect("a number");
    good.until("all to be counted", |info| info.traffic.unwrap_or_default().view_bytes >= all).await;
    drop((unread, raw));
    good.until("all to be gone", |info| info.traffic.unwrap_or_default().view_bytes == 0).await;
    daemon.stop().await.expect("the daemon ends");
}

/// Runs a fault in its short form. Only the long form limits the times of other clients: here, other tests run
/// meanwhile.
async fn survives(fault: Fault) {
    let outcome = overload::run(Path::new(super::ATTACK), fault, Scale::SHORT, 1, DEADLINE).await;
    let outcome = outcome.expect("the attack is made");
    assert!(outcome.broken.is_empty(), "{outcome:#?}");
    assert!(outcome.others.calls() > 0, "somebody worked beside it");
}

#[tokio::test]
async fn a_full_queue_is_reported_and_loses_nothing() {
    survives(Fault::FullQueue).await;
}

#[tokio::test]
async fn the_calls_of_one_token_keep_no_other_tenant_from_the_store() {
    survives(Fault::Crowd).await;
}

#[tokio::test]
async fn many_connections_leave_a_slot_for_one_more() {
    survives(Fault::Connections).await;
}

#[tokio::test]
async fn many_unread_streams_are_dropped_and_cost_little() {
    survives(Fault::UnreadStreams).await;
}

#[tokio::test]
async fn unread_views_make_way_for_each_other() {
    survives(Fault::UnreadViews).await;
}

#[tokio::test]
async fn requests_that_are_never_finished_make_way() {
    survives(Fault::HalfRequests).await;
}

#[tokio::test]
async fn many_unread_streams_over_http_1_are_dropped_and_cost_little() {
    survives(Fault::UnreadPlainStreams).await;
}

#[tokio::test]
async fn bodies_over_http_1_that_never_end_make_way() {
    survives(Fault::HalfBodies).await;
}

#[tokio::test]
async fn deep_json_is_taken_or_refused_with_a_reason() {
    survives(Fault::DeepJson).await;
}

#[tokio::test]
async fn slow_connections_delay_nobody() {
    survives(Fault::SlowConnections).await;
}

#[tokio::test]
async fn a_daemon_without_descriptors_recovers() {
    survives(Fault::NoDescriptors).await;
}

#[tokio::test]
async fn queries_that_every_text_has_keep_nobody_from_searching() {
    survives(Fault::Searches).await;
}

#[tokio::test]
async fn lists_that_grow_when_they_are_decoded_are_refused_before() {
    survives(Fault::PackedLists).await;
}

#[tokio::test]
async fn writers_go_on_while_the_daemon_stands_still() {
    survives(Fault::SmallFrames).await;
}

#[tokio::test]
async fn strangers_keep_nobody_out() {
    survives(Fault::Strangers).await;
}

#[tokio::test]
async fn pings_that_nobody_sent_are_not_in_the_log() {
    survives(Fault::Pings).await;
}
