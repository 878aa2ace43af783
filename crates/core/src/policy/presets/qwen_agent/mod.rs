//! The strategies of Qwen-Agent: its counting, and the omissions of both versions of its algorithm.

pub(in crate::policy) mod counted_texts;
pub(super) mod items;
pub(in crate::policy) mod newest_first;
pub mod parameters;
pub(in crate::policy) mod turns_and_steps;
