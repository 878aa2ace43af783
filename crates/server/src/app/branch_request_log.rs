//! The request log for the summary of a branch, which belongs to no job.

use crate::model::ids::MessageId;
use crate::scheduler::RequestLog;
use crate::store::{SessionKey, Store};
use crate::summarizer::{Observer, RequestRecord};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// Records every request, and stores the records when it is dropped at the latest: requests of a caller that gives up
/// may cost money too.
pub(super) struct BranchRequestLog {
    request_log: RequestLog,
    store: Store,
    session: SessionKey,
    /// The id of the message for which they are made; the message exists only if the rewind is made.
    message: MessageId,
}

impl BranchRequestLog {
    /// An empty request log for a summary.
    pub(super) fn new(request_log: RequestLog, store: Store, session: SessionKey, message: MessageId) -> Self {
        Self { request_log, store, session, message }
    }

    /// Stores the records, before the summary becomes active. A failure to store them does not fail the rewind.
    pub(super) async fn keep(&self) {
        if let Some(storing) = self.store_records()
            && let Err(error) = storing.await
        {
            tracing::warn!(%error, "the request log was not kept");
        }
    }

    /// Stores the records in a task of its own, which goes on if the caller ends; none if there are no records.
    fn store_records(&self) -> Option<JoinHandle<()>> {
        let requests = self.request_log.take();
        if requests.is_empty() {
            return None;
        }
        let (store, session, message) = (self.store.clone(), self.session, self.message);
        // Without a runtime there is no store either.
        let runtime = Handle::try_current().ok()?;
        Some(runtime.spawn(async move {
            for request in requests {
                if let Err(error) = store.compactions().add_branch_request(session, message, request).await {
                    tracing::warn!(%error, "a request to a model could not be noted");
                }
            }
        }))
    }
}

impl Observer for BranchRequestLog {
    fn on_start(&self, _summarizer: &str) {}

    fn on_text(&self, _words: &str) {}

    fn on_request(&self, call: &RequestRecord) {
        self.request_log.record(call);
    }
}

impl Drop for BranchRequestLog {
    fn drop(&mut self) {
        drop(self.store_records());
    }
}
