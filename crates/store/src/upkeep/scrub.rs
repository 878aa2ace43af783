//! The scrub: verification of the whole store in the background, at a bounded rate.
//!
//! A pass reads every session's events and rows as `verify` does, in short reads with pauses between them. Its progress
//! is a row, so that a pass goes on at the next start behind the last session that was checked.

use crate::clock::Clock;
use crate::engine::{self, Connection};
use crate::error::{Error, Result};
use crate::integrity::log_check::{Finding, LogCheck};
use crate::integrity::scrub_state::ScrubState;
use crate::integrity::verify::{self, CheckedChains, SessionCheck};
use crate::ledger::tx::Tx;
use crate::limits;
use crate::model::time::Timestamp;
use crate::shared::StoreParts;
use crate::writer::Mutation;
use futures::FutureExt as _;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The rate and the interval of scrubs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrubOptions {
    /// Content that is verified in each second, in bytes.
    pub bytes_per_second: u64,
    /// Time between the end of a pass and the begin of the next one; none for passes on request only.
    pub interval: Option<Duration>,
}

pub(crate) const LOAD: &str = "select session_id, start_time, sessions, events, findings, end_time, last_findings, \
     (select min(create_time) from store) from scrub";
const CREATED: &str = "select min(create_time) from store";
const SAVE: &str = "insert into scrub (id, session_id, start_time, sessions, events, findings, end_time, last_findings) \
     values (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7) on conflict (id) do update set session_id = excluded.session_id, \
     start_time = excluded.start_time, sessions = excluded.sessions, events = excluded.events, \
     findings = excluded.findings, end_time = excluded.end_time, last_findings = excluded.last_findings";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[LOAD, CREATED, SAVE];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Progress {
    /// The last session that the unfinished pass has checked, by key, 0 before the first; none if no pass is unfinished.
    session: Option<i64>,
    start_time: Option<Timestamp>,
    checked: CheckedChains,
    end_time: Option<Timestamp>,
    last_findings: i64,
}

impl Progress {
    /// Reads the row, and the time at which the store was made.
    fn load(conn: &Connection) -> Result<(Self, Timestamp)> {
        let Some(row) = engine::query(LOAD).optional(conn)? else {
            return Ok((Self::default(), Timestamp(engine::scalar(CREATED).one(conn)?)));
        };
        let checked = CheckedChains { sessions: row.get(2)?, events: row.get(3)?, findings: row.get(4)? };
        let progress = Self {
            session: row.get(0)?,
            start_time: row.get::<Option<i64>>(1)?.map(Timestamp),
            checked,
            end_time: row.get::<Option<i64>>(5)?.map(Timestamp),
            last_findings: row.get(6)?,
        };
        Ok((progress, Timestamp(row.get(7)?)))
    }

    fn save(&self, tx: &Tx<'_>) -> Result<()> {
        let CheckedChains { sessions, events, findings } = self.checked;
        engine::query(SAVE)
            .bind(self.session)
            .bind(self.start_time.map(|time| time.0))
            .bind(sessions)
            .bind(events)
            .bind(findings)
            .bind(self.end_time.map(|time| time.0))
            .bind(self.last_findings)
            .run(tx.conn)?;
        Ok(())
    }
}

/// The pause behind a read of this many bytes that took this long, so that the rate is kept, and so that reads of small
/// content take half of the time at most. Time that was lost is not made up for: a pass that was held up does not read
/// faster afterwards.
fn pause(bytes: u64, took: Duration, bytes_per_second: u64) -> Duration {
    let micros = u128::from(bytes) * 1_000_000 / u128::from(bytes_per_second.max(1));
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)).saturating_sub(took).max(took)
}

/// Time until the next pass, from the end of the last one or the making of the store; none if passes are on request only.
fn wait(options: ScrubOptions, last: Timestamp, now: Timestamp) -> Option<Duration> {
    let since = Duration::from_micros(u64::try_from(now.0.saturating_sub(last.0)).unwrap_or(0));
    options.interval.map(|interval| interval.saturating_sub(since))
}

/// Reason why a pass does not go on.
enum StopReason {
    /// The daemon stops.
    Stopping,
    /// The store is closed.
    Closed,
}

struct Task {
    shared: Arc<StoreParts>,
    options: ScrubOptions,
    clock: Clock,
    stopping: CancellationToken,
    progress: Progress,
    /// The extent of the pass including the session in progress, which is checked from its first event again behind a
    /// stop.
    checked: CheckedChains,
    /// The time at which the progress was stored last.
    saved: Timestamp,
}

/// Verifies the store, pass after pass, until the daemon stops.
pub(super) async fn run(shared: Arc<StoreParts>, options: ScrubOptions, clock: Clock, stopping: CancellationToken) {
    let (progress, created) = match shared.reading(|reader| Progress::load(reader.conn)).await {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(%error, "the progress of the scrub cannot be read: it begins anew");
            (Progress::default(), clock.now())
        }
    };
    shared.scrub.state.send_modify(|state| {
        state.start_time = progress.start_time;
        state.end_time = progress.end_time;
        state.checked = progress.checked;
        state.last_findings = progress.last_findings;
    });
    let saved = clock.now();
    let mut task = Task { shared, options, clock, stopping, progress, checked: progress.checked, saved };
    loop {
        if task.progress.session.is_none() && task.until_due(created).await.is_err() {
            return;
        }
        match task.pass().await {
            Ok(()) => {}
            Err(StopReason::Closed) => return,
            Err(StopReason::Stopping) => return task.save().await,
        }
    }
}

impl Task {
    /// Waits until a pass is requested or due.
    async fn until_due(&self, created: Timestamp) -> std::result::Result<(), StopReason> {
        let most = Duration::from_millis(limits::SCRUB_WAIT_MS_MAX);
        loop {
            let last = self.progress.end_time.unwrap_or(created);
            let wait = wait(self.options, last, self.clock.now());
            if wait == Some(Duration::ZERO) {
                return Ok(());
            }
            tokio::select! {
                () = self.stopping.cancelled() => return Err(StopReason::Stopping),
                () = self.shared.scrub.requested.notified() => return Ok(()),
                // The system's clock may be set meanwhile.
                () = tokio::time::sleep(wait.unwrap_or(most).min(most)) => {}
            }
        }
    }

    /// One pass, from its begin or from where it was stopped.
    async fn pass(&mut self) -> std::result::Result<(), StopReason> {
        if self.progress.session.is_none() {
            let (end_time, last_findings) = (self.progress.end_time, self.progress.last_findings);
            let start_time = Some(self.clock.now());
            self.progress =
                Progress { session: Some(0), start_time, checked: CheckedChains::default(), end_time, last_findings };
        }
        let Progress { start_time, checked, .. } = self.progress;
        self.checked = checked;
        self.publish(|state| {
            (state.running, state.pass) = (true, state.pass + 1);
            (state.start_time, state.checked, state.bytes) = (start_time, checked, 0);
            state.findings = Arc::default();
        });
        // The requests until now are for this pass.
        let _ = self.shared.scrub.requested.notified().now_or_never();
        self.sessions().await?;
        self.log().await?;
        let (end_time, checked) = (self.clock.now(), self.checked);
        (self.progress.session, self.progress.checked) = (None, checked);
        self.progress.end_time = Some(end_time);
        self.progress.last_findings = checked.findings;
        self.save().await;
        self.publish(|state| {
            (state.running, state.checked) = (false, checked);
            (state.end_time, state.last_findings) = (Some(end_time), checked.findings);
        });
        let CheckedChains { sessions, events, findings } = checked;
        tracing::info!(sessions, events, findings, "scrub ended");
        Ok(())
    }

    async fn sessions(&mut self) -> std::result::Result<(), StopReason> {
        while let Some(keys) = self.next_sessions().await? {
            for key in keys {
                self.session(key).await?;
                self.checked.sessions += 1;
                (self.progress.session, self.progress.checked) = (Some(key), self.checked);
                self.save_at_intervals().await;
            }
        }
        Ok(())
    }

    async fn next_sessions(&mut self) -> std::result::Result<Option<Vec<i64>>, StopReason> {
        let after = self.progress.session.unwrap_or(0);
        loop {
            let found = verify::sessions_after(&self.shared.readers, after).await;
            match self.outcome(found, "the sessions").await? {
                Some(Some(keys)) => return Ok((!keys.is_empty()).then_some(keys)),
                Some(None) => return Ok(None),
                None => {}
            }
        }
    }

    /// Checks a session, and begins anew if the store was busy.
    async fn session(&mut self, key: i64) -> std::result::Result<(), StopReason> {
        loop {
            let mut check = SessionCheck::new(key);
            self.checked = self.progress.checked;
            loop {
                let begun = self.clock.now();
                let page = check.page(&self.shared.readers).await;
                let what = format!("session {}", check.name());
                match self.outcome(page, &what).await? {
                    None => break,
                    Some(None) => return Ok(()),
                    Some(Some(page)) => {
                        self.add_findings(page.findings, page.events, page.bytes);
                        self.pause_after(page.bytes, begun).await?;
                        if !page.has_more {
                            return Ok(());
                        }
                    }
                }
            }
        }
    }

    /// Checks the numbers of the log.
    async fn log(&mut self) -> std::result::Result<(), StopReason> {
        let mut check = LogCheck::default();
        loop {
            let begun = self.clock.now();
            let page = check.page(&self.shared.readers).await;
            match self.outcome(page, "the log").await? {
                None => {}
                Some(None) => return Ok(()),
                Some(Some((findings, has_more))) => {
                    self.add_findings(findings, 0, 0);
                    self.pause_after(limits::CHECK_PAGE_BYTES, begun).await?;
                    if !has_more {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// The result of a read. Rows that cannot be read are a finding, with `Some(None)`. Without a free reader, memory or
    /// file descriptors it is none, and the read has to be tried again.
    async fn outcome<T>(&mut self, read: Result<T>, what: &str) -> std::result::Result<Option<Option<T>>, StopReason> {
        match read {
            Ok(found) => Ok(Some(Some(found))),
            Err(Error::Closed) => Err(StopReason::Closed),
            Err(error) if !matches!(error, Error::Corrupt { .. } | Error::Disk(_)) => {
                tracing::warn!(%error, "the scrub waits");
                self.sleep(Duration::from_millis(limits::SCRUB_RETRY_MS)).await?;
                Ok(None)
            }
            Err(error) => {
                let message = format!("{what} cannot be read: {error}");
                self.add_findings(vec![Finding { session: None, revision: 0, message }], 0, 0);
                Ok(Some(None))
            }
        }
    }

    /// Adds what a read has found.
    fn add_findings(&mut self, findings: Vec<Finding>, events: i64, bytes: u64) {
        self.checked.events += events;
        self.checked.findings += i64::try_from(findings.len()).unwrap_or(i64::MAX);
        let checked = self.checked;
        self.publish(|state| {
            state.checked = checked;
            state.bytes = state.bytes.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
            for finding in findings {
                if state.findings.len() >= limits::SCRUB_FINDINGS_MAX {
                    break;
                }
                let session = finding.session.map(|session| session.to_string()).unwrap_or_default();
                tracing::error!(session, revision = finding.revision, finding = finding.message, "scrub finding");
                Arc::make_mut(&mut state.findings).push(finding);
            }
        });
    }

    fn publish(&self, change: impl FnOnce(&mut ScrubState)) {
        self.shared.scrub.state.send_modify(change);
    }

    /// Pauses behind a read that began at an instant.
    async fn pause_after(&self, bytes: u64, begun: Timestamp) -> std::result::Result<(), StopReason> {
        let took = Duration::from_micros(u64::try_from(self.clock.now().0 - begun.0).unwrap_or(0));
        self.sleep(pause(bytes, took, self.options.bytes_per_second)).await
    }

    async fn sleep(&self, duration: Duration) -> std::result::Result<(), StopReason> {
        tokio::select! {
            biased;
            () = self.stopping.cancelled() => Err(StopReason::Stopping),
            () = tokio::time::sleep(duration) => Ok(()),
        }
    }

    async fn save_at_intervals(&mut self) {
        if self.clock.now().0 - self.saved.0 >= i64::try_from(limits::SCRUB_SAVE_MS * 1_000).unwrap_or(i64::MAX) {
            self.save().await;
        }
    }

    /// Stores the progress. If that fails, the next start checks some sessions twice.
    async fn save(&mut self) {
        self.saved = self.clock.now();
        let progress = self.progress;
        if let Err(error) = self.shared.write(Mutation::derived("scrub", 0), move |tx| progress.save(tx)).await {
            tracing::debug!(%error, "the progress of the scrub is not stored");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_keep_the_rate() {
        for (bytes, took, rate, expected) in [
            (1_000, Duration::ZERO, 1_000, SECOND),
            (1_000, SECOND / 4, 1_000, SECOND * 3 / 4),
            (4 << 20, Duration::ZERO, 1 << 20, SECOND * 4),
            // A read that takes long is followed by as long a pause.
            (1_000, SECOND * 9, 1_000, SECOND * 9),
            (0, Duration::ZERO, 1_000, Duration::ZERO),
            (1, Duration::ZERO, 0, SECOND),
        ] {
            assert_eq!(pause(bytes, took, rate), expected, "{bytes} bytes in {took:?} at {rate}");
        }
        // However the content is divided into reads, a pass takes no less than content by rate.
        let total: Duration = (1..=100).map(|bytes| pause(bytes * 1_000, Duration::ZERO, 50_000)).sum();
        assert_eq!(total, SECOND * 101);
        let late: Duration = [SECOND * 60, Duration::ZERO].iter().map(|took| pause(1_000, *took, 1_000)).sum();
        assert_eq!(late, SECOND * 61, "lost time is not made up for");
    }

    #[test]
    fn passes_are_an_interval_apart() {
        let options = |interval| ScrubOptions { bytes_per_second: 1, interval };
        let at = |seconds: i64| Timestamp(seconds * 1_000_000);
        let hour = options(Some(SECOND * 3_600));
        assert_eq!(wait(hour, at(100), at(100)), Some(SECOND * 3_600));
        assert_eq!(wait(hour, at(100), at(3_699)), Some(SECOND));
        assert_eq!(wait(hour, at(100), at(9_000)), Some(Duration::ZERO));
        assert_eq!(wait(hour, at(100), at(50)), Some(SECOND * 3_600), "the clock was set back");
        assert_eq!(wait(options(None), at(100), at(9_000)), None);
    }
}
