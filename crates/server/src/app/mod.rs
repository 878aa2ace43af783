//! The API in domain types: use cases, validation, idempotency. Every operation that a client can do is here; `grpc`
//! only converts.

pub mod access;
pub mod access_record;
pub mod access_tokens;
pub mod admin;
mod api;
pub mod append;
pub mod approvals;
pub mod archives;
pub mod backup;
mod branch_request_log;
mod branches;
pub mod compactions;
pub mod console;
mod console_links;
pub mod views;
pub mod cursor;
pub mod deltas;
pub mod entrance;
pub mod erase;
pub mod error;
pub mod events;
pub mod expand;
pub mod feed;
pub mod formatted;
mod large_views;
#[cfg(test)]
mod loaded_tests;
pub mod nouns;
pub mod presence;
pub mod preview;
pub mod prompts;
mod quota_calls;
pub mod quotas;
mod recall;
pub mod run_watch;
pub mod runs;
pub mod retention;
mod retention_pass;
pub mod scrub;
pub mod search;
mod refusals;
mod search_turns;
pub mod secrets;
pub mod session_list;
pub mod session_watch;
pub mod sessions;
pub mod simulate;
pub mod summary_tasks;
pub mod undo;
mod validate;
mod view_token;
mod visible;
pub mod who;
pub mod writing;

pub use crate::store::{Durability, RequestKey};
pub use api::{Caller, DefaultPolicy, Longhand, Options};
pub use error::{Error, Reason, Result};

use api::{page_size, receipt_id, window_of_call};
