//! Sessions: making, finding, changing, forking and listing them.

use super::error::Result;
use super::integrity::verify;
use super::ledger::ancestry;
use super::ledger::head::{Receipt, SessionKey};
use super::ledger::policies::PolicyText;
use super::ledger::receipts;
use super::ledger::sessions::{self, CreateSession, ForkSession, SessionPage, UpdateSession};
use super::ledger::tx::Requester;
use super::shared::Shared;
use super::writer::Mutation;
use crate::model::Revision;
use crate::model::ids::SessionId;
use crate::model::session::{Session, SessionState};
use crate::telemetry::span;
use std::sync::Arc;

/// Sessions: making, finding, changing, forking and listing them.
#[derive(Clone)]
pub struct Sessions(pub(super) Arc<Shared>);

impl Sessions {
    /// Finds a session by its id or its client's id.
    pub async fn find(&self, id: &str) -> Result<SessionKey> {
        self.0
            .brief(|reader| {
                let key = SessionKey(ancestry::find(reader, id)?.key);
                if span::records_session() {
                    span::record("session", ancestry::public_id(reader.conn, key.0)?);
                }
                Ok(key)
            })
            .await
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

    /// A page of sessions, newest first. Large sessions can make a page shorter.
    pub async fn list(
        &self,
        below: Option<i64>,
        archived: bool,
        parent: Option<SessionKey>,
        limit: i64,
    ) -> Result<SessionPage> {
        self.0.reading(|reader| sessions::page(reader, below, archived, parent, limit)).await
    }

    /// Makes a session; true if it existed.
    pub async fn create(&self, create: CreateSession, caller: Requester) -> Result<(SessionKey, bool)> {
        self.0.write(Mutation::session("create"), move |tx| create.clone().apply(tx, &caller)).await
    }

    /// The answer to an earlier request with the same id, if there was one.
    pub async fn kept_answer(&self, key: SessionKey, caller: &Requester) -> Result<Option<Receipt>> {
        self.0.brief(|reader| receipts::kept_answer(reader, key.0, caller)).await
    }

    /// Changes a session.
    pub async fn update(&self, key: SessionKey, update: UpdateSession, caller: Requester) -> Result<Receipt> {
        self.0.write(Mutation::change("update"), move |tx| update.clone().apply(tx, key, &caller)).await
    }

    /// Archives or restores a session.
    pub async fn set_state(&self, key: SessionKey, state: SessionState, caller: Requester) -> Result<Receipt> {
        self.0.write(Mutation::change("archive"), move |tx| sessions::set_state(tx, key, state, &caller)).await
    }

    /// Forks a session; true if the fork existed.
    pub async fn fork(&self, key: SessionKey, fork: ForkSession, caller: Requester) -> Result<(SessionKey, bool)> {
        self.0.write(Mutation::change("fork"), move |tx| fork.clone().apply(tx, key, &caller)).await
    }

    /// The number of sessions.
    pub async fn count(&self) -> Result<i64> {
        self.0.reading(verify::session_count).await
    }
}
