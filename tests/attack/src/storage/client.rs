//! A client that keeps a record of what it asked for and what it was told.

use super::running::{Running, soon};
use crate::vfs::Disk;
use anyhow::Result;
use longhand::app::append::{DraftWordsToAdd, OpenPart};
use longhand::app::compactions::{NewSummary, Wanted};
use longhand::app::context::{Context, ContextRequest};
use longhand::app::sessions::{ForkPoint, NewSession, SessionChange};
use longhand::app::{Caller, Error, Longhand, Reason, RequestKey};
use longhand::model::Revision;
use longhand::model::compaction::CompactionKind;
use longhand::model::ids::PartId;
use longhand::model::message::{NewFinish, NewMessage};
use longhand::model::part::NewPart;
use longhand::model::view::ViewMessage;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use uuid::Uuid;

/// What a client asks for. Sessions, messages and drafts go by the client's own ids, so that a request is the same when it
/// is sent again.
#[derive(Debug, Clone)]
pub enum Act {
    /// A new session.
    Create(Box<NewSession>),
    /// Messages.
    Append(Vec<NewMessage>),
    /// Parts of an open message.
    Parts(String, Vec<NewPart>),
    /// Words of a draft: the message, the draft, what it has, and what is added.
    Draft(String, String, String, String),
    /// The end of an open message.
    Finish(String, NewFinish),
    /// Other parts for a message.
    Edit(String, Vec<NewPart>),
    /// Everything behind a message away.
    Rewind(String),
    /// A message kept, or no longer.
    Pin(String, bool),
    /// The newest change of the view taken back.
    Undo,
    /// And brought back.
    Redo,
    /// A fork with this client id.
    Fork(String),
    /// Another title.
    Title(String),
    /// The session put away, or taken out again.
    Archive(bool),
    /// A compaction by hand.
    Compact(CompactionKind),
    /// A summary in place of what stands before a message.
    Supply(String),
}

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The session's client id.
    pub session: String,
    /// The request id.
    pub key: String,
    /// What is asked for.
    pub act: Act,
}

/// What a request was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What was made or changed.
    pub ids: Vec<Uuid>,
    /// The session's revision; none for what has none.
    pub revision: Option<Revision>,
}

/// What a client was told.
#[derive(Debug, Clone)]
pub enum Told {
    /// It is done.
    Done(Answer),
    /// It is not done, and why.
    Refused(Error),
}

/// A request with what became of it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The request.
    pub request: Request,
    /// The moment of the disk's recording before it was sent.
    pub sent: usize,
    /// What the client was told, and the moment at which it knew; none if the power was cut before.
    pub told: Option<(usize, Told)>,
    /// Whether a sync had failed before it was sent.
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
    /// Its messages, to be told where they differ later.
    pub messages: Vec<ViewMessage>,
    /// The moment of the disk's recording at which it was there.
    pub moment: usize,
}

/// A client's record.
#[derive(Debug, Clone, Default)]
pub struct Client {
    /// Everything it asked for, in order.
    pub entries: Vec<Entry>,
    /// Every view it read.
    pub views: Vec<Seen>,
    /// Syncs that failed past the store.
    pub unheard_syncs: usize,
}

/// Whether an error says that nothing was written.
pub fn nothing_was_written(error: &Error) -> bool {
    !matches!(error.reason, Reason::AnswerLost | Reason::OutcomeUncertain | Reason::ShuttingDown)
}

impl Client {
    /// Sends a request and notes what came of it.
    pub async fn send(&mut self, disk: &Disk, running: &Running, request: Request) -> Result<bool> {
        Ok(self.send_together(disk, running, vec![request]).await? > 0)
    }

    /// Sends requests at the same time; says how many were done.
    pub async fn send_together(&mut self, disk: &Disk, running: &Running, requests: Vec<Request>) -> Result<usize> {
        let sent = disk.moment();
        let after_failed_sync = disk.struck_syncs() > self.unheard_syncs;
        let mut asked = Vec::new();
        for request in &requests {
            let (app, request) = (running.app.clone(), request.clone());
            asked.push(tokio::spawn(async move { carry_out(&app, &request).await }));
        }
        let mut done = 0;
        for (request, asked) in requests.into_iter().zip(asked) {
            let told = match soon(&format!("{request:.200?}"), asked).await?? {
                Ok(answer) => Told::Done(answer),
                Err(error) => Told::Refused(error),
            };
            done += usize::from(matches!(told, Told::Done(_)));
            self.entries.push(Entry { request, sent, told: Some((disk.moment(), told)), after_failed_sync });
        }
        Ok(done)
    }

    /// Reads a view and notes it; a read that fails is told and noted nowhere.
    pub async fn look(&mut self, disk: &Disk, running: &Running, session: &str) -> Result<bool> {
        let read = running.app.context(session, ContextRequest::default());
        let Ok(context) = soon("a view", read).await? else { return Ok(false) };
        let Context { revision, hash, messages, .. } = context;
        self.views.push(Seen { session: session.to_owned(), revision, hash, messages, moment: disk.moment() });
        Ok(true)
    }

    /// The same record for a recording that begins afterwards.
    #[must_use]
    pub fn as_of_before(mut self) -> Self {
        for entry in &mut self.entries {
            entry.sent = 0;
            if let Some((when, _)) = &mut entry.told {
                *when = 0;
            }
        }
        self.views.iter_mut().for_each(|seen| seen.moment = 0);
        self
    }

    /// What the client knew at a moment of the recording.
    #[must_use]
    pub fn at(&self, moment: usize) -> Self {
        let known =
            |entry: &Entry| Entry { told: entry.told.clone().filter(|(when, _)| *when <= moment), ..entry.clone() };
        Self {
            entries: self.entries.iter().filter(|entry| entry.sent <= moment).map(known).collect(),
            views: self.views.iter().filter(|seen| seen.moment <= moment).cloned().collect(),
            unheard_syncs: self.unheard_syncs,
        }
    }
}

/// The caller of a request, whose payload is the same as often as it is sent.
pub fn caller(request: &Request) -> Caller {
    let mut hasher = DefaultHasher::new();
    format!("{:?}", request.act).hash(&mut hasher);
    let mut payload_hash = [0; 32];
    payload_hash[..8].copy_from_slice(&hasher.finish().to_le_bytes());
    Caller { actor: "attack".to_owned(), request: Some(RequestKey { id: request.key.clone(), payload_hash }) }
}

/// Does what a request asks for.
pub async fn carry_out(app: &Longhand, request: &Request) -> Result<Answer, Error> {
    let session = request.session.as_str();
    let caller = caller(request);
    let at = |ids: Vec<Uuid>, revision: Revision| Answer { ids, revision: Some(revision) };
    Ok(match &request.act {
        Act::Create(new) => {
            let (info, _) = app.create_session((**new).clone(), caller).await?;
            Answer { ids: vec![info.session.id.0], revision: None }
        }
        Act::Append(messages) => {
            let appended = app.append(session, messages.clone(), None, None, caller).await?;
            at(appended.ids, appended.revision)
        }
        Act::Parts(message, parts) => {
            let parts = parts.iter().cloned().map(OpenPart::Whole).collect();
            let appended = app.append_parts(session, message, parts, caller).await?;
            at(appended.ids, appended.revision)
        }
        Act::Draft(message, draft, before, delta) => {
            let part = add_to_draft(app, session, message, draft, before, delta).await?;
            Answer { ids: vec![part.0], revision: None }
        }
        Act::Finish(message, finish) => {
            let finished = app.finish_message(session, message, finish.clone(), None, caller).await?;
            at(finished.ids, finished.revision)
        }
        Act::Edit(message, parts) => {
            let receipt = app.edit(session, message, parts, None, caller).await?;
            at(receipt.ids, receipt.revision)
        }
        Act::Rewind(message) => {
            let receipt = app.rewind(session, message, None, caller).await?;
            at(receipt.ids, receipt.revision)
        }
        Act::Pin(message, unpin) => {
            let receipt = app.pin(session, message, *unpin, caller).await?;
            at(receipt.ids, receipt.revision)
        }
        Act::Undo => {
            let (_, receipt) = app.undo(session, None, caller).await?;
            at(receipt.ids, receipt.revision)
        }
        Act::Redo => {
            let (_, receipt) = app.redo(session, None, caller).await?;
            at(receipt.ids, receipt.revision)
        }
        Act::Fork(client_id) => {
            let point = ForkPoint::default();
            let (info, _) = app.fork_session(session, point, Some(client_id.clone()), String::new(), caller).await?;
            Answer { ids: vec![info.session.id.0], revision: None }
        }
        Act::Title(title) => {
            let change = SessionChange { title: Some(title.clone()), ..SessionChange::default() };
            let changed = app.update_session(session, change, caller).await?;
            at(Vec::new(), changed.revision)
        }
        Act::Archive(restore) => {
            let changed = app.archive_session(session, *restore, caller).await?;
            at(Vec::new(), changed.revision)
        }
        Act::Compact(kind) => {
            let (compaction, _) = app.start_compaction(session, Wanted::of(*kind), caller).await?;
            Answer { ids: vec![compaction.id.0], revision: None }
        }
        Act::Supply(tail_start) => {
            let summary = NewSummary {
                text: "We talked about the deploy key, and it is stored in vault seven.".to_owned(),
                tail_start: tail_start.clone(),
                ..NewSummary::default()
            };
            let (compaction, receipt) = app.supply_summary(session, summary, caller).await?;
            at(vec![compaction.id.0], receipt.revision)
        }
    })
}

/// Adds words to a draft, unless they are there: the words before them say which draft it is and how far it came.
async fn add_to_draft(
    app: &Longhand,
    session: &str,
    message: &str,
    draft: &str,
    before: &str,
    delta: &str,
) -> Result<PartId, Error> {
    let words = |part: Option<PartId>, offset: &str, delta: &str| DraftWordsToAdd {
        part,
        client_id: Some(draft.to_owned()),
        reasoning: false,
        offset: i64::try_from(offset.len()).unwrap_or(i64::MAX),
        delta: delta.to_owned(),
    };
    if before.is_empty() {
        return app.append_draft(session, message, words(None, "", delta)).await.map(|receipt| receipt.part);
    }
    // A draft that began with these words is found, and nothing is added to it.
    let found = app.append_draft(session, message, words(None, "", before)).await?;
    if usize::try_from(found.length).is_ok_and(|length| length > before.len()) {
        return Ok(found.part);
    }
    app.append_draft(session, message, words(Some(found.part), before, delta)).await.map(|receipt| receipt.part)
}
