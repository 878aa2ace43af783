//! The books on the requests of the job in hand, or of the summary of a branch, until the store has them.

use crate::clock::Clock;
use crate::limits;
use crate::model::summary_request::SummaryRequest;
use crate::summarizer::Call;
use std::sync::{Mutex, PoisonError};

/// Requests of one attempt that are not stored yet.
pub struct Books {
    clock: Clock,
    attempt: i64,
    requests: Mutex<Vec<SummaryRequest>>,
}

impl Books {
    /// Empty books for an attempt of a job.
    pub fn new(clock: Clock, attempt: i64) -> Self {
        Self { clock, attempt, requests: Mutex::default() }
    }

    /// Puts back what could not be stored.
    pub fn put_back(&self, mut requests: Vec<SummaryRequest>) {
        let mut noted = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.append(&mut noted);
        *noted = requests;
    }

    /// Takes out what was noted so far.
    pub fn take(&self) -> Vec<SummaryRequest> {
        // The list is whole at any time.
        std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes a request that has ended, well or not.
    pub fn note(&self, call: &Call) {
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
            texts: call.texts.as_ref().map(|texts| (bounded(&texts.request), bounded(&texts.reply))),
        };
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    }
}

/// A text, no longer than is kept. The hash beside it is that of the whole.
fn bounded(text: &str) -> String {
    text[..text.floor_char_boundary(limits::RECORDED_TEXT_BYTES_MAX)].to_owned()
}
