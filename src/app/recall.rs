//! Views under a policy with retrieval: passages of hidden dialogue are brought back into them.

use super::error::Result;
use super::{CachedSession, Longhand};
use crate::fold::{Fold, FoldInput, Passages};
use crate::loaded::{LoadedSession, counts};
use crate::policy::{Policy, overflow, recall};
use crate::scheduler;
use crate::store::{Lookup, Source};
use std::sync::Arc;

impl Longhand {
    /// A session from its rows, with the passages that its policy brings back.
    pub(super) async fn loaded_from(&self, mut source: Source) -> Result<LoadedSession> {
        let policy = self.parse_policy(&source.policy)?;
        let passages = self.passages(&mut source, &policy).await?;
        Ok(LoadedSession::new(self.store(), source, Arc::new(policy), passages).await?)
    }

    /// The passages that a policy with retrieval brings back into a view.
    ///
    /// They depend on nothing after the source's revision: the index is only a fast way to the rows.
    async fn passages(&self, source: &mut Source, policy: &Policy) -> Result<Option<Passages>> {
        let Some(wanted) = recall::wanted(policy, &source.layout, &source.messages) else { return Ok(None) };
        let Some(free_tokens) = self.free_tokens(source, policy).await? else { return Ok(None) };
        let (store, session) = (self.store(), source.session);
        // Fills the gaps of the index first; usually the background has filled them already.
        for (owner, through) in store.to_index(session, &wanted.hidden, wanted.hidden_by).await? {
            scheduler::index(store, owner, through).await?;
        }
        let lookup = Lookup {
            sealed_by: wanted.hidden_by,
            ranges: wanted.hidden,
            words: recall::lookups(&wanted.words),
            matches: recall::MATCHES_MAX,
            examined: recall::MATCHES_EXAMINED_MAX,
        };
        let promising = recall::promising(&store.matches(session, &lookup).await?);
        let messages = store.messages_at(session, source.at, &promising, recall::BYTES_MAX).await?;
        let message = recall::recall(policy, &wanted.words, &messages, free_tokens);
        Ok(message.map(|message| Passages { request: wanted.request, message }))
    }

    /// The tokens that passages may take without making the view exceed its window; none if the window is full.
    async fn free_tokens(&self, source: &mut Source, policy: &Policy) -> Result<Option<i64>> {
        let Some(limit) = overflow::input_max(&source.window) else { return Ok(Some(i64::MAX)) };
        counts::fill(self.store(), policy, &mut source.messages).await?;
        let Source { messages, changed_revision, window, .. } = source;
        let fold = Fold::new(FoldInput { policy, messages, changed_revision: *changed_revision, window }, None);
        Ok(Some(limit.saturating_sub(fold.context_tokens(window))).filter(|tokens| *tokens > 0))
    }

    /// Has the index filled after an append, if the policy uses it.
    pub(super) fn fill_index(&self, known: &CachedSession) {
        if known.policy.retrieval.is_some() {
            self.shared.scheduler.queue_for_index(known.key);
        }
    }
}
