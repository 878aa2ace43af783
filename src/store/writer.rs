//! The one writer: it owns the only connection that can write, and commits waiting commands together.

use super::append::{Append, AppendParts, FinishMessage};
use super::by_hand;
use super::checkpoint;
use super::claims::{self, Claim, Claims, Planned};
use super::compactions::{Commit, Committed, Supply};
use super::counts::KeepCounts;
use super::drafts::{AppendDraft, DraftReceipt};
use super::error::{Error, Result};
use super::files;
use super::head::{Receipt, SessionKey};
use super::health::{Health, WriteState};
use super::jobs::{self, EndJob, Enqueue, Enqueued, Evaluation};
use super::marks::Rewrite;
use super::open_messages;
use super::recent::Recent;
use super::requests::AddRequests;
use super::script::{Failed, Script};
use super::search::AddWords;
use super::sessions::{self, CreateSession, ForkSession, UpdateSession};
use super::tx::{Caller, Counters, Finished, Heads, Tx};
use crate::clock::Clock;
use crate::limits;
use crate::model::Seq;
use crate::model::ids::CompactionId;
use crate::model::time::Timestamp;
use crate::telemetry::failpoint;
use sqlx::{Connection as _, SqliteConnection};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// A command for the writer. The set is closed.
#[derive(Clone)]
pub(crate) enum Command {
    /// Append messages.
    Append(Append),
    /// Add parts to an open message.
    AppendParts(AppendParts),
    /// Add text to a draft.
    AppendDraft(AppendDraft),
    /// Seal an open message.
    Finish(FinishMessage),
    /// Make a session.
    Create(CreateSession, Caller),
    /// Change a session.
    Update(UpdateSession, SessionKey, Caller),
    /// Archive or restore a session.
    Archive(SessionKey, bool, Caller),
    /// Fork a session.
    Fork(ForkSession, SessionKey, Caller),
    /// Rewind, edit, pin, undo.
    Rewrite(Rewrite),
    /// Commit a finished summary.
    Supply(Box<Supply>),
    /// Request a compaction.
    Enqueue(Enqueue),
    /// Claim a job.
    Claim(i64, Uuid, Timestamp),
    /// Find the claim of a stopped daemon.
    LostClaim(i64),
    /// Keep a claim alive.
    Heartbeat(Claim, Timestamp),
    /// Record the range of a summary in progress.
    Plan(Claim, Planned),
    /// Commit a compaction.
    Commit(Box<Commit>),
    /// End a job without effect.
    End(EndJob),
    /// Confirm a proposed compaction.
    Confirm(CompactionId),
    /// Let the next attempt begin at once.
    Expedite(CompactionId, Caller),
    /// Cancel a compaction.
    Cancel(CompactionId, Caller),
    /// Clear a due mark.
    Evaluated(SessionKey, Evaluation),
    /// Set the due marks of sessions whose wake time has come.
    Wake,
    /// Seal open messages that have expired.
    Expire,
    /// Record requests to models.
    AddRequests(AddRequests),
    /// Add words to the index.
    AddWords(AddWords),
    /// Keep the counts of messages.
    KeepCounts(KeepCounts),
}

/// The writer's answer to a command.
pub(crate) enum Reply {
    Receipt(Receipt),
    Draft(DraftReceipt),
    Session(SessionKey, bool),
    Enqueued(Option<Enqueued>),
    Claim(Option<Box<Claim>>),
    Committed(Committed),
    Done,
}

/// A queued command, with the channel for its answer.
struct Envelope {
    command: Command,
    reply: oneshot::Sender<Result<Reply>>,
    /// Its content's share of the room, which is held until the write even if the sender is gone.
    room: OwnedSemaphorePermit,
}

/// Sends commands to the writer.
#[derive(Clone)]
pub(crate) struct WriterHandle {
    commands: mpsc::Sender<Envelope>,
    /// Kibibytes of content that may still be queued.
    room: Arc<Semaphore>,
}

impl WriterHandle {
    /// Sends a command and waits until its effect is durable.
    pub(crate) async fn send(&self, command: Command) -> Result<Reply> {
        let many = kibibytes(command.bytes());
        let room = self.room.clone().try_acquire_many_owned(many).map_err(|_| Error::Busy)?;
        let (reply, answer) = oneshot::channel();
        self.commands.try_send(Envelope { command, reply, room }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Error::Busy,
            mpsc::error::TrySendError::Closed(_) => Error::Closed,
        })?;
        answer.await.map_err(|_| Error::Closed)?
    }
}

/// The writer. It ends once the last handle is dropped and all commands are done.
pub(crate) struct Writer {
    conn: SqliteConnection,
    clock: Clock,
    /// The number of clock leaps after which open messages have got their full timeout again.
    leaps: u64,
    heads: Heads,
    counters: Counters,
    claims: Claims,
    commands: mpsc::Receiver<Envelope>,
    head_seq: watch::Sender<Seq>,
    /// Notified of commits behind which the scheduler may find work.
    work: watch::Sender<()>,
    health: Arc<Health>,
    files: files::Watch,
    recent: Arc<Recent>,
}

/// The writer's announcements of commits.
#[derive(Clone)]
pub(super) struct Announced {
    /// The number of the newest committed event.
    pub(super) head_seq: watch::Receiver<Seq>,
    /// Changes with each commit behind which the scheduler may find work.
    pub(super) work: watch::Receiver<()>,
}

const COUNTERS: &str = "select (select coalesce(max(seq), 0) + 1 from event), \
     (select coalesce(max(id), 0) + 1 from message)";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[COUNTERS];

impl Writer {
    /// Takes the connection; nothing else may write.
    pub(crate) async fn new(
        mut conn: SqliteConnection,
        clock: Clock,
        health: Arc<Health>,
        files: files::Watch,
        recent: Arc<Recent>,
    ) -> Result<(Self, WriterHandle, Announced)> {
        let (next_seq, next_message): (i64, i64) = sqlx::query_as(COUNTERS).fetch_one(&mut conn).await?;
        let counters = Counters { next_seq, next_message };
        let (sender, commands) = mpsc::channel(limits::WRITER_QUEUE_MAX);
        let (head_seq, head_receiver) = watch::channel(next_seq - 1);
        let (work, work_receiver) = watch::channel(());
        let announced = Announced { head_seq: head_receiver, work: work_receiver };
        let writer = Self {
            conn,
            leaps: clock.leaps(),
            clock,
            heads: Heads::new(),
            counters,
            claims: Claims::default(),
            commands,
            head_seq,
            work,
            health,
            files,
            recent,
        };
        let room = Arc::new(Semaphore::new(limits::WRITER_QUEUE_BYTES_MAX / 1_024));
        Ok((writer, WriterHandle { commands: sender, room }, announced))
    }

    /// Commits waiting commands, batch by batch, until all senders are gone.
    pub(crate) async fn run(mut self) {
        let mut waiting = Vec::with_capacity(limits::WRITER_BATCH_MAX);
        let mut checkpoints = checkpoint::Schedule::default();
        let mut idle = tokio::time::interval(Duration::from_millis(limits::FILES_CHECK_MS));
        loop {
            let count = tokio::select! {
                biased;
                count = self.commands.recv_many(&mut waiting, limits::WRITER_BATCH_MAX) => count,
                _ = idle.tick() => {
                    self.check_files();
                    continue;
                }
            };
            if count == 0 {
                break;
            }
            checkpoints.note(waiting.iter().map(|envelope| envelope.command.bytes()).sum());
            self.commit_all(std::mem::take(&mut waiting)).await;
            if self.heads.len() > limits::HEADS_MAX {
                self.heads.clear();
            }
            checkpoints.run(&mut self.conn, &self.health).await;
        }
        self.close().await;
    }

    /// Closes the connection. Closing the last one makes a checkpoint and removes the log. After a failure of the disk,
    /// or if the log's name belongs to another file, that could lose the content of the log.
    async fn close(mut self) {
        self.check_files();
        if self.health.writes().is_final() {
            tracing::error!("the log is left as it is: the next start reads what it holds");
            std::mem::forget(self.conn);
            return;
        }
        if let Err(error) = sqlx::query("pragma optimize").execute(&mut self.conn).await {
            tracing::debug!(%error, "optimize on close");
        }
        failpoint::reach("checkpoint");
        if let Err(error) = self.conn.close().await {
            tracing::warn!(%error, "closing the database");
        }
    }

    /// Stops acknowledging if the files are no longer those that a restart would find.
    fn check_files(&mut self) {
        if self.health.writes().is_final() {
            return;
        }
        if let Err(what) = self.files.check() {
            tracing::error!(what, "the store's files are no longer what they were");
            self.health.set(WriteState::FilesReplaced);
        }
    }

    /// One transaction for all commands; if it fails, one for each, so that a bad command affects only itself.
    async fn commit_all(&mut self, batch: Vec<Envelope>) {
        // The room stays taken until the content is written.
        let mut rooms = Vec::with_capacity(batch.len());
        let open = |Envelope { command, reply, room }| {
            rooms.push(room);
            (command, reply)
        };
        let (commands, replies): (Vec<_>, Vec<_>) = batch.into_iter().map(open).unzip();
        let together = match commands.len() {
            1 => None,
            _ => match self.commit(commands.clone()).await {
                Ok(answers) => Some(answers),
                // The result of each is unknown, so none is tried again.
                Err(Error::Uncertain) => Some(commands.iter().map(|_| Err(Error::Uncertain)).collect()),
                Err(_) => None,
            },
        };
        let answers = match together {
            Some(answers) => answers,
            None => {
                let mut answers = Vec::with_capacity(commands.len());
                for command in commands {
                    answers.push(match self.commit(vec![command]).await {
                        Ok(mut answer) => answer.pop().unwrap_or(Err(Error::Closed)),
                        Err(error) => Err(error),
                    });
                }
                answers
            }
        };
        for (reply, answer) in replies.into_iter().zip(answers) {
            // The caller may be gone; the write stays.
            drop(reply.send(answer));
        }
    }

    /// Executes the commands in one transaction. An error here means that none of them was done, unless it is
    /// `Uncertain`.
    async fn commit(&mut self, commands: Vec<Command>) -> Result<Vec<Result<Reply>>> {
        self.health.check()?;
        let points: Vec<Points> = commands.iter().filter_map(Command::points).collect();
        let carries: Vec<bool> = commands.iter().map(Command::carries_content).collect();
        let may_make_work = commands.iter().any(Command::may_make_work);
        let now = self.clock.now();
        let leaps = self.clock.leaps();
        let could_write = leaps == self.leaps && self.health.writes() == WriteState::Accepted;
        let (answers, script, finished) = match self.write(commands, now, could_write).await {
            Ok(written) => written,
            Err(error) => return Err(self.undo(error, false).await),
        };
        self.recent.begin(finished.sessions.iter().map(|(key, ..)| *key));
        if let Err(failed) = self.commit_script(script, &points).await {
            return Err(self.undo(failed.error, failed.at_last).await);
        }
        points.iter().for_each(|points| failpoint::reach(points.committed));
        self.leaps = leaps;
        // Content in files that can no longer be found is lost after a restart.
        self.check_files();
        if self.health.writes().is_final() {
            self.heads.clear();
            self.recent.forget();
            return Err(Error::Uncertain);
        }
        // A scheduler's decision may still find room on a disk where a message does not, so it proves nothing.
        if carries.iter().zip(&answers).any(|(carries, answer)| *carries && answer.is_ok()) {
            self.health.set(WriteState::Accepted);
        }
        let Finished { counters, claims, interrupted, sessions } = finished;
        let is_due = sessions.iter().any(|(_, newest, _)| newest.pending.is_due);
        (self.counters, self.claims) = (counters, claims);
        self.recent.committed(sessions);
        interrupted.iter().for_each(CancellationToken::cancel);
        self.head_seq.send_replace(self.counters.next_seq - 1);
        if may_make_work || is_due {
            self.work.send_replace(());
        }
        Ok(answers)
    }

    /// Runs a script and commits, in one round trip. The commit is the last statement.
    async fn commit_script(&mut self, mut script: Script, points: &[Points]) -> std::result::Result<(), Failed> {
        let stop = |error| Failed { error, at_last: false };
        if failpoint::is_armed() {
            // A test may stop between the two.
            script.execute(&mut self.conn).await.map_err(stop)?;
            points.iter().for_each(|points| failpoint::reach(points.uncommitted));
            if points.iter().any(|points| failpoint::fails(points.full)) {
                return Err(stop(Error::Full));
            }
            if points.iter().any(|points| failpoint::fails(points.refused)) {
                return Err(stop(Error::Database(sqlx::Error::WorkerCrashed)));
            }
            script = Script::default();
        }
        script.statement("commit");
        script.run(&mut self.conn).await?;
        match points.iter().any(|points| failpoint::fails(points.unsynced)) {
            true => Err(Failed { error: Error::Disk(sqlx::Error::WorkerCrashed), at_last: true }),
            false => Ok(()),
        }
    }

    /// Rolls back, and returns the error that describes the state of the transaction. SQLite rolls back cleanly if a
    /// disk is full or takes no writes: the next commit overwrites the written part of the log. After a failed sync the
    /// log may contain the commit, and the result of a later sync proves nothing about it.
    async fn undo(&mut self, error: Error, was_committing: bool) -> Error {
        self.heads.clear();
        self.recent.forget();
        if let Err(error) = sqlx::query("rollback").execute(&mut self.conn).await {
            tracing::debug!(%error, "nothing to roll back");
        }
        let (state, reply_error) = match error {
            Error::Full => (WriteState::StorageFull, Error::Full),
            Error::ReadOnly => (WriteState::StorageReadOnly, Error::ReadOnly),
            Error::Disk(_) if !error.is_failed_sync() && self.files.is_read_only() => {
                (WriteState::StorageReadOnly, Error::ReadOnly)
            }
            Error::Disk(_) => {
                tracing::error!(%error, "the disk failed");
                let reply_error =
                    if was_committing { Error::Uncertain } else { Error::Stopped(WriteState::DiskFailed) };
                (WriteState::DiskFailed, reply_error)
            }
            Error::Stopped(state) => (state, error),
            _ => return error,
        };
        self.health.set(state);
        reply_error
    }

    /// Executes the commands, except for the remaining script and the commit.
    ///
    /// If clients could not write for a while, `could_write` is false and open messages get their full timeout again.
    async fn write(
        &mut self,
        commands: Vec<Command>,
        now: Timestamp,
        could_write: bool,
    ) -> Result<(Vec<Result<Reply>>, Script, Finished)> {
        let mut tx = Tx::new(&mut self.conn, &mut self.heads, self.counters.clone(), self.claims.clone(), now);
        if !could_write {
            tx.begin().await?;
            open_messages::restart(tx.conn, now).await?;
        }
        if !commands.iter().all(Command::only_gathers) {
            tx.begin().await?;
        }
        let mut answers = Vec::with_capacity(commands.len());
        for command in commands {
            match command.apply(&mut tx).await {
                Err(error) if error.is_of_database() => return Err(error),
                answer => answers.push(answer),
            }
        }
        let (script, finished) = tx.finish();
        Ok((answers, script, finished))
    }
}

/// The fail points around the commit of a command that appends or changes a job.
struct Points {
    /// Everything is written, nothing is committed.
    uncommitted: &'static str,
    /// The disk is full.
    full: &'static str,
    /// The database refuses to commit.
    refused: &'static str,
    /// It is committed, and the disk reports that the sync failed.
    unsynced: &'static str,
    /// It is committed, and no caller has been answered.
    committed: &'static str,
}

macro_rules! points {
    ($name:literal) => {
        Some(Points {
            uncommitted: concat!($name, ".uncommitted"),
            full: concat!($name, ".full"),
            refused: concat!($name, ".refused"),
            unsynced: concat!($name, ".unsynced"),
            committed: concat!($name, ".committed"),
        })
    };
}

/// Bytes as whole kibibytes, the unit of the writer's room.
fn kibibytes(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1_024)).unwrap_or(u32::MAX)
}

impl Command {
    /// The bytes of the command's content; only appends, requests and words for the index carry much.
    fn bytes(&self) -> usize {
        match self {
            Self::Append(append) => append.bytes(),
            Self::AppendParts(append) => append.bytes(),
            Self::AddWords(add) => add.bytes(),
            Self::AddRequests(add) => add.bytes(),
            _ => 0,
        }
    }

    /// True for content of clients: sessions, messages, parts, text of drafts.
    fn carries_content(&self) -> bool {
        match self {
            Self::Create(..) | Self::AppendDraft(_) | Self::Finish(_) => true,
            Self::Append(_) | Self::AppendParts(_) => self.bytes() > 0,
            _ => false,
        }
    }

    /// True for commands that begin the transaction themselves before an immediate write. Most of them never do.
    fn only_gathers(&self) -> bool {
        matches!(self, Self::Append(_) | Self::Evaluated(..))
    }

    /// True for commands that may change more of the scheduler's work than due marks: jobs, and the times at which
    /// sessions become due.
    fn may_make_work(&self) -> bool {
        !matches!(
            self,
            Self::Append(_)
                | Self::AppendParts(_)
                | Self::AppendDraft(_)
                | Self::Finish(_)
                | Self::AddRequests(_)
                | Self::AddWords(_)
                | Self::KeepCounts(_)
        )
    }

    fn points(&self) -> Option<Points> {
        match self {
            Self::Append(_) => points!("append"),
            Self::Enqueue(_) => points!("enqueue"),
            Self::Claim(..) => points!("claim"),
            Self::Heartbeat(..) => points!("heartbeat"),
            Self::Commit(_) => points!("commit"),
            Self::End(_) => points!("end"),
            _ => None,
        }
    }

    /// Validates, then gathers rows. An error leaves nothing behind, except for errors of the database, which undo the
    /// whole transaction.
    async fn apply(self, tx: &mut Tx<'_>) -> Result<Reply> {
        Ok(match self {
            Self::Append(append) => Reply::Receipt(append.apply(tx).await?),
            Self::AppendParts(append) => Reply::Receipt(append.apply(tx).await?),
            Self::AppendDraft(append) => Reply::Draft(append.apply(tx).await?),
            Self::Finish(finish) => Reply::Receipt(finish.apply(tx).await?),
            Self::Create(create, caller) => {
                let (key, existed) = create.apply(tx, &caller).await?;
                Reply::Session(key, existed)
            }
            Self::Update(update, key, caller) => Reply::Receipt(update.apply(tx, key, &caller).await?),
            Self::Archive(key, restore, caller) => Reply::Receipt(sessions::archive(tx, key, restore, &caller).await?),
            Self::Fork(fork, key, caller) => {
                let (key, existed) = fork.apply(tx, key, &caller).await?;
                Reply::Session(key, existed)
            }
            Self::Rewrite(rewrite) => Reply::Receipt(rewrite.apply(tx).await?),
            Self::Supply(supply) => Reply::Receipt(supply.apply(tx).await?),
            Self::Enqueue(enqueue) => Reply::Enqueued(enqueue.apply(tx).await?),
            Self::Claim(row, owner, until) => Reply::Claim(claims::claim(tx, row, owner, until).await?.map(Box::new)),
            Self::LostClaim(row) => Reply::Claim(Some(Box::new(claims::lost_claim(tx, row).await?))),
            Self::Heartbeat(claim, until) => {
                claims::heartbeat(tx, &claim, until).await?;
                Reply::Done
            }
            Self::Plan(claim, planned) => {
                claims::plan(tx, &claim, planned).await?;
                Reply::Done
            }
            Self::Commit(commit) => Reply::Committed(commit.apply(tx).await?),
            Self::End(end) => {
                end.apply(tx).await?;
                Reply::Done
            }
            Self::Confirm(id) => {
                by_hand::confirm(tx, id).await?;
                Reply::Done
            }
            Self::Expedite(id, caller) => {
                by_hand::expedite(tx, id, &caller).await?;
                Reply::Done
            }
            Self::Cancel(id, caller) => {
                by_hand::cancel(tx, id, &caller).await?;
                Reply::Done
            }
            Self::Evaluated(key, evaluation) => {
                jobs::evaluated(tx, key, evaluation).await?;
                Reply::Done
            }
            Self::Wake => {
                jobs::wake(tx).await?;
                Reply::Done
            }
            Self::Expire => {
                open_messages::expire(tx).await?;
                Reply::Done
            }
            Self::AddRequests(add) => {
                add.apply(tx).await?;
                Reply::Done
            }
            Self::AddWords(add) => {
                add.apply(tx).await?;
                Reply::Done
            }
            Self::KeepCounts(keep) => {
                keep.apply(tx).await?;
                Reply::Done
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[tokio::test]
    async fn content_that_waits_keeps_its_room_when_its_sender_is_gone() {
        let (commands, mut waiting) = mpsc::channel(4);
        let handle = WriterHandle { commands, room: Arc::new(Semaphore::new(2)) };
        let words = || {
            let rows = vec![(1, "x".repeat(2_048))];
            Command::AddWords(AddWords { session: 1, after: 0, upto: 1, rows })
        };
        assert!(handle.send(words()).now_or_never().is_none(), "it waits, and its sender goes");
        assert!(matches!(handle.send(words()).now_or_never(), Some(Err(Error::Busy))));
        drop(waiting.recv().await);
        assert!(handle.send(words()).now_or_never().is_none(), "there is room again");
    }
}
