//! Messages that streams of events have read, in memory for the next streams: what many watch is read once.

use super::message_sizes::message_bytes;
use crate::limits;
use crate::model::ids::MessageId;
use crate::model::message::Message;
use crate::model::part::{Part, PartBody};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The messages.
#[derive(Default)]
struct Kept {
    by_id: HashMap<MessageId, Arc<Message>>,
    /// Their ids and bytes, the newest read last.
    order: VecDeque<(MessageId, usize)>,
    bytes: usize,
    /// How often all were dropped.
    drops: u64,
}

/// Sealed messages, which only an erasure changes, bounded by their bytes.
#[derive(Default)]
pub(crate) struct ReadMessages(RwLock<Kept>);

/// A read that has begun.
#[derive(Clone, Copy)]
pub(crate) struct BegunRead {
    drops: u64,
}

impl ReadMessages {
    /// Begins a read of messages, before any is looked up or read.
    pub(crate) fn begin(&self) -> BegunRead {
        BegunRead { drops: self.kept().drops }
    }

    /// The message, if it is here.
    pub(crate) fn get(&self, id: MessageId) -> Option<Arc<Message>> {
        self.kept().by_id.get(&id).map(Arc::clone)
    }

    /// Keeps a message that was read, if it is sealed and not too long, and if nothing was erased since the read began. The
    /// one that was kept before stays.
    pub(crate) fn keep(&self, begun: BegunRead, message: &Arc<Message>) {
        let around = size_of::<Message>() + message.parts.len() * (size_of::<Part>() + size_of::<PartBody>());
        let bytes = message_bytes(message) + around;
        if message.sealed_revision.is_none() || bytes > limits::READ_MESSAGE_BYTES_MAX {
            return;
        }
        let mut kept = self.kept_mut();
        if kept.drops != begun.drops {
            return;
        }
        let Entry::Vacant(place) = kept.by_id.entry(message.id) else { return };
        place.insert(Arc::clone(message));
        kept.order.push_back((message.id, bytes));
        kept.bytes += bytes;
        // Freed without the lock.
        let mut evicted = Vec::new();
        while kept.bytes > limits::READ_MESSAGES_BYTES
            && let Some((oldest, bytes)) = kept.order.pop_front()
        {
            kept.bytes -= bytes;
            evicted.extend(kept.by_id.remove(&oldest));
        }
        drop(kept);
    }

    /// Drops all: some may have what is erased by now.
    pub(crate) fn forget(&self) {
        let mut kept = self.kept_mut();
        let none = Kept { drops: kept.drops + 1, ..Kept::default() };
        let dropped = std::mem::replace(&mut *kept, none);
        // Freed without the lock.
        drop(kept);
        drop(dropped);
    }

    fn kept(&self) -> RwLockReadGuard<'_, Kept> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept_mut(&self) -> RwLockWriteGuard<'_, Kept> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::{PartId, SessionId};
    use crate::model::message::{Finish, MessageKind, Role};
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
            messages.keep(messages.begin(), message);
            messages.get(message.id).is_some_and(|kept| Arc::ptr_eq(&kept, message))
        };
        assert!(!keep(&message(1, 10, None)), "an open message changes");
        assert!(!keep(&message(1, limits::READ_MESSAGE_BYTES_MAX, Some(1))), "too long");
        let half = limits::READ_MESSAGE_BYTES_MAX / 2;
        let fit = limits::READ_MESSAGES_BYTES / half;
        let kept: Vec<_> = (0..2 * fit as u128).map(|number| message(number, half, Some(1))).collect();
        assert!(kept.iter().all(keep));
        assert!(!keep(&message(2 * fit as u128 - 1, half, Some(1))), "the one that is here stays");
        let count = kept.iter().filter(|message| messages.get(message.id).is_some()).count();
        assert!((fit / 2..=fit).contains(&count), "{count} of {fit}");
        assert!(messages.get(kept[0].id).is_none());
        messages.forget();
        assert!(kept.iter().all(|message| messages.get(message.id).is_none()));
    }

    #[test]
    fn what_was_read_before_an_erasure_is_not_kept_after_it() {
        let messages = ReadMessages::default();
        let message = message(1, 10, Some(1));
        let begun = messages.begin();
        messages.forget();
        messages.keep(begun, &message);
        assert!(messages.get(message.id).is_none());
    }
}
