//! Sessions: their state, guards, wake conditions and context usage.

use super::Revision;
use super::ids::SessionId;
use super::time::Timestamp;
use super::usage::{ModelWindow, UsageTotals};

/// The key of a session inside the store: that of an older session is smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SessionKey(pub i64);

/// The state of a session: open to writes or archived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// It takes writes.
    Active,
    /// It takes no writes; it can be read, forked and restored.
    Archived,
    /// It takes no writes and has no content any more; it can neither be forked nor restored.
    Erased,
}

/// The guards of a session, as of its newest decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Guards {
    /// Compactions in a row that failed or freed nothing.
    pub failure_count: i64,
    /// User messages for which automatic compactions wait; 0 if they do not wait.
    pub hold_turns: i64,
    /// True if they wait because a breaker opened, false if because a compaction was undone.
    pub breaker_open: bool,
    /// End of the cooldown. Until then no level asks again, as long as the view fits.
    pub cooldown_end: Option<Timestamp>,
    /// Tokens that no compaction removes, once they were found to fill the window.
    pub overhead_tokens: Option<i64>,
}

impl Guards {
    /// True if automatic compactions wait for an event or a time.
    pub fn hold(&self) -> bool {
        self.hold_turns > 0 || self.cooldown_end.is_some() || self.overhead_tokens.is_some()
    }
}

/// The reason for which a view exceeds its window, and what ends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverWindow {
    /// The reason.
    pub reason: OverWindowReason,
    /// A sentence fragment for people, with tokens and ids.
    pub message: String,
    /// The end of the wait for people or for another attempt, if there is one.
    pub wait_end: Option<Timestamp>,
}

/// The reason for which a view exceeds its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OverWindowReason {
    /// A decision or a compaction is pending.
    Pending,
    /// A compaction waits for people.
    Confirmation,
    /// A compaction waits for another attempt.
    Retry,
    /// The policy starts no compaction by itself.
    AutomaticOff,
    /// An undo holds automatic compactions back.
    UndoHold,
    /// What no compaction may remove exceeds the window.
    FixedContent,
    /// A last resort failed, and the view has to grow first.
    LastResortFailed,
    /// The view fits the session's window, and a caller named a smaller one.
    OtherWindow,
}

/// The least that must happen to a session before a decision about it can differ from the newest one.
///
/// It is a lower bound: its conditions may be met without effect, but nothing else changes the decision. Changes of
/// history, policy or window, reported overflows and compactions that end make a new decision necessary in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WakeCondition {
    /// Growth of the history in bytes, as `PartBody::growth_bytes` counts it; none if no growth makes a difference.
    pub growth_bytes: Option<i64>,
    /// The end of a reply. If growth makes a difference, so does a reply that reports usage.
    pub on_reply: bool,
    /// A message of the user.
    pub on_request: bool,
    /// A time.
    pub time: Option<Timestamp>,
}

/// The size of a request with a session's view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextSize {
    /// Tokens: the usage that a reply reported, as long as it is valid, plus the estimate of everything after it; else
    /// the estimate of the view plus the overhead of the window.
    pub tokens: i64,
    /// The revision of the view.
    pub revision: Revision,
}

/// One conversation in its newest state.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// The server's id.
    pub id: SessionId,
    /// Its tenant; empty for the default tenant.
    pub tenant: String,
    /// The client's own id, unique in the tenant.
    pub client_id: Option<String>,
    /// The title for people.
    pub title: String,
    /// The state: open to writes or archived.
    pub state: SessionState,
    /// The session that this one works for (a sub-agent's parent).
    pub parent: Option<SessionId>,
    /// The session this one was forked from, and the last revision they share.
    pub fork: Option<(SessionId, Revision)>,
    /// The preset its policy started from, such as `opencode@seed`.
    pub preset: String,
    /// The active model window, for callers that name none.
    pub window: ModelWindow,
    /// Free JSON of the client, verbatim.
    pub metadata_json: Option<String>,
    /// The newest revision.
    pub revision: Revision,
    /// The newest revision that changed history, marks, policy or window.
    pub history_revision: Revision,
    /// Messages that clients wrote, without records and inherited messages.
    pub message_count: i64,
    /// The actor that made it: the caller's name for itself, or empty.
    pub actor: String,
    /// Its labels, in the order of their bytes.
    pub labels: Vec<String>,
    /// The usage of its replies, without inherited ones.
    pub usage: UsageTotals,
    /// The newest known context usage; none before the first decision about the session.
    pub context: Option<ContextSize>,
    /// The guards, which keep automatic compactions from repeating without end.
    pub guards: Guards,
    /// The time at which the server made it.
    pub create_time: Timestamp,
    /// The time of its last change.
    pub update_time: Timestamp,
    /// When its own messages were written, if that was elsewhere.
    pub origin: Option<OriginTimes>,
}

/// The first and the last time at which messages were written elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OriginTimes {
    /// The first one.
    pub start: Timestamp,
    /// The last one.
    pub end: Timestamp,
}

impl OriginTimes {
    /// These times and another one.
    pub fn extended(times: Option<Self>, time: Timestamp) -> Self {
        let Self { start, end } = times.unwrap_or(Self { start: time, end: time });
        Self { start: start.min(time), end: end.max(time) }
    }
}
