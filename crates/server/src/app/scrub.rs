//! The scrub, at the request of an operator.

use super::error::{Error, Result};
use super::nouns::Daemon;
use crate::limits;
use crate::store::{CheckedChains, Finding, Store};
pub use crate::store::{ScrubOptions, ScrubState};
use std::time::Duration;
use tokio::sync::mpsc;

/// A piece of a scrub's result.
#[derive(Debug, Clone)]
pub enum ScrubItem {
    /// A row or an event was altered, dropped or inserted.
    Finding(Finding),
    /// The progress; some of it is left out.
    Progress(ScrubState),
    /// The pass is complete. Comes last, once.
    End(CheckedChains),
}

impl Daemon<'_> {
    /// Begins a pass of the scrub unless one runs, and follows it; the receiver gets its findings and its progress, and
    /// its end last. The pass goes on if the caller leaves.
    ///
    /// # Errors
    ///
    /// `SCOPE_MISSING` unless the caller is an operator.
    pub fn follow_scrub(self) -> Result<mpsc::Receiver<Result<ScrubItem>>> {
        self.caller.require_operator()?;
        let (items, receiver) = mpsc::channel(limits::CHECK_QUEUE_MAX);
        let (store, stopping) = (self.caller.store().clone(), self.caller.shared.stopping.clone());
        tokio::spawn(async move {
            let followed = tokio::select! {
                () = stopping.cancelled() => Err(Error::stopping()),
                () = items.closed() => return,
                followed = follow(&store, &items) => followed,
            };
            drop(items.send(followed.map(ScrubItem::End)).await);
        });
        Ok(receiver)
    }
}

/// Follows the running pass, or the next one, to its end.
async fn follow(store: &Store, items: &mpsc::Sender<Result<ScrubItem>>) -> Result<CheckedChains> {
    let mut states = store.upkeep().scrub_state();
    let pass = {
        let now = states.borrow();
        if now.running { now.pass } else { now.pass + 1 }
    };
    if states.borrow().pass < pass {
        store.upkeep().request_scrub();
    }
    let mut sent = 0;
    let mut checked = CheckedChains::default();
    loop {
        let now = states.wait_for(|now| now.pass >= pass).await.map_err(Error::internal)?.clone();
        if now.pass > pass {
            return Ok(CheckedChains { findings: now.last_findings, ..checked });
        }
        checked = now.checked;
        for finding in &now.findings[sent..] {
            drop(items.send(Ok(ScrubItem::Finding(finding.clone()))).await);
        }
        sent = now.findings.len();
        if !now.running {
            return Ok(checked);
        }
        drop(items.try_send(Ok(ScrubItem::Progress(now))));
        tokio::time::sleep(Duration::from_millis(limits::SCRUB_PROGRESS_MS)).await;
        states.changed().await.map_err(Error::internal)?;
    }
}
