//! The end of an attack on several daemons: the server of their database is lost, and its standby lacks the commits that were
//! acknowledged last. No promise about them can be kept; but nobody is served what is left as if it were all.

use super::log::Log;
use super::record::lock;
use super::rounds::{Attack, join};
use super::stores::store_of;
use super::{checks, writers};
use anyhow::{Result, bail};
use longhand::pb;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Answers to writers whose commits the standby lacks, and answers behind the loss.
const ANSWERS: u64 = 400;
/// Maximum time for them.
const WRITING_TIME_MAX: Duration = Duration::from_secs(60);

impl Attack {
    /// A store that lacks acknowledged events has another identity, in which what is left is as it was and cursors from before
    /// are refused; under its own identity a store lacks nothing.
    pub(super) async fn lose_commits(&mut self) -> Result<()> {
        if self.fleet.is_none() {
            return Ok(());
        }
        self.make_sessions().await;
        self.write("early").await;
        let Some(fleet) = &self.fleet else { return Ok(()) };
        let standby = fleet.leave_behind().await?;
        self.write("last").await;
        let mut client = self.client("survivor");
        self.log.follow(&mut client).await;
        let Some(cursor) = self.log.events.last().map(|event| event.cursor.clone()) else {
            bail!("nothing was written")
        };
        self.shared.service.expect_failures();
        if let Some(fleet) = &mut self.fleet {
            fleet.promote(standby).await?;
        }
        self.shared.service.expect_failures();

        let mut left = Log::default();
        left.follow(&mut client).await;
        self.compare(&left);
        let lost: Vec<i64> =
            self.log.events.iter().map(|event| event.seq).filter(|seq| left.at(*seq).is_none()).collect();
        let renewed: BTreeSet<i64> = lost.iter().map(|seq| store_of(*seq)).collect();
        let missing = self.log.events.len().saturating_sub(left.events.len());
        println!("a standby lacked {missing} events; {} stores have a new identity", renewed.len());
        if missing == 0 || renewed.is_empty() {
            client.finding("the checker itself failed: the standby lacked nothing");
        }
        let request = pb::ListEventsRequest { after_cursor: cursor, ..Default::default() };
        match client.ask(&request).await {
            Err(refusal) if ["CURSOR_FOREIGN", "CURSOR_OUT_OF_RANGE"].contains(&refusal.reason.as_str()) => {}
            answer => client.finding(format!("P6: a cursor of stores that are lost is answered with {answer:?}")),
        }

        // They are stores as any others.
        left.skip(&self.shared.record);
        self.report.rounds += 1;
        self.make_sessions().await;
        self.write("later").await;
        self.settle().await;
        left.follow(&mut client).await;
        left.check_requests(&self.shared.record);
        let sessions = lock(&self.shared.sessions).clone();
        for session in sessions {
            checks::session(&mut client, &left, &session.id).await;
        }
        checks::chain(&mut client, None).await;
        Ok(())
    }

    /// Compares what is left with what there was.
    fn compare(&self, left: &Log) {
        let record = &self.shared.record;
        if let Some(store) = left.heads.behind(&self.log.heads) {
            record.finding(format!("P1: store {store} lacks acknowledged events under its own identity"));
        }
        let placeless = |event: &pb::Event| pb::Event { seq: 0, cursor: String::new(), ..event.clone() };
        for session in left.sessions.keys() {
            let before = self.log.own_events(session).map(placeless);
            for (before, now) in before.zip(left.own_events(session).map(placeless)) {
                if !self.log.is_same(&before, &now) {
                    // What daemons do by themselves goes on without what is lost.
                    if !now.actor.is_empty() {
                        record.finding(format!("P2: behind a loss there is {now:?} in place of {before:?}"));
                    }
                    break;
                }
            }
        }
    }

    /// Has writers write for a while.
    async fn write(&mut self, name: &str) {
        self.shared.stopping.store(false, Ordering::SeqCst);
        let mut clients = JoinSet::new();
        for index in 0..self.options.writers {
            clients.spawn(writers::run(self.client(&format!("{name}{index}")), self.options.pause_ms));
        }
        let answered = || self.shared.record.counts.answered.load(Ordering::Relaxed);
        let (began, last) = (Instant::now(), answered() + ANSWERS);
        while answered() < last && began.elapsed() < WRITING_TIME_MAX {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.shared.stopping.store(true, Ordering::SeqCst);
        join(&self.shared.record, "writers at the end", &mut clients).await;
    }
}
