//! What all requests of one summary cost together, refused ones too.

use super::witness::{Call, Witness};
use crate::model::usage::Usage;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Passes everything on, and adds up.
pub(super) struct Tally<'a> {
    inner: &'a dyn Witness,
    sum: Mutex<Sum>,
}

#[derive(Default)]
struct Sum {
    usage: Option<Usage>,
    model: String,
}

impl<'a> Tally<'a> {
    /// A tally that starts at nothing.
    pub(super) fn new(inner: &'a dyn Witness) -> Self {
        Self { inner, sum: Mutex::default() }
    }

    /// What was spent so far; none where no provider said.
    pub(super) fn usage(&self) -> Option<Usage> {
        self.sum().usage
    }

    /// The model of the last request.
    pub(super) fn model(&self) -> String {
        self.sum().model.clone()
    }

    /// The sum is whole at any time.
    fn sum(&self) -> MutexGuard<'_, Sum> {
        self.sum.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Witness for Tally<'_> {
    fn begins(&self, summarizer: &str) {
        self.inner.begins(summarizer);
    }

    fn hears(&self, words: &str) {
        self.inner.hears(words);
    }

    fn called(&self, call: &Call) {
        let mut sum = self.sum();
        call.model.clone_into(&mut sum.model);
        sum.usage = added(sum.usage, call.usage);
        drop(sum);
        self.inner.called(call);
    }
}

fn added(left: Option<Usage>, right: Option<Usage>) -> Option<Usage> {
    let (Some(a), Some(b)) = (left, right) else { return left.or(right) };
    let total = match (a.total, b.total) {
        (None, None) => None,
        _ => Some(
            a.total.unwrap_or_else(|| a.context_tokens()).saturating_add(b.total.unwrap_or_else(|| b.context_tokens())),
        ),
    };
    let cost_usd = match (a.cost_usd, b.cost_usd) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0.0) + b.unwrap_or(0.0)),
    };
    Some(Usage {
        input: a.input.saturating_add(b.input),
        output: a.output.saturating_add(b.output),
        reasoning: a.reasoning.saturating_add(b.reasoning),
        cache_read: a.cache_read.saturating_add(b.cache_read),
        cache_write: a.cache_write.saturating_add(b.cache_write),
        total,
        cost_usd,
    })
}
