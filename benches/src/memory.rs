//! Resident memory of the daemon: idle, for each event stream, and with loaded sessions, as many as their memory holds
//! and ten times as many.

use crate::events;
use crate::fleet::Daemon;
use crate::reads::Build;
use crate::report::{Bound, Report};
use crate::target::{self, connect, session};
use clap::Args;

const MESSAGES: usize = 100;
const BODY_BYTES: usize = 200;
/// Streams before those that are measured.
const FIRST: usize = 10;
/// Streams of a connection that is shared; the daemon takes few more.
const SHARED: usize = 50;

/// Memory.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Event streams, each with a connection of its own.
    #[arg(long, default_value_t = 500)]
    streams: usize,
    /// Loaded sessions; several numbers are measured in turn.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000])]
    sessions: Vec<usize>,
}

fn mebibytes(daemon: &Daemon, field: &str) -> f64 {
    daemon.memory_kib(field).map_or(f64::NAN, |kib| kib as f64 / 1_024.0)
}

/// Measures each build by itself.
pub(crate) async fn run(binaries: &[String], options: &Options, short: bool, report: &mut Report) {
    println!("resident memory; {MESSAGES} messages of {BODY_BYTES} bytes in each session");
    for binary in binaries {
        let name = target::name(binary);
        let folder = tempfile::tempdir().expect("a folder");
        let daemon = Daemon::start(binary, folder.path(), "");
        let resident = ("resident_mib", mebibytes(&daemon, "VmRSS:"));
        let anonymous =
            [("anonymous_mib", mebibytes(&daemon, "RssAnon:")), ("file_mib", mebibytes(&daemon, "RssFile:"))];
        report.target("idle", &name, resident, Bound::AtMost(20.0));
        report.figures("idle", &name, &anonymous);
        drop(daemon);
        streams(binary, &name, options.streams, report).await;
        sessions(binary, &name, if short { &options.sessions[..1] } else { &options.sessions }, report).await;
    }
}

async fn streams(binary: &str, name: &str, count: usize, report: &mut Report) {
    for (what, per_connection) in [("a stream with a connection", 1), ("a stream of a shared connection", SHARED)] {
        // A daemon of its own, because memory that ended streams leave would be used again.
        let folder = tempfile::tempdir().expect("a folder");
        let daemon = Daemon::start(binary, folder.path(), "");
        let session = session(&connect(&daemon.socket).await).await;
        // The first ones also allocate what all streams share.
        let first = events::watchers(&daemon.socket, &session, (FIRST, 1), false).await;
        let before = daemon.memory_kib("VmRSS:").unwrap_or_default();
        let streams = events::watchers(&daemon.socket, &session, (count, per_connection), false).await;
        let after = daemon.memory_kib("VmRSS:").unwrap_or_default();
        let each = after.saturating_sub(before) as f64 / count as f64;
        report.target(what, name, ("resident_kib", each), Bound::AtMost(60.0));
        drop((first, streams));
    }
}

async fn sessions(binary: &str, name: &str, counts: &[usize], report: &mut Report) {
    let mut build = Build::start(binary, "").await;
    let mut ids = Vec::new();
    for &count in counts {
        while ids.len() < count {
            ids.push(build.session(MESSAGES, BODY_BYTES).await);
        }
        let appended = mebibytes(&build.daemon, "VmRSS:");
        for id in &ids {
            build.view(id, None).await;
        }
        let read = mebibytes(&build.daemon, "VmRSS:");
        let figures = [("appended_mib", appended), ("views_read_mib", read)];
        report.figures(&format!("{count} sessions"), name, &figures);
    }
}
