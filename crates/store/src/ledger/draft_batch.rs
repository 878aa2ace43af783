//! Text for several drafts of a message in one write, as a stream of it comes.

use super::drafts::{AppendDraft, DraftMessage, DraftReceipt, NewDraftText};
use super::head::SessionKey;
use super::tx::Tx;
use crate::error::{Error, Result};
use crate::model::ids::MessageId;
use crate::model::run::Epoch;

/// Adds text to drafts, one after the other, up to the first text that is refused.
#[derive(Clone)]
pub(crate) struct AppendDrafts {
    pub(crate) session: SessionKey,
    pub(crate) message: MessageId,
    /// The run on whose behalf it is.
    pub(crate) epoch: Option<Epoch>,
    pub(crate) words: Vec<NewDraftText>,
}

/// What became of texts for drafts.
#[derive(Debug)]
pub struct DraftsWritten {
    /// A receipt for each text before the one that was refused.
    pub receipts: Vec<DraftReceipt>,
    /// The reason why the next text was refused; none if there is none.
    pub refusal: Option<Error>,
}

impl AppendDrafts {
    /// Bytes of content, for the queue of the writer.
    pub(crate) fn bytes(&self) -> usize {
        self.words.iter().map(|words| words.delta.len()).sum()
    }

    /// Validates and writes text by text.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<DraftsWritten> {
        let Self { session, message, epoch, .. } = *self;
        let mut written = DraftsWritten { receipts: Vec::with_capacity(self.words.len()), refusal: None };
        let mut stored = DraftMessage::default();
        for words in &self.words {
            let words = words.clone();
            match (AppendDraft { session, message, epoch, words, resumes: true }).apply(tx, &mut stored) {
                Ok(receipt) => written.receipts.push(receipt),
                Err(error) if error.is_of_database() => return Err(error),
                Err(refusal) => {
                    written.refusal = Some(refusal);
                    break;
                }
            }
        }
        Ok(written)
    }
}
