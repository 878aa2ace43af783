//! Who is at work in sessions: frames beside the log. Nothing of it is stored.
//!
//! Who follows a named session is present as long as the stream is open. Who types says so again and again. Who runs is
//! in the log, and is read from there.

use crate::limits;
use crate::model::ids::SessionId;
use crate::model::time::Timestamp;
use crate::store::SessionKey;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Somebody in a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PresentActor {
    /// The name for itself; may be empty.
    pub actor: String,
    /// What is done.
    pub doing: PresenceKind,
    /// The time since which it is.
    pub since: Timestamp,
}

/// What somebody does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PresenceKind {
    /// Follows the session.
    Watching,
    /// Writes a prompt.
    Typing,
}

/// Everybody in a session, after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresenceFrame {
    /// The session.
    pub session: SessionId,
    /// Everybody, by name.
    pub present: Vec<PresentActor>,
}

/// Everybody in every session, in memory.
pub(super) struct Presences {
    sessions: Mutex<HashMap<SessionKey, Session>>,
    changes: broadcast::Sender<SessionKey>,
}

#[derive(Default)]
struct Session {
    /// Streams, with what each says.
    watching: HashMap<u64, PresentActor>,
    /// Who types, by name.
    typing: HashMap<String, TypingState>,
    next: u64,
}

struct TypingState {
    since: Timestamp,
    end: Instant,
    /// The task that removes it at its end.
    expiry: AbortHandle,
}

impl Default for Presences {
    fn default() -> Self {
        let (changes, _) = broadcast::channel(limits::DELTA_FRAMES_MAX);
        Self { sessions: Mutex::default(), changes }
    }
}

impl Presences {
    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionKey, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sessions in which somebody came or went, from now on.
    pub(super) fn changes(&self) -> broadcast::Receiver<SessionKey> {
        self.changes.subscribe()
    }

    /// Everybody in a session, by name.
    pub(super) fn present_in(&self, key: SessionKey) -> Vec<PresentActor> {
        let sessions = self.sessions();
        let Some(session) = sessions.get(&key) else { return Vec::new() };
        let typing = session.typing.iter().map(|(actor, typing)| PresentActor {
            actor: actor.clone(),
            doing: PresenceKind::Typing,
            since: typing.since,
        });
        let mut present: Vec<PresentActor> = session.watching.values().cloned().chain(typing).collect();
        present.sort();
        present
    }

    /// Changes a session, and notifies those who follow it if anybody came or went: if `change` returns something. A
    /// session without anybody is forgotten.
    fn change<T>(&self, key: SessionKey, change: impl FnOnce(&mut Session) -> Option<T>) -> Option<T> {
        let mut sessions = self.sessions();
        let session = sessions.entry(key).or_default();
        let result = change(session);
        if session.watching.is_empty() && session.typing.is_empty() {
            sessions.remove(&key);
        }
        drop(sessions);
        if result.is_some() {
            // Without anybody who follows it, nobody needs to know.
            let _ = self.changes.send(key);
        }
        result
    }

    /// Records that somebody types, for a time; false if too many others do.
    pub(super) fn begin_typing(self: &Arc<Self>, key: SessionKey, actor: &str, now: Timestamp) -> bool {
        let end = Instant::now() + Duration::from_millis(limits::TYPING_MS);
        let mut has_room = true;
        self.change(key, |session| {
            if let Some(typing) = session.typing.get_mut(actor) {
                typing.end = end;
                return None;
            }
            has_room = session.typing.len() < limits::TYPING_MAX;
            has_room.then(|| {
                let expiry = tokio::spawn(expire(Arc::clone(self), key, actor.to_owned())).abort_handle();
                session.typing.insert(actor.to_owned(), TypingState { since: now, end, expiry });
            })
        });
        has_room
    }

    /// Records that somebody does not type any more.
    pub(super) fn end_typing(&self, key: SessionKey, actor: &str) {
        self.change(key, |session| session.typing.remove(actor).map(|typing| typing.expiry.abort()));
    }

    /// Removes somebody whose time to type is over; else returns the end of it.
    fn expire_typing(&self, key: SessionKey, actor: &str) -> Option<Instant> {
        let mut end = None;
        self.change(key, |session| {
            end = session.typing.get(actor).map(|typing| typing.end).filter(|end| *end > Instant::now());
            if end.is_some() { None } else { session.typing.remove(actor) }
        });
        end
    }
}

/// Removes somebody once its time to type is over.
async fn expire(presences: Arc<Presences>, key: SessionKey, actor: String) {
    while let Some(end) = presences.expire_typing(key, &actor) {
        tokio::time::sleep_until(end).await;
    }
}

/// A stream that follows sessions, as long as it lives.
pub(super) struct PresenceWatch {
    presences: Arc<Presences>,
    entries: Vec<(SessionKey, u64)>,
}

impl PresenceWatch {
    /// Adds somebody to sessions.
    pub(super) fn begin(
        presences: &Arc<Presences>,
        keys: impl Iterator<Item = SessionKey>,
        actor: &str,
        now: Timestamp,
    ) -> Self {
        let add = |session: &mut Session| {
            session.next += 1;
            let present = PresentActor { actor: actor.to_owned(), doing: PresenceKind::Watching, since: now };
            session.watching.insert(session.next, present);
            Some(session.next)
        };
        let entries = keys.filter_map(|key| Some((key, presences.change(key, add)?))).collect();
        Self { presences: Arc::clone(presences), entries }
    }
}

impl Drop for PresenceWatch {
    fn drop(&mut self) {
        for (key, entry) in &self.entries {
            self.presences.change(*key, |session| session.watching.remove(entry));
        }
    }
}
