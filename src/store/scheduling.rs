//! The store's interface for compactions: due marks, jobs, claims, results, and the request log.

use super::*;

impl Store {
    /// Requests a compaction. None if the condition is not met. With a time in `confirm_until` people are asked first,
    /// and it begins at that time without an answer.
    pub async fn enqueue(
        &self,
        session: SessionKey,
        caller: Requester,
        request: CompactionRequest,
        usage: WindowUsage,
        condition: Condition,
        confirm_until: Option<Timestamp>,
    ) -> Result<Option<Enqueued>> {
        let enqueue = jobs::Enqueue { session, caller, request, usage, condition, confirm_until };
        self.write(Mutation::change("enqueue"), move |tx| enqueue.clone().apply(tx)).await
    }

    /// Claims a job; none if another worker was faster.
    pub async fn claim(&self, job: i64, owner: Uuid, until: Timestamp) -> Result<Option<Claim>> {
        self.write(Mutation::change("claim"), move |tx| claiming::claim(tx, job, owner, until)).await
    }

    /// The claim of a stopped daemon on a job.
    pub async fn lost_claim(&self, job: i64) -> Result<Claim> {
        self.write(Mutation::change("lost_claim"), move |tx| claiming::lost_claim(tx, job)).await
    }

    /// Keeps a claim alive.
    pub async fn heartbeat(&self, claim: Claim, until: Timestamp) -> Result<()> {
        self.write(Mutation::change("heartbeat"), move |tx| claiming::heartbeat(tx, &claim, until)).await
    }

    /// Records the range that the holder of a claim is about to have summarized: a change of it ends the job at once,
    /// and notifies the holder. An error if the claim is lost.
    pub async fn plan(&self, claim: Claim, planned: Planned) -> Result<()> {
        self.write(Mutation::change("plan"), move |tx| claiming::plan(tx, &claim, planned.clone())).await
    }

    /// Commits a compaction.
    pub async fn commit(&self, commit: Commit) -> Result<Committed> {
        self.write(Mutation::change("commit"), move |tx| commit.clone().apply(tx)).await
    }

    async fn end_job(&self, claim: Claim, end: jobs::End) -> Result<()> {
        let end = jobs::EndJob { claim, end };
        self.write(Mutation::change("end"), move |tx| end.clone().apply(tx)).await
    }

    /// Returns a job to the queue for another attempt, at this time.
    pub async fn retry_job(&self, claim: Claim, failure: Failure, at: Timestamp, loss: AttemptEnd) -> Result<()> {
        self.end_job(claim, jobs::End::Retry(failure, at, loss)).await
    }

    /// Ends a job that another attempt would not help; `dead` if it reached the maximum number of attempts.
    pub async fn fail_job(&self, claim: Claim, failure: Failure, dead: bool) -> Result<()> {
        let end = if dead { jobs::End::Dead(failure) } else { jobs::End::Failed(failure) };
        self.end_job(claim, end).await
    }

    /// Ends a job that had nothing to do.
    pub async fn end_without_work(&self, claim: Claim, failure: Failure) -> Result<()> {
        self.end_job(claim, jobs::End::Nothing(failure)).await
    }

    /// Confirms a compaction that waits for it, so that it may begin.
    pub async fn confirm(&self, id: CompactionId) -> Result<()> {
        self.write(Mutation::change("confirm"), move |tx| by_hand::confirm(tx, id)).await
    }

    /// Ends the wait of a compaction for its next attempt; an error if it has ended.
    pub async fn expedite(&self, id: CompactionId, caller: Requester) -> Result<()> {
        self.write(Mutation::change("expedite"), move |tx| by_hand::expedite(tx, id, &caller)).await
    }

    /// Cancels a compaction.
    pub async fn cancel(&self, id: CompactionId, caller: Requester) -> Result<()> {
        self.write(Mutation::change("cancel"), move |tx| by_hand::cancel(tx, id, &caller)).await
    }

    /// Commits a finished summary. The receipt's id is the compaction's.
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
        let supply = compactions::Supply {
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
        self.write(Mutation::change("supply"), move |tx| supply.clone().apply(tx)).await
    }

    /// The rows from which a session's guards follow, besides its view.
    pub async fn guard_rows(&self, session: SessionKey) -> Result<GuardRows> {
        self.snapshot(|reader| jobs::guard_rows(reader, session.0)).await
    }

    /// Clears a session's due mark and stores the result of its evaluation.
    pub async fn evaluated(&self, session: SessionKey, evaluation: Evaluation) -> Result<()> {
        self.write(Mutation::change("evaluated"), move |tx| jobs::evaluated(tx, session, evaluation)).await
    }

    /// The compaction of a session that waits or runs.
    pub async fn current_compaction(&self, session: SessionKey) -> Result<Option<CompactionId>> {
        self.brief(|reader| jobs::current(reader, session.0)).await
    }

    /// Pending work that may still change a session's view.
    pub async fn pending(&self, session: SessionKey) -> Result<Pending> {
        self.brief(|reader| Ok(jobs::pending(reader, session.0)?.0)).await
    }

    /// Sessions whose due mark is set.
    pub async fn due_sessions(&self, limit: i64) -> Result<Vec<SessionKey>> {
        self.brief(|reader| jobs::due(reader, limit)).await
    }

    /// Jobs whose time has come.
    pub async fn ready_jobs(&self, now: Timestamp, limit: i64) -> Result<Vec<(i64, SessionKey)>> {
        self.brief(|reader| jobs::ready(reader, now, limit)).await
    }

    /// The earliest wake time of a session, or the time at which an open message expires before that.
    pub async fn next_wake(&self) -> Result<Option<Timestamp>> {
        self.brief(jobs::next_wake).await
    }

    /// Sets the due mark of sessions whose wake time has come, and seals messages that have expired.
    pub async fn wake(&self) -> Result<()> {
        self.write(Mutation::change("wake"), jobs::wake).await?;
        // A mutation of its own: a message that cannot be sealed keeps no session from its wake time.
        self.write(Mutation::change("expire"), expiry::expire).await
    }

    /// The time at which the next job is to run.
    pub async fn next_run(&self) -> Result<Option<Timestamp>> {
        self.brief(jobs::next_run).await
    }

    /// Jobs that workers hold, and the ends of their leases.
    pub async fn running_jobs(&self) -> Result<Vec<(i64, Timestamp)>> {
        self.brief(jobs::running).await
    }

    /// True if no session waits for a decision, and no job waits or runs: without new input, nothing will happen for
    /// now.
    pub async fn is_idle(&self) -> Result<bool> {
        self.brief(jobs::is_idle).await
    }

    /// The number of waiting jobs, and of running ones.
    pub async fn job_counts(&self) -> Result<(i64, i64)> {
        self.brief(jobs::counts).await
    }

    /// A compaction by its id, with its requests to models, but without their texts.
    pub async fn compaction(&self, id: CompactionId) -> Result<Compaction> {
        self.reading(|reader| {
            let job = jobs::by_id(reader, id)?;
            let requests = requests::of_jobs(reader, job.session, job.row, job.row)?;
            let requests = requests.into_iter().map(|(_, request)| request).collect();
            Ok(Compaction { requests, ..job.compaction })
        })
        .await
    }

    /// A page of a session's compactions, newest first, each with the number after which the next page continues.
    pub async fn compactions(&self, session: SessionKey, below: i64, limit: i64) -> Result<Vec<(i64, Compaction)>> {
        self.reading(|reader| {
            let mut page = jobs::of_session(reader, session.0, below, limit)?;
            if let (Some((last, _)), Some((first, _))) = (page.first(), page.last()) {
                for (row, request) in requests::of_jobs(reader, session.0, *first, *last)? {
                    let job = page.iter_mut().find(|(job, _)| *job == row);
                    job.into_iter().for_each(|(_, compaction)| compaction.requests.push(request.clone()));
                }
            }
            Ok(page)
        })
        .await
    }
}
