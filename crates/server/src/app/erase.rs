//! Erasures for callers.

use super::Longhand;
use super::api::AppParts;
use super::error::{Error, Result};
use super::nouns::Content;
use super::secrets::InputText;
use super::validate;
use crate::limits;
use crate::model::Revision;
use crate::model::ids::{PartId, SessionId};
use crate::store::{self, CheckedInput, Erasure, Kind, Requester, SessionKey, SubAgent};
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
pub struct EraseAnswer {
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
    /// Of an erased session those that work for it, at any depth: those that stay, or those that go with their tree.
    pub sub_agents: Vec<SessionId>,
}

/// The target with a part's id.
///
/// # Errors
///
/// `INVALID_FIELD` if it is none.
pub fn part_target(id: &str) -> Result<EraseTarget> {
    id.parse::<PartId>().map(EraseTarget::Part).map_err(|error| Error::field("part_id", error))
}

impl Content<'_> {
    /// Erases content, or says what an erasure would take. Content that a fork shares belongs to the session that it was
    /// forked from, which the caller must see as well.
    pub async fn erase(self, session: &str, request: EraseRequest) -> Result<EraseAnswer> {
        self.erase_with(session, request, false).await
    }

    /// The same of a session with those that work for it, at any depth. Each is an erasure of its own, that of the session
    /// first; the answer is that of the session with the counts of all.
    pub async fn erase_tree(self, session: &str, request: EraseRequest) -> Result<EraseAnswer> {
        if request.target != EraseTarget::Session {
            return Err(Error::field("tree", "goes with a whole session alone"));
        }
        self.erase_with(session, request, true).await
    }

    async fn erase_with(self, session: &str, request: EraseRequest, tree: bool) -> Result<EraseAnswer> {
        let EraseRequest { target, reason, dry_run, expected_revision } = request;
        let sent = self.caller.check(InputText { field: "reason", text: reason, check: validate::erase_reason })?;
        let reason = sent.with(sent.text.clone());
        if let EraseTarget::Messages(ids) = &target {
            if ids.is_empty() || ids.iter().any(String::is_empty) {
                return Err(Error::field("message_ids", "is empty"));
            }
            if ids.len() > limits::ERASE_MESSAGES_MAX {
                return Err(Error::limit("message_ids", limits::ERASE_MESSAGES_MAX, ids.len()));
            }
        }
        let key = self.caller.session_key(session).await?;
        let erasures = self.caller.store().erasures();
        let owner = match erasures.owner(key, &target).await {
            Err(error) => self.caller.messages().require_repeated(key, error).await.map(|()| key)?,
            Ok(owner) => owner,
        };
        if owner != key && !self.caller.store().sessions().admits(&self.caller.visibility, owner).await? {
            let id = target.id().unwrap_or_default();
            return Err(store::Error::NotFound { kind: Kind::Message, id }.into());
        }
        let session = self.caller.store().sessions().id(owner).await?;
        let sub_agents = if target == EraseTarget::Session { self.sub_agents(key, tree).await? } else { Vec::new() };
        let with: Vec<SessionKey> = sub_agents.iter().filter(|_| tree).map(|sub_agent| sub_agent.key).collect();
        let sub_agents = sub_agents.into_iter().map(|sub_agent| sub_agent.id).collect();
        if dry_run {
            let (mut sizes, mut existed) = erasures.preview(key, &target).await?;
            for sub_agent in with {
                let (more, is_over) = erasures.preview(sub_agent, &target).await?;
                (sizes, existed) = (sizes.with_session(more), existed && is_over);
            }
            return Ok(EraseAnswer { session, event: None, sizes, existed, pending_files: Vec::new(), sub_agents });
        }
        let request = (target, reason, expected_revision);
        // What has begun goes on without its caller.
        let erasing =
            turns::spawn(erase_all(Arc::clone(&self.caller.shared), self.caller.requester(), (key, with), request));
        let erased = erasing.await.map_err(Error::internal)??;
        let mut pending_files = erasures.clean(&erased).await;
        // The events of sessions that shared it are in the same commit.
        let head = self.caller.store().log().head_seq();
        let search = self.caller.store().search();
        let forgetting = search.has_forgotten(head, Duration::from_millis(limits::ERASE_CLEAN_WAIT_MS));
        // Once the daemon stops, the index forgets nothing before its next start.
        if !self.caller.shared.unless_stopping(forgetting).await.unwrap_or(false) {
            pending_files.extend(store::Search::files());
        }
        let event = Some((erased.revision, erased.seq));
        Ok(EraseAnswer { session, event, sizes: erased.sizes, existed: erased.existed, pending_files, sub_agents })
    }

    /// The sessions that work for one, as far as the caller sees them: those that stay, or all that go with it.
    async fn sub_agents(self, key: SessionKey, tree: bool) -> Result<Vec<SubAgent>> {
        let most = limits::ERASE_TREE_MAX;
        let mut sub_agents = Vec::new();
        for sub_agent in self.caller.store().erasures().sub_agents(key, most + 1).await? {
            if (tree || !sub_agent.is_erased) && self.caller.sees(sub_agent.key).await? {
                sub_agents.push(sub_agent);
            }
        }
        if tree && sub_agents.len() > most {
            return Err(Error::limit("sessions of one tree", most, sub_agents.len()));
        }
        sub_agents.truncate(most);
        Ok(sub_agents)
    }
}

/// Erases something of a session, or the session and then others with it.
async fn erase_all(
    shared: Arc<AppParts>,
    requester: Requester,
    (session, with): (SessionKey, Vec<SessionKey>),
    (target, reason, expected_revision): (EraseTarget, CheckedInput<String>, Option<Revision>),
) -> store::Result<Erasure> {
    let erasures = shared.store.erasures();
    let request = (target.clone(), reason.clone(), expected_revision);
    let mut erased = erasures.erase(session, requester.clone(), request, &shared.stopping).await;
    // Nothing begins to work for it any more.
    for sub_agent in with {
        let Ok(of_all) = &mut erased else { break };
        let request = (target.clone(), reason.clone(), None);
        match erasures.erase(sub_agent, requester.clone(), request, &shared.stopping).await {
            Ok(more) => of_all.add(&more),
            Err(error) => erased = Err(error),
        }
    }
    erased
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
            let left = match self.shared.store.erasures().unfinished().await {
                Ok(left) => left,
                Err(error) => {
                    tracing::warn!(%error, "erasures that have begun cannot be looked for");
                    continue;
                }
            };
            for session in left {
                match self.shared.store.erasures().go_on(session, &self.shared.stopping).await {
                    Ok(_) => {}
                    // The daemon stops.
                    Err(store::Error::Closed) => return,
                    Err(error) => tracing::warn!(session = session.0, %error, "the erasure of a session goes on later"),
                }
            }
        }
    }
}
