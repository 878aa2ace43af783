//! Tests of the whole: one binary, one module for each subject.

mod support;

mod append;
mod compaction;
mod immutable;
mod open_messages;
mod proto;
mod subscriptions;
mod tidy;
