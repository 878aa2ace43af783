//! Appends of messages and parts, and seals; `drafts` has the text of open parts. Writers interleave: only
//! `expected_revision`, if a client sends it, is a precondition.

use super::chain::{self, Digest};
use super::codec;
use super::counts::MessageCounts;
use super::encoded::{EncodedMessage, keep_erased};
use super::erased_content::{self, Receipts};
use super::head::{Head, Receipt, SessionKey};
use super::open_drafts::{ClosedDraft, DraftEnd, DraftName, NamedDraft, OpenDraft, open_drafts};
use super::pairing::{self, NamedCalls, TargetMessage, names_calls};
use super::receipts::{admitted, answered};
use super::tx::{MessageInput, PartInput, Requester, Tx};
use super::{events, messages, open_messages, received};
use crate::engine::{self, List};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::Revision;
use crate::model::event::EventBody;
use crate::model::ids::{MessageId, PartId, SessionId};
use crate::model::message::{Finish, FinishReason, GivenView, Message, MessageKind, NewMessage, Role};
use crate::model::part::{Answers, NewPart, Part, PartBody, ResultStatus, are_notes};
use crate::model::time::Timestamp;
use crate::model::view::SourceMessage;
use crate::secrets::{Hit, Salt};
use std::collections::HashSet;
use std::sync::Arc;
use uuid::Uuid;

/// A message that a client appends.
pub struct AppendInput {
    /// The message.
    pub message: NewMessage<Option<GivenView>>,
    /// The token counts to store; none unless it is sealed and the policy counts with a tokenizer.
    pub token_counts: Option<MessageCounts>,
    /// True if it reports that a provider refused the view as too large.
    pub reports_overflow: bool,
    /// The salted digest of its metadata and the details of its end as they were received, if they were changed since.
    pub received: Option<[u8; 32]>,
    /// True if what was erased of it before stays erased.
    pub keeps_erased: bool,
}

impl AppendInput {
    /// The bytes by which the message lets a history grow.
    pub(crate) fn growth_bytes(&self) -> i64 {
        self.message.parts.iter().map(|part| part.body.growth_bytes()).sum()
    }
}

/// The end of a message.
#[derive(Clone)]
pub struct Seal {
    /// The end as the client reported it.
    pub finish: Finish,
    /// True if it reports that a provider refused the view as too large.
    pub reports_overflow: bool,
}

#[derive(Clone)]
pub(crate) struct Append {
    pub(crate) session: SessionKey,
    pub(crate) caller: Requester,
    pub(crate) expected_revision: Option<Revision>,
    pub(crate) messages: Vec<EncodedMessage>,
}

/// Adds closed parts to an open message.
#[derive(Clone)]
pub(crate) struct AppendParts {
    pub(crate) session: SessionKey,
    pub(crate) caller: Requester,
    pub(crate) message: MessageId,
    pub(crate) parts: Vec<AppendPart>,
}

/// One part of an append.
#[derive(Clone)]
pub(crate) enum AppendPart {
    /// A part with its body.
    Whole(Box<WholePart>),
    /// A draft that closes with its text so far.
    Draft(DraftEnd),
}

/// A part as the client sent it, for comparison with an existing one, and encoded.
#[derive(Clone)]
pub(crate) struct WholePart {
    original: NewPart,
    input: PartInput,
}

/// Seals an open message.
#[derive(Clone)]
pub(crate) struct FinishMessage {
    pub(crate) session: SessionKey,
    pub(crate) caller: Requester,
    pub(crate) message: MessageId,
    pub(crate) seal: Seal,
    /// True if the daemon seals the message because its writer stopped writing.
    pub(crate) has_expired: bool,
}

// Of the versions of a record, the newest counts.
const SELECT_CLIENTS: &str = "select m.client_id, m.public_id from rarray(?2) wanted \
     join message m on m.session_id = ?1 and m.client_id = wanted.value \
     and m.revision = (select max(n.revision) from message n where n.session_id = ?1 and n.client_id = wanted.value)";
const SELECT_INHERITED: &str = "select m.client_id, m.public_id from segment s cross join rarray(?2) wanted \
     join message m on m.session_id = s.owner_id and m.client_id = wanted.value \
     and m.revision = (select max(n.revision) from message n where n.session_id = s.owner_id \
     and n.client_id = wanted.value and n.revision between s.first_revision and s.last_revision) \
     where s.session_id = ?1 and s.has_messages = 1 and m.sealed_revision <= s.last_revision \
     order by s.last_revision";
const DELETE_DRAFTS: &str = "delete from draft where message_id = ?1";
const DELETE_DRAFT: &str = "delete from draft where message_id = ?1 and number = ?2";
const UPDATE_SEALED: &str =
    "update message set sealed_revision = ?2, seal = ?3 where id = ?1 and sealed_revision is null";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[SELECT_CLIENTS, SELECT_INHERITED, DELETE_DRAFTS, DELETE_DRAFT, UPDATE_SEALED];

/// The receipt with the session's current state, for new and repeated requests alike.
pub(crate) fn with_current_state(tx: &mut Tx<'_>, key: i64, receipt: Receipt) -> Result<Receipt> {
    let head = tx.loaded(key)?;
    let (newest, pending, appended_bytes) = (head.revision, head.pending(), head.appended_bytes);
    Ok(Receipt { newest, pending, appended_bytes, ..receipt })
}

/// For each message, the existing message of the session's history with the same client id: of a record, the newest
/// version.
fn existing_messages(tx: &mut Tx<'_>, key: i64, messages: &[EncodedMessage]) -> Result<Vec<Option<Uuid>>> {
    let wanted: Vec<&str> = messages.iter().filter_map(|message| message.original.client_id.as_deref()).collect();
    let mut existing = vec![None; messages.len()];
    if wanted.is_empty() {
        return Ok(existing);
    }
    let list = List::of_texts(wanted);
    let mut stored_ids = std::collections::HashMap::new();
    // A fork's history begins with its inherited messages.
    let inherited = tx.loaded(key)?.fork_revision.map(|_| SELECT_INHERITED);
    for statement in inherited.into_iter().chain([SELECT_CLIENTS]) {
        for row in engine::query(statement).bind(key).bind(list.clone()).all(tx.conn)? {
            stored_ids.insert(row.get::<String>(0)?, codec::uuid(row.get(1)?)?);
        }
    }
    for (slot, message) in existing.iter_mut().zip(messages) {
        if let Some(client_id) = &message.original.client_id {
            // What this transaction added is newer.
            *slot = tx.fresh_client(key, client_id).or_else(|| stored_ids.get(client_id).copied());
        }
    }
    Ok(existing)
}

/// True if a stored message equals the one that the client sends again. The times that a client gives may differ: it
/// may read its clock anew for each attempt.
fn equals_stored(stored: &Message, sent: &NewMessage<Option<GivenView>>) -> bool {
    // Every field is named, so that the compiler asks about a new one.
    let NewMessage {
        client_id: _,
        role,
        kind,
        parts,
        finish,
        open_timeout_ms: _,
        model,
        provider,
        origin_time: _,
        metadata_json,
        replace_existing: _,
    } = sent;
    let same_header = stored.role == *role
        && stored.kind == *kind
        && stored.model == *model
        && stored.provider == *provider
        && stored.metadata_json == *metadata_json;
    let same_parts = stored.parts.len() >= parts.len()
        && stored.parts.iter().zip(parts).all(|(stored, sent)| {
            stored.body.is_as_sent(&sent.body)
                && stored.client_id == sent.client_id
                && stored.metadata_json == sent.metadata_json
        });
    // A message that was left open may have grown since.
    let same_finish = match finish {
        Some(finish) => stored.finish.is_as_sent(finish) && stored.parts.len() == parts.len(),
        None => true,
    };
    same_header && same_parts && same_finish
}

/// True if a stored message lost content by an erasure: what is sent again is not stored again, and is known by receipts.
fn has_erased(stored: &Message) -> bool {
    stored.parts.iter().any(|part| part.body.is_erased())
}

/// Resolves the messages that tool results name as those of their calls, within this request or in the history, to ids.
fn resolve_calls(tx: &mut Tx<'_>, key: i64, existing: &[Option<Uuid>], messages: &mut [EncodedMessage]) -> Result<()> {
    if !names_calls(messages.iter().flat_map(|message| &message.original.parts)) {
        return Ok(());
    }
    let mut calls = NamedCalls::default();
    for (existing, message) in existing.iter().zip(&*messages) {
        if let Some(client_id) = &message.original.client_id {
            let id = existing.map_or(message.input.id, MessageId);
            calls.add(client_id.clone(), id, &message.original.parts);
        }
    }
    for message in messages {
        for (part, input) in message.original.parts.iter_mut().zip(&mut message.input.parts) {
            calls.resolve(tx, key, part, input)?;
        }
    }
    Ok(())
}

impl Append {
    /// The bytes of content that wait with it.
    pub(crate) fn bytes(&self) -> usize {
        self.messages.iter().flat_map(|message| &message.input.parts).map(PartInput::bytes).sum()
    }

    /// Validates first, then writes. An error of the database in between rolls the transaction back.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<Receipt> {
        let key = self.session.0;
        if let Some(receipt) = admitted(tx, key, &self.caller, self.expected_revision)? {
            return with_current_state(tx, key, receipt);
        }
        let checked = check(tx, key, self.messages.clone())?;
        checked.admit(tx, key, 0)?;
        let receipt = checked.write(tx, key, &self.caller)?;
        let receipt = with_current_state(tx, key, receipt)?;
        tx.end_mutation(key, &self.caller, receipt)
    }
}

/// Messages that may be appended, each with the stored message that it repeats, if there is one.
pub(crate) struct CheckedMessages {
    messages: Vec<(Option<Message>, EncodedMessage)>,
    /// The ids of those that lack what was erased before.
    erased: HashSet<Uuid>,
}

/// Validates messages. Nothing is written, except for rows of mutations before this one that wait to be.
pub(crate) fn check(tx: &mut Tx<'_>, key: i64, mut messages: Vec<EncodedMessage>) -> Result<CheckedMessages> {
    for finish in messages.iter().filter_map(|message| message.input.finish.as_ref()) {
        tx.loaded(key)?.check_view(finish.view.as_ref())?;
    }
    let existing = existing_messages(tx, key, &messages)?;
    let new = existing.iter().zip(&mut messages).filter(|(existing, _)| existing.is_none()).map(|(_, message)| message);
    let receipts = Receipts::new(tx.secrets.salt(), tx.loaded(key)?.tenant.clone());
    let mut erased = keep_erased(tx.conn, &receipts, new.collect())?;
    resolve_calls(tx, key, &existing, &mut messages)?;
    let mut checked = Vec::with_capacity(messages.len());
    for (existing, mut message) in existing.into_iter().zip(messages) {
        let Some(id) = existing else {
            checked.push((None, message));
            continue;
        };
        tx.flush()?;
        let stored = messages::by_public_id(tx.conn, key, MessageId(id))?;
        let is_version = message.original.replace_existing && stored.kind == MessageKind::Record;
        let is_erased = has_erased(&stored);
        let is_same = match is_erased {
            true => received::repeats_erased(tx, &receipts, &stored, (&message.original, message.received))?,
            false => {
                equals_stored(&stored, &message.original)
                    || received::repeats(tx, &stored, (&message.original, message.received))?
            }
        };
        if is_same {
            erased.extend(is_erased.then_some(id));
            checked.push((Some(stored), message));
        } else if is_version {
            erased.extend(keep_erased(tx.conn, &receipts, vec![&mut message])?);
            checked.push((None, message));
        } else {
            let client_id = message.original.client_id.unwrap_or_default();
            return Err(Error::ClientIdReused { client_id });
        }
    }
    Ok(CheckedMessages { messages: checked, erased })
}

impl CheckedMessages {
    /// Each message as it was sent, with the stored message that it repeats.
    pub(crate) fn messages(&self) -> impl Iterator<Item = (&NewMessage<Option<GivenView>>, Option<&Message>)> {
        self.messages.iter().map(|(stored, message)| (&message.original, stored.as_ref()))
    }

    /// Refuses what exceeds the tenant's quota, together with further bytes of the same mutation.
    pub(crate) fn admit(&self, tx: &mut Tx<'_>, key: i64, more_bytes: i64) -> Result<()> {
        let new = self.messages.iter().filter(|(stored, _)| stored.is_none()).flat_map(|(_, new)| &new.input.parts);
        tx.admit_in(key, new.map(|part| part.encoded.bytes()).sum::<i64>() + more_bytes)
    }

    /// Writes the messages that do not repeat others. The caller ends the mutation.
    pub(crate) fn write(self, tx: &mut Tx<'_>, key: i64, caller: &Requester) -> Result<Receipt> {
        let mut receipt = Receipt::default();
        let Self { messages, erased } = self;
        for (stored, mut message) in messages {
            if let Some(stored) = stored {
                receipt.existed_count += 1;
                receipt.ids.push(stored.id.0);
                receipt.erased.extend(erased.get(&stored.id.0));
                continue;
            }
            message.keep_receipts(tx, key)?;
            pair_calls(tx, key, caller, &mut message)?;
            let id = append_one(tx, key, caller, message)?;
            receipt.ids.push(id);
            receipt.erased.extend(erased.get(&id));
        }
        Ok(receipt)
    }
}

/// Records the message's tool calls, and pairs its tool results with the calls that wait for them.
pub(crate) fn pair_calls(tx: &mut Tx<'_>, key: i64, caller: &Requester, message: &mut EncodedMessage) -> Result<()> {
    let EncodedMessage { original, input, .. } = message;
    let (id, revision) = (input.id, tx.next_revision(key)?);
    let holder = TargetMessage { message: id, revision, writer: &caller.actor };
    for (position, (part, input)) in (0..).zip(original.parts.iter().zip(&mut input.parts)) {
        pairing::pair(tx, key, &holder, position, &part.body, input)?;
    }
    Ok(())
}

/// The message as it will be read from its rows once they are written.
fn as_read_back(
    original: &NewMessage<Option<GivenView>>,
    input: &MessageInput,
    session_id: SessionId,
    revision: Revision,
    now: Timestamp,
) -> Message {
    let message = input.id;
    let part = |(number, (original, input)): (u16, (&NewPart, &PartInput))| {
        let mut body = original.body.clone();
        if matches!(*body, PartBody::ToolResult(_))
            && let PartBody::ToolResult(result) = Arc::make_mut(&mut body)
        {
            let call_message = input.call_message.map(|id| MessageId(id).to_string());
            result.answers = call_message.map_or(Answers::Nothing, Answers::In);
        }
        let (client_id, metadata_json) = (original.client_id.clone(), original.metadata_json.clone());
        Part { id: PartId::in_message(message, number), client_id, revision, body, metadata_json }
    };
    Message {
        id: input.id,
        session_id,
        client_id: original.client_id.clone(),
        revision,
        role: original.role,
        kind: original.kind,
        parts: (1..).zip(original.parts.iter().zip(&input.parts)).map(part).collect(),
        sealed_revision: original.finish.is_some().then_some(revision),
        finish: original.finish.clone().unwrap_or_default(),
        model: original.model.clone(),
        provider: original.provider.clone(),
        create_time: now,
        origin_time: original.origin_time,
        actor: input.head.actor.clone(),
        metadata_json: original.metadata_json.clone(),
        replaces: None,
    }
}

pub(crate) fn append_one(tx: &mut Tx<'_>, key: i64, caller: &Requester, message: EncodedMessage) -> Result<Uuid> {
    let EncodedMessage { original, input, reports_overflow, .. } = message;
    let finish = input.finish.clone();
    // Readers take only sealed messages of the conversation from memory.
    let is_cacheable = original.kind == MessageKind::Normal && finish.is_some();
    if original.kind == MessageKind::Normal {
        let bytes = original.parts.iter().map(|part| part.body.growth_bytes()).fold(0, i64::saturating_add);
        tx.loaded(key)?.on_growth(bytes);
    }
    let (session, revision) = (tx.loaded(key)?.id, tx.next_revision(key)?);
    let recent = is_cacheable.then(|| as_read_back(&original, &input, session, revision, tx.now));
    let (id, _) = tx.message(key, caller, input)?;
    if let Some(message) = recent {
        tx.publish_message(
            key,
            SourceMessage { message: message.into(), placement: None, pruned: Vec::new(), counts: None },
        );
    }
    if original.kind == MessageKind::Normal {
        if original.role == Role::User && !are_notes(original.parts.iter().map(|part| &*part.body)) {
            tx.loaded(key)?.on_user_message();
        }
        if let Some(finish) = finish {
            record_usage(tx, key, caller, MessageId(id), &finish)?;
            if original.role == Role::Assistant || finish.usage.is_some() {
                tx.loaded(key)?.on_reply(finish.usage.is_some());
            }
        }
        if reports_overflow {
            tx.loaded(key)?.mark_due();
        }
    }
    Ok(id)
}

/// Records the usage of a reply, with the window of its view.
fn record_usage(tx: &mut Tx<'_>, key: i64, caller: &Requester, message: MessageId, finish: &Finish) -> Result<()> {
    let Some(usage) = finish.usage else { return Ok(()) };
    let window = finish.view.as_ref().map_or(&tx.loaded(key)?.window, |view| &view.window).clone();
    tx.event(key, caller, &EventBody::UsageRecorded { message, usage, window }, &Digest::default())?;
    Ok(())
}

/// The row of an open message of a session, or an error with the reason why it is not open.
pub(crate) fn open_message(tx: &mut Tx<'_>, key: i64, id: MessageId) -> Result<i64> {
    let head = tx.head(key)?;
    head.writable()?;
    if let Some(open) = head.open.get(&id.0) {
        return Ok(open.row);
    }
    tx.flush()?;
    let message = messages::by_public_id(tx.conn, key, id)?;
    let has_expired = match message.sealed_revision {
        Some(at) => events::has_expired(tx.conn, key, at)?,
        None => false,
    };
    Err(if has_expired { Error::MessageExpired } else { Error::MessageSealed })
}

/// A part that closes in an open message.
struct ClosingPart {
    id: PartId,
    input: PartInput,
    /// The growth of the history by it.
    growth_bytes: i64,
}

/// Records the tool calls of parts that close, and pairs their tool results with the calls that wait for them.
fn pair_closing_parts(
    tx: &mut Tx<'_>,
    key: i64,
    message: MessageId,
    parts: Vec<(ClosingPart, Arc<PartBody>)>,
) -> Result<Vec<ClosingPart>> {
    let open = tx.loaded(key)?.open.get(&message.0).ok_or(Error::MessageSealed)?.clone();
    let holder = TargetMessage { message, revision: open.revision, writer: &open.writer };
    let mut settled = Vec::with_capacity(parts.len());
    for (position, (mut part, body)) in (open.next_position..).zip(parts) {
        pairing::pair(tx, key, &holder, position, &body, &mut part.input)?;
        settled.push(part);
    }
    Ok(settled)
}

/// Adds parts to an open message, with their event.
fn insert_closed_parts(
    tx: &mut Tx<'_>,
    key: i64,
    caller: &Requester,
    message: MessageId,
    parts: Vec<ClosingPart>,
) -> Result<()> {
    let revision = tx.next_revision(key)?;
    let head = tx.loaded(key)?;
    let tenant = head.tenant.clone();
    let open = head.open.get_mut(&message.0).ok_or(Error::MessageSealed)?;
    let (row, first) = (open.row, open.next_position);
    open.next_position += i64::try_from(parts.len()).unwrap_or(i64::MAX);
    open.bytes += parts.iter().map(|part| part.input.encoded.bytes()).sum::<i64>();
    head.on_growth(parts.iter().fold(0, |sum, part| sum.saturating_add(part.growth_bytes)));
    let mut digest = Digest::default();
    let ids = parts.iter().map(|part| part.id).collect();
    for (position, part) in (first..).zip(parts) {
        tx.part_row(&tenant, &mut digest, part.id, (row, position, revision), part.input);
    }
    tx.event(key, caller, &EventBody::PartsClosed { message, parts: ids }, &digest)?;
    Ok(())
}

impl AppendParts {
    /// The bytes of content that wait with it.
    pub(crate) fn bytes(&self) -> usize {
        let of = |part: &AppendPart| match part {
            AppendPart::Whole(whole) => whole.input.bytes(),
            AppendPart::Draft(..) => 0,
        };
        self.parts.iter().map(of).sum()
    }

    /// Validates first, then writes.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<Receipt> {
        let key = self.session.0;
        tx.head(key)?;
        if let Some(receipt) = answered(tx, key, &self.caller)? {
            return with_current_state(tx, key, receipt);
        }
        let row = open_message(tx, key, self.message)?;
        let brought = self.resolved(tx)?;
        let existing_parts = self.existing_parts(tx)?;
        let receipts = Receipts::new(tx.secrets.salt(), tx.loaded(key)?.tenant.clone());
        let drafts = open_drafts(tx.conn, tx.secrets, row, self.message)?;
        let mut next_number = tx.loaded(key)?.next_number(self.message)?;
        let mut receipt = Receipt::default();
        let mut parts = Vec::with_capacity(self.parts.len());
        let mut closed = Vec::new();
        // Text of drafts counted when it came.
        let draft_bytes: i64 = drafts.iter().map(|draft| draft.length).sum();
        let mut bytes = draft_bytes;
        for part in brought {
            let (id, input, body) = match part {
                AppendPart::Whole(whole) => {
                    let WholePart { original, input } = *whole;
                    if let Some(id) = existing_part(tx, &receipts, &existing_parts, &original)? {
                        receipt.existed_count += 1;
                        receipt.ids.push(id);
                        continue;
                    }
                    refuse_draft_client_id(&drafts, &original)?;
                    bytes += input.encoded.bytes();
                    let id = PartId::in_message(self.message, next_number);
                    next_number = next_number.saturating_add(1);
                    (id, input, original.body)
                }
                AppendPart::Draft(end) => {
                    let draft = match end.find_draft(tx, &drafts, &closed, &existing_parts)? {
                        NamedDraft::Open(draft) => draft,
                        NamedDraft::Closed(part) => {
                            receipt.existed_count += 1;
                            receipt.ids.push(part);
                            continue;
                        }
                    };
                    closed.push(draft.id);
                    let json_bytes = end.metadata_json.as_ref().map_or(0, String::len);
                    bytes += i64::try_from(json_bytes).unwrap_or(i64::MAX);
                    let ClosedDraft { input, body, hits } = draft.close(tx.secrets, end.status(), Some(&end));
                    receipt.hits.extend(hits);
                    (draft.id, input, body)
                }
            };
            receipt.ids.push(id.0);
            parts.push((ClosingPart { id, input, growth_bytes: body.growth_bytes() }, body));
        }
        // A draft that stays open becomes a part in the end.
        let drafts_left = drafts.iter().filter(|draft| draft.refused.is_none()).count() - closed.len();
        check_message_limits(tx.loaded(key)?, self.message, parts.len() + drafts_left, bytes)?;
        tx.admit_in(key, bytes - draft_bytes)?;
        tx.count(key, bytes - draft_bytes)?;
        for id in closed {
            engine::query(DELETE_DRAFT).bind(row).bind(id.number()).run(tx.conn)?;
        }
        tx.loaded(key)?.set_next_number(self.message, next_number);
        tx.restart_open_timeout(key, self.message.0);
        if !parts.is_empty() {
            let parts = pair_closing_parts(tx, key, self.message, parts)?;
            insert_closed_parts(tx, key, &self.caller, self.message, parts)?;
        }
        let receipt = with_current_state(tx, key, receipt)?;
        tx.end_mutation(key, &self.caller, receipt)
    }

    /// The parts, with the messages that tool results name as those of their calls, including this message, as ids.
    fn resolved(&self, tx: &mut Tx<'_>) -> Result<Vec<AppendPart>> {
        let originals = self.parts.iter().filter_map(|part| match part {
            AppendPart::Whole(whole) => Some(&whole.original),
            AppendPart::Draft(..) => None,
        });
        let mut parts = self.parts.clone();
        if !names_calls(originals.clone()) {
            return Ok(parts);
        }
        let originals: Vec<NewPart> = originals.cloned().collect();
        let mut calls = NamedCalls::default();
        calls.add_named(tx, self.session.0, self.message, &originals)?;
        for part in &mut parts {
            if let AppendPart::Whole(whole) = part {
                calls.resolve(tx, self.session.0, &mut whole.original, &mut whole.input)?;
            }
        }
        Ok(parts)
    }

    /// The existing parts of the message, if one of the new ones could be among them.
    fn existing_parts(&self, tx: &mut Tx<'_>) -> Result<Vec<Part>> {
        let named = |part: &AppendPart| match part {
            AppendPart::Whole(whole) => whole.original.client_id.is_some(),
            AppendPart::Draft(end) => matches!(end.draft, DraftName::Client(_)),
        };
        if !self.parts.iter().any(named) {
            return Ok(Vec::new());
        }
        tx.flush()?;
        Ok(messages::by_public_id(tx.conn, self.session.0, self.message)?.parts)
    }
}

/// The existing part with the client id of the sent one, if both are equal; an error if they differ.
fn existing_part(
    tx: &Tx<'_>,
    receipts: &Receipts<'_>,
    existing_parts: &[Part],
    sent: &NewPart,
) -> Result<Option<Uuid>> {
    let Some(client_id) = &sent.client_id else { return Ok(None) };
    match existing_parts.iter().find(|part| part.client_id.as_ref() == Some(client_id)) {
        Some(part) if part.body.is_erased() && received::repeats_erased_part(tx, receipts, part, sent)? => {
            Ok(Some(part.id.0))
        }
        Some(part) if part.body.is_as_sent(&sent.body) && part.metadata_json == sent.metadata_json => {
            Ok(Some(part.id.0))
        }
        Some(part) if received::repeats_part(tx, part, sent)? => Ok(Some(part.id.0)),
        Some(_) => Err(Error::ClientIdReused { client_id: client_id.clone() }),
        None => Ok(None),
    }
}

/// Refuses a part whose client id belongs to an open draft, because the draft's part will have it.
fn refuse_draft_client_id(drafts: &[OpenDraft], sent: &NewPart) -> Result<()> {
    match &sent.client_id {
        Some(client_id) if drafts.iter().any(|draft| draft.client_id.as_ref() == Some(client_id)) => {
            Err(Error::ClientIdReused { client_id: client_id.clone() })
        }
        _ => Ok(()),
    }
}

/// Refuses an open message that would exceed its limits. `parts` and `bytes` are those to add, with all open drafts.
pub(crate) fn check_message_limits(head: &Head, message: MessageId, parts: usize, bytes: i64) -> Result<()> {
    let (parts_before, bytes_before) =
        head.open.get(&message.0).map_or((0, 0), |open| (open.next_position, open.bytes));
    let parts = i64::try_from(parts).unwrap_or(i64::MAX);
    check_limit("parts of one message", limits::MESSAGE_PARTS_MAX, parts_before.saturating_add(parts))?;
    check_limit("bytes of one message", limits::MESSAGE_BYTES_MAX, bytes_before.saturating_add(bytes))
}

pub(crate) fn check_limit(what: &'static str, limit: usize, actual: i64) -> Result<()> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    if actual > limit { Err(Error::LimitExceeded { what, limit, actual }) } else { Ok(()) }
}

impl FinishMessage {
    /// The request by which the daemon seals an expired message as aborted.
    pub(crate) fn expired(key: i64, message: MessageId) -> Self {
        Self { has_expired: true, ..Self::aborted(key, message, Requester::default()) }
    }

    /// The request by which the message of a run that has ended is sealed.
    pub(crate) fn aborted(key: i64, message: MessageId, caller: Requester) -> Self {
        let finish = Finish { reason: Some(FinishReason::Aborted), ..Finish::default() };
        let seal = Seal { finish, reports_overflow: false };
        Self { session: SessionKey(key), caller, message, seal, has_expired: false }
    }

    /// Validates first, then writes.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<Receipt> {
        let key = self.session.0;
        tx.head(key)?;
        if let Some(receipt) = answered(tx, key, &self.caller)? {
            return with_current_state(tx, key, receipt);
        }
        let row = open_message(tx, key, self.message)?;
        tx.loaded(key)?.check_view(self.seal.finish.view.as_ref())?;
        self.seal(tx, row)
    }

    pub(crate) fn seal(&self, tx: &mut Tx<'_>, row: i64) -> Result<Receipt> {
        let key = self.session.0;
        let mut sealed = self.add_seal(tx, row)?;
        let hits = std::mem::take(&mut sealed.hits);
        let receipt = with_current_state(tx, key, Receipt { ids: vec![self.message.0], hits, ..Receipt::default() })?;
        let receipt = tx.end_mutation(key, &self.caller, receipt)?;
        sealed.write(tx)?;
        Ok(receipt)
    }

    /// Adds the events of the seal of the message in this row. Drafts that are still open close with their text so far.
    pub(crate) fn add_seal(&self, tx: &mut Tx<'_>, row: i64) -> Result<SealedRow> {
        let key = self.session.0;
        let (mut drafts, mut hits) = (open_drafts(tx.conn, tx.secrets, row, self.message)?, Vec::new());
        if !drafts.is_empty() {
            engine::query(DELETE_DRAFTS).bind(row).run(tx.conn)?;
        }
        drafts.retain(|draft| draft.refused.is_none());
        if !drafts.is_empty() {
            // A tool whose output nobody closed did not end.
            let secrets = tx.secrets;
            let close = |draft: &OpenDraft| {
                let ClosedDraft { input, body, hits: of_draft } = draft.close(secrets, ResultStatus::Interrupted, None);
                hits.extend(of_draft);
                (ClosingPart { id: draft.id, input, growth_bytes: body.growth_bytes() }, body)
            };
            let parts = pair_closing_parts(tx, key, self.message, drafts.iter().map(close).collect())?;
            insert_closed_parts(tx, key, &self.caller, self.message, parts)?;
        }
        let encoded = codec::encode_finish(&self.seal.finish);
        let revision = tx.next_revision(key)?;
        let mut digest = Digest::default();
        chain::seal(&mut digest, self.message.0.as_bytes(), &encoded);
        let (reason, expired) = (self.seal.finish.reason, self.has_expired);
        let body = EventBody::MessageFinished { message: self.message, reason, expired };
        tx.event(key, &self.caller, &body, &digest)?;
        tx.loaded(key)?.open.remove(&self.message.0);
        let Seal { finish, reports_overflow } = &self.seal;
        record_usage(tx, key, &self.caller, self.message, finish)?;
        let head = tx.loaded(key)?;
        head.on_reply(finish.usage.is_some());
        if *reports_overflow {
            head.mark_due();
        }
        Ok(SealedRow { row, revision, seal: encoded, hits })
    }
}

/// The columns of a seal, to be written once its mutation has ended.
pub(crate) struct SealedRow {
    row: i64,
    revision: Revision,
    seal: Vec<u8>,
    /// The secrets that were found at the end of its drafts.
    hits: Vec<Hit>,
}

impl SealedRow {
    pub(crate) fn write(self, tx: &mut Tx<'_>) -> Result<()> {
        // The message's own row may still wait to be written.
        tx.flush()?;
        engine::query(UPDATE_SEALED).bind(self.row).bind(self.revision).bind(self.seal).run(tx.conn)?;
        open_messages::sealed(tx.conn, self.row)
    }
}

/// Encodes an appended message, in the client's task, because the writer is one thread for all.
pub(crate) fn encode(new: AppendInput, caller: &Requester, salt: &Salt) -> EncodedMessage {
    let AppendInput { message, token_counts, reports_overflow, received, keeps_erased } = new;
    let digests = |part| erased_content::digests_of_sent(salt, part);
    let digests = message.parts.iter().filter(|_| keeps_erased).map(digests).collect();
    let mut input = MessageInput { counted: token_counts, ..MessageInput::from_client(&message, caller) };
    input.head.received = received.map(Vec::from);
    EncodedMessage { input, original: message, received, reports_overflow, keeps_erased, digests, lacking: None }
}

pub(crate) fn encode_new_part(part: &NewPart) -> AppendPart {
    AppendPart::Whole(Box::new(WholePart { original: part.clone(), input: PartInput::from_client(part) }))
}
