//! The strategies of Suna: rules by role, applied before every request.

pub(in crate::policy) mod chat;
pub(in crate::policy) mod groups;
pub(in crate::policy) mod middle_out;
pub mod parameters;
pub(in crate::policy) mod per_role;
pub(in crate::policy) mod strip;
mod texts;
