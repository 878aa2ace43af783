//! Writing and reading history: appends, drafts, seals, pages, rewinds, edits, pins.

use super::deltas::DraftDelta;
use super::error::{Error, Reason, Result};
use super::formatted::{self, ProviderContent};
use super::nouns::{Messages, Views};
use super::secrets::{ClientInput, ScreenedAnswer};
use super::{page_size, validate, view_token, window_of_call};
use crate::limits;
use crate::loaded::{self, LoadedSession, SessionLookup, SessionSettings, Vacancy, counts};
use crate::model::draft::{Draft, DraftKind};
use crate::model::ids::{CompactionId, MessageId, PartId};
use crate::model::mark::WordsStance;
use crate::model::message::{
    Finish, GivenView, Message, MessageKind, MessageState, MessageStatus, NewFinish, NewMessage,
};
use crate::model::part::NewPart;
use crate::model::session::SessionState;
use crate::model::usage::{ModelWindow, UsageDoubt};
use crate::model::{Revision, Seq};
use crate::policy::{overflow, replay};
use crate::store::{
    self, AppendChanges, AppendInput, CheckedInput, Findings, MessageCounts, NewEnd, Order, PageOf, Receipt,
    ScreenResult, Seal, SecretScreen, SessionKey,
};
pub use crate::store::{DraftEnd, DraftName, NewDraftText, OpenPart};
use std::sync::Arc;

/// The context usage after a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContextUsage {
    /// Tokens of a request with the view, as in `ContextSize::tokens`; none if the session is not in memory and is too
    /// large to be read for an answer.
    pub context_tokens: Option<i64>,
    /// The window that they are compared with.
    pub window_tokens: i64,
    /// The tokens at which the lowest level is due under that window; none if none ever is.
    pub due_tokens: Option<i64>,
    /// True if the context has reached a threshold of the session's own window, or the reply reports that its view was
    /// too large, and the decision about that is pending. If the tokens are unknown, true if any decision is pending.
    pub due: bool,
    /// The current compaction.
    pub pending: Option<CompactionId>,
    /// The reason for which the newest reported usage is not believed; none if it is, or if the tokens are unknown.
    pub usage_doubt: Option<UsageDoubt>,
}

/// The answer of an append.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AppendAnswer {
    /// The ids of the messages or parts, in order.
    pub ids: Vec<uuid::Uuid>,
    /// Number of messages that existed before.
    pub existed_count: i64,
    /// The messages that lack content, because it was erased before.
    pub erased: Vec<uuid::Uuid>,
    /// The session's revision after the append.
    pub revision: Revision,
    /// The store's sequence number of the append.
    pub seq: Seq,
    /// The current context usage.
    pub context: ContextUsage,
}

/// An append with what belongs to the same mutation.
#[derive(Debug, Clone, Default)]
pub struct AppendRequest<'a> {
    /// The messages.
    pub messages: Vec<NewMessage>,
    /// Messages in their place, as a provider's interface has them.
    pub provider_content: Option<ProviderContent>,
    /// The window for the figures of the answer; none for the session's.
    pub window: Option<ModelWindow>,
    /// Refuses the append if history, marks, policy or window changed after this revision.
    pub expected_revision: Option<Revision>,
    /// Refuses the append unless the conversation ends with the message of this id; empty for no message.
    pub expected_last: Option<String>,
    /// Leaves everything after a message out of the conversation first, or everything.
    pub rewind: Option<RewindTo<'a>>,
    /// The session's new title.
    pub title: Option<String>,
    /// The session's new metadata: free JSON.
    pub metadata_json: Option<String>,
    /// True if what was erased before stays erased: a part that a receipt of an erasure names, by the client id of its
    /// message and its content, is stored without its content.
    pub keep_erased: bool,
}

/// An edit of a message.
#[derive(Debug, Clone, Default)]
pub struct EditRequest<'a> {
    /// The message, by its id or client id.
    pub message: &'a str,
    /// The content of the replacement; without any, the message is only left out of views.
    pub parts: Vec<NewPart>,
    /// The replacement's free JSON.
    pub metadata_json: Option<String>,
    /// Refuses the edit if history, marks, policy or window changed after this revision.
    pub expected_revision: Option<Revision>,
    /// True if what was erased before stays erased: a part that a receipt of an erasure of such an edit names, by the
    /// client id of the message and its content, is stored without its content.
    pub keep_erased: bool,
}

/// Parameters of a list of messages.
#[derive(Debug, Clone, Default)]
pub struct ListMessages {
    /// Maximum number of messages; zero for the default.
    pub page_size: i64,
    /// The previous page's token of the next page; empty for the first page.
    pub page_token: String,
    /// Lists the newest message first.
    pub reverse: bool,
    /// Lists the history as it was at this revision.
    pub as_of: Option<Revision>,
    /// Includes summaries, markers, continuations and replays.
    pub derived: bool,
    /// Includes records.
    pub records: bool,
    /// Only messages whose client id begins with this, in the order of their client ids; empty for all.
    pub client_id_prefix: String,
}

/// A page of messages.
#[derive(Debug, Clone, PartialEq)]
pub struct MessagePage {
    /// The messages.
    pub messages: Vec<Message>,
    /// Their statuses at `revision`, in their order.
    pub statuses: Vec<MessageStatus>,
    /// Token of the next page; empty on the last page.
    pub next_page_token: String,
    /// The revision at which the list was read.
    pub revision: Revision,
}

/// Messages that a caller named.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageBatch {
    /// As many of the first ones as an answer has, in the order of the request.
    pub messages: Vec<Message>,
    /// Their statuses, in their order.
    pub statuses: Vec<MessageStatus>,
    /// The ids of the others, as the caller gave them.
    pub remaining_ids: Vec<String>,
}

/// What an append brings.
struct SentMessages {
    messages: Vec<NewMessage>,
    title: Option<String>,
    metadata_json: Option<String>,
    /// Of each message the digest of what was received beside its parts, if that is changed.
    received: Vec<Option<[u8; 32]>>,
}

impl ClientInput for SentMessages {
    fn validate(&self) -> Result<()> {
        validate::batch(&self.messages)?;
        self.title.as_ref().map_or(Ok(()), |title| validate::title(title))?;
        validate::object("metadata_json", self.metadata_json.as_deref(), limits::SESSION_METADATA_BYTES_MAX)
    }

    fn screen(&mut self, screen: &mut SecretScreen<'_>) -> ScreenResult {
        self.received = screen.messages(&mut self.messages)?;
        screen.optional_text("title", &mut self.title)?;
        screen.optional_json("metadata_json", &mut self.metadata_json)
    }
}

impl ClientInput for Vec<OpenPart> {
    fn validate(&self) -> Result<()> {
        validate::open_parts(self)
    }

    fn screen(&mut self, screen: &mut SecretScreen<'_>) -> ScreenResult {
        screen.open_parts(self)
    }
}

impl ClientInput for NewFinish {
    fn validate(&self) -> Result<()> {
        validate::finish("finish", self)
    }

    fn screen(&mut self, screen: &mut SecretScreen<'_>) -> ScreenResult {
        screen.text("finish.detail", &mut self.detail)
    }
}

impl ClientInput for store::NewEdit {
    fn validate(&self) -> Result<()> {
        validate::edit(&self.parts, self.metadata_json.as_deref())
    }

    fn screen(&mut self, screen: &mut SecretScreen<'_>) -> ScreenResult {
        screen.parts_of_request("request", &mut self.parts)?;
        screen.optional_json("metadata_json", &mut self.metadata_json)
    }
}

/// The token counts to store for a message; none under a policy that does not count with a tokenizer. An open message is
/// counted when it is sealed.
async fn token_counts(known: &SessionSettings, message: &NewMessage) -> Result<Option<MessageCounts>> {
    let is_settled = message.kind == MessageKind::Normal && message.finish.is_some();
    let Some(counting) = known.counting.clone().filter(|_| is_settled) else { return Ok(None) };
    let parts = message.parts.iter().map(|part| part.body.clone()).collect();
    let counts = counts::count(&known.policy, message.role, parts).await?;
    Ok(Some(MessageCounts { counting, counts }))
}

impl Messages<'_> {
    /// The answer of a write, for the window that its caller names. `overflows` is true if the write reports a view
    /// that was too large.
    async fn append_answer(
        self,
        receipt: Receipt,
        known: &SessionSettings,
        window: Option<&ModelWindow>,
        overflows: bool,
    ) -> AppendAnswer {
        let window = window_of_call(&known.window, window);
        let figures = |session: &LoadedSession| {
            let fold = &session.fold;
            ((fold.context_tokens(window), fold.context_tokens(&known.window)), fold.usage_doubt())
        };
        let (tokens, usage_doubt) = self.fact_after_write(known.key, &receipt, figures).await.unzip();
        let (context_tokens, own_tokens) = tokens.unzip();
        let Receipt { revision, seq, ids, existed_count, erased, pending, .. } = receipt;
        let is_over = own_tokens.zip(overflow::due_at(&known.policy, &known.window));
        // If the tokens are unknown, a caller that sees a pending decision can wait for it.
        let is_reached = overflows || own_tokens.is_none() || is_over.is_some_and(|(tokens, due)| tokens >= due);
        let context = ContextUsage {
            context_tokens,
            window_tokens: window.context,
            due_tokens: overflow::due_at(&known.policy, window),
            due: pending.is_due && is_reached && pending.compaction.is_none(),
            pending: pending.compaction,
            usage_doubt: usage_doubt.flatten(),
        };
        AppendAnswer { ids, existed_count, erased, revision, seq, context }
    }

    /// A fact about a session after a write: from memory, or read if that takes no longer than the write. An error here
    /// does not affect the write.
    async fn fact_after_write<T>(
        self,
        key: SessionKey,
        receipt: &Receipt,
        fact: impl Fn(&LoadedSession) -> T + Send + Sync,
    ) -> Option<T> {
        let found = match self.caller.shared.loaded.fact(key, receipt.newest, &fact).await {
            Ok(SessionLookup::Missing(vacancy)) if receipt.appended_bytes <= limits::READ_AT_ONCE_BYTES => {
                self.caller.views().small(key, vacancy).await.map(|session| session.map(|session| fact(&session)))
            }
            found => found.map(SessionLookup::loaded),
        };
        found.unwrap_or_else(|error| {
            tracing::warn!(%error, "no context usage is known behind a write");
            None
        })
    }
}

impl Views<'_> {
    /// A session that is in memory or small, at its newest revision.
    pub(super) async fn loaded_or_small(self, key: SessionKey) -> store::Result<Option<Arc<LoadedSession>>> {
        match self.caller.shared.loaded.session(key).await? {
            SessionLookup::Loaded((session, _)) => Ok(Some(session)),
            SessionLookup::Missing(vacancy) => self.small(key, vacancy).await,
        }
    }

    /// A session that is small, read at its newest revision.
    async fn small(self, key: SessionKey, vacancy: Vacancy) -> store::Result<Option<Arc<LoadedSession>>> {
        let most = usize::try_from(limits::READ_AT_ONCE_BYTES).unwrap_or(usize::MAX);
        let source = match self.caller.store().views().source_within(key, None, most).await {
            Ok(source) => source,
            Err(store::Error::LimitExceeded { what: store::VIEW_BYTES, .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let policy = loaded::parse_policy(&source.policy, &self.caller.shared.vocabularies)?;
        let session = Arc::new(LoadedSession::new(self.caller.store(), source, Arc::new(policy)).await?);
        vacancy.keep(&session);
        Ok(Some(session))
    }
}

impl Messages<'_> {
    /// Computes the cost of a reply that has none, by the model that wrote it: the one that it names, or else that of its
    /// view's or session's window.
    fn price(self, known: &SessionSettings, (provider, model): (&str, &str), finish: &mut Finish) {
        let window = finish.view.as_ref().map(|view| &view.window).filter(|window| !window.model.is_empty());
        let model = if model.is_empty() { &window.unwrap_or(&known.window).model } else { model };
        finish.usage = finish.usage.map(|usage| self.caller.shared.models.priced(provider, model, usage));
    }

    /// The view that a reply answers, by its token. A fork's reply may answer a view of an ancestor, at a revision that
    /// both share.
    async fn given_view(self, known: &SessionSettings, token: Option<&str>) -> Result<Option<GivenView>> {
        let Some(token) = token else { return Ok(None) };
        let (session, view) = view_token::read(self.caller.store().view_key(), token)?;
        let is_shared = session == known.id
            || self
                .caller
                .store()
                .sessions()
                .shared_with(known.key, session)
                .await?
                .is_some_and(|last| view.revision <= last);
        if is_shared {
            return Ok(Some(view));
        }
        // A token of somebody else's says nothing, not even that it is one.
        if !self.caller.sees_id(session).await? {
            return Err(view_token::unknown_token());
        }
        let message = "the view token is for a session whose history this one does not share at that revision";
        Err(Error::new(Reason::ViewTokenInvalid, message).with("session_id", session).with("revision", view.revision))
    }

    /// Appends messages, all or none.
    pub async fn append(
        self,
        session: &str,
        messages: Vec<NewMessage>,
        window: Option<ModelWindow>,
        expected_revision: Option<Revision>,
    ) -> Result<ScreenedAnswer<AppendAnswer>> {
        let request = AppendRequest { messages, window, expected_revision, ..AppendRequest::default() };
        self.append_with(session, request).await
    }

    /// Appends messages with what belongs to the same mutation, all or nothing.
    pub async fn append_with(self, session: &str, request: AppendRequest<'_>) -> Result<ScreenedAnswer<AppendAnswer>> {
        let AppendRequest {
            messages,
            provider_content,
            mut window,
            expected_revision,
            title,
            metadata_json,
            keep_erased: keeps_erased,
            ..
        } = request;
        let messages = match provider_content {
            None => messages,
            Some(_) if !messages.is_empty() => {
                return Err(Error::field("messages", "do not go with provider_content"));
            }
            Some(given) => formatted::read_messages(given)?,
        };
        if let Some(window) = &mut window {
            validate::window("window", window)?;
            self.caller.shared.models.complete(window);
        }
        let sent = self.caller.check(SentMessages { messages, title, metadata_json, received: Vec::new() })?;
        let checked = sent.with(());
        let (SentMessages { messages, title, metadata_json, received }, found) = sent.into_parts();
        self.caller.require_to_stay(metadata_json.as_deref())?;
        let with = AppendChanges {
            rewind: request.rewind.map(RewindTo::end).transpose()?,
            expected_last: request.expected_last,
            title,
            metadata_json,
        };
        let cached = self.caller.known(session).await?;
        self.caller.count_append(messages.len())?;
        let mut entries = Vec::with_capacity(messages.len());
        let mut overflowed = false;
        for (message, received) in messages.into_iter().zip(received) {
            let token_counts = token_counts(&cached, &message).await?;
            let overflows = |finish| replay::overflow(&cached.policy, &cached.window, finish).is_some();
            let reports_overflow = message.finish.as_ref().is_some_and(overflows);
            overflowed |= reports_overflow;
            let token = message.finish.as_ref().and_then(|finish| finish.view.as_deref());
            let view = self.given_view(&cached, token).await?;
            let mut message = message.checked(view);
            if let Some(finish) = &mut message.finish {
                self.price(&cached, (&message.provider, &message.model), finish);
            }
            entries.push(AppendInput { message, token_counts, reports_overflow, received, keeps_erased });
        }
        let history = self.caller.store().history();
        let append = checked.with((entries, with));
        let receipt = history.append(cached.key, self.caller.requester(), expected_revision, append).await?;
        self.caller.history().fill_index(&cached);
        Ok(ScreenedAnswer::new(self.append_answer(receipt, &cached, window.as_ref(), overflowed).await, found))
    }

    /// Adds closed parts to an open message, or closes its drafts. A call without parts keeps the message open: its
    /// open timeout starts again.
    pub async fn append_parts(
        self,
        session: &str,
        message: &str,
        parts: Vec<OpenPart>,
    ) -> Result<ScreenedAnswer<AppendAnswer>> {
        let parts = self.caller.check(parts)?;
        let cached = self.caller.known(session).await?;
        self.caller.count_append(parts.len())?;
        let message = self.written_message(cached.key, message).await?;
        self.append_checked_parts(&cached, message, parts).await
    }

    async fn written_message(self, key: SessionKey, id: &str) -> Result<MessageId> {
        match self.caller.store().history().id(key, id).await {
            // The request is answered whatever message it is for.
            Err(error) => self.require_repeated(key, error).await.map(|()| MessageId(uuid::Uuid::nil())),
            found => Ok(found?),
        }
    }

    /// Refuses a request that names a message which is not found, unless its session is erased and had the request before:
    /// an erased session has forgotten the ids of clients.
    pub(super) async fn require_repeated(self, key: SessionKey, error: store::Error) -> Result<()> {
        let is_lost = matches!(error, store::Error::NotFound { .. });
        if !is_lost || self.caller.store().sessions().get(key).await?.0.state != SessionState::Erased {
            return Err(error.into());
        }
        let answer = self.caller.store().sessions().kept_answer(key, &self.caller.requester).await?;
        answer.map(drop).ok_or_else(|| store::Error::SessionErased.into())
    }

    /// The same for parts that were checked, in an append that was counted.
    pub(super) async fn append_checked_parts(
        self,
        known: &SessionSettings,
        message: MessageId,
        parts: CheckedInput<Vec<OpenPart>>,
    ) -> Result<ScreenedAnswer<AppendAnswer>> {
        let findings = parts.findings().clone();
        let receipt =
            self.caller.store().history().append_parts(known.key, self.caller.requester(), message, parts).await?;
        let findings = self.caller.with_hits(findings, "drafts", &receipt.hits);
        Ok(ScreenedAnswer::new(self.append_answer(receipt, known, None, false).await, findings))
    }

    /// Adds text to a draft, and sends it to subscribers.
    pub async fn append_draft(
        self,
        session: &str,
        message: &str,
        words: NewDraftText,
    ) -> Result<ScreenedAnswer<store::DraftReceipt>> {
        validate::client_id("client_id", words.client_id.as_deref())?;
        // The kind of a draft that exists is not read.
        if words.part.is_none() {
            validate::draft_kind(&words.kind)?;
        }
        let cached = self.caller.known(session).await?;
        self.caller.count_append(1)?;
        let message = self.written_message(cached.key, message).await?;
        let kind = words.kind.clone();
        let receipt =
            self.caller.store().history().append_draft(cached.key, &self.caller.requester(), message, words).await?;
        self.announce(cached.key, message, kind, &receipt);
        let findings = self.caller.with_hits(Findings::default(), "delta", &receipt.hits);
        Ok(ScreenedAnswer::new(receipt, findings))
    }

    /// Sends text that a draft has got to subscribers. Text that the draft had before was sent before.
    pub(super) fn announce(
        self,
        session: SessionKey,
        message: MessageId,
        kind: DraftKind,
        receipt: &store::DraftReceipt,
    ) {
        let Some(added_at) = receipt.added_at.filter(|_| !receipt.shown.is_empty()) else { return };
        let delta = receipt.shown.clone();
        let live = DraftDelta { session, message, part: receipt.part, kind, offset: added_at, delta };
        // It is not an error if there are no subscribers.
        drop(self.caller.shared.live.send(live));
    }

    /// Seals an open message.
    pub async fn finish(
        self,
        session: &str,
        message: &str,
        finish: NewFinish,
        mut window: Option<ModelWindow>,
    ) -> Result<ScreenedAnswer<AppendAnswer>> {
        let sent = self.caller.check(finish)?;
        if let Some(window) = &mut window {
            validate::window("window", window)?;
            self.caller.shared.models.complete(window);
        }
        let cached = self.caller.known(session).await?;
        let message = self.written_message(cached.key, message).await?;
        let reports_overflow = replay::overflow(&cached.policy, &cached.window, &sent).is_some();
        let view = self.given_view(&cached, sent.view.as_deref()).await?;
        let mut finish = sent.clone().into_parts().0.with_view(view);
        if finish.usage.is_some_and(|usage| usage.cost_usd.is_none()) {
            let (provider, model) = match self.caller.store().history().author(cached.key, &message.to_string()).await {
                Err(store::Error::NotFound { .. }) => Default::default(),
                author => author?,
            };
            self.price(&cached, (&provider, &model), &mut finish);
        }
        let seal = sent.with(Seal { finish, reports_overflow });
        let receipt = self.caller.store().history().finish(cached.key, self.caller.requester(), message, seal).await?;
        self.caller.history().fill_index(&cached);
        let findings = self.caller.with_hits(sent.into_parts().1, "drafts", &receipt.hits);
        Ok(ScreenedAnswer::new(self.append_answer(receipt, &cached, window.as_ref(), reports_overflow).await, findings))
    }

    /// A message as it was written, with its drafts while it is open, and its status.
    pub async fn get(self, session: &str, message: &str) -> Result<(Message, Vec<Draft>, MessageStatus)> {
        let key = self.caller.session_key(session).await?;
        let (found, drafts) = self.caller.store().history().with_drafts(key, message).await?;
        let statuses = self.statuses(key, None, std::slice::from_ref(&found)).await?;
        let status = statuses.into_iter().next().unwrap_or(MessageStatus::from_state(MessageState::Unknown));
        Ok((found, drafts, status))
    }

    /// The statuses of messages at a revision, or at the newest one. Damage to what they follow from does not keep
    /// anybody from reading the messages.
    pub(super) async fn statuses(
        self,
        key: SessionKey,
        at: Option<Revision>,
        messages: &[Message],
    ) -> Result<Vec<MessageStatus>> {
        match self.caller.store().history().statuses(key, at, messages).await {
            Err(error @ store::Error::Corrupt { .. }) => {
                tracing::warn!(%error, "the statuses of messages are not known");
                Ok(vec![MessageStatus::from_state(MessageState::Unknown); messages.len()])
            }
            statuses => Ok(statuses?),
        }
    }

    /// Messages by their ids, as they were written, in the order of the ids.
    pub async fn batch_get(self, session: &str, mut ids: Vec<String>) -> Result<MessageBatch> {
        if ids.is_empty() {
            return Err(Error::field("message_ids", "is empty"));
        }
        if ids.len() > limits::BATCH_GET_MESSAGES_MAX {
            return Err(Error::limit("message_ids", limits::BATCH_GET_MESSAGES_MAX, ids.len()));
        }
        let key = self.caller.session_key(session).await?;
        let messages = self.caller.store().history().batch(key, &ids).await?;
        let statuses = self.statuses(key, None, &messages).await?;
        Ok(MessageBatch { remaining_ids: ids.split_off(messages.len()), messages, statuses })
    }

    /// A page of history.
    pub async fn list(self, session: &str, list: ListMessages) -> Result<MessagePage> {
        let limit = page_size(list.page_size)?;
        let ListMessages { reverse, as_of, derived, records, client_id_prefix: prefix, .. } = list;
        validate::name("client_id_prefix", &prefix)?;
        let key = self.caller.session_key(session).await?;
        let scope = format!("messages {session} {reverse} {as_of:?} {derived} {records} {prefix}");
        let start = self.caller.page_start(&list.page_token, &scope)?;
        let page = PageOf {
            from: start,
            at: as_of,
            order: if reverse { Order::NewestFirst } else { Order::OldestFirst },
            limit,
            derived,
            records,
        };
        let newest = if prefix.is_empty() { self.newest(key, &page).await? } else { None };
        let (messages, next, revision, statuses) = match newest {
            Some((messages, next, revision)) => {
                // No mark came after any of them.
                let statuses = vec![MessageStatus::from_state(MessageState::Active); messages.len()];
                (messages, Some(next), revision, statuses)
            }
            None => {
                let (messages, next, revision) = match prefix.as_str() {
                    "" => self.caller.store().history().page(key, page).await?,
                    prefix => self.caller.store().history().page_by_client_id(key, prefix, page).await?,
                };
                let statuses = self.statuses(key, Some(revision), &messages).await?;
                (messages, next, revision, statuses)
            }
        };
        let next_page_token = next.map(|next| self.caller.page_token(next, &scope)).unwrap_or_default();
        Ok(MessagePage { messages, statuses, next_page_token, revision })
    }

    /// The first page of the newest messages from a session in memory, the beginning of the next page, and the revision.
    async fn newest(self, key: SessionKey, page: &PageOf) -> Result<Option<(Vec<Message>, Revision, Revision)>> {
        let PageOf { from: None, at: None, order: Order::NewestFirst, records, limit, .. } = *page else {
            return Ok(None);
        };
        let Some((session, _)) = self.caller.shared.loaded.session(key).await?.loaded() else { return Ok(None) };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let Some((messages, next)) = session.newest_messages(limit) else { return Ok(None) };
        // Records are in no view, and not in memory.
        if records && self.caller.store().history().newest_record(key).await?.is_some_and(|record| record > next) {
            return Ok(None);
        }
        Ok(Some((messages, next, session.source.at)))
    }

    /// Leaves everything after a message out of the conversation, or everything.
    pub async fn rewind(
        self,
        session: &str,
        to: impl Into<RewindTo<'_>>,
        expected_revision: Option<Revision>,
    ) -> Result<Receipt> {
        let message = to.into().message()?.map(ToOwned::to_owned);
        let key = self.caller.session_key(session).await?;
        Ok(self
            .caller
            .store()
            .history()
            .rewind(key, self.caller.requester(), expected_revision, message, CheckedInput::trusted(None))
            .await?)
    }

    /// Replaces a message by another one; without parts, leaves it out of views. History keeps it.
    pub async fn edit(
        self,
        session: &str,
        message: &str,
        parts: &[NewPart],
        expected_revision: Option<Revision>,
    ) -> Result<ScreenedAnswer<Receipt>> {
        let parts = parts.to_vec();
        self.edit_with(session, EditRequest { message, parts, expected_revision, ..EditRequest::default() }).await
    }

    /// The same with everything that an edit can have.
    pub async fn edit_with(self, session: &str, edit: EditRequest<'_>) -> Result<ScreenedAnswer<Receipt>> {
        let EditRequest { message, parts, metadata_json, expected_revision, keep_erased } = edit;
        if message.parse::<PartId>().is_ok() {
            return Err(Error::field(
                "message_id",
                "names a part, and an edit puts another message in place of the whole",
            ));
        }
        if metadata_json.is_some() && parts.is_empty() {
            return Err(Error::field("metadata_json", "does not go with remove"));
        }
        let (message, keeps_erased) = (message.to_owned(), keep_erased);
        let edit = self.caller.check(store::NewEdit { message, parts, metadata_json, keeps_erased })?;
        let findings = edit.findings().clone();
        let key = self.caller.session_key(session).await?;
        self.caller.count_append(1)?;
        let history = self.caller.store().history();
        Ok(ScreenedAnswer::new(history.edit(key, self.caller.requester(), expected_revision, edit).await?, findings))
    }

    /// Pins a message, so that every view shows it verbatim. The id of a part stands for the whole message that holds
    /// it: a view never shows half a message.
    pub async fn pin(self, session: &str, message: &str) -> Result<Receipt> {
        let key = self.caller.session_key(session).await?;
        Ok(self.caller.store().history().pin(key, self.caller.requester(), message.to_owned()).await?)
    }

    /// Removes the pin of a message.
    pub async fn unpin(self, session: &str, message: &str) -> Result<Receipt> {
        let key = self.caller.session_key(session).await?;
        Ok(self.caller.store().history().unpin(key, self.caller.requester(), message.to_owned()).await?)
    }

    /// Decides what becomes of a message's words beside summaries; none leaves that to the summarizer again.
    pub async fn mark_words(self, session: &str, message: &str, stance: Option<WordsStance>) -> Result<Receipt> {
        let key = self.caller.session_key(session).await?;
        Ok(self.caller.store().history().mark_words(key, self.caller.requester(), message.to_owned(), stance).await?)
    }
}

/// The new end of a conversation that is rewound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewindTo<'a> {
    /// Before the first message.
    Start,
    /// After the message with this id.
    Message(&'a str),
}

impl<'a> RewindTo<'a> {
    /// The id of the last message that stays; an error if it is empty: an id that a caller forgot must not rewind
    /// everything.
    pub(super) fn message(self) -> Result<Option<&'a str>> {
        match self {
            Self::Start => Ok(None),
            Self::Message("") => Err(Error::field("message_id", "is empty; everything is left out with to_start")),
            Self::Message(id) => Ok(Some(id)),
        }
    }

    /// The same as the end of an append or a prompt.
    pub(super) fn end(self) -> Result<NewEnd> {
        Ok(self.message()?.map_or(NewEnd::Start, |id| NewEnd::Message(id.to_owned())))
    }
}

impl<'a> From<&'a str> for RewindTo<'a> {
    fn from(id: &'a str) -> Self {
        Self::Message(id)
    }
}

impl<'a> From<&'a String> for RewindTo<'a> {
    fn from(id: &'a String) -> Self {
        Self::Message(id)
    }
}

/// The id of a message from a receipt.
pub fn message_id(receipt: &Receipt) -> Option<MessageId> {
    receipt.ids.first().copied().map(MessageId)
}
