//! The one writer: it owns the only connection that can write, and commits waiting mutations together.
//!
//! A caller queues a closure with a description of it (`WriterHandle::write`). The writer's thread takes all that wait
//! as one batch (`Writer::run`), or as many as are done in a short time if they are of several tenants (`Pace`), by turns
//! of those who ask (`mailbox`). It applies them in one transaction, which gathers their rows and writes them at its end
//! (`Tx`), and commits. Only then are the new state of sessions kept in memory, readers and the scheduler notified, and
//! the callers answered. If the transaction fails, each mutation gets one of its own. Between two batches the writer
//! makes checkpoints.

use super::error::{DiskFailure, Error, Result};
use super::mailbox::{Batch, Bell, Receiver, Sender, mailbox};
use super::pace::Pace;
use super::write_state::WriteState;
use crate::clock::Clock;
use crate::engine::database::{CleaningProgress, Database};
use crate::engine::figures::{QueuedMutation, WriterMeter};
use crate::engine::health::Health;
use crate::engine::{self, Connection};
use crate::ledger::claims::Claims;
use crate::ledger::commits::Commits;
use crate::ledger::heads::Heads;
use crate::ledger::quotas::Quotas;
use crate::ledger::ring::Ring;
use crate::ledger::secrets::Secrets;
use crate::ledger::tx::{Counters, EraseExtent, FinishedTx, Rules, Tx};
use crate::ledger::visibility::Memberships;
use crate::ledger::{approvals, open_messages, runs};
use crate::limits;
use crate::model::Seq;
use crate::model::time::Timestamp;
use crate::telemetry::failpoint;
use crate::turns::{self, Room, TakenRoom};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

mod cleaning;

use cleaning::{CLEANED, CleaningState, SET_CLEAN};

/// The writer's view of a mutation, besides its effect.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mutation {
    /// The name of its fail points.
    name: &'static str,
    /// Bytes of its content.
    bytes: usize,
    /// True for content of clients: sessions, messages, parts, text of drafts.
    carries_content: bool,
    /// True if it may change more of the scheduler's work than due marks: jobs, and the times at which sessions become
    /// due.
    may_make_work: bool,
}

impl Mutation {
    /// A change of sessions, history or jobs behind which the scheduler may find work.
    pub(crate) fn change(name: &'static str) -> Self {
        Self { name, bytes: 0, carries_content: false, may_make_work: true }
    }

    /// A new session, whose content is its title and its policy.
    pub(crate) fn session(name: &'static str) -> Self {
        Self { carries_content: true, ..Self::change(name) }
    }

    /// Content of clients within a session.
    pub(crate) fn content(name: &'static str, bytes: usize) -> Self {
        Self { name, bytes, carries_content: true, may_make_work: false }
    }

    /// Content of clients that comes with a change of a session's history, behind which the scheduler may find work.
    pub(crate) fn content_and_change(name: &'static str, bytes: usize) -> Self {
        Self { may_make_work: true, ..Self::content(name, bytes) }
    }

    /// Data that Longhand derives or records beside a session's history.
    pub(crate) fn derived(name: &'static str, bytes: usize) -> Self {
        Self { name, bytes, carries_content: false, may_make_work: false }
    }

    /// True if this pass of a fail point is the one at which it acts.
    fn fails(&self, point: &str) -> bool {
        failpoint::is_armed() && failpoint::fails(&format!("{}.{point}", self.name))
    }

    /// Aborts the process if a fail point is to act.
    fn reach(&self, point: &str) {
        if failpoint::is_armed() {
            failpoint::reach(&format!("{}.{point}", self.name));
        }
    }
}

/// A mutation that waits for the writer.
trait Apply: Send {
    /// Validates, then gathers rows, and keeps the answer. An error concerns the database, and undoes the whole
    /// transaction. It may be applied again in another transaction.
    fn apply(&mut self, tx: &mut Tx<'_>) -> Result<()>;

    /// True if it was applied, and not refused.
    fn is_accepted(&self) -> bool;

    /// Sends the kept answer, or this error in its place. The caller may be gone; the write stays.
    fn answer(self: Box<Self>, error: Option<Error>);
}

/// A mutation with its answer and the channel for it.
struct Call<T, F> {
    apply: F,
    answer: Result<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T: Send, F: Fn(&mut Tx<'_>) -> Result<T> + Send> Apply for Call<T, F> {
    fn apply(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        match (self.apply)(tx) {
            Err(error) if error.is_of_database() => Err(error),
            answer => {
                self.answer = answer;
                Ok(())
            }
        }
    }

    fn is_accepted(&self) -> bool {
        self.answer.is_ok()
    }

    fn answer(self: Box<Self>, error: Option<Error>) {
        drop(self.reply.send(error.map_or(self.answer, Err)));
    }
}

/// A queued mutation.
struct Envelope {
    mutation: Mutation,
    call: Box<dyn Apply>,
    /// Its part of the room of the queue, held until the commit even if the sender is gone.
    _room: TakenRoom,
    _queued: QueuedMutation,
}

impl Envelope {
    /// Answers the caller. The mutation is not queued any more by then, neither for the room of the queue nor for the figures.
    fn answer(self, error: Option<Error>) {
        let Self { call, mutation: _, _room: room, _queued: queued } = self;
        drop((room, queued));
        call.answer(error);
    }
}

/// Sends mutations to the writer.
#[derive(Clone)]
pub(crate) struct WriterHandle {
    queue: Sender<Envelope>,
    /// Room for what is queued, in bytes.
    room: Arc<Room>,
    meter: WriterMeter,
    is_ending: Arc<AtomicBool>,
}

impl WriterHandle {
    /// Has a mutation applied in a transaction, and waits until its effect is durable. It is applied again if the
    /// transaction that it shared with others failed.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        mutation: Mutation,
        apply: impl Fn(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let share = turns::share();
        let bytes = mutation.bytes.saturating_add(limits::MUTATION_BYTES);
        let room = self
            .room
            .take(&share, bytes)
            .ok_or(Error::Busy("too many writes of this access token, or of its tenant, are waiting"))?;
        let (reply, answer) = oneshot::channel();
        let call = Box::new(Call { apply, answer: Err(Error::Closed), reply });
        let queued = Envelope { mutation, call, _room: room, _queued: self.meter.queue() };
        if !self.queue.send(&share, queued) {
            return Err(Error::Closed);
        }
        answer.await.map_err(|_| Error::Closed)?
    }

    /// Has the writer look at its files, and at what is left to be done with them.
    pub(super) fn check(&self) {
        self.queue.bell().ring();
    }

    /// What ends the writer while handles are left.
    pub(super) fn ending(&self) -> WriterShutdown {
        WriterShutdown { writer: self.queue.bell(), is_ending: Arc::clone(&self.is_ending) }
    }

    /// The counts of queued mutations and of commits.
    pub(super) fn meter(&self) -> &WriterMeter {
        &self.meter
    }
}

/// The writer's owner outside of its thread. It has the writer compare its files from time to time, and ends the writer
/// when it is dropped.
pub(super) struct Owner {
    writer: Bell<Envelope>,
    is_gone: Arc<AtomicBool>,
    interval: Duration,
}

impl Owner {
    /// Compares the files at intervals, until the future is dropped.
    pub(super) async fn check_files(&self) {
        let mut ticks = tokio::time::interval(self.interval);
        loop {
            ticks.tick().await;
            self.writer.ring();
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.is_gone.store(true, Ordering::Release);
        self.writer.ring();
    }
}

/// Ends the writer while handles are left.
pub struct WriterShutdown {
    writer: Bell<Envelope>,
    is_ending: Arc<AtomicBool>,
}

impl WriterShutdown {
    /// Has the writer close its queue, and end as soon as what is queued is done.
    pub fn end(&self) {
        self.is_ending.store(true, Ordering::Release);
        self.writer.ring();
    }
}

/// The writer. Once the last handle is dropped, or it is ended, it ends behind all mutations that wait; and when its owner is
/// gone.
pub(crate) struct Writer {
    database: Box<dyn Database>,
    clock: Clock,
    /// The number of clock leaps after which open messages have got their full timeout again.
    leaps: u64,
    heads: Heads,
    counters: Counters,
    claims: Claims,
    queue: Receiver<Envelope>,
    pace: Pace,
    head_seq: watch::Sender<Seq>,
    /// The same number, for receivers that commits without events do not concern.
    newest_event: watch::Sender<Seq>,
    /// Notified of commits behind which the scheduler may find work.
    work: watch::Sender<()>,
    health: Arc<Health>,
    meter: WriterMeter,
    committed: CommittedState,
    /// True once the owner is gone: nothing more is committed.
    is_gone: Arc<AtomicBool>,
    /// True once the queue is to be closed.
    is_ending: Arc<AtomicBool>,
    cleaning: CleaningState,
}

/// What the writer keeps in memory for readers, brought up to date with each commit before the commit is announced.
#[derive(Clone)]
pub(super) struct CommittedState {
    /// Those who keep sessions in memory.
    pub(super) commits: Arc<Commits>,
    /// The newest events.
    pub(super) ring: Arc<Ring>,
    /// Whose sessions are.
    pub(super) memberships: Arc<Memberships>,
    /// What tenants use of their quotas.
    pub(super) quotas: Arc<Quotas>,
    /// The rules for secrets.
    pub(super) secrets: Arc<Secrets>,
}

impl CommittedState {
    /// Nothing is committed yet.
    pub(super) fn new(secrets: Arc<Secrets>) -> Self {
        let (commits, ring, memberships, quotas) = Default::default();
        Self { commits, ring, memberships, quotas, secrets }
    }
}

/// The writer's announcements of commits.
#[derive(Clone)]
pub(super) struct CommitWatches {
    /// The number of the newest committed event.
    pub(super) head_seq: watch::Receiver<Seq>,
    /// The same number; changes with commits of events alone.
    pub(super) newest_event: watch::Receiver<Seq>,
    /// Changes with each commit behind which the scheduler may find work.
    pub(super) work: watch::Receiver<()>,
    /// The number of the newest erasure of which no file has anything.
    pub(super) cleaned: watch::Receiver<i64>,
}

const COUNTERS: &str = "select (select coalesce(max(seq), 0) + 1 from event), \
     (select coalesce(max(id), 0) + 1 from message)";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[COUNTERS, CLEANED, SET_CLEAN];

impl Writer {
    /// Takes the database; nothing else may write.
    pub(crate) fn new(
        database: Box<dyn Database>,
        clock: Clock,
        health: Arc<Health>,
        committed: CommittedState,
    ) -> Result<(Self, WriterHandle, CommitWatches, Owner)> {
        let row = engine::query(COUNTERS).one(database.connection())?;
        let counters = Counters { next_seq: row.get(0)?, next_message: row.get(1)? };
        let (sender, queue) = mailbox();
        let (head_seq, head_receiver) = watch::channel(counters.next_seq - 1);
        let (newest_event, newest_receiver) = watch::channel(counters.next_seq - 1);
        let (work, work_receiver) = watch::channel(());
        let (cleaning, cleaned_receiver) = CleaningState::load(database.connection())?;
        let announced = CommitWatches {
            head_seq: head_receiver,
            newest_event: newest_receiver,
            work: work_receiver,
            cleaned: cleaned_receiver,
        };
        let interval = database.check_interval();
        let writer = Self {
            database,
            leaps: clock.leaps(),
            clock,
            heads: Heads::default(),
            counters,
            claims: Claims::default(),
            queue,
            pace: Pace::default(),
            head_seq,
            newest_event,
            work,
            health,
            meter: WriterMeter::default(),
            committed,
            is_gone: Arc::default(),
            is_ending: Arc::default(),
            cleaning,
        };
        let owner = Owner { writer: sender.bell(), is_gone: Arc::clone(&writer.is_gone), interval };
        let room = Room::new(limits::WRITER_QUEUE_BYTES_MAX);
        let is_ending = Arc::clone(&writer.is_ending);
        let handle = WriterHandle { queue: sender, room, meter: writer.meter.clone(), is_ending };
        Ok((writer, handle, announced, owner))
    }

    /// Commits waiting mutations, batch by batch, until it is ended, or all senders or the owner are gone. It blocks its thread.
    pub(crate) fn run(mut self) {
        while let Some(Batch { letters: batch, is_rung: is_checked, is_shared }) = {
            let pace = &self.pace;
            self.queue.take_batch(!self.cleaning.goes_on, |tenants| pace.most(tenants))
        } {
            if is_shared {
                self.pace.share(self.clock.now());
            }
            if is_checked {
                self.check(self.counters.next_seq - 1);
            }
            if self.is_gone.load(Ordering::Acquire) {
                break;
            }
            if self.is_ending.load(Ordering::Acquire) {
                // What is in the queue is still received.
                self.queue.close();
            }
            self.clean_or_shrink(is_checked, batch.is_empty());
            if batch.is_empty() {
                continue;
            }
            let bytes = batch.iter().map(|envelope| envelope.mutation.bytes).sum();
            self.transact_all(batch);
            self.heads.trim();
            if !self.health.writes().is_final() {
                self.database.batch_ended(bytes);
            }
        }
        // Only what is still there is closed in order.
        self.check(self.counters.next_seq - 1);
        self.database.close();
    }

    /// Does what is left to be done, at a check or while it goes on. To give pages of a large file back takes as long as many
    /// appends: it waits until erasures are over.
    fn clean_or_shrink(&mut self, is_checked: bool, is_idle: bool) {
        if !is_checked && !self.cleaning.goes_on {
            return;
        }
        self.cleaning.goes_on = false;
        if !is_checked {
            self.check(self.counters.next_seq - 1);
        }
        if self.health.writes().is_final() {
            return;
        }
        if self.cleaning.is_unclean {
            self.clean();
        } else {
            // Many pages while nobody waits, else a few.
            self.database.shrink(&|| is_idle && self.queue.is_empty());
        }
    }

    /// Makes one step to take what was erased out of what the store is kept in. What is left is for the next check, after a
    /// restart too.
    fn clean(&mut self) {
        let cleaned = self.database.clean().and_then(|cleaned| {
            match cleaned {
                CleaningProgress::Partly => self.cleaning.goes_on = true,
                CleaningProgress::Blocked => {}
                CleaningProgress::Unable => self.cleaning.is_unclean = false,
                CleaningProgress::Fully => self.note_cleaned()?,
            }
            Ok(())
        });
        if let Err(error) = cleaned {
            let error = match error {
                Error::Full | Error::ReadOnly | Error::Disk(_) => self.give_up(error, false),
                error => error,
            };
            tracing::warn!(%error, "files still have bytes of erased content");
        }
    }

    /// Notes that nothing is left of what was erased.
    fn note_cleaned(&mut self) -> Result<()> {
        failpoint::reach("erase.emptied");
        let conn = self.database.connection();
        let transaction = conn.transaction()?;
        engine::query(SET_CLEAN).run(&transaction)?;
        transaction.commit()?;
        failpoint::reach("erase.clean");
        self.cleaning.is_unclean = false;
        let row = engine::query(CLEANED).one(conn)?;
        self.cleaning.cleaned.send_replace(row.get(0)?);
        Ok(())
    }

    /// Stops acknowledging if the store, whose newest event has this number, is no longer where a restart would find it.
    fn check(&mut self, newest: Seq) {
        if !self.health.writes().is_final() {
            self.database.check(newest);
        }
    }

    /// One transaction for all mutations; if it fails, one for each, so that a bad one affects only itself.
    fn transact_all(&mut self, mut batch: Vec<Envelope>) {
        if batch.len() > 1 {
            match self.transact(&mut batch) {
                Ok(()) => return batch.into_iter().for_each(|envelope| envelope.answer(None)),
                // The outcome of each is unknown, so none is tried again.
                Err(Error::Uncertain) => {
                    return batch.into_iter().for_each(|envelope| envelope.answer(Some(Error::Uncertain)));
                }
                Err(_) => {}
            }
        }
        for mut envelope in batch {
            let mut outcome = self.transact(std::slice::from_mut(&mut envelope));
            // Nothing of it was written, and there is a connection again.
            if matches!(outcome, Err(Error::Unreachable(_))) && self.database.connection().is_idle() {
                outcome = self.transact(std::slice::from_mut(&mut envelope));
            }
            envelope.answer(outcome.err());
        }
    }

    /// Applies the mutations in one transaction. An error here means that none of them was done, unless it is
    /// `Uncertain`.
    fn transact(&mut self, batch: &mut [Envelope]) -> Result<()> {
        self.health.check()?;
        let now = self.clock.now();
        let leaps = self.clock.leaps();
        let could_write = leaps == self.leaps && self.health.writes() == WriteState::Accepted;
        let finished = match self.apply_all(batch, now, could_write) {
            Ok(finished) => finished,
            Err(error) => return Err(self.give_up(error, false)),
        };
        let applied = self.clock.now();
        self.committed.commits.begin(&finished.commits);
        let newest = finished.counters.next_seq - 1;
        self.commit(batch, newest).inspect_err(|error| self.not_committed(error))?;
        let end = self.clock.now();
        self.meter.committed(now, end);
        self.pace.measure(batch.len(), now, applied, end);
        batch.iter().for_each(|envelope| envelope.mutation.reach("committed"));
        self.leaps = leaps;
        // Content in files that can no longer be found is lost after a restart.
        self.check(newest);
        if self.health.writes().is_final() {
            self.forget();
            return Err(Error::Uncertain);
        }
        // A scheduler's decision may still fit on a disk where a message does not, so it proves nothing.
        if batch.iter().any(|envelope| envelope.mutation.carries_content && envelope.call.is_accepted()) {
            self.health.set(WriteState::Accepted);
        }
        let FinishedTx { counters, claims, interrupted, commits, events, uses, erased } = finished;
        let is_due = commits.iter().any(|commit| commit.newest.pending.is_due);
        (self.counters, self.claims) = (counters, claims);
        self.committed.commits.committed(&commits);
        self.committed.memberships.committed(&events);
        self.committed.quotas.committed(&uses, now);
        // Those of this transaction too: what was written before the erasure may have what is erased by now.
        match erased {
            EraseExtent::Nothing => self.committed.ring.committed(events),
            EraseExtent::Continues | EraseExtent::Ended => self.committed.ring.forget(),
        }
        self.cleaning.is_unclean |= erased == EraseExtent::Ended;
        interrupted.iter().for_each(CancellationToken::cancel);
        self.head_seq.send_replace(newest);
        self.newest_event.send_if_modified(|before| std::mem::replace(before, newest) != newest);
        if is_due || batch.iter().any(|envelope| envelope.mutation.may_make_work) {
            self.work.send_replace(());
        }
        // It is there, and readers see it. Who wrote it learns that a failover may still lose it.
        if self.database.was_doubted() { Err(Error::Uncertain) } else { Ok(()) }
    }

    /// Commits what was written.
    fn commit(&mut self, batch: &[Envelope], newest: Seq) -> Result<()> {
        let before = self.counters.next_seq - 1;
        let fails = |point| batch.iter().any(|envelope| envelope.mutation.fails(point));
        batch.iter().for_each(|envelope| envelope.mutation.reach("uncommitted"));
        if fails("full") {
            return Err(self.database.give_up(Error::Full, before, false));
        }
        if fails("refused") {
            return Err(self.database.give_up(Error::Database("refused".to_owned()), before, false));
        }
        self.database.commit(before, newest)?;
        if fails("unsynced") {
            let error = Error::Disk(DiskFailure { message: "not synced".to_owned(), may_be_of_sync: true });
            return Err(self.database.give_up(error, before, true));
        }
        Ok(())
    }

    /// Drops what is kept in memory of sessions, here and by observers: the database may be newer or older.
    fn forget(&mut self) {
        self.heads.clear();
        self.committed.commits.forget();
        // An erasure may be in the database without having been answered.
        self.committed.ring.forget();
    }

    /// A commit failed. What observers keep is as it was if the database certainly has nothing of it.
    fn not_committed(&mut self, error: &Error) {
        match error {
            Error::Full | Error::ReadOnly => {
                self.heads.clear();
                self.committed.commits.failed();
            }
            _ => self.forget(),
        }
    }

    /// Undoes the transaction, and returns the error that describes its state.
    fn give_up(&mut self, error: Error, was_committing: bool) -> Error {
        // What observers keep was committed before.
        self.heads.clear();
        self.database.give_up(error, self.counters.next_seq - 1, was_committing)
    }

    /// Writes the rows of all mutations, without the commit.
    ///
    /// If clients could not write for a while, `could_write` is false and open messages get their full timeout again.
    fn apply_all(&mut self, batch: &mut [Envelope], now: Timestamp, could_write: bool) -> Result<FinishedTx> {
        self.database.begin()?;
        let CommittedState { quotas, secrets, .. } = &self.committed;
        let rules = Rules { quotas, secrets };
        let mut tx = Tx::new(
            self.database.connection(),
            &mut self.heads,
            self.counters.clone(),
            self.claims.clone(),
            (now, rules),
        );
        if !could_write {
            restart_timeouts(tx.conn, now)?;
        }
        for envelope in batch {
            envelope.call.apply(&mut tx)?;
            tx.check_ended()?;
        }
        tx.finish()
    }
}

/// Restarts what clients must do in time, after a time in which they could do nothing: the daemon was down, the machine
/// slept, or the disk was full.
pub(super) fn restart_timeouts(conn: &Connection, now: Timestamp) -> Result<()> {
    open_messages::restart(conn, now)?;
    runs::restart(conn, now)?;
    approvals::restart(conn, now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turns::Turns;
    use futures::FutureExt as _;

    fn handle(room: usize) -> (WriterHandle, Receiver<Envelope>) {
        let (queue, waiting) = mailbox();
        let room = Room::new(room);
        (WriterHandle { queue, room, meter: WriterMeter::default(), is_ending: Arc::default() }, waiting)
    }

    #[tokio::test]
    async fn queued_content_counts_until_the_writer_has_taken_it_even_without_its_sender() {
        // A token has a third of the room.
        let (handle, mut waiting) = handle(3 * (limits::MUTATION_BYTES + 2_048));
        let write = || handle.write(Mutation::content("append", 2_048), |_| Ok(()));
        assert!(write().now_or_never().is_none(), "it waits, and its sender goes");
        assert!(matches!(write().now_or_never(), Some(Err(Error::Busy(_)))));
        drop(waiting.take_batch(true, |_| 1));
        assert!(write().now_or_never().is_none(), "the queue is free again");
    }

    #[tokio::test]
    async fn a_token_that_fills_its_share_of_the_queue_is_refused_and_another_tenant_is_in_the_next_batch() {
        let (handle, mut waiting) = handle(3_000 * limits::MUTATION_BYTES);
        let turns = Turns::new(1, 1, 10_000);
        let of = |tenant: &str| {
            let turn = turns.begin(&turns::Share::new(tenant.into(), "token".into())).expect("room");
            let write =
                handle.write(Mutation::derived(if tenant == "quiet" { "quiet" } else { "loud" }, 0), |_| Ok(()));
            turn.take_turns(write).now_or_never()
        };
        for _ in 0..1_000 {
            assert!(of("loud").is_none(), "it waits");
        }
        assert!(matches!(of("loud"), Some(Err(Error::Busy(_)))), "it has its share");
        assert!(of("quiet").is_none(), "another one waits");
        let batch = waiting.take_batch(true, |tenants| tenants).expect("mutations").letters;
        let names: Vec<&str> = batch.iter().map(|envelope| envelope.mutation.name).collect();
        assert_eq!(names, ["loud", "quiet"]);
    }
}
