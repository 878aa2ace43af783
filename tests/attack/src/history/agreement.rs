//! Answers about runs, prompts and approvals, compared with the log: each answer agrees with a state that its session
//! had between the request and the answer.

use super::content::{self, PartPrints};
use super::erasures::Lost;
use super::reasons::Refusal;
use super::state::{Approval, Moment, Prompt, Replay, Run, State};
use longhand::pb;
use pb::event::Body;
use pb::{Activity, ApprovalEndReason, RunEndReason};
use prost_types::Timestamp;
use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Difference between the clocks of a client and of the daemon that is no fault.
const CLOCK_TOLERANCE: Duration = Duration::from_millis(200);

/// An answer about runs, prompts and approvals.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    /// A refusal.
    Refused(Refused),
    /// A change on behalf of a run that leaves no event: a draft, a renewed lease.
    InRun(i64),
    /// All prompts that wait.
    Queue(Vec<pb::Prompt>),
    /// All prompts.
    Prompts(Vec<pb::Prompt>),
    /// What happens in the session.
    Run(Box<pb::GetRunResponse>),
    /// All runs.
    Runs(Vec<pb::Run>),
    /// All questions that wait.
    WaitingApprovals(Vec<pb::Approval>),
    /// All questions.
    Approvals(Vec<pb::Approval>),
    /// A question.
    Approval(Box<pb::Approval>),
    /// The active run, the prompts and the questions of a snapshot, by their ids.
    Snapshot(Option<String>, Vec<String>, Vec<String>),
}

/// A refusal with what it depends on.
#[derive(Debug, Clone, Default)]
pub(super) struct Refused {
    /// The method.
    pub(super) rpc: &'static str,
    /// The stable reason.
    pub(super) reason: String,
    /// The facts in the error details.
    pub(super) metadata: HashMap<String, String>,
    /// The run on whose behalf the request was made.
    pub(super) epoch: Option<i64>,
    /// The prompts, the calls or the approval of the request; none where it has none.
    pub(super) subjects: Vec<String>,
    /// True if only a prompt that steers was wanted.
    pub(super) is_steering_only: bool,
}

/// An answer with the time in which it was made.
#[derive(Debug, Clone)]
pub(super) struct Observation {
    /// The session's id.
    pub(super) session: String,
    /// The newest event that any client knew of when the request was sent.
    pub(super) after_seq: i64,
    /// The last event that can have been there when the answer was made.
    pub(super) to_seq: i64,
    /// The answer.
    pub(super) answer: Answer,
}

/// A lease or a time limit as its client knows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// The time at which the client asked for it.
    pub(super) from: SystemTime,
    /// Its length.
    pub(super) length: Duration,
}

/// What clients wrote, by the ids that they got for it.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The prompts as they were submitted, with their senders; each result names the message of its call.
    pub(super) prompts: HashMap<String, pb::Prompt>,
    /// The calls that prompts answer, by their ids, with the revisions of their messages.
    pub(super) calls: HashMap<String, i64>,
    /// The questions as they were asked, with their agents.
    pub(super) approvals: HashMap<String, pb::Approval>,
    /// The acknowledged answers: choice, text and actor.
    pub(super) answers: HashMap<String, (Option<String>, String, String)>,
    /// The latest lease of each run, by session and number.
    pub(super) leases: HashMap<(String, i64), Limit>,
    /// The time limits of questions.
    pub(super) limits: HashMap<String, Limit>,
}

impl Written {
    /// The calls that a prompt answers, with the revisions of their messages.
    pub(super) fn answered<'w>(&'w self, prompt_id: &str) -> impl Iterator<Item = (&'w str, i64)> {
        let parts = self.prompts.get(prompt_id).map(|prompt| prompt.parts.as_slice()).unwrap_or_default();
        parts.iter().filter_map(|part| match &part.body {
            Some(pb::part::Body::ToolResult(result)) => Some((&*result.call_id, *self.calls.get(&result.call_id)?)),
            _ => None,
        })
    }

    /// The prompt that has the result of a call, or had it and made a message of it that no rewind left out.
    fn answer<'s>(&self, state: &'s State, call_id: &str) -> Option<&'s Prompt> {
        let reopens = |taken: i64, call: i64| {
            state.rewinds.iter().any(|(at, after)| *at > taken && *after < taken && call <= *after)
        };
        state.prompts.iter().find(|prompt| {
            self.answered(&prompt.id).any(|(id, call)| {
                id == call_id
                    && match prompt.end {
                        None => true,
                        Some((None, ..)) => false,
                        Some((Some(_), _, taken)) => !reopens(taken, call),
                    }
            })
        })
    }

    /// A prompt that comes for a call that another one answers, or stays although its call is left out.
    fn result_fault(&self, before: &State, event: &pb::Event) -> Option<String> {
        match &event.body {
            Some(Body::PromptSubmitted(body)) => {
                let mut calls = self.answered(&body.prompt_id);
                let (call, other) = calls.find_map(|(call, _)| Some((call, self.answer(before, call)?)))?;
                Some(format!("prompt: {} came for {call}, which {other:?} answers", body.prompt_id))
            }
            Some(Body::SessionRewound(body)) => {
                let is_left_out = |id: &&String| self.answered(id).any(|(_, call)| call > body.after_revision);
                let id = before.queue.iter().find(is_left_out)?;
                Some(format!("prompt: {id} waits behind a rewind to {}, before its call", body.after_revision))
            }
            _ => None,
        }
    }
}

/// Reads the events of a session on, and finds answers that agree with no state of their time. `events` are new, each
/// with the run on whose behalf it was requested. Returns what is wrong, one sentence each.
pub(super) fn read_on(
    replay: &mut Replay,
    events: &[(&pb::Event, Option<i64>)],
    mut observations: Vec<Observation>,
    written: &Written,
) -> Vec<String> {
    let mut faults = Vec::new();
    observations.sort_by_key(|observation| observation.after_seq);
    let mut observations = observations.into_iter().peekable();
    for position in 0..=events.len() {
        let next = events.get(position).map_or(i64::MAX, |(event, _)| event.seq);
        while let Some(observation) = observations.next_if(|observation| observation.after_seq < next) {
            if let Some(why) = disagreement(&replay.state, &events[position..], &observation, written) {
                let Observation { session, after_seq, to_seq, .. } = observation;
                faults.push(format!("of {session}, between the events {after_seq} and {to_seq}: {why}"));
            }
        }
        let Some((event, epoch)) = events.get(position) else { break };
        let of_results = written.result_fault(&replay.state, event);
        let found = replay.apply(event, *epoch).into_iter().chain(of_results).chain(too_early(event, written));
        faults.extend(found.map(|fault| format!("of {}, event {}: {fault}", event.session_id, event.seq)));
    }
    faults.extend(replay.missing());
    faults
}

/// Why an answer agrees with no state of its time; none if it agrees with one.
fn disagreement(
    state: &State,
    events: &[(&pb::Event, Option<i64>)],
    observation: &Observation,
    written: &Written,
) -> Option<String> {
    let mut state = state.clone();
    let mut events = events.iter().take_while(|(event, _)| event.seq <= observation.to_seq);
    loop {
        let why = observation.answer.differs(&state, written)?;
        match events.next() {
            Some((event, _)) => state.apply(event),
            None => return Some(why),
        }
    }
}

/// A run that was lost, or a question whose default held, before its time.
fn too_early(event: &pb::Event, written: &Written) -> Option<String> {
    let (what, limit) = match &event.body {
        Some(Body::RunEnded(body)) if body.reason() == RunEndReason::Lost => {
            (&body.run_id, written.leases.get(&(event.session_id.clone(), body.epoch))?)
        }
        Some(Body::ApprovalEnded(body)) if body.reason() == ApprovalEndReason::Expired => {
            (&body.approval_id, written.limits.get(&body.approval_id)?)
        }
        _ => return None,
    };
    let time = system_time(event.event_time?);
    let early = (limit.from + limit.length).duration_since(time + CLOCK_TOLERANCE).ok()?;
    Some(format!("run: the time of {what} was over {early:?} too early"))
}

fn system_time(time: Timestamp) -> SystemTime {
    let nanos = u32::try_from(time.nanos).unwrap_or_default();
    UNIX_EPOCH + Duration::new(u64::try_from(time.seconds).unwrap_or_default(), nanos)
}

impl Answer {
    /// How the answer differs from a state; none if it does not.
    pub(super) fn differs(&self, state: &State, written: &Written) -> Option<String> {
        match self {
            Self::Refused(refused) => refused.differs(state, written),
            Self::InRun(epoch) if state.active() != Some(*epoch) => {
                Some(format!("run: a write of run {epoch} was taken while {:?} is active", state.active()))
            }
            Self::InRun(_) => None,
            Self::Queue(found) => rows(found, state.queue.iter().filter_map(|id| state.prompt(id)), |row, prompt| {
                prompt_differs(row, prompt, state, written)
            }),
            Self::Prompts(found) => {
                rows(found, state.prompts.iter().rev(), |row, prompt| prompt_differs(row, prompt, state, written))
            }
            Self::Runs(found) => rows(found, state.runs.iter().rev(), |row, run| run_differs(row, run, state)),
            Self::Run(found) => activity_differs(found, state),
            Self::WaitingApprovals(found) => {
                rows(found, state.waiting_approvals().rev(), |row, of| approval_differs(row, of, state, written))
            }
            Self::Approvals(found) => {
                rows(found, state.approvals.iter().rev(), |row, of| approval_differs(row, of, state, written))
            }
            Self::Approval(found) => {
                let one = std::slice::from_ref(&**found);
                rows(one, state.approval(&found.approval_id).into_iter(), |row, of| {
                    approval_differs(row, of, state, written)
                })
            }
            Self::Snapshot(run, prompts, approvals) => {
                let active = state.active().and_then(|epoch| state.run(epoch)).map(|run| &run.id);
                let mut approvals = approvals.clone();
                approvals.sort();
                let mut waiting: Vec<_> = state.waiting_approvals().map(|approval| approval.id.clone()).collect();
                waiting.sort();
                let fits = run.as_ref() == active && *prompts == state.queue && approvals == waiting;
                (!fits).then(|| format!("run: a snapshot has {self:?}, where {active:?} ran: {state:?}"))
            }
        }
    }
}

impl Refused {
    /// A refusal that depends on nothing but the session.
    pub(super) fn of(rpc: &'static str, refusal: &Refusal) -> Self {
        let Refusal { reason, metadata, .. } = refusal.clone();
        Self { rpc, reason, metadata, ..Self::default() }
    }

    /// How the refusal differs from a state; none if the state is a reason for it.
    fn differs(&self, state: &State, written: &Written) -> Option<String> {
        let fact = |name: &str| self.metadata.get(name).map(String::as_str);
        let active = state.active();
        let is_justified = match self.reason.as_str() {
            "SESSION_ARCHIVED" => state.is_archived,
            "SESSION_ERASED" => state.is_erased,
            "RUN_LOST" => {
                let current = active.map(|epoch| epoch.to_string());
                self.epoch != active && fact("current_epoch") == current.as_deref()
            }
            "RUN_ACTIVE" => {
                let run = active.and_then(|epoch| state.run(epoch));
                fact("epoch") == active.map(|epoch| epoch.to_string()).as_deref()
                    && fact("actor") == run.map(|run| run.actor.as_str())
            }
            "RUN_NOT_FOUND" => active.is_none(),
            "NO_PROMPT" => match state.queue.first().and_then(|id| state.prompt(id)) {
                None => true,
                Some(first) => self.is_steering_only && first.delivery != i32::from(pb::Delivery::Steer),
            },
            "PROMPT_ENDED" => self.subjects.iter().any(|id| match state.prompt(id).map(|prompt| &prompt.end) {
                Some(Some((epoch, ..))) => fact("end") == Some(if epoch.is_some() { "taken" } else { "withdrawn" }),
                _ => false,
            }),
            "APPROVAL_ENDED" => self.subjects.iter().any(|id| match state.approval(id).map(|of| &of.end) {
                Some(Some((_, choice, actor, _))) => {
                    let is_choice = fact("choice") == choice.as_deref();
                    fact("actor") == Some(actor.as_str()) && (is_choice || state.is_touched || state.is_erased)
                }
                _ => false,
            }),
            "CALL_ANSWERED" | "CALL_NOT_FOUND" => self.subjects.iter().any(|call| {
                let is_named = self.reason == "CALL_NOT_FOUND" || fact("call_id") == Some(call);
                is_named && written.answer(state, call).is_some()
            }),
            "LIMIT_EXCEEDED" => state.queue.len() >= 100 || state.waiting_approvals().count() >= 100,
            _ => false,
        };
        (!is_justified).then(|| {
            let waiting = (&state.queue, state.waiting_approvals().map(|of| &of.id).collect::<Vec<_>>());
            let Self { rpc, reason, metadata, epoch, subjects, .. } = self;
            format!(
                "run: {rpc} of run {epoch:?} on {subjects:?} is refused with {reason} {metadata:?}, where {active:?} \
                 is active and {waiting:?} wait"
            )
        })
    }
}

/// Compares rows of a list with the model, one by one and in order.
fn rows<'a, R, M: 'a + std::fmt::Debug>(
    found: &[R],
    expected: impl Iterator<Item = &'a M>,
    differs: impl Fn(&R, &M) -> Option<String>,
) -> Option<String> {
    let expected: Vec<&M> = expected.collect();
    if found.len() != expected.len() {
        return Some(format!("a list has {} rows, and by the log {}: {expected:?}", found.len(), expected.len()));
    }
    found.iter().zip(expected).find_map(|(row, expected)| differs(row, expected))
}

fn run_differs(row: &pb::Run, run: &Run, state: &State) -> Option<String> {
    let mut run = run.clone();
    let words = row.end.as_ref().map(|end| end.failure.clone());
    if let (true, Some((_, failure, end)), Some(words)) = (state.is_touched, &mut run.end, words) {
        // The words of an agent go with its session: the log may have been read later than the row.
        *failure = if state.is_gone(end.revision) { String::new() } else { words };
    }
    let end = row.end.as_ref().map(|end| (end.reason, end.failure.clone(), moment(end.end_revision, end.end_time)));
    let there = Run {
        id: row.run_id.clone(),
        actor: row.actor.clone(),
        start: moment(row.start_revision, row.start_time),
        cancel_revision: row.cancel_revision,
        end,
    };
    let fits = there == run && row.lease_end_time.is_none() == run.end.is_some();
    (!fits).then(|| format!("run: a row is {row:?}, and by the log {run:?}"))
}

fn moment(revision: i64, time: Option<Timestamp>) -> Moment {
    Moment { revision, time }
}

fn prompt_differs(row: &pb::Prompt, prompt: &Prompt, state: &State, written: &Written) -> Option<String> {
    let end = row.end.as_ref().map(|end| (end.epoch, end.message_id.clone(), end.end_revision));
    let there = Prompt {
        id: row.prompt_id.clone(),
        delivery: row.delivery,
        actor: row.actor.clone(),
        start: moment(row.submit_revision, row.create_time),
        end,
    };
    if there != *prompt {
        return Some(format!("prompt: a row is {there:?}, and by the log {prompt:?}"));
    }
    match written.prompts.get(&row.prompt_id) {
        None => Some(format!("prompt: nobody submitted {row:?}")),
        Some(sent) => {
            // A prompt loses what its message loses, and everything with its session.
            let message = prompt.end.as_ref().and_then(|(_, message, _)| message.as_ref());
            let is_gone = state.is_gone(prompt.start.revision);
            let lost = if is_gone { Some(&Lost::All) } else { message.and_then(|id| state.erased.get(id)) };
            let metadata = if lost == Some(&Lost::All) { &None } else { &sent.metadata_json };
            let prints = PartPrints::of(&sent.parts);
            let is_left = |parts: usize| row.parts.iter().filter(|part| part.erased).count() == parts;
            let fits = match lost {
                Some(Lost::Parts(ids)) => row.parts.len() == sent.parts.len() && is_left(ids.len()),
                lost => prints.fit(&row.parts, lost),
            };
            let rest = (row.delivery, &row.metadata_json, &row.actor) == (sent.delivery, metadata, &sent.actor);
            let rest = rest && content::callers(&row.parts) == content::callers(&sent.parts);
            (!fits || !rest).then(|| format!("prompt: {row:?} was submitted as {sent:?}"))
        }
    }
}

fn approval_differs(row: &pb::Approval, approval: &Approval, state: &State, written: &Written) -> Option<String> {
    let end = row.end.as_ref();
    let end =
        end.map(|end| (end.reason, end.choice.clone(), end.actor.clone(), moment(end.end_revision, end.end_time)));
    let there = Approval {
        id: row.approval_id.clone(),
        epoch: row.epoch,
        actor: row.actor.clone(),
        start: moment(row.request_revision, row.create_time),
        end,
    };
    // The event of an answer loses its choice with its session; the row keeps it.
    let mut expected = approval.clone();
    let is_touched = state.is_touched || state.is_erased;
    if let (true, Some(end), Some(there)) = (is_touched, &mut expected.end, &there.end) {
        end.1.clone_from(&there.1);
    }
    if there != expected {
        return Some(format!("approval: a row is {there:?}, and by the log {approval:?}"));
    }
    let Some(asked) = written.approvals.get(&row.approval_id) else {
        return Some(format!("approval: nobody asked {row:?}"));
    };
    let is_gone = state.is_gone(approval.start.revision);
    let question = asked.question.as_ref().map(|asked| question_left(asked, is_gone));
    if (&row.question, row.epoch, &row.actor) != (&question, asked.epoch, &asked.actor) {
        return Some(format!("approval: {row:?} was asked as {asked:?}"));
    }
    let end = row.end.as_ref()?;
    let answered = (end.choice.clone(), end.text.clone(), end.actor.clone());
    let question = row.question.as_ref();
    let fits = match (end.reason(), written.answers.get(&row.approval_id)) {
        (ApprovalEndReason::Answered, Some((choice, text, actor))) => {
            let (choice, text) = if is_gone { (None, "") } else { (choice.clone(), text.as_str()) };
            answered == (choice, text.to_owned(), actor.clone())
        }
        (ApprovalEndReason::Expired, None) => {
            is_gone || answered.0.as_deref() == question.and_then(|question| question.default_choice.as_deref())
        }
        (ApprovalEndReason::Withdrawn, None) => answered.0.is_none(),
        _ => false,
    };
    (!fits).then(|| {
        let answer = written.answers.get(&row.approval_id);
        format!("approval: {row:?} has another end than the acknowledged answer {answer:?}")
    })
}

/// A question as it was asked, less what goes with its session.
fn question_left(asked: &pb::Question, is_gone: bool) -> pb::Question {
    match is_gone {
        true => pb::Question { text: "[erased from the history]".to_owned(), ..pb::Question::default() },
        false => asked.clone(),
    }
}

fn activity_differs(found: &pb::GetRunResponse, state: &State) -> Option<String> {
    let waiting: Vec<&str> = state.waiting_approvals().map(|approval| approval.id.as_str()).collect();
    let newest = state.runs.last();
    let activity = match (newest, newest.and_then(|run| run.end.as_ref())) {
        (None, _) => Activity::Idle,
        (Some(_), None) if !waiting.is_empty() => Activity::WaitingForApproval,
        (Some(_), None) if found.compaction_id.is_some() => Activity::Compacting,
        (Some(_), None) => Activity::Running,
        (Some(_), Some((reason, ..))) => match RunEndReason::try_from(*reason) {
            Ok(RunEndReason::Failed | RunEndReason::Lost) => Activity::Failed,
            _ => Activity::Idle,
        },
    };
    let run = match (&found.run, newest) {
        (None, None) => None,
        (Some(row), Some(run)) => run_differs(row, run, state),
        (row, run) => Some(format!("run: the newest is {row:?}, and by the log {run:?}")),
    };
    let fits = found.activity() == activity
        && found.approval_ids == waiting
        && usize::try_from(found.queued_prompt_count) == Ok(state.queue.len());
    run.or_else(|| (!fits).then(|| format!("run: {found:?} is said of {activity:?} with {:?}", state.queue)))
}
