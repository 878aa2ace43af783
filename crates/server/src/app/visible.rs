//! What a caller sees: the sessions of its tenant, and of these only the ones that its access token is bound to.
//! Everything else is not there, with the same answer as for an id that nobody ever had.

use super::Caller;
use super::error::{Error, Reason, Result};
use crate::model::access::{Binding, Scope};
use crate::model::compaction::Compaction;
use crate::model::ids::{CompactionId, SessionId};
use crate::store::{self, Kind, SessionKey, Visibility, names_project};

impl Caller {
    /// The key of a session, by any of its ids.
    pub(super) async fn session_key(&self, id: &str) -> Result<SessionKey> {
        let key = self.store().sessions().find(&self.visibility, id).await?;
        self.named.add(id);
        Ok(key)
    }

    /// True if the caller sees a session that it did not name.
    pub(super) async fn sees(&self, key: SessionKey) -> Result<bool> {
        Ok(self.store().sessions().admits(&self.visibility, key).await?)
    }

    /// True if the caller sees the session with this id.
    pub(super) async fn sees_id(&self, id: SessionId) -> Result<bool> {
        if self.store().sessions().admit_all(&self.visibility) {
            return Ok(true);
        }
        match self.store().sessions().find(&self.visibility, &id.to_string()).await {
            Ok(_) => Ok(true),
            Err(store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The filter of events that the caller sees; none if it sees those of named sessions whatever happens: a session
    /// leaves no tenant and no tree, but it may leave a project.
    pub(super) fn visibility_of_events(&self, are_named: bool) -> Option<Visibility> {
        (!are_named || self.visibility.binding.project.is_some()).then(|| self.visibility.clone())
    }

    /// A compaction of a session that the caller sees.
    pub(super) async fn compaction(&self, id: CompactionId) -> Result<Compaction> {
        let compaction = self.store().compactions().get(id).await?;
        if self.sees_id(compaction.session_id).await? {
            return Ok(compaction);
        }
        Err(store::Error::NotFound { kind: Kind::Compaction, id: id.to_string() }.into())
    }

    /// Refuses a compaction of a session that the caller does not see.
    pub(super) async fn require_compaction(&self, id: CompactionId) -> Result<()> {
        if self.store().sessions().admit_all(&self.visibility) {
            return Ok(());
        }
        self.compaction(id).await.map(drop)
    }

    /// Refuses a new session outside of what the caller is bound to.
    pub(super) fn require_inside(&self, metadata_json: Option<&str>, parent: Option<SessionKey>) -> Result<()> {
        let Binding { project, root } = &*self.visibility.binding;
        if let Some(project) = project
            && !names_project(metadata_json, project)
        {
            return Err(outside(project));
        }
        // A parent that is not inside was not found.
        if root.is_some() && parent.is_none() {
            let why = "is not given, and the access token is bound to a session and those that work for it";
            return Err(Error::field("parent_session_id", why));
        }
        Ok(())
    }

    /// Refuses metadata with which a session would leave what the caller is bound to.
    pub(super) fn require_to_stay(&self, metadata_json: Option<&str>) -> Result<()> {
        match &self.visibility.binding.project {
            Some(project) if metadata_json.is_some() && !names_project(metadata_json, project) => Err(outside(project)),
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses what concerns the store as a whole to everybody but an operator.
    pub fn require_operator(&self) -> Result<()> {
        if self.access().is_operator() {
            return Ok(());
        }
        let message = "the store as a whole is for access tokens of the default tenant that are bound to no sessions";
        Err(Error::new(Reason::ScopeMissing, message).with("scope", Scope::Admin))
    }
}

fn outside(project: &str) -> Error {
    Error::field("metadata_json", format_args!("has not the project {project:?}, which the access token is bound to"))
}
