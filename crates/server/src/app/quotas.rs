//! Quotas of tenants: how many event streams a tenant has, and how fast it appends. Those of sessions, of content and of
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
    /// Appends in a second: messages and parts of them, edits, supplied summaries and prompts each count as one, and so
    /// does every piece of a draft. As many may come at once.
    pub appends_per_second: Option<u32>,
    /// Event streams, and messages that are written as streams, that are open at the same time.
    pub streams: Option<u64>,
    /// Sessions, bytes of content and, by the day, what requests to models use; the store keeps these figures.
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
    tenants: HashMap<String, Arc<Mutex<QuotaTally>>>,
}

struct QuotaTally {
    quota: Quota,
    streams: u64,
    /// Appends that may come at once, in millionths, and the time of this figure.
    appends: (i64, Timestamp),
}

/// An event stream that a tenant uses, until it is dropped.
#[must_use]
pub(super) struct StreamShare(Option<Arc<Mutex<QuotaTally>>>);

impl Drop for StreamShare {
    fn drop(&mut self) {
        if let Some(used) = &self.0 {
            lock_use(used).streams -= 1;
        }
    }
}

fn lock_use(used: &Mutex<QuotaTally>) -> MutexGuard<'_, QuotaTally> {
    used.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Quotas {
    /// The tenants with their quotas.
    pub(super) fn new(quotas: HashMap<String, Quota>, now: Timestamp) -> Self {
        let tenants = quotas.into_iter().map(|(tenant, quota)| {
            let appends = (i64::from(quota.appends_per_second.unwrap_or(0)) * SECOND, now);
            (tenant, Arc::new(Mutex::new(QuotaTally { quota, streams: 0, appends })))
        });
        Self { tenants: tenants.collect() }
    }

    /// One more event stream.
    pub(super) fn take_stream(&self, tenant: &str) -> Result<StreamShare> {
        let Some(of) = self.tenants.get(tenant) else { return Ok(StreamShare(None)) };
        {
            let mut used = lock_use(of);
            if let Some(limit) = used.quota.streams.filter(|limit| used.streams >= *limit) {
                let message = format!("the tenant has a quota of {limit} streams");
                return Err(Error::new(Reason::QuotaExceeded, message).with("quota", "streams").with("limit", limit));
            }
            used.streams += 1;
        }
        Ok(StreamShare(Some(of.clone())))
    }

    /// What tenants use of their quotas of streams.
    pub(super) fn uses(&self) -> Vec<QuotaUse> {
        let of = |(tenant, used): (&String, &Arc<Mutex<QuotaTally>>)| {
            let used = lock_use(used);
            let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
            let (limit, used) = (number(used.quota.streams?), number(used.streams));
            Some(QuotaUse { tenant: tenant.clone(), quota: "streams", used, limit })
        };
        self.tenants.iter().filter_map(of).collect()
    }

    /// An append of this many messages, parts or pieces. One that comes in time is made whole, and what it takes beyond
    /// the rate is waited for by the next one.
    pub(super) fn append(&self, tenant: &str, count: usize, now: Timestamp) -> Result<()> {
        let Some(used) = self.tenants.get(tenant) else { return Ok(()) };
        let mut used = lock_use(used);
        let Some(rate) = used.quota.appends_per_second else { return Ok(()) };
        let (left, since) = used.appends;
        // A clock that was set back fills nothing.
        let passed = now.0.saturating_sub(since.0).max(0);
        let most = i64::from(rate) * SECOND;
        let left = left.saturating_add(passed.saturating_mul(i64::from(rate))).min(most);
        let is_enough = left >= SECOND;
        let cost = i64::try_from(count.max(1)).unwrap_or(i64::MAX).saturating_mul(SECOND);
        used.appends = (if is_enough { left.saturating_sub(cost) } else { left }, now);
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
        Quotas::new(HashMap::from([("acme".to_owned(), quota)]), Timestamp(0))
    }

    #[test]
    fn a_share_is_counted_until_it_is_given_back() {
        let quotas = quotas(Quota { streams: Some(1), ..Quota::default() });
        let stream = quotas.take_stream("acme").expect("one");
        let refused = quotas.take_stream("acme").err().expect("the second");
        assert_eq!((refused.reason, refused.metadata["limit"].as_str()), (Reason::QuotaExceeded, "1"));
        drop(stream);
        assert!(quotas.take_stream("acme").is_ok() && quotas.take_stream("other").is_ok());
    }

    #[test]
    fn an_append_counts_as_what_it_has() {
        let quotas = quotas(Quota { appends_per_second: Some(4), ..Quota::default() });
        let at = |count, micros| quotas.append("acme", count, Timestamp(micros)).is_ok();
        // The first is made whole, and is paid for before the next one.
        assert_eq!([at(10, 0), at(1, SECOND), at(1, 3 * SECOND / 2)], [true, false, false]);
        assert_eq!([at(1, 7 * SECOND / 4), at(0, 7 * SECOND / 4)], [true, false]);
    }

    #[test]
    fn appends_come_at_once_up_to_the_rate_and_then_by_it() {
        let quotas = quotas(Quota { appends_per_second: Some(4), ..Quota::default() });
        let at = |micros: i64| quotas.append("acme", 1, Timestamp(micros)).is_ok();
        let first: Vec<bool> = (0..6).map(|_| at(0)).collect();
        assert_eq!(first, [true, true, true, true, false, false]);
        assert_eq!([at(249_999), at(250_000), at(250_000)], [false, true, false]);
        // A clock that was set back, and a long pause.
        assert_eq!([at(0), at(250_000)], [false, true]);
        let after: Vec<bool> = (0..6).map(|_| at(60 * SECOND)).collect();
        assert_eq!(after, first);
        assert!(quotas.append("other", 1, Timestamp(0)).is_ok());
    }
}
