//! Views with what comes back into them of the dialogue that they no longer show.

use super::carried::carry;
use super::error::Result;
use super::{Known, Longhand};
use crate::model::view::View;
use crate::policy::{Policy, plan, recall};
use crate::scheduler;
use crate::store::{Lookup, Source};

impl Longhand {
    /// The view that a source makes under its policy, with what its messages carry of their originals.
    pub(super) async fn view_of(&self, source: &Source, policy: &Policy) -> Result<View> {
        let mut view = self.with_recalled(source, policy, plan::view(policy, &source.messages)).await?;
        carry(&source.messages, &mut view);
        Ok(view)
    }

    /// A view with what comes back into it.
    ///
    /// It depends on nothing behind the source's revision: the index is only a quick way to the rows.
    async fn with_recalled(&self, source: &Source, policy: &Policy, view: View) -> Result<View> {
        let Some(wanted) = recall::wanted(policy, &source.layout, &source.messages) else { return Ok(view) };
        let (store, session) = (self.store(), source.session);
        // What is missing in the index is filled in first; mostly that was done in the background.
        for (owner, through) in store.to_index(session, &wanted.hidden, wanted.hidden_by).await? {
            scheduler::index(store, owner, through).await?;
        }
        let lookup = Lookup {
            sealed_by: wanted.hidden_by,
            ranges: wanted.hidden,
            words: recall::lookups(&wanted.words),
            matches: recall::MATCHES_MAX,
            looked: recall::MATCHES_LOOKED_MAX,
        };
        let promising = recall::promising(&store.matches(session, &lookup).await?);
        let messages = store.messages_at(session, source.at, &promising, recall::BYTES_MAX).await?;
        Ok(match recall::recall(policy, &wanted.words, &messages) {
            Some(recalled) => recall::join(policy, view, wanted.request, recalled),
            None => view,
        })
    }

    /// Has the index filled behind an append, where the policy has use for it.
    pub(super) fn note_written(&self, known: &Known) {
        if known.policy.retrieval.is_some() {
            self.shared.scheduler.note(known.key);
        }
    }
}
