//! What a disk can do to the store: a scripted workload over a disk that fails or loses power, and what every client was
//! told held against what is there afterwards.

pub mod check;
pub mod client;
pub mod command;
pub mod cuts;
pub mod faults;
pub mod running;
pub mod script;
