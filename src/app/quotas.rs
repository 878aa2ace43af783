//! Quotas of tenants: how many sessions and event streams a tenant has, and how fast it appends. Those of content and of
//! requests to models are kept by the store.

use super::error::{Error, Reason, Result};
use crate::model::time::Timestamp;
use crate::store::ContentQuota;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Microseconds per second.
const SECOND: i64 = 1_000_000;

/// Quotas of a tenant; none of a kind for no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Sessions, archived ones too.
    pub sessions: Option<u64>,
    /// Appends in a second: of messages, parts and drafts. As many may come at once.
    pub appends_per_second: Option<u32>,
    /// Event streams, and messages that are written as streams, that are open at the same time.
    pub streams: Option<u64>,
    /// Bytes of content and, by the day, of what requests to models use; the store keeps these figures.
    pub content: ContentQuota,
}

/// What a tenant uses of a quota.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuotaUse {
    /// The tenant; empty for the default tenant.
    pub tenant: String,
    /// The quota's name.
    pub quota: &'static str,
    /// What it uses.
    pub used: i64,
    /// The quota.
    pub limit: i64,
}

/// The tenants that have quotas, with what they use.
#[derive(Default)]
pub(super) struct Quotas {
    tenants: HashMap<String, Arc<Mutex<Used>>>,
}

struct Used {
    quota: Quota,
    sessions: u64,
    streams: u64,
    /// Appends that may come at once, in millionths, and the time of this figure.
    appends: (i64, Timestamp),
}

/// What a tenant uses one of, until it is dropped.
#[must_use]
pub(super) struct Share {
    of: Option<Arc<Mutex<Used>>>,
    release: fn(&mut Used),
}

/// What a tenant uses one of, until it is released: a caller that leaves may have made it.
#[must_use]
pub(super) struct LastingShare {
    of: Option<Arc<Mutex<Used>>>,
    release: fn(&mut Used),
}

impl Share {
    /// Keeps it used until it is released.
    pub(super) fn last(mut self) -> LastingShare {
        LastingShare { of: self.of.take(), release: self.release }
    }
}

impl LastingShare {
    /// Gives it back, because it was not made.
    pub(super) fn release(self) {
        drop(Share { of: self.of, release: self.release });
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some(used) = &self.of {
            (self.release)(&mut locked(used));
        }
    }
}

fn locked(used: &Mutex<Used>) -> MutexGuard<'_, Used> {
    used.lock().unwrap_or_else(PoisonError::into_inner)
}

fn exceeded(quota: &str, limit: u64) -> Error {
    let message = format!("the tenant has a quota of {limit} {quota}");
    Error::new(Reason::QuotaExceeded, message).with("quota", quota).with("limit", limit)
}

impl Quotas {
    /// The tenants with their quotas and the sessions that they have.
    pub(super) fn new(quotas: HashMap<String, Quota>, sessions: &HashMap<String, u64>, now: Timestamp) -> Self {
        let tenants = quotas.into_iter().map(|(tenant, quota)| {
            let used = Used {
                quota,
                sessions: sessions.get(&tenant).copied().unwrap_or(0),
                streams: 0,
                appends: (i64::from(quota.appends_per_second.unwrap_or(0)) * SECOND, now),
            };
            (tenant, Arc::new(Mutex::new(used)))
        });
        Self { tenants: tenants.collect() }
    }

    /// One more session.
    pub(super) fn session(&self, tenant: &str) -> Result<Share> {
        self.share(tenant, "sessions", |used| (used.quota.sessions, &mut used.sessions), |used| used.sessions -= 1)
    }

    /// One more event stream.
    pub(super) fn stream(&self, tenant: &str) -> Result<Share> {
        self.share(tenant, "streams", |used| (used.quota.streams, &mut used.streams), |used| used.streams -= 1)
    }

    fn share(
        &self,
        tenant: &str,
        name: &str,
        figure: impl FnOnce(&mut Used) -> (Option<u64>, &mut u64),
        release: fn(&mut Used),
    ) -> Result<Share> {
        let Some(of) = self.tenants.get(tenant) else { return Ok(Share { of: None, release }) };
        {
            let mut used = locked(of);
            let (quota, count) = figure(&mut used);
            if let Some(limit) = quota.filter(|limit| *count >= *limit) {
                return Err(exceeded(name, limit));
            }
            *count += 1;
        }
        Ok(Share { of: Some(of.clone()), release })
    }

    /// What tenants use of their quotas of sessions and streams: the name of the quota, the use and the limit.
    pub(super) fn uses(&self) -> Vec<QuotaUse> {
        let mut uses = Vec::new();
        for (tenant, used) in &self.tenants {
            let used = locked(used);
            let mut add = |quota: &'static str, count: u64, limit: Option<u64>| {
                let limit = limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
                let used = i64::try_from(count).unwrap_or(i64::MAX);
                uses.extend(limit.map(|limit| QuotaUse { tenant: tenant.clone(), quota, used, limit }));
            };
            add("sessions", used.sessions, used.quota.sessions);
            add("streams", used.streams, used.quota.streams);
        }
        uses
    }

    /// One append.
    pub(super) fn append(&self, tenant: &str, now: Timestamp) -> Result<()> {
        let Some(used) = self.tenants.get(tenant) else { return Ok(()) };
        let mut used = locked(used);
        let Some(rate) = used.quota.appends_per_second else { return Ok(()) };
        let (left, since) = used.appends;
        // A clock that was set back fills nothing.
        let passed = now.0.saturating_sub(since.0).max(0);
        let most = i64::from(rate) * SECOND;
        let left = left.saturating_add(passed.saturating_mul(i64::from(rate))).min(most);
        let is_enough = left >= SECOND;
        used.appends = (if is_enough { left - SECOND } else { left }, now);
        if is_enough {
            return Ok(());
        }
        let message = format!("the tenant appends more than {rate} times a second");
        Err(Error::new(Reason::RateLimited, message).with("quota", "appends_per_second").with("limit", rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotas(quota: Quota) -> Quotas {
        let sessions = HashMap::from([("acme".to_owned(), 1)]);
        Quotas::new(HashMap::from([("acme".to_owned(), quota)]), &sessions, Timestamp(0))
    }

    #[test]
    fn a_share_is_counted_until_it_is_given_back() {
        let quotas = quotas(Quota { sessions: Some(3), streams: Some(1), ..Quota::default() });
        let made = quotas.session("acme").expect("the second");
        drop(quotas.session("acme").expect("the third, which is not made"));
        let _made = made.last();
        quotas.session("acme").expect("the third, which is not made either").last().release();
        let _third = quotas.session("acme").expect("the third").last();
        let refused = quotas.session("acme").err().expect("the fourth");
        assert_eq!((refused.reason, refused.metadata["limit"].as_str()), (Reason::QuotaExceeded, "3"));
        let stream = quotas.stream("acme").expect("one");
        assert!(quotas.stream("acme").is_err());
        drop(stream);
        assert!(quotas.stream("acme").is_ok() && quotas.session("other").is_ok());
    }

    #[test]
    fn appends_come_at_once_up_to_the_rate_and_then_by_it() {
        let quotas = quotas(Quota { appends_per_second: Some(4), ..Quota::default() });
        let at = |micros: i64| quotas.append("acme", Timestamp(micros)).is_ok();
        let first: Vec<bool> = (0..6).map(|_| at(0)).collect();
        assert_eq!(first, [true, true, true, true, false, false]);
        assert_eq!([at(249_999), at(250_000), at(250_000)], [false, true, false]);
        // A clock that was set back, and a long pause.
        assert_eq!([at(0), at(250_000)], [false, true]);
        let after: Vec<bool> = (0..6).map(|_| at(60 * SECOND)).collect();
        assert_eq!(after, first);
        assert!(quotas.append("other", Timestamp(0)).is_ok());
    }
}
