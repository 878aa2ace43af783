//! Undo and redo of the newest change of the view.

use super::error::{Error, Result};
use super::nouns::Compactions;
use crate::model::Revision;
use crate::model::compaction::Compaction;
use crate::model::event::{EventBody, Rewrite};
use crate::store::{Receipt, SessionKey};

/// A change that was undone or redone.
#[derive(Debug, Clone, PartialEq)]
pub enum ReversedChange {
    /// A prune, a compaction or an omission.
    Compaction(Box<Compaction>),
    /// A rewind or an edit.
    Rewrite(Rewrite),
}

impl Compactions<'_> {
    /// Undoes the newest active compaction, rewind, edit or mark of words. Later messages follow the view of before. Automatic
    /// compactions wait until the next user message, or until every undone change is redone; the compaction for a
    /// reported overflow does not wait.
    pub async fn undo(self, session: &str, expected_revision: Option<Revision>) -> Result<(ReversedChange, Receipt)> {
        let key = self.caller.session_key(session).await?;
        let receipt = self.caller.store().history().undo(key, self.caller.requester(), expected_revision).await?;
        Ok((Error::answer(self.reversed_change(key, receipt.revision).await)?, receipt))
    }

    /// Redoes the change that was undone last, unless a compaction, rewind or edit came since.
    pub async fn redo(self, session: &str, expected_revision: Option<Revision>) -> Result<(ReversedChange, Receipt)> {
        let key = self.caller.session_key(session).await?;
        let receipt = self.caller.store().history().redo(key, self.caller.requester(), expected_revision).await?;
        Ok((Error::answer(self.reversed_change(key, receipt.revision).await)?, receipt))
    }

    /// The change that an undo or a redo is about, as it was then: a repeated request gets the first answer, whatever
    /// was undone or redone since.
    async fn reversed_change(self, key: SessionKey, at: Revision) -> Result<ReversedChange> {
        let event = self.caller.store().log().event_at(key, at).await?;
        match event.map(|event| event.body) {
            Some(EventBody::CompactionUndone { compaction }) => {
                let compaction = self.caller.store().compactions().get(compaction).await?;
                Ok(ReversedChange::Compaction(Box::new(Compaction { undone_revision: Some(at), ..compaction })))
            }
            Some(EventBody::CompactionRedone { compaction }) => {
                let compaction = self.caller.store().compactions().get(compaction).await?;
                Ok(ReversedChange::Compaction(Box::new(Compaction { undone_revision: None, ..compaction })))
            }
            Some(EventBody::RewriteUndone(rewrite) | EventBody::RewriteRedone(rewrite)) => {
                Ok(ReversedChange::Rewrite(rewrite))
            }
            other => Err(Error::internal(format_args!("{other:?} is neither an undo nor a redo"))),
        }
    }
}
