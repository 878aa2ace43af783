//! What only Neovate Code has: the order of its walk.

pub mod parameters;
