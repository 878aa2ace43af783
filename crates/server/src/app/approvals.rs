//! Approvals for callers: questions of agents, and their answers.

use super::error::{Error, Result};
use super::{Caller, page_size, receipt_id, validate};
pub use crate::model::approval::{Answer, Approval, Choice, Question};
use crate::model::ids::ApprovalId;
use crate::store::Receipt;

fn approval_id(id: &str) -> Result<ApprovalId> {
    id.parse().map_err(|error| Error::field("approval_id", error))
}

impl Caller {
    /// Asks a question. Returns it as it is then: a request that is repeated finds the answer.
    pub async fn request_approval(&self, session: &str, mut question: Question) -> Result<(Approval, Receipt)> {
        validate::question(&question)?;
        let mut screen = self.screen();
        screen.question(&mut question)?;
        if screen.has_changed {
            validate::question(&question)?;
        }
        let key = self.session_key(session).await?;
        let receipt = self.store().runs().request_approval(key, self.requester(), question).await?;
        let approval = self.store().runs().approval(key, ApprovalId(receipt_id(&receipt)?)).await;
        Ok((Error::answer(approval)?, receipt))
    }

    /// Answers a question, once. Returns it with the answer.
    pub async fn answer_approval(&self, session: &str, id: &str, mut answer: Answer) -> Result<(Approval, Receipt)> {
        let id = approval_id(id)?;
        let key = self.session_key(session).await?;
        let approval = self.store().runs().approval(key, id).await?;
        // One that has ended, or whose session is erased, is refused for that, whatever is answered: an erasure leaves it
        // without its choices. One that waits never changes.
        let check = |answer: &Answer| match approval.end {
            None => validate::answer(&approval.question, answer),
            Some(_) => Ok(()),
        };
        check(&answer)?;
        let mut screen = self.screen();
        screen.answer(&mut answer)?;
        if screen.has_changed {
            check(&answer)?;
        }
        let receipt = self.store().runs().end_approval(key, self.requester(), id, Some(answer)).await?;
        let approval = self.store().runs().approval(key, id).await;
        Ok((Error::answer(approval)?, receipt))
    }

    /// Withdraws a question.
    pub async fn withdraw_approval(&self, session: &str, id: &str) -> Result<Receipt> {
        let id = approval_id(id)?;
        let key = self.session_key(session).await?;
        Ok(self.store().runs().end_approval(key, self.requester(), id, None).await?)
    }

    /// An approval.
    pub async fn get_approval(&self, session: &str, id: &str) -> Result<Approval> {
        let id = approval_id(id)?;
        let key = self.session_key(session).await?;
        Ok(self.store().runs().approval(key, id).await?)
    }

    /// A page of a session's approvals, newest first, and the token of the next page.
    pub async fn list_approvals(
        &self,
        session: &str,
        ended: bool,
        size: i64,
        token: &str,
    ) -> Result<(Vec<Approval>, String)> {
        let limit = page_size(size)?;
        let scope = format!("approvals {session} {ended}");
        let below = self.page_start(token, &scope)?;
        let key = self.session_key(session).await?;
        let (approvals, next) = self.store().runs().approvals(key, below, limit, ended).await?;
        Ok((approvals, next.map(|next| self.page_token(next, &scope)).unwrap_or_default()))
    }
}
