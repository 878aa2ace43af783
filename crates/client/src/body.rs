//! Bodies of answers.

use bytes::Bytes;
use tonic::Status;

/// The message of a body.
pub(crate) fn decode<M: prost::Message + Default>(body: Bytes) -> Result<M, Status> {
    M::decode(body).map_err(|error| Status::internal(format!("the answer is no message of the protocol: {error}")))
}
