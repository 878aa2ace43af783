//! The check of the rows of runs, prompts and approvals against their events.

use super::part_rows::part;
use crate::engine::{self, Connection, Reader, Row, values};
use crate::error::{Error, Result};
use crate::ledger::chain::{self, Digest};
use crate::ledger::codec::{self, Number as _};
use crate::ledger::{messages, prompts};
use crate::model::Revision;
use crate::model::approval::ApprovalEndReason;
use crate::model::event::EventBody;
use crate::model::ids::{ApprovalId, PromptId};
use crate::model::prompt::Delivery;
use crate::model::run::{Epoch, RunEndReason};
use crate::model::time::Timestamp;

const RUN: &str = "select public_id, actor, start_time, start_revision, cancel_revision, end_reason, end_revision, \
     failure, end_time from run where session_id = ?1 and epoch = ?2";
const PROMPT: &str = "select public_id, delivery, actor, metadata_json, create_time, parts, submit_revision, end_epoch, \
     end_revision from prompt where session_id = ?1 and public_id = ?2";
const APPROVAL: &str = "select public_id, actor, create_time, salt, question, request_revision, epoch, end_reason, \
     end_revision, end_actor, answer_salt, answer, end_time from approval where session_id = ?1 and public_id = ?2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[RUN, PROMPT, APPROVAL];

/// Reads at once the rows of the events among these.
pub(super) fn read_ahead<'e>(conn: &Connection, key: i64, events: impl Iterator<Item = &'e EventBody>) -> Result<()> {
    let (mut runs, mut prompts, mut approvals) = (Vec::new(), Vec::new(), Vec::new());
    for body in events {
        match body {
            EventBody::RunStarted { epoch, .. }
            | EventBody::RunCancelRequested { epoch, .. }
            | EventBody::RunEnded { epoch, .. } => runs.push(values![key, *epoch]),
            EventBody::PromptSubmitted { prompt, .. }
            | EventBody::PromptTaken { prompt, .. }
            | EventBody::PromptWithdrawn { prompt } => prompts.push(values![key, prompt.0.as_bytes().to_vec()]),
            EventBody::ApprovalRequested { approval, .. } | EventBody::ApprovalEnded { approval, .. } => {
                approvals.push(values![key, approval.0.as_bytes().to_vec()]);
            }
            _ => {}
        }
    }
    conn.read_ahead(RUN, &runs)?;
    conn.read_ahead(PROMPT, &prompts)?;
    conn.read_ahead(APPROVAL, &approvals)
}

/// The numbers of rows that events account for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RunRowCounts {
    pub(super) runs: i64,
    pub(super) cancelled_runs: i64,
    pub(super) ended_runs: i64,
    pub(super) prompts: i64,
    pub(super) ended_prompts: i64,
    pub(super) approvals: i64,
    pub(super) ended_approvals: i64,
}

impl RunRowCounts {
    /// The numbers of a session's rows, in the columns of a row from this one on.
    pub(super) fn from_row(row: &Row, first: usize) -> Result<Self> {
        Ok(Self {
            runs: row.get(first)?,
            cancelled_runs: row.get(first + 1)?,
            ended_runs: row.get(first + 2)?,
            prompts: row.get(first + 3)?,
            ended_prompts: row.get(first + 4)?,
            approvals: row.get(first + 5)?,
            ended_approvals: row.get(first + 6)?,
        })
    }
}

/// The check of one event of a session.
pub(super) struct Check<'a, 'r> {
    pub(super) reader: &'a mut Reader<'r>,
    pub(super) key: i64,
    pub(super) revision: Revision,
    pub(super) actor: &'a str,
    pub(super) time: i64,
}

impl Check<'_, '_> {
    /// Adds the rows of the event to its digest, and compares the columns that changed with it. Events of other kinds
    /// have no rows here.
    pub(super) fn event(&mut self, body: &EventBody, digest: &mut Digest, counts: &mut RunRowCounts) -> Result<()> {
        match body {
            EventBody::RunStarted { epoch, .. } => {
                counts.runs += 1;
                self.run_started(*epoch, digest)
            }
            EventBody::RunCancelRequested { epoch, .. } => {
                counts.cancelled_runs += 1;
                let row = self.run(*epoch)?;
                self.expect("run", row.get(4)?)
            }
            EventBody::RunEnded { epoch, reason, failure, .. } => {
                counts.ended_runs += 1;
                self.run_ended(*epoch, *reason, failure)
            }
            EventBody::PromptSubmitted { prompt, delivery } => {
                counts.prompts += 1;
                self.prompt_submitted(*prompt, *delivery, digest)
            }
            EventBody::PromptTaken { prompt, epoch } => {
                counts.ended_prompts += 1;
                self.prompt_ended(*prompt, Some(*epoch))
            }
            EventBody::PromptWithdrawn { prompt } => {
                counts.ended_prompts += 1;
                self.prompt_ended(*prompt, None)
            }
            EventBody::ApprovalRequested { approval, epoch } => {
                counts.approvals += 1;
                self.approval_requested(*approval, *epoch, digest)
            }
            EventBody::ApprovalEnded { approval, reason, .. } => {
                counts.ended_approvals += 1;
                self.approval_ended(*approval, *reason, digest)
            }
            _ => Ok(()),
        }
    }

    /// Refuses a row that names another revision than the event's.
    fn expect(&self, table: &'static str, revision: Option<Revision>) -> Result<()> {
        match revision {
            Some(revision) if revision == self.revision => Ok(()),
            _ => Err(Error::corrupt(table, "its row does not name this revision")),
        }
    }

    /// True for the time of the event.
    fn is_now(&self, time: Option<i64>) -> bool {
        time == Some(self.time)
    }

    fn run(&mut self, epoch: Epoch) -> Result<Row> {
        let row = self.reader.one(engine::query(RUN).bind(self.key).bind(epoch))?;
        row.ok_or_else(|| Error::corrupt("run", "the run is gone"))
    }

    fn run_started(&mut self, epoch: Epoch, digest: &mut Digest) -> Result<()> {
        let row = self.run(epoch)?;
        self.expect("run", row.get(3)?)?;
        let id: &[u8] = row.get(0)?;
        let actor: &str = row.get(1)?;
        chain::run(digest, id, epoch, actor, Timestamp(row.get(2)?));
        Ok(())
    }

    fn run_ended(&mut self, epoch: Epoch, reason: RunEndReason, failure: &str) -> Result<()> {
        let row = self.run(epoch)?;
        self.expect("run", row.get(6)?)?;
        let stored: Option<i32> = row.get(5)?;
        if stored != Some(reason.number()) || row.get::<&str>(7)? != failure || !self.is_now(row.get(8)?) {
            return Err(Error::corrupt("run", "its row has another end than its event"));
        }
        Ok(())
    }

    fn prompt(&mut self, id: PromptId) -> Result<Row> {
        let row = self.reader.one(engine::query(PROMPT).bind(self.key).bind(id.0.as_bytes().as_slice()))?;
        row.ok_or_else(|| Error::corrupt("prompt", "the prompt is gone"))
    }

    fn prompt_submitted(&mut self, id: PromptId, delivery: Delivery, digest: &mut Digest) -> Result<()> {
        let row = self.prompt(id)?;
        self.expect("prompt", row.get(6)?)?;
        if row.get::<i32>(1)? != delivery.number() {
            return Err(Error::corrupt("prompt", "its row has another delivery than its event"));
        }
        let metadata_json: Option<String> = row.get(3)?;
        let actor: &str = row.get(2)?;
        let columns = chain::PromptColumns {
            public_id: row.get(0)?,
            delivery: row.get(1)?,
            actor,
            metadata_json: metadata_json.as_deref(),
            create_time: Timestamp(row.get(4)?),
        };
        chain::prompt(digest, &columns);
        let parts = messages::whole(prompts::stored_parts(&row)?, self.revision);
        for (position, numbered) in (0..).zip(parts) {
            part(self.reader, digest, (self.key, id.message(), position), numbered)?;
        }
        Ok(())
    }

    fn prompt_ended(&mut self, id: PromptId, epoch: Option<Epoch>) -> Result<()> {
        let row = self.prompt(id)?;
        self.expect("prompt", row.get(8)?)?;
        if row.get::<Option<Epoch>>(7)? != epoch {
            return Err(Error::corrupt("prompt", "its row has another end than its event"));
        }
        Ok(())
    }

    fn approval(&mut self, id: ApprovalId) -> Result<Row> {
        let row = self.reader.one(engine::query(APPROVAL).bind(self.key).bind(id.0.as_bytes().as_slice()))?;
        row.ok_or_else(|| Error::corrupt("approval", "the approval is gone"))
    }

    fn approval_requested(&mut self, id: ApprovalId, epoch: Option<Epoch>, digest: &mut Digest) -> Result<()> {
        let row = self.approval(id)?;
        self.expect("approval", row.get(5)?)?;
        if row.get::<Option<Epoch>>(6)? != epoch {
            return Err(Error::corrupt("approval", "its row has another run than its event"));
        }
        let question = codec::without_check("approval", row.get(4)?)?;
        let commitment = codec::commitment(row.get(3)?, question);
        let actor: &str = row.get(1)?;
        chain::approval(digest, row.get(0)?, actor, Timestamp(row.get(2)?), &commitment);
        Ok(())
    }

    fn approval_ended(&mut self, id: ApprovalId, reason: ApprovalEndReason, digest: &mut Digest) -> Result<()> {
        let row = self.approval(id)?;
        self.expect("approval", row.get(8)?)?;
        let stored: Option<i32> = row.get(7)?;
        let actor = row.get::<Option<&str>>(9)?.unwrap_or_default();
        if stored != Some(reason.number()) || actor != self.actor || !self.is_now(row.get(12)?) {
            return Err(Error::corrupt("approval", "its row has another end than its event"));
        }
        let answer = codec::without_check("approval", row.get(11)?)?;
        chain::answer(digest, row.get(0)?, &codec::commitment(row.get(10)?, answer));
        Ok(())
    }
}
