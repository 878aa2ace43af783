//! Messages that were committed after a session in memory was read or extended.

use super::session::content_bytes;
use crate::limits;
use crate::model::Revision;
use crate::model::view::SourceMessage;
use crate::store::{NewMessages, Newest, PendingWork, SessionChange, SessionCommit, Source};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the commits since a session came to memory did to it: its state, and the messages that its fold lacks, as far
/// back as they follow each other.
pub(super) struct Unfolded {
    /// The state after the newest commit; none before the first one.
    newest: Option<Newest>,
    /// The first revision behind which nothing but `messages` has changed.
    from: Revision,
    messages: Vec<SourceMessage>,
    /// The newest change of the view of what was there before it.
    view_revision: Revision,
    /// True while there is a fold that will take them.
    is_awaited: bool,
    bytes: usize,
    /// The bytes of all sessions.
    total: Arc<AtomicUsize>,
}

/// What a session in memory lacks.
#[derive(Debug)]
pub(super) enum Missing {
    /// No message; its pending work is this.
    Nothing(PendingWork),
    /// These messages.
    Messages(NewMessages),
    /// What must be read.
    Rows,
    /// Another view.
    View,
}

impl Unfolded {
    pub(super) fn new(total: &Arc<AtomicUsize>) -> Self {
        let (total, messages) = (Arc::clone(total), Vec::new());
        Self { newest: None, from: 0, messages, view_revision: 0, is_awaited: false, bytes: 0, total }
    }

    /// Adds what a commit did.
    pub(super) fn add(&mut self, commit: &SessionCommit) {
        let newest = commit.newest;
        match &commit.change {
            None => self.from = self.newest.map_or(newest.at + 1, |_| self.from),
            Some(SessionChange::Messages { first, messages }) => {
                self.from = self.newest.map_or(*first, |_| self.from);
                let bytes = content_bytes(messages);
                if !self.is_awaited || self.total.load(Ordering::Relaxed) + bytes > limits::UNFOLDED_BYTES {
                    self.cut(newest.at);
                } else {
                    self.grow(bytes);
                    self.messages.extend_from_slice(messages);
                }
            }
            Some(SessionChange::View) => {
                self.cut(newest.at);
                self.view_revision = newest.at;
            }
            Some(SessionChange::Rows | SessionChange::Everything) => self.cut(newest.at),
        }
        self.newest = Some(newest);
    }

    /// What a session lacks that was read or extended since this began: all of it, or at least up to a revision that its
    /// caller has seen.
    pub(super) fn since(&self, known: &Source, at_least: Option<Revision>) -> Missing {
        let newest = match self.newest {
            Some(newest) => newest,
            None if at_least.is_some() => return Missing::Rows,
            None => return Missing::Nothing(known.pending),
        };
        if self.view_revision > known.at {
            return Missing::View;
        }
        if known.at > newest.at || at_least.is_some_and(|revision| revision > newest.at) {
            return Missing::Rows;
        }
        if known.at == newest.at {
            return Missing::Nothing(newest.pending);
        }
        let from = known.at + 1;
        // A message that was open stays as it is: any change of it would have cut this off.
        if from < self.from || !known.ends_with(from) {
            return Missing::Rows;
        }
        let newer = self.messages.partition_point(|source| source.message.revision < from);
        Missing::Messages(NewMessages { from, newest, messages: self.messages[newer..].to_vec() })
    }

    /// The revision up to which it was told of all commits since `known` was read.
    pub(super) fn told(&self, known: &Source) -> Revision {
        self.newest.map_or(known.at, |newest| newest.at.max(known.at))
    }

    /// Drops the messages up to a revision, which the fold has now.
    pub(super) fn folded(&mut self, at: Revision) {
        self.is_awaited = true;
        if at >= self.from {
            let newer = self.messages.partition_point(|source| source.message.revision <= at);
            self.shrink(content_bytes(&self.messages[..newer]));
            self.messages.drain(..newer);
            self.from = at + 1;
        }
    }

    /// There is no fold any more.
    pub(super) fn unloaded(&mut self) {
        self.is_awaited = false;
        self.cut(self.newest.map_or(0, |newest| newest.at));
    }

    /// Forgets how a revision came about.
    fn cut(&mut self, at: Revision) {
        self.shrink(self.bytes);
        self.messages.clear();
        self.from = at + 1;
    }

    fn grow(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    fn shrink(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.total.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Unfolded {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}
