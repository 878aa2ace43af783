//! The rows of views, read in one snapshot.

use super::ancestry::{self, Ancestry};
use super::head::{PendingWork, SessionKey};
use super::policies::PolicyText;
use super::recent::Newest;
use super::{jobs, layouts, marks, messages, policies, windows};
use crate::engine;
use crate::engine::Reader;
use crate::error::Result;
use crate::limits;
use crate::model::Revision;
use crate::model::ids::SessionId;
use crate::model::layout::{Layout, Placement, Span};
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;

// The plus keeps SQLite from scanning the session in the order of revisions instead of reading the few open messages.
const FIRST_OPEN: &str = "select min(+revision) from message where session_id = ?1 and sealed_revision is null";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[FIRST_OPEN];

/// The rows of a session that a view needs, read in one snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// The session.
    pub session: SessionKey,
    /// Its id.
    pub id: SessionId,
    /// The revision that was read.
    pub at: Revision,
    /// The layout that is active at that revision.
    pub layout: Layout,
    /// The policy that is active at that revision.
    pub policy: PolicyText,
    /// The session's model window that is active at that revision.
    pub window: ModelWindow,
    /// The newest mark, policy or window up to the revision that was read.
    pub changed_revision: Revision,
    /// The first of the session's own messages that is open now; none if all are sealed.
    pub first_open: Option<Revision>,
    /// Pending changes of the newest view.
    pub pending: PendingWork,
    /// Growth of the session's history at its newest revision, as `PartBody::growth_bytes` counts it.
    pub appended_bytes: i64,
    /// The messages of the layout, in its order.
    pub messages: Vec<SourceMessage>,
}

/// The messages since a source that the caller holds. They replace all its messages from `from` on.
#[derive(Debug)]
pub struct NewMessages {
    /// The first revision that is replaced.
    pub from: Revision,
    /// The state of the session after them.
    pub newest: Newest,
    /// The messages from that revision on.
    pub messages: Vec<SourceMessage>,
}

/// The rows of a view at a revision; none for the newest. Fails if the messages have more than `bytes_max` bytes.
pub(crate) fn at(
    reader: &mut Reader<'_>,
    session: SessionKey,
    at: Option<Revision>,
    bytes_max: usize,
) -> Result<Source> {
    let ancestry = ancestry::by_key(reader, session.0)?;
    let at = at.unwrap_or(ancestry.revision);
    ancestry.check(at)?;
    let source = frame(reader, &ancestry, at)?;
    let messages = messages::sources(reader, &ancestry, &source.layout, at, bytes_max)?;
    Ok(Source { messages, ..source })
}

/// The messages since a source of a session's newest revision; none if the view has other changes as well.
pub(crate) fn newer(reader: &mut Reader<'_>, known: &Source, bytes_max: usize) -> Result<Option<NewMessages>> {
    let ancestry = ancestry::by_key(reader, known.session.0)?;
    let source = frame(reader, &ancestry, ancestry.revision)?;
    let Some(from) = continues_from(known, &source, &ancestry) else { return Ok(None) };
    let behind = Layout { spans: vec![Span::Inline { first: from, last: None }], ..source.layout.clone() };
    let messages = messages::sources(reader, &ancestry, &behind, source.at, bytes_max)?;
    let Source { at, first_open, pending, appended_bytes, .. } = source;
    Ok(Some(NewMessages { from, newest: Newest { at, first_open, pending, appended_bytes }, messages }))
}

/// The messages of the newest view from a position on, and its revision.
pub(crate) fn behind(
    reader: &mut Reader<'_>,
    session: SessionKey,
    from: Revision,
) -> Result<(Vec<SourceMessage>, Revision)> {
    let ancestry = ancestry::by_key(reader, session.0)?;
    let at = ancestry.revision;
    let layout = layouts::at(reader, &ancestry, at)?;
    let is_behind = |span: &Span| match span {
        Span::Inline { first, last } if last.is_none_or(|last| last >= from) => {
            Some(Span::Inline { first: from.max(*first), last: *last })
        }
        Span::Placed { placement: Placement::Edit(target), .. } if *target >= from => Some(span.clone()),
        Span::Inline { .. } | Span::Placed { .. } => None,
    };
    let behind = Layout { spans: layout.spans.iter().filter_map(is_behind).collect(), ..layout };
    Ok((messages::sources(reader, &ancestry, &behind, at, limits::VIEW_BYTES_MAX)?, at))
}

/// A source without its messages.
fn frame(reader: &mut Reader<'_>, ancestry: &Ancestry, at: Revision) -> Result<Source> {
    let row = reader.one(engine::query(FIRST_OPEN).bind(ancestry.key))?;
    let (pending, _, appended_bytes) = jobs::pending(reader, ancestry.key)?;
    Ok(Source {
        session: SessionKey(ancestry.key),
        id: ancestry::public_id(reader.conn, ancestry.key)?,
        at,
        layout: layouts::at(reader, ancestry, at)?,
        policy: policies::policy_in(reader, ancestry, at)?,
        window: windows::window_in(reader, ancestry, at)?,
        changed_revision: marks::changed_revision(reader, ancestry, at)?,
        first_open: row.map(|row| row.get(0)).transpose()?.flatten(),
        pending,
        appended_bytes,
        messages: Vec::new(),
    })
}

/// The revision from which a newer source differs from a known one, if only messages of the newest range are new:
/// everything before it was sealed when the known one was read, and has not changed.
fn continues_from(known: &Source, newer: &Source, ancestry: &Ancestry) -> Option<Revision> {
    let from = known.first_open.unwrap_or(known.at + 1).min(known.at + 1);
    let is_same = known.changed_revision == newer.changed_revision && known.layout == newer.layout;
    let is_own = ancestry.fork_revision.is_none_or(|fork| from > fork);
    (is_same && is_own && is_end(known, from)).then_some(from)
}

/// True if a view's newest range has all messages from a revision on, and the view shows none of them at another
/// position.
pub(crate) fn is_end(known: &Source, from: Revision) -> bool {
    let Some(Span::Inline { first, last: None }) = known.layout.spans.last() else { return false };
    let is_placed = |span: &Span| matches!(span, Span::Placed { revision, .. } if *revision >= from);
    from >= *first && !known.layout.spans.iter().any(is_placed)
}
