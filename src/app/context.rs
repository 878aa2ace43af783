//! Views for callers: what the model should see now, or saw then.

use super::error::{Error, Result};
use super::large_views::made_of;
use super::room::Held;
use super::{Longhand, validate, view_token, window_of_call};
use crate::fold::{Fold, Shortened};
use crate::limits;
use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use crate::model::ids::{CompactionId, MessageId};
use crate::model::layout::{Covered, Omitted};
use crate::model::message::{GivenView, MessageKind};
use crate::model::usage::ModelWindow;
use crate::model::view::{Provenance, ViewMessage};
use crate::policy::Policy;
use crate::store::{self, Pending, SessionKey, Source};
use std::collections::HashSet;
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
    source: Source,
    /// The room that it takes while it is made; none for one that is not large.
    held: Option<Arc<Held>>,
    policy: Policy,
    /// The window that the figures of the call are for.
    window: ModelWindow,
    fold: Fold,
    provenance: Option<Arc<Provenance>>,
}

impl Built {
    fn fits(&self) -> bool {
        self.fold.fits(&self.window)
    }

    /// The messages of the layout that the view does not show because nothing of them is left to show. Records are in no
    /// view.
    fn empty(&self) -> Vec<RevisionRange> {
        let shown: HashSet<MessageId> = self.fold.view.messages.iter().filter_map(|message| message.source).collect();
        let sources = self.source.messages.iter().map(|source| &source.message);
        let empty = sources.filter(|message| message.kind != MessageKind::Record && !shown.contains(&message.id));
        let mut revisions: Vec<Revision> = empty.map(|message| message.revision).collect();
        revisions.sort_unstable();
        let ranges = revisions.chunk_by(|before, next| before + 1 == *next);
        ranges.map(|range| RevisionRange { first: range[0], last: range[range.len() - 1] }).collect()
    }

    /// The view as the call gets it: whole, or shortened where that is asked for and it does not fit.
    fn shown(fold: Fold, policy: &Policy, window: &ModelWindow, action: OverflowAction) -> (Shortened, bool) {
        let fits = fold.fits(window);
        if action == OverflowAction::Shorten && !fits {
            return (fold.shortened(policy, window), true);
        }
        let context_tokens = fold.context_tokens(window);
        let Fold { view, hashes, .. } = fold;
        (Shortened { view, hashes, context_tokens, fits, omitted: Vec::new() }, false)
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
        let key = self.store().find_session(session).await?;
        let mut built = self.build(key, &request).await?;
        if request.as_of.is_none() && request.action == OverflowAction::Wait {
            built = self.wait_until_it_fits(key, &request, built).await?;
        }
        let empty = built.empty();
        let Built { mut source, mut held, policy, window, fold, provenance } = built;
        let whole_hash = fold.hash();
        let (shown, shortened) = Built::shown(fold, &policy, &window, request.action);
        let Shortened { view, hashes, context_tokens, fits, omitted } = shown;
        source.messages = Vec::new();
        let known_count = self.known_count(key, &request, &hashes, held.as_deref()).await?;
        let hash = hashes.last().copied().unwrap_or_default();
        let window_tokens = window.context;
        // A view of which nothing had to go is the session's own.
        let given = GivenView { revision: source.at, hash, window, shortened: shortened && whole_hash != hash };
        let token = view_token::write(self.store().view_key(), source.id, &given);
        let marks: Vec<Revision> = source.layout.omitted.iter().map(|omitted| omitted.mark).collect();
        let omitted_by = self.store().reductions_at(key, &marks).await?;
        let estimated_tokens = view.estimated_tokens;
        let mut messages = view.messages;
        messages.drain(..known_count);
        let bytes = messages.iter().map(super::events::view_message_bytes).sum();
        let held = self.until_taken(held.take(), bytes);
        Ok(Context {
            revision: source.at,
            hash,
            token,
            known_count,
            context_tokens,
            estimated_tokens,
            window_tokens,
            fits,
            shortened,
            pending: source.pending.compaction,
            covered: source.layout.covered,
            provenance,
            omitted: source.layout.omitted,
            omitted_by,
            empty,
            left_out: omitted.into_iter().map(|at| RevisionRange { first: at, last: at }).collect(),
            held: Some(held),
            messages,
        })
    }

    async fn build(&self, key: SessionKey, request: &ContextRequest) -> Result<Built> {
        let (source, held) = self.roomy_source(key, request.as_of).await?;
        let policy = self.parse_policy(&source.policy)?;
        let mut fold = self.fold_of(&source, &policy).await?;
        let provenance = self.sign(&source, &mut fold.view).await?;
        let window = window_of_call(&source.window, request.window.as_ref()).clone();
        Ok(Built { source, held, policy, window, fold, provenance })
    }

    /// Waits until the view fits, nothing is pending any more, or time is up. What is due is pending too: whoever waits
    /// right after a write waits for the decision first.
    async fn wait_until_it_fits(&self, key: SessionKey, request: &ContextRequest, mut built: Built) -> Result<Built> {
        let most = Duration::from_millis(limits::WAIT_MS_MAX);
        let wait = request.wait.unwrap_or(Duration::from_millis(limits::WAIT_MS_DEFAULT)).min(most);
        let deadline = tokio::time::Instant::now() + wait;
        let mut head = self.store().watch_head();
        let mut is_hollow = false;
        while !built.fits() && built.source.pending != Pending::default() && tokio::time::Instant::now() < deadline {
            // Others need the room more than one who waits.
            built.held = None;
            built.source.messages = Vec::new();
            built.fold.view.messages = Vec::new();
            is_hollow = true;
            head.mark_unchanged();
            if self.store().pending(key).await? == built.source.pending {
                tokio::select! {
                    () = tokio::time::sleep_until(deadline) => break,
                    () = self.shared.stopping.cancelled() => break,
                    changed = head.changed() => if changed.is_err() { break },
                }
                continue;
            }
            built = self.build(key, request).await?;
            is_hollow = false;
        }
        if is_hollow {
            built = self.build(key, request).await?;
        }
        Ok(built)
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
        let policy = self.parse_policy(&source.policy)?;
        let before = self.fold_of(&source, &policy).await?.hashes;
        if before.last().is_none_or(|hash| hash.as_slice() != known) {
            // The caller holds something else, such as a view that was shortened for one call.
            return Ok(0);
        }
        Ok(before.iter().zip(chain).take_while(|(before, now)| before == now).count())
    }
}
