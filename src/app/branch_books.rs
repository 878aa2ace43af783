//! The books on requests to models for the summary of a branch, which no job keeps.

use crate::model::ids::MessageId;
use crate::scheduler::Books;
use crate::store::{SessionKey, Store};
use crate::summarizer::{Call, Witness};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// Notes every request, and stores what it has when nobody needs it any more: a caller who gives up has had requests sent
/// that may cost.
pub(super) struct BranchBooks {
    books: Books,
    store: Store,
    session: SessionKey,
    /// The summary that they are for, should it ever be written.
    message: MessageId,
}

impl BranchBooks {
    /// Empty books for a summary.
    pub(super) fn new(books: Books, store: Store, session: SessionKey, message: MessageId) -> Self {
        Self { books, store, session, message }
    }

    /// Stores what was noted, before the summary is in force. What cannot be stored is not worth failing a rewind for.
    pub(super) async fn keep(&self) {
        if let Some(storing) = self.storing()
            && let Err(error) = storing.await
        {
            tracing::warn!(%error, "the books on requests to models were not kept");
        }
    }

    /// In a task of its own, which goes on when its caller does not; none when nothing was noted.
    fn storing(&self) -> Option<JoinHandle<()>> {
        let requests = self.books.take();
        if requests.is_empty() {
            return None;
        }
        let (store, session, message) = (self.store.clone(), self.session, self.message);
        // Outside of a runtime there is no store either.
        let runtime = Handle::try_current().ok()?;
        Some(runtime.spawn(async move {
            for request in requests {
                if let Err(error) = store.add_branch_request(session, message, request).await {
                    tracing::warn!(%error, "a request to a model could not be noted");
                }
            }
        }))
    }
}

impl Witness for BranchBooks {
    fn begins(&self, _summarizer: &str) {}

    fn hears(&self, _words: &str) {}

    fn called(&self, call: &Call) {
        self.books.note(call);
    }
}

impl Drop for BranchBooks {
    fn drop(&mut self) {
        drop(self.storing());
    }
}
