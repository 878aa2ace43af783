//! Rewrites: rewind, edit, pin, words; `reversals` has undo and redo. Each adds a mark and, if the view changes, the new
//! layout.

use super::ancestry::Ancestry;
use super::chain::Digest;
use super::claiming;
use super::codec;
use super::erased_content::{self, Receipts};
use super::exchange;
use super::head::{Receipt, SessionKey};
use super::marks::{self, ancestry_of, changed, write};
use super::messages;
use super::pairing::{self, NamedCalls, names_calls};
use super::position::{self, LocatedMessage};
use super::prompts;
use super::receipts::admitted;
use super::reversals;
use super::tx::{MessageInput, PartInput, Requester, Tx};
use crate::clock::fresh_message_id;
use crate::engine::Reader;
use crate::error::{Error, Result};
use crate::limits;
use crate::model::Revision;
use crate::model::event::EventBody;
use crate::model::ids::MessageId;
use crate::model::mark::{MarkBody, WordsStance};
use crate::model::message::{Finish, Message, MessageKind, Role};
use crate::model::part::{NewPart, PartBody};
use crate::model::usage::Usage;

/// A rewrite of a session's history.
#[derive(Clone)]
pub(crate) struct Rewrite {
    pub(crate) session: SessionKey,
    pub(crate) caller: Requester,
    pub(crate) expected_revision: Option<Revision>,
    pub(crate) change: Change,
}

/// A summary of the branch that a rewind abandons.
#[derive(Debug, Clone)]
pub struct BranchSummary {
    /// The id of the message; requests to models for it carry it already.
    pub id: MessageId,
    /// The text of the message.
    pub text: String,
    /// The author.
    pub summarizer: String,
    /// Its token usage and cost.
    pub usage: Option<Usage>,
}

/// An edit of a message.
#[derive(Debug, Clone)]
pub struct NewEdit {
    /// The message, by its id or client id.
    pub message: String,
    /// The content of the replacement; without any, the message is only left out.
    pub parts: Vec<NewPart>,
    /// The free JSON of the replacement.
    pub metadata_json: Option<String>,
    /// True if what was erased of such an edit before stays erased.
    pub keeps_erased: bool,
}

/// What an edit puts in a message's place.
#[derive(Clone)]
pub(crate) struct Replacement {
    pub(crate) parts: Vec<(NewPart, PartInput)>,
    pub(crate) metadata_json: Option<String>,
    pub(crate) keeps_erased: bool,
}

/// The kind of a rewrite.
#[derive(Clone)]
pub(crate) enum Change {
    /// Omits everything after a message, or all messages, with an optional summary of the abandoned branch.
    Rewind { message: Option<String>, summary: Option<BranchSummary> },
    /// Replaces a message by another; without parts, omits it from views.
    Edit { message: String, replacement: Replacement },
    /// Keeps a message verbatim in every view, with the results of its calls and the calls of its results.
    Pin { message: String },
    /// Removes the pins of these.
    Unpin { message: String },
    /// Decides what becomes of a message's words beside summaries.
    Words { message: String, stance: Option<WordsStance> },
    /// Undoes the newest active change of the view.
    Undo,
    /// Redoes the change that was undone last.
    Redo,
}

impl Rewrite {
    /// Validates first, then writes.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<Receipt> {
        let key = self.session.0;
        if let Some(receipt) = admitted(tx, key, &self.caller, self.expected_revision)? {
            return Ok(receipt);
        }
        let ancestry = ancestry_of(tx, key)?;
        let caller = &self.caller;
        let mut erased = Ids::new();
        let ids = match &self.change {
            Change::Rewind { message, summary } => {
                let after = new_end(tx, &ancestry, message.as_deref())?;
                rewind(tx, &ancestry, caller, after, summary.clone())?
            }
            Change::Edit { message, replacement } => {
                let (ids, has_erased) = edit(tx, &ancestry, caller, message, replacement.clone())?;
                erased.extend(ids.iter().filter(|_| has_erased));
                ids
            }
            Change::Pin { message } => pin(tx, &ancestry, caller, message)?,
            Change::Unpin { message } => unpin(tx, &ancestry, caller, message)?,
            Change::Words { message, stance } => mark_words(tx, &ancestry, caller, message, *stance)?,
            Change::Undo => reversals::undo(tx, &ancestry, caller).map(|()| Ids::new())?,
            Change::Redo => reversals::redo(tx, &ancestry, caller).map(|()| Ids::new())?,
        };
        claiming::recheck(tx, key, caller, None)?;
        tx.end_mutation(key, &self.caller, Receipt { ids, erased, ..Receipt::default() })
    }
}

fn sealed(tx: &mut Tx<'_>, ancestry: &Ancestry, id: &str) -> Result<LocatedMessage> {
    let mut reader = Reader::new(tx.conn);
    position::locate(&mut reader, ancestry, marks::session_marks(tx, ancestry.key)?, id)?.sealed()
}

/// The ids that a rewrite made or found.
type Ids = Vec<uuid::Uuid>;

/// The last position that a rewind to a message keeps; 0 without a message. An error if no conversation can end there.
pub(crate) fn new_end(tx: &mut Tx<'_>, ancestry: &Ancestry, message: Option<&str>) -> Result<Revision> {
    message.map_or(Ok(0), |id| Ok(sealed(tx, ancestry, id)?.in_conversation()?.position.last))
}

/// Leaves everything after a position out of the conversation. The caller ends the mutation.
pub(crate) fn rewind(
    tx: &mut Tx<'_>,
    ancestry: &Ancestry,
    caller: &Requester,
    after: Revision,
    summary: Option<BranchSummary>,
) -> Result<Ids> {
    prompts::withdraw_answers(tx, ancestry.key, caller, after)?;
    let body = MarkBody::Rewound { after, has_summary: summary.is_some(), of_fork: false };
    let mut digest = Digest::default();
    pairing::reopen(tx, ancestry, after)?;
    write(tx, &mut digest, ancestry.key, body)?;
    let at = tx.event(ancestry.key, caller, &EventBody::SessionRewound { after }, &digest)?;
    let Some(BranchSummary { id, text, summarizer, usage }) = summary else {
        changed(tx, ancestry.key, at)?;
        return Ok(Vec::new());
    };
    let input = MessageInput {
        id,
        head: codec::MessageHead { actor: caller.actor.clone(), model: summarizer, ..codec::MessageHead::default() },
        finish: Some(Finish { usage, ..Finish::default() }),
        ..MessageInput::derived(Role::User, MessageKind::Branch, &[PartBody::Text(text)])
    };
    let (id, at) = tx.message(ancestry.key, caller, input)?;
    changed(tx, ancestry.key, at)?;
    Ok(vec![id])
}

/// Replaces a message. The flag is true if the replacement lacks content that was erased before.
fn edit(
    tx: &mut Tx<'_>,
    ancestry: &Ancestry,
    caller: &Requester,
    message: &str,
    replacement: Replacement,
) -> Result<(Ids, bool)> {
    let Replacement { mut parts, mut metadata_json, keeps_erased } = replacement;
    tx.admit_in(ancestry.key, parts.iter().map(|(_, part)| part.encoded.bytes()).sum())?;
    let located = sealed(tx, ancestry, message)?;
    if !matches!(located.message.kind, MessageKind::Normal | MessageKind::Edit | MessageKind::Replay) {
        return Err(Error::BoundaryInvalid("only messages of the conversation can be edited"));
    }
    // An edit of an edit or of a replay targets the original, so that the newest always applies.
    let target = located.position.first;
    if parts.is_empty() {
        return Ok((leave_out(tx, ancestry, caller, target, located.message.id)?, false));
    }
    let original = original(tx, ancestry, &located)?;
    let erased = if keeps_erased { keep_erased(tx, ancestry.key, &original, &mut parts)? } else { 0 };
    if erased == parts.len() {
        metadata_json = None;
    }
    let parts = settled(tx, ancestry, &original, &located.message, parts)?;
    let head =
        codec::MessageHead { actor: caller.actor.clone(), metadata_json, ..codec::MessageHead::replacing(&original) };
    let input = MessageInput {
        id: fresh_message_id(),
        client_id: None,
        role: located.message.role,
        kind: MessageKind::Edit,
        head,
        finish: Some(Finish::default()),
        parts,
        counted: None,
        open_timeout_ms: limits::OPEN_TIMEOUT_MS_DEFAULT,
    };
    let (id, replacement) = tx.message(ancestry.key, caller, input)?;
    let mut digest = Digest::default();
    write(tx, &mut digest, ancestry.key, MarkBody::Edited { target, replacement: Some(replacement) })?;
    let body = EventBody::MessageEdited { message: located.message.id, replacement: Some(MessageId(id)) };
    let at = tx.event(ancestry.key, caller, &body, &digest)?;
    changed(tx, ancestry.key, at)?;
    Ok((vec![id], erased > 0))
}

/// Removes parts from an edit that were erased from an earlier edit, as an erasure would. Returns their number.
fn keep_erased(tx: &mut Tx<'_>, key: i64, original: &Message, parts: &mut [(NewPart, PartInput)]) -> Result<usize> {
    let Some(client_id) = &original.client_id else { return Ok(0) };
    let receipts = Receipts::new(tx.secrets.salt(), tx.loaded(key)?.tenant.clone());
    let hashes = |part: &NewPart| -> Vec<erased_content::Hash> {
        let digests = erased_content::digests_of_sent(receipts.salt(), part);
        digests.iter().map(|digest| receipts.of_edit(client_id, digest)).collect()
    };
    let hashes: Vec<_> = parts.iter().map(|(part, _)| hashes(part)).collect();
    let erased_hashes = erased_content::existing_receipts(tx.conn, &hashes.concat())?;
    let mut erased = 0;
    for ((part, input), hashes) in parts.iter_mut().zip(&hashes) {
        if hashes.iter().any(|hash| erased_hashes.contains(hash.as_slice())) {
            erased_content::erase(part, input);
            erased += 1;
        }
    }
    Ok(erased)
}

/// The message that an edit replaces: the original at the position of the edited one.
fn original(tx: &mut Tx<'_>, ancestry: &Ancestry, edited: &LocatedMessage) -> Result<Message> {
    let position = edited.position.first;
    if edited.message.revision == position {
        return Ok(edited.message.clone());
    }
    let mut reader = Reader::new(tx.conn);
    let id = messages::id_at(&mut reader, ancestry, position)?;
    messages::named(&mut reader, ancestry, &id.to_string())
}

/// The parts of an edit, with the messages of the calls that results answer.
fn settled(
    tx: &mut Tx<'_>,
    ancestry: &Ancestry,
    original: &Message,
    edited: &Message,
    parts: Vec<(NewPart, PartInput)>,
) -> Result<Vec<PartInput>> {
    let (mut written, mut inputs): (Vec<NewPart>, Vec<PartInput>) = parts.into_iter().unzip();
    if names_calls(&written) {
        let mut calls = NamedCalls::default();
        calls.add_named(tx, ancestry.key, original.id, &written)?;
        for (part, input) in written.iter_mut().zip(&mut inputs) {
            calls.resolve(tx, ancestry.key, part, input)?;
        }
    }
    let mut reader = Reader::new(tx.conn);
    let original = messages::get(&mut reader, ancestry, &original.id.to_string())?;
    let edited = messages::get(&mut reader, ancestry, &edited.id.to_string())?;
    pairing::assign_edit_calls(tx, ancestry.key, &original, &edited, &written, &mut inputs)?;
    Ok(inputs)
}

/// Omits a message from views without a replacement.
fn leave_out(
    tx: &mut Tx<'_>,
    ancestry: &Ancestry,
    caller: &Requester,
    target: Revision,
    message: MessageId,
) -> Result<Ids> {
    let mut digest = Digest::default();
    write(tx, &mut digest, ancestry.key, MarkBody::Edited { target, replacement: None })?;
    let at = tx.event(ancestry.key, caller, &EventBody::MessageEdited { message, replacement: None }, &digest)?;
    changed(tx, ancestry.key, at)?;
    Ok(Ids::new())
}

fn pin(tx: &mut Tx<'_>, ancestry: &Ancestry, caller: &Requester, message: &str) -> Result<Ids> {
    let located = sealed(tx, ancestry, message)?;
    if matches!(located.message.kind, MessageKind::Summary | MessageKind::Marker) {
        return Err(Error::BoundaryInvalid("a summary stands only as long as what it stands for does"));
    }
    for (target, original) in exchange::around(tx, ancestry, located.position.first)? {
        if marks::session_marks(tx, ancestry.key)?.pin(target).is_some() {
            continue;
        }
        let message = if target == located.position.first { located.message.id } else { original };
        let mut digest = Digest::default();
        write(tx, &mut digest, ancestry.key, MarkBody::Pinned { target })?;
        let at = tx.event(ancestry.key, caller, &EventBody::MessagePinned { message }, &digest)?;
        changed(tx, ancestry.key, at)?;
    }
    Ok(Vec::new())
}

fn unpin(tx: &mut Tx<'_>, ancestry: &Ancestry, caller: &Requester, message: &str) -> Result<Ids> {
    let located = sealed(tx, ancestry, message)?;
    for (target, original) in exchange::around(tx, ancestry, located.position.first)? {
        let Some(mark) = marks::session_marks(tx, ancestry.key)?.pin(target) else { continue };
        let message = if target == located.position.first { located.message.id } else { original };
        let mut digest = Digest::default();
        write(tx, &mut digest, ancestry.key, MarkBody::Undone { mark })?;
        let at = tx.event(ancestry.key, caller, &EventBody::MessageUnpinned { message }, &digest)?;
        changed(tx, ancestry.key, at)?;
    }
    Ok(Vec::new())
}

fn mark_words(
    tx: &mut Tx<'_>,
    ancestry: &Ancestry,
    caller: &Requester,
    message: &str,
    stance: Option<WordsStance>,
) -> Result<Ids> {
    let located = sealed(tx, ancestry, message)?.in_conversation()?;
    let message = &located.message;
    if !matches!(message.kind, MessageKind::Normal | MessageKind::Edit | MessageKind::Replay) {
        return Err(Error::BoundaryInvalid("only messages of the conversation have words of people"));
    }
    if stance == Some(WordsStance::Kept) && message.role != Role::User {
        return Err(Error::BoundaryInvalid("only what has the role of a user is kept as words of people"));
    }
    let target = located.position.first;
    if marks::session_marks(tx, ancestry.key)?.words_of(target) == stance {
        return Ok(Ids::new());
    }
    let mut digest = Digest::default();
    write(tx, &mut digest, ancestry.key, MarkBody::Words { target, stance })?;
    tx.event(ancestry.key, caller, &EventBody::WordsMarked { message: message.id, stance }, &digest)?;
    Ok(Ids::new())
}
