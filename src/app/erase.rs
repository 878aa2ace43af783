//! Erasures for callers.

use super::error::{Error, Result};
use super::{Caller, Longhand};
use crate::limits;
use crate::model::Revision;
use crate::model::ids::{PartId, SessionId};
use crate::store::{self, Kind};
pub use crate::store::{EraseTarget, ErasedSizes};
use crate::turns;
use std::sync::Arc;
use std::time::Duration;

/// What a caller wants erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EraseRequest {
    /// The part, the messages or the session.
    pub target: EraseTarget,
    /// The reason, for the log.
    pub reason: String,
    /// True to change nothing.
    pub dry_run: bool,
    /// Refuses the erasure if history, marks, policy or window changed after this revision.
    pub expected_revision: Option<Revision>,
}

/// The answer to an erasure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erased {
    /// The session whose content it was.
    pub session: SessionId,
    /// The revision and the number of its event there; none for a dry run.
    pub event: Option<(i64, i64)>,
    /// What went, or would go.
    pub sizes: ErasedSizes,
    /// True if it was erased before.
    pub existed: bool,
    /// Files that may still have bytes of it.
    pub pending_files: Vec<String>,
}

impl EraseTarget {
    /// The id that it names, or the first one; none for a session.
    fn id(&self) -> Option<String> {
        match self {
            Self::Part(part) => Some(part.to_string()),
            Self::Messages(messages) => messages.first().cloned(),
            Self::Session => None,
        }
    }
}

/// The target with a part's id.
///
/// # Errors
///
/// `INVALID_FIELD` if it is none.
pub fn part_target(id: &str) -> Result<EraseTarget> {
    id.parse::<PartId>().map(EraseTarget::Part).map_err(|error| Error::field("part_id", error))
}

impl Caller {
    /// Erases content, or says what an erasure would take. Content that a fork shares belongs to the session that it was
    /// forked from, which the caller must see as well.
    pub async fn erase(&self, session: &str, request: EraseRequest) -> Result<Erased> {
        let EraseRequest { target, mut reason, dry_run, expected_revision } = request;
        if reason.is_empty() {
            return Err(Error::field("reason", "is empty"));
        }
        self.screen().text("reason", &mut reason)?;
        if reason.len() > limits::ERASE_REASON_BYTES_MAX {
            return Err(Error::field("reason", format_args!("has more than {} bytes", limits::ERASE_REASON_BYTES_MAX)));
        }
        if let EraseTarget::Messages(ids) = &target {
            if ids.is_empty() || ids.iter().any(String::is_empty) {
                return Err(Error::field("message_ids", "is empty"));
            }
            if ids.len() > limits::ERASE_MESSAGES_MAX {
                return Err(Error::limit("message_ids", limits::ERASE_MESSAGES_MAX, ids.len()));
            }
        }
        let key = self.session_key(session).await?;
        let erasures = self.store().erasures();
        let owner = erasures.owner(key, &target).await?;
        if owner != key && !self.store().sessions().admits(&self.visibility, owner).await? {
            let id = target.id().unwrap_or_default();
            return Err(store::Error::NotFound { kind: Kind::Message, id }.into());
        }
        let session = self.store().sessions().id(owner).await?;
        if dry_run {
            let sizes = erasures.preview(key, &target).await?;
            return Ok(Erased { session, event: None, sizes, existed: false, pending_files: Vec::new() });
        }
        // What has begun goes on without its caller.
        let (shared, requester) = (Arc::clone(&self.shared), self.requester());
        let erasing = turns::spawn(async move {
            let is_session = target == EraseTarget::Session;
            let request = (target, reason, expected_revision);
            let erased = shared.store.erasures().erase(key, requester, request, &shared.stopping).await;
            if is_session {
                // Its client id may be another session's from now on.
                shared.forget();
            }
            erased
        });
        let erased = erasing.await.map_err(Error::internal)??;
        let mut pending_files = erasures.clean(&erased).await;
        // The events of sessions that shared it are in the same commit.
        let head = self.store().log().head_seq();
        let search = self.store().search();
        let forgetting = search.has_forgotten(head, Duration::from_millis(limits::ERASE_CLEAN_WAIT_MS));
        // Once the daemon stops, the index forgets nothing before its next start.
        if !self.shared.unless_stopping(forgetting).await.unwrap_or(false) {
            pending_files.extend(store::Search::files());
        }
        let event = Some((erased.revision, erased.seq));
        Ok(Erased { session, event, sizes: erased.sizes, existed: erased.existed, pending_files })
    }
}

impl Longhand {
    /// Goes on with erasures that have begun, until the daemon stops: an earlier one was stopped in between, or a step
    /// failed. Looks for them at once, and then again and again.
    pub async fn finish_erasures(self, interval: Duration) {
        let mut looks = tokio::time::interval(interval);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.shared.stopping.cancelled() => return,
                _ = looks.tick() => {}
            }
            let left = match self.shared.store.erasures().left().await {
                Ok(left) => left,
                Err(error) => {
                    tracing::warn!(%error, "erasures that have begun cannot be looked for");
                    continue;
                }
            };
            for session in left {
                match self.shared.store.erasures().go_on(session, &self.shared.stopping).await {
                    Ok(_) => self.shared.forget(),
                    // The daemon stops.
                    Err(store::Error::Closed) => return,
                    Err(error) => tracing::warn!(session = session.0, %error, "the erasure of a session goes on later"),
                }
            }
        }
    }
}
