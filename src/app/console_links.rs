//! Links that open the console once: each becomes an access token of its own when it is opened.
//!
//! A link is kept in memory as the hash of its secret, with what its token will be. A restart ends links, and no session
//! that one has opened.

use super::access::{Access, new_secret};
use super::access_tokens::NewAccessToken;
use super::error::{Error, Reason, Result};
use super::{Caller, Longhand};
use crate::limits;
use crate::model::access::{AccessToken, Scope};
use crate::model::time::Timestamp;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The principal of a session whose link names none.
const PRINCIPAL: &str = "console";
/// What a session may do if its link names no scopes.
const SCOPES: [Scope; 3] = [Scope::Read, Scope::Write, Scope::Compact];
/// In the place of an id, in the secret of a link.
const LINK: &str = "link";
/// Microseconds per second.
const MICROS: i64 = 1_000_000;

/// The links that nobody has opened yet, by the hashes of their secrets.
#[derive(Default)]
pub(super) struct ConsoleLinks {
    pending: Mutex<HashMap<[u8; 32], Pending>>,
}

struct Pending {
    /// Whose link it is.
    access: Arc<Access>,
    /// The token that it becomes, whose end is counted from the moment of opening.
    new: NewAccessToken,
    session_micros: i64,
    expire_time: Timestamp,
}

impl ConsoleLinks {
    fn pending(&self) -> MutexGuard<'_, HashMap<[u8; 32], Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, hash: [u8; 32], link: Pending, now: Timestamp) -> Result<()> {
        let mut pending = self.pending();
        pending.retain(|_, link| link.expire_time > now);
        if pending.len() >= limits::CONSOLE_LINKS_MAX {
            let limit = limits::CONSOLE_LINKS_MAX;
            let message = format!("{limit} links to the console wait to be opened; each ends by itself");
            return Err(Error::new(Reason::LimitExceeded, message)
                .with("what", "console links")
                .with("limit", limit)
                .with("actual", limit + 1));
        }
        pending.insert(hash, link);
        Ok(())
    }

    /// Takes a link, which then opens nothing more; none if there is none, or it is over.
    fn take(&self, hash: &[u8; 32], now: Timestamp) -> Option<Pending> {
        self.pending().remove(hash).filter(|link| link.expire_time > now && !link.access.revoked.is_cancelled())
    }
}

impl Caller {
    /// Creates a link that opens the console once, for a session with this access. Without a principal it is `console`;
    /// without scopes, read, write and compact as far as the caller has them. Returns the link's secret, which is kept
    /// nowhere, and its end. `session_seconds` is the time after which the session ends.
    ///
    /// # Errors
    ///
    /// Those of [`Self::create_access_token`].
    pub async fn create_console_link(
        &self,
        mut new: NewAccessToken,
        session_seconds: Option<i64>,
    ) -> Result<(String, Timestamp)> {
        if new.principal.is_empty() {
            PRINCIPAL.clone_into(&mut new.principal);
        }
        if new.scopes == crate::model::access::Scopes::default() {
            new.scopes = SCOPES.into_iter().filter(|scope| self.access.scopes.contains(*scope)).collect();
        }
        let (shortest, longest) = limits::CONSOLE_SESSION_SECONDS;
        let seconds = session_seconds.unwrap_or(limits::CONSOLE_SESSION_SECONDS_DEFAULT);
        if !(shortest..=longest).contains(&seconds) {
            return Err(Error::field("session_timeout", format!("is not between {shortest} s and {longest} s")));
        }
        let session_micros = seconds * MICROS;
        new.expire_time = Some(self.session_end(session_micros));
        // Refused now rather than to whoever opens the link.
        self.new_access_token(new.clone()).await?;
        let now = self.shared.clock.now();
        let expire_time = Timestamp(now.0 + limits::CONSOLE_LINK_SECONDS * MICROS);
        let (secret, hash) = new_secret(LINK);
        let link = Pending { access: self.access.clone(), new, session_micros, expire_time };
        self.shared.console_links.add(hash, link, now)?;
        Ok((secret, expire_time))
    }

    /// The end of a session that begins now, which is no later than that of the caller's own access.
    fn session_end(&self, micros: i64) -> Timestamp {
        let end = Timestamp(self.shared.clock.now().0 + micros);
        self.access.expire_time.map_or(end, |own| own.min(end))
    }
}

impl Longhand {
    /// Opens the console by the secret of a link: the access token of a new session, and its secret. A link opens one
    /// session, whatever comes of it.
    ///
    /// # Errors
    ///
    /// `CONSOLE_LINK_INVALID`, or `TOO_MANY_ATTEMPTS` for an address with too many of these; those of
    /// [`Caller::create_access_token`] if what the link promised cannot be had any more.
    pub async fn open_console(&self, secret: &str, address: Option<IpAddr>) -> Result<(AccessToken, String)> {
        let now = self.shared.clock.now();
        let hash = *blake3::hash(secret.as_bytes()).as_bytes();
        let Some(link) = self.shared.console_links.take(&hash, now) else {
            let message = "the link is unknown, was used, or is over: `longhand console` makes another one";
            let invalid = Error::new(Reason::ConsoleLinkInvalid, message);
            return Err(match address {
                Some(address) => self.shared.access_tokens.count_failure(address, now, invalid),
                None => invalid,
            });
        };
        let caller = self.caller(link.access, String::new(), None)?;
        let expire_time = Some(caller.session_end(link.session_micros));
        caller.create_access_token(NewAccessToken { expire_time, ..link.new }).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(expire_time: i64) -> Pending {
        let access = Arc::new(Access::owner());
        let new = NewAccessToken::default();
        Pending { access, new, session_micros: 1, expire_time: Timestamp(expire_time) }
    }

    #[test]
    fn a_link_opens_once_and_before_its_end() {
        let links = ConsoleLinks::default();
        links.add([1; 32], link(10), Timestamp(0)).expect("room");
        links.add([2; 32], link(10), Timestamp(0)).expect("room");
        links.add([3; 32], link(10), Timestamp(0)).expect("room");
        assert!(links.take(&[9; 32], Timestamp(0)).is_none());
        assert!(links.take(&[1; 32], Timestamp(9)).is_some() && links.take(&[1; 32], Timestamp(9)).is_none());
        assert!(links.take(&[2; 32], Timestamp(10)).is_none());
        links.pending()[&[3; 32]].access.revoked.cancel();
        assert!(links.take(&[3; 32], Timestamp(0)).is_none(), "its maker's access was revoked");
    }

    #[test]
    fn links_are_bounded_and_old_ones_make_room() {
        let links = ConsoleLinks::default();
        for number in 0..limits::CONSOLE_LINKS_MAX {
            let hash = *blake3::hash(&number.to_be_bytes()).as_bytes();
            links.add(hash, link(10), Timestamp(0)).expect("room");
        }
        assert_eq!(
            links.add([0; 32], link(10), Timestamp(9)).map_err(|error| error.reason),
            Err(Reason::LimitExceeded)
        );
        links.add([0; 32], link(20), Timestamp(10)).expect("the others are over");
    }
}
