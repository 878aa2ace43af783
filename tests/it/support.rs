//! Support for tests of the whole: a store with its writer and scheduler in a temporary folder, a scripted summarizer,
//! conversations as text, an event watcher with a deadline, and direct access to the database.
//!
//! A conversation has one message per line: a name, then its content. The first letter of the name is the role (`u`ser,
//! `a`ssistant, `t`ool, `s`ystem, `r`ecord); the name is the message's client id, unless it is that letter alone.
//!
//! ```text
//! u1 "fix the bug"
//! a1 "looking" 4000c call=c1 usage=12000/300      words, 4 000 characters of filler, a call, usage in/out
//! t1 result=c1:3000c                              a result of 3 000 characters; result=c1:words otherwise
//! a2 open
//! ```

use crate::database::{Database, copy_store};
use crate::engines::open_store;
use longhand::app::append::{AppendAnswer, ListMessages};
use longhand::app::events::{EventStream, Frame, Start, SubscribeRequest};
use longhand::app::session_list::{ListSessions, SessionConditions};
use longhand::app::sessions::{NewSession, SessionChange};
use longhand::app::summary_tasks::{LeaseClaim, LeaseRequest, TaskReply};
use longhand::app::views::{ServedView, ViewRequest};
use longhand::app::{self, Caller, Longhand, RequestKey};
use longhand::clock::Clock;
use longhand::config::{Hook, Hooks};
use longhand::model::Revision;
use longhand::model::event::{Event, EventKind};
use longhand::model::message::{FinishReason, Message, MessageKind, NewMessage, Role};
use longhand::model::part::{Answers, Media, NewPart, PartBody, Record, ResultStatus, ToolCall, ToolResult};
use longhand::model::usage::{ModelWindow, Usage};
use longhand::policy::summary::{SummaryInput, SummaryOutput};
use longhand::scheduler::{self, Scheduler, SchedulerHandle};
use longhand::search;
use longhand::store::{Finding, ScrubOptions};
use longhand::summarizer::{self, Extractive, Levels, Observer, Summarizer};
use rusqlite::Connection;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Deadline of every wait of a test.
const DEADLINE: Duration = Duration::from_secs(60);

/// The number of workers of a test's daemon.
const TWO_WORKERS: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// A temporary folder that only its owner can enter, as required for a data directory.
pub(crate) fn private_folder() -> TempDir {
    let private = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().permissions(private).tempdir().expect("a temporary folder")
}

/// Bytes of sessions that a test's daemon keeps in memory: `LONGHAND_TEST_LOADED_MIB` in MiB, so that the suite can run
/// with none.
pub(crate) fn loaded_bytes() -> usize {
    let mib = std::env::var("LONGHAND_TEST_LOADED_MIB").ok().and_then(|mib| mib.parse().ok());
    mib.unwrap_or(longhand::limits::LOADED_MIB_DEFAULT) << 20
}

/// Options with an operator's program that refuses every summary.
pub(crate) fn refusing() -> scheduler::Options {
    let command = vec!["/bin/echo".to_owned(), "{\"refuse\": \"not now\"}".to_owned()];
    let hook = Hook { command, timeout_seconds: 20, required: true, messages: false };
    let hooks = Hooks { pre_compact: Some(hook), post_compact: None };
    scheduler::Options { hooks, ..scheduler::Options::default() }
}

/// A page of the newest sessions of every state.
pub(crate) fn all_sessions(page_size: i64) -> ListSessions {
    let conditions = SessionConditions { archived: true, ..SessionConditions::default() };
    ListSessions { page_size, conditions, ..ListSessions::default() }
}

/// Waits for a future until the deadline.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(done) => done,
        Err(_) => panic!("waited in vain for {what}"),
    }
}

/// A store in a temporary folder with everything that runs over it, except a network.
pub(crate) struct TestApp {
    /// The API, as its daemon has it.
    pub(crate) longhand: Longhand,
    /// The API, for a caller without a name.
    pub(crate) app: Caller,
    /// The clock of the store and the scheduler.
    pub(crate) clock: Clock,
    /// Wakes the scheduler.
    pub(crate) wake: SchedulerHandle,
    directory: Arc<TempDir>,
    summarizer: Arc<dyn Summarizer>,
    options: scheduler::Options,
    stopping: CancellationToken,
    scheduler: JoinHandle<()>,
    scrub: JoinHandle<()>,
    search: JoinHandle<()>,
    writer: JoinHandle<()>,
}

impl TestApp {
    /// A new store with the built-in summarizer.
    pub(crate) async fn start() -> Self {
        Self::with(Arc::new(Extractive)).await
    }

    /// A new store with the test's own summarizer.
    pub(crate) async fn with(summarizer: Arc<dyn Summarizer>) -> Self {
        Self::with_options(summarizer, scheduler::Options::default()).await
    }

    /// A new store with the test's own summarizer and one worker: jobs are claimed in the order in which they are handed
    /// out, while of two workers each may claim its job first.
    pub(crate) async fn with_one_worker(summarizer: Arc<dyn Summarizer>) -> Self {
        let options = scheduler::Options { workers: NonZeroUsize::MIN, ..scheduler::Options::default() };
        Self::open_with(Arc::new(private_folder()), summarizer, options).await
    }

    /// A new store with the test's own summarizer and scheduler options, except for the number of workers.
    pub(crate) async fn with_options(summarizer: Arc<dyn Summarizer>, options: scheduler::Options) -> Self {
        let options = scheduler::Options { workers: TWO_WORKERS, ..options };
        Self::open_with(Arc::new(private_folder()), summarizer, options).await
    }

    /// A store on a copy of a closed store.
    pub(crate) async fn copy_of(directory: &Path) -> Self {
        let copy = private_folder();
        copy_store(directory, copy.path()).await;
        Self::open(Arc::new(copy), Arc::new(Extractive)).await
    }

    /// A store on a copy of a closed store, altered by SQL as with a database tool.
    pub(crate) async fn altered(directory: &Path, sql: &str) -> Self {
        let copy = private_folder();
        copy_store(directory, copy.path()).await;
        let mut database = Database::of(copy.path());
        database.drop_protection();
        let altered = database.execute(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
        assert!(altered > 0, "nothing to alter: {sql}");
        database.set_head();
        drop(database);
        Self::open(Arc::new(copy), Arc::new(Extractive)).await
    }

    /// Leases the next summary task and completes it.
    pub(crate) async fn complete_task(&self, reply: TaskReply) {
        let request = LeaseRequest { wait: Some(Duration::from_secs(60)), ..LeaseRequest::default() };
        let leased = self.app.summary_tasks().lease(request).await.expect("offered").expect("a task");
        let (compaction, token) = (leased.task.compaction.to_string(), leased.token);
        let claim = LeaseClaim { compaction, token, base_revision: None };
        self.app.summary_tasks().complete(&claim, reply).await.expect("accepted");
    }

    async fn open(directory: Arc<TempDir>, summarizer: Arc<dyn Summarizer>) -> Self {
        let options = scheduler::Options { workers: TWO_WORKERS, ..scheduler::Options::default() };
        Self::open_with(directory, summarizer, options).await
    }

    async fn open_with(directory: Arc<TempDir>, summarizer: Arc<dyn Summarizer>, options: scheduler::Options) -> Self {
        let kept = options.clone();
        let scheduling = scheduler::Options { loaded_bytes: loaded_bytes(), ..options };
        let clock = Clock::default();
        let (store, writer) = open_store(directory.path(), clock.clone()).await;
        let writer = tokio::spawn(writer);
        let stopping = CancellationToken::new();
        let scheduler =
            Scheduler::new(store.clone(), clock.clone(), Levels::same_for_all(summarizer.clone()), scheduling);
        let options = app::Options {
            default_preset: "opencode@seed".to_owned(),
            defaults: Vec::new(),
            models: longhand::policy::models::Models::built_in(),
            vocabularies: Vec::new(),
            entrance: longhand::app::entrance::Entrance::new(&clock),
            stopping: stopping.clone(),
        };
        let wake = scheduler.handle();
        let longhand = Longhand::new(store, wake.clone(), &clock, options);
        let app = longhand.caller(longhand::app::access::Access::owner(), String::new(), None).expect("a caller");
        let rate = ScrubOptions { bytes_per_second: 1 << 40, interval: None };
        let scrub = tokio::spawn(longhand.store().upkeep().clone().scrub(rate, clock.clone(), stopping.clone()));
        let searching = search::Service::open(longhand.store().clone(), clock.clone(), search::Options::default());
        let searching = searching.expect("the search index opens");
        let cancel = stopping.clone();
        let search = tokio::spawn(searching.run(cancel));
        let cancel = stopping.clone();
        let scheduler = tokio::spawn(async move { scheduler.run(cancel).await });
        Self {
            longhand,
            app,
            clock,
            wake,
            directory,
            summarizer,
            options: kept,
            stopping,
            scheduler,
            scrub,
            search,
            writer,
        }
    }

    /// A caller with a name.
    pub(crate) fn by(&self, actor: &str) -> Caller {
        self.longhand.caller(longhand::app::access::Access::owner(), actor.to_owned(), None).expect("a caller")
    }

    /// A caller with a request id; the payload represents the rest of the request.
    pub(crate) fn once(&self, id: &str, payload: &str) -> Caller {
        let payload_hash = *blake3::hash(payload.as_bytes()).as_bytes();
        let request = RequestKey { id: id.to_owned(), payload_hash };
        self.longhand.caller(longhand::app::access::Access::owner(), String::new(), Some(request)).expect("a caller")
    }

    /// The folder of the database.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Asks everything that runs over the store to end, as a daemon does first when it stops.
    pub(crate) fn begin_stop(&self) {
        self.stopping.cancel();
    }

    /// Stops as a daemon does: unfinished work is dropped, accepted writes are written. The folder stays.
    pub(crate) async fn stop(self) -> Arc<TempDir> {
        let Self { longhand, app, wake, directory, stopping, scheduler, scrub, search, writer, .. } = self;
        stopping.cancel();
        soon("the scrub to stop", scrub).await.expect("no panic in the scrub");
        soon("the search index to stop", search).await.expect("no panic in the search index");
        soon("the scheduler to stop", scheduler).await.expect("no panic in the scheduler");
        drop((longhand, app, wake));
        soon("the writer to end: somebody still holds the store", writer).await.expect("no panic in the writer");
        directory
    }

    /// Stops, and starts again on the same files.
    pub(crate) async fn restart(self) -> Self {
        let (summarizer, options) = (self.summarizer.clone(), self.options.clone());
        let directory = self.stop().await;
        Self::open_with(directory, summarizer, options).await
    }

    /// Starts on the files of a stopped store.
    pub(crate) async fn reopen(directory: Arc<TempDir>, summarizer: Arc<dyn Summarizer>) -> Self {
        Self::open(directory, summarizer).await
    }

    /// Dies at once, and starts again on the same files.
    pub(crate) async fn kill(self) -> Self {
        let Self {
            longhand,
            app,
            wake,
            directory,
            summarizer,
            options,
            stopping,
            scheduler,
            scrub,
            search,
            writer,
            ..
        } = self;
        writer.abort();
        drop(soon("the writer to die", writer).await);
        // Without a writer, the workers can no longer change the disk.
        stopping.cancel();
        drop(soon("the scheduler to die", scheduler).await);
        drop(soon("the scrub to die", scrub).await);
        drop(soon("the search index to die", search).await);
        drop((longhand, app, wake));
        Self::open_with(directory, summarizer, options).await
    }

    /// A direct connection to the database: it reads the actual rows, and its writes are tampering.
    pub(crate) fn database(&self) -> Database {
        Database::of(self.directory())
    }

    /// Reads one number from the database.
    pub(crate) fn number(&self, sql: &'static str) -> i64 {
        number(self.directory(), sql)
    }

    /// Creates a session; returns its id.
    pub(crate) async fn create(&self, new: NewSession) -> String {
        let (info, existed) = self.app.sessions().create(new).await.expect("a session").answer;
        assert!(!existed);
        info.session.id.to_string()
    }

    /// Creates a session with a preset and a window; returns its id.
    pub(crate) async fn session(&self, preset: &str, context: i64, output: i64) -> String {
        self.create(NewSession { preset: preset.to_owned(), window: window(context, output), ..NewSession::default() })
            .await
    }

    /// Creates a session without automatic compactions; returns its id.
    pub(crate) async fn manual_session(&self) -> String {
        self.session("opencode@seed", 0, 0).await
    }

    /// Appends a conversation.
    pub(crate) async fn append(&self, session: &str, text: &str) -> AppendAnswer {
        let appended = self.app.messages().append(session, conversation(text), None, None).await;
        appended.unwrap_or_else(|error| panic!("{error}: {text}")).answer
    }

    /// All messages that clients wrote, records included, as they are in the history.
    pub(crate) async fn history(&self, session: &str) -> Vec<Message> {
        self.history_as_of(session, None).await
    }

    /// The same as of a revision. It is read in small pages from both ends, which must agree.
    pub(crate) async fn history_as_of(&self, session: &str, as_of: Option<Revision>) -> Vec<Message> {
        let forward = self.pages(session, as_of, false).await;
        if as_of.is_none() {
            // The newest messages of a session in memory come from there.
            for records in [false, true] {
                let list = ListMessages { page_size: 7, reverse: true, records, ..ListMessages::default() };
                let newest = self.app.messages().list(session, list).await.expect("a page").messages;
                let written = forward.iter().rev().filter(|message| records || message.kind != MessageKind::Record);
                assert_eq!(newest, written.take(7).cloned().collect::<Vec<_>>(), "the newest messages");
            }
        }
        let mut backward = self.pages(session, as_of, true).await;
        backward.reverse();
        assert_eq!(forward, backward, "a history reads the same from both ends");
        forward
    }

    async fn pages(&self, session: &str, as_of: Option<Revision>, reverse: bool) -> Vec<Message> {
        let mut messages = Vec::new();
        let mut list = ListMessages { page_size: 7, reverse, as_of, records: true, ..ListMessages::default() };
        loop {
            let page = self.app.messages().list(session, list.clone()).await.expect("a page");
            messages.extend(page.messages);
            if page.next_page_token.is_empty() {
                return messages;
            }
            list.page_token = page.next_page_token;
        }
    }

    /// The current view.
    pub(crate) async fn view(&self, session: &str) -> ServedView {
        self.app.views().get(session, ViewRequest::default()).await.expect("a view")
    }

    /// The view as of a revision.
    pub(crate) async fn view_as_of(&self, session: &str, at: Revision) -> ServedView {
        let request = ViewRequest { as_of: Some(at), ..ViewRequest::default() };
        self.app.views().get(session, request).await.expect("a view")
    }

    /// The session's newest revision.
    pub(crate) async fn revision(&self, session: &str) -> Revision {
        self.app.sessions().get(session).await.expect("the session").session.revision
    }

    /// Follows all events from the beginning of the log.
    pub(crate) async fn watch(&self) -> Watch {
        let request = SubscribeRequest { start: Start::Beginning, ..SubscribeRequest::default() };
        Watch::new(self.app.events().subscribe(request).await.expect("a stream"))
    }

    /// All events of the store so far.
    pub(crate) async fn events(&self) -> Vec<Event> {
        let head = self.number("select coalesce(max(seq), 0) from event");
        let mut watch = self.watch().await;
        while watch.log.last().is_none_or(|event| event.seq < head) && head > 0 {
            watch.frame().await;
        }
        watch.log
    }

    /// Waits until the scheduler is idle.
    pub(crate) async fn settled(&self) {
        self.until("the scheduler to settle", async || self.is_settled().await).await;
    }

    /// Waits until a condition on the database is true; it is evaluated again after every commit.
    pub(crate) async fn until(&self, what: &str, condition: impl AsyncFn() -> bool) {
        let mut commits = self.longhand.store().log().watch_head();
        let holds = async {
            loop {
                commits.mark_unchanged();
                if condition().await {
                    return;
                }
                commits.changed().await.expect("the store is open");
            }
        };
        soon(what, holds).await;
    }

    /// True if the scheduler is idle.
    pub(crate) async fn is_settled(&self) -> bool {
        self.longhand.store().jobs().is_idle().await.expect("read")
    }

    /// The findings of an integrity check of all sessions.
    pub(crate) async fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let (found, mut items) = tokio::sync::mpsc::channel(10_000);
        self.longhand.store().upkeep().verify(None, found).await.expect("a check");
        while let Some(finding) = items.recv().await {
            findings.push(finding);
        }
        findings
    }
}

/// A direct connection to the database in a folder.
pub(crate) fn connect(directory: &Path) -> Connection {
    let database = Connection::open(directory.join("longhand.db")).expect("the database opens");
    database.busy_timeout(DEADLINE).expect("a timeout");
    // As with any other database tool.
    database.pragma_update(None, "foreign_keys", false).expect("a pragma");
    database
}

/// Reads the first column of all rows, as texts.
pub(crate) fn column(database: &Connection, sql: &str) -> Vec<String> {
    let mut statement = database.prepare(sql).expect(sql);
    let texts = statement.query_map((), |row| row.get(0)).expect(sql);
    texts.collect::<Result<_, _>>().expect(sql)
}

/// Reads one value from a database.
pub(crate) fn value<T: rusqlite::types::FromSql>(database: &Connection, sql: &str) -> T {
    database.query_row(sql, (), |row| row.get(0)).expect(sql)
}

/// Reads one number from the database in a folder.
pub(crate) fn number(directory: &Path, sql: &str) -> i64 {
    Database::of(directory).number(sql)
}

/// Copies the files of a closed store.
pub(crate) fn copy_database(from: &Path, to: &Path) {
    std::fs::copy(from.join("longhand.db"), to.join("longhand.db")).expect("the database is copied");
    let log = from.join("longhand.db-wal");
    if log.exists() {
        std::fs::copy(log, to.join("longhand.db-wal")).expect("its log is copied");
    }
}

/// Follows the log and keeps its events, for the test and for its failure message.
pub(crate) struct Watch {
    stream: EventStream,
    /// All events so far.
    pub(crate) log: Vec<Event>,
    /// Number of events up to the last one that was waited for.
    seen: usize,
}

impl Watch {
    /// Follows a stream.
    pub(crate) fn new(stream: EventStream) -> Self {
        Self { stream, log: Vec::new(), seen: 0 }
    }

    /// The next frame; its events are kept.
    pub(crate) async fn frame(&mut self) -> Frame {
        let frame = soon("a frame", self.stream.next()).await.expect("the stream goes on");
        if let Frame::Events { events, .. } = &frame {
            self.log.extend(events.iter().map(|served| Event::clone(&served.event)));
        }
        frame
    }

    /// The next event of a kind after the last one that was waited for.
    pub(crate) async fn wait_for(&mut self, kind: EventKind) -> Event {
        let found = tokio::time::timeout(DEADLINE, async {
            loop {
                let ahead = &self.log[self.seen..];
                if let Some(index) = ahead.iter().position(|event| event.body.kind() == kind) {
                    self.seen += index + 1;
                    return self.log[self.seen - 1].clone();
                }
                self.frame().await;
            }
        });
        match found.await {
            Ok(event) => event,
            Err(_) => panic!("waited in vain for {kind:?}; the log is\n{}", self.log_text()),
        }
    }

    /// Number of events of a kind so far.
    pub(crate) fn count(&self, kind: EventKind) -> usize {
        self.log.iter().filter(|event| event.body.kind() == kind).count()
    }

    /// Number of events of a kind up to the last one that was waited for: what followed it may be here or not.
    pub(crate) fn count_waited(&self, kind: EventKind) -> usize {
        self.log[..self.seen].iter().filter(|event| event.body.kind() == kind).count()
    }

    fn log_text(&self) -> String {
        let line = |event: &Event| format!("{} {}: {:?}\n", event.seq, event.revision, event.body);
        self.log.iter().map(line).collect()
    }
}

/// The reaction of a scripted summarizer to one request.
#[derive(Debug, Clone)]
pub(crate) enum Line {
    /// Answers with this text.
    Say(String),
    /// Answers with this text once the test releases it.
    Hold(String),
    /// Streams these texts one after the other, and answers with all of them once the test releases it.
    Stream(Vec<String>),
    /// Fails; the same request may succeed later.
    Falter,
    /// Fails permanently.
    Refuse,
}

/// A summarizer that follows a script, and records its requests.
pub(crate) struct ScriptedSummarizer {
    script: Mutex<VecDeque<Line>>,
    asked: Mutex<Vec<SummaryInput>>,
    gate: Semaphore,
    waiting: Semaphore,
}

impl ScriptedSummarizer {
    /// A summarizer with a script; after its end it refuses.
    pub(crate) fn new(script: impl IntoIterator<Item = Line>) -> Arc<Self> {
        Arc::new(Self {
            script: Mutex::new(script.into_iter().collect()),
            asked: Mutex::new(Vec::new()),
            gate: Semaphore::new(0),
            waiting: Semaphore::new(0),
        })
    }

    /// Releases one held answer.
    pub(crate) fn release(&self) {
        self.gate.add_permits(1);
    }

    /// Waits until an answer is held.
    pub(crate) async fn held(&self) {
        soon("a held summary", self.waiting.acquire()).await.expect("never closed").forget();
    }

    /// The requests so far.
    pub(crate) fn asked(&self) -> Vec<SummaryInput> {
        self.asked.lock().expect("no panic").clone()
    }
}

impl Summarizer for ScriptedSummarizer {
    fn name(&self) -> &str {
        "scripted"
    }

    fn summarize<'a>(
        &'a self,
        input: &'a SummaryInput,
        observer: &'a dyn Observer,
    ) -> futures::future::BoxFuture<'a, Result<SummaryOutput, summarizer::Error>> {
        self.asked.lock().expect("no panic").push(input.clone());
        let line = self.script.lock().expect("no panic").pop_front().unwrap_or(Line::Refuse);
        Box::pin(async move {
            let output = |text| SummaryOutput::new(text, "scripted");
            match line {
                Line::Say(text) => Ok(output(text)),
                Line::Hold(text) => {
                    self.waiting.add_permits(1);
                    self.gate.acquire().await.expect("never closed").forget();
                    Ok(output(text))
                }
                Line::Stream(words) => {
                    observer.on_start("scripted");
                    words.iter().for_each(|words| observer.on_text(words));
                    self.waiting.add_permits(1);
                    self.gate.acquire().await.expect("never closed").forget();
                    Ok(output(words.concat()))
                }
                Line::Falter => Err(summarizer::Error::Transient { message: "busy".to_owned(), retry_after_ms: None }),
                Line::Refuse => Err(summarizer::Error::Permanent { message: "no".to_owned() }),
            }
        })
    }
}

/// A model window.
pub(crate) fn window(context: i64, output: i64) -> ModelWindow {
    ModelWindow { context, output: (output > 0).then_some(output), ..ModelWindow::default() }
}

/// A text part.
pub(crate) fn text(words: &str) -> NewPart {
    NewPart::new(PartBody::Text(words.to_owned()))
}

/// Filler text of exactly this number of characters, which begins differently for different names.
pub(crate) fn filler(name: &str, characters: usize) -> String {
    let words = format!("{name} was here and had something to say about it, at some length. ");
    words.chars().cycle().take(characters).collect()
}

/// The messages in a conversation text.
pub(crate) fn conversation(text: &str) -> Vec<NewMessage> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| message(line).unwrap_or_else(|| panic!("this is no message: {line}"))).collect()
}

fn message(line: &str) -> Option<NewMessage> {
    let words = words(line);
    let (name, rest) = words.split_first()?;
    let role = match name.as_bytes().first()? {
        b'u' => Role::User,
        b'a' => Role::Assistant,
        b't' => Role::Tool,
        b's' | b'r' => Role::System,
        _ => return None,
    };
    let kind = if name.starts_with('r') { MessageKind::Record } else { MessageKind::Normal };
    let mut new =
        NewMessage { client_id: (name.len() > 1).then(|| name.clone()), kind, ..NewMessage::sealed(role, Vec::new()) };
    let mut usage = None;
    for word in rest {
        match word.split_once('=') {
            Some(("call", id)) => new.parts.push(call(id)),
            Some(("result", value)) => {
                let (id, output) = value.split_once(':')?;
                new.parts.push(result(id, &sized(id, output).unwrap_or_else(|| output.to_owned())));
            }
            Some(("usage", value)) => {
                let (input, output) = value.split_once('/')?;
                usage = Some(Usage { input: input.parse().ok()?, output: output.parse().ok()?, ..Usage::default() });
            }
            _ if word == "open" => new.finish = None,
            _ => {
                let words = sized(name, word).or_else(|| word.strip_prefix('"').map(str::to_owned))?;
                let record = Record { kind: "entry".to_owned(), data: words.clone() };
                let body = if kind == MessageKind::Record { PartBody::Record(record) } else { PartBody::Text(words) };
                new.parts.push(NewPart::new(body));
            }
        }
    }
    let calls = new.parts.iter().any(|part| matches!(*part.body, PartBody::ToolCall(_)));
    if let Some(finish) = &mut new.finish
        && role == Role::Assistant
    {
        finish.reason = Some(if calls { FinishReason::ToolCalls } else { FinishReason::Stop });
        finish.usage = usage;
    }
    Some(new)
}

/// A call of a tool.
pub(crate) fn call(id: &str) -> NewPart {
    let call = ToolCall {
        call_id: id.to_owned(),
        tool: "bash".to_owned(),
        input_json: format!("{{\"command\": \"run {id}\"}}"),
        ..ToolCall::default()
    };
    NewPart::new(PartBody::ToolCall(call))
}

/// The result of a call.
pub(crate) fn result(id: &str, output: &str) -> NewPart {
    NewPart::new(PartBody::ToolResult(ToolResult {
        call_id: id.to_owned(),
        status: ResultStatus::Completed,
        output: output.to_owned(),
        attachments: Vec::new(),
        start_time: None,
        end_time: None,
        answers: Answers::Nearest,
    }))
}

/// The filler text for a size such as `300c`.
fn sized(name: &str, word: &str) -> Option<String> {
    let characters = word.strip_suffix('c')?.parse().ok()?;
    Some(filler(name, characters))
}

/// Splits at blanks; quoted text stays together and keeps the first quote.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '"' if quoted => quoted = false,
            ' ' if !quoted => words.push(String::new()),
            letter => {
                quoted |= letter == '"';
                words.last_mut().expect("never empty").push(letter);
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The text of a stored message's text parts.
pub(crate) fn words_of(message: &Message) -> String {
    message.parts.iter().filter_map(|part| body_text(&part.body)).collect()
}

/// The text of a text part.
pub(crate) fn body_text(body: &PartBody) -> Option<&str> {
    match body {
        PartBody::Text(text) => Some(text),
        _ => None,
    }
}

/// A view as text, one line per message: role, kind, and the beginning of its content.
pub(crate) fn shown(view: &ServedView) -> Vec<String> {
    let line = |message: &longhand::model::view::ViewMessage| {
        let words: String = message.parts.iter().map(|part| brief(&part.body)).collect::<Vec<_>>().join(" ");
        format!("{:?} {:?}: {words}", message.role, message.kind).to_lowercase()
    };
    view.messages.iter().map(line).collect()
}

fn brief(body: &PartBody) -> String {
    let text = match body {
        PartBody::Text(text) | PartBody::Reasoning(text) => text,
        PartBody::ToolCall(call) => return format!("call {}", call.call_id),
        PartBody::ToolResult(result) => return format!("result {} {}", result.call_id, first(&result.output)),
        PartBody::Marker(marker) => &marker.text,
        other => return other.kind().to_owned(),
    };
    first(text)
}

fn first(text: &str) -> String {
    text.split_whitespace().take(4).collect::<Vec<_>>().join(" ")
}

/// A session with old tool outputs that are worth pruning, and without automatic compactions.
pub(crate) async fn prunable(test: &TestApp) -> String {
    let session = test.manual_session().await;
    let auto_off = SessionChange {
        policy_override_json: Some("{\"trigger\": {\"auto\": false}}".to_owned()),
        ..SessionChange::default()
    };
    test.app.sessions().update(&session, auto_off).await.expect("a policy of its own");
    for turn in 1..=6 {
        let text = format!(
            "u{turn} \"request {turn}\"\na{turn} \"looking\" call=c{turn}\nt{turn} result=c{turn}:80000c\n\
             b{turn} \"done with {turn}\""
        );
        test.append(&session, &text.replace("\nb", "\nax")).await;
    }
    session
}

/// Turns `from..=to`, each a request and its answer of this number of characters.
pub(crate) fn turns(from: usize, to: usize, characters: usize) -> String {
    (from..=to).map(|turn| format!("u{turn} {characters}c\na{turn} {characters}c\n")).collect()
}

/// A conversation whose last request has an image.
pub(crate) async fn with_image(test: &TestApp) -> String {
    let session = test.session("opencode@seed", 6_000, 1_000).await;
    test.append(&session, &turns(1, 6, 100)).await;
    let mut request = conversation("u90 \"what does the plot say?\"");
    let image = Media { mime_type: "image/png".to_owned(), name: "plot.png".to_owned(), ..Media::default() };
    request[0].parts.push(NewPart::new(PartBody::Media(image)));
    test.app.messages().append(&session, request, None, None).await.expect("appended");
    session
}

/// Number of cases of a property test: the default, unless `PROPTEST_CASES` is set.
pub(crate) fn cases(default: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(default)
}

/// Runs a future within a property, which is not asynchronous. For tests on several threads.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(future))
}
