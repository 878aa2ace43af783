//! The index of words that a compaction hid.

use super::error::Result;
use super::ledger::ancestry;
use super::ledger::head::SessionKey;
use super::ledger::search::{self, Lookup, UnindexedMessages};
use super::shared::StoreParts;
use super::writer::Mutation;
use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use std::sync::Arc;

/// The index of words that a compaction hid.
#[derive(Clone)]
pub struct Index(pub(super) Arc<StoreParts>);

impl Index {
    /// The next of a session's own messages that are not in the index; none if all are.
    pub async fn unindexed(&self, session: SessionKey) -> Result<Option<UnindexedMessages>> {
        self.0.snapshot(|reader| search::unindexed(reader, session.0)).await
    }

    /// Adds messages to the index, with the words of each; does nothing if they were indexed meanwhile.
    pub async fn add_words(&self, batch: UnindexedMessages, words: Vec<Vec<String>>) -> Result<()> {
        let add = search::AddWords::new(&batch, words);
        self.0.write(Mutation::derived("add_words", add.bytes()), move |tx| add.apply(tx)).await
    }

    /// The revision up to which a session's own messages are in the index.
    pub async fn indexed_to(&self, session: SessionKey) -> Result<Revision> {
        self.0.reading(|reader| search::progress(reader, session.0)).await
    }

    /// A page of the sessions with unindexed messages, by key.
    pub async fn behind(&self, after: SessionKey, limit: i64) -> Result<Vec<SessionKey>> {
        self.0.reading(|reader| search::behind(reader, after.0, limit)).await
    }

    /// The owners whose messages must be indexed, each with the revision up to which, before a history can be searched
    /// in these ranges for messages that were sealed by a revision. Only owners with unindexed messages are listed.
    pub async fn owners_to_index(
        &self,
        session: SessionKey,
        ranges: &[RevisionRange],
        sealed_by: Revision,
    ) -> Result<Vec<(SessionKey, Revision)>> {
        self.0
            .reading(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                search::owners(reader, &ancestry, ranges, sealed_by)
            })
            .await
    }

    /// For each word of a look-up, the messages of a history that contain it, newest first.
    pub async fn matches(&self, session: SessionKey, lookup: &Lookup) -> Result<Vec<Vec<Revision>>> {
        self.0
            .reading(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                search::matches(reader, &ancestry, lookup)
            })
            .await
    }
}
