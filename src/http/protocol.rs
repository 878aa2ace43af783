//! The descriptors that the JSON mapping needs.

use crate::pb;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use std::sync::LazyLock;

/// The protocol.
pub(super) static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(pb::DESCRIPTORS).expect("the build wrote these descriptors"));

/// `google.rpc.Status`, in a pool with what its details are.
pub(super) static STATUS: LazyLock<MessageDescriptor> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(tonic_types::pb::FILE_DESCRIPTOR_SET);
    let status = pool.ok().and_then(|pool| pool.get_message_by_name("google.rpc.Status"));
    status.expect("the library has these descriptors")
});
