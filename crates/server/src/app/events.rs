//! Events for callers: streams and pages.

use super::deltas::DraftDelta;
use super::error::{Error, Reason, Result};
use super::nouns::Events;
use super::presence::{PresenceFrame, PresenceWatch};
use super::quotas::StreamShare;
use super::sessions::SessionInfo;
use super::{Caller, cursor, page_size, validate};
use crate::bus::{Next, Subscription};
use crate::limits;
use crate::model::access::Binding;
use crate::model::approval::Approval;
use crate::model::draft::Draft;
use crate::model::event::{Event, EventBody, EventKind};
use crate::model::ids::{ApprovalId, PartId, PromptId, RunId, SessionId};
use crate::model::message::Message;
use crate::model::prompt::Prompt;
use crate::model::run::Run;
use crate::model::session::Session;
use crate::model::view::{ViewMessage, ViewPart};
use crate::model::{Revision, Seq};
use crate::scheduler::SummaryDelta;
use crate::store::{
    self, EventFilter, LogSnapshot, PagedEvent, PolicyText, SessionKey, SessionSnapshot, SharedEvent, Visibility,
};
use crate::traffic::Reservation;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, broadcast};
use tokio_util::sync::CancellationToken;

/// The start of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Start {
    /// At the next event.
    #[default]
    Now,
    /// After the event with this cursor.
    After(String),
    /// At the first event.
    Beginning,
    /// With the current state of the named sessions.
    Snapshot,
}

/// Parameters of a stream.
#[derive(Debug, Clone, Default)]
pub struct SubscribeRequest {
    /// Only these sessions; none for all.
    pub sessions: Vec<String>,
    /// Only these kinds; none for all.
    pub kinds: Vec<EventKind>,
    /// The start.
    pub start: Start,
    /// Interval of progress frames on an idle stream; none for the default.
    pub progress: Option<Duration>,
    /// Includes the messages that events are about.
    pub content: bool,
    /// Includes delta frames: the text of drafts and of summaries as it comes.
    pub live: bool,
    /// Only this session and those that work for it or were forked from it, at any depth; none for all.
    pub root: Option<String>,
    /// Only sessions of this project; none for all.
    pub project: Option<String>,
    /// Includes frames with those who are at work in the named sessions.
    pub presence: bool,
    /// True if its frames become text.
    pub text: bool,
}

/// Among the extensions of a call: the frames of its answer become text.
#[derive(Debug, Clone, Copy)]
pub struct BecomesText;

/// An event for a caller.
#[derive(Debug, Clone, PartialEq)]
pub struct ServedEvent {
    /// The event, shared with other streams.
    pub event: Arc<SharedEvent>,
    /// The cursor after the event.
    pub cursor: Arc<str>,
    /// The message that the event is about, if content was asked for; shared with other streams.
    pub message: Option<Arc<Message>>,
    /// True if another event of its mutation follows in the stream. Always false in pages of past events.
    pub more: bool,
}

/// A message that is still being written.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenMessage {
    /// The message, with the parts that are closed.
    pub message: Message,
    /// The text of its drafts so far.
    pub drafts: Vec<Draft>,
}

/// A frame of a stream.
#[derive(Debug, Clone)]
pub enum Frame {
    /// The stream begins here.
    Ready {
        /// The cursor.
        cursor: String,
        /// The newest event of the store.
        head: Seq,
    },
    /// A session of the snapshot, before its messages.
    SnapshotSession(Box<SessionInfo>),
    /// A message of its view.
    SnapshotMessage(Box<ViewMessage>),
    /// A message of the session that is still open, after its view.
    SnapshotOpen(Box<OpenMessage>),
    /// The session's active run.
    SnapshotRun(Box<Run>),
    /// A prompt that waits in the session.
    SnapshotPrompt(Box<Prompt>),
    /// A question that waits in the session.
    SnapshotApproval(Box<Approval>),
    /// Who is at work in a session.
    Presence(PresenceFrame),
    /// The snapshot is complete.
    SnapshotEnd {
        /// The cursor after the snapshot.
        cursor: String,
    },
    /// Events, in order.
    Events {
        /// The events; if the last has `more`, its mutation continues in the next frame.
        events: Vec<ServedEvent>,
        /// The cursor after them, and after the events that the filter skipped before it.
        cursor: Arc<str>,
    },
    /// The stream is idle and complete up to this point.
    Progress {
        /// The cursor.
        cursor: String,
        /// Sequence number of the cursor's event.
        seq: Seq,
    },
    /// Text of a draft.
    DraftDelta {
        /// The session's id.
        session: SessionId,
        /// The text.
        delta: DraftDelta,
    },
    /// Text of a summary in progress.
    SummaryDelta {
        /// The session's id.
        session: SessionId,
        /// The text.
        delta: SummaryDelta,
    },
}

impl Frame {
    /// Approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Ready { .. } | Self::SnapshotEnd { .. } | Self::Progress { .. } | Self::SnapshotRun(_) => EVENT_BYTES,
            Self::SnapshotPrompt(prompt) => EVENT_BYTES + store::prompt_bytes(prompt),
            Self::SnapshotApproval(approval) => EVENT_BYTES + store::approval_bytes(approval),
            Self::Presence(frame) => EVENT_BYTES * (1 + frame.present.len()),
            Self::SnapshotSession(info) => session_bytes(&info.session) + info.policy_json.len(),
            Self::SnapshotMessage(message) => view_message_bytes(message),
            Self::SnapshotOpen(open) => {
                let draft_bytes: usize = open.drafts.iter().map(|draft| draft.text.len()).sum();
                store::message_bytes(&open.message) + draft_bytes
            }
            Self::Events { events, .. } => events.iter().map(ServedEvent::bytes).sum(),
            Self::DraftDelta { delta, .. } => delta.delta.len() + EVENT_BYTES,
            Self::SummaryDelta { delta, .. } => delta.delta.len() + EVENT_BYTES,
        }
    }
}

impl ServedEvent {
    /// Approximate size in bytes.
    fn bytes(&self) -> usize {
        let calls = match &self.event.body {
            EventBody::RunEnded { interrupted, .. } => {
                interrupted.iter().map(|call| EVENT_BYTES + call.call_id.len()).sum()
            }
            _ => 0,
        };
        EVENT_BYTES + calls + self.message.as_deref().map_or(0, store::message_bytes)
    }
}

/// Approximate size of a view message in bytes.
pub(super) fn view_message_bytes(message: &ViewMessage) -> usize {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let part = |part: &ViewPart| store::body_bytes(&part.body) + length(&part.metadata_json) + EVENT_BYTES;
    let metadata = message.original_fields.as_ref().map_or(0, |fields| length(&fields.metadata_json));
    EVENT_BYTES + metadata + message.parts.iter().map(part).sum::<usize>()
}

/// Approximate size of a session without its policy, in bytes.
fn session_bytes(session: &Session) -> usize {
    EVENT_BYTES + session.title.len() + session.metadata_json.as_ref().map_or(0, String::len)
}

/// Approximate size of an event without its message, in bytes.
const EVENT_BYTES: usize = 256;

/// A stream of frames, read at its reader's pace.
pub struct EventStream {
    pub(super) app: Caller,
    subscription: Subscription,
    /// Frames that are ready: the beginning of the stream.
    waiting: VecDeque<Frame>,
    /// Steps of the snapshot that are still to come. Views and open messages are read one at a time, when the reader is
    /// ready for them.
    snapshot: VecDeque<SnapshotStep>,
    /// The memory reserved for the view whose messages are waiting, and for the sessions of later steps.
    held: Option<Arc<Reservation>>,
    /// Bytes of each draft that the snapshot has shown; delta frames below these offsets are skipped.
    drafts: HashMap<PartId, i64>,
    /// Events that were read and not yet sent: together with their messages they exceed one frame.
    unsent: VecDeque<PagedEvent>,
    content: bool,
    /// Bytes of content in one frame.
    frame_bytes: usize,
    sessions: HashMap<SessionKey, SessionId>,
    live: Option<broadcast::Receiver<DraftDelta>>,
    summaries: Option<broadcast::Receiver<SummaryDelta>>,
    presence: Option<broadcast::Receiver<SessionKey>>,
    /// The caller is present in the named sessions as long as the stream lives.
    _watching: PresenceWatch,
    all_sessions: bool,
    /// The sessions whose events and deltas the stream has, if they are not all or named.
    visibility: Option<Visibility>,
    stopping: CancellationToken,
    /// Counts the stream as open until it is dropped.
    _permit: OwnedSemaphorePermit,
    /// Counted for the tenant.
    _share: Option<StreamShare>,
}

/// A piece of a snapshot, at a revision of its session.
#[derive(Debug, Clone)]
enum SnapshotStep {
    /// The session as it was then, and its view.
    Session(SessionKey, Box<Session>),
    /// The open message at this position.
    Open(SessionKey, Revision, Revision),
    /// The active run.
    Run(RunId),
    /// A prompt that waited then.
    Prompt(SessionKey, PromptId),
    /// A question that waited then.
    Approval(SessionKey, ApprovalId),
}

impl EventStream {
    /// The next frame, or the error that ends the stream.
    pub async fn next(&mut self) -> Result<Frame> {
        while self.waiting.is_empty()
            && let Some(step) = self.snapshot.pop_front()
        {
            match step {
                SnapshotStep::Session(key, session) => {
                    // A large view waits for memory, which this stream may be the one to hold.
                    self.held = None;
                    let (frames, held) = self.app.events().snapshot_of(key, *session).await?;
                    let bytes = frames.iter().map(Frame::bytes).sum::<usize>() + steps_bytes(&self.snapshot);
                    self.waiting.extend(frames);
                    self.held = Some(self.app.views().count_until_taken(held, bytes));
                }
                SnapshotStep::Open(session, at, position) => {
                    let open = self.app.events().open_message(session, at, position).await?;
                    let lengths = open.drafts.iter().map(|draft| (draft.id, length(&draft.text)));
                    self.drafts.extend(lengths);
                    self.wait_with(Frame::SnapshotOpen(Box::new(open)));
                }
                SnapshotStep::Run(id) => {
                    let run = self.app.store().runs().get(id).await?;
                    self.wait_with(Frame::SnapshotRun(Box::new(run)));
                }
                SnapshotStep::Prompt(session, id) => {
                    let prompt = self.app.store().runs().prompt(session, id).await?;
                    self.wait_with(Frame::SnapshotPrompt(Box::new(prompt)));
                }
                SnapshotStep::Approval(session, id) => {
                    let approval = self.app.store().runs().approval(session, id).await?;
                    self.wait_with(Frame::SnapshotApproval(Box::new(approval)));
                }
            }
            if self.snapshot.is_empty() {
                let cursor = cursor::after_seq(self.app.store(), self.subscription.cursor()).await?;
                self.wait_with(Frame::SnapshotEnd { cursor });
            }
        }
        if let Some(frame) = self.waiting.pop_front() {
            if let Some(held) = &self.held {
                held.touch();
                held.shrink(frame.bytes());
            }
            return Ok(frame);
        }
        self.held = None;
        if !self.unsent.is_empty() {
            return self.batch().await;
        }
        loop {
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => return Err(self.stopping_error().await),
                next = self.subscription.next() => return self.frame(next?).await,
                live = next_live(&mut self.live) => {
                    if self.drafts.get(&live.part).is_some_and(|shown| live.offset < *shown) {
                        continue;
                    }
                    if let Some(session) = self.followed_session(live.session).await? {
                        return Ok(Frame::DraftDelta { session, delta: live });
                    }
                }
                changed = next_presence(&mut self.presence) => {
                    let is_changed = |(key, _): &(&SessionKey, &SessionId)| changed.is_none_or(|changed| changed == **key);
                    let changed = self.sessions.iter().filter(is_changed);
                    let mut frames = changed.map(|(key, session)| Frame::Presence(self.app.events().presence_of(*key, *session)));
                    if let Some(first) = frames.next() {
                        self.waiting.extend(frames);
                        return Ok(first);
                    }
                }
                words = next_live(&mut self.summaries) => {
                    if let Some(session) = self.followed_session(words.session).await? {
                        return Ok(Frame::SummaryDelta { session, delta: words });
                    }
                }
            }
        }
    }

    /// Adds a frame of the snapshot to those that are ready.
    fn wait_with(&mut self, frame: Frame) {
        if let Some(held) = &self.held {
            held.grow(frame.bytes());
        }
        self.waiting.push_back(frame);
    }

    /// Resolves when the stream has to end because others need its memory.
    pub(super) fn revoked(&self) -> impl Future<Output = ()> + Send + use<> {
        let held = self.held.clone();
        async move {
            match held {
                Some(held) => held.revoked().await,
                None => std::future::pending().await,
            }
        }
    }

    async fn stopping_error(&self) -> Error {
        let error = Error::new(Reason::ShuttingDown, "the daemon is stopping; resume with the last cursor");
        match cursor::after_seq(self.app.store(), self.subscription.cursor()).await {
            Ok(cursor) => error.with("cursor", cursor),
            Err(_) => error,
        }
    }

    async fn frame(&mut self, next: Next) -> Result<Frame> {
        let seq = self.subscription.cursor();
        match next {
            Next::Closed => Err(self.stopping_error().await),
            Next::Idle => Ok(Frame::Progress { cursor: cursor::after_seq(self.app.store(), seq).await?, seq }),
            Next::Events { events } => {
                self.unsent = events.into();
                self.batch().await
            }
        }
    }

    /// A frame with the next events that were read, up to its size limit.
    async fn batch(&mut self) -> Result<Frame> {
        let mut events = Vec::new();
        let mut bytes = 0;
        while let Some(paged) = self.unsent.pop_front() {
            let served = self.app.events().serve_event(paged, self.content).await?;
            bytes += served.bytes();
            events.push(served);
            if bytes > self.frame_bytes {
                break;
            }
        }
        let cursor = match events.last() {
            Some(last) if !self.unsent.is_empty() || last.event.seq == self.subscription.cursor() => {
                last.cursor.clone()
            }
            _ => cursor::after_seq(self.app.store(), self.subscription.cursor()).await?.into(),
        };
        Ok(Frame::Events { events, cursor })
    }

    /// The id of the session of a delta; none if the stream does not include that session.
    async fn followed_session(&mut self, key: SessionKey) -> Result<Option<SessionId>> {
        let known_id = self.sessions.get(&key).copied();
        if known_id.is_none() && !self.all_sessions {
            return Ok(None);
        }
        if let Some(visibility) = &self.visibility
            && !self.app.store().sessions().admits(visibility, key).await?
        {
            return Ok(None);
        }
        if let Some(session) = known_id {
            return Ok(Some(session));
        }
        let (session, _) = self.app.store().sessions().get(key).await?;
        self.sessions.insert(key, session.id);
        Ok(Some(session.id))
    }
}

/// Approximate size of steps in bytes.
fn steps_bytes(steps: &VecDeque<SnapshotStep>) -> usize {
    let bytes = |step: &SnapshotStep| match step {
        SnapshotStep::Session(_, session) => session_bytes(session),
        SnapshotStep::Open(..) | SnapshotStep::Run(_) | SnapshotStep::Prompt(..) | SnapshotStep::Approval(..) => 0,
    };
    steps.iter().map(bytes).sum()
}

/// Length of a text in bytes.
fn length(words: &str) -> i64 {
    i64::try_from(words.len()).unwrap_or(i64::MAX)
}

/// The next delta. A slow reader misses some; the offsets show the gap.
async fn next_live<T: Clone>(live: &mut Option<broadcast::Receiver<T>>) -> T {
    let Some(receiver) = live else { return std::future::pending().await };
    loop {
        match receiver.recv().await {
            Ok(delta) => return delta,
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
        }
    }
}

/// The next session in which somebody came or went; none if some were missed.
async fn next_presence(changes: &mut Option<broadcast::Receiver<SessionKey>>) -> Option<SessionKey> {
    let Some(receiver) = changes else { return std::future::pending().await };
    match receiver.recv().await {
        Ok(key) => Some(key),
        Err(broadcast::error::RecvError::Lagged(_)) => None,
        Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
    }
}

impl<'a> Events<'a> {
    /// The largest number of committed events that an open stream has not read from the log.
    pub(super) fn stream_lag(self) -> i64 {
        let head = self.caller.store().log().head_seq();
        let cursors = self.stream_cursors();
        let lags = cursors.iter().filter_map(Weak::upgrade).map(|cursor| head - cursor.load(Ordering::Relaxed));
        lags.max().unwrap_or(0).max(0)
    }

    /// The cursors of the streams that are still open.
    fn stream_cursors(self) -> MutexGuard<'a, Vec<Weak<AtomicI64>>> {
        let mut cursors = self.caller.shared.stream_cursors.lock().unwrap_or_else(PoisonError::into_inner);
        cursors.retain(|cursor| cursor.strong_count() > 0);
        cursors
    }

    /// Starts a stream.
    pub async fn subscribe(self, request: SubscribeRequest) -> Result<EventStream> {
        if request.sessions.len() > limits::SUBSCRIPTION_SESSIONS_MAX {
            return Err(Error::limit("session_ids", limits::SUBSCRIPTION_SESSIONS_MAX, request.sessions.len()));
        }
        let progress = request.progress.unwrap_or(Duration::from_millis(limits::PROGRESS_INTERVAL_MS_DEFAULT));
        if !(Duration::from_secs(1)..=Duration::from_secs(600)).contains(&progress) {
            return Err(Error::field("progress_interval", "is not between 1 s and 10 min"));
        }
        let share = self.caller.count_stream()?;
        let permit = self.caller.shared.streams.clone().try_acquire_owned();
        let permit = permit.map_err(|_| {
            Error::new(Reason::TooManyStreams, "as many event streams are open as may be")
                .with("limit", limits::STREAMS_MAX)
        })?;
        let mut sessions = HashMap::new();
        for id in &request.sessions {
            let key = self.caller.session_key(id).await?;
            sessions.insert(key, self.caller.store().sessions().get(key).await?.0.id);
        }
        // Subscribes first: deltas that come while the beginning is read are buffered, not lost.
        let live = request.live.then(|| self.caller.shared.live.subscribe());
        let summaries = request.live.then(|| self.caller.shared.scheduler.summary_words());
        let snapshot = match request.start {
            Start::Snapshot if sessions.is_empty() => return Err(Error::field("snapshot", "needs session_ids")),
            Start::Snapshot => {
                self.caller.store().log().snapshot(&sessions.keys().copied().collect::<Vec<_>>()).await?
            }
            Start::Now | Start::Beginning | Start::After(_) => {
                LogSnapshot { head: self.caller.store().log().head_seq(), sessions: Vec::new() }
            }
        };
        let head = snapshot.head;
        let after = match &request.start {
            Start::Now | Start::Snapshot => head,
            Start::Beginning => 0,
            Start::After(cursor) => cursor::read(self.caller.store(), cursor).await?,
        };
        let ready = Frame::Ready { cursor: cursor::after_seq(self.caller.store(), after).await?, head };
        // The sessions as they were after event `head`: the events after the snapshot follow exactly.
        let mut steps = VecDeque::new();
        for SessionSnapshot { key, session, open, run, prompts, approvals } in snapshot.sessions {
            let at = session.revision;
            steps.push_back(SnapshotStep::Session(key, Box::new(session)));
            steps.extend(open.into_iter().map(|position| SnapshotStep::Open(key, at, position)));
            steps.extend(run.map(SnapshotStep::Run));
            steps.extend(prompts.into_iter().map(|prompt| SnapshotStep::Prompt(key, prompt)));
            steps.extend(approvals.into_iter().map(|approval| SnapshotStep::Approval(key, approval)));
        }
        let reservation = (!steps.is_empty())
            .then(|| self.caller.views().count_until_taken(None, ready.bytes() + steps_bytes(&steps)));
        let scope = self.scope(request.root.as_deref(), request.project.as_deref()).await?;
        let visibility = scope.or_else(|| self.caller.visibility_of_events(!sessions.is_empty()));
        let keys = sessions.keys().copied().collect();
        let filter = EventFilter { sessions: keys, kinds: request.kinds, visibility: visibility.clone() };
        let named = || sessions.iter().map(|(key, session)| (*key, *session));
        let actor = &self.caller.requester.actor;
        let watching = PresenceWatch::begin(
            &self.caller.shared.presences,
            named().map(|(key, _)| key),
            actor,
            self.caller.shared.clock.now(),
        );
        // Not before: the caller's own coming is in the first frames.
        let presence = request.presence.then(|| self.caller.shared.presences.changes());
        let mut waiting = VecDeque::from([ready]);
        if presence.is_some() {
            waiting.extend(named().map(|(key, session)| Frame::Presence(self.presence_of(key, session))));
        }
        let subscription = self.caller.shared.bus.subscribe(self.caller.store().clone(), filter, after, progress);
        self.stream_cursors().push(subscription.watched_cursor());
        Ok(EventStream {
            app: self.caller.clone(),
            subscription,
            waiting,
            presence,
            _watching: watching,
            snapshot: steps,
            held: reservation,
            drafts: HashMap::new(),
            unsent: VecDeque::new(),
            content: request.content,
            frame_bytes: if request.text { limits::EVENT_TEXT_BYTES } else { limits::EVENT_FRAME_BYTES },
            all_sessions: sessions.is_empty(),
            visibility,
            sessions,
            live,
            summaries,
            stopping: self.caller.shared.stopping.clone(),
            _permit: permit,
            _share: share,
        })
    }

    /// Everybody in a session.
    fn presence_of(self, key: SessionKey, session: SessionId) -> PresenceFrame {
        PresenceFrame { session, present: self.caller.shared.presences.present_in(key) }
    }

    /// The sessions of a tree, of a project or of both, as far as the caller sees them; none without such a scope.
    pub(super) async fn scope(self, root: Option<&str>, project: Option<&str>) -> Result<Option<Visibility>> {
        if root.is_none() && project.is_none() {
            return Ok(None);
        }
        let own = &self.caller.visibility.binding;
        let mut binding = Binding::clone(own);
        if let Some(root) = root {
            // What the caller does not see is not found, so the root is not above what it is bound to.
            let key = self.caller.session_key(root).await?;
            binding.root = Some(self.caller.store().sessions().get(key).await?.0.id);
        }
        if let Some(project) = project {
            if own.project.as_deref().is_some_and(|own| own != project) {
                return Err(Error::field("project", "is not the one that the access token is bound to"));
            }
            validate::access_name("project", project)?;
            binding.project = Some(project.to_owned());
        }
        Ok(Some(Visibility { tenant: self.caller.visibility.tenant.clone(), binding: Arc::new(binding) }))
    }

    /// A session with its policy, its context usage and its view at its revision, as frames, with the reservation for a
    /// large view.
    async fn snapshot_of(
        self,
        key: SessionKey,
        mut session: Session,
    ) -> Result<(Vec<Frame>, Option<Arc<Reservation>>)> {
        let (source, held) = self.caller.views().reserved_source(key, Some(session.revision)).await?;
        let PolicyText { preset, json: policy_json } = source.policy.clone();
        session.preset = preset;
        let loaded = self.caller.views().with_passages(self.caller.views().loaded_from(source).await?).await?;
        session.context = Some(loaded.context());
        let mut frames = vec![Frame::SnapshotSession(Box::new(SessionInfo {
            session,
            policy_json,
            over_window: None,
            thresholds: Vec::new(),
            provider_compaction: None,
        }))];
        let messages = loaded.fold.view.messages.into_iter();
        frames.extend(messages.map(|message| Frame::SnapshotMessage(Box::new(message))));
        Ok((frames, held))
    }

    /// A message that was open at a revision, with its current drafts: the stream of the snapshot has the later text as
    /// deltas, and the events that close the drafts.
    async fn open_message(self, session: SessionKey, at: Revision, position: Revision) -> Result<OpenMessage> {
        let messages = self.caller.store().history().at_revisions(session, at, &[position], usize::MAX).await?;
        let message = messages.into_iter().next();
        let message =
            message.ok_or_else(|| store::Error::corrupt("message", format_args!("none came at {position}")))?;
        let drafts = self.caller.store().history().drafts(message.id).await?;
        Ok(OpenMessage { message, drafts })
    }

    /// Number of open streams.
    pub fn stream_count(self) -> usize {
        limits::STREAMS_MAX - self.caller.shared.streams.available_permits()
    }

    async fn serve_event(self, paged: PagedEvent, content: bool) -> Result<ServedEvent> {
        let PagedEvent { event, more } = paged;
        let message = if content { self.caller.store().history().of_event(&event).await? } else { None };
        let cursor = event.cursor(|| cursor::after_event(self.caller.store(), event.seq, &event.hash));
        Ok(ServedEvent { event, cursor, message, more })
    }

    /// Events for a page, which ends early at the page's size limit; the flag is true if it did.
    async fn served_page(self, events: Vec<Event>, content: bool) -> Result<(Vec<ServedEvent>, bool)> {
        let mut page = Vec::with_capacity(events.len());
        let mut bytes = 0;
        for event in events {
            let served = self.serve_event(PagedEvent { event: Arc::new(event.into()), more: false }, content).await?;
            bytes += served.message.as_deref().map_or(0, store::message_bytes);
            if bytes > limits::PAGE_BYTES_MAX && !page.is_empty() {
                return Ok((page, true));
            }
            page.push(served);
        }
        Ok((page, false))
    }

    /// A page of past events, oldest first, and the cursor of the next page.
    pub async fn list(self, list: ListEvents) -> Result<(Vec<ServedEvent>, String)> {
        let limit = page_size(if list.page_size == 0 { limits::EVENTS_PAGE_DEFAULT as i64 } else { list.page_size })?;
        let after = match list.after.as_str() {
            "" => None,
            cursor => Some(cursor::read(self.caller.store(), cursor).await?),
        };
        let Some(session) = &list.session else {
            if list.to_revision.is_some() {
                return Err(Error::field("to_revision", "needs session_id"));
            }
            return self.list_of_store(list.kinds, after.unwrap_or(0), limit, list.content).await;
        };
        let key = self.caller.session_key(session).await?;
        let first = match after {
            None | Some(0) => 1,
            Some(seq) => self.caller.store().log().revision_by(key, seq).await? + 1,
        };
        let last = list.to_revision.unwrap_or(i64::MAX);
        let (events, next) = self.caller.store().log().of_history(key, &list.kinds, (first, last), limit).await?;
        let (events, early) = self.served_page(events, list.content).await?;
        let next = match (events.last(), next) {
            (Some(last), _) if early => last.cursor.to_string(),
            (_, Some(scanned_to)) => cursor::after_event(self.caller.store(), scanned_to.seq, &scanned_to.hash),
            (_, None) => String::new(),
        };
        Ok((events, next))
    }

    async fn list_of_store(
        self,
        kinds: Vec<EventKind>,
        after: Seq,
        limit: i64,
        content: bool,
    ) -> Result<(Vec<ServedEvent>, String)> {
        let filter = EventFilter { sessions: Vec::new(), kinds, visibility: self.caller.visibility_of_events(false) };
        let head = self.caller.store().log().head_seq();
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut events = Vec::new();
        let mut cursor = after;
        while cursor < head && events.len() < most && cursor - after < limits::EVENTS_SCAN_MAX {
            let page = self.caller.store().log().tail(&filter, cursor, head).await?;
            cursor = page.scanned;
            events.extend(page.events.into_iter().map(|paged| paged.event.unwrap_or_clone()));
        }
        if events.len() > most {
            events.truncate(most);
            cursor = events.last().map_or(after, |event| event.seq);
        }
        let (events, early) = self.served_page(events, content).await?;
        if early && let Some(last) = events.last() {
            let next = last.cursor.to_string();
            return Ok((events, next));
        }
        let next = if cursor < head { cursor::after_seq(self.caller.store(), cursor).await? } else { String::new() };
        Ok((events, next))
    }
}

/// Parameters of a list of past events.
#[derive(Debug, Clone, Default)]
pub struct ListEvents {
    /// Only this session's history; none for the whole store.
    pub session: Option<String>,
    /// Only these kinds; none for all.
    pub kinds: Vec<EventKind>,
    /// After the event with this cursor; empty for the beginning.
    pub after: String,
    /// Maximum number of events; zero for 100.
    pub page_size: i64,
    /// Up to this revision.
    pub to_revision: Option<Revision>,
    /// Includes the messages that events are about.
    pub content: bool,
}
