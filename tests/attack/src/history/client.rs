//! A client: it repeats a request until it is answered, keeps its requests, and sends answered ones again.

use super::agreement::{Answer, Observation, Refused};
use super::reasons::{self, Refusal};
use super::record::{Asked, Fate, Record, Session, count, lock};
use super::rpc::{Mutation, Promised, Rpc};
use super::service::Service;
use super::stores::{Heads, store_of};
use crate::daemon;
use longhand::pb;
use rand::Rng as _;
use rand::rngs::StdRng;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tonic::transport::Channel;
use tonic::{Request, Status};

/// Maximum time in which a running daemon must answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// Maximum time for which a client repeats a request, through all kills.
const ASK_TIME_MAX: Duration = Duration::from_secs(900);
/// Pause before an attempt is repeated.
const RETRY_PAUSE: Duration = Duration::from_millis(5);
/// Number of answered requests that a client keeps, to send them again.
const KEPT_MAX: usize = 40;
/// Reason recorded for a request that was never answered.
pub(super) const NO_ANSWER: &str = "NO_ANSWER";

/// State shared by all clients of an attack.
#[derive(Debug)]
pub(super) struct Shared {
    /// The daemon.
    pub(super) service: Service,
    /// The clients' record.
    pub(super) record: Record,
    /// The sessions of the round.
    pub(super) sessions: std::sync::Mutex<Vec<Arc<Session>>>,
    /// Set when the clients must finish.
    pub(super) stopping: std::sync::atomic::AtomicBool,
    /// The events up to which watchers read: the last ones of the log, once nothing more happens.
    pub(super) end: std::sync::Mutex<Option<Heads>>,
}

impl Shared {
    /// True if the clients must finish.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}

/// Result of one attempt.
enum Attempt<T> {
    Answered(T),
    Refused(Refusal),
    Lost,
}

type Again =
    Box<dyn Fn(Channel, String) -> Pin<Box<dyn Future<Output = Result<Promised, Status>> + Send>> + Send + Sync>;

/// An answered request that can be sent again.
struct Kept {
    rpc: &'static str,
    request_id: String,
    promised: Promised,
    again: Again,
    /// Other requests with its id, or with other content under the ids that it gave: none of them is acknowledged, whatever
    /// was erased since.
    others: Vec<Again>,
}

/// A client with a name and a connection of its own.
pub(super) struct Client {
    /// State shared with the other clients.
    pub(super) shared: Arc<Shared>,
    /// Name of the client, which the daemon knows as its actor.
    pub(super) name: String,
    /// The client's own random numbers.
    pub(super) rng: StdRng,
    /// The run on whose behalf the client's requests are made.
    pub(super) epoch: Option<i64>,
    /// The newest events that any client knew of when the last request was first sent.
    asked_after: Heads,
    /// Number of attempts that got no answer.
    pub(super) lost: u64,
    channel: Channel,
    kept: Vec<Kept>,
    next_id: u64,
}

/// A request that can be sent by a client with a name and a connection.
fn sendable<M: Mutation>(request: M, epoch: Option<i64>) -> Again {
    Box::new(move |channel, name| {
        let request = named(request.clone(), &name, epoch);
        Box::pin(async move { M::send(channel, request).await.map(|answer| M::promised(&answer)) })
    })
}

/// An append of other content under the ids of a client's messages; none if it gave none, or appends versions.
fn under_client_ids(request: &pb::AppendMessagesRequest, request_id: String) -> Option<pb::AppendMessagesRequest> {
    let mut other = pb::AppendMessagesRequest { request_id, expected_revision: None, ..request.clone() };
    let is_version = |message: &pb::NewMessage| message.replace_existing;
    let message = other.messages.iter_mut().find(|message| message.client_id.is_some() && !is_version(message))?;
    message.parts.push(super::content::text("words that nobody wrote before".to_owned()));
    Some(other)
}

/// A request from a named client, on behalf of a run if there is one.
fn named<R>(request: R, name: &str, epoch: Option<i64>) -> Request<R> {
    let mut request = Request::new(request);
    if let Ok(name) = name.parse() {
        request.metadata_mut().insert("longhand-actor", name);
    }
    if let Some(epoch) = epoch {
        request.metadata_mut().insert(pb::RUN_EPOCH_HEADER, epoch.into());
    }
    request
}

impl Client {
    /// A client of the daemon.
    pub(super) fn new(shared: Arc<Shared>, name: &str, seed: u64) -> Self {
        let mut rng = crate::seed::generator(seed, name);
        let channel = daemon::connect(shared.service.socket(&mut rng));
        let (kept, next_id, asked_after) = (Vec::new(), 0, Heads::default());
        Self { shared, name: name.to_owned(), rng, epoch: None, asked_after, lost: 0, channel, kept, next_id }
    }

    /// A new id, unique among requests and messages.
    pub(super) fn fresh_id(&mut self) -> String {
        self.next_id += 1;
        format!("{}-{}", self.name, self.next_id)
    }

    /// The newest event of a session's store that any client knew of when the last request was first sent.
    pub(super) fn asked_after(&self, session: &str) -> i64 {
        self.asked_after.of(self.shared.record.stores.of(session))
    }

    /// Finds out which store a new session is in.
    pub(super) async fn learn_store(&mut self, session: &str) {
        let request =
            pb::ListEventsRequest { session_id: Some(session.to_owned()), page_size: 1, ..Default::default() };
        let Ok(page) = self.ask(&request).await else { return };
        let stores = &self.shared.record.stores;
        let first = page.events.first().and_then(|event| {
            let number = stores.number_of(&Heads::default(), (&event.cursor, event.seq))?;
            Some(store_of(number))
        });
        match first {
            Some(store) => stores.learn(session, store),
            None => self.finding(format!("P6: {session} has no first event: {page:?}")),
        }
    }

    /// A random session, now and then an erased one.
    pub(super) fn some_session(&mut self) -> Option<Arc<Session>> {
        let sessions = lock(&self.shared.sessions);
        let is_live = |session: &&Arc<Session>| !session.is_erased.load(Ordering::SeqCst);
        let live: Vec<_> = sessions.iter().filter(is_live).collect();
        let all: Vec<_> = sessions.iter().collect();
        let from = if self.rng.random_bool(0.03) || live.is_empty() { all } else { live };
        let index = self.rng.random_range(0..from.len().max(1));
        from.get(index).map(|session| (*session).clone())
    }

    /// True if a session lost content by an event behind this one. What was compared meanwhile may differ.
    pub(super) async fn is_erased_since(&mut self, session: &str, after_seq: i64) -> bool {
        let asked_after = self.asked_after.clone();
        let request = pb::ListEventsRequest {
            session_id: Some(session.to_owned()),
            kinds: vec![pb::EventKind::Erased.into()],
            page_size: 1_000,
            ..pb::ListEventsRequest::default()
        };
        let found = self.ask(&request).await;
        self.asked_after = asked_after;
        let record = &self.shared.record;
        found.is_ok_and(|page| page.events.iter().any(|event| record.number(session, event.seq) > after_seq))
    }

    /// Another client of the same daemon, with a name of its own.
    pub(super) fn another(&mut self) -> Self {
        let name = self.fresh_id();
        let seed = self.rng.random();
        Self::new(self.shared.clone(), &name, seed)
    }

    /// A separate connection for a stream.
    pub(super) fn connection(&mut self) -> Channel {
        daemon::connect(self.shared.service.socket(&mut self.rng))
    }

    /// Sends a request until it is answered or refused.
    pub(super) async fn ask<R: Rpc>(&mut self, request: &R) -> Result<R::Answer, Refusal> {
        let began = Instant::now();
        self.asked_after.clone_from(&lock(&self.shared.record.newest));
        let asked = self.shared.record.now();
        loop {
            self.shared.service.wait_until_up().await;
            let sending = R::send(self.channel.clone(), named(request.clone(), &self.name, self.epoch));
            match self.attempt(R::NAME, sending).await {
                Attempt::Answered(answer) => {
                    count(&self.shared.record.counts.answered);
                    self.shared.record.check_erased(R::NAME, &R::bytes(&answer), asked);
                    return Ok(answer);
                }
                Attempt::Refused(refusal) if reasons::is_passing(&refusal.reason) => {}
                Attempt::Refused(refusal) => {
                    count(&self.shared.record.counts.refused);
                    let mut reasons = lock(&self.shared.record.counts.reasons);
                    *reasons.entry((R::NAME, refusal.reason.clone())).or_default() += 1;
                    return Err(refusal);
                }
                Attempt::Lost => {
                    // Another daemon may answer.
                    self.channel = self.connection();
                    self.lost += 1;
                    count(&self.shared.record.counts.lost);
                }
            }
            if began.elapsed() > ASK_TIME_MAX {
                self.finding(format!("P14: {} was not answered within {ASK_TIME_MAX:?}", R::NAME));
                let (reason, message) = (NO_ANSWER.to_owned(), String::new());
                return Err(Refusal { reason, metadata: Default::default(), message });
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Makes one attempt, and records faults of its refusal.
    async fn attempt<T>(&self, rpc: &'static str, sending: impl Future<Output = Result<T, Status>>) -> Attempt<T> {
        let deaths = self.shared.service.deaths();
        let status = match tokio::time::timeout(ANSWER_TIME_MAX, sending).await {
            Ok(Ok(answer)) => return Attempt::Answered(answer),
            Ok(Err(status)) => status,
            Err(_) => {
                if self.shared.service.deaths() == deaths {
                    self.finding(format!(
                        "P14: {rpc} was not answered within {ANSWER_TIME_MAX:?} by a daemon that runs"
                    ));
                }
                return Attempt::Lost;
            }
        };
        if let Some((refusal, wrong)) = reasons::refusal(rpc, &status) {
            wrong.into_iter().for_each(|text| self.finding(text));
            return Attempt::Refused(refusal);
        }
        // An error made by the connection, not by the daemon, has a source.
        let is_local = std::error::Error::source(&status).is_some();
        if !is_local && self.shared.service.deaths() == deaths {
            self.finding(format!("P14: {rpc} failed without a reason: {status:?}"));
        }
        Attempt::Lost
    }

    /// Records a broken promise.
    pub(super) fn finding(&self, text: impl AsRef<str>) {
        self.shared.record.finding(format!("{} ({})", text.as_ref(), self.name));
    }

    /// Sends a mutation until it is answered or refused, and records its outcome. Sends some answered mutations again
    /// at once, some concurrently with a copy, and some with another payload under the same id.
    pub(super) async fn apply<M: Mutation>(
        &mut self,
        session: &Session,
        request: M,
        expected_revision: Option<i64>,
    ) -> Result<M::Answer, Refusal> {
        let key = (session.id.clone(), request.request_id().to_owned());
        let after_seq = self.shared.record.newest_of(&session.id);
        let (sent, epoch) = (self.shared.record.now(), self.epoch);
        let (new_end, changes, fate) = (request.new_end(), Vec::new(), Fate::Open);
        let asked = Asked { rpc: M::NAME, after_seq, expected_revision, new_end, epoch, sent, changes, fate };
        lock(&self.shared.record.asked).insert(key.clone(), asked);
        self.shared.record.markers.wrote(&session.id, M::NAME, &request.encode_to_vec());
        let twin = if self.rng.random_bool(0.04) {
            let (channel, copy) = (self.connection(), named(request.clone(), &self.name, self.epoch));
            let sending = async move { M::send(channel, copy).await };
            Some(tokio::spawn(tokio::time::timeout(ANSWER_TIME_MAX, sending)))
        } else {
            None
        };
        let mut outcome = self.ask(&request).await;
        let copy = match twin {
            Some(twin) => twin.await.ok().and_then(Result::ok).and_then(Result::ok),
            None => None,
        };
        // The session may have been restored between the two, so that only one is accepted: its answer counts.
        if let (Err(_), Some(copy)) = (&outcome, &copy) {
            outcome = Ok(copy.clone());
        }
        let fate = match &outcome {
            Ok(answer) => {
                let mut asked = lock(&self.shared.record.asked);
                asked.entry(key.clone()).and_modify(|asked| asked.changes = request.changes(answer));
                let promised = M::promised(answer);
                let seq = promised.seq.map(|seq| self.shared.record.number(&session.id, seq));
                Fate::Done(Promised { seq, ..promised })
            }
            Err(refusal) => Fate::Refused(refusal.clone()),
        };
        self.note(key, fate, session);
        if let (Err(refusal), Some(epoch)) = (&outcome, self.epoch)
            && refusal.reason == "RUN_LOST"
        {
            let refused = Refused { epoch: Some(epoch), ..Refused::of(M::NAME, refusal) };
            self.observe(&session.id, Answer::Refused(refused));
        }
        // What a fork shares may be of a session that is being erased.
        if let Err(refusal) = &outcome
            && refusal.reason == "SESSION_ERASED"
            && M::NAME != "EraseContent"
        {
            self.observe(&session.id, Answer::Refused(Refused::of(M::NAME, refusal)));
        }
        if let Ok(answer) = &outcome {
            let promised = M::promised(answer);
            if let Some(copy) = copy {
                self.same(M::NAME, request.request_id(), &promised, &M::promised(&copy));
            }
            self.keep(request.clone(), promised.clone());
            match self.rng.random_range(0..40) {
                0..3 => self.send_again(&request, &promised).await,
                3 => self.send_altered(&request).await,
                4..8 => self.send_kept().await,
                _ => {}
            }
        }
        outcome
    }

    /// Records an answer to the client's last request, to be compared with the log.
    pub(super) fn observe(&self, session: &str, answer: Answer) {
        let record = &self.shared.record;
        let (session, after_seq) = (session.to_owned(), self.asked_after(session));
        let observation = Observation { session, after_seq, to_seq: i64::MAX, answer };
        lock(&record.observations).push((record.now(), observation));
    }

    fn note(&self, key: (String, String), fate: Fate, session: &Session) {
        let record = &self.shared.record;
        if let Fate::Done(Promised { revision, seq, .. }) = &fate {
            let mut asked = lock(&record.asked);
            if let Some(asked) = asked.get(&key)
                && seq.is_some_and(|seq| seq < asked.after_seq)
            {
                record.finding(format!(
                    "P3: {} got event {seq:?} in its answer, sent after {}",
                    asked.rpc, asked.after_seq
                ));
            }
            if let Some(asked) = asked.get_mut(&key) {
                asked.fate = fate.clone();
            }
            drop(asked);
            seq.iter().for_each(|seq| lock(&record.newest).note(*seq));
            session.revision.fetch_max(revision.unwrap_or(0), Ordering::SeqCst);
        } else if let Some(asked) = lock(&record.asked).get_mut(&key) {
            asked.fate = fate;
        }
    }

    fn keep<M: Mutation>(&mut self, request: M, promised: Promised) {
        let (rpc, request_id, epoch) = (M::NAME, request.request_id().to_owned(), self.epoch);
        let mut others = vec![sendable(request.altered(), epoch)];
        let appended = (&request as &dyn std::any::Any).downcast_ref::<pb::AppendMessagesRequest>();
        if let Some(appended) = appended {
            let restored = pb::ArchiveSessionRequest {
                session_id: appended.session_id.clone(),
                restore: true,
                request_id: request_id.clone(),
            };
            others.push(sendable(restored, epoch));
            others.extend(under_client_ids(appended, self.fresh_id()).map(|other| sendable(other, epoch)));
        }
        let again = sendable(request, epoch);
        let kept = Kept { rpc, request_id, promised, again, others };
        if self.kept.len() < KEPT_MAX {
            self.kept.push(kept);
        } else {
            let position = self.rng.random_range(0..KEPT_MAX);
            self.kept[position] = kept;
        }
    }

    fn same(&self, rpc: &str, request_id: &str, first: &Promised, again: &Promised) {
        count(&self.shared.record.counts.repeated);
        if first != again {
            self.finding(format!("P4: {rpc} {request_id} was answered {first:?}, then {again:?}"));
        }
    }

    async fn send_again<M: Mutation>(&mut self, request: &M, promised: &Promised) {
        match self.ask(request).await {
            Ok(answer) => self.same(M::NAME, request.request_id(), promised, &M::promised(&answer)),
            Err(refusal) => self.finding(format!("P4: a repeated {} was refused: {refusal:?}", M::NAME)),
        }
    }

    async fn send_altered<M: Mutation>(&mut self, request: &M) {
        let altered = request.altered();
        assert!(altered != *request, "{} is to be altered", M::NAME);
        match self.ask(&altered).await {
            Err(refusal) if refusal.reason == "REQUEST_ID_REUSED" || refusal.reason == NO_ANSWER => {}
            other => self.finding(format!("P4: {} with the id of another request came to {other:?}", M::NAME)),
        }
    }

    /// Sends a request again that was answered some time ago, or another one in its place.
    pub(super) async fn send_kept(&mut self) {
        if self.kept.is_empty() {
            return;
        }
        let index = self.rng.random_range(0..self.kept.len());
        let other = self.rng.random_bool(0.3).then(|| self.rng.random_range(0..self.kept[index].others.len()));
        let kept = &self.kept[index];
        self.shared.service.wait_until_up().await;
        if let Some(other) = other {
            let sending = (kept.others[other])(self.channel.clone(), self.name.clone());
            if let Attempt::Answered(promised) = self.attempt(kept.rpc, sending).await {
                let (rpc, id) = (kept.rpc, &kept.request_id);
                self.finding(format!("P4: another request in place of {rpc} {id} was acknowledged: {promised:?}"));
            }
            return;
        }
        let sending = (kept.again)(self.channel.clone(), self.name.clone());
        match self.attempt(kept.rpc, sending).await {
            Attempt::Answered(promised) => self.same(kept.rpc, &kept.request_id, &kept.promised, &promised),
            Attempt::Refused(refusal) if reasons::is_passing(&refusal.reason) => {}
            Attempt::Refused(refusal) => {
                self.finding(format!("P4: a repeated {} was refused: {refusal:?}", kept.rpc));
            }
            Attempt::Lost => {}
        }
    }

    /// All messages of a session, as of a revision.
    pub(super) async fn messages(
        &mut self,
        session: &str,
        at: Option<i64>,
        derived: bool,
    ) -> Result<Vec<pb::Message>, Refusal> {
        let mut request = pb::ListMessagesRequest {
            session_id: session.to_owned(),
            page_size: 1_000,
            as_of_revision: at,
            include_derived: derived,
            ..pb::ListMessagesRequest::default()
        };
        let mut messages = Vec::new();
        loop {
            let page = self.ask(&request).await?;
            messages.extend(page.messages);
            if page.next_page_token.is_empty() {
                return Ok(messages);
            }
            request.page_token = page.next_page_token;
        }
    }
}
