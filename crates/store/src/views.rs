//! The rows that views are made of, each set in one snapshot.

use super::error::Result;
use super::ledger::commits::CommitObserver;
use super::ledger::counts::{self, MessageCounts};
use super::ledger::head::{PendingWork, SessionKey};
use super::ledger::policies::PolicyText;
use super::ledger::renewed::{self, Renewed};
use super::ledger::sources::{self, NewMessages, Source};
use super::ledger::words::{self, SessionWords};
use super::ledger::{ancestry, jobs, position, sessions};
use super::shared::StoreParts;
use super::writer::Mutation;
use crate::limits;
use crate::model::Revision;
use crate::model::ids::MessageId;
use crate::model::layout::Layout;
use crate::model::mark::Words;
use crate::model::session::Session;
use crate::model::view::{Counts, SourceMessage};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The rows that views are made of, each set in one snapshot.
#[derive(Clone)]
pub struct Views(pub(super) Arc<StoreParts>);

impl Views {
    /// The rows of a view at a revision; none for the newest.
    pub async fn source(&self, session: SessionKey, at: Option<Revision>) -> Result<Source> {
        self.source_within(session, at, limits::VIEW_BYTES_MAX).await
    }

    /// The same, with a limit: fails if the messages have more than `bytes_max` bytes.
    pub async fn source_within(&self, session: SessionKey, at: Option<Revision>, bytes_max: usize) -> Result<Source> {
        self.0.snapshot(|reader| sources::at(reader, session, at, bytes_max)).await
    }

    /// A session with its policy, and the words of people beside its active summary.
    pub async fn session(&self, key: SessionKey) -> Result<(Session, PolicyText, SessionWords)> {
        self.0
            .snapshot(|reader| {
                let (session, policy) = sessions::with_policy(reader, key.0)?;
                let ancestry = ancestry::by_key(reader, key.0)?;
                Ok((session, policy, words::read(reader, &ancestry)?))
            })
            .await
    }

    /// The messages of a session's newest view from a position on, and its revision.
    pub async fn behind(&self, session: SessionKey, from: Revision) -> Result<(Vec<SourceMessage>, Revision)> {
        self.0.snapshot(|reader| sources::behind(reader, session, from)).await
    }

    /// What becomes of the words of a session's messages beside summaries, as clients decided.
    pub async fn words(&self, session: SessionKey) -> Result<Words> {
        self.0
            .snapshot(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                words::decided(reader, &ancestry)
            })
            .await
    }

    /// Tells an observer of each commit from now on, before the writer answers its callers.
    pub fn observe(&self, observer: Weak<dyn CommitObserver>) {
        self.0.commits.observe(observer);
    }

    /// True while a transaction with changes of a session is being committed: queries may see them, and no observer does.
    pub fn is_committing(&self, session: SessionKey) -> bool {
        self.0.commits.is_committing(session.0)
    }

    /// The pending work of a session, and its newest revision.
    pub async fn newest(&self, session: SessionKey) -> Result<(PendingWork, Revision)> {
        self.0.brief(|reader| jobs::pending(reader, session.0)).await
    }

    /// The messages since a source of a session's newest revision; none if the view has other changes as well, so that
    /// the source must be read again. Fails if the messages have more than `bytes_max` bytes.
    pub async fn newer_messages(&self, known: &Source, bytes_max: usize) -> Result<Option<NewMessages>> {
        self.0.snapshot(|reader| sources::newer(reader, known, bytes_max)).await
    }

    /// The newest source of a session of which an earlier one is known, whatever changed since; none if it must be read
    /// whole. Fails if the messages that are read have more than `bytes_max` bytes. Content that was erased meanwhile may be
    /// in it: whoever uses it sees that no commit up to its revision erased any.
    pub async fn renewed(&self, known: &Source, bytes_max: usize) -> Result<Option<Renewed>> {
        self.0.snapshot(|reader| renewed::renewed(reader, known, bytes_max)).await
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
        self.0.reading(|reader| counts::stored_counts(reader, counting, &messages)).await
    }

    /// Stores the counts of sealed messages.
    pub async fn keep_counts(&self, counts: Vec<(MessageId, MessageCounts)>) -> Result<()> {
        self.0.write(Mutation::derived("keep_counts", 0), move |tx| counts::keep(tx.conn, &counts)).await
    }
}
