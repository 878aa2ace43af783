//! The strategies of Gemini CLI: a budget for tool outputs, and the masking of outputs between summaries.

pub(in crate::policy) mod excerpt;
pub(in crate::policy) mod output_budget;
pub mod parameters;
