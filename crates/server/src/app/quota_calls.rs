//! Quotas for callers.

use super::error::{Error, Reason, Result};
use super::quotas::{Quota, QuotaUse, Quotas, StreamShare};
use super::{Caller, Longhand};
use crate::store::ContentQuota;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Interval at which a writer that is held back looks whether it may go on.
const RATE_WAIT: Duration = Duration::from_millis(10);

impl Longhand {
    /// Holds tenants to quotas from now on, by their names; the default tenant's is empty. Later calls have no effect.
    pub async fn hold_to_quotas(&self, quotas: HashMap<String, Quota>) -> Result<()> {
        if quotas.is_empty() {
            return Ok(());
        }
        let content: HashMap<Arc<str>, ContentQuota> = quotas
            .iter()
            .filter(|(_, quota)| quota.content != ContentQuota::default())
            .map(|(tenant, quota)| (tenant.as_str().into(), quota.content))
            .collect();
        if !content.is_empty() {
            self.store().sessions().hold(content, self.shared.clock.now()).await?;
        }
        drop(self.shared.quotas.set(Quotas::new(quotas, self.shared.clock.now())));
        Ok(())
    }
}

impl Caller {
    /// What all tenants use of their quotas, in the order of their names.
    pub(super) fn quota_uses(&self) -> Vec<QuotaUse> {
        let mut uses = self.quotas().map(Quotas::uses).unwrap_or_default();
        for (tenant, quota, used) in self.store().sessions().content_uses(self.shared.clock.now()) {
            let of = [
                ("sessions", used.sessions, quota.sessions),
                ("bytes", used.bytes, quota.bytes),
                ("summary_tokens_per_day", used.summary_tokens, quota.summary_tokens),
                ("summary_micro_usd_per_day", used.summary_cost_micros, quota.summary_cost_micros),
            ];
            let of = of.into_iter().filter_map(|(quota, used, limit)| Some((quota, used, limit?)));
            uses.extend(of.map(|(quota, used, limit)| QuotaUse { tenant: tenant.to_string(), quota, used, limit }));
        }
        uses.sort_unstable();
        uses
    }

    fn quotas(&self) -> Option<&Quotas> {
        self.shared.quotas.get()
    }

    /// Counts an append of this many messages, parts or pieces, and refuses one that comes too soon.
    pub(super) fn count_append(&self, count: usize) -> Result<()> {
        let now = self.shared.clock.now();
        self.quotas().map_or(Ok(()), |quotas| quotas.append(&self.visibility.tenant, count, now))
    }

    /// Counts an append as soon as the tenant may make it: a stream that is too fast is held back instead of refused.
    pub(super) async fn wait_for_append(&self, count: usize) -> Result<()> {
        loop {
            match self.count_append(count) {
                Err(Error { reason: Reason::RateLimited, .. }) => tokio::time::sleep(RATE_WAIT).await,
                counted => return counted,
            }
        }
    }

    /// Counts an event stream, or a message that is written as one, for as long as the share is kept.
    pub(super) fn count_stream(&self) -> Result<Option<StreamShare>> {
        self.quotas().map(|quotas| quotas.take_stream(&self.visibility.tenant)).transpose()
    }
}
