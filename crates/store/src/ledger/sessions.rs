//! Sessions: created, changed, archived, forked, read.

use super::ancestry::{Ancestry, AsOf};
use super::approvals;
use super::chain::{self, Digest};
use super::claiming;
use super::codec::{self, Number as _};
use super::erased_content::{self, Receipts};
use super::erased_sessions;
use super::head::{Receipt, SessionKey, context, guards, origin_times, usage_totals};
use super::jobs::give_up_all;
use super::labels;
use super::layouts;
use super::marks;
use super::open_messages;
use super::pairing;
use super::policies::{PolicyText, policy_at, policy_in};
use super::position::{self, ForkPoint};
use super::prompts;
use super::quotas::ContentUse;
use super::receipts::answered;
use super::runs;
use super::tx::{Requester, Tx};
use super::visibility::Location;
use super::windows;
use crate::clock::fresh_id;
use crate::engine::Reader;
use crate::engine::{self, Connection, Row};
use crate::error::{Error, Kind, Result};
use crate::limits;
use crate::model::event::EventBody;
use crate::model::ids::{ApprovalId, PromptId, RunId, SessionId};
use crate::model::layout::Layout;
use crate::model::mark::Mark;
use crate::model::run::RunEndReason;
use crate::model::session::{Session, SessionState};
use crate::model::time::Timestamp;
use crate::model::usage::{ModelWindow, UsageTotals};
use crate::model::{Revision, Seq};
use std::sync::Arc;

/// A client's own id for a new session.
#[derive(Debug, Clone)]
pub struct NewClientId {
    /// The id.
    pub id: String,
    /// A hash of the whole request: another request with the same id is refused.
    pub request_hash: [u8; 32],
    /// Another hash of the same request, which earlier requests may have kept.
    pub other_hash: Option<[u8; 32]>,
}

/// Makes a session.
#[derive(Debug, Clone)]
pub struct CreateSession {
    /// Its tenant; empty for the default tenant.
    pub tenant: Arc<str>,
    /// The client's own id, unique in the tenant.
    pub client_id: Option<NewClientId>,
    /// The title for people.
    pub title: String,
    /// Its policy.
    pub policy: PolicyText,
    /// The window, which alone decides triggers.
    pub window: ModelWindow,
    /// Free JSON.
    pub metadata_json: Option<String>,
    /// The session it works for.
    pub parent: Option<SessionKey>,
    /// True to refuse a session whose metadata name the source of one that was erased.
    pub keeps_erased: bool,
}

/// Changes a session; fields that are not set stay.
#[derive(Debug, Clone, Default)]
pub struct UpdateSession {
    /// The new title.
    pub title: Option<String>,
    /// The new free JSON.
    pub metadata_json: Option<String>,
    /// The new window.
    pub window: Option<ModelWindow>,
    /// The new policy.
    pub policy: Option<PolicyText>,
    /// The policy that the new one was computed from, if any: an error if another one is active by now.
    pub policy_base: Option<PolicyText>,
    /// Refuse if history, marks, policy or window changed after this revision.
    pub expected_revision: Option<Revision>,
}

/// Makes a session that shares the history of another.
#[derive(Debug, Clone)]
pub struct ForkSession {
    /// The client's own id for the fork.
    pub client_id: Option<NewClientId>,
    /// The starting point.
    pub at: ForkAt,
    /// Its title; empty for the original's.
    pub title: String,
}

/// The starting point of a fork.
#[derive(Debug, Clone)]
pub enum ForkAt {
    /// At the newest revision.
    Newest,
    /// At this revision, as the history was then.
    Revision(Revision),
    /// After the message with this id, as the view shows it now.
    Behind(String),
}

const INSERT: &str = "insert into session (public_id, client_id, parent_id, fork_id, fork_revision, create_time, \
     title, state, metadata_json, \"window\", revision, history_revision, compaction_revision, chain_hash, message_count, \
     update_time, appended_bytes, failures, hold_turns, hold_breaker, guard_revision, wake_bytes, wake_on_reply, \
     wake_on_request, create_hash, tenant, actor, usage, project, directory, update_period) \
     values (?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, ?8, ?9, ?10, ?10, 0, ?11, 0, ?6, ?12, 0, 0, 0, 0, ?12, 0, 0, ?13, ?14, ?15, \
     ?16, ?17, ?18, ?19) returning id";
const INSERT_POLICY_TEXT: &str =
    "insert into policy_text (hash, preset, json) values (?1, ?2, ?3) on conflict (hash) do nothing";
const INSERT_POLICY: &str = "insert into policy (session_id, revision, hash) values (?1, ?2, ?3)";
const INSERT_SEGMENT: &str = "insert into segment (session_id, owner_id, first_revision, last_revision, has_messages) \
     values (?1, ?2, ?3, ?4, ?5)";
const HAS_MESSAGES: &str = "select exists (select 1 from message where session_id = ?1 and class in (0, 1, 2, 3) \
     and revision between ?2 and ?3)";
const BY_CLIENT: &str = "select id, create_hash from session where tenant = ?2 and client_id = ?1";
const LOG_HEAD: &str = "select coalesce(max(seq), 0) from event";
const OPEN: &str = "select revision from message where session_id = ?1 and sealed_revision is null order by revision";
const EVENT_HASH: &str = "select hash from event where session_id = ?1 and revision = ?2";

/// The head of the log and sessions, as they were after its newest event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogSnapshot {
    /// The newest event.
    pub head: Seq,
    /// The sessions.
    pub sessions: Vec<SessionSnapshot>,
}

/// A session in a [`LogSnapshot`].
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSnapshot {
    /// Its key.
    pub key: SessionKey,
    /// Its state; the preset, which its policy names, is not filled in.
    pub session: Session,
    /// The positions of its open messages, ascending.
    pub open: Vec<Revision>,
    /// Its active run.
    pub run: Option<RunId>,
    /// The prompts that wait, in the order of the queue.
    pub prompts: Vec<PromptId>,
    /// The questions that wait, oldest first.
    pub approvals: Vec<ApprovalId>,
}

macro_rules! select_session {
    ($rest:literal) => {
        concat!(
            "select s.public_id, s.tenant, s.client_id, s.title, s.state, p.public_id as parent, f.public_id as fork, ",
            "s.fork_revision, s.window, s.metadata_json, s.revision, s.history_revision, s.message_count, ",
            "s.context_tokens, s.context_revision, s.create_time, s.update_time, ",
            "s.failures, s.hold_turns, s.hold_breaker, s.cooldown_end, s.overhead_tokens, s.actor, s.usage, ",
            "s.origin_start_time, s.origin_end_time ",
            "from session s left join session p on p.id = s.parent_id left join session f on f.id = s.fork_id ",
            $rest
        )
    };
}

const UPDATE_TIME: &str = "select update_time from session where id = ?1";
const SELECT: &str = select_session!("where s.id = ?1");
// For an export of a damaged store only: it finds rows that a look-up does not find.
const SCANNED: &str = select_session!("where +s.id = ?1");

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[
    INSERT,
    INSERT_POLICY_TEXT,
    INSERT_POLICY,
    INSERT_SEGMENT,
    HAS_MESSAGES,
    BY_CLIENT,
    EVENT_HASH,
    SELECT,
    UPDATE_TIME,
    LOG_HEAD,
    OPEN,
];

/// Writes a policy's text and its revision, and adds it to the digest.
fn write_policy(
    conn: &Connection,
    digest: &mut Digest,
    key: i64,
    revision: Revision,
    policy: &PolicyText,
) -> Result<()> {
    let hash = blake3::hash(policy.json.as_bytes()).as_bytes().to_vec();
    engine::query(INSERT_POLICY_TEXT).bind(hash.clone()).bind(&policy.preset).bind(&policy.json).run(conn)?;
    engine::query(INSERT_POLICY).bind(key).bind(revision).bind(hash.clone()).run(conn)?;
    chain::policy(digest, &hash, &policy.preset);
    Ok(())
}

/// The initial values of a new session's row.
struct NewRow<'a> {
    tenant: &'a str,
    actor: &'a str,
    client_id: Option<&'a NewClientId>,
    parent: Option<i64>,
    fork: Option<(i64, Revision)>,
    title: &'a str,
    metadata_json: Option<&'a str>,
    window: &'a ModelWindow,
    chain_hash: [u8; 32],
    /// Growth of the inherited history.
    appended_bytes: i64,
}

/// Inserts a session's row and adds it to the digest.
fn insert(tx: &mut Tx<'_>, digest: &mut Digest, row: NewRow<'_>) -> Result<i64> {
    tx.admit_sessions(row.tenant, 1)?;
    let id = SessionId(fresh_id());
    let window = codec::encode_window(row.window);
    let location = Location::from_metadata(row.metadata_json);
    let key: i64 = engine::scalar(INSERT)
        .bind(id.0.as_bytes().to_vec())
        .bind(row.client_id.map(|client| &client.id))
        .bind(row.parent)
        .bind(row.fork.map(|(key, _)| key))
        .bind(row.fork.map(|(_, revision)| revision))
        .bind(tx.now.0)
        .bind(row.title)
        .bind(row.metadata_json)
        .bind(window)
        .bind(row.fork.map_or(0, |(_, revision)| revision))
        .bind(row.chain_hash.to_vec())
        .bind(row.appended_bytes)
        .bind(row.client_id.map(|client| client.request_hash.to_vec()))
        .bind(row.tenant)
        .bind(row.actor)
        .bind(codec::encode_usage_totals(&UsageTotals::default()))
        .bind(location.project)
        .bind(location.directory)
        .bind(tx.now.0.div_euclid(limits::UPDATE_PERIOD_MICROS))
        .one(tx.conn)?;
    let public = |conn: &Connection, key: Option<i64>| match key {
        Some(key) => super::ancestry::public_id(conn, key).map(Some),
        None => Ok(None),
    };
    let parent = public(tx.conn, row.parent)?;
    let fork = public(tx.conn, row.fork.map(|(key, _)| key))?;
    chain::session(
        digest,
        &chain::SessionColumns {
            public_id: id.0.as_bytes(),
            tenant: row.tenant,
            client_id: row.client_id.map(|client| client.id.as_str()),
            parent_id: parent.as_ref().map(|id| id.0.as_bytes().as_slice()),
            fork_id: fork.as_ref().map(|id| id.0.as_bytes().as_slice()),
            fork_revision: row.fork.map(|(_, revision)| revision),
            create_time: tx.now.0,
        },
    );
    tx.head(key)?;
    tx.use_more(key, ContentUse { sessions: 1, ..ContentUse::default() })?;
    Ok(key)
}

/// The session of a tenant that an earlier request with this client id made; an error if that was another request.
fn existing(tx: &mut Tx<'_>, tenant: &str, client_id: Option<&NewClientId>) -> Result<Option<i64>> {
    let Some(NewClientId { id, request_hash, other_hash }) = client_id else { return Ok(None) };
    let hashes = || [Some(request_hash), other_hash.as_ref()].into_iter().flatten();
    let refuse_erased = |conn| hashes().try_for_each(|hash| erased_sessions::refuse(conn, tenant, id, hash.as_slice()));
    let mut reader = Reader::new(tx.conn);
    let Some(row) = reader.one(engine::query(BY_CLIENT).bind(id).bind(tenant.to_owned()))? else {
        refuse_erased(tx.conn)?;
        return Ok(None);
    };
    let kept: Option<Vec<u8>> = row.get(1)?;
    if !hashes().any(|hash| kept.as_deref() == Some(hash.as_slice())) {
        refuse_erased(tx.conn)?;
        return Err(Error::ClientIdReused { client_id: id.clone() });
    }
    row.get(0).map(Some)
}

impl CreateSession {
    /// Makes the session, or finds the one that the same request with its client id made.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>, caller: &Requester) -> Result<(SessionKey, bool)> {
        tx.flush()?;
        if let Some(key) = existing(tx, &self.tenant, self.client_id.as_ref())? {
            return Ok((SessionKey(key), true));
        }
        if self.keeps_erased {
            self.refuse_erased(tx)?;
        }
        // Nothing works for a session that is erased: an erasure takes or names all that do.
        if let Some(parent) = self.parent
            && tx.read_head(parent.0)?.state == SessionState::Erased
        {
            return Err(Error::SessionErased);
        }
        let bytes = described_bytes(Some(&self.title), self.metadata_json.as_deref());
        tx.admit(&self.tenant, bytes)?;
        let mut digest = Digest::default();
        let row = NewRow {
            tenant: &self.tenant,
            actor: &caller.actor,
            client_id: self.client_id.as_ref(),
            parent: self.parent.map(|parent| parent.0),
            fork: None,
            title: &self.title,
            metadata_json: self.metadata_json.as_deref(),
            window: &self.window,
            chain_hash: chain::GENESIS,
            appended_bytes: 0,
        };
        let key = insert(tx, &mut digest, row)?;
        write_policy(tx.conn, &mut digest, key, 1, &self.policy)?;
        windows::write(tx.conn, &mut digest, key, 1, &self.window)?;
        let parent = match self.parent {
            Some(parent) => Some(super::ancestry::public_id(tx.conn, parent.0)?),
            None => None,
        };
        let body = EventBody::SessionCreated { title: self.title.clone(), preset: self.policy.preset.clone(), parent };
        tx.event(key, caller, &body, &digest)?;
        starts_with(tx, key, caller, self.metadata_json.clone(), self.window.clone())?;
        tx.count(key, bytes)?;
        tx.end_mutation(key, caller, Receipt::default())?;
        Ok((SessionKey(key), false))
    }

    /// Refuses a session whose metadata name the source of one that was erased.
    fn refuse_erased(&self, tx: &Tx<'_>) -> Result<()> {
        let receipts = Receipts::new(tx.secrets.salt(), self.tenant.clone());
        let receipt = receipts.of_session(self.metadata_json.as_deref());
        match erased_content::existing_receipts(tx.conn, receipt.as_slice())?.is_empty() {
            true => Ok(()),
            false => Err(Error::SessionErased),
        }
    }
}

/// Bytes of a session's title and metadata, which count as content.
pub(super) fn described_bytes(title: Option<&str>, metadata_json: Option<&str>) -> i64 {
    let bytes = title.map_or(0, str::len) + metadata_json.map_or(0, str::len);
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Writes an event with the other initial values of a session, so that the log contains them and the chain commits to
/// them.
fn starts_with(
    tx: &mut Tx<'_>,
    key: i64,
    caller: &Requester,
    metadata_json: Option<String>,
    window: ModelWindow,
) -> Result<()> {
    let window = (window != ModelWindow::default()).then_some(window);
    if metadata_json.is_some() || window.is_some() {
        let body = EventBody::SessionUpdated { title: None, metadata_json, window };
        tx.event(key, caller, &body, &Digest::default())?;
    }
    Ok(())
}

impl UpdateSession {
    /// Changes the fields that are set. A new policy is an event of its own, because it changes views.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>, key: SessionKey, caller: &Requester) -> Result<Receipt> {
        let key = key.0;
        tx.head(key)?;
        tx.flush()?;
        if let Some(receipt) = answered(tx, key, caller)? {
            return Ok(receipt);
        }
        let head = tx.loaded(key)?;
        head.writable()?;
        head.expect(self.expected_revision)?;
        if let Some(base) = &self.policy_base
            && policy_at(&mut Reader::new(tx.conn), key, AsOf::Newest)? != *base
        {
            return Err(Error::PolicyChanged);
        }
        let bytes = described_bytes(self.title.as_deref(), self.metadata_json.as_deref());
        tx.admit_in(key, bytes)?;
        tx.count(key, bytes)?;
        if self.title.is_some() || self.metadata_json.is_some() || self.window.is_some() {
            let revision = tx.next_revision(key)?;
            let mut digest = Digest::default();
            if let Some(window) = &self.window {
                windows::write(tx.conn, &mut digest, key, revision, window)?;
            }
            let head = tx.loaded(key)?;
            if let Some(title) = &self.title {
                head.retitle(title);
            }
            if let Some(metadata_json) = &self.metadata_json {
                head.set_metadata(metadata_json);
            }
            if let Some(window) = &self.window {
                head.window = window.clone();
                // Another window can make a compaction due, or make one succeed that failed under the old window: the
                // scheduler evaluates the session. Usage under the old window may be another model's.
                head.changed(revision);
            }
            let (title, metadata_json, window) = (self.title.clone(), self.metadata_json.clone(), self.window.clone());
            let body = EventBody::SessionUpdated { title, metadata_json, window };
            tx.event(key, caller, &body, &digest)?;
        }
        if let Some(policy) = &self.policy {
            let revision = tx.next_revision(key)?;
            let mut digest = Digest::default();
            write_policy(tx.conn, &mut digest, key, revision, policy)?;
            tx.event(key, caller, &EventBody::PolicyChanged { preset: policy.preset.clone() }, &digest)?;
            let head = tx.loaded(key)?;
            head.changed(revision);
        }
        tx.end_mutation(key, caller, Receipt::default())
    }
}

/// Archives or restores a session. A repetition changes nothing. Nothing changes an archived session: its run and its
/// compactions end with it, and the scheduler evaluates it again when it is restored.
pub(crate) fn set_state(tx: &mut Tx<'_>, key: SessionKey, state: SessionState, caller: &Requester) -> Result<Receipt> {
    let key = key.0;
    tx.head(key)?;
    if let Some(receipt) = answered(tx, key, caller)? {
        return Ok(receipt);
    }
    if tx.loaded(key)?.state == SessionState::Erased {
        return Err(Error::SessionErased);
    }
    let mut sealed = Vec::new();
    if tx.loaded(key)?.state != state {
        tx.flush()?;
        let body = match state {
            SessionState::Active => {
                open_messages::restored(tx.conn, key, tx.now)?;
                approvals::restored(tx.conn, key, tx.now)?;
                EventBody::SessionRestored
            }
            SessionState::Archived => {
                sealed = runs::end(tx, key, caller, RunEndReason::Cancelled, String::new())?;
                open_messages::archived(tx.conn, key)?;
                approvals::archived(tx.conn, key)?;
                give_up_all(tx, key, caller, &claiming::archived())?;
                EventBody::SessionArchived
            }
            SessionState::Erased => return Err(Error::Bug("only an erasure erases a session")),
        };
        let at = tx.event(key, caller, &body, &Digest::default())?;
        let head = tx.loaded(key)?;
        head.state = state;
        match state {
            SessionState::Active => head.set_due(at),
            SessionState::Archived | SessionState::Erased => head.clear_due(),
        }
    }
    let receipt = tx.end_mutation(key, caller, Receipt::default())?;
    sealed.into_iter().try_for_each(|sealed| sealed.write(tx))?;
    Ok(receipt)
}

impl ForkSession {
    /// Makes the fork: one row, its flattened segments, and its first layout, policy and window.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>, from: SessionKey, caller: &Requester) -> Result<(SessionKey, bool)> {
        let parent = tx.head(from.0)?.clone();
        tx.flush()?;
        // The checks come later: what was marked since may refuse the same point.
        if let Some(key) = existing(tx, &parent.tenant, self.client_id.as_ref())? {
            return Ok((SessionKey(key), true));
        }
        if parent.state == SessionState::Erased {
            return Err(Error::SessionErased);
        }
        let ancestry = Ancestry { key: parent.key, fork_revision: parent.fork_revision, revision: parent.revision };
        let (ForkPoint { at, after }, mut marks) = self.point(tx, &ancestry)?;
        ancestry.check(at)?;
        if at == 0 {
            return Err(Error::RevisionOutOfRange { revision: at, newest: parent.revision });
        }
        let InheritedState { segments, mut layout, policy, window, hash } = inherited(tx, &ancestry, at)?;
        let mut digest = Digest::default();
        let title = if self.title.is_empty() { parent.title().to_owned() } else { self.title.clone() };
        let row = NewRow {
            tenant: &parent.tenant,
            actor: &caller.actor,
            client_id: self.client_id.as_ref(),
            parent: None,
            fork: Some((parent.key, at)),
            title: &title,
            metadata_json: None,
            window: &window,
            chain_hash: hash,
            appended_bytes: parent.appended_bytes,
        };
        let key = insert(tx, &mut digest, row)?;
        for (owner, first, last, has_messages) in segments {
            engine::query(INSERT_SEGMENT)
                .bind(key)
                .bind(owner)
                .bind(first)
                .bind(last)
                .bind(has_messages)
                .run(tx.conn)?;
            let owner = super::ancestry::public_id(tx.conn, owner)?;
            chain::segment(&mut digest, owner.0.as_bytes(), first, last, has_messages);
        }
        if let Some(after) = after {
            marks.retain(|mark| mark.revision <= at);
            let fork = Ancestry { key, fork_revision: Some(at), revision: at };
            pairing::reopen(tx, &fork, after)?;
            layout = marks::write_fork_point(tx, &mut digest, key, (at + 1, after), &mut marks)?;
        }
        layouts::write_first(tx.conn, &mut digest, key, at + 1, &layout)?;
        write_policy(tx.conn, &mut digest, key, at + 1, &policy)?;
        windows::write(tx.conn, &mut digest, key, at + 1, &window)?;
        let body = EventBody::SessionForked { from: parent.id, at, after, title };
        let revision = tx.event(key, caller, &body, &digest)?;
        starts_with(tx, key, caller, None, window)?;
        let head = tx.loaded(key)?;
        // The parent's context usage is not valid for the fork's view: the scheduler evaluates it.
        head.changed(revision);
        tx.end_mutation(key, caller, Receipt::default())?;
        Ok((SessionKey(key), false))
    }

    /// The starting point, and the marks that it was derived from, if any were needed.
    fn point(&self, tx: &mut Tx<'_>, ancestry: &Ancestry) -> Result<(ForkPoint, Vec<Mark>)> {
        let whole = |at| (ForkPoint { at, after: None }, Vec::new());
        Ok(match &self.at {
            ForkAt::Newest => whole(ancestry.revision),
            ForkAt::Revision(at) => whole(*at),
            ForkAt::Behind(id) => {
                let mut reader = Reader::new(tx.conn);
                let marks = marks::read_all(&mut reader, ancestry)?;
                (position::fork_behind(&mut reader, ancestry, &marks, id)?, marks)
            }
        })
    }
}

/// The state from which a fork at a revision starts.
struct InheritedState {
    /// Owner, first and last revision, and true if there are messages between them.
    segments: Vec<(i64, Revision, Revision, bool)>,
    layout: Layout,
    policy: PolicyText,
    window: ModelWindow,
    hash: [u8; 32],
}

/// Reads the state from which a fork at a revision starts.
fn inherited(tx: &mut Tx<'_>, ancestry: &Ancestry, at: Revision) -> Result<InheritedState> {
    let mut reader = Reader::new(tx.conn);
    let mut segments = Vec::new();
    for (segment, _) in ancestry.all_segments(&mut reader)? {
        let last = segment.last_to(at);
        if segment.first > last {
            continue;
        }
        let row = reader.always(engine::query(HAS_MESSAGES).bind(segment.owner).bind(segment.first).bind(last))?;
        segments.push((segment.owner, segment.first, last, row.get(0)?));
    }
    let layout = layouts::at(&mut reader, ancestry, at)?;
    let policy = policy_in(&mut reader, ancestry, at)?;
    let window = windows::window_in(&mut reader, ancestry, at)?;
    let owner = ancestry.owner_at(&mut reader, at)?;
    let row = reader
        .one(engine::query(EVENT_HASH).bind(owner.owner).bind(at))?
        .ok_or_else(|| Error::corrupt("event", "a revision has no event"))?;
    let hash: Vec<u8> = row.get(0)?;
    let hash = hash.try_into().map_err(|_| Error::corrupt("event", "a hash is not 32 bytes"))?;
    Ok(InheritedState { segments, layout, policy, window, hash })
}

fn from_row(row: &Row) -> Result<Session> {
    let id = |bytes: Option<Vec<u8>>| bytes.map(|bytes| codec::uuid(&bytes).map(SessionId)).transpose();
    let fork = id(row.get("fork")?)?;
    let fork_revision: Option<Revision> = row.get("fork_revision")?;
    let window = codec::decode_window(row.get("window")?)?;
    Ok(Session {
        id: SessionId(codec::uuid(row.get("public_id")?)?),
        tenant: row.get("tenant")?,
        client_id: row.get("client_id")?,
        title: row.get("title")?,
        state: SessionState::from_number(row.get("state")?)?,
        parent: id(row.get("parent")?)?,
        fork: fork.zip(fork_revision),
        preset: String::new(),
        window,
        metadata_json: row.get("metadata_json")?,
        revision: row.get("revision")?,
        history_revision: row.get("history_revision")?,
        message_count: row.get("message_count")?,
        actor: row.get("actor")?,
        labels: Vec::new(),
        usage: usage_totals(row)?,
        context: context(row)?,
        guards: guards(row)?,
        create_time: Timestamp(row.get("create_time")?),
        update_time: Timestamp(row.get("update_time")?),
        origin: origin_times(row)?,
    })
}

/// A session in its newest state with its labels; its preset is not filled in.
pub(crate) fn get(reader: &mut Reader<'_>, key: i64) -> Result<Session> {
    let row = reader.one(engine::query(SELECT).bind(key))?.ok_or_else(|| Error::not_found(Kind::Session, key))?;
    let mut session = from_row(&row)?;
    session.labels = labels::of_session(reader, key)?;
    Ok(session)
}

/// The time of a session's last change.
pub(crate) fn update_time(reader: &mut Reader<'_>, key: i64) -> Result<i64> {
    reader.one(engine::query(UPDATE_TIME).bind(key))?.ok_or_else(|| Error::not_found(Kind::Session, key))?.get(0)
}

/// A session by a scan of the table, if that finds a row that can be read.
pub(crate) fn scanned(reader: &mut Reader<'_>, key: i64) -> Option<Session> {
    let row = reader.one(engine::query(SCANNED).bind(key)).ok().flatten()?;
    let mut session = from_row(&row).ok()?;
    session.labels = labels::of_session(reader, key).unwrap_or_default();
    Some(session)
}

/// A session in its newest state, with the policy of that state.
pub(crate) fn with_policy(reader: &mut Reader<'_>, key: i64) -> Result<(Session, PolicyText)> {
    let mut session = get(reader, key)?;
    let policy = policy_at(reader, key, AsOf::At(session.revision))?;
    session.preset.clone_from(&policy.preset);
    Ok((session, policy))
}

/// The head of the log and sessions, for a reader in a transaction.
pub(crate) fn log_snapshot(reader: &mut Reader<'_>, keys: &[SessionKey]) -> Result<LogSnapshot> {
    let head = reader.one(engine::query(LOG_HEAD))?.map_or(Ok(0), |row| row.get(0))?;
    let mut sessions = Vec::with_capacity(keys.len());
    for &key in keys {
        let session = get(reader, key.0)?;
        let open = reader.all(engine::query(OPEN).bind(key.0))?;
        let open = open.iter().map(|row| row.get(0)).collect::<Result<_>>()?;
        sessions.push(SessionSnapshot {
            key,
            session,
            open,
            run: runs::newest(reader, key.0)?.filter(|run| run.end.is_none()).map(|run| run.id),
            prompts: prompts::waiting_ids(reader, key.0)?,
            approvals: approvals::waiting(reader, key.0)?,
        });
    }
    Ok(LogSnapshot { head, sessions })
}
