//! Lists of sessions, and the conditions on what they have.

use super::error::{Error, Result};
use super::nouns::Sessions;
use super::sessions::SessionInfo;
use super::{page_size, validate};
use crate::limits;
use crate::model::session::SessionState;
use crate::store::{ListedSession, SessionFilter, SessionList, Visibility};
pub use crate::store::{MetadataTerm, SessionOrder, TimeRange};

/// Conditions on sessions. All must hold; an empty one does not count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionConditions {
    /// The root of a tree: itself, its sub-agents and its forks, at any depth.
    pub root: Option<String>,
    /// The session that it works for.
    pub parent: Option<String>,
    /// The project in its metadata.
    pub project: Option<String>,
    /// The directory in its metadata, or one above it.
    pub directory: Option<String>,
    /// Labels; a session must have all of them.
    pub labels: Vec<String>,
    /// Conditions on its metadata: a name, or a name and a text with `=` between them.
    pub metadata: Vec<String>,
    /// The actor that made it.
    pub actor: Option<String>,
    /// The state. Without it: active sessions, or with `archived` all.
    pub state: Option<SessionState>,
    /// Lists archived sessions too.
    pub archived: bool,
    /// The beginning of its title.
    pub title_prefix: String,
    /// The beginning of its client's id.
    pub client_id_prefix: String,
    /// When it was made.
    pub create_time: TimeRange,
    /// When it changed last.
    pub update_time: TimeRange,
    /// When its messages were written: elsewhere, or else here.
    pub origin_time: TimeRange,
}

/// Parameters of a page of sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListSessions {
    /// Maximum number of sessions; zero for 50.
    pub page_size: i64,
    /// The token of the page; empty for the first one.
    pub page_token: String,
    /// Which sessions.
    pub conditions: SessionConditions,
    /// Their order.
    pub order: SessionOrder,
    /// Each with its policy.
    pub has_policies: bool,
}

impl SessionConditions {
    fn check(&self) -> Result<()> {
        if let Some(directory) = &self.directory {
            validate::directory("directory", directory)?;
        }
        for (field, count) in [("labels", self.labels.len()), ("metadata_terms", self.metadata.len())] {
            if count > limits::FILTER_TERMS_MAX {
                return Err(Error::limit(field, limits::FILTER_TERMS_MAX, count));
            }
        }
        for (index, label) in self.labels.iter().enumerate() {
            validate::label(format_args!("labels[{index}]"), label)?;
        }
        for (index, term) in self.metadata.iter().enumerate() {
            validate::metadata_term(format_args!("metadata_terms[{index}]"), term)?;
        }
        if let Some(actor) = &self.actor {
            validate::name("actor", actor)?;
        }
        validate::title_of("title_prefix", &self.title_prefix)?;
        validate::name("client_id_prefix", &self.client_id_prefix)
    }

    /// The text that a page token is tied to.
    fn scope(&self, order: SessionOrder) -> String {
        format!("sessions {order:?} {self:?}")
    }
}

fn term(text: &str) -> MetadataTerm {
    match text.split_once('=') {
        Some((key, value)) => MetadataTerm { key: key.to_owned(), value: Some(value.to_owned()) },
        None => MetadataTerm { key: text.to_owned(), value: None },
    }
}

impl Sessions<'_> {
    /// The filter for conditions, within what the caller sees. Search and retention have the same conditions.
    pub(super) async fn filter(self, conditions: &SessionConditions) -> Result<SessionFilter> {
        conditions.check()?;
        let scope = self.caller.events().scope(conditions.root.as_deref(), conditions.project.as_deref()).await?;
        let parent = match &conditions.parent {
            Some(parent) => Some(self.caller.session_key(parent).await?),
            None => None,
        };
        let state = match conditions.state {
            None if !conditions.archived => Some(SessionState::Active),
            state => state,
        };
        Ok(SessionFilter {
            visibility: scope.unwrap_or_else(|| Visibility::clone(&self.caller.visibility)),
            parent,
            state,
            actor: conditions.actor.clone(),
            labels: conditions.labels.clone(),
            directory: conditions.directory.clone(),
            metadata: conditions.metadata.iter().map(|text| term(text)).collect(),
            title_prefix: conditions.title_prefix.clone(),
            client_id_prefix: conditions.client_id_prefix.clone(),
            create_time: conditions.create_time,
            update_time: conditions.update_time,
            origin_time: conditions.origin_time,
        })
    }

    /// A page of sessions, and the token of the next page. A page looks at a limited number of sessions, so it may be
    /// short or empty before the end.
    pub async fn list(self, request: &ListSessions) -> Result<(Vec<SessionInfo>, String)> {
        let (sessions, next) = self.list_with_tokens(request).await?;
        Ok((sessions.into_iter().map(|(session, _)| session).collect(), next))
    }

    /// The same page, each session with the token of a page that begins behind it.
    pub async fn list_with_tokens(self, request: &ListSessions) -> Result<(Vec<(SessionInfo, String)>, String)> {
        let ListSessions { page_size: size, page_token, conditions, order, has_policies } = request;
        let limit = page_size(*size)?;
        let scope = conditions.scope(*order);
        let start = self.caller.list_start(page_token, &scope)?;
        let filter = self.filter(conditions).await?;
        let list = SessionList { filter, order: *order, has_policies: *has_policies };
        let most = (limit, limits::PAGE_BYTES_MAX);
        let (sessions, next) = self.caller.store().sessions().list(&list, start, most).await?;
        let next = next.map(|place| self.caller.list_token(place, &scope)).unwrap_or_default();
        let with_token = |listed: ListedSession| {
            let token = self.caller.list_token(order.position_of(&listed), &scope);
            (self.listed_info(listed), token)
        };
        Ok((sessions.into_iter().map(with_token).collect(), next))
    }

    /// A session of a list, with its context usage of now if it is in memory.
    pub(super) fn listed_info(self, listed: ListedSession) -> SessionInfo {
        let ListedSession { key, mut session, policy_json } = listed;
        session.context = self.caller.shared.loaded.context(key).or(session.context);
        SessionInfo { session, policy_json, over_window: None, thresholds: Vec::new(), provider_compaction: None }
    }
}
