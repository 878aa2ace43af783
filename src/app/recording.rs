//! Calls in the access log.

use super::access::Access;
use super::access_record::{AccessLogging, NamedSessions};
use super::error::{Error, Reason, Result};
use super::{Caller, Longhand};
use crate::access_log::Entry;

/// The outcome of a call that has not been carried out yet.
const BEGUN: &str = "BEGUN";

impl Longhand {
    /// Records calls in an access log from now on. Later calls have no effect.
    pub fn log_access(&self, logging: AccessLogging) {
        drop(self.shared.access_logging.set(logging));
    }

    /// True if calls with this access are in the access log.
    pub fn logs(&self, access: &Access) -> bool {
        self.shared.access_logging.get().is_some_and(|logging| logging.owner_too || !access.is_owners())
    }

    /// Records a call that acts, before it is carried out, if calls are refused that cannot be recorded: their effect
    /// would be there before their line is. Its sessions are in the line of its outcome.
    ///
    /// # Errors
    ///
    /// `ACCESS_LOG_FAILED` if it cannot be recorded.
    pub async fn record_intent(&self, access: &Access, address: String, method: &str) -> Result<()> {
        if self.shared.access_logging.get().is_some_and(|logging| logging.refuses) {
            self.record_access(access, address, method, &NamedSessions::default(), BEGUN).await?;
        }
        Ok(())
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
        let Some(logging) = self.shared.access_logging.get() else { return Ok(()) };
        let entry = Entry {
            principal: access.principal.to_string(),
            tenant: access.tenant.to_string(),
            address,
            method: method.trim_start_matches('/').to_owned(),
            sessions: named.take(),
            outcome: outcome.to_owned(),
        };
        match logging.log.record(entry).await {
            Err(error) if logging.refuses => Err(Error::new(Reason::AccessLogFailed, error.to_string())),
            // Its thread has logged the failure.
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

impl Caller {
    /// The same caller, whose call names its sessions there.
    #[must_use]
    pub fn naming(self, named: NamedSessions) -> Self {
        Self { named, ..self }
    }
}
