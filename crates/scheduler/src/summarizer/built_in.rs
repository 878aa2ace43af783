//! The built-in summarizer as a [`Summarizer`].

use super::observer::Observer;
use super::summary::{Error, Summarizer};
use crate::background;
use crate::policy::summary::{SummaryInput, SummaryOutput};
use futures::future::{BoxFuture, FutureExt};
use longhand_extractive::{self as extractive, Covered};

/// Writes summaries from the history's own text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extractive;

impl Summarizer for Extractive {
    fn name(&self) -> &str {
        extractive::NAME
    }

    fn summarize<'a>(
        &'a self,
        input: &'a SummaryInput,
        observer: &'a dyn Observer,
    ) -> BoxFuture<'a, Result<SummaryOutput, Error>> {
        observer.on_start(extractive::NAME);
        let write = || Covered::new(input).write();
        async move { Ok(SummaryOutput::new(background::compute(write), self.name())) }.boxed()
    }
}
