//! Approvals for callers: questions of agents, and their answers.

use super::error::{Error, Result};
use super::nouns::Approvals;
use super::{page_size, receipt_id, validate};
pub use crate::model::approval::{Answer, Approval, Choice, Question};
use crate::model::ids::ApprovalId;
use crate::store::Receipt;

fn approval_id(id: &str) -> Result<ApprovalId> {
    id.parse().map_err(|error| Error::field("approval_id", error))
}

impl Approvals<'_> {
    /// Asks a question. Returns it as it is then: a request that is repeated finds the answer.
    pub async fn request(self, session: &str, mut question: Question) -> Result<(Approval, Receipt)> {
        validate::question(&question)?;
        let mut screen = self.caller.screen();
        screen.question(&mut question)?;
        if screen.has_changed {
            validate::question(&question)?;
        }
        let key = self.caller.session_key(session).await?;
        let receipt = self.caller.store().runs().request_approval(key, self.caller.requester(), question).await?;
        let approval = self.caller.store().runs().approval(key, ApprovalId(receipt_id(&receipt)?)).await;
        Ok((Error::answer(approval)?, receipt))
    }

    /// Answers a question, once. Returns it with the answer.
    pub async fn answer(self, session: &str, id: &str, mut answer: Answer) -> Result<(Approval, Receipt)> {
        let id = approval_id(id)?;
        let key = self.caller.session_key(session).await?;
        let approval = self.caller.store().runs().approval(key, id).await?;
        // One that has ended, or whose session is erased, is refused for that, whatever is answered: an erasure leaves it
        // without its choices. One that waits never changes.
        let check = |answer: &Answer| match approval.end {
            None => validate::answer(&approval.question, answer),
            Some(_) => Ok(()),
        };
        check(&answer)?;
        let mut screen = self.caller.screen();
        screen.answer(&mut answer)?;
        if screen.has_changed {
            check(&answer)?;
        }
        let receipt = self.caller.store().runs().end_approval(key, self.caller.requester(), id, Some(answer)).await?;
        let approval = self.caller.store().runs().approval(key, id).await;
        Ok((Error::answer(approval)?, receipt))
    }

    /// Withdraws a question.
    pub async fn withdraw(self, session: &str, id: &str) -> Result<Receipt> {
        let id = approval_id(id)?;
        let key = self.caller.session_key(session).await?;
        Ok(self.caller.store().runs().end_approval(key, self.caller.requester(), id, None).await?)
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
