//! The strategies of Qwen-Agent: its counting, and the omissions of both versions of its algorithm.

mod counted_texts;
pub(crate) mod items;
mod newest_first;
pub mod parameters;
mod turns_and_steps;
