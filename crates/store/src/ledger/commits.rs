//! What commits change of sessions, for those who keep sessions in memory: they follow the writer, and nobody has to
//! tell them what is stale.

use super::head::{Head, PendingWork, SessionKey};
use crate::model::Revision;
use crate::model::event::EventBody;
use crate::model::message::MessageKind;
use crate::model::view::SourceMessage;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, Weak};

/// The state of a session at its newest revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newest {
    /// The revision.
    pub at: Revision,
    /// The first of the session's own messages that is open; none if all are sealed.
    pub first_open: Option<Revision>,
    /// PendingWork changes of the view.
    pub pending: PendingWork,
    /// Growth of the history, as `PartBody::growth_bytes` counts it.
    pub appended_bytes: i64,
}

impl Newest {
    /// The state in a head.
    pub(crate) fn of(head: &Head) -> Self {
        Self {
            at: head.revision,
            first_open: head.open.values().map(|open| open.revision).min(),
            pending: head.pending(),
            appended_bytes: head.appended_bytes,
        }
    }
}

/// The change of a session by a commit, as far as it concerns what readers keep of the session.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionChange {
    /// Events that are in no view, and sealed messages at their own positions, in order, from a revision on.
    Messages {
        /// The first revision of the commit.
        first: Revision,
        /// The messages.
        messages: Vec<SourceMessage>,
    },
    /// Rows of messages: those that were open, and others that are no sealed messages at their own positions.
    Rows,
    /// The view of what was there before.
    View,
    /// What the session is called, its policy or window, or content that was erased: nothing that was read before may
    /// be used any more.
    Everything,
}

/// What a commit did to a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionCommit {
    /// The session.
    pub session: SessionKey,
    /// Its state after the commit.
    pub newest: Newest,
    /// Its change; none if only what is pending changed.
    pub change: Option<SessionChange>,
}

/// A memory of sessions, which is told of each commit before anybody is answered.
pub trait CommitObserver: Send + Sync {
    /// Takes what a commit did. The writer waits meanwhile.
    fn committed(&self, commits: &[SessionCommit]);

    /// Drops everything: the outcome of a commit is unknown.
    fn forget(&self);
}

/// The changes of one session in one transaction.
#[derive(Debug)]
pub(crate) struct Changes {
    first: Revision,
    /// Sealed messages at their own positions, in order.
    messages: Vec<SourceMessage>,
    /// Messages whose rows are not among `messages`.
    missing: usize,
    /// False if rows other than sealed messages at their own positions have changed.
    is_plain: bool,
    /// True if marks have changed the view.
    is_view: bool,
    /// True if nothing that was read before may be used.
    is_everything: bool,
}

impl Changes {
    /// The empty set of changes, starting at a revision.
    pub(crate) fn from(first: Revision) -> Self {
        Self { first, messages: Vec::new(), missing: 0, is_plain: true, is_view: false, is_everything: false }
    }

    /// Records an event. Each kind is named, so that a new one is decided upon.
    pub(crate) fn note(&mut self, body: &EventBody) {
        match body {
            // Records are in no view.
            EventBody::MessageAppended { kind: MessageKind::Record, sealed: true, .. }
            | EventBody::UsageRecorded { .. }
            | EventBody::CompactionProposed { .. }
            | EventBody::CompactionStarted { .. }
            | EventBody::CompactionRetried { .. }
            | EventBody::CompactionFailed { .. }
            | EventBody::CompactionCancelled { .. }
            | EventBody::RunStarted { .. }
            | EventBody::RunCancelRequested { .. }
            | EventBody::RunEnded { .. }
            | EventBody::PromptSubmitted { .. }
            | EventBody::PromptMoved { .. }
            | EventBody::PromptTaken { .. }
            | EventBody::PromptWithdrawn { .. }
            | EventBody::ApprovalRequested { .. }
            | EventBody::ApprovalEnded { .. }
            | EventBody::LabelAdded { .. }
            | EventBody::LabelRemoved { .. } => {}
            EventBody::MessageAppended { kind: MessageKind::Normal, sealed: true, .. } => self.missing += 1,
            EventBody::MessageAppended { .. }
            | EventBody::SessionUpdated { window: None, .. }
            | EventBody::SessionArchived
            | EventBody::SessionRestored
            | EventBody::PartsClosed { .. }
            | EventBody::WordsMarked { .. }
            | EventBody::MessageFinished { .. } => self.is_plain = false,
            EventBody::SessionRewound { .. }
            | EventBody::MessageEdited { .. }
            | EventBody::MessagePinned { .. }
            | EventBody::MessageUnpinned { .. }
            | EventBody::PartsPruned { .. }
            | EventBody::Compacted { .. }
            | EventBody::CompactionUndone { .. }
            | EventBody::CompactionRedone { .. }
            | EventBody::RewriteUndone(_)
            | EventBody::RewriteRedone(_) => self.is_view = true,
            EventBody::SessionCreated { .. }
            | EventBody::SessionForked { .. }
            | EventBody::SessionUpdated { window: Some(_), .. }
            | EventBody::PolicyChanged { .. }
            | EventBody::Erased { .. } => self.is_everything = true,
        }
    }

    /// Records events that were written as rows.
    pub(crate) fn note_rows(&mut self) {
        self.is_everything = true;
    }

    /// Adds a message whose event was recorded.
    pub(crate) fn message(&mut self, message: SourceMessage) {
        self.missing = self.missing.saturating_sub(1);
        self.messages.push(message);
    }

    /// The change that they are together.
    pub(crate) fn together(self) -> SessionChange {
        let Self { first, messages, missing, is_plain, is_view, is_everything } = self;
        match (is_everything, is_view, is_plain && missing == 0) {
            (true, ..) => SessionChange::Everything,
            (false, true, _) => SessionChange::View,
            (false, false, true) => SessionChange::Messages { first, messages },
            (false, false, false) => SessionChange::Rows,
        }
    }
}

/// Those who follow commits, and the sessions of the commit that is under way.
#[derive(Default)]
pub(crate) struct Commits {
    observers: RwLock<Vec<Weak<dyn CommitObserver>>>,
    committing: Mutex<HashSet<i64>>,
}

impl Commits {
    /// Adds an observer, as long as it exists.
    pub(crate) fn observe(&self, observer: Weak<dyn CommitObserver>) {
        let mut observers = self.observers.write().unwrap_or_else(PoisonError::into_inner);
        observers.retain(|known| known.strong_count() > 0);
        observers.push(observer);
    }

    /// True while a transaction with changes of a session is being committed: queries may see them, and no observer does.
    pub(crate) fn is_committing(&self, key: i64) -> bool {
        self.committing().contains(&key)
    }

    /// Begins the commit of a transaction with changes of these sessions.
    pub(crate) fn begin(&self, commits: &[SessionCommit]) {
        self.committing().extend(commits.iter().map(|commit| commit.session.0));
    }

    /// Tells the observers of the commit that began.
    pub(crate) fn committed(&self, commits: &[SessionCommit]) {
        self.each(|observer| observer.committed(commits));
        self.committing().clear();
    }

    /// Nothing of the commit that began was written.
    pub(crate) fn failed(&self) {
        self.committing().clear();
    }

    /// Has the observers drop everything: the outcome of the commit that began is not the expected one.
    pub(crate) fn forget(&self) {
        self.each(|observer| observer.forget());
        self.committing().clear();
    }

    fn each(&self, tell: impl Fn(&dyn CommitObserver)) {
        let observers = self.observers.read().unwrap_or_else(PoisonError::into_inner);
        observers.iter().filter_map(Weak::upgrade).for_each(|observer| tell(&*observer));
    }

    fn committing(&self) -> MutexGuard<'_, HashSet<i64>> {
        self.committing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
