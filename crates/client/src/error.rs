//! Errors of calls, with the daemon's reason.

use longhand_protocol::reason::{DOMAIN, Outcome, Reason};
use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// Result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The daemon refused the call, or failed.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// No daemon answers at the address.
    #[error("no daemon answers at {address} ({message}); `longhand serve` starts one")]
    Unreachable {
        /// The address.
        address: String,
        /// The system's words.
        message: String,
    },
    /// The connection is lost, or cannot be made again.
    #[error("the connection to the daemon broke: {message}")]
    Lost {
        /// The transport's words.
        message: String,
        /// True if the call may have reached the daemon: a change may have been carried out.
        was_sent: bool,
        /// True if the system refuses the connection for a cause that another attempt does not change.
        is_lasting: bool,
    },
    /// What answers is no Longhand of this version: the transport's status has none of its reasons.
    #[error("{}: {message}", .code.description())]
    Foreign {
        /// The code of the status.
        code: Code,
        /// Its message.
        message: String,
    },
    /// The caller's own time is over. A change may have been carried out.
    #[error("no answer in time")]
    Overdue,
    /// The daemon speaks another version of the protocol.
    #[error("the daemon is version {daemon}, and this client {client}: use those of one version")]
    VersionMismatch {
        /// The daemon's version.
        daemon: String,
        /// This client's version.
        client: String,
    },
    /// A value of the caller's cannot be sent. Nothing was.
    #[error("{0}")]
    Invalid(String),
    /// A file that the caller named cannot be read.
    #[error("{}: {message}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's words.
        message: String,
    },
}

/// The daemon's own words about a call that it did not carry out as asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The stable reason; none for one that this version does not know.
    pub reason: Option<Reason>,
    /// The reason's name.
    pub name: String,
    /// The code of the status.
    pub code: Code,
    /// A sentence fragment for people.
    pub message: String,
    /// Every changing part of the message, by name.
    pub metadata: HashMap<String, String>,
    /// When the daemon wants the next attempt; none if it does not say.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.name)
    }
}

impl Error {
    /// The daemon's reason; none where the daemon did not answer, and for a reason that this version does not know.
    pub fn reason(&self) -> Option<Reason> {
        self.refusal()?.reason
    }

    /// The daemon's refusal, if that is what it is.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// A changing part of the daemon's message.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        Some(self.refusal()?.metadata.get(key)?.as_str())
    }

    /// When the daemon wants the next attempt; none if it does not say.
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal()?.retry_after
    }

    /// True if the same call can succeed later. With its `request_id`, a change is then carried out once.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Refused(refusal) => match refusal.reason {
                Some(reason) => reason.is_temporary(),
                None => {
                    refusal.code == Code::Unavailable
                        || (refusal.code == Code::ResourceExhausted && refusal.retry_after.is_some())
                }
            },
            Self::Lost { is_lasting, .. } => !is_lasting,
            Self::Unreachable { .. } => true,
            Self::Foreign { .. }
            | Self::Overdue
            | Self::VersionMismatch { .. }
            | Self::Invalid(_)
            | Self::Unreadable { .. } => false,
        }
    }

    /// What is known of a change whose call failed.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Refused(refusal) => refusal.reason.map_or(Outcome::Unknown, Reason::outcome),
            Self::Lost { was_sent: true, .. } | Self::Foreign { .. } | Self::Overdue => Outcome::Unknown,
            Self::Lost { was_sent: false, .. }
            | Self::Unreachable { .. }
            | Self::VersionMismatch { .. }
            | Self::Invalid(_)
            | Self::Unreadable { .. } => Outcome::Nothing,
        }
    }
}

impl From<Status> for Error {
    /// The daemon gives each of its errors a reason: one without it is of the connection, if not of another program.
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        if let Some(info) = details.error_info().filter(|info| info.domain == DOMAIN) {
            return Self::Refused(Box::new(Refusal {
                reason: Reason::from_name(&info.reason),
                name: info.reason.clone(),
                code: status.code(),
                message: status.message().to_owned(),
                metadata: info.metadata.clone(),
                retry_after: details.retry_info().and_then(|info| info.retry_delay),
            }));
        }
        match status.code() {
            Code::DeadlineExceeded => Self::Overdue,
            // What the library itself cannot read comes again as it was.
            Code::Internal if is_of_codec(&status) => {
                Self::Foreign { code: Code::Internal, message: status.message().to_owned() }
            }
            Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled | Code::Aborted => Self::Lost {
                message: innermost(&status),
                was_sent: !causes(&status).any(|cause| cause.is::<tonic::ConnectError>()),
                is_lasting: causes(&status).any(is_lasting),
            },
            code => Self::Foreign { code, message: status.message().to_owned() },
        }
    }
}

/// True for an error of the system that another attempt does not change.
fn is_lasting(cause: &(dyn StdError + 'static)) -> bool {
    use io::ErrorKind::{InvalidFilename, InvalidInput, PermissionDenied};
    let lasting = [PermissionDenied, InvalidInput, InvalidFilename];
    cause.downcast_ref::<io::Error>().is_some_and(|error| lasting.contains(&error.kind()))
}

fn is_of_codec(status: &Status) -> bool {
    causes(status).any(|cause| cause.is::<prost::DecodeError>()) || status.message().starts_with("failed to decode")
}

fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        next = error.source();
        Some(error)
    })
}

/// Message of the innermost cause, which is the system's own.
pub(crate) fn innermost(error: &(dyn StdError + 'static)) -> String {
    match causes(error).skip(1).last() {
        Some(cause) => cause.to_string(),
        None => error.downcast_ref::<Status>().map_or_else(|| error.to_string(), |status| status.message().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic_types::ErrorDetails;

    fn refusal(code: Code, reason: &str, retry: Option<Duration>) -> Error {
        let metadata = HashMap::from([("field".to_owned(), "title".to_owned())]);
        let mut details = ErrorDetails::with_error_info(reason, DOMAIN, metadata);
        if retry.is_some() {
            details.set_retry_info(retry);
        }
        Status::with_error_details(code, "why", details).into()
    }

    #[test]
    fn a_refusal_has_its_reason_and_its_metadata() {
        let error = refusal(Code::InvalidArgument, "INVALID_FIELD", None);
        assert_eq!((error.reason(), error.metadata("field")), (Some(Reason::InvalidField), Some("title")));
        assert_eq!((error.to_string().as_str(), error.outcome()), ("why (INVALID_FIELD)", Outcome::Nothing));
        assert!(!error.is_temporary());
        let delay = Duration::from_millis(100);
        let error = refusal(Code::Unavailable, "STORE_BUSY", Some(delay));
        assert_eq!((error.retry_after(), error.is_temporary()), (Some(delay), true));
    }

    #[test]
    fn a_reason_of_a_later_version_counts_by_its_code() {
        let delay = Some(Duration::from_millis(1));
        for (code, delay, is_temporary) in [
            (Code::Unavailable, None, true),
            (Code::ResourceExhausted, delay, true),
            (Code::ResourceExhausted, None, false),
            (Code::Aborted, None, false),
        ] {
            let error = refusal(code, "NEVER_HEARD_OF", delay);
            assert_eq!((error.reason(), error.is_temporary()), (None, is_temporary), "{code:?}");
            assert_eq!(error.refusal().map(|refusal| refusal.name.as_str()), Some("NEVER_HEARD_OF"));
            assert_eq!(error.outcome(), Outcome::Unknown);
        }
    }

    #[test]
    fn what_has_no_reason_is_of_the_connection_or_of_another_program() {
        let lost = |status: Status| match Error::from(status) {
            Error::Lost { was_sent, is_lasting, .. } => Some((was_sent, is_lasting)),
            _ => None,
        };
        assert_eq!(lost(Status::unknown("reset")), Some((true, false)));
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(lost(Status::from_error(Box::new(tonic::ConnectError(refused.into())))), Some((false, false)));
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(lost(Status::from_error(Box::new(tonic::ConnectError(denied.into())))), Some((false, true)));
        assert!(matches!(Error::from(Status::unimplemented("")), Error::Foreign { .. }));
        assert!(matches!(Error::from(Status::internal("failed to decode Protobuf message")), Error::Foreign { .. }));
        assert!(matches!(Error::from(Status::deadline_exceeded("")), Error::Overdue));
    }
}
