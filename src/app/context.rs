//! Views for callers: what the model should see now, or saw then.

use super::error::{Error, Result};
use super::large_views::made_of;
use super::room::Held;
use super::{Longhand, validate, view_token, window_of_call};
use crate::fold::Shortened;
use crate::limits;
use crate::loaded::LoadedSession;
use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use crate::model::ids::CompactionId;
use crate::model::layout::{Covered, Omitted};
use crate::model::message::GivenView;
use crate::model::usage::ModelWindow;
use crate::model::view::{Provenance, ViewMessage};
use crate::store::{self, Pending, SessionKey};
use std::sync::Arc;
use std::time::Duration;

/// What to do when a view does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OverflowAction {
    /// Return it, and say so.
    #[default]
    Return,
    /// Wait for what is pending first.
    Wait,
    /// Shorten it for this call.
    Shorten,
}

/// Which view is wanted.
#[derive(Debug, Clone, Default)]
pub struct ContextRequest {
    /// As it was at this revision; none for now.
    pub as_of: Option<Revision>,
    /// The window that the figures of this call are for, and that it may be shortened to; none for the session's.
    pub window: Option<ModelWindow>,
    /// The hash of the view that the caller holds.
    pub known_hash: Option<Vec<u8>>,
    /// The revision of that view.
    pub known_revision: Option<Revision>,
    /// What to do when it does not fit.
    pub action: OverflowAction,
    /// How long to wait at most.
    pub wait: Option<Duration>,
}

/// A view, or what is new in it.
#[derive(Debug, Clone)]
pub struct Context {
    /// The revision of the view.
    pub revision: Revision,
    /// The hash of the whole view.
    pub hash: [u8; 32],
    /// Says which view this is: a reply to it carries the token.
    pub token: String,
    /// How many messages the caller has already; they are not among `messages`.
    pub known_count: usize,
    /// The rest of the view.
    pub messages: Vec<ViewMessage>,
    /// Tokens of a request with the view, by valid usage and the estimate of what came after it.
    pub context_tokens: i64,
    /// Tokens, by the policy's estimate.
    pub estimated_tokens: i64,
    /// The window it is judged by; zero when none is known.
    pub window_tokens: i64,
    /// Whether it leaves room for a reply.
    pub fits: bool,
    /// Whether it was shortened for this call.
    pub shortened: bool,
    /// The live reduction.
    pub pending: Option<CompactionId>,
    /// What the live summary stands for.
    pub covered: Option<Covered>,
    /// Whose words the live summary's are.
    pub provenance: Option<Arc<Provenance>>,
    /// What marks leave out.
    pub omitted: Vec<Omitted>,
    /// For each of these the reduction that leaves it out; none for a rewind or an edit.
    pub omitted_by: Vec<Option<CompactionId>>,
    /// Messages of which nothing is left to show: their parts say nothing, or were shortened to nothing.
    pub empty: Vec<RevisionRange>,
    /// What this call left out to fit.
    pub left_out: Vec<RevisionRange>,
    /// The room that it takes while it waits for its client.
    pub held: Option<Arc<Held>>,
}

/// A view with what it was made of.
struct Built {
    session: Arc<LoadedSession>,
    pending: Pending,
    /// The room that it takes while it is made; none for one that is not large.
    held: Option<Arc<Held>>,
    /// The window that the figures of the call are for.
    window: ModelWindow,
}

impl Built {
    fn fits(&self) -> bool {
        self.session.fold.fits(&self.window)
    }
}

impl Longhand {
    /// The view that a caller asks for.
    pub async fn context(&self, session: &str, request: ContextRequest) -> Result<Context> {
        if let Some(window) = &request.window {
            validate::window("window", window)?;
        }
        if request.known_hash.as_ref().is_some_and(|hash| hash.len() != 32) {
            return Err(Error::field("known_view_hash", "is not 32 bytes"));
        }
        // Only views of now are of the newest policy.
        let key = match request.as_of {
            None => self.known(session).await?.key,
            Some(_) => self.store().find_session(session).await?,
        };
        let waits = request.as_of.is_none() && request.action == OverflowAction::Wait;
        let built =
            if waits { self.wait_until_it_fits(key, &request).await? } else { self.build(key, &request).await? };
        let fits = built.fits();
        let Built { session, pending, held, window } = built;
        let whole_hash = session.fold.hash();
        let shortens = request.action == OverflowAction::Shorten && !fits;
        let shortened = shortens.then(|| session.fold.clone().shortened(&session.policy, &window));
        let hashes = shortened.as_ref().map_or(&session.fold.hashes, |shortened| &shortened.hashes);
        let hash = hashes.last().copied().unwrap_or_default();
        let known_count = self.known_count(key, &request, hashes, held.as_deref()).await?;
        let LoadedSession { source, provenance, omitted_by, .. } = &*session;
        // A view of which nothing had to go is the session's own.
        let given = GivenView { revision: source.at, hash, window, shortened: shortens && whole_hash != hash };
        let token = view_token::write(self.store().view_key(), source.id, &given);
        let mut context = Context {
            revision: source.at,
            hash,
            token,
            known_count,
            context_tokens: session.fold.context_tokens(&given.window),
            estimated_tokens: session.fold.view.estimated_tokens,
            window_tokens: given.window.context,
            fits,
            shortened: shortens,
            pending: pending.compaction,
            covered: source.layout.covered.clone(),
            provenance: provenance.clone(),
            omitted: source.layout.omitted.clone(),
            omitted_by: omitted_by.clone(),
            empty: session.empty(),
            left_out: Vec::new(),
            held: None,
            messages: Vec::new(),
        };
        match shortened {
            Some(Shortened { view, context_tokens, fits, omitted, .. }) => {
                (context.context_tokens, context.estimated_tokens) = (context_tokens, view.estimated_tokens);
                context.fits = fits;
                context.left_out = omitted.into_iter().map(|at| RevisionRange { first: at, last: at }).collect();
                context.messages = view.messages;
                context.messages.drain(..known_count);
            }
            None => context.messages = messages_behind(session, known_count),
        }
        let bytes = context.messages.iter().map(super::events::view_message_bytes).sum();
        context.held = Some(self.until_taken(held, bytes));
        Ok(context)
    }

    async fn build(&self, key: SessionKey, request: &ContextRequest) -> Result<Built> {
        let window = |session: &LoadedSession| window_of_call(&session.source.window, request.window.as_ref()).clone();
        if request.as_of.is_none()
            && let Some((session, pending)) = self.shared.loaded.session(key, None).await?
        {
            return Ok(Built { window: window(&session), session, pending, held: None });
        }
        let (source, held) = self.roomy_source(key, request.as_of).await?;
        let pending = source.pending;
        let mut session = self.loaded_from(source).await?;
        let is_kept = request.as_of.is_none() && held.is_none();
        if !is_kept {
            // The view has its words.
            session.source.messages = Vec::new();
        }
        let session = Arc::new(session);
        if is_kept {
            self.shared.loaded.keep(&session);
        }
        Ok(Built { window: window(&session), session, pending, held })
    }

    /// Waits until the view fits, nothing is pending any more, or time is up. What is due is pending too: whoever waits
    /// right after a write waits for the decision first.
    async fn wait_until_it_fits(&self, key: SessionKey, request: &ContextRequest) -> Result<Built> {
        let most = Duration::from_millis(limits::WAIT_MS_MAX);
        let wait = request.wait.unwrap_or(Duration::from_millis(limits::WAIT_MS_DEFAULT)).min(most);
        let deadline = tokio::time::Instant::now() + wait;
        let mut head = self.store().watch_head();
        loop {
            head.mark_unchanged();
            let built = self.build(key, request).await?;
            let is_late = tokio::time::Instant::now() >= deadline || self.shared.stopping.is_cancelled();
            if is_late || built.fits() || built.pending == Pending::default() {
                return Ok(built);
            }
            let pending = built.pending;
            // Others need the room more than one who waits.
            drop(built);
            while self.store().pending(key).await? == pending {
                tokio::select! {
                    () = tokio::time::sleep_until(deadline) => break,
                    () = self.shared.stopping.cancelled() => break,
                    changed = head.changed() => if changed.is_err() { return self.build(key, request).await },
                }
            }
        }
    }

    /// How many messages at the beginning of the view the caller has already.
    async fn known_count(
        &self,
        key: SessionKey,
        request: &ContextRequest,
        chain: &[[u8; 32]],
        held: Option<&Held>,
    ) -> Result<usize> {
        let Some(known) = &request.known_hash else { return Ok(0) };
        if let Some(end) = chain.iter().position(|hash| hash.as_slice() == known) {
            return Ok(end + 1);
        }
        let Some(revision) = request.known_revision else { return Ok(0) };
        let (source, _held) = match held {
            // The known view takes the place of what the new one was made of. To wait for more room would be to wait for
            // this very call, so the caller gets the whole view where that is not enough.
            Some(held) => match self.store().source_within(key, Some(revision), made_of(held)).await {
                Ok(source) => (source, None),
                Err(store::Error::LimitExceeded { what: store::VIEW_BYTES, .. }) => return Ok(0),
                Err(error) => return Err(error.into()),
            },
            None => self.roomy_source(key, Some(revision)).await?,
        };
        let before = self.loaded_from(source).await?.fold.hashes;
        if before.last().is_none_or(|hash| hash.as_slice() != known) {
            // The caller holds something else, such as a view that was shortened for one call.
            return Ok(0);
        }
        Ok(before.iter().zip(chain).take_while(|(before, now)| before == now).count())
    }
}

/// The messages of a session's view behind the first ones. A view that nobody else holds is not copied.
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
