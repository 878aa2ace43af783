//! Passes of retention: what the rules name is erased.

use super::Longhand;
use super::api::AppParts;
use super::error::{Error, Reason, Result};
use super::nouns::Content;
use super::retention::{
    Examination, ExpiredSession, RetentionItem, RetentionRule, RetentionSummary, RetentionTimes, SessionToErase,
};
use crate::limits;
use crate::model::access::Scope;
use crate::model::dating::Dating;
use crate::model::time::Timestamp;
use crate::store::{self, Requester, RetentionCandidate};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A pass over the sessions of a tenant.
struct Pass<'a> {
    shared: &'a AppParts,
    tenant: &'a str,
    is_dry: bool,
    items: Option<&'a mpsc::Sender<Result<RetentionItem>>>,
}

impl Pass<'_> {
    /// Looks at all sessions, then erases those that are due, the oldest change first.
    async fn run(&self) -> Result<RetentionSummary> {
        // Two passes at once would find the same sessions.
        let _turn = self.shared.retention_turn.lock().await;
        let (dated, is_confirmed) = self.dated().await?;
        let mut examination = Examination::new(self.shared.retention(), self.tenant, dated);
        if examination.rules.is_empty() {
            return Ok(examination.summary);
        }
        examination.summary.is_clock_unconfirmed = !is_confirmed;
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
            let expired = ExpiredSession { session: id, title, rule, reason: due.reason, content_bytes };
            if let Some(items) = self.items {
                drop(items.send(Ok(RetentionItem::Expired(expired))).await);
            }
        }
        Ok(summary)
    }

    /// The time that is certain to have come, and what is known of the times of events, which a pass that erases keeps for
    /// the time after a restart; and true if the clock is confirmed.
    async fn dated(&self) -> Result<((Timestamp, Dating), bool)> {
        let erasures = self.shared.store.erasures();
        let mut dating = erasures.dating().await?;
        let (certain, seen, is_confirmed) = self.shared.clock.dated();
        if dating.join(&seen) && !self.is_dry {
            erasures.keep_dating(seen).await?;
        }
        Ok(((certain, dating), is_confirmed))
    }

    /// Erases a session. False if it has changed since it was looked at.
    async fn erase(&self, due: &SessionToErase<'_>) -> Result<bool> {
        let requester = Requester { actor: format!("retention:{}", due.rule.name), ..Requester::default() };
        let reason = format!("retention rule {:?}: {}", due.rule.name, due.reason);
        let (key, revision) = (due.candidate.key, due.candidate.revision);
        let erasures = self.shared.store.erasures();
        match erasures.erase_unchanged((key, revision), requester, reason, &self.shared.stopping).await {
            Ok(_) => Ok(true),
            Err(store::Error::RevisionMismatch { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl AppParts {
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

impl Content<'_> {
    /// Applies the rules that hold for the caller's tenant, or says what they would erase. The receiver gets each session,
    /// and the end last. The pass ends with the receiver.
    ///
    /// # Errors
    ///
    /// `SCOPE_MISSING` for a caller that is bound to sessions.
    pub fn apply_retention(self, is_dry: bool) -> Result<mpsc::Receiver<Result<RetentionItem>>> {
        if !self.caller.visibility.is_unbound() {
            let message = "an access token that is bound to sessions applies no rules";
            return Err(Error::new(Reason::ScopeMissing, message).with("scope", Scope::Erase));
        }
        let (items, receiver) = mpsc::channel(limits::CHECK_QUEUE_MAX);
        let (shared, tenant) = (Arc::clone(&self.caller.shared), self.caller.visibility.tenant.clone());
        tokio::spawn(async move {
            let pass = Pass { shared: &shared, tenant: &tenant, is_dry, items: Some(&items) };
            let end = tokio::select! {
                () = shared.stopping.cancelled() => Err(Error::stopping()),
                end = pass.run() => end.map(RetentionItem::End),
            };
            drop(items.send(end).await);
        });
        Ok(receiver)
    }
}
