//! The only module with SQL: schema, writes and reads.
//!
//! The store records and reads; it decides nothing. Start at `migrations/`, then `writer`, then `messages`.

mod ahead;
mod ancestry;
mod append;
mod backup;
mod by_hand;
mod calls;
mod chain;
mod checkpoint;
mod claiming;
mod claims;
mod codec;
mod compactions;
mod copies;
mod counts;
mod doctor;
mod drafts;
mod error;
mod events;
mod expand;
mod expiry;
mod export;
mod figures;
mod files;
mod handle;
mod head;
mod health;
mod identity;
mod jobs;
mod layouts;
mod mark_cache;
mod marks;
mod messages;
mod open;
mod open_messages;
mod pairing;
mod policies;
mod position;
mod readers;
mod receipts;
mod recent;
mod requests;
mod reread;
mod restore;
mod reversals;
mod rewrites;
mod ring;
mod scheduling;
mod scrub;
mod scrub_state;
mod search;
mod sessions;
mod sources;
mod spending;
mod sqlite;
mod statistics;
#[cfg(test)]
pub(crate) mod tests;
mod tx;
mod verify;
mod windows;
mod write_state;
mod writer;

pub use append::{AppendInput, Seal};
pub use claims::{Claim, Planned};
pub use compactions::{Commit, Committed};
pub use copies::{CheckedCopy, CopyProgress, OnProgress};
pub use counts::Counted;
pub use doctor::{Diagnosis, Examined, examine};
pub use drafts::{DraftReceipt, DraftWordsToAdd};
pub use error::{Error, Kind, Result};
pub use events::{EventFilter, EventPage, PagedEvent, ScannedTo};
pub use export::{Exported, LostRow, export};
pub use figures::{COMMIT_BOUNDS_MICROS, CommitDurations, Figures};
pub use files::paths;
pub use handle::{Durability, Store};
pub use head::{Pending, Receipt, SessionKey};
pub use health::Checkpoints;
pub use jobs::{AttemptEnd, Condition, Enqueued, Evaluation, GuardRows, WindowUsage};
pub use messages::{PageOf, VIEW_BYTES, body_bytes, message_bytes};
pub use open::Options;
pub use policies::PolicyText;
pub use position::MessagePosition;
pub use recent::Newest;
#[doc(hidden)]
pub use reread::{DiskForm, reread};
pub use restore::{Restored, restore};
pub use rewrites::BranchSummary;
pub use scrub::ScrubOptions;
pub use scrub_state::ScrubState;
pub use search::{Lookup, Unindexed};
pub use sessions::{
    CreateSession, ForkAt, ForkSession, LogSnapshot, NewClientId, SessionPage, SessionSnapshot, UpdateSession,
};
pub use sources::{NewMessages, Source};
pub use spending::Spent;
pub use statistics::{CompactionCounter, Statistics};
pub use tx::{RequestKey, Requester};
pub use verify::{Checked, Finding};
pub use write_state::WriteState;

use crate::model::changes::SummaryChange;
use crate::model::compaction::{Compaction, CompactionRequest, Failure, RevisionRange};
use crate::model::event::{Event, EventKind};
use crate::model::ids::{CompactionId, MessageId, PartId, SessionId};
use crate::model::message::Message;
use crate::model::part::NewPart;
use crate::model::session::Session;
use crate::model::time::Timestamp;
use crate::model::view::Counts;
use crate::model::{Revision, Seq};
use crate::telemetry::span;
use ancestry::Ancestry;
use std::collections::HashMap;
use tokio::sync::mpsc;
use uuid::Uuid;
use writer::Mutation;

/// A draft of an open message: its id, true for reasoning, its text so far.
pub type DraftWords = (PartId, bool, String);

impl Store {
    // ---- sessions ----

    /// Finds a session by its id or its client's id.
    pub async fn find_session(&self, id: &str) -> Result<SessionKey> {
        self.brief(|reader| {
            let key = SessionKey(ancestry::find(reader, id)?.key);
            if span::records_session() {
                span::record("session", ancestry::public_id(reader.conn, key.0)?);
            }
            Ok(key)
        })
        .await
    }

    /// A session in its newest state, with its policy.
    pub async fn session(&self, key: SessionKey) -> Result<(Session, PolicyText)> {
        self.brief(|reader| sessions::with_policy(reader, key.0)).await
    }

    /// The last revision that a session's history shares with a session that it was forked from, directly or not; none
    /// if it was not.
    pub async fn shared_with(&self, session: SessionKey, other: SessionId) -> Result<Option<Revision>> {
        self.reading(|reader| ancestry::shared_with(reader, session.0, other)).await
    }

    /// A session's id.
    pub async fn session_id(&self, key: SessionKey) -> Result<SessionId> {
        self.brief(|reader| ancestry::public_id(reader.conn, key.0)).await
    }

    /// A page of sessions, newest first. Large sessions can make a page shorter.
    pub async fn list_sessions(
        &self,
        below: i64,
        archived: bool,
        parent: Option<SessionKey>,
        limit: i64,
    ) -> Result<SessionPage> {
        self.reading(|reader| sessions::page(reader, below, archived, parent, limit)).await
    }

    /// Makes a session; true if it existed.
    pub async fn create_session(&self, create: CreateSession, caller: Requester) -> Result<(SessionKey, bool)> {
        self.write(Mutation::session("create"), move |tx| create.clone().apply(tx, &caller)).await
    }

    /// The answer to an earlier request with the same id, if there was one.
    pub async fn kept_answer(&self, key: SessionKey, caller: &Requester) -> Result<Option<Receipt>> {
        self.brief(|reader| receipts::kept_answer(reader, key.0, caller)).await
    }

    /// Changes a session.
    pub async fn update_session(&self, key: SessionKey, update: UpdateSession, caller: Requester) -> Result<Receipt> {
        self.write(Mutation::change("update"), move |tx| update.clone().apply(tx, key, &caller)).await
    }

    /// Archives or restores a session.
    pub async fn archive_session(&self, key: SessionKey, restore: bool, caller: Requester) -> Result<Receipt> {
        self.write(Mutation::change("archive"), move |tx| sessions::archive(tx, key, restore, &caller)).await
    }

    /// Forks a session; true if the fork existed.
    pub async fn fork_session(
        &self,
        key: SessionKey,
        fork: ForkSession,
        caller: Requester,
    ) -> Result<(SessionKey, bool)> {
        self.write(Mutation::change("fork"), move |tx| fork.clone().apply(tx, key, &caller)).await
    }

    // ---- appends ----

    /// Appends all messages or none.
    pub async fn append(
        &self,
        session: SessionKey,
        caller: Requester,
        expected_revision: Option<Revision>,
        messages: Vec<AppendInput>,
    ) -> Result<Receipt> {
        let messages = messages.into_iter().map(|message| append::encode(message, &caller.actor)).collect();
        let append = append::Append { session, caller, expected_revision, messages };
        self.write(Mutation::content("append", append.bytes()), move |tx| append.clone().apply(tx)).await
    }

    /// Adds closed parts to an open message, or closes drafts of it.
    pub async fn append_parts(
        &self,
        session: SessionKey,
        caller: Requester,
        message: MessageId,
        parts: Vec<OpenPart>,
    ) -> Result<Receipt> {
        let parts = parts
            .into_iter()
            .map(|part| match part {
                OpenPart::Whole(part) => append::encode_new_part(&part),
                OpenPart::Draft(id, metadata_json) => append::AppendPart::Draft(id, metadata_json),
            })
            .collect();
        let append = append::AppendParts { session, caller, message, parts };
        let bytes = append.bytes();
        // Without parts it only keeps the message open.
        let mutation = match bytes {
            0 => Mutation::derived("append_parts", 0),
            bytes => Mutation::content("append_parts", bytes),
        };
        self.write(mutation, move |tx| append.clone().apply(tx)).await
    }

    /// Adds text to a draft, once. Without a part id it begins a draft, once for each client id.
    pub async fn append_draft(
        &self,
        session: SessionKey,
        message: MessageId,
        words: DraftWordsToAdd,
    ) -> Result<DraftReceipt> {
        let append = drafts::AppendDraft { session, message, words };
        self.write(Mutation::content("append_draft", 0), move |tx| append.clone().apply(tx)).await
    }

    /// Seals an open message.
    pub async fn finish_message(
        &self,
        session: SessionKey,
        caller: Requester,
        message: MessageId,
        seal: Seal,
    ) -> Result<Receipt> {
        let finish = append::FinishMessage { session, caller, message, seal, has_expired: false };
        self.write(Mutation::content("finish", 0), move |tx| finish.clone().apply(tx)).await
    }

    // ---- history ----

    /// A message by its id or its client's id, as it was written.
    pub async fn message(&self, session: SessionKey, id: &str) -> Result<Message> {
        self.reading(|reader| {
            let ancestry = ancestry::by_key(reader, session.0)?;
            messages::get(reader, &ancestry, id)
        })
        .await
    }

    /// The message that an event concerns, in its newest state.
    pub async fn message_of(&self, event: &Event) -> Result<Option<Message>> {
        let Some(id) = event.body.message() else { return Ok(None) };
        self.reading(|reader| {
            let ancestry = ancestry::find(reader, &event.session_id.to_string())?;
            messages::get(reader, &ancestry, &id.to_string()).map(Some)
        })
        .await
    }

    /// The id of the message with this id or client's id.
    pub async fn message_id(&self, session: SessionKey, id: &str) -> Result<MessageId> {
        self.reading(|reader| {
            let ancestry = ancestry::by_key(reader, session.0)?;
            messages::id_of(reader, &ancestry, id)
        })
        .await
    }

    /// The drafts of an open message.
    pub async fn drafts(&self, message: MessageId) -> Result<Vec<DraftWords>> {
        self.reading(|reader| messages::drafts(reader, message)).await
    }

    /// A page of history, the beginning of the next one, and the revision that was read. For a page of the newest
    /// revision, `at` is `i64::MAX`.
    pub async fn page(&self, session: SessionKey, page: PageOf) -> Result<(Vec<Message>, Option<Revision>, Revision)> {
        self.reading(|reader| {
            let ancestry = ancestry::by_key(reader, session.0)?;
            let at = if page.at == i64::MAX { ancestry.revision } else { page.at };
            ancestry.check(at)?;
            let (messages, next) =
                messages::page(reader, &ancestry, &PageOf { at, from: page.from.min(at + 1), ..page })?;
            Ok((messages, next, at))
        })
        .await
    }

    /// The revision of the newest record among a session's own rows.
    pub async fn newest_record(&self, session: SessionKey) -> Result<Option<Revision>> {
        self.reading(|reader| messages::newest_record(reader, session.0)).await
    }

    /// The stored counts of these messages, by the name of a counting.
    pub async fn counts(&self, counting: &str, messages: Vec<MessageId>) -> Result<HashMap<MessageId, Counts>> {
        self.reading(|reader| counts::kept(reader, counting, &messages)).await
    }

    /// Stores the counts of sealed messages.
    pub async fn keep_counts(&self, counts: Vec<(MessageId, Counted)>) -> Result<()> {
        self.write(Mutation::derived("keep_counts", 0), move |tx| counts::keep(tx.conn, &counts)).await
    }

    // ---- search ----

    /// The next of a session's own messages that are not in the index; none if all are.
    pub async fn unindexed(&self, session: SessionKey) -> Result<Option<Unindexed>> {
        self.reading(|reader| search::unindexed(reader, session.0)).await
    }

    /// Adds messages to the index, with the words of each; does nothing if they were indexed meanwhile.
    pub async fn add_words(&self, batch: Unindexed, words: Vec<Vec<String>>) -> Result<()> {
        let add = search::AddWords::new(&batch, words);
        self.write(Mutation::derived("add_words", add.bytes()), move |tx| add.clone().apply(tx)).await
    }

    /// The revision up to which a session's own messages are in the index.
    pub async fn indexed_to(&self, session: SessionKey) -> Result<Revision> {
        self.reading(|reader| search::progress(reader, session.0)).await
    }

    /// A page of the sessions with unindexed messages, by key.
    pub async fn behind_in_index(&self, after: SessionKey, limit: i64) -> Result<Vec<SessionKey>> {
        self.reading(|reader| search::behind(reader, after.0, limit)).await
    }

    /// The owners whose messages must be indexed, each with the revision up to which, before a history can be searched
    /// in these ranges for messages that were sealed by a revision. Only owners with unindexed messages are listed.
    pub async fn to_index(
        &self,
        session: SessionKey,
        ranges: &[RevisionRange],
        sealed_by: Revision,
    ) -> Result<Vec<(SessionKey, Revision)>> {
        self.reading(|reader| {
            let ancestry = ancestry::by_key(reader, session.0)?;
            search::owners(reader, &ancestry, ranges, sealed_by)
        })
        .await
    }

    /// For each word of a look-up, the messages of a history that contain it, newest first.
    pub async fn matches(&self, session: SessionKey, lookup: &Lookup) -> Result<Vec<Vec<Revision>>> {
        self.reading(|reader| {
            let ancestry = ancestry::by_key(reader, session.0)?;
            search::matches(reader, &ancestry, lookup)
        })
        .await
    }

    /// Messages of a history as of a revision, in the given order. Messages that exceed `bytes` are left out, except
    /// for the first.
    pub async fn messages_at(
        &self,
        session: SessionKey,
        at: Revision,
        revisions: &[Revision],
        bytes: usize,
    ) -> Result<Vec<Message>> {
        self.reading(|reader| {
            let ancestry = ancestry::by_key(reader, session.0)?;
            messages::at_revisions(reader, &ancestry, revisions, at, bytes)
        })
        .await
    }

    // ---- rewrites ----

    async fn rewrite(
        &self,
        session: SessionKey,
        caller: Requester,
        expected_revision: Option<Revision>,
        change: rewrites::Change,
    ) -> Result<Receipt> {
        let rewrite = rewrites::Rewrite { session, caller, expected_revision, change };
        self.write(Mutation::change("rewrite"), move |tx| rewrite.clone().apply(tx)).await
    }

    /// Omits everything after a message, or all messages. The receipt's id is that of the summary, if there is one.
    pub async fn rewind(
        &self,
        session: SessionKey,
        caller: Requester,
        expected_revision: Option<Revision>,
        message: Option<String>,
        summary: Option<BranchSummary>,
    ) -> Result<Receipt> {
        self.rewrite(session, caller, expected_revision, rewrites::Change::Rewind { message, summary }).await
    }

    /// Replaces a message by another. The receipt's id is the new message's.
    pub async fn edit(
        &self,
        session: SessionKey,
        caller: Requester,
        expected_revision: Option<Revision>,
        message: String,
        parts: &[NewPart],
    ) -> Result<Receipt> {
        let parts = parts.iter().map(|part| (part.clone(), tx::PartInput::from_client(part))).collect();
        self.rewrite(session, caller, expected_revision, rewrites::Change::Edit { message, parts }).await
    }

    /// Pins or unpins a message. A pinned message is verbatim in every view.
    pub async fn pin(&self, session: SessionKey, caller: Requester, message: String, unpin: bool) -> Result<Receipt> {
        let change = if unpin { rewrites::Change::Unpin { message } } else { rewrites::Change::Pin { message } };
        self.rewrite(session, caller, None, change).await
    }

    /// Undoes the newest active change of the view. The event of the receipt's revision names it.
    pub async fn undo(
        &self,
        session: SessionKey,
        caller: Requester,
        expected_revision: Option<Revision>,
    ) -> Result<Receipt> {
        self.rewrite(session, caller, expected_revision, rewrites::Change::Undo).await
    }

    /// Redoes the change that was undone last. The event of the receipt's revision names it.
    pub async fn redo(
        &self,
        session: SessionKey,
        caller: Requester,
        expected_revision: Option<Revision>,
    ) -> Result<Receipt> {
        self.rewrite(session, caller, expected_revision, rewrites::Change::Redo).await
    }

    // ---- events ----

    /// Events after `after`, up to `head`.
    pub async fn tail(&self, filter: &EventFilter, after: Seq, head: Seq) -> Result<EventPage> {
        if let Some(page) = events::newest(&self.shared.ring, filter, after, head)? {
            return Ok(page);
        }
        // Not in the task's own thread: a thousand streams would keep all others from it.
        self.reading(|reader| events::tail(reader, filter, after, head)).await
    }

    /// Events of a history by revision, and the event after which the next page begins. A page scans a limited number
    /// of events, so it may be empty before the end.
    pub async fn history_events(
        &self,
        session: SessionKey,
        kinds: &[EventKind],
        range: (Revision, Revision),
        limit: i64,
    ) -> Result<(Vec<Event>, Option<ScannedTo>)> {
        self.reading(|reader| {
            let ancestry = ancestry::by_key(reader, session.0)?;
            events::of_history(reader, &ancestry, kinds, range, limit)
        })
        .await
    }

    /// The hash of the event with this number.
    pub async fn hash_at_seq(&self, seq: Seq) -> Result<Option<Vec<u8>>> {
        if let Some(hash) = self.shared.ring.hash_at(seq) {
            return Ok(Some(hash.to_vec()));
        }
        self.brief(|reader| events::hash_at_seq(reader, seq)).await
    }

    /// The revision, in a session's history, of the event with this number; none if it is not part of that history.
    pub async fn revision_of(&self, session: SessionKey, seq: Seq) -> Result<Option<Revision>> {
        self.reading(|reader| {
            let ancestry = ancestry::by_key(reader, session.0)?;
            let Some((owner, revision)) = events::position_of(reader, seq)? else { return Ok(None) };
            let segment = ancestry.contains(reader, owner, revision)?;
            Ok(segment.map(|_| revision))
        })
        .await
    }

    /// The head of the log and sessions, as they were after its newest event.
    pub async fn log_snapshot(&self, sessions: &[SessionKey]) -> Result<LogSnapshot> {
        self.snapshot(|reader| sessions::log_snapshot(reader, sessions)).await
    }

    /// The event of a revision of a session's history; none if there is no such revision.
    pub async fn event_at(&self, session: SessionKey, revision: Revision) -> Result<Option<Event>> {
        self.reading(|reader| {
            let ancestry = ancestry::by_key(reader, session.0)?;
            events::at(reader, &ancestry, revision)
        })
        .await
    }

    /// The chain's hash at a revision; none for the newest. Returns that revision with it.
    pub async fn chain_hash(
        &self,
        session: SessionKey,
        revision: Option<Revision>,
    ) -> Result<(Revision, Option<Vec<u8>>)> {
        self.reading(|reader| {
            let ancestry: Ancestry = ancestry::by_key(reader, session.0)?;
            let revision = revision.unwrap_or(ancestry.revision);
            Ok((revision, events::hash_at(reader, &ancestry, revision)?))
        })
        .await
    }

    /// Checks one session's chain, or all chains and the log, against the rows; findings are sent to `found` as they
    /// occur.
    pub async fn verify(&self, session: Option<SessionKey>, found: mpsc::Sender<Finding>) -> Result<Checked> {
        verify::run(&self.shared.readers, session.map(|session| session.0), &found, &|_| {}).await
    }

    /// Statistics of the compactions in the whole store, as of an instant.
    pub async fn statistics(&self, now: Timestamp) -> Result<Statistics> {
        self.reading(|reader| statistics::statistics(reader, now)).await
    }

    /// Usage and cost of requests to models, by summarizer and model.
    pub async fn spent(&self) -> Result<Vec<Spent>> {
        self.reading(spending::spent).await
    }

    /// The number of sessions.
    pub async fn session_count(&self) -> Result<i64> {
        self.reading(verify::session_count).await
    }
}

/// A part that joins an open message.
#[derive(Debug, Clone, PartialEq)]
pub enum OpenPart {
    /// A part with its body.
    Whole(NewPart),
    /// A draft that closes with its text so far, with optional metadata.
    Draft(PartId, Option<String>),
}

/// A finished summary that a client supplies.
pub struct SuppliedSummary {
    /// The session.
    pub session: SessionKey,
    /// The caller that supplies it.
    pub caller: Requester,
    /// Refuse if history, marks, policy or window changed after this revision.
    pub expected_revision: Option<Revision>,
    /// The summary and the ranges that it covers.
    pub summary: SummaryChange,
    /// True if no message or call before the tail is still open.
    pub boundary_is_safe: bool,
    /// The last revision that the summary may cover.
    pub until: Revision,
    /// The revision at which the view was measured.
    pub measured_at: Revision,
    /// Tokens of the view before, by the policy's estimate.
    pub tokens_before: i64,
    /// Tokens of the view after, by the same estimate.
    pub tokens_after: i64,
}
