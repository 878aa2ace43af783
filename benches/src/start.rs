//! Start of the daemon with a large store: time until it listens and until its first answers, and resident memory.

use crate::disk::{bytes_in, end};
use crate::fleet::Daemon;
use crate::report::{Bound, Report};
use crate::target::{self, connect, message, request};
use clap::Args;
use longhand::pb;
use longhand::pb::admin_service_client::AdminServiceClient;
use longhand::pb::message_service_client::MessageServiceClient;
use longhand::pb::part::Body;
use longhand::pb::session_service_client::SessionServiceClient;
use rand::rngs::StdRng;
use rand::{RngCore as _, SeedableRng as _};
use rustix::fs::{Advice, fadvise};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tonic::transport::Channel;

/// Tasks that fill the store.
const WRITERS: usize = 8;
/// Starts of each kind.
const STARTS: usize = 3;
/// Messages of a session.
const MESSAGES: usize = 4;
const SHORT_GIB: f64 = 0.25;
const SHORT_SESSIONS: usize = 2_500;

/// A large store.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Content of the store, in GiB.
    #[arg(long, default_value_t = 10.0)]
    gib: f64,
    /// Sessions.
    #[arg(long, default_value_t = 100_000)]
    sessions: usize,
    /// A folder for the store, which is kept and used again. Default: a temporary one.
    #[arg(long)]
    store: Option<PathBuf>,
}

/// Measures each build with a store of its own; a store that is named is filled by the first build.
pub(crate) async fn run(binaries: &[String], options: &Options, short: bool, report: &mut Report) {
    let (gib, sessions) = if short { (SHORT_GIB, SHORT_SESSIONS) } else { (options.gib, options.sessions) };
    println!("start with {sessions} sessions and {gib} GiB of incompressible content");
    for binary in binaries {
        let temporary = tempfile::tempdir().expect("a folder");
        let folder = options.store.as_deref().unwrap_or(temporary.path());
        std::fs::create_dir_all(folder).expect("the folder of the store");
        fill(binary, folder, gib, sessions).await;
        let bytes = bytes_in(&folder.join("store")) as f64;
        report.figures("store", &target::name(binary), &[("gib", bytes / f64::from(1 << 30))]);
        for (what, prepare) in [("after its end, not cached", true), ("after its end, cached", false)] {
            starts(what, binary, folder, prepare, report).await;
        }
        // A daemon that dies leaves a log that is not in the database yet.
        let daemon = Daemon::start(binary, folder, "");
        write(&connect(&daemon.socket).await, sessions..sessions + 100, 64 << 10).await;
        drop(daemon);
        start("after it was killed", binary, folder, report).await;
    }
}

/// Fills the store up to the number of sessions.
async fn fill(binary: &str, folder: &Path, gib: f64, sessions: usize) {
    let daemon = Daemon::start(binary, folder, "");
    let mut admin = AdminServiceClient::new(connect(&daemon.socket).await);
    let info = admin.get_server_info(pb::GetServerInfoRequest {}).await.expect("it answers").into_inner();
    let from = usize::try_from(info.session_count).unwrap_or_default();
    let message_bytes = (gib * f64::from(1 << 30)) as usize / sessions / MESSAGES;
    let each = sessions.saturating_sub(from).div_ceil(WRITERS);
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let channel = connect(&daemon.socket).await;
        let begin = (from + writer * each).min(sessions);
        let range = begin..(begin + each).min(sessions);
        tasks.push(tokio::spawn(async move { write(&channel, range, message_bytes).await }));
    }
    for task in tasks {
        task.await.expect("a writer");
    }
    end(daemon);
}

/// Writes sessions whose messages are of this length.
async fn write(channel: &Channel, range: std::ops::Range<usize>, bytes: usize) {
    let mut random = StdRng::seed_from_u64(range.start as u64);
    let mut sessions = SessionServiceClient::new(channel.clone());
    let mut messages = MessageServiceClient::new(channel.clone());
    for _ in range {
        let created = sessions.create_session(pb::CreateSessionRequest::default()).await.expect("a session");
        let id = created.into_inner().session.expect("a session").session_id;
        let image = |_| {
            let mut data = vec![0; bytes];
            random.fill_bytes(&mut data);
            let source = Some(pb::media_part::Source::Data(data));
            let media = pb::MediaPart { mime_type: "image/png".to_owned(), source, ..pb::MediaPart::default() };
            let part = pb::Part { body: Some(Body::Media(media)), ..pb::Part::default() };
            pb::NewMessage { parts: vec![part], ..message(String::new()) }
        };
        messages.append_messages(request(&id, (0..MESSAGES).map(image).collect())).await.expect("appended");
    }
}

/// Lets the system forget the pages of a folder's files.
fn forget(folder: &Path) {
    for entry in std::fs::read_dir(folder).expect("the store").flatten() {
        if let Ok(file) = std::fs::File::open(entry.path()) {
            file.sync_all().expect("it is on disk");
            fadvise(&file, 0, None, Advice::DontNeed).expect("the system takes advice");
        }
    }
}

async fn starts(what: &str, binary: &str, folder: &Path, is_cold: bool, report: &mut Report) {
    for _ in 0..STARTS {
        if is_cold {
            forget(&folder.join("store"));
        }
        start(what, binary, folder, report).await;
    }
}

async fn start(what: &str, binary: &str, folder: &Path, report: &mut Report) {
    let name = target::name(binary);
    let began = Instant::now();
    let daemon = Daemon::start(binary, folder, "");
    let listens = began.elapsed().as_secs_f64();
    let channel = connect(&daemon.socket).await;
    let mut sessions = SessionServiceClient::new(channel.clone());
    let request = pb::ListSessionsRequest { page_size: 50, ..pb::ListSessionsRequest::default() };
    let page = sessions.list_sessions(request).await.expect("a page").into_inner();
    let listed = began.elapsed().as_secs_f64();
    let session_id = page.sessions.first().expect("a session").session_id.clone();
    let request = pb::ListMessagesRequest { session_id, page_size: 50, ..pb::ListMessagesRequest::default() };
    MessageServiceClient::new(channel).list_messages(request).await.expect("a page");
    let read = began.elapsed().as_secs_f64();
    let mebibytes = |field: &str| daemon.memory_kib(field).map_or(f64::NAN, |kib| kib as f64 / 1_024.0);
    report.target(what, &name, ("listens_s", listens), Bound::AtMost(0.5));
    report.target(what, &name, ("resident_mib", mebibytes("VmRSS:")), Bound::AtMost(80.0));
    let figures = [("listed_s", listed), ("read_s", read), ("anonymous_mib", mebibytes("RssAnon:"))];
    report.figures(what, &name, &figures);
    end(daemon);
}
