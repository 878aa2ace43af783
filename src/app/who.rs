//! Presence for callers: who types, and who is at work in a session.

use super::error::Result;
use super::presence::{Presences, Present};
use super::{Caller, validate};
use crate::limits;
use crate::model::run::Run;
use crate::store::SessionKey;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Removes who no longer types.
async fn expire(presences: Arc<Presences>, key: SessionKey, actor: String) {
    loop {
        let end = presences.sessions().get(&key).and_then(|session| session.typing.get(&actor)).map(|(_, end)| *end);
        match end {
            None => return,
            Some(end) if end <= Instant::now() => break,
            Some(end) => tokio::time::sleep_until(end).await,
        }
    }
    presences.change(key, |session| session.typing.remove(&actor));
}

/// Who is at work in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    /// Who watches and who types, by name.
    pub present: Vec<Present>,
    /// The active run.
    pub run: Option<Run>,
}

impl Caller {
    /// Says that the caller types in a session, for ten seconds, or that it does not any more.
    pub async fn report_typing(&self, session: &str, is_typing: bool) -> Result<()> {
        let key = self.session_key(session).await?;
        let actor = self.requester().actor;
        validate::present(&actor)?;
        let presences = &self.shared.presences;
        let now = self.shared.clock.now();
        if !is_typing {
            let is_known = presences.sessions().get(&key).is_some_and(|session| session.typing.contains_key(&actor));
            if is_known {
                presences.change(key, |session| session.typing.remove(&actor));
            }
            return Ok(());
        }
        let end = Instant::now() + Duration::from_millis(limits::TYPING_MS);
        let known = presences.sessions().get_mut(&key).and_then(|session| {
            let typing = session.typing.get_mut(&actor)?;
            typing.1 = end;
            Some(())
        });
        if known.is_none() {
            let full = presences.change(key, |session| {
                let is_full = session.typing.len() >= limits::TYPING_MAX;
                if !is_full {
                    session.typing.insert(actor.clone(), (now, end));
                }
                is_full
            });
            if full {
                return Err(super::Error::limit(
                    "who types in one session",
                    limits::TYPING_MAX,
                    limits::TYPING_MAX + 1,
                ));
            }
            tokio::spawn(expire(Arc::clone(presences), key, actor));
        }
        Ok(())
    }

    /// Who is at work in a session.
    pub async fn who(&self, session: &str) -> Result<Who> {
        let key = self.session_key(session).await?;
        let run = self.store().runs().of_session(key).await?.run.filter(|run| run.end.is_none());
        Ok(Who { present: self.shared.presences.of(key), run })
    }
}
