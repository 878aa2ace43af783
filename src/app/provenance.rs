//! Whose words a summary's are: said beside every view that shows one.

use super::Longhand;
use super::error::Result;
use crate::config::BUILT_IN;
use crate::model::event::EventBody;
use crate::model::ids::MessageId;
use crate::model::view::{Author, Provenance, Standing, View};
use crate::store::{self, Source};
use std::sync::Arc;

/// Who has this name, if it is no client's.
fn asked(summarizer: &str) -> Author {
    if summarizer == BUILT_IN { Author::BuiltIn } else { Author::Model }
}

impl Longhand {
    /// Notes on the summaries in a view whose words they have, and says of the one that stands for covered history also
    /// beside the view.
    pub(super) async fn sign(&self, source: &Source, view: &mut View) -> Result<Option<Arc<Provenance>>> {
        let summary = self.of_summary(source).await?.map(Arc::new);
        for message in &mut view.messages {
            message.provenance = match message.standing {
                Standing::Summary => summary.clone(),
                Standing::Branch => message.source.and_then(|id| of_branch(source, id)).map(Arc::new),
                Standing::Shown
                | Standing::Marker
                | Standing::Paired
                | Standing::Filler
                | Standing::Retrieved
                | Standing::Added => None,
            };
        }
        Ok(summary)
    }

    /// It is told by the event that put the summary in force, which is under the hash of the chain like everything else
    /// that a view shows.
    async fn of_summary(&self, source: &Source) -> Result<Option<Provenance>> {
        let Some(covered) = &source.layout.covered else { return Ok(None) };
        let event = self.store().event_at(source.session, covered.mark).await?;
        let Some(EventBody::Compacted { trigger, outcome, .. }) = event.map(|event| event.body) else {
            let detail = "the mark of a summary has no event that tells of it";
            return Err(store::Error::corrupt("event", detail).into());
        };
        Ok(Some(Provenance {
            compaction: Some(covered.compaction),
            summary: outcome.summary_message,
            author: if outcome.is_supplied(trigger) { Author::Client } else { asked(&outcome.summarizer) },
            summarizer: outcome.summarizer,
        }))
    }
}

/// The summary of a branch says itself who wrote it.
fn of_branch(source: &Source, id: MessageId) -> Option<Provenance> {
    let found = source.messages.iter().find(|source| source.message.id == id)?;
    let summarizer = found.message.model.clone();
    Some(Provenance { compaction: None, summary: Some(id), author: asked(&summarizer), summarizer })
}
