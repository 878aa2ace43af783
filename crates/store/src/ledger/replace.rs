//! Appends with what a client wants in the same mutation: a rewind before the messages, the session's title and metadata
//! after them, and a guard by the last message of the conversation.

use super::append::{self, Append, CheckedMessages};
use super::chain::Digest;
use super::claiming;
use super::conversation;
use super::head::Receipt;
use super::marks::{self, ancestry_of};
use super::receipts::admitted;
use super::rewrites;
use super::sessions::described_bytes;
use super::tx::{Requester, Tx};
use crate::engine::Reader;
use crate::error::{Error, Result};
use crate::model::Revision;
use crate::model::event::EventBody;
use crate::model::message::{GivenView, Message, MessageKind, NewMessage};

/// What a client wants in the same mutation as its messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppendChanges {
    /// The conversation ends here before the messages join it; none for no rewind.
    pub rewind: Option<NewEnd>,
    /// Refuse unless this is the id of the last message of the conversation; an empty id stands for no message.
    pub expected_last: Option<String>,
    /// The session's new title.
    pub title: Option<String>,
    /// The session's new free JSON.
    pub metadata_json: Option<String>,
}

/// The new end of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewEnd {
    /// Before the first message.
    Start,
    /// The message with this id.
    Message(String),
}

impl NewEnd {
    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Self::Start => None,
            Self::Message(id) => Some(id),
        }
    }
}

impl AppendChanges {
    /// True if there is nothing beside the messages.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// An append with what belongs to the same mutation.
#[derive(Clone)]
pub(crate) struct Replace {
    pub(crate) append: Append,
    pub(crate) with: AppendChanges,
}

impl Replace {
    /// Validates first, then writes.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<Receipt> {
        let Self { append: Append { session, caller, expected_revision, messages }, with } = self;
        let key = session.0;
        if let Some(receipt) = admitted(tx, key, caller, *expected_revision)? {
            return append::with_current_state(tx, key, receipt);
        }
        let AppendChanges { rewind, expected_last, title, metadata_json } = with;
        let checked = append::check(tx, key, messages.clone())?;
        let names = NewNames::new(tx, key, title.clone(), metadata_json.clone())?;
        let ancestry = ancestry_of(tx, key)?;
        let after = rewind.as_ref().map(|end| rewrites::new_end(tx, &ancestry, end.message())).transpose()?;
        let is_there = is_there(tx, key, after, &checked)?;
        // An earlier attempt that succeeded has changed the last message, so a repetition is looked for first.
        if let Some(expected) = expected_last
            && !(is_there && names.is_empty())
        {
            expect_last(tx, key, expected)?;
        }
        let after_new = after.filter(|_| !is_there);
        if after_new.is_some() {
            refuse_kept(&checked)?;
        }
        checked.admit(tx, key, names.bytes())?;
        if let Some(after) = after_new {
            rewrites::rewind(tx, &ancestry, caller, after, None)?;
        }
        let receipt = checked.write(tx, key, caller)?;
        names.write(tx, key, caller)?;
        if after.is_some() {
            claiming::recheck(tx, key, caller, None)?;
        }
        let receipt = append::with_current_state(tx, key, receipt)?;
        tx.end_mutation(key, caller, receipt)
    }
}

/// Refuses if the last message of the conversation is another one than the caller expects.
fn expect_last(tx: &mut Tx<'_>, key: i64, expected: &str) -> Result<()> {
    let ancestry = ancestry_of(tx, key)?;
    let mut reader = Reader::new(tx.conn);
    let marks = marks::session_marks(tx, key)?;
    let last = conversation::newest(&mut reader, &ancestry, marks, 0, 1)?.pop();
    let is_expected = match &last {
        None => expected.is_empty(),
        Some(last) => conversation::is_named(&mut reader, &ancestry, marks, last, expected)?,
    };
    if is_expected {
        return Ok(());
    }
    let last = last.map_or_else(String::new, |last| last.id.to_string());
    Err(Error::LastMessageMismatch { expected: expected.to_owned(), last })
}

/// True if messages were appended before, with the rewind before them if there is one: they exist, and the conversation
/// after that position consists of them. The answer to such a request was lost.
fn is_there(tx: &mut Tx<'_>, key: i64, after: Option<Revision>, checked: &CheckedMessages) -> Result<bool> {
    if checked.messages().any(|(_, stored)| stored.is_none()) {
        return Ok(false);
    }
    let Some(after) = after else { return Ok(true) };
    let wanted: Vec<Revision> = spoken(checked).filter_map(|(_, stored)| Some(stored?.revision)).collect();
    Ok(conversation_after(tx, key, after, wanted.len() + 1)? == wanted)
}

/// Refuses a message that exists already: an append cannot bring it back after a rewind.
fn refuse_kept(checked: &CheckedMessages) -> Result<()> {
    match spoken(checked).find(|(_, stored)| stored.is_some()) {
        Some((sent, _)) => Err(Error::ClientIdKept { client_id: sent.client_id.clone().unwrap_or_default() }),
        None => Ok(()),
    }
}

/// The messages that are no records, each as it was sent and as it is stored.
fn spoken(checked: &CheckedMessages) -> impl Iterator<Item = (&NewMessage<Option<GivenView>>, Option<&Message>)> {
    checked.messages().filter(|(sent, _)| sent.kind == MessageKind::Normal)
}

/// The revisions of the messages of the conversation after a position, oldest first; of more than `limit` the newest.
fn conversation_after(tx: &mut Tx<'_>, key: i64, after: Revision, limit: usize) -> Result<Vec<Revision>> {
    let ancestry = ancestry_of(tx, key)?;
    let mut reader = Reader::new(tx.conn);
    let newest = conversation::newest(&mut reader, &ancestry, marks::session_marks(tx, key)?, after, limit)?;
    Ok(newest.iter().rev().map(|spoken| spoken.revision).collect())
}

/// The title and the free JSON that a session gets, as far as they differ from what it has.
struct NewNames {
    title: Option<String>,
    metadata_json: Option<String>,
}

impl NewNames {
    fn new(tx: &mut Tx<'_>, key: i64, title: Option<String>, metadata_json: Option<String>) -> Result<Self> {
        let head = tx.loaded(key)?;
        Ok(Self {
            title: title.filter(|title| *title != head.title()),
            metadata_json: metadata_json.filter(|json| head.metadata_json() != Some(json)),
        })
    }

    fn is_empty(&self) -> bool {
        self.title.is_none() && self.metadata_json.is_none()
    }

    fn bytes(&self) -> i64 {
        described_bytes(self.title.as_deref(), self.metadata_json.as_deref())
    }

    fn write(self, tx: &mut Tx<'_>, key: i64, caller: &Requester) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        tx.count(key, self.bytes())?;
        let Self { title, metadata_json } = self;
        let head = tx.loaded(key)?;
        if let Some(title) = &title {
            head.retitle(title);
        }
        if let Some(metadata_json) = &metadata_json {
            head.set_metadata(metadata_json);
        }
        let body = EventBody::SessionUpdated { title, metadata_json, window: None };
        tx.event(key, caller, &body, &Digest::default())?;
        Ok(())
    }
}
