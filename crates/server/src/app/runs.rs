//! Runs for callers: acquiring, renewing, stopping and ending them, and what happens in a session.

use super::error::{Error, Result};
use super::nouns::Runs;
use super::secrets::{InputText, ScreenedAnswer};
use super::{page_size, receipt_id, validate};
use crate::limits;
use crate::model::ids::{PromptId, RunId};
use crate::model::prompt::Prompt;
use crate::model::run::{Epoch, Run, SessionRun};
use crate::store::{Receipt, SessionKey};
use std::time::Duration;

/// A run that was acquired.
#[derive(Debug, Clone, PartialEq)]
pub struct AcquiredRun {
    /// The run.
    pub run: Run,
    /// The prompt that it took.
    pub prompt: Option<Prompt>,
    /// The change.
    pub receipt: Receipt,
}

/// Parameters of a request to stop runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CancelRun {
    /// The run; none for whichever is active.
    pub epoch: Option<Epoch>,
    /// Ends the run at once.
    pub force: bool,
    /// Stops the runs of the sessions that work for this one, too.
    pub tree: bool,
}

/// Parameters of a list of runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListRuns {
    /// The session; none for the active runs of every session.
    pub session: Option<String>,
    /// Only active runs, of the session and of those that work for it.
    pub tree: bool,
    /// Maximum number of runs; zero for the default.
    pub page_size: i64,
    /// The token of the page; empty for the first one.
    pub page_token: String,
}

/// A lease's length in milliseconds.
fn lease_ms(lease: Option<Duration>) -> Result<i64> {
    let Some(lease) = lease else { return Ok(limits::RUN_LEASE_MS_DEFAULT) };
    let (least, most) = (limits::RUN_LEASE_MS_MIN, limits::RUN_LEASE_MS_MAX);
    let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
    if (least..=most).contains(&lease_ms) {
        return Ok(lease_ms);
    }
    Err(Error::field("lease_timeout", format!("is not between {} and {} seconds", least / 1_000, most / 1_000)))
}

impl Runs<'_> {
    /// Acquires the right to answer the session's next prompt; with `take_prompt` together with that prompt.
    pub async fn acquire(self, session: &str, lease: Option<Duration>, take_prompt: bool) -> Result<AcquiredRun> {
        let lease_ms = lease_ms(lease)?;
        let key = self.caller.session_key(session).await?;
        let receipt = self.caller.store().runs().acquire(key, self.caller.requester(), lease_ms, take_prompt).await?;
        let run = Error::answer(self.run_of(&receipt).await)?;
        let prompt = match receipt.ids.get(1) {
            Some(id) => Some(Error::answer(self.caller.store().runs().prompt(key, PromptId(*id)).await)?),
            None => None,
        };
        Ok(AcquiredRun { run, prompt, receipt })
    }

    async fn run_of(self, receipt: &Receipt) -> Result<Run> {
        Ok(self.caller.store().runs().get(RunId(receipt_id(receipt)?)).await?)
    }

    /// Extends the lease of a run, unless it was asked to stop. Returns the run as it is then.
    pub async fn renew(self, session: &str, epoch: Epoch, lease: Option<Duration>) -> Result<Run> {
        let lease_ms = lease_ms(lease)?;
        let key = self.caller.session_key(session).await?;
        self.caller.store().runs().renew(key, epoch, lease_ms).await?;
        self.run_at_epoch(key, epoch).await
    }

    /// The run of a session with this number.
    pub(super) async fn run_at_epoch(self, key: SessionKey, epoch: Epoch) -> Result<Run> {
        let runs = self.caller.store().runs().list(key, Some(epoch.saturating_add(1)), 1).await?;
        let run = runs.into_iter().next().filter(|run| run.epoch == epoch);
        run.ok_or_else(|| {
            Error::new(super::Reason::RunNotFound, format!("the session has no run {epoch}")).with("run_id", epoch)
        })
    }

    /// Ends a run by the will of its agent.
    pub async fn release(
        self,
        session: &str,
        epoch: Epoch,
        failure: Option<String>,
    ) -> Result<ScreenedAnswer<(Run, Receipt)>> {
        let has_failed = failure.is_some();
        let text = failure.unwrap_or_default();
        let failure = self.caller.check(InputText { field: "failure", text, check: validate::failure })?;
        let failure_text = failure.with(has_failed.then(|| failure.text.clone()));
        let key = self.caller.session_key(session).await?;
        let receipt = self.caller.store().runs().release(key, self.caller.requester(), epoch, failure_text).await?;
        Ok(ScreenedAnswer::new((Error::answer(self.run_of(&receipt).await)?, receipt), failure.into_parts().1))
    }

    /// Asks runs to stop, or ends them at once. Returns them as they are then.
    pub async fn cancel(self, session: &str, cancel: CancelRun) -> Result<Vec<Run>> {
        let CancelRun { epoch, force, tree } = cancel;
        if tree && epoch.is_some() {
            return Err(Error::field("epoch", "does not go with tree"));
        }
        if tree && self.caller.requester.request.is_some() {
            let why = "does not go with tree: each session has a change of its own, and a repetition would find others";
            return Err(Error::field("request_id", why));
        }
        let key = self.caller.session_key(session).await?;
        let runs = self.caller.store().runs();
        if !tree {
            let receipt = runs.cancel(key, self.caller.requester(), epoch, force).await?;
            return Ok(vec![Error::answer(self.run_of(&receipt).await)?]);
        }
        let mut below = None;
        let mut cancelled = Vec::new();
        loop {
            let active = runs.active(Some(key), below, limits::PAGE_SIZE_MAX).await?;
            let Some((last, _)) = active.last() else { return Ok(cancelled) };
            below = Some(last.0);
            for (key, run) in active {
                if !self.caller.sees(key).await? {
                    continue;
                }
                match runs.cancel(key, self.caller.requester(), Some(run.epoch), force).await {
                    Ok(receipt) => cancelled.push(Error::answer(self.run_of(&receipt).await)?),
                    // It ended meanwhile.
                    Err(crate::store::Error::RunLost { .. } | crate::store::Error::NoRun) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    /// What happens in a session.
    pub async fn of_session(self, session: &str) -> Result<SessionRun> {
        let key = self.caller.session_key(session).await?;
        Ok(self.caller.store().runs().of_session(key).await?)
    }

    /// A page of runs, newest first, and the token of the next page.
    pub async fn list(self, list: ListRuns) -> Result<(Vec<Run>, String)> {
        let ListRuns { session, tree, page_size: size, page_token } = list;
        let limit = page_size(size)?;
        let scope = format!("runs {} {tree}", session.as_deref().unwrap_or_default());
        let mut below = self.caller.page_start(&page_token, &scope)?;
        let root = match &session {
            Some(session) => Some(self.caller.session_key(session).await?),
            None if tree => return Err(Error::field("tree", "needs session_id")),
            None => None,
        };
        if let (Some(key), false) = (root, tree) {
            let mut runs = self.caller.store().runs().list(key, below, limit + 1).await?;
            let more = i64::try_from(runs.len()).is_ok_and(|count| count > limit);
            runs.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
            let next = runs.last().filter(|_| more).map(|run| self.caller.page_token(run.epoch, &scope));
            return Ok((runs, next.unwrap_or_default()));
        }
        let mut page = Vec::new();
        // A page looks at a bounded number of runs, and may be short. A tree is walked once for each read.
        for _ in 0..limits::SESSIONS_SCAN_MAX / limits::PAGE_SIZE_MAX {
            let active = self.caller.store().runs().active(root, below, limits::PAGE_SIZE_MAX).await?;
            if active.is_empty() {
                return Ok((page, String::new()));
            }
            for (key, run) in active {
                if i64::try_from(page.len()).is_ok_and(|count| count == limit) {
                    return Ok((page, below.map(|below| self.caller.page_token(below, &scope)).unwrap_or_default()));
                }
                below = Some(key.0);
                if self.caller.sees(key).await? {
                    page.push(run);
                }
            }
        }
        Ok((page, below.map(|below| self.caller.page_token(below, &scope)).unwrap_or_default()))
    }
}
