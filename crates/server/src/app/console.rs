//! The console's sessions: a link opens one, once, and becomes an access token of its own.

use super::Longhand;
use super::access::{Access, NewAccessToken, new_secret};
use super::access_record::NamedSessions;
use super::console_links::PendingLink;
use super::error::{Error, Reason, Result};
use super::nouns::Tokens;
use crate::limits;
use crate::model::access::{AccessToken, Scope, Scopes};
use crate::model::time::Timestamp;
use std::net::SocketAddr;
use std::sync::Arc;

/// The principal of a session whose link names none.
const PRINCIPAL: &str = "console";
/// What a session may do if its link names no scopes.
const SCOPES: [Scope; 3] = [Scope::Read, Scope::Write, Scope::Compact];
/// In the place of an id, in the secret of a link.
const LINK: &str = "link";
/// The begin of a session in the access log.
const LOGIN: &str = "console/login";
/// Its end by its user there.
const LOGOUT: &str = "console/logout";
/// Microseconds per second.
const MICROS: i64 = 1_000_000;

impl Tokens<'_> {
    /// Creates a link that opens the console once, for a session with this access. Without a principal it is `console`;
    /// without scopes, read, write and compact as far as the caller has them. Returns the link's secret, which is kept
    /// nowhere, and its end. `session_seconds` is the time after which the session ends.
    ///
    /// # Errors
    ///
    /// Those of [`Tokens::create`].
    pub async fn create_console_link(
        self,
        mut new: NewAccessToken,
        session_seconds: Option<i64>,
    ) -> Result<(String, Timestamp)> {
        if new.principal.is_empty() {
            PRINCIPAL.clone_into(&mut new.principal);
        }
        if new.scopes == Scopes::default() {
            new.scopes = SCOPES.into_iter().filter(|scope| self.caller.access.scopes.contains(*scope)).collect();
        }
        let (shortest, longest) = limits::CONSOLE_SESSION_SECONDS;
        let seconds = session_seconds.unwrap_or(limits::CONSOLE_SESSION_SECONDS_DEFAULT);
        if !(shortest..=longest).contains(&seconds) {
            return Err(Error::field("session_timeout", format!("is not between {shortest} s and {longest} s")));
        }
        let session_micros = seconds * MICROS;
        new.expire_time = Some(self.session_end(session_micros));
        // Refused now rather than to whoever opens the link.
        self.describe(new.clone()).await?;
        let now = self.caller.shared.clock.present();
        let expire_time = Timestamp(now.0 + limits::CONSOLE_LINK_SECONDS * MICROS);
        let (secret, hash) = new_secret(LINK);
        let link = PendingLink { access: self.caller.access.clone(), new, session_micros, expire_time };
        self.caller.shared.entrance.console_links.add(hash, link, now)?;
        Ok((secret, expire_time))
    }

    /// The end of a session that begins now, which is no later than that of the caller's own access.
    fn session_end(self, micros: i64) -> Timestamp {
        let end = Timestamp(self.caller.shared.clock.present().0 + micros);
        self.caller.access.expire_time.map_or(end, |own| own.min(end))
    }
}

impl Longhand {
    /// Opens the console by the secret of a link: the access token of a new session, and its secret. A link opens one
    /// session, whatever comes of it. It is in the access log as a call of the session.
    ///
    /// # Errors
    ///
    /// `CONSOLE_LINK_INVALID`, or `TOO_MANY_ATTEMPTS` for an address with too many of these; those of
    /// [`Tokens::create`] if what the link promised cannot be had any more; `ACCESS_LOG_FAILED`.
    pub async fn open_console(&self, secret: &str, address: Option<SocketAddr>) -> Result<(AccessToken, String)> {
        let now = self.shared.clock.present();
        let hash = *blake3::hash(secret.as_bytes()).as_bytes();
        let Some(link) = self.shared.entrance.console_links.take(&hash, now) else {
            let message = "the link is unknown, was used, or is over: `longhand console` makes another one";
            let invalid = Error::new(Reason::ConsoleLinkInvalid, message);
            return Err(match address {
                Some(address) => {
                    let entrance = &self.shared.entrance;
                    entrance.count_refusal(None, Some(address.ip()), LOGIN, invalid.reason);
                    entrance.access_tokens.count_failure(address.ip(), now, invalid)
                }
                None => invalid,
            });
        };
        // Whoever made the link is in the line of its making.
        let session = Arc::new(link.session());
        let caller = self.caller(link.access, String::new(), None)?;
        let expire_time = Some(caller.access_tokens().session_end(link.session_micros));
        let new = NewAccessToken { expire_time, ..link.new };
        self.record_act(
            session,
            address,
            LOGIN,
            async move { caller.access_tokens().create_console_session(new).await },
        )
        .await
    }

    /// Ends a session of the console: revokes its access token, whose secret this is, for every copy of its cookie.
    ///
    /// # Errors
    ///
    /// Those of [`Tokens::revoke_own`]; `ACCESS_LOG_FAILED`.
    pub async fn close_console(&self, access: Arc<Access>, secret: &str, address: Option<SocketAddr>) -> Result<()> {
        let caller = self.caller(access.clone(), String::new(), None)?;
        let secret = secret.to_owned();
        self.record_act(access, address, LOGOUT, async move { caller.access_tokens().revoke_own(&secret).await }).await
    }

    /// Carries out what passes no guard with its lines in the access log, as the guard does with calls that act. A
    /// caller that leaves keeps nothing out of the log.
    async fn record_act<Done: Send + 'static>(
        &self,
        access: Arc<Access>,
        address: Option<SocketAddr>,
        method: &'static str,
        act: impl Future<Output = Result<Done>> + Send + 'static,
    ) -> Result<Done> {
        let entrance = self.entrance().clone();
        if !entrance.logs(&access) {
            return act.await;
        }
        let address = address.map(|address| address.to_string()).unwrap_or_default();
        let recorded = tokio::spawn(async move {
            entrance.record_intent(&access, address.clone(), method).await?;
            let done = act.await;
            let outcome = done.as_ref().map_or_else(|error| error.reason.as_str(), |_| "OK");
            entrance.record_access(&access, address, method, &NamedSessions::default(), outcome).await?;
            done
        });
        recorded.await.map_err(Error::internal)?
    }
}
