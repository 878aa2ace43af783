//! Domain types: sessions, messages, parts, marks, events, compactions, layouts and views.
//!
//! This module has no I/O, no clock, no model calls and no decisions.

pub mod access;
pub mod approval;
pub mod accounts;
pub mod changes;
pub mod compaction;
pub mod draft;
pub mod truncation;
pub mod event;
pub mod harness;
pub mod ids;
pub mod layout;
pub mod layouts;
pub mod limits;
pub mod mark;
pub mod message;
pub mod part;
pub mod prompt;
pub mod provider_compaction;
pub mod ranges;
pub mod run;
pub mod session;
pub mod summary_request;
pub mod time;
pub mod dating;
pub mod usage;
pub mod view;

/// A session's dense version number: the position of one event in its session, and the time axis of replay.
///
/// A fork continues the numbers of its parent, so one axis runs through a whole ancestry.
pub type Revision = i64;

/// The first revision of a session, at which its policy and its window begin.
pub const FIRST_REVISION: Revision = 1;

/// The dense number of one event in its store, in commit order.
pub type Seq = i64;
