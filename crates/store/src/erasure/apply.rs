//! An erasure in one transaction: rows lose their content, tombstones say what is there instead, and each session that
//! lost something has an event.

use super::plan::{AT_ONCE, EraseTarget, Plan, ReachedGroup, ReachedMessage, SessionReach, groups, plan, sizes};
use super::rows::{self, MessageLoss, OpenedRevisions, Sizes};
use super::session;
use super::steps::{self, BegunErasure};
use crate::clock::fresh_id;
use crate::engine::{self, Reader, Row, values};
use crate::error::{Error, Result};
use crate::integrity::committed;
use crate::ledger::ancestry;
use crate::ledger::append::FinishMessage;
use crate::ledger::blob_uses;
use crate::ledger::chain::Digest;
use crate::ledger::codec::{self, EncodedPart, Number as _};
use crate::ledger::erased_content::Receipts;
use crate::ledger::head::{Head, Receipt, SessionKey};
use crate::ledger::jobs;
use crate::ledger::marks;
use crate::ledger::open_drafts::{OpenDraft, open_drafts};
use crate::ledger::quotas::ContentUse;
use crate::ledger::receipts::answered;
use crate::ledger::secrets::Secrets;
use crate::ledger::tombstones;
use crate::ledger::tx::{EraseExtent, Requester, Tx};
use crate::limits;
use crate::model::compaction::{CompactionState, Failure, FailureReason};
use crate::model::event::{ErasedMessage, ErasedTarget, EventBody};
use crate::model::ids::MessageId;
use crate::model::mark::MarkBody;
use crate::model::message::MessageKind;
use crate::model::part::ResultStatus;
use crate::model::session::SessionState;
use crate::model::{Revision, Seq};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use uuid::Uuid;

const INSERT: &str = "insert into erasure (public_id, session_id, revision, target, message_id, part_number, time, \
     messages, parts, bytes, summaries, forks, blobs, is_clean) \
     values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 0) returning id";
macro_rules! select_erasure {
    ($rest:literal) => {
        concat!(
            "select e.id, e.public_id, e.revision, e.messages, e.parts, e.bytes, e.summaries, e.forks, e.blobs, ",
            "v.seq from erasure e join event v on v.session_id = e.session_id and v.revision = e.revision ",
            $rest
        )
    };
}
const BY_ID: &str = select_erasure!("where e.public_id = ?1");
// A step of the erasure of a session belongs to that which ends it.
const BY_REVISION: &str = select_erasure!(
    "where e.session_id = ?1 and (e.revision = ?2 or e.revision > ?2 and e.target = 3) order by e.revision limit 1"
);
const NEWEST_ENDED: &str = select_erasure!(
    "where e.session_id = ?1 and e.revision in (select erase_revision from tombstone where session_id = ?1 and revision = ?2) \
     order by e.revision desc limit 1"
);
const PROMPT_USES: &str = "select count(*) from prompt p join blob_use u on u.kind = 2 and u.row_id = p.id \
     where p.session_id = ?1 and p.public_id = ?2 and u.hash = ?3";
const HAS_DRAFTS: &str = "select exists (select 1 from draft where message_id = ?1 and refused is null)";
const WITH_DRAFTS: &str = "select distinct m.id from draft d join message m on m.id = d.message_id \
     where m.session_id = ?1";
const IS_SHARED: &str = "select exists (select 1 from segment g join session f on f.id = g.session_id \
     where g.owner_id = ?1 and g.session_id <> ?1 and f.state <> 3)";

/// The statements of this file, for the test that prepares them all.
#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] =
    &[INSERT, BY_ID, BY_REVISION, NEWEST_ENDED, PROMPT_USES, IS_SHARED, HAS_DRAFTS, WITH_DRAFTS];

/// Erases a part, messages or a session.
#[derive(Debug, Clone)]
pub(crate) struct Erase {
    pub(crate) session: SessionKey,
    pub(crate) caller: Requester,
    pub(crate) target: EraseTarget,
    pub(crate) reason: String,
    pub(crate) expected: ErasePrecondition,
}

/// What must be unchanged since a revision, or else the erasure is refused.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ErasePrecondition {
    /// History, marks, policy and window.
    History(Option<Revision>),
    /// Everything of the session, which no fork shares either.
    Everything(Revision),
}

/// What was erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Erasure {
    /// Its number in the store.
    pub(crate) row: i64,
    /// The revision of its event, in the session that owned the content.
    pub revision: Revision,
    /// The store's number of that event.
    pub seq: i64,
    /// What went.
    pub sizes: Sizes,
    /// True if it was erased before, and nothing is changed.
    pub existed: bool,
}

impl Erasure {
    /// Adds that of another session, made later.
    pub fn add(&mut self, other: &Self) {
        self.row = self.row.max(other.row);
        self.sizes = self.sizes.with_session(other.sizes);
        self.existed &= other.existed;
    }

    fn from_row(row: &Row) -> Result<Self> {
        let sizes = Sizes {
            messages: row.get(3)?,
            parts: row.get(4)?,
            bytes: row.get(5)?,
            summaries: row.get(6)?,
            forks: row.get(7)?,
            blobs: row.get(8)?,
        };
        Ok(Self { row: row.get(0)?, revision: row.get(2)?, seq: row.get(9)?, sizes, existed: true })
    }
}

/// What an erasure would say, but for its event; nothing is changed. The flag is true for what was erased before.
///
/// # Errors
///
/// Those of the erasure.
pub(crate) fn preview(
    reader: &mut Reader<'_>,
    secrets: &Secrets,
    key: i64,
    target: &EraseTarget,
) -> Result<(Sizes, bool)> {
    let plan = plan(reader, key, target)?;
    let is_session = *target == EraseTarget::Session;
    let begun = if is_session { BegunErasure::load(reader.conn, key)? } else { None };
    let drafts = Drafts::read(reader, secrets, &plan)?;
    let is_over = match is_session {
        true => begun.is_none() && Head::load(reader.conn, key)?.state == SessionState::Erased,
        false => is_gone(reader, &plan, &drafts)?,
    };
    if is_over {
        return Ok((earlier(reader, key, (!is_session).then_some(&plan))?.1.sizes, true));
    }
    check_bytes(reader, &plan)?;
    let sizes = measure(reader, &plan, &drafts)?;
    let before = begun.map(|begun| begun.sizes).unwrap_or_default();
    Ok((Sizes { forks: sizes.forks, ..sizes + before }, false))
}

/// Open drafts that an erasure will close first, as the parts that they will become, by the rows of their messages.
/// Empty once they are closed.
#[derive(Default)]
struct Drafts(HashMap<i64, Vec<EncodedPart>>);

impl Drafts {
    fn read(reader: &mut Reader<'_>, secrets: &Secrets, plan: &Plan) -> Result<Self> {
        let mut drafts = HashMap::new();
        let owners: BTreeSet<i64> = plan.messages.keys().map(|(owner, _)| *owner).collect();
        let mut open = BTreeSet::new();
        for owner in owners {
            for row in reader.all(engine::query(WITH_DRAFTS).bind(owner))? {
                open.insert(row.get::<i64>(0)?);
            }
        }
        for reached in plan.messages.values().filter(|reached| open.contains(&reached.row)) {
            let all = open_drafts(reader.conn, secrets, reached.row, reached.id)?;
            let going = all.iter().filter(|draft| {
                let number = draft.id.number();
                draft.refused.is_none() && reached.parts.as_ref().is_none_or(|parts| parts.contains(&number))
            });
            let closed = |draft: &OpenDraft| draft.closed(secrets, ResultStatus::Interrupted, None).input.encoded;
            drafts.insert(reached.row, going.map(closed).collect());
        }
        Ok(Self(drafts))
    }

    /// What the messages of a group would lose.
    fn message_losses(&self, reader: &mut Reader<'_>, group: &ReachedGroup<'_>) -> Result<Vec<MessageLoss>> {
        let mut all = rows::message_losses(reader, group)?;
        for (losing, (_, reached)) in all.iter_mut().zip(group) {
            self.0.get(&reached.row).into_iter().flatten().for_each(|part| losing.add_draft(part));
        }
        Ok(all)
    }
}

/// True if nothing that was named has content left. What was derived from it afterwards never had any, and is not read.
fn is_gone(reader: &mut Reader<'_>, plan: &Plan, drafts: &Drafts) -> Result<bool> {
    let written: ReachedGroup<'_> = plan.written_messages().collect();
    // Most often the first one has something.
    let first = written.iter().take(1).copied().collect();
    if drafts.message_losses(reader, &first)?.iter().any(|losing| !losing.is_empty()) {
        return Ok(false);
    }
    for group in groups(reader, written.into_iter().skip(1))? {
        if drafts.message_losses(reader, &group)?.iter().any(|losing| !losing.is_empty()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The session that owns what an erasure names.
pub(crate) fn owner(reader: &mut Reader<'_>, key: i64, target: &EraseTarget) -> Result<SessionKey> {
    Ok(SessionKey(plan(reader, key, target)?.owner))
}

/// What goes, counted group by group, each before it is taken.
#[derive(Default)]
struct Measure {
    sizes: Sizes,
    /// The blobs that lose uses.
    blobs: BTreeMap<Vec<u8>, Uses>,
}

/// The uses of a blob.
#[derive(Default)]
struct Uses {
    /// Before any of them went, with those of drafts that become parts.
    all: i64,
    gone: i64,
}

impl Measure {
    fn add(
        &mut self,
        reader: &mut Reader<'_>,
        owner: i64,
        group: &ReachedGroup<'_>,
        all: &[MessageLoss],
    ) -> Result<()> {
        let all: Vec<_> = all.iter().zip(group).filter(|(losing, _)| !losing.is_empty()).collect();
        let (mut uses, mut of_prompts) = (BTreeSet::new(), Vec::new());
        for (losing, ((key, _), reached)) in &all {
            for hash in losing.blobs() {
                of_prompts.push(values![*key, reached.id.0.as_bytes().to_vec(), hash.clone()]);
                if !self.blobs.contains_key(&hash) {
                    uses.insert(hash);
                }
            }
        }
        reader.conn.read_ahead(PROMPT_USES, &of_prompts)?;
        blob_uses::read_counts_ahead(reader.conn, owner, uses.iter())?;
        for hash in uses {
            let all = blob_uses::count(reader, owner, &hash)?;
            self.blobs.insert(hash, Uses { all, gone: 0 });
        }
        for (losing, ((key, _), reached)) in all {
            self.sizes.bytes += losing.bytes;
            if reached.is_derived {
                // Markers and continuations are texts of policies.
                let is_summary = !matches!(reached.kind, MessageKind::Marker | MessageKind::Continuation);
                self.sizes.summaries += i64::from(is_summary);
            } else {
                self.sizes.messages += 1;
                self.sizes.parts += losing.part_count();
            }
            for hash in losing.new_blobs() {
                self.blobs.entry(hash).or_default().all += 1;
            }
            for hash in losing.blobs() {
                let query = engine::query(PROMPT_USES).bind(*key).bind(reached.id.0.as_bytes().as_slice());
                let of_prompt = reader.one(query.bind(hash.clone()))?.map_or(Ok(0), |row| row.get::<i64>(0))?;
                self.blobs.entry(hash).or_default().gone += 1 + of_prompt;
            }
        }
        Ok(())
    }

    /// What went with a plan.
    fn of(self, plan: &Plan) -> Sizes {
        let forks = i64::try_from(plan.sessions.len()).unwrap_or(i64::MAX) - 1;
        let blobs = self.blobs.values().filter(|uses| uses.all <= uses.gone).count();
        Sizes { forks, blobs: i64::try_from(blobs).unwrap_or(i64::MAX), ..self.sizes }
    }
}

fn measure(reader: &mut Reader<'_>, plan: &Plan, drafts: &Drafts) -> Result<Sizes> {
    let mut measure = Measure::default();
    for group in plan.groups(reader)? {
        let all = drafts.message_losses(reader, &group)?;
        measure.add(reader, plan.owner, &group, &all)?;
    }
    Ok(measure.of(plan))
}

/// How far an erasure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More of a session is to go, and only that.
    Continues,
    /// Everything is gone.
    Ended(Erasure),
}

impl Erase {
    /// Finds what goes, then takes it, or a step of it. A repetition, and the erasure of what is erased, get the earlier
    /// answer.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<Progress> {
        let key = self.session.0;
        tx.head(key)?;
        // What others wrote in the same transaction goes as well.
        tx.flush_with_heads()?;
        match self.target {
            EraseTarget::Session => match BegunErasure::load(tx.conn, key)? {
                Some(begun) => self.make_step(tx, begun),
                None => self.begin(tx),
            },
            EraseTarget::Messages(_) | EraseTarget::Part(_) => self.at_once(tx).map(Progress::Ended),
        }
    }

    /// The answer to an earlier request.
    fn answered(&self, tx: &mut Tx<'_>) -> Result<Option<Erasure>> {
        let Some(receipt) = answered(tx, self.session.0, &self.caller)? else { return Ok(None) };
        let id = receipt.ids.first().copied().unwrap_or_default();
        let row = engine::query(BY_ID).bind(id.as_bytes().as_slice()).one(tx.conn)?;
        Erasure::from_row(&row).map(Some)
    }

    /// Ends what is at work in a session, and makes the first step.
    fn begin(&self, tx: &mut Tx<'_>) -> Result<Progress> {
        let key = self.session.0;
        if let Some(before) = self.answered(tx)? {
            return Ok(Progress::Ended(before));
        }
        if tx.loaded(key)?.state == SessionState::Erased {
            return self.existing(tx, None).map(Progress::Ended);
        }
        self.expect(tx)?;
        session::end_work(tx, key, &self.in_fork())?;
        let open: Vec<_> = tx.loaded(key)?.open.iter().map(|(id, open)| (MessageId(*id), open.row)).collect();
        for (message, row) in open {
            drop(FinishMessage::aborted(key, message, self.in_fork()).seal(tx, row)?);
        }
        tx.flush_with_heads()?;
        let next = tx.loaded(key)?.fork_revision.unwrap_or(0) + 1;
        let (caller, reason) = (Requester { epoch: None, ..self.caller.clone() }, self.reason.clone());
        self.make_step(tx, BegunErasure { next, caller, reason, sizes: Sizes::default() })
    }

    /// Makes a step of the erasure of a session on behalf of whoever began it.
    fn make_step(&self, tx: &mut Tx<'_>, begun: BegunErasure) -> Result<Progress> {
        let key = self.session.0;
        let last = tx.loaded(key)?.revision;
        let mut reader = Reader::new(tx.conn);
        let step = begun.next_step(&mut reader, key, last)?;
        let plan = super::plan::plan_step(&mut reader, key, step)?;
        let BegunErasure { caller, reason, sizes, .. } = begun;
        // The answer is kept at the end.
        let of_step = if step.is_last { caller.clone() } else { Requester { request: None, ..caller.clone() } };
        let erase = Self { caller: of_step, reason: reason.clone(), ..self.clone() };
        let mut erased = erase.erase_plan(tx, &plan)?;
        erased.sizes = Sizes { forks: erased.sizes.forks, ..erased.sizes + sizes };
        if step.is_last {
            steps::end(tx.conn, key)?;
            return insert(tx, &plan, erased).map(Progress::Ended);
        }
        BegunErasure { next: step.range.last + 1, caller, reason, sizes: erased.sizes }.save(tx.conn, key)?;
        Ok(Progress::Continues)
    }

    fn at_once(&self, tx: &mut Tx<'_>) -> Result<Erasure> {
        let key = self.session.0;
        if let Some(before) = self.answered(tx)? {
            return Ok(before);
        }
        let mut plan = plan(&mut Reader::new(tx.conn), key, &self.target)?;
        let open = open(tx, &plan)?;
        if open.is_empty() && is_gone(&mut Reader::new(tx.conn), &plan, &Drafts::default())? {
            return self.existing(tx, Some(&plan));
        }
        self.expect(tx)?;
        check_bytes(&mut Reader::new(tx.conn), &plan)?;
        if !open.is_empty() {
            self.seal(tx, open)?;
            // What was a draft is a part now.
            plan = super::plan::plan(&mut Reader::new(tx.conn), key, &self.target)?;
            if is_gone(&mut Reader::new(tx.conn), &plan, &Drafts::default())? {
                return self.existing(tx, Some(&plan));
            }
        }
        let erased = self.erase_plan(tx, &plan)?;
        insert(tx, &plan, erased)
    }

    /// Takes what a plan reaches, with an event in each session.
    fn erase_plan(&self, tx: &mut Tx<'_>, plan: &Plan) -> Result<EndedErasure> {
        let key = self.session.0;
        let mut erasures = HashMap::new();
        for session in plan.sessions.keys() {
            erasures.insert(*session, tx.head(*session)?.revision + 1);
        }
        // What it reaches is of one tenant.
        let receipts = Receipts::new(tx.secrets.salt(), tx.head(key)?.tenant.clone());
        let mut opened = OpenedRevisions::new(tx.conn, receipts, erasures);
        let (lost, sizes) = take(tx, &mut opened, plan)?;
        let id = fresh_id();
        let mut answer = None;
        for (session, reached) in &plan.sessions {
            let (at, seq) = self.write(tx, &opened, plan, (*session, reached), &lost)?;
            let is_asked = *session == key;
            let caller = if is_asked { self.caller.clone() } else { self.in_fork() };
            tx.end_mutation(*session, &caller, Receipt { ids: vec![id], ..Receipt::default() })?;
            if *session == plan.owner {
                answer = Some((at, seq));
            }
        }
        let (revision, seq) = answer.ok_or(Error::Bug("an erasure did not reach its session"))?;
        tx.erased = tx.erased.max(if plan.continues() { EraseExtent::Continues } else { EraseExtent::Ended });
        Ok(EndedErasure { id, revision, seq, sizes })
    }

    fn expect(&self, tx: &mut Tx<'_>) -> Result<()> {
        let key = self.session.0;
        let current = tx.loaded(key)?.revision;
        match self.expected {
            ErasePrecondition::History(expected) => tx.loaded(key)?.expect(expected),
            ErasePrecondition::Everything(expected)
                if current != expected || engine::scalar(IS_SHARED).bind(key).one(tx.conn)? =>
            {
                Err(Error::RevisionMismatch { expected, current })
            }
            ErasePrecondition::Everything(_) => Ok(()),
        }
    }

    /// The same caller in sessions that it did not name.
    fn in_fork(&self) -> Requester {
        Requester { actor: self.caller.actor.clone(), ..Requester::default() }
    }

    /// Seals open messages, each as a mutation of its own.
    fn seal(&self, tx: &mut Tx<'_>, open: Vec<(i64, MessageId, i64)>) -> Result<()> {
        for (key, message, row) in open {
            drop(FinishMessage::aborted(key, message, self.in_fork()).seal(tx, row)?);
        }
        tx.flush_with_heads()
    }

    /// The earlier erasure of what is gone already.
    fn existing(&self, tx: &mut Tx<'_>, plan: Option<&Plan>) -> Result<Erasure> {
        let (id, erasure) = earlier(&mut Reader::new(tx.conn), self.session.0, plan)?;
        tx.end_mutation(self.session.0, &self.caller, Receipt { ids: vec![id], ..Receipt::default() })?;
        Ok(erasure)
    }

    /// Closes the tombstones of a session, and writes its mark and its event; returns the revision and the number of the
    /// event, which others may follow. The caller ends the mutation.
    fn write(
        &self,
        tx: &mut Tx<'_>,
        opened: &OpenedRevisions<'_>,
        plan: &Plan,
        (key, reached): (i64, &SessionReach),
        lost: &StrippedMessages,
    ) -> Result<(Revision, Seq)> {
        let at = tx.next_revision(key)?;
        let mut digest = Digest::default();
        marks::write(tx, &mut digest, key, MarkBody::Erased { ranges: reached.ranges.clone() })?;
        let revisions: Vec<Revision> = opened.revisions.get(&key).into_iter().flatten().copied().collect();
        for revisions in revisions.chunks(AT_ONCE) {
            let closed = committed::committed(&mut Reader::new(tx.conn), key, revisions)?;
            tombstones::close(tx.conn, &mut digest, (key, at), closed)?;
        }
        let messages = match plan.kind {
            ErasedTarget::Session => Vec::new(),
            ErasedTarget::Part | ErasedTarget::Message | ErasedTarget::Messages => in_session(tx, key, lost)?,
        };
        let body = EventBody::Erased {
            target: plan.kind,
            reason: self.reason.clone(),
            from: (key != plan.owner).then_some(plan.owner_id),
            ranges: reached.ranges.clone(),
            messages,
            unfinished: plan.continues(),
        };
        let caller = if key == self.session.0 { self.caller.clone() } else { self.in_fork() };
        let seq = tx.counters.next_seq;
        tx.event(key, &caller, &body, &digest)?;
        end_compaction(tx, key, &caller)?;
        let head = tx.loaded(key)?;
        // A step that follows finds the session erased, and uncounted.
        if plan.kind == ErasedTarget::Session && key == plan.owner && head.state != SessionState::Erased {
            head.state = SessionState::Erased;
            head.clear_due();
            tx.use_more(key, ContentUse { sessions: -1, ..ContentUse::default() })?;
        }
        let head = tx.loaded(key)?;
        match head.state {
            SessionState::Active => head.changed(at),
            SessionState::Archived | SessionState::Erased => (head.compaction_revision, head.guard_revision) = (at, at),
        }
        Ok((at, seq))
    }
}

/// The earlier erasure of what is gone already, with its id; without a plan that of a session.
fn earlier(reader: &mut Reader<'_>, session: i64, plan: Option<&Plan>) -> Result<(Uuid, Erasure)> {
    // The revision that lost its content last, with that of the erasure.
    let (owner, newest) = match plan {
        // Nothing comes after the erasure of a session.
        None => (session, tombstones::newest_of_session(reader, session)?.map(|at| (at, at))),
        Some(plan) => {
            let mut newest = None;
            let written = plan.written_messages().map(|((_, revision), _)| *revision);
            tombstones::read_ahead(reader.conn, plan.owner, written)?;
            for ((_, revision), _) in plan.written_messages().filter(|((key, _), _)| *key == plan.owner) {
                let at = tombstones::newest(reader, plan.owner, *revision)?;
                newest = newest.max(at.map(|at| (at, *revision)));
            }
            (plan.owner, newest)
        }
    };
    let Some((newest, revision)) = newest else { return Err(Error::NothingToErase) };
    let mut row = reader.one(engine::query(BY_REVISION).bind(owner).bind(newest))?;
    if row.is_none() {
        row = reader.one(engine::query(NEWEST_ENDED).bind(owner).bind(revision))?;
    }
    let Some(row) = row else {
        let is_begun = steps::is_begun(reader, owner)?;
        return Err(if is_begun { Error::SessionErased } else { Error::NothingToErase });
    };
    Ok((codec::uuid(row.get(1)?)?, Erasure::from_row(&row)?))
}

/// The messages that a plan reaches, that are open and that have something to lose, with their sessions and rows. Others stay
/// open.
fn open(tx: &mut Tx<'_>, plan: &Plan) -> Result<Vec<(i64, MessageId, i64)>> {
    let mut open = Vec::new();
    for ((key, _), reached) in &plan.messages {
        if tx.head(*key)?.open.contains_key(&reached.id.0)
            && (engine::scalar(HAS_DRAFTS).bind(reached.row).one(tx.conn)?
                || !rows::message_loss(&mut Reader::new(tx.conn), reached)?.is_empty())
        {
            open.push((*key, reached.id, reached.row));
        }
    }
    Ok(open)
}

/// Refuses several messages with more content than one change takes.
fn check_bytes(reader: &mut Reader<'_>, plan: &Plan) -> Result<()> {
    if plan.kind != ErasedTarget::Messages {
        return Ok(());
    }
    // By far too much is not read. What is erased already counts for little.
    let mut bytes = sizes(reader, plan.messages.values().map(|reached| reached.row))?.values().sum::<i64>();
    if bytes <= 2 * limits::ERASE_MESSAGES_BYTES_MAX {
        bytes = 0;
        for group in plan.groups(reader)? {
            bytes += rows::message_losses(reader, &group)?.iter().map(|losing| losing.bytes).sum::<i64>();
        }
    }
    if bytes > limits::ERASE_MESSAGES_BYTES_MAX {
        let what = "bytes of message_ids";
        return Err(Error::LimitExceeded { what, limit: limits::ERASE_MESSAGES_BYTES_MAX, actual: bytes });
    }
    Ok(())
}

/// The messages that lost content, with the sessions that own them.
type StrippedMessages = Vec<((i64, Revision), ErasedMessage)>;

/// Takes the content of everything that the plan names, and says how much it was: what is read is read once.
fn take(tx: &mut Tx<'_>, opened: &mut OpenedRevisions<'_>, plan: &Plan) -> Result<(StrippedMessages, Sizes)> {
    let (mut lost, mut measure) = (Vec::new(), Measure::default());
    let mut owners = BTreeSet::new();
    for group in plan.groups(&mut Reader::new(tx.conn))? {
        let mut reader = Reader::new(tx.conn);
        let all = rows::message_losses(&mut reader, &group)?;
        measure.add(&mut reader, plan.owner, &group, &all)?;
        rows::read_ahead(tx.conn, &group)?;
        for (losing, (place, reached)) in all.into_iter().zip(group) {
            let is_of_session = plan.is_of_session(*place);
            if is_of_session {
                opened.open(place.0, place.1)?;
                losing.open_parts(opened, place.0)?;
            }
            if losing.is_empty() && !is_of_session {
                continue;
            }
            let more = rows::erase_message(opened, *place, reached, (&losing, is_of_session))?;
            tx.count(place.0, -(losing.bytes + more))?;
            lost.push((*place, ReachedMessage::named(reached)));
            owners.insert(place.0);
        }
        opened.write()?;
    }
    for owner in owners {
        rows::salt_requests_of(opened, owner)?;
    }
    if !plan.continues() {
        opened.merge_words(plan.follows_steps(&mut Reader::new(tx.conn))?)?;
    }
    if let Some(step) = plan.step {
        session::erase_range(tx, opened, plan.owner, step.range)?;
        if step.is_last {
            session::erase(tx, opened, plan.owner)?;
        }
    }
    for (key, reached) in &plan.sessions {
        // What compactions have of a session's own goes with its jobs, at the end.
        if *key == plan.owner && plan.continues() {
            continue;
        }
        let fork = tx.loaded(*key)?.fork_revision.unwrap_or(0);
        let void: Vec<Revision> = reached.void.iter().copied().filter(|mark| *mark > fork).collect();
        rows::erase_compactions(opened, *key, &void)?;
        if let Some(first) = reached.ranges.first() {
            rows::forget_texts(tx.conn, *key, first.first)?;
        }
    }
    opened.write()?;
    Ok((lost, measure.of(plan)))
}

/// The messages of a session's history among those that lost content.
fn in_session(tx: &mut Tx<'_>, key: i64, lost: &StrippedMessages) -> Result<Vec<ErasedMessage>> {
    let mut reader = Reader::new(tx.conn);
    let segments = ancestry::by_key(&mut reader, key)?.all_segments(&mut reader)?;
    let has = |owner: i64, revision: Revision| {
        let segment = segments.iter().map(|(segment, _)| segment).rfind(|segment| segment.first <= revision);
        segment.is_some_and(|segment| segment.owner == owner && segment.end.includes(revision))
    };
    let lost = lost.iter().filter(|((owner, revision), _)| has(*owner, *revision));
    Ok(lost.map(|(_, message)| message.clone()).collect())
}

/// Ends the compaction that runs: what it works on may have had what is gone. The session is decided again.
fn end_compaction(tx: &mut Tx<'_>, key: i64, caller: &Requester) -> Result<()> {
    let Some(job) = jobs::current_row(tx, key)? else { return Ok(()) };
    if job.compaction.state == CompactionState::Running {
        let why = Failure::new(FailureReason::Superseded, "content that it may have read was erased");
        jobs::give_up(tx, caller, &job, CompactionState::Superseded, why)?;
    }
    Ok(())
}

/// What was taken, by whose event.
struct EndedErasure {
    id: Uuid,
    revision: Revision,
    seq: Seq,
    sizes: Sizes,
}

/// Notes an erasure that has ended, for whoever asks for it again.
fn insert(tx: &Tx<'_>, plan: &Plan, erased: EndedErasure) -> Result<Erasure> {
    let EndedErasure { id, revision, seq, sizes } = erased;
    let message = match plan.named[..] {
        [MessageId(message)] => Some(message.as_bytes().to_vec()),
        _ => None,
    };
    let part = plan.part.map(|part| part.number());
    let row = engine::scalar(INSERT)
        .bind(id.as_bytes().as_slice())
        .bind(plan.owner)
        .bind(revision)
        .bind(plan.kind.number())
        .bind(message)
        .bind(part)
        .bind(tx.now.0)
        .bind(sizes.messages)
        .bind(sizes.parts)
        .bind(sizes.bytes)
        .bind(sizes.summaries)
        .bind(sizes.forks)
        .bind(sizes.blobs)
        .one(tx.conn)?;
    Ok(Erasure { row, revision, seq, sizes, existed: false })
}
