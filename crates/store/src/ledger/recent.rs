//! The newest commits of sessions, in memory: a reader that has a session's rows continues from them without a query.

use super::head::{Head, PendingWork};
use super::messages;
use crate::limits;
use crate::model::Revision;
use crate::model::event::EventBody;
use crate::model::message::MessageKind;
use crate::model::view::SourceMessage;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The state of a session at its newest revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newest {
    /// The revision.
    pub at: Revision,
    /// The first of the session's own messages that is open; none if all are sealed.
    pub first_open: Option<Revision>,
    /// Pending changes of the view.
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

/// The changes of one session in one transaction, as far as they concern rows of views.
#[derive(Debug)]
pub(crate) struct Changes {
    first: Revision,
    /// Sealed messages at their own positions, in order.
    messages: Vec<SourceMessage>,
    /// Messages whose rows are not among `messages`.
    missing: usize,
    /// False if anything other than messages has changed.
    is_plain: bool,
}

impl Changes {
    /// The empty set of changes, starting at a revision.
    pub(crate) fn from(first: Revision) -> Self {
        Self { first, messages: Vec::new(), missing: 0, is_plain: true }
    }

    /// Records an event.
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
            _ => self.is_plain = false,
        }
    }

    /// Adds a message whose event was recorded.
    pub(crate) fn message(&mut self, message: SourceMessage) {
        self.missing = self.missing.saturating_sub(1);
        self.messages.push(message);
    }
}

/// A commit in memory.
struct Commit {
    first: Revision,
    messages: Vec<SourceMessage>,
    bytes: usize,
}

struct Session {
    newest: Newest,
    /// True while a transaction with changes of the session is being committed: readers of the database may see them
    /// already.
    is_committing: bool,
    /// Commits without a gap, the newest last.
    commits: VecDeque<Commit>,
}

#[derive(Default)]
struct Kept {
    sessions: HashMap<i64, Session>,
    /// Sessions by the age of their commits, the oldest first.
    order: VecDeque<i64>,
    bytes: usize,
}

/// The newest commits, bounded in bytes.
#[derive(Default)]
pub(crate) struct Recent(Mutex<Kept>);

impl Recent {
    /// Begins the commit of a transaction with changes of these sessions.
    pub(crate) fn begin(&self, keys: impl IntoIterator<Item = i64>) {
        let mut kept = self.kept();
        for key in keys {
            if let Some(session) = kept.sessions.get_mut(&key) {
                session.is_committing = true;
            }
        }
    }

    /// Adds the committed changes.
    pub(crate) fn committed(&self, sessions: Vec<(i64, Newest, Option<Changes>)>) {
        let mut kept = self.kept();
        if kept.sessions.len() + sessions.len() > limits::HEADS_MAX {
            *kept = Kept::default();
        }
        for (key, newest, changes) in sessions {
            kept.commit(key, newest, changes);
        }
        while kept.bytes > limits::RECENT_BYTES || kept.order.len() > limits::RECENT_COMMITS {
            kept.drop_oldest();
        }
    }

    /// Removes everything, because the outcome of a transaction is not the expected one.
    pub(crate) fn forget(&self) {
        *self.kept() = Kept::default();
    }

    /// The newest state of a session with the messages that came after a revision; none if memory does not reach back
    /// that far. A caller that needs only a certain commit passes its revision as `at_least`; any other caller gets all
    /// that a query would return.
    pub(crate) fn since(
        &self,
        key: i64,
        known: Revision,
        at_least: Option<Revision>,
    ) -> Option<(Newest, Vec<SourceMessage>)> {
        let kept = self.kept();
        let session = kept.sessions.get(&key)?;
        let newest = session.newest;
        let is_enough = at_least.is_some_and(|revision| revision <= newest.at);
        if known > newest.at || (session.is_committing && !is_enough) {
            return None;
        }
        if known == newest.at {
            return Some((newest, Vec::new()));
        }
        if session.commits.front()?.first > known + 1 {
            return None;
        }
        // Each caller of a session with many commits needs only the last few.
        let newer = session.commits.partition_point(|commit| commit.first <= known).saturating_sub(1);
        let messages = session.commits.range(newer..).flat_map(|commit| &commit.messages);
        Some((newest, messages.filter(|source| source.message.revision > known).cloned().collect()))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn commit(&mut self, key: i64, newest: Newest, changes: Option<Changes>) {
        let session =
            self.sessions.entry(key).or_insert(Session { newest, is_committing: false, commits: VecDeque::new() });
        session.newest = newest;
        session.is_committing = false;
        let Some(Changes { first, messages, missing, is_plain }) = changes else { return };
        if missing == 0 && is_plain {
            let bytes = messages.iter().map(|source| messages::message_bytes(&source.message)).sum();
            session.commits.push_back(Commit { first, messages, bytes });
            self.bytes += bytes;
            self.order.push_back(key);
        } else {
            let commits = std::mem::take(&mut session.commits);
            self.bytes -= commits.iter().map(|commit| commit.bytes).sum::<usize>();
        }
    }

    /// Drops the oldest commit. Commits that a later change of their session dropped are still in `order`.
    fn drop_oldest(&mut self) {
        let Some(key) = self.order.pop_front() else {
            self.bytes = 0;
            return;
        };
        let oldest = self.sessions.get_mut(&key).and_then(|session| session.commits.pop_front());
        self.bytes -= oldest.map_or(0, |commit| commit.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::PartId;
    use crate::model::ids::{MessageId, SessionId};
    use crate::model::message::{Finish, Message, Role};
    use crate::model::part::{Part, PartBody};
    use crate::model::time::Timestamp;
    use uuid::Uuid;

    fn newest(at: Revision) -> Newest {
        Newest { at, first_open: None, pending: PendingWork::default(), appended_bytes: 0 }
    }

    fn source(revision: Revision, bytes: usize) -> SourceMessage {
        let body = PartBody::Text("a".repeat(bytes));
        let part = Part { id: PartId(Uuid::nil()), client_id: None, revision, body: body.into(), metadata_json: None };
        let message = Message {
            id: MessageId(Uuid::nil()),
            session_id: SessionId(Uuid::nil()),
            client_id: None,
            revision,
            role: Role::User,
            kind: MessageKind::Normal,
            parts: vec![part],
            sealed_revision: Some(revision),
            finish: Finish::default(),
            model: String::new(),
            provider: String::new(),
            create_time: Timestamp::default(),
            origin_time: None,
            actor: String::new(),
            metadata_json: None,
            replaces: None,
        };
        SourceMessage { message: message.into(), placement: None, pruned: Vec::new(), counts: None }
    }

    fn appended(revision: Revision, bytes: usize) -> Option<Changes> {
        Some(Changes { messages: vec![source(revision, bytes)], ..Changes::from(revision) })
    }

    fn since(recent: &Recent, known: Revision, at_least: Option<Revision>) -> Option<(Revision, Vec<Revision>)> {
        let (newest, messages) = recent.since(1, known, at_least)?;
        Some((newest.at, messages.iter().map(|source| source.message.revision).collect()))
    }

    #[test]
    fn messages_come_from_memory_as_far_back_as_it_reaches() {
        let recent = Recent::default();
        assert_eq!(since(&recent, 4, None), None, "nothing was committed yet");
        recent.committed(vec![(1, newest(5), appended(5, 1))]);
        recent.committed(vec![(1, newest(6), appended(6, 1)), (2, newest(9), appended(9, 1))]);
        recent.committed(vec![(1, newest(6), None)]);
        assert_eq!(since(&recent, 4, None), Some((6, vec![5, 6])));
        assert_eq!(since(&recent, 5, None), Some((6, vec![6])));
        assert_eq!(since(&recent, 6, None), Some((6, vec![])));
        assert_eq!(since(&recent, 3, None), None, "before the first commit");
        assert_eq!(since(&recent, 7, None), None, "a query has seen more");
        recent.forget();
        assert_eq!(since(&recent, 6, None), None);
    }

    #[test]
    fn a_change_of_another_kind_ends_what_is_known() {
        let recent = Recent::default();
        recent.committed(vec![(1, newest(5), appended(5, 1))]);
        let open = EventBody::MessageAppended {
            message: MessageId(Uuid::nil()),
            client_id: None,
            role: Role::User,
            kind: MessageKind::Normal,
            part_count: 1,
            sealed: false,
        };
        for (at, body) in [(6, open), (8, EventBody::SessionArchived)] {
            let mut changes = Changes::from(at);
            changes.note(&body);
            recent.committed(vec![(1, newest(at), Some(changes))]);
            assert_eq!(since(&recent, at - 1, None), None, "{body:?}");
            recent.committed(vec![(1, newest(at + 1), appended(at + 1, 1))]);
            assert_eq!(since(&recent, at, None), Some((at + 1, vec![at + 1])));
            assert_eq!(since(&recent, at - 1, None), None, "{body:?}");
        }
    }

    #[test]
    fn while_a_commit_runs_only_those_who_ask_for_an_earlier_one_are_answered() {
        let recent = Recent::default();
        recent.committed(vec![(1, newest(5), appended(5, 1))]);
        recent.begin([1, 2]);
        assert_eq!(since(&recent, 4, None), None, "a query may see more already");
        assert_eq!(since(&recent, 4, Some(5)), Some((5, vec![5])));
        assert_eq!(since(&recent, 4, Some(6)), None);
        recent.committed(vec![(1, newest(6), appended(6, 1))]);
        assert_eq!(since(&recent, 4, None), Some((6, vec![5, 6])));
    }

    #[test]
    fn the_oldest_commits_go_first() {
        let recent = Recent::default();
        let half = limits::RECENT_BYTES / 2;
        recent.committed(vec![(1, newest(1), appended(1, half))]);
        recent.committed(vec![(2, newest(1), appended(1, 1))]);
        recent.committed(vec![(1, newest(2), appended(2, half))]);
        assert_eq!(since(&recent, 0, None), None);
        assert_eq!(since(&recent, 1, None), Some((2, vec![2])));
        assert!(recent.since(2, 0, None).is_some());
        for at in 3..10 {
            recent.committed(vec![(1, newest(at), appended(at, half))]);
            assert!(recent.kept().bytes <= limits::RECENT_BYTES);
        }
        for _ in 0..2 * limits::RECENT_COMMITS {
            recent.committed(vec![(2, newest(2), appended(2, 1))]);
            recent.committed(vec![(2, newest(3), Some(Changes { is_plain: false, ..Changes::from(3) }))]);
        }
        assert!(recent.kept().order.len() <= limits::RECENT_COMMITS);
    }
}
