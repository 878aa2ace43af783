//! The descriptors that the JSON mapping needs.

use prost_reflect::{DescriptorPool, MessageDescriptor};
use std::sync::LazyLock;

pub(super) use crate::pb::DESCRIPTORS;

/// `google.rpc.Status`, in a pool with what its details are.
pub(super) static STATUS: LazyLock<MessageDescriptor> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(tonic_types::pb::FILE_DESCRIPTOR_SET);
    let status = pool.ok().and_then(|pool| pool.get_message_by_name("google.rpc.Status"));
    status.expect("the library has these descriptors")
});
