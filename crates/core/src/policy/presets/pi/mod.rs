//! What only pi has: summaries of split turns, and tails with large results.

pub mod parameters;
