//! Failures as single lines, and their exit codes.

use crate::config;
use crate::daemon;
use crate::pb;
use crate::telemetry::escape;
use longhand_client::{Error, Reason};
use std::io;
use std::process::ExitCode;
use tonic::Code;

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
    let misused = |cause: &(dyn std::error::Error + 'static)| {
        let of_daemon = cause.downcast_ref::<daemon::Error>();
        let of_client = cause.downcast_ref::<Error>();
        cause.is::<Usage>()
            || cause.is::<config::Error>()
            || matches!(of_daemon, Some(daemon::Error::Config(_)))
            || matches!(of_client, Some(Error::Invalid(_)))
    };
    if error.chain().any(misused) { USAGE } else { FAILED }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| match cause.downcast_ref::<io::Error>() {
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
        if let Some(error) = cause.downcast_ref::<Error>() {
            pieces.push(sentence(error));
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

/// Explanation of a call's failure, in one sentence.
pub(super) fn sentence(error: &Error) -> String {
    match error {
        Error::Refused(refusal) => {
            let message = one_line(&refusal.message);
            match refusal.reason.and_then(hint) {
                Some(hint) => format!("{message}; {hint}"),
                None => format!("{message} ({})", refusal.name),
            }
        }
        Error::Lost { message, was_sent: false, .. } => {
            format!("the daemon cannot be reached any more: {}", one_line(message))
        }
        Error::Foreign { code: Code::Unimplemented, .. } => {
            "the server does not know this request: it is no longhand daemon, or an older one".into()
        }
        error => one_line(&error.to_string()),
    }
}

/// The reason of a failure, wherever in its chain of causes the daemon states one.
pub(super) fn reason(error: &anyhow::Error) -> Option<Reason> {
    error.chain().find_map(|cause| cause.downcast_ref::<Error>()?.reason())
}

/// Advice to the user after a refusal.
fn hint(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::SessionNotFound => Some("`longhand sessions` lists the sessions"),
        Reason::PresetNotFound => Some("`longhand presets` lists the presets"),
        Reason::CompactionNotFound => Some("`longhand compactions SESSION` lists the compactions"),
        Reason::CursorForeign => Some("the cursor is from another store: begin without --after"),
        Reason::CursorOutOfRange => Some("begin without --after"),
        Reason::ShuttingDown => Some("try again after its restart"),
        Reason::SearchUnavailable => Some("the daemon keeps none (`search = false`), or makes it anew"),
        Reason::StoreBusy => Some("try again"),
        Reason::LeaseLost => Some("ask the daemon that owns the sessions now, with the same request id"),
        _ => None,
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;
    use longhand_client::Refusal;

    fn refusal(reason: Reason, message: &str) -> Error {
        Error::Refused(Box::new(Refusal {
            reason: Some(reason),
            name: reason.to_string(),
            code: Code::from_i32(reason.code().number()),
            message: message.to_owned(),
            metadata: Default::default(),
            retry_after: None,
        }))
    }

    #[test]
    fn refusals_become_sentences() {
        let lost = |was_sent| Error::Lost { message: "gone".to_owned(), was_sent, is_lasting: false };
        for (error, expected) in [
            (
                refusal(Reason::SessionNotFound, "there is no session \"x\""),
                "there is no session \"x\"; `longhand sessions` lists the sessions",
            ),
            (refusal(Reason::RevisionMismatch, "moved\nto 7"), "moved to 7 (REVISION_MISMATCH)"),
            (lost(true), "the connection to the daemon broke: gone"),
            (lost(false), "the daemon cannot be reached any more: gone"),
            (
                Error::Foreign { code: Code::PermissionDenied, message: "no".to_owned() },
                "The caller does not have permission to execute the specified operation: no",
            ),
        ] {
            assert_eq!(sentence(&error), expected);
        }
    }

    #[test]
    fn a_chain_is_one_line_and_ends_with_the_sentence() {
        let refused = refusal(Reason::MessageNotFound, "there is no message");
        let error = Err::<(), _>(refused).context("cannot fork").expect_err("an error");
        assert_eq!(line(&error), "cannot fork: there is no message (MESSAGE_NOT_FOUND)");
    }

    #[test]
    fn misuse_and_failure_have_their_own_codes() {
        assert_eq!(exit_code(&anyhow::Error::new(Usage("no".into()))), USAGE);
        let config = || config::Error::Invalid("no".into());
        assert_eq!(exit_code(&anyhow::Error::new(config())), USAGE);
        assert_eq!(exit_code(&anyhow::Error::new(daemon::Error::Config(config()))), USAGE);
        assert_eq!(exit_code(&anyhow::Error::new(Error::Invalid("no".into()))), USAGE);
        assert_eq!(exit_code(&anyhow::Error::new(refusal(Reason::SessionNotFound, "no"))), FAILED);
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let gone = anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(is_broken_pipe(&gone.context("cannot print")));
        assert!(!is_broken_pipe(&anyhow::Error::new(io::Error::from(io::ErrorKind::NotFound))));
    }
}
