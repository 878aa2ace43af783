//! The request log of a running job, or of the summary of a branch, until the store has it.

use crate::clock::Clock;
use crate::limits;
use crate::model::summary_request::SummaryRequest;
use crate::store::{Claim, Store};
use crate::summarizer::RequestRecord;
use std::sync::{Arc, Mutex, PoisonError};

/// Requests of one attempt that are not stored yet.
pub struct RequestLog {
    clock: Clock,
    attempt: i64,
    requests: Mutex<Vec<SummaryRequest>>,
}

impl RequestLog {
    /// An empty request log for an attempt of a job.
    pub fn new(clock: Clock, attempt: i64) -> Self {
        Self { clock, attempt, requests: Mutex::default() }
    }

    /// Stores the requests of a job. A failure to store them does not fail the compaction: the next call tries again.
    pub(super) async fn store(self: &Arc<Self>, store: &Store, claim: &Claim) {
        let (request_log, store, claim) = (self.clone(), store.clone(), claim.clone());
        // In a task of its own, since the requests of a compaction that is given up meanwhile cost money too.
        let stored = tokio::spawn(async move {
            let mut requests = request_log.take().into_iter();
            while let Some(request) = requests.next() {
                if let Err(error) = store.jobs().add_requests(&claim, vec![request.clone()]).await {
                    tracing::debug!(%error, "a request to a model is not noted yet");
                    request_log.put_back(std::iter::once(request).chain(requests).collect());
                    return;
                }
            }
        });
        if let Err(error) = stored.await {
            tracing::warn!(%error, "the request log was not kept");
        }
    }

    /// Puts back requests that could not be stored.
    fn put_back(&self, mut requests: Vec<SummaryRequest>) {
        let mut noted = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.append(&mut noted);
        *noted = requests;
    }

    /// Takes the requests that were recorded so far.
    pub fn take(&self) -> Vec<SummaryRequest> {
        // The list is consistent at any time, so a poisoned lock does no harm.
        std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records a request that has ended, with or without success.
    pub fn record(&self, call: &RequestRecord) {
        let request = SummaryRequest {
            attempt: self.attempt,
            summarizer: call.summarizer.clone(),
            model: call.model.clone(),
            request_hash: call.request_hash,
            reply_hash: call.reply_hash,
            usage: call.usage,
            cost_micros: call.usage.and_then(|usage| usage.cost_micros()),
            duration_ms: call.duration_ms,
            failure: call.failure.clone(),
            end_time: self.clock.now(),
            texts: call.texts.as_ref().map(|texts| (bounded_text(&texts.request), bounded_text(&texts.reply))),
        };
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    }
}

/// A text up to the stored maximum. The hash stored with it covers the whole text.
fn bounded_text(text: &str) -> String {
    text[..text.floor_char_boundary(limits::RECORDED_TEXT_BYTES_MAX)].to_owned()
}
