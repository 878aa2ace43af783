//! Erasures: previews of what goes, and the erasures themselves.

use super::checked::CheckedInput;
use super::engine::{self, Reader};
use super::erasure::apply::{self, Erase, ErasePrecondition, Erasure, Progress};
use super::erasure::candidates::{self, RetentionCandidate, SubAgent};
use super::erasure::plan::EraseTarget;
use super::erasure::rows::Sizes;
use super::erasure::steps::{self, EraseGuard};
use super::error::{Error, Result};
use super::ledger::clock_segments;
use super::ledger::head::SessionKey;
use super::ledger::tx::Requester;
use super::search::Search;
use super::shared::StoreParts;
use super::writer::Mutation;
use crate::limits;
use crate::model::dating::Dating;
use crate::model::time::Timestamp;
use crate::model::{Revision, Seq};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How many erasures files may have something of, and the newest event of an erasure.
pub(crate) const PENDING: &str = "select (select count(*) from erasure where is_clean = 0) + (select count(*) from erasing), coalesce((select e.seq from \
     erasure n join event e on e.session_id = n.session_id and e.revision = n.revision \
     where n.id = (select max(id) from erasure)), 0)";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[PENDING];

/// Erasures of which files may have something.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PendingErasures {
    /// Those of which the database or its log may have something, those that go on among them.
    pub count: i64,
    /// The names of all files that may have something of an erasure.
    pub files: Vec<String>,
}

/// Erasures.
#[derive(Clone)]
pub struct Erasures(pub(super) Arc<StoreParts>);

impl Erasures {
    /// What is known of the times of events, by which sessions are dated.
    pub async fn dating(&self) -> Result<Dating> {
        self.0.brief(clock_segments::read_dating).await
    }

    /// Keeps what this process has seen of it.
    pub async fn keep_dating(&self, seen: Dating) -> Result<()> {
        self.0.write(Mutation::change("dating"), move |tx| clock_segments::join(tx, &seen)).await
    }

    /// The session that owns what an erasure names: a fork shares rows with it.
    pub async fn owner(&self, session: SessionKey, target: &EraseTarget) -> Result<SessionKey> {
        self.0.snapshot(|reader| apply::owner(reader, session.0, target)).await
    }

    /// What an erasure would take, and whether it was erased before.
    pub async fn preview(&self, session: SessionKey, target: &EraseTarget) -> Result<(Sizes, bool)> {
        self.0.snapshot(|reader| apply::preview(reader, &self.0.secrets, session.0, target)).await
    }

    /// The sessions that work for one, at any depth, oldest first and at most so many, each with whether it is erased.
    pub async fn sub_agents(&self, session: SessionKey, most: usize) -> Result<Vec<SubAgent>> {
        self.0.reading(|reader| candidates::sub_agents(reader, session, most)).await
    }

    /// Erases a part, messages or a session. What was erased before is not erased again. If the daemon stops between two
    /// steps, the rest is left to its next start.
    ///
    /// # Errors
    ///
    /// `Closed` for that; `RevisionMismatch` if the history has changed since `expected_revision`.
    pub async fn erase(
        &self,
        session: SessionKey,
        caller: Requester,
        (target, reason, expected_revision): (EraseTarget, CheckedInput<String>, Option<Revision>),
        stopping: &CancellationToken,
    ) -> Result<Erasure> {
        let (reason, caller) = reason.with_author(caller);
        let expected = ErasePrecondition::History(expected_revision);
        let erase = Erase { session, caller, target, reason, expected };
        Ok(self.steps(erase, false, stopping).await?.0)
    }

    /// Erases a session unless it has changed since a revision, or a fork shares it by now. Then others write what they have
    /// to, for as long as the last step took.
    ///
    /// # Errors
    ///
    /// `RevisionMismatch`.
    pub async fn erase_unchanged(
        &self,
        (session, revision): (SessionKey, Revision),
        caller: Requester,
        reason: String,
        stopping: &CancellationToken,
    ) -> Result<Erasure> {
        let target = EraseTarget::Session;
        let expected = ErasePrecondition::Everything(revision);
        let erase = Erase { session, caller, target, reason, expected };
        let (erasure, took) = self.steps(erase, false, stopping).await?;
        self.make_way(took).await;
        Ok(erasure)
    }

    /// The sessions whose erasure has begun and has not ended, and that nobody is at here: a daemon stopped in between, or a
    /// step failed.
    pub async fn unfinished(&self) -> Result<Vec<SessionKey>> {
        let begun = self.0.reading(steps::begun_sessions).await?;
        let at_work = self.0.erasing.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(begun.into_iter().filter(|session| !at_work.contains(session)).collect())
    }

    /// Ends the erasure of a session that has begun.
    pub async fn go_on(&self, session: SessionKey, stopping: &CancellationToken) -> Result<Erasure> {
        let (caller, target, reason) = (Requester::default(), EraseTarget::Session, String::new());
        let erase = Erase { session, caller, target, reason, expected: ErasePrecondition::History(None) };
        Ok(self.steps(erase, true, stopping).await?.0)
    }

    /// Waits until nobody has anything to write, at most so long.
    async fn make_way(&self, longest: Duration) {
        drop(tokio::time::timeout(longest, self.0.writer.meter().idle()).await);
    }

    /// Makes all steps of an erasure, and returns the time of the last one. Between two of them others write what they have to,
    /// for as long as the last one took. An erasure that has begun waits while the writer is too busy; whatever else fails
    /// leaves the rest to the next look for such erasures.
    async fn steps(
        &self,
        erase: Erase,
        mut has_begun: bool,
        stopping: &CancellationToken,
    ) -> Result<(Erasure, Duration)> {
        let _at_work = EraseGuard::new(&self.0.erasing, erase.session);
        loop {
            let (began, step) = (Instant::now(), erase.clone());
            match self.0.write(Mutation::change("erase"), move |tx| step.apply(tx)).await {
                Ok(Progress::Ended(erasure)) => return Ok((erasure, began.elapsed())),
                Ok(Progress::Continues) => has_begun = true,
                Err(Error::Busy(_)) if has_begun => {}
                Err(error) => return Err(error),
            }
            tokio::select! {
                biased;
                () = stopping.cancelled() => return Err(Error::Closed),
                () = self.make_way(began.elapsed()) => {}
            }
        }
    }

    /// The next sessions of a tenant behind one, the newest change first, without erased ones.
    pub async fn candidates(
        &self,
        tenant: &str,
        behind: Option<(Timestamp, SessionKey)>,
        most: usize,
    ) -> Result<Vec<RetentionCandidate>> {
        self.0.reading(|reader| candidates::page(reader, tenant, behind, most)).await
    }

    /// The tenants that have sessions; empty for the default tenant.
    pub async fn tenants(&self) -> Result<Vec<String>> {
        self.0.reading(candidates::tenants).await
    }

    /// Waits a while until no file has anything of an erasure. Returns the names of the files that still may: the daemon
    /// goes on trying.
    pub async fn clean(&self, erasure: &Erasure) -> Vec<String> {
        let kept = self.0.engine.keeps_erased();
        if !kept.is_empty() {
            return kept.iter().map(|name| (*name).to_owned()).collect();
        }
        let mut cleaned = self.0.announced.cleaned.clone();
        let retry = Duration::from_millis(limits::ERASE_CLEAN_RETRY_MS);
        for _ in 0..limits::ERASE_CLEAN_WAIT_MS / limits::ERASE_CLEAN_RETRY_MS {
            if *cleaned.borrow_and_update() >= erasure.row {
                return Vec::new();
            }
            self.0.writer.check();
            // Either it is clean, or the next attempt follows.
            drop(tokio::time::timeout(retry, cleaned.changed()).await);
        }
        if *cleaned.borrow() >= erasure.row {
            return Vec::new();
        }
        self.0.engine.cleaned_files()
    }

    /// The erasures of which files may have something.
    pub async fn pending(&self) -> Result<PendingErasures> {
        let read = |reader: &mut Reader<'_>| {
            let row = reader.always(engine::query(PENDING))?;
            Ok((row.get::<i64>(0)?, row.get::<Seq>(1)?))
        };
        let (count, newest) = self.0.reading(read).await?;
        let mut files = if count > 0 { self.0.engine.cleaned_files() } else { Vec::new() };
        let search = Search(Arc::clone(&self.0));
        if !search.has_forgotten(newest, Duration::ZERO).await {
            files.extend(Search::files());
        }
        Ok(PendingErasures { count, files })
    }
}
