//! Tests of the whole: one binary, one module for each subject.

mod support;

mod append;
mod by_hand;
mod chains;
mod cli;
mod compaction;
mod context;
mod continuation;
mod cost;
mod crash;
mod evaluate;
mod expand;
mod forks;
mod guards;
mod hooks;
mod immutable;
mod jobs;
mod laws;
mod lock;
mod open_messages;
mod preview;
mod proto;
mod provider;
mod real_input;
mod retrieval;
mod routine;
mod sessions;
mod simulate;
mod subscriptions;
mod summaries;
mod summary_tasks;
mod summary_words;
mod tamper;
mod tidy;
mod undo;
