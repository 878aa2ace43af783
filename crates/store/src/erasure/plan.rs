//! What an erasure reaches: the message that was named with everything that replaced it, the summaries that were written
//! from it, and the sessions that share its rows.

use crate::engine::{self, Connection, List, Parameter, Reader, values};
use crate::error::{Error, Result};
use crate::ledger::ancestry::{self, Ancestry, AsOf};
use crate::ledger::codec::{self, Number as _};
use crate::ledger::{layouts, marks, messages};
use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use crate::model::event::{ErasedMessage, ErasedTarget};
use crate::model::ids::{MessageId, PartId, SessionId};
use crate::model::layouts::Marks;
use crate::model::mark::{CompactedMark, Mark, MarkBody};
use crate::model::message::{Message, MessageKind};
use crate::model::ranges::union;
use std::collections::{BTreeMap, BTreeSet};

/// Messages that are read and changed at once, and the bytes of their parts, unless one has more.
pub(super) const AT_ONCE: usize = 256;
const AT_ONCE_BYTES: i64 = 4 << 20;

const SIZES: &str = "select m.id, coalesce(m.parts_length, (select sum(p.length) from part p where p.message_id = m.id), 0) \
     from message m where m.id in (select value from rarray(?1))";

const SHARED: &str = "select session_id, first_revision, last_revision from segment \
     where owner_id = ?1 and last_revision >= ?2 and first_revision <= ?3";
const AT: &str = "select id, public_id, kind, revision from message where session_id = ?1 \
     and class in (0, 1, 2, 3) and revision between ?2 and ?3";
const VERSIONS: &str = "select revision from message where session_id = ?1 and client_id = ?2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[SIZES, SHARED, AT, VERSIONS];

/// What is to be erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EraseTarget {
    /// A part, by its id.
    Part(PartId),
    /// Messages, by their ids or their client's, with everything that replaced them.
    Messages(Vec<String>),
    /// The whole session.
    Session,
}

impl EraseTarget {
    /// The id that it names, or the first one; none for a session.
    pub fn id(&self) -> Option<String> {
        match self {
            Self::Part(part) => Some(part.to_string()),
            Self::Messages(messages) => messages.first().cloned(),
            Self::Session => None,
        }
    }

    pub(crate) fn kind(&self) -> ErasedTarget {
        match self {
            Self::Part(_) => ErasedTarget::Part,
            Self::Messages(ids) if ids.len() > 1 => ErasedTarget::Messages,
            Self::Messages(_) => ErasedTarget::Message,
            Self::Session => ErasedTarget::Session,
        }
    }
}

/// A message that loses content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReachedMessage {
    pub(crate) id: MessageId,
    pub(crate) row: i64,
    pub(crate) kind: MessageKind,
    /// The parts by their numbers; none for all.
    pub(crate) parts: Option<BTreeSet<u16>>,
    /// True for a message that Longhand or a client wrote from others that lose content.
    pub(crate) is_derived: bool,
}

impl ReachedMessage {
    /// The message, as an event names it.
    pub(crate) fn named(&self) -> ErasedMessage {
        let parts = self.parts.iter().flatten().map(|number| PartId::in_message(self.id, *number)).collect();
        ErasedMessage { message: self.id, parts }
    }
}

/// What an erasure does in one session.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionReach {
    /// Revisions of the messages of its history that lose content, also of inherited ones; sorted and disjoint.
    pub(crate) ranges: Vec<RevisionRange>,
    /// The marks of the summaries that are void.
    pub(crate) void: BTreeSet<Revision>,
}

/// What one step takes of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EraseStep {
    /// Revisions of its own rows.
    pub(crate) range: RevisionRange,
    /// True if nothing comes after it: the session itself goes as well.
    pub(crate) is_last: bool,
}

/// What an erasure reaches.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) kind: ErasedTarget,
    /// The session that owns what was named.
    pub(crate) owner: i64,
    pub(crate) owner_id: SessionId,
    /// The messages that were named; none if it is the session.
    pub(crate) named: Vec<MessageId>,
    /// The part that was named.
    pub(crate) part: Option<PartId>,
    /// What of a session goes now; none for a message or a part.
    pub(crate) step: Option<EraseStep>,
    /// Sessions by key: the owner, and those that share rows with it.
    pub(crate) sessions: BTreeMap<i64, SessionReach>,
    /// Messages by the session that owns their rows and their revision.
    pub(crate) messages: BTreeMap<(i64, Revision), ReachedMessage>,
}

/// Some messages of a plan.
pub(super) type ReachedGroup<'p> = Vec<(&'p (i64, Revision), &'p ReachedMessage)>;

/// Messages in groups whose parts have few bytes together.
pub(super) fn groups<'p>(
    reader: &mut Reader<'_>,
    messages: impl Iterator<Item = (&'p (i64, Revision), &'p ReachedMessage)>,
) -> Result<Vec<ReachedGroup<'p>>> {
    let messages: Vec<_> = messages.collect();
    let sizes = sizes(reader, messages.iter().map(|(_, reached)| reached.row))?;
    let (mut groups, mut group, mut bytes) = (Vec::new(), ReachedGroup::new(), 0);
    for message in messages {
        let size = sizes.get(&message.1.row).copied().unwrap_or_default();
        if group.len() >= AT_ONCE || !group.is_empty() && bytes + size > AT_ONCE_BYTES {
            groups.push(std::mem::take(&mut group));
            bytes = 0;
        }
        bytes += size;
        group.push(message);
    }
    groups.extend(Some(group).filter(|group| !group.is_empty()));
    Ok(groups)
}

/// The bytes of the parts of messages, by their rows.
pub(super) fn sizes(reader: &mut Reader<'_>, rows: impl Iterator<Item = i64>) -> Result<BTreeMap<i64, i64>> {
    let rows: Vec<i64> = rows.collect();
    let mut sizes = BTreeMap::new();
    for rows in rows.chunks(AT_ONCE) {
        for row in reader.all(engine::query(SIZES).bind(List::of_integers(rows.iter().copied())))? {
            sizes.insert(row.get(0)?, row.get(1)?);
        }
    }
    Ok(sizes)
}

/// Finds what an erasure reaches. An error if there is no such message or part, or if messages are of several sessions.
pub(crate) fn plan(reader: &mut Reader<'_>, key: i64, target: &EraseTarget) -> Result<Plan> {
    let ancestry = ancestry::by_key(reader, key)?;
    let start = match target {
        EraseTarget::Session => whole_session(&ancestry),
        EraseTarget::Messages(ids) => messages(reader, &ancestry, ids)?,
        EraseTarget::Part(part) => self::part(reader, &ancestry, *part)?,
    };
    let step = start.positions.first().filter(|_| *target == EraseTarget::Session);
    let step = step.map(|range| EraseStep { range: *range, is_last: true });
    complete(reader, target.kind(), start, step)
}

/// The same for a step of the erasure of a session. The last one reaches what shares any of the session.
pub(super) fn plan_step(reader: &mut Reader<'_>, key: i64, step: EraseStep) -> Result<Plan> {
    let mut start = whole_session(&ancestry::by_key(reader, key)?);
    if !step.is_last {
        start.positions = vec![step.range];
    }
    complete(reader, ErasedTarget::Session, start, Some(step))
}

fn complete(reader: &mut Reader<'_>, kind: ErasedTarget, start: EraseStart, step: Option<EraseStep>) -> Result<Plan> {
    let EraseStart { owner, named, part, positions, replaced } = start;
    let owner_id = ancestry::public_id(reader.conn, owner)?;
    let (sessions, messages) = (BTreeMap::new(), BTreeMap::new());
    let mut plan = Plan { kind, owner, owner_id, named, part, step, sessions, messages };
    let parts = part.map(|part| BTreeSet::from([part.number()]));
    let of_step = step.map(|step| [step.range]);
    plan.add(reader, owner, of_step.as_ref().map_or(&positions[..], |range| range), parts.as_ref(), false)?;
    let mut waiting = BTreeMap::from([(owner, [positions, replaced].concat())]);
    // Forks are younger than what they share, so each session is complete once it is the first.
    while let Some((key, positions)) = waiting.pop_first() {
        let in_session = plan.derive(reader, key, union(positions))?;
        reader.conn.read_ahead(SHARED, &of_ranges(key, &in_session.ranges))?;
        for range in &in_session.ranges {
            for row in reader.all(engine::query(SHARED).bind(key).bind(range.first).bind(range.last))? {
                let (fork, first, last): (i64, Revision, Revision) = (row.get(0)?, row.get(1)?, row.get(2)?);
                let shared = RevisionRange { first: first.max(range.first), last: last.min(range.last) };
                waiting.entry(fork).or_default().push(shared);
            }
        }
        plan.sessions.insert(key, in_session);
    }
    Ok(plan)
}

/// What was named: whose rows it is, and at which revisions.
struct EraseStart {
    owner: i64,
    named: Vec<MessageId>,
    /// Of the message; none for all of it.
    part: Option<PartId>,
    positions: Vec<RevisionRange>,
    /// Positions that it has from a message that it replaces.
    replaced: Vec<RevisionRange>,
}

fn whole_session(ancestry: &Ancestry) -> EraseStart {
    let first = ancestry.fork_revision.unwrap_or(0) + 1;
    let positions = vec![RevisionRange { first, last: ancestry.revision }];
    EraseStart { owner: ancestry.key, named: Vec::new(), part: None, positions, replaced: Vec::new() }
}

/// Messages with everything that replaced them in their own session; a record with its other versions.
fn messages(reader: &mut Reader<'_>, ancestry: &Ancestry, ids: &[String]) -> Result<EraseStart> {
    let marks = Marks::new(marks::read_all(reader, ancestry)?);
    let (mut owners, mut named, mut positions) = (Vec::new(), Vec::new(), Vec::new());
    read_named_ahead(reader.conn, ancestry, ids)?;
    let found = ids.iter().map(|id| messages::named(reader, ancestry, id));
    let found: Vec<_> = found.collect::<Result<_>>()?;
    let is_record = |message: &&Message| message.kind == MessageKind::Record;
    let records = found.iter().filter(is_record).filter_map(|message| message.client_id.clone());
    let of_records: Vec<_> = records.map(|client_id| values![ancestry.own_segment().owner, client_id]).collect();
    reader.conn.read_ahead(VERSIONS, &of_records)?;
    for message in found {
        let is_replaceable = matches!(message.kind, MessageKind::Normal | MessageKind::Edit | MessageKind::Replay);
        let position = if is_replaceable { marks.position(message.revision).first } else { message.revision };
        let owner = ancestry.owner_at(reader, position)?.owner;
        if let (MessageKind::Record, Some(client_id)) = (message.kind, &message.client_id) {
            for row in reader.all(engine::query(VERSIONS).bind(owner).bind(client_id.clone()))? {
                positions.push(point(row.get(0)?));
            }
        } else {
            positions.push(point(position));
        }
        named.push(message.id);
        owners.push(owner);
    }
    let owner = owners.first().copied().ok_or(Error::Bug("an erasure names nothing"))?;
    if let Some((_, other)) = owners.iter().zip(ids).find(|(other, _)| **other != owner) {
        return Err(Error::SeveralSessions { id: other.clone() });
    }
    Ok(EraseStart { owner, named, part: None, positions: union(positions), replaced: Vec::new() })
}

/// Reads at once the messages with these ids or clients' ids, of those that are no ancestor's.
fn read_named_ahead(conn: &Connection, ancestry: &Ancestry, ids: &[String]) -> Result<()> {
    let newest = AsOf::Newest.last();
    let (mut by_id, mut by_client) = (Vec::new(), Vec::new());
    let own = ancestry.own_segment();
    for id in ids {
        match id.parse::<MessageId>() {
            Ok(id) => by_id.push(values![newest, id.0.as_bytes().to_vec(), ancestry.key]),
            Err(_) => by_client.push(values![newest, own.owner, id, own.first, own.end.last()]),
        }
    }
    conn.read_ahead(messages::IN_TENANT, &by_id)?;
    conn.read_ahead(messages::BY_CLIENT, &by_client)
}

/// A part. What summaries say of it counts by the position of its message.
fn part(reader: &mut Reader<'_>, ancestry: &Ancestry, part: PartId) -> Result<EraseStart> {
    let id = part.to_string();
    let message = messages::named(reader, ancestry, &id)?;
    let owner = ancestry.owner_at(reader, message.revision)?.owner;
    let mut replaced = Vec::new();
    if matches!(message.kind, MessageKind::Edit | MessageKind::Replay) {
        replaced.push(point(Marks::new(marks::read_all(reader, ancestry)?).position(message.revision).first));
    }
    let (named, positions) = (vec![message.id], vec![point(message.revision)]);
    Ok(EraseStart { owner, named, part: Some(part), positions, replaced })
}

fn of_ranges(key: i64, ranges: &[RevisionRange]) -> Vec<Vec<Parameter<'static>>> {
    ranges.iter().map(|range| values![key, range.first, range.last]).collect()
}

fn point(revision: Revision) -> RevisionRange {
    RevisionRange { first: revision, last: revision }
}

/// True if a range shares a revision with one of some ascending, disjoint ranges.
fn meets(ranges: &[RevisionRange], range: RevisionRange) -> bool {
    let found = ranges.get(ranges.partition_point(|other| other.last < range.first));
    found.is_some_and(|other| other.first <= range.last)
}

impl Plan {
    /// The messages, in groups that are read and changed at once.
    pub(super) fn groups(&self, reader: &mut Reader<'_>) -> Result<Vec<ReachedGroup<'_>>> {
        groups(reader, self.messages.iter())
    }

    /// True for a message that goes with its whole session in this step.
    pub(super) fn is_of_session(&self, (owner, revision): (i64, Revision)) -> bool {
        owner == self.owner && self.step.is_some_and(|step| step.range.contains(revision))
    }

    /// The messages that were named or that clients wrote, without what else was derived from them.
    pub(super) fn written_messages(&self) -> impl Iterator<Item = (&(i64, Revision), &ReachedMessage)> {
        self.messages.iter().filter(|(_, reached)| !reached.is_derived || self.named.contains(&reached.id))
    }

    /// True if some of a session went before this.
    pub(super) fn follows_steps(&self, reader: &mut Reader<'_>) -> Result<bool> {
        let first = ancestry::by_key(reader, self.owner)?.fork_revision.unwrap_or(0) + 1;
        Ok(self.step.is_some_and(|step| step.range.first > first))
    }

    /// True if more of a session goes after this.
    pub(super) fn continues(&self) -> bool {
        self.step.is_some_and(|step| !step.is_last)
    }

    /// Adds the messages in some ranges of a session's own rows.
    fn add(
        &mut self,
        reader: &mut Reader<'_>,
        owner: i64,
        ranges: &[RevisionRange],
        parts: Option<&BTreeSet<u16>>,
        is_derived: bool,
    ) -> Result<()> {
        reader.conn.read_ahead(AT, &of_ranges(owner, ranges))?;
        for range in ranges {
            for row in reader.all(engine::query(AT).bind(owner).bind(range.first).bind(range.last))? {
                let kind = MessageKind::from_number(row.get(2)?)?;
                let derived = !matches!(kind, MessageKind::Normal | MessageKind::Record | MessageKind::Edit);
                let reached = ReachedMessage {
                    id: MessageId(codec::uuid(row.get(1)?)?),
                    row: row.get(0)?,
                    kind,
                    parts: parts.cloned(),
                    is_derived: is_derived || derived,
                };
                self.messages.entry((owner, row.get(3)?)).or_insert(reached);
            }
        }
        Ok(())
    }

    /// Adds what a session has from messages that lose content: what replaced them, and summaries of them.
    fn derive(&mut self, reader: &mut Reader<'_>, key: i64, ranges: Vec<RevisionRange>) -> Result<SessionReach> {
        let ancestry = ancestry::by_key(reader, key)?;
        let mut reach = SessionReach { ranges, void: BTreeSet::new() };
        // What is derived is younger than what it is derived from, and its mark younger than both.
        for mark in marks::read_all(reader, &ancestry)? {
            let mut derived = derived(&mark, &reach.ranges, self.kind);
            if let MarkBody::Compacted(compacted) = &mark.body {
                if derived.is_empty() && !reach.void.is_empty() && goes_on(reader, &ancestry, compacted, &reach)? {
                    derived.push(compacted.summary);
                }
                if !derived.is_empty() {
                    reach.void.insert(mark.revision);
                }
            }
            if derived.is_empty() {
                continue;
            }
            let is_own = |revision: &Revision| ancestry.fork_revision.is_none_or(|fork| *revision > fork);
            let own: Vec<RevisionRange> = derived.iter().copied().filter(is_own).map(point).collect();
            let is_derived = !matches!(mark.body, MarkBody::Edited { .. });
            self.add(reader, key, &own, None, is_derived)?;
            reach.ranges.extend(derived.into_iter().map(point));
            reach.ranges = union(std::mem::take(&mut reach.ranges));
        }
        Ok(reach)
    }
}

/// True if a summary was written from a view with one that is void, whose text it may repeat. It need not cover that
/// one's position, which may be in its tail.
fn goes_on(
    reader: &mut Reader<'_>,
    ancestry: &Ancestry,
    compacted: &CompactedMark,
    found: &SessionReach,
) -> Result<bool> {
    let before = layouts::at(reader, ancestry, compacted.base)?.covered;
    Ok(before.is_some_and(|before| found.void.contains(&before.mark)))
}

/// The messages that a mark made from messages at these revisions.
fn derived(mark: &Mark, ranges: &[RevisionRange], target: ErasedTarget) -> Vec<Revision> {
    let has = |revision: Revision| meets(ranges, point(revision));
    match &mark.body {
        // A part of the original may be erased without those of its edits, which have ids of their own.
        MarkBody::Edited { target: of, replacement } if target != ErasedTarget::Part && has(*of) => {
            replacement.iter().copied().collect()
        }
        MarkBody::Pruned { replay: Some(replay), .. } if has(replay.target) => vec![replay.replacement],
        MarkBody::Compacted(compacted) => {
            let covers = compacted.covered.iter().any(|range| meets(ranges, *range));
            let quotes = compacted.quoted_until.is_some_and(|last| {
                let behind = RevisionRange { first: compacted.tail_start, last };
                meets(ranges, behind)
            });
            if covers || quotes || has(compacted.summary) { vec![compacted.summary] } else { Vec::new() }
        }
        MarkBody::Rewound { after, has_summary: true, .. } => {
            let branch = RevisionRange { first: after.saturating_add(1), last: mark.revision };
            if meets(ranges, branch) { vec![mark.revision + 1] } else { Vec::new() }
        }
        MarkBody::Edited { .. }
        | MarkBody::Pruned { .. }
        | MarkBody::Rewound { .. }
        | MarkBody::Pinned { .. }
        | MarkBody::Words { .. }
        | MarkBody::Undone { .. }
        | MarkBody::Erased { .. } => Vec::new(),
    }
}
