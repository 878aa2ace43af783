//! The generated protocol types of `longhand.v1`, documented by the comments in `proto/`, the calls by their requests, the
//! reasons of errors, the codec that bounds what a request grows to, and frames of events that streams share.

pub mod call;
pub mod codec;
pub mod measure;
pub mod reason;
pub mod shared;

use flate2::read::GzDecoder;
use prost_reflect::DescriptorPool;
use std::io::Read as _;
use std::sync::LazyLock;

#[expect(
    clippy::allow_attributes,
    clippy::too_many_lines,
    clippy::large_enum_variant,
    reason = "the generator's business, not ours"
)]
mod generated {
    tonic::include_proto!("longhand.v1");
}

pub use generated::*;

/// The compiled protos with their comments, for reflection and for the JSON mapping.
pub static DESCRIPTORS: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let packed = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.gz"));
    let mut encoded = Vec::new();
    GzDecoder::new(&packed[..]).read_to_end(&mut encoded).expect("the build packed them");
    DescriptorPool::decode(&*encoded).expect("the build compiled them")
});

/// The header with the caller's name for itself: printable ASCII, up to 128 bytes.
pub const ACTOR_HEADER: &str = "longhand-actor";

/// The header with the tenant in which an operator acts: printable ASCII, up to 128 bytes; empty for the default tenant.
pub const TENANT_HEADER: &str = "longhand-tenant";

/// The header with the number of the run on whose behalf a call is made.
pub const RUN_EPOCH_HEADER: &str = "longhand-run-epoch";
