//! Sessions: making, finding, changing, forking and listing them.

use super::checked::CheckedInput;
use super::error::{Error, Kind, Result};
use super::integrity::verify;
use super::ledger::ancestry;
use super::ledger::head::{Receipt, SessionKey};
use super::ledger::labels::{self, LabelChange};
use super::ledger::policies::PolicyText;
use super::ledger::quotas::{self, ContentQuota, ContentUse};
use super::ledger::receipts;
use super::ledger::session_filter::{self, SessionFilter};
use super::ledger::session_list::{self, ListPosition, ListedSession, SessionList, SessionPage};
use super::ledger::sessions::{self, CreateSession, ForkSession, UpdateSession};
use super::ledger::tx::Requester;
use super::ledger::visibility::Visibility;
use super::shared::StoreParts;
use super::writer::Mutation;
use crate::model::Revision;
use crate::model::ids::SessionId;
use crate::model::session::{Session, SessionState};
use crate::model::time::Timestamp;
use crate::telemetry::span;
use std::collections::HashMap;
use std::sync::Arc;

/// Sessions: making, finding, changing, forking and listing them.
#[derive(Clone)]
pub struct Sessions(pub(super) Arc<StoreParts>);

impl Sessions {
    /// Finds a session by its id or its client's id. One that is not visible is not there.
    pub async fn find(&self, visibility: &Visibility, id: &str) -> Result<SessionKey> {
        self.0
            .brief(|reader| {
                let key = SessionKey(ancestry::find(reader, &visibility.tenant, id)?.key);
                if !visibility.is_unbound() && !self.0.memberships.admits(reader, visibility, key.0)? {
                    return Err(Error::not_found(Kind::Session, id));
                }
                if span::records_session() {
                    span::record("session", ancestry::public_id(reader.conn, key.0)?);
                }
                Ok(key)
            })
            .await
    }

    /// True if every session of the store is visible, which costs nothing to know.
    pub fn admit_all(&self, visibility: &Visibility) -> bool {
        self.0.memberships.admit_all(visibility)
    }

    /// True if a session is visible.
    pub async fn admits(&self, visibility: &Visibility, key: SessionKey) -> Result<bool> {
        match self.0.memberships.cached_visibility(visibility, key.0) {
            Some(known) => Ok(known),
            None => self.0.brief(|reader| self.0.memberships.admits(reader, visibility, key.0)).await,
        }
    }

    /// Holds tenants to quotas of content from now on; called before anything is written. Later calls have no effect.
    pub async fn hold(&self, quotas: HashMap<Arc<str>, ContentQuota>, now: Timestamp) -> Result<()> {
        let uses = self.0.reading(|reader| quotas::uses(reader, now)).await?;
        self.0.quotas.hold(quotas, &uses, now);
        Ok(())
    }

    /// The quotas of content with what tenants use of them.
    pub fn content_uses(&self, now: Timestamp) -> Vec<(Arc<str>, ContentQuota, ContentUse)> {
        self.0.quotas.all_uses(now)
    }

    /// True if the quota of a session's tenant lets requests to models be sent for it.
    pub async fn may_ask_models(&self, key: SessionKey, now: Timestamp) -> Result<bool> {
        if self.0.quotas.is_empty() {
            return Ok(true);
        }
        let tenant = self.0.brief(|reader| quotas::tenant(reader, key.0)).await?;
        Ok(self.0.quotas.may_ask(&tenant, now))
    }

    /// A session in its newest state, with its policy.
    pub async fn get(&self, key: SessionKey) -> Result<(Session, PolicyText)> {
        self.0.brief(|reader| sessions::with_policy(reader, key.0)).await
    }

    /// The last revision that a session's history shares with a session that it was forked from, directly or not; none
    /// if it was not.
    pub async fn shared_with(&self, session: SessionKey, other: SessionId) -> Result<Option<Revision>> {
        self.0.reading(|reader| ancestry::shared_with(reader, session.0, other)).await
    }

    /// A session's id.
    pub async fn id(&self, key: SessionKey) -> Result<SessionId> {
        self.0.brief(|reader| ancestry::public_id(reader.conn, key.0)).await
    }

    /// A page of a list, of at most so many sessions and about so many bytes. A page looks at a limited number of
    /// sessions, so it may be short or empty before the end.
    pub async fn list(
        &self,
        list: &SessionList,
        start: Option<ListPosition>,
        most: (i64, usize),
    ) -> Result<SessionPage> {
        self.0.reading(|reader| session_list::page(reader, &self.0.memberships, list, start, most)).await
    }

    /// Sessions as they are now, by their ids: whole those that a filter admits.
    pub async fn current(
        &self,
        filter: &SessionFilter,
        ids: &[SessionId],
    ) -> Result<Vec<(SessionKey, Option<ListedSession>)>> {
        self.0.reading(|reader| session_list::current(reader, &self.0.memberships, filter, ids)).await
    }

    /// Ids of forks that have the metadata of these sessions, because they have none of their own, behind a key; and the
    /// last key.
    pub async fn inheriting(
        &self,
        sources: &[SessionKey],
        behind: i64,
        limit: i64,
    ) -> Result<Vec<(SessionKey, SessionId)>> {
        let sources: Vec<i64> = sources.iter().map(|key| key.0).collect();
        self.0
            .reading(|reader| {
                let keys = session_filter::inheriting(reader, &sources, behind, limit)?;
                keys.into_iter().map(|key| Ok((SessionKey(key), ancestry::public_id(reader.conn, key)?))).collect()
            })
            .await
    }

    /// Adds a label to a session, or removes one.
    pub async fn change_label(&self, key: SessionKey, change: LabelChange, caller: Requester) -> Result<Receipt> {
        self.0.write(Mutation::derived("label", 0), move |tx| labels::change(tx, key, &change, &caller)).await
    }

    /// Makes a session; true if it existed.
    pub async fn create(&self, create: CheckedInput<CreateSession>, caller: Requester) -> Result<(SessionKey, bool)> {
        let (create, caller) = create.with_author(caller);
        self.0.memberships.expect(&create.tenant);
        self.0.write(Mutation::session("create"), move |tx| create.apply(tx, &caller)).await
    }

    /// The answer to an earlier request with the same id, if there was one.
    pub async fn kept_answer(&self, key: SessionKey, caller: &Requester) -> Result<Option<Receipt>> {
        self.0.brief(|reader| receipts::kept_answer(reader, key.0, caller)).await
    }

    /// Changes a session.
    pub async fn update(
        &self,
        key: SessionKey,
        update: CheckedInput<UpdateSession>,
        caller: Requester,
    ) -> Result<Receipt> {
        let (update, caller) = update.with_author(caller);
        self.0.write(Mutation::change("update"), move |tx| update.apply(tx, key, &caller)).await
    }

    /// Archives or restores a session.
    pub async fn set_state(&self, key: SessionKey, state: SessionState, caller: Requester) -> Result<Receipt> {
        self.0.write(Mutation::change("archive"), move |tx| sessions::set_state(tx, key, state, &caller)).await
    }

    /// Forks a session; true if the fork existed.
    pub async fn fork(
        &self,
        key: SessionKey,
        fork: CheckedInput<ForkSession>,
        caller: Requester,
    ) -> Result<(SessionKey, bool)> {
        let (fork, caller) = fork.with_author(caller);
        self.0.write(Mutation::change("fork"), move |tx| fork.apply(tx, key, &caller)).await
    }

    /// The number of sessions.
    pub async fn count(&self) -> Result<i64> {
        self.0.reading(verify::session_count).await
    }
}
