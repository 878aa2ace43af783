//! The life cycle of jobs against a model of it: random triggers, requests, cancels, failures, crashes, lost leases and
//! late answers of stale workers, on a real store with a clock that advances only on request.
//!
//! The model has the expected state of every job after each action. At the end all faults stop, and everything that was
//! due must have been done.

use super::recover;
use super::step::{Input, SchedulerState, WorkItem, step};
use crate::clock::{Clock, fresh_id};
use crate::limits;
use crate::model::Revision;
use crate::model::changes::{Changes, SummaryChange};
use crate::model::compaction::{CompactionKind, CompactionRequest, CompactionState, Failure, FailureReason, Trigger};
use crate::model::event::EventBody;
use crate::model::ids::CompactionId;
use crate::model::message::{NewMessage, Role};
use crate::model::part::{NewPart, PartBody};
use crate::model::session::{Guards, WakeCondition};
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::policy::plan;
use crate::store::{
    self, AppendChanges, AppendInput, AttemptEnd, CheckedInput, Claim, Commit, CommitOutcome, Condition, CreateSession,
    Durability, EnqueuedJob, EvaluationRequest, EventFilter, PolicyText, Requester, SessionKey, Store, WindowUsage,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

const SESSIONS: usize = 3;
const WORKERS: usize = 2;
const ATTEMPTS_MAX: i64 = 3;

/// One action. Its numbers are indices into what exists, so that every sequence is valid.
#[derive(Debug, Clone)]
enum Action {
    /// A client appends enough to make the session due.
    Append(usize),
    /// A caller requests a compaction by hand, with one of two instructions.
    Ask(usize, bool),
    /// A caller cancels one of the session's waiting or running jobs.
    Cancel(usize, usize),
    /// The scheduler reads the database.
    FindWork,
    /// A free worker takes the first work in the queue.
    Take,
    /// A worker sends a heartbeat.
    Beat(usize),
    /// A worker finishes its job.
    Succeed(usize),
    /// A worker's attempt fails, and the provider asks for a delay of this many seconds.
    Fail(usize, i64),
    /// A worker panics at its job.
    Panic(usize),
    /// A stale worker comes back with an answer.
    StaleWorker(usize, bool),
    /// Time passes, in milliseconds.
    Pass(i64),
    /// The scheduler releases leases that have run out.
    Sweep,
    /// The daemon dies and starts again.
    Crash,
    /// The daemon is stopped and starts again.
    Stop,
}

fn action() -> impl Strategy<Value = Action> {
    let session = 0..SESSIONS;
    prop_oneof![
        4 => session.clone().prop_map(Action::Append),
        2 => (session.clone(), any::<bool>()).prop_map(|(session, other)| Action::Ask(session, other)),
        1 => (session, 0..3_usize).prop_map(|(session, which)| Action::Cancel(session, which)),
        5 => Just(Action::FindWork),
        8 => Just(Action::Take),
        2 => (0..WORKERS).prop_map(Action::Beat),
        4 => (0..WORKERS).prop_map(Action::Succeed),
        3 => (0..WORKERS, 0..90_i64).prop_map(|(worker, delay)| Action::Fail(worker, delay)),
        2 => (0..WORKERS).prop_map(Action::Panic),
        3 => (0..8_usize, any::<bool>()).prop_map(|(which, commits)| Action::StaleWorker(which, commits)),
        3 => (1..45_000_i64).prop_map(Action::Pass),
        2 => Just(Action::Sweep),
        1 => Just(Action::Crash),
        1 => Just(Action::Stop),
    ]
}

/// The model's state of a job.
#[derive(Debug, Clone, PartialEq)]
struct Job {
    session: usize,
    instructions: String,
    state: CompactionState,
    queued: bool,
    attempt: i64,
    lost_attempts: i64,
    epoch: i64,
    run_at: Timestamp,
    lease_until: Timestamp,
    began: bool,
    automatic: bool,
}

/// A worker's current work.
struct CurrentWork {
    claim: Claim,
    work: WorkItem,
    until: Timestamp,
}

struct Fixture {
    directory: tempfile::TempDir,
    clock: Clock,
    store: Store,
    writer: tokio::task::JoinHandle<()>,
    sessions: Vec<SessionKey>,
    /// The revision and the growth of the history at which each due session was listed.
    listed_at: HashMap<SessionKey, (Revision, i64)>,
    state: SchedulerState,
    queue: VecDeque<WorkItem>,
    hands: [Option<CurrentWork>; WORKERS],
    stale_claims: Vec<Claim>,
    jobs: BTreeMap<CompactionId, Job>,
    due: HashSet<usize>,
    /// The revision of each session's last compaction.
    compacted: [Revision; SESSIONS],
    /// The revision of each session's last append.
    appended: [Revision; SESSIONS],
    /// Sessions that were decided while a job was current.
    due_during_compaction: HashSet<usize>,
}

async fn open(directory: &std::path::Path, clock: &Clock) -> (Store, tokio::task::JoinHandle<()>) {
    let options = store::Options { directory: directory.join("store"), durability: Durability::ProcessCrash };
    let (store, writer) = Store::open(options, clock.clone()).await.expect("the store opens");
    (store, tokio::spawn(writer))
}

fn usage() -> WindowUsage {
    WindowUsage { window: ModelWindow::default(), context_tokens: 10 }
}

/// Every append makes a session due.
fn condition() -> WakeCondition {
    WakeCondition { growth_bytes: Some(1), ..WakeCondition::default() }
}

fn failure() -> Failure {
    Failure::new(FailureReason::SummarizerFailed, "the model says so")
}

impl Fixture {
    async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary folder");
        let clock = Clock::fixed_at(Timestamp::from_millis(1_000_000));
        let (store, writer) = open(directory.path(), &clock).await;
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            let create = CreateSession {
                tenant: "".into(),
                client_id: None,
                title: String::new(),
                policy: PolicyText { preset: "model".to_owned(), json: "{}".to_owned() },
                window: ModelWindow::default(),
                metadata_json: None,
                parent: None,
                keeps_erased: false,
            };
            sessions.push(
                store
                    .sessions()
                    .create(CheckedInput::trusted(create), Requester::default())
                    .await
                    .expect("a session")
                    .0,
            );
        }
        let (jobs, due) = (BTreeMap::new(), HashSet::new());
        let (state, queue, hands, stale_claims) =
            (SchedulerState::default(), VecDeque::new(), [None, None], Vec::new());
        Self {
            directory,
            clock,
            store,
            writer,
            sessions,
            listed_at: HashMap::new(),
            state,
            queue,
            hands,
            stale_claims,
            jobs,
            due,
            compacted: [0; SESSIONS],
            appended: [0; SESSIONS],
            due_during_compaction: HashSet::new(),
        }
    }

    async fn act(&mut self, action: &Action) {
        match action {
            Action::Append(session) => self.append(*session).await,
            Action::Ask(session, other) => self.ask(*session, if *other { "other" } else { "" }).await,
            Action::Cancel(session, which) => self.cancel(*session, *which).await,
            Action::FindWork => self.find_work().await,
            Action::Take => self.take().await,
            Action::Beat(worker) => self.heartbeat(*worker).await,
            Action::Succeed(worker) => {
                if let Some(CurrentWork { claim, work, .. }) = self.hands[*worker].take() {
                    self.commit(&claim).await;
                    step(&mut self.state, Input::Finished(work));
                }
            }
            Action::Fail(worker, delay) => {
                if let Some(CurrentWork { claim, work, .. }) = self.hands[*worker].take() {
                    self.fail(&claim, *delay).await;
                    step(&mut self.state, Input::Finished(work));
                }
            }
            Action::Panic(worker) => {
                if let Some(CurrentWork { claim, work, .. }) = self.hands[*worker].take() {
                    self.stale_claims.push(claim);
                    step(&mut self.state, Input::Finished(work));
                }
            }
            Action::StaleWorker(which, commits) => {
                let stale_claims = self.stale_claims.len();
                if let Some(claim) = self.stale_claims.get(which % stale_claims.max(1)).cloned() {
                    if *commits { self.commit(&claim).await } else { self.fail(&claim, 0).await }
                }
            }
            Action::Pass(millis) => self.clock.advance(*millis),
            Action::Sweep => self.sweep().await,
            Action::Crash => self.restart(false).await,
            Action::Stop => self.restart(true).await,
        }
        self.check().await;
    }

    fn current(&self, session: usize) -> Option<CompactionId> {
        let mut jobs =
            self.jobs.iter().filter(|(_, job)| job.session == session && job.state.is_active() && !job.queued);
        jobs.next().map(|(id, _)| *id)
    }

    async fn append(&mut self, session: usize) {
        let message = NewMessage::sealed(Role::User, vec![NewPart::new(PartBody::Text("more".to_owned()))]);
        let message =
            AppendInput { message, token_counts: None, reports_overflow: false, received: None, keeps_erased: false };
        let key = self.sessions[session];
        let receipt = self
            .store
            .history()
            .append(key, Requester::default(), None, CheckedInput::trusted((vec![message], AppendChanges::default())))
            .await
            .expect("appended");
        self.due.insert(session);
        self.appended[session] = receipt.revision;
        assert!(receipt.pending.is_due, "the mark is set with the append, or not at all");
    }

    fn request(instructions: &str, trigger: Trigger) -> CompactionRequest {
        let instructions = instructions.to_owned();
        CompactionRequest { instructions, ..CompactionRequest::new(CompactionKind::Summary, trigger, None) }
    }

    /// Compares the answer to a request with the model, and adds the job.
    fn enqueued(&mut self, session: usize, asked: (CompactionRequest, Condition), enqueued: Option<EnqueuedJob>) {
        let (request, condition) = asked;
        let instructions = request.instructions;
        let automatic = request.trigger == Trigger::Threshold;
        let same = |job: &Job| job.session == session && job.state.is_active() && job.instructions == instructions;
        let there = self.jobs.iter().find(|(_, job)| same(job)).map(|(id, _)| *id);
        let current = self.current(session);
        if let Condition::Due { at } = condition
            && (current.is_some() || !self.due.contains(&session) || self.compacted[session] > at)
        {
            assert_eq!(enqueued, None, "a trigger adds nothing to what is live, and asks only while it is due");
            return;
        }
        let enqueued = enqueued.expect("taken");
        assert_eq!(enqueued.joined, there.is_some());
        if let Some(there) = there {
            assert_eq!(enqueued.compaction, there);
            // A repeated request does not wait for the next attempt.
            let now = self.clock.now();
            if let Some(job) =
                self.jobs.get_mut(&there).filter(|job| job.state == CompactionState::Ready && !job.queued)
            {
                job.run_at = job.run_at.min(now);
            }
            return;
        }
        if matches!(condition, Condition::Due { .. }) {
            self.due.remove(&session);
        }
        let job = Job {
            session,
            instructions,
            state: CompactionState::Ready,
            queued: current.is_some(),
            attempt: 0,
            lost_attempts: 0,
            epoch: 0,
            run_at: self.clock.now(),
            lease_until: Timestamp(0),
            began: false,
            automatic,
        };
        self.jobs.insert(enqueued.compaction, job);
    }

    async fn ask(&mut self, session: usize, instructions: &str) {
        let (request, condition) = (Self::request(instructions, Trigger::Manual), Condition::Possible(true));
        let (compactions, key, asked) =
            (self.store.compactions(), self.sessions[session], CheckedInput::trusted(request.clone()));
        let enqueued = compactions.enqueue(key, Requester::default(), asked, usage(), condition, None).await;
        let enqueued = enqueued.expect("the store answers");
        self.enqueued(session, (request, condition), enqueued);
    }

    async fn cancel(&mut self, session: usize, which: usize) {
        let current = self.jobs.iter().filter(|(_, job)| job.session == session && job.state.is_active());
        let current: Vec<CompactionId> = current.map(|(id, _)| *id).collect();
        let Some(id) = current.get(which % current.len().max(1)).copied() else { return };
        self.store.compactions().cancel(id, Requester::default()).await.expect("cancelled");
        if self.jobs[&id].automatic {
            self.due_during_compaction.remove(&session);
        }
        self.end(id, CompactionState::Cancelled);
        self.store.compactions().cancel(id, Requester::default()).await.expect("a repetition changes nothing");
    }

    /// Ends a job in the model; the next of its session becomes current.
    fn end(&mut self, id: CompactionId, state: CompactionState) {
        let job = self.jobs.get_mut(&id).expect("a job of the model");
        job.state = state;
        let session = job.session;
        if self.current(session).is_none() {
            let now = self.clock.now();
            // Ids of one process rise with time, so the first is the oldest.
            let next = self.jobs.values_mut().find(|job| job.session == session && job.state.is_active());
            if let Some(next) = next {
                (next.queued, next.run_at) = (false, now);
            }
        }
        if self.current(session).is_none() {
            let is_due_again = state != CompactionState::Done && self.due_during_compaction.remove(&session);
            // Guards follow from the way it ended, so the session is decided again.
            let is_reported = matches!(state, CompactionState::Failed | CompactionState::Dead);
            if is_due_again || is_reported {
                self.due.insert(session);
            }
        }
        if state == CompactionState::Done {
            self.due.insert(session);
        }
    }

    async fn find_work(&mut self) {
        let many = i64::try_from(1 + self.state.skipped()).expect("few");
        let due = self.store.jobs().due_sessions(many).await.expect("due");
        let ready = self.store.jobs().ready(self.clock.now(), many).await.expect("ready");
        let in_progress = self.in_progress();
        let is_new = |key: &SessionKey| !in_progress.contains(key);
        let expected = usize::from(due.iter().any(is_new));
        for key in due.iter().filter(|key| is_new(key)) {
            let source = self.store.views().source(*key, None).await.expect("a session");
            self.listed_at.insert(*key, (source.at, source.appended_bytes));
        }
        let effects = step(&mut self.state, Input::Found { due, ready, now: tokio::time::Instant::now() });
        assert!(effects.len() >= expected, "what is in hand never hides what is not");
        self.queue.extend(effects);
    }

    fn in_progress(&self) -> HashSet<SessionKey> {
        let queued = self.queue.iter();
        queued.chain(self.hands.iter().flatten().map(|hands| &hands.work)).map(session_of).collect()
    }

    /// A free worker takes the first work in the queue. An evaluation takes no time here.
    async fn take(&mut self) {
        let Some(free) = self.hands.iter().position(Option::is_none) else { return };
        let Some(work) = self.queue.pop_front() else { return };
        match &work {
            WorkItem::Evaluate(key) => {
                let key = *key;
                self.evaluate(key).await;
                step(&mut self.state, Input::Finished(work));
            }
            WorkItem::Run { job, .. } => {
                let until = self.clock.now().plus_millis(limits::LEASE_MS);
                match self.store.jobs().claim(*job, fresh_id(), until).await.expect("the store answers") {
                    Some(claim) => {
                        self.claimed(&claim, until);
                        self.hands[free] = Some(CurrentWork { claim, work, until });
                    }
                    None => drop(step(&mut self.state, Input::Finished(work))),
                }
            }
        }
    }

    fn claimed(&mut self, claim: &Claim, until: Timestamp) {
        let now = self.clock.now();
        let job = self.jobs.get_mut(&claim.compaction).expect("a job of the model");
        assert!(
            job.state == CompactionState::Ready && !job.queued && job.run_at <= now,
            "it was not its turn: {job:?}"
        );
        job.state = CompactionState::Running;
        job.attempt += 1;
        job.epoch += 1;
        job.began = true;
        job.lease_until = until;
        assert_eq!((claim.attempt, claim.epoch, claim.lost_attempts), (job.attempt, job.epoch, job.lost_attempts));
    }

    async fn evaluate(&mut self, due: SessionKey) {
        let session = self.sessions.iter().position(|key| *key == due).expect("one of ours");
        let (at, appended_bytes) = self.listed_at[&due];
        let (asked, due_at) = (Self::request("", Trigger::Threshold), Condition::Due { at });
        let (request, usage) = (CheckedInput::trusted(asked.clone()), usage());
        let requests = vec![EvaluationRequest { request, usage, condition: due_at, confirm_until: None }];
        let found = store::Evaluation {
            at,
            appended_bytes,
            context_tokens: 10,
            guards: Guards::default(),
            condition: condition(),
            over_window: None,
        };
        let enqueued = self.store.jobs().evaluated(due, found, requests).await.expect("evaluated");
        self.enqueued(session, (asked, due_at), enqueued);
        // An append after the reading is evaluated again: its due mark is later than the revision that was read.
        let still = self.store.jobs().due_sessions(i64::MAX).await.expect("due");
        let is_left = still.contains(&due);
        if !is_left && self.due.remove(&session) && self.current(session).is_some() {
            self.due_during_compaction.insert(session);
        }
        if self.appended[session] > at {
            assert!(is_left, "what was appended behind a decision asks for another one");
            self.due.insert(session);
        }
    }

    /// True if a claim is the current one of its job.
    fn holds(&self, claim: &Claim) -> bool {
        let job = &self.jobs[&claim.compaction];
        job.state == CompactionState::Running && job.epoch == claim.epoch
    }

    async fn heartbeat(&mut self, worker: usize) {
        let Some(CurrentWork { claim, .. }) = &self.hands[worker] else { return };
        let claim = claim.clone();
        let until = self.clock.now().plus_millis(limits::LEASE_MS);
        let beat = self.store.jobs().heartbeat(claim.clone(), until).await;
        if self.holds(&claim) {
            beat.expect("the claim holds");
            self.jobs.get_mut(&claim.compaction).expect("a job of the model").lease_until = until;
            if let Some(hands) = &mut self.hands[worker] {
                hands.until = until;
            }
        } else {
            assert!(matches!(beat, Err(store::Error::LeaseLost)), "{beat:?}");
            if let Some(CurrentWork { work, .. }) = self.hands[worker].take() {
                step(&mut self.state, Input::Finished(work));
            }
        }
    }

    async fn commit(&mut self, claim: &Claim) {
        let source = self.store.views().source(claim.session, Some(claim.base)).await.expect("the view at the base");
        let tail_start = claim.base + 1;
        let (covered, covered_count) = plan::supplied(&source.layout, &source.messages, tail_start);
        if covered.is_empty() {
            return self.nothing(claim).await;
        }
        let summary = SummaryChange {
            text: "so far".to_owned(),
            marker_text: None,
            tail_start,
            tail_message: None,
            covered,
            covered_count,
            retained: Vec::new(),
            retained_first: false,
            attachments: Vec::new(),
            summarizer: "model".to_owned(),
            usage: None,
            supplied: false,
            details_json: None,
            contradictions: Vec::new(),
            digest: None,
            quoted_until: None,
            said_in: Vec::new(),
        };
        let commit = Commit {
            claim: claim.clone(),
            changes: Changes { summary: Some(summary), ..Changes::default() },
            tokens_before: 100,
            tokens_after: 10,
            first_changed_index: 0,
            invalidated_tokens: 0,
            usage_before: None,
            overhead_tokens: 0,
            stopped: None,
        };
        let done = self.store.jobs().commit(commit).await;
        if self.holds(claim) {
            assert_eq!(done.expect("the claim holds"), CommitOutcome::Done);
            let session = self.jobs[&claim.compaction].session;
            self.compacted[session] = self.store.sessions().get(claim.session).await.expect("read").0.revision;
            self.end(claim.compaction, CompactionState::Done);
            self.due_during_compaction.remove(&session);
        } else {
            assert!(matches!(done, Err(store::Error::LeaseLost)), "a worker that was given up changed something");
        }
    }

    async fn nothing(&mut self, claim: &Claim) {
        let done = self.store.jobs().end_without_work(claim.clone(), failure()).await;
        if self.holds(claim) {
            done.expect("the claim holds");
            self.end(claim.compaction, CompactionState::Cancelled);
        } else {
            assert!(matches!(done, Err(store::Error::LeaseLost)));
        }
    }

    async fn fail(&mut self, claim: &Claim, delay_seconds: i64) {
        let at = self.clock.now().plus_millis(delay_seconds * 1_000);
        let last = claim.attempt >= ATTEMPTS_MAX;
        let done = if last {
            self.store.jobs().exhaust(claim.clone(), failure()).await
        } else {
            self.store.jobs().retry(claim.clone(), failure(), at, AttemptEnd::Reported).await
        };
        if !self.holds(claim) {
            assert!(matches!(done, Err(store::Error::LeaseLost)), "a worker that was given up changed something");
            return;
        }
        done.expect("the claim holds");
        if last {
            self.end(claim.compaction, CompactionState::Dead);
        } else {
            let job = self.jobs.get_mut(&claim.compaction).expect("a job of the model");
            (job.state, job.run_at) = (CompactionState::Ready, at);
        }
    }

    /// Releases a job whose worker is gone.
    fn release(&mut self, id: CompactionId) {
        let now = self.clock.now();
        let job = self.jobs.get_mut(&id).expect("a job of the model");
        job.lost_attempts += 1;
        if job.lost_attempts >= limits::LOST_MAX {
            self.end(id, CompactionState::Dead);
        } else {
            (job.state, job.run_at) = (CompactionState::Ready, now);
        }
    }

    fn running(&self) -> Vec<(CompactionId, Timestamp)> {
        let running = self.jobs.iter().filter(|(_, job)| job.state == CompactionState::Running);
        running.map(|(id, job)| (*id, job.lease_until)).collect()
    }

    async fn sweep(&mut self) {
        let held: HashSet<CompactionId> = self.hands.iter().flatten().map(|hands| hands.claim.compaction).collect();
        let now = self.clock.now();
        let state = &self.state;
        recover::release_expired(&self.store, &self.clock, |job| state.is_running(job)).await.expect("swept");
        for (id, until) in self.running() {
            if until < now && !held.contains(&id) {
                self.release(id);
            }
        }
    }

    async fn restart(&mut self, gently: bool) {
        self.state = SchedulerState::default();
        self.queue.clear();
        self.stale_claims.extend(self.hands.iter_mut().filter_map(Option::take).map(|hands| hands.claim));
        if gently {
            recover::give_back_all(&self.store, &self.clock).await.expect("handed back");
            let now = self.clock.now();
            for (id, _) in self.running() {
                let job = self.jobs.get_mut(&id).expect("a job of the model");
                (job.state, job.run_at) = (CompactionState::Ready, now);
                job.attempt -= 1;
            }
        }
        // The only handles of the store are this one and those in the writer's future.
        let (directory, clock) = (self.directory.path().to_owned(), self.clock.clone());
        let aside = tempfile::tempdir().expect("a temporary folder");
        let placeholder = open(aside.path(), &clock).await;
        let (store, writer) = (std::mem::replace(&mut self.store, placeholder.0), placeholder.1);
        drop(store);
        std::mem::replace(&mut self.writer, writer).await.expect("the writer ends");
        (self.store, self.writer) = open(&directory, &clock).await;
        recover::release_all(&self.store, &self.clock).await.expect("taken up");
        for (id, _) in self.running() {
            self.release(id);
        }
    }

    /// Compares the store with the model.
    async fn check(&self) {
        for (session, key) in self.sessions.iter().enumerate() {
            let stored = self.store.compactions().list(*key, None, 1_000).await.expect("the jobs");
            for (_, compaction) in &stored {
                let job = &self.jobs[&compaction.id];
                assert_eq!((compaction.state, compaction.attempt), (job.state, job.attempt), "{job:?}");
                assert!(job.attempt < ATTEMPTS_MAX + limits::LOST_MAX, "attempts have a bound: {job:?}");
            }
            assert_eq!(stored.len(), self.jobs.values().filter(|job| job.session == session).count());
            assert_eq!(self.store.compactions().current(*key).await.expect("read"), self.current(session));
            let current =
                self.jobs.values().filter(|job| job.session == session && job.state.is_active() && !job.queued);
            assert!(current.count() <= 1, "two at a time");
        }
        for CurrentWork { claim, .. } in self.hands.iter().flatten() {
            assert_eq!(claim.has_ended(), !self.holds(claim), "whoever holds a job hears when somebody ends it");
        }
        let due = self.store.jobs().due_sessions(i64::MAX).await.expect("due");
        assert_eq!(due.len(), self.due.len(), "nothing due is forgotten, and nothing is due twice");
        assert_eq!(self.store.jobs().running().await.expect("read").len(), self.running().len());
    }

    /// Stops all faults: due work is then done, and every lease that ran out is gone after two sweeps.
    async fn settle(&mut self) {
        for _ in 0..200 {
            self.clock.advance(limits::LEASE_MS);
            for worker in 0..WORKERS {
                self.act(&Action::Beat(worker)).await;
                self.act(&Action::Succeed(worker)).await;
            }
            self.act(&Action::Sweep).await;
            self.act(&Action::Sweep).await;
            let now = self.clock.now();
            assert!(self.running().iter().all(|(_, until)| *until >= now), "a lease outlived two sweeps");
            self.act(&Action::FindWork).await;
            self.act(&Action::Take).await;
            self.act(&Action::Take).await;
            let idle = self.queue.is_empty() && self.hands.iter().all(Option::is_none);
            if idle && self.due.is_empty() && self.jobs.values().all(|job| !job.state.is_active()) {
                return self.check_events().await;
            }
        }
        panic!("something is never done: due {:?}, {:#?}", self.due, self.jobs);
    }

    /// Checks the events of each job: at most one start, and one end.
    async fn check_events(&self) {
        let (mut began, mut ended) = (BTreeMap::new(), BTreeMap::new());
        let mut after = 0;
        loop {
            let page = self
                .store
                .log()
                .tail(&EventFilter::default(), after, self.store.log().head_seq())
                .await
                .expect("events");
            let Some(last) = page.events.last() else { break };
            after = last.event.seq;
            for paged in page.events {
                match paged.event.body {
                    EventBody::CompactionStarted { compaction, .. } => *began.entry(compaction).or_insert(0) += 1,
                    EventBody::Compacted { compaction, .. } => {
                        assert_eq!(self.jobs[&compaction].state, CompactionState::Done);
                        *ended.entry(compaction).or_insert(0) += 1;
                    }
                    EventBody::CompactionFailed { compaction, .. }
                    | EventBody::CompactionCancelled { compaction, .. } => *ended.entry(compaction).or_insert(0) += 1,
                    _ => {}
                }
            }
        }
        let once: BTreeMap<CompactionId, Revision> =
            self.jobs.iter().filter(|(_, job)| job.began).map(|(id, _)| (*id, 1)).collect();
        assert_eq!(began, once, "each began once");
        assert_eq!(ended, once, "each ended once");
        let (found, mut findings) = tokio::sync::mpsc::channel(100);
        self.store.upkeep().verify(None, found).await.expect("a check");
        assert!(findings.recv().await.is_none(), "the chain is whole");
    }
}

fn session_of(work: &WorkItem) -> SessionKey {
    match work {
        WorkItem::Evaluate(session) | WorkItem::Run { session, .. } => *session,
    }
}

fn play(actions: &[Action]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut fixture = Fixture::new().await;
        for action in actions {
            fixture.act(action).await;
        }
        fixture.settle().await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn jobs_run_and_end_as_the_model_says(actions in prop::collection::vec(action(), 1..60)) {
        play(&actions);
    }

    #[test]
    fn work_has_one_worker_and_none_is_missed(
        rounds in prop::collection::vec((prop::collection::vec((0..6_i64, any::<bool>()), 0..8), 0..4_usize), 1..30)
    ) {
        let mut state = SchedulerState::default();
        let mut out: Vec<WorkItem> = Vec::new();
        for (found, finished) in rounds {
            let ready: Vec<_> = found.iter().filter(|(_, is_job)| *is_job).map(|(key, _)| (100 + key, SessionKey(*key))).collect();
            let due: Vec<_> = found.iter().filter(|(_, is_job)| !is_job).map(|(key, _)| SessionKey(*key)).collect();
            let all: HashSet<SessionKey> = found.iter().map(|(key, _)| SessionKey(*key)).collect();
            out.extend(step(&mut state, Input::Found { due, ready, now: tokio::time::Instant::now() }));
            let hands: Vec<SessionKey> = out.iter().map(session_of).collect();
            let distinct: HashSet<SessionKey> = hands.iter().copied().collect();
            prop_assert_eq!(hands.len(), distinct.len(), "a session is in two pairs of hands");
            prop_assert!(all.is_subset(&distinct), "something found is in nobody's hands");
            prop_assert_eq!(state.skipped(), out.len());
            for _ in 0..finished.min(out.len()) {
                step(&mut state, Input::Finished(out.remove(0)));
            }
        }
    }
}

/// A sequence that random ones would rarely contain.
#[test]
fn a_job_that_takes_its_daemon_down_three_times_is_not_tried_again() {
    let crash = [Action::FindWork, Action::Take, Action::Crash];
    let actions: Vec<Action> =
        [Action::Ask(0, false)].into_iter().chain(std::iter::repeat_n(crash, 3).flatten()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut fixture = Fixture::new().await;
        for action in &actions {
            fixture.act(action).await;
        }
        let key = fixture.sessions[0];
        let (_, compaction) = fixture.store.compactions().list(key, None, 1).await.expect("the job").remove(0);
        let failure = compaction.failure.expect("it failed");
        assert_eq!((compaction.state, failure.reason.as_str()), (CompactionState::Dead, "POISON"));
        fixture.settle().await;
    });
}

#[test]
fn a_daemon_that_is_stopped_often_does_not_use_up_a_job() {
    let stop = [Action::FindWork, Action::Take, Action::Stop];
    let mut actions: Vec<Action> = vec![Action::Append(0), Action::FindWork, Action::Take];
    actions.extend(std::iter::repeat_n(stop, 9).flatten());
    play(&actions);
}

#[test]
fn a_decision_about_a_changed_view_is_not_enqueued() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut fixture = Fixture::new().await;
        fixture.append(0).await;
        let (key, store) = (fixture.sessions[0], fixture.store.clone());
        let due = async || {
            let due = store.jobs().due_sessions(1).await.expect("due").remove(0);
            store.views().source(due, None).await.expect("a session").at
        };
        let ask = async |at: Revision| {
            let request = Fixture::request("", Trigger::Threshold);
            let condition = Condition::Due { at };
            store
                .compactions()
                .enqueue(key, Requester::default(), CheckedInput::trusted(request), usage(), condition, None)
                .await
                .expect("the store answers")
        };
        let before = due().await;
        store
            .history()
            .rewind(key, Requester::default(), None, None, CheckedInput::trusted(None))
            .await
            .expect("rewound");
        assert_eq!(ask(before).await, None, "the view changed");
        let before = due().await;
        store.history().undo(key, Requester::default(), None).await.expect("undone");
        assert_eq!(ask(before).await, None, "somebody took a change back");
        let before = due().await;
        store.history().redo(key, Requester::default(), None).await.expect("redone");
        assert_eq!(ask(before).await, None, "and brought it back");
        assert!(ask(due().await).await.is_some(), "nothing is in the way any more");
    });
}
