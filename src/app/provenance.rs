//! Whose words a summary's are: said beside every view that shows one.

use super::Longhand;
use super::error::Result;
use crate::config::BUILT_IN;
use crate::model::compaction::{Outcome, Trigger};
use crate::model::event::EventBody;
use crate::model::layout::Covered;
use crate::model::view::{Author, Provenance, Standing, View};
use crate::store::{self, SessionKey};
use std::sync::Arc;

/// Who wrote the summary of a reduction.
fn author(trigger: Trigger, outcome: &Outcome) -> Author {
    // Before outcomes said so, only a reduction that was itself supplied had a client's summary.
    if outcome.supplied || trigger == Trigger::Supplied {
        Author::Client
    } else if outcome.summarizer == BUILT_IN {
        Author::BuiltIn
    } else {
        Author::Model
    }
}

impl Longhand {
    /// Notes on the summary in a view whose words it has, and says the same beside the view. It is told by the event
    /// that put the summary in force, which is under the hash of the chain like everything else that a view shows.
    pub(super) async fn sign(
        &self,
        session: SessionKey,
        covered: Option<&Covered>,
        view: &mut View,
    ) -> Result<Option<Arc<Provenance>>> {
        let Some(covered) = covered else { return Ok(None) };
        let event = self.store().event_at(session, covered.mark).await?;
        let Some(EventBody::Compacted { trigger, outcome, .. }) = event.map(|event| event.body) else {
            let detail = "the mark of a summary has no event that tells of it".to_owned();
            return Err(store::Error::Corrupt { table: "event", detail }.into());
        };
        let provenance = Arc::new(Provenance {
            compaction: covered.compaction,
            summary: outcome.summary_message,
            author: author(trigger, &outcome),
            summarizer: outcome.summarizer,
        });
        for message in view.messages.iter_mut().filter(|message| message.standing == Standing::Summary) {
            message.provenance = Some(provenance.clone());
        }
        Ok(Some(provenance))
    }
}
