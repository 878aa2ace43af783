//! Quotas of tenants that hold for what is written: sessions, bytes of content, and what requests to models use in a day.
//!
//! The figures are in memory. They are read once from rows that the store has anyway, before anything is written, and
//! follow each commit.

use super::codec;
use crate::engine::{self, Reader};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::time::Timestamp;
use crate::model::usage::Usage;
use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Microseconds of a day, which begins at midnight UTC.
const DAY_MICROS: i64 = 86_400_000_000;
/// Requests that are read at a time.
const PAGE: i64 = 1_000;

/// Quotas of a tenant; none of a kind for no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContentQuota {
    /// Sessions, archived ones too. Those that are erased do not count.
    pub sessions: Option<i64>,
    /// Bytes of content.
    pub bytes: Option<i64>,
    /// Tokens of requests to models, in a day.
    pub summary_tokens: Option<i64>,
    /// Cost of requests to models in a day, in millionths of a US dollar.
    pub summary_cost_micros: Option<i64>,
}

/// What a tenant has of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContentUse {
    /// Sessions that are not erased.
    pub sessions: i64,
    /// Bytes of content.
    pub bytes: i64,
    /// Tokens of the requests that ended today, as far as providers reported them.
    pub summary_tokens: i64,
    /// Their cost in millionths of a US dollar, as far as it is known.
    pub summary_cost_micros: i64,
}

impl ContentUse {
    /// The usage and the cost of a request to a model.
    pub(crate) fn spent(usage: Usage, cost_micros: Option<i64>) -> Self {
        // A provider may report any number.
        let figure = |reported: i64| reported.clamp(0, limits::SPENDING_FIGURE_MAX);
        let tokens = usage.prompt_tokens().saturating_add(usage.output).saturating_add(usage.reasoning);
        let (summary_tokens, summary_cost_micros) = (figure(tokens), figure(cost_micros.unwrap_or(0)));
        Self { summary_tokens, summary_cost_micros, ..Self::default() }
    }
}

impl AddAssign for ContentUse {
    fn add_assign(&mut self, more: Self) {
        self.sessions = self.sessions.saturating_add(more.sessions);
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.summary_tokens = self.summary_tokens.saturating_add(more.summary_tokens);
        self.summary_cost_micros = self.summary_cost_micros.saturating_add(more.summary_cost_micros);
    }
}

/// The tenants that have such quotas, with what they use.
#[derive(Default)]
pub(crate) struct Quotas(OnceLock<HashMap<Arc<str>, MeteredQuota>>);

struct MeteredQuota {
    quota: ContentQuota,
    /// The use, and the day for which it counts requests.
    used: Mutex<(ContentUse, i64)>,
}

pub(crate) type Uses = HashMap<Arc<str>, ContentUse>;

fn day(now: Timestamp) -> i64 {
    now.0.div_euclid(DAY_MICROS)
}

impl MeteredQuota {
    /// The use at a time.
    fn use_at(&self, now: Timestamp) -> MutexGuard<'_, (ContentUse, i64)> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.1 != day(now) {
            let ContentUse { sessions, bytes, .. } = used.0;
            *used = (ContentUse { sessions, bytes, ..ContentUse::default() }, day(now));
        }
        used
    }
}

impl Quotas {
    fn metered(&self, tenant: &str) -> Option<&MeteredQuota> {
        self.0.get()?.get(tenant)
    }

    /// True if there are no quotas.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.get().is_none()
    }

    /// Holds tenants to quotas from now on. Later calls have no effect.
    pub(crate) fn hold(&self, quotas: HashMap<Arc<str>, ContentQuota>, uses: &Uses, now: Timestamp) {
        let metered = quotas.into_iter().map(|(tenant, quota)| {
            let used = uses.get(&tenant).copied().unwrap_or_default();
            (tenant, MeteredQuota { quota, used: Mutex::new((used, day(now))) })
        });
        drop(self.0.set(metered.collect()));
    }

    /// Refuses more bytes than the tenant's quota has left.
    pub(crate) fn admit(&self, tenant: &str, bytes: i64, now: Timestamp) -> Result<()> {
        let Some(metered) = self.metered(tenant) else { return Ok(()) };
        match metered.quota.bytes {
            Some(limit) if metered.use_at(now).0.bytes.saturating_add(bytes) > limit => {
                Err(Error::QuotaExceeded { quota: "bytes", limit })
            }
            _ => Ok(()),
        }
    }

    /// Refuses more sessions than the tenant's quota has left.
    pub(crate) fn admit_sessions(&self, tenant: &str, count: i64, now: Timestamp) -> Result<()> {
        let Some(metered) = self.metered(tenant) else { return Ok(()) };
        match metered.quota.sessions {
            Some(limit) if metered.use_at(now).0.sessions.saturating_add(count) > limit => {
                Err(Error::QuotaExceeded { quota: "sessions", limit })
            }
            _ => Ok(()),
        }
    }

    /// True if requests to models may be sent for the tenant's sessions.
    pub(crate) fn may_ask(&self, tenant: &str, now: Timestamp) -> bool {
        let Some(metered) = self.metered(tenant) else { return true };
        let used = metered.use_at(now).0;
        metered.quota.summary_tokens.is_none_or(|limit| used.summary_tokens < limit)
            && metered.quota.summary_cost_micros.is_none_or(|limit| used.summary_cost_micros < limit)
    }

    /// Counts what a transaction took, once it is committed.
    pub(crate) fn committed(&self, uses: &Uses, now: Timestamp) {
        for (tenant, more) in uses {
            if let Some(metered) = self.metered(tenant) {
                metered.use_at(now).0 += *more;
            }
        }
    }

    pub(crate) fn all_uses(&self, now: Timestamp) -> Vec<(Arc<str>, ContentQuota, ContentUse)> {
        let metered = self.0.get().into_iter().flatten();
        metered.map(|(tenant, metered)| (tenant.clone(), metered.quota, metered.use_at(now).0)).collect()
    }
}

pub(crate) const CONTENT: &str = "select tenant, cast(sum(content_bytes) as bigint) as content_bytes, \
     cast(sum(case when state <> 3 then 1 else 0 end) as bigint) as sessions from session group by tenant";
const TENANT: &str = "select tenant from session where id = ?1";
const NEWEST_REQUESTS: &str = "select r.id, s.tenant, r.usage, r.cost_micros, r.end_time from summary_request r \
     join session s on s.id = r.session_id where r.id < ?1 order by r.id desc limit +?2";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[CONTENT, TENANT, NEWEST_REQUESTS];

pub(crate) fn tenant(reader: &mut Reader<'_>, session: i64) -> Result<String> {
    reader.always(engine::query(TENANT).bind(session))?.get(0)
}

/// What all tenants use. Reads the rows of all sessions, once when the daemon starts, and the requests of today.
pub(crate) fn uses(reader: &mut Reader<'_>, now: Timestamp) -> Result<Uses> {
    let mut uses = Uses::new();
    for row in reader.all(engine::query(CONTENT))? {
        let (sessions, bytes) = (row.get("sessions")?, row.get("content_bytes")?);
        uses.insert(row.get::<&str>("tenant")?.into(), ContentUse { sessions, bytes, ..ContentUse::default() });
    }
    let mut below = None;
    loop {
        let rows = reader.all(engine::query(NEWEST_REQUESTS).bind(engine::below(below)).bind(PAGE))?;
        if rows.is_empty() {
            return Ok(uses);
        }
        for row in &rows {
            if day(Timestamp(row.get("end_time")?)) != day(now) {
                return Ok(uses);
            }
            below = Some(row.get("id")?);
            let usage: Option<Vec<u8>> = row.get("usage")?;
            let usage = usage.map(|bytes| codec::decode_usage(&bytes)).transpose()?;
            let more = ContentUse::spent(usage.unwrap_or_default(), row.get("cost_micros")?);
            *uses.entry(row.get::<&str>("tenant")?.into()).or_default() += more;
        }
    }
}
