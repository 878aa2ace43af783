//! A session's rows with all that follows from them.

use super::{counts, provenance};
use crate::background;
use crate::fold::form::{Form, FormedView};
use crate::fold::{Fold, FoldInput, Passages, ShortenedView};
use crate::limits;
use crate::model::Revision;
use crate::model::compaction::RevisionRange;
use crate::model::ids::{CompactionId, MessageId};
use crate::model::layout::{OmitReason, OmittedHistory};
use crate::model::message::{Message, MessageKind};
use crate::model::session::ContextSize;
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::model::view::{Provenance, SourceMessage, ViewMessage};
use crate::policy::Policy;
use crate::policy::bpe::Vocabulary;
use crate::policy::plan::PlanningInput;
use crate::presets;
use crate::store::{self, Error, NewMessages, Newest, Result, Source, Store};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Bytes of a session without messages.
const SESSION_BYTES: usize = 4 * 1_024;
/// Bytes of overhead per message, in stored and view form together.
const MESSAGE_BYTES: usize = 512;
/// Bytes of overhead per part, in the same way.
pub(super) const PART_BYTES: usize = 256;
/// Memory of a policy in lengths of its text: the text, and its parsed form as two.
#[doc(hidden)]
pub const POLICY_COPIES: usize = 3;

/// A session's rows at one revision, with their fold and other derived data.
#[derive(Debug, Clone)]
pub struct LoadedSession {
    /// The rows.
    pub source: Source,
    /// The policy, parsed.
    pub policy: Arc<Policy>,
    /// The form of the view: for the window's provider, unless a call asked for another.
    pub formed: FormedView,
    /// The fold of the rows in that form.
    pub fold: Fold,
    /// The author of the active summary.
    pub provenance: Option<Arc<Provenance>>,
    /// For each omission of the layout, the compaction that made it; none for a rewind or an edit.
    pub omitted_by: Vec<Option<CompactionId>>,
    /// Messages of the layout without any content left in the view, ascending.
    empty_messages: Vec<Revision>,
    size: Size,
}

/// The size of the messages of a session.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    content_bytes: usize,
    parts: usize,
}

impl Size {
    fn of(messages: &[SourceMessage]) -> Self {
        let parts = messages.iter().map(|source| source.message.parts.len()).sum();
        Self { content_bytes: content_bytes(messages), parts }
    }
}

impl LoadedSession {
    /// A session from its rows, without passages of hidden messages.
    pub async fn new(store: &Store, mut source: Source, policy: Arc<Policy>) -> Result<LoadedSession> {
        let provenance = provenance::of_summary(store, &source).await?.map(Arc::new);
        let omitted_by = omitted_by(store, &source).await?;
        // New counts are not stored, because a read writes nothing.
        counts::fill(store, &policy, &mut source.messages).await?;
        background::decide(|| counts::by_length(&policy, &mut source.messages));
        let formed = formed(&source);
        let size = Size::of(&source.messages);
        let fold = background::decide(|| Fold::new(fold_input(&source, &formed, &policy), None));
        let mut session =
            Self { source, policy, formed, fold, provenance, omitted_by, empty_messages: Vec::new(), size };
        session.complete_view();
        Ok(session)
    }

    /// The session with its view in another form, without passages of hidden messages; none if that is the same view.
    pub fn in_form(&self, form: Form) -> Option<Self> {
        if self.formed.is_as_in(form) {
            return None;
        }
        let formed = FormedView::new(form, &self.source.layout, &self.source.messages);
        let fold = Fold::new(fold_input(&self.source, &formed, &self.policy), None);
        let mut session = Self { formed, fold, ..self.clone() };
        session.complete_view();
        Some(session)
    }

    /// Adds to a whole new view what the fold does not know.
    fn complete_view(&mut self) {
        let (shown, view) = (self.formed.shown(&self.source.messages), &mut self.fold.view.messages);
        provenance::set_author(shown, view, self.provenance.as_ref());
        self.empty_messages = empty_messages(shown, view);
    }

    /// The session with passages in its view. It cannot be extended.
    pub fn with_passages(self, passages: Passages) -> Self {
        let fold = self.fold.with_passages(fold_input(&self.source, &self.formed, &self.policy), passages);
        Self { fold, ..self }
    }

    /// The view shortened to a window for one call.
    pub fn shortened(&self, window: &ModelWindow) -> ShortenedView {
        let Source { layout, messages, at: base, .. } = &self.source;
        let (sources, covered) = (self.formed.shown(messages), self.formed.covered());
        // The last resort does not depend on the time.
        let now = Timestamp(0);
        let planning = PlanningInput { policy: &self.policy, window, layout, sources, covered, base: *base, now };
        let mut shortened = self.fold.shortened(planning);
        provenance::set_author(sources, &mut shortened.view.messages, self.provenance.as_ref());
        shortened
    }

    /// Messages of the layout without any content left in the view.
    pub fn empty_messages(&self) -> Vec<RevisionRange> {
        let ranges = self.empty_messages.chunk_by(|before, next| before + 1 == *next);
        ranges.map(|range| RevisionRange { first: range[0], last: range[range.len() - 1] }).collect()
    }

    /// The newest messages of the history, newest first, and the revision of the one before them. None if they must be
    /// read from the store: a change other than an append came between them, there are too few, or they exceed a page.
    pub fn newest_messages(&self, count: usize) -> Option<(Vec<Message>, Revision)> {
        let Source { messages, changed_revision, .. } = &self.source;
        // One more than requested is the next.
        let first = messages.len().checked_sub(count)?.checked_sub(1)?;
        let (next, newest) = messages[first..].split_first()?;
        let is_own =
            |source: &&SourceMessage| source.placement.is_none() && source.message.revision > *changed_revision;
        if !messages[first..].iter().all(|source| is_own(&source)) || content_bytes(newest) > limits::PAGE_BYTES_MAX {
            return None;
        }
        let newest = newest.iter().rev().map(|source| Message::clone(&source.message)).collect();
        Some((newest, next.message.revision))
    }

    /// The size of a request with its view.
    pub fn context(&self) -> ContextSize {
        ContextSize { tokens: self.fold.context_tokens(&self.source.window), revision: self.source.at }
    }

    /// The session at an earlier revision; none if anything but sealed messages has changed since, so that its rows must be
    /// read.
    pub fn at(&self, at: Revision) -> Option<Self> {
        let Source { messages, changed_revision, first_open, pending, appended_bytes, .. } = &self.source;
        let is_settled = |message: &Message| {
            message.sealed_revision.is_none_or(|sealed| sealed <= at)
                && message.parts.iter().all(|part| part.revision <= at)
        };
        let mut earlier = messages.iter().filter(|source| source.message.revision <= at);
        if *changed_revision > at || self.source.at < at || !earlier.all(|source| is_settled(&source.message)) {
            return None;
        }
        let newest = Newest { at, first_open: *first_open, pending: *pending, appended_bytes: *appended_bytes };
        let mut session = self.clone();
        session.extend(NewMessages { from: at + 1, newest, messages: Vec::new() });
        session.empty_messages.retain(|revision| *revision <= at);
        Some(session)
    }

    /// Replaces the messages from a revision on by newer ones.
    pub(super) fn extend(&mut self, NewMessages { from, newest, messages: newer }: NewMessages) {
        // Messages without a placement come last, in the order of their revisions.
        let known = &mut self.source.messages;
        let unchanged = known.iter().rposition(|source| source.placement.is_some() || source.message.revision < from);
        let unchanged = unchanged.map_or(0, |last| last + 1);
        let (gone, new) = (Size::of(&known[unchanged..]), Size::of(&newer));
        self.size.content_bytes = self.size.content_bytes - gone.content_bytes + new.content_bytes;
        self.size.parts = self.size.parts - gone.parts + new.parts;
        known.truncate(unchanged);
        known.extend(newer);
        counts::by_length(&self.policy, &mut known[unchanged..]);
        let Newest { at, first_open, pending, appended_bytes } = newest;
        let source = &mut self.source;
        (source.at, source.first_open, source.pending, source.appended_bytes) =
            (at, first_open, pending, appended_bytes);
        let Source { layout, messages, window, .. } = &self.source;
        let unchanged = self.formed.extend(|| Form::of_window(window), layout, messages, unchanged);
        let restart = self.fold.extend(fold_input(&self.source, &self.formed, &self.policy), unchanged);
        if restart.sources == 0 {
            return self.complete_view();
        }
        let newer = &self.formed.shown(&self.source.messages)[restart.sources..];
        let shown = &mut self.fold.view.messages[restart.shown..];
        provenance::set_author(newer, shown, self.provenance.as_ref());
        let changed: HashSet<Revision> = newer.iter().map(|source| source.message.revision).collect();
        let first = changed.iter().min().map_or(self.empty_messages.len(), |first| {
            self.empty_messages.partition_point(|revision| revision < first)
        });
        let mut later = self.empty_messages.split_off(first);
        later.retain(|revision| !changed.contains(revision));
        later.extend(empty_messages(newer, shown));
        later.sort_unstable();
        self.empty_messages.extend(later);
    }

    /// The bytes of its messages, as the limits of views count them.
    pub(super) fn content_bytes(&self) -> usize {
        self.size.content_bytes
    }

    /// Approximate memory: the contents, which history and view share, the fields around them in both, and the policy.
    pub fn bytes(&self) -> usize {
        let Source { messages, layout, policy, .. } = &self.source;
        let Size { content_bytes, parts } = self.size;
        let around =
            SESSION_BYTES + MESSAGE_BYTES * messages.len() + PART_BYTES * parts + PART_BYTES * layout.spans.len();
        content_bytes.saturating_add(around) + POLICY_COPIES * policy.json.len()
    }
}

/// For each omission of a layout, the compaction that made it. Those by edits and rewinds, which may be thousands, are not
/// looked up.
async fn omitted_by(store: &Store, source: &Source) -> Result<Vec<Option<CompactionId>>> {
    let is_of_compaction =
        |omitted: &&OmittedHistory| matches!(omitted.reason, OmitReason::Compacted | OmitReason::Replayed);
    let omitted = &source.layout.omitted;
    let marks: BTreeSet<Revision> = omitted.iter().filter(is_of_compaction).map(|omitted| omitted.mark).collect();
    if marks.is_empty() {
        return Ok(vec![None; omitted.len()]);
    }
    let marks: Vec<Revision> = marks.into_iter().collect();
    let by_mark: HashMap<Revision, Option<CompactionId>> =
        marks.iter().copied().zip(store.compactions().at_marks(source.session, &marks).await?).collect();
    Ok(omitted.iter().map(|omitted| by_mark.get(&omitted.mark).copied().flatten()).collect())
}

/// The bytes of messages, as the limits of views count them.
pub(super) fn content_bytes(messages: &[SourceMessage]) -> usize {
    messages.iter().map(|source| store::message_bytes(&source.message)).sum()
}

/// The fold of a session's rows without passages of hidden messages, as decisions use it.
pub fn fold(policy: &Policy, source: &Source, formed: &FormedView) -> Fold {
    Fold::new(fold_input(source, formed, policy), None)
}

/// The form of a session's view for its window's provider.
pub fn formed(source: &Source) -> FormedView {
    FormedView::new(Form::of_window(&source.window), &source.layout, &source.messages)
}

fn fold_input<'a>(source: &'a Source, formed: &'a FormedView, policy: &'a Policy) -> FoldInput<'a> {
    let Source { messages, changed_revision, window, .. } = source;
    FoldInput { policy, messages: formed.shown(messages), changed_revision: *changed_revision, window }
}

/// The messages of a layout that a view does not show because they have no content left, ascending. Records are in no
/// view.
fn empty_messages(sources: &[SourceMessage], shown: &[ViewMessage]) -> Vec<Revision> {
    let shown: HashSet<MessageId> = shown.iter().filter_map(|message| message.source).collect();
    let messages = sources.iter().map(|source| &source.message);
    let empty_messages = messages.filter(|message| message.kind != MessageKind::Record && !shown.contains(&message.id));
    let mut revisions: Vec<Revision> = empty_messages.map(|message| message.revision).collect();
    revisions.sort_unstable();
    revisions
}

/// Parses a stored policy and sets the vocabularies that it names. The store wrote the policy itself, so any error is
/// corruption.
pub fn parse_policy(text: &store::PolicyText, vocabularies: &[Arc<Vocabulary>]) -> Result<Policy> {
    let policy = presets::read_policy(&text.json).map_err(|error| Error::corrupt("policy_text", error))?;
    Ok(policy.with_vocabularies(vocabularies))
}
