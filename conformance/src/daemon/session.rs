//! A session in a daemon: every message is appended over the socket, and the daemon decides by itself.
//!
//! What happened is read from the session's events, which are awaited, and each state from a view at the revision of its
//! event. The provider's requests are answered here, when the next decision is awaited, so that a scenario sees the
//! compactions one by one, as those of a simulation.

use super::wire::{id, kind, part, role, unknown, view_message};
use super::{Daemon, Prompt};
use crate::harness::PeerFailure;
use crate::session::{Material, SummaryMade, without_margins};
use longhand::grpc;
use longhand::model::Revision;
use longhand::model::compaction::{CompactionKind, FailureReason, Level};
use longhand::model::ids::{CompactionId, PartId};
use longhand::model::layout::Placement;
use longhand::model::mark::Words;
use longhand::model::message::{Finish, Message, MessageKind, NewMessage, Role};
use longhand::model::time::Timestamp;
use longhand::model::usage::ModelWindow;
use longhand::model::view::{PrunedPart, SourceMessage, View};
use longhand::pb;
use longhand::pb::compaction_service_client::CompactionServiceClient;
use longhand::pb::event::Body;
use longhand::pb::event_service_client::EventServiceClient;
use longhand::pb::message_service_client::MessageServiceClient;
use longhand::pb::session_service_client::SessionServiceClient;
use longhand::pb::view_service_client::ViewServiceClient;
use longhand::policy::prompt::MARGIN;
use longhand::policy::summary::SummaryInput;
use longhand::policy::{Policy, Summary};
use longhand::simulation::{SimulatedCompaction, WriteSummary};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use tonic::Streaming;
use tonic::transport::Channel;

/// A wait until the daemon has decided everything.
type Decision = Pin<Box<dyn Future<Output = Result<Served, PeerFailure>>>>;

/// Maximum wait for a decision, in seconds.
const WAIT_SECONDS: i64 = 60;

/// A session in a daemon, with what its client knows.
pub(crate) struct InDaemon<'a> {
    daemon: &'a Daemon,
    writer: WriteSummary<'a>,
    id: String,
    stream: Streaming<pb::SubscribeEventsResponse>,
    /// Events that were received and are not examined yet.
    events: VecDeque<pb::Event>,
    /// The revision of the newest examined event.
    revision: Revision,
    /// Waits until everything is decided.
    decision: Option<Decision>,
    /// The revision at which everything was decided.
    decided: Option<Revision>,
    /// All messages by revision, with the marks on their parts, and their revisions by id.
    history: BTreeMap<Revision, SourceMessage>,
    revisions: HashMap<String, Revision>,
    sources: Vec<SourceMessage>,
    view: View,
    context_tokens: i64,
    view_token: String,
    /// Number of written messages.
    count: usize,
    /// The compactions that began and did not end, with their levels.
    started: HashMap<String, Option<Level>>,
    compactions: Vec<SimulatedCompaction>,
    /// The requests of the provider since the last compaction.
    prompts: Vec<Prompt>,
    summary: Option<SummaryMade>,
    is_over: bool,
}

/// A view as it is served.
struct Served {
    header: pb::ViewHeader,
    messages: Vec<pb::ViewMessage>,
    end: pb::ViewEnd,
}

impl<'a> InDaemon<'a> {
    pub(crate) fn new(
        daemon: &'a Daemon,
        policy: &Policy,
        window: &ModelWindow,
        writer: WriteSummary<'a>,
    ) -> Result<Self, PeerFailure> {
        // The scenario determines the messages after a summary.
        let policy = Policy { auto_continue: None, ..policy.clone() };
        let ModelWindow { model, context, input, output, overhead, source: _ } = window.clone();
        let request = pb::CreateSessionRequest {
            policy_json: serde_json::to_string(&policy).unwrap_or_default(),
            window: Some(pb::ModelWindow {
                model,
                max_context_tokens: context,
                max_input_tokens: input,
                max_output_tokens: output,
                overhead_tokens: overhead,
                ..pb::ModelWindow::default()
            }),
            ..pb::CreateSessionRequest::default()
        };
        let channel = daemon.channel.clone();
        let (id, stream) = daemon.runtime.block_on(async {
            let made = SessionServiceClient::new(channel.clone()).create_session(request).await.map_err(refused)?;
            let id = made.into_inner().session.ok_or_else(|| unknown("session"))?.session_id;
            let request = pb::SubscribeEventsRequest {
                session_ids: vec![id.clone()],
                include_content: true,
                start: Some(pb::subscribe_events_request::Start::FromBeginning(true)),
                ..pb::SubscribeEventsRequest::default()
            };
            let stream = EventServiceClient::new(channel).subscribe_events(request).await.map_err(refused)?;
            Ok::<_, PeerFailure>((id, stream.into_inner()))
        })?;
        Ok(Self {
            daemon,
            writer,
            id,
            stream,
            events: VecDeque::new(),
            revision: 0,
            decision: None,
            decided: None,
            history: BTreeMap::new(),
            revisions: HashMap::new(),
            sources: Vec::new(),
            view: View::default(),
            context_tokens: 0,
            view_token: String::new(),
            count: 0,
            started: HashMap::new(),
            compactions: Vec::new(),
            prompts: Vec::new(),
            summary: None,
            is_over: false,
        })
    }

    /// Appends a message, and reads the state before any compaction that follows.
    pub(crate) fn append(&mut self, new: &NewMessage<Option<String>>, names_view: bool) -> Result<(), PeerFailure> {
        // A scenario may go on before the last decision is made.
        while self.decided.is_none_or(|decided| self.revision < decided) && self.compact_once()? {}
        let mut new = new.clone();
        let finish = new.finish.take().unwrap_or_default();
        let is_named = names_view && !self.view_token.is_empty();
        new.finish = Some(finish.with_view(is_named.then(|| self.view_token.clone())));
        let request = pb::AppendMessagesRequest {
            session_id: self.id.clone(),
            messages: vec![grpc::wire::new_message(new.clone())],
            ..pb::AppendMessagesRequest::default()
        };
        let daemon = self.daemon;
        let done = daemon.runtime.block_on(async {
            let mut client = MessageServiceClient::new(daemon.channel.clone());
            let appended = client.append_messages(request).await.map_err(refused)?.into_inner();
            let revision = appended.revision;
            while self.revision < revision {
                let event = self.next_event().await?;
                if self.note(event)?.is_some() {
                    return Err(PeerFailure::new("a compaction ended after everything was decided"));
                }
            }
            let served = get_view(&daemon.channel, self.as_of(revision)).await?;
            Ok((appended.message_ids, served))
        });
        let (ids, served) = done?;
        let revision = ids.first().and_then(|id| self.revisions.get(id)).ok_or_else(|| unknown("message"))?;
        self.sources.extend(self.history.get(revision).cloned());
        self.count += 1;
        (self.decision, self.decided) = (None, None);
        self.show(served).map(drop)
    }

    /// Waits for the next compaction to end, or until everything is decided. True if one was applied or failed.
    pub(crate) fn compact_once(&mut self) -> Result<bool, PeerFailure> {
        let daemon = self.daemon;
        daemon.runtime.block_on(async {
            loop {
                while let Some(event) = self.events.pop_front() {
                    if let Some(Body::CompactionProposed(proposed)) = &event.body {
                        let request = pb::ConfirmCompactionRequest { compaction_id: proposed.compaction_id.clone() };
                        let mut client = CompactionServiceClient::new(daemon.channel.clone());
                        client.confirm_compaction(request).await.map_err(refused)?;
                    }
                    if let Some(end) = self.note(event)? {
                        return self.end(end).await.map(|()| true);
                    }
                }
                if self.decided.is_some_and(|decided| self.revision >= decided) {
                    self.prompts.clear();
                    return Ok(false);
                }
                self.wait().await?;
            }
        })
    }

    /// Waits for an event, for a request to the provider, or until everything is decided.
    async fn wait(&mut self) -> Result<(), PeerFailure> {
        if self.decided.is_none() && self.decision.is_none() {
            // `WAIT` takes effect only if the view exceeds the window, and every view exceeds this one.
            let request = pb::GetViewRequest {
                session_id: self.id.clone(),
                window: Some(pb::ModelWindow { max_context_tokens: 1, ..pb::ModelWindow::default() }),
                overflow_action: pb::OverflowAction::Wait.into(),
                wait_timeout: Some(prost_types::Duration { seconds: WAIT_SECONDS, nanos: 0 }),
                ..pb::GetViewRequest::default()
            };
            let channel = self.daemon.channel.clone();
            self.decision = Some(Box::pin(async move { get_view(&channel, request).await }));
        }
        let Self { decision, stream, .. } = self;
        let deciding = async {
            match decision {
                Some(decision) => decision.await,
                None => std::future::pending().await,
            }
        };
        let mut requests = self.daemon.requests.lock().await;
        tokio::select! {
            frame = stream.message() => {
                let frame = frame.map_err(refused)?.ok_or_else(|| PeerFailure::new("the daemon has ended the stream"))?;
                self.events.extend(events(frame));
            }
            request = requests.recv() => {
                let request = request.ok_or_else(|| PeerFailure::new("the provider has ended"))?;
                // An input that has nothing but a message among those that the request is about.
                let about: Vec<SourceMessage> = self.sources.first().cloned().into_iter().collect();
                let (messages, split_turn) = if request.prompt.front { (Vec::new(), about) } else { (about, Vec::new()) };
                let input = SummaryInput { messages, split_turn, ..no_input() };
                // A request that the daemon has given up needs no answer.
                let _ = request.answer.send((self.writer)(&input));
                self.prompts.push(request.prompt);
            }
            served = deciding => {
                self.decision = None;
                let header = served?.header;
                if header.pending_compaction_id.is_some() {
                    return Err(PeerFailure::new(&format!("nothing was decided in {WAIT_SECONDS} seconds")));
                }
                self.decided = Some(header.revision);
            }
        }
        Ok(())
    }

    async fn next_event(&mut self) -> Result<pb::Event, PeerFailure> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let frame = self.stream.message().await.map_err(refused)?;
            self.events.extend(events(frame.ok_or_else(|| PeerFailure::new("the daemon has ended the stream"))?));
        }
    }

    /// Examines an event. Returns the end of a compaction.
    fn note(&mut self, event: pb::Event) -> Result<Option<End>, PeerFailure> {
        self.revision = event.revision;
        let body = event.body.ok_or_else(|| unknown("event"))?;
        Ok(match body {
            Body::MessageAppended(_) => {
                self.store(event.message.ok_or_else(|| unknown("message"))?)?;
                None
            }
            Body::PartsPruned(pruned) => {
                let compaction: CompactionId = id(&pruned.compaction_id)?;
                let parts: Vec<PartId> = pruned.part_ids.iter().map(|part| id(part)).collect::<Result<_, _>>()?;
                for source in self.history.values_mut() {
                    let own = source.message.parts.iter().map(|part| part.id).filter(|part| parts.contains(part));
                    let own: Vec<PartId> = own.collect();
                    source.pruned.retain(|pruned| !own.contains(&pruned.part));
                    source.pruned.extend(own.into_iter().map(|part| PrunedPart { part, compaction, truncation: None }));
                }
                None
            }
            Body::CompactionStarted(started) => {
                let level = level(started.level());
                self.started.insert(started.compaction_id, level);
                None
            }
            Body::Compacted(done) => Some(End::Done(event.revision, Box::new(done))),
            Body::CompactionFailed(failed) => {
                let level = self.started.remove(&failed.compaction_id).flatten();
                let reason = failed.failure.unwrap_or_default().reason;
                Some(End::Failed(level.filter(|_| reason != FailureReason::FixedOverhead.as_str())))
            }
            Body::CompactionRetried(retried) => {
                let words = retried.failure.unwrap_or_default().message;
                return Err(PeerFailure::new(&format!("an attempt failed: {words}")));
            }
            _ => None,
        })
    }

    /// Stores a message that an event has.
    fn store(&mut self, message: pb::Message) -> Result<(), PeerFailure> {
        let (revision, role, kind) = (message.revision, role(message.role())?, kind(message.kind())?);
        let finish = message.finish.as_ref().map(|finish| finish.reason());
        let stored = Message {
            id: id(&message.message_id)?,
            session_id: id(&message.session_id)?,
            client_id: message.client_id,
            revision,
            role,
            kind,
            parts: message.parts.into_iter().map(part).collect::<Result<_, _>>()?,
            sealed_revision: message.sealed_revision,
            finish: Finish { reason: finish.and_then(reason), ..Finish::default() },
            model: message.model,
            provider: message.provider,
            create_time: time(message.create_time),
            origin_time: message.origin_time.map(|it| time(Some(it))),
            actor: message.actor,
            metadata_json: message.metadata_json,
            replaces: None,
        };
        let source = SourceMessage { message: stored.into(), placement: None, pruned: Vec::new(), counts: None };
        self.revisions.insert(message.message_id, revision);
        self.history.insert(revision, source);
        Ok(())
    }

    /// Reads the state after the end of a compaction.
    async fn end(&mut self, end: End) -> Result<(), PeerFailure> {
        let prompts = std::mem::take(&mut self.prompts);
        let (revision, done) = match end {
            End::Done(revision, done) => (revision, done),
            End::Failed(level) => {
                let summarizes = !prompts.is_empty();
                let kind = if summarizes { CompactionKind::Summary } else { CompactionKind::Prune };
                self.compactions.extend(level.map(|level| self.refused(level, kind)));
                return Ok(());
            }
        };
        let level = level(done.level());
        let outcome = done.outcome.unwrap_or_default();
        // Only a request that was sent can have brought the text.
        if outcome.summary_message_id.is_some() && !outcome.summarizer.starts_with("conformance/") {
            self.is_over = true;
            self.compactions.extend(level.map(|level| self.refused(level, CompactionKind::Summary)));
            return Ok(());
        }
        let made = outcome.summary_message_id.as_ref().map(|_| self.made(&outcome, &prompts)).transpose()?;
        self.summary = self.summary.take().or(made);
        let context_tokens = self.context_tokens;
        let served = get_view(&self.daemon.channel, self.as_of(revision)).await?;
        let end = self.show(served)?;
        self.lay_out(&end, outcome.summary_message_id.as_deref());
        let kind = match (outcome.summary_message_id.is_some(), outcome.omitted_count) {
            (true, _) => CompactionKind::Summary,
            (false, 0) => CompactionKind::Prune,
            (false, _) => CompactionKind::Omission,
        };
        let number = |count: i32| usize::try_from(count).unwrap_or_default();
        self.compactions.push(SimulatedCompaction {
            message: self.count,
            level,
            kind,
            refused: false,
            context_tokens,
            before_tokens: outcome.estimated_tokens_before,
            after_tokens: outcome.estimated_tokens_after,
            kept: self.sources.iter().filter(|source| !source.message.kind.is_derived()).count(),
            cleared: number(outcome.pruned_count),
            summarized: number(outcome.covered_count),
            omitted: number(outcome.omitted_count),
            reread_tokens: outcome.invalidated_tokens,
        });
        Ok(())
    }

    /// A compaction that was given up.
    fn refused(&self, level: Level, kind: CompactionKind) -> SimulatedCompaction {
        SimulatedCompaction {
            message: self.count,
            level: Some(level),
            kind,
            refused: true,
            context_tokens: self.context_tokens,
            before_tokens: self.view.estimated_tokens,
            after_tokens: self.view.estimated_tokens,
            kept: self.sources.iter().filter(|source| !source.message.kind.is_derived()).count(),
            cleared: 0,
            summarized: 0,
            omitted: 0,
            reread_tokens: 0,
        }
    }

    /// The summary that the newest compaction has put before the tail, from the messages of the view before it.
    fn made(&self, outcome: &pb::CompactionOutcome, prompts: &[Prompt]) -> Result<SummaryMade, PeerFailure> {
        // What the summary before has retained is read once more.
        let is_read = |source: &&SourceMessage| {
            !source.message.kind.is_derived() && is_in(&outcome.covered_ranges, source.message.revision)
        };
        let head: Vec<SourceMessage> = self.sources.iter().filter(is_read).cloned().collect();
        let tail = outcome.tail_start_message_id.as_ref();
        let tail = tail.map(|id| self.revisions.get(id).copied().ok_or_else(|| unknown("tail"))).transpose()?;
        let earlier = self.sources.iter().find(|source| source.placement == Some(Placement::Summary));
        let earlier = earlier.map(text_of);
        let mut material = Material::default();
        let (mut has_front, mut has_history) = (false, false);
        for prompt in prompts {
            let (transcript, previous) = material_of(&prompt.text);
            has_front |= prompt.front;
            has_history |= !prompt.front;
            if prompt.front {
                material.front.get_or_insert(transcript);
            } else {
                material.history.get_or_insert(transcript);
                material.previous = material.previous.or(previous);
            }
        }
        let asks = |source: &SourceMessage| source.message.role == Role::User;
        let front = has_front.then(|| head.iter().rposition(asks)).flatten().unwrap_or(head.len());
        let previous = if has_history { material.previous.clone() } else { earlier };
        let (head, split_turn) = head.split_at(front);
        let (head, split_turn) = (head.to_vec(), split_turn.to_vec());
        Ok(SummaryMade { head, split_turn, previous, tail_start: tail.unwrap_or(Revision::MAX), material })
    }

    /// Keeps a view that was served; returns what it says of the history that it does not show.
    fn show(&mut self, served: Served) -> Result<pb::ViewEnd, PeerFailure> {
        let Served { header, messages, end } = served;
        let messages = messages.into_iter().map(view_message).collect::<Result<_, _>>()?;
        self.view = View { messages, estimated_tokens: header.estimated_tokens };
        (self.context_tokens, self.view_token) = (header.context_tokens, header.view_token);
        Ok(end)
    }

    /// The messages of the view after a compaction: first those that it puts before the tail, in the order of the view,
    /// and then those at their own positions, also if nothing of them is shown.
    fn lay_out(&mut self, end: &pb::ViewEnd, new_summary: Option<&str>) {
        let covered = end.covered.as_ref();
        let ranges = covered.map_or(&[][..], |covered| covered.covered_ranges.as_slice());
        let is_out = |revision: Revision| {
            let omitted = end.omitted.iter().filter(|omitted| omitted.mark_revision != 0);
            omitted.filter_map(|omitted| omitted.range.as_ref()).any(|range| is_within(range, revision))
        };
        let summary = covered.and_then(|covered| self.revisions.get(&covered.summary_message_id)).copied();
        // A marker without a text is in no view.
        let marker = summary.map(|summary| summary - 1).filter(|revision| {
            self.history.get(revision).is_some_and(|source| source.message.kind == MessageKind::Marker)
        });
        let mut placed: Vec<Revision> = Vec::new();
        for message in &self.view.messages {
            let revision = message.revision;
            let is_placed = Some(revision) == summary || Some(revision) == marker || is_in(ranges, revision);
            if revision > 0 && is_placed && !placed.contains(&revision) {
                if Some(revision) == summary {
                    placed.extend(marker.filter(|marker| !placed.contains(marker)));
                }
                placed.push(revision);
            }
        }
        let placement = |source: &SourceMessage| match source.message.kind {
            MessageKind::Summary => Placement::Summary,
            MessageKind::Marker => Placement::Marker,
            _ => Placement::Retained,
        };
        let front = placed.iter().filter_map(|revision| self.history.get(revision));
        let front = front.map(|source| SourceMessage { placement: Some(placement(source)), ..source.clone() });
        let inline = self.history.values().filter(|source| source.message.kind.is_inline());
        let inline = inline.filter(|source| {
            let revision = source.message.revision;
            !is_in(ranges, revision) && !is_out(revision)
        });
        debug_assert!(new_summary.is_none() || summary.is_some(), "a summary is in its view");
        self.sources = front.chain(inline.cloned()).collect();
    }

    fn as_of(&self, revision: Revision) -> pb::GetViewRequest {
        let session_id = self.id.clone();
        pb::GetViewRequest { session_id, as_of_revision: Some(revision), ..pb::GetViewRequest::default() }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(crate) fn take_summary(&mut self) -> Option<SummaryMade> {
        self.summary.take()
    }

    pub(crate) fn compactions(&self) -> &[SimulatedCompaction] {
        &self.compactions
    }

    pub(crate) fn sources(&self) -> &[SourceMessage] {
        &self.sources
    }

    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    pub(crate) fn context_tokens(&self) -> i64 {
        self.context_tokens
    }
}

/// The end of a compaction.
enum End {
    /// It is done at this revision.
    Done(Revision, Box<pb::Compacted>),
    /// It failed, and this level was given up.
    Failed(Option<Level>),
}

async fn get_view(channel: &Channel, request: pb::GetViewRequest) -> Result<Served, PeerFailure> {
    use pb::get_view_response::Frame;
    let mut client = ViewServiceClient::new(channel.clone());
    let mut frames = client.get_view(request).await.map_err(refused)?.into_inner();
    let (mut header, mut messages, mut end) = (None, Vec::new(), None);
    while let Some(frame) = frames.message().await.map_err(refused)? {
        match frame.frame {
            Some(Frame::Header(found)) => header = Some(found),
            Some(Frame::Messages(found)) => messages.extend(found.messages),
            Some(Frame::End(found)) => end = Some(found),
            None => return Err(unknown("frame")),
        }
    }
    let header = header.ok_or_else(|| unknown("header"))?;
    Ok(Served { header, messages, end: end.ok_or_else(|| unknown("end"))? })
}

fn events(frame: pb::SubscribeEventsResponse) -> Vec<pb::Event> {
    match frame.frame {
        Some(pb::subscribe_events_response::Frame::Events(batch)) => batch.events,
        _ => Vec::new(),
    }
}

/// The transcript in a request for a summary, and the text of the previous summary beside it.
fn material_of(text: &str) -> (String, Option<String>) {
    let inside = text.strip_prefix("<conversation>\n").and_then(|rest| rest.split_once("\n</conversation>\n\n"));
    let Some((transcript, rest)) = inside else { return (text.to_owned(), None) };
    let previous = rest.strip_prefix("<previous-summary>\n").and_then(|rest| rest.split_once("\n</previous-summary>"));
    let previous = previous.map(|(previous, _)| without_margins(previous.strip_prefix(MARGIN).unwrap_or(previous)));
    (without_margins(transcript), previous)
}

fn text_of(source: &SourceMessage) -> String {
    use longhand::model::part::PartBody;
    let texts = source.message.parts.iter().filter_map(|part| match &*part.body {
        PartBody::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn no_input() -> SummaryInput {
    SummaryInput {
        messages: Vec::new(),
        split_turn: Vec::new(),
        previous: None,
        previous_digest: None,
        previous_is_supplied: false,
        words: Words::new(),
        rules: Summary::default(),
        counting: Default::default(),
        instructions: String::new(),
        budget_tokens: 0,
    }
}

fn is_in(ranges: &[pb::RevisionRange], revision: Revision) -> bool {
    ranges.iter().any(|range| is_within(range, revision))
}

fn is_within(range: &pb::RevisionRange, revision: Revision) -> bool {
    (range.first_revision..=range.last_revision).contains(&revision)
}

fn level(level: pb::CompactionLevel) -> Option<Level> {
    match level {
        pb::CompactionLevel::Unspecified => None,
        pb::CompactionLevel::Micro => Some(Level::Micro),
        pb::CompactionLevel::Auto => Some(Level::Auto),
        pb::CompactionLevel::Deep => Some(Level::Deep),
    }
}

fn reason(reason: pb::FinishReason) -> Option<longhand::model::message::FinishReason> {
    use longhand::model::message::FinishReason;
    match reason {
        pb::FinishReason::Unspecified => None,
        pb::FinishReason::Stop => Some(FinishReason::Stop),
        pb::FinishReason::ToolCalls => Some(FinishReason::ToolCalls),
        pb::FinishReason::Length => Some(FinishReason::Length),
        pb::FinishReason::ContentFilter => Some(FinishReason::ContentFilter),
        pb::FinishReason::Error => Some(FinishReason::Error),
        pb::FinishReason::Aborted => Some(FinishReason::Aborted),
    }
}

fn time(time: Option<prost_types::Timestamp>) -> Timestamp {
    let time = time.unwrap_or_default();
    Timestamp(time.seconds * 1_000_000 + i64::from(time.nanos / 1_000))
}

fn refused(status: tonic::Status) -> PeerFailure {
    PeerFailure::new(&format!("the daemon refuses: {status}"))
}
