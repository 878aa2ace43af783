//! Spans of the log: requests, decisions and jobs. Their fields are names, ids, numbers and durations, never content: a
//! log may be read by people who may not read the sessions.
//!
//! A span whose target or level is filtered out costs one comparison.

use std::fmt::Display;
use tracing::field::Empty;
use tracing::{Level, Span};

/// Target of the spans of requests and of the lines at their ends.
pub const CALL: &str = "longhand::call";
/// Target of the spans of decisions and of the lines at their ends.
pub const DECISION: &str = "longhand::decision";
/// Target of the spans of jobs and of the lines at their ends.
pub const JOB: &str = "longhand::job";

/// Longest path of a method that is recorded.
const METHOD_BYTES_MAX: usize = 96;

/// The span of a request. Its session, status and reason are recorded once they are known.
pub fn call(path: &str) -> Span {
    tracing::debug_span!(
        target: CALL, "call", method = method(path), session = Empty, status = Empty, reason = Empty
    )
}

/// The span of a decision about a session, whose id is recorded once it is known.
pub fn decision() -> Span {
    tracing::debug_span!(target: DECISION, "decision", session = Empty)
}

/// The names and numbers in the span of a job.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// Id of the compaction.
    pub compaction: &'a dyn Display,
    /// Origin of its request.
    pub trigger: &'a str,
    /// Its level; empty for none.
    pub level: &'a str,
    /// Number of the attempt, from 1.
    pub attempt: i64,
    /// The revision whose view is compacted.
    pub base: i64,
}

/// The span of one attempt of a job, whose session is recorded once it is known. Other lines about the job are within
/// it, also those of the default log.
pub fn job(job: Job<'_>) -> Span {
    let Job { compaction, trigger, level, attempt, base } = job;
    tracing::info_span!(
        target: JOB, "job", session = Empty, %compaction, trigger, level, attempt, base
    )
}

/// True if somebody reads the ends of jobs. Their states may cost a look-up.
pub fn records_job_end() -> bool {
    tracing::enabled!(target: JOB, Level::DEBUG)
}

/// True if somebody reads the session of a request. Its id may cost a look-up.
pub fn records_session() -> bool {
    tracing::enabled!(target: CALL, Level::DEBUG)
}

/// Sets a field of the current span, if it has that field.
pub fn record(field: &'static str, value: impl Display) {
    let span = Span::current();
    if !span.is_disabled() {
        span.record(field, tracing::field::display(value));
    }
}

/// The method of a path; a path that cannot be that of a method is up to its client, and is not recorded.
pub fn method(path: &str) -> &str {
    let is_plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/'));
    let is_known = path.starts_with("/longhand.v1.") || path.starts_with("/grpc.");
    let method = path.strip_prefix('/').filter(|_| is_plain && is_known && path.len() <= METHOD_BYTES_MAX);
    method.unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_methods_are_recorded_and_others_are_not() {
        for (path, expected) in [
            ("/longhand.v1.MessageService/AppendMessages", "longhand.v1.MessageService/AppendMessages"),
            ("/grpc.health.v1.Health/Check", "grpc.health.v1.Health/Check"),
            ("/longhand.v1.MessageService/a%20secret", "unknown"),
            ("/secret", "unknown"),
            ("", "unknown"),
        ] {
            assert_eq!(method(path), expected, "{path}");
        }
        assert_eq!(method(&format!("/longhand.v1.{}", "a".repeat(METHOD_BYTES_MAX))), "unknown");
    }
}
