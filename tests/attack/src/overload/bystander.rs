//! The well-behaved client: it appends, reads views and follows events, and times each call.

use crate::daemon::connect;
use anyhow::Result;
use longhand::pb;
use longhand::pb::event_service_client::EventServiceClient;
use longhand::pb::message_service_client::MessageServiceClient;
use longhand::pb::session_service_client::SessionServiceClient;
use longhand::pb::subscribe_events_response::Frame;
use longhand::pb::view_service_client::ViewServiceClient;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt as _;

/// Interval between rounds of calls; longer if answers take longer.
const PACE: Duration = Duration::from_millis(10);
/// Maximum time of one round of calls; beyond it, the client counts as stalled.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Number of messages of one session, so that its view stays short.
const MESSAGES: usize = 20;

/// Times and results of the calls.
#[derive(Debug, Default)]
pub struct Timings {
    took: Vec<Duration>,
    /// Number of calls that were refused because the writer's queue was full, and then repeated.
    pub busy: usize,
    /// Errors of failed calls.
    pub errors: Vec<String>,
}

impl Timings {
    /// Number of calls.
    pub fn calls(&self) -> usize {
        self.took.len()
    }

    /// The given percentile of the times.
    pub fn of_hundred(&self, number: usize) -> Duration {
        let mut took = self.took.clone();
        took.sort_unstable();
        let at = (took.len() * number).div_ceil(100).saturating_sub(1);
        took.get(at).copied().unwrap_or_default()
    }
}

pub(super) struct Bystander {
    stop: oneshot::Sender<()>,
    working: JoinHandle<Timings>,
}

impl Bystander {
    /// Starts the calls, once the first session exists.
    pub(super) async fn start(socket: &Path) -> Result<Self> {
        let channel = connect(socket);
        let mut warm = Timings::default();
        let session = Session::new(&channel, &mut warm).await?;
        let (stop, stopped) = oneshot::channel();
        Ok(Self { stop, working: tokio::spawn(work(channel, session, stopped)) })
    }

    /// Stops, and returns the timings.
    pub(super) async fn stop(self) -> Result<Timings> {
        drop(self.stop);
        Ok(self.working.await?)
    }
}

async fn work(channel: Channel, mut session: Session, mut stopped: oneshot::Receiver<()>) -> Timings {
    let mut timings = Timings::default();
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = &mut stopped => return timings,
            _ = pace.tick() => {}
        }
        let round = async {
            if session.messages == MESSAGES {
                session = Session::new(&channel, &mut timings).await?;
            }
            session.round(&channel, &mut timings).await
        };
        match tokio::time::timeout(TIMEOUT, round).await {
            Ok(Ok(())) => {}
            Ok(Err(status)) => timings.errors.push(reason_of(&status)),
            Err(_) => timings.errors.push(format!("nothing for {TIMEOUT:?}")),
        }
        if timings.errors.len() > 10 {
            return timings;
        }
    }
}

/// The reason of a status, or a description of a status without one.
pub(super) fn reason_of(status: &Status) -> String {
    let details = status.get_error_details();
    match details.error_info() {
        Some(info) => info.reason.clone(),
        None => format!("{:?} without a reason: {}", status.code(), status.message()),
    }
}

/// A session with a stream of its events.
struct Session {
    id: String,
    events: Streaming<pb::SubscribeEventsResponse>,
    messages: usize,
}

impl Session {
    async fn new(channel: &Channel, timings: &mut Timings) -> Result<Self, Status> {
        let mut sessions = SessionServiceClient::new(channel.clone());
        let made = loop {
            match sessions.create_session(pb::CreateSessionRequest::default()).await {
                Err(status) if is_busy(&status) => timings.busy += 1,
                made => break made?,
            }
        };
        let id = made.into_inner().session.map(|session| session.session_id).unwrap_or_default();
        let request = pb::SubscribeEventsRequest { session_ids: vec![id.clone()], ..Default::default() };
        let events = EventServiceClient::new(channel.clone()).subscribe_events(request).await?.into_inner();
        Ok(Self { id, events, messages: 0 })
    }

    /// Appends, waits for the event, and reads the view.
    async fn round(&mut self, channel: &Channel, timings: &mut Timings) -> Result<(), Status> {
        let revision = loop {
            let began = Instant::now();
            let request = append(&self.id, "a few words from somebody who behaves");
            let appended = MessageServiceClient::new(channel.clone()).append_messages(request).await;
            timings.took.push(began.elapsed());
            match appended {
                // A full queue refuses at once, so that a refused call has not waited.
                Err(status) if is_busy(&status) => {
                    timings.busy += 1;
                    tokio::time::sleep(PACE).await;
                }
                appended => break appended?.into_inner().revision,
            }
        };
        let began = Instant::now();
        loop {
            let frame = self.events.message().await?.ok_or_else(|| Status::internal("the stream ended"))?;
            if let Some(Frame::Events(batch)) = frame.frame
                && batch.events.iter().any(|event| event.revision >= revision)
            {
                break;
            }
        }
        timings.took.push(began.elapsed());
        let began = Instant::now();
        let request = pb::GetViewRequest { session_id: self.id.clone(), ..Default::default() };
        let mut view = ViewServiceClient::new(channel.clone()).get_view(request).await?.into_inner();
        while view.message().await?.is_some() {}
        timings.took.push(began.elapsed());
        self.messages += 1;
        Ok(())
    }
}

/// True if the writer's queue is full, and the call must be repeated.
fn is_busy(status: &Status) -> bool {
    status.code() == Code::Unavailable && reason_of(status) == "STORE_BUSY"
}

/// A request to append a text.
pub(super) fn append(session: &str, words: &str) -> pb::AppendMessagesRequest {
    let body = pb::part::Body::Text(pb::TextPart { text: words.to_owned() });
    let parts = vec![pb::Part { body: Some(body), ..Default::default() }];
    let messages = vec![pb::NewMessage { role: pb::Role::User.into(), parts, ..Default::default() }];
    pb::AppendMessagesRequest { session_id: session.to_owned(), messages, ..Default::default() }
}
