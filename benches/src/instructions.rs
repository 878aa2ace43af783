//! Instructions of the daemon for each call, counted by valgrind's callgrind: the same figures on a busy machine as on a
//! quiet one. They leave out what the system does for a call, and how long anybody waits.

use crate::events::Audience;
use crate::reads::{Build, Read};
use crate::report::Report;
use crate::target::{BODY_BYTES, Caller, NO_SEARCH, Sessions, Target, Texts};
use clap::Args;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Messages of the session that is read.
const READ_MESSAGES: usize = 1_000;
/// Messages of a call in batches.
const BATCH: usize = 64;
/// Watchers of the session whose events are counted.
const WATCHERS: usize = 8;

/// Instructions.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Builds.
    #[arg(required = true)]
    binaries: Vec<String>,
    /// Calls of each kind; a tenth of them for whole views.
    #[arg(long, default_value_t = 1_000)]
    calls: usize,
    /// Applies the built-in rules for secrets, with this action: warn, redact or refuse.
    #[arg(long)]
    secrets: Option<String>,
    /// Keeps the profiles in this folder, for `callgrind_annotate`.
    #[arg(long)]
    keep: Option<PathBuf>,
}

/// A program that runs a build under callgrind, and the profiles that it leaves.
struct Counted {
    folder: TempDir,
    program: String,
}

impl Counted {
    fn new(binary: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let binary = Path::new(binary).canonicalize().expect("the build is there");
        let out = folder.path().join("profile");
        let program = folder.path().join("counted");
        let text = format!(
            "#!/bin/sh\nexec valgrind --quiet --tool=callgrind --callgrind-out-file={} {} \"$@\"\n",
            out.display(),
            binary.display()
        );
        std::fs::write(&program, text).expect("the program is written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).expect("it can be run");
        Self { program: program.to_string_lossy().into_owned(), folder }
    }

    /// Tells callgrind to begin a count, or to write the profile of the one that ends.
    fn control(what: &str, pid: u32) {
        let done = Command::new("callgrind_control").arg(what).arg(pid.to_string()).output().expect("valgrind is here");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// The sum of the newest profile, which is kept under a name if it is wanted.
    fn sum(&self, name: &str, keep: Option<&Path>) -> f64 {
        let files = std::fs::read_dir(self.folder.path()).expect("the folder").flatten().map(|file| file.path());
        let number = |path: &PathBuf| path.extension().and_then(|number| number.to_str()?.parse::<u32>().ok());
        let newest = files.filter(|path| number(path).is_some()).max_by_key(number).expect("a profile");
        let text = std::fs::read_to_string(&newest).expect("the profile");
        if let Some(keep) = keep {
            std::fs::copy(&newest, keep.join(name)).expect("the profile is kept");
        }
        // The next daemon's profiles begin with the same number.
        std::fs::remove_file(&newest).expect("the profile is there");
        let sum = text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
        sum.and_then(|sum| sum.trim().parse().ok()).expect("a sum")
    }
}

async fn appends(callers: Vec<Caller>, calls: usize, batch: usize) -> Vec<Caller> {
    let tasks: Vec<_> = callers
        .into_iter()
        .map(|mut caller| {
            tokio::spawn(async move {
                for _ in 0..calls {
                    let call = caller.prepare(batch).await;
                    caller.call(call).await;
                }
                caller
            })
        })
        .collect();
    let mut callers = Vec::new();
    for task in tasks {
        callers.push(task.await.expect("a caller"));
    }
    callers
}

/// Begins a count, and appends. Returns the number of calls.
async fn count_appends(target: &Target, callers: usize, batch: usize, calls: usize) -> usize {
    let of = target.callers(callers, 1, Sessions::Own, &Texts::new(1, BODY_BYTES)).await;
    let of = appends(of, 20, batch).await;
    target.rest().await;
    Counted::control("--zero", target.pid());
    drop(appends(of, calls / callers, batch).await);
    target.rest().await;
    calls / callers * callers
}

/// Counts each kind of call of each build.
pub(crate) async fn run(options: &Options, report: &mut Report) {
    if let Some(keep) = &options.keep {
        std::fs::create_dir_all(keep).expect("the folder of the profiles");
    }
    let secrets = options.secrets.iter().map(|action| format!("[secrets]\nknown = {action:?}\n"));
    let settings = format!("{NO_SEARCH}\n{}", secrets.collect::<String>());
    for binary in &options.binaries {
        let counted = Counted::new(binary);
        let mut count = |what: &str, pid: u32, calls: usize| {
            Counted::control("--dump", pid);
            let build = Path::new(binary).file_name().unwrap_or_default().to_string_lossy();
            let sum = counted.sum(&format!("{build}, {what}"), options.keep.as_deref());
            report.figures(what, binary, &[("instructions_each", sum / calls as f64)]);
        };
        let target = Target::daemon(&counted.program, &settings).await;
        for (callers, batch) in [(1, 1), (8, 1), (1, BATCH)] {
            let calls = count_appends(&target, callers, batch, options.calls).await;
            let what = if batch == 1 { format!("append, {callers} callers") } else { "message of a batch".to_owned() };
            count(&what, target.pid(), calls * batch);
        }
        drop(target);
        let target = Target::json(&counted.program, &settings).await;
        let calls = count_appends(&target, 1, 1, options.calls).await;
        count("append over HTTP, 1 caller", target.pid(), calls);
        drop(target);
        let mut build = Build::start(&counted.program, &settings).await;
        let session = build.session(READ_MESSAGES, BODY_BYTES).await;
        for (read, what, calls) in
            [(Read::Newest, "the newest 50 messages", options.calls), (Read::Whole, "view, whole", options.calls / 10)]
        {
            build.read(&session, read, READ_MESSAGES, 0).await;
            build.rest().await;
            Counted::control("--zero", build.daemon.pid());
            for at in 0..calls {
                build.read(&session, read, READ_MESSAGES, at).await;
            }
            count(what, build.daemon.pid(), calls);
        }
        let mut audience = Audience::start(&build.daemon.socket, WATCHERS).await;
        audience.deliver(20).await;
        build.rest().await;
        Counted::control("--zero", build.daemon.pid());
        audience.deliver(options.calls).await;
        build.rest().await;
        count(&format!("append to {WATCHERS} watchers"), build.daemon.pid(), options.calls);
    }
}
