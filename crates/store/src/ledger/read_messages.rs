//! Messages that streams of events have read, in memory for the next streams: a session that many watch is read once.

use super::messages::message_bytes;
use crate::limits;
use crate::model::ids::MessageId;
use crate::model::message::Message;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};

/// Messages that change no more, the newest read last.
#[derive(Default)]
struct Kept {
    by_id: HashMap<MessageId, Arc<Message>>,
    order: VecDeque<MessageId>,
    bytes: usize,
    /// How often all were dropped.
    drops: u64,
}

/// The messages, bounded by their bytes.
#[derive(Default)]
pub(crate) struct ReadMessages(RwLock<Kept>);

/// When a read began.
#[derive(Clone, Copy)]
pub(crate) struct ReadBegin(u64);

impl ReadMessages {
    /// The message if it is here; else what [`Self::keep`] needs, to be taken before the message is read.
    pub(crate) fn get(&self, id: MessageId) -> Result<Arc<Message>, ReadBegin> {
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner);
        kept.by_id.get(&id).map(Arc::clone).ok_or(ReadBegin(kept.drops))
    }

    /// Keeps a message that was read, if it is sealed and not too long, and if nothing was erased since the read began.
    pub(crate) fn keep(&self, begin: ReadBegin, message: &Arc<Message>) {
        let bytes = message_bytes(message);
        if message.sealed_revision.is_none() || bytes > limits::READ_MESSAGE_BYTES_MAX {
            return;
        }
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if kept.drops != begin.0 || kept.by_id.insert(message.id, Arc::clone(message)).is_some() {
            return;
        }
        kept.order.push_back(message.id);
        kept.bytes += bytes;
        while kept.bytes > limits::READ_MESSAGES_BYTES {
            let Some(oldest) = kept.order.pop_front() else { return };
            kept.bytes -= kept.by_id.remove(&oldest).map_or(0, |message| message_bytes(&message));
        }
    }

    /// Drops all: some may have what is erased by now.
    pub(crate) fn forget(&self) {
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *kept = Kept { drops: kept.drops + 1, ..Kept::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::{PartId, SessionId};
    use crate::model::message::{Finish, MessageKind, Role};
    use crate::model::part::{Part, PartBody};
    use crate::model::time::Timestamp;
    use uuid::Uuid;

    fn message(number: u128, bytes: usize, sealed_revision: Option<i64>) -> Arc<Message> {
        let id = PartId(Uuid::from_u128(number));
        let body = PartBody::Text("x".repeat(bytes)).into();
        Arc::new(Message {
            id: MessageId(Uuid::from_u128(number)),
            session_id: SessionId(Uuid::nil()),
            client_id: None,
            revision: 1,
            role: Role::User,
            kind: MessageKind::Normal,
            parts: vec![Part { id, client_id: None, revision: 1, body, metadata_json: None }],
            sealed_revision,
            finish: Finish::default(),
            model: String::new(),
            provider: String::new(),
            create_time: Timestamp(0),
            origin_time: None,
            actor: String::new(),
            metadata_json: None,
            replaces: None,
        })
    }

    #[test]
    fn sealed_messages_are_kept_up_to_their_bytes_the_oldest_go_first() {
        let messages = ReadMessages::default();
        let keep = |message: &Arc<Message>| {
            if let Err(begin) = messages.get(message.id) {
                messages.keep(begin, message);
            }
            messages.get(message.id).is_ok_and(|kept| Arc::ptr_eq(&kept, message))
        };
        assert!(!keep(&message(1, 10, None)), "an open message changes");
        assert!(!keep(&message(1, limits::READ_MESSAGE_BYTES_MAX, Some(1))), "too long");
        let half = limits::READ_MESSAGE_BYTES_MAX / 2;
        let fit = limits::READ_MESSAGES_BYTES / half;
        let kept: Vec<_> = (0..2 * fit as u128).map(|number| message(number, half, Some(1))).collect();
        assert!(kept.iter().all(keep));
        assert!(!keep(&message(2 * fit as u128 - 1, half, Some(1))), "the one that is here stays");
        let count = kept.iter().filter(|message| messages.get(message.id).is_ok()).count();
        assert!((fit / 2..=fit).contains(&count), "{count} of {fit}");
        assert!(messages.get(kept[0].id).is_err());
        messages.forget();
        assert!(kept.iter().all(|message| messages.get(message.id).is_err()));
    }

    #[test]
    fn what_was_read_before_an_erasure_is_not_kept_after_it() {
        let messages = ReadMessages::default();
        let message = message(1, 10, Some(1));
        let Err(begin) = messages.get(message.id) else { panic!("nothing is here") };
        messages.forget();
        messages.keep(begin, &message);
        assert!(messages.get(message.id).is_err());
    }
}
