//! The scripted workload: every kind of request to the store, in one short run.

use super::client::{Act, Client, Request};
use super::faults::{Stage, copy_files};
use super::running::Running;
use crate::seed;
use crate::vfs::Disk;
use anyhow::Result;
use longhand::app::Durability;
use longhand::app::sessions::NewSession;
use longhand::model::compaction::CompactionKind;
use longhand::model::message::{Finish, FinishReason, NewMessage, Role};
use longhand::model::part::{Answers, Media, MediaSource, NewPart, PartBody, ResultStatus, ToolCall, ToolResult};
use longhand::model::usage::{ModelWindow, Usage};
use rand::Rng as _;
use rand::rngs::StdRng;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum wait for compactions, which end at once on a healthy disk.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum wait for compactions on a disk that may be broken, where they may never end.
const FAULT_TIMEOUT: Duration = Duration::from_millis(250);

/// A policy with retrieval, which needs the word index.
const RETRIEVAL: &str = r#"{"trigger": {"auto": false}, "retrieval": {"budget_tokens": 60, "passage_tokens": 30,
    "query_units": 1000, "heading": "Earlier:"}}"#;
/// The scale of a run in which the store checkpoints its log by itself.
pub const LONG: usize = 3;

/// A policy without automatic compactions.
const AUTO_OFF: &str = r#"{"trigger": {"auto": false}}"#;

/// Size of one message of a long run, in bytes of incompressible noise.
const BULK_BYTES: usize = 512 * 1_024;
/// Number of them that fill the log to just below the size at which the store checkpoints it (16 MiB).
pub const BULK_BELOW: usize = 29;
/// Number of further ones that exceed this size and make the store check it (every 4 MiB).
const BULK_BEYOND: usize = 9;

/// A client that runs the script.
pub struct Script<'a> {
    disk: &'a Disk,
    directory: PathBuf,
    durability: Durability,
    chance: StdRng,
    keys: usize,
    /// Scale of the workload: 1 for a short run, `LONG` for one in which the store checkpoints its log.
    scale: usize,
    timeout: Duration,
    /// The client's record.
    pub client: Client,
}

/// The end of a run.
pub enum Ending {
    /// The script has ended; the store is open.
    Finished(Box<Running>),
    /// The store could not be opened.
    Closed(longhand::store::Error),
}

impl<'a> Script<'a> {
    /// A client that draws its texts from a seed.
    pub fn new(disk: &'a Disk, directory: &Path, durability: Durability, seed: u64, scale: usize) -> Self {
        let chance = seed::generator(seed, "script");
        let directory = directory.to_owned();
        Self { disk, directory, durability, chance, keys: 0, scale, timeout: TIMEOUT, client: Client::default() }
    }

    /// Continues another client's record.
    #[must_use]
    pub fn behind(mut self, client: Client) -> Self {
        self.keys = client.entries.len() + 1_000;
        self.client = client;
        self
    }

    /// Shortens the waits for operations that a fault may delay.
    #[must_use]
    pub fn with_short_timeout(mut self) -> Self {
        self.timeout = FAULT_TIMEOUT;
        self
    }

    async fn open(&self) -> Result<std::result::Result<Running, longhand::store::Error>> {
        Running::open(&self.directory, self.durability).await
    }

    /// Runs the script from opening to the last request. Records refused requests and continues.
    pub async fn live(&mut self) -> Result<Ending> {
        let running = match self.open().await? {
            Ok(running) => running,
            Err(error) => return Ok(Ending::Closed(error)),
        };
        self.talk(&running).await?;
        self.stream(&running).await?;
        if self.scale >= LONG {
            self.create(&running, "bulk", ModelWindow::default(), AUTO_OFF).await?;
            self.fill(&running, BULK_BELOW + BULK_BEYOND).await?;
        } else {
            self.fold();
        }
        self.compact(&running).await?;
        let running = match self.restart(running).await? {
            Ok(running) => running,
            Err(error) => return Ok(Ending::Closed(error)),
        };
        self.rewrite(&running).await?;
        self.search(&running).await?;
        self.fold();
        self.crowd(&running).await?;
        Ok(Ending::Finished(Box::new(running)))
    }

    /// Runs the part of the script that belongs to a stage.
    pub async fn of(&mut self, stage: Stage) -> Result<Ending> {
        let running = match self.open().await? {
            Ok(running) => running,
            Err(error) => return Ok(Ending::Closed(error)),
        };
        match stage {
            Stage::Making => self.begin(&running).await?,
            Stage::Talking => self.talk(&running).await?,
            Stage::Streaming => self.stream(&running).await?,
            Stage::Compacting => self.compact(&running).await?,
            Stage::Restarting => {
                self.say_more(&running, "work").await?;
                self.fold();
                let running = match self.restart(running).await? {
                    Ok(running) => running,
                    Err(error) => return Ok(Ending::Closed(error)),
                };
                self.say_more(&running, "work").await?;
                self.read_view(&running, "work").await?;
                return Ok(Ending::Finished(Box::new(running)));
            }
            Stage::Rewriting => self.rewrite(&running).await?,
            Stage::Searching => self.search(&running).await?,
            Stage::Crowding => self.crowd(&running).await?,
            Stage::Folding => self.exceed_bulk(&running).await?,
        }
        Ok(Ending::Finished(Box::new(running)))
    }

    /// Stops the store and opens it again.
    async fn restart(&mut self, running: Running) -> Result<std::result::Result<Running, longhand::store::Error>> {
        self.stop(running).await?;
        let opened = self.open().await?;
        // Earlier failures do not matter to the reopened store: it begins with the files on disk.
        self.client.unheard_syncs = self.disk.struck_syncs();
        Ok(opened)
    }

    /// Runs until the store is about to checkpoint its log.
    pub async fn swell(&mut self) -> Result<Ending> {
        let running = match self.open().await? {
            Ok(running) => running,
            Err(error) => return Ok(Ending::Closed(error)),
        };
        self.create(&running, "work", ModelWindow::default(), AUTO_OFF).await?;
        self.create(&running, "bulk", ModelWindow::default(), AUTO_OFF).await?;
        self.fill(&running, BULK_BELOW).await?;
        Ok(Ending::Finished(Box::new(running)))
    }

    /// Continues from there, through the checkpoint and beyond.
    async fn exceed_bulk(&mut self, running: &Running) -> Result<()> {
        self.fill(running, BULK_BEYOND).await?;
        for turn in 1..=3 {
            let turn = self.turn(&format!("w{turn}"), 300, None);
            self.ask(running, "work", Act::Append(turn)).await?;
        }
        self.read_view(running, "work").await
    }

    async fn fill(&mut self, running: &Running, messages: usize) -> Result<()> {
        for _ in 0..messages {
            let mut noise = vec![0; BULK_BYTES];
            self.chance.fill(noise.as_mut_slice());
            let mut message = new_message(&format!("n{}", self.keys), Role::User, "See here.");
            message.parts.push(NewPart::new(PartBody::Media(Media {
                mime_type: "application/octet-stream".to_owned(),
                name: "noise".to_owned(),
                source: MediaSource::Bytes(noise),
            })));
            self.ask(running, "bulk", Act::Append(vec![message])).await?;
        }
        Ok(())
    }

    /// Runs only the beginning: creates the store and the first session.
    async fn begin(&mut self, running: &Running) -> Result<()> {
        self.create(running, "work", ModelWindow::default(), "").await?;
        let turn = self.turn("w1", 100, None);
        self.ask(running, "work", Act::Append(turn)).await?;
        Ok(())
    }

    /// Stops the store. A store that has stopped writing leaves its files as they are, and would keep them open as long
    /// as the process lives: after a restart, a copy replaces them.
    async fn stop(&mut self, running: Running) -> Result<()> {
        let stopped = running.longhand.store().write_state().is_final();
        running.stop().await?;
        if stopped {
            let copy = self.directory.with_extension("again");
            copy_files(&self.directory, &copy)?;
            self.directory = copy;
        }
        Ok(())
    }

    /// The current directory of the store.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Checkpoints the log from a separate connection: the store itself would do it only in a much longer run. The
    /// store does not notice if this fails.
    fn fold(&mut self) {
        let before = self.disk.struck_syncs();
        let folded = Connection::open(self.directory.join("longhand.db"))
            .and_then(|database| database.query_row("pragma wal_checkpoint(passive)", (), |_| Ok(())));
        drop(folded);
        self.client.unheard_syncs += self.disk.struck_syncs() - before;
    }

    /// Sessions, turns with usage, a large tool output.
    async fn talk(&mut self, running: &Running) -> Result<()> {
        let window = ModelWindow { context: 6_000, output: Some(1_000), ..ModelWindow::default() };
        self.create(running, "work", window, "").await?;
        self.create(running, "quiet", ModelWindow::default(), AUTO_OFF).await?;
        self.create(running, "looks-up", ModelWindow::default(), RETRIEVAL).await?;
        for turn in 1..=3 {
            let turn = self.turn(&format!("w{turn}"), 900, Some(turn * 600));
            self.ask(running, "work", Act::Append(turn)).await?;
        }
        for blob in 0..self.scale {
            // Larger than the minimum of a blob, and incompressible.
            let output = self.noise(40 * 1_024);
            let turn = self.tool_turn(&format!("b{blob}"), output);
            self.ask(running, "quiet", Act::Append(turn)).await?;
        }
        self.read_view(running, "work").await
    }

    /// A streamed reply.
    async fn stream(&mut self, running: &Running) -> Result<()> {
        let mut open = new_message("s1", Role::Assistant, "Looking.");
        open.finish = None;
        self.ask(running, "work", Act::Append(vec![new_message("q1", Role::User, "What is it?"), open])).await?;
        let mut printed = String::new();
        for words in ["It ", "is a ", "matter of ", "taste."] {
            let draft = Act::Draft("s1".to_owned(), "d1".to_owned(), printed.clone(), words.to_owned());
            printed.push_str(words);
            if !self.ask(running, "work", draft).await? {
                // A client does not continue a draft whose existence is uncertain.
                break;
            }
        }
        let call = ToolCall {
            call_id: "s1".to_owned(),
            tool: "bash".to_owned(),
            input_json: "{\"command\": \"ls\"}".to_owned(),
            ..ToolCall::default()
        };
        self.ask(running, "work", Act::Parts("s1".to_owned(), vec![NewPart::new(PartBody::ToolCall(call))])).await?;
        let usage = Usage { input: 2_500, output: 60, ..Usage::default() };
        let finish = Finish { reason: Some(FinishReason::ToolCalls), usage: Some(usage), ..Finish::default() };
        self.ask(running, "work", Act::Finish("s1".to_owned(), finish)).await?;
        self.ask(running, "work", Act::Append(vec![result("s1", "main.rs".to_owned())])).await?;
        self.read_view(running, "work").await
    }

    /// Compactions: automatic ones, one by hand, a prune.
    async fn compact(&mut self, running: &Running) -> Result<()> {
        for turn in 4..=7 {
            let turn = self.turn(&format!("w{turn}"), 2_400, None);
            self.ask(running, "work", Act::Append(turn)).await?;
        }
        running.settle(self.timeout).await;
        self.read_view(running, "work").await?;
        self.ask(running, "work", Act::Compact(CompactionKind::Summary)).await?;
        running.settle(self.timeout).await;
        let mut old = Vec::new();
        for turn in 1..=5 {
            old.extend(self.tool_turn(&format!("p{turn}"), "The same line again.\n".repeat(4_000)));
        }
        self.ask(running, "quiet", Act::Append(old)).await?;
        self.ask(running, "quiet", Act::Compact(CompactionKind::Prune)).await?;
        running.settle(self.timeout).await;
        self.read_view(running, "quiet").await
    }

    /// Marks of every kind, a fork, an archived session.
    async fn rewrite(&mut self, running: &Running) -> Result<()> {
        self.ask(running, "quiet", Act::Undo).await?;
        self.ask(running, "quiet", Act::Redo).await?;
        let better = vec![NewPart::new(PartBody::Text("A better question.".to_owned()))];
        self.ask(running, "quiet", Act::Edit("up2".to_owned(), better)).await?;
        self.ask(running, "quiet", Act::Pin("up1".to_owned(), false)).await?;
        self.ask(running, "quiet", Act::Fork("fork".to_owned())).await?;
        self.ask(running, "quiet", Act::Rewind("zp3".to_owned())).await?;
        self.read_view(running, "quiet").await?;
        let turn = self.turn("f1", 300, None);
        self.ask(running, "fork", Act::Append(turn)).await?;
        self.ask(running, "fork", Act::Undo).await?;
        self.read_view(running, "fork").await?;
        self.ask(running, "fork", Act::Archive(false)).await?;
        let turn = self.turn("f2", 300, None);
        self.ask(running, "fork", Act::Append(turn)).await?;
        self.ask(running, "fork", Act::Archive(true)).await?;
        self.ask(running, "work", Act::Title("Another title".to_owned())).await?;
        self.ask(running, "quiet", Act::Pin("up1".to_owned(), true)).await?;
        Ok(())
    }

    /// A summary that the client supplies, and a question about its covered range.
    async fn search(&mut self, running: &Running) -> Result<()> {
        let talk = vec![
            new_message("k1", Role::User, "The deploy key is stored in vault seven."),
            new_message("k2", Role::Assistant, "Noted: vault seven."),
            new_message("k3", Role::User, "Rename parse_header to readHeader in src/http/parser.rs."),
            new_message("k4", Role::Assistant, "Renamed in both files."),
        ];
        self.ask(running, "looks-up", Act::Append(talk)).await?;
        self.ask(running, "looks-up", Act::Supply("k3".to_owned())).await?;
        let question = new_message("k5", Role::User, "Where is the deploy key stored?");
        self.ask(running, "looks-up", Act::Append(vec![question])).await?;
        self.read_view(running, "looks-up").await
    }

    /// Concurrent requests, which the writer commits together.
    async fn crowd(&mut self, running: &Running) -> Result<()> {
        for round in 0..2 {
            let mut requests = Vec::new();
            for number in 0..6 {
                let session = ["work", "quiet", "looks-up"][number % 3];
                let turn = self.turn(&format!("c{round}-{number}"), 200, None);
                requests.push(self.request(session, Act::Append(turn)));
            }
            self.client.send_together(self.disk, running, requests).await?;
        }
        running.settle(self.timeout).await;
        self.read_view(running, "work").await?;
        self.read_view(running, "quiet").await
    }

    async fn create(&mut self, running: &Running, name: &str, window: ModelWindow, policy: &str) -> Result<()> {
        let new = NewSession {
            client_id: Some(name.to_owned()),
            preset: "opencode@seed".to_owned(),
            policy_override_json: policy.to_owned(),
            window,
            ..NewSession::default()
        };
        self.ask(running, name, Act::Create(Box::new(new))).await?;
        Ok(())
    }

    fn request(&mut self, session: &str, act: Act) -> Request {
        self.keys += 1;
        Request { session: session.to_owned(), key: format!("r{}", self.keys), act }
    }

    /// Sends a request; true if it was carried out.
    async fn ask(&mut self, running: &Running, session: &str, act: Act) -> Result<bool> {
        let request = self.request(session, act);
        self.client.send(self.disk, running, request).await
    }

    async fn read_view(&mut self, running: &Running, session: &str) -> Result<()> {
        self.client.read_view(self.disk, running, session).await?;
        Ok(())
    }

    /// One more append, after the script.
    pub async fn say_more(&mut self, running: &Running, session: &str) -> Result<bool> {
        let name = format!("m{}", self.keys);
        let turn = self.turn(&name, 100, None);
        self.ask(running, session, Act::Append(turn)).await
    }

    /// One more view, after the script.
    pub async fn reread(&mut self, running: &Running, session: &str) -> Result<bool> {
        self.client.read_view(self.disk, running, session).await
    }

    /// A question and its answer, each of about the given number of characters.
    fn turn(&mut self, name: &str, length: usize, input: Option<i64>) -> Vec<NewMessage> {
        let question = self.words(length);
        let answer = self.words(length);
        let mut answer = new_message(&format!("a{name}"), Role::Assistant, &answer);
        if let (Some(finish), Some(input)) = (&mut answer.finish, input) {
            finish.usage = Some(Usage { input, output: 50, ..Usage::default() });
        }
        vec![new_message(&format!("u{name}"), Role::User, &question), answer]
    }

    /// A question, a call, its result, an answer.
    fn tool_turn(&mut self, name: &str, output: String) -> Vec<NewMessage> {
        let mut calls = new_message(&format!("a{name}"), Role::Assistant, "Looking.");
        let call = ToolCall {
            call_id: name.to_owned(),
            tool: "bash".to_owned(),
            input_json: "{\"command\": \"cat log\"}".to_owned(),
            ..ToolCall::default()
        };
        calls.parts.push(NewPart::new(PartBody::ToolCall(call)));
        if let Some(finish) = &mut calls.finish {
            finish.reason = Some(FinishReason::ToolCalls);
        }
        vec![
            new_message(&format!("u{name}"), Role::User, "What does the log new_message?"),
            calls,
            result(name, output),
            new_message(&format!("z{name}"), Role::Assistant, "Nothing new."),
        ]
    }

    fn words(&mut self, length: usize) -> String {
        const WORDS: [&str; 12] = [
            "ledger", "harbour", "window", "needle", "copper", "winter", "signal", "margin", "vessel", "ribbon",
            "canvas", "anchor",
        ];
        let mut text = String::new();
        while text.len() < length {
            text.push_str(WORDS[self.chance.random_range(0..WORDS.len())]);
            text.push(' ');
        }
        text
    }

    /// Random hexadecimal digits, two for each byte.
    fn noise(&mut self, bytes: usize) -> String {
        (0..bytes).map(|_| format!("{:02x}", self.chance.random::<u8>())).collect()
    }
}

/// A sealed message.
fn new_message(name: &str, role: Role, text: &str) -> NewMessage {
    NewMessage {
        client_id: Some(name.to_owned()),
        finish: Some(Finish { reason: (role == Role::Assistant).then_some(FinishReason::Stop), ..Finish::default() }),
        ..NewMessage::sealed(role, vec![NewPart::new(PartBody::Text(text.to_owned()))])
    }
}

/// The result of a call.
fn result(call: &str, output: String) -> NewMessage {
    let mut message = new_message(&format!("t{call}"), Role::Tool, "");
    message.parts = vec![NewPart::new(PartBody::ToolResult(ToolResult {
        call_id: call.to_owned(),
        answers: Answers::Nearest,
        status: ResultStatus::Completed,
        output,
        attachments: Vec::new(),
        start_time: None,
        end_time: None,
    }))];
    message
}
