//! x
pub mod model;
pub mod policy;
pub mod limits;
pub mod clock;
pub mod config;
pub mod store;
pub mod summarizer;
pub mod bus;
pub mod scheduler;
pub mod app;
pub mod interop;
pub mod pb;
