//! The service: follows the log, and fills the index.

use super::step::{Effect, IndexingState, Input, step};
use crate::background::yield_to_others;
use crate::clock::Clock;
use crate::limits;
use crate::model::Seq;
use crate::store::{self, Indexer, Store};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Options of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The niceness of its thread, where the system has one for each thread.
    pub niceness: i32,
}

impl Default for Options {
    fn default() -> Self {
        Self { niceness: limits::SEARCH_NICENESS }
    }
}

/// The service.
pub struct Service {
    store: Store,
    clock: Clock,
    options: Options,
    indexer: Option<Indexer>,
}

impl Service {
    /// A service over a store, whose index it opens; nothing else happens until it runs. What a full or failing disk
    /// prevents is tried again while it runs, so that the daemon starts.
    ///
    /// # Errors
    ///
    /// If the file of the index is another program's, or open to others.
    pub fn open(store: Store, clock: Clock, options: Options) -> store::Result<Self> {
        let indexer = match store.search().open(clock.clone()) {
            Ok(indexer) => Some(indexer),
            Err(error @ store::Error::Open(_)) => return Err(error),
            Err(error) => {
                log(&error, 0);
                None
            }
        };
        Ok(Self { store, clock, options, indexer })
    }

    /// Fills the index until it is cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let (ended, end) = oneshot::channel();
        let runtime = tokio::runtime::Handle::current();
        // A thread of its own: it can yield to all others, and the work between two waits is long.
        let work = move || {
            yield_to_others(self.options.niceness);
            runtime.block_on(Worker::new(self).work(&cancel));
            // Nobody may be waiting for the end.
            let _ = ended.send(());
        };
        match std::thread::Builder::new().name("search index".to_owned()).spawn(work) {
            Ok(_) => drop(end.await),
            Err(error) => tracing::error!(%error, "the thread of the search index cannot be started"),
        }
    }
}

/// The service at work, with what it owns.
struct Worker {
    indexer: Option<Indexer>,
    store: Store,
    clock: Clock,
    head: watch::Receiver<Seq>,
    /// What searches wait for.
    asked: watch::Receiver<Seq>,
    state: IndexingState,
    wait_end: Option<Instant>,
    pause: Option<Pause>,
}

#[derive(Clone, Copy)]
struct Pause {
    end: Instant,
    /// When the log is looked at.
    look: Instant,
    /// Its newest event at the last look.
    head: Seq,
}

/// The time between two looks at the log in a pause: without an event in it, the log rests. To wait for each event would
/// wake the thread at every commit.
const LOOK: Duration = Duration::from_millis(limits::SEARCH_GATHER_MS);

impl Worker {
    fn new(service: Service) -> Self {
        let Service { store, clock, indexer, .. } = service;
        let head = store.log().watch_events();
        let asked = store.search().awaited_seq();
        let state = IndexingState { indexed: indexer.as_ref().map_or(0, Indexer::seq), ..IndexingState::default() };
        Self { indexer, store, clock, head, asked, state, wait_end: None, pause: None }
    }

    async fn work(mut self, cancel: &CancellationToken) {
        let mut input = Input::Head(*self.head.borrow_and_update());
        loop {
            match step(&mut self.state, input) {
                Some(Effect::Index) => {
                    self.pause = None;
                    if cancel.is_cancelled() {
                        return;
                    }
                    input = self.index();
                    continue;
                }
                Some(Effect::Rebuild) => {
                    input = self.rebuild();
                    continue;
                }
                Some(Effect::Wait(delays)) => {
                    let delay = Duration::from_millis(limits::SEARCH_RETRY_MS) * delays;
                    self.wait_end = Some(Instant::now() + delay);
                }
                Some(Effect::Pause(time)) => {
                    let now = Instant::now();
                    self.pause = Some(Pause { end: now + time, look: now + LOOK.min(time), head: self.state.head });
                    if let Some(Err(error)) = self.indexer.as_mut().map(Indexer::join) {
                        input = failed(&error, self.state.failures);
                        continue;
                    }
                }
                None => {}
            }
            let Some(next) = self.next(cancel).await else { return };
            input = next;
        }
    }

    /// Waits for what happens next; none if it is cancelled or the store closes.
    async fn next(&mut self, cancel: &CancellationToken) -> Option<Input> {
        loop {
            let until = async |end: Option<Instant>| match end {
                Some(end) => tokio::time::sleep_until(end).await,
                None => std::future::pending().await,
            };
            tokio::select! {
                () = cancel.cancelled() => return None,
                () = until(self.wait_end) => {
                    self.wait_end = None;
                    return Some(Input::Waited);
                }
                Ok(()) = self.asked.changed() => return Some(Input::Asked(*self.asked.borrow_and_update())),
                () = until(self.pause.map(|pause| pause.look)) => {
                    if let Some(head) = self.look() {
                        return Some(Input::Paused(head));
                    }
                }
                changed = self.head.changed(), if self.pause.is_none() => {
                    changed.ok()?;
                    return Some(Input::Head(*self.head.borrow_and_update()));
                }
            }
        }
    }

    /// Looks at the log in a pause. Returns its newest event if that ends the pause.
    fn look(&mut self) -> Option<Seq> {
        let head = *self.head.borrow_and_update();
        self.pause = self.pause.filter(|pause| pause.look < pause.end && pause.head < head);
        let Some(pause) = &mut self.pause else { return Some(head) };
        (pause.head, pause.look) = (head, (pause.look + LOOK).min(pause.end));
        None
    }

    /// Indexes the next page of the log.
    fn index(&mut self) -> Input {
        let began = Instant::now();
        let Some(indexer) = &mut self.indexer else { return self.rebuild() };
        let page = match indexer.next_page() {
            Ok(Some(page)) => page,
            // The commit of what was announced is there: its reader only has to look again.
            Ok(None) => return Input::Failed,
            Err(error) => {
                log(&error, self.state.failures);
                return Input::Failed;
            }
        };
        match indexer.add(page, self.state.is_behind) {
            Ok(()) => {
                let head = *self.head.borrow_and_update();
                Input::Indexed { seq: indexer.seq(), head, spent: began.elapsed() }
            }
            Err(error) => failed(&error, self.state.failures),
        }
    }

    fn rebuild(&mut self) -> Input {
        let rebuilt = match self.indexer.take() {
            Some(indexer) => indexer.rebuild(),
            None => self.store.search().open(self.clock.clone()),
        };
        match rebuilt {
            Ok(indexer) => {
                let seq = indexer.seq();
                self.indexer = Some(indexer);
                Input::Rebuilt(seq)
            }
            Err(error) => failed(&error, self.state.failures),
        }
    }
}

/// Logs an error when it is new, and then ever less often.
fn log(error: &store::Error, failures: u32) {
    if failures.count_ones() <= 1 {
        tracing::warn!(%error, failures, "the search index is filled later");
    }
}

/// What follows from an error of the index.
fn failed(error: &store::Error, failures: u32) -> Input {
    log(error, failures);
    match error {
        store::Error::Corrupt { .. } => Input::Damaged,
        _ => Input::Failed,
    }
}
