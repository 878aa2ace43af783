//! Compactions as clients ask for them and look at them.

use super::checked::CheckedInput;
use super::error::Result;
use super::ledger::compactions::SuppliedSummary;
use super::ledger::head::{PendingWork, Receipt, SessionKey};
use super::ledger::jobs::{self, Condition, EnqueuedJob, WindowUsage};
use super::ledger::requests::{self, AddRequests, Subject};
use super::ledger::tx::Requester;
use super::ledger::{ancestry, by_hand, digests, expand, messages};
use super::shared::StoreParts;
use super::writer::Mutation;
use crate::model::Revision;
use crate::model::compaction::{Compaction, CompactionRequest, RevisionRange};
use crate::model::ids::{CompactionId, MessageId};
use crate::model::message::Message;
use crate::model::summary_request::{Purpose, SummaryRequest};
use crate::model::time::Timestamp;
use std::sync::Arc;

/// Compactions as clients ask for them and look at them.
#[derive(Clone)]
pub struct Compactions(pub(super) Arc<StoreParts>);

impl Compactions {
    /// Requests a compaction. None if the condition is not met. With a time in `confirm_until` people are asked first,
    /// and it begins at that time without an answer.
    pub async fn enqueue(
        &self,
        session: SessionKey,
        caller: Requester,
        request: CheckedInput<CompactionRequest>,
        usage: WindowUsage,
        condition: Condition,
        confirm_until: Option<Timestamp>,
    ) -> Result<Option<EnqueuedJob>> {
        let (request, caller) = request.with_author(caller);
        let enqueue = jobs::Enqueue { session, caller, request, usage, condition, confirm_until };
        self.0.write(Mutation::change("enqueue"), move |tx| enqueue.apply(tx)).await
    }

    /// Confirms a compaction that waits for it, so that it may begin.
    pub async fn confirm(&self, id: CompactionId, caller: Requester) -> Result<()> {
        self.0.write(Mutation::change("confirm"), move |tx| by_hand::confirm(tx, id, &caller)).await
    }

    /// Ends the wait of a compaction for its next attempt; an error if it has ended.
    pub async fn expedite(&self, id: CompactionId, caller: Requester) -> Result<()> {
        self.0.write(Mutation::change("expedite"), move |tx| by_hand::expedite(tx, id, &caller)).await
    }

    /// Cancels a compaction.
    pub async fn cancel(&self, id: CompactionId, caller: Requester) -> Result<()> {
        self.0.write(Mutation::change("cancel"), move |tx| by_hand::cancel(tx, id, &caller)).await
    }

    /// Commits a finished summary. The receipt's id is the compaction's. None if another compaction was committed since the
    /// view was read.
    pub async fn supply(&self, supply: CheckedInput<SuppliedSummary>) -> Result<Option<Receipt>> {
        let caller = supply.caller.clone();
        let (supply, caller) = supply.with_author(caller);
        let supply = SuppliedSummary { caller, ..supply };
        self.0.write(Mutation::change("supply"), move |tx| supply.apply(tx)).await
    }

    /// A compaction by its id, with its requests to models, but without their texts.
    pub async fn get(&self, id: CompactionId) -> Result<Compaction> {
        self.0
            .reading(|reader| {
                let job = jobs::by_id(reader, id)?;
                let requests = requests::of_jobs(reader, job.session, job.row, job.row)?;
                let requests = requests.into_iter().map(|(_, request)| request).collect();
                Ok(Compaction { requests, ..job.compaction })
            })
            .await
    }

    /// A page of a session's compactions, newest first, each with the number after which the next page continues.
    pub async fn list(&self, session: SessionKey, below: Option<i64>, limit: i64) -> Result<Vec<(i64, Compaction)>> {
        self.0
            .reading(|reader| {
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

    /// The compaction of a session that waits or runs.
    pub async fn current(&self, session: SessionKey) -> Result<Option<CompactionId>> {
        self.0.brief(|reader| jobs::current(reader, session.0)).await
    }

    /// Pending work that may still change a session's view.
    pub async fn pending(&self, session: SessionKey) -> Result<PendingWork> {
        Ok(self.0.brief(|reader| jobs::pending(reader, session.0)).await?.0)
    }

    /// A page of the messages that a compaction of a history covers, omits or shortens, from a revision on, and the
    /// beginning of the next page. An undo of the compaction makes no difference.
    pub async fn taken_by(
        &self,
        session: SessionKey,
        id: CompactionId,
        from: Revision,
        limit: i64,
    ) -> Result<(Vec<Message>, Option<Revision>)> {
        self.0
            .snapshot(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                let ranges = expand::taken_by(reader, &ancestry, id)?;
                messages::page_of_ranges(reader, &ancestry, &ranges, from, (limit, false))
            })
            .await
    }

    /// The digest of what the summary of a compaction covers, unless it has to be made from the originals.
    pub async fn digest(&self, id: CompactionId) -> Result<Option<String>> {
        self.0.reading(|reader| digests::read(reader, id)).await
    }

    /// A page of the messages in ranges of a history, with derived ones, from a revision on, and the beginning of the next
    /// page.
    pub async fn originals(
        &self,
        session: SessionKey,
        ranges: &[RevisionRange],
        from: Revision,
        limit: i64,
    ) -> Result<(Vec<Message>, Option<Revision>)> {
        self.0
            .snapshot(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                messages::page_of_ranges(reader, &ancestry, ranges, from, (limit, true))
            })
            .await
    }

    /// The compaction that wrote a summary or a marker, by the revision of that message.
    pub async fn of_derived(&self, session: SessionKey, derived: Revision) -> Result<Option<CompactionId>> {
        self.0
            .reading(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                expand::compaction_of(reader, &ancestry, derived)
            })
            .await
    }

    /// The compactions that made these marks, in their order; none for a mark of another kind.
    pub async fn at_marks(&self, session: SessionKey, marks: &[Revision]) -> Result<Vec<Option<CompactionId>>> {
        self.0
            .reading(|reader| {
                let ancestry = ancestry::by_key(reader, session.0)?;
                let mut compactions = Vec::with_capacity(marks.len());
                for mark in marks {
                    compactions.push(expand::compaction_at(reader, &ancestry, *mark)?);
                }
                Ok(compactions)
            })
            .await
    }

    /// One of the requests for a compaction, by its number from 1, with its texts; none if there are fewer.
    pub async fn request(&self, id: CompactionId, number: i64) -> Result<Option<SummaryRequest>> {
        self.0
            .reading(|reader| {
                let job = jobs::by_id(reader, id)?;
                requests::with_texts(reader, job.session, job.row, number)
            })
            .await
    }

    /// A page of a session's requests to models, newest first, each with the number after which the next page
    /// continues, and its purpose; with their texts only if `with_texts` is set.
    pub async fn requests(
        &self,
        session: SessionKey,
        below: Option<i64>,
        limit: i64,
        with_texts: bool,
    ) -> Result<Vec<(i64, Purpose, SummaryRequest)>> {
        self.0.reading(|reader| requests::of_session(reader, session.0, below, limit, with_texts)).await
    }

    /// Records a request to a model for the summary of a branch, whatever its result.
    pub async fn add_branch_request(
        &self,
        session: SessionKey,
        message: MessageId,
        request: SummaryRequest,
    ) -> Result<()> {
        let add = AddRequests { session, subject: Subject::Branch(message), requests: vec![request] };
        self.0.write(Mutation::derived("add_requests", add.bytes()), move |tx| add.apply(tx)).await
    }
}
