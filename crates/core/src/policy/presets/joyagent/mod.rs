//! The strategies of JoyAgent: its counting, and the newest messages from a request on.

pub(in crate::policy) mod envelope;
pub mod parameters;
pub(in crate::policy) mod suffix;
