//! The authors of summaries, for every view that shows a summary.

use crate::config::BUILT_IN;
use crate::model::event::EventBody;
use crate::model::ids::MessageId;
use crate::model::view::{Author, Provenance, SourceMessage, ViewKind, ViewMessage};
use crate::store::{Error, Result, Source, Store};
use std::sync::Arc;

/// The author of this name, if it is not a client.
fn author_of(summarizer: &str) -> Author {
    if summarizer == BUILT_IN { Author::BuiltIn } else { Author::Model }
}

/// Sets the author on the summaries in a view.
pub(super) fn set_author(sources: &[SourceMessage], messages: &mut [ViewMessage], summary: Option<&Arc<Provenance>>) {
    for message in messages {
        message.provenance = match message.kind {
            ViewKind::Summary => summary.cloned(),
            ViewKind::Branch => message.source.and_then(|id| of_branch(sources, id)).map(Arc::new),
            ViewKind::Shown
            | ViewKind::Marker
            | ViewKind::Paired
            | ViewKind::Filler
            | ViewKind::Retrieved
            | ViewKind::Added => None,
        };
    }
}

/// The author of the active summary. It is in the event of its compaction, which is under the hash of the chain like
/// everything else that a view shows.
pub(super) async fn of_summary(store: &Store, source: &Source) -> Result<Option<Provenance>> {
    let Some(covered) = &source.layout.covered else { return Ok(None) };
    let event = store.log().event_at(source.session, covered.mark).await?;
    let Some(EventBody::Compacted { trigger, outcome, .. }) = event.map(|event| event.body) else {
        return Err(Error::corrupt("event", "the mark of a summary has no event of its compaction"));
    };
    Ok(Some(Provenance {
        compaction: Some(covered.compaction),
        summary: outcome.summary_message,
        author: if outcome.is_supplied(trigger) { Author::Client } else { author_of(&outcome.summarizer) },
        summarizer: outcome.summarizer,
    }))
}

/// The author of the summary of a branch, which is in the message itself.
fn of_branch(sources: &[SourceMessage], id: MessageId) -> Option<Provenance> {
    let found = sources.iter().find(|source| source.message.id == id)?;
    let summarizer = found.message.model.clone();
    Some(Provenance { compaction: None, summary: Some(id), author: author_of(&summarizer), summarizer })
}
