//! The strategies of Suna: rules by role, applied before every request.

mod chat;
mod groups;
mod middle_out;
pub mod parameters;
mod per_role;
mod strip;
mod texts;
