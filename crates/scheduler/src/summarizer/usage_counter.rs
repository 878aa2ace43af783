//! Total usage of all requests of one summary, including refused ones.

use super::observer::{Observer, RequestRecord};
use crate::model::usage::Usage;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Forwards everything to another observer, and adds up the usage.
pub(super) struct UsageCounter<'a> {
    inner: &'a dyn Observer,
    sum: Mutex<Sum>,
}

#[derive(Default)]
struct Sum {
    usage: Option<Usage>,
    model: String,
}

impl<'a> UsageCounter<'a> {
    /// Creates counters at zero.
    pub(super) fn new(inner: &'a dyn Observer) -> Self {
        Self { inner, sum: Mutex::default() }
    }

    /// Usage so far; none if no provider reported any.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.sum().usage
    }

    /// The model of the last request.
    pub(super) fn model(&self) -> String {
        self.sum().model.clone()
    }

    /// Locks the sum. A poisoned lock is safe to use: the sum is consistent at any time.
    fn sum(&self) -> MutexGuard<'_, Sum> {
        self.sum.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for UsageCounter<'_> {
    fn on_start(&self, summarizer: &str) {
        self.inner.on_start(summarizer);
    }

    fn on_text(&self, words: &str) {
        self.inner.on_text(words);
    }

    fn on_request(&self, call: &RequestRecord) {
        let mut sum = self.sum();
        call.model.clone_into(&mut sum.model);
        sum.usage = match (sum.usage, call.usage) {
            (Some(so_far), Some(usage)) => Some(so_far.plus(usage)),
            (so_far, usage) => so_far.or(usage),
        };
        drop(sum);
        self.inner.on_request(call);
    }
}
