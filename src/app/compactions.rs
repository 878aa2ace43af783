//! Reductions: asked for, brought along, listed, stopped, taken back.

use super::error::{Error, Reason, Result};
use super::{Longhand, check_caller, cursor, page_size, parse_policy, validate};
use crate::model::Revision;
use crate::model::compaction::{Compaction, CompactionKind, CompactionRequest, Trigger};
use crate::model::ids::CompactionId;
use crate::model::usage::Usage;
use crate::scheduler::plan;
use crate::store::{Caller, Condition, Evaluation, Receipt, SummaryCommit, SuppliedSummary};

/// A finished summary that a client brings along.
#[derive(Debug, Clone, Default)]
pub struct NewSummary {
    /// The summary.
    pub text: String,
    /// The first message kept verbatim; empty keeps nothing of what `until` ends.
    pub tail_start: String,
    /// The last message that stood before the summary; empty for the newest.
    pub until: String,
    /// Who wrote it.
    pub summarizer: String,
    /// What it cost.
    pub usage: Option<Usage>,
    /// Refuse when history, marks or policy changed after this revision.
    pub expected_revision: Option<Revision>,
}

fn from_receipt(receipt: &Receipt) -> Result<CompactionId> {
    let id = receipt.ids.first().ok_or_else(|| Error::internal("a receipt names no reduction"))?;
    Ok(CompactionId(*id))
}

impl Longhand {
    /// Asks for a reduction by hand; says whether it was there already.
    pub async fn start_compaction(
        &self,
        session: &str,
        kind: CompactionKind,
        instructions: String,
        caller: Caller,
    ) -> Result<(Compaction, bool)> {
        check_caller(&caller)?;
        validate::instructions(&instructions)?;
        let key = self.store().find_session(session).await?;
        let (info, _) = self.store().session(key).await?;
        let source = self.store().source(key, None).await?;
        let policy = parse_policy(&source.policy)?;
        let possible = match kind {
            CompactionKind::Prune => !plan::prune(&policy, &source.messages).is_empty(),
            CompactionKind::Summary => {
                plan::summary(&policy, &info.window, &source.layout, &source.messages, source.at).is_some()
            }
        };
        let request = CompactionRequest { kind, trigger: Trigger::Manual, instructions };
        let enqueued = self.store().enqueue(key, caller, request, info.window, Condition::Possible(possible)).await?;
        let enqueued = enqueued.ok_or_else(|| Error::internal("a request by hand was not taken"))?;
        self.shared.scheduler.wake();
        Ok((self.store().compaction(enqueued.compaction).await?, enqueued.joined))
    }

    /// Puts a finished summary in force.
    pub async fn supply_summary(
        &self,
        session: &str,
        new: NewSummary,
        caller: Caller,
    ) -> Result<(Compaction, Receipt)> {
        check_caller(&caller)?;
        validate::summary(&new.text)?;
        validate::name("summarizer", &new.summarizer)?;
        let key = self.store().find_session(session).await?;
        let source = self.store().source(key, None).await?;
        let policy = parse_policy(&source.policy)?;
        let until = match new.until.as_str() {
            "" => source.at,
            id => self.store().place_of(key, id).await?.1,
        };
        let (tail_start, tail_message) = match new.tail_start.as_str() {
            "" => (until + 1, None),
            id => {
                let (message, revision, _) = self.store().place_of(key, id).await?;
                (revision, Some(message))
            }
        };
        let boundary_is_safe = plan::boundary_is_safe(&source.messages, tail_start);
        let (covered, covered_count) = plan::supplied(&source.layout, &source.messages, tail_start);
        let before = plan::view(&policy, &source.messages);
        let after = plan::with_summary(&policy, &source.layout, &source.messages, tail_start, &new.text);
        let evaluation = Evaluation {
            at: source.at,
            appended_tokens: 0,
            view_tokens: plan::view(&policy, &after).estimated_tokens,
            output_tokens: plan::output_tokens(&policy, &after),
            held: false,
        };
        let summary = SummaryCommit {
            text: new.text,
            marker_text: plan::marker_text(&policy),
            tail_start,
            tail_message,
            covered,
            covered_count,
            summarizer: new.summarizer,
            usage: new.usage,
        };
        let supplied = SuppliedSummary {
            session: key,
            caller,
            expected_revision: new.expected_revision,
            summary,
            boundary_is_safe,
            until,
            evaluation,
            tokens_before: before.estimated_tokens,
        };
        let receipt = self.store().supply(supplied).await?;
        Ok((self.store().compaction(from_receipt(&receipt)?).await?, receipt))
    }

    /// A reduction by its id.
    pub async fn get_compaction(&self, id: &str) -> Result<Compaction> {
        Ok(self.store().compaction(compaction_id(id)?).await?)
    }

    /// A page of a session's reductions, newest first.
    pub async fn list_compactions(&self, session: &str, size: i64, token: &str) -> Result<(Vec<Compaction>, String)> {
        let limit = page_size(size)?;
        let scope = format!("compactions {session}");
        let below = cursor::page_start(token, &scope)?.unwrap_or(i64::MAX);
        let key = self.store().find_session(session).await?;
        let mut rows = self.store().compactions(key, below, limit + 1).await?;
        let more = rows.len() > usize::try_from(limit).unwrap_or(usize::MAX);
        if more {
            rows.pop();
        }
        let next = rows.last().filter(|_| more).map(|(row, _)| cursor::page_token(*row, &scope));
        Ok((rows.into_iter().map(|(_, compaction)| compaction).collect(), next.unwrap_or_default()))
    }

    /// Stops a reduction that waits or runs.
    pub async fn cancel_compaction(&self, id: &str, caller: Caller) -> Result<Compaction> {
        check_caller(&caller)?;
        let id = compaction_id(id)?;
        self.store().cancel(id, caller).await?;
        self.shared.scheduler.wake();
        Ok(self.store().compaction(id).await?)
    }

    /// Takes back the newest reduction in force.
    pub async fn undo_compaction(
        &self,
        session: &str,
        expected_revision: Option<Revision>,
        caller: Caller,
    ) -> Result<(Compaction, Receipt)> {
        check_caller(&caller)?;
        let key = self.store().find_session(session).await?;
        let receipt = self.store().undo(key, caller, expected_revision).await?;
        Ok((self.store().compaction(from_receipt(&receipt)?).await?, receipt))
    }
}

/// Reads a reduction's id.
fn compaction_id(text: &str) -> Result<CompactionId> {
    text.parse().map_err(|error| {
        Error::new(Reason::CompactionNotFound, format!("there is no compaction {text}: {error}"))
            .with("compaction_id", text)
    })
}
