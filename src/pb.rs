//! The generated protocol types of `longhand.v1`, documented by the comments in `proto/`.

mod convert;

#[expect(clippy::too_many_lines, clippy::large_enum_variant, reason = "the generator's business, not ours")]
mod generated {
    tonic::include_proto!("longhand.v1");
}

pub use generated::*;

/// The compiled protos, for reflection and for the JSON mapping.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/longhand_descriptor.bin"));
