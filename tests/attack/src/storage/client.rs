//! A client that records its requests and their answers.

use super::running::{Running, soon};
use crate::vfs::Disk;
use anyhow::Result;
use longhand::app::append::{NewDraftText, OpenPart};
use longhand::app::compactions::{NewCompaction, NewSummary};
use longhand::app::sessions::{ForkPoint, NewSession, SessionChange};
use longhand::app::views::{ServedView, ViewRequest};
use longhand::app::{Caller, Error, Longhand, Reason, RequestKey};
use longhand::model::Revision;
use longhand::model::compaction::CompactionKind;
use longhand::model::ids::PartId;
use longhand::model::message::{NewFinish, NewMessage};
use longhand::model::part::NewPart;
use longhand::model::view::ViewMessage;
use longhand::store::Requester;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use uuid::Uuid;

/// The actions of a client. They name sessions, messages and drafts by the client's own ids, so that a repeated request
/// is identical.
#[derive(Debug, Clone)]
pub enum Act {
    /// Creates a session.
    Create(Box<NewSession>),
    /// Appends messages.
    Append(Vec<NewMessage>),
    /// Appends parts to an open message.
    Parts(String, Vec<NewPart>),
    /// Adds text to a draft: the message, the draft, its text so far, and the text to add.
    Draft(String, String, String, String),
    /// Finishes an open message.
    Finish(String, NewFinish),
    /// Replaces the parts of a message.
    Edit(String, Vec<NewPart>),
    /// Rewinds to a message.
    Rewind(String),
    /// Pins a message; `true` unpins it.
    Pin(String, bool),
    /// Undoes the newest change of the view.
    Undo,
    /// Redoes it.
    Redo,
    /// Forks the session; the fork gets this client id.
    Fork(String),
    /// Changes the title.
    Title(String),
    /// Archives the session; `true` restores it.
    Archive(bool),
    /// Starts a compaction by hand.
    Compact(CompactionKind),
    /// Supplies a summary of everything before a message.
    Supply(String),
}

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The session's client id.
    pub session: String,
    /// The request id.
    pub key: String,
    /// The action.
    pub act: Act,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Ids of the rows made or changed.
    pub ids: Vec<Uuid>,
    /// The session's revision; none for answers without one.
    pub revision: Option<Revision>,
}

/// The outcome of a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Carried out.
    Done(Answer),
    /// Refused, with its error.
    Refused(Error),
}

/// A request with its outcome.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The request.
    pub request: Request,
    /// The moment of the disk's recording before the request was sent.
    pub sent: usize,
    /// The outcome, and the moment of the recording when the client got it; none if the power was cut before.
    pub reply: Option<(usize, Reply)>,
    /// True if a sync had failed before the request was sent.
    pub after_failed_sync: bool,
}

/// A view that was read.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The session's client id.
    pub session: String,
    /// The view's revision.
    pub revision: Revision,
    /// Its hash.
    pub hash: [u8; 32],
    /// Its messages, to show where they differ later.
    pub messages: Vec<ViewMessage>,
    /// The moment of the disk's recording when the view was read.
    pub moment: usize,
}

/// A client's record.
#[derive(Debug, Clone, Default)]
pub struct Client {
    /// All requests, in order.
    pub entries: Vec<Entry>,
    /// All views that it read.
    pub views: Vec<Seen>,
    /// Number of failed syncs that the store could not notice.
    pub unheard_syncs: usize,
}

/// True if the error guarantees that nothing was written.
pub fn nothing_was_written(error: &Error) -> bool {
    !matches!(error.reason, Reason::AnswerLost | Reason::OutcomeUncertain | Reason::ShuttingDown)
}

impl Client {
    /// Sends a request and records its outcome; true if it was carried out.
    pub async fn send(&mut self, disk: &Disk, running: &Running, request: Request) -> Result<bool> {
        Ok(self.send_together(disk, running, vec![request]).await? > 0)
    }

    /// Sends requests concurrently; returns how many were carried out.
    pub async fn send_together(&mut self, disk: &Disk, running: &Running, requests: Vec<Request>) -> Result<usize> {
        let sent = disk.moment();
        let after_failed_sync = disk.struck_syncs() > self.unheard_syncs;
        let mut asked = Vec::new();
        for request in &requests {
            let (longhand, request) = (running.longhand.clone(), request.clone());
            asked.push(tokio::spawn(async move { carry_out(&longhand, &request).await }));
        }
        let mut done = 0;
        for (request, asked) in requests.into_iter().zip(asked) {
            let reply = match soon(&format!("{request:.200?}"), asked).await?? {
                Ok(answer) => Reply::Done(answer),
                Err(error) => Reply::Refused(error),
            };
            done += usize::from(matches!(reply, Reply::Done(_)));
            self.entries.push(Entry { request, sent, reply: Some((disk.moment(), reply)), after_failed_sync });
        }
        Ok(done)
    }

    /// Reads a view and records it; false, without a record, if the read fails.
    pub async fn read_view(&mut self, disk: &Disk, running: &Running, session: &str) -> Result<bool> {
        let read = running.app.views().get(session, ViewRequest::default());
        let Ok(view) = soon("a view", read).await? else { return Ok(false) };
        let ServedView { revision, hash, messages, .. } = view;
        self.views.push(Seen { session: session.to_owned(), revision, hash, messages, moment: disk.moment() });
        Ok(true)
    }

    /// The same record, for a recording that begins after it.
    #[must_use]
    pub fn as_of_before(mut self) -> Self {
        for entry in &mut self.entries {
            entry.sent = 0;
            if let Some((when, _)) = &mut entry.reply {
                *when = 0;
            }
        }
        self.views.iter_mut().for_each(|seen| seen.moment = 0);
        self
    }

    /// The client's knowledge at a moment of the recording.
    #[must_use]
    pub fn at(&self, moment: usize) -> Self {
        let known =
            |entry: &Entry| Entry { reply: entry.reply.clone().filter(|(when, _)| *when <= moment), ..entry.clone() };
        Self {
            entries: self.entries.iter().filter(|entry| entry.sent <= moment).map(known).collect(),
            views: self.views.iter().filter(|seen| seen.moment <= moment).cloned().collect(),
            unheard_syncs: self.unheard_syncs,
        }
    }
}

/// The author of a request, with the same payload hash at each repetition.
pub fn requester(request: &Request) -> Requester {
    let mut hasher = DefaultHasher::new();
    format!("{:?}", request.act).hash(&mut hasher);
    let mut payload_hash = [0; 32];
    payload_hash[..8].copy_from_slice(&hasher.finish().to_le_bytes());
    let key = RequestKey { id: request.key.clone(), payload_hash };
    Requester { actor: "attack".to_owned(), request: Some(key), ..Requester::default() }
}

/// Carries out a request.
pub async fn carry_out(longhand: &Longhand, request: &Request) -> Result<Answer, Error> {
    let session = request.session.as_str();
    let Requester { actor, request: key, .. } = requester(request);
    let caller = &longhand.caller(longhand::app::access::Access::owner(), actor, key)?;
    let at = |ids: Vec<Uuid>, revision: Revision| Answer { ids, revision: Some(revision) };
    Ok(match &request.act {
        Act::Create(new) => {
            let (info, _) = caller.sessions().create((**new).clone()).await?.answer;
            Answer { ids: vec![info.session.id.0], revision: None }
        }
        Act::Append(messages) => {
            let appended = caller.messages().append(session, messages.clone(), None, None).await?;
            at(appended.answer.ids, appended.answer.revision)
        }
        Act::Parts(message, parts) => {
            let parts = parts.iter().cloned().map(OpenPart::Whole).collect();
            let appended = caller.messages().append_parts(session, message, parts).await?;
            at(appended.answer.ids, appended.answer.revision)
        }
        Act::Draft(message, draft, before, delta) => {
            let part = add_to_draft(caller, session, message, draft, before, delta).await?;
            Answer { ids: vec![part.0], revision: None }
        }
        Act::Finish(message, finish) => {
            let finished = caller.messages().finish(session, message, finish.clone(), None).await?;
            at(finished.answer.ids, finished.answer.revision)
        }
        Act::Edit(message, parts) => {
            let receipt = caller.messages().edit(session, message, parts, None).await?;
            at(receipt.answer.ids, receipt.answer.revision)
        }
        Act::Rewind(message) => {
            let receipt = caller.messages().rewind(session, message, None).await?;
            at(receipt.ids, receipt.revision)
        }
        Act::Pin(message, unpin) => {
            let receipt = match unpin {
                true => caller.messages().unpin(session, message).await?,
                false => caller.messages().pin(session, message).await?,
            };
            at(receipt.ids, receipt.revision)
        }
        Act::Undo => {
            let (_, receipt) = caller.compactions().undo(session, None).await?;
            at(receipt.ids, receipt.revision)
        }
        Act::Redo => {
            let (_, receipt) = caller.compactions().redo(session, None).await?;
            at(receipt.ids, receipt.revision)
        }
        Act::Fork(client_id) => {
            let point = ForkPoint::default();
            let (info, _) =
                caller.sessions().fork(session, point, Some(client_id.clone()), String::new()).await?.answer;
            Answer { ids: vec![info.session.id.0], revision: None }
        }
        Act::Title(title) => {
            let change = SessionChange { title: Some(title.clone()), ..SessionChange::default() };
            let changed = caller.sessions().update(session, change).await?;
            at(Vec::new(), changed.revision)
        }
        Act::Archive(restore) => {
            let changed = match restore {
                true => caller.sessions().restore(session).await?,
                false => caller.sessions().archive(session).await?,
            };
            at(Vec::new(), changed.revision)
        }
        Act::Compact(kind) => {
            let (compaction, _) = caller.compactions().start(session, NewCompaction::of_kind(*kind)).await?.answer;
            Answer { ids: vec![compaction.id.0], revision: None }
        }
        Act::Supply(tail_start) => {
            let summary = NewSummary {
                text: "We talked about the deploy key, and it is stored in vault seven.".to_owned(),
                tail_start: tail_start.clone(),
                ..NewSummary::default()
            };
            let (compaction, receipt) = caller.compactions().supply_summary(session, summary).await?.answer;
            at(vec![compaction.id.0], receipt.revision)
        }
    })
}

/// Adds text to a draft, unless it is there already: the text before it identifies the draft and its length.
async fn add_to_draft(
    app: &Caller,
    session: &str,
    message: &str,
    draft: &str,
    before: &str,
    delta: &str,
) -> Result<PartId, Error> {
    let words = |part: Option<PartId>, offset: &str, delta: &str| NewDraftText {
        part,
        client_id: Some(draft.to_owned()),
        kind: longhand::model::draft::DraftKind::Text,
        offset: i64::try_from(offset.len()).unwrap_or(i64::MAX),
        delta: delta.to_owned(),
    };
    if before.is_empty() {
        return app.messages().append_draft(session, message, words(None, "", delta)).await.map(|receipt| receipt.part);
    }
    // A draft that begins with this text is found, and nothing is added to it.
    let found = app.messages().append_draft(session, message, words(None, "", before)).await?;
    if usize::try_from(found.length).is_ok_and(|length| length > before.len()) {
        return Ok(found.part);
    }
    app.messages()
        .append_draft(session, message, words(Some(found.part), before, delta))
        .await
        .map(|receipt| receipt.part)
}
