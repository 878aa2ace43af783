//! Erasures: content that goes for good. `plan` finds what goes, `rows` puts something else in its place, and `apply`
//! does both in one transaction, with the tombstones and the events that say so.

pub(crate) mod apply;
pub(crate) mod candidates;
pub(crate) mod plan;
pub(crate) mod rows;
pub(crate) mod session;
pub(crate) mod steps;
