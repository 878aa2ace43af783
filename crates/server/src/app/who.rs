//! Presence for callers: who types, and who is at work in a session.

use super::error::Result;
use super::nouns::Presence;
use super::presence::PresentActor;
use super::validate;
use crate::limits;
use crate::model::run::Run;

/// Who is at work in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    /// Who watches and who types, by name.
    pub present: Vec<PresentActor>,
    /// The active run.
    pub run: Option<Run>,
}

impl Presence<'_> {
    /// Says that the caller types in a session, for ten seconds, or that it does not any more.
    pub async fn report_typing(self, session: &str, is_typing: bool) -> Result<()> {
        let key = self.caller.session_key(session).await?;
        let actor = self.caller.requester().actor;
        validate::present(&actor)?;
        let presences = &self.caller.shared.presences;
        if !is_typing {
            presences.end_typing(key, &actor);
            return Ok(());
        }
        match presences.begin_typing(key, &actor, self.caller.shared.clock.now()) {
            true => Ok(()),
            false => {
                let most = limits::TYPING_MAX;
                Err(super::Error::limit("who types in one session", most, most + 1))
            }
        }
    }

    /// Who is at work in a session.
    pub async fn get(self, session: &str) -> Result<Who> {
        let key = self.caller.session_key(session).await?;
        let run = self.caller.store().runs().of_session(key).await?.run.filter(|run| run.end.is_none());
        Ok(Who { present: self.caller.shared.presences.present_in(key), run })
    }
}
