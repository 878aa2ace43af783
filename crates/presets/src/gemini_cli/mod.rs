//! The strategies of Gemini CLI: a budget for tool outputs, and the masking of outputs between summaries.

mod excerpt;
mod output_budget;
pub mod parameters;
