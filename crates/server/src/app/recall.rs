//! Views under a policy with retrieval: passages of hidden dialogue are brought back into them.

use super::error::Result;
use super::nouns::{History, Views};
use crate::fold::Passages;
use crate::loaded::{LoadedSession, SessionSettings};
use crate::model::view::ViewMessage;
use crate::policy::recall::{self, RecallQuery};
use crate::scheduler;
use crate::store::{Lookup, Source};
use std::sync::Arc;

impl Views<'_> {
    /// A session from its rows.
    pub(super) async fn loaded_from(self, source: Source) -> Result<LoadedSession> {
        let policy = self.caller.parse_policy(&source.policy)?;
        Ok(LoadedSession::new(self.caller.store(), source, Arc::new(policy)).await?)
    }

    /// A session with the passages that its policy brings back into its view.
    ///
    /// They depend on nothing after the session's revision: the index is only a fast way to the rows.
    pub(super) async fn with_passages(self, session: LoadedSession) -> Result<LoadedSession> {
        let Some((wanted, room)) = passage_query(&session) else { return Ok(session) };
        let message = self.recall_passages(&session, &wanted, room).await?;
        Ok(with_message(session, &wanted, message))
    }

    /// The same for the newest state of a session in memory, which remembers the passages: the views up to the next
    /// request have the same ones.
    pub(super) async fn with_kept_passages(self, session: Arc<LoadedSession>) -> Result<Arc<LoadedSession>> {
        let Some((wanted, room)) = passage_query(&session) else { return Ok(session) };
        let loaded = &self.caller.shared.loaded;
        let message = match loaded.passages(&session, &wanted, room) {
            Some(message) => message,
            None => {
                let message = self.recall_passages(&session, &wanted, room).await?;
                loaded.keep_passages(&session, &wanted, room, message.clone());
                message
            }
        };
        if message.is_none() {
            return Ok(session);
        }
        Ok(Arc::new(with_message(Arc::unwrap_or_clone(session), &wanted, message)))
    }

    /// The message with the passages for a query.
    async fn recall_passages(
        self,
        session: &LoadedSession,
        wanted: &RecallQuery,
        room: i64,
    ) -> Result<Option<ViewMessage>> {
        let (store, key) = (self.caller.store(), session.source.session);
        // Fills the gaps of the index first; usually the background has filled them already.
        for (owner, through) in store.index().owners_to_index(key, &wanted.hidden, wanted.hidden_by).await? {
            scheduler::index(store, owner, through).await?;
        }
        let lookup = Lookup {
            sealed_by: wanted.hidden_by,
            ranges: wanted.hidden.clone(),
            words: recall::lookups(&wanted.words),
            matches: recall::MATCHES_MAX,
            examined: recall::MATCHES_EXAMINED_MAX,
        };
        let promising = recall::promising(&store.index().matches(key, &lookup).await?);
        let messages = store.history().at_revisions(key, session.source.at, &promising, recall::BYTES_MAX).await?;
        Ok(recall::recall(&session.policy, &wanted.words, &messages, room))
    }
}

impl History<'_> {
    /// Has the index filled after an append, if the policy uses it.
    pub(super) fn fill_index(self, known: &SessionSettings) {
        if known.policy.retrieval.is_some() {
            self.caller.shared.scheduler.queue_for_index(known.key);
        }
    }
}

/// The query for the view of a session without passages, and the tokens that they may take without making it exceed its
/// window. None if there is no query, or if the window is full.
fn passage_query(session: &LoadedSession) -> Option<(RecallQuery, i64)> {
    let LoadedSession { source, policy, fold, .. } = session;
    let window = &source.window;
    // Passages go where nothing else would be, so they leave the space for a reply.
    let reply_tokens = if window.input.is_some_and(|input| input > 0) { 0 } else { window.output.unwrap_or(0) };
    let free_tokens =
        window.input_max().map(|limit| limit.saturating_sub(reply_tokens).saturating_sub(fold.context_tokens(window)));
    let is_full = free_tokens.is_some_and(|free_tokens| free_tokens <= 0);
    let wanted = recall::wanted(policy, &source.layout, &source.messages).filter(|_| !is_full)?;
    Some((wanted, recall::room(policy, free_tokens)))
}

fn with_message(session: LoadedSession, wanted: &RecallQuery, message: Option<ViewMessage>) -> LoadedSession {
    match message {
        Some(message) => session.with_passages(Passages { request: wanted.request, message }),
        None => session,
    }
}
