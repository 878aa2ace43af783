//! What only goose has: numbers derived from the window.

pub mod parameters;
