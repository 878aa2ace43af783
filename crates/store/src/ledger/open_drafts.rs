//! The drafts of an open message, and the parts that they become.

use super::codec::{self, ReceivedPart};
use super::received;
use super::secrets::Secrets;
use super::tx::{PartInput, Tx, salt};
use crate::engine::{self, Connection, Row};
use crate::error::{Error, Kind, Result};
use crate::model::draft::DraftKind;
use crate::model::ids::{MessageId, PartId};
use crate::model::part::{NewPart, Part, PartBody, ResultStatus};
use crate::secrets::{DraftText, Hit};
use std::sync::Arc;
use uuid::Uuid;

const SELECT: &str = "select number, body, client_id, kind, call_id, tool, call_message, hidden, refused from draft \
     where message_id = ?1 order by number";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[SELECT];

/// A part that joins an open message.
#[derive(Debug, Clone, PartialEq)]
pub enum OpenPart {
    /// A part with its body.
    Whole(NewPart),
    /// A draft that closes with its text so far.
    Ended(DraftEnd),
}

impl OpenPart {
    /// A draft that closes, with optional metadata.
    pub fn draft(id: PartId, metadata_json: Option<String>) -> Self {
        Self::Ended(DraftEnd { draft: DraftName::Id(id), status: None, metadata_json, received: None })
    }
}

/// A draft that closes with its text so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftEnd {
    /// The draft.
    pub draft: DraftName,
    /// The status of the tool, if the draft is its output; none for completed.
    pub status: Option<ResultStatus>,
    /// The client's free JSON for the part.
    pub metadata_json: Option<String>,
    /// The salted digest of the metadata as received, if a rule changed them.
    pub received: Option<[u8; 32]>,
}

/// What names a draft in its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DraftName {
    /// Its part's id; no longer valid once the draft has closed.
    Id(PartId),
    /// The client's own id. The part keeps it, so that a repeated close finds the part.
    Client(String),
}

pub(crate) struct OpenDraft {
    pub(crate) id: PartId,
    pub(crate) client_id: Option<String>,
    /// Bytes of its text.
    pub(crate) length: i64,
    kind: DraftKind,
    text: String,
    /// What it has beside the text.
    hidden: Option<DraftText>,
    /// The rule that refused its text: such a draft becomes no part.
    pub(crate) refused: Option<String>,
}

/// What a name of a draft means.
pub(crate) enum NamedDraft<'a> {
    /// A draft that is still open.
    Open(&'a OpenDraft),
    /// The part that the draft has become.
    Closed(Uuid),
}

/// The part that a draft becomes.
pub(crate) struct ClosedDraft {
    pub(crate) input: PartInput,
    pub(crate) body: Arc<PartBody>,
    /// Secrets that were found in the hidden text.
    pub(crate) hits: Vec<Hit>,
}

impl OpenDraft {
    /// The part that the draft becomes, with the metadata of its end. Hidden text joins it: it was acknowledged, so no
    /// rule may refuse it now.
    pub(crate) fn close(&self, secrets: &Secrets, status: ResultStatus, end: Option<&DraftEnd>) -> ClosedDraft {
        let closed = self.closed(secrets, status, end);
        secrets.count(&closed.hits);
        closed
    }

    /// The same, if it closed.
    pub(crate) fn closed(&self, secrets: &Secrets, status: ResultStatus, end: Option<&DraftEnd>) -> ClosedDraft {
        let (mut text, mut replaced, mut hits) = (self.text.clone(), Vec::new(), Vec::new());
        if let Some(mut hidden) = self.hidden.clone() {
            let rest = hidden.add(secrets.rules(), secrets.salt(), text.len(), "", true).unwrap_or_default();
            text.push_str(&rest.text);
            (replaced, hits) = (hidden.replaced, rest.hits);
        }
        let metadata_json = end.and_then(|end| end.metadata_json.as_deref());
        let received = match end.and_then(|end| end.received) {
            None if replaced.is_empty() => ReceivedPart::AsStored,
            metadata => ReceivedPart::InPieces { replaced, metadata },
        };
        let body = self.kind.part(text, status);
        let call_message = match &self.kind {
            DraftKind::ToolOutput { call_message: Some(message), .. } => message.parse::<MessageId>().ok(),
            _ => None,
        };
        let encoded = codec::encode_received_part(&body, metadata_json, &received, salt());
        let call_message = call_message.map(|message| message.0);
        let input = PartInput { client_id: self.client_id.clone(), encoded, call_message };
        ClosedDraft { input, body: Arc::new(body), hits }
    }
}

/// The drafts of a message, given by its row and its id.
pub(crate) fn open_drafts(
    conn: &Connection,
    secrets: &Secrets,
    row: i64,
    message: MessageId,
) -> Result<Vec<OpenDraft>> {
    let rows = engine::query(SELECT).bind(row).all(conn)?;
    let draft = |row: Row| {
        let text: String = row.get(1)?;
        let (id, kind) = (PartId::in_message(message, row.get(0)?), codec::decode_draft_kind(&row, 3)?);
        let hidden = match row.get::<Option<&[u8]>>(7)? {
            Some(hidden) => secrets.reveal(id, hidden).map_err(|error| error.in_row(id))?,
            None => None,
        };
        let waiting = hidden.as_ref().map_or(0, |hidden| hidden.waiting.len());
        let length = i64::try_from(text.len() + waiting).unwrap_or(i64::MAX);
        Ok(OpenDraft { id, client_id: row.get(2)?, length, kind, text, hidden, refused: row.get(8)? })
    };
    rows.into_iter().map(draft).collect()
}

impl DraftEnd {
    /// The draft that closes, or the part that it has become.
    ///
    /// # Errors
    ///
    /// `NotFound` if no draft and no part has the name, or the draft is among those that close already; `ClientIdReused`
    /// if the part differs; `SecretRefused` if a rule refused text of the draft.
    pub(crate) fn find_draft<'a>(
        &self,
        tx: &Tx<'_>,
        drafts: &'a [OpenDraft],
        closing: &[PartId],
        parts: &[Part],
    ) -> Result<NamedDraft<'a>> {
        let is_meant = |draft: &&OpenDraft| match &self.draft {
            DraftName::Id(id) => draft.id == *id,
            DraftName::Client(name) => draft.client_id.as_ref() == Some(name),
        };
        if let Some(draft) = drafts.iter().find(is_meant).filter(|draft| !closing.contains(&draft.id)) {
            let refused = draft.refused.clone().map(|rule| Error::SecretRefused { rule });
            return refused.map_or(Ok(NamedDraft::Open(draft)), Err);
        }
        let name = match &self.draft {
            DraftName::Id(id) => return Err(Error::not_found(Kind::Draft, id)),
            DraftName::Client(name) => name,
        };
        let part = parts.iter().find(|part| part.client_id.as_ref() == Some(name));
        let part = part.ok_or_else(|| Error::not_found(Kind::Draft, name))?;
        let same_status = match &*part.body {
            PartBody::ToolResult(result) => result.status == self.status(),
            _ => true,
        };
        let is_same = part.metadata_json == self.metadata_json
            || received::repeats_metadata(tx, part, (&self.metadata_json, self.received))?;
        match same_status && is_same {
            true => Ok(NamedDraft::Closed(part.id.0)),
            false => Err(Error::ClientIdReused { client_id: name.clone() }),
        }
    }

    /// The status of the part, if it is a tool's output.
    pub(crate) fn status(&self) -> ResultStatus {
        self.status.unwrap_or(ResultStatus::Completed)
    }
}
