//! Answers that come as a stream.

use crate::error::Result;
use tonic::Streaming;

/// The answers of one call, in order.
#[derive(Debug)]
pub struct Stream<A>(Streaming<A>);

impl<A> Stream<A> {
    pub(crate) fn new(answers: Streaming<A>) -> Self {
        Self(answers)
    }

    /// The next answer; none at the end. Nothing is lost if it is not waited for.
    ///
    /// # Errors
    ///
    /// What the call ends with.
    pub async fn next(&mut self) -> Result<Option<A>> {
        Ok(self.0.message().await?)
    }
}
