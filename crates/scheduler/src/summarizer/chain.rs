//! Several summarizers, in the order in which they are tried.

use super::built_in::Extractive;
use super::observer::Observer;
use super::summary::{Error, Forecast, Gate, Summarizer};
use super::usage_counter::UsageCounter;
use crate::policy::summary::{SummaryInput, SummaryOutput};
use futures::future::{BoxFuture, FutureExt as _};
use std::sync::Arc;

/// Tries summarizers in turn, and the built-in one last, which cannot fail.
///
/// A summarizer that fails permanently is skipped. If one fails transiently and no other succeeds, the chain fails
/// transiently too: its caller can try later, and uses the built-in one if it cannot. To have the built-in one write at
/// once instead, make it a member.
pub struct Chain {
    members: Vec<Arc<dyn Summarizer>>,
}

impl Chain {
    /// Creates a chain; the built-in summarizer need not be a member.
    pub fn new(members: Vec<Arc<dyn Summarizer>>) -> Self {
        Self { members }
    }

    async fn write(&self, input: &SummaryInput, observer: &dyn Observer) -> Result<SummaryOutput, Error> {
        let counter = UsageCounter::new(observer);
        let mut wait: Option<(String, Option<i64>)> = None;
        for member in &self.members {
            match member.summarize(input, &counter).await {
                // The usage includes failed requests of earlier members, which were sent for this summary too.
                Ok(output) => return Ok(SummaryOutput { usage: counter.usage().or(output.usage), ..output }),
                Err(error) => {
                    tracing::warn!(summarizer = member.name(), %error, "a summarizer failed");
                    if let Error::Transient { message, retry_after_ms } = error {
                        let sooner = match &wait {
                            None => true,
                            Some((_, known)) => retry_after_ms.unwrap_or(0) < known.unwrap_or(0),
                        };
                        if sooner {
                            wait = Some((message, retry_after_ms));
                        }
                    }
                }
            }
        }
        if let Some((message, retry_after_ms)) = wait {
            return Err(Error::Transient { message, retry_after_ms });
        }
        let output = Extractive.summarize(input, &counter).await?;
        Ok(SummaryOutput { usage: counter.usage(), ..output })
    }
}

impl Summarizer for Chain {
    fn name(&self) -> &str {
        self.members.first().map_or_else(|| Extractive.name(), |member| member.name())
    }

    fn summarize<'a>(
        &'a self,
        input: &'a SummaryInput,
        observer: &'a dyn Observer,
    ) -> BoxFuture<'a, Result<SummaryOutput, Error>> {
        self.write(input, observer).boxed()
    }

    fn gates(&self) -> Vec<Gate> {
        self.members.iter().flat_map(|member| member.gates()).collect()
    }

    fn forecast(&self, input: &SummaryInput) -> Forecast {
        self.members.first().map_or_else(|| Extractive.forecast(input), |member| member.forecast(input))
    }
}
