//! Messages that are written as a stream of frames.
//!
//! What has come while a commit was under way is committed together, and no frame is read before: the stream's own flow
//! control holds the writer back.

use super::append::{AppendAnswer, DraftEnd, NewDraftText, OpenPart};
use super::error::{Error, Reason, Result};
use super::nouns::Messages;
use super::quotas::StreamShare;
use super::secrets::ScreenedAnswer;
use super::{Caller, validate};
use crate::bus::{Next, Subscription};
use crate::limits;
use crate::model::draft::DraftKind;
use crate::model::event::{EventBody, EventKind};
use crate::model::ids::MessageId;
use crate::model::message::{NewFinish, NewMessage};
use crate::model::part::NewPart;
use crate::model::usage::ModelWindow;
use crate::store::{self, CheckedInput, DraftReceipt, DraftsWritten, EventFilter, Findings, RequestKey, SessionKey};
use crate::turns;
use futures::{FutureExt as _, Stream, StreamExt as _};
use std::pin::pin;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// The begin of a stream.
#[derive(Debug, Clone)]
pub struct WriteStart {
    /// The session, by any id.
    pub session: String,
    /// The message.
    pub target: WriteTarget,
    /// Makes the seal idempotent; empty for none.
    pub request_id: String,
}

/// The message that a stream writes.
#[derive(Debug, Clone)]
pub enum WriteTarget {
    /// An open message, by any id.
    Open(String),
    /// One to open, or to go on with.
    New(Box<NewMessage>),
}

/// A frame behind the first.
#[derive(Debug, Clone)]
pub enum WriteFrame {
    /// Text for a draft.
    Words(DraftWords),
    /// A closed part.
    Part(NewPart),
    /// A draft closes.
    DraftEnd(DraftEnd),
    /// The writer is still there.
    Heartbeat,
    /// The message ends.
    End(Box<MessageEnd>),
    /// A frame that cannot be read, with the reason.
    Refused(Error),
}

impl WriteFrame {
    fn bytes(&self) -> usize {
        let json_bytes = |json: &Option<String>| json.as_ref().map_or(0, String::len);
        match self {
            Self::Words(words) => words.delta.len(),
            Self::Part(part) => store::body_bytes(&part.body) + json_bytes(&part.metadata_json),
            Self::DraftEnd(end) => json_bytes(&end.metadata_json),
            Self::Heartbeat | Self::End(_) | Self::Refused(_) => 0,
        }
    }
}

/// Text for a draft.
#[derive(Debug, Clone)]
pub struct DraftWords {
    /// The client's own id of the part.
    pub client_id: String,
    /// What the draft becomes; none for the kind that was given before.
    pub kind: Option<DraftKind>,
    /// Bytes of the draft before the text; none for the end of the text that was sent before.
    pub offset: Option<i64>,
    /// The text.
    pub delta: String,
}

/// The end of a message.
#[derive(Debug, Clone)]
pub struct MessageEnd {
    /// Details of the seal.
    pub finish: NewFinish,
    /// The window for the figures of the answer.
    pub window: Option<ModelWindow>,
    /// A hash of the frame, to tell a repeated end from another one.
    pub hash: [u8; 32],
}

/// The answer to a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteAnswer {
    /// The message.
    pub message: MessageId,
    /// True if the stream has sealed it.
    pub sealed: bool,
    /// The answer of the last write that is part of history, or of the begin.
    pub newest: AppendAnswer,
    /// The drafts that got text, by their client ids.
    pub drafts: Vec<(String, DraftReceipt)>,
}

struct KnownDraft {
    client_id: String,
    kind: DraftKind,
    /// Bytes up to the end of the text that was sent.
    end: i64,
    written: Option<DraftReceipt>,
}

/// What is written at once.
enum WriteStep {
    /// Text for drafts, joined where it follows on.
    Words(Vec<NewDraftText>),
    /// A part, the end of a draft, or nothing to keep the message open.
    Part(Option<OpenPart>),
    End(Box<MessageEnd>),
}

/// A stream in progress.
struct OpenWrite {
    caller: Caller,
    key: SessionKey,
    session: String,
    message: MessageId,
    request_id: String,
    newest: AppendAnswer,
    /// What the rules for secrets found so far.
    found: Findings,
    drafts: Vec<KnownDraft>,
    /// Reason why nothing but a repeated end is accepted; none while the message is open.
    closed: Option<Error>,
    events: Subscription,
    /// True if something happened after which the message may take no more, and it was not looked at since.
    may_have_ended: bool,
    _permit: OwnedSemaphorePermit,
    _share: Option<StreamShare>,
}

impl Messages<'_> {
    /// Writes a message frame by frame, until its end, the end of the frames, or an error: of a frame, or because the
    /// message takes no more.
    pub async fn write<E: From<Error>>(
        self,
        start: WriteStart,
        frames: impl Stream<Item = std::result::Result<WriteFrame, E>> + Send,
    ) -> std::result::Result<ScreenedAnswer<WriteAnswer>, E> {
        let mut writing = self.begin_writing(start).await?;
        let mut frames = pin!(frames);
        loop {
            let first = tokio::select! {
                biased;
                error = writing.forced_end() => return Err(error.into()),
                first = frames.next() => first,
            };
            let (waiting, end) = waiting_frames(first, frames.as_mut());
            if let Some(written) = writing.write_all(waiting).await? {
                return Ok(written);
            }
            match end {
                FramesEnd::None => {}
                FramesEnd::Whole => return Ok(writing.left_open()?),
                FramesEnd::Broken(error) => return Err(error),
            }
        }
    }

    /// Opens the message, or finds it.
    async fn begin_writing(self, start: WriteStart) -> Result<OpenWrite> {
        let WriteStart { session, target, request_id } = start;
        if !request_id.is_empty() {
            validate::name("target.request_id", &request_id)?;
        }
        let key = self.caller.known(&session).await?.key;
        let share = self.caller.count_stream()?;
        let permit = self.caller.shared.writes.clone().try_acquire_owned().map_err(|_| {
            Error::new(Reason::TooManyStreams, "as many messages are written as streams as may be")
                .with("limit", limits::WRITE_CALLS_MAX)
        })?;
        // Begins before the message is looked at: what ends it after that is seen.
        let events = self.events_that_end(key);
        let (message, opened) = self.open_to_write(&session, key, target).await?;
        let mut findings = Findings::default();
        let (newest, closed) = match opened {
            Ok(opened) => {
                findings.join(opened.secrets);
                (opened.answer, None)
            }
            // An end that is sent again gets its first answer, whatever has become of the message.
            Err(error) if !request_id.is_empty() && closes(error.reason) => (AppendAnswer::default(), Some(error)),
            Err(error) => return Err(error.with("message_id", message)),
        };
        Ok(OpenWrite {
            caller: self.caller.clone(),
            key,
            session,
            message,
            request_id,
            newest,
            found: findings,
            drafts: Vec::new(),
            closed,
            events,
            may_have_ended: false,
            _permit: permit,
            _share: share,
        })
    }

    /// The message, and the answer of a first write to it or the reason why it takes none.
    async fn open_to_write(
        self,
        session: &str,
        key: SessionKey,
        target: WriteTarget,
    ) -> Result<(MessageId, Result<ScreenedAnswer<AppendAnswer>>)> {
        let mut secrets = Vec::new();
        let name = match target {
            WriteTarget::Open(name) => name,
            WriteTarget::New(message) => {
                let Some(client_id) = message.client_id.clone() else {
                    return Err(Error::field("target.new_message.client_id", "is not given"));
                };
                if message.finish.is_some() {
                    return Err(Error::field("target.new_message.open", "is false, and the stream writes the message"));
                }
                match self.append(session, vec![*message], None, None).await {
                    Ok(opened) if opened.existed_count == 0 => {
                        let id = opened.ids.first().copied().unwrap_or_default();
                        return Ok((MessageId(id), Ok(opened)));
                    }
                    Ok(known) => secrets = known.secrets,
                    Err(error) if closes(error.reason) => {
                        let message_id = self.caller.store().history().id(key, &client_id).await;
                        return message_id.map(|id| (id, Err(error.clone()))).map_err(|_| error);
                    }
                    Err(error) => return Err(error),
                }
                client_id
            }
        };
        let id = self.caller.store().history().id(key, &name).await?;
        // A write of nothing is refused for the same reasons as any other, and has no texts.
        let written = self.append_parts(session, &id.to_string(), Vec::new()).await;
        Ok((id, written.map(|written| ScreenedAnswer { secrets, ..written })))
    }

    /// Events after which a message may take no more, from now on.
    fn events_that_end(self, key: SessionKey) -> Subscription {
        let kinds = vec![EventKind::MessageFinished, EventKind::RunEnded, EventKind::SessionArchived];
        let filter = EventFilter { sessions: vec![key], kinds, visibility: None };
        let idle = Duration::from_millis(limits::PROGRESS_INTERVAL_MS_DEFAULT);
        self.caller.shared.bus.subscribe(
            self.caller.store().clone(),
            filter,
            self.caller.store().log().head_seq(),
            idle,
        )
    }
}

/// True for reasons after which a message takes nothing more, but a repeated end has its answer.
fn closes(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::MessageSealed
            | Reason::MessageExpired
            | Reason::RunLost
            | Reason::SessionArchived
            | Reason::SessionErased
    )
}

/// What comes behind the frames that waited.
enum FramesEnd<E> {
    /// Further frames.
    None,
    /// Nothing.
    Whole,
    Broken(E),
}

/// The frames that have come, up to what one commit takes.
fn waiting_frames<E>(
    first: Option<std::result::Result<WriteFrame, E>>,
    mut frames: std::pin::Pin<&mut impl Stream<Item = std::result::Result<WriteFrame, E>>>,
) -> (Vec<WriteFrame>, FramesEnd<E>) {
    let (mut waiting, mut bytes, mut next) = (Vec::new(), 0, Some(first));
    while let Some(frame) = next {
        match frame {
            None => return (waiting, FramesEnd::Whole),
            Some(Err(error)) => return (waiting, FramesEnd::Broken(error)),
            Some(Ok(frame)) => {
                let is_end = matches!(frame, WriteFrame::End(_));
                bytes += frame.bytes();
                waiting.push(frame);
                if is_end || bytes >= limits::WRITE_COMMIT_BYTES || waiting.len() >= limits::WRITE_COMMIT_FRAMES {
                    break;
                }
            }
        }
        next = frames.next().now_or_never();
    }
    (waiting, FramesEnd::None)
}

impl OpenWrite {
    /// Writes frames in their order, up to the first that is refused. Returns the answer if one of them is the end.
    async fn write_all(&mut self, frames: Vec<WriteFrame>) -> Result<Option<ScreenedAnswer<WriteAnswer>>> {
        let mut frames = frames;
        if self.closed.is_some() {
            // Text is compared with what was written before; parts and ends of drafts were written, or are refused with the
            // end.
            let is_compared = |frame: &WriteFrame| {
                matches!(frame, WriteFrame::Words(_) | WriteFrame::End(_) | WriteFrame::Refused(_))
            };
            frames.retain(is_compared);
        }
        let (steps, refusal) = self.steps(frames);
        for step in steps {
            match step {
                WriteStep::Words(words) => self.write_words(words).await?,
                WriteStep::Part(part) => self.write_part(part).await?,
                WriteStep::End(end) => return self.seal(*end).await.map(Some),
            }
        }
        refusal.map_or(Ok(None), |error| Err(self.with_place(error, None)))
    }

    /// What frames write, with the refusal of the frame behind them.
    fn steps(&mut self, frames: Vec<WriteFrame>) -> (Vec<WriteStep>, Option<Error>) {
        let mut steps = Vec::new();
        for frame in frames {
            let step = match frame {
                WriteFrame::Words(words) => {
                    let words = match self.draft_text(words) {
                        Ok(words) => words,
                        Err(refusal) => return (steps, Some(refusal)),
                    };
                    let rest = match steps.last_mut() {
                        Some(WriteStep::Words(before)) => join(before, words),
                        _ => Some(words),
                    };
                    let Some(words) = rest else { continue };
                    WriteStep::Words(vec![words])
                }
                WriteFrame::Refused(refusal) => return (steps, Some(refusal)),
                WriteFrame::Part(part) if part.client_id.is_none() => {
                    let refusal = Error::field("part.client_id", "is not given: the part could not be sent again");
                    return (steps, Some(refusal));
                }
                WriteFrame::Part(part) => WriteStep::Part(Some(OpenPart::Whole(part))),
                WriteFrame::DraftEnd(end) => WriteStep::Part(Some(OpenPart::Ended(end))),
                // One says as much as many.
                WriteFrame::Heartbeat if matches!(steps.last(), Some(WriteStep::Part(None))) => continue,
                WriteFrame::Heartbeat => WriteStep::Part(None),
                WriteFrame::End(end) => WriteStep::End(end),
            };
            steps.push(step);
        }
        (steps, None)
    }

    /// Text for a draft, with what the stream has said of the draft before.
    fn draft_text(&mut self, words: DraftWords) -> Result<NewDraftText> {
        let DraftWords { client_id, kind, offset, delta } = words;
        if client_id.is_empty() {
            return Err(Error::field("draft_text.client_id", "is empty"));
        }
        validate::client_id("draft_text.client_id", Some(&client_id))?;
        if let Some(kind) = &kind {
            validate::draft_kind(kind)?;
        }
        let draft = match self.drafts.iter().position(|draft| draft.client_id == client_id) {
            Some(index) => &mut self.drafts[index],
            None => {
                let kind = kind.clone().unwrap_or_default();
                self.drafts.push(KnownDraft { client_id: client_id.clone(), kind, end: 0, written: None });
                let last = self.drafts.len() - 1;
                &mut self.drafts[last]
            }
        };
        if kind.is_some_and(|kind| !kind.is_like(&draft.kind)) {
            return Err(store::Error::ClientIdReused { client_id }.into());
        }
        let offset = offset.unwrap_or(draft.end);
        draft.end = offset.saturating_add(i64::try_from(delta.len()).unwrap_or(i64::MAX));
        Ok(NewDraftText { part: None, client_id: Some(client_id), kind: draft.kind.clone(), offset, delta })
    }

    /// Waits until the tenant may make an append of this many parts or pieces. Refuses a writer whose access has ended
    /// meanwhile, or at the daemon's end: it may have much to write that came before.
    async fn may_write(&self, count: usize) -> Result<()> {
        tokio::select! {
            biased;
            error = cut_off(&self.caller) => Err(error),
            counted = self.caller.wait_for_append(count) => counted,
        }
    }

    /// Commits text, and then sends it to subscribers.
    async fn write_words(&mut self, words: Vec<NewDraftText>) -> Result<()> {
        self.may_write(words.len()).await.map_err(|error| self.with_place(error, None))?;
        self.caller.known(&self.session).await.map_err(|error| self.with_place(error, None))?;
        let names: Vec<String> = words.iter().filter_map(|words| words.client_id.clone()).collect();
        let (caller, key, message) = (self.caller.clone(), self.key, self.message);
        // A writer that leaves does not keep subscribers from text that is committed.
        let written = turns::spawn(async move {
            let history = caller.store().history();
            let written = history.append_drafts(key, &caller.requester, message, words.clone()).await?;
            for (words, receipt) in words.into_iter().zip(&written.receipts) {
                caller.messages().announce(key, message, words.kind, receipt);
            }
            Ok::<_, Error>(written)
        });
        let written = written.await.map_err(Error::internal)?;
        let DraftsWritten { receipts, refusal } = written.map_err(|error| self.with_place(error, None))?;
        for receipt in &receipts {
            self.found.add_hits(self.caller.store().secrets(), "draft_text.delta", &receipt.hits);
        }
        for (name, receipt) in names.iter().zip(&receipts) {
            if let Some(known) = self.drafts.iter_mut().find(|known| known.client_id == *name) {
                known.written = Some(receipt.clone());
            }
        }
        let refused = names.get(receipts.len()).map(String::as_str);
        refusal.map_or(Ok(()), |error| Err(self.with_place(error.into(), refused)))
    }

    /// Writes a part, or nothing.
    async fn write_part(&mut self, part: Option<OpenPart>) -> Result<()> {
        let parts: Vec<OpenPart> = part.into_iter().collect();
        let appended = async {
            let parts = self.caller.check(parts)?;
            self.may_write(parts.len()).await?;
            let cached = self.caller.known(&self.session).await?;
            self.caller.messages().append_checked_parts(&cached, self.message, parts).await
        };
        let appended = appended.await.map_err(|error: Error| self.with_place(error, None))?;
        self.note(appended);
        Ok(())
    }

    /// Notes the newest answer.
    fn note(&mut self, appended: ScreenedAnswer<AppendAnswer>) {
        self.found.join(appended.secrets);
        self.newest = appended.answer;
    }

    async fn seal(&mut self, end: MessageEnd) -> Result<ScreenedAnswer<WriteAnswer>> {
        if let Some(error) = cut_off(&self.caller).now_or_never() {
            return Err(self.with_place(error, None));
        }
        let MessageEnd { finish, window, hash } = end;
        let mut caller = self.caller.clone();
        if !self.request_id.is_empty() {
            // The session has the request id; the end and its message are the rest of the request.
            let payload_hash =
                *blake3::Hasher::new().update(&hash).update(self.message.0.as_bytes()).finalize().as_bytes();
            caller.requester.salted_hash = Some(caller.store().secrets().salt().digest(&payload_hash));
            caller.requester.request = Some(RequestKey { id: self.request_id.clone(), payload_hash });
        }
        let sealed = caller.messages().finish(&self.session, &self.message.to_string(), finish, window).await;
        let sealed = sealed.map_err(|error| self.with_place(error, None))?;
        self.note(sealed);
        Ok(self.answer(true))
    }

    /// The answer to a stream without an end.
    fn left_open(&self) -> Result<ScreenedAnswer<WriteAnswer>> {
        self.closed.clone().map_or_else(|| Ok(self.answer(false)), |error| Err(self.with_place(error, None)))
    }

    fn answer(&self, sealed: bool) -> ScreenedAnswer<WriteAnswer> {
        let written = |known: &KnownDraft| known.written.clone().map(|receipt| (known.client_id.clone(), receipt));
        let drafts = self.drafts.iter().filter_map(written).collect();
        let written = WriteAnswer { message: self.message, sealed, newest: self.newest.clone(), drafts };
        ScreenedAnswer::new(written, self.found.clone())
    }

    /// An error with the place from which the stream goes on: the message, and the end of a draft, of the one that was
    /// written last if none is named.
    fn with_place(&self, error: Error, draft: Option<&str>) -> Error {
        let error = error.with("message_id", self.message);
        let known_draft = match draft {
            Some(name) => self.drafts.iter().find(|known_draft| known_draft.client_id == name),
            None => self.drafts.iter().rev().find(|known_draft| known_draft.written.is_some()),
        };
        let Some(known_draft) = known_draft else { return error };
        let error = error.with("client_id", &known_draft.client_id);
        match &known_draft.written {
            // Nothing is left of the draft.
            _ if error.reason == Reason::SecretRefused => error,
            Some(receipt) if !error.metadata.contains_key("length_bytes") => error.with("length_bytes", receipt.length),
            _ => error,
        }
    }

    /// Resolves with the reason once the stream has to end although its writer has not ended it.
    async fn forced_end(&mut self) -> Error {
        let mut end_is_late = pin!(end_is_late(self.closed.clone()));
        loop {
            if self.may_have_ended {
                // A write of nothing is refused with the reason. What is dropped meanwhile looks again.
                let history = self.caller.store().history();
                let nothing = history.append_parts(
                    self.key,
                    self.caller.requester(),
                    self.message,
                    CheckedInput::trusted(Vec::new()),
                );
                if let Err(error) = nothing.await {
                    return self.with_place(error.into(), None);
                }
                self.may_have_ended = false;
            }
            let next = tokio::select! {
                error = cut_off(&self.caller) => return self.with_place(error, None),
                error = &mut end_is_late => return self.with_place(error, None),
                next = self.events.next() => next,
            };
            let events = match next {
                Ok(Next::Events { events }) => events,
                Ok(Next::Idle) => continue,
                Ok(Next::Closed) => return Error::stopping(),
                Err(error) => return error.into(),
            };
            let concerns = |body: &EventBody| match body {
                EventBody::MessageFinished { message, .. } => *message == self.message,
                EventBody::RunEnded { epoch, .. } => self.caller.requester.epoch == Some(*epoch),
                _ => true,
            };
            self.may_have_ended = self.closed.is_none() && events.iter().any(|paged| concerns(&paged.event.body));
        }
    }
}

/// Resolves when a caller may write no more, because its access or the daemon ends.
async fn cut_off(caller: &Caller) -> Error {
    tokio::select! {
        biased;
        () = caller.shared.stopping.cancelled() => {
            Error::new(Reason::ShuttingDown, "the daemon is stopping; go on at the same offset")
        }
        ended = caller.shared.entrance.access_ended(caller.access.clone()) => ended,
    }
}

/// Resolves when the end of a message that was closed before has not come within the time that a frame may take, with
/// the reason why the message takes nothing else.
async fn end_is_late(closed: Option<Error>) -> Error {
    match closed {
        None => std::future::pending().await,
        Some(error) => {
            tokio::time::sleep(Duration::from_millis(limits::WRITE_FRAME_MS_MAX)).await;
            error
        }
    }
}

/// Adds text to the texts that wait, joined with the last one of its draft if it follows on. Returns the text if one
/// write takes no more.
fn join(waiting: &mut Vec<NewDraftText>, words: NewDraftText) -> Option<NewDraftText> {
    let is_full = waiting.len() >= limits::MESSAGE_DRAFTS_MAX;
    let last = waiting.iter_mut().rev().find(|before| before.client_id == words.client_id);
    match last {
        Some(before) if before.end() == words.offset => before.delta.push_str(&words.delta),
        _ if is_full => return Some(words),
        _ => waiting.push(words),
    }
    None
}
