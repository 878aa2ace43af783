//! Failures as single lines, and their exit codes.

use crate::config;
use crate::daemon;
use crate::pb;
use crate::telemetry::escape;
use std::error::Error;
use std::io;
use std::process::ExitCode;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Exit code for an unusable command line or configuration.
pub(super) const USAGE: u8 = 64;

/// Exit code for all other failures.
const FAILED: u8 = 1;

/// Exit code of `audit` and `doctor` for a store with findings, and of a partial export; a failure to examine or to
/// export it has another one.
pub(super) const FINDINGS: u8 = 3;

/// An unusable command line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Usage(pub(super) String);

/// Reports a failure in one line on standard error and returns the exit code.
///
/// A reader that closed the pipe, as `head` does, is no failure.
pub(super) fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    note(&format!("longhand: {}", line(error)));
    ExitCode::from(exit_code(error))
}

/// Writes an escaped line to standard error, which a terminal gets wrapped at words. A failed write is ignored, because
/// it cannot be reported anywhere.
pub(super) fn note(text: &str) {
    use io::{IsTerminal as _, Write as _};
    let mut stderr = io::stderr();
    let mut text = escape::line(text);
    if let Some((columns, _)) = terminal_size::terminal_size_of(&stderr).filter(|_| stderr.is_terminal()) {
        let options = textwrap::Options::new(usize::from(columns.0)).break_words(false);
        text = textwrap::fill(&text, options).into();
    }
    let _ = writeln!(stderr, "{text}");
}

/// Says on standard error that a model's limits are unknown, if they are.
pub(super) fn note_unknown_model(window: &pb::ModelWindow) {
    if !window.model.is_empty() && window.source() == pb::WindowSource::Unspecified {
        let advice = "nothing is compacted until --window or the daemon's --models says them";
        note(&format!("longhand: the limits of the model {} are not known: {advice}", window.model));
    }
}

/// Says on standard error what rules for secrets found in a request.
pub(super) fn note_secrets(findings: &[pb::SecretFinding]) {
    for pb::SecretFinding { field, rule, action, found_count } in findings {
        let done = match pb::SecretAction::try_from(*action) {
            Ok(pb::SecretAction::Warn) => "stored",
            _ => "redacted",
        };
        note(&format!("longhand: {field} has {found_count} of what the rule {rule} finds: {done}"));
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    let misused = |cause: &(dyn Error + 'static)| {
        let of_daemon = cause.downcast_ref::<daemon::Error>();
        cause.is::<Usage>() || cause.is::<config::Error>() || matches!(of_daemon, Some(daemon::Error::Config(_)))
    };
    if error.chain().any(misused) { USAGE } else { FAILED }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    // A broken pipe to the daemon is a failure.
    let of_daemon = |cause: &(dyn Error + 'static)| cause.is::<Status>() || cause.is::<tonic::transport::Error>();
    !error.chain().any(of_daemon)
        && error.chain().any(|cause| match cause.downcast_ref::<io::Error>() {
            Some(error) => error.kind() == io::ErrorKind::BrokenPipe,
            None => cause
                .downcast_ref::<serde_json::Error>()
                .is_some_and(|error| error.io_error_kind() == Some(io::ErrorKind::BrokenPipe)),
        })
}

/// The whole chain of causes in one line; a refusal by the daemon is a sentence.
pub(super) fn line(error: &anyhow::Error) -> String {
    let mut pieces: Vec<String> = Vec::new();
    for cause in error.chain() {
        if let Some(status) = cause.downcast_ref::<Status>() {
            pieces.push(sentence(status));
            break;
        }
        let text = one_line(&cause.to_string());
        // Many error messages already end with the message of their source.
        if !pieces.last().is_some_and(|piece| piece.ends_with(&text)) {
            pieces.push(text);
        }
    }
    pieces.join(": ")
}

/// Explanation of a refusal by the daemon, in one sentence.
pub(super) fn sentence(status: &Status) -> String {
    let message = one_line(status.message());
    let Some(info) = status.get_details_error_info() else { return foreign(status.code(), &message) };
    match hint(&info.reason) {
        Some(hint) => format!("{message}; {hint}"),
        None => format!("{message} ({})", info.reason),
    }
}

/// Reason of a refusal; none if the refusal is not the daemon's own.
pub(super) fn reason(status: &Status) -> Option<String> {
    status.get_details_error_info().map(|info| info.reason)
}

/// True if the daemon refused only because it was overloaded, and stated when to try again.
pub(super) fn passes(status: &Status) -> bool {
    status.get_details_retry_info().is_some()
}

/// Advice to the user after a refusal.
fn hint(reason: &str) -> Option<&'static str> {
    match reason {
        "SESSION_NOT_FOUND" => Some("`longhand sessions` lists the sessions"),
        "PRESET_NOT_FOUND" => Some("`longhand presets` lists the presets"),
        "COMPACTION_NOT_FOUND" => Some("`longhand compactions SESSION` lists the compactions"),
        "COMPACTION_ACTIVE" => Some("wait for it, or see `longhand compactions SESSION`"),
        "CURSOR_FOREIGN" => Some("the cursor is from another store: begin without --after"),
        "CURSOR_OUT_OF_RANGE" => Some("begin without --after"),
        "SHUTTING_DOWN" => Some("try again after its restart"),
        "SEARCH_UNAVAILABLE" => Some("the daemon keeps none (`search = false`), or makes it anew"),
        "STORE_BUSY" => Some("try again"),
        "LEASE_LOST" => Some("ask the daemon that owns the sessions now, with the same request id"),
        _ => None,
    }
}

/// Explanation of a status without one of Longhand's reasons: it comes from the transport or from another program.
fn foreign(code: Code, message: &str) -> String {
    match code {
        Code::Unavailable => format!("the daemon cannot be reached any more: {message}"),
        Code::Unimplemented => {
            "the server does not know this request: it is no longhand daemon, or an older one".into()
        }
        Code::Unknown | Code::Internal | Code::Cancelled => format!("the connection to the daemon broke: {message}"),
        _ => format!("{}: {message}", code.description()),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;
    use std::collections::HashMap;
    use tonic_types::ErrorDetails;

    fn refusal(code: Code, reason: &str, message: &str) -> Status {
        let details = ErrorDetails::with_error_info(reason, "longhand", HashMap::new());
        Status::with_error_details(code, message, details)
    }

    #[test]
    fn refusals_become_sentences() {
        for (status, expected) in [
            (
                refusal(Code::NotFound, "SESSION_NOT_FOUND", "there is no session \"x\""),
                "there is no session \"x\"; `longhand sessions` lists the sessions",
            ),
            (refusal(Code::Aborted, "REVISION_MISMATCH", "moved\nto 7"), "moved to 7 (REVISION_MISMATCH)"),
            (Status::cancelled("gone"), "the connection to the daemon broke: gone"),
            (Status::unavailable("gone"), "the daemon cannot be reached any more: gone"),
            (
                Status::permission_denied("no"),
                "The caller does not have permission to execute the specified operation: no",
            ),
        ] {
            assert_eq!(sentence(&status), expected);
        }
    }

    #[test]
    fn a_chain_is_one_line_and_ends_with_the_sentence() {
        let status = refusal(Code::NotFound, "MESSAGE_NOT_FOUND", "there is no message");
        let error = Err::<(), _>(status).context("cannot fork").expect_err("an error");
        assert_eq!(line(&error), "cannot fork: there is no message (MESSAGE_NOT_FOUND)");
    }

    #[test]
    fn misuse_and_failure_have_their_own_codes() {
        assert_eq!(exit_code(&anyhow::Error::new(Usage("no".into()))), USAGE);
        let config = || config::Error::Invalid("no".into());
        assert_eq!(exit_code(&anyhow::Error::new(config())), USAGE);
        assert_eq!(exit_code(&anyhow::Error::new(daemon::Error::Config(config()))), USAGE);
        assert_eq!(exit_code(&anyhow::Error::new(Status::not_found("no"))), FAILED);
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let gone = anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(is_broken_pipe(&gone.context("cannot print")));
        assert!(!is_broken_pipe(&anyhow::Error::new(io::Error::from(io::ErrorKind::NotFound))));
        let daemon_gone = Status::from_error(Box::new(io::Error::from(io::ErrorKind::BrokenPipe)));
        assert!(!is_broken_pipe(&anyhow::Error::new(daemon_gone)));
    }
}
