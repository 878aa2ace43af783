//! The rows of views, read in one snapshot.

use super::ancestry::{self, Ancestry};
use super::codec;
use super::commits::Newest;
use super::head::{PendingWork, SessionKey};
use super::policies::PolicyText;
use super::{layouts, messages, policies};
use crate::engine;
use crate::engine::Reader;
use crate::error::{Error, Kind, Result};
use crate::limits;
use crate::model::Revision;
use crate::model::ids::{CompactionId, SessionId};
use crate::model::layout::{Layout, Placement, Span};
use crate::model::usage::ModelWindow;
use crate::model::view::SourceMessage;

// One statement each for what a session is now and for what is active at a revision: over a network, each is a round
// trip. The plus keeps SQLite from scanning the session in the order of revisions instead of reading the few open
// messages.
pub(crate) const NOW: &str = "select s.public_id, s.fork_revision, s.revision, s.due_revision is not null, s.appended_bytes, \
     (select j.public_id from job j where j.session_id = s.id and j.state in (1, 2) and j.queued = 0), \
     (select min(+m.revision) from message m where m.session_id = s.id and m.sealed_revision is null) \
     from session s where s.id = ?1";
// A pin counts as a change, because it brings back messages that a summary covers; what becomes of words (kind 8) does
// not, because the view stays the same.
const ACTIVE: &str = "select t.preset, t.json, t.hash, \
     (select w.body from \"window\" w where w.session_id = ?1 and w.revision <= ?2 order by w.revision desc limit 1), \
     (select l.revision from layout l where l.session_id = ?1 and l.revision <= ?3 order by l.revision desc limit 1), \
     (select l.body from layout l where l.session_id = ?1 and l.revision <= ?3 order by l.revision desc limit 1), \
     (select coalesce(max(newest.revision), 0) from (\
     select max(m.revision) as revision from mark m where m.session_id = ?1 and m.revision <= ?3 and m.kind <> 8 \
     union all select max(c.revision) from policy c where c.session_id = ?1 and c.revision <= ?3 \
     union all select max(w.revision) from \"window\" w where w.session_id = ?1 and w.revision <= ?3) as newest) \
     from policy p join policy_text t on t.hash = p.hash \
     where p.session_id = ?1 and p.revision <= ?2 order by p.revision desc limit 1";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[NOW, ACTIVE];

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
    let now = now(reader, session)?;
    let ancestry = now.ancestry;
    let at = at.unwrap_or(ancestry.revision);
    ancestry.check(at)?;
    let source = frame(reader, now, at)?;
    let messages = messages::sources(reader, &ancestry, &source.layout, at, bytes_max)?;
    Ok(Source { messages, ..source })
}

/// The messages since a source of a session's newest revision; none if the view has other changes as well.
pub(crate) fn newer(reader: &mut Reader<'_>, known: &Source, bytes_max: usize) -> Result<Option<NewMessages>> {
    let now = now(reader, known.session)?;
    let ancestry = now.ancestry;
    let source = frame(reader, now, ancestry.revision)?;
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

/// What a session is now, whatever the revision that is read.
pub(super) struct SessionNow {
    pub(super) ancestry: Ancestry,
    id: SessionId,
    first_open: Option<Revision>,
    pending: PendingWork,
    appended_bytes: i64,
}

pub(super) fn now(reader: &mut Reader<'_>, session: SessionKey) -> Result<SessionNow> {
    let row = reader.one(engine::query(NOW).bind(session.0))?;
    let row = row.ok_or_else(|| Error::not_found(Kind::Session, session.0))?;
    let compaction: Option<&[u8]> = row.get(5)?;
    let compaction = compaction.map(|id| codec::uuid(id).map(CompactionId)).transpose()?;
    Ok(SessionNow {
        ancestry: Ancestry { key: session.0, fork_revision: row.get(1)?, revision: row.get(2)? },
        id: SessionId(codec::uuid(row.get(0)?)?),
        first_open: row.get(6)?,
        pending: PendingWork { is_due: row.get(3)?, compaction },
        appended_bytes: row.get(4)?,
    })
}

/// A source without its messages.
pub(super) fn frame(reader: &mut Reader<'_>, now: SessionNow, at: Revision) -> Result<Source> {
    let SessionNow { ancestry, id, first_open, pending, appended_bytes } = now;
    // A session's policy and window begin with its first event.
    let begun = at.max(1);
    let owner = ancestry.owner_at(reader, begun)?.owner;
    let row = reader
        .one(engine::query(ACTIVE).bind(owner).bind(begun).bind(at))?
        .ok_or_else(|| Error::corrupt("policy", "a session has no policy"))?;
    let window: Option<&[u8]> = row.get(3)?;
    let layout = row.get::<Option<Revision>>(4)?.zip(row.get::<Option<&[u8]>>(5)?);
    Ok(Source {
        session: SessionKey(ancestry.key),
        id,
        at,
        layout: layouts::from_newest(reader, owner, layout)?,
        policy: policies::from_row(&row)?,
        window: codec::decode_window(window.ok_or_else(|| Error::corrupt("window", "a session has no window"))?)?,
        changed_revision: row.get(6)?,
        first_open,
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
    (is_same && is_own && known.ends_with(from)).then_some(from)
}

impl Source {
    /// True if the view's newest range has all messages from a revision on, and the view shows none of them at another
    /// position.
    pub fn ends_with(&self, from: Revision) -> bool {
        let Some(Span::Inline { first, last: None }) = self.layout.spans.last() else { return false };
        let is_placed = |span: &Span| matches!(span, Span::Placed { revision, .. } if *revision >= from);
        from >= *first && !self.layout.spans.iter().any(is_placed)
    }
}
