//! x
pub mod model;
pub mod policy;
pub mod limits;
pub mod clock;
pub mod config;
pub mod store;
pub mod pb;
pub mod summarizer;
pub mod interop;
