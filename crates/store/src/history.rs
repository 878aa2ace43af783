//! Messages and the marks that clients put on them: appends, drafts, reads, rewrites.

use super::checked::CheckedInput;
use super::error::{Error, Result};
use super::ledger::append::{self, AppendInput, Seal};
use super::ledger::by_client_id;
use super::ledger::conversation;
use super::ledger::draft_batch::{AppendDrafts, DraftsWritten};
use super::ledger::drafts::{self, DraftReceipt, NewDraftText};
use super::ledger::encoded::EncodedMessage;
use super::ledger::head::{Receipt, SessionKey};
use super::ledger::messages::{self, PageOf};
use super::ledger::open_drafts::OpenPart;
use super::ledger::position::{self, MessagePosition};
use super::ledger::replace::{self, AppendChanges};
use super::ledger::rewrites::{self, BranchSummary, NewEdit};
use super::ledger::tx::{self, Requester};
use super::ledger::{ancestry, expand, statuses};
use super::shared::StoreParts;
use super::writer::Mutation;
use crate::background;
use crate::limits;
use crate::model::Revision;
use crate::model::draft::Draft;
use crate::model::event::Event;
use crate::model::ids::{MessageId, PartId};
use crate::model::mark::WordsStance;
use crate::model::message::{Message, MessageStatus};
use crate::model::part::NewPart;
use std::sync::{Arc, LazyLock};
use tokio::sync::Semaphore;

/// Messages and the marks that clients put on them: appends, drafts, reads, rewrites.
#[derive(Clone)]
pub struct History(pub(super) Arc<StoreParts>);

/// Threads that encode the other half of an append: the calls that have their turns share the processors with these.
static ASIDE: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(background::count()));

impl History {
    /// Appends all messages or none, with what belongs to the same mutation.
    pub async fn append(
        &self,
        session: SessionKey,
        caller: Requester,
        expected_revision: Option<Revision>,
        append: CheckedInput<(Vec<AppendInput>, AppendChanges)>,
    ) -> Result<Receipt> {
        let ((messages, with), caller) = append.with_author(caller);
        let messages = self.encoded(messages, &caller).await?;
        let append = append::Append { session, caller, expected_revision, messages };
        let bytes = append.bytes();
        if with.is_empty() {
            return self.0.write(Mutation::content("append", bytes), move |tx| append.apply(tx)).await;
        }
        let replace = replace::Replace { append, with };
        self.0.write(Mutation::content_and_change("append", bytes), move |tx| replace.apply(tx)).await
    }

    /// The messages of an append, ready to be written. One that is long enough is encoded by two threads, if one is free,
    /// since the writer waits for all of it.
    async fn encoded(&self, mut messages: Vec<AppendInput>, caller: &Requester) -> Result<Vec<EncodedMessage>> {
        let encode = |store: &StoreParts, messages: Vec<AppendInput>, caller: &Requester| {
            messages.into_iter().map(|message| append::encode(message, caller, store.secrets.salt())).collect()
        };
        let sizes: Vec<i64> = messages.iter().map(AppendInput::growth_bytes).collect();
        let half = sizes.iter().sum::<i64>() / 2;
        let is_long = half >= limits::ENCODED_ASIDE_BYTES_MIN && sizes.len() > 1;
        let Some(place) = is_long.then(|| ASIDE.try_acquire().ok()).flatten() else {
            return Ok(encode(&self.0, messages, caller));
        };
        let mut before = 0;
        let is_before = |size: &&i64| {
            before += **size;
            before <= half
        };
        let behind = messages.split_off(sizes.iter().take_while(is_before).count().max(1));
        let (store, with) = (Arc::clone(&self.0), caller.clone());
        let aside = tokio::task::spawn_blocking(move || {
            let encoded = encode(&store, behind, &with);
            // It is taken as long as the work lasts, even if nobody waits for it any more.
            drop(place);
            encoded
        });
        let mut encoded: Vec<EncodedMessage> = encode(&self.0, messages, caller);
        encoded.extend(aside.await.map_err(|_| Error::Bug("messages were not encoded"))?);
        Ok(encoded)
    }

    /// Adds closed parts to an open message, or closes drafts of it.
    pub async fn append_parts(
        &self,
        session: SessionKey,
        caller: Requester,
        message: MessageId,
        parts: CheckedInput<Vec<OpenPart>>,
    ) -> Result<Receipt> {
        let (parts, caller) = parts.with_author(caller);
        let parts = parts
            .into_iter()
            .map(|part| match part {
                OpenPart::Whole(part) => append::encode_new_part(&part),
                OpenPart::Ended(end) => append::AppendPart::Draft(end),
            })
            .collect();
        let append = append::AppendParts { session, caller, message, parts };
        let bytes = append.bytes();
        // Without parts it only keeps the message open.
        let mutation = match bytes {
            0 => Mutation::derived("append_parts", 0),
            bytes => Mutation::content("append_parts", bytes),
        };
        self.0.write(mutation, move |tx| append.apply(tx)).await
    }

    /// Adds text to a draft, once. Without a part id it begins a draft, once for each client id.
    pub async fn append_draft(
        &self,
        session: SessionKey,
        caller: &Requester,
        message: MessageId,
        words: NewDraftText,
    ) -> Result<DraftReceipt> {
        let append = drafts::AppendDraft { session, message, epoch: caller.epoch, words, resumes: false };
        self.0
            .write(Mutation::content("append_draft", 0), move |tx| {
                append.apply(tx, &mut drafts::DraftMessage::default())
            })
            .await
    }

    /// Adds text to drafts that the caller names by their client ids, each text once, up to the first that is refused.
    pub async fn append_drafts(
        &self,
        session: SessionKey,
        caller: &Requester,
        message: MessageId,
        words: Vec<NewDraftText>,
    ) -> Result<DraftsWritten> {
        let append = AppendDrafts { session, message, epoch: caller.epoch, words };
        let mutation = Mutation::content("append_drafts", append.bytes());
        self.0.write(mutation, move |tx| append.apply(tx)).await
    }

    /// Seals an open message.
    pub async fn finish(
        &self,
        session: SessionKey,
        caller: Requester,
        message: MessageId,
        seal: CheckedInput<Seal>,
    ) -> Result<Receipt> {
        let (seal, caller) = seal.with_author(caller);
        let finish = append::FinishMessage { session, caller, message, seal, has_expired: false };
        self.0.write(Mutation::content("finish", 0), move |tx| finish.apply(tx)).await
    }

    /// A message by its id or its client's id, as it was written.
    pub async fn get(&self, session: SessionKey, id: &str) -> Result<Message> {
        self.0
            .snapshot(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                messages::get(reader, &ancestry, id)
            })
            .await
    }

    /// A message by its id or its client's id, as it was written, with its drafts while it is open.
    pub async fn with_drafts(&self, session: SessionKey, id: &str) -> Result<(Message, Vec<Draft>)> {
        self.0
            .snapshot(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                let message = messages::get(reader, &ancestry, id)?;
                let drafts = match message.sealed_revision {
                    Some(_) => Vec::new(),
                    None => messages::drafts(reader, message.id)?,
                };
                Ok((message, drafts))
            })
            .await
    }

    /// Messages by their ids or their clients' ids, in this order, as they were written: as many of the first ones as a
    /// page has. An error if one of them does not exist.
    pub async fn batch(&self, session: SessionKey, ids: &[String]) -> Result<Vec<Message>> {
        self.0
            .snapshot(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                messages::batch(reader, &ancestry, ids)
            })
            .await
    }

    /// The statuses of messages of a history as of a revision, or of the newest one, in their order.
    pub async fn statuses(
        &self,
        session: SessionKey,
        at: Option<Revision>,
        messages: &[Message],
    ) -> Result<Vec<MessageStatus>> {
        self.0
            .reading(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                statuses::read(reader, &ancestry, at.unwrap_or(ancestry.revision), messages)
            })
            .await
    }

    /// The message that an event concerns, in its newest state.
    pub async fn of_event(&self, event: &Event) -> Result<Option<Arc<Message>>> {
        let Some(id) = event.body.message() else { return Ok(None) };
        let ring = &self.0.ring;
        let begun = ring.messages.begin();
        if let Some(message) = ring.messages.get(id) {
            self.0.engine.check_owned()?;
            return Ok(Some(message));
        }
        let read = self.0.snapshot(|reader| {
            // Many streams wait for a reader with the same event.
            if let Some(message) = ring.messages.get(id) {
                return Ok(message);
            }
            let ancestry = ancestry::by_id(reader, event.session_id)?;
            let message = Arc::new(messages::get(reader, &ancestry, &id.to_string())?);
            // Those of old events would take the place of what others are about to read.
            if ring.has(event.seq) {
                ring.messages.keep(begun, &message);
            }
            Ok(message)
        });
        read.await.map(Some)
    }

    /// The id of the message with this id or client's id.
    pub async fn id(&self, session: SessionKey, id: &str) -> Result<MessageId> {
        self.0
            .reading(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                Ok(messages::header(reader, &ancestry, id)?.id)
            })
            .await
    }

    /// The provider and the model that a message names as its author; empty where it names none.
    pub async fn author(&self, session: SessionKey, id: &str) -> Result<(String, String)> {
        self.0
            .reading(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                let message = messages::header(reader, &ancestry, id)?;
                Ok((message.provider, message.model))
            })
            .await
    }

    /// The drafts of an open message.
    pub async fn drafts(&self, message: MessageId) -> Result<Vec<Draft>> {
        self.0.reading(|reader| messages::drafts(reader, message)).await
    }

    /// A page of history, the beginning of the next one, and the revision that was read.
    pub async fn page(&self, session: SessionKey, page: PageOf) -> Result<(Vec<Message>, Option<Revision>, Revision)> {
        self.0
            .snapshot(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                messages::page(reader, &ancestry, &page)
            })
            .await
    }

    /// The same of the messages whose clients' ids begin with a prefix, in the order of these ids.
    pub async fn page_by_client_id(
        &self,
        session: SessionKey,
        prefix: &str,
        page: PageOf,
    ) -> Result<(Vec<Message>, Option<Revision>, Revision)> {
        self.0
            .snapshot(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                by_client_id::page(reader, &ancestry, prefix, &page)
            })
            .await
    }

    /// The revision of the newest record among a session's own rows.
    pub async fn newest_record(&self, session: SessionKey) -> Result<Option<Revision>> {
        self.0.reading(|reader| conversation::newest_record(reader, session.0)).await
    }

    /// Messages of a history as of a revision, in the given order. Messages that exceed `bytes` are left out, except
    /// for the first.
    pub async fn at_revisions(
        &self,
        session: SessionKey,
        at: Revision,
        revisions: &[Revision],
        bytes: usize,
    ) -> Result<Vec<Message>> {
        self.0
            .snapshot(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                messages::at_revisions(reader, &ancestry, revisions, at, bytes)
            })
            .await
    }

    /// The position in the current conversation of a message by an id; an error if a rewind removed it.
    pub async fn position(&self, session: SessionKey, id: &str) -> Result<MessagePosition> {
        self.0
            .reading(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                position::of_message(reader, &ancestry, id)
            })
            .await
    }

    /// The message of a history that contains a part, with that part alone; none if no message of it has the part.
    pub async fn part(&self, session: SessionKey, id: PartId) -> Result<Option<Message>> {
        self.0
            .snapshot(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                expand::part(reader, &ancestry, id)
            })
            .await
    }

    /// The message that an edit or a replay replaces; none for any other message.
    pub async fn replaced(&self, session: SessionKey, derived: Revision) -> Result<Option<Message>> {
        self.0
            .snapshot(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                expand::replaced(reader, &ancestry, derived)
            })
            .await
    }

    async fn rewrite(
        &self,
        session: SessionKey,
        caller: Requester,
        expected_revision: Option<Revision>,
        change: rewrites::Change,
    ) -> Result<Receipt> {
        let rewrite = rewrites::Rewrite { session, caller, expected_revision, change };
        self.0.write(Mutation::change("rewrite"), move |tx| rewrite.apply(tx)).await
    }

    /// Omits everything after a message, or all messages. The receipt's id is that of the summary, if there is one.
    pub async fn rewind(
        &self,
        session: SessionKey,
        caller: Requester,
        expected_revision: Option<Revision>,
        message: Option<String>,
        summary: CheckedInput<Option<BranchSummary>>,
    ) -> Result<Receipt> {
        let (summary, caller) = summary.with_author(caller);
        self.rewrite(session, caller, expected_revision, rewrites::Change::Rewind { message, summary }).await
    }

    /// Replaces a message by another. The receipt's id is the new message's.
    pub async fn edit(
        &self,
        session: SessionKey,
        caller: Requester,
        expected_revision: Option<Revision>,
        edit: CheckedInput<NewEdit>,
    ) -> Result<Receipt> {
        let (NewEdit { message, parts, metadata_json, keeps_erased }, caller) = edit.with_author(caller);
        let encoded = |part: NewPart| {
            let input = tx::PartInput::from_client(&part);
            (part, input)
        };
        let parts = parts.into_iter().map(encoded).collect();
        let replacement = rewrites::Replacement { parts, metadata_json, keeps_erased };
        self.rewrite(session, caller, expected_revision, rewrites::Change::Edit { message, replacement }).await
    }

    /// Pins a message, so that every view shows it verbatim.
    pub async fn pin(&self, session: SessionKey, caller: Requester, message: String) -> Result<Receipt> {
        self.rewrite(session, caller, None, rewrites::Change::Pin { message }).await
    }

    /// Removes the pin of a message.
    pub async fn unpin(&self, session: SessionKey, caller: Requester, message: String) -> Result<Receipt> {
        self.rewrite(session, caller, None, rewrites::Change::Unpin { message }).await
    }

    /// Decides what becomes of a message's words beside summaries.
    pub async fn mark_words(
        &self,
        session: SessionKey,
        caller: Requester,
        message: String,
        stance: Option<WordsStance>,
    ) -> Result<Receipt> {
        self.rewrite(session, caller, None, rewrites::Change::Words { message, stance }).await
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
}
