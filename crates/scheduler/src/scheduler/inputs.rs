//! Inputs of decisions and plans, from the rows of the store.

use super::error::Error;
use super::worker::Worker;
use crate::fold::form::FormedView;
use crate::fold::guards::GuardInput;
use crate::limits;
use crate::loaded::{self, counts};
use crate::model::compaction::Compaction;
use crate::model::time::Timestamp;
use crate::model::usage::ModelWindow;
use crate::policy::Policy;
use crate::policy::plan::PlanningInput;
use crate::store::{GuardRows, SessionKey, Source};

/// The planning input for a decision about a session's view, in the form for its window's provider.
pub fn planning_input<'a>(
    policy: &'a Policy,
    window: &'a ModelWindow,
    source: &'a Source,
    formed: &'a FormedView,
    now: Timestamp,
) -> PlanningInput<'a> {
    let (sources, covered) = (formed.shown(&source.messages), formed.covered());
    PlanningInput { policy, window, layout: &source.layout, sources, covered, base: source.at, now }
}

/// The input of a session's guards.
pub fn guard_input(rows: &GuardRows) -> GuardInput<'_> {
    GuardInput { ended: &rows.ended, guard_revision: rows.guard_revision, undo_revision: rows.undo_revision }
}

impl Worker {
    /// Parses the active policy of a source, and adds the token counts that its messages lack under that policy. New
    /// counts are stored, so that no text is encoded twice.
    pub(super) async fn parse_and_count(&self, source: &mut Source) -> Result<Policy, Error> {
        let policy = loaded::parse_policy(&source.policy, &self.vocabularies)?;
        let fresh = counts::fill(&self.store, &policy, &mut source.messages).await?;
        counts::keep(&self.store, fresh).await?;
        Ok(policy)
    }

    /// The newest compactions of a session, as many as the answer to an overflow needs.
    pub(super) async fn newest_compactions(&self, session: SessionKey) -> Result<Vec<Compaction>, Error> {
        let compactions = self.store.compactions().list(session, None, limits::OVERFLOW_COMPACTIONS_MAX).await?;
        Ok(compactions.into_iter().map(|(_, compaction)| compaction).collect())
    }
}
