//! A store with data of every kind, and the whole of Longhand, except its socket, over a copy of the store.

use anyhow::{Context as _, Result};
use longhand::app::append::{NewDraftText, OpenPart};
use longhand::app::compactions::{NewCompaction, NewSummary};
use longhand::app::sessions::{ForkPoint, NewSession, SessionChange};
use longhand::app::{self, Caller, Longhand, RequestKey};
use longhand::clock::Clock;
use longhand::grpc;
use longhand::grpc::GuardedServices;
use longhand::model::compaction::CompactionKind;
use longhand::model::message::{Finish, FinishReason, MessageKind, NewMessage, Role};
use longhand::model::part::{
    Answers, Marker, Media, MediaSource, NewPart, Opaque, PartBody, Record, ReplyStep, ResultStatus, ToolCall,
    ToolResult,
};
use longhand::model::usage::{ModelWindow, Usage};
use longhand::scheduler::{self, Scheduler};
use longhand::store::{self, Durability, Store};
use longhand::summarizer::{Extractive, Levels};
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Deadline of every wait.
const DEADLINE: Duration = Duration::from_secs(60);

/// The name of the database in its folder.
const DATABASE: &str = "longhand.db";

/// Longhand over a folder. `close` ends it.
pub(super) struct Instance {
    pub(super) longhand: Longhand,
    pub(super) app: Caller,
    pub(super) routes: GuardedServices,
    stopping: CancellationToken,
    scheduler: JoinHandle<()>,
    scrub: JoinHandle<()>,
    writer: JoinHandle<()>,
}

impl Instance {
    async fn open(directory: &Path) -> Result<Self> {
        let clock = Clock::default();
        // No power cut happens here, and syncing would take most of the time.
        let options = store::Options { directory: directory.to_owned(), durability: Durability::ProcessCrash };
        let (store, writer) = Store::open(options, clock.clone()).await?;
        let writer = tokio::spawn(writer);
        let stopping = CancellationToken::new();
        let summarizers = Levels::same_for_all(Arc::new(Extractive));
        let scheduler = Scheduler::new(store.clone(), clock.clone(), summarizers, scheduler::Options::default());
        let options = app::Options {
            default_preset: "opencode@seed".to_owned(),
            defaults: Vec::new(),
            models: longhand::policy::models::Models::built_in(),
            vocabularies: Vec::new(),
            entrance: longhand::app::entrance::Entrance::new(&clock),
            stopping: stopping.clone(),
        };
        let longhand = Longhand::new(store.clone(), scheduler.handle(), &clock, options);
        let scrub = store::ScrubOptions { bytes_per_second: 1 << 30, interval: None };
        let scrub = tokio::spawn(store.upkeep().clone().scrub(scrub, clock.clone(), stopping.clone()));
        let cancel = stopping.clone();
        // The result of the task is not checked: a failure shows as a panic, or as calls that no longer work.
        let scheduler = tokio::spawn(scheduler.run(cancel));
        let (routes, _) = grpc::router(longhand.clone()).await;
        let routes = routes.in_process();
        let app = longhand.caller(longhand::app::access::Access::owner(), String::new(), None)?;
        Ok(Self { longhand, app, routes, stopping, scheduler, scrub, writer })
    }

    async fn close(self) -> Result<()> {
        let Self { longhand, app, routes, stopping, scheduler, scrub, writer } = self;
        stopping.cancel();
        drop(routes);
        tokio::time::timeout(DEADLINE, scheduler).await.context("the scheduler does not stop")??;
        tokio::time::timeout(DEADLINE, scrub).await.context("the scrub does not stop")??;
        longhand.store().clone().close();
        drop((longhand, app));
        tokio::time::timeout(DEADLINE, writer).await.context("the writer does not end")??;
        Ok(())
    }
}

/// A closed store to copy.
pub(super) struct Template {
    runtime: Arc<Runtime>,
    folder: TempDir,
}

impl Template {
    pub(super) fn new() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("fuzz-runtime")
            .enable_all()
            .build()?;
        let folder = private_folder()?;
        runtime.block_on(async {
            let instance = Instance::open(folder.path()).await?;
            fill(&instance.longhand).await?;
            instance.close().await
        })?;
        Ok(Self { runtime: Arc::new(runtime), folder })
    }

    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// A connection to the template's own database.
    pub(super) fn database(&self) -> Result<Connection> {
        connect(self.folder.path())
    }

    /// Longhand over a copy.
    pub(super) fn copy(&self) -> Result<Copy> {
        let folder = private_folder()?;
        std::fs::copy(self.folder.path().join(DATABASE), folder.path().join(DATABASE))?;
        let instance = self.block_on(Instance::open(folder.path()))?;
        Ok(Copy { runtime: self.runtime.clone(), folder, instance: Some(instance) })
    }
}

/// A copy of a template, open for calls. It is closed when it is dropped.
pub(super) struct Copy {
    runtime: Arc<Runtime>,
    folder: TempDir,
    instance: Option<Instance>,
}

impl Copy {
    pub(super) fn instance(&self) -> Result<&Instance, String> {
        self.instance.as_ref().ok_or_else(|| "the instance is closed".to_owned())
    }

    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// A connection that bypasses Longhand, to write damage.
    pub(super) fn database(&self) -> Result<Connection> {
        connect(self.folder.path())
    }

    /// The findings of a check of the whole store.
    pub(super) fn findings(&self) -> Result<Vec<String>, String> {
        let instance = self.instance()?;
        self.block_on(async {
            let (found, mut items) = tokio::sync::mpsc::channel(10_000);
            instance.longhand.store().upkeep().verify(None, found).await.map_err(|error| error.to_string())?;
            let mut findings = Vec::new();
            while let Some(finding) = items.recv().await {
                findings.push(format!("{finding:?}"));
            }
            Ok(findings)
        })
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if let Some(instance) = self.instance.take()
            && let Err(error) = self.runtime.block_on(instance.close())
        {
            eprintln!("a instance was not closed: {error:#}");
        }
    }
}

/// A temporary folder that only its owner can open, as a store requires.
fn private_folder() -> Result<TempDir> {
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    Ok(tempfile::Builder::new().permissions(owner_only).tempdir()?)
}

fn connect(folder: &Path) -> Result<Connection> {
    let database = Connection::open(folder.join(DATABASE))?;
    database.busy_timeout(DEADLINE)?;
    database.pragma_update(None, "foreign_keys", false)?;
    Ok(database)
}

fn message(name: &str, role: Role, bodies: Vec<PartBody>) -> NewMessage {
    let reply = role == Role::Assistant;
    let usage = Usage { input: 900, output: 40, cost_usd: Some(0.25), ..Usage::default() };
    NewMessage {
        client_id: Some(name.to_owned()),
        role,
        kind: MessageKind::Normal,
        parts: bodies.into_iter().map(NewPart::new).collect(),
        finish: Some(Finish {
            reason: reply.then_some(FinishReason::Stop),
            usage: reply.then_some(usage),
            ..Finish::default()
        }),
        model: "m".to_owned(),
        provider: "p".to_owned(),
        origin_time: None,
        open_timeout_ms: None,
        replace_existing: false,
        metadata_json: reply.then(|| format!("{{\"note\":\"{}\"}}", "n".repeat(300))),
    }
}

fn text(words: &str) -> PartBody {
    PartBody::Text(words.to_owned())
}

fn media(bytes: usize) -> Media {
    let source = MediaSource::Bytes(vec![7; bytes]);
    Media { mime_type: "image/png".to_owned(), name: "a.png".to_owned(), source }
}

/// A turn with a call and its result.
fn turn(number: usize) -> Vec<NewMessage> {
    let call = PartBody::ToolCall(ToolCall {
        call_id: format!("c{number}"),
        tool: "bash".to_owned(),
        input_json: "{\"command\":\"ls\"}".to_owned(),
        start_time: None,
        end_time: None,
    });
    let result = PartBody::ToolResult(ToolResult {
        call_id: format!("c{number}"),
        answers: Answers::Nearest,
        status: ResultStatus::Completed,
        // Long enough that older results are pruned.
        output: "a line of output\n".repeat(7_000),
        attachments: vec![media(100)],
        start_time: None,
        end_time: None,
    });
    vec![
        message(&format!("u{number}"), Role::User, vec![text(&format!("request {number}"))]),
        message(&format!("a{number}"), Role::Assistant, vec![PartBody::Reasoning("hm".to_owned()), text("so"), call]),
        message(&format!("t{number}"), Role::Tool, vec![result]),
        message(&format!("b{number}"), Role::Assistant, vec![text("done")]),
    ]
}

/// One message with every rare kind of part, and a record.
fn oddities() -> Vec<NewMessage> {
    let opaque = Opaque { provider: "p".to_owned(), kind: "k".to_owned(), data: vec![0, 1, 2, 255] };
    let usage = Usage { input: 5, output: 6, ..Usage::default() };
    let bodies = vec![
        PartBody::Media(media(90_000)),
        PartBody::Marker(Marker { name: "here".to_owned(), text: "a marker".to_owned() }),
        PartBody::Step(ReplyStep { finish_reason: "stop".to_owned(), usage: Some(usage) }),
        PartBody::Opaque(opaque),
        text(&"long words ".repeat(9_000)),
    ];
    let record = PartBody::Record(Record { kind: "note".to_owned(), data: "{\"a\":1}".to_owned() });
    let record = NewMessage {
        kind: MessageKind::Record,
        metadata_json: None,
        finish: Some(Finish::default()),
        ..message("r1", Role::User, vec![record])
    };
    vec![message("odd", Role::Assistant, bodies), record]
}

/// A caller with a request id.
pub(super) fn once(longhand: &Longhand, id: &str) -> Caller {
    let request = RequestKey { id: id.to_owned(), payload_hash: [7; 32] };
    longhand.caller(longhand::app::access::Access::owner(), "fuzz".to_owned(), Some(request)).expect("a caller")
}

fn session(name: &str, parent: Option<&str>) -> NewSession {
    let window = ModelWindow {
        model: "m".to_owned(),
        context: 200_000,
        output: Some(8_000),
        overhead: 100,
        ..ModelWindow::default()
    };
    NewSession {
        client_id: Some(name.to_owned()),
        title: format!("session {name}"),
        preset: "opencode@seed".to_owned(),
        window,
        metadata_json: Some("{\"cwd\":\"/a\"}".to_owned()),
        parent: parent.map(str::to_owned),
        ..NewSession::default()
    }
}

/// Fills a store by every kind of call. `s1` has everything; `s2` is newer and has little.
async fn fill(longhand: &Longhand) -> Result<()> {
    let app = &longhand.caller(longhand::app::access::Access::owner(), String::new(), None)?;
    app.sessions().create(session("s1", None)).await?;
    for number in 1..=5 {
        once(longhand, &format!("append-{number}")).messages().append("s1", turn(number), None, None).await?;
    }
    app.messages().append("s1", oddities(), None, None).await?;
    once(longhand, "edit").messages().edit("s1", "u2", &[NewPart::new(text("in other words"))], None).await?;
    app.messages().pin("s1", "u3").await?;
    app.compactions().start("s1", NewCompaction::of_kind(CompactionKind::Prune)).await?;
    wait_for_jobs(longhand).await?;
    let summary =
        NewSummary { text: "## Goal\n- what was".to_owned(), tail_start: "u4".to_owned(), ..NewSummary::default() };
    once(longhand, "supply").compactions().supply_summary("s1", summary).await?;
    once(longhand, "undo").compactions().undo("s1", None).await?;
    app.compactions().redo("s1", None).await?;
    app.messages().rewind("s1", "b5", None).await?;
    app.messages().append("s1", turn(6), None, None).await?;
    let fork = ForkPoint { message_id: Some("b4".to_owned()), as_of_revision: None };
    app.sessions().fork("s1", fork, Some("f1".to_owned()), String::new()).await?;
    app.messages().append("f1", turn(7), None, None).await?;
    let change = SessionChange {
        title: Some("renamed".to_owned()),
        policy_override_json: Some("{\"trigger\":{\"auto\":false}}".to_owned()),
        ..SessionChange::default()
    };
    app.sessions().update("s1", change).await?;
    let open = NewMessage { finish: None, ..message("o1", Role::Assistant, vec![text("closed")]) };
    app.messages().append("s1", vec![open], None, None).await?;
    let words = |delta: &str| NewDraftText {
        part: None,
        client_id: Some(format!("d-{delta}")),
        kind: longhand::model::draft::DraftKind::Text,
        offset: 0,
        delta: delta.to_owned(),
    };
    let closing = app.messages().append_draft("s1", "o1", words("closing")).await?.part;
    once(longhand, "parts").messages().append_parts("s1", "o1", vec![OpenPart::draft(closing, None)]).await?;
    app.messages().append_draft("s1", "o1", words("still open, größer")).await?;
    app.sessions().create(session("s2", Some("s1"))).await?;
    app.messages().append("s2", turn(1), None, None).await?;
    app.sessions().create(session("s3", None)).await?;
    app.sessions().archive("s3").await?;
    wait_for_jobs(longhand).await
}

/// Waits until nothing is due and no job is left.
async fn wait_for_jobs(longhand: &Longhand) -> Result<()> {
    let settled = async {
        while !longhand.store().jobs().is_idle().await? {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok::<_, store::Error>(())
    };
    Ok(tokio::time::timeout(DEADLINE, settled).await.context("jobs do not end")??)
}
