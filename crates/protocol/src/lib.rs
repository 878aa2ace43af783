//! The generated protocol types of `longhand.v1`, documented by the comments in `proto/`, and the codec that bounds what a
//! request grows to.

pub mod codec;
mod convert;
pub mod measure;
pub mod scopes;

#[expect(
    clippy::allow_attributes,
    clippy::too_many_lines,
    clippy::large_enum_variant,
    reason = "the generator's business, not ours"
)]
mod generated {
    tonic::include_proto!("longhand.v1");
}

use longhand_model::time::Timestamp;

pub use generated::*;

/// The compiled protos, for reflection and for the JSON mapping.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/longhand_descriptor.bin"));

/// The header with the caller's name for itself: printable ASCII, up to 128 bytes.
pub const ACTOR_HEADER: &str = "longhand-actor";

/// The header with the tenant in which an operator acts: printable ASCII, up to 128 bytes; empty for the default tenant.
pub const TENANT_HEADER: &str = "longhand-tenant";

/// The header with the number of the run on whose behalf a call is made.
pub const RUN_EPOCH_HEADER: &str = "longhand-run-epoch";

/// Microseconds per second.
const MICROS: i64 = 1_000_000;

/// A time on the wire.
pub fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    let nanos = i32::try_from(time.0.rem_euclid(MICROS) * 1_000).unwrap_or_default();
    prost_types::Timestamp { seconds: time.0.div_euclid(MICROS), nanos }
}
