//! What calls pass before they reach a store: who may call, links to the console, the access log, and the resources that
//! clients hold. A daemon has one, whatever the number of its stores.

use super::access::{Access, AccessTokens, Credentials};
use super::access_record::{AccessLogging, NamedSessions};
use super::console_links::ConsoleLinks;
use super::error::{Error, Reason, Result};
use super::refusals::Refusals;
use crate::access_log::Entry;
use crate::clock::Clock;
use crate::limits;
use crate::store::StoredToken;
use crate::traffic::Traffic;
use crate::turns::{Turn, Turns};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The outcome of a call that has not been carried out yet.
const BEGUN: &str = "BEGUN";
/// The longest wait between two looks at the clock, which may be set meanwhile.
const CLOCK_WAIT: Duration = Duration::from_secs(60);

/// What calls pass before they reach a store.
pub struct Entrance {
    pub(super) access_tokens: AccessTokens,
    /// Until when the access tokens in memory are those of the store, unless they are read again; none for ever, where
    /// nobody else changes them.
    current_until: watch::Sender<Option<Instant>>,
    pub(super) console_links: ConsoleLinks,
    access_logging: OnceLock<AccessLogging>,
    refusals: Refusals,
    traffic: Arc<Traffic>,
    turns: Turns,
    clock: Clock,
}

impl Entrance {
    /// One that knows no access tokens yet: only the owner's connection proves anything.
    pub fn new(clock: &Clock) -> Arc<Self> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Arc::new(Self {
            access_tokens: AccessTokens::default(),
            current_until: watch::Sender::default(),
            console_links: ConsoleLinks::default(),
            access_logging: OnceLock::new(),
            refusals: Refusals::default(),
            traffic: Arc::default(),
            turns: Turns::new(processors.max(limits::TURNS_MIN), (processors / 2).max(1), limits::CALLS_MAX),
            clock: clock.clone(),
        })
    }

    /// Counters of the resources that clients hold.
    pub fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// The turns of a call that begins.
    ///
    /// # Errors
    ///
    /// `TOO_MANY_REQUESTS` if as many calls of its access token, or of its tenant, are in progress as may be.
    pub fn begin(&self, access: &Access) -> Result<Turn> {
        self.turns.begin(&access.share).ok_or_else(|| {
            let message = "too many calls of this access token, or of its tenant, are in progress";
            Error::new(Reason::TooManyRequests, message).with("limit", limits::CALLS_MAX)
        })
    }

    /// Trusts a secret of the owner.
    pub fn trust_owner(&self, secret: &str) {
        self.access_tokens.trust_owner(secret);
    }

    /// Keeps these access tokens in memory, in place of those from before. What a token opened that is revoked now ends.
    pub fn keep_access_tokens(&self, stored: Vec<StoredToken>) {
        self.access_tokens.keep(stored);
    }

    /// Believes the access tokens in memory until then alone: other daemons may revoke them.
    pub fn believe_access_tokens_until(&self, end: Instant) {
        self.current_until.send_replace(Some(end));
    }

    /// Who a caller is.
    ///
    /// # Errors
    ///
    /// `ACCESS_TOKEN_MISSING`, `ACCESS_TOKEN_INVALID`, `NO_OWNER` while it is not known which tokens were revoked, or
    /// `TOO_MANY_ATTEMPTS` for an address with too many of these.
    pub fn authenticate(&self, credentials: Credentials<'_>) -> Result<Arc<Access>> {
        let is_current = self.current_until.borrow().is_none_or(|end| Instant::now() < end);
        let proved = match credentials {
            // Neither refused for good nor counted: it may be a valid one.
            Credentials::Secret(secret, _) if !is_current && !self.access_tokens.is_owners(secret) => {
                Err(unchecked_token_error())
            }
            _ => self.access_tokens.authenticate(credentials, &self.clock),
        };
        proved.inspect_err(|error| {
            if let Credentials::Secret(_, address) = credentials {
                self.count_refusal(None, Some(address), "", error.reason);
            }
        })
    }

    /// Counts a call that is refused before it is carried out, for the access log.
    pub fn count_refusal(&self, access: Option<&Access>, address: Option<IpAddr>, method: &str, reason: Reason) {
        if self.access_logging.get().is_some_and(|logging| logging.owner_too || access.is_none_or(|of| !of.is_owners()))
        {
            self.refusals.count(access, address, method, reason);
        }
    }

    /// Writes the refusals since the last time to the access log.
    pub async fn record_refusals(&self) {
        let Some(logging) = self.access_logging.get() else { return };
        for entry in self.refusals.take() {
            // Its thread has logged a failure.
            drop(logging.log.record(entry).await);
        }
    }

    /// Writes refusals at an interval, until the daemon stops.
    pub async fn record_refusals_until(self: Arc<Self>, stopping: CancellationToken) {
        let interval = Duration::from_millis(limits::REFUSALS_LOG_MS);
        while tokio::time::timeout(interval, stopping.cancelled()).await.is_err() {
            self.record_refusals().await;
        }
    }

    /// Resolves with the reason when an access is revoked or over, or when it is not known any more whether it is; never
    /// for the owner's.
    pub async fn access_ended(&self, access: Arc<Access>) -> Error {
        let over = || Error::new(Reason::AccessTokenInvalid, "the access token was revoked or is over");
        let mut current_until = self.current_until.subscribe();
        loop {
            let (now, clock_now) = (Instant::now(), self.clock.present());
            let believed = *current_until.borrow_and_update();
            if access.expire_time.is_some_and(|end| end <= clock_now) {
                return over();
            }
            if !access.is_owners() && believed.is_some_and(|end| end <= now) {
                return unchecked_token_error();
            }
            let left = access.expire_time.map(|end| u64::try_from(end.0 - clock_now.0).unwrap_or(0));
            let wait = left.map(|left| now + Duration::from_micros(left).min(CLOCK_WAIT));
            let next = wait.into_iter().chain(believed.filter(|_| !access.is_owners())).min();
            let later = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = access.revoked.cancelled() => return over(),
                () = later => {}
                // The sender is in `self`.
                _ = current_until.changed() => {}
            }
        }
    }

    /// Records calls in an access log from now on. Later calls have no effect.
    pub fn log_access(&self, logging: AccessLogging) {
        drop(self.access_logging.set(logging));
    }

    /// True if calls with this access are in the access log.
    pub fn logs(&self, access: &Access) -> bool {
        self.access_logging.get().is_some_and(|logging| logging.owner_too || !access.is_owners())
    }

    /// Records a call that acts, before it is carried out, if calls are refused that cannot be recorded: their effect
    /// would be there before their line is. Its sessions are in the line of its outcome.
    ///
    /// # Errors
    ///
    /// `ACCESS_LOG_FAILED` if it cannot be recorded.
    pub async fn record_intent(&self, access: &Access, address: String, method: &str) -> Result<()> {
        if self.access_logging.get().is_some_and(|logging| logging.refuses) {
            self.record_access(access, address, method, &NamedSessions::default(), BEGUN).await?;
        }
        Ok(())
    }

    /// Refuses who asks whether calls are taken, while those are refused that cannot be recorded. The question is the
    /// next attempt then, for nobody else may come as long as it has this answer.
    ///
    /// # Errors
    ///
    /// `ACCESS_LOG_FAILED`.
    pub async fn takes_calls(&self, method: &str) -> Result<()> {
        match self.access_logging.get() {
            Some(logging) if logging.refuses && logging.log.is_failing() => {
                self.record_access(&Access::owner(), String::new(), method, &NamedSessions::default(), "OK").await
            }
            _ => Ok(()),
        }
    }

    /// Records a call before its answer is given.
    ///
    /// # Errors
    ///
    /// `ACCESS_LOG_FAILED` if it cannot be recorded, and such calls are refused.
    pub async fn record_access(
        &self,
        access: &Access,
        address: String,
        method: &str,
        named: &NamedSessions,
        outcome: &str,
    ) -> Result<()> {
        let Some(logging) = self.access_logging.get() else { return Ok(()) };
        let entry = Entry {
            principal: access.principal.to_string(),
            token: access.token_text(),
            tenant: access.tenant.to_string(),
            address,
            method: method.trim_start_matches('/').to_owned(),
            sessions: named.take(),
            outcome: outcome.to_owned(),
            count: 1,
        };
        match logging.log.record(entry).await {
            Err(error) if logging.refuses => Err(Error::new(Reason::AccessLogFailed, error.to_string())),
            // Its thread has logged the failure.
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// The answer to callers with access tokens while other daemons may have revoked them, and the database with them is not
/// reached.
fn unchecked_token_error() -> Error {
    let message = "the access token cannot be checked: the daemon has not reached the database for the time of a lease";
    Error::new(Reason::NoOwner, message)
}
