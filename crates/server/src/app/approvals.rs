//! Approvals for callers: questions of agents, and their answers.

use super::error::{Error, Result};
use super::nouns::Approvals;
use super::secrets::{ClientInput, ScreenedAnswer};
use super::{page_size, receipt_id, validate};
pub use crate::model::approval::{Answer, Approval, Choice, Question};
use crate::model::ids::ApprovalId;
use crate::store::{CheckedInput, Receipt, ScreenResult, SecretScreen};

fn approval_id(id: &str) -> Result<ApprovalId> {
    id.parse().map_err(|error| Error::field("approval_id", error))
}

impl ClientInput for Question {
    fn validate(&self) -> Result<()> {
        validate::question(self)
    }

    /// Names of its choices are texts for people.
    fn screen(&mut self, screen: &mut SecretScreen<'_>) -> ScreenResult {
        screen.text("question.text", &mut self.text)?;
        screen.optional_json("question.input_json", &mut self.input_json)?;
        self.choices.iter_mut().enumerate().try_for_each(|(index, choice)| {
            screen.text(format_args!("question.choices[{index}].label"), &mut choice.label)
        })
    }
}

/// An answer with what it answers.
struct SentAnswer {
    approval: Approval,
    answer: Answer,
}

impl ClientInput for SentAnswer {
    /// A question that has ended, or whose session is erased, is refused for that, whatever is answered: an erasure
    /// leaves it without its choices. One that waits never changes.
    fn validate(&self) -> Result<()> {
        match self.approval.end {
            None => validate::answer(&self.approval.question, &self.answer),
            Some(_) => Ok(()),
        }
    }

    fn screen(&mut self, screen: &mut SecretScreen<'_>) -> ScreenResult {
        screen.text("text", &mut self.answer.text)
    }
}

impl Approvals<'_> {
    /// Asks a question. Returns it as it is then: a request that is repeated finds the answer.
    pub async fn request(self, session: &str, question: Question) -> Result<ScreenedAnswer<(Approval, Receipt)>> {
        let question = self.caller.check(question)?;
        let findings = question.findings().clone();
        let key = self.caller.session_key(session).await?;
        let receipt = self.caller.store().runs().request_approval(key, self.caller.requester(), question).await?;
        let approval = self.caller.store().runs().approval(key, ApprovalId(receipt_id(&receipt)?)).await;
        Ok(ScreenedAnswer::new((Error::answer(approval)?, receipt), findings))
    }

    /// Answers a question, once. Returns it with the answer.
    pub async fn answer(self, session: &str, id: &str, answer: Answer) -> Result<ScreenedAnswer<(Approval, Receipt)>> {
        let id = approval_id(id)?;
        let key = self.caller.session_key(session).await?;
        let approval = self.caller.store().runs().approval(key, id).await?;
        let sent = self.caller.check(SentAnswer { approval, answer })?;
        let answer = sent.with(Some(sent.answer.clone()));
        let receipt = self.caller.store().runs().end_approval(key, self.caller.requester(), id, answer).await?;
        let approval = self.caller.store().runs().approval(key, id).await;
        Ok(ScreenedAnswer::new((Error::answer(approval)?, receipt), sent.into_parts().1))
    }

    /// Withdraws a question.
    pub async fn withdraw(self, session: &str, id: &str) -> Result<Receipt> {
        let id = approval_id(id)?;
        let key = self.caller.session_key(session).await?;
        Ok(self
            .caller
            .store()
            .runs()
            .end_approval(key, self.caller.requester(), id, CheckedInput::trusted(None))
            .await?)
    }

    /// An approval.
    pub async fn get(self, session: &str, id: &str) -> Result<Approval> {
        let id = approval_id(id)?;
        let key = self.caller.session_key(session).await?;
        Ok(self.caller.store().runs().approval(key, id).await?)
    }

    /// A page of a session's approvals, newest first, and the token of the next page.
    pub async fn list(self, session: &str, ended: bool, size: i64, token: &str) -> Result<(Vec<Approval>, String)> {
        let limit = page_size(size)?;
        let scope = format!("approvals {session} {ended}");
        let below = self.caller.page_start(token, &scope)?;
        let key = self.caller.session_key(session).await?;
        let (approvals, next) = self.caller.store().runs().approvals(key, below, limit, ended).await?;
        Ok((approvals, next.map(|next| self.caller.page_token(next, &scope)).unwrap_or_default()))
    }
}
