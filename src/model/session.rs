//! Sessions.

use super::Revision;
use super::ids::SessionId;
use super::time::Timestamp;
use super::usage::ModelWindow;

/// Whether a session takes writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// It does.
    Active,
    /// It is put away: it can be read, forked and restored, not written.
    Archived,
}

/// The guards of a session, as of its newest decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Guards {
    /// Reductions in a row that failed or freed nothing.
    pub failure_count: i64,
    /// Automatic reductions wait for so many user messages; 0 when they do not.
    pub hold_turns: i64,
    /// Whether they wait because a breaker opened, rather than because somebody took a reduction back.
    pub breaker_open: bool,
    /// Until then no rung of the ladder asks again, as long as the view fits.
    pub cool_until: Option<Timestamp>,
    /// What no reduction takes away, once it was found to fill the window.
    pub overhead_tokens: Option<i64>,
}

impl Guards {
    /// True where automatic compactions wait for an event or a time.
    pub fn hold(&self) -> bool {
        self.hold_turns > 0 || self.cool_until.is_some() || self.overhead_tokens.is_some()
    }
}

/// The least that must happen to a session before a decision about it can differ from the newest one.
///
/// It is a lower bound: what it names may happen and change nothing, but nothing else changes the decision. Changes of
/// history, policy or window, reported overflows and compactions that end make a new decision necessary in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WakeCondition {
    /// Growth of the history, as `PartBody::growth_bytes` counts it; none where no growth makes a difference.
    pub growth_bytes: Option<i64>,
    /// A reply that ends. Where growth makes a difference, so does one that reports usage.
    pub on_reply: bool,
    /// A message of the user.
    pub on_request: bool,
    /// A time.
    pub time: Option<Timestamp>,
}

/// The size of a request with a session's view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextSize {
    /// Tokens: usage that a reply reported, where it still counts, and the estimate of what came after it; else the
    /// estimate of the view with the overhead of the window.
    pub tokens: i64,
    /// The revision of the view.
    pub revision: Revision,
}

/// One conversation, as it stands now.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// The server's id.
    pub id: SessionId,
    /// The client's own id, unique in the store.
    pub client_id: Option<String>,
    /// What people call it.
    pub title: String,
    /// Whether it takes writes.
    pub state: SessionState,
    /// The session that this one works for (a sub-agent's parent).
    pub parent: Option<SessionId>,
    /// The session this one was forked from, and the last revision they share.
    pub fork: Option<(SessionId, Revision)>,
    /// The preset its policy started from, such as `opencode@seed`.
    pub preset: String,
    /// The model window in force when a caller names none.
    pub window: ModelWindow,
    /// Free JSON of the client, verbatim.
    pub metadata_json: Option<String>,
    /// The newest revision.
    pub revision: Revision,
    /// The newest revision that changed history, marks, policy or window.
    pub history_revision: Revision,
    /// Messages a client wrote, records and inherited ones excluded.
    pub message_count: i64,
    /// The newest context usage that is known; none before the first decision about the session.
    pub context: Option<ContextSize>,
    /// What keeps automatic reductions from going on without end.
    pub guards: Guards,
    /// When the server made it.
    pub create_time: Timestamp,
    /// When it last changed.
    pub update_time: Timestamp,
}
