//! The store as those see it who reduce: due marks, jobs, claims, what comes of them, and the books on requests.

use super::*;

impl Store {
    /// Asks for a reduction. None when the condition does not hold. With a time in `confirm_until` somebody is asked
    /// first, and it begins at that time without an answer.
    pub async fn enqueue(
        &self,
        session: SessionKey,
        caller: Caller,
        request: CompactionRequest,
        usage: WindowUsage,
        condition: Condition,
        confirm_until: Option<Timestamp>,
    ) -> Result<Option<Enqueued>> {
        let command = jobs::Enqueue { session, caller, request, usage, condition, confirm_until };
        match self.shared.writer.send(Command::Enqueue(command)).await? {
            Reply::Enqueued(enqueued) => Ok(enqueued),
            _ => unexpected(),
        }
    }

    /// Claims a job; none when somebody was faster.
    pub async fn claim(&self, job: i64, owner: Uuid, until: Timestamp) -> Result<Option<Claim>> {
        match self.shared.writer.send(Command::Claim(job, owner, until)).await? {
            Reply::Claim(claim) => Ok(claim.map(|claim| *claim)),
            _ => unexpected(),
        }
    }

    /// The claim that a daemon which is gone held on a job.
    pub async fn lost_claim(&self, job: i64) -> Result<Claim> {
        match self.shared.writer.send(Command::LostClaim(job)).await? {
            Reply::Claim(Some(claim)) => Ok(*claim),
            _ => unexpected(),
        }
    }

    /// Keeps a claim alive.
    pub async fn heartbeat(&self, claim: Claim, until: Timestamp) -> Result<()> {
        self.done(Command::Heartbeat(claim, until)).await
    }

    /// Notes what the holder of a claim is about to have summarized: whoever changes it ends the job at once, and the claim
    /// says so. An error if the claim is gone.
    pub async fn plan(&self, claim: Claim, planned: Planned) -> Result<()> {
        self.done(Command::Plan(claim, planned)).await
    }

    /// Puts a reduction in force.
    pub async fn commit(&self, commit: Commit) -> Result<Committed> {
        match self.shared.writer.send(Command::Commit(Box::new(commit))).await? {
            Reply::Committed(committed) => Ok(committed),
            _ => unexpected(),
        }
    }

    /// Puts a job back for another attempt, at this time.
    pub async fn retry_job(&self, claim: Claim, failure: Failure, at: Timestamp, loss: Loss) -> Result<()> {
        self.done(Command::End(jobs::EndJob { claim, end: jobs::End::Retry(failure, at, loss) })).await
    }

    /// Ends a job that no other attempt would help; `dead` when it was tried as often as is allowed.
    pub async fn fail_job(&self, claim: Claim, failure: Failure, dead: bool) -> Result<()> {
        let end = if dead { jobs::End::Dead(failure) } else { jobs::End::Failed(failure) };
        self.done(Command::End(jobs::EndJob { claim, end })).await
    }

    /// Ends a job that had nothing to do after all.
    pub async fn nothing_to_do(&self, claim: Claim, failure: Failure) -> Result<()> {
        self.done(Command::End(jobs::EndJob { claim, end: jobs::End::Nothing(failure) })).await
    }

    /// Lets a reduction begin that waits for somebody to agree.
    pub async fn confirm(&self, id: CompactionId) -> Result<()> {
        self.done(Command::Confirm(id)).await
    }

    /// Ends the wait of a reduction for its next attempt; an error if it has ended.
    pub async fn hurry(&self, id: CompactionId, caller: Caller) -> Result<()> {
        self.done(Command::Hurry(id, caller)).await
    }

    /// Stops a reduction.
    pub async fn cancel(&self, id: CompactionId, caller: Caller) -> Result<()> {
        self.done(Command::Cancel(id, caller)).await
    }

    /// Puts a finished summary in force. The receipt's id is the reduction's.
    pub async fn supply(&self, supply: SuppliedSummary) -> Result<Receipt> {
        let SuppliedSummary {
            session,
            caller,
            expected_revision,
            summary,
            boundary_is_safe,
            until,
            measured_at,
            tokens_before,
            tokens_after,
        } = supply;
        let command = reductions::Supply {
            session,
            caller,
            expected_revision,
            summary,
            boundary_is_safe,
            until,
            tokens_before,
            tokens_after,
            measured_at,
        };
        self.receipt(Command::Supply(Box::new(command))).await
    }

    /// The rows that guards of a session follow from, beside its view.
    pub async fn guard_rows(&self, session: SessionKey) -> Result<GuardRows> {
        self.snapshot(async |reader| jobs::guard_rows(reader, session.0).await).await
    }

    /// Clears a session's due mark and takes over what was measured.
    pub async fn evaluated(&self, session: SessionKey, evaluation: Evaluation) -> Result<()> {
        self.done(Command::Evaluated(session, evaluation)).await
    }

    /// The reduction of a session that waits or runs.
    pub async fn live_compaction(&self, session: SessionKey) -> Result<Option<CompactionId>> {
        self.reading(async |reader| jobs::live(reader, session.0).await).await
    }

    /// What may still change a session's view without anybody's doing.
    pub async fn pending(&self, session: SessionKey) -> Result<Pending> {
        self.reading(async |reader| Ok(jobs::pending(reader, session.0).await?.0)).await
    }

    /// Sessions whose due mark is set.
    pub async fn due_sessions(&self, limit: i64) -> Result<Vec<SessionKey>> {
        self.reading(async |reader| jobs::due(reader, limit).await).await
    }

    /// Jobs whose time has come.
    pub async fn ready_jobs(&self, now: Timestamp, limit: i64) -> Result<Vec<(i64, SessionKey)>> {
        self.reading(async |reader| jobs::ready(reader, now, limit).await).await
    }

    /// The earliest wake time of a session, or the time at which an open message expires before that.
    pub async fn next_wake(&self) -> Result<Option<Timestamp>> {
        self.reading(async |reader| jobs::next_wake(reader).await).await
    }

    /// Sets the due mark of sessions whose wake time has come, and seals messages that have expired.
    pub async fn wake(&self) -> Result<()> {
        self.done(Command::Wake).await?;
        // By itself: a message that cannot be sealed keeps no session from its wake time.
        self.done(Command::Expire).await
    }

    /// When the next job is to run.
    pub async fn next_run(&self) -> Result<Option<Timestamp>> {
        self.reading(async |reader| jobs::next_run(reader).await).await
    }

    /// Jobs that somebody holds, and until when.
    pub async fn running_jobs(&self) -> Result<Vec<(i64, Timestamp)>> {
        self.reading(async |reader| jobs::running(reader).await).await
    }

    /// True where no session waits for a decision, and no job waits or runs: nothing will happen without anybody's doing,
    /// for now.
    pub async fn is_idle(&self) -> Result<bool> {
        self.reading(async |reader| jobs::is_idle(reader).await).await
    }

    /// How many jobs wait, and how many run.
    pub async fn job_counts(&self) -> Result<(i64, i64)> {
        self.reading(async |reader| jobs::counts(reader).await).await
    }

    /// A reduction by its id, with the requests that were made for it, but without their texts.
    pub async fn compaction(&self, id: CompactionId) -> Result<Compaction> {
        self.reading(async |reader| {
            let job = jobs::by_id(reader, id).await?;
            let requests = requests::of_jobs(reader, job.session, job.row, job.row).await?;
            let requests = requests.into_iter().map(|(_, request)| request).collect();
            Ok(Compaction { requests, ..job.compaction })
        })
        .await
    }

    /// A page of a session's reductions, newest first, each with the number that continues behind it.
    pub async fn compactions(&self, session: SessionKey, below: i64, limit: i64) -> Result<Vec<(i64, Compaction)>> {
        self.reading(async |reader| {
            let mut page = jobs::of_session(reader, session.0, below, limit).await?;
            if let (Some((last, _)), Some((first, _))) = (page.first(), page.last()) {
                for (row, request) in requests::of_jobs(reader, session.0, *first, *last).await? {
                    let job = page.iter_mut().find(|(job, _)| *job == row);
                    job.into_iter().for_each(|(_, compaction)| compaction.requests.push(request.clone()));
                }
            }
            Ok(page)
        })
        .await
    }
}
