//! Disk faults under the store: a scripted workload runs over a disk that fails or loses power, and the answers that
//! its client got are compared with the state of the store afterwards.

pub mod check;
pub mod client;
pub mod command;
pub mod cuts;
pub mod faults;
pub mod running;
pub mod script;
