//! The strategies of JoyAgent: its counting, and the newest messages from a request on.

mod envelope;
pub mod parameters;
mod suffix;
