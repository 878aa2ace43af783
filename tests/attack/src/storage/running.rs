//! A running store: API, writer and scheduler, without a network.

use anyhow::{Context as _, Result, bail};
use longhand::app::{self, Caller, Durability, Longhand};
use longhand::clock::Clock;
use longhand::scheduler::{self, Scheduler, SchedulerHandle};
use longhand::store::{self, Store};
use longhand::summarizer::{Extractive, Levels};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Deadline of every wait; beyond it, the operation hangs.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// An open store, with its writer and its scheduler.
pub struct Running {
    /// The API, as its daemon has it.
    pub longhand: Longhand,
    /// The API, for a caller without a name.
    pub app: Caller,
    clock: Clock,
    wake: SchedulerHandle,
    stopping: CancellationToken,
    scheduler: JoinHandle<()>,
    writer: JoinHandle<()>,
}

/// Waits for a future until the deadline; an error if it hangs.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(DEADLINE, future).await.with_context(|| format!("hangs: {what}"))
}

impl Running {
    /// Opens the store in a directory. The outer error is a hang, the inner one the store's refusal.
    pub async fn open(directory: &Path, durability: Durability) -> Result<Result<Self, store::Error>> {
        watch_for_panics();
        let clock = Clock::default();
        let options = store::Options { directory: directory.to_owned(), durability };
        let (store, writer) = match soon("opening", Store::open(options, clock.clone())).await? {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(error)),
        };
        let writer = tokio::spawn(writer);
        let stopping = CancellationToken::new();
        let options =
            scheduler::Options { workers: NonZeroUsize::MIN.saturating_add(1), ..scheduler::Options::default() };
        let scheduler =
            Scheduler::new(store.clone(), clock.clone(), Levels::same_for_all(Arc::new(Extractive)), options);
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
        let app = longhand.caller(longhand::app::access::Access::owner(), String::new(), None)?;
        let cancel = stopping.clone();
        let scheduler = tokio::spawn(scheduler.run(cancel));
        Ok(Ok(Self { longhand, app, clock, wake, stopping, scheduler, writer }))
    }

    /// Waits until the scheduler is idle, or until the limit; true if it became idle.
    pub async fn settle(&self, limit: Duration) -> bool {
        let settled = async {
            while !self.is_settled().await {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(limit, settled).await.is_ok()
    }

    /// Waits until the scheduler is idle, and skips the delays of jobs that wait for a retry.
    pub async fn settle_for_sure(&self) -> Result<()> {
        let settled = async {
            while !self.settle(Duration::from_millis(200)).await {
                self.clock.skip_to(self.clock.now().plus_millis(10 * 60 * 1_000));
                self.wake.wake();
            }
        };
        soon("compactions do not end", settled).await
    }

    async fn is_settled(&self) -> bool {
        self.longhand.store().jobs().is_idle().await.is_ok_and(|is_idle| is_idle)
    }

    /// Stops as a daemon does. A panic or a hang is an error; a failure of the scheduler or the writer is none.
    pub async fn stop(self) -> Result<()> {
        let Self { longhand, app, stopping, scheduler, writer, wake, .. } = self;
        stopping.cancel();
        let done = soon("the scheduler does not stop", scheduler).await?;
        if done.is_err_and(|error| error.is_panic()) {
            bail!("the scheduler panicked");
        }
        drop((longhand, app, wake));
        if soon("the writer does not stop: somebody still holds the store", writer).await?.is_err() {
            bail!("the writer panicked");
        }
        Ok(())
    }
}

/// Waits until this process has no open files in a folder. Readers of a stopped store are closed in the background, and
/// the last one may checkpoint the log into the database while the caller copies both.
pub async fn let_go(folder: &Path) -> Result<()> {
    let is_open = || {
        let links = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        links.filter_map(|link| std::fs::read_link(link.path()).ok()).any(|file| file.starts_with(folder))
    };
    let closed = async {
        while is_open() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    soon("files of a store that was stopped stay open", closed).await
}

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Records every panic of the process, wherever it is caught.
fn watch_for_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(panic.to_string());
            before(panic);
        }));
    });
}

/// Takes the panics recorded so far.
pub fn panics() -> Vec<String> {
    std::mem::take(&mut *PANICS.lock().unwrap_or_else(PoisonError::into_inner))
}
