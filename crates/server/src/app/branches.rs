//! Rewinds that keep a summary of the branch that they leave out.

use super::append::RewindTo;
use super::branch_request_log::BranchRequestLog;
use super::error::{Error, Reason, Result};
use super::nouns::Messages;
use super::secrets::{InputText, ScreenedAnswer};
use super::validate;
use crate::clock::fresh_message_id;
use crate::limits;
use crate::model::Revision;
use crate::model::mark::Words;
use crate::policy::branch::{self, BranchRules};
use crate::policy::summary::{SummaryInput, SummaryOutput};
use crate::scheduler::RequestLog;
use crate::store::{self, BranchSummary, Receipt, SessionKey};
use crate::summarizer::{Extractive, Summarizer as _};
use std::time::Duration;
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

impl<'a> Messages<'a> {
    /// Leaves everything after a message out of the conversation, or everything, and records a summary of the view of
    /// that branch after the rewind. The receipt's id is that of the summary; there is none if
    /// there was nothing to summarize.
    ///
    /// The summary is written first, with nothing changed: a caller that gives up meanwhile has changed nothing. If
    /// history changed meanwhile, the rewind is refused.
    pub async fn rewind_with_summary(
        self,
        session: &str,
        to: impl Into<RewindTo<'_>>,
        instructions: &str,
        expected_revision: Option<Revision>,
    ) -> Result<ScreenedAnswer<Receipt>> {
        let (field, text) = ("branch_summary.instructions", instructions.to_owned());
        let sent = self.caller.check(InputText { field, text, check: validate::instructions })?;
        let findings = sent.findings().clone();
        let message = to.into().message()?;
        let key = self.caller.session_key(session).await?;
        if let Some(receipt) = self.caller.store().sessions().kept_answer(key, &self.caller.requester).await? {
            return Ok(ScreenedAnswer::new(receipt, findings));
        }
        let after = match message {
            None => 0,
            Some(message) => self.caller.store().history().position(key, message).await?.last,
        };
        let deadline = Instant::now() + Duration::from_millis(limits::BRANCH_SUMMARY_MS_MAX);
        let _slot = self.branch_slot(deadline).await?;
        let (source, held) = self.caller.views().reserved_source(key, None).await?;
        let policy = self.caller.parse_policy(&source.policy)?;
        let Some(rules) = branch::rules(&policy) else {
            return Err(Error::field("branch_summary", "cannot be made: the session's policy writes no summaries"));
        };
        let (known, _) = self.caller.store().sessions().get(key).await?;
        let left =
            branch::left_messages(&source.messages, &self.caller.store().views().layout_behind(key, after).await?);
        let share = BranchRules::default();
        let budget = share.budget(&known.window);
        let plan = share.plan(&policy, budget, &left, branch::inherited(&left));
        let unchanged = Some(expected_revision.map_or(source.at, |expected| expected.min(source.at)));
        let message = message.map(ToOwned::to_owned);
        if plan.covered.is_empty() {
            let rewound =
                self.caller.store().history().rewind(key, self.caller.requester(), unchanged, message, sent.with(None));
            return Ok(ScreenedAnswer::new(rewound.await?, findings));
        }
        let input = SummaryInput {
            messages: plan.covered.iter().map(|&index| left[index].clone()).collect(),
            split_turn: Vec::new(),
            previous: None,
            previous_digest: None,
            words: Words::new(),
            previous_is_supplied: false,
            budget_tokens: rules.max_tokens,
            rules,
            counting: policy.counting.clone(),
            instructions: branch::instructions(&sent.text),
        };
        // The summary may take minutes, and needs only the input.
        drop((source, left));
        if let Some(held) = &held {
            held.resize(input.messages.iter().map(|source| store::message_bytes(&source.message)).sum());
        }
        let id = fresh_message_id();
        let request_log = BranchRequestLog::new(
            RequestLog::new(self.caller.shared.clock.clone(), 1),
            self.caller.store().clone(),
            key,
            id,
        );
        let output = self.summary_of_branch(key, &input, &request_log, deadline).await;
        // The request log is stored before the rewind, so that subscribers to it find the log, and also if the summary
        // failed.
        request_log.keep().await;
        let output = output?;
        let text = branch::text_of(&output.text, &plan.files);
        let summary = BranchSummary { id, text, summarizer: output.summarizer, usage: output.usage };
        let (history, summary) = (self.caller.store().history(), sent.with(Some(summary)));
        Ok(ScreenedAnswer::new(
            history.rewind(key, self.caller.requester(), unchanged, message, summary).await?,
            findings,
        ))
    }

    /// A permit to write a summary of a branch, of a limited number. The view is read only after it was granted.
    async fn branch_slot(self, deadline: Instant) -> Result<SemaphorePermit<'a>> {
        let slot = tokio::time::timeout_at(deadline, self.caller.shared.branches.acquire());
        let slot = self.caller.shared.unless_stopping(slot).await?;
        slot.ok().and_then(std::result::Result::ok).ok_or_else(|| {
            Error::new(Reason::TooManyRequests, "as many summaries of branches are being written as may be")
                .with("limit", limits::BRANCH_SUMMARIES_MAX)
        })
    }

    /// The summary, written by the ordinary summarizer, or by the built-in one if that fails or may not be asked.
    async fn summary_of_branch(
        self,
        key: SessionKey,
        input: &SummaryInput,
        request_log: &BranchRequestLog,
        deadline: Instant,
    ) -> Result<SummaryOutput> {
        let asking = async {
            // Over its tenant's quota, no model is asked.
            if !self.caller.store().sessions().may_ask_models(key, self.caller.shared.clock.now()).await? {
                return Extractive.summarize(input, request_log).await.map_err(Error::internal);
            }
            let summarizer = self.caller.shared.scheduler.summarizers().for_level(None);
            match tokio::time::timeout_at(deadline, summarizer.summarize(input, request_log)).await {
                Ok(Ok(output)) if !output.text.trim().is_empty() => return Ok(output),
                Ok(Ok(_)) => tracing::warn!("the summary of a branch is empty"),
                Ok(Err(error)) => tracing::warn!(%error, "the summary of a branch could not be written"),
                Err(_) => tracing::warn!("the summary of a branch took too long"),
            }
            Extractive.summarize(input, request_log).await.map_err(Error::internal)
        };
        self.caller.shared.unless_stopping(asking).await?
    }
}
