//! Answers that come as a stream.

use crate::body;
use crate::error::Result;
use bytes::Bytes;
use std::marker::PhantomData;
use tonic::Streaming;

/// The answers of one call, in order.
#[derive(Debug)]
pub struct Stream<A> {
    bodies: Streaming<Bytes>,
    answers: PhantomData<fn() -> A>,
}

impl<A: prost::Message + Default> Stream<A> {
    pub(crate) fn new(bodies: Streaming<Bytes>) -> Self {
        Self { bodies, answers: PhantomData }
    }

    /// The next answer; none at the end. Nothing is lost if it is not waited for.
    ///
    /// # Errors
    ///
    /// What the call ends with.
    pub async fn next(&mut self) -> Result<Option<A>> {
        Ok(self.bodies.message().await?.map(body::decode).transpose()?)
    }
}
