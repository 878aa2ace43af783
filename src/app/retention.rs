//! Retention: sessions that are erased by rules, for their age, for the time since their last change, or for the room that
//! newer ones need.

use super::api::Shared;
use super::error::{Error, Reason, Result};
use super::{Caller, Longhand};
use crate::limits;
use crate::model::access::Scope;
use crate::model::ids::SessionId;
use crate::model::time::Timestamp;
use crate::store::{self, Requester, RetentionCandidate};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The label that protects a session from every rule.
pub const KEEP: &str = "keep";

/// A rule: which sessions it is about, and when they go. One bound that is exceeded is enough.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetentionRule {
    /// The name, which the erasures have with their author.
    pub name: String,
    /// The tenant; none for every tenant.
    pub tenant: Option<String>,
    /// The label that a session must have; none for every session.
    pub label: Option<String>,
    /// Time since the creation.
    pub age: Option<Duration>,
    /// Time since the last change.
    pub idle: Option<Duration>,
    /// Bytes of content, before compression, of all sessions that it is about: those that changed longest ago go.
    pub bytes: Option<u64>,
}

/// The bound that a session exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionReason {
    /// It was created this long ago.
    Age(Duration),
    /// It was not changed for this long.
    Idle(Duration),
    /// The sessions that changed later have the room.
    Bytes,
}

impl fmt::Display for RetentionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = |time: &Duration| time.as_secs() / 3_600;
        match self {
            Self::Age(time) => write!(f, "created {} hours ago", hours(time)),
            Self::Idle(time) => write!(f, "not changed for {} hours", hours(time)),
            Self::Bytes => f.write_str("sessions that changed later have the room"),
        }
    }
}

/// A session that goes by a rule, or would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expired {
    /// Its id.
    pub session: SessionId,
    /// Its title before the erasure.
    pub title: String,
    /// The rule's name.
    pub rule: String,
    /// The bound that it exceeds.
    pub reason: RetentionReason,
    /// Bytes of its content, before compression.
    pub content_bytes: i64,
}

/// What a pass did, or would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionSummary {
    /// Sessions that were looked at, without erased ones.
    pub examined: i64,
    /// Sessions that were erased, or would be.
    pub erased: i64,
    /// Bytes of their content, before compression.
    pub content_bytes: i64,
    /// Sessions that exceed a bound and stay: labelled `keep`, with an active run, or with a fork that stays.
    pub protected: i64,
    /// Sessions that changed between look and erasure, and stay until the next pass.
    pub changed: i64,
}

/// A piece of a pass's report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetentionItem {
    /// A session that was erased, or would be.
    Expired(Expired),
    /// The end. Comes last, once.
    End(RetentionSummary),
}

/// The times of passes in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionTimes {
    /// Time until the first pass.
    pub delay: Duration,
    /// Time between the end of a pass and the begin of the next one.
    pub interval: Duration,
}

impl Default for RetentionTimes {
    fn default() -> Self {
        Self {
            delay: Duration::from_secs(limits::RETENTION_DELAY_SECONDS),
            interval: Duration::from_secs(limits::RETENTION_INTERVAL_SECONDS),
        }
    }
}

/// Looks at the sessions of a tenant, the newest change first.
struct Examination<'r> {
    /// The rules, with the bytes of the sessions that each has seen.
    rules: Vec<(&'r RetentionRule, u64)>,
    now: Timestamp,
    summary: RetentionSummary,
}

/// A session that is to go.
struct Due<'r> {
    candidate: RetentionCandidate,
    rule: &'r RetentionRule,
    reason: RetentionReason,
}

impl<'r> Examination<'r> {
    fn new(rules: &'r [RetentionRule], tenant: &str, now: Timestamp) -> Self {
        let holds = |rule: &&RetentionRule| rule.tenant.as_deref().is_none_or(|of| of == tenant);
        let rules = rules.iter().filter(holds).map(|rule| (rule, 0)).collect();
        Self { rules, now, summary: RetentionSummary::default() }
    }

    /// The first rule whose bound a session exceeds, and the reason.
    fn exceeded(&mut self, candidate: &RetentionCandidate) -> Option<(&'r RetentionRule, RetentionReason)> {
        let since = |time: Timestamp| {
            Duration::from_micros(u64::try_from(self.now.0.saturating_sub(time.0)).unwrap_or_default())
        };
        let (age, idle) = (since(candidate.create_time), since(candidate.update_time));
        let mut found = None;
        for (rule, seen) in &mut self.rules {
            if rule.label.as_ref().is_some_and(|label| !candidate.labels.contains(label)) {
                continue;
            }
            *seen = seen.saturating_add(u64::try_from(candidate.content_bytes).unwrap_or_default());
            let reason = if rule.age.is_some_and(|most| age > most) {
                Some(RetentionReason::Age(age))
            } else if rule.idle.is_some_and(|most| idle > most) {
                Some(RetentionReason::Idle(idle))
            } else {
                rule.bytes.filter(|most| *seen > *most).map(|_| RetentionReason::Bytes)
            };
            // Every rule counts the session, whichever takes it.
            found = found.or(reason.map(|reason| (*rule, reason)));
        }
        found
    }

    /// The session, if it is to go.
    fn examine(&mut self, candidate: RetentionCandidate) -> Option<Due<'r>> {
        self.summary.examined += 1;
        let (rule, reason) = self.exceeded(&candidate)?;
        let keeps = candidate.labels.iter().any(|label| label == KEEP);
        if keeps || candidate.is_at_work || candidate.is_shared {
            self.summary.protected += 1;
            return None;
        }
        Some(Due { candidate, rule, reason })
    }
}

/// A pass over the sessions of a tenant.
struct Pass<'a> {
    shared: &'a Shared,
    tenant: &'a str,
    is_dry: bool,
    items: Option<&'a mpsc::Sender<Result<RetentionItem>>>,
}

impl Pass<'_> {
    /// Looks at all sessions, then erases those that are due, the oldest change first.
    async fn run(&self) -> Result<RetentionSummary> {
        // Two passes at once would find the same sessions.
        let _turn = self.shared.retention_turn.lock().await;
        let mut examination = Examination::new(self.shared.retention(), self.tenant, self.shared.clock.now());
        if examination.rules.is_empty() {
            return Ok(examination.summary);
        }
        let mut due = Vec::new();
        let mut behind = None;
        loop {
            let most = limits::RETENTION_PAGE_SESSIONS;
            let page = self.shared.store.erasures().candidates(self.tenant, behind, most).await?;
            let Some(last) = page.last() else { break };
            behind = Some((last.update_time, last.key));
            due.extend(page.into_iter().filter_map(|candidate| examination.examine(candidate)));
        }
        let mut summary = examination.summary;
        for due in due.into_iter().rev() {
            if self.items.is_some_and(mpsc::Sender::is_closed) {
                break;
            }
            if !self.is_dry && !self.erase(&due).await? {
                summary.changed += 1;
                continue;
            }
            summary.erased += 1;
            summary.content_bytes += due.candidate.content_bytes;
            let RetentionCandidate { id, title, content_bytes, .. } = due.candidate;
            let rule = due.rule.name.clone();
            let expired = Expired { session: id, title, rule, reason: due.reason, content_bytes };
            if let Some(items) = self.items {
                drop(items.send(Ok(RetentionItem::Expired(expired))).await);
            }
        }
        Ok(summary)
    }

    /// Erases a session. False if it has changed since it was looked at.
    async fn erase(&self, due: &Due<'_>) -> Result<bool> {
        let requester = Requester { actor: format!("retention:{}", due.rule.name), ..Requester::default() };
        let reason = format!("retention rule {:?}: {}", due.rule.name, due.reason);
        let (key, revision) = (due.candidate.key, due.candidate.revision);
        let began = self.shared.clock.now();
        match self.shared.store.erasures().erase_unchanged((key, revision), requester, reason).await {
            Ok(_) => {}
            Err(store::Error::RevisionMismatch { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        // Its client id may be another session's from now on.
        self.shared.forget();
        // Writes of others have half of the time at least.
        let took = self.shared.clock.now().0.saturating_sub(began.0);
        tokio::time::sleep(Duration::from_micros(u64::try_from(took).unwrap_or_default())).await;
        Ok(true)
    }
}

impl Shared {
    fn retention(&self) -> &[RetentionRule] {
        self.retention.get().map_or(&[], Vec::as_slice)
    }
}

impl Longhand {
    /// Sets the rules, once; there are none before.
    pub fn set_retention(&self, rules: Vec<RetentionRule>) {
        self.shared.retention.get_or_init(|| rules);
    }

    /// Erases what the rules say, at intervals, until the daemon stops.
    pub async fn retain(self, times: RetentionTimes, stopping: CancellationToken) {
        if self.shared.retention().is_empty() {
            return;
        }
        let passes = async {
            tokio::time::sleep(times.delay).await;
            loop {
                self.retain_once().await;
                tokio::time::sleep(times.interval).await;
            }
        };
        tokio::select! {
            () = stopping.cancelled() => {}
            () = passes => {}
        }
    }

    async fn retain_once(&self) {
        let tenants = match self.shared.store.erasures().tenants().await {
            Ok(tenants) => tenants,
            Err(error) => return tracing::warn!(%error, "tenants cannot be listed: retention waits for its next pass"),
        };
        for tenant in tenants {
            let pass = Pass { shared: &self.shared, tenant: &tenant, is_dry: false, items: None };
            match pass.run().await {
                Ok(RetentionSummary { erased: 0, .. }) => {}
                Ok(summary) => tracing::info!(tenant, ?summary, "retention erased sessions"),
                Err(error) => tracing::warn!(tenant, %error, "retention stopped: it goes on with its next pass"),
            }
        }
    }
}

impl Caller {
    /// Applies the rules that hold for the caller's tenant, or says what they would erase. The receiver gets each session,
    /// and the end last. The pass ends with the receiver.
    ///
    /// # Errors
    ///
    /// `SCOPE_MISSING` for a caller that is bound to sessions.
    pub fn apply_retention(&self, is_dry: bool) -> Result<mpsc::Receiver<Result<RetentionItem>>> {
        if !self.visibility.is_unbound() {
            let message = "an access token that is bound to sessions applies no rules";
            return Err(Error::new(Reason::ScopeMissing, message).with("scope", Scope::Erase));
        }
        let (items, receiver) = mpsc::channel(limits::CHECK_QUEUE_MAX);
        let (shared, tenant) = (Arc::clone(&self.shared), self.visibility.tenant.clone());
        tokio::spawn(async move {
            let pass = Pass { shared: &shared, tenant: &tenant, is_dry, items: Some(&items) };
            let end = tokio::select! {
                () = shared.stopping.cancelled() => Err(Error::new(Reason::ShuttingDown, "the daemon is stopping")),
                end = pass.run() => end.map(RetentionItem::End),
            };
            drop(items.send(end).await);
        });
        Ok(receiver)
    }
}
