//! Views for callers: what the model should see now, or saw then.

use super::error::{Error, Result};
use super::large_views::made_of;
use super::room::Held;
use super::{Longhand, validate, view_token, window_of_call};
use crate::limits;
use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use crate::model::ids::{CompactionId, MessageId, SessionId};
use crate::model::layout::{Covered, Omitted};
use crate::model::message::{FinishReason, GivenView, MessageKind, Role};
use crate::model::part::{MediaSource, PartBody};
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::model::view::{Carried, Provenance, Shortened, Standing, View, ViewMessage};
use crate::policy::{Policy, overflow, shorten};
use crate::store::{self, Pending, SessionKey, Source};
use std::collections::{HashMap, HashSet};
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
    /// Tokens, by trusted usage plus estimate for the view of now.
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
    session: SessionId,
    source: Source,
    /// The room that it takes while it is made; none for one that is not large.
    held: Option<Arc<Held>>,
    policy: Policy,
    window: ModelWindow,
    view: View,
    provenance: Option<Arc<Provenance>>,
    context_tokens: i64,
    pending: Pending,
    /// The session is decided up to this view's revision, and nothing is pending.
    is_decided: bool,
}

impl Built {
    fn fits(&self) -> bool {
        overflow::room(&self.window).is_none_or(|room| self.context_tokens <= room)
    }
}

impl Built {
    /// The messages of the layout that the view does not show because nothing of them is left to show. Records are in no
    /// view.
    fn empty(&self) -> Vec<RevisionRange> {
        let shown: HashSet<MessageId> = self.view.messages.iter().filter_map(|message| message.source).collect();
        let sources = self.source.messages.iter().map(|source| &source.message);
        let empty = sources.filter(|message| message.kind != MessageKind::Record && !shown.contains(&message.id));
        let mut revisions: Vec<Revision> = empty.map(|message| message.revision).collect();
        revisions.sort_unstable();
        let ranges = revisions.chunk_by(|before, next| before + 1 == *next);
        ranges.map(|range| RevisionRange { first: range[0], last: range[range.len() - 1] }).collect()
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
        let mut left_out = Vec::new();
        let mut shortened = false;
        let mut whole_hash = None;
        if request.action == OverflowAction::Shorten
            && !built.fits()
            && let Some(room) = overflow::room(&built.window)
        {
            // Reported usage counts what the estimate cannot see, such as a system prompt: keep the difference free.
            let unseen = (built.context_tokens - built.view.estimated_tokens).max(0);
            whole_hash = hashes(&built.view.messages).last().copied();
            let shorter = shorten::shorten(&built.policy, built.view, room - unseen);
            left_out = shorter.omitted.iter().map(|at| RevisionRange { first: *at, last: *at }).collect();
            built.view = shorter.view;
            built.context_tokens = built.view.estimated_tokens + unseen;
            shortened = true;
        }
        let chain = hashes(&built.view.messages);
        built.source.messages = Vec::new();
        let known_count = self.known_count(key, &request, &chain, built.held.as_deref()).await?;
        let hash = chain.last().copied().unwrap_or(EMPTY);
        let given = GivenView {
            revision: built.source.at,
            hash,
            window: built.window.clone(),
            // A view of which nothing had to go is the session's own.
            shortened: shortened && whole_hash != Some(hash),
        };
        let token = view_token::write(self.store().view_key(), built.session, &given);
        let marks: Vec<Revision> = built.source.layout.omitted.iter().map(|omitted| omitted.mark).collect();
        let omitted_by = self.store().reductions_at(key, &marks).await?;
        let mut messages = std::mem::take(&mut built.view.messages);
        messages.drain(..known_count);
        let bytes = messages.iter().map(super::events::view_message_bytes).sum();
        let held = self.until_taken(built.held.take(), bytes);
        Ok(Context {
            revision: built.source.at,
            hash,
            token,
            known_count,
            context_tokens: built.context_tokens,
            estimated_tokens: built.view.estimated_tokens,
            window_tokens: built.window.context,
            fits: built.fits(),
            shortened,
            pending: built.pending.compaction,
            covered: built.source.layout.covered,
            provenance: built.provenance,
            omitted: built.source.layout.omitted,
            omitted_by,
            empty,
            left_out,
            held: Some(held),
            messages,
        })
    }

    async fn build(&self, key: SessionKey, request: &ContextRequest) -> Result<Built> {
        // First of all: a reduction that ends while the view is read must not look as if nobody had asked for one.
        let (pending, _) = self.store().pending(key).await?;
        let (session, _) = self.store().session(key).await?;
        let (source, held) = self.roomy_source(key, request.as_of).await?;
        let policy = self.parse_policy(&source.policy)?;
        let mut view = self.view_of(&source, &policy).await?;
        let provenance = self.sign(&source, &mut view).await?;
        let window = window_of_call(&source.window, request.window.as_ref()).clone();
        // Usage is about the view of now; an older view has the policy's estimate.
        let now = request.as_of.is_none_or(|at| at == session.revision);
        let context_tokens = if now && self.store().has_trusted_usage(key).await? {
            session.context_tokens
        } else {
            view.estimated_tokens + window.overhead
        };
        let mut built = Built {
            session: session.id,
            source,
            held,
            policy,
            window,
            view,
            provenance,
            context_tokens,
            pending,
            is_decided: false,
        };
        if pending == Pending::default() && !built.fits() {
            // What came due while the view was read is pending for it, and a view that others have written behind is not
            // known to be decided.
            let (now, newest) = self.store().pending(key).await?;
            built.is_decided = now == Pending::default() && newest == built.source.at;
            built.pending = now;
        }
        Ok(built)
    }

    /// Waits until the view fits, nothing is pending any more, or time is up. What is due is pending too: whoever waits
    /// right after a write waits for the decision first.
    async fn wait_until_it_fits(&self, key: SessionKey, request: &ContextRequest, mut built: Built) -> Result<Built> {
        let most = Duration::from_millis(limits::WAIT_MS_MAX);
        let wait = request.wait.unwrap_or(Duration::from_millis(limits::WAIT_MS_DEFAULT)).min(most);
        let deadline = tokio::time::Instant::now() + wait;
        let mut head = self.store().watch_head();
        let mut is_hollow = false;
        while !built.fits() && !built.is_decided && tokio::time::Instant::now() < deadline {
            // Others need the room more than one who waits.
            built.held = None;
            built.source.messages = Vec::new();
            built.view.messages = Vec::new();
            is_hollow = true;
            head.mark_unchanged();
            if built.pending != Pending::default() && self.store().pending(key).await?.0 == built.pending {
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
        let before = hashes(&self.view_of(&source, &policy).await?.messages);
        if before.last().is_none_or(|hash| hash.as_slice() != known) {
            // The caller holds something else, such as a view that was shortened for one call.
            return Ok(0);
        }
        Ok(before.iter().zip(chain).take_while(|(before, now)| before == now).count())
    }
}

/// The hash of a view without messages.
const EMPTY: [u8; 32] = [0; 32];

/// The running hash of a view after each message; the last is the view's. A view that goes on where another ended
/// therefore contains the other's hash.
fn hashes(messages: &[ViewMessage]) -> Vec<[u8; 32]> {
    let mut before = EMPTY;
    // Messages that pairing took apart carry the same each time, which may be long.
    let mut carried: HashMap<MessageId, [u8; 32]> = HashMap::new();
    messages
        .iter()
        .map(|message| {
            let mut hasher = Hasher(blake3::Hasher::new());
            hasher.bytes(&before);
            hasher.message(message);
            if let (Some(id), Some(carries)) = (message.source, &message.carried) {
                hasher.bytes(carried.entry(id).or_insert_with(|| digest_of(carries)));
            }
            before = *hasher.0.finalize().as_bytes();
            before
        })
        .collect()
}

/// The hash of what a message carries of its original.
fn digest_of(carried: &Carried) -> [u8; 32] {
    let Carried { client_id, finish_reason, model, provider, create_time, origin_time, actor, metadata_json } = carried;
    let mut hasher = Hasher(blake3::Hasher::new());
    hasher.optional(client_id.as_deref());
    hasher.number(match finish_reason {
        None => 0,
        Some(FinishReason::Stop) => 1,
        Some(FinishReason::ToolCalls) => 2,
        Some(FinishReason::Length) => 3,
        Some(FinishReason::ContentFilter) => 4,
        Some(FinishReason::Error) => 5,
        Some(FinishReason::Aborted) => 6,
    });
    for name in [model, provider, actor] {
        hasher.bytes(name.as_bytes());
    }
    hasher.number(create_time.0);
    hasher.time(*origin_time);
    hasher.optional(metadata_json.as_deref());
    *hasher.0.finalize().as_bytes()
}

/// Feeds a view message to a hash, every field behind its length.
struct Hasher(blake3::Hasher);

impl Hasher {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn number(&mut self, number: i64) {
        self.0.update(&number.to_le_bytes());
    }

    fn optional(&mut self, text: Option<&str>) {
        self.number(i64::from(text.is_some()));
        self.bytes(text.unwrap_or_default().as_bytes());
    }

    fn time(&mut self, time: Option<Timestamp>) {
        self.number(i64::from(time.is_some()));
        self.number(time.map_or(0, |time| time.0));
    }

    fn message(&mut self, message: &ViewMessage) {
        self.bytes(message.source.map(|id| id.0.as_bytes().to_vec()).unwrap_or_default().as_slice());
        self.number(message.revision);
        self.number(match message.role {
            Role::User => 1,
            Role::Assistant => 2,
            Role::Tool => 3,
            Role::System => 4,
        });
        self.number(match message.standing {
            Standing::Shown => 1,
            Standing::Marker => 2,
            Standing::Summary => 3,
            Standing::Paired => 4,
            Standing::Filler => 5,
            Standing::Retrieved => 6,
            Standing::Branch => 7,
            Standing::Added => 8,
        });
        self.number(i64::try_from(message.parts.len()).unwrap_or(i64::MAX));
        for part in &message.parts {
            self.bytes(part.source.map(|id| id.0.as_bytes().to_vec()).unwrap_or_default().as_slice());
            match part.shortened {
                None => self.number(0),
                Some(Shortened::Pruned { original_length }) => {
                    self.number(1);
                    self.number(original_length);
                }
                Some(Shortened::Truncated { omitted_length }) => {
                    self.number(2);
                    self.number(omitted_length);
                }
            }
            self.optional(part.client_id.as_deref());
            self.optional(part.metadata_json.as_deref());
            self.body(&part.body);
        }
    }

    fn body(&mut self, body: &PartBody) {
        self.bytes(body.kind().as_bytes());
        match body {
            PartBody::Text(text) | PartBody::Reasoning(text) => self.bytes(text.as_bytes()),
            PartBody::ToolCall(call) => {
                for text in [&call.call_id, &call.tool, &call.input_json] {
                    self.bytes(text.as_bytes());
                }
                self.time(call.start_time);
                self.time(call.end_time);
            }
            PartBody::ToolResult(result) => {
                self.bytes(result.call_id.as_bytes());
                self.optional(result.answers.message());
                self.number(result.status as i64);
                self.bytes(result.output.as_bytes());
                self.time(result.start_time);
                self.time(result.end_time);
                self.number(i64::try_from(result.attachments.len()).unwrap_or(i64::MAX));
                for media in &result.attachments {
                    self.media(media);
                }
            }
            PartBody::Media(media) => self.media(media),
            PartBody::Marker(marker) => {
                self.bytes(marker.name.as_bytes());
                self.bytes(marker.text.as_bytes());
            }
            PartBody::Step(step) => self.bytes(step.finish_reason.as_bytes()),
            PartBody::Opaque(opaque) => {
                self.bytes(opaque.provider.as_bytes());
                self.bytes(opaque.kind.as_bytes());
                self.bytes(&opaque.data);
            }
            PartBody::Record(record) => {
                self.bytes(record.kind.as_bytes());
                self.bytes(record.data.as_bytes());
            }
        }
    }

    fn media(&mut self, media: &crate::model::part::Media) {
        self.bytes(media.mime_type.as_bytes());
        self.bytes(media.name.as_bytes());
        match &media.source {
            MediaSource::Bytes(bytes) => self.bytes(bytes),
            MediaSource::Uri(uri) => self.bytes(uri.as_bytes()),
        }
    }
}
