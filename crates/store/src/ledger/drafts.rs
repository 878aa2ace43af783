//! Drafts: the text of parts that are still being written. They are outside history: no event, no revision.
//!
//! Text can be sent again, like everything else: text that a draft already has at its offset is not added again.

use super::append::{check_limit, check_message_limits, open_message};
use super::codec;
use super::codec::ReceivedPart;
use super::head::SessionKey;
use super::messages;
use super::pairing::NamedCalls;
use super::received;
use super::tx::{PartInput, Tx};
use crate::engine;
use crate::error::{Error, Kind, Result};
use crate::limits;
use crate::model::draft::DraftKind;
use crate::model::ids::{MessageId, PartId};
use crate::model::message::Message;
use crate::model::part::{NewPart, ResultStatus};
use crate::model::run::Epoch;
use crate::secrets::{DraftText, Hit, PLACEHOLDER, ReplacedSecret, SettledText, Syntax};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A draft, and the text to add to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDraftText {
    /// The draft; none begins one.
    pub part: Option<PartId>,
    /// The client's own id of the part, read when the draft begins: it begins once.
    pub client_id: Option<String>,
    /// What the draft becomes, read when it begins.
    pub kind: DraftKind,
    /// Bytes of the draft before this text.
    pub offset: i64,
    /// The text to add.
    pub delta: String,
}

impl NewDraftText {
    /// The length of the draft in bytes if it ends with this text.
    pub fn end(&self) -> i64 {
        self.offset.saturating_add(i64::try_from(self.delta.len()).unwrap_or(i64::MAX))
    }
}

/// The state of a draft after the text of a request. A repeated request gets the same answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftReceipt {
    /// The draft, and later its part.
    pub part: PartId,
    /// Bytes of the draft up to the end of the sent text: the offset of the next text.
    pub length: i64,
    /// Bytes of the draft before the part of the text that was new, as readers see it; none if all of it existed.
    pub added_at: Option<i64>,
    /// The text that readers see from now on, behind those bytes. The end of what was sent waits while it may be the
    /// begin of a secret.
    pub shown: String,
    /// The secrets that were found in it.
    pub hits: Vec<Hit>,
}

impl DraftReceipt {
    /// That of text that was there.
    fn existing(part: PartId, words: &NewDraftText) -> Self {
        Self { part, length: words.end(), added_at: None, shown: String::new(), hits: Vec::new() }
    }
}

/// How the text of a kind of draft is read for secrets.
pub(crate) fn syntax(kind: &DraftKind) -> Syntax {
    match kind {
        DraftKind::ToolInput { .. } => Syntax::Json,
        DraftKind::Text | DraftKind::Reasoning | DraftKind::ToolOutput { .. } => Syntax::Text,
    }
}

/// Adds text to a draft.
#[derive(Clone)]
pub(crate) struct AppendDraft {
    pub(crate) session: SessionKey,
    pub(crate) message: MessageId,
    /// The run on whose behalf it is.
    pub(crate) epoch: Option<Epoch>,
    pub(crate) words: NewDraftText,
    /// True for a caller that continues its drafts by their client ids: other text at the start is a wrong offset, as
    /// anywhere else, and so is text after the end of a closed draft.
    pub(crate) resumes: bool,
}

/// The columns of a draft, with its text at the offset and length of a request's text.
macro_rules! select_draft {
    ($which:literal) => {
        concat!(
            "select id, number, octet_length(body), case when octet_length(body) > ?3 then ",
            "substr(cast(body as blob), ?3 + 1, ?4) end, kind, call_id, tool, call_message, hidden, refused from draft ",
            "where message_id = ?1 and ",
            $which,
            " = ?2"
        )
    };
}

const SELECT: &str = select_draft!("number");
const SELECT_NAMED: &str = select_draft!("client_id");
// The hidden text of a draft counts with more bytes than it has.
const COUNT: &str = "select count(*), coalesce(sum(octet_length(body) + coalesce(octet_length(hidden), 0)), 0) \
     from draft where message_id = ?1";
const BODY: &str = "select body from draft where id = ?1";
const HAS_PART: &str = "select exists (select 1 from message m join part p on p.message_id = m.id \
     where m.public_id = ?1 and p.number = ?2)";
const HAS_NAMED_PART: &str = "select exists (select 1 from message m join part p on p.message_id = m.id \
     where m.public_id = ?1 and p.client_id = ?2)";
const INSERT: &str = "insert into draft (message_id, number, client_id, kind, body, call_id, tool, call_message, hidden) \
     values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
const EXTEND: &str = "update draft set body = body || ?2 where id = ?1";
const EXTEND_HIDDEN: &str = "update draft set body = body || ?2, hidden = ?3 where id = ?1";
const REFUSE: &str = "update draft set body = '', hidden = null, refused = ?2 where id = ?1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] =
    &[SELECT, SELECT_NAMED, COUNT, BODY, HAS_PART, HAS_NAMED_PART, INSERT, EXTEND, EXTEND_HIDDEN, REFUSE];

struct ExistingDraft {
    row: i64,
    part: PartId,
    kind: DraftKind,
    /// Bytes that were received.
    length: i64,
    /// Bytes that readers see.
    shown: i64,
    /// Bytes of the request's text that were received before; none if they differ, or if there is a gap.
    overlap: Option<usize>,
    /// Text that readers do not see yet: rules may still find a secret in it.
    hidden: Option<DraftText>,
    /// The rule that refused text of it.
    refused: Option<String>,
}

/// A stored message, and what placeholders in texts of its parts stand for, as far as they were read.
#[derive(Default)]
pub(crate) struct DraftMessage {
    message: Option<Message>,
    replaced: HashMap<PartId, Vec<ReplacedSecret>>,
}

/// What placeholders in the text of a part that a draft has become stand for.
fn replaced(tx: &Tx<'_>, part: PartId, shown: &str) -> Result<Vec<ReplacedSecret>> {
    if !shown.contains(PLACEHOLDER) {
        return Ok(Vec::new());
    }
    Ok(match received::of_part(tx.conn, part)? {
        ReceivedPart::InPieces { replaced, .. } => replaced,
        ReceivedPart::AsStored | ReceivedPart::Whole(_) => Vec::new(),
    })
}

/// The text of a draft that readers see.
fn body(tx: &Tx<'_>, row: i64) -> Result<String> {
    engine::scalar(BODY).bind(row).one(tx.conn)
}

impl AppendDraft {
    /// Validates first, then writes. The stored message is read if the text may be in a closed part, and kept for further
    /// texts of the same mutation, which closes no part. A rule that refuses text refuses its draft for good: this is
    /// written although the answer is an error.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>, stored: &mut DraftMessage) -> Result<DraftReceipt> {
        tx.head(self.session.0)?;
        tx.flush()?;
        let open = tx.loaded(self.session.0)?.open.get(&self.message.0).map(|open| open.row);
        let found = match open {
            Some(row) => self.existing_draft(tx, row)?,
            None => None,
        };
        if let Some(found) = &found {
            if let Err(refusal) = self.follows_on(found) {
                // A message that takes no more text is the better reason for a refusal.
                self.open(tx)?;
                return Err(refusal);
            }
            if self.words.end() <= found.length {
                return Ok(DraftReceipt::existing(found.part, &self.words));
            }
        } else if let Some(part) = self.closed(tx, stored)? {
            return Ok(DraftReceipt::existing(part, &self.words));
        }
        let row = self.open(tx)?;
        let (key, message) = (self.session.0, self.message.0);
        let receipt = match (found, self.words.part) {
            (Some(found), _) => self.extend(tx, row, found)?,
            (None, Some(part)) => return Err(Error::not_found(Kind::Draft, part)),
            (None, None) => self.begin(tx, row)?,
        };
        tx.restart_open_timeout(key, message);
        Ok(receipt)
    }

    /// The row of the message, if it is open and the request may be made.
    fn open(&self, tx: &mut Tx<'_>) -> Result<i64> {
        tx.head(self.session.0)?.fence(self.epoch)?;
        open_message(tx, self.session.0, self.message)
    }

    /// The draft that the text is for, if it exists.
    fn existing_draft(&self, tx: &mut Tx<'_>, row: i64) -> Result<Option<ExistingDraft>> {
        let NewDraftText { part, client_id, offset, delta, .. } = &self.words;
        let query = match (part, client_id) {
            (Some(part), _) => engine::query(SELECT).bind(row).bind(part.number()),
            (None, Some(client_id)) => engine::query(SELECT_NAMED).bind(row).bind(client_id),
            (None, None) => return Ok(None),
        };
        let query = query.bind(*offset).bind(i64::try_from(delta.len()).unwrap_or(i64::MAX));
        let Some(row) = query.optional(tx.conn)? else { return Ok(None) };
        let (id, part, shown): (i64, PartId, i64) =
            (row.get(0)?, PartId::in_message(self.message, row.get(1)?), row.get(2)?);
        let kind = codec::decode_draft_kind(&row, 4)?;
        let refused: Option<String> = row.get(9)?;
        let Some(hidden) = row.get::<Option<&[u8]>>(8)? else {
            let there = row.get::<Option<Vec<u8>>>(3)?.unwrap_or_default();
            let fits = (0..=shown).contains(offset) && delta.as_bytes().starts_with(&there);
            let overlap = fits.then_some(there.len());
            return Ok(Some(ExistingDraft {
                row: id,
                part,
                kind,
                length: shown,
                shown,
                overlap,
                hidden: None,
                refused,
            }));
        };
        let hidden = match tx.secrets.reveal(part, hidden).map_err(|error| error.in_row(part))? {
            Some(hidden) => hidden,
            None => DraftText::resumed(syntax(&kind), &body(tx, id)?),
        };
        let length = hidden.received(usize::try_from(shown).unwrap_or(usize::MAX));
        let overlap = match usize::try_from(*offset) {
            Ok(offset) if offset == length => Some(0),
            Ok(offset) => hidden.overlap(tx.secrets.salt(), &body(tx, id)?, offset, delta),
            Err(_) => None,
        };
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        Ok(Some(ExistingDraft { row: id, part, kind, length, shown, overlap, hidden: Some(hidden), refused }))
    }

    /// Refuses text that leaves a gap or differs from the existing text, and any text of a draft that was refused.
    fn follows_on(&self, found: &ExistingDraft) -> Result<()> {
        if let Some(rule) = &found.refused {
            return Err(Error::SecretRefused { rule: rule.clone() });
        }
        let NewDraftText { part, client_id, kind, offset, delta: _ } = &self.words;
        let fits = found.overlap.is_some();
        match (part, client_id) {
            (None, Some(client_id))
                if (self.resumes || *offset == 0) && !kind.is_like(&found.kind)
                    || !self.resumes && *offset == 0 && !fits =>
            {
                Err(Error::ClientIdReused { client_id: client_id.clone() })
            }
            _ if fits => Ok(()),
            _ => Err(Error::OffsetMismatch { offset: *offset, length: found.length }),
        }
    }

    /// The part that contains the text already, because the draft closed before the text was sent again.
    fn closed(&self, tx: &mut Tx<'_>, stored: &mut DraftMessage) -> Result<Option<PartId>> {
        let NewDraftText { part, client_id, kind, offset, delta } = &self.words;
        let message = self.message.0.as_bytes().to_vec();
        let has = match (part, client_id) {
            (Some(part), _) => engine::scalar(HAS_PART).bind(message).bind(part.number()),
            (None, Some(client_id)) => engine::scalar(HAS_NAMED_PART).bind(message).bind(client_id),
            (None, None) => return Ok(None),
        };
        if !has.one(tx.conn)? {
            return Ok(None);
        }
        let message = match &mut stored.message {
            Some(message) => message,
            none => none.insert(messages::by_public_id(tx.conn, self.session.0, self.message)?),
        };
        let is_meant = |id: PartId, name: &Option<String>| part.map_or(name == client_id, |part| part == id);
        let closed = message.parts.iter().find(|closed| is_meant(closed.id, &closed.client_id));
        let there =
            closed.and_then(|closed| DraftKind::from_body(&closed.body).map(|(kind, text)| (closed.id, kind, text)));
        let there = match there {
            Some((id, kind, shown)) => {
                let replaced = match stored.replaced.entry(id) {
                    Entry::Occupied(read) => read.into_mut(),
                    Entry::Vacant(unread) => unread.insert(replaced(tx, id, shown)?),
                };
                Some((id, kind, DraftText::closed(replaced), shown))
            }
            None => None,
        };
        let salt = tx.secrets.salt();
        let says_so = |text: &DraftText, shown: &str| {
            let offset = usize::try_from(*offset).ok();
            offset.is_some_and(|offset| text.overlap(salt, shown, offset, delta) == Some(delta.len()))
        };
        match (there, part, client_id) {
            (Some((id, was, text, shown)), part, _)
                if says_so(&text, shown) && (part.is_some() || was.is_like(kind)) =>
            {
                Ok(Some(id))
            }
            (Some((_, was, text, shown)), None, Some(_)) if self.resumes && was.is_like(kind) => {
                let length = i64::try_from(text.received(shown.len())).unwrap_or(i64::MAX);
                // A message that takes no more text is the better reason for a refusal.
                self.open(tx)?;
                Err(Error::OffsetMismatch { offset: *offset, length })
            }
            (_, None, Some(client_id)) => {
                self.open(tx)?;
                Err(Error::ClientIdReused { client_id: client_id.clone() })
            }
            _ => Ok(None),
        }
    }

    /// Adds the new part of the text.
    fn extend(&self, tx: &mut Tx<'_>, row: i64, found: ExistingDraft) -> Result<DraftReceipt> {
        let (length, was) = (self.words.end(), found.length);
        let mismatch = || Error::OffsetMismatch { offset: self.words.offset, length: was };
        // The existing text ends with a whole character, and so does the common part of the new text.
        let new = found.overlap.and_then(|overlap| self.words.delta.get(overlap..)).ok_or_else(mismatch)?;
        check_limit("bytes of a draft", limits::DRAFT_BYTES_MAX, length)?;
        self.check_limits(tx, row, (0, length - was))?;
        let text = match (found.hidden, tx.secrets.rules()) {
            (None, None) => {
                self.take_quota(tx, length - was)?;
                engine::query(EXTEND).bind(found.row).bind(new).run(tx.conn)?;
                let (shown, hits) = (new.to_owned(), Vec::new());
                return Ok(DraftReceipt { part: found.part, length, added_at: Some(was), shown, hits });
            }
            (Some(hidden), _) => hidden,
            (None, Some(_)) => DraftText::resumed(syntax(&found.kind), &body(tx, found.row)?),
        };
        let at = (row, found.part, found.shown);
        let settled = self.settle(tx, text, at, (new, length - was));
        if let Err(Error::SecretRefused { rule }) = &settled {
            engine::query(REFUSE).bind(found.row).bind(rule).run(tx.conn)?;
            tx.count(self.session.0, -was)?;
        }
        let (SettledText { text, hits }, hidden) = settled?;
        self.take_quota(tx, length - was)?;
        engine::query(EXTEND_HIDDEN).bind(found.row).bind(&text).bind(hidden).run(tx.conn)?;
        Ok(DraftReceipt { part: found.part, length, added_at: Some(found.shown), shown: text, hits })
    }

    fn begin(&self, tx: &mut Tx<'_>, row: i64) -> Result<DraftReceipt> {
        if self.words.offset != 0 {
            return Err(Error::OffsetMismatch { offset: self.words.offset, length: 0 });
        }
        let length = self.words.end();
        check_limit("bytes of a draft", limits::DRAFT_BYTES_MAX, length)?;
        let count = self.check_limits(tx, row, (1, length))?;
        check_limit("drafts of one message", limits::MESSAGE_DRAFTS_MAX, count + 1)?;
        let call_message = self.call_message(tx)?;
        let number = tx.loaded(self.session.0)?.next_number(self.message)?;
        let (SettledText { text, hits }, hidden) = match tx.secrets.rules() {
            None => (SettledText { text: self.words.delta.clone(), hits: Vec::new() }, None),
            Some(_) => {
                let new = DraftText::new(syntax(&self.words.kind));
                self.settle(tx, new, (row, PartId::in_message(self.message, number), 0), (&self.words.delta, length))?
            }
        };
        self.take_quota(tx, length)?;
        let NewDraftText { client_id, kind, .. } = &self.words;
        let (call_id, tool) = match kind {
            DraftKind::Text | DraftKind::Reasoning => (None, None),
            DraftKind::ToolInput { call_id, tool } => (Some(call_id.clone()), Some(tool.clone())),
            DraftKind::ToolOutput { call_id, .. } => (Some(call_id.clone()), None),
        };
        engine::query(INSERT)
            .bind(row)
            .bind(number)
            .bind(client_id.as_deref())
            .bind(codec::draft_kind(kind))
            .bind(&text)
            .bind(call_id)
            .bind(tool)
            .bind(call_message.map(|id| id.0.as_bytes().to_vec()))
            .bind(hidden)
            .run(tx.conn)?;
        tx.loaded(self.session.0)?.set_next_number(self.message, number.saturating_add(1));
        Ok(DraftReceipt {
            part: PartId::in_message(self.message, number),
            length,
            added_at: Some(0),
            shown: text,
            hits,
        })
    }

    /// Applies the rules to the text of a draft of the message in a row, with a piece more behind what readers see, and the
    /// bytes that are received with it. Returns what readers see of it from now on, and what is to be kept beside that.
    fn settle(
        &self,
        tx: &mut Tx<'_>,
        mut text: DraftText,
        (row, part, shown): (i64, PartId, i64),
        (piece, received): (&str, i64),
    ) -> Result<(SettledText, Option<Vec<u8>>)> {
        let (secrets, waited) = (tx.secrets, text.waiting.len());
        let shown_bytes = usize::try_from(shown).unwrap_or(usize::MAX);
        let settled = text.add(secrets.rules(), secrets.salt(), shown_bytes, piece, false).map_err(|rule| {
            secrets.count_refused(rule);
            Error::SecretRefused { rule: secrets.rule_name(rule) }
        })?;
        let bytes = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        check_limit("bytes of a draft", limits::DRAFT_BYTES_MAX, bytes(settled.text.len()).saturating_add(shown))?;
        check_limit("secrets of a draft", limits::DRAFT_SECRETS_MAX, bytes(text.replaced.len()))?;
        // Placeholders can be longer than what they stand for.
        let grown = (settled.text.len() + text.waiting.len()).saturating_sub(waited);
        self.check_limits(tx, row, (0, received.max(bytes(grown))))?;
        secrets.count(&settled.hits);
        // Without rules no text is hidden, and replaced text matters only while its key exists.
        let is_plain = secrets.rules().is_none() && (text.replaced.is_empty() || !secrets.has_draft_key());
        let hidden = if is_plain { None } else { Some(secrets.hide(part, &text)?) };
        Ok((settled, hidden))
    }

    /// Takes new text from the tenant's quota, or refuses it.
    fn take_quota(&self, tx: &mut Tx<'_>, bytes: i64) -> Result<()> {
        tx.admit_in(self.session.0, bytes)?;
        tx.count(self.session.0, bytes)
    }

    /// The message of the call whose output the draft is, if the client named it: a message of the history that has the
    /// call. So the draft can close at any time.
    fn call_message(&self, tx: &mut Tx<'_>) -> Result<Option<MessageId>> {
        let DraftKind::ToolOutput { call_message: Some(_), .. } = &self.words.kind else { return Ok(None) };
        let mut part = NewPart::new(self.words.kind.part(String::new(), ResultStatus::Completed));
        let mut input = PartInput::from_client(&part);
        NamedCalls::default().resolve(tx, self.session.0, &mut part, &mut input)?;
        Ok(input.call_message.map(MessageId))
    }

    /// Refuses drafts and text that would exceed the limits of the message when it is sealed; returns the number of its
    /// drafts.
    fn check_limits(&self, tx: &mut Tx<'_>, row: i64, (new, bytes): (usize, i64)) -> Result<i64> {
        let drafts = engine::query(COUNT).bind(row).one(tx.conn)?;
        let (count, there): (i64, i64) = (drafts.get(0)?, drafts.get(1)?);
        let parts = usize::try_from(count).unwrap_or(usize::MAX).saturating_add(new);
        check_message_limits(tx.loaded(self.session.0)?, self.message, parts, there + bytes)?;
        Ok(count)
    }
}
