//! Ids of the client's own.

/// An id that nobody else has.
pub(crate) fn random_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}
