//! Summaries by clients: a task is offered to clients before the configured summarizers are asked, and a client's
//! summary is checked like any other.

use super::error::interrupted;
use super::worker::Worker;
use super::written::SummaryInEffect;
use crate::background;
use crate::fold::attempt::{Answer, Attempt};
use crate::model::compaction::Failure;
use crate::model::event::EventBody;
use crate::model::ids::{MessageId, SessionId};
use crate::model::view::SourceMessage;
use crate::policy::plan::{self, PlanningInput, SummaryPlan, WrittenSummary};
use crate::policy::prompt::{self, AnswerRequirements};
use crate::policy::summary::{SummaryInput, SummaryOutput};
use crate::store::Claim;
use crate::summarizer::{Release, Request, Task, TaskEdit, TaskRefusal, TaskReply};

/// A summary that is to be written: the plan, the summarizer's input, and the details that are kept with it.
#[derive(Clone)]
pub(super) struct Assignment {
    pub(super) plan: SummaryPlan,
    pub(super) input: SummaryInput,
    pub(super) details_json: Option<String>,
}

impl Assignment {
    /// The assignment of a plan.
    pub(super) fn from_plan(planning: PlanningInput<'_>, plan: &SummaryPlan, instructions: &str) -> Self {
        let input = SummaryInput::from_plan(plan, &planning.policy.counting, instructions);
        Self { plan: plan.clone(), input, details_json: None }
    }

    /// The plan with its summary. `supplied` is true if a client wrote it on its own.
    pub(super) fn written_summary<'a>(&'a self, written: &'a SummaryInEffect, supplied: bool) -> WrittenSummary<'a> {
        let SummaryInEffect { output, beside, digest, quoted_until, said_in } = written;
        WrittenSummary {
            plan: &self.plan,
            text: &output.text,
            summarizer: &output.summarizer,
            usage: output.usage,
            supplied,
            details_json: self.details_json.as_deref(),
            contradictions: &output.contradictions,
            beside,
            digest: digest.as_deref(),
            quoted_until: *quoted_until,
            said_in,
        }
    }

    /// The assignment with a client's changes.
    fn with_edit(&self, planning: PlanningInput<'_>, edit: TaskEdit) -> Result<Self, &'static str> {
        let plan = plan::edited(planning, &self.plan, &edit.plan)?;
        let instructions = edit.instructions.as_ref().unwrap_or(&self.input.instructions);
        let of_plan = |plan: &SummaryPlan| {
            let SummaryInput { messages, split_turn, .. } =
                SummaryInput::from_plan(plan, &self.input.counting, instructions);
            (messages, split_turn)
        };
        // Messages that the operator's program replaced stay so as long as the plan covers the same ones. The details
        // say that they were replaced.
        let present = (self.input.messages.clone(), self.input.split_turn.clone());
        let is_same = of_plan(&plan) == of_plan(&self.plan);
        let details_json = edit
            .details_json
            .or_else(|| self.details_json.clone().filter(|_| is_same || present == of_plan(&self.plan)));
        let (messages, split_turn) = if is_same { present } else { of_plan(&plan) };
        let input = SummaryInput { messages, split_turn, instructions: instructions.clone(), ..self.input.clone() };
        Ok(Self { plan, input, details_json })
    }

    /// The assignment as a task for clients.
    fn task(&self, claim: &Claim, session: SessionId, sources: &[SourceMessage]) -> Task {
        let id = |revision: &i64| -> Option<MessageId> {
            let source = sources.iter().find(|source| source.message.revision == *revision);
            source.map(|source| source.message.id)
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

impl Worker {
    /// True if the summary that a new one replaces was a client's own.
    pub(super) async fn previous_is_supplied(
        &self,
        claim: &Claim,
        planning: PlanningInput<'_>,
        plan: &SummaryPlan,
    ) -> Result<bool, Answer<'static>> {
        let Some(covered) = planning.layout.covered.as_ref().filter(|_| plan.previous.is_some()) else {
            return Ok(false);
        };
        let event = self.store.log().event_at(claim.session, covered.mark).await.map_err(interrupted)?;
        Ok(event.is_some_and(|event| match event.body {
            EventBody::Compacted { trigger, outcome, .. } => outcome.is_supplied(trigger),
            _ => false,
        }))
    }

    /// Offers a summary to clients, and waits for a client that leases it, and then for its summary, as long as the
    /// lease holds. Returns the assignment for the configured summarizers if no client wrote an acceptable summary.
    pub(super) async fn ask_clients(
        &self,
        claim: &Claim,
        planning: PlanningInput<'_>,
        attempt: &Attempt<'_>,
        assignment: Assignment,
    ) -> Result<Assignment, Answer<'static>> {
        if !self.tasks.are_offered() {
            return Ok(assignment);
        }
        let shortened = attempt.shortened();
        let here = PlanningInput { sources: &shortened, ..planning };
        let (session, _) = self.store.sessions().get(claim.session).await.map_err(interrupted)?;
        let task = assignment.task(claim, session.id, &shortened);
        let mut offer = self.tasks.offer(task.clone());
        let mut edited = assignment.clone();
        while let Some(request) = offer.next().await {
            match request {
                Request::Edit(edit, answer) => {
                    let changed = edited.with_edit(here, edit).map_err(TaskRefusal::Plan);
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
                Request::Complete(reply, answer) => {
                    let supplied = reply.supplied;
                    let checked = match output_of(&edited, reply) {
                        Ok(output) => {
                            let written = self
                                .as_written(claim, (&edited.input, edited.plan.tail_start), Some(output), supplied)
                                .await?;
                            background::compute(|| attempt.check(edited.written_summary(&written, supplied)))
                        }
                        Err(why) => Err(why),
                    };
                    match checked {
                        Ok(prepared) => {
                            drop(offer);
                            drop(answer.send(Ok(())));
                            return Err(Answer::Accepted(Box::new(prepared)));
                        }
                        Err(why) => drop(answer.send(Err(TaskRefusal::Summary(why)))),
                    }
                }
                Request::Release(Release::Delegated) => return Ok(edited),
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
        Ok(assignment)
    }
}

/// A client's summary, or the reason why it is refused.
fn output_of(assignment: &Assignment, reply: TaskReply) -> Result<SummaryOutput, Failure> {
    let input = &assignment.input;
    let messages: Vec<&SourceMessage> = input.messages.iter().chain(&input.split_turn).collect();
    let words = prompt::words_for_budget(input.budget_tokens);
    let expected = AnswerRequirements::of_history(&input.rules, &messages, input.previous.as_deref(), words);
    let text = reply.summary(&expected)?;
    let summarizer = if reply.model.is_empty() { "client".to_owned() } else { format!("client/{}", reply.model) };
    Ok(SummaryOutput { usage: reply.usage, ..SummaryOutput::new(text, summarizer) })
}
