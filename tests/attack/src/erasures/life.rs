//! The life of some sessions: their client appends, streams, edits, forks, rewinds, compacts, and erases, one call after the
//! other, and knows what each message leaves in the files.

use super::client::Client;
use super::traces::{self, Trace};
use super::{PENDING_TIME_MAX, Shared, count};
use anyhow::{Result, bail};
use longhand::pb;
use pb::compaction_service_client::CompactionServiceClient;
use pb::erase_content_request::Target;
use pb::erase_service_client::EraseServiceClient;
use pb::message_service_client::MessageServiceClient;
use pb::part::Body;
use pb::session_service_client::SessionServiceClient;
use pb::{CompactionKind, DraftKind, FinishReason, Role};
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::transport::Channel;

/// Sessions of one client.
const SESSIONS_MAX: usize = 6;
const SESSIONS_MIN: usize = 2;
/// Messages of a client that are being written.
const OPEN_MAX: usize = 16;
/// Messages of a session from which it is erased as a whole more often.
const MESSAGES_MANY: usize = 150;

/// A message that is not erased.
struct Known {
    id: String,
    /// What it leaves, with its edits.
    trace: Trace,
    /// True as long as none of its parts is erased.
    is_whole: bool,
}

/// A session of the client.
struct Session {
    id: String,
    messages: Vec<Known>,
    /// What else the session leaves: titles.
    titles: Trace,
}

/// A message that is being written.
struct Open {
    /// The request for the next piece, without its text.
    draft: pb::AppendDraftRequest,
    /// What is written.
    text: String,
}

/// A client with its sessions.
pub(super) struct Life {
    shared: Arc<Shared>,
    client: Client,
    name: String,
    rng: StdRng,
    next_id: u64,
    sessions: Vec<Session>,
    open: Vec<Open>,
}

fn part(body: Body) -> pb::Part {
    pb::Part { body: Some(body), ..pb::Part::default() }
}

fn text_part(text: &str) -> pb::Part {
    part(Body::Text(pb::TextPart { text: text.to_owned() }))
}

/// A length in bytes: mostly short, sometimes one of a large body.
fn length(rng: &mut StdRng) -> usize {
    match rng.random_range(0..100) {
        0..50 => rng.random_range(20..300),
        50..80 => rng.random_range(300..2_000),
        80..98 => rng.random_range(2_000..12_000),
        _ => rng.random_range(66_000..90_000),
    }
}

impl Life {
    pub(super) fn new(shared: &Arc<Shared>, name: String, seed: u64) -> Self {
        let rng = crate::seed::generator(seed, &name);
        let (shared, client) = (Arc::clone(shared), Client::new(shared));
        Self { shared, client, name, rng, next_id: 0, sessions: Vec::new(), open: Vec::new() }
    }

    fn fresh_id(&mut self) -> String {
        self.next_id += 1;
        format!("{}-{}", self.name, self.next_id)
    }

    /// Lives until the attack ends.
    pub(super) async fn run(mut self) -> Result<()> {
        while !self.shared.is_stopping() {
            if self.sessions.len() < SESSIONS_MIN {
                self.create().await?;
                continue;
            }
            let index = self.rng.random_range(0..self.sessions.len());
            match self.rng.random_range(0..100) {
                0..20 => self.append(index).await?,
                20..52 => self.stream(index).await?,
                52..60 => self.edit(index).await?,
                60..62 => self.title(index).await?,
                62..64 => self.rewind(index).await?,
                64..66 => self.fork(index).await?,
                66..70 => self.compact(index).await?,
                70..72 => self.create().await?,
                _ => self.erase(index).await?,
            }
        }
        Ok(())
    }

    async fn create(&mut self) -> Result<()> {
        if self.sessions.len() >= SESSIONS_MAX {
            return Ok(());
        }
        let title = traces::text(&mut self.rng, 30);
        let window = pb::ModelWindow {
            model: "model-a".to_owned(),
            max_context_tokens: self.rng.random_range(3_000..9_000),
            ..pb::ModelWindow::default()
        };
        let request = pb::CreateSessionRequest {
            client_id: Some(self.fresh_id()),
            title: title.clone(),
            window: Some(window),
            ..pb::CreateSessionRequest::default()
        };
        let call = |channel: Channel| {
            let request = request.clone();
            async move { SessionServiceClient::new(channel).create_session(request).await }
        };
        match self.client.call(call).await? {
            Ok(made) => {
                let id = made.session.unwrap_or_default().session_id;
                self.sessions.push(Session { id, messages: Vec::new(), titles: Trace::of_words(&title) });
                Ok(())
            }
            Err(reason) => bail!("a session was refused: {reason}"),
        }
    }

    fn message(&mut self, role: Role, parts: Vec<pb::Part>) -> pb::NewMessage {
        let finish = (role == Role::Assistant)
            .then(|| pb::Finish { reason: FinishReason::Stop.into(), ..pb::Finish::default() });
        pb::NewMessage {
            client_id: Some(self.fresh_id()),
            role: role.into(),
            parts,
            finish,
            ..pb::NewMessage::default()
        }
    }

    /// Appends messages, and returns their ids; none if they were refused.
    async fn send(&mut self, index: usize, messages: Vec<pb::NewMessage>) -> Result<Vec<String>> {
        let (session_id, request_id) = (self.sessions[index].id.clone(), self.fresh_id());
        let request =
            pb::AppendMessagesRequest { session_id, messages, request_id, ..pb::AppendMessagesRequest::default() };
        let call = |channel: Channel| {
            let request = request.clone();
            async move { MessageServiceClient::new(channel).append_messages(request).await }
        };
        count(&self.shared.counts, "appends");
        Ok(self
            .client
            .call(call)
            .await?
            .map_err(|reason| self.refused("append", &reason))
            .unwrap_or_default()
            .message_ids)
    }

    fn refused(&self, what: &'static str, reason: &str) {
        count(&self.shared.counts, &format!("{what}: {reason}"));
    }

    fn note(&mut self, index: usize, ids: Vec<String>, traces: Vec<Trace>) {
        let known = ids.into_iter().zip(traces).map(|(id, trace)| Known { id, trace, is_whole: true });
        self.sessions[index].messages.extend(known);
    }

    /// Appends one or some messages: of a person, a model, a tool.
    async fn append(&mut self, index: usize) -> Result<()> {
        let (mut messages, mut known) = (Vec::new(), Vec::new());
        for _ in 0..self.rng.random_range(1..4) {
            let (mut parts, mut trace) = (Vec::new(), Trace::default());
            for _ in 0..self.rng.random_range(1..3) {
                let bytes = length(&mut self.rng);
                let text = traces::text(&mut self.rng, bytes);
                trace.extend(&Trace::of_text(&text)?);
                parts.push(text_part(&text));
            }
            let role = if self.rng.random_bool(0.5) { Role::User } else { Role::Assistant };
            messages.push(self.message(role, parts));
            known.push(trace);
        }
        if self.rng.random_bool(0.3) {
            let (call_id, bytes) = (self.fresh_id(), length(&mut self.rng));
            let (input, output) = (traces::text(&mut self.rng, 60), traces::text(&mut self.rng, bytes));
            known.extend([Trace::of_words(&input), Trace::of_words(&output)]);
            let call = pb::ToolCallPart {
                call_id: call_id.clone(),
                tool: "bash".to_owned(),
                input_json: serde_json::json!({ "command": input }).to_string(),
                ..pb::ToolCallPart::default()
            };
            let status = pb::ToolResultStatus::Completed.into();
            let result = pb::ToolResultPart { call_id, status, output, ..pb::ToolResultPart::default() };
            messages.push(self.message(Role::Assistant, vec![part(Body::ToolCall(call))]));
            messages.push(self.message(Role::Tool, vec![part(Body::ToolResult(result))]));
        }
        let ids = self.send(index, messages).await?;
        self.note(index, ids, known);
        Ok(())
    }

    /// Begins a message as a model does, or goes on with one that was begun before others came behind it.
    async fn stream(&mut self, index: usize) -> Result<()> {
        if self.open.len() >= OPEN_MAX || (!self.open.is_empty() && self.rng.random_bool(0.6)) {
            let at = self.rng.random_range(0..self.open.len());
            let open = self.open.swap_remove(at);
            return self.go_on(open).await;
        }
        let mut message = self.message(Role::Assistant, Vec::new());
        (message.open, message.finish) = (true, None);
        let Some(message_id) = self.send(index, vec![message]).await?.into_iter().next() else { return Ok(()) };
        self.note(index, vec![message_id.clone()], vec![Trace::default()]);
        let draft = pb::AppendDraftRequest {
            session_id: self.sessions[index].id.clone(),
            message_id,
            kind: DraftKind::Text.into(),
            client_id: Some(self.fresh_id()),
            ..pb::AppendDraftRequest::default()
        };
        count(&self.shared.counts, "streams");
        self.go_on(Open { draft, text: String::new() }).await
    }

    /// Writes some more of an open message, and mostly finishes it.
    async fn go_on(&mut self, mut open: Open) -> Result<()> {
        for _ in 0..self.rng.random_range(1..3) {
            let bytes = self.rng.random_range(20..900);
            open.draft.delta = traces::text(&mut self.rng, bytes);
            open.text.push_str(&open.draft.delta);
            let known = self.sessions.iter_mut().filter(|session| session.id == open.draft.session_id);
            let known = known.flat_map(|session| &mut session.messages);
            // It may be erased by now.
            let Some(known) = known.into_iter().find(|known| known.id == open.draft.message_id) else { return Ok(()) };
            known.trace.extend(&Trace::of_text(&open.text)?);
            let request = open.draft.clone();
            let call = |channel: Channel| {
                let request = request.clone();
                async move { MessageServiceClient::new(channel).append_draft(request).await }
            };
            match self.client.call(call).await? {
                Ok(answer) => {
                    open.draft.offset_bytes = answer.length_bytes;
                    (open.draft.part_id, open.draft.client_id, open.draft.kind) = (answer.part_id, None, 0);
                }
                Err(reason) => {
                    self.refused("draft", &reason);
                    return Ok(());
                }
            }
        }
        if self.rng.random_bool(0.7) {
            self.open.push(open);
            return Ok(());
        }
        let request = pb::FinishMessageRequest {
            session_id: open.draft.session_id,
            message_id: open.draft.message_id,
            finish: Some(pb::Finish { reason: FinishReason::Stop.into(), ..pb::Finish::default() }),
            request_id: self.fresh_id(),
            ..pb::FinishMessageRequest::default()
        };
        let call = |channel: Channel| {
            let request = request.clone();
            async move { MessageServiceClient::new(channel).finish_message(request).await }
        };
        if let Err(reason) = self.client.call(call).await? {
            self.refused("finish", &reason);
        }
        Ok(())
    }

    /// The place of a random message of a session.
    fn some_message(&mut self, index: usize) -> Option<usize> {
        let many = self.sessions[index].messages.len();
        (many > 0).then(|| self.rng.random_range(0..many))
    }

    async fn edit(&mut self, index: usize) -> Result<()> {
        let Some(at) = self.some_message(index) else { return Ok(()) };
        let bytes = length(&mut self.rng).min(9_000);
        let text = traces::text(&mut self.rng, bytes);
        let request = pb::EditMessageRequest {
            session_id: self.sessions[index].id.clone(),
            message_id: self.sessions[index].messages[at].id.clone(),
            parts: vec![text_part(&text)],
            request_id: self.fresh_id(),
            ..pb::EditMessageRequest::default()
        };
        let call = |channel: Channel| {
            let request = request.clone();
            async move { MessageServiceClient::new(channel).edit_message(request).await }
        };
        match self.client.call(call).await? {
            Ok(_) => {
                count(&self.shared.counts, "edits");
                self.sessions[index].messages[at].trace.extend(&Trace::of_text(&text)?);
            }
            Err(reason) => self.refused("edit", &reason),
        }
        Ok(())
    }

    async fn title(&mut self, index: usize) -> Result<()> {
        let title = traces::text(&mut self.rng, 60);
        self.sessions[index].titles.extend(&Trace::of_words(&title));
        let request = pb::UpdateSessionRequest {
            session_id: self.sessions[index].id.clone(),
            title: Some(title),
            request_id: self.fresh_id(),
            ..pb::UpdateSessionRequest::default()
        };
        let call = |channel: Channel| {
            let request = request.clone();
            async move { SessionServiceClient::new(channel).update_session(request).await }
        };
        if let Err(reason) = self.client.call(call).await? {
            self.refused("title", &reason);
        }
        Ok(())
    }

    async fn rewind(&mut self, index: usize) -> Result<()> {
        let Some(at) = self.some_message(index) else { return Ok(()) };
        let request = pb::RewindSessionRequest {
            session_id: self.sessions[index].id.clone(),
            target: Some(pb::rewind_session_request::Target::MessageId(self.sessions[index].messages[at].id.clone())),
            request_id: self.fresh_id(),
            ..pb::RewindSessionRequest::default()
        };
        let call = |channel: Channel| {
            let request = request.clone();
            async move { MessageServiceClient::new(channel).rewind_session(request).await }
        };
        match self.client.call(call).await? {
            Ok(_) => count(&self.shared.counts, "rewinds"),
            Err(reason) => self.refused("rewind", &reason),
        }
        Ok(())
    }

    /// A fork, which shares what there is; only its own messages are erased by its name.
    async fn fork(&mut self, index: usize) -> Result<()> {
        if self.sessions.len() >= SESSIONS_MAX {
            return Ok(());
        }
        let request = pb::ForkSessionRequest {
            session_id: self.sessions[index].id.clone(),
            client_id: Some(self.fresh_id()),
            title: "a fork".to_owned(),
            ..pb::ForkSessionRequest::default()
        };
        let call = |channel: Channel| {
            let request = request.clone();
            async move { SessionServiceClient::new(channel).fork_session(request).await }
        };
        match self.client.call(call).await? {
            Ok(made) => {
                count(&self.shared.counts, "forks");
                let id = made.session.unwrap_or_default().session_id;
                self.sessions.push(Session { id, messages: Vec::new(), titles: Trace::default() });
            }
            Err(reason) => self.refused("fork", &reason),
        }
        Ok(())
    }

    async fn compact(&mut self, index: usize) -> Result<()> {
        let kinds = [CompactionKind::Prune, CompactionKind::Summary, CompactionKind::Omission];
        let kind = kinds.choose(&mut self.rng).copied().unwrap_or(CompactionKind::Summary);
        let request = pb::StartCompactionRequest {
            session_id: self.sessions[index].id.clone(),
            kind: kind.into(),
            request_id: self.fresh_id(),
            ..pb::StartCompactionRequest::default()
        };
        let call = |channel: Channel| {
            let request = request.clone();
            async move { CompactionServiceClient::new(channel).start_compaction(request).await }
        };
        match self.client.call(call).await? {
            Ok(_) => count(&self.shared.counts, "compactions"),
            Err(reason) => self.refused("compaction", &reason),
        }
        Ok(())
    }

    /// Chooses what is erased, and takes it out of what is known.
    async fn target(&mut self, index: usize) -> Result<Option<(Target, Trace)>> {
        let many = self.sessions[index].messages.len();
        let whole = if many > MESSAGES_MANY { 0.3 } else { 0.02 };
        if self.rng.random_bool(whole) {
            let session = self.sessions.swap_remove(index);
            let mut trace = session.titles;
            session.messages.iter().for_each(|known| trace.extend(&known.trace));
            return Ok(Some((Target::WholeSession(true), trace)));
        }
        let Some(at) = self.some_message(index) else { return Ok(None) };
        if self.rng.random_bool(0.25) && self.sessions[index].messages[at].is_whole {
            return self.part(index, at).await;
        }
        let mut known = self.sessions[index].messages.swap_remove(at);
        let mut message_ids = vec![known.id];
        while self.rng.random_bool(0.7)
            && let Some(at) = self.some_message(index)
        {
            let next = self.sessions[index].messages.swap_remove(at);
            known.trace.extend(&next.trace);
            message_ids.push(next.id);
        }
        let target = match message_ids.len() {
            1 => Target::MessageId(message_ids.remove(0)),
            _ => Target::MessageSet(pb::MessageSet { message_ids }),
        };
        Ok(Some((target, known.trace)))
    }

    /// A part of a message.
    async fn part(&mut self, index: usize, at: usize) -> Result<Option<(Target, Trace)>> {
        let session = &self.sessions[index];
        let (session_id, message_id) = (session.id.clone(), session.messages[at].id.clone());
        let request = pb::GetMessageRequest { session_id, message_id };
        let call = |channel: Channel| {
            let request = request.clone();
            async move { MessageServiceClient::new(channel).get_message(request).await }
        };
        let Ok(found) = self.client.call(call).await? else { return Ok(None) };
        let parts = found.message.unwrap_or_default().parts;
        let Some(part) = parts.choose(&mut self.rng) else { return Ok(None) };
        let trace = match &part.body {
            Some(Body::Text(text)) => Trace::of_text(&text.text)?,
            Some(Body::ToolResult(result)) => Trace::of_words(&result.output),
            _ => return Ok(None),
        };
        self.sessions[index].messages[at].is_whole = false;
        Ok(Some((Target::PartId(part.part_id.clone()), trace)))
    }

    async fn erase(&mut self, index: usize) -> Result<()> {
        let session_id = self.sessions[index].id.clone();
        let Some((target, trace)) = self.target(index).await? else { return Ok(()) };
        self.shared.look_for_what_is_there(&trace)?;
        let request = pb::EraseContentRequest {
            session_id,
            target: Some(target.clone()),
            reason: "it was written by mistake".to_owned(),
            request_id: self.fresh_id(),
            ..pb::EraseContentRequest::default()
        };
        let call = |channel: Channel| {
            let request = request.clone();
            async move { EraseServiceClient::new(channel).erase_content(request).await }
        };
        let began = Instant::now();
        loop {
            match self.client.call(call).await? {
                Ok(answer) if answer.pending_files.is_empty() => break,
                Ok(answer) => {
                    count(&self.shared.counts, "answers that name files");
                    if began.elapsed() > PENDING_TIME_MAX {
                        self.shared.finding(format!("{:?} have what was erased for ever", answer.pending_files));
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(reason) => {
                    self.refused("erase", &reason);
                    return Ok(());
                }
            }
        }
        let label = format!("{target:?} of {}", request.session_id);
        self.shared.erased(&trace, label).await
    }
}

/// What is known of all sessions of a client, by the kind of what was done with them.
pub(super) type Counts = HashMap<String, u64>;
