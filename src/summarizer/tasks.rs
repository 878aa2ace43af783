//! Summary tasks: summaries that a client with a model of its own may write, offered while a worker waits for one.
//!
//! All of it is memory. A lease is fenced by its token; after a restart the reduction is tried again and offers its
//! task anew, so that a token of before is worth nothing.

use super::SummaryInput;
use super::provider::readable;
use crate::clock::fresh_id;
use crate::limits;
use crate::model::Revision;
use crate::model::compaction::{Failure, FailureReason, Level, RevisionRange, Trigger};
use crate::model::ids::{CompactionId, MessageId, SessionId};
use crate::model::message::FinishReason;
use crate::model::usage::Usage;
use crate::policy::plan::PlanEdit;
use crate::policy::prompt::Expected;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;
use uuid::Uuid;

/// A summary that is to be written, as a client sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// The session.
    pub session: SessionId,
    /// The reduction.
    pub compaction: CompactionId,
    /// The revision whose view is reduced.
    pub base: Revision,
    /// The rung that asked for it; none for none.
    pub level: Option<Level>,
    /// Who asked.
    pub trigger: Trigger,
    /// Which attempt of the reduction this is, from 1.
    pub attempt: i64,
    /// The model window that the view is judged by, in tokens.
    pub window_tokens: i64,
    /// Everything that the summary will stand for.
    pub covered: Vec<RevisionRange>,
    /// The first message kept verbatim, if one is.
    pub tail_start: Option<MessageId>,
    /// Covered messages that the view shows all the same.
    pub retained: Vec<MessageId>,
    /// What the summarizer is given.
    pub input: SummaryInput,
    /// Free JSON that will be kept with the summary.
    pub details_json: Option<String>,
}

/// What a client wants to be different.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskEdit {
    /// What is covered and what stays.
    pub plan: PlanEdit,
    /// Other instructions for whoever writes the summary.
    pub instructions: Option<String>,
    /// Other free JSON to be kept with the summary.
    pub details_json: Option<String>,
}

/// The summary that a client wrote.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TaskReply {
    /// The summary.
    pub text: String,
    /// The model that wrote it, or whatever wrote it.
    pub model: String,
    /// Why the model stopped; none where the client does not say.
    pub reason: Option<FinishReason>,
    /// What it cost.
    pub usage: Option<Usage>,
    /// Whether it is the client's own, instead of an answer to the request.
    pub supplied: bool,
}

impl TaskReply {
    /// The summary, or why it cannot be one. An answer to the request is held against what was asked for, and what the
    /// policy has written around it is taken off; a summary of the client's own is the client's word.
    pub fn summary(&self, expected: &Expected<'_>) -> Result<String, Failure> {
        let refused = |reason: FailureReason, message: &str| Err(Failure::new(reason, message));
        match self.reason {
            None | Some(FinishReason::Stop) => {}
            Some(FinishReason::Length) => {
                return refused(FailureReason::SummaryCutOff, "the summary was cut off by the output limit");
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

/// How a client lets go of a task that it did not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// It cannot do it now: somebody else may, and what it changed is dropped.
    Transient,
    /// It cannot be done this way: no other client is asked in this attempt, and what it changed is dropped.
    Permanent,
    /// It leaves the writing to the configured summarizers, with what it changed.
    Delegated,
}

/// Why a client's call is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The reduction has no task for clients, or none any more.
    NotFound,
    /// The lease ended, or the token is not the lease's.
    LeaseLost,
    /// The plan cannot be like that.
    Plan(&'static str),
    /// What was written cannot be the summary.
    Summary(Failure),
    /// As many callers wait for tasks as may.
    TooMany,
}

/// What a client asks of the worker while it holds a lease.
pub enum Request {
    /// To change the plan; answered with the task as it is then.
    Edit(TaskEdit, oneshot::Sender<Result<Arc<Task>, Refused>>),
    /// To take its summary.
    Complete(TaskReply, oneshot::Sender<Result<(), Refused>>),
    /// To go on without it.
    Release(Release),
}

/// Which tasks a client takes.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of these sessions; none for all.
    pub sessions: Vec<SessionId>,
    /// Of these rungs; none for all.
    pub levels: Vec<Level>,
}

/// A task in a client's hands.
#[derive(Debug, Clone)]
pub struct Leased {
    /// The task.
    pub task: Arc<Task>,
    /// What proves the lease.
    pub token: Uuid,
    /// How long the lease holds from now.
    pub lease: Duration,
}

/// The tasks on offer. Cheap to clone.
#[derive(Clone)]
pub struct Tasks {
    shared: Arc<Shared>,
}

struct Shared {
    /// The oldest first; as many as there are workers at most.
    offered: Mutex<Vec<Offered>>,
    changed: watch::Sender<()>,
    /// How long a task waits for a client; zero for not at all.
    wait: Duration,
    callers: Arc<Semaphore>,
}

struct Offered {
    /// Tells it from an offer for the same reduction whose worker has not heard yet that it lost the job.
    id: Uuid,
    task: Arc<Task>,
    lease: Option<Lease>,
    /// Until when it waits for a client, while none has it.
    open_until: Instant,
    /// No lease holds longer than this.
    end: Instant,
    leases: usize,
    requests: mpsc::Sender<(Uuid, Request)>,
    noticed: Arc<Notify>,
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
    /// No tasks yet. Each will wait so long for a client; with zero none is ever offered.
    pub fn new(wait: Duration) -> Self {
        let callers = Arc::new(Semaphore::new(limits::SUMMARY_TASK_CALLERS_MAX));
        let (changed, _) = watch::channel(());
        Self { shared: Arc::new(Shared { offered: Mutex::default(), changed, wait, callers }) }
    }

    /// Whether tasks are offered at all.
    pub fn are_offered(&self) -> bool {
        !self.shared.wait.is_zero()
    }

    /// The list is whole at any time.
    fn offered(&self) -> MutexGuard<'_, Vec<Offered>> {
        self.shared.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Offers a task, until the offer is dropped.
    pub fn offer(&self, task: Task) -> Offer {
        let (sender, requests) = mpsc::channel(1);
        let noticed = Arc::new(Notify::new());
        let id = fresh_id();
        let open_until = Instant::now() + self.shared.wait;
        let offered = Offered {
            id,
            task: Arc::new(task),
            lease: None,
            open_until,
            end: open_until + Duration::from_millis(limits::SUMMARY_TASK_MS_MAX),
            leases: 0,
            requests: sender,
            noticed: noticed.clone(),
        };
        self.offered().push(offered);
        self.shared.changed.send_replace(());
        Offer { tasks: self.clone(), id, requests, noticed }
    }

    /// A place among those who wait for tasks; it is free again when dropped.
    pub fn place(&self) -> Result<OwnedSemaphorePermit, Refused> {
        self.shared.callers.clone().try_acquire_owned().map_err(|_| Refused::TooMany)
    }

    /// Waits for a task that the filter lets pass, and leases it. The oldest goes first, and to one client alone.
    pub async fn lease(&self, filter: &Filter, lease: Duration) -> Leased {
        let mut changed = self.shared.changed.subscribe();
        loop {
            changed.mark_unchanged();
            if let Some(leased) = self.take(filter, lease) {
                return leased;
            }
            // The sender lives as long as this does.
            drop(changed.changed().await);
        }
    }

    fn take(&self, filter: &Filter, lease: Duration) -> Option<Leased> {
        let fits = |offered: &&mut Offered| {
            let task = &offered.task;
            offered.lease.is_none()
                && (filter.sessions.is_empty() || filter.sessions.contains(&task.session))
                && (filter.levels.is_empty() || task.level.is_some_and(|level| filter.levels.contains(&level)))
        };
        let mut all = self.offered();
        let offered = all.iter_mut().find(fits)?;
        let token = fresh_id();
        let lease = offered.lend(token, lease);
        Some(Leased { task: offered.task.clone(), token, lease })
    }

    /// Lets a lease hold so long from now; says how long it holds.
    pub fn extend(&self, compaction: CompactionId, token: Uuid, lease: Duration) -> Result<Duration, Refused> {
        self.held(compaction, token, |offered| offered.lend(token, lease))
    }

    /// Changes the plan of a leased task.
    pub async fn edit(&self, compaction: CompactionId, token: Uuid, edit: TaskEdit) -> Result<Arc<Task>, Refused> {
        let (answer, answered) = oneshot::channel();
        self.ask(compaction, token, Request::Edit(edit, answer)).await?;
        answered.await.unwrap_or(Err(Refused::NotFound))
    }

    /// Brings the summary. It is taken once it has passed every check; a refused one can be brought again.
    pub async fn complete(&self, compaction: CompactionId, token: Uuid, reply: TaskReply) -> Result<(), Refused> {
        let (answer, answered) = oneshot::channel();
        self.ask(compaction, token, Request::Complete(reply, answer)).await?;
        answered.await.unwrap_or(Err(Refused::NotFound))
    }

    /// Lets go of a task.
    pub async fn release(&self, compaction: CompactionId, token: Uuid, release: Release) -> Result<(), Refused> {
        self.ask(compaction, token, Request::Release(release)).await
    }

    /// The task in the hands of who has this token.
    pub fn leased(&self, compaction: CompactionId, token: Uuid) -> Result<Arc<Task>, Refused> {
        self.held(compaction, token, |offered| offered.task.clone())
    }

    async fn ask(&self, compaction: CompactionId, token: Uuid, request: Request) -> Result<(), Refused> {
        let requests = self.held(compaction, token, |offered| offered.requests.clone())?;
        requests.send((token, request)).await.map_err(|_| Refused::NotFound)
    }

    fn held<T>(
        &self,
        compaction: CompactionId,
        token: Uuid,
        act: impl FnOnce(&mut Offered) -> T,
    ) -> Result<T, Refused> {
        let mut all = self.offered();
        let mut refused = Refused::NotFound;
        for offered in all.iter_mut().filter(|offered| offered.task.compaction == compaction) {
            if offered.holds(token) {
                return Ok(act(offered));
            }
            refused = Refused::LeaseLost;
        }
        Err(refused)
    }
}

impl Offered {
    /// Whether a token's lease holds.
    fn holds(&self, token: Uuid) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.token == token && lease.until > Instant::now())
    }

    fn lend(&mut self, token: Uuid, lease: Duration) -> Duration {
        let now = Instant::now();
        let until = (now + lease).min(self.end);
        self.lease = Some(Lease { token, until });
        self.noticed.notify_one();
        until.saturating_duration_since(now)
    }

    /// When something is to happen if nobody comes.
    fn deadline(&self) -> Instant {
        self.lease.as_ref().map_or(self.open_until, |lease| lease.until)
    }
}

/// A task on offer, in the hands of the worker that waits. It is withdrawn when this is dropped.
pub struct Offer {
    tasks: Tasks,
    id: Uuid,
    requests: mpsc::Receiver<(Uuid, Request)>,
    noticed: Arc<Notify>,
}

impl Offer {
    /// What the client that has the task asks next; none once no client has it and the time for one is over.
    pub async fn next(&mut self) -> Option<Request> {
        loop {
            let deadline = self.with(|offered| offered.deadline())?;
            tokio::select! {
                biased;
                asked = self.requests.recv() => {
                    let (token, request) = asked?;
                    // Whoever lost the lease while the request waited hears that its answer never came.
                    if self.with(|offered| offered.holds(token))? {
                        return Some(request);
                    }
                }
                () = self.noticed.notified() => {}
                () = tokio::time::sleep_until(deadline) => {
                    if self.expired()? {
                        // A client that does not come back has let go of it.
                        return Some(Request::Release(Release::Transient));
                    }
                }
            }
        }
    }

    /// The task is another one from now on.
    pub fn renew(&self, task: Task) -> Arc<Task> {
        let task = Arc::new(task);
        self.with(|offered| offered.task = task.clone());
        task
    }

    /// Offers it again after its client let go of it. False when it was leased as often as it may be.
    pub fn reopen(&self) -> bool {
        let wait = self.tasks.shared.wait;
        let open = self.with(|offered| {
            let now = Instant::now();
            offered.lease = None;
            offered.leases += 1;
            offered.open_until = (now + wait).min(offered.end);
            offered.leases < limits::SUMMARY_TASK_LEASES_MAX && now < offered.end
        });
        self.tasks.shared.changed.send_replace(());
        open.unwrap_or(false)
    }

    /// Whether a lease has ended. None, and nobody can lease it any more, when no client came in time.
    fn expired(&self) -> Option<bool> {
        let now = Instant::now();
        let mut all = self.tasks.offered();
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

    fn with<T>(&self, act: impl FnOnce(&mut Offered) -> T) -> Option<T> {
        let mut all = self.tasks.offered();
        all.iter_mut().find(|offered| offered.id == self.id).map(act)
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.tasks.offered().retain(|offered| offered.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::presets;

    const WAIT: Duration = Duration::from_secs(60);

    fn task() -> Task {
        let policy = presets::find("opencode@seed").expect("a preset").policy();
        let input = SummaryInput {
            messages: Vec::new(),
            split_turn: Vec::new(),
            previous: None,
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
        let leased = || tasks.take(&Filter::default(), WAIT).expect("a task on offer");
        let dead = tasks.offer(task());
        let old = leased();
        let offer = tasks.offer(Task { attempt: 2, ..task() });
        let new = leased();
        assert_eq!((old.task.attempt, new.task.attempt), (1, 2));
        assert_eq!(tasks.leased(compaction, new.token).map(|task| task.attempt), Ok(2));
        drop(dead);
        assert_eq!(tasks.leased(compaction, old.token).err(), Some(Refused::LeaseLost));
        assert_eq!(tasks.leased(compaction, new.token).map(|task| task.attempt), Ok(2));
        drop(offer);
        assert_eq!(tasks.leased(compaction, new.token).err(), Some(Refused::NotFound));
    }

    #[test]
    fn no_lease_is_endless() {
        let tasks = Tasks::new(WAIT);
        let _offer = tasks.offer(task());
        let leased = tasks.take(&Filter::default(), WAIT).expect("a task on offer");
        let longest = WAIT + Duration::from_millis(limits::SUMMARY_TASK_MS_MAX);
        let held = tasks.extend(leased.task.compaction, leased.token, longest * 2).expect("held");
        assert!(held <= longest && held > WAIT, "{held:?}");
    }

    #[test]
    fn only_so_many_wait() {
        let tasks = Tasks::new(WAIT);
        let places: Vec<_> = (0..limits::SUMMARY_TASK_CALLERS_MAX).map(|_| tasks.place().expect("a place")).collect();
        assert_eq!(tasks.place().err(), Some(Refused::TooMany));
        drop(places);
        assert!(tasks.place().is_ok());
    }
}
