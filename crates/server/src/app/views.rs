//! Views for callers: the current view, or the view at an earlier revision.

use super::error::{Error, Result};
use super::formatted::{self, FormattedView};
use super::large_views::view_bytes;
use super::nouns::Views;
use super::{validate, view_token, window_of_call};
use crate::fold::form::Form;
use crate::fold::guards::Guards;
use crate::fold::{ShortenedView, over_window};
use crate::interop::provider::Format;
use crate::limits;
use crate::loaded::{LoadedSession, SessionLookup};
use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use crate::model::ids::CompactionId;
use crate::model::layout::{CoveredHistory, OmittedHistory};
use crate::model::message::GivenView;
use crate::model::provider_compaction::ProviderCompaction;
use crate::model::session::{OverWindow, OverWindowReason};
use crate::model::usage::{ModelWindow, UsageDoubt};
use crate::model::view::{Provenance, ViewMessage};
use crate::scheduler::{guard_input, planning_input};
use crate::store::{self, PendingWork, SessionKey};
use crate::traffic::Reservation;
use std::sync::Arc;
use std::time::Duration;

/// Action for a view that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OverflowAction {
    /// Return it, with `fits` false.
    #[default]
    Return,
    /// Wait for pending work first.
    Wait,
    /// Shorten it for this call.
    Shorten,
}

/// Parameters of a request for a view.
#[derive(Debug, Clone, Default)]
pub struct ViewRequest {
    /// The view at this revision; none for the current one.
    pub as_of: Option<Revision>,
    /// The window for the figures of this call, and the window that the view is shortened to; none for the session's.
    pub window: Option<ModelWindow>,
    /// The hash of the view that the caller holds.
    pub known_hash: Option<Vec<u8>>,
    /// The revision of that view.
    pub known_revision: Option<Revision>,
    /// Action if it does not fit.
    pub action: OverflowAction,
    /// Maximum time to wait; none for the default.
    pub wait: Option<Duration>,
    /// The format of the messages; none for Longhand's own.
    pub format: Option<Format>,
    /// A line of text stands for what the format cannot carry.
    pub degrade: bool,
}

/// A view, or the part of it that the caller does not have.
#[derive(Debug, Clone)]
pub struct ServedView {
    /// The revision of the view.
    pub revision: Revision,
    /// The hash of the whole view.
    pub hash: [u8; 32],
    /// Token of the view, which a reply to it carries.
    pub token: String,
    /// Number of messages that the caller already has; they are not in `messages`.
    pub known_count: usize,
    /// The rest of the view; empty in another format than Longhand's own.
    pub messages: Vec<ViewMessage>,
    /// The same in the format that was asked for.
    pub formatted: Option<FormattedView>,
    /// Tokens of a request with the view: valid usage plus the estimate of the messages added after it.
    pub context_tokens: i64,
    /// Tokens, by the policy's estimate.
    pub estimated_tokens: i64,
    /// The window that the tokens are compared with; zero if none is known.
    pub window_tokens: i64,
    /// True if the view fits its window.
    pub fits: bool,
    /// The reason for which the view exceeds its window; none if it fits, and for earlier revisions.
    pub over_window: Option<OverWindow>,
    /// The reason for which the newest reported usage is not believed; none if it is.
    pub usage_doubt: Option<UsageDoubt>,
    /// True if the view was shortened for this call.
    pub shortened: bool,
    /// The current compaction.
    pub pending: Option<CompactionId>,
    /// History covered by the active summary.
    pub covered: Option<CoveredHistory>,
    /// The provider's own compaction that the view begins with.
    pub provider_compaction: Option<ProviderCompaction>,
    /// Author of the active summary.
    pub provenance: Option<Arc<Provenance>>,
    /// Messages that marks leave out.
    pub omitted: Vec<OmittedHistory>,
    /// The compaction that leaves each of these out; none for a rewind or an edit.
    pub omitted_by: Vec<Option<CompactionId>>,
    /// Messages with nothing left to show: their parts are empty, or were shortened to nothing.
    pub empty: Vec<RevisionRange>,
    /// Messages that this call left out so that the view fits.
    pub shortened_away: Vec<RevisionRange>,
    /// The memory reserved for the view while it waits for its client.
    pub held: Option<Arc<Reservation>>,
}

/// A view with the state it was made from.
struct BuiltView {
    session: Arc<LoadedSession>,
    pending: PendingWork,
    /// Memory reserved while the view is made; small views need none.
    held: Option<Arc<Reservation>>,
    /// The window for the figures of the call.
    window: ModelWindow,
    /// The reason for which the view exceeds the session's window.
    over_window: Option<OverWindow>,
    /// True if it is in the form for another provider than the session's own.
    is_other_form: bool,
}

impl BuiltView {
    fn fits(&self) -> bool {
        self.session.fold.fits(&self.window)
    }
}

/// The form of a view in a format.
fn form_of(format: Format) -> Form {
    format.compactor().map_or(Form::Originals, Form::Of)
}

/// The session with its view in the form for the provider of the format that is asked for, and true if that is another
/// one than its own.
fn in_form(session: Arc<LoadedSession>, format: Option<Format>) -> (Arc<LoadedSession>, bool) {
    match format.and_then(|format| session.in_form(form_of(format))) {
        Some(other) => (Arc::new(other), true),
        None => (session, false),
    }
}

impl Views<'_> {
    /// The view that a caller requests.
    pub async fn get(self, session: &str, mut request: ViewRequest) -> Result<ServedView> {
        if let Some(window) = &mut request.window {
            validate::window("window", window)?;
            self.caller.shared.models.complete(window);
        }
        if request.known_hash.as_ref().is_some_and(|hash| hash.len() != 32) {
            return Err(Error::field("known_view_hash", "is not 32 bytes"));
        }
        let key = match request.as_of {
            None => self.caller.key_for_view(session).await?,
            Some(_) => self.caller.session_key(session).await?,
        };
        let waits = request.as_of.is_none() && request.action == OverflowAction::Wait;
        let built =
            if waits { self.wait_until_it_fits(key, &request).await? } else { self.build(key, &request).await? };
        let fits = built.fits();
        let BuiltView { session, pending, held, window, over_window, is_other_form } = built;
        let other = || other_window(&session, is_other_form).filter(|_| !fits && request.as_of.is_none());
        let over_window = over_window.filter(|_| !fits).or_else(other);
        let whole_hash = session.fold.hash();
        let shortens = request.action == OverflowAction::Shorten && !fits;
        let shortened = shortens.then(|| session.shortened(&window));
        let hashes = shortened.as_ref().map_or(&session.fold.hashes, |shortened| &shortened.hashes);
        let hash = hashes.last().copied().unwrap_or_default();
        // In another format, the messages that both views have are counted in it.
        let known_count = match request.format {
            None => self.known_count(key, &request, hashes, held.as_deref()).await?,
            Some(_) => 0,
        };
        let LoadedSession { source, formed, provenance, omitted_by, .. } = &*session;
        let shows_summary = !formed.covers_summary();
        // If shortening removed nothing, the view is the session's own.
        // Nor is one in another form, and its usage is no measure of the session's own.
        let is_other = is_other_form || (shortens && whole_hash != hash);
        let given_view = GivenView { revision: source.at, hash, window, shortened: is_other };
        let token = view_token::write(self.caller.store().view_key(), source.id, &given_view);
        let mut served = ServedView {
            revision: source.at,
            hash,
            token,
            known_count,
            context_tokens: session.fold.context_tokens(&given_view.window),
            estimated_tokens: session.fold.view.estimated_tokens,
            window_tokens: given_view.window.context,
            fits,
            over_window,
            usage_doubt: session.fold.usage_doubt(),
            shortened: shortens,
            pending: pending.compaction,
            covered: source.layout.covered.clone().filter(|_| shows_summary),
            provider_compaction: formed.compaction().cloned(),
            provenance: provenance.clone().filter(|_| shows_summary),
            omitted: source.layout.omitted.clone(),
            omitted_by: omitted_by.clone(),
            empty: session.empty_messages(),
            shortened_away: Vec::new(),
            held: None,
            messages: Vec::new(),
            formatted: None,
        };
        match shortened {
            Some(ShortenedView { view, context_tokens, fits, omitted, .. }) => {
                (served.context_tokens, served.estimated_tokens) = (context_tokens, view.estimated_tokens);
                served.fits = fits;
                served.over_window.take_if(|_| fits);
                served.shortened_away = omitted.into_iter().map(|at| RevisionRange { first: at, last: at }).collect();
                served.messages = view.messages;
                served.messages.drain(..known_count);
            }
            None => served.messages = messages_behind(session, known_count),
        }
        let mut bytes = served.messages.iter().map(super::events::view_message_bytes).sum();
        if let Some(format) = request.format {
            let mut formatted = formatted::write(format, request.degrade, &served.messages)?;
            served.messages = Vec::new();
            served.known_count = self.known_formatted(key, &request, &formatted, held.as_deref()).await?;
            served.hash = formatted.hash();
            formatted.messages.drain(..served.known_count);
            bytes = formatted.bytes();
            served.formatted = Some(formatted);
        }
        served.held = Some(self.count_until_taken(held, bytes));
        Ok(served)
    }

    async fn build(self, key: SessionKey, request: &ViewRequest) -> Result<BuiltView> {
        let is_newest = request.as_of.is_none();
        let vacancy = match is_newest {
            true => match self.caller.shared.loaded.session(key).await? {
                SessionLookup::Loaded((session, pending)) => return self.newest(session, pending, request).await,
                SessionLookup::Missing(vacancy) => Some(vacancy),
            },
            false => None,
        };
        let (source, held) = self.reserved_source(key, request.as_of).await?;
        let pending = source.pending;
        let session = self.loaded_from(source).await?;
        if let Some(vacancy) = vacancy.filter(|_| held.is_none()) {
            let session = Arc::new(session);
            vacancy.keep(&session);
            return self.newest(session, pending, request).await;
        }
        let session = self.with_passages(session).await?;
        let over_window = if is_newest { self.over_window(&session, pending).await? } else { None };
        let (session, is_other_form) = in_form(Arc::new(session), request.format);
        let mut session = Arc::unwrap_or_clone(session);
        if request.action != OverflowAction::Shorten {
            // The fold's view shares their contents.
            session.source.messages = Vec::new();
        }
        let window = window_of_call(&session.source.window, request.window.as_ref()).clone();
        Ok(BuiltView { session: Arc::new(session), pending, held, window, over_window, is_other_form })
    }

    /// The view of a session that is in memory.
    async fn newest(
        self,
        session: Arc<LoadedSession>,
        pending: PendingWork,
        request: &ViewRequest,
    ) -> Result<BuiltView> {
        let session = self.with_kept_passages(session).await?;
        let over_window = self.over_window(&session, pending).await?;
        let (session, is_other_form) = in_form(session, request.format);
        let window = window_of_call(&session.source.window, request.window.as_ref()).clone();
        Ok(BuiltView { session, pending, held: None, window, over_window, is_other_form })
    }

    /// The reason for which the view of a session at its newest revision exceeds the session's window.
    pub(super) async fn over_window(
        self,
        session: &LoadedSession,
        pending: PendingWork,
    ) -> store::Result<Option<OverWindow>> {
        let LoadedSession { source, policy, formed, fold, .. } = session;
        if fold.fits(&source.window) {
            return Ok(None);
        }
        let rows = self.caller.store().jobs().guard_rows(source.session).await?;
        let current = match pending.compaction {
            Some(id) => Some(self.caller.store().compactions().get(id).await?),
            None => None,
        };
        let planning = planning_input(policy, &source.window, source, formed, self.caller.shared.clock.now());
        let guards = Guards::new(planning, fold, guard_input(&rows));
        Ok(over_window::reason(planning, fold, &guards, current.as_ref(), pending.is_due))
    }

    /// Waits until the view fits, nothing is pending any more, or time is up. A due session is pending too: a call
    /// right after a write waits for the decision first.
    async fn wait_until_it_fits(self, key: SessionKey, request: &ViewRequest) -> Result<BuiltView> {
        let most = Duration::from_millis(limits::WAIT_MS_MAX);
        let wait = request.wait.unwrap_or(Duration::from_millis(limits::WAIT_MS_DEFAULT)).min(most);
        let deadline = tokio::time::Instant::now() + wait;
        let mut head = self.caller.store().log().watch_head();
        loop {
            head.mark_unchanged();
            let built = self.build(key, request).await?;
            let is_late = tokio::time::Instant::now() >= deadline || self.caller.shared.stopping.is_cancelled();
            if is_late || built.fits() || built.pending == PendingWork::default() {
                return Ok(built);
            }
            let pending = built.pending;
            // While this call waits, others may use its memory.
            drop(built);
            while self.caller.store().compactions().pending(key).await? == pending {
                tokio::select! {
                    () = tokio::time::sleep_until(deadline) => break,
                    () = self.caller.shared.stopping.cancelled() => break,
                    changed = head.changed() => if changed.is_err() { return self.build(key, request).await },
                }
            }
        }
    }

    /// Number of messages at the beginning of the view that the caller already has.
    async fn known_count(
        self,
        key: SessionKey,
        request: &ViewRequest,
        chain: &[[u8; 32]],
        held: Option<&Reservation>,
    ) -> Result<usize> {
        let Some(known) = &request.known_hash else { return Ok(0) };
        if let Some(end) = chain.iter().position(|hash| hash.as_slice() == known) {
            return Ok(end + 1);
        }
        let Some(session) = self.known_session(key, request, held).await? else { return Ok(0) };
        let before = &session.fold.hashes;
        if before.last().is_none_or(|hash| hash.as_slice() != known) {
            // The caller holds another view, such as one that was shortened for a call.
            return Ok(0);
        }
        Ok(before.iter().zip(chain).take_while(|(before, now)| before == now).count())
    }

    /// The same for a view in a format.
    async fn known_formatted(
        self,
        key: SessionKey,
        request: &ViewRequest,
        now: &FormattedView,
        held: Option<&Reservation>,
    ) -> Result<usize> {
        let Some(known) = &request.known_hash else { return Ok(0) };
        if let Some(end) = now.hashes.iter().position(|hash| hash.as_slice() == known) {
            return Ok(end);
        }
        let Some(session) = self.known_session(key, request, held).await? else { return Ok(0) };
        let session = session.in_form(form_of(now.format)).unwrap_or(session);
        let before = formatted::write(now.format, request.degrade, &session.fold.view.messages).ok();
        let before = before.filter(|before| before.hash().as_slice() == known);
        Ok(before.map_or(0, |before| before.common_count(now)))
    }

    /// The session at the revision of the view that a caller holds; none if it names none, or if the memory for large views
    /// is too small for both.
    async fn known_session(
        self,
        key: SessionKey,
        request: &ViewRequest,
        held: Option<&Reservation>,
    ) -> Result<Option<LoadedSession>> {
        let Some(revision) = request.known_revision else { return Ok(None) };
        let (source, _held) = match held {
            // The known view takes the place of the rows that the new one was made from. Waiting for more memory would be
            // waiting for this very call, so if the memory is too small, the caller gets the whole view.
            Some(held) => {
                match self.caller.store().views().source_within(key, Some(revision), view_bytes(held)).await {
                    Ok(source) => (source, None),
                    Err(store::Error::LimitExceeded { what: store::VIEW_BYTES, .. }) => return Ok(None),
                    Err(error) => return Err(error.into()),
                }
            }
            None => self.reserved_source(key, Some(revision)).await?,
        };
        Ok(Some(self.with_passages(self.loaded_from(source).await?).await?))
    }
}

/// The reason for which a view exceeds the window of a call, if that of its session has room for its own.
fn other_window(session: &LoadedSession, is_other_form: bool) -> Option<OverWindow> {
    let message = match is_other_form {
        true => {
            "in this format, the originals stand in the place of what another provider compacted; the session's window, \
             whose model is that provider's, alone starts compactions"
        }
        false if session.fold.fits(&session.source.window) => {
            "the window of this call is smaller than the session's, which alone starts compactions"
        }
        false => return None,
    };
    let (reason, message) = (OverWindowReason::OtherWindow, message.to_owned());
    Some(OverWindow { reason, message, wait_end: None })
}

/// The messages of a session's view after the first `known_count`. They are moved, not copied, if nothing else holds
/// the session.
fn messages_behind(session: Arc<LoadedSession>, known_count: usize) -> Vec<ViewMessage> {
    match Arc::try_unwrap(session) {
        Ok(session) => {
            let mut messages = session.fold.view.messages;
            messages.drain(..known_count);
            messages
        }
        Err(session) => session.fold.view.messages[known_count..].to_vec(),
    }
}
