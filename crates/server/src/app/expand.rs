//! The originals behind the ids in a view.

use super::error::{Error, Reason, Result};
use super::nouns::Messages;
use super::page_size;
use crate::model::Revision;
use crate::model::ids::{CompactionId, PartId};
use crate::model::message::{Message, MessageKind, MessageStatus};
use crate::store::SessionKey;

/// A page of the originals behind an id.
#[derive(Debug, Clone, PartialEq)]
pub struct OriginalsPage {
    /// The messages as they were written, oldest first.
    pub messages: Vec<Message>,
    /// Their statuses, in their order.
    pub statuses: Vec<MessageStatus>,
    /// Token of the next page; empty on the last page.
    pub next_page_token: String,
}

impl Messages<'_> {
    /// The originals behind an id of a view: for a message, that message; for an edit, the message that it replaces and
    /// the edit; for a replay, the request; for a part, its message with that part alone; for a summary, a marker or a
    /// compaction, every message that it covers, leaves out or shortens. Compactions that were undone can be expanded
    /// like the others; one that removed nothing has an empty page.
    pub async fn expand(self, session: &str, id: &str, size: i64, token: &str) -> Result<OriginalsPage> {
        let limit = page_size(size)?;
        let scope = format!("expand {session} {id}");
        let from = self.caller.page_start(token, &scope)?.unwrap_or(0);
        let key = self.caller.session_key(session).await?;
        let (messages, next) = self.originals(key, id, from, limit).await?;
        let statuses = self.statuses(key, None, &messages).await?;
        let next_page_token = next.map(|next| self.caller.page_token(next, &scope)).unwrap_or_default();
        Ok(OriginalsPage { messages, statuses, next_page_token })
    }

    /// The originals behind an id, from a revision on, and the revision of the next one.
    async fn originals(
        self,
        key: SessionKey,
        id: &str,
        from: Revision,
        limit: i64,
    ) -> Result<(Vec<Message>, Option<Revision>)> {
        let alone = |message| (vec![message], None);
        if let Ok(part) = id.parse::<PartId>() {
            return Ok(alone(self.part(key, part).await?));
        }
        let compaction = match id.parse::<CompactionId>() {
            Ok(compaction) => compaction,
            Err(_) => {
                let message = self.caller.store().history().get(key, id).await?;
                let made_by = match message.kind {
                    MessageKind::Summary | MessageKind::Marker => {
                        self.caller.store().compactions().of_derived(key, message.revision).await?
                    }
                    MessageKind::Replay => {
                        let original = self.caller.store().history().replaced(key, message.revision).await?;
                        return Ok(alone(original.unwrap_or(message)));
                    }
                    MessageKind::Edit => {
                        let original = self.caller.store().history().replaced(key, message.revision).await?;
                        return Ok((original.into_iter().chain([message]).collect(), None));
                    }
                    MessageKind::Normal | MessageKind::Record | MessageKind::Branch | MessageKind::Continuation => None,
                };
                match made_by {
                    Some(compaction) => compaction,
                    None => return Ok(alone(message)),
                }
            }
        };
        Ok(self.caller.store().compactions().taken_by(key, compaction, from, limit).await?)
    }

    /// The message of a part, with that part alone.
    pub(super) async fn part(self, session: SessionKey, id: PartId) -> Result<Message> {
        let missing = || {
            let message = format!("no message has the part {id}");
            Error::new(Reason::MessageNotFound, message).with("part_id", id.to_string())
        };
        self.caller.store().history().part(session, id).await?.ok_or_else(missing)
    }
}
