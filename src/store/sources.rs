//! The rows of views, read in one snapshot.

use super::error::Result;
use super::lineage::{self, Lineage, Reader};
use super::{Newest, Pending, PolicyText, SessionKey, Store, jobs, layouts, marks, messages, sessions, windows};
use crate::limits;
use crate::model::Revision;
use crate::model::ids::SessionId;
use crate::model::layout::{Layout, Span};
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;
use sqlx::Row as _;

// The plus keeps SQLite from walking the session in the order of revisions instead of reading the few open ones.
const FIRST_OPEN: &str = "select min(+revision) from message where session_id = $1 and sealed_revision is null";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[FIRST_OPEN];

/// A session as a view needs it, read in one snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// The session.
    pub session: SessionKey,
    /// Its id.
    pub id: SessionId,
    /// The revision that was read.
    pub at: Revision,
    /// The layout that is active there.
    pub layout: Layout,
    /// The policy that is active there.
    pub policy: PolicyText,
    /// The session's model window that is active there.
    pub window: ModelWindow,
    /// The newest mark, policy or window up to the revision that was read.
    pub changed_revision: Revision,
    /// The first message of the session's own that is open now; none where all are sealed.
    pub first_open: Option<Revision>,
    /// Pending changes of the newest view.
    pub pending: Pending,
    /// Growth of the session's history at its newest revision, as `PartBody::growth_bytes` counts it.
    pub appended_bytes: i64,
    /// The messages of the layout, in its order.
    pub messages: Vec<SourceMessage>,
}

/// The changes behind a source that somebody holds.
#[derive(Debug)]
pub enum News {
    /// None. Something else may be pending.
    Nothing(Pending),
    /// Messages alone: these take the place of all that stand at `from` or behind it.
    Messages {
        /// The first revision that is replaced.
        from: Revision,
        /// The state of the session behind them.
        newest: Newest,
        /// The messages from there on.
        messages: Vec<SourceMessage>,
    },
    /// Something else as well: the source is to be read anew.
    Changed,
}

impl Store {
    /// The rows of a view at a revision; none for the newest.
    pub async fn source(&self, session: SessionKey, at: Option<Revision>) -> Result<Source> {
        self.source_within(session, at, limits::VIEW_BYTES_MAX).await
    }

    /// The same. Fails where the messages hold more bytes than these.
    pub async fn source_within(&self, session: SessionKey, at: Option<Revision>, bytes_max: usize) -> Result<Source> {
        self.snapshot(async |reader| {
            let lineage = lineage::by_key(reader, session.0).await?;
            let at = at.unwrap_or(lineage.revision);
            lineage.check(at)?;
            let source = frame(reader, &lineage, at).await?;
            let messages = messages::sources(reader, &lineage, &source.layout, at, bytes_max).await?;
            Ok(Source { messages, ..source })
        })
        .await
    }

    /// The changes behind a source of a session's newest revision: up to `at_least`, the revision of a commit that the
    /// caller has seen, or all. Fails where new messages hold more bytes than these.
    pub async fn news(&self, known: &Source, at_least: Option<Revision>, bytes_max: usize) -> Result<News> {
        let key = known.session.0;
        if let Some((newest, messages)) = self.shared.recent.since(key, known.at, at_least) {
            if newest.at == known.at {
                return Ok(News::Nothing(newest.pending));
            }
            let from = known.at + 1;
            if open_end(known) == Some(from) {
                return Ok(News::Messages { from, newest, messages });
            }
        }
        let (pending, newest, _) = self.reading(async |reader| jobs::pending(reader, key).await).await?;
        if newest == known.at {
            return Ok(News::Nothing(pending));
        }
        self.snapshot(async |reader| {
            let lineage = lineage::by_key(reader, key).await?;
            let source = frame(reader, &lineage, lineage.revision).await?;
            let Some(from) = goes_on_from(known, &source, &lineage) else { return Ok(News::Changed) };
            let behind = Layout { spans: vec![Span::Inline { first: from, last: None }], ..source.layout.clone() };
            let messages = messages::sources(reader, &lineage, &behind, source.at, bytes_max).await?;
            let Source { at, first_open, pending, appended_bytes, .. } = source;
            Ok(News::Messages { from, newest: Newest { at, first_open, pending, appended_bytes }, messages })
        })
        .await
    }
}

/// A source without its messages.
async fn frame(reader: &mut Reader<'_>, lineage: &Lineage, at: Revision) -> Result<Source> {
    let row = reader.one(sqlx::query(FIRST_OPEN).bind(lineage.key)).await?;
    let (pending, _, appended_bytes) = jobs::pending(reader, lineage.key).await?;
    Ok(Source {
        session: lineage.session(),
        id: lineage::public_id(reader.conn, lineage.key).await?,
        at,
        layout: layouts::at(reader, lineage, at).await?,
        policy: sessions::policy_in(reader, lineage, at).await?,
        window: windows::window_in(reader, lineage, at).await?,
        changed_revision: marks::changed_revision(reader, lineage, at).await?,
        first_open: row.map(|row| row.try_get(0)).transpose()?.flatten(),
        pending,
        appended_bytes,
        messages: Vec::new(),
    })
}

/// From where on a newer source differs from a known one, if messages of the newest range are all that is new: everything
/// in front of it was sealed when the known one was read, and stands as it stood.
fn goes_on_from(known: &Source, newer: &Source, lineage: &Lineage) -> Option<Revision> {
    let is_same = known.changed_revision == newer.changed_revision && known.layout == newer.layout;
    let is_own = |from: &Revision| lineage.fork_revision.is_none_or(|fork| *from > fork);
    open_end(known).filter(|from| is_same && is_own(from))
}

/// The first revision of a view's newest range from which on messages may change or join, where nothing of it stands
/// elsewhere.
fn open_end(known: &Source) -> Option<Revision> {
    let Some(Span::Inline { first, last: None }) = known.layout.spans.last() else { return None };
    let from = known.first_open.unwrap_or(known.at + 1).min(known.at + 1);
    let is_placed = |span: &Span| matches!(span, Span::Placed { revision, .. } if *revision >= from);
    (from >= *first && !known.layout.spans.iter().any(is_placed)).then_some(from)
}
