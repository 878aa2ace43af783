//! Summaries by clients: a task is offered to clients before the configured summarizers are asked, and a client's
//! summary is checked like any other.

use super::attempt::{AttemptFailure, no_gain};
use super::prepared::{Candidate, PreparedCompaction};
use super::worker::Worker;
use crate::model::compaction::Failure;
use crate::model::event::EventBody;
use crate::model::ids::{MessageId, SessionId};
use crate::model::message::MessageKind;
use crate::model::view::SourceMessage;
use crate::policy::plan::{self, PlanningInput, SummaryPlan};
use crate::policy::prompt::{self, Expected};
use crate::store::Claim;
use crate::summarizer::{
    self, Evidence, Refused, Release, Request, SummaryInput, SummaryOutput, Task, TaskEdit, TaskReply,
};

/// A summary that is to be written: the plan, the summarizer's input, and the details that are kept with it.
#[derive(Clone)]
pub(super) struct Assignment {
    pub(super) plan: SummaryPlan,
    pub(super) input: SummaryInput,
    pub(super) details_json: Option<String>,
}

impl Assignment {
    /// The assignment of a plan.
    pub(super) fn of(planning: PlanningInput<'_>, plan: &SummaryPlan, instructions: &str) -> Self {
        let input = SummaryInput {
            messages: summarizable(&plan.head),
            split_turn: summarizable(&plan.split_turn),
            previous: plan.previous.clone(),
            previous_is_supplied: false,
            rules: plan.rules.clone(),
            counting: planning.policy.counting.clone(),
            instructions: instructions.to_owned(),
            budget_tokens: plan.rules.max_tokens,
        };
        Self { plan: plan.clone(), input, details_json: None }
    }

    /// The assignment with a client's changes.
    fn edited(&self, planning: PlanningInput<'_>, edit: TaskEdit) -> Result<Self, &'static str> {
        let plan = plan::edited(planning, &self.plan, &edit.plan)?;
        let input = SummaryInput {
            messages: summarizable(&plan.head),
            split_turn: summarizable(&plan.split_turn),
            instructions: edit.instructions.unwrap_or_else(|| self.input.instructions.clone()),
            ..self.input.clone()
        };
        Ok(Self { plan, input, details_json: edit.details_json.or_else(|| self.details_json.clone()) })
    }

    /// The assignment as a task for clients.
    fn task(&self, claim: &Claim, session: SessionId, sources: &[SourceMessage]) -> Task {
        let id = |revision: &i64| -> Option<MessageId> {
            let found = sources.iter().find(|source| source.message.revision == *revision);
            found.map(|source| source.message.id)
        };
        Task {
            session,
            compaction: claim.compaction,
            base: claim.base,
            level: claim.request.level,
            trigger: claim.request.trigger,
            attempt: claim.attempt,
            window_tokens: claim.window.context,
            covered: self.plan.covered.clone(),
            tail_start: self.plan.tail_message,
            retained: self.plan.retained.iter().filter_map(id).collect(),
            input: self.input.clone(),
            details_json: self.details_json.clone(),
        }
    }
}

/// The messages that are worth summarizing: all but Longhand's own continuations.
fn summarizable(messages: &[SourceMessage]) -> Vec<SourceMessage> {
    messages.iter().filter(|source| source.message.kind != MessageKind::Continuation).cloned().collect()
}

/// Result of offering a summary to the clients.
pub(super) enum TaskOutcome {
    /// A client wrote the summary, and it was accepted.
    Written(Box<PreparedCompaction>),
    /// The configured summarizers are to write it.
    Left(Box<Assignment>),
}

impl Worker {
    /// True if the summary that a new one replaces was a client's own.
    pub(super) async fn previous_is_supplied(
        &self,
        claim: &Claim,
        planning: PlanningInput<'_>,
        plan: &SummaryPlan,
    ) -> Result<bool, AttemptFailure> {
        let Some(covered) = planning.layout.covered.as_ref().filter(|_| plan.previous.is_some()) else {
            return Ok(false);
        };
        let event = self.store.event_at(claim.session, covered.mark).await?;
        Ok(event.is_some_and(|event| match event.body {
            EventBody::Compacted { trigger, outcome, .. } => outcome.is_supplied(trigger),
            _ => false,
        }))
    }

    /// Offers a summary to clients, and waits for a client that leases it, and then for its summary, as long as the
    /// lease holds.
    pub(super) async fn ask_clients(
        &self,
        claim: &Claim,
        planning: PlanningInput<'_>,
        candidate: Candidate<'_>,
        assignment: Assignment,
    ) -> Result<TaskOutcome, AttemptFailure> {
        if !self.tasks.are_offered() {
            return Ok(TaskOutcome::Left(Box::new(assignment)));
        }
        let shortened = plan::with_removals(planning.sources, &candidate.work.removals, claim.compaction);
        let here = PlanningInput { sources: &shortened, ..planning };
        let (session, _) = self.store.session(claim.session).await?;
        let task = assignment.task(claim, session.id, &shortened);
        let mut offer = self.tasks.offer(task.clone());
        let mut edited = assignment.clone();
        while let Some(request) = offer.next().await {
            match request {
                Request::Edit(edit, answer) => {
                    let changed = edited.edited(here, edit).map_err(Refused::Plan);
                    if let Ok(changed) = &changed {
                        self.store_plan(claim, &changed.plan).await?;
                    }
                    let changed = changed.map(|changed| {
                        edited = changed;
                        offer.renew(edited.task(claim, session.id, &shortened))
                    });
                    // A client that is gone needs no answer.
                    drop(answer.send(changed));
                }
                Request::Complete(reply, answer) => match check(planning, candidate, &edited, reply) {
                    Ok(prepared) => {
                        drop(offer);
                        drop(answer.send(Ok(())));
                        return Ok(TaskOutcome::Written(Box::new(prepared)));
                    }
                    Err(why) => drop(answer.send(Err(Refused::Summary(why)))),
                },
                Request::Release(Release::Delegated) => return Ok(TaskOutcome::Left(Box::new(edited))),
                Request::Release(Release::Permanent) => break,
                Request::Release(Release::Transient) => {
                    edited = assignment.clone();
                    self.store_plan(claim, &edited.plan).await?;
                    offer.renew(task.clone());
                    if !offer.reopen() {
                        break;
                    }
                }
            }
        }
        tracing::debug!(compaction = %claim.compaction, "no client wrote the summary");
        Ok(TaskOutcome::Left(Box::new(assignment)))
    }
}

/// The compaction with a client's summary, or the reason why the summary is refused.
fn check(
    planning: PlanningInput<'_>,
    candidate: Candidate<'_>,
    assignment: &Assignment,
    reply: TaskReply,
) -> Result<PreparedCompaction, Failure> {
    let plan = &assignment.plan;
    let input = &assignment.input;
    let messages: Vec<&SourceMessage> = input.messages.iter().chain(&input.split_turn).collect();
    let words = prompt::words(input.budget_tokens);
    let expected = Expected::of_history(&input.rules, &messages, input.previous.as_deref(), words);
    let text = reply.summary(&expected)?;
    let summarizer = if reply.model.is_empty() { "client".to_owned() } else { format!("client/{}", reply.model) };
    let output = SummaryOutput { usage: reply.usage, ..SummaryOutput::new(text, summarizer) };
    // A client may know the messages after the covered ones too.
    let behind: Vec<SourceMessage> =
        planning.sources.iter().filter(|source| source.message.revision >= plan.tail_start).cloned().collect();
    // A client's own summary stays as it is; an answer to the request is completed like that of any model.
    let output = if reply.supplied {
        let behind = behind.iter().collect();
        let evidence = Evidence { behind, knows_more: true, ..Evidence::of(input) };
        SummaryOutput { contradictions: summarizer::contradictions(&evidence, &output.text), ..output }
    } else {
        output.completed_beside(input, &behind)
    };
    let Candidate { work, gain_min } = candidate;
    match PreparedCompaction::of(planning, &work.removals, Some((plan, &output))) {
        Some(prepared) if prepared.gain() >= gain_min => {
            Ok(prepared.with_details(assignment.details_json.clone()).supplied(reply.supplied))
        }
        Some(prepared) => Err(no_gain(prepared.gain())),
        None => Err(no_gain(0)),
    }
}
