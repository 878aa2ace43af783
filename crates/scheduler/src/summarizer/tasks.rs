//! Summary tasks: summaries that a client with its own model may write, offered while a worker waits for one.
//!
//! All state is in memory. A lease is fenced by its token; after a restart the compaction is tried again and offers its
//! task anew, so that a token from before the restart is void.

use super::provider::readable;
use crate::clock::fresh_id;
use crate::limits;
use crate::model::Revision;
use crate::model::compaction::{Failure, FailureReason, Level, RevisionRange, Trigger};
use crate::model::ids::{CompactionId, MessageId, SessionId};
use crate::model::message::FinishReason;
use crate::model::usage::Usage;
use crate::policy::plan::PlanEdit;
use crate::policy::prompt::AnswerRequirements;
use crate::policy::summary::SummaryInput;
use crate::store::CheckedInput;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;
use uuid::Uuid;

/// A summary to be written, as a client sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// The session.
    pub session: SessionId,
    /// The compaction.
    pub compaction: CompactionId,
    /// The revision whose view is compacted.
    pub base: Revision,
    /// The level that triggered it, if any.
    pub level: Option<Level>,
    /// The compaction's trigger.
    pub trigger: Trigger,
    /// Number of the compaction's attempt, from 1.
    pub attempt: i64,
    /// The model window that applies to the view, in tokens.
    pub window_tokens: i64,
    /// All ranges that the summary will cover.
    pub covered: Vec<RevisionRange>,
    /// The first message kept verbatim, if any.
    pub tail_start: Option<MessageId>,
    /// Covered messages that the view shows nevertheless.
    pub retained: Vec<MessageId>,
    /// Input for the summarizer.
    pub input: SummaryInput,
    /// Free JSON to be kept with the summary.
    pub details_json: Option<String>,
}

/// A client's changes to a task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskEdit {
    /// Changes to the covered messages and the tail.
    pub plan: PlanEdit,
    /// Replacement for the instructions to the summarizer.
    pub instructions: Option<String>,
    /// Replacement for the free JSON kept with the summary.
    pub details_json: Option<String>,
}

/// The summary that a client wrote.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TaskReply {
    /// The summary.
    pub text: String,
    /// The model that wrote it, or another author.
    pub model: String,
    /// Finish reason of the model; none if the client does not state it.
    pub reason: Option<FinishReason>,
    /// Usage and cost.
    pub usage: Option<Usage>,
    /// True if the summary is the client's own instead of an answer to the request.
    pub supplied: bool,
}

impl TaskReply {
    /// Returns the summary, or the reason why the text cannot be one. An answer to the request is checked against the
    /// requested form, and stripped of the wrapping that the policy asked for; a client's own summary is taken as it
    /// is.
    pub fn summary(&self, expected: &AnswerRequirements<'_>) -> Result<String, Failure> {
        let refused = |reason: FailureReason, message: &str| Err(Failure::new(reason, message));
        match self.reason {
            None | Some(FinishReason::Stop) => {}
            Some(FinishReason::Length) => {
                return refused(FailureReason::SummaryTruncated, "the summary was cut off by the output limit");
            }
            Some(FinishReason::ToolCalls) => {
                return refused(
                    FailureReason::SummaryCallsTools,
                    "the model called a tool instead of writing a summary",
                );
            }
            Some(FinishReason::ContentFilter | FinishReason::Error | FinishReason::Aborted) => {
                return refused(FailureReason::SummaryIncomplete, "the model did not end the summary");
            }
        }
        if self.text.trim().is_empty() {
            return refused(FailureReason::SummaryEmpty, "the summary is empty");
        }
        if self.supplied {
            return Ok(self.text.clone());
        }
        readable(&self.text, expected).or_else(|fault| {
            let reason = FailureReason::from_name(&fault.reason).unwrap_or(FailureReason::SummaryIsNone);
            refused(reason, &fault.message)
        })
    }
}

/// Way in which a client releases a task that it did not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The client cannot do it now: another client may, and its changes are dropped.
    Transient,
    /// The task cannot be done this way: no other client is asked in this attempt, and its changes are dropped.
    Permanent,
    /// The configured summarizers write the summary, with the client's changes.
    Delegated,
}

/// Reason why a client's call is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskRefusal {
    /// The compaction has no task for clients, or no longer has one.
    NotFound,
    /// The lease ended, or the token is not the lease's.
    LeaseLost,
    /// The plan is invalid.
    Plan(&'static str),
    /// The text cannot be the summary.
    Summary(Failure),
    /// The maximum number of callers already waits for tasks.
    TooMany,
}

/// A client's request to the worker while it holds a lease.
pub enum Request {
    /// Changes the plan; the answer is the changed task.
    Edit(TaskEdit, oneshot::Sender<Result<Arc<Task>, TaskRefusal>>),
    /// Completes the task with the client's summary.
    Complete(TaskReply, oneshot::Sender<Result<(), TaskRefusal>>),
    /// Releases the task.
    Release(Release),
}

/// Filter of the tasks that a client takes.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Sessions; empty for all.
    pub sessions: Vec<SessionId>,
    /// Levels; empty for all.
    pub levels: Vec<Level>,
}

/// A task that a client has leased.
#[derive(Debug, Clone)]
pub struct TaskLease {
    /// The task.
    pub task: Arc<Task>,
    /// Token that proves the lease.
    pub token: Uuid,
    /// Remaining duration of the lease.
    pub lease: Duration,
}

/// The tasks on offer. Cheap to clone.
#[derive(Clone)]
pub struct Tasks {
    shared: Arc<TaskBoard>,
}

struct TaskBoard {
    /// Oldest first; at most one per worker.
    offered: Mutex<Vec<OfferedTask>>,
    changed: watch::Sender<()>,
    /// Time that a task waits for a client; zero if no task is ever offered.
    wait: Duration,
    callers: Arc<Semaphore>,
}

struct OfferedTask {
    /// Tells it apart from an earlier offer for the same compaction whose worker does not know yet that it lost the
    /// job.
    id: Uuid,
    task: Arc<Task>,
    lease: Option<Lease>,
    /// End of the wait for a client, if none holds the task.
    open_until: Instant,
    /// Latest end of any lease.
    end: Instant,
    leases: usize,
    requests: mpsc::Sender<(Uuid, Request)>,
    lease_changed: Arc<Notify>,
}

struct Lease {
    token: Uuid,
    until: Instant,
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new(Duration::ZERO)
    }
}

impl Tasks {
    /// Creates an empty list. Each task waits this long for a client; with zero no task is ever offered.
    pub fn new(wait: Duration) -> Self {
        let callers = Arc::new(Semaphore::new(limits::SUMMARY_TASK_CALLERS_MAX));
        let (changed, _) = watch::channel(());
        Self { shared: Arc::new(TaskBoard { offered: Mutex::default(), changed, wait, callers }) }
    }

    /// True if tasks are offered at all.
    pub fn are_offered(&self) -> bool {
        !self.shared.wait.is_zero()
    }

    /// Locks the list. A poisoned lock is safe to use: the list is consistent at any time.
    fn lock_offered(&self) -> MutexGuard<'_, Vec<OfferedTask>> {
        self.shared.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offers a task, until the offer is dropped.
    pub fn offer(&self, task: Task) -> Offer {
        let (sender, requests) = mpsc::channel(1);
        let lease_changed = Arc::new(Notify::new());
        let id = fresh_id();
        let open_until = Instant::now() + self.shared.wait;
        let offered = OfferedTask {
            id,
            task: Arc::new(task),
            lease: None,
            open_until,
            end: open_until + Duration::from_millis(limits::SUMMARY_TASK_MS_MAX),
            leases: 0,
            requests: sender,
            lease_changed: lease_changed.clone(),
        };
        self.lock_offered().push(offered);
        self.shared.changed.send_replace(());
        Offer { tasks: self.clone(), id, requests, lease_changed }
    }

    /// Reserves a slot for a caller that waits for tasks; dropping it frees the slot.
    pub fn caller_slot(&self) -> Result<OwnedSemaphorePermit, TaskRefusal> {
        self.shared.callers.clone().try_acquire_owned().map_err(|_| TaskRefusal::TooMany)
    }

    /// Waits for a task that matches the filter and whose session the client sees, and leases it. The oldest goes
    /// first, and to one client only.
    pub async fn lease<F: Future<Output = bool>>(
        &self,
        filter: &Filter,
        lease: Duration,
        sees: impl Fn(SessionId) -> F,
    ) -> TaskLease {
        let mut changed = self.shared.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let mut visible = Vec::new();
            for session in self.free(filter) {
                if sees(session).await {
                    visible.push(session);
                }
            }
            // A task that came meanwhile changed the list.
            if let Some(leased) = self.take(filter, &visible, lease) {
                return leased;
            }
            // The sender lives as long as `self`, so that this cannot fail.
            drop(changed.changed().await);
        }
    }

    /// The sessions of tasks that match the filter and that nobody holds.
    fn free(&self, filter: &Filter) -> Vec<SessionId> {
        let all = self.lock_offered();
        all.iter().filter(|offered| offered.fits(filter)).map(|offered| offered.task.session).collect()
    }

    /// The session of the task for a compaction; none if there is no such task.
    pub fn session_of(&self, compaction: CompactionId) -> Option<SessionId> {
        let all = self.lock_offered();
        all.iter().find(|offered| offered.task.compaction == compaction).map(|offered| offered.task.session)
    }

    fn take(&self, filter: &Filter, visible: &[SessionId], lease: Duration) -> Option<TaskLease> {
        let fits = |offered: &&mut OfferedTask| offered.fits(filter) && visible.contains(&offered.task.session);
        let mut all = self.lock_offered();
        let offered = all.iter_mut().find(fits)?;
        let token = fresh_id();
        let lease = offered.set_lease(token, lease);
        Some(TaskLease { task: offered.task.clone(), token, lease })
    }

    /// Extends a lease to this duration from now; returns the granted duration.
    pub fn extend(&self, compaction: CompactionId, token: Uuid, lease: Duration) -> Result<Duration, TaskRefusal> {
        self.with_leased(compaction, token, |offered| offered.set_lease(token, lease))
    }

    /// Changes the plan of a leased task.
    pub async fn edit(
        &self,
        compaction: CompactionId,
        token: Uuid,
        edit: CheckedInput<TaskEdit>,
    ) -> Result<Arc<Task>, TaskRefusal> {
        let (answer, answered) = oneshot::channel();
        self.ask(compaction, token, Request::Edit(edit.into_parts().0, answer)).await?;
        answered.await.unwrap_or(Err(TaskRefusal::NotFound))
    }

    /// Completes a task with a summary. It is accepted after it passed every check; after a refusal the client may send
    /// another.
    pub async fn complete(
        &self,
        compaction: CompactionId,
        token: Uuid,
        reply: CheckedInput<TaskReply>,
    ) -> Result<(), TaskRefusal> {
        let (answer, answered) = oneshot::channel();
        self.ask(compaction, token, Request::Complete(reply.into_parts().0, answer)).await?;
        answered.await.unwrap_or(Err(TaskRefusal::NotFound))
    }

    /// Releases a task.
    pub async fn release(&self, compaction: CompactionId, token: Uuid, release: Release) -> Result<(), TaskRefusal> {
        self.ask(compaction, token, Request::Release(release)).await
    }

    /// The task leased under this token.
    pub fn leased_task(&self, compaction: CompactionId, token: Uuid) -> Result<Arc<Task>, TaskRefusal> {
        self.with_leased(compaction, token, |offered| offered.task.clone())
    }

    async fn ask(&self, compaction: CompactionId, token: Uuid, request: Request) -> Result<(), TaskRefusal> {
        let requests = self.with_leased(compaction, token, |offered| offered.requests.clone())?;
        requests.send((token, request)).await.map_err(|_| TaskRefusal::NotFound)
    }

    fn with_leased<T>(
        &self,
        compaction: CompactionId,
        token: Uuid,
        act: impl FnOnce(&mut OfferedTask) -> T,
    ) -> Result<T, TaskRefusal> {
        let mut all = self.lock_offered();
        let mut refused = TaskRefusal::NotFound;
        for offered in all.iter_mut().filter(|offered| offered.task.compaction == compaction) {
            if offered.holds(token) {
                return Ok(act(offered));
            }
            refused = TaskRefusal::LeaseLost;
        }
        Err(refused)
    }
}

impl OfferedTask {
    /// True if a client with this filter may take it.
    fn fits(&self, filter: &Filter) -> bool {
        let task = &self.task;
        self.lease.is_none()
            && (filter.sessions.is_empty() || filter.sessions.contains(&task.session))
            && (filter.levels.is_empty() || task.level.is_some_and(|level| filter.levels.contains(&level)))
    }

    /// True if the token's lease is current.
    fn holds(&self, token: Uuid) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.token == token && lease.until > Instant::now())
    }

    fn set_lease(&mut self, token: Uuid, lease: Duration) -> Duration {
        let now = Instant::now();
        let until = (now + lease).min(self.end);
        self.lease = Some(Lease { token, until });
        self.lease_changed.notify_one();
        until.saturating_duration_since(now)
    }

    /// Time at which the lease, or the wait for a client, ends.
    fn deadline(&self) -> Instant {
        self.lease.as_ref().map_or(self.open_until, |lease| lease.until)
    }
}

/// A task on offer, held by the worker that waits. Dropping it withdraws the task.
pub struct Offer {
    tasks: Tasks,
    id: Uuid,
    requests: mpsc::Receiver<(Uuid, Request)>,
    lease_changed: Arc<Notify>,
}

impl Offer {
    /// The next request of the client that holds the task; none once no client holds it and the wait for one is over.
    pub async fn next(&mut self) -> Option<Request> {
        loop {
            let deadline = self.with_offered(|offered| offered.deadline())?;
            tokio::select! {
                biased;
                asked = self.requests.recv() => {
                    let (token, request) = asked?;
                    // A client that lost its lease while the request waited gets no answer from the worker, and
                    // therefore an error.
                    if self.with_offered(|offered| offered.holds(token))? {
                        return Some(request);
                    }
                }
                () = self.lease_changed.notified() => {}
                () = tokio::time::sleep_until(deadline) => {
                    if self.expired()? {
                        // A lease that ran out counts as a release.
                        return Some(Request::Release(Release::Transient));
                    }
                }
            }
        }
    }

    /// Replaces the task.
    pub fn renew(&self, task: Task) -> Arc<Task> {
        let task = Arc::new(task);
        self.with_offered(|offered| offered.task = task.clone());
        task
    }

    /// Offers the task again after its client released it. False if it was leased the maximum number of times.
    pub fn reopen(&self) -> bool {
        let wait = self.tasks.shared.wait;
        let open = self.with_offered(|offered| {
            let now = Instant::now();
            offered.lease = None;
            offered.leases += 1;
            offered.open_until = (now + wait).min(offered.end);
            offered.leases < limits::SUMMARY_TASK_LEASES_MAX && now < offered.end
        });
        self.tasks.shared.changed.send_replace(());
        open.unwrap_or(false)
    }

    /// True if a lease has ended. None if no client came in time; the offer is then removed.
    fn expired(&self) -> Option<bool> {
        let now = Instant::now();
        let mut all = self.tasks.lock_offered();
        let at = all.iter().position(|offered| offered.id == self.id)?;
        match &all[at] {
            offered if offered.deadline() > now => Some(false),
            offered if offered.lease.is_some() => Some(true),
            _ => {
                all.remove(at);
                None
            }
        }
    }

    fn with_offered<T>(&self, act: impl FnOnce(&mut OfferedTask) -> T) -> Option<T> {
        let mut all = self.tasks.lock_offered();
        all.iter_mut().find(|offered| offered.id == self.id).map(act)
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.tasks.lock_offered().retain(|offered| offered.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    const WAIT: Duration = Duration::from_secs(60);

    fn task() -> Task {
        let policy = presets::policy("opencode@seed");
        let input = SummaryInput {
            messages: Vec::new(),
            split_turn: Vec::new(),
            previous: None,
            previous_digest: None,
            words: crate::model::mark::Words::new(),
            previous_is_supplied: false,
            rules: policy.summarize(Level::Auto).expect("a policy that summarizes").summary.clone(),
            counting: policy.counting,
            instructions: String::new(),
            budget_tokens: 1_000,
        };
        Task {
            session: SessionId(Uuid::from_u128(1)),
            compaction: CompactionId(Uuid::from_u128(2)),
            base: 3,
            level: Some(Level::Auto),
            trigger: Trigger::Threshold,
            attempt: 1,
            window_tokens: 6_000,
            covered: Vec::new(),
            tail_start: None,
            retained: Vec::new(),
            input,
            details_json: None,
        }
    }

    #[test]
    fn a_worker_that_lost_its_job_takes_back_its_own_offer_only() {
        let tasks = Tasks::new(WAIT);
        let compaction = task().compaction;
        let leased = || tasks.take(&Filter::default(), &tasks.free(&Filter::default()), WAIT).expect("a task on offer");
        let dead = tasks.offer(task());
        let old = leased();
        let offer = tasks.offer(Task { attempt: 2, ..task() });
        let new = leased();
        assert_eq!((old.task.attempt, new.task.attempt), (1, 2));
        assert_eq!(tasks.leased_task(compaction, new.token).map(|task| task.attempt), Ok(2));
        drop(dead);
        assert_eq!(tasks.leased_task(compaction, old.token).err(), Some(TaskRefusal::LeaseLost));
        assert_eq!(tasks.leased_task(compaction, new.token).map(|task| task.attempt), Ok(2));
        drop(offer);
        assert_eq!(tasks.leased_task(compaction, new.token).err(), Some(TaskRefusal::NotFound));
    }

    #[test]
    fn no_lease_is_endless() {
        let tasks = Tasks::new(WAIT);
        let _offer = tasks.offer(task());
        let leased = tasks.take(&Filter::default(), &tasks.free(&Filter::default()), WAIT).expect("a task on offer");
        let longest = WAIT + Duration::from_millis(limits::SUMMARY_TASK_MS_MAX);
        let held = tasks.extend(leased.task.compaction, leased.token, longest * 2).expect("held");
        assert!(held <= longest && held > WAIT, "{held:?}");
    }

    #[test]
    fn only_so_many_wait() {
        let tasks = Tasks::new(WAIT);
        let slots: Vec<_> =
            (0..limits::SUMMARY_TASK_CALLERS_MAX).map(|_| tasks.caller_slot().expect("a place")).collect();
        assert_eq!(tasks.caller_slot().err(), Some(TaskRefusal::TooMany));
        drop(slots);
        assert!(tasks.caller_slot().is_ok());
    }
}
