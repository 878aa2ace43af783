//! The rows that views are made of, each set in one snapshot.

use super::error::Result;
use super::ledger::counts::{self, Counted};
use super::ledger::head::{Pending, SessionKey};
use super::ledger::sources::{self, NewMessages, Source};
use super::ledger::{ancestry, jobs, layouts, messages, position};
use super::shared::Shared;
use super::writer::Mutation;
use crate::limits;
use crate::model::Revision;
use crate::model::ids::MessageId;
use crate::model::layout::Layout;
use crate::model::message::Message;
use crate::model::view::Counts;
use std::collections::HashMap;
use std::sync::Arc;

/// The rows that views are made of, each set in one snapshot.
#[derive(Clone)]
pub struct Views(pub(super) Arc<Shared>);

impl Views {
    /// The rows of a view at a revision; none for the newest.
    pub async fn source(&self, session: SessionKey, at: Option<Revision>) -> Result<Source> {
        self.source_within(session, at, limits::VIEW_BYTES_MAX).await
    }

    /// The same, with a limit: fails if the messages have more than `bytes_max` bytes.
    pub async fn source_within(&self, session: SessionKey, at: Option<Revision>, bytes_max: usize) -> Result<Source> {
        self.0.snapshot(|reader| sources::at(reader, session, at, bytes_max)).await
    }

    /// The active summary of a session.
    pub async fn summary(&self, session: SessionKey) -> Result<Option<Message>> {
        self.0
            .snapshot(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                let Some(covered) = layouts::at(reader, &ancestry, ancestry.revision)?.covered else { return Ok(None) };
                let id = messages::id_at(reader, &ancestry, covered.summary)?;
                messages::get(reader, &ancestry, &id.to_string()).map(Some)
            })
            .await
    }

    /// The messages since a source of a session's newest revision, from the writer's memory of its newest commits: up to
    /// `at_least`, the revision of a commit that the caller has seen, or all. None if they must be read.
    pub fn recent_messages(&self, known: &Source, at_least: Option<Revision>) -> Option<NewMessages> {
        let from = known.at + 1;
        let (newest, messages) = self.0.recent.since(known.session.0, known.at, at_least)?;
        // A message that was open stays as it is: any change of it would not be in that memory.
        (newest.at == known.at || sources::is_end(known, from)).then_some(NewMessages { from, newest, messages })
    }

    /// The pending work of a session, and its newest revision.
    pub async fn newest(&self, session: SessionKey) -> Result<(Pending, Revision)> {
        let (pending, newest, _) = self.0.brief(|reader| jobs::pending(reader, session.0)).await?;
        Ok((pending, newest))
    }

    /// The messages since a source of a session's newest revision; none if the view has other changes as well, so that
    /// the source must be read again. Fails if the messages have more than `bytes_max` bytes.
    pub async fn newer_messages(&self, known: &Source, bytes_max: usize) -> Result<Option<NewMessages>> {
        self.0.snapshot(|reader| sources::newer(reader, known, bytes_max)).await
    }

    /// The layout of a history after a rewind to a position.
    pub async fn layout_behind(&self, session: SessionKey, after: Revision) -> Result<Layout> {
        self.0
            .reading(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                position::layout_after(reader, &ancestry, after)
            })
            .await
    }

    /// The stored counts of these messages, by the name of a counting.
    pub async fn counts(&self, counting: &str, messages: Vec<MessageId>) -> Result<HashMap<MessageId, Counts>> {
        self.0.reading(|reader| counts::kept(reader, counting, &messages)).await
    }

    /// Stores the counts of sealed messages.
    pub async fn keep_counts(&self, counts: Vec<(MessageId, Counted)>) -> Result<()> {
        self.0.write(Mutation::derived("keep_counts", 0), move |tx| counts::keep(tx.conn, &counts)).await
    }
}
