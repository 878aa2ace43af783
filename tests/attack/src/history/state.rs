//! A model of a session's runs, prompts and approvals: what follows from its events, and which events may follow.
//!
//! It is pure, and knows the protocol alone: events in, state and faults out.

use super::erasures::{self, Lost};
use longhand::pb;
use pb::event::Body;
use pb::{ApprovalEndReason, Delivery, RunEndReason};
use std::collections::HashMap;

/// A run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Run {
    /// Its id.
    pub(super) id: String,
    /// Its agent.
    pub(super) actor: String,
    /// The revision and the time at which it began.
    pub(super) start: Moment,
    /// The revision at which it was asked to stop.
    pub(super) cancel_revision: Option<i64>,
    /// Its end: reason, words, revision and time.
    pub(super) end: Option<(i32, String, Moment)>,
}

/// A prompt.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Prompt {
    /// Its id.
    pub(super) id: String,
    /// The sender's wish.
    pub(super) delivery: i32,
    /// The sender.
    pub(super) actor: String,
    /// The revision and the time at which it came.
    pub(super) start: Moment,
    /// The end of its wait: run, message, revision.
    pub(super) end: Option<(Option<i64>, Option<String>, i64)>,
}

/// A question with its answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Approval {
    /// Its id.
    pub(super) id: String,
    /// The run that asked.
    pub(super) epoch: Option<i64>,
    /// The agent that asked.
    pub(super) actor: String,
    /// The revision and the time at which it was asked.
    pub(super) start: Moment,
    /// Its end: reason, choice, actor, revision and time.
    pub(super) end: Option<(i32, Option<String>, String, Moment)>,
}

/// The revision and the time of an event.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Moment {
    /// The revision.
    pub(super) revision: i64,
    /// The time of the commit.
    pub(super) time: Option<prost_types::Timestamp>,
}

impl Moment {
    fn of(event: &pb::Event) -> Self {
        Self { revision: event.revision, time: event.event_time }
    }
}

/// The state of a session after an event.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    /// True while the session is archived.
    pub(super) is_archived: bool,
    /// True once the session is erased, or a first step of that is done.
    pub(super) is_erased: bool,
    /// The revisions whose questions, prompts and words went with the session. A large one goes in steps.
    gone: Vec<pb::RevisionRange>,
    /// True if a later erasure took texts of the events, the choices of answers and the words of agents among them.
    pub(super) is_touched: bool,
    /// The messages that lost content otherwise.
    pub(super) erased: HashMap<String, Lost>,
    /// The runs; the first one has the number 1.
    pub(super) runs: Vec<Run>,
    /// The ids of the prompts that wait, in order.
    pub(super) queue: Vec<String>,
    /// All prompts, as they came.
    pub(super) prompts: Vec<Prompt>,
    /// The rewinds: the revision of each, and the last position that it keeps.
    pub(super) rewinds: Vec<(i64, i64)>,
    /// All questions, as they were asked.
    pub(super) approvals: Vec<Approval>,
}

impl State {
    /// The number of the active run.
    pub(super) fn active(&self) -> Option<i64> {
        let last = self.runs.last().filter(|run| run.end.is_none());
        last.and_then(|_| i64::try_from(self.runs.len()).ok())
    }

    /// A run by its number.
    pub(super) fn run(&self, epoch: i64) -> Option<&Run> {
        self.runs.get(usize::try_from(epoch).ok()?.checked_sub(1)?)
    }

    /// A prompt by its id.
    pub(super) fn prompt(&self, id: &str) -> Option<&Prompt> {
        self.prompts.iter().find(|prompt| prompt.id == id)
    }

    /// A question by its id.
    pub(super) fn approval(&self, id: &str) -> Option<&Approval> {
        self.approvals.iter().find(|approval| approval.id == id)
    }

    /// The ids of the questions that wait, oldest first.
    pub(super) fn waiting_approvals(&self) -> impl DoubleEndedIterator<Item = &Approval> {
        self.approvals.iter().filter(|approval| approval.end.is_none())
    }

    /// True if what a revision brought went with the session.
    pub(super) fn is_gone(&self, revision: i64) -> bool {
        erasures::holds(&self.gone, revision)
    }

    fn run_mut(&mut self, epoch: i64) -> Option<&mut Run> {
        self.runs.get_mut(usize::try_from(epoch).ok()?.checked_sub(1)?)
    }

    fn is_urgent(&self, id: &str) -> bool {
        self.prompt(id).is_some_and(|prompt| prompt.delivery != i32::from(Delivery::Queue))
    }

    /// Goes on to the next event, whether it may follow or not.
    pub(super) fn apply(&mut self, event: &pb::Event) {
        let start = Moment::of(event);
        match &event.body {
            Some(Body::SessionArchived(_)) => self.is_archived = true,
            Some(Body::SessionRestored(_)) => self.is_archived = false,
            Some(Body::Erased(body)) => self.content_erased(body),
            Some(Body::RunStarted(body)) => {
                let actor = event.actor.clone();
                self.runs.push(Run { id: body.run_id.clone(), actor, start, ..Run::default() });
            }
            Some(Body::RunCancelRequested(body)) => {
                if let Some(run) = self.run_mut(body.epoch) {
                    run.cancel_revision = Some(event.revision);
                }
            }
            Some(Body::RunEnded(body)) => {
                if let Some(run) = self.run_mut(body.epoch) {
                    run.end = Some((body.reason, body.failure.clone(), start));
                }
            }
            Some(Body::SessionRewound(body)) => self.rewinds.push((event.revision, body.after_revision)),
            Some(Body::PromptSubmitted(body)) => self.submitted(event, body),
            Some(Body::PromptMoved(body)) => {
                self.queue.retain(|id| *id != body.prompt_id);
                let before = body.before_prompt_id.as_ref();
                let position = before.and_then(|before| self.queue.iter().position(|id| id == before));
                self.queue.insert(position.unwrap_or(self.queue.len()), body.prompt_id.clone());
            }
            Some(Body::PromptTaken(body)) => {
                let end = (Some(body.epoch), Some(body.message_id.clone()), event.revision);
                self.prompt_ended(&body.prompt_id, end);
            }
            Some(Body::PromptWithdrawn(body)) => self.prompt_ended(&body.prompt_id, (None, None, event.revision)),
            Some(Body::ApprovalRequested(body)) => {
                let (id, actor) = (body.approval_id.clone(), event.actor.clone());
                self.approvals.push(Approval { id, epoch: body.epoch, actor, start, end: None });
            }
            Some(Body::ApprovalEnded(body)) => {
                let end = (body.reason, body.choice.clone(), event.actor.clone(), start);
                if let Some(approval) = self.approvals.iter_mut().find(|approval| approval.id == body.approval_id) {
                    approval.end = Some(end);
                }
            }
            _ => {}
        }
    }

    fn content_erased(&mut self, body: &pb::Erased) {
        if body.target() == pb::ErasedTarget::Session && body.source_session_id.is_none() {
            self.is_erased = true;
            self.gone.extend_from_slice(&body.ranges);
        }
        for erased in &body.messages {
            erasures::lose(&mut self.erased, erased);
        }
    }

    fn submitted(&mut self, event: &pb::Event, body: &pb::PromptSubmitted) {
        let position = match body.delivery() {
            Delivery::Interrupt => 0,
            Delivery::Steer => self.queue.iter().take_while(|id| self.is_urgent(id)).count(),
            Delivery::Queue | Delivery::Unspecified => self.queue.len(),
        };
        self.queue.insert(position, body.prompt_id.clone());
        let (id, actor) = (body.prompt_id.clone(), event.actor.clone());
        self.prompts.push(Prompt { id, delivery: body.delivery, actor, start: Moment::of(event), end: None });
    }

    fn prompt_ended(&mut self, id: &str, end: (Option<i64>, Option<String>, i64)) {
        self.queue.retain(|waiting| waiting != id);
        if let Some(prompt) = self.prompts.iter_mut().find(|prompt| prompt.id == id) {
            prompt.end = Some(end);
        }
    }
}

/// An event that must come next in its session, in the same mutation.
#[derive(Debug, Clone)]
enum Next {
    /// The message of a prompt that was taken.
    Message(String),
    /// The request to stop that an interrupting prompt makes.
    Cancel(i64),
}

/// A session as its events are read, one after the other.
#[derive(Debug, Clone, Default)]
pub(super) struct Replay {
    /// The state after the last event.
    pub(super) state: State,
    /// The run of each message, if it was written on behalf of one.
    messages: HashMap<String, Option<i64>>,
    /// Open messages with their runs.
    open: HashMap<String, Option<i64>>,
    next: Option<(Next, String)>,
    /// The request of the last event, if that was a rewind.
    rewound: Option<String>,
}

impl Replay {
    /// Goes on to the next event of the session. `epoch` is the run on whose behalf the event's request was made.
    /// Returns what is wrong with it, one sentence each.
    pub(super) fn apply(&mut self, event: &pb::Event, epoch: Option<i64>) -> Vec<String> {
        let mut faults = Vec::new();
        self.follows(event, &mut faults);
        if let Some(epoch) = epoch
            && self.state.active() != Some(epoch)
        {
            let active = self.state.active();
            faults.push(format!("run: a write of run {epoch} was taken while {active:?} is active"));
        }
        match &event.body {
            Some(Body::MessageAppended(body)) => self.appended(body, epoch, &mut faults),
            Some(Body::MessageFinished(body)) => drop(self.open.remove(&body.message_id)),
            Some(Body::SessionArchived(_)) if self.state.active().is_some() => {
                faults.push("run: a session was archived while its run is active".to_owned());
            }
            Some(Body::RunStarted(body)) => self.run_started(body, &mut faults),
            Some(Body::RunCancelRequested(body)) => self.cancel_requested(body, &mut faults),
            Some(Body::RunEnded(body)) => self.run_ended(event, body, &mut faults),
            Some(Body::PromptSubmitted(body)) => self.prompt_submitted(event, body, &mut faults),
            Some(Body::PromptMoved(body)) => {
                self.is_waiting(&body.prompt_id, "moved", &mut faults);
                if let Some(before) = &body.before_prompt_id {
                    self.is_waiting(before, "moved to, as a place,", &mut faults);
                }
            }
            Some(Body::PromptTaken(body)) => {
                self.is_waiting(&body.prompt_id, "taken", &mut faults);
                if self.state.active() != Some(body.epoch) {
                    let (id, active) = (&body.prompt_id, self.state.active());
                    faults.push(format!("prompt: run {} took {id} while {active:?} is active", body.epoch));
                }
                self.next = Some((Next::Message(body.message_id.clone()), event.request_id.clone()));
            }
            Some(Body::PromptWithdrawn(body)) => self.is_waiting(&body.prompt_id, "withdrawn", &mut faults),
            Some(Body::ApprovalRequested(body)) => self.approval_requested(body, &mut faults),
            Some(Body::ApprovalEnded(body)) => self.approval_ended(event, body, &mut faults),
            _ => {}
        }
        self.rewound = matches!(&event.body, Some(Body::SessionRewound(_))).then(|| event.request_id.clone());
        self.state.apply(event);
        self.left_behind(event, &mut faults);
        faults
    }

    /// What is missing behind the last event, if no further one comes.
    pub(super) fn missing(&self) -> Option<String> {
        self.next.as_ref().map(|(next, _)| format!("prompt: the log ends where {next:?} must follow"))
    }

    fn follows(&mut self, event: &pb::Event, faults: &mut Vec<String>) {
        let Some((next, request_id)) = self.next.take() else { return };
        let fits = match (&next, &event.body) {
            (Next::Message(id), Some(Body::MessageAppended(body))) => body.message_id == *id && body.sealed,
            (Next::Cancel(epoch), Some(Body::RunCancelRequested(body))) => body.epoch == *epoch,
            _ => false,
        };
        if !fits || event.request_id != request_id {
            faults.push(format!("prompt: {next:?} must follow, and {:?} does", event.kind()));
        }
    }

    fn appended(&mut self, body: &pb::MessageAppended, epoch: Option<i64>, faults: &mut Vec<String>) {
        let id = &body.message_id;
        if self.messages.insert(id.clone(), epoch).is_some() {
            faults.push(format!("prompt: message {id} was appended twice"));
        }
        if !body.sealed {
            self.open.insert(id.clone(), epoch);
        }
    }

    fn run_started(&self, body: &pb::RunStarted, faults: &mut Vec<String>) {
        if let Some(active) = self.state.active() {
            faults.push(format!("run: {} begins while run {active} is active", body.run_id));
        }
        let count = i64::try_from(self.state.runs.len()).unwrap_or(i64::MAX);
        if body.epoch != count + 1 {
            faults.push(format!("run: {} has the number {} behind {count}", body.run_id, body.epoch));
        }
        if self.state.runs.iter().any(|run| run.id == body.run_id) {
            faults.push(format!("run: {} begins twice", body.run_id));
        }
    }

    fn cancel_requested(&self, body: &pb::RunCancelRequested, faults: &mut Vec<String>) {
        let active = self.state.active();
        let run = self.state.run(body.epoch).filter(|run| run.id == body.run_id);
        if active != Some(body.epoch) || run.is_none_or(|run| run.cancel_revision.is_some()) {
            faults.push(format!("run: {} was asked to stop while {active:?} is active: {run:?}", body.run_id));
        }
    }

    fn run_ended(&self, event: &pb::Event, body: &pb::RunEnded, faults: &mut Vec<String>) {
        let active = self.state.active();
        let run = self.state.run(body.epoch).filter(|run| run.id == body.run_id);
        let Some(run) = run.filter(|_| active == Some(body.epoch)) else {
            faults.push(format!("run: {} ends while {active:?} is active", body.run_id));
            return;
        };
        let is_own = !event.request_id.is_empty();
        let is_asked = run.cancel_revision.is_some();
        let fits = match body.reason() {
            RunEndReason::Completed | RunEndReason::Failed => is_own && !is_asked,
            RunEndReason::Lost => !is_own && !is_asked,
            // A client that ends a whole tree gives no request id.
            RunEndReason::Cancelled => is_asked || is_own || !event.actor.is_empty(),
            RunEndReason::Unspecified => false,
        };
        if !fits {
            faults.push(format!("run: {run:?} ends as {:?} by {:?}", body.reason(), event.request_id));
        }
        for (message, _) in self.open.iter().filter(|(_, epoch)| **epoch == Some(body.epoch)) {
            faults.push(format!("run: {} ends, and left {message} open", body.run_id));
        }
        for call in &body.interrupted_calls {
            if self.messages.get(&call.message_id) != Some(&Some(body.epoch)) {
                faults.push(format!("run: {} ends with {call:?}, which it did not make", body.run_id));
            }
        }
    }

    fn prompt_submitted(&mut self, event: &pb::Event, body: &pb::PromptSubmitted, faults: &mut Vec<String>) {
        if self.state.prompt(&body.prompt_id).is_some() {
            faults.push(format!("prompt: {} came twice", body.prompt_id));
        }
        let active = self.state.active();
        if let Some(epoch) = active.filter(|_| self.rewound.as_ref() == Some(&event.request_id)) {
            faults.push(format!("run: {epoch} goes on behind the rewind of {}", body.prompt_id));
        }
        let run = active.and_then(|epoch| self.state.run(epoch)).filter(|run| run.cancel_revision.is_none());
        if let (Delivery::Interrupt, Some(_), Some(epoch)) = (body.delivery(), run, active) {
            self.next = Some((Next::Cancel(epoch), event.request_id.clone()));
        }
    }

    fn is_waiting(&self, id: &str, what: &str, faults: &mut Vec<String>) {
        if !self.state.queue.iter().any(|waiting| waiting == id) {
            let before = self.state.prompt(id);
            faults.push(format!("prompt: {id} was {what} and does not wait: {before:?}"));
        }
    }

    fn approval_requested(&self, body: &pb::ApprovalRequested, faults: &mut Vec<String>) {
        let id = &body.approval_id;
        if self.state.approval(id).is_some() {
            faults.push(format!("approval: {id} was asked twice"));
        }
        if body.epoch.is_some() && body.epoch != self.state.active() {
            let active = self.state.active();
            faults.push(format!("approval: {id} was asked by {:?} while {active:?} is active", body.epoch));
        }
    }

    fn approval_ended(&self, event: &pb::Event, body: &pb::ApprovalEnded, faults: &mut Vec<String>) {
        let id = &body.approval_id;
        match self.state.approval(id) {
            None => faults.push(format!("approval: {id} ends and was never asked")),
            Some(Approval { end: Some(end), .. }) => {
                faults.push(format!("approval: {id} ends as {body:?} behind {end:?}"));
            }
            Some(_) => {}
        }
        let fits = match body.reason() {
            ApprovalEndReason::Answered => !event.request_id.is_empty(),
            ApprovalEndReason::Expired => {
                event.request_id.is_empty()
                    && event.actor.is_empty()
                    && (body.choice.is_some() || self.state.is_touched)
            }
            ApprovalEndReason::Withdrawn => body.choice.is_none(),
            ApprovalEndReason::Unspecified => false,
        };
        if !fits {
            faults.push(format!("approval: {id} ends as {body:?} by {:?}", event.actor));
        }
    }

    /// Finds questions that a run left behind although it was not lost.
    fn left_behind(&self, event: &pb::Event, faults: &mut Vec<String>) {
        let Some(Body::RunEnded(body)) = &event.body else { return };
        if body.reason() == RunEndReason::Lost {
            return;
        }
        let left = self.state.waiting_approvals().filter(|approval| approval.epoch.is_some_and(|of| of <= body.epoch));
        for approval in left {
            faults.push(format!("approval: {} waits behind the end of {}", approval.id, body.run_id));
        }
    }
}
