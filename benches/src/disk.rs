//! Bytes on disk for each byte of content, after the daemon has ended and its log is in the database.

use crate::fleet::Daemon;
use crate::report::{Bound, Report};
use crate::target::{self, BODY_BYTES, Texts, connect, message, request, session};
use clap::Args;
use longhand::pb;
use longhand::pb::message_service_client::MessageServiceClient;
use longhand::pb::part::Body;
use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _, SeedableRng as _};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Messages of an append.
const BATCH: usize = 100;
/// Messages of a session.
const SESSION_MESSAGES: usize = 1_000;
const SHORT_MESSAGES: usize = 10_000;

/// Disk space.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Messages of each kind.
    #[arg(long, default_value_t = 100_000)]
    messages: usize,
    /// A folder of transcripts of pi and Claude Code (`.jsonl`), which are imported too.
    #[arg(long)]
    transcripts: Option<PathBuf>,
}

/// Bytes of a folder's files, and of those of its folders. Sockets have none.
pub(crate) fn bytes_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(of) if of.is_dir() => bytes_in(&entry.path()),
        Ok(of) if of.is_file() => of.len(),
        _ => 0,
    };
    entries.map(size).sum()
}

/// Lets a daemon end in order, and waits for its end.
pub(crate) fn end(daemon: Daemon) {
    let pid = i32::try_from(daemon.pid()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::TERM).expect("it is ours");
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("it is ours");
    drop(daemon);
}

/// Kind of content.
#[derive(Clone, Copy)]
enum Content {
    /// Random bytes, as in images.
    Bytes,
    /// Random letters and signs: text that hardly compresses.
    Letters,
    /// Random words.
    Words,
}

impl Content {
    fn name(self) -> &'static str {
        match self {
            Self::Bytes => "random bytes",
            Self::Letters => "random letters",
            Self::Words => "random words",
        }
    }

    fn message(self, random: &mut StdRng, words: &mut Texts) -> pb::NewMessage {
        match self {
            Self::Bytes => {
                let mut data = vec![0; BODY_BYTES];
                random.fill_bytes(&mut data);
                let source = Some(pb::media_part::Source::Data(data));
                let media = pb::MediaPart { mime_type: "image/png".to_owned(), source, ..pb::MediaPart::default() };
                let part = pb::Part { body: Some(Body::Media(media)), ..pb::Part::default() };
                pb::NewMessage { parts: vec![part], ..message(String::new()) }
            }
            Self::Letters => message((0..BODY_BYTES).map(|_| char::from(random.random_range(b' '..b'~'))).collect()),
            Self::Words => message(words.text()),
        }
    }
}

/// Measures each build by itself.
pub(crate) async fn run(binaries: &[String], options: &Options, short: bool, report: &mut Report) {
    let count = if short { options.messages.min(SHORT_MESSAGES) } else { options.messages };
    println!("bytes on disk for each byte of content; {count} messages of {BODY_BYTES} bytes, or transcripts");
    for binary in binaries {
        let name = target::name(binary);
        let folder = tempfile::tempdir().expect("a folder");
        end(Daemon::start(binary, folder.path(), ""));
        let empty = bytes_in(&folder.path().join("store"));
        report.figures("empty store", &name, &[("bytes", empty as f64)]);
        for content in [Content::Bytes, Content::Letters, Content::Words] {
            let folder = tempfile::tempdir().expect("a folder");
            let daemon = Daemon::start(binary, folder.path(), "");
            fill(&daemon, content, count).await;
            end(daemon);
            let ratio = bytes_in(&folder.path().join("store")) as f64 / (count * BODY_BYTES) as f64;
            match content {
                Content::Bytes | Content::Letters => {
                    report.target(content.name(), &name, ("ratio", ratio), Bound::AtMost(1.6));
                }
                Content::Words => report.figures(content.name(), &name, &[("ratio", ratio)]),
            }
        }
        match &options.transcripts {
            Some(transcripts) => import(binary, &name, transcripts, empty, report),
            None => println!("  no transcripts: --transcripts names a folder of some"),
        }
    }
}

async fn fill(daemon: &Daemon, content: Content, count: usize) {
    let channel = connect(&daemon.socket).await;
    let mut client = MessageServiceClient::new(channel.clone());
    let (mut random, mut words) = (StdRng::seed_from_u64(1), Texts::new(1, BODY_BYTES));
    let mut id = String::new();
    for from in (0..count).step_by(BATCH) {
        if from % SESSION_MESSAGES == 0 {
            id = session(&channel).await;
        }
        let messages = (from..count.min(from + BATCH)).map(|_| content.message(&mut random, &mut words));
        client.append_messages(request(&id, messages.collect())).await.expect("appended");
    }
}

/// The transcripts in a folder and its folders.
fn transcripts_in(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("the folder of transcripts").flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            transcripts_in(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "jsonl") {
            found.push(path);
        }
    }
}

fn import(binary: &str, name: &str, folder: &Path, empty: u64, report: &mut Report) {
    let mut transcripts = Vec::new();
    transcripts_in(folder, &mut transcripts);
    let store = tempfile::tempdir().expect("a folder");
    let daemon = Daemon::start(binary, store.path(), "");
    let bytes: u64 = transcripts.iter().filter_map(|path| path.metadata().ok()).map(|of| of.len()).sum();
    // The transcripts of sub-agents are read with the one that they are beside.
    let is_agents = |path: &&PathBuf| path.components().any(|component| component.as_os_str() == "subagents");
    for path in transcripts.iter().filter(|path| !is_agents(path)) {
        let output = Command::new(binary).args(["--server", &daemon.socket, "import"]).arg(path).output();
        let output = output.expect("the import starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} was not imported: {error}", path.display());
    }
    end(daemon);
    let stored = bytes_in(&store.path().join("store"));
    let of = |stored: u64| stored as f64 / bytes.max(1) as f64;
    let ratio = of(stored);
    let figures = [
        ("files", transcripts.len() as f64),
        ("bytes", bytes as f64),
        // An empty store counts for much beside few transcripts.
        ("ratio_without_empty_store", of(stored.saturating_sub(empty))),
    ];
    report.figures("transcripts", name, &figures);
    report.target("transcripts", name, ("ratio", ratio), Bound::AtMost(0.6));
}
