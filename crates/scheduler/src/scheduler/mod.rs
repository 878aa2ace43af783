//! Scheduling: due sessions are evaluated, ready jobs are run, lost jobs are recovered, and the search index is filled.
//!
//! The loop keeps no state that matters: due marks and jobs are in the database, and everything here can be lost at any
//! moment.

mod step;
mod worker;
mod evaluate;
mod run;
mod compact;
mod summarize;
mod client;
mod written;
mod hooks;
mod hook_messages;
mod processes;
mod commit;
mod inputs;
mod preview;
mod recover;
mod retry;
mod error;
mod request_log;
mod deltas;
mod index;
mod handle;
mod health;
#[cfg(test)]
#[path = "../../tests/unit/model.rs"]
mod model;

use crate::clock::{Clock, fresh_id};
use crate::config::Hooks;
use crate::limits;
use crate::loaded::LoadedSessions;
use crate::model::time::Timestamp;
use crate::policy::bpe::Vocabulary;
use crate::store::{self, Store};
use crate::summarizer::{Levels, Tasks};
use futures::FutureExt as _;
use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use step::{Input, SchedulerState, WorkItem, step};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;
use worker::Worker;

pub use deltas::SummaryDelta;
pub use error::Error;
pub use handle::SchedulerHandle;
pub use health::{Health, ReadFailure};
#[doc(hidden)]
pub use hooks::read_hook_output;
pub use index::index;
pub use inputs::{guard_input, planning_input};
pub use preview::{Preview, is_possible};
pub use request_log::RequestLog;
pub use written::{SummaryInEffect, digest_of};

/// Options of the scheduler.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of jobs that run at the same time.
    pub workers: NonZeroUsize,
    /// Vocabularies that policies may name.
    pub vocabularies: Vec<Arc<Vocabulary>>,
    /// Time that a summary waits for a client that writes it; zero to offer none.
    pub client_wait: Duration,
    /// Programs that are notified of compactions.
    pub hooks: Hooks,
    /// Maximum bytes of sessions kept in memory, for decisions and for reads through the handle.
    pub loaded_bytes: usize,
}

impl Default for Options {
    /// One worker, no clients, no hooks, and no session kept in memory.
    fn default() -> Self {
        Self {
            workers: NonZeroUsize::MIN,
            vocabularies: Vec::new(),
            client_wait: Duration::ZERO,
            hooks: Hooks::default(),
            loaded_bytes: 0,
        }
    }
}

/// The scheduler.
pub struct Scheduler {
    store: Store,
    clock: Clock,
    summarizers: Levels,
    options: Options,
    handle: SchedulerHandle,
}

impl Scheduler {
    /// A scheduler over a store; nothing happens until it runs.
    pub fn new(store: Store, clock: Clock, summarizers: Levels, options: Options) -> Self {
        let handle = SchedulerHandle {
            woken: Arc::default(),
            index_queue: index::IndexQueue::default(),
            deltas: deltas::DeltaChannel::default(),
            reports: health::Reports::default(),
            tasks: Tasks::new(options.client_wait),
            summarizers: summarizers.clone(),
            loaded: LoadedSessions::new(store.clone(), options.loaded_bytes),
        };
        Self { store, clock, summarizers, options, handle }
    }

    /// The handle for other modules.
    pub fn handle(&self) -> SchedulerHandle {
        self.handle.clone()
    }

    /// Recovers the jobs of an earlier daemon, then hands out work until it is cancelled, then waits for the workers.
    /// If the store cannot be read, the scheduler retries until it can; `SchedulerHandle::health` has the failure
    /// meanwhile.
    pub async fn run(self, cancel: CancellationToken) {
        if !self.recover_lost_jobs(&cancel).await {
            return;
        }
        let queues = Queues::new();
        let (finished, results) = mpsc::channel(limits::JOB_QUEUE_MAX);
        let owner = fresh_id();
        let workers = self.start_workers(owner, &queues, &finished, &cancel);
        drop(finished);
        self.dispatch(&queues, results, &cancel).await;
        queues.close();
        workers.wait().await;
        if self.options.hooks.pre_compact.is_some() || self.options.hooks.post_compact.is_some() {
            processes::ProcessMark(owner).kill_all();
        }
        if let Err(error) = recover::give_back_all(&self.store, &self.clock).await {
            tracing::info!(%error, "what was in hand is taken up at the next start");
        }
    }

    /// Recovers the jobs of an earlier daemon, with retries; false if the scheduler is to end instead.
    async fn recover_lost_jobs(&self, cancel: &CancellationToken) -> bool {
        let mut attempt = 1;
        loop {
            let released = tokio::select! {
                () = cancel.cancelled() => return false,
                released = recover::release_all(&self.store, &self.clock) => released,
            };
            match released {
                Ok(()) => {
                    self.handle.reports.readable();
                    return true;
                }
                Err(Error::Store(store::Error::Closed)) => return false,
                Err(error) => {
                    tracing::error!(%error, attempt, "the scheduler cannot read the store, and tries again");
                    self.handle.reports.unreadable(&error, self.clock.now());
                }
            }
            let wait = retry::backoff(attempt).min(limits::SCHEDULER_RETRY_MS_MAX);
            tokio::select! {
                () = cancel.cancelled() => return false,
                () = tokio::time::sleep(Duration::from_millis(wait.unsigned_abs())) => attempt += 1,
            }
        }
    }

    /// Starts the workers: the configured number for jobs, one that evaluates sessions, and one that fills the search
    /// index.
    fn start_workers(
        &self,
        owner: Uuid,
        queues: &Queues,
        finished: &mpsc::Sender<Input>,
        cancel: &CancellationToken,
    ) -> TaskTracker {
        let workers = TaskTracker::new();
        let worker = Worker {
            store: self.store.clone(),
            clock: self.clock.clone(),
            summarizers: self.summarizers.clone(),
            loaded: self.handle.loaded.clone(),
            vocabularies: self.options.vocabularies.clone().into(),
            owner,
            deltas: self.handle.deltas.clone(),
            tasks: self.handle.tasks.clone(),
            hooks: self.options.hooks.clone().into(),
            request_log: Arc::new(RequestLog::new(self.clock.clone(), 0)),
        };
        let start = |queue: &async_channel::Receiver<WorkItem>| {
            let (worker, stop) = (worker.clone(), cancel.clone());
            let act = move |work| do_work(worker.clone(), work, stop.clone());
            workers.spawn(work_loop(act, queue.clone(), finished.clone(), cancel.clone()));
        };
        (0..self.options.workers.get()).for_each(|_| start(&queues.runs.1));
        start(&queues.evaluations.1);
        workers.spawn(index::fill(self.store.clone(), self.handle.index_queue.clone(), cancel.clone()));
        workers.close();
        workers
    }

    /// Hands out work until it is cancelled.
    async fn dispatch(&self, queues: &Queues, mut results: mpsc::Receiver<Input>, cancel: &CancellationToken) {
        let mut state = SchedulerState::default();
        let mut work = self.store.jobs().watch_work();
        let mut tick = tokio::time::interval(Duration::from_millis(limits::SCHEDULER_TICK_MS));
        // The earliest wake time of a session, read again each time.
        let mut next_wake = None;
        let mut next_look = Instant::now();
        loop {
            let found = tokio::select! {
                () = cancel.cancelled() => break,
                Some(done) = results.recv() => {
                    step(&mut state, done);
                    self.find_work(&state).await
                }
                // Each commit to a due session is a change.
                changed = async { tokio::time::sleep_until(next_look).await; work.changed().await } => {
                    if changed.is_err() {
                        break;
                    }
                    self.find_work(&state).await
                }
                () = self.handle.woken.notified() => self.find_work(&state).await,
                () = self.until(next_wake) => self.find_work(&state).await,
                _ = tick.tick() => {
                    self.release_expired(&state).await;
                    self.find_work(&state).await
                }
            };
            next_wake = None;
            next_look = Instant::now() + Duration::from_millis(limits::WORK_LOOK_MS);
            let input = match found {
                Ok((input, wake)) => {
                    next_wake = wake;
                    self.handle.reports.readable();
                    input
                }
                Err(store::Error::Closed) => break,
                Err(error) => {
                    tracing::error!(%error, "the scheduler cannot read the store");
                    self.handle.reports.unreadable(&error, self.clock.now());
                    continue;
                }
            };
            for effect in step(&mut state, input) {
                // Work that does not fit in a full queue is not lost: it is found again.
                if let Some(effect) = queues.dispatch(effect) {
                    step(&mut state, Input::Returned(effect));
                }
            }
            self.handle.reports.failing(state.failing());
        }
    }

    async fn release_expired(&self, state: &SchedulerState) {
        if let Err(error) = recover::release_expired(&self.store, &self.clock, |job| state.is_running(job)).await {
            tracing::warn!(%error, "lost compactions are taken up later");
        }
    }

    /// Waits for an instant; forever if there is none.
    async fn until(&self, instant: Option<Timestamp>) {
        match instant {
            Some(instant) => {
                let micros = u64::try_from(instant.0.saturating_sub(self.clock.now().0)).unwrap_or(0);
                tokio::time::sleep(Duration::from_micros(micros)).await;
            }
            None => std::future::pending().await,
        }
    }

    /// Reads due sessions, ready jobs and the earliest wake time of a session from the database. It reads few at a
    /// time: the rest is found when these are done. Work in progress may still be at the front of the lists, so they
    /// are longer by that number.
    async fn find_work(&self, state: &SchedulerState) -> store::Result<(Input, Option<Timestamp>)> {
        let now = self.clock.now();
        let mut next_wake = self.store.jobs().next_wake().await?;
        if next_wake.is_some_and(|instant| instant <= now) {
            // This is a write. If the disk or the queue is full, these sessions wait for the next tick, and nothing
            // else waits.
            match self.store.jobs().wake().await {
                Ok(()) => next_wake = self.store.jobs().next_wake().await?,
                Err(store::Error::Closed) => return Err(store::Error::Closed),
                Err(error) => {
                    tracing::warn!(%error, "sessions whose wake time has come are decided later");
                    next_wake = None;
                }
            }
        }
        let many = i64::try_from(limits::JOB_QUEUE_MAX / 4 + state.skipped()).unwrap_or(i64::MAX);
        let due = self.store.jobs().due_sessions(many).await?;
        let ready = self.store.jobs().ready(self.clock.now(), many).await?;
        Ok((Input::Found { due, ready, now: Instant::now() }, next_wake))
    }
}

/// The queues between the scheduler and its workers. One worker of its own evaluates sessions, one after the other:
/// this is short work that never waits behind a summary of minutes, and jobs are created in the order in which their
/// sessions became due.
struct Queues {
    evaluations: (async_channel::Sender<WorkItem>, async_channel::Receiver<WorkItem>),
    runs: (async_channel::Sender<WorkItem>, async_channel::Receiver<WorkItem>),
}

impl Queues {
    fn new() -> Self {
        Self {
            evaluations: async_channel::bounded(limits::JOB_QUEUE_MAX),
            runs: async_channel::bounded(limits::JOB_QUEUE_MAX),
        }
    }

    /// Hands out work, or returns it if the queue is full.
    fn dispatch(&self, work: WorkItem) -> Option<WorkItem> {
        let queue = match work {
            WorkItem::Evaluate(_) => &self.evaluations.0,
            WorkItem::Run { .. } => &self.runs.0,
        };
        queue.try_send(work).err().map(async_channel::TrySendError::into_inner)
    }

    fn close(&self) {
        self.evaluations.0.close();
        self.runs.0.close();
    }
}

/// Does one piece of work. A job that is dropped because the daemon stops has its request log stored first.
async fn do_work(worker: Worker, work: WorkItem, cancel: CancellationToken) -> Result<(), Error> {
    match work {
        WorkItem::Evaluate(due) => tokio::select! {
            () = cancel.cancelled() => Ok(()),
            done = worker.evaluate(due) => done,
        },
        WorkItem::Run { job, .. } => worker.run(job, &cancel).await,
    }
}

/// The loop of one worker. Work in progress is dropped when the daemon stops, and its claim is given back. A worker
/// that fails or panics at one piece of work continues with the next; the lease of its job then runs out, and the job
/// is recovered.
async fn work_loop<F: Future<Output = Result<(), Error>>>(
    act: impl Fn(WorkItem) -> F,
    queue: async_channel::Receiver<WorkItem>,
    finished: mpsc::Sender<Input>,
    cancel: CancellationToken,
) {
    while let Ok(work) = queue.recv().await {
        let done = AssertUnwindSafe(async { act(work.clone()).await }).catch_unwind().await;
        if cancel.is_cancelled() {
            break;
        }
        let outcome = match done {
            Ok(Ok(()) | Err(Error::Store(store::Error::LeaseLost | store::Error::Closed))) => Input::Finished(work),
            Ok(Err(error)) => {
                tracing::warn!(%error, ?work, "work failed and is tried again later");
                Input::Failed(work, Instant::now())
            }
            Err(_) => {
                tracing::error!(?work, "a worker panicked");
                Input::Failed(work, Instant::now())
            }
        };
        if finished.send(outcome).await.is_err() {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::SessionKey;

    #[tokio::test]
    async fn work_that_panics_or_fails_is_put_aside_and_its_worker_goes_on() {
        let (work, queue) = async_channel::bounded(3);
        for job in 1..=3 {
            work.try_send(WorkItem::Run { job, session: SessionKey(job) }).expect("the queue is not full");
        }
        work.close();
        let (finished, mut results) = mpsc::channel(3);
        let act = |work: WorkItem| async move {
            match work {
                WorkItem::Run { job: 1, .. } => panic!("over the first"),
                WorkItem::Run { job: 2, .. } => Err(Error::Store(store::Error::Busy("busy"))),
                _ => Ok(()),
            }
        };
        work_loop(act, queue, finished, CancellationToken::new()).await;
        let mut state = SchedulerState::default();
        let all = || (1..=3).map(|job| (job, SessionKey(job))).collect();
        let found = || Input::Found { due: Vec::new(), ready: all(), now: Instant::now() };
        assert_eq!(step(&mut state, found()).len(), 3);
        while let Some(input) = results.recv().await {
            step(&mut state, input);
        }
        let again = step(&mut state, found());
        assert!(matches!(again[..], [WorkItem::Run { job: 3, .. }]), "{again:?}");
    }
}
