use crate::app::compactions::{NewCompaction, NewSummary};
use crate::app::erase::{EraseRequest, EraseTarget};
use crate::app::sessions::{ForkPoint, NewSession, SessionChange};
use crate::app::{self, Caller, Longhand};
use crate::clock::Clock;
use crate::limits;
use crate::loaded::{LoadedSession, LoadedSessions, POLICY_COPIES, SessionLookup, counts, parse_policy};
use crate::model::Revision;
use crate::model::changes::Changes;
use crate::model::compaction::CompactionKind;
use crate::model::ids::MessageId;
use crate::model::mark::WordsStance;
use crate::model::message::{Finish, FinishReason, MessageKind, NewMessage, Role};
use crate::model::part::{
    Answers, Marker, Media, MediaSource, NewPart, Opaque, PartBody, Record, ReplyStep, ResultStatus, ToolCall,
    ToolResult,
};
use crate::model::time::Timestamp;
use crate::model::truncation::Truncation;
use crate::model::usage::{ModelWindow, Usage};
use crate::policy::tokens;
use crate::scheduler::{self, Scheduler};
use crate::store::{self, AppendChanges, CheckedInput, Requester, SessionKey, Store, Visibility};
use crate::summarizer::{Extractive, Levels};
use crate::turns::{Share, Turns};
use futures::FutureExt as _;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// A store with one session, without automatic compactions.
struct Fixture {
    longhand: Longhand,
    app: Caller,
    store: Store,
    session: String,
    key: SessionKey,
    _directory: TempDir,
}

impl Fixture {
    async fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary folder");
        let clock = Clock::default();
        let durability = store::Durability::ProcessCrash;
        let options = store::Options { directory: directory.path().join("store"), durability };
        let (store, writer) = Store::open(options, clock.clone()).await.expect("the store opens");
        tokio::spawn(writer);
        let summarizers = Levels::same_for_all(Arc::new(Extractive));
        let options = scheduler::Options { loaded_bytes: 1 << 30, ..scheduler::Options::default() };
        let scheduler = Scheduler::new(store.clone(), clock.clone(), summarizers, options);
        let options = app::Options {
            default_preset: "opencode@seed".to_owned(),
            defaults: Vec::new(),
            models: crate::policy::models::Models::built_in(),
            vocabularies: Vec::new(),
            entrance: app::entrance::Entrance::new(&clock),
            stopping: CancellationToken::new(),
        };
        let longhand = Longhand::new(store.clone(), scheduler.handle(), &clock, options);
        let app = longhand.caller(crate::app::access::Access::owner(), "agent".to_owned(), None).expect("a caller");
        let (created, _) = app.sessions().create(Default::default()).await.expect("a session").answer;
        let session = created.session.id.to_string();
        let key = store.sessions().find(&Visibility::default(), &session).await.expect("it is there");
        Self { longhand, app, store, session, key, _directory: directory }
    }

    async fn append(&self, bytes: usize) {
        self.write(vec![message(Role::User, vec![PartBody::Text("a".repeat(bytes))])]).await;
    }

    async fn write(&self, messages: Vec<NewMessage>) -> Vec<Uuid> {
        self.app.messages().append(&self.session, messages, None, None).await.expect("appended").answer.ids
    }

    /// Reads the session into a memory that has it not.
    async fn keep(&self, loaded: &LoadedSessions) {
        match loaded.session(self.key).await.expect("read") {
            SessionLookup::Loaded(_) => panic!("it is there"),
            SessionLookup::Missing(vacancy) => vacancy.keep(&Arc::new(self.load().await)),
        }
    }

    async fn load(&self) -> LoadedSession {
        self.load_other(self.key).await
    }

    async fn load_other(&self, key: SessionKey) -> LoadedSession {
        self.load_at(key, None).await
    }

    async fn load_at(&self, key: SessionKey, at: Option<Revision>) -> LoadedSession {
        let source = self.store.views().source(key, at).await.expect("the rows");
        let policy = Arc::new(parse_policy(&source.policy, &[]).expect("a policy"));
        LoadedSession::new(&self.store, source, policy).await.expect("a session")
    }
}

fn message(role: Role, bodies: Vec<PartBody>) -> NewMessage {
    NewMessage::sealed(role, bodies.into_iter().map(NewPart::new).collect())
}

/// Messages with parts of every kind and with every field that a client can set.
fn messages() -> Vec<Vec<NewMessage>> {
    let text = |words: &str| PartBody::Text(words.to_owned());
    let media = |bytes: usize| Media {
        mime_type: "image/png".to_owned(),
        name: "a.png".to_owned(),
        source: MediaSource::Bytes(vec![7; bytes]),
    };
    let time = Some(Timestamp(1_700_000_000_000_001));
    let call = PartBody::ToolCall(ToolCall {
        call_id: "call_1".to_owned(),
        tool: "read".to_owned(),
        input_json: r#"{"path": "a.rs",  "n": 1.0}"#.to_owned(),
        start_time: time,
        end_time: time,
    });
    let result = |call_id: &str| {
        PartBody::ToolResult(ToolResult {
            call_id: call_id.to_owned(),
            answers: Answers::Nearest,
            status: ResultStatus::Error,
            output: "no such file".to_owned(),
            attachments: vec![media(3)],
            start_time: time,
            end_time: None,
        })
    };
    let usage = Usage { input: 40, output: 2, ..Usage::default() };
    let step = PartBody::Step(ReplyStep { finish_reason: "stop".to_owned(), usage: Some(usage) });
    let opaque =
        PartBody::Opaque(Opaque { provider: "anthropic".to_owned(), kind: "thinking".to_owned(), data: vec![0, 255] });
    let marker = PartBody::Marker(Marker { name: "pause".to_owned(), text: "A pause.".to_owned() });
    let mut reply = message(Role::Assistant, vec![PartBody::Reasoning("Hm.".to_owned()), opaque, call, step]);
    reply.finish = Some(Finish {
        reason: Some(FinishReason::ToolCalls),
        detail: "tool_use".to_owned(),
        usage: Some(usage),
        view: None,
    });
    (reply.model, reply.provider, reply.origin_time) = ("m".to_owned(), "p".to_owned(), time);
    let mut request = message(Role::User, vec![text("Look at this."), PartBody::Media(media(100_000)), marker]);
    (request.client_id, request.metadata_json) = (Some("first".to_owned()), Some(r#"{"b": 1, "a": 2}"#.to_owned()));
    (request.parts[0].client_id, request.parts[0].metadata_json) = (Some("part".to_owned()), Some("{}".to_owned()));
    let record = NewMessage {
        kind: MessageKind::Record,
        ..message(Role::User, vec![PartBody::Record(Record { kind: "line".to_owned(), data: "x".to_owned() })])
    };
    vec![
        vec![message(Role::System, vec![text("Be brief."), text("")])],
        vec![request.clone()],
        vec![request],
        vec![reply, message(Role::Tool, vec![result("call_1")])],
        vec![record],
        vec![message(Role::Tool, vec![result("nobody")]), message(Role::User, vec![text(&"Long. ".repeat(30_000))])],
    ]
}

#[tokio::test]
async fn appended_messages_are_known_without_a_query_and_equal_their_rows() {
    let fixture = Fixture::start().await;
    let loaded = LoadedSessions::new(fixture.store.clone(), 1 << 30);
    fixture.keep(&loaded).await;
    for messages in messages() {
        fixture.write(messages).await;
        let rows = fixture.store.upkeep().rows_read();
        let (session, pending) = loaded.session(fixture.key).await.expect("read").loaded().expect("it is kept");
        assert_eq!(fixture.store.upkeep().rows_read(), rows, "a query was made");
        same_as_rows(&fixture, &session).await;
        assert_eq!(pending, fixture.store.compactions().pending(fixture.key).await.expect("read"));
    }
}

#[tokio::test]
async fn anything_but_a_plain_append_is_read() {
    let fixture = Fixture::start().await;
    let loaded = LoadedSessions::new(fixture.store.clone(), 1 << 30);
    let check = async || match loaded.session(fixture.key).await.expect("read") {
        SessionLookup::Loaded((session, _)) => same_as_rows(&fixture, &session).await,
        SessionLookup::Missing(vacancy) => vacancy.keep(&Arc::new(fixture.load().await)),
    };
    check().await;
    let text = |words: &str| PartBody::Text(words.to_owned());
    let ids =
        fixture.write(vec![message(Role::User, vec![text("One.")]), message(Role::User, vec![text("Two.")])]).await;
    check().await;
    let open = NewMessage { finish: None, ..message(Role::Assistant, vec![text("I")]) };
    let open = fixture.write(vec![open]).await;
    check().await;
    fixture.append(10).await;
    check().await;
    let (first, open) = (MessageId(ids[0]).to_string(), MessageId(open[0]).to_string());
    let finish = || fixture.app.messages().finish(&fixture.session, &open, Finish::default(), None);
    finish().await.expect("sealed");
    check().await;
    fixture.append(10).await;
    check().await;
    fixture.app.messages().rewind(&fixture.session, &first, None).await.expect("rewound");
    check().await;
    fixture.append(10).await;
    check().await;
}

/// Otherwise each compaction of a long session costs its whole view.
#[tokio::test]
async fn behind_a_change_of_the_view_only_what_is_new_is_read() {
    let fixture = Fixture::start().await;
    let loaded = LoadedSessions::new(fixture.store.clone(), 1 << 30);
    let words = (0..120).map(|number| message(Role::User, vec![PartBody::Text(format!("word{number}"))]));
    let ids = fixture.write(words.collect()).await;
    let name = |at: usize| MessageId(ids[at]).to_string();
    fixture.keep(&loaded).await;
    let check = async || {
        fixture.append(10).await;
        let rows = fixture.store.upkeep().rows_read();
        let (session, pending) = loaded.session(fixture.key).await.expect("read").loaded().expect("it is kept");
        let rows = fixture.store.upkeep().rows_read() - rows;
        assert!(rows < 20, "{rows} rows");
        same_as_rows(&fixture, &session).await;
        assert_eq!(pending, fixture.store.compactions().pending(fixture.key).await.expect("read"));
    };
    let (messages, compactions) = (fixture.app.messages(), fixture.app.compactions());
    messages.rewind(&fixture.session, &name(110), None).await.expect("rewound");
    check().await;
    messages.pin(&fixture.session, &name(5)).await.expect("pinned");
    check().await;
    let new = |tail: usize| NewSummary { text: "So far.".to_owned(), tail_start: name(tail), ..NewSummary::default() };
    compactions.supply_summary(&fixture.session, new(40)).await.expect("a summary");
    check().await;
    messages
        .edit(&fixture.session, &name(50), &[NewPart::new(PartBody::Text("new".into()))], None)
        .await
        .expect("edited");
    check().await;
    compactions.supply_summary(&fixture.session, new(60)).await.expect("another one");
    check().await;
    messages.unpin(&fixture.session, &name(5)).await.expect("unpinned");
    check().await;
}

#[tokio::test]
async fn what_a_compaction_cleared_is_known_of_messages_in_memory() {
    let fixture = Fixture::start().await;
    let preset = SessionChange { preset: Some("longhand@1".to_owned()), ..SessionChange::default() };
    fixture.app.sessions().update(&fixture.session, preset).await.expect("a preset");
    for number in 0..30 {
        let call_id = format!("call_{number}");
        let call = ToolCall { call_id: call_id.clone(), tool: "bash".to_owned(), ..ToolCall::default() };
        let result = ToolResult {
            call_id,
            answers: Answers::Nearest,
            status: ResultStatus::Completed,
            output: format!("line {number}\n").repeat(200),
            attachments: Vec::new(),
            start_time: None,
            end_time: None,
        };
        let call = message(Role::Assistant, vec![PartBody::ToolCall(call)]);
        fixture.write(vec![call, message(Role::Tool, vec![PartBody::ToolResult(result)])]).await;
    }
    let loaded = LoadedSessions::new(fixture.store.clone(), 1 << 30);
    fixture.keep(&loaded).await;
    // Of the two parts that are cleared, the second compaction clears one again.
    for (which, head) in [([1, 3], 20), ([3, 5], 10)] {
        let wanted = NewCompaction::of_kind(CompactionKind::Prune);
        fixture.app.compactions().start(&fixture.session, wanted).await.expect("a compaction");
        let jobs = fixture.store.jobs();
        let (job, _) = jobs.ready(Timestamp(i64::MAX), 1).await.expect("read").pop().expect("a job");
        let claim = jobs.claim(job, Uuid::nil(), Timestamp(i64::MAX)).await.expect("written").expect("a claim");
        let (session, _) = loaded.session(fixture.key).await.expect("read").loaded().expect("it is kept");
        let part = |at: usize| {
            let message = &session.source.messages[at].message;
            (message.id, message.parts[0].id, Truncation { head, middle: "…".to_owned(), ..Truncation::default() })
        };
        let changes = Changes { parts: which.map(part).to_vec(), ..Changes::default() };
        let commit = store::Commit {
            claim,
            changes,
            tokens_before: 2_000,
            tokens_after: 1_000,
            first_changed_index: 1,
            invalidated_tokens: 2_000,
            usage_before: None,
            overhead_tokens: 0,
            stopped: None,
        };
        assert_eq!(jobs.commit(commit).await.expect("committed"), store::CommitOutcome::Done);
        fixture.append(10).await;
        let (session, _) = loaded.session(fixture.key).await.expect("read").loaded().expect("it is kept");
        assert_eq!(session.source.messages.iter().filter(|source| !source.pruned.is_empty()).count(), which[1] / 2 + 1);
        same_as_rows(&fixture, &session).await;
    }
    fixture.app.compactions().undo(&fixture.session, None).await.expect("undone");
    match loaded.session(fixture.key).await.expect("read") {
        SessionLookup::Loaded((session, _)) => same_as_rows(&fixture, &session).await,
        SessionLookup::Missing(vacancy) => vacancy.keep(&Arc::new(fixture.load().await)),
    }
}

#[tokio::test]
async fn an_append_beside_an_open_message_is_known_without_a_query() {
    let fixture = Fixture::start().await;
    let loaded = LoadedSessions::new(fixture.store.clone(), 1 << 30);
    let text = |words: &str| PartBody::Text(words.to_owned());
    let open = NewMessage { finish: None, ..message(Role::Assistant, vec![text("I")]) };
    let open = fixture.write(vec![open]).await;
    fixture.keep(&loaded).await;
    for _ in 0..3 {
        fixture.append(10).await;
        let rows = fixture.store.upkeep().rows_read();
        let (session, _) = loaded.session(fixture.key).await.expect("read").loaded().expect("it is kept");
        assert_eq!(fixture.store.upkeep().rows_read(), rows, "a query was made");
        same_as_rows(&fixture, &session).await;
    }
    let open = MessageId(open[0]).to_string();
    let finish = fixture.app.messages().finish(&fixture.session, &open, Default::default(), None);
    finish.await.expect("sealed");
    fixture.append(10).await;
    let (session, _) = loaded.session(fixture.key).await.expect("read").loaded().expect("it is kept");
    same_as_rows(&fixture, &session).await;
}

/// Otherwise each append of many callers would cost as much as the whole view.
#[tokio::test]
async fn callers_that_ask_for_a_fact_fold_a_commit_once_and_copy_nothing() {
    let fixture = Fixture::start().await;
    fixture.append(10).await;
    let loaded = LoadedSessions::new(fixture.store.clone(), 1 << 30);
    fixture.keep(&loaded).await;
    let fact = async |at_least| {
        let fact = |session: &LoadedSession| (std::ptr::from_ref(session).addr(), session.source.at);
        loaded.fact(fixture.key, at_least, fact).await.expect("read").loaded().expect("it is kept")
    };
    let (place, mut before) = fact(0).await;
    for _ in 0..5 {
        let messages = (0..16).map(|_| message(Role::User, vec![PartBody::Text("a".to_owned())])).collect();
        fixture.write(messages).await;
        for at_least in before..=before + 16 {
            let newest = if at_least == before { before } else { before + 16 };
            assert_eq!(fact(at_least).await, (place, newest), "a copy, or not all of the commit");
        }
        before += 16;
    }
}

#[tokio::test]
async fn a_repeated_request_is_answered_with_the_context_usage_of_now() {
    let fixture = Fixture::start().await;
    let request = Some(store::RequestKey { id: "once".to_owned(), payload_hash: [1; 32] });
    let caller =
        fixture.longhand.caller(crate::app::access::Access::owner(), "agent".to_owned(), request).expect("a caller");
    let append = async || {
        let words = message(Role::User, vec![PartBody::Text("a".repeat(400))]);
        caller.messages().append(&fixture.session, vec![words], None, None).await.expect("appended")
    };
    let first = append().await;
    // Nobody has asked for the usage behind this one.
    let words = message(Role::User, vec![PartBody::Text("b".repeat(4_000))]).checked(None);
    let input = store::AppendInput {
        message: words,
        token_counts: None,
        reports_overflow: false,
        received: None,
        keeps_erased: false,
    };
    fixture
        .store
        .history()
        .append(fixture.key, Requester::default(), None, CheckedInput::trusted((vec![input], AppendChanges::default())))
        .await
        .expect("appended");
    let again = append().await;
    assert_eq!((&again.ids, again.revision), (&first.ids, first.revision));
    let tokens = again.context.context_tokens.expect("it is small");
    assert_eq!(tokens, fixture.load().await.context().tokens);
    assert!(Some(tokens) > first.context.context_tokens, "{tokens}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_callers_of_one_session_each_get_a_state_with_their_message() {
    let fixture = Arc::new(Fixture::start().await);
    fixture.append(400).await;
    let one = fixture.load().await.context().tokens;
    let callers = (0..16).map(|_| {
        let fixture = fixture.clone();
        tokio::spawn(async move {
            for _ in 0..20 {
                let words = message(Role::User, vec![PartBody::Text("a".repeat(400))]);
                let answer = fixture.app.messages().append(&fixture.session, vec![words], None, None).await;
                let answer = answer.expect("appended");
                let tokens = answer.context.context_tokens.expect("it is small");
                // Every revision but the session's first is a message of this length.
                assert!(tokens >= (answer.revision - 1) * (one - 2), "{tokens} at {}", answer.revision);
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.expect("a caller");
    }
    let now = fixture.app.sessions().get(&fixture.session).await.expect("a session").session.context;
    assert_eq!(now, Some(fixture.load().await.context()));
}

/// Compares a session with its rows.
async fn same_as_rows(fixture: &Fixture, session: &LoadedSession) {
    is_same(session, &fixture.load().await);
}

/// Compares a session with another one. Counts are a cache.
fn is_same(session: &LoadedSession, read: &LoadedSession) {
    let plain = |session: &LoadedSession| {
        let mut source = session.source.clone();
        source.messages.iter_mut().for_each(|message| message.counts = None);
        source
    };
    assert_eq!(plain(session), plain(read));
    assert_eq!(session.fold.hashes, read.fold.hashes);
    assert_eq!(session.context(), read.context());
}

#[tokio::test]
async fn a_session_that_grows_large_is_read_with_reserved_memory() {
    let fixture = Fixture::start().await;
    let loaded = LoadedSessions::new(fixture.store.clone(), 1 << 30);
    let third = limits::LARGE_VIEW_BYTES / 3;
    fixture.append(third).await;
    fixture.keep(&loaded).await;
    fixture.append(third).await;
    let (session, _) = loaded.session(fixture.key).await.expect("read").loaded().expect("it is kept");
    assert_eq!(session.fold.hashes, fixture.load().await.fold.hashes);
    fixture.append(third).await;
    assert!(loaded.session(fixture.key).await.expect("read").loaded().is_none(), "it has become large");
    assert!(!loaded.is_kept(fixture.key), "nothing of it is kept");
    fixture.keep(&loaded).await;
    assert!(!loaded.is_kept(fixture.key), "nor is it kept anew");
}

#[tokio::test]
async fn the_budget_holds_for_sessions_without_words() {
    let fixture = Fixture::start().await;
    let budget = 1 << 20;
    let loaded = LoadedSessions::new(fixture.store.clone(), budget);
    let policy_bytes = POLICY_COPIES * fixture.load().await.source.policy.json.len();
    for key in 0..500 {
        let mut session = fixture.load().await;
        session.source.session = SessionKey(key);
        let lookup = loaded.session(SessionKey(key)).await.expect("read");
        let SessionLookup::Missing(vacancy) = lookup else { panic!("{key} is there") };
        vacancy.keep(&Arc::new(session));
    }
    let kept = loaded.size().0;
    assert!(kept > 10 && kept * policy_bytes <= budget, "{kept} sessions with policies of {policy_bytes} bytes");
    assert!(loaded.is_kept(SessionKey(499)), "the newest is kept");
}

#[tokio::test]
async fn a_session_takes_at_most_half_of_the_budget() {
    let fixture = Fixture::start().await;
    fixture.append(100_000).await;
    let alone = LoadedSessions::new(fixture.store.clone(), 1 << 30);
    fixture.keep(&alone).await;
    let bytes = usize::try_from(alone.size().1).expect("few");
    for (budget, is_kept) in [(2 * bytes, true), (2 * bytes - 2, false)] {
        let loaded = LoadedSessions::new(fixture.store.clone(), budget);
        fixture.keep(&loaded).await;
        assert_eq!(loaded.is_kept(fixture.key), is_kept, "a budget of {budget} bytes");
    }
}

/// Sessions that random steps change, and the words of each message.
struct Life<'a> {
    fixture: &'a Fixture,
    sessions: Vec<SessionKey>,
    messages: Vec<(String, Vec<(Uuid, String)>)>,
    erased: Vec<String>,
    /// How many summaries took effect, and how often a memory had a session.
    summaries: &'a AtomicUsize,
    loads: &'a AtomicUsize,
    /// How often one in memory was told as it was before.
    earlier: &'a AtomicUsize,
}

impl Life<'_> {
    async fn create(&mut self) {
        let new = NewSession { client_id: Some(format!("client-{}", self.sessions.len() % 2)), ..Default::default() };
        // The other sessions have the client's ids, unless they are erased.
        let Ok(created) = self.fixture.app.sessions().create(new).await else { return };
        let (info, _) = created.answer;
        self.add(info.session.id.to_string()).await;
    }

    async fn add(&mut self, id: String) {
        let key = self.fixture.store.sessions().find(&Visibility::default(), &id).await.expect("it is there");
        if !self.sessions.contains(&key) {
            self.sessions.push(key);
            self.messages.push((id, Vec::new()));
        }
    }

    async fn append(&mut self, at: usize, number: usize, is_open: bool) {
        let words = format!("word{number}of{at}");
        let mut append = message(Role::User, vec![PartBody::Text(words.clone())]);
        append.finish.take_if(|_| is_open);
        let (id, known) = &mut self.messages[at];
        if let Ok(answer) = self.fixture.app.messages().append(id, vec![append], None, None).await {
            known.extend(answer.answer.ids.first().map(|id| (*id, words)));
        }
    }

    /// Takes a step. The store refuses some of them.
    async fn take(&mut self, (which, step, number): (usize, u8, usize)) {
        let app = &self.fixture.app;
        let at = which % self.sessions.len();
        let (id, known) = self.messages[at].clone();
        let chosen = known.get(number % known.len().max(1)).cloned();
        let named = chosen.as_ref().map(|(id, _)| MessageId(*id).to_string()).unwrap_or_default();
        let update = |change| async { drop(app.sessions().update(&id, change).await) };
        match step {
            0..6 => self.append(at, number, false).await,
            6 => self.append(at, number, true).await,
            7 => drop(app.messages().finish(&id, &named, Finish::default(), None).await),
            8 => drop(app.messages().rewind(&id, &named, None).await),
            9 => drop(app.messages().edit(&id, &named, &[NewPart::new(PartBody::Text("new".into()))], None).await),
            10 => drop(app.messages().pin(&id, &named).await),
            11 => drop(app.compactions().undo(&id, None).await),
            12 => update(SessionChange { preset: Some("suna@2026".to_owned()), ..Default::default() }).await,
            13 => {
                let window = ModelWindow { context: 1_000 + number as i64, ..ModelWindow::default() };
                update(SessionChange { window: Some(window), ..Default::default() }).await;
            }
            14 => update(SessionChange { title: Some(number.to_string()), ..Default::default() }).await,
            15 => drop(app.sessions().archive(&id).await),
            16 => drop(app.sessions().restore(&id).await),
            17 => {
                let forked = app.sessions().fork(&id, ForkPoint::default(), None, String::new()).await;
                if let Ok(forked) = forked {
                    self.add(forked.answer.0.session.id.to_string()).await;
                }
            }
            18 => {
                self.erase(&id, EraseTarget::Messages(vec![named])).await;
                self.erased.extend(chosen.map(|(_, words)| words));
            }
            19 => {
                self.erase(&id, EraseTarget::Session).await;
                self.erased.extend(known.into_iter().map(|(_, words)| words));
            }
            20 => drop(app.messages().unpin(&id, &named).await),
            21 => drop(app.messages().mark_words(&id, &named, Some(WordsStance::Struck)).await),
            22 => drop(app.compactions().redo(&id, None).await),
            23 | 24 => {
                // Its own words follow no erasure; the record beside it does.
                let text = "What they said.".to_owned();
                let new = NewSummary { text, tail_start: named, ..NewSummary::default() };
                let supplied = app.compactions().supply_summary(&id, new).await;
                self.summaries.fetch_add(usize::from(supplied.is_ok()), Ordering::Relaxed);
            }
            _ => self.create().await,
        }
    }

    async fn erase(&self, id: &str, target: EraseTarget) {
        let request = EraseRequest { target, reason: "a test".to_owned(), dry_run: false, expected_revision: None };
        drop(self.fixture.app.content().erase(id, request).await);
    }

    /// Checks that a session in memory as it was before is what the rows say of then.
    async fn check_earlier(&self, session: &LoadedSession) {
        for at in (1..=session.source.at).rev().take(4) {
            if let Some(earlier) = session.at(at) {
                self.earlier.fetch_add(1, Ordering::Relaxed);
                is_same(&earlier, &self.fixture.load_at(session.source.session, Some(at)).await);
            }
        }
    }

    /// Checks that what memory answers is what the rows say.
    async fn check(&self, loaded: &LoadedSessions) {
        for (key, (id, _)) in self.sessions.iter().zip(&self.messages) {
            let read = self.fixture.load_other(*key).await;
            match loaded.session(*key).await.expect("read") {
                SessionLookup::Loaded((session, pending)) => {
                    self.loads.fetch_add(1, Ordering::Relaxed);
                    is_same(&session, &read);
                    self.check_earlier(&session).await;
                    assert_eq!(pending, self.fixture.store.compactions().pending(*key).await.expect("read"));
                    let words = format!("{session:?}");
                    assert!(self.erased.iter().all(|erased| !words.contains(erased)), "erased words are there");
                }
                SessionLookup::Missing(vacancy) => vacancy.keep(&Arc::new(read)),
            }
            let (session, policy) = self.fixture.store.sessions().get(*key).await.expect("read");
            for name in [Some(id), session.client_id.as_ref()].into_iter().flatten() {
                let known = match loaded.settings("", name) {
                    Some(known) => known,
                    None => loaded.read_settings(*key, ("", name), &[]).await.expect("read"),
                };
                assert_eq!((known.key, &known.window), (*key, &session.window), "the session {name}");
                assert_eq!(known.policy, parse_policy(&policy, &[]).expect("a policy"));
            }
        }
        for name in ["client-0", "client-1"] {
            let found = self.fixture.store.sessions().find(&Visibility::default(), name).await.ok();
            let known = loaded.settings("", name).map(|known| known.key);
            assert!(known.is_none() || known == found, "{name} is {known:?} in memory and {found:?} in the store");
        }
    }
}

/// Whatever is done to sessions, a memory that was filled before answers as one that is filled now: with room for all of
/// them and with room for one, and the daemon's own.
#[tokio::test]
async fn memory_answers_as_the_rows_do_whatever_is_done() {
    let steps = prop::collection::vec((0_usize..8, 0_u8..26, 0_usize..1_000), 10..60);
    let [summaries, loads, earlier] = [const { AtomicUsize::new(0) }; 3];
    let config = Config { cases: 32, max_shrink_iters: 200, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&steps, |steps| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let life = async {
            let fixture = Fixture::start().await;
            let (sessions, messages, erased) = (Vec::new(), Vec::new(), Vec::new());
            let (fixture, summaries, loads, earlier) = (&fixture, &summaries, &loads, &earlier);
            let mut life = Life { fixture, sessions, messages, erased, summaries, loads, earlier };
            life.create().await;
            let own = fixture.app.shared.loaded.clone();
            let memories = [own, memory(fixture, 1 << 30), memory(fixture, 40_000)];
            for step in steps {
                life.take(step).await;
                for memory in &memories {
                    life.check(memory).await;
                }
            }
        };
        std::thread::scope(|scope| scope.spawn(|| runtime.expect("a runtime").block_on(life)).join())
            .map_err(|_| TestCaseError::fail("memory and rows differ"))
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    let counts = [summaries, loads, earlier].map(AtomicUsize::into_inner);
    let is_enough = counts[0] > 10 && counts[1] > 1_000 && counts[2] > 1_000;
    assert!(is_enough, "summaries, sessions that were in a memory, and earlier ones: {counts:?}");
}

fn memory(fixture: &Fixture, bytes: usize) -> LoadedSessions {
    LoadedSessions::new(fixture.store.clone(), bytes)
}

/// A tokenizer takes seconds for some megabytes, and on a thread of the runtime nobody else would be served meanwhile.
#[tokio::test]
async fn a_large_message_is_counted_beside_the_runtime() {
    let policy = crate::presets::policy("suna@2026");
    let text = "0123456789abcdef ".repeat(20_000);
    let alone = PartBody::Text(text);
    let (counted, parts) = (policy.clone(), vec![Arc::new(alone.clone())]);
    let mut counting = Box::pin(counts::count(&counted, Role::User, parts));
    assert!(counting.as_mut().now_or_never().is_none(), "the thread of the runtime is free for others");
    let counts = counting.await.expect("it is counted");
    assert_eq!(counts, tokens::count(&policy, Role::User, &[&alone]));
}

/// The text of one that counts for a long time is in pieces, between which others have their turns.
#[tokio::test]
async fn a_large_message_waits_for_no_whole_message_of_another_caller() {
    let policy = crate::presets::policy("suna@2026");
    // Letters without a blank are one piece of text, which no boundary cuts.
    let letters = |first: char, count: u32| {
        let others = (0..count).map(|at| char::from(b'a' + (at.wrapping_mul(at) >> 7) as u8 % 26));
        std::iter::once(first).chain(others).collect::<String>()
    };
    // Texts that a thread has counted before take it no time.
    for (others, first) in [("one", 'x'), ("another", 'y')] {
        let letters = |count| letters(first, count);
        let (turns, ended, policy) = (Turns::new(1, 1, 10), Mutex::new(Vec::new()), &policy);
        let count = |tenant: &str, name: &'static str, letters: String| {
            let (ended, part) = (&ended, Arc::new(PartBody::Text(letters)));
            let turn = turns.begin(&Share::new(tenant.into(), "token".into())).expect("room");
            turn.take_turns(async move {
                let counts = counts::count(policy, Role::User, vec![part.clone()]).await.expect("it is counted");
                assert_eq!(counts, tokens::count(policy, Role::User, &[&*part]));
                ended.lock().expect("an order").push(name);
            })
        };
        let large = count("one", "large", letters(1 << 18));
        tokio::join!(large, count(others, "small", letters(1 << 14)), count(others, "small", letters(1 << 14)));
        assert_eq!(*ended.lock().expect("an order"), ["small", "small", "large"], "of {others}");
    }
}
