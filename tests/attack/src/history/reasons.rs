//! P14: every refusal has a reason that the protocol knows, with that reason's one code, and that the method's comment
//! lists.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// Every reason with its code, as clients know it.
const REASONS: &[(Code, &[&str])] = &[
    (
        Code::NotFound,
        &[
            "SESSION_NOT_FOUND",
            "MESSAGE_NOT_FOUND",
            "DRAFT_NOT_FOUND",
            "COMPACTION_NOT_FOUND",
            "CALL_NOT_FOUND",
            "PRESET_NOT_FOUND",
            "SUMMARY_TASK_NOT_FOUND",
            "RUN_NOT_FOUND",
            "PROMPT_NOT_FOUND",
            "APPROVAL_NOT_FOUND",
        ],
    ),
    (
        Code::InvalidArgument,
        &[
            "OVERFLOW_NOT_RECOGNIZED",
            "INVALID_FIELD",
            "POLICY_INVALID",
            "LIMIT_EXCEEDED",
            "REQUEST_ID_REUSED",
            "PAGE_TOKEN_INVALID",
            "CURSOR_INVALID",
            "VIEW_TOKEN_INVALID",
            "SUMMARY_REFUSED",
            "REQUEST_MALFORMED",
        ],
    ),
    (Code::Unimplemented, &["METHOD_UNKNOWN", "ENCODING_UNKNOWN"]),
    (Code::AlreadyExists, &["CLIENT_ID_REUSED"]),
    (Code::OutOfRange, &["CURSOR_OUT_OF_RANGE", "REVISION_OUT_OF_RANGE"]),
    (Code::Aborted, &["REVISION_MISMATCH", "LAST_MESSAGE_MISMATCH", "OFFSET_MISMATCH", "RUN_LOST"]),
    (
        Code::FailedPrecondition,
        &[
            "CURSOR_FOREIGN",
            "SESSION_ARCHIVED",
            "MESSAGE_SEALED",
            "MESSAGE_EXPIRED",
            "MESSAGE_OPEN",
            "NOTHING_TO_COMPACT",
            "NOTHING_TO_UNDO",
            "NOTHING_TO_REDO",
            "REDO_OVERTAKEN",
            "COMPACTION_ENDED",
            "AUTOMATIC_OFF",
            "OVERFLOW_AGAIN",
            "SUMMARY_TASKS_OFF",
            "SUMMARY_LEASE_LOST",
            "BOUNDARY_INVALID",
            "RUN_ACTIVE",
            "NOTHING_TO_ERASE",
            "SESSION_ERASED",
            "NO_PROMPT",
            "PROMPT_ENDED",
            "CALL_ANSWERED",
            "APPROVAL_ENDED",
        ],
    ),
    (
        Code::ResourceExhausted,
        &[
            "VIEW_TOO_LARGE",
            "TOO_MANY_STREAMS",
            "TOO_MANY_COMPACTIONS",
            "TOO_MANY_VIEWS",
            "TOO_MANY_REQUESTS",
            "READER_STALLED",
            "REQUEST_TOO_LARGE",
            "STORAGE_FULL",
        ],
    ),
    (Code::DeadlineExceeded, &["REQUEST_TIMED_OUT"]),
    (
        Code::Unavailable,
        &[
            "SEARCH_UNAVAILABLE",
            "STORE_BUSY",
            "OUTCOME_UNCERTAIN",
            "STORE_STOPPED",
            "LEASE_LOST",
            "NO_OWNER",
            "STORAGE_READ_ONLY",
            "SHUTTING_DOWN",
        ],
    ),
    (Code::DataLoss, &["ROW_CORRUPT"]),
    (Code::Internal, &["ANSWER_LOST", "INTERNAL"]),
];

/// Reasons of a failure of the daemon or its store. None may appear while neither fails.
const FAULTS: &[&str] = &[
    "ANSWER_LOST",
    "INTERNAL",
    "ROW_CORRUPT",
    "OUTCOME_UNCERTAIN",
    "STORE_STOPPED",
    "LEASE_LOST",
    "STORAGE_FULL",
    "STORAGE_READ_ONLY",
    "METHOD_UNKNOWN",
    "REQUEST_MALFORMED",
    "ENCODING_UNKNOWN",
];

/// Reasons that any method may give and after which the same request can be sent again: the daemon stops, or is
/// overloaded.
const PASSING: &[&str] = &["SHUTTING_DOWN", "STORE_BUSY", "TOO_MANY_VIEWS", "TOO_MANY_REQUESTS", "REQUEST_TIMED_OUT"];
/// Reasons of calls whose daemon is lost, or lost the shard or the database: what answers next has the answer.
const LOST_OWNER: &[&str] = &["OUTCOME_UNCERTAIN", "ANSWER_LOST", "LEASE_LOST", "NO_OWNER"];

/// True if several daemons own shards in turn.
static HAS_OWNERS: AtomicBool = AtomicBool::new(false);

/// Says that daemons own shards in turn, and may lose them.
pub(super) fn expect_owners() {
    HAS_OWNERS.store(true, Ordering::SeqCst);
}

fn is_lost_owner(reason: &str) -> bool {
    HAS_OWNERS.load(Ordering::SeqCst) && LOST_OWNER.contains(&reason)
}

/// True for a reason after which the same request can be sent again.
pub(super) fn is_passing(reason: &str) -> bool {
    PASSING.contains(&reason) || is_lost_owner(reason)
}

const PROTOS: [&str; 12] = [
    include_str!("../../../../proto/longhand/v1/session.proto"),
    include_str!("../../../../proto/longhand/v1/message.proto"),
    include_str!("../../../../proto/longhand/v1/view.proto"),
    include_str!("../../../../proto/longhand/v1/compaction.proto"),
    include_str!("../../../../proto/longhand/v1/summary_task.proto"),
    include_str!("../../../../proto/longhand/v1/event.proto"),
    include_str!("../../../../proto/longhand/v1/admin.proto"),
    include_str!("../../../../proto/longhand/v1/run.proto"),
    include_str!("../../../../proto/longhand/v1/prompt.proto"),
    include_str!("../../../../proto/longhand/v1/approval.proto"),
    include_str!("../../../../proto/longhand/v1/erase.proto"),
    include_str!("../../../../proto/longhand/v1/search.proto"),
];

/// The reasons listed after `Errors:` in each method's comment.
static DOCUMENTED: LazyLock<HashMap<String, BTreeSet<String>>> = LazyLock::new(|| {
    let mut documented: HashMap<String, BTreeSet<String>> = HashMap::new();
    for proto in PROTOS {
        let mut comment = String::new();
        for line in proto.lines().map(str::trim) {
            if let Some(words) = line.strip_prefix("//") {
                comment.push_str(words);
                continue;
            }
            if let Some(name) = line.strip_prefix("rpc ").and_then(|rest| rest.split('(').next()) {
                let errors = comment.split_once("Errors:").map_or("", |(_, errors)| errors);
                let words = || errors.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
                let mut reasons: BTreeSet<String> = words()
                    .filter(|word| {
                        word.len() > 3 && word.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
                    })
                    .map(str::to_owned)
                    .collect();
                // "as AppendMessages, and …"
                for like in words().filter_map(|word| documented.get(word)) {
                    reasons.extend(like.iter().cloned());
                }
                documented.insert(name.to_owned(), reasons);
            }
            comment.clear();
        }
    }
    documented
});

/// True if a refusal says that nothing changes the session now: it is archived or erased.
pub(super) fn is_closed(reason: &str) -> bool {
    matches!(reason, "SESSION_ARCHIVED" | "SESSION_ERASED")
}

/// A refusal by the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The stable reason.
    pub(super) reason: String,
    /// The facts in the error details.
    pub(super) metadata: HashMap<String, String>,
    /// The message text.
    pub(super) message: String,
}

/// Reads a status: the refusal and its faults; none if the status does not come from the daemon.
pub(super) fn refusal(rpc: &str, status: &Status) -> Option<(Refusal, Vec<String>)> {
    let details = status.get_error_details();
    let info = details.error_info()?;
    let reason = info.reason.clone();
    let mut wrong = Vec::new();
    if info.domain != "longhand" {
        wrong.push(format!("P14: {rpc} was refused in the domain {:?}", info.domain));
    }
    match REASONS.iter().find(|(_, reasons)| reasons.contains(&reason.as_str())) {
        None => wrong.push(format!("P14: {rpc} was refused with an unknown reason: {reason} ({})", status.message())),
        Some((code, _)) if *code != status.code() => {
            wrong.push(format!("P14: {rpc} was refused with {reason} as {:?} instead of {code:?}", status.code()));
        }
        Some(_) => {}
    }
    if FAULTS.contains(&reason.as_str()) && !is_lost_owner(&reason) {
        wrong.push(format!("P14: {rpc} failed with {reason}: {}", status.message()));
    }
    // A change on behalf of a run may be refused by every method, and so may one of a session that is erased.
    let named = ["RUN_LOST", "SESSION_ERASED"].contains(&reason.as_str())
        || DOCUMENTED.get(rpc).is_some_and(|reasons| reasons.contains(&reason));
    if !named && !is_passing(&reason) {
        wrong.push(format!("P14: {rpc} was refused with {reason}, which its comment does not name"));
    }
    let metadata = info.metadata.clone();
    Some((Refusal { reason, metadata, message: status.message().to_owned() }, wrong))
}
