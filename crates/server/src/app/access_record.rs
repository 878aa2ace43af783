//! What the access log is to have of calls.

use crate::access_log::AccessLog;
use crate::limits;
use std::sync::{Arc, Mutex, PoisonError};

/// The access log, with what it is for.
pub struct AccessLogging {
    /// The log.
    pub log: AccessLog,
    /// True if the owner's calls are in it, too.
    pub owner_too: bool,
    /// True if a call is refused whose line cannot be written. One that acts has a line before it is carried out, too.
    pub refuses: bool,
}

/// The sessions that a call named, as it named them.
#[derive(Debug, Clone, Default)]
pub struct NamedSessions(Arc<Mutex<Vec<String>>>);

impl NamedSessions {
    /// Adds a session, as the call named it.
    pub fn add(&self, session: &str) {
        let mut named = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if named.len() < limits::ACCESS_LOG_SESSIONS_MAX && !named.iter().any(|known| known == session) {
            named.push(session.to_owned());
        }
    }

    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
