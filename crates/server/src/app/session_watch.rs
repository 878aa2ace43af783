//! A list of sessions that stays as it is: a snapshot, and then its changes.
//!
//! Nothing is kept of what the list had before. Each event leads to its session as it is now: one that the filter admits is
//! in the list, and one that it does not admit may have left it. What comes twice is the same, so the stream can be
//! resumed behind any event.

use super::Caller;
use super::error::{Error, Result};
use super::events::{Frame, Start, SubscribeRequest};
use super::feed::EventFeed;
use super::nouns::Sessions;
use super::session_list::{SessionConditions, SessionOrder};
use super::sessions::SessionInfo;
use crate::limits;
use crate::model::event::EventBody;
use crate::model::ids::SessionId;
use crate::store::{ListPosition, ListedSession, SessionFilter, SessionKey, SessionList};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// A frame of the stream.
#[derive(Debug, Clone, PartialEq)]
pub enum ListFrame {
    /// Sessions of the snapshot, newest first.
    Snapshot {
        /// The sessions.
        sessions: Vec<SessionInfo>,
    },
    /// The snapshot is complete.
    SnapshotEnd {
        /// The position after it.
        cursor: String,
    },
    /// Changes of the list.
    Changes {
        /// Sessions that came or changed, as they are now.
        sessions: Vec<SessionInfo>,
        /// Sessions that are not in the list, and may have been.
        removed: Vec<SessionId>,
        /// The position after them.
        cursor: String,
    },
    /// Nothing else changed up to this position.
    Progress {
        /// The position.
        cursor: String,
    },
}

/// A session with new events.
#[derive(Debug, Clone, Copy)]
struct ChangedSession {
    id: SessionId,
    /// True if it may have left the list.
    may_leave: bool,
    /// True if forks of it may have changed with it, without an event of their own.
    spreads: bool,
}

/// The frames of a list, as its client takes them.
pub struct SessionWatch {
    caller: Caller,
    feed: EventFeed,
    list: SessionList,
    /// The place behind which the snapshot goes on; none once it is complete.
    snapshot: Option<Option<ListPosition>>,
    /// The position of the frames that were handed out.
    cursor: String,
    /// Sessions with new events, each once.
    changed: VecDeque<ChangedSession>,
    /// The position behind those events.
    next_cursor: String,
    /// When the client last got a position.
    last_position_time: Instant,
    is_over: bool,
}

/// What an event changes of what the conditions of a list are about, beside the time of the last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Changes {
    Nothing,
    /// The session's state, title, client id or labels.
    Session,
    /// Its metadata as well, which forks may have from it.
    Metadata,
}

impl Changes {
    /// A new event has to decide.
    fn from_event(body: &EventBody) -> Self {
        match body {
            EventBody::SessionUpdated { metadata_json: Some(_), .. } | EventBody::Erased { .. } => Self::Metadata,
            EventBody::SessionUpdated { metadata_json: None, .. }
            | EventBody::SessionArchived
            | EventBody::SessionRestored
            | EventBody::LabelAdded { .. }
            | EventBody::LabelRemoved { .. } => Self::Session,
            EventBody::SessionCreated { .. }
            | EventBody::SessionForked { .. }
            | EventBody::PolicyChanged { .. }
            | EventBody::MessageAppended { .. }
            | EventBody::PartsClosed { .. }
            | EventBody::MessageFinished { .. }
            | EventBody::UsageRecorded { .. }
            | EventBody::SessionRewound { .. }
            | EventBody::MessageEdited { .. }
            | EventBody::MessagePinned { .. }
            | EventBody::MessageUnpinned { .. }
            | EventBody::WordsMarked { .. }
            | EventBody::CompactionStarted { .. }
            | EventBody::CompactionProposed { .. }
            | EventBody::CompactionRetried { .. }
            | EventBody::CompactionFailed { .. }
            | EventBody::CompactionCancelled { .. }
            | EventBody::Compacted { .. }
            | EventBody::PartsPruned { .. }
            | EventBody::CompactionUndone { .. }
            | EventBody::CompactionRedone { .. }
            | EventBody::RewriteUndone(_)
            | EventBody::RewriteRedone(_)
            | EventBody::RunStarted { .. }
            | EventBody::RunEnded { .. }
            | EventBody::RunCancelRequested { .. }
            | EventBody::PromptSubmitted { .. }
            | EventBody::PromptMoved { .. }
            | EventBody::PromptTaken { .. }
            | EventBody::PromptWithdrawn { .. }
            | EventBody::ApprovalRequested { .. }
            | EventBody::ApprovalEnded { .. } => Self::Nothing,
        }
    }
}

/// Sessions that are read at a time.
const CHUNK: usize = 16;

impl SessionWatch {
    /// The next frame, or the error that ends the stream; none after that.
    pub async fn next(&mut self) -> Option<Result<ListFrame>> {
        if self.is_over {
            return None;
        }
        let frame = self.frame().await;
        self.is_over = !matches!(frame, Some(Ok(_)));
        frame
    }

    async fn frame(&mut self) -> Option<Result<ListFrame>> {
        if let Some(start) = self.snapshot {
            return Some(self.snapshot_from(start).await);
        }
        loop {
            if !self.changed.is_empty() {
                match self.changes().await {
                    Ok(Some(frame)) => return Some(Ok(frame)),
                    Ok(None) => {}
                    Err(error) => return Some(Err(error)),
                }
            }
            if self.last_position_time.elapsed() >= Duration::from_millis(limits::PROGRESS_INTERVAL_MS_DEFAULT) {
                return Some(Ok(self.progress()));
            }
            match self.feed.next().await? {
                Ok(Frame::Events { events, cursor }) => {
                    for event in &events {
                        self.note(event.event.session_id, &event.event.body);
                    }
                    self.next_cursor = cursor.to_string();
                }
                Ok(Frame::Progress { cursor, .. }) => {
                    self.cursor = cursor;
                    return Some(Ok(self.progress()));
                }
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn progress(&mut self) -> ListFrame {
        self.last_position_time = Instant::now();
        ListFrame::Progress { cursor: self.cursor.clone() }
    }

    /// The next page of the snapshot. No reader is held between two pages: what changes meanwhile comes as an event.
    async fn snapshot_from(&mut self, mut start: Option<ListPosition>) -> Result<ListFrame> {
        loop {
            let most = (limits::PAGE_SIZE_MAX, limits::EVENT_FRAME_BYTES);
            let (sessions, next) = self.caller.store().sessions().list(&self.list, start, most).await?;
            start = next;
            self.snapshot = next.map(Some);
            if !sessions.is_empty() {
                // The end is a frame of its own.
                self.snapshot = Some(next.or(Some(END)));
                let sessions = sessions.into_iter().map(|listed| self.caller.sessions().listed_info(listed)).collect();
                return Ok(ListFrame::Snapshot { sessions });
            }
            if next.is_none() {
                self.last_position_time = Instant::now();
                return Ok(ListFrame::SnapshotEnd { cursor: self.cursor.clone() });
            }
        }
    }

    /// Notes a session with a new event.
    fn note(&mut self, id: SessionId, body: &EventBody) {
        let changes = Changes::from_event(body);
        let may_leave = self.list.filter.ends() || changes > Changes::Nothing;
        let spreads = self.list.filter.reads_metadata() && changes == Changes::Metadata;
        match self.changed.iter_mut().find(|changed| changed.id == id) {
            Some(changed) => {
                changed.may_leave |= may_leave;
                changed.spreads |= spreads;
            }
            None => self.changed.push_back(ChangedSession { id, may_leave, spreads }),
        }
    }

    /// A frame with sessions that have new events, as they are now; none if the list has none of them.
    async fn changes(&mut self) -> Result<Option<ListFrame>> {
        let (mut sessions, mut removed) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        while !self.changed.is_empty() && bytes < limits::EVENT_FRAME_BYTES {
            let chunk: Vec<ChangedSession> = self.changed.drain(..self.changed.len().min(CHUNK)).collect();
            let ids: Vec<SessionId> = chunk.iter().map(|changed| changed.id).collect();
            let listed_sessions = self.caller.store().sessions().current(&self.list.filter, &ids).await?;
            for (changed, (key, listed)) in chunk.into_iter().zip(listed_sessions) {
                match listed {
                    Some(listed) => {
                        bytes += bytes_of(&listed);
                        sessions.push(self.caller.sessions().listed_info(listed));
                    }
                    None if changed.may_leave && self.caller.sees(key).await? => removed.push(changed.id),
                    None => {}
                }
                if changed.spreads {
                    self.spread(key).await?;
                }
            }
        }
        if self.changed.is_empty() {
            self.cursor.clone_from(&self.next_cursor);
        }
        if sessions.is_empty() && removed.is_empty() {
            return Ok(None);
        }
        self.last_position_time = Instant::now();
        Ok(Some(ListFrame::Changes { sessions, removed, cursor: self.cursor.clone() }))
    }

    /// Notes the forks that have the metadata of a session.
    async fn spread(&mut self, source: SessionKey) -> Result<()> {
        let mut behind = 0;
        loop {
            let forks = self.caller.store().sessions().inheriting(&[source], behind, limits::PAGE_SIZE_MAX).await?;
            let Some((last, _)) = forks.last() else { return Ok(()) };
            behind = last.0;
            self.changed.extend(forks.iter().map(|(_, id)| ChangedSession { id: *id, may_leave: true, spreads: true }));
        }
    }
}

/// Behind every session of a list that begins with the newest.
const END: ListPosition = ListPosition { time: 0, key: 0 };

/// Approximate size of a session in bytes.
fn bytes_of(listed: &ListedSession) -> usize {
    let session = &listed.session;
    let labels: usize = session.labels.iter().map(String::len).sum();
    1_024 + session.title.len() + session.metadata_json.as_ref().map_or(0, String::len) + labels
}

impl Sessions<'_> {
    /// Follows a list of sessions: from a snapshot, or behind a position of an earlier stream with the same conditions.
    pub async fn watch(self, conditions: &SessionConditions, after: Option<&str>) -> Result<SessionWatch> {
        let filter: SessionFilter = self.filter(conditions).await?;
        let start = after.map_or(Start::Now, |cursor| Start::After(cursor.to_owned()));
        let request = SubscribeRequest { start, ..SubscribeRequest::default() };
        let mut feed = self.caller.events().subscribe(request).await?.feed();
        // The snapshot is read behind this position.
        let cursor = match feed.next().await {
            Some(Ok(Frame::Ready { cursor, .. })) => cursor,
            Some(Err(error)) => return Err(error),
            Some(Ok(_)) | None => return Err(Error::internal("an event stream does not begin with its position")),
        };
        Ok(SessionWatch {
            caller: self.caller.clone(),
            feed,
            list: SessionList { filter, order: SessionOrder::NewestFirst, has_policies: false },
            snapshot: after.is_none().then_some(None),
            cursor: cursor.clone(),
            changed: VecDeque::new(),
            next_cursor: cursor,
            last_position_time: Instant::now(),
            is_over: false,
        })
    }
}
