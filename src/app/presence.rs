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
use tokio::sync::broadcast;
use tokio::time::Instant;

/// Somebody in a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Present {
    /// The name for itself; may be empty.
    pub actor: String,
    /// What is done.
    pub doing: Doing,
    /// The time since which it is.
    pub since: Timestamp,
}

/// What somebody does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doing {
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
    pub present: Vec<Present>,
}

/// Everybody in every session, in memory.
pub(super) struct Presences {
    sessions: Mutex<HashMap<SessionKey, Session>>,
    changes: broadcast::Sender<SessionKey>,
}

#[derive(Default)]
pub(super) struct Session {
    /// Streams, with what each says.
    watching: HashMap<u64, Present>,
    /// Who types, until when.
    pub(super) typing: HashMap<String, (Timestamp, Instant)>,
    next: u64,
}

impl Default for Presences {
    fn default() -> Self {
        let (changes, _) = broadcast::channel(limits::DELTA_FRAMES_MAX);
        Self { sessions: Mutex::default(), changes }
    }
}

impl Presences {
    pub(super) fn sessions(&self) -> MutexGuard<'_, HashMap<SessionKey, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sessions in which somebody came or went, from now on.
    pub(super) fn changes(&self) -> broadcast::Receiver<SessionKey> {
        self.changes.subscribe()
    }

    /// Everybody in a session, by name.
    pub(super) fn of(&self, key: SessionKey) -> Vec<Present> {
        let sessions = self.sessions();
        let Some(session) = sessions.get(&key) else { return Vec::new() };
        let typing = session.typing.iter().map(|(actor, (since, _))| Present {
            actor: actor.clone(),
            doing: Doing::Typing,
            since: *since,
        });
        let mut present: Vec<Present> = session.watching.values().cloned().chain(typing).collect();
        present.sort();
        present
    }

    /// Changes a session, and tells those who follow it. One that is empty is forgotten.
    pub(super) fn change<T>(&self, key: SessionKey, change: impl FnOnce(&mut Session) -> T) -> T {
        let mut sessions = self.sessions();
        let session = sessions.entry(key).or_default();
        let result = change(session);
        if session.watching.is_empty() && session.typing.is_empty() {
            sessions.remove(&key);
        }
        drop(sessions);
        // Without anybody who follows it, nobody needs to know.
        let _ = self.changes.send(key);
        result
    }
}

/// A stream that follows sessions, as long as it lives.
pub(super) struct Watching {
    presences: Arc<Presences>,
    entries: Vec<(SessionKey, u64)>,
}

impl Watching {
    /// Adds somebody to sessions.
    pub(super) fn begin(
        presences: &Arc<Presences>,
        keys: impl Iterator<Item = SessionKey>,
        actor: &str,
        now: Timestamp,
    ) -> Self {
        let add = |session: &mut Session| {
            session.next += 1;
            let present = Present { actor: actor.to_owned(), doing: Doing::Watching, since: now };
            session.watching.insert(session.next, present);
            session.next
        };
        let entries = keys.map(|key| (key, presences.change(key, add))).collect();
        Self { presences: Arc::clone(presences), entries }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        for (key, entry) in &self.entries {
            self.presences.change(*key, |session| session.watching.remove(entry));
        }
    }
}
