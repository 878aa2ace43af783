//! Runs, the prompts that wait for them, and their questions.

use super::checked::CheckedInput;
use super::error::Result;
use super::ledger::approvals::{self, EndApproval, RequestApproval};
use super::ledger::head::{Receipt, SessionKey};
use super::ledger::prompts::{self, ChangeQueue, QueueChange};
use super::ledger::runs::{self, AcquireRun, CancelRun, ReleaseRun};
use super::ledger::submit::{NewPrompt, SubmitPrompt};
use super::ledger::tx::{PartInput, Requester};
use super::ledger::{ancestry, head};
use super::shared::StoreParts;
use super::writer::Mutation;
use crate::model::Revision;
use crate::model::approval::{Answer, Approval, Question};
use crate::model::ids::{ApprovalId, PromptId, RunId};
use crate::model::part::NewPart;
use crate::model::prompt::Prompt;
use crate::model::run::{Epoch, Run, SessionRun};
use std::sync::Arc;

/// Runs, the prompts that wait for them, and their questions.
#[derive(Clone)]
pub struct Runs(pub(super) Arc<StoreParts>);

impl Runs {
    /// Acquires the right to answer a session's next prompt; with `takes_prompt` it takes that prompt, and is refused
    /// without one. The receipt has the run's id, and then the prompt's.
    pub async fn acquire(
        &self,
        session: SessionKey,
        caller: Requester,
        lease_ms: i64,
        takes_prompt: bool,
    ) -> Result<Receipt> {
        let acquire = AcquireRun { session, caller, lease_ms, takes_prompt };
        self.0.write(Mutation::change("acquire_run"), move |tx| acquire.apply(tx)).await
    }

    /// Extends the lease of a run, unless it was asked to stop.
    pub async fn renew(&self, session: SessionKey, epoch: Epoch, lease_ms: i64) -> Result<()> {
        self.0.write(Mutation::derived("renew_run", 0), move |tx| runs::renew(tx, session.0, epoch, lease_ms)).await
    }

    /// Ends a run by the will of its agent.
    pub async fn release(
        &self,
        session: SessionKey,
        caller: Requester,
        epoch: Epoch,
        failure: CheckedInput<Option<String>>,
    ) -> Result<Receipt> {
        let (failure, caller) = failure.with_author(caller);
        let release = ReleaseRun { session, caller, epoch, failure };
        self.0.write(Mutation::change("release_run"), move |tx| release.apply(tx)).await
    }

    /// Asks a session's active run to stop, or ends it at once. The receipt has the run's id.
    pub async fn cancel(
        &self,
        session: SessionKey,
        caller: Requester,
        epoch: Option<Epoch>,
        is_forced: bool,
    ) -> Result<Receipt> {
        let cancel = CancelRun { session, caller, epoch, is_forced };
        self.0.write(Mutation::change("cancel_run"), move |tx| cancel.apply(tx)).await
    }

    /// The run with this id.
    pub async fn get(&self, id: RunId) -> Result<Run> {
        self.0.reading(|reader| runs::by_id(reader, id)).await
    }

    /// A session's newest run, with what it waits for.
    pub async fn of_session(&self, session: SessionKey) -> Result<SessionRun> {
        self.0
            .snapshot(|reader| {
                Ok(SessionRun {
                    session_id: ancestry::public_id(reader.conn, session.0)?,
                    run: runs::newest(reader, session.0)?,
                    compaction: head::current_job(reader, session.0)?,
                    approvals: approvals::waiting(reader, session.0)?,
                    queued_prompts: prompts::count(reader, session.0)?,
                })
            })
            .await
    }

    /// Runs of a session with smaller numbers, newest first.
    pub async fn list(&self, session: SessionKey, below: Option<Epoch>, limit: i64) -> Result<Vec<Run>> {
        self.0.reading(|reader| runs::of_session(reader, session.0, below, limit)).await
    }

    /// Active runs of sessions with smaller keys, newest session first: of all, or of a session and those that work for
    /// it, at any depth.
    pub async fn active(
        &self,
        root: Option<SessionKey>,
        below: Option<i64>,
        limit: i64,
    ) -> Result<Vec<(SessionKey, Run)>> {
        let root = root.map(|key| key.0);
        let runs = self.0.reading(|reader| runs::all_active(reader, root, below, limit)).await?;
        Ok(runs.into_iter().map(|(key, run)| (SessionKey(key), run)).collect())
    }

    /// Adds a prompt to the queue. The receipt has its id.
    pub async fn submit_prompt(
        &self,
        session: SessionKey,
        caller: Requester,
        expected_revision: Option<Revision>,
        new: CheckedInput<NewPrompt>,
    ) -> Result<Receipt> {
        let (NewPrompt { parts, delivery, metadata_json, rewind }, caller) = new.with_author(caller);
        let encoded = |part: NewPart| {
            let input = PartInput::from_client(&part);
            (part, input)
        };
        let parts = parts.into_iter().map(encoded).collect();
        let submit = SubmitPrompt { session, caller, expected_revision, rewind, delivery, metadata_json, parts };
        let mutation = Mutation::content("submit_prompt", submit.bytes());
        self.0.write(mutation, move |tx| submit.apply(tx)).await
    }

    /// Changes the queue. The receipt has the prompt's id.
    pub async fn change_queue(&self, session: SessionKey, caller: Requester, change: QueueChange) -> Result<Receipt> {
        let change = ChangeQueue { session, caller, change };
        self.0.write(Mutation::content("change_queue", 0), move |tx| change.apply(tx)).await
    }

    /// A prompt of a session.
    pub async fn prompt(&self, session: SessionKey, id: PromptId) -> Result<Prompt> {
        self.0.snapshot(|reader| prompts::by_id(reader, session.0, id)).await
    }

    /// A page of the prompts of a session: all, newest first, or those that wait, in the order of the queue. With the
    /// position of the page, if more follow.
    pub async fn prompts(
        &self,
        session: SessionKey,
        behind: Option<i64>,
        limit: i64,
        ended: bool,
    ) -> Result<(Vec<Prompt>, Option<i64>)> {
        // Prompts move while the rows of a page are read, one by one.
        self.0.snapshot(|reader| prompts::of_session(reader, session.0, behind, limit, ended)).await
    }

    /// Asks a question. The receipt has its id.
    pub async fn request_approval(
        &self,
        session: SessionKey,
        caller: Requester,
        question: CheckedInput<Question>,
    ) -> Result<Receipt> {
        let (question, caller) = question.with_author(caller);
        let request = RequestApproval { session, caller, question };
        self.0.write(Mutation::change("request_approval"), move |tx| request.apply(tx)).await
    }

    /// Answers a question, once; without an answer it is withdrawn. The receipt has its id.
    pub async fn end_approval(
        &self,
        session: SessionKey,
        caller: Requester,
        approval: ApprovalId,
        answer: CheckedInput<Option<Answer>>,
    ) -> Result<Receipt> {
        let (answer, caller) = answer.with_author(caller);
        let end = EndApproval { session, caller, approval, answer };
        self.0.write(Mutation::change("end_approval"), move |tx| end.apply(tx)).await
    }

    /// An approval of a session.
    pub async fn approval(&self, session: SessionKey, id: ApprovalId) -> Result<Approval> {
        self.0.reading(|reader| approvals::by_id(reader, session.0, id)).await
    }

    /// A page of the approvals of a session, newest first: all, or those that wait. With the position of the page, if
    /// more follow.
    pub async fn approvals(
        &self,
        session: SessionKey,
        below: Option<i64>,
        limit: i64,
        ended: bool,
    ) -> Result<(Vec<Approval>, Option<i64>)> {
        self.0.snapshot(|reader| approvals::of_session(reader, session.0, below, limit, ended)).await
    }
}
