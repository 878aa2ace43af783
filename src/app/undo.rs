//! Undo and redo: the newest change of what a view shows, taken back and brought back.

use super::error::{Error, Result};
use super::{Longhand, check_caller};
use crate::model::Revision;
use crate::model::compaction::Compaction;
use crate::model::event::{EventBody, Rewrite};
use crate::store::{Caller, Receipt, SessionKey};

/// What was taken back or brought back.
#[derive(Debug, Clone, PartialEq)]
pub enum Reversed {
    /// A prune, a compaction or an omission.
    Reduction(Box<Compaction>),
    /// A rewind or an edit.
    Rewrite(Rewrite),
}

impl Longhand {
    /// Takes back the newest reduction, rewind or edit in force. Messages that came since follow the view as it was
    /// before; automatic reductions wait until the next user message, or until somebody waits for a view that does not
    /// fit.
    pub async fn undo(
        &self,
        session: &str,
        expected_revision: Option<Revision>,
        caller: Caller,
    ) -> Result<(Reversed, Receipt)> {
        check_caller(&caller)?;
        let key = self.store().find_session(session).await?;
        let receipt = self.store().undo(key, caller, expected_revision).await?;
        Ok((Error::answer(self.reversed(key, receipt.revision).await)?, receipt))
    }

    /// Brings back what was taken back last, unless a reduction, rewind or edit came since.
    pub async fn redo(
        &self,
        session: &str,
        expected_revision: Option<Revision>,
        caller: Caller,
    ) -> Result<(Reversed, Receipt)> {
        check_caller(&caller)?;
        let key = self.store().find_session(session).await?;
        let receipt = self.store().redo(key, caller, expected_revision).await?;
        Ok((Error::answer(self.reversed(key, receipt.revision).await)?, receipt))
    }

    /// What the event of an undo or a redo is about, as it stood then: a repeated request is answered as the first one
    /// was, whatever was taken back or brought back since.
    async fn reversed(&self, key: SessionKey, at: Revision) -> Result<Reversed> {
        let event = self.store().event_at(key, at).await?;
        match event.map(|event| event.body) {
            Some(EventBody::CompactionUndone { compaction }) => {
                let compaction = self.store().compaction(compaction).await?;
                Ok(Reversed::Reduction(Box::new(Compaction { undone_revision: Some(at), ..compaction })))
            }
            Some(EventBody::CompactionRedone { compaction }) => {
                let compaction = self.store().compaction(compaction).await?;
                Ok(Reversed::Reduction(Box::new(Compaction { undone_revision: None, ..compaction })))
            }
            Some(EventBody::RewriteUndone(rewrite) | EventBody::RewriteRedone(rewrite)) => {
                Ok(Reversed::Rewrite(rewrite))
            }
            other => Err(Error::internal(format_args!("{other:?} is neither an undo nor a redo"))),
        }
    }
}
